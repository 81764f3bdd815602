// tests/ir/algebra_test.cpp -- programs that are written in two ways: equal formulas in the exact
// mode, and against plain references.
#include "interp_util.h"
#include "luminal/error.h"
#include <gmock/gmock.h>

namespace luminal {
namespace {

using namespace testing_ir;
using Numbers = std::vector<double>;

/// Row x -> naive softmax over k, in two passes, and the same from one pass with state.
constexpr std::string_view attention = R"(
symbol T: 1..8
fn @main(%s: f32[3, T], %v: f32[T, 2]) {
  %mf = fold [q: 3, k: T] over [k] { max %s[q, k] }
  %m = get %mf, 0
  %mb = view %m [q: 3, k: T] -> [q]
  %d = sub %s, %mb
  %e = exp2 %d
  %lf = fold [q: 3, k: T] over [k] { sum %e[q, k] }
  %l = get %lf, 0
  %lb = view %l [q: 3, k: T] -> [q]
  %p = div %e, %lb
  %pb = view %p [q: 3, k: T, e: 2] -> [q, k]
  %vb = view %v [q: 3, k: T, e: 2] -> [k, e]
  %pv = mul %pb, %vb
  %of = fold [q: 3, k: T, e: 2] over [k] { sum %pv[q, k, e] }
  %naive = get %of, 0
  %one = const f32 1
  %f = fold [q: 3, k: T, e: 2] over [k] {
    max %s[q, k];
    sum(select(old0 == -inf, 0, self * exp2(old0 - new0))) %one[];
    sum(select(old0 == -inf, 0, self * exp2(old0 - new0))) %v[k, e] }
  %fl = get %f, 1
  %fo = get %f, 2
  %zero = const f32 1
  %flb = view %fl [q: 3, e: 2] -> [q]
  %raw = div %fo, %flb
  return naive = %naive, raw = %raw, l = %l, fl = %fl
})";

TEST(Algebra, OnlineStatistic) {
  Case c(attention);
  c.with("s", random_tensor(DType::f32, {3, 5}, 1, -8, 8))
      .with("v", random_tensor(DType::f32, {5, 2}, 2))
      .at("T", 5);
  expect_equal_formulas(c, "l", "fl");
  // The bodies of the one-pass fold are v at weight 1 in their own frame: o = sum_k 2^(s_k - m)
  // v_k.
  expect_equal_formulas(c, "naive", "raw");
  auto x = c.get("naive"), y = c.get("raw");
  for (size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(x[i], y[i], 1e-5);
}

TEST(Algebra, ExactModeSeesAMissingTerm) {
  std::string wrong(attention);
  size_t at = wrong.rfind("exp2(old0 - new0)");
  wrong.replace(at, 17, "exp2(old0 - new0 * 1.0000001)"); // far below any tolerance of f32
  EXPECT_THROW(parse_module(wrong), Error);               // not even a monoid
  Case c(attention);
  c.with("s", random_tensor(DType::f32, {3, 5}, 1, -8, 8))
      .with("v", random_tensor(DType::f32, {5, 2}, 2))
      .at("T", 5);
  auto a = c.values("naive", InterpMode::exact), b = c.values("l", InterpMode::exact);
  EXPECT_FALSE(exact_equal(a[0].exact, b[0].exact));
}

TEST(Algebra, RowsOfMinusInfinity) {
  Case c(attention);
  HostTensor s = random_tensor(DType::f32, {3, 4}, 3);
  for (int k = 0; k < 4; ++k) store_f64(DType::f32, s.data.data(), 4 + k, -INFINITY);
  c.with("s", s).with("v", random_tensor(DType::f32, {4, 2}, 2)).at("T", 4);
  EXPECT_EQ(0, c.get("fl")[1]);
  EXPECT_TRUE(std::isnan(c.get("l")[1]));
}

TEST(Algebra, WelfordIsTheTwoPassVariance) {
  Case c(R"(fn @main(%x: f32[2, 7]) {
    %sf = fold [i: 2, k: 7] over [k] { sum %x[i, k] }
    %s = get %sf, 0
    %n = const f32 7
    %nb = view %n [i: 2] -> []
    %mean = div %s, %nb
    %mb = view %mean [i: 2, k: 7] -> [i]
    %d = sub %x, %mb
    %dd = mul %d, %d
    %vf = fold [i: 2, k: 7] over [k] { sum %dd[i, k] }
    %naive = get %vf, 0
    %one = const f32 1
    %zero = const f32 0
    %w = fold [i: 2, k: 7] over [k] {
      sum %one[];
      sum(self * old0 / new0) %x[i, k];
      sum(self + (new1 - old1) * (new1 - old1) * old0) %zero[] }
    %welford = get %w, 2
    %running = get %w, 1
    return naive = %naive, welford = %welford, mean = %mean, running = %running
  })");
  c.with("x", random_tensor(DType::f32, {2, 7}, 9, 90, 110));
  expect_equal_formulas(c, "mean", "running");
  expect_equal_formulas(c, "naive", "welford");
  auto x = c.get("naive", InterpMode::f64), y = c.get("welford");
  for (size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(x[i], y[i], 1e-3 * x[i]);
}

TEST(Algebra, ASplitFoldIsTheFold) { // a body is a state, and so is a partial result
  Case c(R"(fn @main(%x: f32[12]) {
    %one = const f32 1
    %f = fold [k: 12] over [k] { max %x[k]; sum(select(old0 == -inf, 0, self * exp2(old0 - new0))) %one[] }
    %whole = get %f, 1
    %t = view %x [o: 3, i: 4] -> [o * 4 + i]
    %g = fold [o: 3, i: 4] over [i] { max %t[o, i]; sum(select(old0 == -inf, 0, self * exp2(old0 - new0))) %one[] }
    %g0 = get %g, 0
    %g1 = get %g, 1
    %h = fold [o: 3] over [o] { max %g0[o]; sum(select(old0 == -inf, 0, self * exp2(old0 - new0))) %g1[o] }
    %split = get %h, 1
    return whole = %whole, split = %split
  })");
  c.with("x", random_tensor(DType::f32, {12}, 4, -20, 20));
  expect_equal_formulas(c, "whole", "split");
}

TEST(Algebra, TwoLargestAndTheirPlace) {
  Case c(R"(fn @main(%x: f32[2, 6]) {
    %low = const f32 -inf
    %i = iota i64 [k: 6] -> k
    %f = fold [r: 2, k: 6] over [k] { max %x[r, k]; max(max(self, select(old0 < new0, old0, -inf))) %low[] }
    %a = get %f, 0
    %b = get %f, 1
    %g = fold [r: 2, k: 6] over [k] { max %x[r, k]; min(select(old0 == new0, self, inf)) %i[k] }
    %at = get %g, 1
    return a = %a, b = %b, at = %at
  })");
  c.with("x", f32({2, 6}, {3, 9, 1, 7, 2, 8, -1, -5, -2, -1, -9, -8}));
  EXPECT_EQ((Numbers{9, -1}), c.get("a"));
  EXPECT_EQ((Numbers{8, -2}), c.get("b"));
  EXPECT_EQ((Numbers{1, 0}), c.get("at")); // the first of equals
  EXPECT_EQ(DType::i64, c.run("at").dtype);
}

