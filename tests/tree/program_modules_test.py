#!/usr/bin/env python3
# tests/tree/program_modules_test.py -- the program on modules: eval, export, ONNX files, modules of
# strangers, streams that cannot be written, Ctrl-C.
import json
import os
import pathlib
import re
import signal
import struct
import subprocess
import sys
import tempfile
import zipfile

from program import (BUILTIN, MODULE, SOURCE, TERMS, Luminal, check, documented, documented_words, failures,
                     npy, safetensors, shell, until_caught)


def eval_modules(luminal, folder):
    """`luminal eval`: a module on files, by plan and interpreter; every mistake is one line that
    says what to do."""
    folder.mkdir()
    module = folder / "m.lum"
    module.write_text(MODULE)
    (folder / "x.npy").write_bytes(npy([1, 2, 3, 4, 5, 6], (2, 3)))
    (folder / "w.npy").write_bytes(npy([10, 20, 30], (3,)))
    inputs = ["--inputs", folder / "x.npy", "--inputs", folder / "w.npy"]
    shown = luminal("eval", module, *inputs, "--dim", "T=3", "--check")
    check(shown[0].decode() == "y: f32[2, 3]\n[[10, 40, 90],\n [40, 100, 180]]\nsquares: i64[3]\n[0, 1, 4]\n"
          "next: f32[3]\n[50, 140, 270]\n", f"eval shows {shown[0].decode()}")
    check("check y: 6 elements are right" in shown[1], f"eval --check: {shown[1]}")
    check(luminal("eval", module, *inputs, "--dim", "T=3", "--interpret")[0] == shown[0],
          "the interpreter shows something else")
    out = folder / "out.safetensors"
    answer = json.loads(luminal("eval", module, *inputs, "--dim", "T=3", "--output", out, "--json",
                                "--check")[0])
    check(set(answer) == documented("luminal eval"), f"keys of eval: {sorted(answer)}")
    check(answer["dims"] == {"S": 2, "T": 3} and answer["by"] == "plan", f"eval --json: {answer}")
    check(set(answer["timings"]) | set(answer["check"][0])
          | set(answer["results"][0]) <= documented_words("luminal eval"), f"eval: {answer}")
    check(safetensors(out)["squares"] == ("I64", [3], struct.pack("<3q", 0, 1, 4)),
          f"results in the file: {safetensors(out)}")
    (folder / "total.npy").write_bytes(npy([1, 1, 1], (3,)))
    more = luminal("eval", module, *inputs, "--inputs", folder / "total.npy", "-d", "T=1")[0]
    check(b"next: f32[3]\n[51, 141, 271]" in more, f"a state from a file: {more!r}")

    one = folder / "one.lum"
    one.write_text("fn @main(%x: f32[40]) {\n  %y = tanh %x\n  return y = %y\n}\n")
    (folder / "one").mkdir()
    (folder / "one" / "x.npy").write_bytes(npy(range(40), (40,)))
    pinned, given = folder / "schedule.txt", ["-i", folder / "one" / "x.npy", "--check", "--schedule"]
    pinned.write_text("split s0 a0 o i 8\nvector s0 i\n")
    shown = luminal("eval", one, *given, f"k0={pinned}", LUMINAL_DEBUG="2")
    check(pinned.read_text() in shown[1] and "40 elements are right" in shown[1],
          f"eval --schedule: {shown[1]}")
    for text, says in (("split s0 a1 o i 8\n",
                        r"kernel k0: the schedule given for it does not fit: \[schedule\]"),
                       ("split\n", "cannot be read: ")):
        pinned.write_text(text)
        luminal.refuses("eval", one, *given, f"k0={pinned}", says=says)
    luminal.refuses("eval", one, *given, f"k7={pinned}", says="there is no kernel k7")
    luminal.refuses("eval", one, *given, pinned, code=2, says="KERNEL=FILE is expected")

    two = folder / "two.lum"
    two.write_text("fn @main(%x: f32[40]) {\n  %e = tanh %x\n  %y = mul %e, %e\n  return y = %y\n}\n")
    parts, given = folder / "parts.txt", ["-i", folder / "one" / "x.npy", "--check", "--report",
                                          "--partition"]
    for kernels in ("kernel %y", "kernel %e kernel %y", "kernel %y, %e"):
        parts.write_text(f"partition @main {{ {kernels} }}\n")
        shown = luminal("eval", two, *given, parts)[1]
        check(f"plan main: {1 + kernels.count(' kernel')} kernels" in shown
              and "40 elements are right" in shown, f"eval --partition: {shown}")
    for kernels, says in (("kernel %e", "partition of @main: %y must be stored: it is a result"),
                          ("kernel %z", "@main has no value %z")):
        parts.write_text(f"partition @main {{ {kernels} }}\n")
        luminal.refuses("eval", two, *given, parts, says=says)

    refuse = lambda *args, says, code=1: luminal.refuses("eval", *args, says=says, code=code)  # noqa: E731
    fine = folder / "fine.lum"  # the last bits of a sum become an integer
    fine.write_text("fn @main(%x: f32[40]) {\n  %t = tanh %x\n  %f = fold [i: 40] over [i] { sum %t[i] }\n"
                    "  %s = get %f, 0\n"
                    "  %c = const f32 1073741824\n  %p = mul %s, %c\n"
                    "  %y = cast i64 %p\n  return y = %y\n}\n")
    (folder / "fine").mkdir()
    (folder / "fine" / "x.npy").write_bytes(npy([i / 40 for i in range(40)], (40,)))
    refuse(fine, "-i", folder / "fine" / "x.npy", "--check", "-o", out,
           says="the check could judge no element$")
    fine.write_text(fine.read_text().replace("y = %y", "y = %y, s = %s"))
    shown = luminal("eval", fine, "-i", folder / "fine" / "x.npy", "--check")
    check("check y: bound unknown for 1 elements: nothing could be judged" in shown[1]
          and "check s: 1 elements are right" in shown[1], f"no bound: {shown[1]}")

    refuse(module, *inputs,
           says=r"dimension T \(1\.\.8\) has no value: no input has an axis of this size, say --dim T=SIZE$")
    refuse(module, *inputs, "--dim", "T=9", says=r"--dim T=9: dimension T would be 9, declared is 1\.\.8$")
    refuse(module, *inputs, "--dim", "S=3", "--dim", "T=1",
           says=r"x\.npy: x \[2, 3\]: dimension S would be 2, elsewhere it is 3$")
    refuse(module, *inputs, "--dim", "U=1", says="--dim U=1: the module has no dimension U$")
    refuse(module, *inputs, "--dim", "T=", code=2, says="--dim T=: NAME=SIZE is expected, such as --dim S=3$")
    refuse(module, "--inputs", folder / "x.npy", says=r"input w \(f32\[3\]\) is missing: the files have x$")
    refuse(module, says=r"input x \(f32\[S, 3\]\) is missing: the files have none$")
    big = folder / "big"
    big.mkdir()
    (big / "x.npy").write_bytes(npy(range(24), (8, 3)))
    refuse(module, "-i", big / "x.npy", "-i", folder / "w.npy", "-d", "T=8",
           says=r"the module assumes S \+ T < 11, but S = 8, T = 8$")
    for name, image in (("f64", npy(range(6), (2, 3), "<f8", 8, "d")), ("shape", npy(range(8), (2, 4))),
                        ("rank", npy(range(3), (3,)))):
        (folder / name).mkdir()
        (folder / name / "x.npy").write_bytes(image)
        refuse(module, "-i", folder / name / "x.npy", "-i", folder / "w.npy",
               says=r"x\.npy: x is F\d+ \[.*\], the module wants f32\[S, 3\]$")
    refuse(module, *inputs, "-i", big / "x.npy", says="both have a tensor x$")
    refuse(folder / "none.lum", says="none.lum: No such file")
    refuse(folder, says="is a directory, a file is expected$")
    refuse(module, "-i", folder / "none.npz", says="none.npz: No such file")
    refuse(module, "-i", module, says=r"m\.lum: offset 0: ")
    refuse(module, *inputs, "-d", "T=1", "-o", folder / "out.txt", code=2,
           says=r"the output must end in \.safetensors, \.npz or \.npy$")
    refuse(module, *inputs, "-d", "T=1", "-o", folder / "out.npy",
           says="an .npy file holds one array, the module has 3 results$")
    if os.path.exists("/dev/full"):
        refuse(module, *inputs, "-d", "T=1", "-o", "/dev/full", says="/dev/full: No space left on device$")
        check(not os.path.isfile("/dev/full"), "/dev/full was replaced by a file")
    refuse(module, *inputs, "-d", "T=1", "-o", "/proc/no/out.npy", says="/proc/no/out.npy")
    (folder / "bad.lum").write_text("fn @main(%x: f32[2]) {\n  %y = frob %x\n  return y = %y\n}\n")
    refuse(folder / "bad.lum", says=r"bad\.lum:2:\d+: ")
    (folder / "empty.lum").write_text("")
    refuse(folder / "empty.lum", says=r"empty\.lum")
    for args in ([], [module, "--interpret", "--check"], [module, "--slack", "0"], [module, "extra"]):
        refuse(*args, says="", code=2)


