// egg/egg_values.cpp -- interning of integers, floats and containers.
#include "egg/egg_values.h"
#include "base/hash.h"
#include "luminal/error.h"
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace luminal::egraph {

/// The slot of the value with this hash: 0 where it is new (the caller stores its number + 1), with
/// room for it.
template <class Hash, class Equal>
uint32_t& ValuePool::Index::find(uint64_t hash, Hash&& hash_of, Equal&& equal) {
  if ((used + 1) * 3 > slots.size() * 2) {
    std::vector<uint32_t> bigger(slots.size() * 2, 0);
    for (const uint32_t slot : slots) {
      if (slot == 0) continue;
      size_t at = hash_of(slot - 1) & (bigger.size() - 1);
      while (bigger[at] != 0) at = (at + 1) & (bigger.size() - 1);
      bigger[at] = slot;
    }
    slots = std::move(bigger);
  }
  size_t at = hash & (slots.size() - 1);
  while (slots[at] != 0 && !equal(slots[at] - 1)) at = (at + 1) & (slots.size() - 1);
  if (slots[at] == 0) ++used;
  return slots[at];
}

Value ValuePool::integer(int64_t value) {
  if (value >= 0 && value < small_limit) return static_cast<Value>(value);
  if (value < 0 && value >= -small_limit) return static_cast<Value>(small_limit - 1 - value);
  const auto hash_of = [](int64_t v) { return hash_mix(1, static_cast<uint64_t>(v)); };
  uint32_t& slot = wide_index_.find(
      hash_of(value), [&](uint32_t i) { return hash_of(wide_[i]); },
      [&](uint32_t i) { return wide_[i] == value; });
  if (slot == 0) {
    if (wide_.size() >= wide - 2) throw Error("more than 2^31 different wide integers");
    wide_.push_back(value);
    slot = static_cast<uint32_t>(wide_.size());
  }
  return wide | (slot - 1);
}

Value ValuePool::real(double value) {
  if (value == 0) value = 0;
  if (std::isnan(value)) value = std::numeric_limits<double>::quiet_NaN();
  const auto bits = [](double v) { return std::bit_cast<uint64_t>(v); };
  uint32_t& slot = real_index_.find(
      hash_mix(2, bits(value)), [&](uint32_t i) { return hash_mix(2, bits(reals_[i])); },
      [&](uint32_t i) { return bits(reals_[i]) == bits(value); });
  if (slot == 0) {
    reals_.push_back(value);
    slot = static_cast<uint32_t>(reals_.size());
  }
  return slot - 1;
}

Value ValuePool::sequence(std::span<const Value> items) {
  const auto hash_of = [](std::span<const Value> s) { return hash64(s.data(), s.size_bytes(), 3); };
  uint32_t& slot = sequence_index_.find(
      hash_of(items), [&](uint32_t i) { return hash_of(sequence_of(i)); },
      [&](uint32_t i) { return std::ranges::equal(sequence_of(i), items); });
  if (slot == 0) {
    if (items_.size() + items.size() > std::numeric_limits<uint32_t>::max())
      throw Error("the containers hold more than 2^32 items");
    sequences_.push_back({static_cast<uint32_t>(items_.size()), static_cast<uint32_t>(items.size())});
    items_.insert(items_.end(), items.begin(), items.end());
    slot = static_cast<uint32_t>(sequences_.size());
  }
  return slot - 1;
}

uint64_t ValuePool::bytes() const {
  return wide_.capacity() * 8 + reals_.capacity() * 8 + sequences_.capacity() * sizeof(Range) +
         items_.capacity() * 4 +
         (wide_index_.slots.capacity() + real_index_.slots.capacity() + sequence_index_.slots.capacity()) * 4;
}

} // namespace luminal::egraph
