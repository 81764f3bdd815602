// tensor/data.cpp -- the data of tensors: given, loaded when needed, kept, read, dropped.
#include "ir/text_names.h"
#include "tensor/graph_run.h"
#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace luminal {

int64_t HostValues::count() const { return elements(shape_); }

void HostValues::keep_numbers(const std::vector<HostNumber>& numbers) {
  const auto any = [&](auto test) { return std::any_of(numbers.begin(), numbers.end(), test); };
  const bool real = any([](const HostNumber& n) { return n.real; }),
             beyond = any([](const HostNumber& n) { return n.above && n.whole < 0; }),
             negative = any([](const HostNumber& n) { return !n.above && n.whole < 0; });
  auto copy = std::make_shared<std::vector<std::byte>>(numbers.size() * 8);
  dtype_ = real || (beyond && negative) ? DType::f64 : beyond ? DType::u64 : DType::i64;
  for (size_t i = 0; i < numbers.size(); i++)
    if (dtype_ == DType::f64)
      std::memcpy(copy->data() + 8 * i, &numbers[i].value, 8);
    else
      std::memcpy(copy->data() + 8 * i, &numbers[i].whole, 8);
  bytes_ = *copy;
  owner_ = std::move(copy);
}

void HostValues::note_ragged(const std::vector<int64_t>& path, int64_t size) {
  if (ragged_.empty())
    ragged_ = fmt::format("the list [{}] has {} values where {} are expected", fmt::join(path, ", "), size,
                          shape_[path.size()]);
}

int64_t elements(const std::vector<int64_t>& extents) {
  int64_t n = 1;
  for (int64_t extent : extents) n *= extent;
  return n;
}

void convert_elements(DType to, std::byte* out, DType from, const std::byte* in, int64_t count) {
  if (count == 0) return; // no elements may come with no address
  if (to == from) {
    std::memcpy(out, in, size_t(storage_bytes(to, count)));
    return;
  }
  for (int64_t i = 0; i < count; i++) {
    if (is_float(from) && is_float(to))
      store_f64(to, out, i, load_f64(from, in, i));
    else if (is_float(from))
      store_i64(to, out, i, truncate_to(to, load_f64(from, in, i)));
    else if (is_float(to))
      store_f64(to, out, i, integer_to_float(to, from, load_i64(from, in, i)));
    else
      store_i64(to, out, i, wrap(to, load_i64(from, in, i)));
  }
}

std::vector<int64_t> present_shape(std::string_view op, const GraphState& graph, const Shape& shape,
                                   Where where) {
  std::vector<int64_t> result;
  ExprMap<int64_t> bindings;
  for (Expr extent : shape) {
    if (extent.is_constant()) {
      result.push_back(extent.value());
      continue;
    }
    if (bindings.empty())
      for (const auto& [name, symbol] : graph.dims)
        if (auto value = graph.dim_values.find(name); value != graph.dim_values.end())
          bindings[symbol] = value->second;
    auto value = evaluate(extent, bindings);
    if (!value)
      throw Error(op, fmt::format("{}: {} (see Graph::set_dim)", text_of(shape), value.error()), where);
    result.push_back(*value);
  }
  return result;
}

std::string described(const GraphState& graph, NodeId id) {
  const Node& node = graph.builder[id];
  std::string name = node.kind == NodeKind::input ? std::get<InputAttr>(node.attr).name : node.name;
  const std::string type = to_string(node.type());
  return name.empty() ? type : fmt::format("{} ({})", name, type);
}

const InputAttr& input_attr(const GraphState& graph, NodeId id, std::string_view op, Where where) {
  const Node& node = graph.builder[id];
  if (node.kind != NodeKind::input)
    throw Error(op, "data can only be given to a tensor made by tensor, weight or state", where);
  return std::get<InputAttr>(node.attr);
}

