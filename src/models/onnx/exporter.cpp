// models/onnx/exporter.cpp -- the nodes of a module one after the other; functions, loops and conditions;
// inputs, weights and results.
#include "models/onnx/exporter.h"
#include "base/check.h"
#include "formats/onnx_write.h"
#include "ir/scalar.h"
#include "models/onnx/importer.h"
#include "tensor/graph_state.h"
#include <algorithm>
#include <fmt/format.h>

namespace luminal::onnx_export {

using onnx::element_type_of;

Exporter::Exporter(const Module& module, Weight weight, std::source_location where)
    : module_(module), weight_(std::move(weight)), where_(where) {}

void Exporter::refuse(const Node& node, std::string_view why) const {
  std::string what(to_string(node.kind));
  if (!node.name.empty()) what += " " + node.name;
  what += fmt::format(" ({})", to_string(node.type()));
  if (!node.origin.empty()) what += ", " + node.origin + ",";
  throw Error("save_onnx", fmt::format("{} cannot be written: {}", what, why), where_);
}

ValueData Exporter::declare(const std::string& name, DType dtype, const Shape& shape, bool held) const {
  ValueData value;
  value.name = name;
  value.kind = ValueData::Kind::tensor;
  value.type = element_type_of(held ? held_as(dtype) : dtype);
  value.has_shape = true;
  for (const Expr e : shape) {
    DimData dim;
    if (e.is_constant())
      dim.value = e.value();
    else if (e.is_symbol())
      dim.name = std::string(e.name());
    value.shape.push_back(dim);
  }
  return value;
}

void Exporter::inputs_and_weights() {
  const Function& main = module_.entry();
  for (const FunctionResult& result : main.results) graph_.free_name(result.name);
  for (const NodeId id : main.params) graph_.free_name(std::get<InputAttr>(main[id].attr).name);
  for (const NodeId id : main.params) {
    const auto& input = std::get<InputAttr>(main[id].attr);
    const bool fixed =
        std::all_of(input.type.shape.begin(), input.type.shape.end(), [](Expr e) { return e.is_constant(); });
    if (input.role == Role::weight && fixed) { // one that varies in its shape is an input
      TensorData tensor;
      tensor.name = input.name;
      tensor.type = element_type_of(input.type.dtype);
      for (const Expr e : input.type.shape) tensor.shape.push_back(e.value());
      tensor.bytes = weight_(input.name);
      graph_.weight(std::move(tensor));
    } else {
      inputs_.push_back(declare(input.name, input.type.dtype, input.type.shape, false));
      for (size_t d = 0; d < input.type.shape.size(); d++)
        if (const Expr e = input.type.shape[d]; e.is_symbol())
          axis_of_dimension_.try_emplace(std::string(e.name()), enter(input.name, input.type.dtype, {}).name,
                                         d);
    }
    parameters_[input.name] = enter(input.name, input.type.dtype, input.type.shape);
    note(parameters_[input.name]);
  }
  // A dimension that no input has is an input itself.
  for (const Expr symbol : module_.symbols)
    if (const std::string name(symbol.name()); !axis_of_dimension_.contains(name)) {
      if (graph_.free_name(name) != name)
        throw Error("save_onnx",
                    fmt::format("dimension {} is not an extent of an input, and another value has its name: "
                                "rename one of them",
                                name),
                    where_);
      inputs_.push_back(declare(name, DType::i64, {}, false));
    }
}

Held Exporter::constant(const ConstantAttr& attr) {
  const DType type = attr.type.dtype;
  std::vector<int64_t> extents;
  int64_t count = 1;
  for (const Expr e : attr.type.shape) {
    extents.push_back(e.value());
    count *= e.value();
  }
  if (attr.type.shape.empty())
    return is_float(type) ? number(type, load_f64(type, attr.data->data(), 0))
                          : integer_of(type, load_i64(type, attr.data->data(), 0));
  const auto bytes = std::span(*attr.data).first(size_t(storage_bytes(type, count)));
  return enter(graph_.constant(type, extents, {bytes.begin(), bytes.end()}), type, attr.type.shape);
}

std::vector<Held> Exporter::call(const std::string& name, const std::vector<Held>& arguments) {
  const Function* function = module_.find(name);
  LUMINAL_CHECK(function, "no function {}", name);
  Frame frame{*function, IdVector<NodeId, std::vector<Held>>(function->nodes.size())};
  LUMINAL_CHECK(function->params.size() == arguments.size(), "{} takes {} values", name,
                function->params.size());
  for (size_t i = 0; i < arguments.size(); i++) frame.results[function->params[i]] = {arguments[i]};
  emit(frame);
  std::vector<Held> results;
  for (const FunctionResult& result : function->results) results.push_back(frame[result.value]);
  return results;
}

std::vector<Held> Exporter::loop(const Frame& frame, const Node& node) {
  const auto& attr = std::get<LoopAttr>(node.attr);
  const Function* body = module_.find(attr.body);
  LUMINAL_CHECK(body, "no function {}", attr.body);
  const auto type_of = [&](NodeId id) -> const TensorType& { return frame.function[id].type(); };
  std::vector<Held> carried, stepped, invariants;
  for (size_t i = 0; i < node.inputs.size(); i++) {
    const NodeId input = node.inputs[i];
    if (i < size_t(attr.carried))
      carried.push_back(full(frame[input], type_of(input).shape));
    else if (i < size_t(attr.carried) + size_t(attr.stepped))
      stepped.push_back(full(frame[input], type_of(input).shape));
    else
      invariants.push_back(frame[input]);
  }
  const bool counts = !attr.condition.empty();
  const auto goes_on = [&](const std::vector<Held>& values) {
    std::vector<Held> arguments = values;
    arguments.insert(arguments.end(), invariants.begin(), invariants.end());
    return full(call(attr.condition, arguments)[0], {});
  };
  std::vector<std::string> inputs{index(attr.count).name, counts ? goes_on(carried).name : ""};
  for (const Held& value : carried) inputs.push_back(value.name);
  if (counts) inputs.push_back(graph_.integer(0)); // steps

  graph_.begin_scope();
  const Held step{graph_.free_name("step"), DType::i64, {}};
  const std::string go = graph_.free_name("go");
  std::vector<ValueData> body_inputs{declare(step.name, DType::i64, {}, true),
                                     declare(go, DType::boolean, {}, true)};
  std::vector<Held> arguments{step};
  for (const Held& value : carried) {
    arguments.push_back({graph_.free_name("carried"), value.dtype, value.shape});
    body_inputs.push_back(declare(arguments.back().name, value.dtype, value.shape, true));
  }
  if (counts) body_inputs.push_back(declare(graph_.free_name("steps"), DType::i64, {}, true));
  for (const Held& value : stepped)
    arguments.push_back({graph_.node("Gather", {value.name, step.name}, {attribute("axis", int64_t(0))}),
                         value.dtype, Shape(value.shape.begin() + 1, value.shape.end())});
  arguments.insert(arguments.end(), invariants.begin(), invariants.end());
  std::vector<Held> made = call(attr.body, arguments);
  std::vector<ValueData> outputs{{}};
  for (size_t i = 0; i < made.size(); i++) {
    const TensorType& type = (*body)[body->results[i].value].type();
    made[i] = full(made[i], type.shape);
    outputs.push_back(declare(made[i].name, type.dtype, type.shape, true));
    if (counts && i + 1 == size_t(attr.carried))
      outputs.push_back(
          declare(integer_op(Op::add, {step, number(DType::i64, 1)}).name, DType::i64, {}, true));
  }
  const std::vector<Held> next(made.begin(), made.begin() + attr.carried);
  outputs[0] = declare(counts ? goes_on(next).name : go, DType::boolean, {}, true);
  const size_t results = outputs.size() - 1;
  GraphData graph = graph_.end_scope(std::move(body_inputs), std::move(outputs));
  const auto names = graph_.nodes("Loop", inputs, results, {attribute("body", std::move(graph))});

  std::vector<Held> values;
  const std::string steps = counts ? names[size_t(attr.carried)] : "";
  for (size_t i = 0; i < made.size(); i++) {
    const bool stacked = i >= size_t(attr.carried);
    const TensorType& type = node.types[i];
    std::string name = names[i + (counts && stacked ? 1 : 0)];
    if (counts && stacked) { // rows that were never reached are zero
      Held missing = integer_op(Op::sub, {index(attr.count), {steps, DType::i64, {}}});
      const std::string after = graph_.node("Unsqueeze", {missing.name, graph_.integers({0})});
      std::vector<int64_t> rest(type.shape.size() - 1, 0), before(type.shape.size(), 0);
      const std::string pads = graph_.node("Concat", {graph_.integers(before), after, graph_.integers(rest)},
                                           {attribute("axis", int64_t(0))});
      name = graph_.node("Pad", {name, pads, number(type.dtype, 0).name});
    }
    values.push_back({name, type.dtype, type.shape});
  }
  if (counts) values.push_back({steps, DType::i64, {}});
  return values;
}

std::vector<Held> Exporter::cond(const Frame& frame, const Node& node) {
  const auto& attr = std::get<CondAttr>(node.attr);
  std::vector<Held> arguments;
  for (size_t i = 1; i < node.inputs.size(); i++) arguments.push_back(frame[node.inputs[i]]);
  const auto branch = [&](const std::string& function) {
    graph_.begin_scope();
    std::vector<ValueData> outputs;
    const std::vector<Held> made = call(function, arguments);
    for (size_t i = 0; i < made.size(); i++)
      outputs.push_back(
          declare(full(made[i], node.types[i].shape).name, node.types[i].dtype, node.types[i].shape, true));
    return graph_.end_scope({}, std::move(outputs));
  };
  GraphData then = branch(attr.then_function), otherwise = branch(attr.else_function);
  const auto names = graph_.nodes(
      "If", {frame[node.inputs[0]].name}, node.types.size(),
      {attribute("then_branch", std::move(then)), attribute("else_branch", std::move(otherwise))});
  std::vector<Held> values;
  for (size_t i = 0; i < names.size(); i++)
    values.push_back({names[i], node.types[i].dtype, node.types[i].shape});
  return values;
}

std::vector<Held> Exporter::emit(Frame& frame, NodeId id) {
  const Node& node = frame.function[id];
  // What has no elements is not computed.
  const auto empty = [](const TensorType& type) {
    return std::any_of(type.shape.begin(), type.shape.end(), [](Expr e) { return e.is_constant(0); });
  };
  if (node.kind != NodeKind::input && node.kind != NodeKind::host && !node.types.empty() &&
      std::all_of(node.types.begin(), node.types.end(), empty)) {
    std::vector<Held> results;
    for (const TensorType& type : node.types) results.push_back(number(type.dtype, 0));
    return results;
  }
  switch (node.kind) {
  case NodeKind::input: return {parameters_.at(std::get<InputAttr>(node.attr).name)};
  case NodeKind::constant: return {constant(std::get<ConstantAttr>(node.attr))};
  case NodeKind::iota: {
    const auto& iota = std::get<IotaAttr>(node.attr);
    IndexSpace space{iota.type.shape, {}};
    for (size_t d = 0; d < iota.type.shape.size(); d++) space.axes.push_back(int(d));
    return {cast(index(iota.value, space), iota.type.dtype)};
  }
  case NodeKind::map: {
    const auto& map = std::get<MapAttr>(node.attr);
    if (map.user_op.empty() && map.op == Op::select)
      if (auto joined = concatenation(frame, id)) return {*joined};
    std::vector<Held> x;
    for (const NodeId input : node.inputs) x.push_back(frame[input]);
    if (map.user_op.empty()) return {op(map.op, std::move(x))};
    const UserOp* user = find_user_op(map.user_op);
    if (!user || user->definition.empty())
      refuse(node, fmt::format("operation {} has no definition in other operations (Operation::definition)",
                               map.user_op));
    return {scalar(parse_scalar(user->definition, {"a", "b", "c"}), x, node.type().dtype)};
  }
  case NodeKind::cast: return {cast(frame[node.inputs[0]], node.type().dtype)};
  case NodeKind::bitcast: return {bitcast(frame, node)};
  case NodeKind::view: return {view(frame, node)};
  case NodeKind::scatter: return {scatter(frame, node)};
  case NodeKind::fold:
    if (auto windows = window_fold(frame, node)) return {*windows};
    if (auto matrix = product(frame, node)) return {*matrix};
    return fold(frame, node);
  case NodeKind::scan: return scan(frame, node);
  case NodeKind::sort: return sort(frame, node);
  case NodeKind::call: {
    std::vector<Held> arguments;
    for (const NodeId input : node.inputs) arguments.push_back(frame[input]);
    return call(std::get<CallAttr>(node.attr).function, arguments);
  }
  case NodeKind::loop: return loop(frame, node);
  case NodeKind::cond: return cond(frame, node);
  case NodeKind::fence: return {frame[node.inputs[0]]};
  case NodeKind::get: return {frame.results[node.inputs[0]].at(size_t(std::get<GetAttr>(node.attr).index))};
  case NodeKind::random: refuse(node, "ONNX's random numbers are not these: make them an input");
  case NodeKind::host: refuse(node, "it runs on the host: make its result an input");
  case NodeKind::custom: refuse(node, "it is a custom kernel: make its result an input");
  case NodeKind::collective: refuse(node, "ONNX has no operators between devices: make its result an input");
  }
  return {};
}

void Exporter::emit(Frame& frame) {
  for (NodeId id : frame.function.nodes.ids())
    if (frame.results[id].empty()) frame.results[id] = emit(frame, id);
}

ModelData Exporter::run() {
  inputs_and_weights();
  const Function& main = module_.entry();
  Frame frame{main, IdVector<NodeId, std::vector<Held>>(main.nodes.size())};
  emit(frame);
  std::vector<ValueData> outputs;
  std::vector<std::string> values;
  for (const FunctionResult& result : main.results) {
    const TensorType& type = main[result.value].type();
    values.push_back(leave(full(frame[result.value], type.shape)));
    outputs.push_back(declare(result.name, type.dtype, type.shape, false));
  }
  ModelData model;
  model.producer = "luminal";
  model.graph = graph_.finish(std::move(inputs_), std::move(outputs), values, types_);
  model.graph.name = main.name;
  const int64_t opset = ExportGraph::opset_of(model.graph);
  model.opsets[""] = opset;
  model.ir_version = opset > 22 ? 13 : opset > 20 ? 10 : 9;
  // A dimension that nothing reads is not an input.
  std::erase_if(model.graph.inputs, [&](const ValueData& input) {
    if (parameters_.contains(input.name)) return false;
    return !ExportGraph::reads(model.graph, input.name);
  });
  return model;
}

ModelData export_graph(const Graph& graph, std::source_location where) {
  const auto& state = graph.state("save_onnx", where);
  if (!state->has_results())
    throw Error("save_onnx", "nothing is kept: call keep() on what the model gives back", where);
  const Module module = state->snapshot();
  const auto weight = [&](const std::string& name) -> std::span<const std::byte> {
    load_deferred(state, name);
    const auto found = state->data.find(name);
    if (found == state->data.end() || !found->second.given)
      throw Error("save_onnx", fmt::format("weight {} has no value: set it, or load it from a file", name),
                  where);
    return found->second.bytes;
  };
  return Exporter(module, weight, where).run();
}

} // namespace luminal::onnx_export

namespace luminal {

void save_onnx(const Graph& graph, const std::string& path, const OnnxSaveOptions& options,
               std::source_location where) {
  if (!path.ends_with(".onnx"))
    throw Error("save_onnx", fmt::format("{}: the name must end in .onnx", path), where);
  onnx::ModelData model = onnx_export::export_graph(graph, where);
  model.metadata = options.metadata;
  if (const auto done = onnx::write_onnx(model, path, options.external_above); !done)
    throw Error("save_onnx", done.error(), where);
}

} // namespace luminal
