// compile/compare_programs.h -- private: whether one whole program is faster than another, at several sizes
// and paces. The last word on schedules (compile/plan_search.cpp) and plans of regions (compile/plan_race.h).
#pragma once
#include "compile/program_race.h"
#include "expr/expr.h"

namespace luminal::compile {

/// What is slower, or faster, by less is noise.
inline constexpr double noise = 1.02;
/// Seconds between steps: a token is chosen from few, from many.
inline constexpr double pauses[] = {10e-6, 300e-6};

struct Comparison {
  bool good = false; ///< the second one is not slower
  ProgramRace::Times times;
  std::string where; ///< at which sizes or paces it is slower: " at n=512"
};
/// Not slower at the usual sizes, nor by more than noise with pauses or where one dimension is as large as it
/// can be. `usual`: of all symbols. `seconds`: for the usual sizes; the rest takes a quarter of it each.
Result<Comparison> compare_programs(ProgramRace& race, ProgramId first, ProgramId second,
                                    const ExprMap<int64_t>& usual, double seconds,
                                    const std::function<bool()>& stop);

} // namespace luminal::compile
