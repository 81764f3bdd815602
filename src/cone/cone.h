// cone/cone.h -- what one kernel computes, before anyone says how: stages (folds and maps over
// named axes) from stored values to stored values.
//
// Every index is an Expr over axis symbols, dimension symbols and hole symbols; every element is a
// Formula. Views are substituted away, maps are inlined at their readers, each fold is a stage
// whose result is an interior value. Axes are shared between stages wherever one reads the other at
// plain axes, so that a schedule can put one inside the loops of the other.
#pragma once
#include "base/id.h"
#include "base/result.h"
#include "cone/formula_types.h"
#include "ir/term.h"
#include <set>
#include <span>

namespace luminal::kernel {

/// symbol ranges over 0 .. extent-1. Names are unique in the cone.
struct ConeAxis {
  std::string name;
  Expr extent;
  Expr symbol;
};

// ---- values ----
enum class ValueRole : uint8_t {
  input,    // stored before: function input, constant, or a value of another kernel
  output,   // a root; written in full
  inout,    // a root that is a scatter into `base`, in place: the caller binds the buffer of `base`
  interior, // scratch of this kernel
};
/// One storage dimension: (axis dimension `dim` div `div`) mod `mod` (0: no mod), rows padded by
/// `pad` elements.
struct LayoutDim {
  int dim = 0;
  int64_t div = 1, mod = 0, pad = 0;
  bool operator==(const LayoutDim&) const = default;
};
/// Outermost first. Empty: row major in the order of the dimensions.
using Layout = std::vector<LayoutDim>;

struct ConeValue {
  std::string name; // unique in the cone; also the name of the kernel's buffer
  DType dtype = DType::f32;
  std::vector<Expr> shape;
  /// Of the stage that writes it: the axis of each dimension, none where it is not plain; empty for
  /// inputs.
  std::vector<AxisId> axes;
  ValueRole role = ValueRole::input;
  NodeId origin;  // whose result it is: a stored node, a constant or a root (for a fold: the fold itself)
  int result = 0; // number of the origin's result
  NodeId base;    // inout: the node whose storage is updated
  Layout layout;
};

// ---- stages ----
enum class ComponentKind : uint8_t {
  map,    // out[index] = body at every point of the stage's axes (of `axes`, where `after` is set)
  fold,   // out[index] = op over the axes that are not in `axes`
  scan,   // every prefix along the stage's scan axis
  update, // out[index] = op(out[index], body), or body where `set`; in row-major order of the stage's ordered
          // axes
};
struct Component {
  ComponentKind kind = ComponentKind::map;
  Op op = Op::add;
  DType dtype = DType::f32; // accumulation type of a fold, the type of a map
  ValueId out;              // value that is written, or none: read by later components only
  std::vector<Expr> index;  // where, over the stage's axes
  std::vector<AxisId> axes; // axes that the result depends on, ascending
  FormulaRef body;
  FormulaRef init;    // fold: starts from this, not from the identity
  bool after = false; // map: runs once for each result of the stage's folds, when they are finished
  bool set = false;   // update
};
struct Stage {
  std::string name; // unique in the cone
  std::vector<AxisId> axes;
  std::vector<Component> components;
  Expr domain = 1; // folds, updates: only points where it holds take part; maps: only these are read
  Expr needed = 1; // results that no reader asks for need not be made
  /// A tuple whose components read each other: the transforms of components 0 .. size-1 (which are
  /// the first ones of the stage).
  std::optional<Monoid> monoid;
  /// Axes whose loops keep their row-major order and are not distributed (duplicates of a scatter,
  /// scans).
  std::vector<AxisId> ordered;
  bool scan_exclusive = false, scan_reverse = false;
  AxisId scan_axis;
  int segment_group = 0; // stages of one number above 0 write different parts of the same values
};

/// An integer read from memory that takes part in index maps: symbol (its range is a fact) = value,
/// clamped to that range.
struct ConeHole {
  Expr symbol;
  FormulaRef value;
};

struct Cone {
  std::string name;
  IdVector<AxisId, ConeAxis> axes;
  IdVector<ValueId, ConeValue> values;
  IdVector<StageId, Stage> stages; // producers before consumers
  IdVector<HoleId, ConeHole> holes;
  std::vector<Expr> symbols; // dimension symbols that occur, by name
};

struct ConeOptions {
  std::string name = "kernel";
  bool in_place = false; // scatter roots update the storage of their base; else the base is copied first
};

/// The kernel that computes `roots` (single-valued nodes, `get`s of folds and scans among them)
/// from what is stored: function inputs, constants, and `stored`, which are read and not computed
/// (roots are computed wherever they are listed). Fails where the cone would hold a node that is a
/// kernel of its own (sort, loop, call, cond, host, custom, collective, fence, a scatter that is
/// not a root).
Result<Cone> build_cone(const Function& function, std::span<const NodeId> roots,
                        const std::set<NodeId>& stored, const ConeOptions& options = {});

/// Its nodes, ascending, with those that it reads.
std::vector<NodeId> cone_nodes(const Function& function, std::span<const NodeId> roots,
                               const std::set<NodeId>& stored);

// ---- for people and tests ----
std::string to_string(const Cone& cone);
std::string to_string(const Cone& cone, const Formula& formula);
/// Mistakes, in order; empty when the cone is well formed.
std::vector<std::string> verify(const Cone& cone);

} // namespace luminal::kernel
