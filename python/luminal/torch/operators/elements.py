# python/luminal/torch/operators/elements.py -- elementwise operators, conversions, tensors from nothing.
from __future__ import annotations

import math
import typing

import luminal as pl

from ..terms import FLOATS, Lowering, Unsupported, operator, word

C = Lowering
T = typing.Any


def unary(name: str, function: typing.Callable[[T], T]) -> None:
    operator(f"aten.{name}")(lambda c, x: function(c.tensor(x, c.dtype)))


# Computed in the result's type: f32 for integers.
for _name in (
    "exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf "
    "erfc sqrt "
    "rsqrt reciprocal sigmoid neg floor ceil trunc frac relu square sinc"
).split():
    unary(_name, getattr(pl, _name))
unary("abs", lambda x: x if word(x) == "bool" else abs(x))


def same_type_binary(name: str, function: typing.Callable[[T, T], T], *overloads: str) -> None:
    for overload in overloads or ("Tensor", "Scalar"):
        operator(f"aten.{name}.{overload}")(lambda c, a, b: function(*c.arguments(a, b)))


same_type_binary("remainder", pl.remainder, "Tensor", "Scalar", "Scalar_Tensor")
same_type_binary("fmod", pl.fmod)
same_type_binary("maximum", pl.maximum, "default")
same_type_binary("minimum", pl.minimum, "default")
same_type_binary("fmax", pl.fmax, "default")
same_type_binary("fmin", pl.fmin, "default")
same_type_binary("atan2", pl.atan2, "default")
same_type_binary("hypot", pl.hypot, "default")
same_type_binary("copysign", pl.copysign)
same_type_binary("bitwise_and", lambda a, b: a & b, "Tensor", "Scalar", "Scalar_Tensor")
same_type_binary("bitwise_or", lambda a, b: a | b, "Tensor", "Scalar", "Scalar_Tensor")
same_type_binary("bitwise_xor", lambda a, b: a ^ b, "Tensor", "Scalar", "Scalar_Tensor")


@operator(
    "aten.bitwise_left_shift.Tensor",
    "aten.bitwise_left_shift.Tensor_Scalar",
    "aten.bitwise_left_shift.Scalar_Tensor",
    "aten.__lshift__.Tensor",
    "aten.__lshift__.Scalar",
)
def shift_left(c: C, a: T, b: T) -> T:
    a, b = c.arguments(a, b)
    return a << b


@operator(
    "aten.bitwise_right_shift.Tensor",
    "aten.bitwise_right_shift.Tensor_Scalar",
    "aten.bitwise_right_shift.Scalar_Tensor",
    "aten.__rshift__.Tensor",
    "aten.__rshift__.Scalar",
)
def shift_right(c: C, a: T, b: T) -> T:
    a, b = c.arguments(a, b)
    return a >> b


def scaled(c: C, b: T, alpha: T) -> T:
    return b if isinstance(alpha, (int, float)) and alpha == 1 else b * c.tensor(alpha, c.dtype)


@operator("aten.add.Tensor", "aten.add.Scalar")
def add(c: C, a: T, b: T, alpha: T = 1) -> T:
    a, b = c.arguments(a, b)
    return a | b if c.dtype == "bool" else a + scaled(c, b, alpha)


@operator("aten.sub.Tensor", "aten.sub.Scalar")
def sub(c: C, a: T, b: T, alpha: T = 1) -> T:
    a, b = c.arguments(a, b)
    return a - scaled(c, b, alpha)


@operator("aten.rsub.Tensor", "aten.rsub.Scalar")
def rsub(c: C, a: T, b: T, alpha: T = 1) -> T:
    a, b = c.arguments(a, b)
    return b - scaled(c, a, alpha)


@operator("aten.mul.Tensor", "aten.mul.Scalar")
def mul(c: C, a: T, b: T) -> T:
    a, b = c.arguments(a, b)
    return a & b if c.dtype == "bool" else a * b


