// runtime/task_graph.h -- which launches of a plan need which others, and what several workers can
// do of it at once.
#pragma once
#include "runtime/plan.h"
#include <atomic>
#include <memory>
#include <span>
#include <vector>

namespace luminal::runtime {

/// For each of these steps the earlier ones that it has to wait for: it reads or writes what they
/// write, or writes what they read. Slots of the arena that share bytes stand for each other, since
/// the arena was laid out for the steps one after the other. Nothing that follows from other ones
/// is listed.
std::vector<std::vector<int>> dependencies(const Plan& plan, std::span<const Step> steps);

/// What one member takes at once: a part of a launch, or launches that follow each other.
struct Task {
  int first = 0, last = 0; ///< positions in TaskGraph::order; last is included
  int part = 0, parts = 1; ///< of the launch, where first == last
};

/// A run of launches as tasks, in an order in which each may wait for earlier ones.
class TaskGraph {
public:
  /// steps: neighbouring launches, all without barriers. begin: the position of the first one in
  /// the plan's list.
  TaskGraph(const Plan& plan, std::span<const Step> steps, int begin);

  /// Makes the tasks anew. work_us: of each kernel, on one worker; most: workers of each kernel.
  /// Steps of one level (all that they need lies in levels before) run at the same time where
  /// together they take at least `worth_us`; the rest is one task after the other, which costs
  /// nothing.
  void arrange(const IdVector<CodeId, double>& work_us, const IdVector<CodeId, int>& most, int workers,
               double worth_us);

  int begin() const { return begin_; }
  int end() const { return begin_ + int(needs_.size()); }
  /// Some tasks can run at the same time.
  bool concurrent() const { return tasks_.size() > 1; }
  double work_us() const { return work_us_; }
  const std::vector<Task>& tasks() const { return tasks_; }
  /// Steps (positions in the plan's list) in the order in which tasks name them.
  const std::vector<int>& order() const { return order_; }

  /// Where the event of a task's launch goes in a trace of `trace_size` ones.
  size_t trace_place(const Task& task, int place) const {
    return size_t(trace_begin_[size_t(task.first)] + task.part + place - task.first);
  }
  size_t trace_size() const { return size_t(trace_begin_.back()); }

  /// Before a run.
  void reset();
  /// All that a task needs has been done.
  bool ready(const Task& task) const;
  void done(const Task& task);

private:
  int begin_;
  std::vector<CodeId> kernels_;         // of steps
  std::vector<std::vector<int>> needs_; // of steps
  std::vector<int> order_, place_;      // steps by level; the other way round
  std::vector<int> level_begin_;        // in order_
  std::vector<Task> tasks_;
  // of the first task of a launch or chain: places of what it waits for
  std::vector<std::vector<int>> task_needs_;
  std::vector<int> parts_, trace_begin_;     // of steps, by place; the sum of the parts before
  std::unique_ptr<std::atomic<int>[]> left_; // parts of steps that are not done
  double work_us_ = 0;
};

} // namespace luminal::runtime
