// egraph/plan.cpp -- the order of the steps of a query: greedy, by live statistics of the tables.
#include "egraph/trie.h"

namespace luminal::egraph {

namespace {

class Planner {
public:
  Planner(State& state, const CompiledQuery& query, std::span<const uint32_t> open, std::vector<bool> bound)
      : state_(state), query_(query), open_(open), bound_(std::move(bound)),
        placed_(query.atoms.size(), true), placed_prims_(query.prims.size(), false) {
    for (const uint32_t atom : open) placed_[atom] = false;
  }

  /// Scans `root` first.
  void start(uint32_t root) {
    steps_.push_back({Node::Kind::scan, root, 0});
    const Table& table = state_.tables[query_.atoms[root].op];
    cost_ += table.live();
    partial_ = std::max(1.0, estimate(root).result);
    place(root);
  }
  void finish() {
    for (;;) {
      place_prims();
      Choice best;
      for (const uint32_t atom : open_) {
        if (placed_[atom]) continue;
        const Choice choice = consider(atom);
        if (best.atom == absent || choice.score < best.score) best = choice;
      }
      if (best.atom == absent) break;
      steps_.push_back({best.kind, best.atom, best.col});
      cost_ += partial_ * (best.work + 0.5);
      partial_ *= best.result;
      place(best.atom);
    }
  }
  double cost() const { return cost_; }
  std::vector<PlannedStep> take() { return std::move(steps_); }

private:
  struct Choice {
    uint32_t atom = absent;
    Node::Kind kind = Node::Kind::scan;
    uint32_t col = 0;
    double score = 0, work = 0, result = 0;
  };

  bool is_bound(const Slot& slot) const { return slot.constant || bound_[slot.id]; }

  /// Classes of a sort that some row has as its output, roughly.
  double classes_of(SortId sort) {
    if (class_counts_.empty()) {
      class_counts_.assign(state_.sorts.size(), 0);
      for (OpId op = 0; op < state_.ops.size(); ++op)
        if (state_.tables[op].live() != 0 && state_.sorts[state_.ops[op].out].kind == SortKind::eq)
          class_counts_[state_.ops[op].out] +=
              state_.tables[op].statistics(state_.tables[op].keys()).distinct;
    }
    return std::max(1.0, class_counts_[sort]);
  }

  /// Rows expected for given values of the bound columns, and the column whose index gives the fewest.
  Choice estimate(uint32_t atom) {
    const CompiledAtom& a = query_.atoms[atom];
    Table& table = state_.tables[a.op];
    const OpSpec& spec = state_.ops[a.op];
    Choice choice{
        atom, Node::Kind::scan, 0, 0, static_cast<double>(table.live()), static_cast<double>(table.live())};
    for (uint32_t col = 0; col < a.cols.size(); ++col) {
      if (!is_bound(a.cols[col])) continue;
      const Table::Statistics& known = table.statistics(col);
      const SortId sort = col < spec.args.size() ? spec.args[col] : spec.out;
      const double domain = state_.sorts[sort].kind == SortKind::eq
                                ? std::max(known.distinct, classes_of(sort))
                                : known.distinct;
      const double fan = known.fan;
      if (choice.kind == Node::Kind::scan || fan < choice.work) {
        choice.kind = Node::Kind::index;
        choice.col = col;
        choice.work = fan;
      }
      // The chance that the value is in the table at all, times the share of rows that hold it.
      choice.result *= known.distinct / domain * fan / std::max(1u, table.live());
    }
    return choice;
  }

  Choice consider(uint32_t atom) {
    const CompiledAtom& a = query_.atoms[atom];
    bool keys_bound = true;
    for (size_t col = 0; col + 1 < a.cols.size(); ++col) keys_bound &= is_bound(a.cols[col]);
    Choice choice = estimate(atom);
    if (keys_bound) {
      choice.kind = Node::Kind::lookup;
      choice.work = 1;
      choice.result = std::min(choice.result, 1.0);
    }
    choice.score = choice.result + 0.02 * choice.work;
    // A product with unconnected rows comes last.
    if (choice.kind == Node::Kind::scan) choice.score = 1e6 + choice.work;
    return choice;
  }

  void place(uint32_t atom) {
    placed_[atom] = true;
    for (const Slot& slot : query_.atoms[atom].cols)
      if (!slot.constant) bound_[slot.id] = true;
  }

  void place_prims() {
    for (bool more = true; more;) {
      more = false;
      for (uint32_t i = 0; i < query_.prims.size(); ++i) {
        if (placed_prims_[i]) continue;
        const CompiledPrim& prim = query_.prims[i];
        if (!std::all_of(prim.args.begin(), prim.args.end(),
                         [&](const Slot& slot) { return is_bound(slot); }))
          continue;
        placed_prims_[i] = more = true;
        steps_.push_back({Node::Kind::prim, i, 0});
        if (!prim.out.constant) bound_[prim.out.id] = true;
      }
    }
  }

  State& state_;
  const CompiledQuery& query_;
  std::span<const uint32_t> open_;
  std::vector<bool> bound_, placed_, placed_prims_;
  std::vector<PlannedStep> steps_;
  std::vector<double> class_counts_;
  double cost_ = 0, partial_ = 1;
};

} // namespace

std::vector<PlannedStep> make_plan(State& state, const CompiledQuery& query, std::span<const uint32_t> open,
                                   std::vector<bool> bound, uint32_t root) {
  if (root != absent) {
    Planner planner(state, query, open, std::move(bound));
    planner.start(root);
    planner.finish();
    return planner.take();
  }
  // Without a given root: every atom is tried as the first scan, and a start from what is bound already.
  Planner from_bound(state, query, open, bound);
  from_bound.finish();
  double best_cost = from_bound.cost();
  std::vector<PlannedStep> best = from_bound.take();
  for (const uint32_t atom : open) {
    Planner planner(state, query, open, bound);
    planner.start(atom);
    planner.finish();
    if (planner.cost() < best_cost) {
      best_cost = planner.cost();
      best = planner.take();
    }
  }
  return best;
}

} // namespace luminal::egraph
