// ir/passes/arithmetic.cpp -- operations that change nothing, and two that are one.
//
// `exact` means the same bits for every input: -0 stays -0, a NaN stays a NaN, integers wrap. So x
// - 0 is x, and x + 0 is not: -0 + 0 is +0. Rules that hold over the reals only stand under
// Numerics::range. No rule hides a NaN: x * 0, x - x and x / x stay on floats.
#include "ir/identity.h"
#include "ir/passes/edit.h"
#include <bit>
#include <cmath>
#include <limits>

namespace luminal::passes {
namespace {

/// One map node, as rules ask about it.
class Simplifier {
public:
  Simplifier(Rebuild& r, const Node& node, Numerics allowed)
      : r_(r), node_(node), op_(std::get<MapAttr>(node.attr).op), allowed_(allowed),
        type_(r.type(node.inputs.back())), float_(is_float(type_.dtype)) {}

  std::optional<NodeId> run() {
    auto result = find();
    if (result && !(r_.type(*result) == node_.type())) return {};
    return result;
  }

private:
  using Found = std::optional<NodeId>;

  NodeId arg(int i) const { return node_.inputs[size_t(i)]; }
  /// The operand of `id` where it is a map of that op.
  std::optional<NodeId> under(NodeId id, Op op, int argument = 0) const {
    const Node& node = r_[id];
    auto* map = std::get_if<MapAttr>(&node.attr);
    if (!map || !map->user_op.empty() || map->op != op) return {};
    return node.inputs[size_t(argument)];
  }
  bool is(NodeId id, double value) const {
    auto number = number_of(r_, id);
    return number && number->is(value);
  }
  Found make(Op op, std::vector<NodeId> inputs) const {
    for (NodeId id : inputs)
      if (!(r_.type(id).shape == node_.type().shape)) return {};
    return r_.map(op, std::move(inputs), node_.type());
  }
  Found filled(double value) const { return r_.filled(node_.type(), value); }
  bool range() const { return allows(allowed_, Numerics::range); }
  bool is_integral(NodeId id) const { // floor and its kin leave it alone
    const Node& node = r_[id];
    if (node.kind == NodeKind::cast) return !is_float(r_.type(node.inputs[0]).dtype);
    for (Op op : {Op::floor, Op::ceil, Op::trunc, Op::round, Op::sign})
      if (under(id, op)) return true;
    return false;
  }

  Found find() {
    switch (op_) {
    case Op::add: return add();
    case Op::sub: return sub();
    case Op::mul: return mul();
    case Op::div: return div();
    case Op::rem: return !float_ && is(arg(1), 1) ? filled(0) : Found();
    case Op::neg: return under(arg(0), Op::neg);
    case Op::abs:
      if (under(arg(0), Op::abs)) return arg(0);
      if (auto x = under(arg(0), Op::neg); x && is_signed(type_.dtype)) return make(Op::abs, {*x});
      return {};
    case Op::min:
    case Op::max: return least();
    case Op::floor:
    case Op::ceil:
    case Op::trunc:
    case Op::round: return is_integral(arg(0)) ? Found(arg(0)) : Found();
    case Op::lt: return arg(0) == arg(1) ? filled(0) : Found();
    case Op::le: return arg(0) == arg(1) && !float_ ? filled(1) : Found();
    case Op::eq: return arg(0) == arg(1) && !float_ ? filled(1) : Found();
    case Op::ne:
      if (arg(0) != arg(1)) return {};
      return float_ ? make(Op::is_nan, {arg(0)}) : filled(0);
    case Op::select: return select();
    case Op::bit_and:
    case Op::bit_or:
    case Op::bit_xor: return bits();
    case Op::bit_not: return bit_not();
    case Op::shl:
    case Op::shr: return is(arg(1), 0) ? Found(arg(0)) : Found();
    case Op::pow:
      return is(arg(1), 1)              ? Found(arg(0))
             : range() && is(arg(1), 2) ? make(Op::mul, {arg(0), arg(0)})
                                        : Found();
    case Op::sqrt: return square_root();
    case Op::recip: return range() ? under(arg(0), Op::recip) : Found();
    case Op::exp2: return range() ? under(arg(0), Op::log2) : Found();
    case Op::log2: return range() ? under(arg(0), Op::exp2) : Found();
    case Op::exp: return range() ? under(arg(0), Op::log) : Found();
    case Op::log: return range() ? under(arg(0), Op::exp) : Found();
    default: return {};
    }
  }

