// tests/tree/from_luminal.h -- what the lines of docs/from-luminal.md use, and what checks them:
// all tensors that they make are computed in one execution.
#pragma once
#include "luminal/luminal.h"
#include <array>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

using namespace luminal;

inline Graph g;
inline Tensor a = g.tensor({2, 3}, DType::f32, "a"), b = g.tensor({2, 3}, DType::f32, "b"),
              v = g.tensor({3}, DType::f32, "v"), w = g.weight("w", {3, 2}),
              ids = g.tensor({2}, DType::i64, "ids"), mask = a > 2;

/// Modules; the parameters of `dense` and `two_channels` are ones.
inline nn::Scope scope(g, {.seed = 1});
inline nn::Linear dense(scope / "ones" / "dense", 3, 2);
inline nn::Conv1d two_channels(scope / "ones" / "conv", 2, 1, 2, {.padding = 1});
inline nn::Embedding table(scope / "table", 4, 3);
inline const bool set_to_ones = [] {
  for (auto& [name, tensor] : (scope / "ones").parameters()) {
    Tensor t = tensor;
    t.set(std::vector<float>(size_t(t.numel()), 1.0f));
  }
  return true;
}();

/// How many codes and scales there are then.
inline size_t quantised(const nn::Linear& linear) {
  linear.quantize({.bits = 8, .group = 0});
  return linear.parameters().size() - linear.parameters().count("bias");
}

/// f32[3] doubled.
inline CustomKernel times_two() {
  return {.name = "times_two",
          .text = {{"loops",
                    "kernel times_two(x: f32[3] in, y: f32[3] out)\n  for i in 0..3\n    y[i] = x[i] * 2\n"}},
          .outputs = {{DType::f32, {3}}}};
}
inline const bool registered = [] {
  register_host("doubled", [](std::span<const HostArray> in) {
    HostArray y = HostArray::zeros(DType::f32, in[0].shape);
    for (int64_t i = 0; i < in[0].count(); i++) y.put(i, in[0].at(i) * 2);
    return std::vector{y};
  });
  return true;
}();

inline int failures = 0, current_line = 0;
struct Shown {
  int line;
  Tensor value;
  std::vector<double> expected;
};
inline std::vector<Shown> shown;

inline void fail(const std::string& text) {
  ++failures;
  std::cout << "docs/from-luminal.md:" << current_line << ": " << text << "\n";
}
inline void show(const Tensor& value, std::vector<double> expected) {
  Tensor kept = value;
  kept.keep();
  shown.push_back({current_line, kept, std::move(expected)});
}
inline void holds(bool value) {
  if (!value) fail("this does not hold");
}
inline void run(int line, void (*row)()) {
  current_line = line;
  try {
    row();
  } catch (const std::exception& error) {
    fail(error.what());
  }
}
/// Executes, compares, and says how many rows there are of each kind.
inline int finish(const std::string& summary) {
  a.set({{1, 2, 3}, {4, 5, 6}}), b.set({{10, 20, 30}, {40, 50, 60}}), v.set({1, 2, 3}),
      w.set({1, 1, 1, 1, 1, 1});
  ids.set({2, 0});
  current_line = 0;
  try {
    g.execute();
  } catch (const std::exception& error) {
    fail(error.what());
    shown.clear();
  }
  for (const Shown& row : shown) {
    current_line = row.line;
    const std::vector<double> have = row.value.data<double>();
    if (have.size() < row.expected.size()) fail(std::to_string(have.size()) + " elements");
    for (size_t i = 0; i < std::min(have.size(), row.expected.size()); ++i)
      if (!(std::fabs(have[i] - row.expected[i]) <= 2e-6 * std::fmax(1, std::fabs(row.expected[i]))))
        fail("element " + std::to_string(i) + " is " + std::to_string(have[i]));
  }
  std::cout << summary << ", " << failures << " failed\n";
  return failures == 0 ? 0 : 1;
}
