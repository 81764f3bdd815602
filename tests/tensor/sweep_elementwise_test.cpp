// tests/tensor/sweep_elementwise_test.cpp -- operations of single elements over dtypes, layouts,
// broadcasting and sizes.
#include "sweep.h"
#include <gtest/gtest.h>

namespace luminal {
namespace {
using namespace luminal::test;
using In = const std::vector<Tensor>&;

TEST(Sweep, Arithmetic) {
  std::vector<SweepOp> ops;
  const std::vector<std::vector<int64_t>> same{{3, -1}, {3, -1}}, row{{3, -1}, {-1}}, column{{3, -1}, {3, 1}};
  ops.push_back(
      {"add", same, all_numbers, [](In x) -> std::vector<Tensor> { return {x[0] + x[1], x[1] - x[0]}; }});
  ops.push_back(
      {"add row", row, all_numbers, [](In x) -> std::vector<Tensor> { return {x[0] + x[1], x[1] * x[0]}; }});
  ops.push_back({"div column", column, all_numbers,
                 [](In x) -> std::vector<Tensor> { return {x[0] / x[1], x[0] % x[1]}; }});
  sweep(ops, {.every_layout = true});
}

} // namespace
} // namespace luminal
