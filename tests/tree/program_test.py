#!/usr/bin/env python3
# tests/tree/program_test.py -- the program as its users meet it: what goes to stdout and to stderr,
# exit codes, JSON keys as docs/program.md names them, mistakes, wrong files, tuning, Ctrl-C.
import json
import os
import pathlib
import platform
import re
import signal
import subprocess
import sys
import tempfile
import time

from program import (BUILTIN, MODULE, SIZED, SOURCE, TERMS, Luminal, check, documented, documented_words,
                     failures, until_caught)


def text_and_json(luminal):
    folder, gguf = BUILTIN / "hf", BUILTIN / "luminal-tales.gguf"
    reference = json.loads((BUILTIN / "reference.json").read_text())["greedy"]
    example = next(e for e in reference if e["prompt"])
    for model in (folder, gguf):
        out, errors = luminal("run", model, example["prompt"], "--temp", 0, "-n", len(example["tokens"]))
        check(out.decode() == example["prompt"] + example["text"] + "\n", f"{model}: {out!r}")
        check("tok/s" in errors and "seed" not in errors, f"{model}: closing line {errors!r}")
    answer = json.loads(luminal("run", folder, example["prompt"], "--temp", 0, "-n", 20, "--json")[0])
    check(set(answer) == documented("luminal run"), f"keys {sorted(answer)}")
    check(set(answer["timings"]) == documented("luminal run", 1),
          f"keys of timings {sorted(answer['timings'])}")
    check(answer["prompt_tokens"] == example["prompt_tokens"] and answer["tokens"] == example["tokens"][:20],
          "tokens of --json")
    check(answer["stop_reason"] == "length" and example["text"].startswith(answer["text"]), "text of --json")
    check(answer["timings"]["bandwidth_fraction"] is None, "a bandwidth that nobody measured")
    ids = ",".join(map(str, example["prompt_tokens"]))
    by_ids = json.loads(luminal("run", folder, "--tokens", ids, "--temp", 0, "-n", 20, "--json")[0])
    check(by_ids["tokens"] == answer["tokens"], "--tokens gives another text")
    stopped = json.loads(luminal("run", folder, example["prompt"], "--temp", 0, "--stop", ".", "--json")[0])
    check(stopped["stop_reason"] == "stop_string" and "." not in stopped["text"],
          f"--stop: {stopped['text']!r}")
    drawn = json.loads(luminal("run", folder, "Tell me a joke.", "-n", 30, "--json")[0])
    again = json.loads(luminal("run", folder, "Tell me a joke.", "-n", 30, "--json", "--seed",
                               drawn["seed"])[0])
    check(drawn["tokens"] == again["tokens"], "the printed seed does not give the same text")
    _, errors = luminal("run", folder, "Tell me a joke.", "-n", 3, "--seed", 5)
    check(errors.rstrip().endswith("seed 5"), f"no seed in {errors!r}")
    out, _ = luminal("run", folder, "", "--temp", 0, "-n", 8)
    start = out.decode().rstrip("\n")
    check(start and next(e for e in reference if not e["prompt"])["text"].startswith(start),
          f"empty prompt: {out!r}")
    for threads in (1, 3):
        other = json.loads(luminal("run", folder, example["prompt"], "--temp", 0, "-n", 20, "--json",
                                   "--threads", threads)[0])
        check(other["tokens"] == answer["tokens"], f"{threads} threads give another text")

    shown = json.loads(luminal("inspect", folder, "--json")[0])
    check(set(shown) <= documented_words("luminal inspect") and shown["config"]["num_layers"] > 0,
          f"inspect: {sorted(shown)}")
    check(set(shown["tensors"][0]) == {"name", "type", "shape", "offset", "bytes"},
          "inspect: keys of a tensor")
    doctor = json.loads(luminal("doctor", "--json")[0])
    check(set(doctor) <= documented_words("luminal doctor") and doctor["good"], f"doctor: {doctor}")
    settings = {row["name"] for row in json.loads(luminal("help", "env", "--json")[0])}
    used = set(re.findall(r'"(LUMINAL_[A-Z_]+)"', (SOURCE / "src/base/settings.cpp").read_text()))
    check(settings == used | {"NO_COLOR"}, f"help env: {settings ^ used}")


