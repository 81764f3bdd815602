// tests/ir/passes_rules_test.cpp -- what each pass does and what it leaves alone, on texts of a few
// lines.
#include "ir/interp_util.h"
#include "luminal/error.h"
#include "luminal/pass.h"
#include <fmt/format.h>
#include <gmock/gmock.h>

namespace luminal {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing_ir::Case;

Module after(const Pass& pass, std::string_view text) {
  Module m = parse_module(text);
  pass.run(m);
  EXPECT_THAT(verify(m), testing::IsEmpty());
  return m;
}
std::string text_after(const Pass& pass, std::string_view text) { return to_string(after(pass, text)); }
/// What `%y` is in `fn @main(%x: <type>) { <lines> return y = %y }` after the pass and dead code.
std::string result_of(const Pass& pass, const std::string& type, const std::string& lines) {
  const std::string text =
      text_after(pass | passes::dead_code(), "fn @main(%x: " + type + ") {\n" + lines + "\nreturn y = %y }");
  const size_t at = text.find("{\n") + 2, end = text.find("  return");
  std::string body = text.substr(at, end - at), out;
  for (size_t i = 0; i < body.size(); ++i) { // without comments
    if (body[i] == '#')
      i = std::min(body.find('\n', i), body.size()) - 1;
    else
      out += body[i];
  }
  return out + text.substr(text.find("return"));
}

TEST(PassRules, ArithmeticThatIsExactGoes) {
  const Pass exact = passes::arithmetic();
  const std::pair<const char*, const char*> gone[] = {
      {"f32", "%c = const f32 1 %y = mul %c, %x"},
      {"f32", "%c = const f32 1 %y = div %x, %c"},
      {"f32", "%c = const f32 0 %y = sub %x, %c"},
      {"f32", "%c = const f32 -0.0 %y = add %x, %c"},
      {"f32", "%n = neg %x %y = neg %n"},
      {"f32", "%c = const f32 inf %y = min %c, %x"},
      {"f32", "%y = max %x, %x"},
      {"bf16", "%w = cast f32 %x %y = cast bf16 %w"},
      {"f32", "%c = const f32 1 %y = pow %x, %c"},
      {"i32", "%c = const i32 0 %y = add %c, %x"},
      {"u8", "%c = const u8 255 %y = min %x, %c"},
      {"i16", "%w = cast f64 %x %y = cast i16 %w"},
      {"bool", "%n = bit_not %x %y = bit_not %n"},
      {"u32", "%c = const u32 0 %y = shl %x, %c"},
  };
  for (const auto& [type, lines] : gone)
    EXPECT_THAT(result_of(exact, type, lines), HasSubstr("return y = %x")) << lines;
}

TEST(PassRules, ArithmeticThatIsNotExactStays) {
  const std::pair<const char*, const char*> kept[] = {
      {"f32", "%c = const f32 0 %y = add %x, %c"},                  // -0 + 0 is +0
      {"f32", "%c = const f32 -0.0 %y = sub %x, %c"},               // -0 - -0 is +0
      {"f32", "%c = const f32 0 %y = mul %x, %c"},                  // inf * 0
      {"f32", "%y = sub %x, %x"},                                   // inf - inf
      {"f32", "%y = div %x, %x"},                                   // 0 / 0
      {"f32", "%r = recip %x %y = recip %r"},                       // subnormals
      {"f32", "%e = exp2 %x %y = log2 %e"},                         // overflow
      {"f32", "%e = log2 %x %y = exp2 %e"},                         // negative
      {"f32", "%h = cast f16 %x %y = cast f32 %h"},                 // rounded
      {"f32", "%e = eq %x, %x %y = cast f32 %e"},                   // NaN
      {"f32", "%c = const f32 3 %y = div %x, %c"},                  // 1/3 is not a float
      {"f32", "%c = const f32 0x1p-149 %y = div %x, %c"},           // its reciprocal is none either
      {"i32", "%w = cast f64 %x %n = cast i8 %w %y = cast i32 %n"}, // saturates
      {"i32", "%n = cast i8 %x %y = cast i32 %n"},                  // wraps
      {"u8", "%n = neg %x %y = abs %n"},                            // |256 - x|
  };
  for (const auto& [type, lines] : kept) {
    const std::string without = result_of(passes::none(), type, lines);
    EXPECT_EQ(without, result_of(passes::arithmetic(), type, lines));
  }
  for (int i : {0, 1, 5, 6, 7})
    EXPECT_THAT(result_of(passes::arithmetic(Numerics::range), kept[i].first, kept[i].second),
                HasSubstr("return y = %x"))
        << kept[i].second;
  for (int i : {2, 3, 4, 8, 9}) // a NaN is never hidden
    EXPECT_EQ(result_of(passes::none(), kept[i].first, kept[i].second),
              result_of(passes::arithmetic(Numerics::range), kept[i].first, kept[i].second));
}

TEST(PassRules, TwoOperationsBecomeOne) {
  const Pass exact = passes::arithmetic();
  EXPECT_THAT(result_of(exact, "f32", "%c = const f32 8 %y = div %x, %c"),
              testing::AllOf(HasSubstr("const f32 0.125"), HasSubstr("%y = mul %x")));
  EXPECT_THAT(result_of(exact, "f32", "%n = neg %x %s = sin %x %y = add %s, %n"),
              HasSubstr("%y = sub %s, %x"));
  EXPECT_THAT(result_of(exact, "f32", "%y = ne %x, %x"), HasSubstr("%y = is_nan %x"));
  EXPECT_THAT(result_of(exact, "i32", "%c = const i32 4 %l = lt %x, %c %y = bit_not %l"),
              HasSubstr("%y = le %c, %x"));
  EXPECT_THAT(result_of(exact, "f32", "%c = const f32 4 %l = lt %x, %c %y = bit_not %l"),
              HasSubstr("bit_not"));
  EXPECT_THAT(result_of(exact, "i8", "%a = cast i16 %x %y = cast f32 %a"), HasSubstr("%y = cast f32 %x"));
  EXPECT_THAT(result_of(exact, "f32", "%r = round %x %y = floor %r"), HasSubstr("return y = %r"));
}

TEST(PassRules, ConstantsAreComputedAsTheInterpreterDoes) {
  EXPECT_THAT(result_of(passes::constants(), "f32", "%a = const f32 64 %r = rsqrt %a %y = mul %x, %r"),
              HasSubstr("const f32 0.125"));
  // Wraps, saturates, rounds.
  EXPECT_THAT(result_of(passes::constants(), "f32", "%a = const u8 200 %b = const u8 100 %y = add %a, %b"),
              HasSubstr("const u8 44"));
  EXPECT_THAT(result_of(passes::constants(), "f32", "%a = const f32 1e10 %y = cast i8 %a"),
              HasSubstr("const i8 127"));
  // Of any size where it is one number; of few elements where not.
  EXPECT_THAT(result_of(passes::constants(), "f32[9]",
                        "%a = const f32 2 %b = view %a [i: 1000000] -> [] %y = exp2 %b"),
              HasSubstr("const f32 4"));
  EXPECT_THAT(result_of(passes::constants(), "f32",
                        "%a = const i32[3] {1, 2, 3} %f = fold [i: 3] over [i] { sum %a[i] } %y = get %f, 0"),
              HasSubstr("const i32 6"));
  const std::string list = "%a = const i32[3] {1, 2, 3} %y = mul %a, %a";
  EXPECT_THAT(result_of(passes::constants(), "f32", list), HasSubstr("{1, 4, 9}"));
  EXPECT_THAT(result_of(passes::constants(2), "f32", list), HasSubstr("mul"));
  EXPECT_THAT(
      result_of(passes::constants(), "f32", "%a = const i32[3] {1, 2, 3} %y = view %a [i: 3] -> [2 - i]"),
      HasSubstr("{3, 2, 1}"));
}

TEST(PassRules, ChainsOfViewsAreOneView) {
  const Pass views = passes::views();
  EXPECT_THAT(result_of(views, "f32[4, 6]",
                        "%t = view %x [i: 6, j: 4] -> [j, i] %y = view %t [i: 4, j: 6] -> [j, i]"),
              HasSubstr("return y = %x"));
  EXPECT_THAT(result_of(views, "f32[4, 6]",
                        "%t = view %x [i: 24] -> [i // 6, i % 6] %y = view %t [i: 4, j: 6] -> [i * 6 + j]"),
              HasSubstr("return y = %x"));
  const std::string padded = "%p = view %x [i: 8] -> [i - 2] where 2 <= i and i < 6 fill ";
  EXPECT_THAT(result_of(views, "f32[4]", padded + "1 %y = view %p [i: 4] -> [i + 2]"),
              HasSubstr("return y = %x"));
  // Two conditions have one fill, or stay two views.
  EXPECT_THAT(result_of(views, "f32[4]", padded + "1 %y = view %p [i: 8] -> [i] where i < 5 fill 1"),
              Not(HasSubstr("%p =")));
  EXPECT_THAT(result_of(views, "f32[4]", padded + "1 %y = view %p [i: 8] -> [i] where i < 5 fill 2"),
              HasSubstr("%p ="));
  EXPECT_THAT(result_of(views, "f32[4]", padded + "0 %y = view %p [i: 8] -> [i] where i < 5 fill -0.0"),
              HasSubstr("%p ="));
  EXPECT_THAT(result_of(views, "f32[4]", "%n = iota i64 [i: 9] -> 2 * i %y = view %n [i: 4] -> [i + 1]"),
              HasSubstr("%y = iota i64 [i: 4] -> i*2 + 2"));
}

TEST(PassRules, FoldsThatNeedNoLoopGo) {
  const Pass reductions = passes::reductions();
  EXPECT_THAT(
      result_of(reductions, "f32[4, 1]", "%f = fold [i: 4, k: 1] over [k] { max %x[i, k] } %y = get %f, 0"),
      HasSubstr("%y = view %x"));
  // A sum starts from 0: 0 + -0 is +0.
  const std::string sum = "%s = SOURCE %x %f = fold [i: 4, k: 1] over [k] { sum %s[i, k] } %y = get %f, 0";
  auto with = [&](std::string source) { return std::string(sum).replace(sum.find("SOURCE"), 6, source); };
  EXPECT_THAT(result_of(reductions, "f32[4, 1]", with("sin")), HasSubstr("add"));
  EXPECT_THAT(result_of(reductions, "f32[4, 1]", with("sin")), Not(HasSubstr("fold")));
  // Nothing varies along k.
  const std::string spread =
      "%b = view %x [i: 4, k: 9] -> [i] %f = fold [i: 4, k: 9] over [k] { WORD %b[i, k] } %y = get %f, 0";
  auto word = [&](std::string w) { return std::string(spread).replace(spread.find("WORD"), 4, w); };
  EXPECT_THAT(result_of(reductions, "f32[4]", word("max")), HasSubstr("return y = %x"));
  EXPECT_THAT(result_of(reductions, "f32[4]", word("sum")), HasSubstr("fold"));
  EXPECT_THAT(result_of(reductions, "i32[4]", word("sum")), HasSubstr("mul"));
  EXPECT_THAT(result_of(passes::reductions(Numerics::range), "f32[4]", word("sum")), HasSubstr("mul"));
  // Of an empty axis the maximum is -inf, whatever the body says.
  const std::string maybe_empty = text_after(reductions, R"(symbol n: 0..4
    fn @main(%x: f32[4]) { %b = view %x [i: 4, k: n] -> [i] %f = fold [i: 4, k: n] over [k] { max %b[i, k] } %y = get %f, 0 return y = %y })");
  EXPECT_THAT(maybe_empty, HasSubstr("fold"));
}

TEST(PassRules, FoldsOfFoldsAreOneFold) {
  auto nested = [](std::string word) {
    return "%f = fold [i: 4, j: 5, k: 6] over [k] { " + word + " %x[i, j, k] } %a = get %f, 0 " +
           "%g = fold [i: 4, j: 5] over [j] { " + word + " %a[i, j] } %y = get %g, 0";
  };
  const std::string joined = "fold [i0: 4, i1: 5, i2: 6] over [i1, i2]";
  EXPECT_THAT(result_of(passes::reductions(), "f32[4, 5, 6]", nested("max")), HasSubstr(joined));
  EXPECT_THAT(result_of(passes::reductions(), "i32[4, 5, 6]", nested("sum")), HasSubstr(joined));
  EXPECT_THAT(result_of(passes::reductions(), "f32[4, 5, 6]", nested("sum")), Not(HasSubstr(joined)));
  EXPECT_THAT(result_of(passes::reductions(Numerics::reassoc), "f32[4, 5, 6]", nested("sum")),
              HasSubstr(joined));
  // The inner result is read elsewhere, too: it is computed anyway.
  EXPECT_THAT(text_after(passes::reductions(), R"(fn @main(%x: f32[4, 5]) {
      %f = fold [i: 4, j: 5] over [j] { max %x[i, j] } %a = get %f, 0
      %g = fold [i: 4] over [i] { max %a[i] } %y = get %g, 0 return y = %y, a = %a })"),
              HasSubstr("fold [i: 4] over"));
}

