// egraph/run.cpp -- one iteration: match all rules against the same tables, apply all matches,
// rebuild.
#include "base/thread_pool.h"
#include "egraph/apply_rule.h"
#include "egraph/match_rule.h"
#include <fmt/format.h>

namespace luminal::egraph {

namespace {

using Clock = std::chrono::steady_clock;
double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

constexpr RowId chunk_rows = 2048;

class Iteration {
public:
  Iteration(EGraph& graph, std::span<const RulesetId> rulesets, const RunOptions& options)
      : graph_(graph), state_(graph.state()), rulesets_(rulesets.begin(), rulesets.end()), options_(options),
        meter_(options.limits) {}

  RunReport run() {
    state_.rebuild();
    if (take_panic()) return report_;
    meter_.set_base_bytes(options_.limits.bytes != 0 ? bytes() : 0);
    find_trie();
    const Clock::time_point start = Clock::now();
    const bool any = match();
    report_.search_seconds = since(start);
    state_.search_seconds += report_.search_seconds;
    report_.steps = meter_.steps();
    if (within_limits() && !meter_.stopped()) {
      if (any)
        apply();
      else
        all_matched();
    } else {
      report_.rolled_back = true; // nothing was changed
    }
    report_.stop = report_.stop == StopReason::none ? meter_.stop() : report_.stop;
    return report_;
  }

private:
  void find_trie() {
    uint32_t most_vars = 0;
    for (const RulesetId id : rulesets_)
      for (const RuleId rule : state_.rulesets[id].rules)
        most_vars = std::max(most_vars, static_cast<uint32_t>(state_.compiled[rule]->query.vars.size()));
    std::vector<std::unique_ptr<Trie>>& tries = state_.plans.tries;
    for (auto at = tries.begin(); at != tries.end(); ++at)
      if ((*at)->rulesets == rulesets_) {
        // Plans that were made anew leave their old nodes behind.
        if ((*at)->globals_at >= most_vars && (*at)->node_count < 64 + 8 * (*at)->used_nodes)
          trie_ = at->get();
        else
          tries.erase(at);
        break;
      }
    if (trie_ == nullptr) {
      tries.push_back(std::make_unique<Trie>(state_, rulesets_, most_vars + 8));
      trie_ = tries.back().get();
    }
    size_t count = 0;
    for (const RulesetId id : rulesets_) count += state_.rulesets[id].rules.size();
    if (count == trie_->order.size()) return;
    std::vector<uint32_t> entry_of(state_.rules.size(), absent);
    for (uint32_t i = 0; i < trie_->entries.size(); ++i) entry_of[trie_->entries[i].rule] = i;
    trie_->order.clear();
    for (const RulesetId id : rulesets_)
      for (const RuleId rule : state_.rulesets[id].rules) {
        if (entry_of[rule] == absent) {
          entry_of[rule] = static_cast<uint32_t>(trie_->entries.size());
          trie_->add(rule, state_.compiled[rule]);
        }
        trie_->order.push_back(entry_of[rule]);
      }
  }

  /// False where nothing can be applied.
  bool match() {
    // Rules of one ruleset have the same watermark as a rule; those that do not are matched in
    // passes of their own.
    constexpr uint32_t full_pass = 0;
    std::vector<uint32_t> by_entry(trie_->entries.size()), watermarks;
    bool waiting = false;
    for (size_t i = 0; i < by_entry.size(); ++i) {
      const RuleId rule = trie_->entries[i].rule;
      const RuleProgress& progress = state_.progress[rule];
      waiting |= progress.waiting_count != 0;
      by_entry[i] = !progress.ran || state_.rules[rule].naive ? full_pass : progress.watermark;
      if (watermarks.empty() || watermarks.back() != by_entry[i]) watermarks.push_back(by_entry[i]);
    }
    std::sort(watermarks.begin(), watermarks.end());
    watermarks.erase(std::unique(watermarks.begin(), watermarks.end()), watermarks.end());
    bool matched = false;
    for (const uint32_t watermark : watermarks) {
      if (watermark != full_pass &&
          std::none_of(state_.tables.begin(), state_.tables.end(),
                       [&](const Table& t) { return t.first_row(watermark) < t.rows(); }))
        continue;
      trie_->begin();
      bool any = false, thread_safe = true;
      for (uint32_t i = 0; i < trie_->entries.size(); ++i) {
        RuleEntry& entry = trie_->entries[i];
        if (by_entry[i] != watermark || !trie_->activate(i, watermark, watermark == full_pass)) continue;
        any = true;
        thread_safe &= entry.thread_safe;
      }
      if (!any) continue;
      if (!matched) room_for_matches();
      matched = true;
      state_.extend_indexes();
      std::vector<RowId> middles;
      middles.reserve(state_.tables.size());
      for (const Table& table : state_.tables) middles.push_back(table.first_row(watermark));
      trie_->counts.resize(trie_->node_count);
      if (options_.threads > 1 && thread_safe)
        match_parallel(middles);
      else
        match_serial(middles);
      if (meter_.stopped()) break;
    }
    if (waiting && !matched) room_for_matches();
    return waiting || matched;
  }
  void room_for_matches() {
    matches_.values.resize(trie_->entries.size());
    matches_.counts.resize(trie_->entries.size(), 0);
  }

