// models/onnx/node.cpp -- one node of the file: its inputs, attributes and results.
#include "base/text.h"
#include "models/onnx/importer.h"
#include <algorithm>
#include <cmath>
#include <cstring>
#include <fmt/ranges.h>

namespace luminal::onnx {

Node::Node(Importer& importer, Scope& scope, const NodeData& data, int64_t opset)
    : importer_(importer), scope_(scope), data_(data), opset_(opset) {
  for (const std::string& name : names_read(data)) {
    const Value& value = importer.find(scope, name, title());
    depends_.insert(value.depends.begin(), value.depends.end());
    carried_ |= value.carried;
  }
}

std::string Node::title() const {
  std::string text = "node '";
  std::string name = data_.name;
  if (name.empty() && !data_.outputs.empty()) name = data_.outputs[0];
  return text + printable(name, 80) + "' (" + (data_.domain.empty() ? "" : data_.domain + ".") +
         printable(data_.op_type, 80) + ")";
}

void Node::refuse(const std::string& text) const {
  throw Error("onnx", fmt::format("{}: {} {}", importer_.file().path, title(), text), importer_.where());
}

Value& Node::value(size_t i) const {
  if (!has(i)) refuse(fmt::format("has no input {}", i));
  return importer_.find(scope_, data_.inputs[i], title());
}

Tensor Node::in(size_t i) const { return importer_.tensor_of(scope_, value(i)); }

std::optional<KnownDims> Node::known_dims(size_t i) const {
  const Value& v = value(i);
  if (v.dims) return *v.dims;
  if (!v.constant) return {};
  const HostTensor& numbers = *v.constant;
  if (numbers.shape.size() > 1 || numbers.count() > 1024 || is_float(numbers.dtype)) return {};
  KnownDims known;
  known.scalar = numbers.shape.empty();
  for (int64_t k = 0; k < numbers.count(); k++)
    known.list.push_back(Dim(load_i64(numbers.dtype, numbers.data.data(), k)));
  return known;
}

namespace {
[[noreturn]] void not_known(const Node& node, size_t i, const std::string& what) {
  const Value& v = node.value(i);
  std::vector<std::string> names(v.depends.begin(), v.depends.end());
  std::string text = fmt::format("{} needs {} '{}' while the graph is made, and ", node.title(), what,
                                 printable(v.name, 80));
  text += names.empty() || v.carried
              ? std::string("it is only known while it runs")
              : fmt::format("it depends on {}: give the value (OnnxOptions::values, --inputs)",
                            fmt::join(names, ", "));
  throw NotKnown{text, v.depends, v.carried};
}
} // namespace

Dims Node::dims(size_t i) const {
  if (auto known = known_dims(i)) return known->list;
  if (value(i).constant) {
    Dims list;
    const HostTensor& numbers = *value(i).constant;
    if (is_float(numbers.dtype)) refuse(fmt::format("has floats as input {}, integers are expected", i));
    for (int64_t k = 0; k < numbers.count(); k++)
      list.push_back(Dim(load_i64(numbers.dtype, numbers.data.data(), k)));
    return list;
  }
  not_known(*this, i, "the integers of");
}

std::vector<int64_t> Node::ints(size_t i) const {
  std::vector<int64_t> list;
  for (const Dim dim : dims(i)) {
    if (!dim.is_constant())
      refuse(fmt::format(
          "needs fixed integers as input {}: {} is not one (OnnxOptions::shapes fixes dimensions)", i,
          dim.to_string()));
    list.push_back(dim.value());
  }
  return list;
}

int64_t Node::integer_at(size_t i) const {
  const auto list = ints(i);
  if (list.size() != 1) refuse(fmt::format("needs one integer as input {}, not {}", i, list.size()));
  return list[0];
}

std::vector<double> Node::numbers(size_t i) const {
  const Value& v = value(i);
  std::vector<double> list;
  if (v.constant) {
    for (int64_t k = 0; k < v.constant->count(); k++) list.push_back(v.constant->at(k));
    return list;
  }
  if (v.dims) {
    for (const int64_t number : ints(i)) list.push_back(double(number));
    return list;
  }
  not_known(*this, i, "the numbers of");
}

std::vector<int64_t> Node::extents(const Tensor& x) const {
  std::vector<int64_t> list;
  for (const Dim extent : x.shape()) {
    if (!extent.is_constant())
      refuse(fmt::format("needs a fixed shape, not {}: OnnxOptions::shapes or dims fix it",
                         luminal::to_string(x.shape())));
    list.push_back(extent.value());
  }
  return list;
}

const Attribute* Node::attribute(const std::string& name) const {
  for (const Attribute& attribute : data_.attributes) {
    if (attribute.name != name) continue;
    if (attribute.reference.empty()) return &attribute;
    if (!scope_.attributes)
      refuse(
          fmt::format("refers to the attribute {} of a function, and stands in none", attribute.reference));
    const auto found = scope_.attributes->find(attribute.reference);
    return found == scope_.attributes->end() ? nullptr : &found->second;
  }
  return nullptr;
}

namespace {
void need_kind(const Node& node, const Attribute& a, Attribute::Kind kind) {
  constexpr std::string_view names[] = {
      "UNDEFINED", "FLOAT",   "INT",    "STRING",        "TENSOR",         "GRAPH",      "FLOATS",     "INTS",
      "STRINGS",   "TENSORS", "GRAPHS", "SPARSE_TENSOR", "SPARSE_TENSORS", "TYPE_PROTO", "TYPE_PROTOS"};
  if (a.kind != kind && a.kind != Attribute::Kind::undefined)
    node.refuse(fmt::format("has the attribute {} of type {}, {} is expected", a.name, names[size_t(a.kind)],
                            names[size_t(kind)]));
}
} // namespace

int64_t Node::integer(const std::string& name, std::optional<int64_t> otherwise) const {
  const Attribute* a = attribute(name);
  if (!a && !otherwise) refuse(fmt::format("has no attribute {}", name));
  if (a) need_kind(*this, *a, Attribute::Kind::integer);
  return a ? a->integer : *otherwise;
}
double Node::number(const std::string& name, std::optional<double> otherwise) const {
  const Attribute* a = attribute(name);
  if (!a && !otherwise) refuse(fmt::format("has no attribute {}", name));
  if (a) need_kind(*this, *a, Attribute::Kind::number);
  return a ? double(a->number) : *otherwise;
}
std::string Node::text(const std::string& name, const std::string& otherwise) const {
  const Attribute* a = attribute(name);
  if (a) need_kind(*this, *a, Attribute::Kind::text);
  return a ? a->text : otherwise;
}
std::string Node::one_of(const std::string& name, const std::string& otherwise,
                         std::initializer_list<std::string_view> known) const {
  const std::string given = text(name, otherwise);
  if (std::find(known.begin(), known.end(), given) == known.end())
    refuse(
        fmt::format("has {} = '{}', expected one of {}", name, printable(given, 80), fmt::join(known, ", ")));
  return given;
}
std::vector<int64_t> Node::integers(const std::string& name, std::vector<int64_t> otherwise) const {
  const Attribute* a = attribute(name);
  if (a) need_kind(*this, *a, Attribute::Kind::integers);
  return a ? a->integers : otherwise;
}
std::vector<double> Node::reals(const std::string& name) const {
  const Attribute* a = attribute(name);
  if (!a) return {};
  need_kind(*this, *a, Attribute::Kind::numbers);
  return {a->numbers.begin(), a->numbers.end()};
}
const GraphData& Node::body(const std::string& name) const {
  const Attribute* a = attribute(name);
  if (!a || a->graphs.size() != 1) refuse(fmt::format("has no attribute {} that is a graph", name));
  return a->graphs[0];
}

Value& Node::result(size_t i) {
  Value value;
  value.name = data_.outputs[i];
  value.depends = depends_;
  value.carried = carried_;
  return scope_.values[data_.outputs[i]] = std::move(value);
}

void Node::out(size_t i, const Tensor& tensor, ElementType type) {
  if (!wants(i)) return;
  Value& value = result(i);
  value.type = type == ElementType::undefined ? element_type_of(tensor.dtype()) : type;
  value.tensor = tensor;
}
void Node::made_from_integers(size_t i, int axis) {
  if (wants(i)) scope_.values.at(data_.outputs[i]).quantised = {&data_, &scope_, opset_, axis};
}
void Node::out_constant(size_t i, HostTensor numbers, ElementType type) {
  if (!wants(i)) return;
  Value& value = result(i);
  value.type = type;
  value.constant = std::make_shared<const HostTensor>(std::move(numbers));
}
void Node::out_dims(size_t i, Dims list, bool scalar) {
  if (!wants(i)) return;
  Value& value = result(i);
  value.type = ElementType::i64;
  const bool counts = data_.op_type == "Shape" || data_.op_type == "Size"; // in i64, of whatever type
  for (size_t k = 0; k < inputs() && !counts; k++)
    if (has(k) && this->value(k).dims && this->value(k).type == ElementType::i32)
      value.type = ElementType::i32;
  const DType type = *carrier(value.type);
  const int64_t width = value.type == ElementType::i32 ? 4 : 8;
  const bool constant = std::all_of(list.begin(), list.end(), [](Dim dim) { return dim.is_constant(); });
  if (constant) {
    HostTensor numbers{type, {}, std::vector<std::byte>(list.size() * size_t(width))};
    if (!scalar) numbers.shape = {int64_t(list.size())};
    for (size_t k = 0; k < list.size(); k++)
      store_i64(type, numbers.data.data(), int64_t(k), list[k].value());
    value.constant = std::make_shared<const HostTensor>(std::move(numbers));
  } else
    value.dims = std::make_shared<const KnownDims>(KnownDims{std::move(list), scalar});
}
void Node::out_value(size_t i, Value from) {
  if (!wants(i)) return;
  Value& value = result(i);
  const std::string name = value.name;
  value = std::move(from);
  value.name = name;
  value.depends.insert(depends_.begin(), depends_.end());
  value.carried |= carried_;
}

int axis_in(const Node& node, int64_t axis, int rank) {
  const int64_t at = axis < 0 ? axis + rank : axis;
  if (at < 0 || at >= std::max(rank, 1)) node.refuse(fmt::format("names axis {} of {} axes", axis, rank));
  return int(at);
}

Tensor number_tensor(Graph& graph, double value, DType type) { return graph.constant(value, type); }

Tensor along(const Tensor& values, int axis, int rank) {
  Dims shape(size_t(rank), Dim(1));
  shape[size_t(axis)] = values.dim(0);
  return values.reshape(shape);
}

bool is_float_type(DType type) { return is_float(type); }

} // namespace luminal::onnx
