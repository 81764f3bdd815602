// python/bind/arrays.h -- numbers of numpy, DLPack and nested lists on their way into tensors and
// out of them.
#pragma once
#include "args.h"
#include <memory>

namespace luminal::python {

/// Numbers from Python with their type and shape, row-major and packed.
struct HostData {
  DType dtype = DType::f32;
  std::vector<int64_t> shape;
  const void* data = nullptr;
  size_t bytes = 0;
  bool in_place = false;             // `data` is the caller's memory, which `owner` keeps alive
  bool weak = false;                 // from Python numbers: their type was not chosen
  std::shared_ptr<const void> owner; // may be let go without the interpreter lock
};
/// Reads an array (numpy, DLPack, buffer) or nested lists of numbers. Throws Error in the operation's name.
HostData read_data(nb::handle from, const char* operation, std::source_location where);
Tensor constant_of(Graph& graph, nb::handle from, std::optional<DType> type, const char* operation,
                   std::source_location where);

/// A Python object that C++ keeps: let go with the interpreter lock held, and never after the
/// interpreter's end.
std::shared_ptr<const void> keep_object(nb::object object);

/// The value of a tensor as numpy. copy: true a copy; false an error where one is needed; none as
/// cheap as it can be.
nb::object to_numpy(const Tensor& tensor, std::optional<bool> copy, const char* operation);
nb::object to_list(const Tensor& tensor);
nb::object to_number(const Tensor& tensor, const char* operation);
nb::object to_dlpack(const Tensor& tensor, std::optional<bool> copy, nb::handle max_version);
/// Bytes of any dtype, row-major: numpy's own type where there is one.
nb::object numpy_array(DType type, const std::vector<int64_t>& shape, std::vector<std::byte> bytes);
/// What was handed out of results belongs to who took it; a graph that runs again makes new values.
void forget_handed_out(const GraphState* graph);

} // namespace luminal::python
