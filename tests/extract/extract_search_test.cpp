// extract/extract_search_test.cpp -- the best terms in order, uniform samples, edits of genomes,
// climbing, joining of passes.
#include "extract/extract_kbest.h"
#include "extract/extract_moves.h"
#include "extract/extract_passes.h"
#include "extract/extract_sample.h"
#include "extract_support.h"
#include "luminal/error.h"
#include <cmath>
#include <gtest/gtest.h>
#include <map>
#include <set>

using namespace luminal;
using namespace luminal::egraph;
using namespace luminal::egraph::test;

namespace {

/// Costs of all terms of all classes up to a height, cheaper than `limit`, sorted.
std::vector<std::vector<double>> terms_up_to(const ExtractionProblem& p, int height, double limit) {
  std::vector<std::vector<double>> terms(p.class_count());
  for (int h = 0; h < height; ++h) {
    std::vector<std::vector<double>> next(p.class_count());
    for (uint32_t r = 0; r < p.row_count(); ++r) {
      std::vector<double> sums{p.cost(r)};
      for (const uint32_t d : p.children(r)) {
        std::vector<double> more;
        for (const double a : sums)
          for (const double b : terms[d])
            if (a + b < limit) more.push_back(a + b);
        sums = std::move(more);
      }
      for (const double s : sums)
        if (s < limit) next[p.class_of(r)].push_back(s);
    }
    terms = std::move(next);
  }
  for (auto& t : terms) std::sort(t.begin(), t.end());
  return terms;
}

Shape small_shape(uint64_t seed) {
  Random random(seed);
  Shape shape;
  shape.classes = 2 + random.below(4);
  shape.rows = shape.classes + 2 + random.below(6);
  shape.forward = random.unit() * 0.6;
  shape.max_children = 2;
  shape.leaf = 0.5;
  shape.zero = shape.infinite = 0;
  return shape;
}

} // namespace

TEST(KBest, EqualsTheSortedListOfAllTerms) {
  size_t compared = 0, endless = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    Random random(seed * 17);
    const ExtractionProblem p = random_problem(random, small_shape(seed));
    const double limit = 16;
    const auto all = terms_up_to(p, 17, limit); // every cost is at least 1: no cheaper term is higher
    KBest best(p);
    for (uint32_t c = 0; c < p.class_count(); ++c) {
      for (uint32_t k = 0; k < all[c].size() && k < 40; ++k) {
        const KBest::Term* term = best.get(c, k);
        ASSERT_NE(term, nullptr) << "seed " << seed << " class " << c << " rank " << k;
        ASSERT_NEAR(term->cost, all[c][k], 1e-9) << "seed " << seed << " class " << c << " rank " << k;
        ++compared;
      }
      if (all[c].size() >= 40) {
        ++endless;
        continue;
      }
      if (const KBest::Term* next = best.get(c, uint32_t(all[c].size()))) {
        ASSERT_GE(next->cost, limit - 1e-9);
      }
    }
  }
  EXPECT_GT(compared, 3000u);
  EXPECT_GT(endless, 0u);
}

TEST(KBest, CyclesWithoutCostEnd) {
  ExtractionBuilder builder;
  builder.add_classes(2);
  builder.add_row(0, std::vector<uint32_t>{1}, 0);
  builder.add_row(1, std::vector<uint32_t>{0, 0}, 0);
  builder.add_row(0, {}, 0);
  builder.add_row(1, std::vector<uint32_t>{1}, 0);
  builder.add_root(0);
  const ExtractionProblem p = builder.build();
  KBest best(p);
  std::set<std::pair<uint32_t, std::vector<uint32_t>>> seen;
  for (uint32_t k = 0; k < 500; ++k) {
    const KBest::Term* term = best.get(0, k);
    ASSERT_NE(term, nullptr);
    EXPECT_EQ(term->cost, 0);
    EXPECT_TRUE(seen.emplace(term->row, term->ranks).second) << "rank " << k << " came before";
  }
}

