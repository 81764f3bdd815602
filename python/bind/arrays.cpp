// python/bind/arrays.cpp -- arrays and lists into tensors, results out of them: without a copy
// where the layout allows.
#include "arrays.h"
#include <cmath>
#include <cstring>
#include <map>
#include <nanobind/ndarray.h>

namespace luminal::python {
namespace {

using Array = nb::ndarray<nb::ro>;

int bits_of(DType type) {
  switch (type) {
  case DType::i4:
  case DType::u4: return 4;
  case DType::boolean:
  case DType::i8:
  case DType::u8:
  case DType::f8e4m3:
  case DType::f8e5m2: return 8;
  case DType::i16:
  case DType::u16:
  case DType::bf16:
  case DType::f16: return 16;
  case DType::i32:
  case DType::u32:
  case DType::f32: return 32;
  default: return 64;
  }
}

// Codes of DLPack 1.1; those of numpy's types are older than all versions.
enum Code : uint8_t {
  integer = 0,
  natural = 1,
  real = 2,
  bfloat = 4,
  complex_number = 5,
  truth = 6,
  e4m3fn = 10,
  e5m2 = 12
};

std::optional<DType> dtype_of_code(nb::dlpack::dtype type) {
  if (type.lanes != 1) return std::nullopt;
  static const std::map<std::pair<int, int>, DType> known{
      {{integer, 8}, DType::i8},    {{integer, 16}, DType::i16},  {{integer, 32}, DType::i32},
      {{integer, 64}, DType::i64},  {{natural, 8}, DType::u8},    {{natural, 16}, DType::u16},
      {{natural, 32}, DType::u32},  {{natural, 64}, DType::u64},  {{real, 16}, DType::f16},
      {{real, 32}, DType::f32},     {{real, 64}, DType::f64},     {{bfloat, 16}, DType::bf16},
      {{truth, 8}, DType::boolean}, {{e4m3fn, 8}, DType::f8e4m3}, {{e5m2, 8}, DType::f8e5m2}};
  const auto found = known.find({type.code, type.bits});
  return found == known.end() ? std::nullopt : std::optional(found->second);
}

nb::dlpack::dtype code_of(DType type) {
  uint8_t code = real;
  switch (type) {
  case DType::boolean: code = truth; break;
  case DType::i8:
  case DType::i16:
  case DType::i32:
  case DType::i64: code = integer; break;
  case DType::u8:
  case DType::u16:
  case DType::u32:
  case DType::u64: code = natural; break;
  case DType::bf16: code = bfloat; break;
  case DType::f8e4m3: code = e4m3fn; break;
  case DType::f8e5m2: code = e5m2; break;
  default: break;
  }
  return {code, uint8_t(bits_of(type)), 1};
}

std::string text_of(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); i++) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

/// Elements of a strided array one after the other.
void pack(std::byte*& out, const std::byte* from, const Array& array, size_t axis, size_t size) {
  if (axis == array.ndim()) {
    std::memcpy(out, from, size);
    out += size;
    return;
  }
  const auto stride = array.stride(axis) * int64_t(size);
  if (axis + 1 == array.ndim() && array.stride(axis) == 1) {
    std::memcpy(out, from, array.shape(axis) * size);
    out += array.shape(axis) * size;
    return;
  }
  for (size_t i = 0; i < array.shape(axis); i++) pack(out, from + int64_t(i) * stride, array, axis + 1, size);
}

bool is_packed(const Array& array) {
  int64_t step = 1;
  for (size_t axis = array.ndim(); axis-- > 0;) {
    if (array.shape(axis) != 1 && array.stride(axis) != step) return false;
    step *= int64_t(array.shape(axis));
  }
  return true;
}

bool empty(const std::vector<int64_t>& shape) {
  for (int64_t extent : shape)
    if (extent == 0) return true;
  return false;
}

HostData from_array(nb::handle from, const char* operation, std::source_location where) {
  nb::object source = nb::borrow(from);
  DType named = DType::f32; // ml_dtypes of numpy have no DLPack code
  std::optional<DType> override;
  Array array;
  if (nb::hasattr(from, "dtype") && nb::hasattr(from, "view") && !nb::hasattr(from, "data_ptr") &&
      nb::hasattr(from.attr("dtype"), "name")) {
    const auto name = nb::cast<std::string>(from.attr("dtype").attr("name"));
    if (name == "bfloat16" || name.starts_with("float8")) {
      if (!read_type(nb::str(name.c_str()), named))
        throw Error(operation, "there is no element type " + name, where);
      override = named;
      source = from.attr("view")(bits_of(named) == 16 ? "uint16" : "uint8");
    } else if (nb::hasattr(from.attr("dtype"), "isnative") &&
               !nb::cast<bool>(from.attr("dtype").attr("isnative")) &&
               !nb::hasattr(from.attr("dtype").attr("fields"), "items")) { // the other order of bytes
      source = from.attr("astype")(from.attr("dtype").attr("newbyteorder")("="));
    }
  }
  if (nb::hasattr(source, "requires_grad") && nb::cast<bool>(nb::bool_(source.attr("requires_grad"))))
    source = source.attr("detach")(); // torch refuses to export what it differentiates
  if (nb::hasattr(source, "is_neg") && nb::cast<bool>(source.attr("is_neg")()))
    source = source.attr("resolve_neg")(); // torch exports the memory, whose signs are the others
  if (!nb::try_cast(source, array)) {
    if (nb::hasattr(source, "__array__")) source = nb::module_::import_("numpy").attr("asarray")(source);
    if (!nb::try_cast(source, array))
      throw Error(operation,
                  "cannot read " + nb::cast<std::string>(nb::repr(from.type())) +
                      (nb::hasattr(from, "dtype")
                           ? " of " + nb::cast<std::string>(nb::repr(from.attr("dtype")))
                           : std::string()) +
                      ": numbers, lists of them, numpy arrays and what has __dlpack__ on the CPU can be read",
                  where);
  }
  if (array.device_type() != nb::device::cpu::value)
    throw Error(operation, "the array lies on another device: move it to the CPU first", where);
  const auto type = override ? override : dtype_of_code(array.dtype());
  if (!type)
    throw Error(operation,
                "there is no element type for " + (nb::hasattr(from, "dtype")
                                                       ? nb::cast<std::string>(nb::repr(from.attr("dtype")))
                                                       : nb::cast<std::string>(nb::repr(from.type()))),
                where);
  HostData data;
  data.dtype = *type;
  for (size_t axis = 0; axis < array.ndim(); axis++) data.shape.push_back(int64_t(array.shape(axis)));
  data.bytes = array.size() * size_t(bits_of(*type) / 8);
  if (is_packed(array)) {
    data.data = array.data();
    data.in_place = true;
    data.owner = std::shared_ptr<const void>(new Array(array), [](const void* kept) {
      if (!Py_IsInitialized()) return;
      const nb::gil_scoped_acquire lock;
      delete static_cast<const Array*>(kept);
    });
    return data;
  }
  auto copy = std::make_shared<std::vector<std::byte>>(data.bytes);
  std::byte* out = copy->data();
  if (!empty(data.shape))
    pack(out, static_cast<const std::byte*>(array.data()), array, 0, size_t(bits_of(*type) / 8));
  data.data = copy->data();
  data.owner = std::move(copy);
  return data;
}

/// Numbers of nested lists: integers exact, all as doubles where one has a fraction.
struct Numbers {
  std::vector<int64_t> shape;
  std::vector<double> reals;
  std::vector<int64_t> whole;
  bool any_real = false, all_bool = true;
  const char* operation;
  std::source_location where;

