// schedule/nest.h -- private to the lowering: a cone with its loops. Directives act on it in order;
// lowering walks it.
#pragma once
#include "cone/cone.h"
#include "cone/layout.h"
#include "loop/loop.h"
#include "schedule/block_mask.h"
#include "schedule/schedule.h"
#include <fmt/format.h>
#include <map>

namespace luminal::kernel {

/// Thrown inside `lower` and caught by it: a directive that is not legal, and why.
struct ScheduleFailure {
  std::string text;
};
template <class... Args> [[noreturn]] void refuse(fmt::format_string<Args...> text, Args&&... args) {
  throw ScheduleFailure{fmt::format(text, std::forward<Args>(args)...)};
}

struct StageLoop {
  std::string name;
  Expr symbol; // 0 where the loop has one trip
  Expr extent; // trips
  LoopKind kind = LoopKind::serial;
  int level = 0;
  int jam = 1;
  int64_t block = 0;      // of a sum: so many trips begin from the identity (blocked_sum); 0: all go on
  std::string block_loop; // the loop over these blocks
  bool lane = false;      // its trips go to the lanes of a group
};

/// value < limit must hold: the end of an axis, or of a split whose factor does not divide.
struct Guard {
  Expr value; // over loop symbols
  Expr limit;
  bool reduction = false; // of a reduced axis, whose loops may all be kept (parts of a split reduction)
};

struct PrefetchRequest {
  ValueId value;
  std::string loop, inner; // each trip of `inner` touches what is needed when `loop` is `distance` further
  int64_t distance;
  std::string all = {}; // the trips of this loop, which `inner` runs in, touch each line once
};

/// In each trip of `loop` the lanes of a group copy what the stage reads of the value there.
struct GroupCopy {
  ValueId value;
  std::string loop;
  int tiles = 1; // that a ring of them has
};

/// Neighbouring lanes do the trips of three loops together.
struct LaneUnit {
  std::string unit, m, n, k; // name of the descriptor, loops
};

/// The loops of one stage, outermost first.
struct StageNest {
  std::vector<StageLoop> loops;
  ExprMap<Expr> axis_values; // axis symbol -> over loop symbols
  std::vector<Guard> guards;
  std::string at; // the loop it runs in; empty: a nest of its own
  std::vector<PrefetchRequest> prefetches;
  std::vector<GroupCopy> group_copies;
  std::optional<LaneUnit> lane_unit;
  std::set<std::string> bounds; // predicate_bound
  std::string together;         // the loop in which the stages of one cascade must run, and
  int cascade = 0;              // the number of the cascade
  AxisId rolling;               // the axis of a fold whose readers run in the loop along it,
  bool behind_readers = false;  // and before it, as they read what an exclusive scan had before the element
  const StageLoop* find(std::string_view name) const;
  StageLoop* find(std::string_view name);
};

struct Storage {
  std::optional<std::string> level; // absent: where all who use it meet; "root"
  std::optional<Space> space;
};

struct Nests {
  Cone cone;
  IdVector<StageId, StageNest> stages;
  IdVector<ValueId, Storage> storage;
  std::set<std::string> predicate_splits;
  std::set<ValueId> streams;        // values that are written past the caches
  std::map<std::string, int> roles; // loop -> depth
  std::set<AxisId> beyond;          // axes of parts that go beyond the end of the axis that was split
  /// Conditions of a domain at an element of a word (dot_unit.cpp): the condition that they are
  /// instances of. Parts of a nest begin and end between words.
  std::map<Expr, Expr, ExprLess> instances;
  std::set<std::string> tile_units; // whose steps stand for those of a unit with tile registers
  int cascades = 0;
  std::vector<BlockMask> block_masks;

