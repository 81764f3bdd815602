#!/usr/bin/env python3
# tools/readme_blocks.py -- takes the code blocks out of Markdown files, so that the build compiles
# and the tests run them.
#
#   ```cpp run       a program; without main() the lines are its body, #include lines go before it
#   ```sh run        commands, run by bash in a scratch folder with `luminal` in the path;
#                    $LUMINAL_SOURCE is the tree
#   ```python run    a program for the Python module
#   ```text output   directly behind one of them: its standard output, where <*> stands for any text
#                    within a line
#
# Other blocks are for reading. Writes <file>_<line>.cpp, .sh or .py with .expected beside it, and
# prints their paths.
import argparse
import pathlib
import re
import sys

FENCE = re.compile(r"^(\s*)```\s*(.*?)\s*$")


def blocks(text):
    """[(line, words after the fence, lines)]"""
    found, current = [], None
    for number, line in enumerate(text.splitlines(), 1):
        fence = FENCE.match(line)
        if current is None and fence:
            current = (number, fence.group(2).split(), [], len(fence.group(1)))
        elif current is not None and fence and not fence.group(2):
            found.append(current[:3])
            current = None
        elif current is not None:
            indent = len(line) - len(line.lstrip())
            current[2].append(line[min(indent, current[3]):])
    if current is not None:
        raise SystemExit(f"line {current[0]}: a code block without an end")
    return found


def program(lines, where):
    if any(re.search(r"\bint main\(", line) for line in lines):
        return "\n".join([f"// {where}", *lines, ""])
    head = [line for line in lines if line.startswith(("#include", "using namespace", "namespace "))]
    body = [line for line in lines if line not in head]
    return "\n".join([f"// {where}", *head, "int main() {", *body, "}", ""])


def extract(file, out):
    made, pending = [], None
    for line, words, lines in blocks(file.read_text()):
        if words[:2] in (["cpp", "run"], ["sh", "run"], ["python", "run"]):
            pending = out / f"{file.stem}_{line}.{words[0].replace('python', 'py')}"
            where = f"{file.name}:{line}"
            content = program(lines, where) if words[0] == "cpp" else "\n".join([f"# {where}", *lines, ""])
            made.append((pending, content))
        elif words == ["text", "output"]:
            if pending is None:
                raise SystemExit(f"{file}:{line}: an output block that follows no block with run")
            made.append((pending.with_suffix(".expected"), "\n".join([*lines, ""])))
            pending = None
        else:
            pending = None
    return made


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    wanted = {}
    for file in args.files:
        wanted.update(extract(file, args.out))
    for old in args.out.iterdir():
        if old.suffix in (".cpp", ".sh", ".py", ".expected") and old not in wanted:
            old.unlink()
    for path, content in wanted.items():
        # Unchanged files keep their time, so nothing is rebuilt.
        if not path.exists() or path.read_text() != content:
            path.write_text(content)
        if path.suffix != ".expected":
            print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
