#!/usr/bin/env python3
# tools/check_tidy.py -- clang-tidy 19 over the compiled files, with the checks of .clang-tidy as
# errors. A file is looked at again only when it, a header it reaches, its flags or .clang-tidy
# change, so a second run costs nothing. Files changed since a commit come first and are looked at
# whatever it takes; then, as long as there is time, those that include them; then all others. Exit
# code 77 (skipped) where clang-tidy 19 is not installed, or where time ran out before a finding:
# the files left are named, what was clean is remembered, and the next run goes on from there.
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

import tree


def find_tidy():
    for name in ("clang-tidy-19", "clang-tidy"):
        if shutil.which(name):
            version = subprocess.run([name, "--version"], capture_output=True, text=True).stdout
            if "version 19." in version:
                return name, version
    return None, None


# Flags of g++ that clang does not know.
GNU_FLAGS = ("-fno-reorder-blocks-and-partition", )


def commands_for_clang(build, folder, root):
    """A compile_commands.json in that folder with a command for each file, also for those that the
    build compiles in groups (LUMINAL_UNITY), without the flags that clang does not know; its entries."""
    entries = []
    for entry in json.loads((build / "compile_commands.json").read_text()):
        command = entry.get("command") or " ".join(entry["arguments"])
        for flag in GNU_FLAGS:
            command = command.replace(f" {flag}", "")
        group = entry["file"]
        files = [group]
        if re.search(r"/Unity/unity_\d+_cxx\.cxx$", group) and os.path.isfile(group):
            # CMake writes paths that are absolute, or relative to the root of the tree or to the group
            places = [root, os.path.dirname(group)]
            files = [os.path.normpath(next(path for path in (os.path.join(place, file) for place in places)
                                           if os.path.isfile(path)))
                     for file in re.findall(r'^#include "(.*)"', pathlib.Path(group).read_text(), re.M)]
        entries += [{"directory": entry["directory"], "file": file, "command": command.replace(group, file)}
                    for file in files]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "compile_commands.json").write_text(json.dumps(entries))
    return entries


def findings(failed, root):
    """Each finding once, with its lines of source, however many files reach the header it is in."""
    seen = []
    for name, output in failed:
        blocks, inside = [], False
        for line in output.splitlines():
            if re.match(r".+:\d+:\d+: (error|warning): ", line):
                blocks.append(line.replace(f"{root}/", "").replace(",-warnings-as-errors", ""))
                inside = True
            elif inside and re.match(r" *\d* \|", line) or (inside and ": note: " in line):
                blocks[-1] += "\n" + line.replace(f"{root}/", "")
            else:
                inside = False
        seen += [block for block in blocks or [f"{name}: clang-tidy failed:\n{output}"] if block not in seen]
    return seen


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", type=pathlib.Path, default=tree.default_root())
    parser.add_argument("--build", type=pathlib.Path, required=True, help="folder with compile_commands.json")
    parser.add_argument("--cache", type=pathlib.Path,
                        help="folder that remembers what was clean (BUILD/tidy-cache)")
    parser.add_argument("--jobs", type=int, default=tree.cores())
    parser.add_argument("--folders", default="src,examples,bench",
                        help="which folders of the tree, with commas")
    parser.add_argument("--seconds", type=float,
                        help="begin no file after that time; 0: no limit. LUMINAL_TIDY_SECONDS "
                        "has precedence")
    parser.add_argument("--since", help="the commit (HEAD~1); LUMINAL_TIDY_SINCE has precedence")
    parser.add_argument("files", nargs="*", help="only these (parts of paths)")
    args = parser.parse_args()
    tidy, version = find_tidy()
    if not tidy:
        print("skipped: clang-tidy-19 is not installed (tools/setup.sh --checks)")
        return tree.SKIPPED
    root = args.root.resolve()
    config = (root / ".clang-tidy").read_text()
    closure, items = tree.Closure(root), []
    commands = args.build / "tidy-commands"
    for entry in commands_for_clang(args.build, commands, root):
        path = pathlib.Path(os.path.join(entry["directory"], entry["file"])).resolve()
        if not path.is_relative_to(root) or not path.is_file():
            continue
        name = path.relative_to(root)
        if name.parts[0] not in args.folders.split(",") or (args.files
                                                            and not any(f in str(name) for f in args.files)):
            continue
        items.append((name, closure.key(path, version, config, entry["command"]),
                      [tidy, "-p", str(commands), "--quiet", "--warnings-as-errors=*", str(path)], None))
    changed = tree.changed(root, os.environ.get("LUMINAL_TIDY_SINCE") or args.since or "HEAD~1")
    paths = {(root / name).resolve() for name in changed}

    def rank(name):
        return 0 if str(name) in changed else 1 if paths & closure.reached(root / name).keys() else 2

    items.sort(key=lambda item: (rank(item[0]), str(item[0])))
    always = sum(rank(item[0]) == 0 for item in items)
    seconds = float(os.environ.get("LUMINAL_TIDY_SECONDS") or args.seconds or 0) or None
    started = time.monotonic()
    failed, ran, left = tree.run_cached(args.cache or args.build / "tidy-cache", items, args.jobs, seconds,
                                        always)
    for finding in findings(failed, root):
        print(finding)
    print(f"{len(items)} files, {ran} looked at in {time.monotonic() - started:.0f} s, {len(failed)} with "
          f"findings")
    if failed or not items:
        return 1
    if left:
        print("left: " + " ".join(left))
        print(f"skipped: time ran out with {len(left)} of {len(items)} files left; "
              "the next run goes on there")
        return tree.SKIPPED
    return 0


if __name__ == "__main__":
    sys.exit(main())
