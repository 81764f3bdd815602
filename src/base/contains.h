// base/contains.h -- is a value among those of a range? (std::ranges::contains is of C++23.)
#pragma once
#include <algorithm>
#include <functional>
#include <ranges>

namespace luminal {

/// With a projection: is there an element of which it gives the value?
template <std::ranges::input_range Range, class Value, class Projection = std::identity>
constexpr bool contains(Range&& range, const Value& value, Projection projection = {}) {
  return std::ranges::find(range, value, projection) != std::ranges::end(range);
}

} // namespace luminal