TEST(PassRules, AFoldMakesItsResultInTheOrderInWhichItIsRead) {
  const auto turned = [](const std::string& rest) {
    return "%f = fold [m: 4, n: 3, k: 5] over [m] { sum %x[m, n, k] }\n%g = get %f, 0\n" + rest;
  };
  const std::string view = "%y = view %g [k: 5, n: 3] -> [n, k]";
  const std::string made = result_of(passes::defaults(), "f32[4, 3, 5]", turned(view));
  EXPECT_THAT(made, HasSubstr("[m: 4, k: 5, n: 3] over [m]"));
  EXPECT_THAT(made, HasSubstr("return y = %y"));
  // Others read it as it was, or it is read in another way.
  for (const std::string& rest :
       {std::string(
            "%v = view %g [k: 5, n: 3] -> [n, k]\n%w = view %g [k: 5, n: 3] -> [n, 4 - k]\n%y = add %v, %w"),
        std::string("%y = view %g [k: 5, n: 3] -> [n, 4 - k]"), std::string("%y = view %g [n: 3] -> [n, 2]")})
    EXPECT_THAT(result_of(passes::defaults(), "f32[4, 3, 5]", turned(rest)),
                HasSubstr("[m: 4, n: 3, k: 5] over [m]"))
        << rest;
  Case c("fn @main(%x: f32[4, 3, 5]) {\n" + turned(view) + "\nreturn y = %y }");
  std::vector<double> values;
  for (int i = 0; i < 60; ++i) values.push_back(1 / (i + 0.3)); // sums depend on their order
  c.with("x", testing_ir::tensor(DType::f32, {4, 3, 5}, values));
  const std::vector<double> want = c.get();
  passes::defaults().run(c.module);
  EXPECT_EQ(c.get(), want);
}

