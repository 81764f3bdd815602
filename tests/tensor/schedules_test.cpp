// tests/tensor/schedules_test.cpp -- what the default schedule has a way of its own for, in sizes
// that fit its blocks and sizes that do not: the plan against the interpreter.
#include "sweep.h"
#include <array>
#include <gtest/gtest.h>

namespace luminal {
namespace {
using namespace luminal::test;
using In = const std::vector<Tensor>&;
using Out = std::vector<Tensor>;

TEST(Schedules, CopiesThatTurnRowsIntoColumns) {
  std::vector<SweepOp> ops;
  for (auto [rows, columns] : {std::pair<int64_t, int64_t>{32, 48}, {37, 50}, {64, 33}, {100, 17}}) {
    ops.push_back({"matrix", {{rows, columns}}, all_numbers, [](In x) -> Out {
                     return {x[0].transpose().contiguous()};
                   }});
    ops.push_back({"with rows", {{rows, columns}, {columns, rows}}, wide_floats, [](In x) -> Out {
                     return {x[0].transpose() * 2 + x[1], x[1] + x[0].flip(0).transpose()};
                   }});
    ops.push_back({"batch", {{3, rows, 2, columns}}, wide_floats, [](In x) -> Out {
                     return {x[0].permute({0, 3, 2, 1}).contiguous(), x[0].permute({3, 0, 2, 1}) + 1};
                   }});
  }
  ops.push_back(
      {"dynamic", {{40, -1}}, wide_floats, [](In x) -> Out { return {x[0].transpose().contiguous()}; }});
  sweep(ops);
}

TEST(Schedules, StatisticsOfColumns) {
  std::vector<SweepOp> ops;
  for (int64_t columns : {32, 64, 130, 201})
    ops.push_back({"columns",
                   {{9, columns}},
                   wide_floats,
                   [](In x) -> Out { // eps 0.01: of equal rows, rounding of the mean grows by 10 at most
                     return {x[0].softmax(0), x[0].layer_norm(0, 0.01), x[0].logsumexp(0),
                             x[0] - x[0].max(0)};
                   },
                   -4,
                   4,
                   false,
                   32,
                   4});
  ops.push_back({"middle",
                 {{3, -1, 70}},
                 wide_floats,
                 [](In x) -> Out { return {x[0].softmax(1)}; },
                 -4,
                 4,
                 false,
                 32,
                 1});
  sweep(ops);
}

TEST(Schedules, ProductsOfRowsWithRows) {
  std::vector<SweepOp> ops;
  for (auto [m, n, k] : {std::array<int64_t, 3>{48, 64, 32}, {50, 65, 33}, {97, 130, 70}, {64, 200, 300}}) {
    ops.push_back(
        {"linear",
         {{m, k}, {n, k}, {n}},
         wide_floats,
         [](In x) -> Out { return {linear(x[0], x[1], x[2]).relu(), x[1].matmul(x[0].transpose())}; },
         -2,
         2,
         false,
         64,
         64});
    ops.push_back({"chain",
                   {{m, k}, {k, n}, {n, m}},
                   wide_floats,
                   [](In x) -> Out { return {x[0].matmul(x[1]).matmul(x[2])}; },
                   -1,
                   1,
                   false,
                   256,
                   256});
  }
  sweep(ops);
}

/// Windows that are copied in blocks of rows: of a prime number of rows, one by one.
TEST(Schedules, WindowsOfPrimeNumbersOfRows) {
  std::vector<SweepOp> ops;
  for (int64_t side : {29, 31, 13})
    ops.push_back({"conv",
                   {{1, 16, side, side}, {20, 16, 3, 3}, {16, 20, 4, 4}},
                   {DType::f32},
                   [](In x) -> Out {
                     return {conv2d(x[0], x[1], {}, {.padding = 1}),
                             conv_transpose(x[0], x[2], {}, {.stride = 2, .padding = 1})};
                   },
                   -1,
                   1,
                   false,
                   64,
                   64});
  sweep(ops);
}

/// Maps without lanes, of which several elements are written out, and updates in order.
TEST(Schedules, ElementByElement) {
  std::vector<SweepOp> ops;
  for (int64_t n : {1, 15, 16, 17, 18, 19, 70})
    ops.push_back({"indices",
                   {{3, n}, {3, n}},
                   {DType::f32},
                   [n](In x) -> Out {
                     Tensor at = (x[1].abs() * 100).cast(DType::i64) % n;
                     return {x[0].gather(1, at), x[0].scatter(1, at, x[1], ScatterOp::add),
                             bincount(at.flatten(0, 1), n)};
                   },
                   -4,
                   4,
                   false,
                   16,
                   64});
  sweep(ops);
}

/// Lanes in panels of 2048 columns: shares of the workers that are halves of them would be none.
TEST(Schedules, PanelsWiderThanShares) {
  Graph g;
  const int64_t length = 2048, channels = 64;
  Tensor x = g.tensor({2, channels, length}), w = g.tensor({channels, channels});
  Tensor y = x.permute({2, 0, 1}).reshape({2 * length, channels}).matmul(w).keep();
  std::vector<float> values(size_t(2 * channels * length)), weights(size_t(channels * channels));
  for (size_t i = 0; i < values.size(); i++) values[i] = float(i * 7 % 13) - 6;
  for (size_t i = 0; i < weights.size(); i++) weights[i] = float(i * 5 % 11) - 5;
  x.set(values), w.set(weights);
  g.execute();
  const std::vector<float> got = y.data<float>();
  for (int64_t row : {0, 1, 777, 4095})
    for (int64_t column : {0, 9, 63}) {
      float sum = 0;
      for (int64_t k = 0; k < channels; k++)
        sum += values[size_t((row % 2 * channels + k) * length + row / 2)] *
               weights[size_t(k * channels + column)];
      EXPECT_EQ(got[size_t(row * channels + column)], sum) << row << ", " << column;
    }
}

/// Results of transposed convolutions, whose columns come from as many parts as a step is wide: all, or
/// the whole blocks of them and what is left.
TEST(Schedules, ColumnsFromParts) {
  std::vector<SweepOp> ops;
  for (auto [stride, columns] : {std::pair<int64_t, int64_t>{2, 18}, {2, 40}, {3, 23}, {3, 40}, {5, 17}})
    for (int64_t dilation : {1, 2})
      ops.push_back({"transposed",
                     {{2, 3, 4, columns}, {3, 4, 3, 3}},
                     wide_floats,
                     [stride, dilation](In x) -> Out {
                       ConvTransposeOptions options;
                       options.stride = stride, options.padding = 1, options.dilation = dilation;
                       return {conv_transpose(x[0], x[1], {}, options)};
                     },
                     -4,
                     4,
                     false,
                     16,
                     64});
  sweep(ops);
}

/// One vector of each part, exchanged in registers, also where the last block is not whole.
TEST(Schedules, PartsOfWholeBlocks) {
  Graph g;
  Tensor x = g.tensor({1, 4, 32, 40}), w = g.tensor({4, 8, 3, 3});
  ConvTransposeOptions options;
  options.stride = 2, options.padding = 1;
  conv_transpose(x, w, {}, options).keep(); // 79 columns
  g.compile();
  const std::string text = g.report();
  const size_t at = text.find("segments");
  ASSERT_NE(at, std::string::npos) << text;
  EXPECT_NE(text.find("vector", at), std::string::npos) << text;
}

} // namespace
} // namespace luminal
