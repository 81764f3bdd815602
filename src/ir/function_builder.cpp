// ir/function_builder.cpp -- FunctionBuilder: hash-consing, movements as views, removal of what
// nobody needs.
#include "base/check.h"
#include "base/hash.h"
#include "ir/host_text.h"
#include "ir/infer.h"
#include "ir/term_hash.h"
#include <algorithm>
#include <fmt/format.h>
#include <numeric>

namespace luminal {
namespace {

std::vector<Expr> axis_symbols(const Shape& shape) {
  std::vector<Expr> axes;
  for (size_t d = 0; d < shape.size(); ++d) axes.push_back(axis_symbol(int(d), shape[d]));
  return axes;
}
Expr element_count(const Shape& shape) { return product(shape); }

std::vector<std::byte> packed(DType dtype, double value) {
  std::vector<std::byte> data(size_t(storage_bytes(dtype, 1)));
  store_f64(dtype, data.data(), 0, value);
  return data;
}

/// Names stand in the table of nodes too: who looks one up compares what is found.
uint64_t name_key(std::string_view name, bool input) { return hash64(name, input ? 2 : 1); }

/// Operands of holes stand in the order in which holes read them, each once: equal nodes are equal
/// however they were made, and their text says all of them.
void order_holes(Attr& attr, std::vector<NodeId>& inputs) {
  std::vector<Hole> holes = holes_of(attr);
  const auto* fold = std::get_if<FoldAttr>(&attr);
  const size_t fixed = fold ? fold->body_axes.size() : std::holds_alternative<ScatterAttr>(attr) ? 2 : 1;
  std::vector<bool> read(inputs.size(), false);
  for (const Hole& h : holes) {
    if (h.input < int(fixed) || h.input >= int(inputs.size())) return; // refused by infer_or_throw
    read[size_t(h.input)] = true;
  }
  if (holes.empty() || size_t(std::ranges::count(read, true)) + fixed != inputs.size()) return;
  std::vector<NodeId> ordered(inputs.begin(), inputs.begin() + std::ptrdiff_t(fixed));
  for (Hole& h : holes) {
    const NodeId operand = inputs[size_t(h.input)];
    const auto at = std::find(ordered.begin() + std::ptrdiff_t(fixed), ordered.end(), operand);
    h.input = int(at - ordered.begin());
    if (at == ordered.end()) ordered.push_back(operand);
  }
  inputs = std::move(ordered);
  if (auto* view = std::get_if<ViewAttr>(&attr))
    view->holes = std::move(holes);
  else if (auto* scatter = std::get_if<ScatterAttr>(&attr))
    scatter->holes = std::move(holes);
  else
    std::get<FoldAttr>(attr).holes = std::move(holes);
}

/// The type of a map of the table whose operands have the very same shape, which is most nodes:
/// without copies of all types. Nothing: infer_or_throw says.
std::optional<TensorType> type_of_map(const Function& function, const Node& node) {
  const auto* map = std::get_if<MapAttr>(&node.attr);
  if (!map || !map->user_op.empty() || node.inputs.empty()) return {};
  const OpRow& r = row(map->op);
  if (int(node.inputs.size()) != r.arity) return {};
  const Shape& shape = function[node.inputs[0]].type().shape;
  DType args[3];
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const TensorType& type = function[node.inputs[i]].type();
    if (type.shape != shape) return {};
    args[i] = type.dtype;
  }
  const auto result = result_type(r, args);
  if (!result) return {};
  return TensorType{*result, shape};
}

} // namespace

FunctionBuilder::FunctionBuilder(std::string name, const Module* module) : module_(module) {
  function_.name = std::move(name);
}

NodeId FunctionBuilder::add(Attr attr, std::vector<NodeId> inputs, std::vector<std::string> axis_names,
                            std::source_location where) {
  try {
    return insert(std::move(attr), std::move(inputs), std::move(axis_names));
  } catch (const TermMistake& mistake) {
    throw Error(mistake.operation, mistake.text, where);
  }
}

