# python/luminal/torch/record.py -- from a graph of torch.fx to the records of terms.py; sizes from sympy
# to dimensions.
from __future__ import annotations

import itertools
import math
import operator
import typing

import sympy  # type: ignore[import-untyped, import-not-found, unused-ignore]
import torch  # type: ignore[import-not-found, unused-ignore]
from torch.utils._sympy.functions import (  # type: ignore[import-not-found, unused-ignore]
    FloorDiv,
    Mod,
    PythonMod,
)
from torch.utils._sympy.printers import PythonPrinter  # type: ignore[import-not-found, unused-ignore]

import luminal as pl

from .terms import Node, Ref, Symbolic, Type

WORDS = {
    torch.float64: "f64",
    torch.float32: "f32",
    torch.bfloat16: "bf16",
    torch.float16: "f16",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.int16: "i16",
    torch.int8: "i8",
    torch.uint8: "u8",
    torch.uint16: "u16",
    torch.uint32: "u32",
    torch.uint64: "u64",
    torch.bool: "bool",
}


def expression_of(number: typing.Any) -> typing.Any:
    """An int, or the sympy expression of a SymInt."""
    if isinstance(number, int):
        return number
    expression = number.node.expr
    return int(expression) if expression.is_Integer else expression


def function_of(expression: typing.Any, symbols: list[str]) -> typing.Any:
    """A function (values of the symbols) -> number; a number where it is one."""
    if isinstance(expression, int):
        return expression
    text = PythonPrinter().doprint(expression)
    return eval(
        f"lambda {', '.join(symbols)}: {text}", {"math": math, "torch": torch, "min": min, "max": max}
    )  # noqa: S307


def size_of(number: typing.Any) -> typing.Any:
    expression = expression_of(number)
    return expression if isinstance(expression, int) else Symbolic(expression)


def is_packed(fake: typing.Any) -> bool:
    return bool(fake.layout == torch.strided and fake.is_contiguous())


def type_of(fake: typing.Any) -> typing.Any:
    if isinstance(fake, (list, tuple)):
        return tuple(type_of(item) for item in fake)
    if not isinstance(fake, torch.Tensor):
        return None
    if fake.layout != torch.strided or fake.device.type != "cpu":
        return Type(f"{fake.layout} on {fake.device.type}", ())
    return Type(
        WORDS.get(fake.dtype, str(fake.dtype)), tuple(size_of(size) for size in fake.shape), is_packed(fake)
    )


def line_of(node: typing.Any) -> str:
    """The user's line that made a node: "model.py:12", empty where PyTorch does not know it."""
    last = ""
    for text in (node.meta.get("stack_trace") or "").splitlines():
        text = text.strip()
        if text.startswith('File "') and '", line ' in text:
            file, _, rest = text[6:].partition('", line ')
            last = f"{file}:{rest.split(',')[0]}"
    return last


def is_symbolic(node: typing.Any) -> bool:
    return isinstance(node.meta.get("val"), (torch.SymInt, torch.SymFloat, torch.SymBool))


def op_of(node: typing.Any) -> str:
    if node.target is operator.getitem:
        return "getitem"
    return str(node.target)


def argument_of(x: typing.Any) -> typing.Any:
    if isinstance(x, torch.fx.Node):
        if isinstance(x.meta.get("val"), torch.SymInt):
            return size_of(x.meta["val"])
        return Ref(x.name)
    if isinstance(x, (list, tuple)):
        return [argument_of(item) for item in x]
    if isinstance(x, torch.SymInt):
        return size_of(x)
    if x is None or isinstance(x, (bool, int, float, complex, str)):
        return x
    if isinstance(x, torch.dtype):
        return WORDS.get(x, str(x))
    return None  # devices, layouts, memory formats: all values lie row-major on the processor


def node_of(node: typing.Any) -> Node:
    return Node(
        node.name,
        op_of(node),
        tuple(argument_of(x) for x in node.args),
        {key: argument_of(x) for key, x in node.kwargs.items()},
        type_of(node.meta.get("val")),
        line_of(node),
    )


def without_common_factors(a: typing.Any, b: typing.Any) -> tuple[typing.Any, typing.Any]:
    """Symbols that both products have are left out."""
    common = set(sympy.Mul.make_args(a)) & set(sympy.Mul.make_args(b))
    factor = sympy.Mul(*[each for each in common if each.is_Symbol])
    return a / factor, b / factor


