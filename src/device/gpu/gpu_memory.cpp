// device/gpu/gpu_memory.cpp -- blocks of device memory that are used again; transfers in two halves.
#include "device/gpu/gpu_memory.h"
#include <algorithm>
#include <bit>
#include <cstring>

namespace luminal::device::gpu {
namespace {

constexpr int out_of_memory = 2;
constexpr unsigned no_timing = 2; // a flag of events
constexpr int64_t smallest = 256, large_step = int64_t(2) << 20, most_kept = int64_t(2) << 30;

int64_t rounded_up(int64_t x, int64_t to) { return (x + to - 1) / to * to; }

} // namespace

int64_t GpuMemory::block_bytes(int64_t bytes) {
  bytes = std::clamp<int64_t>(bytes, 1, INT64_MAX - large_step);
  const auto eighth = int64_t(std::bit_floor(uint64_t(bytes))) / 8;
  return rounded_up(bytes, std::clamp(eighth, smallest, large_step));
}

void GpuMemory::open(Handle stream, int64_t device_bytes) {
  stream_ = stream;
  most_kept_ = std::min(device_bytes / 8, most_kept);
}

void GpuMemory::close() noexcept {
  std::scoped_lock lock(mutex_, copying_);
  drop_kept();
  for (const auto& [address, bytes] : blocks_) d_.free(address);
  blocks_.clear();
  in_use_ = 0;
  for (Half& half : halves_) {
    if (half.event) d_.end_event(half.event);
    if (half.memory) d_.free_pinned(half.memory);
    half = {};
  }
}

GpuMemory::Outcome GpuMemory::allocate(void** address, int64_t bytes) {
  const int64_t wanted = block_bytes(bytes);
  std::lock_guard lock(mutex_);
  int64_t taken = wanted;
  if (const auto found = kept_.lower_bound(wanted);
      found != kept_.end() && found->first <= wanted + wanted / 8) {
    taken = found->first;
    *address = found->second.address;
    kept_bytes_ -= taken;
    kept_.erase(found);
  } else {
    int code = d_.allocate(address, size_t(wanted));
    if (code == out_of_memory && !kept_.empty()) {
      drop_kept();
      code = d_.allocate(address, size_t(wanted));
    }
    if (code != 0) return {code, "memory"};
  }
  blocks_[*address] = taken;
  in_use_ += taken;
  return {};
}

bool GpuMemory::free(void* address) noexcept {
  std::lock_guard lock(mutex_);
  const auto found = blocks_.find(address);
  if (found == blocks_.end()) return false;
  const int64_t bytes = found->second;
  blocks_.erase(found);
  in_use_ -= bytes;
  if (bytes > most_kept_) {
    d_.wait(stream_); // a launch may still use it
    d_.free(address);
    return true;
  }
  while (kept_bytes_ + bytes > most_kept_) drop_oldest();
  kept_.emplace(bytes, Kept{address, freed_++});
  kept_bytes_ += bytes;
  return true;
}

void GpuMemory::drop_oldest() noexcept {
  const auto oldest = std::ranges::min_element(kept_, {}, [](const auto& block) { return block.second.age; });
  d_.wait(stream_);
  d_.free(oldest->second.address);
  kept_bytes_ -= oldest->first;
  kept_.erase(oldest);
}

void GpuMemory::drop_kept() noexcept {
  if (!kept_.empty()) d_.wait(stream_);
  for (const auto& [bytes, block] : kept_) d_.free(block.address);
  kept_.clear();
  kept_bytes_ = 0;
}

bool GpuMemory::holds(const void* address, int64_t bytes) const {
  std::lock_guard lock(mutex_);
  auto found = blocks_.upper_bound(const_cast<void*>(address));
  if (found == blocks_.begin()) return false;
  --found;
  const int64_t offset = static_cast<const char*>(address) - static_cast<const char*>(found->first);
  return bytes >= 0 && offset < found->second && bytes <= found->second - offset;
}

int64_t GpuMemory::in_use() const {
  std::lock_guard lock(mutex_);
  return in_use_;
}

/// Made with the first copy.
GpuMemory::Outcome GpuMemory::prepare_halves() {
  for (Half& half : halves_) {
    if (half.memory && half.event) continue;
    void* memory = half.memory;
    if (!memory)
      if (const int code = d_.allocate_pinned(&memory, size_t(half_bytes), 0); code != 0)
        return {code, "memory of the host for copies"};
    half.memory = static_cast<std::byte*>(memory);
    if (const int code = d_.make_event(&half.event, no_timing); code != 0) return {code, "an event"};
  }
  return {};
}

GpuMemory::Outcome GpuMemory::copy_in(void* to, std::span<const std::byte> from) {
  if (from.empty()) return {};
  std::lock_guard lock(copying_);
  if (const Outcome made = prepare_halves(); made.failed()) return made;
  auto* target = static_cast<std::byte*>(to);
  while (!from.empty()) {
    if (halves_[filling_].used == half_bytes) {
      Half& full = halves_[filling_];
      if (const int code = d_.record(full.event, stream_); code != 0) return {code, "an event"};
      full.recorded = true;
      filling_ = 1 - filling_;
      Half& next = halves_[filling_];
      if (next.recorded)
        if (const int code = d_.wait_event(next.event); code != 0) return {code};
      next.used = 0;
      next.recorded = false;
    }
    // Small copies follow each other in one half: nobody waits for them.
    Half& half = halves_[filling_];
    const auto part = std::min(int64_t(from.size()), half_bytes - half.used);
    std::memcpy(half.memory + half.used, from.data(), size_t(part));
    if (const int code = d_.to_device(target, half.memory + half.used, size_t(part), stream_); code != 0)
      return {code, "a copy to the device"};
    half.used = std::min(rounded_up(half.used + part, smallest), half_bytes);
    from = from.subspan(size_t(part));
    target += part;
  }
  return {};
}

GpuMemory::Outcome GpuMemory::copy_out(std::span<std::byte> to, const void* from) {
  if (to.empty()) return {d_.wait(stream_)};
  std::lock_guard lock(copying_);
  if (const Outcome made = prepare_halves(); made.failed()) return made;
  // What copy_in has put there leaves before: the stream is in order.
  const auto* source = static_cast<const std::byte*>(from);
  const auto all = int64_t(to.size());
  const auto part_at = [&](int64_t at) { return std::min(half_bytes, all - at); };
  const auto ask = [&](int64_t at) -> Outcome {
    const Half& half = halves_[size_t(at / half_bytes % 2)];
    if (const int code = d_.to_host(half.memory, source + at, size_t(part_at(at)), stream_); code != 0)
      return {code, "a copy from the device"};
    if (const int code = d_.record(half.event, stream_); code != 0) return {code, "an event"};
    return {};
  };
  Outcome done = ask(0);
  for (int64_t at = 0; at < all && !done.failed(); at += half_bytes) {
    if (at + half_bytes < all) done = ask(at + half_bytes);
    if (done.failed()) break;
    const Half& half = halves_[size_t(at / half_bytes % 2)];
    done.code = d_.wait_event(half.event);
    if (!done.failed()) std::memcpy(to.data() + at, half.memory, size_t(part_at(at)));
  }
  if (!done.failed()) forget_copies();
  return done;
}

/// All that was asked for is done.
void GpuMemory::forget_copies() {
  for (Half& half : halves_) half.used = 0, half.recorded = false;
  filling_ = 0;
}

GpuMemory::Outcome GpuMemory::copy(void* to, const void* from, int64_t bytes) {
  if (bytes <= 0 || to == from) return {};
  return {d_.copy(to, from, size_t(bytes), stream_), "a copy inside of the device"};
}

GpuMemory::Outcome GpuMemory::zero(void* to, int64_t bytes) {
  if (bytes <= 0) return {};
  return {d_.fill(to, 0, size_t(bytes), stream_), "zeros"};
}

} // namespace luminal::device::gpu
