# python/luminal/torch/operators/indexing.py -- gathers and scatters by tensors of indices.
from __future__ import annotations

import typing

import luminal as pl

from ..terms import Lowering, Unsupported, axis_of, operator, same, word

C = Lowering
T = typing.Any


@operator("aten.embedding")
def embedding(
    c: C,
    weight: T,
    indices: T,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> T:
    return pl.embedding(weight, indices)


@operator("aten.index_select")
def index_select(c: C, x: T, dim: int, index: T) -> T:
    if x.ndim == 0:
        return x
    return x.index_select(axis_of(dim, x.ndim), index.reshape(-1))


@operator("aten.gather")
def gather(c: C, x: T, dim: int, index: T, *, sparse_grad: bool = False) -> T:
    if x.ndim == 0 or index.ndim == 0:
        flat = x.reshape(-1).gather(0, index.reshape(-1))
        return flat.reshape(*c.shape) if c.shape else flat.reshape(())
    if any(isinstance(size, int) and size == 0 for size in index.shape):
        return c.full(c.shape, 0, c.dtype)
    return x.gather(axis_of(dim, x.ndim), index)


@operator("aten.take")
def take(c: C, x: T, index: T) -> T:
    return pl.take(x, from_end(c, index, count_of(x)))


def count_of(x: T) -> T:
    count: T = 1
    for size in x.shape:
        count = size * count
    return count


def from_end(c: C, index: T, extent: T) -> T:
    """Negative indices count from the end."""
    index = index if word(index) == "i64" else index.cast("i64")
    return pl.where(index < 0, index + c.tensor(extent, "i64"), index)


class Indexed:
    """x[i, None, j]: x with the indexed axes in front, the indices, and how the result's axes come back."""

    def __init__(self, c: C, x: T, indices: T) -> None:
        self.axes = [axis for axis, index in enumerate(indices) if index is not None]
        given = [indices[axis] for axis in self.axes]
        if any(word(index) in ("bool", "u8") for index in given):
            raise Unsupported("a mask selects elements: how many, only their values say")
        self.rest = [axis for axis in range(x.ndim) if axis not in self.axes]
        shape: T = ()
        for index in given:
            shape = broadcast_shapes(shape, index.shape)
        self.batch = tuple(shape)
        self.indices = [
            c.broadcast(from_end(c, index, x.shape[axis]), self.batch)
            for axis, index in zip(self.axes, given)
        ]
        self.order = [*self.axes, *self.rest]
        self.x = x.permute(*self.order) if self.order != sorted(self.order) else x
        adjacent = self.axes == list(range(self.axes[0], self.axes[0] + len(self.axes)))
        self.first = self.axes[0] if adjacent else 0  # where the axes of the indices stand in the result
        self.shape = [x.shape[axis] for axis in self.rest]
        self.full = [*self.shape[: self.first], *self.batch, *self.shape[self.first :]]

    def to_result(self, x: T) -> T:
        """From [batch.., rest..] to PyTorch's order."""
        b, n = len(self.batch), x.ndim
        order = [*range(b, b + self.first), *range(b), *range(b + self.first, n)]
        return x.permute(*order) if order != list(range(n)) else x

    def from_result(self, x: T) -> T:
        b, n = len(self.batch), x.ndim
        order = [*range(self.first, self.first + b), *range(self.first), *range(self.first + b, n)]
        return x.permute(*order) if order != list(range(n)) else x

    def back(self, x: T) -> T:
        """An updated x in its own order of axes."""
        inverse = [self.order.index(axis) for axis in range(x.ndim)]
        return x.permute(*inverse) if inverse != list(range(x.ndim)) else x


def broadcast_shapes(a: T, b: T) -> list[T]:
    a, b = list(a), list(b)
    while len(a) < len(b):
        a.insert(0, 1)
    while len(b) < len(a):
        b.insert(0, 1)
    return [y if isinstance(x, int) and x == 1 else x for x, y in zip(a, b)]


def is_empty(shape: T) -> bool:
    return any(isinstance(size, int) and size == 0 for size in shape)


@operator("aten.index.Tensor", "aten._unsafe_index.Tensor")
def index_tensor(c: C, x: T, indices: T) -> T:
    if is_empty(c.shape):
        return c.full(c.shape, 0, c.dtype)
    it = Indexed(c, x, indices)
    if not it.batch:  # one element of each indexed axis
        it.indices = [index.reshape(1) for index in it.indices]
        made = pl.index_get(it.x, it.indices)
        return made.reshape(*it.shape) if it.shape else made.reshape(())
    return it.to_result(pl.index_get(it.x, it.indices))


@operator("aten.index_put", "aten._unsafe_index_put", "aten._index_put_impl")
def index_put(c: C, x: T, indices: T, values: T, accumulate: bool = False, unsafe: bool = False) -> T:
    values = c.tensor(values, c.dtype)
    masks = [index for index in indices if index is not None and word(index) in ("bool", "u8")]
    if masks:
        return put_by_mask(c, x, indices, values, accumulate)
    if is_empty(x.shape):
        return x
    it = Indexed(c, x, indices)
    if is_empty(it.full):
        return x
    wide = it.from_result(values.expand(*it.full)) if it.full else values
    if not it.batch:
        it.indices = [index.reshape(1) for index in it.indices]
        wide = wide.reshape(1, *it.shape)
    how: T = "set" if not accumulate else "max" if c.dtype == "bool" else "add"
    return it.back(pl.index_put(it.x, it.indices, wide, how=how))


def put_by_mask(c: C, x: T, indices: T, values: T, accumulate: bool) -> T:
    if len([index for index in indices if index is not None]) != 1 or accumulate:
        raise Unsupported("a mask beside other indices")
    mask = next(index for index in indices if index is not None)
    before = next(axis for axis, index in enumerate(indices) if index is not None)
    mask = c.tensor(mask, "bool").reshape(*[1] * before, *mask.shape, *[1] * (x.ndim - before - mask.ndim))
    if all(isinstance(size, int) and size == 1 for size in values.shape):
        return pl.where(mask, values.reshape(()), x)
    if before or mask.ndim != x.ndim:
        raise Unsupported("a mask over some axes, with values for each place")
    return pl.masked_scatter(x, mask, values.reshape(-1))


@operator("aten.masked_scatter")
def masked_scatter(c: C, x: T, mask: T, source: T) -> T:
    return pl.masked_scatter(x, c.broadcast(mask, x.shape), source.reshape(-1))


@operator("aten.masked_fill.Scalar", "aten.masked_fill.Tensor")
def masked_fill(c: C, x: T, mask: T, value: T) -> T:
    return pl.where(c.tensor(mask, "bool"), c.tensor(value, c.dtype), c.tensor(x, c.dtype))


# ---- scatter along an axis ----
def scattered(c: C, x: T, dim: int, index: T, source: T, how: T, include_self: bool = True) -> T:
    if is_empty(index.shape):
        return x
    if not isinstance(source, pl.Tensor):
        source = c.full(index.shape, source, c.dtype)
    source = c.tensor(source, c.dtype)
    if x.ndim == 0 or index.ndim == 0:
        rank = max(x.ndim, 1)
        shape = x.shape
        x, index, source = (
            x.reshape(*x.shape or (1,)),
            index.reshape(*[1] * rank),
            source.reshape(*[1] * rank),
        )
        return scattered(c, x, dim if rank == x.ndim else 0, index, source, how, include_self).reshape(
            *shape or ((),)
        )
    axis = axis_of(dim, x.ndim)
    if not same(source.shape, index.shape):  # the source may be larger
        for k, size in enumerate(index.shape):
            source = source.narrow(k, 0, size)
    if how == "mean":
        return pl.scatter_mean(x, axis, index, source, include_self=include_self)
    if include_self:
        return x.scatter(axis, index, source, how=how)
    return pl.scatter_reduce(x, axis, index, source, how, include_self=False)


@operator("aten.scatter.src", "aten.scatter.value")
def scatter(c: C, x: T, dim: int, index: T, source: T) -> T:
    return scattered(c, x, dim, index, source, "set")


HOW = {
    "add": "add",
    "multiply": "mul",
    "sum": "add",
    "prod": "mul",
    "amax": "max",
    "amin": "min",
    "mean": "mean",
}


@operator("aten.scatter.reduce", "aten.scatter.value_reduce")
def scatter_with(c: C, x: T, dim: int, index: T, source: T, *, reduce: str) -> T:
    return scattered(c, x, dim, index, source, HOW[reduce])


@operator("aten.scatter_add")
def scatter_add(c: C, x: T, dim: int, index: T, source: T) -> T:
    return scattered(c, x, dim, index, source, "max" if c.dtype == "bool" else "add")


@operator("aten.scatter_reduce.two")
def scatter_reduce(
    c: C, x: T, dim: int, index: T, source: T, reduce: str, *, include_self: bool = True
) -> T:
    return scattered(c, x, dim, index, source, HOW[reduce], include_self)


@operator("aten.index_add")
def index_add(c: C, x: T, dim: int, index: T, source: T, *, alpha: T = 1) -> T:
    source = c.tensor(source, c.dtype)
    source = source if isinstance(alpha, (int, float)) and alpha == 1 else source * c.tensor(alpha, c.dtype)
    if x.ndim == 0:
        return (x.reshape(1).index_add(0, index.reshape(-1), source.reshape(-1))).reshape(())
    return x.index_add(axis_of(dim, x.ndim), index.reshape(-1), source)


@operator("aten.put")
def put(c: C, x: T, index: T, source: T, accumulate: bool = False) -> T:
    if is_empty(index.shape):
        return x
    places = from_end(c, index, count_of(x)).reshape(-1)
    how: T = "set" if not accumulate else "max" if c.dtype == "bool" else "add"
    made = x.reshape(-1).scatter(0, places, c.tensor(source, c.dtype).reshape(-1), how=how)
    return made.reshape(*x.shape) if x.ndim else made.reshape(())


@operator("aten.nonzero_static")
def nonzero_static(c: C, x: T, *, size: int, fill_value: int = -1) -> T:
    if is_empty(c.shape):
        return c.full(c.shape, 0, "i64")
    return pl.nonzero(x, size, fill_value).values
