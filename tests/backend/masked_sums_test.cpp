// backend/masked_sums_test.cpp -- products of which a mask hides a part: kernels leave out tiles that nobody
// reads, stored values are masked, and plans equal the interpreter.
#include "compile/fuse.h"
#include "compile/stored_masks.h"
#include "plans.h"
#include <array>
#include <fmt/format.h>
#include <random>

namespace luminal {
namespace {

constexpr std::array masks = {
    "n <= m",  "m <= n",     "n + 5 < 2 * m", "m < n + 3 and n < m + 9",     "n < 9",
    "17 <= m", "m + n < 40", "n % 4 < 2",     "3 <= n and n < 30 and m < n", "n < m - 1000"};

struct MaskedCase {
  int64_t heads, m, n, k, d;
  std::string mask, other; // of a second reader of the scores
  std::string fill;
  bool read_whole = false; // by a third reader
  bool by_columns = false; // the second reader sums over rows

  std::string text() const {
    const std::string scores = fmt::format("[h: {}, m: {}, n: {}]", heads, m, n),
                      inner = fmt::format("[h: {}, m: {}, n: {}, k: {}]", heads, m, n, k),
                      outer = fmt::format("[h: {}, m: {}, d: {}, n: {}]", heads, m, d, n),
                      columns_first = fmt::format("[h: {}, n: {}, m: {}]", heads, n, m);
    std::string s =
        fmt::format(R"(fn @main(%a: f32[{0}, {1}, {3}], %b: f32[{0}, {2}, {3}], %v: f32[{2}, {4}]) {{
  %ab = view %a {5} -> [h, m, k]
  %bb = view %b {5} -> [h, n, k]
  %p = mul %ab, %bb
  %f = fold {5} over [k] {{ sum %p[h, m, n, k] }}
  %s = get %f, 0
  %c = iota bool {6} -> {9}
  %c2 = iota bool {6} -> {10}
  %z = const f32 {11}
  %zb = view %z {6} -> []
  %x = const f32 0
  %xb = view %x {6} -> []
  %t = select %c, %s, %zb
  %e = abs %s
  %u = select %c2, %e, %xb
  %ub = view %u {7} -> [h, m, n]
  %vb = view %v {7} -> [n, d]
  %uv = mul %ub, %vb
  %g = fold {7} over [n] {{ sum %uv[h, m, d, n] }}
  %y = get %g, 0
  %tt = view %t {8} -> [h, m, n]
)",
                    heads, m, n, k, d, inner, scores, outer, columns_first, mask, other, fill);
    s += by_columns ? fmt::format("  %r = fold {} over [m] {{ sum %tt[h, n, m] }}\n  %o = get %r, 0\n",
                                  columns_first)
                    : "  %o = neg %t\n";
    if (read_whole)
      s += fmt::format("  %q = fold {} over [n] {{ max %s[h, m, n] }}\n  %w = get %q, 0\n", scores);
    return s + (read_whole ? "  return y = %y, o = %o, w = %w\n}\n" : "  return y = %y, o = %o\n}\n");
  }
};

void expect_masked_case(const MaskedCase& c, uint64_t seed, int64_t& compared) {
  const Module module = parse_module(c.text(), "masked");
  std::mt19937 random{unsigned(seed)};
  Bindings bindings;
  for (const NodeId id : module.entry().params) {
    const auto& input = std::get<InputAttr>(module.entry()[id].attr);
    HostTensor value{DType::f32, {}, {}};
    int64_t count = 1;
    for (const Expr extent : input.type.shape) value.shape.push_back(extent.value()), count *= extent.value();
    value.data.resize(size_t(4 * count));
    for (int64_t i = 0; i < count; i++)
      store_f64(DType::f32, value.data.data(), i, std::normal_distribution<>(0, 1)(random));
    bindings.inputs[input.name] = std::move(value);
  }
  for (const bool rules : {true, false}) {
    compile::RuleOptions options;
    options.on = rules;
    Running running(module, 1 + int(seed % 2), 0, passes::defaults(), {}, options);
    auto context = running.start(module, bindings);
    auto done = context->run();
    ASSERT_TRUE(done) << done.error();
    expect_interpreted(module, bindings, *context, compared);
    if (testing::Test::HasFatalFailure())
      FAIL() << (rules ? "with rules\n" : "without rules\n") << c.text() << running.report;
  }
}

TEST(MaskedSums, RandomShapesAndMasksEqualTheInterpreter) {
  std::mt19937 random(7);
  const auto pick = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  int64_t compared = 0;
  for (uint64_t seed = 1; seed <= 24; seed++) {
    MaskedCase c{pick(1, 3), pick(1, 150), pick(1, 150), pick(1, 90), pick(1, 20), masks[size_t(pick(0, 9))]};
    c.other = pick(0, 2) ? c.mask : masks[size_t(pick(0, 9))];
    c.fill = std::array{"0", "-inf", "1.5"}[size_t(pick(0, 2))];
    c.by_columns = pick(0, 1) == 1;
    c.read_whole = pick(0, 3) == 0;
    expect_masked_case(c, seed, compared);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(compared, 20000);
}

/// Values that are masked where the partition stores them.
int masked_values(const std::string& text, const std::vector<std::string>& stored) {
  const Module module = parse_module(text, "masked");
  const Function& f = module.entry();
  Partition partition;
  for (const std::string& name : stored)
    for (NodeId id : f.nodes.ids())
      if (f[id].name == name) partition.kernels.push_back({id});
  EXPECT_EQ(partition.kernels.size(), stored.size());
  for (const FunctionResult& r : f.results) partition.kernels.push_back({r.value});
  const compile::MaskedFunction masked = compile::mask_stored(f, partition);
  if (masked.function.nodes.empty()) return 0;
  Module changed = module;
  changed.functions[0] = masked.function;
  EXPECT_TRUE(verify(changed).empty());
  int count = 0;
  for (NodeId id : f.nodes.ids()) count += masked.function[masked.stored_as[id]].kind != f[id].kind;
  return count;
}

/// A sum of some elements and one of all, which read the same exponentials: what is stored of them for the
/// second is not made in the loop of the first.
TEST(MaskedSums, WhatIsStoredForASumOfAllIsMadeForAll) {
  for (const char* role : {"", "weight "})
    for (const char* domain : {"i == 0", "i <= j", "i < 2 and i != j"}) {
      const Module module = parse_module(fmt::format(R"(fn @main({}%x: f32[3, 7]) {{
  %e = exp %x
  %f = fold [i: 3, j: 7] over [i] where {} {{ sum %e[i, j] }}
  %s = get %f, 0
  %sv = view %s [i: 3, j: 7] -> [j]
  %q = div %e, %sv
  %g = fold [i: 3, j: 7] over [i] {{ sum %q[i, j] }}
  %y = get %g, 0
  return y = %y
}})",
                                                     role, domain),
                                         "sums");
      std::vector<double> x;
      for (int i = 0; i < 21; i++) x.push_back(double(i * 5 % 8) / 2);
      Bindings inputs;
      inputs.inputs["x"] = host_tensor(DType::f32, {3, 7}, x);
      Running running(module);
      auto context = running.start(module, inputs);
      ASSERT_TRUE(context->run());
      int64_t compared = 0;
      expect_interpreted(module, inputs, *context, compared);
      EXPECT_EQ(compared, 7) << domain;
    }
}