@operator("aten.div.Tensor", "aten.div.Scalar", "aten.true_divide.Tensor", "aten.true_divide.Scalar")
def div(c: C, a: T, b: T) -> T:
    a, b = c.arguments(a, b)
    return a / b


@operator("aten.div.Tensor_mode", "aten.div.Scalar_mode")
def div_mode(c: C, a: T, b: T, rounding_mode: T = None) -> T:
    a, b = c.arguments(a, b)
    if rounding_mode is None:
        return a / b
    return pl.floor_divide(a, b) if rounding_mode == "floor" else pl.trunc_divide(a, b)


@operator("aten.floor_divide")
def floor_divide(c: C, a: T, b: T) -> T:
    return pl.floor_divide(*c.arguments(a, b))


@operator("aten.pow.Tensor_Tensor", "aten.pow.Tensor_Scalar", "aten.pow.Scalar")
def pow_(c: C, a: T, b: T) -> T:
    if isinstance(b, (int, float)) and not isinstance(b, bool):
        x = c.tensor(a, c.dtype)
        if b == 2:
            return x * x
        if b == 0.5 and c.dtype in FLOATS:
            return pl.sqrt(x)
        if c.dtype in ("f32", "f64") and b in (4, 5, 6, 8):  # a multiplication or two more than the square
            square = x * x
            fourth = square * square
            return {4: fourth, 5: fourth * x, 6: fourth * square, 8: fourth * fourth}[int(b)]
        return pl.pow(x, float(b) if c.dtype in FLOATS else int(b))
    a, b = c.arguments(a, b)
    return pl.pow(a, b)


for _name, _function in {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}.items():
    operator(f"aten.{_name}.Tensor", f"aten.{_name}.Scalar")(
        lambda c, a, b, function=_function: function(*c.common(a, b))
    )
for _name in ("logical_and", "logical_or", "logical_xor"):
    operator(f"aten.{_name}")(
        lambda c, a, b, function=getattr(pl, _name): function(c.tensor(a, "bool"), c.tensor(b, "bool"))
    )


@operator("aten.logical_not")
def logical_not(c: C, x: T) -> T:
    return pl.logical_not(c.tensor(x, "bool"))


@operator("aten.bitwise_not")
def bitwise_not(c: C, x: T) -> T:
    return pl.logical_not(x) if word(x) == "bool" else ~x


def classified(name: str, function: typing.Callable[[T], T], of_integers: bool) -> None:
    def made(c: C, x: T) -> T:
        return function(x) if word(x) in FLOATS else c.full(c.shape, of_integers, "bool")

    operator(f"aten.{name}")(made)


classified("isnan", pl.isnan, False)
classified("isinf", pl.isinf, False)
classified("isfinite", pl.isfinite, True)
classified("isposinf", lambda x: x == math.inf, False)
classified("isneginf", lambda x: x == -math.inf, False)


@operator("aten.signbit")
def signbit(c: C, x: T) -> T:
    if word(x) not in FLOATS:
        return c.full(c.shape, False, "bool") if word(x) in ("bool", "u8") else x < 0
    return pl.copysign(c.tensor(1.0, word(x)), x) < 0


@operator("aten.sign", "aten.sgn")
def sign(c: C, x: T) -> T:
    if word(x) == "bool":
        return x
    one, zero = c.tensor(1, c.dtype), c.tensor(0, c.dtype)
    if word(x) in ("u8", "u16", "u32", "u64"):
        return pl.where(x > 0, one, zero)
    return pl.where(x > 0, one, pl.where(x < 0, -one, zero))  # 0 of NaN


@operator("aten.round")
def round_(c: C, x: T) -> T:
    return pl.round(x) if word(x) in FLOATS else x


@operator("aten.round.decimals")
def round_decimals(c: C, x: T, decimals: int = 0) -> T:
    if word(x) not in FLOATS:
        raise Unsupported("decimals of integers")
    ten = c.tensor(10.0 ** abs(decimals), word(x))
    return pl.round(x * ten) / ten if decimals >= 0 else pl.round(x / ten) * ten


