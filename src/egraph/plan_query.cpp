// egraph/plan_query.cpp -- the order of the steps of a query: greedy, by live statistics of the
// tables.
#include "egraph/trie.h"

namespace luminal::egraph {

namespace {

class Planner {
public:
  Planner(State& state, const CompiledQuery& query, std::span<const uint32_t> open,
          std::span<const Value> known)
      : state_(state), query_(query), open_(open), known_(known), bound_(known.size(), false),
        origins_(known.size()), placed_(query.atoms.size(), true), placed_prims_(query.prims.size(), false) {
    for (size_t v = 0; v < known.size(); ++v) bound_[v] = known[v] != absent;
    for (const uint32_t atom : open) placed_[atom] = false;
  }

  /// Scans `root` first.
  void start(uint32_t root) {
    steps_.push_back({PlannedStep::Kind::scan, root, 0, absent});
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
        Choice& choice = choices_[atom];
        if (choice.atom == absent) choice = consider(atom);
        if (best.atom == absent || choice.score < best.score) best = choice;
      }
      if (best.atom == absent) break;
      if (const Partner with = partner_of(best); with.choice.atom != absent) {
        steps_.push_back({PlannedStep::Kind::meet, best.atom, best.col, absent, with.choice.atom,
                          with.choice.col, with.shared});
        cost_ += partial_ * (best.work + with.choice.work);
        partial_ *= best.result;
        place(best.atom);
        partial_ *= estimate(with.choice.atom).result;
        place(with.choice.atom);
        continue;
      }
      steps_.push_back({best.kind, best.atom, best.col, best.work > long_run() ? best.other_col : absent});
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
    PlannedStep::Kind kind = PlannedStep::Kind::scan;
    uint32_t col = 0;
    double score = 0, work = 0, result = 0;
    uint32_t other_col = absent; ///< the second best index
    double other_work = 0;
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

  /// The chance that a value drawn from one column equals one drawn from another, from their
  /// samples: 0 where they have no frequent value in common.
  double chance(OpId op_a, uint32_t col_a, OpId op_b, uint32_t col_b) {
    const Table::Statistics& a = state_.tables[op_a].statistics(col_a);
    const Table::Statistics& b = state_.tables[op_b].statistics(col_b);
    const uint64_t key =
        static_cast<uint64_t>(op_a) << 48 | static_cast<uint64_t>(col_a) << 32 | op_b << 16 | col_b;
    State::PairChance& known = state_.pair_chances[key];
    if (known.version_a == a.version && known.version_b == b.version) return known.chance;
    const bool itself = op_a == op_b && col_a == col_b;
    double pairs = 0;
    for (size_t i = 0, j = 0; i < a.sample.size() && j < b.sample.size();) {
      const Value value = std::max(a.sample[i], b.sample[j]);
      size_t in_a = 0, in_b = 0;
      while (i < a.sample.size() && a.sample[i] < value) ++i;
      while (j < b.sample.size() && b.sample[j] < value) ++j;
      while (i < a.sample.size() && a.sample[i] == value) ++i, ++in_a;
      while (j < b.sample.size() && b.sample[j] == value) ++j, ++in_b;
      // A row of the sample always meets itself: that says nothing about other rows.
      pairs +=
          static_cast<double>(in_a) * static_cast<double>(itself ? in_b - std::min<size_t>(in_b, 1) : in_b);
    }
    known = {pairs /
                 std::max(1.0, static_cast<double>(a.sample.size()) * static_cast<double>(b.sample.size())),
             a.version, b.version};
    return known.chance;
  }

  /// The share of the rows that hold the value of `slot` in this column. 0: none is known.
  double frequent_share(OpId op, uint32_t col, const Slot& slot) {
    if (slot.constant) return state_.tables[op].statistics(col).share(slot.id);
    if (known_[slot.id] != absent) return state_.tables[op].statistics(col).share(known_[slot.id]);
    const Origin& origin = origins_[slot.id];
    return origin.op == absent ? 0 : chance(origin.op, origin.col, op, col);
  }

  /// Rows expected for given values of the bound columns, and the column whose index gives the
  /// fewest.
  Choice estimate(uint32_t atom) {
    const CompiledAtom& a = query_.atoms[atom];
    Table& table = state_.tables[a.op];
    const OpSpec& spec = state_.ops[a.op];
    Choice choice{atom, PlannedStep::Kind::scan,           0,
                  0,    static_cast<double>(table.live()), static_cast<double>(table.live())};
    for (uint32_t col = 0; col < a.cols.size(); ++col) {
      if (!is_bound(a.cols[col])) continue;
      const double distinct = table.statistics(col).distinct;
      const SortId sort = col < spec.args.size() ? spec.args[col] : spec.out;
      const double domain =
          state_.sorts[sort].kind == SortKind::eq ? std::max(distinct, classes_of(sort)) : distinct;
      const double frequent = frequent_share(a.op, col, a.cols[col]);
      const double fan = std::max(1.0, table.live() * std::max(frequent, 1 / distinct));
      if (choice.kind == PlannedStep::Kind::scan || fan < choice.work) {
        if (choice.kind == PlannedStep::Kind::index) {
          choice.other_col = choice.col;
          choice.other_work = choice.work;
        }
        choice.kind = PlannedStep::Kind::index;
        choice.col = col;
        choice.work = fan;
      } else if (choice.other_col == absent || fan < choice.other_work) {
        choice.other_col = col;
        choice.other_work = fan;
      }
      choice.result *= std::max(frequent, 1 / domain);
    }
    return choice;
  }

