// schedule/rolling.cpp -- a scan that keeps its results for one element of its axis: `rolling`.
//
// The scan becomes a fold along its axis whose readers run in the loop along it, after the element
// is added (before it, where the scan is exclusive): the state is all that lies in memory.
#include "base/check.h"
#include "base/contains.h"
#include "cone/formula.h"
#include "ir/identity.h"
#include "schedule/nest.h"
#include <algorithm>

namespace luminal::kernel {
namespace {

/// The dimension of the scan's axis in a result's index.
size_t scanned_dimension(const Nests& nests, const Stage& scan, const Component& part) {
  const ConeAxis& axis = nests.cone.axes[scan.scan_axis];
  const ConeValue& value = nests.cone.values[part.out];
  if (value.role != ValueRole::interior) refuse("{} is stored outside of the kernel", value.name);
  if (!value.layout.empty()) refuse("{} has a layout already", value.name);
  const auto at = std::ranges::find(part.index, axis.symbol);
  LUMINAL_CHECK(at != part.index.end(), "{} is not written along {}", value.name, axis.name);
  return size_t(at - part.index.begin());
}

FormulaRef identity_of(const Component& part) {
  return is_float(part.dtype) ? formula_constant(part.dtype, identity_f64(part.op, part.dtype))
                              : formula_index(Expr(identity_i64(part.op, part.dtype)), part.dtype);
}

/// Readers find the state where the results were; of an exclusive scan the one before the element
/// of this trip, which the first trip does not have.
void read_state(Nests& nests, const Stage& scan, const Component& part, size_t dimension) {
  const ConeAxis axis = nests.cone.axes[scan.scan_axis];
  const std::string& value = nests.cone.values[part.out].name;
  const Expr begun = scan.scan_reverse ? lt(axis.symbol, axis.extent - 1) : ge(axis.symbol, 1);
  for (const ConeHole& hole : nests.cone.holes)
    visit_loads(hole.value, [&](const FormulaLoad& f) {
      if (f.value == part.out) refuse("{} is read as an index", value);
    });
  for (const StageId r : nests.readers(part.out)) {
    Stage& reader = nests.cone.stages[r];
    if (!contains(reader.axes, scan.scan_axis)) refuse("stage {} has no axis {}", reader.name, axis.name);
    FormulaRewriter rewriter([&](const FormulaRef& f) -> FormulaRef {
      const FormulaLoad* load = load_of(*f);
      if (!load || load->value != part.out) return f;
      if (load->index[dimension] != axis.symbol)
        refuse("stage {} reads {} at other elements of {}", reader.name, value, axis.name);
      std::vector<Expr> index = load->index;
      index.erase(index.begin() + long(dimension));
      if (!scan.scan_exclusive) return formula_load(load->value, f->dtype, index, load->guard);
      const FormulaRef before = formula_load(load->value, f->dtype, index, logical_and(load->guard, begun));
      return formula_op(Op::select, {formula_index(begun, DType::boolean), before, identity_of(part)});
    });
    rewrite_stage(reader, [&](const FormulaRef& f) { return rewriter(f); });
  }
}

/// The trips of a reverse scan begin at the end of the axis, and with them those of all stages
/// along it.
void reverse_axis(Nests& nests, AxisId axis) {
  const ConeAxis& along = nests.cone.axes[axis];
  for (StageNest& nest : nests.stages)
    if (const auto value = nest.axis_values.find(along.symbol); value != nest.axis_values.end())
      value->second = along.extent - 1 - value->second;
}

/// Moves a state that its readers want as it was behind them; false where all are.
bool move_behind_readers(Nests& nests) {
  for (const StageId s : nests.stages.ids()) {
    if (!nests.stages[s].behind_readers) continue;
    StageId last = s;
    for (const Component& part : nests.cone.stages[s].components)
      if (part.out)
        for (const StageId r : nests.readers(part.out)) last = std::max(last, r);
    if (last == s) continue;
    Stage stage = nests.cone.stages[s];
    StageNest nest = nests.stages[s];
    nests.erase_stage(s);
    nests.insert_stage(last, std::move(stage), std::move(nest));
    return true;
  }
  return false;
}

} // namespace

void rolling(Nests& nests, const std::string& name) {
  StageId s = nests.stage(name);
  Stage scan = nests.cone.stages[s];
  if (!scan.scan_axis) refuse("stage {} is not a scan", name);
  if (std::ranges::any_of(scan.components, &Component::after)) refuse("stage {} keeps its own nest", name);
  const AxisId axis = scan.scan_axis;
  const ConeAxis along = nests.cone.axes[axis];
  for (const StageId i : nests.stages.ids()) {
    if (!contains(nests.cone.stages[i].axes, axis)) continue;
    const StageLoop* own = nests.stages[i].find(along.name);
    if (!own || own->symbol != nests.stages[i].axis_values.at(along.symbol))
      refuse("axis {} of stage {} is split already", along.name, nests.cone.stages[i].name);
  }
  // Every stage along the axis turns round with a reverse scan; those that keep a state already may not.
  for (const StageId i : nests.stages.ids())
    if (scan.scan_reverse && nests.stages[i].rolling == axis)
      refuse("stage {} goes along {} the other way", nests.cone.stages[i].name, along.name);
  StageId last = s; // reader
  for (Component& part : scan.components) std::erase(part.axes, axis);
  for (Component& part : scan.components) {
    if (part.axes != scan.components[0].axes) refuse("the components of {} run over different axes", name);
    part.kind = ComponentKind::fold;
    if (!part.out) continue;
    const size_t dimension = scanned_dimension(nests, scan, part);
    for (const StageId r : nests.readers(part.out)) last = std::max(last, r);
    read_state(nests, scan, part, dimension);
    ConeValue& value = nests.cone.values[part.out];
    value.shape.erase(value.shape.begin() + long(dimension));
    value.axes.erase(value.axes.begin() + long(dimension));
    part.index.erase(part.index.begin() + long(dimension));
  }
  if (scan.scan_reverse) reverse_axis(nests, axis);
  const bool exclusive = scan.scan_exclusive;
  scan.scan_axis = {};
  scan.scan_exclusive = scan.scan_reverse = false;
  // A fold of one component that no transform moves is a plain one.
  if (scan.monoid->size() == 1 && scan.monoid->components()[0].transform.is_leaf(0)) scan.monoid.reset();
  StageNest nest = nests.stages[s];
  nest.rolling = axis;
  nest.behind_readers = exclusive;
  nests.erase_stage(s);
  nests.insert_stage(exclusive ? last : s, std::move(scan), std::move(nest));
  // What moves behind its readers may be a reader of what moved before.
  while (move_behind_readers(nests)) continue;
}

} // namespace luminal::kernel