namespace {

bool is_fixed(const Shape& shape) {
  return std::all_of(shape.begin(), shape.end(), [](Expr e) { return e.is_constant(); });
}

std::string extents_text(const std::vector<int64_t>& extents) {
  return fmt::format("[{}]", fmt::join(extents, ", "));
}

/// " (n in 0..8)": what the sizes of the dimensions may be; empty where there are none.
std::string declared_text(const Shape& shape) {
  std::string text;
  for (Expr symbol : symbols_of(shape))
    text += fmt::format("{}{} in {}..{}", text.empty() ? "" : ", ", symbol.name(), symbol.range().low,
                        symbol.range().high);
  return text.empty() ? "" : fmt::format(" ({})", text);
}

/// Lists that state sizes: fixed extents must agree now, those of dimensions that have a value too.
void check_extents(const GraphState& graph, NodeId id, const std::vector<int64_t>& extents,
                   std::string_view op, Where where) {
  const Shape& shape = graph.builder[id].type().shape;
  bool fits = shape.size() == extents.size();
  for (size_t d = 0; fits && d < extents.size(); d++)
    fits = shape[d].is_constant() ? shape[d].value() == extents[d] : shape[d].range().contains(extents[d]);
  if (!fits)
    throw Error(op,
                fmt::format("{}: the values have shape {}{}", described(graph, id), extents_text(extents),
                            declared_text(shape)),
                where);
}

InputData& start_set(GraphState& graph, NodeId id, std::string_view op, Where where) {
  const InputAttr& input = input_attr(graph, id, op, where);
  InputData& data = graph.data[input.name];
  graph.weights_set_again |= data.given && input.role == Role::weight;
  data.owner = nullptr;
  data.buffer = nullptr;
  data.load = nullptr;
  data.gone.clear();
  data.shaped = false;
  data.given = data.fresh = true;
  data.set_at = where;
  return data;
}

void store_values(GraphState& graph, NodeId id, const HostValues& values, std::string_view op, Where where) {
  InputData& data = start_set(graph, id, op, where);
  const DType type = graph.builder[id].type().dtype;
  // A weight's memory may be in use by a store; other inputs are bound anew at each execute.
  if (!data.copy || data.copy.use_count() > 1 ||
      std::get<InputAttr>(graph.builder[id].attr).role == Role::weight)
    data.copy = std::make_shared<std::vector<std::byte>>();
  data.copy->resize(size_t(storage_bytes(type, values.count())));
  convert_elements(type, data.copy->data(), values.dtype(), values.bytes().data(), values.count());
  data.bytes = *data.copy;
  data.owner = data.copy;
}

void check_ragged(const HostValues& values, std::string_view op, Where where) {
  if (!values.ragged().empty()) throw Error(op, values.ragged(), where);
}

} // namespace

void Tensor::set(const HostValues& values, Where where) {
  graph_of("set", {this}, where);
  input_attr(*graph_, node_id(*this), "set", where);
  check_ragged(values, "set", where);
  const Shape& shape = type_of(*this).shape;
  if (values.shape().size() > 1)
    check_extents(*graph_, node_id(*this), values.shape(), "set", where);
  else if (is_fixed(shape) && values.count() != elements(present_shape("set", *graph_, shape, where)))
    throw Error("set",
                fmt::format("{} is {}, {} elements; {} were given",
                            std::get<InputAttr>(graph_->builder[node_id(*this)].attr).name,
                            luminal::to_string(type_of(*this)),
                            elements(present_shape("set", *graph_, shape, where)), values.count()),
                where);
  store_values(*graph_, node_id(*this), values, "set", where);
  if (values.shape().size() > 1) {
    InputData& data = graph_->data[std::get<InputAttr>(graph_->builder[node_id(*this)].attr).name];
    data.extents = values.shape();
    data.shaped = true;
  }
}

void Tensor::set_dyn(const HostValues& values, Where where) { set_dyn(values, values.shape(), where); }

