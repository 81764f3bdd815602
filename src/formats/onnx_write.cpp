// formats/onnx_write.cpp -- ONNX files, written: the messages of onnx.h in protobuf's wire format.
// Format: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto3
#include "formats/onnx_write.h"
#include <array>
#include <bit>
#include <deque>
#include <filesystem>
#include <fmt/format.h>

namespace luminal::onnx {
namespace {

/// A message as parts of bytes: the bytes of tensors stay where they are.
class Message {
public:
  void text(int field, std::string_view value) {
    key(field, 2);
    varint(value.size());
    own_.append(value);
  }
  void integer(int field, int64_t value) {
    key(field, 0);
    varint(uint64_t(value));
  }
  void number(int field, float value) {
    key(field, 5);
    const auto bits = std::bit_cast<std::array<char, 4>>(value);
    own_.append(bits.data(), bits.size());
  }
  void bytes(int field, std::span<const std::byte> value) {
    key(field, 2);
    varint(value.size());
    flush();
    parts_.push_back({{}, value});
    size_ += value.size();
  }
  void message(int field, Message&& inner) {
    inner.flush();
    key(field, 2);
    varint(inner.size_);
    flush();
    size_ += inner.size_;
    for (Part& part : inner.parts_) parts_.push_back(std::move(part));
  }
  /// In order; they refer to this message.
  std::vector<std::span<const std::byte>> parts() {
    flush();
    std::vector<std::span<const std::byte>> list;
    for (const Part& part : parts_)
      list.push_back(part.owned.empty() ? part.lent : std::as_bytes(std::span(part.owned)));
    return list;
  }

private:
  struct Part {
    std::string owned;
    std::span<const std::byte> lent;
  };
  void key(int field, int type) { varint((uint64_t(field) << 3) | uint64_t(type)); }
  void varint(uint64_t n) {
    for (; n > 127; n >>= 7) own_ += char((n & 127) | 128);
    own_ += char(n);
  }
  void flush() {
    if (own_.empty()) return;
    size_ += own_.size();
    parts_.push_back({std::move(own_), {}});
    own_.clear();
  }
  std::string own_;
  std::deque<Part> parts_;
  size_t size_ = 0; // of parts_
};

/// Tensors that go into a file of their own, one after the other.
struct External {
  std::string location; // empty: there is none
  uint64_t offset = 0;
  std::vector<std::span<const std::byte>> parts = {};
};
constexpr size_t least_external = 1024, external_alignment = 64;
constexpr std::array<std::byte, external_alignment> zeros{};

Message tensor_message(const TensorData& tensor, External& external) {
  Message m;
  for (const int64_t extent : tensor.shape) m.integer(1, extent);
  m.integer(2, int64_t(tensor.type));
  m.text(8, tensor.name);
  if (external.location.empty() || tensor.bytes.size() < least_external) {
    m.bytes(9, tensor.bytes);
    return m;
  }
  const uint64_t gap = (external_alignment - external.offset % external_alignment) % external_alignment;
  external.parts.push_back(std::span(zeros).first(gap));
  external.parts.push_back(tensor.bytes);
  external.offset += gap;
  const auto entry = [&](std::string_view name, const std::string& value) {
    Message pair;
    pair.text(1, name);
    pair.text(2, value);
    m.message(13, std::move(pair));
  };
  entry("location", external.location);
  entry("offset", std::to_string(external.offset));
  entry("length", std::to_string(tensor.bytes.size()));
  m.integer(14, 1); // EXTERNAL
  external.offset += tensor.bytes.size();
  return m;
}

Message value_message(const ValueData& value) {
  Message shape, tensor, type, m;
  for (const DimData& dim : value.shape) {
    Message extent;
    if (dim.value)
      extent.integer(1, *dim.value);
    else if (!dim.name.empty())
      extent.text(2, dim.name);
    shape.message(1, std::move(extent));
  }
  tensor.integer(1, int64_t(value.type));
  if (value.has_shape) tensor.message(2, std::move(shape));
  type.message(1, std::move(tensor));
  m.text(1, value.name);
  m.message(2, std::move(type));
  return m;
}

Message graph_message(const GraphData& graph, External& external);

Message attribute_message(const Attribute& a, External& external) {
  Message m;
  m.text(1, a.name);
  switch (a.kind) {
  case Attribute::Kind::number: m.number(2, a.number); break;
  case Attribute::Kind::integer: m.integer(3, a.integer); break;
  case Attribute::Kind::text: m.text(4, a.text); break;
  case Attribute::Kind::tensor: m.message(5, tensor_message(a.tensors.at(0), external)); break;
  case Attribute::Kind::graph: m.message(6, graph_message(a.graphs.at(0), external)); break;
  default: // integers
    for (const int64_t n : a.integers) m.integer(8, n);
  }
  m.integer(20, int64_t(a.kind));
  return m;
}

Message graph_message(const GraphData& graph, External& external) {
  Message m;
  for (const NodeData& node : graph.nodes) {
    Message n;
    for (const std::string& name : node.inputs) n.text(1, name);
    for (const std::string& name : node.outputs) n.text(2, name);
    if (!node.name.empty()) n.text(3, node.name);
    n.text(4, node.op_type);
    for (const Attribute& a : node.attributes) n.message(5, attribute_message(a, external));
    if (!node.domain.empty()) n.text(7, node.domain);
    m.message(1, std::move(n));
  }
  m.text(2, graph.name);
  for (const TensorData& tensor : graph.initializers) m.message(5, tensor_message(tensor, external));
  for (const ValueData& value : graph.inputs) m.message(11, value_message(value));
  for (const ValueData& value : graph.outputs) m.message(12, value_message(value));
  return m;
}

} // namespace

Result<void> write_onnx(const ModelData& model, const std::string& path, uint64_t external_above) {
  uint64_t weights = 0;
  for (const TensorData& tensor : model.graph.initializers) weights += tensor.bytes.size();
  External external;
  const std::string beside = path + ".data";
  if (weights > external_above) external.location = std::filesystem::path(beside).filename().string();
  Message m;
  m.integer(1, model.ir_version);
  m.text(2, model.producer);
  m.text(3, model.producer_version);
  m.message(7, graph_message(model.graph, external));
  for (const auto& [domain, version] : model.opsets) {
    Message opset;
    opset.text(1, domain);
    opset.integer(2, version);
    m.message(8, std::move(opset));
  }
  for (const auto& [key, value] : model.metadata) {
    Message entry;
    entry.text(1, key);
    entry.text(2, value);
    m.message(14, std::move(entry));
  }
  if (!external.location.empty())
    if (auto done = write_file(beside, external.parts); !done) return done;
  const auto parts = m.parts();
  return write_file(path, parts);
}

} // namespace luminal::onnx
