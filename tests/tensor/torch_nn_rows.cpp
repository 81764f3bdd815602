// tests/tensor/torch_nn_rows.cpp -- products, convolution, pooling, resampling, normalisation,
// Fourier transforms, and small composed models.
#include "torch_cases.h"
#include <cmath>

namespace luminal::test {
namespace {

using C = const CaseCall&;

Ints ints(C c, const std::string& name, int64_t fallback) {
  const std::vector<int> list = c.attrs.integers(name);
  return list.empty() ? Ints(fallback) : Ints(std::vector<int64_t>(list.begin(), list.end()));
}
std::vector<int64_t> kernel(C c, size_t axes) {
  std::vector<int64_t> list = ints(c, "kernel", 2).list;
  if (list.size() == 1) list.resize(axes, list[0]);
  return list;
}
Tensor optional(C c, size_t i) { return i < c.in.size() ? c[i] : Tensor(); }

template <size_t axes> Tensor convolution(C c) {
  ConvOptions options{.stride = ints(c, "stride", 1),
                      .dilation = ints(c, "dilation", 1),
                      .groups = c.attrs.integer("groups", 1)};
  if (c.attrs.has("word"))
    options.padding = c.attrs.text("word").c_str();
  else
    options.padding = ConvPadding(ints(c, "padding", 0).list);
  return axes == 1   ? conv1d(c[0], c[1], optional(c, 2), options)
         : axes == 2 ? conv2d(c[0], c[1], optional(c, 2), options)
                     : conv3d(c[0], c[1], optional(c, 2), options);
}
Tensor transposed(C c) {
  return conv_transpose(c[0], c[1], optional(c, 2),
                        {.stride = ints(c, "stride", 1),
                         .padding = ints(c, "padding", 0),
                         .output_padding = ints(c, "output_padding", 0),
                         .dilation = ints(c, "dilation", 1),
                         .groups = c.attrs.integer("groups", 1)});
}
PoolOptions pool_options(C c) {
  PoolOptions options{.padding = ints(c, "padding", 0),
                      .dilation = ints(c, "dilation", 1),
                      .ceil_mode = c.attrs.flag("ceil_mode")};
  if (c.attrs.has("stride")) options.stride = ints(c, "stride", 1);
  return options;
}
template <size_t axes> Tensor average(C c) {
  return avg_pool(c[0], kernel(c, axes), pool_options(c), c.attrs.flag("count_include_pad", true),
                  c.attrs.integer("divisor", 0));
}
std::vector<int64_t> sizes(C c) { return ints(c, "sizes", 1).list; }

Tensor resampled(C c, Interpolation mode) {
  Dims to;
  if (c.attrs.has("scale"))
    for (int d = 2; d < c[0].rank(); ++d) to.push_back(c[0].dim(d) * c.attrs.integer("scale"));
  else
    for (int64_t size : sizes(c)) to.emplace_back(size);
  return interpolate(c[0], to, mode, c.attrs.flag("align_corners"));
}

const TorchOps product_rows{
    {"matmul", [](C c) { return c[0].matmul(c[1]); }},
    {"linear", [](C c) { return linear(c[0], c[1], optional(c, 2)); }},
    {"bilinear", [](C c) { return bilinear(c[0], c[1], c[2], optional(c, 3)); }},
    {"einsum", [](C c) { return einsum(c.attrs.text("eq"), c.in); }},
    {"tensordot",
     [](C c) {
       if (c.attrs.has("count")) return tensordot(c[0], c[1], c.attrs.integer("count"));
       return tensordot(c[0], c[1], c.attrs.integers("a"), c.attrs.integers("b"));
     }},
    {"dot", [](C c) { return dot(c[0], c[1]); }},
    {"inner", [](C c) { return inner(c[0], c[1]); }},
    {"outer", [](C c) { return outer(c[0], c[1]); }},
    {"mv", [](C c) { return mv(c[0], c[1]); }},
    {"bmm", [](C c) { return bmm(c[0], c[1]); }},
    {"cosine_similarity", [](C c) { return cosine_similarity(c[0], c[1], c.attrs.integer("dim", 1)); }},
    {"sdpa",
     [](C c) {
       AttentionOptions options{.mask = optional(c, 3), .causal = c.attrs.flag("causal")};
       if (c.attrs.has("scale_number")) options.scale = c.attrs.number("scale_number");
       return scaled_dot_product_attention(c[0], c[1], c[2], options);
     }},
    {"gqa", [](C c) { return scaled_dot_product_attention(c[0], c[1], c[2], {.causal = true}); }},
};

const TorchOps window_rows{
    {"conv1d", convolution<1>},
    {"conv2d", convolution<2>},
    {"conv3d", convolution<3>},
    {"conv_transpose1d", transposed},
    {"conv_transpose2d", transposed},
    {"conv_transpose3d", transposed},
    {"max_pool1d", [](C c) { return max_pool(c[0], kernel(c, 1), pool_options(c)); }},
    {"max_pool2d", [](C c) { return max_pool(c[0], kernel(c, 2), pool_options(c)); }},
    {"max_pool3d", [](C c) { return max_pool(c[0], kernel(c, 3), pool_options(c)); }},
    {"max_pool2d_indices",
     [](C c) {
       MaxPool pool = max_pool_with_indices(c[0], kernel(c, 2), pool_options(c));
       return CaseOutputs{pool.values, pool.indices};
     }},
    {"avg_pool1d", average<1>},
    {"avg_pool2d", average<2>},
    {"avg_pool3d", average<3>},
    {"lp_pool2d", [](C c) { return lp_pool(c[0], c.attrs.number("p"), kernel(c, 2), pool_options(c)); }},
    {"global_avg_pool", [](C c) { return adaptive_avg_pool(c[0], {1, 1}); }},
    {"adaptive_avg_pool", [](C c) { return adaptive_avg_pool(c[0], sizes(c)); }},
    {"adaptive_max_pool", [](C c) { return adaptive_max_pool(c[0], sizes(c)); }},
    {"upsample_nearest", [](C c) { return resampled(c, Interpolation::nearest); }},
    {"upsample_nearest_exact", [](C c) { return resampled(c, Interpolation::nearest_exact); }},
    {"upsample_bilinear", [](C c) { return resampled(c, Interpolation::linear); }},
    {"upsample_linear", [](C c) { return resampled(c, Interpolation::linear); }},
    {"upsample_bicubic", [](C c) { return resampled(c, Interpolation::cubic); }},
    {"pixel_shuffle", [](C c) { return pixel_shuffle(c[0], c.attrs.integer("factor")); }},
    {"pixel_unshuffle", [](C c) { return pixel_unshuffle(c[0], c.attrs.integer("factor")); }},
    {"fft", [](C c) { return fft(c[0]); }},
    {"ifft", [](C c) { return ifft(c[0]); }},
    {"rfft", [](C c) { return rfft(c[0]); }},
    {"irfft", [](C c) { return irfft(c[0], c.attrs.integer("n", 0)); }},
};

double eps(C c) { return c.attrs.number("eps", 1e-5); }

const TorchOps norm_rows{
    {"layer_norm",
     [](C c) {
       return c.in.size() == 1 ? c[0].layer_norm(c.attrs.integers("dim"), eps(c))
                               : layer_norm(c[0], c[1], optional(c, 2), eps(c));
     }},
    {"rms_norm", [](C c) { return c.in.size() == 1 ? c[0].rms_norm(eps(c)) : rms_norm(c[0], c[1], eps(c)); }},
    {"group_norm",
     [](C c) { return group_norm(c[0], c.attrs.integer("groups"), optional(c, 1), optional(c, 2), eps(c)); }},
    {"instance_norm", [](C c) { return instance_norm(c[0], optional(c, 1), optional(c, 2), eps(c)); }},
    {"batch_norm",
     [](C c) {
       if (!c.attrs.has("training"))
         return batch_norm(c[0], c[1], c[2], optional(c, 3), optional(c, 4), eps(c));
       if (!c.attrs.flag("training")) return batch_norm(c[0], c[3], c[4], c[1], c[2], eps(c));
       VarMean m = var_mean(c[0], {0, 2, 3}, 0);
       return batch_norm(c[0], m.mean, m.var, c[1], c[2], eps(c));
     }},
};

/// Tokens [.., t, d] turned by their places: pairs are contiguous or half a row apart.
Tensor rope(C c) {
  const bool half = c.attrs.text("style") == "half";
  const Dim time = c[0].dim(-2), size = c[0].dim(-1);
  const int64_t pairs = size.value() / 2;
  Tensor rate = pow(c.attrs.number("base"), c.graph.arange(pairs).cast(DType::f32) * (-1.0 / double(pairs)));
  Tensor angle = outer(c.graph.arange(time).cast(DType::f32), rate);
  Dims split = c[0].shape();
  split.back() = half ? 2 : pairs;
  split.emplace_back(half ? pairs : 2);
  Tensor parts = c[0].reshape(split);
  const int of_pair = half ? -2 : -1;
  Tensor first = parts.slice(of_pair, 0, 1), second = parts.slice(of_pair, 1, 2);
  Tensor cosine = angle.cos().unsqueeze(of_pair), sine = angle.sin().unsqueeze(of_pair);
  return concat({first * cosine - second * sine, second * cosine + first * sine}, of_pair)
      .reshape(c[0].shape());
}

/// step(gates of x, gates of the hidden state, what is carried beside it) -> the hidden state.
CaseOutputs recurrent(C c,
                      const std::function<Tensor(const Tensor& x, const Tensor& h, Tensor& carried)>& step) {
  Tensor h = c.graph.constant(0).expand({c[0].dim(0), c[2].dim(1)}), carried = h;
  std::vector<Tensor> steps;
  for (int64_t t = 0; t < c[0].dim(1).value(); ++t) {
    h = step(linear(c[0].slice(1, t, t + 1).squeeze(1), c[1], c[3]), linear(h, c[2], c[4]), carried);
    steps.push_back(h.unsqueeze(1));
  }
  return concat(steps, 1);
}
Tensor gate(const Tensor& gates, int i, int count) {
  const int64_t size = gates.dim(-1).value() / count;
  return gates.slice(-1, i * size, (i + 1) * size);
}

Tensor cross_entropy(C c) {
  Tensor log_p = c[0].log_softmax(1), classes = c.graph.arange(c[0].dim(1));
  Tensor chosen = where(equal(c[1].unsqueeze(1), classes), log_p, 0.0).sum(1);
  const double smooth = c.attrs.number("label_smoothing", 0);
  Tensor loss = -((1 - smooth) * chosen + smooth * log_p.mean(1));
  return c.attrs.text("reduction") == "sum" ? loss.sum() : loss.mean();
}

const TorchOps model_rows{
    {"causal_softmax",
     [](C c) {
       const Dim n = c[0].dim(-1);
       Tensor seen = c.graph.arange(n) <= c.graph.arange(n).unsqueeze(1);
       return masked_fill(c[0], !seen, -INFINITY).softmax(-1);
     }},
    {"cross_entropy", [](C c) { return cross_entropy(c); }},
    {"nll_loss",
     [](C c) {
       Tensor classes = c.graph.arange(c[0].dim(1));
       return -where(equal(c[1].unsqueeze(1), classes), c[0], 0.0).sum(1).mean();
     }},
    {"mse_loss", [](C c) { return (c[0] - c[1]).square().mean(); }},
    {"l1_loss", [](C c) { return (c[0] - c[1]).abs().mean(); }},
    {"smooth_l1_loss",
     [](C c) {
       Tensor d = (c[0] - c[1]).abs();
       return where(d < 1, 0.5 * d * d, d - 0.5).mean();
     }},
    {"huber_loss",
     [](C c) {
       Tensor d = (c[0] - c[1]).abs();
       return where(d <= 1, 0.5 * d * d, d - 0.5).mean();
     }},
    {"bce_with_logits", [](C c) { return (c[0].relu() - c[0] * c[1] + (-c[0].abs()).exp().log1p()).mean(); }},
    {"kl_div",
     [](C c) {
       Tensor p = c[1].log_softmax(1);
       return (p.exp() * (p - c[0].log_softmax(1))).sum() / c[0].dim(0);
     }},
    {"rope", [](C c) { return rope(c); }},
    {"swiglu", [](C c) { return linear(linear(c[0], c[1]).silu() * linear(c[0], c[2]), c[3]); }},
    {"lstm",
     [](C c) {
       return recurrent(c, [](const Tensor& x, const Tensor& h, Tensor& cell) {
         Tensor all = x + h;
         cell = gate(all, 1, 4).sigmoid() * cell + gate(all, 0, 4).sigmoid() * gate(all, 2, 4).tanh();
         return gate(all, 3, 4).sigmoid() * cell.tanh();
       });
     }},
    {"gru",
     [](C c) {
       return recurrent(c, [](const Tensor& x, const Tensor& h, Tensor& state) {
         Tensor reset = (gate(x, 0, 3) + gate(h, 0, 3)).sigmoid(),
                update = (gate(x, 1, 3) + gate(h, 1, 3)).sigmoid();
         Tensor fresh = (gate(x, 2, 3) + reset * gate(h, 2, 3)).tanh();
         state = (1 - update) * fresh + update * state;
         return state;
       });
     }},
};

} // namespace
} // namespace luminal::test
