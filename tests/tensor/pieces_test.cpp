// tests/tensor/pieces_test.cpp -- maps whose index expressions change along an axis
// (concatenations, padding, rolls, tiles) of random shapes: the plan against the interpreter, bit
// for bit; and scans of many rows.
#include "sweep.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <random>

namespace luminal {
namespace {
using namespace luminal::test;
using In = const std::vector<Tensor>&;
using Out = std::vector<Tensor>;

/// 0, 1, a few, and enough for several vectors and a remainder.
int64_t extent(std::mt19937& random) {
  static constexpr int64_t known[] = {0, 1, 2, 3, 15, 16, 17, 31, 32, 33, 47, 64, 65, 100};
  return known[random() % std::size(known)];
}

/// Each part is computed in its own way, some only read.
Tensor part(const Tensor& x, int64_t kind) {
  switch (kind % 4) {
  case 0: return x;
  case 1: return x * 2 + 1;
  case 2: return x.relu();
  default: return x * x;
  }
}

TEST(Pieces, ConcatenationsOfComputedParts) {
  std::mt19937 random(5);
  std::vector<SweepOp> ops;
  for (int round = 0; round < 12; round++) {
    const int axis = int(random() % 3), parts = 2 + int(random() % 3), kinds = int(random() % 4);
    const std::vector<int64_t> shape{1 + int64_t(random() % 3), 1 + int64_t(random() % 5), extent(random)};
    SweepOp op{.name = "concat", .shapes = {}, .dtypes = {DType::f32, DType::i64, DType::u8}, .make = {}};
    for (int p = 0; p < parts; p++) {
      op.shapes.push_back(shape);
      op.shapes.back()[size_t(axis)] = extent(random);
    }
    op.make = [=](In x) -> Out {
      std::vector<Tensor> list;
      for (size_t p = 0; p < x.size(); p++) list.push_back(part(x[p], int64_t(p) + kinds));
      Tensor all = concat(list, axis);
      return {all, concat({all, all.flip(axis)}, axis), concat({all, part(all, 1)}, (axis + 1) % 3)};
    };
    ops.push_back(op);
  }
  sweep(ops);
}

TEST(Pieces, PaddingAndRolls) {
  std::mt19937 random(6);
  std::vector<SweepOp> ops;
  for (int round = 0; round < 6; round++) {
    const int64_t rows = 4 + int64_t(random() % 5), columns = std::max<int64_t>(4, extent(random));
    const int64_t a = int64_t(random() % 4), b = int64_t(random() % 4), c = int64_t(random() % 4),
                  shift = int64_t(random() % 200) - 100;
    ops.push_back({"pad", {{2, rows, columns}}, {DType::f32, DType::i32, DType::f16}, [=](In x) -> Out {
                     Out out;
                     for (PadMode mode :
                          {PadMode::constant, PadMode::reflect, PadMode::replicate, PadMode::circular})
                       for (const Tensor& t : {x[0], x[0] * x[0]}) {
                         out.push_back(t.pad({{1, a, b}, {2, c, a}}, mode));
                         out.push_back(t.pad({{2, b, c}}, mode));
                       }
                     out.push_back(x[0].roll({shift, 3}, {2, 1}));
                     out.push_back((x[0] + 1).roll(shift, 2).roll(shift, 1));
                     out.push_back(x[0].tile({1, 2, 3}).roll(5, 2));
                     out.push_back(concat({x[0].roll(1, 2), x[0].pad({{2, c, b}}, PadMode::reflect)}, 2));
                     return out;
                   }});
  }
  sweep(ops);
}

/// One kernel computes all parts in place; without pieces each part would be stored first.
TEST(Pieces, PartsAreNotStored) {
  Graph g;
  Tensor x = g.tensor({20, 64}), y = g.tensor({20, 64}), z = g.tensor({20, 32});
  Tensor wide = concat({x * 2, y.relu(), z.exp()}, 1).keep(), high = stack({x.exp(), y + 1, x * y}, 0).keep();
  g.compile();
  EXPECT_THAT(g.report(), testing::HasSubstr("plan main: 2 kernels"));
  EXPECT_EQ(wide.rank() + high.rank(), 5);
}

/// The parts' elements in turn: part 0, part 1, .., part 0.
Tensor in_turn(const std::vector<Tensor>& parts, int axis) { return stack(parts, axis + 1).merge_dims(axis); }

TEST(Pieces, DealtOutInTurn) {
  std::vector<SweepOp> ops;
  for (int64_t parts : {2, 3, 4, 5, 8, 16})
    for (int64_t columns : {1, 5, 16, 28, 33})
      ops.push_back({"in turn",
                     {{3, columns}, {3, columns}},
                     {DType::f32, DType::i32, DType::f64, DType::f16},
                     [parts](In x) -> Out {
                       std::vector<Tensor> list;
                       for (int64_t p = 0; p < parts; p++) list.push_back(part(x[size_t(p % 2)], p));
                       Tensor rows = in_turn(list, 1);
                       return {rows, in_turn({rows, part(rows, 1)}, 0), rows.flip(1), rows.slice(1, 1, -1)};
                     }});
  // Along two axes at once, of images that are computed; and zeros between.
  for (int64_t columns : {7, 16, 28, 45})
    ops.push_back({"images in turn",
                   {{2, 5, columns}, {2, 5, columns}},
                   {DType::f32},
                   [](In x) -> Out {
                     Tensor a = in_turn({x[0], x[1]}, 2), b = in_turn({x[1] * 2, x[0]}, 2);
                     Tensor none = x[0] * 0.0;
                     return {in_turn({a, b}, 1), in_turn({b + 1, a.relu()}, 1),
                             in_turn({in_turn({x[0], none}, 2), in_turn({none, none}, 2)}, 1)};
                   },
                   -4,
                   4,
                   false});
  sweep(ops);
}

/// Along two axes: no part is stored on the way.
TEST(Pieces, DealtOutAlongTwoAxesAtOnce) {
  Graph g;
  Tensor a = g.tensor({4, 20, 28}), b = g.tensor({4, 20, 28});
  Tensor y = in_turn({in_turn({a, b}, 2), in_turn({b, a}, 2)}, 1).keep();
  g.compile();
  EXPECT_THAT(g.report(), testing::HasSubstr("plan main: 1 kernels"));
  EXPECT_EQ(y.rank(), 3);
}

TEST(Pieces, ScansOfManyRows) {
  std::vector<SweepOp> ops;
  for (int64_t rows : {8, 9, 15, 16, 40})
    for (int64_t columns : {1, 2, 33})
      ops.push_back({"scan",
                     {{rows, columns}},
                     {DType::f32, DType::i32},
                     [](In x) -> Out {
                       auto [high, at] = x[0].cummax(1);
                       return {high, at, x[0].cummin(1).values, x[0].cumsum(1)};
                     },
                     -4,
                     4,
                     true,
                     2,
                     40});
  ops.push_back({"dynamic rows", {{-1, 33}}, {DType::f32}, [](In x) -> Out {
                   return {x[0].cummax(1).values, x[0].cummin(1).indices};
                 }});
  sweep(ops);
}

} // namespace
} // namespace luminal
