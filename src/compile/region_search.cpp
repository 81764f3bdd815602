// compile/region_search.cpp -- the pass `rules`: regions are cut, searched and replaced.
#include "compile/region_search.h"
#include "base/check.h"
#include "base/contains.h"
#include "base/hash.h"
#include "choose/limits_hash.h"
#include "compile/explain_plan.h"
#include "compile/fuse_demand.h"
#include "compile/pass_list.h"
#include "compile/region_cache.h"
#include "rules/saturate.h"
#include "search/extract_kernel.h"
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <limits>
#include <unordered_map>
#include <utility>

namespace luminal::compile {
namespace {

using rules::FlatFunction;
using rules::Fragment;
using rules::FunctionRegion;
using rules::RegionTerms;

/// Of the time of the kernels as they came that a plan changes: what is not better by so much is left
/// alone.
constexpr double margin = 0.85;
/// The same for a plan that spares most of the bytes, where these are more than a near cache holds.
constexpr double margin_of_bytes = 1;
/// Plans of a region that are judged by their kernels, each with three sorts of boundaries.
constexpr uint64_t most_judged = 2;
constexpr uint64_t ways_of_plan = 3;
/// Plans of a region that are kept, the one that stays as it came included.
constexpr size_t most_plans = 4;
/// Plans that take so much more than what is taken, by estimate, are not worth a measurement.
constexpr double hopeless = 1.5;
/// Candidates that all climbs of a region cost.
constexpr uint64_t most_candidates = 4000;
/// Estimates as near as this do not say which is faster: of these plans one that stores less than
/// half is taken.
constexpr double as_good = 1.02;
/// Microseconds of one core, about: of a row of the e-graph, of a candidate's cost, of a plan's estimate.
constexpr uint64_t work_of_row = 10, work_of_candidate = 4, work_of_judged = 12000;
/// Of the e-graph of a region: what explodes beyond it ends with what is there.
constexpr uint64_t most_rows = 20000;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// A step function makes a whole unit of one rounding: beside it only rules that keep every bit are used.
bool has_steps(const Function& f) {
  return std::ranges::any_of(f.nodes, [&](const Node& node) {
    if (node.kind == NodeKind::cast)
      return !is_float(node.type().dtype) && is_float(f[node.inputs[0]].type().dtype);
    const auto* map = std::get_if<MapAttr>(&node.attr);
    if (!map) return false;
    return contains(std::array{Op::floor, Op::ceil, Op::trunc, Op::round, Op::rem}, map->op);
  });
}

/// Typical sizes of the dynamic dimensions; and large ones, where a choice for all sizes has most to lose.
std::vector<std::map<std::string, int64_t>> sizes_of(const Module& module,
                                                     const std::map<std::string, int64_t>& given) {
  std::vector<std::map<std::string, int64_t>> out{
      search::typical_sizes(module.symbols, module.assumptions, given)};
  std::map<std::string, int64_t> large = given;
  for (const Expr symbol : module.symbols)
    if (const Interval range = symbol.range(); range.high != unbounded_high) {
      int64_t& size = large[std::string(symbol.name())];
      size = std::max(size, range.high / 2);
    }
  large = search::typical_sizes(module.symbols, module.assumptions, large);
  if (std::ranges::all_of(out[0], [&](const auto& size) { return large.at(size.first) >= size.second; }) &&
      large != out[0])
    out.push_back(std::move(large));
  return out;
}

/// What is chosen decides bits, which must be the same for any number of workers: it is chosen for one,
/// and by no rate that was measured.
kernel::MachineLimits one_worker(kernel::MachineLimits limits) {
  limits.threads = 1;
  return limits;
}
search::MachineProfile one_worker(const search::MachineProfile& profile) {
  search::MachineProfile out;
  out.l2 = profile.l2;
  out.l3 = profile.l3;
  out.fork_join_us = 0.5; // of a launch, where there are others
  return out;
}

class RegionSearcher {
public:
  RegionSearcher(PlanState& state, const RegionFunction& region, const RegionLimits& limits,
                 const std::function<bool()>& stop)
      : state_(state), region_(region), f_(region.module.entry()), limits_(limits), stop_(stop),
        sizes_(sizes_of(region.module, state.planner.sizes())),
        limits_of_one_(one_worker(state.planner.limits())), splitter_(state.splitter_of_one()),
        rates_(search::estimate_rates(one_worker(state.planner.profile()), limits_of_one_)) {
    for (const Expr symbol : region.module.symbols) {
      const auto found = sizes_[0].find(std::string(symbol.name()));
      if (found != sizes_[0].end()) values_[symbol] = found->second;
    }
  }