NodeId FunctionBuilder::insert(Attr attr, std::vector<NodeId> inputs, std::vector<std::string> axis_names) {
  const bool is_get = std::holds_alternative<GetAttr>(attr);
  auto fail = [&](const std::string& text) { throw TermMistake{operation_name(attr), text}; };
  for (NodeId id : inputs) {
    if (!function_.nodes.has(id)) fail(fmt::format("node {} does not exist", id));
    const Node& node = function_.nodes[id];
    if (is_get && !node.is_tuple()) fail(fmt::format("{} is a value, no tuple", to_string(node.kind)));
    if (!is_get && node.is_tuple())
      fail(fmt::format("the results of {} are read by get", to_string(node.kind)));
  }
  if (is_get && inputs.size() != 1) fail("expected 1 input");
  if (auto* host = std::get_if<HostAttr>(&attr);
      host && host->results.empty() && !inputs.empty() && passes_input_on(host->kind))
    host->results = {function_.nodes[inputs[0]].type()};

  order_holes(attr, inputs);
  Node node{kind_of(attr), std::move(attr), std::move(inputs), {}, {}, std::move(axis_names), {}};
  if (auto plain = type_of_map(function_, node)) {
    node.types.push_back(std::move(*plain));
  } else {
    std::vector<TensorType> types;
    if (is_get)
      types = function_.nodes[node.inputs[0]].types;
    else
      for (NodeId id : node.inputs) types.push_back(function_.nodes[id].type());
    node.types = infer_or_throw(node.attr, types, module_);
  }
  if (!node.axis_names.empty())
    if (const size_t axes = expression_space(function_, node).size(); node.axis_names.size() != axes)
      throw TermMistake{operation_name(node.attr),
                        fmt::format("{} names for {} axes", node.axis_names.size(), axes)};
  const std::string* input = node.kind == NodeKind::input ? &std::get<InputAttr>(node.attr).name : nullptr;
  const auto is_that_input = [&](NodeId other) {
    const auto* known = std::get_if<InputAttr>(&function_.nodes[other].attr);
    return known && known->name == *input;
  };
  if (input && table_.find(name_key(*input, true), is_that_input))
    throw TermMistake{"input", fmt::format("'{}' exists already", *input)};
  const bool mergeable = node.kind != NodeKind::host; // each effect happens
  const uint64_t key = mergeable ? node_hash(node.attr, node.inputs) : 0;
  if (mergeable)
    if (auto known = table_.find(key, [&](NodeId other) { return same_node(function_.nodes[other], node); }))
      return *known;
  const NodeId id = function_.nodes.end_id();
  if (mergeable) table_.add(key, id);
  if (input) {
    function_.params.push_back(id);
    table_.add(name_key(*input, true), id);
  }
  function_.nodes.push_back(std::move(node));
  return id;
}

NodeId FunctionBuilder::input(std::string name, TensorType type, Role role) {
  NodeId id = add(InputAttr{name, role, std::move(type)}, {});
  this->name(id, std::move(name));
  return id;
}
NodeId FunctionBuilder::constant(DType dtype, double value) {
  return constant(TensorType{dtype, {}}, packed(dtype, value));
}
NodeId FunctionBuilder::constant(TensorType type, std::vector<std::byte> data) {
  return add(ConstantAttr{std::make_shared<const std::vector<std::byte>>(std::move(data)), std::move(type)},
             {});
}
NodeId FunctionBuilder::map(Op op, std::vector<NodeId> inputs, std::source_location where) {
  return add(MapAttr{op, {}}, std::move(inputs), {}, where);
}
NodeId FunctionBuilder::get(NodeId tuple, int index) { return add(GetAttr{index}, {tuple}); }
NodeId FunctionBuilder::cast(NodeId x, DType to) {
  return function_.nodes.at(x).type().dtype == to ? x : add(CastAttr{to}, {x});
}
NodeId FunctionBuilder::bitcast(NodeId x, DType to) {
  return function_.nodes.at(x).type().dtype == to ? x : add(BitcastAttr{to}, {x});
}
NodeId FunctionBuilder::iota(Shape shape, Expr value, DType dtype) {
  return add(IotaAttr{value, {dtype, std::move(shape)}}, {});
}
NodeId FunctionBuilder::view(NodeId x, Shape shape, std::vector<Expr> map, Expr predicate, double fill,
                             std::vector<std::string> axis_names) {
  return add(ViewAttr{.map = std::move(map),
                      .predicate = predicate,
                      .fill = fill,
                      .shape = std::move(shape),
                      .holes = {}},
             {x}, std::move(axis_names));
}

