// rules/folds_loops.h -- an extraction problem of folds/theory.egg read as loops: axes, sizes and
// components as flat arrays for the cost.
#pragma once
#include "extract/extract_engine.h"
#include "folds_host.h"

namespace luminal::egraph::folds {

using AxisSet = uint64_t; ///< bit i: axis i of the problem

/// The theory's operators.
enum class Operation : uint8_t {
  in,
  par,
  constant,
  dim,
  iota, // leaves
  neg,
  exp,
  log,
  recip,
  sqrt,
  abs,
  tanh,
  add,
  mul,
  sub,
  div,
  max2,
  min2,
  lt,
  eq,
  select, // maps
  get,
  fold,
  scan,
  view,
  take,
};

/// What a row is to a loop over memory.
enum class LoopKind : uint8_t {
  constant, ///< a number, an extent or an index: costs nothing
  input,    ///< read from memory
  map,      ///< elementwise
  get,      ///< component of a fold or scan
  fold,
  scan,
  view, ///< its operand read at other places
  take, ///< its second operand read at the index that the first one gives
};

/// A reading of `axis` at other places: view_axes() of it tells what a value varies with.
struct LoopView {
  AxisSet axis = 0;  ///< one bit
  AxisSet reads = 0; ///< the axes that give the place
  /// What a value over `axes` varies with when it is read through the view.
  AxisSet through(AxisSet axes) const { return axes & axis ? (axes & ~axis) | reads : axes; }
};

struct LoopRow {
  LoopKind kind = LoopKind::constant;
  Operation operation = Operation::constant;
  double flops = 0;             ///< of a map: for each element
  uint32_t index = 0;           ///< get: the component; view: its place in LoopProblem::views
  AxisSet over = 0;             ///< fold, scan, take: the axes that it runs over
  AxisSet body = 0;             ///< fold, scan: the axes of the bodies and those it runs over
  uint32_t first_component = 0; ///< fold, scan: into LoopProblem::components_of_rows
  uint32_t component_count = 0;
  bool twin = false;       ///< an earlier row of the class is the same with its operands exchanged
  std::vector<Value> args; ///< of the e-graph's row
};

/// A component of a tuple. Equal ones (op, transport, body, and so for all that they need) have one
/// number wherever they occur, so the union of two tuples is a union of sets of numbers.
struct LoopComponent {
  uint32_t body = 0; ///< class
  double work = 1;   ///< flops for each element: more where what is combined has to be moved
  AxisSet axes = 0;  ///< of its body and of those that it needs
};

/// The classes below the roots. Built once for a saturated graph.
class LoopProblem {
public:
  /// Throws Error for an axis without an extent and for more than 64 axes. `theory` has to outlive
  /// the problem.
  LoopProblem(Theory& theory, std::span<const Value> roots, const Extents& extents);

  const ExtractionProblem& problem() const { return engine.problem; }
  const LoopRow& row_of(const Genome& genome, uint32_t c) const { return rows[genome[c]]; }
  /// Points along the axes.
  double volume(AxisSet set) const;
  /// The tiles of `tile` points along each of the axes.
  double tiles(AxisSet set, double tile) const;
  std::string names(AxisSet set) const;
  uint32_t class_of(Value v) const; ///< Error where the roots do not reach it

  Theory& theory;
  EngineProblem engine;
  std::vector<LoopRow> rows;      ///< by row of the problem
  std::vector<AxisSet> axes;      ///< by class of values
  std::vector<double> sizes;      ///< by class of values: its elements
  std::vector<uint8_t> is_static; ///< by class: some term of it needs no input of the step
  std::vector<uint8_t> is_root;   ///< by class
  std::vector<AxisSet> deep;      ///< by class: the axes over which its cheapest terms need a pass
  std::vector<LoopView> views;
  std::vector<LoopComponent> components;
  std::vector<uint32_t> components_of_rows;
  std::vector<std::string> axis_names;
  std::vector<double> extents; ///< by axis

private:
  AxisSet set_of(const Axes& names);
  void read_rows();
  void find_static();
  void find_twins();
  uint32_t component(const Monoid& m, uint32_t i, std::span<const uint32_t> numbers, uint32_t body);
  std::map<std::string, uint32_t> component_numbers_, axis_numbers_;
  std::map<ClassId, uint32_t> class_numbers_;
};

} // namespace luminal::egraph::folds
