// runtime/arena.h -- memory of a plan: which slots share it, and how much that takes.
#pragma once
#include "runtime/plan.h"

namespace luminal::runtime {

/// Sets Slot::used by what steps, load steps and results name.
void mark_used_slots(Plan& plan);

/// Gives every arena slot that is used by `steps` an offset such that slots alive at the same time
/// never overlap; returns the size of the arena. A slot lives from the first step that names it to
/// the last; inside a loop, for the whole loop.
int64_t place_in_arena(const Steps& steps, IdVector<SlotId, Slot>& slots);

/// Fails where the plan may need more than `max_memory` bytes (0: no limit), with the numbers.
Result<void> check_memory_limit(const Plan& plan, int64_t max_memory);
/// What to do about too little memory: "take smaller sizes or a narrower dtype".
std::string needs_less(const Plan& plan);
/// "1.5 GiB", "512 bytes"
std::string memory_text(int64_t bytes);

} // namespace luminal::runtime
