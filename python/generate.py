#!/usr/bin/env python3
# python/generate.py -- writes the bindings of all operations from the public headers: names,
# defaults and comments stand there once.
#
#   generate.py --out FOLDER     enums.h, results.h, operations_N.cpp
#   generate.py --list           a line for each operation and how Python has it
import argparse
import collections
import pathlib
import re
import sys

import headers

ROOT = pathlib.Path(__file__).resolve().parent.parent
HEADERS = ("tensor", "operators", "tensor_functions", "functions", "nn_functions", "indexing", "random",
           "statistics", "linalg", "losses")
PARTS = 4  # files, compiled side by side

# Written by hand in python/bind, or absent: with the reason.
BY_HAND = {
    "set_name": "x.name = ..", "to": "tensor.cpp", "keep": "tensor.cpp", "retrieve": "tensor.cpp",
    "operator[]": "subscript.cpp: slices, None, ..., indices as numpy has them",
    "slice": "with a list of slices: x[a:b, c:d]",
    "arange": "graph.cpp: whole numbers and fractions in one function",
    "arange_float": "arange", "einsum": "tensor.cpp: einsum(equation, a, b)",
}
# tensor.cpp; ! is logical_not, += and its kin are x = x + y in Python
OPERATORS = "+ - * / % ~ < <= > >= & | ^ << >>".split()
SCALARS = {"int": "int", "int64_t": "int64_t", "uint64_t": "uint64_t", "double": "double", "bool": "bool",
           "std::string": "std::string",
           "const std::string&": "const std::string&", "std::integral auto": "int64_t",
           "std::optional<int>": "std::optional<int>",
           "std::optional<int64_t>": "std::optional<int64_t>",
           "std::optional<double>": "std::optional<double>",
           "const std::vector<double>&": "const std::vector<double>&"}
LISTS = {"const Axes&": ("Integers", "Axes({})"), "std::vector<int>": ("Integers", "std::vector<int>({})"),
         "const std::vector<int>&": ("Integers", "std::vector<int>({})"),
         "std::vector<int64_t>": ("Integers", "{}.list"),
         "const std::vector<int64_t>&": ("Integers", "{}.list"), "const Ints&": ("Integers", "Ints({}.list)"),
         "Ints": ("Integers", "Ints({}.list)"),
         "Dims": ("Extents", "{}.list"), "const Dims&": ("Extents", "{}.list"), "Dim": ("Extent", "{}.value"),
         "std::vector<Padding>": ("Paddings", "{}.list"), "ConvPadding": ("PaddingArgument", "{}.value"),
         "DType": ("Type", "{}.value")}
RENAMED = {"axes": "axis", "keep_dims": "keepdims", "lambda": "lambd",
           "from": "source"}  # NumPy's words; keywords of Python
RENAMED_IN = {"movedim": {"to": "destination"}, "cast": {"to": "dtype"}, "bitcast": {"to": "dtype"},
              "as_dtype": {"to": "dtype"}}
OPTIONAL_TENSOR = "{0} ? std::optional<Tensor>(call.tensor(*{0})) : std::nullopt"
DEFAULTS = {("concat", "axis"): "0"}  # what numpy has and C++ has not


