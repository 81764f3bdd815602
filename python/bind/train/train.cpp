// python/bind/train/train.cpp -- the loop: models as functions of Python, Trainer, its records.
#include "luminal/train_models.h"
#include "training.h"
#include <atomic>

namespace luminal::python {
namespace {

/// How a parameter begins.
struct InitObject {
  Init make;
};
/// A function that makes a model's terms and is written in C++.
struct ModelObject {
  ModelFunction make;
};
/// The scope of a model while its function runs; afterwards nothing.
struct ScopeObject {
  std::shared_ptr<ModelScope*> scope;
  ModelScope& get() const {
    if (*scope == nullptr)
      throw Error("ModelScope", "the model's function has returned: its scope is for the time of the call",
                  here());
    return **scope;
  }
};
/// Ends the scope with the call.
class ScopeGuard {
public:
  explicit ScopeGuard(ModelScope& scope) : scope_(std::make_shared<ModelScope*>(&scope)) {}
  ~ScopeGuard() { *scope_ = nullptr; }
  ScopeGuard(const ScopeGuard&) = delete;
  ScopeGuard& operator=(const ScopeGuard&) = delete;
  nb::object object() const { return nb::cast(ScopeObject{scope_}); }

private:
  std::shared_ptr<ModelScope*> scope_;
};

/// The loader's thread may wait for the interpreter lock while the trainer is ended.
struct TrainerObject {
  std::unique_ptr<Trainer> trainer;
  std::shared_ptr<std::atomic<bool>> stop;
  TrainerObject(std::unique_ptr<Trainer> made, std::shared_ptr<std::atomic<bool>> stop_)
      : trainer(std::move(made)), stop(std::move(stop_)) {}
  ~TrainerObject() {
    const nb::gil_scoped_release released;
    trainer.reset();
  }
  TrainerObject(const TrainerObject&) = delete;
  std::shared_ptr<GraphState> graph(const char* operation, std::source_location where) const {
    return trainer->graph().state(operation, where);
  }
};

/// A number, an Init, an array of the parameter's shape, or a function of a key and a shape.
Init init_of(nb::handle given, std::source_location where) {
  double number = 0;
  if (nb::isinstance<InitObject>(given)) return nb::cast<InitObject&>(given).make;
  if (nb::try_cast(given, number)) return init::constant(number);
  if (PyCallable_Check(given.ptr()))
    return [function = Callback(given), where](const Tensor& key, const Dims& shape) {
      const nb::gil_scoped_acquire lock;
      const DefaultGraph inside(key.graph(where));
      nb::list extents;
      for (Dim extent : shape) extents.append(nb::cast(extent.value()));
      Tensor made;
      if (!nb::try_cast(function(nb::cast(key), nb::tuple(extents)), made))
        throw Error("parameter", "the function of first values gives a tensor", where);
      return made;
    };
  const auto data = std::make_shared<HostData>(read_data(given, "parameter", where));
  return [data, where](const Tensor& key, const Dims& /*shape: the trainer compares it*/) {
    Dims own;
    for (int64_t extent : data->shape) own.emplace_back(extent);
    Graph g(key.graph(where));
    Tensor values = g.tensor(own, DType::f32, "", where);
    values.set_bytes({static_cast<const std::byte*>(data->data), data->bytes}, data->dtype, where);
    return values * 1.0;
  };
}

StepResults results_of(const nb::object& made, std::source_location where) {
  StepResults results;
  nb::object loss = made;
  if (nb::isinstance<nb::tuple>(made) && nb::len(made) == 2 && nb::isinstance<nb::dict>(made[1])) {
    loss = made[0];
    for (auto [name, value] : nb::borrow<nb::dict>(made[1])) {
      Tensor metric;
      if (!nb::try_cast(value, metric)) throw Error("Trainer", "a metric is a tensor []", where);
      results.metrics.emplace_back(nb::cast<std::string>(name), metric);
    }
  }
  if (!nb::try_cast(loss, results.loss))
    throw Error("Trainer", "the model's function gives its loss, or (loss, {name: metric}): tensors []",
                where);
  return results;
}

ModelFunction model_of(nb::handle given, std::source_location where) {
  if (nb::isinstance<ModelObject>(given)) return nb::cast<ModelObject&>(given).make;
  if (!PyCallable_Check(given.ptr()))
    throw Error("Trainer", "a model is a function of a ModelScope, or one of luminal.train_models", where);
  return [function = Callback(given), where](ModelScope& scope) {
    const nb::gil_scoped_acquire lock;
    const DefaultGraph inside(scope.graph().state("Trainer", where));
    const ScopeGuard guard(scope);
    return results_of(function(guard.object()), where);
  };
}

nb::dict metrics_of(const std::vector<std::pair<std::string, double>>& metrics) {
  nb::dict named;
  for (const auto& [name, value] : metrics) named[name.c_str()] = value;
  return named;
}

/// Calls a function of Python between steps; what it throws, and False, end the run.
template <class Argument>
std::function<void(const Argument&)> between(nb::handle function,
                                             const std::shared_ptr<std::atomic<bool>>& stop) {
  if (function.is_none()) return {};
  return [call = Callback(function), stop](const Argument& argument) {
    const nb::gil_scoped_acquire lock;
    try {
      if (call(nb::cast(argument, nb::rv_policy::copy)).is(Py_False)) *stop = true;
    } catch (nb::python_error& error) {
      keep_exception(error);
      *stop = true;
    }
  };
}

std::function<Optimizer(Graph&)> optimizer_of(nb::handle given, std::source_location where) {
  if (given.is_none()) return {};
  if (!PyCallable_Check(given.ptr()) || nb::isinstance<Optimizer>(given))
    throw Error("Trainer",
                "optimizer is a function that makes one on the trainer's graph: lambda: luminal.adamw(1e-3)",
                where);
  return [function = Callback(given), where](Graph& graph) {
    const nb::gil_scoped_acquire lock;
    const DefaultGraph inside(graph.state("Trainer", where));
    const nb::object made = function();
    if (!nb::isinstance<Optimizer>(made))
      throw Error("Trainer", "the function of the optimizer gives an Optimizer", where);
    return nb::cast<Optimizer>(made);
  };
}

void make_trainer(TrainerObject* self, nb::handle model, const DataObject& data, nb::handle folder,
                  int64_t steps, int64_t batch, int64_t accumulate, uint64_t seed, nb::handle optimizer,
                  double clip_norm, double ema, Type precision, const std::optional<DataObject>& validation,
                  bool progress, int64_t log_every, int64_t validate_every, int64_t save_every,
                  int64_t keep_checkpoints, OnNonFinite on_nonfinite, nb::handle weights, bool shuffle,
                  int64_t recompute, const nb::dict& compile, nb::handle on_step, nb::handle on_validation,
                  nb::handle on_checkpoint) {
  const auto where = here();
  auto stop = std::make_shared<std::atomic<bool>>(false);
  TrainerOptions o{.folder = folder.is_none() ? "" : text_of_path(folder),
                   .steps = steps,
                   .batch = batch,
                   .accumulate = accumulate,
                   .seed = seed,
                   .optimizer = optimizer_of(optimizer, where),
                   .clip_norm = clip_norm,
                   .ema = ema,
                   .precision = precision,
                   .validation = validation ? validation->data : nullptr,
                   .progress = progress,
                   .log_every = log_every,
                   .validate_every = validate_every,
                   .save_every = save_every,
                   .keep_checkpoints = keep_checkpoints,
                   .on_nonfinite = on_nonfinite,
                   .weights = weights.is_none() ? "" : text_of_path(weights),
                   .shuffle = shuffle,
                   .recompute = recompute,
                   .compile = options_of(compile, where)};
  const auto interrupted = std::exchange(o.compile.stop, {}); // a step is never cut in two
  o.stop = [interrupted, stop] { return *stop || interrupted(); };
  o.on_step = between<StepRecord>(on_step, stop);
  o.on_validation = between<ValidationRecord>(on_validation, stop);
  o.on_checkpoint = between<std::string>(on_checkpoint, stop);
  new (self) TrainerObject(std::make_unique<Trainer>(model_of(model, where), data.data, o, where), stop);
}

void bind_records(nb::module_& m) {
  nb::class_<StepRecord>(m, "StepRecord", "What a step gave.")
      .def_ro("step", &StepRecord::step, "Finished steps, this one included.")
      .def_ro("loss", &StepRecord::loss)
      .def_ro("learning_rate", &StepRecord::learning_rate)
      .def_ro("gradient_norm", &StepRecord::gradient_norm)
      .def_ro("milliseconds", &StepRecord::milliseconds)
      .def_ro("skipped", &StepRecord::skipped, "A gradient was not finite: nothing was updated.")
      .def_prop_ro(
          "metrics", [](const StepRecord& r) { return metrics_of(r.metrics); },
          nb::sig("def metrics(self) -> dict[str, float]"))
      .def("__repr__", [](const StepRecord& r) {
        return "StepRecord(step=" + std::to_string(r.step) + ", loss=" + std::to_string(r.loss) + ")";
      });
  nb::class_<ValidationRecord>(m, "ValidationRecord", "Means over all samples of the validation set.")
      .def_ro("step", &ValidationRecord::step)
      .def_ro("loss", &ValidationRecord::loss)
      .def_ro("best", &ValidationRecord::best, "The smallest loss so far.")
      .def_prop_ro(
          "metrics", [](const ValidationRecord& r) { return metrics_of(r.metrics); },
          nb::sig("def metrics(self) -> dict[str, float]"))
      .def("__repr__", [](const ValidationRecord& r) {
        return "ValidationRecord(step=" + std::to_string(r.step) + ", loss=" + std::to_string(r.loss) + ")";
      });
  nb::class_<TrainSummary>(m, "TrainSummary", "How a run ended.")
      .def_ro("steps", &TrainSummary::steps)
      .def_ro("stopped", &TrainSummary::stopped, "By Ctrl-C or a function between steps.")
      .def_ro("loss", &TrainSummary::loss, "Of the last step.")
      .def_ro("validation_loss", &TrainSummary::validation_loss)
      .def_ro("best_validation_loss", &TrainSummary::best_validation_loss)
      .def_ro("checkpoint", &TrainSummary::checkpoint, "The last one written.");
  nb::class_<NonFinite>(m, "NonFinite", "An operation that made a number that is not finite.")
      .def_ro("operation", &NonFinite::operation)
      .def_ro("type", &NonFinite::type)
      .def_ro("nan", &NonFinite::nan, "Else infinite.")
      .def("__repr__", [](const NonFinite& n) { return "NonFinite(" + n.operation + ", " + n.type + ")"; });
}

void bind_scope(nb::module_& m) {
  nb::class_<InitObject>(m, "Init", "How a parameter begins. luminal.init has them.");
  nb::module_ i = m.def_submodule("init", "First values of parameters.");
  i.def("constant", [](double value) { return InitObject{init::constant(value)}; }, nb::arg("value"));
  i.def(
      "normal", [](double deviation, double mean) { return InitObject{init::normal(deviation, mean)}; },
      nb::arg("deviation") = 0.02, nb::arg("mean") = 0.0);
  i.def("uniform", [](double bound) { return InitObject{init::uniform(bound)}; }, nb::arg("bound"));
  i.def(
      "fan_in", [] { return InitObject{init::fan_in()}; },
      "Of weights [out, in, kernel..]: uniform, bound sqrt(1 / (in * kernel)), as PyTorch's layers begin.");
  i.def(
      "he", [] { return InitObject{init::he()}; },
      "Normal, deviation sqrt(2 / (in * kernel)): for relu (He et al. 2015).");
  i.def(
      "xavier", [] { return InitObject{init::xavier()}; },
      "Uniform, bound sqrt(6 / (in + out) / kernel) (Glorot and Bengio 2010).");
  nb::class_<ScopeObject>(m, "ModelScope", "What a model's function gets: its graph, inputs, parameters.")
      .def_prop_ro("graph", [](const ScopeObject& self) { return Graph(self.get().graph().state()); })
      .def_prop_ro("training", [](const ScopeObject& self) { return self.get().training(); })
      .def_prop_ro(
          "batch", [](const ScopeObject& self) { return self.get().batch(); },
          "Constant where it trains; validation has a dynamic one.")
      .def(
          "input",
          [](const ScopeObject& self, const std::string& field) { return self.get().input(field, here()); },
          nb::arg("field"), "A field of the batch, [batch, shape..].")
      .def(
          "parameter",
          [](const ScopeObject& self, const std::string& name, const Extents& shape, nb::handle first) {
            const auto where = here();
            return self.get().parameter(name, shape.list, init_of(first, where), where);
          },
          nb::arg("name"), nb::arg("shape"), nb::arg("first") = 0.0,
          nb::sig("def parameter(self, name: str, shape: luminal.typing.Shape, first: float | Init | "
                  "luminal.typing.Array | collections.abc.Callable[[Tensor, tuple[int, ...]], Tensor] = 0.0) "
                  "-> Tensor"),
          "A trained value. first: a number, an Init, an array, or a function of a key and the shape.")
      .def(
          "group",
          [](const ScopeObject& self, const std::vector<std::string>& names, double rate,
             std::optional<double> weight_decay) { self.get().group(names, {rate, weight_decay}, here()); },
          nb::arg("names"), nb::kw_only(), nb::arg("rate") = 1.0, nb::arg("weight_decay") = nb::none(),
          "Of these parameters: another rate (a factor) or weight decay.")
      .def(
          "frozen",
          [](const ScopeObject& self, const std::string& name, const Extents& shape, Type dtype) {
            return self.get().frozen(name, shape.list, dtype, here());
          },
          nb::arg("name"), nb::arg("shape"), nb::arg("dtype") = "f32",
          "A value that is not trained and comes from the file `weights` of the Trainer.")
      .def(
          "running",
          [](const ScopeObject& self, const std::string& name, const Extents& shape, double first) {
            return self.get().running(name, shape.list, first, here());
          },
          nb::arg("name"), nb::arg("shape"), nb::arg("first") = 0.0,
          "A statistic that update() moves in training; validation sees its last value.")
      .def(
          "update",
          [](const ScopeObject& self, const Tensor& running, const Value& next) {
            Call call("update", {&next});
            self.get().update(running, call.tensor(next), call.where);
          },
          nb::arg("running"), nb::arg("next"))
      .def(
          "key",
          [](const ScopeObject& self, const std::string& name) { return self.get().key(name, here()); },
          nb::arg("name"), "Another key in each step, kept in checkpoints.")
      .def(
          "dropout",
          [](const ScopeObject& self, const Value& x, double p) {
            Call call("dropout", {&x});
            return self.get().dropout(call.tensor(x), p, call.where);
          },
          nb::arg("x"), nb::arg("p"), "x as it is where the graph does not train.");
}

void bind_models(nb::module_& m) {
  nb::class_<ModelObject>(m, "TrainModel", "A model that is ready to train: one of luminal.train_models.")
      .def(
          "__call__",
          [](const ModelObject& self, const ScopeObject& scope) {
            const StepResults results = self.make(scope.get());
            nb::dict metrics;
            for (const auto& [name, value] : results.metrics) metrics[name.c_str()] = nb::cast(value);
            return std::pair(results.loss, metrics);
          },
          nb::arg("scope"),
          nb::sig("def __call__(self, scope: ModelScope) -> tuple[Tensor, dict[str, Tensor]]"),
          "(loss, metrics): for a function of Python around it.");
  nb::module_ t = m.def_submodule("train_models", "Models to train as they are.");
  using namespace train_models;
  t.def(
      "mlp",
      [](const std::vector<int64_t>& hidden, int64_t outputs, double dropout) {
        return ModelObject{mlp({hidden, outputs, dropout})};
      },
      nb::kw_only(), nb::arg("hidden") = nb::make_tuple(128), nb::arg("outputs") = 10,
      nb::arg("dropout") = 0.0,
      nb::sig("def mlp(*, hidden: collections.abc.Sequence[int] = (128,), outputs: "
              "int = 10, dropout: float = 0.0) -> luminal._core.TrainModel"),
      "Linear layers with relu between them. x: pictures of u8 (divided by 255) or numbers; y: classes "
      "(cross entropy) or numbers (mean squared error).");
  t.def(
      "cnn",
      [](const std::vector<int64_t>& channels, int64_t classes, double dropout) {
        return ModelObject{cnn({channels, classes, dropout})};
      },
      nb::kw_only(), nb::arg("channels") = nb::make_tuple(16, 32), nb::arg("classes") = 10,
      nb::arg("dropout") = 0.0,
      nb::sig("def cnn(*, channels: collections.abc.Sequence[int] = (16, 32), classes: int = 10, dropout: "
              "float = 0.0) -> luminal._core.TrainModel"),
      "3 x 3 convolutions, each with relu and a pool of 2.");
  t.def(
      "resnet",
      [](int64_t width, const std::vector<int64_t>& blocks, int64_t classes, double momentum) {
        return ModelObject{resnet({width, blocks, classes, momentum})};
      },
      nb::kw_only(), nb::arg("width") = 64, nb::arg("blocks") = nb::make_tuple(2, 2, 2, 2),
      nb::arg("classes") = 10, nb::arg("momentum") = 0.1,
      nb::sig("def resnet(*, width: int = 64, blocks: collections.abc.Sequence[int] = (2, 2, 2, 2), classes: "
              "int = 10, momentum: float = 0.1) -> luminal._core.TrainModel"),
      "ResNet-18 with the stem for small pictures (He et al. 2016, section 4.2).");
  t.def(
      "gpt",
      [](int64_t vocabulary, int64_t context, int64_t layers, int64_t heads, int64_t width, double dropout) {
        return ModelObject{gpt({vocabulary, context, layers, heads, width, dropout})};
      },
      nb::kw_only(), nb::arg("vocabulary"), nb::arg("context") = 64, nb::arg("layers") = 4,
      nb::arg("heads") = 4, nb::arg("width") = 128, nb::arg("dropout") = 0.0,
      "GPT-2: learned positions, layer norms in front, gelu (tanh), the head tied to the embedding.");
  t.def(
      "llama",
      [](int64_t vocabulary, int64_t layers, int64_t heads, int64_t kv_heads, int64_t width, int64_t hidden,
         int64_t head_width, double rope_theta, double eps, bool tied, int64_t lora_rank, double lora_alpha,
         bool checkpoint_layers) {
        return ModelObject{llama({vocabulary, layers, heads, kv_heads, width, hidden, head_width, rope_theta,
                                  eps, tied, lora_rank, lora_alpha, checkpoint_layers})};
      },
      nb::kw_only(), nb::arg("vocabulary"), nb::arg("layers") = 4, nb::arg("heads") = 4,
      nb::arg("kv_heads") = 4, nb::arg("width") = 128, nb::arg("hidden") = 344, nb::arg("head_width") = 0,
      nb::arg("rope_theta") = 10000.0, nb::arg("eps") = 1e-5, nb::arg("tied") = true,
      nb::arg("lora_rank") = 0, nb::arg("lora_alpha") = 16.0, nb::arg("checkpoint_layers") = false,
      "Llama with the names of Hugging Face's files. lora_rank: low-rank changes of the projections of "
      "queries and values alone are trained, all else is frozen.");
  t.def(
      "diffusion", [](int64_t width, int64_t steps) { return ModelObject{diffusion({width, steps})}; },
      nb::kw_only(), nb::arg("width") = 32, nb::arg("steps") = 1000,
      "A small U-Net that says which noise was added to a picture x.");
}

void bind_trainer(nb::module_& m) {
  nb::class_<TrainerObject> trainer(m, "Trainer",
                                    "The loop around a step: forward, backward and update are one program. "
                                    "model: a function that makes terms from a ModelScope and gives (loss, "
                                    "{name: metric}); it is called once for the graph that trains and once "
                                    "for the one that validates.");
  trainer.def(
      "__init__", &make_trainer, nb::arg("model"), nb::arg("data"), nb::kw_only(),
      nb::arg("folder") = nb::none(), nb::arg("steps") = 1000, nb::arg("batch") = 32,
      nb::arg("accumulate") = 1, nb::arg("seed") = 0, nb::arg("optimizer") = nb::none(),
      nb::arg("clip_norm") = 0.0, nb::arg("ema") = 0.0, nb::arg("precision") = "f32",
      nb::arg("validation") = nb::none(), nb::arg("progress") = false, nb::arg("log_every") = 10,
      nb::arg("validate_every") = 0, nb::arg("save_every") = 0, nb::arg("keep_checkpoints") = 3,
      nb::arg("on_nonfinite") = "stop", nb::arg("weights") = nb::none(), nb::arg("shuffle") = true,
      nb::arg("recompute") = 0, nb::arg("compile") = nb::dict(), nb::arg("on_step") = nb::none(),
      nb::arg("on_validation") = nb::none(), nb::arg("on_checkpoint") = nb::none(),
      nb::sig(
          "def __init__(self, model: TrainModel | collections.abc.Callable[[ModelScope], Tensor | "
          "tuple[Tensor, dict[str, Tensor]]], data: DataSet, *, folder: str | os.PathLike[str] | None = "
          "None, "
          "steps: int = 1000, batch: int = 32, accumulate: int = 1, seed: int = 0, optimizer: "
          "collections.abc.Callable[[], Optimizer] | None = None, clip_norm: float = 0.0, ema: float = 0.0, "
          "precision: luminal.typing.DTypeLike = 'f32', validation: DataSet | None = None, progress: bool = "
          "False, log_every: int = 10, validate_every: int = 0, save_every: int = 0, keep_checkpoints: int = "
          "3, on_nonfinite: typing.Literal['stop', 'skip'] = 'stop', weights: str | os.PathLike[str] | None "
          "= "
          "None, shuffle: bool = True, recompute: int = 0, compile: dict[str, typing.Any] = {}, on_step: "
          "collections.abc.Callable[[StepRecord], object] | None = None, on_validation: "
          "collections.abc.Callable[[ValidationRecord], object] | None = None, on_checkpoint: "
          "collections.abc.Callable[[str], object] | None = None) -> None"),
      "optimizer: a function that makes one (AdamW at 1e-3 by default). on_step and its kin are called "
      "between steps; False ends the run, with a checkpoint where there is a folder. docs/training.md has "
      "the options.");
  trainer.def(
      "run",
      [](TrainerObject& self) {
        const auto where = here();
        TrainSummary summary;
        *self.stop = false;
        run_released("run", self.graph("run", where), where, [&] { summary = self.trainer->run(where); });
        return summary;
      },
      "Steps until all are done. Ctrl-C finishes the step, writes a checkpoint and raises KeyboardInterrupt. "
      "A loss that is not finite is an Error that names the operation and the line that made it.");
  trainer.def(
      "step",
      [](TrainerObject& self) {
        const auto where = here();
        StepRecord record;
        run_released("step", self.graph("step", where), where, [&] { record = self.trainer->step(where); });
        return record;
      },
      "One step.");
  trainer.def(
      "validate",
      [](TrainerObject& self) {
        const auto where = here();
        ValidationRecord record;
        run_released("validate", self.graph("validate", where), where,
                     [&] { record = self.trainer->validate(where); });
        return record;
      },
      "Over all samples of the validation set.");
  trainer.def(
      "resume",
      [](TrainerObject& self, nb::handle path) {
        const auto where = here();
        check_idle("resume", self.graph("resume", where).get(), where);
        self.trainer->resume(text_of_path(path), where);
      },
      nb::arg("path"), nb::sig("def resume(self, path: str | os.PathLike[str]) -> None"),
      "Continues, bit for bit, from a checkpoint or the last one in the folder of a run.");
  trainer.def(
      "save",
      [](const TrainerObject& self, nb::handle path) {
        const auto where = here();
        check_idle("save", self.graph("save", where).get(), where);
        self.trainer->save(text_of_path(path), where);
      },
      nb::arg("path"), nb::sig("def save(self, path: str | os.PathLike[str]) -> None"),
      "A checkpoint: all states and the place in the data. It appears complete or not at all.");
  trainer.def(
      "save_model",
      [](const TrainerObject& self, nb::handle path) {
        const auto where = here();
        check_idle("save_model", self.graph("save_model", where).get(), where);
        self.trainer->save_model(text_of_path(path), where);
      },
      nb::arg("path"), nb::sig("def save_model(self, path: str | os.PathLike[str]) -> None"),
      "Parameters (their moving averages where there are some) and running statistics, by name.");
  trainer.def_prop_ro("steps_done", [](const TrainerObject& self) { return self.trainer->steps_done(); });
  trainer.def_prop_ro("graph",
                      [](const TrainerObject& self) { return Graph(self.trainer->graph().state()); });
  trainer.def_prop_ro("parameter_names",
                      [](const TrainerObject& self) { return self.trainer->parameter_names(); });
  trainer.def(
      "parameter",
      [](const TrainerObject& self, const std::string& name) {
        return self.trainer->parameter(name, here());
      },
      nb::arg("name"), "Readable between steps.");
  trainer.def(
      "with_values",
      [](const TrainerObject& self, const nb::callable& make) {
        const auto where = here();
        check_idle("with_values", self.graph("with_values", where).get(), where);
        return self.trainer->with_values(
            [&](ModelScope& scope) {
              const DefaultGraph inside(scope.graph().state("with_values", where));
              const ScopeGuard guard(scope);
              make(guard.object());
            },
            where);
      },
      nb::arg("make"),
      nb::sig("def with_values(self, make: collections.abc.Callable[[ModelScope], object]) -> Graph"),
      "A graph of its own with the trained values as weights: what `make` makes of them.");
}

} // namespace

void bind_train(nb::module_& m) {
  bind_records(m);
  bind_scope(m);
  bind_models(m);
  bind_trainer(m);
  m.def(
      "accuracy",
      [](const Value& logits, const Value& targets) {
        Call call("accuracy", {&logits, &targets});
        return accuracy(call.tensor(logits), call.tensor(targets), call.where);
      },
      nb::arg("logits"), nb::arg("targets"),
      "The part of the samples whose largest logit [n, classes] is at the target [n]: f32 [].");
  m.def(
      "find_nonfinite",
      [](nb::handle graph) {
        const auto where = here();
        Graph g = graph_for("find_nonfinite", graph, where);
        return find_nonfinite(g, where);
      },
      nb::arg("graph") = nb::none(),
      nb::sig("def find_nonfinite(graph: Graph | None = None) -> list[NonFinite]"),
      "The first operations that made a NaN or an infinite number from finite ones, for the last inputs.");
}

} // namespace luminal::python
