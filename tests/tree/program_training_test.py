#!/usr/bin/env python3
# tests/tree/program_training_test.py -- `luminal train`: a small run that is interrupted and goes on,
# and what its configuration refuses, word for word.
import json
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

from program import Luminal, check, failures, until_caught

TABLE = "a,b,kind\n" + "".join(f"{i % 7},{(i * 5) % 11},{'even' if i % 2 == 0 else 'odd'}\n"
                                for i in range(60))
CONFIG = """
steps = 40
batch = 8
validation_fraction = 0.2
[data]
kind = "csv"
file = "table.csv"
target = "kind"
[model]
kind = "mlp"
hidden = [16]
outputs = 2
[optimizer]
rate = 0.01
"""


def runs(luminal, folder):
    """To the end; interrupted and resumed; the same bits."""
    config, whole, halves = folder / "config.toml", folder / "whole", folder / "halves"
    out, errors = luminal("train", config, "--folder", whole, "--json")
    told = json.loads(out)
    check(told["steps"] == 40 and not told["stopped"], told)
    check(told["parameters"] == 2 * 16 + 16 + 16 * 2 + 2, told)
    check(re.search(r"step 40/40 loss \S+ lr 1\.00e-02 gnorm \S+ accuracy \S+ .* ms/step .* samples/s mem",
          errors),
          errors)
    for name in ["config.json", "metrics.csv", "metrics.jsonl", "loss.svg", "model.safetensors"]:
        check((whole / name).exists(), f"{name} is not there")
    check(len((whole / "metrics.csv").read_text().splitlines()) == 1 + 40 + 2, "rows of metrics.csv")
    luminal.refuses("train", config, "--folder", whole,
                    says="holds a run already: resume it, or choose another folder$")
    process = subprocess.Popen([luminal.program, "train", config, "--folder", halves,
                                "--set", "steps=100000000", "--set", "log_every=1"],
                               stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, env=luminal.environment)
    until_caught(process, signal.SIGINT)
    while b"step 3/" not in process.stderr.readline():
        pass
    process.send_signal(signal.SIGINT)
    errors = process.communicate(timeout=120)[1].decode()
    check(process.returncode == 130 and "go on with: luminal train" in errors, errors[-500:])
    done = int(re.search(r"stopped at step (\d+), saved in", errors)[1])
    args = ["--set", f"steps={done + 5}", "--resume", "auto"]
    luminal("train", config, "--folder", halves, *args)
    luminal("train", config, "--folder", folder / "straight", "--set", f"steps={done + 5}")
    same = [(f / "model.safetensors").read_bytes() for f in (halves, folder / "straight")]
    check(same[0] == same[1], "a run that was resumed gives other bits")


def refusals(luminal, folder):
    config = folder / "config.toml"

    def refuse(says, *changes, file=config):
        changes = [word for change in changes for word in ("--set", change)]
        luminal.refuses("train", file, *changes, code=2, says=re.escape(says))

    refuse("steps: a whole number from 0 to 1099511627776 is expected, not \"many\"", "steps=many")
    refuse("clip_norm: a number from 0 to 1000000000 is expected, not -1", "clip_norm=-1")
    refuse("shuffle: true or false is expected, not 1", "shuffle=1")
    refuse("name: a text is expected, not 3", "name=3")
    refuse("data: it is missing", file=written(folder, "a.toml", "steps = 1\n"))
    refuse("model: it is missing", file=written(folder, "b.toml", CONFIG.split("[model]")[0]))
    refuse("data.file: it is missing",
           file=written(folder, "c.toml", "[data]\nkind = \"csv\"\ntarget = \"kind\"\n"))
    refuse("model.kind: one of mlp, cnn, resnet, gpt, llama, diffusion is expected, not mlpp; did you "
           "mean mlp?", "model.kind=mlpp")
    refuse("model.hidden: a list of whole numbers from 1 to 1048576 is expected, not [0]", "model.hidden=[0]")
    refuse("data.inputs: a list of texts is expected, not [1]", "data.inputs=[1]")
    refuse("optimizer: a table is expected, not \"adam\"", "optimizer=adam")
    refuse("optimizer.rat: there is no such key; did you mean rate?", "optimizer.rat=1")
    refuse("zzzzzzzzzzzz: there is no such key; there are accumulate, ", "zzzzzzzzzzzz=1")
    refuse("data.separator: one character is expected", "data.separator=ab")
    refuse("model.vocabulary: it is missing: the data are numbers without one", "model={kind=\"gpt\"}")
    written(folder, "abc.txt", "abcabcabc")
    refuse("model.vocabulary: a whole number from 3 to 16777216 is expected, not 2",
           file=written(folder, "h.toml", "[data]\nkind = 'text'\nfile = 'abc.txt'\ncontext = 2\n"
                                          "[model]\nkind = 'gpt'\nvocabulary = 2\n"))
    refuse("optimizer.nesterov: it needs a momentum, and no dampening",
           "optimizer={kind=\"sgd\",nesterov=true}")
    refuse("validation_fraction: there is a table validation already", "validation={file=\"table.csv\"}")
    refuse("nothing: KEY=VALUE is expected, such as optimizer.rate=0.01", "nothing")
    refuse("line 2: ", file=written(folder, "d.toml", "a = 1\nb = \n"))
    refuse("line 1: dates and times have no use here", file=written(folder, "e.toml", "a = 1979-05-27\n"))
    refuse("f.json: line 2: not JSON", file=written(folder, "f.json", "{\n]"))
    refuse("g.json: a JSON object is expected", file=written(folder, "g.json", "[]"))
    luminal.refuses("train", code=2, says="a configuration is missing: luminal train --example prints one")
    luminal.refuses("train", config, "--set", "data.file=none.csv",
                    says=r"none\.csv: No such file or directory$")
    luminal.refuses("train", folder / "none.toml", says=r"none\.toml: No such file or directory$")
    short = "[data]\nkind = 'arrays'\nx = 'x.npy'\ny = 'y.npy'\n[model]\nkind = 'mlp'\n"
    for name, shape in (("x", "(8, 2)"), ("y", "(7,)")):
        header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
        (folder / f"{name}.npy").write_bytes(b"\x93NUMPY\x01\x00\x76\x00" + header.encode() + bytes(
            4 * (16 if name == "x" else 7)))
    luminal.refuses("train", written(folder, "h.toml", short),
                    says=r"y\.npy has 7 samples, .+x\.npy has 8$")
    luminal.refuses("train", config, "--set", "data.target=none", says="no column none; there are a, b, kind")


def written(folder, name, text):
    (folder / name).write_text(text)
    return folder / name


def main():
    with tempfile.TemporaryDirectory(prefix="luminal training ") as scratch:
        folder = pathlib.Path(scratch)
        luminal = Luminal(sys.argv[1], folder / "cache")
        written(folder, "table.csv", TABLE)
        written(folder, "config.toml", CONFIG)
        refusals(luminal, folder)
        runs(luminal, folder)
        example = luminal("train", "--example")[0].decode()
        check("[optimizer]" in example, example)
    print(f"{len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
