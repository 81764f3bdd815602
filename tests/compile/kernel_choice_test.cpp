// kernel_choice_test.cpp -- which schedule a kernel gets: keys that do not depend on names, entries
// that are used, checked first, or refused.
#include "base/file.h"
#include "base/log.h"
#include "base/thread_pool.h"
#include "compile/builder.h"
#include "compile/compile.h"
#include "device/cpu/cpu_device.h"
#include "ir/ops.h"
#include "ir/random_graph.h"
#include "runtime/context.h"
#include "schedule/lower.h"
#include "search/problem_support.h"
#include <gmock/gmock.h>

namespace luminal::compile {
namespace {

using search::ScratchFolder;
using search::TuningCache;
using testing::HasSubstr;

/// y = relu(A B) under the names given.
std::string dense(const std::string& m, const std::string& n, const std::string& k, const std::string& prefix,
                  int columns = 48) {
  return fmt::format(R"(fn @{3}main(%{3}x: f32[32, 40], %{3}w: f32[40, {4}]) {{
  %{3}a = view %{3}x [{0}: 32, {1}: {4}, {2}: 40] -> [{0}, {2}]
  %{3}b = view %{3}w [{0}: 32, {1}: {4}, {2}: 40] -> [{2}, {1}]
  %{3}p = mul %{3}a, %{3}b
  %{3}f = fold [{0}: 32, {1}: {4}, {2}: 40] over [{2}] {{ sum %{3}p[{0}, {1}, {2}] }}
  %{3}g = get %{3}f, 0
  %{3}y = tanh %{3}g
  return {3}out = %{3}y
}})",
                     m, n, k, prefix, columns);
}

Options options_with(std::shared_ptr<TuningCache> cache, int threads = 1) {
  Options options = Options::host(threads);
  options.cache = false;
  options.tuning = std::move(cache);
  options.worker = search::worker_processes;
  return options;
}

/// The only kernel's problem and key, and a schedule for it that is not the default one.
struct Other {
  search::KernelProblem problem;
  search::TuningKey key;
  std::string usual, other;
};
Other other_schedule(const Module& module, const Options& options) {
  KernelPlanner chooser({.limits = options.limits, .target = options.target});
  PlanBuilder builder(module, chooser);
  EXPECT_TRUE(builder.build());
  EXPECT_EQ(builder.kernels().size(), 1u);
  const PlannedKernel& kernel = builder.kernels().front();
  Other made{kernel.problem().value(), *kernel.key, kernel.schedule, ""};
  const auto usual = kernel::default_kernel(made.problem.cone, options.limits);
  for (const kernel::Decision& d : usual.decisions)
    for (const int64_t option : d.options) {
      const auto tried = kernel::default_kernel(made.problem.cone, options.limits, {{d.name, option}});
      if (tried.kernel && to_string(tried.schedule) != made.usual) made.other = to_string(tried.schedule);
    }
  EXPECT_EQ(to_string(usual.schedule), made.usual);
  EXPECT_FALSE(made.other.empty());
  return made;
}
search::TuningEntry entry_of(const Other& other, bool checked) {
  search::TuningEntry entry;
  entry.key = other.key;
  entry.name = "k0";
  entry.schedule = other.other;
  entry.seconds = 1e-5;
  entry.samples = 40;
  entry.checked = checked;
  return entry;
}

TEST(KernelChoice, NamesDoNotCount) {
  const auto key = [](const std::string& text, int threads = 1) {
    const auto compiled = compile(parse_module(text), options_with(nullptr, threads)).value();
    EXPECT_EQ(compiled.choices.size(), 1u);
    return compiled.choices[0].key;
  };
  const std::string first = key(dense("m", "n", "k", ""));
  EXPECT_EQ(first, key(dense("row", "column", "depth", "layer_7_")));
  EXPECT_EQ(first, key(dense("z", "b", "a", "q"))); // another order of the names
  EXPECT_NE(first, key(dense("m", "n", "k", "", 49)));
  EXPECT_NE(first, key(dense("m", "n", "k", ""), 2));
}

