# python/luminal/torch/operators/movement.py -- views, joins, paddings: where elements go.
from __future__ import annotations

import math
import typing

import luminal as pl

from ..terms import Lowering, axis_of, operator

C = Lowering
T = typing.Any


@operator(
    "aten.view",
    "aten._unsafe_view",
    "aten.reshape",
    "aten.squeeze",
    "aten.squeeze.dim",
    "aten.squeeze.dims",
    "aten.unsqueeze",
    "aten.flatten.using_ints",
    "aten.unflatten.int",
    "aten.view_copy",
    "aten.squeeze_copy",
    "aten.unsqueeze_copy",
    "aten._reshape_copy",
)
def reshape(c: C, x: T, *_: T) -> T:
    shape = c.shape
    if not shape:
        return x.reshape(())
    # as many elements may be in both for the sizes that PyTorch guards only: one axis has another extent,
    # in the result (which Lowering.checked cuts) or in what is read
    axis, extent = fitting(math.prod(x.shape), shape)
    if axis is not None:
        return x.reshape(*shape[:axis], extent, *shape[axis + 1 :])
    axis, extent = fitting(math.prod(shape), x.shape)
    return (x if axis is None else x.narrow(axis, 0, extent)).reshape(*shape)


def fitting(count: T, shape: T) -> T:
    """Where other than so many elements are in a shape: an axis, and the extent with which they are."""
    if math.prod(shape) != count:
        for axis in range(len(shape)):
            others = math.prod((*shape[:axis], *shape[axis + 1 :]))
            if others != 0 and count // others * others == count:
                return axis, count // others
    return None, None


@operator("aten.expand", "aten.expand_copy", "aten.broadcast_to", "prims.broadcast_in_dim")
def expand(c: C, x: T, size: T, dims: T = None, **_: T) -> T:
    if isinstance(dims, list):  # prims: which axis of the result each axis of x is
        shape: list[T] = [1] * len(c.shape)
        for axis, extent in zip(dims, x.shape):
            shape[axis] = extent
        x = x.reshape(*shape) if shape else x
    return c.broadcast(x, c.shape)


@operator("aten.permute", "aten.permute_copy")
def permute(c: C, x: T, dims: T) -> T:
    return x.permute(*[axis_of(dim, x.ndim) for dim in dims]) if dims else x


@operator("aten.transpose.int")
def transpose(c: C, x: T, a: int, b: int) -> T:
    return x.transpose(axis_of(a, x.ndim), axis_of(b, x.ndim)) if x.ndim else x


@operator("aten.t")
def t(c: C, x: T) -> T:
    return x.transpose(0, 1) if x.ndim == 2 else x


def start_of(c: C, start: T, extent: T, count: T = None, step: T = 1) -> T:
    """Where a slice of so many elements begins: negative numbers count from the end, and all are cut to the
    axis."""
    if start is None or (step == 1 and count == extent):
        return 0
    first = from_the_front(start, extent)
    if isinstance(first, int) and isinstance(extent, int):
        return min(max(first, 0), extent)
    if isinstance(first, int) or first.low is not None and first.low >= 0:
        return first
    if step == 1 and isinstance(start, int) and count == -start:
        return first  # as many elements as are asked for: nothing was cut
    return pl.Dim.max(first, 0)


def from_the_front(index: T, extent: T) -> T:
    """A negative index counts from the end, be it a number or minus a size."""
    highest = index if isinstance(index, int) else index.high
    return index + extent if highest is not None and highest < 0 else index


@operator("aten.slice.Tensor", "aten.slice_copy.Tensor")
def slice_(c: C, x: T, dim: int = 0, start: T = None, end: T = None, step: int = 1) -> T:
    axis = axis_of(dim, x.ndim)
    count = c.shape[axis]
    extent = x.shape[axis]
    if step == 1 and count == extent:  # also where a start before the first element is cut
        return x
    start = start_of(c, start, extent, count, step)
    if isinstance(count, int) and count == 0:
        return x.narrow(axis, 0, 0)
    return (
        x.narrow(axis, start, count)
        if step == 1
        else x.slice(axis, start, start + (count - 1) * step + 1, step)
    )


@operator("aten.select.int", "aten.select_copy.int")
def select(c: C, x: T, dim: int, index: T) -> T:
    axis = axis_of(dim, x.ndim)
    index = from_the_front(index, x.shape[axis])
    shape = list(x.shape)
    del shape[axis]
    return x.narrow(axis, index, 1).reshape(*shape) if shape else x.narrow(axis, index, 1).reshape(())


@operator("aten.narrow")
def narrow(c: C, x: T, dim: int, start: T, length: T) -> T:
    axis = axis_of(dim, x.ndim)
    return x.narrow(axis, start_of(c, start, x.shape[axis], length), length)


