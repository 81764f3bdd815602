// ir/id_table.h -- ids of one kind under hashes, several under one: open addressing in one block of
// memory.
#pragma once
#include "base/id.h"
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace luminal {

template <class IdType> class IdTable {
public:
  /// The first id under this hash, in the order of `add`, for which same(id) holds.
  template <class Same> std::optional<IdType> find(uint64_t hash, Same same) const {
    if (slots_.empty()) return {};
    for (size_t at = hash & (slots_.size() - 1); slots_[at].id; at = (at + 1) & (slots_.size() - 1))
      if (slots_[at].hash == hash && same(slots_[at].id)) return slots_[at].id;
    return {};
  }
  void add(uint64_t hash, IdType id) {
    if (2 * (used_ + 1) > slots_.size()) grow();
    place({hash, id});
    used_++;
  }
  void clear() {
    slots_.clear();
    used_ = 0;
  }

private:
  struct Slot {
    uint64_t hash = 0;
    IdType id; // none: free
  };
  void place(Slot slot) {
    size_t at = slot.hash & (slots_.size() - 1);
    while (slots_[at].id) at = (at + 1) & (slots_.size() - 1);
    slots_[at] = slot;
  }
  void grow() {
    // Ids under one hash keep their order: old slots are read from the begin of a run of full ones.
    std::vector<Slot> old = std::move(slots_);
    slots_.assign(old.empty() ? 64 : 2 * old.size(), Slot());
    size_t begin = 0;
    while (begin < old.size() && old[begin].id) begin++;
    for (size_t i = 0; i < old.size(); i++)
      if (const Slot& slot = old[(begin + i) & (old.size() - 1)]; slot.id) place(slot);
  }
  std::vector<Slot> slots_; // a power of two, at most half of them full
  size_t used_ = 0;
};

} // namespace luminal
