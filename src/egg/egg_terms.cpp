// egg/egg_terms.cpp -- the cheapest terms of classes, and values of all sorts as text.
#include "base/check.h"
#include "egg/egg_state.h"
#include "extract/extract.h"
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>

namespace luminal::egraph {
namespace {

using Impl = EggProgram::Impl;

constexpr uint32_t none = 0xffffffff;

/// Where a row of the problem comes from: the function (of the schema) and its row.
struct Origin {
  uint32_t function;
  RowId row;
};

} // namespace

struct TermWriter::Inside {
  Impl& p;
  std::vector<uint32_t> class_of; ///< by class id of the engine: the class of the problem, or none
  std::vector<ClassId> leader;    ///< by class of the problem
  std::vector<Origin> origins;    ///< by number of add_row
  ExtractionProblem problem;
  TreeExtraction best;
  std::vector<std::pair<size_t, size_t>> written; ///< by class of the problem: its text in `out`
  std::string out;

  explicit Inside(Impl& program) : p(program) {}

  uint32_t dense(ClassId id) const { return id < class_of.size() ? class_of[id] : none; }

  /// The sorts that terms of `sorts` can hold, and the constructors of those.
  std::vector<uint32_t> functions_of(std::vector<SortId> sorts) const {
    std::vector<bool> seen(p.schema.sorts.size());
    std::vector<std::vector<uint32_t>> makers(p.schema.sorts.size());
    for (uint32_t i = 0; i < p.schema.functions.size(); ++i) {
      const FunctionInfo& f = p.schema.functions[i];
      if (f.kind == FunctionKind::constructor && !f.relation && !f.unextractable && !f.hidden)
        makers[f.output].push_back(i);
    }
    std::vector<uint32_t> functions;
    for (const SortId s : sorts) seen[s] = true;
    while (!sorts.empty()) {
      const SortId sort = sorts.back();
      sorts.pop_back();
      const auto visit = [&](SortId s) {
        if (seen[s]) return;
        seen[s] = true;
        sorts.push_back(s);
      };
      for (const SortId part : p.schema.sorts[sort].parts) visit(part);
      for (const uint32_t f : makers[sort]) {
        functions.push_back(f);
        for (const SortId input : p.schema.functions[f].inputs) visit(input);
      }
    }
    std::sort(functions.begin(), functions.end());
    return functions;
  }

  /// Calls f(sort, value) for the parts of a container.
  template <class F> void parts(SortId sort, Value value, F f) const {
    const Sort& s = p.schema.sorts[sort];
    const auto items = p.pool.sequence_of(value);
    for (size_t i = 0; i < items.size(); ++i) f(s.parts[s.parts.size() == 2 ? i % 2 : 0], items[i]);
  }

  bool is_container(SortId sort) const { return !p.schema.sorts[sort].parts.empty(); }

  /// Adds what a value costs by itself, and the classes below it.
  void collect(SortId sort, Value value, double& cost, std::vector<uint32_t>& children) {
    if (p.schema.sorts[sort].type == SortType::classes) {
      children.push_back(dense_or_new(p.graph.find(value)));
    } else if (is_container(sort)) {
      parts(sort, value, [&](SortId s, Value v) { collect(s, v, cost, children); });
    } else {
      cost += 1;
    }
  }

  uint32_t dense_or_new(ClassId id) {
    if (id >= class_of.size()) class_of.resize(id + 1, none);
    if (class_of[id] == none) {
      class_of[id] = static_cast<uint32_t>(leader.size());
      leader.push_back(id);
    }
    return class_of[id];
  }

