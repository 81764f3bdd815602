// models/onnx/exporter.h -- from terms to the nodes of an ONNX file.
//
// A value is held in a type that runtimes compute with: bf16 and f8 as f32 that is rounded to them,
// integers of less than 32 bits as i32 that wraps to them, u32 and the bits of u64 as i64. What leaves the
// graph has its own type. A broadcast is held as it was before, with extents of 1: ONNX's operators
// stretch them, and an Expand stands only where one does not.
#pragma once
#include "ir/term.h"
#include "luminal/graph.h"
#include "models/onnx/export_graph.h"
#include <functional>
#include <optional>
#include <source_location>
#include <span>
#include <utility>

namespace luminal::onnx_export {

/// A value in the file.
struct Held {
  std::string name;
  DType dtype = DType::f32;
  Shape shape; ///< from the last axis on; axes that are missing are 1
};

/// The axes of an index: extents, and which axes of a term's space they are.
struct IndexSpace {
  Shape extents;
  std::vector<int> axes; ///< ascending
};

/// What fills a hole of an index: integers (i64) over these axes of the term's space.
struct HoleValue {
  Held value;
  std::vector<int> axes;
};
using HoleValues = std::map<std::string, HoleValue>; ///< by the hole's symbol

/// A value whose axes are those of a fold's space: each axis of `base` is a product of them, or of none (its
/// extent is 1).
struct Factor {
  Held base;
  std::vector<std::vector<int>> axes;
};

class Exporter {
public:
  using Weight = std::function<std::span<const std::byte>(const std::string& name)>;
  Exporter(const Module& module, Weight weight, std::source_location where);
  ModelData run();

private:
  struct Frame {
    const Function& function;
    IdVector<NodeId, std::vector<Held>> results; // of each node
    const Held& operator[](NodeId id) const { return results[id].at(0); }
  };

  // exporter.cpp
  void inputs_and_weights();
  /// Emits all nodes; the frame's parameters have their values.
  void emit(Frame& frame);
  std::vector<Held> emit(Frame& frame, NodeId id);
  std::vector<Held> call(const std::string& function, const std::vector<Held>& arguments);
  std::vector<Held> loop(const Frame& frame, const Node& node);
  std::vector<Held> cond(const Frame& frame, const Node& node);
  Held constant(const ConstantAttr& attr);
  ValueData declare(const std::string& name, DType dtype, const Shape& shape, bool held) const;
  [[noreturn]] void refuse(const Node& node, std::string_view why) const;

  /// What the names of these values stand for.
  void note(const Held& x) { types_.insert_or_assign(x.name, ValueType{x.dtype, x.shape}); }

  // export_values.cpp
  Held number(DType dtype, double value);
  Held integer_of(DType dtype, int64_t value); // u64: the bit pattern
  Held apply(const std::string& op, const std::vector<Held>& x, std::optional<DType> type = {},
             std::vector<Attribute> attributes = {});
  Held with(const Held& x, std::string name) const { return {std::move(name), x.dtype, x.shape}; }
  std::string cast_name(const std::string& name, DType to);      // to the type as it is
  Held reinterpret_u64(const Held& x);                           // a value of ONNX's UINT64; for comparisons
  Held enter(const std::string& name, DType dtype, Shape shape); // from the type itself
  std::string leave(const Held& x);                              // to the type itself
  Held rounded(Held x);                                          // to its type
  Held select(const Held& condition, const Held& a, const Held& b);
  Held op(Op op, std::vector<Held> x);
  Held float_op(Op op, const std::vector<Held>& x);
  /// A sum, difference or product with one number for each channel, where ONNX has an operator for that or
  /// for what comes of it: Conv with a bias, BatchNormalization.
  std::optional<Held> of_channels(Op op, const std::vector<Held>& x);
  Held integer_op(Op op, const std::vector<Held>& x);
  Held bool_op(Op op, const std::vector<Held>& x);
  Held compare(Op op, const Held& a, const Held& b);
  Held shift(Op op, const Held& a, const Held& b);
  Held scalar(const Scalar& program, const std::vector<Held>& leaves, DType result);
  Held cast(const Held& x, DType to);
  Held float_to_integer(const Held& x, DType to);
  Held bitcast(const Frame& frame, const Node& node);

