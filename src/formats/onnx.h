// formats/onnx.h -- ONNX models: graph, nodes, attributes, initialisers, functions, as the file has
// them. Format: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto3
//
// The file is read by a small reader of protobuf's wire format (onnx_wire.h) and not by libprotobuf:
// that copies each initialiser twice, refuses messages of more than 2 GB, and would be a dependency
// for seven kinds of messages. Here weights stay where the mapped file has them.
#pragma once
#include "base/file.h"
#include "base/result.h"
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace luminal::onnx {

/// TensorProto.DataType, by its numbers.
enum class ElementType : int32_t {
  undefined = 0,
  f32 = 1,
  u8 = 2,
  i8 = 3,
  u16 = 4,
  i16 = 5,
  i32 = 6,
  i64 = 7,
  string = 8,
  boolean = 9,
  f16 = 10,
  f64 = 11,
  u32 = 12,
  u64 = 13,
  complex64 = 14,
  complex128 = 15,
  bf16 = 16,
  f8e4m3fn = 17,
  f8e4m3fnuz = 18,
  f8e5m2 = 19,
  f8e5m2fnuz = 20,
  u4 = 21,
  i4 = 22,
  f4e2m1 = 23,
  f8e8m0 = 24,
  u2 = 25,
  i2 = 26,
};
/// "FLOAT", "INT64", as ONNX writes them; empty for other numbers.
std::string_view element_type_name(ElementType type);
/// Bits of one element in raw data; 0 for strings and unknown types. Elements of less than 8 bits
/// fill bytes from the low bits on.
int element_bits(ElementType type);

/// A tensor of the file. `bytes` are its elements in row-major order, little endian, packed; their
/// number is that of the shape. They need not be aligned.
struct TensorData {
  std::string name;
  ElementType type = ElementType::undefined;
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;
  std::shared_ptr<const std::vector<std::byte>> owned; ///< where the file stores one field an element
  std::vector<std::string> strings;                    ///< of ElementType::string
  int64_t elements() const;
  std::string describe() const; ///< "FLOAT [2, 3]"
};

struct GraphData;

struct Attribute {
  enum class Kind : int32_t {
    undefined,
    number,
    integer,
    text,
    tensor,
    graph,
    numbers,
    integers,
    texts,
    tensors,
    graphs,
    sparse_tensor,
    sparse_tensors,
    type,
    types
  };
  std::string name;
  std::string reference; ///< of a function's body: the attribute of the call that it stands for
  Kind kind = Kind::undefined;
  float number = 0;
  int64_t integer = 0;
  std::string text;
  std::vector<float> numbers;
  std::vector<int64_t> integers;
  std::vector<std::string> texts;
  std::vector<TensorData> tensors; ///< one of Kind::tensor
  std::vector<GraphData> graphs;   ///< one of Kind::graph
};

struct NodeData {
  std::string name, op_type, domain, overload;
  std::vector<std::string> inputs, outputs; ///< an empty name: left out
  std::vector<Attribute> attributes;
};

/// An extent: a number, a name, or neither.
struct DimData {
  std::optional<int64_t> value;
  std::string name;
};
struct ValueData {
  enum class Kind : uint8_t { none, tensor, sequence, map, optional, sparse_tensor, opaque };
  std::string name;
  Kind kind = Kind::none;
  ElementType type = ElementType::undefined;
  bool has_shape = false;
  std::vector<DimData> shape;
};

struct GraphData {
  std::string name;
  std::vector<NodeData> nodes;
  std::vector<TensorData> initializers;
  std::vector<std::string> sparse_initializers; ///< names: they are not read
  std::vector<ValueData> inputs, outputs, values;
};

struct FunctionData {
  std::string domain, name, overload;
  std::vector<std::string> inputs, outputs, attributes;
  std::vector<Attribute> defaults;
  std::vector<NodeData> nodes;
  std::map<std::string, int64_t> opsets;
};

struct ModelData {
  std::string path;
  int64_t ir_version = 0, model_version = 0;
  std::string producer, producer_version, domain;
  std::map<std::string, int64_t> opsets; ///< by domain; "ai.onnx" is ""
  GraphData graph;
  std::vector<FunctionData> functions;
  std::map<std::string, std::string> metadata;
  std::vector<std::shared_ptr<const MappedFile>> files; ///< keep the bytes of tensors alive
};

/// A model in memory; `file` names it in messages. Tensors in other files are looked for beside
/// it, and refused where `file` names no place.
Result<ModelData> parse_onnx(std::span<const std::byte> bytes, const std::string& file);
Result<ModelData> open_onnx(const std::string& path);
/// One TensorProto, as test data and tensors of their own are stored (.pb).
Result<TensorData> parse_onnx_tensor(std::span<const std::byte> bytes, const std::string& file);

} // namespace luminal::onnx
