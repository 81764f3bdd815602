// tests/ir/node_table_test.cpp -- the table of nodes under hashes against a map.
#include "ir/node_table.h"
#include <gtest/gtest.h>
#include <map>
#include <random>

namespace luminal {
namespace {

TEST(NodeTable, FindsTheFirstThatIsAskedForAsAMapDoes) {
  // Few different hashes, all of them with the same low bits or at the end of the table: long runs
  // that wrap around when the table grows.
  std::mt19937_64 random(7);
  for (uint64_t step : {uint64_t(1) << 40, uint64_t(1), uint64_t(63)}) {
    NodeTable table;
    std::map<uint64_t, std::vector<uint32_t>> expected;
    for (uint32_t id = 0; id < 3000; id++) {
      const uint64_t hash = ~uint64_t(0) - step * (random() % 400);
      const uint32_t least = uint32_t(random() % 3000);
      const auto same = [&](uint32_t other) { return other >= least; };
      std::optional<uint32_t> first;
      for (uint32_t other : expected[hash])
        if (!first && same(other)) first = other;
      ASSERT_EQ(table.find(hash, same), first) << "hash " << hash << ", ids from " << least;
      table.add(hash, id);
      expected[hash].push_back(id);
    }
    ASSERT_FALSE(table.find(12345, [](uint32_t) { return true; }));
    table.clear();
    ASSERT_FALSE(table.find(~uint64_t(0), [](uint32_t) { return true; }));
  }
}

} // namespace
} // namespace luminal
