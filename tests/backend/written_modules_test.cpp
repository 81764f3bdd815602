// tests/backend/written_modules_test.cpp -- small modules of kinds that plans once got wrong or
// refused: their plans equal the interpreter, with and without passes.
#include "written_modules.h"

namespace luminal::written_modules {
namespace {

/// What a plan says that cannot be made.
std::string refused(const std::string& text) {
  const Module module = parse_module(text);
  EXPECT_TRUE(verify(module).empty());
  compile::Options options = compile::Options::host(1);
  options.cache = false;
  auto compiled = compile::compile(module, options);
  return compiled ? "" : compiled.error();
}

// ---- values that weights alone give ----

TEST(WrittenModules, AValueOnTheWayToAnotherAtLoadIsMadeAgainWhereAStepReadsIt) {
  expect_plan(R"(
fn @main(weight %x: f32[40, 64], weight %w: f32[32, 64]) {
  %a = view %x [q: 40, k: 32, e: 64] -> [q, e]
  %b = view %w [q: 40, k: 32, e: 64] -> [k, e]
  %p = mul %a, %b
  %f = fold [q: 40, k: 32, e: 64] over [e] { sum %p[q, k, e] }
  %s = get %f, 0
  %g = fold [q: 40, k: 32] over [k] { max %s[q, k] }
  %m = get %g, 0
  %i = cast i32 %s
  return i = %i, m = %m
}
)");
  expect_plan(R"(
fn @main() {
  %z = const f32 2
  %x = view %z [i: 12] -> []
  %s = sort %x along 0
  %y = get %s, 0
  %t = sort %y along 0 descending
  %u = get %t, 0
  return y = %y, u = %u
}
)");
}

TEST(WrittenModules, ScattersAtLoadKeepWhatStepsRead) {
  expect_plan(R"(
fn @main(weight %w: f64[64], %x: f64[8, 15]) {
  %v = view %w [p: 8, q: 15] -> [p - 1] where 0 <= p - 1 and p - 1 < 64 and (q % 2 == 0 or q < 7) fill 1.0
  %i = iota i32 [p: 8, q: 15] -> q
  %s = sort %v, %i along 1 descending
  %a = get %s, 0
  %t = sort %a, %i along 1
  %b = get %t, 0
  %c = get %t, 1
  %f = scan [p: 8, q: 15] along q exclusive { max %c[p, q] }
  %d = get %f, 0
  %m = min %b, %x
  return d = %d, m = %m
}
)");
}

TEST(WrittenModules, FencesOfWeightsAreTheWeights) {
  expect_plan(R"(
fn @main(weight %w: f32[5], %x: f32[5]) {
  %a = fence %w
  %b = fence %a
  %c = fence %b after %x
  %y = mul %c, %c
  %z = neg %b
  %p = eq %w, %w
  %q = fence %p
  %k = const f32 3
  %l = fence %k
  %v = view %w [i: 5] -> [4 - i]
  %f = fence %v
  %g = fence %f
  return w = %b, y = %y, z = %z, q = %q, l = %l, f = %f, g = %g
}
)");
}

// The loop over z runs around the lanes, each of which has a length of its own.
TEST(WrittenModules, SumsOfWhichSomeAreReadHaveLengthsByLane) {
  expect_plan(R"(
symbol n: 1..10
symbol z: 1..12
fn @main(%x: f32[8, n, z], %l: i32[8, n, 4]) {
  %f = fold [i: 8, j: n, k: z, e: 4] over [k] with h = %l[i, j, e] in 0..12 clamp where k < h and j % 4 == 0 { min %x[i, j, k] }
  %g = get %f, 0
  %few = iota bool [i: 8, j: n, e: 4] -> i < 4
  %zero = iota f32 [i: 8, j: n, e: 4] -> 0
  %y = select %few, %g, %zero
  return y = %y
}
)",
              {{"n", 9}, {"z", 11}});
}

// What a mask hides is -inf below the maximum: not left out.
TEST(WrittenModules, SumsOfDistancesToAMaximumThatAMaskHides) {
  for (const int64_t size : {1, 6})
    expect_plan(R"(
symbol S: 1..9
fn @main(%v: f32[3, 8, S, 8]) {
  %f = fold [a: 3, b: 8, c: S, d: 8] over [d] { sum %v[a, b, c, d] }
  %s = get %f, 0
  %x = view %s [a: 3, b: 8, c: S] -> [a, b, c] where c + b <= a + 4 fill -inf
  %g = fold [a: 3, b: 8, c: S] over [c] { max %x[a, b, c] }
  %m = get %g, 0
  %w = view %m [a: 3, b: 8, c: S] -> [a, b]
  %e = sub %x, %w
  %h = fold [a: 3, b: 8, c: S] over [c] { sum %e[a, b, c] }
  %i = fold [a: 3, b: 8, c: S] over [c] { min %e[a, b, c] }
  %r = get %h, 0
  %l = get %i, 0
  return r = %r, l = %l
}
)",
                {{"S", size}});
}

