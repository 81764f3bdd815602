// compile/kernel_shape_test.cpp -- kernels of equal layers have equal shapes, and what is taken
// from the memo is what build_cone would have made.
#include "compile/fuse.h"
#include "compile/kernel_shape.h"
#include "cone/canonical_cone.h"
#include <gtest/gtest.h>

namespace luminal::compile {
namespace {

/// Two layers with names of their own that scatter into a state, and a third with another constant.
const char* const layers = R"(
symbol n: 1..64
symbol past: 0..31
fn @main(%x: f32[n, 48], weight %w: f32[48, 48], weight %v: f32[48, 48], weight %u: f32[48, 48], state %c1: f32[96, 48], state %c2: f32[96, 48]) {
  %a1 = view %x [m: n, c: 48, k: 48] -> [m, k]
  %b1 = view %w [m: n, c: 48, k: 48] -> [k, c]
  %p1 = mul %a1, %b1
  %f1 = fold [m: n, c: 48, k: 48] over [k] { sum %p1[m, c, k] }
  %g1 = get %f1, 0
  %h1 = scatter set %c1, %g1 [i: n, c: 48] -> [past + i, c] unique
  %s1 = view %h1 [i: n, c: 48] -> [past + i, c]
  %y1 = tanh %s1
  %a2 = view %y1 [row: n, column: 48, depth: 48] -> [row, depth]
  %b2 = view %v [row: n, column: 48, depth: 48] -> [depth, column]
  %p2 = mul %a2, %b2
  %f2 = fold [row: n, column: 48, depth: 48] over [depth] { sum %p2[row, column, depth] }
  %g2 = get %f2, 0
  %h2 = scatter set %c2, %g2 [i: n, c: 48] -> [past + i, c] unique
  %s2 = view %h2 [i: n, c: 48] -> [past + i, c]
  %y2 = tanh %s2
  %a3 = view %y2 [m: n, c: 48, k: 48] -> [m, k]
  %b3 = view %u [m: n, c: 48, k: 48] -> [k, c]
  %p3 = mul %a3, %b3
  %f3 = fold [m: n, c: 48, k: 48] over [k] { sum %p3[m, c, k] }
  %g3 = get %f3, 0
  %y3 = exp %g3
  return y = %y3, n1 = %h1 -> c1, n2 = %h2 -> c2
})";

struct Kernels {
  Module module;
  Partition partition;
  std::set<NodeId> stored;
};

Kernels kernels_of(const std::string& text) {
  Kernels k{parse_module(text), {}, {}};
  const Function& f = k.module.entry();
  const Region region = whole_region(f);
  k.partition = fuse(region);
  k.stored = values_in_memory(region, k.partition);
  k.stored.insert(region.given.begin(), region.given.end());
  for (NodeId id : f.nodes.ids()) // as a plan has slots for them
    if (f[id].kind == NodeKind::constant) k.stored.insert(id);
  return k;
}

TEST(KernelShape, TheMemoGivesWhatBuildConeMakes) {
  const Kernels k = kernels_of(layers);
  const Function& f = k.module.entry();
  ConeMemo memo;
  std::set<ShapeId> shapes;
  for (const auto& roots : k.partition.kernels) {
    const auto known = memo.cone(f, roots, k.stored, "k");
    ASSERT_TRUE(known) << known.error();
    auto made = kernel::build_cone(f, roots, k.stored, {.name = "k", .in_place = true});
    if (!made) made = kernel::build_cone(f, roots, k.stored, {.name = "k", .in_place = false});
    ASSERT_TRUE(made) << made.error();
    EXPECT_EQ(structural_hash128(kernel::canonical(known->cone).cone),
              structural_hash128(kernel::canonical(*made).cone));
    ASSERT_EQ(known->cone.values.size(), made->values.size());
    for (const kernel::ValueId v : made->values.ids()) {
      EXPECT_EQ(known->cone.values[v].origin, made->values[v].origin) << made->values[v].name;
      EXPECT_EQ(known->cone.values[v].base, made->values[v].base) << made->values[v].name;
      EXPECT_EQ(known->cone.values[v].role, made->values[v].role) << made->values[v].name;
    }
    shapes.insert(known->shape);
  }
  EXPECT_LT(shapes.size(), k.partition.kernels.size()) << "two layers are equal";
}

TEST(KernelShape, WhatACalculationDependsOnIsInIt) {
  const auto of = [](const std::string& body, const std::string& type = "f32") {
    const Kernels k = kernels_of("fn @main(%x: " + type + "[4, 6], %z: " + type + "[4, 6]) {\n" + body +
                                 "  return y = %y\n}\n");
    EXPECT_EQ(k.partition.kernels.size(), 1u) << body;
    return shape_of(k.module.entry(), k.partition.kernels[0], k.stored).text;
  };
  const auto usual = of("  %y = sub %x, %z\n");
  EXPECT_EQ(usual, of("  %y = sub %z, %x\n")) << "inputs are told apart by their types only";
  EXPECT_NE(usual, of("  %y = sub %x, %x\n"));
  EXPECT_NE(usual, of("  %y = add %x, %z\n"));
  EXPECT_NE(usual, of("  %y = sub %x, %z\n", "f64"));
  EXPECT_NE(usual, of("  %v = view %x [i: 6, j: 4] -> [j, i]\n  %u = view %z [i: 6, j: 4] -> [j, i]\n  %y = "
                      "sub %v, %u\n"));
  const auto constant = [&](const std::string& value) {
    return of("  %c = const f32 " + value + "\n  %b = view %c [i: 4, j: 6] -> []\n  %y = mul %x, %b\n");
  };
  EXPECT_EQ(constant("2"), constant("2"));
  EXPECT_NE(constant("2"), constant("3"));
}

} // namespace
} // namespace luminal::compile