TEST(KBest, GenomesEqualTheSortedExhaustiveList) {
  int several = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    Random random(seed * 3);
    Shape shape = small_shape(seed);
    shape.classes += 1;
    shape.roots = 1 + random.below(2);
    const ExtractionProblem p = random_problem(random, shape);
    // Genomes that differ only where the roots do not reach are one.
    std::map<Genome, double> all;
    Evaluator evaluator(p);
    every_genome(p, [&](const Genome& genome) {
      const double cost = evaluator.tree_cost(genome);
      if (cost == infinite_cost) return;
      Genome reached(p.class_count(), no_row);
      for (const uint32_t c : evaluator.evaluate(genome).order) reached[c] = genome[c];
      all[reached] = cost;
    });
    std::vector<double> costs;
    for (const auto& [genome, cost] : all) costs.push_back(cost);
    std::sort(costs.begin(), costs.end());
    const uint32_t k = 6;
    const auto found = k_best_genomes(p, k, 3000);
    if (found.size() < std::min<size_t>(k, costs.size()))
      continue; // endlessly many terms between two genomes
    std::set<Genome> distinct;
    for (size_t i = 0; i < found.size(); ++i) {
      ASSERT_NEAR(found[i].cost, costs[i], 1e-9) << "seed " << seed << " rank " << i;
      ASSERT_NEAR(evaluator.tree_cost(found[i].genome), found[i].cost, 1e-9);
      distinct.insert(found[i].genome);
    }
    ASSERT_EQ(distinct.size(), found.size()) << "seed " << seed;
    if (found.size() > 2) ++several;
  }
  EXPECT_GT(several, 60);
}

TEST(Sample, UniformAndWithoutCycles) {
  // Chi-square against the uniform distribution over all assignments without a chosen cycle, for
  // several graphs with cycles.
  int graphs = 0, with_cycles = 0;
  for (uint64_t seed = 1; graphs < 24 && seed < 400; ++seed) {
    Random random(seed * 71);
    Shape shape;
    shape.classes = 5;
    shape.rows = 11;
    shape.leaf = 0.35;
    shape.forward = 0.7;
    shape.infinite = 0;
    const ExtractionProblem p = random_problem(random, shape);
    GenomeSampler sampler(p);
    if (!sampler.feasible()) continue;
    Genome genome;
    sampler.sample(random, genome);
    // Every assignment to the classes that are sampled, over rows with terms; a genome is valid
    // where no class reaches itself.
    std::map<Genome, int> count;
    uint64_t cyclic = 0;
    const TreeExtraction tree = extract_tree(p);
    every_genome(p, [&](const Genome& g) {
      Genome cut(p.class_count(), no_row);
      for (uint32_t c = 0; c < p.class_count(); ++c) {
        if (genome[c] == no_row) continue;
        for (const uint32_t d : p.children(g[c]))
          if (tree.genome[d] == no_row) return;
        cut[c] = g[c];
      }
      try {
        GenomeEditor editor(p, cut);
        count[cut] = 0;
      } catch (const Error&) {
        ++cyclic;
      }
    });
    if (count.size() < 4 || count.size() > 60 || cyclic == 0) continue;
    ++graphs;
    with_cycles += cyclic > count.size() / 2;
    const int draws = int(count.size()) * 300;
    for (int i = 0; i < draws; ++i) {
      ASSERT_TRUE(sampler.sample(random, genome, 100000));
      const auto at = count.find(genome);
      ASSERT_NE(at, count.end()) << "seed " << seed << ": a cycle, or a row without a term";
      ++at->second;
    }
    double chi = 0;
    for (const auto& [g, n] : count) chi += (n - 300.0) * (n - 300.0) / 300;
    const double freedom = double(count.size()) - 1;
    // The normal approximation of chi-square: beyond 4.5 standard deviations is no accident.
    ASSERT_LT((chi - freedom) / std::sqrt(2 * freedom), 4.5)
        << "seed " << seed << ", " << count.size() << " genomes";
  }
  EXPECT_EQ(graphs, 24);
  EXPECT_GT(with_cycles, 4);
}