  void add(nb::handle from, size_t depth) {
    if (PyList_Check(from.ptr()) || PyTuple_Check(from.ptr())) {
      const auto size = int64_t(nb::len(from));
      if (depth == shape.size() && reals.empty()) shape.push_back(size);
      if (depth >= shape.size() || shape[depth] != size)
        throw Error(operation,
                    "the lists are not a box: one has " + std::to_string(size) + " elements where " +
                        (depth < shape.size() ? std::to_string(shape[depth]) : "a number") + " was expected",
                    where);
      for (nb::handle item : nb::borrow<nb::object>(from)) add(item, depth + 1);
      return;
    }
    if (depth != shape.size())
      throw Error(operation, "the lists are not a box: a number stands beside a list", where);
    Value value;
    if (!read_value(from, value) || value.kind == Value::Kind::tensor || value.kind == Value::Kind::array ||
        !value.number.whole.is_constant())
      throw Error(operation,
                  (depth == 0
                       ? "takes numbers, lists of them, and arrays (numpy, __dlpack__), and cannot read "
                       : "a list of numbers holds ") +
                      nb::cast<std::string>(nb::repr(from)).substr(0, 80) +
                      (value.kind == Value::Kind::tensor ? ": stack joins tensors" : ""),
                  where);
    any_real |= value.number.real;
    all_bool &= value.kind == Value::Kind::boolean;
    reals.push_back(value.number.real ? value.number.number : double(value.number.whole.value()));
    whole.push_back(value.number.real ? 0 : value.number.whole.value());
  }
};

bool holds_arrays(nb::handle from) {
  if (!PyList_Check(from.ptr()) && !PyTuple_Check(from.ptr()))
    return nb::hasattr(from, "__array__") && nb::hasattr(from, "shape") && !nb::isinstance<Tensor>(from);
  for (nb::handle item : nb::borrow<nb::object>(from)) return holds_arrays(item); // the first says it for all
  return false;
}

template <class T> HostData numbers_as(std::vector<T> numbers, std::vector<int64_t> shape) {
  HostData data;
  data.dtype = dtype_of<T>;
  data.shape = std::move(shape);
  auto owner = std::make_shared<std::vector<T>>(std::move(numbers));
  data.data = owner->data();
  data.bytes = owner->size() * sizeof(T);
  data.owner = std::move(owner);
  data.weak = true;
  return data;
}

/// A value that left its graph: its memory belongs to a graph of its own.
struct HandedOut {
  std::weak_ptr<GraphState> graph;
  Tensor slot;
};
std::map<std::pair<const GraphState*, uint32_t>, HandedOut>& handed_out() { // with the interpreter lock held
  static auto& list = *new std::map<std::pair<const GraphState*, uint32_t>, HandedOut>;
  return list;
}

const HandedOut* find_handed_out(const Tensor& tensor) {
  const auto found = handed_out().find({tensor.graph().get(), tensor.id()});
  return found != handed_out().end() && found->second.graph.lock() == tensor.graph() ? &found->second
                                                                                     : nullptr;
}

/// The tensor that holds the value: this one, or the one that took its memory.
const Tensor& holder(const Tensor& tensor) {
  const HandedOut* taken = find_handed_out(tensor);
  return taken ? taken->slot : tensor;
}

nb::object view_of(const Tensor& slot, std::source_location where, bool writable) {
  const std::vector<int64_t> shape = slot.extents(where);
  const auto bytes = slot.bytes(where);
  std::vector<size_t> extents(shape.begin(), shape.end());
  auto owner = std::make_unique<Tensor>(slot);
  nb::capsule capsule(owner.get(), [](void* kept) noexcept { delete static_cast<Tensor*>(kept); });
  owner.release();
  auto* data = const_cast<std::byte*>(bytes.data());
  if (writable)
    return nb::cast(nb::ndarray<nb::numpy>(data, extents.size(), extents.data(), capsule, nullptr,
                                           code_of(slot.dtype())));
  return nb::cast(nb::ndarray<nb::numpy, nb::ro>(data, extents.size(), extents.data(), capsule, nullptr,
                                                 code_of(slot.dtype())));
}

/// Takes the memory of a kept value, so that nothing is copied and no later run writes into it.
const Tensor& take(const Tensor& tensor, std::source_location where) {
  if (const HandedOut* taken = find_handed_out(tensor)) return taken->slot;
  std::erase_if(handed_out(), [](const auto& entry) { return entry.second.graph.expired(); });
  Graph graph;
  Dims shape;
  for (int64_t extent : tensor.extents(where)) shape.push_back(extent);
  const Tensor slot = graph.tensor(shape, tensor.dtype(where), "", where);
  transfer(tensor, slot, where);
  return handed_out()
      .insert_or_assign({tensor.graph().get(), tensor.id()}, HandedOut{tensor.graph(), slot})
      .first->second.slot;
}

bool is_source(const Tensor& tensor) {
  const std::string op = inspect(tensor).op;
  return op == "input" || op == "weight" || op == "state";
}

/// The bytes of a value that can be read; an Error is that of the operation which asked.
std::span<const std::byte> bytes_for(const Tensor& tensor, const char* operation,
                                     std::source_location where) {
  try {
    return tensor.bytes(where);
  } catch (const Error& error) {
    const std::string text = error.what();
    throw Error("[" + std::string(operation) + text.substr(std::min(text.find(']'), text.size())));
  }
}

void check_numpy(DType type, const char* operation, std::source_location where) {
  if (type == DType::bf16 || type == DType::f8e4m3 || type == DType::f8e5m2 || type == DType::i4 ||
      type == DType::u4)
    throw Error(operation,
                "numpy has no " + std::string(to_string(type)) +
                    ": keep x.cast(\"f32\") beside it, or read the value by DLPack (torch.from_dlpack)",
                where);
}

} // namespace

