// tests/base/thread_pool_test.cpp -- the pool: every member once, barriers, uneven work,
// exceptions. Also run under TSan.
#include "base/thread_pool.h"
#include "luminal/error.h"
#include <atomic>
#include <gtest/gtest.h>
#include <numeric>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

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

TEST_P(Pool, EveryTaskIsDoneOnceWhoeverIsFree) {
  ThreadPool pool(GetParam());
  for (int round = 0; round < 300; ++round) {
    const int count = round % 23;
    std::vector<int> done(static_cast<size_t>(count)); // plain: the end of a run orders them
    pool.tasks(count, round % 2 ? 1e6 : 0, [&](int task, int member) {
      EXPECT_TRUE(member >= 0 && member < pool.size());
      ++done[size_t(task)];
    });
    for (const int d : done) ASSERT_EQ(d, 1);
  }
}

TEST_P(Pool, ATaskMayWaitForEarlierOnes) {
  ThreadPool pool(GetParam());
  for (int round = 0; round < 200; ++round) {
    constexpr int count = 40;
    std::vector<std::atomic<int>> done(count);
    std::vector<int> value(count);
    pool.tasks(count, 1e6, [&](int task, int) {
      const int need = task / 2;
      if (task > 0) pool.wait([&] { return done[size_t(need)].load(std::memory_order_acquire) == 1; });
      value[size_t(task)] = task > 0 ? value[size_t(need)] + 1 : 1;
      done[size_t(task)].store(1, std::memory_order_release);
    });
    for (int task = 1; task < count; ++task) ASSERT_EQ(value[size_t(task)], value[size_t(task / 2)] + 1);
  }
}

/// No member but the caller is ever needed: the others are kept busy by somebody else.
TEST_P(Pool, TheCallerDoesWhatNobodyBegins) {
  ThreadPool pool(GetParam());
  std::atomic<bool> inside{false}, leave{false};
  std::thread other([&] {
    pool.run([&](int member) {
      if (member == 0) inside = true;
      while (!leave) std::this_thread::yield();
    });
  });
  while (!inside) std::this_thread::yield();
  std::vector<int> done(9);
  pool.tasks(9, 1e6, [&](int task, int member) {
    EXPECT_EQ(member, 0);
    ++done[size_t(task)];
  });
  for (const int d : done) EXPECT_EQ(d, 1);
  int teams = 0;
  pool.team(pool.size(), 1e6, [&](int index, int count) {
    EXPECT_EQ(index, 0);
    EXPECT_EQ(count, 1);
    pool.barrier(); // of one
    ++teams;
  });
  EXPECT_EQ(teams, 1);
  leave = true;
  other.join();
}

TEST_P(Pool, TeamsMeetAtBarriers) {
  ThreadPool pool(GetParam());
  std::vector<int> value(static_cast<size_t>(pool.size()));
  std::atomic<int> wrong{0};
  for (int round = 0; round < 200; ++round) {
    std::atomic<int> came{0}, size{0};
    pool.team(1 + round % pool.size(), 1e6, [&](int index, int count) {
      ++came;
      size = count;
      for (int phase = 1; phase <= 3; ++phase) {
        value[size_t(index)] = 10 * round + phase;
        pool.barrier();
        for (int i = 0; i < count; ++i) wrong += value[size_t(i)] != 10 * round + phase;
        pool.barrier();
      }
    });
    ASSERT_EQ(came, size);
    ASSERT_LE(size, 1 + round % pool.size());
  }
  EXPECT_EQ(wrong, 0);
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

namespace {
int cores_of(pid_t thread) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  return sched_getaffinity(thread, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : -1;
}
} // namespace

// Woken there, a member would wait for the caller, which waits for it or works: both stayed on one
// core for as long as a launch was repeated.
TEST(PoolCores, AParkedMemberKeepsOffTheCallersCore) {
  const int all = cores_of(0);
  if (all < 2) GTEST_SKIP() << "one core";
  ThreadPool pool(2);
  pid_t member_thread = 0;
  int while_working = 0;
  const auto look = [&](int member) {
    if (member == 0) return;
    member_thread = gettid();
    while_working = cores_of(0);
  };
  for (int round = 0; round < 3; ++round) {
    pool.run(look);
    EXPECT_EQ(while_working, all) << "at work it may go anywhere";
    const auto begin = std::chrono::steady_clock::now();
    while (cores_of(member_thread) != all - 1 &&
           std::chrono::steady_clock::now() - begin < std::chrono::seconds(30))
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ASSERT_EQ(cores_of(member_thread), all - 1) << "it has parked";
  }
}

TEST(PoolCores, AParkedMemberKeepsOffTheCoreToWhichTheCallerMoved) {
  cpu_set_t all;
  CPU_ZERO(&all);
  ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
  std::vector<size_t> cores;
  for (size_t core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &all)) cores.push_back(core);
  if (cores.size() < 2) GTEST_SKIP() << "one core";
  ThreadPool pool(2);
  pid_t member_thread = 0;
  const auto look = [&](int member) {
    if (member == 1) member_thread = gettid();
  };
  const auto call_from = [&](size_t core) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    pool.run(look);
  };
  const auto parks_off = [&](size_t core) {
    const auto begin = std::chrono::steady_clock::now();
    cpu_set_t now;
    do {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      CPU_ZERO(&now);
      sched_getaffinity(member_thread, sizeof now, &now);
    } while ((CPU_COUNT(&now) != int(cores.size()) - 1 || CPU_ISSET(core, &now)) &&
             std::chrono::steady_clock::now() - begin < std::chrono::seconds(30));
    return !CPU_ISSET(core, &now);
  };
  call_from(cores[0]);
  EXPECT_TRUE(parks_off(cores[0]));
  const int64_t before = pool.counts().redirected;
  call_from(cores[0]);
  EXPECT_EQ(pool.counts().redirected, before) << "the caller is where it was";
  EXPECT_TRUE(parks_off(cores[0]));
  call_from(cores[1]);
  EXPECT_EQ(pool.counts().redirected, before + 1);
  EXPECT_TRUE(parks_off(cores[1]));
  sched_setaffinity(0, sizeof all, &all);
}

INSTANTIATE_TEST_SUITE_P(Sizes, Pool, testing::Values(1, 2, 3, 5));

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(PoolLimits, GoesOnWithTheThreadsThatTheSystemMakes) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        rlimit limit{};
        limit.rlim_cur = limit.rlim_max = rlim_t(1) << 30; // of address space; each stack takes a part
        setrlimit(RLIMIT_AS, &limit);
        ThreadPool pool(1000);
        std::atomic<int> members{0};
        pool.run([&](int) { ++members; });
        _exit(pool.size() >= 1 && pool.size() < 1000 && members == pool.size() ? 0 : 1);
      },
      testing::ExitedWithCode(0), "1000 threads were asked for, the system makes");
}
#endif
