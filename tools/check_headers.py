#!/usr/bin/env python3
# tools/check_headers.py -- every header compiles alone, twice in one file, and public ones without src/ in sight.
# A header that has compiled is not compiled again until it or a header it reaches changes.
import argparse
import pathlib
import subprocess
import sys

import tree


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", type=pathlib.Path, default=tree.default_root())
    parser.add_argument("--compiler", default="c++")
    parser.add_argument("--cache", type=pathlib.Path, required=True, help="folder that remembers what has compiled")
    parser.add_argument("--jobs", type=int, default=tree.cores())
    parser.add_argument("--system", action="append", default=[], help="a folder of another library's headers")
    args = parser.parse_args()
    version = subprocess.run([args.compiler, "--version"], capture_output=True, text=True, check=True).stdout
    closure, items = tree.Closure(args.root), []
    for path in tree.files(args.root, {".h"}):
        if path.parts[0] not in ("include", "src"):
            continue
        name = "/".join(path.parts[1:])
        command = [args.compiler, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Wshadow", "-Werror",
                   "-Wno-missing-field-initializers", "-I", str(args.root / "include")]
        if path.parts[0] == "src":
            command += ["-I", str(args.root / "src")]
            for folder in args.system:
                command += ["-isystem", folder]
        command += ["-x", "c++", "-"]
        text = f'#include "{name}"\n#include "{name}"\n'
        items.append((path, closure.key(args.root / path, version, *command), command, text))
    if not items:
        print("no headers found")
        return 1
    failed, ran, _ = tree.run_cached(args.cache, items, args.jobs)
    for path, output in failed:
        print(f"{path} does not compile alone:\n{output}")
    print(f"{len(items)} headers, {ran} compiled now, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
