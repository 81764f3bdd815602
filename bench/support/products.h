// bench/support/products.h -- the matrix products that benchmarks run, and whether a result is
// right.
#pragma once
#include "harness.h"
#include <cmath>
#include <fmt/format.h>
#include <span>
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

/// Largest error of 2,000 elements of c = a b, the last row and the last column among them; a(i)
/// and b(i) give numbers in row-major order, the batch outermost.
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

/// Batches that follow each other use nothing twice: their operands come no faster than memory is
/// read. (Results are not counted: one array of them may stay in the caches.)
class OperandReads {
public:
  /// `bytes` of all batches, in as many copies as the product takes by turns.
  OperandReads(const ProductShape& s, int64_t bytes, int copies)
      : share_(s.batch > 1 ? bytes / 4 / 4096 * 4096 : 0), copies_(copies),
        from_(random_floats(share_ * copies, 3)) {}
  bool count() const { return share_ > 0; }
  Contender contender(Machine& machine, int threads) const {
    return {"reads", [this, &machine, threads, turn = 0]() mutable {
              turn = (turn + 1) % copies_;
              return machine.probes->stream_seconds(
                  search::Stream::read, threads,
                  {from_.data() + turn * share_, nullptr, nullptr, share_, false});
            }};
  }

private:
  int64_t share_; // of one copy, numbers
  int copies_;
  Array<float> from_;
};

/// race[1] took seconds for 1e9 operations; the next one, if operands count, for reading them.
inline void set_limit(Row& row, const ProductShape& s, std::span<const Contender> race,
                      const OperandReads& reads, const char* peak) {
  row.limit = 1 / race[1].low(), row.limit_name = peak;
  if (!reads.count()) return;
  if (const double rate = s.operations() / race[2].low() * 1e-9; rate < row.limit)
    row.limit = rate, row.limit_name = "operands read";
}

} // namespace luminal::bench
