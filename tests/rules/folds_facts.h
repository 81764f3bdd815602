// rules/folds_facts.h -- what is known of a class of folds/theory.egg whichever of its terms tells
// it: axes, nested passes, sign, whether it is known at load time, its constant. Facts of the terms
// of a class meet; those of the operands of a term join.
#pragma once
#include "folds_monoid.h"
#include <span>
#include <string_view>

namespace luminal::egraph::folds {

using AxisBits = uint64_t; ///< bit i: axis i of AxisNames

/// Numbers the axes of a program, at most 64.
class AxisNames {
public:
  /// Throws luminal::Error for axis 65.
  uint32_t number(const std::string& name);
  AxisBits bits(const Axes& axes);
  Axes names(AxisBits bits) const;
  const std::string& name(uint32_t number) const { return names_[number]; }
  size_t size() const { return names_.size(); }

private:
  std::vector<std::string> names_;
};

struct Info {
  AxisBits axes = 0;           ///< it varies with no other
  std::vector<uint8_t> passes; ///< by axis: the least number of nested passes over it; no zeros at the end
  uint8_t sign = 0;            ///< 1: not negative, 2: positive
  bool fixed = true;           ///< parameters and constants make it: it is computed at load time
  std::optional<double> constant;
  auto operator<=>(const Info&) const = default;

  bool flat(AxisBits over) const;
};

Info meet(const Info& a, const Info& b);
/// Of an operator of the theory on operands; the sign and the constant follow the operator.
Info map_info(std::string_view op, std::span<const Info* const> operands);
/// Of component i of a fold over `over`; `scan`: the axes stay, and it needs no pass of its own.
Info fold_info(const Algebra& algebra, const Monoid& m, uint32_t i, AxisBits over,
               std::span<const Info* const> bodies, bool scan);
Info view_info(const Window& window, AxisNames& names, const Info& x);
Info take_info(AxisBits over, const Info& at, const Info& x);
uint8_t sign_of(double v);

} // namespace luminal::egraph::folds
