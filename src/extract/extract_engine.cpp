// extract/extract_engine.cpp -- walks an e-graph from the roots and numbers its classes densely.
#include "extract/extract_engine.h"
#include <fmt/format.h>
#include <unordered_map>

namespace luminal::egraph {

EngineProblem engine_problem(EGraph& graph, std::span<const ClassId> roots,
                             const EngineProblemOptions& options) {
  EngineProblem out;
  ExtractionBuilder builder;
  std::unordered_map<ClassId, uint32_t> index; // looked up, never walked over
  const auto number = [&](ClassId id) {
    const auto [at, made] = index.try_emplace(graph.find(id), uint32_t(out.class_of.size()));
    if (made) {
      out.class_of.push_back(at->first);
      builder.add_class();
    }
    return at->second;
  };
  graph.rebuild();
  for (const ClassId root : roots) builder.add_root(number(root));
  std::vector<uint32_t> children;
  std::vector<ClassId> inside;
  for (uint32_t c = 0; c < out.class_of.size(); ++c) // grows while it is walked over
    for (const RowView& row : graph.class_rows(out.class_of[c])) {
      const OpSpec& op = graph.op(row.op);
      if (row.subsumed || !op.constructor || op.unextractable || op.let_global) continue;
      children.clear();
      for (size_t i = 0; i < op.args.size(); ++i) {
        const SortSpec& sort = graph.sort(op.args[i]);
        if (sort.kind == SortKind::eq) children.push_back(number(row.cells[i]));
        if (sort.kind != SortKind::container) continue;
        if (!options.contents)
          throw Error(fmt::format(
              "[extraction] operator {} has a column of the container sort {}, whose contents are not told",
              op.name, sort.name));
        inside.clear();
        options.contents(op.args[i], row.cells[i], inside);
        for (const ClassId id : inside) children.push_back(number(id));
      }
      builder.add_row(c, children, options.cost ? options.cost(row) : double(op.cost));
      out.engine_rows.emplace_back(row.op, row.row);
    }
  out.problem = builder.build();
  return out;
}

} // namespace luminal::egraph