TEST(PassRules, AnAxisThatJoinsAxesOfUnknownLengthsBecomesThese) {
  const auto product = [](const std::string& rows) {
    return R"(symbol A: 1..8
      symbol B: 1..8
      symbol C: 1..8
      symbol D: 1..8
      symbol N: 1..8
      fn @main(%x: f32[)" +
           rows + R"(, %y: f32[C*D, N]) {
        %q = view %y [m: A*B, n: N, k: C*D] -> [k, n]
        %t = mul %p, %q
        %f = fold [m: A*B, n: N, k: C*D] over [k] { sum %t[m, n, k] }
        %g = get %f, 0
        %r = view %g [i: A, j: B, n: N] -> [i*B + j, n]
        return r = %r
      })";
  };
  // x[i, c, j, d]: rows and the summed axis each join two axes between which others lie
  const std::string text = product("A, C, B, D]");
  std::string apart = text;
  apart.insert(apart.find("        %q"),
               "        %p = view %x [m: A*B, n: N, k: C*D] -> [m // B, k // D, m % B, k % D]\n");
  Module m = after(passes::defaults(), apart);
  const std::string made = to_string(m);
  EXPECT_THAT(made, HasSubstr("fold [m0: A, m1: B, n: N, k0: C, k1: D] over [k0, k1]"));
  EXPECT_THAT(made, HasSubstr("-> [i0, i3, i1, i4]"));
  EXPECT_THAT(made, Not(HasSubstr("//")));
  EXPECT_EQ(NodeKind::get, m.entry()[m.entry().results[0].value].kind) << made;
  // x[i, j, c, d]: what is joined lies so
  std::string together = product("A, B, C, D]");
  together.insert(together.find("        %q"),
                  "        %p = view %x [m: A*B, n: N, k: C*D] -> [m // B, m % B, k // D, k % D]\n");
  EXPECT_THAT(to_string(after(passes::defaults(), together)),
              HasSubstr("fold [m: A*B, n: N, k: C*D] over [k]"));

  testing_ir::Case c(apart);
  std::vector<double> x, y;
  for (int i = 0; i < 3 * 2 * 4 * 5; ++i) x.push_back(1 / (i + 0.3)); // sums depend on their order
  for (int i = 0; i < 2 * 5 * 6; ++i) y.push_back(1 / (i + 0.7));
  c.bindings.symbols = {{"A", 3}, {"B", 4}, {"C", 2}, {"D", 5}, {"N", 6}};
  c.with("x", testing_ir::tensor(DType::f32, {3, 2, 4, 5}, x));
  c.with("y", testing_ir::tensor(DType::f32, {10, 6}, y));
  const std::vector<double> want = c.get("r");
  passes::defaults().run(c.module);
  EXPECT_EQ(c.get("r"), want);
}

