// python/bind/train/optimizers.cpp -- optimizers, learning rates by step, gradients before the update.
#include "training.h"

namespace luminal::python {
namespace {

/// A learning rate from the number of finished steps.
struct ScheduleObject {
  Schedule at;
};

Tensor called(const Callback& function, const Tensor& step) {
  const nb::gil_scoped_acquire lock;
  const auto where = here();
  const DefaultGraph inside(step.graph(where));
  Tensor made;
  if (!nb::try_cast(function(nb::cast(step)), made))
    throw Error("Schedule", "the function gives a tensor", where);
  return made;
}

/// A number, a tensor, a Schedule, or a function of the finished steps.
Schedule schedule_of(nb::handle given, const char* operation, std::source_location where) {
  double number = 0;
  if (nb::isinstance<ScheduleObject>(given)) return nb::cast<ScheduleObject&>(given).at;
  if (nb::isinstance<Tensor>(given)) return LearningRate(nb::cast<Tensor>(given)).at;
  if (nb::try_cast(given, number)) return schedules::constant(number);
  if (PyCallable_Check(given.ptr()))
    return [function = Callback(given)](const Tensor& step) { return called(function, step); };
  throw Error(
      operation,
      "a learning rate is a number, a tensor, a Schedule, or a function of the finished steps (a tensor)",
      where);
}

/// What the optimizers differ in.
#define LUMINAL_RATE "rate: float | Tensor | Schedule | collections.abc.Callable[[Tensor], Tensor], *, "
#define LUMINAL_MEMORY "memory: luminal.typing.DTypeLike = 'f32', graph: Graph | None = None) -> Optimizer"

template <class Options, class Make>
Optimizer made(const char* name, Make make, nb::handle rate, nb::handle graph, const Options& options) {
  const auto where = here();
  Graph g = graph_for(name, graph, where);
  return make(g, LearningRate(schedule_of(rate, name, where)), options, where);
}

void bind_adaptive(nb::module_& m) {
  const auto bind_adam = [&](const char* name, auto make, double decay, const nb::sig& signature,
                             const char* doc) {
    m.def(
        name,
        [name, make](nb::handle rate, double beta1, double beta2, double eps, double weight_decay,
                     bool amsgrad, Type memory, nb::handle graph) {
          return made(name, make, rate, graph, AdamOptions{beta1, beta2, eps, weight_decay, amsgrad, memory});
        },
        nb::arg("rate"), nb::kw_only(), nb::arg("beta1") = 0.9, nb::arg("beta2") = 0.999,
        nb::arg("eps") = 1e-8, nb::arg("weight_decay") = decay, nb::arg("amsgrad") = false,
        nb::arg("memory") = "f32", nb::arg("graph") = nb::none(), signature, doc);
  };
  bind_adam("adam", &adam, 0.0,
            nb::sig("def adam(" LUMINAL_RATE "beta1: float = 0.9, beta2: float = 0.999, eps: float = 1e-08, "
                    "weight_decay: float = 0.0, amsgrad: bool = False, " LUMINAL_MEMORY),
            "Adam; weight decay is added to the gradient (Kingma and Ba 2015).");
  bind_adam("adamw", &adamw, 0.01,
            nb::sig("def adamw(" LUMINAL_RATE "beta1: float = 0.9, beta2: float = 0.999, eps: float = 1e-08, "
                    "weight_decay: float = 0.01, amsgrad: bool = False, " LUMINAL_MEMORY),
            "AdamW; weight decay shrinks the parameter itself (Loshchilov and Hutter 2019).");
  m.def(
      "lamb",
      [](nb::handle rate, double beta1, double beta2, double eps, double weight_decay, Type memory,
         nb::handle graph) {
        return made("lamb", &lamb, rate, graph, LambOptions{beta1, beta2, eps, weight_decay, memory});
      },
      nb::arg("rate"), nb::kw_only(), nb::arg("beta1") = 0.9, nb::arg("beta2") = 0.999, nb::arg("eps") = 1e-6,
      nb::arg("weight_decay") = 0.0, nb::arg("memory") = "f32", nb::arg("graph") = nb::none(),
      nb::sig("def lamb(" LUMINAL_RATE "beta1: float = 0.9, beta2: float = 0.999, eps: float = 1e-06, "
              "weight_decay: float = 0.0, " LUMINAL_MEMORY),
      "Adam's step, scaled for each parameter by |parameter| / |step| (You et al. 2020).");
  m.def(
      "lion",
      [](nb::handle rate, double beta1, double beta2, double weight_decay, Type memory, nb::handle graph) {
        return made("lion", &lion, rate, graph, LionOptions{beta1, beta2, weight_decay, memory});
      },
      nb::arg("rate"), nb::kw_only(), nb::arg("beta1") = 0.9, nb::arg("beta2") = 0.99,
      nb::arg("weight_decay") = 0.0, nb::arg("memory") = "f32", nb::arg("graph") = nb::none(),
      nb::sig("def lion(" LUMINAL_RATE
              "beta1: float = 0.9, beta2: float = 0.99, weight_decay: float = 0.0, " LUMINAL_MEMORY),
      "The sign of a momentum (Chen et al. 2023).");
  m.def(
      "rmsprop",
      [](nb::handle rate, double alpha, double eps, double weight_decay, double momentum, bool centered,
         Type memory, nb::handle graph) {
        return made("rmsprop", &rmsprop, rate, graph,
                    RmsPropOptions{alpha, eps, weight_decay, momentum, centered, memory});
      },
      nb::arg("rate"), nb::kw_only(), nb::arg("alpha") = 0.99, nb::arg("eps") = 1e-8,
      nb::arg("weight_decay") = 0.0, nb::arg("momentum") = 0.0, nb::arg("centered") = false,
      nb::arg("memory") = "f32", nb::arg("graph") = nb::none(),
      nb::sig("def rmsprop(" LUMINAL_RATE
              "alpha: float = 0.99, eps: float = 1e-08, weight_decay: float = 0.0, "
              "momentum: float = 0.0, centered: bool = False, " LUMINAL_MEMORY),
      "The gradient over the root of its mean square.");
  m.def(
      "adagrad",
      [](nb::handle rate, double rate_decay, double weight_decay, double initial_accumulator, double eps,
         Type memory, nb::handle graph) {
        return made("adagrad", &adagrad, rate, graph,
                    AdagradOptions{rate_decay, weight_decay, initial_accumulator, eps, memory});
      },
      nb::arg("rate"), nb::kw_only(), nb::arg("rate_decay") = 0.0, nb::arg("weight_decay") = 0.0,
      nb::arg("initial_accumulator") = 0.0, nb::arg("eps") = 1e-10, nb::arg("memory") = "f32",
      nb::arg("graph") = nb::none(),
      nb::sig("def adagrad(" LUMINAL_RATE "rate_decay: float = 0.0, weight_decay: float = 0.0, "
              "initial_accumulator: float = 0.0, eps: float = 1e-10, " LUMINAL_MEMORY),
      "The gradient over the root of the sum of its squares.");
  m.def(
      "adadelta",
      [](nb::handle rate, double rho, double eps, double weight_decay, Type memory, nb::handle graph) {
        return made("adadelta", &adadelta, rate, graph, AdadeltaOptions{rho, eps, weight_decay, memory});
      },
      nb::arg("rate"), nb::kw_only(), nb::arg("rho") = 0.9, nb::arg("eps") = 1e-6,
      nb::arg("weight_decay") = 0.0, nb::arg("memory") = "f32", nb::arg("graph") = nb::none(),
      nb::sig("def adadelta(" LUMINAL_RATE
              "rho: float = 0.9, eps: float = 1e-06, weight_decay: float = 0.0, " LUMINAL_MEMORY),
      "The gradient times the root of mean squares of steps over that of gradients.");
}

void bind_momentum(nb::module_& m) {
  m.def(
      "sgd",
      [](nb::handle rate, double momentum, double dampening, double weight_decay, bool nesterov, Type memory,
         nb::handle graph) {
        return made("sgd", &sgd, rate, graph,
                    SgdOptions{momentum, dampening, weight_decay, nesterov, memory});
      },
      nb::arg("rate"), nb::kw_only(), nb::arg("momentum") = 0.0, nb::arg("dampening") = 0.0,
      nb::arg("weight_decay") = 0.0, nb::arg("nesterov") = false, nb::arg("memory") = "f32",
      nb::arg("graph") = nb::none(),
      nb::sig("def sgd(" LUMINAL_RATE "momentum: float = 0.0, dampening: float = 0.0, weight_decay: float = "
              "0.0, nesterov: bool = False, " LUMINAL_MEMORY),
      "Stochastic gradient descent; weight decay is added to the gradient.");
  m.def(
      "muon",
      [](nb::handle rate, double momentum, double weight_decay, bool nesterov, int steps, Type memory,
         nb::handle graph) {
        return made("muon", &muon, rate, graph, MuonOptions{momentum, weight_decay, nesterov, steps, memory});
      },
      nb::arg("rate"), nb::kw_only(), nb::arg("momentum") = 0.95, nb::arg("weight_decay") = 0.1,
      nb::arg("nesterov") = true, nb::arg("steps") = 5, nb::arg("memory") = "f32",
      nb::arg("graph") = nb::none(),
      nb::sig("def muon(" LUMINAL_RATE "momentum: float = 0.95, weight_decay: float = 0.1, nesterov: bool = "
              "True, steps: int = 5, " LUMINAL_MEMORY),
      "For matrices: the momentum, made orthogonal by `steps` Newton-Schulz iterations (Jordan 2024).");
}
#undef LUMINAL_RATE
#undef LUMINAL_MEMORY

void bind_gradients(nb::module_& m) {
  m.def(
      "clip_grad_norm",
      [](const std::vector<Value>& gradients, double limit, double p) {
        Call call("clip_grad_norm", gradients);
        auto clipped = clip_grad_norm(call.tensors(gradients), limit, p, call.where);
        return std::pair(std::move(clipped.gradients), clipped.norm);
      },
      nb::arg("gradients"), nb::arg("limit"), nb::arg("p") = 2.0,
      "(gradients, norm): scaled down together where their norm of order p is above the limit; the norm "
      "before that is f32 [].");
  m.def(
      "clip_grad_value",
      [](const std::vector<Value>& gradients, double limit) {
        Call call("clip_grad_value", gradients);
        return clip_grad_value(call.tensors(gradients), limit, call.where);
      },
      nb::arg("gradients"), nb::arg("limit"), "Each element within -limit .. limit.");
  m.def(
      "accumulate",
      [](const std::vector<Value>& gradients, int64_t count, const std::string& name) {
        Call call("accumulate", gradients);
        auto sums = accumulate(call.graph(), call.tensors(gradients), count, name, call.where);
        return std::pair(std::move(sums.gradients), sums.ready);
      },
      nb::arg("gradients"), nb::arg("count"), nb::arg("name") = "accumulated",
      "(gradients, ready): the mean of the gradients of `count` executes, and whether this execute has it: "
      "`when` of Optimizer.update.");
  m.def(
      "moving_averages",
      [](const std::vector<Value>& parameters, double decay, const std::optional<Value>& when) {
        Call call("moving_averages", parameters);
        std::optional<Tensor> condition;
        if (when) condition = call.tensor(*when);
        return moving_averages(call.graph(), call.tensors(parameters), decay, condition, call.where);
      },
      nb::arg("parameters"), nb::arg("decay"), nb::arg("when") = nb::none(),
      "Exponential moving averages: states <name>.ema, corrected for their start at zero. Call it after "
      "Optimizer.update: what the step writes is averaged.");
  nb::class_<GradScaler>(m, "GradScaler",
                         "For f16: the loss is scaled up so that gradients do not vanish; the scale falls "
                         "where one is not finite, and rises after `patience` good steps.")
      .def(
          "__init__",
          [](GradScaler* self, double initial, double growth, double backoff, int64_t patience,
             nb::handle graph) {
            const auto where = here();
            Graph g = graph_for("GradScaler", graph, where);
            new (self) GradScaler(g, {initial, growth, backoff, patience}, where);
          },
          nb::kw_only(), nb::arg("initial") = 65536.0, nb::arg("growth") = 2.0, nb::arg("backoff") = 0.5,
          nb::arg("patience") = 2000, nb::arg("graph") = nb::none())
      .def_prop_ro("scale", &GradScaler::scale, "f32 [].")
      .def(
          "scaled",
          [](const GradScaler& self, const Value& loss) {
            Call call("scaled", {&loss});
            return self.scaled(call.tensor(loss), call.where);
          },
          nb::arg("loss"))
      .def(
          "unscaled",
          [](GradScaler& self, const std::vector<Value>& gradients) {
            Call call("unscaled", gradients);
            auto unscaled = self.unscaled(call.tensors(gradients), call.where);
            return std::pair(std::move(unscaled.gradients), unscaled.finite);
          },
          nb::arg("gradients"),
          "(gradients, finite): those of the scaled loss, divided by the scale, in f32 at least; `finite` "
          "(bool []) is the condition of the update.");
}

void bind_schedules(nb::module_& m) {
  nb::class_<ScheduleObject>(m, "Schedule", "A learning rate by the number of finished steps.")
      .def(
          "__call__",
          [](const ScheduleObject& self, const Value& step) {
            Call call("Schedule", {&step});
            return self.at(call.tensor(step).cast(DType::f64, call.where));
          },
          nb::arg("step"), "The rate (f64 []) after `step` steps.");
  nb::module_ s = m.def_submodule("schedules", "Learning rates by the number of finished steps.");
  using S = ScheduleObject;
  s.def("constant", [](double rate) { return S{schedules::constant(rate)}; }, nb::arg("rate"));
  s.def(
      "cosine",
      [](double rate, int64_t steps, double least) { return S{schedules::cosine(rate, steps, least)}; },
      nb::arg("rate"), nb::arg("steps"), nb::arg("least") = 0.0,
      "From `rate` to `least` over `steps`, half a cosine; `least` afterwards.");
  s.def(
      "linear", [](double from, double to, int64_t steps) { return S{schedules::linear(from, to, steps)}; },
      nb::arg("start"), nb::arg("end"), nb::arg("steps"));
  s.def(
      "polynomial",
      [](double rate, int64_t steps, double power) { return S{schedules::polynomial(rate, steps, power)}; },
      nb::arg("rate"), nb::arg("steps"), nb::arg("power") = 1.0);
  s.def(
      "exponential", [](double rate, double gamma) { return S{schedules::exponential(rate, gamma)}; },
      nb::arg("rate"), nb::arg("gamma"));
  s.def(
      "step", [](double rate, int64_t every, double gamma) { return S{schedules::step(rate, every, gamma)}; },
      nb::arg("rate"), nb::arg("every"), nb::arg("gamma") = 0.1);
  s.def(
      "steps_at",
      [](double rate, const std::vector<int64_t>& milestones, double gamma) {
        return S{schedules::steps_at(rate, milestones, gamma)};
      },
      nb::arg("rate"), nb::arg("milestones"), nb::arg("gamma") = 0.1);
  s.def(
      "warm_up",
      [](int64_t steps, nb::handle after) {
        return S{schedules::warm_up(steps, schedule_of(after, "warm_up", here()))};
      },
      nb::arg("steps"), nb::arg("after"),
      nb::sig("def warm_up(steps: int, after: float | luminal._core.Schedule | "
              "collections.abc.Callable[[luminal._core.Tensor], luminal._core.Tensor]) -> "
              "luminal._core.Schedule"),
      "Rises linearly over `steps`, then `after`, whose own steps begin there.");
  s.def(
      "one_cycle",
      [](double most, int64_t steps, double first_part, double divisor, double last_divisor) {
        return S{schedules::one_cycle(most, steps, first_part, divisor, last_divisor)};
      },
      nb::arg("most"), nb::arg("steps"), nb::arg("first_part") = 0.3, nb::arg("divisor") = 25.0,
      nb::arg("last_divisor") = 1e4, "PyTorch's OneCycleLR with cosines.");
  s.def(
      "plateau",
      [](const Value& metric, double rate, double factor, int64_t patience, double threshold,
         const std::string& name) {
        Call call("plateau", {&metric});
        return S{
            schedules::plateau(call.graph(), call.tensor(metric), rate, factor, patience, threshold, name)};
      },
      nb::arg("metric"), nb::arg("rate"), nb::arg("factor") = 0.1, nb::arg("patience") = 10,
      nb::arg("threshold") = 1e-4, nb::arg("name") = "plateau",
      "Falls by `factor` where the metric (a loss, []) has not become smaller for more than `patience` "
      "steps.");
}

} // namespace

void bind_optimizers(nb::module_& m) {
  bind_schedules(m);
  nb::class_<Optimizer>(m, "Optimizer",
                        "A rule that gives parameters their next values: an execute is a step. What it "
                        "remembers are states beside the parameters, named after them.")
      .def(
          "update",
          [](Optimizer& self, const std::vector<Value>& parameters, const std::vector<Value>& gradients,
             double rate, std::optional<double> weight_decay, const std::optional<Value>& when) {
            Call call("update", parameters);
            GroupOptions group{.rate = rate, .weight_decay = weight_decay};
            if (when) group.when = call.tensor(*when);
            self.update(call.tensors(parameters), call.tensors(gradients), group, call.where);
          },
          nb::arg("parameters"), nb::arg("gradients"), nb::kw_only(), nb::arg("rate") = 1.0,
          nb::arg("weight_decay") = nb::none(), nb::arg("when") = nb::none(),
          "Each parameter (a state) gets its next value. rate: times the learning rate; weight_decay: in "
          "place of the optimizer's; when: bool [], where it is false nothing changes.")
      .def_prop_ro("step", &Optimizer::step, "i64 []: steps finished before this one, a state.")
      .def_prop_ro("learning_rate", &Optimizer::learning_rate, "f64 [] of this step.");
  bind_momentum(m);
  bind_adaptive(m);
  bind_gradients(m);
}

} // namespace luminal::python
