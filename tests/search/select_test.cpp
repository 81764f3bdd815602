// select_test.cpp -- a list of candidates and a budget: the winner is right and kept; what is wrong
// is quarantined with a reproducer.
#include "base/log.h"
#include "choose/default_schedule.h"
#include "search/extract_kernel.h"
#include "search/machine_profile.h"
#include "search/problem_support.h"
#include "search/select.h"
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

namespace luminal::search {
namespace {
using testing::HasSubstr;

SelectOptions options_in(const ScratchFolder& folder, TuningCache* cache) {
  SelectOptions options;
  options.build.threads = 2;
  options.worker = worker_processes;
  options.measure.rotate_bytes = 1 << 20;
  options.measure.seconds = 20;
  options.race.seconds = 1e6; // a race ends with its rounds, however busy the machine is
  options.race.last_rounds = 10;
  options.cache = cache;
  options.reproducers = folder.file("reproducers");
  options.lock = folder.file("lock");
  return options;
}

Candidate default_candidate(const KernelProblem& problem) {
  return candidate_of(kernel::default_schedule(problem.cone, MachineProfile::guess(2).limits()), {});
}

/// Does nothing at all: the fastest, and wrong.
Candidate idle(const KernelProblem& problem, const std::string& schedule) {
  return mutated(problem, schedule, false, [](const std::string& text) {
    return text.substr(0, text.find('\n') + 1) + "  parallel zz in 0..1\n    C[0] = 1.0\n";
  });
}

TEST(Select, TheWinnerIsRightAndKept) {
  const ScratchFolder folder("select");
  const KernelProblem problem = matmul(64, 96, 48);
  TuningCache cache(folder.file());
  SelectOptions options = options_in(folder, &cache);
  std::vector<std::string> said;
  set_log_sink([&](LogLevel level, std::string_view text) {
    if (level <= LogLevel::warning) said.emplace_back(text);
  });
  const std::vector<Candidate> candidates = {candidate(""),
                                             default_candidate(problem),
                                             candidate(matmul_schedule),
                                             candidate("vector f m\nvector f n\n"), // not legal
                                             default_candidate(problem),
                                             idle(problem, "unroll f k\n")};
  const auto selection = select(problem, candidates, options);
  set_log_sink({});
  ASSERT_TRUE(selection) << selection.error();
  const auto& tried = selection->tried;
  ASSERT_EQ(tried.size(), candidates.size());
  ASSERT_TRUE(selection->winner);
  EXPECT_LE(*selection->winner, 2U); // which of the right ones is for the machine to say
  const Tried& won = tried[*selection->winner];
  EXPECT_TRUE(won.checked && won.rejected.empty() && won.seconds > 0);
  EXPECT_THAT(tried[3].rejected, HasSubstr("[schedule] matmul"));
  EXPECT_EQ(tried[4].rejected, "the same code as candidate 1");
  EXPECT_EQ(tried[5].verdict.step, 1) << tried[5].rejected;
  for (size_t i = 0; i < tried.size(); i++) EXPECT_EQ(tried[i].rejected.empty(), i == selection->winner) << i;

  // What was wrong is named once, with a folder that has all it takes.
  ASSERT_EQ(said.size(), 1u) << testing::PrintToString(said);
  EXPECT_THAT(said[0], HasSubstr("reproducer in " + tried[5].reproducer));
  const std::filesystem::path reproducer = tried[5].reproducer;
  EXPECT_TRUE(same_module(parse_module(bytes_of((reproducer / "term.lum").string())), problem.module));
  EXPECT_EQ(kernel::parse_schedule(bytes_of((reproducer / "schedule.txt").string())), candidates[5].schedule);
  EXPECT_TRUE(kernel::same(kernel::parse_kernel(bytes_of((reproducer / "loops.txt").string())),
                           *candidates[5].lower(problem.cone, candidates[5].schedule)));
  EXPECT_THAT(bytes_of((reproducer / "loops_shrunken.txt").string()), HasSubstr("kernel matmul"));
  const auto about = nlohmann::json::parse(bytes_of((reproducer / "case.json").string()));
  EXPECT_EQ(about.at("seed"), 1);
  EXPECT_EQ(about.at("cause"), tried[5].rejected);

  // The cache has the winner, and the wrong one is never run again.
  const TuningKey key = tuning_key(problem, options.build, options.numeric, options.rules);
  const auto kept = cache.find(key);
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->schedule, won.schedule);
  EXPECT_EQ(kept->seconds, won.seconds);
  EXPECT_TRUE(kept->checked);
  const auto again = select(problem, candidates, options);
  ASSERT_TRUE(again) << again.error();
  EXPECT_THAT(again->tried[5].rejected, testing::StartsWith("quarantined: wrong in step 1"));
  EXPECT_EQ(again->tried[5].seconds, 0);