void Tensor::set_dyn(const HostValues& values, const std::vector<int64_t>& extents, Where where) {
  graph_of("set_dyn", {this}, where);
  GraphState& g = *graph_;
  input_attr(g, node_id(*this), "set_dyn", where);
  check_ragged(values, "set_dyn", where);
  if (elements(extents) != values.count())
    throw Error("set_dyn",
                fmt::format("{}: shape {} has {} elements; {} were given", described(g, node_id(*this)),
                            extents_text(extents), elements(extents), values.count()),
                where);
  check_extents(g, node_id(*this), extents, "set_dyn", where);
  const Shape shape = type_of(*this).shape;
  std::map<std::string, int64_t> sizes;
  for (size_t d = 0; d < shape.size(); d++) {
    if (!shape[d].is_symbol()) continue;
    auto [at, fresh] = sizes.emplace(shape[d].name(), extents[d]);
    if (!fresh && at->second != extents[d])
      throw Error("set_dyn",
                  fmt::format("{}: the values have shape {}, in which {} would be {} and {}",
                              described(g, node_id(*this)), extents_text(extents), at->first, at->second,
                              extents[d]),
                  where);
  }
  ExprMap<int64_t> bindings;
  for (const auto& [name, symbol] : g.dims) {
    if (auto size = sizes.find(name); size != sizes.end())
      bindings[symbol] = size->second;
    else if (auto value = g.dim_values.find(name); value != g.dim_values.end())
      bindings[symbol] = value->second;
  }
  for (size_t d = 0; d < shape.size(); d++) {
    auto size = evaluate(shape[d], bindings);
    if (!size)
      throw Error("set_dyn",
                  fmt::format("{}: {} cannot be known from the shape {}: {} (see Graph::set_dim)",
                              described(g, node_id(*this)), luminal::to_string(shape[d]),
                              extents_text(extents), size.error()),
                  where);
    if (*size != extents[d])
      throw Error("set_dyn",
                  fmt::format("{}: the values have shape {}, but {} is {}", described(g, node_id(*this)),
                              extents_text(extents), luminal::to_string(shape[d]), *size),
                  where);
  }
  for (const auto& [name, size] : sizes) g.dim_values[name] = size;
  store_values(g, node_id(*this), values, "set_dyn", where);
}

void Tensor::set_bytes(std::span<const std::byte> bytes, DType type, Where where) {
  graph_of("set", {this}, where);
  const InputAttr& input = input_attr(*graph_, node_id(*this), "set", where);
  const int64_t count = int64_t(bytes.size()) * 8 / bits(type);
  const Shape& shape = type_of(*this).shape;
  if (is_fixed(shape) && count != elements(present_shape("set", *graph_, shape, where)) &&
      int64_t(bytes.size()) != storage_bytes(type, elements(present_shape("set", *graph_, shape, where))))
    throw Error("set",
                fmt::format("{} is {}, {} elements; {} were given", input.name,
                            luminal::to_string(type_of(*this)),
                            elements(present_shape("set", *graph_, shape, where)), count),
                where);
  const int64_t wanted = is_fixed(shape) ? elements(present_shape("set", *graph_, shape, where)) : count;
  InputData& data = start_set(*graph_, node_id(*this), "set", where);
  data.copy = std::make_shared<std::vector<std::byte>>(size_t(storage_bytes(dtype(), wanted)));
  convert_elements(dtype(), data.copy->data(), type, bytes.data(), wanted);
  data.bytes = *data.copy;
  data.owner = data.copy;
}

void Tensor::borrow(const void* pointer, size_t bytes, std::shared_ptr<const void> owner, Where where) {
  graph_of("borrow", {this}, where);
  const Shape& shape = type_of(*this).shape;
  input_attr(*graph_, node_id(*this), "borrow", where);
  if (is_fixed(shape)) {
    const int64_t wanted = storage_bytes(dtype(), elements(present_shape("borrow", *graph_, shape, where)));
    if (wanted != int64_t(bytes))
      throw Error(
          "borrow",
          fmt::format("{} takes {} bytes; {} were given", described(*graph_, node_id(*this)), wanted, bytes),
          where);
  }
  InputData& data = start_set(*graph_, node_id(*this), "borrow", where);
  data.copy = nullptr;
  data.bytes = {static_cast<const std::byte*>(pointer), bytes};
  data.owner = std::move(owner);
}

