// choose/panels_test.cpp -- when the default schedule of a product copies an operand into panels, and when it
// asks for one ahead.
#include "choose/default_schedule.h"
#include "cone/cone.h"
#include "luminal/pass.h"
#include <fmt/format.h>
#include <gmock/gmock.h>

namespace luminal::kernel {
namespace {

using testing::HasSubstr;

std::string schedule_of(int64_t m, int64_t n, int64_t k, bool full_rate) {
  const Module module = parse_module(fmt::format(R"(fn @product(%a: f32[{0}, {2}], %b: f32[{2}, {1}]) {{
  %x = view %a [m: {0}, n: {1}, k: {2}] -> [m, k]
  %w = view %b [m: {0}, n: {1}, k: {2}] -> [k, n]
  %p = mul %x, %w
  %f = fold [m: {0}, n: {1}, k: {2}] over [k] {{ sum %p[m, n, k] }}
  %y = get %f, 0
  return y = %y
}}
)",
                                                 m, n, k),
                                     "product");
  const Function& f = module.entry();
  const std::vector<NodeId> roots{f.results[0].value};
  const auto cone = build_cone(f, roots, {f.params.begin(), f.params.end()}, {.name = "product"});
  if (!cone) return cone.error();
  return to_string(default_schedule(*cone, {.full_rate = full_rate, .l1 = 48 << 10, .l2 = 2 << 20}));
}

std::string schedule_of_term(const std::string& term,
                             const MachineLimits& limits = {.lanes = 16, .vector_registers = 32}) {
  const Module module = parse_module(term, "term");
  const Function& f = module.entry();
  const std::vector<NodeId> roots{f.results[0].value};
  const auto cone = build_cone(f, roots, {f.params.begin(), f.params.end()}, {.name = "term"});
  if (!cone) return cone.error();
  return to_string(default_schedule(*cone, limits));
}

/// Full multiply-add rates leave no time for operands that come from the second cache in pieces.
TEST(Panels, FullRatesCopySooner) {
  struct {
    int64_t m, n, k;
    bool half, full;
  } const products[] = {
      {64, 1024, 1024, false, true},  // rows of whole pages
      {16, 1024, 1024, false, false}, // too few rows for the copy
      {64, 1024, 64, false, false},   // the first cache holds what a tile reads
      {128, 777, 513, false, true},   // vectors that lie in two lines
      {64, 777, 513, false, false},   //
      {64, 2304, 768, false, true},   // rows longer than a page, from beyond the second cache
      {64, 768, 3072, false, false},  // shorter ones
      {512, 512, 512, false, false},  // from the second cache
      {256, 512, 1024, false, true},  // of which it keeps few rows so far apart
      {64, 512, 1024, false, false},  // that sum is cut into parts
      {1024, 1024, 1024, true, true},
  };
  for (const auto& p : products)
    for (const bool full : {false, true})
      EXPECT_EQ(schedule_of(p.m, p.n, p.k, full).find("stage b") != std::string::npos, full ? p.full : p.half)
          << fmt::format("{} x {} x {}, full rate: {}", p.m, p.n, p.k, full);
}

/// Rows of an image that follow each other are one run of the copy.
TEST(Panels, OfImagesHaveTheirRowsAsOneDimension) {
  const std::string term = R"(fn @term(%x: f32[2, 1024, 14, 15], %w: f32[160, 1024]) {
  %a = view %x [b: 2, o: 160, i: 14, j: 15, c: 1024] -> [b, c, i, j]
  %v = view %w [b: 2, o: 160, i: 14, j: 15, c: 1024] -> [o, c]
  %p = mul %a, %v
  %f = fold [b: 2, o: 160, i: 14, j: 15, c: 1024] over [c] { sum %p[b, o, i, j, c] }
  %y = get %f, 0
  return y = %y
}
)";
  const MachineLimits full{
      .lanes = 16, .vector_registers = 32, .full_rate = true, .l1 = 48 << 10, .l2 = 2 << 20};
  EXPECT_THAT(schedule_of_term(term, full),
              testing::AllOf(HasSubstr("stage x x.panels i j"), HasSubstr("merge x.panels i j j"),
                             HasSubstr("d2/"), HasSubstr("at f c.c")));
  EXPECT_THAT(schedule_of_term(term), testing::Not(HasSubstr("panels")));
}

