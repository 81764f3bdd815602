// python/bind/args.cpp -- arguments from Python: the caller's line, numbers, shapes, types, and the
// graph that they belong to.
#include "args.h"
#include "arrays.h"
#include <bit>
#include <memory>
#include <unordered_map>

namespace luminal::python {
namespace {

/// What a std::source_location points to, in libstdc++ and libc++ alike: the compiler's builtin makes it.
struct Place {
  const char* file;
  const char* function;
  unsigned line, column;
};
static_assert(sizeof(std::source_location) == sizeof(const Place*));

/// Places live as long as the process: nodes of graphs refer to them. There is one a line of source.
std::source_location place(const std::string& file, unsigned line) {
  struct Line {
    std::string file;
    Place place;
  };
  static auto& known =
      *new std::unordered_map<std::string, std::unordered_map<unsigned, std::unique_ptr<Line>>>;
  auto& line_of = known[file][line];
  if (!line_of) {
    line_of = std::make_unique<Line>(Line{file, {}});
    line_of->place = {line_of->file.c_str(), "", line, 0};
  }
  return std::bit_cast<std::source_location>(static_cast<const Place*>(&line_of->place));
}

const std::string& package_folder() {
  static const auto& folder = *new std::string([] {
    const auto file = nb::cast<std::string>(nb::module_::import_("luminal").attr("__file__"));
    return file.substr(0, file.find_last_of("/\\") + 1);
  }());
  return folder;
}

/// What the interpreter does not know: numpy's scalars count as Python's numbers.
bool is_numpy_scalar(nb::handle value) {
  nb::handle numpy = PyImport_GetModule(nb::str("numpy").ptr());
  if (!numpy) {
    PyErr_Clear();
    return false;
  }
  const nb::object module = nb::steal(numpy);
  return nb::isinstance(value, module.attr("generic"));
}

std::vector<const GraphState*>& busy_graphs() { // written with the interpreter lock held
  static auto& list = *new std::vector<const GraphState*>;
  return list;
}

} // namespace

std::source_location here() {
  nb::object frame = nb::borrow(reinterpret_cast<PyObject*>(PyEval_GetFrame()));
  while (frame.is_valid() && !frame.is_none()) {
    const auto* raw = reinterpret_cast<PyFrameObject*>(frame.ptr());
    const nb::object code =
        nb::steal(reinterpret_cast<PyObject*>(PyFrame_GetCode(const_cast<PyFrameObject*>(raw))));
    const auto file = nb::cast<std::string>(code.attr("co_filename"));
    if (!file.starts_with(package_folder()))
      return place(file, unsigned(PyFrame_GetLineNumber(const_cast<PyFrameObject*>(raw))));
    frame = frame.attr("f_back");
  }
  return place("<python>", 0);
}

bool read_integer(nb::handle from, int64_t& to, bool convert) {
  nb::object number = nb::borrow(from);
  if (!PyLong_Check(from.ptr())) {
    if (!convert || PyFloat_Check(from.ptr()) || !PyIndex_Check(from.ptr()) || nb::isinstance<Tensor>(from))
      return false;
    number = nb::steal(PyNumber_Index(from.ptr()));
    if (!number.is_valid()) throw nb::python_error();
  }
  int overflow = 0;
  to = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
  return overflow == 0;
}

bool read_integers(nb::handle from, Integers& to, bool convert) {
  to = {};
  if (from.is_none()) {
    to.given = false;
    return true;
  }
  int64_t one = 0;
  if (read_integer(from, one, convert)) {
    to.list = {one};
    return true;
  }
  if (!PyList_Check(from.ptr()) && !PyTuple_Check(from.ptr())) {
    if (!convert || PyUnicode_Check(from.ptr()) || nb::isinstance<Tensor>(from) ||
        !PySequence_Check(from.ptr()))
      return false;
  }
  for (nb::handle item : nb::borrow<nb::object>(from)) {
    if (!read_integer(item, one, true)) return false;
    to.list.push_back(one);
  }
  return true;
}

bool read_extent(nb::handle from, Dim& to) {
  if (nb::isinstance<Dim>(from)) {
    to = nb::cast<Dim>(from);
    return true;
  }
  int64_t number = 0;
  if (!read_integer(from, number, true)) return false;
  to = number;
  return true;
}

bool read_extents(nb::handle from, Extents& to, bool convert) {
  to = {};
  if (from.is_none()) return false;
  Dim one = 0;
  if (read_extent(from, one)) {
    to.list = {one};
    return true;
  }
  if (!PyList_Check(from.ptr()) && !PyTuple_Check(from.ptr())) {
    if (!convert || PyUnicode_Check(from.ptr()) || nb::isinstance<Tensor>(from) ||
        !PySequence_Check(from.ptr()))
      return false;
  }
  for (nb::handle item : nb::borrow<nb::object>(from)) {
    if (!read_extent(item, one)) return false;
    to.list.push_back(one);
  }
  return true;
}

bool read_paddings(nb::handle from, Paddings& to) {
  to = {};
  if (!PyList_Check(from.ptr()) && !PyTuple_Check(from.ptr())) return false;
  for (nb::handle item : nb::borrow<nb::object>(from)) {
    Extents numbers;
    if (!read_extents(item, numbers, true) || numbers.list.size() != 3 || !numbers.list[0].is_constant())
      return false;
    to.list.push_back({int(numbers.list[0].value()), numbers.list[1], numbers.list[2]});
  }
  return true;
}

Extents extents_of(const char* operation, const nb::args& arguments) {
  Extents extents;
  const nb::handle source = arguments.size() == 1 ? nb::handle(arguments[0]) : nb::handle(arguments);
  if (!read_extents(source, extents, true))
    throw nb::type_error(("[" + std::string(operation) +
                          "] takes whole numbers and dimensions, or one list of them, not " +
                          nb::cast<std::string>(nb::repr(source)))
                             .c_str());
  return extents;
}

Integers integers_of(const char* operation, const nb::args& arguments) {
  Integers numbers;
  const nb::handle source = arguments.size() == 1 ? nb::handle(arguments[0]) : nb::handle(arguments);
  if (!read_integers(source, numbers, true) || !numbers.given)
    throw nb::type_error(("[" + std::string(operation) + "] takes whole numbers, or one list of them, not " +
                          nb::cast<std::string>(nb::repr(source)))
                             .c_str());
  return numbers;
}

bool read_type(nb::handle from, DType& to) {
  if (nb::isinstance<DType>(from)) {
    to = nb::cast<DType>(from);
    return true;
  }
  static const auto& names = *new std::map<std::string, DType, std::less<>>{{"bool", DType::boolean},
                                                                            {"int4", DType::i4},
                                                                            {"uint4", DType::u4},
                                                                            {"int8", DType::i8},
                                                                            {"uint8", DType::u8},
                                                                            {"int16", DType::i16},
                                                                            {"uint16", DType::u16},
                                                                            {"int32", DType::i32},
                                                                            {"uint32", DType::u32},
                                                                            {"int64", DType::i64},
                                                                            {"uint64", DType::u64},
                                                                            {"float8_e4m3fn", DType::f8e4m3},
                                                                            {"float8_e5m2", DType::f8e5m2},
                                                                            {"bfloat16", DType::bf16},
                                                                            {"float16", DType::f16},
                                                                            {"float32", DType::f32},
                                                                            {"float64", DType::f64},
                                                                            {"half", DType::f16},
                                                                            {"float", DType::f32},
                                                                            {"double", DType::f64},
                                                                            {"int", DType::i64},
                                                                            {"bool_", DType::boolean}};
  std::string name;
  if (PyUnicode_Check(from.ptr()))
    name = nb::cast<std::string>(from);
  else if (nb::hasattr(from, "name") && nb::hasattr(from, "itemsize")) // numpy.dtype
    name = nb::cast<std::string>(from.attr("name"));
  else if (nb::isinstance<nb::type_object>(from)) // float, numpy.float32
    name = nb::cast<std::string>(from.attr("__name__"));
  else if (nb::cast<std::string>(nb::repr(from.type())) == "<class 'torch.dtype'>")
    name = nb::cast<std::string>(nb::repr(from)).substr(6);
  else
    return false;
  if (auto found = names.find(name); found != names.end()) {
    to = found->second;
    return true;
  }
  for (int i = 0; i <= int(DType::f64); i++)
    if (to_string(DType(i)) == name) {
      to = DType(i);
      return true;
    }
  return false;
}

bool read_value(nb::handle from, Value& to) {
  to = {};
  if (nb::isinstance<Tensor>(from)) {
    to.kind = Value::Kind::tensor;
    to.tensor = nb::inst_ptr<Tensor>(from);
    return true;
  }
  if (PyBool_Check(from.ptr())) {
    to.kind = Value::Kind::boolean;
    to.number = Operand(int(from.is(Py_True)));
    return true;
  }
  if (PyLong_Check(from.ptr())) {
    int64_t whole = 0;
    if (read_integer(from, whole, false)) {
      to.number = Operand(whole);
      return true;
    }
    to.kind = Value::Kind::array; // which says that it is too large
    to.array = nb::borrow(from);
    return true;
  }
  if (PyFloat_Check(from.ptr())) {
    to.number = Operand(PyFloat_AsDouble(from.ptr()));
    return true;
  }
  if (nb::isinstance<Dim>(from)) {
    to.number = Operand(nb::cast<Dim>(from));
    return true;
  }
  if (from.is_none() || PyUnicode_Check(from.ptr()) || PyBytes_Check(from.ptr())) return false;
  if (is_numpy_scalar(from)) {
    const nb::object item = from.attr("item")();
    return !is_numpy_scalar(item) && read_value(item, to);
  }
  if (!nb::hasattr(from, "__dlpack__") && !nb::hasattr(from, "__array__") &&
      !PyObject_CheckBuffer(from.ptr()))
    return false;
  to.kind = Value::Kind::array;
  to.array = nb::borrow(from);
  return true;
}

Busy::Busy(const char* operation, std::shared_ptr<GraphState> graph, std::source_location where)
    : graph_(std::move(graph)) {
  check_idle(operation, graph_.get(), where);
  busy_graphs().push_back(graph_.get());
}
Busy::~Busy() { std::erase(busy_graphs(), graph_.get()); }

void check_idle(const char* operation, const GraphState* graph, std::source_location where) {
  for (const GraphState* busy : busy_graphs())
    if (busy == graph)
      throw Error(operation,
                  "another thread compiles or runs this graph: a graph is for one thread at a time, other "
                  "graphs need "
                  "no care",
                  where);
}

Call::Call(const char* op, std::initializer_list<const Value*> values) : operation(op), where(here()) {
  take_graph({values.begin(), values.size()});
}

Call::Call(const char* op, const std::vector<Value>& values) : operation(op), where(here()) {
  std::vector<const Value*> pointers;
  for (const Value& value : values) pointers.push_back(&value);
  take_graph(pointers);
}

void Call::take_graph(std::span<const Value* const> values) {
  for (const Value* value : values)
    if (value && value->kind == Value::Kind::tensor) {
      if (!state_) state_ = value->tensor->graph(where);
      check_idle(operation, value->tensor->graph(where).get(), where);
    }
  if (!state_) state_ = default_graph().state(operation, where);
  graph_ = Graph(state_);
}

Tensor Call::tensor(const Value& value) {
  switch (value.kind) {
  case Value::Kind::tensor: return *value.tensor;
  case Value::Kind::array: return constant_of(graph_, value.array, std::nullopt, operation, where);
  case Value::Kind::boolean: return graph_.constant(value.number.number != 0, DType::boolean, where);
  case Value::Kind::number: break;
  }
  if (value.number.real) return graph_.constant(value.number.number, DType::f32, where);
  if (value.number.whole.is_constant()) return graph_.constant(value.number.whole.value(), DType::i64, where);
  throw Error(operation, "takes a tensor here, not a dimension", where);
}

std::vector<Tensor> Call::tensors(const std::vector<Value>& values) {
  std::vector<Tensor> list;
  for (const Value& value : values) list.push_back(tensor(value));
  return list;
}

Operand Call::operand(const Value& value) {
  if (value.kind == Value::Kind::tensor) return Operand(*value.tensor, where);
  // (True beside a mask is one more truth value, and no whole number.)
  if (value.kind == Value::Kind::array || value.kind == Value::Kind::boolean) {
    made_.push_back(std::make_unique<Tensor>(tensor(value)));
    return Operand(*made_.back(), where);
  }
  Operand number = value.number;
  number.where = where;
  return number;
}

} // namespace luminal::python
