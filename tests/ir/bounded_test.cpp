// tests/ir/bounded_test.cpp -- the bounded mode says nothing of what may overflow on the way, or
// where rounding may turn a condition, and still judges the rest.
#include "interp_util.h"
#include "ir/dtype.h"
#include <fmt/format.h>
#include <limits>

namespace luminal {
namespace {

using namespace testing_ir;

constexpr double infinity = std::numeric_limits<double>::infinity();

bool within(double x, const InterpValue& v) {
  return x == v.value || (std::isnan(x) && std::isnan(v.value)) || std::fabs(x - v.value) <= v.error;
}

class Overflow : public testing::TestWithParam<DType> {};

/// Sums of products, as every plan may compute them: products rounded or exact until they are
/// added, in any order, sums rounded at each step or at the end.
TEST_P(Overflow, SumsOfProductsHoldForFusedAndReorderedSums) {
  const DType type = GetParam();
  const double most = largest(type), root = std::sqrt(most);
  const std::vector<double> drawn{most, -most, most / 2, -most / 2, 2, -2, 1, 1, -1, root, -root, 0.5, 0};
  const int rows = 3000, length = 3;
  std::mt19937_64 random(7);
  std::vector<double> x, y;
  for (int k = 0; k < rows * length; ++k)
    x.push_back(round_to(type, drawn[random() % drawn.size()])),
        y.push_back(round_to(type, drawn[random() % drawn.size()]));
  Case c(fmt::format(R"(fn @main(%x: {0}[{1}, {2}], %y: {0}[{1}, {2}]) {{
    %p = mul %x, %y
    %f = fold [i: {1}, k: {2}] over [k] {{ sum %p[i, k] }}
    %s = get %f, 0
    %q = mul %x, %x
    %g = fold [i: {1}, k: {2}] over [k] {{ sum %q[i, k] }}
    %squares = get %g, 0
    %h = scan [i: {1}, k: {2}] along k {{ sum %p[i, k] }}
    %prefixes = get %h, 0
    return s = %s, squares = %squares, prefixes = %prefixes
  }})",
                     to_string(type), rows, length));
  c.with("x", tensor(type, {rows, length}, x)).with("y", tensor(type, {rows, length}, y));
  auto sums = [&](const std::vector<double>& a, const std::vector<double>& b, int row, int count) {
    std::vector<double> found;
    for (int way = 0; way < 8; ++way) {
      double sum = 0;
      for (int k = 0; k < count; ++k) {
        const auto at = size_t(row * length + (way & 1 ? count - 1 - k : k));
        if (way & 2) // the product is exact until it is added
          sum = std::fma(a[at], b[at], sum);
        else
          sum += round_to(type, a[at] * b[at]);
        if (!(way & 4)) sum = round_to(type, sum);
      }
      found.push_back(round_to(type, sum));
    }
    return found;
  };
  int known = 0, unknown = 0;
  auto hold = [&](const std::vector<double>& found, const InterpValue& v, int row) {
    ++(std::isinf(v.error) ? unknown : known);
    for (size_t way = 0; way < found.size() && !std::isinf(v.error); ++way)
      ASSERT_TRUE(within(found[way], v))
          << "row " << row << " way " << way << ": " << found[way] << " for " << v.value << " +- " << v.error;
  };
  const auto s = c.values("s", InterpMode::bounded), squares = c.values("squares", InterpMode::bounded),
             prefixes = c.values("prefixes", InterpMode::bounded);
  for (int row = 0; row < rows; ++row) {
    hold(sums(x, y, row, length), s[size_t(row)], row);
    hold(sums(x, x, row, length), squares[size_t(row)], row);
    for (int k = 0; k < length; ++k) hold(sums(x, y, row, k + 1), prefixes[size_t(row * length + k)], row);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(known, 1000);
  EXPECT_GT(unknown, 1000);
}
INSTANTIATE_TEST_SUITE_P(Types, Overflow,
                         testing::Values(DType::f64, DType::f32, DType::f16, DType::bf16, DType::f8e5m2,
                                         DType::f8e4m3),
                         [](const auto& type) { return std::string(to_string(type.param)); });

/// A product and what is added to it, in maps.
TEST(Bounded, SaysNothingOfWhatOverflowsBeforeItIsUsed) {
  Case c(R"(fn @main(%x: f64[6], %y: f64[6]) {
    %p = mul %x, %y
    %s = add %x, %x
    %q = div %x, %y
    %inf = const f64 inf
    %infs = view %inf [i: 6] -> []
    %d = sub %p, %infs
    return p = %p, s = %s, q = %q, d = %d
  })");
  c.with("x", tensor(DType::f64, {6}, {1e300, -1e300, 1.7e308, 2, 1, infinity}))
      .with("y", tensor(DType::f64, {6}, {1e300, 1e10, 1e-10, 3, 0, 2}));
  const auto p = c.values("p", InterpMode::bounded), s = c.values("s", InterpMode::bounded),
             q = c.values("q", InterpMode::bounded), d = c.values("d", InterpMode::bounded);
  EXPECT_EQ(p[0].error, infinity);
  EXPECT_EQ(p[1].error, infinity);
  EXPECT_LT(p[2].error, 1e290);
  EXPECT_EQ(s[2].error, infinity);
  EXPECT_EQ(q[2].error, infinity);
  EXPECT_EQ(d[0].error, infinity); // inf - inf, or -inf
  // What is infinite without rounding stays known: a pole, an infinite argument.
  EXPECT_EQ(q[4].value, infinity);
  EXPECT_EQ(q[4].error, 0);
  EXPECT_EQ(p[5].value, infinity);
  EXPECT_EQ(p[5].error, 0);
}

