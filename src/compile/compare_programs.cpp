// compile/compare_programs.cpp -- two programs by turns: at usual sizes, with pauses, at the largest sizes.
#include "compile/compare_programs.h"
#include "base/text.h"
#include <fmt/format.h>

namespace luminal::compile {

constexpr double long_step = 10e-3;

Result<Comparison> compare_programs(ProgramRace& race, ProgramId first, ProgramId second,
                                    const ExprMap<int64_t>& usual, double seconds,
                                    const std::function<bool()>& stop) {
  Comparison result;
  auto times = race.compare(first, second, seconds, 5, stop);
  if (!times) return times.failure();
  result.times = *times;
  result.good = times->second <= times->first;
  if (!result.good) return result;
  const auto slower = [&](const ProgramRace::Times& here, std::string where) {
    if (here.second <= here.first * noise) return false;
    result = {false, here, std::move(where)};
    return true;
  };
  for (const double pause : pauses) {
    if (times->first > long_step) break; // what a worker needs to wake up does not matter to it
    auto paused = race.compare(first, second, seconds / 4, 5, stop, pause);
    if (!paused) return paused.failure();
    if (slower(*paused, fmt::format(" with pauses of {} between steps", human_time(pause)))) return result;
  }
  std::map<std::string, int64_t> sizes;
  for (const auto& [symbol, value] : usual) sizes[std::string(symbol.name())] = value;
  for (const auto& [symbol, value] : usual) { // each dimension alone: together they may break an assumption
    const int64_t high = symbol.range().high;
    if (high == unbounded_high || high == value) continue;
    std::map<std::string, int64_t> largest = sizes;
    largest[std::string(symbol.name())] = high;
    if (!race.set_sizes(largest)) continue;
    auto at_most = race.compare(first, second, seconds / 4, 3, stop);
    race.set_sizes(sizes);
    if (!at_most) return at_most.failure();
    if (slower(*at_most, fmt::format(" at {}={}", symbol.name(), high))) return result;
  }
  return result;
}

} // namespace luminal::compile
