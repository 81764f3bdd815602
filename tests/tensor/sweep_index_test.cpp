// tests/tensor/sweep_index_test.cpp -- movement, indexing, scans and sorting over dtypes, layouts
// and sizes, dynamic ones too.
#include "sweep.h"
#include <gtest/gtest.h>

namespace luminal {
namespace {
using namespace luminal::test;
using In = const std::vector<Tensor>&;
using Out = std::vector<Tensor>;

const std::vector<DType> kinds{DType::f32, DType::f16, DType::i64, DType::u8, DType::boolean};
const std::vector<std::vector<int64_t>> matrix{{3, -1}}, cube{{2, -1, 3}};

TEST(SweepIndex, AxesAndSlices) {
  std::vector<SweepOp> ops;
  ops.push_back({"axes", cube, kinds, [](In x) -> Out {
                   return {x[0].permute({2, 0, 1}),
                           x[0].movedim({0}, {-1}),
                           x[0].flatten(),
                           x[0].flatten(1, 2).unsqueeze(0),
                           x[0].transpose(0, 2).reshape({3, -1}),
                           x[0].unflatten(2, {3, 1}).squeeze()};
                 }});
  ops.push_back({"expand", {{-1, 1, 2}}, kinds, [](In x) -> Out {
                   return {x[0].expand({-1, 4, 2}), x[0].expand_dim(1, 3), x[0].expand_as(x[0])};
                 }});
  ops.push_back({"slices", matrix, kinds, [](In x) -> Out {
                   return {x[0].slice(1, 1, 5),      x[0].slice(1, -3, -1),
                           x[0].slice(1, 0, 100, 3), x[0].slice(1, -1, -100, -1),
                           x[0].slice(1, 4, 0, -2),  x[0].slice({{.start = 1}, {.step = 2}})};
                 }});
  ops.push_back({"flips and rolls", matrix, kinds, [](In x) -> Out {
                   return {x[0].flip(1), x[0].flip({0, 1}), x[0].roll(2, 1), x[0].roll(Dims{-1, 9}, {0, 1}),
                           rot90(x[0]),  rot90(x[0], -1)};
                 }});
  ops.push_back({"repetitions", matrix, kinds, [](In x) -> Out {
                   return {x[0].tile({2, 3}), x[0].repeat({2, 1, 2}), x[0].repeat_interleave(2, 1),
                           x[0].repeat_interleave(3, 0)};
                 }});
  ops.push_back({"triangles", cube, kinds, [](In x) -> Out {
                   return {x[0].tril(), x[0].triu(1), x[0].diagonal(0, 1, 2), x[0].diagonal(-1, 2, 1),
                           diag_embed(x[0], -1)};
                 }});
  sweep(ops);
}

TEST(SweepIndex, PaddingWindowsJoins) {
  std::vector<SweepOp> ops;
  ops.push_back({"pad", matrix, kinds, [](In x) -> Out {
                   return {x[0].pad(1, 2, 1), x[0].pad({{1, 0, 3}, {0, 1, 1}}, PadMode::constant, 1)};
                 }});
  ops.push_back({.name = "replicate",
                 .shapes = matrix,
                 .dtypes = kinds,
                 .make = [](In x) -> Out { return {x[0].pad({{1, 2, 3}}, PadMode::replicate)}; },
                 .least = 1});
  ops.push_back({.name = "reflect",
                 .shapes = matrix,
                 .dtypes = kinds,
                 .make = [](In x) -> Out {
                   return {x[0].pad({{1, 1, 1}}, PadMode::reflect),
                           x[0].pad({{1, 2, 1}, {0, 1, 2}}, PadMode::circular)};
                 },
                 .least = 2});
  ops.push_back(
      {.name = "windows",
       .shapes = matrix,
       .dtypes = kinds,
       .make = [](In x) -> Out { return {x[0].windows(1, 2), windows(x[0], {0, 1}, {2, 2}, {1, 2})}; },
       .least = 2});
  ops.push_back({"joins", {{3, -1}, {3, -1}, {3, 2}}, kinds, [](In x) -> Out {
                   return {concat({x[0], x[1], x[2]}, 1), stack({x[0], x[1], x[0]}, 0),
                           stack({x[0], x[1]}, 2), hstack({x[2], x[0]})};
                 }});
  ops.push_back({"grids", {{-1}, {3}}, kinds, [](In x) -> Out {
                   Out all = meshgrid({x[0], x[1]}, true);
                   all.push_back(cartesian_prod({x[0], x[1]}));
                   return all;
                 }});
  ops.push_back({"excise", matrix, kinds, [](In x) -> Out { return {excise(x[0], 2, 1)}; }});
  sweep(ops);
}

TEST(SweepIndex, GatherAndScatter) {
  std::vector<SweepOp> ops;
  const std::pair<size_t, std::pair<double, double>> rows{1, {0, 4}};
  ops.push_back({.name = "gather",
                 .shapes = {{5, 3}, {2, -1}},
                 .dtypes = kinds,
                 .make = [](In x) -> Out { return {x[0].gather(x[1]), x[0].index_select(0, x[1])}; },
                 .fixed = {{1, DType::i64}},
                 .ranges = {rows}});
  ops.push_back(
      {.name = "gather along",
       .shapes = {{5, 3}, {-1, 2}},
       .dtypes = kinds,
       .make = [](In x) -> Out { return {x[0].gather(0, x[1]), x[0].take_along(x[1].slice(1, 0, 1), 0)}; },
       .fixed = {{1, DType::i32}},
       .ranges = {rows}});
  ops.push_back({.name = "dynamic table",
                 .shapes = {{-1, 3}, {4}},
                 .dtypes = kinds,
                 .make = [](In x) -> Out { return {x[0].gather(x[1]), index_get(x[0], {x[1], x[1]})}; },
                 .fixed = {{1, DType::u8}},
                 .ranges = {{1, {0, 0}}},
                 .least = 1});
  ops.push_back({.name = "scatter",
                 .shapes = {{5, 3}, {-1, 3}, {-1, 3}},
                 .dtypes = kinds,
                 .make = [](In x) -> Out {
                   return {x[0].scatter(0, x[1], x[2]), x[0].scatter(0, x[1], x[2], ScatterOp::max),
                           scatter_reduce(x[0], 0, x[1], x[2], ScatterOp::min, false),
                           index_put(x[0], {x[1].select(1, 0)}, 1)};
                 },
                 .fixed = {{1, DType::i64}},
                 .ranges = {rows}});
  ops.push_back({.name = "index_add",
                 .shapes = {{5, 3}, {-1}, {-1, 3}},
                 .dtypes = some_integers,
                 .make = [](In x) -> Out {
                   return {index_add(x[0], 0, x[1], x[2]), index_copy(x[0], 0, x[1], x[2]),
                           index_fill(x[0], 0, x[1], 3)};
                 },
                 .fixed = {{1, DType::i64}},
                 .ranges = {rows}});
  ops.push_back({"bounded", {{3, -1}}, kinds, [](In x) -> Out {
                   Bounded places = nonzero(x[0], 9);
                   Unique all = unique(x[0], 30);
                   return {places.values, places.count, all.values, all.inverse, all.counts, all.count};
                 }});
  ops.push_back({.name = "masked_select",
                 .shapes = {{3, -1}, {3, -1}},
                 .dtypes = kinds,
                 .make = [](In x) -> Out {
                   Bounded chosen = masked_select(x[0], x[1], 8);
                   return {chosen.values, chosen.count};
                 },
                 .fixed = {{1, DType::boolean}}});
  ops.push_back({.name = "counts",
                 .shapes = {{-1}},
                 .dtypes = some_integers,
                 .make = [](In x) -> Out { return {one_hot(x[0], 4), bincount(x[0], 5)}; },
                 .low = 0,
                 .high = 4,
                 .special = false});
  sweep(ops);
}

TEST(SweepIndex, ScansAndOrder) {
  std::vector<SweepOp> ops;
  const std::vector<DType> numbers{DType::f32, DType::f64, DType::bf16, DType::i64, DType::u8};
  ops.push_back({"cumulative", cube, {DType::i64, DType::i32, DType::u8, DType::boolean}, [](In x) -> Out {
                   return {x[0].cumsum(1), cumsum(x[0], 1, {.exclusive = true}),
                           cumprod(x[0], 1, {.reverse = true}),
                           cumsum(x[0], 1, {.exclusive = true, .reverse = true})};
                 }});
  ops.push_back({.name = "cumulative floats",
                 .shapes = cube,
                 .dtypes = wide_floats,
                 .make = [](In x) -> Out { return {x[0].cumsum(1), x[0].cumprod(2), x[0].logcumsumexp(1)}; },
                 .low = -2,
                 .high = 2,
                 .ulp = 32,
                 .scale = 4});
  ops.push_back({"extremes", cube, kinds, [](In x) -> Out {
                   auto [high, high_at] = x[0].cummax(1);
                   auto [low, low_at] = x[0].cummin(1);
                   return {high, high_at, low, low_at};
                 }});
  ops.push_back({"differences", matrix, {DType::i64, DType::u8, DType::boolean}, [](In x) -> Out {
                   return {diff(x[0], 1, 0), diff(x[0], 2, 0)};
                 }});
  ops.push_back({"sort", matrix, kinds, [](In x) -> Out {
                   auto [up, up_at] = x[0].sort(1);
                   auto [down, down_at] = x[0].sort(1, true);
                   return {up, up_at, down, down_at, x[0].argsort(0)};
                 }});
  ops.push_back({.name = "topk",
                 .shapes = matrix,
                 .dtypes = kinds,
                 .make = [](In x) -> Out {
                   auto [most, most_at] = x[0].topk(2, 1);
                   auto [least, least_at] = x[0].topk(1, 1, false);
                   auto [middle, middle_at] = median(x[0], 1);
                   auto [second, second_at] = kthvalue(x[0], 2, 1);
                   return {most, most_at, least, least_at, middle, middle_at, second, second_at};
                 },
                 .least = 2});
  ops.push_back({"searchsorted", {{2, -1}, {2, 3}}, numbers, [](In x) -> Out {
                   Tensor sorted = x[0].sort(1).values;
                   return {searchsorted(sorted, x[1]), searchsorted(sorted, x[1], true)};
                 }});
  sweep(ops);
}

} // namespace
} // namespace luminal
