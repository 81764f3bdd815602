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
LUMINAL_SOURCE_DIR reaches its program. Of the archives that a program is linked with, those objects
count of which it holds a symbol. A script that uses the Python module is reached from a folder above
`tensor` where it has a word that python/bind/FOLDER binds. The tests of the tree itself that run no
program of the build are reached, but for those that READS says more of; a page reaches the tests of
its code blocks. What decides how everything is built (CMake files, set-up) reaches every test."""
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
BOUND = re.compile(r'\bm\.def(?:_submodule)?\(\s*"(\w+)"|\(\s*m,\s*"(\w+)"|\bboth\(\w+, \w+,\s*"(\w+)"')
BACKWARD = re.compile(r"backward|requires_grad|\.grad\b|gradient")  # what luminal.torch uses gradients for
OPERATION = re.compile(r"^Tensor (\w+)\(", re.M)
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


def symbols(file, *options):
    """Names in an object, archive or program; not those that many objects may define."""
    done = subprocess.run(["nm", "-P", *options, str(file)], capture_output=True, text=True)
    rows = (line.split() for line in done.stdout.splitlines())
    return {row[0] for row in rows if len(row) > 1 and row[1] in "TDBRtdbrU"}


class PythonParts:
    """The folders of python/bind, each for the folder of src/ of its name: which words of a script use
    them, and which folders above `tensor` they need."""

    def __init__(self, root, build):
        self.root, self.below, self.words, self.needs = root, {}, {}, {}
        if not (root / "python/bind").is_dir():
            return
        generated = (root / "python/generate.py").read_text()
        headers = {}
        for line in (root / "LAYERS").read_text().splitlines():
            name, colon, rest = line.partition(":")
            if colon and not name.startswith("#"):
                (headers if "/" in name else self.below)[name] = rest.split()
        everywhere = self.reach("tensor")
        for folder in sorted(path for path in (root / "python/bind").iterdir() if path.is_dir()):
            part = folder.name
            texts = [path.read_text() for path in folder.glob("*.cpp")]
            words = {word for text in texts for found in BOUND.findall(text) for word in found if word}
            for header, (owner, *_) in headers.items():
                stem = pathlib.PurePath(header).stem
                if owner == part and f'"{stem}"' in generated:
                    words.update([stem, *OPERATION.findall((root / "include" / header).read_text())])
            self.words[part] = words
            wanted = symbols(build / f"libluminal_{part}.a", "--undefined-only")
            self.needs[part] = {part} | {
                one for one in self.reach(part) - everywhere
                if wanted & symbols(build / f"libluminal_{one}.a", "--defined-only", "--extern-only")}

    def of(self, file):
        """The parts without which a file of the tree does nothing in the module; none: it may always."""
        parts = pathlib.PurePath(file).parts
        if parts[:2] == ("python", "bind") and len(parts) > 3:
            return {parts[2]}
        folder = parts[1] if len(parts) > 2 and parts[0] == "src" else ""
        if folder not in self.below or folder in self.reach("tensor"):
            return set()
        return {part for part, needed in self.needs.items() if folder in needed} or {"nothing"}

    def reach(self, folder):
        """It and the folders below it."""
        seen, todo = set(), [folder]
        while todo:
            name = todo.pop()
            if name not in seen:
                seen.add(name)
                todo += self.below[name]
        return seen

    def used_by(self, scripts):
        text = "\n".join(path.read_text(errors="replace") for path in scripts)
        words = set(re.findall(r"\w+", text))
        for package in (self.root / "python/luminal").glob("*/"):
            if package.name in words and BACKWARD.search(text):
                for path in package.rglob("*.py"):
                    words.update(re.findall(r"\w+", path.read_text()))
        return {part for part, names in self.words.items() if names & words}


class Inputs:
    """The files of the tree that an output of the build depends on; of objects in archives those that
    have changed."""

    def __init__(self, root, build, changed):
        self.root, self.build, self.known, self.named = root, build, {}, {}
        self.changed, self.places = changed, {}
        self.python, self.symbols = PythonParts(root, build), {}
        self.edges = {}  # output -> inputs, headers included
        self.order = {}  # what has to be there before it, such as a library that it opens
        text = (build / "build.ninja").read_text().replace("$\n", "")
        for edge in re.findall(r"^build (.*)$", text, re.M):
            outputs, inputs = re.split(r"(?<!\$): ", edge, maxsplit=1)
            inputs = self.words(inputs)[1:]
            order = inputs.index("||") if "||" in inputs else len(inputs)
            for output in self.words(outputs):
                for edges, part in ((self.edges, inputs[:order]), (self.order, inputs[order + 1:])):
                    edges.setdefault(output, []).extend(word for word in part if word not in ("|", ""))
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
        if name not in self.places:
            path = os.path.normpath(os.path.join(self.build, name))
            inside = path.startswith(f"{self.root}/")
            self.places[name] = path[len(f"{self.root}/"):] if inside else None
        return self.places[name]

    def symbols_of(self, output, *options):
        if output not in self.symbols:
            self.symbols[output] = symbols(self.build / output, "--defined-only", *options)
        return self.symbols[output]

    def holds(self, program, object_file):
        """Whether the linker took an object out of an archive: then its symbols are in the program."""
        there, defined = self.symbols_of(program), self.symbols_of(object_file, "--extern-only")
        return not there or not defined or not there.isdisjoint(defined)

    def of(self, output):
        if output not in self.known:
            # Each with what it is linked into: archives with the program or library that takes of them.
            seen, todo = set(), [(name, output) for name in (output, *self.order.get(output, ()))]
            while todo:
                name, linked = step = todo.pop()
                if step in seen:
                    continue
                seen.add(step)
                archive = name.endswith(".a") and linked != name
                for one in self.edges.get(name, ()):
                    if not archive or not one.endswith(".o") or (
                            self.changed & {self.in_tree(file) for file in self.edges.get(one, ())}
                            and self.holds(linked, one)):
                        todo.append((one, linked if archive or one.endswith(".a") else one))
            self.known[output] = {self.in_tree(name) for name, _ in seen} - {None}
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
        """The files beside a script of Python, or in python/, that it imports, and those that they import."""
        seen, todo = set(), [script]
        while todo:
            path = pathlib.PurePath(todo.pop())
            if path.suffix != ".py" or not (self.root / path).is_file():
                continue
            text = (self.root / path).read_text(errors="replace")
            for module in re.findall(r"^\s*(?:import|from) (\w+)", text, re.M):
                for folder in (path.parent, pathlib.PurePath("python")):
                    beside = str(folder / f"{module}.py")
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


def scripts_of(test, inputs):
    """The scripts of Python in its command, and what they import from beside them or from python/."""
    scripts = [path for path in map(pathlib.Path, test.get("command", []))
               if path.suffix == ".py" and path.is_absolute() and path.is_file()]
    for path in scripts:
        if path.is_relative_to(inputs.root):
            beside = inputs.imported(str(path.relative_to(inputs.root)))
            scripts += [inputs.root / one for one in beside if inputs.root / one not in scripts]
    return scripts


def reached(test, changed, inputs, all_sources):
    """Whether a test of ctest's list depends on a changed file."""
    name, programs = test["name"], 0
    if name in READS:
        return any(re.search(READS[name], file) for file in changed)
    scripts = scripts_of(test, inputs)
    for folder in folders_of_environment(test, inputs.build):
        parts = [inputs.python.of(file) for file in changed & inputs.below(folder)]
        if parts and any(not part or part & inputs.python.used_by(scripts) for part in parts):
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
        inputs = Inputs(root, build, changed)
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
