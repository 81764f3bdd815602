// tests/ir/rules_test.cpp -- search and replace: what is found, what is refused and why, what a
// rule may not say.
#include "ir/interp_util.h"
#include "ir/noisy_graph.h"
#include "luminal/error.h"
#include "luminal/pattern.h"
#include <fstream>
#include <gmock/gmock.h>

namespace luminal {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing_ir::NoisyGraph;

const char* declarations = "type T: float\ntype U: any\nshape s\nsymbol n: 1..inf\nsymbol m: 1..inf\n";
Rules rules(const std::string& text) { return Rules::parse(declarations + text, "mine"); }
std::string mistake(const std::string& text) {
  try {
    Rules::parse(text, "mine");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}
struct Outcome {
  std::string text;
  RewriteReport report;
};
Outcome applied(const Rules& list, std::string_view module, Numerics allowed = Numerics::range) {
  Module m = parse_module(module);
  auto report = std::make_shared<RewriteReport>();
  list.pass("rules", allowed, report).run(m);
  EXPECT_THAT(verify(m), IsEmpty());
  return {to_string(m), *report};
}

const char* twice_negated =
    "rule twice_negated(%x: T[..s]) { %a = neg %x %y = neg %a return %y } => { return %x }";
const char* relu_of_relu = R"(
  rule relu_of_relu(%x: T[..s]) {
    %zero = const T 0
    %zeros = view %zero [..s] -> []
    %a = max %x, %zeros
    %b = max %a, %zeros
    return %b
  } => { return %a })";

TEST(Rules, AreFoundInEveryTypeAndShape) {
  const Rules list = rules(twice_negated);
  EXPECT_THAT(list.names(), ElementsAre("twice_negated"));
  for (const char* type : {"f32", "bf16[3]", "f16[2, 3]", "f64[2, 1, 4]"}) {
    const Outcome o =
        applied(list, std::string("fn @main(%p: ") + type + ") { %q = neg %p %r = neg %q return y = %r }");
    EXPECT_THAT(o.text, HasSubstr("return y = %p")) << type;
    EXPECT_EQ(1, o.report.total());
  }
  // T is a float: integers stay as they are.
  const Outcome o = applied(list, "fn @main(%p: i32) { %q = neg %p %r = neg %q return y = %r }");
  EXPECT_THAT(o.text, HasSubstr("neg"));
  EXPECT_THAT(list.test(), IsEmpty());
}

TEST(Rules, MatchesAreIteratedWithTheirValues) {
  const Rules list = rules(relu_of_relu);
  const Module m = parse_module(R"(symbol batch: 1..64
    fn @main(%p: f32[batch, 8], %q: f32[8]) {
      %0 = const f32 0
      %z = view %0 [b: batch, i: 8] -> []
      %w = view %0 [i: 8] -> []
      %a = max %p, %z %b = max %a, %z
      %c = max %q, %w %d = max %c, %w
      return b = %b, d = %d })");
  const std::vector<Match> found = list.find(m);
  ASSERT_EQ(2u, found.size());
  EXPECT_EQ("relu_of_relu", found[0].rule);
  EXPECT_EQ("main", found[0].function);
  EXPECT_EQ("%b", found[0].root.name);
  EXPECT_EQ("max %a, %z", found[0].root.text);
  EXPECT_EQ(DType::f32, found[0]["x"].dtype);
  ASSERT_EQ(2u, found[0]["x"].shape.size());
  EXPECT_EQ("batch", found[0]["x"].shape[0].text);
  EXPECT_EQ(64, found[0]["x"].shape[0].high);
  EXPECT_EQ(0, found[0]["zeros"].number);
  EXPECT_EQ("8", found[1].symbols.at("s.0").text);
  EXPECT_THROW(found[0]["nothing"], Error);
  EXPECT_THAT(list.test(), IsEmpty());
}

TEST(Rules, ShapesAndConditionsConstrain) {
  const Rules list = rules(R"(
    rule halves(%x: T[n, m]) where n % 4 == 0, m <= 64 {
      %y = view %x [j: m, i: n] -> [i, j]
      %z = sin %y
      return %z
    } => {
      %t = sin %x
      %u = view %t [j: m, i: n] -> [i, j]
      return %u
    })");
  auto text = [](std::string extents, std::string swapped) {
    return "symbol b: 1..9 symbol c: 8..80 multiple 8 fn @main(%x: f32" + extents +
           ") { %y = view %x [p: " + swapped + "] -> [q, p] %z = sin %y return y = %z }";
  };
  EXPECT_EQ(1, applied(list, text("[8, 6]", "6, q: 8")).report.total());
  EXPECT_EQ(1, applied(list, text("[c, 6]", "6, q: c")).report.total());
  EXPECT_EQ(0, applied(list, text("[6, 6]", "6, q: 6")).report.total());
  EXPECT_EQ(0, applied(list, text("[8, 65]", "65, q: 8")).report.total());
  const Outcome open = applied(list, text("[8, c]", "c, q: 8")); // c may be 80
  EXPECT_EQ(0, open.report.total());
  ASSERT_EQ(1u, open.report.refused.size());
  EXPECT_EQ("c < 65 is not proved", open.report.refused[0].reason);
  EXPECT_THAT(open.report.to_string(), HasSubstr("halves at %z of @main: refused: c < 65 is not proved"));
  // Another index map is another view.
  EXPECT_EQ(
      0, applied(list,
                 "fn @main(%x: f32[8, 8]) { %y = view %x [p: 8, q: 8] -> [p, q] %z = sin %y return y = %z }")
             .report.total());
  EXPECT_THAT(list.test(), IsEmpty());
  // A declared range and a multiple are constraints, too.
  const Rules facts = rules(
      "symbol k: 8..64 multiple 8 rule f(%x: T[k]) { %y = abs %x %z = abs %y return %z } => { return %y }");
  auto times = [&](std::string n) {
    return applied(facts,
                   "symbol b: 1..9 fn @main(%x: f32[" + n + "]) { %y = abs %x %z = abs %y return y = %z }")
        .report.total();
  };
  EXPECT_EQ(1, times("16"));
  EXPECT_EQ(0, times("12"));
  EXPECT_EQ(0, times("72"));
  EXPECT_EQ(0, times("b"));
  EXPECT_EQ(1, times("8 * b - 8 * b + 24"));
}

TEST(Rules, InnerValuesThatAreUsedElsewhereAreARefusal) {
  const Rules list = rules(twice_negated);
  const char* used = "fn @main(%p: f32) { %q = neg %p %r = neg %q %e = exp %q return y = %r, e = %e }";
  Outcome o = applied(list, used);
  EXPECT_EQ(0, o.report.total());
  ASSERT_EQ(1u, o.report.refused.size());
  EXPECT_EQ("%q is read by %e, too", o.report.refused[0].reason);
  o = applied(list, "fn @main(%p: f32) { %q = neg %p %r = neg %q return y = %r, kept = %q }");
  ASSERT_EQ(1u, o.report.refused.size());
  EXPECT_EQ("%q is kept: it is result kept of @main", o.report.refused[0].reason);
  std::vector<Refusal> refused;
  EXPECT_THAT(list.find(parse_module(used), &refused), IsEmpty());
  EXPECT_EQ(1u, refused.size());
  // `shared` says that it may stay for the others.
  o = applied(rules(std::string(twice_negated).replace(5, 13, "twice_negated shared")), used);
  EXPECT_EQ(1, o.report.total());
  EXPECT_THAT(o.text, HasSubstr("%e = exp %q"));
  // A constant is nobody's, and what the right side reads stays anyway.
  EXPECT_EQ(1, applied(rules(relu_of_relu), R"(fn @main(%p: f32) {
    %0 = const f32 0 %a = max %p, %0 %b = max %a, %0 %c = add %b, %a return b = %c, z = %0 })")
                   .report.total());
}

