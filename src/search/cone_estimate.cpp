// search/cone_estimate.cpp -- arithmetic by class, bytes by the memory that holds them.
#include "search/cone_estimate.h"
#include "choose/tiling.h"
#include "cone/formula.h"
#include "search/limit.h"
#include <algorithm>
#include <set>

namespace luminal::search {
namespace {

/// Of one core of a machine that was not measured: clock in GHz, with a multiply-add for each lane in each
/// cycle; GB/s.
constexpr double usual_clock = 3, usual_memory = 16, usual_l3 = 40, usual_l2 = 80;
/// Operations in the time of a vector instruction: that of a multiply-add, which is two.
constexpr double operations_of_step = 2;
/// What runs beside the other is not free.
constexpr double usual_overlap = 0.1;
/// What products reach of the rate of tile registers (operands come from other caches than the first); and
/// that rate, where it was not measured, beside multiply-adds.
constexpr double usual_tiles = 0.6, usual_tile_rate = 8;
/// Nanoseconds: a call, and beside it the wake-up of the workers.
constexpr double call = 300;
/// An element that is copied, loaded, stored or summed without lanes, and a function that is computed without
/// them.
constexpr double lone_element = 1, lone_function = 10;

double or_usual(double measured, double usual) { return measured > 0 ? measured : usual; }

/// How often the loops read the arguments, of which there are so many bytes: the parts of a tuple that run
/// one after the other over the whole array (`cascade STAGE root`) read them once each, but for those that
/// run in a loop of which a near cache holds what one trip reads.
double times_read(const kernel::Cone& cone, const kernel::Schedule& schedule, const kernel::Nests& nests,
                  const ExprMap<int64_t>& sizes, double bytes, double near_bytes) {
  const bool whole = std::ranges::any_of(schedule.directives, [](const kernel::Directive& d) {
    return d.kind == kernel::DirectiveKind::cascade && d.words.size() > 1 && d.words[1] == "root";
  });
  if (!whole) return 1;
  double times = 0;
  for (const kernel::StageId s : nests.cone.stages.ids()) {
    const kernel::Stage& stage = nests.cone.stages[s];
    bool part = std::ranges::none_of(cone.stages,
                                     [&](const kernel::Stage& other) { return other.name == stage.name; });
    bool reads = false; // a count reads nothing
    for (const kernel::Component& c : stage.components) {
      part = part && c.kind == kernel::ComponentKind::fold;
      kernel::visit_loads(c.body, [&](const kernel::FormulaLoad& f) {
        reads |= nests.cone.values[f.value].role == kernel::ValueRole::input;
      });
    }
    if (!part || !reads) continue;
    const kernel::StageNest& nest = nests.stages[s];
    double trips = nest.at.empty() ? 0 : 1;
    for (const kernel::StageLoop& loop : nest.loops) {
      const auto extent = evaluate(loop.extent, sizes);
      trips *= extent ? double(*extent) : 1;
      if (loop.name == nest.at) break;
    }
    times += !(bytes <= near_bytes * trips);
  }
  return std::max(1.0, times);
}

} // namespace

EstimateRates estimate_rates(const MachineProfile& profile, const kernel::MachineLimits& limits) {
  const double threads = std::max(1, profile.threads);
  const bool all = threads > 1;
  EstimateRates rates;
  const double flops =
      or_usual(all ? profile.fma_f32 : profile.fma_f32_1, 2 * usual_clock * limits.lanes * threads);
  rates.point = 2 / flops;
  rates.step = operations_of_step / flops;
  rates.word =
      4 / (usual_tiles * or_usual(all ? profile.bf16_tile : profile.bf16_tile_1, usual_tile_rate * flops));
  rates.launch = call + 1000 * profile.fork_join_us;
  rates.l2_bytes = double(or_usual(double(profile.l2), 512 << 10)) * threads;
  rates.l3_bytes = std::max(rates.l2_bytes, or_usual(double(profile.l3), 8 << 20));
  rates.l2_byte = 1 / (or_usual(profile.l2_1.read, usual_l2) * threads);
  rates.l3_byte = 1 / or_usual(profile.l3_all.read, usual_l3 * threads);
  rates.memory_byte = 1 / or_usual((all ? profile.memory : profile.memory_1).read, usual_memory);
  rates.overlap = usual_overlap;
  return rates;
}

double traffic_ns(double bytes, const EstimateRates& rates) {
  if (bytes > rates.l3_bytes / 2) return bytes * rates.memory_byte;
  return bytes * (bytes > rates.l2_bytes / 2 ? rates.l3_byte : rates.l2_byte);
}

double kernel_ns(const kernel::Cone& cone, const kernel::Schedule& schedule,
                 const kernel::MachineLimits& limits, const std::map<std::string, int64_t>& sizes,
                 const EstimateRates& rates) {
  const KernelWork work = work_of(cone, sizes);
  const auto bound = bound_symbols(cone.symbols, sizes);
  double tiled = 0, words = 0, apart = 0, functions = 0, steps = work.steps, again = 1, given = 0;
  for (const kernel::ValueId v : cone.values.ids())
    if (cone.values[v].role == kernel::ValueRole::input) given += work.value_bytes[v];
  if (const auto nests = kernel::largest_nests(cone, schedule)) {
    const KernelWork scheduled = work_of(*nests, sizes);
    steps = scheduled.steps;
    std::set<kernel::StageId> products;
    for (const kernel::TiledFold& fold : kernel::tiled_folds(*nests, limits, bound)) {
      (fold.on_tiles ? words : tiled) += fold.points * fold.share / std::max(fold.rate, 1e-3);
      if (const kernel::StageId s = nests->stage(fold.stage); products.insert(s).second)
        steps -= scheduled.product_steps[s];
    }
    apart = kernel::copied_one_by_one(*nests, bound) + kernel::stored_one_by_one(*nests, bound) +
            kernel::loaded_one_by_one(*nests, bound) + kernel::summed_one_by_one(*nests, bound);
    functions = kernel::functions_one_by_one(*nests, bound);
    again = times_read(cone, schedule, *nests, bound, given, rates.l2_bytes);
  }
  const double arithmetic = tiled * rates.point + words * rates.word + std::max(0.0, steps) * rates.step +
                            apart * lone_element + functions * lone_function;
  double moved = 0;
  for (const kernel::ValueId v : cone.values.ids()) {
    const double once = traffic_ns(work.value_bytes[v], rates);
    moved += cone.values[v].role == kernel::ValueRole::input ? once * again : once;
  }
  return std::max(arithmetic, moved) + rates.overlap * std::min(arithmetic, moved) + rates.launch;
}

} // namespace luminal::search
