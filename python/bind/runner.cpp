// python/bind/runner.cpp -- Runner: a graph over memory that another library owns, by address.
#include "luminal/runner.h"
#include "arrays.h"
#include "bind.h"

namespace luminal::python {
namespace {

std::vector<int64_t> numbers(const nb::sequence& from) {
  std::vector<int64_t> list;
  for (nb::handle item : from) list.push_back(int64_t(PyLong_AsUnsignedLongLongMask(item.ptr())));
  if (PyErr_Occurred()) throw nb::python_error();
  return list;
}

void run_on_addresses(Runner& runner, const nb::sequence& sizes, const nb::sequence& inputs,
                      const nb::sequence& outputs) {
  const auto where = here();
  const auto given = numbers(sizes);
  std::vector<const void*> sources;
  std::vector<void*> targets;
  for (int64_t address : numbers(inputs)) sources.push_back(reinterpret_cast<const void*>(address));
  for (int64_t address : numbers(outputs)) targets.push_back(reinterpret_cast<void*>(address));
  run_released("run", runner.state(), where, [&] { runner.run(given, sources, targets, where); });
}

} // namespace

void bind_runner(nb::module_& m) {
  nb::class_<Runner>(m, "Runner",
                     "A graph as a function over memory of the caller, for the back ends of other "
                     "frameworks: inputs are read in place, large results written in place.")
      .def(
          "__init__",
          [](Runner* self, Graph& graph, const std::vector<std::string>& dimensions,
             const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs) {
            new (self) Runner(graph, dimensions, inputs, outputs, here());
          },
          nb::arg("graph"), nb::arg("dimensions"), nb::arg("inputs"), nb::arg("outputs"))
      .def("run", &run_on_addresses, nb::arg("sizes"), nb::arg("inputs"), nb::arg("outputs"),
           nb::sig("def run(self, sizes: collections.abc.Sequence[int], inputs: "
                   "collections.abc.Sequence[int], outputs: collections.abc.Sequence[int]) -> None"),
           "One step: sizes of the dimensions, addresses of inputs and of where outputs are written. All is "
           "row-major and packed, and stays where it is until the step ends; nothing checks it.");
}

} // namespace luminal::python
