#!/usr/bin/env python3
# tools/changed_tests.py -- the tests that files changed since a commit can reach, as one regular
# expression for ctest.
"""The tests that files changed since a commit can reach, as one regular expression for ctest -R.

  tools/changed_tests.py --build build --since HEAD~3

A test is reached where a changed file is an argument of its command, is imported by a script there,
or is an input of a program in its command or of a package of the build that its environment names.
Ninja knows the inputs, headers included, once the build is up to date. What tests read while they
run is not an input of the build: a file below tests/FOLDER that is not compiled reaches the
programs that are made of sources from there, and a file that a source names behind
LUMINAL_SOURCE_DIR reaches its program. The tests of the tree itself that run no program of the
build are reached, but for those that READS says more of; a page reaches the tests of its code
blocks. What decides how everything is built (CMake files, set-up) reaches every test."""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys

import tree

REACHES_ALL = re.compile(
    r"CMakeLists\.txt$|CMakePresets\.json$|^cmake/|^LAYERS$|^tools/(setup|build)\.sh$|^tests/support/")
OF_SOURCES = {"tree.consumer"}  # builds a program from the sources
HEADER = r"^(include|src)/.*\.h$"
NAMED = re.compile(r'LUMINAL_SOURCE_DIR "/([^"]+)"')
READS = {  # all that these tests of the tree read
    "tree.benches": HEADER + r"|^bench/|^tools/(check_benches|tree)\.py$",
    "tree.headers": HEADER + r"|^tools/(check_headers|tree)\.py$",
    "tree.idioms": r"^include/|\.md$|^tests/tree/idioms|^tools/readme_blocks\.py$",
    "tree.math_coefficients": r"^src/codegen/math|^tools/math_coefficients\.py$",
    "tree.tools": r"^tools/|^tests/tree/tools_test\.py$|\.sh$",
}