  RegionResult run() {
    RegionResult out;
    report_ = &out.report;
    RegionTerms& terms = *engine_;
    const auto entered = rules::enter(terms, *region_.flat, {region_.roots, {}});
    if (!entered) {
      out.report.outcome = entered.error();
      return out;
    }
    out.report.axes = terms.axes.size();
    if (state_.rules.choose) {
      terms.graph().rebuild();
      if (const auto choice = state_.rules.choose(terms, *entered))
        out.plans.push_back({{}, rules::emit(terms, *entered, *choice)});
      return out;
    }
    const rules::WrittenTerms written(terms);
    auto start = std::chrono::steady_clock::now();
    saturate(terms);
    out.report.saturate_s = seconds_since(start);
    start = std::chrono::steady_clock::now();
    rules::RegionLoops loops(terms, *entered, written, extent_);
    out.report.classes = terms.graph().class_count();
    out.report.rows = terms.graph().total_size();
    out.report.work = work_of_row * out.report.rows;
    if (!loops.problem_text().empty()) {
      out.report.outcome = loops.problem_text();
      return out;
    }
    if (loops.problem().row_count() == loops.problem().class_count()) {
      out.report.outcome = "no rule applies";
      return out;
    }
    rules::PlanSearchOptions options;
    options.rates = loop_rates(rates_, limits_of_one_);
    options.seed = state_.rules.seed;
    options.most_costs = limits_.candidates;
    options.stop = stop_;
    const rules::FoundPlans found = rules::find_plans(loops, stored_by_fusion(loops, *entered), options);
    out.report.extract_s = seconds_since(start);
    out.report.work += work_of_candidate * found.candidates;
    if (found.stopped) report_->limit = "seconds, while plans were searched";
    start = std::chrono::steady_clock::now();
    judge(loops, *entered, found, out);
    out.report.judge_s = seconds_since(start);
    return out;
  }

private:
  void saturate(RegionTerms& terms) {
    const rules::SaturateReport report =
        rules::saturate(terms, {.rows = limits_.rows, .seconds = state_.rules.seconds});
    for (const rules::RuleUse& rule : report.rules)
      if (rule.unions + rule.rows > 0 && !rule.name.starts_with("(")) // that is: it has no name
        report_->rules.push_back(rule.name);
    if (report.stop != egraph::StopReason::none)
      report_->limit = fmt::format("{} in the phase {}", egraph::to_string(report.stop), report.phase);
  }

  std::vector<uint32_t> stored_by_fusion(const rules::RegionLoops& loops,
                                         const rules::Entered& entered) const {
    std::vector<uint32_t> out;
    for (const auto& kernel : fuse_step(f_).partition.kernels)
      for (const NodeId id : kernel) {
        const egraph::ClassId c = entered.classes[id];
        const uint32_t number = c == egraph::absent ? egraph::no_row : loops.number_of(c);
        if (number != egraph::no_row && !loops.is_root[number] && !loops.is_tuple[number])
          out.push_back(number);
      }
    return out;
  }

  using Times = std::vector<KernelSplitter::KernelTime>;
  struct Judged {
    RegionPlan plan;
    double share = 1;   // of the step's time as it came
    bool taken = false; // it is better by the margin
  };

