// models/onnx/importer.cpp -- the nodes of a file, one after the other: what is known is computed at
// once, the rest becomes terms.
#include "models/onnx/importer.h"
#include "base/check.h"
#include "base/text.h"
#include "luminal/inspect.h"
#include "tensor/extents.h"
#include "tensor/graph_state.h"
#include <algorithm>
#include <fmt/ranges.h>

namespace luminal::onnx {
namespace {

constexpr int64_t most_folded = 1 << 16; // elements that a folded node reads and makes
constexpr int64_t largest_literal = 16;  // elements that are written into the terms
constexpr int64_t most_nodes = 200'000;  // built, those of unrolled loops included
constexpr int deepest_graph = 64;

std::string in_quotes(const std::string& name) { return "'" + name + "'"; }

/// "[op] text at FILE:LINE" of an operation of the API without what is ours.
std::string inner_text(const std::string& text) {
  std::string inner = text;
  if (const size_t at = inner.rfind(" at ");
      at != std::string::npos && inner.find(':', at) != std::string::npos)
    inner.resize(at);
  return inner;
}

} // namespace

Importer::Importer(const ModelData& file, const OnnxOptions& options, std::set<std::string> fixed,
                   SolvedDims& solved, std::source_location where)
    : file_(file), options_(options), fixed_(std::move(fixed)), solved_(solved), where_(where) {
  model_.graph.state()->made_at = where;
}

const FunctionData* Importer::function(const NodeData& node) const {
  for (const FunctionData& f : file_.functions)
    if (f.name == node.op_type && f.domain == node.domain && f.overload == node.overload) return &f;
  return nullptr;
}

void Importer::check_operators() const {
  std::map<std::string, int> unknown;
  const std::function<void(const std::vector<NodeData>&)> look = [&](const std::vector<NodeData>& nodes) {
    for (const NodeData& node : nodes) {
      if (!function(node) && !find_operator(node.domain, node.op_type))
        unknown[(node.domain.empty() ? "" : node.domain + ".") + node.op_type]++;
      for (const Attribute& attribute : node.attributes)
        for (const GraphData& graph : attribute.graphs) look(graph.nodes);
    }
  };
  look(file_.graph.nodes);
  for (const FunctionData& f : file_.functions) {
    look(f.nodes);
    for (const Attribute& attribute : f.defaults)
      for (const GraphData& graph : attribute.graphs) look(graph.nodes);
  }
  std::vector<std::string> list;
  for (const auto& [name, count] : unknown)
    list.push_back(fmt::format("{} ({})", printable(name, 80), count));
  if (!list.empty())
    throw Error(
        "onnx",
        fmt::format(
            "{}: operators that are not supported (docs/onnx.md lists those that are), with how often: {}",
            file_.path, fmt::join(list, ", ")),
        where_);
}

void Importer::add_initializers(Scope& scope, const GraphData& graph) {
  for (const TensorData& data : graph.initializers) {
    Value value;
    value.name = data.name;
    value.type = data.type;
    if (const auto type = carrier(data.type); type && data.type == element_type_of(*type)) {
      // Large weights stay where the file has them; a small one is a known value.
      const bool plain = data.elements() > largest_literal && scope.graph == &model_.graph;
      if (plain) {
        Dims shape(data.shape.begin(), data.shape.end());
        std::string name = data.name;
        while (model_.graph.state()->inputs.contains(name)) name += "_";
        value.tensor = model_.graph.weight(name, shape, *type, where_);
        const bool aligned =
            reinterpret_cast<uintptr_t>(data.bytes.data()) % std::max<size_t>(1, size_t(bits(*type)) / 8) ==
            0;
        if (aligned && !data.owned)
          value.tensor.borrow(data.bytes.data(), data.bytes.size(),
                              std::make_shared<std::vector<std::shared_ptr<const MappedFile>>>(file_.files),
                              where_);
        else
          value.tensor.set_bytes(data.bytes, *type, where_);
      }
      if (!plain || data.elements() <= most_folded)
        value.constant = std::make_shared<const HostTensor>(decode(data));
    } else if (type)
      value.constant = std::make_shared<const HostTensor>(decode(data));
    scope.values[data.name] = std::move(value);
  }
  for (const std::string& name : graph.sparse_initializers)
    throw Error("onnx",
                fmt::format("{}: {} is a sparse tensor, which is not supported: write it as a dense one",
                            file_.path, in_quotes(name)),
                where_);
}

void Importer::add_inputs(Scope& scope) {
  for (const ValueData& input : file_.graph.inputs) {
    if (scope.values.contains(input.name)) continue; // an initialiser: files before IR 4 list it twice
    const auto fail = [&](const std::string& text) {
      return Error("onnx", fmt::format("{}: input {} {}", file_.path, in_quotes(input.name), text), where_);
    };
    const auto type = carrier(input.type);
    if (input.kind != ValueData::Kind::tensor || !type)
      throw fail(input.kind == ValueData::Kind::tensor
                     ? fmt::format("has elements of {}, which is not supported", type_text(input.type))
                     : "is not a tensor (a sequence, say), which is not supported");
    Value value;
    value.name = input.name;
    value.type = input.type;
    value.depends = {input.name};
    if (fixed_.contains(input.name)) {
      const OnnxNumbers& numbers = options_.values.at(input.name);
      if (numbers.dtype != *type)
        throw fail(fmt::format("is {}, its value in OnnxOptions::values is {}", to_string(*type),
                               to_string(numbers.dtype)));
      value.constant =
          std::make_shared<const HostTensor>(HostTensor{numbers.dtype, numbers.shape, numbers.bytes});
      model_.fixed.push_back(input.name);
      scope.values[input.name] = std::move(value);
      continue;
    }
    const auto given = options_.shapes.find(input.name);
    if (!input.has_shape && given == options_.shapes.end())
      throw fail("has no shape in the file: say which it has (OnnxOptions::shapes)");
    const size_t rank = input.has_shape ? input.shape.size() : given->second.size();
    if (given != options_.shapes.end() && given->second.size() != rank)
      throw fail(fmt::format("has {} axes, its shape is [{}]", rank, fmt::join(given->second, ", ")));
    Dims shape;
    for (size_t d = 0; d < rank; d++) {
      const DimData dim = input.has_shape ? input.shape[d] : DimData{};
      const std::string name = dimension_name(input, d);
      if (given != options_.shapes.end()) {
        if (dim.value && *dim.value != given->second[d])
          throw fail(fmt::format("has {} elements along axis {}, its shape is [{}]", *dim.value, d,
                                 fmt::join(given->second, ", ")));
        shape.push_back(given->second[d]);
      } else if (dim.value) {
        shape.push_back(*dim.value);
      } else {
        shape.push_back(dimension(name));
      }
    }
    value.tensor = model_.graph.tensor(shape, *type, input.name, where_);
    model_.inputs.push_back({input.name, value.tensor});
    scope.values[input.name] = std::move(value);
  }
}

Value& Importer::find(Scope& scope, const std::string& name, const std::string& reader) {
  for (Scope* at = &scope; at; at = at->outer) {
    const auto found = at->values.find(name);
    if (found == at->values.end()) continue;
    Value& value = found->second;
    if (at->graph == scope.graph) return value;
    // From outside of a body only what is known comes in by itself.
    if (!value.known()) break;
    Value copy = value;
    copy.tensor = Tensor();
    return scope.values[name] = std::move(copy);
  }
  throw Error("onnx",
              fmt::format("{}: {} reads {}, which nothing before it makes", file_.path, reader,
                          in_quotes(printable(name, 80))),
              where_);
}

Tensor Importer::tensor_of(Scope& scope, Value& value) {
  if (value.tensor.defined()) return value.tensor;
  Graph& g = *scope.graph;
  if (value.constant) {
    const HostTensor& numbers = *value.constant;
    const Dims shape(numbers.shape.begin(), numbers.shape.end());
    const bool top = &g == &model_.graph;
    if (numbers.count() <= largest_literal || !top)
      return value.tensor = g.constant_bytes(numbers.data, numbers.dtype, shape, where_);
    std::string name = value.name;
    while (name.empty() || g.state()->inputs.contains(name)) name += "_";
    value.tensor = g.weight(name, shape, numbers.dtype, where_);
    value.tensor.set_bytes(numbers.data, numbers.dtype, where_);
    return value.tensor;
  }
  if (!value.dims)
    throw Error("onnx",
                fmt::format("{}: tensor {} has elements of {}, which is not supported", file_.path,
                            in_quotes(value.name), type_text(value.type)),
                where_);
  const Dims list = value.dims->list;
  const Dims shape = value.dims->scalar ? Dims{} : Dims{int64_t(list.size())};
  const DType type = carrier(value.type).value_or(DType::i64);
  return value.tensor = g.iota(
             shape,
             [&](const Dims& i) {
               Dim chosen = list.empty() ? Dim(0) : list.back();
               for (size_t k = list.size(); k-- > 1;)
                 chosen = select(i[0] < Dim(int64_t(k)), list[k - 1], chosen);
               return chosen;
             },
             type, where_);
}

bool Importer::fold_node(Scope& scope, const NodeData& data, const Operator& row, int64_t opset) {
  int64_t elements = 0;
  if (row.opaque) return false;
  for (const std::string& name : data.inputs) {
    if (name.empty()) continue;
    const Value& value = find(scope, name, data.op_type);
    if (!value.constant) return false;
    elements += value.constant->count();
  }
  if (elements > most_folded) return false;
  Graph scratch;
  scratch.state()->made_at = where_;
  Scope inner;
  inner.outer = &scope;
  inner.graph = &scratch;
  inner.attributes = scope.attributes;
  inner.opsets = scope.opsets;
  Node node(*this, inner, data, opset);
  row.build(node);
  std::vector<Tensor> tensors;
  std::vector<Value*> values;
  for (const std::string& name : data.outputs) {
    const auto found = inner.values.find(name);
    if (name.empty() || found == inner.values.end()) continue;
    if (!found->second.constant && found->second.tensor.defined()) {
      int64_t count = 1;
      for (const Dim extent : found->second.tensor.shape())
        count *= extent.is_constant() ? extent.value() : most_folded;
      if (count > most_folded) return false;
      tensors.push_back(found->second.tensor);
      values.push_back(&found->second);
    }
  }
  if (!tensors.empty()) {
    std::vector<ReferenceValue> numbers = luminal::interpret(tensors, where_);
    for (size_t i = 0; i < numbers.size(); i++)
      values[i]->constant = std::make_shared<const HostTensor>(
          HostTensor{numbers[i].dtype, std::move(numbers[i].shape), std::move(numbers[i].bytes)});
  }
  for (const std::string& name : data.outputs) {
    const auto found = inner.values.find(name);
    if (name.empty() || found == inner.values.end()) continue;
    found->second.tensor = Tensor();
    found->second.quantised.scope = &scope;
    scope.values[name] = std::move(found->second);
  }
  return true;
}

void Importer::build_node(Scope& scope, const NodeData& data) {
  if (++made > most_nodes)
    throw Error("onnx",
                fmt::format("{}: more than {} nodes are made, as its loops and functions repeat them",
                            file_.path, most_nodes),
                where_);
  const FunctionData* called = function(data);
  const auto opset_at = scope.opsets.find(data.domain);
  const int64_t opset = opset_at == scope.opsets.end() ? 1 : opset_at->second;
  Node node(*this, scope, data, opset);
  (void)take_unequal();
  try {
    if (called) return call_function(node, *called);
    const Operator* row = find_operator(data.domain, data.op_type);
    LUMINAL_CHECK(row, "no operator {}", data.op_type); // check_operators
    if (opset < row->since)
      node.refuse(fmt::format("is of opset {}, it is supported from {} on", opset, row->since));
    if (row->dims && row->dims(node)) return;
    if (fold_node(scope, data, *row, opset)) return;
    row->build(node);
  } catch (const NotKnown&) {
    throw;
  } catch (const std::out_of_range&) { // of a list that the operator wants to be longer
    node.refuse("has fewer axes, numbers or values than its operator needs");
  } catch (const Error& error) {
    const std::string text = error.what();
    const bool refused = text.starts_with("[onnx]");
    if (const auto pair = take_unequal(); !refused && pair && solve(pair->first, pair->second))
      throw Solved{};
    if (has_cut_ && !solved_.inside) {
      solved_.inside = true;
      throw Solved{};
    }
    if (refused) throw;
    throw Error("onnx",
                fmt::format("{}: {}: {}{}", file_.path, node.title(), inner_text(text), open_dimensions()),
                where_);
  }
}

void Importer::build_nodes(Scope& scope, const std::vector<NodeData>& nodes) {
  struct Level {
    int& depth;
    explicit Level(int& d) : depth(d) { depth++; }
    ~Level() { depth--; }
  } level(depth);
  if (depth > deepest_graph)
    throw Error("onnx",
                fmt::format("{}: graphs and calls of functions are nested more than {} deep", file_.path,
                            deepest_graph),
                where_);
  for (const NodeData& data : nodes) build_node(scope, data);
}

OnnxModel Importer::run() {
  check_operators();
  const auto check_opset = [&](const std::string& what, const std::map<std::string, int64_t>& opsets) {
    const auto found = opsets.find("");
    if (found != opsets.end() && (found->second < 7 || found->second > 27))
      throw Error(
          "onnx",
          fmt::format("{}: {} is of opset {}, 7 to 27 are supported", file_.path, what, found->second),
          where_);
  };
  check_opset("the file", file_.opsets);
  for (const FunctionData& f : file_.functions)
    check_opset("function " + in_quotes(printable(f.name, 80)), f.opsets);
  Scope scope;
  scope.graph = &model_.graph;
  scope.opsets = file_.opsets;
  check_dimensions();
  add_initializers(scope, file_.graph);
  add_inputs(scope);
  build_nodes(scope, file_.graph.nodes);
  std::set<uint32_t> kept;
  for (const ValueData& output : file_.graph.outputs) {
    Value& value = find(scope, output.name, "the list of outputs");
    Tensor tensor = tensor_of(scope, value);
    // An input, or a value that has another name already, gets a result of its own.
    const auto& inputs = model_.graph.state()->inputs;
    const bool input = std::any_of(inputs.begin(), inputs.end(),
                                   [&](const auto& entry) { return entry.second == node_id(tensor); });
    if (input || !kept.insert(tensor.id()).second) {
      Dims shape = tensor.shape();
      tensor = tensor.unsqueeze(0).squeeze({0});
      if (!kept.insert(tensor.id()).second || tensor.id() == value.tensor.id())
        tensor = select(true, tensor, tensor);
      kept.insert(tensor.id());
    }
    tensor.set_name(output.name, where_).keep(where_);
    model_.outputs.push_back({output.name, tensor});
  }
  model_.opsets = file_.opsets;
  model_.metadata = file_.metadata;
  model_.producer = file_.producer;
  return std::move(model_);
}

} // namespace luminal::onnx

