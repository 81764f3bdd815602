// ir/most_bytes.cpp -- how much memory a value may take.
#include "ir/most_bytes.h"

namespace luminal {

double most_bytes(const TensorType& type) {
  double n = double(bits(type.dtype)) / 8;
  for (Expr extent : type.shape) {
    const int64_t high = extent.range().high;
    n *= high == unbounded_high ? 1e6 : double(high);
  }
  return n;
}

} // namespace luminal