std::shared_ptr<const void> keep_object(nb::object object) {
  return {static_cast<const void*>(object.release().ptr()), [](const void* kept) {
            if (!Py_IsInitialized()) return;
            const nb::gil_scoped_acquire lock;
            nb::steal(static_cast<PyObject*>(const_cast<void*>(kept))).reset();
          }};
}

HostData read_data(nb::handle from, const char* operation, std::source_location where) {
  Value value;
  const bool list = PyList_Check(from.ptr()) || PyTuple_Check(from.ptr());
  if (list && holds_arrays(from))
    return from_array(nb::module_::import_("numpy").attr("asarray")(from), operation, where);
  if (!list && PyObject_CheckBuffer(from.ptr())) return from_array(from, operation, where);
  if (!list && read_value(from, value) && value.kind == Value::Kind::array) {
    if (PyLong_Check(from.ptr())) throw Error(operation, "an integer beyond 64 bits", where);
    return from_array(value.array, operation, where);
  }
  if (!list && value.kind == Value::Kind::tensor)
    throw Error(operation,
                "a tensor of a graph is not data: use it as it is, or tensor.numpy() after execute", where);
  Numbers numbers{.operation = operation, .where = where};
  numbers.add(from, 0);
  if (numbers.any_real) return numbers_as(std::move(numbers.reals), std::move(numbers.shape));
  HostData data = numbers_as(std::move(numbers.whole), numbers.shape);
  if (numbers.all_bool && data.bytes > 0) {
    auto bytes = std::make_shared<std::vector<uint8_t>>();
    for (double number : numbers.reals) bytes->push_back(uint8_t(number != 0));
    data = {.dtype = DType::boolean,
            .shape = std::move(numbers.shape),
            .data = bytes->data(),
            .bytes = bytes->size(),
            .weak = true,
            .owner = bytes};
  }
  return data;
}

