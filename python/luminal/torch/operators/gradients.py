# python/luminal/torch/operators/gradients.py -- gradients that are operators of their own: those of our
# terms for the forward.
from __future__ import annotations

import math
import typing

import luminal as pl

from ..terms import Lowering, operator
from .windows import MODES, average, each, list_of_scales, resample

C = Lowering
T = typing.Any


def through(x: T, function: typing.Callable[[T], T], gradient: T) -> T:
    """The gradient of function(x) with respect to x."""
    start = pl.stop_gradient(x)
    return pl.gradients([function(start)], [start], upstream=[gradient])[0]


@operator("aten.max_pool2d_with_indices_backward", "aten.max_pool3d_with_indices_backward")
def max_pool_backward(
    c: C, gradient: T, x: T, kernel: T, stride: T, padding: T, dilation: T, ceil_mode: bool, indices: T
) -> T:
    rank = len(kernel) if isinstance(kernel, (list, tuple)) else 2
    outer, inner = list(x.shape[:-rank]), list(x.shape[-rank:])
    size: T = 1
    for extent in inner:
        size = extent * size
    count: T = 1
    for extent in gradient.shape[-rank:]:
        count = extent * count
    zeros = c.full([*outer, size], 0, c.dtype)
    made = zeros.scatter(
        len(outer), indices.reshape(*outer, count), gradient.reshape(*outer, count), how="add"
    )
    return made.reshape(*x.shape)


def avg_pool_backward(rank: int) -> typing.Callable[..., T]:
    def made(
        c: C,
        gradient: T,
        x: T,
        kernel: T,
        stride: T,
        padding: T,
        ceil_mode: bool,
        count_include_pad: bool,
        divisor: T,
    ) -> T:
        kernel = each(kernel, rank)
        return through(
            x,
            lambda v: average(
                v,
                kernel,
                each(stride, rank) if stride else kernel,
                each(padding, rank),
                ceil_mode,
                count_include_pad,
                divisor,
            ),
            gradient,
        )

    return made


for _rank in (2, 3):
    operator(f"aten.avg_pool{_rank}d_backward")(avg_pool_backward(_rank))


@operator("aten._adaptive_avg_pool2d_backward", "aten._adaptive_avg_pool3d_backward")
def adaptive_avg_pool_backward(c: C, gradient: T, x: T) -> T:
    """Means over boxes are means along one axis after the other. So are their gradients, of which each has
    few terms."""
    rank = 2 if "2d" in c.op else 3
    shape = list(gradient.shape)

    def means(sizes: list[typing.Any]) -> typing.Callable[[T], T]:
        return lambda v: pl.adaptive_avg_pool(v, sizes)

    for axis in range(x.ndim - rank, x.ndim):
        shape[axis] = x.shape[axis]
        start, sizes = c.full(shape, 0, c.dtype), list(gradient.shape[-rank:])
        gradient = through(start, means(sizes), gradient)
    return gradient


def upsample_backward(mode: str, rank: int) -> typing.Callable[..., T]:
    def made(c: C, gradient: T, size: T, input_size: T, *more: T, **_: T) -> T:
        align = bool(more[0]) if mode in ("linear", "cubic") else False
        scales = list_of_scales(more[1:] if mode in ("linear", "cubic") else more, rank)
        start = c.full(list(input_size), 0, c.dtype)
        return through(start, lambda v: resample(v, list(size), mode, align, scales), gradient)

    return made


for _name, (_mode, _rank) in MODES.items():
    operator(f"aten.{_name}_backward")(upsample_backward(_mode, _rank))


@operator("aten.grid_sampler_2d_backward")
def grid_sampler_backward(
    c: C, gradient: T, x: T, grid: T, mode: int, padding: int, align_corners: bool, output_mask: T
) -> T:
    from .windows import grid_sampler

    inputs = [pl.stop_gradient(x), pl.stop_gradient(grid)]
    found = pl.gradients(
        [grid_sampler(c, *inputs, mode, padding, align_corners)], inputs, upstream=[gradient]
    )
    return tuple(found)


@operator("aten.embedding_dense_backward")
def embedding_backward(
    c: C, gradient: T, indices: T, num_weights: T, padding_idx: int, scale_by_freq: bool
) -> T:
    wide = "f32" if c.dtype in ("f16", "bf16") else c.dtype
    width = gradient.shape[-1]
    ids = indices.reshape(-1)
    rows = c.tensor(gradient, wide).reshape(*ids.shape, width)
    if scale_by_freq:
        counts = c.full((num_weights,), 0, wide).index_add(0, ids, c.full(ids.shape, 1, wide))
        rows = rows / counts.gather(0, ids).unsqueeze(-1)
    if padding_idx >= 0:
        rows = pl.where((ids == padding_idx).unsqueeze(-1), c.tensor(0.0, wide), rows)
    return c.full((num_weights, width), 0, wide).index_add(0, ids, rows)


@operator("aten.adaptive_max_pool2d_backward", "aten.adaptive_max_pool3d_backward")
def adaptive_max_pool_backward(c: C, gradient: T, x: T, indices: T) -> T:
    return max_pool_backward(
        c, gradient, x, [0, 0] if "2d" in c.op else [0, 0, 0], None, None, None, False, indices
    )


@operator("aten._cdist_backward")
def cdist_backward(c: C, gradient: T, a: T, b: T, p: float, distances: T) -> T:
    """sum over j of gradient[i, j] d |a[i] - b[j]|_p / d a[i]; 0 where the distance is 0."""
    difference = a.unsqueeze(-2) - b.unsqueeze(-3)
    zero = c.tensor(0.0, c.dtype)
    one = c.tensor(1.0, c.dtype)
    sign = pl.where(difference > 0, one, pl.where(difference < 0, -one, zero))
    far = distances.unsqueeze(-1)
    if p == 0:
        return c.full(c.shape, 0, c.dtype)
    if p == 1:
        part = sign
    elif p == math.inf:
        part = pl.where(abs(difference) == far, sign, zero)
    elif p == 2:
        part = difference / pl.where(far == 0, one, far)
    else:
        scaled = abs(difference) / pl.where(far == 0, one, far)
        part = sign * pl.where(scaled == 0, zero, pl.pow(pl.where(scaled == 0, one, scaled), p - 1))
    part = pl.where(far == 0, zero, part)
    return c.broadcast(pl.sum(gradient.unsqueeze(-1) * part, axis=-2), c.shape)


def pad_backward(mode: T, rank: int) -> typing.Callable[..., T]:
    def made(c: C, gradient: T, x: T, padding: T) -> T:
        sides = [(x.ndim - 1 - k, padding[2 * k], padding[2 * k + 1]) for k in range(rank)]
        return through(x, lambda v: v.pad(sides, mode=mode), gradient)

    return made


for _rank in (1, 2, 3):
    operator(f"aten.reflection_pad{_rank}d_backward")(pad_backward("reflect", _rank))
    operator(f"aten.replication_pad{_rank}d_backward")(pad_backward("replicate", _rank))
