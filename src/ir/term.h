// ir/term.h -- terms: a module of pure functions over tensor values. See docs/terms.md for the text
// form.
//
// A node's results have a dtype and a shape of expressions. A node with several results (fold,
// scan, sort, call, loop, cond, host, custom) is a tuple and is read by `get`; every other node is
// its own single value. Nodes are hash-consed within a function, arguments before users. Index maps
// are expressions over the output's axes, written i0, i1, ... = axis_symbol(d, extent), and over
// holes h0, h1, ... = hole_symbol(..). Axis names are for people and for schedules: they never take
// part in equality.
#pragma once
#include "base/hash.h"
#include "base/id.h"
#include "expr/expr.h"
#include "ir/dtype.h"
#include "ir/id_table.h"
#include "ir/monoid.h"
#include "ir/ops.h"
#include <map>
#include <memory>
#include <source_location>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace luminal {

using NodeId = Id<struct NodeTag>; // a node of a function
using Shape = std::vector<Expr>;

struct TensorType {
  DType dtype = DType::f32;
  Shape shape;
  bool operator==(const TensorType&) const = default;
};

/// The symbol of output axis `d`: i<d> in 0..extent-1; the constant 0 where the extent is at most
/// 1.
Expr axis_symbol(int d, Expr extent);
/// The symbol of hole `h`: h<h> in its declared range; a constant where the range is one value.
Expr hole_symbol(int h, Interval range);

enum class NodeKind : uint8_t {
  input,
  constant,
  iota,
  random, // leaves
  map,
  cast,
  bitcast,
  view,
  scatter,
  fold,
  scan,
  sort,
  collective, // values
  call,
  loop,
  cond,
  host,
  custom,
  fence,
  get // structure
};

/// How long an input's value lives: `argument` is given at each step, `weight` is frozen at load,
/// `state` lives in the store between steps.
enum class Role : uint8_t { argument, weight, state };
struct InputAttr {
  std::string name;
  Role role = Role::argument;
  TensorType type;
  std::string device = {}; // where it lies; empty: on the processor
  bool operator==(const InputAttr&) const = default;
};
/// A scalar, or a dense array (row major, packed as storage_bytes says).
struct ConstantAttr {
  std::shared_ptr<const std::vector<std::byte>> data;
  TensorType type;
  bool operator==(const ConstantAttr& o) const { return type == o.type && *data == *o.data; }
};
/// Element = value of the expression over the axes (and dimension symbols).
struct IotaAttr {
  Expr value;
  TensorType type;
  bool operator==(const IotaAttr&) const = default;
};
/// Philox4x32-10. Input 0: key, u32[2]. Block number = `counter` (an expression over the axes) >>
/// 2, lane = counter & 3. dtype u32: the bits; f32: uniform in [0, 1): the upper 24 bits * 2^-24.
struct RandomAttr {
  Expr counter;
  TensorType type;
  bool operator==(const RandomAttr&) const = default;
};
struct MapAttr {
  Op op;
  std::string user_op;
  bool operator==(const MapAttr&) const = default;
}; // user_op: name of a registered row, else empty

