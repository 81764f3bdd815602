// models/decoder_experts.cpp -- the feed-forward part of a decoder: dense, or a mixture of experts.
#include "luminal/indexing.h"
#include "luminal/operators.h"
#include "models/decoder_builder.h"
#include <cmath>

namespace luminal::models {

const std::map<std::string, Activation>& decoder_activations() {
  static const std::map<std::string, Activation> activations{
      {"gelu", [](const Tensor& x) { return x.gelu(); }},
      {"gelu_fast", [](const Tensor& x) { return x.gelu_tanh(); }},
      {"gelu_new", [](const Tensor& x) { return x.gelu_tanh(); }},
      {"gelu_pytorch_tanh", [](const Tensor& x) { return x.gelu_tanh(); }},
      {"relu", [](const Tensor& x) { return x.relu(); }},
      {"silu", [](const Tensor& x) { return x.silu(); }},
      {"swish", [](const Tensor& x) { return x.silu(); }}};
  return activations;
}

Tensor DecoderBuilder::activated(const Tensor& x) const {
  return decoder_activations().at(config_.activation)(x);
}

Tensor DecoderBuilder::gated(const Tensor& x, Part gate, Part up, Part down, int64_t inner, int64_t layer) {
  const int64_t hidden = config_.hidden_size;
  const bool bias = config_.mlp_bias;
  const Tensor y = activated(weights_->linear(x, gate, layer, inner, hidden, bias)) *
                   weights_->linear(x, up, layer, inner, hidden, bias);
  return weights_->linear(y, down, layer, hidden, inner, bias);
}

Tensor DecoderBuilder::feed_forward(const Tensor& x, int64_t layer) {
  const int64_t hidden = config_.hidden_size, inner = config_.intermediate_size;
  const bool bias = config_.mlp_bias, joint = config_.gated && weights_->has(Part::gate_up, layer);
  if (config_.gated && !joint) return gated(x, Part::gate, Part::up, Part::down, inner, layer);
  const Tensor all =
      weights_->linear(x, joint ? Part::gate_up : Part::up, layer, joint ? 2 * inner : inner, hidden, bias);
  const Tensor y =
      joint ? activated(all.slice(1, 0, inner)) * all.slice(1, inner, 2 * inner) : activated(all);
  return weights_->linear(y, Part::down, layer, hidden, inner, bias);
}

/// The experts that the router gives the largest weights (Shazeer et al. 2017, arXiv:1701.06538). With a bias
/// (DeepSeek-V3, arXiv:2412.19437) they are chosen by weight and bias, and mixed by weight. With groups only
/// those of the best groups may be chosen: a group counts as much as its best expert, or, with a bias, as its
/// best two.
DecoderBuilder::Routes DecoderBuilder::route(const Tensor& x, int64_t layer) {
  const int64_t count = config_.num_experts, groups = config_.expert_groups;
  const Tensor logits = weights_->linear(x, Part::router, layer, count, config_.hidden_size); // [n, count]
  const Tensor weights = config_.sigmoid_router ? logits.sigmoid() : logits.softmax(-1);
  const bool biased = weights_->has_router_bias(layer);
  Tensor score = biased ? weights + weights_->router_bias(layer) : weights;
  if (config_.expert_groups_used < groups) {
    const Tensor members = score.reshape({*n_, groups, count / groups});
    const Tensor of_group = biased && count / groups > 1 ? members.topk(2).values.sum(-1) : members.max(-1);
    const Tensor used = of_group.topk(config_.expert_groups_used).indices; // [n, groups used]
    const Tensor group = model_.graph.arange(groups, DType::i64);
    const Tensor may = equal(used.cast(DType::i64).unsqueeze(1), group.unsqueeze(1)).any(-1); // [n, groups]
    score = select(may.unsqueeze(2), members, -INFINITY).reshape({*n_, count});
  }
  const auto [largest, chosen] = score.topk(config_.num_experts_used); // [n, used]
  Tensor share = biased ? weights.take_along(chosen, 1) : largest;
  if (config_.normalised_experts) share = share / share.sum(-1, true);
  return {config_.expert_scale == 1 ? share : share * config_.expert_scale, chosen};
}

/// Products are computed with the rows of the chosen experts only.
Tensor DecoderBuilder::experts(const Tensor& x, int64_t layer) { // x [n, hidden]
  const int64_t count = config_.num_experts, hidden = config_.hidden_size, inner = config_.expert_size;
  const auto [share, chosen] = route(x, layer);
  const auto product = [&](const Tensor& given, Part part, int64_t out,
                           int64_t in) { // given [n, used or 1, in]
    return (weights_->experts(part, layer, count, out, in).gather(chosen) * given.unsqueeze(2)).sum(-1);
  };
  const Tensor each = x.unsqueeze(1);
  const Tensor y = activated(product(each, Part::expert_gate, inner, hidden)) *
                   product(each, Part::expert_up, inner, hidden); // [n, used, inner]
  const Tensor mixed = (product(y, Part::expert_down, hidden, inner) * share.unsqueeze(-1)).sum(1);
  if (config_.shared_expert_size == 0) return mixed;
  return mixed +
         gated(x, Part::shared_gate, Part::shared_up, Part::shared_down, config_.shared_expert_size, layer);
}

} // namespace luminal::models