// x - x is NaN where x is infinite, also where x is its own maximum.
TEST(WrittenModules, SoftmaxOfRowsThatAreTheSameEverywhere) {
  for (const int64_t size : {0, 4})
    expect_plan(R"(
symbol S: 0..40
fn @main(%v: f32[3, 8, 8]) {
  %w = view %v [a: 3, b: 8, c: S + 1, d: 8] -> [a, b, d]
  %f = fold [a: 3, b: 8, c: S + 1, d: 8] over [d] { sum %w[a, b, c, d] }
  %s = get %f, 0
  %x = view %s [a: 3, b: 8, c: S + 1] -> [a, b, c] where b <= a fill -inf
  %g = fold [a: 3, b: 8, c: S + 1] over [c] { max %x[a, b, c] }
  %m = get %g, 0
  %n = view %m [a: 3, b: 8, c: S + 1] -> [a, b]
  %d = sub %x, %n
  %e = exp %d
  %h = fold [a: 3, b: 8, c: S + 1] over [c] { sum %e[a, b, c] }
  %l = get %h, 0
  %o = view %l [a: 3, b: 8, c: S + 1] -> [a, b]
  %y = div %e, %o
  return y = %y
}
)",
                {{"S", size}});
}

// What fma adds beyond a product and a sum is all that is left here: the rounding of the product.
TEST(WrittenModules, FusedProductsRoundOnce) {
  const Module module = parse_module(R"(
fn @main(%a: f32[100, 64]) {
  %p = mul %a, %a
  %n = neg %p
  %e = fma %a, %a, %n
  %f = fold [i: 100, j: 64] over [j] { sum %e[i, j] }
  %s = get %f, 0
  return s = %s
}
)",
                                     "fused");
  Bindings bindings = inputs_of(module, {}, false);
  HostTensor& a = bindings.inputs.at("a");
  for (int64_t i = 0; i < a.count(); ++i) store_f64(DType::f32, a.data.data(), i, a.at(i) * 0.1);
  Running running(module);
  auto context = running.start(module, bindings);
  context->run().value();
  const auto got = context->result("s").value();
  const HostTensor want = Interpreter(module, bindings).result("s");
  for (int64_t i = 0; i < want.count(); ++i) {
    EXPECT_NE(want.at(i), 0);
    EXPECT_NEAR(load_f64(DType::f32, got.bytes.data(), i), want.at(i), 1e-4 * std::fabs(want.at(i)));
  }
}