enum class OutOfRange : uint8_t { error, clamp, fill };
/// An integer operand of an index map: operand `input` (a position in the node's inputs) is read at
/// the output axes `axes`; its values must lie in `range`.
struct Hole {
  int input;
  std::vector<int> axes;
  Interval range;
  OutOfRange policy = OutOfRange::error;
  bool operator==(const Hole&) const = default;
};
/// out[i] = predicate(i) ? x[map(i)] : fill.  Input 0 is x, the rest are holes. The map is in
///                                            bounds wherever the predicate holds (verified by
///                                            proof, or
/// checked by the interpreter where the proof is open).
struct ViewAttr {
  std::vector<Expr> map; // one for each axis of x
  Expr predicate = 1;
  double fill = 0;
  Shape shape; // of the result
  std::vector<Hole> holes;
  bool operator==(const ViewAttr&) const; // NaN fills are equal
};
/// out = base; then for each index i of `values` in row-major order where the predicate holds:
/// out[map(i)] = combine(out[map(i)], values[i]). Inputs: base, values, holes. op: absent = set,
/// else an associative row. unique: no index is written twice (a fact the builder vouches for).
struct ScatterAttr {
  std::vector<Expr> map; // one for each axis of base, over the axes of values
  Expr predicate = 1;
  std::optional<Op> op;
  bool unique = false;
  std::vector<Hole> holes;
  bool operator==(const ScatterAttr&) const = default;
};
/// Iteration space `space` with axes i0..; the axes in `reduced` are folded, the others are outer.
/// Body c is input c and depends on the axes body_axes[c] (its shape is the extents of these). Only
/// points where `where` holds take part (the domain of the fold, such as i1 <= i0). Result c has
/// the axes result_axes(attr, c): the outer ones among its body's, those of the components that its
/// transform reads, and those that `where` reads, in order of the space. A result without any point
/// in its domain is the identity. Holes (inputs after the bodies) may stand in `where`. Order:
/// row-major over the reduced axes; an implementation may use any tree.
struct FoldAttr {
  Monoid monoid;
  Shape space;
  std::vector<int> reduced;                // ascending
  std::vector<std::vector<int>> body_axes; // ascending, one for each component
  Expr where = 1;
  std::vector<Hole> holes;
  bool operator==(const FoldAttr&) const = default;
};
std::vector<int> result_axes(const FoldAttr& fold, int component);
/// The axes that the condition of a fold varies with, through its holes too.
std::vector<int> where_axes(const FoldAttr& fold);
/// Every prefix of a fold over one axis: result c keeps the axis. exclusive: element k excludes
/// body k; reverse: from the end.
struct ScanAttr {
  Monoid monoid;
  Shape space;
  int axis = 0;
  std::vector<std::vector<int>> body_axes; // each holds `axis` or is read as constant along it
  bool exclusive = false, reverse = false;
  bool operator==(const ScanAttr&) const = default;
};
/// The scanned axis, those of the component's body and of the components that its transform reads;
/// ascending.
std::vector<int> result_axes(const ScanAttr& scan, int component);
/// Sorts input 0 along the axis, stable; the other inputs (equal shapes) are permuted along. NaN is
/// last in both directions.
struct SortAttr {
  int axis = 0;
  bool descending = false;
  bool operator==(const SortAttr&) const = default;
};
struct CastAttr {
  DType to;
  bool operator==(const CastAttr&) const = default;
};
/// Same bytes, other type; a wider or narrower type divides or multiplies the last axis. Little
/// endian, the even 4-bit element in the low half.
struct BitcastAttr {
  DType to;
  bool operator==(const BitcastAttr&) const = default;
};
/// kind: all_reduce_sum, all_reduce_max, all_reduce_min, all_reduce_prod, broadcast (equal shapes),
/// all_gather (the axis times the number of members), reduce_scatter_sum (the axis divided by it).
/// group: "name:members", such as "tp:4".
struct CollectiveAttr {
  std::string kind;
  std::string group;
  int axis = 0;
  bool operator==(const CollectiveAttr&) const = default;
};
struct CallAttr {
  std::string function;
  bool operator==(const CallAttr&) const = default;
};
/// Inputs: `carried` values, then `stepped` ones (read at step t along their first axis), then
/// invariants. body(t: i64, carried, slices, invariants) -> (carried, stacked). Runs `count` times,
/// or, with a `condition` function (carried, invariants) -> bool, while it holds and at most
/// `count` times. Results: carried, stacked (first axis = count; rows never reached are zero), and,
/// with a condition, the number of steps (i64).
struct LoopAttr {
  std::string body, condition; // condition may be empty
  Expr count;
  int carried = 0, stepped = 0;
  bool operator==(const LoopAttr&) const = default;
};
/// Input 0: bool scalar; the rest are arguments of both functions.
struct CondAttr {
  std::string then_function, else_function;
  bool operator==(const CondAttr&) const = default;
};
/// print (passes input 0 on and writes `text` and its value), diff (passes input 0 on and writes
/// the largest difference from input 1), or a function registered by register_host_function:
/// effects happen in the order that the function's results state. Never merged with an equal node.
struct HostAttr {
  std::string kind, text;
  std::vector<TensorType> results;
  bool operator==(const HostAttr&) const = default;
};
/// A user's kernel: language -> text; grid and results are expressions. The interpreter runs the
/// host function of the same name.
struct CustomAttr {
  std::string name;
  std::map<std::string, std::string> text;
  std::vector<Expr> grid;
  std::vector<TensorType> results;
  bool operator==(const CustomAttr&) const = default;
};
/// Passes its input on; nothing is fused across it. With a device: the value is moved there, and
/// what is made from it is made there.
struct FenceAttr {
  std::string device = {};
  bool operator==(const FenceAttr&) const = default;
};
struct GetAttr {
  int index = 0;
  bool operator==(const GetAttr&) const = default;
};

