# python/luminal/_refusals.py -- what is said of a call whose arguments do not fit.
"""One line: the argument that there is not, that is missing or of another type, and those that there are."""
import re
import typing

from ._core import Dim, DType


class _Parameter(typing.NamedTuple):
    name: str
    type: str
    optional: bool
    keyword_only: bool
    variadic: bool


def _parts(text: str) -> list[str]:
    """Split at commas outside of brackets and quotes."""
    parts, depth, quoted = [""], 0, False
    for c in text:
        quoted ^= c == "'"
        depth += (c in "([{") - (c in ")]}") if not quoted else 0
        if c == "," and depth == 0 and not quoted:
            parts.append("")
        else:
            parts[-1] += c
    return [part.strip() for part in parts if part.strip()]


def _parameters(signature: str) -> list[_Parameter]:
    begin, depth, quoted = signature.index("("), 0, False
    end = begin
    for end in range(begin, len(signature)):
        c = signature[end]
        quoted ^= c == "'"
        depth += (c in "([{") - (c in ")]}") if not quoted else 0
        if depth == 0:
            break
    found, keyword_only = [], False
    for part in _parts(signature[begin + 1:end]):
        if part in ("*", "/"):
            keyword_only |= part == "*"
            continue
        name, _, rest = part.partition(":")
        kind, equals, _ = rest.partition(" = ")
        name = name.partition("=")[0].strip()
        found.append(_Parameter(name.lstrip("*"), kind.strip(), bool(equals) or "=" in part.partition(":")[0],
                                keyword_only, name.startswith("*")))
        keyword_only |= name.startswith("*") and not name.startswith("**")
    return found


def _short(kind: str) -> str:
    """A type as it is spoken of: without the modules that it comes from."""
    kind = re.sub(r"\b(?:luminal\._core|luminal\.typing|luminal|collections\.abc|typing)\.", "", kind)
    return re.sub(r"( \| None)+", " | None", kind)


def _taken(parameters: list[_Parameter]) -> str:
    names = [("*" if p.variadic else "") + p.name + ("=" if p.optional and not p.variadic else "")
             for p in parameters]
    return ", ".join(names) or "none"


def _mistake(
    parameters: list[_Parameter], arguments: list[object], words: dict[str, object]
) -> tuple[int, str, str]:
    """How far the arguments fit, what is wrong then, and what the signature takes, where that helps."""
    unknown = [w for w in words if not any(p.name == w and not p.variadic for p in parameters)]
    if unknown and not any(p.variadic and p.type and p.name == "options" for p in parameters):
        return 0, f"{unknown[0]} is not an argument", _taken(parameters)
    positional = [p for p in parameters if not p.keyword_only]
    if len(arguments) > len(positional) and not any(p.variadic for p in positional):
        count = "is" if len(positional) == 1 else "are"
        text = f"{len(arguments)} arguments without a name, at most {len(positional)} {count} expected"
        return 1, text, _taken(parameters)
    twice = [p.name for p in positional[:len(arguments)] if p.name in words]
    if twice:
        return 2, f"the argument {twice[0]} is given twice", ""
    missing = [p.name for p in parameters[len(arguments):]
               if not p.optional and not p.variadic and p.name not in words]
    if missing:
        return 2, f"the argument {missing[0]} is missing", _taken(parameters)
    pairs = [*zip(positional, arguments), *((p, words[p.name]) for p in parameters if p.name in words)]
    given = [f"{p.name} is {_short(p.type)}, not {type(a).__name__}"
             for p, a in pairs if not _fits(p.type, a)]
    given = given or [text for p, a in pairs if (text := _inside(p, a))]
    if not given:  # one of several types that only the call can tell
        given = [f"{p.name} is {_short(p.type)}" for p in parameters]
    return 3, "; ".join(given), ""


def _inside(parameter: _Parameter, value: object) -> str:
    """What is wrong with a value whose own type fits: its text, or one of its items."""
    if "DTypeLike" in parameter.type and isinstance(value, str):
        words = [str(dtype).rpartition(".")[2] for dtype in DType]
        return f"{value!r} is not a dtype; the dtypes are {', '.join(words)}"
    if "Shape" in parameter.type and isinstance(value, (list, tuple)):
        wrong = [item for item in value if not isinstance(item, Dim) and not hasattr(item, "__index__")]
        return f"{parameter.name} holds {wrong[0]!r}, not a whole number" if wrong else ""
    return ""


def _fits(kind: str, value: object) -> bool:
    """Whether the value may be of this type, as far as its name tells."""
    names = {bool: ("bool", "int", "float"), int: ("int", "float", "Dim", "Size", "Shape", "Like"),
             float: ("float", "Like"), str: ("str", "Literal", "DTypeLike")}
    if value is None:
        return "None" in kind
    outer = kind
    while "[" in outer:
        shorter = re.sub(r"\[[^\[\]]*\]", "", outer)
        if shorter == outer:
            break
        outer = shorter
    if type(value) in names:
        return any(name in outer for name in names[type(value)])
    if isinstance(value, (list, tuple)):
        return any(name in kind for name in ("Sequence", "Shape", "Like", "tuple", "list", "arguments"))
    return any(name in outer for name in (type(value).__name__, "Like", "object", "Any", "Callable"))


def refusal(function: typing.Any, arguments: list[object], words: dict[str, object]) -> str:
    """The text of a TypeError for these arguments, which no signature of the function takes."""
    name = function.__name__
    found = []
    for signature, *_ in function.__nb_signature__:
        parameters = _parameters(signature)
        own = bool(parameters) and parameters[0].name == "self"
        found.append(_mistake(parameters[own:], arguments[own:], words))
    rank = max(at for at, _, _ in found)
    said: dict[str, list[str]] = {}
    for at, text, taken in found:
        if at == rank:
            said.setdefault(text, []).append(taken)
    texts = [text + ("; it takes " + ", or ".join(taken) if all(taken) else "")
             for text, taken in said.items()]
    if name == "__init__" and arguments:
        name = type(arguments[0]).__name__
    return f"[{name}] " + ", or ".join(texts)