def traces(luminal, folder):
    """LUMINAL_TRACE: every step of every run in a file that Chrome's tracing page reads."""
    folder.mkdir()
    module, trace = folder / "m.lum", folder / "trace.json"
    module.write_text("fn @main(%x: f32[40]) {\n  %y = tanh %x\n  %f = fold [k: 40] over [k] { sum %y[k] }\n"
                      "  %s = get %f, 0\n  return s = %s\n}\n")
    (folder / "x.npy").write_bytes(npy(range(40), (40,)))
    given = ("eval", module, "-i", folder / "x.npy")
    plain = luminal(*given)
    check(luminal(*given, LUMINAL_TRACE=str(trace)) == plain, "a trace changes what eval prints")
    events = json.loads(trace.read_text().rstrip().rstrip(",") + "]")
    runs = [event for event in events if event["name"] == "run 1"]
    steps = [event for event in events if event["name"].startswith("k")]
    check(len(runs) == 1 and steps, f"events: {events}")
    end = runs[0]["ts"] + runs[0]["dur"] + 1e-3
    check(all(runs[0]["ts"] <= step["ts"] and step["ts"] + step["dur"] <= end for step in steps),
          f"steps outside of their run: {events}")
    check(any("x f32[40]" in step["args"]["operands"] and step["args"]["bytes"] >= 160 for step in steps),
          f"what a step reads: {events}")
    for path, says in ((folder / "none" / "t.json", "t.json cannot be written: No such file or directory"),
                       ("/dev/full", "No space left on device: no more runs are recorded")):
        text, errors = luminal(*given, LUMINAL_TRACE=str(path))
        check(text == plain[0] and errors.count(says) == 1, f"a trace that cannot be written: {errors}")


