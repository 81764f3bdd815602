// python/bind/args.h -- what operations take from Python: tensors or numbers or arrays, shapes,
// axes, types, and the caller's line.
#pragma once
#include "generated/enums.h"
#include "luminal/luminal.h"
#include <nanobind/nanobind.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace nb = nanobind;

namespace luminal::python {

/// The line of the user's Python code that is running: the innermost frame outside of this package.
std::source_location here();

/// A number, text or array of Python where an operation takes a tensor.
struct Value {
  enum class Kind : uint8_t { tensor, number, boolean, array } kind = Kind::number;
  const Tensor* tensor = nullptr;
  Operand number = 0;
  nb::object array; // what numpy or DLPack can read
};

/// One number or several: an extent, axis or size each. None stands for no number.
struct Integers {
  std::vector<int64_t> list;
  bool given = true;
  operator std::vector<int64_t>() const { return list; }
  operator std::vector<int>() const { return {list.begin(), list.end()}; }
  operator Ints() const { return list; }
  operator Axes() const { return std::vector<int>(*this); }
};
/// The same where the sizes may be expressions.
struct Extents {
  Dims list;
  operator Dims() const { return list; }
};
/// "same", "valid" or numbers.
struct PaddingArgument {
  ConvPadding value = 0;
};
struct Extent {
  Dim value = 0;
  operator Dim() const { return value; }
};
/// DType, "f32", "float32", numpy.float32, float, torch.float32, ...
struct Type {
  DType value = DType::f32;
  operator DType() const { return value; }
};
struct Paddings {
  std::vector<Padding> list;
};

bool read_value(nb::handle from, Value& to);
bool read_extent(nb::handle from, Dim& to);
bool read_integer(nb::handle from, int64_t& to, bool convert);
bool read_integers(nb::handle from, Integers& to, bool convert);
bool read_extents(nb::handle from, Extents& to, bool convert);
bool read_type(nb::handle from, DType& to);
bool read_paddings(nb::handle from, Paddings& to);
/// Positional arguments that are one list or the numbers of a list: x.reshape(2, 3), x.reshape((2, 3)).
Extents extents_of(const char* operation, const nb::args& arguments);
Integers integers_of(const char* operation, const nb::args& arguments);

/// The default graph of this thread; made where there is none.
Graph& default_graph();
std::shared_ptr<GraphState> state_of(nb::handle graph_or_none);
/// While it lives, this graph is the default one: the body of a loop or function.
class DefaultGraph {
public:
  explicit DefaultGraph(const std::shared_ptr<GraphState>& state);
  ~DefaultGraph();
  DefaultGraph(const DefaultGraph&) = delete;
  DefaultGraph& operator=(const DefaultGraph&) = delete;
};

/// A graph works without the interpreter lock: nobody else may touch it meanwhile.
class Busy {
public:
  Busy(const char* operation, std::shared_ptr<GraphState> graph, std::source_location where);
  ~Busy();
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;

private:
  std::shared_ptr<GraphState> graph_;
};
/// Throws Error where another thread compiles or runs the graph.
void check_idle(const char* operation, const GraphState* graph, std::source_location where);

/// One call from Python: the line it stands in, and the graph of its arguments.
class Call {
public:
  Call(const char* operation, std::initializer_list<const Value*> values);
  Call(const char* operation, const std::vector<Value>& values);
  /// The arguments as the library takes them; arrays and lone numbers become constants of the graph.
  Tensor tensor(const Value& value);
  Tensor tensor(const std::optional<Value>& value) { return value ? tensor(*value) : Tensor(); }
  std::vector<Tensor> tensors(const std::vector<Value>& values);
  Operand operand(const Value& value);
  std::optional<Operand> operand(const std::optional<Value>& value) {
    return value ? std::optional<Operand>(operand(*value)) : std::nullopt;
  }
  Graph& graph() { return graph_; }
  const char* operation;
  std::source_location where;

private:
  void take_graph(std::span<const Value* const> values);
  std::shared_ptr<GraphState> state_;
  Graph graph_{std::shared_ptr<GraphState>{}};
  std::vector<std::unique_ptr<Tensor>> made_; // constants that operands refer to
};
/// The same for functions that make tensors from nothing.
Graph graph_for(const char* operation, nb::handle graph_or_none, std::source_location where);

} // namespace luminal::python

