// egraph/table.h -- the rows of one operator: row-major u32 cells, hash-cons, indexes by column,
// and what is known per run of rows.
#pragma once
#include "egraph/hash_cons.h"
#include "egraph/index.h"
#include "egraph/types.h"
#include <algorithm>

namespace luminal::egraph {

/// Rows are appended only. A dead row has `absent` in its output cell; changing a row means killing
/// it and appending the new one, so that the row id is the time and a delta is a range of rows.
class Table {
public:
  Table(uint32_t keys, std::vector<uint8_t> eq_cols, std::vector<uint8_t> container_cols)
      : keys_(keys), stride_(keys + 1), eq_cols_(std::move(eq_cols)),
        container_cols_(std::move(container_cols)), indexes_(keys + 1) {}

  uint32_t keys() const { return keys_; }
  uint32_t stride() const { return stride_; }
  RowId rows() const { return rows_; } ///< dead ones included
  uint32_t live() const { return rows_ - dead_; }
  uint32_t dead() const { return dead_; }
  const Value* row(RowId row) const { return cells_.data() + static_cast<size_t>(row) * stride_; }
  bool is_dead(RowId row) const { return cells_[static_cast<size_t>(row) * stride_ + keys_] == absent; }
  Value out(RowId row) const { return cells_[static_cast<size_t>(row) * stride_ + keys_]; }
  /// 1 for columns of eq-sorts / container sorts, the output included.
  const std::vector<uint8_t>& eq_cols() const { return eq_cols_; }
  const std::vector<uint8_t>& container_cols() const { return container_cols_; }

  uint32_t hash(const Value* key) const { return hash_key(key, keys_); }
  RowId find(const Value* key, uint32_t hash) const {
    return hash_cons_.find(hash,
                           [&](RowId candidate) { return std::equal(key, key + keys_, row(candidate)); });
  }
  RowId find(const Value* key) const { return find(key, hash(key)); }
  void prefetch(uint32_t hash) const { hash_cons_.prefetch(hash); }
  /// Asks for the cells of the row that find() would compare first.
  void prefetch_row(uint32_t hash) const {
    const RowId candidate = hash_cons_.find(hash, [](RowId) { return true; });
    if (candidate != absent) __builtin_prefetch(row(candidate));
  }
  const HashCons& hash_cons() const { return hash_cons_; }

  /// Appends a live row whose key is not in the table.
  RowId append(const Value* key, Value out, uint32_t hash, RuleId creator, uint32_t epoch) {
    const RowId row = rows_++;
    Value* cells = cells_.extend(stride_);
    std::copy(key, key + keys_, cells);
    cells[keys_] = out;
    hash_cons_.insert(hash, row);
    if (creators_.empty() || creators_.back().rule != creator) creators_.push_back({row, creator});
    if (epochs_.empty() || epochs_.back().epoch != epoch) epochs_.push_back({row, epoch});
    return row;
  }
  /// The row keeps its cells but for the output.
  void kill(RowId row) {
    hash_cons_.erase(hash(this->row(row)), row);
    cells_[static_cast<size_t>(row) * stride_ + keys_] = absent;
    ++dead_;
    if (is_subsumed(row)) --subsumed_;
  }
  /// Undoes kill() while the row is not in the hash-cons: restore_hash_cons() must follow.
  void revive(RowId row, Value out) {
    cells_[static_cast<size_t>(row) * stride_ + keys_] = out;
    --dead_;
    if (is_subsumed(row)) ++subsumed_;
  }
  void truncate(RowId rows);
  void clear(); ///< keeps the memory
  void restore_hash_cons();

  bool any_subsumed() const { return subsumed_ != 0; }
  bool is_subsumed(RowId row) const {
    return row < subsumed_bits_.size() * 64 && (subsumed_bits_[row / 64] >> (row % 64) & 1) != 0;
  }
  void mark_subsumed(RowId row);

  /// The first row of this epoch or a later one.
  RowId first_row(uint32_t epoch) const {
    if (epochs_.empty() || epochs_.back().epoch < epoch) return rows_;
    auto at = std::lower_bound(epochs_.begin(), epochs_.end(), epoch,
                               [](const EpochStart& start, uint32_t e) { return start.epoch < e; });
    return at == epochs_.end() ? rows_ : at->row;
  }
  RuleId creator(RowId row) const;

  Index& index(uint32_t col) { return indexes_[col]; }
  const Index& index(uint32_t col) const { return indexes_[col]; }
  /// Puts the live rows that are not there yet into the wanted indexes.
  void extend_indexes();
  RowId recorded = 0; ///< rows below are in the records of classes (Classes::record_*)

  /// What is known of a column, from an evenly spread sample of the live rows; kept until the table
  /// has doubled.
  struct Statistics {
    double distinct = 1;             ///< values, about
    Buffer<Value> sample;            ///< sorted
    uint32_t live = 0;               ///< of the table when it was sampled
    uint32_t version = 0;            ///< counts the samples
    double share(Value value) const; ///< of the sampled rows
  };
  const Statistics& statistics(uint32_t col);

  /// Drops the dead rows, keeping the order. `remap[old row]` is the new row or absent.
  void compact(Buffer<RowId>& remap);

  struct EpochStart {
    RowId row;
    uint32_t epoch;
  };
  struct CreatorStart {
    RowId row;
    RuleId rule;
  };
  void restore(Buffer<Value> cells, Buffer<uint64_t> subsumed_bits, Buffer<EpochStart> epochs,
               Buffer<CreatorStart> creators);
  const Buffer<Value>& cells() const { return cells_; }
  const Buffer<uint64_t>& subsumed_bits() const { return subsumed_bits_; }
  const Buffer<EpochStart>& epochs() const { return epochs_; }
  const Buffer<CreatorStart>& creators() const { return creators_; }

  uint64_t bytes() const;

private:
  uint32_t keys_, stride_;
  RowId rows_ = 0, dead_ = 0, subsumed_ = 0;
  Buffer<Value> cells_;
  HashCons hash_cons_;
  std::vector<uint8_t> eq_cols_, container_cols_;
  std::vector<Index> indexes_;
  Buffer<uint64_t> subsumed_bits_;
  Buffer<EpochStart> epochs_;
  Buffer<CreatorStart> creators_; // runs of rows made by one rule
  std::vector<Statistics> statistics_;
};

} // namespace luminal::egraph
