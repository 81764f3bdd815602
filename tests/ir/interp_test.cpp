// tests/ir/interp_test.cpp -- the interpreter against closed forms: every kind of node.
#include "interp_util.h"
#include "ir/philox.h"
#include "luminal/error.h"
#include <gmock/gmock.h>
#include <numeric>

namespace luminal {
namespace {

using namespace testing_ir;
using testing::DoubleNear;
using testing::ElementsAre;
using testing::HasSubstr;
using Numbers = std::vector<double>;

TEST(Interp, MapsAndCasts) {
  Case c(R"(fn @main(%a: f32[3], %b: f32[3], %i: i32[3]) {
    %s = add %a, %b
    %lt = lt %a, %b
    %y = select %lt, %s, %a
    %j = cast i8 %i
    %f = cast f16 %b
    %n = is_nan %b
    return y = %y, j = %j, f = %f, n = %n
  })");
  c.with("a", f32({3}, {1, 2, 3}))
      .with("b", f32({3}, {2, 0.1, NAN}))
      .with("i", tensor(DType::i32, {3}, {1, 200, -129}));
  EXPECT_EQ((Numbers{3, 2, 3}), c.get());
  EXPECT_EQ((Numbers{1, -56, 127}), c.get("j"));
  EXPECT_EQ(DType::f16, c.run("f").dtype);
  EXPECT_EQ(round_to(DType::f16, double(0.1f)), c.get("f")[1]);
  EXPECT_EQ((Numbers{0, 0, 1}), c.get("n"));
}

TEST(Interp, Iota) {
  Case c(R"(symbol S: 1..8
  fn @main() {
    %y = iota i64 [i: S, j: 3] -> i * 10 + j
    %m = iota bool [q: S, k: S] -> k <= q
    %f = iota f16 [i: 2] -> i * 4097
    %n = iota u8 [i: 3] -> i - 1
    return y = %y, m = %m, f = %f, n = %n
  })");
  c.at("S", 2);
  EXPECT_EQ((Numbers{0, 1, 2, 10, 11, 12}), c.get());
  EXPECT_EQ((Numbers{1, 0, 1, 1}), c.get("m"));
  EXPECT_EQ((Numbers{0, 4096}), c.get("f"));   // rounded
  EXPECT_EQ((Numbers{255, 0, 1}), c.get("n")); // wrapped
}

TEST(Interp, Views) {
  Case c(R"(fn @main(%x: f32[2, 3]) {
    %transposed = view %x [i: 3, j: 2] -> [j, i]
    %padded = view %x [i: 4, j: 3] -> [i - 1, j] where 1 <= i and i < 3 fill -1
    %flipped = view %x [i: 2, j: 3] -> [i, 2 - j]
    %strided = view %x [i: 2, j: 2] -> [i, j * 2]
    %flat = view %x [i: 6] -> [i // 3, i % 3]
    %broad = view %x [i: 2, n: 2, j: 3] -> [i, j]
    %lower = view %x [i: 2, j: 3] -> [i, j] where j <= i fill 9
    %window = view %flat [i: 4, k: 3] -> [i + k]
    return transposed = %transposed, padded = %padded, flipped = %flipped, strided = %strided, broad = %broad, lower = %lower, window = %window
  })");
  c.with("x", f32({2, 3}, {0, 1, 2, 10, 11, 12}));
  EXPECT_EQ((Numbers{0, 10, 1, 11, 2, 12}), c.get("transposed"));
  EXPECT_EQ((Numbers{-1, -1, -1, 0, 1, 2, 10, 11, 12, -1, -1, -1}), c.get("padded"));
  EXPECT_EQ((Numbers{2, 1, 0, 12, 11, 10}), c.get("flipped"));
  EXPECT_EQ((Numbers{0, 2, 10, 12}), c.get("strided"));
  EXPECT_EQ((Numbers{0, 1, 2, 0, 1, 2, 10, 11, 12, 10, 11, 12}), c.get("broad"));
  EXPECT_EQ((Numbers{0, 9, 9, 10, 11, 9}), c.get("lower"));
  EXPECT_EQ((Numbers{0, 1, 2, 1, 2, 10, 2, 10, 11, 10, 11, 12}), c.get("window"));
}

TEST(Interp, HolesGather) {
  const std::string text = R"(fn @main(%table: f32[4, 2], %ids: i32[3]) {
    %y = view %table [t: 3, d: 2] with h = %ids[t] in 0..3POLICY -> [h, d] fill 7
    return y = %y
  })";
  auto run = [&](std::string policy, Numbers ids) {
    std::string changed = text;
    changed.replace(changed.find("POLICY"), 6, policy);
    Case c(changed);
    c.with("table", f32({4, 2}, {0, 1, 10, 11, 20, 21, 30, 31})).with("ids", tensor(DType::i32, {3}, ids));
    return c.get();
  };
  EXPECT_EQ((Numbers{20, 21, 0, 1, 30, 31}), run("", {2, 0, 3}));
  EXPECT_EQ((Numbers{30, 31, 0, 1, 20, 21}), run(" clamp", {9, -5, 2}));
  EXPECT_EQ((Numbers{7, 7, 7, 7, 20, 21}), run(" fill", {9, -5, 2}));
  EXPECT_THROW(run("", {4, 0, 0}), Error);
  EXPECT_THROW(run("", {0, -1, 0}), Error);
}

