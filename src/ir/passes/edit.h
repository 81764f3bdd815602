// ir/passes/edit.h -- rewriting a function node by node: what all passes are written with.
//
// A rewrite replaces a value by one of exactly the same type, so users never need new types. Nodes
// are moved, not copied, and equal ones are merged as they are put down: a walk over a function
// without changes costs about what copying it does.
#pragma once
#include "ir/term.h"
#include "luminal/pass.h"
#include <optional>
#include <set>

namespace luminal::passes {

/// Equal nodes have equal hashes, within this process.
uint64_t quick_hash(const Node& node);

/// A function in the making. Nodes are put down after their inputs; equal ones (host nodes
/// excepted) are one.
class Rebuild {
public:
  explicit Rebuild(Function& function, const Module* module = nullptr);
  const Node& operator[](NodeId id) const { return nodes_[id]; }
  const TensorType& type(NodeId id) const { return nodes_[id].type(); }
  const Module* module() const { return module_; }
  NodeId end_id() const { return nodes_.end_id(); }
  /// `node` has its types.
  NodeId put(Node node);
  std::optional<NodeId> find(const Node& node) const;
  /// Of a walk: the node at hand in the function as it was, and what stands for an earlier one.
  NodeId current() const { return current_; }
  /// Is it a result, or handed on as one by a fence? Then it lies as it is said to.
  bool current_is_result() const { return old_results_.contains(current_); }
  NodeId place(NodeId old) const { return place_[old]; }
  /// One node or result of the function as it was reads the value. (Of values that a rule has put
  /// down it is not known, and false.)
  bool used_once(NodeId id) const { return uses_.has(id) && uses_[id] == 1; }

  NodeId map(Op op, std::vector<NodeId> inputs, TensorType type);
  NodeId constant(TensorType type, std::vector<std::byte> data);
  NodeId scalar(DType type, double value);
  /// A scalar spread over a shape: itself where the shape is empty.
  NodeId splat(NodeId scalar, const Shape& shape);
  NodeId filled(const TensorType& type, double value) { return splat(scalar(type.dtype, value), type.shape); }
  /// A node of any kind with inferred types; nothing where it is ill-formed.
  std::optional<NodeId> add(Attr attr, std::vector<NodeId> inputs, std::vector<std::string> axis_names = {},
                            std::string origin = {});

  int64_t changes = 0;

  /// visit(rebuild, node) -> the value that stands for the node, whose inputs are new already;
  /// node.name is kept back.
  template <class Visit> static int64_t walk(Function& function, const Module* module, Visit&& visit) {
    Rebuild r(function, module);
    for (NodeId id : r.old_.ids()) {
      if (r.old_[id].kind == NodeKind::input) continue; // put down first
      r.step(id, visit);
    }
    r.finish();
    return r.changes;
  }

private:
  template <class Visit> void step(NodeId id, Visit&& visit) {
    current_ = id;
    Node node = std::move(old_[id]);
    for (NodeId& input : node.inputs) input = place_[input];
    std::string name = std::move(node.name);
    node.name.clear();
    NodeId result = visit(*this, std::move(node));
    place_[id] = result;
    if (uses_.size() < nodes_.size()) uses_.resize(nodes_.size());
    uses_[result] += old_uses_[id];
    if (nodes_[result].name.empty()) nodes_[result].name = std::move(name);
  }
  void finish();
  void grow();

