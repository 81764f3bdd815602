#!/usr/bin/env python3
# tests/tree/program_generation_test.py LUMINAL -- logits and perplexity of texts, as numbers that agree with
# each other; many prompts at once, as each alone; drafts that change nothing; mistakes.
import json
import math
import os
import pathlib
import signal
import struct
import subprocess
import sys
import tempfile

from program import BUILTIN, SOURCE, Luminal, check, documented_words, failures, shell

MODEL = BUILTIN / "luminal-tales.gguf"
DATA = pathlib.Path(os.environ.get("LUMINAL_TEST_DATA", SOURCE.parent / "shared" / "data"))
PROMPT = "Once there was"
TALE = (PROMPT + " a compiler that lived in a lighthouse. Every evening it lit the lamp and counted waves. "
        "Ada came by with a small boat and asked what the sea had said. ") * 12


def matrix(path):
    """(rows, columns, floats) of an .npy file of f32."""
    data = path.read_bytes()
    size = struct.unpack("<H", data[8:10])[0]
    head = data[10:10 + size].decode()
    check("'descr': '<f4'" in head and "'fortran_order': False" in head, head)
    rows, columns = (int(x) for x in head.split("'shape': (")[1].split(")")[0].split(","))
    values = struct.unpack(f"<{rows * columns}f", data[10 + size:])
    return rows, columns, values


def cost(logits, token):
    most = max(logits)
    return most + math.log(sum(math.exp(x - most) for x in logits)) - logits[token]


def logits(luminal, folder):
    """The file, what is printed and what run takes are the same numbers."""
    answer = json.loads(luminal("logits", MODEL, PROMPT, "--json", "--top", 5)[0])
    check(set(answer) == {"model", "prompt_tokens", "top"} and len(answer["top"]) == 5,
          f"keys {sorted(answer)}")
    check(set(answer) | set(answer["top"][0]) | {"out", "shape"} <= documented_words("luminal logits"),
          f"keys of logits: {sorted(answer)}")
    tokens = answer["prompt_tokens"]
    path = folder / "all.npy"
    out, errors = luminal("logits", MODEL, PROMPT, "--out", path, "--batch", 2)
    rows, columns, values = matrix(path)
    check(out == b"" and f"{path}: f32 [{rows}, {columns}]" in errors, f"--out says {out!r} {errors!r}")
    check(rows == len(tokens) and all(map(math.isfinite, values)), f"{rows} rows of {len(tokens)} tokens")
    last = values[-columns:]
    order = sorted(range(columns), key=lambda i: -last[i])[:5]
    check([t["id"] for t in answer["top"]] == order, f"top {answer['top']}, in the file {order}")
    for t in answer["top"]:
        check(abs(t["logit"] - last[t["id"]]) < 1e-3, f"logit of {t}: {last[t['id']]}")
        check(abs(t["probability"] - math.exp(-cost(last, t["id"]))) < 1e-4, f"probability of {t}")
    greedy = json.loads(luminal("run", MODEL, PROMPT, "-n", 1, "--temp", 0, "--json")[0])
    check(greedy["tokens"] == order[:1] and greedy["prompt_tokens"] == tokens, f"run: {greedy['tokens']}")
    # Each row is what the text up to there gives alone.
    for k in (1, len(tokens) - 1):
        one = folder / "one.npy"
        given = json.loads(luminal("logits", MODEL, "--tokens", ",".join(map(str, tokens[:k])), "--out", one,
                                   "--last", "--json")[0])
        check(given["shape"] == [1, columns] and given["out"] == str(one), f"--last: {given}")
        single = matrix(one)[2]
        off = max(abs(a - b) for a, b in zip(single, values[(k - 1) * columns:k * columns]))
        check(off < 1e-3, f"behind {k} tokens: {off} apart")
    printed = luminal("logits", MODEL, PROMPT, "--top", 3)[0].decode().splitlines()
    check([int(line.split()[0]) for line in printed] == order[:3], f"printed: {printed}")
    (folder / "prompt.txt").write_text(PROMPT + "\n")
    by_file = json.loads(luminal("logits", MODEL, "-f", folder / "prompt.txt", "--json")[0])
    check(by_file["prompt_tokens"] == tokens and len(by_file["top"]) == 10, f"-f: {by_file}")

    luminal.refuses("logits", MODEL, "a", "--tokens", "1", code=2, says="excludes")
    luminal.refuses("logits", MODEL, "a", "--last", code=2, says="--last requires --out")
    luminal.refuses("logits", MODEL, "a", "--out", path, "--top", 2, code=2,
                    says="--top: with --out nothing is printed")
    luminal.refuses("logits", MODEL, "--tokens", "1,x", code=2, says='"x" is not a token id')
    luminal.refuses("logits", MODEL, PROMPT, "--ctx", 2,
                    says=f"the prompt has {len(tokens)} tokens, the context holds 2")
    luminal.refuses("logits", MODEL, PROMPT, "--out", folder / "none" / "x.npy", says="x.npy: No such file")
    check(not list(folder.glob("*.tmp")), "a draft is left")
    shell(luminal, f"cd {folder} && ulimit -f 1 && $L logits {MODEL} '{PROMPT}' --out small.npy", 1,
          says="small.npy: File too large")
    check(not (folder / "small.npy").exists(), "half a file is there")