TEST(Interp, DynamicBoundsAreChecked) {
  Case c(R"(symbol start: 0..10
  fn @main(%x: f32[4]) {
    %y = view %x [i: 2] -> [start + i]
    return y = %y
  })");
  EXPECT_EQ(1u, dynamic_checks(c.module).size());
  EXPECT_THAT(dynamic_checks(c.module)[0], HasSubstr("@main %y: axis 0 of %x: 0 <= i + start < 4"));
  c.with("x", f32({4}, {0, 1, 2, 3})).at("start", 2);
  EXPECT_EQ((Numbers{2, 3}), c.get());
  c.at("start", 3);
  try {
    c.get();
    ADD_FAILURE() << "not noticed";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("[view] @main %y: reads index 4 of axis 0, whose extent is 4"));
  }
}

TEST(Interp, AViewOfAViewKeepsItsOwnBounds) {
  Case c(R"(symbol start: 0..10
  fn @main(%x: f32[20]) {
    %a = view %x [i: 4] -> [i + 2]
    %y = view %a [i: 2] -> [start + i]
    return y = %y
  })");
  c.with("x", random_tensor(DType::f32, {20}, 1)).at("start", 5); // inside x, outside a
  EXPECT_THROW(c.get(), Error);
}

TEST(Interp, Folds) {
  Case c(R"(fn @main(%x: f32[2, 3], %b: bool[2, 3], %i: i32[2, 3]) {
    %sum = fold [i: 2, j: 3] over [j] { sum %x[i, j] }
    %max = fold [i: 2, j: 3] over [i] { max %x[i, j] }
    %prod = fold [i: 2, j: 3] over [i, j] { prod %x[i, j] }
    %any = fold [i: 2, j: 3] over [j] { any %b[i, j] }
    %all = fold [i: 2, j: 3] over [j] { all %b[i, j] }
    %min = fold [i: 2, j: 3] over [j] { min %i[i, j] }
    %lower = fold [i: 2, j: 3] over [j] where j <= i { sum %x[i, j] }
    %none = fold [i: 2, j: 3] over [j] where j < i { max %x[i, j] }
    %0s = get %sum, 0
    %1s = get %max, 0
    %2s = get %prod, 0
    %3s = get %any, 0
    %4s = get %all, 0
    %5s = get %min, 0
    %6s = get %lower, 0
    %7s = get %none, 0
    return sum = %0s, max = %1s, prod = %2s, any = %3s, all = %4s, min = %5s, lower = %6s, none = %7s
  })");
  c.with("x", f32({2, 3}, {1, 2, 3, 4, 5, 6})).with("b", tensor(DType::boolean, {2, 3}, {0, 1, 0, 1, 1, 1}));
  c.with("i", tensor(DType::i32, {2, 3}, {3, -1, 5, 9, 8, 7}));
  EXPECT_EQ((Numbers{6, 15}), c.get("sum"));
  EXPECT_EQ((Numbers{4, 5, 6}), c.get("max"));
  EXPECT_EQ((Numbers{720}), c.get("prod"));
  EXPECT_EQ((Numbers{1, 1}), c.get("any"));
  EXPECT_EQ((Numbers{0, 1}), c.get("all"));
  EXPECT_EQ((Numbers{-1, 7}), c.get("min"));
  EXPECT_EQ((Numbers{1, 9}), c.get("lower"));
  EXPECT_EQ((Numbers{-INFINITY, 4}), c.get("none"));
}

