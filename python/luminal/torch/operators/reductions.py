# python/luminal/torch/operators/reductions.py -- sums and their kin, scans, order.
from __future__ import annotations

import math
import typing

import luminal as pl

from ..terms import FLOATS, Lowering, Unsupported, axes_of, axis_of, operator, word

C = Lowering
T = typing.Any


def over(c: C, x: T, dims: T, keepdim: bool, function: typing.Callable[..., T]) -> T:
    """The function over these axes; a tensor without axes is its own result."""
    axes = axes_of(dims, x.ndim)
    return function(x, axis=axes, keepdims=keepdim) if axes else x


@operator("aten.sum", "aten.sum.dim_IntList")
def sum_(c: C, x: T, dim: T = None, keepdim: bool = False, dtype: T = None) -> T:
    return over(c, c.tensor(x, c.dtype), dim, keepdim, pl.sum)


@operator("aten.mean", "aten.mean.dim")
def mean(c: C, x: T, dim: T = None, keepdim: bool = False, dtype: T = None) -> T:
    return over(c, c.tensor(x, c.dtype), dim, keepdim, pl.mean)


@operator("aten.prod", "aten.prod.dim_int")
def prod(c: C, x: T, dim: T = None, keepdim: bool = False, dtype: T = None) -> T:
    return over(c, c.tensor(x, c.dtype), dim, keepdim, pl.prod)


@operator("aten.amax")
def amax(c: C, x: T, dim: T = None, keepdim: bool = False) -> T:
    return over(c, x, dim, keepdim, pl.max)


@operator("aten.amin")
def amin(c: C, x: T, dim: T = None, keepdim: bool = False) -> T:
    return over(c, x, dim, keepdim, pl.min)


@operator("aten.max")
def max_(c: C, x: T) -> T:
    return over(c, x, None, False, pl.max)


@operator("aten.min")
def min_(c: C, x: T) -> T:
    return over(c, x, None, False, pl.min)


@operator("aten.any", "aten.any.dim", "aten.any.dims")
def any_(c: C, x: T, dim: T = None, keepdim: bool = False) -> T:
    return over(c, c.tensor(x, "bool"), dim, keepdim, pl.any)


@operator("aten.all", "aten.all.dim", "aten.all.dims")
def all_(c: C, x: T, dim: T = None, keepdim: bool = False) -> T:
    return over(c, c.tensor(x, "bool"), dim, keepdim, pl.all)


def place(c: C, x: T, dim: T, keepdim: bool, function: typing.Callable[..., T]) -> T:
    x = c.tensor(x, "i32") if word(x) == "bool" else x
    if x.ndim == 0:
        return c.full((), 0, "i64")
    if dim is None:
        flat = function(x.reshape(-1), axis=0)
        return flat.reshape(*[1] * x.ndim) if keepdim else flat
    return function(x, axis=axis_of(dim, x.ndim), keepdims=keepdim)


@operator("aten.argmax")
def argmax(c: C, x: T, dim: T = None, keepdim: bool = False) -> T:
    return place(c, x, dim, keepdim, pl.argmax)


@operator("aten.argmin")
def argmin(c: C, x: T, dim: T = None, keepdim: bool = False) -> T:
    return place(c, x, dim, keepdim, pl.argmin)


@operator("aten.max.dim")
def max_dim(c: C, x: T, dim: int, keepdim: bool = False) -> T:
    return over(c, x, dim, keepdim, pl.max), place(c, x, dim, keepdim, pl.argmax)


@operator("aten.min.dim")
def min_dim(c: C, x: T, dim: int, keepdim: bool = False) -> T:
    return over(c, x, dim, keepdim, pl.min), place(c, x, dim, keepdim, pl.argmin)


@operator("aten.aminmax")
def aminmax(c: C, x: T, *, dim: T = None, keepdim: bool = False) -> T:
    return over(c, x, dim, keepdim, pl.min), over(c, x, dim, keepdim, pl.max)


def moments(c: C, x: T, dim: T, correction: T, keepdim: bool) -> T:
    wide = "f32" if c.dtype in ("f16", "bf16") else c.dtype
    x, axes = c.tensor(x, wide), axes_of(dim, x.ndim)
    correction = 1.0 if correction is None else float(correction)
    if not axes:
        x, axes = x.reshape(1), [0]
        return pl.var(x, axis=axes, correction=correction), x.reshape(())
    return pl.var(x, axis=axes, correction=correction, keepdims=keepdim), pl.mean(
        x, axis=axes, keepdims=keepdim
    )


@operator("aten.var.correction")
def var(c: C, x: T, dim: T = None, *, correction: T = None, keepdim: bool = False) -> T:
    return moments(c, x, dim, correction, keepdim)[0]


@operator("aten.var_mean.correction")
def var_mean(c: C, x: T, dim: T = None, *, correction: T = None, keepdim: bool = False) -> T:
    return moments(c, x, dim, correction, keepdim)


def scan(c: C, x: T, dim: int, function: typing.Callable[..., T]) -> T:
    """PyTorch carries the partial results of f32 in f64 on the processor, and rounds each once."""
    x = c.tensor(x, c.dtype)
    wide = "f64" if c.dtype == "f32" else c.dtype
    return c.tensor(function(c.tensor(x, wide), axis_of(dim, x.ndim)), c.dtype) if x.ndim else x


@operator("aten.cumsum")
def cumsum(c: C, x: T, dim: int, *, dtype: T = None) -> T:
    return scan(c, x, dim, pl.cumsum)


@operator("aten.cumprod")
def cumprod(c: C, x: T, dim: int, *, dtype: T = None) -> T:
    return scan(c, x, dim, pl.cumprod)


@operator("aten.logcumsumexp")
def logcumsumexp(c: C, x: T, dim: int) -> T:
    return scan(c, x, dim, pl.logcumsumexp)


