// compile/kernel_shape.cpp -- numbering the nodes of a kernel from its roots, and cones with other
// nodes.
#include "compile/kernel_shape.h"
#include "base/check.h"
#include "base/hash.h"
#include "ir/partition.h"
#include "ir/term_hash.h"
#include <algorithm>
#include <unordered_map>

namespace luminal::compile {
namespace {

uint64_t hash_of(const std::vector<TensorType>& types) {
  Hasher h;
  for (const TensorType& type : types) {
    h.add(type.dtype).add(type.shape.size());
    for (const Expr e : type.shape) h.add(e.hash());
  }
  return h.value64();
}

} // namespace

KernelShape shape_of(const Function& function, std::span<const NodeId> roots,
                     const std::set<NodeId>& stored) {
  KernelShape shape;
  std::unordered_map<NodeId, NodeId> number;
  const auto number_of = [&](NodeId id) {
    const auto [found, fresh] = number.try_emplace(id, shape.nodes.end_id());
    if (fresh) shape.nodes.push_back(id);
    return found->second;
  };
  shape.text.push_back(roots.size());
  for (const NodeId root : roots) shape.text.push_back(number_of(root).index());
  std::vector<NodeId> inputs;
  for (NodeId i : shape.nodes.ids()) { // grows
    const NodeId id = shape.nodes[i];
    const Node& node = function[id];
    const bool constant = node.kind == NodeKind::constant,
               dense = constant && !node.type().shape.empty(); // a number is written into the code
    const bool is_root = std::ranges::find(roots, id) != roots.end();
    shape.text.push_back(hash_of(node.types));
    if (node.kind == NodeKind::input || dense ||
        (stored.contains(id) && !is_root && !constant)) { // read from memory
      shape.text.push_back(uint64_t(node.kind));
      continue;
    }
    inputs.clear();
    for (const NodeId input : node.inputs) inputs.push_back(number_of(input));
    shape.text.push_back(node_hash(node.attr, inputs));
  }
  return shape;
}

Result<ConeMemo::Known> ConeMemo::cone(const Function& function, std::span<const NodeId> roots,
                                       const std::set<NodeId>& stored, const std::string& name) {
  KernelShape shape = shape_of(function, roots, stored);
  if (const auto found = by_text_.find(shape.text); found != by_text_.end()) {
    const Entry& entry = entries_[found->second];
    std::unordered_map<NodeId, NodeId> now;
    for (NodeId i : entry.nodes.ids()) now[entry.nodes[i]] = shape.nodes[i];
    kernel::Cone cone = entry.cone;
    cone.name = name;
    for (kernel::ConeValue& value : cone.values) {
      const auto origin = now.find(value.origin);
      LUMINAL_CHECK(origin != now.end(), "value {} of {} comes from elsewhere", value.name, name);
      value.origin = origin->second;
      if (value.role == kernel::ValueRole::inout) value.base = now.at(value.base);
    }
    return Known{found->second, std::move(cone)};
  }
  // A scatter copies its base where it reads that, or where it is not stored: one value everywhere.
  const bool scatters = function[roots[0]].kind == NodeKind::scatter;
  const NodeId base = scatters ? function[roots[0]].inputs[0] : NodeId();
  const bool fills = scatters && !stored.contains(base) && is_fill(function, base);
  auto cone = kernel::build_cone(function, roots, stored, {.name = name, .in_place = !fills});
  if (!cone && scatters)
    cone = kernel::build_cone(function, roots, stored, {.name = name, .in_place = false});
  if (!cone) return cone.failure();
  const ShapeId number = entries_.add({std::move(shape.nodes), *cone});
  by_text_.emplace(std::move(shape.text), number);
  return Known{number, std::move(*cone)};
}

} // namespace luminal::compile
