// tests/ir/id_table_test.cpp -- the table of ids under hashes against a map.
#include "ir/id_table.h"
#include <gtest/gtest.h>
#include <map>
#include <random>

namespace luminal {
namespace {

using TestId = Id<struct TestTag>;

TEST(IdTable, FindsTheFirstThatIsAskedForAsAMapDoes) {
  // Few different hashes, all of them with the same low bits or at the end of the table: long runs
  // that wrap around when the table grows.
  std::mt19937_64 random(7);
  for (uint64_t step : {uint64_t(1) << 40, uint64_t(1), uint64_t(63)}) {
    IdTable<TestId> table;
    std::map<uint64_t, std::vector<TestId>> expected;
    for (TestId id(0); id.number() < 3000; ++id) {
      const uint64_t hash = ~uint64_t(0) - step * (random() % 400);
      const TestId least(random() % 3000);
      const auto same = [&](TestId other) { return other >= least; };
      std::optional<TestId> first;
      for (TestId other : expected[hash])
        if (!first && same(other)) first = other;
      ASSERT_EQ(table.find(hash, same), first) << "hash " << hash << ", ids from " << least.number();
      table.add(hash, id);
      expected[hash].push_back(id);
    }
    ASSERT_FALSE(table.find(12345, [](TestId) { return true; }));
    table.clear();
    ASSERT_FALSE(table.find(~uint64_t(0), [](TestId) { return true; }));
  }
}

} // namespace
} // namespace luminal
