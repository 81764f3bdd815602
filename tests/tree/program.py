# tests/tree/program.py -- what the tests of the program share: running it, counting what is wrong,
# the keys that docs/program.md names, modules and arrays to run it on.
import json
import os
import pathlib
import re
import struct
import subprocess
import time

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
BUILTIN = SOURCE / "models" / "builtin"
failures = []


def check(good, what):
    if not good:
        failures.append(what)
        print("WRONG", what)


class Luminal:
    def __init__(self, program, cache):
        self.program = program
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("LUMINAL_")}
        self.environment |= dict(LUMINAL_CACHE_DIR=str(cache), LUMINAL_THREADS="2")

    def __call__(self, *args, code=0, stdout=subprocess.PIPE, given=None, **variables):
        """(stdout as bytes, stderr) of a run that ends with this code. given: standard input."""
        source = dict(input=given) if given is not None else dict(stdin=subprocess.DEVNULL)
        done = subprocess.run([self.program, *map(str, args)], **source, stdout=stdout,
                              stderr=subprocess.PIPE,
                              timeout=600, env={k: v for k, v in (self.environment | variables).items()
                                                if v is not None})
        errors = done.stderr.decode()
        check(done.returncode == code,
              f"{args} {variables} ends with {done.returncode}, expected {code}: {errors[-300:]}")
        return done.stdout, errors

    def refuses(self, *args, says, code=1, **variables):
        out, errors = self(*args, code=code, **variables)
        lines = [line for line in errors.splitlines() if line.startswith("luminal: ")]
        check(len(lines) == 1 and re.search(says, lines[0]),
              f"{args}: {errors!r} does not say {says!r} in one line")
        check(not re.search(r"\.(cpp|h):\d", errors),
              f"{args}: {errors!r} names a line of the program itself")
        check(out == b"", f"{args}: {out!r} on stdout")


def until_caught(process, number):
    """Waits until the process has a handler for the signal: before, the signal ends it as it ends
    any program."""
    while process.poll() is None:
        caught = re.search(r"^SigCgt:\s*([0-9a-f]+)", pathlib.Path(f"/proc/{process.pid}/status").read_text(),
                           re.M)
        if caught and int(caught[1], 16) >> (number - 1) & 1:
            return
        time.sleep(0.01)


def documented(heading, table=0):
    """Keys in the first column of a table below a heading of docs/program.md."""
    page = (SOURCE / "docs" / "program.md").read_text()
    section = page.split(f"\n## {heading}", 1)[1].split("\n## ")[0]
    tables = re.findall(r"(?:^\|.*\n)+", section, re.M)
    return {key for row in tables[table].splitlines()[2:]
            for key in re.findall(r"`(\w+)`", row.split("|")[1])}


def documented_words(heading):
    page = (SOURCE / "docs" / "program.md").read_text()
    return set(re.findall(r"`(\w+)`", page.split(f"\n## {heading}", 1)[1].split("\n## ")[0]))


TERMS = """
fn @main(%x: f32[96, 64], weight %w: f32[64, 80]) {
  %a = view %x [m: 96, n: 80, k: 64] -> [m, k]
  %b = view %w [m: 96, n: 80, k: 64] -> [k, n]
  %p = mul %a, %b
  %f = fold [m: 96, n: 80, k: 64] over [k] { sum %p[m, n, k] }
  %g = get %f, 0
  %e = exp %g
  %s = fold [m: 96, n: 80] over [n] { sum %e[m, n] }
  %t = get %s, 0
  return y = %g, z = %t
}
"""
SIZED = """symbol n: 1..128
fn @main(%x: f32[n, 64], weight %w: f32[64, 80]) {
  %a = view %x [m: n, o: 80, k: 64] -> [m, k]
  %b = view %w [m: n, o: 80, k: 64] -> [k, o]
  %p = mul %a, %b
  %f = fold [m: n, o: 80, k: 64] over [k] { sum %p[m, o, k] }
  %g = get %f, 0
  return y = %g
}
"""
MODULE = """symbol S: 1..8
symbol T: 1..8
assume S + T <= 10
fn @main(%x: f32[S, 3], weight %w: f32[3], state %total: f32[3]) {
  %b = view %w [i: S, j: 3] -> [j]
  %p = mul %x, %b
  %f = fold [i: S, j: 3] over [i] { sum %p[i, j] }
  %s = get %f, 0
  %n = add %total, %s
  %i = iota i64 [t: T] -> t * t
  return y = %p, squares = %i, next = %n -> total after y
}
"""


def npy(values, shape, code="<f4", size=4, kind="f"):
    """An .npy image, made by hand."""
    extents = ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "")
    head = f"{{'descr': '{code}', 'fortran_order': False, 'shape': ({extents}), }}"
    head += " " * (63 - (10 + len(head)) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + struct.pack(
        f"<{len(values)}{kind}", *values)


def safetensors(path):
    """{name: (dtype, shape, bytes)} of a file."""
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    head = json.loads(data[8:8 + size])
    return {n: (t["dtype"], t["shape"], data[8 + size + t["data_offsets"][0]:8 + size + t["data_offsets"][1]])
            for n, t in head.items()}


def shell(luminal, line, code, says=None):
    """A line of bash with $L as the program; its code, and on stderr (where it is `2>` nowhere) one
    of these words."""
    done = subprocess.run(["bash", "-c", line], capture_output=True, timeout=600,
                          env=luminal.environment | dict(L=luminal.program))
    errors = done.stderr.decode()
    check(done.returncode == code, f"{line}: code {done.returncode}, expected {code}: {errors[-300:]}")
    check(says is None or says in errors, f"{line}: {errors!r} does not say {says!r}")
    return done.stdout
