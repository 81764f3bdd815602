// tests/runtime/arena_test.cpp -- slots alive at the same time never overlap.
#include "runtime/arena.h"
#include <gtest/gtest.h>
#include <random>

namespace luminal::runtime {
namespace {

Slot arena_slot(int64_t bytes, bool pinned) {
  Slot slot;
  slot.name = "s";
  slot.max_bytes = bytes;
  slot.pinned = pinned;
  return slot;
}

Step touching(std::vector<SlotId> slots) { return Launch{CodeId(0), std::move(slots)}; }

TEST(Arena, RandomPlansNeverOverlap) {
  for (unsigned seed = 0; seed < 300; seed++) {
    std::mt19937 random(seed);
    auto below = [&](int n) { return int(random() % unsigned(n)); };
    const auto any = [&](int count) { return SlotId(below(count)); };
    IdVector<SlotId, Slot> slots;
    int count = 1 + below(20);
    for (int i = 0; i < count; i++) slots.push_back(arena_slot(below(5000), below(8) == 0));
    Steps steps;
    for (int i = 0; i < 30; i++) {
      std::vector<SlotId> used;
      for (int k = 0; k < 1 + below(4); k++) used.push_back(any(count));
      Loop loop{.body = {touching({any(count)}), touching({any(count)})}, .test = {touching(used)}};
      if (below(2) == 0) loop.condition = any(count), loop.taken = any(count);
      if (below(6) == 0)
        steps.push_back(loop);
      else
        steps.push_back(touching(used));
    }
    int64_t size = place_in_arena(steps, slots);

    // Brute force: which slots each step names; a life is everything between the first and the
    // last.
    IdVector<SlotId, int> first(slots.size(), -1), last(slots.size(), -1);
    for (size_t at = 0; at < steps.size(); at++) {
      std::vector<SlotId> used;
      for_each_step({steps[at]}, [&](const Step& step) {
        if (const Launch* launch = step.as<Launch>())
          used.insert(used.end(), launch->slots.begin(), launch->slots.end());
        if (const Loop* loop = step.as<Loop>(); loop && loop->condition)
          used.insert(used.end(), {loop->condition, loop->taken});
      });
      for (const SlotId s : used) {
        if (first[s] < 0) first[s] = int(at);
        last[s] = int(at);
      }
    }
    for (const SlotId a : slots.ids()) {
      if (first[a] < 0) {
        EXPECT_EQ(slots[a].offset, -1);
        continue;
      }
      EXPECT_EQ(slots[a].offset % 64, 0);
      EXPECT_LE(slots[a].offset + slots[a].max_bytes, size);
      for (SlotId b(0); b < a; b++) {
        if (first[b] < 0) continue;
        bool together = slots[a].pinned || slots[b].pinned || (first[a] <= last[b] && first[b] <= last[a]);
        bool apart = slots[a].offset + slots[a].max_bytes <= slots[b].offset ||
                     slots[b].offset + slots[b].max_bytes <= slots[a].offset;
        bool empty = slots[a].max_bytes == 0 || slots[b].max_bytes == 0;
        EXPECT_TRUE(!together || apart || empty)
            << "seed " << seed << " slots " << a.number() << " " << b.number();
      }
    }
  }
}

TEST(Arena, MemoryIsUsedAgain) {
  IdVector<SlotId, Slot> slots;
  Steps steps;
  for (int i = 0; i < 10; i++) slots.push_back(arena_slot(1000, false));
  for (SlotId i(0); i < SlotId(9); i++) steps.push_back(touching({i, i + 1}));
  EXPECT_LE(place_in_arena(steps, slots), 2 * 1024 + 64);
}

} // namespace
} // namespace luminal::runtime
