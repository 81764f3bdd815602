// luminal/unary.h -- the functions of one tensor that take nothing else: a member of Tensor and a
// free function of each name, x.exp() and exp(x).
#pragma once

/// F(name) for each. Floats narrower than f32 are computed in f32, integers as f32 where the
/// function has fractions.
// clang-format off: what stands beside a row belongs to it
#define LUMINAL_UNARY_FUNCTIONS(F) \
  F(neg) F(abs) F(sign) F(square)            /* keep the type; sign(NaN) is NaN */ \
  F(floor) F(ceil) F(round) F(trunc)         /* leave integers alone; round: ties to even */ \
  F(frac)                                    /* x - trunc(x), with the sign of x */ \
  F(sqrt) F(rsqrt) F(recip) F(reciprocal) \
  F(exp) F(exp2) F(exp10) F(expm1) F(log) F(log2) F(log10) F(log1p) \
  F(sin) F(cos) F(tan) F(asin) F(acos) F(atan) \
  F(sinh) F(cosh) F(tanh) F(asinh) F(acosh) F(atanh) \
  F(erf) F(erfc) \
  F(isnan) F(isinf) F(isfinite)              /* bool; false for integers (isfinite: true) */ \
  F(logical_not)                             /* x == 0 */ \
  /* activations, with PyTorch's names, formulas and defaults */ \
  F(relu) F(relu6) F(sigmoid) F(log_sigmoid) F(silu) F(swish) F(gelu) F(gelu_tanh) \
  F(mish) F(hardswish) F(hardsigmoid) F(softsign) F(selu)
// clang-format on