@operator("aten.clamp", "aten.clamp.Tensor", "aten.clip", "aten.clip.Tensor")
def clamp(c: C, x: T, low: T = None, high: T = None, **named: T) -> T:
    low, high = named.get("min", low), named.get("max", high)
    x = c.tensor(x, c.dtype)
    if low is not None:
        x = pl.maximum(x, c.tensor(low, c.dtype))
    return pl.minimum(x, c.tensor(high, c.dtype)) if high is not None else x


@operator("aten.clamp_min", "aten.clamp_min.Tensor")
def clamp_min(c: C, x: T, low: T) -> T:
    return pl.maximum(*c.arguments(x, low))


@operator("aten.clamp_max", "aten.clamp_max.Tensor")
def clamp_max(c: C, x: T, high: T) -> T:
    return pl.minimum(*c.arguments(x, high))


@operator("aten.where.self")
def where(c: C, condition: T, a: T, b: T) -> T:
    a, b = c.arguments(a, b)
    return pl.where(c.tensor(condition, "bool"), a, b)


# ---- activations ----
@operator("aten.gelu")
def gelu(c: C, x: T, approximate: str = "none") -> T:
    return pl.gelu_tanh(x) if approximate == "tanh" else pl.gelu(x)


@operator("aten.silu")
def silu(c: C, x: T) -> T:
    return pl.silu(x)


@operator("aten.hardtanh")
def hardtanh(c: C, x: T, min_val: T = -1.0, max_val: T = 1.0) -> T:
    return clamp(c, x, min_val, max_val)


@operator("aten.leaky_relu")
def leaky_relu(c: C, x: T, negative_slope: float = 0.01) -> T:
    return pl.where(x > 0, x, x * c.tensor(negative_slope, c.dtype))