class Bound:
    """One overload as C++ and as Python see it."""

    def __init__(self, declaration, structs, enums):
        self.declaration = declaration
        self.arguments, self.values, self.call, self.extras = [], [], [], []
        self.graph = False
        lists = 0
        for parameter in declaration.parameters:
            kind, name = parameter.type, RENAMED_IN.get(declaration.name,
                                                        RENAMED).get(parameter.name,
                                                                     RENAMED.get(parameter.name,
                                                                                 parameter.name))
            parameter.default = DEFAULTS.get((declaration.name, name), parameter.default)
            cname = f"{name}_" if name in ("lambd",) else name
            bare = re.sub(r"^const |&$", "", kind)
            if kind == "Graph&":
                self.graph = True
                self.call.append("graph")
            elif kind in ("const Tensor&", "Operand"):
                method = "tensor" if kind == "const Tensor&" else "operand"
                if parameter.default is not None:
                    self.add(f"const std::optional<Value>& {cname}", name, "nb::none()")
                    self.values.append(f"{cname} ? &*{cname} : nullptr")
                else:
                    self.add(f"const Value& {cname}", name, None)
                    self.values.append(f"&{cname}")
                self.call.append(f"call.{method}({cname})")
            elif kind == "std::optional<Operand>":
                self.add(f"const std::optional<Value>& {cname}", name, "nb::none()")
                self.values.append(f"{cname} ? &*{cname} : nullptr")
                self.call.append(f"call.operand({cname})")
            elif kind == "std::optional<Tensor>":
                self.add(f"const std::optional<Value>& {cname}", name, "nb::none()")
                self.values.append(f"{cname} ? &*{cname} : nullptr")
                self.call.append(OPTIONAL_TENSOR.format(cname))
            elif kind == "const std::vector<Tensor>&":
                self.add(f"const std::vector<Value>& {cname}", name, None)
                self.call.append(f"call.tensors({cname})")
                self.values = cname if not self.values else self.values
                lists += 1
            elif kind in SCALARS:
                self.add(f"{SCALARS[kind]} {cname}", name, self.default(parameter.default))
                self.call.append(cname)
                lists += kind == "const std::vector<double>&"
            elif kind in LISTS:
                made, form = LISTS[kind]
                self.add(f"const {made}& {cname}", name, self.default(parameter.default))
                self.call.append(form.format(cname))
                lists += made != "Type" and made != "Extent"
            elif kind == "std::optional<DType>":
                self.add(f"const std::optional<Type>& {cname}", name, "nb::none()")
                self.call.append(f"{cname} ? std::optional<DType>({cname}->value) : std::nullopt")
            elif bare in enums:
                self.add(f"{bare} {cname}", name, self.default(parameter.default))
                self.call.append(cname)
            elif bare in structs:  # options become keywords
                fields = []
                for field in structs[bare].fields:
                    inner = Bound.field(field, enums)
                    self.extras.append(inner)
                    if field.type in ("Tensor", "std::optional<Tensor>"):
                        self.values.append(f"{field.name} ? &*{field.name} : nullptr")
                    fields.append(f".{field.name} = {inner[3]}")
                self.call.append(f"{bare}{{{', '.join(fields)}}}")
            else:
                raise ValueError(f"{declaration.header}.h: {declaration.name}: python/generate.py does not "
                                 f"know {kind}")
        self.lists = lists

    def add(self, cpp, name, default):
        self.arguments.append((cpp, name, default))

    @staticmethod
    def default(text):
        if text is None:
            return None
        if text in ("{}", "std::vector<int64_t>()", "Axes()"):
            return "nb::none()"
        if "::" in text:
            return f'"{text.split("::")[-1]}"'
        return text

    @staticmethod
    def field(field, enums):
        """(C++ argument, name, default, value) of an option."""
        if field.type == "std::optional<Tensor>":
            return (f"const std::optional<Value>& {field.name}", field.name, "nb::none()",
                    OPTIONAL_TENSOR.format(field.name))
        if field.type in enums:
            return f"{field.type} {field.name}", field.name, Bound.default(field.default), field.name
        if field.type == "Tensor":
            return (f"const std::optional<Value>& {field.name}", field.name, "nb::none()",
                    f"call.tensor({field.name})")
        if field.type in SCALARS:
            return f"{SCALARS[field.type]} {field.name}", field.name, Bound.default(field.default), field.name
        made, form = LISTS[field.type]
        return f"const {made}& {field.name}", field.name, Bound.default(field.default), form.format(
            field.name)


def quoted(doc):
    doc = re.sub(r"\bkeep_dims\b", "keepdims", doc.replace("`", ""))
    return f'R"doc({doc})doc"'


def lambda_of(bound, call, member):
    """The C++ of one overload; `member`: called on a Tensor."""
    name = bound.declaration.name
    arguments, values = list(bound.arguments), bound.values
    if member:
        arguments = [("const Value& self", None, None), *arguments]
        values = ["&self", *(values if isinstance(values, list) else [])]
    text = ", ".join(argument[0] for argument in [*arguments, *bound.extras])
    if bound.graph:
        text = text + (", " if text else "") + "nb::object graph_"
        body = f'const auto where = here(); Graph graph = graph_for("{name}", graph_, where);'
        where = "where"
    else:
        given = values if isinstance(values, str) else "{" + ", ".join(values) + "}"
        body = f'Call call("{name}", {"std::initializer_list<const Value*>{}" if given == "{}" else given});'
        where = "call.where"
    return f"[]({text}) {{ {body} return {call(where)}; }}"


def keywords(bound, member):
    parts = []
    seen = False
    for _, name, default in bound.arguments:
        if default is None and seen:
            default = "nb::none()"
        seen |= default is not None
        parts.append(f'nb::arg("{name}")' + (f" = {default}" if default else ""))
    if bound.extras or bound.graph:
        parts.append("nb::kw_only()")
    parts += [f'nb::arg("{name}")' + (f" = {default}" if default else "")
              for _, name, default, _ in bound.extras]
    if bound.graph:
        parts.append('nb::arg("graph") = nb::none()')
    return parts


VARIADIC = ("permute", "reshape", "expand", "repeat", "tile", "flip")


def spread(declaration):
    """A method whose one argument is a list: x.reshape(2, 3)."""
    kinds = [parameter.type for parameter in declaration.parameters]
    return declaration.name in VARIADIC and len(kinds) == 1 and LISTS.get(kinds[0],
                                                                          ("",))[0] in ("Integers", "Extents")