  // Another size, another key.
  EXPECT_FALSE(cache.find(tuning_key(matmul(64, 96, 49), options.build, options.numeric, options.rules)));
  BuildOptions one = options.build;
  one.threads = 1;
  EXPECT_FALSE(cache.find(tuning_key(problem, one, options.numeric, options.rules)));
}

TEST(Select, ACrashIsQuarantinedAndTheOthersGoOn) {
  if (!worker_processes) GTEST_SKIP() << "a fork under the thread sanitizer";
  const ScratchFolder folder("crash");
  const KernelProblem problem = matmul(64, 96, 48);
  TuningCache cache(folder.file());
  set_log_sink([](LogLevel, std::string_view) {});
  const auto wild = mutated(problem, "unroll f k\n", true, [](const std::string& t) {
    return t + "  barrier\n  parallel zz in 0..1\n    C[1073741824] = 1.0\n";
  });
  const auto selection =
      select(problem, {candidate(""), wild, candidate(matmul_schedule)}, options_in(folder, &cache));
  set_log_sink({});
  ASSERT_TRUE(selection) << selection.error();
  EXPECT_THAT(selection->tried[1].rejected, HasSubstr("crashed: signal 11"));
  EXPECT_TRUE(std::filesystem::exists(selection->tried[1].reproducer + "/loops.txt"));
  EXPECT_EQ(cache.quarantine_entries().size(), 1u);
  EXPECT_NE(selection->winner, 1U);
}

TEST(Select, NothingRightIsAFailure) {
  const ScratchFolder folder("wrong");
  const KernelProblem problem = matmul(64, 96, 48);
  set_log_sink([](LogLevel, std::string_view) {});
  const auto wrong = select(problem, {idle(problem, "")}, options_in(folder, nullptr));
  set_log_sink({});
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error(), HasSubstr("no candidate is right"));
  EXPECT_FALSE(select(problem, {}, options_in(folder, nullptr)));
  const auto illegal = select(problem, {candidate("vector f m\nvector f n\n")}, options_in(folder, nullptr));
  ASSERT_FALSE(illegal);
  EXPECT_THAT(illegal.error(), HasSubstr("no candidate can be built"));
}

/// No budget: the incumbent is timed once, checked and used.
TEST(Select, WithoutABudgetTheIncumbentStays) {
  const ScratchFolder folder("budget");
  const KernelProblem problem = matmul(64, 96, 48);
  SelectOptions options = options_in(folder, nullptr);
  options.race.seconds = 0;
  const auto selection = select(problem, {default_candidate(problem), candidate(matmul_schedule)}, options);
  ASSERT_TRUE(selection) << selection.error();
  EXPECT_EQ(selection->winner, 0U);
  EXPECT_FALSE(selection->complete);
  EXPECT_EQ(selection->tried[1].rejected, "the budget ended before its turn");
}

