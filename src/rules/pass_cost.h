// rules/pass_cost.h -- what a choice of terms costs as kernels: which folds run as loops of their own,
// which run inside the loops of others, which share a kernel, and what is stored between them.
//
// A choice is a row for each class and a set of stored values. A PASS is a fold that runs as its own
// nest of loops, or maps over stored values. A fold inside the body of another that varies with the
// axes of those loops is computed there unless its value is stored, as often as it is asked for: a
// convolution in another one is computed nine times. One that does not vary is an earlier pass. A scan
// runs along, in order, with the loop that wants it. Maps above folds are the epilogue of the last one.
// Passes over the same axes share a KERNEL where neither needs the other; a statistic of rows shares
// the kernel that walks these rows again. Kernels never wait for each other in a circle. Values of
// weights alone are there before the step.
//
// What is compared with a computed value is never a sum that the loops of the comparison make: it would
// differ by roundings from the sum that the other value was made of, and a maximum would equal none of its
// terms.
#pragma once
#include "extract/extract_moves.h"
#include "rules/region_loops.h"
#include <deque>
#include <set>
#include <unordered_map>
#include <utility>

namespace luminal::rules {

/// What a machine takes, in nanoseconds, all workers together. Made from its profile
/// (compile/region_search.h).
struct LoopRates {
  double point = 0.02;  ///< of a fold: a multiplication and the addition that takes it
  double step = 0.04;   ///< of a map: a vector instruction, for each element
  double launch = 1000; ///< of a kernel
  double barrier = 0;   ///< between two passes of one kernel
  double l2_bytes = 1 << 20, l3_bytes = 32 << 20;
  double l2_byte = 0.01, l3_byte = 0.02, memory_byte = 0.04; ///< read or written
  double lanes = 16;                                         ///< independent items that keep the machine busy
  /// A product whose results a product reads that another one reads: kernels have tiles for two.
  double far_product = 4;
  double apart = 64; ///< a loop in a sum that is written out, which no kernel has, or the reverse
  double tile = 64;  ///< points along an axis that one item takes when not all of its work varies with it
  /// Beside its traffic, of a byte that is stored and no result: where few bytes count for more than time.
  double stored_byte = 0;
  double overlap = 0.1; ///< of arithmetic and traffic the share of the lesser that adds to the greater
};

/// A nest of loops.
struct Pass {
  std::vector<uint32_t> folds; ///< classes of tuples, joined; none: maps over stored values
  std::vector<uint32_t> reads; ///< classes that are in memory before the step
  std::vector<uint32_t> uses;  ///< classes of stored values that it reads
  std::vector<uint32_t> inner; ///< classes of values that its loops compute and could have read, if stored
  double compute = 0;          ///< nanoseconds, with what is repeated for each tile
  double points = 0;           ///< of its loops
  LoopAxes rows = 0;           ///< fold: the axes that its results share
  bool loops_again = false;    ///< maps that run over the axes of a fold again: no epilogue
  bool plain = false;          ///< reads as many elements as it has points: a statistic, not a product
};

/// Passes that one kernel runs, and what it stores.
struct KernelOfRegion {
  std::vector<uint32_t> stored; ///< classes, ascending
  std::vector<uint32_t> open; ///< of these: read by nothing but opaque terms, whose kernels may compute them
  bool opaque = false;        ///< runs an opaque term: no kernel of the region's
  std::vector<Pass> passes;
  double seconds = 0;
};
struct RegionPlan {
  std::vector<KernelOfRegion> kernels; ///< in an order of execution
  double seconds = 0;
  double stored_bytes = 0; ///< of values that are no results
};

/// Costs choices of one problem. Keeps what it found about passes: a pass is looked up for as long as
/// the classes that it looked at have the same rows, so a small change of a choice costs little.
class PassCost {
public:
  PassCost(const RegionLoops& loops, const LoopRates& rates);
  /// Nanoseconds. The choice has to be complete and without cycles below the roots. `stored`: by class.
  double cost(const egraph::Genome& genome, std::span<const uint8_t> stored);
  /// The same, remembered: candidates that agree on the reached classes are costed once.
  double cost(const egraph::Candidate& candidate, const egraph::Evaluation& evaluation);
  RegionPlan plan(const egraph::Genome& genome, std::span<const uint8_t> stored);
  /// Classes whose storing may be changed: what is stored, and the values that loops compute inside.
  /// Ascending.
  std::vector<uint32_t> store_choices(const egraph::Genome& genome, std::span<const uint8_t> stored);
  uint64_t costed() const { return costed_; } ///< candidates whose passes were arranged for their cost

private:
  struct ViewFrame { ///< a view between the loops and what they read, innermost first
    const LoopView* view;
    const ViewFrame* next;
  };
  struct Work {
    LoopAxes axes;
    double time;
  };
  struct Known {
    std::vector<std::pair<uint32_t, uint32_t>> looked_at; ///< class, state
    Pass pass;
    uint32_t round = 0; ///< of its last use
  };
  struct Variants {               ///< of one pass, for different rows and stored values below it
    std::vector<uint32_t> key;    ///< ascending classes of joint tuples
    std::vector<uint32_t> places; ///< in known_; the one that held last is the first
  };
  struct Unit {      ///< a pass as a node of the order
    uint32_t id = 0; ///< class of the tuple or of the value
    const Pass* pass = nullptr;
    bool fold = false;
  };
  struct Kernel {
    std::vector<uint32_t> units;    ///< ascending
    std::vector<const Pass*> folds; ///< joined passes, one for each set of axes
    double time = 0;
    bool alive = true;
  };

