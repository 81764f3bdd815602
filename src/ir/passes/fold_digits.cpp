// ir/passes/fold_digits.cpp -- an axis of a fold that joins several axes of what it reads, such as the rows
// b * t of a product, becomes these axes where an operand lies in another order: x[m // t, k, m % t]. With
// extents that are known, schedules cut the axis themselves; one that is a symbol cannot be a block.
#include "ir/infer.h"
#include "ir/passes/edit.h"
#include <algorithm>

namespace luminal::passes {
namespace {

std::optional<Expr> exact_quotient(Expr e, Expr divisor) {
  const Expr quotient = floordiv(e, divisor);
  if (quotient * divisor != e) return {};
  return quotient;
}

/// Extents, no constants, by which `e` divides the axis.
void collect_divisors(Expr e, Expr axis, std::vector<Expr>& found) {
  if ((e.kind() == ExprKind::floordiv || e.kind() == ExprKind::mod) && e.args()[0] == axis &&
      !e.args()[1].is_constant() && std::ranges::find(found, e.args()[1]) == found.end())
    found.push_back(e.args()[1]);
  for (const Expr part : e.args()) collect_divisors(part, axis, found);
}

/// Divisors of the axis in the places, in memory, of what a value reads.
void divisors_of(const Rebuild& r, NodeId id, Expr axis, std::vector<Expr>& found, int depth = 0) {
  const Node& node = r[id];
  if (node.kind == NodeKind::map && depth < 8)
    for (const NodeId input : node.inputs) divisors_of(r, input, axis, found, depth + 1);
  const auto* view = std::get_if<ViewAttr>(&node.attr);
  if (!view) return;
  const Shape& source = r.type(node.inputs[0]).shape;
  Expr offset = 0;
  for (size_t d = 0; d < source.size(); ++d) offset = offset * source[d] + view->map[d];
  collect_divisors(offset, axis, found);
}

/// Extents of the axes that one becomes, the outermost first; its own where it stays.
Shape digits_of(const Rebuild& r, NodeId body, int place, Expr extent) {
  const Expr axis = axis_symbol(place, extent);
  if (extent.is_constant() || !axis.is_symbol()) return {extent};
  std::vector<Expr> divisors;
  divisors_of(r, body, axis, divisors);
  Shape digits;
  Expr rest = extent;
  while (!divisors.empty()) {
    // the next one is a multiple of all others
    const auto greatest = std::ranges::find_if(divisors, [&](Expr d) {
      return std::ranges::all_of(divisors, [&](Expr other) { return exact_quotient(d, other).has_value(); });
    });
    const auto outer = greatest == divisors.end() ? std::nullopt : exact_quotient(rest, *greatest);
    if (!outer) return {extent};
    digits.push_back(*outer);
    rest = *greatest;
    divisors.erase(greatest);
  }
  digits.push_back(rest);
  return digits;
}

/// Axes of which each becomes one or more, in order.
class Digits {
public:
  explicit Digits(std::vector<Shape> of_axes) : digits_(std::move(of_axes)) {
    for (const Shape& part : digits_) {
      first_.push_back(int(shape_.size()));
      shape_.insert(shape_.end(), part.begin(), part.end());
    }
  }
  bool change_nothing() const { return shape_.size() == digits_.size(); }
  const Shape& shape() const { return shape_; }
  Digits some(const std::vector<int>& axes) const {
    std::vector<Shape> kept;
    for (const int a : axes) kept.push_back(digits_[size_t(a)]);
    return Digits(std::move(kept));
  }
  std::vector<int> numbers(const std::vector<int>& axes) const {
    std::vector<int> out;
    for (const int a : axes)
      for (size_t i = 0; i < digits_[size_t(a)].size(); ++i) out.push_back(first_[size_t(a)] + int(i));
    return out;
  }
  std::vector<std::string> names(const std::vector<std::string>& of_axes) const {
    if (of_axes.size() != digits_.size()) return {};
    std::vector<std::string> out;
    for (size_t a = 0; a < digits_.size(); ++a)
      for (size_t i = 0; i < digits_[a].size(); ++i)
        out.push_back(digits_[a].size() == 1 ? of_axes[a] : of_axes[a] + std::to_string(i));
    return out;
  }
  /// For each old axis its place, over the new ones.
  std::vector<Expr> joined() const {
    std::vector<Expr> places;
    for (size_t a = 0; a < digits_.size(); ++a) {
      Expr place = 0;
      for (size_t i = 0; i < digits_[a].size(); ++i)
        place = place * digits_[a][i] + axis_symbol(first_[a] + int(i), digits_[a][i]);
      places.push_back(place);
    }
    return places;
  }
  /// For each new axis its place, over the old ones.
  std::vector<Expr> split(const Shape& old) const {
    std::vector<Expr> places(shape_.size());
    for (size_t a = 0; a < digits_.size(); ++a) {
      Expr rest = axis_symbol(int(a), old[a]);
      for (size_t i = digits_[a].size(); i-- > 0;) {
        places[size_t(first_[a]) + i] = i == 0 ? rest : mod(rest, digits_[a][i]);
        rest = floordiv(rest, digits_[a][i]);
      }
    }
    return places;
  }

private:
  std::vector<Shape> digits_;
  std::vector<int> first_; // of the new axes, for each old one
  Shape shape_;
};

} // namespace

std::optional<NodeId> fold_digits_rule(Rebuild& r, const Node& node) {
  if (node.kind != NodeKind::get || !r.used_once(node.inputs[0])) return {};
  const Node fold = r[node.inputs[0]]; // a copy: what is put down may move it
  const auto* attr = std::get_if<FoldAttr>(&fold.attr);
  if (!attr || attr->monoid.size() != 1 || !attr->holes.empty()) return {};
  const std::vector<int>& body_axes = attr->body_axes[0];
  std::vector<Shape> of_axes;
  for (const Expr extent : attr->space) of_axes.push_back({extent});
  for (size_t place = 0; place < body_axes.size(); ++place) {
    Shape& digits = of_axes[size_t(body_axes[place])];
    digits = digits_of(r, fold.inputs[0], int(place), digits[0]);
  }
  const Digits digits(std::move(of_axes));
  if (digits.change_nothing()) return {};

  const Digits of_body = digits.some(body_axes), of_result = digits.some(result_axes(*attr, 0));
  const auto body =
      viewed(r, fold.inputs[0], {.map = of_body.joined(), .shape = of_body.shape(), .holes = {}});
  const auto where = AxisReplacement(attr->space, digits.joined())(attr->where);
  if (!body || !where) return {};
  const auto tuple = r.add(FoldAttr{.monoid = attr->monoid,
                                    .space = digits.shape(),
                                    .reduced = digits.numbers(attr->reduced),
                                    .body_axes = {digits.numbers(body_axes)},
                                    .where = simplified_within(*where, digits.shape()),
                                    .holes = {}},
                           {*body}, digits.names(fold.axis_names), fold.origin);
  const auto value = tuple ? r.add(GetAttr{0}, {*tuple}) : std::nullopt;
  if (!value || of_result.change_nothing()) return value;
  const Shape shape = node.type().shape; // the same elements in the same order
  return r.add(ViewAttr{.map = of_result.split(shape), .shape = shape, .holes = {}}, {*value});
}

} // namespace luminal::passes
