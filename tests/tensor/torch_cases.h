// tests/tensor/torch_cases.h -- conformance with PyTorch: cases (operation, attributes, inputs,
// outputs) from a .json index beside a .safetensors file, run through the CPU plan and through the
// interpreter. Each operation is one row, which any file of these tests may add.
#pragma once
#include "luminal/luminal.h"
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace luminal::test {

/// The attributes of a case, as its JSON has them; null is absent, "inf", "-inf" and "nan" are
/// numbers too.
class CaseAttrs {
public:
  using Value = std::variant<bool, double, std::string, std::vector<double>, std::vector<std::string>>;
  bool has(const std::string& name) const { return values.contains(name); }
  /// Throw std::runtime_error where the attribute is of another kind, and, without a fallback,
  /// where it is absent.
  bool flag(const std::string& name, bool fallback = false) const;
  double number(const std::string& name) const;
  double number(const std::string& name, double fallback) const;
  int integer(const std::string& name) const { return int(number(name)); }
  int integer(const std::string& name, int fallback) const { return int(number(name, fallback)); }
  std::string text(const std::string& name, const std::string& fallback = "") const;
  /// A single number is a list of one; absent: empty.
  std::vector<int> integers(const std::string& name) const;
  std::vector<double> numbers(const std::string& name) const;
  std::vector<std::string> texts(const std::string& name) const;

  std::map<std::string, Value> values;
};

/// What the function of a row gets.
struct CaseCall {
  Graph& graph;
  const CaseAttrs& attrs;
  const std::vector<Tensor>& in;
  const Tensor& operator[](size_t i) const { return in.at(i); }
};
/// One tensor or several.
struct CaseOutputs {
  CaseOutputs(const Tensor& only) : list{only} {}
  CaseOutputs(std::vector<Tensor> all) : list(std::move(all)) {}
  CaseOutputs(std::initializer_list<Tensor> all) : list(all) {}
  std::vector<Tensor> list;
};
using TorchOp = std::function<CaseOutputs(const CaseCall&)>;

/// Adds rows: `static const TorchOps rows{{"add", [](const CaseCall& c) { return c[0] + c[1]; }},
/// ...};`. A name that is there already aborts.
struct TorchOps {
  TorchOps(std::initializer_list<std::pair<const char*, TorchOp>> rows);
};

/// Runs every case of `stem`.json / `stem`.safetensors. A case fails (with its name) where it has
/// no row, throws, gives another number of outputs, another dtype (unless the attribute any_dtype
/// says so) or shape, or another value than PyTorch, by the plan or by the interpreter. Tolerances:
/// `tolerance_of`; NaN equals NaN only. Attributes of the harness: "rtol", "atol" replace the
/// tolerance of floats, "signed_zero" tells 0 from -0. without: names of cases that are left out.
/// scalar_axis: the file has an axis of 1 where PyTorch has none.
void run_torch_cases(const std::string& stem, size_t cases_in_a_graph = 48, bool scalar_axis = false,
                     const std::set<std::string>& without = {});
/// Gradients of outputs with respect to inputs, for these gradients of the outputs.
using Differentiate =
    std::function<std::vector<Tensor>(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                                      const std::vector<Tensor>& upstream)>;
/// The same for the gradients of a file: "upstream" names those of the outputs, "grads" those of the
/// inputs (null: none).
void run_torch_gradients(const std::string& stem, const Differentiate& differentiate,
                         const std::set<std::string>& without = {});

struct Tolerance {
  double relative, absolute;
};
/// |got - expected| <= absolute + relative * |expected|; integers and bool are exact.
Tolerance tolerance_of(DType type);
/// The harness's comparison of one element.
bool same_value(double got, double expected, Tolerance tolerance, bool signed_zero = false);

} // namespace luminal::test
