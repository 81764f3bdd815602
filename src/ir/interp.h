// ir/interp.h -- the judge: the meaning of every term, demand-driven and obvious. One element of an
// output can be asked for; the input of a fold is never stored.
#pragma once
#include "ir/exact.h"
#include "ir/term.h"
#include <functional>
#include <span>

namespace luminal {

/// A dense row-major value, packed as storage_bytes says.
struct HostTensor {
  DType dtype = DType::f32;
  std::vector<int64_t> shape;
  std::vector<std::byte> data;
  int64_t count() const;
  double at(int64_t flat) const { return load_f64(dtype, data.data(), flat); }
};

enum class InterpMode : uint8_t {
  rounded, ///< every node's value is rounded to its dtype: what a plan must reproduce (up to reassociation)
  f64,     ///< floats are computed in double and never rounded
  /// rationals with a formal exp2, evaluated in a pair of prime fields: equal fields mean equal
  /// formulas (with overwhelming probability)
  exact,
  bounded, ///< f64 value and a running bound on the error that rounding to the nodes' dtypes may cause
};

struct Bindings {
  std::map<std::string, HostTensor> inputs; // by name
  std::map<std::string, int64_t> symbols;
  std::function<void(const std::string&)> print; // what host nodes write; stderr where it is empty
};

/// A scalar in one of the modes.
struct InterpValue {
  double value = 0;           // rounded, f64, bounded
  int64_t integer = 0;        // integer and bool types, exact to 64 bits
  double error = 0;           // bounded: |true rounded result - value| <= error
  uint64_t field[2] = {0, 0}; // exact: the residues of `exact`
  Exact exact;                // exact: compare with exact_equal; `value` is its floating-point shadow
};

/// Runs the entry function of a module. Module and bindings must live as long as the interpreter.
/// Every input must be bound, with the type of the module (its extents evaluated); dimension
/// symbols must be bound within their ranges, and the module's assumptions must hold: else Error.
/// An index that leaves its bounds, a hole out of range, a `unique` scatter that writes twice, an
/// impossible condition are Errors that name the node.
class Interpreter {
public:
  Interpreter(const Module& module, const Bindings& bindings, InterpMode mode = InterpMode::rounded);
  ~Interpreter();
  /// A result of the entry function, in full. In the mode `rounded` it has the result's dtype; in
  /// the others floats are f64 (exact: the shadows).
  HostTensor result(std::string_view name);
  /// One element of a result; nothing else is computed than what it needs.
  InterpValue element(std::string_view result, std::span<const int64_t> index);
  /// All elements of a result in row-major order, as the mode has them.
  std::vector<InterpValue> values(std::string_view result);
  /// All results by name, new states included (by their result name), in the order that `after`
  /// asks for.
  std::map<std::string, HostTensor> run();

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// A function of the user: takes the node's text and inputs, gives one tensor for each declared
/// result. Serves host nodes by their kind and custom nodes by their name (the meaning of the
/// kernel). Throws Error when the name is taken. Thread-safe.
using HostFunction =
    std::function<std::vector<HostTensor>(const std::string& text, std::span<const HostTensor> inputs)>;
void register_host_function(std::string name, HostFunction function);
/// Null when there is none. The pointer stays valid.
const HostFunction* find_host_function(std::string_view name);

/// A tensor of the type from numbers (rounded, wrapped).
HostTensor host_tensor(DType dtype, std::vector<int64_t> shape, std::span<const double> values);

} // namespace luminal
