// models/onnx_qlinear_test.cpp -- quantised operators of ONNX Runtime, against their definition in double.
#include "formats/util.h"
#include "luminal/onnx.h"
#include "support/onnx_writer.h"
#include <algorithm>
#include <cmath>
#include <functional>
#include <gtest/gtest.h>
#include <random>

namespace luminal::onnx_qlinear_test {
namespace {

using namespace luminal::testing_formats;
using namespace luminal::testing_formats::onnx_writer;
constexpr int f32 = 1, u8 = 2, i8 = 3, i32 = 6;
constexpr double a_scale = 0.03125, b_scale = 0.015625, y_scale = 0.25; // their products are exact

/// Two operands a and b of two rows of three channels with four places, u8, zero points 120 and 3.
class OnnxQuantised : public ::testing::Test {
protected:
  OnnxQuantised() {
    std::mt19937 random(5);
    for (auto* list : {&a_, &b_})
      for (int k = 0; k < 24; ++k) list->push_back(uint8_t(random() % 256));
    g_.initializers = {
        tensor("as", f32, {}, raw<float>({float(a_scale)})), tensor("az", u8, {}, raw<uint8_t>({120})),
        tensor("bs", f32, {}, raw<float>({float(b_scale)})), tensor("bz", u8, {}, raw<uint8_t>({3})),
        tensor("ys", f32, {}, raw<float>({float(y_scale)})), tensor("yz", u8, {}, raw<uint8_t>({100}))};
    g_.inputs = {value("a", u8, {2, 3, 4}), value("b", u8, {2, 3, 4})};
  }
  static std::string pairs() { // kernel_shape = [2]
    return field(1, std::string_view("kernel_shape")) + field(8, int64_t(2)) + field(20, int64_t(7));
  }
  double a(int k) const { return (a_[size_t(k)] - 120) * a_scale; }
  double b(int k) const { return (b_[size_t(k)] - 3) * b_scale; }
  void expect(const std::string& op, const std::vector<std::string>& inputs,
              const std::vector<onnx_writer::Extent>& shape, int count,
              const std::function<double(int)>& want, const std::vector<std::string>& attributes = {}) {
    g_.nodes = {node(op, inputs, {"y"}, attributes, "com.microsoft")};
    g_.outputs = {value("y", u8, shape)};
    put_file(folder_.file("m.onnx"),
             model(g_) + field(8, field(1, std::string_view("com.microsoft")) + field(2, int64_t(1))));
    OnnxModel m = load_onnx(folder_.file("m.onnx"));
    m.input("a").set(a_);
    if (std::ranges::find(inputs, "b") != inputs.end()) m.input("b").set(b_);
    m.graph.execute();
    const std::vector<uint8_t> y = m.output("y").data<uint8_t>();
    ASSERT_EQ(y.size(), size_t(count)) << op;
    for (int k = 0; k < count; ++k)
      EXPECT_EQ(y[size_t(k)], std::clamp(std::nearbyint(want(k) / y_scale) + 100, 0.0, 255.0))
          << op << " " << k;
  }

