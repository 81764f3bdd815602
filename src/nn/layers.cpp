// nn/layers.cpp -- convolutions and norms.
#include "luminal/nn_layers.h"
#include "nn/scope.h"
#include <cmath>
#include <fmt/format.h>
#include <numeric>

namespace luminal::nn {
namespace {

std::vector<int64_t> kernel_of(std::string_view op, const Ints& kernel, int axes,
                               std::source_location where) {
  std::vector<int64_t> sizes = kernel.list;
  if (sizes.size() == 1) sizes.resize(size_t(axes), sizes[0]);
  if (axes < 1 || sizes.size() != size_t(axes))
    throw Error(op, fmt::format("{} sizes of the kernel for {} axes", sizes.size(), axes), where);
  for (int64_t size : sizes) need_sizes(op, {{"kernel", size}}, where);
  return sizes;
}
int64_t product(const std::vector<int64_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}
void need_groups(std::string_view op, int64_t in, int64_t out, int64_t groups, std::source_location where) {
  need_sizes(op, {{"in", in}, {"out", out}, {"groups", groups}}, where);
  if (in % groups || out % groups)
    throw Error(op, fmt::format("{} and {} channels do not fall into {} groups", in, out, groups), where);
}
void need_axes(std::string_view op, const Tensor& x, int axes, std::source_location where) {
  const int rank = x.rank(where);
  if (rank != axes + 2 && rank != axes + 1)
    throw Error(op,
                fmt::format("x must be [batch, channels] and {} sizes, it is {}", axes,
                            luminal::to_string(x.shape(where))),
                where);
}

} // namespace

Conv::Conv(const Scope& scope, int axes, int64_t in, int64_t out, const Ints& kernel,
           const ConvModuleOptions& o, std::source_location where)
    : Module(scope), axes_(axes), options_{o.stride, o.padding, o.dilation, o.groups} {
  need_groups("Conv", in, out, o.groups, where);
  std::vector<int64_t> shape = kernel_of("Conv", kernel, axes, where);
  const double fan = double(in / o.groups * product(shape));
  shape.insert(shape.begin(), {out, in / o.groups});
  weight_ = scope.parameter("weight", shape, uniform_of_fan(fan), where);
  if (o.bias) bias_ = scope.parameter("bias", {out}, uniform_of_fan(fan), where);
}
Tensor Conv::operator()(const Tensor& x, std::source_location where) const {
  need_axes("Conv", x, axes_, where);
  return conv(x, weight_, bias_, options_, where);
}

ConvTranspose::ConvTranspose(const Scope& scope, int axes, int64_t in, int64_t out, const Ints& kernel,
                             const ConvTransposeModuleOptions& o, std::source_location where)
    : Module(scope), axes_(axes), options_{o.stride, o.padding, o.output_padding, o.dilation, o.groups} {
  need_groups("ConvTranspose", in, out, o.groups, where);
  std::vector<int64_t> shape = kernel_of("ConvTranspose", kernel, axes, where);
  const double fan = double(out / o.groups * product(shape)); // PyTorch's fan of a weight [in, out, ..]
  shape.insert(shape.begin(), {in, out / o.groups});
  weight_ = scope.parameter("weight", shape, uniform_of_fan(fan), where);
  if (o.bias) bias_ = scope.parameter("bias", {out}, uniform_of_fan(fan), where);
}
Tensor ConvTranspose::operator()(const Tensor& x, std::source_location where) const {
  need_axes("ConvTranspose", x, axes_, where);
  return conv_transpose(x, weight_, bias_, options_, where);
}

Tensor Upsample::operator()(const Tensor& x, std::source_location where) const {
  need_sizes("Upsample", {{"factor", factor}}, where);
  const Dims shape = x.shape(where);
  if (shape.size() < 3)
    throw Error("Upsample",
                fmt::format("x must be [batch, channels, sizes..], it is {}", luminal::to_string(shape)),
                where);
  Dims sizes;
  for (size_t d = 2; d < shape.size(); d++) sizes.push_back(shape[d] * factor);
  return interpolate(x, sizes, mode, align_corners, where);
}

BatchNorm::BatchNorm(const Scope& scope, int64_t channels, const BatchNormOptions& options,
                     std::source_location where)
    : Module(scope), options_(options) {
  need_sizes("BatchNorm", {{"channels", channels}}, where);
  if (options.affine) {
    weight_ = scope.parameter("weight", {channels}, init::ones(), where);
    bias_ = scope.parameter("bias", {channels}, init::zeros(), where);
  }
  if (options.track_running_stats) {
    mean_ = scope.buffer("running_mean", {channels}, 0, DType::f32, where);
    var_ = scope.buffer("running_var", {channels}, 1, DType::f32, where);
    batches_ = scope.buffer("num_batches_tracked", {}, 0, DType::i64, where);
  }
}
Tensor BatchNorm::operator()(const Tensor& x, std::source_location where) const {
  const Scope& s = scope();
  const bool by_batch = s.training() || !options_.track_running_stats;
  if (!by_batch) return batch_norm(x, mean_, var_, weight_, bias_, options_.eps, where);
  const Dims shape = x.shape(where);
  if (shape.size() < 2)
    throw Error("BatchNorm",
                fmt::format("x must be [batch, channels, ..], it is {}", luminal::to_string(shape)), where);
  std::vector<int> axes{0};
  Dim count = shape[0];
  for (int d = 2; d < int(shape.size()); d++) axes.push_back(d), count = count * shape[size_t(d)];
  const Tensor wide = x.dtype() == DType::f64 ? x : x.cast(DType::f32, where);
  const auto [var, mean] = var_mean(wide, axes, 0, false, where);
  if (s.training() && options_.track_running_stats) {
    Tensor part = s.graph().constant(options_.momentum.value_or(0));
    s.update(batches_, [&](const Tensor& old) {
      const Tensor now = old + 1;
      if (!options_.momentum) part = 1 / now.cast(DType::f32);
      return now;
    });
    // The running variance is that of a sample: count - 1.
    const Tensor n = Tensor(s.graph().constant(1.0f)) * count;
    const Tensor sample = var.cast(DType::f32) * (n / (n - 1));
    s.update(mean_, [&](const Tensor& old) { return old + (mean.cast(DType::f32) - old) * part; });
    s.update(var_, [&](const Tensor& old) { return old + (sample - old) * part; });
  }
  return batch_norm(x, mean, var, weight_, bias_, options_.eps, where);
}

LayerNorm::LayerNorm(const Scope& scope, std::vector<int64_t> shape, const NormOptions& options,
                     std::source_location where)
    : Module(scope), shape_(std::move(shape)), options_(options) {
  if (shape_.empty()) throw Error("LayerNorm", "the shape has no axes", where);
  for (int64_t size : shape_) need_sizes("LayerNorm", {{"size", size}}, where);
  if (!options.affine) return;
  weight_ = scope.parameter("weight", shape_, init::ones(), where);
  if (options.bias) bias_ = scope.parameter("bias", shape_, init::zeros(), where);
}
Tensor LayerNorm::operator()(const Tensor& x, std::source_location where) const {
  if (options_.affine) return layer_norm(x, weight_, bias_, options_.eps, where);
  std::vector<int> axes;
  const Dims shape = x.shape(where);
  const size_t first = shape.size() - std::min(shape.size(), shape_.size());
  bool fits = shape.size() >= shape_.size();
  for (size_t d = 0; fits && d < shape_.size(); d++) {
    fits = shape[first + d] == Dim(shape_[d]);
    axes.push_back(int(first + d));
  }
  if (!fits)
    throw Error("LayerNorm",
                fmt::format("x is {}, its last axes must be {}", luminal::to_string(shape),
                            luminal::to_string(Dims(shape_.begin(), shape_.end()))),
                where);
  return x.layer_norm(axes, options_.eps, where);
}

RmsNorm::RmsNorm(const Scope& scope, int64_t width, double eps, double offset, std::source_location where)
    : Module(scope), eps_(eps), offset_(offset) {
  need_sizes("RmsNorm", {{"width", width}}, where);
  weight_ = scope.parameter("weight", {width}, init::constant(1 - offset), where);
}
Tensor RmsNorm::operator()(const Tensor& x, std::source_location where) const {
  Tensor weight = weight_;
  if (offset_ != 0) weight = weight + offset_;
  return rms_norm(x, weight, eps_, where);
}

GroupNorm::GroupNorm(const Scope& scope, int64_t groups, int64_t channels, const NormOptions& options,
                     std::source_location where)
    : Module(scope), groups_(groups), options_(options) {
  need_groups("GroupNorm", channels, channels, groups, where);
  if (!options.affine) return;
  weight_ = scope.parameter("weight", {channels}, init::ones(), where);
  if (options.bias) bias_ = scope.parameter("bias", {channels}, init::zeros(), where);
}
Tensor GroupNorm::operator()(const Tensor& x, std::source_location where) const {
  return group_norm(x, groups_, weight_, bias_, options_.eps, where);
}

InstanceNorm::InstanceNorm(const Scope& scope, int64_t channels, const NormOptions& options,
                           std::source_location where)
    : Module(scope), options_(options) {
  need_sizes("InstanceNorm", {{"channels", channels}}, where);
  if (!options.affine) return;
  weight_ = scope.parameter("weight", {channels}, init::ones(), where);
  if (options.bias) bias_ = scope.parameter("bias", {channels}, init::zeros(), where);
}
Tensor InstanceNorm::operator()(const Tensor& x, std::source_location where) const {
  return instance_norm(x, weight_, bias_, options_.eps, where);
}

} // namespace luminal::nn
