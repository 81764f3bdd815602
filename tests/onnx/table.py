# onnx/table.py -- docs/onnx.md's table of what passes of ONNX's backend tests, by operator; called by
# run_backend_tests.py --table. Reads only the names of operators from the models.
import collections
import pathlib
import re

marker = "<!-- the rest of this page is made by tests/onnx/run_backend_tests.py --table -->"


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128: return value, at


def fields(data):
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == 2:
            size, at = varint(data, at)
            yield key >> 3, data[at:at + size]
            at += size
        elif kind == 0:
            value, at = varint(data, at)
            yield key >> 3, value
        else:
            size = 8 if kind == 1 else 4
            yield key >> 3, data[at:at + size]
            at += size


def operators(model):
    """domain.name of the nodes of the graph itself."""
    found = set()
    for number, graph in fields(model):
        if number != 7: continue
        for inner, node in fields(graph):
            if inner != 1: continue
            parts = dict(f for f in fields(node) if f[0] in (4, 7))
            domain = parts.get(7, b"").decode()
            found.add((domain + "." if domain else "") + parts[4].decode())
    return found


def write(folder, outcome, out, page):
    counts = collections.defaultdict(lambda: [0, 0, 0, set()])
    for path in folder.rglob("model.onnx"):
        name = path.parent.name
        if "_expanded" in name: continue
        for op in operators(path.read_bytes()):
            row = counts[op]
            row[0] += 1
            verdict = outcome[name][0]
            row[1] += verdict != "fail"
            row[2] += verdict == "fixed"
            if verdict == "fail": row[3].add(re.sub(r" \(.*", "", out.get(name, outcome[name][1])))
    reasons = collections.Counter(re.sub(r" \(.*", "", out.get(n, "unexpected"))
                                  for n, (v, _) in outcome.items() if v == "fail")
    passed = sum(v != "fail" for v, _ in outcome.values())
    fixed = sum(v == "fixed" for v, _ in outcome.values())
    lines = [marker, "", "## ONNX's backend tests", "",
             f"{passed} of {len(outcome)} tests of ONNX 1.22 pass with the tolerances of ONNX's own runner; "
             f"{fixed} of them with inputs that are fixed,", "because shapes depend on their values.", "",
             "| out, by reason | tests |", "| --- | --- |"]
    lines += [f"| {reason} | {count} |" for reason, count in sorted(reasons.items())]
    lines += ["", "By operator (tests whose graph has it, without those that ONNX expanded into other "
                  "operators):", "",
              "| operator | tests | pass | of these with fixed inputs | out |",
              "| --- | --- | --- | --- | --- |"]
    lines += [f"| {op} | {n} | {p} | {f or ''} | {', '.join(sorted(why))} |"
              for op, (n, p, f, why) in sorted(counts.items())]
    text = page.read_text() if page.exists() else ""
    head = text.split(marker)[0].rstrip() + "\n\n" if marker in text else text
    page.write_text(head + "\n".join(lines) + "\n")
