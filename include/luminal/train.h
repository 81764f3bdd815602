// luminal/train.h -- the loop around a step: batches in, losses out, validation, checkpoints, records.
// A model is a function that makes terms; it is called once for the graph that trains and once for
// the one that validates.
//
//   Trainer trainer([](ModelScope& m) {
//     const Tensor x = m.input("x").cast(DType::f32) / 255;
//     const Tensor w = m.parameter("w", {10, 784}, init::normal(0.05)), b = m.parameter("b", {10});
//     const Tensor logits = linear(x.flatten(1), w, b);
//     return StepResults{cross_entropy(logits, m.input("y")), {{"right", accuracy(logits, m.input("y"))}}};
//   }, data, {.folder = "runs/mnist", .steps = 1000, .batch = 64, .validation = test});
//   trainer.run();
#pragma once
#include "luminal/optimizers.h"
#include "luminal/train_data.h"
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace luminal {

#define LUMINAL_WHERE std::source_location where = std::source_location::current()

/// The first value of a parameter, from a key of its own. Keys follow from the seed and the order of
/// the parameters.
using Init = std::function<Tensor(const Tensor& key, const Dims& shape)>;
namespace init {
Init constant(double value);
Init normal(double deviation = 0.02, double mean = 0);
Init uniform(double bound); ///< -bound .. bound
/// Of weights [out, in, kernel..]: uniform, bound sqrt(1 / (in * kernel)), as PyTorch's layers begin.
Init fan_in();
/// Normal, deviation sqrt(2 / (in * kernel)): for relu (He et al. 2015).
Init he();
/// Uniform, bound sqrt(6 / (in + out) / kernel) (Glorot and Bengio 2010).
Init xavier();
} // namespace init

/// What the function of a model gets: its graph, its inputs, its parameters.
class ModelScope {
public:
  Graph& graph() const;
  bool training() const; ///< dropout happens, running statistics move
  /// A field of the batch, [batch, shape..]. Throws Error naming the fields there are.
  Tensor input(const std::string& field, LUMINAL_WHERE) const;
  Dim batch() const; ///< constant where it trains; validation has a dynamic one
  /// A trained value. Under mixed precision it comes rounded to that type; what is trained stays f32.
  Tensor parameter(const std::string& name, const Dims& shape, const Init& first = init::constant(0),
                   LUMINAL_WHERE);
  /// Of the last parameters: another rate or weight decay (0, as a rule, for norms and biases).
  struct Group {
    double rate = 1;
    std::optional<double> weight_decay = {};
  };
  void group(const std::vector<std::string>& names, const Group& group, LUMINAL_WHERE);
  /// A value that is not trained and comes from a file: of this shape, by this name (see
  /// TrainerOptions::weights).
  Tensor frozen(const std::string& name, const Dims& shape, DType dtype = DType::f32, LUMINAL_WHERE);
  /// A statistic that is updated in training: `update` says how. Validation sees its last value.
  Tensor running(const std::string& name, const Dims& shape, double first = 0, LUMINAL_WHERE);
  void update(const Tensor& running, const Tensor& next, LUMINAL_WHERE);
  /// Another key in each step, kept in checkpoints.
  Tensor key(const std::string& name, LUMINAL_WHERE) const;
  /// x as it is where the graph does not train.
  Tensor dropout(const Tensor& x, double p, LUMINAL_WHERE);

  struct State;
  explicit ModelScope(State& state) : state_(state) {}

private:
  State& state_;
};

/// Scalars []: what is minimised, and what is shown beside it (means over the batch).
struct StepResults {
  Tensor loss;
  std::vector<std::pair<std::string, Tensor>> metrics = {};
};
using ModelFunction = std::function<StepResults(ModelScope& scope)>;

/// The part of the samples whose largest logit [n, classes] is at the target [n]: f32 [].
Tensor accuracy(const Tensor& logits, const Tensor& targets, LUMINAL_WHERE);

enum class OnNonFinite : uint8_t { stop, skip };

struct StepRecord {
  int64_t step = 0; ///< finished steps, this one included
  double loss = 0, learning_rate = 0, gradient_norm = 0, milliseconds = 0;
  bool skipped = false; ///< a gradient was not finite: nothing was updated
  std::vector<std::pair<std::string, double>> metrics = {};
};
struct ValidationRecord {
  int64_t step = 0;
  double loss = 0;
  std::vector<std::pair<std::string, double>> metrics = {};
  bool best = false; ///< the smallest loss so far
};

struct TrainerOptions {
  /// Of the run: metrics.csv, metrics.jsonl, TensorBoard's events, loss.svg, checkpoints/. It must not
  /// hold another run. Empty: nothing is written.
  std::string folder = {};
  int64_t steps = 1000;
  int64_t batch = 32;     ///< samples of one execute
  int64_t accumulate = 1; ///< executes of one step
  uint64_t seed = 0;      ///< of first values, order of samples, keys
  /// Made once, on the graph that trains. Default: AdamW, 1e-3.
  std::function<Optimizer(Graph& graph)> optimizer = {};
  double clip_norm = 0;         ///< of all gradients together; 0: not clipped
  double ema = 0;               ///< decay of moving averages, which validate then; 0: none
  DType precision = DType::f32; ///< bf16 or f16 (with a scaled loss): of parameters in the model
  DataSetPtr validation = {};   ///< all its samples are used each time
  bool progress = false;        ///< a line on stderr every `log_every` steps; on a terminal a bar between
  int64_t log_every = 10;       ///< steps between lines
  int64_t validate_every = 0;   ///< 0: at the begin and the end alone
  int64_t save_every = 0;       ///< 0: at the end alone
  int64_t keep_checkpoints = 3; ///< the last ones; the best one stays beside them
  OnNonFinite on_nonfinite = OnNonFinite::stop;
  std::string weights = {}; ///< file of frozen values, and of first values of parameters it names
  bool shuffle = true;
  /// Segments of the model whose values are computed again for their gradient (GradientOptions::segments).
  /// 0: as few as compile.max_memory allows, none without a limit; what cannot be met is an Error.
  int64_t recompute = 0;
  CompileOptions compile = {};
  std::function<bool()> stop = {}; ///< asked after each step: a checkpoint is written and run() ends
  std::function<void(const StepRecord&)> on_step = {};
  std::function<void(const ValidationRecord&)> on_validation = {};
  std::function<void(const std::string& file)> on_checkpoint = {};
};

struct TrainSummary {
  int64_t steps = 0;
  bool stopped = false; ///< by TrainerOptions::stop
  double loss = 0;      ///< of the last step
  std::optional<double> validation_loss = {}, best_validation_loss = {};
  std::string checkpoint = {}; ///< the last one written
};

/// A model in training. Equal options, data and threads' results: equal bits, for any number of
/// threads, and however often it is stopped and resumed.
class Trainer {
public:
  Trainer(const ModelFunction& model, DataSetPtr data, const TrainerOptions& options = {}, LUMINAL_WHERE);
  Trainer(Trainer&&) noexcept;
  ~Trainer();
  /// Continues from a checkpoint: a file, or a folder of a run (its last one). Throws Error, and
  /// changes nothing, where it does not fit the model or the data.
  void resume(const std::string& path, LUMINAL_WHERE);
  /// Steps until options.steps are done. Throws Error where a loss is not finite, naming the operation
  /// that made the first number that is not, and the line of the model.
  TrainSummary run(LUMINAL_WHERE);
  StepRecord step(LUMINAL_WHERE);           ///< one step
  ValidationRecord validate(LUMINAL_WHERE); ///< needs options.validation
  int64_t steps_done() const;
  int64_t segments() const; ///< 1: no values are computed again
  /// All states, atomically: parameters, what the optimizer remembers, keys, position in the data.
  void save(const std::string& path, LUMINAL_WHERE) const;
  /// Parameters (their moving averages where there are some) and running statistics alone, by name.
  void save_model(const std::string& path, LUMINAL_WHERE) const;
  Graph& graph();
  std::vector<std::string> parameter_names() const;
  Tensor parameter(const std::string& name, LUMINAL_WHERE) const; ///< readable between steps
  /// A graph of its own with the trained values (moving averages where there are some) as weights: what
  /// `make` makes of them. It makes its own inputs by scope.graph(); nothing is dropped out.
  Graph with_values(const std::function<void(ModelScope& scope)>& make, LUMINAL_WHERE) const;
  const DataLoader& loader() const;

private:
  struct State;
  std::unique_ptr<State> state_;
};

/// An operation that made a number that is not finite from finite ones.
struct NonFinite {
  std::string operation; ///< "log at model.cpp:41, its gradient"; "the input x"
  std::string type;      ///< "f32[64, 10]"
  bool nan = false;      ///< else infinite
};
/// The first such operations, in the order of the terms, for the last inputs and the present states:
/// one that made an infinite number where it comes before the first NaN, and one that made that.
std::vector<NonFinite> find_nonfinite(Graph& graph, LUMINAL_WHERE);

#undef LUMINAL_WHERE
} // namespace luminal