TEST(Sample, LargeComponentsStayWithoutCycles) {
  Random random(3);
  Shape shape;
  shape.classes = 400;
  shape.rows = 2400;
  shape.leaf = 0.03;
  shape.forward = 0.9;
  shape.infinite = 0;
  const ExtractionProblem p = random_problem(random, shape);
  GenomeSampler sampler(p);
  ASSERT_TRUE(sampler.feasible());
  EXPECT_GT(sampler.log2_count(), 300);
  Evaluator evaluator(p);
  std::set<Genome> distinct;
  Genome genome, again;
  for (int i = 0; i < 20; ++i) {
    sampler.sample(random, genome, 4);
    ASSERT_TRUE(evaluator.evaluate(genome).valid());
    EXPECT_NO_THROW(GenomeEditor(p, genome));
    distinct.insert(genome);
  }
  EXPECT_EQ(distinct.size(), 20u);
  Random a(77), b(77);
  sampler.sample(a, genome);
  sampler.sample(b, again);
  EXPECT_EQ(genome, again);
}

TEST(Moves, NoCycleIsLetIn) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    Random random(seed);
    Shape shape;
    shape.classes = 30;
    shape.rows = 90;
    shape.forward = 0.5;
    shape.infinite = 0;
    const ExtractionProblem p = random_problem(random, shape);
    const TreeExtraction tree = extract_tree(p);
    if (!tree.feasible()) continue;
    Genome start = tree.genome;
    GenomeEditor editor(p, start);
    for (int i = 0; i < 200; ++i) {
      const Genome before = editor.genome();
      std::vector<Move> moves;
      for (uint32_t k = 1 + random.below(4); k > 0; --k) moves.push_back({random.below(p.row_count())});
      Genome wanted = before;
      bool conflict = false;
      for (size_t a = 0; a < moves.size(); ++a) {
        for (size_t b = 0; b < a; ++b)
          conflict = conflict ||
                     (p.class_of(moves[a].row) == p.class_of(moves[b].row) && moves[a].row != moves[b].row);
        wanted[p.class_of(moves[a].row)] = moves[a].row;
      }
      bool cyclic = false;
      try {
        GenomeEditor fresh(p, wanted);
      } catch (const Error&) {
        cyclic = true;
      }
      const bool done = editor.apply(moves);
      ASSERT_EQ(done, !cyclic && !conflict) << "seed " << seed;
      ASSERT_EQ(editor.genome(), done ? wanted : before);
      if (done && random.below(3) == 0) {
        editor.undo();
        ASSERT_EQ(editor.genome(), before);
      }
    }
    const Genome before = editor.genome();
    editor.mutate(random, 8);
    EXPECT_NO_THROW(GenomeEditor(p, editor.genome()));
  }
}