TEST(KernelChoice, DimensionsDoNotCountButTheirRangesAndSizesDo) {
  const auto compiled = [](const std::string& name, int high, const std::map<std::string, int64_t>& sizes) {
    Options options = options_with(nullptr);
    options.sizes = sizes;
    return compile(
               parse_module(fmt::format("symbol {0}: 1..{1}\nfn @main(%x: f32[{0}, 24]) {{\n  %f = fold [r: "
                                        "{0}, c: 24] over [c] {{ sum %x[r, c] }}\n  %y = get %f, 0\n  "
                                        "return y = %y\n}}",
                                        name, high)),
               options)
        .value();
  };
  const auto first = compiled("rows", 64, {});
  EXPECT_EQ(first.choices[0].sizes, "rows=8");
  EXPECT_EQ(first.choices[0].key, compiled("n", 64, {}).choices[0].key);
  EXPECT_EQ(first.choices[0].key, compiled("n", 64, {{"n", 8}}).choices[0].key);
  EXPECT_NE(first.choices[0].key, compiled("n", 128, {{"n", 8}}).choices[0].key);
  EXPECT_NE(first.choices[0].key, compiled("n", 64, {{"n", 1}}).choices[0].key);
  // The machine code takes the plan's own symbol.
  EXPECT_EQ(first.plan->kernels.front().symbols, first.plan->symbols);
}

TEST(KernelChoice, KernelsThatDifferInTheirScanOrDomainDiffer) {
  // What the text of a cone does not show counts, too.
  const auto kernels = [](const std::string& second) {
    const Module module = parse_module(R"(fn @main(%x: f32[5, 7], %z: f32[5, 7]) {
  %s = scan [r: 5, c: 7] along c { sum %x[r, c] }
  %a = get %s, 0
  %t = scan [r: 5, c: 7] along c)" + second +
                                       R"( { sum %z[r, c] }
  %b = get %t, 0
  return a = %a, b = %b
})");
    return compile(module, options_with(nullptr)).value().kernels;
  };
  EXPECT_EQ(kernels(""), 1);
  EXPECT_EQ(kernels(" exclusive"), 2);
  EXPECT_EQ(kernels(" reverse"), 2);
}

TEST(KernelChoice, UsesWhatTuningFound) {
  const Module module = parse_module(dense("m", "n", "k", ""));
  auto cache = std::make_shared<TuningCache>("");
  const Options options = options_with(cache);
  const Other other = other_schedule(module, options);
  ASSERT_TRUE(cache->put(entry_of(other, true)));
  const auto compiled = compile(parse_module(dense("a", "b", "c", "x_")), options).value();
  EXPECT_EQ(compiled.schedules[0], other.other);
  EXPECT_TRUE(compiled.choices[0].tuned);
  EXPECT_THAT(compiled.report(),
              HasSubstr("k0 x_y[32, 48]: tuned, key " + other.key.hash().hex().substr(0, 12)));
  // Another number of threads knows nothing of it.
  EXPECT_FALSE(compile(module, options_with(cache, 3)).value().choices[0].tuned);
}

TEST(KernelChoice, AScheduleThatDoesNotFitIsNamedAndLeft) {
  const Module module = parse_module(dense("m", "n", "k", ""));
  auto cache = std::make_shared<TuningCache>("");
  const Options options = options_with(cache);
  Other other = other_schedule(module, options);
  other.other = "split s0 no_such_loop x y 4\n";
  ASSERT_TRUE(cache->put(entry_of(other, true)));
  const auto compiled = compile(module, options).value();
  EXPECT_EQ(compiled.schedules[0], other.usual);
  EXPECT_FALSE(compiled.choices[0].tuned);
  EXPECT_THAT(compiled.report(), HasSubstr("does not fit: [schedule]"));
}

TEST(KernelChoice, WhatTheCallerGivesComesFirst) {
  const ScratchFolder folder("given");
  const Module module = parse_module(dense("m", "n", "k", ""));
  auto cache = std::make_shared<TuningCache>("");
  Options options = options_with(cache);
  const Other other = other_schedule(module, options);
  search::TuningEntry found = entry_of(other, true);
  found.schedule = "parallel s0 a0\n";
  ASSERT_TRUE(cache->put(found));
  options.schedules = {{"k0", other.other}};
  options.search = {.mode = SearchMode::budget, .seconds = 30};
  options.measure_lock = folder.file("lock");
  const auto compiled = compile(module, options).value();
  EXPECT_EQ(compiled.schedules[0], other.other);
  EXPECT_EQ(compiled.search->searched, 0);
  EXPECT_THAT(compiled.report(), HasSubstr("k0 y[32, 48]: given schedule, key"));
  EXPECT_EQ(cache->find(found.key)->schedule, found.schedule);
  const auto refused = [&](const std::string& name, const std::string& text) {
    options.schedules = {{name, text}};
    const auto failure = compile(module, options);
    return failure ? std::string("compiled") : failure.error();
  };
  EXPECT_THAT(refused("k0", "split s0 no_such_loop x y 4\n"),
              HasSubstr("kernel k0: the schedule given for it does not fit: [schedule]"));
  EXPECT_THAT(refused("k0", "split the difference\n"), HasSubstr("cannot be read: <schedule>:1:"));
  EXPECT_THAT(refused("k1", other.other), HasSubstr("no kernel k1"));
}

