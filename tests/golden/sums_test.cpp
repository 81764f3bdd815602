// golden/sums_test.cpp -- sums in blocks and in parts beside each other.
#include "golden/lowered_loops.h"
#include <fmt/format.h>

namespace luminal::kernel {
namespace {

/// Blocks of a sum begin from the identity; the last one may be shorter, or the only one.
TEST(GoldenBlocks, SumInBlocks) {
  const std::string term = "symbol N: 1..300\nfn @f(%X: f32[N, 7]) {\n"
                           "  %f = fold [k: N, j: 7] over [k] { sum %X[k, j]; max %X[k, j] }\n"
                           "  %s = get %f, 0\n  %m = get %f, 1\n  return s = %s, m = %m\n}\n";
  for (const int64_t n : {1, 5, 31, 32, 33, 64, 200})
    for (const char* schedule :
         {"order f j k\nblocked_sum f k 32\n", "order f j k\njam f k 4\nblocked_sum f k 32\n",
          "split f k o i 8\norder f j o i\nblocked_sum f o 4\nvector f i\n",
          "split f k o i 4\norder f j o i\nunroll f i\nblocked_sum f o 8\n",
          "order f k j\nvector f j\nblocked_sum f k 8\n",
          "split f k o i 8\norder f j o i\nblocked_sum f i 3\n",
          "split f k o i 8\norder f o i j\nvector f j\nblocked_sum f o 2\njam f i 3\n",
          "split f k o i 8\norder f o j i\nblocked_sum f o 1\n",
          "split f k o i 16\nsplit f j p q 4\norder f o p i q\nvector f q\nblocked_sum f o 1\nblocked_sum f "
          "i 4\n"})
      EXPECT_THAT(loops_of(term, schedule, {{"N", n}}), is_right) << n << "\n" << schedule;
  const std::string text = loops_of(term, "order f k j\nvector f j\nblocked_sum f k 8\n", {{"N", 40}});
  EXPECT_THAT(text, testing::HasSubstr("registers f.block0: f32[8]"));
  EXPECT_THAT(text, testing::HasSubstr("for k.block in 0..N // 8\n"));
}

/// Parts beside each other make one row with the columns, which ends where the last of them does.
TEST(GoldenSplits, MergedPartsEndInARow) {
  for (const int64_t n : {3, 15, 16, 17, 40, 100})
    EXPECT_THAT(loops_of(fmt::format("fn @f(%X: f32[{0}, 3]) {{\n"
                                     "  %f = fold [k: {0}, j: 3] over [k] {{ sum %X[k, j] }}\n"
                                     "  %s = get %f, 0\n  return s = %s\n}}\n",
                                     n),
                         "split_reduction f k 16 1\norder f k.in k.round k.part j\nmerge f k.part j w\n"
                         "split f w o i 16\nunroll f o\nvector f i\n"),
                is_right)
        << n;
}

/// What all rows of a tile read is loaded once before them, but not where its part of the sum has ended.
TEST(GoldenSplits, NothingIsReadBehindTheEndOfAPart) {
  for (const int64_t n : {15, 16, 17, 31, 33})
    EXPECT_THAT(loops_of(fmt::format("fn @f(%X: f32[3, {0}], %W: f32[9, {0}]) {{\n"
                                     "  %x = view %X [m: 3, n: 9, k: {0}] -> [m, k]\n"
                                     "  %w = view %W [m: 3, n: 9, k: {0}] -> [n, k]\n"
                                     "  %p = mul %x, %w\n"
                                     "  %f = fold [m: 3, n: 9, k: {0}] over [k] {{ sum %p[m, n, k] }}\n"
                                     "  %s = get %f, 0\n  return s = %s\n}}\n",
                                     n),
                         "unroll f m\nsplit_reduction f k serial 2 8\norder f k.in k.round n k.part m\n"),
                is_right)
        << n;
}

} // namespace
} // namespace luminal::kernel
