// tensor/norms.cpp -- normalisation with weights.
#include "luminal/functions.h"
#include "tensor/compose.h"
#include "tensor/extents.h"
#include <fmt/format.h>

namespace luminal {
namespace {

/// [channels] as [1, channels, 1, ..] beside x; nothing where there is no tensor.
Tensor per_channel(std::string_view op, const Tensor& x, const Tensor& t, std::string_view what,
                   Where where) {
  if (!t.defined()) return t;
  graph_of(op, {&x, &t}, where);
  const Shape shape = type_of(x).shape, own = type_of(t).shape;
  if (shape.size() < 2 || own.size() != 1 || !equal_extents(own[0], shape[1]))
    throw Error(op,
                fmt::format("the {} must be [{}], one for each channel of {}, it is {}", what,
                            shape.size() < 2 ? "channels" : to_string(shape[1]), text_of(shape),
                            text_of(own)),
                where);
  Dims aligned(shape.size(), 1);
  aligned[1] = t.dim(0);
  return at_least_f32(t).reshape(aligned, where);
}

Tensor scaled_and_shifted(Tensor y, const Tensor& weight, const Tensor& bias) {
  if (weight.defined()) y = y * weight;
  if (bias.defined()) y = y + bias;
  return y;
}

void need_channels(std::string_view op, const Tensor& x, Where where) {
  if (x.rank() < 2)
    throw Error(op, fmt::format("x must be [batch, channels, ..], it is {}", text_of(type_of(x).shape)),
                where);
}

/// The weight's axes are the last ones of x.
Axes trailing_axes(std::string_view op, const Tensor& x, const Tensor& weight, const Tensor& bias,
                   Where where) {
  graph_of(op, {&x, &weight}, where);
  const Shape shape = type_of(x).shape;
  for (const Tensor* t : {&weight, &bias}) {
    if (!t->defined()) continue;
    graph_of(op, {&x, t}, where);
    const Shape own = type_of(*t).shape;
    bool fits = !own.empty() && own.size() <= shape.size();
    for (size_t d = 0; fits && d < own.size(); d++)
      fits = equal_extents(own[d], shape[shape.size() - own.size() + d]);
    if (!fits || own.size() != type_of(weight).shape.size())
      throw Error(op,
                  fmt::format("weight and bias must have the last extents of {}, the {} is {}",
                              text_of(shape), t == &weight ? "weight" : "bias", text_of(own)),
                  where);
  }
  std::vector<int> axes;
  for (int d = x.rank() - weight.rank(); d < x.rank(); d++) axes.push_back(d);
  return axes;
}

} // namespace

Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps, Where where) {
  const Axes axes = trailing_axes("layer_norm", x, weight, bias, where);
  Floats f("layer_norm", {Operand(x, where)}, where);
  return f.done(scaled_and_shifted(f[0].layer_norm(axes, eps, where), weight, bias));
}
Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps, Where where) {
  const Axes axes = trailing_axes("rms_norm", x, weight, {}, where);
  Floats f("rms_norm", {Operand(x, where)}, where);
  return f.done(f[0].std_norm(axes, eps, where) * weight);
}

Tensor batch_norm(const Tensor& x, const Tensor& mean, const Tensor& var, const Tensor& weight,
                  const Tensor& bias, double eps, Where where) {
  graph_of("batch_norm", {&x, &mean, &var}, where);
  need_channels("batch_norm", x, where);
  Floats f("batch_norm", {Operand(x, where)}, where);
  const auto channel = [&](const Tensor& t, std::string_view what) {
    return per_channel("batch_norm", x, t, what, where);
  };
  Tensor scale = (channel(var, "variance") + eps).rsqrt();
  if (weight.defined()) scale = scale * channel(weight, "weight");
  return f.done(scaled_and_shifted((f[0] - channel(mean, "mean")) * scale, {}, channel(bias, "bias")));
}

Tensor group_norm(const Tensor& x, int64_t groups, const Tensor& weight, const Tensor& bias, double eps,
                  Where where) {
  graph_of("group_norm", {&x}, where);
  need_channels("group_norm", x, where);
  const Dim channels = x.dim(1);
  if (groups < 1 || prove(eq(mod(to_expr(channels), groups), 0)) != Truth::yes)
    throw Error("group_norm",
                fmt::format("the {} channels of {} do not fall into {} groups", channels.to_string(),
                            text_of(type_of(x).shape), groups),
                where);
  Floats f("group_norm", {Operand(x, where)}, where);
  Dims split = x.shape();
  split[1] = channels / groups;
  split.insert(split.begin() + 1, groups);
  std::vector<int> axes;
  for (int d = 2; d < int(split.size()); d++) axes.push_back(d);
  Tensor normal = f[0].reshape(split, where).layer_norm(axes, eps, where).reshape(x.shape(), where);
  return f.done(scaled_and_shifted(normal, per_channel("group_norm", x, weight, "weight", where),
                                   per_channel("group_norm", x, bias, "bias", where)));
}

Tensor instance_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps, Where where) {
  graph_of("instance_norm", {&x}, where);
  if (x.rank() < 3)
    throw Error("instance_norm",
                fmt::format("x must be [batch, channels, size, ..], it is {}", text_of(type_of(x).shape)),
                where);
  Floats f("instance_norm", {Operand(x, where)}, where);
  std::vector<int> axes;
  for (int d = 2; d < x.rank(); d++) axes.push_back(d);
  return f.done(scaled_and_shifted(f[0].layer_norm(axes, eps, where),
                                   per_channel("instance_norm", x, weight, "weight", where),
                                   per_channel("instance_norm", x, bias, "bias", where)));
}

} // namespace luminal
