// rules/magnitude.h -- how large and how small values may be: a factor that leaves products must not take
// them out of the range of their type.
#pragma once
#include "ir/ops.h"
#include <algorithm>
#include <span>

namespace luminal::rules {

struct Info;

/// Every finite value other than 0 lies between 2^-below and 2^above in magnitude. Both are multiples of 8,
/// so few that facts come to an end, and hold for all floating types where nothing is known.
struct Magnitude {
  int16_t below = 1080, above = 1024;
  bool operator==(const Magnitude&) const = default;
};

/// Of all values of a type.
Magnitude magnitude_of(DType type);
/// Of one number.
Magnitude magnitude_of(double value);
/// Of a number from 1 to this one.
Magnitude magnitude_of_count(double most);
/// Of a value of this type and between these bounds.
Magnitude narrowed(Magnitude m, DType type, double low, double high);
/// Both say something that holds.
inline Magnitude meet(Magnitude a, Magnitude b) {
  return {std::min(a.below, b.below), std::min(a.above, b.above)};
}
/// One of both is what holds.
inline Magnitude either(Magnitude a, Magnitude b) {
  return {std::max(a.below, b.below), std::max(a.above, b.above)};
}
/// Of a row with floating operands.
Magnitude magnitude_of_row(Op op, std::span<const Info* const> xs);
/// Of the sum of so many values.
Magnitude magnitude_of_sum(const Info& x, double count);
/// Does a product with it stay in the range of the type where the other factor is of ordinary size? Square
/// roots of all numbers of the type are in this range, and their reciprocals.
bool is_mid_range(const Info& factor);
/// The same, as far as overflows go.
bool is_never_large(const Info& factor);

} // namespace luminal::rules
