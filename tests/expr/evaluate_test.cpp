// tests/expr/evaluate_test.cpp -- values and ranges: overflow, division by zero, broken facts.
#include "expr/expr.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace luminal::evaluate_test {
using testing::HasSubstr;

namespace {
const Expr x = Expr::symbol("x"), y = Expr::symbol("y"), z = Expr::symbol("z"),
           i = Expr::symbol("i", {0, 63}), n4 = Expr::symbol("n4", {4, 1024}, 4);
constexpr int64_t big = INT64_MAX;
} // namespace

TEST(Evaluate, Values) {
  EXPECT_EQ(evaluate(floordiv(x, 4) * 100 + mod(x, 4), {{x, -5}}).value(), -200 + 3);
  EXPECT_EQ(evaluate(floordiv(x, y), {{x, 7}, {y, -2}}).value(), -4);
  EXPECT_EQ(evaluate(mod(x, y), {{x, 7}, {y, -2}}).value(), -1);
  EXPECT_EQ(evaluate(Expr(5), {}).value(), 5);
  EXPECT_EQ(evaluate(Expr(5), {{x, 3}}).value(), 5);
  EXPECT_EQ(evaluate(logical_and(lt(x, y), ne(x, 3)), {{x, 2}, {y, 3}}).value(), 1);
}

TEST(Evaluate, FailuresSayWhy) {
  const auto why = [](Expr e, const ExprMap<int64_t>& at) {
    const auto result = evaluate(e, at);
    return result ? "no failure: " + std::to_string(*result) : result.error();
  };
  EXPECT_THAT(why(x + y, {{x, 1}}), HasSubstr("'y' has no value"));
  EXPECT_EQ(why(i + 1, {{i, 64}}), "i = 64 is outside its range 0..63");
  EXPECT_EQ(why(n4 + 1, {{n4, 6}}), "n4 = 6 is not a multiple of 4");
  EXPECT_EQ(why(floordiv(x, y), {{x, 1}, {y, 0}}), "division by zero in x // y at x = 1, y = 0");
  EXPECT_EQ(why(mod(x, y), {{x, 1}, {y, 0}}), "division by zero in x % y at x = 1, y = 0");
  EXPECT_EQ(why(x * y, {{x, big}, {y, 2}}), "overflow of 64 bits in x*y at x = 9223372036854775807, y = 2");
  EXPECT_THAT(why(x + 1, {{x, big}}), HasSubstr("overflow"));
  EXPECT_THAT(why(x * 3, {{x, big / 2}}), HasSubstr("overflow"));
  EXPECT_THAT(why(floordiv(x, y), {{x, INT64_MIN}, {y, -1}}), HasSubstr("overflow"));
  // The symbol has gone from the expression, its facts have not.
  EXPECT_THAT(why(floordiv(i, 64), {{i, 70}}), HasSubstr("outside its range"));
}

// Only values count: sums whose parts do not fit are exact.
TEST(Evaluate, PartsOfSumsMayBeLarge) {
  EXPECT_EQ(evaluate(x + y + z, {{x, big}, {y, big}, {z, -big}}).value(), big);
  EXPECT_EQ(evaluate(x * 4 - y * 4 + 1, {{x, big}, {y, big - 1}}).value(), 5);
  EXPECT_EQ(evaluate(x * 4 + 3, {{x, big / 4}}).value(), big / 4 * 4 + 3);
  EXPECT_EQ(evaluate(-x, {{x, -big}}).value(), big);
  EXPECT_FALSE(evaluate(-x, {{x, INT64_MIN}}));
}

