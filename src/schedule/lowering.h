// schedule/lowering.h -- private: the walk from nests to loop IR.
#pragma once
#include "cone/formula.h"
#include "schedule/lower.h"
#include "schedule/nest.h"
#include <functional>
#include <memory>

namespace luminal::kernel {

inline void append(Body& to, Body from) { to.insert(to.end(), from.begin(), from.end()); }

/// The tree of loops that stages share: a leaf is the rest of one stage.
struct TreeNode {
  std::string loop; // empty: the root, or a leaf
  StageId stage;    // a leaf's stage; a loop's first stage, which describes it
  TreeNode* parent = nullptr;
  std::vector<std::unique_ptr<TreeNode>> kids;
  bool is_leaf() const { return loop.empty() && parent != nullptr; }
};

/// From the root down to the node.
std::vector<TreeNode*> path_to(TreeNode* node);
/// Of the leaves below the node the first whose stage is accepted; null where none is.
const TreeNode* first_leaf(const TreeNode& node, const std::function<bool(StageId)>& accept);

/// A loop that a domain cuts to nothing may begin behind its axis: its variable's range says that
/// it does not.
inline Expr begin_within(Expr begin, Expr extent) {
  return prove(le(begin, extent)) == Truth::yes ? begin : min(begin, extent);
}

struct OpenLoop {
  std::string name;
  Expr symbol, begin, end, extent;
  bool parallel = false;
  std::vector<Guard> enforced = {}; // guards that its bounds see to, as far as open loops go
  int level = 0;
};

/// Where a value lies while the loops of its storage level are open.
struct Place {
  BufferId buffer;
  Layout layout;
  std::vector<Expr> base, extents; // offset = layout of (index - base)
  Expr slot = 0;                   // of a ring
};

/// Which buffers a part of the kernel touches from memory that workers share.
struct Touched {
  std::set<BufferId> reads;
  // by whom: stages of one number above 0 write different parts (Stage::segment_group)
  std::map<BufferId, int> writes;
  void write(BufferId buffer, int segments) {
    auto [known, fresh] = writes.try_emplace(buffer, segments);
    if (!fresh && known->second != segments) known->second = 0;
  }
  void add(const Touched& other) {
    reads.insert(other.reads.begin(), other.reads.end());
    for (auto [buffer, segments] : other.writes) write(buffer, segments);
  }
};

/// Conditions of the domain, as they stand in the cone, that hold (or do not) in the part of the
/// nest that is being written.
struct Assumed {
  std::set<Expr, ExprLess> yes, no;
};

/// Where along a loop a domain holds for some (for all) points of the loops inside.
struct DomainRange {
  Expr some_begin, some_end, all_begin, all_end;
  std::vector<Expr> conditions; // of the domain that hold in all_begin .. all_end
};

/// Lanes beyond the end of an axis: left out, run as the others do (their values are nobody's), or
/// filled with zeros that others read.
enum class Lanes : uint8_t { masked, whole, filled };

/// What a stage does with the lanes of vector loops that reach beyond the end of an axis.
struct LaneUse {
  std::set<size_t> ends;           // its guards that end inside of lanes alone
  std::set<ValueId> reads, writes; // values, by lane
  bool runs = true, fills = true;  // could all lanes run (be filled)?
};

class Lowering {
public:
  /// lanes: of each stage, as lanes_that_run of an earlier run says; empty: masked.
  Lowering(Nests nests, const LowerOptions& options, IdVector<StageId, Lanes> lanes = {});
  /// The tree of shared loops and where values lie; what of it is not legal is a ScheduleFailure.
  void arrange();
  Kernel run(); ///< arranged first
  /// Of nests that groups of lanes run (lower_group.cpp).
  Kernel run_groups();
  /// After the run, when it is known where values lie.
  IdVector<StageId, Lanes> lanes_that_run() const;

private:
  friend class StageLowering;
  // ---- tree ----
  void build_tree();
  TreeNode* leaf_of(StageId stage) const { return leaves_[stage]; }
  void choose_levels();
  // ---- what trees are legal (lower_checks.cpp) ----
  void check_turns();
  void check_level(ValueId value, TreeNode* node);
  void check_finished(ValueId value);
  void check_regions(ValueId value);
  void check_writers(StageId stage) const;
  struct Region {
    Expr base, extent;
  };
  /// Where a component writes dimension `d` while the loops with these symbols are open.
  Region region(StageId stage, const Component& component, size_t d,
                const std::set<Expr, ExprLess>& outer) const;
  /// By dimension, what all components of the stage write of the value together; they write each part of it
  /// once, at constant places (segments STAGE AXIS 2), or there is one of them.
  std::vector<Region> regions(StageId stage, ValueId value, const std::set<Expr, ExprLess>& outer) const;
  // ---- walking ----
  Body emit_children(const TreeNode& node, bool in_parallel, Touched& touched);
  Body emit_node(const TreeNode& node, bool in_parallel, Touched& touched);
  Body emit_loop(const TreeNode& node, bool in_parallel, Touched& touched);
  // ---- tiles that nobody needs (lower_mask.cpp) ----
  const BlockMask* mask_of(const TreeNode& node) const;
  /// What a trip of the loop does, under the condition that its block has elements that count.
  Body under_mask(const TreeNode& node, Body trip, Touched& touched) const;
  Body emit_parts(const TreeNode& node, const OpenLoop& loop, Expr all_begin, Expr all_end,
                  const std::function<void(std::function<void()>)>& whole_part, Touched& touched);
  Body emit_leaf(StageId stage, bool in_parallel, Touched& touched);
  bool carries(const TreeNode& node, const StageLoop& loop, const Touched& touched) const;
  void place_values(const TreeNode& node);
  void touch(const Stage& stage, Touched& touched) const;

