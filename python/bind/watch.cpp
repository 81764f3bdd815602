// python/bind/watch.cpp -- Watch: which tensors of PyTorch have changed since they were last looked at.
#include "bind.h"

namespace luminal::python {
namespace {

// The part of DLPack's table of functions that is used here (dlpack.h, DLPackExchangeAPI, version 1).
struct DLTensor {
  void* data;
  int32_t device[2], rank;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t *shape, *strides;
  uint64_t offset;
};
struct Exchange {
  uint32_t major, minor;
  const void* previous;
  void (*managed[3])();
  int (*describe)(void* object, DLTensor* to); // null where the library does not have it
};

const Exchange* exchange_of(nb::handle capsule) {
  if (!PyCapsule_IsValid(capsule.ptr(), "dlpack_exchange_api")) return nullptr;
  const auto* table =
      static_cast<const Exchange*>(PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
  return table->major == 1 && table->describe ? table : nullptr;
}

class Watch {
public:
  Watch(std::vector<size_t> places, nb::handle exchange)
      : places_(std::move(places)), seen_(places_.size()), exchange_(exchange_of(exchange)) {}

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
    if (DLTensor described; exchange_ && exchange_->describe(tensor, &described) == 0)
      return static_cast<const char*>(described.data) + described.offset;
    PyErr_Clear();
    const nb::object address = nb::steal(PyObject_CallMethodObjArgs(tensor, data_ptr_.ptr(), nullptr));
    if (!address) throw nb::python_error();
    return reinterpret_cast<const void*>(PyLong_AsUnsignedLongLongMask(address.ptr()));
  }

  std::vector<size_t> places_;
  std::vector<Seen> seen_;
  const Exchange* exchange_;
  nb::str version_{"_version"}, data_ptr_{"data_ptr"};
};

} // namespace

void bind_watch(nb::module_& m) {
  nb::class_<Watch>(m, "Watch",
                    "Looks at tensors of PyTorch whose values are kept elsewhere: another object, another "
                    "address or another version counter is a change.")
      .def(nb::init<std::vector<size_t>, nb::handle>(), nb::arg("places"), nb::arg("exchange").none(),
           nb::sig("def __init__(self, places: collections.abc.Sequence[int], exchange: object) -> None"),
           "places: of the tensors in the lists that `changed` gets. exchange: "
           "torch.Tensor.__dlpack_c_exchange_api__, or None.")
      .def("changed", &Watch::changed, nb::arg("tensors"),
           nb::sig("def changed(self, tensors: list[typing.Any]) -> list[int]"),
           "Places whose tensors are not as they were at the last call; at the first one, all.");
}

} // namespace luminal::python
