// ir/philox.h -- Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1,
// 2, 3, SC 2011).
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

namespace luminal {

/// Four random words for a counter and a key.
constexpr std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    uint64_t a = uint64_t(0xD2511F53u) * counter[0], b = uint64_t(0xCD9E8D57u) * counter[2];
    counter = {uint32_t(b >> 32) ^ counter[1] ^ key[0], uint32_t(b), uint32_t(a >> 32) ^ counter[3] ^ key[1],
               uint32_t(a)};
    key = {key[0] + 0x9E3779B9u, key[1] + 0xBB67AE85u};
  }
  return counter;
}
/// The word that a random node gives for its counter: lane counter & 3 of block counter >> 2.
constexpr uint32_t random_word(int64_t counter, std::array<uint32_t, 2> key) {
  auto block = uint64_t(counter >> 2);
  return philox4x32({uint32_t(block), uint32_t(block >> 32), 0, 0}, key)[std::size_t(counter & 3)];
}
/// Uniform in [0, 1): multiples of 2^-24, exact in f32.
constexpr double random_uniform(uint32_t word) { return double(word >> 8) * 0x1p-24; }

/// Splitting: child `i` of a key is words 0 and 1 of block 2^60 + i; counters of draws stay below
/// 2^62.
inline constexpr int64_t split_counter = int64_t(1) << 62;

} // namespace luminal
