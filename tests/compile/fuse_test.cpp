// tests/compile/fuse_test.cpp -- what fusion stores, what it does not.
#include "compile/fuse.h"
#include "luminal/pass.h"
#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <optional>
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

/// So do the maximum and the logarithm of the sum of each column, where there are enough columns for lanes.
TEST(Fuse, StatisticsOfColumnsStayInTheKernelThatReadsThem) {
  for (const int64_t width : {4, 64}) { // of few columns, what all their elements share is stored
    FunctionBuilder b("f");
    const Shape space{2, 21, 8, width};
    const std::vector<Expr> column{axis_symbol(0, 2), axis_symbol(2, 8), axis_symbol(3, width)};
    NodeId x = b.input("x", {DType::f32, space});
    NodeId shifted = b.map(Op::sub, {x, b.view(b.reduce(Op::max, x, {1}), space, column)});
    NodeId log = b.map(Op::log, {b.reduce(Op::add, b.map(Op::exp, {shifted}), {1})});
    Function f = function_of(b, b.map(Op::sub, {shifted, b.view(log, space, column)}));
    EXPECT_EQ(fuse_all(f).kernels.size(), width == 64 ? 1u : 3u);
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

/// A parameter with what its optimizer remembers is one kernel, however its values read each other; what
/// waits for a sum over them is not.
TEST(Fuse, ResultsOfOnePointShareAKernel) {
  for (const bool by_norm : {false, true}) {
    FunctionBuilder b("f");
    const TensorType type{DType::f32, {64, 32}};
    NodeId w = b.input("w", type), m = b.input("m", type), v = b.input("v", type), g = b.input("g", type);
    const NodeId m2 = b.map(Op::add, {m, g}), v2 = b.map(Op::add, {v, b.map(Op::mul, {g, g})});
    NodeId step = b.map(Op::div, {m2, b.map(Op::sqrt, {v2})});
    if (by_norm) {
      const NodeId sum = b.reduce(Op::add, b.map(Op::mul, {step, step}), {0, 1});
      step = b.map(Op::div, {step, b.view(sum, type.shape, {})});
    }
    const NodeId w2 = b.map(Op::sub, {w, step});
    b.result("m", m2);
    b.result("v", v2);
    b.result("w", w2);
    const Function f = b.finish();
    const Region region = whole_region(f);
    const Partition partition = fuse(region);
    EXPECT_TRUE(verify(partition, region).empty());
    size_t of_m = partition.kernels.size(), of_v = of_m, of_w = of_m, results = 0;
    for (size_t k = 0; k < partition.kernels.size(); k++)
      for (const NodeId id : partition.kernels[k]) {
        results += id == m2 || id == v2 || id == w2;
        if (id == m2) of_m = k;
        if (id == v2) of_v = k;
        if (id == w2) of_w = k;
      }
    EXPECT_EQ(results, 3u);
    EXPECT_EQ(of_m, of_v);
    EXPECT_EQ(of_m == of_w, !by_norm);
    if (!by_norm) {
      ASSERT_EQ(partition.kernels.size(), 1u);
      EXPECT_EQ(partition.kernels[0].size(), 3u); // nothing between them is stored
    }
  }
}

/// Two pairs of results, each of which waits for a sum of the other: one of them has to be parted.
TEST(Fuse, KernelsOfSeveralResultsDoNotWaitForEachOther) {
  FunctionBuilder b("f");
  const TensorType type{DType::f32, {64, 32}}, other{DType::f32, {64, 16}};
  const NodeId x = b.input("x", type), y = b.input("y", other);
  const auto sum = [&](NodeId of, const TensorType& to) {
    return b.view(b.reduce(Op::add, of, {0, 1}), to.shape, {});
  };
  const NodeId a = b.map(Op::exp, {x}), c = b.map(Op::exp, {y});
  b.result("a", a);
  b.result("c", c);
  b.result("d", b.map(Op::add, {y, sum(a, other)}));
  b.result("e", b.map(Op::add, {x, sum(c, type)}));
  const Function f = b.finish();
  const Region region = whole_region(f);
  EXPECT_TRUE(verify(fuse(region), region).empty());
}

/// exp(x - max) of rows that no cache holds is made by each of its readers; of small ones it is stored.
TEST(Fuse, LargeValuesThatCostOneReadAreNotStored) {
  for (const int64_t rows : {16, 4096}) {
    FunctionBuilder b("f");
    const Shape shape{rows, 1024};
    const NodeId x = b.input("x", {DType::f32, shape}), y = b.input("y", {DType::f32, {1024, rows}});
    const auto row = std::vector{axis_symbol(0, rows)};
    const NodeId e = b.map(Op::exp, {b.map(Op::sub, {x, b.view(b.reduce(Op::max, x, {1}), shape, row)})});
    const NodeId sum = b.reduce(Op::add, e, {1});
    b.result("p", b.map(Op::div, {e, b.view(sum, shape, row)}));
    const NodeId turned = b.view(e, {1024, rows}, {axis_symbol(1, rows), axis_symbol(0, 1024)});
    b.result("q", b.map(Op::mul, {turned, y}));
    const Function f = b.finish();
    const Region region = whole_region(f);
    const Partition partition = fuse(region);
    EXPECT_TRUE(verify(partition, region).empty());
    bool stored = false;
    for (const auto& kernel : partition.kernels) stored |= std::ranges::find(kernel, e) != kernel.end();
    EXPECT_EQ(stored, rows == 16) << to_string(partition, f);
  }
}

/// An index that is read from memory may begin behind 0: a condition on its remainder is counted over what it
/// can be.
TEST(Fuse, RemaindersOfIndicesThatAreReadBeginWhereTheseDo) {
  const Module module = parse_module(R"(fn @main(%x: i16[1], %v: f32[4]) {
  %a = view %v [i0: 4] -> [i0] where i0 % 2 == 0 fill 0
  %b = view %a [i0: 1] with h0 = %x[i0] in 2..4 fill -> [h0] where 0 fill 0
  return y = %b
}
)");
  EXPECT_EQ(fuse_all(module.entry()).kernels.size(), 1u);
}

/// The norm of many gradients: their sums are kernels of their own.
TEST(Fuse, LongSumsRunApart) {
  FunctionBuilder b("f");
  std::optional<NodeId> total;
  for (int i = 0; i < 5; i++) {
    const NodeId x = b.input("x" + std::to_string(i), {DType::f32, {128, 128}});
    const NodeId sum = b.reduce(Op::add, b.map(Op::mul, {x, x}), {0, 1});
    total = total ? b.map(Op::add, {*total, sum}) : sum;
  }
  EXPECT_EQ(fuse_all(function_of(b, b.map(Op::sqrt, {*total}))).kernels.size(), 5u);
}

/// Panels of windows are laid out for one product: a second one has a kernel of its own, and a product of
/// matrices shares the kernel of another.
TEST(Fuse, ConvolutionsThatMeetInASumAreTwoKernels) {
  for (const int64_t taps : {1, 3}) {
    FunctionBuilder b("f");
    const int64_t length = 64, channels = 64;
    const auto convolved = [&](const char* x, const char* w, int64_t width) {
      const Shape space{channels, length, channels, width};
      const NodeId image = b.input(x, {DType::f32, {channels, length + width - 1}}),
                   weight = b.input(w, {DType::f32, {channels, channels, width}}, Role::weight);
      const Expr o = axis_symbol(0, channels), at = axis_symbol(1, length), c = axis_symbol(2, channels),
                 tap = axis_symbol(3, width);
      const NodeId product =
          b.map(Op::mul, {b.view(image, space, {c, at + tap}), b.view(weight, space, {o, c, tap})});
      return b.reduce(Op::add, product, {2, 3});
    };
    const Function f = function_of(b, b.map(Op::add, {convolved("x", "w", 1), convolved("z", "v", taps)}));
    EXPECT_EQ(fuse_all(f).kernels.size(), taps > 1 ? 2U : 1U) << taps;
  }
}

} // namespace
} // namespace luminal::compile
