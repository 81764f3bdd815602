// python/bind/tensor.cpp -- Tensor: operators, data, what numpy and PyTorch users expect of an
// array. Operations: generate.py.
#include "args.h"
#include "arrays.h"
#include "bind.h"
#include "generated/results.h"

namespace luminal::python {
namespace {

#define LUMINAL_BINARY(name, symbol)                                                                         \
  tensor.def(                                                                                                \
      "__" #name "__",                                                                                       \
      [](const Value& a, const Value& b) {                                                                   \
        Call call(#symbol, {&a, &b});                                                                        \
        return call.operand(a) symbol call.operand(b);                                                       \
      },                                                                                                     \
      nb::is_operator());
#define LUMINAL_REFLECTED(name, symbol)                                                                      \
  LUMINAL_BINARY(name, symbol)                                                                               \
  tensor.def(                                                                                                \
      "__r" #name "__",                                                                                      \
      [](const Value& a, const Value& b) {                                                                   \
        Call call(#symbol, {&b, &a});                                                                        \
        return call.operand(b) symbol call.operand(a);                                                       \
      },                                                                                                     \
      nb::is_operator());
#define LUMINAL_REFLECTED_FUNCTION(name, function)                                                           \
  tensor.def(                                                                                                \
      "__" #name "__",                                                                                       \
      [](const Value& a, const Value& b) {                                                                   \
        Call call(#function, {&a, &b});                                                                      \
        return luminal::function(call.operand(a), call.operand(b));                                          \
      },                                                                                                     \
      nb::is_operator());                                                                                    \
  tensor.def(                                                                                                \
      "__r" #name "__",                                                                                      \
      [](const Value& a, const Value& b) {                                                                   \
        Call call(#function, {&b, &a});                                                                      \
        return luminal::function(call.operand(b), call.operand(a));                                          \
      },                                                                                                     \
      nb::is_operator());

void bind_operators(nb::class_<Tensor>& tensor) {
  LUMINAL_REFLECTED(add, +)
  LUMINAL_REFLECTED(sub, -)
  LUMINAL_REFLECTED(mul, *)
  LUMINAL_REFLECTED(truediv, /)
  LUMINAL_REFLECTED(mod, %)
  LUMINAL_REFLECTED(and, &)
  LUMINAL_REFLECTED(or, |)
  LUMINAL_REFLECTED(xor, ^)
  LUMINAL_REFLECTED(lshift, <<)
  LUMINAL_REFLECTED(rshift, >>)
  LUMINAL_BINARY(lt, <)
  LUMINAL_BINARY(le, <=)
  LUMINAL_BINARY(gt, >)
  LUMINAL_BINARY(ge, >=)
  LUMINAL_REFLECTED_FUNCTION(floordiv, floor_divide)
  LUMINAL_REFLECTED_FUNCTION(pow, pow)
  tensor.def(
      "__eq__",
      [](const Value& a, const Value& b) {
        Call call("equal", {&a, &b});
        return equal(call.operand(a), call.operand(b));
      },
      nb::is_operator(), nb::sig("def __eq__(self, other: luminal.typing.TensorLike, /) -> Tensor"));
  tensor.def(
      "__ne__",
      [](const Value& a, const Value& b) {
        Call call("not_equal", {&a, &b});
        return not_equal(call.operand(a), call.operand(b));
      },
      nb::is_operator(), nb::sig("def __ne__(self, other: luminal.typing.TensorLike, /) -> Tensor"));
  const auto product = [](const Value& a, const Value& b) {
    Call call("matmul", {&a, &b});
    return call.tensor(a).matmul(call.tensor(b), call.where);
  };
  tensor.def("__matmul__", product, nb::is_operator());
  tensor.def(
      "__rmatmul__", [product](const Value& a, const Value& b) { return product(b, a); }, nb::is_operator());
  tensor.def("__neg__", [](const Value& a) {
    Call call("neg", {&a});
    return -call.operand(a);
  });
  tensor.def("__pos__", [](const Tensor& a) { return a; });
  tensor.def("__abs__", [](const Value& a) {
    Call call("abs", {&a});
    return call.tensor(a).abs(call.where);
  });
  tensor.def("__invert__", [](const Value& a) {
    Call call("~", {&a});
    return ~call.operand(a);
  });
  tensor.def("__round__", [](const Value& a) {
    Call call("round", {&a});
    return call.tensor(a).round(call.where);
  });
  tensor.def("__hash__", [](const Tensor& a) {
    return std::hash<const void*>()(a.graph(here()).get()) ^ (std::hash<uint32_t>()(a.id()) << 1);
  });
}

nb::object size_object(Dim dim) {
  return dim.is_constant() ? nb::object(nb::int_(dim.value())) : nb::cast(dim);
}

nb::tuple shape_of(const Tensor& tensor) {
  nb::list sizes;
  for (Dim dim : tensor.shape(here())) sizes.append(size_object(dim));
  return nb::tuple(sizes);
}

[[noreturn]] void refuse(nb::handle type, const char* text) {
  PyErr_SetString(type.ptr(), text);
  throw nb::python_error();
}

/// Gives a tensor the numbers of Python: at once where they are a copy anyway, in place where asked.
Tensor& set_data(Tensor& tensor, nb::handle values, bool in_place, bool dynamic) {
  const auto where = here();
  check_idle("set", tensor.graph(where).get(), where);
  const HostData data = read_data(values, in_place ? "borrow" : "set", where);
  const std::span bytes{static_cast<const std::byte*>(data.data), data.bytes};
  const Dims shape = tensor.shape(where);
  if (data.shape.size() != shape.size())
    throw Error(in_place ? "borrow" : "set",
                "the values have " + std::to_string(data.shape.size()) + " axes, the tensor " +
                    to_string(shape) + " has " + std::to_string(shape.size()),
                where);
  for (size_t i = 0; i < shape.size(); i++)
    if (shape[i].is_constant() && shape[i].value() != data.shape[i]) {
      std::string text;
      for (int64_t extent : data.shape) text += (text.empty() ? "" : ", ") + std::to_string(extent);
      throw Error(in_place ? "borrow" : "set",
                  "values of shape [" + text + "] for a tensor " + to_string(shape), where);
    }
  if (dynamic)
    for (size_t i = 0; i < shape.size(); i++)
      if (const auto names = shape[i].names();
          !shape[i].is_constant() && names.size() == 1 && shape[i].to_string() == names[0])
        Graph(tensor.graph(where)).set_dim(names[0], data.shape[i], where);
  if (!in_place) {
    tensor.set_bytes(bytes, data.dtype, where);
    return tensor;
  }
  if (data.dtype != tensor.dtype(where))
    throw Error("borrow",
                "the tensor is " + std::string(to_string(tensor.dtype(where))) + ", the values are " +
                    std::string(to_string(data.dtype)) + ": set converts them",
                where);
  tensor.borrow(bytes.data(), bytes.size(), data.owner, where);
  return tensor;
}

void bind_data(nb::class_<Tensor>& tensor) {
  tensor.def(
      "set",
      [](nb::handle_t<Tensor> self, nb::handle values) {
        set_data(*nb::inst_ptr<Tensor>(self), values, false, true);
        return nb::borrow(self);
      },
      nb::arg("values"), nb::sig("def set(self, values: luminal.typing.ArrayLike) -> Tensor"),
      "Copies numbers in, converted to this tensor's dtype; dynamic dimensions of its shape take the sizes "
      "of the values. "
      "What is computed from a weight is then computed again.");
  tensor.def(
      "borrow",
      [](nb::handle_t<Tensor> self, nb::handle values) {
        set_data(*nb::inst_ptr<Tensor>(self), values, true, true);
        return nb::borrow(self);
      },
      nb::arg("values"), nb::sig("def borrow(self, values: luminal.typing.ArrayLike) -> Tensor"),
      "Uses the memory of an array (numpy, DLPack) in place, row-major and of this tensor's dtype; it is "
      "kept alive as long "
      "as it is read. What is written to the array later is seen by the next execute (weights: only after "
      "set or borrow). "
      "An array that is not packed is copied.");
  tensor.def(
      "set_deferred",
      [](nb::handle_t<Tensor> self, nb::callable load) {
        const auto where = here();
        Tensor& target = *nb::inst_ptr<Tensor>(self);
        check_idle("set_deferred", target.graph(where).get(), where);
        auto kept = keep_object(load);
        target.set_deferred(
            [kept](Tensor& tensor) {
              const nb::gil_scoped_acquire lock;
              const nb::object values = nb::handle(static_cast<PyObject*>(const_cast<void*>(kept.get())))();
              const HostData data = read_data(values, "set_deferred", here());
              tensor.set_bytes({static_cast<const std::byte*>(data.data), data.bytes}, data.dtype, here());
            },
            where);
        return nb::borrow(self);
      },
      nb::arg("load"),
      nb::sig(
          "def set_deferred(self, load: collections.abc.Callable[[], luminal.typing.ArrayLike]) -> Tensor"),
      "load() gives the values when they are first needed.");
  tensor.def(
      "numpy", [](const Tensor& self, std::optional<bool> copy) { return to_numpy(self, copy, "numpy"); },
      nb::kw_only(), nb::arg("copy") = nb::none(),
      nb::sig("def numpy(self, *, copy: bool | None = None) -> luminal.typing.NumpyArray"),
      "The value after execute. A large one is handed over without a copy: the array owns it, and later runs "
      "write "
      "elsewhere. Inputs, weights and states are copied; with copy=False they are seen in place, read-only.");
  tensor.def(
      "__array__",
      [](const Tensor& self, nb::handle dtype, std::optional<bool> copy) {
        nb::object array = to_numpy(self, copy, "numpy");
        if (dtype.is_none()) return array;
        return nb::object(array.attr("astype")(dtype, nb::arg("copy") = false));
      },
      nb::arg("dtype") = nb::none(), nb::arg("copy") = nb::none(),
      nb::sig("def __array__(self, dtype: typing.Any = None, copy: bool | None = None) -> "
              "luminal.typing.NumpyArray"));
  tensor.def(
      "__array_ufunc__",
      [](nb::handle_t<Tensor> self, nb::handle ufunc, const char* method, const nb::args& inputs,
         const nb::kwargs& options) {
        return nb::module_::import_("luminal._numpy")
            .attr("array_ufunc")(self, ufunc, method, *inputs, **options);
      },
      nb::sig("def __array_ufunc__(self, ufunc: typing.Any, method: str, *inputs: typing.Any, "
              "**options: typing.Any) -> typing.Any"));
  tensor.def(
      "__dlpack__",
      [](nb::handle_t<Tensor> self, nb::handle stream, nb::handle max_version, nb::handle device,
         std::optional<bool> copy) {
        (void)stream;
        (void)device;
        return to_dlpack(*nb::inst_ptr<Tensor>(self), copy, max_version);
      },
      nb::kw_only(), nb::arg("stream") = nb::none(), nb::arg("max_version") = nb::none(),
      nb::arg("dl_device") = nb::none(), nb::arg("copy") = nb::none(),
      nb::sig("def __dlpack__(self, *, stream: typing.Any = None, max_version: tuple[int, int] | None = "
              "None, dl_device: typing.Any = None, copy: bool | None = None) -> typing.Any"));
  tensor.def(
      "__dlpack_device__", [](const Tensor&) { return nb::make_tuple(1, 0); },
      nb::sig("def __dlpack_device__(self) -> tuple[int, int]"));
  tensor.def(
      "item", [](const Tensor& self) { return to_number(self, "item"); },
      nb::sig("def item(self) -> bool | int | float"),
      "The one number of a tensor with one element, after execute.");
  tensor.def("tolist", &to_list, nb::sig("def tolist(self) -> typing.Any"),
             "Nested lists of numbers, after execute.");
  tensor.def("__float__",
             [](const Tensor& self) { return nb::cast<double>(nb::float_(to_number(self, "float"))); });
  tensor.def("__int__", [](const Tensor& self) { return nb::int_(to_number(self, "int")); });
  tensor.def("__bool__", [](const Tensor& self) -> bool {
    const auto where = here();
    for (Dim dim : self.shape(where))
      if (!dim.is_constant() || dim.value() != 1)
        throw Error("bool",
                    "a tensor " + to_string(self.shape(where)) +
                        " is neither true nor false: use all() or any(), and item() after execute",
                    where);
    return nb::cast<bool>(nb::bool_(to_number(self, "bool")));
  });
}

} // namespace

void bind_tensor(nb::module_& m, nb::class_<Tensor>& tensor) {
  m.def(
      "einsum",
      [](const std::string& equation, const nb::args& operands) {
        std::vector<Value> values;
        const bool list =
            operands.size() == 1 && (PyList_Check(operands[0].ptr()) || PyTuple_Check(operands[0].ptr()));
        for (nb::handle operand : list ? nb::object(operands[0]) : nb::object(operands)) {
          Value value;
          if (!read_value(operand, value))
            throw nb::type_error("einsum takes an equation and tensors: einsum(\"ij,jk->ik\", a, b)");
          values.push_back(value);
        }
        Call call("einsum", values);
        return einsum(equation, call.tensors(values), call.where);
      },
      nb::sig("def einsum(equation: str, *operands: luminal.typing.TensorLike | "
              "collections.abc.Sequence[luminal.typing.TensorLike]) -> Tensor"),
      "Einstein summation as in PyTorch: \"bij,bjk->bik\"; several tensors are multiplied from left to "
      "right.");
  bind_operators(tensor);
  bind_data(tensor);
  bind_subscript(tensor);
  tensor.def_prop_ro("shape", &shape_of, nb::sig("def shape(self) -> tuple[luminal.typing.Size, ...]"),
                     "Sizes: numbers, and expressions over dynamic dimensions.");
  tensor.def_prop_ro("dtype", [](const Tensor& self) { return self.dtype(here()); }, "The element type.");
  tensor.def_prop_ro("ndim", [](const Tensor& self) { return self.rank(here()); }, "The number of axes.");
  tensor.def("rank", [](const Tensor& self) { return self.rank(here()); }, "The number of axes.");
  tensor.def(
      "size",
      [](const Tensor& self, std::optional<int> axis) -> nb::object {
        if (!axis) return shape_of(self);
        return size_object(self.dim(*axis, here()));
      },
      nb::arg("axis") = nb::none(), nb::sig("def size(self, axis: int | None = None) -> typing.Any"),
      "The extent of an axis; without one the shape.");
  tensor.def(
      "dim", [](const Tensor& self, int axis) { return size_object(self.dim(axis, here())); },
      nb::arg("axis"), nb::sig("def dim(self, axis: int) -> luminal.typing.Size"), "The extent of an axis.");
  tensor.def(
      "numel", [](const Tensor& self) { return self.numel(here()); },
      "How many elements it has with the dimensions' present sizes.");
  tensor.def(
      "extents", [](const Tensor& self) { return nb::tuple(nb::cast(self.extents(here()))); },
      nb::sig("def extents(self) -> tuple[int, ...]"), "The shape with the dimensions' present sizes.");
  tensor.def_prop_rw(
      "name", [](const Tensor& self) { return self.name(here()); },
      [](Tensor& self, const std::string& name) { self.set_name(name, here()); },
      "Shown in text forms, reports and errors; a kept value is a result of this name.");
  tensor.def(
      "set_name",
      [](nb::handle_t<Tensor> self, const std::string& name) {
        nb::inst_ptr<Tensor>(self)->set_name(name, here());
        return nb::borrow(self);
      },
      nb::arg("name"), nb::sig("def set_name(self, name: str) -> Tensor"),
      "Sets the name and gives the tensor.");
  tensor.def_prop_ro(
      "device", [](const Tensor& self) { return self.device(here()).name(); },
      "The name of the device where it lies.");
  tensor.def(
      "to",
      [](const Tensor& self, nb::handle to) -> Tensor {
        DType type = DType::f32;
        const auto where = here();
        check_idle("to", self.graph(where).get(), where);
        if (!PyUnicode_Check(to.ptr()) || read_type(to, type)) {
          if (!read_type(to, type)) throw nb::type_error("to takes a device's name or an element type");
          return self.cast(type, where);
        }
        return self.to(Device(nb::cast<std::string>(to), where), where);
      },
      nb::arg("to"), nb::sig("def to(self, to: luminal.typing.DTypeLike) -> Tensor"),
      "The value moved to a device (\"cpu\"), or cast to an element type.");
  tensor.def(
      "astype", [](const Tensor& self, Type type) { return self.cast(type.value, here()); }, nb::arg("dtype"),
      "NumPy's name of cast.");
  const auto keep = [](nb::handle_t<Tensor> self) {
    const auto where = here();
    Tensor& target = *nb::inst_ptr<Tensor>(self);
    check_idle("keep", target.graph(where).get(), where);
    target.keep(where);
    return nb::borrow(self);
  };
  tensor.def("keep", keep, nb::sig("def keep(self) -> Tensor"),
             "The value is readable after each execute. Gives the tensor itself.");
  tensor.def("retrieve", keep, nb::sig("def retrieve(self) -> Tensor"), "Luminal's name of keep.");
  tensor.def(
      "drop",
      [](Tensor& self) {
        const auto where = here();
        check_idle("drop", self.graph(where).get(), where);
        self.drop(where);
      },
      "Ends keep(), and gives the memory of the value back: of a kept value or of an input's data.");
  tensor.def_prop_ro(
      "graph", [](const Tensor& self) { return Graph(self.graph(here())); }, "The graph that it belongs to.");
  tensor.def_prop_ro(
      "T",
      [](const Tensor& self) {
        const auto where = here();
        std::vector<int> order;
        for (int axis = self.rank(where); axis-- > 0;) order.push_back(axis);
        return self.permute(order, where);
      },
      "All axes in reverse order.");
  tensor.def_prop_ro(
      "mT", [](const Tensor& self) { return self.transpose(-2, -1, here()); },
      "The last two axes exchanged.");
  tensor.def("__len__", [](const Tensor& self) {
    const auto where = here();
    const Dims shape = self.shape(where);
    if (shape.empty()) refuse(PyExc_TypeError, "a tensor without axes has no length");
    if (!shape[0].is_constant())
      refuse(PyExc_TypeError, "the first axis is dynamic: shape[0] is its expression");
    return size_t(shape[0].value());
  });
  tensor.def(
      "__iter__",
      [](const Tensor& self) {
        const auto where = here();
        if (self.rank(where) == 0) refuse(PyExc_TypeError, "a tensor without axes cannot be iterated over");
        return nb::iter(nb::cast(self.unbind(0, where)));
      },
      nb::sig("def __iter__(self) -> collections.abc.Iterator[Tensor]"));
  tensor.def("__repr__", [](const Tensor& self) { return repr_of(self); });
  tensor.def("_repr_html_", [](const Tensor& self) { return "<pre>" + escaped(repr_of(self)) + "</pre>"; });
  tensor.def("__copy__", [](const Tensor& self) { return self; });
  tensor.def(
      "__deepcopy__",
      [](const Tensor&, nb::handle) -> nb::object {
        refuse(PyExc_TypeError, "a Tensor is a node of a lazy graph and has no copy of its own: contiguous() "
                                "gives a value of its own");
      },
      nb::sig("def __deepcopy__(self, memo: typing.Any) -> typing.NoReturn"));
  tensor.def(
      "__reduce__",
      [](const Tensor&) -> nb::object {
        refuse(PyExc_TypeError, "a Tensor is a node of a lazy graph and cannot be pickled: pickle "
                                "tensor.numpy(), or write weights with luminal.save");
      },
      nb::sig("def __reduce__(self) -> typing.NoReturn"));
  tensor.def(
      "__setitem__",
      [](const Tensor&, nb::handle, nb::handle) {
        refuse(PyExc_TypeError, "tensors are values and are not written to: x.update(axis, start, values), "
                                "index_put, slice_scatter and where make new ones");
      },
      nb::arg("index").none(), nb::arg("values").none(),
      nb::sig("def __setitem__(self, index: typing.Any, values: typing.Any) -> None"));
}

std::string escaped(const std::string& text) {
  std::string out;
  for (char c : text) {
    switch (c) {
    case '<': out += "&lt;"; break;
    case '>': out += "&gt;"; break;
    case '&': out += "&amp;"; break;
    default: out += c;
    }
  }
  return out;
}

std::string repr_of(const Tensor& tensor) { return "Tensor(" + to_string(tensor) + ")"; }

} // namespace luminal::python
