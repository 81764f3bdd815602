// tests/compile/fuse_test.cpp -- what fusion stores, what it does not.
#include "compile/fuse.h"
#include "luminal/pass.h"
#include <cmath>
#include <gtest/gtest.h>
#include <random>

namespace luminal::compile {
namespace {

Function function_of(FunctionBuilder& b, NodeId result) {
  b.result("y", result);
  return b.finish();
}

Partition fuse_all(const Function& f) { return fuse(whole_region(f)); }

TEST(Fuse, ElementwiseChainIsOneKernel) {
  FunctionBuilder b("f");
  NodeId x = b.input("x", {DType::f32, {1000}}), y = b.input("y", {DType::f32, {1000}});
  Function f = function_of(b, b.map(Op::exp, {b.map(Op::add, {b.map(Op::mul, {x, y}), x})}));
  EXPECT_EQ(fuse_all(f).kernels.size(), 1u);
}

TEST(Fuse, MatmulWithEpilogueIsOneKernelAndItsReaderAnother) {
  FunctionBuilder b("f");
  NodeId x = b.input("x", {DType::f32, {8, 16}}), w = b.input("w", {DType::f32, {16, 32}}, Role::weight),
         v = b.input("v", {DType::f32, {32, 4}}, Role::weight);
  auto product = [&](NodeId p, NodeId q, int64_t m, int64_t n, int64_t k) {
    Shape space{m, n, k};
    NodeId left = b.view(p, space, {axis_symbol(0, m), axis_symbol(2, k)}),
           right = b.view(q, space, {axis_symbol(2, k), axis_symbol(1, n)});
    return b.reduce(Op::add, b.map(Op::mul, {left, right}), {2});
  };
  NodeId hidden = b.map(Op::tanh, {product(x, w, 8, 32, 16)});
  Function f = function_of(b, product(hidden, v, 8, 4, 32));
  EXPECT_EQ(fuse_all(f).kernels.size(), 2u);
}

TEST(Fuse, TheMeanOfARowStaysInTheKernelThatWalksIt) {
  for (const bool keep_axis : {false, true}) {
    FunctionBuilder b("f");
    const Shape space{512, 256}, rows = keep_axis ? Shape{512, 1} : Shape{512};
    const std::vector<Expr> row =
        keep_axis ? std::vector<Expr>{axis_symbol(0, 512), 0} : std::vector{axis_symbol(0, 512)};
    NodeId x = b.input("x", {DType::f32, space});
    auto mean_of = [&](NodeId value) {
      NodeId sum = b.reduce(Op::add, value, {1});
      if (keep_axis) sum = b.view(sum, rows, {axis_symbol(0, 512)});
      return b.map(Op::mul, {sum, b.view(b.constant(DType::f32, 1.0 / 256), rows, {})});
    };
    NodeId centred = b.map(Op::sub, {x, b.view(mean_of(x), space, row)});
    NodeId variance = mean_of(b.map(Op::mul, {centred, centred}));
    Function f = function_of(b, b.map(Op::mul, {centred, b.view(b.map(Op::rsqrt, {variance}), space, row)}));
    EXPECT_EQ(fuse_all(f).kernels.size(), 1u) << keep_axis;
  }
}

TEST(Fuse, DequantisedWeightIsNeverStored) {
  FunctionBuilder b("f");
  NodeId x = b.input("x", {DType::f32, {8, 16}}), w = b.input("w", {DType::i8, {32, 16}}, Role::weight);
  NodeId real = b.map(Op::mul, {b.cast(w, DType::f32), b.view(b.constant(DType::f32, 0.25), {32, 16}, {})});
  Shape space{8, 32, 16};
  NodeId left = b.view(x, space, {axis_symbol(0, 8), axis_symbol(2, 16)}),
         right = b.view(real, space, {axis_symbol(1, 32), axis_symbol(2, 16)});
  Function f = function_of(b, b.reduce(Op::add, b.map(Op::mul, {left, right}), {2}));
  EXPECT_EQ(fuse_all(f).kernels.size(), 1u);
}

/// Scales of eight bits beside codes in one array, times a factor of the row: as f32 they take more
/// than the parts that they are made of, if less than the array.
TEST(Fuse, AValueCountsTheReadPartsOfWeights) {
  for (const DType dtype : {DType::f32, DType::u8}) {
    FunctionBuilder b("f");
    NodeId x = b.input("x", {dtype, {32, 8}}), w = b.input("w", {DType::u8, {32, 64}}, Role::weight),
           d = b.input("d", {DType::u8, {32}}, Role::weight);
    const Shape space{32, 8};
    NodeId scale = b.view(w, space, {axis_symbol(0, 32), axis_symbol(1, 8) + 56}),
           factor = b.view(d, space, {axis_symbol(0, 32)});
    if (dtype == DType::f32) scale = b.cast(scale, dtype), factor = b.cast(factor, dtype);
    const NodeId value = b.map(Op::mul, {scale, factor});
    Function f = function_of(b, b.map(Op::mul, {value, x}));
    Region region;
    region.function = &f;
    region.given = {f.params.begin(), f.params.end()};
    for (const auto& result : f.results) region.wanted.push_back(result.value);
    EXPECT_EQ(load_time_values(region), dtype == DType::u8 ? std::vector{value} : std::vector<NodeId>{})
        << to_string(dtype);
  }
}

/// Values that are used twice at each step lie on very many paths.
NodeId doubled(FunctionBuilder& b, NodeId x, Op op) {
  for (int step = 0; step < 64; step++) x = b.map(op, {x, x});
  return x;
}

TEST(Fuse, ManyPathsTakeNoLonger) {
  FunctionBuilder b("f");
  NodeId x = b.input("x", {DType::f32, {1000}});
  Function f = function_of(b, doubled(b, x, Op::add));
  EXPECT_EQ(fuse_all(f).kernels.size(), 1u);
}

/// Operations of the kernel with these roots, as the bound counts them.
double operations(const Function& f, const std::vector<NodeId>& roots, const std::set<NodeId>& stored) {
  double n = 0;
  std::set<NodeId> seen(roots.begin(), roots.end());
  for (std::vector<NodeId> stack(roots); !stack.empty();) {
    const Node& node = f[stack.back()];
    stack.pop_back();
    if (const auto* map = std::get_if<MapAttr>(&node.attr)) n += is_long_chain(map->op) ? 32 : 1;
    for (NodeId input : node.inputs)
      if (!stored.contains(input) && seen.insert(input).second) stack.push_back(input);
  }
  return n;
}

TEST(Fuse, AKernelHasNoMoreOperationsThanTheBound) {
  struct Chain {
    int steps;
    Op op;
    size_t kernels;
  };
  // 1024 operations a kernel, 32 for a transcendental one.
  for (const Chain chain : {Chain{1024, Op::neg, 1}, Chain{1025, Op::neg, 2}, Chain{5000, Op::neg, 5},
                            Chain{32, Op::sin, 1}, Chain{1000, Op::sin, 32}}) {
    FunctionBuilder b("f");
    NodeId y = b.input("x", {DType::f32, {100}});
    for (int i = 0; i < chain.steps; i++) y = b.map(chain.op, {y});
    const Function f = function_of(b, y);
    const Partition partition = fuse_all(f);
    EXPECT_EQ(partition.kernels.size(), chain.kernels) << chain.steps;
    for (const auto& roots : partition.kernels)
      EXPECT_LE(operations(f, roots, values_in_memory(whole_region(f), partition)), most_operations);
  }
}

/// Values that are read twice each: paths double with each step, operations do not.
TEST(Fuse, SharedValuesCountOnceInAKernel) {
  FunctionBuilder b("f");
  NodeId y = b.input("x", {DType::f32, {100}}), z = b.input("z", {DType::f32, {100}});
  for (int i = 0; i < 60; i++) y = b.map(Op::add, {y, y});
  EXPECT_EQ(fuse_all(function_of(b, y)).kernels.size(), 1u);
  FunctionBuilder c("f");
  y = c.input("x", {DType::f32, {100}}), z = c.input("z", {DType::f32, {100}});
  for (int i = 0; i < 2000; i++) {
    const NodeId sum = c.map(Op::add, {y, z});
    z = c.map(Op::mul, {y, z});
    y = sum;
  }
  const Function f = function_of(c, c.map(Op::max, {y, z}));
  const Partition partition = fuse_all(f);
  EXPECT_LT(partition.kernels.size(), 4000u);
  for (const auto& roots : partition.kernels)
    EXPECT_LE(operations(f, roots, values_in_memory(whole_region(f), partition)), most_operations);
}

} // namespace
} // namespace luminal::compile
