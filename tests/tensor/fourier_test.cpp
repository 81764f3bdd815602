// tests/tensor/fourier_test.cpp -- Fourier transforms of many sizes against the sum that defines
// them, and results that share what they are computed from.
#include "luminal/luminal.h"
#include "support/given_machine.h"
#include "sweep.h"
#include <cmath>
#include <complex>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <random>

namespace luminal {
namespace {
using namespace luminal::test;
using In = const std::vector<Tensor>&;
using Out = std::vector<Tensor>;
using Number = std::complex<double>;

std::vector<Number> transform(const std::vector<Number>& x, double sign) {
  const size_t n = x.size();
  std::vector<Number> y(n), roots(n);
  for (size_t k = 0; k < n; k++) roots[k] = std::polar(1.0, sign * 6.283185307179586 * double(k) / double(n));
  for (size_t k = 0; k < n; k++)
    for (size_t i = 0; i < n; i++) y[k] += x[i] * roots[i * k % n];
  return y;
}

/// Of all rows of x [outer.., n, 2] and of r [outer.., n].
void expect_the_sum_that_defines_it(const Dims& outer, int64_t n) {
  std::mt19937 random{unsigned(n)};
  int64_t rows = 1;
  for (const Dim& d : outer) rows *= d.value();
  Dims complex = outer, real_shape = outer;
  complex.insert(complex.end(), {n, 2}), real_shape.push_back(n);
  Graph g;
  Tensor x = g.tensor(complex), r = g.tensor(real_shape);
  Tensor y = fft(x).keep(), back = ifft(x).keep(), real = rfft(r).keep();
  std::vector<double> values(size_t(rows * n * 2)), reals(size_t(rows * n));
  for (auto* list : {&values, &reals})
    for (double& v : *list) v = double(float(double(random() % 2001) / 1000 - 1));
  x.set(values), r.set(reals);
  g.compile();
  g.execute();
  const auto ys = y.data<double>(), backs = back.data<double>(), halves = real.data<double>();
  const double tolerance = 2e-6 * std::sqrt(double(n)) * std::log2(double(n) + 2);
  for (int64_t row = 0; row < rows; row++) {
    std::vector<Number> in, in_real;
    for (int64_t i = 0; i < n; i++) {
      in.emplace_back(values[size_t((row * n + i) * 2)], values[size_t((row * n + i) * 2 + 1)]);
      in_real.emplace_back(reals[size_t(row * n + i)], 0);
    }
    const std::vector<Number> wanted = transform(in, -1), wanted_back = transform(in, 1),
                              wanted_real = transform(in_real, -1);
    for (int64_t k = 0; k < n; k++) {
      const size_t at = size_t((row * n + k) * 2);
      ASSERT_NEAR(ys[at], wanted[size_t(k)].real(), tolerance) << n << " " << k;
      ASSERT_NEAR(ys[at + 1], wanted[size_t(k)].imag(), tolerance) << n << " " << k;
      ASSERT_NEAR(backs[at], wanted_back[size_t(k)].real() / double(n), tolerance) << n << " " << k;
      ASSERT_NEAR(backs[at + 1], wanted_back[size_t(k)].imag() / double(n), tolerance) << n << " " << k;
      if (k > n / 2) continue;
      const size_t half = size_t((row * (n / 2 + 1) + k) * 2);
      ASSERT_NEAR(halves[half], wanted_real[size_t(k)].real(), tolerance) << n << " " << k;
      ASSERT_NEAR(halves[half + 1], wanted_real[size_t(k)].imag(), tolerance) << n << " " << k;
    }
  }
}

/// Powers of two take butterflies, other factors of few rows sums.
TEST(Fourier, IsTheSumThatDefinesIt) {
  for (const int64_t n : {1, 2, 7, 16, 32, 48, 64, 96, 128, 144, 160, 256, 400, 512, 1024, 2048}) {
    expect_the_sum_that_defines_it({1 + n % 3}, n);
    if (HasFailure()) return;
  }
}

/// The lanes go along the rows: small factors of all kinds, halves of real numbers, sizes without small
/// factors, rows of several axes.
TEST(Fourier, ManyRowsGoSideBySide) {
  for (const int64_t n : {17, 18, 20, 26, 48, 64, 126, 208, 256, 400}) {
    expect_the_sum_that_defines_it(n % 4 ? Dims{3, 11} : Dims{18}, n);
    if (HasFailure()) return;
  }
}

/// Four results of two sums and two differences: of any number of rows, and of vectors with a
/// remainder.
TEST(Fourier, ResultsThatShareTheirPartsAreRight) {
  std::vector<SweepOp> ops;
  for (const int64_t columns : {1, 3, 16, 33, 100})
    for (const int axis : {0, 1, 2})
      ops.push_back({.name = "shared",
                     .shapes = {{4, 3, columns}, {3, columns}},
                     .dtypes = {DType::f32, DType::i32, DType::f16},
                     .make = [axis](In x) -> Out {
                       std::vector<Tensor> p;
                       for (int64_t i = 0; i < 4; i++) p.push_back(x[0].slice(0, i, i + 1).squeeze(0) * x[1]);
                       const Tensor a = p[0] + p[2], b = p[0] - p[2], c = p[1] + p[3], d = p[1] - p[3];
                       return {stack({a + c, b - d, a - c, b + d}, axis)};
                     }});
  sweep(ops);
}

/// The report shows the schedule: one body for the results of a butterfly.
TEST(Fourier, ResultsThatShareTheirPartsAreMadeTogether) {
  const GivenMachine machine;
  Graph g;
  const Tensor y = fft(g.tensor({4, 128, 2})).keep();
  g.compile();
  EXPECT_THAT(g.report(), testing::HasSubstr("segments s0 a1 2"));
}

} // namespace
} // namespace luminal
