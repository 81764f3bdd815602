// egraph/egraph.cpp -- the interface of the engine: schema, terms and facts outside of runs,
// queries, push and pop.
#include "base/thread_pool.h"
#include "egraph/apply_rule.h"
#include "egraph/match_rule.h"
#include <fmt/format.h>

namespace luminal::egraph {

ClassId Finder::operator()(ClassId id) const { return classes_->find(id); }

State::State() = default;
State::~State() = default;
State::State(const State& other)
    : sorts(other.sorts), ops(other.ops), prims(other.prims), rules(other.rules), compiled(other.compiled),
      rulesets(other.rulesets), op_names(other.op_names), ruleset_names(other.ruleset_names),
      tables(other.tables), classes(other.classes), epoch(other.epoch), has_containers(other.has_containers),
      appended(other.appended), generation(other.generation), substitutions(other.substitutions),
      record_substitutions(other.record_substitutions), progress(other.progress), stats(other.stats),
      analyses(other.analyses), panic(other.panic) {}

ThreadPool& State::pool(int size) {
  if (!threads || threads->size() != size) threads = std::make_unique<ThreadPool>(size);
  return *threads;
}

uint64_t State::bytes() const {
  uint64_t total = classes.bytes() + substitutions.bytes() + displaced_bits.bytes() + kills.bytes();
  for (const Table& table : tables) total += table.bytes();
  for (const RuleProgress& rule : progress) total += rule.waiting.bytes();
  for (const AnalysisColumn& column : analyses) total += column.values.bytes();
  return total;
}

EGraph::EGraph() : state_(std::make_unique<State>()) {
  state_->sorts.push_back({"Unit", SortKind::unit, {}, {}, {}});
}
EGraph::~EGraph() = default;
EGraph::EGraph(EGraph&&) noexcept = default;
EGraph& EGraph::operator=(EGraph&&) noexcept = default;
EGraph EGraph::clone() const {
  EGraph copy;
  copy.state_ = std::make_unique<State>(*state_);
  return copy;
}

void EGraph::plan_with(const PlanOptions& options) { state_->plan_options = options; }

SortId EGraph::add_sort(SortSpec spec) {
  state_->has_containers |= spec.kind == SortKind::container;
  state_->sorts.push_back(std::move(spec));
  return static_cast<SortId>(state_->sorts.size() - 1);
}

OpId EGraph::add_op(OpSpec spec) {
  State& s = *state_;
  if (s.ops.size() >= 65535 || spec.args.size() >= 65535)
    throw Error(fmt::format(
        "operator {}: an e-graph has at most 65,535 operators, of at most 65,534 arguments", spec.name));
  for (const SortId sort : spec.args)
    if (sort >= s.sorts.size())
      throw Error(fmt::format("operator {} has an argument of unknown sort {}", spec.name, sort));
  if (spec.out >= s.sorts.size())
    throw Error(fmt::format("operator {} has an output of unknown sort {}", spec.name, spec.out));
  if (s.op_names.count(spec.name) != 0)
    throw Error(fmt::format("there is already an operator {}", spec.name));
  if (spec.constructor && s.sorts[spec.out].kind != SortKind::eq)
    throw Error(fmt::format("constructor {} must have an eq-sort as its output", spec.name));
  if (spec.constructor) spec.merge = MergeKind::unite;
  if (spec.merge == MergeKind::unite && s.sorts[spec.out].kind != SortKind::eq)
    throw Error(fmt::format("operator {} cannot unite outputs that are not classes", spec.name));
  if (spec.merge == MergeKind::lattice && !spec.join)
    throw Error(fmt::format("operator {} has no join", spec.name));
  if (spec.merge == MergeKind::program && spec.merge_program.empty())
    throw Error(fmt::format("operator {} has an empty merge program", spec.name));
  for (size_t i = 0; i < spec.merge_program.size(); ++i) {
    const MergeNode& node = spec.merge_program[i];
    for (const uint32_t arg : node.args)
      if (arg >= i) throw Error(fmt::format("the merge program of {} is not in post order", spec.name));
    if (node.kind == MergeNode::Kind::primitive && node.id >= s.prims.size())
      throw Error(
          fmt::format("the merge program of {} names primitive {}, which is unknown", spec.name, node.id));
    if (node.kind == MergeNode::Kind::op &&
        (node.id >= s.ops.size() || s.ops[node.id].args.size() != node.args.size()))
      throw Error(fmt::format("the merge program of {} names operator {} with {} arguments", spec.name,
                              node.id, node.args.size()));
  }
  std::vector<uint8_t> eq, container;
  for (size_t col = 0; col <= spec.args.size(); ++col) {
    const SortKind kind = s.sorts[col < spec.args.size() ? spec.args[col] : spec.out].kind;
    eq.push_back(kind == SortKind::eq ? 1 : 0);
    container.push_back(kind == SortKind::container ? 1 : 0);
  }
  const auto id = static_cast<OpId>(s.ops.size());
  s.tables.emplace_back(static_cast<uint32_t>(spec.args.size()), std::move(eq), std::move(container));
  s.op_names.emplace(spec.name, id);
  s.ops.push_back(std::move(spec));
  return id;
}

PrimId EGraph::add_primitive(PrimitiveSpec spec) {
  if (!spec.call) throw Error(fmt::format("primitive {} has no function", spec.name));
  state_->prims.push_back(std::move(spec));
  return static_cast<PrimId>(state_->prims.size() - 1);
}

RulesetId EGraph::add_ruleset(std::string name) {
  const auto id = static_cast<RulesetId>(state_->rulesets.size());
  if (!state_->ruleset_names.emplace(name, id).second)
    throw Error(fmt::format("there is already a ruleset {}", name));
  state_->rulesets.push_back({std::move(name), {}});
  return id;
}

namespace {
std::shared_ptr<const CompiledRule> compile(const State& state, const Rule& rule) {
  auto compiled = std::make_shared<CompiledRule>();
  compiled->query = compile_query(state, rule.query, rule.name);
  compiled->actions =
      compile_actions(state, rule.actions, compiled->query.bound, state.record_substitutions, rule.name);
  return compiled;
}
} // namespace

RuleId EGraph::add_rule(Rule rule) {
  State& s = *state_;
  if (rule.ruleset >= s.rulesets.size())
    throw Error(fmt::format("rule {}: there is no ruleset {}", rule.name, rule.ruleset));
  s.compiled.push_back(compile(s, rule));
  const auto id = static_cast<RuleId>(s.rules.size());
  s.rulesets[rule.ruleset].rules.push_back(id);
  s.rules.push_back(std::move(rule));
  s.progress.emplace_back();
  s.stats.emplace_back();
  return id;
}

void EGraph::record_substitutions(bool on) {
  State& s = *state_;
  if (s.record_substitutions == on) return;
  for (const RuleProgress& progress : s.progress)
    if (progress.waiting_count != 0) throw Error("record_substitutions: matches of a rule are waiting");
  s.record_substitutions = on;
  s.plans.tries.clear();
  for (size_t i = 0; i < s.rules.size(); ++i) s.compiled[i] = compile(s, s.rules[i]);
}

namespace {
template <class T> const T& at(const std::vector<T>& items, size_t id, const char* what) {
  if (id >= items.size()) throw Error(fmt::format("there is no {} {}", what, id));
  return items[id];
}
} // namespace

const SortSpec& EGraph::sort(SortId id) const { return at(state_->sorts, id, "sort"); }
const OpSpec& EGraph::op(OpId id) const { return at(state_->ops, id, "operator"); }
const PrimitiveSpec& EGraph::primitive(PrimId id) const { return at(state_->prims, id, "primitive"); }
const Rule& EGraph::rule(RuleId id) const { return at(state_->rules, id, "rule"); }
std::span<const RuleId> EGraph::ruleset(RulesetId id) const {
  return at(state_->rulesets, id, "ruleset").rules;
}
const std::string& EGraph::ruleset_name(RulesetId id) const {
  return at(state_->rulesets, id, "ruleset").name;
}
size_t EGraph::op_count() const { return state_->ops.size(); }
size_t EGraph::rule_count() const { return state_->rules.size(); }
std::optional<OpId> EGraph::find_op(std::string_view name) const {
  const auto found = state_->op_names.find(std::string(name));
  return found == state_->op_names.end() ? std::nullopt : std::optional(found->second);
}

namespace {

/// The arguments with leaders in place of old ids, in scratch.
const Value* key_of(State& s, OpId op, std::span<const Value> args) {
  const OpSpec& spec = at(s.ops, op, "operator");
  if (args.size() != spec.args.size())
    throw Error(fmt::format("{} takes {} arguments, not {}", spec.name, spec.args.size(), args.size()));
  s.scratch.resize(std::max<size_t>(1, args.size()));
  for (size_t i = 0; i < args.size(); ++i) {
    const SortKind kind = s.sorts[spec.args[i]].kind;
    if (kind == SortKind::eq && args[i] >= s.classes.size())
      throw Error(fmt::format("{}: there is no class {}", spec.name, args[i]));
    s.scratch[i] = s.canonical(spec.args[i], args[i]);
  }
  return s.scratch.data();
}

void throw_panic(State& s) {
  if (!s.panic) return;
  const std::string message = *s.panic;
  s.panic.reset();
  throw Error(message);
}

} // namespace

Value EGraph::add(OpId op, std::span<const Value> args) {
  const Value* key = key_of(*state_, op, args);
  if (!state_->ops[op].constructor) throw Error(fmt::format("{} is not a constructor", state_->ops[op].name));
  return state_->classes.find(state_->build(op, key, absent));
}
std::optional<Value> EGraph::lookup(OpId op, std::span<const Value> args) {
  const Value* key = key_of(*state_, op, args);
  const RowId row = state_->tables[op].find(key);
  if (row == absent) return std::nullopt;
  return state_->canonical(state_->ops[op].out, state_->tables[op].out(row));
}
void EGraph::set(OpId op, std::span<const Value> args, Value out) {
  const Value* key = key_of(*state_, op, args);
  state_->put(op, key, state_->canonical(state_->ops[op].out, out), absent, {});
  throw_panic(*state_);
}
void EGraph::unite(ClassId a, ClassId b) {
  if (a >= state_->classes.size() || b >= state_->classes.size())
    throw Error(fmt::format("unite: there is no class {}", std::max(a, b)));
  state_->unite(a, b, {});
}
bool EGraph::remove(OpId op, std::span<const Value> args) {
  return state_->remove(op, key_of(*state_, op, args));
}
void EGraph::subsume(OpId op, std::span<const Value> args) {
  const Value* key = key_of(*state_, op, args);
  if (!state_->ops[op].subsumable) throw Error(fmt::format("{} cannot be subsumed", state_->ops[op].name));
  if (!state_->subsume(op, key, absent))
    throw Error(fmt::format("subsumed a row of {} that is not there", state_->ops[op].name));
}
ClassId EGraph::fresh_class() { return state_->classes.fresh(); }
ClassId EGraph::find(ClassId id) const {
  if (id >= state_->classes.size()) throw Error(fmt::format("find: there is no class {}", id));
  return state_->classes.find_const(id);
}
Value EGraph::canonical(SortId sort, Value value) {
  at(state_->sorts, sort, "sort");
  return state_->canonical(sort, value);
}
void EGraph::rebuild() {
  state_->rebuild();
  throw_panic(*state_);
}

std::vector<Value> EGraph::apply(std::span<const Action> actions, std::vector<Value> values) {
  std::vector<bool> bound;
  for (const Value value : values) bound.push_back(value != absent);
  const CompiledActions compiled = compile_actions(*state_, actions, bound, false, "actions");
  const CompiledActions* const programs[] = {&compiled};
  Applier applier(*this, programs);
  std::vector<Value> match;
  for (const VarId var : compiled.match) match.push_back(values[var]);
  applier.apply(compiled, absent, match.data());
  applier.finish();
  throw_panic(*state_);
  for (VarId var = 0; var < values.size(); ++var)
    if (compiled.var_regs[var] != absent) values[var] = applier.regs[compiled.var_regs[var]];
  return values;
}

namespace {

void match_query(State& state, const Query& query, const std::function<bool(std::span<const Value>)>& f) {
  state.rebuild();
  throw_panic(state);
  auto compiled = std::make_shared<CompiledRule>();
  compiled->query = compile_query(state, query, "query");
  for (VarId var = 0; var < query.vars.size(); ++var)
    if (compiled->query.bound[var]) compiled->actions.match.push_back(var);
  const std::vector<VarId> match = compiled->actions.match;
  Trie trie(state, {}, static_cast<uint32_t>(query.vars.size()) + 1);
  trie.add(absent, compiled);
  trie.begin();
  if (!trie.activate(0, 0, true)) return;
  state.extend_indexes();
  const std::vector<RowId> middles(state.tables.size(), 0);
  std::vector<NodeCount> counts(trie.node_count);
  Meter meter{Limits{}};
  std::vector<Value> values(query.vars.size(), absent);
  const std::function<bool(std::span<const Value>)> on_match = [&](std::span<const Value> found) {
    for (size_t i = 0; i < match.size(); ++i) values[match[i]] = found[i];
    return f(values);
  };
  Matcher matcher(state, trie, middles, meter, counts, &on_match);
  if (trie.once.stamp == trie.stamp) matcher.run_once();
  for (const auto& [op, root] : trie.full_roots)
    if (root.stamp == trie.stamp) matcher.run_scan(root, 0, state.tables[op].rows());
}

} // namespace

bool EGraph::holds(const Query& query) {
  bool found = false;
  match_query(*state_, query, [&](std::span<const Value>) {
    found = true;
    return false;
  });
  return found;
}
void EGraph::for_each_match(const Query& query, const std::function<bool(std::span<const Value>)>& f) {
  match_query(*state_, query, f);
}

std::vector<RuleStats> EGraph::rule_stats() const {
  const size_t rules = state_->stats.size();
  std::vector<double> steps(rules), probes(rules);
  double all_steps = 0;
  for (const std::unique_ptr<Trie>& trie : state_->plans.tries) {
    for (const NodeCount& count : trie->counts) all_steps += static_cast<double>(count.steps);
    for (const RuleEntry& entry : trie->entries) {
      const auto add = [&](const Plan& plan) {
        for (const TrieNode* node = plan.leaf; node != nullptr; node = node->parent) {
          if (node->id >= trie->counts.size()) continue;
          const double users = std::max(1u, node->users);
          steps[entry.rule] += static_cast<double>(trie->counts[node->id].steps) / users;
          probes[entry.rule] += static_cast<double>(trie->counts[node->id].probes) / users;
        }
      };
      add(entry.full_plan);
      for (const Plan& plan : entry.delta_plans) add(plan);
    }
  }
  std::vector<RuleStats> stats = state_->stats;
  for (size_t id = 0; id < rules; id++) {
    stats[id].steps = static_cast<uint64_t>(steps[id]);
    stats[id].probes = static_cast<uint64_t>(probes[id]);
    stats[id].search_seconds = all_steps > 0 ? state_->search_seconds * steps[id] / all_steps : 0;
  }
  return stats;
}
RuleStats EGraph::rule_stats(RuleId id) const {
  at(state_->rules, id, "rule");
  return rule_stats()[id];
}

std::span<const RuleStats> EGraph::applied() const { return state_->stats; }

size_t EGraph::size(OpId op) const {
  at(state_->ops, op, "operator");
  if (state_->needs_rebuild()) {
    state_->rebuild();
    throw_panic(*state_);
  }
  return state_->tables[op].live();
}
uint64_t EGraph::total_size() const {
  if (state_->needs_rebuild()) {
    state_->rebuild();
    throw_panic(*state_);
  }
  uint64_t total = 0;
  for (const Table& table : state_->tables) total += table.live();
  return total;
}
size_t EGraph::class_count() const { return state_->classes.size(); }

RowView EGraph::row(OpId op, RowId row) const {
  at(state_->ops, op, "operator");
  const Table& table = state_->tables[op];
  if (row >= table.rows()) throw Error(fmt::format("{} has no row {}", state_->ops[op].name, row));
  return {op, row, {table.row(row), table.stride()}, table.is_subsumed(row)};
}
void EGraph::for_each_row(OpId op, const std::function<bool(const RowView&)>& f) {
  at(state_->ops, op, "operator");
  rebuild();
  const Table& table = state_->tables[op];
  for (RowId id = 0; id < table.rows(); ++id)
    if (!table.is_dead(id) && !f(row(op, id))) return;
}
std::vector<RowView> EGraph::class_rows(ClassId id) {
  rebuild();
  id = find(id);
  std::vector<RowView> rows;
  for (OpId op = 0; op < state_->tables.size(); ++op) {
    Table& table = state_->tables[op];
    if (table.live() == 0 || table.eq_cols()[table.keys()] == 0) continue;
    table.index(table.keys()).wanted = true;
    table.extend_indexes();
    const size_t first = rows.size();
    for (RowId r = table.index(table.keys()).head(id); r != absent; r = table.index(table.keys()).next(r))
      if (!table.is_dead(r)) rows.push_back(row(op, r));
    std::reverse(rows.begin() + static_cast<ptrdiff_t>(first), rows.end());
  }
  return rows;
}
std::vector<RowView> EGraph::use_rows(ClassId id) {
  rebuild();
  id = find(id);
  std::vector<RowView> rows;
  for (OpId op = 0; op < state_->tables.size(); ++op) {
    Table& table = state_->tables[op];
    if (table.live() == 0) continue;
    std::vector<RowId> found;
    for (uint32_t col = 0; col < table.keys(); ++col) {
      if (table.eq_cols()[col] == 0) continue;
      table.index(col).wanted = true;
      table.extend_indexes();
      for (RowId r = table.index(col).head(id); r != absent; r = table.index(col).next(r))
        if (!table.is_dead(r)) found.push_back(r);
    }
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
    for (const RowId r : found) rows.push_back(row(op, r));
  }
  return rows;
}
RuleId EGraph::creator(OpId op, RowId row) const {
  at(state_->ops, op, "operator");
  return state_->tables[op].creator(row);
}

void EGraph::push() { state_->pushed.push_back(std::make_unique<State>(*state_)); }
void EGraph::pop() {
  if (state_->pushed.empty()) throw Error("pop without a push");
  std::vector<std::unique_ptr<State>> rest = std::move(state_->pushed);
  std::unique_ptr<State> last = std::move(rest.back());
  rest.pop_back();
  last->pushed = std::move(rest);
  state_ = std::move(last);
}
void EGraph::clear() {
  State& s = *state_;
  for (Table& table : s.tables) table.clear();
  s.classes.clear();
  s.epoch = 1;
  s.substitutions.clear();
  s.panic.reset();
  ++s.generation;
  for (RuleProgress& progress : s.progress) progress = {};
}
uint64_t EGraph::bytes() const { return state_->bytes(); }

const char* to_string(StopReason reason) {
  switch (reason) {
  case StopReason::none: return "none";
  case StopReason::rows: return "rows";
  case StopReason::classes: return "classes";
  case StopReason::bytes: return "bytes";
  case StopReason::steps: return "steps";
  case StopReason::time: return "time";
  case StopReason::cancelled: return "cancelled";
  case StopReason::panic: return "panic";
  }
  return "?";
}

} // namespace luminal::egraph