def prompts(luminal, folder):
    """Every way to give a prompt is the same prompt; special tokens in it are tokens; llama.cpp's
    spellings."""
    folder.mkdir()
    model, text = BUILTIN / "hf", "Tell me a joke about a cat."
    ids = lambda *args, **how: json.loads(luminal("run", *args, "-n", 2, "--temp", 0, "--json",
                                                  **how)[0])["prompt_tokens"]  # noqa: E731
    want = ids(model, text)
    (folder / "prompt.txt").write_text(text + "\n")
    (folder / "two.txt").write_text(text + "\n\n")
    for args, given in (((model, "-p", text), None), (("-m", model, "-p", text), None),
                        (("-m", model, text), None), ((text, "-m", model), None),
                        ((model, "-f", folder / "prompt.txt"), None), ((model, "-"), text.encode() + b"\n"),
                        ((model, "-f", "-"), text.encode()),
                        (("--model", model, "--file", folder / "prompt.txt", "--ctx-size", 64, "--batch-size",
                          8, "-no-cnv"), None)):
        got = ids(*args, given=given)
        check(got == want, f"{args}: {got}, expected {want}")
    check(len(json.loads(luminal("run", model, text, "--n-predict", 2, "--temp", 0,
                                 "--json")[0])["tokens"]) == 2, "--n-predict")
    check(ids(model, "-f", folder / "two.txt") != want, "more than one line's end is taken from a file")
    out, _ = luminal("run", model, text, "-n", 4, "--temp", 0, "--no-display-prompt")
    whole, _ = luminal("run", model, text, "-n", 4, "--temp", 0)
    check(whole == text.encode() + out, f"--no-display-prompt: {out!r} of {whole!r}")

    vocabulary = json.loads((model / "tokenizer.json").read_text())
    special = next(t for t in vocabulary["added_tokens"] if t["special"]
                   and t["content"] != vocabulary["model"].get("unk_token"))
    begin, token = want[0], special["id"]
    read = ids(model, f"{special['content']}hi{special['content']}")
    check(read[0] == begin and read.count(token) == 2 + (begin == token), f"special tokens: {read}")
    plain = ids(model, f"{special['content']}hi", "--no-parse-special")
    check(plain.count(token) == (begin == token) and len(plain) > 3, f"--no-parse-special: {plain}")
    if begin == token:
        _, errors = luminal("run", model, special["content"] + "hi", "-n", 1)
        check("the model adds another one" in errors, f"no note of two begin tokens: {errors!r}")

    refuse = lambda *args, says: luminal.refuses("run", *args, says=says, code=2)  # noqa: E731
    refuse(model, "hi", "--tokens", "1,2", says="the prompt is given twice: behind the model and by --tokens")
    refuse(model, "-p", "a", "-f", "b", says="the prompt is given twice: by --prompt and by --file")
    refuse("-m", model, model, "hi", says="the model is given twice")
    refuse("-p", "hi", says=r"the model is missing: luminal run MODEL \[PROMPT\]")
    refuse(model, "--tokens", "1", "--no-parse-special", says="the prompt is given as ids")
    for args, says in ((("-ngl", "99"), "--gpu-layers: all layers run on one device"),
                       (("-i",), "--interactive: there is no conversation"),
                       (("-fa",), "--flash-attn: "),
                       (("-ctk", "f16"), "--cache-type f16"),
                       (("--mirostat", "2"), "--top-p")):
        refuse(model, "hi", *args, says=re.escape(says))
    luminal.refuses("run", model, "-f", folder / "none.txt", says="none.txt: No such file")


def grammars(luminal, folder):
    """run: the text fits, ends where nothing may follow; a wrong grammar is told before the model loads."""
    folder.mkdir()
    rules = 'root ::= "the " ("cat" | "dog") "."'
    text = luminal("run", BUILTIN / "hf", "Ada saw ", "--grammar", rules, "--no-display-prompt")[0].decode()
    check(text in ("the cat.\n", "the dog.\n"), f"--grammar gives {text!r}")
    (folder / "rules.gbnf").write_text(rules)
    (folder / "schema.json").write_text('{"type":"array","items":{"type":"integer","maximum":9,"minimum":0},'
                                        '"minItems":2,"maxItems":4}')
    model = BUILTIN / "hf"
    answer = json.loads(luminal("run", model, "Ada", "--grammar-file", folder / "rules.gbnf", "--json")[0])
    check(answer["text"] in ("the cat.", "the dog.") and answer["stop_reason"] == "end_of_text",
          f"--grammar-file: {answer}")
    numbers = json.loads(luminal("run", model, "Ada", "--json-schema-file", folder / "schema.json",
                                 "--seed", "3", "--no-display-prompt")[0])
    check(2 <= len(numbers) <= 4 and all(0 <= n <= 9 for n in numbers), f"--json-schema-file: {numbers}")
    luminal.refuses("run", model, "a", "--grammar", "root ::= x", says='rule "x" is used and not defined')
    luminal.refuses("run", model, "a", "--json-schema", '{"type":"string","pattern":"a"}',
                    says='"pattern" is not supported in a schema here')
    luminal.refuses("run", model, "a", "--json-schema", "{}", "--grammar", rules, code=2, says="excludes")
    luminal.refuses("run", model, "a", "--grammar-file", folder / "absent", says="absent")