def perplexity(luminal, folder):
    """The value is what the logits of the windows say."""
    text = folder / "tale.txt"
    text.write_text(TALE + "\n")
    ids = [int(x) for x in luminal("tokenize", MODEL, TALE, "--no-parse-special", "--ids")[0].split(b",")]
    begin = ids[0]
    for context, stride in ((64, 0), (33, 0), (40, 13)):
        how = ["--context", context, *(["--stride", stride] if stride else [])]
        answer = json.loads(luminal("perplexity", MODEL, "-f", text, *how, "--json")[0])
        check(set(answer) <= documented_words("luminal perplexity"), f"keys of perplexity: {sorted(answer)}")
        step, scored = stride or context, stride or context - context // 2 - 1
        starts = range(0, len(ids) - context + 1, step)
        check(answer["windows"] == len(starts) and answer["scored"] == len(starts) * scored
              and answer["tokens"] == len(ids), f"windows of {context}, {stride}: {answer}")
        costs = []
        for start in list(starts)[:3]:
            window = ids[start:start + context]
            file = folder / "window.npy"
            luminal("logits", MODEL, "--tokens", ",".join(map(str, [begin] + window[1:])), "--out", file)
            _, columns, values = matrix(file)
            costs += [cost(values[(k - 1) * columns:k * columns], window[k])
                      for k in range(context - scored, context)]
        out, _ = luminal("perplexity", MODEL, "-f", "-", *how, given=TALE.encode())
        running, final = out.decode().splitlines()
        values = [float(v.split("]")[1]) for v in running.rstrip(",").split(",")]
        check(len(values) == len(starts), f"running values: {running}")
        want = math.exp(sum(costs) / len(costs))
        check(abs(values[2] - want) < 1e-3 * want,
              f"context {context}, stride {stride}: {values[2]}, want {want}")
        check(abs(values[-1] - answer["perplexity"]) < 1e-4 * values[-1] + 1e-4,
              f"{values[-1]}: {answer}")
        check(final.startswith(f"perplexity {answer['perplexity']:.4f} +/- {answer['standard_error']:.5f}"),
              f"{final}: {answer}")
        check(abs(answer["perplexity"] - math.exp(answer["loss"])) < 1e-9 * answer["perplexity"]
              and 0 < answer["standard_error"] < answer["perplexity"], f"{answer}")
    known = json.loads(luminal("perplexity", MODEL, "-f", text, "--context", 64, "--json")[0])["perplexity"]
    text.write_text(" ".join(reversed(TALE.split())))
    turned = json.loads(luminal("perplexity", MODEL, "-f", text, "--context", 64, "--json")[0])["perplexity"]
    check(turned > 1.5 * known, f"words in reverse order: {turned}, in order {known}")
    text.write_text("Ada")
    luminal.refuses("perplexity", MODEL, "-f", text,
                    says=r"the text has \d tokens; two windows of 512 are needed at least: a longer text or "
                         "a smaller --context")
    luminal.refuses("perplexity", MODEL, "-f", text, "--context", 64, "--stride", 64, code=2,
                    says="--stride 64: a window of 64 tokens foretells at most 63")
    luminal.refuses("perplexity", MODEL, code=2, says="--file is missing")