TEST(WrittenModules, WhatADimensionTakesPartInIsNotComputedAtLoad) {
  expect_plan(R"(
symbol S: 0..40
fn @main(weight %w: f32[7], weight %i: u8[7]) {
  %one = const f32 1.5
  %ones = view %one [a: 3] -> []
  %f = fold [a: 3, b: S] over [b] { max %ones[a]; sum %ones[a] }
  %m = get %f, 0
  %s = get %f, 1
  %g = fold [a: 7] over [a] where a < S { sum %w[a] }
  %t = get %g, 0
  %c = scatter sum %w, %w [a: 7] -> [a] where a + 3 < S
  return m = %m, s = %s, t = %t, c = %c
}
)",
              {{"S", 5}});
}

// ---- axes of folds and scans ----

TEST(WrittenModules, AnOuterAxisThatNoComponentHasIsNotSummed) {
  expect_plan("fn @main(%x: f32[2]) {\n  %f = fold [k: 2, e: 3] over [k] { sum %x[k]; prod %x[k] }\n"
              "  %s = get %f, 0\n  %p = get %f, 1\n  return s = %s, p = %p\n}\n");
  for (int64_t size : {0, 4}) // the reduced axis d counts
    expect_plan("symbol S: 0..5\nfn @main(%x: i32[4]) {\n  %f = fold [e: S, k: 4, d: 3] over [k, d] { sum "
                "%x[k] }\n  %s = get %f, 0\n  return s = %s\n}\n",
                {{"S", size}});
  expect_plan("fn @main(%x: f32[2]) {\n  %f = scan [k: 2, e: 3] along k { sum %x[k] }\n  %s = get %f, 0\n"
              "  return s = %s\n}\n");
}

TEST(WrittenModules, ComponentsThatNobodyReadsTakeTheirAxesWithThem) {
  const std::string attention = R"(
symbol S: 1..9
fn @main(%x: f32[2, S], %v: f32[S, 64]) {
  %one = const f32 1
  %f = fold [q: 2, k: S, e: 64] over [k] {
      max %x[q, k];
      sum(select(old0 == -inf, 0, self * exp2(old0 - new0))) %one[];
      sum(select(old0 == -inf, 0, self * exp2(old0 - new0))) %v[k, e] }
)";
  for (const char* read : {"  %m = get %f, 0\n  return m = %m\n}\n", "  %l = get %f, 1\n  return l = %l\n}\n",
                           "  %o = get %f, 2\n  return o = %o\n}\n"})
    expect_plan(attention + read, {{"S", 7}});
}

TEST(WrittenModules, ComponentsOverDifferentAxes) {
  expect_plan(R"(
fn @main(%x: f32[4, 5], %z: f32[5], %c: i32[3]) {
  %f = fold [i: 4, j: 5, k: 3] over [j] { sum %x[i, j]; max %z[j]; prod %c[k]; min %x[i, j] }
  %a = get %f, 0
  %b = get %f, 1
  %c2 = get %f, 2
  %d = get %f, 3
  return a = %a, b = %b, c = %c2, d = %d
}
)");
}

TEST(WrittenModules, ComponentsThatReadOthersOverFewerAxes) {
  for (const char* kind :
       {"fold [i: 4, j: 5, e: 3] over [j] where i <= j", "fold [i: 4, j: 5, e: 3] over [j, e]",
        "scan [i: 4, j: 5, e: 3] along j", "scan [i: 4, j: 5, e: 3] along j exclusive reverse"})
    expect_plan(fmt::format(R"(
fn @main(%x: f32[4, 5], %z: f32[5], %w: i64[5, 3]) {{
  %f = {} {{ max %z[j]; min(select(old0 == new0, self, inf)) %w[j, e]; sum %x[i, j];
             sum(select(old0 == -inf, 0, self * exp2(old0 - new0))) %x[i, j] }}
  %a = get %f, 0
  %b = get %f, 1
  %c = get %f, 2
  %d = get %f, 3
  return a = %a, b = %b, c = %c, d = %d
}}
)",
                            kind));
}