TEST(Rules, CommutativeMatchingIsByWish) {
  const std::string rule = "(%a: T[..s], %b: T[..s], %c: T[..s]) { %p = mul %a, %b %y = add %p, %c return %y "
                           "} => { %z = fma %a, %b, %c return %z }";
  const char* module = "fn @main(%p: f32, %q: f32) { %m = mul %p, %q %y = add %q, %m return y = %y }";
  EXPECT_EQ(0, applied(rules("rule fuse range" + rule), module).report.total());
  const Outcome o = applied(rules("rule fuse range commutative" + rule), module);
  EXPECT_EQ(1, o.report.total());
  EXPECT_THAT(o.text, HasSubstr("fma %p, %q, %q"));
  EXPECT_THAT(rules("rule fuse range commutative" + rule).test(), IsEmpty());
}

TEST(Rules, ClassesOfRulesMayRest) {
  const Rules list = rules("rule fuse range(%a: T[..s], %b: T[..s]) { %p = exp2 %a %q = exp2 %b %y = mul %p, "
                           "%q return %y } => { %c = add %a, %b %z = exp2 %c return %z }");
  const char* module =
      "fn @main(%p: f32, %q: f32) { %a = exp2 %p %b = exp2 %q %y = mul %a, %b return y = %y }";
  EXPECT_EQ(0, applied(list, module, Numerics::exact).report.total());
  EXPECT_EQ(1, applied(list, module, Numerics::range).report.total());
  EXPECT_THAT(list.test(), IsEmpty());
}

