// tests/rules/tiles_test.cpp -- sums over sliding windows in tiles: the matrices, where the rules apply, that
// every term is right over the reals, and that wrong matrices and places are found.
#include "rules/check_rules.h"
#include "rules/interpolation.h"
#include "rules/saturate.h"
#include <fmt/format.h>
#include <gmock/gmock.h>

namespace luminal::tiles_test {
namespace {

using rules::Interpolation;
using rules::RegionTerms;
using rules::RuleCase;

/// sum_p A[p, j] B[p, q] G[p, s] is 1 where q = j + s, else 0; times the product of all divisors.
TEST(Tiles, MatricesMakeASlidingWindow) {
  for (int64_t tile = 2; tile <= 4; ++tile)
    for (int64_t window = 2; tile + window - 1 <= Interpolation::most_points; ++window) {
      const Interpolation m(tile, window);
      int64_t all = 1;
      for (int64_t p = 0; p < m.points(); ++p) all *= m.divisor(p);
      ASSERT_NE(all, 0);
      for (int64_t j = 0; j < tile; ++j)
        for (int64_t q = 0; q < m.points(); ++q)
          for (int64_t s = 0; s < window; ++s) {
            int64_t sum = 0;
            for (int64_t p = 0; p < m.points(); ++p)
              sum += m.result(p, j) * m.sample(p, q) * m.weight(p, s) * (all / m.divisor(p));
            EXPECT_EQ(sum, q == j + s ? all : 0)
                << tile << " " << window << ": " << j << " " << q << " " << s;
          }
    }
}

/// A convolution, or what is near one.
struct Convolution {
  int64_t batch = 1, channels = 5, filters = 5, height = 5, width = 6, window = 3, padding = 1, step = 1,
          dilation = 1, groups = 1;
  const char* role = "weight ";
  const char* type = "f32";
};
RuleCase case_of(const Convolution& c) {
  const auto results = [&](int64_t n) {
    return (n + 2 * c.padding - c.dilation * (c.window - 1) - 1) / c.step + 1;
  };
  const int64_t h = results(c.height), w = results(c.width), each = c.channels / c.groups,
                filters = c.filters / c.groups;
  const std::string space = fmt::format("[n: {}, g: {}, k: {}, h: {}, w: {}, c: {}, r: {}, s: {}]", c.batch,
                                        c.groups, filters, h, w, each, c.window, c.window);
  const auto at = [&](const char* o, const char* s) {
    return fmt::format("{} * {} + {} * {} - {}", o, c.step, s, c.dilation, c.padding);
  };
  const std::string y = at("h", "r"), x = at("w", "s");
  const std::string text = fmt::format(
      R"(fn @main(%x: {0}[{1}, {2}, {3}, {4}], {5}%w: {0}[{6}, {7}, {8}, {8}]) {{
  %a = view %x {9} -> [n, g * {7} + c, {10}, {11}] where 0 <= {10} and {10} < {3} and 0 <= {11} and {11} < {4}
  %b = view %w {9} -> [g * {12} + k, c, r, s]
  %p = mul %a, %b
  %f = fold {9} over [c, r, s] {{ sum %p[n, g, k, h, w, c, r, s] }}
  %o = get %f, 0
  return o = %o
}})",
      c.type, c.batch, c.channels, c.height, c.width, c.role, c.filters, each, c.window, space, y, x,
      filters);
  RuleCase out{"a convolution", parse_module(text, "convolution"), {}};
  uint64_t state = 1;
  const Function& f = out.module.entry();
  for (const NodeId id : f.params) {
    const auto& input = std::get<InputAttr>(f[id].attr);
    std::vector<int64_t> dims;
    int64_t n = 1;
    for (const Expr e : input.type.shape) dims.push_back(e.value()), n *= e.value();
    std::vector<double> values;
    for (int64_t k = 0; k < n; ++k) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      values.push_back((double((state >> 33) % 33) - 16) / 8);
    }
    out.bindings.inputs[input.name] = host_tensor(input.type.dtype, dims, values);
  }
  return out;
}

