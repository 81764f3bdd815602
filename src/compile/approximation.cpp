// compile/approximation.cpp -- programs with rules of class `approx` against those without.
#include "compile/approximation.h"
#include "base/thread_pool.h"
#include "compile/plan_race.h"
#include "search/extract_kernel.h"
#include "search/measure_log.h"
#include <algorithm>
#include <fmt/format.h>
#include <optional>

namespace luminal::compile {
namespace {

class Check {
public:
  Check(const Options& options, const PlanMaker& make, BuiltPlan& built,
        std::map<Hash128, std::string>& exact)
      : options_(options), make_(make), built_(built), exact_(exact) {}

  Result<ApproximationReport> run() {
    out_.max_error = built_.rules->max_error();
    if (!is_approximate(built_)) return std::move(out_);
    forbidden_ = built_.rules->approximate_rules();
    auto without = make_({{}, forbidden_});
    if (!without) return without.failure();
    if (options_.target.is_text())
      return leave(std::move(*without),
                   fmt::format("what runs on the device {} is not measured", options_.device));
    for (const auto& [symbol, value] : sizes(*built_.plan)) bound_[symbol] = value;
    std::optional<ThreadPool> own;
    ThreadPool* pool = options_.pool ? options_.pool : &own.emplace(options_.limits.threads);
    ProgramRace race(race_options(options_, built_, pool, bound_));
    const auto reference = race.add(without->plan);
    if (!reference) return leave(std::move(*without), reference.error());
    auto error = error_of(race, *reference, built_);
    if (!error) return leave(std::move(*without), error.error());
    if (within(*error)) return taken(*error);
    for (const RegionReport& region : by_promise()) {
      const auto other = std::ranges::find_if(region.plans, [](auto& plan) { return !plan.approximate; });
      exact_[region.key->hash()] = plan_text(other->name);
      out_.rejected.push_back(
          fmt::format("{}: with it the results are off by {:.2g} of their greatest elements, "
                      "{:.2g} is allowed",
                      compile::name_of(region), *error, out_.max_error));
      auto fewer = make_({exact_, {}});
      if (!fewer) return fewer.failure();
      if (!is_approximate(*fewer)) break;
      error = error_of(race, *reference, *fewer);
      if (!error) break;
      if (!within(*error)) continue;
      built_ = std::move(*fewer);
      return taken(*error);
    }
    return leave(std::move(*without), "");
  }

private:
  bool within(double error) const { return error <= out_.max_error; } // not of NaN

  ExprMap<int64_t> sizes(const runtime::Plan& plan) const {
    ExprMap<int64_t> out;
    const auto typical = search::typical_sizes(plan.symbols, plan.assumptions, options_.sizes);
    for (const Expr symbol : plan.symbols) out[symbol] = typical.at(std::string(symbol.name()));
    return out;
  }

  static Result<double> error_of(ProgramRace& race, ProgramId reference, const BuiltPlan& built) {
    const auto program = race.add(built.plan);
    if (!program) return program.failure();
    const auto error = race.error(reference, *program);
    race.drop(*program);
    return error;
  }

  /// Approximate regions, what spares least first.
  std::vector<RegionReport> by_promise() const {
    std::vector<RegionReport> out;
    for (const RegionReport& region : built_.builder->regions())
      if (is_approximate(region)) out.push_back(region);
    std::ranges::stable_sort(
        out, {}, [](const RegionReport& r) { return double(r.instances) * (r.written_s - r.estimate_s); });
    return out;
  }

  Result<ApproximationReport> taken(double error) {
    out_.error = error;
    for (const RegionReport& region : built_.builder->regions())
      if (is_approximate(region)) out_.regions += region.instances;
    return std::move(out_);
  }
  /// All of the program stays exact.
  Result<ApproximationReport> leave(BuiltPlan without, const std::string& why) {
    if (!why.empty()) out_.rejected.push_back("the error of the program is not known: " + why);
    built_ = std::move(without);
    return std::move(out_);
  }

  const Options& options_;
  const PlanMaker& make_;
  BuiltPlan& built_;
  std::map<Hash128, std::string>& exact_;
  std::vector<std::string> forbidden_;
  ExprMap<int64_t> bound_;
  ApproximationReport out_;
};

} // namespace

bool is_approximate(const RegionReport& region) {
  return region.taken < region.plans.size() && region.plans[region.taken].approximate;
}
bool is_approximate(const BuiltPlan& built) {
  const auto& regions = built.builder->regions();
  return std::ranges::any_of(regions, [](const RegionReport& region) { return is_approximate(region); });
}

Result<ApproximationReport> check_approximation(const Options& options, const PlanMaker& make,
                                                BuiltPlan& built, std::map<Hash128, std::string>& exact) {
  return Check(options, make, built, exact).run();
}

std::string to_string(const ApproximationReport& report) {
  std::string out;
  if (report.max_error <= 0) return out;
  if (report.regions > 0)
    out += fmt::format(
        "approximate: {} region{}; results are off by {:.2g} of their greatest elements, {:.2g} is "
        "allowed\n",
        report.regions, report.regions == 1 ? "" : "s", report.error, report.max_error);
  else
    out += fmt::format("approximate: nothing, where {:.2g} of the greatest element of a result is allowed\n",
                       report.max_error);
  for (const std::string& line : report.rejected) out += fmt::format("  rejected: {}\n", line);
  return out;
}

} // namespace luminal::compile
