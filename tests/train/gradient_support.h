// tests/train/gradient_support.h -- gradients held against central differences, both in f64 by the
// interpreter.
#pragma once
#include "ir/interp.h"
#include "luminal/autograd.h"
#include "luminal/luminal.h"
#include "tensor/graph_state.h"
#include <cmath>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <random>

namespace luminal::testing_train {

using Numbers = std::vector<double>;

/// A graph of f64 inputs with values, for functions of them to be checked.
class Probe {
public:
  explicit Probe(uint64_t seed = 1) : random(seed) {}

  Tensor input(Dims shape, double low = -1, double high = 1) {
    const std::string name = fmt::format("x{}", inputs.size());
    Tensor t = graph.tensor(shape, DType::f64, name);
    std::vector<int64_t> extents;
    for (const Dim& d : shape) extents.push_back(present(d));
    int64_t count = 1;
    for (int64_t e : extents) count *= e;
    Numbers values;
    for (int64_t i = 0; i < count; ++i) values.push_back(uniform(low, high));
    bindings.inputs[name] = host_tensor(DType::f64, extents, values);
    inputs.push_back(t);
    return t;
  }
  Tensor integers(Dims shape, const Numbers& values) {
    const std::string name = fmt::format("n{}", counter++);
    Tensor t = graph.tensor(shape, DType::i64, name);
    std::vector<int64_t> extents;
    for (const Dim& d : shape) extents.push_back(present(d));
    bindings.inputs[name] = host_tensor(DType::i64, extents, values);
    return t;
  }
  Dim dim(const std::string& name, int64_t low, int64_t high, int64_t now) {
    bindings.symbols[name] = now;
    return graph.dim(name, low, high);
  }
  double uniform(double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  }
  int pick(int count) { return int(random() % uint64_t(count)); }

  /// All elements of these tensors at the present inputs.
  std::vector<Numbers> evaluate(const std::vector<Tensor>& tensors) {
    const auto state = graph.state();
    Module module = state->module;
    FunctionBuilder b = state->builder;
    for (size_t i = 0; i < tensors.size(); ++i) b.result(fmt::format("r{}", i), node_id(tensors[i]));
    module.functions.push_back(b.finish());
    if (const auto mistakes = verify(module); !mistakes.empty()) ADD_FAILURE() << mistakes[0];
    Interpreter interpreter(module, bindings, InterpMode::f64);
    std::vector<Numbers> list;
    for (size_t i = 0; i < tensors.size(); ++i) {
      const HostTensor t = interpreter.result(fmt::format("r{}", i));
      Numbers numbers;
      for (int64_t k = 0; k < t.count(); ++k) numbers.push_back(t.at(k));
      list.push_back(numbers);
    }
    return list;
  }
  /// sum(y * weights): random weights that are part of the program.
  Tensor weighted(const std::vector<Tensor>& outputs) {
    std::optional<Tensor> total;
    for (const Tensor& y : outputs) {
      const Tensor key = random_key(graph, 17 + uint64_t(counter++));
      const Tensor term = (y.cast(DType::f64) * (random_uniform(key, y.shape(), 0.25, 1, DType::f64))).sum();
      total = total ? *total + term : term;
    }
    return *total;
  }
  struct Options {
    double tolerance = 2e-6, step = 1e-5;
    int most = 24;       // elements of each input
    bool second = false; // gradients of gradients too
    bool kinks = false;  // elements where two step sizes disagree are left out
  };
  /// Gradients of the weighted outputs with respect to all inputs, against differences.
  void check(const std::vector<Tensor>& outputs, const Options& options) {
    const Tensor loss = weighted(outputs);
    const std::vector<Tensor> g = gradients(loss, inputs);
    compare(loss, g, options);
    if (!options.second) return;
    std::vector<Tensor> depends;
    for (const Tensor& one : g) depends.push_back(one);
    const Tensor slope = weighted(depends);
    compare(slope, gradients(slope, inputs),
            {options.tolerance * 20, options.step, options.most, false, options.kinks});
  }
  void check(const std::vector<Tensor>& outputs) { check(outputs, Options{}); }

  Graph graph;
  Bindings bindings;
  std::vector<Tensor> inputs;
  std::mt19937_64 random;
  int counter = 0;
  int64_t compared = 0;

private:
  int64_t present(const Dim& d) {
    const auto value = evaluate_expr(d);
    return value;
  }
  int64_t evaluate_expr(const Dim& d) {
    ExprMap<int64_t> values;
    for (const auto& [name, expr] : graph.state()->dims) values[expr] = bindings.symbols.at(name);
    return *luminal::evaluate(to_expr(d), values);
  }
  double loss_at(const Tensor& loss, const std::string& name, int64_t k, double value) {
    HostTensor& x = bindings.inputs.at(name);
    const double old = x.at(k);
    store_f64(x.dtype, x.data.data(), k, value);
    const double result = evaluate({loss})[0][0];
    store_f64(x.dtype, x.data.data(), k, old);
    return result;
  }
  void compare(const Tensor& loss, const std::vector<Tensor>& g, const Options& options) {
    const std::vector<Numbers> got = evaluate(g);
    for (size_t i = 0; i < inputs.size(); ++i) {
      const std::string name = fmt::format("x{}", i);
      const int64_t count = int64_t(got[i].size());
      for (int64_t n = 0; n < std::min<int64_t>(count, options.most); ++n) {
        const int64_t k = count <= options.most ? n : pick(int(count));
        const double x = bindings.inputs.at(name).at(k);
        const auto slope = [&](double h) {
          return (loss_at(loss, name, k, x + h) - loss_at(loss, name, k, x - h)) / (2 * h);
        };
        const double want = slope(options.step), have = got[i][size_t(k)];
        const double allowed = options.tolerance * std::max(1.0, std::fabs(want));
        if (std::fabs(have - want) <= allowed) {
          ++compared;
          continue;
        }
        if (options.kinks) {
          const double other = slope(options.step * 0.37);
          if (!(std::fabs(other - want) <= allowed)) continue;
        }
        ADD_FAILURE() << "input " << i << ", element " << k << ": gradient " << have << ", difference "
                      << want;
        return;
      }
    }
  }
};

} // namespace luminal::testing_train
