#!/usr/bin/env python3
# tools/check_benches.py -- every benchmark compiles: the default build leaves them out. Only the
# compiler's front end runs. A file that was fine is not looked at again until it, a header it
# reaches or its flags change.
import argparse
import json
import pathlib
import re
import shlex
import sys

import tree


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", type=pathlib.Path, default=tree.default_root())
    parser.add_argument("--build", type=pathlib.Path, required=True, help="folder with compile_commands.json")
    parser.add_argument("--jobs", type=int, default=tree.cores())
    args = parser.parse_args()
    root = args.root.resolve()
    closure, items = tree.Closure(root), []
    for entry in json.loads((args.build / "compile_commands.json").read_text()):
        path = pathlib.Path(entry["file"]).resolve()
        if path.is_relative_to(root / "bench") and path.is_file():
            command = shlex.split(re.sub(r" -o \S+ -c ", " -fsyntax-only -Werror ", entry["command"]))
            items.append((path.relative_to(root), closure.key(path, *command), command, None))
    failed, ran, _ = tree.run_cached(args.build / "bench-cache", items, args.jobs)
    for path, output in failed:
        print(f"{path} does not compile:\n{output}")
    print(f"{len(items)} files, {ran} compiled now, {len(failed)} failed")
    return 1 if failed or not items else 0


if __name__ == "__main__":
    sys.exit(main())
