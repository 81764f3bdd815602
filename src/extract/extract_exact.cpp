// extract/extract_exact.cpp -- branch and bound on the reduced problem.
#include "extract/extract_exact.h"
#include "extract/extract_bound.h"
#include "extract/extract_reduce.h"
#include <algorithm>
#include <cmath>
#include <memory>

namespace luminal::egraph {
namespace {

/// The least difference of two costs that are not equal, as far as it is known: 1 where all costs
/// are integers.
double unit_of(const ExtractionProblem& p) {
  for (uint32_t r = 0; r < p.row_count(); ++r)
    if (p.cost(r) < infinite_cost && (p.cost(r) != std::floor(p.cost(r)) || std::abs(p.cost(r)) > 1e9))
      return 0;
  return 1;
}

class Search {
public:
  Search(const ExtractionProblem& p, const ExactOptions& options)
      : p_(p), options_(options), bound_(p), unit_(unit_of(p)) {}

  void run(const Extraction& start, ExactExtraction& out) {
    bound_.offer(start);
    struct Node {
      std::vector<uint8_t> alive;
      std::shared_ptr<const std::vector<double>> shares;
      double bound;
    };
    std::vector<Node> open;
    open.push_back({std::vector<uint8_t>(p_.row_count(), 1), nullptr, -infinite_cost});
    bool complete = true;
    while (!open.empty()) {
      if (out.nodes >= options_.max_nodes || bound_.steps() > options_.max_steps) {
        complete = false;
        break;
      }
      Node node = std::move(open.back());
      open.pop_back();
      if (node.bound >= enough()) continue;
      ++out.nodes;
      bound_.alive = std::move(node.alive);
      if (!prepare_below_roots()) continue;
      if (node.shares)
        bound_.shares = *node.shares;
      else
        bound_.reset_shares();
      if (closed(out.nodes == 1 ? 300 : 40)) continue;
      const uint32_t row = branch();
      if (row == no_row) continue; // nothing to choose: the sweep has met the one solution
      const auto shares = std::make_shared<const std::vector<double>>(bound_.shares);
      std::vector<uint8_t> without = bound_.alive, with = bound_.alive;
      without[row] = 0;
      const uint32_t c = p_.class_of(row);
      for (uint32_t r = p_.first_row(c); r < p_.end_row(c); ++r) with[r] = r == row;
      open.push_back({std::move(without), shares, bound_.bound()});
      open.push_back({std::move(with), shares, bound_.bound()});
    }
    out.cost = bound_.best().cost;
    out.genome = bound_.best().genome;
    out.optimal = complete;
    out.lower_bound = out.cost;
    if (!complete)
      for (const Node& node : open)
        out.lower_bound = std::min(out.lower_bound, std::max(node.bound, root_bound_));
  }

private:
  /// Bounds from here on cannot lead to a better solution.
  double enough() const {
    const double best = bound_.best().cost;
    return best - std::max(unit_ * (1 - 1e-6), 1e-9 * std::max(1.0, std::abs(best)));
  }

  /// Rows that the roots do not reach are nobody's choice.
  bool prepare_below_roots() {
    if (!bound_.prepare()) return false;
    std::vector<uint8_t> seen(p_.class_count(), 0);
    std::vector<uint32_t> todo(p_.roots().begin(), p_.roots().end());
    for (const uint32_t c : todo) seen[c] = 1;
    while (!todo.empty()) {
      const uint32_t c = todo.back();
      todo.pop_back();
      for (uint32_t r = p_.first_row(c); r < p_.end_row(c); ++r)
        if (bound_.alive[r])
          for (const uint32_t d : p_.children(r))
            if (!seen[d]) seen[d] = 1, todo.push_back(d);
    }
    bool changed = false;
    for (uint32_t r = 0; r < p_.row_count(); ++r)
      if (bound_.alive[r] && !seen[p_.class_of(r)]) bound_.alive[r] = 0, changed = true;
    return !changed || bound_.prepare();
  }

  /// Bounds what is left and takes rows out that no better solution has. True where nothing better
  /// is left.
  bool closed(int passes) {
    for (int round = 0; round < 6; ++round) {
      bound_.sweep(passes, enough());
      if (root_bound_ == -infinite_cost) root_bound_ = bound_.bound();
      if (bound_.bound() >= enough()) return true;
      uint32_t out = 0, left = 0;
      for (uint32_t r = 0; r < p_.row_count(); ++r)
        if (bound_.alive[r]) {
          if (bound_.bound_with(r) >= enough())
            bound_.alive[r] = 0, ++out;
          else
            ++left;
        }
      if (out == 0) return false;
      if (!prepare_below_roots()) return true;
      if (out * 20 < left) { // few: not worth another round, but the state must fit what is left
        bound_.sweep(2, enough());
        return bound_.bound() >= enough();
      }
    }
    return false;
  }

  /// The row of the present solution to branch on: of a class with a choice, the one that is
  /// dearest to miss.
  uint32_t branch() {
    uint32_t best = no_row;
    double most = -1;
    for (const uint32_t c : bound_.active()) {
      uint32_t others = 0;
      double second = infinite_cost;
      for (uint32_t r = p_.first_row(c); r < p_.end_row(c); ++r)
        if (bound_.alive[r] && r != bound_.chosen(c)) {
          ++others;
          second = std::min(second, bound_.bound_with(r) - bound_.bound());
        }
      if (others == 0) continue;
      if (second > most) {
        most = second;
        best = bound_.chosen(c);
      }
    }
    return best;
  }

  const ExtractionProblem& p_;
  const ExactOptions& options_;
  DualBound bound_;
  double unit_, root_bound_ = -infinite_cost;
};

} // namespace

ExactExtraction extract_exact(const ExtractionProblem& problem, const ExactOptions& options) {
  ExactExtraction out;
  const Reduction reduction(problem);
  if (!reduction.feasible()) {
    out.genome.assign(problem.class_count(), no_row);
    out.optimal = true;
    return out;
  }
  const ExtractionProblem& small = reduction.reduced();
  Extraction start = extract_dag(small);
  Search(small, options).run(start, out);
  if (!(out.cost < infinite_cost)) { // the sums are beyond what a double holds
    out.genome.assign(problem.class_count(), no_row);
    return out;
  }
  out.lower_bound += reduction.constant();
  out.genome = reduction.expand(out.genome);
  Evaluator evaluator(problem);
  out.cost = evaluator.evaluate(out.genome).cost;
  if (out.optimal) out.lower_bound = out.cost;
  return out;
}

} // namespace luminal::egraph
