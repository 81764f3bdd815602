// egraph/extract_test.cpp -- every extractor against exhaustive search on small random graphs, and the rules of the problem.
#include "egraph/extract.h"
#include "egraph/extract_bound.h"
#include "egraph/extract_exact.h"
#include "egraph/extract_reduce.h"
#include "extract_support.h"
#include "luminal/error.h"
#include <cmath>
#include <gtest/gtest.h>

using namespace luminal;
using namespace luminal::egraph;
using namespace luminal::egraph::test;

namespace {

Shape shape_of(uint64_t seed) {
  Random random(seed);
  Shape shape;
  shape.classes = 1 + random.below(8);
  shape.rows = shape.classes + random.below(10);
  shape.roots = 1 + random.below(3);
  shape.forward = random.unit();
  shape.leaf = 0.15 + 0.4 * random.unit();
  shape.integers = random.below(2) == 0;
  return shape;
}

bool near(double a, double b) { return a == b || std::abs(a - b) <= 1e-9 * (1 + std::abs(a)); }

} // namespace

TEST(ExtractionProblem, RowsAreGroupedAndKeepTheirSource) {
  ExtractionBuilder builder;
  builder.add_classes(3);
  EXPECT_EQ(builder.add_row(2, std::vector<uint32_t>{0, 1, 0}, 5), 0u);
  builder.add_row(0, {}, 1);
  builder.add_row(2, std::vector<uint32_t>{1}, 4);
  builder.add_row(1, {}, 2);
  builder.add_root(2);
  builder.add_root(2);
  const ExtractionProblem p = builder.build();
  EXPECT_EQ(p.roots().size(), 1u);
  ASSERT_EQ(p.end_row(2) - p.first_row(2), 2u);
  EXPECT_EQ(p.source(p.first_row(2)), 0u);
  EXPECT_EQ(p.source(p.first_row(2) + 1), 2u);
  EXPECT_EQ(p.children(p.first_row(2)).size(), 3u);
  const TreeExtraction tree = extract_tree(p);
  EXPECT_EQ(tree.class_cost[2], 6); // 4 + 2, not 5 + 1 + 2 + 1
}

TEST(ExtractionProblem, RefusesWhatHasNoMeaning) {
  ExtractionBuilder builder;
  builder.add_classes(2);
  EXPECT_THROW(builder.add_row(0, {}, std::nan("")), Error);
  EXPECT_THROW(builder.add_row(0, {}, -infinite_cost), Error);
  EXPECT_THROW(builder.add_row(2, {}, 1), Error);
  EXPECT_THROW(builder.add_row(0, std::vector<uint32_t>{2}, 1), Error);
  EXPECT_THROW(builder.add_root(2), Error);
  builder.add_row(0, {}, -1);
  builder.add_root(0);
  EXPECT_THROW(extract_tree(builder.build()), Error);
  EXPECT_EQ(extract_dag(builder.build()).cost, -1);
}

TEST(Extract, EqualsExhaustiveSearch) {
  int feasible = 0, cyclic = 0, shared = 0;
  for (uint64_t seed = 1; seed <= 1500; ++seed) {
    Random random(seed * 977);
    const ExtractionProblem p = random_problem(random, shape_of(seed));
    const Least least = exhaustive(p);
    Evaluator evaluator(p);
    const TreeExtraction tree = extract_tree(p);
    const Extraction dag = extract_dag(p);
    const ExactExtraction exact = extract_exact(p);
    ASSERT_TRUE(near(tree.cost, least.tree)) << "seed " << seed << ": " << tree.cost << " " << least.tree;
    ASSERT_TRUE(exact.optimal) << "seed " << seed;
    ASSERT_TRUE(near(exact.cost, least.dag)) << "seed " << seed << ": " << exact.cost << " " << least.dag;
    ASSERT_TRUE(near(exact.lower_bound, least.dag)) << "seed " << seed;
    ASSERT_GE(dag.cost, least.dag - 1e-9) << "seed " << seed;
    if (least.dag == infinite_cost) {
      EXPECT_FALSE(dag.feasible());
      continue;
    }
    ++feasible;
    if (strongly_connected(p).count < p.class_count()) ++cyclic;
    if (least.tree > least.dag + 1e-9) ++shared;
    ASSERT_TRUE(near(evaluator.evaluate(dag.genome).cost, dag.cost)) << "seed " << seed;
    ASSERT_TRUE(near(evaluator.evaluate(exact.genome).cost, least.dag)) << "seed " << seed;
    ASSERT_TRUE(near(evaluator.tree_cost(tree.genome), least.tree)) << "seed " << seed;
    ASSERT_TRUE(near(dag.cost, least.dag))
        << "seed " << seed << ": greedy " << dag.cost << ", least " << least.dag;
  }
  EXPECT_GT(feasible, 700);
  EXPECT_GT(cyclic, 300);
  EXPECT_GT(shared, 100);
}

