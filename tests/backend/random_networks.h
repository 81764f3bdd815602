// backend/random_networks.h -- random networks as programs compose them with tensors: blocks of networks for
// images (branches that are joined, fire modules, dense blocks, residuals, expansions, groups that are
// shuffled, pools, parts and steps of results), products of matrices with broadcasts, Fourier transforms.
// Weights are set beforehand, arguments of each step, or both.
//
//   RandomNetwork n(seed);  n.module;  n.bindings(0), n.bindings(1): inputs and the size of the batch
#pragma once
#include "ir/interp.h"
#include "ir/random_inputs.h"
#include "luminal/luminal.h"
#include <cmath>
#include <random>

namespace luminal::testing_plans {

class RandomNetwork {
public:
  explicit RandomNetwork(uint64_t seed) : random_(seed * 7919 + 1), seed_(seed) {
    const DType dtypes[] = {DType::f32, DType::f32, DType::f32,  DType::f32, DType::f32,
                            DType::f32, DType::f32, DType::bf16, DType::f16, DType::f64};
    dtype_ = dtypes[below(10)];
    arguments_ = int(one_of({0, 0, 30, 100, 100}));
    if (chance(15))
      batch_ = graph_.dim("batch", 1, 9);
    else
      batch_ = one_of({1, 1, 2, 3, 5, 8});
    const int64_t kind = below(10);
    if (kind < 7)
      images();
    else if (kind < 9)
      matrices();
    else
      signals();
    module = parse_module(graph_.to_string());
  }

  /// Values between -1 and 1, or whole numbers between -2 and 2 in one of three.
  Bindings bindings(int which = 0) const {
    Bindings b;
    std::mt19937_64 random(seed_ * 31 + 7);
    const bool whole = seed_ % 3 == 0;
    for (const Expr s : module.symbols) b.symbols[std::string(s.name())] = which ? 7 : 2 - int64_t(seed_ % 2);
    for (const NodeId id : module.entry().params) {
      const auto& input = std::get<InputAttr>(module.entry()[id].attr);
      HostTensor t;
      t.dtype = input.type.dtype;
      int64_t count = 1;
      for (const Expr e : input.type.shape)
        t.shape.push_back(testing_ir::extent_of(e, b.symbols)), count *= t.shape.back();
      t.data.resize(size_t(storage_bytes(t.dtype, count)));
      for (int64_t i = 0; i < count; i++)
        if (is_float(t.dtype))
          store_f64(t.dtype, t.data.data(), i,
                    whole ? double(int64_t(random() % 5)) - 2
                          : double(int64_t(random() % 2001) - 1000) / 1000);
        else
          store_i64(t.dtype, t.data.data(), i, int64_t(random() % 4));
      b.inputs[input.name] = std::move(t);
    }
    return b;
  }

  Module module;

private:
  int64_t below(int64_t n) { return int64_t(random_() % uint64_t(n)); }
  bool chance(int percent) { return below(100) < percent; }
  int64_t one_of(std::initializer_list<int64_t> list) { return list.begin()[below(int64_t(list.size()))]; }
  Tensor argument(Dims shape) { return graph_.tensor(shape, dtype_); }
  Tensor weight(Dims shape) {
    if (chance(arguments_)) return graph_.tensor(shape, dtype_);
    return graph_.weight("w" + std::to_string(weights_++), shape, dtype_);
  }
  static int64_t size(const Tensor& x, int axis) { return x.dim(axis).value(); }
  static int64_t channels(const Tensor& x) { return size(x, 1); }
  int64_t some_channels() { return one_of({1, 2, 3, 4, 6, 8, 9, 12, 16, 17, 24, 31, 33}); }
  /// As many multiply-adds as a naive interpreter does in a moment.
  int64_t fitting(const Tensor& x, int64_t out, int64_t window) {
    const int64_t points = 8 * size(x, 2) * size(x, 3) * window * window * channels(x);
    return std::max<int64_t>(1, std::min(out, 400000 / std::max<int64_t>(1, points)));
  }

