// tests/base/hash_test.cpp -- hashes: fixed values, streaming, no confusion of sequences.
#include "base/hash.h"
#include <gtest/gtest.h>
#include <set>

using namespace luminal;

// The values of the XXH3 specification's implementation: a change would invalidate every cache.
TEST(Hash, KnownValues) {
  EXPECT_EQ(hash64(""), 0x2D06800538D394C2u);
  EXPECT_EQ(hash128("").hex(), "99aa06d3014798d86001c324468d497f");
}

TEST(Hash, StreamingEqualsOneShot) {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += static_cast<char>(i * 7);
  for (const size_t size : {0, 1, 3, 16, 17, 128, 129, 240, 241, 1024, 5000})
    for (const size_t step : {1, 7, 64, 1000}) {
      Hasher hasher(5);
      for (size_t i = 0; i < size; i += step) hasher.bytes(text.data() + i, std::min(step, size - i));
      EXPECT_EQ(hasher.value128(), hash128(text.data(), size, 5)) << size << " by " << step;
      EXPECT_EQ(hasher.value64(), hash64(text.data(), size, 5)) << size << " by " << step;
    }
}

TEST(Hash, SequencesWithOtherBordersDiffer) {
  EXPECT_NE(Hasher().add("ab").add("c").value128(), Hasher().add("a").add("bc").value128());
  EXPECT_NE(Hasher().add("").value128(), Hasher().value128());
  const int one[] = {1, 2}, two[] = {3};
  EXPECT_NE(Hasher().add(std::span<const int>(one)).add(std::span<const int>(two)).value64(),
            Hasher().add(std::span<const int>(one, 1)).add(2).add(3).value64());
}

TEST(Hash, CopiesGoTheirOwnWay) {
  Hasher first;
  first.add(1);
  Hasher second = first;
  second.add(2);
  EXPECT_NE(first.value64(), second.value64());
  first = second;
  EXPECT_EQ(first.value64(), second.value64());
}

TEST(Hash, MixSpreadsSmallNumbers) {
  std::set<uint64_t> low;
  for (uint64_t i = 0; i < 4096; ++i) low.insert(hash_mix(0, i) & 0xFFFF);
  EXPECT_GT(low.size(), 3800u); // 3970 expected of a random function
}
