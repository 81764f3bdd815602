#!/usr/bin/env python3
# tests/tree/program_errors_test.py -- messages of the program word for word, as its users meet them
# on stderr. tools/check_error_texts.py lists those that no test names.
import json
import os
import pathlib
import sqlite3
import subprocess
import sys
import tempfile

from program import BUILTIN, Luminal, check, failures, npy


class Refusals:
    def __init__(self, luminal):
        self.luminal = luminal

    def __call__(self, expected, *args, stdin=None, stdout=subprocess.PIPE, **variables):
        """The run ends with 1 and one line, `luminal: EXPECTED`; notes before it are no mistake."""
        environment = self.luminal.environment | variables
        given = os.open(stdin or os.devnull, os.O_RDONLY)  # a folder, too
        done = subprocess.run([self.luminal.program, *map(str, args)], stdin=given, stdout=stdout,
                              stderr=subprocess.PIPE, timeout=600, env=environment)
        os.close(given)
        lines = [line for line in done.stderr.decode().splitlines() if line.startswith("luminal: ")]
        check(done.returncode == 1 and lines == ["luminal: " + expected],
              f"{args} ends with {done.returncode} and says {lines}, expected {expected!r}")


def running(refuse, luminal, folder):
    """`luminal run` and `luminal bench`: prompts, contexts, a model without a tokenizer, a full disk."""
    hf, model = BUILTIN / "hf", folder / "tiny.gguf"
    long = "one two three " * 300
    tokens = len(json.loads(luminal("run", hf, "one two three " * 100, "-n", 1,
                                    "--json")[0])["prompt_tokens"])
    check(tokens > 100, f"{tokens} tokens of a long prompt")
    _, errors = luminal("run", hf, long, code=1)
    check("the prompt has " in errors and ", the context holds 512: raise --ctx (the model was trained for "
                                          "512) or shorten the prompt" in errors, errors)
    count = errors.split("the prompt has ")[1].split()[0]
    refuse(f"the prompt has {count} tokens, the context holds 512: raise --ctx (the model was trained for "
           f"512) or shorten the prompt", "run", hf, long)
    luminal("bench", "--random-weights", "tiny", "--type", "f32", "-r", 0, "--save", model)
    kind = f'{model}: tokenizer of kind "none", expected llama, gpt2, bert or t5'
    refuse(f"{kind}, so a text cannot be read; give the prompt as ids: --tokens 1,5,9", "run", model, "hi")
    refuse(f"{model}: the prompt is empty and the model names no begin token; give a prompt", "run", model,
           "")
    refuse("standard input cannot be read: Is a directory", "run", hf, "-", stdin=folder)
    with open("/dev/full", "wb") as full:
        refuse("stdout cannot be written", "run", hf, "hi", "-n", 4, "--temp", 0, stdout=full)
    refuse("tiny (BF16, random weights): 4096 positions are asked for (--depth and the longer of -p and -n), "
           "the model has 2048",
           "bench", "--random-weights", "tiny", "-p", 4096)


