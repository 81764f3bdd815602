// tensor/programs.cpp -- Graph::compile: a program for each combination of typical sizes, and the
// choice between them at execute.
#include "base/settings.h"
#include "compile/ablate.h"
#include "compile/explain_plan.h"
#include "compile/plan_file.h"
#include "compile/search_log.h"
#include "luminal/ablate.h"
#include "luminal/debug.h"
#include "luminal/inspect.h"
#include "luminal/plan_file.h"
#include "runtime/arena.h"
#include "tensor/graph_run.h"
#include <algorithm>
#include <cmath>
#include <deque>
#include <fmt/format.h>

namespace luminal {
namespace {

using Sizes = std::map<std::string, int64_t>;

constexpr size_t most_programs = 16;

void check_sizes(const GraphState& g, const CompileOptions& options, Where where) {
  const auto refuse = [&](const std::string& what) { throw Error("compile", "sizes: " + what, where); };
  size_t combinations = 1;
  for (const auto& [name, typical] : options.sizes) {
    const auto known = g.dims.find(name);
    if (known == g.dims.end()) refuse(no_dimension(g, name));
    if (typical.list.empty()) refuse(fmt::format("{} has none: one size or several are expected", name));
    const Interval range = known->second.range();
    for (auto size = typical.list.begin(); size != typical.list.end(); ++size) {
      if (!range.contains(*size))
        refuse(fmt::format("{} = {} is outside its range {}..{}", name, *size, range.low, range.high));
      if (std::find(typical.list.begin(), size, *size) != size)
        refuse(fmt::format("{} = {} is there twice", name, *size));
    }
    combinations *= typical.list.size();
    if (combinations > most_programs)
      refuse(fmt::format("{} combinations or more, at most {} are compiled: name fewer sizes", combinations,
                         most_programs));
  }
}

void check_options(const GraphState& g, const CompileOptions& options, Where where) {
  constexpr int most_threads = 1024;
  if (options.threads < 0 || options.threads > most_threads)
    throw Error("compile",
                fmt::format("threads = {}: 0 (all cores) to {} are expected", options.threads, most_threads),
                where);
  if (options.max_memory < 0)
    throw Error("compile", fmt::format("max_memory = {} bytes is negative", options.max_memory), where);
  check_sizes(g, options, where);
}

/// Each combination of the typical sizes; the first has the first size of each dimension.
std::vector<Sizes> combinations_of(const CompileOptions& options) {
  std::vector<Sizes> points(1);
  for (const auto& [name, typical] : options.sizes) {
    std::vector<Sizes> longer;
    for (const Sizes& point : points)
      for (const int64_t size : typical.list) (longer.emplace_back(point))[name] = size;
    points = std::move(longer);
  }
  return points;
}

std::string sizes_text(const Sizes& sizes) {
  std::string text;
  for (const auto& [name, size] : sizes) text += fmt::format("{}{}={}", text.empty() ? "" : " ", name, size);
  return text;
}

/// How far the sizes of the dimensions are from typical ones, by ratio.
double distance(const GraphState& g, const Sizes& typical) {
  double sum = 0;
  for (const auto& [name, size] : typical)
    if (const auto present = g.dim_values.find(name); present != g.dim_values.end())
      sum += std::abs(std::log((double(present->second) + 1) / (double(size) + 1)));
  return sum;
}

void add(SearchSummary& sum, const SearchSummary& s, const std::string& sizes) {
  sum.kernels += s.kernels, sum.searched += s.searched, sum.improved += s.improved;
  sum.tried += s.tried, sum.mismatches += s.mismatches;
  for (const auto& [cause, count] : s.rejected) sum.rejected[cause] += count;
  sum.kernels_before += s.kernels_before, sum.kernels_after += s.kernels_after;
  sum.program_before += s.program_before, sum.program_after += s.program_after;
  sum.complete &= s.complete;
  sum.seconds += s.seconds;
  sum.changed.insert(sum.changed.end(), s.changed.begin(), s.changed.end());
  sum.region_plans += s.region_plans;
  sum.regions.insert(sum.regions.end(), s.regions.begin(), s.regions.end());
  for (const std::string& note : s.notes) sum.notes.push_back(fmt::format("{}: {}", sizes, note));
}

/// Bytes of all programs at the largest sizes: states and loaded weights are shared, arenas are
/// not.
int64_t memory_of(const std::vector<std::unique_ptr<Program>>& programs) {
  int64_t total = 0;
  std::map<std::string, int64_t> states;
  std::map<uint64_t, int64_t> loaded;
  for (const auto& program : programs) {
    total += program->compiled.plan->arena_bytes;
    for (const runtime::Slot& slot : program->compiled.plan->slots)
      if (slot.kind == runtime::SlotKind::state)
        states[slot.name] = slot.max_bytes;
      else if (slot.kind == runtime::SlotKind::loaded)
        loaded[slot.key] = slot.max_bytes;
  }
  for (const auto& [_, bytes] : states) total += bytes;
  for (const auto& [_, bytes] : loaded) total += bytes;
  return total;
}

void check_memory(const std::vector<std::unique_ptr<Program>>& programs, int64_t limit, Where where) {
  if (auto fits = runtime::check_memory_limit(*programs[0]->compiled.plan, limit); !fits)
    throw_failure("compile", fits.failure(), where);
  if (const int64_t needed = memory_of(programs); limit > 0 && needed > limit)
    throw OutOfMemoryError(
        "compile",
        fmt::format("the {} programs for typical sizes may need {}, the limit is {}: name fewer sizes",
                    programs.size(), runtime::memory_text(needed), runtime::memory_text(limit)),
        {.needed = needed, .available = limit}, where);
}

} // namespace

compile::Options compile_options(const GraphState& g, const CompileOptions& options) {
  const int threads = options.threads > 0 ? options.threads : setting_threads();
  compile::Options inner = compile::Options::for_device(g.device_name, threads);
  inner.cache = inner.kept_plans = options.cache;
  inner.pool = &shared_pool(threads);
  inner.strict = options.strict;
  inner.max_memory = options.max_memory;
  inner.passes = passes_of(g, options);
  inner.search = options.search;
  inner.rules.choice = options.rules;
  inner.plan = options.plan;
  const bool searching = options.search.mode != SearchMode::fast;
  if (options.cache) inner.tuning = compile::usual_tuning_cache(searching);
  inner.weights = [&g](const std::string& name) {
    const auto found = g.data.find(name);
    return found != g.data.end() && found->second.given ? found->second.bytes : std::span<const std::byte>();
  };
  return inner;
}

GraphState::GraphState(std::string function) : name(function), builder(std::move(function), &module) {}

GraphState::~GraphState() {
  programs.clear(); // before the store and the device that they use
  store.reset();
}

const runtime::Executable* GraphState::executable() const {
  return programs.empty() ? nullptr : programs[running]->executable.get();
}
runtime::Context* GraphState::context() const {
  return programs.empty() ? nullptr : programs[running]->context.get();
}
void GraphState::drop_contexts() {
  for (const auto& program : programs) program->context.reset();
}

Program& choose_program(GraphState& g) {
  double least = INFINITY;
  for (size_t p = 0; p < g.programs.size(); p++)
    for (const Sizes& sizes : g.programs[p]->sizes)
      if (const double far = distance(g, sizes); far < least) least = far, g.running = p;
  return *g.programs[g.running];
}

void Graph::compile(const CompileOptions& options, Where where) {
  GraphState& g = *state("compile", where);
  check_options(g, options, where);
  if (!g.empty() && !g.has_results())
    throw Error("compile", "nothing is kept: call keep() on the tensors whose values are wanted", where);
  if (g.empty()) { // there is nothing to do, which is legal
    g.options = options;
    g.stale = false;
    return;
  }
  const int threads = options.threads > 0 ? options.threads : setting_threads();
  compile::Options inner = compile_options(g, options);
  const Module module = g.snapshot();
  const std::vector<Sizes> points = combinations_of(options);
  if (auto opened = compile::open_search_log(inner); !opened) throw Error("compile", opened.error(), where);
  inner.search.seconds /= double(points.size());
  std::vector<std::unique_ptr<Program>> programs;
  std::optional<SearchSummary> searched;
  for (const Sizes& sizes : points) {
    inner.sizes = sizes;
    auto compiled = compile::compile(module, inner);
    if (!compiled) throw_failure("compile", compiled.failure(), where);
    if (searched)
      add(*searched, *compiled->search, sizes_text(sizes));
    else
      searched = compiled->search;
    const auto same = std::ranges::find_if(
        programs, [&](const auto& program) { return program->compiled.schedules == compiled->schedules; });
    if (same != programs.end())
      (*same)->sizes.push_back(sizes);
    else
      programs.push_back(std::make_unique<Program>(Program{{sizes}, std::move(*compiled), nullptr, nullptr}));
  }
  if (auto closed = compile::close_search_log(inner); !closed) throw Error("compile", closed.error(), where);
  check_memory(programs, options.max_memory, where);
  g.programs.clear();
  g.running = 0;
  g.ran = false;
  if (!g.store || g.options.threads != options.threads) {
    g.store = store_on(shared_device(g.device_name, threads));
    for (auto& [_, data] : g.data) data.fresh = data.given;
  }
  g.options = options;
  g.options.search = {}; // what compiles again by itself does not search again
  g.searched = std::move(searched);
  for (const auto& program : programs) {
    auto executable = runtime::Executable::load(program->compiled.plan, g.store->device());
    if (!executable) throw Error("compile", executable.error(), where);
    program->executable = *executable;
  }
  g.programs = std::move(programs);
  g.readable = g.kept;
  g.stale = false;
}

std::string Graph::report(Where where) const {
  const GraphState& g = *state("report", where);
  if (g.programs.empty()) return "not compiled yet\n";
  std::string text;
  size_t sizes = 0;
  for (const auto& program : g.programs) sizes += program->sizes.size();
  for (size_t p = 0; p < g.programs.size(); p++) {
    const Program& program = *g.programs[p];
    if (sizes > 1) {
      std::string names;
      for (const Sizes& point : program.sizes) names += (names.empty() ? "" : ", ") + sizes_text(point);
      text += fmt::format("program for sizes near {}{}\n", names,
                          g.ran && p == g.running ? ": the one that ran last" : "");
    }
    text += program.compiled.report();
  }
  return text;
}

Explanation explain(const Graph& graph, const CompileOptions& options, std::source_location where) {
  GraphState& g = *graph.state("explain", where);
  if (g.empty()) return {};
  if (!g.has_results())
    throw Error("explain", "nothing is kept: call keep() on the tensors whose values are wanted", where);
  check_options(g, options, where);
  compile::Options inner = compile_options(g, options);
  inner.sizes = combinations_of(options).front();
  inner.kept_plans = false; // which have no reports of kernels
  inner.rules.texts = true;
  const auto compiled = compile::compile(g.snapshot(), inner);
  if (!compiled) throw Error("explain", compiled.error(), where);
  return compile::explain(*compiled, inner);
}

Ablation ablate(const Graph& graph, const CompileOptions& options, std::source_location where) {
  GraphState& g = *graph.state("ablate", where);
  if (g.empty()) return {};
  if (!g.has_results())
    throw Error("ablate", "nothing is kept: call keep() on the tensors whose values are wanted", where);
  check_options(g, options, where);
  compile::Options inner = compile_options(g, options);
  inner.sizes = combinations_of(options).front();
  inner.kept_plans = false;
  auto worth = compile::ablate(g.snapshot(), inner);
  if (!worth) throw Error("ablate", worth.error(), where);
  return std::move(*worth);
}

std::string export_plan(const Graph& graph, std::source_location where) {
  const GraphState& g = *graph.state("export_plan", where);
  if (g.programs.empty()) throw Error("export_plan", "the graph is not compiled yet: call compile()", where);
  std::deque<compile::Compiled> made; // of plans that were read from the cache, which have no entries
  std::vector<const compile::Compiled*> programs;
  for (const auto& program : g.programs) {
    programs.push_back(&program->compiled);
    if (program->compiled.made_before.empty()) continue;
    compile::Options inner = compile_options(g, g.options);
    inner.kept_plans = false;
    inner.sizes = program->sizes.front();
    auto compiled = compile::compile(g.snapshot(), inner);
    if (!compiled) throw Error("export_plan", compiled.error(), where);
    programs.back() = &made.emplace_back(std::move(*compiled));
  }
  return compile::export_plan(programs);
}

void choose_plan(std::string file) { compile::set_plan_of_process(std::move(file)); }

std::optional<SearchSummary> Graph::search_summary(Where where) const {
  return state("search_summary", where)->searched;
}

namespace {
/// Of programs for several sizes: each has an arena, and they share all else.
MemoryUse memory_use(const std::vector<const runtime::Plan*>& plans) {
  MemoryUse use;
  std::map<uint64_t, int64_t> loaded;
  for (const runtime::Plan* plan : plans) {
    use.arena += plan->arena_bytes;
    for (const auto& slot : plan->slots) {
      if (slot.kind == runtime::SlotKind::loaded) loaded[slot.key] = slot.max_bytes;
      if (slot.kind == runtime::SlotKind::arena && slot.pinned) use.kept += slot.max_bytes;
    }
  }
  for (const auto& [_, bytes] : loaded) use.loaded += bytes;
  for (const auto& slot : plans.at(0)->slots) {
    if (slot.kind == runtime::SlotKind::state) use.states += slot.max_bytes;
    if (slot.kind == runtime::SlotKind::weight) use.weights += slot.max_bytes;
    if (slot.kind == runtime::SlotKind::argument) use.inputs += slot.max_bytes;
  }
  return use;
}
} // namespace

MemoryUse Graph::memory(Where where) const {
  const GraphState& g = *state("memory", where);
  std::vector<const runtime::Plan*> plans;
  for (const auto& program : g.programs) plans.push_back(program->compiled.plan.get());
  return plans.empty() ? MemoryUse() : memory_use(plans);
}

MemoryUse planned_memory(const Graph& graph, const CompileOptions& options, std::source_location where) {
  constexpr std::string_view op = "planned_memory";
  const GraphState& g = *graph.state(op, where);
  if (g.empty()) return {};
  if (!g.has_results())
    throw Error(op, "nothing is kept: call keep() on the tensors whose values are wanted", where);
  check_options(g, options, where);
  compile::Options inner = compile_options(g, options);
  inner.sizes = combinations_of(options).front();
  const auto plan = compile::plan_only(g.snapshot(), inner);
  if (!plan) throw Error(op, plan.error(), where);
  return memory_use({&*plan});
}

} // namespace luminal
