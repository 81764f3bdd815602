// rules/other_terms.cpp -- the first row of each class, and all rows of each class.
#include "rules/other_terms.h"

namespace luminal::rules {

using egraph::absent;
using egraph::RowView;

Choice first_rows(RegionTerms& terms) {
  egraph::EGraph& graph = terms.graph();
  graph.rebuild();
  Choice out;
  out.rows.resize(graph.class_count());
  for (egraph::OpId op = 0; op < graph.op_count(); ++op) {
    if (!graph.op(op).constructor) continue;
    graph.for_each_row(op, [&](const RowView& row) {
      RowRef& at = out.rows[graph.find(row.out())];
      if (at.op == absent && !row.subsumed) at = {row.op, row.row};
      return true;
    });
  }
  return out;
}

std::vector<ExtraTerm> add_other_terms(RegionTerms& terms, Choice& all) {
  egraph::EGraph& graph = terms.graph();
  const RegionTerms::Ops& ops = terms.ops();
  const size_t classes = all.rows.size();
  std::vector<ExtraTerm> extras;
  const auto chosen = [&](ClassId c) { return c < classes && all.rows[c].op != absent; };
  const auto add = [&](const RowView& row) {
    all.rows.push_back({row.op, row.row});
    return ClassId(all.rows.size() - 1);
  };
  for (egraph::OpId op = 0; op < graph.op_count(); ++op) {
    if (!graph.op(op).constructor || terms.program().sort_name(graph.op(op).out) != "V") continue;
    graph.for_each_row(op, [&](const RowView& row) {
      const ClassId of = graph.find(row.out());
      bool there = chosen(of);
      for_each_operand(terms, row, [&](ClassId x) { there = there && chosen(x); });
      if (!there) return true;
      if (op != ops.get) {
        if (!(all.rows[of].op == op && all.rows[of].row == row.row)) extras.push_back({of, add(row), absent});
        return true;
      }
      for (const RowView& tuple : graph.class_rows(graph.find(row.args()[1]))) {
        bool whole = true;
        for_each_operand(terms, tuple, [&](ClassId x) { whole = whole && chosen(x); });
        if (!whole || tuple.op == ops.opaque_tuple) continue;
        const ClassId term = add(row);
        extras.push_back({of, term, add(tuple)});
      }
      return true;
    });
  }
  return extras;
}

} // namespace luminal::rules