  // ---- groups of lanes (lower_group.cpp) ----
  void place_in_group(const Groups& groups);
  void check_in_group(const Groups& groups, ValueId value);

  // ---- loops ----
  struct Bounds {
    Expr begin, end;
    std::vector<Guard> enforced;
  };
  Bounds bounds(const Stage& stage, const StageNest& nest, const StageLoop& loop) const;
  bool is_open(const std::string& loop) const;
  bool parallel_open() const;
  /// Where the variables in e are, as the open loops say.
  std::vector<Expr> open_facts(Expr e) const;
  /// Does the condition hold in all of the part that is being written?
  bool assumed(Expr condition) const {
    const auto instance = n_.instances.find(condition);
    return assumed_.yes.contains(condition) ||
           (instance != n_.instances.end() && assumed_.yes.contains(instance->second));
  }
  /// Where along a loop the stage's domain holds for some (for all) points of the loops that are
  /// not open yet. `known`: the holes that have a value where the loop begins; conditions that read
  /// others say nothing. Along a kept loop of a fold nothing may be left out: what it gives is written
  /// all the same; asked for only where `kept`.
  std::optional<DomainRange> domain_range(StageId stage, const StageNest& nest, const StageLoop& loop,
                                          const std::set<HoleId>& known = {}, bool kept = false) const;
  /// The same for one condition: comparisons, conjunctions and disjunctions that are linear in the loops.
  std::optional<DomainRange> range_along(Expr condition, const StageNest& nest, const StageLoop& loop,
                                         const std::set<HoleId>& known) const;
  /// Do stages share the trips of a predicate_split? (Else it is a loop of one fold, of its results or
  /// bounded by its domain, which is split inside of the stage.)
  bool splits_level(const std::string& loop) const;

  Nests n_;
  LowerOptions options_;
  Kernel kernel_;
  std::unique_ptr<TreeNode> root_;
  IdVector<StageId, TreeNode*> leaves_;
  IdVector<ValueId, TreeNode*> levels_; // of each interior value
  IdVector<ValueId, Place> places_;     // of each value
  std::vector<OpenLoop> open_;
  Assumed assumed_;
  std::map<StageId, std::vector<BufferId>> accumulators_; // of each stage, by component
  std::map<StageId, std::vector<BufferId>> block_accumulators_;
  IdVector<StageId, Lanes> lanes_; // of each stage
  IdVector<StageId, LaneUse> lane_uses_;
  std::map<ValueId, std::set<size_t>> lane_dims_; // dimensions of values that are read by lane
};

/// Is the component of this number an operand of the formula, or of one inside of it?
bool reads_component(const FormulaRef& formula, int number);

/// One stage inside the loops that are open: outer loops, then a tile whose accumulators live in
/// registers.
class StageLowering {
public:
  StageLowering(Lowering& lowering, StageId stage);
  Body run();
  /// In a group, by the lane of this number.
  Body run_in_group(const Groups& groups, Expr lane);

private:
  /// Copied where bodies differ: full tiles and remainders.
  struct State {
    StageNest nest;
    std::vector<bool> held;          // guards that hold
    std::set<Expr, ExprLess> opened; // loop symbols of this stage that are open here
    std::set<HoleId> holes;          // index lets of this scope
    Expr lane = 0;                   // symbol of the open vector loop
    std::set<size_t> ended;          // guards that do not hold for whole tiles here
    std::set<size_t> apart;          // unrolled loops of unknown remainders: run one by one around the tile
    std::map<const Formula*, ValueRef> made; // parts of bodies that have a name in this scope
    std::vector<Guard> within; // the guards of the whole stage, as the loops that are left say them
  };
  using Want = std::function<bool(const StageLoop&)>;
  using Inner = std::function<Body(State&)>;

