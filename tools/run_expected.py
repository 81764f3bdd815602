#!/usr/bin/env python3
# tools/run_expected.py -- runs a program and compares its standard output with a file, line by
# line. Without the file the program must only succeed. LUMINAL_UPDATE=1 writes the file. In the
# file, "<*>" stands for any text within a line: times and speeds.
import argparse
import difflib
import os
import pathlib
import re
import subprocess
import sys
import tempfile


def same(expected, line):
    parts = [re.escape(part) for part in expected.split("<*>")]
    return re.fullmatch(".*".join(parts), line) is not None


def differences(expected, got):
    """Lines of a diff, none where the texts agree. A line that agrees through <*> counts as the
    expected line."""
    expected, got = expected.splitlines(), got.splitlines()
    matcher = difflib.SequenceMatcher(a=expected, b=got, autojunk=False)
    for tag, a1, a2, b1, b2 in matcher.get_opcodes():
        if tag == "replace" and a2 - a1 == b2 - b1:
            for a, b in zip(range(a1, a2), range(b1, b2)):
                if same(expected[a], got[b]):
                    got[b] = expected[a]
    return list(difflib.unified_diff(expected, got, "expected", "got", lineterm=""))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--expected", type=pathlib.Path)
    parser.add_argument("--timeout", type=float, default=110)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:  # what the program writes must not land in the tree
        done = subprocess.run(args.command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, cwd=folder,
                              timeout=args.timeout)
    text = done.stdout.decode(errors="replace")
    if done.returncode != 0:
        print(f"{' '.join(args.command)} ended with {done.returncode}; its output:\n{text}")
        return 1
    if args.expected and os.environ.get("LUMINAL_UPDATE") == "1":
        args.expected.write_text(text)
    elif args.expected and args.expected.exists():
        diff = differences(args.expected.read_text(), text)
        if diff:
            print("\n".join(diff))
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
