// extract/extract_bound.h -- a lower bound of the DAG cost by dividing the cost of each class among
// the classes that use it.
//
// With shares s(c, d) >= 0 of a class d for each user c, their sum at most 1, and
//     u(c) = min over rows r of c:  cost(r) + sum over children d of r:  s(c, d) u(d)
// the sum of s(root, d) u(d) is the value of a feasible solution of the dual of the linear program
// of extraction (one row a class, a class wherever a chosen row uses it; cycles allowed), so it is
// below every solution; and a solution with row r costs at least
//     bound + cost(r) + sum s(c, d) u(d) - u(c).
// Starting from u = 0, every sweep keeps u feasible also where classes form cycles. Shares move to
// the users of the best solution of the moment.
#pragma once
#include "extract/extract.h"

namespace luminal::egraph {

class DualBound {
public:
  explicit DualBound(const ExtractionProblem& problem);
  /// What is left of the problem; all rows at first.
  std::vector<uint8_t> alive;
  std::vector<double> shares; ///< of the pairs (class, child class) and, at the end, of the roots

  /// Even shares for the users that are left.
  void reset_shares();
  /// Orders what is left; false where some root has no finite term.
  bool prepare();
  /// Sweeps until `passes` are done or the bound exceeds `enough`; keeps the best bound and its
  /// dual, and the best solution met.
  void sweep(int passes, double enough);
  double bound() const { return bound_; }
  /// A solution with this row costs at least so much.
  double bound_with(uint32_t row) const;
  /// The best solution seen in any sweep, and its cost.
  const Extraction& best() const { return best_; }
  void offer(const Extraction& solution);
  /// The classes that have a term, children first for every solution of a sweep.
  const std::vector<uint32_t>& order() const { return order_; }
  /// Classes of the last solution of a sweep, parents before children.
  const std::vector<uint32_t>& active() const { return active_; }
  uint32_t chosen(uint32_t c) const { return choice_[c]; }
  double steps() const { return steps_; }

private:
  double pass();
  void follow_choice();
  const ExtractionProblem& p_;
  std::vector<uint32_t> pair_; ///< for each child of a row, without repeats: the pair (class, child class)
  std::vector<uint32_t> first_edge_; ///< of a row
  std::vector<uint32_t> pair_child_;
  uint32_t root_pairs_ = 0; ///< where those of the roots begin
  std::vector<uint32_t> order_, position_, active_, users_;
  std::vector<uint8_t> pair_used_, is_active_;
  std::vector<double> u_, best_u_, best_shares_;
  Genome choice_;
  Extraction best_;
  double bound_ = 0, offset_ = 0, steps_ = 0;
};

} // namespace luminal::egraph
