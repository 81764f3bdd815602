// formats/onnx.cpp -- the messages of ONNX files: model, graph, node, attribute, function, type.
#include "formats/onnx.h"
#include "formats/onnx_reader.h"
#include "formats/other_kind.h"
#include <fmt/format.h>

namespace luminal::onnx {
namespace {

using detail::ExternalFiles;
using detail::Wire;

GraphData read_graph(Wire wire, ExternalFiles& files);

Attribute read_attribute(Wire wire, ExternalFiles& files) {
  Attribute a;
  while (wire.next()) switch (wire.field()) {
    case 1: a.name = wire.text(); break;
    case 2: a.number = wire.number(); break;
    case 3: a.integer = wire.integer(); break;
    case 4: a.text = wire.text(); break;
    case 5:
    case 10: a.tensors.push_back(read_tensor(wire.message(), files)); break;
    case 6:
    case 11: a.graphs.push_back(read_graph(wire.message(), files)); break;
    case 7: wire.numbers<float>([&](float value) { a.numbers.push_back(value); }); break;
    case 8: wire.integers([&](int64_t value) { a.integers.push_back(value); }); break;
    case 9: a.texts.push_back(wire.text()); break;
    case 20: a.kind = Attribute::Kind(int32_t(wire.integer())); break;
    case 21: a.reference = wire.text(); break;
    default: wire.skip();
    }
  if (int32_t(a.kind) < 0 || a.kind > Attribute::Kind::types)
    wire.refuse(fmt::format("attribute {} has the type {}, expected 0 to 14",
                            luminal::detail::in_quotes(a.name), int32_t(a.kind)));
  const size_t one = a.kind == Attribute::Kind::tensor  ? a.tensors.size()
                     : a.kind == Attribute::Kind::graph ? a.graphs.size()
                                                        : 1;
  if (one != 1 && a.reference.empty())
    wire.refuse(
        fmt::format("attribute {} has {} values in place of one", luminal::detail::in_quotes(a.name), one));
  return a;
}

NodeData read_node(Wire wire, ExternalFiles& files) {
  NodeData node;
  while (wire.next()) switch (wire.field()) {
    case 1: node.inputs.push_back(wire.text()); break;
    case 2: node.outputs.push_back(wire.text()); break;
    case 3: node.name = wire.text(); break;
    case 4: node.op_type = wire.text(); break;
    case 5: node.attributes.push_back(read_attribute(wire.message(), files)); break;
    case 7: node.domain = wire.text(); break;
    case 8: node.overload = wire.text(); break;
    default: wire.skip();
    }
  if (node.op_type.empty()) wire.refuse("a node has no operator");
  if (node.domain == "ai.onnx") node.domain.clear();
  return node;
}

DimData read_dim(Wire wire) {
  DimData dim;
  while (wire.next()) switch (wire.field()) {
    case 1: dim.value = wire.integer(); break;
    case 2: dim.name = wire.text(); break;
    default: wire.skip();
    }
  if (dim.value && *dim.value < 0) dim.value.reset(); // some writers mean "any" by it
  return dim;
}

void read_tensor_type(Wire wire, ValueData& value) {
  while (wire.next()) {
    if (wire.field() == 1)
      value.type = ElementType(int32_t(wire.integer()));
    else if (wire.field() == 2) {
      value.has_shape = true;
      Wire shape = wire.message();
      while (shape.next()) {
        if (shape.field() == 1)
          value.shape.push_back(read_dim(shape.message()));
        else
          shape.skip();
      }
    } else
      wire.skip();
  }
}

ValueData read_value(Wire wire) {
  ValueData value;
  while (wire.next()) {
    if (wire.field() == 1) {
      value.name = wire.text();
    } else if (wire.field() == 2) {
      Wire type = wire.message();
      while (type.next()) switch (type.field()) {
        case 1:
          value.kind = ValueData::Kind::tensor;
          read_tensor_type(type.message(), value);
          break;
        case 4: value.kind = ValueData::Kind::sequence, type.skip(); break;
        case 5: value.kind = ValueData::Kind::map, type.skip(); break;
        case 7: value.kind = ValueData::Kind::opaque, type.skip(); break;
        case 8: value.kind = ValueData::Kind::sparse_tensor, type.skip(); break;
        case 9: value.kind = ValueData::Kind::optional, type.skip(); break;
        default: type.skip();
        }
    } else
      wire.skip();
  }
  return value;
}

std::string name_of_sparse(Wire wire, ExternalFiles& files) {
  std::string name;
  while (wire.next()) {
    if (wire.field() == 1)
      name = read_tensor(wire.message(), files).name;
    else
      wire.skip();
  }
  return name;
}

GraphData read_graph(Wire wire, ExternalFiles& files) {
  GraphData graph;
  while (wire.next()) switch (wire.field()) {
    case 1: graph.nodes.push_back(read_node(wire.message(), files)); break;
    case 2: graph.name = wire.text(); break;
    case 5: graph.initializers.push_back(read_tensor(wire.message(), files)); break;
    case 11: graph.inputs.push_back(read_value(wire.message())); break;
    case 12: graph.outputs.push_back(read_value(wire.message())); break;
    case 13: graph.values.push_back(read_value(wire.message())); break;
    case 15: graph.sparse_initializers.push_back(name_of_sparse(wire.message(), files)); break;
    default: wire.skip();
    }
  return graph;
}

void read_opset(Wire wire, std::map<std::string, int64_t>& opsets) {
  std::string domain;
  int64_t version = 0;
  while (wire.next()) switch (wire.field()) {
    case 1: domain = wire.text(); break;
    case 2: version = wire.integer(); break;
    default: wire.skip();
    }
  opsets[domain == "ai.onnx" ? "" : domain] = version;
}

FunctionData read_function(Wire wire, ExternalFiles& files) {
  FunctionData function;
  while (wire.next()) switch (wire.field()) {
    case 1: function.name = wire.text(); break;
    case 4: function.inputs.push_back(wire.text()); break;
    case 5: function.outputs.push_back(wire.text()); break;
    case 6: function.attributes.push_back(wire.text()); break;
    case 7: function.nodes.push_back(read_node(wire.message(), files)); break;
    case 9: read_opset(wire.message(), function.opsets); break;
    case 10: function.domain = wire.text(); break;
    case 11: function.defaults.push_back(read_attribute(wire.message(), files)); break;
    case 13: function.overload = wire.text(); break;
    default: wire.skip();
    }
  if (function.domain == "ai.onnx") function.domain.clear();
  return function;
}

void read_entry(Wire wire, std::map<std::string, std::string>& entries) {
  std::string key, value;
  while (wire.next()) switch (wire.field()) {
    case 1: key = wire.text(); break;
    case 2: value = wire.text(); break;
    default: wire.skip();
    }
  entries[key] = value;
}

ModelData read_model(Wire wire, ExternalFiles& files) {
  ModelData model;
  bool has_graph = false;
  while (wire.next()) switch (wire.field()) {
    case 1: model.ir_version = wire.integer(); break;
    case 2: model.producer = wire.text(); break;
    case 3: model.producer_version = wire.text(); break;
    case 4: model.domain = wire.text(); break;
    case 5: model.model_version = wire.integer(); break;
    case 7:
      if (has_graph) wire.refuse("the model has two graphs");
      has_graph = true;
      model.graph = read_graph(wire.message(), files);
      break;
    case 8: read_opset(wire.message(), model.opsets); break;
    case 14: read_entry(wire.message(), model.metadata); break;
    case 25: model.functions.push_back(read_function(wire.message(), files)); break;
    default: wire.skip();
    }
  if (!has_graph) wire.refuse("this is not an ONNX model: it has no graph");
  if (model.opsets.empty()) wire.refuse("this is not an ONNX model: it names no set of operators");
  return model;
}

Result<ModelData> parse(std::span<const std::byte> bytes, const std::string& file, const std::string& place) {
  return luminal::detail::guarded(file, [&] {
    ExternalFiles files(place);
    ModelData model = read_model(Wire(bytes, file), files);
    model.path = file;
    model.files = files.take();
    return model;
  });
}

} // namespace

Result<ModelData> parse_onnx(std::span<const std::byte> bytes, const std::string& file) {
  return parse(bytes, file, "");
}

Result<ModelData> open_onnx(const std::string& path) {
  auto mapped = MappedFile::open(path);
  if (!mapped) return mapped.failure();
  auto file = std::make_shared<const MappedFile>(std::move(*mapped));
  auto model = parse(file->bytes(), path, path);
  if (const std::string_view other = model ? "" : other_kind(file->bytes()); !other.empty())
    return Failure{fmt::format("{}: this is {}, expected an ONNX model", path, other)};
  if (model) model->files.push_back(std::move(file));
  return model;
}

Result<TensorData> parse_onnx_tensor(std::span<const std::byte> bytes, const std::string& file) {
  return luminal::detail::guarded(file, [&] {
    ExternalFiles files("");
    return read_tensor(Wire(bytes, file), files);
  });
}

} // namespace luminal::onnx
