# python/luminal/torch/operators/products.py -- products of matrices, convolutions, attention.
from __future__ import annotations

import math
import typing

import luminal as pl

from ..terms import FLOATS, Lowering, Unsupported, operator, word

C = Lowering
T = typing.Any


@operator("aten.mm", "aten.bmm", "aten.mv", "aten.matmul")
def mm(c: C, a: T, b: T) -> T:
    return pl.matmul(a, b)


@operator("aten.dot", "aten.vdot")
def dot(c: C, a: T, b: T) -> T:
    return pl.dot(a, b)


def with_factors(c: C, x: T, product: T, beta: T, alpha: T) -> T:
    """beta * x + alpha * product, computed in f32 where elements are narrower; x is not read where beta
    is 0."""
    wide = "f32" if c.dtype in ("f16", "bf16") else c.dtype
    product = c.tensor(product, wide)
    if alpha != 1:
        product = product * c.tensor(alpha, wide)
    if beta == 0:
        return product
    x = c.tensor(x, wide)
    return product + (x if beta == 1 else x * c.tensor(beta, wide))


@operator("aten.addmm", "aten.baddbmm", "aten.addmv")
def addmm(c: C, x: T, a: T, b: T, *, beta: T = 1, alpha: T = 1) -> T:
    return c.broadcast(with_factors(c, x, pl.matmul(a, b), beta, alpha), c.shape)


@operator("aten.addbmm")
def addbmm(c: C, x: T, a: T, b: T, *, beta: T = 1, alpha: T = 1) -> T:
    return c.broadcast(with_factors(c, x, pl.sum(pl.matmul(a, b), axis=0), beta, alpha), c.shape)


@operator("aten._addmm_activation")
def addmm_activation(c: C, x: T, a: T, b: T, *, beta: T = 1, alpha: T = 1, use_gelu: bool = False) -> T:
    made = c.tensor(addmm(c, x, a, b, beta=beta, alpha=alpha), c.dtype)
    return pl.gelu(made) if use_gelu else pl.relu(made)  # on processors exact, where GPUs have tanh


@operator("aten.linear")
def linear(c: C, x: T, weight: T, bias: T = None) -> T:
    return pl.linear(x, weight) if bias is None else pl.linear(x, weight, bias)


# ---- rows in groups, a matrix for each: the experts of transformers ----
def groups_of(c: C, rows: T, ends: T) -> T:
    """For each row the group whose rows end behind it; the number of groups behind the last one."""
    behind = c.graph.arange(rows).reshape(rows, 1) >= c.tensor(ends, "i64").reshape(1, -1)
    return pl.sum(c.tensor(behind, "i64"), axis=1)


def times_own_matrix(c: C, rows: T, matrices: T, ends: T) -> T:
    """[rows, in] and [groups, in, out] -> [rows, out]; behind the last group 0."""
    count = matrices.shape[0]
    group = groups_of(c, rows.shape[0], ends)
    own = matrices.index_select(0, pl.minimum(group, c.tensor(count - 1, "i64")))
    made = pl.matmul(rows.unsqueeze(1), own).squeeze(1)
    return pl.where((group < count).unsqueeze(1), made, c.tensor(0.0, word(made)))


@operator("transformers.grouped_mm_fallback")
def grouped_mm(c: C, rows: T, matrices: T, ends: T) -> T:
    return times_own_matrix(c, rows, matrices, ends)


@operator("aten._grouped_mm")
def grouped_mm_of_rows(c: C, a: T, b: T, offs: T = None, bias: T = None, out_dtype: T = None) -> T:
    if a.ndim != 2 or b.ndim != 3 or offs is None or bias is not None:
        raise Unsupported("groups of another axis than rows")
    return times_own_matrix(c, a, b, offs)