TEST(PassRules, EqualFunctionsAndResultsBecomeOne) {
  const Module m = after(passes::common_subexpressions() | passes::dead_code(), R"(
    fn @a(%p: f32[8], %q: f32[8]) { %s = mul %p, %q %t = tanh %s return u = %t, v = %t }
    fn @b(%r: f32[8], %s: f32[8]) { %m = mul %r, %s %t = tanh %m return u = %t, v = %t }
    fn @main(%x: f32[8], %w: f32[8]) {
      %c = call @a(%x, %w) %d = call @b(%x, %w)
      %0 = get %c, 0 %1 = get %c, 1 %2 = get %d, 1
      %y = add %0, %1 %z = add %1, %2 return y = %y, z = %z })");
  ASSERT_EQ(2u, m.functions.size());
  EXPECT_EQ(1u, m.functions[0].results.size());
  const std::string text = to_string(m);
  EXPECT_THAT(text, Not(HasSubstr("get %c, 1")));
  EXPECT_EQ(m.entry().results[0].value, m.entry().results[1].value);
}

/// A tuple ends with the last component that is read; what earlier ones need stays.
TEST(PassRules, TuplesEndWhereNobodyReadsOn) {
  const auto result = [](int read) {
    return to_string(after(passes::dead_code(), fmt::format(R"(
    fn @main(%x: f32[4, 9], %y: f32[4, 9], %z: f32[4, 9]) {{
      %s = scan [i: 4, k: 9] along k {{
        max %x[i, k];
        sum(self * exp2(old0 - new0)) %y[i, k];
        max %z[i, k]
      }}
      %r = get %s, {}
      return r = %r
    }})",
                                                            read)));
  };
  EXPECT_THAT(result(0), testing::AllOf(HasSubstr("{ max %x[i, k] }"), Not(HasSubstr("%y[i, k]"))));
  EXPECT_THAT(result(1),
              testing::AllOf(HasSubstr("max %x[i, k]"), HasSubstr("%y[i, k]"), Not(HasSubstr("%z[i, k]"))));
  EXPECT_THAT(result(2),
              testing::AllOf(HasSubstr("max %x[i, k]"), HasSubstr("%y[i, k]"), HasSubstr("%z[i, k]")));
}

