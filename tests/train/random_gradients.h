// tests/train/random_gradients.h -- random functions of f64 tensors, and their gradients against
// central differences.
#pragma once
#include "support/seeds.h"
#include "train/gradient_support.h"
#include <fmt/format.h>

namespace luminal::testing_train {

/// One more operation on a tensor of rank 1 to 3 with small extents. Values stay moderate: tanh and
/// its like follow what grows.
inline Tensor random_step(Probe& p, const Tensor& x, std::vector<Tensor>& pool) {
  const int rank = x.rank(), axis = p.pick(rank);
  const int64_t extent = int64_t(x.dim(axis).value());
  const auto other = [&]() -> Tensor {
    for (size_t k = 0; k < pool.size(); ++k) {
      const Tensor& y = pool[size_t(p.pick(int(pool.size())))];
      if (y.shape() == x.shape()) return y;
    }
    return (x * 0.5).sin();
  };
  switch (p.pick(30)) {
  case 0: return x.tanh();
  case 1: return x.sin();
  case 2: return (x * 0.5).exp();
  case 3: return x.sigmoid() * 2;
  case 4: return (x * x + 1).log();
  case 5: return (x * x + 0.5).sqrt();
  case 6: return x.gelu();
  case 7: return x + other();
  case 8: return x * other();
  case 9: return x / (other().square() + 1);
  case 10: return maximum(x, other());
  case 11: return select(x > other(), x * 2, x.sin());
  case 12: return x.relu() - x * 0.1;
  case 13: return rank > 1 ? x.sum(axis).tanh() : x;
  case 14: return rank > 1 ? x.max(axis) : x;
  case 15: return rank > 1 ? x.mean(axis) : x;
  case 16: return rank > 1 ? x.prod(axis) : x;
  case 17: return x.softmax(axis) * 3;
  case 18: return x.cumsum(axis).tanh();
  case 19: return x.cumprod(axis);
  case 20: return x.flip(axis);
  case 21: return x.pad(axis, p.pick(2), p.pick(3), 0.25);
  case 22: return extent > 2 ? x.slice(axis, 1, extent, 1 + p.pick(2)) : x;
  case 23: return rank > 1 ? x.transpose(axis, (axis + 1) % rank) : x;
  case 24: return extent % 2 == 0 && rank < 3 ? x.split_dims(axis, 2) : x.flatten();
  case 25: return rank < 3 && extent >= 3 ? x.windows(axis, 2, 1 + p.pick(2)).tanh() : x;
  case 26: return x.roll(1 + p.pick(2), axis);
  case 27: return extent < 5 ? x.repeat_interleave(2, axis) : x;
  case 28: return x.sort(axis, p.pick(2) == 1).values;
  default: {
    std::vector<double> ids;
    for (int k = 0; k < 3; ++k) ids.push_back(p.pick(int(extent)));
    return x.index_select(axis, p.integers({3}, ids));
  }
  }
}

/// A random function of two inputs; `second`: gradients of its gradients too. Returns how many
/// elements were compared.
inline int64_t check_random_function(uint64_t seed, bool second) {
  Probe p(seed);
  std::vector<Tensor> pool;
  const Dims shape{2 + p.pick(3), 2 + p.pick(3)};
  pool.push_back(p.input(shape));
  pool.push_back(p.input(shape));
  const int length = 3 + p.pick(6);
  for (int k = 0; k < length; ++k) {
    const Tensor x = pool[size_t(k < 2 ? k : p.pick(int(pool.size())))];
    const Tensor y = random_step(p, x, pool);
    if (y.rank() == 0 || y.numel() > 400) continue;
    pool.push_back(y);
  }
  Probe::Options options{.tolerance = 2e-5, .most = 4, .second = second, .kinks = true};
  p.check({pool.back(), pool[pool.size() - 2]}, options);
  return p.compared;
}

/// Seeds [first, first + count), or those of the environment; every fifth one with gradients of its
/// gradients.
inline void check_random_functions(uint64_t first, uint64_t count) {
  const test::Seeds seeds = test::seeds(first, count);
  int64_t compared = 0;
  for (uint64_t seed = seeds.first; seed < seeds.end(); ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    ASSERT_NO_THROW(compared += check_random_function(seed, seed % 5 == 0));
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(compared, int64_t(5 * seeds.count));
}

} // namespace luminal::testing_train
