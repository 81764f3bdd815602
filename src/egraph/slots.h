// egraph/slots.h -- an open-addressing table of 8-byte slots (32 bits of hash, row) that stays
// sorted by hash.
#pragma once
#include "egraph/buffer.h"

namespace luminal::egraph {

/// The place of a slot follows from the top bits of its hash, and slots are kept in the order of
/// their hashes, so that a search ends at the first larger hash: about three slots at a load of
/// 0.8, found or not. Growing is one pass in order and reads no row; deleting shifts slots back and
/// leaves no tombstones.
class SortedSlots {
public:
  static constexpr uint64_t empty_slot = ~uint64_t{0};
  static uint64_t make(uint32_t hash, uint32_t row) { return static_cast<uint64_t>(hash) << 32 | row; }
  static uint32_t hash_of(uint64_t slot) { return static_cast<uint32_t>(slot >> 32); }
  static uint32_t row_of(uint64_t slot) { return static_cast<uint32_t>(slot); }

  bool empty() const { return count_ == 0; }
  size_t size() const { return count_; }
  uint64_t bytes() const { return slots_.bytes(); }
  void clear() {
    slots_.release();
    capacity_ = count_ = 0;
  }
  void erase_all() {
    if (count_ != 0) std::fill(slots_.begin(), slots_.end(), empty_slot);
    count_ = 0;
  }
  void reserve(size_t count) {
    if (count * 8 > capacity_ * 7) grow(count * 8 / 7 + 16);
  }

  /// The first slot whose hash is not smaller. Only where there are slots.
  size_t lower_bound(uint32_t hash) const {
    size_t i = place(hash, capacity_);
    while (hash_of(slots_[i]) < hash) ++i;
    return i;
  }
  bool any() const { return capacity_ != 0; }
  uint64_t operator[](size_t i) const { return slots_[i]; }
  void set_row(size_t i, uint32_t row) { slots_[i] = make(hash_of(slots_[i]), row); }
  void prefetch(uint32_t hash) const {
    if (capacity_ != 0) __builtin_prefetch(slots_.data() + place(hash, capacity_));
  }

  void insert(uint32_t hash, uint32_t row) {
    if ((count_ + 1) * 8 > capacity_ * 7) grow(grown(capacity_));
    uint64_t moving = make(hash, row);
    for (;;) {
      size_t i = lower_bound(hash), end = i;
      while (slots_[end] != empty_slot) ++end;
      if (end + 1 < slots_.size()) { // the last slot stays empty
        for (; i <= end; ++i) std::swap(moving, slots_[i]);
        ++count_;
        return;
      }
      grow(grown(capacity_));
    }
  }
  void erase(uint32_t hash, uint32_t row) {
    const uint64_t wanted = make(hash, row);
    size_t i = lower_bound(hash);
    while (slots_[i] != wanted) ++i;
    for (; slots_[i + 1] != empty_slot && place(hash_of(slots_[i + 1]), capacity_) <= i; ++i)
      slots_[i] = slots_[i + 1];
    slots_[i] = empty_slot;
    --count_;
  }

private:
  static constexpr size_t margin = 24; // slots behind the last place

  static size_t place(uint32_t hash, size_t capacity) {
    return (static_cast<uint64_t>(hash) * capacity) >> 32;
  }
  void grow(size_t capacity) {
    for (;; capacity = grown(capacity)) {
      Buffer<uint64_t> bigger;
      bigger.reserve(capacity + margin);
      bigger.resize(capacity + margin, empty_slot);
      size_t next = 0;
      bool fits = true;
      for (const uint64_t slot : slots_) {
        if (slot == empty_slot) continue;
        next = std::max(next, place(hash_of(slot), capacity));
        if (next + 1 >= bigger.size()) {
          fits = false;
          break;
        }
        bigger[next++] = slot;
      }
      if (!fits) continue;
      slots_ = std::move(bigger);
      capacity_ = capacity;
      return;
    }
  }

  Buffer<uint64_t> slots_;
  size_t capacity_ = 0, count_ = 0;
};

} // namespace luminal::egraph
