// rules/folds_laws_test.cpp -- every monoid that the reduction algebra makes is one: identity and
// associativity, in exact fractions where it has no exponential.
#include "folds_cases.h"
#include "folds_combine.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace luminal::egraph::folds::laws_test {

namespace {

/// A monoid and the constants among the bodies of a fold: a law may hold on states made of elements
/// only, as for lists in order.
using Found = std::pair<Monoid, std::vector<std::optional<double>>>;

/// Of all folds and scans that the cases make; texts by the algebra of `texts`, since each theory
/// numbers transports for itself.
void collect(const Case& c, const std::function<void(Theory&, const Found&)>& see) {
  Theory t({}, c.numeric);
  build(c, t);
  t.saturate();
  auto& graph = t.program().graph();
  std::set<Found> found;
  for (const char* op : {"Fold", "Scan"})
    graph.for_each_row(t.program().op(op), [&](const RowView& row) {
      std::vector<std::optional<double>> constants;
      for (const Value v : t.program().values().sequence_of(row.args()[2]))
        constants.push_back(t.info_of(v).constant);
      found.emplace(t.monoid(row.args()[0]), constants);
      return true;
    });
  for (const Found& f : found) see(t, f);
}

class Random {
public:
  uint64_t next() {
    seed_ = seed_ * 6364136223846793005u + 1442695040888963407u;
    return seed_ >> 33;
  }

private:
  uint64_t seed_ = 5;
};

template <class F> typename F::T element(const std::optional<double>& constant, Random& random) {
  if (constant) return F::number(*constant);
  const auto n = int64_t(1 + random.next() % 30), d = int64_t(1 + random.next() % 9);
  if constexpr (std::is_same_v<F, Fractions>) return F::of(n, d);
  return F::number(double(n) / double(d));
}

bool same(const Fractions::T& a, const Fractions::T& b) { return a == b; }
bool same(double a, double b) { return a == b || std::abs(a - b) <= 1e-9 * (1 + std::abs(a)); }

/// Broken laws; `plain` as in Combiner::combine.
template <class F> int broken(const Algebra& algebra, const Found& found, bool plain) {
  using State = typename Combiner<F>::State;
  const auto& [m, constants] = found;
  const Combiner<F> combiner(algebra);
  Random random;
  const auto f = [&](const State& a, const State& b) { return combiner.combine(m, a, b, plain); };
  const auto one = [&] {
    State out;
    for (const auto& c : constants) out.push_back(element<F>(c, random));
    return out;
  };
  State none;
  for (const Component& component : m) none.push_back(F::number(identity(component.op)));
  int bad = 0;
  for (int round = 0; round < 5; ++round) {
    const State a = f(f(one(), one()), one()), b = f(f(one(), one()), one()), c = f(f(one(), one()), one());
    const State left = f(f(a, b), c), right = f(a, f(b, c)), front = f(none, a), back = f(a, none);
    for (size_t i = 0; i < m.size(); ++i)
      if (!same(left[i], right[i]) || !same(front[i], a[i]) || !same(back[i], a[i])) ++bad;
  }
  return bad;
}

} // namespace

TEST(FoldsLaws, MonoidsHaveAnIdentityAndAreAssociative) {
  std::set<std::string> seen, exact;
  const auto check = [&](Theory& t, const Found& found) {
    const std::string text = t.algebra().text(found.first);
    seen.insert(text);
    if (t.algebra().rational(found.first)) exact.insert(text);
    for (const bool plain : {true, false})
      EXPECT_EQ(t.algebra().rational(found.first) ? broken<Fractions>(t.algebra(), found, plain)
                                                  : broken<Reals>(t.algebra(), found, plain),
                0)
          << text << (plain ? "" : " with averages");
  };
  for (const auto* some : {&cases(), &fused(), &refused()})
    for (const Case& c : *some) collect(c, check);
  EXPECT_GE(seen.size(), 25u);
  EXPECT_GE(exact.size(), 15u);
}

TEST(FoldsLaws, AWrongMonoidBreaksThem) {
  Algebra algebra;
  const Monoid max = algebra.single(Op::max);
  Monoid wrong = algebra.cascade(max, 0, Op::sum, {-1, 0, {}}, 1);
  EXPECT_EQ(broken<Reals>(algebra, {wrong, {std::nullopt, 1.0}}, true), 0);
  wrong[1].op = Op::max;
  wrong[1].singular.clear();
  EXPECT_GT(broken<Reals>(algebra, {wrong, {std::nullopt, 1.0}}, true), 0);
  const Monoid mean = algebra.cascade(algebra.single(Op::sum), 0, Op::sum, {0, -1, {}}, 1);
  EXPECT_EQ(broken<Fractions>(algebra, {mean, {1.0, std::nullopt}}, true), 0);
  EXPECT_EQ(broken<Fractions>(algebra, {mean, {1.0, std::nullopt}}, false), 0);
  // A translation passes through a maximum, but not through a sum.
  EXPECT_EQ(
      broken<Fractions>(algebra, {algebra.shift(max, 0, Op::max, 1), {std::nullopt, std::nullopt}}, true), 0);
  EXPECT_GT(
      broken<Fractions>(algebra, {algebra.shift(max, 0, Op::sum, 1), {std::nullopt, std::nullopt}}, true), 0);
}

TEST(FoldsLaws, TheMonoidsAreThoseOfTheBooks) {
  const auto monoids = [](const char* name) {
    const Case& c = case_named(name);
    Theory t({}, c.numeric);
    build(c, t);
    t.saturate();
    return t.monoids();
  };
  // Online softmax, its scale in the correction; the weighted sum of values has the same.
  EXPECT_THAT(monoids("attention"), testing::Contains("[(max, self) (sum, self*exp(-0.25*(new0 - old0)))]"));
  EXPECT_THAT(monoids("logsumexp"), testing::Contains("[(max, self) (sum, self*exp((old0 - new0)))]"));
  // The running mean, and the squares about it.
  EXPECT_THAT(monoids("variance"), testing::Contains("[(sum, self) (sum, self*old0/new0)]"));
  EXPECT_THAT(monoids("variance"),
              testing::Contains(
                  "[(sum, self) (sum, self*old0/new0) (sum, (self + (new1 - old1)*(new1 - old1)*old0))]"));
  EXPECT_THAT(monoids("argmax"), testing::Contains("[(max, self) (min, (old0 == new0 ? self : inf))]"));
  EXPECT_THAT(monoids("safe 2-norm"), testing::Contains("[(max, self) (sum, self*(new0/old0)^-2)]"));
}

} // namespace luminal::egraph::folds::laws_test
