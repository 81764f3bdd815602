// runtime/arena.cpp -- lives of slots, and their places.
#include "runtime/arena.h"
#include "base/check.h"
#include <algorithm>
#include <fmt/format.h>
#include <optional>
#include <set>

namespace luminal::runtime {
namespace {

/// Steps from the first to the last that name a slot.
struct Life {
  int first = 0, last = 0;
};

void touch(std::optional<Life>& life, int at) {
  if (!life) life = {at, at};
  life->last = at;
}

/// The slots that it and the steps inside of it name.
std::vector<SlotId> all_slots_of(const Step& step) {
  std::vector<SlotId> slots = slots_of(step);
  for (const Steps* body : bodies_of(step))
    for_each_step(*body, [&](const Step& inner) {
      const std::vector<SlotId> named = slots_of(inner);
      slots.insert(slots.end(), named.begin(), named.end());
    });
  return slots;
}

} // namespace

int64_t Plan::memory_bytes() const {
  int64_t total = arena_bytes;
  for (const Slot& slot : slots)
    if (slot.kind == SlotKind::state || slot.kind == SlotKind::loaded) total += slot.max_bytes;
  return total;
}

int64_t Plan::memory_bytes(const IdVector<SlotId, int64_t>& slot_bytes) const {
  std::set<SlotId> used;
  for_each_step(steps, [&](const Step& step) {
    for (const SlotId slot : slots_of(step)) used.insert(slot);
  });
  std::vector<std::pair<int64_t, int64_t>> parts;
  for (SlotId s : used)
    if (const Slot& slot = slots[s]; slot.kind == SlotKind::arena && slot.offset >= 0)
      parts.emplace_back(slot.offset, slot.offset + slot_bytes[s]);
  std::sort(parts.begin(), parts.end());
  int64_t total = 0, end = 0;
  for (auto [first, last] : parts) {
    if (last > end) total += last - std::max(first, end);
    end = std::max(end, last);
  }
  for (const SlotId s : slots.ids())
    if (slots[s].kind == SlotKind::state || slots[s].kind == SlotKind::loaded) total += slot_bytes[s];
  return total;
}

std::string memory_text(int64_t bytes) {
  constexpr const char* units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return fmt::format("{} bytes", bytes);
  double value = double(bytes) / 1024;
  int unit = 0;
  for (; value >= 1024 && unit < 5; unit++) value /= 1024;
  return fmt::format("{:.1f} {}", value, units[unit]);
}

std::string needs_less(const Plan& plan) {
  if (plan.symbols.empty()) return "take smaller sizes or a narrower dtype";
  std::vector<std::string_view> names;
  for (const Expr symbol : plan.symbols) names.push_back(symbol.name());
  return fmt::format("lower the greatest size of {}", fmt::join(names, ", "));
}

Result<void> check_memory_limit(const Plan& plan, int64_t max_memory) {
  if (max_memory <= 0 || plan.memory_bytes() <= max_memory) return {};
  return Failure{
      fmt::format("plan {} may need {} (arena {}, the rest states and loaded weights), the limit is {}: {}, "
                  "or raise the limit (max_memory)",
                  plan.name, memory_text(plan.memory_bytes()), memory_text(plan.arena_bytes),
                  memory_text(max_memory), needs_less(plan)),
      MemoryShortage{.needed = plan.memory_bytes(), .available = max_memory}};
}

void mark_used_slots(Plan& plan) {
  for (Slot& slot : plan.slots) slot.used = false;
  for (const Steps* steps : {&plan.load_steps, &plan.steps})
    for_each_step(*steps, [&](const Step& step) {
      for (const SlotId slot : slots_of(step)) plan.slots[slot].used = true;
    });
  for (const PlanResult& result : plan.results) plan.slots[result.slot].used = true;
}

int64_t place_in_arena(const Steps& steps, IdVector<SlotId, Slot>& slots) {
  IdVector<SlotId, std::optional<Life>> lives(slots.size());
  for (size_t at = 0; at < steps.size(); at++)
    for (const SlotId s : all_slots_of(steps[at])) touch(lives[s], int(at));
  std::vector<SlotId> order;
  for (const SlotId i : slots.ids()) {
    if (slots[i].kind != SlotKind::arena || !lives[i]) continue;
    if (slots[i].pinned) lives[i] = Life{0, int(steps.size())};
    order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](SlotId a, SlotId b) { return slots[a].max_bytes > slots[b].max_bytes; });

  int64_t size = 0;
  std::vector<SlotId> placed;
  for (const SlotId i : order) {
    std::vector<std::pair<int64_t, int64_t>> taken; // of slots alive at the same time
    for (const SlotId p : placed)
      if (lives[p]->first <= lives[i]->last && lives[i]->first <= lives[p]->last)
        taken.push_back({slots[p].offset, slots[p].offset + slots[p].max_bytes});
    std::sort(taken.begin(), taken.end());
    int64_t at = 0;
    for (auto [begin, end] : taken) {
      if (at + slots[i].max_bytes <= begin) break;
      at = std::max(at, (end + 63) / 64 * 64);
    }
    slots[i].offset = at;
    LUMINAL_CHECK(!__builtin_add_overflow(at, slots[i].max_bytes, &at), "arena overflow at slot {}",
                  slots[i].name);
    size = std::max(size, at);
    placed.push_back(i);
  }
  return (size + 63) / 64 * 64;
}

} // namespace luminal::runtime