def parts(c: C, x: T, dim: int) -> tuple[T, ...]:
    axis, start, made = axis_of(dim, x.ndim), 0, []
    for index in range(len(c.types)):
        extent = c.sizes(c.result(index).shape)[axis]
        made.append(x.narrow(axis, start, extent))
        start = start + extent
    return tuple(made)


@operator(
    "aten.split.Tensor",
    "aten.split_with_sizes",
    "aten.split_copy.Tensor",
    "aten.split_with_sizes_copy",
    "aten.chunk",
    "aten.unsafe_split.Tensor",
    "aten.unsafe_split_with_sizes",
    "aten.unsafe_chunk",
)
def split(c: C, x: T, sizes: T, dim: int = 0) -> T:
    return parts(c, x, dim)


@operator("aten.unbind.int", "aten.unbind_copy.int")
def unbind(c: C, x: T, dim: int = 0) -> T:
    return tuple(select(c, x, dim, index) for index in range(len(c.types)))


def agreeing(x: T, shape: T, dim: int) -> T:
    """With the sizes of the whole, but along dim: they are equal for the sizes that PyTorch guards."""
    for axis, (has, wanted) in enumerate(zip(x.shape, shape)):
        if axis != dim and has != wanted:
            x = x.narrow(axis, 0, wanted)
    return x


@operator("aten.cat")
def cat(c: C, tensors: T, dim: int = 0) -> T:
    rank = len(c.shape)
    taken = [x for x in tensors if x.ndim == rank]  # PyTorch leaves out empty tensors of one axis
    if not taken:
        return c.full(c.shape, 0, c.dtype)
    dim = axis_of(dim, rank)
    taken = [agreeing(x, c.shape, dim) for x in c.arguments(*taken)]
    return pl.concat(taken, dim) if len(taken) > 1 else taken[0]


@operator("aten.stack")
def stack(c: C, tensors: T, dim: int = 0) -> T:
    return pl.stack(c.arguments(*tensors), axis_of(dim, len(c.shape)))


@operator("aten.flip", "prims.rev")
def flip(c: C, x: T, dims: T) -> T:
    return x.flip(*[axis_of(dim, x.ndim) for dim in dims]) if dims and x.ndim else x


@operator("aten.roll")
def roll(c: C, x: T, shifts: T, dims: T = None) -> T:
    shifts = shifts if isinstance(shifts, list) else [shifts]
    dims = dims if isinstance(dims, list) else [] if dims is None else [dims]
    if not dims:
        return x.reshape(-1).roll(shifts[0], 0).reshape(*c.shape) if x.ndim else x
    return x.roll(tuple(shifts), tuple(axis_of(dim, x.ndim) for dim in dims)) if x.ndim else x


@operator("aten.repeat")
def repeat(c: C, x: T, repeats: T) -> T:
    if any(isinstance(times, int) and times == 0 for times in repeats):
        return c.full(c.shape, 0, c.dtype)
    shape = [1] * (len(repeats) - x.ndim) + list(x.shape)
    return x.reshape(*shape).repeat(*repeats) if shape else x


