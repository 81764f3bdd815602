// plan_race_test.cpp -- plans of regions in the whole program: the faster one is kept, a wrong one never runs
// again, and what was kept is what later compilations take.
#include "base/file.h"
#include "base/hash.h"
#include "base/text.h"
#include "base/thread_pool.h"
#include "compile/plan_race.h"
#include "compile/search_options.h"
#include "search/measure_lock.h"
#include "search/measure_log.h"
#include "search/problem_support.h"
#include <gmock/gmock.h>

namespace luminal::compile::plan_race_test {
namespace {

using search::ScratchFolder;
using search::TuningCache;
using testing::HasSubstr;

/// Softmax as it is written: the greatest of each row, then the sum, then the quotients.
std::string softmax(int64_t rows, int64_t columns, const std::string& factor = "1") {
  return fmt::format(R"(fn @main(%x: f32[{0}, {1}]) {{
  %mf = fold [r: {0}, c: {1}] over [c] {{ max %x[r, c] }}
  %m = get %mf, 0
  %mb = view %m [r: {0}, c: {1}] -> [r]
  %d = sub %x, %mb
  %e = exp %d
  %sf = fold [r: {0}, c: {1}] over [c] {{ sum %e[r, c] }}
  %s = get %sf, 0
  %sb = view %s [r: {0}, c: {1}] -> [r]
  %q = div %e, %sb
  %f = const f32 {2}
  %k = view %f [r: {0}, c: {1}] -> []
  %y = mul %q, %k
  return y = %y
}})",
                     rows, columns, factor);
}

/// As a compilation leaves it to the builder.
Module after_passes(const std::string& text) {
  Module module = parse_module(text);
  passes::defaults().run(module);
  return module;
}

/// The program of a module, with the builder that knows its regions.
BuiltPlan built_with(const Module& module, const Options& options) {
  BuiltPlan built;
  built.plan = compile(module, options).value().plan;
  built.chooser = std::make_shared<KernelPlanner>(ChoiceOptions{.limits = options.limits,
                                                                .target = options.target,
                                                                .cache = options.tuning,
                                                                .profile = options.profile});
  built.builder = std::make_shared<PlanBuilder>(module, *built.chooser, Partitioner(), options.rules);
  EXPECT_TRUE(built.builder->build());
  return built;
}

/// The kernels of the module in plain loops, which take several times as long.
Options in_plain_loops(const Module& module, Options options) {
  const Compiled usual = compile(module, options).value();
  for (const KernelReport& kernel : usual.choices) options.schedules[kernel.name] = "";
  return options;
}

TEST(PlanRace, AFasterPlanIsTakenKeptAndFoundAgain) {
  const ScratchFolder folder("plan_race");
  ThreadPool pool(1);
  auto cache = std::make_shared<TuningCache>(folder.file());
  const Options options = options_in(folder, cache, pool);
  const Module module = after_passes(softmax(256, 1024));
  const BuiltPlan fast = built_with(module, options);
  BuiltPlan built = built_with(module, in_plain_loops(module, options));
  const std::vector<RegionReport> regions = built.builder->regions();
  ASSERT_EQ(regions.size(), 1u);
  ASSERT_GE(regions[0].plans.size(), 2u) << to_string(regions[0]);
  ASSERT_TRUE(regions[0].key);
  EXPECT_FALSE(regions[0].measured);

  int made = 0;
  const bool changed = !regions[0].plans[regions[0].taken].written; // then the terms as they came come first
  const int pinned = int(regions[0].plans.size()) - 1 + changed;
  const PlanMaker make = [&](const PlanRequest& request) -> Result<BuiltPlan> {
    EXPECT_EQ(request.pinned.size(), made < pinned ? 1u : 0u);
    ++made;
    return fast;
  };
  SearchSummary summary;
  ASSERT_TRUE(race_regions(options, make, built, {}, 20, summary));
  EXPECT_EQ(made, pinned + 1);
  EXPECT_EQ(summary.mismatches, 0);
  EXPECT_EQ(summary.region_plans, int(regions[0].plans.size()) - 1);
  ASSERT_EQ(summary.regions.size(), 1u);
  EXPECT_LT(summary.regions[0].after, summary.regions[0].before);
  EXPECT_EQ(built.plan, fast.plan);

  const auto kept = cache->find(*regions[0].key);
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->schedule, plan_text(summary.regions[0].plan));
  const auto later = compile(module, options).value();
  ASSERT_EQ(later.regions.size(), 1u);
  EXPECT_TRUE(later.regions[0].measured);
  EXPECT_EQ(later.regions[0].plans[later.regions[0].taken].name, summary.regions[0].plan);
  EXPECT_THAT(later.report(), HasSubstr(later.regions[0].outcome.empty() ? "by measuring" : "as it is"));
}