namespace luminal {
namespace {
Tensor find_value(std::string_view what, const std::vector<OnnxValue>& list, const std::string& name,
                  std::source_location where) {
  std::vector<std::string> names;
  for (const OnnxValue& value : list) {
    if (value.name == name) return value.tensor;
    names.push_back(value.name);
  }
  throw Error("onnx", fmt::format("the model has no {} '{}'; it has {}", what, name, fmt::join(names, ", ")),
              where);
}
} // namespace

Tensor OnnxModel::input(const std::string& name, std::source_location where) const {
  return find_value("input", inputs, name, where);
}
Tensor OnnxModel::output(const std::string& name, std::source_location where) const {
  return find_value("output", outputs, name, where);
}

OnnxModel load_onnx(const std::string& path, const OnnxOptions& options, std::source_location where) {
  auto file = onnx::open_onnx(path);
  if (!file) throw Error("onnx", file.error(), where);
  onnx::put_in_order(*file);
  std::set<std::string> fixed;
  onnx::SolvedDims solved;
  for (;;) {
    try {
      return onnx::Importer(*file, options, fixed, solved, where).run();
    } catch (const onnx::Solved&) { // each time one dimension less, or a larger step of one
    } catch (const onnx::NotKnown& unknown) {
      // The inputs that it depends on are fixed, as far as their values are given.
      const size_t before = fixed.size();
      for (const std::string& name : unknown.depends)
        if (options.values.contains(name)) fixed.insert(name);
      if (fixed.size() == before) throw Error("onnx", fmt::format("{}: {}", path, unknown.text), where);
    }
  }
}

} // namespace luminal