  Found add() {
    for (int i = 0; i < 2; ++i) {
      const NodeId x = arg(i), y = arg(1 - i);
      if (float_ ? is(y, -0.0) || (range() && is(y, 0.0)) : is(y, 0)) return x;
      if (auto z = under(y, Op::neg)) // x + (-z) is x - z
        if (auto made = make(Op::sub, {x, *z})) return made;
    }
    return {};
  }
  Found sub() {
    if (float_ ? is(arg(1), 0.0) || (range() && is(arg(1), -0.0)) : is(arg(1), 0)) return arg(0);
    if (arg(0) == arg(1) && !float_) return filled(0);
    if (auto z = under(arg(1), Op::neg)) return make(Op::add, {arg(0), *z});
    if (float_ ? is(arg(0), -0.0) : is(arg(0), 0)) return make(Op::neg, {arg(1)});
    return {};
  }
  Found mul() {
    for (int i = 0; i < 2; ++i) {
      const NodeId x = arg(i), y = arg(1 - i);
      if (is(y, 1)) return x;
      if (!float_ && is(y, 0)) return filled(0);
      if (is(y, -1) && type_.dtype != DType::boolean) return make(Op::neg, {x});
    }
    auto a = under(arg(0), Op::neg), b = under(arg(1), Op::neg);
    if (a && b) return make(Op::mul, {*a, *b});
    if (auto x = under(arg(0), Op::sqrt); x && arg(0) == arg(1) && range()) return x;
    return {};
  }
  Found div() {
    if (is(arg(1), 1)) return arg(0);
    auto divisor = number_of(r_, arg(1));
    if (!float_ || !divisor) return {};
    if (divisor->is(-1)) return make(Op::neg, {arg(0)});
    // A power of two has an exact reciprocal; both forms round the same number once.
    int exponent;
    if (std::fabs(std::frexp(divisor->real, &exponent)) != 0.5) return {};
    const double inverse = 1 / divisor->real;
    if (!std::isfinite(inverse) || round_to(type_.dtype, inverse) != inverse) return {};
    return make(Op::mul, {arg(0), r_.filled({type_.dtype, node_.type().shape}, inverse)});
  }
  /// min and max. Between equal operands either may be given back; where both are the same value,
  /// or one is the end of the type, nothing is left to choose.
  Found least() {
    if (arg(0) == arg(1)) return arg(0);
    for (int i = 0; i < 2; ++i) {
      const NodeId x = arg(i), y = arg(1 - i);
      if (auto number = number_of(r_, y)) {
        if (float_ ? number->is(identity_f64(op_, type_.dtype))
                   : number->integer == identity_i64(op_, type_.dtype))
          return x;
      }
      for (int k = 0; k < 2; ++k) // min(min(x, y), y)
        if (auto inner = under(x, op_, k); inner && *inner == y && (k == 1 || !float_)) return x;
    }
    return {};
  }
  Found square_root() {
    if (!range()) return {};
    const Node& node = r_[arg(0)];
    if (under(arg(0), Op::mul) && node.inputs[0] == node.inputs[1]) return make(Op::abs, {node.inputs[0]});
    return {};
  }
  Found select() {
    if (arg(1) == arg(2)) return arg(1);
    if (is(arg(0), 1)) return arg(1);
    if (is(arg(0), 0)) return arg(2);
    if (auto c = under(arg(0), Op::bit_not)) return make(Op::select, {*c, arg(2), arg(1)});
    return {};
  }
  Found bits() {
    const bool same = arg(0) == arg(1);
    if (same) return op_ == Op::bit_xor ? filled(0) : Found(arg(0));
    const int64_t ones = wrap(type_.dtype, -1);
    for (int i = 0; i < 2; ++i) {
      const NodeId x = arg(i), y = arg(1 - i);
      auto number = number_of(r_, y);
      if (!number) continue;
      if (number->integer == 0) return op_ == Op::bit_and ? y : x;
      if (number->integer != ones) continue;
      return op_ == Op::bit_and ? Found(x) : op_ == Op::bit_or ? Found(y) : make(Op::bit_not, {x});
    }
    return {};
  }
  Found bit_not() {
    const NodeId x = arg(0);
    if (auto inner = under(x, Op::bit_not)) return inner;
    if (type_.dtype != DType::boolean) return {};
    const Node& node = r_[x];
    if (node.kind != NodeKind::map || node.inputs.size() != 2) return {};
    const NodeId a = node.inputs[0], b = node.inputs[1];
    const bool ordered = !is_float(r_.type(a).dtype); // NaN is neither less nor greater
    if (under(x, Op::eq)) return make(Op::ne, {a, b});
    if (under(x, Op::ne)) return make(Op::eq, {a, b});
    if (under(x, Op::lt) && ordered) return make(Op::le, {b, a});
    if (under(x, Op::le) && ordered) return make(Op::lt, {b, a});
    return {};
  }