/// Of rows in steps of 2 KiB the second cache keeps no more than some hundred.
TEST(Panels, SumsInPartsWhereRowsFallIntoFewSets) {
  EXPECT_THAT(schedule_of(64, 512, 1024, true), HasSubstr("split f k k.c k.i 256"));
  EXPECT_THAT(schedule_of(64, 512, 1024, false), testing::Not(HasSubstr("split f k k.c k.i 256")));
  EXPECT_THAT(schedule_of(64, 500, 1024, true), testing::Not(HasSubstr("split f k k.c k.i 256")));
}

/// Each tile of rows would ask again for the next columns: that takes loads where loads are the limit.
TEST(Panels, ColumnsAreAskedForAheadWhereLoadsAreNotTheLimit) {
  const std::string of_b = "prefetch f b ";
  EXPECT_THAT(schedule_of(512, 512, 512, false), HasSubstr(of_b));
  EXPECT_THAT(schedule_of(512, 512, 512, true), testing::Not(HasSubstr(of_b)));
  EXPECT_THAT(schedule_of(48, 768, 3072, true), HasSubstr(of_b)) << "few tiles wait for what no cache holds";
}

/// Panels made before come from memory for the first tile of rows: all tiles ask for the next one together.
TEST(Panels, TheNextOneIsAskedForWhereMultiplyingIsAsFastAsTheSecondCache) {
  const auto product = [](int64_t panels, bool full_rate) {
    return schedule_of_term(
        fmt::format(R"(fn @term(%a: f32[128, 768], %w: f32[{0}, 768, 64]) {{
  %x = view %a [m: 128, n: {1}, k: 768] -> [m, k]
  %v = view %w [m: 128, n: {1}, k: 768] -> [n // 64, k, n % 64]
  %p = mul %x, %v
  %f = fold [m: 128, n: {1}, k: 768] over [k] {{ sum %p[m, n, k] }}
  %y = get %f, 0
  return y = %y
}}
)",
                    panels, panels * 64),
        {.lanes = 16, .vector_registers = 32, .full_rate = full_rate, .l1 = 48 << 10, .l2 = 2 << 20});
  };
  EXPECT_THAT(product(48, true), HasSubstr("prefetch f w n.i.p m.t k.i 1"));
  EXPECT_THAT(product(8, true), testing::Not(HasSubstr("prefetch f w"))) << "in the second cache";
  EXPECT_THAT(product(48, false), testing::Not(HasSubstr("prefetch f w n.i.p m.t")));
}

/// So are pairs of panels of words that tile registers read, for unknown numbers of rows, too.
TEST(Panels, TilesOfRegistersAskForTheNextPair) {
  const auto product = [](int64_t panels, std::string_view rows, bool full_rate) {
    const std::string axes = fmt::format("[m: {}, j: {}, w: 1024, l: 16, p: 2]", rows, panels);
    return schedule_of_term(fmt::format(R"(symbol S: 1..4096
fn @term(%a: bf16[{0}, 2048], %w: bf16[{1}, 1024, 16, 2]) {{
  %x = view %a {2} -> [m, 2*w + p]
  %v = view %w {2} -> [j, w, l, p]
  %c = cast f32 %x
  %d = cast f32 %v
  %p = mul %c, %d
  %f = fold {2} over [w, p] {{ sum %p[m, j, w, l, p] }}
  %y = get %f, 0
  return y = %y
}}
)",
                                        rows, panels, axes),
                            {.lanes = 16,
                             .vector_registers = 32,
                             .full_rate = full_rate,
                             .l1 = 48 << 10,
                             .l2 = 2 << 20,
                             .units = {"amx.dpbf16"}});
  };
  for (const char* rows : {"S", "32", "512"}) {
    EXPECT_THAT(product(128, rows, true), HasSubstr("prefetch f w j.i.o m.i.o w_2.i 1")) << rows;
    EXPECT_THAT(product(16, rows, true), testing::Not(HasSubstr("prefetch f w"))) << "in the second cache";
    EXPECT_THAT(product(128, rows, false), testing::Not(HasSubstr("prefetch f w")));
  }
}

