# python/luminal/torch/operators/encoders.py -- the operators to which PyTorch's modules of attention
# go where nothing is trained: whole attention with its projections, whole layers of an encoder.
from __future__ import annotations

import math
import typing

import luminal as pl

from ..terms import Lowering, Unsupported, operator, word
from .normalise import native_layer_norm

C = Lowering
T = typing.Any


def of_width(x: T, embed_dim: int) -> T:
    """PyTorch's own tracing says nothing of a width that changes: it is what the weights have, which the
    program sees to at each call."""
    return x if isinstance(x.shape[2], int) else x.narrow(2, 0, embed_dim)


def hidden(c: C, mask: T, mask_type: T, shape: T) -> T:
    """The mask, true where a key is hidden, as [batch, heads, queries, keys]; numbers hide where they are
    not 0."""
    batch, queries, keys = shape
    mask = c.tensor(mask, "bool")
    if mask_type == 0:
        return mask.reshape(1, 1, queries, keys)
    if mask_type == 1:
        return mask.reshape(batch, 1, 1, keys)
    if mask_type == 2 and mask.ndim == 4:
        return mask
    raise Unsupported(f"a mask of the type {mask_type} with {mask.ndim} axes")


@operator("aten._native_multi_head_attention")
def multi_head_attention(
    c: C,
    query: T,
    key: T,
    value: T,
    embed_dim: int,
    num_head: int,
    qkv_weight: T,
    qkv_bias: T,
    proj_weight: T,
    proj_bias: T,
    mask: T = None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    mask_type: T = None,
) -> T:
    query, key, value = (of_width(x, embed_dim) for x in (query, key, value))
    batch, queries, keys = query.shape[0], query.shape[1], key.shape[1]
    width = embed_dim // num_head

    def heads(x: T, part: int) -> T:
        """[batch, length, embed_dim] -> [batch, heads, length, width], by a third of the weights."""
        first = part * embed_dim
        made = pl.linear(
            x, qkv_weight.narrow(0, first, embed_dim), qkv_bias.narrow(0, first, embed_dim)
        )
        return made.reshape(batch, x.shape[1], num_head, width).permute(0, 2, 1, 3)

    q, k, v = heads(query, 0), heads(key, 1), heads(value, 2)
    scores = pl.matmul(q * c.tensor(1 / math.sqrt(width), word(q)), k.transpose(-2, -1))
    if mask is not None:
        there = hidden(c, mask, mask_type, (batch, queries, keys))
        scores = pl.where(there, c.tensor(-math.inf, word(scores)), scores)
    weights = pl.softmax(scores, -1)
    made = pl.matmul(weights, v).permute(0, 2, 1, 3).reshape(batch, queries, embed_dim)
    result = pl.linear(made, proj_weight, proj_bias)
    if not need_weights:
        return result, None
    return result, pl.mean(weights, axis=1) if average_attn_weights else weights


@operator("aten._transformer_encoder_layer_fwd")
def encoder_layer(
    c: C,
    x: T,
    embed_dim: int,
    num_heads: int,
    qkv_weight: T,
    qkv_bias: T,
    proj_weight: T,
    proj_bias: T,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: T,
    norm_bias_1: T,
    norm_weight_2: T,
    norm_bias_2: T,
    ffn_weight_1: T,
    ffn_bias_1: T,
    ffn_weight_2: T,
    ffn_bias_2: T,
    mask: T = None,
    mask_type: T = None,
) -> T:
    def norm(v: T, weight: T, bias: T) -> T:
        return c.tensor(native_layer_norm(c, v, [embed_dim], weight, bias, eps)[0], c.dtype)

    def attention(v: T) -> T:
        return multi_head_attention(
            c, v, v, v, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask, False,
            mask_type=mask_type,
        )[0]  # fmt: skip

    def feed_forward(v: T) -> T:
        inner = pl.linear(v, ffn_weight_1, ffn_bias_1)
        return pl.linear(pl.gelu(inner) if use_gelu else pl.relu(inner), ffn_weight_2, ffn_bias_2)

    x = of_width(x, embed_dim)
    if norm_first:
        x = x + attention(norm(x, norm_weight_1, norm_bias_1))
        return x + feed_forward(norm(x, norm_weight_2, norm_bias_2))
    x = norm(x + attention(x), norm_weight_1, norm_bias_1)
    return norm(x + feed_forward(x), norm_weight_2, norm_bias_2)