TEST(Extract, NegativeCostsCountOnceInADag) {
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    Random random(seed * 31);
    Shape shape = shape_of(seed);
    shape.negative = true;
    const ExtractionProblem p = random_problem(random, shape);
    double least = infinite_cost;
    Evaluator evaluator(p);
    every_genome(p, [&](const Genome& genome) { least = std::min(least, evaluator.evaluate(genome).cost); });
    const ExactExtraction exact = extract_exact(p);
    ASSERT_TRUE(exact.optimal) << "seed " << seed;
    ASSERT_TRUE(near(exact.cost, least)) << "seed " << seed << ": " << exact.cost << " " << least;
    ASSERT_GE(extract_dag(p).cost, least - 1e-9) << "seed " << seed;
  }
}

TEST(Extract, TheReductionKeepsTheLeastCost) {
  uint64_t before = 0, after = 0;
  for (uint64_t seed = 1; seed <= 600; ++seed) {
    Random random(seed * 7919);
    const ExtractionProblem p = random_problem(random, shape_of(seed));
    for (const auto effort : {Reduction::Effort::quick, Reduction::Effort::full}) {
      const double least = exhaustive(p).dag;
      const Reduction reduction(p, effort);
      ASSERT_EQ(reduction.feasible(), least < infinite_cost) << "seed " << seed;
      if (!reduction.feasible()) continue;
      before += p.row_count();
      after += reduction.reduced().row_count();
      double small = infinite_cost;
      Genome best;
      Evaluator of_reduced(reduction.reduced());
      every_genome(reduction.reduced(), [&](const Genome& genome) {
        const double cost = of_reduced.evaluate(genome).cost;
        if (cost < small) small = cost, best = genome;
      });
      ASSERT_TRUE(near(small + reduction.constant(), least)) << "seed " << seed;
      Evaluator evaluator(p);
      ASSERT_TRUE(near(evaluator.evaluate(reduction.expand(best)).cost, least)) << "seed " << seed;
    }
  }
  EXPECT_LT(after * 3, before);
}

TEST(Extract, TheBoundIsBelowEverySolution) {
  int tight = 0, all = 0;
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    Random random(seed * 131);
    Shape shape = shape_of(seed);
    shape.infinite = 0;
    const ExtractionProblem p = random_problem(random, shape);
    DualBound bound(p);
    if (!bound.prepare()) continue;
    bound.sweep(60, infinite_cost);
    Evaluator evaluator(p);
    double least = infinite_cost;
    every_genome(p, [&](const Genome& genome) {
      const Evaluation& e = evaluator.evaluate(genome);
      if (!e.valid()) return;
      least = std::min(least, e.cost);
      for (const uint32_t c : e.order) {
        if (!bound.alive[genome[c]]) continue;
        ASSERT_LE(bound.bound_with(genome[c]), e.cost + 1e-9) << "seed " << seed << " row " << genome[c];
      }
    });
    ++all;
    ASSERT_LE(bound.bound(), least + 1e-9) << "seed " << seed;
    ASSERT_GE(bound.best().cost, least - 1e-9) << "seed " << seed;
    if (bound.bound() > 0.9 * least - 1e-9) ++tight;
  }
  EXPECT_GT(tight * 10, all * 7);
}

