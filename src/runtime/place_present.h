// runtime/place_present.h -- the arena at present sizes, for a process that may not reserve what the
// largest ones take (a limit of its address space; more than a processor can address).
#pragma once
#include "runtime/plan.h"
#include <optional>
#include <span>
#include <vector>

namespace luminal::runtime {

/// Can slots be placed anew when sizes change? Not where a loop of the plan changes them while it
/// runs.
bool places_at_present(const Plan& plan);

struct PresentPlaces {
  IdVector<SlotId, std::optional<int64_t>> offsets; ///< none: not in the arena
  int64_t bytes = 0;                                ///< of the arena
};
/// `bytes`: of slots, at the present sizes. What the plan places apart stays apart.
PresentPlaces present_places(const Plan& plan, const IdVector<SlotId, int64_t>& bytes);

} // namespace luminal::runtime