void Tensor::check_borrowed(DType type, Where where) const {
  graph_of("borrow", {this}, where);
  if (type != dtype())
    throw Error("borrow",
                fmt::format("{} cannot be read from memory of {} in place; set converts",
                            described(*graph_, node_id(*this)), luminal::to_string(type)),
                where);
}

void Tensor::defer(std::function<void(Tensor&)> load, Where where) {
  graph_of("set_deferred", {this}, where);
  input_attr(*graph_, node_id(*this), "set_deferred", where);
  InputData& data = start_set(*graph_, node_id(*this), "set_deferred", where);
  data.copy = nullptr;
  data.bytes = {};
  data.given = false;
  data.load = [load = std::move(load), where](Tensor& tensor) {
    load(tensor);
    if (!tensor.graph()->data[std::get<InputAttr>(tensor.graph()->builder[node_id(tensor)].attr).name].given)
      throw Error("set_deferred", described(*tensor.graph(), node_id(tensor)) + ": the callback set no value",
                  where);
  };
}

void load_deferred(const std::shared_ptr<GraphState>& graph, const std::string& input) {
  InputData& data = graph->data[input];
  if (!data.load) return;
  auto load = std::move(data.load);
  data.load = nullptr;
  Tensor tensor = wrap(graph, graph->inputs.at(input));
  try {
    load(tensor);
  } catch (...) {
    if (!data.given) data.load = std::move(load); // the next one who asks may have more luck
    throw;
  }
}

Tensor& Tensor::keep(Where where) {
  graph_of("keep", {this}, where);
  if (graph_->outer)
    throw Error("keep", "a value inside of a loop or function cannot be kept: return it", where);
  if (graph_->kept.try_emplace(node_id(*this), "").second) {
    graph_->gone.erase(node_id(*this));
    name_result(*graph_, node_id(*this));
  }
  return *this;
}

void Tensor::drop(Where where) {
  graph_of("drop", {this}, where);
  GraphState& g = *graph_;
  const std::string dropped = fmt::format("was dropped ({})", place_text(where));
  if (auto kept = g.kept.find(node_id(*this)); kept != g.kept.end()) {
    if (g.context() && g.readable.contains(node_id(*this)))
      g.context()->forget_result(g.readable.at(node_id(*this)));
    g.kept.erase(kept);
    g.gone[node_id(*this)] = dropped;
    g.stale = true;
  }
  const Node& node = g.builder[node_id(*this)];
  if (node.kind != NodeKind::input) return;
  const auto& input = std::get<InputAttr>(node.attr);
  InputData& data = g.data[input.name];
  data = {};
  if (input.role != Role::state)
    data.gone = dropped;
  else if (g.store)
    g.store->exchange_state(input.name, {});
}

DType Tensor::dtype(Where where) const {
  graph_of("dtype", {this}, where);
  return type_of(*this).dtype;
}
Dims Tensor::shape(Where where) const {
  graph_of("shape", {this}, where);
  return to_dims(type_of(*this).shape);
}
Dim Tensor::dim(int axis, Where where) const {
  graph_of("dim", {this}, where);
  return to_dims(type_of(*this).shape)[size_t(axis_of("dim", axis, rank(), where))];
}
std::string Tensor::name(Where where) const {
  return graph_of("name", {this}, where)->builder[node_id(*this)].name;
}
Tensor& Tensor::set_name(std::string name, Where where) {
  GraphState& g = *graph_of("set_name", {this}, where);
  std::optional<NodeId> former; // a name belongs to the tensor that was given it last
  for (const auto& [node, label] : g.kept)
    if (node != node_id(*this) && !name.empty() && g.builder[node].name == name) former = node;
  g.builder.name(node_id(*this), std::move(name));
  if (g.kept.contains(node_id(*this))) name_result(g, node_id(*this));
  if (former) name_result(g, *former);
  return *this;
}