def json_everywhere(luminal, folder):
    """With --json there is JSON on stdout, also where a verb fails."""
    folder.mkdir()
    model = BUILTIN / "hf"
    (folder / "m.lum").write_text(MODULE)
    module = json.loads(luminal("inspect", folder / "m.lum", "--json")[0])
    words = documented_words("luminal inspect")
    check(set(module) <= words and module["kind"] == "terms"
          and [d["name"] for d in module["dimensions"]] == ["S", "T"], f"inspect of terms: {module}")
    check([i["role"] for i in module["functions"][0]["inputs"]] == ["argument", "weight", "state"],
          f"inspect of terms: {module}")
    with_text = json.loads(luminal("inspect", folder / "m.lum", "--json", "--terms", "--passes", "views")[0])
    check("fn @main" in with_text["terms"] and with_text["passes"][0]["name"] == "views",
          f"inspect --passes --json: {with_text}")
    of_model = json.loads(luminal("inspect", model, "--terms", "--json", "--dot", folder / "x.dot")[0])
    check(set(of_model) <= words and "fn @main" in of_model["terms"] and (folder / "x.dot").exists(),
          f"inspect --terms --json: {sorted(of_model)}")
    (folder / "a.egg").write_text("(datatype E (Num i64)) ; comment\n(extract (Num 1))\n")
    formatted = json.loads(luminal("egg", folder / "a.egg", "--format", "--json")[0])
    check(formatted[0]["file"].endswith("a.egg") and "(extract (Num 1))" in formatted[0]["text"],
          f"egg --format --json: {formatted}")
    check("-n" in json.loads(luminal("help", "run", "--json")[0])["text"], "help run --json")
    for args, code in ((["run", folder / "none", "hi"], 1), (["inspect", folder / "none"], 1),
                       (["eval", folder / "none.lum"], 1), (["tune", folder / "none.lum"], 1),
                       (["export", folder / "none.lum", "-o", folder / "x"], 1),
                       (["bench", folder / "none"], 1), (["run", model, "--temp", "x"], 2), (["egg"], 2),
                       (["cache", "export", "/proc/no/file"], 1), (["cache", "foo"], 2),
                       (["help", "nothing"], 2)):
        out, errors = luminal(*args, "--json", code=code)
        told = json.loads(out)
        check(set(told) == {"error", "exit_code"} and told["exit_code"] == code and told["error"] in errors,
              f"{args} --json: {out!r}")


