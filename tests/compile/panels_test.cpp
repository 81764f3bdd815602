// panels_test.cpp -- constants that products read in panels are packed at load, and only those; what the packed function computes is the same.
#include "compile/panels.h"
#include "ir/interp.h"
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <random>

namespace luminal::compile {
namespace {

constexpr kernel::MachineLimits limits{}; // 16 lanes, 32 registers

std::string product(int m, int n, int k, const char* role) {
  return fmt::format(
      "fn @main(%x: f32[{0}, {2}], {3} %w: f32[{2}, {1}]) {{\n  %a = view %x [m: {0}, n: {1}, "
      "k: {2}] -> [m, k]\n  %b = view %w [m: {0}, n: {1}, k: {2}] -> [k, n]\n  %p = mul %a, "
      "%b\n  %f = fold [m: {0}, n: {1}, k: {2}] over [k] {{ sum %p[m, n, k] }}\n  %y = get %f, 0\n",
      m, n, k, role);
}

PackedFunction packed(const std::string& text) {
  const Module module = parse_module(text);
  return pack_constants(module.entry(), limits);
}

TEST(Panels, AreMadeOfConstantsThatAreUsedOften) {
  const PackedFunction made = packed(product(64, 200, 96, "weight") + "  return y = %y\n}\n");
  ASSERT_EQ(made.panels.size(), 1u);
  const Node& panels = made.function[made.panels[0].panels];
  EXPECT_EQ(to_string(panels.type()), "f32[4, 96, 64]");
  EXPECT_EQ(panels.name, "w.panels");
  EXPECT_EQ(made.function[made.panels[0].from].kind, NodeKind::input);
  // Three vectors where four would leave one panel half empty.
  const PackedFunction thirds = packed(product(64, 240, 96, "weight") + "  return y = %y\n}\n");
  ASSERT_EQ(thirds.panels.size(), 1u);
  EXPECT_EQ(to_string(thirds.function[thirds.panels[0].panels].type()), "f32[5, 96, 48]");
}

TEST(Panels, AreNotMadeOfWhatIsNoConstantOrUsedSeldomOrSmall) {
  EXPECT_TRUE(packed(product(64, 200, 96, "") + "  return y = %y\n}\n").panels.empty());
  EXPECT_TRUE(packed(product(8, 200, 96, "weight") + "  return y = %y\n}\n").panels.empty());  // 8 rows
  EXPECT_TRUE(packed(product(64, 64, 64, "weight") + "  return y = %y\n}\n").panels.empty());  // 16 KiB
  EXPECT_TRUE(packed(product(64, 8, 2000, "weight") + "  return y = %y\n}\n").panels.empty()); // no lanes
}

// Few rows read each panel once, and all of them in one tile: what no cache holds passes by as one run. Narrow weights are unpacked for four rows at a time.
TEST(Panels, OfFewRowsAreAsWideAsTheirTile) {
  const auto shape = [](const std::string& text) -> std::string {
    const Module module = parse_module(text);
    kernel::MachineLimits small = limits;
    small.l2 = 16 << 10;
    const PackedFunction made = pack_constants(module.entry(), small);
    return made.panels.empty() ? "none" : to_string(made.function[made.panels[0].panels].type());
  };
  const auto f32 = [&](int m) { return shape(product(m, 200, 96, "weight") + "  return y = %y\n}\n"); };
  EXPECT_EQ(f32(3), "none");
  EXPECT_EQ(f32(4), "f32[4, 96, 64]");
  EXPECT_EQ(f32(8), "f32[7, 96, 32]");
  EXPECT_EQ(f32(15), "f32[13, 96, 16]");
  EXPECT_EQ(f32(16), "f32[4, 96, 64]");
  const auto bf16 = [&](int m) {
    return shape(fmt::format(R"(fn @main(%x: f32[{0}, 96], weight %w: bf16[200, 96]) {{
  %wf = cast f32 %w
  %a = view %x [m: {0}, n: 200, k: 96] -> [m, k]
  %b = view %wf [m: {0}, n: 200, k: 96] -> [n, k]
  %p = mul %a, %b
  %f = fold [m: {0}, n: 200, k: 96] over [k] {{ sum %p[m, n, k] }}
  %y = get %f, 0
  return y = %y
}}
)",
                             m));
  };
  EXPECT_EQ(bf16(4), "bf16[4, 96, 64]");
  EXPECT_EQ(bf16(32), "bf16[4, 96, 64]");
  EXPECT_EQ(bf16(64), "none"); // unpacked once for all rows
}

TEST(Panels, AreNotMadeWhereSomebodyReadsTheConstantAsItIs) {
  const std::string other = "  %t = tanh %w\n  return y = %y, t = %t, x = %x\n}\n";
  EXPECT_TRUE(packed(product(64, 200, 96, "weight") + other).panels.empty());
  EXPECT_TRUE(packed(product(64, 200, 96, "weight") + "  return y = %y, w = %w\n}\n").panels.empty());
}

/// Lanes go along the channels of a convolution only where images are too small for them.
TEST(Panels, OfConvolutionsOnSmallImages) {
  const auto convolution = [](int size) {
    const std::string axes = fmt::format("[o: 64, i: {0}, j: {0}, c: 64, r: 3, s: 3]", size);
    return packed(fmt::format(
        "fn @main(%x: f32[64, {0}, {0}], weight %w: f32[64, 64, 3, 3]) {{\n  %a = view %x {1} -> [c, i + r - "
        "1, j + s - 1] where 1 <= i + r and i + r <= {0} and 1 <= j + s and j + s <= {0}\n  %b = view %w {1} "
        "-> [o, c, r, s]\n  %p = mul %a, %b\n  %f = fold {1} over [c, r, s] {{ sum %p[o, i, j, c, r, s] }}\n "
        " %y = get %f, 0\n  return y = %y\n}}\n",
        size, axes));
  };
  EXPECT_EQ(convolution(7).panels.size(), 1u);
  EXPECT_TRUE(convolution(32).panels.empty());
}

TEST(Panels, ComputeTheSame) {
  const std::string text = product(20, 77, 150, "weight") + "  return y = %y\n}\n";
  Module module = parse_module(text);
  PackedFunction made = pack_constants(module.entry(), limits);
  ASSERT_EQ(made.panels.size(), 1u);
  Module other = module;
  other.functions.back() = made.function;
  ASSERT_TRUE(verify(other).empty()) << verify(other)[0];
  std::mt19937 random(3);
  Bindings bindings;
  for (const auto& [name, rows, columns] : {std::tuple("x", 20, 150), std::tuple("w", 150, 77)}) {
    HostTensor value;
    value.dtype = DType::f32;
    value.shape = {rows, columns};
    value.data.resize(size_t(4) * size_t(rows) * size_t(columns));
    for (int64_t i = 0; i < value.count(); i++)
      store_f64(DType::f32, value.data.data(), i, double(int(random() % 2001) - 1000) / 512);
    bindings.inputs[name] = std::move(value);
  }
  Interpreter plain(module, bindings, InterpMode::bounded), packs(other, bindings, InterpMode::bounded);
  for (int64_t m = 0; m < 20; m += 3)
    for (int64_t n = 0; n < 77; n++) {
      const std::vector<int64_t> at{m, n};
      ASSERT_EQ(plain.element("y", at).value, packs.element("y", at).value) << m << " " << n;
    }
}

} // namespace
} // namespace luminal::compile
