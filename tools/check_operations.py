#!/usr/bin/env python3
# tools/check_operations.py -- docs/operations.md names every operation of the public headers with
# its signature, and nothing that is not there. --update writes the section of signatures anew.
import argparse
import pathlib
import re
import sys
import textwrap

HEADERS = ("tensor", "unary", "operators", "tensor_functions", "functions", "nn_functions", "indexing",
           "random", "statistics", "linalg")
# Functions that are not operations: they belong to handles and their data.
HANDLES = set("""defined dtype shape rank dim size name set_name device to set set_dyn set_deferred
set_bytes borrow keep retrieve drop data item element_count numel extents read bytes dims dims1 dims2 dims3
dims4 dims5 graph id defer check_borrowed check_single pool_sizes""".split())
RESULTS = r"(?:Tensor&?|Indexed|Unique|Bounded|VarMean|StdMean|MinMax|MaxPool|std::vector<Tensor>)"
BEGIN = "## Signatures\n"


def cleaned(text):
    text = re.sub(r"//[^\n]*", "", text)
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    text = re.sub(r"\\\n", " ", text)
    text = re.sub(r"^#(?!define LUMINAL_POOLS)[^\n]*", "", text, flags=re.M)
    return re.sub(r"\s+", " ", text)


def closing(text, at):
    """The position behind the bracket that closes the one at `at`."""
    depth = 0
    for i in range(at, len(text)):
        depth += {"(": 1, ")": -1}.get(text[i], 0)
        if depth == 0:
            return i + 1
    raise ValueError(text[at:at + 60])


def parameters(text):
    """Without the caller's place, which nobody writes."""
    text = re.sub(r",? ?(?:LUMINAL_WHERE|std::source_location (?:where|place)(?: = "
                  r"std::source_location::current\(\))?|Where where = Where::current\(\))", "", text)
    return text.replace("( ", "(").replace("std::integral auto ", "int ").strip()


def unary_names(root):
    text = (root / "include/luminal/unary.h").read_text()
    return re.findall(r"F\((\w+)\)", text[text.index("#define LUMINAL_UNARY_FUNCTIONS"):])


def declarations(root, header):
    """[(name, signature)] of one header."""
    if header == "unary":
        return [(name, f"{name}(const Tensor& x)") for name in unary_names(root)]
    text = cleaned((root / f"include/luminal/{header}.h").read_text())
    found = []
    if header == "nn_functions":  # a macro makes those of one to three axes
        for part in re.findall(r"inline Tensor (\w+)##axes##d(\(.*?\)) \{", text):
            found += [(f"{part[0]}{n}d", f"{part[0]}{n}d{parameters(part[1])}") for n in (1, 2, 3)]
    for match in re.finditer(rf"(?<![\w<(,] )(?<![<(,]){RESULTS} ((?:operator ?[^\s(]+)|[a-z_][a-z0-9_]*)\(",
                             text):
        at, name = match.end() - 1, match.group(1).replace("operator ", "operator")
        while True:
            end = closing(text, at)
            if not (header == "tensor" and name in HANDLES) and name not in HANDLES:
                found.append((name, name + parameters(text[at:end])))
            more = re.match(r" const, (\w+)\(", text[end:])  # several declarators of one type
            if not more:
                break
            name, at = more.group(1), end + more.end() - 1
    return found


def section(root):
    lines = [BEGIN, "As they are declared, without the last parameter, which is the caller's place in the\n"
             "source. Functions of `luminal/tensor.h` are members: `x.sum(1)`; those of `unary.h` are\n"
             "members and free functions.\n"]
    for header in HEADERS:
        lines += [f"### luminal/{header}.h\n", "```text"]
        if header == "unary":  # all alike
            lines += textwrap.wrap(" ".join(name for name, _ in declarations(root, header))
                                   + ": each (const Tensor& x)", 110)
        else:
            for _, signature in declarations(root, header):
                lines += textwrap.wrap(signature, 110, subsequent_indent="    ", break_on_hyphens=False)
        lines += ["```\n"]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("root", nargs="?", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parent.parent)
    parser.add_argument("--update", action="store_true")
    args = parser.parse_args()
    page = args.root / "docs/operations.md"
    text = page.read_text()
    wanted = section(args.root)
    head = text[:text.index(BEGIN)] if BEGIN in text else text.rstrip() + "\n\n"
    if args.update:
        page.write_text(head + wanted)
        text = head + wanted
    there = {name for header in HEADERS for name, _ in declarations(args.root, header)
             if not name.startswith("operator")}
    named = set()
    for line in head[: head.index("## Accuracy")].splitlines():
        if line.startswith("| `"):
            named |= set(re.findall(r"`([a-z_][a-z0-9_]*)`", re.split(r"(?<!\\)\|", line)[1]))
    problems = [f"{name} is not in the tables of docs/operations.md" for name in sorted(there - named)]
    problems += [f"docs/operations.md names {name}, which no header has" for name in sorted(named - there)]
    if BEGIN not in text or text[text.index(BEGIN):] != wanted:
        here = set(text[text.index(BEGIN):].splitlines()) if BEGIN in text else set()
        problems += [f"not a signature any more: {line}" for line in sorted(here - set(wanted.splitlines()))]
        problems += [f"a signature that docs/operations.md lacks: {line}"
                     for line in sorted(set(wanted.splitlines()) - here)]
        problems += ["tools/check_operations.py --update writes the signatures"]
    print("\n".join(problems) or f"{len(named)} operations")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
