// train/clipping.cpp -- gradients between the backward pass and the update: clipping, accumulation,
// loss scaling; moving averages of parameters.
#include "luminal/functions.h"
#include "luminal/optimizers.h"
#include "luminal/random.h"
#include "tensor/compose.h"
#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace luminal {

ClippedGradients clip_grad_norm(const std::vector<Tensor>& gradients, double limit, double p, Where where) {
  constexpr std::string_view op = "clip_grad_norm";
  if (gradients.empty()) throw Error(op, "there is no gradient", where);
  if (!(limit > 0) || !(p > 0))
    throw Error(op, fmt::format("limit {} and order {} must be above 0", limit, p), where);
  const bool doubles = std::any_of(gradients.begin(), gradients.end(),
                                   [](const Tensor& g) { return g.dtype() == DType::f64; });
  std::optional<Tensor> total;
  for (const Tensor& g : gradients) {
    graph_of(op, {&gradients[0], &g}, where);
    const Tensor x = g.cast(doubles ? DType::f64 : DType::f32).abs();
    const Tensor own = std::isinf(p) ? x.max() : p == 2 ? x.square().sum() : x.pow(p).sum();
    total = !total ? own : std::isinf(p) ? maximum(*total, own) : *total + own;
  }
  const Tensor norm = std::isinf(p) ? *total : p == 2 ? total->sqrt() : total->pow(1 / p);
  const Tensor factor = minimum(limit / (norm + 1e-6), 1.0);
  ClippedGradients result{{}, norm};
  for (const Tensor& g : gradients) result.gradients.push_back((g * factor).cast(g.dtype()));
  return result;
}
std::vector<Tensor> clip_grad_value(const std::vector<Tensor>& gradients, double limit, Where where) {
  if (!(limit > 0))
    throw Error("clip_grad_value", fmt::format("a limit of {} must be above 0", limit), where);
  std::vector<Tensor> list;
  for (const Tensor& g : gradients) list.push_back(clip(g, -limit, limit, where));
  return list;
}

Accumulated accumulate(Graph& graph, const std::vector<Tensor>& gradients, int64_t count,
                       const std::string& name, Where where) {
  if (count < 1) throw Error("accumulate", fmt::format("{} executes: at least 1 is expected", count), where);
  const Tensor at = graph.state(name + ".count", {}, DType::i64, where);
  const Tensor ready = equal(at + 1, count);
  graph.update(at, select(ready, 0, at + 1), where);
  Accumulated result{{}, ready};
  for (size_t i = 0; i < gradients.size(); ++i) {
    const DType type = accumulator(gradients[i].dtype());
    const Tensor sum = graph.state(fmt::format("{}.{}", name, i), gradients[i].shape(), type, where);
    const Tensor next = sum + gradients[i].cast(type) / double(count);
    graph.update(sum, select(ready, 0.0, next), where);
    result.gradients.push_back(next);
  }
  return result;
}

GradScaler::GradScaler(Graph& graph, const Options& options, Where where)
    : graph_(graph.state("GradScaler", where)), options_(options) {
  if (!(options.initial > 0 && options.growth > 1 && options.backoff > 0 && options.backoff < 1))
    throw Error("GradScaler", "the scale must be above 0, growth above 1, backoff between 0 and 1", where);
  level_ = graph_.state("scaler.level", {}, DType::f32, where); // log2(scale / initial)
  good_ = graph_.state("scaler.good", {}, DType::i64, where);
  scale_ = level_.exp2() * options.initial;
}
Tensor GradScaler::scaled(const Tensor& loss, Where where) const {
  graph_of("GradScaler", {&loss}, where);
  return loss.cast(accumulator(loss.dtype())) * scale_.cast(accumulator(loss.dtype()));
}
GradScaler::Unscaled GradScaler::unscaled(const std::vector<Tensor>& gradients, Where where) {
  if (gradients.empty()) throw Error("GradScaler", "there is no gradient", where);
  Unscaled result;
  for (const Tensor& g : gradients) {
    const Tensor finite = g.isfinite().all();
    result.finite = result.finite.defined() ? result.finite & finite : finite;
    const DType type = accumulator(g.dtype());
    result.gradients.push_back(g.cast(type) / scale_.cast(type));
  }
  if (used_) throw Error("GradScaler", "unscaled was called already: give it all gradients at once", where);
  used_ = true;
  const Tensor waited = good_ + 1, rises = equal(waited, options_.patience);
  graph_.update(good_, select(result.finite & !rises, waited, 0), where);
  const Tensor up = select(rises, level_ + std::log2(options_.growth), level_);
  graph_.update(level_, select(result.finite, up, level_ + std::log2(options_.backoff)), where);
  return result;
}

std::vector<Tensor> moving_averages(Graph& graph, const std::vector<Tensor>& parameters, double decay,
                                    const std::optional<Tensor>& when, Where where) {
  if (!(decay > 0 && decay < 1))
    throw Error("moving_averages", fmt::format("a decay of {} does not lie between 0 and 1", decay), where);
  if (parameters.empty()) return {};
  std::vector<Tensor> list;
  const auto state_of_graph = graph.state("moving_averages", where);
  const auto written = [&](const Tensor& p) {
    const auto update =
        std::ranges::find(state_of_graph->updates, node_id(p), &std::pair<NodeId, NodeId>::first);
    return update == state_of_graph->updates.end() ? p : wrap(state_of_graph, update->second);
  };
  const auto moved = [&](const Tensor& next, const Tensor& old) {
    return when ? select(*when, next, old) : next;
  };
  const Tensor weight = graph.state("ema.weight", {}, DType::f32, where);
  const Tensor total = moved(weight * decay + (1 - decay), weight);
  graph.update(weight, total, where);
  for (const Tensor& p : parameters) {
    const DType type = accumulator(p.dtype());
    const auto& attr = input_attr(*state_of_graph, node_id(p), "moving_averages", where);
    const Tensor state = graph.state(attr.name + ".ema", p.shape(), type, where);
    const Tensor sum = moved(state * decay + written(p).cast(type) * (1 - decay), state);
    graph.update(state, sum, where);
    const Tensor mean = sum / total.cast(type);
    list.push_back((when ? select(equal(total, 0), p.cast(type), mean) : mean).cast(p.dtype()));
  }
  return list;
}

} // namespace luminal
