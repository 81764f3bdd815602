// ir/passes/edit.cpp -- putting nodes down, merging equal ones, and questions about values.
#include "ir/passes/edit.h"
#include "base/hash.h"
#include "ir/infer.h"
#include <bit>
#include <cmath>
#include <cstring>

namespace luminal::passes {
namespace {

constexpr NodeId free_slot; // none

struct QuickHash {
  uint64_t h;
  void mix(uint64_t word) { h = hash_mix(h, word); }
  void text(const std::string& t) { mix(hash64(t)); }
  void exprs(const std::vector<Expr>& list) {
    mix(list.size());
    for (Expr e : list) mix(e.id());
  }
  void ints(const std::vector<int>& list) {
    mix(list.size());
    for (int i : list) mix(uint64_t(i));
  }
  void type(const TensorType& t) {
    mix(uint64_t(t.dtype));
    exprs(t.shape);
  }
  void holes(const std::vector<Hole>& list) {
    for (const Hole& hole : list) {
      mix(uint64_t(hole.input));
      mix(uint64_t(hole.range.low));
      mix(uint64_t(hole.range.high));
      ints(hole.axes);
    }
  }
  void operator()(const InputAttr& a) { text(a.name); }
  void operator()(const ConstantAttr& a) {
    type(a.type);
    mix(hash64(a.data->data(), std::min<size_t>(a.data->size(), 256))); // equality looks at the rest
    mix(a.data->size());
  }
  void operator()(const IotaAttr& a) {
    mix(a.value.id());
    type(a.type);
  }
  void operator()(const RandomAttr& a) {
    mix(a.counter.id());
    type(a.type);
  }
  void operator()(const MapAttr& a) {
    mix(uint64_t(a.op));
    if (!a.user_op.empty()) text(a.user_op);
  }
  void operator()(const ViewAttr& a) {
    exprs(a.map);
    mix(a.predicate.id());
    mix(std::isnan(a.fill) ? 1 : std::bit_cast<uint64_t>(a.fill));
    exprs(a.shape);
    holes(a.holes);
  }
  void operator()(const ScatterAttr& a) {
    exprs(a.map);
    mix(a.predicate.id());
    mix(a.op ? uint64_t(*a.op) + 1 : 0);
    holes(a.holes);
  }
  void operator()(const FoldAttr& a) {
    mix(a.monoid.id());
    exprs(a.space);
    ints(a.reduced);
    for (const auto& axes : a.body_axes) ints(axes);
    mix(a.where.id());
    holes(a.holes);
  }
  void operator()(const ScanAttr& a) {
    mix(a.monoid.id());
    exprs(a.space);
    mix(uint64_t(a.axis));
    for (const auto& axes : a.body_axes) ints(axes);
  }
  void operator()(const SortAttr& a) { mix(uint64_t(a.axis) * 2 + a.descending); }
  void operator()(const CastAttr& a) { mix(uint64_t(a.to)); }
  void operator()(const BitcastAttr& a) { mix(uint64_t(a.to)); }
  void operator()(const CollectiveAttr& a) {
    text(a.kind);
    text(a.group);
  }
  void operator()(const CallAttr& a) { text(a.function); }
  void operator()(const LoopAttr& a) {
    text(a.body);
    text(a.condition);
    mix(a.count.id());
  }
  void operator()(const CondAttr& a) {
    text(a.then_function);
    text(a.else_function);
  }
  void operator()(const HostAttr& a) { text(a.text); }
  void operator()(const CustomAttr& a) { text(a.name); }
  void operator()(const FenceAttr&) {}
  void operator()(const GetAttr& a) { mix(uint64_t(a.index)); }
};

std::vector<std::byte> packed(DType type, double value) {
  std::vector<std::byte> data(size_t(storage_bytes(type, 1)));
  store_f64(type, data.data(), 0, value);
  return data;
}

} // namespace

uint64_t quick_hash(const Node& node) {
  QuickHash hash{uint64_t(node.kind) + 1};
  std::visit(hash, node.attr);
  for (NodeId input : node.inputs) hash.mix(input.index());
  return hash.h;
}

Rebuild::Rebuild(Function& function, const Module* module) : function_(function), module_(module) {
  old_ = std::move(function.nodes);
  place_.resize(old_.size());
  nodes_.reserve(old_.size());
  old_uses_.resize(old_.size());
  for (const Node& node : old_)
    for (NodeId input : node.inputs) ++old_uses_[input];
  for (const FunctionResult& result : function.results) {
    ++old_uses_[result.value];
    const Node& node = old_[result.value];
    old_results_.insert(node.kind == NodeKind::fence && node.inputs.size() == 1 ? node.inputs[0]
                                                                                : result.value);
  }
  table_.assign(std::bit_ceil(old_.size() * 2 + 16), {0, free_slot});
  for (NodeId& p : function.params) {
    const NodeId id = p;
    p = place_[id] = nodes_.end_id();
    nodes_.push_back(std::move(old_[id]));
    old_[id].kind = NodeKind::input;
    uses_.push_back(old_uses_[id]);
  }
}

std::optional<NodeId> Rebuild::find(const Node& node) const {
  if (node.kind == NodeKind::host) return {};
  const uint64_t hash = quick_hash(node);
  for (size_t at = hash & (table_.size() - 1); table_[at].second != free_slot;
       at = (at + 1) & (table_.size() - 1))
    if (table_[at].first == hash && same_node(nodes_[table_[at].second], node)) return table_[at].second;
  return {};
}

void Rebuild::grow() {
  std::vector<std::pair<uint64_t, NodeId>> bigger(table_.size() * 2, {0, free_slot});
  for (const auto& entry : table_)
    if (entry.second != free_slot) {
      size_t at = entry.first & (bigger.size() - 1);
      while (bigger[at].second != free_slot) at = (at + 1) & (bigger.size() - 1);
      bigger[at] = entry;
    }
  table_ = std::move(bigger);
}

NodeId Rebuild::put(Node node) {
  const NodeId id = nodes_.end_id();
  if (node.kind != NodeKind::host) {
    const uint64_t hash = quick_hash(node);
    size_t at = hash & (table_.size() - 1);
    for (; table_[at].second != free_slot; at = (at + 1) & (table_.size() - 1))
      if (table_[at].first == hash && same_node(nodes_[table_[at].second], node)) return table_[at].second;
    table_[at] = {hash, id};
    if (++used_ * 2 > table_.size()) grow();
  }
  nodes_.push_back(std::move(node));
  return id;
}

NodeId Rebuild::map(Op op, std::vector<NodeId> inputs, TensorType type) {
  return put({NodeKind::map, MapAttr{op, {}}, std::move(inputs), {std::move(type)}, {}, {}});
}
NodeId Rebuild::constant(TensorType type, std::vector<std::byte> data) {
  return put({NodeKind::constant,
              ConstantAttr{std::make_shared<const std::vector<std::byte>>(std::move(data)), type},
              {},
              {type},
              {},
              {}});
}
NodeId Rebuild::scalar(DType type, double value) { return constant({type, {}}, packed(type, value)); }
NodeId Rebuild::splat(NodeId scalar, const Shape& shape) {
  if (shape.empty()) return scalar;
  ViewAttr view;
  view.shape = shape;
  return put({NodeKind::view, view, {scalar}, {{type(scalar).dtype, shape}}, {}, {}});
}
std::optional<NodeId> Rebuild::add(Attr attr, std::vector<NodeId> inputs, std::vector<std::string> axis_names,
                                   std::string origin) {
  std::vector<TensorType> types;
  if (std::holds_alternative<GetAttr>(attr))
    types = nodes_[inputs[0]].types;
  else
    for (NodeId id : inputs) types.push_back(nodes_[id].type());
  try {
    std::vector<TensorType> results = infer_or_throw(attr, types, module_);
    const NodeKind kind = kind_of(attr);
    return put({kind,
                std::move(attr),
                std::move(inputs),
                std::move(results),
                {},
                std::move(axis_names),
                std::move(origin)});
  } catch (const TermMistake&) {
    return {};
  } catch (const Error&) { // an index expression that overflows
    return {};
  }
}

void Rebuild::finish() {
  function_.nodes = std::move(nodes_);
  for (FunctionResult& result : function_.results) result.value = place_[result.value];
  const int64_t before = int64_t(old_.size());
  sweep(function_);
  if (int64_t(function_.nodes.size()) != before && changes == 0) changes = 1;
}

int64_t sweep(Function& f) {
  const size_t n = f.nodes.size();
  IdVector<NodeId, uint8_t> needed(n, 0);
  for (const FunctionResult& result : f.results) needed[result.value] = 1;
  for (NodeId id : f.nodes.ids_down())
    if (needed[id])
      for (NodeId input : f.nodes[id].inputs) needed[input] = 1;
  bool in_order = true, all = true;
  for (size_t i = 0; i < f.params.size(); ++i) {
    in_order &= f.params[i] == NodeId(i);
    needed[f.params[i]] = 1;
  }
  for (uint8_t bit : needed) all &= bit != 0;
  if (all && in_order) return 0;
  IdVector<NodeId, Node> nodes;
  nodes.reserve(n);
  IdVector<NodeId, NodeId> place(n);
  auto move = [&](NodeId id) {
    place[id] = nodes.end_id();
    for (NodeId& input : f.nodes[id].inputs) input = place[input];
    nodes.push_back(std::move(f.nodes[id]));
  };
  for (NodeId& p : f.params) {
    needed[p] = 0;
    move(p);
    p = place[p];
  }
  for (NodeId id : f.nodes.ids())
    if (needed[id]) move(id);
  for (FunctionResult& result : f.results) result.value = place[result.value];
  f.nodes = std::move(nodes);
  return int64_t(n - f.nodes.size());
}

// ---- values ----

std::optional<NodeId> uniform(const Rebuild& r, NodeId id) {
  for (;;) {
    const Node& node = r[id];
    if (node.kind == NodeKind::constant)
      return node.type().shape.empty() ? std::optional<NodeId>(id) : std::nullopt;
    if (node.kind != NodeKind::view) return {};
    const auto& view = std::get<ViewAttr>(node.attr);
    if (!view.predicate.is_constant(1) || !view.holes.empty()) return {};
    id = node.inputs[0];
  }
}

Number load_number(const Node& constant, int64_t index) {
  const auto& attr = std::get<ConstantAttr>(constant.attr);
  Number number;
  number.type = attr.type.dtype;
  if (is_float(number.type))
    number.real = load_f64(number.type, attr.data->data(), index);
  else
    number.integer = load_i64(number.type, attr.data->data(), index);
  return number;
}
std::optional<Number> number_of(const Rebuild& r, NodeId id) {
  auto constant = uniform(r, id);
  if (!constant) return {};
  return load_number(r[*constant], 0);
}
bool Number::is(double value) const {
  if (is_float(type))
    return std::isnan(value) ? std::isnan(real) : real == value && std::signbit(real) == std::signbit(value);
  return integer == wrap(type, int64_t(value));
}

AxisReplacement::AxisReplacement(const Shape& space, const std::vector<Expr>& at) {
  for (size_t d = 0; d < space.size(); ++d)
    if (Expr axis = axis_symbol(int(d), space[d]); axis.is_symbol()) {
      possible_ &= !at[d].is_constant() || axis.range().contains(at[d].value());
      if (at[d] != axis) pairs_.emplace_back(axis, at[d]);
    }
}
std::optional<Expr> AxisReplacement::operator()(Expr e) const {
  if (e.is_constant() || pairs_.empty()) return e;
  if (!possible_) return {};
  if (e.is_symbol()) { // mostly
    for (const auto& [axis, with] : pairs_)
      if (e == axis) return with;
    return e;
  }
  try {
    return substitute(e, ExprMap<Expr>(pairs_.begin(), pairs_.end()));
  } catch (const Error&) {
    return {};
  }
}

} // namespace luminal::passes
