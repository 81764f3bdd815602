// egraph/hash_cons.h -- key of a row -> row: open addressing with 8-byte slots (32 bits of hash, row), ordered by hash.
#pragma once
#include "egraph/buffer.h"
#include "egraph/types.h"

namespace luminal::egraph {

/// 32 bits of hash of `count` words.
inline uint32_t hash_key(const Value* key, uint32_t count) {
  uint64_t hash = 0x243F6A8885A308D3u + count;
  uint32_t i = 0;
  for (; i + 2 <= count; i += 2) {
    hash = (hash ^ (key[i] | static_cast<uint64_t>(key[i + 1]) << 32)) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 32;
  }
  if (i < count) {
    hash = (hash ^ key[i]) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 32;
  }
  return static_cast<uint32_t>((hash * 0xD6E8FEB86659FD93u) >> 32);
}

/// The place of a slot follows from the top bits of its hash alone, so the slots are nearly sorted by hash: growing is one pass over old
/// and new slots in order, which reads no row. Deleting shifts slots back, so there are no tombstones.
class HashCons {
public:
  /// The row whose hash is `hash` and for which same(row) holds, or absent.
  template <class Same> RowId find(uint32_t hash, const Same& same) const {
    if (capacity_ == 0) return absent;
    for (size_t i = place(hash);; ++i) {
      const uint64_t slot = slots_[i];
      if (slot == empty_slot) return absent;
      if (static_cast<uint32_t>(slot >> 32) == hash && same(static_cast<RowId>(slot)))
        return static_cast<RowId>(slot);
    }
  }
  void prefetch(uint32_t hash) const {
    if (capacity_ != 0) __builtin_prefetch(&slots_[place(hash)]);
  }
  /// `row` has no slot yet.
  void insert(uint32_t hash, RowId row) {
    if ((count_ + 1) * 5 > capacity_ * 4) grow(capacity_ + capacity_ / 2 + 16);
    while (!put(slots_, capacity_, static_cast<uint64_t>(hash) << 32 | row)) grow(capacity_ + capacity_ / 2);
    ++count_;
  }
  void replace(uint32_t hash, RowId old_row, RowId new_row) {
    slots_[slot_of(hash, old_row)] = static_cast<uint64_t>(hash) << 32 | new_row;
  }
  void erase(uint32_t hash, RowId row) {
    size_t hole = slot_of(hash, row);
    for (size_t i = hole + 1; slots_[i] != empty_slot; ++i)
      if (place(static_cast<uint32_t>(slots_[i] >> 32)) <= hole) {
        slots_[hole] = slots_[i];
        hole = i;
      }
    slots_[hole] = empty_slot;
    --count_;
  }
  void reserve(size_t count) {
    if (count * 5 > capacity_ * 4) grow(count * 5 / 4 + 16);
  }
  void clear() {
    slots_.release();
    capacity_ = count_ = 0;
  }
  uint64_t bytes() const { return slots_.bytes(); }

private:
  static constexpr uint64_t empty_slot = ~uint64_t{0};
  static constexpr size_t margin = 32; // slots behind the last place; one stays empty

  static size_t place_in(uint32_t hash, size_t capacity) {
    return (static_cast<uint64_t>(hash) * capacity) >> 32;
  }
  size_t place(uint32_t hash) const { return place_in(hash, capacity_); }
  size_t slot_of(uint32_t hash, RowId row) const {
    const uint64_t wanted = static_cast<uint64_t>(hash) << 32 | row;
    size_t i = place(hash);
    while (slots_[i] != wanted) ++i;
    return i;
  }
  static bool put(Buffer<uint64_t>& slots, size_t capacity, uint64_t slot) {
    size_t i = place_in(static_cast<uint32_t>(slot >> 32), capacity);
    while (slots[i] != empty_slot) ++i;
    if (i + 1 >= slots.size()) return false; // the margin is full
    slots[i] = slot;
    return true;
  }
  void grow(size_t capacity) {
    for (bool done = false; !done; capacity += capacity / 2) {
      Buffer<uint64_t> bigger;
      bigger.reserve(capacity + margin);
      bigger.resize(capacity + margin, empty_slot);
      done = true;
      for (const uint64_t slot : slots_)
        if (slot != empty_slot && !put(bigger, capacity, slot)) {
          done = false;
          break;
        }
      if (done) {
        slots_ = std::move(bigger);
        capacity_ = capacity;
      }
    }
  }

  Buffer<uint64_t> slots_;
  size_t capacity_ = 0, count_ = 0;
};

} // namespace luminal::egraph
