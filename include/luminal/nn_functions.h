// luminal/nn_functions.h -- convolution, pooling, resampling and Fourier transforms: windows and
// sums that the compiler sees through.
#pragma once
#include "luminal/operators.h"
#include <concepts>

namespace luminal {

#define LUMINAL_WHERE std::source_location where = std::source_location::current()

/// One number for all axes, or one an axis.
struct Ints {
  Ints(std::integral auto number) : list{int64_t(number)} {}
  Ints(std::initializer_list<int64_t> numbers) : list(numbers) {}
  Ints(std::vector<int64_t> numbers) : list(std::move(numbers)) {}
  std::vector<int64_t> list;
};
/// Zeros on both sides of each axis; "same": as many as keep the size (stride 1 only, the odd one
/// behind); "valid": none.
struct ConvPadding : Ints {
  using Ints::Ints;
  ConvPadding(const char* same_or_valid) : Ints(0), word(same_or_valid) {}
  std::string word = {};
};

struct ConvOptions {
  Ints stride = 1;
  ConvPadding padding = 0;
  Ints dilation = 1;
  int64_t groups = 1;
};
/// x [batch, in, sizes..], weight [out, in / groups, kernel..], bias [out] or none -> [batch, out,
/// sizes..], for any number of sizes. As PyTorch's convolution this is a cross-correlation. Without
/// the batch axis x gives a result without it.
Tensor conv(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, const ConvOptions& options = {},
            LUMINAL_WHERE);
/// The same where the number of sizes is checked.
Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, const ConvOptions& options = {},
              LUMINAL_WHERE);
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, const ConvOptions& options = {},
              LUMINAL_WHERE);
Tensor conv3d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, const ConvOptions& options = {},
              LUMINAL_WHERE);

struct ConvTransposeOptions {
  Ints stride = 1, padding = 0, output_padding = 0, dilation = 1;
  int64_t groups = 1;
};
/// What gives x for conv's result: x [batch, in, sizes..], weight [in, out / groups, kernel..] ->
/// [batch, out, (size - 1) * stride - 2 * padding + dilation * (kernel - 1) + output_padding + 1
/// ..].
Tensor conv_transpose(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                      const ConvTransposeOptions& options = {}, LUMINAL_WHERE);

// ---- pooling over the last axes of x, as many as the kernel has ----
struct PoolOptions {
  Ints stride = std::vector<int64_t>(); ///< the kernel by default
  Ints padding = 0, dilation = 1;       ///< padding is at most half the kernel
  bool ceil_mode = false;               ///< windows that begin inside but end outside count too
};
namespace detail {
/// So many sizes for an operation over `axes` axes of x, behind the channels; 0: over all of these.
std::vector<int64_t> pool_sizes(std::string_view op, const Tensor& x, const Ints& sizes, int axes,
                                std::source_location where);
} // namespace detail
Tensor max_pool(const Tensor& x, const std::vector<int64_t>& kernel, const PoolOptions& options = {},
                LUMINAL_WHERE);
struct MaxPool {
  Tensor values;
  /// i64: place in the pooled axes of x, row-major; the first of equal ones and of NaNs (PyTorch:
  /// the last NaN)
  Tensor indices;
};
/// One size for all axes behind batch and channels: max_pool(x, 2) of an image x [n, c, h, w].
Tensor max_pool(const Tensor& x, std::integral auto kernel, const PoolOptions& options = {}, LUMINAL_WHERE) {
  return max_pool(x, detail::pool_sizes("max_pool", x, int64_t(kernel), 0, where), options, where);
}
MaxPool max_pool_with_indices(const Tensor& x, const std::vector<int64_t>& kernel,
                              const PoolOptions& options = {}, LUMINAL_WHERE);
/// count_include_pad: zeros of the padding count. divisor: in place of the count, where it is not
/// 0. No dilation.
Tensor avg_pool(const Tensor& x, const std::vector<int64_t>& kernel, const PoolOptions& options = {},
                bool count_include_pad = true, int64_t divisor = 0, LUMINAL_WHERE);
Tensor avg_pool(const Tensor& x, std::integral auto kernel, const PoolOptions& options = {},
                bool count_include_pad = true, int64_t divisor = 0, LUMINAL_WHERE) {
  return avg_pool(x, detail::pool_sizes("avg_pool", x, int64_t(kernel), 0, where), options, count_include_pad,
                  divisor, where);
}
/// (sum x^p)^(1/p); no padding.
Tensor lp_pool(const Tensor& x, double p, const std::vector<int64_t>& kernel, const PoolOptions& options = {},
               LUMINAL_WHERE);
