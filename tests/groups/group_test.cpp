// groups/group_test.cpp -- lanes of a group work together: products in tiles, sums of rows, several stages in
// one kernel, in random sizes and orders, equal the interpreter of terms.
#include "group_support.h"

namespace luminal::kernel {
namespace {
using testing::HasSubstr;

TEST(Groups, ProductsInTiles) {
  for (uint64_t seed = 1; seed <= 12; seed++) {
    std::mt19937_64 random(seed);
    const auto in = [&](int64_t low, int64_t high) {
      return low + int64_t(random() % uint64_t(high - low + 1));
    };
    const int64_t m = in(2, 40), n = in(2, 70), k = in(2, 40);
    SCOPED_TRACE(fmt::format("seed {}: {} x {} x {}", seed, m, n, k));
    const auto c =
        group_case(product_term(m, n, k, seed % 4 == 3 ? "bf16" : "f32"),
                   product_schedule(int(in(1, 3)), int(in(1, 3)), int(in(2, 9)), seed % 5 != 4), seed);
    if (!c) return;
    expect_right(*c, seed);
    if (HasFailure()) return;
  }
}

TEST(Groups, AccumulatorsStayInRegisters) {
  const auto c = group_case(product_term(64, 64, 64), product_schedule(4, 4, 8), 1);
  ASSERT_TRUE(c);
  EXPECT_EQ(lanes_of_group(c->kernel), 32);
  const std::string text = to_string(c->kernel);
  EXPECT_THAT(text, HasSubstr("registers f.acc: f32[16]"));
  EXPECT_EQ(count_of(text, "barrier level 1"), 3);
  EXPECT_EQ(count_of(text, " where "), 0) << text;
  expect_right(*c, 1);
}

TEST(Groups, SeveralFoldsOfRowsInOneKernel) {
  for (uint64_t seed = 1; seed <= 12; seed++) {
    std::mt19937_64 random(seed);
    const int rows = 1 + int(random() % 5), lanes = 2 + int(random() % 40);
    const int64_t m = 2 + int64_t(random() % 14), k = 2 + int64_t(random() % 150);
    SCOPED_TRACE(fmt::format("seed {}: {} x {}, {} rows of {} lanes", seed, m, k, rows, lanes));
    const auto c = group_case(softmax_term(m, k), rows_schedule(softmax_stages, rows, lanes), seed);
    if (!c) return;
    expect_right(*c, seed);
    if (HasFailure()) return;
  }
}

/// Tuples: partial states of lanes are combined as the monoid says.
TEST(Groups, StatesOfTuplesAreCombined) {
  for (uint64_t seed = 1; seed <= 6; seed++) {
    const auto c = group_case(tuple_term(), tuple_schedule(), seed);
    ASSERT_TRUE(c);
    expect_right(*c, seed);
  }
}

/// One row: one group.
TEST(Groups, OneGroupOfLanes) {
  const auto c =
      group_case(softmax_term(1, 77),
                 "split mf k k.o k.l 32\nsplit sf k_2 k.o k.l 32\nsplit y k_3 k.o k.l 32\nlanes * k.l\n", 1);
  ASSERT_TRUE(c);
  expect_right(*c, 2);
}

/// A tile of several rows: each lane sums parts of them, and the lanes combine one row after the other.
TEST(Groups, LanesOfTheSumHoldSeveralRows) {
  for (uint64_t seed = 1; seed <= 4; seed++) {
    const auto c = group_case(product_term(13, 9, 50),
                              "split f i i.o i.u 4\nsplit f k k.o k.l 16\norder f i.o j k.o k.l i.u\n"
                              "merge f i.o j g\nparallel f g\nlanes f k.l\nunroll f i.u\n",
                              seed);
    ASSERT_TRUE(c);
    expect_right(*c, seed);
  }
}

/// A serial loop of results around the sum, and rows that one copy holds for all steps.
TEST(Groups, CopiesOutsideOfSerialLoops) {
  for (uint64_t seed = 1; seed <= 4; seed++) {
    const auto c =
        group_case(product_term(21, 40, 30),
                   "split f i g i.l 4\nsplit f j j.o j.l 8\norder f g j.o i.l j.l k\nparallel f g\n"
                   "lanes f i.l j.l\ngroup_copy f a g\ngroup_copy f b j.o\n",
                   seed);
    ASSERT_TRUE(c);
    expect_right(*c, seed);
  }
}

} // namespace
} // namespace luminal::kernel