TEST(PassRules, WhatNobodyReadsGoes) {
  const Module m = after(passes::dead_code(), R"(
    fn @unused(%p: f32) { %t = tanh %p return t = %t }
    fn @step(%t: i64, %h: f32[8], %lost: f32[8], %x: f32[8], %never: f32[8], %w: f32[8]) {
      %p = mul %h, %w
      %n = add %p, %x
      %l = add %lost, %lost
      return h = %n, lost = %l, y = %n, z = %l
    }
    fn @f(%a: f32[8], %b: f32[8]) { %u = sin %a %v = cos %b return u = %u, v = %v }
    fn @main(%h: f32[8], %xs: f32[3, 8], %ys: f32[3, 8], %w: f32[8]) {
      %loop = loop @step count 3 carried (%h, %w) stepped (%xs, %ys) given (%w)
      %last = get %loop, 0
      %all = get %loop, 2
      %c = call @f(%last, %w)
      %u = get %c, 0
      return u = %u, all = %all
    })");
  const std::string text = to_string(m);
  EXPECT_EQ(nullptr, m.find("unused"));
  EXPECT_THAT(text, HasSubstr("fn @step(%t: i64, %h: f32[8], %x: f32[8], %w: f32[8])"));
  EXPECT_THAT(text, HasSubstr("return h = %n, y = %n"));
  EXPECT_THAT(text, HasSubstr("carried (%h) stepped (%xs) given (%w)"));
  EXPECT_THAT(text, HasSubstr("get %loop, 1"));
  EXPECT_THAT(text, HasSubstr("call @f(%last)"));
  EXPECT_THAT(text, Not(HasSubstr("cos")));
}

TEST(PassRules, EffectsStayWhereTheyAre) {
  const char* text = R"(
    fn @says(%a: f32[2], %b: f32[2]) { %n = host print "a" (%a) %s = get %n, 0 %o = host print "b" (%b) %t = get %o, 0 return s = %s, t = %t }
    fn @main(%x: f32[2]) { %c = call @says(%x, %x) %y = get %c, 0 return y = %y })";
  EXPECT_EQ(to_string(parse_module(text)), text_after(passes::defaults() | passes::depth_first(), text));
}

TEST(PassRules, NothingMovesAcrossAFence) {
  const char* text = R"(fn @main(%x: f32[2]) {
      %n = neg %x %f = fence %n %y = neg %f
      %h = host print "a" (%y) %s = get %h, 0 %g = fence %s %z = exp %g return y = %y, z = %z })";
  for (const Pass& pass : all_passes()) {
    const std::string got = text_after(pass, text);
    EXPECT_THAT(got, testing::AllOf(HasSubstr("fence %n"), HasSubstr("neg %f"), HasSubstr("host print"),
                                    HasSubstr("exp %g")))
        << pass.name();
  }
}

TEST(PassRules, DepthFirstNeedsLessMemory) {
  std::string text = "fn @main(%x: f32[1000]) {\n";
  for (int k = 0; k < 8; ++k)
    text += "%a" + std::to_string(k) + (k % 2 ? " = sin " : " = cos ") +
            (k < 2 ? "%x" : "%a" + std::to_string(k - 2)) + "\n";
  for (int k = 0; k < 8; ++k)
    text += "%f" + std::to_string(k) + " = fold [i: 1000] over [i] { sum %a" + std::to_string(k) +
            "[i] } %s" + std::to_string(k) + " = get %f" + std::to_string(k) + ", 0\n";
  text += "return ";
  for (int k = 0; k < 8; ++k) text += (k ? ", r" : "r") + std::to_string(k) + " = %s" + std::to_string(k);
  Module m = parse_module(text + " }");
  const double before = peak_bytes(m);
  EXPECT_GT(passes::depth_first().run(m), 0);
  EXPECT_THAT(verify(m), testing::IsEmpty());
  EXPECT_LT(peak_bytes(m), before / 2);
  EXPECT_EQ(0, passes::depth_first().run(m)) << "nothing is left to gain";
}

