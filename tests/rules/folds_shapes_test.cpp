// rules/folds_shapes_test.cpp -- terms that the reduction algebra has to make, and those that it
// must not make, by the shape of one row.
#include "folds_cases.h"
#include <fmt/format.h>
#include <gtest/gtest.h>

using namespace luminal::egraph;
using namespace luminal::egraph::folds;

namespace {

/// A saturated formula, with questions about its rows.
class Graph {
public:
  explicit Graph(const Formula& formula, NumericClass numeric = NumericClass::range) : theory({}, numeric) {
    theory.set_extents({{"t", 4}, {"j", 4}, {"u", 9}});
    roots = formula({theory});
    theory.saturate();
  }
  bool any(const std::string& op, const std::function<bool(std::span<const Value>)>& wanted) {
    bool found = false;
    theory.program().graph().for_each_row(theory.program().op(op), [&](const RowView& row) {
      found = !row.subsumed && wanted(row.args());
      return !found;
    });
    return found;
  }
  bool any(const std::string& op) {
    return any(op, [](std::span<const Value>) { return true; });
  }
  /// Does the class have a row of the operator?
  bool is(Value v, const std::string& op) {
    for (const RowView& row : theory.program().graph().class_rows(v))
      if (row.op == theory.program().op(op) && !row.subsumed) return true;
    return false;
  }
  bool both(std::span<const Value> args, const std::string& op) { return is(args[0], op) && is(args[1], op); }
  bool fold_over(const Axes& axes, const std::string& varies_with) {
    return any("Fold", [&](std::span<const Value> args) {
      const Value last = theory.program().values().sequence_of(args[2]).back();
      return theory.axes(args[1]) == axes && theory.axes_of(last).contains(varies_with);
    });
  }
  bool fold_over_two() {
    return any("Fold", [&](std::span<const Value> args) { return theory.axes(args[1]).size() == 2; });
  }

  Theory theory;
  std::vector<Term> roots;
};

struct Shape {
  std::string what;
  std::function<Term(Builder)> formula;
  std::function<bool(Graph&)> found;
  bool wanted;
};

Term soft(Builder b) {
  const Term s = b.in("x", "t k");
  return (s - s.max("k")).exp();
}
Term u(Builder b) { return b.in("u", "t d"); }
Term w(Builder b) { return b.in("w", "k d"); }
Term weights(Builder b) { return b.par("w", "k o"); }
const Window padded{"k", {{"j", 1}}, -1, 1, 0.0};

bool two_axes(Graph& g) { return g.fold_over_two(); }
bool exchanged(Graph& g) { return g.fold_over({"k"}, "d"); }
bool scanned(Graph& g) { return g.any("Scan"); }
bool taken(Graph& g) { return g.any("Take"); }
bool exp_of_view(Graph& g) {
  return g.any("Exp", [&](std::span<const Value> a) { return g.is(a[0], "View"); });
}
bool product_of_parameters(Graph& g) {
  return g.any("Mul", [&](std::span<const Value> a) { return g.both(a, "Par"); });
}

const std::vector<Shape>& shapes() {
  static const std::vector<Shape> all{
      {"a sum of a sum is one fold over two axes",
       [](Builder b) { return b.in("x", "h k").sum("k").sum("h"); }, two_axes, true},
      {"a sum of a max is not", [](Builder b) { return b.in("x", "h k").max("k").sum("h"); }, two_axes,
       false},
      {"a sum of a scaled sum is not",
       [](Builder b) { return (b.in("x", "h k").sum("k") * b.in("y", "h")).sum("h"); }, two_axes, false},
      {"a mean of a mean is", [](Builder b) { return b.in("x", "h k").mean("k").mean("h"); }, two_axes, true},
      {"sums exchange over a product", [](Builder b) { return (soft(b) * (u(b) * w(b)).sum("d")).sum("k"); },
       exchanged, true},
      {"not where nothing can leave the outer sum",
       [](Builder b) { return (soft(b) * (u(b) * w(b)).op("Tanh").sum("d")).sum("k"); }, exchanged, false},
      {"not over an axis of the outer factor",
       [](Builder b) { return (soft(b) * b.in("z", "d") * (u(b) * w(b)).sum("d")).sum("k"); }, two_axes,
       false},
      {"a sum is not distributed without need",
       [](Builder b) { return (b.in("x", "t k") + b.in("y", "k")).sum("k"); },
       [](Graph& g) {
         return g.any("Add", [&](std::span<const Value> a) {
           return g.theory.axes_of(a[0]).size() < 2 && g.theory.axes_of(a[1]).size() < 2;
         });
       },
       false},
      {"an input is not moved into the weights",
       [](Builder b) { return b.in("c", "o") * (b.in("x", "t k") * weights(b)).sum("k"); },
       [](Graph& g) {
         return g.any("Mul", [&](std::span<const Value> a) {
           return (g.theory.axes_of(a[0]) == Axes{"o"} || g.theory.axes_of(a[1]) == Axes{"o"}) &&
                  (g.is(a[0], "Par") || g.is(a[1], "Par"));
         });
       },
       false},
      {"a parameter is", [](Builder b) { return b.par("c", "o") * (b.in("x", "t k") * weights(b)).sum("k"); },
       product_of_parameters, true},
      {"not if the weights would grow",
       [](Builder b) { return b.par("c", "u") * (b.in("x", "t k") * weights(b)).sum("k"); },
       product_of_parameters, false},
      {"a view with a fill stays above exp", [](Builder b) { return b.in("x", "t k").exp().view(padded); },
       exp_of_view, false},
      {"a renaming does not", [](Builder b) { return b.in("x", "t k").exp().rename("k", "j"); }, exp_of_view,
       true},
      {"a masked sum is a prefix sum",
       [](Builder b) {
         return (b.iota("t").less(b.iota("j")).where(b.number(0), b.in("x", "j")) * b.in("y", "j")).sum("j");
       },
       scanned, true},
      {"not if the body varies with the row",
       [](Builder b) { return b.iota("t").less(b.iota("j")).where(b.number(0), b.in("x", "t j")).sum("j"); },
       scanned, false},
      {"not if a factor varies with the row",
       [](Builder b) {
         return (b.iota("t").less(b.iota("j")).where(b.number(0), b.in("x", "j")) * b.in("y", "t j"))
             .sum("j");
       },
       scanned, false},
      {"not if there are more rows than elements",
       [](Builder b) { return b.iota("u").less(b.iota("j")).where(b.number(0), b.in("x", "j")).sum("j"); },
       scanned, false},
      {"not for the other triangle",
       [](Builder b) { return b.iota("j").less(b.iota("t")).where(b.number(0), b.in("x", "j")).sum("j"); },
       scanned, false},
      {"k == y reads one element",
       [](Builder b) {
         return b.iota("k").equals(b.in("y", "t")).where(b.in("x", "t k"), b.number(0)).sum("k");
       },
       taken, true},
      {"not if y varies with k",
       [](Builder b) {
         return b.iota("k").equals(b.in("y", "t k")).where(b.in("x", "t k"), b.number(0)).sum("k");
       },
       taken, false},
  };
  return all;
}

} // namespace

