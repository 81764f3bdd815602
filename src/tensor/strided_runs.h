// tensor/strided_runs.h -- one axis of what runs a convolution backward (its gradient, a transposed
// convolution): cut so that no zeros stand between elements.
#pragma once
#include <cstdint>
#include <vector>

namespace luminal {

/// Neighbours among the results of a transposed convolution along one axis, by their places mod the
/// stride, whose sums have as many terms and begin at the same place of x: result stride * i + b +
/// p, where the run begins at b and p < places, is the sum over k < taps of weight[first + p +
/// period * k] * x[i + shift - dilation * k].
struct StridedRun {
  int64_t places = 1, taps = 0, first = 0, period = 1, shift = 0, dilation = 1;
};
/// Result j is the sum of weight[w] * x[(j + padding - dilation * w) / stride] over the weights w <
/// kernel for which the quotient is whole. All places mod the stride, in order.
std::vector<StridedRun> strided_runs(int64_t kernel, int64_t stride, int64_t dilation, int64_t padding);

} // namespace luminal
