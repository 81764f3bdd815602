// luminal/arguments.h -- what operations take beside tensors and numbers: axes, slices, paddings.
#pragma once
#include "luminal/dim.h"
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <vector>

namespace luminal {

/// start:end:step of one axis as in Python; what is left out is the whole axis.
struct Slice {
  std::optional<Dim> start = {}, end = {};
  int64_t step = 1;
};
/// Elements before and after an axis; negative ones cut off (PadMode::constant only).
struct Padding {
  int axis;
  Dim before, after;
};
/// 0 1 2 with two before and after: [v v] 0 1 2 [v v], [2 1] 0 1 2 [1 0], [0 0] 0 1 2 [2 2], [1 2]
/// 0 1 2 [0 1].
enum class PadMode : uint8_t { constant, reflect, replicate, circular };
/// How a scatter treats what is there. On bool, add and max are `or`, mul and min are `and`.
enum class ScatterOp : uint8_t { set, add, mul, min, max };

/// Axes of a tensor, negative ones counted from the end. None: all of them.
struct Axes {
  Axes() = default;
  Axes(int axis) : list{axis} {}
  template <std::floating_point F> Axes(F) = delete; ///< an eps in the place of the axes
  Axes(std::initializer_list<int> axes) : list(axes) {}
  Axes(std::vector<int> axes) : list(std::move(axes)) {}
  std::vector<int> list;
};

} // namespace luminal
