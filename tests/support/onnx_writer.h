// support/onnx_writer.h -- ONNX files for tests: protobuf's wire format, written.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace luminal::testing_formats::onnx_writer {

inline std::string varint(uint64_t n) {
  std::string out;
  for (; n > 127; n >>= 7) out += char((n & 127) | 128);
  return out + char(n);
}
inline std::string field(int number, std::string_view bytes) {
  return varint((uint64_t(number) << 3) | 2) + varint(bytes.size()) + std::string(bytes);
}
inline std::string field(int number, int64_t value) {
  return varint(uint64_t(number) << 3) + varint(uint64_t(value));
}
template <class T> std::string raw(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}
inline std::string tensor(std::string_view name, int type, std::initializer_list<int64_t> shape,
                          std::string_view data) {
  std::string out;
  for (const int64_t extent : shape) out += field(1, extent);
  return out + field(2, int64_t(type)) + field(8, name) + field(9, data);
}
/// An extent: a number, or a name.
struct Extent {
  Extent(int n) : text(field(1, int64_t(n))) {}
  Extent(const char* name) : text(field(2, std::string_view(name))) {}
  std::string text;
};
inline std::string value(std::string_view name, int type, const std::vector<Extent>& shape) {
  std::string dims;
  for (const Extent& extent : shape) dims += field(1, extent.text);
  return field(1, name) + field(2, field(1, field(1, int64_t(type)) + field(2, dims)));
}
inline std::string integer(std::string_view name, int64_t number) {
  return field(1, name) + field(3, number) + field(20, int64_t(2));
}
inline std::string graph_attribute(std::string_view name, std::string_view graph) {
  return field(1, name) + field(6, graph) + field(20, int64_t(5));
}
inline std::string node(std::string_view op, const std::vector<std::string>& inputs,
                        const std::vector<std::string>& outputs,
                        const std::vector<std::string>& attributes = {}, std::string_view domain = "") {
  std::string out;
  for (const auto& name : inputs) out += field(1, name);
  for (const auto& name : outputs) out += field(2, name);
  for (const auto& attribute : attributes) out += field(5, attribute);
  return out + field(4, op) + (domain.empty() ? "" : field(7, domain));
}
struct GraphText {
  std::vector<std::string> nodes = {}, initializers = {}, inputs = {}, outputs = {};
  std::string text() const {
    std::string out;
    for (const auto& n : nodes) out += field(1, n);
    for (const auto& n : initializers) out += field(5, n);
    for (const auto& n : inputs) out += field(11, n);
    for (const auto& n : outputs) out += field(12, n);
    return out + field(2, std::string_view("graph"));
  }
};
inline std::string model(const GraphText& graph, int64_t opset = 17, std::string_view functions = "") {
  return field(1, int64_t(8)) + field(8, field(1, std::string_view("")) + field(2, opset)) +
         field(7, graph.text()) + std::string(functions);
}

} // namespace luminal::testing_formats::onnx_writer