/// Windows floor(i n / size) .. ceil((i + 1) n / size) of each axis: the result has these sizes.
Tensor adaptive_avg_pool(const Tensor& x, const std::vector<int64_t>& sizes, LUMINAL_WHERE);
Tensor adaptive_max_pool(const Tensor& x, const std::vector<int64_t>& sizes, LUMINAL_WHERE);
/// PyTorch's names: the number of axes is checked, and one size stands for all of them.
#define LUMINAL_POOLS(axes)                                                                                  \
  inline Tensor max_pool##axes##d(const Tensor& x, const Ints& kernel, const PoolOptions& options = {},      \
                                  LUMINAL_WHERE) {                                                           \
    return max_pool(x, detail::pool_sizes("max_pool" #axes "d", x, kernel, axes, where), options, where);    \
  }                                                                                                          \
  inline Tensor avg_pool##axes##d(const Tensor& x, const Ints& kernel, const PoolOptions& options = {},      \
                                  bool count_include_pad = true, int64_t divisor = 0, LUMINAL_WHERE) {       \
    return avg_pool(x, detail::pool_sizes("avg_pool" #axes "d", x, kernel, axes, where), options,            \
                    count_include_pad, divisor, where);                                                      \
  }                                                                                                          \
  inline Tensor adaptive_avg_pool##axes##d(const Tensor& x, const Ints& sizes, LUMINAL_WHERE) {              \
    return adaptive_avg_pool(x, detail::pool_sizes("adaptive_avg_pool" #axes "d", x, sizes, axes, where),    \
                             where);                                                                         \
  }                                                                                                          \
  inline Tensor adaptive_max_pool##axes##d(const Tensor& x, const Ints& sizes, LUMINAL_WHERE) {              \
    return adaptive_max_pool(x, detail::pool_sizes("adaptive_max_pool" #axes "d", x, sizes, axes, where),    \
                             where);                                                                         \
  }
LUMINAL_POOLS(1)
LUMINAL_POOLS(2)
LUMINAL_POOLS(3)
#undef LUMINAL_POOLS
/// Windows of the last axis: [.., n] -> [.., windows, kernel].
Tensor pool_last_dim(const Tensor& x, int64_t kernel, int64_t stride = 1, int64_t dilation = 1,
                     LUMINAL_WHERE);

// ---- resampling ----
/// linear is bilinear and trilinear too, cubic is bicubic (a = -0.75); all of them axis by axis.
enum class Interpolation : uint8_t { nearest, nearest_exact, linear, cubic };
/// The last axes of x at new sizes, PyTorch's coordinates: those of the centres, or, with
/// align_corners, those of the first and last elements. The factor is new size / old size (PyTorch
/// with recompute_scale_factor), exact.
Tensor interpolate(const Tensor& x, const Dims& sizes, Interpolation mode = Interpolation::nearest,
                   bool align_corners = false, LUMINAL_WHERE);
enum class GridPadding : uint8_t { zeros, border, reflection };
/// x [n, c, h, w] at the points of grid [n, y, x, 2] (x first, -1..1 from edge to edge, or with
/// align_corners from centre to centre) -> [n, c, y, x]. nearest (ties to even) or linear.
Tensor grid_sample(const Tensor& x, const Tensor& grid, Interpolation mode = Interpolation::linear,
                   GridPadding padding = GridPadding::zeros, bool align_corners = false, LUMINAL_WHERE);
/// theta [n, 2, 3] -> grid [n, height, width, 2].
Tensor affine_grid(const Tensor& theta, int64_t height, int64_t width, bool align_corners = false,
                   LUMINAL_WHERE);
/// [n, c, sizes..] -> [n, c * kernel.., positions], what a convolution sees (torch's unfold of
/// images); fold sums it back into `sizes`.
Tensor unfold(const Tensor& x, const std::vector<int64_t>& kernel, const ConvOptions& options = {},
              LUMINAL_WHERE);
Tensor fold(const Tensor& x, const std::vector<int64_t>& sizes, const std::vector<int64_t>& kernel,
            const ConvOptions& options = {}, LUMINAL_WHERE);
/// x / (k + alpha * mean of x^2 over `size` channels around)^beta.
Tensor local_response_norm(const Tensor& x, int64_t size, double alpha = 1e-4, double beta = 0.75,
                           double k = 1, LUMINAL_WHERE);
Tensor channel_shuffle(const Tensor& x, int64_t groups, LUMINAL_WHERE); ///< [n, g c, ..]: c groups of g
/// [.., c r^2, h, w] -> [.., c, h r, w r], and back.
Tensor pixel_shuffle(const Tensor& x, int64_t factor, LUMINAL_WHERE);
Tensor pixel_unshuffle(const Tensor& x, int64_t factor, LUMINAL_WHERE);

// ---- Fourier transforms of the last axis; a complex number is a pair in a last axis of 2. Sizes
// are constants; time goes with n times the sum of n's factors (up to 16, or prime) ----
Tensor fft(const Tensor& x, LUMINAL_WHERE);  ///< [.., n, 2] -> [.., n, 2]; not scaled
Tensor ifft(const Tensor& x, LUMINAL_WHERE); ///< scaled by 1 / n
Tensor rfft(const Tensor& x, LUMINAL_WHERE); ///< [.., n] -> [.., n / 2 + 1, 2]
/// [.., n / 2 + 1, 2] -> [.., n]; n = 2 (extent - 1) where it is 0. The imaginary parts of the
/// first and (n even) the last element are not read.
Tensor irfft(const Tensor& x, int64_t n = 0, LUMINAL_WHERE);

#undef LUMINAL_WHERE
} // namespace luminal
