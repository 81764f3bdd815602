// tests/base/thread_pool_test.cpp -- the pool: every member once, barriers, uneven work, exceptions. Also run under TSan.
#include "base/thread_pool.h"
#include "luminal/error.h"
#include <atomic>
#include <gtest/gtest.h>
#include <numeric>

using namespace luminal;

class Pool : public testing::TestWithParam<int> {};

TEST_P(Pool, EveryMemberRunsOnce) {
  ThreadPool pool(GetParam());
  EXPECT_EQ(pool.size(), GetParam());
  std::vector<int> runs(static_cast<size_t>(pool.size())); // plain: the end of a run orders them
  for (int round = 0; round < 500; ++round) {
    pool.run([&](int member) { ++runs[static_cast<size_t>(member)]; });
    for (const int r : runs) ASSERT_EQ(r, round + 1);
  }
}

TEST_P(Pool, WakesFromParking) {
  ThreadPool pool(GetParam(), 0);
  int64_t total = 0;
  for (int round = 0; round < 20; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::vector<int> seen(static_cast<size_t>(pool.size()));
    pool.run([&](int member) { seen[static_cast<size_t>(member)] = 1; });
    total += std::accumulate(seen.begin(), seen.end(), 0);
  }
  EXPECT_EQ(total, 20 * pool.size());
}

TEST_P(Pool, BarrierOrdersPhases) {
  ThreadPool pool(GetParam());
  const auto n = static_cast<size_t>(pool.size());
  std::vector<int> value(n);
  std::atomic<int> wrong{0};
  pool.run([&](int member) {
    const auto me = static_cast<size_t>(member);
    for (int phase = 1; phase <= 300; ++phase) {
      value[me] = phase;
      pool.barrier();
      for (const int v : value) wrong += v != phase;
      pool.barrier();
    }
  });
  EXPECT_EQ(wrong, 0);
}

TEST_P(Pool, ParallelForTakesEveryIndexOnce) {
  ThreadPool pool(GetParam());
  for (const int64_t count : {0, 1, 2, 3, 1000}) {
    std::vector<std::atomic<int>> hits(static_cast<size_t>(count));
    pool.parallel_for(count, [&](int64_t i) { ++hits[static_cast<size_t>(i)]; });
    for (const auto& h : hits) ASSERT_EQ(h, 1);
  }
}

TEST_P(Pool, ExceptionsReachTheCaller) {
  ThreadPool pool(GetParam());
  for (int thrower = 0; thrower < pool.size(); ++thrower)
    EXPECT_THROW(pool.run([&](int member) {
      if (member == thrower) throw Error("from a member");
    }),
                 Error);
  EXPECT_THROW(pool.parallel_for(100,
                                 [](int64_t i) {
                                   if (i == 57) throw Error("from an index");
                                 }),
               Error);
  int runs = 0; // and the pool works on
  pool.run([&](int member) {
    if (member == 0) ++runs;
  });
  EXPECT_EQ(runs, 1);
}

TEST_P(Pool, CallersTakeTurns) {
  ThreadPool pool(GetParam());
  int64_t count = 0; // plain: only one run at a time
  std::vector<std::thread> callers;
  for (int c = 0; c < 3; ++c)
    callers.emplace_back([&] {
      for (int i = 0; i < 200; ++i)
        pool.run([&](int member) {
          if (member == 0) ++count;
        });
    });
  for (auto& caller : callers) caller.join();
  EXPECT_EQ(count, 600);
}

TEST_P(Pool, NestedRunsAreRefusedAndOtherPoolsAllowed) {
  ThreadPool pool(GetParam()), other(2);
  EXPECT_THROW(pool.run([&](int) { pool.run([](int) {}); }), InternalError);
  std::atomic<int> inner{0};
  pool.run([&](int member) {
    if (member == 0) other.run([&](int) { ++inner; });
  });
  EXPECT_EQ(inner, 2);
  // Having used another pool does not hide that this one is running.
  EXPECT_THROW(pool.run([&](int member) {
    if (member != 0) return;
    other.run([](int) {});
    pool.run([](int) {});
  }),
               InternalError);
}

INSTANTIATE_TEST_SUITE_P(Sizes, Pool, testing::Values(1, 2, 3, 5));