/// Two products one after the other, in a pool of four: a trace has an event for each part of a
/// launch.
TEST(KernelChoice, LaunchesRunOnAsManyWorkersAsTheScheduleSays) {
  const Module module = parse_module(R"(fn @main(%x: f32[64, 64], %w: f32[64, 64]) {
  %a = view %x [m: 64, n: 64, k: 64] -> [m, k]
  %b = view %w [m: 64, n: 64, k: 64] -> [k, n]
  %p = mul %a, %b
  %f = fold [m: 64, n: 64, k: 64] over [k] { sum %p[m, n, k] }
  %g = get %f, 0
  %c = view %g [m: 64, n: 64, k: 64] -> [m, k]
  %q = mul %c, %b
  %h = fold [m: 64, n: 64, k: 64] over [k] { sum %q[m, n, k] }
  %y = get %h, 0
  return y = %y
})");
  Options options = options_with(nullptr, 4);
  options.profile.fork_join_us = 0.2; // the products are worth all workers
  options.rules.on = false;           // they would exchange the products
  const Compiled usual = compile(module, options).value();
  ASSERT_EQ(usual.schedules.size(), 1u); // both are one kernel
  ASSERT_FALSE(usual.plan->kernels.front().barriers);
  ThreadPool pool(4);
  const auto device = device::make_cpu_device(pool);
  const auto parts = [&](const std::string& more) {
    options.schedules = {{"k0", usual.schedules[0] + more}};
    const Compiled made = compile(module, options).value();
    const auto executable = runtime::Executable::load(made.plan, *device).value();
    const auto context =
        runtime::Context::create(executable, std::make_shared<runtime::Store>(*device)).value();
    context->trace(true);
    context->run().value();
    return std::ranges::count(context->events(), "k0", &runtime::TraceEvent::name);
  };
  EXPECT_EQ(parts(""), 8);
  EXPECT_EQ(parts("serial 10\n"), 8);
  EXPECT_EQ(parts("serial 1000000 3\n"), 6);
  EXPECT_EQ(parts("serial 1000000 3\nserial 1000000 2\n"), 4);
  EXPECT_EQ(parts("serial 1000000 100\n"), 8);
  options.schedules = {{"k0", usual.schedules[0] + "serial 1000000 0\n"}};
  EXPECT_THAT(compile(module, options).error(), HasSubstr("0 workers"));
}

/// Values of f32 have a largest size here, the scratch of doubles beside them does not.
TEST(KernelChoice, ScratchHasALargestSize) {
  std::string text;
  for (const char* symbol : {"a", "b", "c", "d", "e"}) text += fmt::format("symbol {}: 2..4096\n", symbol);
  text += "fn @main(%x: f32[a, b, c, d, e]) {\n  %w = cast f64 %x\n"
          "  %s = scan [i: a, j: b, k: c, l: d, m: e] along m exclusive { sum %w[i, j, k, l, m] }\n"
          "  %g = get %s, 0\n  %p = exp2 %g\n  %y = cast f32 %p\n  return y = %y\n}\n";
  EXPECT_THAT(compile(parse_module(text), options_with(nullptr)).error(),
              HasSubstr("scratch of kernel k0 has no largest size: every dimension needs a range"));
}

TEST(KernelChoice, WhatComesFromElsewhereIsCheckedFirst) {
  const ScratchFolder folder("choice");
  const Module module = parse_module(dense("m", "n", "k", ""));
  auto cache = std::make_shared<TuningCache>(folder.file());
  const Options options = options_with(cache);
  const Other other = other_schedule(module, options);
  ASSERT_TRUE(cache->put(entry_of(other, false)));
  EXPECT_TRUE(compile(module, options).value().choices[0].tuned);
  EXPECT_TRUE(cache->find(other.key)->checked);
  EXPECT_EQ(cache->find(other.key)->seconds, 1e-5);
}

bool lies = false;

