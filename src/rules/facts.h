// rules/facts.h -- what is known of a class of V, whichever of its terms tells it.
//
// Facts of the terms of a class meet (each term says something that holds), those of the operands of
// a term join. They are the function `info` of the e-graph (facts.egg), so guards of rules read
// them. All of them only grow: what held once holds after any further union.
#pragma once
#include "rules/magnitude.h"
#include "rules/payloads.h"
#include <limits>
#include <optional>

namespace luminal::rules {

class RegionTerms;

/// How many passes over an axis a value needs that wait for each other: a fold over the axis, and
/// for each fold over it inside of its body one more.
struct AxisPasses {
  AxisId axis = 0;
  uint8_t count = 0;
  bool operator==(const AxisPasses&) const = default;
};

struct Info {
  AxisSet axes; ///< it varies with no other
  DType dtype = DType::f32;
  bool fixed = true; ///< made of weights, constants and positions: known when the program is loaded
  /// No element is NaN or infinite, overflows aside: it is made of integers and finite constants, and divides
  /// by nothing that may be 0. What the region reads may hold infinities.
  bool finite = false;
  /// Every value lies between them, NaN aside. They are -inf, -1, 0, `above_zero` or `far_above_zero` (low
  /// only), 1 or inf: so few that facts come to an end.
  double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();
  /// Without what type and bounds say: reach() has all.
  Magnitude magnitude;
  std::optional<Number> constant;
  /// It is this integer or condition over the symbols of axes and dimensions.
  std::optional<Expr> index;
  std::vector<AxisPasses> passes; ///< ascending by axis, without zeros
  /// Axes over which it is a maximum or minimum, a multiple or the reciprocal of one: what is divided by it
  /// is meant to be in range.
  AxisSet extremum;

  bool operator==(const Info&) const = default;
  uint64_t hash() const;
  bool not_negative() const { return low >= 0; }
  bool positive() const { return low > 0; }
  Magnitude reach() const { return narrowed(magnitude, dtype, low, high); }
  /// Of the constant, where it has one.
  std::optional<double> number() const;
  /// It needs no pass over any of the axes.
  bool flat(const AxisSet& over) const;
  int passes_over(AxisId axis) const;
  /// The most passes over one axis.
  int depth() const;
};
/// Marks a value that is more than 0, however small.
inline constexpr double above_zero = std::numeric_limits<double>::denorm_min();
/// Marks a value whose reciprocal is far from an overflow, but in types with few exponents.
inline constexpr double far_above_zero = 0x1p-64;

/// May there be no point along one of the axes?
bool may_be_empty(const AxisTable& axes, const AxisSet& over);
/// Along the axes, by what is known of their extents; 1 or more.
double most_points(const AxisTable& axes, const AxisSet& over);
/// Are 2^-126 to 2^127 normal numbers of the floating type?
bool has_wide_exponents(DType type);
/// Is the reciprocal infinite only where all quotients by the value are infinite or NaN?
bool divides_safely(const Info& divisor);

std::string to_string(const Info& info);
Info meet(const Info& a, const Info& b);
/// Numbers of infos: those of the elements of a vector.
struct InfoList {
  std::vector<Value> infos;
  bool operator==(const InfoList&) const = default;
  uint64_t hash() const;
};

/// Facts of a row from those of its operands. `terms` has the payloads.
class FactMaker {
public:
  explicit FactMaker(const RegionTerms& terms) : t_(terms) {}
  using Operands = std::span<const Info* const>;
  Info leaf(Value leaf) const;
  Info number(Value number) const;
  Info iota(Value iota) const;
  Info extent(DType type) const; ///< of Extent: the number of points along axes
  Info cast(DType to, const Info& x) const;
  Info row(Op op, Operands xs) const;
  Info square(const Info& x) const; ///< x * x
  Info op(Value payload, Operands xs) const;
  Info view(Value place, Operands xs) const;
  Info result(int component, Value monoid, Value over, Operands bodies) const;  ///< of a fold
  Info prefix(int component, Value monoid, Value along, Operands bodies) const; ///< of a scan
  Info opaque(int result, Value payload, Operands xs) const;

private:
  const RegionTerms& t_;
};

/// The facts brought up to date, without any rewriting.
void find_facts(RegionTerms& terms);
/// What is known of a class, as of the last find_facts() or saturate(). Error where nothing is.
const Info& info_of(RegionTerms& terms, ClassId c);

} // namespace luminal::rules
