// python/bind/models/onnx.cpp -- ONNX models as graphs, and back: from_onnx, save_onnx.
#include "luminal/onnx.h"
#include "arrays.h"
#include "bind.h"
#include <cstring>

namespace luminal::python {
namespace {

std::map<std::string, OnnxNumbers> numbers_of(const nb::dict& values, std::source_location where) {
  std::map<std::string, OnnxNumbers> made;
  for (const auto& [name, value] : values) {
    const HostData data = read_data(value, "from_onnx", where);
    const auto* bytes = static_cast<const std::byte*>(data.data);
    made.emplace(nb::cast<std::string>(name),
                 OnnxNumbers{data.dtype, data.shape, {bytes, bytes + data.bytes}});
  }
  return made;
}

/// A number fixes a dimension, a pair is its least and greatest size.
std::map<std::string, std::pair<int64_t, int64_t>> ranges_of(const nb::dict& dims) {
  std::map<std::string, std::pair<int64_t, int64_t>> ranges;
  for (const auto& [name, range] : dims) {
    int64_t size = 0;
    const auto key = nb::cast<std::string>(name);
    if (read_integer(range, size, true))
      ranges.emplace(key, std::pair(size, size));
    else
      ranges.emplace(key, nb::cast<std::pair<int64_t, int64_t>>(range));
  }
  return ranges;
}

nb::dict by_name(const std::vector<OnnxValue>& values) {
  nb::dict named;
  for (const OnnxValue& value : values) named[value.name.c_str()] = value.tensor;
  return named;
}

std::string names_of(const std::vector<OnnxValue>& values) {
  std::string text;
  for (const OnnxValue& value : values) text += (text.empty() ? "" : ", ") + value.name;
  return text;
}

/// Sets inputs in their order or by their names, runs the graph, and reads all results.
nb::object run_model(OnnxModel& model, const nb::args& arrays, const nb::kwargs& named) {
  if (arrays.size() + named.size() != model.inputs.size())
    throw Error("OnnxModel",
                std::to_string(model.inputs.size()) + " inputs are needed (" + names_of(model.inputs) +
                    "), " + std::to_string(arrays.size() + named.size()) + " were given",
                here());
  for (size_t i = 0; i < arrays.size(); i++) nb::cast(model.inputs[i].tensor).attr("set")(arrays[i]);
  for (const auto& [name, array] : named)
    nb::cast(model.input(nb::cast<std::string>(name), here())).attr("set")(array);
  nb::cast(Graph(model.graph.state("execute", here()))).attr("execute")();
  nb::list results;
  for (const OnnxValue& output : model.outputs) results.append(nb::cast(output.tensor).attr("numpy")());
  return results.size() == 1 ? nb::object(results[0]) : nb::tuple(results);
}

} // namespace

void bind_onnx(nb::module_& m) {
  nb::class_<OnnxModel>(m, "OnnxModel",
                        "An ONNX file as a graph. Called with arrays, in the order of `inputs` or by their "
                        "names, it runs and gives numpy arrays: one, or a tuple of them.")
      .def_prop_ro("graph", [](OnnxModel& model) { return Graph(model.graph.state("graph", here())); })
      .def_prop_ro(
          "inputs", [](const OnnxModel& model) { return by_name(model.inputs); },
          nb::sig("def inputs(self) -> dict[str, Tensor]"), "By the file's names, without fixed inputs.")
      .def_prop_ro(
          "outputs", [](const OnnxModel& model) { return by_name(model.outputs); },
          nb::sig("def outputs(self) -> dict[str, Tensor]"), "By the file's names.")
      .def_ro("fixed", &OnnxModel::fixed, "Inputs whose values shapes depend on.")
      .def_ro("opsets", &OnnxModel::opsets, "By domain.")
      .def_ro("metadata", &OnnxModel::metadata)
      .def_ro("producer", &OnnxModel::producer)
      .def("__call__", &run_model,
           nb::sig("def __call__(self, *arrays: luminal.typing.ArrayLike, **named: "
                   "luminal.typing.ArrayLike) -> typing.Any"))
      .def("__repr__", [](const OnnxModel& model) {
        return "OnnxModel(" + names_of(model.inputs) + " -> " + names_of(model.outputs) + ")";
      });
  m.def(
      "from_onnx",
      [](nb::handle path, const nb::dict& dims, const std::map<std::string, std::vector<int64_t>>& shapes,
         const nb::dict& values) {
        const auto where = here();
        const auto file = nb::cast<std::string>(nb::module_::import_("os").attr("fspath")(path));
        return load_onnx(
            file, {.dims = ranges_of(dims), .shapes = shapes, .values = numbers_of(values, where)}, where);
      },
      nb::arg("path"), nb::kw_only(), nb::arg("dims") = nb::dict(),
      nb::arg("shapes") = std::map<std::string, std::vector<int64_t>>{}, nb::arg("values") = nb::dict(),
      nb::sig("def from_onnx(path: str | os.PathLike[str], *, dims: collections.abc.Mapping[str, int | "
              "tuple[int, int]] = {}, shapes: collections.abc.Mapping[str, "
              "collections.abc.Sequence[int]] = {}, values: collections.abc.Mapping[str, "
              "luminal.typing.ArrayLike] = {}) -> OnnxModel"),
      "Makes the graph of an ONNX file; its weights stay where they are. dims: sizes of the file's dynamic "
      "dimensions by name, a number or (least, greatest); others are 1 to 4096. shapes: of inputs. values: "
      "of inputs that shapes depend on. Throws Error with all operators that are not supported.");
  m.def(
      "save_onnx",
      [](nb::handle path, const std::map<std::string, std::string>& metadata, nb::handle graph) {
        const auto where = here();
        Graph g = graph_for("save_onnx", graph, where);
        check_idle("save_onnx", g.state("save_onnx", where).get(), where);
        const auto file = nb::cast<std::string>(nb::module_::import_("os").attr("fspath")(path));
        save_onnx(g, file, {.metadata = metadata}, where);
      },
      nb::arg("path"), nb::kw_only(), nb::arg("metadata") = std::map<std::string, std::string>{},
      nb::arg("graph") = nb::none(),
      nb::sig(
          "def save_onnx(path: str | os.PathLike[str], *, metadata: collections.abc.Mapping[str, str] = {}, "
          "graph: Graph | None = None) -> None"),
      "Writes the graph's kept values, and all that they depend on, as an ONNX model: inputs and weights "
      "under "
      "their names, a state as an input and its next value as the output NAME_next. Throws Error for a term "
      "that ONNX cannot say, before anything is written.");
}

} // namespace luminal::python
