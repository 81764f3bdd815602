// models/onnx_integers_test.cpp -- products of bytes with zero points, of all signs, against sums of their
// definition.
#include "formats/util.h"
#include "luminal/onnx.h"
#include "support/onnx_writer.h"
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <random>

namespace luminal {
namespace {

using namespace luminal::testing_formats;
using namespace luminal::testing_formats::onnx_writer;
constexpr int u8 = 2, i8 = 3, i32 = 6;

class OnnxIntegers : public ::testing::Test {
protected:
  int64_t below(int64_t n) { return int64_t(random_() % uint64_t(n)); }
  /// Numbers of a byte, its least and its largest one more often than others.
  std::vector<int64_t> bytes(int64_t count, bool is_signed) {
    std::vector<int64_t> out;
    for (int64_t k = 0; k < count; ++k) {
      const int64_t n = below(10) == 0 ? 255 * below(2) : below(256);
      out.push_back(is_signed ? n - 128 : n);
    }
    return out;
  }
  static std::string stored(const std::vector<int64_t>& numbers) {
    std::string out;
    for (const int64_t n : numbers) out += char(n);
    return out;
  }
  /// A zero point: none, what makes numbers of one sign, or any; its number.
  int64_t zero_point(GraphText& g, std::string& name, const char* wish, bool is_signed) {
    const int64_t choice = below(4);
    if (choice == 0) return 0;
    const int64_t zero = choice == 1 ? (is_signed ? 0 : 128) : bytes(1, is_signed)[0];
    g.initializers.push_back(tensor(wish, is_signed ? i8 : u8, {}, stored({zero})));
    name = wish;
    return zero;
  }
  std::vector<int32_t> run(const GraphText& g, const std::vector<int64_t>& x, bool is_signed) {
    put_file(folder_.file("m.onnx"), model(g));
    OnnxModel m = load_onnx(folder_.file("m.onnx"));
    if (is_signed)
      m.input("x").set(std::vector<int8_t>(x.begin(), x.end()));
    else
      m.input("x").set(std::vector<uint8_t>(x.begin(), x.end()));
    m.graph.execute();
    return m.output("y").data<int32_t>();
  }
  static std::string integers(std::string_view name, const std::vector<int64_t>& numbers) {
    std::string out = field(1, name);
    for (const int64_t n : numbers) out += field(8, n);
    return out + field(20, int64_t(7));
  }

  std::mt19937 random_{7};
  TemporaryFolder folder_;
};

TEST_F(OnnxIntegers, ProductsOfMatrices) {
  for (int round = 0; round < 10; ++round) {
    const int rows = int(1 + below(20)), deep = int(1 + below(300)), columns = int(1 + below(90));
    const bool x_signed = below(2), w_signed = below(2);
    SCOPED_TRACE(
        fmt::format("round {}: {} x {} x {}, {} {}", round, rows, deep, columns, x_signed, w_signed));
    const std::vector<int64_t> x = bytes(rows * deep, x_signed), w = bytes(deep * columns, w_signed);
    GraphText g;
    std::string x_name, w_name;
    const int64_t x_zero = zero_point(g, x_name, "xz", x_signed),
                  w_zero = zero_point(g, w_name, "wz", w_signed);
    g.nodes = {node("MatMulInteger", {"x", "w", x_name, w_name}, {"y"})};
    g.initializers.push_back(tensor("w", w_signed ? i8 : u8, {deep, columns}, stored(w)));
    g.inputs = {value("x", x_signed ? i8 : u8, {rows, deep})};
    g.outputs = {value("y", i32, {rows, columns})};
    const std::vector<int32_t> y = run(g, x, x_signed);
    ASSERT_EQ(y.size(), size_t(rows * columns));
    for (int r = 0; r < rows; ++r)
      for (int c = 0; c < columns; ++c) {
        int64_t sum = 0;
        for (int k = 0; k < deep; ++k)
          sum += (x[size_t(r * deep + k)] - x_zero) * (w[size_t(k * columns + c)] - w_zero);
        ASSERT_EQ(y[size_t(r * columns + c)], sum) << r << ", " << c;
      }
  }
}

TEST_F(OnnxIntegers, Convolutions) {
  for (int round = 0; round < 10; ++round) {
    const int groups = below(4) == 0 ? 2 : 1, in = int(1 + below(9)) * groups,
              out = int(1 + below(40)) * groups, size = int(3 + below(15)), window = int(1 + below(3)),
              stride = int(1 + below(2)), pad = int(below(window + 1) / 2), part = in / groups;
    const bool x_signed = below(2), w_signed = below(2);
    SCOPED_TRACE(fmt::format("round {}: {} to {} in {} groups, {} by {}, step {}, {} around, {} {}", round,
                             in, out, groups, size, window, stride, pad, x_signed, w_signed));
    const std::vector<int64_t> x = bytes(in * size * size, x_signed),
                               w = bytes(out * part * window * window, w_signed);
    GraphText g;
    std::string x_name, w_name;
    const int64_t x_zero = zero_point(g, x_name, "xz", x_signed),
                  w_zero = zero_point(g, w_name, "wz", w_signed);
    const int rows = (size + 2 * pad - window) / stride + 1;
    g.nodes = {node("ConvInteger", {"x", "w", x_name, w_name}, {"y"},
                    {integers("pads", {pad, pad, pad, pad}), integers("strides", {stride, stride}),
                     integer("group", groups)})};
    g.initializers.push_back(tensor("w", w_signed ? i8 : u8, {out, part, window, window}, stored(w)));
    g.inputs = {value("x", x_signed ? i8 : u8, {1, in, size, size})};
    g.outputs = {value("y", i32, {1, out, rows, rows})};
    const std::vector<int32_t> y = run(g, x, x_signed);
    ASSERT_EQ(y.size(), size_t(out * rows * rows));
    for (int k = 0; k < out; ++k)
      for (int i = 0; i < rows; ++i)
        for (int j = 0; j < rows; ++j) {
          int64_t sum = 0;
          for (int c = 0; c < part; ++c)
            for (int r = 0; r < window; ++r)
              for (int s = 0; s < window; ++s) {
                const int row = i * stride + r - pad, column = j * stride + s - pad;
                if (row < 0 || row >= size || column < 0 || column >= size) continue;
                const int channel = k / (out / groups) * part + c;
                sum += (x[size_t((channel * size + row) * size + column)] - x_zero) *
                       (w[size_t(((k * part + c) * window + r) * window + s)] - w_zero);
              }
          ASSERT_EQ(y[size_t((k * rows + i) * rows + j)], sum) << k << ", " << i << ", " << j;
        }
  }
}

} // namespace
} // namespace luminal
