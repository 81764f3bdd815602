// train/reverse.h -- reverse mode over terms.
//
// Where the pass stands. A Graph keeps one function in the making, node by node: each movement of
// the API is one view with one quasi-affine map, nothing is composed before a compile. Reverse mode
// therefore appends the terms of gradients to that same function, next to the values that they read.
// Handles of the user stay valid, a gradient is a tensor like any other (it has gradients itself),
// and the passes of a compile see forward and backward together: they compose views, merge equal
// values and fuse across both. Functions behind call, loop and cond get their own gradient
// functions in the module, each made once.
//
// Every rule is linear in the gradient that arrives, so that the derivative of a gradient along it
// is a Jacobian-vector product. No rule multiplies a gradient with the value of a branch that was
// not taken: masks are selects, 0 * inf never appears.
#pragma once
#include "ir/scalar.h"
#include "ir/term.h"
#include "train/recompute.h"
#include <map>
#include <optional>
#include <set>

namespace luminal::train {

using Gradient = std::optional<NodeId>; // nothing: zero

/// Terms that gradients are made of: a builder, and the module that gets their functions.
class Terms {
public:
  Terms(FunctionBuilder& builder, Module& functions) : b(builder), module(functions) {}
  const Node& operator[](NodeId id) const { return b[id]; }
  const TensorType& type(NodeId id) const { return b[id].type(); }
  const Shape& shape(NodeId id) const { return type(id).shape; }
  DType dtype(NodeId id) const { return type(id).dtype; }

  NodeId filled(const TensorType& type, double value);
  NodeId zeros(const TensorType& type) { return filled(type, 0); }
  NodeId add(NodeId a, NodeId b);
  Gradient add(Gradient a, Gradient b);
  NodeId mul(NodeId a, NodeId b);
  NodeId select(NodeId condition, NodeId a, NodeId b);
  /// x where the condition holds, else 0.
  NodeId masked(NodeId condition, NodeId x) { return select(condition, x, zeros(type(x))); }
  /// Elements of x, read at axes of a wider shape: axis d of x is axis axes[d] of the result.
  NodeId expand(NodeId x, const Shape& shape, const std::vector<int>& axes);
  /// Sum over axes; floats narrower than f32 are summed in f32.
  NodeId sum(NodeId x, std::vector<int> axes);
  /// One-component scan over an axis.
  NodeId scan(Op op, NodeId x, int axis, bool exclusive, bool reverse);
  NodeId flip(NodeId x, int axis);
  /// Equal elements, NaN equal to NaN.
  NodeId same(NodeId a, NodeId b);
  /// The scalar program over these values, all of one shape.
  NodeId apply(const Scalar& program, const std::vector<NodeId>& leaves, DType result);
  /// gradient * program; nothing where the program is 0 everywhere.
  Gradient times(NodeId gradient, const Scalar& program, const std::vector<NodeId>& leaves);
  /// Copies the body of a function; `inputs` stand for its parameters.
  std::vector<NodeId> inlined(const Function& function, const std::vector<NodeId>& inputs);
  std::vector<NodeId> results(NodeId tuple);

  FunctionBuilder& b;
  Module& module;
};

/// One pass over a function in the making.
class Reverse {
public:
  /// `segments` above 1: values of all but the last of so many parts are computed again.
  Reverse(FunctionBuilder& builder, Module& module, int64_t segments = 1)
      : t_(builder, module), segments_(segments) {}
  struct Seed {
    NodeId value, gradient; // of the same type
  };
  /// Gradients of the sum over all elements of value * gradient of the seeds, one for each target;
  /// nothing where no seed depends on it.
  std::vector<Gradient> run(const std::vector<Seed>& seeds, const std::vector<NodeId>& targets);
  /// After a run: the terms before `end` (and behind the ones before) are gradients of this value.
  struct Source {
    NodeId end, value;
  };
  const std::vector<Source>& sources() const { return sources_; }
  /// Some seed depends on the target by a path of differentiable operations.
  static bool differentiable(DType type) { return is_float(type); }

private:
  using Results = std::vector<Gradient>; // of a node, one for each result
  bool active(NodeId id) const;
  bool target(NodeId id) const;
  void mark(const std::vector<NodeId>& targets, NodeId end);
  void give(NodeId value, Gradient gradient); // adds to what the value has
  void visit(NodeId id, const Results& g);

