// luminal/custom.h -- what users add to the compiler: elementwise operations, kernels, functions on the host.
#pragma once
#include "luminal/graph.h"
#include <map>

namespace luminal {

// ---- elementwise operations ----

/// The types that the arguments and the result of an operation may have.
enum class OperationTypes : uint8_t {
  numeric,    ///< one integer or float type throughout
  floating,   ///< one float type throughout
  bits,       ///< one integer type or bool throughout
  comparison, ///< two of one type give bool
  test,       ///< one float gives bool
};

/// One row of the op table, made at run time: it is printed, parsed, verified, interpreted, compiled and fused like any other.
struct Operation {
  std::string name; ///< an identifier that no built-in operation has
  int arity = 1;    ///< 1 to 3
  OperationTypes types = OperationTypes::floating;
  /// The meaning. f64 where the types have floats, i64 for `bits` and for `numeric` on integers (the caller wraps the result).
  std::function<double(const double* x)> f64;
  std::function<int64_t(const int64_t* x, DType type)> i64;
  /// The same in built-in operations over a, b, c: "a / (1 + abs(a))". It is what the CPU runs; checked against f64 at 16 points.
  std::string definition;
  /// Language ("cuda", "hip", "metal", "opencl", "c") -> text with {a}, {b}, {c}; without one the definition is emitted.
  std::map<std::string, std::string> text;
  double ulp = 4;            ///< error of a direct evaluation, in units of the last place
  double low = -4, high = 4; ///< arguments of tests and of the check of the definition
  bool commutative = false;  ///< in the first two arguments
  std::string derivative
      [3]; ///< d out / d argument over a, b, c, out; empty: zero almost everywhere or not differentiable
  std::string doc;
};
/// Throws Error for a name that is taken by a different operation, and for a row that is incomplete or does not agree with its definition. Thread-safe.
void register_operation(Operation operation);
/// Any operation of the table (docs/ops.md) or a registered one, by its name, with NumPy broadcasting.
Tensor apply_operation(const std::string& operation, const std::vector<Tensor>& operands,
                       std::source_location where = std::source_location::current());

// ---- functions on the host ----

/// A value on its way into or out of a function on the host: row-major, packed.
struct HostArray {
  DType dtype = DType::f32;
  std::vector<int64_t> shape;
  std::vector<std::byte> data;
  int64_t count() const;
  double at(int64_t index) const;        ///< of the flat array, as a double
  void put(int64_t index, double value); ///< rounded to the dtype
  static HostArray zeros(DType dtype, std::vector<int64_t> shape);
};
/// One array for each declared output.
using HostFunctionBody = std::function<std::vector<HostArray>(std::span<const HostArray> inputs)>;
/// Throws Error where the name is taken. Thread-safe.
void register_host(std::string name, HostFunctionBody body);

struct OutputType {
  DType dtype = DType::f32;
  Dims shape;
};
/// Calls a registered function at each execute. Never merged with an equal call, never left out where its results are needed.
std::vector<Tensor> host_call(const std::string& name, const std::vector<Tensor>& inputs,
                              const std::vector<OutputType>& outputs,
                              std::source_location where = std::source_location::current());

// ---- kernels ----

/// A kernel as text, one for each language. Sizes may be expressions over the graph's dimensions.
/// The CPU runs the text in the language "loops" (docs/loops.md), whose arguments are the inputs, then the outputs, and whose symbols are dimensions of
/// the graph, or else the host function registered by the kernel's name. The interpreter always runs the host function: it is the kernel's meaning.
struct CustomKernel {
  std::string name;
  std::map<std::string, std::string> text; ///< "loops", "cuda", "hip", "metal", "opencl"
  std::vector<Dim> grid;                   ///< blocks along x, y, z (GPU languages)
  std::vector<Dim> block;                  ///< threads of a block along x, y, z
  Dim shared_bytes = 0;                    ///< of each block
  std::vector<OutputType> outputs;
};
std::vector<Tensor> custom_kernel(Graph& graph, const CustomKernel& kernel, const std::vector<Tensor>& inputs,
                                  std::source_location where = std::source_location::current());

} // namespace luminal