def solved(left: typing.Any, right: typing.Any) -> typing.Any:
    """(x, what it equals) of the equation of two products: 4 * x + 1 == 9 is x == 2."""
    number, rest = (left - right).as_coeff_Add()
    terms = [term.as_coeff_Mul() for term in sympy.Add.make_args(rest)]
    if len(terms) == 1:
        terms.append((number, sympy.Integer(1)))
    elif number != 0 or len(terms) != 2:
        return None
    for (a, x), (b, y) in (terms, terms[::-1]):
        if a.is_Integer and b.is_Integer and not x.is_Integer and a != 0 and b % a == 0:
            return x, -b // a * y
    return None


class Known:
    """What PyTorch's guards say of sizes over these symbols (name: lowest, highest, first value). steps:
    numbers that a symbol is always a multiple of. equal: expressions that are read as others, which they
    equal. ranges: the symbols' values for which that is so."""

    def __init__(self, shape_env: typing.Any, symbols: dict[str, tuple[int, int, int]]) -> None:
        self.symbols = {name: first for name, (_, _, first) in symbols.items()}
        self.lows = {name: low for name, (low, _, _) in symbols.items()}
        guards = [guard.expr for guard in shape_env.guards] if shape_env is not None else []
        guards = [guard for guard in guards if isinstance(guard, sympy.Eq)]
        self.steps: dict[str, int] = {}
        for guard in guards:
            for part in guard.atoms(FloorDiv, Mod, PythonMod):
                self.try_step(guard, *part.args)
        self.equal = self.equal_sizes(guards, shape_env)
        self.ranges = dict(symbols)
        for e, number in self.equal.items():
            if isinstance(e, FloorDiv) and e.args[0].is_Symbol and e.args[1].is_Integer and number.is_Integer:
                name, step = str(e.args[0]), int(e.args[1])
                low, high, first = self.ranges[name]
                low, high = max(low, int(number) * step), min(high, int(number) * step + step - 1)
                if low <= first <= high:
                    self.ranges[name] = (low, high, first)

    def try_step(self, guard: typing.Any, symbol: typing.Any, step: typing.Any) -> None:
        """Where the guard holds for multiples only: it is tried at all small values. A size that is
        none all the same makes the program anew (Program.__call__)."""
        left, right = without_common_factors(guard.lhs, guard.rhs)
        names = sorted(str(each) for each in (left - right).free_symbols)
        if not (symbol.is_Symbol and step.is_Integer and 1 < step <= 64 and len(names) <= 2):
            return
        name, step = str(symbol), int(step)
        if name not in names or name not in self.symbols or self.symbols[name] % step:
            return
        if self.steps.get(name, 1) % step == 0:
            return
        holds = function_of(left - right, names)
        others = [range(1, 2 * step + 2) if each == name else range(1, 18) for each in names]
        found = False
        for values in itertools.product(*others):
            try:
                if holds(*values) != 0:
                    continue
            except ZeroDivisionError:
                continue
            found = True
            if values[names.index(name)] % step:
                return
        if found:
            self.steps[name] = math.lcm(step, self.steps.get(name, 1))

    def equal_sizes(self, guards: list[typing.Any], shape_env: typing.Any) -> dict[typing.Any, typing.Any]:
        groups: dict[typing.Any, list[typing.Any]] = {}

        def join(pair: typing.Iterable[typing.Any]) -> None:
            group = list(dict.fromkeys(e for side in pair for e in groups.get(side, [side])))
            for e in group:
                groups[e] = group

        for guard in guards:
            sides = [shape_env.replace(side) for side in guard.args]
            join(sides)
            names = {str(e) for e in sympy.Mul.make_args(sides[0]) if e.is_Symbol}
            if all(self.lows.get(name, 0) > 0 for name in names):
                join(solved(*without_common_factors(*sides)) or ())
        simplest = {}
        least: dict[int, typing.Any] = {}  # of a group; None where no symbols of ours are in it
        for e, group in groups.items():
            if id(group) not in least:
                known = [x for x in group if all(str(symbol) in self.symbols for symbol in x.free_symbols)]
                key = {x: (not x.is_Integer, x.count_ops(), str(x)) for x in known}
                least[id(group)] = min(known, key=key.__getitem__, default=None)
            best = least[id(group)]
            if best is None or best == e:
                continue
            simplest[e] = best
            if isinstance(e, sympy.Pow) and e.exp.is_Integer and e.exp > 0 and best.is_Integer and best >= 0:
                root, exact = sympy.integer_nthroot(int(best), int(e.exp))
                if exact:  # (n // 8)**2 == 16: no size is less than 0
                    simplest[e.base] = sympy.Integer(root)
            if isinstance(e, FloorDiv) and e.args[0].is_Symbol and e.args[1].is_Integer:
                whole, step = e.args  # n // 2 == m, and n is even: n == 2 * m
                if self.steps.get(str(whole), 1) % step == 0 and not best.has(whole):
                    simplest[whole] = step * best
        return simplest


