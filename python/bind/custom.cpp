// python/bind/custom.cpp -- what users add to the compiler: elementwise operations, functions on
// the host, kernels.
#include "arrays.h"
#include "bind.h"
#include "generated/enums.h"

namespace luminal::python {
namespace {

nb::object object_of(const std::shared_ptr<const void>& kept) {
  return nb::borrow(static_cast<PyObject*>(const_cast<void*>(kept.get())));
}

/// An elementwise function of Python on doubles or integers; what it throws ends the work.
template <class T, class... More> auto scalar_function(const nb::object& function, int arity) {
  return [kept = keep_object(function), arity](const T* x, More...) -> T {
    const nb::gil_scoped_acquire lock;
    try {
      nb::list arguments;
      for (int i = 0; i < arity; i++) arguments.append(nb::cast(x[i]));
      return nb::cast<T>(object_of(kept)(*nb::tuple(arguments)));
    } catch (nb::python_error& error) {
      keep_exception(error);
      throw std::runtime_error(error.what());
    }
  };
}

void add_operation(const std::string& name, int arity, OperationTypes types, const nb::object& f64,
                   const nb::object& i64, const std::string& definition,
                   const std::map<std::string, std::string>& text, double ulp, double low, double high,
                   bool commutative, const std::vector<std::string>& derivative, const std::string& rules,
                   const std::string& doc) {
  const auto where = here();
  Operation operation{.name = name,
                      .arity = arity,
                      .types = types,
                      .definition = definition,
                      .text = text,
                      .ulp = ulp,
                      .low = low,
                      .high = high,
                      .commutative = commutative,
                      .rules = rules,
                      .doc = doc};
  if (derivative.size() > 3)
    throw Error("register_operation", "derivative has a text for each argument, at most 3", where);
  std::copy(derivative.begin(), derivative.end(), operation.derivative.begin());
  if (!f64.is_none()) operation.f64 = scalar_function<double>(f64, arity);
  if (!i64.is_none()) operation.i64 = scalar_function<int64_t, DType>(i64, arity);
  register_operation(std::move(operation), where);
}

nb::object array_of(const HostArray& array) {
  if (array.dtype == DType::bf16 || array.dtype == DType::f8e4m3 || array.dtype == DType::f8e5m2 ||
      array.dtype == DType::i4 || array.dtype == DType::u4) { // numpy has no such type: its numbers as f32
    HostArray wide = HostArray::zeros(DType::f32, array.shape);
    for (int64_t i = 0; i < array.count(); i++) wide.put(i, array.at(i));
    return numpy_array(wide.dtype, wide.shape, wide.data);
  }
  return numpy_array(array.dtype, array.shape, array.data);
}

void register_host_function(const std::string& name, const nb::callable& function) {
  register_host(
      name,
      [kept = keep_object(function), name](std::span<const HostArray> inputs) {
        const nb::gil_scoped_acquire lock;
        try {
          nb::list arguments;
          for (const HostArray& input : inputs) arguments.append(array_of(input));
          nb::object result = object_of(kept)(*nb::tuple(arguments));
          if (!PyTuple_Check(result.ptr()) && !PyList_Check(result.ptr())) result = nb::make_tuple(result);
          std::vector<HostArray> outputs;
          for (nb::handle item : result) {
            const HostData data = read_data(item, name.c_str(), here());
            const auto* bytes = static_cast<const std::byte*>(data.data);
            outputs.push_back({data.dtype, data.shape, {bytes, bytes + data.bytes}});
          }
          return outputs;
        } catch (nb::python_error& error) {
          keep_exception(error);
          throw std::runtime_error(error.what());
        }
      },
      here());
}

using Outputs = std::vector<std::pair<Type, Extents>>;

std::vector<OutputType> outputs_of(const Outputs& outputs) {
  std::vector<OutputType> list;
  for (const auto& [type, shape] : outputs) list.push_back({type, shape.list});
  return list;
}

std::vector<Tensor> call_host(const std::string& name, const std::vector<Value>& inputs,
                              const Outputs& outputs) {
  Call call("host_call", inputs);
  return host_call(name, call.tensors(inputs), outputs_of(outputs), call.where);
}

std::vector<Tensor> call_kernel(const std::string& name, const std::vector<Value>& inputs,
                                const Outputs& outputs, const std::map<std::string, std::string>& text,
                                const Extents& grid, const Extents& block, const Extent& shared_bytes,
                                const Extents& integers) {
  Call call("custom_kernel", inputs);
  const CustomKernel kernel{.name = name,
                            .text = text,
                            .grid = grid,
                            .block = block,
                            .shared_bytes = shared_bytes,
                            .integers = integers,
                            .outputs = outputs_of(outputs)};
  return custom_kernel(call.graph(), kernel, call.tensors(inputs), call.where);
}

} // namespace

void bind_custom(nb::module_& m) {
  m.def("register_operation", &add_operation, nb::arg("name"), nb::kw_only(), nb::arg("arity") = 1,
        nb::arg("types") = "floating", nb::arg("f64") = nb::none(), nb::arg("i64") = nb::none(),
        nb::arg("definition") = "", nb::arg("text") = std::map<std::string, std::string>{},
        nb::arg("ulp") = 4.0, nb::arg("low") = -4.0, nb::arg("high") = 4.0, nb::arg("commutative") = false,
        nb::arg("derivative") = std::vector<std::string>{}, nb::arg("rules") = "", nb::arg("doc") = "",
        "One row of the operation table: printed, parsed, verified, interpreted, compiled and fused like any "
        "other. f64(a, b, c): the meaning in Python. "
        "definition: the same in built-in operations, \"a / (1 + abs(a))\": what the CPU runs, checked "
        "against f64.");
  m.def(
      "test_operation",
      [](const std::string& name, uint64_t seed) { return test_operation(name, seed, here()); },
      nb::arg("name"), nb::arg("seed") = 1,
      "Tries a registered operation on every type, through views and sizes; counterexamples as text.");
  m.def("registered_operations", &registered_operations, "The names of all that are registered.");
  m.def(
      "apply_operation",
      [](const std::string& operation, const std::vector<Value>& operands) {
        Call call("apply_operation", operands);
        return apply_operation(operation, call.tensors(operands), call.where);
      },
      nb::arg("operation"), nb::arg("operands"),
      "Any operation of the table (docs/ops.md), or a registered one, with broadcasting.");
  m.def("register_host", &register_host_function, nb::arg("name"), nb::arg("function"),
        nb::sig("def register_host(name: str, function: collections.abc.Callable[..., typing.Any]) -> None"),
        "function(*arrays) is called with numpy arrays at each execute, and gives an array or several.");
  m.def("host_call", &call_host, nb::arg("name"), nb::arg("inputs"), nb::arg("outputs"),
        "Calls a registered function at each execute. outputs: [(dtype, shape), ..].");
  m.def("custom_kernel", &call_kernel, nb::arg("name"), nb::arg("inputs"), nb::arg("outputs"), nb::kw_only(),
        nb::arg("text"), nb::arg("grid") = nb::make_tuple(), nb::arg("block") = nb::make_tuple(),
        nb::arg("shared_bytes") = 0, nb::arg("integers") = nb::make_tuple(),
        "A kernel as text, one for each language: {\"loops\": .., \"llvm\": .., \"cuda\": ..}. docs/guide.md "
        "says what each is given.");
}

} // namespace luminal::python
