// python/bind/files.cpp -- weights from files and back, quantised weights, devices.
#include "arrays.h"
#include "bind.h"
#include "generated/enums.h"

namespace luminal::python {
namespace {

LoadReport load_into(Graph& g, const std::string& path, bool strict, bool convert,
                     const nb::object& name_in_file) {
  const auto where = here();
  check_idle("load", g.state("load", where).get(), where);
  LoadOptions options{.strict = strict, .convert = convert};
  if (!name_in_file.is_none())
    options.name_in_file = [&](const std::string& weight) {
      return nb::cast<std::string>(name_in_file(weight));
    };
  return load(g, path, options, where);
}

void save_from(Graph& g, const std::string& path, bool states,
               const std::map<std::string, std::string>& metadata) {
  const auto where = here();
  check_idle("save", g.state("save", where).get(), where);
  save(g, path, {.states = states, .metadata = metadata}, where);
}

std::string path_of(nb::handle path) {
  return nb::cast<std::string>(nb::module_::import_("os").attr("fspath")(path));
}

void bind_quantized(nb::module_& m) {
  nb::class_<WeightFormat>(m, "WeightFormat", "How a weight is quantised.")
      .def(
          "__init__",
          [](WeightFormat* self, int bits, bool symmetric, int64_t group) {
            new (self) WeightFormat{bits, symmetric, group};
          },
          nb::arg("bits") = 8, nb::arg("symmetric") = true, nb::arg("group") = 32)
      .def_ro("bits", &WeightFormat::bits)
      .def_ro("symmetric", &WeightFormat::symmetric)
      .def_ro("group", &WeightFormat::group);
  nb::class_<PackedWeight>(m, "PackedWeight", "The nearest codes of a matrix.")
      .def_ro("format", &PackedWeight::format)
      .def_ro("rows", &PackedWeight::rows)
      .def_ro("columns", &PackedWeight::columns)
      .def_ro("scales", &PackedWeight::scales)
      .def_ro("offsets", &PackedWeight::offsets)
      .def_prop_ro(
          "codes",
          [](const PackedWeight& w) { return numpy_array(DType::u8, {int64_t(w.codes.size())}, w.codes); },
          nb::sig("def codes(self) -> luminal.typing.NumpyArray"));
  nb::class_<QuantizedWeight>(m, "QuantizedWeight", "A matrix [rows, columns] in codes.")
      .def_ro("codes", &QuantizedWeight::codes)
      .def_ro("scale", &QuantizedWeight::scale)
      .def_ro("zero", &QuantizedWeight::zero)
      .def_ro("has_offset", &QuantizedWeight::has_offset)
      .def_prop_ro("rows", &QuantizedWeight::rows)
      .def_prop_ro("columns", &QuantizedWeight::columns)
      .def_prop_ro("block", &QuantizedWeight::block);
  nb::class_<QuantizedRows>(m, "QuantizedRows", "Activations in blocks of 32 as in Q8_0.")
      .def_ro("values", &QuantizedRows::values)
      .def_ro("scale", &QuantizedRows::scale)
      .def_ro("width", &QuantizedRows::width);
  m.def(
      "quantize_weight",
      [](nb::handle values, const WeightFormat& format) {
        const auto where = here();
        const HostData data = read_data(values, "quantize_weight", where);
        if (data.shape.size() != 2) throw Error("quantize_weight", "takes a matrix [rows, columns]", where);
        Graph scratch;
        Tensor matrix = scratch.tensor({data.shape[0], data.shape[1]}, DType::f32, "", where);
        matrix.set_bytes({static_cast<const std::byte*>(data.data), data.bytes}, data.dtype, where);
        return quantize_weight(matrix.data<float>(where), data.shape[0], data.shape[1], format, where);
      },
      nb::arg("values"), nb::arg("format") = WeightFormat{},
      nb::sig("def quantize_weight(values: luminal.typing.ArrayLike, format: WeightFormat = ...) -> "
              "PackedWeight"),
      "The nearest codes of a matrix [rows, columns]: bytes that quantized_weight reads.");
  m.def(
      "quantized_weight",
      [](const std::string& name, const PackedWeight& packed, RowOrder order, nb::object graph) {
        const auto where = here();
        Graph g = graph_for("quantized_weight", graph, where);
        return quantized_weight(g, name, packed, order, where);
      },
      nb::arg("name"), nb::arg("packed"), nb::arg("order") = "apart", nb::kw_only(),
      nb::arg("graph") = nb::none(),
      "The packed weight as weights NAME.codes, NAME.scales and NAME.offsets of the graph.");
  m.def(
      "quantized_weight",
      [](const std::string& name, const std::string& type, int64_t rows, int64_t columns, RowOrder order,
         nb::object graph) {
        const auto where = here();
        Graph g = graph_for("quantized_weight", graph, where);
        return quantized_weight(g, name, type, rows, columns, order, where);
      },
      nb::arg("name"), nb::arg("type"), nb::arg("rows"), nb::arg("columns"), nb::arg("order") = "apart",
      nb::kw_only(), nb::arg("graph") = nb::none(),
      "A matrix in blocks of GGUF (\"Q8_0\", \"Q4_K\", ..) as the weight NAME, which load gives the bytes of "
      "a file where they are.");
  m.def(
      "dequantize", [](const QuantizedWeight& weight) { return dequantize(weight, here()); },
      nb::arg("weight"), "f32 [rows, columns]: exact values of the codes.");
  m.def(
      "quantize_rows",
      [](const Value& x) {
        Call call("quantize_rows", {&x});
        return quantize_rows(call.tensor(x), call.where);
      },
      nb::arg("x"), "Activations [m, k] in blocks of 32: x ~ values * scale.");
  m.def(
      "matmul_transposed",
      [](const QuantizedRows& x, const QuantizedWeight& weight) {
        return matmul_transposed(x, weight, here());
      },
      nb::arg("x"), nb::arg("weight"), "x times the transpose of the weight, in integers.");
  m.def(
      "matmul_transposed",
      [](const Value& x, const QuantizedWeight& weight) {
        Call call("matmul_transposed", {&x});
        return matmul_transposed(call.tensor(x), weight, call.where);
      },
      nb::arg("x"), nb::arg("weight"), "f32 [m, k] times the transpose of the weight.");
  m.def(
      "interleave_rows",
      [](const Value& x, int64_t tile, int64_t unit) {
        Call call("interleave_rows", {&x});
        return interleave_rows(call.tensor(x), tile, unit, call.where);
      },
      nb::arg("x"), nb::arg("tile"), nb::arg("unit"),
      "[rows, .., count * unit] -> [rows / tile, .., count, tile, unit].");
  m.def("row_tile", &row_tile, nb::arg("rows"), "The most rows beside each other that divide `rows`.");
}

void bind_devices(nb::module_& m) {
  nb::class_<Device>(m, "Device", "A device by its name.")
      .def(
          "__init__", [](Device* self, const std::string& name) { new (self) Device(name, here()); },
          nb::arg("name"))
      .def_prop_ro("name", &Device::name)
      .def_prop_ro("description", &Device::description)
      .def_prop_ro("memory_bytes", &Device::memory_bytes)
      .def_prop_ro("executes", &Device::executes, "False: it is compiled for only.")
      .def("__repr__", [](const Device& device) { return "Device(\"" + device.name() + "\")"; });
  m.def("devices", &devices, "The devices of this machine, the processor first.");
  m.def("default_device", &default_device, "Where graphs lie that say nothing else.");
  m.def(
      "set_default_device",
      [](const std::optional<std::string>& name) {
        const auto where = here();
        set_default_device(name ? std::optional(Device(*name, where)) : std::nullopt);
      },
      nb::arg("name").none(), "Of graphs that are made afterwards; None: as LUMINAL_DEVICE says.");
}

} // namespace

void bind_files(nb::module_& m) {
  nb::class_<LoadReport::Mismatch>(m, "Mismatch", "A weight that does not fit, and why.")
      .def_ro("name", &LoadReport::Mismatch::name)
      .def_ro("reason", &LoadReport::Mismatch::reason);
  nb::class_<LoadReport>(m, "LoadReport", "What load did, by the names of weights.")
      .def_ro("loaded", &LoadReport::loaded)
      .def_ro("missing", &LoadReport::missing)
      .def_ro("unused", &LoadReport::unused)
      .def_ro("mismatching", &LoadReport::mismatching)
      .def_prop_ro("complete", &LoadReport::complete)
      .def("__repr__", [](const LoadReport& report) { return to_string(report); });
  nb::class_<StoredTensor>(m, "StoredTensor", "A tensor of a file, without its values.")
      .def_ro("name", &StoredTensor::name)
      .def_ro("type", &StoredTensor::type)
      .def_prop_ro(
          "shape", [](const StoredTensor& t) { return nb::tuple(nb::cast(t.shape)); },
          nb::sig("def shape(self) -> tuple[int, ...]"))
      .def("__repr__", [](const StoredTensor& t) { return "StoredTensor(" + t.name + " " + t.type + ")"; });
  const char* path = "def load(path: str | os.PathLike[str], *, strict: bool = True, convert: bool = False, "
                     "name_in_file: collections.abc.Callable[[str], str] | None = None, graph: Graph | None "
                     "= None) -> LoadReport";
  m.def(
      "load",
      [](nb::handle file, bool strict, bool convert, const nb::object& name_in_file, nb::handle graph) {
        Graph g = graph_for("load", graph, here());
        return load_into(g, path_of(file), strict, convert, name_in_file);
      },
      nb::arg("path"), nb::kw_only(), nb::arg("strict") = true, nb::arg("convert") = false,
      nb::arg("name_in_file") = nb::none(), nb::arg("graph") = nb::none(), nb::sig(path),
      "Gives the weights of the graph the values of a file (safetensors, GGUF, npz, npy), which is mapped, "
      "not read. strict: all names and types fit, "
      "or nothing is set. convert: other types are converted, quantised ones unpacked. name_in_file: the "
      "file's name of a weight.");
  m.def(
      "save",
      [](nb::handle file, bool states, const std::map<std::string, std::string>& metadata, nb::handle graph) {
        Graph g = graph_for("save", graph, here());
        save_from(g, path_of(file), states, metadata);
      },
      nb::arg("path"), nb::kw_only(), nb::arg("states") = false,
      nb::arg("metadata") = std::map<std::string, std::string>{}, nb::arg("graph") = nb::none(),
      nb::sig("def save(path: str | os.PathLike[str], *, states: bool = False, metadata: "
              "collections.abc.Mapping[str, str] = {}, graph: Graph | None = None) -> None"),
      "Writes all weights under their names: .safetensors, .gguf, .npz, .npy.");
  m.def(
      "tensors_in", [](nb::handle file) { return tensors_in(path_of(file), here()); }, nb::arg("path"),
      nb::sig("def tensors_in(path: str | os.PathLike[str]) -> list[StoredTensor]"),
      "What is in a file that load takes.");
  bind_quantized(m);
  bind_devices(m);
}

} // namespace luminal::python
