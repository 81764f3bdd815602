// ir/passes/match_pattern.cpp -- does the left side of a rule stand at a node? Expressions are
// compared once all shape variables are bound.
#include "ir/passes/rules.h"
#include "luminal/error.h"
#include <algorithm>
#include <bit>
#include <cmath>

namespace luminal::passes {
namespace {

class Matcher {
public:
  Matcher(const RuleInstance& rule, const Module& module, const Function& f, uint32_t swapped)
      : rule_(rule), p_(rule.function), module_(module), f_(f), swapped_(swapped) {
    binding_.nodes.resize(p_.nodes.size());
  }

  std::optional<Binding> run(NodeId at) {
    if (!node(rule_.left, at)) return {};
    for (Expr s : rule_.symbols)
      if (uses(s) && !binding_.symbols.contains(s)) return {};
    for (const Pending& p : pending_) {
      auto e = bound(p.pattern, binding_, p.space, p.target_space);
      if (!e || (*e != p.target && !proves_equal(*e, p.target, module_.assumptions))) return {};
    }
    return std::move(binding_);
  }
  /// Nodes of the left side whose operands may be swapped.
  static int commutative_nodes(const RuleInstance& rule) {
    int count = 0;
    for (NodeId id(0); id <= rule.left; ++id) count += commutes(rule.function[id]);
    return std::min(count, 8);
  }

private:
  struct Pending {
    Expr pattern, target;
    Shape space, target_space;
  };

  static bool commutes(const Node& node) {
    auto* map = std::get_if<MapAttr>(&node.attr);
    return map && map->user_op.empty() && row(map->op).commutative;
  }
  bool uses(Expr symbol) const {
    for (NodeId id : p_.nodes.ids())
      if (binding_.nodes[id])
        for (const TensorType& type : p_[id].types)
          for (Expr e : type.shape)
            if (depends_on(e, symbol)) return true;
    return false;
  }

  bool node(NodeId p, NodeId t) {
    if (binding_.nodes[p]) return *binding_.nodes[p] == t;
    const Node &a = p_[p], &b = f_[t];
    if (a.is_tuple() != b.is_tuple() || a.types.size() != b.types.size()) return false;
    if (a.kind == NodeKind::input) {
      if (b.is_tuple() || !types(a, b)) return false;
      if (rule_.constant[p] && b.kind != NodeKind::constant) return false;
      const Role role = std::get<InputAttr>(a.attr).role;
      auto* input = std::get_if<InputAttr>(&b.attr);
      if (role != Role::argument && !(input && input->role == role)) return false;
      binding_.nodes[p] = t;
      return true;
    }
    if (a.kind != b.kind || a.inputs.size() != b.inputs.size() || !types(a, b)) return false;
    if (!attributes(a, b)) return false;
    binding_.nodes[p] = t;
    std::vector<NodeId> inputs = a.inputs;
    if (commutes(a) && (swapped_ >> swaps_++ & 1)) std::swap(inputs[0], inputs[1]);
    for (size_t i = 0; i < inputs.size(); ++i)
      if (!node(inputs[i], b.inputs[i])) return false;
    return true;
  }
  bool types(const Node& a, const Node& b) {
    for (size_t i = 0; i < a.types.size(); ++i)
      if (a.types[i].dtype != b.types[i].dtype || !shapes(a.types[i].shape, b.types[i].shape)) return false;
    return true;
  }
  bool shapes(const Shape& a, const Shape& b) {
    if (a.size() != b.size()) return false;
    for (size_t d = 0; d < a.size(); ++d)
      if (!extent(a[d], b[d])) return false;
    return true;
  }
  /// A shape variable is bound where it stands alone and its facts hold; everything else is
  /// compared later.
  bool extent(Expr pattern, Expr target) {
    if (pattern.is_constant() && target.is_constant()) return pattern == target;
    const bool variable =
        std::find(rule_.symbols.begin(), rule_.symbols.end(), pattern) != rule_.symbols.end();
    if (variable && !binding_.symbols.contains(pattern)) {
      if (!pattern.range().contains(target.range())) return false;
      const int64_t multiple = pattern.multiple();
      if (multiple > 1 && target.multiple() % multiple != 0) return false;
      binding_.symbols[pattern] = target;
      return true;
    }
    pending_.push_back({pattern, target, {}, {}});
    return true;
  }
  bool later(const std::vector<Expr>& a, const std::vector<Expr>& b, const Shape& space,
             const Shape& target) {
    if (a.size() != b.size()) return false;
    for (size_t i = 0; i < a.size(); ++i) pending_.push_back({a[i], b[i], space, target});
    return true;
  }

