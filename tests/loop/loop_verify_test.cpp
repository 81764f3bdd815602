// loop/loop_verify_test.cpp -- every mistake the verifier knows, by its text; and register counts.
#include "loop_support.h"
#include <fmt/format.h>

namespace luminal::kernel {
namespace {

using testing::HasSubstr;

const std::string head = "kernel k(x: f32[n] in, y: f32[64] out, h: bf16[n] in, q: u4[n] in, i8s: i8[64] in, "
                         "u8s: u8[64] in, acc: i32[64] inout; n: 1..64)\n";

TEST(LoopVerify, EveryMistakeHasAPreciseText) {
  struct Case {
    std::string body, expected;
  };
  const std::vector<Case> cases = {
      // buffers
      {"  local t: f32[n - 100]\n  t[0] = 1\n", "buffer 't': its size n - 100 is negative"},
      {"  registers r: f32[n]\n  r[0] = 1\n", "buffer 'r': registers have a constant size, not n"},
      {"  local t: f32[4] align 48\n  t[0] = 1\n", "buffer 't': alignment 48 is not a power of two"},
      {"  local t: f32[4] in\n  y[0] = t[0]\n", "buffer 't': a buffer in local is scratch, not in"},
      // loops
      {"  for i: 0..7 in 0..n\n    y[i] = 1\n",
       "for i: 0..7 in 0..n: 'i' is said to be at most 7, and ends at n - 1"},
      {"  for i: 5..99 in 0..n\n    y[i] = 1\n", "'i' is said to be at least 5, and begins at 0"},
      {"  for i: 0..64 multiple 8 in 0..n\n    y[i] = 1\n",
       "'i' is said to be a multiple of 8; loops have step 1"},
      {"  unrolled i in 0..n\n    y[i] = 1\n", "an unrolled loop has a constant number of steps, not n"},
      {"  vector i in 0..n\n    y[i] = 1\n", "a vector loop has a constant number of steps, not n"},
      {"  vector i in 0..12\n    y[i] = 1\n",
       "a vector loop has 16 steps, a multiple, or a power of two below; not 12"},
      {"  vector i in 0..4\n    vector j in 0..4\n      y[j] = index<f32>(i)\n",
       "a vector loop inside the vector loop over 'i'"},
      {"  vector i in 0..4\n    parallel j in 0..4\n      y[4*i + j] = 1\n",
       "a parallel loop inside a vector loop"},
      {"  vector i in 0..4\n    for j in 0..i + 1\n      y[4*i + j] = 1\n", "the bounds depend on the lane"},
      {"  parallel i in 0..4\n    parallel j in 0..4\n      y[4*i + j] = 1\n",
       "a parallel loop of level 0 inside one of level 0, over 'i'"},
      {"  parallel i in 0..4 level 1\n    parallel j in 0..4\n      y[4*i + j] = 1\n",
       "a parallel loop of level 0 inside one of level 1, over 'i'"},
      // registers
      {"  registers r: f32[64]\n  for i in 0..4\n    r[i] = 1\n",
       "'r' is in registers: the index i depends on 'i', which is not constant after unrolling"},
      {"  registers r: f32[64]\n  unrolled i in n .. n + 4\n    r[i - n] = 1\n  y[0] = r[0]\n",
       "the index i - n depends on 'i', which is not constant after unrolling"},
      {"  registers r: f32[64]\n  unrolled i in n .. n + 4\n    r[i // 32] = 1\n",
       "the index i // 32 depends on 'i', which is not constant after unrolling"},
      {"  registers r: f32[64]\n  vector l in 0..16\n    r[2*l] = 1\n",
       "'r' is in registers: the index l*2 is not a run of neighbouring lanes"},
      {"  registers r: f32[64]\n  unrolled u in 0..5\n    vector l in 0..16\n      r[16*u + l] = 1\n",
       "'r' has 64 elements: the offset l + u*16 reaches 64"},
      {"  registers r: f32[64]\n  r[0] = 1\n  y[0] = load<f32>(r[0]) + cast<f32>(load<i32>(r[0]))\n",
       "'r' is in registers and holds f32: it cannot be read as i32"},
      // stores and loads
      {"  x[0] = 1\n", "x[0] = 1.0: 'x' is an input and cannot be stored to"},
      {"  y[64] = 1\n", "'y' has 64 elements: the offset 64 is outside"},
      {"  y[n - 65] = 1\n", "'y' has 64 elements: the offset n - 65 is outside"},
      {"  y[0] = x[n]\n", "'x' has n elements: the offset n is outside"},
      {"  vector l in 0..16\n    y[50 + l] = 1\n", "the offset 65 is outside"},
      {"  vector l in 0..16\n    y[0] = x[l]\n",
       "all lanes store to the one element y[0]; reduce_lanes makes one value of them"},
      {"  vector l in 0..16\n    if l < 3\n      y[0] = 1\n",
       "a store to one element under a condition that differs between lanes"},
      {"  local t: f32[4]\n  y[0] = t[0]\n", "'t' is loaded, but nothing ever writes it"},
      {"  y[0] = y[0]\n", ""},
      {"  y[0] = cast<f32>(load<u8>(q[3]))\n", "the element 3 of a 4-bit buffer does not begin a byte"},
      {"  y[0] = load<f32>(i8s[61])\n", "'i8s' has 64 elements: the offset 61 is outside"},
      {"  y[0] = load<f32>(i8s[60])\n", ""},
      // values
      {"  y[0] = reduce_lanes<add>(x[0])\n", "stands outside a vector loop"},
      {"  vector l in 0..16\n    y[0] = reduce_lanes<add>(x[0])\n", "the value is the same in all lanes"},
      {"  vector l in 0..16\n    y[0] = reduce_lanes<sub>(x[l])\n",
       "lanes are combined by add, mul, max or min"},
      {"  vector l in 0..48\n    y[0] = reduce_lanes<add>(x[l])\n",
       "the number of lanes is not a power of two"},
      {"  y[0] = h[0]\n", "'y' holds f32, the value is bf16"},
      {"  y[0] = cast<f32>(u8(300))\n", "the constant 300 does not fit u8"},
      {"  let j in 0..3 = x[0]\n  y[j] = 1\n", "an index is made of an integer, not of f32"},
      {"  let j in 0.. = acc[0]\n  y[0] = 1\n", "the index 'j' needs a range with both ends"},
      {"  for i in 0..4\n    for i2 in 0..4\n      let i in 0..3 = acc[0]\n      y[i] = 1\n",
       "" /* refused by the parser */},
      // barriers, roles, tokens
      {"  parallel i in 0..4\n    barrier\n    y[i] = 1\n",
       "a barrier of level 0 inside the parallel loop over 'i'"},
      {"  parallel i in 0..4\n    parallel j in 1..4 level 1\n      barrier level 1\n      y[4*i + j] = 1\n",
       "a barrier of level 1 inside the parallel loop over 'j'"},
      {"  parallel i in 0..4\n    barrier level 1\n    y[i] = 1\n", ""},
      {"  vector l in 0..4\n    barrier\n    y[l] = 1\n", "stands inside a vector loop"},
      {"  wait 3\n  y[0] = 1\n", "token 3 is awaited, but nothing produces it"},
      {"  local t: f32[4]\n  async copy t[0] <- x[0] count 1 -> token 2\n  y[0] = 1\n",
       "token 2 is produced, but never awaited"},
      {"  roles k in 0..4 stages 2\n    producers:\n      barrier level 1\n    consumers:\n      y[k] = 1\n",
       "a barrier inside roles"},
      {"  roles k in 0..4 stages 2\n    producers:\n    consumers:\n      y[k] = 1\n",
       "producers and consumers both have statements"},
      {"  registers r: f32[1]\n  roles k in 0..4 stages 2\n    producers:\n      r[0] = x[k]\n    "
       "consumers:\n      y[k] = r[0]\n",
       "'r' is in registers: producers write it, consumers read it, and they are different lanes"},
      {"  parallel i in 0..4 level 1\n    roles k in 0..4 stages 2\n      producers:\n        acc[4*i + k] = "
       "i32(1)\n      consumers:\n        y[4*i + k] = 1\n",
       "roles inside the parallel loop over 'i' of level 1"},
      {"  roles k in 0..4 stages 2\n    producers:\n      parallel i in 0..4\n        acc[4*k + i] = "
       "i32(1)\n    consumers:\n      y[k] = 1\n",
       "a parallel loop of level 0 inside roles"},
      // copies
      {"  local t: bf16[4]\n  async copy t[0] <- x[0] count 1 -> token 0\n  wait 0\n",
       "'t' holds bf16, 'x' holds f32"},
      {"  async copy x[0] <- y[0] count 1 -> token 0\n  wait 0\n", "'x' is an input and cannot be stored to"},
      {"  registers r: f32[4]\n  async copy r[0] <- x[0] count 4 -> token 0\n  wait 0\n",
       "'r' is in registers: only memory is copied"},
      {"  async copy y[0; 1] <- x[0] count 4 -> token 0\n  wait 0\n",
       "a copy moves neighbouring elements: it has no strides"},
      {"  async copy y[60] <- x[0] count 5 -> token 0\n  wait 0\n", "the offset 64 is outside"},
      {"  async copy y[0] <- x[0] count n - 65 -> token 0\n  wait 0\n", "the count n - 65 is negative"},
      // units
      {"  unit nobody.mma y[0] x[0] x[0]\n", "there is no unit 'nobody.mma'"},
      {"  unit vnni.dpbusd acc[0; 1] u8s[0; 4, 1]\n",
       "vnni.dpbusd has 3 operands (accumulator, a, b), 2 given"},
      {"  unit vnni.dpbusd acc[0; 1] u8s[0; 4, 1] i8s[0; 4, 1]\n", ""},
      {"  unit vnni.dpbusd acc[0; 1] i8s[0; 4, 1] i8s[0; 4, 1]\n",
       "vnni.dpbusd takes u8 here, 'i8s' holds i8"},
      {"  unit vnni.dpbusd acc[0; 1] u8s[0; 4] i8s[0; 4, 1]\n",
       "'u8s' has 1 strides, vnni.dpbusd has the axes nk here"},
      {"  unit vnni.dpbusd acc[0; 0] u8s[0; 4, 1] i8s[0; 4, 1]\n",
       "'acc' is the accumulator: its stride along n is not 0"},
      {"  unit vnni.dpbusd acc[0; 1] u8s[0; 4, 1] i8s[1; 4, 1]\n",
       "'i8s' has 64 elements: the offset 64 is outside"},
      {"  unit fma.f32 y[0; 1] x[0; 0] x[0; 0]\n", ""},
      {"  unit fma.f32 x[0; 1] x[0; 0] x[0; 0]\n", "'x' is an input and cannot be stored to"},
      {"  async unit fma.f32 y[0; 1] x[0; 0] x[0; 0] -> token 0\n  wait 0\n", "fma.f32 is not asynchronous"},
      {"  vector l in 0..4\n    unit fma.f32 y[0; 1] x[0; 0] x[0; 0]\n", "stands inside a vector loop"},
      {"  registers r: f32[4]\n  r[0] = 1\n  prefetch r[0]\n", "'r' is in registers"},
  };
  for (const Case& c : cases) {
    Kernel kernel;
    try {
      kernel = parse_kernel(head + c.body);
    } catch (const Error& e) {
      EXPECT_EQ(c.expected, "") << c.body << e.what();
      continue;
    }
    const auto mistakes = verify(kernel);
    if (c.expected.empty()) {
      EXPECT_THAT(mistakes, testing::IsEmpty()) << c.body;
      continue;
    }
    ASSERT_FALSE(mistakes.empty()) << c.body << "expected: " << c.expected;
    EXPECT_THAT(mistakes, testing::Contains(HasSubstr(c.expected))) << c.body;
    EXPECT_LE(mistakes.size(), 2u) << c.body << testing::PrintToString(mistakes);
  }
}

TEST(LoopVerify, TheTextNamesThePlace) {
  const auto mistakes = verify(parse_kernel(
      head + "  parallel p in 0..4\n    if p < n\n      for i in 0..n\n        y[64 + i + p] = x[i]\n"));
  ASSERT_EQ(mistakes.size(), 1u);
  EXPECT_THAT(mistakes[0], HasSubstr("parallel p in 0..4 / if p < n / for i in 0..n / y["));
  EXPECT_THAT(mistakes[0], HasSubstr("'y' has 64 elements"));
}

TEST(LoopVerify, ConditionsAreFacts) {
  // Inside `if`, and between the bounds of a loop, more is known.
  EXPECT_THAT(verify(parse_kernel(head + "  for i in 0..n\n    for j: 0..30 in 0..i\n      y[j] = 1\n")),
              testing::Contains(HasSubstr("'j' is said to be at most 30")));
  EXPECT_THAT(verify(parse_kernel(
                  head + "  for i in 0..n\n    if i < 31\n      for j: 0..30 in 0..i\n        y[j] = 1\n")),
              testing::IsEmpty());
  // A register index that leaves its buffer only where a constant condition forbids it.
  EXPECT_THAT(verify(parse_kernel(
                  head + "  registers r: f32[4]\n  unrolled i in 0..6\n    if i < 4\n      r[i] = 1\n")),
              testing::IsEmpty());
  EXPECT_THAT(verify(parse_kernel(
                  head + "  registers r: f32[4]\n  unrolled i in 0..6\n    if i < 5\n      r[i] = 1\n")),
              testing::Contains(HasSubstr("the offset i reaches 4")));
}

TEST(LoopVerify, LoopsWithoutTripsReachNothing) {
  const std::string text =
      "kernel k(x: f32[33] in, y: f32[6] out)\n  for q in 0..6\n    if q < 5\n      y[q] = 1\n"
      "    else\n      for i: 0..16 in 0..{}\n        y[q] = x[i + 9*q]\n";
  EXPECT_THAT(verify(parse_kernel(fmt::format(fmt::runtime(text), "min(33 - 9*q, 16)"))), testing::IsEmpty());
  EXPECT_THAT(verify(parse_kernel(fmt::format(fmt::runtime(text), "min(49 - 9*q, 16)"))),
              testing::ElementsAre(HasSubstr("the offset i + q*9 is outside")));
}

TEST(LoopVerify, ConditionsThatExcludeEachOtherReachNothing) {
  const std::string text = "kernel k(x: f32[M] in, y: f32[M] out; M: 1..{})\n  for i in 0..min(M // 17, 5)\n "
                           "   if i < 4\n      y[17*i] = x[17*i]\n"
                           "    else\n      y[M] = x[17*i]\n";
  EXPECT_THAT(verify(parse_kernel(fmt::format(fmt::runtime(text), 61))), testing::IsEmpty());
  EXPECT_THAT(verify(parse_kernel(fmt::format(fmt::runtime(text), 85))),
              testing::ElementsAre(HasSubstr("the offset M is outside")));
}

TEST(LoopVerify, WhatTheTextCannotSay) {
  Kernel base;
  base.name = "k";
  const BufferId x = add_buffer(base, {"x", Space::global, Access::in, DType::f32, 16});
  const BufferId y = add_buffer(base, {"y", Space::global, Access::out, DType::f32, 16});
  const Expr i = Expr::symbol("i", {0, 15}), other = Expr::symbol("i", {0, 7}),
             far = Expr::symbol("far", {0, 3});
  const auto expect = [&](Body body, const std::string& text) {
    Kernel k = base;
    k.lets = 2;
    k.body = std::move(body);
    EXPECT_THAT(verify(k), testing::Contains(HasSubstr(text))) << to_string(k);
  };
  expect({store(BufferId(7), 0, constant(DType::f32, 0))}, "there is no buffer 7; the kernel has 2");
  expect({store(y, far, constant(DType::f32, 0))}, "the offset far uses 'far', which is not defined here");
  expect({loop(LoopKind::serial, i, 0, 16, {store(y, other, load(base, x, i))})},
         "uses 'i' with the range 0..7, which is not the range of its definition");
  expect({loop(LoopKind::serial, i, 0, 16, {})}, "the body is empty");
  expect({loop(LoopKind::serial, i, 0, 16,
               {loop(LoopKind::serial, other, 0, 8, {store(y, other, load(base, x, 0))})})},
         "'i' is defined a second time inside its own scope");
  expect({store(y, 0, let_value(DType::f32, LetId(1)))}, "%1 is not defined here");
  expect({let(LetId(0), constant(DType::i32, 1)), store(y, 0, let_value(DType::f32, LetId(0)))},
         "%0 is i32, and is read as f32");
  expect({let(LetId(0), constant(DType::f32, 1)), let(LetId(0), constant(DType::f32, 1))},
         "%0 is defined twice");
  expect({let(LetId(5), constant(DType::f32, 1))}, "%5 is not among the 2 lets of the kernel");
  expect({store(y, 0, nullptr)}, "a value is missing");
  expect({jammed_loop(i, 0, 16, 0, {store(y, i, load(base, x, i))})}, "jam 0 is less than 1");
  const auto made = [](Value v) { return std::make_shared<const Value>(std::move(v)); };
  expect({store(y, 0, made({DType::f32, Constant{0.1}}))}, "is not a value of f32");
  expect({store(y, 0, made({DType::f32, Apply{Op::add, {load(base, x, 0)}}}))},
         "'add' takes 2 values, 1 given");
  expect({store(y, 0, made({DType::f32, Apply{Op::lt, {load(base, x, 0), load(base, x, 1)}}}))},
         "the result is bool, not f32");
  expect({store(y, 0, made({DType::f32, ApplyUser{"nothing", {load(base, x, 0)}}}))},
         "no operation 'nothing' is registered");
  expect({store(y, 0, made({DType::f32, Bitcast{constant(DType::i16, 0)}}))}, "i16 and f32 differ in width");
  Kernel late = base;
  add_buffer(late, {"t", Space::local, Access::scratch, DType::f32, 4});
  add_buffer(late, {"z", Space::global, Access::in, DType::f32, 4});
  add_buffer(late, {"x", Space::global, Access::in, DType::f32, 4});
  add_buffer(late, {"not a name", Space::global, Access::in, DType::f32, far});
  late.symbols = {Expr(3)};
  late.lanes = 12;
  const auto mistakes = verify(late);
  for (const char* text : {"buffer 'z': global buffers stand before all others",
                           "buffer 'x': there are two buffers of this name",
                           "buffer 'not a name': the name is not an identifier",
                           "its size far uses 'far', which is not a symbol of the kernel",
                           "'3' stands among the symbols and is none", "lanes 12 is not a power of two"})
    EXPECT_THAT(mistakes, testing::Contains(HasSubstr(text)));
}

TEST(LoopVerify, RegisterPressureOfATile) {
  // An 8 x 3 tile of 16 lanes: 24 accumulators, 3 vectors of B, 1 broadcast of A.
  const auto tile = [](int rows, int columns, const std::string& extra = "") {
    return parse_kernel(fmt::format(R"(
kernel tile(a: f32[{0}*64] in, b: f32[64*{1}*16] in, c: f32[{0}*{1}*16] out)
  registers acc: f32[{0}*{1}*16]
  unrolled i0 in 0..{0}
    unrolled j0 in 0..{1}
      vector l0 in 0..16
        acc[16*({1}*i0 + j0) + l0] = 0
  for k in 0..64
    unrolled i in 0..{0}
      unrolled j in 0..{1}
        vector l in 0..16
          acc[16*({1}*i + j) + l] = fma(a[64*i + k], b[16*({1}*k + j) + l]{2}, acc[16*({1}*i + j) + l])
  unrolled i1 in 0..{0}
    unrolled j1 in 0..{1}
      vector l1 in 0..16
        c[16*({1}*i1 + j1) + l1] = acc[16*({1}*i1 + j1) + l1]
)",
                                    rows, columns, extra));
  };
  const RegisterPressure p = register_pressure(tile(8, 3));
  EXPECT_EQ(p.accumulators, 24);
  EXPECT_EQ(p.temporaries, 4);
  EXPECT_EQ(p.total, 28);
  EXPECT_THAT(p.at, HasSubstr("fma("));
  EXPECT_EQ(register_pressure(tile(6, 4)).total, 24 + 4 + 1);
  EXPECT_EQ(register_pressure(tile(8, 4)).total, 32 + 4 + 1); // spills with 32 registers
  // Half as wide registers: twice as many.
  EXPECT_EQ(register_pressure(tile(6, 1), 8).total, 12 + 2 + 1);
  // An intermediate result needs a register of its own.
  EXPECT_EQ(register_pressure(tile(8, 3, " * 2")).total, 29);
}

TEST(LoopVerify, RegistersLiveAcrossLoopsThatDoNotTouchThem) {
  const Kernel kernel = parse_kernel(R"(
kernel two(x: f32[64] in, y: f32[64] out)
  registers o: f32[64]
  registers s: f32[32]
  unrolled i in 0..4
    vector l in 0..16
      o[16*i + l] = 0
  for k in 0..4
    unrolled j in 0..2
      vector m in 0..16
        s[16*j + m] = x[16*j + m] * 2
  unrolled i1 in 0..4
    vector l1 in 0..16
      y[16*i1 + l1] = o[16*i1 + l1] + s[l1]
)");
  ASSERT_THAT(verify(kernel), testing::IsEmpty());
  EXPECT_EQ(register_pressure(kernel).accumulators, 6);
}

} // namespace
} // namespace luminal::kernel
