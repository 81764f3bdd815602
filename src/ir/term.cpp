// ir/term.cpp -- questions about nodes and functions: axes, equality, structural hashes.
#include "ir/term.h"
#include "base/check.h"
#include "base/hash.h"
#include "ir/term_hash.h"
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <fmt/format.h>
#include <set>

namespace luminal {

namespace {
constexpr std::string_view kind_names[] = {
    "input", "const", "iota",       "random", "map",  "cast", "bitcast", "view",   "scatter", "fold",
    "scan",  "sort",  "collective", "call",   "loop", "cond", "host",    "custom", "fence",   "get"};
} // namespace

std::string_view to_string(NodeKind kind) { return kind_names[size_t(kind)]; }

NodeKind kind_of(const Attr& attr) {
  constexpr NodeKind kinds[] = {
      NodeKind::input, NodeKind::constant, NodeKind::iota,       NodeKind::random, NodeKind::map,
      NodeKind::view,  NodeKind::scatter,  NodeKind::fold,       NodeKind::scan,   NodeKind::sort,
      NodeKind::cast,  NodeKind::bitcast,  NodeKind::collective, NodeKind::call,   NodeKind::loop,
      NodeKind::cond,  NodeKind::host,     NodeKind::custom,     NodeKind::fence,  NodeKind::get};
  static_assert(std::size(kinds) == std::variant_size_v<Attr>);
  static_assert(std::is_same_v<std::variant_alternative_t<7, Attr>, FoldAttr> &&
                std::is_same_v<std::variant_alternative_t<19, Attr>, GetAttr>);
  return kinds[attr.index()];
}

Expr axis_symbol(int d, Expr extent) {
  int64_t high = extent.range().high;
  if (high <= 1) return 0;
  struct Entry {
    int axis = 0;
    int64_t high = 0; // of an entry in use at least 2
    Expr symbol;
  };
  // asked for many times a node; expressions live as long as the process
  static thread_local std::array<Entry, 256> recent;
  Entry& entry = recent[hash_mix(uint64_t(high), uint64_t(d)) % recent.size()];
  if (entry.axis != d || entry.high != high)
    entry = {d, high, Expr::symbol(fmt::format("i{}", d), {0, high == unbounded_high ? high : high - 1})};
  return entry.symbol;
}
Expr hole_symbol(int h, Interval range) {
  if (range.is_point()) return range.low;
  return Expr::symbol(fmt::format("h{}", h), range);
}

bool ViewAttr::operator==(const ViewAttr& o) const {
  bool fills = std::bit_cast<uint64_t>(fill) == std::bit_cast<uint64_t>(o.fill) ||
               (std::isnan(fill) && std::isnan(o.fill));
  return map == o.map && predicate == o.predicate && fills && shape == o.shape && holes == o.holes;
}

bool Node::is_tuple() const {
  switch (kind) {
  case NodeKind::fold:
  case NodeKind::scan:
  case NodeKind::sort:
  case NodeKind::call:
  case NodeKind::loop:
  case NodeKind::cond:
  case NodeKind::host:
  case NodeKind::custom: return true;
  default: return false;
  }
}

const Function* Module::find(std::string_view name) const {
  for (size_t k = functions.size(); k-- > 0;) // a caller mostly stands right behind what it calls
    if (functions[k].name == name) return &functions[k];
  return nullptr;
}

std::vector<int> where_axes(const FoldAttr& fold) {
  std::set<int> axes;
  for (Expr symbol : symbols_of(fold.where)) {
    for (size_t d = 0; d < fold.space.size(); ++d)
      if (symbol == axis_symbol(int(d), fold.space[d])) axes.insert(int(d));
    for (size_t h = 0; h < fold.holes.size(); ++h)
      if (symbol == hole_symbol(int(h), fold.holes[h].range))
        axes.insert(fold.holes[h].axes.begin(), fold.holes[h].axes.end());
  }
  for (const Hole& hole :
       fold.holes) // a hole of the policy `fill` ends the domain wherever it is out of range
    if (hole.policy == OutOfRange::fill) axes.insert(hole.axes.begin(), hole.axes.end());
  return {axes.begin(), axes.end()};
}
std::vector<int> result_axes(const FoldAttr& fold, int component) {
  std::set<int> axes;
  auto add = [&](const std::vector<int>& more) { axes.insert(more.begin(), more.end()); };
  add(fold.body_axes[size_t(component)]);
  for (int j : fold.monoid.dependencies(component)) add(fold.body_axes[size_t(j)]);
  add(where_axes(fold));
  for (int d : fold.reduced) axes.erase(d);
  return {axes.begin(), axes.end()};
}
std::vector<int> result_axes(const ScanAttr& scan, int component) {
  std::set<int> axes{scan.axis};
  auto add = [&](const std::vector<int>& more) { axes.insert(more.begin(), more.end()); };
  add(scan.body_axes[size_t(component)]);
  for (int j : scan.monoid.dependencies(component)) add(scan.body_axes[size_t(j)]);
  return {axes.begin(), axes.end()};
}

const std::vector<Hole>& holes_of(const Attr& attr) {
  static const std::vector<Hole> none;
  if (auto* view = std::get_if<ViewAttr>(&attr)) return view->holes;
  if (auto* scatter = std::get_if<ScatterAttr>(&attr)) return scatter->holes;
  if (auto* fold = std::get_if<FoldAttr>(&attr)) return fold->holes;
  return none;
}

Shape expression_space(const Function& function, const Node& node) {
  switch (node.kind) {
  case NodeKind::fold: return std::get<FoldAttr>(node.attr).space;
  case NodeKind::scan: return std::get<ScanAttr>(node.attr).space;
  case NodeKind::scatter: return function[node.inputs[1]].type().shape;
  default: return node.types.empty() ? Shape{} : node.type().shape;
  }
}

bool same_shape(const Shape& a, const Shape& b, std::span<const Expr> assumptions) {
  if (a.size() != b.size()) return false;
  for (size_t d = 0; d < a.size(); ++d)
    if (a[d] != b[d] && !proves_equal(a[d], b[d], assumptions)) return false;
  return true;
}

std::string to_string(const Shape& shape) {
  std::string text;
  for (Expr e : shape) text += (text.empty() ? "" : ", ") + to_string(e);
  return "[" + text + "]";
}
std::string to_string(const TensorType& type) {
  return std::string(to_string(type.dtype)) + (type.shape.empty() ? "" : to_string(type.shape));
}

bool same_node(const Node& a, const Node& b) {
  return a.kind == b.kind && a.inputs == b.inputs && a.types == b.types && a.attr == b.attr;
}
bool same_module(const Module& a, const Module& b) {
  auto same_results = [](const std::vector<FunctionResult>& x, const std::vector<FunctionResult>& y) {
    return std::equal(
        x.begin(), x.end(), y.begin(), y.end(), [](const FunctionResult& p, const FunctionResult& q) {
          return p.name == q.name && p.value == q.value && p.state == q.state && p.after == q.after;
        });
  };
  if (a.symbols != b.symbols || a.assumptions != b.assumptions || a.functions.size() != b.functions.size())
    return false;
  for (size_t i = 0; i < a.functions.size(); ++i) {
    const Function &f = a.functions[i], &g = b.functions[i];
    if (f.name != g.name || f.params != g.params || !same_results(f.results, g.results)) return false;
    if (!std::equal(f.nodes.begin(), f.nodes.end(), g.nodes.begin(), g.nodes.end(), same_node)) return false;
  }
  return true;
}

// ---- hashes ----

namespace {
/// Feeds attributes to a hasher, structurally: the same in every process.
struct AttrHash {
  Hasher& h;
  void expr(Expr e) { h.add(e.hash()); }
  void exprs(const std::vector<Expr>& list) {
    h.add(list.size());
    for (Expr e : list) expr(e);
  }
  void ints(const std::vector<int>& list) { h.add(std::span<const int>(list)); }
  void type(const TensorType& t) {
    h.add(t.dtype);
    exprs(t.shape);
  }
  void types(const std::vector<TensorType>& list) {
    h.add(list.size());
    for (const TensorType& t : list) type(t);
  }
  void number(double value) { h.add(std::isnan(value) ? std::nan("") : value); }
  void holes(const std::vector<Hole>& list) {
    h.add(list.size());
    for (const Hole& hole : list) {
      h.add(hole.input).add(hole.range.low).add(hole.range.high).add(hole.policy);
      ints(hole.axes);
    }
  }
  void monoid(const Monoid& m) { h.add(to_string(m)); }

