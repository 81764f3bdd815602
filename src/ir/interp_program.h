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
#include <optional>

namespace luminal::interp {

/// A value that is kept: result `result` of node `node` of the function at hand.
struct Source {
  NodeId node = 0;
  int result = 0;
};

struct Instr {
  enum class Kind : uint8_t {
    affine,    // index out = constant + sum of coefficients * index args
    general,   // index out = expression(index args)
    check,     // lanes whose index args[0] is not in 0..extent-1 are an error of the node
    condition, // mask out = mask & (index args[0] != 0)
    load,      // value out = source at index args, row major
    constant,  // value out = number
    iota,      // value out = index args[0], as type
    random,    // value out = word of counter index args[0] with key values[0], values[1]
    map,       // value out = op(values)
    cast,      // value out = values[0] from type to result
    bits,      // value out = same bits of values[0], other type
    split,     // value out = part (index args[0]) of the bits of values[0]
    merge,     // value out = bits of all values, the first lowest
    fill,      // value out = mask ? values[0] : number
    hole,      // index out, mask out = integer values[0] by the hole's policy
    taint,     // value out = values[0], of unknown error where one of the other values (holes) is uncertain
  } kind;
  int out = -1;
  int mask = -1;                   // lanes that count; -1: all
  int mask_out = -1;               // condition, hole
  DType type = DType::f32;         // of the arguments
  DType result = DType::f32;       // of the result
  Op op{};                         // map
  const UserOp* user = nullptr;    // map
  double number = 0;               // constant, fill
  int64_t offset = 0;              // affine: constant;  check: extent;  hole: the extent that limits it
  std::vector<int> args;           // index registers
  std::vector<int> values;         // value registers
  std::vector<int64_t> weights;    // affine: coefficients;  load: strides
  std::optional<ExprProgram> expr; // general
  Source source;                   // load
  const Hole* hole = nullptr;      // hole
  NodeId node = 0;                 // for messages
  int axis = 0;                    // check: for messages
};

struct Program {
  std::vector<Instr> code;
  int axes = 0; // index registers 0 .. axes-1 are given: the point of each lane
  int index_registers = 0, mask_registers = 0, value_registers = 0;
  std::vector<int> results; // value registers
  int where = -1;           // mask of the points that take part
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
  /// Position in the base (result 0 ..: one index program each) and predicate of a scatter, at a
  /// point of its values. Index registers of the map: `scatter_map`.
  struct ScatterProgram {
    Program program;
    std::vector<int> map; // index registers
  };
  const ScatterProgram& scatter_program(NodeId id);

private:
  friend class Compiler;
  void decide_storage(const std::map<std::string_view, int>& depths);
  const Module& module_;
  const Function& function_;
  ExprMap<Expr> dimensions_;
  std::vector<std::vector<Extents>> extents_;
  std::vector<bool> stored_;
  std::vector<int> depth_;
  std::map<std::pair<NodeId, int>, FoldPlan> fold_plans_;
  std::map<NodeId, Program> value_programs_;
  std::map<std::pair<NodeId, std::vector<int>>, Program> body_programs_;
  std::map<NodeId, ScatterProgram> scatter_programs_;
};

} // namespace luminal::interp
