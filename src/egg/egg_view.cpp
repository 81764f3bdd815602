// egg/egg_view.cpp -- the drawings: rows by distance from a class.
#include "egg/egg_view.h"
#include "base/graph_page.h"
#include "base/text.h"
#include "egg/egg_state.h"
#include <cmath>
#include <deque>
#include <fmt/format.h>
#include <unordered_map>

namespace luminal::egraph {
namespace {

struct ViewArgument {
  std::string text;    ///< of a value
  size_t of_class = 0; ///< of a class
  bool is_class = false;
};
struct ViewRow {
  std::string function, rule;
  std::vector<ViewArgument> arguments;
  double cost = 0; ///< of the cheapest term with this row at the root
  bool subsumed = false, best = false;
};
struct ViewClass {
  std::string sort;
  ClassId id = 0;
  double cost = 0;
  std::vector<ViewRow> rows;
  size_t missing = 0; ///< rows that are not taken
};
struct View {
  std::vector<ViewClass> classes; ///< by distance, the focus first
  size_t shown = 0, reachable = 0;
};

std::string short_text(const std::string& text, size_t most) {
  if (text.size() <= most) return text;
  return text.substr(0, utf8_complete_prefix(std::string_view(text).substr(0, most))) + "...";
}

View collect(EggProgram& program, EggValue focus, size_t most) {
  EggProgram::Impl& p = program.impl();
  if (p.schema.sorts[focus.sort].type != SortType::classes)
    throw Error(fmt::format("only classes can be drawn; this is a value of the sort {}",
                            program.sort_name(focus.sort)));
  p.graph.rebuild();
  std::unordered_map<OpId, const FunctionInfo*> functions;
  for (const FunctionInfo& f : p.schema.functions) functions[f.op] = &f;
  TermWriter terms(p, {focus.sort});
  View view;
  std::unordered_map<ClassId, size_t> number;
  std::deque<size_t> open;
  const auto visit = [&](SortId sort, ClassId id) {
    const ClassId leader = p.graph.find(id);
    const auto [at, fresh] = number.try_emplace(leader, view.classes.size());
    if (fresh) {
      ViewClass c;
      c.sort = program.sort_name(sort);
      c.id = leader;
      c.cost = terms.cost(sort, leader);
      view.classes.push_back(std::move(c));
      open.push_back(at->second);
    }
    return at->second;
  };
  visit(focus.sort, focus.value);
  while (!open.empty()) {
    const size_t at = open.front();
    open.pop_front();
    for (const RowView& row : p.graph.class_rows(view.classes[at].id)) {
      const auto found = functions.find(row.op);
      if (found == functions.end() || found->second->hidden) continue;
      const FunctionInfo& f = *found->second;
      ++view.reachable;
      const bool taken = view.shown < most;
      ViewRow out;
      out.cost = static_cast<double>(f.cost);
      for (size_t i = 0; i < f.inputs.size(); ++i) {
        ViewArgument argument;
        argument.is_class = p.schema.sorts[f.inputs[i]].type == SortType::classes;
        const double cost = terms.cost(f.inputs[i], row.cells[i]);
        out.cost += cost;
        if (argument.is_class)
          argument.of_class = visit(f.inputs[i], row.cells[i]);
        else if (taken)
          argument.text = cost < HUGE_VAL ? short_text(terms.text(f.inputs[i], row.cells[i]), 60) : "?";
        out.arguments.push_back(std::move(argument));
      }
      if (!taken) {
        ++view.classes[at].missing;
        continue;
      }
      ++view.shown;
      out.function = p.syntax.text(f.name);
      out.subsumed = row.subsumed;
      const RuleId rule = p.graph.creator(row.op, row.row);
      if (rule != absent) out.rule = p.graph.rule(rule).name;
      // Costs are sums of integers: equal ones are equal as doubles.
      out.best = !row.subsumed && f.kind == FunctionKind::constructor && out.cost == view.classes[at].cost;
      view.classes[at].rows.push_back(std::move(out));
    }
  }
  return view;
}

/// A group for each class, a box for each row.
GraphView drawing(EggProgram& program, EggValue focus, size_t most) {
  const View view = collect(program, focus, most);
  GraphView out{.title = "e-graph",
                .note = fmt::format("{} rows shown, {} hidden. Marked: the cheapest of its class; dashed: "
                                    "subsumed; a point: an argument that is a class",
                                    view.shown, view.reachable - view.shown),
                .groups = {}};
  const auto name = [](const ViewClass& c) { return fmt::format("{} #{}", c.sort, c.id); };
  for (const ViewClass& c : view.classes) {
    GraphView::Group group{.name = name(c), .note = {}, .boxes = {}, .arrows = {}, .links = {}};
    if (c.missing > 0) group.note = fmt::format("{} rows hidden", c.missing);
    for (const ViewRow& row : c.rows) {
      GraphView::Box box{row.function, {}, row.function, row.subsumed ? "subsumed" : "row", row.best};
      for (const ViewArgument& a : row.arguments) {
        box.title += a.is_class ? " ." : " " + a.text;
        box.text += " " + (a.is_class ? name(view.classes[a.of_class]) : a.text);
        if (a.is_class) group.links.emplace_back(int(group.boxes.size()), name(view.classes[a.of_class]));
      }
      box.line = row.cost < HUGE_VAL ? fmt::format("cost {}", row.cost) : "no cost";
      if (!row.rule.empty()) box.line += ", by " + utf8_sanitized(row.rule);
      box.text = fmt::format("({}), {}", box.text, box.line);
      group.boxes.push_back(std::move(box));
    }
    out.groups.push_back(std::move(group));
  }
  return out;
}

} // namespace

std::string view_dot(EggProgram& program, EggValue focus, size_t most) {
  return to_dot(drawing(program, focus, most));
}

std::string view_html(EggProgram& program, EggValue focus, size_t most) {
  return to_html(drawing(program, focus, most));
}

} // namespace luminal::egraph