  void arrange(const egraph::Genome& genome, std::span<const uint8_t> stored);
  uint32_t make(uint32_t c);
  const Pass& fold_pass(std::span<const uint32_t> folds);
  const Pass& map_pass(uint32_t c);
  Variants& variants_of(std::span<const uint32_t> folds);
  const Pass* find_known(Variants& variants);
  const Pass& keep(Variants& variants, Pass pass);
  Pass build_folds(std::span<const uint32_t> folds);
  Pass build_maps(uint32_t c);
  void start_pass();
  void start_cone();
  void collect(uint32_t c, LoopAxes loops, const ViewFrame* views, bool top);
  bool visit(uint32_t c, LoopAxes loops);
  bool is_product(uint32_t body) const;
  bool sums_again(uint32_t c, LoopAxes loops, std::set<std::pair<uint32_t, LoopAxes>>& seen) const;
  void take_product(uint32_t body, LoopAxes loops, const ViewFrame* views);
  void add_work(LoopAxes axes, double time);
  void finish(Pass& pass) const;
  double time_of_tiles(LoopAxes outer) const;
  const LoopRow& look(uint32_t c);
  bool is_stored(uint32_t c) const { return stored_[c] != 0 || p_.is_root[c]; }
  static LoopAxes under(const ViewFrame* views, LoopAxes axes);
  double traffic(uint32_t c) const;
  bool follows(uint32_t c, uint32_t unit) const;

  void order_kernels();
  void join_kernels();
  bool reaches(uint32_t a, uint32_t b) const { return before_[b][a / 64] >> (a % 64) & 1; }
  bool may_join(uint32_t a, uint32_t b) const;
  bool shares_rows(uint32_t a, uint32_t b) const;
  bool ends(uint32_t a, uint32_t b) const;
  Kernel joined(uint32_t a, uint32_t b);
  void price(Kernel& kernel);
  void find_readers();
  std::vector<uint32_t> stored_by(const Kernel& kernel) const;
  bool is_opaque(uint32_t unit) const;

  const RegionLoops& p_;
  LoopRates rates_;
  uint64_t costed_ = 0;
  uint32_t round_ = 0; ///< the arrangements so far

  // The choice that is looked at.
  const egraph::Genome* genome_ = nullptr;
  std::span<const uint8_t> stored_;
  std::vector<uint32_t> state_; ///< by class: its row, and whether it is stored

  // What the present pass needs; marks hold where they equal the generation.
  uint32_t cone_ = 0, pass_generation_ = 0;
  std::vector<uint32_t> visit_mark_, visit_head_, read_mark_, use_mark_, inner_mark_, look_mark_,
      component_mark_;
  struct Visit {
    LoopAxes loops;
    uint32_t next;
  };
  std::vector<Visit> visits_;
  std::vector<Work> work_;
  std::vector<uint32_t> reads_, uses_, inner_, union_;
  std::vector<std::pair<uint32_t, uint32_t>> looked_at_;
  double largest_read_ = 0;       ///< elements of the largest operand
  const LoopRow* fold_ = nullptr; ///< in whose body is what is collected
  int depth_ = 0;                 ///< folds between the pass's own and what is collected
  double share_ = 1;              ///< of their points, at which the folds around what is collected combine
  bool infinite_ = false;
  LoopAxes in_order_ = 0; ///< axes that a scan makes sequential

  // The arrangement of the present choice.
  std::vector<Unit> units_;                                 ///< each after those that it needs
  std::vector<uint32_t> made_mark_, made_in_;               ///< by class: the unit whose loops make it
  std::vector<std::pair<uint32_t, const Pass*>> epilogues_; ///< the class that is made
  std::vector<std::vector<uint32_t>> needs_;                ///< by unit
  std::vector<std::vector<uint64_t>> before_;               ///< by kernel: what comes before it
  std::vector<Kernel> kernels_;                             ///< by their first unit
  std::vector<std::vector<std::pair<uint32_t, const Pass*>>> epilogues_of_; ///< by unit
  std::vector<std::vector<uint32_t>> readers_; ///< by class: units that read the value
  std::vector<uint32_t> read_classes_, key_, union_key_;
  size_t words_ = 1;

  std::deque<Known> known_;
  std::vector<Variants> alone_; ///< by class of the tuple, or of the value that maps make
  // Looked up, never walked over.
  std::unordered_map<uint64_t, std::vector<Variants>> joint_by_hash_;
  std::unordered_map<uint64_t, double> remembered_;
};

} // namespace luminal::rules