  struct Range {
    const TrieNode* root;
    RowId first, last;
  };
  /// The scans of this pass, in the order of matches.
  std::vector<Range> ranges(std::span<const RowId> middles) {
    std::vector<Range> result;
    for (const auto& [op, root] : trie_->full_roots)
      if (root.stamp == trie_->stamp) result.push_back({&root, 0, state_.tables[op].rows()});
    for (const auto& [op, root] : trie_->delta_roots)
      if (root.stamp == trie_->stamp) result.push_back({&root, middles[op], state_.tables[op].rows()});
    return result;
  }
  void take(Matches& from) {
    for (size_t i = 0; i < from.values.size(); ++i) {
      if (from.counts[i] == 0) continue;
      matches_.counts[i] += from.counts[i];
      if (matches_.values[i].empty())
        matches_.values[i] = std::move(from.values[i]);
      else
        matches_.values[i].append(from.values[i].span());
    }
  }
  void match_serial(std::span<const RowId> middles) {
    Matcher matcher(state_, *trie_, middles, meter_, trie_->counts);
    if (trie_->once.stamp == trie_->stamp) matcher.run_once();
    for (const Range& range : ranges(middles)) matcher.run_scan(*range.root, range.first, range.last);
    matcher.finish_count();
    take(matcher.matches);
  }
  void match_parallel(std::span<const RowId> middles) {
    std::vector<Range> chunks;
    if (trie_->once.stamp == trie_->stamp) chunks.push_back({nullptr, 0, 0});
    for (const Range& range : ranges(middles))
      for (RowId first = range.first; first < range.last; first += chunk_rows)
        chunks.push_back({range.root, first, std::min(range.last, first + chunk_rows)});
    if (chunks.size() < 2) return match_serial(middles);
    std::vector<Matches> found(chunks.size());
    std::vector<std::vector<NodeCount>> counts(chunks.size());
    ThreadPool& pool = state_.pool(options_.threads);
    pool.parallel_for(static_cast<int64_t>(chunks.size()), [&](int64_t i) {
      const auto at = static_cast<size_t>(i);
      counts[at].resize(trie_->node_count);
      Matcher matcher(state_, *trie_, middles, meter_, counts[at]);
      if (chunks[at].root == nullptr)
        matcher.run_once();
      else
        matcher.run_scan(*chunks[at].root, chunks[at].first, chunks[at].last);
      matcher.finish_count();
      found[at] = std::move(matcher.matches);
    });
    for (size_t i = 0; i < chunks.size(); ++i) {
      for (size_t n = 0; n < counts[i].size(); ++n) {
        trie_->counts[n].steps += counts[i][n].steps;
        trie_->counts[n].probes += counts[i][n].probes;
      }
      take(found[i]);
    }
  }

  /// State::bytes(), which takes longer than a small iteration: added up where rows, classes or unions have
  /// come since the last time.
  uint64_t bytes() {
    const std::array<uint64_t, 4> now{state_.generation, state_.appended, state_.classes.size(),
                                      state_.classes.log().size()};
    if (state_.bytes_known_at != now) {
      state_.bytes_known_at = now;
      state_.known_bytes = state_.bytes();
    }
    return state_.known_bytes;
  }
  /// Totals that may only be compared when all threads are done.
  bool within_limits() {
    const Limits& limits = options_.limits;
    uint64_t cells = 0;
    for (const Buffer<Value>& values : matches_.values) cells += values.size();
    if (limits.bytes != 0 && (cells == 0 ? bytes() : state_.bytes()) + cells * sizeof(Value) > limits.bytes)
      meter_.set_stop(StopReason::bytes);
    meter_.rows_possible(cells);
    return within_state_limits(true);
  }
  bool within_state_limits(bool bytes) {
    const Limits& limits = options_.limits;
    if (limits.rows != 0 && state_.rows() > limits.rows) meter_.set_stop(StopReason::rows);
    if (limits.classes != 0 && state_.classes.size() > limits.classes) meter_.set_stop(StopReason::classes);
    if (bytes && limits.bytes != 0 && state_.bytes() > limits.bytes) meter_.set_stop(StopReason::bytes);
    return meter_.outside();
  }

