// extract/extract_sample.cpp -- uniform genomes without cycles.
#include "extract/extract_sample.h"
#include "base/check.h"
#include "extract/extract_heap.h"
#include "extract/extract_parents.h"
#include <algorithm>
#include <cmath>

namespace luminal::egraph {

GenomeSampler::GenomeSampler(const ExtractionProblem& p) : problem_(p) {
  // A row is usable where all its children have terms. Costs do not matter.
  const TreeExtraction tree = extract_tree(p, [](uint32_t, std::span<const double> children) {
    return children.empty() ? 0.0 : *std::max_element(children.begin(), children.end());
  });
  const auto usable = [&](uint32_t r) {
    if (!(p.cost(r) < infinite_cost)) return false;
    for (const uint32_t d : p.children(r))
      if (tree.genome[d] == no_row || d == p.class_of(r)) return false;
    return true;
  };
  std::vector<uint8_t> reached(p.class_count(), 0);
  std::vector<uint32_t> todo;
  for (const uint32_t c : p.roots()) {
    feasible_ = feasible_ && tree.genome[c] != no_row;
    reached[c] = 1;
    todo.push_back(c);
  }
  while (!todo.empty()) {
    const uint32_t c = todo.back();
    todo.pop_back();
    for (uint32_t r = p.first_row(c); r < p.end_row(c); ++r)
      if (usable(r))
        for (const uint32_t d : p.children(r))
          if (!reached[d]) reached[d] = 1, todo.push_back(d);
  }
  first_.push_back(0);
  for (uint32_t c = 0; c < p.class_count(); ++c) {
    for (uint32_t r = p.first_row(c); r < p.end_row(c); ++r)
      if (reached[c] && usable(r)) row_.push_back(r);
    first_.push_back(uint32_t(row_.size()));
  }
  const Components components = strongly_connected(p, usable);
  component_of_ = components.of_class;
  component_first_.assign(components.count + 1, 0);
  for (uint32_t c = 0; c < p.class_count(); ++c)
    if (reached[c]) ++component_first_[component_of_[c] + 1];
  for (uint32_t k = 0; k < components.count; ++k) component_first_[k + 1] += component_first_[k];
  member_.resize(component_first_.back());
  std::vector<uint32_t> next(component_first_.begin(), component_first_.end() - 1);
  for (uint32_t c = 0; c < p.class_count(); ++c)
    if (reached[c]) member_[next[component_of_[c]]++] = c;
}

double GenomeSampler::log2_count() const {
  double bits = 0;
  for (size_t c = 0; c + 1 < first_.size(); ++c)
    if (first_[c + 1] > first_[c]) bits += std::log2(double(first_[c + 1] - first_[c]));
  return bits;
}

bool GenomeSampler::sample(Random& random, Genome& genome, int max_rounds) {
  if (!feasible_) throw Error("[extraction] there is nothing to sample: a root has no finite term");
  genome.assign(problem_.class_count(), no_row);
  bool uniform = true;
  for (uint32_t k = 0; k + 1 < component_first_.size(); ++k) {
    const uint32_t size = component_first_[k + 1] - component_first_[k];
    if (size == 0) continue;
    if (size == 1) {
      const uint32_t c = member_[component_first_[k]];
      genome[c] = row_[first_[c] + random.below(first_[c + 1] - first_[c])];
    } else if (!sample_component(k, random, genome, max_rounds)) {
      uniform = false;
      sample_ordered(k, random, genome);
    }
  }
  return uniform;
}

bool GenomeSampler::sample_component(uint32_t k, Random& random, Genome& genome, int max_rounds) {
  const ExtractionProblem& p = problem_;
  const std::span<const uint32_t> members(member_.data() + component_first_[k],
                                          member_.data() + component_first_[k + 1]);
  const auto size = uint32_t(members.size());
  std::vector<uint32_t> local(p.class_count(), no_row);
  for (uint32_t i = 0; i < size; ++i) local[members[i]] = i;
  const auto inside = [&](uint32_t d) { return component_of_[d] == k; };
  const auto draw = [&](uint32_t i) {
    const uint32_t c = members[i];
    genome[c] = row_[first_[c] + random.below(first_[c + 1] - first_[c])];
  };
  std::vector<std::vector<uint32_t>> possible_users(size);
  for (uint32_t i = 0; i < size; ++i) {
    draw(i);
    for (uint32_t r = first_[members[i]]; r < first_[members[i] + 1]; ++r)
      for (const uint32_t d : p.children(row_[r]))
        if (inside(d)) possible_users[local[d]].push_back(i);
  }
  std::vector<uint32_t> todo;
  std::vector<uint8_t> on_cycle(size), again(size), leads_in(size), below(size);
  for (int round = 0; round < max_rounds; ++round) {
    // Classes from which no chosen cycle is reached go first (leaves up); of the rest, those that
    // no cycle reaches (roots down).
    std::vector<std::vector<uint32_t>> used_by(size);
    std::vector<uint32_t> down(size, 0), up(size, 0);
    for (uint32_t i = 0; i < size; ++i)
      for (const uint32_t d : p.children(genome[members[i]]))
        if (inside(d)) {
          ++down[i];
          ++up[local[d]];
          used_by[local[d]].push_back(i);
        }
    std::fill(on_cycle.begin(), on_cycle.end(), 1);
    todo.clear();
    for (uint32_t i = 0; i < size; ++i)
      if (down[i] == 0) todo.push_back(i);
    uint32_t left = size;
    while (!todo.empty()) {
      const uint32_t i = todo.back();
      todo.pop_back();
      on_cycle[i] = 0;
      --left;
      for (const uint32_t j : used_by[i])
        if (--down[j] == 0) todo.push_back(j);
    }
    if (left == 0) return true;
    for (uint32_t i = 0; i < size; ++i)
      if (on_cycle[i] && up[i] == 0) todo.push_back(i);
    while (!todo.empty()) { // above the cycles, not on them
      const uint32_t i = todo.back();
      todo.pop_back();
      on_cycle[i] = 0;
      for (const uint32_t d : p.children(genome[members[i]]))
        if (inside(d) && --up[local[d]] == 0 && on_cycle[local[d]]) todo.push_back(local[d]);
    }
    // What is drawn again: the classes on cycles, and all classes of any cycle that agrees with the
    // present rows of those that are drawn again, whatever the rows of the others: what is kept
    // must not be told apart by what was seen of it.
    again = on_cycle;
    for (bool grown = true; grown;) {
      grown = false;
      std::fill(below.begin(), below.end(), 0);
      todo.clear();
      const auto lead = [&](uint32_t d) {
        if (inside(d) && !again[local[d]] && !below[local[d]]) below[local[d]] = 1, todo.push_back(local[d]);
      };
      for (uint32_t i = 0; i < size; ++i)
        if (again[i])
          for (const uint32_t d : p.children(genome[members[i]])) lead(d);
      while (!todo.empty()) {
        const uint32_t c = members[todo.back()];
        todo.pop_back();
        for (uint32_t r = first_[c]; r < first_[c + 1]; ++r)
          for (const uint32_t d : p.children(row_[r])) lead(d);
      }
      std::fill(leads_in.begin(), leads_in.end(), 0);
      for (uint32_t i = 0; i < size; ++i)
        if (again[i]) todo.push_back(i);
      while (!todo.empty()) {
        const uint32_t i = todo.back();
        todo.pop_back();
        for (const uint32_t j : possible_users[i])
          if (!again[j] && !leads_in[j]) leads_in[j] = 1, todo.push_back(j);
      }
      for (uint32_t i = 0; i < size; ++i)
        if (below[i] && leads_in[i]) again[i] = 1, grown = true;
    }
    for (uint32_t i = 0; i < size; ++i)
      if (again[i]) draw(i);
  }
  return false;
}

void GenomeSampler::sample_ordered(uint32_t k, Random& random, Genome& genome) {
  // Random costs, and Knuth's order inside the component; what lies outside costs nothing.
  const ExtractionProblem& p = problem_;
  const std::span<const uint32_t> members(member_.data() + component_first_[k],
                                          member_.data() + component_first_[k + 1]);
  std::vector<uint32_t> local(p.class_count(), no_row);
  for (uint32_t i = 0; i < members.size(); ++i) local[members[i]] = i;
  ExtractionBuilder builder;
  builder.add_classes(uint32_t(members.size()));
  std::vector<uint32_t> children, rows;
  for (uint32_t i = 0; i < members.size(); ++i)
    for (uint32_t r = first_[members[i]]; r < first_[members[i] + 1]; ++r) {
      children.clear();
      for (const uint32_t d : p.children(row_[r]))
        if (component_of_[d] == k) children.push_back(local[d]);
      builder.add_row(i, children, -std::log(1 - random.unit()));
      rows.push_back(row_[r]);
    }
  const ExtractionProblem part = builder.build();
  const TreeExtraction tree = extract_tree(part);
  for (uint32_t i = 0; i < members.size(); ++i) {
    LUMINAL_CHECK(tree.genome[i] != no_row);
    genome[members[i]] = rows[part.source(tree.genome[i])];
  }
}

} // namespace luminal::egraph
