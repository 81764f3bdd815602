#!/usr/bin/env python3
# tools/check_names.py -- no file of the compiler names a layer or an algorithm of deep learning: what is
# fast about them has to be found from their formulas.
import pathlib
import re
import sys

FOLDERS = ("expr", "ir", "egraph", "extract", "egg", "rules", "loop", "cone", "schedule", "choose", "codegen",
           "search", "compile")
NAMES = re.compile(r"attention|(layer|rms|batch|group|instance).?norm|soft.?max|flash|transformer|swiglu|"
                   r"cross.?entropy|perceptron|\b(llama|bert|gpt)", re.I)


def main():
    source = pathlib.Path(__file__).resolve().parent.parent / "src"
    found = 0
    for folder in FOLDERS:
        for path in sorted((source / folder).rglob("*")):
            if not path.is_file():
                continue
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                if match := NAMES.search(line):
                    print(f"{path.relative_to(source.parent)}:{number}: {match.group()}")
                    found += 1
    if found:
        print("Say what is computed, not where it occurs.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