@operator("transformers.grouped_mm_fallback_backward")
def grouped_mm_backward(c: C, rows: T, matrices: T, ends: T, gradient: T) -> T:
    count = matrices.shape[0]
    group = groups_of(c, rows.shape[0], ends)
    belongs = group.unsqueeze(0) == c.graph.arange(count).unsqueeze(1)  # [groups, rows]
    own = pl.where(belongs.unsqueeze(2), rows.unsqueeze(0), c.tensor(0.0, word(rows)))
    of_matrices = pl.matmul(own.transpose(1, 2), gradient.unsqueeze(0))
    return times_own_matrix(c, gradient, matrices.transpose(1, 2), ends), of_matrices


# ---- convolution ----
def convolve(
    x: T,
    weight: T,
    stride: T,
    padding: T,
    dilation: T,
    transposed: bool,
    output_padding: T,
    groups: int,
    bias: T = None,
) -> T:
    if transposed:
        return pl.conv_transpose(
            x,
            weight,
            bias,
            stride=stride,
            padding=padding,
            output_padding=output_padding,
            dilation=dilation,
            groups=groups,
        )
    return pl.conv(x, weight, bias, stride=stride, padding=padding, dilation=dilation, groups=groups)


def ones_for(values: T, rank: int) -> list[int]:
    """One number for all axes, or one an axis."""
    list_: list[int] = list(values)
    return list_ * rank if len(list_) == 1 else list_


@operator("aten.convolution", "aten._convolution")
def convolution(
    c: C,
    x: T,
    weight: T,
    bias: T,
    stride: T,
    padding: T,
    dilation: T,
    transposed: bool,
    output_padding: T,
    groups: int,
    *_: T,
) -> T:
    rank = weight.ndim - 2
    if word(x) not in FLOATS:
        raise Unsupported("convolution of integers")
    stride, padding, dilation, output_padding = (
        ones_for(v, rank) for v in (stride, padding, dilation, output_padding)
    )
    if (
        isinstance(x.shape[0], int)
        and x.shape[0] == 0
        or any(isinstance(size, int) and size == 0 for size in c.shape)
    ):
        return c.full(c.shape, 0, c.dtype)
    return convolve(x, weight, stride, padding, dilation, transposed, output_padding, groups, bias)


@operator("aten.convolution_backward")
def convolution_backward(
    c: C,
    gradient: T,
    x: T,
    weight: T,
    bias_sizes: T,
    stride: T,
    padding: T,
    dilation: T,
    transposed: bool,
    output_padding: T,
    groups: int,
    output_mask: T,
) -> T:
    rank = weight.ndim - 2
    stride, padding, dilation, output_padding = (
        ones_for(v, rank) for v in (stride, padding, dilation, output_padding)
    )
    inputs: T = [pl.stop_gradient(x), pl.stop_gradient(weight)]
    wanted = [index for index in (0, 1) if output_mask[index]]
    found: T = [None, None]
    if wanted:
        forward = convolve(
            inputs[0], inputs[1], stride, padding, dilation, transposed, output_padding, groups
        )
        for index, made in zip(
            wanted, pl.gradients([forward], [inputs[index] for index in wanted], upstream=[gradient])
        ):
            found[index] = made
    axes = [0, *range(2, gradient.ndim)]
    return found[0], found[1], pl.sum(gradient, axis=axes) if output_mask[2] else None


# ---- attention: what PyTorch's operator for processors gives, and its gradient ----
def with_keys(value: T, key: T) -> T:
    """The values of the keys: as many, which PyTorch does not say where these sizes change."""
    return value if value.shape[2] == key.shape[2] else value.narrow(2, 0, key.shape[2])


def for_each_head(x: T, query: T) -> T:
    """Keys or values [batch, heads, length, features] for each head of the queries: heads in a row share
    them where these are fewer."""
    batch, heads, *rest = x.shape
    if heads == query.shape[1]:
        return x
    group = query.shape[1] // heads
    x = x.unsqueeze(2).expand(batch, heads, group, *rest).reshape(batch, heads * group, *rest)
    return x.narrow(1, 0, query.shape[1])  # a multiple: PyTorch has checked it


