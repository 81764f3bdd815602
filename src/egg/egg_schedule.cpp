// egg/egg_schedule.cpp -- running rulesets: run, run-schedule, :until, and the limits of a program.
#include "base/text.h"
#include "egg/egg_state.h"
#include <fmt/format.h>

namespace luminal::egraph {

uint32_t EggProgram::Impl::ruleset_index(NodeId node) const {
  const Symbol symbol = name(node, "the name of a ruleset");
  const NameEntry entry = schema.find(symbol);
  if (entry.kind == NameKind::ruleset) return entry.index;
  fail_run(node, fmt::format("there is no ruleset '{}'", syntax.text(symbol)));
}

void EggProgram::Impl::collect(uint32_t ruleset, std::vector<RulesetId>& out) const {
  const RulesetInfo& info = rulesets[ruleset];
  if (!info.combined) out.push_back(info.id);
  for (const uint32_t part : info.parts) collect(part, out); // parts are declared before the whole: no cycles
}

bool EggProgram::Impl::holds(const CoreRule& query) {
  graph.rebuild(); // globals enter the query as the leaders of their classes
  Query q = lower_query(query, Globals::value);
  q.include_subsumed = true;
  return graph.holds(q);
}

EggProgram::Impl::Progress EggProgram::Impl::run_once(uint32_t ruleset, const CoreRule* until, NodeId at) {
  if (until != nullptr && holds(*until)) return {};
  const auto fail = [&](std::string_view text) {
    throw LimitError(at != 0 ? syntax.message(syntax.span(at), text) : std::string(text));
  };
  if (options.iterations != 0 && totals.iterations >= options.iterations)
    fail(fmt::format("stopped at the limit of {} iterations", options.iterations));
  RunOptions run;
  run.threads = options.threads;
  run.limits = options.limits;
  if (options.seconds > 0) {
    const double used = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const double left = options.seconds - used;
    if (left <= 0) fail(fmt::format("stopped at the limit of {} seconds", options.seconds));
    run.limits.seconds = run.limits.seconds > 0 ? std::min(run.limits.seconds, left) : left;
  }
  std::vector<RulesetId> ids;
  collect(ruleset, ids);
  const RunReport report = graph.run(ids, run);
  ++totals.iterations;
  totals.matches += report.matches;
  totals.new_rows += report.new_rows;
  totals.unions += report.unions;
  totals.steps += report.steps;
  totals.search_seconds += report.search_seconds;
  totals.apply_seconds += report.apply_seconds;
  totals.rebuild_seconds += report.rebuild_seconds;
  switch (report.stop) {
  case StopReason::none: break;
  case StopReason::panic: throw Error(report.message);
  case StopReason::cancelled: fail("cancelled"); break;
  case StopReason::rows:
  case StopReason::classes:
  case StopReason::bytes:
  case StopReason::steps:
  case StopReason::time:
    fail(
        fmt::format("stopped at the limit of {} in iteration {}", to_string(report.stop), totals.iterations));
  }
  return {report.changed};
}

EggProgram::Impl::Progress EggProgram::Impl::repeat(uint64_t most, std::span<const NodeId> forms) {
  Progress all;
  for (uint64_t i = 0; i < most; ++i) {
    Progress round;
    for (const NodeId form : forms) round.changed |= schedule(form).changed;
    all.changed |= round.changed;
    if (!round.changed) break;
  }
  return all;
}

namespace {

/// (run <ruleset>? <count>? <option>*), as a command or in a schedule.
struct RunForm {
  uint32_t ruleset = 0;
  std::optional<uint64_t> count;
  std::optional<CoreRule> until;
};

RunForm read_run(EggProgram::Impl& p, NodeId form, bool counted) {
  auto rest = p.syntax.children(form).subspan(1);
  RunForm out;
  const auto is_option = [&](NodeId node) {
    return p.syntax.is_symbol(node) && p.syntax.text(p.syntax[node].symbol).starts_with(':');
  };
  if (!rest.empty() && p.syntax[rest[0]].kind != NodeKind::integer && !is_option(rest[0])) {
    out.ruleset = p.ruleset_index(rest[0]);
    rest = rest.subspan(1);
  }
  if (counted) {
    if (rest.empty()) p.syntax.fail(form, "usage: (run <ruleset>? <number> [:until <fact>*])");
    out.count = p.count(rest[0], "the number of iterations");
    rest = rest.subspan(1);
  }
  for (const auto& option : p.options_of(rest)) {
    if (option.name != ":until") p.unknown_option(option, ":until");
    if (option.values.empty()) p.syntax.fail(option.node, ":until takes facts");
    out.until = check_query(p.schema, option.values);
  }
  return out;
}

} // namespace

void EggProgram::Impl::run_iterations(NodeId command) {
  const RunForm run = read_run(*this, command, true);
  for (uint64_t i = 0; i < *run.count; ++i)
    if (!run_once(run.ruleset, run.until ? &*run.until : nullptr, command).changed) break;
}

EggProgram::Impl::Progress EggProgram::Impl::schedule(NodeId form) {
  if (syntax.is_symbol(form)) return run_once(ruleset_index(form), nullptr, form);
  const std::string_view head = syntax.head(form);
  const auto items = syntax.children(form);
  if (head == "saturate") return repeat(UINT64_MAX, items.subspan(1));
  if (head == "seq") return repeat(1, items.subspan(1));
  if (head == "repeat") {
    if (items.size() < 2) syntax.fail(form, "usage: (repeat <number> <schedule>*)");
    return repeat(count(items[1], "how often"), items.subspan(2));
  }
  if (head == "run") {
    const RunForm run = read_run(*this, form, false);
    return run_once(run.ruleset, run.until ? &*run.until : nullptr, form);
  }
  syntax.fail(
      form, "expected a schedule: a ruleset, (run ...), (seq ...), (saturate ...) or (repeat <number> ...)");
}

void EggProgram::Impl::run_schedule(NodeId command) {
  // Every part is checked before the first one runs.
  std::vector<NodeId> open(syntax.children(command).begin() + 1, syntax.children(command).end());
  while (!open.empty()) {
    const NodeId form = open.back();
    open.pop_back();
    const std::string_view head = syntax.head(form);
    if (syntax.is_symbol(form))
      ruleset_index(form);
    else if (head == "run")
      read_run(*this, form, false);
    else if (head == "saturate" || head == "seq" || head == "repeat") {
      const auto inner = syntax.children(form);
      const size_t first = head == "repeat" ? 2 : 1;
      if (inner.size() > first)
        open.insert(open.end(), inner.begin() + static_cast<ptrdiff_t>(first), inner.end());
    }
  }
  repeat(1, syntax.children(command).subspan(1));
}

} // namespace luminal::egraph