  // ---- before its loops are made (lower_analysis.cpp) ----
  void analyse();
  void find_folds();
  void divide_loops();
  const StageLoop* find_lane();
  void check_lane(const StageLoop* lane) const;
  void check_scan(const StageLoop* lane) const;
  void find_carried();
  int64_t place_accumulators();
  void make_accumulators(int64_t size, const StageLoop* lane);
  void check_blocks();

  // ---- loops (lower_stage.cpp) ----
  Body outer(size_t i, State state);
  struct AxisEnd;
  AxisEnd axis_end(const State& state, const Guard& guard, Expr last) const;
  Body tails(State state, size_t guard);
  Body remainder(State part, size_t guard, const AxisEnd& end);
  Body step_by_step(State part, size_t guard, size_t loop);
  Body tile(const State& state);
  void fix_loop(State& state, size_t position, Expr place) const;
  /// Opens the tile's loops that are wanted, from position i on; `exprs`: what the innermost
  /// statements index with.
  Body nest_of(size_t i, State state, const Want& want, const std::vector<Expr>& exprs, const Inner& inner);
  Body inside(size_t i, State& state, const Want& want, const std::vector<Expr>& exprs, const Inner& inner);
  Body vector_loop(const StageLoop& loop, State state, const Inner& inside);
  Body unrolled_loop(const StageLoop& loop, State state, const Inner& inside);
  struct TripEnds;
  TripEnds trip_ends(const StageLoop& loop, const State& state) const;
  void bound_trips(const StageLoop& loop, const State& state, TripEnds& ends) const;
  Body trips(const StageLoop& loop, size_t position, State state, Expr from, Expr to, Expr odd,
             const Inner& inside);
  Body serial_loop(const StageLoop& loop, size_t position, const State& state, const Inner& inside);
  Body hole_lets(State& state, const std::vector<Expr>& exprs);
  /// Names for the parts of bodies that the loops still to be opened (from position i of rest_ on)
  /// do not change.
  Body invariants(State& state, size_t i);
  Body start(const State& state);
  Body identities(const State& state);
  /// A statement for each accumulator that the loops of the tile index: for its component, at its offset.
  Body each_accumulator(const State& state, const std::function<StmtRef(size_t component, Expr at)>& make);
  /// blocked_sum: `trips` makes the loop from one trip to another.
  Body in_blocks(const State& state, const StageLoop& loop, Expr from, Expr to,
                 const std::function<Body(const State&, Expr, Expr)>& trips);
  Body reduction(const State& state);
  Expr some_result_is_read(const State& state) const;
  Body finish(const State& state);

  bool reduces(const StageLoop& loop) const; // along an axis that a fold of this stage reduces
  void check_parallel(const StageLoop& loop) const;
  void check_trips(const std::string& loop, Expr begin, Expr end) const;
  std::vector<const StageLoop*> unopened(const State& state, Expr e) const; // loops that e depends on
  /// e with the loops that are not open at their first (last) trip; none where e does not rise
  /// linearly with them.
  Expr at_first(const State& state, Expr e) const;
  std::optional<Expr> at_last(const State& state, Expr e) const;
  bool reduction_guard(const State& state, const Guard& guard) const;

  // ---- lanes beyond an end (lower_lanes.cpp) ----
  const StageLoop* lane_end(const State& state, const Guard& guard) const;
  void note_lanes(const State& state, size_t guard, Expr lane) const;
  Body zeros(State state);

  // ---- groups of lanes (lower_group.cpp) ----
  /// A copy in the group's memory of what the stage reads of a value in one trip of a loop.
  struct GroupTile {
    ValueId value;
    std::string loop;
    std::vector<Expr> index; // of the loads that read it, over axes
    Place place;
    int ring = 1;  // tiles
    Expr size = 0; // of each, in a ring
  };
  void analyse_group(Expr lane, State& state);
  void place_tiles();
  GroupTile tile_of(const GroupCopy& request, const FormulaLoad& load, DType dtype) const;
  const GroupTile* tile_of(const FormulaLoad& load) const; // null where it is read from its own memory
  Body copies(const std::string& loop) const;
  Body copy(const GroupTile& tile, const ExprMap<Expr>& at, bool ahead, int& begun) const;
  int ring_of(const StageLoop& loop) const;
  Body ring_copies(const StageLoop& loop, Expr at, int& begun) const;
  Body ring_body(const StageLoop& loop, Body inside) const;
  Body in_ring(const StageLoop& loop, StmtRef whole) const;
  Body group_loops(size_t i, State state);
  Body group_tile(const State& state);
  Body group_walk(size_t i, State state);
  Body one_trip(const StageLoop& loop, const std::function<Body()>& inner);
  Body serial_in_group(size_t i, State state, const std::function<Body(State)>& inner);
  Body each_result(size_t i, State state, const Inner& inner) const;
  Body group_start(const State& state);
  Body combine_lanes(const State& state);
  Body exchange_lanes(const State& state);
  Body where_held(State& state, bool body, const Inner& inner);
  bool reads_copies_alone() const;

