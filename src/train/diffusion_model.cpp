// train/diffusion_model.cpp -- a small U-Net that predicts noise.
#include "luminal/functions.h"
#include "luminal/indexing.h"
#include "luminal/losses.h"
#include "luminal/nn_functions.h"
#include "luminal/random.h"
#include "luminal/train_models.h"
#include "tensor/graph_state.h"
#include <cmath>
#include <fmt/format.h>
#include <numbers>

namespace luminal::train_models {
namespace {

class Network {
public:
  Network(ModelScope& m, const Tensor& time, const DiffusionOptions& o) : m_(m), o_(o) {
    const int64_t half = o.width / 2;
    const Tensor rates =
        (m.graph().arange(half).cast(DType::f32) * (-std::log(10000.0) / double(half))).exp();
    const Tensor angle = time.cast(DType::f32).unsqueeze(1) * rates;
    time_ = layer(concat({angle.sin(), angle.cos()}, 1), "time.0", 4 * o.width).silu();
  }
  Tensor layer(const Tensor& x, const std::string& name, int64_t out) {
    const Tensor w = m_.parameter(name + ".weight", {out, x.dim(1)}, init::fan_in());
    return linear(x.cast(w.dtype()), w, m_.parameter(name + ".bias", {out})).cast(DType::f32);
  }
  Tensor conv(const Tensor& x, const std::string& name, int64_t out, const Init& first = init::he()) {
    const Tensor w = m_.parameter(name + ".weight", {out, x.dim(1), 3, 3}, first);
    return conv2d(x.cast(w.dtype()), w, m_.parameter(name + ".bias", {out}), {.padding = 1}).cast(DType::f32);
  }
  /// Two convolutions; the time is added between them; the way around is a product of its own where
  /// the channels differ.
  Tensor block(const Tensor& x, const std::string& name, int64_t out) {
    Tensor h = conv(norm(x, name + ".norm1").silu(), name + ".conv1", out);
    h = h + layer(time_, name + ".time", out).unsqueeze(2).unsqueeze(3);
    h = conv(norm(h, name + ".norm2").silu(), name + ".conv2", out, init::normal(0.01));
    if (x.dim(1).value() == out) return x + h;
    const Tensor w = m_.parameter(name + ".skip.weight", {out, x.dim(1), 1, 1}, init::fan_in());
    return conv2d(x.cast(w.dtype()), w).cast(DType::f32) + h;
  }
  Tensor norm(const Tensor& x, const std::string& name) {
    const Dim channels = x.dim(1);
    return group_norm(x, 4, m_.parameter(name + ".weight", {channels}, init::constant(1)).cast(DType::f32),
                      m_.parameter(name + ".bias", {channels}).cast(DType::f32));
  }

private:
  ModelScope& m_;
  const DiffusionOptions& o_;
  Tensor time_;
};

} // namespace

Tensor diffusion_signal(const Tensor& time, const DiffusionOptions& o) {
  constexpr double shift = 0.008; // so that the first steps add some noise
  const auto at = [](const Tensor& part) {
    return ((part + shift) * (std::numbers::pi / 2 / (1 + shift))).cos().square();
  };
  const double begin = std::pow(std::cos(shift / (1 + shift) * std::numbers::pi / 2), 2);
  return clip(at(time.cast(DType::f32) / double(o.steps)) / begin, 1e-5, 1.0);
}

Tensor diffusion_noise(ModelScope& m, const Tensor& noisy, const Tensor& time, const DiffusionOptions& o) {
  if (o.width < 4 || o.width % 4 != 0)
    throw Error(fmt::format("[diffusion] width {}: a multiple of 4 is expected", o.width));
  const Dim height = noisy.dim(2), width = noisy.dim(3);
  Network net(m, time, o);
  const Tensor first = net.block(net.conv(noisy, "stem", o.width), "down", o.width);
  Tensor h = net.block(avg_pool2d(first, 2), "middle.0", 2 * o.width);
  h = net.block(h, "middle.1", 2 * o.width);
  h = net.block(concat({interpolate(h, {height, width}), first}, 1), "up", o.width);
  return net.conv(net.norm(h, "last.norm").silu(), "last", noisy.dim(1).value(), init::normal(0.01));
}

ModelFunction diffusion(const DiffusionOptions& o) {
  return [o](ModelScope& m) {
    Tensor x = m.input("x");
    x = x.dtype() == DType::u8 ? x.cast(DType::f32) / 255.0 : x.cast(DType::f32);
    if (x.rank() == 3) x = x.unsqueeze(1);
    x = x * 2.0 - 1.0;
    const Dim n = x.dim(0);
    const Tensor time = random_int(m.key("diffusion.time"), {n}, 1, o.steps + 1);
    const Tensor noise = random_normal(m.key("diffusion.noise"), x.shape());
    const Tensor signal = diffusion_signal(time, o).reshape({n, 1, 1, 1});
    const Tensor noisy = x * signal.sqrt() + noise * (1.0 - signal).sqrt();
    return StepResults{mse_loss(diffusion_noise(m, noisy, time, o), noise)};
  };
}

} // namespace luminal::train_models
