// compile/operand_copy.cpp -- which sums of axes an index map is made of, and the tensor over these
// sums.
#include "compile/operand_copy.h"
#include <algorithm>
#include <map>
#include <numeric>

namespace luminal::compile {
namespace {

constexpr int64_t fewest_reads = 3; // of each element of the copy

/// A sum of axes: axis -> coefficient, without a common factor, the first one positive.
using AxisSum = std::map<int, int64_t>;

class Copier {
public:
  Copier(const ViewAttr& view, const Shape& source) : view_(view), source_(source) {
    for (size_t d = 0; d < view.shape.size(); d++) axes_.push_back(axis_symbol(int(d), view.shape[d]));
  }

  std::optional<OperandCopy> run() {
    for (Expr extent : view_.shape)
      if (!extent.is_constant() || extent.is_constant(0)) return {};
    for (Expr e : view_.map) collect(e);
    collect(view_.predicate);
    for (const Hole& hole : view_.holes) // the copy is found along whole axes where indices lie along them
      for (int axis : hole.axes)
        if (axes_[size_t(axis)].is_symbol()) sums_.push_back({{axis, 1}});
    const std::vector<AxisSum> dims = dimensions();
    if (dims.empty()) return {};
    int64_t elements = 1, points = 1;
    for (Expr extent : view_.shape) points *= extent.value();
    OperandCopy made;
    ExprMap<Expr> places; // axis of the view -> over the copy's own symbols, and the other axes of a sum
    std::vector<Expr> own;
    for (const AxisSum& sum : dims) {
      int64_t low = 0, size = 1;
      Expr at = 0, rest = 0;
      int solved = -1;
      for (auto [axis, c] : sum) {
        const int64_t n = extent(axis);
        low += std::min<int64_t>(c * (n - 1), 0);
        size += std::abs(c) * (n - 1);
        at += axes_[size_t(axis)] * c;
        if (std::abs(c) == 1 && solved < 0)
          solved = axis;
        else
          rest += axes_[size_t(axis)] * c;
      }
      if (elements > points / size) return {};
      elements *= size;
      const Expr place = Expr::symbol("place" + std::to_string(own.size()), {0, size - 1});
      places[axes_[size_t(solved)]] = (place + low - rest) * sum.at(solved);
      own.push_back(place);
      made.inner.shape.push_back(size);
      made.outer.map.push_back(at - low);
    }
    if (elements * fewest_reads > points) return {};
    for (const Hole& hole : view_.holes) {
      Hole inner = hole;
      for (int& axis : inner.axes) {
        if (axes_[size_t(axis)].is_symbol()) {
          axis = int(std::ranges::find(dims, AxisSum{{axis, 1}}) - dims.begin());
        } else { // of one element
          axis = int(made.inner.shape.size());
          made.inner.shape.push_back(1);
          made.outer.map.push_back(0);
        }
      }
      made.inner.holes.push_back(std::move(inner));
    }
    ExprMap<Expr> names;
    for (size_t d = 0; d < own.size(); d++) names[own[d]] = axis_symbol(int(d), made.inner.shape[d]);
    const auto over_places = [&](Expr e) -> std::optional<Expr> {
      try {
        const Expr moved = substitute(e, places);
        for (Expr axis : axes_)
          if (axis.is_symbol() && depends_on(moved, axis)) return {};
        return substitute(moved, names);
      } catch (const Error&) {
        return {};
      }
    };
    bool same = view_.predicate.is_constant(1) && made.inner.shape.size() == source_.size();
    for (size_t d = 0; d < view_.map.size(); d++) {
      const auto e = over_places(view_.map[d]);
      if (!e) return {};
      same = same && *e == axis_symbol(int(d), source_[d]) && made.inner.shape[d] == source_[d];
      made.inner.map.push_back(*e);
    }
    const auto predicate = over_places(view_.predicate);
    if (same || !predicate) return {};
    made.inner.predicate = *predicate;
    made.inner.fill = view_.fill;
    made.outer.shape = view_.shape;
    return made;
  }

private:
  int64_t extent(int axis) const { return view_.shape[size_t(axis)].value(); }

  /// Axes, and sums of them that stand in divisions, comparisons and the like.
  void collect(Expr e) {
    if (e.kind() == ExprKind::lt || e.kind() == ExprKind::eq || e.kind() == ExprKind::ne)
      return collect(e.args()[1] - e.args()[0]);
    const bool linear = e.is_symbol() || e.kind() == ExprKind::add || e.kind() == ExprKind::mul;
    if (!linear) {
      for (Expr part : e.args()) collect(part);
      return;
    }
    AxisSum sum;
    for (const auto& [term, c] : affine_terms(e).terms) {
      const auto axis = std::ranges::find(axes_, term);
      if (term.is_symbol() && axis != axes_.end())
        sum[int(axis - axes_.begin())] = c;
      else if (!term.is_symbol()) // of products each factor
        for (Expr part : term.args()) collect(part);
    }
    add(std::move(sum));
  }

  void add(AxisSum sum) {
    if (sum.empty()) return;
    int64_t common = 0;
    for (auto [_, c] : sum) common = std::gcd(common, c);
    if (sum.begin()->second < 0) common = -common;
    for (auto& [_, c] : sum) c /= common;
    if (is_window(sum))
      sums_.push_back(std::move(sum));
    else
      for (auto [axis, _] : sum) sums_.push_back({{axis, 1}});
  }

  /// Fewer places than combinations of its axes, without gaps between them, and one of them moves
  /// in single steps.
  bool is_window(const AxisSum& sum) const {
    if (sum.size() < 2) return false;
    std::vector<std::pair<int64_t, int64_t>> steps; // coefficient, extent
    double combinations = 1;
    int64_t size = 1;
    for (auto [axis, c] : sum) {
      steps.emplace_back(std::abs(c), extent(axis));
      combinations *= double(extent(axis));
      size += std::abs(c) * (extent(axis) - 1);
    }
    std::ranges::sort(steps);
    if (steps[0].first != 1 || double(size) >= combinations) return false;
    int64_t reached = 1;
    for (auto [c, n] : steps) {
      if (c > reached) return false;
      reached += c * (n - 1);
    }
    return true;
  }

  /// Each axis belongs to one sum; where it stands in several, all axes of these are dimensions of
  /// their own. In the order of the axes.
  std::vector<AxisSum> dimensions() {
    std::ranges::sort(sums_);
    sums_.erase(std::unique(sums_.begin(), sums_.end()), sums_.end());
    for (bool again = true; again;) {
      again = false;
      std::map<int, int> times;
      for (const AxisSum& sum : sums_)
        for (auto [axis, _] : sum) times[axis]++;
      for (size_t i = 0; i < sums_.size() && !again; i++) {
        const AxisSum sum = sums_[i];
        if (sum.size() < 2 || std::ranges::none_of(sum, [&](auto& term) { return times[term.first] > 1; }))
          continue;
        sums_.erase(sums_.begin() + std::ptrdiff_t(i));
        for (auto [axis, _] : sum) sums_.push_back({{axis, 1}});
        again = true;
      }
      std::ranges::sort(sums_);
      sums_.erase(std::unique(sums_.begin(), sums_.end()), sums_.end());
    }
    return sums_; // by their first axes
  }

  const ViewAttr& view_;
  const Shape& source_;
  std::vector<Expr> axes_;
  std::vector<AxisSum> sums_;
};

} // namespace

std::optional<OperandCopy> copy_of_operand(const ViewAttr& view, const Shape& source) {
  return Copier(view, source).run();
}

} // namespace luminal::compile
