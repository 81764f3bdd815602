// python/bind/module.cpp -- the module: element types, dimensions, errors, and all the other parts.
#include "arrays.h"
#include "bind.h"
#include <nanobind/operators.h>

namespace luminal::python {

void bind_operations_0(nb::module_& m, nb::class_<Tensor>& tensor);
void bind_operations_1(nb::module_& m, nb::class_<Tensor>& tensor);
void bind_operations_2(nb::module_& m, nb::class_<Tensor>& tensor);
void bind_operations_3(nb::module_& m, nb::class_<Tensor>& tensor);

namespace {

void bind_types(nb::module_& m) {
  auto types = nb::enum_<DType>(
      m, "DType",
      "Element types. numpy's, Python's and torch's types and their names are taken in their place.");
  for (int i = 0; i <= int(DType::f64); i++) {
    const DType type = DType(i);
    types.value(std::string(to_string(type)).c_str(), type);
  }
  for (int i = 0; i <= int(DType::f64); i++)
    if (DType(i) != DType::boolean) // luminal.bool is made in __init__.py: stubs name Python's bool
      m.attr(std::string(to_string(DType(i))).c_str()) = nb::cast(DType(i));
  const std::pair<const char*, DType> long_names[] = {
      {"int8", DType::i8},       {"uint8", DType::u8},    {"int16", DType::i16},   {"uint16", DType::u16},
      {"int32", DType::i32},     {"uint32", DType::u32},  {"int64", DType::i64},   {"uint64", DType::u64},
      {"bfloat16", DType::bf16}, {"float16", DType::f16}, {"float32", DType::f32}, {"float64", DType::f64}};
  for (const auto& [name, type] : long_names) m.attr(name) = nb::cast(type);
}

} // namespace

void bind_dim(nb::module_& m) {
  nb::class_<Dim> dim(m, "Dim",
                      "A size: a number, or an expression over dynamic dimensions. Graph.dim declares one; "
                      "arithmetic makes others.");
  dim.def("__init__", [](Dim* self, int64_t value) { new (self) Dim(value); }, nb::arg("value"));
#define LUMINAL_DIM(name, expression)                                                                        \
  dim.def(                                                                                                   \
      "__" #name "__",                                                                                       \
      [](Dim a, Extent other) {                                                                              \
        const Dim b = other;                                                                                 \
        return expression;                                                                                   \
      },                                                                                                     \
      nb::is_operator());
  LUMINAL_DIM(add, a + b)
  LUMINAL_DIM(radd, b + a)
  LUMINAL_DIM(sub, a - b)
  LUMINAL_DIM(rsub, b - a)
  LUMINAL_DIM(mul, a * b)
  LUMINAL_DIM(rmul, b * a)
  LUMINAL_DIM(floordiv, a / b)
  LUMINAL_DIM(rfloordiv, b / a)
  LUMINAL_DIM(mod, a % b)
  LUMINAL_DIM(rmod, b % a)
  LUMINAL_DIM(lt, a < b)
  LUMINAL_DIM(le, a <= b)
  LUMINAL_DIM(gt, a > b)
  LUMINAL_DIM(ge, a >= b)
  LUMINAL_DIM(and, a && b)
  LUMINAL_DIM(or, a || b)
#undef LUMINAL_DIM
  dim.def(
      "__eq__",
      [](Dim a, nb::handle other) {
        Dim b = 0;
        return read_extent(other, b) && a == b;
      },
      nb::is_operator(), nb::sig("def __eq__(self, other: object, /) -> bool"),
      "Whether it is the same expression; see Dim.equal.");
  dim.def("__neg__", [](Dim a) { return -a; });
  dim.def("__invert__", [](Dim a) { return !a; });
  dim.def("__hash__",
          [](Dim a) { return a.is_constant() ? size_t(a.value()) : size_t(a.id()) * 2654435761u; });
  dim.def("__int__", [](Dim a) { return a.value(); }, "Of a constant.");
  dim.def("__bool__", [](Dim a) -> bool {
    if (a.is_constant()) return a.value() != 0;
    throw Error("Dim",
                "the value of " + a.to_string() + " is not known before execute: evaluate() takes sizes",
                here());
  });
  dim.def("__repr__", [](Dim a) { return a.to_string(); });
  dim.def_prop_ro("is_constant", &Dim::is_constant);
  dim.def_prop_ro("value", &Dim::value, "Of a constant.");
  dim.def_prop_ro("low", &Dim::low, "The least value that it can have.");
  dim.def_prop_ro("high", &Dim::high, "The greatest value that it can have.");
  dim.def_prop_ro("names", &Dim::names, "Of the dimensions in it.");
  dim.def(
      "substitute",
      [](Dim a, const std::map<std::string, Extent>& values) {
        std::map<std::string, Dim> by_name;
        for (const auto& [name, value] : values) by_name.emplace(name, value.value);
        return a.substitute(by_name);
      },
      nb::arg("values"), "With dimensions replaced by name.");
  dim.def("evaluate", &Dim::evaluate, nb::arg("sizes") = std::map<std::string, int64_t>{},
          "The number for these sizes.");
  dim.def_static(
      "equal", [](Extent a, Extent b) { return equal(a.value, b.value); },
      "1 where both are equal, else 0: an expression.");
  dim.def_static("min", [](Extent a, Extent b) { return min(a.value, b.value); });
  dim.def_static("max", [](Extent a, Extent b) { return max(a.value, b.value); });
  dim.def_static(
      "ceil_div", [](Extent a, Extent b) { return ceil_div(a.value, b.value); }, "a / b, rounded up.");
  dim.def_static("select", [](Extent condition, Extent a, Extent b) {
    return select(condition.value, a.value, b.value);
  });
  dim.def_static(
      "parse",
      [](const std::string& text, const Extents& dimensions) { return Dim::parse(text, dimensions.list); },
      nb::arg("text"), nb::arg("dimensions"), "The text of an expression over these dimensions.");
}

void bind_operations(nb::module_& m, nb::class_<Tensor>& tensor) {
  bind_operations_0(m, tensor);
  bind_operations_1(m, tensor);
  bind_operations_2(m, tensor);
  bind_operations_3(m, tensor);
}

namespace {
/// OutOfMemoryError with the numbers of its shortage.
void bind_out_of_memory(nb::module_& m, nb::handle error) {
  const nb::exception<luminal::OutOfMemoryError> type(m, "OutOfMemoryError", error);
  type.doc() =
      "Memory that a device cannot give, or that a limit forbids. The text holds both numbers and says "
      "what needs less.";
  const nb::handle property(reinterpret_cast<PyObject*>(&PyProperty_Type));
  type.attr("needed") =
      property(nb::cpp_function([](nb::handle self) { return self.attr("_shortage")[0]; }, nb::is_method(),
                                nb::sig("def needed(self) -> int"), "Bytes that were asked for."));
  type.attr("available") =
      property(nb::cpp_function([](nb::handle self) { return self.attr("_shortage")[1]; }, nb::is_method(),
                                nb::sig("def available(self) -> int | None"),
                                "Bytes that the machine or the device has, or the limit; None where the "
                                "system does not say."));
  nb::register_exception_translator(
      [](const std::exception_ptr& thrown, void* payload) {
        try {
          std::rethrow_exception(thrown);
        } catch (const luminal::OutOfMemoryError& mistake) {
          const nb::handle raised(static_cast<PyObject*>(payload));
          const nb::object made = raised(mistake.what());
          made.attr("_shortage") = nb::make_tuple(mistake.shortage().needed, mistake.shortage().available);
          PyErr_SetObject(raised.ptr(), made.ptr());
        }
      },
      type.ptr());
}
} // namespace

} // namespace luminal::python

