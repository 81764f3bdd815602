// rules/region_loops.h -- the terms of a region read as loops over memory: axes, bytes and components
// of tuples as flat arrays, for the estimate of what a choice of terms costs.
#pragma once
#include "extract/extract_engine.h"
#include "rules/emit_region.h"
#include <functional>
#include <map>

namespace luminal::rules {

using LoopAxes = uint64_t; ///< bit i: axis i of the problem
inline constexpr size_t most_loop_axes = 64;
/// What is made of weights alone is made when the plan is loaded where it takes no more bytes than they do;
/// the result of a fold over weights of which one has this share may take so many times more.
inline constexpr double share_of_one = 0.9, most_of_fold = 4.5;

/// What a row is to a loop over memory.
enum class LoopKind : uint8_t {
  constant, ///< a number or an index: costs nothing
  input,    ///< read from memory
  map,      ///< elementwise
  view,     ///< its first operand read at other places
  get,      ///< a component of a tuple
  fold,
  scan,
  opaque, ///< a step of its own, or a kernel that no rule looks into
};

/// Where a view reads: what a value varies with when it is read through it.
struct LoopView {
  std::vector<std::pair<LoopAxes, LoopAxes>> index; ///< an axis that is replaced, and what its index reads
  LoopAxes replaced = 0;
  LoopAxes condition = 0; ///< axes of the predicate and of indices from memory
  LoopAxes through(LoopAxes axes) const;
  /// The axes of the operand that move when these loops do.
  LoopAxes loops_inside(LoopAxes loops) const;
};

struct LoopRow {
  LoopKind kind = LoopKind::constant;
  double steps = 0;             ///< of a map: vector instructions for each element, about
  uint32_t index = 0;           ///< get: the component; view: its place in RegionLoops::views
  LoopAxes over = 0;            ///< fold, scan: the axes that it runs over
  LoopAxes body = 0;            ///< fold, scan: the axes of the bodies and those it runs over
  uint32_t first_component = 0; ///< fold, scan: into RegionLoops::components_of_rows
  uint32_t component_count = 0;
  bool written_out = false; ///< fold: over a few points, with entries of a constant matrix
  bool compares = false;    ///< map: of two floats, whether they are equal or in order
  bool twin = false;        ///< an earlier row of the class is the same with its operands exchanged
  double share = 1;         ///< fold: of its points, at which it combines anything (rules/fold_domain.h)
};

/// A component of a tuple. Equal ones (operation, transform, body, and so for all that they read)
/// have one number wherever they occur, so the union of two tuples is a union of sets of numbers.
struct LoopComponent {
  uint32_t body = 0; ///< class
  double steps = 1;  ///< for each point: more where what is combined has to be moved
  LoopAxes axes = 0; ///< of its body and of those that it reads
};

/// The terms of a region as they were entered, in the order in which they were made, so that they are
/// found again after rules have run.
struct WrittenTerms {
  struct Row {
    egraph::OpId op;
    ClassId out;
    std::vector<Value> payload;
    std::vector<ClassId> operands;
  };
  std::vector<Row> rows;
  explicit WrittenTerms(RegionTerms& terms); ///< before any rule has run
};

/// The classes below the roots of a region. Built once for a saturated graph.
class RegionLoops {
public:
  /// `extent`: points of an axis. `terms` has to outlive it.
  RegionLoops(RegionTerms& terms, const Entered& entered, const WrittenTerms& written,
              const std::function<double(Expr)>& extent);

  /// Why there is nothing to choose: too many axes, a class without a term. Empty: all is well.
  const std::string& problem_text() const { return why_; }
  const egraph::ExtractionProblem& problem() const { return engine.problem; }
  const LoopRow& row_of(const egraph::Genome& genome, uint32_t c) const { return rows[genome[c]]; }
  double volume(LoopAxes set) const; ///< points along the axes
  double tiles(LoopAxes set, double tile) const;
  /// Of the problem; no_row where the roots do not reach it.
  uint32_t number_of(ClassId c) const;
  Choice choice(const egraph::Genome& genome) const;

  RegionTerms& terms;
  egraph::EngineProblem engine;
  egraph::Genome written;         ///< the terms as they were entered
  std::vector<LoopRow> rows;      ///< by row of the problem
  std::vector<LoopAxes> axes;     ///< by class of values
  std::vector<double> elements;   ///< by class of values
  std::vector<double> bytes;      ///< by class of values: stored; of leaves as they lie in memory
  std::vector<DType> dtypes;      ///< by class of values
  std::vector<uint8_t> is_static; ///< by class: there before the step, at no more bytes than its weights
  std::vector<uint8_t> is_weight; ///< by class: static, and made of weights: read from main memory
  std::vector<uint8_t> is_root;   ///< by class
  std::vector<uint8_t> is_tuple;  ///< by class
  std::vector<LoopAxes> deep;     ///< by class: the axes over which all of its terms fold
  std::vector<LoopView> views;
  std::vector<LoopComponent> components;
  std::vector<uint32_t> components_of_rows;
  std::vector<double> extents; ///< by axis of the problem

private:
  egraph::RowView row_view(uint32_t r) const;
  LoopAxes set_of(const AxisSet& set);
  void read_kinds();
  bool is_written_out(uint32_t r) const;
  void find_axes();
  LoopAxes axes_of_row(uint32_t r) const;
  LoopAxes axes_of_component(uint32_t tuple_row, uint32_t component) const;
  DType dtype_of_row(uint32_t r) const;
  void find_written(const WrittenTerms& written);
  void find_sizes();
  void find_static();
  void find_deep();
  void find_twins();
  void read_tuples();
  uint32_t component(const Monoid& monoid, int i, std::span<const uint32_t> numbers, uint32_t body);

  const std::function<double(Expr)>& extent_;
  std::string why_;
  std::vector<uint32_t> number_of_; // by ClassId
  std::vector<uint32_t> bit_of_;    // by AxisId
  std::vector<uint32_t> leaf_of_;   // by row: RegionTerms::leaves
  std::map<std::string, uint32_t> component_numbers_;
};

} // namespace luminal::rules
