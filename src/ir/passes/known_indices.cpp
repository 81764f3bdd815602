// ir/passes/known_indices.cpp -- an index operand that is made of the places of its elements and of numbers
// (rolls, reflected edges, rows that are counted through) is an index expression: the view needs no operand,
// and its loads are contiguous wherever the expression is.
#include "ir/access.h"
#include "ir/ops.h"
#include "ir/passes/edit.h"
#include <algorithm>
#include <array>

namespace luminal::passes {
namespace {

constexpr int deepest_index = 16; // maps of an index, one above the other
constexpr int most_index_nodes = 64;

class IndexReader {
public:
  explicit IndexReader(const Rebuild& r) : r_(r) {}
  /// The element of the value at these places; nothing where it is not an integer expression of them that
  /// has the value of the type.
  std::optional<Expr> at(NodeId id, const std::vector<Expr>& places, int depth = 0) {
    const Node& node = r_[id];
    if (node.is_tuple() || is_float(node.type().dtype) || depth > deepest_index ||
        ++nodes_ > most_index_nodes)
      return {};
    const std::optional<Expr> value = value_of(node, places, depth);
    return value && fits(*value, node.type().dtype) ? value : std::nullopt;
  }

private:
  static bool fits(Expr e, DType type) {
    constexpr int64_t far = int64_t(1) << 48; // sums of these do not leave 64 bits
    const Interval all = type == DType::boolean ? Interval{0, 1}
                         : type == DType::u64   ? Interval{0, far}
                                                : Interval{std::max(-far, identity_i64(Op::max, type)),
                                                         std::min(far, identity_i64(Op::min, type))};
    return all.contains(e.range());
  }

  std::optional<Expr> value_of(const Node& node, const std::vector<Expr>& places, int depth) {
    const Shape& shape = node.type().shape;
    switch (node.kind) {
    case NodeKind::constant:
      if (!shape.empty()) return {};
      return Expr(load_number(node, 0).integer);
    case NodeKind::iota: return AxisReplacement(shape, places)(std::get<IotaAttr>(node.attr).value);
    case NodeKind::view: {
      const auto& view = std::get<ViewAttr>(node.attr);
      if (!view.predicate.is_constant(1) || !view.holes.empty()) return {};
      const AxisReplacement replace(shape, places);
      std::vector<Expr> inner;
      for (const Expr e : view.map) {
        const auto place = replace(e);
        if (!place) return {};
        inner.push_back(*place);
      }
      return at(node.inputs[0], inner, depth + 1);
    }
    case NodeKind::cast: return at(node.inputs[0], places, depth + 1);
    case NodeKind::map: return map_of(node, places, depth);
    default: return {};
    }
  }

  std::optional<Expr> map_of(const Node& node, const std::vector<Expr>& places, int depth) {
    const auto& map = std::get<MapAttr>(node.attr);
    if (!map.user_op.empty()) return {};
    const auto argument = [&](size_t i) { return at(node.inputs[i], places, depth + 1); };
    const auto first = argument(0);
    if (!first) return {};
    const Expr a = *first;
    if (map.op == Op::select) {
      const Truth chosen = prove(a);
      if (chosen == Truth::unknown) return {};
      return argument(chosen == Truth::yes ? 1 : 2);
    }
    const bool truth = node.type().dtype == DType::boolean;
    if (map.op == Op::neg) return -a;
    if (map.op == Op::bit_not && truth) return logical_not(a);
    // (Zero says what the range of the greater one of two that are apart does not.)
    if (map.op == Op::abs) return max(std::array{a, -a, Expr(0)});
    if (node.inputs.size() != 2) return {};
    const auto second = argument(1);
    if (!second) return {};
    const Expr b = *second;
    const bool divides = b.is_constant() && b.value() > 0;
    switch (map.op) {
    case Op::add: return a + b;
    case Op::sub: return a - b;
    case Op::mul: return a.is_constant() || b.is_constant() ? std::optional(a * b) : std::nullopt;
    case Op::min: return min(a, b);
    case Op::max: return max(a, b);
    case Op::div: return divides ? std::optional(floordiv(a, b)) : std::nullopt;
    case Op::rem: return divides ? std::optional(mod(a, b)) : std::nullopt;
    case Op::lt: return lt(a, b);
    case Op::le: return le(a, b);
    case Op::eq: return eq(a, b);
    case Op::ne: return ne(a, b);
    case Op::bit_and: return truth ? std::optional(logical_and(a, b)) : std::nullopt;
    case Op::bit_or: return truth ? std::optional(logical_or(a, b)) : std::nullopt;
    default: return {};
    }
  }

  const Rebuild& r_;
  int nodes_ = 0;
};

/// The view or scatter without hole `h`, whose value is `index`.
template <class Access> Access without_hole(const Access& access, size_t h, Expr index, bool drops_input) {
  Access made = access;
  const int input = access.holes[h].input;
  made.holes.erase(made.holes.begin() + long(h));
  ExprMap<Expr> known;
  if (const Expr hole = hole_symbol(int(h), access.holes[h].range); hole.is_symbol()) known[hole] = index;
  for (size_t i = h + 1; i < access.holes.size(); i++) {
    const Interval range = access.holes[i].range;
    if (const Expr hole = hole_symbol(int(i), range); hole.is_symbol())
      known[hole] = hole_symbol(int(i - 1), range);
  }
  for (Expr& e : made.map) e = substitute(e, known);
  made.predicate = substitute(made.predicate, known);
  for (Hole& hole : made.holes)
    if (drops_input && hole.input > input) hole.input--;
  return made;
}

/// `space`: the axes that the map is over.
template <class Access>
std::optional<NodeId> with_known_index(Rebuild& r, const Node& node, const Access& access,
                                       const Shape& space) {
  for (size_t h = 0; h < access.holes.size(); h++) {
    const Hole& hole = access.holes[h];
    const NodeId operand = node.inputs[size_t(hole.input)];
    std::vector<Expr> places;
    for (const int axis : hole.axes) places.push_back(axis_symbol(axis, space[size_t(axis)]));
    const auto value = IndexReader(r).at(operand, places);
    if (!value) continue;
    const Expr index =
        hole.policy == OutOfRange::clamp ? min(max(*value, hole.range.low), hole.range.high) : *value;
    const std::vector<Expr> ends = hole_extents(node.attr, r.type(node.inputs[0]).shape, h);
    if (!hole.range.contains(index.range()) ||
        !std::ranges::all_of(ends, [&](Expr end) { return prove(lt(index, end)) == Truth::yes; }))
      continue;
    const bool drops_input =
        std::ranges::count_if(access.holes, [&](auto& other) { return other.input == hole.input; }) == 1;
    std::vector<NodeId> inputs = node.inputs;
    if (drops_input) inputs.erase(inputs.begin() + hole.input);
    if (const auto put = r.add(without_hole(access, h, index, drops_input), std::move(inputs),
                               node.axis_names, node.origin))
      return put;
  }
  return {};
}

} // namespace

std::optional<NodeId> known_indices_rule(Rebuild& r, const Node& node) {
  if (const auto* view = std::get_if<ViewAttr>(&node.attr))
    return with_known_index(r, node, *view, view->shape);
  if (const auto* scatter = std::get_if<ScatterAttr>(&node.attr))
    return with_known_index(r, node, *scatter, r.type(node.inputs[1]).shape);
  return {};
}

} // namespace luminal::passes
