// luminal/statistics.h -- what is known of many numbers: quantiles, the most frequent one, sums
// that leave NaN out, covariances. PyTorch's names and behaviour.
#pragma once
#include "luminal/operators.h"
#include <optional>

namespace luminal {

#define LUMINAL_WHERE std::source_location where = std::source_location::current()

/// Where a quantile lies between two elements: on the line between them, the lower, the higher,
/// their middle, the nearer (of equal distance the even place).
enum class Quantile : uint8_t { linear, lower, higher, midpoint, nearest };
/// Of floats along an axis, or of all elements; NaN where there is one. The axis goes away, unless
/// keep_dims.
Tensor quantile(const Tensor& x, double q, std::optional<int> axis = {}, bool keep_dims = false,
                Quantile between = Quantile::linear, LUMINAL_WHERE);
/// Several: [number of q] + the other axes.
Tensor quantile(const Tensor& x, const std::vector<double>& q, std::optional<int> axis = {},
                bool keep_dims = false, Quantile between = Quantile::linear, LUMINAL_WHERE);
/// The value that occurs most often, the least of equally frequent ones, and its last place. Every
/// NaN is a value of its own.
Indexed mode(const Tensor& x, int axis = -1, bool keep_dims = false, LUMINAL_WHERE);
/// Without the NaNs: the sum is 0 and the mean NaN where nothing is left.
Tensor nansum(const Tensor& x, const Axes& axes = {}, bool keep_dims = false, LUMINAL_WHERE);
Tensor nanmean(const Tensor& x, const Axes& axes = {}, bool keep_dims = false, LUMINAL_WHERE);
struct MinMax {
  Tensor min, max;
};
MinMax aminmax(const Tensor& x, const Axes& axes = {}, bool keep_dims = false, LUMINAL_WHERE);
struct StdMean {
  Tensor std, mean;
};
StdMean std_mean(const Tensor& x, const Axes& axes = {}, double correction = 1, bool keep_dims = false,
                 LUMINAL_WHERE);
/// Of variables in rows: [v, n] -> [v, v], [n] -> []; the divisor is n - correction.
Tensor cov(const Tensor& x, double correction = 1, LUMINAL_WHERE);
/// Covariances over the product of both deviations, clamped to -1..1.
Tensor corrcoef(const Tensor& x, LUMINAL_WHERE);
/// Sum of (y[i] + y[i + 1]) / 2 * dx.
Tensor trapezoid(const Tensor& y, double dx = 1, int axis = -1, LUMINAL_WHERE);

#undef LUMINAL_WHERE
} // namespace luminal
