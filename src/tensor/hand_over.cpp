// tensor/hand_over.cpp -- values from tensor to tensor, order, what depends on what.
#include "luminal/lifetime.h"
#include "tensor/graph_run.h"
#include <algorithm>
#include <fmt/format.h>
#include <set>

namespace luminal {
namespace {

const InputAttr* input_of(const Tensor& t) {
  return std::get_if<InputAttr>(&t.graph()->builder[node_id(t)].attr);
}

std::string text_of(const Tensor& t) { return described(*t.graph(), node_id(t)); }

bool is_result(const Tensor& t) {
  const GraphState& g = *t.graph();
  return g.readable.contains(node_id(t)) && g.context() && g.ran && !g.gone.contains(node_id(t)) &&
         !input_of(t);
}

void check_types(std::string_view op, const Tensor& from, const Tensor& to, Where where) {
  bool fits = from.dtype() == to.dtype() && from.rank() == to.rank();
  if (fits && !same_shape(type_of(from).shape, type_of(to).shape)) {
    const auto here = present_shape(op, *from.graph(), type_of(from).shape, where),
               there = present_shape(op, *to.graph(), type_of(to).shape, where);
    fits = here == there;
  }
  if (!fits)
    throw Error(op, fmt::format("{} cannot become the value of {}", text_of(from), text_of(to)), where);
}

void check_target(std::string_view op, const Tensor& to, Where where) {
  graph_of(op, {&to}, where);
  if (!input_of(to))
    throw Error(
        op,
        fmt::format("{} is computed: only a tensor made by tensor, weight or state can be given a value",
                    text_of(to)),
        where);
}

InputData of_buffer(GraphState& g, runtime::DeviceBuffer buffer, std::vector<int64_t> extents, DType dtype) {
  InputData data;
  data.buffer = std::make_shared<OwnedBuffer>(
      OwnedBuffer{shared_device(g.device_name, g.options.threads), std::move(buffer)});
  data.bytes = {data.buffer->buffer.data(), size_t(storage_bytes(dtype, elements(extents)))};
  data.owner = data.buffer;
  data.extents = std::move(extents);
  data.shaped = data.given = data.fresh = true;
  return data;
}

InputData of_copy(std::string_view op, GraphState& g, const ReadableValue& value, DType dtype, Where where) {
  if (value.device) { // it stays there
    auto copy = runtime::DeviceBuffer::allocate(*value.device, int64_t(value.bytes.size()), false);
    if (!copy) throw_failure(op, copy.failure(), where);
    auto done = value.device->copy(copy->data(), value.bytes.data(), int64_t(value.bytes.size()));
    if (!done) throw Error(op, done.error(), where);
    return of_buffer(g, std::move(*copy), value.extents, dtype);
  }
  InputData data;
  data.copy = std::make_shared<std::vector<std::byte>>(value.bytes.begin(), value.bytes.end());
  data.bytes = *data.copy;
  data.owner = data.copy;
  data.extents = value.extents;
  data.shaped = data.given = data.fresh = true;
  return data;
}

/// The value, taken from where it lies. `replacement` takes the place of a result's memory.
InputData take(std::string_view op, const Tensor& from, runtime::DeviceBuffer replacement, Where where) {
  GraphState& g = *from.graph();
  const ReadableValue value = value_in_place(op, from, where);
  if (is_result(from)) {
    const std::string& label = g.readable.at(node_id(from));
    InputData data;
    if (g.context()->owns_result(label)) {
      auto buffer = g.context()->exchange_result(label, std::move(replacement));
      if (!buffer) throw_failure(op, buffer.failure(), where);
      data = of_buffer(g, std::move(*buffer), value.extents, from.dtype());
    } else
      data = of_copy(op, g, value, from.dtype(), where);
    g.gone[node_id(from)] = fmt::format("was handed over ({}): execute the graph again", place_text(where));
    return data;
  }
  const InputAttr& input = *input_of(from);
  InputData& own = g.data[input.name];
  if (input.role == Role::state && !own.fresh && g.store) {
    if (g.store->has_state(input.name) && g.store->state_bytes(input.name) > 0)
      return of_buffer(g, g.store->exchange_state(input.name, {}), value.extents, from.dtype());
    return of_copy(op, g, value, from.dtype(), where);
  }
  if (input.role == Role::state && !own.given) return of_copy(op, g, value, from.dtype(), where);
  InputData data = std::exchange(own, {});
  data.extents = value.extents;
  data.shaped = data.fresh = true;
  if (input.role != Role::state) own.gone = fmt::format("was handed over ({})", place_text(where));
  return data;
}

/// The memory that `to` holds now, where it can serve as a result's.
runtime::DeviceBuffer spare_of(const Tensor& to) {
  GraphState& g = *to.graph();
  const InputAttr& input = *input_of(to);
  InputData& data = g.data[input.name];
  if (input.role == Role::state && !data.fresh && g.store && g.store->has_state(input.name))
    return g.store->exchange_state(input.name, {});
  data.owner = nullptr;
  if (input.role != Role::weight && data.buffer && data.buffer.use_count() == 1)
    return std::move(data.buffer->buffer);
  return {};
}

/// Memory of another device becomes memory of the host, which both can copy.
void bring_within_reach(std::string_view op, const GraphState& g, InputData& data, Where where) {
  if (!data.buffer || data.buffer->device->limits().host_visible) return;
  if (shared_device(g.device_name, g.options.threads) == data.buffer->device) return;
  data.copy = std::make_shared<std::vector<std::byte>>(data.bytes.size());
  if (auto done = data.buffer->device->copy_out(*data.copy, data.bytes.data()); !done)
    throw Error(op, done.error(), where);
  data.bytes = *data.copy;
  data.owner = data.copy;
  data.buffer = nullptr;
}

void give(std::string_view op, const Tensor& to, InputData data, Where where) {
  GraphState& g = *to.graph();
  const InputAttr& input = *input_of(to);
  bring_within_reach(op, g, data, where);
  g.weights_set_again |= input.role == Role::weight && g.data[input.name].given;
  if (input.role == Role::state && g.store && g.executable() && data.buffer) {
    data.owner = nullptr;
    const runtime::SlotId slot = g.executable()->plan().find_slot(input.name, runtime::SlotKind::state);
    if (slot && data.buffer.use_count() == 1 &&
        data.buffer->buffer.bytes() >= g.executable()->plan().slots[slot].max_bytes &&
        data.buffer->buffer.serves(g.store->device())) {
      g.store->exchange_state(input.name, std::move(data.buffer->buffer));
      g.data.erase(input.name);
      return;
    }
    data.owner = data.buffer;
  }
  g.data[input.name] = std::move(data);
}

} // namespace

void set_dyn(std::span<const Tensor> tensors, std::span<const HostValues> values, Where where) {
  if (tensors.size() != values.size())
    throw Error("set_dyn", fmt::format("{} values for {} tensors", values.size(), tensors.size()), where);
  for (size_t i = 0; i < tensors.size(); i++) Tensor(tensors[i]).set_dyn(values[i], where);
}

Tensor after(const Tensor& x, const std::vector<Tensor>& others, Where where) {
  auto graph = graph_of("after", {&x}, where);
  std::vector<NodeId> inputs{node_id(x)};
  for (const Tensor& other : others) {
    graph_of("after", {&x, &other}, where);
    inputs.push_back(node_id(other));
  }
  return build("after", graph, where,
               [&](FunctionBuilder& b) { return b.add(FenceAttr{}, inputs, {}, where); });
}

void transfer(const std::vector<Tensor>& from, const std::vector<Tensor>& to, Where where) {
  if (from.size() != to.size())
    throw Error("transfer", fmt::format("{} tensors to {}", from.size(), to.size()), where);
  std::set<std::pair<const GraphState*, NodeId>> sources, targets;
  for (size_t i = 0; i < from.size(); i++) {
    graph_of("transfer", {&from[i]}, where);
    check_target("transfer", to[i], where);
    check_types("transfer", from[i], to[i], where);
    (void)value_in_place("transfer", from[i], where); // all or nothing
    if (!sources.emplace(from[i].graph().get(), node_id(from[i])).second)
      throw Error("transfer", text_of(from[i]) + " is named twice", where);
    if (!targets.emplace(to[i].graph().get(), node_id(to[i])).second)
      throw Error("transfer", text_of(to[i]) + " is named twice", where);
  }
  std::vector<InputData> values;
  for (size_t i = 0; i < from.size(); i++) {
    const bool free = !sources.contains({to[i].graph().get(), node_id(to[i])});
    values.push_back(take("transfer", from[i],
                          free && is_result(from[i]) ? spare_of(to[i]) : runtime::DeviceBuffer(), where));
  }
  for (size_t i = 0; i < from.size(); i++) give("transfer", to[i], std::move(values[i]), where);
}
void transfer(const Tensor& from, const Tensor& to, Where where) {
  graph_of("transfer", {&from}, where);
  if (to.defined() && from.graph() == to.graph() && node_id(from) == node_id(to)) return;
  transfer(std::vector{from}, std::vector{to}, where);
}

void swap_values(const Tensor& a, const Tensor& b, Where where) {
  check_target("swap_values", a, where);
  check_target("swap_values", b, where);
  check_types("swap_values", a, b, where);
  if (a.graph() == b.graph() && node_id(a) == node_id(b)) return;
  (void)value_in_place("swap_values", a, where);
  (void)value_in_place("swap_values", b, where);
  InputData first = take("swap_values", a, {}, where), second = take("swap_values", b, {}, where);
  give("swap_values", a, std::move(second), where);
  give("swap_values", b, std::move(first), where);
}

void delete_inputs(const std::vector<Tensor>& tensors, Where where) {
  for (const Tensor& tensor : tensors) {
    GraphState& g = *graph_of("delete_inputs", {&tensor}, where);
    IdVector<NodeId, bool> above(node_id(tensor).index() + 1, false);
    above[node_id(tensor)] = true;
    for (NodeId id : above.ids_down()) {
      if (!above[id]) continue;
      const Node& node = g.builder[id];
      for (NodeId input : node.inputs) above[input] = true;
      const auto* input = std::get_if<InputAttr>(&node.attr);
      if (!input || input->role == Role::state) continue;
      InputData& data = g.data[input->name];
      data = {};
      data.gone = fmt::format("was deleted (delete_inputs, {})", place_text(where));
    }
  }
}

std::vector<Tensor> downstream(const std::vector<Tensor>& tensors, Where where) {
  std::vector<Tensor> found;
  if (tensors.empty()) return found;
  std::shared_ptr<GraphState> graph;
  std::set<NodeId> reached;
  for (const Tensor& tensor : tensors) {
    graph = graph_of("downstream", {&tensors[0], &tensor}, where);
    reached.insert(node_id(tensor));
  }
  for (NodeId id = *reached.begin() + 1; id < graph->end_node; ++id) {
    const Node& node = graph->builder[id];
    if (!std::any_of(node.inputs.begin(), node.inputs.end(),
                     [&](NodeId input) { return reached.contains(input); }))
      continue;
    if (reached.insert(id).second && !node.is_tuple()) found.push_back(wrap(graph, id));
  }
  return found;
}

} // namespace luminal
