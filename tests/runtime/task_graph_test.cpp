// task_graph_test.cpp -- dependencies of random launches against those of the definition; tasks
// that any number of members can take in order.
#include "base/thread_pool.h"
#include "runtime/task_graph.h"
#include <algorithm>
#include <gtest/gtest.h>
#include <random>

namespace luminal::runtime {
namespace {

/// Launches that write one slot and read some; slots of the arena overlap at random.
Plan random_plan(std::mt19937& random, int steps) {
  Plan plan;
  const auto draw = [&](int n) { return int(random() % uint32_t(n)); };
  for (int s = 0; s < 12; s++) {
    Slot slot;
    slot.kind = s < 3 ? SlotKind::state : SlotKind::arena;
    slot.max_bytes = 64 * (1 + draw(3));
    slot.offset = s < 3 ? -1 : 64 * draw(20);
    plan.slots.push_back(slot);
  }
  for (int k = 0; k < 3; k++) {
    KernelCode kernel;
    if (k < 2) kernel.writes = {true, k == 1, false}; // the last one says nothing: it may write all
    plan.kernels.push_back(kernel);
  }
  for (int i = 0; i < steps; i++) {
    Launch launch{CodeId(draw(3)), {}};
    for (int a = 0; a < 3; a++) launch.slots.push_back(SlotId(draw(12)));
    plan.steps.push_back(launch);
  }
  return plan;
}

const Launch& launch_of(const Step& step) { return *step.as<Launch>(); }

bool conflict(const Plan& plan, const Launch& a, const Launch& b) {
  const auto writes = [&](const Launch& launch, size_t i) {
    const auto& known = plan.kernels[launch.kernel].writes;
    return known.empty() || known[i];
  };
  for (size_t i = 0; i < a.slots.size(); i++)
    for (size_t k = 0; k < b.slots.size(); k++) {
      if (!writes(a, i) && !writes(b, k)) continue;
      const SlotId x = a.slots[i], y = b.slots[k];
      if (x == y) return true;
      const Slot &p = plan.slots[x], &q = plan.slots[y];
      if (p.offset < 0 || q.offset < 0) continue;
      for (int64_t byte = p.offset; byte < p.offset + p.max_bytes; byte += 64)
        if (byte >= q.offset && byte < q.offset + q.max_bytes) return true;
    }
  return false;
}

TEST(TaskGraph, AnyOrderThatTasksAllowKeepsConflictsInOrder) {
  std::mt19937 random(7);
  int side_by_side = 0;
  for (int round = 0; round < 200; round++) {
    const Plan plan = random_plan(random, 2 + int(random() % 14));
    TaskGraph graph(plan, plan.steps, 0);
    const IdVector<CodeId, double> work(3, double(random() % 4));
    const IdVector<CodeId, int> most{1, 1 + int(random() % 4), 1};
    const int members = 1 + int(random() % 4);
    graph.arrange(work, most, members, 2.0);
    const std::vector<Task>& tasks = graph.tasks();
    // Members take tasks in order and finish them in any order that their needs allow.
    graph.reset();
    std::vector<std::pair<int, int>> span(plan.steps.size(), {-1, -1}); // first begin, last end of each step
    std::vector<size_t> taken;
    size_t next = 0;
    int time = 0, parts = 0;
    while (next < tasks.size() || !taken.empty()) {
      while (next < tasks.size() && int(taken.size()) < members) taken.push_back(next++);
      std::vector<size_t> ready;
      for (const size_t t : taken)
        if (graph.ready(tasks[t])) ready.push_back(t);
      ASSERT_FALSE(ready.empty()) << "nobody can go on";
      side_by_side += ready.size() > 1;
      for (const size_t t : ready)
        for (int p = tasks[t].first; p <= tasks[t].last; p++) {
          auto& [begin, end] = span[size_t(graph.order()[size_t(p)])];
          if (begin < 0) begin = time;
        }
      time++;
      const size_t t = ready[random() % ready.size()];
      for (int p = tasks[t].first; p <= tasks[t].last; p++, parts++)
        span[size_t(graph.order()[size_t(p)])].second = time + p - tasks[t].first;
      time += tasks[t].last - tasks[t].first + 1;
      graph.done(tasks[t]);
      std::erase(taken, t);
    }
    EXPECT_EQ(size_t(parts), graph.trace_size());
    for (size_t b = 0; b < plan.steps.size(); b++) {
      ASSERT_GE(span[b].second, 0) << "never done";
      for (size_t a = 0; a < b; a++) {
        if (!conflict(plan, launch_of(plan.steps[a]), launch_of(plan.steps[b]))) continue;
        // in one chain their order says it, else the times
        const auto& order = graph.order();
        const auto place = [&](size_t s) { return std::ranges::find(order, int(s)) - order.begin(); };
        ASSERT_LT(place(a), place(b));
        ASSERT_LE(span[a].second, std::max(span[b].first, span[b].second - 1))
            << "steps " << a << " and " << b;
      }
    }
  }
  EXPECT_GT(side_by_side, 50);
}

/// A launch as it might be: every cell that it writes depends on every cell that it touches. Plain
/// memory: TSan sees what is not ordered.
void act(const Plan& plan, const Launch& launch, int part, int parts, std::vector<uint32_t>& memory) {
  const auto cells = [&](SlotId slot) {
    const Slot& s = plan.slots[slot];
    return std::pair(s.offset < 0 ? 64 + 8 * slot.number() : s.offset / 64, s.max_bytes / 64);
  };
  const auto& known = plan.kernels[launch.kernel].writes;
  uint32_t sum = 17;
  for (size_t i = 0; i < launch.slots.size(); i++) {
    if (known.empty() || known[i]) continue;
    const auto [at, count] = cells(launch.slots[i]);
    for (int64_t c = at; c < at + count; c++) sum = sum * 31 + memory[size_t(c)];
  }
  for (size_t i = 0; i < launch.slots.size(); i++) {
    if (!known.empty() && !known[i]) continue;
    const auto [at, count] = cells(launch.slots[i]);
    for (int64_t c = at; c < at + count; c++)
      if (c % parts == part) memory[size_t(c)] = memory[size_t(c)] * 7 + sum;
  }
}

TEST(TaskGraph, AnyNumberOfMembersGivesTheSameBits) {
  std::mt19937 random(11);
  ThreadPool pools[] = {ThreadPool(1), ThreadPool(2), ThreadPool(4)};
  for (int round = 0; round < 200; round++) {
    Plan plan = random_plan(random, 2 + int(random() % 30));
    // A launch in parts does not read what it writes: no kernel does.
    std::erase_if(plan.steps, [&](const Step& step) {
      const auto& [kernel, slots] = launch_of(step);
      const auto& known = plan.kernels[kernel].writes;
      for (size_t i = 0; i < slots.size(); i++)
        for (size_t k = 0; k < slots.size(); k++) {
          if (i == k || !(known.empty() || known[i])) continue;
          const Launch a{kernel, {slots[i]}}, b{kernel, {slots[k]}};
          Plan all = plan;
          all.kernels[kernel].writes = {};
          if (conflict(all, a, b)) return true;
        }
      return false;
    });
    if (plan.steps.empty()) continue;
    TaskGraph graph(plan, plan.steps, 0);
    std::vector<uint32_t> want(64 + 8 * 12, 1);
    for (const Step& step : plan.steps) act(plan, launch_of(step), 0, 1, want);
    for (ThreadPool& pool : pools) {
      graph.arrange({10, 10, 10}, {1, 4, 1 + round % 3}, pool.size(), 1);
      graph.reset();
      std::vector<uint32_t> memory(want.size(), 1);
      pool.tasks(int(graph.tasks().size()), 1e6, [&](int number, int) {
        const Task& task = graph.tasks()[size_t(number)];
        pool.wait([&] { return graph.ready(task); });
        for (int p = task.first; p <= task.last; p++)
          act(plan, launch_of(plan.steps[size_t(graph.order()[size_t(p)])]), task.part, task.parts, memory);
        graph.done(task);
      });
      ASSERT_EQ(memory, want) << "round " << round << ", " << pool.size() << " members";
    }
  }
}

TEST(TaskGraph, ChainsOfShortLaunchesAreOneTask) {
  Plan plan;
  plan.kernels.resize(1);
  plan.kernels.front().writes = {true, false};
  for (int s = 0; s < 9; s++) {
    Slot slot;
    slot.kind = SlotKind::state;
    slot.max_bytes = 64;
    plan.slots.push_back(slot);
  }
  const auto launch = [&](int out, int in) {
    plan.steps.push_back(Launch{CodeId(0), {SlotId(out), SlotId(in)}});
  };
  launch(1, 0), launch(2, 1), launch(3, 1), launch(4, 1), launch(5, 2);
  TaskGraph graph(plan, plan.steps, 0);
  graph.arrange({1.0}, {1}, 2, 4.0);
  EXPECT_EQ(graph.tasks().size(), 1u); // three of 1 us side by side are not worth it
  EXPECT_FALSE(graph.concurrent());
  graph.arrange({10.0}, {1}, 2, 4.0);
  ASSERT_EQ(graph.tasks().size(), 5u);
  EXPECT_EQ(graph.work_us(), 50);
  graph.arrange({10.0}, {2}, 2, 4.0);
  EXPECT_EQ(graph.tasks().size(), 10u);
  graph.arrange({10.0}, {1000}, 1, 4.0);
  EXPECT_EQ(graph.tasks().size(), 1u);
  graph.arrange({10.0}, {3}, 8, 4.0); // no more parts than the kernel may have
  EXPECT_EQ(graph.tasks().size(), 15u);
  for (const Task& task : graph.tasks()) EXPECT_EQ(task.parts, 3);
}

TEST(KernelCode, TheLeastCapCounts) {
  KernelCode kernel;
  kernel.caps = {{100, 1}, {5000, 4}, {3000, 2}};
  EXPECT_EQ(kernel.workers_at(100, 8), 1);
  EXPECT_EQ(kernel.workers_at(101, 8), 2);
  EXPECT_EQ(kernel.workers_at(3001, 8), 4);
  EXPECT_EQ(kernel.workers_at(3001, 3), 3);
  EXPECT_EQ(kernel.workers_at(5001, 8), 8);
}

} // namespace
} // namespace luminal::runtime
