// runtime/store.cpp -- memory that outlives a step.
#include "runtime/store.h"
#include <cstring>
#include <fmt/format.h>

namespace luminal::runtime {

luminal::Result<DeviceBuffer> DeviceBuffer::allocate(device::Device& device, int64_t bytes, bool huge_pages) {
  auto memory = device.allocate(std::max<int64_t>(bytes, 64),
                                {.alignment = 64, .huge_pages = huge_pages, .zero = true});
  if (!memory) return memory.failure();
  DeviceBuffer buffer;
  buffer.device_ = &device;
  buffer.memory_ = *memory;
  return buffer;
}

DeviceBuffer::~DeviceBuffer() {
  if (device_) device_->free(memory_);
}

void DeviceBuffer::clear() {
  if (device_) device_->decommit(memory_, 0, memory_.bytes);
}

void Store::borrow_weight(const std::string& name, std::span<const std::byte> bytes,
                          std::shared_ptr<const void> owner) {
  Weight weight;
  weight.bytes = bytes;
  weight.owner = std::move(owner);
  weights_.insert_or_assign(name, std::move(weight));
}

luminal::Result<void> Store::copy_weight(const std::string& name, std::span<const std::byte> bytes) {
  auto copy = DeviceBuffer::allocate(device_, int64_t(bytes.size()), bytes.size() >= (4 << 20));
  if (!copy) return copy.failure();
  std::memcpy(copy->data(), bytes.data(), bytes.size());
  Weight weight;
  weight.bytes = {copy->data(), bytes.size()};
  weight.copy = std::move(*copy);
  weights_.insert_or_assign(name, std::move(weight));
  return {};
}

std::span<const std::byte> Store::weight(const std::string& name) const {
  auto found = weights_.find(name);
  return found == weights_.end() ? std::span<const std::byte>{} : found->second.bytes;
}

luminal::Result<std::byte*> Store::state(const std::string& name, int64_t bytes) {
  auto& buffer = states_[name];
  if (buffer.bytes() < bytes) {
    if (buffer.data())
      return Failure{fmt::format("state {} is held with {} bytes, another plan asks for {}", name,
                                 buffer.bytes(), bytes)};
    auto made = DeviceBuffer::allocate(device_, bytes, bytes >= (4 << 20));
    if (!made) return made.failure();
    buffer = std::move(*made);
  }
  return buffer.data();
}

void Store::reset_states() {
  for (auto& [_, buffer] : states_) buffer.clear();
}

luminal::Result<std::byte*> Store::loaded(uint64_t key, int64_t bytes) {
  auto& entry = loaded_[key];
  if (!entry.buffer.data()) {
    auto made = DeviceBuffer::allocate(device_, bytes, bytes >= (4 << 20));
    if (!made) return made.failure();
    entry.buffer = std::move(*made);
  }
  return entry.buffer.data();
}

int64_t Store::owned_bytes() const {
  int64_t total = 0;
  for (auto& [_, weight] : weights_) total += weight.copy.bytes();
  for (auto& [_, buffer] : states_) total += buffer.bytes();
  for (auto& [_, loaded] : loaded_) total += loaded.buffer.bytes();
  return total;
}

} // namespace luminal::runtime
