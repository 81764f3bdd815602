// compile/compile.cpp -- verifier, passes over terms, the pass list, code generation, search.
#include "compile/compile.h"
#include "base/check.h"
#include "base/contains.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/print.h"
#include "base/settings.h"
#include "base/thread_pool.h"
#include "choose/tiling.h"
#include "codegen/c_like/c_like.h"
#include "codegen/object_cache.h"
#include "codegen/version.h"
#include "compile/approximation.h"
#include "compile/blame_rules.h"
#include "compile/kept_plans.h"
#include "compile/plan_file.h"
#include "compile/plan_search.h"
#include "compile/search_log.h"
#include "device/host_memory.h"
#include "device/known_devices.h"
#include "ir/placement.h"
#include "runtime/arena.h"
#include "search/extract_kernel.h"
#include "search/machine_profile.h"
#include <algorithm>
#include <atomic>
#include <chrono>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <functional>

namespace luminal::compile {
namespace {

class Stopwatch {
public:
  explicit Stopwatch(std::vector<PassTime>& times) : times_(times) {}
  void lap(std::string name) {
    auto now = std::chrono::steady_clock::now();
    times_.push_back({std::move(name), std::chrono::duration<double, std::milli>(now - last_).count()});
    last_ = now;
  }
  /// What somebody else has timed since the last lap.
  void add(const std::vector<PassTime>& times) {
    times_.insert(times_.end(), times.begin(), times.end());
    last_ = std::chrono::steady_clock::now();
  }

private:
  std::vector<PassTime>& times_;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

/// Scratch is told over the kernel's own symbols.
Expr over_plan(Expr bytes, const PlannedKernel& kernel) {
  return kernel.dimensions.empty() ? bytes : substitute(bytes, kernel.dimensions);
}

/// Text of every kernel.
Result<int> write_texts(runtime::Plan& plan, const IdVector<runtime::CodeId, PlannedKernel>& kernels,
                        const Options& options) {
  const codegen::Dialect* dialect = codegen::find_dialect(options.target.language);
  LUMINAL_CHECK(dialect, "there is no language {}", options.target.language);
  for (const runtime::CodeId i : kernels.ids()) {
    runtime::KernelCode& code = plan.kernels[i];
    if (code.object)
      return Failure{fmt::format("custom kernel {} is LLVM IR, which the device {} does not run", code.name,
                                 options.device)};
    auto emitted = codegen::emit_c_like(kernels[i].loops, *dialect, {.entry = code.name});
    if (!emitted) return Failure{fmt::format("the device {}: {}", options.device, emitted.error())};
    const auto* bytes = reinterpret_cast<const std::byte*>(emitted->text.data());
    code.object = std::make_shared<const std::vector<std::byte>>(bytes, bytes + emitted->text.size());
    code.entry = code.name;
    code.shared_bytes = over_plan(emitted->shared_bytes, kernels[i]);
    code.local_bytes = 0;
    code.threads = {.lanes = emitted->lanes,
                    .phases = int(emitted->phases.size()),
                    .grouped = emitted->grouped,
                    .one_group = emitted->one_group,
                    .shared = !emitted->shared_bytes.is_constant(0),
                    .group_bytes = int(emitted->group_bytes.value())};
  }
  return 0;
}

/// Machine code of every kernel, from disk or made on all workers.
Result<int> generate(runtime::Plan& plan, const IdVector<runtime::CodeId, PlannedKernel>& kernels,
                     const Options& options) {
  if (options.target.is_text()) return write_texts(plan, kernels, options);
  IdVector<runtime::CodeId, std::string> errors(kernels.size());
  std::atomic<int> cached{0};
  codegen::ObjectCache cache(options.cache ? codegen::ObjectCache::default_folder() : "");
  auto one = [&](runtime::CodeId i) {
    if (plan.kernels[i].object) return; // the user's LLVM IR
    auto compiled = cache.compile(kernels[i].loops, options.target.cpu, {});
    if (!compiled) {
      errors[i] = compiled.error();
      return;
    }
    runtime::KernelCode& code = plan.kernels[i];
    code.entry = compiled->kernel.entry;
    code.shared_bytes = over_plan(compiled->kernel.shared_bytes, kernels[i]);
    code.local_bytes = over_plan(compiled->kernel.local_bytes, kernels[i]);
    code.object = std::make_shared<const std::vector<std::byte>>(std::move(compiled->kernel.object));
    code.barriers = kernel::has_barriers(kernels[i].loops);
    cached += compiled->from_cache;
  };
  if (options.pool)
    options.pool->parallel_for(int64_t(kernels.size()), [&](int64_t i) { one(runtime::CodeId(i)); });
  else
    for (const runtime::CodeId i : kernels.ids()) one(i);
  for (const runtime::CodeId i : errors.ids())
    if (!errors[i].empty()) return Failure{fmt::format("kernel {}: {}", plan.kernels[i].name, errors[i])};
  return cached.load();
}

/// Where values lie: those that name no device on that of the options.
std::vector<std::string> places_of(const Module& module, const Options& options) {
  std::vector<std::string> names;
  for (std::string name : devices_of(module, options.device)) {
    if (name == "cpu") name = options.device;
    if (!contains(names, name)) names.push_back(std::move(name));
  }
  return names;
}

std::shared_ptr<KernelPlanner> planner_of(const Options& options, std::shared_ptr<PlanFile> plan,
                                          const std::map<Hash128, std::string>& pinned) {
  return std::make_shared<KernelPlanner>(ChoiceOptions{.limits = options.limits,
                                                       .target = options.target,
                                                       .cache = options.tuning,
                                                       .sizes = options.sizes,
                                                       .strict = options.strict,
                                                       .reproducers = options.reproducers,
                                                       .worker = options.worker,
                                                       .pinned = pinned,
                                                       .plan = std::move(plan),
                                                       .schedules = options.schedules,
                                                       .profile = options.profile,
                                                       .log = options.log});
}

/// A plan and who made it.
struct PassedPlan {
  std::shared_ptr<KernelPlanner> chooser;
  std::shared_ptr<PlanBuilder> builder;
  runtime::Plan plan;
};
/// The pass list (compile/pass_list.h); where its plan takes more memory than the options allow, once more
/// with what stores fewest bytes.
Result<PassedPlan> passed(const Module& module, const Options& options, const std::shared_ptr<PlanFile>& file,
                          const std::map<Hash128, std::string>& pinned) {
  const auto run = [&](const RuleOptions& rules) -> Result<PassedPlan> {
    PassedPlan out;
    out.chooser = planner_of(options, file, pinned);
    out.builder = std::make_shared<PlanBuilder>(module, *out.chooser, options.partitioner, rules);
    auto plan = out.builder->build();
    if (!plan) return plan.failure();
    out.plan = std::move(*plan);
    return out;
  };
  auto usual = run(options.rules);
  if (!usual || options.max_memory <= 0 || usual->plan.memory_bytes() <= options.max_memory) return usual;
  RuleOptions rules = options.rules;
  rules.fewest_bytes = true;
  auto fewest = run(rules);
  if (fewest && fewest->plan.memory_bytes() >= usual->plan.memory_bytes()) return usual;
  return fewest;
}

/// The pass list, then code: none while a log is replayed, since nothing runs.
Result<BuiltPlan> build(const Module& module, const Options& options, const std::shared_ptr<PlanFile>& file,
                        const std::map<Hash128, std::string>& pinned, Stopwatch& watch) {
  const auto begin = std::chrono::steady_clock::now();
  BuiltPlan built;
  built.rules = options.rules.set;
  auto made = passed(module, options, file, pinned);
  if (!made) return made.failure();
  built.chooser = std::move(made->chooser);
  built.builder = std::move(made->builder);
  runtime::Plan* const plan = &made->plan;
  watch.add(built.builder->times());
  const auto generated = search::outcome(options.log.get(), "code of a program", "", [&]() -> Result<void> {
    const auto cached = generate(*plan, built.builder->kernels(), options);
    if (!cached) return cached.failure();
    built.cached = *cached;
    return {};
  });
  if (!generated) return generated.failure();
  for (const runtime::KernelCode& code : plan->kernels)
    if (!code.shared_bytes.range().is_bounded() || !code.local_bytes.range().is_bounded())
      return Failure{
          fmt::format("scratch of kernel {} has no largest size: every dimension needs a range", code.name)};
  watch.lap("code");
  plan->devices = places_of(module, options);
  built.plan = std::make_shared<const runtime::Plan>(std::move(*plan));
  built.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return built;
}

/// Does LUMINAL_DEBUG_FILTER let a kernel through? By its name and those of the tensors that it
/// reads and writes.
IdVector<runtime::CodeId, bool> shown_kernels(const runtime::Plan& plan) {
  std::vector<std::string> words(1);
  for (char c : setting_text("LUMINAL_DEBUG_FILTER"))
    if (c == ',')
      words.emplace_back();
    else
      words.back() += c;
  std::erase(words, "");
  IdVector<runtime::CodeId, bool> shown(plan.kernels.size(), words.empty());
  auto holds = [&](const std::string& name) {
    return std::any_of(words.begin(), words.end(),
                       [&](const auto& word) { return name.find(word) != std::string::npos; });
  };
  for (const runtime::CodeId i : plan.kernels.ids())
    if (holds(plan.kernels[i].name)) shown[i] = true;
  for (const runtime::Steps* steps : {&plan.load_steps, &plan.steps})
    for_each_step(*steps, [&](const runtime::Step& step) {
      if (const auto* launch = step.as<runtime::Launch>())
        for (const runtime::SlotId slot : launch->slots)
          if (holds(plan.slots[slot].name)) shown[launch->kernel] = true;
    });
  return shown;
}

/// Kernels that are far from what the machine could do, a line for each kind; empty where there are
/// none.
std::string slow_kernels(const std::vector<KernelReport>& choices) {
  std::string untiled, measured;
  for (const KernelReport& kernel : choices) {
    if (!kernel.untiled.empty()) untiled += (untiled.empty() ? "" : ", ") + kernel.name;
    if (kernel.seconds > 0 && kernel.limit_fraction > 0 && kernel.limit_fraction < kernel::least_rate)
      measured += (measured.empty() ? "" : ", ") + kernel.name;
  }
  std::string text;
  if (!untiled.empty()) text += fmt::format("no tiled schedule, as their lines say: {}\n", untiled);
  if (!measured.empty()) text += fmt::format("measured below a tenth of the machine's limit: {}\n", measured);
  return text;
}

/// What LUMINAL_DEBUG asks for, on stderr.
void print_debug(const Module& module, const Compiled& result,
                 const IdVector<runtime::CodeId, PlannedKernel>& kernels, const Options& options) {
  const int level = debug_level();
  if (level < 1) return;
  print_stderr("{}", slow_kernels(result.choices));
  if (level >= 5) print_stderr("{}", to_string(module));
  const IdVector<runtime::CodeId, bool> shown = shown_kernels(*result.plan);
  for (const runtime::CodeId i : kernels.ids()) {
    if (!shown[i]) continue;
    const auto& code = result.plan->kernels[i];
    print_stderr("kernel {}: {} points, {} bytes of code\n", code.name, to_string(code.points),
                 code.object->size());
    if (kernels[i].loops.buffers.empty()) continue; // the user's LLVM IR, which the terms show
    if (level >= 2) print_stderr("{}", kernels[i].schedule);
    if (level >= 4) print_stderr("{}", to_string(kernels[i].loops));
    auto show = [](const luminal::Result<std::string>& text) {
      print_stderr("{}\n", text ? *text : text.error());
    };
    if (level >= 6 && options.target.is_text())
      print_stderr("{}\n",
                   std::string_view(reinterpret_cast<const char*>(code.object->data()), code.object->size()));
    if (options.target.is_text()) continue;
    if (level >= 6) show(codegen::llvm_ir(kernels[i].loops, options.target.cpu));
    if (level >= 7) show(codegen::assembly(kernels[i].loops, options.target.cpu));
  }
  if (level >= 3)
    for (const PassTime& time : result.times) print_stderr("pass {:<10}{:8.1f} ms\n", time.name, time.ms);
}

} // namespace

Options Options::host(int threads) {
  Options options;
  options.target = codegen::Target::host();
  options.profile = search::MachineProfile::present(threads);
  options.limits = search::MachineProfile::guess(threads).limits();
  return options;
}

Options Options::for_device(const std::string& name, int threads) {
  Options options = host(threads);
  options.device = name;
  if (const device::KnownDevice* known = device::find_known_device(name)) {
    options.target.language = known->language;
    options.target.architecture = known->architecture;
  }
  if (options.target.is_text()) {
    options.limits.vector_registers = 0;
    options.limits.gpu = kernel::gpu_target(options.target.language, options.target.architecture);
  }
  return options;
}

std::shared_ptr<search::TuningCache> usual_tuning_cache(bool make) {
  return search::TuningCache::shared(search::TuningCache::default_path(), make);
}

uint64_t load_source(std::string_view weights_id, const Options& options) {
  return Hasher()
      .add("load")
      .add(codegen::codegen_version)
      .add(codegen::llvm_version())
      .add(options.target.cpu.hash())
      .add(weights_id)
      .value64();
}

namespace {
/// What is measured is run at its typical sizes: values of one step, its inputs and states must
/// find room.
Result<void> fits_in_memory(const runtime::Plan& plan, const std::map<std::string, int64_t>& sizes) {
  const auto typical = search::typical_sizes(plan.symbols, plan.assumptions, sizes);
  ExprMap<int64_t> values;
  for (const Expr symbol : plan.symbols) values[symbol] = typical.at(std::string(symbol.name()));
  IdVector<runtime::SlotId, int64_t> bytes;
  int64_t inputs = 0;
  for (const runtime::Slot& slot : plan.slots) {
    const auto present = evaluate(slot.bytes, values);
    bytes.push_back(present ? *present : slot.max_bytes);
    if (slot.kind == runtime::SlotKind::argument) inputs += bytes.back();
  }
  const int64_t needed = plan.memory_bytes(bytes) + inputs, there = device::usable_memory();
  if (needed <= there) return {};
  return Failure{fmt::format("measuring it takes {} at the sizes that it is tuned for, this machine has {}: "
                             "name smaller sizes (--sizes), or search nothing",
                             runtime::memory_text(needed), runtime::memory_text(there)),
                 MemoryShortage{.needed = needed, .available = there}};
}
} // namespace

namespace {
/// The module as the passes of the options leave it, where it is well formed and its devices exist.
Result<Module> prepared(const Module& module, const Options& options, PassTable& passes, Stopwatch& watch) {
  if (auto mistakes = verify(module); !mistakes.empty())
    return Failure{fmt::format("the module is not well formed: {}", mistakes[0])};
  watch.lap("verify");

  const std::vector<std::string> places = places_of(module, options);
  for (const std::string& name : places) {
    if (!device::find_known_device(name)) return Failure{device::no_such_device(name)};
    if (places.size() > 1 && options.target.is_text())
      return Failure{
          fmt::format("values lie on {}: a program runs on one of them", fmt::join(places, " and "))};
  }

  // what the caller asked for, else passes::defaults(): no result changes, fewer nodes are left
  Module work = module;
  auto table = std::make_shared<PassTable>();
  try {
    timed(options.passes, table).run(work);
  } catch (const Error& error) {
    return Failure{error.what()};
  }
  passes = std::move(*table);
  watch.lap("passes");
  return work;
}

/// The options with their rules read and tested.
Result<Options> with_rules(Options options) {
  options.rules.files = options.cache;
  if (options.rules.set) return options;
  try {
    options.rules.set = RuleSet::of(options.rules.choice);
  } catch (const Error& error) {
    return Failure{error.what()};
  }
  // Whoever allows errors asks for speed: all regions are searched, also of networks of many kinds of them.
  constexpr uint64_t more_work = 8;
  if (options.rules.set->max_error() > 0) options.rules.work *= more_work;
  return options;
}
} // namespace

namespace {
/// The plan's file that the options name, or the process; null: none.
Result<std::shared_ptr<PlanFile>> plan_file_of(const Options& options) {
  const std::string path = options.plan.empty() ? plan_of_process() : options.plan;
  if (path.empty() || options.target.is_text()) return std::shared_ptr<PlanFile>();
  if (options.search.mode != SearchMode::fast)
    return Failure{
        fmt::format("a search begins with what the tuning cache has: it takes no plan ({})", path)};
  return PlanFile::read(
      path,
      search::machine_key(build_options(options.limits, options.target, options.limits.threads), "reassoc",
                          0),
      options.cache);
}

/// What was compiled, as entries of a plan's file. What was not measured has the longest time that an entry
/// may have: any schedule that was wins against it.
std::vector<search::TuningEntry> entries_of(const BuiltPlan& built) {
  constexpr double not_known = 1e6;
  std::vector<search::TuningEntry> out;
  const auto add = [&](const search::TuningKey& key, std::string name, std::string schedule, double seconds) {
    search::TuningEntry& entry = out.emplace_back();
    entry.key = key;
    entry.name = std::move(name);
    entry.schedule = std::move(schedule);
    entry.seconds = seconds > 0 ? seconds : not_known;
    entry.samples = 1;
  };
  for (const PlannedKernel& kernel : built.builder->kernels())
    if (kernel.key) add(*kernel.key, kernel.report.name, kernel.schedule, kernel.report.seconds);
  for (const RegionReport& region : built.builder->regions())
    if (region.measured) add(*region.key, name_of(region), plan_text(region.plans[region.taken].name), 0);
  return out;
}
} // namespace

namespace {
/// The pass list without code; `give` takes what is wanted from the builder and its plan.
template <class F>
auto planned(const Module& module, const Options& options, F give)
    -> decltype(give(std::declval<PlanBuilder&>(), std::declval<runtime::Plan>())) {
  PassTable passes;
  std::vector<PassTime> times;
  Stopwatch watch(times);
  auto work = prepared(module, options, passes, watch);
  if (!work) return work.failure();
  const auto with = with_rules(options);
  if (!with) return with.failure();
  auto made = passed(*work, *with, nullptr, {});
  if (!made) return made.failure();
  return give(*made->builder, std::move(made->plan));
}
} // namespace

Result<std::vector<RegionReport>> plan_regions(const Module& module, const Options& options) {
  return planned(module, options, [](PlanBuilder& builder, runtime::Plan) {
    return Result<std::vector<RegionReport>>(builder.regions());
  });
}

Result<runtime::Plan> plan_only(const Module& module, const Options& options) {
  return planned(module, options,
                 [](PlanBuilder&, runtime::Plan plan) { return Result<runtime::Plan>(std::move(plan)); });
}

namespace {
/// Nothing where such a plan is not kept, or the options are wrong.
std::optional<Hash128> key_of_kept(const Module& module, const Options& options) {
  if (!options.kept_plans) return {};
  const auto with = with_rules(options);
  return with ? KeptPlans::shared().key(module, *with) : std::nullopt;
}

Result<Compiled> made(const Module& module, const Options& options);
} // namespace

Result<Compiled> compile(const Module& module, const Options& options) {
  const auto start = std::chrono::steady_clock::now();
  const std::optional<Hash128> key = key_of_kept(module, options);
  if (!key) return made(module, options);
  if (auto kept = KeptPlans::shared().find(*key)) {
    const auto now = std::chrono::steady_clock::now();
    kept->times.push_back({"read", std::chrono::duration<double, std::milli>(now - start).count()});
    return std::move(*kept);
  }
  auto result = made(module, options);
  if (result) KeptPlans::shared().keep(*key, *result);
  return result;
}

namespace {
Result<Compiled> made(const Module& module, const Options& options) {
  Compiled result;
  Stopwatch watch(result.times);
  auto made = prepared(module, options, result.passes, watch);
  if (!made) return made.failure();
  const Module work = std::move(*made);

  if (options.target.is_text() && options.search.mode != SearchMode::fast)
    return Failure{fmt::format(
        "schedules for the device {} are not searched for yet: compile without a search", options.device)};
  auto read = with_rules(options);
  if (!read) return read.failure();
  Options& with = *read;
  if (options.target.is_text()) with.tuning = nullptr; // what was measured on the processor
  if (with.log) with.tuning = begin_search(*with.log, work, with);
  if (with.search.mode != SearchMode::fast && !with.tuning)
    with.tuning = std::make_shared<search::TuningCache>(""); // for as long as this takes
  const auto plan_file = plan_file_of(with);
  if (!plan_file) return plan_file.failure();
  const std::shared_ptr<const RuleSet> every_rule = with.rules.set;
  std::map<Hash128, std::string> exact;   // plans of regions that may not be approximate
  std::vector<std::string> never_inexact; // rules, where no region may
  const PlanMaker make = [&](const PlanRequest& request) {
    std::vector<std::string> forbidden = request.forbidden;
    std::map<Hash128, std::string> pinned = request.pinned;
    pinned.insert(exact.begin(), exact.end());
    forbidden.insert(forbidden.end(), never_inexact.begin(), never_inexact.end());
    if (with.tuning) {
      result.blamed = quarantined_rules(*with.tuning, *every_rule);
      for (const BlamedRule& rule : result.blamed) forbidden.push_back(rule.name);
    }
    with.rules.set = RuleSet::without(every_rule, forbidden);
    return build(work, with, *plan_file, pinned, watch);
  };
  auto built = make({});
  if (!built) return built.failure();
  auto checked = check_approximation(with, make, *built, exact);
  if (!checked) return checked.failure();
  result.approximation = std::move(*checked);
  if (!result.approximation.rejected.empty() && result.approximation.regions == 0)
    never_inexact = every_rule->approximate_rules();
  for (const auto& [name, text] : options.schedules)
    if (std::ranges::none_of(built->builder->kernels(),
                             [&](const PlannedKernel& kernel) { return kernel.report.name == name; }))
      return Failure{fmt::format("there is no kernel {} for which a schedule is given", name)};
  if (*plan_file && (*plan_file)->used() == 0)
    log_warning(
        "the plan {} has nothing for this program: none of its {} entries is for one of its kernels at "
        "these sizes",
        (*plan_file)->path(), (*plan_file)->size());
  for (const PlannedKernel& kernel : built->builder->kernels()) result.choices.push_back(kernel.report);
  if (with.search.mode != SearchMode::fast) {
    const auto fits = search::outcome(with.log.get(), "memory", "",
                                      [&] { return fits_in_memory(*built->plan, with.sizes); });
    if (!fits) return fits.failure();
    auto summary = search_plan(with, make, *built, result.choices);
    if (!summary) return summary.failure();
    if (with.strict && summary->mismatches > 0)
      return Failure{fmt::format("{} schedules gave wrong results\n{}", summary->mismatches,
                                 compile::to_string(*summary))};
    result.search = std::move(*summary);
    watch.lap("search");
    if (search::replays(with.log.get())) { // now with code
      with.log = nullptr;
      built = make({});
      if (!built) return built.failure();
    }
  }

  const auto& kernels = built->builder->kernels();
  result.regions = built->builder->regions();
  result.kernels = int(kernels.size());
  result.cached = built->cached;
  for (const PlannedKernel& kernel : kernels) result.schedules.push_back(kernel.schedule);
  result.plan = built->plan;
  if (!options.target.is_text()) result.entries = entries_of(*built);
  print_debug(work, result, kernels, options);
  return result;
}
} // namespace

std::string Compiled::report() const {
  if (!made_before.empty())
    return fmt::format("plan {}: read from the cache in {:.1f} ms; when it was made:\n{}", plan->name,
                       times.front().ms, made_before);
  std::string out = fmt::format("plan {}: {} kernels ({} from the cache), arena {:.2f} MiB\n", plan->name,
                                kernels, cached, double(plan->arena_bytes) / (1 << 20));
  out += slow_kernels(choices);
  out += runtime::to_string(*plan);
  if (search) out += compile::to_string(*search);
  for (size_t i = 0; i < schedules.size(); i++)
    out += fmt::format("schedule of {}{}", to_string(choices[i]), schedules[i]);
  for (const RegionReport& region : regions) out += to_string(region);
  out += compile::to_string(approximation);
  for (const BlamedRule& rule : blamed)
    out += fmt::format("the rule {} is not used: {}{}\n", rule.name, rule.cause,
                       rule.reproducer.empty() ? "" : "; reproducer in " + rule.reproducer);
  for (const PassTime& time : times) out += fmt::format("{:<10}{:8.1f} ms\n", time.name, time.ms);
  return out + passes.to_string();
}

} // namespace luminal::compile