def emit(declaration, structs, enums, target, member):
    """def lines for one overload; `target`: m or tensor."""
    if member and spread(declaration):
        made = LISTS[declaration.parameters[0].type][0]
        convert = LISTS[declaration.parameters[0].type][1].format("list")
        reader = "extents_of" if made == "Extents" else "integers_of"
        kind = ("int | luminal.Dim | collections.abc.Sequence[int | luminal.Dim]" if made == "Extents"
                else "int | collections.abc.Sequence[int]")
        return (f'  {target}.def("{declaration.name}", [](const Value& self, const nb::args& arguments) {{ '
                f'Call call("{declaration.name}", {{&self}}); '
                f'const auto list = {reader}("{declaration.name}", arguments); return '
                f'call.tensor(self).{declaration.name}({convert}, call.where); }}, '
                f'nb::sig("def {declaration.name}(self, *arguments: {kind}) -> Tensor"), '
                f'{quoted(declaration.doc)});\n')
    if declaration.member and spread(declaration) and any(p.type == "std::integral auto"
                                                          for p in declaration.parameters):
        return ""
    bound = Bound(declaration, structs, enums)
    place = lambda where: [] if any(p.type in ("Operand",)
                                    for p in declaration.parameters) and not takes_place(declaration) else [
                                        where]
    if declaration.member:
        call = lambda where: (f"call.tensor(self).{declaration.name}"
                              f"({', '.join([*bound.call, *place(where)])})")
        code = lambda_of(bound, call, True)
        words = keywords(bound, member)
        if not member:
            words = ['nb::arg("x")', *words]
    else:
        call = lambda where: f"luminal::{declaration.name}({', '.join([*bound.call, *place(where)])})"
        code = lambda_of(bound, call, False)
        words = keywords(bound, member)
        if member:
            words = words[1:]
    return f'  {target}.def("{declaration.name}", {code}, {", ".join([*words, quoted(declaration.doc)])});\n'


def takes_place(declaration):
    """Whether the declaration ends with the caller's place; functions of operands alone have it in these."""
    return declaration.place


def collect():
    declarations, structs, enums = [], {}, {}
    for header in HEADERS:
        found, there, named = headers.read(ROOT, header)
        declarations += found
        structs.update({one.name: one for one in there})
        enums.update(named)
    for header in ("arguments", "search", "pass", "quantize", "custom", "train"):
        enums.update(headers.read(ROOT, header)[2])
    for name, comment in headers.unary(ROOT).items():
        doc = f"{name} of each element" + (f": {comment}" if comment else "")
        made = headers.Declaration("tensor", "Tensor", name, [], doc, True)
        made.place = True
        declarations.append(made)
    return declarations, structs, enums


def plan(declarations):
    """(free, members, skipped): {name: [declaration]} each."""
    free, members, skipped = collections.OrderedDict(), collections.OrderedDict(), {}
    for one in declarations:
        if one.name.startswith("operator"):
            skipped[one.name] = BY_HAND.get(one.name, "tensor.cpp")
            continue
        if one.name in BY_HAND and (one.name != "slice" or any("Slice" in p.type for p in one.parameters)):
            skipped.setdefault(one.name, BY_HAND[one.name])
            continue
        if any(p.type in ("std::initializer_list<int>", "A") for p in one.parameters):
            continue
        (members if one.member else free).setdefault(one.name, []).append(one)
    # A member's name is a free function, too; where the headers have one, that one counts (its
    # arguments may differ).
    of_tensor_functions = {one.name for one in declarations if one.header == "tensor_functions"}
    for name, overloads in members.items():
        if name not in free or name in of_tensor_functions:
            free[name] = overloads
    # The other way round: x.nonzero(8), where the first argument is a tensor and no member has the name.
    for name, overloads in free.items():
        first = overloads[0].parameters[0].type if overloads[0].parameters else ""
        if (name not in members and not overloads[0].member and overloads[0].header != "losses"
                and first in ("const Tensor&", "Operand")
                and name not in ("select", "where", "random_bernoulli")):
            if not name.startswith(("random_", "split_key", "child_key", "shuffle", "dropout", "gumbel")):
                members[name] = overloads
    lists = lambda one: sum(LISTS.get(p.type, ("",))[0] in ("Integers", "Extents")
                            or "vector<double>" in p.type for p in one.parameters)
    for table in (free, members):
        for name in table:
            table[name] = sorted(table[name], key=lists)
    return free, members, skipped