using Attr = std::variant<InputAttr, ConstantAttr, IotaAttr, RandomAttr, MapAttr, ViewAttr, ScatterAttr,
                          FoldAttr, ScanAttr, SortAttr, CastAttr, BitcastAttr, CollectiveAttr, CallAttr,
                          LoopAttr, CondAttr, HostAttr, CustomAttr, FenceAttr, GetAttr>;

struct Node {
  NodeKind kind;
  Attr attr;
  std::vector<NodeId> inputs;
  std::vector<TensorType> types; // one for each result
  std::string name;              // for people; unique within a function when not empty
  // for people and schedules: names of i0, i1, ... (of the space, for fold and scan; of values, for
  // scatter); may be empty
  std::vector<std::string> axis_names;
  // for messages about data: "gather at model.cpp:41"; may be empty, no part of equality or text
  std::string origin;
  const TensorType& type() const { return types[0]; }
  bool is_tuple() const; // by kind: read through `get`
};

/// What a function gives back. A binding of a state writes its new value; `after` names results
/// whose effects come first.
struct FunctionResult {
  std::string name;
  NodeId value;
  std::string state; // name of the state input that is written, or empty
  std::vector<std::string> after;
};

struct Function {
  std::string name;
  IdVector<NodeId, Node> nodes;
  std::vector<NodeId> params; // the input nodes, in order
  std::vector<FunctionResult> results;
  const Node& operator[](NodeId id) const { return nodes[id]; }
};

/// Dimension symbols are module-wide: one name, one range.
struct Module {
  std::vector<Expr> symbols; // each an Expr symbol with its range, by name
  /// Conditions over the symbols that hold at every step (`assume past + n <= 512`): proofs may use
  /// them, whoever sets the symbols checks them.
  std::vector<Expr> assumptions = {};
  std::vector<Function> functions; // callees before callers; the last one is the entry
  const Function* find(std::string_view name) const;
  const Function& entry() const { return functions.back(); }
};