  /// The matches of an entry in the order of application, with those that waited first; the
  /// budget's share is taken evenly.
  struct Batch {
    const Value* values = nullptr;
    uint64_t count = 0;
    uint32_t stride = 0;
    Buffer<Value> joined;
  };
  Batch batch_of(uint32_t entry_index, Buffer<Value>& waiting, uint32_t& waiting_count) {
    const RuleEntry& entry = trie_->entries[entry_index];
    const CompiledActions& actions = entry.compiled->actions;
    const Rule& rule = state_.rules[entry.rule];
    const RuleProgress& progress = state_.progress[entry.rule];
    Batch batch;
    batch.stride = static_cast<uint32_t>(actions.match.size());
    batch.count = matches_.counts[entry_index];
    batch.values = matches_.values[entry_index].data();
    waiting_count = 0;
    if (progress.waiting_count == 0 && (rule.budget == 0 || batch.count <= rule.budget)) return batch;
    batch.joined = progress.waiting;
    for (size_t i = 0; i < batch.joined.size(); ++i)
      batch.joined[i] =
          state_.canonical(rule.query.vars[actions.match[i % batch.stride]].sort, batch.joined[i]);
    batch.joined.append(matches_.values[entry_index].span());
    const uint64_t total = progress.waiting_count + batch.count;
    batch.count = total;
    if (rule.budget != 0 && total > rule.budget) {
      Buffer<Value> taken;
      uint64_t next = 0;
      for (uint64_t i = 0; i < total; ++i) {
        const std::span<const Value> match(batch.joined.data() + i * batch.stride, batch.stride);
        if (next < rule.budget && i == next * total / rule.budget) {
          taken.append(match);
          ++next;
        } else {
          waiting.append(match);
        }
      }
      waiting_count = static_cast<uint32_t>(total - rule.budget);
      batch.joined = std::move(taken);
      batch.count = rule.budget;
    }
    batch.values = batch.joined.data();
    return batch;
  }

  struct Checkpoint {
    std::vector<RowId> rows;
    Classes::Checkpoint classes;
    size_t substitutions = 0;
  };
  Checkpoint begin_journal() {
    Checkpoint checkpoint;
    for (const Table& table : state_.tables) checkpoint.rows.push_back(table.rows());
    checkpoint.classes = state_.classes.begin_journal();
    checkpoint.substitutions = state_.substitutions.size();
    state_.journalling = true;
    state_.kills.clear();
    return checkpoint;
  }
  void end_journal() {
    state_.journalling = false;
    state_.kills.release();
    state_.classes.end_journal();
  }
  void rollback(const Checkpoint& checkpoint) {
    std::vector<bool> touched(state_.tables.size(), false);
    for (OpId op = 0; op < state_.tables.size(); ++op)
      if (state_.tables[op].rows() != checkpoint.rows[op]) {
        touched[op] = true;
        state_.tables[op].truncate(checkpoint.rows[op]);
      }
    for (const State::Kill& kill : state_.kills)
      if (kill.row < checkpoint.rows[kill.op]) {
        touched[kill.op] = true;
        state_.tables[kill.op].revive(kill.row, kill.out);
      }
    for (OpId op = 0; op < state_.tables.size(); ++op)
      if (touched[op]) state_.tables[op].restore_hash_cons();
    state_.classes.rollback(checkpoint.classes);
    state_.substitutions.truncate(checkpoint.substitutions);
    --state_.epoch;
    ++state_.generation;
    end_journal();
  }

