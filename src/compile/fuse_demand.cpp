// compile/fuse_demand.cpp -- indices through views, and the share of points at which a predicate
// holds.
#include "compile/fuse_demand.h"
#include "compile/fuse.h"
#include <algorithm>
#include <map>
#include <optional>

namespace luminal::compile {
namespace {

Expr replace_axes(Expr e, const ExprMap<Expr>& replace) {
  try {
    return substitute(e, replace);
  } catch (const Error&) {
    return e; // a predicate makes the index meaningless there; the demand stays its own
  }
}

/// Of what depends on one axis of the root, by its remainder alone: the axis and how often the
/// remainders come round.
std::optional<std::pair<Expr, int64_t>> remainder_of(Expr e) {
  if (e.kind() == ExprKind::mod && e.args()[1].is_constant()) {
    const auto symbols = symbols_of(e.args()[0]);
    if (symbols.size() == 1 && is_local(symbols[0]) && !depends_on(e.args()[0] - symbols[0], symbols[0]))
      return std::pair{symbols[0], e.args()[1].value()};
  }
  std::optional<std::pair<Expr, int64_t>> found;
  if (e.is_symbol()) return {};
  for (Expr part : e.args()) {
    if (part.is_constant()) continue;
    const auto inner = remainder_of(part);
    if (!inner || (found && *found != *inner)) return {};
    found = inner;
  }
  return found;
}

} // namespace

double largest(Expr extent) {
  Interval range = extent.range();
  return range.high == unbounded_high ? 1e18 : double(range.high);
}
double count(const Shape& shape) {
  double n = 1;
  for (Expr extent : shape) n *= largest(extent);
  return n;
}
double bytes(const TensorType& type) { return count(type.shape) * bits(type.dtype) / 8; }

bool is_stage(const Node& node) { return node.kind == NodeKind::fold || node.kind == NodeKind::scan; }
bool is_free(const Node& node) {
  return node.kind == NodeKind::view || node.kind == NodeKind::cast || node.kind == NodeKind::bitcast ||
         node.kind == NodeKind::iota || node.kind == NodeKind::constant;
}

bool plain(const std::vector<Expr>& index) {
  std::set<Expr, ExprLess> seen;
  for (Expr e : index)
    if (!(e.is_symbol() && seen.insert(e).second) && !e.is_constant(0)) return false;
  return true;
}

double Demand::times() const {
  if (innermost.is_constant() || !plain(index)) return evaluations;
  double n = 1;
  for (Expr e : index) {
    if (e == innermost) return evaluations;
    n *= largest(e) + 1;
  }
  return std::min(n, evaluations);
}

bool is_local(Expr symbol) {
  std::string_view name = symbol.name();
  return name.size() > 1 && (name[0] == 'i' || name[0] == 'h') &&
         name.find_first_not_of("0123456789", 1) == std::string_view::npos;
}

std::vector<Expr> through(const Shape& reader_shape, const std::vector<Expr>& map,
                          const std::vector<Expr>& at) {
  std::vector<Expr> axes; // of an extent of 1 it is 0
  for (size_t d = 0; d < reader_shape.size(); d++) axes.push_back(axis_symbol(int(d), reader_shape[d]));
  ExprMap<Expr> replace;
  std::vector<Expr> result;
  for (Expr e : map) {
    if (e.is_constant() || e.is_symbol()) { // mostly
      const auto axis = e.is_symbol() ? std::ranges::find(axes, e) : axes.end();
      result.push_back(axis == axes.end() ? e : at[size_t(axis - axes.begin())]);
      continue;
    }
    if (replace.empty())
      for (size_t d = 0; d < axes.size(); d++)
        if (axes[d].is_symbol()) replace[axes[d]] = at[d];
    result.push_back(replace_axes(e, replace));
  }
  return result;
}

namespace {

std::vector<Expr> conditions_of(Expr predicate) {
  if (predicate.kind() != ExprKind::logical_and) return {predicate};
  return {predicate.args().begin(), predicate.args().end()};
}

/// Where comparisons with constants hold of an axis: axis -> first, end.
using Parts = std::map<Expr, std::pair<double, double>, ExprLess>;

Parts parts_of(std::span<const Expr> conditions) {
  Parts parts;
  for (Expr condition : conditions) {
    if (condition.kind() != ExprKind::lt && condition.kind() != ExprKind::eq) continue;
    const Expr gap = condition.args()[1] - condition.args()[0];
    const auto symbols = symbols_of(gap);
    if (symbols.size() != 1 || symbols[0].name()[0] != 'i' || !is_local(symbols[0])) continue;
    const auto c = coefficient_of(gap, symbols[0]);
    if (!c || !(c->is_constant(1) || c->is_constant(-1))) continue;
    const Expr rest = gap - symbols[0] * *c;
    if (!rest.is_constant()) continue;
    auto& [first, end] = parts.try_emplace(symbols[0], 0, largest(symbols[0]) + 1).first->second;
    const Expr place = c->is_constant(1) ? -rest : rest;
    if (condition.kind() == ExprKind::eq)
      first = std::max(first, double(place.value())), end = std::min(end, double(place.value()) + 1);
    else if (c->is_constant(1))
      first = std::max(first, 1 - double(rest.value()));
    else
      end = std::min(end, double(rest.value()));
  }
  return parts;
}

} // namespace

void index_in_part(Demand& demand, Expr predicate) {
  for (const auto& [axis, part] : parts_of(conditions_of(predicate))) {
    const auto first = int64_t(part.first), end = int64_t(part.second);
    if (axis == demand.innermost || end - first < 2 || end > int64_t(largest(axis)) + 1) continue;
    for (Expr& e : demand.index)
      if (depends_on(e, axis) && (e - axis).is_constant(-first))
        e = Expr::symbol(axis.name(), {0, end - first - 1});
  }
}

double share_of(Expr predicate, const Demand& demand) {
  constexpr double fewest_lanes = 32, least = 1.0 / 16;
  constexpr int64_t most_parts = 16;
  const std::vector<Expr> conditions = conditions_of(predicate);
  double share = 1;
  for (Expr condition : conditions)
    if (const auto turns = remainder_of(condition); turns && turns->second <= most_parts) {
      // Of an axis 0; an index that is read may begin behind it.
      const int64_t first = turns->first.range().low;
      if (first < 0 || turns->first.multiple() != 1) continue;
      const auto rounds = std::min(turns->second, int64_t(largest(turns->first)) + 1 - first); // a short axis
      int64_t some = 0;
      for (int64_t r = first; r < first + rounds; r++)
        some += prove(substitute(condition, {{turns->first, Expr(r)}})) != Truth::no;
      share = std::min(share, double(some) / double(rounds));
    }
  for (const auto& [axis, part] : parts_of(conditions)) {
    const double length = part.second - part.first;
    if (axis == demand.innermost && length < fewest_lanes) continue;
    share = std::min(share, length / (largest(axis) + 1));
  }
  return share < least ? 1 : share;
}

bool reduces_columns(const FoldAttr& fold) {
  constexpr double fewest_columns = 32, largest_slice = 64 << 10; // elements
  if (fold.reduced.size() != 1 || fold.space.size() < 2 || fold.reduced[0] + 1 == int(fold.space.size()))
    return false;
  const double columns = largest(fold.space.back());
  return columns >= fewest_columns && columns * largest(fold.space[size_t(fold.reduced[0])]) <= largest_slice;
}

bool goes_in_tiles(const FoldAttr& fold) {
  if (fold.monoid.size() < 2 || fold.reduced.size() != 1) return false;
  size_t most = 0, least = SIZE_MAX;
  for (int c = 0; c < fold.monoid.size(); c++) {
    const size_t kept = result_axes(fold, c).size();
    most = std::max(most, kept), least = std::min(least, kept);
  }
  return least < most;
}

} // namespace luminal::compile