def lines_of(out):
    return [json.loads(line) for line in out.decode().splitlines()]


def alone(luminal, model, prompt, *args):
    """What run gives for one prompt."""
    answer = json.loads(luminal("run", model, "-p", prompt, "--temp", 0, *args, "--json")[0])
    return {key: answer[key] for key in ("text", "tokens", "stop_reason")}


def prompts(luminal, folder):
    """run --prompts: each line is what run gives for this prompt alone; mistakes stand in their lines."""
    texts = [PROMPT, "Ada", "", TALE[:300], "The lamp", PROMPT, "Tell me a joke about a cat.", "1 2 3"]
    file = folder / "prompts.jsonl"
    file.write_text("".join(json.dumps({"prompt": t, "id": f"no {i}"}) + "\n" for i, t in enumerate(texts)))
    for how in (("-n", 24), ("-n", 60, "--stop", "."), ("--ctx", 130, "-n", -1)):
        got = lines_of(luminal("run", MODEL, "--prompts", file, "--temp", 0, "--parallel", 3, *how)[0])
        check([g["id"] for g in got] == [f"no {i}" for i in range(len(texts))], f"order: {got}")
        for g, text in zip(got, texts):
            want = alone(luminal, MODEL, text, *how)
            check({k: g[k] for k in want} == want and g["prompt"] == text, f"{how}: {g}, alone {want}")
    keys = set(got[0]) | set(got[0]["timings"]) | {"error"}
    check(keys <= documented_words("luminal run"), f"keys of --prompts: {keys}")
    check(all(t >= 0 for t in got[0]["timings"].values()) and got[0]["timings"]["generation_s"] > 0,
          f"times: {got[0]}")

    plain = "\n".join(("", "Ada", "The lamp\r", "", "{not JSON: the first line is a text", "Ada")) + "\n"
    out, errors = luminal("run", MODEL, "--prompts", "-", "--seed", 7, "-n", 12, given=plain.encode())
    got = lines_of(out)
    check([g["line"] for g in got] == [2, 3, 5, 6] and got[1]["prompt"] == "The lamp", f"plain lines: {got}")
    check("id" not in got[0] and got[0]["tokens"] == got[3]["tokens"] and got[0]["seed"] == 7, f"seed: {got}")
    check("4 prompts, 0 of them wrong" in errors, f"closing line {errors!r}")
    rules = 'root ::= "the " ("cat" | "dog") "."'
    got = lines_of(luminal("run", MODEL, "--prompts", "-", "--grammar", rules, given=plain.encode())[0])
    check(all(g["text"] in ("the cat.", "the dog.") for g in got), f"--grammar: {got}")
    check(len({g["seed"] for g in got}) == 4, f"seeds are drawn: {got}")
    none = lines_of(luminal("run", MODEL, "--prompts", "-", "-n", 0, given=b"Ada\n")[0])
    check(none[0]["tokens"] == [] and none[0]["stop_reason"] == "length", f"-n 0: {none}")

    long = json.dumps({"prompt": "one two three " * 100})
    wrong = ['{"prompt": "Ada", "id": 1}', "Ada", '["Ada"]', '{"text": "Ada"}', '{"prompt": 1}',
             '{"prompt": "Ada", "id": [1]}', '{"prompt": "Ada", "temperature": 0}', long,
             '{"prompt": "The lamp", "id": 2.5}', "[" * 100000]
    out, errors = luminal("run", MODEL, "--prompts", "-", "-n", 3, "--ctx", 64, code=1,
                          given="\n".join(wrong).encode())
    got = lines_of(out)
    said = [g.get("error", "") for g in got]
    check(said[7].startswith("the prompt has ") and said[7].endswith(
        " tokens, the context holds 64: raise --ctx (the model was trained for 512) or shorten the prompt"),
        f"a long prompt: {said[7]}")
    check(said[:7] + said[8:] == [
        "", "the line is not a JSON object", "the line is not a JSON object", 'the line has no "prompt"',
        '"prompt" is not a text', '"id" is not a text or a number',
        '"temperature" is not known: a line has "prompt" and "id"', "", "the line is not a JSON object"],
        f"mistakes: {said}")
    check(len(got[0]["tokens"]) == 3 and got[8]["id"] == 2.5, f"good ones among wrong ones: {got}")
    check("10 prompts, 8 of them wrong" in errors, f"closing line {errors!r}")

    (folder / "empty.txt").write_text("\n \n")
    luminal.refuses("run", MODEL, "--prompts", folder / "empty.txt",
                    says="empty.txt: there is no prompt in it, one a line is expected")
    luminal.refuses("run", MODEL, "Ada", "--prompts", file, code=2, says="behind the model and by --prompts")
    luminal.refuses("run", MODEL, "--prompts", file, "--report", code=2,
                    says="--report: it is not for --prompts")
    luminal.refuses("run", MODEL, "Ada", "--parallel", 2, code=2, says="--parallel: it is for --prompts")