  void build(const std::vector<SortId>& sorts) {
    p.graph.rebuild();
    struct Row {
      uint32_t of_class, first, count;
      double cost;
    };
    std::vector<Row> rows;
    std::vector<uint32_t> all, children;
    class_of.resize(p.graph.class_count(), none);
    for (const uint32_t index : functions_of(sorts)) {
      const FunctionInfo& f = p.schema.functions[index];
      p.graph.for_each_row(f.op, [&](const RowView& row) {
        if (row.subsumed) return true;
        children.clear();
        double cost = static_cast<double>(f.cost);
        for (size_t i = 0; i < f.inputs.size(); ++i) collect(f.inputs[i], row.cells[i], cost, children);
        rows.push_back({dense_or_new(p.graph.find(row.out())), static_cast<uint32_t>(all.size()),
                        static_cast<uint32_t>(children.size()), cost});
        all.insert(all.end(), children.begin(), children.end());
        origins.push_back({index, row.row});
        return true;
      });
    }
    ExtractionBuilder builder;
    builder.add_classes(static_cast<uint32_t>(leader.size()));
    for (const Row& row : rows)
      builder.add_row(row.of_class, std::span(all).subspan(row.first, row.count), row.cost);
    problem = builder.build();
    best = extract_tree(problem);
    written.assign(leader.size(), {0, 0});
  }

  double cost(SortId sort, Value value) const {
    if (p.schema.sorts[sort].type == SortType::classes) {
      const uint32_t c = dense(p.graph.find(value));
      return c == none ? infinite_cost : best.class_cost[c];
    }
    if (!is_container(sort)) return 1;
    double total = 0;
    parts(sort, value, [&](SortId s, Value v) { total += cost(s, v); });
    return total;
  }

  // ---- text

  struct Task {
    enum class Kind : uint8_t { value, text, end };
    Kind kind = Kind::value;
    SortId sort = 0;
    Value value = 0;            ///< of end: the class of the problem
    std::string_view text = {}; ///< literal
    size_t start = 0;           ///< of end
  };

  void append(std::string_view text) {
    if (out.size() + text.size() > text_limit)
      throw Error(fmt::format("the term is longer than {} MiB as text", text_limit >> 20));
    out += text;
  }

  /// The value's text, appended to `out`. Without recursion: terms may be as deep as the graph is
  /// large.
  void write(SortId sort, Value value) {
    std::vector<Task> stack{{Task::Kind::value, sort, value, {}, 0}};
    run(stack);
  }

  void run(std::vector<Task>& stack) {
    while (!stack.empty()) {
      const Task task = stack.back();
      stack.pop_back();
      if (task.kind == Task::Kind::text) {
        append(task.text);
      } else if (task.kind == Task::Kind::end) {
        written[task.value] = {task.start, out.size() - task.start};
      } else if (p.schema.sorts[task.sort].type == SortType::classes) {
        write_class(task, stack);
      } else if (is_container(task.sort)) {
        write_container(task, stack);
      } else {
        const auto& print = p.graph.sort(task.sort).print;
        append(task.sort == BuiltinSort::unit ? "()"
               : print                        ? print(task.value)
                                              : fmt::format("#{}", task.value));
      }
    }
  }

  void write_class(const Task& task, std::vector<Task>& stack) {
    const uint32_t c = dense(p.graph.find(task.value));
    if (c == none || best.genome[c] == no_row || !(best.class_cost[c] < infinite_cost))
      throw Error(
          "there is no finite term of this class: its rows are subsumed, deleted, unextractable or cyclic");
    if (written[c].second != 0) {
      const auto [start, length] = written[c];
      append(std::string(std::string_view(out).substr(start, length)));
      return;
    }
    stack.push_back({Task::Kind::end, 0, c, {}, out.size()});
    write_row(best.genome[c], stack);
  }

  void write_row(uint32_t row, std::vector<Task>& stack) {
    const Origin origin = origins[problem.source(row)];
    const FunctionInfo& f = p.schema.functions[origin.function];
    const RowView view = p.graph.row(f.op, origin.row);
    stack.push_back({Task::Kind::text, 0, 0, ")", 0});
    for (size_t i = f.inputs.size(); i-- > 0;) {
      stack.push_back({Task::Kind::value, f.inputs[i], view.cells[i], {}, 0});
      stack.push_back({Task::Kind::text, 0, 0, " ", 0});
    }
    append("(");
    append(p.syntax.text(f.name));
  }