/// What executes more than the best can take is not built. Here the profile is far too low, so that
/// the incumbent's own time says how good bounds are.
TEST(Select, ABoundAboveTheBestIsNotBuilt) {
  const ScratchFolder folder("bound");
  const KernelProblem problem = matmul(64, 96, 48);
  SelectOptions options = options_in(folder, nullptr);
  options.build.threads = 1;
  const std::vector<Candidate> candidates = {candidate(matmul_schedule), candidate("")};
  const auto without = select(problem, candidates, options); // a guessed profile
  ASSERT_TRUE(without) << without.error();
  EXPECT_EQ(without->tried[1].bound, 0);
  EXPECT_GT(without->tried[1].seconds, 0);
  options.profile = MachineProfile::guess(1);
  options.profile.guessed = false;
  options.profile.fma_f32 = options.profile.fma_f32_1 = 1e-3;
  const auto with = select(problem, candidates, options);
  ASSERT_TRUE(with) << with.error();
  EXPECT_EQ(with->winner, 0U);
  EXPECT_GT(with->bound_ratio, 1);
  EXPECT_GT(with->tried[1].bound, 2 * with->tried[0].bound);
  EXPECT_THAT(with->tried[1].rejected, testing::StartsWith("bound: "));
  EXPECT_EQ(with->tried[1].seconds, 0);
}

/// Long launches race on macro-tiles; what wins there is confirmed and checked whole.
TEST(Select, LongLaunchesRaceInParts) {
  const ScratchFolder folder("parts");
  const KernelProblem problem = matmul(80, 64, 32);
  SelectOptions options = options_in(folder, nullptr);
  options.long_launch = 0;
  options.part_seconds = 1e-6;
  const auto selection =
      select(problem, {candidate(""), candidate(matmul_schedule), candidate("unroll f k\n")}, options);
  ASSERT_TRUE(selection) << selection.error();
  EXPECT_TRUE(selection->parts);
  EXPECT_TRUE(selection->complete);
  const Tried& won = selection->tried[*selection->winner];
  EXPECT_TRUE(won.checked && won.rejected.empty() && won.seconds > 0);
  for (const Tried& tried : selection->tried) EXPECT_GT(tried.seconds, 0) << tried.rejected;
}

TEST(Select, TheWinnerIsNotSlowerAtOtherSizes) {
  const ScratchFolder folder("sizes");
  const KernelProblem problem = problem_of(R"(symbol n: 1..4096
fn @scale(%x: f32[n, 64]) {
  %1 = view %x [i: n, j: 64] -> [i, j]
  %2 = mul %1, %1
  %y = mul %2, %1
  return y = %y
})",
                                           {{"n", 512}});
  SelectOptions options = options_in(folder, nullptr);
  const std::vector<Candidate> candidates = {candidate("order y i j\n"), default_candidate(problem)};
  options.sizes = {{{{"n", 2048}}, 0.5, 1e9}, {{{"n", 64}}, 0.5, 1e9}};
  const auto free = select(problem, candidates, options);
  ASSERT_TRUE(free) << free.error();
  options.sizes[1].allowed = 0; // nothing is fast enough there
  const auto bound = select(problem, candidates, options);
  ASSERT_TRUE(bound) << bound.error();
  EXPECT_EQ(bound->winner, 0U);
  if (free->winner == 1U) { // which of them is faster is for the machine to say
    ASSERT_EQ(free->at_sizes.size(), 2u);
    for (const auto& [before, after] : free->at_sizes) EXPECT_TRUE(before > 0 && after > 0);
    EXPECT_THAT(bound->tried[1].rejected,
                testing::AnyOf(testing::StartsWith("slower at n=64"), HasSubstr("%")));
  }
}