TEST(PassRules, ComposedPasses) {
  auto table = std::make_shared<PassTable>();
  Module m = parse_module(
      "fn @main(%x: f32) { %a = neg %x %b = neg %a %c = const f32 1 %y = mul %b, %c return y = %y }");
  const Pass both = passes::arithmetic() | passes::dead_code() | passes::none();
  EXPECT_EQ("arithmetic,dead-code,none", both.name());
  EXPECT_GT(timed(both, table).run(m), 0);
  ASSERT_EQ(3u, table->rows.size());
  EXPECT_EQ("arithmetic", table->rows[0].name);
  EXPECT_EQ(5, table->rows[0].nodes_before);
  EXPECT_EQ(1, table->rows[0].nodes_after);
  EXPECT_EQ(0, table->rows[2].changes);
  EXPECT_THAT(table->to_string(), HasSubstr("pass "));
  int runs = 0;
  const Pass three("three", "three times", [&](Module&) -> int64_t { return ++runs % 100 < 3; });
  Module other = parse_module("fn @main(%x: f32) { return y = %x }");
  EXPECT_EQ(2, looped(three).run(other));
  EXPECT_EQ(3, runs);
  const Pass forever("forever", "never settles", [&](Module&) -> int64_t { return 1; });
  EXPECT_EQ(5, looped(forever, 5).run(other));
  EXPECT_EQ("views,arithmetic-range", parse_passes("views,arithmetic-range").name());
  EXPECT_THAT(
      [] { parse_passes("views,vews"); },
      testing::ThrowsMessage<Error>(HasSubstr("there is no pass 'vews'; the passes are cse, dead-code")));
  EXPECT_THROW(Pass("two words", "", [](Module&) -> int64_t { return 0; }), Error);
}

TEST(PassRules, AnAxisMayHaveTheNameOfADimension) {
  const char* text =
      "symbol n: 1..9 fn @main(%x: f32[n, 4]) { %y = view %x [m: n, n: 4] -> [m, n] return y = %y }";
  const Module m = parse_module(text);
  EXPECT_TRUE(same_module(m, parse_module(to_string(m))));
  EXPECT_THAT(to_string(after(passes::views() | passes::dead_code(), text)), HasSubstr("return y = %x"));
}

TEST(PassRules, TextPassesKeepTheInterface) {
  const Module m = parse_module("fn @main(%x: f32[4]) { %y = sin %x return y = %y }");
  auto replaced = [&](std::string from, std::string to) {
    Module copy = m;
    text_pass("mine", "a user's", [=](const std::string& t) {
      return std::string(t).replace(t.find(from), from.size(), to);
    }).run(copy);
    return to_string(copy);
  };
  EXPECT_THAT(replaced("sin", "cos"), HasSubstr("cos"));
  EXPECT_THAT([&] { replaced("y = %y", "z = %y"); },
              testing::ThrowsMessage<Error>(HasSubstr("mine has changed result y")));
  EXPECT_THAT([&] { replaced("sin %x", "sinh %x"); },
              testing::ThrowsMessage<Error>(HasSubstr("mine:2:8: there is no operation 'sinh'")));
  EXPECT_THAT([&] { replaced("sin %x", "cast f16 %x"); },
              testing::ThrowsMessage<Error>(HasSubstr("mine has made result y f16[4], it was f32[4]")));
  Module broken = m;
  const Pass breaks("breaks", "leaves a wrong type", [](Module& mod) -> int64_t {
    mod.functions[0].nodes[NodeId(1)].types[0].dtype = DType::f16;
    return 1;
  });
  EXPECT_THAT([&] { checked(breaks).run(broken); },
              testing::ThrowsMessage<Error>(HasSubstr("breaks has made a module that is not well formed")));
}

