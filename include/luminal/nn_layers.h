// luminal/nn_layers.h -- modules of images and sequences: convolution, pooling, normalisation. Parameters
// have the names and shapes of PyTorch's modules; x is [batch, channels, sizes..].
#pragma once
#include "luminal/nn.h"
#include "luminal/nn_functions.h"

namespace luminal::nn {

#define LUMINAL_WHERE std::source_location where = std::source_location::current()

struct ConvModuleOptions {
  Ints stride = 1;
  ConvPadding padding = 0; ///< numbers, "same" or "valid"
  Ints dilation = 1;
  int64_t groups = 1;
  bool bias = true;
};
/// Convolution over `axes` axes: weight [out, in / groups, kernel..], bias [out].
class Conv : public Module {
public:
  Conv(const Scope& scope, int axes, int64_t in, int64_t out, const Ints& kernel,
       const ConvModuleOptions& options = {}, LUMINAL_WHERE);
  Tensor operator()(const Tensor& x, LUMINAL_WHERE) const;

private:
  int axes_;
  ConvOptions options_;
  Parameter weight_, bias_;
};
template <int axes> struct ConvOf : Conv {
  ConvOf(const Scope& scope, int64_t in, int64_t out, const Ints& kernel,
         const ConvModuleOptions& options = {}, LUMINAL_WHERE)
      : Conv(scope, axes, in, out, kernel, options, where) {}
};
using Conv1d = ConvOf<1>;
using Conv2d = ConvOf<2>;
using Conv3d = ConvOf<3>;

struct ConvTransposeModuleOptions {
  Ints stride = 1, padding = 0, output_padding = 0, dilation = 1;
  int64_t groups = 1;
  bool bias = true;
};
/// luminal::conv_transpose: weight [in, out / groups, kernel..], bias [out].
class ConvTranspose : public Module {
public:
  ConvTranspose(const Scope& scope, int axes, int64_t in, int64_t out, const Ints& kernel,
                const ConvTransposeModuleOptions& options = {}, LUMINAL_WHERE);
  Tensor operator()(const Tensor& x, LUMINAL_WHERE) const;

private:
  int axes_;
  ConvTransposeOptions options_;
  Parameter weight_, bias_;
};
template <int axes> struct ConvTransposeOf : ConvTranspose {
  ConvTransposeOf(const Scope& scope, int64_t in, int64_t out, const Ints& kernel,
                  const ConvTransposeModuleOptions& options = {}, LUMINAL_WHERE)
      : ConvTranspose(scope, axes, in, out, kernel, options, where) {}
};
using ConvTranspose1d = ConvTransposeOf<1>;
using ConvTranspose2d = ConvTransposeOf<2>;
using ConvTranspose3d = ConvTransposeOf<3>;

// ---- without parameters: over the last axes, as many as are named (or the number in the name) ----
template <int axes> struct MaxPoolOf {
  Ints kernel;
  PoolOptions options = {};
  Tensor operator()(const Tensor& x, LUMINAL_WHERE) const {
    return max_pool(x, detail::pool_sizes("MaxPool", x, kernel, axes, where), options, where);
  }
};
template <int axes> struct AvgPoolOf {
  Ints kernel;
  PoolOptions options = {};
  bool count_include_pad = true;
  Tensor operator()(const Tensor& x, LUMINAL_WHERE) const {
    return avg_pool(x, detail::pool_sizes("AvgPool", x, kernel, axes, where), options, count_include_pad, 0,
                    where);
  }
};
template <int axes> struct AdaptiveAvgPoolOf {
  Ints sizes;
  Tensor operator()(const Tensor& x, LUMINAL_WHERE) const {
    return adaptive_avg_pool(x, detail::pool_sizes("AdaptiveAvgPool", x, sizes, axes, where), where);
  }
};
template <int axes> struct AdaptiveMaxPoolOf {
  Ints sizes;
  Tensor operator()(const Tensor& x, LUMINAL_WHERE) const {
    return adaptive_max_pool(x, detail::pool_sizes("AdaptiveMaxPool", x, sizes, axes, where), where);
  }
};
using MaxPool1d = MaxPoolOf<1>;
using MaxPool2d = MaxPoolOf<2>;
using MaxPool3d = MaxPoolOf<3>;
using AvgPool1d = AvgPoolOf<1>;
using AvgPool2d = AvgPoolOf<2>;
using AvgPool3d = AvgPoolOf<3>;
using AdaptiveAvgPool1d = AdaptiveAvgPoolOf<1>;
using AdaptiveAvgPool2d = AdaptiveAvgPoolOf<2>;
using AdaptiveAvgPool3d = AdaptiveAvgPoolOf<3>;
using AdaptiveMaxPool1d = AdaptiveMaxPoolOf<1>;
using AdaptiveMaxPool2d = AdaptiveMaxPoolOf<2>;
using AdaptiveMaxPool3d = AdaptiveMaxPoolOf<3>;

/// The axes behind the channels times a whole factor.
struct Upsample {
  int64_t factor = 2;
  Interpolation mode = Interpolation::nearest;
  bool align_corners = false;
  Tensor operator()(const Tensor& x, LUMINAL_WHERE) const;
};
/// Axes first .. last become one.
struct Flatten {
  int first = 1, last = -1;
  Tensor operator()(const Tensor& x, LUMINAL_WHERE) const { return x.flatten(first, last, where); }
};

// ---- normalisation ----
struct BatchNormOptions {
  double eps = 1e-5;
  /// Of the running statistics; nothing: the plain mean over all steps.
  std::optional<double> momentum = 0.1;
  bool affine = true;              ///< weight and bias
  bool track_running_stats = true; ///< else batch statistics, always
};
/// Ioffe and Szegedy 2015: x [batch, channels, ..] normalised for each channel. While the scope trains by
/// the statistics of the batch, which move running_mean and running_var (unbiased); else by these.
class BatchNorm : public Module {
public:
  BatchNorm(const Scope& scope, int64_t channels, const BatchNormOptions& options = {}, LUMINAL_WHERE);
  Tensor operator()(const Tensor& x, LUMINAL_WHERE) const;

private:
  BatchNormOptions options_;
  Parameter weight_, bias_;
  Tensor mean_, var_, batches_;
};

struct NormOptions {
  double eps = 1e-5;
  bool affine = true; ///< weight and, where there is one, bias
  bool bias = true;
};
/// Ba et al. 2016, over the last axes, which have this shape: weight and bias [shape..].
class LayerNorm : public Module {
public:
  LayerNorm(const Scope& scope, std::vector<int64_t> shape, const NormOptions& options = {}, LUMINAL_WHERE);
  LayerNorm(const Scope& scope, int64_t width, const NormOptions& options = {}, LUMINAL_WHERE)
      : LayerNorm(scope, std::vector<int64_t>{width}, options, where) {}
  Tensor operator()(const Tensor& x, LUMINAL_WHERE) const;

private:
  std::vector<int64_t> shape_;
  NormOptions options_;
  Parameter weight_, bias_;
};
/// Zhang and Sennrich 2019: x / sqrt(mean(x^2) + eps) * (weight + offset) over the last axis. Gemma stores
/// the weight without 1: offset 1, initial values 0.
class RmsNorm : public Module {
public:
  RmsNorm(const Scope& scope, int64_t width, double eps = 1e-6, double offset = 0, LUMINAL_WHERE);
  Tensor operator()(const Tensor& x, LUMINAL_WHERE) const;

private:
  double eps_, offset_;
  Parameter weight_;
};
/// Wu and He 2018, over groups of channels; weight and bias [channels].
class GroupNorm : public Module {
public:
  GroupNorm(const Scope& scope, int64_t groups, int64_t channels, const NormOptions& options = {},
            LUMINAL_WHERE);
  Tensor operator()(const Tensor& x, LUMINAL_WHERE) const;

private:
  int64_t groups_;
  NormOptions options_;
  Parameter weight_, bias_;
};
/// Over the axes behind the channels, without running statistics. affine is false in PyTorch's default.
class InstanceNorm : public Module {
public:
  InstanceNorm(const Scope& scope, int64_t channels, const NormOptions& options = {.affine = false},
               LUMINAL_WHERE);
  Tensor operator()(const Tensor& x, LUMINAL_WHERE) const;

private:
  NormOptions options_;
  Parameter weight_, bias_;
};

#undef LUMINAL_WHERE
} // namespace luminal::nn