  bool attributes(const Node& a, const Node& b) {
    switch (a.kind) {
    case NodeKind::constant: { // the shapes are equal
      const auto &x = std::get<ConstantAttr>(a.attr), &y = std::get<ConstantAttr>(b.attr);
      return *x.data == *y.data;
    }
    case NodeKind::iota:
      return later({std::get<IotaAttr>(a.attr).value}, {std::get<IotaAttr>(b.attr).value}, a.type().shape,
                   b.type().shape);
    case NodeKind::random:
      return later({std::get<RandomAttr>(a.attr).counter}, {std::get<RandomAttr>(b.attr).counter},
                   a.type().shape, b.type().shape);
    case NodeKind::view: {
      const auto &x = std::get<ViewAttr>(a.attr), &y = std::get<ViewAttr>(b.attr);
      const bool filled = !x.predicate.is_constant(1) || !x.holes.empty();
      const bool fills = std::bit_cast<uint64_t>(x.fill) == std::bit_cast<uint64_t>(y.fill) ||
                         (std::isnan(x.fill) && std::isnan(y.fill));
      return (!filled || fills) && x.holes == y.holes && later(x.map, y.map, x.shape, y.shape) &&
             later({x.predicate}, {y.predicate}, x.shape, y.shape);
    }
    case NodeKind::scatter: {
      const auto &x = std::get<ScatterAttr>(a.attr), &y = std::get<ScatterAttr>(b.attr);
      const Shape space = expression_space(p_, a), target = expression_space(f_, b);
      return x.op == y.op && x.unique == y.unique && x.holes == y.holes &&
             later(x.map, y.map, space, target) && later({x.predicate}, {y.predicate}, space, target);
    }
    case NodeKind::fold: {
      const auto &x = std::get<FoldAttr>(a.attr), &y = std::get<FoldAttr>(b.attr);
      return x.monoid == y.monoid && x.reduced == y.reduced && x.body_axes == y.body_axes &&
             x.holes == y.holes && shapes(x.space, y.space) && later({x.where}, {y.where}, x.space, y.space);
    }
    case NodeKind::scan: {
      const auto &x = std::get<ScanAttr>(a.attr), &y = std::get<ScanAttr>(b.attr);
      return x.monoid == y.monoid && x.axis == y.axis && x.body_axes == y.body_axes &&
             x.exclusive == y.exclusive && x.reverse == y.reverse && shapes(x.space, y.space);
    }
    default: return a.attr == b.attr;
    }
  }

  const RuleInstance& rule_;
  const Function& p_;
  const Module& module_;
  const Function& f_;
  uint32_t swapped_;
  int swaps_ = 0;
  Binding binding_;
  std::vector<Pending> pending_;
};

} // namespace

std::optional<Binding> match_at(const RuleInstance& rule, bool commutative, const Module& module,
                                const Function& function, NodeId at) {
  const uint32_t orders = commutative ? 1u << Matcher::commutative_nodes(rule) : 1;
  for (uint32_t swapped = 0; swapped < orders; ++swapped)
    if (auto binding = Matcher(rule, module, function, swapped).run(at)) return binding;
  return {};
}

std::optional<Expr> bound(Expr e, const Binding& binding, const Shape& space, const Shape& bound_space) {
  ExprMap<Expr> replace = binding.symbols;
  for (size_t d = 0; d < space.size(); ++d)
    if (Expr axis = axis_symbol(int(d), space[d]); axis.is_symbol())
      replace[axis] = axis_symbol(int(d), bound_space[d]);
  try {
    return substitute(e, replace);
  } catch (const Error&) {
    return {};
  }
}
std::optional<Shape> bound(const Shape& shape, const Binding& binding) {
  Shape out;
  for (Expr e : shape) {
    auto extent = bound(e, binding, {}, {});
    if (!extent) return {};
    out.push_back(*extent);
  }
  return out;
}

std::optional<Attr> bound(const Attr& attr, const Binding& binding, const Shape& values) {
  bool possible = true;
  auto shape = [&](const Shape& s) {
    auto out = bound(s, binding);
    possible &= out.has_value();
    return out ? *out : Shape(s.size(), Expr(1));
  };
  auto each = [&](std::vector<Expr> list, const Shape& from, const Shape& to) {
    for (Expr& e : list) {
      auto out = bound(e, binding, from, to);
      possible &= out.has_value();
      if (out) e = *out;
    }
    return list;
  };
  Attr out = attr;
  if (auto* a = std::get_if<ConstantAttr>(&out)) a->type.shape = shape(a->type.shape);
  if (auto* a = std::get_if<IotaAttr>(&out)) {
    const Shape from = a->type.shape;
    a->type.shape = shape(from);
    a->value = each({a->value}, from, a->type.shape)[0];
  }
  if (auto* a = std::get_if<RandomAttr>(&out)) {
    const Shape from = a->type.shape;
    a->type.shape = shape(from);
    a->counter = each({a->counter}, from, a->type.shape)[0];
  }
  if (auto* a = std::get_if<ViewAttr>(&out)) {
    const Shape from = a->shape;
    a->shape = shape(from);
    a->map = each(a->map, from, a->shape);
    a->predicate = each({a->predicate}, from, a->shape)[0];
  }
  if (auto* a = std::get_if<ScatterAttr>(&out)) {
    const Shape to = shape(values);
    a->map = each(a->map, values, to);
    a->predicate = each({a->predicate}, values, to)[0];
  }
  if (auto* a = std::get_if<FoldAttr>(&out)) {
    const Shape from = a->space;
    a->space = shape(from);
    a->where = each({a->where}, from, a->space)[0];
  }
  if (auto* a = std::get_if<ScanAttr>(&out)) a->space = shape(a->space);
  if (!possible) return {};
  return out;
}

} // namespace luminal::passes