  void write_container(const Task& task, std::vector<Task>& stack) {
    const Sort& sort = p.schema.sorts[task.sort];
    const auto span = p.pool.sequence_of(task.value);
    const std::vector<Value> items(span.begin(), span.end());
    const auto text = [](std::string_view t) { return Task{Task::Kind::text, 0, 0, t, 0}; };
    const auto item = [&](size_t i) {
      return Task{Task::Kind::value, sort.parts[sort.parts.size() == 2 ? i % 2 : 0], items[i], {}, 0};
    };
    std::vector<Task> tasks;
    if (sort.type == SortType::map) {
      for (size_t i = 0; i < items.size(); i += 2) tasks.push_back(text("(map-insert "));
      tasks.push_back(text("(map-empty)"));
      for (size_t i = 0; i < items.size(); i += 2)
        tasks.insert(tasks.end(), {text(" "), item(i), text(" "), item(i + 1), text(")")});
    } else {
      const bool empty = items.empty();
      switch (sort.type) {
      case SortType::vec: tasks.push_back(text(empty ? "(vec-empty" : "(vec-of")); break;
      case SortType::set: tasks.push_back(text("(set-of")); break;
      case SortType::multiset: tasks.push_back(text("(multiset-of")); break;
      default: tasks.push_back(text("(pair")); break;
      }
      for (size_t i = 0; i < items.size(); ++i) tasks.insert(tasks.end(), {text(" "), item(i)});
      tasks.push_back(text(")"));
    }
    stack.insert(stack.end(), tasks.rbegin(), tasks.rend());
  }

  std::string take(size_t start) {
    std::string text = out.substr(start);
    if (out.size() > text_limit / 2) {
      out.clear();
      written.assign(leader.size(), {0, 0});
    }
    return text;
  }
};

TermWriter::TermWriter(EggProgram::Impl& program, std::vector<SortId> sorts)
    : in_(std::make_unique<Inside>(program)) {
  in_->build(sorts);
}
TermWriter::~TermWriter() = default;

/// What stands for the value of a sort with :internal-uf; otherwise its leader.
Value TermWriter::stand_in(SortId sort, Value value) const {
  EggProgram::Impl& p = in_->p;
  value = p.graph.canonical(sort, value);
  if (p.schema.sorts[sort].leaders == 0) return value;
  const NameEntry entry = p.schema.find(p.schema.sorts[sort].leaders);
  if (entry.kind != NameKind::function || p.schema.functions[entry.index].inputs != std::vector{sort, sort})
    return value;
  p.graph.for_each_row(p.schema.functions[entry.index].op, [&](const RowView& row) {
    if (row.cells[0] != value) return true;
    value = row.cells[1];
    return false;
  });
  return value;
}

double TermWriter::cost(SortId sort, Value value) const { return in_->cost(sort, stand_in(sort, value)); }

std::string TermWriter::text(SortId sort, Value value) {
  const size_t start = in_->out.size();
  in_->write(sort, stand_in(sort, value));
  return in_->take(start);
}

std::vector<EggExtracted> TermWriter::variants(SortId sort, Value value, size_t count) {
  std::vector<EggExtracted> out;
  Inside& in = *in_;
  if (in.p.schema.sorts[sort].type != SortType::classes) {
    if (count > 0) out.push_back({text(sort, value), cost(sort, value)});
    return out;
  }
  const uint32_t c = in.dense(in.p.graph.find(value));
  if (c == none) return out;
  std::vector<std::pair<double, uint32_t>> rows;
  for (uint32_t row = in.problem.first_row(c); row < in.problem.end_row(c); ++row) {
    double cost = in.problem.cost(row);
    for (const uint32_t child : in.problem.children(row)) cost += in.best.class_cost[child];
    if (cost < infinite_cost) rows.emplace_back(cost, row);
  }
  std::stable_sort(rows.begin(), rows.end(), [](auto& a, auto& b) { return a.first < b.first; });
  for (const auto& [cost, row] : rows) {
    if (out.size() == count) break;
    const size_t start = in.out.size();
    std::vector<Inside::Task> stack;
    in.write_row(row, stack);
    in.run(stack);
    out.push_back({in.take(start), cost});
  }
  return out;
}

} // namespace luminal::egraph