/// A result of the function that is made of a sum of products of narrow numbers, by maps and casts that
/// nobody else reads, has it made in its own order; axes of one element are like others.
TEST(PassRules, SumsOfNarrowProductsLieAsResultsDo) {
  const auto read = [](const std::string& type, const std::string& lines) {
    return result_of(
        passes::defaults(), type + "[1, 5, 7, 3]",
        "%v = view %x [z: 1, n: 5, k: 7, j: 3] -> [z, n, k, 2 - j] %c = cast f32 %x %d = cast f32 %v "
        "%p = mul %c, %d %f = fold [z: 1, n: 5, k: 7, j: 3] over [k] { sum %p[z, n, k, j] } "
        "%g = get %f, 0 " +
            lines);
  };
  const auto turned =
      testing::ContainsRegex("fold \\[[a-z0-9]+: 1, [a-z0-9]+: 3, [a-z0-9]+: 5, [a-z0-9]+: 7\\]");
  const std::string view = " [z: 1, j: 3, n: 5] -> [z, n, j]";
  EXPECT_THAT(read("bf16", "%y = view %g" + view), turned);
  EXPECT_THAT(read("f16", "%a = abs %g %y = view %a" + view), turned);
  EXPECT_THAT(read("bf16", "%a = abs %g %h = cast bf16 %a %e = neg %h %y = view %e" + view), turned);
  EXPECT_THAT(
      result_of(passes::defaults(), "bf16[1, 5, 7, 3]",
                "%v = view %x [z: 1, n: 5, k: 7, j: 3] -> [0, n, k, 2 - j] %c = cast f32 %x %d = cast f32 %v "
                "%p = mul %c, %d %q = view %p [n: 5, k: 7, j: 3] -> [0, n, k, j] "
                "%f = fold [n: 5, k: 7, j: 3] over [k] { sum %q[n, k, j] } %g = get %f, 0 %a = abs %g "
                "%y = view %a [j: 3, n: 5] -> [n, j]"),
      testing::ContainsRegex("fold \\[[a-z0-9]+: 3, [a-z0-9]+: 5, [a-z0-9]+: 7\\]"));
  // Somebody else reads it as it is; it is not a result; its numbers are not narrow.
  const auto as_it_was = HasSubstr("fold [z: 1, n: 5, k: 7, j: 3]");
  EXPECT_THAT(read("bf16", "%a = abs %g %t = view %a" + view +
                               " %u = view %a [z: 1, j: 3, n: 5] -> [0, n, 0] %y = add %t, %u"),
              as_it_was);
  EXPECT_THAT(read("bf16", "%a = add %g, %g %y = view %a" + view), as_it_was);
  EXPECT_THAT(read("bf16", "%a = abs %g %t = view %a" + view + " %q = sort %t along 2 %y = get %q, 0"),
              as_it_was);
  EXPECT_THAT(read("f32", "%a = abs %g %y = view %a" + view), as_it_was);
}

/// A maximum that is a component of another fold is read there, whichever comes first.
TEST(PassRules, FoldsThatATupleComputesToo) {
  const auto text = [](const std::string& body) {
    return text_after(passes::defaults(),
                      "fn @main(%x: f32[3, 7]) {\n  %i = iota i64 [b: 7] -> b\n  %n = neg %x\n" + body +
                          "  return v = %v, w = %w, p = %p\n}");
  };
  const std::string tuple = "  %t = fold [a: 3, b: 7] over [b] { max %x[a, b]; "
                            "min(select(old0 == new0, self, inf)) %i[b] }\n"
                            "  %w = get %t, 0\n  %p = get %t, 1\n";
  const auto one = [](const char* of) {
    return fmt::format("  %m = fold [a: 3, b: 7] over [b] {{ max %{}[a, b] }}\n  %v = get %m, 0\n", of);
  };
  EXPECT_THAT(text(one("x") + tuple), Not(HasSubstr("{ max")));
  EXPECT_THAT(text(tuple + one("x")), Not(HasSubstr("{ max")));
  EXPECT_THAT(text(tuple + one("n")), HasSubstr("{ max")); // other values
}

/// Indices that were expanded are read along the axes that they had; an axis that may have no elements stays.
TEST(PassRules, IndicesLoseAxesAlongWhichTheyAreTheSame) {
  const auto text = [](const char* extent, const char* symbol) {
    return text_after(passes::defaults(), fmt::format(R"({1}
fn @main(%x: f32[9, {0}], %i: i32[5], %base: f32[9, {0}], %u: f32[5, {0}]) {{
  %w = cast i64 %i
  %e = view %w [a: 5, b: {0}] -> [a]
  %g = view %x [a: 5, b: {0}] with h0 = %e[a, b] in 0..8 -> [h0, b]
  %s = scatter sum %base, %u [a: 5, b: {0}] with h0 = %e[a, b] in 0..8 -> [h0, b]
  return g = %g, s = %s
}})",
                                                      extent, symbol));
  };
  EXPECT_THAT(text("4", ""), Not(HasSubstr("[a, b] in 0..8")));
  EXPECT_THAT(text("N", "symbol N: 1..6"), Not(HasSubstr("[a, b] in 0..8")));
  EXPECT_THAT(text("N", "symbol N: 0..6"), HasSubstr("[a, b] in 0..8"));
}

