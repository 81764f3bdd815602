# python/luminal/torch/record.py -- from a graph of torch.fx to the records of terms.py; sizes from sympy
# to dimensions.
from __future__ import annotations

import operator
import typing

import sympy  # type: ignore[import-untyped, import-not-found, unused-ignore]
import torch  # type: ignore[import-not-found, unused-ignore]

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


class Dimensions:
    """Symbols of PyTorch's sizes as dimensions of a graph, and expressions over them."""

    def __init__(self, graph: pl.Graph, ranges: dict[str, tuple[int, int]]) -> None:
        self.graph = graph
        self.ranges = ranges
        self.dims: dict[str, pl.Dim] = {}
        self.known: dict[typing.Any, typing.Any] = {}

    def dim_of(self, expression: typing.Any) -> typing.Any:
        found = self.known.get(expression)
        if found is None:
            found = self.known[expression] = self.make(expression)
        return found

    def make(self, e: typing.Any) -> typing.Any:
        if isinstance(e, int) or e.is_Integer:
            return int(e)
        if e.is_Symbol:
            low, high = self.ranges[str(e)]
            return self.dims.setdefault(str(e), self.graph.dim(str(e), low, high))
        parts = [self.dim_of(part) for part in e.args]
        name = type(e).__name__
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
                return a // b
            if name in ("PythonMod", "Mod"):
                return a % b
            if name == "CeilDiv":
                return (a + b - 1) // b
            best = a
            for part in parts[1:]:
                best = pl.Dim.max(best, part) if name == "Max" else pl.Dim.min(best, part)
            return best
        if name == "ModularIndexing":
            return parts[0] // parts[1] % parts[2]
        raise NotImplementedError(f"the size {e}")
