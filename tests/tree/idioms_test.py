#!/usr/bin/env python3
# tests/tree/idioms_test.py -- programs of users compile with -Wall -Wextra -Werror: options with
# some members named, the programs in the documents. One that was fine is not compiled again until it
# or a header that it reaches changes.
#
#   idioms_test.py COMPILER PAGES     (with clang++-19 as well, where it is installed)
import pathlib
import shutil
import subprocess
import sys

TREE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TREE / "tools"))
import tree  # noqa: E402
WARNINGS = ["-std=c++20", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", f"-I{TREE / 'include'}"]
# A member that would be left out without a default is what these options are about.
BROKEN = "struct S { int a = 0; int b; };\nint f(S s) { return s.a; }\nint g() { return f({.a = 1}); }\n"


def warns(compiler):
    return subprocess.run([compiler, *WARNINGS, "-x", "c++", "-"], input=BROKEN, text=True,
                          capture_output=True).returncode != 0


def main():
    compilers = [sys.argv[1]] + [c for c in ["clang++-19"] if shutil.which(c)
                                 and c != pathlib.Path(sys.argv[1]).name]
    sources = [TREE / "tests/tree/idioms.cpp", *sorted(pathlib.Path(sys.argv[2]).glob("*.cpp"))]
    assert len(sources) > 5, sources
    for compiler in compilers:
        assert warns(compiler), f"{compiler} does not warn"
    closure, items = tree.Closure(TREE, ("include", )), []
    for compiler in compilers:
        version = subprocess.run([compiler, "--version"], capture_output=True, text=True).stdout
        items += [(f"{compiler} {source}", closure.key(source, version, *WARNINGS),
                   [compiler, *WARNINGS, "-x", "c++", str(source)], None) for source in sources]
    found, ran, _ = tree.run_cached(pathlib.Path(sys.argv[2]).parent / "idioms-cache", items, 2)
    for name, output in found:
        print(f"{name}\n{output}")
    print(f"{len(sources)} programs, {', '.join(compilers)}: {ran} compiled now, {len(found)} with warnings")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
