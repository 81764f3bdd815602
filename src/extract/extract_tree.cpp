// extract/extract_tree.cpp -- tree cost by Knuth's algorithm; evaluation of a genome.
#include "base/check.h"
#include "extract/extract.h"
#include "extract/extract_heap.h"
#include "extract/extract_parents.h"
#include <algorithm>
#include <cmath>

namespace luminal::egraph {
namespace {

/// `price(row)` is called when all children of a row have their final costs.
template <class Price> TreeExtraction knuth(const ExtractionProblem& p, Price price) {
  TreeExtraction out;
  const uint32_t n = p.class_count();
  out.genome.assign(n, no_row);
  out.class_cost.assign(n, infinite_cost);
  const Parents parents(p);
  std::vector<uint32_t> pending(p.row_count());
  std::vector<uint8_t> done(n, 0);
  ClassHeap heap(n);
  const auto offer = [&](uint32_t row) {
    const uint32_t c = p.class_of(row);
    if (done[c] || !(p.cost(row) < infinite_cost)) return;
    const double cost = price(row, out.class_cost);
    if (!(cost < infinite_cost)) return;
    if (cost < out.class_cost[c] || (cost == out.class_cost[c] && row < out.genome[c])) {
      out.class_cost[c] = cost;
      out.genome[c] = row;
      heap.offer(c, cost);
    }
  };
  for (uint32_t r = 0; r < p.row_count(); ++r) {
    pending[r] = uint32_t(p.children(r).size());
    if (pending[r] == 0) offer(r);
  }
  out.order.reserve(n);
  while (!heap.empty()) {
    const uint32_t c = heap.pop();
    done[c] = 1;
    out.order.push_back(c);
    for (const uint32_t r : parents.of(c))
      if (--pending[r] == 0) offer(r);
  }
  out.cost = 0;
  for (const uint32_t c : p.roots()) out.cost += out.class_cost[c];
  return out;
}

} // namespace

TreeExtraction extract_tree(const ExtractionProblem& p) {
  if (p.has_negative_costs())
    throw Error("[extraction] tree cost with negative costs has no least element; use DAG cost");
  return knuth(p, [&](uint32_t row, const std::vector<double>& cost) {
    double sum = p.cost(row);
    for (const uint32_t c : p.children(row)) sum += cost[c];
    return sum;
  });
}

TreeExtraction extract_tree(const ExtractionProblem& p, const RowCost& row_cost) {
  std::vector<double> child_costs;
  return knuth(p, [&](uint32_t row, const std::vector<double>& cost) {
    child_costs.clear();
    for (const uint32_t c : p.children(row)) child_costs.push_back(cost[c]);
    const double value = row_cost(row, child_costs);
    const double least = child_costs.empty() ? 0 : *std::max_element(child_costs.begin(), child_costs.end());
    if (!(value >= least))
      throw Error(fmt::format("[extraction] the cost function gives {} for row {}, whose children cost up to "
                              "{}; a cost must not lie "
                              "below that of a child",
                              value, p.source(row), least));
    return value;
  });
}

Evaluator::Evaluator(const ExtractionProblem& problem)
    : problem_(problem), stamp_(problem.class_count(), 0), pending_(problem.class_count(), 0),
      tree_(problem.class_count(), 0) {}

const Evaluation& Evaluator::evaluate(const Genome& genome) {
  const ExtractionProblem& p = problem_;
  if (genome.size() != p.class_count())
    throw Error(fmt::format("[extraction] a genome of {} classes for a problem of {}", genome.size(),
                            p.class_count()));
  result_.cost = 0;
  result_.complete = result_.acyclic = true;
  result_.order.clear();
  if (++round_ == 0) { // the counter came round
    std::fill(stamp_.begin(), stamp_.end(), 0);
    round_ = 1;
  }
  // What the roots reach, and how many chosen parents each class has; then Kahn's algorithm from
  // the roots down.
  stack_.clear();
  const auto reach = [&](uint32_t c) {
    if (stamp_[c] != round_) {
      stamp_[c] = round_;
      pending_[c] = 0;
      stack_.push_back(c);
    }
  };
  for (const uint32_t c : p.roots()) reach(c);
  uint32_t reached = 0;
  for (size_t i = 0; i < stack_.size(); ++i) { // the stack is kept: it is the list of what is reached
    const uint32_t c = stack_[i], row = genome[c];
    ++reached;
    if (row == no_row || row >= p.row_count() || p.class_of(row) != c || !(p.cost(row) < infinite_cost)) {
      result_.complete = false;
      continue;
    }
    result_.cost += p.cost(row);
    for (const uint32_t d : p.children(row)) {
      reach(d);
      ++pending_[d];
    }
  }
  if (!result_.complete) {
    result_.cost = infinite_cost;
    return result_;
  }
  auto& order = result_.order;
  for (const uint32_t c : p.roots())
    if (pending_[c] == 0) order.push_back(c);
  for (size_t i = 0; i < order.size(); ++i)
    for (const uint32_t d : p.children(genome[order[i]]))
      if (--pending_[d] == 0) order.push_back(d);
  if (order.size() != reached) {
    result_.acyclic = false;
    result_.cost = infinite_cost;
  }
  std::reverse(order.begin(), order.end());
  return result_;
}

double Evaluator::tree_cost(const Genome& genome) {
  if (!evaluate(genome).valid()) return infinite_cost;
  for (const uint32_t c : result_.order) {
    double sum = problem_.cost(genome[c]);
    for (const uint32_t d : problem_.children(genome[c])) sum += tree_[d];
    tree_[c] = sum;
  }
  double sum = 0;
  for (const uint32_t c : problem_.roots()) sum += tree_[c];
  return sum;
}

} // namespace luminal::egraph
