// golden/sums_test.cpp -- sums in blocks, in words and in parts beside each other.
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

/// The end of an axis of known size leaves fewer trips of a loop that is written out; sums that begin
/// inside of these trips begin for the open one alone.
TEST(GoldenBlocks, SumsBeginInsideOfFewerTrips) {
  const std::string columns = "fn @f(%X: f32[20, 7]) {\n"
                              "  %f = fold [k: 20, j: 7] over [k] { sum %X[k, j] }\n"
                              "  %s = get %f, 0\n  return s = %s\n}\n";
  for (const char* schedule :
       {"split f j o i 4\norder f o i k\nunroll f i\nblocked_sum f k 8\n",
        "split f j o i 3\norder f o i k\nunroll f i\nblocked_sum f k 8\n",
        "split f j o i 4\nsplit f k p q 8\norder f o i p q\nunroll f i\nvector f q\nblocked_sum f p 2\n"})
    EXPECT_THAT(loops_of(columns, schedule), is_right) << schedule;
}

/// Two axes in one loop: the end of the one leaves a known number of trips, the end of the other an
/// unknown number of these, which run one by one.
TEST(GoldenBlocks, SumsBeginInTripsThatRunOneByOne) {
  const std::string term = "symbol M: 1..9\nfn @f(%x: f32[M, 11], %w: f32[5, 11]) {\n"
                           "  %a = view %x [m: M, n: 5, k: 11] -> [m, k]\n"
                           "  %b = view %w [m: M, n: 5, k: 11] -> [n, k]\n"
                           "  %p = mul %a, %b\n"
                           "  %f = fold [m: M, n: 5, k: 11] over [k] { sum %p[m, n, k] }\n"
                           "  %s = get %f, 0\n  return s = %s\n}\n";
  for (const int64_t m : {1, 2, 3, 4, 5, 8, 9})
    for (const char* sums : {"split f k k.o k.i 4\norder f m.o n.o k.o k.i n.i m.i\nvector f k.i\n",
                             "order f m.o n.o k n.i m.i\nblocked_sum f k 3\n",
                             "split f k k.o k.i 4\norder f m.o n.o k.o k.i n.i m.i\nunroll f k.i\n"}) {
      const std::string schedule = fmt::format(
          "split f n n.o n.i 2\nsplit f m m.o m.i 2\n{}unroll f n.i m.i\nmerge f n.i m.i nm\n", sums);
      EXPECT_THAT(loops_of(term, schedule, {{"M", m}}), is_right) << m << "\n" << schedule;
    }
}

/// An axis that fills one word of a dot instruction has no loop left; the sum over the others is carried on.
TEST(GoldenBlocks, OneWordInTilesOfASum) {
  const std::string term = "fn @f(%X: bf16[3, 20, 2], %W: bf16[20, 2]) {\n"
                           "  %x = cast f32 %X\n  %w = cast f32 %W\n"
                           "  %a = view %x [m: 3, c: 20, t: 2] -> [m, c, t]\n"
                           "  %b = view %w [m: 3, c: 20, t: 2] -> [c, t]\n"
                           "  %p = mul %a, %b\n"
                           "  %f = fold [m: 3, c: 20, t: 2] over [c, t] { sum %p[m, c, t] }\n"
                           "  %s = get %f, 0\n  return s = %s\n}\n";
  const std::string text =
      loops_of(term, "unit f avx512.dpbf16\nsplit f c c.o c.i 8\ncascade f c.o\n", {}, 1e-5);
  EXPECT_THAT(text, is_right);
  EXPECT_THAT(text, testing::HasSubstr("avx512.dpbf16("));
  EXPECT_THAT(loops_of(term, "unit f avx512.dpbf16\nsplit_reduction f t.words 2\n"),
              testing::HasSubstr("axis t.words is one word"));
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

/// Results of a butterfly share what they are computed from: one body makes all of them, behind the sums that
/// they read as well as alone.
TEST(GoldenSegments, ElementsBehindSumsAreMadeTogether) {
  std::string term = "fn @f(%X: f32[6, 4, 5], %W: f32[5, 16]) {\n"
                     "  %x = view %X [i: 6, r: 4, j: 16, k: 5] -> [i, r, k]\n"
                     "  %w = view %W [i: 6, r: 4, j: 16, k: 5] -> [k, j]\n"
                     "  %p = mul %x, %w\n"
                     "  %f = fold [i: 6, r: 4, j: 16, k: 5] over [k] { sum %p[i, r, j, k] }\n"
                     "  %g = get %f, 0\n";
  for (int r = 0; r < 4; r++) term += fmt::format("  %g{0} = view %g [i: 6, j: 16] -> [i, {0}, j]\n", r);
  term += "  %a = add %g0, %g2\n  %b = sub %g0, %g2\n  %c = add %g1, %g3\n  %d = sub %g1, %g3\n"
          "  %y0 = add %a, %c\n  %y1 = add %b, %d\n  %y2 = sub %a, %c\n  %y3 = sub %b, %d\n";
  for (int q = 0; q < 4; q++)
    term += fmt::format("  %v{0} = view %y{0} [i: 6, q: 4, j: 16] -> [i, j]\n"
                        "  %is{0} = iota bool [i: 6, q: 4, j: 16] -> q == {0}\n",
                        q);
  term += "  %z2 = select %is2, %v2, %v3\n  %z1 = select %is1, %v1, %z2\n  %z = select %is0, %v0, %z1\n"
          "  return z = %z\n}\n";
  const Module module = parse_module(term, "term");
  const auto cone = cone_of(module.entry(), false);
  ASSERT_TRUE(cone.ok()) << cone.error();
  const std::string schedule = to_string(default_schedule(*cone, {}));
  EXPECT_THAT(schedule, testing::HasSubstr("segments z q 2\n"));
  EXPECT_THAT(loops_of(term, schedule), is_right) << schedule;
}

/// The words of an operand that is the same along the sum: the last one ends with zeros, too.
TEST(GoldenUnits, WordsOfWhatDoesNotVaryAlongTheSumEndWithIt) {
  for (const int64_t k : {3, 5, 8}) {
    const std::string text = fmt::format(R"(fn @f(%A: bf16[7, 3], %B: bf16[3, {0}, 6]) {{
  %s = mul %A, %A
  %a = view %s [i: 7, n: 6, m: 3, k: {0}] -> [i, m]
  %x = cast f32 %a
  %b = view %B [i: 7, n: 6, m: 3, k: {0}] -> [m, k, n]
  %y = cast f32 %b
  %p = mul %x, %y
  %f = fold [i: 7, n: 6, m: 3, k: {0}] over [m, k] where n + k >= 1 {{ sum %p[i, n, m, k] }}
  %C = get %f, 0
  return C = %C
}}
)",
                                         k);
    const std::string loops = loops_of(text, "unit f avx512.dpbf16 V W\n", {}, 1e-5);
    EXPECT_THAT(loops, is_right) << text;
    EXPECT_THAT(loops, testing::HasSubstr("avx512.dpbf16("));
  }
}

} // namespace
} // namespace luminal::kernel
