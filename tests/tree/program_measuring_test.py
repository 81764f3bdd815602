#!/usr/bin/env python3
# tests/tree/program_measuring_test.py -- the program beside others: what tuning left is used, one
# process measures at a time, names in files reach no terminal unescaped.
import fcntl
import json
import os
import pathlib
import signal
import struct
import subprocess
import sys
import tempfile
import time

from program import BUILTIN, SIZED, Luminal, check, failures, until_caught


def escapes(luminal, folder):
    """What a file calls its model, its keys and its tensors reaches no terminal unescaped."""
    folder.mkdir()
    data = (BUILTIN / "luminal-tales.gguf").read_bytes()
    for old, new in ((b"luminal-tales", b"\x1b[31mred\x1b[0m"), (b"general.description", b"general.\x1b[2J"),
                     (b"general.license", b"general.\x1b]0;")):
        check(old in data, f"the model that is built in has no {old}")
        data = data.replace(old, new.ljust(len(old), b"x"), 1)
    model = folder / "red.gguf"
    model.write_bytes(data)
    foreign = folder / "\x1b[31mred.gguf"
    foreign.write_bytes(data[:1000])
    for code, *args in ((0, "inspect", model), (0, "inspect", model, "--json"),
                        (0, "inspect", model, "--terms"), (0, "run", model, "Ada", "-n", 1, "--report"),
                        (0, "run", model, "Ada", "-n", 1, "--json"),
                        (0, "bench", model, "-p", 4, "-n", 4, "-r", 1, "--report"),
                        (1, "bench", model, "--max-memory", "1K"),
                        (1, "run", model, "Ada", "--max-memory", "1K"),
                        (0, "export", model, "--out", folder / "out"),
                        (0, "tune", model, "--budget", 0.1, "--report"), (1, "inspect", foreign),
                        (1, "run", foreign), (1, "eval", foreign), (1, "egg", foreign)):
        out, errors = luminal(*args, code=code)
        check(b"\x1b" not in out and "\x1b" not in errors, f"{args} prints an escape: {out!r} {errors!r}")
    shown = luminal("inspect", model)[0].decode()
    check("red" in shown and "x1b[31mred" in shown.lower() and "x1b[2j" in shown.lower(),
          f"inspect hides what the file has: {shown[:1500]}")
    for file in (folder / "out").iterdir():
        check(file.suffix not in (".c", ".h") or b"\x1b" not in file.read_bytes(), f"{file} has an escape")