TEST(WrittenModules, TuplesWithAConditionOfTheirOwnAndALength) {
  expect_plan(R"(
fn @main(%x: f32[4, 5], %z: f32[5], %n: u8[4]) {
  %m = const u8 7
  %ms = view %m [i: 4] -> []
  %l = bit_and %n, %ms
  %f = fold [i: 4, j: 5, e: 2, d: 6] over [j] with len = %l[i] in 0..5 clamp where j < len { sum %x[i, j]; max %z[j] }
  %a = get %f, 0
  %b = get %f, 1
  %g = fold [i: 4, j: 5, e: 2] over [j] where e <= j { sum %x[i, j]; prod %z[j] }
  %c = get %g, 0
  %d = get %g, 1
  return a = %a, b = %b, c = %c, d = %d
}
)");
}

// ---- indices from memory ----

TEST(WrittenModules, TuplesOverElementsThatIndicesFind) {
  expect_plan(R"(
fn @main(%x: f32[9, 6], %p: u8[8, 3]) {
  %m = const u8 7
  %ms = view %m [a: 8, b: 3] -> []
  %i = bit_and %p, %ms
  %g = view %x [a: 8, b: 3, c: 6] with h = %i[a, b] in 0..8 clamp -> [h, c]
  %one = const f32 -0.375
  %f = fold [a: 8, b: 3, c: 6] over [a, b] {
      max %g[a, b, c];
      sum(select(old0 == -inf, 0, self * exp2(old0 - new0))) %g[a, b, c];
      sum(select(old0 == -inf, 0, self * exp2(old0 - new0))) %one[] }
  %l = get %f, 1
  %n = get %f, 2
  return l = %l, n = %n
}
)");
}

TEST(WrittenModules, ProductsOfRowsThatIndicesFind) {
  const char* const reads[] = {
      "with h = %i[k] in 0..15 clamp -> [h, m]", "with h = %i[k] in 0..15 clamp -> [h, k]",
      "with h = %j[m, k] in 0..15 clamp -> [h, k]", "with h = %o[m, l] in 0..15 clamp -> [h, k]"};
  for (const auto& [type, sum] : {std::pair{"bf16", "f32"}, {"i8", "i32"}, {"f32", "f32"}})
    for (const char* read : reads)
      expect_plan(fmt::format(R"(
fn @main(%x: {0}[16, 24], weight %w: {0}[24, 33, 2], %i: u8[24], %j: u8[24, 24], %o: u8[24, 2]) {{
  %a = view %x [m: 24, n: 33, l: 2, k: 24] {2}
  %b = view %w [m: 24, n: 33, l: 2, k: 24] -> [k, n, l]
  %c = cast {1} %a
  %d = cast {1} %b
  %p = mul %c, %d
  %f = fold [m: 24, n: 33, l: 2, k: 24] over [l, k] {{ sum %p[m, n, l, k] }}
  %y = get %f, 0
  return y = %y
}}
)",
                              type, sum, read));
}

TEST(WrittenModules, IndicesIntoAPaddedView) {
  for (const char* policy : {"", "clamp", "fill"})
    for (const char* pad :
         {"[i, j] where i < 2 fill 0.5", "[i - 30, j] where 30 <= i", "[i % 2, j] where i % 3 != 1 fill -1"})
      expect_plan(fmt::format(R"(
symbol S: 1..5
fn @main(%x: f32[2, S], %p: u8[9]) {{
  %m = const u8 31
  %ms = view %m [k: 9] -> []
  %i = bit_and %p, %ms
  %v = view %x [i: 32, j: S] -> {}
  %g = view %v [k: 9, j: S] with h = %i[k] in 0..31 {} -> [h, j]
  return g = %g
}}
)",
                              pad, policy),
                  {{"S", 3}});
}

TEST(WrittenModules, IndicesThatAConditionKeepsInside) {
  expect_plan(R"(
symbol S: 1..5
fn @main(%x: f32[S], %p: u8[9]) {
  %m = const u8 31
  %ms = view %m [k: 9] -> []
  %i = bit_and %p, %ms
  %g = view %x [k: 9] with h = %i[k] in 0..31 -> [h] where h < S fill 7
  return g = %g
}
)",
              {{"S", 3}});
}

