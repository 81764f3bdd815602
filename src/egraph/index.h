// egraph/index.h -- value of a column -> rows that hold it: a hash of heads and a chain through the rows, newest row first.
#pragma once
#include "egraph/buffer.h"
#include "egraph/types.h"

namespace luminal::egraph {

/// Persistent and incremental: extended with new rows when matching begins, never built inside a join. Exists for the columns that
/// plans ask for. Dead rows stay in the chains; readers test rows anyway.
class Index {
public:
  bool wanted = false;
  RowId upto = 0; ///< rows below are in the index

  RowId head(Value key) const {
    if (capacity_ == 0) return absent;
    for (size_t i = place(key, capacity_);; ++i) {
      const uint64_t slot = slots_[i];
      if (slot == empty_slot) return absent;
      if (static_cast<Value>(slot >> 32) == key) return static_cast<RowId>(slot);
    }
  }
  RowId next(RowId row) const { return next_[row]; }
  size_t keys() const { return count_; } ///< distinct values, those of dead rows included

  /// Rows upto..row-1 are skipped (dead).
  void add(Value key, RowId row) {
    next_.resize(row + 1, absent);
    if ((count_ + 1) * 5 > capacity_ * 4) grow(capacity_ + capacity_ / 2 + 16);
    for (;;) {
      size_t i = place(key, capacity_);
      while (slots_[i] != empty_slot && static_cast<Value>(slots_[i] >> 32) != key) ++i;
      if (slots_[i] != empty_slot) {
        next_[row] = static_cast<RowId>(slots_[i]);
      } else {
        if (i + 1 >= slots_.size()) {
          grow(capacity_ + capacity_ / 2);
          continue;
        }
        ++count_;
      }
      slots_[i] = static_cast<uint64_t>(key) << 32 | row;
      return;
    }
  }
  void reserve_rows(size_t rows) { next_.reserve(rows); }
  void clear() {
    slots_.release();
    next_.release();
    capacity_ = count_ = 0;
    upto = 0;
  }
  uint64_t bytes() const { return slots_.bytes() + next_.bytes(); }

private:
  static constexpr uint64_t empty_slot = ~uint64_t{0};
  static constexpr size_t margin = 32;

  static size_t place(Value key, size_t capacity) {
    return (static_cast<uint64_t>(key * 0x9E3779B1u) * capacity) >> 32;
  }
  void grow(size_t capacity) {
    for (bool done = false; !done; capacity += capacity / 2) {
      Buffer<uint64_t> bigger;
      bigger.reserve(capacity + margin);
      bigger.resize(capacity + margin, empty_slot);
      done = true;
      for (const uint64_t slot : slots_) {
        if (slot == empty_slot) continue;
        size_t i = place(static_cast<Value>(slot >> 32), capacity);
        while (bigger[i] != empty_slot) ++i;
        if (i + 1 >= bigger.size()) {
          done = false;
          break;
        }
        bigger[i] = slot;
      }
      if (done) {
        slots_ = std::move(bigger);
        capacity_ = capacity;
      }
    }
  }

  Buffer<uint64_t> slots_; // value << 32 | newest row
  Buffer<RowId> next_;
  size_t capacity_ = 0, count_ = 0;
};

} // namespace luminal::egraph