def interrupted(luminal, folder):
    """Ctrl-C: the texts so far, and the code of an interruption."""
    file = folder / "prompts.txt"
    file.write_text("Ada\n" * 200)
    process = subprocess.Popen([luminal.program, "run", MODEL, "--prompts", file, "--ignore-eos"],
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=luminal.environment)
    first = process.stdout.readline()
    process.send_signal(signal.SIGINT)
    rest = process.stdout.read().splitlines()
    check(process.wait(60) == 130, f"Ctrl-C ends with {process.returncode}")
    check(json.loads(first)["stop_reason"] == "context", f"{first!r}")
    reasons = [json.loads(line)["stop_reason"] for line in rest]
    check(len(rest) < 150 and set(reasons) <= {"context", "interrupted"}, f"behind Ctrl-C: {reasons}")


def draft(luminal, folder):
    """run --draft: the text of the model alone, whatever the draft; what was accepted; mistakes."""
    few = folder / "q4.gguf"
    luminal("quantize", BUILTIN / "hf", few, "Q4_0")
    want = alone(luminal, MODEL, PROMPT, "-n", 80)
    for model, count in ((MODEL, 4), (few, 3), (few, 1)):
        out, errors = luminal("run", MODEL, PROMPT, "--temp", 0, "-n", 80, "--draft", model, "--draft-count",
                              count, "--json")
        answer = json.loads(out)
        got = answer["draft"]
        check({k: answer[k] for k in want} == want, f"with the draft {model}: {answer}, alone {want}")
        check(set(got) <= documented_words("luminal run") and got["model"] == str(model)
              and got["count"] == count, f"keys of draft: {got}")
        check(0 < got["accepted"] <= got["proposed"] and got["share"] == got["accepted"] / got["proposed"],
              f"{got}")
        check(got["accepted"] == got["proposed"] or model == few, f"the model itself as a draft: {got}")
        check(f"draft: {got['accepted']} of {got['proposed']} proposed tokens accepted (" in errors, errors)
        check(answer["timings"]["bandwidth_fraction"] is None, "a rate that says nothing of the memory")
    how = ("run", MODEL, PROMPT, "-n", 40, "--seed", 3, "--draft", few, "--no-display-prompt")
    check(luminal(*how)[0] == luminal(*how)[0], "the same seed gives another text")
    stopped = json.loads(luminal("run", MODEL, PROMPT, "--temp", 0, "--stop", ".", "--draft", MODEL,
                                 "--json")[0])
    want = alone(luminal, MODEL, PROMPT, "--stop", ".")
    check({k: stopped[k] for k in want} == want, f"--stop with a draft: {stopped}, alone {want}")
    rules = 'root ::= "the " ("cat" | "dog") "."'
    text = luminal("run", MODEL, "Ada saw ", "--grammar", rules, "--draft", few, "--no-display-prompt")[0]
    check(text in (b"the cat.\n", b"the dog.\n"), f"--grammar with a draft: {text}")

    # Several texts at once, each with proposals of its own.
    file = folder / "drafted.jsonl"
    texts = [PROMPT, "Ada", "The lamp", "Far away"]
    file.write_text("".join(json.dumps({"prompt": text}) + "\n" for text in texts))
    many = ("run", MODEL, "--prompts", file, "-n", 40, "--temp", 0, "--parallel", 3)
    got = lines_of(luminal(*many, "--draft", few)[0])
    for line, plain in zip(got, lines_of(luminal(*many)[0])):
        check("draft" not in plain and {k: line[k] for k in ("text", "tokens")} ==
              {k: plain[k] for k in ("text", "tokens")}, f"{line}, without a draft {plain}")
        check(0 < line["draft"]["accepted"] <= line["draft"]["proposed"], f"{line}")

    tiny = folder / "tiny.gguf"
    luminal("bench", "--random-weights", "tiny", "--type", "f32", "-r", 0, "--save", tiny)
    size = json.loads(luminal("inspect", tiny, "--json")[0])["config"]["vocab_size"]
    own = json.loads(luminal("inspect", MODEL, "--json")[0])["config"]["vocab_size"]
    luminal.refuses("run", MODEL, "a", "--draft", tiny,
                    says=f"tiny.gguf: a draft has the vocabulary of its model: {size} tokens, .* has "
                         f"{own}$")
    luminal.refuses("run", MODEL, "a", "--draft", folder / "none.gguf",
                    says="none.gguf: no such file or folder")
    luminal.refuses("run", MODEL, "a", "--draft-count", 3, code=2, says="--draft-count: it is for --draft")
    story = DATA / "llm" / "stories260K.gguf"
    if story.exists():
        luminal.refuses("run", MODEL, "a", "--draft", story, says="a draft has the tokenizer of its model: ")