  /// The plans with their boundaries, with those of fusion but for the kernels of folds that are new, and
  /// with those of fusion alone; and what came.
  void judge(rules::RegionLoops& loops, const rules::Entered& entered, const rules::FoundPlans& found,
             RegionResult& out) {
    RegionReport& report = out.report;
    const Times written = *times_of(f_, nullptr);
    report.written_s = report.estimate_s = total(written, 0) * 1e-9;
    std::vector<Judged> judged;
    judged.push_back({{{.name = name_of(written),
                        .estimate_s = report.written_s,
                        .kernels = written.size(),
                        .stored_bytes = stored(written),
                        .written = true},
                       {}}});
    double least = std::numeric_limits<double>::infinity();
    const auto add = [&](const rules::FoundPlan& plan, rules::Decided decided) {
      Fragment fragment = rules::emit(loops.terms, entered, rules::choice_of(loops, plan, decided));
      rules::FunctionWriter writer(f_);
      writer.place(fragment);
      Boundaries boundaries;
      const Function made = writer.finish(&boundaries.partition, &boundaries.decided);
      if (decided == rules::Decided::none) boundaries = {};
      const std::optional<Times> judging = times_of(made, &boundaries);
      if (!judging) return;
      const Times& times = *judging;
      const auto [share, taken] = compared(written, times);
      least = std::min(least, share);
      const std::string name = name_of(times);
      if (times.empty() ||
          std::ranges::any_of(judged, [&](const Judged& other) { return other.plan.report.name == name; }))
        return;
      judged.push_back({{{.name = name,
                          .estimate_s = total(times, 0) * 1e-9,
                          .kernels = times.size(),
                          .stored_bytes = stored(times),
                          .approximate = is_approximate(loops, plan)},
                         std::move(fragment)},
                        share,
                        taken});
    };
    using Way = std::pair<const rules::FoundPlan*, rules::Decided>;
    std::vector<std::pair<Way, uint64_t>> ways; // with their work
    for (size_t k = 0; k < std::min<size_t>(limits_.judged, found.plans.size()); ++k)
      for (const rules::Decided decided :
           {rules::Decided::all, rules::Decided::changed, rules::Decided::none})
        ways.push_back({{&found.plans[k], decided}, work_of_judged / ways_of_plan});
    if (found.fewest) ways.push_back({{&*found.fewest, rules::Decided::all}, work_of_judged / ways_of_plan});
    for (const auto& [way, work] : ways) {
      if (stop_()) {
        report.limit = "seconds, while plans were compared";
        break;
      }
      report.work += work;
      add(*way.first, way.second);
    }
    keep(judged, least, rates_.l2_bytes, out);
  }
  /// None where the same terms were split in the same way before.
  std::optional<Times> times_of(const Function& function, const Boundaries* boundaries) {
    const KernelSplitter::Split split = splitter_.split(function, nullptr, boundaries);
    const Function& f = split.function.nodes.empty() ? function : split.function;
    for (const auto& [known, partition] : judged_)
      if (partition == split.fusion.partition && std::ranges::equal(known.nodes, f.nodes, same_node))
        return {};
    judged_.emplace_back(f, split.fusion.partition);
    return splitter_.step_times(function, split, sizes_, rates_);
  }
  /// Was a term that it computes made by a rule of class `approx`?
  static bool is_approximate(const rules::RegionLoops& loops, const rules::FoundPlan& plan) {
    const egraph::EGraph& graph = loops.terms.graph();
    const egraph::Genome& genome = plan.candidate.genome;
    std::vector<uint8_t> seen(genome.size(), 0);
    std::vector<uint32_t> stack(loops.problem().roots().begin(), loops.problem().roots().end());
    while (!stack.empty()) {
      const uint32_t c = stack.back();
      stack.pop_back();
      if (std::exchange(seen[c], 1) != 0) continue;
      const auto [op, row] = loops.engine.chosen(genome, c);
      const egraph::RuleId rule = graph.creator(op, row);
      if (rule != egraph::absent && graph.rule(rule).numeric == egraph::NumericClass::approximate)
        return true;
      for (const uint32_t x : loops.problem().children(genome[c])) stack.push_back(x);
    }
    return false;
  }
  /// The best ones, what came among them.
  static void keep(std::vector<Judged>& judged, double least, double near_bytes, RegionResult& out) {
    RegionReport& report = out.report;
    const Judged* best = judged.data();
    for (const Judged& plan : judged)
      if (plan.taken && plan.share < best->share) best = &plan;
    if (best != judged.data())
      for (const Judged& plan : judged)
        if (plan.taken && plan.share <= best->share * as_good &&
            plan.plan.report.stored_bytes < best->plan.report.stored_bytes / 2)
          best = &plan;
    if (best == judged.data())
      report.outcome = std::isinf(least) ? "no plan has kernels"
                                         : fmt::format("the best plan takes {:.2f} of its time", least);
    const std::string name = best->plan.report.name;
    const Judged* fewest = best;
    for (const Judged& plan : judged)
      if (plan.plan.report.stored_bytes + near_bytes < fewest->plan.report.stored_bytes) fewest = &plan;
    const std::string sparing = fewest->plan.report.name;
    const double most = best->share * hopeless;
    const auto always = [&](const Judged& plan) {
      return plan.plan.report.written || plan.plan.report.name == name || plan.plan.report.name == sparing;
    };
    std::erase_if(judged, [&](const Judged& plan) { return !always(plan) && !(plan.share < most); });
    std::ranges::stable_sort(judged, {}, &Judged::share);
    for (size_t k = judged.size(); judged.size() > most_plans && k-- > 0;)
      if (!always(judged[k])) judged.erase(judged.begin() + ptrdiff_t(k));
    for (Judged& plan : judged) {
      if (plan.plan.report.name == name) out.usual = out.plans.size();
      if (plan.plan.report.name == sparing) out.fewest = out.plans.size();
      out.plans.push_back(std::move(plan.plan));
    }
  }
  /// Of the kernels, in any order.
  static std::string name_of(const Times& times) {
    std::vector<Hash128> kernels;
    for (const auto& kernel : times) kernels.push_back(kernel.kernel);
    std::ranges::sort(kernels);
    Hasher hasher;
    for (const Hash128& kernel : kernels) hasher.add(kernel);
    return fmt::format("{:016x}", hasher.value64());
  }
  static double total(const Times& times, size_t size) {
    double ns = 0;
    for (const auto& kernel : times) ns += kernel.ns[size];
    return ns;
  }
  static double stored(const Times& times) {
    double bytes = 0;
    for (const auto& kernel : times) bytes += kernel.stored[0];
    return bytes;
  }
  /// What the step takes, of what it took, on average over the sizes; and whether that is enough. The
  /// kernels that are not the same have to be better by a margin, which estimates of small differences
  /// need: these are wrong about as often as right. What no longer passes through slow memory is no
  /// small difference.
  std::pair<double, bool> compared(const Times& before, const Times& after) const {
    if (before.empty() || after.empty()) return {std::numeric_limits<double>::infinity(), false};
    std::map<Hash128, int> common;
    for (const auto& kernel : before) ++common[kernel.kernel];
    for (const auto& kernel : after) --common[kernel.kernel];
    double changed = 0, whole = 0, stored_before = 0, stored_after = 0;
    for (size_t size = 0; size < sizes_.size(); ++size) {
      const auto apart = [&](const auto& times, int sign) {
        std::pair<double, double> out{0, 0};
        std::map<Hash128, int> seen;
        for (const auto& kernel : times) {
          if (seen[kernel.kernel]++ >= sign * common[kernel.kernel]) continue;
          out.first += kernel.ns[size];
          out.second += kernel.stored[size];
        }
        return out;
      };
      const auto from = apart(before, 1), to = apart(after, -1);
      if (from.first <= 0) return {1, false};
      changed += std::log(to.first / from.first);
      whole += std::log(total(after, size) / total(before, size));
      stored_before = std::max(stored_before, from.second);
      stored_after = std::max(stored_after, to.second);
    }
    const auto count = double(sizes_.size());
    const bool spares = stored_before > rates_.l2_bytes && stored_after < stored_before / 2;
    return {std::exp(whole / count), std::exp(changed / count) < (spares ? margin_of_bytes : margin)};
  }