TEST(Rules, FoldsAndTheirResultsAreMatched) {
  const Rules list = rules(R"(
    rule sum_of_scaled reassoc (const %c: T, %x: T[n, m]) {
      %cs = view %c [i: n, k: m] -> []
      %p = mul %x, %cs
      %f = fold [i: n, k: m] over [k] { sum %p[i, k] }
      %y = get %f, 0
      return %y
    } => {
      %g = fold [i: n, k: m] over [k] { sum %x[i, k] }
      %s = get %g, 0
      %cn = view %c [i: n] -> []
      %z = mul %s, %cn
      return %z
    })");
  EXPECT_THAT(list.test(), IsEmpty());
  const Outcome o = applied(list, R"(fn @main(%x: f32[4, 9]) {
      %c = const f32 0.5 %v = view %c [i: 4, k: 9] -> [] %p = mul %x, %v
      %f = fold [i: 4, k: 9] over [k] { sum %p[i, k] } %y = get %f, 0 return y = %y })");
  EXPECT_EQ(1, o.report.total());
  EXPECT_THAT(o.text, HasSubstr("sum %x[i, k]"));
  EXPECT_THAT(o.text, HasSubstr("%y = mul"));
}

TEST(Rules, PredicatesInCppConstrainFurther) {
  const Rules list =
      rules(relu_of_relu).when("relu_of_relu", [](const Match& m) { return m["x"].shape.size() == 2; });
  auto text = [](std::string t, std::string axes) {
    return "fn @main(%p: f32" + t + ") { %0 = const f32 0 %z = view %0 " + axes +
           " -> [] %a = max %p, %z %b = max %a, %z return b = %b }";
  };
  EXPECT_EQ(1, applied(list, text("[2, 3]", "[i: 2, j: 3]")).report.total());
  EXPECT_EQ(0, applied(list, text("[3]", "[j: 3]")).report.total());
  EXPECT_THROW(list.when("other", [](const Match&) { return true; }), Error);
}

TEST(Rules, AReplacementOfAnotherTypeIsRefusedWithTheReason) {
  EXPECT_EQ("mine:1:50: rule a: the replacement is f16[3], what it replaces is f32[3]\n"
            "  rule a(%x: f32[3]) { %y = sin %x return %y }     => { %z = cast f16 %x return %z }\n"
            "                                                   ^~",
            mistake("rule a(%x: f32[3]) { %y = sin %x return %y }     => { %z = cast f16 %x return %z }")
                .substr(0, 400));
  EXPECT_THAT(mistake("symbol n: 1..inf symbol m: 1..inf rule a(%x: f32[n, m]) { %y = sin %x return %y } => "
                      "{ %z = view %x [j: m, i: n] -> [i, j] return %z }"),
              HasSubstr("rule a: the replacement is f32[m, n], what it replaces is f32[n, m]"));
  EXPECT_THAT(
      mistake("type T: any rule a(%x: T[3]) { %y = sin %x return %y } => { %z = cast f32 %x return %z }"),
      HasSubstr("the replacement is f32[3], what it replaces is"));
}

