// python/bind/train/training.h -- what the files of training share: data sets, functions of Python that
// C++ keeps, dictionaries of arrays.
#pragma once
#include "arrays.h"
#include "bind.h"

namespace luminal::python {

/// Samples that Python holds.
struct DataObject {
  DataSetPtr data;
};

/// A function of Python that C++ keeps; it may be called, copied and let go by any thread.
class Callback {
public:
  explicit Callback(nb::handle function) : kept_(keep_object(nb::borrow(function))) {}
  /// With the interpreter lock held. What the function throws passes through.
  template <class... A> nb::object operator()(A&&... arguments) const {
    return nb::handle(static_cast<PyObject*>(const_cast<void*>(kept_.get())))(std::forward<A>(arguments)...);
  }

private:
  std::shared_ptr<const void> kept_;
};

/// The text of a path: str, bytes or os.PathLike.
std::string text_of_path(nb::handle path);
/// {field: array [count, shape..]} of a batch.
nb::dict arrays_of(const Batch& batch);

/// A function of Python over tensors, for the time of the call that it was given to.
Graph::FunctionBody body_of(const nb::callable& fn, const char* operation, std::source_location where);

} // namespace luminal::python