TEST(WrittenModules, NumbersBesideAnIntegerViewAreConverted) {
  std::string body, results;
  for (const auto& [type, fill] : {std::pair{"i64", "9223372036854775807"},
                                   {"i64", "-9223372036854775808"},
                                   {"u64", "18446744073709551615"},
                                   {"i8", "300"},
                                   {"u8", "-3"},
                                   {"u32", "nan"},
                                   {"i32", "inf"},
                                   {"i64", "-inf"}}) {
    const size_t n = results.size();
    body += fmt::format(
        "  %c{0} = cast {1} %x\n  %p{0} = view %c{0} [i: 6] -> [i - 1] where 1 <= i and i < 4 fill {2}\n"
        "  %q{0} = max %p{0}, %p{0}\n",
        n, type, fill);
    results += fmt::format("{}r{} = %q{}", n ? ", " : "", n, n);
  }
  expect_plan("fn @main(%x: i32[4]) {\n" + body + "  return " + results + "\n}\n");
}

// ---- sorts ----

TEST(WrittenModules, SortsPutNanLastInBothDirections) {
  constexpr DType types[] = {DType::f8e4m3, DType::f8e5m2, DType::bf16, DType::f16,    DType::f32,
                             DType::f64,    DType::i4,     DType::u4,   DType::i8,     DType::u8,
                             DType::i16,    DType::u64,    DType::i64,  DType::boolean};
  const char* const extents[] = {"7", "129", "S"};
  size_t turn = 0;
  for (DType type : types)
    for (const char* order : {" descending", ""})
      expect_plan(fmt::format(R"(
symbol S: 1..200
fn @main(%x: {0}[2, {1}], weight %w: f32[2, {1}]) {{
  %i = iota i64 [r: 2, n: {1}] -> n
  %s = sort %x, %i, %w along 1{2}
  %y = get %s, 0
  %j = get %s, 1
  %v = get %s, 2
  return y = %y, j = %j, v = %v
}}
)",
                              to_string(type), extents[turn++ * 2 / 3 % 3], order),
                  {{"S", 150}}, true);
}

// ---- values without elements ----

TEST(WrittenModules, NothingIsAValueToo) {
  expect_plan(R"(
symbol S: 0..8
fn @main(weight %w: f32[S, 100], %x: f32[S], state %t: f32[S], weight %none: f64[0, 3]) {
  %y = neg %w
  %f = fold [s: S, i: 100] over [s] { sum %w[s, i] }
  %z = get %f, 0
  %u = add %t, %x
  %p = view %w [i: 4, j: 3] -> [i, j] where i < S fill 0.5
  %n = view %none [i: 2, j: 3] -> [i, j] where i < 0 fill 2
  %m = fold [i: 0, j: 3] over [i] { max %none[i, j] }
  %o = get %m, 0
  %q = sort %w along 1
  %r = get %q, 0
  %c = scan [s: S, i: 100] along s { sum %w[s, i] }
  %d = get %c, 0
  return y = %y, z = %z, u = %u -> t, p = %p, n = %n, o = %o, r = %r, d = %d
}
)",
              {{"S", 0}});
}

TEST(WrittenModules, SortsOfRowsThatAreNotThere) {
  expect_plan(
      "symbol S: 0..200\nfn @main(%x: f32[4, 0, S], %y: i8[S, 2]) {\n  %s = sort %x along 2 descending\n"
      "  %a = get %s, 0\n  %t = sort %y along 0\n  %b = get %t, 0\n  return a = %a, b = %b\n}\n",
      {{"S", 0}});
}