def mistakes(luminal, folder):
    model = BUILTIN / "hf"
    for args in (["bogus"], ["run"], ["run", model, "--temp", "nan"], ["run", model, "--top-p", "2"],
                 ["run", model, "--ctx", "-1"],
                 ["run", model, "--threads", "5000"], ["run", model, "-n", "x"],
                 ["run", model, "hi", "there"]):
        luminal.refuses(*args, says="", code=2)
    for args, says in ((["run", model, "--seed", "abc"],
                        "--seed: a whole number from -1 to 4611686018427387904 is expected, not abc"),
                       (["run", model, "--threads", "5000"],
                        "--threads: a whole number from 0 to 1024 is expected, not 5000"),
                       (["run", model, "--temp"], "--temp: one value is expected"),
                       (["run", model, "--cache-type", "f8"], "--cache-type: f32, f16 is expected, not f8"),
                       (["run", model, "--max-memory", "much"], 'is not an amount of memory; write 512M'),
                       (["run", model, "--max-memory", "0"], "is not an amount"),
                       (["run", model, "--tempo", "1"], r"no option --tempo; did you mean --temp\?"),
                       (["cache"], "a verb of luminal cache is missing: ls, export"),
                       (["cache", "lss"], r"no verb 'lss' of luminal cache; did you mean ls\?"),
                       (["inspect"], "the argument file is missing"),
                       (["export", "x.lum"], "--out is missing"), (["help", "rum"], 'there is no "rum"'),
                       (["egg", "--limit-bytes", "0", "x"], "--limit-bytes: "),
                       (["egg", "--limit-seconds", "nan", "x"], "--limit-seconds: "),
                       (["egg", "--limit-rows", "-1", "x"], "--limit-rows: a whole number"),
                       (["egg", "--class", "x", "x.egg"], "--class: it is for the drawings"),
                       (["inspect", model, "--passes", "views"], "--passes: it is for --terms"),
                       (["tune", "x.lum", "--ctx", "5"], "--ctx: it is for language models"),
                       (["eval", "x.lum", "--slack", "2"], "--slack requires --check"),
                       (["bench", model, "--type", "q4_0"], "--type: it is for --random-weights")):
        luminal.refuses(*args, says=says, code=2)
    for args, says in ((["run", model, "--temp", "x"], "Try luminal help run.\n"),
                       (["cache", "lss"], "Try luminal help cache.\n"), (["rum"], "Try luminal --help.\n")):
        check(luminal(*args, code=2)[1].endswith(says), f"{args} does not end with {says!r}")
    for topic, says in ((["run"], "Usage: luminal run "), (["cache", "ls"], "Usage: luminal cache ls ")):
        check(says in luminal("help", *topic)[0].decode(), f"help {topic} does not say {says!r}")
    _, errors = luminal("help", "env")
    check(errors == "", f"help env: {errors!r}")
    _, errors = luminal("cache", "path", LUMINAL_THREDS="1", LUMINAL_TYPO="1")
    check("LUMINAL_THREDS is not a setting, did you mean LUMINAL_THREADS?" in errors
          and "LUMINAL_TYPO is not a setting" in errors, f"settings: {errors!r}")
    luminal.refuses("rum", says=r"no verb 'rum'; did you mean run\?", code=2)
    luminal.refuses("--temp", "0", says="--temp: options follow a verb", code=2)
    luminal.refuses("devices", "a", "b", says="not expected: a b", code=2)
    luminal.refuses("run", model, "hi", says="LUMINAL_THREADS=many", code=2, LUMINAL_THREADS="many")
    luminal.refuses("cache", "path", says="LUMINAL_THREADS=-1", code=2, LUMINAL_THREADS="-1")
    luminal.refuses("devices", says="LUMINAL_MACHINE: /no/such: No such file", LUMINAL_MACHINE="/no/such")
    luminal.refuses("devices", says="LUMINAL_CPU: LLVM .* does not know the processor pdp-11",
                    LUMINAL_CPU="pdp-11")
    other, its = ("neoverse-v1", "aarch64") if platform.machine() == "x86_64" else ("haswell", "x86_64")
    luminal.refuses("devices", LUMINAL_CPU=other,
                    says=f"LUMINAL_CPU={other}: this processor does not have the instructions of {its}")
    luminal.refuses("cache", "path", says="LUMINAL_NO_CACHE=maybe", code=2, LUMINAL_NO_CACHE="maybe")
    luminal.refuses("run", model, "--tokens", "1,5000", says="5000 is outside the vocabulary of 1024", code=2)
    luminal.refuses("run", model, "--tokens", "1,a", says='"a" is not a token id', code=2)
    luminal.refuses("run", model, "--ctx", "1000000000",
                    says="in all; the system has free .* --max-memory allows more")
    for args in (["egg", "--dot"], ["inspect", "--dot"], ["inspect", "--html"]):
        file = folder.parent / "drawn.egg" if args[0] == "egg" else model
        (folder.parent / "drawn.egg").write_text("(datatype E (Num i64))\n(let $x (Num 1))\n")
        luminal.refuses(*args, folder / "no" / "x", file, says="no/x: No such file or directory")
        check(not (folder / "no").exists(), f"{args} made a folder")
    long = "tell " * 300
    luminal.refuses("run", model, long, says=r"the prompt has \d+ tokens, the context holds 512")
    luminal.refuses("run", model, "hi", "--max-memory", "100K", says="weights .* in all; the limit is 100")
    luminal.refuses("run", folder / "missing", says="missing: no such file or folder")
    luminal.refuses("run", folder, says="an empty folder, expected config.json")
    good = (BUILTIN / "luminal-tales.gguf").read_bytes()
    for name, content, says in (("empty.gguf", b"", "an empty file"),
                                ("text.gguf", b"hello, this is not a model", "offset 0: magic"),
                                ("text", b"hello, this is not a model", "offset 0: begins with"),
                                ("head.gguf", good[:100], "offset 16: 27 metadata pairs"),
                                ("half.gguf", good[:len(good) // 2], "truncated"),
                                ("huge.safetensors", b"\xff" * 7 + b"\x00{}", "huge.safetensors: offset 0")):
        (folder / name).write_bytes(content)
        for verb in ("run", "inspect"):
            luminal.refuses(verb, folder / name, says=says)
    luminal.refuses("run", "/dev/null", says="is not a regular file")
    if os.path.exists("/dev/full"):
        with open("/dev/full", "wb") as full:
            for args in ([], ["run", model, "hi", "-n", "5"], ["inspect", model], ["help", "env"]):
                _, errors = luminal(*args, code=1, stdout=full)
                check("written" in errors or "write" in errors, f"{args} into a full disk: {errors!r}")


def surroundings(luminal, folder):
    """No home, caches that cannot be written: the text comes all the same."""
    model, want = BUILTIN / "hf", None
    (folder / "file").write_text("")
    for variables in ({}, dict(HOME=None, XDG_CACHE_HOME=None, LUMINAL_CACHE_DIR=None),
                      dict(LUMINAL_CACHE_DIR=str(folder / "file")),
                      dict(LUMINAL_CACHE_DIR="/proc/no"), dict(LUMINAL_NO_CACHE="1")):
        out, _ = luminal("run", model, "Hello.", "--temp", 0, "-n", 12, **variables)
        want = want or out
        check(out == want, f"{variables}: {out!r}")


def tuning_cache(luminal, folder):
    """The verbs of `luminal cache`, on files of their own."""
    folder.mkdir()
    words, entry = documented_words("luminal cache VERB"), documented("luminal cache VERB", 1)
    path = json.loads(luminal("cache", "path", "--json")[0])
    check(set(path) <= words and not path["exists"] and luminal("cache",
                                                                "path")[0].decode().strip() == path["path"],
          f"cache path: {path}")
    check(json.loads(luminal("cache", "ls", "--json")[0])["entries"] == [], "an empty cache has entries")
    check(luminal("cache", "export")[0] == b'{"luminal_tuning":1}\n', "export of an empty cache")
    check(not pathlib.Path(path["path"]).exists(), "reading made a file")

    def row(number, seconds):
        return dict(name=f"matmul_{number}", structure=f"{number:032x}", dtypes="f32 f32 f32",
                    bucket="m=1..64", layouts="rows", numeric="reassoc",
                    rules="0" * 16, codegen="f" * 16, llvm="19.1.7", device="8" * 16,
                    instructions="x86_64 znver4", threads=2,
                    schedule="split mm i io ii 6\n", seconds=seconds, samples=40, limit_fraction=0.5)
    check(set(row(1, 1)) == entry, f"keys of an entry: {set(row(1, 1)) ^ entry}")
    head = json.dumps({"luminal_tuning": 1})
    (folder / "a.jsonl").write_text("\n".join([head, json.dumps(row(1, 2e-5)), json.dumps(row(2, 3e-5))])
                                    + "\n")
    (folder / "b.jsonl").write_text("\n".join([head, json.dumps(row(1, 1e-5)), json.dumps(row(2, 9e-5))])
                                    + "\n")
    taken = json.loads(luminal("cache", "import", folder / "a.jsonl", "--json")[0])
    check(set(taken) <= words and (taken["kept"], taken["worse"], taken["mistakes"]) == (2, 0, []),
          f"import: {taken}")
    taken = json.loads(luminal("cache", "import", folder / "b.jsonl", "--json")[0])
    check((taken["kept"], taken["worse"]) == (1, 1), f"import of better and worse: {taken}")
    listed = json.loads(luminal("cache", "ls", "--json")[0])
    check(set(listed) <= words and all(set(e) <= words for e in listed["entries"]),
          f"keys of cache ls: {listed}")
    check([(e["seconds"], e["checked"]) for e in listed["entries"]] == [(1e-5, False), (3e-5, False)],
          f"cache ls: {listed}")
    out, _ = luminal("cache", "ls")
    check(len(out.splitlines()) == 2 and b"matmul_1" in out and b"to check" in out, f"cache ls: {out!r}")
    exported = luminal("cache", "export")[0]
    told = json.loads(luminal("cache", "export", folder / "out.jsonl", "--json")[0])
    check(set(told) <= words and told["exported"] == 2 and (folder / "out.jsonl").read_bytes() == exported,
          f"export: {told}")
    check([json.loads(line) for line in exported.splitlines()[1:]] == [row(1, 1e-5), row(2, 3e-5)],
          f"export: {exported!r}")

    other = folder / "other.sqlite"
    luminal("cache", "import", "--cache", other, folder / "a.jsonl")
    merged = json.loads(luminal("cache", "merge", other, "--json")[0])
    check((merged["kept"], merged["worse"]) == (0, 2), f"merge: {merged}")
    luminal("cache", "merge", "--cache", folder / "new.sqlite", other, path["path"])
    check(luminal("cache", "export", "--cache", folder / "new.sqlite")[0] == exported,
          "a merged file has other entries")

    (folder / "bad.jsonl").write_text("\n".join([head, json.dumps(row(3, "soon")), json.dumps(row(4, 4e-5)),
                                                 "{"]) + "\n")
    out, errors = luminal("cache", "import", folder / "bad.jsonl", "--json", code=1)
    check(json.loads(out)["kept"] == 1 and len(json.loads(out)["mistakes"]) == 2
          and "line 2: seconds" in errors, f"{out!r} {errors!r}")
    luminal.refuses("cache", "import", folder / "none", says="none: No such file")
    (folder / "text").write_text("hello")
    luminal.refuses("cache", "import", folder / "text", says="no export of tuning results")
    luminal.refuses("cache", "merge", folder / "text", says="text: ")
    luminal.refuses("cache", "merge", folder / "none", says="none: no such file")
    for args in (["cache"], ["cache", "bogus"], ["cache", "import"], ["cache", "merge"],
                 ["cache", "prune", "--unused", "-1"]):
        luminal.refuses(*args, says="", code=2)
    luminal.refuses("cache", "prune", "--max-size", "much", code=2, says="not an amount of memory")
    luminal.refuses("cache", "ls", says="there is no tuning cache", LUMINAL_NO_CACHE="1")
    luminal.refuses("cache", "import", folder / "a.jsonl", says="", LUMINAL_CACHE_DIR="/proc/no")
    luminal.refuses("cache", "export", "/proc/no/file", says="/proc/no/file")

    pruned = json.loads(luminal("cache", "prune", "--json")[0])
    check(set(pruned) <= words and (pruned["removed"], pruned["left"]) == (0, 3), f"prune: {pruned}")
    check(json.loads(luminal("cache", "prune", "--all", "--quarantine", "--json")[0])["removed"] == 3,
          "prune --all")
    pathlib.Path(path["path"]).write_bytes(b"no database at all" * 1000)
    out, errors = luminal("cache", "ls")
    check(out == b"" and "it was set aside as" in errors, f"a damaged cache: {out!r} {errors!r}")
    check(pathlib.Path(path["path"] + ".set-aside").exists(), "a damaged cache was not set aside")


def tuning(luminal, folder):
    """`luminal tune`: what it prints, what it keeps, mistakes, Ctrl-C and kill -9."""
    folder.mkdir()
    keys = documented("luminal tune FILE")
    terms = folder / "small.lum"
    terms.write_text(TERMS)
    for budget in (2, 20, 200):  # on a busy machine the first may end before there is something to measure
        out, errors = luminal("tune", terms, "--budget", budget, "--report", "--json")
        told = json.loads(out)
        if told["searched"]:
            break
    check(set(told) == keys, f"tune: keys {set(told) ^ keys}")
    check(told["kernels"] >= 1 and told["searched"] >= 1 and told["mismatches"] == 0
          and not told["interrupted"], f"tune: {told}")
    check(told["tried"] == sum(told["rejected"].values()) + told["searched"], f"tune: {told}")
    check(re.search(r"^tune: measuring", errors, re.M) and "\033" not in errors, f"no plain line: {errors!r}")
    check("kept in " + told["cache"] in errors and pathlib.Path(told["cache"]).exists(), f"tune: {errors!r}")
    kept = json.loads(luminal("cache", "ls", "--json")[0])["entries"]
    check(len(kept) >= told["searched"] and all(e["checked"] for e in kept), f"kept: {kept}")
    out, _ = luminal("tune", terms, "--budget", 0.1, "--report")
    check(b"]: tuned, key " in out, f"what was found is not used: {out!r}")
    out, errors = luminal("tune", terms, "--budget", 1, "--json", LUMINAL_NO_CACHE="1")
    check(json.loads(out)["cache"] == "" and "nothing is kept" in errors,
          f"without a cache: {out!r} {errors!r}")

    log, first, again = folder / "a.log", folder / "a.plan", folder / "b.plan"
    luminal("tune", terms, "--budget", 1, "--log", log, "--export-plan", first)
    before = luminal("cache", "export")[0]
    _, errors = luminal("replay", log, "--export-plan", again, LUMINAL_NO_CACHE="1")
    check(first.read_bytes() == again.read_bytes(), f"replay gives another plan: {errors!r}")
    check("nothing was measured, and nothing is kept" in errors, f"replay: {errors!r}")
    check(luminal("replay", log)[0] == first.read_bytes(), "replay without --export-plan prints the plan")
    told = json.loads(luminal("replay", log, "--json", "--report")[0])
    check(set(told) == documented("luminal replay LOG") and told["plan"].encode() == first.read_bytes(),
          f"replay: keys {set(told)}")
    check(luminal("cache", "export")[0] == before, "a replay changes the cache")
    (folder / "other.lum").write_text("fn @main(%x: f32[2]) {\n  %y = neg %x\n  return y = %y\n}\n")
    luminal.refuses("replay", log, folder / "other.lum", says="is of another model, or of other sizes")
    (folder / "cut.log").write_bytes(log.read_bytes()[:-40])
    luminal.refuses("replay", folder / "cut.log", says="cut.log: has no end")
    luminal.refuses("replay", terms, says="small.lum: is not a log of a search")
    luminal.refuses("replay", folder / "none.log", says="none.log: No such file")

    (folder / "wrong.lum").write_text("fn @main(%x: f32[2]) {\n  return y = %z\n}\n")
    luminal.refuses("tune", folder / "wrong.lum", says=r"wrong.lum:2:")
    luminal.refuses("tune", folder / "none.lum", says="none.lum: No such file")
    luminal.refuses("tune", folder / "none.gguf", says="none.gguf")
    luminal.refuses("tune", terms, "--size", "n:3", says="such as --size n=128", code=2)
    luminal.refuses("tune", terms, "--size", "n=3", says="has no dimension n; its sizes are all fixed",
                    code=2)
    _, errors = luminal("tune", terms, "--kernel", "nonsense", code=1)
    check(re.search(r'hold "nonsense"; there are\n  k\d+ .*\(w\)', errors),
          f"tune --kernel nonsense: {errors!r}")
    sized = folder / "sized.lum"
    sized.write_text(SIZED)
    luminal.refuses("tune", sized, "--size", "m=3", says="has no dimension m; there is n", code=2)
    luminal.refuses("tune", sized, "--size", "n=129", says=r"--size n=129: n is 1\.\.128$", code=2)
    for args in (["tune"], ["tune", terms, "--budget", "0"], ["tune", terms, "--mode", "best"],
                 ["tune", terms, "--activations", "q4"], ["tune", terms, "--budget", "nan"]):
        luminal.refuses(*args, says="", code=2)

    # Kernels are those of a run with the same activations.
    luminal("bench", "--random-weights", "tiny", "--type", "q8_0", "-r", 0, "--save", folder / "tiny.gguf")
    kernels = {}
    for activations in ("exact", "q8"):
        out, _ = luminal("tune", folder / "tiny.gguf", "--activations", activations, "--budget", 0.1,
                         "--report")
        kernels[activations] = set(re.findall(rb", key (\w+)", out))
    check(kernels["exact"] and kernels["q8"] - kernels["exact"], f"tune --activations: {kernels}")

    luminal("cache", "prune", "--all")
    command = [luminal.program, "tune", str(terms), "--mode", "optimal", "--json"]
    for by in (signal.SIGINT, signal.SIGKILL):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   env=luminal.environment)
        deadline = time.time() + 300
        while by == signal.SIGKILL and time.time() < deadline and process.poll() is None:
            if json.loads(luminal("cache", "ls", "--json")[0])["entries"]:
                break
            time.sleep(0.05)
        if by == signal.SIGINT:
            process.stderr.readline()
            until_caught(process, by)
        process.send_signal(by)
        out, _ = process.communicate(timeout=600)
        if by == signal.SIGINT:
            told = json.loads(out)
            check(process.returncode == 130 and told["interrupted"] and not told["complete"],
                  f"Ctrl-C: {process.returncode} {told}")
            luminal("cache", "prune", "--all")
    kept = json.loads(luminal("cache", "ls", "--json")[0])["entries"]
    check(kept and all(e["checked"] for e in kept), f"after kill -9: {kept}")


def benches(luminal, folder):
    """`luminal bench`: its table and keys, a saved model is the same as the one in memory, mistakes."""
    folder.mkdir()
    few = ("--type", "q4_0", "-p", 5, "-n", 3, "-r", 2, "-b", 8)
    out, errors = luminal("bench", "--random-weights", "tiny", *few, "-t", "1,2")
    check(re.findall(r"(\d) +\| +(pp5|tg3) ", out.decode()) == [("1", "pp5"), ("1", "tg3"), ("2", "pp5"),
                                                                ("2", "tg3")], f"bench: {out.decode()}")
    check("memory:" in errors, f"bench: {errors}")
    answer = json.loads(luminal("bench", "--random-weights", "tiny", *few, "--json", "--save",
                                folder / "tiny.gguf", "--activations", "q8")[0])
    check(set(answer) == documented("luminal bench"), f"keys of bench: {sorted(answer)}")
    check(set(answer["tests"][0]) == documented("luminal bench", 1),
          f"keys of a test: {sorted(answer['tests'][0])}")
    check(answer["type"] == "Q4_0" and answer["tests"][0]["peak_fraction"] is None
          and len(answer["tests"][1]["seconds"]) == 2, f"bench: {answer}")
    again = json.loads(luminal("bench", folder / "tiny.gguf", "-p", 0, "-n", 3, "-r", 1, "-d", 4,
                               "--json")[0])
    check([t["test"] for t in again["tests"]] == ["tg3@d4"] and again["parameters"] == answer["parameters"],
          f"bench of a file: {again}")
    out, errors = luminal("bench", "--random-weights", "tiny", "-r", 0, "--save", folder / "other.gguf")
    check(out == b"" and (folder / "other.gguf").exists() and "other.gguf" in errors,
          f"--save: {out!r} {errors}")
    luminal.refuses("bench", code=2, says="either a model or --random-weights")
    luminal.refuses("bench", "--random-weights", "llama-2b", code=2,
                    says="not a known shape: tiny, .*llama-1b")
    luminal.refuses("bench", "--random-weights", "tiny", "--type", "q9", code=2, says='"q9" is not a type')
    luminal.refuses("bench", "--random-weights", "smollm2-135m", "--type", "q4_k", says="rows of 576")
    luminal.refuses("bench", "--random-weights", "llama-8b", "--max-memory", "1G",
                    says="weights 14.96 GiB.* in all; the limit is 1.00 GiB")
    luminal.refuses("bench", "--random-weights", "tiny", "-t", "1,x", code=2,
                    says='"x" is not a number of threads')
    luminal.refuses("bench", "--random-weights", "tiny", "-p", 4096,
                    says="4096 positions .* the model has 2048")
    luminal.refuses("bench", folder / "tiny.gguf", "--save", folder / "x.gguf", code=2,
                    says="needs --random-weights")
    luminal.refuses("bench", "--random-weights", "tiny", "-r", 0, "--save", folder, says=str(folder))


def interrupt(luminal):
    """Ctrl-C ends the text, and what was there is complete JSON; code 130."""
    command = [luminal.program, "run", str(BUILTIN / "hf"), "Tell me a story.", "--json", "--ignore-eos",
               "--ctx", "100000", "--temp", "1"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               env=luminal.environment)
    while line := process.stderr.readline():
        if line.startswith(b"compile"):
            break
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=600)
    check(process.returncode == 130, f"interrupted: code {process.returncode}")
    check(json.loads(out)["stop_reason"] == "interrupted", "interrupted: stop_reason")


