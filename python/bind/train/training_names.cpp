// python/bind/train/training_names.cpp -- accumulation, mixed precision and recomputation under the
// names of other versions of Luminal: luminal/training_names.h.
#include "luminal/training_names.h"
#include "training.h"

namespace luminal::python {

void bind_training_names(nb::module_& m) {
  const auto graph = nb::arg("graph") = nb::none();
  nb::class_<GradientAccumulator>(m, "GradientAccumulator",
                                  "`accumulate` as an object: the mean of the gradients of `steps` executes.")
      .def(
          "__init__",
          [](GradientAccumulator* self, int64_t steps, nb::handle given) {
            Graph g = graph_for("GradientAccumulator", given, here());
            new (self) GradientAccumulator(g, steps);
          },
          nb::arg("steps"), graph,
          nb::sig("def __init__(self, steps: int, graph: Graph | None = None) -> None"))
      .def(
          "accumulate",
          [](GradientAccumulator& self, const std::vector<Value>& gradients) {
            Call call("accumulate", gradients);
            auto sums = self.accumulate(call.tensors(gradients), call.where);
            return std::pair(std::move(sums.gradients), sums.ready);
          },
          nb::arg("gradients"),
          "(gradients, ready): the mean so far, and whether this execute completes it: `when` of "
          "Optimizer.update.");
  nb::class_<AMPContext>(m, "AMPContext",
                         "Mixed precision: products read values of the narrow type, parameters stay as they "
                         "are, and the loss of f16 is scaled.")
      .def(
          "__init__",
          [](AMPContext* self, Type dtype, nb::handle given) {
            Graph g = graph_for("AMPContext", given, here());
            new (self) AMPContext(g, dtype);
          },
          nb::arg("dtype") = "bf16", graph,
          nb::sig("def __init__(self, dtype: luminal.typing.DTypeLike = 'bf16', graph: Graph | None = None) "
                  "-> None"))
      .def(
          "cast",
          [](const AMPContext& self, const Value& x) {
            Call call("cast", {&x});
            return self.cast(call.tensor(x), call.where);
          },
          nb::arg("x"), "x in the narrow type.")
      .def(
          "gradients",
          [](AMPContext& self, const Value& loss, const std::vector<Value>& parameters) {
            std::vector<Value> all = parameters;
            all.push_back(loss);
            Call call("gradients", all);
            auto made = self.gradients(call.tensor(loss), call.tensors(parameters), call.where);
            return std::pair(std::move(made.gradients), made.finite);
          },
          nb::arg("loss"), nb::arg("parameters"),
          "(gradients, finite): in f32 at least, and whether all of them are finite: `when` of "
          "Optimizer.update.");
  nb::class_<CheckpointManager>(m, "CheckpointManager",
                                "`checkpoint` as an object that names its parts by itself.")
      .def(
          "__init__",
          [](CheckpointManager* self, nb::handle given) {
            Graph g = graph_for("CheckpointManager", given, here());
            new (self) CheckpointManager(g);
          },
          graph, nb::sig("def __init__(self, graph: Graph | None = None) -> None"))
      .def(
          "checkpoint",
          [](CheckpointManager& self, const std::vector<Value>& inputs, const nb::callable& fn) {
            Call call("checkpoint", inputs);
            return self.checkpoint(call.tensors(inputs), body_of(fn, "checkpoint", call.where), call.where);
          },
          nb::arg("inputs"), nb::arg("fn"),
          nb::sig("def checkpoint(self, inputs: collections.abc.Sequence[luminal.typing.TensorLike], fn: "
                  "collections.abc.Callable[..., typing.Any]) -> list[Tensor]"),
          "fn(*inputs), whose values in between are computed again for the gradient.")
      .def_prop_ro("parts", &CheckpointManager::parts, "How many there are.");
}

} // namespace luminal::python
