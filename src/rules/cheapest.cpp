// rules/cheapest.cpp -- costs of trees to a fixpoint.
#include "rules/cheapest.h"
#include "base/check.h"
#include <limits>

namespace luminal::rules {
namespace {

struct CheapRow {
  RowRef row;
  ClassId out;
  double own;
  std::vector<ClassId> operands;
};

std::vector<CheapRow> candidates_of(RegionTerms& terms,
                                    const std::function<double(const egraph::RowView&)>& cost) {
  egraph::EGraph& graph = terms.graph();
  std::vector<CheapRow> out;
  for (egraph::OpId op = 0; op < graph.op_count(); ++op) {
    if (!graph.op(op).constructor) continue;
    graph.for_each_row(op, [&](const egraph::RowView& row) {
      if (row.subsumed) return true;
      CheapRow c{{row.op, row.row}, graph.find(row.out()), cost(row), {}};
      LUMINAL_CHECK(c.own > 0, "a term costs {}", c.own);
      for_each_operand(terms, row, [&](ClassId x) { c.operands.push_back(x); });
      out.push_back(std::move(c));
      return true;
    });
  }
  return out;
}

} // namespace

Choice cheapest_rows(RegionTerms& terms, const std::function<double(const egraph::RowView&)>& cost) {
  terms.graph().rebuild();
  const std::vector<CheapRow> candidates = candidates_of(terms, cost);
  std::vector<double> best(terms.graph().class_count(), std::numeric_limits<double>::infinity());
  Choice out;
  out.rows.resize(best.size());
  for (bool changed = true; changed;) {
    changed = false;
    for (const CheapRow& c : candidates) {
      double total = c.own;
      for (const ClassId x : c.operands) total += best[x];
      if (!(total < best[c.out])) continue;
      best[c.out] = total;
      out.rows[c.out] = c.row;
      changed = true;
    }
  }
  return out;
}

} // namespace luminal::rules