TEST(FoldsShapes, AreMadeWhereTheyShouldAndNowhereElse) {
  for (const Shape& shape : shapes()) {
    Graph g([&](Builder b) { return std::vector<Term>{shape.formula(b)}; });
    EXPECT_EQ(shape.found(g), shape.wanted) << shape.what;
  }
}

TEST(FoldsShapes, ReductionsOverDifferentAxesShareNothing) {
  Graph g([](Builder b) {
    const Term x = b.in("x", "j k");
    return std::vector<Term>{(x - x.max("j")).exp().sum("k")};
  });
  EXPECT_TRUE(g.theory.monoids().empty());
}

TEST(FoldsShapes, AFactorLeavesAMaximumWhereItIsNotNegative) {
  for (const bool positive : {false, true}) {
    Graph g([&](Builder b) {
      const Term c = b.in("c", "t");
      return std::vector<Term>{((positive ? c.exp() : c) * b.in("x", "t k")).max("k")};
    });
    EXPECT_EQ(g.is(g.roots[0].value, "Mul"), positive);
  }
}

TEST(FoldsShapes, ApproximateRulesAreUsedWhereAskedFor) {
  const Formula grows = [](Builder b) {
    const Term x = b.in("x", "t k");
    return std::vector<Term>{(x + x.max("k")).exp().sum("k")};
  };
  Graph careful(grows), asked(grows, NumericClass::approximate);
  EXPECT_EQ(careful.theory.passes(careful.roots[0].value, "k"), 2);
  EXPECT_EQ(asked.theory.passes(asked.roots[0].value, "k"), 1);
}

TEST(FoldsShapes, RulesThatMoveRangesCanBeLeftOut) {
  // 1/l pulled out of a sum, P - onehot distributed, a mask that enters a sum.
  for (const char* name : {"attention", "cross entropy gradient", "causal linear attention"}) {
    Theory all, few({}, NumericClass::reassociate);
    const Case& c = case_named(name);
    const auto with = build(c, all), without = build(c, few);
    all.saturate();
    few.saturate();
    EXPECT_LT(all.passes(with[0], c.axis), few.passes(without[0], c.axis)) << name;
  }
}