TEST(Interp, BodiesMayLackAxes) {
  Case c(R"(fn @main(%x: f32[3]) {
    %one = const f32 1
    %f = fold [i: 2, j: 3, k: 4] over [j, k] { sum %x[j]; sum %one[] }
    %s = get %f, 0
    %n = get %f, 1
    return s = %s, n = %n
  })");
  c.with("x", f32({3}, {1, 2, 3}));
  EXPECT_EQ((Numbers{24}), c.get("s")); // each x four times
  EXPECT_EQ((Numbers{12}), c.get("n"));
}

TEST(Interp, FoldOfNothingIsTheIdentity) {
  Case c(R"(symbol n: 0..4
  fn @main(%x: f32[2, n]) {
    %f = fold [i: 2, j: n] over [j] { sum %x[i, j]; max %x[i, j] }
    %s = get %f, 0
    %m = get %f, 1
    return s = %s, m = %m
  })");
  c.with("x", f32({2, 0}, {})).at("n", 0);
  EXPECT_EQ((Numbers{0, 0}), c.get("s"));
  EXPECT_EQ((Numbers{-INFINITY, -INFINITY}), c.get("m"));
}

TEST(Interp, FoldDomainWithAHole) { // a bounded dimension: a capacity and how much of it counts
  Case c(R"(fn @main(%x: f32[2, 4], %len: i64[2]) {
    %f = fold [i: 2, j: 4] over [j] with n = %len[i] in 0..4 where j < n { sum %x[i, j] }
    %y = get %f, 0
    return y = %y
  })");
  c.with("x", f32({2, 4}, {1, 2, 3, 4, 5, 6, 7, 8})).with("len", tensor(DType::i64, {2}, {3, 0}));
  EXPECT_EQ((Numbers{6, 0}), c.get());
}

TEST(Interp, Scans) {
  Case c(R"(fn @main(%x: f32[2, 4]) {
    %a = scan [i: 2, t: 4] along t { sum %x[i, t] }
    %b = scan [i: 2, t: 4] along t exclusive { sum %x[i, t] }
    %c = scan [i: 2, t: 4] along t reverse { max %x[i, t] }
    %d = scan [i: 2, t: 4] along i exclusive reverse { sum %x[i, t] }
    %e = scan [i: 2, t: 4] along t { max %x[i, t]; sum(select(old0 == -inf, 0, self * exp2(old0 - new0))) %x[i, t] }
    %0s = get %a, 0
    %1s = get %b, 0
    %2s = get %c, 0
    %3s = get %d, 0
    %4s = get %e, 1
    return a = %0s, b = %1s, c = %2s, d = %3s, e = %4s
  })");
  c.with("x", f32({2, 4}, {1, 3, 2, 4, 0, -1, 5, 2}));
  EXPECT_EQ((Numbers{1, 4, 6, 10, 0, -1, 4, 6}), c.get("a"));
  EXPECT_EQ((Numbers{0, 1, 4, 6, 0, 0, -1, 4}), c.get("b"));
  EXPECT_EQ((Numbers{4, 4, 4, 4, 5, 5, 5, 2}), c.get("c"));
  EXPECT_EQ((Numbers{0, -1, 5, 2, 0, 0, 0, 0}), c.get("d"));
  EXPECT_EQ((Numbers{1, 3.25, 4.25, 6.125, 0, -0.5, 4.984375, 5.234375}), c.get("e"));
}

TEST(Interp, Sorts) {
  Case c(R"(fn @main(%x: f32[2, 4]) {
    %i = iota i32 [r: 2, i: 4] -> i
    %s = sort %x, %i along 1
    %d = sort %x, %i along 1 descending
    %up = get %s, 0
    %upi = get %s, 1
    %down = get %d, 0
    %downi = get %d, 1
    return up = %up, upi = %upi, down = %down, downi = %downi
  })");
  c.with("x", f32({2, 4}, {3, 1, 3, 2, NAN, -1, NAN, 5}));
  const Numbers up = c.get("up");
  EXPECT_EQ((Numbers{1, 2, 3, 3, -1, 5}), (Numbers(up.begin(), up.begin() + 6)));
  EXPECT_EQ((Numbers{1, 3, 0, 2, 1, 3, 0, 2}), c.get("upi")); // stable; NaN last
  EXPECT_EQ((Numbers{0, 2, 3, 1, 3, 1, 0, 2}), c.get("downi"));
  EXPECT_EQ(5, c.get("down")[4]);
}

