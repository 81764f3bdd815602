#!/usr/bin/env python3
# tools/check_headers.py -- every header compiles alone and says #pragma once, public ones without
# src/ in sight. A header that has compiled is not compiled again until it or a header it reaches
# changes; one that is the first #include of a .cpp is compiled alone by the build already.
import argparse
import pathlib
import subprocess
import sys

import tree


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", type=pathlib.Path, default=tree.default_root())
    parser.add_argument("--compiler", default="c++")
    parser.add_argument("--cache", type=pathlib.Path, required=True,
                        help="folder that remembers what has compiled")
    parser.add_argument("--jobs", type=int, default=tree.cores())
    parser.add_argument("--system", action="append", default=[], help="a folder of another library's headers")
    args = parser.parse_args()
    version = subprocess.run([args.compiler, "--version"], capture_output=True, text=True, check=True).stdout
    sources = [path for path in tree.files(args.root, {".h", ".cpp"}) if path.parts[0] in ("include", "src")]
    first = {found[0][1] for found in (tree.includes((args.root / path).read_text(errors="replace"))
                                       for path in sources if path.suffix == ".cpp") if found}
    closure, items, unguarded = tree.Closure(args.root), [], []
    for path in sources:
        if path.suffix != ".h":
            continue
        name = "/".join(path.parts[1:])
        if "\n#pragma once\n" not in (args.root / path).read_text(errors="replace"):
            unguarded.append(path)
        if path.parts[0] == "src" and name in first:
            continue
        command = [args.compiler, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Wshadow", "-Werror",
                   "-Wno-missing-field-initializers", "-I", str(args.root / "include")]
        if path.parts[0] == "src":
            command += ["-I", str(args.root / "src")]
            for folder in args.system:
                command += ["-isystem", folder]
        command += ["-x", "c++", "-"]
        text = f'#include "{name}"\n'
        items.append((path, closure.key(args.root / path, version, *command), command, text))
    if not items:
        print("no headers found")
        return 1
    for path in unguarded:
        print(f"{path} has no #pragma once")
    failed, ran, _ = tree.run_cached(args.cache, items, args.jobs)
    for path, output in failed:
        print(f"{path} does not compile alone:\n{output}")
    print(f"{len(items)} headers, {ran} compiled now, {len(failed)} failed")
    return 1 if failed or unguarded else 0


if __name__ == "__main__":
    sys.exit(main())
