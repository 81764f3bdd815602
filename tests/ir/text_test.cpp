// tests/ir/text_test.cpp -- modules as text: what is printed is read back to an equal module;
// mistakes are told with their place.
#include "ir/term.h"
#include "luminal/error.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace luminal::text_test {
namespace {

using testing::HasSubstr;

/// Every kind of node once or more.
constexpr std::string_view everything = R"(
symbol S: 1..512
symbol past: 0..511
symbol wide: 0..inf multiple 16
assume past + S <= 512

fn @step(%t: i64, %h: f32[8], %x: f32[8], %w: f32[8]) {
  %a = add %h, %x
  %b = mul %a, %w
  return h = %b, y = %a
}
fn @positive(%h: f32[8], %w: f32[8]) {
  %s = fold [i: 8] over [i] { sum %h[i] }
  %v = get %s, 0
  %z = const f32 0
  %p = gt %v, %z
  return p = %p
}
fn @twice(%x: f32[8]) {
  %y = add %x, %x
  return y = %y
}
fn @same(%x: f32[8]) {
  %y = fence %x
  return y = %y
}
fn @main(%x: f32[S, 64], weight %w "blk.0/weight": f32[64, 172], state %cache: f16[512, 64], %ids: i32[S], %table: f32[512, 64],
         %key: u32[2], %h: f32[8], %xs: f32[10, 8], %p: bool, %q: u8[4, 18]) {
  %a = view %x [m: S, n: 172, k: 64] -> [m, k]
  %b = view %w [m: S, n: 172, k: 64] -> [k, n]
  %prod = mul %a, %b
  %s = fold [m: S, n: 172, k: 64] over [k] { sum %prod[m, n, k] }
  %y = get %s, 0
  %g = view %table [t: S, d: 64] with row = %ids[t] in 0..511 -> [row, d]
  %g2 = view %table [t: S, d: 64] with h0 = %ids[t] in 0..511 clamp, h1 = %ids[t] in 0..63 fill -> [h0, h1] where d != 3 fill -1.5
  %pad = view %x [i: S + 2, j: 64] -> [i - 1, j] where 1 <= i and i < S + 1 fill -inf
  %xh = cast f16 %x
  %u = scatter set %cache, %xh [i: S, j: 64] -> [past + i, j] unique
  %u2 = scatter sum %cache, %xh [i: S, j: 64] with r = %ids[i] in 0..511 -> [r, j] where i != 2
  %c = const f32 0.1
  %d = const f32[3] {1, -2.5, inf}
  %e = const bool 1
  %big = iota i64 [i: S, j: 4] -> i * 4 + j % 3
  %mask = iota bool [i: S, j: S] -> j <= i
  %r = random f32 %key [i: S, j: 4] -> i * 4 + j + past
  %sc = view %x [q: S, k: S] -> [q, k % 64]
  %one = const f32 1
  %f = fold [q: S, k: S, e: 64] over [k] where k <= q { max %sc[q, k]; sum(select(old0 == -inf, 0, self * exp2(old0 - new0))) %one[]; sum(select(old0 == -inf, 0, self * exp2(old0 - new0))) %x[k, e] }
  %l = get %f, 1
  %o = get %f, 2
  %cum = scan [t: S, d: 64] along t exclusive reverse { sum %x[t, d] }
  %cs = get %cum, 0
  %big2 = view %big [i: S] -> [i, 1]
  %srt = sort %big2, %ids along 0 descending
  %s0 = get %srt, 0
  %s1 = get %srt, 1
  %bits = bitcast u32 %x
  %half = bitcast f16 %q
  %coll = collective all_gather "tp:4" axis 1 %x
  %call = call @twice(%h)
  %c0 = get %call, 0
  %w8 = view %c [i: 8] -> []
  %lp = loop @step count 10 while @positive carried (%h) stepped (%xs) given (%w8)
  %l0 = get %lp, 0
  %l1 = get %lp, 1
  %l2 = get %lp, 2
  %cond = cond %p then @twice else @same (%h)
  %k0 = get %cond, 0
  %host = host print "logits \"now\"" (%y) -> (f32[S, 172])
  %hv = get %host, 0
  %cust = custom my_kernel grid [S, 4] { cuda: "x[i] = {a};"; metal: "y" } (%y) -> (f32[S], i8[3])
  %cv = get %cust, 1
  %fen = fence %y
  return y = %fen, cache_next = %u2 -> cache after (y, "a b"), "a b" = %hv, u = %u, l = %l, o = %o, cs = %cs, s0 = %s0, s1 = %s1, bits = %bits, half = %half,
    coll = %coll, c0 = %c0, l0 = %l0, l1 = %l1, l2 = %l2, k0 = %k0, cv = %cv, g = %g, g2 = %g2, pad = %pad, d = %d, e = %e, mask = %mask, r = %r
}
)";