  Function& function_;
  const Module* module_;
  IdVector<NodeId, Node> old_, nodes_;
  IdVector<NodeId, NodeId> place_;
  IdVector<NodeId, uint32_t> old_uses_, uses_;
  std::set<NodeId> old_results_;
  std::vector<std::pair<uint64_t, NodeId>> table_; // open addressing; none: free
  size_t used_ = 0;
  NodeId current_;
};

/// Removes what no result needs; parameters stay, and stand first. Returns how many nodes went.
int64_t sweep(Function& function);

// ---- looking at values ----
/// The scalar constant behind a value that is the same number everywhere.
std::optional<NodeId> uniform(const Rebuild& r, NodeId id);
struct Number {
  DType type = DType::f32;
  double real = 0;             // floats
  int64_t integer = 0;         // integers and bool (u64: the bit pattern)
  bool is(double value) const; // for a float: the same bits, zeros apart, any NaN
};
std::optional<Number> number_of(const Rebuild& r, NodeId id);
Number load_number(const Node& constant, int64_t index);

/// What the axes of a node's expressions become: axis d is replaced by at[d].
class AxisReplacement {
public:
  AxisReplacement(const Shape& space, const std::vector<Expr>& at);
  /// Nothing where the facts of an axis forbid it.
  std::optional<Expr> operator()(Expr e) const;

private:
  std::vector<std::pair<Expr, Expr>> pairs_; // axis, what stands for it
  bool possible_ = true;
};

// ---- rules of one node: the value that stands for it, or nothing ----
/// Does a pass that may go as far as `allowed` apply rules of the class `needed`?
inline bool allows(Numerics allowed, Numerics needed) {
  switch (needed) {
  case Numerics::exact: return true;
  case Numerics::reassoc: return allowed != Numerics::exact;
  case Numerics::range: return allowed == Numerics::range;
  }
  return false;
}

/// Element i of the result is made of element i of each operand.
inline bool is_elementwise(const Node& node) {
  return node.kind == NodeKind::map || node.kind == NodeKind::cast;
}

using Rule = std::optional<NodeId> (*)(Rebuild&, const Node&, Numerics allowed);
std::optional<NodeId> view_rule(Rebuild& r, const Node& node, Numerics);
/// out[i0, i1, ..] = in[i_p(0), i_p(1), ..]: p, where it is a permutation and not the identity. With
/// `singles`, axes of one element, which no index names, take each other's places in order.
std::optional<std::vector<int>> permutation_of(const ViewAttr& view, const Shape& source, bool singles);
/// The value through a view without a condition; maps and casts that nobody else reads are made through it.
std::optional<NodeId> viewed(Rebuild& r, NodeId id, const ViewAttr& view, int depth = 0);
std::optional<NodeId> fold_digits_rule(Rebuild& r, const Node& node);
std::optional<NodeId> fold_order_rule(Rebuild& r, const Node& node);
/// The result of a fold of one component without holes, its axis k at place order[k]; nothing where the
/// facts of an axis forbid it. kept_first: the axes that are summed follow the others (rows of narrow
/// numbers, which become one axis of tiles, follow each other).
std::optional<NodeId> fold_in_order(Rebuild& r, NodeId tuple, const std::vector<int>& order, bool kept_first);
std::optional<NodeId> hole_axes_rule(Rebuild& r, const Node& node);
std::optional<NodeId> known_indices_rule(Rebuild& r, const Node& node);
std::optional<NodeId> scan_order_rule(Rebuild& r, const Node& node);
std::optional<NodeId> scatter_order_rule(Rebuild& r, const Node& node);
/// The result of a scan through a view that goes backwards, where the scan reads backwards too.
std::optional<NodeId> scan_from_end(Rebuild& r, NodeId get, const ViewAttr& view);
std::optional<NodeId> constant_rule(Rebuild& r, const Node& node, int64_t limit);
std::optional<NodeId> arithmetic_rule(Rebuild& r, const Node& node, Numerics allowed);
std::optional<NodeId> reduction_rule(Rebuild& r, const Node& node, Numerics allowed);
/// An equal node with its operands the other way round, where that gives the same bits.
std::optional<NodeId> commuted(const Rebuild& r, const Node& node);

int64_t merge_functions(Module& module);
/// Of loops over the same values, of which one gives all that the other one does, that one is left.
int64_t merge_loops(Module& module);
/// A fold that is a component of another one over the same values is read there.
int64_t merge_folds(Module& module);
int64_t remove_dead(Module& module);

} // namespace luminal::passes
