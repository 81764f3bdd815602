// rules/place.h -- the payload of a view: where axes of a value are read.
//
//   out(axes) = predicate(axes) ? x(.., a = index_a(axes), ..) : fill
//
// All indices are replaced at once; axes of x that are not listed stay as they are. Indices and the
// predicate are expressions over the symbols of axes, over dimensions of the program, and over
// holes h0, h1, .., the integers that the view's further operands give.
#pragma once
#include "rules/axes.h"
#include <utility>

namespace luminal::rules {

struct PlaceHole {
  Interval range;
  OutOfRange policy = OutOfRange::error;
  bool operator==(const PlaceHole&) const = default;
};

struct Place {
  std::vector<std::pair<AxisId, Expr>> index; // ascending by axis
  Expr predicate = 1;
  double fill = 0;
  std::vector<PlaceHole> holes;

  bool empty() const { return index.empty() && predicate.is_constant(1) && holes.empty(); }
  /// Axes of x that the view reads elsewhere.
  AxisSet replaced() const;
  /// Axes that indices and predicate read, those of the holes' operands not included.
  AxisSet read(const AxisTable& axes) const;
  const Expr* index_of(AxisId axis) const;
  bool operator==(const Place& o) const;
  uint64_t hash() const;
};

/// It is nowhere outside: no predicate and no fill.
bool is_total(const Place& place);
std::string to_string(const Place& place);

} // namespace luminal::rules