TEST(Interp, ScatterAppendsToACache) {
  Case c(R"(symbol past: 0..6
  symbol n: 1..3
  assume past + n <= 6
  fn @main(state %cache: f16[6, 2], %k: f32[n, 2]) {
    %h = cast f16 %k
    %u = scatter set %cache, %h [i: n, j: 2] -> [past + i, j] unique
    return cache_next = %u -> cache
  })");
  EXPECT_TRUE(dynamic_checks(c.module).empty());
  c.with("cache", tensor(DType::f16, {6, 2}, Numbers(12, 0.5)))
      .with("k", f32({2, 2}, {1, 2, 3, 4}))
      .at("past", 3)
      .at("n", 2);
  EXPECT_EQ((Numbers{.5, .5, .5, .5, .5, .5, 1, 2, 3, 4, .5, .5}), c.get("cache_next"));
  c.at("past", 5); // breaks the assumption
  EXPECT_THROW(c.get("cache_next"), Error);
}

TEST(Interp, ScatterCombinesInOrder) {
  Case c(R"(fn @main(%base: f32[3], %v: f32[4], %at: i32[4]) {
    %sum = scatter sum %base, %v [i: 4] with h = %at[i] in 0..2 -> [h]
    %set = scatter set %base, %v [i: 4] with h = %at[i] in 0..2 -> [h] where i != 3
    %fill = scatter sum %base, %v [i: 4] with h = %at[i] in 1..2 fill -> [h]
    %bad = scatter set %base, %v [i: 4] with h = %at[i] in 0..2 -> [h] unique
    return sum = %sum, set = %set, fill = %fill, bad = %bad
  })");
  c.with("base", f32({3}, {100, 200, 300}))
      .with("v", f32({4}, {1, 2, 3, 4}))
      .with("at", tensor(DType::i32, {4}, {0, 2, 0, 2}));
  EXPECT_EQ((Numbers{104, 200, 306}), c.get("sum"));
  EXPECT_EQ((Numbers{3, 200, 2}), c.get("set")); // the last one wins
  EXPECT_EQ((Numbers{100, 200, 306}), c.get("fill"));
  EXPECT_THROW(c.get("bad"), Error);
}

TEST(Interp, Bitcasts) {
  Case c(R"(fn @main(%x: f32[2], %b: u8[8], %n: u8[2]) {
    %u = bitcast u32 %x
    %bytes = bitcast u8 %x
    %wide = bitcast u32 %b
    %nibbles = bitcast u4 %n
    %signed = bitcast i4 %n
    %back = bitcast u8 %nibbles
    %half = bitcast f16 %b
    return u = %u, bytes = %bytes, wide = %wide, nibbles = %nibbles, signed = %signed, back = %back, half = %half
  })");
  c.with("x", f32({2}, {1, -2}))
      .with("b", tensor(DType::u8, {8}, {1, 2, 3, 4, 0, 0x3C, 0, 0xC0}))
      .with("n", tensor(DType::u8, {2}, {0x21, 0xF3}));
  EXPECT_EQ((Numbers{0x3F800000, 0xC0000000}), c.get("u"));
  EXPECT_EQ((Numbers{0, 0, 0x80, 0x3F, 0, 0, 0, 0xC0}), c.get("bytes"));
  EXPECT_EQ((Numbers{0x04030201, 0xC0003C00}), c.get("wide"));
  EXPECT_EQ((Numbers{1, 2, 3, 15}), c.get("nibbles"));
  EXPECT_EQ((Numbers{1, 2, 3, -1}), c.get("signed"));
  EXPECT_EQ((Numbers{0x21, 0xF3}), c.get("back"));
  EXPECT_EQ(1, c.get("half")[2]);
  EXPECT_EQ(-2, c.get("half")[3]);
}

TEST(Interp, PhiloxKnownAnswers) { // from the Random123 distribution
  using W = std::array<uint32_t, 4>;
  EXPECT_EQ((W{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}), philox4x32({0, 0, 0, 0}, {0, 0}));
  EXPECT_EQ((W{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}),
            philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}));
  EXPECT_EQ((W{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}),
            philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}));
}

