// egraph/index.h -- value of a column -> rows that hold it: a hash of heads and a chain through the
// rows, newest row first.
#pragma once
#include "egraph/slots.h"
#include "egraph/types.h"

namespace luminal::egraph {

/// Persistent and incremental: extended with new rows when matching begins, never built inside a
/// join. Exists for the columns that plans ask for. Dead rows stay in the chains; readers test rows
/// anyway.
class Index {
public:
  bool wanted = false;
  RowId upto = 0; ///< rows below are in the index

  RowId head(Value key) const {
    if (!heads_.any()) return absent;
    const uint32_t hash = hash_of(key);
    const uint64_t slot = heads_[heads_.lower_bound(hash)];
    return SortedSlots::hash_of(slot) == hash ? SortedSlots::row_of(slot)
                                              : absent; // an empty slot holds `absent`
  }
  RowId next(RowId row) const { return next_[row]; }
  size_t keys() const { return heads_.size(); } ///< distinct values, those of dead rows included

  /// Rows between the last one and this are skipped (dead).
  void add(Value key, RowId row) {
    next_.resize(row + 1, absent);
    const uint32_t hash = hash_of(key);
    if (heads_.any()) {
      const size_t at = heads_.lower_bound(hash);
      if (SortedSlots::hash_of(heads_[at]) == hash && heads_[at] != SortedSlots::empty_slot) {
        next_[row] = SortedSlots::row_of(heads_[at]);
        heads_.set_row(at, row);
        return;
      }
    }
    heads_.insert(hash, row);
  }
  void reserve_rows(size_t rows) { next_.reserve(rows); }
  void clear() {
    heads_.clear();
    next_.release();
    upto = 0;
  }
  void erase_all() { ///< keeps the memory
    heads_.erase_all();
    next_.clear();
    upto = 0;
  }
  uint64_t bytes() const { return heads_.bytes() + next_.bytes(); }

private:
  static uint32_t hash_of(Value key) { return key * 0x9E3779B1u; } // one to one: the key need not be stored

  SortedSlots heads_;
  Buffer<RowId> next_;
};

} // namespace luminal::egraph
