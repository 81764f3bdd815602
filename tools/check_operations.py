#!/usr/bin/env python3
# tools/check_operations.py -- docs/operations.md names every operation of the public headers, and nothing that is not there.
import pathlib
import re
import sys

HEADERS = ("tensor", "operators", "functions", "nn_functions", "indexing", "random", "statistics", "linalg")
# Words before a bracket that are no operations: macros, constructors, what belongs to handles.
OTHERS = {"requires", "current", "where_", "real", "graph_", "id_", "defer", "check_borrowed", "check_single", "list", "tensor", "whole", "number",
          "word", "shared_ptr", "move", "double", "graph"}


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent)
    there = set()
    for header in HEADERS:
        text = re.sub(r"//[^\n]*", "", (root / "include" / "luminal" / f"{header}.h").read_text())
        if header == "tensor":  # operations begin behind data and settings
            text = text[text.index("Tensor neg("):]
        there |= set(re.findall(r"(?:Tensor|Indexed|Unique|Bounded|VarMean|StdMean|MinMax|MaxPool|const|>|,)\s+([a-z_][a-z0-9_]*)\(", text)) - OTHERS
    text = (root / "docs" / "operations.md").read_text()
    named = set()
    for line in text[: text.index("## Accuracy")].splitlines():
        if line.startswith("| `"):
            named |= set(re.findall(r"`([a-z_][a-z0-9_]*)`", re.split(r"(?<!\\)\|", line)[1]))
    problems = [f"{name} is not in docs/operations.md" for name in sorted(there - named)]
    problems += [f"docs/operations.md names {name}, which no header has" for name in sorted(named - there)]
    print("\n".join(problems) or f"{len(named)} operations")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
