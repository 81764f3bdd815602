// egraph/analysis.cpp -- lattice values of classes: contributions of rows joined, to a fixpoint,
// from a worklist without duplicates.
#include "egraph/state.h"
#include <cassert>
#include <fmt/format.h>

namespace luminal::egraph {

namespace {

/// Brings one analysis up to date. Deterministic: classes are taken in the order in which they
/// became due.
class Update {
public:
  Update(State& state, AnalysisColumn& column) : state_(state), column_(column) {}

  void run() {
    const size_t classes = state_.classes.size();
    if (column_.generation != state_.generation) { // rows vanished: from the start
      column_.values.clear();
      column_.unions_upto = 0;
      column_.upto.clear();
      column_.generation = state_.generation;
    }
    column_.values.resize(classes, column_.spec.bottom);
    column_.upto.resize(state_.tables.size(), 0);
    queued_.assign(classes, false);
    // Values of ids that lost their lead go to the leaders.
    const Buffer<UnionRecord>& log = state_.classes.log();
    for (size_t i = column_.unions_upto; i < log.size(); ++i)
      for (const ClassId id : {log[i].a, log[i].b}) raise(state_.classes.find(id), column_.values[id]);
    for (ClassId id = 0; column_.unions_upto < log.size() && id < classes; ++id)
      if (!state_.classes.is_leader(id)) raise(state_.classes.find(id), column_.values[id]);
    column_.unions_upto = log.size();
    for (OpId op = 0; op < state_.tables.size(); ++op) {
      Table& table = state_.tables[op];
      if (table.eq_cols()[table.keys()] == 0) continue;
      for (uint32_t col = 0; col < table.keys(); ++col)
        if (table.eq_cols()[col] != 0) table.index(col).wanted = true;
      table.extend_indexes();
      for (RowId row = column_.upto[op]; row < table.rows(); ++row) visit(op, row);
      column_.upto[op] = table.rows();
    }
    for (size_t at = 0; at < queue_.size(); ++at) {
      const ClassId id = queue_[at];
      queued_[id] = false;
      for (OpId op = 0; op < state_.tables.size(); ++op) {
        const Table& table = state_.tables[op];
        if (table.live() == 0 || table.eq_cols()[table.keys()] == 0) continue;
        for (uint32_t col = 0; col < table.keys(); ++col) {
          if (table.eq_cols()[col] == 0) continue;
          for (RowId row = table.index(col).head(id); row != absent; row = table.index(col).next(row))
            visit(op, row);
        }
      }
    }
  }

private:
  Value join(Value a, Value b) {
    const Value joined = column_.spec.join(a, b);
    assert(column_.spec.join(b, a) == joined && column_.spec.join(joined, joined) == joined &&
           "an analysis' join is not a least upper bound");
    return joined;
  }
  void raise(ClassId leader, Value value) {
    Value& known = column_.values[leader];
    if (known == value) return;
    const Value joined = join(known, value);
    if (joined == known) return;
    known = joined;
    if (!queued_[leader]) {
      queued_[leader] = true;
      queue_.push_back(leader);
    }
  }
  void visit(OpId op, RowId row) {
    const Table& table = state_.tables[op];
    if (table.is_dead(row)) return;
    const RowView view{op, row, {table.row(row), table.stride()}, table.is_subsumed(row)};
    raise(table.out(row), column_.spec.make(view, of_));
  }

  State& state_;
  AnalysisColumn& column_;
  std::vector<bool> queued_;
  std::vector<ClassId> queue_;
  const std::function<Value(ClassId)> of_ = [this](ClassId id) {
    return column_.values[state_.classes.find(id)];
  };
};

} // namespace

AnalysisId EGraph::add_analysis(AnalysisSpec spec) {
  if (!spec.make || !spec.join) throw Error(fmt::format("analysis {} needs make and join", spec.name));
  AnalysisColumn column;
  column.spec = std::move(spec);
  column.generation = state_->generation;
  state_->analyses.push_back(std::move(column));
  return static_cast<AnalysisId>(state_->analyses.size() - 1);
}

Value EGraph::analysis(AnalysisId id, ClassId class_id) {
  if (id >= state_->analyses.size()) throw Error(fmt::format("there is no analysis {}", id));
  rebuild();
  AnalysisColumn& column = state_->analyses[id];
  bool stale = column.generation != state_->generation || column.values.size() != state_->classes.size() ||
               column.unions_upto != state_->classes.log().size() ||
               column.upto.size() != state_->tables.size();
  for (OpId op = 0; op < state_->tables.size() && !stale; ++op)
    stale = state_->tables[op].eq_cols().back() != 0 && column.upto[op] != state_->tables[op].rows();
  if (stale) Update(*state_, column).run();
  return column.values[find(class_id)];
}

} // namespace luminal::egraph
