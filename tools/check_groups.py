#!/usr/bin/env python3
# tools/check_groups.py -- the files of a folder can be compiled as one (LUMINAL_UNITY).
#
# Two .cpp files of one folder of src/, tests/ or python/ may not give one name of one namespace to two
# things of their own (what stands in an unnamed namespace, is static or is a constant), nor to one of
# them and to something that headers or other files show. Two functions may share a name where their
# parameters differ by more than the kind of text or number. A macro of a .cpp file is defined in one
# file of its folder only, or taken back there (#undef).
import argparse
import collections
import pathlib
import re
import sys

import tree

TOKEN = re.compile(r"""
    (?P<skip>\s+|//[^\n]*|/\*.*?\*/)
  | (?P<hash>(?<![^\n])[ \t]*\#(?:[^\n\\]|\\.|\\\n)*)
  | (?P<text>R"(?P<mark>[^(\s]*)\(.*?\)(?P=mark)"|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
  | (?P<word>[A-Za-z_]\w*|\d(?:[\w.]|'(?=\w))*)
  | (?P<sign>::|.)""", re.VERBOSE | re.DOTALL)
CLOSING = {"(": ")", "[": "]", "{": "}"}
NOT_A_CALL = {"alignas", "decltype", "__attribute__", "noexcept", "requires", "explicit", "operator"}
# Where each file is a program.
ALONE = {("tests", "fuzz"), ("tests", "tree"), ("tests", "capi"), ("tests", "onnx")}
TEXTS = ("string", "string_view", "char *")
NUMBERS = ("int", "int32_t", "int64_t", "uint32_t", "uint64_t", "size_t", "unsigned", "float", "double",
           "bool")
TYPES = {"struct", "class", "union", "enum"}
Thing = collections.namedtuple("Thing", "path line space name kind own parameters")


def tokens(text):
    """([(token, line)], {macro: line} defined, {macro: line} defined and not taken back)"""
    found, defined, macros, line = [], {}, {}, 1
    for match in TOKEN.finditer(text):
        token = match.group()
        if match.group("hash"):
            words = re.match(r"\s*#\s*(define|undef)\s+(\w+)", token)
            if words and words[1] == "define":
                macros[words[2]] = defined[words[2]] = line
            elif words:
                macros.pop(words[2], None)
        elif not match.group("skip"):
            found.append(('""' if match.group("text") else token, line))
        line += token.count("\n")
    return found, defined, macros


def plain(words):
    """A parameter's type without the name, the namespace and const; all texts and all numbers are alike."""
    words = [word for word in words if word not in ("const", "std")]
    if len(words) > 1 and words[-1].isidentifier() and words[-2] != "::":
        words = words[:-1]
    words = [word for i, word in enumerate(words) if "::" not in words[i:i + 2] and word != "&"]
    text = " ".join(words)
    return {**dict.fromkeys(TEXTS, "text"), **dict.fromkeys(NUMBERS, "number")}.get(text, text)


