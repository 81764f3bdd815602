// rules/folds_loops.cpp -- reads the rows below the roots into flat arrays.
#include "folds_loops.h"
#include "base/check.h"
#include <bit>
#include <cmath>
#include <fmt/format.h>

namespace luminal::egraph::folds {
namespace {

struct OpKind {
  const char* name;
  LoopKind kind;
  Operation operation;
  double flops; ///< of a map, for each element
};
/// Operators that the theory may have.
constexpr OpKind op_kinds[] = {{"In", LoopKind::input, Operation::in, 0},
                               {"Par", LoopKind::input, Operation::par, 0},
                               {"Const", LoopKind::constant, Operation::constant, 0},
                               {"Dim", LoopKind::constant, Operation::dim, 0},
                               {"Iota", LoopKind::constant, Operation::iota, 0},
                               {"Neg", LoopKind::map, Operation::neg, 1},
                               {"Exp", LoopKind::map, Operation::exp, 4},
                               {"Log", LoopKind::map, Operation::log, 4},
                               {"Recip", LoopKind::map, Operation::recip, 2},
                               {"Sqrt", LoopKind::map, Operation::sqrt, 4},
                               {"Abs", LoopKind::map, Operation::abs, 1},
                               {"Tanh", LoopKind::map, Operation::tanh, 6},
                               {"Add", LoopKind::map, Operation::add, 1},
                               {"Mul", LoopKind::map, Operation::mul, 1},
                               {"Sub", LoopKind::map, Operation::sub, 1},
                               {"Div", LoopKind::map, Operation::div, 1},
                               {"Max2", LoopKind::map, Operation::max2, 1},
                               {"Min2", LoopKind::map, Operation::min2, 1},
                               {"Lt", LoopKind::map, Operation::lt, 1},
                               {"Eq", LoopKind::map, Operation::eq, 1},
                               {"Select", LoopKind::map, Operation::select, 1},
                               {"Get", LoopKind::get, Operation::get, 0},
                               {"Fold", LoopKind::fold, Operation::fold, 0},
                               {"Scan", LoopKind::scan, Operation::scan, 0},
                               {"View", LoopKind::view, Operation::view, 0},
                               {"Take", LoopKind::take, Operation::take, 0}};

/// The transport as a text in which components have their numbers in the whole problem.
void describe(const Algebra& algebra, uint32_t t, std::span<const uint32_t> numbers, std::string& out) {
  const Transport& n = algebra.transport(t);
  using Kind = Transport::Kind;
  fmt::format_to(std::back_inserter(out), "({}", int(n.kind));
  switch (n.kind) {
  case Kind::self: break;
  case Kind::number: fmt::format_to(std::back_inserter(out), " {:a}", n.value); break;
  case Kind::old_value:
  case Kind::new_value: fmt::format_to(std::back_inserter(out), " {}", numbers[n.left]); break;
  case Kind::exp: describe(algebra, n.left, numbers, out); break;
  case Kind::below:
    fmt::format_to(std::back_inserter(out), " {} {}", numbers[n.left], numbers[n.right]);
    break;
  case Kind::same:
    fmt::format_to(std::back_inserter(out), " {} {:a}", numbers[n.left], n.value);
    describe(algebra, n.right, numbers, out);
    break;
  case Kind::pow:
    fmt::format_to(std::back_inserter(out), " {:a}", n.value);
    describe(algebra, n.left, numbers, out);
    break;
  case Kind::add:
  case Kind::sub:
  case Kind::mul:
  case Kind::div:
  case Kind::max:
    describe(algebra, n.left, numbers, out);
    describe(algebra, n.right, numbers, out);
    break;
  }
  out += ')';
}

} // namespace

LoopProblem::LoopProblem(Theory& of_theory, std::span<const Value> roots, const Extents& extents_of_axes)
    : theory(of_theory) {
  auto& program = theory.program();
  EngineProblemOptions options;
  options.contents = [&](SortId, Value v, std::vector<ClassId>& out) {
    const auto items = program.values().sequence_of(v);
    out.assign(items.begin(), items.end());
  };
  const std::vector<ClassId> wanted(roots.begin(), roots.end());
  engine = engine_problem(program.graph(), wanted, options);
  for (uint32_t c = 0; c < engine.class_of.size(); ++c) class_numbers_[engine.class_of[c]] = c;
  is_root.assign(engine.class_of.size(), 0);
  for (const uint32_t c : engine.problem.roots()) is_root[c] = 1;
  for (const auto& [name, size] : extents_of_axes) {
    axis_numbers_.emplace(name, uint32_t(axis_names.size()));
    axis_names.push_back(name);
    extents.push_back(double(size));
  }
  if (extents.size() > 64) throw Error(fmt::format("[folds] {} axes, of at most 64", extents.size()));
  read_rows();
  find_static();
  find_twins();
}

uint32_t LoopProblem::class_of(Value v) const {
  const auto at = class_numbers_.find(theory.program().graph().find(v));
  if (at == class_numbers_.end()) throw Error(fmt::format("[folds] no root reaches class {}", v));
  return at->second;
}

AxisSet LoopProblem::set_of(const Axes& names) {
  AxisSet out = 0;
  for (const auto& name : names) {
    const auto at = axis_numbers_.find(name);
    if (at == axis_numbers_.end()) throw Error(fmt::format("[folds] axis {} has no extent", name));
    out |= AxisSet(1) << at->second;
  }
  return out;
}

double LoopProblem::volume(AxisSet set) const {
  double out = 1;
  for (; set; set &= set - 1) out *= extents[size_t(std::countr_zero(set))];
  return out;
}

double LoopProblem::tiles(AxisSet set, double tile) const {
  double out = 1;
  for (; set; set &= set - 1) out *= std::ceil(extents[size_t(std::countr_zero(set))] / tile);
  return out;
}

std::string LoopProblem::names(AxisSet set) const {
  std::string out;
  for (; set; set &= set - 1) out += (out.empty() ? "" : " ") + axis_names[size_t(std::countr_zero(set))];
  return out;
}

void LoopProblem::read_rows() {
  auto& program = theory.program();
  auto& graph = program.graph();
  const ExtractionProblem& p = engine.problem;
  std::map<OpId, const OpKind*> kinds;
  for (const OpKind& kind : op_kinds)
    if (const auto op = graph.find_op(kind.name)) kinds[*op] = &kind;
  const SortId tuples = graph.op(program.op("Fold")).out;
  axes.assign(p.class_count(), 0);
  deep.assign(p.class_count(), 0);
  for (uint32_t c = 0; c < p.class_count(); ++c) {
    if (graph.op(engine.engine_rows[p.source(p.first_row(c))].first).out != tuples) {
      axes[c] = set_of(theory.axes_of(engine.class_of[c]));
      for (const auto& [axis, passes] : theory.depth_of(engine.class_of[c]))
        if (passes > 0) deep[c] |= set_of({axis});
    }
    sizes.push_back(volume(axes[c]));
  }
  std::vector<uint32_t> numbers;
  rows.resize(p.row_count());
  for (uint32_t r = 0; r < p.row_count(); ++r) {
    const auto [op, id] = engine.engine_rows[p.source(r)];
    const auto args = graph.row(op, id).args();
    const auto at = kinds.find(op);
    if (at == kinds.end()) throw Error(fmt::format("[folds] no cost is known for {}", graph.op(op).name));
    LoopRow& row = rows[r];
    row.kind = at->second->kind;
    row.operation = at->second->operation;
    row.flops = at->second->flops;
    row.args.assign(args.begin(), args.end());
    const auto children = p.children(r);
    switch (row.kind) {
    case LoopKind::get: row.index = uint32_t(program.values().integer_of(args[0])); break;
    case LoopKind::fold:
    case LoopKind::scan: {
      row.over = set_of(theory.axes(args[1]));
      row.body = row.over;
      for (const uint32_t c : children) row.body |= axes[c];
      const Monoid& m = theory.monoid(args[0]);
      LUMINAL_CHECK(m.size() == children.size());
      numbers.clear();
      for (uint32_t i = 0; i < m.size(); ++i) numbers.push_back(component(m, i, numbers, children[i]));
      row.first_component = uint32_t(components_of_rows.size());
      row.component_count = uint32_t(numbers.size());
      components_of_rows.insert(components_of_rows.end(), numbers.begin(), numbers.end());
      break;
    }
    case LoopKind::view: {
      const Window& window = theory.window(args[0]);
      LoopView view{set_of({window.axis}), 0};
      for (const auto& [axis, factor] : window.terms) view.reads |= set_of({axis});
      row.index = uint32_t(views.size());
      views.push_back(view);
      break;
    }
    case LoopKind::take: row.over = set_of(theory.axes(args[0])); break;
    default: break;
    }
  }
}

uint32_t LoopProblem::component(const Monoid& m, uint32_t i, std::span<const uint32_t> numbers,
                                uint32_t body) {
  const Algebra& algebra = theory.algebra();
  std::string key = fmt::format("{} {}", int(m[i].op), body);
  describe(algebra, m[i].transport, numbers, key);
  for (const uint32_t j : m[i].singular) fmt::format_to(std::back_inserter(key), " {}", numbers[j]);
  const auto [at, made] = component_numbers_.try_emplace(std::move(key), uint32_t(components.size()));
  if (made) {
    LoopComponent out{body, algebra.transport(m[i].transport).kind == Transport::Kind::self ? 1.0 : 1.5,
                      axes[body]};
    for (const uint32_t j : algebra.needs(m, i))
      if (j != i) out.axes |= components[numbers[j]].axes;
    components.push_back(out);
  }
  return at->second;
}

void LoopProblem::find_static() {
  // Bottom up until nothing changes; few rounds, as classes are mostly numbered parents first.
  const ExtractionProblem& p = engine.problem;
  const OpId in = theory.program().op("In");
  is_static.assign(p.class_count(), 0);
  for (bool again = true; again;) {
    again = false;
    for (uint32_t r = p.row_count(); r-- > 0;) {
      const uint32_t c = p.class_of(r);
      if (is_static[c] || engine.engine_rows[p.source(r)].first == in) continue;
      bool all = true;
      for (const uint32_t child : p.children(r)) all = all && is_static[child];
      if (all) is_static[c] = 1, again = true;
    }
  }
}

void LoopProblem::find_twins() {
  const ExtractionProblem& p = engine.problem;
  for (uint32_t r = 0; r < p.row_count(); ++r) {
    const Operation operation = rows[r].operation;
    if (operation != Operation::add && operation != Operation::mul && operation != Operation::max2 &&
        operation != Operation::min2 && operation != Operation::eq)
      continue;
    const auto a = p.children(r);
    for (uint32_t s = p.first_row(p.class_of(r)); s < r; ++s) {
      const auto b = p.children(s);
      if (rows[s].operation == operation && a[0] == b[1] && a[1] == b[0]) rows[r].twin = true;
    }
  }
}

} // namespace luminal::egraph::folds
