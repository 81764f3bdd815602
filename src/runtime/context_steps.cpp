// runtime/context_steps.cpp -- the steps of a plan: launches, copies, loops, branches, functions of the host.
#include "base/check.h"
#include "base/pages.h"
#include "runtime/context.h"
#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <utility>

namespace luminal::runtime {
namespace {

/// What is copied from a mapped file at once, and in how many launches of parts at most: the file's
/// pages are in memory beside the copy for so many bytes only.
constexpr int64_t piece = int64_t(8) << 20, most_pieces = 1024;

} // namespace

luminal::Result<void> Context::run_steps(const std::vector<Step>& steps, std::byte* arena) {
  for (const Step& step : steps)
    if (auto done = run_step(step, arena); !done) return done;
  return {};
}

luminal::Result<void> Context::run_step(const Step& step, std::byte* arena) {
  const Plan& plan = executable_->plan();
  if (stopped()) return Failure{"stopped"};
  int64_t begin = tracing_ ? now_ns() : 0;
  auto finished = [&](const std::string& name) -> luminal::Result<void> {
    if (!tracing_) return {};
    if (auto waited = executable_->device().synchronize(); !waited) return waited;
    const int64_t duration = now_ns() - begin;
    std::vector<HostValue> operands;
    for (SlotId slot : step.slots) operands.push_back(view(slot));
    events_.push_back({name, begin, duration, 0, std::move(operands)});
    return {};
  };
  device::Device& device = executable_->device();
  switch (step.kind) {
  case StepKind::launch: {
    const KernelCode& kernel = plan.kernels[step.kernel];
    for (size_t i = 0; i < step.slots.size(); i++) buffers_[i] = addresses_[step.slots[i]];
    const auto& symbols = kernel_symbols_[step.kernel];
    for (size_t i = 0; i < symbols.size(); i++) values_[i] = symbols_[size_t(symbols[i])];
    device::LaunchArguments arguments{.buffers = {buffers_.data(), step.slots.size()},
                                      .symbols = {values_.data(), symbols.size()},
                                      .shared = reinterpret_cast<char*>(scratch_.data()),
                                      .local = reinterpret_cast<char*>(scratch_.data() + shared_bytes_),
                                      .local_stride = local_stride_,
                                      .workers = alone_ ? 1 : workers_[step.kernel],
                                      .barriers = kernel.barriers,
                                      .work_us = work_us_[step.kernel]};
    std::vector<std::span<const std::byte>> files;
    if (loading_) {
      files = file_weights(step);
      int64_t bytes = 0;
      for (const auto& file : files) bytes += int64_t(file.size());
      if (kernel.shared_bytes.range().high <= 0) arguments.parts = int(std::min(bytes / piece, most_pieces));
      if (arguments.parts > 1) arguments.after_part = [&files] { std::ranges::for_each(files, drop_pages); };
    }
    auto done = device.launch(executable_->kernel(step.kernel), arguments);
    if (!done) return done;
    std::ranges::for_each(files, drop_pages);
    return finished(kernel.name);
  }
  case StepKind::copy: {
    auto done = device.copy(addresses_[step.slots[0]], addresses_[step.slots[1]], bytes_[step.slots[1]]);
    return done ? finished("copy " + plan.slots[step.slots[0]].name) : done;
  }
  case StepKind::zero: {
    auto done = device.zero(addresses_[step.slots[0]], bytes_[step.slots[0]]);
    return done ? finished("zero " + plan.slots[step.slots[0]].name) : done;
  }
  case StepKind::check: return check(step, arena);
  case StepKind::loop: return run_loop(step, arena);
  case StepKind::cond: {
    const auto holds = flag(step.slots[0]);
    if (!holds) return holds.failure();
    return run_steps(*holds ? step.body : step.otherwise, arena);
  }
  case StepKind::host: {
    auto done = run_host(step);
    return done ? finished("host " + step.host.kind) : done;
  }
  }
  return {};
}

luminal::Result<void> Context::run_loop(const Step& step, std::byte* arena) {
  const Plan& plan = executable_->plan();
  size_t counter = 0;
  while (counter < plan.symbols.size() && plan.symbols[counter] != step.counter) counter++;
  LUMINAL_CHECK(counter < plan.symbols.size(), "loop counter {}", to_string(step.counter));
  ExprMap<int64_t> bindings;
  for (size_t i = 0; i < plan.symbols.size(); i++) bindings[plan.symbols[i]] = symbols_[i];
  auto count = evaluate(step.count, bindings);
  if (!count) return count.failure();
  int64_t turn = 0;
  for (; turn < *count; turn++) {
    symbols_[counter] = turn;
    if (auto done = refresh(); !done) return done;
    if (step.condition) {
      if (auto done = run_steps(step.otherwise, arena); !done) return done;
      const auto holds = flag(step.condition);
      if (!holds) return holds.failure();
      if (!*holds) break;
    }
    if (auto done = run_steps(step.body, arena); !done) return done;
  }
  if (!step.taken) return {};
  return executable_->device().copy_in(addresses_[step.taken], std::as_bytes(std::span(&turn, 1)));
}

int64_t Context::element_count(SlotId slot) const {
  int64_t count = 1;
  for (int64_t extent : shapes_[slot]) count *= extent;
  return count;
}

HostValue Context::view(SlotId slot) const {
  const Slot& s = executable_->plan().slots[slot];
  return {s.name, s.type.dtype, shapes_[slot], {addresses_[slot], size_t(bytes_[slot])}};
}

luminal::Result<void> Context::read_slot(SlotId slot, void* to) const {
  return executable_->device().copy_out({static_cast<std::byte*>(to), size_t(bytes_[slot])},
                                        addresses_[slot]);
}

/// What lies in a slot, after what was launched before.
luminal::Result<HostValue> Context::on_host(SlotId slot) const {
  device::Device& device = executable_->device();
  HostValue value = view(slot);
  if (device.limits().host_visible) {
    if (auto waited = device.synchronize(); !waited) return waited.failure();
    return value;
  }
  if (const auto given = bound_.find(slot); given != bound_.end()) { // the host has it
    value.bytes = {const_cast<std::byte*>(given->second.data()), given->second.size()};
    return value;
  }
  std::vector<std::byte>& copy = host_copies_[slot];
  copy.resize(value.bytes.size());
  if (auto done = read_slot(slot, copy.data()); !done) return done.failure();
  value.bytes = copy;
  return value;
}

luminal::Result<bool> Context::flag(SlotId slot) const {
  std::byte byte{};
  if (auto done = executable_->device().copy_out({&byte, 1}, addresses_[slot]); !done) return done.failure();
  return byte != std::byte{0};
}

/// The host sees its operands, and results that it is to fill.
luminal::Result<void> Context::run_host(const Step& step) {
  if (!options_.host)
    return Failure{
        fmt::format("the plan calls the host ({}), but no host function was given", step.host.kind)};
  std::vector<HostValue> inputs, results;
  const size_t first_result = step.slots.size() - step.host.results.size();
  device::Device& device = executable_->device();
  const bool visible = device.limits().host_visible;
  if (auto waited = device.synchronize(); !waited) return waited;
  for (size_t i = 0; i < step.slots.size(); i++) {
    const SlotId slot = step.slots[i];
    if (i < first_result) {
      auto value = on_host(slot);
      if (!value) return value.failure();
      inputs.push_back(std::move(*value));
      continue;
    }
    results.push_back(view(slot));
    if (visible) continue;
    host_copies_[slot].assign(results.back().bytes.size(), std::byte{});
    results.back().bytes = host_copies_[slot];
  }
  if (auto done = options_.host(step.host, inputs, results); !done) return done;
  for (size_t i = 0; i < results.size() && !visible; i++)
    if (auto done = device.copy_in(addresses_[step.slots[first_result + i]], results[i].bytes); !done)
      return done;
  return {};
}

} // namespace luminal::runtime
