# python/luminal/torch/program.py -- a connected part of an ATen graph as a compiled Graph that runs on
# PyTorch's memory.
from __future__ import annotations

import math
import os
import threading
import typing

import torch  # type: ignore[import-not-found, unused-ignore]

import luminal as pl

from . import operators  # noqa: F401
from .options import Options
from .record import Dimensions, Known, expression_of, function_of, node_of, type_of
from .terms import Lowering, Unsupported

T = typing.Any

# A symbol without an upper bound is a dimension of at most so many times its first size; a larger one
# makes the program anew.
HEADROOM, LEAST_HIGH = 16, 4096


class Failed(Exception):
    """The node of a part that has no terms, and why."""

    def __init__(self, node: T, reason: str) -> None:
        super().__init__(reason)
        self.node = node  # None: all of them
        self.nodes: list[T] = []


def order_of(fake: T) -> typing.Optional[list[int]]:
    """The order of axes in which a tensor lies without gaps; None where it is row-major, or has gaps."""
    if fake.layout != torch.strided or fake.is_contiguous():
        return None
    strides = [stride if isinstance(stride, int) else stride.node.hint for stride in fake.stride()]
    if any(stride is None for stride in strides):
        return None
    order = sorted(range(fake.ndim), key=lambda axis: (-strides[axis], axis))
    return order if fake.permute(order).is_contiguous() else None


def is_expanded(fake: T) -> bool:
    return any(
        isinstance(stride, int) and stride == 0 and not (isinstance(size, int) and size <= 1)
        for size, stride in zip(fake.shape, fake.stride())
    )


def of_type(tensor: T, dtype: T) -> T:
    """What PyTorch computes may be of another type than its own tracing says (float32 for bfloat16)."""
    return tensor if tensor.dtype is dtype else tensor.to(dtype)


def packed(tensor: T, order: typing.Optional[list[int]]) -> T:
    """Row-major without gaps once its axes are in this order: the tensor, a view, or a copy."""
    if order is not None:
        tensor = tensor.permute(order)
    if not tensor.is_contiguous() or tensor.is_neg():
        tensor = tensor.resolve_neg().contiguous()
    return tensor


def empty_quickly() -> T:
    """torch.empty_strided for the processor without the dispatcher, as Inductor calls it; None where this
    PyTorch has none. It takes a fourth of the time of torch.empty, which is as much as a small kernel."""
    return getattr(torch._C._dynamo.guards, "_empty_strided_cpu", None)


EMPTY = empty_quickly()


def compile_words(options: Options) -> dict[str, typing.Any]:
    """For Graph.compile: as many workers as PyTorch has threads, where nobody says how many."""
    words = options.compile_words()
    if os.environ.get("LUMINAL_THREADS", "0") in ("", "0"):
        words.setdefault("threads", torch.get_num_threads())
    return words


def can_freeze(node: T) -> bool:
    fake = node.meta["val"]
    return isinstance(fake, torch.Tensor) and all(isinstance(size, int) for size in fake.shape)


class Output:
    """How a result is allocated: sizes and strides over the symbols' values."""

    def __init__(self, fake: T, symbols: list[str]) -> None:
        self.dtype = fake.dtype
        self.order = order_of(fake)
        self.sizes = [function_of(expression_of(size), symbols) for size in fake.shape]
        self.fixed = all(isinstance(size, int) for size in self.sizes)
        # what is neither row-major nor a permutation of that is copied into its strides, if every element
        # has its own
        self.strides: T = None
        if self.order is None and not fake.is_contiguous() and not is_expanded(fake):
            self.strides = [function_of(expression_of(stride), symbols) for stride in fake.stride()]
        self.quick: T = None  # arguments of EMPTY
        if EMPTY is not None and self.fixed and self.order is None:
            sizes = [max(size, 1) for size in self.sizes]
            strides = [math.prod(sizes[axis + 1 :]) for axis in range(len(sizes))]
            self.quick = (tuple(self.sizes), tuple(strides), self.dtype)

    def allocate(self, values: list[int]) -> T:
        if self.quick is not None:
            return EMPTY(*self.quick)
        sizes = self.sizes if self.fixed else [s if isinstance(s, int) else s(*values) for s in self.sizes]
        if self.order is None:
            return torch.empty(sizes, dtype=self.dtype)
        return torch.empty_permuted(sizes, self.order, dtype=self.dtype)

    def memory(self, made: T) -> T:
        """Row-major, as it lies."""
        return made if self.order is None else made.permute(self.order)

    def finish(self, made: T, values: list[int]) -> T:
        if self.strides is None:
            return made
        strides = [s if isinstance(s, int) else s(*values) for s in self.strides]
        return torch.empty_strided(made.shape, strides, dtype=self.dtype).copy_(made)