/// A factor that is not finite does not leave a sum of no elements.
TEST(MaskedSums, ASumOfNothingIsZeroWhateverItsFactor) {
  const Module module = parse_module(R"(fn @main(%c: f16, %x: f16[0], %at: i64[0]) {
  %f = scan [i: 0] along i exclusive reverse {
      max %x[i];
      min(select(bit_or(old0 == new0, is_nan(old0)), self, inf)) %at[i] }
  %most = get %f, 0
  %a = abs %most
  %b = view %c [i: 0] -> []
  %q = div %a, %b
  %g = fold [i: 0] over [i] { sum %q[i] }
  %y = get %g, 0
  return y = %y
})",
                                     "nothing");
  Bindings inputs;
  inputs.inputs["x"] = host_tensor(DType::f16, {0}, {});
  inputs.inputs["at"] = host_tensor(DType::i64, {0}, {});
  inputs.inputs["c"] = host_tensor(DType::f16, {}, std::vector<double>{0});
  Running running(module);
  auto context = running.start(module, inputs);
  ASSERT_TRUE(context->run());
  int64_t compared = 0;
  expect_interpreted(module, inputs, *context, compared);
  EXPECT_EQ(compared, 1);
}

TEST(MaskedSums, OnlyWhatAllReadersReadUnderOneConditionIsMasked) {
  const MaskedCase under_one{2, 40, 50, 8, 3, "n <= m", "n <= m", "0", false, true};
  EXPECT_EQ(masked_values(under_one.text(), {"s"}), 1);
  MaskedCase c = under_one;
  c.other = "m <= n"; // another part
  EXPECT_EQ(masked_values(c.text(), {"s"}), 0);
  c.other = "n <= m and m < n + 20"; // less: what both read is the greater part
  EXPECT_EQ(masked_values(c.text(), {"s"}), 1);
  c = under_one;
  c.read_whole = true;
  EXPECT_EQ(masked_values(c.text(), {"s"}), 0);
  c = under_one;
  c.mask = c.other = "n < m + 45"; // most is read
  EXPECT_EQ(masked_values(c.text(), {"s"}), 0);
  EXPECT_EQ(masked_values(under_one.text(), {}), 0);
}

TEST(MaskedSums, TilesThatTheMaskHidesAreLeftOut) {
  const MaskedCase c{2, 256, 256, 64, 16, "n <= m", "n <= m", "-inf", false, false};
  const auto compiled = compile::compile(parse_module(c.text(), "masked"), compile::Options::host(1));
  ASSERT_TRUE(compiled) << compiled.error();
  int bounded = 0;
  for (const std::string& schedule : compiled->schedules)
    bounded += schedule.find("predicate_bound f k") != std::string::npos ||
               schedule.find("predicate_bound s0 a3") != std::string::npos;
  EXPECT_EQ(bounded, 1);
}

} // namespace
} // namespace luminal