@operator("aten.constant_pad_nd")
def constant_pad(c: C, x: T, pad: T, value: T = 0) -> T:
    list_ = []
    for index in range(len(pad) // 2):
        axis = x.ndim - 1 - index
        before, after = pad[2 * index], pad[2 * index + 1]
        if isinstance(before, int) and isinstance(after, int) and before == 0 and after == 0:
            continue
        list_.append((axis, before, after))
    if not list_:
        return x
    if c.dtype == "bool":
        padded = x.cast("u8").pad(list_, value=float(bool(value)))
        return padded != 0
    return x.pad(list_, value=float(value))


@operator("aten.as_strided", "aten.as_strided_copy")
def as_strided(c: C, x: T, size: T, stride: T, storage_offset: T = None) -> T:
    offset = 0 if storage_offset is None else storage_offset
    flat = x.reshape(-1)
    if not c.shape:
        return flat.narrow(0, offset, 1).reshape(())
    index = c.graph.iota(tuple(c.shape), lambda *axes: place_of(axes, stride, offset))
    return flat.gather(0, index.reshape(-1)).reshape(*c.shape)


def place_of(axes: T, stride: T, offset: T) -> T:
    place = offset
    for axis, step in zip(axes, stride):
        place = axis * step + place
    return place


@operator("aten.diagonal", "aten.diagonal_copy")
def diagonal(c: C, x: T, offset: int = 0, dim1: int = 0, dim2: int = 1) -> T:
    return x.diagonal(offset, axis_of(dim1, x.ndim), axis_of(dim2, x.ndim))


@operator("aten.unfold", "aten.unfold_copy")
def unfold(c: C, x: T, dim: int, size: int, step: int) -> T:
    if x.ndim == 0:
        return x.reshape(1) if size else c.full(c.shape, 0, c.dtype)
    axis = axis_of(dim, x.ndim)
    if size == 0:
        return c.full(c.shape, 0, c.dtype)
    return x.windows(axis, size, step)  # the windows' elements are a last axis


@operator("aten.tril")
def tril(c: C, x: T, diagonal: T = 0) -> T:
    return x.tril(diagonal)


@operator("aten.triu")
def triu(c: C, x: T, diagonal: T = 0) -> T:
    return x.triu(diagonal)


@operator("aten.pixel_shuffle")
def pixel_shuffle(c: C, x: T, factor: int) -> T:
    return pl.pixel_shuffle(x, factor)


def padded(mode: str, rank: int) -> typing.Callable[..., T]:
    def pad(c: C, x: T, padding: T) -> T:
        return x.pad([(x.ndim - 1 - k, padding[2 * k], padding[2 * k + 1]) for k in range(rank)], mode=mode)

    return pad


for _rank in (1, 2, 3):
    operator(f"aten.reflection_pad{_rank}d")(padded("reflect", _rank))
    operator(f"aten.replication_pad{_rank}d")(padded("replicate", _rank))


@operator("aten.select_scatter")
def select_scatter(c: C, x: T, source: T, dim: int, index: T) -> T:
    axis = axis_of(dim, x.ndim)
    shape = list(x.shape)
    shape[axis] = 1
    return slice_scatter(c, x, source.reshape(*shape), dim, index, None, 1, count=1)


@operator("aten.slice_scatter")
def slice_scatter(
    c: C, x: T, source: T, dim: int = 0, start: T = None, end: T = None, step: int = 1, count: T = None
) -> T:
    """Elements of the slice come from `source`, which is spread out and padded; the others from x."""
    axis = axis_of(dim, x.ndim)
    extent = x.shape[axis]
    if count is None:
        count = source.shape[axis]
    first = start_of(c, start, extent, count, step)
    if isinstance(count, int) and count == 0:
        return x
    source = c.tensor(source, c.dtype)
    if (
        isinstance(step, int)
        and step == 1
        and isinstance(extent, int)
        and isinstance(first, int)
        and count == extent
    ):
        return c.broadcast(source, x.shape)
    place = c.graph.arange(extent)
    shape: list[T] = [1] * x.ndim
    shape[axis] = extent
    inside = (place >= c.tensor(first, "i64")) & (place < c.tensor(first + (count - 1) * step + 1, "i64"))
    source = source.expand(*[count if k == axis else size for k, size in enumerate(x.shape)])
    if step != 1:
        inside = inside & ((place - c.tensor(first, "i64")) % step == 0)
        wide = source.unsqueeze(axis + 1).pad([(axis + 1, 0, step - 1)])
        sizes = list(x.shape)
        sizes[axis] = count * step
        source = wide.reshape(*sizes).narrow(axis, 0, (count - 1) * step + 1)
        count = (count - 1) * step + 1
    spread = pad_any(c, source, axis, first, extent - first - count)
    return pl.where(inside.reshape(*shape), spread, x)


def pad_any(c: C, x: T, axis: int, before: T, after: T) -> T:
    if c.dtype == "bool":
        return x.cast("u8").pad([(axis, before, after)]) != 0
    return x.pad([(axis, before, after)])


@operator("aten.movedim.int")
def movedim(c: C, x: T, source: int, destination: int) -> T:
    return x.movedim(axis_of(source, x.ndim), axis_of(destination, x.ndim))


@operator("aten.diagonal_scatter")
def diagonal_scatter(c: C, x: T, source: T, offset: int = 0, dim1: int = 0, dim2: int = 1) -> T:
    a, b = axis_of(dim1, x.ndim), axis_of(dim2, x.ndim)
    count = source.shape[-1]
    if isinstance(count, int) and count == 0:
        return x
    place = c.graph.arange(count)
    rows = place + c.tensor(max(0, -offset), "i64")
    columns = place + c.tensor(max(0, offset), "i64")
    others = [axis for axis in range(x.ndim) if axis not in (a, b)]
    order = [a, b, *others]
    made = pl.index_put(x.permute(*order), [rows, columns], c.tensor(source, c.dtype).movedim(-1, 0))
    return made.permute(*[order.index(axis) for axis in range(x.ndim)])


@operator("aten.as_strided_scatter")
def as_strided_scatter(c: C, x: T, source: T, size: T, stride: T, storage_offset: T = None) -> T:
    offset = 0 if storage_offset is None else storage_offset
    if any(isinstance(extent, int) and extent == 0 for extent in source.shape):
        return x
    if source.ndim == 0:
        index = c.tensor(offset, "i64").reshape(1)
    else:
        index = c.graph.iota(tuple(source.shape), lambda *axes: place_of(axes, stride, offset)).reshape(-1)
    return x.reshape(-1).scatter(0, index, c.tensor(source, c.dtype).reshape(-1)).reshape(*c.shape)