  Rebuild& r_;
  const Node& node_;
  Op op_;
  Numerics allowed_;
  TensorType type_; // of the operands
  bool float_;
};

/// Every value of `from` is one of `to`.
bool holds_all(DType to, DType from) {
  if (to == from || from == DType::boolean) return true;
  if (to == DType::boolean) return false;
  if (is_float(from)) {
    if (!is_float(to)) return false;
    if (to == DType::f64) return true;
    if (to == DType::f32) return from != DType::f64;
    return to == DType::f16 && (from == DType::f8e4m3 || from == DType::f8e5m2);
  }
  const int width = luminal::bits(from) - is_signed(from);
  if (is_float(to))
    return to == DType::f64 ? width <= 53 : to == DType::f32 ? width <= 24 : to == DType::f16 && width <= 11;
  if (is_signed(from) && !is_signed(to)) return false;
  return luminal::bits(to) - is_signed(to) >= width;
}

std::optional<NodeId> cast_of_cast(Rebuild& r, const Node& node) {
  const Node& below = r[node.inputs[0]];
  if (below.kind != NodeKind::cast) return {};
  const NodeId x = below.inputs[0];
  const DType from = r.type(x).dtype, middle = below.type().dtype, to = node.type().dtype;
  if (!holds_all(middle, from)) return {};
  // A float on the way to an integer saturates where an integer wraps.
  const bool wraps = !is_float(from) && is_float(middle) && !is_float(to) && to != DType::boolean;
  if (wraps && !holds_all(to, from)) return {};
  if (from == to) return x;
  return r.put({NodeKind::cast, CastAttr{to}, {x}, {node.type()}, {}, {}});
}

std::optional<NodeId> bitcast_of_bitcast(Rebuild& r, const Node& node) {
  const Node& below = r[node.inputs[0]];
  if (below.kind != NodeKind::bitcast) return {};
  const NodeId x = below.inputs[0];
  if (r.type(x) == node.type()) return x;
  auto id = r.add(BitcastAttr{node.type().dtype}, {x});
  return id && r.type(*id) == node.type() ? id : std::nullopt;
}

} // namespace

std::optional<NodeId> arithmetic_rule(Rebuild& r, const Node& node, Numerics allowed) {
  switch (node.kind) {
  case NodeKind::map:
    if (!std::get<MapAttr>(node.attr).user_op.empty()) return {};
    return Simplifier(r, node, allowed).run();
  case NodeKind::cast:
    if (r.type(node.inputs[0]) == node.type()) return node.inputs[0];
    return cast_of_cast(r, node);
  case NodeKind::bitcast: return bitcast_of_bitcast(r, node);
  default: return {};
  }
}

} // namespace luminal::passes
