// egraph/structural_hash.cpp -- a hash of an e-graph up to the names of its classes, by refining
// colours.
#include "egraph/state.h"
#include <algorithm>

namespace luminal::egraph {

namespace {

Hash128 sum(const Hash128& a, const Hash128& b) { return {a.low + b.low, a.high + b.high}; }

/// Colours start equal and are refined by the rows that a class is in; sums make the order of rows
/// irrelevant.
class Refinement {
public:
  explicit Refinement(State& state) : state_(state), colours_(state.classes.size()) {
    for (const OpSpec& op : state_.ops) names_.push_back(hash128(op.name));
  }
  Hash128 run() {
    size_t parts = 1;
    for (int round = 0; round < 64; ++round) {
      const size_t finer = refine();
      if (round > 1 && finer == parts) break; // no class was told apart: more rounds do not either
      parts = finer;
    }
    Hash128 total;
    each_row([&](OpId op, RowId row) { total = sum(total, row_hash(op, row, absent)); });
    return Hasher(1).add(total).value128();
  }

private:
  template <class F> void each_row(const F& f) {
    for (OpId op = 0; op < state_.tables.size(); ++op)
      for (RowId row = 0; row < state_.tables[op].rows(); ++row)
        if (!state_.tables[op].is_dead(row)) f(op, row);
  }
  /// `at`: the column of the class that the hash is for.
  Hash128 row_hash(OpId op, RowId row, uint32_t at) {
    const Table& table = state_.tables[op];
    const OpSpec& spec = state_.ops[op];
    Hasher hasher(at);
    hasher.add(names_[op]).add(table.is_subsumed(row));
    for (uint32_t col = 0; col < table.stride(); ++col) {
      const SortId sort = col < spec.args.size() ? spec.args[col] : spec.out;
      hasher.add(value_hash(sort, table.row(row)[col]));
    }
    return hasher.value128();
  }
  Hash128 value_hash(SortId id, Value value) {
    const SortSpec& sort = state_.sorts[id];
    if (sort.kind == SortKind::eq) return colours_[state_.classes.find(value)];
    if (sort.hash) return sort.hash(value, [this](SortId part, Value v) { return value_hash(part, v); });
    if (sort.print) return hash128(sort.print(value));
    return Hasher(2).add(value).value128();
  }
  /// The number of colours afterwards.
  size_t refine() {
    std::vector<Hash128> next(colours_.size());
    each_row([&](OpId op, RowId row) {
      const Table& table = state_.tables[op];
      for (uint32_t col = 0; col < table.stride(); ++col)
        if (table.eq_cols()[col] != 0)
          next[table.row(row)[col]] = sum(next[table.row(row)[col]], row_hash(op, row, col));
    });
    colours_ = std::move(next);
    std::vector<Hash128> distinct = colours_;
    std::sort(distinct.begin(), distinct.end());
    return static_cast<size_t>(std::unique(distinct.begin(), distinct.end()) - distinct.begin());
  }

  State& state_;
  std::vector<Hash128> colours_, names_;
};

} // namespace

Hash128 EGraph::structural_hash() {
  rebuild();
  return Refinement(*state_).run();
}

} // namespace luminal::egraph
