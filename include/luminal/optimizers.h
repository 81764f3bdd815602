// luminal/optimizers.h -- optimizers and what goes with them, as terms: an execute is a step. A
// parameter is a state of the graph; what an optimizer remembers are states beside it, named after it.
//
//   Tensor w = g.state("w", {784, 10});                     // w.set(..) gives the first value
//   Optimizer adam = adamw(g, schedules::cosine(1e-3, 1000), {.weight_decay = 0.1});
//   adam.update({w}, gradients(loss, {w}));
//   for (int i = 0; i < 1000; ++i) { x.set(..); g.execute(); }
#pragma once
#include "luminal/graph.h"
#include <functional>
#include <string>
#include <vector>

namespace luminal {

#define LUMINAL_WHERE std::source_location where = std::source_location::current()

/// A learning rate from the number of finished steps (f64 []), as f64 [].
using Schedule = std::function<Tensor(const Tensor& step)>;
/// A number, a tensor (an input, say: one element), or a schedule.
struct LearningRate {
  LearningRate(double constant);
  LearningRate(const Tensor& given);
  LearningRate(Schedule by_step) : at(std::move(by_step)) {}
  Schedule at;
};

/// What may differ from group to group of parameters.
struct GroupOptions {
  double rate = 1;                         ///< times the learning rate
  std::optional<double> weight_decay = {}; ///< in place of the optimizer's
  std::optional<Tensor> when = {}; ///< bool []: where it is false nothing changes (and no step is counted)
};

/// One step of one parameter: new value and new memory from old ones.
struct ParameterStep;
/// Shared by groups of parameters: they count the same steps.
class Optimizer {
public:
  using Rule = std::function<Tensor(ParameterStep& step)>;
  Optimizer(Graph& graph, std::string name, LearningRate rate, double weight_decay, DType memory, Rule rule,
            LUMINAL_WHERE);
  /// Each parameter (a state, with floating-point numbers) gets its next value. Parameters narrower than
  /// f32 are computed in f32 and rounded once. All calls must have the same condition `when`.
  void update(const std::vector<Tensor>& parameters, const std::vector<Tensor>& gradients,
              const GroupOptions& group = {}, LUMINAL_WHERE);
  Tensor step() const { return step_; }          ///< i64 []: steps finished before this one, a state
  Tensor learning_rate() const { return rate_; } ///< f64 [] of this step

private:
  std::string name_;
  Tensor step_, rate_;
  double weight_decay_;
  DType memory_;
  Rule rule_;
  bool counted_ = false;
};

struct SgdOptions {
  double momentum = 0, dampening = 0, weight_decay = 0; ///< L2: added to the gradient
  bool nesterov = false;
  DType memory = DType::f32; ///< of what is remembered (f64 for f64 parameters)
};
Optimizer sgd(Graph& graph, LearningRate rate, const SgdOptions& options = {}, LUMINAL_WHERE);

struct AdamOptions {
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  bool amsgrad = false;
  DType memory = DType::f32;
};
/// Weight decay is added to the gradient (Kingma and Ba 2015).
Optimizer adam(Graph& graph, LearningRate rate, const AdamOptions& options = {}, LUMINAL_WHERE);
/// Weight decay shrinks the parameter itself (Loshchilov and Hutter 2019).
Optimizer adamw(Graph& graph, LearningRate rate, const AdamOptions& options = {.weight_decay = 0.01},
                LUMINAL_WHERE);

struct RmsPropOptions {
  double alpha = 0.99, eps = 1e-8, weight_decay = 0, momentum = 0;
  bool centered = false;
  DType memory = DType::f32;
};
Optimizer rmsprop(Graph& graph, LearningRate rate, const RmsPropOptions& options = {}, LUMINAL_WHERE);

struct AdagradOptions {
  double rate_decay = 0, weight_decay = 0, initial_accumulator = 0, eps = 1e-10;
  DType memory = DType::f32;
};
Optimizer adagrad(Graph& graph, LearningRate rate, const AdagradOptions& options = {}, LUMINAL_WHERE);

struct AdadeltaOptions {
  double rho = 0.9, eps = 1e-6, weight_decay = 0;
  DType memory = DType::f32;
};
Optimizer adadelta(Graph& graph, LearningRate rate, const AdadeltaOptions& options = {}, LUMINAL_WHERE);

struct LambOptions {
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-6, weight_decay = 0;
  DType memory = DType::f32;
};
/// Adam's step, scaled for each parameter by |parameter| / |step| (You et al. 2020).
Optimizer lamb(Graph& graph, LearningRate rate, const LambOptions& options = {}, LUMINAL_WHERE);

struct LionOptions {
  double beta1 = 0.9, beta2 = 0.99, weight_decay = 0;
  DType memory = DType::f32;
};
Optimizer lion(Graph& graph, LearningRate rate, const LionOptions& options = {}, LUMINAL_WHERE);

struct MuonOptions {
  double momentum = 0.95, weight_decay = 0.1;
  bool nesterov = true;
  int steps = 5; ///< of the Newton-Schulz iteration
  DType memory = DType::f32;
};
/// For matrices: the momentum, made orthogonal (Jordan 2024), times sqrt(max(1, rows / columns)).
Optimizer muon(Graph& graph, LearningRate rate, const MuonOptions& options = {}, LUMINAL_WHERE);

// ---- gradients before the update ----
struct ClippedGradients {
  std::vector<Tensor> gradients;
  Tensor norm; ///< of all of them together, before: f32 []
};
/// Scaled down together where their norm of order p is above the limit.
ClippedGradients clip_grad_norm(const std::vector<Tensor>& gradients, double limit, double p = 2,
                                LUMINAL_WHERE);
std::vector<Tensor> clip_grad_value(const std::vector<Tensor>& gradients, double limit, LUMINAL_WHERE);

/// Gradients of several executes: the mean of `count` of them, and whether this execute has it.
struct Accumulated {
  std::vector<Tensor> gradients;
  Tensor ready; ///< bool []: GroupOptions::when
};
Accumulated accumulate(Graph& graph, const std::vector<Tensor>& gradients, int64_t count,
                       const std::string& name = "accumulated", LUMINAL_WHERE);

/// For f16: the loss is scaled up so that gradients do not vanish; the scale falls where one is not
/// finite, and that step is left out; after `patience` good steps it rises.
class GradScaler {
public:
  struct Options {
    double initial = 65536, growth = 2, backoff = 0.5;
    int64_t patience = 2000;
  };
  explicit GradScaler(Graph& graph) : GradScaler(graph, Options{}) {}
  GradScaler(Graph& graph, const Options& options, LUMINAL_WHERE);
  Tensor scale() const { return scale_; } ///< f32 []
  Tensor scaled(const Tensor& loss, LUMINAL_WHERE) const;
  /// The gradients of the scaled loss, divided by the scale, in f32 at least; `finite`: bool [], for
  /// GroupOptions::when.
  struct Unscaled {
    std::vector<Tensor> gradients;
    Tensor finite;
  };
  Unscaled unscaled(const std::vector<Tensor>& gradients, LUMINAL_WHERE);

private:
  Graph graph_;
  Options options_;
  Tensor level_, good_, scale_;
  bool used_ = false;
};

/// Exponential moving averages of parameters: states `<name>.ema`, corrected for their start at zero. They
/// move where `when` (bool []) holds; where it does not, the results are those of the last step in which it
/// did, and before the first one the parameters. Of a parameter that has an update, which a step writes, its
/// new value is averaged: call it after `Optimizer::update`.
std::vector<Tensor> moving_averages(Graph& graph, const std::vector<Tensor>& parameters, double decay,
                                    const std::optional<Tensor>& when = {}, LUMINAL_WHERE);

// ---- learning rates by step ----
namespace schedules {
Schedule constant(double rate);
/// From `rate` to `least` over `steps`, half a cosine; `least` afterwards.
Schedule cosine(double rate, int64_t steps, double least = 0);
Schedule linear(double from, double to, int64_t steps);
Schedule polynomial(double rate, int64_t steps, double power = 1);
Schedule exponential(double rate, double gamma);
Schedule step(double rate, int64_t every, double gamma = 0.1);
Schedule steps_at(double rate, std::vector<int64_t> milestones, double gamma = 0.1);
/// Rises linearly over `steps`, then `after`, whose own steps begin there.
Schedule warm_up(int64_t steps, Schedule after);
/// PyTorch's OneCycleLR with cosines: from most / divisor to most over the first part, then to
/// most / divisor / last_divisor.
Schedule one_cycle(double most, int64_t steps, double first_part = 0.3, double divisor = 25,
                   double last_divisor = 1e4);
/// Falls by `factor` where `metric` (a loss, []) has not become smaller by `threshold` (a part of it) for
/// more than `patience` steps. Keeps states of this name.
Schedule plateau(Graph& graph, const Tensor& metric, double rate, double factor = 0.1, int64_t patience = 10,
                 double threshold = 1e-4, const std::string& name = "plateau");
} // namespace schedules

#undef LUMINAL_WHERE
} // namespace luminal
