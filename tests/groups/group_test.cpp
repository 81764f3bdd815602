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
    const int64_t m = in(1, 40), n = in(1, 70), k = in(1, 40);
    SCOPED_TRACE(fmt::format("seed {}: {} x {} x {}", seed, m, n, k));
    const auto c = group_case(product_term(m, n, k, seed % 4 == 3 ? "bf16" : "f32"),
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

} // namespace
} // namespace luminal::kernel
