// egraph/match_rule.cpp -- the interpreter of plans: rows that pass a node's tests bind registers
// and go on to its children.
#include "egraph/match_rule.h"
#include <algorithm>

namespace luminal::egraph {

Matcher::Matcher(State& state, Trie& trie, std::span<const RowId> middles, Meter& meter,
                 std::span<NodeCount> counts, const std::function<bool(std::span<const Value>)>* on_match)
    : state_(state), trie_(trie), middles_(middles), meter_(meter), counts_(counts), on_match_(on_match) {
  matches.values.resize(trie.entries.size());
  matches.counts.resize(trie.entries.size(), 0);
  regs_.resize(trie.globals_at + trie.globals.size(), absent);
  for (size_t i = 0; i < trie.globals.size(); ++i) regs_[trie.globals_at + i] = trie.globals[i].value;
}

void Matcher::emit(const TrieNode::Emit& emit) {
  if (on_match_ != nullptr) {
    call_args_.clear();
    for (const Reg reg : emit.regs) call_args_.push_back(regs_[reg]);
    if (!(*on_match_)(call_args_)) stopped_ = true;
    return;
  }
  Value* to = matches.values[emit.entry].extend(emit.regs.size());
  for (const Reg reg : emit.regs) *to++ = regs_[reg];
  ++matches.counts[emit.entry];
  values_ += emit.regs.size() + 1;
}

void Matcher::descend(const TrieNode& node) {
  for (const TrieNode::Emit& e : node.emits)
    if (e.stamp == trie_.stamp) emit(e);
  for (const std::unique_ptr<TrieNode>& child : node.children) {
    if (child->stamp != trie_.stamp) continue;
    walk(*child);
    if (stopped_) return;
  }
}

inline bool Matcher::take(const RowTest& test, const Table& table, RowId row, const Value* cells) {
  if (!test.include_subsumed && table.any_subsumed() && table.is_subsumed(row)) return false;
  for (const auto& [col, reg] : test.checks)
    if (cells[col] != regs_[reg]) return false;
  for (const auto& [a, b] : test.same)
    if (cells[a] != cells[b]) return false;
  for (const auto& [col, reg] : test.binds) regs_[reg] = cells[col];
  return true;
}

void Matcher::run_scan(const TrieNode& root, RowId first, RowId last) {
  const Table& table = state_.tables[std::get<Scan>(root.step).op];
  const uint32_t keys = table.keys();
  for (RowId row = first; row < last && !stopped_; ++row) {
    const Value* cells = table.row(row);
    if (cells[keys] == absent) continue;
    count_step(root);
    for (const std::unique_ptr<TrieNode>& child : root.children) {
      if (child->stamp != trie_.stamp || !take(child->test, table, row, cells)) continue;
      descend(*child);
      if (stopped_) return;
    }
  }
}

void Matcher::walk_rows(const TrieNode& node, const Table& table, RowId last) {
  const uint32_t keys = table.keys();
  for (RowId row = 0; row < last && !stopped_; ++row) {
    const Value* cells = table.row(row);
    if (cells[keys] == absent) continue;
    count_step(node);
    if (take(node.test, table, row, cells)) descend(node);
  }
}

void Matcher::walk_index(const TrieNode& node, const WalkIndex& step) {
  const auto may_hold = [&](const Run& run) {
    return run.signature == 0 || (state_.classes.signature(regs_[run.key]) & run.signature) != 0;
  };
  const Value key = regs_[step.run.key];
  if (!may_hold(step.run)) return;
  const Table& table = state_.tables[step.op];
  const Index* index = &table.index(step.run.col);
  RowId row = index->head(key);
  ++counts_[node.id].probes;
  if (step.other) {
    if (!may_hold(*step.other)) return;
    const Index& other = table.index(step.other->col);
    ++counts_[node.id].probes;
    const RowId other_row = other.head(regs_[step.other->key]);
    if (!first_is_shorter(node, *index, row, other, other_row)) {
      index = &other;
      row = other_row;
    }
  }
  const uint32_t keys = table.keys();
  const RowId below = step.old_only ? middles_[step.op] : absent;
  for (; row != absent && !stopped_; row = index->next(row)) {
    if (row >= below) continue;
    const Value* cells = table.row(row);
    if (cells[keys] == absent) continue;
    count_step(node);
    if (take(node.test, table, row, cells)) descend(node);
  }
}

/// Walks both runs side by side, to the end of the shorter one.
bool Matcher::first_is_shorter(const TrieNode& node, const Index& first, RowId a, const Index& second,
                               RowId b) {
  for (uint32_t length = 0; a != absent && b != absent && !stopped_; ++length) {
    a = first.next(a);
    b = second.next(b);
    if (length % 16 == 15) count_step(node);
  }
  return a == absent || b != absent;
}

void Matcher::pair(const TrieNode& node, const Meet& step, RowId first, RowId second) {
  count_step(node);
  const Table &table = state_.tables[step.sides[0].op], &other = state_.tables[step.sides[1].op];
  regs_[step.shared] = table.row(first)[step.sides[0].shared_col];
  if (!take(node.test, table, first, table.row(first))) return;
  for (const std::unique_ptr<TrieNode>& child : node.children) {
    if (child->stamp != trie_.stamp) continue;
    if (take(child->test, other, second, other.row(second))) descend(*child);
    if (stopped_) return;
  }
}

void Matcher::probe(const TrieNode& node, const Meet& step, bool swapped, RowId row, Value value) {
  const Side& side = step.sides[swapped ? 0 : 1];
  const Table& table = state_.tables[side.op];
  const RowId below = side.old_only ? middles_[side.op] : absent;
  const auto meet_with = [&](RowId other) {
    if (other < below) swapped ? pair(node, step, other, row) : pair(node, step, row, other);
  };
  ++counts_[node.id].probes;
  if (!side.args.empty()) {
    regs_[step.shared] = value;
    call_args_.clear();
    for (const Reg arg : side.args) call_args_.push_back(regs_[arg]);
    const RowId other = table.find(call_args_.data());
    if (other != absent) meet_with(other);
    return;
  }
  // Either run holds the rows that are wanted: the shorter one is walked.
  const Value key = regs_[side.run.key];
  const Index& by_key = table.index(side.run.col);
  const Index& by_value = table.index(side.shared_col);
  const RowId of_key = by_key.head(key), of_value = by_value.head(value);
  const bool walks_key = first_is_shorter(node, by_key, of_key, by_value, of_value);
  const Index& index = walks_key ? by_key : by_value;
  for (RowId other = walks_key ? of_key : of_value; other != absent && !stopped_; other = index.next(other)) {
    const Value* cells = table.row(other);
    if (cells[table.keys()] == absent) continue;
    count_step(node);
    if (cells[side.run.col] == key && cells[side.shared_col] == value) meet_with(other);
  }
}

void Matcher::walk_meet(const TrieNode& node, const Meet& step) {
  RowId heads[2] = {};
  for (int i = 0; i < 2; ++i) {
    const auto& [col, key, signature] = step.sides[i].run;
    if (signature != 0 && (state_.classes.signature(regs_[key]) & signature) == 0) return;
    ++counts_[node.id].probes;
    heads[i] = state_.tables[step.sides[i].op].index(col).head(regs_[key]);
    if (heads[i] == absent) return;
  }
  const auto next = [&](int side, RowId row) {
    return state_.tables[step.sides[side].op].index(step.sides[side].run.col).next(row);
  };
  // Both runs side by side to the end of the shorter one.
  RowId at[2] = {heads[0], heads[1]};
  uint32_t length = 0;
  for (; at[0] != absent && at[1] != absent; ++length) {
    for (int i = 0; i < 2; ++i) at[i] = next(i, at[i]);
    if (length % 16 == 15) count_step(node);
  }
  const int few = at[0] == absent ? 0 : 1, many = 1 - few;
  const size_t base = gathered_.size();
  const auto each = [&](int which, const auto& f) {
    const Side& side = step.sides[which];
    const Table& table = state_.tables[side.op];
    const RowId below = side.old_only ? middles_[side.op] : absent;
    for (RowId row = heads[which]; row != absent && !stopped_; row = next(which, row)) {
      if (row >= below || table.is_dead(row)) continue;
      count_step(node);
      f(row, table.row(row)[side.shared_col]);
    }
  };
  const Side& other = step.sides[many];
  bool sum = other.args.empty(); // the sum of the runs is cheap: the rest of the longer one is not much
  for (uint32_t rest = 4 * length + 16; sum && at[many] != absent; at[many] = next(many, at[many]))
    sum = rest-- != 0;
  if (!sum) {
    each(few, [&](RowId row, Value value) { probe(node, step, few == 1, row, value); });
    return;
  }
  each(few, [&](RowId row, Value value) { gathered_.emplace_back(value, row); });
  std::sort(gathered_.begin() + static_cast<ptrdiff_t>(base), gathered_.end());
  const size_t end = gathered_.size();
  each(many, [&](RowId row, Value value) {
    size_t i = static_cast<size_t>(std::lower_bound(gathered_.begin() + static_cast<ptrdiff_t>(base),
                                                    gathered_.begin() + static_cast<ptrdiff_t>(end),
                                                    std::pair<Value, RowId>(value, 0)) -
                                   gathered_.begin());
    for (; i < end && gathered_[i].first == value && !stopped_; ++i)
      few == 0 ? pair(node, step, gathered_[i].second, row) : pair(node, step, row, gathered_[i].second);
  });
  gathered_.resize(base);
}

void Matcher::walk_lookup(const TrieNode& node, const Lookup& step) {
  const Table& table = state_.tables[step.op];
  Value key[32];
  std::vector<Value> long_key;
  Value* values = key;
  if (step.args.size() > 32) {
    long_key.resize(step.args.size());
    values = long_key.data();
  }
  for (size_t i = 0; i < step.args.size(); ++i) values[i] = regs_[step.args[i]];
  ++counts_[node.id].probes;
  count_step(node);
  const RowId row = table.find(values);
  if (row == absent || (step.old_only && row >= middles_[step.op])) return;
  if (take(node.test, table, row, table.row(row))) descend(node);
}

void Matcher::call(const TrieNode& node, const CallPrim& step) {
  Value args[32];
  std::vector<Value> many;
  Value* values = args;
  if (step.args.size() > 32) {
    many.resize(step.args.size());
    values = many.data();
  }
  for (size_t i = 0; i < step.args.size(); ++i) values[i] = regs_[step.args[i]];
  count_step(node);
  Value out = 0;
  if (!state_.prims[step.prim].call({values, step.args.size()}, out)) return;
  if (!step.out_bound)
    regs_[step.out] = out;
  else if (out != regs_[step.out])
    return;
  descend(node);
}

void Matcher::walk(const TrieNode& node) {
  if (const auto* index = std::get_if<WalkIndex>(&node.step))
    walk_index(node, *index);
  else if (const auto* lookup = std::get_if<Lookup>(&node.step))
    walk_lookup(node, *lookup);
  else if (const auto* prim = std::get_if<CallPrim>(&node.step))
    call(node, *prim);
  else if (const auto* meet = std::get_if<Meet>(&node.step))
    walk_meet(node, *meet);
  else if (const auto* scan = std::get_if<Scan>(&node.step)) {
    const Table& table = state_.tables[scan->op];
    walk_rows(node, table, scan->old_only ? middles_[scan->op] : table.rows());
  }
  // Filters and partners are children that their parents walk.
}

} // namespace luminal::egraph
