// python/bind/inspect.cpp -- looking at graphs and values: terms, prints while a graph runs,
// comparisons with files, order of values.
#include "arrays.h"
#include "bind.h"

namespace luminal::python {
namespace {

Graph graph_or_default(nb::handle graph, const char* operation) {
  return graph_for(operation, graph, here());
}

void bind_terms(nb::module_& m) {
  nb::class_<TermInfo>(m, "TermInfo", "How a value is made.")
      .def_ro("op", &TermInfo::op)
      .def_ro("result", &TermInfo::result)
      .def_ro("inputs", &TermInfo::inputs)
      .def_ro("dtype", &TermInfo::dtype)
      .def_ro("name", &TermInfo::name)
      .def_ro("text", &TermInfo::text)
      .def("__repr__", [](const TermInfo& info) { return "TermInfo(" + info.text + ")"; });
  m.def(
      "inspect", [](const Tensor& tensor) { return inspect(tensor, here()); }, nb::arg("tensor"),
      "How a value is made.");
  m.def(
      "values", [](nb::handle graph) { return values(graph_or_default(graph, "values"), here()); },
      nb::arg("graph") = nb::none(), nb::sig("def values(graph: Graph | None = None) -> list[Tensor]"),
      "Every value of the graph, inputs before what is made from them.");
  m.def(
      "find",
      [](const std::string& name, nb::handle graph) {
        return find(graph_or_default(graph, "find"), name, here());
      },
      nb::arg("name"), nb::arg("graph") = nb::none(),
      nb::sig("def find(name: str, graph: Graph | None = None) -> Tensor"),
      "The input, weight or state of this name.");
  m.def(
      "add_terms",
      [](const std::string& text, const std::map<std::string, Tensor>& inputs, nb::handle graph) {
        const auto where = here();
        Graph g = !graph.is_none() || inputs.empty() ? graph_for("add_terms", graph, where)
                                                     : Graph(inputs.begin()->second.graph(where));
        return add_terms(g, text, {inputs.begin(), inputs.end()}, where);
      },
      nb::arg("text"), nb::arg("inputs"), nb::arg("graph") = nb::none(),
      nb::sig("def add_terms(text: str, inputs: collections.abc.Mapping[str, Tensor], graph: Graph | None = "
              "None) -> list[Tensor]"),
      "Adds terms in text form (docs/terms.md); `inputs` are the names that the text may use.");
}

void bind_order(nb::module_& m) {
  m.def(
      "after",
      [](const Value& x, const std::vector<Value>& others) {
        std::vector<Value> all{x};
        all.insert(all.end(), others.begin(), others.end());
        Call call("after", all);
        return after(call.tensor(x), call.tensors(others), call.where);
      },
      nb::arg("x"), nb::arg("others"),
      "The value of x, available only after all of `others` have been computed and their effects have "
      "happened.");
  m.def(
      "transfer",
      [](const Tensor& from, const Tensor& to) {
        const auto where = here();
        check_idle("transfer", from.graph(where).get(), where);
        check_idle("transfer", to.graph(where).get(), where);
        transfer(from, to, where);
      },
      nb::arg("source"), nb::arg("to"),
      "Moves a value: a kept value, state or input becomes the value of an input, weight or state. Large "
      "ones are not copied.");
  m.def(
      "swap_values",
      [](const Tensor& a, const Tensor& b) {
        const auto where = here();
        check_idle("swap_values", a.graph(where).get(), where);
        check_idle("swap_values", b.graph(where).get(), where);
        swap_values(a, b, where);
      },
      nb::arg("a"), nb::arg("b"), "Exchanges the values of two inputs or states.");
  m.def(
      "delete_inputs", [](const std::vector<Tensor>& tensors) { delete_inputs(tensors, here()); },
      nb::arg("tensors"), "Forgets the data of all inputs and weights that the tensors are made from.");
  m.def(
      "downstream", [](const std::vector<Tensor>& tensors) { return downstream(tensors, here()); },
      nb::arg("tensors"), "All values that are made from these.");
}

void bind_debug(nb::module_& m) {
  m.def(
      "print",
      [](const Value& x, const std::string& label) {
        Call call("print", {&x});
        return print(call.tensor(x), label, call.where);
      },
      nb::arg("x"), nb::arg("label") = "",
      "At each execute: writes the label and some of the values. Gives the tensor back; use what it gives.");
  m.def(
      "dump",
      [](const Value& x, const std::string& file) {
        Call call("dump", {&x});
        return dump(call.tensor(x), file, call.where);
      },
      nb::arg("x"), nb::arg("file"),
      "At each execute: writes the value to a file (.npy, .safetensors, .f32). Gives the tensor back.");
  nb::class_<DiffReport::Place>(m, "DiffPlace", "A place where two lists of numbers differ.")
      .def_ro("index", &DiffReport::Place::index)
      .def_ro("here", &DiffReport::Place::here)
      .def_ro("expected", &DiffReport::Place::expected);
  nb::class_<DiffReport>(m, "DiffReport", "How two lists of numbers differ.")
      .def_ro("count", &DiffReport::count)
      .def_ro("failed", &DiffReport::failed)
      .def_ro("average", &DiffReport::average)
      .def_ro("largest", &DiffReport::largest)
      .def_ro("largest_relative", &DiffReport::largest_relative)
      .def_ro("mean_squared", &DiffReport::mean_squared)
      .def_ro("worst", &DiffReport::worst)
      .def_prop_ro("passed", &DiffReport::passed)
      .def("__repr__", [](const DiffReport& report) { return to_string(report); });
  m.def(
      "compare",
      [](const Tensor& x, const std::string& file, double relative, double absolute,
         const std::string& name) {
        return compare(x, file, {.relative = relative, .absolute = absolute, .name = name}, here());
      },
      nb::arg("x"), nb::arg("file"), nb::kw_only(), nb::arg("relative") = 1e-4, nb::arg("absolute") = 1e-5,
      nb::arg("name") = "",
      "Compares a value that can be read with a file (.npy, .npz, .safetensors, .f32).");
  m.def(
      "compare_at_execute",
      [](const Value& x, const std::string& file, double relative, double absolute, const std::string& name) {
        Call call("diff", {&x});
        return diff(call.tensor(x), file, {.relative = relative, .absolute = absolute, .name = name},
                    call.where);
      },
      nb::arg("x"), nb::arg("file"), nb::kw_only(), nb::arg("relative") = 1e-4, nb::arg("absolute") = 1e-5,
      nb::arg("name") = "",
      "At each execute: writes how the value and a file differ (C++: diff). Gives the tensor back.");
  m.def(
      "display",
      [](nb::handle graph, const std::string& file) {
        return display(graph_or_default(graph, "display"), file, here());
      },
      nb::arg("graph") = nb::none(), nb::arg("file") = "",
      nb::sig("def display(graph: Graph | None = None, file: str = '') -> str"),
      "Writes the graph to a file (.html, .dot, .lum) and gives its name.");
  m.def(
      "display_shapes",
      [](nb::handle graph) { return display_shapes(graph_or_default(graph, "display_shapes"), here()); },
      nb::arg("graph") = nb::none(), nb::sig("def display_shapes(graph: Graph | None = None) -> str"),
      "A line a value: name, operation, dtype and shape.");
  m.def(
      "set_print_sink",
      [](const nb::object& sink) {
        if (sink.is_none()) return set_print_sink({});
        set_print_sink([kept = keep_object(sink)](std::string_view text) {
          const nb::gil_scoped_acquire lock;
          try {
            nb::borrow(static_cast<PyObject*>(const_cast<void*>(kept.get())))(std::string(text));
          } catch (nb::python_error& error) {
            keep_exception(error);
          }
        });
      },
      nb::arg("sink").none(),
      nb::sig("def set_print_sink(sink: collections.abc.Callable[[str], object] | None) -> None"),
      "Where print and compare_at_execute write, a text at a time; None: stderr.");
}

} // namespace

void bind_inspect(nb::module_& m) {
  bind_terms(m);
  bind_order(m);
  bind_debug(m);
}

} // namespace luminal::python