TEST(Moves, ClimbSwitchesClassesTogether) {
  // Two users of a value: the cheap way needs both to move, since one alone pays for both ways.
  ExtractionBuilder builder;
  builder.add_classes(5); // 0, 1: the two ways; 2, 3: users; 4: root
  builder.add_row(0, {}, 10);
  builder.add_row(1, {}, 6);
  const uint32_t a0 = builder.add_row(2, std::vector<uint32_t>{0}, 1),
                 a1 = builder.add_row(2, std::vector<uint32_t>{1}, 1);
  const uint32_t b0 = builder.add_row(3, std::vector<uint32_t>{0}, 1),
                 b1 = builder.add_row(3, std::vector<uint32_t>{1}, 1);
  builder.add_row(4, std::vector<uint32_t>{2, 3}, 1);
  builder.add_root(4);
  const ExtractionProblem p = builder.build();
  (void)a0;
  (void)b0;
  const auto row_of = [&](uint32_t source) {
    for (uint32_t r = 0; r < p.row_count(); ++r)
      if (p.source(r) == source) return r;
    return no_row;
  };
  const Candidate start{{p.first_row(0), p.first_row(1), p.first_row(2), p.first_row(3), p.first_row(4)}, {}};
  // A stored value of class 2 saves 4.
  const CandidateCost cost = [](const Candidate& c, const Evaluation& e) {
    return e.cost - (c.stored[2] ? 4 : 0);
  };
  const ClimbResult alone = climb(p, start, cost);
  EXPECT_EQ(alone.cost, 13);
  ClimbOptions options;
  options.joint_moves = [&](const Candidate&, const Evaluation&) {
    return std::vector<std::vector<Move>>{{{row_of(a1)}, {row_of(b1)}}};
  };
  EXPECT_EQ(climb(p, start, cost, options).cost, 9);
  options.store_choices = [](const Candidate&, const Evaluation&) { return std::vector<uint32_t>{2, 3}; };
  const ClimbResult all = climb(p, start, cost, options);
  EXPECT_EQ(all.cost, 5);
  EXPECT_TRUE(all.candidate.stored[2] && !all.candidate.stored[3]);
  EXPECT_TRUE(all.finished);
  options.max_evaluations = 2;
  EXPECT_FALSE(climb(p, start, cost, options).finished);
  // Storing 1 and 2 saves 5 where both are stored and costs 1 where one is; having all of 0, 1 and
  // 2 costs 2 more.
  const CandidateCost together = [](const Candidate& c, const Evaluation& e) {
    const int count = c.stored[1] + c.stored[2];
    return e.cost + (count == 2 ? -5 : count) + (c.stored[0] ? 2 : 0);
  };
  ClimbOptions stores;
  stores.store_choices = [](const Candidate&, const Evaluation&) { return std::vector<uint32_t>{0, 1, 2}; };
  EXPECT_EQ(climb(p, start, together, stores).cost, 13);
  stores.joint_stores = [](const Candidate&, const Evaluation&) {
    return std::vector<std::vector<uint32_t>>{{0, 1}, {1, 2}};
  };
  EXPECT_EQ(climb(p, start, together, stores).cost, 8);
  Candidate stored = start;
  stored.stored = {1, 1, 1, 0, 0};
  const CandidateCost apart = [](const Candidate& c, const Evaluation& e) {
    return e.cost + (c.stored[0] != c.stored[1] ? 3 : 2 * c.stored[0]);
  };
  EXPECT_EQ(climb(p, stored, apart, stores).cost, 13); // both are given up together
  EXPECT_THROW(climb(p, start, [](const Candidate&, const Evaluation&) { return std::nan(""); }), Error);
}

TEST(Climb, TriesOnlyTheRowsThatAreConsidered) {
  ExtractionBuilder builder;
  builder.add_classes(2);
  const uint32_t children[] = {1};
  builder.add_row(0, children, 1);
  for (const double cost : {9.0, 5.0, 7.0}) builder.add_row(1, {}, cost);
  builder.add_row(1, {}, infinite_cost);
  builder.add_root(0);
  const ExtractionProblem p = builder.build();
  const Candidate start{{p.first_row(0), p.first_row(1)}, {}};
  const CandidateCost cost = [&](const Candidate& c, const Evaluation& e) {
    EXPECT_LT(p.cost(c.genome[1]), infinite_cost); // a row of infinite cost is never chosen
    return e.cost;
  };
  ClimbOptions options;
  EXPECT_EQ(climb(p, start, cost, options).cost, 6);
  // The start, and in two rounds both other rows.
  EXPECT_EQ(climb(p, start, cost, options).evaluations, 5u);
  options.consider = [&](uint32_t row) { return p.cost(row) != 5; };
  const ClimbResult without = climb(p, start, cost, options);
  EXPECT_EQ(without.cost, 8);
  EXPECT_EQ(p.cost(without.candidate.genome[1]), 7);
  options.consider = [](uint32_t) { return false; };
  EXPECT_EQ(climb(p, start, cost, options).cost, 10);
}

