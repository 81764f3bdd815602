# python/headers.py -- reads the declarations of the public headers, with their comments. What
# Python binds is what stands there.
import dataclasses
import re

RESULTS = ("Tensor", "std::vector<Tensor>", "Indexed", "Unique", "Bounded", "VarMean", "StdMean", "MinMax",
           "MaxPool")


@dataclasses.dataclass
class Parameter:
    type: str
    name: str
    default: str | None


@dataclasses.dataclass
class Declaration:
    header: str
    result: str
    name: str
    parameters: list
    doc: str
    member: bool = False


@dataclasses.dataclass
class Struct:
    header: str
    name: str
    fields: list  # Parameters
    doc: str


def split_top(text, mark=","):
    """Cuts at marks outside of all brackets."""
    parts, depth, begin = [], 0, 0
    for i, letter in enumerate(text):
        depth += {"(": 1, ")": -1, "{": 1, "}": -1, "<": 1, ">": -1, "[": 1, "]": -1}.get(letter, 0)
        if letter == mark and depth == 0:
            parts.append(text[begin:i])
            begin = i + 1
    return [part.strip() for part in [*parts, text[begin:]] if part.strip()]


def parameter(text):
    default = None
    match = re.match(r"(.*?\w)\s*=\s*(.*)$", text, re.S)
    if match:
        text, default = match.group(1), match.group(2).strip()
    match = re.match(r"(.*?[\s&*>])(\w+)$", text.strip(), re.S)
    kind, name = (match.group(1).strip(), match.group(2)) if match else (text.strip(), "")
    return Parameter(re.sub(r"\s+", " ", kind), name, default)


def is_place(part):
    return re.match(r"(?:LUMINAL_WHERE$|(?:std::source_location|Where) \w+)", part) is not None


def expand_macros(text):
    """The functions that LUMINAL_POOLS makes; the other macros are not declarations."""
    match = re.search(r"#define LUMINAL_POOLS\(axes\)(.*?[^\\])\n(?=LUMINAL_POOLS)", text, re.S)
    if match:
        body = match.group(1).replace("\\\n", "\n")
        made = "".join(body.replace("##axes##", n).replace("#axes", f'"{n}"') + "\n" for n in "123")
        text = text[:match.start()] + made + text[match.end():]
    text = re.sub(r"\\\n", " ", text)
    return re.sub(r"^\s*(?:#|LUMINAL_(?:POOLS|UNARY_FUNCTIONS)\().*$", "", text, flags=re.M)


def closing(text, at, pair):
    depth = 0
    for i in range(at, len(text)):
        depth += (text[i] == pair[0]) - (text[i] == pair[1])
        if depth == 0:
            return i
    raise ValueError(f"{text[at:at + 60]!r} is not closed")


def statements(text):
    """(declaration, body or None, comment) for each statement of a namespace or class, in order."""
    found, doc, at, fresh = [], [], 0, True
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    depth, pieces = 0, []
    while at < len(text):
        if text.startswith("//", at):
            end = text.find("\n", at)
            end = len(text) if end < 0 else end
            comment = text[at:end]
            if comment.startswith("///<"):
                if pieces:  # inside of a declaration: belongs to it
                    doc.append(comment[4:].strip())
                elif found:
                    found[-1][2].append(comment[4:].strip())
                    fresh = False
            elif comment.startswith("///"):
                if not pieces and fresh is False:
                    doc = []
                doc.append(comment[3:].strip())
                fresh = True
            elif not pieces:
                if doc and found and found[-1][2] and not fresh:
                    found[-1][2].append(comment[2:].strip())
                doc = []
            at = end
            continue
        letter = text[at]
        if letter in "([":
            depth += 1
        elif letter in ")]":
            depth -= 1
        if depth == 0 and letter in ";{":
            declaration = re.sub(r"\s+", " ", "".join(pieces)).strip()
            body = None
            if letter == "{":
                if re.search(r"=\s*$", declaration):  # a field's value
                    end = closing(text, at, "{}")
                    pieces.append(text[at:end + 1])
                    at = end + 1
                    continue
                end = closing(text, at, "{}")
                body = text[at + 1:end]
                at = end
                if text[at + 1:at + 2] == ";":
                    at += 1
            if declaration:
                found.append((declaration, body, doc))
            doc, pieces, fresh = [], [], True
            at += 1
            continue
        if letter == "\n" and not pieces and text[at + 1:at + 2] == "\n":
            doc = [] if found and fresh is False else doc
            fresh = True
        if not letter.isspace() or pieces:
            pieces.append(letter)
        at += 1
    return found


