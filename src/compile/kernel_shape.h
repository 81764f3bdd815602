// compile/kernel_shape.h -- equal kernels (those of a model's layers) are found before their cones
// are built, by the nodes that they consist of.
#pragma once
#include "cone/cone.h"
#include <map>

namespace luminal::compile {

/// A kernel's part of a function without names: equal texts have equal cones, but for the names in
/// them and the nodes that they come from.
struct KernelShape {
  std::vector<uint64_t>
      text; ///< of each node: its attributes, types and inputs by number; of what is stored only the type
  IdVector<NodeId, NodeId> nodes; ///< by number: in the order in which the roots lead to them
};
KernelShape shape_of(const Function& function, std::span<const NodeId> roots, const std::set<NodeId>& stored);

using ShapeId = Id<struct ShapeTag>; ///< equal for kernels that share their code

/// Cones by shape.
class ConeMemo {
public:
  struct Known {
    ShapeId shape;
    kernel::Cone cone;
  };
  /// As build_cone. A scatter updates its base in place where it can, else the base is copied.
  Result<Known> cone(const Function& function, std::span<const NodeId> roots, const std::set<NodeId>& stored,
                     const std::string& name);

private:
  struct Entry {
    IdVector<NodeId, NodeId> nodes;
    kernel::Cone cone;
  };
  std::map<std::vector<uint64_t>, ShapeId> by_text_;
  IdVector<ShapeId, Entry> entries_;
};

} // namespace luminal::compile
