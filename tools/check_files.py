#!/usr/bin/env python3
# tools/check_files.py -- rules that hold for every file of the tree.
#
#   first line   says what the file is: "// folder/file.h -- ..." in C++, a comment elsewhere (after #!)
#   length       public headers 300 lines, code 600
#   text         UTF-8, no tabs, no absolute path of somebody's machine, no note of unfinished work
#   columns      110 in each line of code and prose. Longer may be what has no place to break a line: rows
#                of tables and texts shown in Markdown, raw strings of C++ (programs in other languages),
#                rules of .egg files (a rule is a line)
#   integers     a header that names uint8_t and its like includes <cstdint> (C: <stdint.h>), itself or by a
#                header of the tree: some standard libraries bring it along, others do not
#   pages        a path of the tree that a .md file names is there
#   path         what ARCHITECTURE.md lists for a newcomer has the lines that it states, at most 6,000
#   stems        no header of src shares its stem with a .cpp of another folder: readers, and tools that draw
#                the tree, pair them
#   types        in src and include a type of a namespace is defined in one file: two of one name are one
#                type to the linker, which takes the templates of either for both
import argparse
import pathlib
import re
import sys

import tree

CODE = {".cpp", ".h", ".py", ".sh", ".cmake", ".egg", ".in"}
CODE_NAMES = {"CMakeLists.txt", "LAYERS"}
TEXT = CODE | {".md", ".json", ".yml", ".toml", ".txt", ".luminal", ".expected", ""}
MAX_CODE, MAX_PUBLIC, MAX_COLUMNS, MAX_PATH = 600, 300, 110, 6000
MACHINE_PATH = re.compile(r"(?<![\w.~$}*])/(?:work|root|home/[a-z][\w.-]*|Users/\w+|tmp/b-\w+)/")
UNFINISHED = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")
NAMED = re.compile(r"`((?:src|include|tests|examples|bench|tools|docs|cmake)/[\w./-]*[\w/])`")
TYPE = re.compile(r"(?:template <.*> )?(?:struct|class|union|enum class) (?:LUMINAL_\w+ )?(\w+)(?: "
                  r"final)?(?: ?:(?!:).*)?(?: \{.*)?$")
RAW = re.compile(r'R"(\w*)\(.*?\)\1"', re.S)
COMMENT = {".cpp": "//", ".h": "//", ".egg": ";", ".md": "#"}


def first_line(path, lines):
    if lines and lines[0].startswith("#!"):
        lines = lines[1:]
    line = lines[0] if lines else ""
    if path.suffix in (".cpp", ".h"):
        match = re.match(r"// (\S+) -- \S", line)
        if not match or not f"/{path}".endswith("/" + match.group(1)) or path.name not in match.group(1):
            names = path.parts[1:] if path.parts[0] in ("src", "include") else path.parts
            return f"the first line must be '// {'/'.join(names)} -- what it is'"
    elif path.suffix == ".in":
        if not line.strip():
            return "the first line is empty"
    else:
        sign = COMMENT.get(path.suffix, "#")
        if not line.startswith(sign) or len(line.strip("#;/ ")) < 8:
            return f"the first line must be a comment ({sign}) that says what the file is"
    return None


def long_lines(path, text, lines):
    """Numbers of the lines above MAX_COLUMNS that could be broken."""
    found = {number for number, line in enumerate(lines, 1) if len(line) > MAX_COLUMNS}
    if not found or path.suffix not in CODE | {".md", ".c"} and path.name != "CMakeLists.txt":
        return []
    if path.suffix in (".cpp", ".h", ".c"):
        for raw in RAW.finditer(text):
            begin = text.count("\n", 0, raw.start()) + 1
            found -= set(range(begin, begin + raw.group().count("\n") + 1))
    if path.suffix == ".egg":
        found = {number for number in found if lines[number - 1].lstrip().startswith(";")}
    if path.suffix == ".md":
        fence = ""
        for number, line in enumerate(lines, 1):
            if line.lstrip().startswith("```"):
                fence = "" if fence else line.strip("` ").split(" ")[0] or "text"
            if line.lstrip().startswith("|") or fence and fence not in ("cpp", "sh", "python", "c"):
                found.discard(number)
    return sorted(found)


def without_cstdint(root):
    """Headers of src and include that name fixed-width integers and reach no #include <cstdint>
    through headers of the tree."""
    texts = {str(path): (root / path).read_text(errors="replace")
             for path in tree.files(root) if path.suffix == ".h" and path.parts[0] in ("src", "include")}
    known = {}

    def reaches(name):
        if name not in known:
            known[name] = "<cstdint>" in texts[name] or "<stdint.h>" in texts[name]  # the latter in C
            parts = re.findall(r'#include "([^"]+)"', texts[name])
            known[name] = known[name] or any(reaches(f"{base}/{part}") for part in parts
                                             for base in ("src", "include") if f"{base}/{part}" in texts)
        return known[name]

    return [name for name, text in texts.items() if re.search(r"\bu?int(?:8|16|32|64)_t\b", text)
            and not reaches(name)]


