# python/luminal/torch/operators/normalise.py -- softmax, and the normalisations of layers.
from __future__ import annotations

import typing

import luminal as pl

from ..terms import Lowering, axis_of, operator, word

C = Lowering
T = typing.Any


def wide_of(x: T) -> str:
    return "f32" if word(x) in ("f16", "bf16") else word(x)


@operator("aten._softmax", "aten.softmax.int")
def softmax(c: C, x: T, dim: int, half_to_float: T = False, **_: T) -> T:
    x = c.tensor(x, c.dtype)
    return x.softmax(axis_of(dim, x.ndim)) if x.ndim else c.full((), 1, c.dtype)


@operator("aten._log_softmax", "aten.log_softmax.int")
def log_softmax(c: C, x: T, dim: int, half_to_float: T = False, **_: T) -> T:
    x = c.tensor(x, c.dtype)
    return x.log_softmax(axis_of(dim, x.ndim)) if x.ndim else c.full((), 0, c.dtype)


def statistics(c: C, x: T, axes: list[int], eps: float) -> tuple[T, T]:
    """Mean and 1 / deviation over the axes, which stay as axes of one element."""
    return (
        pl.mean(x, axis=axes, keepdims=True),
        pl.rsqrt(pl.var(x, axis=axes, correction=0, keepdims=True) + c.tensor(float(eps), word(x))),
    )


@operator("aten.native_layer_norm")
def native_layer_norm(c: C, x: T, normalized_shape: T, weight: T, bias: T, eps: float) -> T:
    wide = wide_of(x)
    axes = list(range(x.ndim - len(normalized_shape), x.ndim))
    x = c.tensor(x, wide)
    mean, scale = statistics(c, x, axes, eps)
    made = (x - mean) * scale
    if weight is not None:
        made = made * c.tensor(weight, wide)
    if bias is not None:
        made = made + c.tensor(bias, wide)
    return made, mean, scale


@operator("aten.native_group_norm")
def native_group_norm(
    c: C, x: T, weight: T, bias: T, n: T, channels: T, inner: T, group: int, eps: float
) -> T:
    wide, shape = wide_of(x), x.shape
    parts = c.tensor(x, wide).reshape(n, group, channels // group, inner)
    mean, scale = statistics(c, parts, [2, 3], eps)
    made = ((parts - mean) * scale).reshape(*shape)
    per_channel = (1, channels, *[1] * (len(shape) - 2))
    if weight is not None:
        made = made * c.tensor(weight, wide).reshape(*per_channel)
    if bias is not None:
        made = made + c.tensor(bias, wide).reshape(*per_channel)
    return made, mean.reshape(n, group), scale.reshape(n, group)


def batch_norm(c: C, x: T, weight: T, bias: T, mean: T, scale: T) -> T:
    wide = word(mean)
    shape = (1, x.shape[1], *[1] * (x.ndim - 2))
    made = (c.tensor(x, wide) - mean.reshape(*shape)) * scale.reshape(*shape)
    if weight is not None:
        made = made * c.tensor(weight, wide).reshape(*shape)
    return made if bias is None else made + c.tensor(bias, wide).reshape(*shape)


@operator("aten._native_batch_norm_legit_no_training")
def batch_norm_inference(
    c: C, x: T, weight: T, bias: T, running_mean: T, running_var: T, momentum: float, eps: float
) -> T:
    wide = wide_of(running_mean)
    mean = c.tensor(running_mean, wide)
    scale = pl.rsqrt(c.tensor(running_var, wide) + c.tensor(float(eps), wide))
    nothing = c.full((0,), 0, wide)
    return batch_norm(c, x, weight, bias, mean, scale), nothing, nothing


def batch_statistics(c: C, x: T, eps: float) -> tuple[T, T, T]:
    wide = wide_of(x)
    axes = [0, *range(2, x.ndim)]
    x = c.tensor(x, wide)
    mean, var = pl.mean(x, axis=axes), pl.var(x, axis=axes, correction=0)
    return mean, var, pl.rsqrt(var + c.tensor(float(eps), wide))


@operator("aten._native_batch_norm_legit.no_stats")
def batch_norm_no_stats(c: C, x: T, weight: T, bias: T, training: bool, momentum: float, eps: float) -> T:
    mean, _, scale = batch_statistics(c, x, eps)
    return batch_norm(c, x, weight, bias, mean, scale), mean, scale


@operator("aten._native_batch_norm_legit_functional")
def batch_norm_functional(
    c: C,
    x: T,
    weight: T,
    bias: T,
    running_mean: T,
    running_var: T,
    training: bool,
    momentum: float,
    eps: float,
) -> T:
    wide = wide_of(x)
    if not training:
        made, _, _ = batch_norm_inference(c, x, weight, bias, running_mean, running_var, momentum, eps)
        nothing = c.full((0,), 0, wide)
        return made, nothing, nothing, running_mean, running_var
    mean, var, scale = batch_statistics(c, x, eps)
    count: T = 1
    for axis, size in enumerate(x.shape):
        count = count if axis == 1 else size * count
    total = c.tensor(count, wide)
    part, keep = c.tensor(float(momentum), wide), c.tensor(1 - float(momentum), wide)
    unbiased = var * total / (total - 1)
    return (
        batch_norm(c, x, weight, bias, mean, scale),
        mean,
        scale,
        c.tensor(running_mean, wide) * keep + mean * part,
        c.tensor(running_var, wide) * keep + unbiased * part,
    )
