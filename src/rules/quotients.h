// rules/quotients.h -- quotients that rules wrote as products with reciprocals.
//
// x / s is finite for many a subnormal s where 1 / s is infinite. So a reciprocal, or the quotient of
// another factor, that no node of the function stands for is not computed by itself, unless its divisor is
// known to be large enough: the product with it becomes a quotient again, or is scaled by a power of two.
#pragma once
#include "rules/emit_region.h"
#include "rules/region_terms.h"
#include <functional>
#include <unordered_map>

namespace luminal::rules {

/// Of chosen terms.
class Quotients {
public:
  /// `row`: the chosen one. `is_written`: whether a node of the function computes the class.
  Quotients(RegionTerms& terms, std::function<egraph::RowView(ClassId)> row,
            std::function<bool(ClassId)> is_written)
      : t_(terms), row_(std::move(row)), is_written_(std::move(is_written)) {}
  /// The divisor, where the class is a reciprocal or quotient that rules made and that may overflow.
  std::optional<ClassId> divisor(ClassId c) const;
  /// Of a quotient.
  std::optional<ClassId> dividend(ClassId c) const;
  /// Is it such a reciprocal or quotient, or a product or choice that rules made with one in it?
  bool divides(ClassId c);
  /// The factors of a product, the one that divides last; nothing where neither does, or for another term.
  std::optional<std::pair<ClassId, ClassId>> factors(const egraph::RowView& row);
  struct Arms {
    ClassId condition, yes, no;
  };
  /// Of a choice of which one arm divides.
  std::optional<Arms> arms(const egraph::RowView& row);
  bool is_zero(ClassId c) const;

private:
  /// Is it known without a reciprocal by itself, as x / s is?
  bool has_dividend(ClassId c);
  RegionTerms& t_;
  std::function<egraph::RowView(ClassId)> row_;
  std::function<bool(ClassId)> is_written_;
  std::unordered_map<ClassId, bool> divides_;
};

/// The nodes of a divisor's scale and of the reciprocal of the scaled divisor, both in its shape: x / b is
/// (x * scale) * reciprocal, without an overflow on the way. The scale of all but very small divisors is 1.
struct ScaledReciprocal {
  NodeId scale, reciprocal;
};
/// Of f32, f64 and bf16: types with fewer exponents have no scale that serves all quotients.
ScaledReciprocal scaled_reciprocal(Fragment& out, NodeId divisor);

} // namespace luminal::rules
