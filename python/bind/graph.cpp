// python/bind/graph.cpp -- Graph, the default graph of a thread, and what makes values: inputs,
// weights, states, constants.
#include "arrays.h"
#include "bind.h"

namespace luminal::python {
namespace {

/// The default graphs of this thread, the last one counts: they end with the thread's state,
/// interpreter lock held.
nb::list graphs_of_thread() {
  nb::handle state = PyThreadState_GetDict();
  if (!state) throw std::runtime_error("there is no Python thread here");
  nb::dict all = nb::borrow<nb::dict>(state);
  if (!all.contains("luminal.graphs")) all["luminal.graphs"] = nb::list();
  return nb::borrow<nb::list>(all["luminal.graphs"]);
}

Dims dims_of(const std::vector<int64_t>& shape) { return {shape.begin(), shape.end()}; }

bool is_data(nb::handle shape_or_data) {
  return nb::hasattr(shape_or_data, "__array__") || nb::hasattr(shape_or_data, "__dlpack__");
}

enum class Made : uint8_t { input, weight, state };

Tensor declare(Graph& g, Made made, const std::string& name, nb::handle shape_or_data,
               const std::optional<Type>& dtype) {
  const char* operation = made == Made::weight ? "weight" : made == Made::state ? "state" : "input";
  const auto where = here();
  check_idle(operation, g.state(operation, where).get(), where);
  const auto make = [&](const Dims& shape, DType type) {
    return made == Made::weight  ? g.weight(name, shape, type, where)
           : made == Made::state ? g.state(name, shape, type, where)
                                 : g.tensor(shape, type, name, where);
  };
  if (is_data(shape_or_data)) {
    const HostData data = read_data(shape_or_data, operation, where);
    Tensor tensor = make(dims_of(data.shape), dtype ? dtype->value : data.dtype);
    tensor.set_bytes({static_cast<const std::byte*>(data.data), data.bytes}, data.dtype, where);
    return tensor;
  }
  Extents shape;
  if (!read_extents(shape_or_data, shape, true))
    throw Error(operation,
                "takes a shape (2, 3), or an array of values, not " +
                    nb::cast<std::string>(nb::repr(shape_or_data)).substr(0, 80),
                where);
  return make(shape.list, dtype ? dtype->value : DType::f32);
}

Tensor tensor_of(Graph& g, nb::handle data, const std::optional<Type>& dtype, const std::string& name) {
  const auto where = here();
  check_idle("tensor", g.state("tensor", where).get(), where);
  const HostData values = read_data(data, "tensor", where);
  const DType type = dtype                                       ? dtype->value
                     : values.weak && values.dtype == DType::f64 ? DType::f32
                                                                 : values.dtype;
  Tensor tensor = g.tensor(dims_of(values.shape), type, name, where);
  tensor.set_bytes({static_cast<const std::byte*>(values.data), values.bytes}, values.dtype, where);
  return tensor;
}

Tensor borrowed(Graph& g, nb::handle data, const std::string& name, const char* operation) {
  const auto where = here();
  check_idle(operation, g.state(operation, where).get(), where);
  const HostData values = read_data(data, operation, where);
  Tensor tensor = g.tensor(dims_of(values.shape), values.dtype, name, where);
  tensor.borrow(values.data, values.bytes, values.owner, where);
  return tensor;
}

Tensor constant(Graph& g, nb::handle data, const std::optional<Type>& dtype) {
  const auto where = here();
  check_idle("constant", g.state("constant", where).get(), where);
  return constant_of(g, data, dtype ? std::optional(dtype->value) : std::nullopt, "constant", where);
}

Tensor arange(Graph& g, nb::handle start, nb::handle end, nb::handle step, const std::optional<Type>& dtype) {
  const auto where = here();
  check_idle("arange", g.state("arange", where).get(), where);
  if (PyFloat_Check(start.ptr()) || PyFloat_Check(end.ptr()) || PyFloat_Check(step.ptr())) {
    const bool one = end.is_none();
    return arange_float(g, one ? 0 : nb::cast<double>(nb::float_(start)),
                        nb::cast<double>(nb::float_(one ? start : end)), nb::cast<double>(nb::float_(step)),
                        dtype ? dtype->value : DType::f32, where);
  }
  Dim first = 0, last = 0;
  int64_t by = 1;
  if (!read_extent(start, first) || (!end.is_none() && !read_extent(end, last)) ||
      !read_integer(step, by, true))
    throw nb::type_error("arange takes numbers and dimensions: arange(end), arange(start, end, step)");
  if (end.is_none()) std::swap(first, last);
  return luminal::arange(g, first, last, by, dtype ? dtype->value : DType::i64, where);
}

Tensor iota(Graph& g, const Extents& shape, const nb::callable& value, const std::optional<Type>& dtype) {
  const auto where = here();
  check_idle("iota", g.state("iota", where).get(), where);
  return g.iota(
      shape.list,
      [&](const Dims& axes) {
        nb::list list;
        for (Dim axis : axes) list.append(nb::cast(axis));
        Dim made = 0;
        const nb::object result = value(*nb::tuple(list));
        if (!read_extent(result, made))
          throw Error("iota", "the function gives a whole number or an expression over its arguments", where);
        return made;
      },
      dtype ? dtype->value : DType::i64, where);
}

Dim dim(Graph& g, const std::string& name, int64_t low, int64_t high, int64_t multiple_of) {
  return g.dim(name, low, high, multiple_of, here());
}
void set_dim(Graph& g, const std::string& name, int64_t value) {
  const auto where = here();
  check_idle("set_dim", g.state("set_dim", where).get(), where);
  g.set_dim(name, value, where);
}
void update(Graph& g, const Tensor& state, const Value& next) {
  Call call("update", {&next});
  g.update(state, call.tensor(next), call.where);
}

nb::object graph_object(const std::shared_ptr<GraphState>& state) { return nb::cast(Graph(state)); }

} // namespace

Graph& default_graph() {
  nb::list graphs = graphs_of_thread();
  if (nb::len(graphs) == 0) graphs.append(nb::cast(Graph()));
  return *nb::inst_ptr<Graph>(graphs[nb::len(graphs) - 1]);
}

DefaultGraph::DefaultGraph(const std::shared_ptr<GraphState>& state) {
  graphs_of_thread().append(graph_object(state));
}
DefaultGraph::~DefaultGraph() { graphs_of_thread().attr("pop")(); }

Graph graph_for(const char* operation, nb::handle graph_or_none, std::source_location where) {
  const auto state = graph_or_none.is_none() ? default_graph().state(operation, where)
                                             : nb::cast<Graph&>(graph_or_none).state(operation, where);
  check_idle(operation, state.get(), where);
  return Graph(state);
}

void bind_graph(nb::module_& m) {
  nb::class_<Graph> graph(m, "Graph",
                          "Where tensors live, and what compiles and runs them. Functions of the module act "
                          "on the default graph of the "
                          "thread; `with graph:` makes this one the default.");
  graph.def(
      "__init__",
      [](Graph* self, const std::optional<std::string>& device) {
        const auto where = here();
        if (device)
          new (self) Graph(Device(*device, where));
        else
          new (self) Graph();
      },
      nb::arg("device") = nb::none());
  graph.def(
      "__enter__",
      [](nb::handle_t<Graph> self) {
        graphs_of_thread().append(self);
        return nb::borrow(self);
      },
      nb::sig("def __enter__(self) -> Graph"));
  graph.def(
      "__exit__",
      [](nb::handle_t<Graph>, nb::handle, nb::handle, nb::handle) { graphs_of_thread().attr("pop")(); },
      nb::arg("type").none(), nb::arg("value").none(), nb::arg("traceback").none(),
      nb::sig("def __exit__(self, type: typing.Any, value: typing.Any, traceback: typing.Any) -> None"));
  graph.def(
      "__reduce__",
      [](const Graph&) -> nb::object {
        PyErr_SetString(
            PyExc_TypeError,
            "a Graph cannot be pickled: to_string() gives its text, luminal.save writes its weights");
        throw nb::python_error();
      },
      nb::sig("def __reduce__(self) -> typing.NoReturn"));
  graph.def(
      "__eq__",
      [](const Graph& a, nb::handle b) {
        return nb::isinstance<Graph>(b) && a.state() == nb::cast<const Graph&>(b).state();
      },
      nb::is_operator(), nb::sig("def __eq__(self, other: object, /) -> bool"));
  graph.def("__hash__", [](const Graph& a) { return std::hash<const void*>()(a.state().get()); });
  graph.def_prop_ro(
      "device", [](const Graph& g) { return g.device(here()).name(); },
      "The name of the device where its values lie.");
  m.def(
      "default_graph", [] { return Graph(default_graph().state()); },
      "The graph that functions of the module act on: that of the innermost `with graph:`, else the thread's "
      "own.");
  m.def(
      "new_graph",
      [] {
        nb::list graphs = graphs_of_thread();
        if (nb::len(graphs) > 0) graphs.attr("pop")();
        graphs.append(nb::cast(Graph()));
        return Graph(default_graph().state());
      },
      "A new default graph, in the place of the present one: what no tensor refers to is given back.");

  both(m, graph, "dim", &dim, nb::arg("name"), nb::arg("low"), nb::arg("high"), nb::arg("multiple_of") = 1,
       "A dynamic dimension: any value in low..high, set before each execute, never a reason to compile "
       "again; with `multiple_of` always a multiple of that.");
  both(m, graph, "set_dim", &set_dim, nb::arg("name"), nb::arg("value"),
       "The present size of a dynamic dimension.");
  both(m, graph, "tensor", &tensor_of, nb::arg("data"), nb::arg("dtype") = nb::none(), nb::arg("name") = "",
       nb::sig("def tensor(data: luminal.typing.ArrayLike, dtype: luminal.typing.DTypeLike | None = None, "
               "name: str = '') -> Tensor"),
       "An input that has these values: numbers, nested lists, arrays. Whole numbers are i64, numbers with a "
       "fraction f32, arrays keep their type. "
       "set() gives it others. The values are copied; see from_numpy and input.");
  both(
      m, graph, "input",
      +[](Graph& g, nb::handle shape, const std::optional<Type>& dtype, const std::string& name) {
        return declare(g, Made::input, name, shape, dtype);
      },
      nb::arg("shape"), nb::arg("dtype") = nb::none(), nb::arg("name") = "",
      nb::sig("def input(shape: luminal.typing.Shape, dtype: luminal.typing.DTypeLike | None = None, name: "
              "str = '') -> Tensor"),
      "An input of this shape (f32) that is given by set() before execute; it keeps its last value.");
  both(
      m, graph, "weight",
      +[](Graph& g, const std::string& name, nb::handle shape, const std::optional<Type>& dtype) {
        return declare(g, Made::weight, name, shape, dtype);
      },
      nb::arg("name"), nb::arg("shape"), nb::arg("dtype") = nb::none(),
      nb::sig("def weight(name: str, shape: luminal.typing.Shape | luminal.typing.Array, dtype: "
              "luminal.typing.DTypeLike | None = None) -> Tensor"),
      "An input that seldom changes: what depends on weights only is computed once, at load. `shape`: sizes, "
      "or an array of values.");
  both(
      m, graph, "state",
      +[](Graph& g, const std::string& name, nb::handle shape, const std::optional<Type>& dtype) {
        return declare(g, Made::state, name, shape, dtype);
      },
      nb::arg("name"), nb::arg("shape"), nb::arg("dtype") = nb::none(),
      nb::sig("def state(name: str, shape: luminal.typing.Shape | luminal.typing.Array, dtype: "
              "luminal.typing.DTypeLike | None = None) -> Tensor"),
      "A value that lives from step to step, zero at first or what the array has; `update` says what it "
      "becomes.");
  both(m, graph, "update", &update, nb::arg("state"), nb::arg("next"),
       "At the end of each execute the state holds `next`. Within the step every reader sees the old value.");
  both(m, graph, "constant", &constant, nb::arg("values"), nb::arg("dtype") = nb::none(),
       nb::sig("def constant(values: luminal.typing.ArrayLike, dtype: luminal.typing.DTypeLike | None = "
               "None) -> Tensor"),
       "Numbers in the text of the program.");
  both(
      m, graph, "from_numpy",
      +[](Graph& g, nb::handle array, const std::string& name) {
        return borrowed(g, array, name, "from_numpy");
      },
      nb::arg("array"), nb::arg("name") = "",
      nb::sig("def from_numpy(array: luminal.typing.ArrayLike, name: str = '') -> Tensor"),
      "An input that reads the array's memory in place (row-major; others are copied). What is written to "
      "the array is seen by the next execute.");
  both(
      m, graph, "from_dlpack",
      +[](Graph& g, nb::handle array, const std::string& name) {
        return borrowed(g, array, name, "from_dlpack");
      },
      nb::arg("array"), nb::arg("name") = "",
      nb::sig("def from_dlpack(array: luminal.typing.ArrayLike, name: str = '') -> Tensor"),
      "The same for what has __dlpack__: tensors of PyTorch, JAX, ...");
  both(m, graph, "arange", &arange, nb::arg("start"), nb::arg("end") = nb::none(), nb::arg("step") = 1,
       nb::arg("dtype") = nb::none(),
       nb::sig("def arange(start: luminal.typing.Size | float, end: luminal.typing.Size | float | None = "
               "None, step: int | float = 1, dtype: luminal.typing.DTypeLike | None = None) -> Tensor"),
       "start, start + step, .. before end; arange(end) begins at 0. f32 where a number has a fraction, else "
       "i64.");
  both(m, graph, "iota", &iota, nb::arg("shape"), nb::arg("value"), nb::arg("dtype") = nb::none(),
       nb::sig("def iota(shape: luminal.typing.Shape, value: collections.abc.Callable[..., "
               "luminal.typing.Size], dtype: luminal.typing.DTypeLike | None = None) -> Tensor"),
       "Integers by an expression over the axes: iota((3, 4), lambda i, j: i * 4 + j).");
  bind_control(m, graph);
  bind_run(m, graph);
}

} // namespace luminal::python
