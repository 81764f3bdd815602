// runtime/place_present.cpp -- slots moved together, in the order in which the plan places them.
#include "runtime/place_present.h"
#include <algorithm>
#include <set>

namespace luminal::runtime {

bool places_at_present(const Plan& plan) {
  std::set<Expr, ExprLess> counters;
  for_each_step(plan.steps, [&](const Step& step) {
    if (const Loop* loop = step.as<Loop>()) counters.insert(loop->counter);
  });
  return std::ranges::all_of(plan.slots, [&](const Slot& slot) {
    return slot.kind != SlotKind::arena ||
           std::ranges::none_of(counters, [&](Expr counter) { return depends_on(slot.bytes, counter); });
  });
}

PresentPlaces present_places(const Plan& plan, const IdVector<SlotId, int64_t>& bytes) {
  std::set<SlotId> used; // those of load steps have an arena of their own
  for_each_step(plan.steps, [&](const Step& step) {
    for (const SlotId slot : slots_of(step)) used.insert(slot);
  });
  std::vector<SlotId> order;
  for (const SlotId s : used)
    if (plan.slots[s].kind == SlotKind::arena && plan.slots[s].offset >= 0) order.push_back(s);
  std::ranges::stable_sort(order, {}, [&](SlotId s) { return plan.slots[s].offset; });
  PresentPlaces places{IdVector<SlotId, std::optional<int64_t>>(plan.slots.size()), 0};
  for (size_t i = 0; i < order.size(); i++) {
    const Slot& slot = plan.slots[order[i]];
    int64_t at = 0; // behind all that lies before it at the largest sizes
    for (size_t k = 0; k < i; k++) {
      const Slot& before = plan.slots[order[k]];
      if (before.offset + before.max_bytes <= slot.offset)
        at = std::max(at, *places.offsets[order[k]] + (bytes[order[k]] + 63) / 64 * 64);
    }
    places.offsets[order[i]] = at;
    places.bytes = std::max(places.bytes, at + bytes[order[i]]);
  }
  return places;
}

} // namespace luminal::runtime
