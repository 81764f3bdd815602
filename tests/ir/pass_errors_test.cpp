// tests/ir/pass_errors_test.cpp -- messages of passes, rules and their builder, word for word.
#include "ir/term.h"
#include "luminal/error.h"
#include "luminal/pattern.h"
#include "support/error_of.h"
#include <gtest/gtest.h>

namespace luminal {
namespace {

#define EXPECT_ERROR(statement, text) EXPECT_EQ(error_of([&] { statement; }), text)

const char* const negated =
    "symbol n: 1..8\n\nfn @main(%x: f32[n], %z: f32[2]) {\n  %y = neg %x\n  return y = %y\n}\n";

/// A pass over the text that puts `with` in the place of the first `what`.
Pass replacing(const std::string& what, const std::string& with) {
  return text_pass("mine", "replaces a text",
                   [=](std::string text) { return text.replace(text.find(what), what.size(), with); });
}
std::string run(const Pass& pass) {
  Module module = parse_module(negated);
  return error_of([&] { pass.run(module); });
}

TEST(PassErrors, ThatChangeTheInterface) {
  EXPECT_EQ(run(replacing("1..8", "1..9")), "[pass] mine has changed the dimension symbols");
  EXPECT_EQ(run(replacing(", %z: f32[2]", "")), "[pass] mine has made 1 inputs of 2");
  EXPECT_EQ(run(replacing("%z: f32[2]", "%z: f32[3]")), "[pass] mine has changed input z");
  EXPECT_EQ(run(replacing("return y = %y", "return y = %y, z = %z")), "[pass] mine has made 2 results of 1");
  EXPECT_EQ(run(replacing("return y =", "return w =")), "[pass] mine has changed result y");
  EXPECT_EQ(run(replacing("return y = %y", "return y = %z")),
            "[pass] mine has made result y f32[2], it was f32[n]");
}

TEST(PassErrors, OfPassesThatAreWrong) {
  const auto nothing = [](Module&) -> int64_t { return 0; };
  EXPECT_ERROR(Pass("my pass", "", nothing),
               "[pass] 'my pass' cannot name a pass: letters, digits, - and _ can");
  EXPECT_ERROR(Pass("mine", "", {}), "[pass] mine has nothing to do");
  EXPECT_ERROR(timed(passes::views(), nullptr), "[timed] there is no table to write to");
  EXPECT_ERROR(looped(passes::views(), 0), "[looped] 0 times views: at least once is expected");
  EXPECT_ERROR(text_pass("mine", "", {}), "[text_pass] mine has no function");
  EXPECT_ERROR((void)parse_passes("views,frobnicate"),
               "[passes] there is no pass 'frobnicate'; the passes are cse, dead-code, constants, "
               "arithmetic, arithmetic-range, reductions, reductions-reassoc, reductions-range, views, "
               "depth-first, default, none");
  const Pass breaks("breaks", "", [](Module& module) -> int64_t {
    module.functions.back().results[0].name.clear();
    return 1;
  });
  EXPECT_EQ(run(checked(breaks)),
            "[pass] breaks has made a module that is not well formed: @main: a result without a name");
}

TEST(RuleErrors, OfTheBuilder) {
  RuleBuilder rule("r");
  const auto x = rule.parameter("f32[4]", "x");
  EXPECT_ERROR(rule.parameter("f32[4]", "two words"), "[rule] 'two words' cannot name a value");
  EXPECT_ERROR(rule.parameter("f32[4]", "x"), "[rule] r has a value x already");
  EXPECT_ERROR(rule.line("add {}, {}", {x}), "[rule] r: 'add {}, {}' has no value for one of its operands");
  EXPECT_ERROR(rule.line("neg {}", {x, x}), "[rule] r: 'neg {}' takes fewer operands");
  const auto y = rule.op("neg", {x});
  EXPECT_ERROR(rule.replace(y), "[rule] r: find comes before replace");
  EXPECT_ERROR((void)rule.text(), "[rule] r needs find and replace");
  rule.find(y);
  EXPECT_ERROR(rule.find(y), "[rule] r has a left side already");
  EXPECT_ERROR(rule.parameter("f32[4]", "z"), "[rule] r: a parameter must stand on the left");
  rule.replace(x);
  EXPECT_ERROR(rule.replace(x), "[rule] r is complete");
}

TEST(RuleErrors, OfNamesThatARuleDoesNotHave) {
  const Rules rules =
      Rules::parse("rule twice(%x: f32) { %a = neg %x %y = neg %a return %y } => { return %x }");
  EXPECT_ERROR((void)rules.when("once", [](const Match&) { return true; }), "[rules] there is no rule once");
  const auto found = rules.find(parse_module("fn @main(%x: f32) { %a = neg %x %y = neg %a return y = %y }"));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_ERROR((void)found[0]["z"], "[match] rule twice has no value z");
}

} // namespace
} // namespace luminal
