#!/usr/bin/env python3
# tools/doc_rows.py -- the C++ lines in the tables of a Markdown file, as one program that the tests
# compile and run.
#
# Tables of three columns: a name, what stands for it, why. The middle column holds
#   `line` ..        lines of C++: statements (they end with `;`; a last expression of type bool must be
#                    true), or an expression, behind which `// 1 2 3` says what its first elements must be
#   later (word) ..  brought by another part
#   not yet: `line` ..  its name is settled, the line is not run
#   none ..          left out on purpose
# Everything else is an error with its place. The lines run in functions row_<line of the file>_<n>
# of a file that includes the given header.
import argparse
import pathlib
import re
import sys

SPAN = re.compile(r"(not yet: )?`([^`]*)`")


def cells(line):
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]]


def rows(text):
    """(line number, first cell, middle cell) of each row of each table of three columns."""
    header = None
    for number, line in enumerate(text.splitlines(), 1):
        if not line.lstrip().startswith("|"):
            header = None
        elif header is None:
            header = cells(line)
        elif not set(line) <= set("|-: ") and len(header) == 3:
            row = cells(line)
            if len(row) != 3:
                raise SystemExit(f"line {number}: {len(row)} cells where 3 are expected")
            yield number, row[0], row[1]


def statement(code):
    """Statements; the last one, where it is a comparison, must hold."""
    parts = code.rstrip(";").rsplit("; ", 1)
    last = parts[-1].strip()
    if re.search(r"(==|>=|>(?!\w*\()) [^;=]*$", last) and not re.match(r"\w[\w:<>, ]* \w+ = ", last):
        head = parts[0] + "; " if len(parts) == 2 else ""
        return f"{head}holds({last});"
    return code


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--header", required=True)
    parser.add_argument("file", type=pathlib.Path)
    args = parser.parse_args()
    functions, counts, names = [], {}, []
    for number, name, middle in rows(args.file.read_text()):
        word = re.match(r"(later \([^)]*\)|none)", middle)
        spans = SPAN.findall(middle)
        if word:
            counts[word.group(1)] = counts.get(word.group(1), 0) + 1
            continue
        if not spans:
            raise SystemExit(f"{args.file}:{number}: {name}: expected `line`, not yet: `line`, later (..) or "
                             f"none")
        for n, (waiting, code) in enumerate(spans):
            if waiting:
                counts["not yet"] = counts.get("not yet", 0) + 1
                continue
            function = f"row_{number}_{n}"
            names.append((function, number, code))
            body = statement(code) if code.endswith(";") else None
            if body is None:
                code, _, expected = code.partition(" // ")
                numbers = ", ".join(expected.split())
                body = f"show(({code}), {{{numbers}}});"
            functions.append(f"static void {function}() {{\n#line {number} \"{args.file.name}\"\n  "
                             f"{body}\n}}\n")
    counts["checked"] = len(names)
    text = f'// from {args.file.name} by tools/doc_rows.py\n#include "{args.header}"\n\n' + "\n".join(
        functions)
    text += "\nint main() {\n"
    for function, number, _ in names:
        text += f"  run({number}, {function});\n"
    summary = ", ".join(f"{count} {word}" for word, count in sorted(counts.items()))
    text += f'  return finish("{summary}");\n}}\n'
    if not args.out.exists() or args.out.read_text() != text:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
