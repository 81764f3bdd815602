// runtime/store.cpp -- memory that outlives a step.
#include "runtime/store.h"
#include "base/log.h"
#include "base/pages.h"
#include <fmt/format.h>

namespace luminal::runtime {
namespace {

/// Copies to the device; pages of a mapped file are in memory beside the copy for a few bytes only.
luminal::Result<void> upload(device::Device& device, std::byte* to, std::span<const std::byte> from) {
  if (!is_mapped_file(from)) return device.copy_in(to, from);
  constexpr size_t piece = 8 << 20;
  for (size_t at = 0; at < from.size(); at += piece) {
    const auto part = from.subspan(at, std::min(piece, from.size() - at));
    if (auto done = device.copy_in(to + at, part); !done) return done;
    drop_pages(part);
  }
  return {};
}

} // namespace

bool in_huge_pages(int64_t bytes) {
  constexpr int64_t page = 2 << 20, large = 4 << 20;
  const int64_t left_over = (page - bytes % page) % page;
  return bytes >= large || (bytes >= page && left_over * 8 <= bytes);
}

bool on_device_only(const device::Device& device, std::span<const std::byte> bytes) {
  return !device.limits().host_visible && !bytes.empty() && device.holds(bytes.data());
}

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

bool DeviceBuffer::serves(const device::Device& device) const {
  if (!device_) return false;
  return device_ == &device || (device.limits().reads_host && device_->limits().host_visible);
}

void DeviceBuffer::clear() {
  if (device_) device_->decommit(memory_, 0, memory_.bytes);
}

void DeviceBuffer::clear(int64_t offset, int64_t bytes) {
  if (device_) device_->decommit(memory_, offset, bytes);
}

void Store::borrow_weight(const std::string& name, std::span<const std::byte> bytes,
                          std::shared_ptr<const void> owner) {
  Weight weight;
  weight.bytes = bytes;
  weight.owner = std::move(owner);
  weights_.insert_or_assign(name, std::move(weight));
}

luminal::Result<void> Store::copy_weight(const std::string& name, std::span<const std::byte> bytes) {
  auto copy = DeviceBuffer::allocate(device_, int64_t(bytes.size()), in_huge_pages(int64_t(bytes.size())));
  if (!copy) return copy.failure();
  if (auto done = upload(device_, copy->data(), bytes); !done) return done;
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

luminal::Result<const std::byte*> Store::weight_on_device(const std::string& name) {
  const std::span<const std::byte> bytes = weight(name);
  if (device_.limits().reads_host || bytes.empty() || device_.holds(bytes.data())) return bytes.data();
  Weight& held = weights_.at(name);
  if (!held.copy.data()) {
    auto copy = DeviceBuffer::allocate(device_, int64_t(bytes.size()), in_huge_pages(int64_t(bytes.size())));
    if (!copy) return copy.failure();
    if (auto done = upload(device_, copy->data(), bytes); !done) return done.failure();
    held.copy = std::move(*copy);
  }
  return static_cast<const std::byte*>(held.copy.data());
}

luminal::Result<std::byte*> Store::state(const std::string& name, int64_t bytes) {
  auto& buffer = states_[name];
  if (buffer.bytes() < bytes) {
    if (buffer.data())
      return Failure{fmt::format("state {} is held with {} bytes, another plan asks for {}", name,
                                 buffer.bytes(), bytes)};
    auto made = DeviceBuffer::allocate(device_, bytes, in_huge_pages(bytes));
    if (!made) return made.failure();
    buffer = std::move(*made);
  }
  return buffer.data();
}

DeviceBuffer Store::exchange_state(const std::string& name, DeviceBuffer buffer) {
  state_version_++;
  DeviceBuffer old = std::move(states_[name]);
  if (buffer.data())
    states_[name] = std::move(buffer);
  else
    states_.erase(name);
  return old;
}

void Store::reset_states() {
  for (auto& [_, buffer] : states_) buffer.clear();
}

void Store::place(uint64_t key, std::span<std::byte> memory) {
  loaded_[key] = {memory, load_file_ && read_file(key, memory)};
}

bool Store::read_file(uint64_t key, std::span<std::byte> memory) {
  if (!on_device_only(device_, memory)) return load_file_->read(key, memory);
  std::vector<std::byte> value(memory.size());
  return load_file_->read(key, value) && device_.copy_in(memory.data(), value).ok();
}

luminal::Result<void> Store::reserve_loaded(const std::map<uint64_t, int64_t>& sizes) {
  const auto room = [](int64_t bytes) { return (bytes + 63) / 64 * 64; };
  int64_t all = 0;
  for (auto& [key, bytes] : sizes)
    if (!loaded_.contains(key)) all += room(bytes);
  if (!in_huge_pages(all)) return {};
  auto block = DeviceBuffer::allocate(device_, all, true);
  if (!block) return block.failure();
  std::byte* next = block->data();
  for (auto& [key, bytes] : sizes)
    if (!loaded_.contains(key)) {
      place(key, {next, size_t(bytes)});
      next += room(bytes);
    }
  blocks_.push_back(std::move(*block));
  return {};
}

luminal::Result<std::byte*> Store::loaded(uint64_t key, int64_t bytes) {
  if (!loaded_.contains(key)) {
    auto made = DeviceBuffer::allocate(device_, bytes, in_huge_pages(bytes));
    if (!made) return made.failure();
    place(key, {made->data(), size_t(bytes)});
    blocks_.push_back(std::move(*made));
  }
  return loaded_.at(key).memory.data();
}

void Store::finish_load(const std::vector<uint64_t>& keys, double seconds) {
  for (uint64_t key : keys) loaded_.at(key).ready = true;
  if (load_path_.empty() || seconds < worth_seconds_) return;
  double bytes = 0; // of what was computed now
  for (uint64_t key : keys) bytes += double(loaded_.at(key).memory.size());
  // Copies in another order come about as fast as a disk gives them back, and writing gigabytes
  // takes far longer.
  constexpr double disk_bytes_per_second = 3e8;
  if (worth_seconds_ > 0 && seconds * disk_bytes_per_second < bytes) return;
  LoadFile::Values values = load_file_ ? load_file_->values() : LoadFile::Values{};
  std::vector<std::vector<std::byte>> copies; // of what lies on the device
  for (auto& [key, value] : loaded_) {
    if (!value.ready) continue;
    values[key] = value.memory;
    if (!on_device_only(device_, value.memory)) continue;
    std::vector<std::byte>& copy = copies.emplace_back(value.memory.size());
    if (!device_.copy_out(copy, value.memory.data())) return;
    values[key] = copy;
  }
  if (auto written = LoadFile::write(load_path_, load_source_, values); !written)
    log_info("what was computed at load is not kept: {}", written.error());
}

luminal::Result<void> Store::keep_loaded_in(std::string path, uint64_t source, double worth_seconds) {
  load_path_ = std::move(path);
  load_source_ = source;
  worth_seconds_ = worth_seconds;
  auto file = LoadFile::open(load_path_, source);
  if (!file) return file.failure();
  load_file_ = std::move(*file);
  return {};
}

void Store::unload() {
  loaded_.clear();
  blocks_.clear();
  load_file_.reset();
  load_path_.clear();
}

int64_t Store::owned_bytes() const {
  int64_t total = 0;
  for (auto& [_, weight] : weights_) total += weight.copy.bytes();
  for (auto& [_, buffer] : states_) total += buffer.bytes();
  for (auto& block : blocks_) total += block.bytes();
  return total;
}

} // namespace luminal::runtime