Tensor constant_of(Graph& graph, nb::handle from, std::optional<DType> type, const char* operation,
                   std::source_location where) {
  const HostData data = read_data(from, operation, where);
  Dims shape(data.shape.begin(), data.shape.end());
  Tensor constant =
      graph.constant_bytes({static_cast<const std::byte*>(data.data), data.bytes}, data.dtype, shape, where);
  if (data.weak && data.dtype == DType::f64 && !type) type = DType::f32;
  return type && *type != data.dtype ? constant.cast(*type, where) : constant;
}

nb::object to_numpy(const Tensor& tensor, std::optional<bool> copy, const char* operation) {
  const std::source_location where = here();
  check_idle(operation, tensor.graph(where).get(), where);
  const Tensor& source = holder(tensor);
  check_numpy(source.dtype(where), operation, where);
  const bool own = &source != &tensor;
  if (own) return copy == true ? view_of(source, where, true).attr("copy")() : view_of(source, where, true);
  const bool large =
      bytes_for(tensor, operation, where).size() >= 65536; // what the library hands over without a copy
  if (is_source(tensor)) {                                 // its memory stays that of the graph
    if (copy == false) return view_of(tensor, where, false);
    return view_of(tensor, where, false).attr("copy")();
  }
  if (copy == true || (!copy && !large)) return view_of(tensor, where, false).attr("copy")();
  return view_of(take(tensor, where), where, true);
}

