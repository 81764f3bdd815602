# python/luminal/torch/terms.py -- an ATen graph as plain records, and what makes terms of a Graph from
# them. Needs no PyTorch.
"""A graph is a list of `Node`: an operator's name ("aten.add.Tensor"), arguments, the type of its result.
`Lowering` walks it and calls, for each operator, the function that `operator` registered for its name.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import typing

import luminal as pl

Size = typing.Any  # an int, or a Symbolic
Function = collections.abc.Callable[..., typing.Any]


class Unsupported(Exception):
    """Why an operator, or this use of it, has no terms."""


@dataclasses.dataclass(frozen=True)
class Ref:
    """The result of another node."""

    name: str


@dataclasses.dataclass(frozen=True)
class Symbolic:
    """An integer over sizes that change: `expression` is what the Lowering's `dim_of` reads."""

    expression: typing.Any


@dataclasses.dataclass(frozen=True)
class Type:
    """Of a tensor: our word for its element type, its sizes. packed: PyTorch has it row-major without
    gaps."""

    dtype: str
    shape: tuple[Size, ...]
    packed: bool = True


@dataclasses.dataclass
class Node:
    """One operator. type: of its result, a tuple for several; None for a result that is not a tensor."""

    name: str
    op: str
    args: tuple[typing.Any, ...] = ()
    kwargs: dict[str, typing.Any] = dataclasses.field(default_factory=dict)
    type: typing.Any = None
    line: str = ""  # of the user's program


DTYPES = {"f64", "f32", "bf16", "f16", "i64", "i32", "i16", "i8", "u8", "u16", "u32", "u64", "bool"}
FLOATS = {"f64", "f32", "bf16", "f16"}
BITS = {
    "f64": 64,
    "f32": 32,
    "bf16": 16,
    "f16": 16,
    "i64": 64,
    "i32": 32,
    "i16": 16,
    "i8": 8,
    "u8": 8,
    "u16": 16,
    "u32": 32,
    "u64": 64,
    "bool": 1,
}


def category(dtype: str) -> int:
    """bool, integers, floating-point numbers: the higher one wins."""
    return 0 if dtype == "bool" else 2 if dtype in FLOATS else 1


def promoted(a: str, b: str) -> str:
    """PyTorch's result type of two tensors with axes."""
    if a == b:
        return a
    if category(a) != category(b):
        return a if category(a) > category(b) else b
    if category(a) == 2:
        return a if BITS[a] > BITS[b] else b if BITS[b] > BITS[a] else "f32"
    if "u8" in (a, b):
        other = b if a == "u8" else a
        return "i16" if other == "i8" else other
    return a if BITS[a] > BITS[b] else b


def number_type(number: typing.Any) -> str:
    return "bool" if isinstance(number, bool) else "f32" if isinstance(number, float) else "i64"


OPERATORS: dict[str, Function] = {}


def operator(*names: str) -> collections.abc.Callable[[Function], Function]:
    """Registers a function (context, arguments of the operator) -> tensor or tuple of tensors."""

    def add(function: Function) -> Function:
        for name in names:
            OPERATORS[name if name.count(".") > 1 else name + ".default"] = function
        return function

    return add