def tuned_and_used(luminal, folder):
    """What `luminal tune` found is what `luminal eval` runs at that size, and at others as the
    nearest; both say so."""
    folder.mkdir()
    module, files = folder / "sized.lum", {}
    module.write_text(SIZED)
    for n in (16, 100):
        parts = [("x", [n, 64], [0.25] * (n * 64)), ("w", [64, 80], [0.5] * 5120)]
        head, body = {}, b""
        for name, shape, values in parts:
            data = struct.pack(f"<{len(values)}f", *values)
            head[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
            body += data
        text = json.dumps(head).encode()
        files[n] = folder / f"{n}.safetensors"
        files[n].write_bytes(struct.pack("<Q", len(text)) + text + body)
    luminal("cache", "prune", "--all")
    _, errors = luminal("eval", module, "-i", files[16], "--report")
    check(": tuned" not in errors and "default schedule" in errors, f"eval before tune: {errors[-1000:]}")
    luminal("tune", module, "--size", "n=16", "--budget", 100)
    entries = json.loads(luminal("cache", "ls", "--json")[0])["entries"]
    check(len(entries) >= 1, f"tune kept {entries}")
    for n in files:
        out, errors = luminal("eval", module, "-i", files[n], "--check", "--report")
        check(": tuned" in errors and "default schedule" not in errors,
              f"eval at n = {n} does not use what was tuned: {errors[-1000:]}")
        check(("tuned for other sizes (" in errors) == (n != 16), f"eval at n = {n}: {errors[-1000:]}")
        check(b"8" in out, out)


def carried(luminal, folder):
    """A plan that is carried to another cache gives the same kernels; of another program, or of another
    build, it does not pass in silence."""
    folder.mkdir()
    module, plan = folder / "sized.lum", folder / "sized.plan"
    module.write_text(SIZED)
    luminal("cache", "prune", "--all")
    luminal("tune", module, "--mode", "optimal", "--size", "n=16", "--export-plan", plan)
    lines = [json.loads(line) for line in plan.read_text().splitlines()]
    check(len(lines) >= 2 and "schedule" in lines[1], f"the plan has {lines}")

    def schedules(*more):
        out = json.loads(luminal("explain", module, "--size", "n=16", "--json", *more)[0])
        return [(kernel["schedule"], kernel["choice"]) for kernel in out["kernels"]]

    tuned = schedules()
    luminal("cache", "prune", "--all")
    usual, given = schedules(), schedules("--plan", plan)
    check([text for text, _ in given] == [text for text, _ in tuned], f"{given} is not {tuned}")
    check({choice for _, choice in given} == {"given"} and {choice for _, choice in usual} == {"default"},
          f"with the plan {given}, without {usual}")
    check(json.loads(luminal("cache", "ls", "--json")[0])["entries"] == [], "the plan went into the cache")
    other = folder / "other.lum"
    other.write_text("fn @main(%x: f32[7]) {\n  %y = exp %x\n  return y = %y\n}\n")
    check("has nothing for this program" in luminal("explain", other, "--plan", plan)[1],
          "a foreign plan is silent")
    for line in lines[1:]:
        line["codegen"] = "0" * 16
    plan.write_text("\n".join(map(json.dumps, lines)) + "\n")
    errors = luminal("explain", module, "--plan", plan, code=1)[1]
    check("another version of luminal" in errors, f"a plan of another version: {errors}")
    check("takes no plan" in luminal("tune", module, "--budget", 1, code=1, LUMINAL_PLAN=str(plan))[1],
          "a search with a plan")


MEASURE_LOCK = "/tmp/luminal.measuring.lock"


def measuring(luminal):
    """One process measures at a time, `devices --measure` and `run --tune` too; Ctrl-C ends waiting
    and searching."""
    tune = ["run", str(BUILTIN / "hf"), "Ada", "-n", "-1", "--ignore-eos", "--tune", "300"]
    process = subprocess.Popen([luminal.program, *tune, "--no-cache"], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, env=luminal.environment)
    until_caught(process, signal.SIGINT)
    time.sleep(2)  # it compiles, waits or measures
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=60)
    check(process.returncode == 130, f"Ctrl-C in run --tune: {process.returncode} {out} {errors}")
    try:
        descriptor = os.open(MEASURE_LOCK, os.O_RDONLY)
    except OSError as error:
        return print(f"left out: {error}")
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        pass  # somebody measures: the lock is held, which is what is needed
    for args in (["devices", "--measure"], tune):
        process = subprocess.Popen([luminal.program, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   env=luminal.environment)
        said = b""
        while b"waiting for" not in said and (line := process.stderr.readline()):
            said += line
        check(b"which is measuring (" + MEASURE_LOCK.encode() in said and process.poll() is None,
              f"{args} does not wait: {said}")
        begin = time.monotonic()
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=60)
        check(process.returncode == 130 and time.monotonic() - begin < 20,
              f"Ctrl-C while {args} waits: {process.returncode} {out} {errors}")
    os.close(descriptor)
    process = subprocess.Popen([luminal.program, "devices", "--measure", "--json"], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, env=luminal.environment)
    out, errors = process.communicate()
    check(process.returncode == 0 and json.loads(out)["guessed"] is False and
          f"waiting for process {process.pid},".encode() not in errors,
          f"devices --measure waits for itself: {process.returncode} {errors}")


def main():
    with tempfile.TemporaryDirectory(prefix="luminal program ") as scratch:
        folder = pathlib.Path(scratch)
        luminal = Luminal(sys.argv[1], folder / "cache")
        escapes(luminal, folder / "escapes")
        tuned_and_used(luminal, folder / "used")
        carried(luminal, folder / "carried")
        measuring(luminal)
    print(f"{len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
