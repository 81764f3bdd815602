# tools/torch_goldens_math.py -- cases of arithmetic, functions, reductions, products, convolution,
# pooling (see torch_goldens.py).
import math

import torch
import torch.nn.functional as F

inf, nan = math.inf, math.nan
SPECIAL = torch.tensor([0.0, -0.0, 1, -1, 0.5, -0.5, 1.5, 2.5, -2.5, 3, -3.25, 100.25, inf, -inf, nan, 1e-40,
                        -1e-40, 3e38,
                        -3e38, 1e-8, 7, -7.75])
# Arguments at which a function is not just rounded but special: overflow, cancellation, branch
# points, tiny and huge ones.
WIDE = torch.tensor([-0.0, 1e-40, 1e-10, 0.01, 0.3, 0.41, 0.42, 0.5, 0.51, 0.7, 0.99, 1, 1.01, 1.5, 2.4, 2.5,
                     3.5, 6, 9, 10.5,
                     19, 21, 30, 38.6, 45.2, 88.6, 89.2, 89.5, 1e4, 1e6, 1e19, 3e38, inf])
WIDE = torch.cat([WIDE, -WIDE, torch.tensor([nan])])
INTS = torch.tensor([0, 1, -1, 2, -2, 3, -7, 8, 100, -128, 127], dtype=torch.int64)


