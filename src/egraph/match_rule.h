// egraph/match_rule.h -- walks a trie over the tables and collects matches.
#pragma once
#include "egraph/limits.h"
#include "egraph/trie.h"

namespace luminal::egraph {

/// Matches by entry of the trie, in the order they were found: `count` times the values of
/// Emit::regs.
struct Matches {
  std::vector<Buffer<Value>> values;
  std::vector<uint64_t> counts;
};

/// One thread's walk. Reads the tables only.
class Matcher {
public:
  /// `middles`: by operator, the first row that is new. `counts`: by TrieNode::id, added to.
  /// `on_match`: called instead of collecting; returns false to end the walk.
  Matcher(State& state, Trie& trie, std::span<const RowId> middles, Meter& meter, std::span<NodeCount> counts,
          const std::function<bool(std::span<const Value>)>* on_match = nullptr);

  void run_once() { descend(trie_.once); }
  /// Rows first..last-1 of the root's table.
  void run_scan(const TrieNode& root, RowId first, RowId last);

  Matches matches;
  /// Tells the meter the steps that it was not told of yet.
  void finish_count() { meter_.matching(steps_ & 1023, values_); }

private:
  void walk(const TrieNode& node);
  void walk_index(const TrieNode& node, const WalkIndex& step);
  void walk_meet(const TrieNode& node, const Meet& step);
  void walk_lookup(const TrieNode& node, const Lookup& step);
  void call(const TrieNode& node, const CallPrim& step);
  bool first_is_shorter(const TrieNode& node, const Index& first, RowId a, const Index& second, RowId b);
  /// The row of the shorter run holds `value` of the shared variable: all rows of the other side
  /// that do, too.
  void probe(const TrieNode& node, const Meet& step, bool swapped, RowId row, Value value);
  void pair(const TrieNode& node, const Meet& step, RowId first, RowId second);
  void walk_rows(const TrieNode& node, const Table& table, RowId last);
  void descend(const TrieNode& node);
  bool take(const RowTest& test, const Table& table, RowId row, const Value* cells);
  void emit(const TrieNode::Emit& emit);
  void count_step(const TrieNode& node) {
    ++counts_[node.id].steps;
    if ((++steps_ & 1023) == 0 && !meter_.matching(1024, values_)) stopped_ = true;
  }

  State& state_;
  Trie& trie_;
  std::span<const RowId> middles_;
  Meter& meter_;
  std::span<NodeCount> counts_;
  const std::function<bool(std::span<const Value>)>* on_match_;
  std::vector<Value> regs_;
  std::vector<Value> call_args_;
  /// a stack: value of the shared variable, row; of each meet under way
  std::vector<std::pair<Value, RowId>> gathered_;
  uint64_t steps_ = 0, values_ = 0;
  bool stopped_ = false;
};

} // namespace luminal::egraph
