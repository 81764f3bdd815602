// luminal/training_names.h -- the names under which other versions of Luminal have what is in
// optimizers.h and autograd.h.
#pragma once
#include "luminal/autograd.h"
#include "luminal/optimizers.h"

namespace luminal {

#define LUMINAL_WHERE std::source_location where = std::source_location::current()

/// An optimizer that was given its parameters (states) and gradients, and its learning rate as an input
/// f64 [], which may be set before each execute.
struct OnGraph {
  Optimizer optimizer;
  Tensor learning_rate;
};
template <class Make, class Options>
OnGraph optimizer_on_graph(Make make, Graph& graph, const std::vector<Tensor>& parameters,
                           const std::vector<Tensor>& gradients, double rate, const Options& options,
                           std::source_location where) {
  Tensor given = graph.tensor({}, DType::f64, "", where);
  given.set(rate, where);
  OnGraph made{make(graph, given, options, where), given};
  made.optimizer.update(parameters, gradients, {}, where);
  return made;
}
inline OnGraph sgd_on_graph(Graph& graph, const std::vector<Tensor>& parameters,
                            const std::vector<Tensor>& gradients, double rate = 3e-4,
                            const SgdOptions& options = {}, LUMINAL_WHERE) {
  return optimizer_on_graph(sgd, graph, parameters, gradients, rate, options, where);
}
inline OnGraph sgd_momentum_on_graph(Graph& graph, const std::vector<Tensor>& parameters,
                                     const std::vector<Tensor>& gradients, double rate = 3e-4,
                                     double momentum = 0.9, LUMINAL_WHERE) {
  return optimizer_on_graph(sgd, graph, parameters, gradients, rate, SgdOptions{.momentum = momentum}, where);
}
inline OnGraph adam_on_graph(Graph& graph, const std::vector<Tensor>& parameters,
                             const std::vector<Tensor>& gradients, double rate = 3e-4,
                             const AdamOptions& options = {}, LUMINAL_WHERE) {
  return optimizer_on_graph(adam, graph, parameters, gradients, rate, options, where);
}
inline OnGraph rmsprop_on_graph(Graph& graph, const std::vector<Tensor>& parameters,
                                const std::vector<Tensor>& gradients, double rate = 3e-4,
                                const RmsPropOptions& options = {}, LUMINAL_WHERE) {
  return optimizer_on_graph(rmsprop, graph, parameters, gradients, rate, options, where);
}
inline OnGraph lamb_on_graph(Graph& graph, const std::vector<Tensor>& parameters,
                             const std::vector<Tensor>& gradients, double rate = 3e-4,
                             const LambOptions& options = {}, LUMINAL_WHERE) {
  return optimizer_on_graph(lamb, graph, parameters, gradients, rate, options, where);
}

/// `accumulate` as an object: the mean of the gradients of `steps` executes.
class GradientAccumulator {
public:
  GradientAccumulator(Graph& graph, int64_t steps) : graph_(graph.state()), steps_(steps) {}
  /// The gradients so far; `ready` is the condition of the update (GroupOptions::when).
  Accumulated accumulate(const std::vector<Tensor>& gradients, LUMINAL_WHERE) {
    const std::string name = made_++ == 0 ? "accumulated" : "accumulated" + std::to_string(made_);
    return luminal::accumulate(graph_, gradients, steps_, name, where);
  }

private:
  Graph graph_;
  int64_t steps_;
  int made_ = 0;
};

/// Mixed precision: products read values of the narrow type, parameters stay as they are, and the loss
/// of f16 is scaled.
class AMPContext {
public:
  explicit AMPContext(Graph& graph, DType type = DType::bf16) : type_(type) {
    if (type == DType::f16) scaler_.emplace(graph);
  }
  Tensor cast(const Tensor& x, LUMINAL_WHERE) const { return x.cast(type_, where); }
  /// Gradients of the loss, in f32 at least, and whether all of them are finite: GroupOptions::when.
  GradScaler::Unscaled gradients(const Tensor& loss, const std::vector<Tensor>& parameters, LUMINAL_WHERE) {
    if (scaler_)
      return scaler_->unscaled(luminal::gradients(scaler_->scaled(loss, where), parameters, {}, where),
                               where);
    GradScaler::Unscaled result{luminal::gradients(loss, parameters, {}, where), {}};
    for (const Tensor& g : result.gradients) {
      const Tensor finite = g.isfinite(where).all({}, false, where);
      result.finite = result.finite.defined() ? result.finite & finite : finite;
    }
    return result;
  }

private:
  DType type_;
  std::optional<GradScaler> scaler_;
};

/// `checkpoint` as an object that names its parts by itself: values within a part are computed again
/// for the gradient.
class CheckpointManager {
public:
  explicit CheckpointManager(Graph& graph) : graph_(graph.state()) {}
  std::vector<Tensor> checkpoint(const std::vector<Tensor>& inputs, const Graph::FunctionBody& fn,
                                 LUMINAL_WHERE) {
    return luminal::checkpoint(graph_, "part" + std::to_string(++parts_), inputs, fn, where);
  }
  int parts() const { return parts_; }

private:
  Graph graph_;
  int parts_ = 0;
};

#undef LUMINAL_WHERE
} // namespace luminal
