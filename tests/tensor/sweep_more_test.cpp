// tests/tensor/sweep_more_test.cpp -- what is made of other operations, over dtypes, layouts and
// sizes: plan and interpreter.
#include "sweep.h"
#include <gtest/gtest.h>

namespace luminal {
namespace {
using namespace luminal::test;
using In = const std::vector<Tensor>&;
using Out = std::vector<Tensor>;

TEST(SweepMore, Elements) {
  const std::vector<std::vector<int64_t>> one{{3, -1}}, row{{3, -1}, {-1}}, three{{3, -1}, {-1}, {3, 1}};
  sweep({
      {"sums of logarithms", row, all_floats,
       [](In x) -> Out { return {logaddexp(x[0], x[1]), logaddexp2(x[0], x[1]), xlogy(x[0], x[1])}; }, -4, 4,
       true, 24, 1},
      {"angles", one, all_floats, [](In x) -> Out { return {sinc(x[0]), deg2rad(x[0]), rad2deg(x[0])}; }, -4,
       4, false, 8, 0.1},
      {"logit", one, all_floats, [](In x) -> Out { return {logit(x[0]), logit(x[0], 0.1)}; }, 0, 1, true, 24,
       1},
      {"numbers", one, all_numbers,
       [](In x) -> Out { return {nan_to_num(x[0]), nan_to_num(x[0], 1, 2, 3)}; }},
      {"steps", row, all_numbers,
       [](In x) -> Out { return {heaviside(x[0], x[1]), isclose(x[0], x[1], 1e-5, 1e-8, true)}; }},
      {"among", {{3, -1}, {4}}, all_numbers, [](In x) -> Out { return {isin(x[0], x[1])}; }},
      {"scaled", three, all_floats,
       [](In x) -> Out { return {addcmul(x[0], x[1], x[2], 2), addcdiv(x[0], x[1], x[2], 0.5)}; }, -4, 4,
       true, 16, 1},
      {"shrinking", one, all_floats,
       [](In x) -> Out {
         return {hardshrink(x[0]), softshrink(x[0], 0.25), tanhshrink(x[0]), softmin(x[0], 0)};
       },
       -4, 4, false, 24, 1},
      {"ldexp", one, all_floats, [](In x) -> Out { return {ldexp(x[0], 3)}; }, -4, 4, true, 4},
  });
}

TEST(SweepMore, StatisticsAndProducts) {
  const std::vector<std::vector<int64_t>> cube{{3, -1, 4}};
  sweep({
      {"quantiles",
       cube,
       all_floats,
       [](In x) -> Out {
         return {quantile(x[0], {0.0, 0.3, 1.0}, 1), quantile(x[0], 0.5, {}, true),
                 quantile(x[0], 0.7, -1, true, Quantile::nearest)};
       },
       -4,
       4,
       true,
       8,
       1,
       {},
       {},
       1},
      {"modes",
       cube,
       all_numbers,
       [](In x) -> Out {
         Indexed m = mode(x[0], 1), k = mode(x[0], -1, true);
         return {m.values, m.indices, k.values, k.indices};
       },
       0,
       3,
       false,
       0,
       0,
       {},
       {},
       1},
      {"without NaN", cube, all_floats,
       [](In x) -> Out { return {nansum(x[0], 1), nanmean(x[0], {0, 2}, true)}; }, -4, 4, true, 64, 1e36},
      {"extremes", cube, all_numbers,
       [](In x) -> Out {
         MinMax m = aminmax(x[0], {1});
         return {m.min, m.max};
       }},
      {"covariances",
       {{3, -1}},
       wide_floats,
       [](In x) -> Out { return {cov(x[0], 0), trapezoid(x[0], 0.5)}; },
       -4,
       4,
       false,
       32,
       4,
       {},
       {},
       1},
      {"sums of products",
       {{2, 3}, {2, -1}, {-1, 3}},
       wide_floats,
       [](In x) -> Out {
         return {addmm(x[0], x[1], x[2], 0.5, 2), multi_dot({x[1], x[2], x[0].transpose()})};
       },
       -2,
       2,
       false,
       32,
       16},
      {"kron", {{2, -1}, {3, 2}}, all_numbers, [](In x) -> Out { return {kron(x[0], x[1])}; }},
      {"cross",
       {{-1, 3}, {3}},
       wide_floats,
       [](In x) -> Out { return {cross(x[0], x[1])}; },
       -2,
       2,
       false,
       8,
       4},
      {"distances",
       {{3, -1}, {4, -1}},
       wide_floats,
       [](In x) -> Out { return {cdist(x[0], x[1]), cdist(x[0], x[1], 1), vecdot(x[0], x[0])}; },
       -2,
       2,
       false,
       16,
       4},
      {"blocks", {{-1, 2}, {3}}, all_numbers, [](In x) -> Out { return {block_diag({x[0], x[1]})}; }},
  });
}

TEST(SweepMore, PlacesAndImages) {
  const std::vector<std::pair<size_t, DType>> index{{1, DType::i64}};
  const std::vector<std::pair<size_t, std::pair<double, double>>> inside{{1, {0, 2}}};
  sweep({
      {"scatter mean",
       {{3, -1}, {2, -1}, {2, -1}},
       {DType::f32, DType::f64, DType::i32, DType::i8},
       [](In x) -> Out {
         return {scatter_mean(x[0], 0, x[1], x[2]), scatter_mean(x[0], 0, x[1], x[2], false)};
       },
       -4,
       4,
       false,
       8,
       4,
       index,
       inside},
      {"masked scatter",
       {{3, -1}, {3, -1}, {32}},
       all_numbers,
       [](In x) -> Out { return {masked_scatter(x[0], x[1] > 0, x[2])}; }},
      {"take",
       {{3, -1}, {2, 2}},
       all_numbers,
       [](In x) -> Out { return {take(x[0], x[1])}; },
       -4,
       4,
       true,
       0,
       0,
       index,
       inside,
       1},
      {"parts",
       {{4, -1}, {4}},
       all_numbers,
       [](In x) -> Out {
         std::vector<Tensor> parts = tensor_split(x[0], 3);
         return {parts[0], parts[2], column_stack({x[0], x[1]}), slice_scatter(x[0], parts[1], 0, 2)};
       }},
      {"grid",
       {{-1, 2, 4, 3}, {-1, 2, 3, 2}},
       wide_floats,
       [](In x) -> Out {
         return {grid_sample(x[0], x[1]),
                 grid_sample(x[0], x[1], Interpolation::nearest, GridPadding::border, true)};
       },
       -1.4,
       1.4,
       false,
       16,
       4},
      {"columns",
       {{-1, 2, 5, 4}},
       all_floats,
       [](In x) -> Out {
         return {unfold(x[0], {2, 3}, {.padding = 1}), local_response_norm(x[0], 2),
                 channel_shuffle(x[0], 2)};
       },
       -4,
       4,
       false,
       24,
       1},
      {"sum of columns",
       {{-1, 8, 9}},
       wide_floats,
       [](In x) -> Out { return {fold(x[0], {4, 4}, {2, 2})}; },
       -4,
       4,
       false,
       8,
       8},
  });
}

} // namespace
} // namespace luminal
