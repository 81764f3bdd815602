// tune_test.cpp -- tuning finds what the default schedule leaves, keeps to its budget and is
// checked.
#include "search/machine_profile.h"
#include "search/problem_support.h"
#include "search/tune_kernel.h"
#include <gtest/gtest.h>

namespace luminal::search::tune_test {
namespace {

TuneOptions options_in(const ScratchFolder& folder, TuningCache* cache) {
  TuneOptions options;
  options.select.build.threads = 2;
  options.select.worker = worker_processes;
  options.select.measure.rotate_bytes = 1 << 20;
  options.select.race.last_rounds = 10;
  options.select.cache = cache;
  options.select.reproducers = folder.file("reproducers");
  options.select.lock = folder.file("lock");
  options.seconds = 4;
  options.list = 12;
  return options;
}

TEST(Tune, StartsFromTheDefaultAndKeepsWhatItFinds) {
  const ScratchFolder folder("tune");
  const KernelProblem problem = matmul(64, 96, 48);
  TuningCache cache(folder.file());
  TuneOptions options = options_in(folder, &cache);
  int told = 0;
  options.progress = [&](const Tuned& so_far) {
    ++told;
    EXPECT_GT(so_far.seconds, 0);
  };
  const auto limits = MachineProfile::guess(2).limits();
  const auto tuned = tune(problem, limits, options);
  ASSERT_TRUE(tuned) << tuned.error();
  EXPECT_EQ(told, tuned->lists);
  EXPECT_GE(tuned->tried, 3);
  EXPECT_GT(tuned->seconds, 0);
  EXPECT_GT(tuned->usual_seconds, 0);
  // The answers lead to the schedule, and that is in the cache, checked.
  const auto workers = tuned->answers.find("workers");
  EXPECT_EQ(on_workers(kernel::default_kernel(problem.cone, limits, tuned->answers).schedule,
                       points_of(problem.cone, {}), workers == tuned->answers.end() ? 2 : workers->second, 2),
            tuned->schedule);
  const auto kept = cache.find(tuning_key(problem, options.select.build, options.select.numeric, 0));
  ASSERT_TRUE(kept.has_value());
  EXPECT_TRUE(kept->checked);
  EXPECT_EQ(kernel::parse_schedule(kept->schedule), tuned->schedule);
  int others = 0;
  for (const auto& [cause, count] : tuned->rejected) others += count;
  EXPECT_EQ(others, tuned->tried - 1);
}

TEST(Tune, WorkersAreChosenFromOneToAll) {
  EXPECT_EQ(worker_counts(2), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(worker_counts(6), (std::vector<int64_t>{1, 2, 4, 6}));
  EXPECT_EQ(worker_counts(8), (std::vector<int64_t>{1, 2, 4, 8}));
  const KernelProblem problem = matmul(64, 96, 48);
  for (const int64_t count : worker_counts(6)) {
    const kernel::Schedule made = on_workers({}, points_of(problem.cone, {}), count, 6);
    EXPECT_EQ(kernel::parse_schedule(to_string(made)), made);
    EXPECT_EQ(workers_of(made, problem.cone, {}, 6), count);
  }
}

/// More workers than the machine may have cores: all counts are built, checked and timed.
TEST(Tune, FourWorkers) {
  const ScratchFolder folder("tune_four");
  const KernelProblem problem = matmul(64, 96, 48);
  TuneOptions options = options_in(folder, nullptr);
  options.select.build.threads = 4;
  options.seconds = 1;
  const auto tuned = tune(problem, MachineProfile::guess(4).limits(), options);
  ASSERT_TRUE(tuned) << tuned.error();
  EXPECT_GT(tuned->seconds, 0);
  EXPECT_FALSE(tuned->rejected.contains("wrong") || tuned->rejected.contains("crashed"));
}

TEST(Tune, StopsWhenAsked) {
  const ScratchFolder folder("tune_stop");
  const KernelProblem problem = matmul(64, 96, 48);
  TuneOptions options = options_in(folder, nullptr);
  options.seconds = 1000;
  options.select.race.stop = [] { return true; };
  const auto tuned = tune(problem, MachineProfile::guess(2).limits(), options);
  ASSERT_TRUE(tuned) << tuned.error();
  EXPECT_EQ(tuned->lists, 1);
  EXPECT_FALSE(tuned->complete);
}

} // namespace
} // namespace luminal::search::tune_test