class Lowering:
    """The context of operators while a graph is made: `dtype` and `shape` are those of the present node's
    result."""

    def __init__(self, graph: pl.Graph, dim_of: Function) -> None:
        self.graph = graph
        self.dim_of = dim_of
        self.values: dict[str, typing.Any] = {}
        self.types: typing.Any = None
        self.op = ""  # of the present node

    # ---- what operators ask for ----
    @property
    def dtype(self) -> str:
        return str(self.result(0).dtype)

    @property
    def shape(self) -> tuple[typing.Any, ...]:
        return self.sizes(self.result(0).shape)

    def result(self, index: int) -> Type:
        found = self.types[index] if isinstance(self.types, tuple) else self.types
        if not isinstance(found, Type):
            raise Unsupported("its result is not a tensor")
        return found

    def size(self, size: Size) -> typing.Any:
        return self.dim_of(size.expression) if isinstance(size, Symbolic) else size

    def sizes(self, sizes: collections.abc.Iterable[Size]) -> tuple[typing.Any, ...]:
        return tuple(self.size(size) for size in sizes)

    def tensor(self, x: typing.Any, dtype: typing.Optional[str] = None) -> pl.Tensor:
        """As a tensor, of this element type where it is named; numbers become constants."""
        if not isinstance(x, pl.Tensor):
            return self.full((), x, dtype or number_type(x))
        return x if dtype is None or word(x) == dtype else cast(x, dtype)

    def full(self, shape: collections.abc.Sequence[typing.Any], value: typing.Any, dtype: str) -> pl.Tensor:
        if isinstance(value, pl.Dim):
            one = self.graph.iota((1,), lambda i: value).reshape(()).cast(dtype)
        elif isinstance(value, complex):
            raise Unsupported("complex numbers")
        else:
            if dtype == "bool":
                value = bool(value)
            elif dtype in FLOATS:
                value = float(value)
            else:
                value = wrapped(int(value), dtype)
            one = self.graph.constant(value, dtype)
        return one.expand(*shape) if len(shape) else one

    def arguments(self, *list_: typing.Any) -> list[pl.Tensor]:
        """All in the result's element type."""
        return [self.tensor(x, self.dtype) for x in list_]

    def common(self, *list_: typing.Any) -> list[pl.Tensor]:
        """All in the type that PyTorch computes with: tensors with axes first, then those without, then
        numbers."""
        groups: list[list[str]] = [[], [], []]
        for x in list_:
            group = 2 if not isinstance(x, pl.Tensor) else 0 if x.ndim else 1
            groups[group].append(word(x) if isinstance(x, pl.Tensor) else number_type(x))
        found: typing.Optional[str] = None
        for group_ in groups:
            one: typing.Optional[str] = None
            for dtype in group_:
                one = dtype if one is None else promoted(one, dtype)
            if one is not None and (found is None or category(one) > category(found)):
                found = one
        return [self.tensor(x, found) for x in list_]

    def broadcast(self, x: pl.Tensor, shape: collections.abc.Sequence[typing.Any]) -> pl.Tensor:
        return x if same(x.shape, shape) else x.expand(*shape)

    # ---- the walk ----
    def value_of(self, name: str) -> pl.Tensor:
        found = self.values[name]
        if not isinstance(found, pl.Tensor):
            raise Unsupported("its result is not a tensor")
        return found

    def value(self, x: typing.Any) -> typing.Any:
        if isinstance(x, Ref):
            return self.values[x.name]
        if isinstance(x, Symbolic):
            return self.dim_of(x.expression)
        if isinstance(x, (list, tuple)):
            return [self.value(item) for item in x]
        return x

    def add(self, node: Node) -> None:
        """Makes the node's terms. Throws Unsupported, or an Error of the library."""
        function = OPERATORS.get(node.op)
        if function is None and node.op != "getitem":
            raise Unsupported("the operator is not known")
        self.types, self.op = node.type, node.op
        arguments = [self.value(x) for x in node.args]
        if function is None:
            self.values[node.name] = arguments[0][arguments[1]]
            return
        for type_ in node.type if isinstance(node.type, tuple) else (node.type,):
            if isinstance(type_, Type) and type_.dtype not in DTYPES:
                raise Unsupported(f"elements are {type_.dtype}")
        made = function(self, *arguments, **{key: self.value(x) for key, x in node.kwargs.items()})
        if isinstance(node.type, tuple):
            self.values[node.name] = tuple(self.checked(x, type_) for x, type_ in zip(made, node.type))
        else:
            self.values[node.name] = self.checked(made, node.type)

    def checked(self, x: typing.Any, type_: typing.Any) -> typing.Any:
        """In the element type that PyTorch says; of its shape, or this use of the operator is not
        supported."""
        if x is None or not isinstance(type_, Type):
            return None
        shape = self.sizes(type_.shape)
        if len(x.shape) != len(shape) or not all(may_equal(a, b) for a, b in zip(x.shape, shape)):
            raise Unsupported(
                f"its result would have the shape {list(x.shape)} where PyTorch has {list(shape)}"
            )
        for axis, (has, wanted) in enumerate(zip(x.shape, shape)):
            if has != wanted:  # equal for the sizes that PyTorch guards; the program assumes it
                x = x.narrow(axis, 0, wanted)
        return self.tensor(x, type_.dtype)


def word(x: pl.Tensor) -> str:
    return str(x.dtype).rsplit(".", 1)[-1].replace("boolean", "bool")


def cast(x: pl.Tensor, dtype: str) -> pl.Tensor:
    if dtype == "bool" and word(x) != "bool":
        return x != 0
    if dtype in ("u8", "i8", "u16", "i16") and word(x) in FLOATS:
        return x.cast("i32").cast(dtype)  # PyTorch wraps what is out of range, where we saturate
    return x.cast(dtype)


def wrapped(number: int, dtype: str) -> int:
    """The number modulo the type's width, as conversions of PyTorch have it."""
    bits = BITS[dtype]
    number &= (1 << bits) - 1
    return number - (1 << bits) if dtype.startswith("i") and number >> (bits - 1) else number


def may_equal(a: typing.Any, b: typing.Any) -> bool:
    return bool(a == b) if isinstance(a, int) and isinstance(b, int) else True


def same(a: collections.abc.Sequence[typing.Any], b: collections.abc.Sequence[typing.Any]) -> bool:
    return len(a) == len(b) and all(
        x is y or (type(x) is type(y) and str(x) == str(y)) for x, y in zip(a, b)
    )


def axis_of(dim: int, rank: int) -> int:
    return dim + rank if dim < 0 else dim


def axes_of(dims: typing.Any, rank: int) -> list[int]:
    """All axes where none is named."""
    if dims is None or (isinstance(dims, list) and not dims):
        return list(range(rank))
    return [axis_of(dim, rank) for dim in (dims if isinstance(dims, list) else [dims])] if rank else []