TEST(Text, EverythingComesBack) {
  Module module = parse_module(everything, "all.lir");
  EXPECT_THAT(verify(module), testing::IsEmpty());
  std::string text = to_string(module);
  Module again = parse_module(text, "again.lir");
  EXPECT_TRUE(same_module(module, again)) << text << "\n-----\n" << to_string(again);
  EXPECT_EQ(text, to_string(again));
  for (std::string_view part : {"symbol S: 1..512", "symbol wide: 0..inf multiple 16",
                                "%a = view %x [m: S, n: 172, k: 64] -> [m, k]  # f32[S, 172, 64]",
                                "weight %w \"blk.0/weight\": f32[64, 172]",
                                "%g = view %table [t: S, d: 64] with h0 = %ids[t] in 0..511 -> [h0, d]",
                                "fill -inf", "%d = const f32[3] {1, -2.5, inf}", "%c = const f32 0.1",
                                "over [k] where k <= q {\n      max %sc[q, k];\n      sum(select(old0 == "
                                "-inf, 0, self * exp2(old0 - new0))) %one[];",
                                "scan [t: S, d: 64] along t exclusive reverse { sum %x[t, d] }",
                                "loop @step count 10 while @positive carried (%h) stepped (%xs) given (%w8)",
                                "cache_next = %u2 -> cache after (y, \"a b\")", "%p = lt %z, %v"})
    EXPECT_THAT(text, HasSubstr(part));
}

TEST(Text, NamesAreForPeople) {
  Module module = parse_module(everything);
  Module plain = module;
  for (Function& f : plain.functions)
    for (Node& n : f.nodes) n.name.clear(), n.axis_names.clear();
  EXPECT_TRUE(same_module(module, plain));
  EXPECT_EQ(structural_hash(module.entry()), structural_hash(plain.entry()));
  std::string text = to_string(plain);
  EXPECT_TRUE(same_module(module, parse_module(text))) << text;
  EXPECT_THAT(text, HasSubstr("weight %1 \"blk.0/weight\": f32[64, 172]")) << "inputs keep their names";
}

TEST(Text, HashesTellFunctionsApart) {
  Module a = parse_module("fn @f(%x: f32[4]) {\n  %y = add %x, %x\n  return y = %y\n}\n");
  Module b = parse_module("fn @f(%x: f32[4]) {\n  %y = mul %x, %x\n  return y = %y\n}\n");
  Module c = parse_module("fn @f(%x: f32[5]) {\n  %y = add %x, %x\n  return y = %y\n}\n");
  EXPECT_NE(structural_hash(a.entry()), structural_hash(b.entry()));
  EXPECT_NE(structural_hash(a.entry()), structural_hash(c.entry()));
  EXPECT_FALSE(same_module(a, b));
}

TEST(Text, LargeConstantsKeepEveryBit) {
  for (DType type : {DType::f32, DType::bf16, DType::i4, DType::f8e4m3, DType::u64, DType::boolean}) {
    for (int64_t count : {1, 3, 64, 65, 1000}) {
      std::vector<std::byte> data(size_t(storage_bytes(type, count)));
      for (size_t i = 0; i < data.size(); ++i)
        data[i] = std::byte(type == DType::boolean ? i % 2 : (i * 37 + 11) & 255);
      if (type == DType::i4 && count % 2) data.back() &= std::byte(0x0F);
      FunctionBuilder b("f");
      b.result("y", b.constant(TensorType{type, {count}}, data));
      Module module;
      module.functions.push_back(b.finish());
      std::string text = to_string(module);
      EXPECT_TRUE(same_module(module, parse_module(text))) << text;
    }
  }
}

