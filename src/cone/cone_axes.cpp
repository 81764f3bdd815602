// cone/cone_axes.cpp -- which axes of a cone are one.
#include "base/check.h"
#include "cone/cone_build.h"
#include <algorithm>

namespace luminal::kernel {

AxisId AxisPool::add(std::string name, Expr extent, StageId stage) {
  const AxisId id = entries_.end_id();
  Interval range = extent.range();
  int64_t high = range.high == unbounded_high ? unbounded_high : std::max<int64_t>(range.high - 1, 0);
  Expr symbol = Expr::symbol("axis_" + std::to_string(id.number()), {0, high});
  entries_.push_back({std::move(name), extent, symbol, id, {stage}});
  by_symbol_[symbol] = id;
  return id;
}

AxisId AxisPool::find_symbol(Expr symbol) const {
  auto found = by_symbol_.find(symbol);
  return found == by_symbol_.end() ? AxisId() : found->second;
}

AxisId AxisPool::representative(AxisId axis) const {
  while (entries_[axis].parent != axis) axis = entries_[axis].parent = entries_[entries_[axis].parent].parent;
  return axis;
}

bool AxisPool::unite(AxisId a, AxisId b) {
  a = representative(a);
  b = representative(b);
  if (a == b) return true;
  if (!proves_equal(entries_[a].extent, entries_[b].extent)) return false;
  for (StageId s : entries_[b].stages)
    if (entries_[a].stages.contains(s)) return false;
  if (b < a) std::swap(a, b);
  if (entries_[a].name.empty()) entries_[a].name = entries_[b].name;
  entries_[a].stages.insert(entries_[b].stages.begin(), entries_[b].stages.end());
  entries_[b].parent = a;
  return true;
}

} // namespace luminal::kernel