def stories(luminal, folder):
    """The real Llama of 260 thousand parameters foretells its own kind of text."""
    model = DATA / "llm" / "stories260K.gguf"
    if not model.exists():
        print("no stories260K.gguf: set LUMINAL_TEST_DATA")
        return
    said = json.loads(luminal("run", model, "Once upon a time", "-n", 200, "--temp", 0, "--json")[0])["text"]
    text = folder / "story.txt"
    text.write_text("Once upon a time" + said)
    own = json.loads(luminal("perplexity", model, "-f", text, "--context", 64, "--json")[0])
    check(1 < own["perplexity"] < 3, f"its own greedy text: {own}")
    top = json.loads(luminal("logits", model, "Once upon a", "--json", "--top", 1)[0])["top"][0]
    check(top["text"].endswith("time") or top["probability"] > 0.5, f"Once upon a: {top}")
    texts = ["Once upon a time", "Lily", "The dog ran to the park and"]
    got = lines_of(luminal("run", model, "--prompts", "-", "--temp", 0, "-n", 100,
                           given="\n".join(texts).encode())[0])
    for g, text in zip(got, texts):
        want = alone(luminal, model, text, "-n", 100)
        check({k: g[k] for k in want} == want, f"{g}, alone {want}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        luminal = Luminal(sys.argv[1], folder / "cache")
        for test in (logits, perplexity, prompts, interrupted, draft, stories):
            here = folder / test.__name__
            here.mkdir()
            test(luminal, here)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