  double long_run() const { return state_.plan_options.long_run; }

  struct Partner {
    Choice choice;
    VarId shared = absent;
  };
  /// An atom that hangs on known values as `first` does, and shares a variable with it that is not
  /// known: the two close a cycle. Taken one after the other they may cost the product of their
  /// runs; a meet costs their sum, or the shorter one. A column that holds one value in most rows
  /// (the output of a relation) makes no such run.
  Partner partner_of(const Choice& first) {
    Partner best;
    const auto selective = [&](const Choice& choice) {
      return choice.kind == PlannedStep::Kind::index && choice.work > long_run() &&
             (long_run() == 0 || 2 * choice.work <= state_.tables[query_.atoms[choice.atom].op].live());
    };
    if (!selective(first)) return best;
    for (const uint32_t atom : open_) {
      if (placed_[atom] || atom == first.atom) continue;
      const Choice& choice = choices_[atom];
      if (!selective(choice) || (best.choice.atom != absent && choice.work >= best.choice.work)) continue;
      const VarId shared = shared_variable(query_.atoms[first.atom], query_.atoms[atom]);
      if (shared != absent) best = {choice, shared};
    }
    return best;
  }
  VarId shared_variable(const CompiledAtom& a, const CompiledAtom& b) const {
    for (const Slot& slot : a.cols)
      if (!is_bound(slot))
        for (const Slot& other : b.cols)
          if (!other.constant && other.id == slot.id) return slot.id;
    return absent;
  }

  Choice consider(uint32_t atom) {
    const CompiledAtom& a = query_.atoms[atom];
    bool keys_bound = true;
    for (size_t col = 0; col + 1 < a.cols.size(); ++col) keys_bound &= is_bound(a.cols[col]);
    Choice choice = estimate(atom);
    if (keys_bound) {
      choice.kind = PlannedStep::Kind::lookup;
      choice.work = 1;
      choice.result = std::min(choice.result, 1.0);
    }
    choice.score = choice.result + 0.02 * choice.work;
    // A product with unconnected rows comes last.
    if (choice.kind == PlannedStep::Kind::scan) choice.score = 1e6 + choice.work;
    return choice;
  }

  /// What was expected of atoms with this variable no longer holds.
  void bind(VarId var) {
    bound_[var] = true;
    for (const uint32_t atom : open_)
      for (const Slot& slot : query_.atoms[atom].cols)
        if (!slot.constant && slot.id == var) choices_[atom] = {};
  }

  void place(uint32_t atom) {
    placed_[atom] = true;
    const CompiledAtom& a = query_.atoms[atom];
    for (uint32_t col = 0; col < a.cols.size(); ++col) {
      const Slot& slot = a.cols[col];
      if (slot.constant || bound_[slot.id]) continue;
      origins_[slot.id] = {a.op, col};
      bind(slot.id);
    }
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
        steps_.push_back({PlannedStep::Kind::prim, i, 0, absent});
        if (!prim.out.constant) bind(prim.out.id);
      }
    }
  }

  struct Origin {
    OpId op = absent; ///< the column that the variable was bound from
    uint32_t col = 0;
  };
  State& state_;
  const CompiledQuery& query_;
  std::span<const uint32_t> open_;
  std::span<const Value> known_;
  std::vector<bool> bound_;
  std::vector<Origin> origins_;
  std::vector<bool> placed_, placed_prims_;
  std::vector<PlannedStep> steps_;
  std::vector<Choice> choices_ = std::vector<Choice>(placed_.size()); // by atom; atom == absent: not known
  std::vector<double> class_counts_;
  double cost_ = 0, partial_ = 1;
};

} // namespace

std::vector<PlannedStep> make_plan(State& state, const CompiledQuery& query, std::span<const uint32_t> open,
                                   std::span<const Value> known, uint32_t root) {
  if (root != absent) {
    Planner planner(state, query, open, known);
    planner.start(root);
    planner.finish();
    return planner.take();
  }
  // Without a given root: the smallest tables are tried as the first scan, and a start from what is
  // known already.
  Planner from_known(state, query, open, known);
  from_known.finish();
  double best_cost = from_known.cost();
  std::vector<PlannedStep> best = from_known.take();
  std::vector<uint32_t> roots(open.begin(), open.end());
  std::stable_sort(roots.begin(), roots.end(), [&](uint32_t a, uint32_t b) {
    return state.tables[query.atoms[a].op].live() < state.tables[query.atoms[b].op].live();
  });
  if (roots.size() > 4) roots.resize(4);
  for (const uint32_t atom : roots) {
    Planner planner(state, query, open, known);
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
