// rules/axes.cpp -- axes by number, and where a form puts them.
#include "rules/axes.h"
#include "base/check.h"
#include "base/hash.h"
#include <algorithm>
#include <fmt/format.h>

namespace luminal::rules {

uint64_t AxisSet::hash() const {
  uint64_t h = 1;
  for (const uint64_t w : words_) h = hash_mix(h, w);
  return h;
}

AxisId AxisTable::add(Expr extent) {
  const auto id = AxisId(extents_.size());
  const int64_t high = extent.range().high;
  Expr symbol = 0;
  if (high > 1) {
    // Names with a dot: no dimension of a program and no axis of a shape is called so.
    symbol = Expr::symbol(fmt::format("axis.{}", id), {0, high == unbounded_high ? high : high - 1});
    by_symbol_[symbol.id()] = id;
  }
  extents_.push_back(extent);
  symbols_.push_back(symbol);
  return id;
}

std::optional<AxisId> AxisTable::axis_of(Expr symbol) const {
  const auto at = by_symbol_.find(symbol.id());
  return at == by_symbol_.end() ? std::nullopt : std::optional(at->second);
}

AxisSet AxisTable::read_by(Expr e) const {
  AxisSet out;
  if (e.is_constant()) return out;
  if (e.is_symbol()) {
    if (const auto a = axis_of(e)) out.insert(*a);
    return out;
  }
  for (const Expr s : symbols_of(e))
    if (const auto a = axis_of(s)) out.insert(*a);
  return out;
}

void AxisTable::clear() {
  extents_.clear();
  symbols_.clear();
  by_symbol_.clear();
}

uint64_t Form::hash() const {
  uint64_t h = hash_mix(ends.size(), axes.size());
  for (const AxisId a : axes) h = hash_mix(h, a);
  for (const uint16_t e : ends) h = hash_mix(h, e);
  return h;
}

LaidOut::LaidOut(Form f, const AxisTable& table) : form(std::move(f)), set(form.set()) {
  places.resize(form.axes.size());
  size_t first = 0;
  for (size_t d = 0; d < form.rank(); ++d) {
    Expr low = 1;
    for (size_t k = form.ends[d]; k-- > first;) {
      places[k] = {int(d), low};
      low = low * table.extent(form.axes[k]);
    }
    shape.push_back(low);
    index.push_back(axis_symbol(int(d), low));
    first = form.ends[d];
  }
}

std::optional<size_t> LaidOut::position(AxisId a) const {
  const auto at = std::ranges::find(form.axes, a);
  if (at == form.axes.end()) return {};
  return size_t(at - form.axes.begin());
}

Expr LaidOut::at(size_t position, const AxisTable& table) const {
  const Stretch& place = places[position];
  const auto d = size_t(place.dim);
  const Expr extent = table.extent(form.axes[position]);
  Expr e = index[d];
  const Expr above = place.low * extent; // where the next axis of the dimension begins
  if (above != shape[d]) e = mod(e, above);
  return place.low.is_constant(1) ? e : floordiv(e, place.low);
}

} // namespace luminal::rules
