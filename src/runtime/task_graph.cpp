// runtime/task_graph.cpp -- dependencies from slots and from shared bytes of the arena; levels;
// tasks.
#include "runtime/task_graph.h"
#include "base/check.h"
#include <algorithm>
#include <numeric>
#include <set>

namespace luminal::runtime {
namespace {

struct Access {
  SlotId slot;
  bool writes;
};

std::vector<Access> accesses(const Plan& plan, const Launch& launch) {
  const std::vector<bool>& writes = plan.kernels[launch.kernel].writes;
  std::vector<Access> list;
  for (size_t i = 0; i < launch.slots.size(); i++)
    list.push_back({launch.slots[i], i >= writes.size() || writes[i]});
  return list;
}

/// Have two slots a byte in common?
bool meet(const Slot& a, const Slot& b) {
  return a.kind == SlotKind::arena && b.kind == SlotKind::arena && a.offset >= 0 && b.offset >= 0 &&
         a.offset < b.offset + b.max_bytes && b.offset < a.offset + a.max_bytes;
}

} // namespace

std::vector<std::vector<int>> dependencies(const Plan& plan, std::span<const Step> steps) {
  std::vector<std::vector<Access>> all;
  for (const Step& step : steps) {
    LUMINAL_CHECK(step.is<Launch>());
    all.push_back(accesses(plan, *step.as<Launch>()));
  }
  const auto conflict = [&](int a, int b) {
    for (const Access& x : all[size_t(a)])
      for (const Access& y : all[size_t(b)])
        if ((x.writes || y.writes) && (x.slot == y.slot || meet(plan.slots[x.slot], plan.slots[y.slot])))
          return true;
    return false;
  };
  std::vector<std::vector<int>> needs(steps.size());
  std::vector<std::vector<bool>> reached(steps.size(), std::vector<bool>(steps.size(), false));
  for (int i = 0; i < int(steps.size()); i++)
    for (int j = i - 1; j >= 0; j--) { // the nearest first: what they need is known then
      if (reached[size_t(i)][size_t(j)] || !conflict(j, i)) continue;
      needs[size_t(i)].push_back(j);
      reached[size_t(i)][size_t(j)] = true;
      for (int k = 0; k < j; k++)
        if (reached[size_t(j)][size_t(k)]) reached[size_t(i)][size_t(k)] = true;
    }
  return needs;
}

TaskGraph::TaskGraph(const Plan& plan, std::span<const Step> steps, int begin)
    : begin_(begin), needs_(dependencies(plan, steps)), parts_(steps.size(), 1),
      left_(std::make_unique<std::atomic<int>[]>(steps.size())) {
  const int count = int(steps.size());
  std::vector<int> level(steps.size(), 0);
  for (int i = 0; i < count; i++) {
    kernels_.push_back(steps[size_t(i)].as<Launch>()->kernel);
    for (const int need : needs_[size_t(i)])
      level[size_t(i)] = std::max(level[size_t(i)], level[size_t(need)] + 1);
  }
  order_.resize(steps.size());
  std::iota(order_.begin(), order_.end(), 0);
  std::ranges::stable_sort(order_, [&](int a, int b) { return level[size_t(a)] < level[size_t(b)]; });
  place_.resize(steps.size());
  for (int p = 0; p < count; p++) {
    place_[size_t(order_[size_t(p)])] = p;
    if (p == 0 || level[size_t(order_[size_t(p)])] != level[size_t(order_[size_t(p - 1)])])
      level_begin_.push_back(p);
  }
  level_begin_.push_back(count);
  for (int& step : order_) step += begin_;
}

void TaskGraph::arrange(const IdVector<CodeId, double>& work_us, const IdVector<CodeId, int>& most,
                        int workers, double worth_us) {
  tasks_.clear();
  task_needs_.clear();
  work_us_ = 0;
  const auto kernel = [&](int place) { return kernels_[size_t(order_[size_t(place)] - begin_)]; };
  const auto needs_of = [&](int place) {
    std::vector<int> places;
    for (const int need : needs_[size_t(order_[size_t(place)] - begin_)])
      places.push_back(place_[size_t(need)]);
    return places;
  };
  bool chain = false; // the last task may be gone on with
  for (size_t l = 0; l + 1 < level_begin_.size(); l++) {
    const int from = level_begin_[l], to = level_begin_[l + 1];
    double level_us = 0;
    bool split = false;
    for (int p = from; p < to; p++) {
      level_us += work_us[kernel(p)];
      split |= most[kernel(p)] > 1;
    }
    work_us_ += level_us;
    const bool together = workers > 1 && (split || (to - from > 1 && level_us >= worth_us));
    for (int p = from; p < to; p++) {
      const int parts = together ? std::min(workers, most[kernel(p)]) : 1;
      parts_[size_t(p)] = parts;
      std::vector<int> needs = needs_of(p);
      if (!together && chain) {
        Task& last = tasks_.back();
        std::erase_if(needs, [&](int need) { return need >= last.first; });
        last.last = p;
        task_needs_.back().insert(task_needs_.back().end(), needs.begin(), needs.end());
        continue;
      }
      for (int part = 0; part < parts; part++) {
        tasks_.push_back({p, p, part, parts});
        task_needs_.push_back(needs);
      }
      chain = !together;
    }
    if (together) chain = false;
  }
  trace_begin_.assign(1, 0);
  for (const int parts : parts_) trace_begin_.push_back(trace_begin_.back() + parts);
}

void TaskGraph::reset() {
  for (size_t p = 0; p < order_.size(); p++) left_[p].store(parts_[p], std::memory_order_relaxed);
}

bool TaskGraph::ready(const Task& task) const {
  const auto& needs = task_needs_[size_t(&task - tasks_.data())];
  return std::ranges::all_of(needs,
                             [&](int p) { return left_[size_t(p)].load(std::memory_order_acquire) == 0; });
}

void TaskGraph::done(const Task& task) {
  for (int p = task.first; p <= task.last; p++) left_[size_t(p)].fetch_sub(1, std::memory_order_release);
}

} // namespace luminal::runtime