  // export_index.cpp
  Held dimension(Expr symbol); // i64, no axis
  /// i64 or bool over the axes of the space; holes are given.
  Held index(Expr e, const IndexSpace& space, const HoleValues& holes = {});
  Held index(Expr e) { return index(e, {}); }
  /// The same as bool.
  Held condition(Expr e, const IndexSpace& space, const HoleValues& holes = {}) {
    const Held x = index(e, space, holes);
    return x.dtype == DType::boolean ? x : compare(Op::ne, x, number(DType::i64, 0));
  }
  std::string shape_tensor(const Shape& shape); // i64, one axis
  Held ranked(const Held& x, size_t rank);      // leading extents of 1
  Held full(const Held& x, const Shape& shape); // every extent as it is
  Held reshape(const Held& x, const Shape& shape);
  Held reshaped(const Held& result, const Held& from); // remembers it: a reshape of a reshape is one
  /// A constant of one element with this shape.
  std::optional<Held> number_as(const Held& x, const Shape& shape);
  /// What x is a reshape of, where that has the shape.
  const Held* earlier(const Held& x, const Shape& shape) const;
  Held transpose(const Held& x, const std::vector<int>& order);
  /// x, whose axes are these of a space of `rank` axes (in any order), over that space with extents of 1.
  Held spread(const Held& x, const std::vector<int>& axes, size_t rank);

  // export_views.cpp
  Held view(const Frame& frame, const Node& node);
  /// The padded x, whose view has a map that lies inside; nothing where the condition says more than that.
  std::optional<Held> padded(const Held& x, ViewAttr& view);
  /// Each axis of x by itself: slices and gathers. `masked`: indices may lie outside.
  std::optional<Held> axis_by_axis(const Held& x, const ViewAttr& view, const HoleValues& holes, bool masked);
  Held aligned(const Held& x, const std::vector<int>& labels, size_t rank);
  Held joined(const Held& x, const Held& one); // flat x and one element
  std::optional<Held> concatenation(const Frame& frame, NodeId id);

  // export_scatter.cpp
  /// The holes' integers; those that end by the fill, or are left out, add conditions.
  HoleValues holes(const Frame& frame, const Node& node, const std::vector<Hole>& holes, bool masked,
                   const IndexSpace& space, std::vector<Held>& conditions);
  Held scatter(const Frame& frame, const Node& node);

  // export_folds.cpp
  std::vector<Held> fold(const Frame& frame, const Node& node);
  std::vector<Held> scan(const Frame& frame, const Node& node);
  /// The last body as its component takes it, of the bodies and the finished components before it.
  Held transformed(const MonoidComponent& component, const std::vector<Held>& bodies,
                   const std::vector<Held>& finals);
  std::vector<Held> sort(const Frame& frame, const Node& node);
  Held identity_of(const Monoid& monoid, int component);
  Held reduce(const Node& node, Op op, const Held& x, const Shape& space, const std::vector<int>& axes);

  // export_products.cpp
  /// What stands behind the views of an operand, where its axes are those of the space.
  std::optional<Factor> factor(const Frame& frame, const Shape& space, const std::vector<int>& axes,
                               NodeId node);
  /// The factor with these axes, each a product.
  Held arranged(const Factor& factor, const std::vector<std::vector<int>>& groups, const Shape& space);
  std::optional<Held> product(const Frame& frame, const Node& node);
  std::optional<Held> window_fold(const Frame& frame, const Node& node);

  /// base (- minus) * times, each of one number for each channel.
  struct Scaled {
    Held base;
    std::optional<Held> minus, times;
  };

  const Module& module_;
  Weight weight_;
  std::source_location where_;
  ExportGraph graph_;
  std::vector<ValueData> inputs_;
  std::map<std::string, std::pair<std::string, size_t>> axis_of_dimension_; // input and axis
  std::map<std::string, Scaled> scaled_;                                    // by the name of the result
  std::map<std::string, std::pair<std::vector<std::string>, std::vector<Attribute>>>
      convolutions_;                          // the same
  std::map<std::string, Held> reshaped_from_; // by the name of the result
  std::map<std::string, Held> parameters_;    // of the entry
  std::map<std::string, ValueType> types_;    // of operands and results of operators
};

/// What save_onnx writes; throws Error as it does. The bytes of weights are the graph's.
ModelData export_graph(const Graph& graph, std::source_location where = std::source_location::current());
/// The type that holds a value.
DType held_as(DType type);
Shape broadcast_of(const std::vector<Held>& x);

} // namespace luminal::onnx_export