/// Indices that are made of places and numbers are expressions: rolls, reflected and repeated edges, rows
/// that are counted through. What may leave its range, or an extent that is not known, stays.
TEST(PassRules, IndicesThatAreKnownAreExpressions) {
  const auto text = [](const std::string& lines, const char* extent = "9") {
    return text_after(passes::defaults(), fmt::format(R"(symbol N: 1..9
fn @main(%x: f32[4, {}], %i: i64[12]) {{
  %p = iota i64 [a: 12] -> a
  %c0 = const i64 0
  %n0 = view %c0 [a: 12] -> []
  %c3 = const i64 3
  %n3 = view %c3 [a: 12] -> []
  %c8 = const i64 8
  %n8 = view %c8 [a: 12] -> []
  %c9 = const i64 9
  %n9 = view %c9 [a: 12] -> []
  {}
  %g = view %x [b: 4, a: 12] with h0 = %y[a] in 0..8 -> [b, h0]
  return g = %g
}})",
                                                      extent, lines));
  };
  EXPECT_THAT(text("%s = add %p, %n3 %y = rem %s, %n9"), HasSubstr("-> [b, (a + 3) % 9]"));
  EXPECT_THAT(text("%s = sub %p, %n3 %t = max %s, %n0 %y = min %t, %n8"), Not(HasSubstr("with h0")));
  const std::string reflected = "%s = sub %p, %n3 %t = abs %s %d = sub %n8, %t %e = abs %d %y = sub %n8, %e";
  EXPECT_THAT(text(reflected), Not(HasSubstr("with h0")));
  EXPECT_THAT(text(reflected + " %under = lt %p, %n0 %up = add %p, %n9"), Not(HasSubstr("with h0")));
  EXPECT_THAT(text("%s = rem %p, %n9 %b = lt %s, %n0 %w = add %s, %n9 %y = select %b, %w, %s"),
              HasSubstr("-> [b, a % 9]"));
  EXPECT_THAT(text("%s = rem %p, %n9 %k = cast u8 %s %y = cast i64 %k"), HasSubstr("-> [b, a % 9]"));
  EXPECT_THAT(text("%y = add %p, %n0"), HasSubstr("with h0"));                         // up to 11
  EXPECT_THAT(text("%s = rem %p, %n9 %y = add %i, %s"), HasSubstr("with h0"));         // of an argument
  EXPECT_THAT(text("%y = rem %p, %n9", "N"), HasSubstr("with h0"));                    // N may be 1
  EXPECT_THAT(text("%b = lt %p, %n3 %y = select %b, %n0, %n8"), HasSubstr("with h0")); // a choice
}

/// What is updated along a middle axis, brought to the front for that, lies as it did before.
TEST(PassRules, ScattersThatAreReadInAnotherOrderOfAxes) {
  const auto text = [](const std::string& index, const char* results = "y = %y") {
    return text_after(passes::defaults(),
                      fmt::format(R"(fn @main(%x: f32[2, 9, 1, 4], %i: i64[3], %u: f32[3, 2, 4]) {{
  %k = iota i64 [k: 3] -> k*2
  %f = view %x [a: 9, o: 1, b: 2, c: 4] -> [b, a, 0, c]
  %s = scatter set %f, %u [k: 3, b: 2, c: 4] with h0 = {}[k] in 0..8 -> [h0, 0, b, c]
  %y = view %s [b: 2, a: 9, o: 1, c: 4] -> [a, 0, b, c]
  return {}
}})",
                                  index, results));
  };
  EXPECT_THAT(text("%i"), HasSubstr("scatter set %x, %u"));
  EXPECT_THAT(text("%i"), HasSubstr("-> [b, h0, 0, c]"));
  EXPECT_THAT(text("%k"), HasSubstr("-> [b, k*2, 0, c]")) << "the places are known";
  EXPECT_THAT(text("%i", "y = %y, s = %s"), HasSubstr("scatter set %f, %u")) << "not twice";
}

/// Backwards there and back is a scan the other way round.
TEST(PassRules, ScansOfReversedValues) {
  const std::string text = text_after(passes::defaults(), R"(fn @main(%x: f32[3, 7]) {
  %r = view %x [a: 3, b: 7] -> [a, 6 - b]
  %w = cast f64 %r
  %s = scan [a: 3, b: 7] along b { sum %w[a, b] }
  %g = get %s, 0
  %n = cast f32 %g
  %y = view %n [a: 3, b: 7] -> [a, 6 - b]
  return y = %y
})");
  EXPECT_THAT(text, HasSubstr("reverse")) << text;
  EXPECT_THAT(text, Not(HasSubstr("view"))) << text;
}

} // namespace
} // namespace luminal