rules::TheoryOptions approximate() { return {.numeric = egraph::NumericClass::approximate}; }

/// Matches of rules whose names begin so.
uint64_t matches(const rules::RuleCheck& check, std::string_view prefix) {
  uint64_t out = 0;
  for (const auto& [name, n] : check.matches) out += name.starts_with(prefix) ? n : 0;
  return out;
}

TEST(Tiles, EveryTermOfAConvolutionIsRight) {
  RegionTerms terms(approximate());
  for (const Convolution& c : {Convolution{},
                               {.height = 7, .padding = 0},
                               {.batch = 2, .height = 4, .width = 4},
                               {.batch = 3, .height = 7, .width = 3, .padding = 2},
                               {.window = 5, .padding = 2}}) {
    const rules::RuleCheck check = rules::check_rules(terms, case_of(c));
    EXPECT_FALSE(check.wrong) << *check.wrong;
    EXPECT_GT(matches(check, c.window == 3 ? "tiles-four" : "tiles-two"), 1u); // along both axes
    EXPECT_EQ(matches(check, c.window == 3 ? "tiles-two" : "tiles-four"), 0u);
    EXPECT_GT(matches(check, "tiles-outside"), 0u);
    EXPECT_GT(matches(check, "tiles-inside"), 0u);
  }
}

TEST(Tiles, OthersAreLeftAlone) {
  RegionTerms terms(approximate());
  for (const Convolution& c : {Convolution{.step = 2},
                               {.height = 9, .width = 9, .dilation = 2},
                               {.channels = 6, .filters = 6, .groups = 6},
                               {.channels = 2},
                               {.filters = 3},
                               {.window = 1, .padding = 0},
                               {.role = ""},
                               {.type = "f16"}}) {
    const rules::RuleCheck check = rules::check_rules(terms, case_of(c));
    EXPECT_FALSE(check.wrong) << *check.wrong;
    EXPECT_EQ(matches(check, "tiles"), 0u);
  }
  // Without such rules nothing is cut into tiles.
  RegionTerms usual;
  EXPECT_EQ(matches(rules::check_rules(usual, case_of({})), "tiles"), 0u);
}

TEST(Tiles, MistakesAreFound) {
  using Changes = std::vector<std::pair<std::string, std::string>>;
  const Changes mistakes[] = {
      {{"(Div (Index (entry t \"G\" d)) (Index (divisor t d)))", "(Index (entry t \"G\" d))"}},
      {{"(Mul (Index (entry t \"B\" d)) (View", "(Mul (Index (divisor t d)) (View"}},
      {{"(Mul (Index (entry t \"A\" d)) products)", "products"}},
      {{"(Select (Index (entry? t \"B\")) (Mul", "(Select (Index (entry? t \"G\")) (Mul"}},
      {{"(tile-rest t w samples)", "samples"}},
      {{"(place-apart w l) (untouched (info c) w)\n", "(untouched (info c) w)\n"},
       {"(= q (composed-hidden w u))", "(= q (composed-hidden u u))"}},
      {{"(View w (vec-of (Get 0 (Fold m l (vec-of (Select c (Mul e z) o))))))",
        "(Get 0 (Fold m l (vec-of (Select c (Mul e z) o))))"}},
  };
  for (const Changes& changes : mistakes) {
    rules::TheoryOptions options = approximate();
    options.replaced = changes;
    std::string wrong;
    try {
      RegionTerms terms(options);
      if (const auto check = rules::check_rules(terms, case_of({})); check.wrong) wrong = *check.wrong;
    } catch (const std::exception& error) {
      wrong = error.what();
    }
    EXPECT_NE(wrong, "") << changes[0].second;
  }
}

} // namespace
} // namespace luminal::tiles_test
