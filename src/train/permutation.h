// train/permutation.h -- a random order of 0 .. n-1 by number and seed, in no memory.
#pragma once
#include <cstdint>

namespace luminal::train {

/// splitmix64's last step: every bit of the result depends on every bit of x.
constexpr uint64_t scrambled(uint64_t x) {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

/// A Feistel network of four rounds over the next even number of bits; numbers that it sends beyond
/// n go through it again, which keeps it one to one.
class Permutation {
public:
  Permutation(int64_t n, uint64_t seed) : n_(uint64_t(n)), seed_(seed) {
    while ((uint64_t{1} << (2 * half_)) < n_) ++half_;
  }
  int64_t operator()(int64_t i) const {
    auto x = uint64_t(i);
    do {
      const uint64_t mask = (uint64_t{1} << half_) - 1;
      uint64_t left = x >> half_, right = x & mask;
      for (uint64_t round = 0; round < 4; ++round) {
        const uint64_t next = left ^ (scrambled(right ^ scrambled(seed_ + round)) & mask);
        left = right;
        right = next;
      }
      x = left << half_ | right;
    } while (x >= n_);
    return int64_t(x);
  }

private:
  uint64_t n_, seed_;
  unsigned half_ = 1;
};

} // namespace luminal::train