@operator("aten.elu")
def elu(c: C, x: T, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> T:
    wide = "f32" if c.dtype in ("f16", "bf16") else c.dtype
    v = c.tensor(x, wide)
    negative = pl.expm1(v * c.tensor(input_scale, wide)) * c.tensor(alpha * scale, wide)
    return pl.where(v > 0, v * c.tensor(scale, wide), negative)


@operator("aten.lerp.Scalar", "aten.lerp.Tensor")
def lerp(c: C, a: T, b: T, weight: T) -> T:
    a, b, weight = c.arguments(a, b, weight)
    return pl.where(
        abs(weight) < 0.5, a + weight * (b - a), b - (b - a) * (c.tensor(1.0, c.dtype) - weight)
    )


@operator("prims.fma")  # Dynamo writes addcmul_ and lerp_ of optimizers with it
def fma(c: C, a: T, b: T, added: T) -> T:
    a, b, added = c.arguments(a, b, added)
    return a * b + added


@operator("aten.xlogy.Tensor", "aten.xlogy.Scalar_Other", "aten.xlogy.Scalar_Self")
def xlogy(c: C, a: T, b: T) -> T:
    return pl.xlogy(*c.arguments(a, b))


@operator("aten.logaddexp")
def logaddexp(c: C, a: T, b: T) -> T:
    return pl.logaddexp(*c.arguments(a, b))


# ---- the same values ----
@operator(
    "aten.clone",
    "aten.alias",
    "aten.detach",
    "aten.lift_fresh_copy",
    "aten.lift_fresh",
    "aten.contiguous",
    "aten._to_copy",
    "aten.to.dtype",
    "prims.convert_element_type",
    "aten._conj",
    "aten._neg_view",
    "aten.positive",
    "prims.device_put",
    "aten.resolve_conj",
    "aten.resolve_neg",
    "aten.real",
)
def same_values(c: C, x: T, *_: T, **__: T) -> T:
    return c.tensor(x, c.dtype)


@operator("aten.copy")
def copy(c: C, x: T, source: T, non_blocking: bool = False) -> T:
    return c.broadcast(c.tensor(source, c.dtype), c.shape)


@operator("aten.view.dtype")
def view_dtype(c: C, x: T, dtype: T) -> T:
    return x.bitcast(c.dtype)


# ---- tensors from nothing ----
@operator("aten.full", "aten.full_like", "aten.fill.Scalar", "aten.fill.Tensor")
def full(c: C, _: T, value: T = None, *, fill_value: T = None, **__: T) -> T:
    value = fill_value if value is None else value
    if isinstance(value, pl.Tensor):
        return c.broadcast(c.tensor(value, c.dtype).reshape(()), c.shape)
    return c.full(c.shape, value, c.dtype)


@operator("aten.new_full")
def new_full(c: C, _: T, size: T, value: T, **__: T) -> T:
    return full(c, size, value)


@operator("aten.scalar_tensor")
def scalar_tensor(c: C, value: T, **_: T) -> T:
    return full(c, (), value)


@operator(
    "aten.zeros",
    "aten.zeros_like",
    "aten.new_zeros",
    "aten.empty.memory_format",
    "aten.empty_like",
    "aten.new_empty",
    "aten.empty_strided",
    "aten.new_empty_strided",
    "aten.empty_permuted",
    "aten.zero",
)
def zeros(c: C, *_: T, **__: T) -> T:
    """What is empty has any values; these are the same each time."""
    return c.full(c.shape, 0, c.dtype)


@operator("aten.ones", "aten.ones_like", "aten.new_ones")
def ones(c: C, *_: T, **__: T) -> T:
    return c.full(c.shape, 1, c.dtype)


@operator("aten.arange", "aten.arange.start", "aten.arange.start_step")
def arange(c: C, start: T, end: T = None, step: T = 1, **_: T) -> T:
    if end is None:
        start, end = 0, start
    count = c.shape[0]
    if any(isinstance(number, float) for number in (start, end, step)):
        place = c.graph.arange(count, dtype="f64")  # PyTorch computes start + i * step in double
        first, stride = (
            float(number) if isinstance(number, (int, float)) else c.tensor(number, "f64")
            for number in (start, step)
        )
        return place * stride + first
    place = c.graph.arange(count)
    if not isinstance(step, int) or step != 1:
        place = place * c.tensor(step, "i64")
    return place if isinstance(start, int) and start == 0 else place + c.tensor(start, "i64")


@operator("prims.iota")
def iota(c: C, length: T, start: T = 0, step: T = 1, **_: T) -> T:
    place = c.graph.arange(length)
    if not isinstance(step, int) or step != 1:
        place = place * c.tensor(step, "i64")
    return place if isinstance(start, int) and start == 0 else place + c.tensor(start, "i64")


@operator("aten.ldexp.Tensor")
def ldexp(c: C, x: T, exponent: T) -> T:
    return c.tensor(x, c.dtype) * pl.pow(c.tensor(2.0, c.dtype), c.tensor(exponent, c.dtype))


# ---- spaced numbers ----
def spaced(c: C, start: T, end: T) -> T:
    """From both ends to the middle, as PyTorch does it."""
    count = c.shape[0]
    if c.dtype not in ("f32", "f64"):
        raise Unsupported("spaced numbers of this type are rounded in PyTorch's own way")
    if not isinstance(count, int):
        raise Unsupported("a number of steps that changes")
    start, end = c.arguments(start, end)
    if count < 2:
        return c.broadcast(start.reshape(1), (count,))
    place = c.graph.arange(count)
    step = (end - start) / float(count - 1)
    forward = start + step * place.cast(c.dtype)
    backward = end - step * (count - 1 - place).cast(c.dtype)
    return pl.where(place < count // 2, forward, backward)


_OVERLOADS = ("default", "Tensor_Tensor", "Tensor_Scalar", "Scalar_Tensor")


@operator(*(f"aten.linspace.{overload}" for overload in _OVERLOADS))
def linspace(c: C, start: T, end: T, steps: T, **_: T) -> T:
    return spaced(c, start, end)


@operator(*(f"aten.logspace.{overload}" for overload in _OVERLOADS))
def logspace(c: C, start: T, end: T, steps: T, base: float = 10.0, **_: T) -> T:
    return pl.pow(c.tensor(float(base), c.dtype), spaced(c, start, end))
