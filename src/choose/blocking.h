// choose/blocking.h -- how the stages of one kernel share blocks: plain data, from the outside in.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace luminal::kernel {

/// So many elements of an axis (or of a loop along it) at a time.
struct AxisBlock {
  std::string axis;
  int64_t size = 1;
  bool operator==(const AxisBlock&) const = default;
};

/// All stages run inside blocks of the axes that all of them keep. Inside, the reduction of `fold`
/// goes in tiles, its tuple as a cascade; empty: each stage runs to its end.
struct Blocking {
  std::vector<AxisBlock> kept; ///< outermost first
  std::string fold;            ///< stage
  AxisBlock reduction;
  AxisBlock lanes;     ///< of the reduction: neighbours in one vector
  int64_t vectors = 1; ///< accumulators that do not wait for each other
  bool operator==(const Blocking&) const = default;
};

std::string to_string(const Blocking& blocking);

} // namespace luminal::kernel