def functions(header, declaration, doc, member):
    """The functions of one statement: several where declarators share a type."""
    declaration = re.sub(r"^(?:inline|explicit|static|friend) ", "", declaration)
    if declaration.startswith("template"):
        declaration = declaration[closing(declaration, declaration.index("<"), "<>") + 1:].strip()
        declaration = re.sub(r"^requires ?\(.*?\)\)? (?=[A-Z])", "", declaration)
    for result in RESULTS:
        match = re.match(rf"{re.escape(result)}&? (operator ?[^\s(]+|\w+) ?\(", declaration)
        if match:
            break
    else:
        return
    name, at = match.group(1).replace("operator ", "operator"), match.end() - 1
    while True:
        end = closing(declaration, at, "()")
        parts = [part for part in split_top(declaration[at + 1:end]) if not is_place(part)]
        yield Declaration(header, result, name, [parameter(part) for part in parts], doc, member)
        more = re.match(r" const, (\w+)\(", declaration[end + 1:])
        if not more:
            return
        name, at = more.group(1), end + 1 + more.end() - 1


def read(root, header):
    """([Declaration], [Struct], {enum: names}) of include/luminal/<header>.h."""
    text = expand_macros((root / f"include/luminal/{header}.h").read_text())
    declarations, structs, enums = [], [], {}

    def walk(text, member):
        previous = []
        for declaration, body, doc in statements(text):
            words = " ".join(doc)
            declaration = re.sub(r"^(?:public|private): ?", "", declaration)
            if re.match(r"namespace (?:luminal|terms|luminal::terms)$", declaration):
                walk(body, False)
                continue
            if match := re.match(r"enum class (\w+)", declaration):
                enums[match.group(1)] = [re.match(r"\w+", part).group(0)
                                         for part in split_top(re.sub(r"//[^\n]*", "", body))]
                continue
            if re.match(r"class Tensor$", declaration):
                walk(body[:body.rindex("private:")], True)
                continue
            if match := re.match(r"struct (\w+)", declaration):
                if body is not None:
                    fields = []
                    for inner, inner_body, inner_doc in statements(body):
                        if inner_body is None and "(" not in inner.split("=")[0] and "using " not in inner:
                            kind, _, rest = inner.partition(" ") if "<" not in inner.split("=")[0] else (
                                None, None, None)
                            if kind is None:
                                fields.append(parameter(inner))
                                continue
                            for part in split_top(rest):
                                field = parameter(f"{kind} {part}")
                                fields.append(field)
                    structs.append(Struct(header, match.group(1), fields, words))
                continue
            made = list(functions(header, declaration, words, member))
            if made and not words and previous:
                for one in made:
                    one.doc = previous[0].doc if previous[0].name == made[0].name else ""
            declarations.extend(made)
            previous = made or previous

    walk(text, False)
    return declarations, structs, enums


def unary(root):
    """{name: comment} of luminal/unary.h."""
    text = (root / "include/luminal/unary.h").read_text()
    text = text[text.index("#define LUMINAL_UNARY_FUNCTIONS"):]
    names = {}
    for line in text.splitlines():
        comment = re.search(r"/\*\s*(.*?)\s*\*/", line)
        for name in re.findall(r"F\((\w+)\)", line):
            names[name] = comment.group(1) if comment else ""
    return names