def types(lines):
    """[(line, name with its namespaces)] of the types that stand at the left margin, outside of
    unnamed namespaces."""
    inside, found = [], []
    for number, line in enumerate(lines, 1):
        if match := re.match(r"namespace(?: ([\w:]+))? \{$", line):
            inside.append(match.group(1))
        elif line.startswith("} // namespace") and inside:
            inside.pop()
        elif (match := TYPE.match(line)) and None not in inside:
            found.append((number, "::".join([*inside, match.group(1)])))
    return found


def stems(root):
    """Headers of src whose stem is that of a .cpp in another folder and of none in their own."""
    paths = [path for path in tree.files(root, {".h", ".cpp"}) if path.parts[0] == "src"]
    sources = {}
    for path in paths:
        if path.suffix == ".cpp":
            sources.setdefault(path.stem, set()).add(path.parts[1])
    return [f"{path}: shares its stem with src/{other}/{path.stem}.cpp" for path in paths
            if path.suffix == ".h"
            for other in sorted(sources.get(path.stem, set()) - {path.parts[1]})]


def newcomer(root):
    """Complaints about the table of ARCHITECTURE.md that leads from Tensor to machine code."""
    page = root / "ARCHITECTURE.md"
    section = page.read_text().partition("## The path for a newcomer\n")[2].partition("\n## ")[
        0] if page.exists() else ""
    bad, total = [], 0
    for row in re.findall(r"^\| (.*) \| (\d+) \|$", section, re.M):
        lines, folder = 0, pathlib.Path()
        for name in re.findall(r"`([^`]+)`", row[0]):
            path = root / name if "/" in name else folder / name
            folder = path.parent
            if path.exists():
                lines += len(path.read_text().splitlines())
            else:
                bad.append(f"ARCHITECTURE.md: there is no {path.relative_to(root)}")
        total += lines
        stated, counted = int(row[1]), lines if "`" in row[0] else total
        if abs(stated - counted) > 0.25 * counted:
            bad.append(f"ARCHITECTURE.md: the path for a newcomer states {stated} lines where {counted} are: "
                       f"{row[0]}")
    return bad + ([f"ARCHITECTURE.md: the path for a newcomer has {total} lines, at most {MAX_PATH}"]
                  if total > MAX_PATH else [])


def check(root):
    bad, defined = stems(root), {}
    for path in tree.files(root):
        code = path.suffix in CODE or path.name in CODE_NAMES
        if (path.suffix not in TEXT
            and not code) or "corpus" in path.parts:  # inputs of fuzz targets are any bytes
            continue
        raw = (root / path).read_bytes()
        try:
            text = raw.decode()
        except UnicodeDecodeError as error:
            bad.append(f"{path}: not UTF-8 (byte {error.start})")
            continue
        lines = text.splitlines()
        bad += [f"{path}:{number}: {len(lines[number - 1])} columns, at most {MAX_COLUMNS}"
                for number in long_lines(path, text, lines)]
        for number, line in enumerate(lines, 1):
            if MACHINE_PATH.search(line):
                bad.append(f"{path}:{number}: an absolute path of one machine")
            if (code or path.suffix == ".md") and UNFINISHED.search(line):
                bad.append(f"{path}:{number}: a note of unfinished work")
            if (code or path.suffix == ".md") and "\t" in line:
                bad.append(f"{path}:{number}: a tab")
            for name in NAMED.findall(line) if path.suffix == ".md" else ():
                if not (root / name).exists() and not (root / path.parent / name).exists():
                    bad.append(f"{path}:{number}: there is no {name}")
        if path.parts[0] in ("src", "include") and path.suffix in (".cpp", ".h"):
            for number, name in types(lines):
                if defined.setdefault(name, path) != path:
                    bad.append(f"{path}:{number}: {name} is also a type of {defined[name]}")
        if code:
            complaint = first_line(path, lines)
            if complaint:
                bad.append(f"{path}:1: {complaint}")
            limit = MAX_PUBLIC if path.parts[0] == "include" else MAX_CODE
            if len(lines) > limit:
                bad.append(f"{path}:{limit + 1}: {len(lines)} lines, at most {limit}")
    bad += newcomer(root)
    bad += [f"{name}: names fixed-width integers without <cstdint>" for name in without_cstdint(root)]
    return bad


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", type=pathlib.Path, default=tree.default_root())
    bad = check(parser.parse_args().root)
    for line in bad:
        print(line)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
