#!/usr/bin/env python3
# tools/check_error_texts.py -- messages that no test names.
"""Error texts that no test names.

Every message that a user can meet (Error, Failure, and the components' own `fail`) in the
components below is looked for in the string literals of the tests: whole, with anything where the
message has a {}. A message that no test names whole is a finding.

    tools/check_error_texts.py            findings; exit code 1 where there are any
    tools/check_error_texts.py --list     all messages with the number of tests that name them
    tools/check_error_texts.py PART ..    only files whose path holds one of the words
"""
import argparse
import bisect
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
COMPONENTS = ["src/tensor", "src/ir/passes", "src/formats", "src/device", "src/cli", "src/models", "src/egg",
              "src/schedule"]
THROWS = re.compile(r"\b(?:Error|fail|fail_at|refuse|refuse_at|mistake)\s*\(|\b(?:Failure|TermMistake)\s*\{")
LITERAL = re.compile(r'R"(\w*)\((.*?)\)\1"|"((?:[^"\\\n]|\\.)*)"', re.S)
GAP = re.compile(r"(?:\s|//[^\n]*\n)*")
PYTHON_GAP = re.compile(r'"\n\s*[rf]*"')
SUM = re.compile(r"\s*\+\s*[\w.:()\[\]]+\s*\+\s*")  # "a" + value + "b"
# Messages about what no caller can bring about, or that depend on the machine: each with the reason.
EXEMPT = {
    "more than 4 GiB once it is decompressed": "4 GiB of memory",
    "the grammar has too many states: more than are kept are reached by one token": "128 MiB of memory",
    "more than 2^31 different wide integers": "16 GiB of memory",
    "the containers hold more than 2^32 items": "16 GiB of memory",
}


def unescape(text):
    return re.sub(r"\\(.)", lambda m: {"n": "\n", "t": "\t"}.get(m[1], m[1]), text)


def literals(text):
    """(begin, end, string) of each string literal; neighbours are one string."""
    groups = []
    for m in LITERAL.finditer(text):
        string = m[2] if m[2] is not None else unescape(m[3])
        if groups and GAP.fullmatch(text, groups[-1][1], m.start()):
            groups[-1] = (groups[-1][0], m.end(), groups[-1][2] + string)
        elif groups and SUM.fullmatch(text, groups[-1][1], m.start()):
            groups[-1] = (groups[-1][0], m.end(), groups[-1][2] + "{}" + string)
        else:
            groups.append((m.start(), m.end(), string))
    return groups


def balanced_end(text, at, skip):
    """The end of the bracket that opens at `at`; brackets in strings do not count."""
    depth = 0
    while at < len(text):
        if at in skip:
            at = skip[at]
            continue
        if text[at] in "({[":
            depth += 1
        elif text[at] in ")}]":
            depth -= 1
            if depth == 0:
                return at
        at += 1
    return at


def messages(path):
    text = path.read_text()
    found = literals(text)
    skip = {begin: end for begin, end, _ in found}
    begins = [begin for begin, _, _ in found]
    taken = set()
    for throw in THROWS.finditer(text):
        if text[text.rfind("\n", 0, throw.start()) + 1 : throw.start()].lstrip().startswith("//"):
            continue
        end = balanced_end(text, throw.end() - 1, skip)
        for i in range(bisect.bisect(begins, throw.end() - 1), len(begins)):
            if begins[i] > end:
                break
            string = found[i][2]
            if i in taken or " " not in string.strip() or len(re.sub(r"\{[^}]*\}", "", string).strip()) < 8:
                continue
            taken.add(i)
            yield text.count("\n", 0, begins[i]) + 1, string


class Pattern:
    """A message with anything, on one line, in place of each {}."""

    def __init__(self, message):
        pieces = re.split(r"\{[^{}]*\}", message.replace("{{", "\1").replace("}}", "\2"))
        pieces = [p.replace("\1", "{").replace("\2", "}") for p in pieces]
        self.longest = max(pieces, key=len)
        self.whole = re.compile(r"[^\n]{0,200}?".join(re.escape(p) for p in pieces))

    def count(self, strings):
        return sum(1 for s in strings if self.longest in s and self.whole.search(s))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("parts", nargs="*")
    options = parser.parse_args()
    tests = []
    for folder in ("tests", "docs", "python/tests"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".cpp", ".h"):
                tests += [string for _, _, string in literals(path.read_text())]
            elif path.suffix in (".py", ".md"):
                tests.append(PYTHON_GAP.sub("", path.read_text()))
    findings = 0
    exempt = dict.fromkeys(EXEMPT, 0)
    for component in COMPONENTS:
        for path in sorted((ROOT / component).rglob("*.cpp")):
            name = str(path.relative_to(ROOT))
            if options.parts and not any(part in name for part in options.parts):
                continue
            for line, message in messages(path):
                count = Pattern(message).count(tests)
                if message in EXEMPT:
                    exempt[message] += count == 0
                elif options.list:
                    print(f"{count:4} {name}:{line}: {message!r}")
                elif count == 0:
                    print(f"{name}:{line}: no test names {message!r}")
                    findings += 1
    for message, uses in exempt.items():
        if not uses and not options.parts:
            print(f"tools/check_error_texts.py: EXEMPT is without a use: {message!r}")
            findings += 1
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
