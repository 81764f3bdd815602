// python/bind/watch.cpp -- Watch: which tensors of PyTorch have changed since they were last looked at.
#include "bind.h"

namespace luminal::python {
namespace {

class Watch {
public:
  explicit Watch(std::vector<size_t> places) : places_(std::move(places)), seen_(places_.size()) {}

  std::vector<size_t> changed(const nb::list& tensors) {
    std::vector<size_t> found;
    for (size_t i = 0; i < places_.size(); i++) {
      PyObject* tensor = PyList_GetItem(tensors.ptr(), Py_ssize_t(places_[i]));
      if (!tensor) throw nb::python_error();
      Seen& seen = seen_[i];
      const bool same = seen.tensor.ptr() == tensor;
      if (!same) {
        seen.tensor = nb::borrow(tensor);
        seen.counted = true;
      }
      const long long version = seen.counted ? version_of(seen) : 0;
      const void* address = address_of(tensor);
      if (!same || version != seen.version || address != seen.address) found.push_back(places_[i]);
      seen.version = version;
      seen.address = address;
    }
    return found;
  }

private:
  struct Seen {
    nb::object tensor; // lives, so that no other one has its place in memory
    bool counted = true;
    long long version = 0;
    const void* address = nullptr;
  };

  /// Counts changes in place; tensors that were made in inference mode have none.
  long long version_of(Seen& seen) const {
    PyObject* number = PyObject_GetAttr(seen.tensor.ptr(), version_.ptr());
    if (!number) {
      if (!PyErr_ExceptionMatches(PyExc_RuntimeError)) throw nb::python_error();
      PyErr_Clear();
      seen.counted = false;
      return 0;
    }
    const long long version = PyLong_AsLongLong(number);
    Py_DECREF(number);
    return version;
  }

  const void* address_of(PyObject* tensor) const {
    const nb::object address = nb::steal(PyObject_CallMethodObjArgs(tensor, data_ptr_.ptr(), nullptr));
    if (!address) throw nb::python_error();
    return reinterpret_cast<const void*>(PyLong_AsUnsignedLongLongMask(address.ptr()));
  }

  std::vector<size_t> places_;
  std::vector<Seen> seen_;
  nb::str version_{"_version"}, data_ptr_{"data_ptr"};
};

} // namespace

void bind_watch(nb::module_& m) {
  nb::class_<Watch>(m, "Watch",
                    "Looks at tensors of PyTorch whose values are kept elsewhere: another object, another "
                    "address or another version counter is a change.")
      .def(nb::init<std::vector<size_t>>(), nb::arg("places"),
           nb::sig("def __init__(self, places: collections.abc.Sequence[int]) -> None"),
           "places: of the tensors in the lists that `changed` gets.")
      .def("changed", &Watch::changed, nb::arg("tensors"),
           nb::sig("def changed(self, tensors: list[typing.Any]) -> list[int]"),
           "Places whose tensors are not as they were at the last call; at the first one, all.");
}

} // namespace luminal::python