TEST(Rules, MistakesInTheTextHaveAPlace) {
  const std::pair<const char*, const char*> cases[] = {
      {"rule", "mine:1:5: expected the name of a rule, found the end of the text"},
      {"rul a", "mine:1:1: expected 'type', 'shape', 'symbol' or 'rule', found 'rul'"},
      {"type f32: any", "mine:1:6: 'f32' is a type"},
      {"type T: real", "mine:1:9: 'real' is not a type; any, float and integer are classes of types"},
      {"type T: any type T: any", "mine:1:18: T is declared already"},
      {"shape s: 0..9", "mine:1:7: a shape has 0 to 8 axes"},
      {"rule a twice (%x: f32) {} => {}",
       "mine:1:8: expected exact, reassoc, range, commutative, shared or '('"},
      {"rule a(%x: f32) { %y = neg %x return %y }", "mine:1:42: expected '=>', found the end of the text"},
      {"rule a(%x: f32) { %y = neg %x return %y } => { %z = nog %x return %z }",
       "mine:1:53: there is no operation 'nog'"},
      {"rule a(%x: f32[k]) { %y = neg %x return %y } => { return %x }", "mine:1:16: "},
      {"rule a(%x: f32) { return %x } => { %y = neg %x return %y }", "the left side is a parameter"},
      {"rule a(%x: f32, %z: f32) { %y = neg %x return %y } => { return %x }",
       "the left side does not read parameter z"},
      {"rule a(%x: f32) { %y = neg %x return %y } => { return %y }", "both sides are the same"},
      {"rule a(%x: f32) { %y = neg %x return %y } => { %z = abs %y return %z }",
       "the replacement reads what it replaces"},
      {"rule a(%x: f32) { %h = host print \"a\" (%x) %y = get %h, 0 return %y } => { return %x }",
       "a rule may hold no host"},
      {"rule a(%x: f32) { %y = neg %x return %y } => { return %x } rule a(%x: f32) {} => {}",
       "mine:1:65: rule a exists already"},
      {"type T: any rule a(%x: f32) { %y = neg %x return %y } => { %z = cast T %x return %z }",
       "T stands on the right only"},
      {"symbol n: 1..9 rule a(%x: f32[2 * n]) { %y = neg %x return %y } => { return %x }",
       "no extent on the left is n alone"},
      {"shape s rule a(%x: f32[..t]) { %y = neg %x return %y } => { return %x }", "there is no shape 't'"},
      {"type A: any type B: any type C: any type D: any rule a(%x: A, %y: B, %z: C, %w: D) {} => {}",
       "3 type variables and 2 shapes"},
      {"rule a(%x: f32) } {", "a '}' without its '{'"},
      {"type T: i8 rule a(%x: T) { %y = sin %x return %y } => { return %x }", "[sin]"},
  };
  for (const auto& [text, expected] : cases) EXPECT_THAT(mistake(text), HasSubstr(expected)) << text;
}

TEST(Rules, TheirTextComesBack) {
  const Rules list = rules(std::string(twice_negated) + relu_of_relu);
  const Rules again = Rules::parse(list.to_string());
  EXPECT_EQ(list.to_string(), again.to_string());
  EXPECT_EQ(list.names(), again.names());
}