  void map(NodeId id, const MapAttr& attr, NodeId g);
  void user_map(NodeId id, const MapAttr& attr, NodeId g);
  void cast(NodeId id, NodeId g);
  void scatter(NodeId id, const ScatterAttr& attr, NodeId g);
  void scatter_set(NodeId id, const ScatterAttr& attr, NodeId g);
  void scatter_extreme(NodeId id, const ScatterAttr& attr, NodeId g);
  void scatter_product(NodeId id, const ScatterAttr& attr, NodeId g);
  void fold(NodeId id, const FoldAttr& attr, const Results& g);
  void fold_plain(NodeId id, const FoldAttr& attr, int component, NodeId g);
  void fold_tuple(NodeId id, const FoldAttr& attr, const Results& g);
  /// Of a sum of products, one of which is read through windows; false: it is not one.
  bool windows(const FoldAttr& attr, NodeId body, NodeId g);
  void scan(NodeId id, const ScanAttr& attr, const Results& g);
  void scan_plain(NodeId id, const ScanAttr& attr, int component, NodeId g);
  void scan_tuple(NodeId id, const ScanAttr& attr, const Results& g);
  void sort(NodeId id, const SortAttr& attr, const Results& g);
  void collective(NodeId id, const CollectiveAttr& attr, NodeId g);
  void call(NodeId id, const CallAttr& attr, const Results& g);
  void cond(NodeId id, const CondAttr& attr, const Results& g);
  void loop(NodeId id, const LoopAttr& attr, const Results& g);

  Terms t_;
  int64_t segments_;
  std::optional<Recomputation> again_;
  IdVector<NodeId, bool> active_;
  std::vector<NodeId> seeds_;
  std::set<NodeId> targets_;
  std::vector<Source> sources_;
  NodeId latest_;                                    // of the terms that were given as gradients
  std::map<std::pair<NodeId, int>, NodeId> pending_; // node and result -> its gradient so far
};

/// The gradient of a view with respect to x: sum over all i with map(i) = j of g[i].
NodeId view_adjoint(Terms& t, const ViewAttr& view, const std::vector<NodeId>& inputs, NodeId g);
/// out[i] = values at the place where a scatter puts i: what a scatter reads backward.
NodeId read_places(Terms& t, const ScatterAttr& scatter, const std::vector<NodeId>& inputs, NodeId from);

/// A fold or scan over one axis with every body of the same shape: see combine.cpp.
struct States {
  Monoid monoid;
  std::vector<NodeId> at; // one for each component
};
std::vector<NodeId> combined(Terms& t, const Monoid& monoid, const std::vector<NodeId>& a,
                             const std::vector<NodeId>& b);
/// Gradients of combine(a, b) with respect to a and to b.
struct CombineGradients {
  std::vector<Gradient> a, b;
};
CombineGradients combine_gradients(Terms& t, const Monoid& monoid, const std::vector<NodeId>& a,
                                   const std::vector<NodeId>& b, std::vector<Gradient> g);

/// d program / d leaf; nothing where it is 0. Types of the leaves do not matter.
std::optional<Scalar> differentiate(const Scalar& program, int leaf);

/// The name of the function that computes gradients of this one: (inputs, gradients of the float
/// results) -> gradients of the float inputs. It is made where the module has none.
std::string gradient_function(Module& module, const std::string& function);
inline constexpr std::string_view gradient_suffix = "_gradient";
/// Calls of functions whose name ends so are computed again for their gradient.
inline constexpr std::string_view recomputed_suffix = "_recomputed";

/// Positions of the float types.
std::vector<int> float_positions(const std::vector<TensorType>& types);

} // namespace luminal::train
