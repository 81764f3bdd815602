// schedule/materialize.cpp -- the directive `materialize`: a map that is inlined at its readers becomes a
// stage and a value.
#include "schedule/materialize.h"
#include "base/check.h"
#include "base/contains.h"
#include "cone/conversion.h"
#include "cone/formula.h"
#include "schedule/nest.h"
#include <algorithm>
#include <set>

namespace luminal::kernel {
namespace {

/// A place at which the formula of a node stands, and what holds wherever it counts there.
struct NodeRead {
  StageId stage;
  FormulaRef formula;
  Expr where;
};

/// What the condition of a choice says of axes and dimensions; 1 where it says nothing of them.
Expr known_of(const FormulaRef& condition) {
  if (const auto* index = condition->as<FormulaIndex>()) return index->value;
  Expr all = 1;
  if (applies(*condition, Op::bit_and) && condition->dtype == DType::boolean)
    for (const FormulaRef& part : args_of(*condition)) all = logical_and(all, known_of(part));
  return all;
}

/// All places at which such a formula stands in the stages.
std::vector<NodeRead> reads_of(const Cone& cone, const std::function<bool(const Formula&)>& wanted) {
  std::vector<NodeRead> found;
  for (const StageId s : cone.stages.ids()) {
    std::set<std::pair<const Formula*, uint32_t>> seen; // formulas share parts
    const std::function<void(const FormulaRef&, Expr)> walk = [&](const FormulaRef& f, Expr where) {
      if (!seen.insert({f.get(), where.id()}).second) return;
      if (wanted(*f)) {
        const Formula* load = converted_load(*f); // 0 where its guard does not hold
        found.push_back({s, f, load ? logical_and(where, guard_of(*load)) : where});
      }
      const std::span<const FormulaRef> args = args_of(*f);
      if (!applies(*f, Op::select)) {
        for (const FormulaRef& a : args) walk(a, where);
        return;
      }
      walk(args[0], where);
      walk(args[1], logical_and(where, known_of(args[0])));
      const auto* index = args[0]->as<FormulaIndex>();
      walk(args[2], index ? logical_and(where, logical_not(index->value)) : where);
    };
    for (const Component& c : cone.stages[s].components) {
      if (c.body) walk(c.body, cone.stages[s].domain);
      if (c.init) walk(c.init, 1);
    }
  }
  return found;
}

/// All places at which the stages compute the node.
std::vector<NodeRead> reads_of_node(const Cone& cone, const std::string& node) {
  return reads_of(cone, [&](const Formula& f) { return f.origin == node; });
}

/// Conditions for an element of this shape, each of which something has to tell.
std::vector<Expr> conditions_inside(const std::vector<Expr>& at, const std::vector<Expr>& shape) {
  std::vector<Expr> out;
  for (size_t d = 0; d < at.size(); d++)
    for (const Expr holds : {ge(at[d], 0), lt(at[d], shape[d])})
      if (prove(holds) != Truth::yes) out.push_back(holds);
  return out;
}

/// Where the value has the element. Elsewhere a choice leaves out what is made of it (`stays_inside`).
Expr where_it_lies(const std::vector<Expr>& at, const std::vector<Expr>& shape) {
  Expr inside = 1;
  for (const Expr holds : conditions_inside(at, shape)) inside = logical_and(inside, holds);
  return inside;
}

/// Does a value of this shape have all elements of the node that count where it is read?
bool stays_inside(const Cone& cone, const NodeRead& read, const std::vector<Expr>& shape) {
  if (read.formula->at.size() != shape.size()) return false;
  const std::vector<Expr> conditions = conditions_inside(read.formula->at, shape);
  if (conditions.empty()) return true;
  std::vector<Expr> known{read.where};
  for (const ConeAxis& axis : cone.axes)
    if (axis.symbol.is_symbol() && !axis.extent.is_constant()) known.push_back(lt(axis.symbol, axis.extent));
  return std::ranges::all_of(conditions, [&](Expr holds) { return prove(holds, known) == Truth::yes; });
}

/// Later stages that compute the node again read what a map of the kernel stores of it.
void read_stored(Nests& nests, const std::string& node, ValueId value) {
  const std::string& name = nests.cone.values[value].name;
  const StageId writer = nests.writer(value);
  const Stage& stage = nests.cone.stages[writer];
  const Component stored = *std::ranges::find(stage.components, value, &Component::out);
  if (stored.kind != ComponentKind::map || stored.after || !stage.domain.is_constant(1))
    refuse("{} is not a plain map", name);
  for (const Expr e : stored.index)
    if (!e.is_constant(0) && !plain_axis(nests.cone, e)) refuse("{} is not written at plain axes", name);
  const std::vector<Expr>& shape = nests.cone.values[value].shape;
  const auto apart = [&](const Formula& f) { // a part that is never read
    for (size_t d = 0; d < f.at.size(); d++) {
      const Interval there = stored.index[d].range(), read_at = f.at[d].range();
      if (read_at.high < there.low || there.high < read_at.low) return true;
    }
    return false;
  };
  for (const NodeRead& r : reads_of_node(nests.cone, node))
    if (r.stage > writer && r.formula->at.size() == shape.size() && !apart(*r.formula) &&
        !stays_inside(nests.cone, r, shape))
      refuse("{} has not all elements of {} that are read", name, node);
  bool read = false;
  FormulaRewriter rewriter([&](const FormulaRef& f) {
    if (f->origin != node || f->at.size() != stored.index.size() || apart(*f)) return f;
    ExprMap<Expr> at;
    for (size_t d = 0; d < f->at.size(); d++)
      if (stored.index[d].is_symbol()) at[stored.index[d]] = f->at[d];
    if (!equal(f, substitute(stored.body, at))) return f;
    read = true;
    return formula_load(value, f->dtype, f->at, where_it_lies(f->at, shape));
  });
  for (StageId s = writer + 1; s < nests.cone.stages.end_id(); s++)
    rewrite_stage(nests.cone.stages[s], [&](const FormulaRef& f) { return rewriter(f); });
  if (!read) refuse("no stage computes {}", node);
}

/// Does the formula vary with no other axes than those at which its node is computed?
bool varies_with_axes_of(const Cone& cone, const FormulaRef& f) {
  return std::ranges::all_of(index_exprs(f), [&](Expr e) {
    return std::ranges::all_of(symbols_of(e), [&](Expr symbol) {
      return contains(f->at, symbol) ||
             std::ranges::find(cone.axes, symbol, &ConeAxis::symbol) == cone.axes.end();
    });
  });
}

/// Is it read at axes, each of them once, or at element 0?
bool at_plain_axes(const Cone& cone, const FormulaRef& f) {
  for (size_t i = 0; i < f->at.size(); i++) {
    if (!f->at[i].is_constant(0) && !plain_axis(cone, f->at[i])) return false;
    for (size_t j = 0; j < i; j++)
      if (f->at[i] == f->at[j] && !f->at[i].is_constant()) return false;
  }
  // (A window says of what it reads where that lies inside, over axes that the value has not.)
  return varies_with_axes_of(cone, f);
}

std::vector<Expr> shape_at(const Cone& cone, const FormulaRef& f) {
  std::vector<Expr> shape;
  for (const Expr e : f->at) {
    const AxisId axis = plain_axis(cone, e);
    shape.push_back(axis ? cone.axes[axis].extent : Expr(1));
  }
  return shape;
}

} // namespace

bool read_within(const Cone& cone, const Component& stored, Expr domain, StageId writer, StageId reader) {
  const auto is_read = [&](const Formula& f) {
    const auto* load = f.as<FormulaLoad>();
    return load && load->value == stored.out;
  };
  const std::vector<NodeRead> reads = reads_of(cone, is_read);
  bool by_holes = false;
  for (const auto& hole : cone.holes)
    visit_loads(hole.value, [&](const FormulaLoad& load) { by_holes |= load.value == stored.out; });
  return !by_holes && std::ranges::all_of(reads, [&](const NodeRead& r) {
    if (r.stage == writer || r.stage == reader) return true;
    const auto& load = *r.formula->as<FormulaLoad>();
    ExprMap<Expr> at;
    for (size_t d = 0; d < load.index.size(); d++)
      if (stored.index[d].is_symbol()) at[stored.index[d]] = load.index[d];
    const std::vector<Expr> symbols = symbols_of(domain);
    const bool told = std::ranges::all_of(symbols, [&](Expr e) {
      return at.contains(e) || std::ranges::find(cone.axes, e, &ConeAxis::symbol) == cone.axes.end();
    });
    const Expr known[] = {logical_and(r.where, load.guard)};
    return told && prove(substitute(domain, at), known) == Truth::yes;
  });
}

void materialize(Nests& nests, const std::string& node, const std::string& value) {
  const auto known = std::ranges::find(nests.cone.values, value, &ConeValue::name);
  if (known != nests.cone.values.end() && known->role == ValueRole::output)
    return read_stored(nests, node, ValueId(known - nests.cone.values.begin()));
  const std::vector<NodeRead> reads = reads_of_node(nests.cone, node);
  if (reads.empty()) refuse("no stage computes {}", node);
  // A reader at plain axes says what the value is; it has to have what the others read. (One may read a
  // single row, another all of them.)
  FormulaRef found;
  bool plain = false;
  for (const NodeRead& r : reads) {
    if (!at_plain_axes(nests.cone, r.formula)) continue;
    plain = true;
    const std::vector<Expr> shape = shape_at(nests.cone, r.formula);
    if (!std::ranges::all_of(reads,
                             [&](const NodeRead& other) { return stays_inside(nests.cone, other, shape); }))
      continue;
    found = r.formula;
    break;
  }
  if (!plain) refuse("{} is nowhere read at plain axes", node);
  if (!found) refuse("{} is nowhere read at plain axes that have all that is read of it", node);
  bool partial = false;
  visit(found, [&](const Formula& f) { partial |= f.is<FormulaComponent>(); });
  if (partial) refuse("{} is made of results of its own stage", node);
  ConeValue v = interior_value(value, found->dtype);
  Stage stage;
  stage.name = nests.free_stage_name(value);
  Component part;
  part.dtype = v.dtype;
  part.index = found->at;
  v.shape = shape_at(nests.cone, found);
  for (Expr e : found->at) {
    const AxisId axis = plain_axis(nests.cone, e);
    v.axes.push_back(axis);
    if (axis) stage.axes.push_back(axis);
  }
  Formula body = *found;
  body.origin.clear();
  part.body = std::make_shared<const Formula>(body);
  part.axes = stage.axes;
  std::ranges::sort(part.axes);
  part.out = nests.add_value(v);
  stage.components.push_back(part);
  for (auto& s : nests.cone.stages) {
    FormulaRewriter rewriter([&](const FormulaRef& f) {
      if (f->origin != node) return f;
      return formula_load(part.out, f->dtype, f->at, where_it_lies(f->at, v.shape));
    });
    rewrite_stage(s, [&](const FormulaRef& f) { return rewriter(f); });
  }
  insert_copy(nests, reads.front().stage, std::move(stage));
}

} // namespace luminal::kernel