TEST(PlanRace, EveryPlanOfARegionCanBePinnedAndComputesTheSame) {
  const ScratchFolder folder("plan_race_all");
  ThreadPool pool(2);
  const Module module = after_passes(softmax(37, 200));
  const Options plain = options_in(folder, std::make_shared<TuningCache>(""), pool);
  const auto usual = compile(module, plain).value();
  ASSERT_EQ(usual.regions.size(), 1u);
  const RegionReport& region = usual.regions[0];
  ASSERT_GE(region.plans.size(), 2u);
  std::set<std::vector<std::string>> kernels;
  for (const RegionPlanReport& plan : region.plans) {
    Options options = plain;
    options.tuning = std::make_shared<TuningCache>("");
    search::TuningEntry entry;
    entry.key = *region.key;
    entry.name = "region";
    entry.schedule = plan_text(plan.name);
    entry.seconds = 1;
    entry.samples = 1;
    ASSERT_TRUE(options.tuning->put(entry));
    const auto compiled = compile(module, options).value();
    EXPECT_TRUE(compiled.regions[0].measured) << plan.name;
    EXPECT_EQ(compiled.regions[0].plans[compiled.regions[0].taken].name, plan.name);
    std::vector<std::string> keys;
    for (const KernelReport& kernel : compiled.choices) keys.push_back(kernel.key);
    kernels.insert(keys);
    ProgramRace::Options how;
    how.pool = &pool;
    ProgramRace race(how);
    const ProgramId a = race.add(usual.plan).value(), b = race.add(compiled.plan).value();
    EXPECT_EQ(race.difference(a, b).value(), "") << plan.name;
  }
  EXPECT_GE(kernels.size(), 2u) << "the plans have other kernels";
  // A plan that the region does not have is not believed.
  search::TuningEntry entry;
  entry.key = *region.key;
  entry.name = "region";
  entry.schedule = "plan 0123456789abcdef\n";
  entry.seconds = 1;
  entry.samples = 1;
  ASSERT_TRUE(plain.tuning->put(entry));
  const auto compiled = compile(module, plain).value();
  EXPECT_FALSE(compiled.regions[0].measured);
  EXPECT_EQ(compiled.schedules, usual.schedules);
}

TEST(PlanRace, AWrongPlanIsNeverTakenNorTriedAgain) {
  const ScratchFolder folder("plan_race_wrong");
  ThreadPool pool(1);
  auto cache = std::make_shared<TuningCache>(folder.file());
  const Options options = options_in(folder, cache, pool);
  const Module module = after_passes(softmax(256, 1024));
  const Module other = after_passes(softmax(256, 1024, "1.001"));
  const BuiltPlan wrong = built_with(other, options);
  BuiltPlan built = built_with(module, in_plain_loops(module, options));
  const auto before = built.plan;
  const std::vector<RegionReport> regions = built.builder->regions();
  const size_t alternatives = regions[0].plans.size() - 1;
  const std::string taken = plan_text(regions[0].plans[regions[0].taken].name);
  std::string written;
  for (const RegionPlanReport& plan : regions[0].plans)
    if (plan.written) written = plan_text(plan.name);
  int made = 0, as_written = 0;
  const PlanMaker make = [&](const PlanRequest& request) -> Result<BuiltPlan> {
    const auto plan = request.pinned.find(regions[0].key->hash());
    if (plan != request.pinned.end() && plan->second == written && taken != written &&
        as_written++ % 2 == 0) {
      BuiltPlan right = built; // what the rules are held against
      return right;
    }
    made += request.forbidden.empty(); // else a rule is looked for that is to blame
    return wrong;
  };
  for (const bool again : {false, true}) {
    SearchSummary summary;
    ASSERT_TRUE(race_regions(options, make, built, {}, 20, summary));
    EXPECT_EQ(summary.mismatches, again ? 0 : int(alternatives));
    EXPECT_EQ(made, int(alternatives)) << "it is quarantined";
    EXPECT_TRUE(summary.regions.empty());
    EXPECT_EQ(built.plan, before);
    if (!again) {
      ASSERT_FALSE(summary.notes.empty());
      EXPECT_THAT(summary.notes[0], HasSubstr("gives other results: y["));
    }
  }
  EXPECT_EQ(cache->quarantine_entries().size(), alternatives);
}