/// Builds one function. Every call infers types, verifies, folds duplicates, and throws
/// Error("[view] ...") at the caller's line.
class FunctionBuilder {
public:
  explicit FunctionBuilder(std::string name, const Module* module = nullptr); // module: for call, loop, cond
  NodeId input(std::string name, TensorType type, Role role = Role::argument);
  NodeId constant(DType dtype, double value);                    // scalar
  NodeId constant(TensorType type, std::vector<std::byte> data); // dense
  /// The general way in: attributes say everything (leaves and views carry their type or shape);
  /// types are inferred. `axis_names` may be empty.
  NodeId add(Attr attr, std::vector<NodeId> inputs, std::vector<std::string> axis_names = {},
             std::source_location where = std::source_location::current());
  NodeId map(Op op, std::vector<NodeId> inputs, std::source_location where = std::source_location::current());
  NodeId get(NodeId tuple, int index);
  NodeId cast(NodeId x, DType to);
  NodeId bitcast(NodeId x, DType to);
  NodeId iota(Shape shape, Expr value, DType dtype = DType::i64);
  /// x read through an index map over the axes of `shape`.
  NodeId view(NodeId x, Shape shape, std::vector<Expr> map, Expr predicate = 1, double fill = 0,
              std::vector<std::string> axis_names = {});
  // Elementary movements; each is one view.
  NodeId permute(NodeId x, std::vector<int> order);
  NodeId expand(NodeId x, Shape shape,
                std::vector<int> axes);  // axis d of x becomes axis axes[d] of the result
  NodeId reshape(NodeId x, Shape shape); // row-major; equal element counts must be provable
  NodeId slice(NodeId x, int axis, Expr start, Expr size, int64_t step = 1);
  NodeId pad(NodeId x, int axis, Expr before, Expr after, double fill = 0);
  /// One-component fold over axes of x.
  NodeId reduce(Op op, NodeId x, std::vector<int> axes);
  void name(NodeId node, std::string name);
  void origin(NodeId node, std::string place); // keeps the first one given
  const Node& operator[](NodeId id) const { return function_.nodes[id]; }
  void result(std::string name, NodeId value, std::string state = "", std::vector<std::string> after = {});
  Function finish(); // removes what no result needs (inputs stay), renumbers in order

private:
  friend class TermParser;
  NodeId insert(Attr attr, std::vector<NodeId> inputs,
                std::vector<std::string> axis_names); // throws TermMistake
  Function function_;
  const Module* module_;
  IdTable<NodeId> table_; // hash-consing by structural hash
};
/// The same node: kind, attributes, inputs, result types; names excluded.
bool same_node(const Node& a, const Node& b);
/// Equal modules: symbols, assumptions, functions node by node, names of functions, inputs and
/// results; names of nodes and axes excluded.
bool same_module(const Module& a, const Module& b);
/// The extents behind the axis symbols of a node's expressions: the result's shape, the space of a
/// fold or scan, the shape of the values of a scatter.
Shape expression_space(const Function& function, const Node& node);
/// Integer operands of the node's index map or condition; empty for other kinds.
const std::vector<Hole>& holes_of(const Attr& attr);
std::string_view to_string(NodeKind kind);
NodeKind kind_of(const Attr& attr);
/// Equal, as far as can be proved.
bool same_shape(const Shape& a, const Shape& b, std::span<const Expr> assumptions = {});
std::string to_string(const Shape& shape); // [S, 64]

/// Infers result types of a node from its inputs' types; throws Error with the operation, both
/// shapes and what is expected.
std::vector<TensorType> infer_types(const Attr& attr, const std::vector<TensorType>& inputs,
                                    const Module* module);

// ---- text (print_terms.cpp, parse_terms.cpp), checks (verify.cpp) ----
std::string to_string(const TensorType& type); // f32[S, 64]
std::string to_string(const Module& module);
Module parse_module(
    std::string_view text,
    std::string_view file_name = "<text>"); // throws Error "file:line:column: expected ..., found ..."
/// All mistakes, in order; empty when the module is well formed.
std::vector<std::string> verify(const Module& module);
/// Places whose index bounds are not proved: whoever runs them has to check (the interpreter does).
/// "@main %v: axis 1 of %x: past + i0 < 512".
std::vector<std::string> dynamic_checks(const Module& module);
uint64_t structural_hash(const Function& function); // names of nodes and axes excluded
/// Of all that is said of the module, names and places of the program included: the same in every process.
Hash128 full_hash(const Module& module);
/// Graphviz text: a cluster for each function, dtypes and shapes on the edges, `marked` nodes of
/// the entry function highlighted. Results of tuples are edges, not nodes.
std::string to_dot(const Module& module, const std::vector<NodeId>& marked = {});
/// The same as one HTML file that needs nothing else: layered drawing, search, zoom, the full text
/// of a node on a click.
std::string to_html(const Module& module, const std::vector<NodeId>& marked = {});

} // namespace luminal