TEST(Algebra, Lstm) {
  Case c(R"(
  fn @cell(%t: i64, %h: f32[2], %c: f32[2], %x: f32[3], %wx: f32[8, 3], %wh: f32[8, 2], %bias: f32[8]) {
    %xb = view %x [g: 8, k: 3] -> [k]
    %px = mul %xb, %wx
    %fx = fold [g: 8, k: 3] over [k] { sum %px[g, k] }
    %gx = get %fx, 0
    %hb = view %h [g: 8, k: 2] -> [k]
    %ph = mul %hb, %wh
    %fh = fold [g: 8, k: 2] over [k] { sum %ph[g, k] }
    %gh = get %fh, 0
    %g0 = add %gx, %gh
    %g = add %g0, %bias
    %gi = view %g [j: 2] -> [j]
    %gf = view %g [j: 2] -> [j + 2]
    %gg = view %g [j: 2] -> [j + 4]
    %go = view %g [j: 2] -> [j + 6]
    %i = sigmoid %gi
    %f = sigmoid %gf
    %u = tanh %gg
    %o = sigmoid %go
    %keep = mul %f, %c
    %new = mul %i, %u
    %cn = add %keep, %new
    %tc = tanh %cn
    %hn = mul %o, %tc
    return h = %hn, c = %cn, y = %hn
  }
  symbol T: 1..20
  fn @main(%xs: f32[T, 3], %h: f32[2], %c: f32[2], %wx: f32[8, 3], %wh: f32[8, 2], %bias: f32[8]) {
    %l = loop @cell count T carried (%h, %c) stepped (%xs) given (%wx, %wh, %bias)
    %last = get %l, 0
    %ys = get %l, 2
    return last = %last, ys = %ys
  })");
  const int steps = 6;
  c.at("T", steps);
  auto xs = random_tensor(DType::f32, {steps, 3}, 1), h = random_tensor(DType::f32, {2}, 2),
       k = random_tensor(DType::f32, {2}, 3), wx = random_tensor(DType::f32, {8, 3}, 4),
       wh = random_tensor(DType::f32, {8, 2}, 5), bias = random_tensor(DType::f32, {8}, 6);
  c.with("xs", xs).with("h", h).with("c", k).with("wx", wx).with("wh", wh).with("bias", bias);
  double H[2] = {h.at(0), h.at(1)}, C[2] = {k.at(0), k.at(1)};
  auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  Numbers expected;
  for (int t = 0; t < steps; ++t) {
    double g[8];
    for (int r = 0; r < 8; ++r) {
      g[r] = bias.at(r);
      for (int j = 0; j < 3; ++j) g[r] += wx.at(r * 3 + j) * xs.at(t * 3 + j);
      for (int j = 0; j < 2; ++j) g[r] += wh.at(r * 2 + j) * H[j];
    }
    for (int j = 0; j < 2; ++j) {
      C[j] = sigmoid(g[2 + j]) * C[j] + sigmoid(g[j]) * std::tanh(g[4 + j]);
      H[j] = sigmoid(g[6 + j]) * std::tanh(C[j]);
      expected.push_back(H[j]);
    }
  }
  Numbers ys = c.get("ys");
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(expected[i], ys[i], 1e-5);
  EXPECT_NEAR(H[1], c.get("last")[1], 1e-5);
}

