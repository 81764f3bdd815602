// cone/cone_axes.cpp -- which axes of a cone are one.
#include "base/check.h"
#include "cone/cone_build.h"
#include <algorithm>

namespace luminal::kernel {

int AxisPool::add(std::string name, Expr extent, int stage) {
  int id = int(entries_.size());
  Interval range = extent.range();
  int64_t high = range.high == unbounded_high ? unbounded_high : std::max<int64_t>(range.high - 1, 0);
  Expr symbol = Expr::symbol("axis_" + std::to_string(id), {0, high});
  entries_.push_back({std::move(name), extent, symbol, id, {stage}});
  by_symbol_[symbol] = id;
  return id;
}

std::optional<int> AxisPool::find_symbol(Expr symbol) const {
  auto found = by_symbol_.find(symbol);
  if (found == by_symbol_.end()) return {};
  return found->second;
}

int AxisPool::representative(int axis) const {
  while (entries_[axis].parent != axis) axis = entries_[axis].parent = entries_[entries_[axis].parent].parent;
  return axis;
}

bool AxisPool::unite(int a, int b) {
  a = representative(a);
  b = representative(b);
  if (a == b) return true;
  if (!proves_equal(entries_[a].extent, entries_[b].extent)) return false;
  for (int s : entries_[b].stages)
    if (entries_[a].stages.contains(s)) return false;
  if (b < a) std::swap(a, b);
  if (entries_[a].name.empty()) entries_[a].name = entries_[b].name;
  entries_[a].stages.insert(entries_[b].stages.begin(), entries_[b].stages.end());
  entries_[b].parent = a;
  return true;
}

} // namespace luminal::kernel