  PlanState& state_;
  const RegionFunction& region_;
  const Function& f_;
  const RegionLimits limits_;
  const std::function<bool()>& stop_;
  const std::vector<std::map<std::string, int64_t>> sizes_; // at which plans are compared
  ExprMap<int64_t> values_;
  const kernel::MachineLimits limits_of_one_;
  KernelSplitter& splitter_;
  search::EstimateRates rates_;
  const std::function<double(Expr)> extent_ = [this](Expr e) {
    if (e.is_constant()) return double(e.value());
    const auto value = evaluate(e, values_);
    const Interval range = e.range();
    return value ? double(*value) : range.high == unbounded_high ? double(1 << 20) : double(range.high);
  };
  RuleSet::Engine engine_{*state_.rules.set, has_steps(f_)};
  RegionReport* report_ = nullptr;
  std::vector<std::pair<Function, Partition>> judged_; // with the parts that are one kernel each
};

} // namespace

RegionLimits RegionLimits::of(uint64_t work) {
  RegionLimits out;
  out.judged = std::min(most_judged, work / 2 / work_of_judged);
  out.rows = std::min(most_rows, work / 4 / work_of_row);
  out.candidates = std::min(most_candidates, work / 4 / work_of_candidate);
  return out;
}

rules::LoopRates loop_rates(const search::EstimateRates& r, const kernel::MachineLimits& limits) {
  rules::LoopRates rates;
  rates.point = r.point;
  rates.step = r.step;
  rates.launch = r.launch;
  rates.l2_bytes = r.l2_bytes;
  rates.l3_bytes = r.l3_bytes;
  rates.l2_byte = r.l2_byte;
  rates.l3_byte = r.l3_byte;
  rates.memory_byte = r.memory_byte;
  rates.overlap = r.overlap;
  rates.lanes = double(std::max(1, limits.threads)) * std::max(1, limits.lanes);
  return rates;
}

std::unique_ptr<RegionFunction> region_function(const FlatFunction& flat, const FunctionRegion& region) {
  const Function& f = flat.function;
  auto out = std::make_unique<RegionFunction>();
  out->module = Module{flat.module.symbols, flat.module.assumptions, {}};
  Function& to = out->module.functions.emplace_back();
  to.name = "region";
  std::unordered_map<NodeId, NodeId> number;
  for (const NodeId id : region.leaves) {
    const auto made = to.nodes.end_id();
    number[id] = made;
    Node node = f[id];
    if (!f[id].is_tuple() && f[id].kind != NodeKind::constant) {
      node = Node{
          NodeKind::input,
          InputAttr{fmt::format("x{}", made), flat.fixed[id] ? Role::weight : Role::argument, f[id].type()},
          {},
          f[id].types,
          {},
          {},
          {}};
      to.params.push_back(made);
    }
    to.nodes.push_back(std::move(node));
  }
  for (const NodeId id : region.nodes) {
    Node node = f[id];
    for (NodeId& input : node.inputs) input = number.at(input);
    number[id] = to.nodes.add(std::move(node));
  }
  for (size_t k = 0; k < region.roots.size(); ++k) {
    out->roots.push_back(number.at(region.roots[k]));
    to.results.push_back({"r" + std::to_string(k), out->roots.back(), {}, {}});
  }
  out->flat = std::make_unique<FlatFunction>(out->module, out->module.entry());
  // What is known of a value in the whole function says more than its place in the region.
  const auto take = [&](NodeId from, NodeId made) {
    out->flat->fixed[made] = flat.fixed[from];
    out->flat->stored[made] = flat.stored[from];
  };
  for (const NodeId id : region.leaves) take(id, number.at(id));
  for (const NodeId id : region.nodes) {
    take(id, number.at(id));
    out->flat->kinds[number.at(id)] = flat.kinds[id];
  }
  for (const NodeId id : region.leaves) out->flat->kinds[number.at(id)] = rules::TermKind::leaf;
  return out;
}

bool is_worth_a_search(const FlatFunction& region) {
  return std::ranges::count_if(region.kinds, [](rules::TermKind kind) {
           return kind != rules::TermKind::leaf && kind != rules::TermKind::none;
         }) >= ptrdiff_t(fewest_nodes);
}

namespace {

/// All that the result of a region depends on.
Hash128 key_of(const PlanState& state, const FlatFunction& flat, const FunctionRegion& region,
               const RegionLimits& limits) {
  Hasher hasher;
  hasher.add(state.rules.set->hash()).add(limits.rows).add(limits.candidates).add(limits.judged);
  hasher.add(state.rules.seed).add(rules::structural_hash(flat, region));
  hash_into(hasher, one_worker(state.planner.limits()));
  const search::MachineProfile& profile = state.planner.profile();
  hasher.add(profile.l2).add(profile.l3);
  for (const Expr symbol : flat.module.symbols)
    hasher.add(symbol.name()).add(symbol.range().low).add(symbol.range().high).add(symbol.multiple());
  for (const auto& [name, size] :
       search::typical_sizes(flat.module.symbols, flat.module.assumptions, state.planner.sizes()))
    hasher.add(name).add(size);
  for (const Expr e : flat.module.assumptions) hasher.add(to_string(e));
  return hasher.value128();
}

} // namespace

KnownRegion search_region(PlanState& state, const FlatFunction& flat, const FunctionRegion& region,
                          const RegionLimits& limits, const std::function<bool()>& stop) {
  RegionCache& cache = RegionCache::shared();
  const Hash128 key = key_of(state, flat, region, limits);
  const bool keeps = !state.rules.choose;
  if (keeps)
    if (auto known = cache.find(key)) return {known, true, key};
  const auto function = region_function(flat, region);
  if (keeps && state.rules.files)
    if (auto known = cache.read(key, *function)) return {known, true, key};
  RegionResult result = RegionSearcher(state, *function, limits, stop).run();
  result.report.nodes = region.nodes.size();
  auto made = std::make_shared<const RegionResult>(std::move(result));
  if (keeps && !stop()) cache.keep(key, made, *function, state.rules.files);
  return {made, false, key};
}

} // namespace luminal::compile