struct Mistake {
  std::string_view text, message;
};
TEST(Text, MistakesNameTheirPlace) {
  const std::string head = "fn @main(%x: f32[4, 3], %y: f32[5, 2], %i: i32[4]) {\n  ";
  auto message = [&](std::string_view body, bool whole = false) -> std::string {
    try {
      parse_module(whole ? std::string(body) : head + std::string(body) + "\n  return r = %r\n}\n", "m.lir");
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  for (Mistake m : {
           Mistake{"%r = add %x, %y", "m.lir:2:8: [add] shapes differ: [4, 3] x [5, 2]"},
           {"%r = add %x, %i", "[add] shapes differ"},
           {"%r = frob %x", "2:8: there is no operation 'frob'"},
           {"%r = neg %z", "2:12: there is no %z before this place"},
           {"%r = neg %x, %x", "[neg] expected 1 input, found 2"},
           {"%r = view %x [a: 4, b: 3] -> [a]", "[view] the map has 1 indices for f32[4, 3]"},
           {"%r = view %x [a: 4, b: 3] -> [b, a]", "[view] the index i0 leaves axis 1 of extent 3"},
           {"%r = view %x [a: 4, a: 3] -> [a, a]", "'a' exists already"},
           {"%r = view %x [a: 4, b: 3] -> [a, c]", "c"},
           {"%r = view %x [i1: 4] -> [i1, 0]", "'i1' cannot name axis 0"},
           {"%r = view %x [a: 4] with h = %y[a] in 0..2 -> [a, h]",
            "hole 0 must be filled by integers, found f32"},
           {"%r = view %x [a: 5] with h = %i[a] in 0..2 -> [0, h]",
            "[view] hole 0: shapes differ: [4] x [5]"},
           {"%s = fold [a: 4, b: 3] over [b] { frob %x[a, b] }", "'frob' does not fold"},
           {"%s = fold [a: 4, b: 3] over [b] { max(old0) %x[a, b] }", "neither an operation nor one of self"},
           {"%s = fold [a: 4, b: 3] over [c] { max %x[a, b] }", "'c' is none of the axes"},
           {"%s = fold [a: 4, b: 5] over [b] { max %x[a, b] }",
            "[fold] body 0: shapes differ: [4, 3] x [4, 5]"},
           {"%s = fold [a: 4, b: 3] over [b] { max %x[a, b] }\n  %r = neg %s",
            "[neg] the results of fold are read by get"},
           {"%s = fold [a: 4, b: 3] over [b] { max %x[a, b] }\n  %r = get %s, 1", "[get] result 1 of 1"},
           {"%r = bitcast f64 %x", "[bitcast] f32[4, 3] to f64: the last axis must be a multiple of 2"},
           {"%r = const f32[3] {1, 2}", "[const] f32[3] needs 12 bytes, found 8"},
           {"%r = const u8 256", "the number does not fit u8"},
           {"%r = const f32[2] base64 \"AAAA!AAA\" hash 0x1", "this is not a base64 text"},
           {"%r = const f32[2] base64 \"AAAAAAAAAAA=\" hash 0x1", "the hash does not fit the data"},
           {"%r = const f32[9223372036854775807, 4] {1}", "is not possible"},
           {"%r = scatter set %x, %x [a: 4, b: 3] -> [a, b + 1]",
            "[scatter] the index i1 + 1 leaves axis 1 of extent 3"},
           {"%r = sort %x along 2", "[sort] axis 2 of [4, 3]"},
           {"%r = call @nothing(%x)", "there is no function @nothing before this one"},
           {"%r = cast f31 %x", "'f31' is not a type"},
           {"%x = neg %x", "%x exists already"},
           {"%r: f32[4] = neg %x", "%r is f32[4, 3], stated is f32[4]"},
           {"%r = random f32 %x [a: 4] -> a", "the key is f32[4, 3], expected u32[2]"},
       })
    EXPECT_THAT(message(m.text), HasSubstr(m.message)) << m.text;
  EXPECT_THAT(message("fn @f(%x: f32[n]) {\n  return y = %x\n}\n", true), HasSubstr("n"));
  EXPECT_THAT(message("symbol n: 5..2\n", true), HasSubstr("m.lir:1:11: the range is empty"));
  EXPECT_THAT(message("symbol i0: 1..2\n", true), HasSubstr("'i0' cannot name a symbol"));
  EXPECT_THAT(message("", true), HasSubstr("a module needs a function"));
  EXPECT_THAT(message("fn @f(%x: f32) {\n  return y = %x -> x\n}\n", true),
              HasSubstr("writes 'x', which is not a state"));
  EXPECT_THAT(message("fn @f(state %x: f32) {\n  return y = %x -> x, z = %x -> x\n}\n", true),
              HasSubstr("state 'x' is written twice"));
  EXPECT_THAT(message("fn @f(state %x: f32) {\n  return y = %x after z, z = %x after y\n}\n", true),
              HasSubstr("comes after itself"));
  EXPECT_THAT(message("fn @f(state %x: f32) {\n  return y = %x after w\n}\n", true),
              HasSubstr("comes after 'w', which is not a result"));
  EXPECT_THAT(message("fn @f(%x: f32, %x: f32) {\n  return y = %x\n}\n", true),
              HasSubstr("[input] 'x' exists already"));
  EXPECT_THAT(message("fn @f(%x: f32) {\n", true), HasSubstr("expected"));
}

TEST(Text, BrokenTextNeverCrashes) {
  const std::string good(everything);
  for (size_t cut = 0; cut < good.size(); cut += 7) {
    try {
      parse_module(good.substr(0, cut));
    } catch (const Error&) {
    }
  }
  uint64_t state = 12345;
  for (int n = 0; n < 400; ++n) {
    std::string bad = good;
    for (int k = 0; k < 3; ++k) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      bad[(state >> 33) % bad.size()] = char(32 + (state >> 20) % 95);
    }
    try {
      Module module = parse_module(bad);
      EXPECT_TRUE(same_module(module, parse_module(to_string(module)))) << bad;
    } catch (const Error&) {
    }
  }
}

/// The type of a fold is that of its text, whatever a proof makes of the condition.
TEST(Text, ConditionsGiveFoldsTheAxesThatTheyName) {
  const auto type_of = [](const std::string& fold) {
    const Module m = parse_module("symbol S: 1..4\nfn @main(%x: f32[2, 3], %l: i32[4]) {\n  %f = fold " +
                                  fold + "\n  %y = get %f, 0\n  return y = %y\n}\n");
    EXPECT_TRUE(verify(m).empty()) << fold;
    const Module again = parse_module(to_string(m));
    EXPECT_TRUE(same_module(m, again)) << to_string(m);
    return to_string(m.entry()[m.entry().results[0].value].type());
  };
  EXPECT_EQ(type_of("[i: 2, k: 3] over [k] { sum %x[i, k] }"), "f32[2]");
  EXPECT_EQ(type_of("[i: 2, k: 3, z: 4] over [k] where i < z + 1 { sum %x[i, k] }"), "f32[2, 4]");
  EXPECT_EQ(type_of("[i: 2, k: 3, z: 4] over [k] where i < z + 2 { sum %x[i, k] }"), "f32[2, 4]"); // always
  EXPECT_EQ(type_of("[z: S, i: 2, k: 3] over [k] where z - z <= k { sum %x[i, k] }"), "f32[S, 2]");
  EXPECT_EQ(type_of("[i: 2, z: 1, k: 3] over [k] where z <= k { sum %x[i, k] }"), "f32[2, 1]");
  EXPECT_EQ(type_of("[z: 4, i: 2, k: 3] over [k] with h = %l[z] in 0..0 clamp where k < h { sum %x[i, k] }"),
            "f32[4, 2]");
  EXPECT_EQ(type_of("[z: 4, i: 2, k: 3] over [k] with h = %l[z] in 0..3 clamp where k < 9 { sum %x[i, k] }"),
            "f32[2]");
}

/// Text names the operand of each hole, and equal names are one operand: so are equal inputs of a
/// node that nobody wrote as text.
TEST(Text, HolesThatReadOneOperandShareIt) {
  FunctionBuilder b("main");
  const NodeId x = b.input("x", {DType::f32, {4, 5}}), i = b.input("i", {DType::i32, {3}}),
               j = b.input("j", {DType::i32, {3}});
  const Interval range{0, 3};
  auto gather = [&](std::vector<NodeId> inputs, int first, int second) {
    ViewAttr view{.map = {hole_symbol(0, range), hole_symbol(1, range)}, .shape = {3}};
    view.holes = {{first, {0}, range}, {second, {0}, range}};
    return b.add(view, std::move(inputs));
  };
  const NodeId twice = gather({x, i, i}, 1, 2);
  EXPECT_EQ(twice, gather({x, i}, 1, 1)); // one node
  const NodeId turned = gather({x, j, i}, 2, 1);
  EXPECT_EQ(turned, gather({x, i, j}, 1, 2));
  b.result("twice", twice);
  b.result("turned", turned);
  Module module;
  module.functions.push_back(b.finish());
  EXPECT_TRUE(same_module(module, parse_module(to_string(module))));
}

} // namespace
} // namespace luminal::text_test