  // ---- images [batch, channels, height, width] ----
  Tensor activation(const Tensor& x) {
    switch (below(9)) {
    case 0: return x.silu();
    case 1: return x.relu6();
    case 2: return x.hardswish();
    case 3: return x.sigmoid();
    case 4: return x.leaky_relu(0.1);
    case 5: return x;
    default: return x.relu();
    }
  }
  Tensor norm(const Tensor& x) {
    const int64_t c = channels(x);
    if (chance(15)) return group_norm(x, c % 2 ? 1 : 2, weight({c}), weight({c}));
    if (chance(25)) return x * weight({c, 1, 1}) + weight({c, 1, 1});
    return chance(50) ? batch_norm(x, weight({c}), weight({c}).square() + 0.5, weight({c}), weight({c}))
                      : batch_norm(x, weight({c}), weight({c}).square() + 0.5);
  }
  /// A convolution that keeps the size where the step is 1 (and all but the ends where it is not), with a
  /// bias or without.
  Tensor conv(const Tensor& x, int64_t out, int64_t window, int64_t step = 1, int64_t groups = 1) {
    if (groups == 1) out = fitting(x, out, window);
    return conv2d(x, weight({out, channels(x) / groups, window, window}),
                  chance(60) ? weight({out}) : Tensor(),
                  {.stride = step, .padding = window / 2, .groups = groups});
  }
  Tensor unusual(const Tensor& x) {
    const int64_t out = fitting(x, some_channels(), 3), c = channels(x);
    switch (below(6)) {
    case 0: return conv2d(x, weight({out, c, 1, 3}), {}, {.padding = {0, 1}});
    case 1: return conv2d(x, weight({out, c, 3, 1}), weight({out}), {.padding = {1, 0}});
    case 2: return conv2d(x, weight({out, c, 3, 3}), {}, {.padding = 2, .dilation = 2});
    case 3: return conv2d(x, weight({out, c, 1, 1}), weight({out}), {.padding = 1}); // SqueezeNet's last
    case 4:
      return size(x, 2) * size(x, 3) > 100
                 ? x
                 : conv_transpose(x, weight({c, std::min<int64_t>(out, 8), 2, 2}), {}, {.stride = 2});
    default:
      if (size(x, 2) < 3 || size(x, 3) < 3) return x;
      return conv2d(x, weight({out, c, 3, 3}), weight({out}), {.stride = {2, 1}});
    }
  }
  Tensor depthwise(const Tensor& x, int64_t window, int64_t step = 1) {
    return conv(x, channels(x), window, step, channels(x));
  }
  Tensor pooled(const Tensor& x) {
    if (size(x, 2) < 3 || size(x, 3) < 3) return x;
    switch (below(7)) {
    case 0: return max_pool(x, {2, 2});
    case 1: return avg_pool(x, {2, 2});
    case 2: return max_pool(x, {3, 3}, {.stride = {2, 2}});
    case 3: return max_pool(x, {3, 3}, {.stride = {2, 2}, .padding = 1, .ceil_mode = true});
    case 4: return avg_pool(x, {3, 3}, {.stride = {1, 1}, .padding = 1}, chance(50));
    case 5: return adaptive_avg_pool(x, {2, 3});
    default: return max_pool(x, {3, 3}, {.stride = {1, 1}, .padding = 1});
    }
  }
  Tensor excited(const Tensor& x) {
    const int64_t c = channels(x), narrow = 1 + below(8);
    const Tensor down = conv2d(x.mean({2, 3}, true), weight({narrow, c, 1, 1}), weight({narrow})),
                 up = conv2d(activation(down), weight({c, narrow, 1, 1}), weight({c}));
    return x * (chance(50) ? up.sigmoid() : (up + 3).relu6() / 6);
  }
  Tensor inception(const Tensor& x) {
    std::vector<Tensor> branches;
    if (chance(80)) branches.push_back(activation(conv(x, some_channels(), 1)));
    branches.push_back(activation(conv(activation(conv(x, some_channels(), 1)), some_channels(), 3)));
    if (chance(70))
      branches.push_back(activation(conv(conv(x, some_channels(), 1).relu(), some_channels(), 5)));
    branches.push_back(
        activation(conv(max_pool(x, {3, 3}, {.stride = {1, 1}, .padding = 1}), some_channels(), 1)));
    if (chance(20)) branches.push_back(x);
    return concat(branches, 1);
  }
  Tensor fire(const Tensor& x) {
    const Tensor s = conv(x, some_channels(), 1).relu();
    return concat({conv(s, some_channels(), 1).relu(), conv(s, some_channels(), 3).relu()}, 1);
  }
  Tensor dense(const Tensor& x) {
    std::vector<Tensor> all{x};
    const int64_t growth = 1 + below(9);
    for (int64_t k = 2 + below(3); k > 0; k--) {
      Tensor h = all.size() > 1 ? concat(all, 1) : x;
      h = norm(h).relu();
      if (chance(30)) h = norm(conv(h, 2 * growth, 1)).relu();
      all.push_back(conv(h, growth, 3));
    }
    return concat(all, 1);
  }
  Tensor residual(const Tensor& x) {
    const int64_t step = size(x, 2) > 4 && size(x, 3) > 4 && chance(30) ? 2 : 1, c = channels(x);
    const Tensor h = norm(conv(norm(conv(x, some_channels(), 3, step)).relu(), c, 3));
    if (step == 1 && channels(h) == c && chance(70)) return (h + x).relu();
    return (h + conv2d(x, weight({channels(h), c, 1, 1}), {}, {.stride = step})).relu();
  }
  Tensor expanded(const Tensor& x) {
    Tensor h = activation(norm(conv(x, channels(x) * 3, 1)));
    h = activation(norm(depthwise(h, chance(70) ? 3 : 5)));
    if (chance(50)) h = excited(h);
    h = norm(conv(h, channels(x), 1));
    return channels(h) == channels(x) ? h + x : h;
  }
  Tensor shuffled(const Tensor& x) {
    const int64_t c = channels(x);
    if (c % 2) return depthwise(x, 3);
    const Tensor h = channel_shuffle(conv(x, c, 1, 1, 2).relu(), 2);
    if (chance(50)) return conv(depthwise(h, 3), c, 1, 1, 2) + x;
    const auto parts = h.chunk(2, 1);
    return channel_shuffle(concat({parts[0], conv(depthwise(parts[1], 3), c / 2, 1).relu()}, 1), 2);
  }
  Tensor part(const Tensor& x) {
    const int64_t h = size(x, 2), w = size(x, 3), c = channels(x);
    switch (below(6)) {
    case 0: return h > 2 && w > 2 ? x.slice(2, 0, h, 2).slice(3, 1, w, 2) : x;
    case 1: return c > 2 ? x.slice(1, 1, c, 2) : x;
    case 2: return c > 1 ? x.slice(1, c / 2, c) * x.slice(1, 0, c - c / 2) : x;
    case 3: return h > 2 ? x.slice(2, 1, h) : x;
    case 4: return x.flip(3);
    default: return x.permute({0, 1, 3, 2});
    }
  }
  Tensor moved(const Tensor& x) {
    const int64_t h = size(x, 2), w = size(x, 3), c = channels(x);
    switch (below(6)) {
    case 0: return h * w < 40 ? interpolate(x, {h * 2, w * 2}) : x;
    case 1: return c % 4 == 0 && h * w < 60 ? pixel_shuffle(x, 2) : x;
    case 2: return h % 2 == 0 && w % 2 == 0 ? pixel_unshuffle(x, 2) : x;
    case 3: return x.pad({{2, 1, 0}, {3, 0, 2}});
    case 4: return h > 1 && w > 1 ? x.pad({{2, 1, 1}, {3, 1, 1}}, PadMode::reflect) : x;
    default: return concat({x, argument({batch_, 1 + below(4), h, w})}, 1);
    }
  }
  /// Every pixel attends to every other one.
  Tensor attention(const Tensor& x) {
    const int64_t h = size(x, 2), w = size(x, 3), d = 1 + below(12);
    if (h * w > 64) return x;
    const auto tokens = [&](const Tensor& t) { return t.flatten(2).transpose(); };
    const Tensor q = tokens(conv(x, d, 1)), k = tokens(conv(x, d, 1));
    const Tensor y = scaled_dot_product_attention(q, k, tokens(x));
    return y.transpose().reshape({batch_, channels(x), h, w});
  }
  Tensor block(const Tensor& x) {
    switch (below(20)) {
    case 0:
    case 1: return inception(x);
    case 2:
    case 3: return fire(x);
    case 4: return dense(x);
    case 5: return residual(x);
    case 6: return expanded(x);
    case 7: return shuffled(x);
    case 8: return excited(x);
    case 9: return part(x);
    case 10: return moved(x);
    case 11: return unusual(x);
    case 12: return pooled(activation(conv(x, some_channels(), 3)));
    case 13: return pooled(x);
    case 14: return conv(depthwise(x, 3), some_channels(), 1);
    case 15: return norm(conv(x, some_channels(), 1)) + norm(conv(x, some_channels(), 1)).mean(1, true);
    case 16: return chance(40) ? attention(x) : activation(norm(x));
    default: return activation(conv(x, some_channels(), one_of({1, 3, 3, 3, 5}), one_of({1, 1, 2})));
    }
  }
  void images() {
    Tensor x = argument(
        {batch_, some_channels(), one_of({1, 2, 3, 4, 5, 7, 8, 10}), 0 + one_of({1, 2, 3, 4, 7, 8, 9})});
    for (int64_t k = 1 + below(4); k > 0; k--) {
      x = block(x);
      while (size(x, 2) * size(x, 3) > 150) x = pooled(x);
      if (channels(x) > 60) x = conv(x, 16, 1);
      if (chance(15)) x.keep();
    }
    if (chance(25)) x = classified(x);
    x.keep();
  }
  Tensor classified(const Tensor& x) {
    const int64_t classes = 1 + below(20);
    if (chance(40)) return conv(x, classes, 1).relu().mean({2, 3}); // SqueezeNet
    const Tensor h = chance(50) ? x.mean({2, 3}) : x.flatten(1);
    const int64_t deep = size(h, 1);
    const Tensor y = linear(h, weight({classes, deep}), chance(60) ? weight({classes}) : Tensor());
    return chance(30) ? y.softmax(-1) : y;
  }

