// compile/kernel_choice.cpp -- looking a kernel up in the tuning cache, and what is done with what
// is found there.
#include "compile/kernel_choice.h"
#include "base/log.h"
#include "base/text.h"
#include "choose/tiling.h"
#include "compile/explain_plan.h"
#include "compile/plan_file.h"
#include "search/limit.h"
#include "search/select.h"
#include <algorithm>
#include <fmt/format.h>
#include <set>
#include <utility>

namespace luminal::compile {

std::string to_string(const KernelReport& report) {
  std::string line =
      fmt::format("{}{}{}: {}", report.name, report.computes.empty() ? "" : " ", report.computes,
                  report.given   ? "given schedule"
                  : report.tuned ? "tuned"
                                 : "default schedule");
  if (!report.key.empty()) line += ", key " + report.key.substr(0, 12);
  if (!report.sizes.empty()) line += " at " + report.sizes;
  if (report.seconds > 0) line += ", " + human_time(report.seconds);
  if (report.usual_seconds > 0 && report.tuned)
    line += fmt::format(" (default {})", human_time(report.usual_seconds));
  if (report.limit_fraction > 0) line += fmt::format(", {:.0f} % of the limit", 100 * report.limit_fraction);
  if (!report.elsewhere.empty()) line += ", at " + report.elsewhere;
  if (report.tried > 0) line += fmt::format(", {} tried", report.tried);
  for (const auto& [cause, count] : report.rejected) line += fmt::format(", {} {}", count, cause);
  if (!report.untiled.empty()) line += "; no tiled schedule: " + report.untiled;
  if (!report.note.empty()) line += "; " + report.note;
  line += '\n';
  if (!report.names.empty()) line += "  " + report.names + '\n';
  return line;
}

namespace {

/// Names of the weights that a value is made of; nothing where it is made of anything else.
bool only_weights(const Function& f, NodeId from, std::set<std::string>& names) {
  std::vector<NodeId> stack{from};
  std::set<NodeId> seen;
  while (!stack.empty()) {
    const NodeId id = stack.back();
    stack.pop_back();
    if (!seen.insert(id).second) continue;
    if (seen.size() > 64) return false; // a packed weight is a few steps away from what the file holds
    const Node& node = f[id];
    if (node.kind == NodeKind::input) {
      const auto& input = std::get<InputAttr>(node.attr);
      if (input.role != Role::weight) return false;
      names.insert(input.name);
    }
    stack.insert(stack.end(), node.inputs.begin(), node.inputs.end());
  }
  return true;
}

std::string about(const search::KernelPlace& place) {
  const Function& f = *place.function;
  std::set<std::string> weights;
  for (const kernel::ConeValue& value : place.given->values)
    if (value.role == kernel::ValueRole::input)
      if (std::set<std::string> names; only_weights(f, value.origin, names)) weights.merge(names);
  constexpr size_t most = 3;
  std::string text;
  size_t shown = 0;
  for (const std::string& name : weights)
    if (shown++ < most) text += (text.empty() ? "" : ", ") + name;
  if (weights.size() > most) text += fmt::format(" and {} more", weights.size() - most);
  for (const NodeId root : place.roots)
    if (text.empty()) text = f[root].origin;
  return text;
}

/// Places of the program that asked for the nodes of the kernel.
std::vector<std::string> lines_of(const search::KernelPlace& place) {
  const Function& f = *place.function;
  std::set<NodeId> seen;
  for (const kernel::ConeValue& value : place.given->values)
    if (value.role == kernel::ValueRole::input) seen.insert(value.origin);
  std::vector<NodeId> stack = place.roots, nodes;
  while (!stack.empty()) {
    const NodeId id = stack.back();
    stack.pop_back();
    if (!seen.insert(id).second) continue;
    nodes.push_back(id);
    stack.insert(stack.end(), f[id].inputs.begin(), f[id].inputs.end());
  }
  return origins(f, nodes);
}

} // namespace

KernelPlanner::KernelPlanner(ChoiceOptions options)
    : options_(std::move(options)), defaults_(options_.limits) {
  for (const int threads : {1, options_.limits.threads})
    if (!machine_.contains(threads))
      machine_[threads] = search::machine_key(build_options(threads), "reassoc", 0);
}

search::TuningKey KernelPlanner::region_key(const Hash128& structure) const {
  search::TuningKey key = machine_.at(1);
  key.structure = structure;
  key.numeric = search::region_policy;
  if (options_.log) options_.log->uses(key);
  return key;
}

std::optional<std::string> KernelPlanner::kept(const search::TuningKey& key) const {
  if (const auto pinned = options_.pinned.find(key.hash()); pinned != options_.pinned.end())
    return pinned->second;
  std::optional<search::TuningEntry> entry;
  if (options_.plan) entry = options_.plan->find(key);
  if (!entry && options_.cache) entry = options_.cache->find(key);
  return entry ? std::optional(entry->schedule) : std::nullopt;
}

bool KernelPlanner::is_quarantined(const search::TuningKey& key, const std::string& text) const {
  return options_.cache && options_.cache->quarantined(key, text);
}

search::BuildOptions build_options(const kernel::MachineLimits& limits, const codegen::Target& target,
                                   int threads) {
  search::BuildOptions build;
  build.target = target;
  build.lower.lanes = limits.lanes;
  build.threads = threads;
  return build;
}

namespace {

std::string untiled(const kernel::Cone& cone, const kernel::Schedule& schedule,
                    const kernel::MachineLimits& limits) {
  std::string text;
  for (const kernel::TiledFold& fold : kernel::tiled_folds(cone, schedule, limits))
    if (fold.rate < kernel::least_rate)
      text += fmt::format("{}{} reaches {:.1f} % of the multiply-adds, {}", text.empty() ? "" : "; ",
                          fold.stage, 100 * fold.rate, fold.limit);
  return text;
}

} // namespace

/// Parses, lowers, verifies. Failure: why it is not a schedule for this cone.
Result<void> KernelPlanner::use(const std::string& schedule, const kernel::Cone& cone,
                                PlannedKernel& to) const {
  try {
    const kernel::Schedule parsed = kernel::parse_schedule(schedule);
    auto loops = kernel::lower(cone, parsed, build_options(1).lower);
    if (!loops) return Failure{"does not fit: " + loops.error()};
    if (const auto mistakes = kernel::verify(*loops); !mistakes.empty())
      return Failure{"is not sound: " + mistakes[0]};
    to.loops = std::move(*loops);
    to.schedule = kernel::to_string(parsed);
    to.report.untiled = untiled(cone, parsed, options_.limits);
    for (const kernel::Directive& d : parsed.directives)
      if (d.kind == kernel::DirectiveKind::serial)
        to.caps.push_back({d.numbers[0], d.numbers.size() > 1 ? int(d.numbers[1]) : 1});
    return {};
  } catch (const Error& mistake) {
    return Failure{std::string("cannot be read: ") + mistake.what()};
  }
}

/// Compares what came from elsewhere with the reference. Failure: only with `strict`.
Result<bool> KernelPlanner::passes(const search::TuningEntry& entry, PlannedKernel& to) {
  auto problem = to.problem();
  if (!problem) {
    to.report.note = "a schedule from elsewhere cannot be checked: " + problem.error();
    return false;
  }
  problem->cone.name = to.report.name;
  search::SelectOptions select;
  select.build = build_options(to.threads);
  select.worker = options_.worker;
  select.cache = options_.cache.get();
  select.reproducers = options_.reproducers;
  select.log = options_.log.get();
  Result<search::Tried> tried = Failure{""};
  if (auto fit = search::make_judgeable(*problem, select); fit)
    tried = search::check_one(
        *problem, search::candidate_of(kernel::parse_schedule(entry.schedule), select.build.lower), select);
  else
    tried = fit.failure();
  if (!tried) {
    to.report.note = "a schedule from elsewhere cannot be checked: " + tried.error();
    return false;
  }
  if (tried->checked) return true;
  to.report.note = fmt::format("a schedule from elsewhere is {}; reproducer in {}", tried->rejected,
                               tried->reproducer.empty() ? "no file" : tried->reproducer);
  ++to.report.rejected["wrong"];
  if (options_.strict) return Failure{fmt::format("kernel {}: {}", to.report.name, to.report.note)};
  return false;
}

/// The cache's entry. Failure: only with `strict`.
Result<bool> KernelPlanner::use_entry(search::TuningEntry entry, const kernel::Cone& cone,
                                      PlannedKernel& to) {
  if (const auto used = use(entry.schedule, cone, to); !used) {
    to.report.note = "the schedule found earlier " + used.error();
    return false;
  }
  if (!entry.checked) {
    auto good = passes(entry, to);
    if (!good || !*good) return good;
    entry.checked = true;
    options_.cache->put(entry, search::TuningCache::Keep::newest);
  }
  to.report.tuned = true;
  to.report.seconds = entry.seconds;
  to.report.limit_fraction = entry.limit_fraction;
  return true;
}

/// The entry of the plan's file, if there is one. Failure: only with `strict`.
Result<bool> KernelPlanner::use_plan(const kernel::Cone& cone, PlannedKernel& to) {
  const auto entry = options_.plan ? options_.plan->find(*to.key) : std::nullopt;
  if (!entry) return false;
  if (const auto used = use(entry->schedule, cone, to); !used) {
    to.report.note = "the schedule of the plan " + used.error();
    return false;
  }
  if (!entry->checked) {
    auto good = passes(*entry, to);
    if (!good) return good;
    if (!*good) {
      options_.plan->refuse(*entry, to.report.note);
      return false;
    }
    options_.plan->accept(*entry);
  }
  to.report.given = true;
  return true;
}

Result<PlannedKernel> KernelPlanner::choose(const search::KernelPlace& place, Expr points) {
  auto facts =
      std::make_shared<KernelFacts>(KernelFacts{*place.given, *place.canonical, {}, lines_of(place)});
  const kernel::CanonicalCone* canonical = &facts->canonical;
  PlannedKernel made;
  made.report.name = place.given->name;
  for (const kernel::ConeValue& value : place.given->values) {
    if (value.role == kernel::ValueRole::input || value.role == kernel::ValueRole::interior) continue;
    std::string extents;
    for (const Expr e : value.shape) extents += (extents.empty() ? "" : ", ") + luminal::to_string(e);
    made.report.computes +=
        fmt::format("{}{}[{}]", made.report.computes.empty() ? "" : " ", value.name, extents);
  }
  made.report.about = about(place);
  made.dimensions = canonical->dimensions;
  for (const auto& [name, given] : canonical->names)
    if (name[0] != 'o')
      made.report.names += fmt::format("{}{} {}", made.report.names.empty() ? "" : ", ", name, given);

  std::vector<Expr> symbols = place.module->symbols;
  symbols.insert(symbols.end(), place.counters.begin(), place.counters.end());
  const auto sizes = search::typical_sizes(symbols, place.module->assumptions, options_.sizes);
  ExprMap<int64_t> bound;
  for (const Expr symbol : symbols) bound[symbol] = sizes.at(std::string(symbol.name()));
  // A second worker is worth it where it saves more than it costs to ask it.
  const auto count = evaluate(points, bound);
  const int threads = options_.limits.threads;
  facts->sizes = search::canonical_sizes(*canonical, sizes);
  const double work = search::work_seconds(search::work_of(canonical->cone, facts->sizes), options_.profile);
  if (count && *count > 0 && work > 0) made.point_ns = work * 1e9 / double(*count);
  const double least_ns =
      std::max(options_.profile.fork_join_us, 0.2) * 1e3 * threads / std::max(1, threads - 1);
  const int64_t few = threads == 1 ? -1 : int64_t(std::min(least_ns / made.point_ns, 1e15));
  if (few >= 0) made.caps.push_back({few, 1});
  made.threads = count && *count <= few ? 1 : threads;
  for (const auto& [own, given] : canonical->dimensions)
    made.report.sizes += fmt::format("{}{}={}", made.report.sizes.empty() ? "" : " ", given.name(),
                                     sizes.at(std::string(given.name())));
  made.key = search::tuning_key(canonical->cone, facts->sizes, machine_.at(made.threads));
  made.report.key = made.key->hash().hex();
  if (options_.log) options_.log->uses(*made.key);
  made.report.facts = facts;
  made.problem = [where = place, facts, wanted = options_.sizes]() mutable {
    where.given = &facts->given;
    where.canonical = &facts->canonical;
    return search::extract_problem(where, wanted);
  };

  if (const auto own = options_.schedules.find(made.report.name); own != options_.schedules.end()) {
    if (const auto used = use(own->second, canonical->cone, made); !used)
      return Failure{fmt::format("kernel {}: the schedule given for it {}", made.report.name, used.error())};
    made.report.given = true;
    return made;
  }
  const auto pinned = options_.pinned.find(made.key->hash());
  bool done = false;
  if (pinned != options_.pinned.end()) {
    done = !pinned->second.empty() && use(pinned->second, canonical->cone, made).ok();
    made.report.tuned = done;
  } else {
    auto used = use_plan(canonical->cone, made);
    if (!used) return used.failure();
    done = *used;
  }
  if (!done && pinned == options_.pinned.end() && options_.cache) {
    if (auto entry = options_.cache->find_near(*made.key)) {
      if (entry->key.bucket != made.key->bucket)
        made.report.note = fmt::format("tuned for other sizes ({})", entry->key.bucket);
      auto used = use_entry(std::move(*entry), canonical->cone, made);
      if (!used) return used.failure();
      done = *used;
    }
  }
  if (done) return made;
  made.usual = &defaults_.of(canonical->cone);
  made.schedule = kernel::to_string(made.usual->schedule);
  return made;
}

Result<void> KernelPlanner::lower(const kernel::Cone& given, const kernel::CanonicalCone& canonical,
                                  PlannedKernel& made) const {
  const kernel::DefaultKernel* usual = std::exchange(made.usual, nullptr);
  if (!usual) return {};
  if (!usual->kernel)
    return Failure{fmt::format("kernel {}: {}\n{}\n{}", made.report.name, usual->kernel.error(),
                               to_string(given), made.schedule)};
  made.loops = *usual->kernel;
  made.report.untiled = untiled(canonical.cone, usual->schedule, options_.limits);
  return {};
}

} // namespace luminal::compile