def of_shared_heads(gradient: T, x: T) -> T:
    """The gradient of keys or values from that for each head of the queries."""
    heads = x.shape[1]
    if heads == gradient.shape[1]:
        return gradient
    batch, _, *rest = gradient.shape
    group = gradient.shape[1] // heads
    return pl.sum(gradient.narrow(1, 0, heads * group).reshape(batch, heads, group, *rest), axis=2)


def scale_of(c: C, query: T, scale: T, wide: str) -> T:
    """What scores are multiplied with: one over the root of the number of features, where it is not given."""
    if scale is not None:
        return c.tensor(float(scale), wide)
    width = query.shape[-1]
    return c.tensor(1 / math.sqrt(width), wide) if isinstance(width, int) else pl.rsqrt(c.tensor(width, wide))


def scores(c: C, query: T, key: T, mask: T, causal: bool, scale: T) -> T:
    wide = "f64" if word(query) == "f64" else "f32"
    found = pl.matmul(c.tensor(query, wide), c.tensor(key, wide).transpose(-2, -1))
    found = found * scale_of(c, query, scale, wide)
    if mask is not None:
        if word(mask) == "bool":
            found = pl.where(mask, found, c.tensor(-math.inf, wide))
        else:
            found = found + c.tensor(mask, wide)
    if causal:
        rows, columns = query.shape[-2], key.shape[-2]
        place = c.graph.arange(rows).reshape(rows, 1) >= c.graph.arange(columns).reshape(1, columns)
        found = pl.where(place, found, c.tensor(-math.inf, wide))
    return found


@operator("aten._scaled_dot_product_flash_attention_for_cpu")
def attention(
    c: C,
    query: T,
    key: T,
    value: T,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: T = None,
    scale: T = None,
) -> T:
    if dropout_p:
        raise Unsupported("dropout of attention")
    key, value = for_each_head(key, query), for_each_head(with_keys(value, key), query)
    found = scores(c, query, key, attn_mask, is_causal, scale)
    wide = word(found)
    sums = pl.logsumexp(found, axis=-1)
    weights = pl.softmax(found, -1)
    made = pl.matmul(weights, c.tensor(value, wide))
    # A query that the mask hides from all keys has the result 0, not 0 / 0.
    hidden = pl.max(found, axis=-1) == c.tensor(-math.inf, wide)
    zero = c.tensor(0.0, wide)
    return pl.where(hidden.unsqueeze(-1), zero, made), pl.where(hidden, zero, sums)


@operator("aten._scaled_dot_product_flash_attention_for_cpu_backward")
def attention_backward(
    c: C,
    gradient: T,
    query: T,
    key: T,
    value: T,
    out: T,
    logsumexp: T,
    dropout_p: float,
    is_causal: bool,
    *,
    attn_mask: T = None,
    scale: T = None,
) -> T:
    keys, values = key, value
    key, value = for_each_head(key, query), for_each_head(with_keys(value, key), query)
    found = scores(c, query, key, attn_mask, is_causal, scale)
    wide = word(found)
    gradient, out, query, key, value = (c.tensor(x, wide) for x in (gradient, out, query, key, value))
    logsumexp = c.tensor(logsumexp, wide)
    weights = pl.exp(found - logsumexp.unsqueeze(-1))
    of_value = pl.matmul(weights.transpose(-2, -1), gradient)
    statistic = pl.sum(gradient * out, axis=-1, keepdims=True)
    of_scores = weights * (pl.matmul(gradient, value.transpose(-2, -1)) - statistic)
    of_scores = of_scores * scale_of(c, query, scale, wide)
    of_key = pl.matmul(of_scores.transpose(-2, -1), query)
    return pl.matmul(of_scores, key), of_shared_heads(of_key, keys), of_shared_heads(of_value, values)


@operator("aten._cdist_forward")
def cdist(c: C, a: T, b: T, p: float, compute_mode: T = None) -> T:
    return pl.cdist(a, b, p)
