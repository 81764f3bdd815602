// egg/egg_values.h -- the built-in values of rule programs as numbers of the engine: integers,
// floats, containers.
#pragma once
#include "egraph/types.h"
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace luminal::egraph {

/// Gives equal values equal numbers. Strings are the symbols of the program's syntax, booleans 0
/// and 1, the unit 0. Copies of an e-graph share one pool: numbers are never taken back.
class ValuePool {
public:
  // Integers of 31 bits are part of their number, negative ones after the others; wider ones are
  // numbered as they come.
  Value integer(int64_t value);
  int64_t integer_of(Value value) const {
    if (value & wide) return wide_[value & ~wide];
    return value < small_limit ? static_cast<int64_t>(value) : small_limit - 1 - static_cast<int64_t>(value);
  }
  /// Zeros are one value, and so are NaNs.
  Value real(double value);
  double real_of(Value value) const { return reals_[value]; }

  /// Vectors as they are, sets and multisets sorted, maps as keys and values by key, pairs as two:
  /// by what they hold.
  Value sequence(std::span<const Value> items);
  std::span<const Value> sequence_of(Value value) const {
    const Range r = sequences_[value];
    return std::span(items_).subspan(r.first, r.count);
  }

  uint64_t bytes() const;

private:
  static constexpr Value wide = 0x80000000u;
  static constexpr int64_t small_limit = int64_t(1) << 30;
  struct Range {
    uint32_t first = 0, count = 0;
  };
  /// Open addressing over numbers of values; equality and hashes come from the caller.
  struct Index {
    std::vector<uint32_t> slots = std::vector<uint32_t>(64, 0);
    size_t used = 0;
    template <class Hash, class Equal> uint32_t& find(uint64_t hash, Hash&& hash_of, Equal&& equal);
  };

  std::vector<int64_t> wide_;
  std::vector<double> reals_;
  std::vector<Range> sequences_;
  std::vector<Value> items_;
  Index wide_index_, real_index_, sequence_index_;
};

} // namespace luminal::egraph
