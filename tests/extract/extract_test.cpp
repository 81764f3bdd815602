// extract/extract_test.cpp -- every extractor against exhaustive search on small random graphs, and
// the rules of the problem.
#include "extract/extract.h"
#include "extract/extract_bound.h"
#include "extract/extract_compact.h"
#include "extract/extract_exact.h"
#include "extract/extract_reduce.h"
#include "extract/extract_solution.h"
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
  int feasible = 0, cyclic = 0, shared = 0, missed = 0;
  for (uint64_t seed = 1; seed <= 1500; ++seed) {
    Random random(seed * 977);
    const ExtractionProblem p = random_problem(random, shape_of(seed));
    const Least least = exhaustive(p);
    Evaluator evaluator(p);
    const TreeExtraction tree = extract_tree(p);
    const Extraction quick = extract_dag(p), dag = extract_dag(p, {.effort = 4});
    const ExactExtraction exact = extract_exact(p);
    ASSERT_TRUE(near(tree.cost, least.tree)) << "seed " << seed << ": " << tree.cost << " " << least.tree;
    ASSERT_TRUE(exact.optimal) << "seed " << seed;
    ASSERT_TRUE(near(exact.cost, least.dag)) << "seed " << seed << ": " << exact.cost << " " << least.dag;
    ASSERT_TRUE(near(exact.lower_bound, least.dag)) << "seed " << seed;
    ASSERT_GE(dag.cost, least.dag - 1e-9) << "seed " << seed;
    ASSERT_GE(quick.cost, least.dag - 1e-9) << "seed " << seed;
    if (least.dag == infinite_cost) {
      EXPECT_FALSE(dag.feasible());
      continue;
    }
    if (!near(quick.cost, least.dag)) ++missed;
    ++feasible;
    if (strongly_connected(p).count < p.class_count()) ++cyclic;
    if (least.tree > least.dag + 1e-9) ++shared;
    ASSERT_TRUE(near(evaluator.evaluate(dag.genome).cost, dag.cost)) << "seed " << seed;
    ASSERT_TRUE(near(evaluator.evaluate(exact.genome).cost, least.dag)) << "seed " << seed;
    ASSERT_TRUE(near(evaluator.tree_cost(tree.genome), least.tree)) << "seed " << seed;
    ASSERT_TRUE(near(dag.cost, least.dag))
        << "seed " << seed << ": greedy " << dag.cost << ", least " << least.dag;
  }
  EXPECT_LE(missed, 3); // of graphs as small as these
  EXPECT_GT(feasible, 700);
  EXPECT_GT(cyclic, 300);
  EXPECT_GT(shared, 100);
}

TEST(Extract, MemoryThatIsUsedAgainChangesNothing) {
  DagExtractor kept;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    Random random(seed * 53);
    Shape shape = shape_of(seed);
    shape.classes = 1 + random.below(60);
    shape.rows = shape.classes + random.below(150);
    shape.negative = random.below(4) == 0;
    const ExtractionProblem p = random_problem(random, shape);
    const Extraction fresh = extract_dag(p);
    const Extraction& again = kept.extract(p);
    ASSERT_EQ(again.genome, fresh.genome) << "seed " << seed;
    ASSERT_EQ(again.cost, fresh.cost) << "seed " << seed;
    if (fresh.feasible()) {
      ASSERT_TRUE(near(Evaluator(p).evaluate(fresh.genome).cost, fresh.cost)) << "seed " << seed;
    }
  }
}

TEST(Extract, CompactRowsAreThoseWithTerms) {
  int cyclic = 0, large = 0;
  CompactGraph graph;
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    Random random(seed * 37);
    Shape shape = shape_of(seed);
    if (seed % 4 == 0) {
      shape.classes = 50 + random.below(300);
      shape.rows = shape.classes * 3;
      shape.leaf = 0.05;
      shape.forward = 0.9;
      shape.max_children = 2;
    }
    const ExtractionProblem p = random_problem(random, shape);
    const TreeExtraction tree = extract_tree(p);
    ASSERT_EQ(graph.build(p), tree.feasible()) << "seed " << seed;
    if (!tree.feasible()) continue;
    std::vector<uint32_t> row_of(p.row_count(), no_row);
    for (uint32_t c = 0; c < graph.class_count(); ++c)
      for (uint32_t r = graph.first_row(c); r < graph.end_row(c); ++r) {
        row_of[graph.source(r)] = r;
        ASSERT_EQ(p.class_of(graph.source(r)), p.class_of(graph.source(graph.first_row(c))));
      }
    // What the roots reach over any rows is there, if it has a term and does not stand below
    // itself.
    std::vector<uint8_t> seen(p.class_count(), 0);
    std::vector<uint32_t> todo(p.roots().begin(), p.roots().end());
    for (const uint32_t c : todo) seen[c] = 1;
    while (!todo.empty()) {
      const uint32_t c = todo.back();
      todo.pop_back();
      for (uint32_t r = p.first_row(c); r < p.end_row(c); ++r) {
        bool usable = p.cost(r) < infinite_cost;
        for (const uint32_t d : p.children(r)) {
          if (!seen[d]) seen[d] = 1, todo.push_back(d);
          usable = usable && d != c && tree.class_cost[d] < infinite_cost;
        }
        ASSERT_EQ(row_of[r] != no_row, usable) << "seed " << seed << " row " << r;
      }
    }
    for (uint32_t c = 0; c < graph.class_count(); ++c) {
      if (graph.first_row(c) == graph.end_row(c)) continue;
      const uint32_t row = graph.tree_choice()[c];
      ASSERT_TRUE(row >= graph.first_row(c) && row < graph.end_row(c)) << "seed " << seed;
      double sum =
          graph.cost(row); // a repeated child counts once here, so the value is that of the compact rows
      for (const uint32_t d : graph.children(row)) {
        sum += graph.tree_value()[d];
        ASSERT_TRUE(d < c || graph.component(c) == graph.component(d)) << "seed " << seed;
      }
      ASSERT_LE(sum, graph.tree_value()[c] + 1e-9) << "seed " << seed;
      if (graph.on_cycle(c)) ++cyclic;
      if (c - graph.component(c) > 40) ++large;
    }
    Solution solution(graph);
    solution.start();
    ASSERT_GE(solution.cost(), graph.lower_bound() - 1e-9) << "seed " << seed;
    if (seed % 4 != 0) {
      ASSERT_LE(graph.lower_bound(), exhaustive(p).dag + 1e-9) << "seed " << seed;
    }
  }
  EXPECT_GT(cyclic, 1000);
  EXPECT_GT(large, 1000);
}

