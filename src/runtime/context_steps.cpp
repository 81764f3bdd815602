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

luminal::Result<void> Context::run_steps(const Steps& steps, std::byte* arena) {
  for (const Step& step : steps)
    if (auto done = run_step(step, arena); !done) return done;
  return {};
}

luminal::Result<void> Context::run_step(const Step& step, std::byte* arena) {
  using Done = luminal::Result<void>;
  const Plan& plan = executable_->plan();
  device::Device& device = executable_->device();
  if (stopped()) return Failure{"stopped"};
  const int64_t begin = tracing_ ? now_ns() : 0;
  const auto finished = [&](Done done, const auto& name) -> Done {
    if (!tracing_ || !done) return done;
    if (auto waited = device.synchronize(); !waited) return waited;
    const int64_t duration = now_ns() - begin;
    std::vector<HostValue> operands;
    for (const SlotId slot : slots_of(step)) operands.push_back(view(slot));
    events_.push_back({name(), begin, duration, 0, std::move(operands)});
    return {};
  };
  const auto slot_name = [&](SlotId slot) { return plan.slots[slot].name; };
  return visit(
      step,
      [&](const Launch& s) { return finished(run_launch(s), [&] { return plan.kernels[s.kernel].name; }); },
      [&](const Copy& s) {
        return finished(device.copy(addresses_[s.to], addresses_[s.from], bytes_[s.from]),
                        [&] { return "copy " + slot_name(s.to); });
      },
      [&](const Zero& s) {
        return finished(device.zero(addresses_[s.slot], bytes_[s.slot]),
                        [&] { return "zero " + slot_name(s.slot); });
      },
      [&](const RangeCheck& s) { return check_range(s); },
      [&](const AccessCheck& s) { return check_accesses(s, arena); },
      [&](const Loop& s) { return run_loop(s, arena); },
      [&](const Cond& s) -> Done {
        const auto holds = flag(s.condition);
        if (!holds) return holds.failure();
        return run_steps(*holds ? s.then : s.otherwise, arena);
      },
      [&](const HostCall& s) { return finished(run_host(s), [&] { return "host " + s.function.kind; }); });
}

/// In how many parts a launch is made, so that `stop` is asked now and then in the middle of a long one. What
/// waits for other workers at barriers, or shares scratch with them, is not cut.
int Context::parts_between_stops(const KernelCode& kernel, double work_us) const {
  constexpr double between_us = 50e3;
  if (!options_.stop || kernel.barriers || kernel.shared_bytes.range().high > 0) return 1;
  return int(std::clamp(work_us / between_us, 1.0, 1024.0));
}

luminal::Result<void> Context::run_launch(const Launch& launch) {
  const KernelCode& kernel = executable_->plan().kernels[launch.kernel];
  for (size_t i = 0; i < launch.slots.size(); i++) buffers_[i] = addresses_[launch.slots[i]];
  const auto& symbols = kernel_symbols_[launch.kernel];
  for (size_t i = 0; i < symbols.size(); i++) values_[i] = symbols_[size_t(symbols[i])];
  device::LaunchArguments arguments{.buffers = {buffers_.data(), launch.slots.size()},
                                    .symbols = {values_.data(), symbols.size()},
                                    .shared = reinterpret_cast<char*>(scratch_.data()),
                                    .local = reinterpret_cast<char*>(scratch_.data() + shared_bytes_),
                                    .local_stride = local_stride_,
                                    .workers = alone_ ? 1 : workers_[launch.kernel],
                                    .barriers = kernel.barriers,
                                    .work_us = work_us_[launch.kernel],
                                    .parts = parts_between_stops(kernel, work_us_[launch.kernel]),
                                    .stop = options_.stop ? &options_.stop : nullptr};
  std::vector<std::span<const std::byte>> files;
  if (loading_) {
    files = file_weights(launch);
    int64_t bytes = 0;
    for (const auto& file : files) bytes += int64_t(file.size());
    if (kernel.shared_bytes.range().high <= 0)
      arguments.parts = std::max(arguments.parts, int(std::min(bytes / piece, most_pieces)));
    if (arguments.parts > 1) arguments.after_part = [&files] { std::ranges::for_each(files, drop_pages); };
  }
  auto done = executable_->device().launch(executable_->kernel(launch.kernel), arguments);
  if (done) std::ranges::for_each(files, drop_pages);
  if (done && arguments.parts > 1 && stopped()) return Failure{"stopped"};
  return done;
}

luminal::Result<void> Context::run_loop(const Loop& loop, std::byte* arena) {
  const Plan& plan = executable_->plan();
  size_t counter = 0;
  while (counter < plan.symbols.size() && plan.symbols[counter] != loop.counter) counter++;
  LUMINAL_CHECK(counter < plan.symbols.size(), "loop counter {}", to_string(loop.counter));
  ExprMap<int64_t> bindings;
  for (size_t i = 0; i < plan.symbols.size(); i++) bindings[plan.symbols[i]] = symbols_[i];
  auto count = evaluate(loop.count, bindings);
  if (!count) return count.failure();
  int64_t turn = 0;
  for (; turn < *count; turn++) {
    symbols_[counter] = turn;
    if (auto done = refresh(); !done) return done;
    if (loop.condition) {
      if (auto done = run_steps(loop.test, arena); !done) return done;
      const auto holds = flag(loop.condition);
      if (!holds) return holds.failure();
      if (!*holds) break;
    }
    if (auto done = run_steps(loop.body, arena); !done) return done;
  }
  if (!loop.taken) return {};
  return executable_->device().copy_in(addresses_[loop.taken], std::as_bytes(std::span(&turn, 1)));
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
luminal::Result<void> Context::run_host(const HostCall& call) {
  if (!options_.host)
    return Failure{
        fmt::format("the plan calls the host ({}), but no host function was given", call.function.kind)};
  std::vector<HostValue> inputs, results;
  device::Device& device = executable_->device();
  const bool visible = device.limits().host_visible;
  if (auto waited = device.synchronize(); !waited) return waited;
  for (const SlotId slot : call.inputs) {
    auto value = on_host(slot);
    if (!value) return value.failure();
    inputs.push_back(std::move(*value));
  }
  for (const SlotId slot : call.results) {
    results.push_back(view(slot));
    if (visible) continue;
    host_copies_[slot].assign(results.back().bytes.size(), std::byte{});
    results.back().bytes = host_copies_[slot];
  }
  if (auto done = options_.host(call.function, inputs, results); !done) return done;
  for (size_t i = 0; i < results.size() && !visible; i++)
    if (auto done = device.copy_in(addresses_[call.results[i]], results[i].bytes); !done) return done;
  return {};
}

} // namespace luminal::runtime