void name_result(GraphState& g, NodeId kept) {
  const Node& node = g.builder[kept];
  std::string wanted = node.kind == NodeKind::input ? std::get<InputAttr>(node.attr).name : node.name;
  if (!wanted.empty() &&
      !is_plain_name(wanted)) { // results are names of the text form and of exported symbols
    for (char& c : wanted)
      if (!is_plain_name(std::string_view(&c, 1)) && !(c >= '0' && c <= '9')) c = '_';
    if (!is_plain_name(wanted)) wanted = "_" + wanted;
  }
  const auto taken = [&](const std::string& label) {
    return std::any_of(g.kept.begin(), g.kept.end(),
                       [&](const auto& other) { return other.first != kept && other.second == label; });
  };
  std::string label = wanted;
  for (size_t n = wanted.empty() ? g.kept.size() - 1 : 1; label.empty() || taken(label); n++)
    label = wanted.empty() ? fmt::format("output{}", n) : fmt::format("{}_{}", wanted, n);
  if (g.kept[kept] == label) return;
  g.kept[kept] = std::move(label);
  g.stale = true;
}

namespace {
template <size_t N, size_t... I>
std::array<Dim, N> axes_of(const Tensor& t, std::string_view op, Where where, std::index_sequence<I...>) {
  graph_of(op, {&t}, where);
  const Dims dims = t.shape();
  if (dims.size() != N)
    throw Error(
        op,
        fmt::format("{} axes are asked for, {} has {}", N, described(*t.graph(), node_id(t)), dims.size()),
        where);
  return {dims[I]...};
}
template <size_t N> std::array<Dim, N> axes_of(const Tensor& t, std::string_view op, Where where) {
  return axes_of<N>(t, op, where, std::make_index_sequence<N>());
}
} // namespace

std::array<Dim, 1> Tensor::dims1(Where where) const { return axes_of<1>(*this, "dims1", where); }
std::array<Dim, 2> Tensor::dims2(Where where) const { return axes_of<2>(*this, "dims2", where); }
std::array<Dim, 3> Tensor::dims3(Where where) const { return axes_of<3>(*this, "dims3", where); }
std::array<Dim, 4> Tensor::dims4(Where where) const { return axes_of<4>(*this, "dims4", where); }
std::array<Dim, 5> Tensor::dims5(Where where) const { return axes_of<5>(*this, "dims5", where); }

int64_t Tensor::element_count(Where where) const {
  graph_of("data", {this}, where); // data<T> asks first
  return elements(present_shape("data", *graph_, type_of(*this).shape, where));
}
std::vector<int64_t> Tensor::extents(Where where) const {
  graph_of("extents", {this}, where);
  return present_shape("extents", *graph_, type_of(*this).shape, where);
}
void Tensor::check_single(Where where) const {
  graph_of("item", {this}, where);
  if (const int64_t count = elements(present_shape("item", *graph_, type_of(*this).shape, where)); count != 1)
    throw Error("item", fmt::format("{} has {} elements, not one", described(*graph_, node_id(*this)), count),
                where);
}

namespace {
/// The device where only copies bring its memory to the host.
device::Device* unseen(device::Device& device) { return device.limits().host_visible ? nullptr : &device; }
} // namespace