  // ---- matrices [batch, rows, columns] ----
  Tensor product(const Tensor& x, int64_t columns) {
    const int64_t rows = size(x, 1), deep = size(x, 2);
    switch (below(5)) {
    case 0: return x.matmul(weight({deep, columns}));    // a common matrix
    case 1: return x.matmul(weight({1, deep, columns})); // broadcast
    case 2: return linear(x, weight({columns, deep}), weight({columns}));
    case 3: return weight({rows, rows}).matmul(x).mean(-1, true) * weight({columns}); // from the left
    default: return x.unsqueeze(1).matmul(weight({2, deep, columns})).sum(1);         // two at once
    }
  }
  void matrices() {
    Tensor x = argument({batch_, 1 + below(20), 1 + below(50)});
    for (int64_t k = 2 + below(4); k > 0; k--) {
      const int64_t deep = size(x, 2), columns = one_of({1, 2, 7, 8, 16, 17, 31, 48, 62});
      switch (below(12)) {
      case 0: x = x.softmax(-1); break;
      case 1: x = layer_norm(x, weight({deep}), weight({deep})); break;
      case 2: x = x.transpose(); break;
      case 3: x = product(x, columns).gelu() * product(x, 1); break;
      case 4: {
        const Tensor y = product(x, columns);
        x = concat({y, x.slice(1, 0, size(y, 1))}, 2);
        break;
      }
      case 5:
        x = scaled_dot_product_attention(linear(x, weight({8, deep})), linear(x, weight({8, deep})), x);
        break;
      case 6: x = linear(linear(x, weight({4, deep})), weight({deep, 4})) + x; break;
      case 7: x = deep > 1 ? x.slice(2, 1, deep, 2) : x; break;
      case 8: x = linear(x, weight({2 * columns, deep}), weight({2 * columns})).glu(-1); break;
      case 9: x = rms_norm(x, weight({deep})).tanh(); break;
      default: x = product(x, columns);
      }
      if (chance(15)) x.keep();
    }
    x.keep();
  }

