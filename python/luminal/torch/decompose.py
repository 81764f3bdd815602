# python/luminal/torch/decompose.py -- what PyTorch has no decomposition for, or a wrong one.
from __future__ import annotations

import typing

import torch  # type: ignore[import-not-found, unused-ignore]

T = typing.Any


# ---- operators of lists of tensors: those of optimizers with foreach=True, and of clip_grad_norm_ ----
def addcmul(x: T, a: T, b: T, value: T = 1) -> T:
    return torch.addcmul(x, a, b, value=value)


def addcdiv(x: T, a: T, b: T, value: T = 1) -> T:
    return torch.addcdiv(x, a, b, value=value)


def norm(x: T, order: T = 2, dtype: T = None) -> T:
    return torch.linalg.vector_norm(x, order, dtype=dtype)


def largest(x: T, other: T) -> T:
    return torch.maximum(x, other) if isinstance(other, torch.Tensor) else x.clamp(min=other)


def smallest(x: T, other: T) -> T:
    return torch.minimum(x, other) if isinstance(other, torch.Tensor) else x.clamp(max=other)


EACH: dict[str, T] = {
    **{
        name: getattr(torch, name)
        for name in (
            "abs acos add asin atan ceil cos cosh div erf erfc exp expm1 floor frac lerp lgamma log log10 "
            "log1p log2 mul neg pow reciprocal round rsqrt sigmoid sign sin sinh sqrt sub tan tanh trunc"
        ).split()
    },
    "addcmul": addcmul,
    "addcdiv": addcdiv,
    "clamp_max": smallest,
    "clamp_min": largest,
    "copy": torch.ops.aten.copy,
    "maximum": largest,
    "minimum": smallest,
    "norm": norm,
    "zero": torch.zeros_like,
}
OTHERWISE = ("addcmul.Tensor", "addcdiv.Tensor", "pow.ScalarAndTensor")  # below, or they stay in PyTorch


def mapped(function: T) -> T:
    """The operator of lists: lists among the arguments give an item for each tensor, others are the same
    for all."""

    def each(tensors: list[T], *arguments: T, **words: T) -> list[T]:
        lists = [a if isinstance(a, (list, tuple)) else [a] * len(tensors) for a in arguments]
        return [function(*items, **words) for items in zip(tensors, *lists, strict=True)]

    return each


def powers(base: T, exponents: list[T]) -> list[T]:
    return [torch.pow(base, exponent) for exponent in exponents]


def foreach_decompositions() -> dict[T, T]:
    table = {torch.ops.aten._foreach_pow.ScalarAndTensor: powers}
    for name, function in EACH.items():
        packet = getattr(torch.ops.aten, "_foreach_" + name, None)
        for overload in packet.overloads() if packet is not None else ():
            if not overload.endswith("out") and f"{name}.{overload}" not in OTHERWISE:
                table[getattr(packet, overload)] = mapped(function)
    return table


# ---- a loss: PyTorch's decomposition counts labels behind the first -1 of a row as label 0 ----
def multilabel_margin_loss(
    x: T, target: T, size_average: T = None, reduce: T = None, reduction: str = "mean"
) -> T:
    if size_average is not None or reduce is not None:
        reduction = torch.nn._reduction.legacy_get_string(size_average, reduce, emit_warning=False)
    rows, labels = torch.atleast_2d(x), torch.atleast_2d(target)
    count = rows.shape[1]
    place = torch.arange(count, device=x.device)
    end = torch.where(labels == -1, place, count).amin(1, keepdim=True)
    counts = (place < end).unsqueeze(2)
    at_label = rows.gather(1, torch.where(counts.squeeze(2), labels, 0)).unsqueeze(2)
    is_target = ((labels.unsqueeze(2) == place) & counts).any(1, keepdim=True)
    margin = torch.relu(1 - at_label + rows.unsqueeze(1)) / count
    loss = torch.where(counts & ~is_target, margin, 0).sum((1, 2))
    if reduction == "none":
        return loss.reshape(x.shape[:-1])
    return loss.mean() if reduction == "mean" else loss.sum()


def mend(module: T) -> None:
    """Calls in Dynamo's graph whose decompositions, applied before any table is asked, are wrong."""
    for node in module.graph.nodes:
        if node.target is torch.nn.functional.multilabel_margin_loss:
            node.target = multilabel_margin_loss
            module.recompile()
