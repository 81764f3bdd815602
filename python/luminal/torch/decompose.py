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


# ---- bags of embeddings; indices that are padding count for nothing ----
def bags_of(indices: T, offsets: T) -> T:
    place = torch.arange(indices.shape[0], dtype=offsets.dtype, device=offsets.device)
    return (torch.searchsorted(offsets, place, right=True) - 1).to(indices.dtype)


def embedding_bag(
    weight: T,
    indices: T,
    offsets: T,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: T = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> T:
    """-> sums, means or maxima of the rows; the bag of each index, or -1; how many count; where maxima
    are. PyTorch's own backward pass divides by the counts of other indices."""
    if sparse or scale_grad_by_freq:
        return NotImplemented
    counts = indices != padding_idx
    if include_last_offset:  # what lies behind it is in no bag
        counts = counts & (torch.arange(indices.shape[0], device=indices.device) < offsets[-1])
        offsets = offsets[:-1]
    bag, columns = bags_of(indices, offsets), weight.shape[1]
    sizes = indices.new_zeros(offsets.shape[0]).index_add(0, bag, counts.to(indices.dtype))
    bags = torch.where(counts, bag, -1)
    wide = torch.float64 if weight.dtype == torch.float64 else torch.float32
    rows = weight.index_select(0, indices).to(wide)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(1)
    if mode != 2:
        rows = torch.where(counts.unsqueeze(1), rows, 0)
        made = rows.new_zeros(offsets.shape[0], columns).index_add(0, bag, rows)
        if mode == 1:
            made = made / sizes.clamp(min=1).unsqueeze(1)
        return made.to(weight.dtype), bags, sizes, sizes
    rows = torch.where(counts.unsqueeze(1), rows, -float("inf"))
    to = bag.unsqueeze(1).expand(-1, columns)
    made = rows.new_full((offsets.shape[0], columns), -float("inf")).scatter_reduce(0, to, rows, "amax")
    place = torch.arange(indices.shape[0], device=indices.device).unsqueeze(1)
    greatest = counts.unsqueeze(1) & (rows == made.index_select(0, bag))
    none = indices.shape[0]
    first = place.new_full((offsets.shape[0], columns), none).scatter_reduce(
        0, to, torch.where(greatest, place, none), "amin"
    )
    some = (sizes > 0).unsqueeze(1)
    at = torch.where(some, indices.take(first.clamp(max=max(none - 1, 0))), 0) if none else first * 0
    return torch.where(some, made, 0).to(weight.dtype), bags, sizes, at


def embedding_bag_backward(
    grad: T,
    indices: T,
    offsets: T,
    bag: T,
    sizes: T,
    places: T,
    rows: T,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: T,
    padding_idx: int = -1,
) -> T:
    if sparse or scale_grad_by_freq:
        return NotImplemented
    counts, bag = (bag >= 0).unsqueeze(1), bag.clamp(min=0)
    dtype = grad.dtype
    grad = grad.to(torch.float64 if dtype == torch.float64 else torch.float32)
    made = grad.new_zeros(rows, grad.shape[1])
    if mode == 2:
        return made.scatter_add(0, places, torch.where((sizes > 0).unsqueeze(1), grad, 0)).to(dtype)
    parts = grad.index_select(0, bag)
    if mode == 1:
        parts = parts / sizes.index_select(0, bag).clamp(min=1).unsqueeze(1)
    if per_sample_weights is not None:
        parts = parts * per_sample_weights.unsqueeze(1)
    return made.index_add(0, indices, torch.where(counts, parts, 0)).to(dtype)


def embedding_bag_weights_backward(
    grad: T, weight: T, indices: T, offsets: T, bag: T, mode: int, padding_idx: int = -1
) -> T:
    products = (grad.index_select(0, bag.clamp(min=0)) * weight.index_select(0, indices)).sum(1)
    return torch.where(bag >= 0, products, 0)


# ---- others ----
def weight_norm_backward(grad: T, v: T, g: T, norms: T, dim: int) -> T:
    """w = v g / |v|, norms over all axes but the first or the last one."""
    axes = list(range(1, v.ndim)) if dim == 0 else list(range(v.ndim - 1))
    wide, upstream, norms = v.to(norms.dtype), grad.to(norms.dtype), norms.reshape(g.shape)
    along = (wide * upstream).sum(axes, keepdim=True)
    by_v = (g / norms) * (upstream - wide * (along / (norms * norms)))
    return by_v.to(v.dtype), (along / norms).to(g.dtype)


def index_reduce(x: T, dim: int, index: T, source: T, reduce: str, *, include_self: bool = True) -> T:
    if x.ndim == 0 or not x.dtype.is_floating_point:
        return NotImplemented
    shape = [1] * x.ndim
    shape[dim] = index.numel()
    to = index.reshape(shape).expand(source.shape)
    return torch.scatter_reduce(x, dim, to, source, reduce, include_self=include_self)


def narrow_copy(x: T, dim: int, start: T, length: T) -> T:
    return x.narrow(dim, start, length).clone()


def trilinear(
    a: T,
    b: T,
    c: T,
    expand_a: list[int],
    expand_b: list[int],
    expand_c: list[int],
    sums: list[int],
    unroll_dim: int = 1,
) -> T:
    """Products of three tensors with axes of one element where these say, summed over some axes."""
    factors = []
    for tensor, axes in ((a, expand_a), (b, expand_b), (c, expand_c)):
        for axis in sorted(axes):
            tensor = tensor.unsqueeze(axis)
        factors.append(tensor)
    made = factors[0] * factors[1] * factors[2]
    return made.sum(sums) if sums else made


def affine_grid(theta: T, size: list[int], align_corners: bool) -> T:
    """Places of a grid over an image, moved by theta: products with the three or four columns of it, each
    along its own axis. (PyTorch's stores every place with a one behind it, for a product of matrices.)"""
    images, _, *extents = size

    def places(steps: int, axis: int) -> T:
        end = 0.0 if steps <= 1 else 1.0 if align_corners else (steps - 1) / steps
        line = torch.linspace(-end, end, steps, dtype=theta.dtype, device=theta.device)
        return line.reshape([steps if a == axis else 1 for a in range(len(extents))])

    lines = [places(steps, axis) for axis, steps in enumerate(extents)][::-1]  # x is the last axis
    factors = theta.reshape([*theta.shape, *([1] * len(extents))])
    made = []
    for row in range(theta.shape[1]):
        place = factors[:, row, -1]
        for column in reversed(range(len(lines))):
            place = lines[column] * factors[:, row, column] + place
        made.append(place.expand(images, *extents))
    return torch.stack(made, -1)


def other_decompositions() -> dict[T, T]:
    aten = torch.ops.aten
    return {
        aten._embedding_bag.default: embedding_bag,
        aten._embedding_bag_forward_only.default: embedding_bag,
        aten._embedding_bag_backward.default: embedding_bag_backward,
        aten._embedding_bag_per_sample_weights_backward.default: embedding_bag_weights_backward,
        aten._trilinear.default: trilinear,
        aten._weight_norm_interface_backward.default: weight_norm_backward,
        aten.affine_grid_generator.default: affine_grid,
        aten.index_reduce.default: index_reduce,
        aten.narrow_copy.default: narrow_copy,
    }


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
