// rules/folds_random_test.cpp -- random formulas through the reduction algebra: every term of every
// class has the same value, whatever fires.
#include "folds_cases.h"
#include "folds_sweep.h"
#include <fmt/format.h>
#include <gtest/gtest.h>

using namespace luminal::egraph;
using namespace luminal::egraph::folds;

namespace {

/// Bodies over t and k from inputs, statistics over k, masks, parameters and inner sums; values
/// stay finite.
class Formulas {
public:
  Formulas(Builder b, uint64_t seed) : b_(b), seed_(seed) {}

  Term formula() {
    const Term body = term(3);
    const Op op = pick(3) == 0 ? extremum() : Op::sum;
    const Term once = body.fold(op, pick(6) == 0 ? "k t" : "k");
    return pick(4) == 0 ? (once * b_.in("c", "t")).fold(pick(2) == 0 ? op : Op::sum, "t") : once;
  }

private:
  uint32_t pick(uint32_t n) {
    seed_ = seed_ * 6364136223846793005u + 1442695040888963407u;
    return uint32_t(seed_ >> 33) % n;
  }
  Op extremum() { return pick(2) == 0 ? Op::max : Op::min; }
  Term x() { return b_.in(pick(3) == 0 ? "y" : "x", "t k"); }
  Term statistic() {
    const Term of = pick(3) == 0 ? x().abs() + 1.0 : x();
    switch (pick(4)) {
    case 0: return of.mean("k");
    case 1: return of.sum("k");
    default: return of.fold(extremum(), "k");
    }
  }
  Term leaf() {
    switch (pick(10)) {
    case 0: return b_.in("c", "t");
    case 1: return b_.par("p", "k");
    case 2: return b_.number(pick(2) == 0 ? 0.5 : -2);
    case 3: return b_.iota("k");
    case 4: return (b_.in("u", "t l") * b_.in("w", "k l")).sum("l");
    case 5:
    case 6: return statistic();
    default: return x();
    }
  }
  /// Not 0: 1 or a bound below the masked.
  Term mask() {
    switch (pick(4)) {
    case 0: return b_.iota("t").less(b_.iota("k"));
    case 1: return b_.iota("k").equals(b_.in("label", "t"));
    case 2: {
      const Term v = x();
      return v.equals(v.fold(extremum(), "k"));
    }
    default: return x().less(b_.number(1));
    }
  }
  Term term(int depth) {
    if (depth == 0) return leaf();
    switch (pick(14)) {
    case 0:
    case 1: return term(depth - 1) + term(depth - 1);
    case 2: return term(depth - 1) - term(depth - 1);
    case 3:
    case 4:
    case 5: return term(depth - 1) * term(depth - 1);
    case 6: return -term(depth - 1);
    case 7:
    case 8: {
      const Term v = x();
      return pick(3) == 0 ? (v - leaf()).exp()
                          : ((v - v.fold(extremum(), "k")) * (pick(2) == 0 ? 1 : 0.5)).exp();
    }
    case 9: return term(depth - 1) / (x().abs() + 1.0).fold(pick(2) == 0 ? Op::max : Op::sum, "k");
    case 10: return pick(2) == 0 ? term(depth - 1).abs() : term(depth - 1).abs().root();
    case 11: return term(depth - 1).max2(pick(2) == 0 ? b_.number(0) : term(depth - 1));
    case 12:
      return pick(2) == 0 ? mask().where(term(depth - 1), b_.number(0))
                          : mask().where(b_.number(0), term(depth - 1));
    default: {
      const Term d = x() - statistic();
      return d * d;
    }
    }
  }

  Builder b_;
  uint64_t seed_;
};

Case case_of(uint64_t seed) {
  Case c{fmt::format("seed {}", seed),
         [seed](Builder b) { return std::vector<Term>{Formulas(b, seed).formula()}; },
         {{"t", 3}, {"k", 4}, {"l", 2}},
         "k",
         0,
         0,
         0};
  if (seed % 4 == 0) c.splits = {{"k", 2}};
  return c;
}

} // namespace

TEST(FoldsRandom, AllTermsOfAClassHaveOneValue) {
  int compared = 0, fewer = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    const Case c = case_of(seed);
    Theory naive, t;
    const auto written = build(c, naive), roots = build(c, t);
    naive.find_facts();
    ASSERT_NO_THROW(t.saturate()) << c.name;
    if (c.splits.empty()) fewer += t.passes(roots[0], "k") < naive.passes(written[0], "k");
    const Sweep s = sweep(t);
    EXPECT_LT(s.worst, 1e-8) << c.name << ": " << s.where;
    compared += s.checked;
  }
  EXPECT_GE(compared, 10000);
  EXPECT_GE(fewer, 50);
  fmt::print("{} terms compared, {} formulas need fewer passes\n", compared, fewer);
}

TEST(FoldsRandom, WrongRulesAreSeen) {
  const std::pair<std::string, std::string> wrong[] = {
      {"(vec-of g (Const 1.0))", "(vec-of g (Const 2.0))"},            // the family of r with slope 2
      {"(vec-of (Recip (vec-get p 0)))", "(vec-of (vec-get p 0))"},    // a reciprocal of no reciprocal
      {"(vec-append gs (vec-reverse qs))", "(vec-append gs qs)"},      // bodies in the wrong order
      {"(Fold M (outer k) (all-gets", "(Fold M (inner k) (all-gets"}}; // a split over the wrong axis
  for (const auto& change : wrong) {
    double worst = 0;
    for (uint64_t seed = 1; seed <= 150 && worst < 1e-8; ++seed) {
      Theory t({change});
      build(case_of(seed), t);
      t.saturate();
      worst = std::max(worst, sweep(t).worst);
    }
    EXPECT_GT(worst, 1e-8) << change.first;
  }
}