TEST(ExprProgram, SeveralOutputsShareWork) {
  const Expr quotient = floordiv(x * 3 + y, 7);
  const std::vector<Expr> outputs{quotient, quotient * 2 + 1, mod(x * 3 + y, 7)}, slots{y, x, z};
  const ExprProgram program(outputs, slots);
  const int64_t values[] = {4, 9, 0};
  int64_t results[3];
  ASSERT_TRUE(program.run(values, results));
  EXPECT_THAT(results, testing::ElementsAre(4, 9, 3));
  EXPECT_EQ(program.evaluate(values).value(), 4);
  EXPECT_EQ(program.why(values), "");
  const ExprProgram copy = program;
  EXPECT_EQ(copy.evaluate(values).value(), 4);
}

TEST(ExprProgram, WrongUse) {
  EXPECT_THROW(ExprProgram(std::span<const Expr>(&x, 1), {}), Error);
  const std::vector<Expr> twice{x, x}, no_symbol{x + 1};
  EXPECT_THROW(ExprProgram(std::span<const Expr>(&x, 1), twice), Error);
  EXPECT_THROW(ExprProgram(std::span<const Expr>(&x, 1), no_symbol), Error);
  const ExprProgram program(x + y);
  int64_t result = 0;
  const int64_t one[] = {1};
  EXPECT_FALSE(program.run(one, std::span(&result, 1)));
  EXPECT_THAT(program.why(one), HasSubstr("1 values for 2 symbols"));
}

TEST(ExprProgram, ConstantAndLarge) {
  int64_t result = 0;
  ASSERT_TRUE(ExprProgram(Expr(7)).run({}, std::span(&result, 1)));
  EXPECT_EQ(result, 7);
  // More registers than the stack holds.
  Expr e;
  std::vector<Expr> slots;
  std::vector<int64_t> values;
  int64_t wanted = 0;
  for (int64_t k = 0; k < 300; ++k) {
    slots.push_back(Expr::symbol("large." + std::to_string(k)));
    values.push_back(k * 7 - 900);
    e += floordiv(slots.back(), 5) * (k + 1);
    const int64_t q = values.back() >= 0 ? values.back() / 5 : -((-values.back() + 4) / 5);
    wanted += q * (k + 1);
  }
  const ExprProgram program(std::span(&e, 1), slots);
  ASSERT_TRUE(program.run(values, std::span(&result, 1)));
  EXPECT_EQ(result, wanted);
}

TEST(EvaluateRange, Boxes) {
  EXPECT_EQ(evaluate_range(x * 4 + 1, {{x, {2, 5}}}), (Interval{9, 21}));
  EXPECT_EQ(evaluate_range(i * 4, {{i, {60, 1000}}}), (Interval{240, 252})); // i ends at 63
  EXPECT_EQ(evaluate_range(floordiv(x, 4), {{x, {-5, 9}}}), (Interval{-2, 2}));
  EXPECT_EQ(evaluate_range(mod(x, 8), {{x, {17, 20}}}), (Interval{1, 4}));
  EXPECT_EQ(evaluate_range(mod(x, 8), {{x, {17, 30}}}), (Interval{0, 7}));
  EXPECT_EQ(evaluate_range(n4, {{n4, {5, 9}}}), (Interval{8, 8}));
  EXPECT_EQ(evaluate_range(lt(x, y), {{x, {0, 3}}, {y, {4, 9}}}), (Interval{1, 1}));
  EXPECT_EQ(evaluate_range(lt(x, y), {{x, {9, 12}}, {y, {4, 9}}}), (Interval{0, 0}));
  EXPECT_EQ(evaluate_range(x * y, {{x, {-3, 2}}, {y, {-5, 4}}}), (Interval{-12, 15}));
  EXPECT_EQ(evaluate_range(x * x, {{x, {-3, 2}}}), (Interval{0, 9}));
  EXPECT_EQ(evaluate_range(x + y, {{x, {0, 1}}}), Interval{});
  EXPECT_EQ(evaluate_range(x * 2, {{x, {0, big - 1}}}), (Interval{0, unbounded_high}));
  EXPECT_EQ(evaluate_range(floordiv(x, y), {{x, {10, 20}}, {y, {-2, 3}}}), (Interval{-20, 20}));
}

} // namespace luminal::evaluate_test