/// What a race asks for next where its first comparison gave these seconds of a step; "" where it ends.
std::string asked_after(double first, double second, const Module& module, const Options& options,
                        const ScratchFolder& folder) {
  search::MeasureLogHead head;
  head.profile = options.profile.to_json();
  const auto race = [&](std::shared_ptr<search::MeasureLog> log) {
    Options with = options;
    with.log = std::move(log);
    with.tuning = std::make_shared<TuningCache>(""); // the race that is written may keep a plan that has won
    const PlanMaker make = [&](const PlanRequest&) -> Result<BuiltPlan> { return built_with(module, with); };
    BuiltPlan built = built_with(module, with);
    SearchSummary summary;
    return race_regions(with, make, built, {}, 20, summary);
  };
  // Up to the first comparison everything is as it was.
  auto written = std::make_shared<search::MeasureLog>(head);
  EXPECT_TRUE(race(written));
  std::string text = written->text();
  const size_t at = text.find("{\"ask\":\"times of two programs\"");
  EXPECT_NE(at, std::string::npos);
  const size_t of = text.find("\"of\":", at);
  const std::string programs = text.substr(of, text.find(',', of) - of);
  text = text.substr(0, at) +
         fmt::format(
             "{{\"ask\":\"times of two programs\",{},\"ok\":true,\"text\":\"\",\"numbers\":[{},{},5]}}\n",
             programs, first, second);
  text += fmt::format("{{\"end\":\"{}\"}}\n", hash128(text).hex());
  EXPECT_TRUE(write_file(folder.file("log"), std::string_view(text)));
  try {
    EXPECT_TRUE(race(search::MeasureLog::read(folder.file("log")).value()));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(PlanRace, APlanThatIsNearIsTunedBeforeItIsRejected) {
  const ScratchFolder folder("plan_race_near");
  ThreadPool pool(1);
  const Options options = options_in(folder, std::make_shared<TuningCache>(""), pool);
  const Module module = after_passes(softmax(64, 256));
  EXPECT_THAT(asked_after(1e-3, 1.2e-3, module, options, folder),
              HasSubstr("ends too early: this search asks for a search"))
      << "its kernels are tuned";
  EXPECT_THAT(asked_after(1e-3, 2e-3, module, options, folder),
              testing::AnyOf("", HasSubstr("ends too early: this search asks for a program")))
      << "the next plan, or none";
}

/// Rules make the sum of distances to a mean exactly 0, the terms as they came nearly: neither is wrong.
TEST(PlanRace, AResultThatCancelsIsHeldAgainstTheTermsAsTheyCame) {
  const ScratchFolder folder("plan_race_cancels");
  ThreadPool pool(1);
  auto cache = std::make_shared<TuningCache>(folder.file());
  Options options = options_in(folder, cache, pool);
  options.search.mode = SearchMode::budget;
  options.search.seconds = 60;
  bool done = false;
  options.search.progress = [&](const SearchProgress& p) {
    done = p.phase == SearchProgress::Phase::measuring;
  };
  options.search.stop = [&] { return done; };
  const Compiled searched = compile(parse_module(R"(
fn @main(%x: f32[5, 17]) {
  %f = fold [a: 5, b: 17] over [b] { sum %x[a, b] }
  %s = get %f, 0
  %n = const f32 17
  %nv = view %n [a: 5] -> []
  %m = div %s, %nv
  %mv = view %m [a: 5, b: 17] -> [a]
  %d = sub %x, %mv
  %q = mul %d, %d
  %g = fold [a: 5, b: 17] over [b] { sum %q[a, b] }
  %v = get %g, 0
  %e = fold [a: 5, b: 17] over [b] { sum %d[a, b] }
  %z = get %e, 0
  return z = %z, v = %v
})"),
                                    options)
                                .value();
  ASSERT_TRUE(searched.search);
  EXPECT_GE(searched.search->region_plans, 1) << searched.report();
  EXPECT_EQ(searched.search->mismatches, 0) << searched.report();
}

TEST(PlanRace, ASearchRacesPlansWithinItsBudget) {
  const ScratchFolder folder("plan_race_search");
  ThreadPool pool(1);
  auto cache = std::make_shared<TuningCache>(folder.file());
  Options options = options_in(folder, cache, pool);
  options.search.mode = SearchMode::budget;
  options.search.seconds = 60;
  bool raced = false, done = false;
  options.search.progress = [&](const SearchProgress& p) {
    raced |= p.phase == SearchProgress::Phase::regions && p.kernel.starts_with("region of ");
    done = p.phase == SearchProgress::Phase::measuring;
    EXPECT_LE(p.number, p.kernels);
  };
  options.search.stop = [&] { return done; };
  const Module module = after_passes(softmax(256, 1024));
  const auto searched = compile(module, options).value();
  ASSERT_TRUE(searched.search);
  EXPECT_TRUE(raced);
  EXPECT_EQ(searched.search->mismatches, 0);
  EXPECT_GE(searched.search->region_plans, 1);
  EXPECT_THAT(searched.report(), HasSubstr("of regions measured, "));
  // A later compilation has the kernels that this one ended with.
  Options later = options;
  later.search = {};
  EXPECT_EQ(compile(module, later).value().schedules, searched.schedules);
}

} // namespace
} // namespace luminal::compile::plan_race_test
