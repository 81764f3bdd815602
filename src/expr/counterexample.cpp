// expr/counterexample.cpp -- see the header.
#include "expr/counterexample.h"
#include "base/hash.h"
#include "expr/number.h"
#include <algorithm>

namespace luminal::expr_detail {
namespace {

using Value = std::optional<int64_t>;

/// Another value for each point, the same for each use of a symbol.
Value chosen(uint32_t point, Expr symbol) {
  const Node& n = node(symbol);
  if (n.range.low > n.range.high) return {};
  constexpr int64_t far = int64_t(1) << 20; // from an end, where the other is not known
  const bool open_low = n.range.low == unbounded_low, open_high = n.range.high == unbounded_high;
  const int64_t step = std::max<int64_t>(n.multiple, 1);
  const int64_t low = !open_low   ? n.range.low
                      : open_high ? -far / step * step
                                  : n.range.high - far / step * step;
  const Value high = open_high ? plus(low, far / step * step) : Value(n.range.high);
  if (!high || low > *high) return {};
  const uint64_t steps = (uint64_t(*high) - uint64_t(low)) / uint64_t(step);
  const uint64_t random = hash_mix(symbol.id(), point);
  uint64_t at = 0;
  switch (point) {
  case 0: break;
  case 1: at = steps; break;
  case 2: at = 1; break;
  case 3: at = steps - (steps > 0); break;
  case 4: at = random % 2 == 0 ? 0 : steps; break;
  case 5: at = random % 2 == 0 ? 1 : steps / 2; break;
  default: at = random; break;
  }
  if (steps < UINT64_MAX) at %= steps + 1;
  return int64_t(uint64_t(low) + at * uint64_t(step));
}

} // namespace

Value Counterexamples::value(uint32_t point, Expr e) {
  const Node& n = node(e);
  if (n.kind == ExprKind::constant) return n.value;
  auto& values = points_[point].values;
  if (const auto found = values.find(e.id()); found != values.end()) return found->second;
  Value out;
  if (n.kind == ExprKind::symbol) {
    out = chosen(point, e);
  } else {
    out = applied_to(n, [&](Expr argument) { return value(point, argument); });
  }
  values.emplace(e.id(), out);
  return out;
}

Value Counterexamples::value(uint32_t point, const Sum& sum) {
  Value total = sum.constant;
  for (const Term& t : sum.terms) {
    const Value base = value(point, t.base);
    const Value product = base ? times(*base, t.coefficient) : std::nullopt;
    total = product ? plus(*total, *product) : std::nullopt;
    if (!total) return {};
  }
  return total;
}

bool Counterexamples::holds(uint32_t point) {
  std::optional<bool>& known = points_[point].holds;
  if (!known)
    known = std::ranges::all_of(assumptions_, [&](const Sum& s) {
      const Value v = value(point, s);
      return v && *v <= 0;
    });
  return *known;
}

bool Counterexamples::positive(const Sum& sum) {
  for (uint32_t point = 0; point < point_count; point++) {
    if (!holds(point)) continue;
    const Value v = value(point, sum);
    if (v && *v > 0) return true;
  }
  return false;
}

} // namespace luminal::expr_detail