TEST(Select, WorkersArePartOfASchedule) {
  const ScratchFolder folder("workers");
  const KernelProblem problem = matmul(32, 64, 32);
  SelectOptions options = options_in(folder, nullptr);
  const std::string few = std::string(matmul_schedule) + "serial 1000\n",
                    all = std::string(matmul_schedule) + "serial 100000000\n";
  EXPECT_EQ(workers_of(kernel::parse_schedule(matmul_schedule), problem.cone, {}, 2), 2);
  EXPECT_EQ(workers_of(kernel::parse_schedule(few), problem.cone, {}, 2), 2);
  EXPECT_EQ(workers_of(kernel::parse_schedule(all), problem.cone, {}, 2), 1);
  const kernel::Schedule capped = kernel::parse_schedule(few + "serial 100000000 4\n");
  EXPECT_EQ(workers_of(capped, problem.cone, {}, 8), 4);
  EXPECT_EQ(workers_of(capped, problem.cone, {}, 3), 3);
  EXPECT_EQ(workers_of(kernel::parse_schedule(all + "serial 100000000 4\n"), problem.cone, {}, 8), 1);
  const auto selection =
      select(problem, {candidate(matmul_schedule), candidate(all), candidate(few)}, options);
  ASSERT_TRUE(selection) << selection.error();
  EXPECT_GT(selection->tried[1].seconds, 0) << selection->tried[1].rejected;
  EXPECT_EQ(selection->tried[2].rejected, "the same code as candidate 0");
}

/// Several lists for one problem: what was built and checked once is there.
TEST(Select, ListAfterList) {
  const ScratchFolder folder("lists");
  const KernelProblem problem = matmul(32, 32, 16);
  SelectOptions options = options_in(folder, nullptr);
  Selector selector(problem, options);
  const auto first = selector.run({candidate(""), candidate(matmul_schedule)}, 1e6);
  ASSERT_TRUE(first) << first.error();
  const std::string best = first->tried[*first->winner].schedule;
  const int64_t compiled = codegen::compilations();
  const auto second = selector.run({candidate(best)}, 1e6);
  ASSERT_TRUE(second) << second.error();
  EXPECT_EQ(second->winner, 0U);
  EXPECT_TRUE(second->tried[0].checked);
  EXPECT_EQ(codegen::compilations(), compiled);
  const auto third = selector.run({candidate(best), candidate(best == "" ? matmul_schedule : "")}, 1e6);
  ASSERT_TRUE(third) << third.error();
  EXPECT_GT(third->tried[1].seconds, 0);
  EXPECT_EQ(codegen::compilations(), compiled);
  // Another text of the same loops.
  const auto fourth = selector.run({candidate(best), candidate(best + "serial 1\n")}, 1e6);
  ASSERT_TRUE(fourth) << fourth.error();
  EXPECT_EQ(fourth->tried[1].rejected, "the same code as candidate 0");
}

TEST(OtherSizes, EndsAndMiddleWithinAssumptions) {
  KernelProblem problem = problem_of(R"(symbol n: 1..4096
fn @scale(%x: f32[n, 64]) {
  %1 = view %x [i: n, j: 64] -> [i, j]
  %y = mul %1, %1
  return y = %y
})",
                                     {{"n", 512}});
  const auto sizes = [&] {
    std::vector<int64_t> values;
    double weight = 0;
    for (const SizePoint& point : other_sizes(problem, {})) {
      values.push_back(point.symbols.at("n"));
      weight += point.weight;
    }
    EXPECT_DOUBLE_EQ(weight, 0.5);
    return values;
  };
  EXPECT_EQ(sizes(), (std::vector<int64_t>{4096, 1, 64}));
  problem.symbols["n"] = 4096;
  EXPECT_EQ(sizes(), (std::vector<int64_t>{1, 64}));
  problem.symbols["n"] = 100; // the middle is near
  EXPECT_EQ(sizes(), (std::vector<int64_t>{4096, 1}));
  problem.module.assumptions.push_back(le(problem.cone.symbols.at(0), 1000));
  EXPECT_EQ(sizes(), (std::vector<int64_t>{1}));
}

} // namespace
} // namespace luminal::search