nb::object to_list(const Tensor& tensor) {
  const std::source_location where = here();
  if (const DType type = tensor.dtype(where);
      type == DType::bf16 || type == DType::f8e4m3 || type == DType::f8e5m2) {
    const Tensor& source = holder(tensor);
    const auto numbers = source.data<float>(where);
    std::vector<std::byte> bytes(numbers.size() * sizeof(float));
    std::memcpy(bytes.data(), numbers.data(), bytes.size());
    return numpy_array(DType::f32, source.extents(where), std::move(bytes)).attr("tolist")();
  }
  return to_numpy(tensor, true, "tolist").attr("tolist")();
}

nb::object to_number(const Tensor& tensor, const char* operation) {
  const std::source_location where = here();
  check_idle(operation, tensor.graph(where).get(), where);
  const Tensor& source = holder(tensor);
  switch (source.dtype(where)) {
  case DType::boolean: return nb::bool_(source.item<bool>(where));
  case DType::f8e4m3:
  case DType::f8e5m2:
  case DType::bf16:
  case DType::f16:
  case DType::f32:
  case DType::f64: return nb::float_(source.item<double>(where));
  case DType::u64: return nb::cast(source.item<uint64_t>(where));
  default: return nb::cast(source.item<int64_t>(where));
  }
}

nb::object to_dlpack(const Tensor& tensor, std::optional<bool> copy, nb::handle max_version) {
  const std::source_location where = here();
  check_idle("dlpack", tensor.graph(where).get(), where);
  const DType type = tensor.dtype(where);
  if (type == DType::i4 || type == DType::u4)
    throw Error("dlpack", "elements of 4 bits cannot be exported: keep x.cast(\"i8\") beside it", where);
  const Tensor* source = &holder(tensor);
  Tensor owned;
  if (copy == true || is_source(tensor)) { // an input's memory may be set again; a reader must not see that
    Graph graph;
    Dims shape;
    for (int64_t extent : source->extents(where)) shape.push_back(extent);
    owned = graph.tensor(shape, type, "", where);
    owned.set_bytes(source->bytes(where), type, where);
    source = &owned;
  } else
    source = &take(tensor, where);
  const std::vector<int64_t> shape = source->extents(where);
  std::vector<size_t> extents(shape.begin(), shape.end());
  auto owner = std::make_unique<Tensor>(*source);
  nb::capsule capsule(owner.get(), [](void* kept) noexcept { delete static_cast<Tensor*>(kept); });
  owner.release();
  nb::ndarray<nb::array_api> array(const_cast<std::byte*>(source->bytes(where).data()), extents.size(),
                                   extents.data(), capsule, nullptr, code_of(type));
  nb::object wrapped = nb::cast(array);
  return max_version.is_none() ? nb::object(wrapped.attr("__dlpack__")())
                               : nb::object(wrapped.attr("__dlpack__")(nb::arg("max_version") = max_version));
}

nb::object numpy_array(DType type, const std::vector<int64_t>& shape, std::vector<std::byte> bytes) {
  check_numpy(type, "numpy", here());
  std::vector<size_t> extents(shape.begin(), shape.end());
  auto owner = std::make_unique<std::vector<std::byte>>(std::move(bytes));
  void* data = owner->data();
  nb::capsule capsule(owner.get(),
                      [](void* kept) noexcept { delete static_cast<std::vector<std::byte>*>(kept); });
  owner.release();
  return nb::cast(
      nb::ndarray<nb::numpy>(data, extents.size(), extents.data(), capsule, nullptr, code_of(type)));
}

void forget_handed_out(const GraphState* graph) {
  std::erase_if(handed_out(), [&](const auto& entry) { return entry.first.first == graph; });
}

} // namespace luminal::python
