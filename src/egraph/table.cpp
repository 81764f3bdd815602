// egraph/table.cpp -- the operations of a table that are not on the hot path: indexes, truncation,
// compaction, estimates.
#include "egraph/table.h"
#include <cmath>

namespace luminal::egraph {

void Table::mark_subsumed(RowId row) {
  if (is_subsumed(row)) return;
  if (subsumed_bits_.size() * 64 <= row) subsumed_bits_.resize(row / 64 + 1, 0);
  subsumed_bits_[row / 64] |= uint64_t{1} << (row % 64);
  if (!is_dead(row)) ++subsumed_;
}

void Table::truncate(RowId rows) {
  for (RowId row = rows; row < rows_; ++row) {
    if (is_dead(row)) --dead_;
    if (is_subsumed(row)) {
      if (!is_dead(row)) --subsumed_;
      subsumed_bits_[row / 64] &= ~(uint64_t{1} << (row % 64));
    }
  }
  rows_ = rows;
  cells_.truncate(static_cast<size_t>(rows) * stride_);
  while (!epochs_.empty() && epochs_.back().row >= rows) epochs_.truncate(epochs_.size() - 1);
  while (!creators_.empty() && creators_.back().row >= rows) creators_.truncate(creators_.size() - 1);
  for (Index& index : indexes_)
    if (index.upto > rows) index.clear();
  recorded = std::min(recorded, rows);
}

void Table::clear() {
  if (rows_ == 0) return;
  rows_ = dead_ = subsumed_ = recorded = 0;
  cells_.clear();
  hash_cons_.erase_all();
  subsumed_bits_.clear();
  epochs_.clear();
  creators_.clear();
  for (Index& index : indexes_) index.erase_all();
}

void Table::restore_hash_cons() {
  hash_cons_.clear();
  hash_cons_.reserve(live());
  for (RowId row = 0; row < rows_; ++row)
    if (!is_dead(row)) hash_cons_.insert(hash(this->row(row)), row);
}

RuleId Table::creator(RowId row) const {
  auto at = std::upper_bound(creators_.begin(), creators_.end(), row,
                             [](RowId r, const CreatorStart& start) { return r < start.row; });
  return at == creators_.begin() ? absent : (at - 1)->rule;
}

void Table::extend_indexes() {
  for (uint32_t col = 0; col < stride_; ++col) {
    Index& index = indexes_[col];
    if (!index.wanted || index.upto == rows_) continue;
    index.reserve_rows(rows_);
    const Value* cell = row(index.upto);
    for (RowId row = index.upto; row < rows_; ++row, cell += stride_)
      if (cell[keys_] != absent) index.add(cell[col], row);
    index.upto = rows_;
  }
}

const Table::Statistics& Table::statistics(uint32_t col) {
  if (statistics_.empty()) statistics_.resize(stride_);
  Statistics& known = statistics_[col];
  if (known.live != 0 && live() <= 2 * known.live && 2 * live() >= known.live) return known;
  constexpr uint32_t sample_size = 512;
  Buffer<Value>& sample = known.sample;
  sample.clear();
  const RowId step = std::max<RowId>(1, rows_ / sample_size);
  for (RowId row = 0; row < rows_ && sample.size() < sample_size; row += step)
    if (!is_dead(row)) sample.push_back(this->row(row)[col]);
  std::sort(sample.begin(), sample.end());
  // Values met once in the sample scale with the table, values met often do not (the estimator of
  // Charikar et al.).
  double once = 0, more = 0;
  for (size_t i = 0; i < sample.size();) {
    size_t end = i;
    while (end < sample.size() && sample[end] == sample[i]) ++end;
    (end == i + 1 ? once : more) += 1;
    i = end;
  }
  const double scale =
      std::sqrt(std::max(1.0, live() / std::max<double>(1, static_cast<double>(sample.size()))));
  known.distinct = std::max(1.0, std::min<double>(live(), once * scale + more));
  known.live = live();
  ++known.version;
  return known;
}

double Table::Statistics::share(Value value) const {
  if (sample.empty()) return 0;
  const auto [first, last] = std::equal_range(sample.begin(), sample.end(), value);
  return static_cast<double>(last - first) / static_cast<double>(sample.size());
}

void Table::compact(Buffer<RowId>& remap) {
  remap.clear();
  remap.resize(rows_, absent);
  const Buffer<CreatorStart> creators = std::move(creators_);
  const Buffer<EpochStart> epochs = std::move(epochs_);
  const Buffer<uint64_t> bits = std::move(subsumed_bits_);
  creators_ = {};
  epochs_ = {};
  subsumed_bits_ = {};
  subsumed_ = 0;
  RowId to = 0;
  size_t creator = 0, epoch = 0;
  const RowId old_rows = rows_;
  for (RowId row = 0; row < old_rows; ++row) {
    while (creator + 1 < creators.size() && creators[creator + 1].row <= row) ++creator;
    while (epoch + 1 < epochs.size() && epochs[epoch + 1].row <= row) ++epoch;
    if (is_dead(row)) continue;
    if (creators_.empty() || creators_.back().rule != creators[creator].rule)
      creators_.push_back({to, creators[creator].rule});
    if (epochs_.empty() || epochs_.back().epoch != epochs[epoch].epoch)
      epochs_.push_back({to, epochs[epoch].epoch});
    std::copy_n(this->row(row), stride_, cells_.data() + static_cast<size_t>(to) * stride_);
    remap[row] = to++;
  }
  rows_ = to;
  dead_ = 0;
  cells_.truncate(static_cast<size_t>(to) * stride_);
  cells_.release(cells_.size());
  for (RowId row = 0; row < old_rows; ++row)
    if (remap[row] != absent && row < bits.size() * 64 && (bits[row / 64] >> (row % 64) & 1) != 0)
      mark_subsumed(remap[row]);
  restore_hash_cons();
  for (Index& index : indexes_) index.clear();
  const RowId old_recorded = recorded;
  recorded = 0;
  for (RowId row = 0; row < old_recorded; ++row)
    if (remap[row] != absent) recorded = remap[row] + 1;
}

void Table::restore(Buffer<Value> cells, Buffer<uint64_t> subsumed_bits, Buffer<EpochStart> epochs,
                    Buffer<CreatorStart> creators) {
  cells_ = std::move(cells);
  subsumed_bits_ = std::move(subsumed_bits);
  epochs_ = std::move(epochs);
  creators_ = std::move(creators);
  rows_ = static_cast<RowId>(cells_.size() / stride_);
  dead_ = subsumed_ = recorded = 0;
  for (RowId row = 0; row < rows_; ++row) {
    if (is_dead(row))
      ++dead_;
    else if (is_subsumed(row))
      ++subsumed_;
  }
  for (Index& index : indexes_) index.clear();
  statistics_.clear();
  restore_hash_cons();
}

uint64_t Table::bytes() const {
  uint64_t total = cells_.bytes() + hash_cons_.bytes() + subsumed_bits_.bytes() + epochs_.bytes() +
                   creators_.bytes() + statistics_.capacity() * sizeof(Statistics) +
                   indexes_.capacity() * sizeof(Index);
  for (const Index& index : indexes_) total += index.bytes();
  for (const Statistics& known : statistics_) total += known.sample.bytes();
  return total;
}

} // namespace luminal::egraph
