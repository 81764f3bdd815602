// rules/joined_variables.h -- the variables of a rule, with those that are equal joined.
#pragma once
#include "egraph/rule.h"
#include <numeric>

namespace luminal::rules {

class JoinedVariables {
public:
  /// As the equalities of the query say.
  explicit JoinedVariables(const egraph::Query& query) : root_(query.vars.size()) {
    std::iota(root_.begin(), root_.end(), 0);
    for (const egraph::Equality& e : query.equalities)
      if (e.left.is_var() && e.right.is_var()) join(e.left.id, e.right.id);
  }
  void join(egraph::VarId a, egraph::VarId b) { root_[find(a)] = find(b); }
  egraph::VarId find(egraph::VarId v) const {
    while (root_[v] != v) v = root_[v];
    return v;
  }
  size_t size() const { return root_.size(); }

private:
  std::vector<egraph::VarId> root_;
};

} // namespace luminal::rules
