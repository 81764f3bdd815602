// rules/folds_cost.h -- what a choice of terms costs as passes over memory: which folds run as
// loops of their own, which run inside the loops of others, which share a pass, and what is stored
// between them.
//
// A choice is a row for each class and a set of stored values. A pass is a fold that runs as its
// own nest of loops. A fold inside the body of another that varies with the axes of those loops is
// computed there unless its value is stored; one that does not vary is an earlier pass. A scan runs
// along, in order, with the loop that wants it. Maps above the last folds are the epilogue of a
// pass, unless they run over the axes of a fold again: then they are a pass. Values of parameters
// alone are there before the step.
#pragma once
#include "extract/extract_moves.h"
#include "extract/extract_passes.h"
#include "folds_loops.h"
#include <deque>
#include <unordered_map>

namespace luminal::egraph::folds {

/// Costs are in elements: the time of reading one from memory with every lane at work.
struct Machine {
  double lanes = 1024;  ///< independent items that keep the machine busy
  double launch = 2000; ///< of each pass
  double tile = 64;     ///< points along an axis that one item takes when not all of its work varies with it
  double flops_per_read = 128; ///< in the time of reading one element
};

/// A nest of loops, or the maps that follow one.
struct Pass {
  std::vector<uint32_t> folds; ///< classes of tuples, joined; none: maps over stored values
  double reads = 0;            ///< elements of inputs
  double flops = 0;            ///< with what is repeated for each tile
  double items = 0;            ///< independent outer items
  bool loops_again = false;    ///< maps that run over the axes of a fold again: a pass; else an epilogue
  std::vector<uint32_t> uses;  ///< classes of stored values that it reads
  /// classes of values that its loops compute and could have read, had they been stored
  std::vector<uint32_t> inner;
  /// Tuples computed inside, with the axes of the loops around them.
  std::vector<std::pair<uint32_t, AxisSet>> nested;
  double price = 0; ///< as a pass of its own
};

/// The passes of a choice, joined, in an order of execution; and the epilogues.
struct Plan {
  std::vector<Pass> passes;
  std::vector<std::pair<uint32_t, Pass>> epilogues; ///< by the class that is made
  double cost = 0;
  double reads = 0;  ///< elements of inputs, over all passes
  double stored = 0; ///< elements of values that passes store for later ones
};

/// Costs choices of one problem. Keeps what it found about passes: a pass is looked up for as long
/// as the classes that it looked at have the same rows, so a small change of a choice costs little.
class PassCost {
public:
  /// Without `join` each fold runs by itself.
  explicit PassCost(const LoopProblem& problem, const Machine& machine = {}, bool join = true);
  /// The choice has to be complete and without cycles below the roots. `stored` is by class.
  double cost(const Genome& genome, std::span<const uint8_t> stored);
  /// The same, remembered: candidates that agree on the reached classes are costed once.
  double cost(const Candidate& candidate, const Evaluation& evaluation);
  Plan plan(const Genome& genome, std::span<const uint8_t> stored);
  /// Classes whose storing may be changed: what is stored, and the values that loops compute
  /// inside. Sorted.
  std::vector<uint32_t> store_choices(const Genome& genome, std::span<const uint8_t> stored);
  uint64_t costed() const { return costed_; }      ///< candidates whose passes were arranged for their cost
  uint64_t passes_built() const { return built_; } ///< passes that were not there yet
  uint64_t passes_found() const { return looked_up_; } ///< passes that were

private:
  struct ViewFrame { ///< a view between the loops and what they read, innermost first
    const LoopView* view;
    const ViewFrame* next;
  };
  struct Work {
    AxisSet axes;
    double flops;
  };
  struct Known {
    std::vector<std::pair<uint32_t, uint32_t>> looked_at; ///< class, state
    Pass pass;
    uint32_t round = 0; ///< of its last use
  };
  struct Variants {               ///< of one pass, for different rows and stored values below it
    std::vector<uint32_t> key;    ///< sorted classes of joint tuples
    std::vector<uint32_t> places; ///< in known_; the one that held last is the first
  };
  struct Unit {  ///< a fold, or maps that are a pass
    uint32_t id; ///< class of the tuple or of the value
    const Pass* pass;
    bool fold;
  };

  void arrange(const Genome& genome, std::span<const uint8_t> stored);
  const Pass& fold_pass(std::span<const uint32_t> folds);
  const Pass& map_pass(uint32_t c);
  Variants& variants_of(std::span<const uint32_t> folds);
  const Pass* find_known(Variants& variants);
  const Pass& keep(Variants& variants, Pass pass);
  Pass build_folds(std::span<const uint32_t> folds);
  Pass build_maps(uint32_t c);
  void start_pass();
  void start_cone();
  void collect(uint32_t c, AxisSet loops, const ViewFrame* views, bool top);
  bool visit(uint32_t c, AxisSet loops);
  void add_use(uint32_t c);
  void add_inner(uint32_t c);
  void add_work(AxisSet axes, double flops);
  void finish(Pass& pass) const;
  double flops_of_tiles(AxisSet outer) const;
  const LoopRow& look(uint32_t c);
  bool is_stored(uint32_t c) const { return stored_[c] != 0 || p_.is_root[c]; }
  static AxisSet under(const ViewFrame* views, AxisSet axes);
  void add_makers(uint32_t c, std::vector<uint32_t>& units);
  void order_units();
  void order_after(uint32_t unit);
  void join_passes();
  double traffic(const Pass& epilogue);

  const LoopProblem& p_;
  Machine machine_;
  bool join_;
  uint64_t costed_ = 0, built_ = 0, looked_up_ = 0;
  uint32_t round_ = 0; ///< the arrangements so far

  // The choice that is looked at.
  const Genome* genome_ = nullptr;
  std::span<const uint8_t> stored_;
  std::vector<uint32_t> state_; ///< by class: its row, and whether it is stored

  // What the present pass needs; marks hold where they equal the generation.
  uint32_t cone_ = 0, pass_generation_ = 0;
  std::vector<uint32_t> visit_mark_, visit_head_, read_mark_, use_mark_, inner_mark_, look_mark_,
      component_mark_;
  struct Visit {
    AxisSet loops;
    uint32_t next;
  };
  std::vector<Visit> visits_;
  std::vector<Work> work_;
  std::vector<uint32_t> uses_, inner_, union_;
  std::vector<std::pair<uint32_t, AxisSet>> nested_;
  std::vector<std::pair<uint32_t, uint32_t>> looked_at_;
  double reads_ = 0;
  AxisSet in_order_ = 0; ///< axes that a scan makes sequential

  // The arrangement of the present choice.
  std::vector<Unit> units_;
  std::vector<std::pair<uint32_t, const Pass*>> epilogues_; ///< maps, with the class made
  std::vector<uint32_t> unit_of_, unit_mark_, made_mark_, epilogue_of_, todo_, order_, place_, makers_, key_,
      union_key_;
  std::vector<double> sizes_;
  std::vector<std::vector<uint32_t>> before_; ///< by unit
  std::vector<uint8_t> ordered_;
  PassGraph graph_;
  std::vector<const Pass*> group_pass_;        ///< by the group's first place in the order
  std::vector<std::vector<uint32_t>> sources_; ///< groups that a value comes from

  std::deque<Known> known_;
  std::vector<Variants> alone_; ///< by class of the tuple, or of the value that maps make
  // Looked up, never walked over.
  std::unordered_map<uint64_t, std::vector<Variants>> joint_by_hash_;
  std::unordered_map<uint64_t, double> remembered_;
};

} // namespace luminal::egraph::folds
