// models/mamba.cpp -- Mamba-2: h <- exp(dt A) h + dt x B^T, y = h C + D x, for each head.
#include "luminal/mamba.h"
#include "luminal/indexing.h"
#include "luminal/random.h"
#include <fmt/format.h>

namespace luminal::models {

Mamba2::Layer::Layer(const nn::Scope& s, const MambaConfig& c, std::source_location where)
    : norm(s / "norm", c.width, c.eps, 0, where),
      in(s / "mixer.in_proj", c.width, 2 * c.inner() + 2 * c.groups * c.state + c.heads, {.bias = false},
         where),
      convolution(s / "mixer.conv1d", c.inner() + 2 * c.groups * c.state, c.inner() + 2 * c.groups * c.state,
                  c.kernel, {.padding = c.kernel - 1, .groups = c.inner() + 2 * c.groups * c.state}, where),
      out(s / "mixer.out_proj", c.inner(), c.width, {.bias = false}, where) {
  decay = (s / "mixer").parameter("A_log", {c.heads}, nn::init::zeros(), where);
  skip = (s / "mixer").parameter("D", {c.heads}, nn::init::ones(), where);
  step_bias = (s / "mixer").parameter("dt_bias", {c.heads}, nn::init::ones(), where);
  gated_norm = (s / "mixer.norm").parameter("weight", {c.inner()}, nn::init::ones(), where);
}

Mamba2::Mamba2(const nn::Scope& s, const MambaConfig& c, std::source_location where)
    : Module(s), config_(c), embeddings_(s / "backbone.embeddings", c.vocabulary, c.width, {}, where),
      norm_(s / "backbone.norm_f", c.width, c.eps, 0, where) {
  if (c.groups < 1 || c.heads % c.groups)
    throw Error("Mamba2", fmt::format("{} heads are not a multiple of {} groups", c.heads, c.groups), where);
  for (int64_t i = 0; i < c.layers; i++) layers_.emplace_back(s / "backbone.layers" / i, c, where);
  if (!c.tied) head_.emplace(s / "lm_head", c.width, c.vocabulary, nn::LinearOptions{.bias = false}, where);
}

/// x [n, width], normalised -> [n, width].
Tensor Mamba2::mix(const Layer& layer, const Tensor& x, std::source_location where) const {
  const int64_t inner = config_.inner(), heads = config_.heads, size = config_.head_size,
                state = config_.state, groups = config_.groups, mixed = inner + 2 * groups * state;
  const Dim n = x.dim(0);
  const auto parts = layer.in(x, where).split({inner, mixed, heads}, 1); // gate; x, B and C; dt
  // Each channel by its own filter over the last tokens.
  const Tensor filtered =
      layer.convolution(parts[1].t().unsqueeze(0), where).squeeze(0).slice(1, 0, n).t().silu(); // [n, mixed]
  const auto xbc = filtered.split({inner, groups * state, groups * state}, 1);
  const auto of_heads = [&](const Tensor& t) { // those of a group are shared by its heads
    return t.reshape({n, groups, state}).repeat_interleave(heads / groups, 1);
  };
  const Tensor values = xbc[0].reshape({n, heads, size});
  const Tensor dt = (parts[2] + layer.step_bias.value()).softplus(); // [n, heads]
  const Tensor keep = (dt * -layer.decay.value().exp()).exp();       // exp(dt A)
  Graph graph = scope().graph();
  const auto run = graph.loop(
      n, {zeros(graph, {heads, size, state}, x.dtype(), where)},
      {keep, values * dt.unsqueeze(2), of_heads(xbc[1]), of_heads(xbc[2])}, {},
      [&](Graph&, const Tensor&, const std::vector<Tensor>& carried, const std::vector<Tensor>& now,
          const std::vector<Tensor>&) {
        const Tensor h =
            carried[0] * now[0].reshape({heads, 1, 1}) + now[1].unsqueeze(2) * now[2].unsqueeze(1);
        return Graph::LoopResult{{h}, {(h * now[3].unsqueeze(1)).sum(2)}};
      },
      where);
  const Tensor y = run.stacked[0] + values * layer.skip.value().unsqueeze(1); // [n, heads, size]
  // The norm is that of each group.
  const Tensor gated = (y.reshape({n, inner}) * parts[0].silu()).reshape({n, groups, inner / groups});
  return layer.out(gated.rms_norm(config_.eps).reshape({n, inner}) * layer.gated_norm.value(), where);
}

Tensor Mamba2::operator()(const Tensor& tokens, std::source_location where) const {
  Tensor x = embeddings_(tokens, where);
  for (const Layer& layer : layers_) x = x + mix(layer, layer.norm(x, where), where);
  x = norm_(x, where);
  return head_ ? (*head_)(x, where) : embeddings_.logits(x, where);
}

} // namespace luminal::models