  /// Nothing is to be applied: what comes from now on is new to these rules.
  void all_matched() {
    const uint32_t watermark = ++state_.epoch;
    for (const RuleEntry& entry : trie_->entries) state_.progress[entry.rule].matched_to(watermark);
  }
  void apply() {
    std::vector<const CompiledActions*> programs;
    for (const uint32_t i : trie_->order)
      if (has_matches(i)) programs.push_back(&trie_->entries[i].compiled->actions);
    if (programs.empty()) return all_matched();
    const uint32_t watermark = ++state_.epoch;
    const bool journal = options_.limits.rollback;
    Checkpoint checkpoint;
    if (journal) checkpoint = begin_journal();
    const Clock::time_point start = Clock::now();
    const uint64_t appended_before = state_.appended, unions_before = state_.classes.log().size();
    std::vector<std::pair<Buffer<Value>, uint32_t>> waiting(trie_->entries.size());
    std::vector<RuleStats> stats(trie_->entries.size());
    Applier applier(graph_, programs);
    for (const uint32_t i : trie_->order) {
      if (!apply_rule(applier, i, waiting[i], stats[i])) break;
      matches_.values[i].release();
    }
    const uint64_t appended = state_.appended, unions = state_.classes.log().size();
    applier.finish();
    report_.changed = appended != appended_before || unions != unions_before || state_.appended != appended ||
                      state_.classes.log().size() != unions;
    report_.apply_seconds = since(start);
    const Clock::time_point rebuild_start = Clock::now();
    state_.rebuild();
    take_panic();
    report_.rebuild_seconds = since(rebuild_start);
    const bool complete = report_.stop == StopReason::none && !meter_.stopped();
    if (!complete && journal) {
      rollback(checkpoint);
      report_.rolled_back = true;
      report_.changed = false;
      return;
    }
    if (journal) end_journal();
    report_.new_rows = state_.appended - appended_before;
    report_.unions = state_.classes.log().size() - unions_before;
    for (const uint32_t i : trie_->order) {
      const RuleEntry& entry = trie_->entries[i];
      RuleStats& total = state_.stats[entry.rule];
      total.matches += stats[i].matches;
      total.new_rows += stats[i].new_rows;
      total.unions += stats[i].unions;
      total.apply_seconds += stats[i].apply_seconds;
      report_.matches += stats[i].matches;
      if (!complete) continue; // what was not finished is matched again
      RuleProgress& progress = state_.progress[entry.rule];
      progress.matched_to(watermark);
      progress.waiting = std::move(waiting[i].first);
      progress.waiting_count = waiting[i].second;
      total.waiting = progress.waiting_count;
      report_.waiting += progress.waiting_count;
    }
    report_.changed |= report_.waiting != 0;
    state_.compact_where_worth();
  }

  bool has_matches(uint32_t i) const {
    return matches_.counts[i] != 0 || state_.progress[trie_->entries[i].rule].waiting_count != 0;
  }
  bool apply_rule(Applier& applier, uint32_t i, std::pair<Buffer<Value>, uint32_t>& waiting,
                  RuleStats& stats) {
    if (!has_matches(i)) return true;
    const RuleEntry& entry = trie_->entries[i];
    const Batch batch = batch_of(i, waiting.first, waiting.second);
    const Clock::time_point start = Clock::now();
    const uint64_t appended = state_.appended, unions = state_.classes.log().size();
    bool go_on = true;
    uint64_t done = 0;
    while (done < batch.count && go_on) {
      const auto count = static_cast<uint32_t>(std::min<uint64_t>(Applier::block, batch.count - done));
      if (!applier.apply_block(entry.compiled->actions, entry.rule, batch.values + done * batch.stride,
                               count))
        go_on = false;
      done += count;
      applied_ += count;
      if (applied_ >= next_test_) {
        next_test_ = applied_ + 1024;
        if (!within_state_limits((++tests_ & 3) == 0)) go_on = false;
      }
    }
    if (go_on && !within_state_limits(false)) go_on = false;
    stats.matches = done;
    stats.new_rows = state_.appended - appended;
    stats.unions = state_.classes.log().size() - unions;
    stats.apply_seconds = since(start);
    return go_on;
  }

  bool take_panic() {
    if (!state_.panic) return false;
    if (report_.stop == StopReason::none) {
      report_.stop = StopReason::panic;
      report_.message = *state_.panic;
    }
    state_.panic.reset();
    return true;
  }

  EGraph& graph_;
  State& state_;
  std::vector<RulesetId> rulesets_;
  const RunOptions& options_;
  Meter meter_;
  Trie* trie_ = nullptr;
  Matches matches_;
  RunReport report_;
  uint64_t applied_ = 0, next_test_ = 1024, tests_ = 0;
};

} // namespace

RunReport EGraph::run(std::span<const RulesetId> rulesets, const RunOptions& options) {
  for (const RulesetId id : rulesets)
    if (id >= state_->rulesets.size()) throw Error(fmt::format("there is no ruleset {}", id));
  return Iteration(*this, rulesets, options).run();
}

} // namespace luminal::egraph