/// A condition that rounding may turn takes the bound from what depends on it, and from nothing
/// else.
TEST(Bounded, ConditionsThatRoundingMayTurnLeaveNoBound) {
  Case c(R"(
fn @step(%t: i64, %h: f32, %w: f32) {
  %n = mul %h, %w
  return h = %n, y = %h
}
fn @below(%h: f32, %w: f32) {
  %limit = const f32 0.7
  %p = lt %h, %limit
  return p = %p
}
fn @same(%x: f32) {
  return y = %x
}
fn @double(%x: f32) {
  %y = add %x, %x
  return y = %y
}
fn @main(%h: f32, %w: f32) {
  %l = loop @step count 5 while @below carried (%h) stepped () given (%w)
  %last = get %l, 0
  %ys = get %l, 1
  %steps = get %l, 2
  %third = mul %w, %h
  %limit = const f32 0.7
  %p = lt %third, %limit
  %c = cond %p then @same else @double (%h)
  %chosen = get %c, 0
  %sum = add %h, %w
  return last = %last, ys = %ys, steps = %steps, chosen = %chosen, sum = %sum
})");
  c.with("h", tensor(DType::f32, {}, {0.1})).with("w", tensor(DType::f32, {}, {7})); // 0.7: open
  EXPECT_EQ(c.values("last", InterpMode::bounded)[0].error, infinity);
  EXPECT_EQ(c.values("steps", InterpMode::bounded)[0].error, infinity);
  EXPECT_EQ(c.values("chosen", InterpMode::bounded)[0].error, infinity);
  const auto ys = c.values("ys", InterpMode::bounded);
  EXPECT_EQ(ys[0].error, 0); // 0.1 < 0.7, however it is rounded
  for (size_t k = 1; k < 5; ++k) EXPECT_EQ(ys[k].error, infinity) << k;
  EXPECT_LT(c.values("sum", InterpMode::bounded)[0].error, 1e-6);
}

/// A plan multiplies an infinite body by a factor of 0 where the term selects 0.
TEST(Bounded, SaysNothingOfInfiniteBodiesThatAFactorMoves) {
  Case c(R"(fn @main(%x: f32[3, 3], %w: f32[3, 3]) {
    %f = fold [i: 3, k: 3] over [k] {
        max %x[i, k];
        sum(select(old0 == -inf, 0, self * exp2(old0 - new0))) %w[i, k] }
    %m = get %f, 0
    %s = get %f, 1
    return m = %m, s = %s
  })");
  c.with("x", f32({3, 3}, {0, -infinity, 1, 0, -infinity, 1, 2, 3, 4}))
      .with("w", f32({3, 3}, {1, infinity, 1, 1, 2, 3, 1, NAN, 1}));
  const auto m = c.values("m", InterpMode::bounded), s = c.values("s", InterpMode::bounded);
  EXPECT_EQ(m[0].error, 0);
  EXPECT_EQ(s[0].error, infinity);
  EXPECT_LT(s[1].error, 1e-5);
  EXPECT_EQ(s[2].error, infinity);
}

