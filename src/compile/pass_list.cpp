// compile/pass_list.cpp -- THE PASS LIST, and the loop that runs it.
#include "compile/pass_list.h"
#include "base/print.h"
#include "base/settings.h"
#include "compile/rewrite.h"
#include <chrono>
#include <ranges>

namespace luminal::compile {

// clang-format off
static constexpr FunctionPass of_functions[] = {
    {"inline",    "calls become what they call",                                        inline_called},
    {"empty",     "views without elements read a constant",                             empty_all_views},
    {"sorts",     "sorts become counting, or a radix sort of several kernels",          expand_all_sorts},
    {"tuples",    "tuples of folds over different axes become folds of their own",      split_all_tuples},
    {"images",    "sums over windows larger than their images are sums over the images", exchange_windows},
    {"seams",     "folds over joined values become folds of their parts",               part_folds},
    {"scatters",  "sums of scatters are scatters, one into the result of the other",    chain_scatters},
    {"one_hot",   "elements ask whether an index is their place, where one writes a line",  spread_indices},
    {"axes",      "stored values have the axis innermost that sums of narrow products read", order_axes},
    {"rules",     "of the equal programs of each region the one that takes least",      search_regions},
    {"load",      "what depends on weights alone is computed once, at load",            split_load},
    {"fuse",      "which values of a step are stored, and which one kernel computes",   partition_step},
    {"layouts",   "constants and copies lie in the order in which their kernels read",  lay_out_constants},
    {"factors",   "stored factors of sums hold zeros for subnormal numbers",            zero_small_factors},
    {"checks",    "accesses that no proof covers are checked by steps of the plan",     check_accesses},
    {"partition", "the same as `fuse` for load steps and for functions that steps run", partition_rest},
    {"cones",     "each kernel as stages over named axes",                              build_cones},
    {"order",     "kernels in an order that lets updates happen in place",              order_kernels},
};
static constexpr PlanPass of_plans[] = {
    {"canonical", "equal kernels are found by cones without names",                     find_distinct},
    {"choose",    "a schedule for each kernel: given, tuned before, or the default one", choose_schedules},
    {"lower",     "its loops",                                                          lower_schedules},
    {"place",     "steps over slots, and slots that share the memory of the arena",     place_steps},
};
// clang-format on

std::span<const FunctionPass> function_passes() { return of_functions; }
std::span<const PlanPass> plan_passes() { return of_plans; }

namespace {

class PassClock {
public:
  explicit PassClock(std::vector<PassTime>& times) : times_(times) {
    for (const FunctionPass& pass : of_functions) times_.push_back({std::string(pass.name), 0});
    for (const PlanPass& pass : of_plans) times_.push_back({std::string(pass.name), 0});
  }
  void lap(size_t pass) {
    const auto now = std::chrono::steady_clock::now();
    times_[first_ + pass].ms += std::chrono::duration<double, std::milli>(now - last_).count();
    last_ = now;
  }

private:
  std::vector<PassTime>& times_;
  const size_t first_ = times_.size();
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

/// What a pass has changed, where LUMINAL_DEBUG asks for terms.
class Dump {
public:
  Dump(const PlanState& state, const FunctionPlan& f) : state_(state), f_(f), function_(f.function) {}
  void show(std::string_view pass) {
    if (f_.function != function_) {
      function_ = f_.function;
      print_stderr("after {}:\n{}", pass,
                   to_string(Module{state_.plan.symbols, state_.module.assumptions, {*function_}}));
      partitions_ = cones_ = 0;
    }
    std::vector<const Section*> sections{&f_.step};
    if (f_.load) sections.insert(sections.begin(), &*f_.load);
    size_t partitions = 0, cones = 0;
    for (const Section* section : sections) {
      partitions += section->partition.has_value();
      cones += section->actions.size();
    }
    if (partitions != partitions_)
      for (const Section* section : sections)
        if (section->partition)
          print_stderr("after {}, {}:\n{}", pass, section == &f_.step ? "each step" : "at load",
                       to_string(*section->partition, *function_));
    if (cones != cones_)
      for (const Section* section : sections)
        for (const Action& action : section->actions)
          if (action.cone) print_stderr("after {}:\n{}", pass, kernel::to_string(*action.cone));
    partitions_ = partitions, cones_ = cones;
  }

private:
  const PlanState& state_;
  const FunctionPlan& f_;
  const Function* function_;
  size_t partitions_ = 0, cones_ = 0;
};

} // namespace

Result<void> run_passes(PlanState& state, std::vector<PassTime>& times) {
  PassClock watch(times);
  const bool shown = debug_level() >= 5;
  if (auto done = add_parameters(state); !done) return done;
  std::vector<InnerFunction> open; // the next one last
  for (FunctionPlan* f = &state.add(FunctionRole::entry, state.module.entry());;) {
    Dump dump(state, *f);
    for (size_t i = 0; i < std::size(of_functions); i++) {
      if (auto done = of_functions[i].run(state, *f); !done) return done;
      if (shown) dump.show(of_functions[i].name);
      watch.lap(i);
    }
    for (const InnerFunction& inner : std::views::reverse(inner_functions(*f))) open.push_back(inner);
    if (open.empty()) break;
    f = &open_function(state, open.back());
    open.pop_back();
  }
  for (size_t i = 0; i < std::size(of_plans); i++) {
    if (auto done = of_plans[i].run(state); !done) return done;
    watch.lap(std::size(of_functions) + i);
  }
  if (shown) print_stderr("{}", runtime::to_string(state.plan));
  return {};
}

} // namespace luminal::compile