def interrupt_early(luminal):
    """Ctrl-C ends loading at once: nothing was generated, so nothing is said. It ends a long
    prompt, too, with complete JSON."""
    tokens = ",".join(str(3 + i % 200) for i in range(25000))
    command = [luminal.program, "run", str(BUILTIN / "hf"), "--tokens", tokens, "--json", "--ctx", "30000",
               "-n", "1"]
    process = subprocess.Popen([*command, "--no-cache"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               env=luminal.environment)
    until_caught(process, signal.SIGINT)
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=600)
    check(process.returncode == 130 and not out and b"compile" not in errors,
          f"interrupted load: {process.returncode} {out} {errors}")
    process = subprocess.Popen([*command, "-b", "4096"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               env=luminal.environment)
    while line := process.stderr.readline():
        if line.startswith(b"compile"):
            break
    time.sleep(0.2)
    start = time.monotonic()
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=600)
    told = json.loads(out)
    check(process.returncode == 130 and told["stop_reason"] == "interrupted" and told["tokens"] == [],
          f"interrupted prompt: {process.returncode} {told['stop_reason']} {len(told['tokens'])} tokens, "
          f"{time.monotonic() - start:.1f} s")


def main():
    with tempfile.TemporaryDirectory(prefix="luminal program ") as scratch:
        folder = pathlib.Path(scratch)
        luminal = Luminal(sys.argv[1], folder / "cache")
        (folder / "files").mkdir()
        text_and_json(luminal)
        mistakes(luminal, folder / "files")
        prompts(luminal, folder / "prompts")
        grammars(luminal, folder / "grammars")
        json_everywhere(luminal, folder / "json")
        surroundings(luminal, folder)
        tuning_cache(luminal, folder / "tuning")
        tuning(luminal, folder / "tune")
        benches(luminal, folder / "bench")
        interrupt(luminal)
        interrupt_early(luminal)
    print(f"{len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