  explicit Nests(Cone c);
  StageId stage(std::string_view name) const; // ScheduleFailure where there is none
  ValueId value(std::string_view name) const;
  StageNest fresh(const Stage& stage) const; // one loop for each axis
  /// Puts a stage in front of stage `before`.
  StageId insert_stage(StageId before, Stage stage, StageNest nest);
  void erase_stage(StageId stage);
  ValueId add_value(ConeValue value);
  std::string free_name(const std::string& wish) const; // not a value, axis, hole, symbol or loop
  std::string free_stage_name(const std::string& wish) const;
  /// Stages that read the value, ascending.
  std::vector<StageId> readers(ValueId value) const;
  StageId writer(ValueId value) const; // the last stage that writes it
};

/// A value that the kernel makes and reads itself; its axes are for the caller to say.
inline ConeValue interior_value(std::string name, DType dtype) {
  ConeValue value;
  value.name = std::move(name);
  value.dtype = dtype;
  value.role = ValueRole::interior;
  return value;
}

/// One directive. Throws ScheduleFailure.
void apply(Nests& nests, const Directive& directive);
/// All directives, in order; the failure names the directive.
Nests apply(const Cone& cone, const Schedule& schedule);

AxisId add_axis(Nests& nests, const std::string& name, Expr extent); // its name is a free one like this
/// The axis that an index expression is, alone.
AxisId plain_axis(const Cone& cone, Expr e);

/// Puts a stage of copies in front of stage `before`; refuses one that would read elements that are
/// not made.
void insert_copy(Nests& nests, StageId before, Stage stage);

// ---- directives that change the stages (transform.cpp, cascade.cpp, split_reduction.cpp) ----
void stage_copy(Nests& nests, const std::string& value, const std::string& copy,
                std::span<const std::string> joint);
/// padded_copy.cpp; with an axis: a copy for each block of so many of its elements.
void padded_copy(Nests& nests, const std::string& value, const std::string& copy,
                 const std::string& axis = {}, int64_t size = 0);
/// matrix_copy.cpp
void matrix_copy(Nests& nests, const std::string& stage, const std::string& copy, int64_t multiple);
void materialize(Nests& nests, const std::string& node, const std::string& value);
void inline_value(Nests& nests, const std::string& value);
void fuse(Nests& nests, const std::string& stage, const std::string& next);
void cascade(Nests& nests, const std::string& stage, const std::string& loop);
void move_before(Nests& nests, const std::string& stage, const std::string& next);
void operand(Nests& nests, const std::string& stage, const std::string& axis, const std::string& value);
void split_reduction(Nests& nests, const Directive& directive);
void rolling(Nests& nests, const std::string& stage);
/// The ends of the segments of a constant axis in which the index expressions of the stage are
/// plain, where there are several. `conditions_only`: where comparisons change, whatever minima,
/// maxima and divisions do.
std::vector<int64_t> segment_ends(const Stage& stage, const ConeAxis& axis, bool conditions_only);
enum class SegmentEnds : uint8_t {
  changes,    // where index expressions change
  conditions, // where comparisons change
  elements,   // as conditions; the parts, of one length, are made in one body
};
void segments(Nests& nests, const std::string& stage, const std::string& axis, SegmentEnds at);
/// Two stages, of the first `count` elements of a constant axis and of the rest.
void split_at(Nests& nests, const std::string& stage, const std::string& axis, int64_t count);
void unfold(Nests& nests, const std::string& stage); // unfold.cpp
/// A float operation of one formula without additions of 0 and multiplications by 1 or -1.
FormulaRef without_units(const FormulaRef& formula);
/// What copies of operands in words hold: each element that the sum reads, or the value it reads them from.
enum class WordsOf : uint8_t { reads, values };
void use_unit(Nests& nests, const std::string& stage, const std::string& unit,
              std::span<const std::string> copies, WordsOf of); // dot_unit.cpp

// ---- groups of lanes (lanes.cpp) ----
void distribute_over_lanes(Nests& nests, const Directive& directive);
void group_copy(Nests& nests, const Directive& directive);
void use_lane_unit(Nests& nests, const Directive& directive);
/// Lanes of the stage's unit; 1: it has none.
int64_t unit_lanes(const StageNest& nest);
/// Does a stage distribute loops over the lanes of a group?
bool in_groups(const Nests& nests);
/// What the stages of a kernel in groups have in common.
struct Groups {
  std::string loop;  ///< whose trips are the groups; empty: there is one group
  Expr symbol = 0;   ///< of that loop; 0 where it has one trip
  Expr extent = 1;   ///< groups
  int64_t lanes = 1; ///< of each group
};
/// Refuses nests that groups of lanes cannot run.
Groups groups_of(const Nests& nests);

bool depends_on_loop(const StageNest& nest, Expr axis_symbol, const StageLoop& loop);
/// Is the stage a scan of one state that no transform moves, by an operation that lanes have: may its lanes
/// lie along its axis?
bool scans_in_lanes(const Stage& stage);

/// Does the loop run along an axis that a fold of the stage reduces (or that a scan runs along)?
/// Refuses loops that mix both kinds.
bool reduces(const Cone& cone, const Stage& stage, const StageNest& nest, const StageLoop& loop);

} // namespace luminal::kernel