/// What finished sums meet is read at the end of a tile: from beyond the second cache it is asked for before.
TEST(Panels, WhatFinishedSumsMeetIsAskedForAhead) {
  const auto residual = [](int64_t columns, bool full_rate) {
    return schedule_of_term(
        fmt::format(R"(fn @term(%w: f32[256, 64], %x: f32[64, {0}], %r: f32[256, {0}]) {{
  %a = view %w [m: 256, n: {0}, k: 64] -> [m, k]
  %v = view %x [m: 256, n: {0}, k: 64] -> [k, n]
  %p = mul %a, %v
  %f = fold [m: 256, n: {0}, k: 64] over [k] {{ sum %p[m, n, k] }}
  %s = get %f, 0
  %y = add %s, %r
  return y = %y
}}
)",
                    columns),
        {.lanes = 16, .vector_registers = 32, .full_rate = full_rate, .l1 = 48 << 10, .l2 = 2 << 20});
  };
  EXPECT_THAT(residual(3136, true), HasSubstr("prefetch f r m.t k 1"));
  EXPECT_THAT(residual(784, true), testing::Not(HasSubstr("prefetch f r")));
  EXPECT_THAT(residual(3136, false), testing::Not(HasSubstr("prefetch f r")));
}

/// Two large products that one map adds have blocks of their own, small ones one nest.
TEST(Sums, OfLargeProductsStayApartWhereOperandsComeSlowly) {
  const auto sum_of_two = [](int64_t columns, bool full_rate) {
    return schedule_of_term(
        fmt::format(R"(fn @term(%w: f32[256, 64], %x: f32[64, {0}], %u: f32[256, 64], %z: f32[64, {0}]) {{
  %a = view %w [m: 256, n: {0}, k: 64] -> [m, k]
  %b = view %x [m: 256, n: {0}, k: 64] -> [k, n]
  %p = mul %a, %b
  %f = fold [m: 256, n: {0}, k: 64] over [k] {{ sum %p[m, n, k] }}
  %s = get %f, 0
  %c = view %u [m: 256, n: {0}, k: 64] -> [m, k]
  %d = view %z [m: 256, n: {0}, k: 64] -> [k, n]
  %q = mul %c, %d
  %g = fold [m: 256, n: {0}, k: 64] over [k] {{ sum %q[m, n, k] }}
  %t = get %g, 0
  %y = add %s, %t
  return y = %y
}}
)",
                    columns),
        {.lanes = 16, .vector_registers = 32, .full_rate = full_rate, .l1 = 48 << 10, .l2 = 2 << 20});
  };
  EXPECT_THAT(sum_of_two(3136, true), testing::Not(HasSubstr("fuse f g")));
  EXPECT_THAT(sum_of_two(128, true), HasSubstr("fuse f g"));
  EXPECT_THAT(sum_of_two(3136, false), HasSubstr("fuse f g"));
}

/// Results whose rows are shorter than a vector (an image of 3 x 1) leave lanes empty along them: the
/// weights, in one panel, fill them.
TEST(Panels, FillLanesWhereResultsLieInShortRuns) {
  const auto pointwise = [](int64_t pixels) {
    return schedule_of_term(fmt::format(R"(fn @term(%x: f32[64, 512, {0}], %w: f32[512, 62]) {{
  %a = view %x [b: 64, o: 62, i: {0}, c: 512] -> [b, c, i]
  %v = view %w [b: 64, o: 62, i: {0}, c: 512] -> [c, o]
  %p = mul %a, %v
  %f = fold [b: 64, o: 62, i: {0}, c: 512] over [c] {{ sum %p[b, o, i, c] }}
  %y = get %f, 0
  return y = %y
}}
)",
                                        pixels));
  };
  EXPECT_THAT(pointwise(3), HasSubstr("vector f o"));
  EXPECT_THAT(pointwise(1), HasSubstr("vector f o")) << "a matrix product";
  EXPECT_THAT(pointwise(64), testing::Not(HasSubstr("vector f o"))) << "the pixels fill them";
}

/// A copy that transposes goes in square tiles, also where its rows are the product of three short axes.
TEST(Panels, AreCopiedInSquaresWhereShortAxesMakeARow) {
  EXPECT_THAT(schedule_of_term(R"(fn @term(%w: f32[192, 64, 3, 3]) {
  %y = view %w [p: 3, c: 64, r: 3, s: 3, o: 64] -> [p * 64 + o, c, r, s]
  return y = %y
}
)"),
              testing::AllOf(HasSubstr("merge y r s s"), HasSubstr("merge y c s s"),
                             HasSubstr("unroll y s.i"), HasSubstr("vector y o.i")));
  // Where they are few together each stays a loop.
  EXPECT_THAT(schedule_of_term(R"(fn @term(%w: f32[192, 2, 3, 3]) {
  %y = view %w [p: 3, c: 2, r: 3, s: 3, o: 64] -> [p * 64 + o, c, r, s]
  return y = %y
}
)"),
              testing::Not(HasSubstr("merge")));
}