TEST(Passes, JoinedOnlyWhereNeitherComesFirst) {
  PassGraph graph; // one for all: clear() leaves nothing behind
  for (uint64_t seed = 1; seed <= 206; ++seed) {
    Random random(seed * 5);
    graph.clear();
    EXPECT_EQ(graph.size(), 0u);
    const uint32_t n = seed > 200 ? 130 : 3 + random.below(12); // some are wider than a word of a set
    std::vector<std::vector<uint32_t>> needs(n);
    for (uint32_t u = 0; u < n; ++u) {
      for (uint32_t d = 0; d < u; ++d)
        if (random.unit() < (n > 64 ? 0.01 : 0.2)) needs[u].push_back(d);
      graph.add(needs[u]);
    }
    for (int i = 0; i < 30; ++i) {
      const uint32_t a = random.below(n), b = random.below(n);
      // Reachability between groups from scratch.
      std::vector<std::vector<uint8_t>> reach(n, std::vector<uint8_t>(n, 0));
      for (uint32_t u = 0; u < n; ++u)
        for (const uint32_t d : needs[u]) reach[graph.group(d)][graph.group(u)] = 1;
      for (uint32_t k = 0; k < n; ++k)
        for (uint32_t x = 0; x < n; ++x)
          for (uint32_t y = 0; y < n; ++y) reach[x][y] = uint8_t(reach[x][y] | (reach[x][k] & reach[k][y]));
      const uint32_t ga = graph.group(a), gb = graph.group(b);
      const bool may = ga == gb || (!reach[ga][gb] && !reach[gb][ga]);
      ASSERT_EQ(graph.may_join(a, b), may) << "seed " << seed;
      ASSERT_EQ(graph.comes_before(a, b), ga != gb && reach[ga][gb]) << "seed " << seed;
      if (may)
        graph.join(a, b);
      else
        EXPECT_THROW(graph.join(a, b), Error);
    }
    std::vector<uint32_t> place(n, 0);
    const auto order = graph.order();
    for (uint32_t i = 0; i < order.size(); ++i) place[order[i]] = i;
    for (uint32_t u = 0; u < n; ++u)
      for (const uint32_t d : needs[u])
        if (graph.group(d) != graph.group(u)) {
          ASSERT_LT(place[graph.group(d)], place[graph.group(u)]) << "seed " << seed;
        }
  }
}

TEST(Passes, GreedyTakesTheGreatestGain) {
  PassGraph graph;
  graph.add({});
  graph.add({});
  graph.add(std::vector<uint32_t>{0});
  graph.add({});
  std::vector<std::pair<std::vector<uint32_t>, uint32_t>> joined;
  join_greedily(
      graph,
      [](std::span<const uint32_t> group, uint32_t pass) {
        if (pass == 2) return group[0] == 1 ? 5.0 : 9.0; // 0 must come first, so 1 it is
        if (pass == 3) return -1.0;
        return 0.0;
      },
      [&](std::span<const uint32_t> group, uint32_t pass) {
        EXPECT_EQ(graph.group(pass), pass); // told before it happens
        joined.emplace_back(std::vector<uint32_t>(group.begin(), group.end()), pass);
      });
  const std::pair<std::vector<uint32_t>, uint32_t> only{{1}, 2};
  ASSERT_EQ(joined.size(), 1u);
  EXPECT_EQ(joined[0], only);
  EXPECT_EQ(graph.group(2), 1u);
  EXPECT_EQ(graph.group(3), 3u);
  EXPECT_EQ(graph.group(0), 0u);
}
