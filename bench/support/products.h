// bench/support/products.h -- the matrix products that benchmarks run, and whether a result is right.
#pragma once
#include "harness.h"
#include <cmath>
#include <fmt/format.h>
#include <string>

namespace luminal::bench {

struct ProductShape {
  int m, n, k, batch = 1;
  double goal = 0.9; ///< fraction of the f32 peak
  std::string name(const char* kind) const {
    return fmt::format("{} {}{}", kind,
                       m == n && n == k ? fmt::format("{}", m) : fmt::format("{}x{}x{}", m, n, k),
                       batch > 1 ? fmt::format(" *{}", batch) : "");
  }
  double operations() const { return 2.0 * batch * m * n * k; }
};

inline const ProductShape product_shapes[] = {{256, 256, 256, 1, 0.95},
                                              {512, 512, 512, 1, 0.95},
                                              {1024, 1024, 1024, 1, 0.93},
                                              {2048, 2048, 2048, 1, 0.93},
                                              {4096, 4096, 4096, 1, 0.93},
                                              {128, 3072, 768},
                                              {512, 3072, 768},
                                              {128, 768, 3072},
                                              {512, 768, 3072},
                                              {1000, 777, 513},
                                              {64, 64, 64, 1000},
                                              {17, 33, 65, 1000}};

/// Largest error of 2,000 elements of c = a b, the last row and the last column among them; a(i) and b(i) give numbers in row-major order, the batch outermost.
template <class C, class A, class B> double product_error(const ProductShape& s, const C& c, A&& a, B&& b) {
  Error error;
  for (int sample = 0; sample < 2000; sample++) {
    const int64_t i = sample < 100 ? s.m - 1 : sample * 7919LL % s.m,
                  j = sample < 200 && sample >= 100 ? s.n - 1 : sample * 104729LL % s.n,
                  at = sample % s.batch;
    double sum = 0;
    for (int64_t k = 0; k < s.k; k++) sum += a((at * s.m + i) * s.k + k) * b((at * s.k + k) * s.n + j);
    error.add(double(c[size_t((at * s.m + i) * s.n + j)]), sum, std::sqrt(double(s.k)));
  }
  return error.largest();
}

} // namespace luminal::bench