namespace nanobind::detail {

#define LUMINAL_CASTER(kind, text, ...)                                                                      \
  template <> struct type_caster<luminal::python::kind> {                                                    \
    NB_TYPE_CASTER(luminal::python::kind, const_name(text))                                                  \
    bool from_python(handle src, uint32_t flags, cleanup_list*) noexcept {                                   \
      [[maybe_unused]] const bool convert = flags & uint32_t(cast_flags::convert);                           \
      try {                                                                                                  \
        return __VA_ARGS__;                                                                                  \
      } catch (python_error&) { /* the argument is of another kind */                                        \
        return false;                                                                                        \
      }                                                                                                      \
    }                                                                                                        \
  };
LUMINAL_CASTER(Value, "luminal.typing.TensorLike", luminal::python::read_value(src, value))
LUMINAL_CASTER(Integers, "int | collections.abc.Sequence[int] | None",
               luminal::python::read_integers(src, value, convert))
LUMINAL_CASTER(Extents, "luminal.typing.Shape", luminal::python::read_extents(src, value, convert))
LUMINAL_CASTER(Extent, "luminal.typing.Size", luminal::python::read_extent(src, value.value))
LUMINAL_CASTER(Type, "luminal.typing.DTypeLike", luminal::python::read_type(src, value.value))
LUMINAL_CASTER(Paddings, "collections.abc.Sequence[tuple[int, luminal.typing.Size, luminal.typing.Size]]",
               luminal::python::read_paddings(src, value))
#undef LUMINAL_CASTER

template <> struct type_caster<luminal::python::PaddingArgument> {
  NB_TYPE_CASTER(luminal::python::PaddingArgument, const_name("int | collections.abc.Sequence[int] | str"))
  bool from_python(handle src, uint32_t flags, cleanup_list*) noexcept {
    if (PyUnicode_Check(src.ptr())) {
      value.value = luminal::ConvPadding(borrow<str>(src).c_str());
      return true;
    }
    luminal::python::Integers numbers;
    if (!luminal::python::read_integers(src, numbers, flags & uint32_t(cast_flags::convert))) return false;
    value.value = luminal::ConvPadding(numbers.list);
    return true;
  }
};

/// Enumerations are strings in Python, and a string that is not one of them is an Error that lists them.
template <class E> struct EnumCaster {
  NB_TYPE_CASTER(E, const_name("typing.Literal[") + const_name(luminal::python::Names<E>::literal) +
                        const_name("]"))
  bool from_python(handle src, uint32_t, cleanup_list*) {
    if (!PyUnicode_Check(src.ptr())) return false;
    const std::string_view given = borrow<str>(src).c_str();
    std::string known;
    for (size_t i = 0; i < std::size(luminal::python::Names<E>::list); i++) {
      if (given == luminal::python::Names<E>::list[i]) {
        value = E(i);
        return true;
      }
      known += (i ? ", " : "") + std::string(luminal::python::Names<E>::list[i]);
    }
    throw luminal::Error(luminal::python::Names<E>::name,
                         "there is no '" + std::string(given) + "'; there are " + known,
                         luminal::python::here());
  }
  static handle from_cpp(E from, rv_policy, cleanup_list*) noexcept {
    return nanobind::str(luminal::python::Names<E>::list[size_t(from)]).release();
  }
};

/// Results of several tensors are the named tuples of luminal/_results.py.
template <class R> struct ResultCaster {
  template <class... T> static handle make(const char* name, const T&... parts) noexcept {
    try {
      return module_::import_("luminal._results").attr(name)(parts...).release();
    } catch (python_error& error) {
      error.restore();
      return {};
    }
  }
};

} // namespace nanobind::detail

#include "generated/enum_casters.h"
