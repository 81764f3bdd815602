// models/onnx_refusals.h -- models of one node, and what load_onnx says of them.
#pragma once
#include "formats/util.h"
#include "luminal/onnx.h"
#include "support/error_of.h"
#include "support/onnx_writer.h"
#include <fmt/format.h>
#include <gmock/gmock.h>

namespace luminal::onnx_refusals {

using namespace luminal::testing_formats;
using namespace luminal::testing_formats::onnx_writer;
using luminal::testing_formats::onnx_writer::Extent; // the library has another
constexpr int f32 = 1, u8 = 2, i32 = 6, i64 = 7, text_type = 8, boolean = 9, u32 = 12;

/// An input of the node: an input of the model, a constant of the file, or none.
struct In {
  std::vector<Extent> shape = {};
  int type = f32;
  bool constant = false, absent = false;
  std::string data = {}; ///< of a constant
};
inline In x(std::vector<Extent> shape, int type = f32) { return {std::move(shape), type}; }
inline In ints(const std::vector<int64_t>& values) {
  return {{int(values.size())}, i64, true, false, raw<int64_t>(values)};
}
inline In scalar(int64_t value) { return {{}, i64, true, false, raw<int64_t>({value})}; }
inline In floats(std::vector<Extent> shape, const std::vector<float>& values) {
  return {std::move(shape), f32, true, false, raw<float>(values)};
}
inline In none() { return {{}, f32, false, true}; }

inline std::string attribute(std::string_view name, int kind, const std::string& content) {
  return field(1, name) + content + field(20, int64_t(kind));
}
inline std::string word(std::string_view name, std::string_view value) {
  return attribute(name, 3, field(4, value));
}
inline std::string words(std::string_view name, const std::vector<std::string>& values) {
  std::string content;
  for (const std::string& value : values) content += field(9, value);
  return attribute(name, 8, content);
}
inline std::string number(std::string_view name, float value) {
  return attribute(name, 1, varint(2 << 3 | 5) + raw<float>({value}));
}
inline std::string integers(std::string_view name, const std::vector<int64_t>& values) {
  std::string content;
  for (const int64_t value : values) content += field(8, value);
  return attribute(name, 7, content);
}
inline std::string tensor_attribute(std::string_view name, std::string_view content) {
  return attribute(name, 4, field(5, content));
}

struct Refused {
  std::string op;
  std::vector<In> inputs;
  std::vector<std::string> attributes;
  std::string expected; ///< behind "node 'y' (Op) "
  int64_t opset = 17;
  std::string domain = "";
  int outputs = 1;
};

/// The message of loading `file`, m.onnx, without its folder and the caller's line.
inline std::string refusal(const std::string& file, const OnnxOptions& options = {}) {
  const TemporaryFolder folder;
  const std::string path = folder.file("m.onnx");
  put_file(path, file);
  std::string text = error_of([&] { load_onnx(path, options); });
  const size_t place = text.rfind(" at onnx_refusals.h:"); // no line of our own sources
  if (place == std::string::npos) return "not with the line of the caller: " + text;
  text.resize(place);
  const std::string start = "[onnx] " + path.substr(0, path.size() - 6);
  return text.starts_with(start) ? text.substr(start.size()) : "not with the file: " + text;
}

inline GraphText graph_of(const Refused& row) {
  GraphText g;
  std::vector<std::string> names, outputs;
  for (const In& in : row.inputs) {
    const std::string name = in.absent ? "" : fmt::format("in{}", names.size());
    names.push_back(name);
    if (in.absent) continue;
    if (!in.constant) {
      g.inputs.push_back(value(name, in.type, in.shape));
      continue;
    }
    std::string data; // an extent of a value is a message, one of a tensor a number
    for (const Extent& extent : in.shape) data += extent.text;
    g.initializers.push_back(data + field(2, int64_t(in.type)) + field(8, name) + field(9, in.data));
  }
  for (int i = 0; i < row.outputs; i++) outputs.push_back(i ? fmt::format("y{}", i) : "y");
  g.nodes = {node(row.op, names, outputs, row.attributes, row.domain)};
  if (row.outputs) g.outputs = {value("y", f32, {})};
  return g;
}

inline void expect_refusals(const std::vector<Refused>& rows) {
  for (const Refused& row : rows) {
    const std::string name = (row.domain.empty() ? "" : row.domain + ".") + row.op;
    EXPECT_EQ(refusal(model(graph_of(row), row.opset)),
              fmt::format("m.onnx: node '{}' ({}){}{}", row.outputs ? "y" : "", name,
                          row.expected.starts_with(":") ? "" : " ", row.expected));
  }
}

} // namespace luminal::onnx_refusals