  // ---- units of several lanes (lower_lane_unit.cpp) ----
  /// The product that such a unit computes.
  struct LaneProduct;
  void find_lane_product(State& state);
  void check_lane_product() const;
  void lanes_of_results(State& state, Expr lane);
  Body unit_steps(const State& state);
  Body fragment_word(const State& state, int operand, int64_t w, Expr offset);

  // ---- what is prefetched (lower_prefetch.cpp) ----
  Body prefetches(const State& state, const StageLoop& loop);
  Body prefetched(const State& state, const StageLoop& loop, const PrefetchRequest& p);
  Body meanwhile(const StageLoop& loop, const PrefetchRequest& p);
  std::vector<Expr> prefetched_places(const State& state, const StageLoop& loop,
                                      const PrefetchRequest& p) const;
  Body distributed_over(const State& state, const StageLoop& loop, const PrefetchRequest& p, Expr offset,
                        std::vector<std::pair<int64_t, int64_t>> rows = {}) const;

  // ---- statements (lower_point.cpp) ----
  struct Values {
    Body* body;
    const State* state;
    std::map<const Formula*, ValueRef> made;
    std::map<const Formula*, int> uses;
    std::vector<ValueRef> components;
  };
  Expr first_of_others(const State& state, const Component& part) const;
  Body point(State& state);   // innermost, in the reduction
  Body results(State& state); // innermost, when the folds are finished
  void epilogue(Values& values, const State& state);
  void count_uses(Values& values, const FormulaRef& formula);
  ValueRef value_of(Values& values, const FormulaRef& formula);
  ValueRef loaded(const State& state, const FormulaLoad& f, DType dtype) const;
  ValueRef named(Values& values, ValueRef value);
  ValueRef unit_from(Values& values, const ValueRef& start, const Formula& f);
  ValueRef sum_into_unit(Values& values, const FormulaOp& sum, DType dtype);
  ValueRef operation(Values& values, const FormulaOp& op, DType dtype);
  ValueRef accumulate(Values& values, const Component& c, const ValueRef& accumulated);
  std::vector<ValueRef> combine_states(Values& values, const std::vector<ValueRef>& a,
                                       const std::vector<ValueRef>& b);
  std::vector<ValueRef> combined(Values& values, const std::vector<ValueRef>& mine,
                                 const std::vector<ValueRef>& theirs);
  ValueRef transform(Values& values, int component, const ValueRef& self, const std::vector<ValueRef>& old,
                     const std::vector<ValueRef>& next);
  Expr value_at(const State& state, Expr e) const;             // axes -> loops
  Expr condition_at(const State& state, Expr condition) const; // without what is assumed here
  Expr offset_of(const State& state, ValueId value, const std::vector<Expr>& index) const;
  /// Offset of an accumulator; unrolled reduction loops stand at `parts` (in order of the loops) if
  /// given.
  Expr accumulator_offset(const State& state, const std::vector<int64_t>* parts = nullptr) const;
  bool indexes_accumulator(const StageLoop& loop) const;
  ValueRef accumulator(const State& state, size_t component) const;
  std::vector<Expr> exprs_of(bool body, bool after) const;

  Lowering& l_;
  StageId stage_;
  const Stage& s_;
  size_t cut_ = 0;           // of rest_: loops before it are outer loops, the others the tile
  std::vector<size_t> rest_; // positions of loops that are not open
  bool folds_ = false;
  bool body_phase_ = false;
  bool across_ = false;             // the vector loop is part of the reduction
  bool anew_ = false;               // each trip of carried loops sums from the identity
  bool partial_ = false;            // unrolled reduction loops have accumulators of their own
  std::vector<BufferId> registers_; // accumulators by component
  std::vector<BufferId> of_block_;  // the same, of one block (blocked_sum)
  std::vector<int64_t> strides_;    // of accumulators, by position of the loop
  // reduction loops outside the tile: symbol, begin, end
  std::vector<std::pair<Expr, std::pair<Expr, Expr>>> carried_;
  // in a group of lanes
  Expr lane_number_ = 0;      // which lane this is
  int64_t group_lanes_ = 1;   // of the group
  int64_t reduced_lanes_ = 1; // neighbours that reduce one result together
  std::vector<GroupTile> tiles_;
  std::shared_ptr<LaneProduct> product_; // null: each lane computes its own results
};

} // namespace luminal::kernel
