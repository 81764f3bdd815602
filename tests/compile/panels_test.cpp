// panels_test.cpp -- constants that products read in panels are packed at load, and only those;
// what the packed function computes is the same.
#include "compile/panels.h"
#include "ir/interp.h"
#include <cmath>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <limits>
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

Bindings numbers(const std::vector<std::pair<std::string, std::vector<int64_t>>>& inputs) {
  std::mt19937 random(3);
  Bindings bindings;
  for (const auto& [name, shape] : inputs) {
    HostTensor value;
    value.dtype = DType::f32;
    value.shape = shape;
    int64_t count = 1;
    for (int64_t extent : shape) count *= extent;
    value.data.resize(size_t(4) * size_t(count));
    for (int64_t i = 0; i < count; i++)
      store_f64(DType::f32, value.data.data(), i, double(int(random() % 2001) - 1000) / 512);
    bindings.inputs[name] = std::move(value);
  }
  return bindings;
}

PackedFunction packed(const std::string& text) {
  const Module module = parse_module(text);
  return pack_constants(module.entry(), limits, fuse_step(module.entry()));
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

// Few rows read each panel once, and all of them in one tile: what no cache holds passes by as one
// run. Narrow weights are unpacked for four rows at a time.
TEST(Panels, OfFewRowsAreAsWideAsTheirTile) {
  const auto shape = [](const std::string& text) -> std::string {
    const Module module = parse_module(text);
    kernel::MachineLimits small = limits;
    small.l2 = 16 << 10;
    const PackedFunction made = pack_constants(module.entry(), small, fuse_step(module.entry()));
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

std::string convolution(int channels, int size, int stride = 1) {
  const int out = (size - 1) / stride + 1;
  const std::string axes = fmt::format("[o: 64, i: {0}, j: {0}, c: {1}, r: 3, s: 3]", out, channels);
  return fmt::format(
      "fn @main(%x: f32[{2}, {0}, {0}], weight %w: f32[64, {2}, 3, 3]) {{\n  %a = view %x {1} -> [c, {3}*i + "
      "r "
      "- 1, {3}*j + s - 1] where 1 <= {3}*i + r and {3}*i + r <= {0} and 1 <= {3}*j + s and {3}*j + s <= "
      "{0}\n  %b = view %w {1} -> [o, c, r, s]\n  %p = mul %a, %b\n  %f = fold {1} over [c, r, s] {{ sum "
      "%p[o, i, j, c, r, s] }}\n  %y = get %f, 0\n  return y = %y\n}}\n",
      size, axes, channels, stride);
}

/// Lanes go along the channels of a convolution only where images are too small for them.
TEST(Panels, OfConvolutionsOnSmallImages) {
  EXPECT_EQ(packed(convolution(64, 7)).panels.size(), 1u);
  EXPECT_TRUE(packed(convolution(64, 32)).panels.empty());
  // So do those of small weights, which lie in the first cache: as they lie they fill no lanes.
  EXPECT_EQ(packed(convolution(8, 7)).panels.size(), 1u);
  EXPECT_TRUE(packed(convolution(8, 32)).panels.empty());
  // All of a panel is read for each tile: half as wide where the second cache would not hold it.
  EXPECT_EQ(
      to_string(packed(convolution(512, 7)).function[packed(convolution(512, 7)).panels[0].panels].type()),
      "f32[2, 512, 3, 3, 32]");
}

/// The sum leaves out what of the windows lies beside the image: rows and columns.
TEST(Panels, OfConvolutionsLeaveOutWhatLiesBesideTheImage) {
  const auto domain = [](const Function& f) {
    std::string text;
    for (const Node& node : f.nodes)
      if (const auto* fold = std::get_if<FoldAttr>(&node.attr); fold && fold->space.size() == 6)
        text += to_string(fold->where) + ";";
    return text;
  };
  EXPECT_EQ(domain(packed(convolution(64, 7)).function),
            "i1 + i4 < 8 and i2 + i5 < 8 and i1 + i4 >= 1 and i2 + i5 >= 1;");
  EXPECT_EQ(domain(packed(convolution(64, 14, 2)).function),
            "i1*2 + i4 >= 1 and i2*2 + i5 >= 1;"); // nothing below
  // Few results of a weight that no cache holds: it comes faster in one piece.
  EXPECT_EQ(domain(packed(convolution(512, 7)).function), "1;");
  EXPECT_EQ(domain(packed(convolution(512, 14)).function),
            "i1 + i4 < 15 and i2 + i5 < 15 and i1 + i4 >= 1 and i2 + i5 >= 1;");
  // Of wide windows nearly all columns meet the zeros: no code for each of them.
  const auto wide = [&](int64_t kernel) {
    return domain(packed(fmt::format("fn @main(%x: f32[64, 20, 20], weight %w: f32[64, 64, 3, {0}]) {{\n  %a "
                                     "= view %x [o: 64, i: 20, j: 20, c: "
                                     "64, r: 3, s: {0}] -> [c, i + r - 1, j + s - {1}] where 0 <= i + r - 1 "
                                     "and i + r - 1 < 20 and 0 <= j + "
                                     "s - {1} and j + s - {1} < 20\n  %b = view %w [o: 64, i: 20, j: 20, c: "
                                     "64, r: 3, s: {0}] -> [o, c, r, "
                                     "s]\n  %p = mul %a, %b\n  %f = fold [o: 64, i: 20, j: 20, c: 64, r: 3, "
                                     "s: {0}] over [c, r, s] {{ sum "
                                     "%p[o, i, j, c, r, s] }}\n  %y = get %f, 0\n  return y = %y\n}}\n",
                                     kernel, kernel / 2))
                      .function);
  };
  EXPECT_EQ(wide(9), "i1 + i4 < 21 and i2 + i5 < 24 and i1 + i4 >= 1 and i2 + i5 >= 4;");
  EXPECT_EQ(wide(15), "i1 + i4 < 21 and i1 + i4 >= 1;");
}

/// Of a volume planes and rows are left out, each by a condition of its own.
TEST(Panels, OfVolumesLeaveOutPlanesAndRows) {
  const std::string axes = "[o: 64, h: 5, i: 5, j: 5, c: 16, t: 3, r: 3, s: 3]";
  const Module module = parse_module(fmt::format(
      "fn @main(%x: f32[16, 5, 5, 5], weight %w: f32[64, 16, 3, 3, 3]) {{\n"
      "  %a = view %x {0} -> [c, h + t - 1, i + r - 1, j + s - 1] where 1 <= h + t and h + t <= 5 and "
      "1 <= i + r and i + r <= 5 and 1 <= j + s and j + s <= 5\n"
      "  %b = view %w {0} -> [o, c, t, r, s]\n  %p = mul %a, %b\n"
      "  %f = fold {0} over [c, t, r, s] {{ sum %p[o, h, i, j, c, t, r, s] }}\n"
      "  %y = get %f, 0\n  return y = %y\n}}\n",
      axes));
  Module other = module;
  other.functions.back() = pack_constants(module.entry(), limits, fuse_step(module.entry())).function;
  ASSERT_TRUE(verify(other).empty()) << verify(other)[0];
  for (const Node& node : other.entry().nodes)
    if (const auto* fold = std::get_if<FoldAttr>(&node.attr); fold && fold->space.size() == 8) {
      EXPECT_EQ(to_string(fold->where), "i1 + i5 < 6 and i2 + i6 < 6 and i3 + i7 < 6 and i1 + i5 >= 1 and "
                                        "i2 + i6 >= 1 and i3 + i7 >= 1");
    }
  Bindings bindings = numbers({{"x", {16, 5, 5, 5}}, {"w", {64, 16, 3, 3, 3}}});
  store_f64(DType::f32, bindings.inputs["w"].data.data(), 0, std::numeric_limits<double>::infinity());
  Interpreter plain(module, bindings, InterpMode::bounded), packs(other, bindings, InterpMode::bounded);
  int none = 0;
  for (int64_t o : {0, 63})
    for (int64_t at = 0; at < 125; at++) {
      const std::vector<int64_t> place{o, at / 25, at / 5 % 5, at % 5};
      const double expected = plain.element("y", place).value, got = packs.element("y", place).value;
      none += std::isnan(expected);
      EXPECT_TRUE(std::isnan(expected) ? std::isnan(got) : expected == got) << o << " " << at;
    }
  EXPECT_EQ(none, 125 - 64); // the first plane, row and column of result 0 meet zero times infinity
}

/// What is an input of each step is copied into panels then, where the copy is little beside the products.
TEST(Panels, OfInputsThatWindowsReadAreMadeAtEachStep) {
  const auto with_input = [](int channels, int size) {
    std::string text = convolution(channels, size);
    text.erase(text.find("weight "), 7);
    return text;
  };
  const Module module = parse_module(with_input(32, 40));
  const PackedFunction made = pack_constants(module.entry(), limits, fuse_step(module.entry()));
  EXPECT_TRUE(made.panels.empty());
  ASSERT_EQ(made.copies.size(), 1u);
  const StepFusion fused = fuse_step(module.entry());
  EXPECT_EQ(packed_partition(made, fused.partition, {}).kernels.front(), made.copies)
      << "where boundaries are known the copy is a kernel of its own";
  EXPECT_EQ(made.function[made.copies[0]].kind, NodeKind::view) << "a kernel makes what the fence stores";
  EXPECT_EQ(made.sums.size(), 4u) << "of rows and of columns, by step and by result";
  EXPECT_GE(packed_partition(made, fused.partition, {}).kernels.size(), 6u);
  Module other = module;
  other.functions.back() = made.function;
  ASSERT_TRUE(verify(other).empty()) << verify(other)[0];
  EXPECT_NE(to_string(other).find("%w.panels = view %w [i0: 1, i1: 32, i2: 3, i3: 3, i4: 64]"),
            std::string::npos)
      << to_string(other);
  Bindings bindings = numbers({{"x", {32, 40, 40}}, {"w", {64, 32, 3, 3}}});
  Interpreter plain(module, bindings, InterpMode::bounded), packs(other, bindings, InterpMode::bounded);
  for (int64_t o : {0, 1, 63})
    for (int64_t at = 0; at < 28; at++) {
      const std::vector<int64_t> place{o, at, 27 - at};
      EXPECT_EQ(plain.element("y", place).value, packs.element("y", place).value) << o << " " << at;
    }
  // 9 results read each element: as it lies.
  EXPECT_TRUE(packed(with_input(64, 3)).function.nodes.empty());
}

/// Weights that are turned first, as those of transposed convolutions are, once when they are loaded.
TEST(Panels, OfTurnedWeightsLeaveOutWhatLiesBesideTheImage) {
  std::string text = convolution(32, 5);
  const std::string read = "%b = view %w [o: 64, i: 5, j: 5, c: 32, r: 3, s: 3] -> [o, c, r, s]";
  ASSERT_NE(text.find(read), std::string::npos);
  text.replace(text.find(read), read.size(),
               "%t = view %w [o: 64, c: 32, r: 3, s: 3] -> [o, c, 2 - r, 2 - s]\n  %u = fence %t\n"
               "  %b = view %u [o: 64, i: 5, j: 5, c: 32, r: 3, s: 3] -> [o, c, r, s]");
  const Module module = parse_module(text);
  Module other = module;
  other.functions.back() = pack_constants(module.entry(), limits, fuse_step(module.entry())).function;
  ASSERT_TRUE(verify(other).empty()) << verify(other)[0];
  EXPECT_NE(to_string(other).find("over [c, r, s] where i + r < 6 and j + s < 6"), std::string::npos)
      << to_string(other);
  Bindings bindings = numbers({{"x", {32, 5, 5}}, {"w", {64, 32, 3, 3}}});
  Interpreter plain(module, bindings, InterpMode::bounded), packs(other, bindings, InterpMode::bounded);
  for (int64_t o : {0, 1, 63})
    for (int64_t i = 0; i < 5; i++)
      for (int64_t j = 0; j < 5; j++) {
        const std::vector<int64_t> at{o, i, j};
        EXPECT_EQ(plain.element("y", at).value, packs.element("y", at).value) << o << " " << i << " " << j;
      }
}

TEST(Panels, WithoutWhatLiesBesideTheImageComputeTheSame) {
  Module module = parse_module(convolution(32, 5));
  PackedFunction made = pack_constants(module.entry(), limits, fuse_step(module.entry()));
  ASSERT_EQ(made.panels.size(), 1u);
  Module other = module;
  other.functions.back() = made.function;
  ASSERT_TRUE(verify(other).empty()) << verify(other)[0];
  Bindings bindings = numbers({{"x", {32, 5, 5}}, {"w", {64, 32, 3, 3}}});
  HostTensor& w = bindings.inputs["w"];
  const auto set = [&](int64_t o, int64_t c, int64_t r, int64_t s, double value) {
    store_f64(DType::f32, w.data.data(), ((o * 32 + c) * 3 + r) * 3 + s, value);
  };
  set(1, 4, 0, 0, std::numeric_limits<double>::infinity());
  set(2, 31, 2, 1, std::numeric_limits<double>::quiet_NaN());
  set(63, 0, 0, 2, -std::numeric_limits<double>::infinity());
  Interpreter plain(module, bindings, InterpMode::bounded), packs(other, bindings, InterpMode::bounded);
  int none = 0;
  for (int64_t o : {0, 1, 2, 63})
    for (int64_t i = 0; i < 5; i++)
      for (int64_t j = 0; j < 5; j++) {
        const std::vector<int64_t> at{o, i, j};
        const double expected = plain.element("y", at).value, got = packs.element("y", at).value;
        none += std::isnan(expected);
        EXPECT_TRUE(std::isnan(expected) ? std::isnan(got) : expected == got) << o << " " << i << " " << j;
      }
  EXPECT_EQ(none,
            25 +
                2 * 9); // all of result 2; of 1 and 63 the first row, and the column that meets the other end
}

/// A convolution multiplies each of its weights so often that no conversion stands in its loops:
/// they are widened at load, where nobody reads them otherwise.
TEST(Panels, OfNarrowWeightsOfConvolutionsAreWidened) {
  for (const char* dtype : {"bf16", "f16"}) {
    std::string text = convolution(32, 5);
    const auto replace = [&](const std::string& what, const std::string& by) {
      ASSERT_NE(text.find(what), std::string::npos);
      text.replace(text.find(what), what.size(), by);
    };
    replace("f32[32, 5, 5]", fmt::format("{}[32, 5, 5]", dtype));
    replace("f32[64, 32, 3, 3]) {\n",
            fmt::format("{}[64, 32, 3, 3]) {{\n  %xf = cast f32 %x\n  %wf = cast f32 %w\n", dtype));
    replace("view %x", "view %xf"), replace("view %w", "view %wf");
    const Module module = parse_module(text);
    const PackedFunction made = pack_constants(module.entry(), limits, fuse_step(module.entry()));
    ASSERT_EQ(made.panels.size(), 1u);
    EXPECT_EQ(to_string(made.function[made.panels[0].panels].type()), "f32[1, 32, 3, 3, 64]");
    Module other = module;
    other.functions.back() = made.function;
    ASSERT_TRUE(verify(other).empty()) << verify(other)[0];
    Bindings bindings = numbers({{"x", {32, 5, 5}}, {"w", {64, 32, 3, 3}}});
    for (auto& [name, value] : bindings.inputs) {
      HostTensor narrow{.dtype = module.entry()[module.entry().params[name == "x" ? 0 : 1]].type().dtype};
      narrow.shape = value.shape;
      narrow.data.resize(value.data.size() / 2);
      for (int64_t i = 0; i < int64_t(narrow.data.size()) / 2; i++)
        store_f64(narrow.dtype, narrow.data.data(), i, load_f64(DType::f32, value.data.data(), i));
      value = std::move(narrow);
    }
    Interpreter plain(module, bindings, InterpMode::bounded), packs(other, bindings, InterpMode::bounded);
    for (int64_t o : {0, 1, 63})
      for (int64_t i = 0; i < 25; i++) {
        const std::vector<int64_t> at{o, i / 5, i % 5};
        EXPECT_EQ(packs.element("y", at).value, plain.element("y", at).value) << o << " " << i;
      }
    // Somebody else reads them as they are.
    replace("return y = %y", "return y = %y, w = %w");
    EXPECT_TRUE(packed(text).panels.empty());
  }
}

/// A product with a matrix whose copy lies turned: `more` follows the copy, `results` the product.
std::string copied(const std::string& more = "", const std::string& results = "y = %y") {
  return "fn @main(%x: f32[20, 150], %w: f32[77, 150]) {\n  %t = view %w [k: 150, n: 77] -> [n, k]\n  %c = "
         "fence %t\n" +
         more +
         "  %a = view %x [m: 20, n: 77, k: 150] -> [m, k]\n  %b = view %c [m: 20, n: 77, k: 150] -> [k, n]\n"
         "  %p = mul %a, %b\n  %f = fold [m: 20, n: 77, k: 150] over [k] { sum %p[m, n, k] }\n"
         "  %y = get %f, 0\n  return " +
         results + "\n}\n";
}

/// What is copied at each step is copied into panels; what is read where it lies, or by others as
/// well, stays as it is.
TEST(Panels, AreWhatCopiesAreMadeInto) {
  const PackedFunction made = packed(copied());
  EXPECT_TRUE(made.panels.empty()); // nothing at load
  std::vector<std::string> fences;
  for (const Node& node : made.function.nodes)
    if (node.kind == NodeKind::fence) fences.push_back(to_string(node.type()));
  EXPECT_EQ(fences,
            (std::vector<std::string>{"f32[150, 77]", "f32[2, 150, 64]"})); // nobody reads the first one
  EXPECT_TRUE(packed(copied("", "y = %y, c = %c")).function.nodes.empty());
  EXPECT_TRUE(packed(copied("", "y = %y, t = %t")).function.nodes.empty());
  EXPECT_TRUE(packed(copied("  %h = tanh %c\n", "y = %y, h = %h")).function.nodes.empty());
  EXPECT_TRUE(packed(product(64, 200, 96, "") + "  return y = %y\n}\n").function.nodes.empty());
}

void expect_the_same(const std::string& text, int64_t w_rows, int64_t w_columns) {
  Module module = parse_module(text);
  PackedFunction made = pack_constants(module.entry(), limits, fuse_step(module.entry()));
  ASSERT_FALSE(made.function.nodes.empty());
  Module other = module;
  other.functions.back() = made.function;
  ASSERT_TRUE(verify(other).empty()) << verify(other)[0];
  const Bindings bindings = numbers({{"x", {20, 150}}, {"w", {w_rows, w_columns}}});
  Interpreter plain(module, bindings, InterpMode::bounded), packs(other, bindings, InterpMode::bounded);
  for (int64_t m = 0; m < 20; m += 3)
    for (int64_t n = 0; n < 77; n++) {
      const std::vector<int64_t> at{m, n};
      ASSERT_EQ(plain.element("y", at).value, packs.element("y", at).value) << m << " " << n;
    }
}

TEST(Panels, ComputeTheSame) {
  expect_the_same(product(20, 77, 150, "weight") + "  return y = %y\n}\n", 150, 77);
  expect_the_same(copied(), 77, 150);
}

} // namespace
} // namespace luminal::compile