  void operator()(const InputAttr& a) {
    h.add(a.name).add(a.role);
    type(a.type);
    if (!a.device.empty()) h.add(a.device);
  }
  void operator()(const ConstantAttr& a) {
    type(a.type);
    h.add(a.data->size()).bytes(a.data->data(), a.data->size());
  }
  void operator()(const IotaAttr& a) {
    expr(a.value);
    type(a.type);
  }
  void operator()(const RandomAttr& a) {
    expr(a.counter);
    type(a.type);
  }
  void operator()(const MapAttr& a) {
    h.add(a.user_op.empty() ? std::string(to_string(a.op)) : "user " + a.user_op);
  }
  void operator()(const ViewAttr& a) {
    exprs(a.map);
    expr(a.predicate);
    number(a.fill);
    exprs(a.shape);
    holes(a.holes);
  }
  void operator()(const ScatterAttr& a) {
    exprs(a.map);
    expr(a.predicate);
    h.add(a.op ? to_string(*a.op) : "set").add(a.unique);
    holes(a.holes);
  }
  void operator()(const FoldAttr& a) {
    monoid(a.monoid);
    exprs(a.space);
    ints(a.reduced);
    for (const auto& axes : a.body_axes) ints(axes);
    expr(a.where);
    holes(a.holes);
  }
  void operator()(const ScanAttr& a) {
    monoid(a.monoid);
    exprs(a.space);
    h.add(a.axis).add(a.exclusive).add(a.reverse);
    for (const auto& axes : a.body_axes) ints(axes);
  }
  void operator()(const SortAttr& a) { h.add(a.axis).add(a.descending); }
  void operator()(const CastAttr& a) { h.add(a.to); }
  void operator()(const BitcastAttr& a) { h.add(a.to); }
  void operator()(const CollectiveAttr& a) { h.add(a.kind).add(a.group).add(a.axis); }
  void operator()(const CallAttr& a) { h.add(a.function); }
  void operator()(const LoopAttr& a) {
    h.add(a.body).add(a.condition).add(a.carried).add(a.stepped);
    expr(a.count);
  }
  void operator()(const CondAttr& a) { h.add(a.then_function).add(a.else_function); }
  void operator()(const HostAttr& a) {
    h.add(a.kind).add(a.text);
    types(a.results);
  }
  void operator()(const CustomAttr& a) {
    h.add(a.name).add(a.text.size());
    for (const auto& [language, text] : a.text) h.add(language).add(text);
    exprs(a.grid);
    types(a.results);
  }
  void operator()(const FenceAttr& a) {
    if (!a.device.empty()) h.add(a.device);
  }
  void operator()(const GetAttr& a) { h.add(a.index); }
};

void add_ids(Hasher& hasher, const std::vector<NodeId>& ids) {
  hasher.add(ids.size());
  for (const NodeId id : ids) hasher.add(id.number());
}
} // namespace

uint64_t node_hash(const Attr& attr, const std::vector<NodeId>& inputs) {
  Hasher hasher;
  hasher.add(kind_of(attr));
  std::visit(AttrHash{hasher}, attr);
  add_ids(hasher, inputs);
  return hasher.value64();
}

uint64_t structural_hash(const Function& function) {
  Hasher hasher;
  hasher.add(function.nodes.size());
  for (const Node& node : function.nodes) {
    hasher.add(node_hash(node.attr, node.inputs));
    AttrHash{hasher}.types(node.types);
  }
  add_ids(hasher, function.params);
  for (const FunctionResult& r : function.results) {
    hasher.add(r.name).add(r.value.number()).add(r.state).add(r.after.size());
    for (const std::string& name : r.after) hasher.add(name);
  }
  return hasher.value64();
}

Hash128 full_hash(const Module& module) {
  Hasher hasher;
  AttrHash attributes{hasher};
  const auto texts = [&](const std::vector<std::string>& list) {
    hasher.add(list.size());
    for (const std::string& text : list) hasher.add(text);
  };
  attributes.exprs(module.symbols);
  attributes.exprs(module.assumptions);
  hasher.add(module.functions.size());
  for (const Function& f : module.functions) {
    hasher.add(f.name).add(f.nodes.size());
    for (const Node& node : f.nodes) {
      hasher.add(node.kind);
      std::visit(attributes, node.attr);
      add_ids(hasher, node.inputs);
      hasher.add(node.name).add(node.origin);
      attributes.types(node.types);
      texts(node.axis_names);
    }
    add_ids(hasher, f.params);
    hasher.add(f.results.size());
    for (const FunctionResult& r : f.results) {
      hasher.add(r.name).add(r.value.number()).add(r.state);
      texts(r.after);
    }
  }
  return hasher.value128();
}

} // namespace luminal
