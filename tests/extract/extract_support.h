// extract/extract_support.h -- random extraction problems and exhaustive answers, for the tests of
// extraction.
#pragma once
#include "extract/extract.h"
#include "extract/extract_sample.h"
#include <algorithm>
#include <vector>

namespace luminal::egraph::test {

struct Shape {
  uint32_t classes = 6, rows = 12;
  uint32_t max_children = 3, roots = 1;
  double leaf = 0.3;    ///< share of rows without children
  double forward = 0.3; ///< share of children that may be any class: cycles
  double zero = 0.1, infinite = 0.05;
  bool integers = true;
  bool negative = false;
};

inline ExtractionProblem random_problem(Random& random, const Shape& shape) {
  ExtractionBuilder builder;
  builder.add_classes(shape.classes);
  std::vector<uint32_t> children;
  for (uint32_t r = 0; r < shape.rows; ++r) {
    const uint32_t c = r < shape.classes ? r : random.below(shape.classes);
    children.clear();
    if (random.unit() >= shape.leaf)
      for (uint32_t k = 1 + random.below(shape.max_children); k > 0; --k)
        children.push_back(c == 0 || random.unit() < shape.forward ? random.below(shape.classes)
                                                                   : random.below(c));
    double cost = shape.integers ? random.below(9) + 1 : 0.1 + random.unit() * 9;
    const double u = random.unit();
    if (u < shape.zero)
      cost = 0;
    else if (u < shape.zero + shape.infinite)
      cost = infinite_cost;
    else if (shape.negative && random.unit() < 0.3)
      cost = -cost;
    builder.add_row(c, children, cost);
  }
  for (uint32_t k = 0; k < shape.roots; ++k)
    builder.add_root(shape.classes - 1 - random.below(std::min(3u, shape.classes)));
  return builder.build();
}

/// Calls see(genome) for every way to choose a row for each class.
template <class See> void every_genome(const ExtractionProblem& p, const See& see) {
  Genome genome(p.class_count());
  for (uint32_t c = 0; c < p.class_count(); ++c)
    genome[c] = p.first_row(c) < p.end_row(c) ? p.first_row(c) : no_row;
  for (;;) {
    see(genome);
    uint32_t c = 0;
    for (; c < p.class_count(); ++c) {
      if (genome[c] == no_row) continue;
      if (++genome[c] < p.end_row(c)) break;
      genome[c] = p.first_row(c);
    }
    if (c == p.class_count()) return;
  }
}

struct Least {
  double dag = infinite_cost, tree = infinite_cost;
};
inline Least exhaustive(const ExtractionProblem& p) {
  Least least;
  Evaluator evaluator(p);
  every_genome(p, [&](const Genome& genome) {
    least.dag = std::min(least.dag, evaluator.evaluate(genome).cost);
    least.tree = std::min(least.tree, evaluator.tree_cost(genome));
  });
  return least;
}

} // namespace luminal::egraph::test
