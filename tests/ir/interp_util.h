// tests/ir/interp_util.h -- running a text in the interpreter, in few words.
#pragma once
#include "ir/interp.h"
#include <cmath>
#include <gtest/gtest.h>
#include <random>

namespace luminal::testing_ir {

inline HostTensor tensor(DType dtype, std::vector<int64_t> shape, const std::vector<double>& values) {
  return host_tensor(dtype, std::move(shape), values);
}
inline HostTensor f32(std::vector<int64_t> shape, const std::vector<double>& values) {
  return tensor(DType::f32, std::move(shape), values);
}
inline HostTensor random_tensor(DType dtype, std::vector<int64_t> shape, uint64_t seed, double low = -2,
                                double high = 2) {
  std::mt19937_64 engine(seed);
  int64_t count = 1;
  for (int64_t e : shape) count *= e;
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i) {
    double v = low + (high - low) * double(engine() >> 11) * 0x1p-53;
    values.push_back(is_float(dtype) ? v : std::floor(v));
  }
  return tensor(dtype, std::move(shape), values);
}
inline std::vector<double> numbers(const HostTensor& t) {
  std::vector<double> list;
  for (int64_t i = 0; i < t.count(); ++i) list.push_back(t.at(i));
  return list;
}

/// A module with its bindings.
struct Case {
  Module module;
  Bindings bindings;
  explicit Case(std::string_view text) : module(parse_module(text)) {}
  Case& with(std::string name, HostTensor t) {
    bindings.inputs[std::move(name)] = std::move(t);
    return *this;
  }
  Case& at(std::string symbol, int64_t value) {
    bindings.symbols[std::move(symbol)] = value;
    return *this;
  }
  HostTensor run(std::string_view result = "y", InterpMode mode = InterpMode::rounded) {
    return Interpreter(module, bindings, mode).result(result);
  }
  std::vector<double> get(std::string_view result = "y", InterpMode mode = InterpMode::rounded) {
    return numbers(run(result, mode));
  }
  std::vector<InterpValue> values(std::string_view result, InterpMode mode) {
    return Interpreter(module, bindings, mode).values(result);
  }
};

/// Results `a` and `b` are the same formula.
inline void expect_equal_formulas(Case& c, std::string_view a, std::string_view b) {
  auto x = c.values(a, InterpMode::exact), y = c.values(b, InterpMode::exact);
  ASSERT_EQ(x.size(), y.size());
  for (size_t i = 0; i < x.size(); ++i)
    EXPECT_TRUE(exact_equal(x[i].exact, y[i].exact))
        << a << " and " << b << " differ at " << i << ": " << x[i].value << " and " << y[i].value;
}

} // namespace luminal::testing_ir