/// Two sums over the rows of one input that a third sum reads: a row is read once for both.
TEST(Sums, OfOneInputShareLoops) {
  const auto distances = [](std::string_view second) {
    return schedule_of_term(
        fmt::format(R"(fn @term(%a: f32[2048, 512], %b: f32[2048, 512], %c: f32[2048, 512]) {{
  %d = sub %a, %b
  %f = fold [i: 2048, j: 512] over [j] {{ sum %d[i, j] }}
  %u = get %f, 0
  %e = mul %{0}, %c
  %g = fold [i: 2048, j: 512] over [j] {{ sum %e[i, j] }}
  %v = get %g, 0
  %s = sub %u, %v
  %h = fold [i: 2048] over [i] {{ sum %s[i] }}
  %y = get %h, 0
  return y = %y
}}
)",
                    second));
  };
  EXPECT_THAT(distances("a"), HasSubstr("fuse f g"));
  EXPECT_THAT(distances("c"), testing::Not(HasSubstr("fuse f g"))) << "nothing is read twice";
}

/// Rows of both operands are contiguous along a short sum: as many rows as lanes pay for the copy.
TEST(Panels, TransposeRowsOfShortSums) {
  const auto product = [](int64_t batch, int64_t m, int64_t n, int64_t k) {
    return schedule_of_term(fmt::format(R"(fn @term(%a: f32[{0}, {1}, {3}], %b: f32[{0}, {2}, {3}]) {{
  %x = view %a [h: {0}, m: {1}, n: {2}, k: {3}] -> [h, m, k]
  %w = view %b [h: {0}, m: {1}, n: {2}, k: {3}] -> [h, n, k]
  %p = mul %x, %w
  %f = fold [h: {0}, m: {1}, n: {2}, k: {3}] over [k] {{ sum %p[h, m, n, k] }}
  %y = get %f, 0
  return y = %y
}}
)",
                                        batch, m, n, k));
  };
  EXPECT_THAT(product(32, 40, 40, 40), HasSubstr("stage b b.panels"));
  EXPECT_THAT(product(128, 17, 33, 20), HasSubstr("stage b b.panels"));
  EXPECT_THAT(product(32, 8, 40, 40), testing::Not(HasSubstr("panels"))) << "too few rows";
  EXPECT_THAT(product(8, 24, 64, 512), testing::Not(HasSubstr("panels"))) << "lanes along the sum pay";
}

/// Rows of both operands are contiguous along the sum, and nobody knows how many there are: lanes would be
/// added to each other for every result. Heads beside each other in a row are an axis of the copy.
TEST(Panels, TransposeRowsOfUnknownNumbers) {
  const auto scores = [](const char* a, const char* b, const char* of_a, const char* of_b) {
    return schedule_of_term(fmt::format(R"(symbol q: 2..4096
symbol s: 2..4096
fn @term(%a: f32[{0}], %b: f32[{1}]) {{
  %x = view %a [h: 32, m: q, n: s, k: 32] -> [{2}]
  %w = view %b [h: 32, m: q, n: s, k: 32] -> [{3}]
  %p = mul %x, %w
  %f = fold [h: 32, m: q, n: s, k: 32] over [k] {{ sum %p[h, m, n, k] }}
  %y = get %f, 0
  return y = %y
}}
)",
                                        a, b, of_a, of_b));
  };
  EXPECT_THAT(scores("32, q, 32", "32, s, 32", "h, m, k", "h, n, k"),
              testing::AllOf(HasSubstr("operand f m b.panels"), HasSubstr("vector f n.l")));
  EXPECT_THAT(scores("4, q, 8, 32", "4, s, 8, 32", "h // 8, m, h % 8, k", "h // 8, n, h % 8, k"),
              testing::AllOf(HasSubstr("operand f m b.panels"), HasSubstr("vector f n.l")));
  EXPECT_THAT(scores("32, q, 32", "32, 32, s", "h, m, k", "h, k, n"), testing::Not(HasSubstr("panels")))
      << "columns are contiguous already";
}

} // namespace
} // namespace luminal::kernel
