// train/optimizer_rules.cpp -- the step of each optimizer, in the order of operations of PyTorch.
#include "luminal/functions.h"
#include "train/optimizer.h"
#include <fmt/format.h>

namespace luminal {
namespace {

/// beta * old + (1 - beta) * next
Tensor mixed(const Tensor& old, const Tensor& next, double beta) { return old * beta + next * (1 - beta); }

Tensor total_norm(const Tensor& x) { return x.square().sum().sqrt(); }

Tensor momentum_step(ParameterStep& s, const SgdOptions& o) {
  const Tensor g = s.decayed();
  if (o.momentum == 0) return s.value - s.rate * g;
  const Tensor old = s.remembered("momentum");
  Tensor next = old * o.momentum + g * (1 - o.dampening);
  if (o.dampening != 0) next = select(s.step > 1, next, g);
  next = s.remember("momentum", next);
  return s.value - s.rate * (o.nesterov ? g + next * o.momentum : next);
}

Tensor adam_step(ParameterStep& s, const AdamOptions& o, bool decoupled) {
  const Tensor g = decoupled ? s.gradient : s.decayed(), start = decoupled ? s.shrunk() : s.value;
  const Tensor m = s.remember("adam_m", mixed(s.remembered("adam_m"), g, o.beta1));
  const Tensor v = s.remember("adam_v", mixed(s.remembered("adam_v"), g * g, o.beta2));
  Tensor most = v;
  if (o.amsgrad) most = s.remember("adam_v_max", maximum(s.remembered("adam_v_max"), v));
  const Tensor root = most.sqrt() / s.correction(o.beta2).sqrt() + o.eps;
  return start - (s.rate / s.correction(o.beta1)) * (m / root);
}

Tensor rmsprop_step(ParameterStep& s, const RmsPropOptions& o) {
  const Tensor g = s.decayed();
  Tensor square = s.remember("rms_square", mixed(s.remembered("rms_square"), g * g, o.alpha));
  if (o.centered) {
    const Tensor mean = s.remember("rms_mean", mixed(s.remembered("rms_mean"), g, o.alpha));
    square = square - mean * mean;
  }
  const Tensor scaled = g / (square.sqrt() + o.eps);
  if (o.momentum == 0) return s.value - s.rate * scaled;
  return s.value - s.rate * s.remember("rms_momentum", s.remembered("rms_momentum") * o.momentum + scaled);
}

Tensor adagrad_step(ParameterStep& s, const AdagradOptions& o) {
  const Tensor g = s.decayed();
  const Tensor sum = s.remember("adagrad_sum", s.remembered("adagrad_sum") + g * g);
  Tensor rate = s.rate;
  if (o.rate_decay != 0) rate = rate / (1.0 + (s.step - 1.0) * o.rate_decay).cast(s.compute);
  return s.value - rate * (g / ((sum + o.initial_accumulator).sqrt() + o.eps));
}

Tensor adadelta_step(ParameterStep& s, const AdadeltaOptions& o) {
  const Tensor g = s.decayed(), moved = s.remembered("adadelta_moved");
  const Tensor square = s.remember("adadelta_square", mixed(s.remembered("adadelta_square"), g * g, o.rho));
  const Tensor delta = (moved + o.eps).sqrt() / (square + o.eps).sqrt() * g;
  s.remember("adadelta_moved", mixed(moved, delta * delta, o.rho));
  return s.value - s.rate * delta;
}

Tensor lamb_step(ParameterStep& s, const LambOptions& o) {
  const Tensor g = s.gradient;
  const Tensor m = s.remember("lamb_m", mixed(s.remembered("lamb_m"), g, o.beta1));
  const Tensor v = s.remember("lamb_v", mixed(s.remembered("lamb_v"), g * g, o.beta2));
  Tensor step = (m / s.correction(o.beta1)) / ((v / s.correction(o.beta2)).sqrt() + o.eps);
  if (s.weight_decay != 0) step = step + s.value * s.weight_decay;
  const Tensor size = total_norm(s.value), moved = total_norm(step);
  const Tensor trust = select((size > 0) & (moved > 0), size / moved, 1.0);
  return s.value - (s.rate * trust) * step;
}

Tensor lion_step(ParameterStep& s, const LionOptions& o) {
  const Tensor m = s.remembered("lion_m"), start = s.shrunk();
  s.remember("lion_m", mixed(m, s.gradient, o.beta2));
  return start - s.rate * mixed(m, s.gradient, o.beta1).sign();
}

/// Singular values towards 1, five odd polynomials: a (b + c S) with S = x x^T.
Tensor orthogonal(const Tensor& matrix, int steps) {
  const Dim rows = matrix.dim(0), columns = matrix.dim(1);
  const bool tall = rows.is_constant() && columns.is_constant() && rows.value() > columns.value();
  Tensor x = tall ? matrix.t() : matrix;
  x = x / maximum(total_norm(x), 1e-7);
  for (int k = 0; k < steps; ++k) {
    const Tensor square = x.matmul(x.t());
    x = x * 3.4445 + (square * -4.7750 + square.matmul(square) * 2.0315).matmul(x);
  }
  return tall ? x.t() : x;
}

Tensor muon_step(ParameterStep& s, const MuonOptions& o, std::source_location where) {
  if (s.value.rank() != 2)
    throw Error("muon",
                fmt::format("parameter {} has {} axes, it is for matrices: give others to adamw", s.name,
                            s.value.rank()),
                where);
  const Tensor buffer =
      s.remember("muon_momentum", mixed(s.remembered("muon_momentum"), s.gradient, o.momentum));
  const Tensor direction = o.nesterov ? mixed(buffer, s.gradient, o.momentum) : buffer;
  const Tensor rows = s.graph.constant(0.0, s.compute) + s.value.dim(0);
  const Tensor longer = maximum(rows / s.value.dim(1), 1.0).sqrt();
  return s.shrunk() - (s.rate * longer) * orthogonal(direction, o.steps);
}

} // namespace

using Where = std::source_location;
Optimizer sgd(Graph& graph, LearningRate rate, const SgdOptions& o, Where where) {
  if (o.nesterov && (o.momentum <= 0 || o.dampening != 0))
    throw Error("sgd", "nesterov needs a momentum, and no dampening", where);
  return {graph, "sgd", rate, o.weight_decay, o.memory, [o](ParameterStep& s) { return momentum_step(s, o); },
          where};
}
Optimizer adam(Graph& graph, LearningRate rate, const AdamOptions& o, Where where) {
  return {graph,          "adam",   rate,
          o.weight_decay, o.memory, [o](ParameterStep& s) { return adam_step(s, o, false); },
          where};
}
Optimizer adamw(Graph& graph, LearningRate rate, const AdamOptions& o, Where where) {
  return {graph,          "adamw",  rate,
          o.weight_decay, o.memory, [o](ParameterStep& s) { return adam_step(s, o, true); },
          where};
}
Optimizer rmsprop(Graph& graph, LearningRate rate, const RmsPropOptions& o, Where where) {
  return {graph,          "rmsprop", rate,
          o.weight_decay, o.memory,  [o](ParameterStep& s) { return rmsprop_step(s, o); },
          where};
}
Optimizer adagrad(Graph& graph, LearningRate rate, const AdagradOptions& o, Where where) {
  return {graph,          "adagrad", rate,
          o.weight_decay, o.memory,  [o](ParameterStep& s) { return adagrad_step(s, o); },
          where};
}
Optimizer adadelta(Graph& graph, LearningRate rate, const AdadeltaOptions& o, Where where) {
  return {graph,          "adadelta", rate,
          o.weight_decay, o.memory,   [o](ParameterStep& s) { return adadelta_step(s, o); },
          where};
}
Optimizer lamb(Graph& graph, LearningRate rate, const LambOptions& o, Where where) {
  return {graph, "lamb", rate, o.weight_decay, o.memory, [o](ParameterStep& s) { return lamb_step(s, o); },
          where};
}
Optimizer lion(Graph& graph, LearningRate rate, const LionOptions& o, Where where) {
  return {graph, "lion", rate, o.weight_decay, o.memory, [o](ParameterStep& s) { return lion_step(s, o); },
          where};
}
Optimizer muon(Graph& graph, LearningRate rate, const MuonOptions& o, Where where) {
  return {graph,          "muon",   rate,
          o.weight_decay, o.memory, [o, where](ParameterStep& s) { return muon_step(s, o, where); },
          where};
}

} // namespace luminal