def exports(luminal, folder):
    """`luminal export`: the files and keys, names, targets, mistakes. tests/models/export_test.cpp
    runs what is exported."""
    folder.mkdir()
    module = folder / "two.lum"
    module.write_text("fn @main(%x: f32[4], weight %w: f32[4]) {\n  %y = mul %x, %w\n  return y = %y\n}\n")
    safetensors = folder / "w.safetensors"
    header = json.dumps({"w": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}).encode()
    safetensors.write_bytes(struct.pack("<Q", len(header)) + header + struct.pack("<4f", 1, 2, 3, 4))
    answer = json.loads(luminal("export", module, "-i", safetensors, "--out", folder / "out", "--target",
                                "x86-64-v3", "--json")[0])
    page = (SOURCE / "docs" / "export.md").read_text().split("## luminal export, machine-readable", 1)[1]
    check(set(answer) == set(re.findall(r"`(\w+)`", "".join(r.split("|")[1] for r in page.splitlines()
                                                            if r.startswith("| `")))),
          f"keys of export: {sorted(answer)}")
    check(answer["name"] == "two" and "avx2" in answer["instructions"] and "x86-64-v3" in answer["target"],
          f"export: {answer}")
    check(sorted(os.listdir(folder / "out")) == sorted(os.path.basename(f) for f in answer["files"]),
          f"export: {answer['files']}")
    text = (folder / "out" / "two.h").read_text()
    check(all(word in text for word in ("two_input_x = 0", "two_output_y = 0", "two_open(")), text)
    out = luminal("export", BUILTIN / "luminal-tales.gguf", "--out", folder / "model", "--name", "tales",
                  "-c", 64)[0].decode()
    check(out.count("\n") == 6 and "tales_output_logits" in (folder / "model" / "tales.h").read_text(),
          f"export: {out}")
    luminal.refuses("export", module, "--out", folder / "x",
                    says=r"weight w \(f32\[4\]\) is missing: the files of --inputs have none")
    luminal.refuses("export", module, "-i", safetensors, "--out", folder / "x", "--target", "pdp-11",
                    says="pdp-11.*Known are host, x86-64-v3")
    luminal.refuses("export", module, "-i", safetensors, "--out", folder / "x", "--name", "1st",
                    says='"1st" is not a C identifier')
    luminal.refuses("export", module, "-i", safetensors, "--out", safetensors, says="w.safetensors")
    luminal.refuses("export", folder / "none.gguf", "--out", folder / "x", says="none.gguf")


