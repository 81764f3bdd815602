// tensor/graph_devices.cpp -- devices by name, the default one, where a graph's values lie, and
// transfers.
#include "base/settings.h"
#include "device/known_devices.h"
#include "luminal/device.h"
#include "tensor/graph_run.h"
#include <fmt/format.h>
#include <mutex>

namespace luminal {
namespace {

struct Default {
  std::mutex mutex;
  std::string name; // empty: as the environment says
};
Default& the_default() {
  static Default value;
  return value;
}

const device::KnownDevice& known(const std::string& name) {
  return *device::find_known_device(name); // a Device has a name that is known
}

const Node& node_of(const GraphState& graph, NodeId id) { return graph.builder[id]; }

/// From now on each value's device is followed.
Placement& follow(GraphState& graph) {
  if (!graph.placement) graph.placement.emplace();
  graph.placement->extend(graph.end_node, [&](NodeId id) -> const Node& { return node_of(graph, id); });
  return *graph.placement;
}

} // namespace

Device::Device(const std::string& name, Where where) : name_(name) {
  if (!device::find_known_device(name)) throw Error("device", device::no_such_device(name), where);
}
std::string Device::description() const { return known(name_).description; }
int64_t Device::memory_bytes() const { return known(name_).memory_bytes; }
bool Device::executes() const { return known(name_).executes; }

std::vector<Device> devices() {
  std::vector<Device> list;
  for (const device::KnownDevice& device : device::known_devices()) list.emplace_back(device.name);
  return list;
}

Device default_device() {
  {
    std::lock_guard lock(the_default().mutex);
    if (!the_default().name.empty()) return Device(the_default().name);
  }
  const std::string name = setting_text("LUMINAL_DEVICE");
  if (!device::find_known_device(name))
    throw Error(fmt::format("LUMINAL_DEVICE={}: {}", name, device::no_such_device(name)));
  return Device(name);
}
void set_default_device(const std::optional<Device>& device) {
  std::lock_guard lock(the_default().mutex);
  the_default().name = device ? device->name() : "";
}

void check_placement(std::string_view op, GraphState& graph, NodeId node, Where where) {
  const Placement& placement = follow(graph);
  if (placement.of[node] != Placement::nowhere) return;
  throw Error(op,
              placement.conflict(node, [&](NodeId id) -> const Node& { return node_of(graph, id); }) +
                  ", Tensor::to does it",
              where);
}

const std::string& device_of(GraphState& graph, NodeId node) {
  if (!graph.placement) return graph.device_name;
  const Placement& placement = follow(graph);
  const int place = placement.of[node];
  return place < 0 ? graph.device_name : placement.devices[size_t(place)];
}

Device Graph::device(Where where) const { return Device(state("device", where)->device_name); }
Device Tensor::device(Where where) const {
  graph_of("device", {this}, where);
  return Device(device_of(*graph_, node_id(*this)));
}

Tensor Tensor::to(const Device& device, Where where) const {
  const auto graph = graph_of("to", {this}, where);
  if (graph->outer)
    throw Error("to", "inside of a loop or function nothing moves: move the value before or after it", where);
  if (device_of(*graph, node_id(*this)) == device.name()) return *this;
  follow(*graph);
  return build("to", graph, where, [&](FunctionBuilder& b) {
    return b.add(FenceAttr{device.name()}, {node_id(*this)}, {}, where);
  });
}

DeviceScope::DeviceScope(Graph& graph, const Device& device, Where where)
    : graph_(graph.state("DeviceScope", where)) {
  if (graph_->outer)
    throw Error("DeviceScope",
                "inside of a loop or function nothing is put elsewhere: tensors come in from outside", where);
  graph_->scopes.push_back(device.name());
  if (device.name() != graph_->device_name) follow(*graph_);
}
DeviceScope::~DeviceScope() { graph_->scopes.pop_back(); }

} // namespace luminal
