// train/losses.cpp -- losses, composed of operations of tensors.
#include "luminal/losses.h"
#include "luminal/functions.h"
#include "luminal/random.h"
#include "tensor/compose.h"
#include "tensor/views.h"
#include <cmath>
#include <fmt/format.h>

namespace luminal {
namespace {

Tensor reduced(const Tensor& losses, Reduction how, Where where) {
  switch (how) {
  case Reduction::mean: return losses.mean({}, false, where);
  case Reduction::sum: return losses.sum({}, false, where);
  case Reduction::none: return losses;
  }
  throw Error("loss", "the reduction is none of mean, sum, none", where);
}
Tensor wide(std::string_view op, const Tensor& x, Where where) {
  graph_of(op, {&x}, where);
  if (!is_float(x.dtype()))
    throw Error(
        op, fmt::format("{} has no fractions: losses are of floating-point numbers", to_string(type_of(x))),
        where);
  return at_least_f32(x);
}
/// x - target, broadcast.
Tensor distance(std::string_view op, const Tensor& x, const Tensor& target, Where where) {
  const Floats f(op, {Operand(x, where), Operand(target, where)}, where);
  return f[0] - f[1];
}

/// Losses over classes: the axis, and what targets say of each class.
struct Classes {
  int axis = 0;
  Tensor ids;                    // targets with the axis of the classes, which is 1
  Tensor counted;                // bool: the sample takes part
  Tensor own;                    // bool: this class is the target
  std::optional<Tensor> weights; // of the classes, along their axis
};
Classes classes_of(std::string_view op, const Tensor& x, const Tensor& targets,
                   const ClassLossOptions& options, Where where) {
  graph_of(op, {&x, &targets}, where);
  Classes c;
  if (x.rank() == 0) throw Error(op, "there is no axis of classes", where);
  c.axis = x.rank() == 1 ? 0 : axis_of(op, options.axis, x.rank(), where);
  Shape samples = type_of(x).shape;
  samples.erase(samples.begin() + c.axis);
  if (!same_shape(samples, type_of(targets).shape))
    throw Error(op,
                fmt::format("the targets are {}, one for each of {} is expected", to_string(type_of(targets)),
                            text_of(samples)),
                where);
  const Expr count = type_of(x).shape[size_t(c.axis)];
  c.ids = targets.cast(DType::i64).unsqueeze(c.axis);
  c.counted = not_equal(c.ids, options.ignore_index);
  Dims line(size_t(x.rank()), 1);
  line[size_t(c.axis)] = Dim::from_id(count.id());
  const Tensor number = Graph(x.graph()).arange(line[size_t(c.axis)]).reshape(line);
  c.own = equal(c.ids, number);
  if (options.weight) {
    const TensorType& weight = type_of(*options.weight);
    if (!same_shape(weight.shape, {count}))
      throw Error(op,
                  fmt::format("the weight is {}, one for each of {} classes is expected", to_string(weight),
                              to_string(count)),
                  where);
    c.weights = options.weight->cast(x.dtype()).reshape(line);
  }
  return c;
}

/// -log p of the target: weighted, smoothed, without ignored samples.
Tensor class_losses(std::string_view op, const Tensor& log_p, const Tensor& targets,
                    const ClassLossOptions& options, Where where) {
  const Classes c = classes_of(op, log_p, targets, options, where);
  if (!(options.label_smoothing >= 0 && options.label_smoothing <= 1))
    throw Error(op, fmt::format("a label smoothing of {} does not lie in 0..1", options.label_smoothing),
                where);
  const double smooth = options.label_smoothing;
  const Tensor weighted = c.weights ? *c.weights * log_p : log_p;
  Tensor losses = -select(c.own, weighted, 0.0).sum(c.axis, true);
  if (smooth > 0) losses = losses * (1 - smooth) - weighted.sum(c.axis, true) * smooth / log_p.dim(c.axis);
  losses = select(c.counted, losses, 0.0).squeeze({c.axis});
  if (options.reduction != Reduction::mean) return reduced(losses, options.reduction, where);
  Tensor counts = c.counted.cast(log_p.dtype());
  if (c.weights) counts = select(c.own & c.counted, *c.weights, 0.0).sum(c.axis, true);
  return losses.sum() / counts.sum();
}

} // namespace

Tensor mse_loss(const Tensor& x, const Tensor& target, Reduction reduction, Where where) {
  return reduced(distance("mse_loss", x, target, where).square(), reduction, where);
}
Tensor rmse_loss(const Tensor& x, const Tensor& target, Where where) {
  return root(distance("rmse_loss", x, target, where).square().mean());
}
Tensor mae_loss(const Tensor& x, const Tensor& target, Reduction reduction, Where where) {
  return reduced(distance("mae_loss", x, target, where).abs(), reduction, where);
}
Tensor l1_loss(const Tensor& x, const Tensor& target, Reduction reduction, Where where) {
  return reduced(distance("l1_loss", x, target, where).abs(), reduction, where);
}
Tensor huber_loss(const Tensor& x, const Tensor& target, double delta, Reduction reduction, Where where) {
  if (!(delta > 0)) throw Error("huber_loss", fmt::format("delta is {}, it must be above 0", delta), where);
  const Tensor d = distance("huber_loss", x, target, where), size = d.abs();
  return reduced(select(size < delta, 0.5 * d * d, delta * (size - 0.5 * delta)), reduction, where);
}
Tensor smooth_l1_loss(const Tensor& x, const Tensor& target, double beta, Reduction reduction, Where where) {
  if (!(beta >= 0))
    throw Error("smooth_l1_loss", fmt::format("beta is {}, it may not be negative", beta), where);
  const Tensor d = distance("smooth_l1_loss", x, target, where), size = d.abs();
  if (beta == 0) return reduced(size, reduction, where);
  return reduced(select(size < beta, (0.5 / beta) * d * d, size - 0.5 * beta), reduction, where);
}

Tensor cross_entropy(const Tensor& logits, const Tensor& targets, const ClassLossOptions& options,
                     Where where) {
  constexpr std::string_view op = "cross_entropy";
  const Tensor x = wide(op, logits, where);
  graph_of(op, {&logits, &targets}, where);
  if (x.rank() == 0) throw Error(op, "there is no axis of classes", where);
  const int axis = x.rank() == 1 ? 0 : axis_of(op, options.axis, x.rank(), where);
  const Tensor log_p = x.log_softmax(axis, where);
  if (!is_float(targets.dtype())) return class_losses(op, log_p, targets, options, where);
  if (!same_shape(type_of(targets).shape, type_of(logits).shape))
    throw Error(op,
                fmt::format("probabilities of {} for logits of {}", to_string(type_of(targets)),
                            to_string(type_of(logits))),
                where);
  const Dim count = x.dim(axis);
  Tensor p = targets.cast(x.dtype());
  if (options.label_smoothing > 0)
    p = p * (1 - options.label_smoothing) + ones_like(p, where) * options.label_smoothing / count;
  if (options.weight) {
    Dims line(size_t(x.rank()), 1);
    line[size_t(axis)] = count;
    p = p * options.weight->cast(x.dtype()).reshape(line);
  }
  return reduced(-(p * log_p).sum(axis), options.reduction, where);
}
Tensor nll_loss(const Tensor& log_probabilities, const Tensor& targets, const ClassLossOptions& options,
                Where where) {
  const Tensor x = wide("nll_loss", log_probabilities, where);
  graph_of("nll_loss", {&log_probabilities, &targets}, where);
  if (is_float(targets.dtype()))
    throw Error("nll_loss",
                fmt::format("the targets are {}: class indices are integers", to_string(type_of(targets))),
                where);
  return class_losses("nll_loss", x, targets, options, where);
}

Tensor kl_div(const Tensor& x, const Tensor& target, Reduction reduction, bool log_target, Where where) {
  const Floats f("kl_div", {Operand(x, where), Operand(target, where)}, where);
  const Tensor losses = log_target ? f[1].exp() * (f[1] - f[0]) : xlogy(f[1], f[1]) - f[1] * f[0];
  return reduced(losses, reduction, where);
}
Tensor binary_cross_entropy(const Tensor& probability, const Tensor& target, Reduction reduction,
                            Where where) {
  const Floats f("binary_cross_entropy", {Operand(probability, where), Operand(target, where)}, where);
  const Tensor yes = maximum(f[0].log(), -100.0), no = maximum((-f[0]).log1p(), -100.0);
  return reduced(-(f[1] * yes + (1.0 - f[1]) * no), reduction, where);
}
Tensor binary_cross_entropy_with_logits(const Tensor& logits, const Tensor& target, Reduction reduction,
                                        std::optional<Tensor> pos_weight, Where where) {
  const Floats f("binary_cross_entropy_with_logits", {Operand(logits, where), Operand(target, where)}, where);
  // -log sigmoid(x) = softplus(-x)
  const Tensor yes = (-f[0]).softplus(1, INFINITY);
  Tensor losses = (1.0 - f[1]) * f[0] + yes;
  if (pos_weight) losses = (1.0 - f[1]) * f[0] + (1.0 + (*pos_weight - 1.0) * f[1]) * yes;
  return reduced(losses, reduction, where);
}
Tensor sigmoid_focal_loss(const Tensor& logits, const Tensor& target, double alpha, double gamma,
                          Reduction reduction, Where where) {
  const Floats f("sigmoid_focal_loss", {Operand(logits, where), Operand(target, where)}, where);
  const Tensor p = f[0].sigmoid();
  const Tensor& t = f[1];
  const Tensor truth = p * t + (1.0 - p) * (1.0 - t);
  Tensor losses =
      binary_cross_entropy_with_logits(f[0], t, Reduction::none, {}, where) * (1.0 - truth).pow(gamma);
  if (alpha >= 0) losses = losses * (alpha * t + (1 - alpha) * (1.0 - t));
  return reduced(losses, reduction, where);
}

Tensor cosine_embedding_loss(const Tensor& a, const Tensor& b, const Tensor& target, double margin,
                             Reduction reduction, Where where) {
  graph_of("cosine_embedding_loss", {&a, &b, &target}, where);
  const Floats f("cosine_embedding_loss", {Operand(a, where), Operand(b, where)}, where);
  // PyTorch's form: eps is added to the squares
  const double eps = 1e-12;
  const Tensor dot = (f[0] * f[1]).sum(-1);
  const Tensor norms = ((f[0].square().sum(-1) + eps) * (f[1].square().sum(-1) + eps)).sqrt();
  const Tensor cosine = dot / norms;
  const Tensor apart = maximum(cosine - margin, 0.0);
  return reduced(select(target > 0, 1.0 - cosine, apart), reduction, where);
}
Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           double margin, double p, bool swap, Reduction reduction, Where where) {
  const Floats f("triplet_margin_loss",
                 {Operand(anchor, where), Operand(positive, where), Operand(negative, where)}, where);
  const double eps = 1e-6; // PyTorch's pairwise_distance adds it to the difference
  const auto apart = [&](const Tensor& a, const Tensor& b) {
    return (a - b + eps).norm(p, -1, false, where);
  };
  Tensor far = apart(f[0], f[2]);
  if (swap) far = minimum(far, apart(f[1], f[2]));
  return reduced(maximum(apart(f[0], f[1]) - far + margin, 0.0), reduction, where);
}

} // namespace luminal
