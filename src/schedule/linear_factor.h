// schedule/linear_factor.h -- private to cascades: transforms of a tuple that multiply.
#pragma once
#include "ir/monoid.h"
#include <optional>
#include <vector>

namespace luminal::kernel {

/// Of a transform T == self * rounded(program): `through` are the types that the factor is cast to,
/// one after the other.
struct LinearFactor {
  Scalar program;
  std::vector<DType> through = {};
  Scalar rounded() const {
    Scalar out = program;
    for (DType type : through) out = Scalar::cast(type, out);
    return out;
  }
};

/// The factor as a program over the same leaves; none where T is not of that form. `type`: of all
/// states.
std::optional<LinearFactor> linear_factor(const Scalar& transform, size_t node, DType type);

/// Exponentials of differences from a maximum: the greatest weight is 1, so that subnormal ones are below
/// the rounding of their sum.
bool weights_of_maximum(const Scalar& factor, const Monoid& monoid);

} // namespace luminal::kernel
