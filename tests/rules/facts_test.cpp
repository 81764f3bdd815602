// rules/facts_test.cpp -- what is known of classes: axes, passes, bounds, constants, positions.
#include "luminal/error.h"
#include "rules/enter_region.h"
#include "rules/saturate.h"
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace luminal {
namespace {

using rules::divides_safely;
using rules::Info;

/// A function with its region entered and its facts found.
class Facts {
public:
  explicit Facts(const std::string& text) : module_(parse_module(text)), flat_(module_, module_.entry()) {
    rules::RegionNodes region;
    for (const FunctionResult& r : module_.entry().results) region.roots.push_back(r.value);
    entered_ = rules::enter(terms_, flat_, region).value();
    rules::find_facts(terms_);
  }
  const Info& of(const std::string& name) {
    for (const FunctionResult& r : module_.entry().results)
      if (r.name == name) return rules::info_of(terms_, entered_.classes[r.value]);
    throw Error("no result is called " + name);
  }

private:
  Module module_;
  rules::FlatFunction flat_;
  rules::RegionTerms terms_;
  rules::Entered entered_;
};

TEST(Facts, PassesThatWaitForEachOther) {
  Facts f(R"(
fn @main(%x: f32[3, 5]) {
  %mf = fold [i: 3, k: 5] over [k] { max %x[i, k] }
  %m = get %mf, 0
  %mx = view %m [i: 3, k: 5] -> [i]
  %d = sub %x, %mx
  %e = exp %d
  %sf = fold [i: 3, k: 5] over [k] { sum %e[i, k] }
  %s = get %sf, 0
  %tf = fold [i: 3] over [i] { sum %s[i] }
  %t = get %tf, 0
  return x = %x, m = %m, e = %e, s = %s, t = %t
})");
  EXPECT_EQ(f.of("x").depth(), 0);
  EXPECT_EQ(f.of("m").depth(), 1);
  EXPECT_EQ(f.of("e").depth(), 1);
  EXPECT_EQ(f.of("s").depth(), 2);
  EXPECT_EQ(f.of("t").depth(), 2);
  EXPECT_EQ(f.of("t").passes.size(), 2u) << "one pass over the rows, two over their elements";
  EXPECT_EQ(f.of("x").axes.size(), 2);
  EXPECT_EQ(f.of("e").axes.size(), 2);
  EXPECT_EQ(f.of("s").axes.size(), 1);
  EXPECT_EQ(f.of("t").axes.size(), 0);
  EXPECT_TRUE(f.of("s").not_negative());
  EXPECT_FALSE(f.of("s").positive()) << "exponentials underflow";
}

TEST(Facts, BoundsAndConstants) {
  Facts f(R"(
fn @main(%x: f32[3], weight %w: f32[3], %h: f16[3], %n: i32[3]) {
  %q = mul %x, %x
  %eps = const f32 1e-05
  %ev = view %eps [i: 3] -> []
  %p = add %q, %ev
  %r = rsqrt %p
  %two = const f32 2
  %four = mul %two, %two
  %fv = view %four [i: 3] -> []
  %xf = add %x, %fv
  %third = recip %four
  %s = sigmoid %w
  %three = const f32 3
  %rounded = recip %three
  %b = lt %x, %w
  %hf = cast f32 %h
  %nf = cast f32 %n
  return q = %q, p = %p, r = %r, four = %four, quarter = %third, s = %s, rounded = %rounded, b = %b,
    hf = %hf, w = %w, xf = %xf, nf = %nf
})");
  EXPECT_TRUE(f.of("q").not_negative());
  EXPECT_FALSE(f.of("q").positive());
  EXPECT_TRUE(f.of("p").positive());
  EXPECT_TRUE(f.of("r").not_negative());
  EXPECT_EQ(f.of("four").number(), 4);
  EXPECT_EQ(f.of("quarter").number(), 0.25);
  EXPECT_EQ(f.of("rounded").number(), std::nullopt) << "a third is rounded: it stays a term";
  EXPECT_TRUE(f.of("rounded").fixed);
  EXPECT_EQ(f.of("s").low, 0);
  EXPECT_EQ(f.of("s").high, 1);
  EXPECT_TRUE(f.of("w").fixed);
  EXPECT_FALSE(f.of("q").fixed);
  EXPECT_EQ(f.of("b").dtype, DType::boolean);
  EXPECT_EQ(f.of("hf").dtype, DType::f32);
  EXPECT_EQ(f.of("nf").low, -std::numeric_limits<double>::infinity());
}

TEST(Facts, DivisorsThatAreLargeEnough) {
  Facts f(R"(
fn @main(%x: f32[3, 5], %h: f16[3]) {
  %q = mul %x, %x
  %vf = fold [i: 3, k: 5] over [k] { sum %q[i, k] }
  %v = get %vf, 0
  %eps = const f32 1e-12
  %ev = view %eps [i: 3] -> []
  %p = add %v, %ev
  %r = sqrt %p
  %small = const f32 1e-39
  %sv = view %small [i: 3] -> []
  %t = max %v, %sv
  %s = sqrt %v
  %c = cast f16 %r
  %mf = fold [i: 3, k: 5] over [k] { max %q[i, k] }
  %m = get %mf, 0
  %n = max %m, %ev
  %u = recip %n
  return v = %v, p = %p, r = %r, s = %s, t = %t, c = %c, h = %h, m = %m, u = %u, eps = %eps
})");
  EXPECT_FALSE(divides_safely(f.of("v"))) << "it may be subnormal";
  EXPECT_TRUE(divides_safely(f.of("p")));
  EXPECT_TRUE(divides_safely(f.of("r")));
  EXPECT_TRUE(divides_safely(f.of("eps")));
  EXPECT_TRUE(divides_safely(f.of("s"))) << "it is 0, or 2^-75 and more";
  EXPECT_FALSE(divides_safely(f.of("t"))) << "1 / 1e-39 is infinite";
  EXPECT_TRUE(f.of("t").positive());
  EXPECT_FALSE(divides_safely(f.of("c"))) << "reciprocals of f16 end at 65504";
  EXPECT_FALSE(f.of("c").positive());
  EXPECT_FALSE(divides_safely(f.of("h")));
  EXPECT_TRUE(f.of("v").extremum.empty());
  EXPECT_EQ(f.of("m").extremum.size(), 1);
  EXPECT_EQ(f.of("u").extremum, f.of("m").extremum);
}

/// A factor that is far from the ends of its type's range may leave products.
TEST(Facts, MagnitudesOfStatistics) {
  Facts f(R"(
symbol T: 0..1000
fn @main(%x: f32[3, T], %y: f32[3], %d: f64[3], %n: i32[3]) {
  %q = mul %x, %x
  %vf = fold [i: 3, k: T] over [k] { sum %q[i, k] }
  %v = get %vf, 0
  %r = rsqrt %v
  %mf = fold [i: 3, k: T] over [k] { max %x[i, k] }
  %m = get %mf, 0
  %mv = view %m [i: 3, k: T] -> [i]
  %less = neg %mv
  %e0 = add %x, %less
  %e = exp %e0
  %lf = fold [i: 3, k: T] over [k] { sum %e[i, k] }
  %l = get %lf, 0
  %w = recip %l
  %j = max %m, %y
  %jn = neg %j
  %jv = view %jn [i: 3, k: T] -> [i]
  %b0 = add %x, %jv
  %b = exp %b0
  %bf = fold [i: 3, k: T] over [k] { sum %b[i, k] }
  %bs = get %bf, 0
  %c0 = add %y, %jn
  %c1 = exp %c0
  %z = add %bs, %c1
  %s = sqrt %d
  %c = cast f32 %n
  %a = abs %c
  %half = const f32 0.5
  %hv = view %half [i: 3] -> []
  %h = mul %r, %hv
  %u = mul %r, %r
  return v = %v, r = %r, l = %l, w = %w, z = %z, bs = %bs, s = %s, c = %c, h = %h, u = %u, e = %e, a = %a
})");
  using rules::Magnitude;
  EXPECT_EQ(f.of("v").reach(), (Magnitude{152, 128})) << "all numbers of the type";
  EXPECT_EQ(f.of("r").reach(), (Magnitude{64, 80}));
  EXPECT_EQ(f.of("l").reach(), (Magnitude{0, 16})) << "it is 0, or from 1 to the number of terms";
  EXPECT_EQ(f.of("l").low, 0) << "of no terms";
  EXPECT_EQ(f.of("w").reach(), (Magnitude{16, 0}));
  EXPECT_EQ(f.of("s").reach(), (Magnitude{544, 512}));
  EXPECT_EQ(f.of("c").reach(), (Magnitude{0, 64}));
  EXPECT_EQ(f.of("h").reach(), (Magnitude{72, 80}));
  EXPECT_EQ(f.of("u").reach(), (Magnitude{128, 128}));
  for (const char* name : {"r", "w", "l", "z", "s", "c", "h"}) EXPECT_TRUE(is_mid_range(f.of(name))) << name;
  for (const char* name : {"v", "u", "e", "bs"}) EXPECT_FALSE(is_mid_range(f.of(name))) << name;
  EXPECT_TRUE(is_never_large(f.of("e")));
  EXPECT_FALSE(is_never_large(f.of("v")));
}

TEST(Facts, ConditionsAndPositionsAreExpressions) {
  Facts f(R"(
symbol S: 1..64
fn @main(%x: f32[S, S], %labels: i64[S]) {
  %i = iota i64 [i: S, j: S] -> i
  %j = iota i64 [i: S, j: S] -> j
  %m = le %j, %i
  %none = const f32 -inf
  %nv = view %none [i: S, j: S] -> []
  %y = select %m, %x, %nv
  %lv = view %labels [i: S, j: S] -> [i]
  %hot = eq %j, %lv
  %n = iota i64 [] -> S
  %nf = cast f32 %n
  return y = %y, m = %m, hot = %hot, nf = %nf
})");
  ASSERT_TRUE(f.of("m").index);
  EXPECT_TRUE(f.of("m").index->is_condition());
  EXPECT_EQ(f.of("m").axes.size(), 2);
  EXPECT_FALSE(f.of("y").index);
  EXPECT_FALSE(f.of("hot").index) << "labels are data";
  ASSERT_TRUE(f.of("nf").index);
  EXPECT_EQ(*f.of("nf").index, Expr::symbol("S", {1, 64}));
  EXPECT_GE(f.of("nf").low, 1);
}

TEST(Facts, EmptyAxesPromiseNothing) {
  Facts f(R"(
symbol S: 0..64
fn @main(%x: f32[S]) {
  %q = mul %x, %x
  %mf = fold [i: S] over [i] { max %q[i] }
  %m = get %mf, 0
  %sf = fold [i: S] over [i] { sum %q[i] }
  %s = get %sf, 0
  return m = %m, s = %s
})");
  EXPECT_FALSE(f.of("m").not_negative()) << "the maximum of nothing is -inf";
  EXPECT_TRUE(f.of("s").not_negative());
}

TEST(Facts, FactsOfOneClassMeet) {
  const Info a = [] {
    Info i;
    i.axes.insert(1);
    i.axes.insert(2);
    i.passes = {{1, 2}, {4, 1}};
    i.low = 0;
    i.fixed = false;
    return i;
  }();
  Info b = a;
  b.axes.erase(2);
  b.passes = {{1, 1}};
  b.high = 1;
  const Info m = rules::meet(a, b);
  EXPECT_EQ(m, rules::meet(b, a));
  EXPECT_EQ(m, rules::meet(m, a));
  EXPECT_EQ(m.axes.size(), 1);
  EXPECT_EQ(m.passes, (std::vector<rules::AxisPasses>{{1, 1}}));
  EXPECT_EQ(m.low, 0);
  EXPECT_EQ(m.high, 1);
}

TEST(Saturate, StopsAtItsLimitsWithAValidGraph) {
  const Module module = parse_module(R"(
fn @main(%x: f32[3], %y: f32[3]) {
  %a = mul %x, %y
  %b = add %a, %x
  %c = sub %b, %a
  return c = %c
})");
  const rules::FlatFunction flat(module, module.entry());
  rules::RegionTerms terms;
  const auto entered = rules::enter(terms, flat, {{module.entry().results[0].value}}).value();
  const auto stopped = rules::saturate(terms, {.rows = 5});
  EXPECT_EQ(stopped.stop, egraph::StopReason::rows);
  EXPECT_FALSE(stopped.phase.empty());
  rules::info_of(terms, entered.classes[entered.roots[0]]); // facts are there nevertheless
  const auto whole = rules::saturate(terms);
  EXPECT_EQ(whole.stop, egraph::StopReason::none);
  EXPECT_GT(whole.rows, stopped.rows);
  EXPECT_TRUE(std::ranges::any_of(whole.rules, [](const auto& r) { return r.name == "Mul-swap"; }));
}

TEST(Saturate, ComposedPlacesKeepABoundedDepth) {
  std::string text = "fn @main(%x: f32[7]) {\n  %v0 = exp %x\n";
  for (int i = 0; i < 40; ++i)
    text += fmt::format("  %v{1} = view %v{0} [t: 7] -> [(t * 3 // 2 + t % 4) % 7]\n", i, i + 1);
  const Module module = parse_module(text + "  return v = %v40\n}");
  const rules::FlatFunction flat(module, module.entry());
  rules::RegionTerms terms;
  rules::enter(terms, flat, {{module.entry().results[0].value}}).value();
  rules::saturate(terms);
  uint32_t deepest = 0;
  for (size_t i = 0; i < terms.places.size(); ++i)
    for (const auto& [axis, index] : terms.places[uint32_t(i)].index)
      deepest = std::max(deepest, index.depth());
  EXPECT_GT(deepest, 5U);
  EXPECT_LE(deepest, 20U);
}

} // namespace
} // namespace luminal