ReadableValue value_in_place(std::string_view op, const Tensor& tensor, Where where) {
  const auto graph = graph_of(op, {&tensor}, where);
  GraphState& g = *graph;
  const NodeId id = node_id(tensor);
  const Node& node = g.builder[id];
  if (auto gone = g.gone.find(id); gone != g.gone.end())
    throw Error(op, fmt::format("{} {}", described(g, id), gone->second), where);
  if (auto kept = g.readable.find(id); kept != g.readable.end() && g.context() && g.ran) {
    auto value = g.context()->result_in_place(kept->second);
    if (!value) throw Error(op, value.error(), where);
    return {value->bytes, value->shape, unseen(g.store->device())};
  }
  if (node.kind == NodeKind::input) {
    const auto& input = std::get<InputAttr>(node.attr);
    load_deferred(graph, input.name);
    auto data = g.data.find(input.name);
    const bool given = data != g.data.end() && data->second.given;
    if (given && (input.role != Role::state || data->second.fresh || !g.store)) {
      auto extents = present_shape(op, g, node.type().shape, where);
      const int64_t wanted = storage_bytes(node.type().dtype, elements(extents));
      if (wanted != int64_t(data->second.bytes.size()))
        throw Error(op,
                    fmt::format("{} is {} with the present sizes of dimensions; {} elements were given {}",
                                described(g, id), extents_text(extents),
                                int64_t(data->second.bytes.size()) * 8 / bits(node.type().dtype),
                                place_text(data->second.set_at)),
                    where);
      const auto& buffer = data->second.buffer;
      return {data->second.bytes, std::move(extents), buffer ? unseen(*buffer->device) : nullptr};
    }
    if (input.role == Role::state && g.store && g.context()) {
      auto extents = present_shape(op, g, node.type().shape, where);
      const int64_t wanted = storage_bytes(node.type().dtype, elements(extents));
      const runtime::SlotId slot =
          g.context()->executable().plan().find_slot(input.name, runtime::SlotKind::state);
      const int64_t most = slot ? g.context()->executable().plan().slots[slot].max_bytes : wanted;
      auto memory = g.store->state(input.name, most);
      if (!memory) throw_failure(op, memory.failure(), where);
      return {{*memory, size_t(wanted)}, std::move(extents), unseen(g.store->device())};
    }
    if (input.role == Role::state) { // nothing has run yet: as it was left, or as it begins
      auto extents = present_shape(op, g, node.type().shape, where);
      const auto bytes = size_t(storage_bytes(node.type().dtype, elements(extents)));
      if (g.store && g.store->has_state(input.name)) {
        auto memory = g.store->state(input.name, int64_t(bytes));
        if (!memory) throw_failure(op, memory.failure(), where);
        return {{*memory, bytes}, std::move(extents), unseen(g.store->device())};
      }
      auto zeros = std::make_shared<std::vector<std::byte>>(bytes);
      return {*zeros, std::move(extents), nullptr, zeros};
    }
    if (data != g.data.end() && !data->second.gone.empty())
      throw Error(op, fmt::format("{} {}", described(g, id), data->second.gone), where);
    throw Error(op, fmt::format("{} has no value yet: it was never set", described(g, id)), where);
  }
  if (g.kept.contains(id))
    throw Error(op,
                fmt::format("the value of {} is not there yet: execute the graph first", described(g, id)),
                where);
  throw Error(
      op,
      fmt::format("the value of {} was not kept: call keep() on the tensor before execute", described(g, id)),
      where);
}

ReadableValue readable_value(std::string_view op, const Tensor& tensor, Where where) {
  ReadableValue value = value_in_place(op, tensor, where);
  if (!value.device) return value;
  auto copy = std::make_shared<std::vector<std::byte>>(value.bytes.size());
  if (auto done = value.device->copy_out(*copy, value.bytes.data()); !done)
    throw Error(op, done.error(), where);
  return {*copy, std::move(value.extents), nullptr, copy};
}

void Tensor::read(void* destination, DType as, Where where) const {
  auto value = readable_value("data", *this, where);
  convert_elements(as, static_cast<std::byte*>(destination), dtype(), value.bytes.data(),
                   elements(value.extents));
}

std::span<const std::byte> Tensor::bytes(Where where) const {
  const ReadableValue value = readable_value("bytes", *this, where);
  if (value.owner) graph_->host_copies[node_id(*this)] = value.owner;
  return value.bytes;
}

} // namespace luminal