NodeId FunctionBuilder::permute(NodeId x, std::vector<int> order) {
  const Shape source = function_.nodes.at(x).type().shape;
  std::vector<int> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  for (size_t d = 0; d < sorted.size(); ++d)
    if (sorted[d] != int(d))
      throw Error(fmt::format("[permute] the order names axis {} where {} is expected", sorted[d], d));
  if (order.size() != source.size())
    throw Error(fmt::format("[permute] {} axes for {}", order.size(), to_string(source)));
  Shape shape;
  for (int d : order) shape.push_back(source[size_t(d)]);
  std::vector<Expr> map(source.size());
  for (size_t d = 0; d < order.size(); ++d) map[size_t(order[d])] = axis_symbol(int(d), shape[d]);
  return view(x, shape, map);
}
NodeId FunctionBuilder::expand(NodeId x, Shape shape, std::vector<int> axes) {
  const Shape source = function_.nodes.at(x).type().shape;
  if (axes.size() != source.size())
    throw Error(fmt::format("[expand] {} axes for {}", axes.size(), to_string(source)));
  std::vector<Expr> map;
  for (size_t d = 0; d < axes.size(); ++d) {
    if (axes[d] < 0 || axes[d] >= int(shape.size()))
      throw Error(fmt::format("[expand] axis {} of {}", axes[d], to_string(shape)));
    Expr extent = shape[size_t(axes[d])];
    bool one = source[d].is_constant(1);
    if (!one && !same_shape({source[d]}, {extent},
                            module_ ? std::span<const Expr>(module_->assumptions) : std::span<const Expr>()))
      throw Error(fmt::format("[expand] axis {} of {} does not fit axis {} of {}", d, to_string(source),
                              axes[d], to_string(shape)));
    map.push_back(one ? Expr(0) : axis_symbol(axes[d], extent));
  }
  return view(x, std::move(shape), map);
}
NodeId FunctionBuilder::reshape(NodeId x, Shape shape) {
  const Shape source = function_.nodes.at(x).type().shape;
  std::span<const Expr> assumptions =
      module_ ? std::span<const Expr>(module_->assumptions) : std::span<const Expr>();
  if (!same_shape({element_count(source)}, {element_count(shape)}, assumptions))
    throw Error(fmt::format("[reshape] the numbers of elements differ: {} x {}", to_string(source),
                            to_string(shape)));
  // Axes at the end that are equal stay apart, and so do axes before and after a place up to which both have
  // as many elements; what lies between two such places is linearised.
  size_t tail = 0;
  while (tail < std::min(source.size(), shape.size()) &&
         same_shape({source[source.size() - 1 - tail]}, {shape[shape.size() - 1 - tail]}, assumptions))
    ++tail;
  const size_t source_end = source.size() - tail, shape_end = shape.size() - tail;
  std::vector<Expr> map(source.size());
  for (size_t k = 1; k <= tail; ++k)
    map[source.size() - k] = axis_symbol(int(shape.size() - k), shape[shape.size() - k]);
  size_t from = 0, to = 0;
  Expr read = 1, made = 1; // elements of the axes up to there
  const auto linearise = [&](size_t from_end, size_t to_end) {
    Expr flat = 0;
    for (size_t d = to; d < to_end; ++d) flat = flat * shape[d] + axis_symbol(int(d), shape[d]);
    for (size_t d = from_end; d-- > from;) {
      const bool empty = source[d].is_constant(0), one = source[d].is_constant(1);
      map[d] = empty || one ? Expr(0) : d == from ? flat : mod(flat, source[d]);
      if (!empty) flat = floordiv(flat, source[d]);
    }
    from = from_end, to = to_end;
  };
  for (size_t s = 0; s < source_end && !element_count(source).is_constant(0); ++s) {
    read *= source[s];
    Expr product = made;
    for (size_t t = to; t < shape_end; ++t) {
      product *= shape[t];
      if (!same_shape({read}, {product}, assumptions)) continue;
      linearise(s + 1, t + 1);
      made = product;
      break;
    }
  }
  linearise(source_end, shape_end);
  for (Expr& index : map) index = simplified_within(index, shape);
  return view(x, std::move(shape), map);
}
NodeId FunctionBuilder::slice(NodeId x, int axis, Expr start, Expr size, int64_t step) {
  Shape shape = function_.nodes.at(x).type().shape;
  if (axis < 0 || axis >= int(shape.size()))
    throw Error(fmt::format("[slice] axis {} of {}", axis, to_string(shape)));
  if (step == 0) throw Error("[slice] the step is 0");
  shape[size_t(axis)] = size;
  std::vector<Expr> map = axis_symbols(shape);
  map[size_t(axis)] = start + map[size_t(axis)] * step;
  return view(x, shape, map);
}
NodeId FunctionBuilder::pad(NodeId x, int axis, Expr before, Expr after, double fill) {
  const Shape source = function_.nodes.at(x).type().shape;
  if (axis < 0 || axis >= int(source.size()))
    throw Error(fmt::format("[pad] axis {} of {}", axis, to_string(source)));
  Shape shape = source;
  Expr extent = source[size_t(axis)];
  shape[size_t(axis)] = extent + before + after;
  std::vector<Expr> map = axis_symbols(shape);
  Expr i = map[size_t(axis)];
  map[size_t(axis)] = i - before;
  return view(x, shape, map, logical_and(le(before, i), lt(i, before + extent)), fill);
}
NodeId FunctionBuilder::reduce(Op op, NodeId x, std::vector<int> axes) {
  const TensorType type = function_.nodes.at(x).type();
  std::vector<int> all(type.shape.size());
  std::iota(all.begin(), all.end(), 0);
  std::sort(axes.begin(), axes.end());
  FoldAttr fold{.monoid = Monoid::plain(op, type.dtype),
                .space = type.shape,
                .reduced = std::move(axes),
                .body_axes = {all},
                .where = 1,
                .holes = {}};
  return get(add(std::move(fold), {x}), 0);
}