TEST(WrittenModules, AScanOfAFoldOverNothing) {
  expect_plan(R"(
symbol S: 1..8
fn @main(%x: f32[0, S, 7, 29]) {
  %f = fold [a: 0, b: S, c: 7, d: 29] over [a] { prod %x[a, b, c, d] }
  %p = get %f, 0
  %g = scan [a: S, b: 7, c: 29] along b exclusive reverse { max %p[a, b, c] }
  %y = get %g, 0
  return y = %y
}
)",
              {{"S", 3}});
}

// ---- calls ----

/// @f<last> calls the one before it so many times, one after the other.
std::string call_chain(int functions, int times) {
  std::string text = "fn @f0(%x: f32[3], %y: f32[3]) {\n  %z = add %x, %y\n  return z = %z\n}\n";
  for (int k = 1; k < functions; k++) {
    text += fmt::format("fn @f{}(%x: f32[3], %y: f32[3]) {{\n  %v0 = mul %x, %y\n", k);
    for (int i = 0; i < times; i++)
      text += fmt::format("  %c{0} = call @f{1}(%v{0}, %y)\n  %v{2} = get %c{0}, 0\n", i, k - 1, i + 1);
    text += fmt::format("  return z = %v{}\n}}\n", times);
  }
  return text;
}

TEST(WrittenModules, ATreeOfCallsIsRefusedAtOnce) {
  EXPECT_EQ(
      refused(call_chain(40, 2)),
      "@f39 has 5.5e+12 operations when calls are replaced by what they call, at most 262144 are compiled; "
      "a loop runs one copy of a function again and again");
}

/// The loop over tiles of lanes then has one trip or none.
TEST(WrittenModules, FoldsOverADimensionThatMayBeEmptyAndFitsIntoOneTileOfLanes) {
  for (int64_t size : {0, 1, 4})
    for (const char* word : {"max", "min", "sum", "prod"})
      expect_plan(fmt::format(R"(
symbol m: 0..4
fn @main(%x: f32[m], %a: f32[3, m]) {{
  %f = fold [j: m] over [j] {{ {0} %x[j] }}
  %y = get %f, 0
  %g = fold [i: 3, j: m] over [j] {{ {0} %a[i, j] }}
  %z = get %g, 0
  return y = %y, z = %z
}}
)",
                              word),
                  {{"m", size}});
}

TEST(WrittenModules, UnsignedIndicesBeyondTheSignedOnesLieBehindTheEnd) {
  for (const char* policy : {"clamp", "fill"})
    expect_plan(fmt::format(R"(
fn @main(%x: f32[4], %i: u64[9]) {{
  %y = view %x [k: 9] with h = %i[k] in 0..3 {0} -> [h] fill 7
  %c = const u64 18446744073709551614
  %d = view %x [] with h = %c[] in 0..3 {0} -> [h] fill 7
  %z = view %x [k: 4] -> [k]
  %s = scatter sum %z, %y [k: 9] with h = %i[k] in 0..3 {0} -> [h]
  return y = %y, d = %d, s = %s
}}
)",
                            policy));
}

TEST(WrittenModules, ALongChainOfCallsIsCompiled) { EXPECT_EQ(refused(call_chain(3000, 1)), ""); }

TEST(WrittenModules, ConditionsOnRemaindersThatAShortAxisNeverHas) {
  expect_plan(R"(
fn @main(%x: f32[4], %i: u64[1]) {
  %y = view %x [k: 4, j: 1] with h = %i[j] in 0..4 clamp -> [h] where k < 1 fill 1.25
  %z = view %y [k: 3] -> [(k + 3) % 4, 0]
  return z = %z
}
)");
}

/// Views alone make no operation, and still a kernel ends.
TEST(WrittenModules, ALongChainOfViewsIsCompiled) {
  std::string text = "fn @f0(%x: f32[4]) {\n  %y = view %x [i: 4] -> [3 - i]\n  return y = %y\n}\n";
  for (int k = 1; k < 5001; k++)
    text += fmt::format("fn @f{}(%x: f32[4]) {{\n  %c = call @f{}(%x)\n  %d = get %c, 0\n"
                        "  %y = view %d [i: 4] -> [3 - i]\n  return y = %y\n}}\n",
                        k, k - 1);
  EXPECT_EQ(refused(text), "");
}