  GraphText g_;
  std::vector<uint8_t> a_, b_;
  TemporaryFolder folder_;
};

TEST_F(OnnxQuantised, OperatorsOfElements) {
  const std::vector<std::string> both{"a", "as", "az", "b", "bs", "bz", "ys", "yz"},
      one{"a", "as", "az", "ys", "yz"};
  expect("QLinearAdd", both, {2, 3, 4}, 24, [&](int k) { return a(k) + b(k); });
  expect("QLinearMul", both, {2, 3, 4}, 24, [&](int k) { return a(k) * b(k); });
  expect(
      "QLinearLeakyRelu", one, {2, 3, 4}, 24, [&](int k) { return a(k) < 0 ? a(k) / 2 : a(k); },
      {field(1, std::string_view("alpha")) + std::string("\x15\x00\x00\x00\x3f", 5) + field(20, int64_t(1))});
  expect("QLinearSigmoid", one, {2, 3, 4}, 24, [&](int k) { return 1 / (1 + std::exp(-a(k))); });
}

TEST_F(OnnxQuantised, AveragesAndJoinedChannels) {
  expect("QLinearGlobalAveragePool", {"a", "as", "az", "ys", "yz"}, {2, 3, 1}, 6,
         [&](int k) { return (a(4 * k) + a(4 * k + 1) + a(4 * k + 2) + a(4 * k + 3)) / 4; });
  expect("QLinearConcat", {"ys", "yz", "a", "as", "az", "b", "bs", "bz"}, {2, 6, 4}, 48,
         [&](int k) {
           const int row = k / 24, rest = k % 24;
           return rest < 12 ? a(12 * row + rest) : b(12 * row + rest - 12);
         },
         {integer("axis", 1)});
}

TEST_F(OnnxQuantised, SoftmaxAveragesAndChoices) {
  const std::vector<std::string> one{"a", "as", "az", "ys", "yz"};
  const auto row_sum = [&](int k) {
    double sum = 0;
    for (int j = 0; j < 4; ++j) sum += std::exp(a(k / 4 * 4 + j));
    return sum;
  };
  expect("QLinearSoftmax", one, {2, 3, 4}, 24, [&](int k) { return std::exp(a(k)) / row_sum(k); },
         {integer("opset", 13), integer("axis", -1)});
  expect("QLinearAveragePool", one, {2, 3, 3}, 18,
         [&](int k) { return (a(k / 3 * 4 + k % 3) + a(k / 3 * 4 + k % 3 + 1)) / 2; }, {pairs()});
  expect("QLinearAveragePool", one, {2, 2, 4}, 16, // [batch, size, channels]
         [&](int k) { return (a(k / 8 * 12 + k % 8) + a(k / 8 * 12 + k % 8 + 4)) / 2; },
         {pairs(), integer("channels_last", 1)});
  g_.initializers.push_back(tensor("c", 9, {4}, raw<uint8_t>({1, 0, 0, 1})));
  expect("QLinearWhere", {"c", "a", "as", "az", "b", "bs", "bz", "ys", "yz"}, {2, 3, 4}, 24,
         [&](int k) { return k % 4 == 0 || k % 4 == 3 ? a(k) : b(k); });
}

TEST_F(OnnxQuantised, ProductsWithABias) {
  g_.inputs = {value("a", u8, {6, 4})};
  const std::vector<int8_t> w{1, -2, 3, 4, 100, -100, 7, 127}; // [2, 4], transposed
  g_.initializers.push_back(tensor("w", i8, {2, 4}, raw(w)));
  g_.initializers.push_back(tensor("ws", f32, {2}, raw<float>({0.5F, 0.25F})));
  g_.initializers.push_back(tensor("wz", i8, {2}, raw<int8_t>({0, 0})));
  g_.initializers.push_back(tensor("bias", i32, {2}, raw<int32_t>({-7, 90})));
  expect("QGemm", {"a", "as", "az", "w", "ws", "wz", "bias", "ys", "yz"}, {6, 2}, 12,
         [&](int k) {
           const int row = k / 2, column = k % 2;
           double sum = column == 0 ? -7 : 90;
           for (int j = 0; j < 4; ++j) sum += (a_[size_t(4 * row + j)] - 120) * w[size_t(4 * column + j)];
           return sum * a_scale * (column == 0 ? 0.5 : 0.25);
         },
         {integer("transB", 1)});
}

/// Between DequantizeLinear and what follows: bytes are multiplied where the zero point of the weight allows
/// it, numbers of f32 otherwise.
TEST_F(OnnxQuantised, ProductsOfDequantisedBytes) {
  for (const int w_zero : {0, 5}) {
    GraphText g;
    const std::vector<int8_t> w{1, -2, 3, 4, 100, -100, 7, 127}; // [4, 2]
    g.initializers = g_.initializers;
    g.initializers.push_back(tensor("w", i8, {4, 2}, raw(w)));
    g.initializers.push_back(tensor("ws", f32, {2}, raw<float>({0.5F, 0.25F})));
    g.initializers.push_back(tensor("wz", i8, {2}, raw<int8_t>({int8_t(w_zero), int8_t(w_zero)})));
    g.nodes = {node("DequantizeLinear", {"a", "as", "az"}, {"af"}),
               node("DequantizeLinear", {"w", "ws", "wz"}, {"wf"}, {integer("axis", 1)}),
               node("MatMul", {"af", "wf"}, {"y"})};
    g.inputs = {value("a", u8, {6, 4})};
    g.outputs = {value("y", f32, {6, 2})};
    put_file(folder_.file("m.onnx"), model(g));
    OnnxModel m = load_onnx(folder_.file("m.onnx"));
    m.input("a").set(a_);
    m.graph.execute();
    const std::vector<float> y = m.output("y").data<float>();
    ASSERT_EQ(y.size(), 12u);
    for (int k = 0; k < 12; ++k) {
      double sum = 0;
      for (int j = 0; j < 4; ++j)
        sum += (a_[size_t(4 * (k / 2) + j)] - 120) * (w[size_t(2 * j + k % 2)] - w_zero);
      EXPECT_FLOAT_EQ(y[size_t(k)], float(sum * a_scale * (k % 2 == 0 ? 0.5 : 0.25))) << w_zero << " " << k;
    }
  }
}

} // namespace
} // namespace luminal::onnx_qlinear_test