class Reader:
    """Things that a text declares at the level of namespaces."""

    def __init__(self, path, text):
        self.path, self.things = path, []
        self.opened = []  # [(namespace, the one that it uses)]
        self.tokens, self.defined, self.macros = tokens(text)
        self.included = [name for _, name, _ in tree.includes(text)]
        self.match = {}
        open_ = []
        for place, (token, _) in enumerate(self.tokens):
            if token in CLOSING:
                open_.append(place)
            elif token in CLOSING.values() and open_:
                self.match[open_.pop()] = place
        self.scope(0, len(self.tokens), ())

    def scope(self, at, end, space):
        while at < end:
            at = self.declaration(at, end, space)

    def declaration(self, at, end, space):
        word = self.tokens[at][0]
        if word == ";":
            return at + 1
        if word in ("namespace", "inline") or (word == "extern" and self.tokens[at + 1][0] == '""'):
            place, names = at, []
            while place < end and self.tokens[place][0] not in ("{", ";", "=", "("):
                names.append(self.tokens[place][0])
                place += 1
            if "namespace" in names and self.tokens[place][0] == "{":
                inner = [n for n in names if n not in ("namespace", "inline", "::")] or [""]
                self.scope(place + 1, self.match[place], space + tuple(inner))
                return self.match[place] + 1
            if word == "extern" and place == at + 2:
                self.scope(place + 1, self.match[place], space)
                return self.match[place] + 1
        return self.plain(at, end, space)

    def plain(self, at, end, space):
        """One declaration that is not a namespace. `head` is its tokens, with () for all that stands in
        parentheses, and so on."""
        line, head, parentheses = self.tokens[at][1], [], []
        while at < end:
            token = self.tokens[at][0]
            if token == ";":
                at += 1
                break
            if token == "[" and not head:  # an attribute
                at = self.match[at] + 1
            elif token == "template" and self.tokens[at + 1][0] == "<":
                at = self.angles(at + 1) or at + 1
            elif token == "<" and head[-1:] != ["operator"] and self.angles(at):
                head.append("<>")
                at = self.angles(at)
            elif token in CLOSING and at in self.match:
                head.append(token + CLOSING[token])
                parentheses += [(len(head) - 1, at)] if token == "(" else []
                at = self.match[at] + 1
                is_function = parentheses and ("=" not in head or "operator" in head)
                in_list = ":" in head and at < end and self.tokens[at][0] in (",", "{")  # of members' values
                if token == "{" and is_function and not in_list:
                    break
            else:
                head.append(token)
                at += 1
        if head:
            self.add(head, parentheses, space, line)
        return at

    def angles(self, at):
        """Behind the > that closes the < at `at`; none where there is no such one."""
        depth = 0
        while at < len(self.tokens):
            token = self.tokens[at][0]
            if token == "<":
                depth += 1
            elif token == ">":
                depth -= 1
                if depth == 0:
                    return at + 1
            elif token in (";", "{"):
                if token == "{" and at in self.match and depth:
                    at = self.match[at]
                else:
                    return None
            elif token in ("(", "["):
                at = self.match[at]
            at += 1
        return None

    def parameters(self, at):
        """The types of parameters, without names, and how many have no default."""
        types, current, depth, required, in_default = [], [], 0, None, False
        for place in range(at + 1, self.match[at] + 1):
            token = self.tokens[place][0]
            if place == self.match[at] or (token == "," and depth == 0):
                types += [plain(current)] if current else []
                current, in_default = [], False
            elif token == "=" and depth == 0:
                in_default = True
                required = len(types) if required is None else required
            elif not in_default:
                current.append(token)
            depth += token in ("<", "(", "[", "{")
            depth -= token in (">", ")", "]", "}")
        return tuple(types), len(types) if required is None else required

    def add(self, head, parentheses, space, line):
        """What the declaration names, where that is something new."""
        def known(name, kind, own=True, extra=None):
            if name.isidentifier() or name.startswith("operator"):
                self.put(space, name, kind, line, own, extra)

        if head[0] in ("using", "namespace"):
            if len(head) > 3 and head[2] == "=":
                known(head[1], "alias", extra=tuple(head[3:]))
            elif head[1] == "namespace":
                self.opened.append((tuple(s for s in space if s), tuple(w for w in head[2:] if w != "::")))
            elif "::" in head:
                known(head[-1], "using", extra=tuple(word for word in head[1:] if word != "::"))
            return
        if head[0] in ("typedef", "static_assert", "friend"):
            return
        value = min(head.index(sign) for sign in ("=", "{}", "[]", head[-1]) if sign in head)
        if "operator" in head:
            value = len(head)
        called = [(i, at) for i, at in parentheses if 0 < i < value + 1 and head[i - 1] not in NOT_A_CALL]
        types = [i for i, word in enumerate(head[:value]) if word in TYPES]
        if types and not called:
            name = head[types[-1] + 1:value]
            name = [word for word in (name[:name.index(":")] if ":" in name else name) if word != "()"]
            if "{}" in head and name and not {"<>", "::"} & set(name):
                known(name[0], "type")
        elif called:
            i, at = called[0]
            first = head.index("operator") if "operator" in head else i - 1
            if first > 0 and head[first - 1] != "::":
                own = "" in space or "static" in head
                known("".join(head[first:i]), "function", own, self.parameters(at))
        else:
            name = head[value - 1] if head[value] in ("=", "{}", "[]") else head[value]
            before = head[:head.index(name)]
            if before and before[-1] != "::":
                own = "" in space or bool({"static", "constexpr", "const"} & set(before)) and \
                    not {"inline", "extern"} & set(before)
                kind = "declared" if "extern" in before else "variable"
                known(name, kind, own)
                for comma in (i for i, word in enumerate(head[:-1]) if word == ","):
                    known(head[comma + 1], kind, own)

    def put(self, space, name, kind, line, own, parameters):
        own = own and self.path.suffix != ".h"
        self.things.append(Thing(self.path, line, tuple(s for s in space if s), name, kind, own, parameters))