def onnx_models(luminal, folder):
    """y = relu(x) of the corpus of damaged files, by every verb that takes a model."""
    folder.mkdir()
    model, x = folder / "relu.onnx", folder / "x.npy"
    corpus = pathlib.Path(__file__).resolve().parents[1] / "fuzz" / "corpus" / "formats_onnx"
    model.write_bytes((corpus / "small").read_bytes())
    x.write_bytes(npy([-1, 2], (2,)))
    out, _ = luminal("eval", model, "-i", x)
    check(b"y: f32[2]\n[0, 2]" in out, f"eval of ONNX: {out}")
    luminal("eval", model, "-i", x, "-o", folder / "y.npz", "--check")
    with zipfile.ZipFile(folder / "y.npz") as archive:
        check(archive.namelist() == ["y.npy"] and archive.read("y.npy")[-8:] == struct.pack("<2f", 0, 2),
              "the results in an npz")
    shown = json.loads(luminal("inspect", model, "--json")[0])
    check(shown["kind"] == "ONNX" and shown["operators"] == [{"name": "Relu", "count": 1, "supported": True}],
          f"inspect of ONNX: {shown}")
    check(b"Relu" in luminal("inspect", model)[0] and b"return y" in luminal("inspect", model, "--terms")[0],
          "ONNX as text and as terms")
    timed = json.loads(luminal("bench", model, "--json", "-r", "2", "-t", "1")[0])
    check(len(timed["seconds"]) == 2 and timed["compile_s"] > 0, f"bench of ONNX: {timed}")
    luminal("export", model, "--out", folder / "exported")
    check((folder / "exported" / "relu.h").exists(), "export of ONNX")
    luminal.refuses("eval", model, says=r"input x \(f32\[2\]\) is missing: the files have none$")
    strange = folder / "strange.onnx"
    strange.write_bytes(model.read_bytes().replace(b"Relu", b"Rela"))
    luminal.refuses("eval", strange, "-i", x,
                    says=r"operators that are not supported \(docs/onnx.md lists those that are\), "
                         r"with how often: Rela \(1\)")
    luminal.refuses("tune", strange, "-b", "3", says="--batch: it is for language models", code=2)
    luminal.refuses("bench", model, "-p", "3", says="--prompt: it is for language models", code=2)
    luminal.refuses("bench", model, "-t", "1,2", says="--threads: one count at a time for an ONNX model",
                    code=2)


def searched_modules(luminal, folder):
    """`luminal opt`: what became of each region, as text and as JSON; the plan without rules beside it."""
    folder.mkdir()
    module = folder / "m.lum"
    module.write_text(TERMS)
    shown = luminal("opt", module, "-t", "1")[0].decode()
    check(re.search(r"^region of \d+ nodes: ", shown, re.M) and " launches, " in shown, f"opt: {shown}")
    answer = json.loads(luminal("opt", module, "-t", "1", "--json", "--terms")[0])
    words = documented_words("luminal opt")
    keys = {"rows", "saturate_s", "extract_s", "kernels", "stored_bytes", "peak_bytes", "rules", "estimate_s"}
    check(keys <= set(answer) <= words, f"opt --json: {sorted(answer)}")
    check(all(set(region) <= words for region in answer["regions"]) and answer["rows"] > 0,
          f"opt --json: {answer}")
    check(0 < answer["estimate_s"] <= answer["written_s"], f"opt --json: {answer}")
    (folder / "chosen.lum").write_text(answer["terms"])
    luminal("inspect", folder / "chosen.lum")
    sparing = json.loads(luminal("opt", module, "-t", "1", "--json", "--fewest-bytes")[0])
    check(sparing["stored_bytes"] <= answer["stored_bytes"], f"opt --fewest-bytes: {sparing}")
    plain = json.loads(luminal("opt", module, "-t", "1", "--json", "--no-rules")[0])
    check(plain["rows"] == 0 and plain["regions"] == [] and plain["kernels"] >= 1, f"opt --no-rules: {plain}")
    late = json.loads(luminal("opt", module, "-t", "1", "--json", "--work", "0")[0])
    outcomes = [region["outcome"] for region in late["regions"]]
    check(outcomes == ["earlier regions took all work"], f"opt --work 0: {late}")
    luminal.refuses("opt", folder / "none.lum", says="none.lum")
    (folder / "bad.lum").write_text("fn @main(\n")
    luminal.refuses("opt", folder / "bad.lum", says="bad.lum:")
    luminal.refuses("opt", module, "--size", "n", code=2, says="NAME=SIZE")


