// tests/tensor/cast_test.cpp -- conversions and reinterpretations between all pairs of types: the
// plan against the interpreter, and the rules of ir/ops.h.
#include "ir/interp.h"
#include "luminal/luminal.h"
#include "tensor/graph_state.h"
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace luminal {
namespace {

constexpr DType every_type[] = {DType::boolean, DType::i4,     DType::u4,     DType::i8,   DType::u8,
                                DType::i16,     DType::u16,    DType::i32,    DType::u32,  DType::i64,
                                DType::u64,     DType::f8e4m3, DType::f8e5m2, DType::bf16, DType::f16,
                                DType::f32,     DType::f64};

/// Zeros, halves, ends of the types, infinities, NaN; an even number of them.
const std::vector<double> samples{
    0,      -0.0,     0.5,       1.5,   2.5,          -1.5,          100.7,  -100.7,     7.5,
    -8.6,   15.9,     16,        127.9, 128,          255.5,         256,    -129,       448,
    464,    465,      480,       57344, 61440,        65504,         65520,  70000,      1e10,
    -1e10,  3e38,     4e38,      1e300, -1e300,       1e-3,          1e-8,   5.9604e-08, 1e-40,
    1e-310, INFINITY, -INFINITY, NAN,   2147483648.0, -2147483649.0, 9.3e18, -9.3e18,    1.9e19,
    0.1,    1.0 / 3,  -3};

void compare_with_interpreter(Graph& g, const std::vector<Tensor>& results, const Bindings& bindings) {
  g.execute();
  const Module module = g.state()->snapshot();
  Interpreter interpreter(module, bindings);
  for (const Tensor& t : results) {
    const int64_t n = t.element_count();
    std::vector<std::byte> got(size_t(storage_bytes(t.dtype(), n)));
    t.read(got.data(), t.dtype());
    const HostTensor want = interpreter.result(g.state()->kept.at(node_id(t)));
    for (int64_t i = 0; i < n; ++i) {
      if (is_float(t.dtype())) {
        const double a = load_f64(t.dtype(), got.data(), i), b = want.at(i);
        EXPECT_TRUE(std::isnan(b) ? std::isnan(a) : a == b && std::signbit(a) == std::signbit(b))
            << t.name() << " element " << i << ": plan " << a << ", interpreter " << b;
      } else {
        EXPECT_EQ(load_i64(t.dtype(), got.data(), i), load_i64(t.dtype(), want.data.data(), i))
            << t.name() << " element " << i;
      }
    }
  }
}

HostTensor samples_as(DType type) {
  std::vector<double> values = samples;
  if (!is_float(type)) {
    const double low = is_signed(type) ? -std::ldexp(1, bits(type) - 1) : 0,
                 high = std::ldexp(1, bits(type) - int(is_signed(type))) - 1;
    for (double& v : values) {
      v = std::isnan(v) ? 0 : std::trunc(std::fmin(std::fmax(v, low), high));
      if (type == DType::boolean) v = v != 0;
      if (bits(type) == 64 && v == high + 1) v = std::nextafter(v, 0);
      if (bits(type) == 64) v = std::fmin(v, 9.2e18);
    }
  }
  return host_tensor(type, {int64_t(values.size())}, values);
}

TEST(Cast, EveryPairOfTypes) {
  Graph g;
  Bindings bindings;
  std::vector<Tensor> results;
  for (DType from : every_type) {
    const std::string name(to_string(from));
    bindings.inputs[name] = samples_as(from);
    Tensor x = g.tensor({int64_t(samples.size())}, from, name);
    x.set_bytes(bindings.inputs[name].data, from);
    for (DType to : every_type) {
      if (to == from) continue;
      Tensor y = x.cast(to);
      y.set_name(fmt::format("{}_to_{}", name, to_string(to)));
      results.push_back(y.keep());
    }
  }
  compare_with_interpreter(g, results, bindings);
}

TEST(Cast, EveryPairOfPatterns) {
  Graph g;
  Bindings bindings;
  std::vector<Tensor> results;
  for (DType from : every_type) {
    if (from == DType::boolean) continue;
    const std::string name(to_string(from));
    HostTensor pattern{from, {2, 128 / bits(from)}, std::vector<std::byte>(32)};
    for (size_t i = 0; i < 32; ++i)
      pattern.data[i] = std::byte(uint8_t(i * 37 + 11) & 0x3f); // no NaN: its bits are not specified
    bindings.inputs[name] = pattern;
    Tensor x = g.tensor({2, 128 / bits(from)}, from, name);
    x.set_bytes(pattern.data, from);
    for (DType to : every_type) {
      if (to == from || to == DType::boolean) continue;
      Tensor y = x.bitcast(to);
      y.set_name(fmt::format("{}_as_{}", name, to_string(to)));
      results.push_back(y.keep());
    }
  }
  compare_with_interpreter(g, results, bindings);
  for (const Tensor& t : results) { // the bytes are the same
    std::vector<std::byte> got(32);
    t.read(got.data(), t.dtype());
    const std::string name = t.name();
    EXPECT_TRUE(got == bindings.inputs.at(name.substr(0, name.find("_as_"))).data) << name;
  }
}

/// The table at the head of ir/ops.h, by example.
TEST(Cast, Rules) {
  Graph g;
  Tensor x = g.tensor({8}), n = g.tensor({4}, DType::i32);
  Tensor i8 = x.cast(DType::i8).keep(), u8 = x.cast(DType::u8).keep(), i4 = x.cast(DType::i4).keep(),
         truth = x.cast(DType::boolean).keep(), e4m3 = x.cast(DType::f8e4m3).keep(),
         e5m2 = x.cast(DType::f8e5m2).keep(), narrow = n.cast(DType::i8).keep(),
         u4 = n.cast(DType::u4).keep();
  x.set({-1.9f, 300.f, -300.f, NAN, INFINITY, 0.25f, 7.9f, -0.f});
  n.set({300, -1, 128, 17});
  g.execute();
  using testing::ElementsAre;
  EXPECT_THAT(i8.data<int>(), ElementsAre(-1, 127, -128, 0, 127, 0, 7, 0));
  EXPECT_THAT(u8.data<int>(), ElementsAre(0, 255, 0, 0, 255, 0, 7, 0));
  EXPECT_THAT(i4.data<int>(), ElementsAre(-1, 7, -8, 0, 7, 0, 7, 0));
  EXPECT_THAT(truth.data<int>(), ElementsAre(1, 1, 1, 1, 1, 1, 1, 0));
  EXPECT_THAT(narrow.data<int>(), ElementsAre(44, -1, -128, 17));
  EXPECT_THAT(u4.data<int>(), ElementsAre(12, 15, 0, 1));
  auto four = e4m3.data<float>(), five = e5m2.data<float>();
  EXPECT_TRUE(std::isnan(four[3]) && std::isnan(four[4])); // no infinity: overflow is NaN
  EXPECT_TRUE(std::isinf(five[4]));
  EXPECT_EQ(four[1], 288.f); // 300 between 288 and 320
  EXPECT_EQ(five[1], 320.f); // 300 between 256 and 320
}

} // namespace
} // namespace luminal
