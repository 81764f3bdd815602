// rules/function_writer.h -- puts down the nodes of a function that is made from another one.
#pragma once
#include "ir/node_table.h"
#include "rules/classify.h"

namespace luminal::rules {

/// Nodes have their types; equal ones are one. Inputs stand first, in their order.
class FunctionWriter {
public:
  explicit FunctionWriter(const Function& source);

  const Function& source() const { return source_; }
  const Node& operator[](NodeId id) const { return out_.nodes[id]; }
  NodeId put(Node node);
  /// Name and origin of a node of the source, where the made node has none; a name is given once.
  void name(NodeId made, NodeId source, bool with_axes);
  /// What stands for a node of the source: what was said, else the node as it is with what it needs.
  NodeId at(NodeId source);
  void stand_for(NodeId source, NodeId made) { place_[source] = made; }
  /// With the results of the source; what no result needs is gone.
  Function finish();

private:
  NodeId copy(NodeId source);
  const Function& source_;
  Function out_;
  NodeTable table_;
  std::vector<NodeId> place_; // by node of the source
  std::vector<bool> named_;
};

} // namespace luminal::rules
