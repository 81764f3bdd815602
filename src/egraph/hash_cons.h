// egraph/hash_cons.h -- key of a row -> row.
#pragma once
#include "egraph/slots.h"
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

class HashCons {
public:
  /// The row whose hash is `hash` and for which same(row) holds, or absent.
  template <class Same> RowId find(uint32_t hash, const Same& same) const {
    if (!slots_.any()) return absent;
    for (size_t i = slots_.lower_bound(hash);; ++i) {
      const uint64_t slot = slots_[i];
      if (SortedSlots::hash_of(slot) != hash || slot == SortedSlots::empty_slot) return absent;
      if (same(SortedSlots::row_of(slot))) return SortedSlots::row_of(slot);
    }
  }
  /// `row` has no slot yet.
  void insert(uint32_t hash, RowId row) { slots_.insert(hash, row); }
  void erase(uint32_t hash, RowId row) { slots_.erase(hash, row); }
  void prefetch(uint32_t hash) const { slots_.prefetch(hash); }
  void reserve(size_t count) { slots_.reserve(count); }
  void clear() { slots_.clear(); }
  void erase_all() { slots_.erase_all(); } ///< keeps the memory
  uint64_t bytes() const { return slots_.bytes(); }

private:
  SortedSlots slots_;
};

} // namespace luminal::egraph
