// train/optimizer.h -- what the rule of an optimizer sees of one parameter.
#pragma once
#include "luminal/optimizers.h"

namespace luminal {

struct ParameterStep {
  Graph& graph;
  std::string name;       // of the parameter
  DType compute;          // f32, or f64 for f64 parameters
  DType memory;           // of what is remembered
  Tensor value, gradient; // of type `compute`
  Tensor rate;            // [] of type `compute`
  Tensor step;            // f64 []: 1 in the first step
  double weight_decay;
  Tensor when; // bool [], or undefined: always
  Tensor parameter;

  /// What was remembered under this name: zeros at first.
  Tensor remembered(const std::string& what);
  /// It becomes `next`, which is returned as it will be remembered.
  Tensor remember(const std::string& what, const Tensor& next);
  /// 1 - beta^step, as a number of type `compute`.
  Tensor correction(double beta) const;
  /// The gradient with L2 weight decay.
  Tensor decayed() const { return weight_decay == 0 ? gradient : gradient + value * weight_decay; }
  /// The value after decoupled weight decay.
  Tensor shrunk() const { return weight_decay == 0 ? value : value - value * (rate * weight_decay); }
};

} // namespace luminal
