// runtime/context_graph.cpp -- runs of launches as tasks that the members of the pool take; the
// steps between them stay where they are.
#include "base/thread_pool.h"
#include "runtime/context.h"
#include "runtime/task_graph.h"
#include <algorithm>
#include <chrono>
#include <cmath>

namespace luminal::runtime {
namespace {

/// What independent launches take together before a second worker is worth it: some times what it
/// costs to ask one.
constexpr double worth_us = 4;

} // namespace

/// Launches that run side by side need barriers of their own and scratch of their own: kernels with
/// either end a graph.
void Context::make_graphs() {
  const Plan& plan = executable_->plan();
  const auto* cpu = dynamic_cast<const device::CpuDevice*>(&executable_->device());
  if (!cpu || cpu->limits().workers == 1) return;
  for (const CodeId k : plan.kernels.ids()) functions_.push_back(cpu->function(executable_->kernel(k)));
  const auto simple = [&](const Step& step) {
    const Launch* launch = step.as<Launch>();
    if (!launch) return false;
    const KernelCode& kernel = plan.kernels[launch->kernel];
    return !kernel.barriers && kernel.shared_bytes.range().high <= 0;
  };
  constexpr size_t most = 512; // steps of one graph: finding dependencies looks at pairs
  for (size_t begin = 0; begin < plan.steps.size();) {
    size_t end = begin;
    while (end < plan.steps.size() && end - begin < most && simple(plan.steps[end])) end++;
    if (end - begin > 1)
      graphs_.push_back(
          std::make_unique<TaskGraph>(plan, std::span(plan.steps).subspan(begin, end - begin), int(begin)));
    begin = std::max(end, begin + 1);
  }
}

/// Tasks follow what kernels take at the present sizes, by powers of two: in most steps nothing
/// changes.
void Context::arrange_graphs() {
  if (graphs_.empty()) return;
  bool same = work_class_.size() == work_us_.size();
  work_class_.resize(work_us_.size());
  for (const CodeId k : work_us_.ids()) {
    const int now = workers_[k] == 1 ? std::ilogb(std::max(work_us_[k], 1e-3)) : 1000 + workers_[k];
    same &= work_class_[k] == now;
    work_class_[k] = now;
  }
  if (same) return;
  for (const auto& graph : graphs_)
    graph->arrange(work_us_, workers_, executable_->device().limits().workers, worth_us);
}

/// What asking other workers costs is lost in long runs.
void Context::choose_pace() {
  worker_count_ = nullptr;
  const auto* cpu = dynamic_cast<const device::CpuDevice*>(&executable_->device());
  if (!cpu || cpu->limits().workers == 1) return;
  double us = 0;
  for (const Step& step : executable_->plan().steps)
    if (const Launch* launch = step.as<Launch>()) us += work_us_[launch->kernel];
  const int octave = std::ilogb(std::max(us, 1.0));
  if (octave < int(worker_counts_.size())) worker_count_ = &worker_counts_[size_t(octave)];
}

/// A launch in parts is several events; what it reads and writes is told with the first.
void Context::record(const Launch& launch, const Task& task, TraceEvent& event, int64_t begin,
                     int member) const {
  event.name = executable_->plan().kernels[launch.kernel].name;
  event.begin_ns = begin, event.duration_ns = now_ns() - begin, event.member = member;
  event.more = task.part > 0;
  if (event.more) return;
  for (const SlotId slot : launch.slots) event.operands.push_back(view(slot));
}

luminal::Result<void> Context::run_graph(TaskGraph& graph) {
  const Plan& plan = executable_->plan();
  const auto& cpu = static_cast<const device::CpuDevice&>(executable_->device());
  ThreadPool& pool = cpu.pool();
  graph.reset();
  const size_t traced = events_.size();
  if (tracing_) events_.resize(traced + graph.trace_size());
  pool.tasks(int(graph.tasks().size()), graph.work_us(), [&](int number, int member) {
    const Task& task = graph.tasks()[size_t(number)];
    const int64_t arrived = tracing_ ? now_ns() : 0;
    if (!graph.ready(task)) pool.wait([&] { return graph.ready(task); });
    void** buffers = buffers_.data() + most_buffers_ * size_t(member);
    int64_t* values = values_.data() + most_symbols_ * size_t(member);
    for (int p = task.first; p <= task.last; p++) {
      if (stopped()) break; // the tasks that wait for this one find out by themselves
      const int64_t begin = tracing_ ? now_ns() : 0;
      const Launch& launch = *plan.steps[size_t(graph.order()[size_t(p)])].as<Launch>();
      for (size_t i = 0; i < launch.slots.size(); i++) buffers[i] = addresses_[launch.slots[i]];
      const auto& symbols = kernel_symbols_[launch.kernel];
      for (size_t i = 0; i < symbols.size(); i++) values[i] = symbols_[size_t(symbols[i])];
      const int cuts = parts_between_stops(plan.kernels[launch.kernel], work_us_[launch.kernel] / task.parts);
      for (int cut = 0; cut < cuts && (cut == 0 || !stopped()); cut++)
        functions_[launch.kernel](
            buffers, values, reinterpret_cast<char*>(scratch_.data()),
            reinterpret_cast<char*>(scratch_.data() + shared_bytes_ + member * local_stride_),
            task.part * cuts + cut, task.parts * cuts, nullptr, [](void*) {});
      if (!tracing_) continue;
      TraceEvent& event = events_[traced + graph.trace_place(task, p)];
      if (p == task.first) event.waited_ns = begin - arrived;
      record(launch, task, event, begin, member);
    }
    graph.done(task);
  });
  if (stopped()) return Failure{"stopped"};
  return {};
}

} // namespace luminal::runtime
