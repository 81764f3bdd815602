// ir/interp_program.h -- what the interpreter runs: a cluster of nodes that are not stored, as a
// straight-line program over lanes.
//
// A program computes values at many points at once (lanes). Index registers hold one integer a
// lane, masks one flag, value registers one value. A context is the place where a node is looked
// at: an index register for each of its axes and a mask of the lanes that count. A view makes a new
// context from its map; equal contexts are shared, and a node is computed once in each.
#pragma once
#include "ir/domains.h"
#include "ir/philox.h"
#include "ir/term.h"
#include <cstdint>
#include <optional>
#include <variant>

namespace luminal::interp {

/// A value that is kept: result `result` of node `node` of the function at hand.
struct Source {
  NodeId node;
  int result = 0;
};

/// Registers of a program, of three kinds; each kind is numbered from 0.
enum class IndexRegister : int {};
enum class ValueRegister : int {};
enum class MaskRegister : int { all = -1 }; // all: every lane counts

// ---- instructions: what is done at each lane ----
/// out = constant + sum of weights * args
struct AffineIndex {
  IndexRegister out{};
  int64_t constant = 0;
  std::vector<IndexRegister> args;
  std::vector<int64_t> weights;
};
/// out = expression(args), at the lanes of the mask
struct GeneralIndex {
  IndexRegister out{};
  MaskRegister mask{};
  std::vector<IndexRegister> args;
  ExprProgram expr;
  NodeId node; // for messages
};
/// Lanes whose index is not in 0 .. extent-1 are an error of the node.
struct CheckBounds {
  IndexRegister index{};
  MaskRegister mask{};
  int64_t extent = 0;
  NodeId node;
  int axis = 0; // for messages
};
/// out = mask & (condition != 0)
struct NarrowMask {
  MaskRegister out{}, mask{};
  IndexRegister condition{};
};
/// out = the source at args, row major
struct LoadValue {
  ValueRegister out{};
  MaskRegister mask{};
  Source source;
  std::vector<IndexRegister> args;
  std::vector<int64_t> strides;
};
/// out = index, as type
struct IndexValue {
  ValueRegister out{};
  IndexRegister index{};
  DType type{};
};
/// out = word of a counter, whose key is two values
struct RandomValue {
  ValueRegister out{};
  IndexRegister counter{};
  ValueRegister key[2] = {};
  DType type{};
};
/// out = op(args)
struct MapValues {
  ValueRegister out{};
  Op op{};
  const UserOp* user = nullptr; // in place of op
  DType type{};                 // of the arguments
  std::vector<ValueRegister> args;
};
struct CastValue {
  ValueRegister out{}, x{};
  DType from{}, to{};
};
/// out = the bits of all parts, the first lowest, or of one part of their only one
struct BitcastValues {
  ValueRegister out{};
  std::vector<ValueRegister> parts;
  std::optional<IndexRegister> part; // which part of a wider value
  DType from{}, to{};
};
/// out = mask ? x : number
struct FillValue {
  ValueRegister out{}, x{};
  MaskRegister mask{};
  double number = 0;
  DType type{};
};
/// out = integer x by the hole's policy; inside: lanes whose index is in range, where asked for
struct OpenHole {
  IndexRegister out{};
  MaskRegister mask{};
  std::optional<MaskRegister> inside;
  ValueRegister x{};
  DType type{}; // of x
  const Hole* hole = nullptr;
  int64_t extent = INT64_MAX; // of the axis that it indexes, which limits it too
  NodeId node;                // for messages
};
/// out = x, of unknown error where one of the holes is uncertain
struct TaintValue {
  ValueRegister out{}, x{};
  std::vector<ValueRegister> holes;
};
using Instruction =
    std::variant<AffineIndex, GeneralIndex, CheckBounds, NarrowMask, LoadValue, IndexValue, RandomValue,
                 MapValues, CastValue, BitcastValues, FillValue, OpenHole, TaintValue>;

struct Program {
  std::vector<Instruction> code;
  int axes = 0; // index registers 0 .. axes-1 are given: the point of each lane
  int index_registers = 0, mask_registers = 0, value_registers = 0;
  std::vector<ValueRegister> results;
  MaskRegister where = MaskRegister::all; // the points that take part
};

using Extents = std::vector<int64_t>;

/// How many kept values wait for one another at most in each function, counting what callees keep.
std::map<std::string_view, int> function_depths(const Module& module);

/// One function with the values of the dimension symbols put in. Programs are made on first use.
class CompiledFunction {
public:
  /// `depths`: function_depths of the module.
  CompiledFunction(const Module& module, const Function& function,
                   const std::map<std::string, int64_t>& symbols,
                   const std::map<std::string_view, int>& depths);

  const Function& function() const { return function_; }
  /// Extents of a result of a node.
  const Extents& extents(Source s) const { return extents_[s.node][size_t(s.result)]; }
  int64_t count(Source s) const;
  /// Follows `get` and `fence` to the value that is kept or computed.
  Source resolve(NodeId id) const;
  /// Is the value kept, element by element as it is asked for? Else it is computed anew at each
  /// use.
  bool stored(NodeId id) const { return stored_[id]; }
  /// How many kept values wait for one another below this one.
  int depth(NodeId id) const { return depth_[id]; }
  int64_t evaluate(Expr e) const; // over dimension symbols
  /// Host nodes below this one, in order: their effects come before it.
  std::vector<NodeId> effects_below(NodeId id) const;

  /// One component of a fold or scan, with those that it needs.
  struct FoldPlan {
    std::vector<int> components; // ascending, the one that is asked for last
    TypedMonoid monoid;          // of these
    std::vector<int> axes;       // of the result, in the space
    Extents reduced_extents;     // of a fold's axes
  };
  const FoldPlan& fold_plan(Source s);
  /// Kept values below this one whose depth passes a multiple of `every`, in order.
  std::vector<NodeId> landmarks(NodeId id, int every) const;

  /// The value of a node at a point of its shape.
  const Program& value_program(NodeId id);
  /// The bodies `components` of a fold or scan at a point of its space.
  const Program& body_program(NodeId id, const std::vector<int>& components);
  /// Position in the base and predicate of a scatter, at a point of its values.
  struct ScatterProgram {
    Program program;
    std::vector<IndexRegister> map;
  };
  const ScatterProgram& scatter_program(NodeId id);

private:
  friend class Compiler;
  void decide_storage(const std::map<std::string_view, int>& depths);
  const Module& module_;
  const Function& function_;
  ExprMap<Expr> dimensions_;
  IdVector<NodeId, std::vector<Extents>> extents_;
  IdVector<NodeId, bool> stored_;
  IdVector<NodeId, int> depth_;
  std::map<std::pair<NodeId, int>, FoldPlan> fold_plans_;
  std::map<NodeId, Program> value_programs_;
  std::map<std::pair<NodeId, std::vector<int>>, Program> body_programs_;
  std::map<NodeId, ScatterProgram> scatter_programs_;
};

} // namespace luminal::interp
