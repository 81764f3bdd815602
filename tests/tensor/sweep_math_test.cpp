// tests/tensor/sweep_math_test.cpp -- functions of elements, reductions, products and windows over
// dtypes, layouts and sizes: plan and interpreter.
#include "sweep.h"
#include <gtest/gtest.h>

namespace luminal {
namespace {
using namespace luminal::test;
using In = const std::vector<Tensor>&;
using Out = std::vector<Tensor>;

std::vector<DType> joined(std::vector<DType> a, const std::vector<DType>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST(SweepMath, FunctionsOfElements) {
  const std::vector<std::vector<int64_t>> one{{3, -1}}, same{{3, -1}, {3, -1}}, row{{3, -1}, {-1}};
  const auto types = joined(all_floats, {DType::i32, DType::u8});
  sweep({
      {"rounding", one, types,
       [](In x) -> Out {
         return {x[0].floor(), x[0].ceil(), x[0].round(), x[0].trunc(), x[0].frac(), x[0].sign()};
       }},
      {"tests", one, types, [](In x) -> Out { return {x[0].isnan(), x[0].isinf(), x[0].isfinite(), !x[0]}; }},
      {"inverse", one, all_floats, [](In x) -> Out { return {x[0].asin(), x[0].acos(), x[0].atan()}; }, -1, 1,
       true, 4, 1},
      {"hyperbolic", one, all_floats,
       [](In x) -> Out { return {x[0].sinh(), x[0].cosh(), x[0].asinh(), x[0].acosh(), x[0].atanh()}; }, -4,
       4, true, 24},
      {"exponential", one, all_floats,
       [](In x) -> Out { return {x[0].exp10(), x[0].erfc(), x[0].log10(), x[0].expm1(), x[0].log1p()}; }, -4,
       4, true, 24, 0.1},
      {"activations", one, all_floats,
       [](In x) -> Out {
         return {x[0].mish(),      x[0].elu(),        x[0].celu(0.5), x[0].softplus(), x[0].log_sigmoid(),
                 x[0].hardswish(), x[0].leaky_relu(), x[0].gelu(),    x[0].selu()};
       },
       -4, 4, true, 24, 0.1},
      {"division", same, joined(all_floats, some_integers),
       [](In x) -> Out {
         return {floor_divide(x[0], x[1]), trunc_divide(x[0], x[1]), fmod(x[0], x[1]), x[0] % x[1]};
       }},
      {"choices", row, joined(all_floats, some_integers),
       [](In x) -> Out {
         return {maximum(x[0], x[1]), fmin(x[0], x[1]), clip(x[0], -1, x[1]), logical_xor(x[0], x[1]),
                 masked_fill(x[0], x[0] < x[1], 3)};
       }},
      {"signs", row, all_floats,
       [](In x) -> Out { return {copysign(x[0], x[1]), hypot(x[0], x[1]), atan2(x[0], x[1])}; }, -4, 4, true,
       8, 0.1},
      {"powers", row, joined(all_floats, {DType::i8, DType::i32}),
       [](In x) -> Out { return {pow(x[0], x[1]), pow(x[0], 3), pow(2, x[1])}; }, -3, 6, true, 24},
      {"bits", row, some_integers,
       [](In x) -> Out { return {x[0] & x[1], x[0] | 5, x[0] ^ x[1], ~x[0], x[0] << x[1], x[0] >> 2}; }},
      {"masks", row, bool_only,
       [](In x) -> Out { return {x[0] & x[1], !x[0], x[0] + x[1], select(x[0], 1.5, 2)}; }},
      {"lerp", row, all_floats, [](In x) -> Out { return {lerp(x[0], x[1], 0.25)}; }},
  });
}

TEST(SweepMath, Reductions) {
  const std::vector<std::vector<int64_t>> cube{{3, -1, 4}};
  const auto types = joined(all_floats, {DType::i32, DType::u8, DType::boolean});
  std::vector<SweepOp> ops;
  for (const Axes& axes : {Axes(), Axes(1), Axes({0, 2}), Axes(-1)}) {
    ops.push_back(
        {"sums", cube, types,
         [=](In x) -> Out { return {x[0].sum(axes), x[0].mean(axes, true), x[0].count_nonzero(axes)}; }, -4,
         4, false, 16, 64});
    ops.push_back({"extremes", cube, types, [=](In x) -> Out {
                     return {x[0].max(axes), x[0].min(axes, true), x[0].all(axes), x[0].any(axes)};
                   }});
    ops.push_back({"moments", cube, all_floats,
                   [=](In x) -> Out {
                     return {x[0].var(axes, 0), x[0].norm(2, axes), x[0].logsumexp(axes, true),
                             x[0].norm(3, axes)};
                   },
                   -4, 4, false, 64, 16});
  }
  ops.push_back({"places", cube, types,
                 [](In x) -> Out { return {x[0].argmax(), x[0].argmin(1), x[0].argmax(-1, true)}; }});
  ops.push_back({"softmax", cube, all_floats,
                 [](In x) -> Out {
                   return {x[0].softmax(1), x[0].log_softmax(-1), x[0].layer_norm({1, 2}),
                           x[0].normalize(2, 0)};
                 },
                 -4, 4, false, 64, 4});
  sweep(ops);
}

TEST(SweepMath, ProductsAndWindows) {
  sweep({
      {"matmul",
       {{2, -1, 5}, {5, 3}},
       joined(all_floats, {DType::i32}),
       [](In x) -> Out { return {x[0].matmul(x[1])}; },
       -4,
       4,
       false,
       16,
       32},
      {"einsum",
       {{-1, 3, 2}, {2, 3, 4}},
       wide_floats,
       [](In x) -> Out { return {einsum("bij,jic->cb", {x[0], x[1]}), einsum("bij,kin->b", {x[0], x[1]})}; },
       -4,
       4,
       false,
       16,
       64},
      {"attention",
       {{2, -1, 4}, {2, 5, 4}, {2, 5, 3}},
       wide_floats,
       [](In x) -> Out { return {scaled_dot_product_attention(x[0], x[1], x[2], {.causal = true})}; },
       -2,
       2,
       false,
       32,
       2},
      {"conv",
       {{-1, 4, 7}, {6, 2, 3}, {6}},
       all_floats,
       [](In x) -> Out { return {conv(x[0], x[1], x[2], {.stride = 2, .padding = 1, .groups = 2})}; },
       -2,
       2,
       false,
       32,
       32},
      {"conv over n",
       {{2, 3, -1}, {4, 3, 3}},
       wide_floats,
       [](In x) -> Out { return {conv(x[0], x[1], {}, {.padding = "same"})}; },
       -2,
       2,
       false,
       32,
       32,
       {},
       {},
       1},
      {"transposed",
       {{1, 2, -1}, {2, 3, 4}},
       wide_floats,
       [](In x) -> Out { return {conv_transpose(x[0], x[1], {}, {.stride = 2, .padding = 1})}; },
       -2,
       2,
       false,
       32,
       32,
       {},
       {},
       1},
      {"pools",
       {{2, 6, -1}},
       joined(all_floats, {DType::i32}),
       [](In x) -> Out {
         return {max_pool(x[0], {2, 2}, {.padding = 1}), avg_pool(x[0], {3, 2}, {.stride = {2, 1}}),
                 max_pool_with_indices(x[0], {2, 2}).indices};
       },
       -4,
       4,
       false,
       8,
       4,
       {},
       {},
       2},
      {"adaptive",
       {{2, -1, 7}},
       wide_floats,
       [](In x) -> Out { return {adaptive_avg_pool(x[0], {3}), adaptive_max_pool(x[0], {2})}; },
       -4,
       4,
       false,
       8,
       4},
      {"interpolate",
       {{2, -1, 5}},
       wide_floats,
       [](In x) -> Out {
         return {interpolate(x[0], {8}, Interpolation::linear),
                 interpolate(x[0], {3}, Interpolation::cubic, true), interpolate(x[0], {9})};
       },
       -4,
       4,
       false,
       16,
       8},
      {"fft",
       {{-1, 8, 2}},
       wide_floats,
       [](In x) -> Out { return {fft(x[0]), irfft(x[0])}; },
       -4,
       4,
       false,
       64,
       16},
  });
}

} // namespace
} // namespace luminal