NB_MODULE(_core, m) {
  using namespace luminal::python;
  nb::set_leak_warnings(false); // other frameworks keep graphs until the interpreter ends
  m.doc() = "Luminal: a deep-learning compiler. Use the module luminal.";
  const nb::exception<luminal::Error> error(m, "Error", PyExc_RuntimeError);
  error.doc() =
      "A mistake of the caller, or a file or machine that cannot serve. The text names the operation, what "
      "was found and the line of the Python file.";
  bind_out_of_memory(m, error);
  nb::exception<luminal::InternalError>(m, "InternalError", PyExc_RuntimeError).doc() =
      "A bug of the library.";
  bind_types(m);
  bind_dim(m);
  nb::class_<luminal::Tensor> tensor(m, "Tensor",
                                     "A value in a lazy graph. Operations only extend the graph; compile and "
                                     "execute do the work. Every operation checks "
                                     "shapes and types at once.");
  bind_graph(m);
  bind_tensor(m, tensor);
  bind_operations(m, tensor);
  bind_custom(m);
  bind_passes(m);
  bind_files(m);
  bind_inspect(m);
  bind_model(m);
  bind_onnx(m);
  bind_autograd(m);
  bind_optimizers(m);
  bind_training_names(m);
  bind_train_data(m);
  bind_train(m);
  bind_runner(m);
  bind_watch(m);
  bind_refusals(m);
}
