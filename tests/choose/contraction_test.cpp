// choose/contraction_test.cpp -- roles of axes and uses of operands, from index maps alone.
#include "choose/contraction.h"
#include "luminal/error.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace luminal::kernel {
namespace {

/// One line for each stage of the kernel that computes all results of the term.
std::vector<std::string> lines(const std::string& text) {
  const Module module = parse_module(text, "term");
  EXPECT_THAT(verify(module), testing::IsEmpty());
  std::vector<NodeId> roots;
  for (const auto& result : module.entry().results) roots.push_back(result.value);
  const auto cone = build_cone(module.entry(), roots, {});
  if (!cone) return {cone.error()};
  std::vector<std::string> out;
  for (const Stage& stage : cone->stages) out.push_back(to_string(*cone, contraction_of(*cone, stage)));
  return out;
}
/// The axes alone.
std::string axes(const std::string& line) { return line.substr(0, line.find(';')); }

TEST(Contraction, ProductOfMatrices) {
  const auto got = lines(R"(fn @main(%x: f32[8, 24], %w: bf16[24, 16]) {
  %f = cast f32 %w
  %a = view %x [m: 8, n: 16, k: 24] -> [m, k]
  %b = view %f [m: 8, n: 16, k: 24] -> [k, n]
  %p = mul %a, %b
  %s = fold [m: 8, n: 16, k: 24] over [k] { sum %p[m, n, k] }
  %y = get %s, 0
  return y = %y
})");
  ASSERT_EQ(got.size(), 1);
  EXPECT_EQ(got[0], "m row, n column, k reduction; x 32 bits [m strided, n invariant, k contiguous]; "
                    "w 16 bits [m invariant, n contiguous, k strided]; "
                    "-> y 32 bits [m strided, n contiguous, k invariant]");
}

TEST(Contraction, ProductWithAnOperandAlongTheSum) {
  const auto got = lines(R"(fn @main(%x: f32[8, 24], %w: f32[16, 24]) {
  %a = view %x [m: 8, n: 16, k: 24] -> [m, k]
  %b = view %w [m: 8, n: 16, k: 24] -> [n, k]
  %p = mul %a, %b
  %s = fold [m: 8, n: 16, k: 24] over [k] { sum %p[m, n, k] }
  %y = get %s, 0
  return y = %y
})");
  ASSERT_EQ(got.size(), 1);
  EXPECT_THAT(got[0], testing::HasSubstr("w 32 bits [m invariant, n strided, k contiguous]"));
}

TEST(Contraction, BatchesAreAxesOfAllOperands) {
  const auto got = lines(R"(fn @main(%x: f32[3, 8, 24], %w: f32[3, 24, 16]) {
  %a = view %x [b: 3, m: 8, n: 16, k: 24] -> [b, m, k]
  %c = view %w [b: 3, m: 8, n: 16, k: 24] -> [b, k, n]
  %p = mul %a, %c
  %s = fold [b: 3, m: 8, n: 16, k: 24] over [k] { sum %p[b, m, n, k] }
  %y = get %s, 0
  return y = %y
})");
  ASSERT_EQ(got.size(), 1);
  EXPECT_EQ(axes(got[0]), "b batch, m row, n column, k reduction");
}

TEST(Contraction, WindowsOfAConvolution) {
  const auto got = lines(R"(fn @main(%x: f32[4, 34, 34], %w: f32[8, 4, 3, 3]) {
  %a = view %x [o: 8, i: 32, j: 32, c: 4, u: 3, v: 3] -> [c, i + u, j + v]
  %b = view %w [o: 8, i: 32, j: 32, c: 4, u: 3, v: 3] -> [o, c, u, v]
  %p = mul %a, %b
  %s = fold [o: 8, i: 32, j: 32, c: 4, u: 3, v: 3] over [c, u, v] { sum %p[o, i, j, c, u, v] }
  %y = get %s, 0
  return y = %y
})");
  ASSERT_EQ(got.size(), 1);
  EXPECT_EQ(axes(got[0]), "o row, i column, j column, c reduction, u window, v window");
}