/// -inf for what is masked, and what is made of it: every order of the sums gives it.
TEST(Bounded, KnowsInfinitiesThatNothingRounds) {
  Case c(R"(fn @main(%x: f32[6], %w: f32[6]) {
    %third = const f32 0.3
    %thirds = view %third [i: 6] -> []
    %near = mul %w, %thirds
    %masked = add %near, %x
    %far = sub %thirds, %masked
    %share = div %x, %near
    %e = exp %masked
    %f = fold [i: 6] over [i] { sum %masked[i] }
    %s = get %f, 0
    %g = fold [i: 6] over [i] where 3 <= i { sum %x[i] }
    %nan = get %g, 0
    %h = fold [i: 6] over [i] where 1 <= i and i <= 2 { sum %e[i] }
    %none = get %h, 0
    %log = log %none
    %p = fold [i: 6] over [i] where i < 2 { prod %masked[i] }
    %product = get %p, 0
    %q = scan [i: 6] along i { sum %masked[i] }
    %prefixes = get %q, 0
    return masked = %masked, far = %far, share = %share, e = %e, s = %s, nan = %nan, none = %none, log = %log,
           product = %product, prefixes = %prefixes
  })");
  const double masked[6] = {0, -infinity, -infinity, -infinity, infinity, 0};
  c.with("x", f32({6}, {masked, masked + 6})).with("w", f32({6}, {1.1, 2, 3, 4, 5, 6}));
  const auto exactly = [&](const char* name, size_t i, double value) {
    const InterpValue v = c.values(name, InterpMode::bounded)[i];
    EXPECT_TRUE(v.value == value || (std::isnan(v.value) && std::isnan(value))) << name << " " << v.value;
    EXPECT_EQ(v.error, 0) << name << " " << i;
  };
  exactly("masked", 1, -infinity);
  exactly("masked", 4, infinity);
  exactly("far", 1, infinity);
  exactly("share", 1, -infinity);
  exactly("e", 1, 0);
  exactly("s", 0, NAN);
  exactly("nan", 0, NAN);
  exactly("none", 0, 0);
  exactly("log", 0, -infinity);
  exactly("product", 0, -infinity);
  for (size_t k = 1; k < 4; ++k) exactly("prefixes", k, -infinity);
  exactly("prefixes", 4, NAN);
  EXPECT_GT(c.values("masked", InterpMode::bounded)[0].error, 0);
}

/// A NaN that infinities make is one wherever it is looked at; a fold of it may have a value in a derived
/// form (logsumexp of a row that is -inf everywhere). What NaN in the inputs give is certain.
TEST(Bounded, SaysNothingOfFoldsWhereInfinitiesMakeNaN) {
  Case c(R"(fn @main(%x: f32[3, 2]) {
    %f = fold [i: 3, k: 2] over [k] { max %x[i, k] }
    %m = get %f, 0
    %ms = view %m [i: 3, k: 2] -> [i]
    %d = sub %x, %ms
    %e = exp %d
    %g = fold [i: 3, k: 2] over [k] { sum %e[i, k] }
    %s = get %g, 0
    %ss = view %s [i: 3, k: 2] -> [i]
    %p = div %e, %ss
    return e = %e, s = %s, p = %p
  })");
  c.with("x", f32({3, 2}, {-infinity, -infinity, 1, NAN, 0, -infinity}));
  const auto e = c.values("e", InterpMode::bounded), s = c.values("s", InterpMode::bounded),
             p = c.values("p", InterpMode::bounded);
  for (size_t k : {0, 1, 2, 3}) {
    EXPECT_TRUE(std::isnan(e[k].value) && e[k].error == 0) << k;
    EXPECT_TRUE(std::isnan(p[k].value) && p[k].error == 0) << k;
  }
  EXPECT_EQ(s[0].error, infinity);
  EXPECT_TRUE(std::isnan(s[1].value) && s[1].error == 0);
  EXPECT_LT(s[2].error, 1e-5);
  EXPECT_LT(p[5].error, 1e-30);
}

/// Where finite elements may overflow on the way, or a factor may vanish, infinities stay unknown.
TEST(Bounded, SaysNothingOfInfinitiesThatAnOverflowMeets) {
  Case c(R"(fn @main(%x: f32[4], %y: f32[4], %z: f32[3], %t: f32[3]) {
    %f = fold [i: 4] over [i] { sum %x[i] }
    %s = get %f, 0
    %g = fold [i: 4] over [i] { prod %y[i] }
    %p = get %g, 0
    %m = mul %z, %t
    %h = fold [i: 3] over [i] { sum %m[i] }
    %v = get %h, 0
    return s = %s, p = %p, v = %v
  })");
  c.with("x", f32({4}, {infinity, -3e38, -3e38, 1}))
      .with("y", f32({4}, {infinity, 1e-30, 1e-30, 1}))
      .with("z", f32({3}, {infinity, 1, 2}))
      .with("t", f32({3}, {1e-40, 1, 2}));
  for (const char* name : {"s", "p", "v"})
    EXPECT_EQ(c.values(name, InterpMode::bounded)[0].error, infinity) << name;
}

TEST(Bounded, SaysNothingBehindAFunctionOfTheProgram) {
  register_host_function("bounded_test_same", [](const std::string&, std::span<const HostTensor> in) {
    return std::vector<HostTensor>{in[0]};
  });
  Case c(R"(fn @main(%x: bf16[3]) {
    %f = fold [i: 3] over [i] { sum %x[i] }
    %s = get %f, 0
    %h = host bounded_test_same "" (%s) -> (bf16)
    %sum = get %h, 0
    %g = host bounded_test_same "" (%x) -> (bf16[3])
    %same = get %g, 0
    return sum = %sum, same = %same
  })");
  c.with("x", tensor(DType::bf16, {3}, {256, 1, 1}));
  EXPECT_EQ(c.values("sum", InterpMode::bounded)[0].error, infinity);
  EXPECT_EQ(c.values("same", InterpMode::bounded)[0].error, 0);
}

} // namespace
} // namespace luminal