def explained(luminal, folder):
    """`luminal explain`: kernels of terms, of an ONNX model's kind and of a language model, as text and as
    JSON; one kernel by its name."""
    folder.mkdir()
    module = folder / "m.lum"
    module.write_text(TERMS)
    shown = luminal("explain", module, "-t", "1")[0].decode()
    check(re.search(r"^kernel k0: ", shown, re.M) and "schedule" in shown, f"explain: {shown}")
    answer = json.loads(luminal("explain", module, "-t", "1", "--json")[0])
    words = documented_words("luminal explain")
    check(set(answer) <= words, f"explain --json: {sorted(answer)}")
    for part in answer["kernels"] + answer["regions"]:
        check(set(part) <= words, f"explain --json: {sorted(part)}")
    one = json.loads(luminal("explain", f"{module}:k0", "-t", "1", "--json")[0])
    check([k["name"] for k in one["kernels"]] == ["k0"], f"explain FILE:KERNEL: {one}")
    model = json.loads(luminal("explain", BUILTIN / "hf", "-t", "1", "--kernel", "layers.0.mlp", "--json")[0])
    check(model["kernels"] and all("layers.0.mlp" in k["weights"] for k in model["kernels"]),
          f"explain of a model: {[k['weights'] for k in model['kernels']]}")
    luminal.refuses("explain", module, "--kernel", "no such",
                    says="m.lum: no kernel has 'no such' in its name, results, weights or lines; there is k0")
    luminal.refuses("explain", f"{module}:k0", "--kernel", "k0", code=2, says="the kernel is given twice")
    luminal.refuses("explain", module, "-b", "3", says="--batch: it is for language models", code=2)
    luminal.refuses("explain", folder / "none.lum", says="none.lum")
    page = folder / "page.html"
    luminal("explain", module, "-t", "1", "--page", page)
    text = page.read_text()
    check(text.startswith("<!doctype html>") and 'id="k0"' in text and "srcdoc" in text,
          f"explain --page: {text[:200]}")
    check(not re.search(r"(src|href)=[\"']?(https?:)?//", text), "explain --page: it asks for the network")
    luminal.refuses("explain", module, "-t", "1", "--page", folder, says="explain")


def unwritable(luminal, folder):
    """Closed and full standard streams, pipes where files are expected: a code and a word, never a
    signal, never a wait."""
    folder.mkdir()
    (folder / "p.egg").write_text("(datatype N (Z) (S N)) (let a (S (Z))) (extract a)")
    (folder / "bad.egg").write_text("(nonsense)")
    model, egg, bad = BUILTIN / "hf", folder / "p.egg", folder / "bad.egg"
    text = shell(luminal, f"$L run '{model}' Once -n 5 --temp 0", 0)
    for end in ("2>&-", "2>/dev/full"):
        check(shell(luminal, f"$L run '{model}' Once -n 5 --temp 0 {end}", 0) == text, f"run {end}")
        shell(luminal, f"$L egg '{bad}' {end}", 1)
        shell(luminal, f"$L nonsense {end}", 2)
        shell(luminal, f"$L eval /nope.lum {end}", 1)
        shell(luminal, f"$L cache ls {end}", 0)
    for end in (">&-", ">/dev/full"):
        for verb in (f"egg '{egg}'", f"run '{model}' Once -n 2", f"inspect '{model}'", "help env",
                     "--version", "cache ls --json"):
            shell(luminal, f"$L {verb} {end}", 1, says="be written" if verb.startswith("egg")
                  else "luminal: ")
    shell(luminal, "$L egg - <&-", 1, says="cannot be read")
    shell(luminal, f"$L egg '{egg}' >&- 2>&- <&-", 1)
    pipe = folder / "pipe"
    os.mkfifo(pipe)
    for verb in ("egg", "eval", "inspect", "tune", "run"):
        for ending in ("", ".lum", ".npy", ".egg", ".gguf"):
            link = folder / f"pipe{ending}"
            if ending:
                link.unlink(missing_ok=True)
                link.symlink_to(pipe)
            shell(luminal, f"timeout 60 $L {verb} '{link}'", 1)
    objects = folder / "objects"
    objects.mkdir()
    shell(luminal, f"LUMINAL_CACHE_DIR='{objects}' $L run '{model}' Once -n 2", 0)
    for file in list(objects.rglob("*")):
        if file.is_file():
            file.unlink()
            os.mkfifo(file)
    shell(luminal, f"LUMINAL_CACHE_DIR='{objects}' timeout 120 $L run '{model}' Once -n 2", 0)


