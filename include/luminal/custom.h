// luminal/custom.h -- what users add to the compiler: elementwise operations, kernels, functions on
// the host.
#pragma once
#include "luminal/graph.h"
#include <array>
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

/// One row of the op table, made at run time: it is printed, parsed, verified, interpreted,
/// compiled and fused like any other.
struct Operation {
  std::string name = {}; ///< an identifier that no built-in operation has
  int arity = 1;         ///< 1 to 3
  OperationTypes types = OperationTypes::floating;
  /// The meaning. f64 where the types have floats, i64 for `bits` and for `numeric` on integers
  /// (the caller wraps the result).
  std::function<double(const double* x)> f64 = {};
  std::function<int64_t(const int64_t* x, DType type)> i64 = {};
  /// The same in built-in operations over a, b, c: "a / (1 + abs(a))". It is what the CPU runs;
  /// checked against f64 at 16 points.
  std::string definition = {};
  /// Language ("cuda", "hip", "metal", "opencl", "c") -> text with {a}, {b}, {c}; without one the
  /// definition is emitted.
  std::map<std::string, std::string> text = {};
  double ulp = 4;            ///< error of a direct evaluation, in units of the last place
  double low = -4, high = 4; ///< arguments of tests and of the check of the definition
  bool commutative = false;  ///< in the first two arguments
  /// d out / d argument over a, b, c, out; empty: zero almost everywhere or not differentiable.
  std::array<std::string, 3> derivative = {};
  /// What holds for it, in the language of luminal/pattern.h: every compile applies the exact ones.
  std::string rules = {};
  std::string doc = {};
};
/// Throws Error for a name that is taken by a different operation, for a row that is incomplete or
/// does not agree with its definition, for a derivative that cannot be read, and for a rule that
/// does not hold on random instances; nothing is registered then. Thread-safe.
void register_operation(Operation operation, std::source_location where = std::source_location::current());
/// Tries a registered operation the way the built-in ones are tried: on every type that it takes,
/// through views, broadcasting, dynamic sizes, sizes 0 and 1; compiled code against the evaluation
/// within `ulp`, derivatives against differences, rules on random instances. Counterexamples as
/// text. Throws Error where there is no such operation.
std::vector<std::string> test_operation(const std::string& name, uint64_t seed = 1,
                                        std::source_location where = std::source_location::current());
/// The names of all that are registered.
std::vector<std::string> registered_operations();
/// Any operation of the table (docs/ops.md) or a registered one, by its name, with NumPy
/// broadcasting.
Tensor apply_operation(const std::string& operation, const std::vector<Tensor>& operands,
                       std::source_location where = std::source_location::current());

// ---- functions on the host ----

/// A value on its way into or out of a function on the host: row-major, packed.
struct HostArray {
  DType dtype = DType::f32;
  std::vector<int64_t> shape = {};
  std::vector<std::byte> data = {};
  int64_t count() const;
  double at(int64_t index) const;        ///< of the flat array, as a double
  void put(int64_t index, double value); ///< rounded to the dtype
  static HostArray zeros(DType dtype, std::vector<int64_t> shape);
};
/// One array for each declared output.
using HostFunctionBody = std::function<std::vector<HostArray>(std::span<const HostArray> inputs)>;
/// Throws Error where the name is taken. Thread-safe.
void register_host(std::string name, HostFunctionBody body,
                   std::source_location where = std::source_location::current());

struct OutputType {
  DType dtype = DType::f32;
  Dims shape = {};
};
/// Calls a registered function at each execute. Never merged with an equal call, never left out
/// where its results are needed.
std::vector<Tensor> host_call(const std::string& name, const std::vector<Tensor>& inputs,
                              const std::vector<OutputType>& outputs,
                              std::source_location where = std::source_location::current());

// ---- kernels ----

/// A kernel as text, one for each language. Sizes may be expressions over the graph's dimensions.
///
/// - "loops", on the CPU: a kernel of docs/loops.md over inputs, then outputs, whose symbols are
///   dimensions of the graph; what may lie outside of them is refused.
/// - "llvm", on the CPU: LLVM IR that defines
///   `void @name(ptr inputs.., ptr outputs.., i64 integers.., i64 x, i64 y, i64 z)`: called for each
///   block of the grid, on any thread, in any order. A block is one call, so `block` and
///   `shared_bytes` say nothing here. `clang -S -emit-llvm` makes it of C.
/// - "cuda", "hip", "metal", "opencl", on GPUs, when there are some: shown, launched with grid,
///   block, shared_bytes and the integers as last arguments.
///
/// Where a kernel has several that a device runs, the first in this order counts. Without any, the
/// host function registered by the kernel's name runs; the interpreter always runs it: it is the
/// kernel's meaning.
struct CustomKernel {
  std::string name = {};
  std::map<std::string, std::string> text = {}; ///< by language
  std::vector<Dim> grid = {};                   ///< blocks along x, y, z; what is left out is 1
  std::vector<Dim> block = {};                  ///< threads of a block along x, y, z (GPU languages)
  Dim shared_bytes = 0;                         ///< of each block (GPU languages)
  std::vector<Dim> integers = {}; ///< passed after the addresses, 64 bits each: sizes that the text needs
  std::vector<OutputType> outputs = {};
};
/// Throws Error for what the types say; the text is read when the graph is compiled.
std::vector<Tensor> custom_kernel(Graph& graph, const CustomKernel& kernel, const std::vector<Tensor>& inputs,
                                  std::source_location where = std::source_location::current());

} // namespace luminal