TEST(Extract, EvaluationSeesGapsAndCycles) {
  ExtractionBuilder builder;
  builder.add_classes(3);
  const uint32_t down = builder.add_row(2, std::vector<uint32_t>{1}, 1);
  builder.add_row(1, std::vector<uint32_t>{0, 0}, 2);
  builder.add_row(1, std::vector<uint32_t>{2}, 2);
  builder.add_row(0, {}, 4);
  builder.add_root(2);
  const ExtractionProblem p = builder.build();
  EXPECT_EQ(p.source(p.first_row(2)), down);
  Evaluator evaluator(p);
  const Genome good{p.first_row(0), p.first_row(1), p.first_row(2)};
  const Evaluation& e = evaluator.evaluate(good);
  EXPECT_TRUE(e.valid());
  EXPECT_EQ(e.cost, 7);
  EXPECT_EQ(e.order, (std::vector<uint32_t>{0, 1, 2}));
  EXPECT_TRUE(evaluator.reached(0));
  EXPECT_EQ(evaluator.tree_cost(good), 11);
  const Genome cycle{p.first_row(0), p.first_row(1) + 1, p.first_row(2)};
  EXPECT_FALSE(evaluator.evaluate(cycle).acyclic);
  EXPECT_EQ(evaluator.evaluate(cycle).cost, infinite_cost);
  const Genome gap{no_row, p.first_row(1), p.first_row(2)};
  EXPECT_FALSE(evaluator.evaluate(gap).complete);
  const Genome alien{p.first_row(1), p.first_row(1), p.first_row(2)};
  EXPECT_FALSE(evaluator.evaluate(alien).complete);
  EXPECT_THROW(evaluator.evaluate(Genome(2)), Error);
}

TEST(Extract, UserCostsMustBeSuperior) {
  ExtractionBuilder builder;
  builder.add_classes(2);
  builder.add_row(0, {}, 3);
  builder.add_row(1, std::vector<uint32_t>{0}, 1);
  builder.add_root(1);
  const ExtractionProblem p = builder.build();
  // Depth: one more than the deepest child.
  const auto depth =
      extract_tree(p, [](uint32_t, std::span<const double> c) { return c.empty() ? 1 : 1 + c[0]; });
  EXPECT_EQ(depth.cost, 2);
  EXPECT_THROW(extract_tree(p, [](uint32_t, std::span<const double> c) { return c.empty() ? 1 : c[0] / 2; }),
               Error);
  EXPECT_THROW(extract_tree(p, [](uint32_t, std::span<const double>) { return std::nan(""); }), Error);
}

TEST(Extract, WithinLimitsTheGapIsStated) {
  Random random(5);
  Shape shape;
  shape.classes = 40;
  shape.rows = 160;
  shape.leaf = 0.05;
  shape.forward = 0.5;
  const ExtractionProblem p = random_problem(random, shape);
  const ExactExtraction all = extract_exact(p);
  ExactOptions few;
  few.max_nodes = 1;
  const ExactExtraction one = extract_exact(p, few);
  ASSERT_TRUE(all.optimal);
  EXPECT_GE(one.cost, all.cost - 1e-9);
  EXPECT_LE(one.lower_bound, all.cost + 1e-9);
  EXPECT_LE(one.lower_bound, one.cost);
}

TEST(Extract, SameInputSameGenome) {
  Random random(9);
  Shape shape;
  shape.classes = 300;
  shape.rows = 1200;
  const ExtractionProblem p = random_problem(random, shape);
  EXPECT_EQ(extract_dag(p).genome, extract_dag(p).genome);
  EXPECT_EQ(extract_tree(p).genome, extract_tree(p).genome);
}

TEST(Extract, LongChainsDoNotRecurse) {
  ExtractionBuilder builder;
  const uint32_t n = 200000;
  builder.add_classes(n);
  for (uint32_t c = 0; c < n; ++c) {
    builder.add_row(c, c == 0 ? std::vector<uint32_t>() : std::vector<uint32_t>{c - 1}, 1);
    if (c % 3 == 0 && c > 0) builder.add_row(c, std::vector<uint32_t>{c - 1, (c + 1) % n}, 0.5);
  }
  builder.add_root(n - 1);
  const ExtractionProblem p = builder.build();
  EXPECT_EQ(extract_tree(p).cost, n);
  EXPECT_EQ(extract_dag(p).cost, n);
  EXPECT_EQ(extract_exact(p).cost, n);
}
