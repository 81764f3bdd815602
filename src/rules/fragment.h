// rules/fragment.h -- what a region became: nodes over its leaves, to be put in the place of each
// region of the same structure.
#pragma once
#include "ir/id_table.h"
#include "ir/partition.h"
#include "rules/classify.h"
#include <unordered_map>

namespace luminal::rules {

/// Nodes have their types; equal ones are one. Nodes of the function are those of the region that
/// was entered; an instance says what stands for them.
class Fragment {
public:
  explicit Fragment(const Function& function) : function_(&function) {}

  const Node& operator[](NodeId id) const { return nodes_[id]; }
  const IdVector<NodeId, Node>& nodes() const { return nodes_; }
  NodeId put(Node node);
  NodeId leaf(NodeId node);
  /// The made node comes from a node of the function: it gets its name and origin.
  void name(NodeId made, NodeId node, bool with_axes) { names_.push_back({made, node, with_axes}); }
  void root(NodeId node, NodeId made) { roots_.emplace_back(node, made); }
  /// Values that one kernel stores.
  void kernel(std::vector<NodeId> made) { kernels_.push_back(std::move(made)); }
  /// The kernels are all that store something, but for what has to be stored, and for values that are open.
  void decide() { decided_ = true; }
  void open(NodeId made) { open_.push_back(made); }

private:
  friend class FunctionWriter;
  friend struct FragmentText;
  struct Name {
    NodeId made, node;
    bool with_axes;
  };
  const Function* function_;
  IdVector<NodeId, Node> nodes_; // a leaf: of kind input, without attributes
  std::unordered_map<NodeId, NodeId> leaves_;
  std::vector<std::pair<NodeId, NodeId>> leaf_list_; // made, node
  std::vector<Name> names_;
  std::vector<std::pair<NodeId, NodeId>> roots_; // node, made
  std::vector<std::vector<NodeId>> kernels_;
  bool decided_ = false;
  std::vector<NodeId> open_;
  IdTable<NodeId> table_;
};

/// Puts down the nodes of a function that is made from another one.
class FunctionWriter {
public:
  explicit FunctionWriter(const Function& source);
  /// What stands for each node of the source in the place of an instance; empty: the region itself.
  /// Returns where the nodes of the fragment stand now.
  IdVector<NodeId, NodeId> place(const Fragment& fragment, const IdVector<NodeId, NodeId>& instance = {});
  /// One result more.
  void result(std::string name, NodeId placed) { out_.results.push_back({std::move(name), placed, {}, {}}); }
  /// What stands for a node of the source: what was placed, else the node as it is with what it needs.
  NodeId at(NodeId source);
  /// With the results of the source; what no result needs is gone. `partition`: the kernels of all
  /// fragments, those whose values are needed. `decided`: by node, whether these kernels decide.
  Function finish(Partition* partition = nullptr, IdVector<NodeId, bool>* decided = nullptr);

private:
  NodeId put(Node node);
  NodeId copy(NodeId source);
  void name(NodeId made, NodeId source, bool with_axes);
  const Function& source_;
  Function out_;
  IdTable<NodeId> table_;
  IdVector<NodeId, NodeId> place_; // by node of the source
  IdVector<NodeId, bool> named_;   // by node of the source: a name is given once
  std::vector<std::vector<NodeId>> kernels_;
  IdVector<NodeId, bool> decided_; // by node
};

} // namespace luminal::rules