TEST(Extract, ComponentsWhoseTermsAreFoundOneByOne) {
  // One cycle; the depth-first search goes up from class 0, terms come down from it: each pass over
  // the classes finds one more.
  ExtractionBuilder builder;
  const uint32_t n = 3000;
  builder.add_classes(n);
  for (uint32_t c = 0; c < n; ++c) {
    if (c + 1 < n) builder.add_row(c, std::vector<uint32_t>{c + 1}, 0.25);
    builder.add_row(c, c == 0 ? std::vector<uint32_t>() : std::vector<uint32_t>{c - 1}, 1);
  }
  builder.add_root(0);
  builder.add_root(n - 1);
  const ExtractionProblem p = builder.build();
  const TreeExtraction tree = extract_tree(p);
  CompactGraph graph;
  ASSERT_TRUE(graph.build(p));
  ASSERT_EQ(graph.class_count(), n);
  for (uint32_t c = 0; c < n; ++c) {
    ASSERT_EQ(graph.component(c), 0u);
    ASSERT_EQ(graph.tree_value()[c], tree.class_cost[p.class_of(graph.source(graph.first_row(c)))]);
  }
  EXPECT_EQ(extract_dag(p).cost, n);
}

TEST(Extract, MovesOfASolutionKeepItsCounts) {
  int taken = 0, cyclic = 0;
  for (uint64_t seed = 1; seed <= 120; ++seed) {
    Random random(seed * 101);
    Shape shape = shape_of(seed);
    shape.classes = 10 + random.below(40);
    shape.rows = shape.classes * 3;
    shape.negative = seed % 5 == 0;
    const ExtractionProblem p = random_problem(random, shape);
    CompactGraph graph;
    if (!graph.build(p)) continue;
    Solution solution(graph);
    solution.start();
    Evaluator evaluator(p);
    const auto check = [&] {
      Genome genome(p.class_count(), no_row);
      std::vector<uint32_t> uses(graph.class_count(), 0);
      for (const uint32_t c : graph.roots()) ++uses[c];
      solution.each([&](uint32_t c) {
        genome[p.class_of(graph.source(solution.choice(c)))] = graph.source(solution.choice(c));
        for (const uint32_t d : graph.children(solution.choice(c))) ++uses[d];
      });
      const Evaluation& e = evaluator.evaluate(genome);
      ASSERT_TRUE(e.valid()) << "seed " << seed;
      ASSERT_NEAR(e.cost, solution.cost(), 1e-6) << "seed " << seed;
      for (uint32_t c = 0; c < graph.class_count(); ++c)
        ASSERT_EQ(uses[c], solution.uses(c)) << "seed " << seed << " class " << c;
    };
    check();
    for (int i = 0; i < 60; ++i) {
      const uint32_t c = random.below(graph.class_count());
      if (!solution.contains(c) || !graph.has_choice(c)) continue;
      if (i % 8 == 0) solution.set_defaults();
      const double before = solution.cost();
      std::vector<uint32_t> rows;
      for (uint32_t d = 0; d < graph.class_count(); ++d) rows.push_back(solution.choice(d));
      solution.mark();
      const uint32_t row = graph.first_row(c) + random.below(graph.end_row(c) - graph.first_row(c));
      if (row == solution.choice(c)) continue;
      if (solution.leads_back(c, row)) {
        ++cyclic;
        continue;
      }
      solution.take(c, row);
      ++taken;
      check();
      if (random.below(2) == 0) {
        const double changed = solution.cost();
        if (solution.improve(c)) {
          EXPECT_LT(solution.cost(), changed);
        } else {
          EXPECT_EQ(solution.cost(), changed);
        }
        check();
      }
      if (random.below(2) == 0) {
        solution.undo();
        EXPECT_EQ(solution.cost(), before);
        for (uint32_t d = 0; d < graph.class_count(); ++d) ASSERT_EQ(solution.choice(d), rows[d]);
        check();
      }
    }
  }
  EXPECT_GT(taken, 500);
  EXPECT_GT(cyclic, 50);
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
    const double least = exhaustive(p).dag;
    const Reduction reduction(p);
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