def ratio(e: typing.Any) -> tuple[typing.Any, int]:
    """A number that PyTorch computes in floating point, without rounding, as an integer over a number."""
    name = type(e).__name__
    if e.is_Integer:
        return e, 1
    if e.is_Float:
        over, under = float(e).as_integer_ratio()
        if abs(over) < 2**20 and under < 2**20:  # times sizes below 2^33: exact in a double
            return sympy.Integer(over), under
    if name == "ToFloat":
        return e.args[0], 1
    if name == "IntTrueDiv" and e.args[1].is_Integer and e.args[1] > 0:
        return e.args[0], int(e.args[1])
    if isinstance(e, sympy.Mul) or name == "FloatMul":
        parts = [ratio(part) for part in e.args]
        return sympy.Mul(*[part[0] for part in parts]), math.prod(part[1] for part in parts)
    raise NotImplementedError(f"a size is computed with {e}, and rounds")


class Dimensions:
    """Symbols of PyTorch's sizes as dimensions of a graph, and expressions over them."""

    def __init__(
        self,
        graph: pl.Graph,
        ranges: dict[str, tuple[int, int]],
        known: typing.Optional[Known] = None,
    ) -> None:
        self.graph = graph
        self.ranges = ranges
        self.equal = known.equal if known is not None else {}
        self.steps = known.steps if known is not None else {}
        self.dims: dict[str, pl.Dim] = {}
        self.known: dict[typing.Any, typing.Any] = {}

    def parts_of(self, whole: typing.Any, part: typing.Any) -> typing.Optional[int]:
        """n // (n // 4) is 4, where n is a multiple of 4."""
        if isinstance(part, FloorDiv) and part.args[0] == whole and part.args[1].is_Integer:
            if self.steps.get(str(whole), 1) % part.args[1] == 0:
                return int(part.args[1])
        return None

    def dim_of(self, expression: typing.Any) -> typing.Any:
        found = self.known.get(expression)
        if found is None:
            simplest, seen = expression, set()
            while simplest in self.equal and simplest not in seen:
                seen.add(simplest)
                simplest = self.equal[simplest]
            found = self.known[expression] = self.make(simplest)
        return found

    def make(self, e: typing.Any) -> typing.Any:
        if isinstance(e, int) or e.is_Integer:
            return int(e)
        if e.is_Symbol:
            low, high = self.ranges[str(e)]
            step = self.steps.get(str(e), 1)
            return self.dims.setdefault(str(e), self.graph.dim(str(e), low, high, step))
        name = type(e).__name__
        parts = [] if name.endswith("ToInt") else [self.dim_of(part) for part in e.args]
        if isinstance(e, sympy.Add) or isinstance(e, sympy.Mul):
            total = parts[0]
            for part in parts[1:]:
                total = total + part if isinstance(e, sympy.Add) else total * part
            return total
        if isinstance(e, sympy.Pow) and isinstance(parts[1], int) and parts[1] > 0:
            total = parts[0]
            for _ in range(parts[1] - 1):
                total = total * parts[0]
            return total
        if name in ("FloorDiv", "CleanDiv", "PythonMod", "Mod", "CeilDiv", "Max", "Min"):
            a, b = parts[0], parts[1]
            if name in ("FloorDiv", "CleanDiv"):
                count = self.parts_of(*e.args)
                return a // b if count is None else count
            if name in ("PythonMod", "Mod"):
                return a % b
            if name == "CeilDiv":
                return (a + b - 1) // b
            best = a
            for part in parts[1:]:
                best = pl.Dim.max(best, part) if name == "Max" else pl.Dim.min(best, part)
            return best
        if name in ("TruncToInt", "FloorToInt", "CeilToInt"):
            over, under = ratio(e.args[0])
            over = self.dim_of(over)
            return (over + (under - 1)) // under if name == "CeilToInt" else over // under
        if name == "ModularIndexing":
            return parts[0] // parts[1] % parts[2]
        raise NotImplementedError(f"the size {e}")