def place_flags(declarations):
    """Which declarations end with the caller's place: read off the headers' text."""
    for one in declarations:
        if not hasattr(one, "place"):
            one.place = True
    text = "".join((ROOT / f"include/luminal/{header}.h").read_text()
                   for header in ("operators", "functions", "tensor"))
    text = re.sub(r"//[^\n]*", "", text)
    for one in declarations:
        if any(p.type == "Operand" for p in one.parameters):
            for match in re.finditer(rf"\bTensor {re.escape(one.name)}(\([^;{{]*)", text):
                inside = match.group(1)
                if [p.name for p in one.parameters] == [headers.parameter(p).name
                                                        for p in headers.split_top(
                                                            inside[1:headers.closing(inside, 0, "()")])
                                                        if not headers.is_place(p)]:
                    one.place = bool(re.search(r"LUMINAL_WHERE|source_location", inside))


def write(folder):
    declarations, structs, enums = collect()
    place_flags(declarations)
    free, members, _ = plan(declarations)
    folder.mkdir(parents=True, exist_ok=True)
    files = {}
    text = ("// generated/enums.h -- names of enumerations, made by python/generate.py from the public "
            "headers.\n#pragma once\n#include \"luminal/luminal.h\"\n")
    text += "#include <cstdint>\nnamespace luminal::python {\ntemplate <class E> struct Names;\n"
    for name, values in sorted(enums.items()):
        literal = ", ".join(f"'{value}'" for value in values)
        text += (f"template <> struct Names<{name}> {{\n  static constexpr const char* name = \"{name}\";\n  "
                 f"static constexpr const char literal[] = \"{literal}\";\n"
                 f"  static constexpr const char* list[] = "
                 f"{{{', '.join(chr(34) + value + chr(34) for value in values)}}};\n}};\n")
    files["enums.h"] = text + "} // namespace luminal::python\n"
    files["enum_casters.h"] = (
        "// generated/enum_casters.h -- conversions of enumerations, made by python/generate.py.\n#pragma "
        "once\nnamespace nanobind::detail {\n" +
        "".join(f"template <> struct type_caster<luminal::{name}> : EnumCaster<luminal::{name}> {{}};\n"
                for name in sorted(enums)) +
        "} // namespace nanobind::detail\n")
    text = ("// generated/results.h -- named tuples for the structs that operations return, made by "
            "python/generate.py.\n#pragma once\n#include \"args.h\"\n")
    text += "namespace nanobind::detail {\n"
    for struct in results(structs):
        fields = ", ".join(f"from.{field.name}" for field in struct.fields)
        text += (f"template <> struct type_caster<luminal::{struct.name}> {{\n  "
                 f"NB_TYPE_CASTER(luminal::{struct.name}, const_name(\"luminal._results.{struct.name}\"))\n"
                 f"  bool from_python(handle, uint32_t, cleanup_list*) noexcept {{ return false; }}\n"
                 f"  static handle from_cpp(const luminal::{struct.name}& from, rv_policy, cleanup_list*) "
                 f"noexcept {{\n"
                 f"    return ResultCaster<luminal::{struct.name}>::make(\"{struct.name}\", {fields});\n  "
                 f"}}\n}};\n")
    files["results.h"] = text + "} // namespace nanobind::detail\n"
    lines = []
    for name, overloads in free.items():
        lines += [emit(one, structs, enums, "m", False) for one in overloads]
    for name, overloads in members.items():
        lines += [emit(one, structs, enums, "tensor", True) for one in overloads]
    lines = [line for line in lines if line]
    for part in range(PARTS):
        files[f"operations_{part}.cpp"] = (
            f"// generated/operations_{part}.cpp -- bindings of operations, made by python/generate.py from "
            f"the public headers.\n"
            '#include "args.h"\n#include "generated/results.h"\nnamespace luminal::python {\n'
            f"void bind_operations_{part}(nb::module_& m, nb::class_<Tensor>& tensor) {{\n  (void)m;\n"
                                           + "".join(lines[
                                               len(lines) * part // PARTS:len(lines) * (part + 1) // PARTS])
                                           + "}\n} // namespace luminal::python\n")
    for name, content in files.items():
        path = folder / name
        if not path.exists() or path.read_text() != content:
            path.write_text(content)


def results(structs):
    return [struct for struct in structs.values() if struct.fields
            and all(field.type == "Tensor" for field in struct.fields)
            and struct.name != "AttentionOptions"]


def named(declarations):
    """{operation: how Python has it}; empty text: not at all."""
    free, members, skipped = plan(declarations)
    table = {}
    for one in declarations:
        name = one.name
        places = (["luminal." + name] if name in free else []) + (["Tensor." + name] if name in members
                                                                  else [])
        table[name] = ", ".join(places) or skipped.get(name, "")
    return table


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()
    if args.out:
        write(args.out)
    if args.list:
        for name, how in sorted(named(collect()[0]).items()):
            print(f"{name}\t{how}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
