#!/usr/bin/env python3
# tests/tree/idioms_test.py -- programs of users compile with -Wall -Wextra -Werror: options with
# some members named, the programs in the documents.
#
#   idioms_test.py COMPILER PAGES     (with clang++-19 as well, where it is installed)
import concurrent.futures
import pathlib
import shutil
import subprocess
import sys

TREE = pathlib.Path(__file__).resolve().parents[2]
WARNINGS = ["-std=c++20", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", f"-I{TREE / 'include'}"]
# A member that would be left out without a default is what these options are about.
BROKEN = "struct S { int a = 0; int b; };\nint f(S s) { return s.a; }\nint g() { return f({.a = 1}); }\n"


def mistakes(compiler, source, text=None):
    made = subprocess.run([compiler, *WARNINGS, "-x", "c++", "-" if text else source], input=text, text=True,
                          capture_output=True)
    return "" if made.returncode == 0 else f"{compiler} {source}\n{made.stdout}{made.stderr}"


def main():
    compilers = [sys.argv[1]] + [c for c in ["clang++-19"] if shutil.which(c)
                                 and c != pathlib.Path(sys.argv[1]).name]
    sources = [TREE / "tests/tree/idioms.cpp", *sorted(pathlib.Path(sys.argv[2]).glob("*.cpp"))]
    assert len(sources) > 5, sources
    for compiler in compilers:
        assert mistakes(compiler, "a member without a default", BROKEN), f"{compiler} does not warn"
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        found = [m for m in pool.map(lambda job: mistakes(*job), [(c, s) for s in sources for c in compilers])
                 if m]
    print("\n".join(found))
    print(f"{len(sources)} programs, {', '.join(compilers)}: {len(found)} with warnings")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