def foreign_modules(luminal, folder):
    """Modules of others run no code of theirs and touch no files, and out of bounds nothing is
    read: an error that says where."""
    folder.mkdir()
    (folder / "x.npy").write_bytes(npy([1, 2, 3, 4, 5, 6, 7, 8], (8,)))
    inputs = ["--inputs", folder / "x.npy"]
    victim = folder / "victim.txt"
    victim.write_text("mine")
    for name, node in (("dump", f'host dump "{victim}" (%x)'), ("compare", f'host compare "{victim}" (%x)'),
                       ("custom", 'custom evil grid [1] { llvm: "define void @evil(ptr %x, ptr %y, i64 %a, '
                                  'i64 %b, i64 %c) { ret void }" } (%x) -> (f32[8])')):
        module = folder / f"{name}.lum"
        module.write_text(f"fn @main(%x: f32[8]) {{\n  %k = {node}\n  %y = get %k, 0\n  return y = %y\n}}\n")
        says = rf"{name}.lum: @main %k: .*{name}.* --allow-custom"
        luminal.refuses("eval", module, *inputs, says=says)
        luminal.refuses("eval", module, *inputs, "--interpret", says=says)
        luminal.refuses("tune", module, says=says)
        luminal.refuses("export", module, "--out", folder / "out", says=says)
        check(victim.read_text() == "mine", f"{name} wrote a file")
    luminal("eval", folder / "custom.lum", *inputs, "--allow-custom")
    wide = folder / "wide.lum"
    wide.write_text("symbol S: 0..100\nfn @main(%x: f32[8]) { %y = view %x [i: S] -> [i]  return y = %y }\n")
    for by in ([], ["--interpret"]):
        luminal.refuses("eval", wide, *inputs, "--dim", "S=50", *by, says="view.*%y")
    wide.write_text("symbol S: 0..9\nfn @main(%x: f32[8]) { %y = view %x [i: 8] -> [(i // S) % 8]\n"
                    "  return y = %y }\n")
    luminal.refuses("eval", wide, *inputs, "--dim", "S=0", says="divides by zero.*S = 0")
    huge = folder / "huge.lum"
    huge.write_text("fn @main(%x: f32[8]) { %v = view %x [i: 4194304, j: 4194304] -> [i % 8]\n"
                    "  return v = %v }\n")
    for verb in (["eval", huge, *inputs], ["tune", huge, "--budget", 1]):
        luminal.refuses(*verb, says="64.0 TiB.*this machine has")


def interrupt_eval(luminal, folder):
    """Ctrl-C ends a long evaluation with code 130 and leaves no file."""
    (folder / "long.lum").write_text("fn @main() {\n"
                                     "  %i = iota f32 [a: 4000, b: 4000, c: 4000] -> a + b + c\n"
                                     "  %f = fold [a: 4000, b: 4000, c: 4000] over [a, b, c] "
                                     "{ sum %i[a, b, c] }\n"
                                     "  %s = get %f, 0\n  return s = %s\n}\n")
    out = folder / "long.safetensors"
    process = subprocess.Popen([luminal.program, "eval", folder / "long.lum", "--interpret", "--output", out],
                               stderr=subprocess.PIPE,
                               env=luminal.environment)
    until_caught(process, signal.SIGINT)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=600)
    check(process.returncode == 130 and not out.exists(), f"interrupted eval: code {process.returncode}")


def main():
    with tempfile.TemporaryDirectory(prefix="luminal program ") as scratch:
        folder = pathlib.Path(scratch)
        luminal = Luminal(sys.argv[1], folder / "cache")
        exports(luminal, folder / "export")
        onnx_models(luminal, folder / "onnx")
        eval_modules(luminal, folder / "eval")
        traces(luminal, folder / "traces")
        searched_modules(luminal, folder / "opt")
        explained(luminal, folder / "explain")
        unwritable(luminal, folder / "unwritable")
        foreign_modules(luminal, folder / "foreign")
        interrupt_eval(luminal, folder / "eval")
    print(f"{len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
