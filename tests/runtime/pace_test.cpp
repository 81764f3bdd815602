// pace_test.cpp -- whichever number of workers is faster soon does nearly all runs, also when that
// changes; times are made up.
#include "runtime/worker_count.h"
#include <gtest/gtest.h>
#include <random>

using luminal::runtime::WorkerCount;

namespace {

/// Runs whose times are those given, disturbed; how much longer they took than the faster way
/// throughout.
double loss(WorkerCount& worker_count, int runs, double all_us, double one_us, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> jitter(1, 1.1), rare(0, 1);
  double took = 0;
  for (int i = 0; i < runs; i++) {
    const double us =
        (worker_count.alone() ? one_us : all_us) * jitter(random) * (rare(random) < 0.02 ? 20 : 1);
    worker_count.took(int64_t(us * 1000));
    took += worker_count.alone() ? one_us : all_us;
  }
  return took / (runs * std::min(all_us, one_us)) - 1;
}

TEST(WorkerCount, TheFasterWayDoesNearlyAllRuns) {
  for (const double all_us : {10.0, 25.0, 40.0, 60.0, 100.0, 400.0}) {
    WorkerCount worker_count;
    EXPECT_LT(loss(worker_count, 20000, all_us, 50, unsigned(all_us)), 0.08) << all_us;
  }
}

TEST(WorkerCount, FollowsAChange) {
  WorkerCount worker_count;
  loss(worker_count, 20000, 30, 50, 1);
  loss(worker_count, 40000, 500, 50, 2); // somebody takes a core
  EXPECT_LT(loss(worker_count, 20000, 500, 50, 3), 0.05);
  loss(worker_count, 40000, 30, 50, 4); // and gives it back
  EXPECT_LT(loss(worker_count, 20000, 30, 50, 5), 0.03);
}

TEST(WorkerCount, ATieGoesToOneWorker) {
  WorkerCount worker_count;
  for (int i = 0; i < 1000; i++) worker_count.took(1000);
  int alone = 0;
  for (int i = 0; i < 10000; i++) {
    alone += worker_count.alone();
    worker_count.took(1000);
  }
  EXPECT_GT(alone, 9000);
}

} // namespace