TEST(Rules, AreBuiltInCpp) {
  RuleBuilder rule("transposed_sum");
  rule.type("T", "f32 | f64").symbol("n", "1..inf").symbol("m", "1..inf").where("n <= 100");
  auto x = rule.parameter("T[n, m]", "x");
  auto t = rule.line("view {} [j: m, i: n] -> [i, j]", {x});
  auto y = rule.op("exp2", {t}, "y");
  rule.find(y).replace(rule.line("view {} [j: m, i: n] -> [i, j]", {rule.op("exp2", {x})}));
  const Rules list = Rules::build(rule);
  EXPECT_THAT(list.test(), IsEmpty());
  EXPECT_EQ(
      1, applied(list,
                 "fn @main(%x: f64[3, 4]) { %t = view %x [a: 4, b: 3] -> [b, a] %y = exp2 %t return y = %y }")
             .report.total());
  EXPECT_EQ(list.to_string(), Rules::parse(list.to_string()).to_string());
  EXPECT_THROW(RuleBuilder("open").text(), Error);
  EXPECT_THROW(rule.op("neg", {x}), Error);
}

TEST(Rules, AWrongRuleIsFoundByItsTest) {
  EXPECT_THAT(rules("rule a(%x: T[..s]) { %zero = const T 0 %z = view %zero [..s] -> [] %y = add %x, %z "
                    "return %y } => { return %x }")
                  .test(),
              ElementsAre(HasSubstr("rule a: element"))); // -0
  EXPECT_THAT(rules("rule a range (%x: T[..s], %y: T[..s]) { %p = mul %x, %y %q = add %p, %x return %q } => "
                    "{ %r = add %y, %x return %r }")
                  .test(),
              ElementsAre(HasSubstr("rule a: element")));
  EXPECT_THAT(
      rules("rule a(%x: T[n]) where n < 0 { %y = abs %x %z = abs %y return %z } => { return %y }").test(),
      ElementsAre("rule a: no instance could be made"));
}

TEST(Rules, OfTheDocumentationAreRight) {
  std::ifstream file(std::string(LUMINAL_SOURCE_DIR) + "/docs/passes.md");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const size_t at = text.find("```rules\n");
  ASSERT_NE(std::string::npos, at);
  const size_t begin = at + 9;
  const Rules list =
      Rules::parse(text.substr(begin, text.find("\n```", begin) + 1 - begin), "docs/passes.md");
  EXPECT_THAT(list.names(), ElementsAre("double_negation", "relu_of_relu", "scale_after_sum"));
  EXPECT_THAT(list.test(), IsEmpty());
  for (const Pass& pass : all_passes())
    if (pass.name() != "none") {
      EXPECT_THAT(text, HasSubstr("`" + pass.name() + "`")) << "a pass without a word";
    }
}

/// Rules that are right never change a result, wherever they apply.
TEST(Rules, KeepTheResultsOfRandomModules) {
  const Rules list = rules(std::string(twice_negated) + R"(
    rule minus_minus(%x: U[..s], %y: U[..s]) { %n = neg %y %z = sub %x, %n return %z } => { %w = add %x, %y return %w }
    rule same shared (%x: U[..s]) { %a = max %x, %x return %a } => { return %x }
    rule lifted(%x: T[n, m]) { %t = view %x [j: m, i: n] -> [i, j] %y = neg %t return %y } => { %u = neg %x %v = view %u [j: m, i: n] -> [i, j] return %v }
    rule one commutative (%x: T[..s]) { %c = const T 1 %o = view %c [..s] -> [] %y = mul %x, %o return %y } => { return %x })");
  EXPECT_THAT(list.test(10), IsEmpty());
  auto report = std::make_shared<RewriteReport>();
  const Pass pass = looped(list.pass("rules", Numerics::exact, report), 4);
  testing_ir::RandomGraphOptions options;
  options.structure = true;
  options.nodes = 9;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    const NoisyGraph g(seed, options, true);
    Module after = g.module;
    pass.run(after);
    ASSERT_THAT(verify(after), IsEmpty()) << "seed " << seed;
    const auto x = Interpreter(g.module, g.bindings).run(), y = Interpreter(after, g.bindings).run();
    for (const auto& [name, value] : x)
      ASSERT_EQ("", testing_ir::first_difference(value, y.at(name))) << "seed " << seed << "\n"
                                                                     << to_string(g.module) << "\nbecame\n"
                                                                     << to_string(after);
  }
  for (const std::string& name : list.names()) EXPECT_GT(report->applied[name], 3) << name;
}

} // namespace
} // namespace luminal
