# python/tests/test_operations.py -- operations against numpy over random shapes; every public
# operation is bound, or a reason is given.
import os
import pathlib
import sys
import unittest

import luminal as pl
import numpy as np

sys.path.insert(0, str(pathlib.Path(os.environ["LUMINAL_SOURCE"]) / "python"))
import generate  # noqa: E402

ROUNDS = 3


def evaluate(*tensors):
    for tensor in tensors:
        tensor.keep()
    tensors[0].graph.execute()
    return [tensor.numpy() for tensor in tensors]


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


# name: (luminal, numpy) of one array.
UNARY = {
    "neg": (pl.neg, np.negative), "abs": (abs, np.abs), "sign": (pl.sign, np.sign),
         "square": (pl.square, np.square),
    "floor": (pl.floor, np.floor), "ceil": (pl.ceil, np.ceil), "round": (round, np.round),
         "trunc": (pl.trunc, np.trunc),
    "frac": (pl.frac, lambda x: x - np.trunc(x)), "exp": (pl.exp, np.exp), "exp2": (pl.exp2, np.exp2),
         "expm1": (pl.expm1, np.expm1),
    "exp10": (pl.exp10, lambda x: 10 ** x), "log": (lambda x: pl.log(abs(x)), lambda x: np.log(np.abs(x))),
    "log2": (lambda x: pl.log2(abs(x)), lambda x: np.log2(np.abs(x))),
         "log10": (lambda x: pl.log10(abs(x)), lambda x: np.log10(np.abs(x))),
    "log1p": (lambda x: pl.log1p(abs(x)), lambda x: np.log1p(np.abs(x))),
         "sqrt": (lambda x: pl.sqrt(abs(x)), lambda x: np.sqrt(np.abs(x))),
    "rsqrt": (lambda x: pl.rsqrt(abs(x) + 1), lambda x: 1 / np.sqrt(np.abs(x) + 1)),
         "recip": (lambda x: pl.recip(x * x + 1), lambda x: 1 / (x * x + 1)),
    "reciprocal": (lambda x: pl.reciprocal(x * x + 1), lambda x: 1 / (x * x + 1)),
    "sin": (pl.sin, np.sin), "cos": (pl.cos, np.cos), "tan": (lambda x: pl.tan(x / 4),
                                                              lambda x: np.tan(x / 4)),
    "asin": (lambda x: pl.asin(pl.sin(x)), lambda x: np.arcsin(np.sin(x))),
         "acos": (lambda x: pl.acos(pl.sin(x)), lambda x: np.arccos(np.sin(x))),
    "atan": (pl.atan, np.arctan), "sinh": (pl.sinh, np.sinh), "cosh": (pl.cosh, np.cosh),
         "tanh": (pl.tanh, np.tanh),
    "asinh": (pl.asinh, np.arcsinh), "acosh": (lambda x: pl.acosh(x * x + 1),
                                               lambda x: np.arccosh(x * x + 1)),
    "atanh": (lambda x: pl.atanh(pl.sin(x) / 2), lambda x: np.arctanh(np.sin(x) / 2)),
    "isnan": (pl.isnan, np.isnan), "isinf": (pl.isinf, np.isinf), "isfinite": (pl.isfinite, np.isfinite),
         "logical_not": (pl.logical_not, np.logical_not),
    "relu": (pl.relu, lambda x: np.maximum(x, 0)), "relu6": (pl.relu6, lambda x: np.clip(x, 0, 6)),
         "sigmoid": (pl.sigmoid, sigmoid),
    "log_sigmoid": (pl.log_sigmoid, lambda x: np.log(sigmoid(x))),
         "silu": (pl.silu, lambda x: x * sigmoid(x)), "swish": (pl.swish, lambda x: x * sigmoid(x)),
    "mish": (pl.mish, lambda x: x * np.tanh(np.log1p(np.exp(x)))),
         "softsign": (pl.softsign, lambda x: x / (1 + np.abs(x))),
    "hardsigmoid": (pl.hardsigmoid, lambda x: np.clip(x / 6 + 0.5, 0, 1)),
         "hardswish": (pl.hardswish, lambda x: x * np.clip(x / 6 + 0.5, 0, 1)),
    "leaky_relu": (lambda x: x.leaky_relu(0.1), lambda x: np.where(x > 0, x, 0.1 * x)),
         "elu": (pl.elu, lambda x: np.where(x > 0, x, np.expm1(x))),
    "celu": (lambda x: x.celu(2), lambda x: np.where(x > 0, x, 2 * np.expm1(x / 2))),
         "softplus": (pl.softplus, lambda x: np.log1p(np.exp(x))),
    "hardtanh": (lambda x: x.hardtanh(-0.5, 2), lambda x: np.clip(x, -0.5, 2)),
         "threshold": (lambda x: x.threshold(0.5, 9), lambda x: np.where(x > 0.5, x, 9)),
    "hardshrink": (lambda x: pl.hardshrink(x, lambd=1), lambda x: np.where(np.abs(x) > 1, x, 0)),
    "softshrink": (lambda x: pl.softshrink(x, 1), lambda x: np.sign(x) * np.maximum(np.abs(x) - 1, 0)),
         "tanhshrink": (pl.tanhshrink, lambda x: x - np.tanh(x)),
    "softmin": (pl.softmin, lambda x: softmax(-x)), "softmax": (lambda x: x.softmax(0),
                                                                lambda x: softmax(x, 0)),
    "log_softmax": (pl.log_softmax, lambda x: np.log(softmax(x))), "deg2rad": (pl.deg2rad, np.deg2rad),
         "rad2deg": (pl.rad2deg, np.rad2deg), "sinc": (pl.sinc, np.sinc),
    "clip": (lambda x: x.clip(-1, 1), lambda x: np.clip(x, -1, 1)),
         "clip_keyword": (lambda x: pl.clip(x, low=None, high=0.5), lambda x: np.minimum(x, 0.5)),
    "nan_to_num": (lambda x: pl.nan_to_num(x / 0), lambda x: np.nan_to_num(
        np.copysign(np.float32(np.inf), x))), "heaviside": (lambda x: pl.heaviside(x, 0.5),
                                                            lambda x: np.heaviside(x, 0.5)),
    "ldexp": (lambda x: pl.ldexp(x, 3), lambda x: np.ldexp(x, 3)),
         "logit": (lambda x: pl.logit(pl.sigmoid(x)), lambda x: x),
    "cast": (lambda x: x.cast("i32"), lambda x: x.astype(np.int32)),
         "to": (lambda x: x.to(pl.f64), lambda x: x.astype(np.float64)),
         "astype": (lambda x: x.astype(np.int64), lambda x: x.astype(np.int64)),
    "bitcast": (lambda x: x.bitcast("u32"), lambda x: x.view(np.uint32)),
         "mean_norm": (lambda x: x.mean_norm(), lambda x: x - x.mean(-1, keepdims=True)),
    "layer_norm": (lambda x: x.layer_norm(), lambda x: (x - x.mean(-1, keepdims=True)) / np.sqrt(
        x.var(-1, keepdims=True) + 1e-5)),
    "rms_norm": (lambda x: x.rms_norm(), lambda x: x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5)),
    "sum": (lambda x: x.sum(), np.sum), "sum_axis": (lambda x: pl.sum(x, axis=-1), lambda x: x.sum(-1)),
         "sum_axes": (lambda x: x.sum((0, -1)), lambda x: x.sum((0, -1))),
    "mean": (lambda x: x.mean(0, keepdims=True), lambda x: x.mean(0, keepdims=True)),
         "prod": (lambda x: pl.prod(x, 0), lambda x: x.prod(0)),
    "max": (lambda x: x.max(-1), lambda x: x.max(-1)), "min": (lambda x: pl.min(x, 0), lambda x: x.min(0)),
         "var": (lambda x: x.var(0, correction=0), lambda x: x.var(0)),
    "std": (lambda x: x.std(correction=0), np.std), "all": (lambda x: pl.all(x > -9, 0),
                                                            lambda x: (x > -9).all(0)),
         "any": (lambda x: pl.any(x > 1, 0), lambda x: (x > 1).any(0)),
    "count_nonzero": (lambda x: pl.count_nonzero(pl.relu(x)), lambda x: np.count_nonzero(x > 0)),
         "logsumexp": (lambda x: x.logsumexp(0), lambda x: np.log(np.exp(x).sum(0))),
    "norm": (lambda x: x.norm(axis=-1), lambda x: np.linalg.norm(x, axis=-1)),
         "argmax": (lambda x: x.argmax(), np.argmax), "argmin": (lambda x: pl.argmin(x, 0),
                                                                 lambda x: x.argmin(0)),
    "normalize": (lambda x: x.normalize(axis=-1), lambda x: x / np.linalg.norm(x, axis=-1, keepdims=True)),
    "T": (lambda x: x.T, lambda x: x.T), "mT": (lambda x: x.mT, lambda x: x.swapaxes(-1, -2)),
         "permute": (lambda x: x.permute(*range(x.ndim)[::-1]), lambda x: x.T),
    "permute_list": (lambda x: pl.permute(x, list(range(x.ndim))[::-1]), lambda x: x.T),
         "transpose": (lambda x: x.transpose(0, -1), lambda x: np.swapaxes(x, 0, -1)),
    "swapaxes": (lambda x: x.swapaxes(0, 1), lambda x: x.swapaxes(0, 1)),
         "movedim": (lambda x: x.movedim(0, -1), lambda x: np.moveaxis(x, 0, -1)),
    "reshape": (lambda x: x.reshape(-1), lambda x: x.reshape(-1)),
         "reshape_list": (lambda x: x.reshape([1, -1]), lambda x: x.reshape(1, -1)),
    "flatten": (lambda x: x.flatten(0, 1), lambda x: x.reshape((-1,) + x.shape[2:])),
         "unflatten": (lambda x: x.unflatten(0, (1, -1)), lambda x: x[None]),
    "unsqueeze": (lambda x: x.unsqueeze(1), lambda x: np.expand_dims(x, 1)),
         "squeeze": (lambda x: x[None].squeeze(0), lambda x: x),
         "squeeze_all": (lambda x: x[:1].squeeze(), lambda x: x[:1].squeeze()),
    "squeeze_axes": (lambda x: x[None, None].squeeze((0, 1)), lambda x: x),
         "expand": (lambda x: x[None].expand(3, *[-1] * x.ndim),
                    lambda x: np.broadcast_to(x, (3,) + x.shape)),
    "expand_dim": (lambda x: x.expand_dim(0, 2), lambda x: np.stack([x, x])),
         "flip": (lambda x: x.flip(0, 1), lambda x: np.flip(x, (0, 1))),
         "flip_axis": (lambda x: pl.flip(x, 0), lambda x: np.flip(x, 0)),
    "roll": (lambda x: x.roll(2, 0), lambda x: np.roll(x, 2, 0)),
         "roll_axes": (lambda x: x.roll((1, -1), (0, 1)), lambda x: np.roll(x, (1, -1), (0, 1))),
    "tile": (lambda x: x.tile(2), lambda x: np.tile(x, 2)),
         "repeat_interleave": (lambda x: x.repeat_interleave(3, 0), lambda x: np.repeat(x, 3, 0)),
    "pad": (lambda x: x.pad(0, 1, 2, 7), lambda x: np.pad(x, [(1, 2)] + [(0, 0)] * (x.ndim - 1),
                                                          constant_values=7)),
    "pad_reflect": (lambda x: x.pad([(0, 1, 1)], mode="reflect"),
                    lambda x: np.pad(x, [(1, 1)] + [(0, 0)] * (x.ndim - 1), mode="reflect")),
    "narrow": (lambda x: x.narrow(0, 1, 1), lambda x: x[1:2]),
         "select": (lambda x: x.select(0, -1), lambda x: x[-1]),
         "slice": (lambda x: x.slice(0, 0, 5, 2), lambda x: x[0:5:2]),
    "tril": (lambda x: pl.tril(x, 1), lambda x: np.tril(x, 1)), "triu": (lambda x: x.triu(), np.triu),
         "diagonal": (lambda x: x.diagonal(), lambda x: np.diagonal(x)),
    "cumsum": (lambda x: x.cumsum(0), lambda x: x.cumsum(0)),
         "cumsum_reverse": (lambda x: pl.cumsum(x, 0, reverse=True), lambda x: x[::-1].cumsum(0)[::-1]),
    "cumsum_exclusive": (lambda x: pl.cumsum(x, axis=0, exclusive=True), lambda x: x.cumsum(0) - x),
         "cumprod": (lambda x: pl.cumprod(x, -1), lambda x: x.cumprod(-1)),
    "cummax": (lambda x: pl.cummax(x, 0).values, lambda x: np.maximum.accumulate(x, 0)),
         "logcumsumexp": (lambda x: pl.logcumsumexp(x, 0), lambda x: np.log(np.exp(x).cumsum(0))),
    "sort": (lambda x: x.sort(0).values, lambda x: np.sort(x, 0)),
         "sort_descending": (lambda x: pl.sort(x, -1, descending=True)[0], lambda x: -np.sort(-x, -1)),
         "argsort": (lambda x: x.argsort(0), lambda x: x.argsort(0)),
    "topk": (lambda x: x.topk(2, 0).values, lambda x: -np.sort(-x, 0)[:2]),
         "diff": (lambda x: pl.diff(x, axis=0), lambda x: np.diff(x, axis=0)),
         "rot90": (lambda x: pl.rot90(x), np.rot90),
    "median": (lambda x: pl.median(x.reshape(-1)[:3], 0).values, lambda x: np.median(x.reshape(-1)[:3])),
         "kthvalue": (lambda x: pl.kthvalue(x, 1, 0).values, lambda x: x.min(0)),
    "quantile": (lambda x: pl.quantile(x, 0.3), lambda x: np.quantile(x, 0.3)),
         "quantiles": (lambda x: pl.quantile(x, [0.1, 0.9], 0, between="lower"),
                       lambda x: np.quantile(x, [0.1, 0.9], 0, method="lower")),
    "nansum": (lambda x: pl.nansum(pl.log(x), 0), lambda x: np.nansum(np.log(x, where=x > 0,
                                                                             out=np.full_like(x, np.nan)),
                                                                      0)),
         "aminmax": (lambda x: pl.aminmax(x, 0).max, lambda x: x.max(0)),
    "std_mean": (lambda x: pl.std_mean(x, 0).mean, lambda x: x.mean(0)),
         "var_mean": (lambda x: pl.var_mean(x, 0, correction=0).var, lambda x: x.var(0)),
         "trapezoid": (lambda x: pl.trapezoid(x), lambda x: np.trapezoid(x)),
    "histc": (lambda x: pl.histc(x, 4, -1, 1), lambda x: np.histogram(x, 4, (-1, 1))[0].astype(np.float32)),
         "zeros_like": (pl.zeros_like, np.zeros_like), "full_like": (lambda x: pl.full_like(x, 3),
                                                                     lambda x: np.full_like(x, 3)),
    "nonzero": (lambda x: pl.nonzero(pl.relu(x), x.numel()).values[:1], lambda x: np.argwhere(x > 0)[:1]),
         "unique": (lambda x: pl.unique(pl.round(x), 1).values, lambda x: np.unique(np.round(x))[:1]),
    "one_hot": (lambda x: pl.one_hot(x.argmax(0), 9), lambda x: np.eye(9, dtype=np.int64)[x.argmax(0)]),
         "stack": (lambda x: pl.stack([x, x], 1), lambda x: np.stack([x, x], 1)),
         "concat": (lambda x: pl.concat([x, -x]), lambda x: np.concatenate([x, -x])),
    "hstack": (lambda x: pl.hstack([x, x]), lambda x: np.hstack([x, x])),
         "split": (lambda x: x.split(1)[-1], lambda x: x[-1:]),
         "chunk": (lambda x: pl.chunk(x, 2)[0], lambda x: x[:(len(x) + 1) // 2]),
         "unbind": (lambda x: x.unbind()[1], lambda x: x[1]),
    "masked_select": (lambda x: pl.masked_select(x, x > 0, 1).values, lambda x: x[x > 0][:1]),
         "iteration": (lambda x: [row for row in x][0], lambda x: x[0]),
         "excise": (lambda x: pl.excise(x, 1, 1, 0), lambda x: x[::2]),
    "rfft": (lambda x: pl.rfft(x), lambda x: np.stack([np.fft.rfft(x).real, np.fft.rfft(x).imag],
                                                      -1).astype(np.float32)),
         "vander": (lambda x: pl.vander(x.reshape(-1)[:3]), lambda x: np.vander(x.reshape(-1)[:3])),
}

BINARY = {
    "add": (lambda a, b: a + b, np.add), "sub": (lambda a, b: a - b, np.subtract),
          "mul": (lambda a, b: a * b, np.multiply), "truediv": (lambda a, b: a / (b * b + 1), lambda a,
                                                                b: a / (b * b + 1)),
    "mod": (lambda a, b: a % (b * b + 1), lambda a, b: a % (b * b + 1)),
          "floordiv": (lambda a, b: a // (b * b + 1), lambda a, b: a // (b * b + 1)),
          "pow": (lambda a, b: (abs(a) + 1) ** b, lambda a, b: (np.abs(a) + 1) ** b),
    "lt": (lambda a, b: a < b, np.less), "le": (lambda a, b: a <= b, np.less_equal),
          "gt": (lambda a, b: a > b, np.greater), "ge": (lambda a, b: a >= b, np.greater_equal),
          "eq": (lambda a, b: a.round() == b.round(), lambda a, b: np.round(a) == np.round(b)),
    "ne": (lambda a, b: a.round() != b.round(), lambda a, b: np.round(a) != np.round(b)),
          "maximum": (pl.maximum, np.maximum), "minimum": (pl.minimum, np.minimum),
          "fmax": (pl.fmax, np.fmax), "fmin": (pl.fmin, np.fmin),
    "atan2": (pl.atan2, np.arctan2), "hypot": (pl.hypot, np.hypot), "copysign": (pl.copysign, np.copysign),
          "fmod": (lambda a, b: pl.fmod(a, b * b + 1), lambda a, b: np.fmod(a, b * b + 1)),
          "logaddexp": (pl.logaddexp, np.logaddexp),
    "logaddexp2": (pl.logaddexp2, np.logaddexp2), "where": (lambda a, b: pl.where(a > 0, a, b), lambda a,
                                                            b: np.where(a > 0, a, b)),
          "select": (lambda a, b: pl.select(a > b, 1.0, b), lambda a, b: np.where(a > b, np.float32(1), b)),
    "lerp": (lambda a, b: pl.lerp(a, b, 0.25), lambda a, b: a + 0.25 * (b - a)),
          "isclose": (pl.isclose, np.isclose), "and": (lambda a, b: (a > 0) & (b > 0), lambda a,
                                                       b: (a > 0) & (b > 0)),
          "or": (lambda a, b: (a > 0) | (b > 0), lambda a, b: (a > 0) | (b > 0)),
    "xor": (lambda a, b: (a > 0) ^ (b > 0), lambda a, b: (a > 0) ^ (b > 0)),
          "invert": (lambda a, b: ~(a > b), lambda a, b: ~(a > b)),
          "logical_and": (pl.logical_and, np.logical_and), "logical_or": (pl.logical_or, np.logical_or),
          "logical_xor": (pl.logical_xor, np.logical_xor),
    "addcmul": (lambda a, b: pl.addcmul(a, a, b, value=2), lambda a, b: a + 2 * a * b),
          "xlogy": (lambda a, b: pl.xlogy(a, b * b + 1), lambda a, b: a * np.log(b * b + 1)),
          "shift": (lambda a, b: (a.cast("i32") & 7) << 2, lambda a, b: (a.astype(np.int32) & 7) << 2),
    "masked_fill": (lambda a, b: (a + b).masked_fill(a + b > 0, -1), lambda a,
                    b: np.where(a + b > 0, np.float32(-1), a + b)),
          "trunc_divide": (lambda a, b: pl.trunc_divide(a, b * b + 1), lambda a,
                           b: np.trunc(a / (b * b + 1))),
    "remainder": (lambda a, b: pl.remainder(a, b * b + 1), lambda a, b: a % (b * b + 1)),
          "divmod_numbers": (lambda a, b: 7 // (a * a + 1) + 7 % (b * b + 1), lambda a,
                             b: 7 // (a * a + 1) + 7 % (b * b + 1)),
    "reflected": (lambda a, b: 2 - a + 3 * b + 1 / (a * a + 1) + 2 ** b, lambda a,
                  b: 2 - a + 3 * b + 1 / (a * a + 1) + np.float32(2) ** b),
}

PRODUCTS = {
    "matmul": (lambda a, b: a @ b, lambda a, b: a @ b), "matmul_function": (pl.matmul, np.matmul),
            "einsum": (lambda a, b: pl.einsum("ij,jk->ki", a, b), lambda a, b: (a @ b).T),
            "einsum_list": (lambda a, b: pl.einsum("ij,jk", [a, b]), lambda a, b: a @ b),
    "tensordot": (lambda a, b: pl.tensordot(a, b, 1), lambda a, b: np.tensordot(a, b, 1)),
            "tensordot_axes": (lambda a, b: pl.tensordot(a, b, [1], [0]), lambda a,
                               b: np.tensordot(a, b, ([1], [0]))),
            "inner": (lambda a, b: pl.inner(a, b.T), lambda a, b: np.inner(a, b.T)),
    "linear": (lambda a, b: pl.linear(a, b.T, b[0]), lambda a, b: a @ b + b[0]),
            "linear_no_bias": (lambda a, b: pl.linear(a, b.T), lambda a, b: a @ b),
            "mv": (lambda a, b: pl.mv(a, b[:, 0]), lambda a, b: a @ b[:, 0]),
            "outer": (lambda a, b: pl.outer(a[0], b[0]), lambda a, b: np.outer(a[0], b[0])),
    "dot": (lambda a, b: pl.dot(a[0], b[:, 0]), lambda a, b: a[0] @ b[:, 0]),
            "bmm": (lambda a, b: pl.bmm(a[None], b[None]), lambda a, b: (a @ b)[None]),
            "addmm": (lambda a, b: pl.addmm(b[0], a, b, alpha=2), lambda a, b: b[0] + 2 * (a @ b)),
    "multi_dot": (lambda a, b: pl.multi_dot([a, b, b.T]), lambda a, b: a @ b @ b.T),
            "kron": (pl.kron, np.kron), "matrix_power": (lambda a, b: pl.matrix_power(a @ a.T / 9, 3),
                                                         lambda a, b: np.linalg.matrix_power(a @ a.T / 9, 3)),
    "vecdot": (lambda a, b: pl.vecdot(a, b[:, 0]), lambda a, b: a @ b[:, 0]),
            "cdist": (lambda a, b: pl.cdist(a, b.T), lambda a,
                      b: np.sqrt(((a[:, None] - b.T[None]) ** 2).sum(-1))),
            "cov": (lambda a, b: pl.cov(a), lambda a, b: np.cov(a).astype(np.float32)),
    "cosine_similarity": (lambda a, b: pl.cosine_similarity(a, b[:, 0], axis=-1), lambda a,
                          b: a @ b[:, 0] / np.linalg.norm(a, axis=-1) / np.linalg.norm(b[:, 0])),
            "array_right": (lambda a, b: a @ np.ones((a.shape[1], 2), np.float32), lambda a,
                            b: a @ np.ones((a.shape[1], 2), np.float32)),
    "array_left": (lambda a, b: np.ones((2, a.shape[0]), np.float32) @ a, lambda a,
                   b: np.ones((2, a.shape[0]), np.float32) @ a),
            "block_diag": (lambda a, b: pl.block_diag([a, b])[:1], lambda a,
                           b: np.pad(a, [(0, b.shape[0]), (0, b.shape[1])])[:1]),
    "scaled_dot_product_attention": (lambda a, b: pl.scaled_dot_product_attention(
        a[None], b.T[None], b.T[None], scale=1.0), lambda a, b: softmax(a[None] @ b[None]) @ b.T[None]),
}


class Operations(unittest.TestCase):
    def compare(self, name, got, wanted):
        wanted = np.asarray(wanted)
        self.assertEqual(got.shape, wanted.shape, name)
        if wanted.dtype.kind in "bui":
            np.testing.assert_array_equal(got, wanted, name)
        else:
            np.testing.assert_allclose(got, wanted, rtol=3e-4, atol=3e-5, err_msg=name)

    def test_truth_values_beside_masks(self):
        a = np.array([True, False])
        with pl.Graph():
            x, n = pl.tensor(a), pl.tensor(np.array([6, 7], np.int8))
            for got, wanted in (
                (x & True, a), (x | False, a), (x ^ True, ~a), (True & x, a), (pl.where(x, True, False), a),
                (n & True, np.array([0, 1], np.int8)), (x + True, np.array([2, 1], np.int32)),
            ):
                made = evaluate(got)[0]
                self.assertEqual(made.dtype, wanted.dtype)
                np.testing.assert_array_equal(made, wanted)

    def check_all(self, table, draw):
        """Each operation of the table on arrays of its own; all of a round are one program."""
        for round_ in range(ROUNDS):
            made = []
            with pl.Graph():
                for name, (ours, theirs) in table.items():
                    arrays = draw(name)
                    with self.subTest(name, round=round_, shapes=[array.shape for array in arrays]):
                        made.append((name, ours(*[pl.tensor(array) for array in arrays]), theirs(*arrays),
                                     arrays))
                values = evaluate(*[tensor for _, tensor, _, _ in made])
            for (name, _, wanted, arrays), got in zip(made, values):
                with self.subTest(name, round=round_, shapes=[array.shape for array in arrays]):
                    self.compare(name, got, wanted)

    def test_unary(self):
        rng = np.random.default_rng(1)

        def draw(name):
            axes = 2 if name in ("tril", "triu", "diagonal", "rot90") else rng.integers(2, 4)
            return [rng.standard_normal(rng.integers(3, 7, axes), np.float32)]

        self.check_all(UNARY, draw)

    def test_binary_broadcasts(self):
        rng = np.random.default_rng(2)

        def draw(_):
            shape = rng.integers(1, 6, rng.integers(1, 4))
            other = shape[rng.integers(0, len(shape)):].copy()
            other[rng.random(len(other)) < 0.3] = 1
            a, b = rng.standard_normal(shape, np.float32), rng.standard_normal(other, np.float32)
            return [b, a] if rng.random() < 0.5 else [a, b]

        self.check_all(BINARY, draw)

    def test_products(self):
        rng = np.random.default_rng(3)

        def draw(_):
            m, k, n = rng.integers(2, 9, 3)
            return [rng.standard_normal((m, k), np.float32), rng.standard_normal((k, n), np.float32)]

        self.check_all(PRODUCTS, draw)

    def test_indexing_as_numpy(self):
        rng = np.random.default_rng(4)
        made = []
        graph = pl.Graph()
        for round_ in range(150):
            shape = rng.integers(1, 6, rng.integers(1, 5))
            array = rng.standard_normal(shape, np.float32)
            index, arrays, extent = [], rng.random() < 0.5, int(rng.integers(1, 4))
            for size in shape[:rng.integers(1, len(shape) + 1)]:
                kind = rng.integers(0, 5)
                if kind == 0:
                    index.append(int(rng.integers(-size, size)))
                elif kind == 1 and arrays:
                    index.append(rng.integers(-size, size, extent))
                elif kind == 2:
                    index.append(slice(None if rng.random() < 0.3 else int(rng.integers(-8, 8)),
                                       None if rng.random() < 0.3 else int(rng.integers(-8, 8)),
                                       int(rng.choice([1, 2, -1, -2, 3]))))
                else:
                    index.append(slice(None))
                if rng.random() < 0.15:
                    index.append(None)
            if rng.random() < 0.3 and len([i for i in index if i is not None]) < len(shape):
                index.append(...)
            wanted = array[tuple(index)]
            with self.subTest(round=round_, index=index, shape=shape):
                made.append((index, shape, graph.tensor(array)[tuple(index)], wanted))
        for (index, shape, _, wanted), got in zip(made, evaluate(*[tensor for _, _, tensor, _ in made])):
            with self.subTest(index=index, shape=shape):
                np.testing.assert_array_equal(got, wanted)

    def test_convolution_and_pooling(self):
        rng = np.random.default_rng(5)
        x, w = rng.standard_normal((2, 3, 7, 6), np.float32), rng.standard_normal((4, 3, 3, 3), np.float32)
        with pl.Graph():
            a, b = pl.tensor(x), pl.tensor(w)
            got = evaluate(pl.conv2d(a, b, stride=2, padding=(1, 1)), pl.conv2d(a, b, padding="same"),
                           pl.max_pool2d(a, 2), pl.avg_pool(a, (2, 3), stride=1),
                           pl.max_pool(a, 2, stride=(1, 2)),
                           pl.interpolate(a, (14, 12), mode="nearest"))
        padded = np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)])
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
        full = np.einsum("nchwij,ocij->nohw", windows, w)
        np.testing.assert_allclose(got[1], full, rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(got[0], full[:, :, ::2, ::2], rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(got[2], x[:, :, :6, :6].reshape(2, 3, 3, 2, 3, 2).max((3, 5)))
        view = np.lib.stride_tricks.sliding_window_view(x, (2, 3), (2, 3))
        np.testing.assert_allclose(got[3], view.mean((-1, -2)), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(got[4], np.lib.stride_tricks.sliding_window_view(x, (2, 2), (2, 3))[
            :, :, :, ::2].max((-1, -2)))
        np.testing.assert_array_equal(got[5], x.repeat(2, 2).repeat(2, 3))

    def test_scatter_and_gather(self):
        rng = np.random.default_rng(6)
        x, ids = rng.standard_normal((5, 3), np.float32), np.array([4, 0, 2])
        with pl.Graph():
            a, i = pl.tensor(x), pl.tensor(ids)
            got = evaluate(a.gather(i), a.index_select(0, i), pl.index_add(a, 0, i, pl.ones((3, 3)), alpha=2),
                           pl.index_put(a, [i], 0.0), a.scatter(0, i[None, :], 1.5, "add"),
                           pl.index_fill(a, 1, pl.tensor([1]), 9),
                           a.update(0, 1, pl.zeros((2, 3))), pl.embedding(a, i), a.take_along(i[:, None], 0),
                           pl.searchsorted(pl.tensor([0.0, 1.0]), a), pl.bincount(i, 5))
        added = x.copy()
        np.add.at(added, ids, 2)
        put, filled, updated, scattered = x.copy(), x.copy(), x.copy(), x.copy()
        put[ids], filled[:, 1], updated[1:3] = 0, 9, 0
        for column, row in enumerate(ids):
            scattered[row, column] += 1.5
        for one, wanted in zip(got, [x[ids], x[ids], added, put, scattered, filled, updated, x[ids], x[ids],
                                     np.searchsorted([0.0, 1.0], x), np.bincount(ids, minlength=5)]):
            np.testing.assert_allclose(one, wanted, rtol=1e-6)

    def test_random_numbers(self):
        with pl.Graph() as g:
            key = pl.random_key(7)
            first, second = pl.split_key(key)
            u, n, p, e = evaluate(pl.random_uniform(first, (1000,), low=2, high=3),
                                  pl.random_normal(second, (4000,)), pl.random_permutation(first, 50),
                                  pl.random_bernoulli(key, (2000,), p=0.25))
            again, = evaluate(pl.random_uniform(first, (1000,), low=2, high=3))
        self.assertIsNotNone(g)
        self.assertTrue(((u >= 2) & (u < 3)).all())
        self.assertLess(abs(n.mean()), 0.1)
        self.assertLess(abs(n.std() - 1), 0.1)
        self.assertEqual(sorted(p.tolist()), list(range(50)))
        self.assertLess(abs(e.mean() - 0.25), 0.05)
        np.testing.assert_array_equal(u, again)

    def test_every_operation_is_bound_or_has_a_reason(self):
        table = generate.named(generate.collect()[0])
        self.assertGreater(len(table), 300)
        for name, how in table.items():
            self.assertTrue(how, f"{name} is neither bound nor listed in python/generate.py")
            for place in how.split(", "):
                if place.startswith("luminal."):
                    self.assertTrue(callable(getattr(pl, name)), place)
                elif place.startswith("Tensor."):
                    self.assertTrue(callable(getattr(pl.Tensor, name)), place)
        for name in ("set_name", "to", "keep", "retrieve"):
            self.assertTrue(hasattr(pl.Tensor, name), name)

    def test_docstrings_come_from_the_headers(self):
        self.assertIn("Einstein summation", pl.einsum.__doc__)
        self.assertIn("exp(x - max) / sum", pl.softmax.__doc__)
        without = [name for name, how in generate.named(generate.collect()[0]).items()
                   if how.startswith("luminal.") and not (getattr(pl, name).__doc__ or "").strip()]
        self.assertEqual(without, [])


if __name__ == "__main__":
    unittest.main()
