// tests/nn/support.h -- modules beside the values that PyTorch gave (goldens.safetensors, made by
// tools/nn_goldens.py).
#pragma once
#include "formats/safetensors.h"
#include "luminal/lifetime.h"
#include "luminal/nn_attention.h"
#include "luminal/nn_recurrent.h"
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <gtest/gtest.h>

namespace luminal::nn::test {

inline std::string golden_path() { return std::string(LUMINAL_SOURCE_DIR) + "/tests/nn/goldens.safetensors"; }
inline const Safetensors& goldens() {
  static const Safetensors file = open_safetensors(golden_path()).value();
  return file;
}
inline const TensorView& golden(const std::string& name) {
  const TensorView* view = goldens().find(name);
  if (!view) throw Error("no golden " + name);
  return *view;
}
inline std::vector<float> golden_values(const std::string& name) {
  const TensorView& view = golden(name);
  std::vector<float> values(view.bytes.size() / 4);
  std::memcpy(values.data(), view.bytes.data(), view.bytes.size());
  return values;
}

/// |got - want| <= tolerance * (1 + |want|), element by element; NaN is never near.
inline void expect_near(const std::vector<float>& got, const std::vector<float>& want, double tolerance,
                        const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (size_t i = 0; i < want.size(); i++)
    ASSERT_LE(std::abs(double(got[i]) - double(want[i])), tolerance * (1 + std::abs(double(want[i]))))
        << what << " element " << i << ": " << got[i] << ", expected " << want[i];
}

/// A case of the goldens: its inputs, and a scope of its name with the parameters' values.
class Case {
public:
  explicit Case(std::string name, bool trained = false)
      : name_(std::move(name)), root_(graph, {.trained = trained, .seed = 1}), scope(root_ / name_) {}
  Tensor in(int i) {
    const std::string input = fmt::format("{}/in{}", name_, i);
    const TensorView& view = golden(input);
    const DType type = view.type == StorageType::i64       ? DType::i64
                       : view.type == StorageType::boolean ? DType::boolean
                                                           : DType::f32;
    Tensor x = graph.tensor(Dims(view.shape.begin(), view.shape.end()), type, input);
    x.set_bytes(view.bytes, type);
    return x;
  }
  /// Loads the parameters, runs, and compares every result of the case.
  void expect(std::vector<Tensor> outputs, double tolerance = 2e-6) {
    LoadReport report = root_.load(golden_path(), {.strict = false});
    EXPECT_TRUE(report.missing.empty() && report.mismatching.empty()) << name_ << ": " << report;
    // Every tensor of the case is a parameter or buffer of the module.
    for (const std::string& unused : report.unused)
      EXPECT_FALSE(unused.starts_with(name_ + ".")) << name_ << ": " << unused;
    keep(outputs);
    graph.execute();
    EXPECT_EQ(goldens().find(fmt::format("{}/out{}", name_, outputs.size())), nullptr) << name_;
    for (size_t i = 0; i < outputs.size(); i++) {
      const std::string out = fmt::format("{}/out{}", name_, i);
      EXPECT_EQ(outputs[i].extents(), golden(out).shape) << out;
      expect_near(outputs[i].data<float>(), golden_values(out), tolerance, out);
    }
  }

private:
  std::string name_;

public:
  Graph graph;

private:
  Scope root_;

public:
  Scope scope;
};

} // namespace luminal::nn::test