def elementwise(add):
    for name, f in [("add", torch.add), ("sub", torch.sub), ("mul", torch.mul), ("div", torch.div),
                    ("maximum", torch.maximum), ("minimum", torch.minimum), ("fmax", torch.fmax),
                    ("fmin", torch.fmin),
                    ("floor_divide", torch.floor_divide), ("mod", torch.remainder), ("fmod", torch.fmod),
                    ("pow", torch.pow), ("atan2", torch.atan2), ("copysign", torch.copysign),
                    ("hypot", torch.hypot),
                    ("lt", torch.lt), ("le", torch.le), ("gt", torch.gt), ("ge", torch.ge), ("eq", torch.eq),
                    ("ne", torch.ne), ("logical_and", torch.logical_and), ("logical_or", torch.logical_or),
                    ("logical_xor", torch.logical_xor)]:
        # Which zero min and max give is not specified.
        zeros = name in ("atan2", "copysign", "floor_divide", "fmod", "mul", "div")
        # PyTorch's vector code takes a subnormal divisor for 0, and a quotient that overflows for NaN.
        row = SPECIAL[((SPECIAL.abs() - 1).abs() < 1e9) & (SPECIAL.abs() > 1e-30) | ~SPECIAL.isfinite()
                      | (SPECIAL == 0)] if name in ("mod", "fmod") else SPECIAL
        column = row.unsqueeze(1)
        add(f"{name}.table", name, [column, row], f(column, row), signed_zero=zeros)
        if name not in ("hypot", "copysign", "atan2", "div"):
            for dtype in (torch.int64, torch.int8):
                a = INTS.to(dtype).unsqueeze(1)
                b = INTS.to(dtype)
                if name in ("floor_divide", "mod", "fmod"):
                    b = b[b != 0]
                if name == "pow":
                    b = b[b >= 0]
                add(f"{name}.{dtype}"[0:].replace("torch.", ""), name, [a, b], f(a, b))
    half = SPECIAL.half()
    for name, f in [("add", torch.add), ("mul", torch.mul), ("div", torch.div), ("pow", torch.pow)]:
        add(f"{name}.f16", name, [half, half.roll(3)], f(half, half.roll(3)))
        bf = SPECIAL.bfloat16()
        add(f"{name}.bf16", name, [bf, bf.roll(3)], f(bf, bf.roll(3)))
    a, b = INTS.unsqueeze(1), INTS[INTS != 0]
    add("trunc_divide.ints", "trunc_divide", [a, b], torch.div(a, b, rounding_mode="trunc"))
    add("trunc_divide.floats", "trunc_divide", [SPECIAL.unsqueeze(1), SPECIAL],
        torch.div(SPECIAL.unsqueeze(1), SPECIAL, rounding_mode="trunc"))
    for n in (2, 3, 0.5, -1, -2, -0.5, 1, 1.5, -3):
        add(f"pow.{n}", "pow", [SPECIAL], SPECIAL ** n, exponent=n)
    add("pow.base", "pow", [SPECIAL], 2.0 ** SPECIAL, number=2.0, reversed=True)
    add("pow.base1", "pow", [SPECIAL], 1.0 ** SPECIAL, number=1.0, reversed=True)
    add("pow.overflow", "pow", [torch.tensor([3, -3, 7, 2])], torch.tensor([3, -3, 7, 2]) ** 63, number=63,
        whole=True)
    for name, f in [("and", torch.bitwise_and), ("or", torch.bitwise_or), ("xor", torch.bitwise_xor)]:
        add(f"{name}.ints", name, [INTS.unsqueeze(1), INTS], f(INTS.unsqueeze(1), INTS))
    flags = torch.tensor([True, False])
    for name, f in [("and", torch.bitwise_and), ("or", torch.bitwise_or), ("xor", torch.bitwise_xor),
                    ("logical_and", torch.logical_and), ("lt", torch.lt), ("eq", torch.eq)]:
        add(f"{name}.bool", name, [flags.unsqueeze(1), flags], f(flags.unsqueeze(1), flags))
    add("bit_not.ints", "bit_not", [INTS], ~INTS)
    add("bit_not.bool", "bit_not", [flags], ~flags)
    add("not.floats", "not", [SPECIAL], torch.logical_not(SPECIAL))
    # promotion: a real number beside integers, a whole one beside floats and integers
    add("mul.int_real", "mul", [INTS], INTS * 0.5, number=0.5)
    add("sub.whole_reversed", "sub", [INTS.to(torch.int8)], 5 - INTS.to(torch.int8), number=5, whole=True,
        reversed=True)
    add("add.mixed", "add", [INTS.to(torch.int32), torch.tensor([0.25])],
        INTS.to(torch.int32) + torch.tensor([0.25]))
    add("add.signs", "add", [INTS.to(torch.uint8), INTS.to(torch.int8)],
        INTS.to(torch.uint8) + INTS.to(torch.int8))
    add("div.ints", "div", [INTS, torch.tensor([3])], INTS / torch.tensor([3]))
    add("lt.int_real", "lt", [INTS], INTS < 1.5, number=1.5)
    wide = torch.tensor([2**53 + 1, 2**62, -2**63, 2**63 - 1])
    add("add.exact64", "add", [wide], wide + 1, number=1, whole=True)
    add("mul.exact64", "mul", [wide, wide.flip(0)], wide * wide.flip(0))

    for name in ["neg", "abs", "square", "floor", "ceil", "round", "trunc", "frac", "sqrt", "rsqrt",
                 "reciprocal", "exp",
                 "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos",
                 "atan", "sinh",
                 "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "isnan", "isinf", "isfinite",
                 "logical_not",
                 "sigmoid"]:
        f = getattr(torch, name)
        odd = name in ("neg", "asin", "atan", "sinh", "asinh", "atanh", "tanh", "floor", "ceil", "round",
                       "trunc")
        # PyTorch's sinh and cosh of f32 overflow too early.
        expected = f(WIDE.double()).float() if name in ("sinh", "cosh") else f(WIDE)
        add(f"{name}.f32", name, [WIDE], expected, signed_zero=odd)
        double = WIDE.double()[::2].contiguous()
        add(f"{name}.f64", name, [double], f(double))
        if name in ("asin", "erfc", "sinh", "exp", "frac", "log10"):
            for dtype in (torch.bfloat16, torch.float16):
                add(f"{name}.{dtype}".replace("torch.", ""), name, [WIDE.to(dtype)],
                    f(WIDE.to(dtype).double()).to(dtype))
        if name in ("neg", "abs", "floor", "square", "exp", "atan", "isnan", "isinf", "isfinite", "erfc"):
            ints = INTS.to(torch.int32)
            add(f"{name}.i32", name, [ints], f(ints))
    without_nan = WIDE[~WIDE.isnan()]
    add("sign.f32", "sign", [without_nan], torch.sign(without_nan))
    add("sign.i8", "sign", [INTS.to(torch.int8)], torch.sign(INTS.to(torch.int8)))
    x = WIDE
    for name, f in [("relu", F.relu), ("relu6", F.relu6), ("log_sigmoid", F.logsigmoid), ("silu", F.silu),
                    ("mish", F.mish),
                    ("hardswish", F.hardswish), ("hardsigmoid", F.hardsigmoid), ("softsign", F.softsign),
                    ("selu", F.selu),
                    ("gelu_erf", F.gelu), ("gelu_tanh", lambda x: F.gelu(x, approximate="tanh")),
                    ("elu", F.elu),
                    ("celu", F.celu), ("leaky_relu", F.leaky_relu), ("softplus", F.softplus),
                    ("hardtanh", F.hardtanh)]:
        if name.startswith("gelu"):
            x = x[x.abs() < 1e19]  # PyTorch overflows, and has NaN at infinity
        add(f"{name}.f32", name, [x], f(x))
        add(f"{name}.bf16", name, [x.bfloat16()], f(x.bfloat16()))
    x = WIDE
    add("elu.alpha", "elu", [x], F.elu(x, 0.5), alpha=0.5)
    add("celu.alpha", "celu", [x], F.celu(x, -2.0), alpha=-2.0)
    add("softplus.beta", "softplus", [x], F.softplus(x, 2.0, 5.0), beta=2.0, threshold=5.0)
    add("hardtanh.limits", "hardtanh", [x], F.hardtanh(x, -0.3, 2.45), low=-0.3, high=2.45)
    add("threshold", "threshold", [x], F.threshold(x, 0.5, -7.0), limit=0.5, value=-7.0)
    add("glu", "glu", [x[:60].reshape(3, 4, 5)], F.glu(x[:60].reshape(3, 4, 5), 1), dim=1)
    add("prelu.one", "prelu", [x, torch.tensor([0.2])], F.prelu(x, torch.tensor([0.2])))
    w = torch.tensor([0.1, -2.0, 3.0, 0.0])
    add("prelu.channels", "prelu", [x[:60].reshape(3, 4, 5), w], F.prelu(x[:60].reshape(3, 4, 5), w))
    add("clip.both", "clip", [x], x.clip(-0.5, 2), low=-0.5, high=2.0)
    add("clip.low", "clip", [x], x.clip(min=-0.5), low=-0.5)
    add("clip.high", "clip", [x], x.clip(max=2), high=2.0)
    add("clip.crossed", "clip", [x], x.clip(2, -1), low=2.0, high=-1.0)
    low, high = torch.tensor([[-1.0], [nan], [0.0]]), torch.tensor([0.5, inf, 2.0])
    y = torch.tensor([[-3.0, 0.1, 5.0], [nan, 1.0, -inf], [inf, 0.2, 1.5]])
    add("clip.tensors", "clip_tensors", [y, low, high], y.clip(low, high))
    mask = y > 0.15
    add("where.bool", "where", [mask, y, low], torch.where(mask, y, low))
    add("masked_fill", "masked_fill", [y, mask], y.masked_fill(mask, -inf), value=-inf)
    add("masked_fill.ints", "masked_fill", [INTS[:9].reshape(3, 3), mask],
        INTS[:9].reshape(3, 3).masked_fill(mask, 7), value=7.0)
    for weight in (0.0, 0.25, 0.5, 1.0):
        add(f"lerp.{weight}", "lerp", [y, high], torch.lerp(y, high.expand(3, 3), weight), weight=weight)