TEST(Interp, RandomNodes) {
  Case c(R"(fn @main(%key: u32[2]) {
    %w = random u32 %key [i: 6] -> i
    %f = random f32 %key [i: 6] -> i + 2
    return w = %w, f = %f
  })");
  c.with("key", tensor(DType::u32, {2}, {7, 0x80000001u}));
  auto w = c.get("w"), f = c.get("f");
  auto block = philox4x32({0, 0, 0, 0}, {7, 0x80000001u}), next = philox4x32({1, 0, 0, 0}, {7, 0x80000001u});
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(double(block[i]), w[i]);
  EXPECT_EQ(double(next[1]), w[5]);
  EXPECT_EQ(double(block[2] >> 8) * 0x1p-24, f[0]);
  EXPECT_EQ(random_word(-1, {1, 2}), philox4x32({0xFFFFFFFF, 0xFFFFFFFF, 0, 0}, {1, 2})[3]);
}

TEST(Interp, CallsLoopsAndConditions) {
  Case c(R"(fn @step(%t: i64, %h: f32, %x: f32, %w: f32) {
    %p = mul %h, %w
    %s = add %p, %x
    %tf = cast f32 %t
    %o = add %s, %tf
    return h = %s, o = %o
  }
  fn @small(%h: f32, %w: f32) {
    %limit = const f32 20
    %p = lt %h, %limit
    return p = %p
  }
  fn @double(%x: f32) {
    %y = add %x, %x
    return y = %y
  }
  fn @negate(%x: f32) {
    %y = neg %x
    return y = %y
  }
  fn @main(%h0: f32, %xs: f32[4], %w: f32, %p: bool) {
    %l = loop @step count 4 carried (%h0) stepped (%xs) given (%w)
    %last = get %l, 0
    %all = get %l, 1
    %m = loop @step count 4 while @small carried (%h0) stepped (%xs) given (%w)
    %stopped = get %m, 0
    %rows = get %m, 1
    %steps = get %m, 2
    %c = call @double(%h0)
    %twice = get %c, 0
    %c2 = call @double(%twice)
    %four = get %c2, 0
    %k = cond %p then @double else @negate (%h0)
    %chosen = get %k, 0
    return last = %last, all = %all, stopped = %stopped, rows = %rows, steps = %steps, four = %four, chosen = %chosen
  })");
  c.with("h0", f32({}, {1}))
      .with("xs", f32({4}, {1, 2, 3, 4}))
      .with("w", f32({}, {3}))
      .with("p", tensor(DType::boolean, {}, {1}));
  // h: 1 -> 4 -> 14 -> 45 -> 139
  EXPECT_EQ((Numbers{139}), c.get("last"));
  EXPECT_EQ((Numbers{4, 15, 47, 142}), c.get("all"));
  EXPECT_EQ((Numbers{45}), c.get("stopped"));
  EXPECT_EQ((Numbers{4, 15, 47, 0}), c.get("rows"));
  EXPECT_EQ((Numbers{3}), c.get("steps"));
  EXPECT_EQ((Numbers{4}), c.get("four"));
  EXPECT_EQ((Numbers{2}), c.get("chosen"));
  c.with("p", tensor(DType::boolean, {}, {0}));
  EXPECT_EQ((Numbers{-1}), c.get("chosen"));
}

TEST(Interp, HostFunctions) {
  register_host_function("test_square", [](const std::string& text, std::span<const HostTensor> in) {
    EXPECT_EQ("hello", text);
    std::vector<double> out;
    for (double v : numbers(in[0])) out.push_back(v * v);
    return std::vector<HostTensor>{host_tensor(DType::f64, in[0].shape, out)};
  });
  Case c(R"(fn @main(%x: f32[2], %z: f32[2]) {
    %p = host print "x" (%x)
    %px = get %p, 0
    %s = host test_square "hello" (%px) -> (f64[2])
    %y = get %s, 0
    %d = host diff "x and z" (%x, %z)
    %dx = get %d, 0
    return late = %dx after y, y = %y
  })");
  std::vector<std::string> printed;
  c.bindings.print = [&](const std::string& line) { printed.push_back(line); };
  c.with("x", f32({2}, {3, 4})).with("z", f32({2}, {3, 4.5}));
  auto results = Interpreter(c.module, c.bindings).run();
  EXPECT_EQ((Numbers{9, 16}), numbers(results["y"]));
  EXPECT_THAT(printed, ElementsAre("x: f32[2], 2 values: 3 4", "x and z: largest difference 0.5"));
}