  // ---- signals [batch, samples] ----
  void signals() {
    if (dtype_ == DType::bf16 || dtype_ == DType::f16) dtype_ = DType::f32;
    const int64_t n = one_of({1, 2, 3, 4, 5, 8, 12, 15, 16, 17, 24, 30, 31, 32, 36, 48, 64});
    Tensor x = argument({batch_, n});
    for (int64_t k = 1 + below(3); k > 0; k--) {
      const int64_t m = size(x, 1);
      switch (below(6)) {
      case 0: { // a filter by its spectrum
        const auto a = rfft(x).unbind(-1), b = rfft(weight({m})).unbind(-1);
        x = irfft(stack({a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]}, -1), m);
        break;
      }
      case 1: { // frames, windowed; their power
        const int64_t frame = 1 + below(std::min<int64_t>(m, 16));
        x = rfft(pool_last_dim(x, frame, 1 + below(4)) * weight({frame})).square().sum(-1).sum(-1);
        break;
      }
      case 2: x = fft(stack({x, x.flip(1)}, -1)).unbind(-1)[size_t(below(2))]; break;
      case 3: x = ifft(fft(stack({x, x.tanh()}, -1)) * weight({m, 1})).square().sum(-1); break;
      case 4: x = m < 4 ? x : irfft(rfft(x).slice(1, 0, 2 + below(m / 2 - 1))); break;
      default: x = (rfft(x.pad(1, 1, 2)).sum(-1) + 1) * weight({(m + 3) / 2 + 1}); break;
      }
      if (size(x, 1) == 0 || size(x, 1) > 100) break;
    }
    x.keep();
  }

  std::mt19937_64 random_;
  uint64_t seed_;
  Graph graph_;
  DType dtype_ = DType::f32;
  Dim batch_ = 1;
  int arguments_ = 0, weights_ = 0;
};

} // namespace luminal::testing_plans