def scan_with_places(c: C, x: T, dim: int, function: typing.Callable[..., T]) -> T:
    if x.ndim == 0:
        return x, c.full((), 0, "i64")
    found = function(c.tensor(x, "u8") if word(x) == "bool" else x, axis_of(dim, x.ndim))
    return found.values, found.indices


@operator("aten.cummax")
def cummax(c: C, x: T, dim: int) -> T:
    return scan_with_places(c, x, dim, pl.cummax)


@operator("aten.cummin")
def cummin(c: C, x: T, dim: int) -> T:
    return scan_with_places(c, x, dim, pl.cummin)


# ---- order ----
def sorted_(c: C, x: T, dim: int, descending: bool) -> T:
    if x.ndim == 0:
        return x, c.full((), 0, "i64")
    found = pl.sort(
        c.tensor(x, "u8") if word(x) == "bool" else x, axis_of(dim, x.ndim), descending=descending
    )
    return found.values, found.indices


@operator("aten.sort")
def sort(c: C, x: T, dim: int = -1, descending: bool = False) -> T:
    return sorted_(c, x, dim, descending)


@operator("aten.sort.stable")
def sort_stable(c: C, x: T, *, stable: T = None, dim: int = -1, descending: bool = False) -> T:
    return sorted_(c, x, dim, descending)


@operator("aten.topk")
def topk(c: C, x: T, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> T:  # noqa: A002
    if x.ndim == 0:
        return x, c.full((), 0, "i64")
    found = pl.topk(x, k, axis_of(dim, x.ndim), largest=largest)
    return found.values, found.indices


@operator("aten.kthvalue")
def kthvalue(c: C, x: T, k: int, dim: int = -1, keepdim: bool = False) -> T:
    if x.ndim == 0:
        return x, c.full((), 0, "i64")
    found = pl.kthvalue(x, k, axis_of(dim, x.ndim), keepdims=keepdim)
    return found.values, found.indices


@operator("aten.median.dim")
def median_dim(c: C, x: T, dim: int, keepdim: bool = False) -> T:
    if x.ndim == 0:
        return x, c.full((), 0, "i64")
    found = pl.median(x, axis_of(dim, x.ndim), keepdims=keepdim)
    return found.values, found.indices


@operator("aten.median")
def median(c: C, x: T) -> T:
    return pl.median(x.reshape(-1), 0).values


@operator("aten.searchsorted.Tensor")
def searchsorted(
    c: C,
    boundaries: T,
    x: T,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: T = None,
    sorter: T = None,
) -> T:
    right = right or side == "right"
    if sorter is not None:
        boundaries = boundaries.gather(-1, sorter)
    boundaries, values = c.common(boundaries, x)
    return pl.searchsorted(boundaries, values, right=right, nan_first=True)


@operator("aten.searchsorted.Scalar")
def searchsorted_number(c: C, boundaries: T, x: T, **words: T) -> T:
    return searchsorted(c, boundaries, c.tensor(x, word(boundaries)).reshape(1), **words).reshape(())


@operator("aten.bucketize.Tensor")
def bucketize(c: C, x: T, boundaries: T, *, out_int32: bool = False, right: bool = False) -> T:
    x, boundaries = c.common(x, boundaries)
    return pl.bucketize(x, boundaries, right=right, nan_first=True)


@operator("aten.histc")
def histc(c: C, x: T, bins: int = 100, min: T = 0, max: T = 0) -> T:  # noqa: A002
    if not min < max:
        raise Unsupported("its range is that of the values")
    return pl.histc(x, bins, float(min), float(max))


def nanmedian_along(c: C, x: T, axis: int, keepdim: bool) -> T:
    """NaN is greatest, so the middle of the others is at a place that their count says."""
    found = pl.sort(x, axis)
    count = pl.sum(pl.logical_not(pl.isnan(x)).cast("i64"), axis=axis, keepdims=True)
    middle = pl.maximum((count - 1) // 2, c.tensor(0, "i64"))
    made = found.values.gather(axis, middle), found.indices.gather(axis, middle)
    return made if keepdim else tuple(part.squeeze(axis) for part in made)


@operator("aten.nanmedian.dim")
def nanmedian_dim(c: C, x: T, dim: int = -1, keepdim: bool = False) -> T:
    if word(x) not in FLOATS or x.ndim == 0:
        return median_dim(c, x, dim, keepdim)
    return nanmedian_along(c, x, axis_of(dim, x.ndim), keepdim)


@operator("aten.nanmedian")
def nanmedian(c: C, x: T) -> T:
    return median(c, x) if word(x) not in FLOATS else nanmedian_along(c, x.reshape(-1), 0, False)[0]


@operator("aten.linalg_vector_norm")
def vector_norm(
    c: C, x: T, ord: T = 2, dim: T = None, keepdim: bool = False, *, dtype: T = None
) -> T:  # noqa: A002
    wide = "f32" if c.dtype in ("f16", "bf16") else c.dtype
    x, axes = c.tensor(x, wide), axes_of(dim, x.ndim)
    if not axes:
        return (x != 0).cast(wide) if ord == 0 else abs(x)
    p = float(ord)
    if p == 0:
        return pl.sum((x != 0).cast(wide), axis=axes, keepdims=keepdim)
    if abs(p) == math.inf:
        return (pl.max if p > 0 else pl.min)(abs(x), axis=axes, keepdims=keepdim)
    if p == 2:
        return pl.sqrt(pl.sum(x * x, axis=axes, keepdims=keepdim))
    if p == 1:
        return pl.sum(abs(x), axis=axes, keepdims=keepdim)
    return pl.pow(pl.sum(pl.pow(abs(x), p), axis=axes, keepdims=keepdim), 1 / p)