TEST(Interp, BindingsAreChecked) {
  Case c("symbol n: 1..4\nfn @main(%x: f32[n, 2]) {\n  return y = %x\n}\n");
  auto message = [&]() -> std::string {
    try {
      c.get();
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_THAT(message(), HasSubstr("symbol n is not bound"));
  c.at("n", 5);
  EXPECT_THAT(message(), HasSubstr("symbol n is 5, its range is 1..4"));
  c.at("n", 3);
  EXPECT_THAT(message(), HasSubstr("input 'x' is not bound; it is f32[n, 2]"));
  c.with("x", f32({2, 2}, {1, 2, 3, 4}));
  EXPECT_THAT(message(), HasSubstr("input 'x' is f32[2, 2], expected f32[3, 2]"));
  c.at("n", 2);
  EXPECT_EQ("accepted", message());
  EXPECT_THROW(c.get("z"), Error);
}

TEST(Interp, OneElementAsksForLittle) {
  int calls = 0;
  register_host_function("test_counted", [&](const std::string&, std::span<const HostTensor> in) {
    ++calls;
    return std::vector<HostTensor>{in[0]};
  });
  Case c(R"(fn @main(%x: f32[2]) {
    %h = host test_counted (%x) -> (f32[2])
    %y = get %h, 0
    %big = iota f32 [i: 1000000, j: 100000] -> i + j
    %wide = fold [i: 1000000, j: 100000] over [j] where j < 3 { sum %big[i, j] }
    %w = get %wide, 0
    return y = %y, w = %w
  })");
  c.with("x", f32({2}, {1, 2}));
  Interpreter interpreter(c.module, c.bindings);
  const int64_t at[] = {999999};
  EXPECT_EQ(999999 * 3 + 3, interpreter.element("w", at).value);
  EXPECT_EQ(0, calls);
  EXPECT_EQ((Numbers{1, 2}), numbers(interpreter.result("y")));
  EXPECT_EQ((Numbers{1, 2}), numbers(interpreter.result("y")));
  EXPECT_EQ(1, calls);
}

TEST(Interp, ALongChainDoesNotRecurse) {
  std::string text =
      "fn @main(%x: f32[4]) {\n  %a0 = fold [i: 4] over [i] { sum %x[i] }\n  %g0 = get %a0, 0\n";
  for (int k = 1; k <= 3000; ++k) {
    text += "  %v" + std::to_string(k) + " = view %g" + std::to_string(k - 1) + " [i: 1] -> []\n";
    text += "  %a" + std::to_string(k) + " = fold [i: 1] over [i] { sum %v" + std::to_string(k) +
            "[i] }\n  %g" + std::to_string(k) + " = get %a" + std::to_string(k) + ", 0\n";
  }
  Case c(text + "  return y = %g3000\n}\n");
  c.with("x", f32({4}, {1, 2, 3, 4}));
  EXPECT_EQ((Numbers{10}), c.get());
}

TEST(Interp, ALongChainOfCallsDoesNotRecurse) {
  std::string text = "fn @f(%x: f32[2]) {\n  %a0 = view %x [i: 2] -> [i]\n";
  for (int k = 1; k <= 40; ++k) {
    std::string n = std::to_string(k), b = std::to_string(k - 1);
    text += "  %f" + n + " = fold [i: 2, j: 1] over [j] { sum %a" + b + "[i] }\n  %a" + n + " = get %f" + n +
            ", 0\n";
  }
  text += "  return y = %a40\n}\nfn @main(%y0: f32[2]) {\n";
  for (int k = 1; k <= 500; ++k) {
    std::string n = std::to_string(k), b = std::to_string(k - 1);
    text += "  %c" + n + " = call @f(%y" + b + ")\n  %y" + n + " = get %c" + n + ", 0\n";
  }
  Case c(text + "  return y = %y500\n}\n"); // 20000 kept values, one after the other
  c.with("y0", f32({2}, {3, 4}));
  EXPECT_EQ((Numbers{3, 4}), c.get());
}

TEST(Interp, SharedWorkIsDoneOnce) { // without keeping, 2^200 operations
  std::string text = "fn @main(%x0: f32[8]) {\n";
  for (int k = 1; k <= 200; ++k)
    text += "  %l" + std::to_string(k) + " = view %x" + std::to_string(k - 1) +
            " [i: 8] -> [(i + 1) % 8]\n  %x" + std::to_string(k) + " = max %x" + std::to_string(k - 1) +
            ", %l" + std::to_string(k) + "\n";
  Case c(text + "  return y = %x200\n}\n");
  c.with("x0", f32({8}, {1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(Numbers(8, 8), c.get());
}

} // namespace
} // namespace luminal