TEST(Algebra,
     // 18 bytes: an f16 scale, then 16 bytes with elements j (low half) and j + 16 (high half),
     // minus 8
     Q4_0FromRawBlocks) {
  Case c(R"(fn @main(%raw: u8[2, 3, 18]) {
    %scale_bytes = view %raw [r: 2, b: 3, i: 2] -> [r, b, i]
    %scale2 = bitcast f16 %scale_bytes
    %scale = view %scale2 [r: 2, b: 3, e: 32] -> [r, b, 0]
    %q = view %raw [r: 2, b: 3, i: 16] -> [r, b, i + 2]
    %nibbles = bitcast u4 %q
    %n = view %nibbles [r: 2, b: 3, e: 32] -> [r, b, e % 16 * 2 + e // 16]
    %i = cast i8 %n
    %eight = const i8 8
    %eights = view %eight [r: 2, b: 3, e: 32] -> []
    %centred = sub %i, %eights
    %f = cast f32 %centred
    %sf = cast f32 %scale
    %w = mul %f, %sf
    %y = view %w [r: 2, k: 96] -> [r, k // 32, k % 32]
    return y = %y
  })");
  EXPECT_TRUE(dynamic_checks(c.module).empty());
  HostTensor raw = random_tensor(DType::u8, {2, 3, 18}, 7, 0, 255.99);
  for (int block = 0; block < 6; ++block)
    store_i64(DType::u8, raw.data.data(), block * 18 + 1, 0x30 + block); // sane scales
  c.with("raw", raw);
  Numbers y = c.get();
  for (int block = 0; block < 6; ++block) {
    const std::byte* p = raw.data.data() + block * 18;
    double d = load_f64(DType::f16, p, 0);
    for (int j = 0; j < 16; ++j) {
      int byte = int(p[2 + j]);
      EXPECT_EQ(((byte & 15) - 8) * d, y[size_t(block * 32 + j)]);
      EXPECT_EQ(((byte >> 4) - 8) * d, y[size_t(block * 32 + j + 16)]);
    }
  }
}

TEST(Algebra, PagedGather) { // page table -> pages of 4 rows
  Case c(R"(symbol T: 1..16
  fn @main(%pages: f32[6, 4, 2], %table: i32[4]) {
    %page = view %table [t: T] -> [t // 4]
    %y = view %pages [t: T, d: 2] with p = %page[t] in 0..5 -> [p, t % 4, d]
    return y = %y
  })");
  auto pages = random_tensor(DType::f32, {6, 4, 2}, 1);
  c.with("pages", pages).with("table", tensor(DType::i32, {4}, {5, 0, 3, 1})).at("T", 10);
  Numbers y = c.get();
  const int order[] = {5, 0, 3};
  for (int t = 0; t < 10; ++t)
    for (int d = 0; d < 2; ++d) EXPECT_EQ(pages.at((order[t / 4] * 4 + t % 4) * 2 + d), y[size_t(t * 2 + d)]);
}

TEST(Algebra,
     RoutingWithABoundedDimension) { // tokens sorted by expert; each expert has a capacity and a count
  Case c(R"(fn @main(%x: f32[5, 2], %expert: i32[5], %w: f32[3, 2]) {
    %e = iota i32 [e: 3, t: 5] -> e
    %eb = view %expert [e: 3, t: 5] -> [t]
    %mine = eq %e, %eb
    %one = cast i64 %mine
    %rank_scan = scan [e: 3, t: 5] along t exclusive { sum %one[e, t] }
    %rank = get %rank_scan, 0
    %cf = fold [e: 3, t: 5] over [t] { sum %one[e, t] }
    %count = get %cf, 0
    %tok = iota i64 [e: 3, t: 5] -> t
    %z = const i64 0
    %empty = view %z [e: 3, s: 4] -> []
    %away = const i64 4
    %aways = view %away [e: 3, t: 5] -> []
    %slot = select %mine, %rank, %aways
    %slots = scatter set %empty, %tok [e: 3, t: 5] with s = %slot[e, t] in 0..3 fill -> [e, s] unique
    %xs = view %x [e: 3, s: 4, d: 2] with t = %slots[e, s] in 0..4, n = %count[e] in 0..5 -> [t, d] where s < n fill 0
    %wb = view %w [e: 3, s: 4, d: 2] -> [e, d]
    %ys = mul %xs, %wb
    %base = const f32 0
    %bases = view %base [t: 5, d: 2] -> []
    %y = scatter sum %bases, %ys [e: 3, s: 4, d: 2] with t = %slots[e, s] in 0..4, n = %count[e] in 0..5 -> [t, d] where s < n
    return y = %y, count = %count, slots = %slots
  })");
  auto x = random_tensor(DType::f32, {5, 2}, 1), w = random_tensor(DType::f32, {3, 2}, 2);
  const int experts[] = {2, 0, 2, 0, 0};
  c.with("x", x).with("w", w).with("expert", tensor(DType::i32, {5}, {2, 0, 2, 0, 0}));
  EXPECT_EQ((Numbers{3, 0, 2}), c.get("count"));
  EXPECT_EQ((Numbers{1, 3, 4, 0, 0, 0, 0, 0, 0, 2, 0, 0}), c.get("slots"));
  Numbers y = c.get();
  for (int t = 0; t < 5; ++t)
    for (int d = 0; d < 2; ++d)
      EXPECT_EQ(double(float(x.at(t * 2 + d)) * float(w.at(experts[t] * 2 + d))), y[size_t(t * 2 + d)]);
}

TEST(Algebra, ConvolutionAndItsInputGradient) { // stride 2, dilation 2, padding 1; the gradient gathers
  Case c(R"(fn @main(%x: f32[9], %w: f32[3], %g: f32[4]) {
    %pad = view %x [i: 11] -> [i - 1] where 1 <= i and i < 10
    %win = view %pad [o: 4, k: 3] -> [o * 2 + k * 2]
    %wb = view %w [o: 4, k: 3] -> [k]
    %p = mul %win, %wb
    %f = fold [o: 4, k: 3] over [k] { sum %p[o, k] }
    %y = get %f, 0
    %gw = view %g [i: 9, k: 3] -> [(i + 1 - k * 2) // 2] where (i + 1 - k * 2) % 2 == 0 and i + 1 - k * 2 >= 0 and i + 1 - k * 2 <= 6
    %wg = view %w [i: 9, k: 3] -> [k]
    %q = mul %gw, %wg
    %h = fold [i: 9, k: 3] over [k] { sum %q[i, k] }
    %dx = get %h, 0
    %gy = mul %y, %g
    %af = fold [o: 4] over [o] { sum %gy[o] }
    %a = get %af, 0
    %xdx = mul %x, %dx
    %bf = fold [i: 9] over [i] { sum %xdx[i] }
    %b = get %bf, 0
    return y = %y, dx = %dx, a = %a, b = %b
  })");
  auto x = random_tensor(DType::f32, {9}, 1), w = random_tensor(DType::f32, {3}, 2);
  c.with("x", x).with("w", w).with("g", random_tensor(DType::f32, {4}, 3));
  Numbers y = c.get("y", InterpMode::f64);
  for (int o = 0; o < 4; ++o) {
    double sum = 0;
    for (int k = 0; k < 3; ++k)
      if (int i = o * 2 + k * 2 - 1; i >= 0 && i < 9) sum += x.at(i) * w.at(k);
    EXPECT_DOUBLE_EQ(sum, y[size_t(o)]);
  }
  expect_equal_formulas(c, "a", "b"); // <conv x, g> = <x, conv^T g>
}

TEST(Algebra, BoundedModeKnowsWhatRoundingMayDo) {
  Case c(R"(fn @main(%x: bf16[64], %a: f32[1], %b: f32[1]) {
    %f = fold [k: 64] over [k] { sum %x[k] }
    %s = get %f, 0
    %d = sub %a, %b
    %r = recip %d
    %lt = lt %a, %b
    %y = select %lt, %a, %b
    return s = %s, d = %d, r = %r, y = %y
  })");
  c.with("x", random_tensor(DType::bf16, {64}, 1)).with("a", f32({1}, {1.0000001})).with("b", f32({1}, {1}));
  auto s = c.values("s", InterpMode::bounded)[0];
  double rounded = c.get("s")[0];
  EXPECT_GT(s.error, 0.01);
  EXPECT_LE(std::fabs(rounded - s.value), s.error);
  EXPECT_EQ(0, c.values("d", InterpMode::bounded)[0].error); // exact (Sterbenz)
  EXPECT_LT(c.values("r", InterpMode::bounded)[0].error, 1);
  EXPECT_EQ(0, c.values("y", InterpMode::bounded)[0].error);
}

TEST(Algebra, RoundingPerNode) {
  Case c(R"(fn @main(%a: bf16[1], %b: bf16[1]) {
    %s = add %a, %b
    %y = sub %s, %a
    return y = %y
  })");
  c.with("a", tensor(DType::bf16, {1}, {256})).with("b", tensor(DType::bf16, {1}, {1}));
  EXPECT_EQ(0, c.get()[0]); // 257 is not bf16: a tie, to even
  EXPECT_EQ(1, c.get("y", InterpMode::f64)[0]);
  EXPECT_EQ(1, c.values("y", InterpMode::exact)[0].value);
}

} // namespace
} // namespace luminal