def lines(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def changed_files(root, since):
    git = ["git", "-c", f"safe.directory={root}", "-C", str(root)]
    names = lines(*git, "diff", "--name-only", since) + lines(*git, "ls-files", "-o", "--exclude-standard")
    return {name for name in names if name}


class Inputs:
    """The files of the tree that an output of the build depends on."""

    def __init__(self, root, build):
        self.root, self.build, self.known, self.named = root, build, {}, {}
        self.edges = {}  # output -> inputs, headers included
        text = (build / "build.ninja").read_text().replace("$\n", "")
        for edge in re.findall(r"^build (.*)$", text, re.M):
            outputs, inputs = re.split(r"(?<!\$): ", edge, maxsplit=1)
            inputs = [word for word in self.words(inputs)[1:] if word not in ("|", "||", "")]
            for output in self.words(outputs):
                self.edges.setdefault(output, []).extend(inputs)
        for line in lines("ninja", "-C", str(build), "-t", "deps"):
            if line and not line.startswith(" "):
                current = self.edges.setdefault(line.split(":")[0], [])
            elif line.strip():
                current.append(line.strip())

    @staticmethod
    def words(text):
        """Ninja's list of paths; a dollar sign escapes blanks, colons and itself."""
        return [re.sub(r"\$([ :$])", r"\1", word) for word in re.split(r"(?<!\$) ", text)]

    def in_tree(self, name):
        path = pathlib.Path(os.path.normpath(self.build / name))
        return str(path.relative_to(self.root)) if path.is_relative_to(self.root) else None

    def of(self, output):
        if output not in self.known:
            seen, todo = set(), [output]
            while todo:
                name = todo.pop()
                if name not in seen:
                    seen.add(name)
                    todo += self.edges.get(name, ())
            self.known[output] = {self.in_tree(name) for name in seen} - {None}
        return self.known[output]

    def below(self, folder):
        """The inputs of all outputs in a folder of the build, and the files of the tree that links there
        lead to."""
        if folder not in self.known:
            inside = str(folder.relative_to(self.build)) + "/"
            found = set()
            for output in self.edges:
                if output.startswith(inside):
                    found |= self.of(output)
            for path in folder.rglob("*"):
                if path.is_symlink() and path.resolve().is_relative_to(self.root):
                    found.add(str(path.resolve().relative_to(self.root)))
            self.known[folder] = found
        return self.known[folder]

    def imported(self, script):
        """The files beside a script of Python that it imports, and those that they import."""
        seen, todo = set(), [script]
        while todo:
            path = pathlib.PurePath(todo.pop())
            if path.suffix != ".py" or not (self.root / path).is_file():
                continue
            text = (self.root / path).read_text(errors="replace")
            for module in re.findall(r"^\s*(?:import|from) (\w+)", text, re.M):
                beside = str(path.parent / f"{module}.py")
                if beside not in seen and (self.root / beside).is_file():
                    seen.add(beside)
                    todo.append(beside)
        return seen

    def reads(self, output, file):
        """Whether the program may open the file while it runs: one that is not compiled."""
        if pathlib.PurePath(file).suffix in (".cpp", ".h"):
            return False
        inputs = self.of(output)
        parts = pathlib.PurePath(file).parts
        if parts[0] == "tests" and any(name.startswith("/".join(parts[:2]) + "/") for name in inputs):
            return True
        if output not in self.named:
            texts = ((self.root / name).read_text(errors="replace")
                     for name in inputs if name.startswith("tests/") and (self.root / name).is_file())
            self.named[output] = {place.rstrip("/") for text in texts for place in NAMED.findall(text)}
        return any(file == place or file.startswith(place + "/") for place in self.named[output])


def folders_of_environment(test, build):
    """Folders of the build, but for the build itself, in the test's environment."""
    for one in test.get("properties", []):
        if one["name"] == "ENVIRONMENT":
            for setting in one["value"]:
                for place in setting.partition("=")[2].split(os.pathsep):
                    path = pathlib.Path(place)
                    if path != build and path.is_relative_to(build) and path.is_dir():
                        yield path


def reached(test, changed, inputs, all_sources):
    """Whether a test of ctest's list depends on a changed file."""
    name, programs = test["name"], 0
    if name in READS:
        return any(re.search(READS[name], file) for file in changed)
    if any(changed & inputs.below(folder) for folder in folders_of_environment(test, inputs.build)):
        return True
    for word in test.get("command", []):
        path = pathlib.Path(word)
        if not path.is_absolute():
            continue
        if path.is_relative_to(inputs.build) and path.is_file():
            output = str(path.relative_to(inputs.build))
            programs += 1
            if changed & inputs.of(output) or any(inputs.reads(output, file) for file in changed):
                return True
        elif path.is_relative_to(inputs.root) and path != inputs.root:
            inside = str(path.relative_to(inputs.root))
            if any(file == inside or file.startswith(inside + "/") for file in changed):
                return True
            if changed & inputs.imported(inside):
                return True
    if name in OF_SOURCES:
        return all_sources
    if name.startswith("page."):  # made from the page of that name
        return any(file.endswith(".md") and name[5:].startswith(pathlib.PurePath(file).stem.replace("-", "_"))
                   for file in changed)
    return name.startswith("tree.") and not programs


def main():
    arguments = argparse.ArgumentParser(description=__doc__,
                                        formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--root", type=pathlib.Path, default=tree.default_root())
    arguments.add_argument("--build", type=pathlib.Path, required=True)
    arguments.add_argument("--since", required=True, metavar="COMMIT")
    arguments = arguments.parse_args()
    root, build = arguments.root.resolve(), arguments.build.resolve()
    changed = changed_files(root, arguments.since)
    tests = json.loads("\n".join(lines("ctest", "--test-dir", str(build), "--show-only=json-v1")))["tests"]
    if any(REACHES_ALL.search(name) for name in changed):
        chosen = tests
    else:
        inputs = Inputs(root, build)
        all_sources = any(name.startswith(("src/", "include/")) for name in changed)
        chosen = [test for test in tests if reached(test, changed, inputs, all_sources)]
    # The tests of one program share the first part of their names.
    folders = {test["name"].split(".")[0] for test in tests}
    left_out = {test["name"] for test in tests} - {test["name"] for test in chosen}
    whole = {folder for folder in folders if not any(name.startswith(folder + ".") for name in left_out)}
    words = [re.escape(folder) + r"\." for folder in sorted(whole)]
    words += [re.escape(test["name"]) + "$" for test in chosen if test["name"].split(".")[0] not in whole]
    print(f"{len(changed)} changed files reach {len(chosen)} of {len(tests)} tests", file=sys.stderr)
    print("^(" + "|".join(words) + ")" if words else "^$")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except subprocess.CalledProcessError as error:
        sys.exit(f"changed_tests: {' '.join(error.cmd[:5])} failed: {error.stderr.strip()}")