def modules(refuse, folder):
    """`luminal eval` and `luminal export`: inputs, dimensions, results, weights, targets."""
    def module(name, text):
        (folder / name).write_text(text)
        return folder / name

    def array(name, values, shape):
        (folder / name).write_bytes(npy(values, shape))
        return folder / name
    two = module("two.lum",
                 "symbol S: 1..8\nsymbol T: 2..8 multiple 2\nfn @main(%x: f32[S, 3], %t: f32[S * 2, 3]) {\n"
                 "  %i = iota i64 [t: T] -> t\n  %y = exp %x\n  %z = exp %t\n  return y = %y, z = %z, i = "
                 "%i\n}\n")
    x, t, wrong = array("x.npy", range(6), (2, 3)), array("t.npy", range(12),
                                                          (4, 3)), array("s.npy", range(9), (3, 3))
    inputs = ["-i", x, "-i", t]
    empty = module("empty.lum", "")
    refuse(f"{empty}:1:1: a module needs a function", "eval", empty)
    refuse(f"{empty}:1:1: a module needs a function", "export", empty, "--out", folder / "x")
    refuse("input x (f32[S, 3]) is missing: the files have t", "eval", two, "-i", t)
    refuse("dimension T (2..8) has no value: no input has an axis of this size, say --dim T=SIZE", "eval",
           two, *inputs)
    refuse("--dim T=9: dimension T would be 9, declared is 2..8 multiple 2", "eval", two, *inputs, "--dim",
           "T=9")
    refuse("--dim T=3: dimension T would be 3, declared is 2..8 multiple 2", "eval", two, *inputs, "--dim",
           "T=3")
    (folder / "wrong").mkdir()
    os.rename(wrong, folder / "wrong" / "t.npy")
    wrong = folder / "wrong" / "t.npy"
    refuse("input t has shape [3, 3], the module wants f32[S*2, 3] = [4, 3]", "eval", two, "-i", x, "-i",
           wrong, "--dim", "T=2")
    refuse(f"{two}: offset 0: this is a text file, expected a safetensors file", "eval", two, "-i", two)
    refuse(f"{t} and {wrong} both have a tensor t", "eval", two, *inputs, "-i", wrong, "--dim", "T=2")
    out = folder / "out.npy"
    refuse(f"{out}: an .npy file holds one array, the module has 3 results", "eval", two, *inputs, "--dim",
           "T=2", "-o", out)
    narrow = module("narrow.lum", "fn @main(%x: f32[2, 3]) {\n  %y = cast i4 %x\n  return y = %y\n}\n")
    out = folder / "out.safetensors"
    refuse(f"{out}: result y is i4, which no file holds; cast it in the module", "eval", narrow, "-i", x,
           "-o", out)
    huge = module("huge.lum", "fn @main(%x: f32[2], state %s: f32[1099511627776, 4]) {\n  %y = exp %x\n  "
                              "return y = %y, s = %s -> s\n}\n")
    flat = array("flat.npy", [1, 2], (2,))
    os.rename(flat, folder / "wrong" / "x.npy")
    refuse("input s (f32[1099511627776, 4]) has too many elements", "eval", huge, "-i",
           folder / "wrong" / "x.npy")
    weighted = module("w.lum",
                      "fn @main(%x: f32[4], weight %w: f32[4]) {\n  %y = mul %x, %w\n  return y = %y\n}\n")
    refuse(f"{weighted}: weight w (f32[4]) is missing: the files of --inputs have none", "export", weighted,
           "--out", folder / "x")
    done = subprocess.run([refuse.luminal.program, "export", weighted, "--out", folder / "x", "--target",
                           "pdp-11"], stderr=subprocess.PIPE,
                          env=refuse.luminal.environment)
    known = ("Known are host, x86-64-v3 (AVX2), x86-64-v4 (AVX-512), aarch64 (NEON) and LLVM's names of "
             "processors, such as znver4 or neoverse-v1")
    said = done.stderr.decode()
    why = said.removeprefix("luminal: --target pdp-11: ").removesuffix(f". {known}\n")
    check(done.returncode == 1 and said ==
          f"luminal: --target pdp-11: {why}. Known are host, x86-64-v3 (AVX2), x86-64-v4 (AVX-512), "
          f"aarch64 (NEON) and LLVM's names of processors, such as znver4 or neoverse-v1\n", said)


def caches(refuse, luminal, folder):
    """`luminal cache`: no place, rows that something else wrote."""
    refuse("there is no tuning cache: LUMINAL_NO_CACHE is set, or there is no home; --cache FILE names one",
           "cache", "ls", LUMINAL_NO_CACHE="1")
    entry = dict(name="m", structure="0" * 31 + "1", dtypes="f32", bucket="m=1", layouts="rows",
                 numeric="reassoc", rules="0" * 16, codegen="f" * 16,
                 llvm="19.1.7", device="8" * 16, instructions="x86_64 znver4", threads=2,
                 schedule="split mm i io ii 6\n", seconds=1e-5, samples=40,
                 limit_fraction=0.5)
    (folder / "a.jsonl").write_text(json.dumps({"luminal_tuning": 1}) + "\n" + json.dumps(entry) + "\n")
    other = folder / "other.sqlite"
    luminal("cache", "import", "--cache", other, folder / "a.jsonl")
    file = sqlite3.connect(other)
    file.execute("UPDATE tuned SET seconds = -1")
    file.commit()
    file.close()
    _, errors = luminal("cache", "merge", "--cache", folder / "new.sqlite", other, code=1)
    check(errors.splitlines()[0].endswith(f"{other}: 1 rows are not sound and were left out"),
          f"a row that is not sound: {errors}")


def main():
    with tempfile.TemporaryDirectory(prefix="luminal errors ") as scratch:
        folder = pathlib.Path(scratch)
        luminal = Luminal(sys.argv[1], folder / "cache")
        refuse = Refusals(luminal)
        for name, part in dict(run=lambda f: running(refuse, luminal, f),
                               modules=lambda f: modules(refuse, f),
                               caches=lambda f: caches(refuse, luminal, f)).items():
            (folder / name).mkdir()
            part(folder / name)
    print(f"{len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