def reductions(add):
    x = torch.randn(3, 4, 5)
    x[1, 2, 3], x[2, 0, 0], x[2, 1, 1] = nan, inf, -inf
    y = torch.tensor([[3.0, 1, 3, -2, 3], [-1, -1, 5, 5, 0], [inf, inf, -inf, 0, -inf], [nan, 1, nan, 2, 9]])
    for name in ["sum", "prod", "mean", "max", "min", "all", "any", "count_nonzero", "logsumexp", "argmax",
                 "argmin"]:
        f = {"max": torch.amax, "min": torch.amin}.get(name, getattr(torch, name))
        for dim in (0, 1, -1):
            keep = dim == 1
            extra = {} if name == "count_nonzero" else {"keepdim": keep}
            add(f"{name}.{dim}", name, [y], f(y, dim=dim, **extra), dim=dim, **extra)
        if name == "logsumexp":
            add(f"{name}.pair", name, [x], f(x, dim=(0, 2)), dim=[0, 2])
        elif name not in ("prod", "argmax", "argmin"):
            add(f"{name}.pair", name, [x], f(x, dim=(0, 2)), dim=[0, 2])
        if name != "logsumexp":
            add(f"{name}.whole", name, [x], f(x))
            if name not in ("mean",):
                ints = torch.tensor([[3, -7, 3], [100, 100, -128]], dtype=torch.int8)
                add(f"{name}.i8", name, [ints], f(ints, dim=1), dim=1)
                if name not in ("argmax", "argmin"):
                    add(f"{name}.bool", name, [ints > 0], f(ints > 0, dim=0), dim=0)
    add("prod.negative", "prod", [torch.tensor([-2.0, 3.0])], torch.tensor(-6.0))
    add("prod.overflow", "prod", [torch.tensor([2**40, 2**30, -3])], torch.tensor([2**40, 2**30, -3]).prod())
    empty = torch.zeros(2, 0)
    for name, f in [("sum", torch.sum), ("prod", torch.prod), ("mean", torch.mean), ("all", torch.all),
                    ("any", torch.any),
                    ("logsumexp", torch.logsumexp), ("var", torch.var)]:
        add(f"{name}.empty", name, [empty], f(empty, dim=1), dim=1)
        add(f"{name}.no_rows", name, [empty], f(empty, dim=0), dim=0)
    bf = torch.randn(2, 600).bfloat16() + 3
    for name, f in [("sum", torch.sum), ("mean", torch.mean), ("var", torch.var), ("std", torch.std)]:
        add(f"{name}.bf16", name, [bf], f(bf, dim=1), dim=1)
    z = torch.randn(4, 6) * 100 + 1e4
    for correction in (0, 1, 2.5, 7):
        add(f"var.{correction}", "var", [z], torch.var(z, dim=1, correction=correction), dim=1,
            correction=correction, rtol=2e-5)
        add(f"std.{correction}", "std", [z], torch.std(z, dim=(0, 1), correction=correction), dim=[0, 1],
            correction=correction, rtol=2e-5)
    add("var_mean", "var_mean", [z], torch.var_mean(z, dim=0, keepdim=True), dim=0, keepdim=True, rtol=2e-5)
    add("var.one", "var", [torch.tensor([[2.0], [3.0]])], torch.var(torch.tensor([[2.0], [3.0]]), dim=1),
        dim=1)
    v = torch.tensor([[3.0, -4.0, 0.0], [0.5, 0.0, 0.0]])
    for p in (0, 1, 2, 3, 0.5, inf, -inf, -1, -2):
        add(f"norm.{p}", "norm", [v], torch.linalg.vector_norm(v, p, dim=1), p=float(p), dim=1)
        if p not in (0,):
            add(f"normalize.{p}", "normalize", [v.T.contiguous()], F.normalize(v.T, p=p, dim=1), p=float(p),
                dim=1)
    s = torch.tensor([[1e4, -1e4, 1e4], [-inf, 0, -inf], [-inf, -inf, -inf], [inf, 0, 1], [nan, 0, 1],
                      [0, 0, 3e38]])
    for dim in (0, 1):
        for name, f in [("softmax", torch.softmax), ("log_softmax", torch.log_softmax),
                        ("logsumexp", torch.logsumexp)]:
            add(f"{name}.extreme{dim}", name, [s], f(s, dim), dim=dim)
    square = torch.tensor([[0.0, 0.0], [1.0, 3.0]])
    add("softmax.square", "softmax", [square], torch.softmax(square, 0), dim=0)
    h = torch.randn(2, 7).half()
    add("softmax.f16", "softmax", [h], torch.softmax(h, 1), dim=1)


def cases(add):
    elementwise(add)
    reductions(add)
