// train/vision_models.cpp -- perceptron, convolutional networks, ResNet.
#include "luminal/autograd.h"
#include "luminal/functions.h"
#include "luminal/losses.h"
#include "luminal/nn_functions.h"
#include "luminal/train_models.h"
#include "tensor/graph_state.h"
#include <fmt/format.h>

namespace luminal::train_models {
namespace {

/// Whole numbers of 8 bits are parts of 255.
Tensor numbers(ModelScope& m) {
  const Tensor x = m.input("x");
  return x.dtype() == DType::u8 ? x.cast(DType::f32) / 255.0 : x.cast(DType::f32);
}
/// [n, channels, height, width].
Tensor pictures(ModelScope& m) {
  const Tensor x = numbers(m);
  if (x.rank() == 3) return x.unsqueeze(1);
  if (x.rank() != 4)
    throw Error(
        fmt::format("[cnn] x is {}: pictures [n, height, width] or [n, channels, height, width] are expected",
                    to_string(type_of(x))));
  return x;
}

StepResults judged(ModelScope& m, const Tensor& outputs) {
  const Tensor y = m.input("y");
  if (!is_float(y.dtype())) return {cross_entropy(outputs, y), {{"accuracy", accuracy(outputs, y)}}};
  const Tensor target = y.rank() == 1 ? y.unsqueeze(1) : y.flatten(1);
  return {mse_loss(outputs.cast(DType::f32), target)};
}

Tensor layer(ModelScope& m, const Tensor& x, const std::string& name, int64_t outputs) {
  const Dim inputs = x.dim(1);
  const Tensor w = m.parameter(name + ".weight", {outputs, inputs}, init::fan_in());
  const Tensor b = m.parameter(name + ".bias", {outputs}, init::constant(0));
  m.group({name + ".bias"}, {.weight_decay = 0});
  return linear(x.cast(w.dtype()), w, b);
}

Tensor convolved(ModelScope& m, const Tensor& x, const std::string& name, int64_t out, int64_t kernel,
                 int64_t stride) {
  const Tensor w = m.parameter(name + ".weight", {out, x.dim(1), kernel, kernel}, init::he());
  return conv2d(x.cast(w.dtype()), w, {}, {.stride = stride, .padding = kernel / 2});
}

/// BatchNorm: statistics of the batch where it trains, running ones where it validates.
Tensor normed(ModelScope& m, const Tensor& x, const std::string& name, double momentum) {
  const Dim channels = x.dim(1);
  const Tensor weight = m.parameter(name + ".weight", {channels}, init::constant(1)),
               bias = m.parameter(name + ".bias", {channels});
  m.group({name + ".weight", name + ".bias"}, {.weight_decay = 0});
  const Tensor mean = m.running(name + ".running_mean", {channels}, 0),
               var = m.running(name + ".running_var", {channels}, 1);
  const Tensor wide = x.cast(DType::f32);
  const auto scaled = [&](const Tensor& centre, const Tensor& spread) {
    return batch_norm(wide, centre, spread, weight.cast(DType::f32), bias.cast(DType::f32));
  };
  if (!m.training()) return scaled(mean, var);
  const Tensor own_mean = wide.mean({0, 2, 3}), own_var = wide.var({0, 2, 3}, 0);
  const Dim count = x.dim(0) * x.dim(2) * x.dim(3);
  const double unbiased =
      count.is_constant() && count.value() > 1 ? double(count.value()) / double(count.value() - 1) : 1;
  m.update(mean, mean * (1 - momentum) + stop_gradient(own_mean) * momentum);
  m.update(var, var * (1 - momentum) + stop_gradient(own_var) * (momentum * unbiased));
  return scaled(own_mean, own_var);
}

} // namespace

ModelFunction mlp(const MlpOptions& o) {
  return [o](ModelScope& m) {
    Tensor h = numbers(m);
    h = h.rank() == 1 ? h.unsqueeze(1) : h.flatten(1);
    for (size_t k = 0; k < o.hidden.size(); ++k)
      h = m.dropout(layer(m, h, fmt::format("layers.{}", k), o.hidden[k]).relu(), o.dropout);
    return judged(m, layer(m, h, fmt::format("layers.{}", o.hidden.size()), o.outputs));
  };
}

ModelFunction cnn(const CnnOptions& o) {
  return [o](ModelScope& m) {
    Tensor h = pictures(m);
    for (size_t k = 0; k < o.channels.size(); ++k) {
      const std::string name = fmt::format("conv{}", k + 1);
      const Tensor bias = m.parameter(name + ".bias", {o.channels[k]});
      m.group({name + ".bias"}, {.weight_decay = 0});
      h = max_pool2d(
          (convolved(m, h, name, o.channels[k], 3, 1) + bias.reshape({o.channels[k], 1, 1})).relu(), 2);
    }
    return judged(m, layer(m, m.dropout(h.flatten(1), o.dropout), "fc", o.classes));
  };
}

ModelFunction resnet(const ResNetOptions& o) {
  return [o](ModelScope& m) {
    Tensor h = normed(m, convolved(m, pictures(m), "conv1", o.width, 3, 1), "bn1", o.momentum).relu();
    int64_t channels = o.width;
    for (size_t stage = 0; stage < o.blocks.size(); ++stage) {
      const int64_t out = o.width << stage;
      for (int64_t block = 0; block < o.blocks[stage]; ++block) {
        const std::string name = fmt::format("layer{}.{}", stage + 1, block);
        const int64_t stride = stage > 0 && block == 0 ? 2 : 1;
        Tensor side = h;
        if (stride != 1 || channels != out)
          side = normed(m, convolved(m, h, name + ".downsample.0", out, 1, stride), name + ".downsample.1",
                        o.momentum);
        h = normed(m, convolved(m, h, name + ".conv1", out, 3, stride), name + ".bn1", o.momentum).relu();
        h = (normed(m, convolved(m, h, name + ".conv2", out, 3, 1), name + ".bn2", o.momentum) + side).relu();
        channels = out;
      }
    }
    return judged(m, layer(m, h.mean({2, 3}), "fc", o.classes));
  };
}

} // namespace luminal::train_models