TEST(KernelChoice, WhatIsWrongIsQuarantined) {
  const ScratchFolder folder("choice_wrong");
  register_op({.name = "choice_test_twice",
               .f64 = [](const double* a) { return lies ? 3 * a[0] : 2 * a[0]; },
               .definition = "a + a"});
  std::string text = dense("m", "n", "k", "");
  text.replace(text.find("tanh"), 4, "choice_test_twice");
  const Module module = parse_module(text);
  auto cache = std::make_shared<TuningCache>(folder.file());
  Options options = options_with(cache);
  options.reproducers = folder.file("reproducers");
  const Other other = other_schedule(module, options);
  lies = true; // now the terms say another thing than the code
  std::vector<std::string> said;
  set_log_sink([&](LogLevel, std::string_view line) { said.emplace_back(line); });
  ASSERT_TRUE(cache->put(entry_of(other, false)));
  options.strict = true;
  const auto refused = compile(module, options);
  EXPECT_FALSE(refused);
  EXPECT_THAT(
      refused.error(),
      HasSubstr("a schedule from elsewhere is wrong in step 1: on a shrunken instance: its machine code"));
  EXPECT_FALSE(cache->find(other.key));
  cache->prune({.quarantine = true});
  ASSERT_TRUE(cache->put(entry_of(other, false)));
  options.strict = false;
  const auto compiled = compile(module, options).value();
  set_log_sink({});
  lies = false;
  EXPECT_EQ(compiled.schedules[0], other.usual);
  EXPECT_THAT(
      compiled.report(),
      HasSubstr("a schedule from elsewhere is wrong in step 1: on a shrunken instance: its machine code"));
  EXPECT_EQ(cache->quarantine_entries().size(), 1u);
  ASSERT_EQ(said.size(), 2u);
  EXPECT_THAT(said[1], HasSubstr("reproducer in " + options.reproducers));
  // The reproducer is a module with the same kernel, and its schedule can be given to it.
  const std::string folder_of_it = cache->quarantine_entries()[0].reproducer;
  options.schedules = {{"k0", read_file(folder_of_it + "/schedule.txt").value()}};
  const auto again = compile(parse_module(read_file(folder_of_it + "/term.lum").value()), options);
  ASSERT_TRUE(again) << again.error();
  EXPECT_EQ(again->schedules[0], other.other);
}

/// A second process would find all in the folder: here a second compilation that shares nothing
/// else.
TEST(KernelChoice, AWarmStartRunsNoCompiler) {
  const ScratchFolder folder("choice_warm");
  const char* before = std::getenv("LUMINAL_CACHE_DIR");
  const std::string kept = before ? before : "";
  setenv("LUMINAL_CACHE_DIR", folder.path().c_str(), 1);
  const Module module = parse_module(dense("m", "n", "k", ""));
  Options options = options_with(std::make_shared<TuningCache>(folder.file()));
  options.cache = true;
  const Other other = other_schedule(module, options);
  ASSERT_TRUE(options.tuning->put(entry_of(other, false))); // is checked now, which compiles
  EXPECT_TRUE(compile(module, options).value().choices[0].tuned);
  options.tuning = std::make_shared<TuningCache>(folder.file());
  const int64_t compiled = codegen::compilations();
  const auto warm = compile(module, options).value();
  EXPECT_EQ(codegen::compilations(), compiled);
  EXPECT_TRUE(warm.choices[0].tuned);
  EXPECT_EQ(warm.cached, warm.kernels);
  before ? setenv("LUMINAL_CACHE_DIR", kept.c_str(), 1) : unsetenv("LUMINAL_CACHE_DIR");
}

/// Every kernel of random plans stands alone: cut out of its function it is the same kernel.
TEST(KernelChoice, KernelsOfRandomPlansAreProblemsOfTheirOwn) {
  const Options options = options_with(nullptr);
  int problems = 0;
  for (uint64_t seed = 1; seed <= 150; seed++) {
    testing_ir::RandomGraph g(seed, {.nodes = 14, .structure = seed % 3 == 0});
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + to_string(g.module));
    KernelPlanner chooser({.limits = options.limits, .target = options.target});
    PlanBuilder builder(g.module, chooser);
    const auto plan = builder.build();
    ASSERT_TRUE(plan) << plan.error();
    for (const PlannedKernel& kernel : builder.kernels()) {
      const auto problem = kernel.problem();
      if (!problem && problem.error().find("must differ") != std::string::npos) continue;
      ASSERT_TRUE(problem) << problem.error();
      const auto key = search::tuning_key(*problem, chooser.build_options(kernel.threads), "reassoc", 0);
      ASSERT_EQ(key.hash(), kernel.key->hash());
      EXPECT_NO_THROW(search::inputs_of(*problem));
      const auto usual = kernel::default_kernel(problem->cone, options.limits);
      EXPECT_EQ(to_string(usual.schedule), kernel.schedule);
      problems++;
    }
  }
  EXPECT_GT(problems, 300);
}

} // namespace
} // namespace luminal::compile