def clashes(one, other):
    if one.path == other.path or not (one.own or other.own):
        return False
    for this, that in ((one, other), (other, one)):
        if this.kind == "using":  # a name of elsewhere, perhaps that one or its overload
            full = that.parameters if that.kind == "using" else (*that.space, that.name)
            if full[-len(this.parameters):] == this.parameters or that.kind == "function" and not that.own:
                return False
    if one.kind == other.kind == "function":
        (first, needed), (second, as_well) = one.parameters, other.parameters
        return any(first[:n] == second[:n]
                   for n in range(max(needed, as_well), min(len(first), len(second)) + 1))
    return one.kind != other.kind or one.kind != "alias" or one.parameters != other.parameters


def reached(folder, readers, headers):
    """The headers that files of a folder include, and so on."""
    todo, seen = list(readers), {}
    while todo:
        reader = todo.pop()
        for name in reader.included:
            for place in (reader.path.parent, *map(pathlib.PurePosixPath, ("src", "include", "tests"))):
                header = headers.get(place / name)
                if header and header.path not in seen:
                    seen[header.path] = header
                    todo.append(header)
    return seen.values()


def check(root):
    headers, folders = {}, collections.defaultdict(list)
    for path in tree.files(root, {".h", ".cpp"}):
        if path.parts[0] in ("src", "include", "tests", "python") and len(path.parts) > 2:
            reader = Reader(path, (root / path).read_text(errors="replace"))
            if path.suffix == ".h":
                headers[path] = reader
            elif path.parts[:2] not in ALONE:
                folders[path.parts[:2]].append(reader)
    bad = []
    for folder, readers in sorted(folders.items()):
        known, shown, macros = collections.defaultdict(list), collections.defaultdict(list), {}
        for header in reached(folder, readers, headers):
            macros.update({name: f"{header.path}:{line}" for name, line in header.macros.items()})
            for thing in header.things:
                shown[thing.space, thing.name].append(thing)
        for space, used in {pair for reader in readers for pair in reader.opened}:
            for (inner, name), things in list(shown.items()):
                if inner in (used, space + used):
                    shown[space, name] = shown[space, name] + things
        for reader in readers:
            for name, line in reader.defined.items():
                if name in macros:
                    bad.append(f"{reader.path}:{line}: the macro {name} is in {macros[name]} too")
            macros.update({name: f"{reader.path}:{line}" for name, line in reader.macros.items()})
            for thing in reader.things:
                key = thing.space, thing.name
                declared = any(other.kind == "declared" for other in shown[key])
                for other in known[key] + shown[key]:
                    if not declared and clashes(thing, other):
                        bad.append(f"{thing.path}:{thing.line}: {thing.name} is in "
                                   f"{other.path}:{other.line} too")
                        break
                known[key].append(thing)
    return bad


def main():
    parser = argparse.ArgumentParser(description="names that clash where a folder is compiled as one")
    parser.add_argument("--root", type=pathlib.Path, default=tree.default_root())
    bad = check(parser.parse_args().root)
    print("\n".join(bad) if bad else "no two files of one folder clash")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
