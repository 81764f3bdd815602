// runtime/store.h -- what outlives a step: weights, states, values computed at load. Shared by
// plans and contexts.
#pragma once
#include "base/result.h"
#include "device/device.h"
#include "runtime/load_file.h"
#include "runtime/plan.h"
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace luminal::runtime {

/// Large pages read faster from memory (twice as fast where small ones lie scattered) and are handed out
/// faster, and they are rounded up: where that costs little.
bool in_huge_pages(int64_t bytes);

/// Memory on a device with one owner.
class DeviceBuffer {
public:
  DeviceBuffer() = default;
  static luminal::Result<DeviceBuffer> allocate(device::Device& device, int64_t bytes, bool huge_pages);
  DeviceBuffer(DeviceBuffer&& other) noexcept { swap(other); }
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    swap(other);
    return *this;
  }
  ~DeviceBuffer();
  std::byte* data() const { return static_cast<std::byte*>(memory_.data); } ///< address on the device
  int64_t bytes() const { return memory_.bytes; }
  bool serves(const device::Device& device) const; ///< can its launches use this memory?
  /// Reads as zero afterwards; its pages are given back.
  void clear();
  void clear(int64_t offset, int64_t bytes); ///< a part of it

private:
  void swap(DeviceBuffer& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(memory_, other.memory_);
  }
  device::Device* device_ = nullptr;
  device::Memory memory_;
};

/// Can only copies bring the bytes to the host?
bool on_device_only(const device::Device& device, std::span<const std::byte> bytes);

class Store {
public:
  explicit Store(device::Device& device) : device_(device) {}

  /// The caller's memory, in place; it may be memory of the device. `owner` keeps it alive as long as
  /// the store.
  void borrow_weight(const std::string& name, std::span<const std::byte> bytes,
                     std::shared_ptr<const void> owner);
  luminal::Result<void> copy_weight(const std::string& name, std::span<const std::byte> bytes);
  bool has_weight(const std::string& name) const { return weights_.contains(name); }
  /// As it was given; after copy_weight the copy, which may be memory of the device.
  std::span<const std::byte> weight(const std::string& name) const;
  /// Its address on the device, which gets a copy where it cannot read the caller's memory; null for
  /// a weight without bytes.
  luminal::Result<const std::byte*> weight_on_device(const std::string& name);

  /// The state's memory on the device, zero when it is made; its size is the largest that any plan asks
  /// for.
  luminal::Result<std::byte*> state(const std::string& name, int64_t bytes);
  void reset_states();
  bool has_state(const std::string& name) const { return states_.contains(name); }
  int64_t state_bytes(const std::string& name) const { return states_.at(name).bytes(); }
  /// The state's memory becomes `buffer`, without a copy; gives what it was. An empty buffer: the
  /// state is made anew, as zero, when it is next asked for.
  DeviceBuffer exchange_state(const std::string& name, DeviceBuffer buffer);
  /// Another number whenever a state's memory moved: whoever holds addresses asks for them again.
  uint64_t state_version() const { return state_version_; }

  // Values computed at load. One that is loaded never changes: contexts on other threads may be
  // reading it.
  luminal::Result<std::byte*> loaded(uint64_t key, int64_t bytes);
  /// Those of these (bytes by key) that are not there yet lie together, so that they fill large
  /// pages to the last one.
  luminal::Result<void> reserve_loaded(const std::map<uint64_t, int64_t>& sizes);
  bool is_loaded(uint64_t key) const { return loaded_.contains(key) && loaded_.at(key).ready; }
  /// These values are there now; computing them took so long.
  void finish_load(const std::vector<uint64_t>& keys, double seconds);
  /// What an earlier run on the same source computed is taken from this file where a plan asks for
  /// it; keeps there what takes longer than `worth_seconds` and than reading it from a disk (0:
  /// all). Failure: the file cannot be used (missing, damaged, of another source); it is then made
  /// anew. `source`: see LoadFile::open.
  luminal::Result<void> keep_loaded_in(std::string path, uint64_t source, double worth_seconds = 0.02);
  /// Forgets what was computed from weights: after a weight changed.
  void unload();
  int64_t owned_bytes() const;
  device::Device& device() const { return device_; }

private:
  struct Weight {
    std::span<const std::byte> bytes;
    std::shared_ptr<const void> owner;
    DeviceBuffer copy;
  };
  struct Loaded {
    std::span<std::byte> memory; // in blocks_
    bool ready = false;
  };
  /// The value lies there from now on. One from the file is copied: a mapped file has small pages,
  /// and every step would read them slower.
  void place(uint64_t key, std::span<std::byte> memory);
  bool read_file(uint64_t key, std::span<std::byte> memory);
  device::Device& device_;
  std::map<std::string, Weight> weights_;
  std::map<std::string, DeviceBuffer> states_;
  uint64_t state_version_ = 0;
  std::map<uint64_t, Loaded> loaded_;
  std::vector<DeviceBuffer> blocks_; // of loaded_
  std::optional<LoadFile> load_file_;
  std::string load_path_; // empty: loaded values are not kept
  uint64_t load_source_ = 0;
  double worth_seconds_ = 0;
};

} // namespace luminal::runtime
