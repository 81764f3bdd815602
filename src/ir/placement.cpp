// ir/placement.cpp -- where values are made.
#include "ir/placement.h"
#include <algorithm>
#include <fmt/format.h>

namespace luminal {
namespace {

int place_of(std::vector<std::string>& devices, const std::string& name) {
  if (name.empty()) return 0;
  const auto known = std::find(devices.begin(), devices.end(), name);
  if (known != devices.end()) return int(known - devices.begin());
  devices.push_back(name);
  return int(devices.size()) - 1;
}

/// What a fence waits for may lie elsewhere.
std::span<const NodeId> operands(const Node& node) {
  const std::span<const NodeId> all(node.inputs);
  return node.kind == NodeKind::fence ? all.first(std::min<size_t>(1, all.size())) : all;
}

} // namespace

void Placement::extend(NodeId end, const std::function<const Node&(NodeId)>& nodes) {
  for (NodeId id = of.end_id(); id < end; ++id) {
    const Node& node = nodes(id);
    int place = anywhere;
    for (NodeId operand : operands(node)) {
      const int from = of[operand];
      if (from == anywhere || place == nowhere) continue;
      place = place == anywhere || place == from ? from : nowhere;
    }
    if (const auto* input = std::get_if<InputAttr>(&node.attr)) place = place_of(devices, input->device);
    if (const auto* fence = std::get_if<FenceAttr>(&node.attr);
        fence && !fence->device.empty() && place != nowhere)
      place = place_of(devices, fence->device);
    of.push_back(place);
  }
}

std::string Placement::conflict(NodeId node, const std::function<const Node&(NodeId)>& nodes) const {
  while (true) {
    const auto list = operands(nodes(node));
    const auto origin =
        std::find_if(list.begin(), list.end(), [&](NodeId operand) { return of[operand] == nowhere; });
    if (origin == list.end()) break;
    node = *origin;
  }
  std::vector<int> places;
  for (NodeId operand : operands(nodes(node)))
    if (of[operand] >= 0 && std::find(places.begin(), places.end(), of[operand]) == places.end())
      places.push_back(of[operand]);
  std::string text;
  for (int place : places)
    text += fmt::format("{}{}", text.empty() ? "" : " and on ", devices[size_t(place)]);
  return fmt::format("the operands lie on {}: nothing moves by itself", text);
}

std::vector<std::string> devices_of(const Module& module, const std::string& own) {
  Placement placement;
  const Function& entry = module.entry();
  placement.extend(entry.nodes.end_id(), [&](NodeId id) -> const Node& { return entry[id]; });
  IdVector<NodeId, bool> needed(entry.nodes.size(), false);
  for (const FunctionResult& result : entry.results) needed[result.value] = true;
  for (NodeId id : entry.nodes.ids_down())
    if (needed[id])
      for (NodeId input : entry[id].inputs) needed[input] = true;
  std::vector<std::string> names;
  for (size_t i = 0; i < placement.devices.size(); i++)
    for (NodeId id : needed.ids())
      if (needed[id] && placement.of[id] == int(i)) {
        names.push_back(placement.devices[i]);
        break;
      }
  if (names.empty()) names.push_back(own);
  return names;
}

} // namespace luminal
