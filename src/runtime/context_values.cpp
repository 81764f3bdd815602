// runtime/context_values.cpp -- results and states of a context, and its trace.
#include "base/check.h"
#include "base/pages.h"
#include "runtime/context.h"
#include <fmt/format.h>

namespace luminal::runtime {

luminal::Result<HostValue> Context::result(std::string_view name) const {
  for (const PlanResult& result : executable_->plan().results)
    if (result.name == name) return on_host(result.slot);
  return result_in_place(name);
}

luminal::Result<HostValue> Context::result_in_place(std::string_view name) const {
  for (const PlanResult& result : executable_->plan().results)
    if (result.name == name) return view(result.slot);
  return Failure{fmt::format("plan {} has no result {}", executable_->plan().name, name)};
}

luminal::Result<HostValue> Context::state(std::string_view name) const {
  SlotId slot = executable_->plan().find_slot(name, SlotKind::state);
  if (!slot) return Failure{fmt::format("plan {} has no state {}", executable_->plan().name, name)};
  return on_host(slot);
}

luminal::Result<void> Context::set_state(std::string_view name, std::span<const std::byte> bytes) {
  if (state_version_ != store_->state_version())
    if (auto done = find_states(); !done) return done;
  if (stale_)
    if (auto done = refresh(); !done) return done;
  const SlotId slot = executable_->plan().find_slot(name, SlotKind::state);
  if (!slot) return Failure{fmt::format("plan {} has no state {}", executable_->plan().name, name)};
  const HostValue value = view(slot);
  if (value.bytes.size() != bytes.size())
    return Failure{
        fmt::format("state {} takes {} bytes, {} were given", name, value.bytes.size(), bytes.size())};
  device::Device& device = executable_->device();
  if (on_device_only(device, bytes))
    return device.copy(value.bytes.data(), bytes.data(), int64_t(bytes.size()));
  return device.copy_in(value.bytes.data(), bytes);
}

bool Context::owns_result(std::string_view name) const {
  SlotId slot;
  int shared = 0;
  for (const PlanResult& result : executable_->plan().results)
    if (result.name == name) slot = result.slot;
  for (const PlanResult& result : executable_->plan().results) shared += result.slot == slot;
  return shared == 1 && results_.contains(slot);
}

luminal::Result<DeviceBuffer> Context::exchange_result(std::string_view name, DeviceBuffer replacement) {
  LUMINAL_CHECK(owns_result(name), "result {}", name);
  SlotId slot;
  for (const PlanResult& result : executable_->plan().results)
    if (result.name == name) slot = result.slot;
  const int64_t bytes = executable_->plan().slots[slot].max_bytes;
  if (replacement.bytes() < bytes || !replacement.serves(executable_->device())) {
    auto made = DeviceBuffer::allocate(executable_->device(), bytes, in_huge_pages(bytes));
    if (!made) return made.failure();
    replacement = std::move(*made);
  }
  DeviceBuffer old = std::move(results_[slot]);
  addresses_[slot] = replacement.data();
  results_[slot] = std::move(replacement);
  return old;
}

bool Context::bind_result_slot(SlotId slot, void* memory) {
  if (!results_.contains(slot) || !memory || !executable_->device().limits().reads_host) return false;
  int shared = 0;
  for (const PlanResult& result : executable_->plan().results) shared += result.slot == slot;
  if (shared != 1) return false;
  if (stale_ && !refresh()) return false; // the run tells why
  addresses_[slot] = static_cast<std::byte*>(memory);
  ask_for_large_pages({addresses_[slot], size_t(bytes_[slot])});
  return true;
}

void Context::release_result_slot(SlotId slot) { addresses_[slot] = results_.at(slot).data(); }

luminal::Result<bool> Context::bind_state_slot(SlotId slot, void* memory) {
  if (stale_)
    if (auto done = refresh(); !done) return done.failure();
  const std::string& name = executable_->plan().slots[slot].name;
  if (!memory && bytes_[slot] > 0)
    return Failure{fmt::format("argument {} takes {} bytes; none were given", name, bytes_[slot])};
  auto* bytes = static_cast<std::byte*>(memory);
  if (!executable_->device().limits().reads_host) {
    if (auto done = set_state(name, {bytes, size_t(bytes_[slot])}); !done) return done.failure();
    return false;
  }
  if (state_version_ != store_->state_version())
    if (auto done = find_states(); !done) return done.failure();
  addresses_[slot] = bytes;
  return true;
}

void Context::forget_result(std::string_view name) {
  for (const PlanResult& result : executable_->plan().results) {
    if (result.name != name) continue;
    const Slot& slot = executable_->plan().slots[result.slot];
    if (auto own = results_.find(result.slot); own != results_.end())
      own->second.clear();
    else if (slot.kind == SlotKind::arena && slot.offset >= 0)
      arena_.clear(addresses_[result.slot] - arena_.data(),
                   arena_.bytes() < executable_->plan().arena_bytes ? bytes_[result.slot] : slot.max_bytes);
  }
}

} // namespace luminal::runtime
