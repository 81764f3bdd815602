// python/bind/refusals.cpp -- wrong arguments: nanobind lists all signatures of a function over several
// lines. What is said instead is made by luminal/_refusals.py, once a call has failed.
#include "bind.h"
#include <array>
#include <limits>

namespace luminal::python {
namespace {

constexpr size_t most_kinds = 16;
std::array<vectorcallfunc, most_kinds> originals{}; // nanobind has a way to call for each kind of signature
size_t kinds = 0;

nb::object given(PyObject* argument) { return argument ? nb::borrow(argument) : nb::none(); }

void refuse(PyObject* function, PyObject* const* arguments, size_t count, PyObject* names) {
  nb::python_error error;
  if (std::string_view(error.what()).find("incompatible function arguments") == std::string_view::npos)
    return error.restore();
  try {
    nb::list positional;
    nb::dict named;
    for (size_t i = 0; i < count; i++) positional.append(given(arguments[i]));
    for (size_t i = 0; names && i < size_t(PyTuple_Size(names)); i++)
      named[nb::borrow(PyTuple_GetItem(names, Py_ssize_t(i)))] = given(arguments[count + i]);
    const nb::object said =
        nb::module_::import_("luminal._refusals").attr("refusal")(nb::borrow(function), positional, named);
    PyErr_SetObject(PyExc_TypeError, said.ptr());
  } catch (nb::python_error& other) {
    other.restore();
  } catch (const std::exception&) {
    error.restore();
  }
}

template <size_t Kind>
PyObject* call(PyObject* function, PyObject* const* arguments, size_t flags, PyObject* names) {
  PyObject* result = originals[Kind](function, arguments, flags, names);
  constexpr size_t counts = std::numeric_limits<size_t>::max() >> 2; // above them flags, nanobind's own too
  if (!result && PyErr_ExceptionMatches(PyExc_TypeError)) refuse(function, arguments, flags & counts, names);
  return result;
}
template <size_t... Kind> vectorcallfunc call_of(size_t kind, std::index_sequence<Kind...>) {
  static constexpr std::array<vectorcallfunc, sizeof...(Kind)> all{&call<Kind>...};
  return all[kind];
}

/// The pointer that a call of the function goes through; it follows the head of nanobind's object.
void explain_refusals(nb::handle function) {
  const vectorcallfunc now = PyVectorcall_Function(function.ptr());
  auto* slot =
      reinterpret_cast<vectorcallfunc*>(reinterpret_cast<char*>(function.ptr()) + sizeof(PyVarObject));
  if (!now || *slot != now) return;
  size_t kind = 0;
  while (kind < kinds && originals[kind] != now) kind++;
  if (kind == most_kinds) return;
  if (kind == kinds) originals[kinds++] = now;
  *slot = call_of(kind, std::make_index_sequence<most_kinds>());
}

void explain_refusals_in(nb::handle owner) {
  for (nb::handle value : nb::borrow<nb::object>(owner.attr("__dict__")).attr("values")()) {
    if (nb::isinstance<nb::module_>(value) || PyType_Check(value.ptr())) {
      const auto home = nb::getattr(value, PyType_Check(value.ptr()) ? "__module__" : "__name__");
      if (nb::cast<std::string>(home).find("luminal._core") == 0) explain_refusals_in(value);
      continue;
    }
    const std::string type = nb::type_name(value.type()).c_str();
    if (type == "nb_method" || type == "nb_func" || type == "nanobind.nb_method" ||
        type == "nanobind.nb_func")
      explain_refusals(value);
  }
}

} // namespace

void bind_refusals(nb::module_& m) { explain_refusals_in(m); }

} // namespace luminal::python
