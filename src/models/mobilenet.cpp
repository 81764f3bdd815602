// models/mobilenet.cpp -- MobileNetV2: inverted residuals with linear bottlenecks.
#include "luminal/models_vision.h"
#include <algorithm>

namespace luminal::models {
namespace {

/// The channels times the multiplier, to the nearest multiple of 8 that is not more than a tenth below.
int64_t scaled(int64_t channels, double multiplier) {
  const double wanted = double(channels) * multiplier;
  int64_t out = std::max<int64_t>(8, int64_t(wanted + 4) / 8 * 8);
  if (double(out) < 0.9 * wanted) out += 8;
  return out;
}

} // namespace

MobileNetV2::Layer::Layer(const nn::Scope& s, int64_t in, int64_t out, int64_t kernel_, int64_t stride_,
                          bool depthwise, bool activation_, const MobileNetConfig& c,
                          std::source_location where)
    : kernel(kernel_), stride(stride_), same_padding(c.same_padding), activation(activation_),
      convolution(s / "convolution", in, out, kernel,
                  {.stride = stride,
                   .padding = same_padding ? 0 : (kernel - 1) / 2,
                   .groups = depthwise ? in : 1,
                   .bias = false},
                  where),
      normalization(s / "normalization", out, {.eps = c.eps}, where) {}
Tensor MobileNetV2::Layer::operator()(const Tensor& given, std::source_location where) const {
  Tensor x = given;
  for (int axis = 2; axis < 4 && same_padding && kernel > 1; axis++) {
    // As many as give ceil(size / stride) places; the odd one stands behind.
    const Dim size = given.dim(axis);
    const int64_t rest = size.is_constant() ? size.value() % stride : 0;
    const int64_t all = std::max<int64_t>(0, kernel - (rest == 0 ? stride : rest));
    x = x.pad(axis, all / 2, all - all / 2);
  }
  const Tensor y = normalization(convolution(x, where), where);
  return activation ? y.clip(0, 6) : y;
}

MobileNetV2::Block::Block(const nn::Scope& s, int64_t in, int64_t out, int64_t stride, int64_t factor,
                          const MobileNetConfig& c, std::source_location where)
    : filter(s / "conv_3x3", in * factor, in * factor, 3, stride, true, true, c, where),
      reduce(s / "reduce_1x1", in * factor, out, 1, 1, false, false, c, where),
      around(stride == 1 && in == out) {
  expand.emplace(s / "expand_1x1", in, in * factor, 1, 1, false, true, c, where);
}
Tensor MobileNetV2::Block::operator()(const Tensor& x, std::source_location where) const {
  const Tensor y = reduce(filter((*expand)(x, where), where), where);
  return around ? x + y : y;
}

MobileNetV2::MobileNetV2(const nn::Scope& scope, const MobileNetConfig& c, std::source_location where)
    : Module(scope) {
  const nn::Scope s = scope / "mobilenet_v2";
  const int64_t first = scaled(32, c.multiplier);
  int64_t in = scaled(16, c.multiplier);
  first_.emplace(s / "conv_stem.first_conv", 3, first, 3, 2, false, true, c, where);
  first_filter_.emplace(s / "conv_stem.conv_3x3", first, first, 3, 1, true, true, c, where);
  first_reduce_.emplace(s / "conv_stem.reduce_1x1", first, in, 1, 1, false, false, c, where);
  struct Stage { // table 2
    int64_t channels, blocks, stride;
  };
  constexpr Stage stages[] = {{24, 2, 2}, {32, 3, 2}, {64, 4, 2}, {96, 3, 1}, {160, 3, 2}, {320, 1, 1}};
  for (const Stage& stage : stages)
    for (int64_t i = 0; i < stage.blocks; i++) {
      const int64_t out = scaled(stage.channels, c.multiplier);
      blocks_.emplace_back(s / "layer" / int64_t(blocks_.size()), in, out, i == 0 ? stage.stride : 1, 6, c,
                           where);
      in = out;
    }
  const int64_t last = std::max<int64_t>(1280, scaled(1280, c.multiplier));
  last_.emplace(s / "conv_1x1", in, last, 1, 1, false, true, c, where);
  head_.emplace(scope / "classifier", last, c.classes, nn::LinearOptions{}, where);
}
Tensor MobileNetV2::operator()(const Tensor& x, std::source_location where) const {
  Tensor y = (*first_reduce_)((*first_filter_)((*first_)(x, where), where), where);
  for (const Block& block : blocks_) y = block(y, where);
  return (*head_)((*last_)(y, where).mean({2, 3}), where);
}

} // namespace luminal::models