TEST(Contraction, MapsAndStatisticsOfRows) {
  const auto got = lines(R"(fn @main(%x: f32[8, 64], %g: f32[64]) {
  %f = fold [m: 8, k: 64] over [k] { max %x[m, k] }
  %t = get %f, 0
  %b = view %t [m: 8, k: 64] -> [m]
  %c = view %g [m: 8, k: 64] -> [k]
  %d = sub %x, %b
  %y = mul %d, %c
  return y = %y
})");
  ASSERT_EQ(got.size(), 2);
  EXPECT_EQ(axes(got[0]), "m batch, k reduction");
  EXPECT_EQ(axes(got[1]), "m row, k_2 column");
  EXPECT_THAT(got[1], testing::HasSubstr("g 32 bits [m invariant, k_2 contiguous]"));
}

TEST(Contraction, CountsOfATupleKeepNoAxisAndRowsAreKeptAllTheSame) {
  const auto got = lines(R"(fn @main(%x: f32[4, 4096]) {
  %one = const f32 1
  %zero = const f32 0
  %f = fold [m: 4, k: 4096] over [k] { sum %one[]; sum(self * old0 / new0) %x[m, k]; sum(self + (new1 - old1) * (new1 - old1) * old0) %zero[] }
  %y = get %f, 2
  return y = %y
})");
  ASSERT_FALSE(got.empty());
  EXPECT_EQ(axes(got[0]), "m batch, k reduction");
}

TEST(Contraction, StagesOfAttention) {
  const auto got = lines(R"(fn @main(%Q: f32[2, 64, 16], %K: f32[2, 64, 16], %V: f32[2, 64, 16]) {
  %q = view %Q [h: 2, q: 64, k: 64, d: 16] -> [h, q, d]
  %kk = view %K [h: 2, q: 64, k: 64, d: 16] -> [h, k, d]
  %qk = mul %q, %kk
  %sf = fold [h: 2, q: 64, k: 64, d: 16] over [d] { sum %qk[h, q, k, d] }
  %S = get %sf, 0
  %one = const f32 1
  %F = fold [h: 2, q: 64, k: 64, e: 16] over [k] {
    max %S[h, q, k];
    sum(select(old0 == -inf, 0, self * exp2(old0 - new0))) %one[];
    sum(select(old0 == -inf, 0, self * exp2(old0 - new0))) %V[h, k, e]
  }
  %O = get %F, 2
  return O = %O
})");
  ASSERT_EQ(got.size(), 2);
  EXPECT_EQ(axes(got[0]), "h batch, q row, k column, d reduction");
  EXPECT_EQ(axes(got[1]), "h batch, q row, k reduction, e column");
  EXPECT_THAT(got[1], testing::HasSubstr("V 32 bits [h strided, q invariant, k strided, e contiguous]"));
}

TEST(Contraction, WhatIsReadThroughIndicesIsIrregular) {
  const auto got = lines(R"(fn @main(%w: f32[100, 16], %i: i32[8]) {
  %y = view %w [m: 8, d: 16] with r = %i[m] in 0..99 -> [r, d]
  return y = %y
})");
  ASSERT_EQ(got.size(), 1);
  EXPECT_THAT(got[0], testing::HasSubstr("w 32 bits [m irregular, d contiguous]"));
}

TEST(Contraction, GuardsStayWithTheirOperand) {
  const auto got = lines(R"(fn @main(%x: f32[30]) {
  %y = view %x [i: 32] -> [i - 1] where 1 <= i and i < 31
  return y = %y
})");
  ASSERT_EQ(got.size(), 1);
  EXPECT_THAT(got[0], testing::HasSubstr("[i contiguous] where "));
}

TEST(Contraction, RowsOfDecodingAreReadAgainByTheQueriesOfAGroup) {
  const auto got = lines(R"(fn @main(%Q: f32[8, 4, 16], %K: f32[8, 256, 16]) {
  %q = view %Q [g: 8, r: 4, k: 256, d: 16] -> [g, r, d]
  %kk = view %K [g: 8, r: 4, k: 256, d: 16] -> [g, k, d]
  %qk = mul %kk, %q
  %sf = fold [g: 8, r: 4, k: 256, d: 16] over [d] { sum %qk[g, r, k, d] }
  %S = get %sf, 0
  return S = %S
})");
  ASSERT_EQ(got.size(), 1);
  EXPECT_EQ(axes(got[0]), "g batch, r row, k column, d reduction");
}

} // namespace
} // namespace luminal::kernel