class Program:
    """Nodes of a torch.fx graph as one Graph. Called with the inputs' tensors and the symbols' values."""

    def __init__(
        self,
        nodes: list[T],
        inputs: list[T],
        outputs: list[T],
        symbols: dict[str, tuple[int, int, int]],
        options: Options,
        frozen: set[T],
        known: Known,
        updates: typing.Optional[dict[T, T]] = None,
    ) -> None:
        """updates: inputs that are changed where they lie, and the nodes that they become."""
        self.updates = updates or {}
        self.states = {index for index, node in enumerate(inputs) if node in self.updates}
        self.nodes, self.inputs, self.outputs = nodes, inputs, outputs
        self.known: typing.Optional[Known] = known
        self.lock = threading.Lock()
        self.frozen = {index for index, node in enumerate(inputs) if node in frozen and can_freeze(node)}
        self.moved: set[int] = set()  # frozen ones that had changed at the last call
        self.options = options
        self.symbols = symbols  # name: (low, high, first size)
        self.highs = {
            name: min(high, max(LEAST_HIGH, HEADROOM * first)) for name, (_, high, first) in symbols.items()
        }
        self.orders = [
            order_of(node.meta["val"]) if isinstance(node.meta["val"], torch.Tensor) else None
            for node in inputs
        ]
        self.dtypes = [getattr(node.meta["val"], "dtype", torch.float64) for node in inputs]
        names = list(symbols)
        self.results = [Output(node.meta["val"], names) for node in outputs]
        self.strided = any(result.strides is not None for result in self.results)
        self.build()

    def build(self) -> None:
        graph = pl.Graph()
        ranges = {name: (low, self.highs[name]) for name, (low, _, _) in self.symbols.items()}
        dimensions = Dimensions(graph, ranges, self.known)
        sources: list[pl.Tensor] = []
        self.sources: dict[int, pl.Tensor] = {}
        self.weights: dict[int, pl.Tensor] = {}
        self.given = [index for index in range(len(self.inputs)) if index not in self.frozen]
        self.forget()
        with graph:
            lowering = Lowering(graph, dimensions.dim_of)
            for index, (node, order) in enumerate(zip(self.inputs, self.orders)):
                source = self.add_input(lowering, node, order, index in self.frozen, index in self.states)
                self.sources[index] = source
                if index in self.frozen:
                    self.weights[index] = source
                else:
                    sources.append(source)
            for node in self.nodes:
                self.add(lowering, node)
            for index in self.states:
                graph.update(self.sources[index], lowering.value_of(self.updates[self.inputs[index]].name))
            kept = []
            for node, result in zip(self.outputs, self.results):
                value = lowering.value_of(node.name)
                if result.order is not None:
                    value = value.permute(*result.order)
                kept.append(value.contiguous())
            self.graph = graph
            self.dims = list(dimensions.dims)
            self.steps = {name: step for name, step in dimensions.steps.items() if name in self.dims}
            # one tensor cannot be kept for two results, and an input is nobody's result
            places: dict[T, int] = {}
            self.firsts: list[int] = []  # which results the program writes
            self.twins: list[tuple[int, int]] = []  # results that are another one, and which
            for index, value in enumerate(kept):
                key = hash(value)  # of the graph and the place in it: == would make a comparison
                if key not in places:
                    places[key] = index
                    self.firsts.append(index)
                else:
                    self.twins.append((index, places[key]))
            self.reads = [(index, self.dtypes[index], self.orders[index]) for index in self.given]
            try:
                self.runner = pl.Runner(graph, self.dims, sources, [kept[index] for index in self.firsts])
                sizes = {name: self.symbols[name][2] for name in self.dims}
                graph.compile(sizes=sizes or None, **compile_words(self.options))
            except (pl.Error, pl.InternalError) as error:
                raise Failed(None, f"it does not compile: {error}") from error

    def add_input(
        self,
        lowering: Lowering,
        node: T,
        order: typing.Optional[list[int]],
        frozen: bool,
        state: bool = False,
    ) -> pl.Tensor:
        fake = node.meta["val"]
        if isinstance(fake, (torch.SymFloat, float)):
            source = lowering.graph.input((), dtype="f64", name=node.name)
            lowering.values[node.name] = source
            return source
        type_ = type_of(fake)
        shape = lowering.sizes(type_.shape)
        lying = shape if order is None else tuple(shape[axis] for axis in order)
        if frozen:
            source = lowering.graph.weight(node.name, lying, dtype=type_.dtype)
        elif state:
            source = lowering.graph.state(node.name, lying, dtype=type_.dtype)
        else:
            source = lowering.graph.input(lying, dtype=type_.dtype, name=node.name)
        if order is None:
            lowering.values[node.name] = source
            return source
        lowering.values[node.name] = source.permute(*[order.index(axis) for axis in range(len(order))])
        return source

    def add(self, lowering: Lowering, node: T) -> None:
        try:
            lowering.add(node_of(node))
        except Unsupported as error:
            raise Failed(node, str(error)) from error
        except (pl.Error, NotImplementedError, TypeError, ValueError, IndexError) as error:
            raise Failed(node, f"{type(error).__name__}: {str(error).splitlines()[0][:200]}") from error

    def forget(self) -> None:
        """The next call reads all frozen tensors again."""
        self.watch = pl.Watch(sorted(self.frozen))
        self.loaded = False

    def load_changed(self, tensors: list[T]) -> None:
        """Weights whose tensors changed are read and packed again. One that changes from call to call
        becomes an input, which is read at each."""
        changed = self.watch.changed(tensors) if self.frozen else []
        if self.loaded:
            often = self.moved.intersection(changed)
            self.moved = set(changed)
            if often:
                self.frozen -= often
                self.build()
                changed = self.watch.changed(tensors)
        for index in changed:
            self.weights[index].borrow(packed(tensors[index].detach(), self.orders[index]))
        self.loaded = True

    def __call__(self, tensors: list[T], values: dict[str, int]) -> list[T]:
        with self.lock:  # a graph is for one thread at a time
            return self.run(tensors, values)

    def lower_sizes(self, values: dict[str, int], headroom: int) -> None:
        """Memory is reserved for the largest sizes of all dimensions together. Where that is more than can be
        addressed, the program is made anew for some times the sizes that are here."""
        self.highs = {
            name: min(high, max(self.symbols[name][0], headroom * values.get(name, 0)))
            for name, high in self.highs.items()
        }
        self.build()

    def run(self, tensors: list[T], values: dict[str, int], headroom: int = 4) -> list[T]:
        if self.steps and any(values[name] % step for name, step in self.steps.items()):
            self.known = None
            self.build()
        for name in self.dims:
            if values[name] > self.highs[name]:
                self.highs = {
                    n: max(high, min(self.symbols[n][1], 4 * values.get(n, 0)))
                    for n, high in self.highs.items()
                }
                self.build()
                break
        if self.frozen or not self.loaded:
            self.load_changed(tensors)
        addresses = []
        held = []  # copies live until the run is over
        changed = []  # states that lie otherwise than they are said to, and their copies
        for index, dtype, order in self.reads:
            tensor = tensors[index]
            as_it_lies = order is None and tensor.dtype is dtype
            if not as_it_lies or not tensor.is_contiguous() or tensor.is_neg():
                lying = packed(of_type(tensor, dtype), order)
                if lying is not tensor:
                    held.append(lying)
                    if index in self.states:
                        changed.append((tensor, lying))
                tensor = lying
            addresses.append(tensor.data_ptr())
        in_order = list(values.values())
        made = [result.allocate(in_order) for result in self.results]
        targets: list[T] = [made[index] for index in self.firsts]
        try:
            self.runner.run(
                [values[name] for name in self.dims], addresses, [tensor.data_ptr() for tensor in targets]
            )
        except pl.OutOfMemoryError as error:
            # Address space of the greatest sizes can be lowered, memory for the present ones cannot.
            if headroom == 0 or error.available is not None:
                raise
            self.lower_sizes(values, headroom)
            return self.run(tensors, values, headroom // 4)
        for tensor, lying in changed:
            tensor.copy_(lying)
        for index in self.states:
            torch.autograd.graph.increment_version(tensors[index])
        for index, first in self.twins:  # the same memory, whose axes may have other orders
            self.results[index].memory(made[index]).copy_(self.results[first].memory(made[first]))
        if not self.strided:
            return made
        return [result.finish(tensor, in_order) for result, tensor in zip(self.results, made)]