void FunctionBuilder::name(NodeId node, std::string name) {
  if (!function_.nodes.has(node)) throw Error(fmt::format("[name] node {} does not exist", node));
  if (!name.empty()) {
    const uint64_t key = name_key(name, false);
    if (auto other = table_.find(key, [&](NodeId id) { return function_.nodes[id].name == name; }))
      function_.nodes[*other].name.clear();
    table_.add(key, node);
  }
  function_.nodes[node].name = std::move(name);
}
void FunctionBuilder::origin(NodeId node, std::string place) {
  if (function_.nodes.at(node).origin.empty()) function_.nodes[node].origin = std::move(place);
}
void FunctionBuilder::result(std::string name, NodeId value, std::string state,
                             std::vector<std::string> after) {
  if (!function_.nodes.has(value)) throw Error(fmt::format("[result] node {} does not exist", value));
  if (function_.nodes[value].is_tuple())
    throw Error(fmt::format("[result] '{}': the results of {} are read by get", name,
                            to_string(function_.nodes[value].kind)));
  for (const FunctionResult& r : function_.results)
    if (r.name == name) throw Error(fmt::format("[result] '{}' exists already", name));
  function_.results.push_back({std::move(name), value, std::move(state), std::move(after)});
}

Function FunctionBuilder::finish() {
  Function& f = function_;
  IdVector<NodeId, bool> needed(f.nodes.size(), false);
  for (const FunctionResult& r : f.results) needed[r.value] = true;
  for (NodeId id : f.nodes.ids_down())
    if (needed[id])
      for (NodeId input : f.nodes[id].inputs) needed[input] = true;
  Function out;
  out.name = f.name;
  IdVector<NodeId, NodeId> place(f.nodes.size());
  auto move = [&](NodeId id) {
    place[id] = out.nodes.end_id();
    Node node = std::move(f.nodes[id]);
    for (NodeId& input : node.inputs) input = place[input];
    out.nodes.push_back(std::move(node));
  };
  for (NodeId p : f.params) { // inputs first: the order of the text
    needed[p] = false;
    move(p);
    out.params.push_back(place[p]);
  }
  for (NodeId id : f.nodes.ids())
    if (needed[id]) move(id);
  out.results = std::move(f.results);
  for (FunctionResult& r : out.results) r.value = place[r.value];
  function_ = Function{};
  function_.name = out.name;
  table_.clear();
  return out;
}

} // namespace luminal
