// models/resnet.cpp -- ResNet: blocks that add to what they read.
#include "luminal/models_vision.h"
#include "luminal/nn_functions.h"

namespace luminal::models {

ResNet::Layer::Layer(const nn::Scope& s, int64_t in, int64_t out, int64_t kernel, int64_t stride,
                     std::source_location where)
    : convolution(s / "convolution", in, out, kernel,
                  {.stride = stride, .padding = kernel / 2, .bias = false}, where),
      normalization(s / "normalization", out, {}, where) {}
Tensor ResNet::Layer::operator()(const Tensor& x, std::source_location where) const {
  return normalization(convolution(x, where), where);
}

ResNet::ResNet(const nn::Scope& scope, const ResNetConfig& c, std::source_location where)
    : Module(scope), stem_(scope / "resnet.embedder.embedder", 3, c.stem, 7, 2, where),
      head_(scope / "classifier.1", c.widths.empty() ? 1 : c.widths.back(), c.classes, {}, where) {
  if (c.widths.empty() || c.widths.size() != c.depths.size())
    throw Error("ResNet", "one width and one depth for each stage are expected", where);
  int64_t in = c.stem;
  for (size_t stage = 0; stage < c.widths.size(); stage++)
    for (int64_t i = 0; i < c.depths[stage]; i++) {
      const nn::Scope s = scope / "resnet.encoder.stages" / int64_t(stage) / "layers" / i;
      const int64_t out = c.widths[stage], inner = out / 4;
      const int64_t stride = i == 0 && (stage > 0 || c.halve_first) ? 2 : 1;
      Block block;
      if (in != out || stride != 1) block.shortcut.emplace(s / "shortcut", in, out, 1, stride, where);
      const auto add = [&](int64_t from, int64_t to, int64_t kernel, int64_t step) {
        block.layers.emplace_back(s / "layer" / int64_t(block.layers.size()), from, to, kernel, step, where);
      };
      if (c.bottleneck) {
        add(in, inner, 1, c.stride_in_front ? stride : 1);
        add(inner, inner, 3, c.stride_in_front ? 1 : stride);
        add(inner, out, 1, 1);
      } else {
        add(in, out, 3, stride);
        add(out, out, 3, 1);
      }
      blocks_.push_back(std::move(block));
      in = out;
    }
}

Tensor ResNet::operator()(const Tensor& x, std::source_location where) const {
  Tensor y = max_pool2d(stem_(x, where).relu(), 3, {.stride = 2, .padding = 1}, where);
  for (const Block& block : blocks_) {
    Tensor z = y;
    for (size_t i = 0; i < block.layers.size(); i++)
      z = (i > 0 ? z.relu() : z), z = block.layers[i](z, where);
    y = (z + (block.shortcut ? (*block.shortcut)(y, where) : y)).relu();
  }
  return head_(y.mean({2, 3}), where);
}

} // namespace luminal::models