/// Dimensions have no sizes yet when weights are loaded: what the module assumes of them is asked
/// at the first step.
TEST(WrittenModules, WeightsAreLoadedWhateverIsAssumedOfDimensions) {
  const char* text = R"(
symbol n: 1..4
assume n >= 2
fn @main(weight %w: f32[3], %x: f32[n]) {
  %s = sort %w along 0 descending
  %t = get %s, 0
  %y = neg %x
  return t = %t, y = %y
}
)";
  expect_plan(text, {{"n", 3}});
  const Module module = parse_module(text);
  Bindings bindings = inputs_of(module, {{"n", 1}}, false);
  bindings.inputs.erase("x");
  Running running(module);
  auto context = running.start(module, bindings);
  const auto done = context->run();
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error(), "the dimensions break what the plan was made for: n >= 2 (n = 1)");
}

TEST(WrittenModules, CollectivesOfOneMemberAreTheirOperand) {
  const char* text =
      "fn @main(%x: f32[8]) {{\n  %y = collective {} \"tp:{}\" axis 0 %x\n  return y = %y\n}}\n";
  for (const char* kind : {"all_reduce_sum", "all_gather", "broadcast", "reduce_scatter_sum"})
    expect_plan(fmt::format(fmt::runtime(text), kind, 1));
  EXPECT_EQ(
      refused(fmt::format(fmt::runtime(text), "all_reduce_max", 4)),
      "all_reduce_max over the group tp:4: the other members are other processes, and the device cpu runs "
      "plans of one; a group of one member (\"tp:1\") runs");
}

// ---- indices that a kernel computes ----

/// The index of a gather and the gather are one kernel, since both read the same place: what reads the index
/// must not be an epilogue of the fold that finds it, where nothing is in memory yet.
TEST(WrittenModules, AnIndexThatTheSameKernelFindsIsWrittenBeforeItIsRead) {
  expect_plan(R"(
fn @main(%x: f64[40], %t: f64[40], %m: f64[37]) {
  %w = view %x [i: 37, k: 4] -> [i + k]
  %n = view %m [i: 37, k: 4] -> [i]
  %c = le %n, %w
  %k = iota i64 [i: 37, k: 4] -> k
  %four = iota i64 [i: 37, k: 4] -> 4
  %p = select %c, %k, %four
  %f = fold [i: 37, k: 4] over [k] { min %p[i, k] }
  %h = get %f, 0
  %g = view %t [i: 37] with h0 = %h[i] in 0..3 fill -> [i + h0] fill 0
  return h = %h, g = %g
}
)");
}

/// A hole that no condition reads is not looked at, and may lie along an empty axis.
TEST(WrittenModules, AHoleThatNothingReadsMayBeEmpty) {
  expect_plan(R"(
fn @main(%n: i32[3, 0], %x: f32[3, 4]) {
  %f = fold [i: 3, j: 4, k: 0] over [j] with h0 = %n[i, k] in 0..1 where 0 { sum %x[i, j] }
  %y = get %f, 0
  %g = fold [i: 3, j: 4, k: 0] over [j] with h0 = %n[i, k] in 0..1 where j < 2 { sum %x[i, j] }
  %z = get %g, 0
  return y = %y, z = %z
}
)");
}

TEST(WrittenModules, WiderElementsOfANumberThatIsEverywhere) {
  expect_plan(R"(
fn @main(%x: i8, weight %w: u16) {
  %a = view %x [i: 64] -> []
  %b = bitcast u64 %a
  %c = view %w [i: 3, j: 6] -> []
  %d = bitcast i32 %c
  return b = %b, d = %d
}
)");
}

} // namespace
} // namespace luminal::written_modules
