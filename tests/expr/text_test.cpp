// tests/expr/text_test.cpp -- the text form: grammar, mistakes, hostile input.
#include "expr/parse_expr.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <random>

namespace luminal::text_test {
using testing::HasSubstr;

namespace {
const SymbolScope scope{{"x", Expr::symbol("x")},
                        {"y", Expr::symbol("y")},
                        {"batch", Expr::symbol("batch", {1, 64})},
                        {"l.0", Expr::symbol("l.0")}};
const Expr x = scope.at("x"), y = scope.at("y"), batch = scope.at("batch");

Expr parse(std::string_view text) { return Expr::parse(text, scope).value(); }
std::string mistake(std::string_view text) {
  const auto e = Expr::parse(text, scope);
  return e ? "none: " + to_string(*e) : e.error();
}
} // namespace

TEST(ExprText, Precedence) {
  EXPECT_EQ(parse("x + y*2 - 3"), x + y * 2 - 3);
  EXPECT_EQ(parse("x - y - 1"), x - y - 1);
  EXPECT_EQ(parse("x // 4 % 3"), mod(floordiv(x, 4), 3));
  EXPECT_EQ(parse("x % 4 // 3 * y"), floordiv(mod(x, 4), 3) * y);
  EXPECT_EQ(parse("-x // 4"), floordiv(-x, 4));
  EXPECT_EQ(parse("-(x // 4)"), -floordiv(x, 4));
  EXPECT_EQ(parse("x%4"), mod(x, 4));
  EXPECT_EQ(parse("x%y"), mod(x, y));
  EXPECT_EQ(parse("- - x"), x);
  EXPECT_EQ(parse("-9223372036854775808"), Expr(INT64_MIN));
  EXPECT_EQ(parse("0x10*x"), x * 16);
  EXPECT_EQ(parse("x < y and y <= 3 or not x == 1"), logical_or(logical_and(lt(x, y), le(y, 3)), ne(x, 1)));
  EXPECT_EQ(parse("x > 3"), gt(x, 3));
  EXPECT_EQ(parse("x >= 3"), ge(x, 3));
  EXPECT_EQ(parse("(x < y)*4"), lt(x, y) * 4);
  EXPECT_EQ(parse("min(x, y, 3) + max(x)"), min(min(x, y), 3) + x);
  EXPECT_EQ(parse("ceildiv(batch, 8)"), floordiv(batch + 7, 8));
  EXPECT_EQ(parse("l.0 + 1 # comment"), scope.at("l.0") + 1);
}

TEST(ExprText, Mistakes) {
  EXPECT_EQ(mistake("x + "),
            "<expression>:1:5: expected an expression, found the end of the text\n  x + \n      ^");
  EXPECT_THAT(mistake("x + btach"), HasSubstr("1:5: unknown symbol 'btach'; did you mean 'batch'?"));
  EXPECT_THAT(mistake("x y"), HasSubstr("1:3: expected the end of the text, found 'y'"));
  EXPECT_THAT(mistake("(x"), HasSubstr("expected ')', found the end"));
  EXPECT_THAT(mistake("min(x"), HasSubstr("expected ')'"));
  EXPECT_THAT(mistake("min()"), HasSubstr("expected an expression, found ')'"));
  EXPECT_THAT(mistake("ceildiv(x)"), HasSubstr("another argument"));
  EXPECT_THAT(mistake("ceildiv(x, 2, 3)"), HasSubstr("3 arguments where 2"));
  EXPECT_THAT(mistake("x < y < 3"), HasSubstr("do not chain"));
  EXPECT_THAT(mistake("x // 0"), HasSubstr("1:3: [expr] division by zero"));
  EXPECT_THAT(mistake("x % (3 - 3)"), HasSubstr("division by zero"));
  EXPECT_THAT(mistake("9223372036854775807 + 1"), HasSubstr("does not fit 64 bits"));
  EXPECT_THAT(mistake("9223372036854775808"), HasSubstr("does not fit 64 bits"));
  EXPECT_THAT(mistake("x * 1.5"), HasSubstr("expected an expression, found the number 1.5"));
  EXPECT_THAT(mistake("and"), HasSubstr("expected an expression"));
  EXPECT_THAT(mistake("x / y"), HasSubstr("expected the end of the text, found '/'"));
  EXPECT_THAT(mistake(""), HasSubstr("expected an expression"));
  EXPECT_THAT(mistake("min"), HasSubstr("expected '('"));
}

TEST(ExprText, HostileTextEnds) {
  const std::string deep(100000, '('), minus(100000, '-');
  EXPECT_THAT(mistake(deep + "x"), HasSubstr("nested too deeply"));
  EXPECT_THAT(mistake(minus + "x"), HasSubstr("nested too deeply"));
  std::string nots, many = "x", product = "x", nested = "x", minimum = "min(x";
  for (int k = 0; k < 5000; ++k)
    nots += "not ", many += " + y*" + std::to_string(k), product += "*y", minimum += ", y";
  EXPECT_THAT(mistake(nots + "x"), HasSubstr("nested too deeply"));
  EXPECT_THAT(mistake(many), HasSubstr("more than 256 operands"));
  EXPECT_THAT(mistake(product), HasSubstr("more than 256 operands"));
  EXPECT_THAT(mistake(minimum + ")"), HasSubstr("more than 256 operands"));
  for (int k = 0; k < 120; ++k) nested = "max(min(" + nested + "*3, y) + 1, x // 2)";
  EXPECT_TRUE(mistake(nested).starts_with("none") || mistake(nested).find("nested") != std::string::npos);
}

TEST(ExprText, InsideOtherText) {
  TextReader reader("[x*4 + 1, y % 4] -> %out", "test");
  reader.expect("[");
  EXPECT_EQ(parse_expr(reader, scope), x * 4 + 1);
  reader.expect(",");
  EXPECT_EQ(parse_expr(reader, scope), mod(y, 4));
  reader.expect("]");
  reader.expect("->");
  EXPECT_EQ(reader.expect_value_name(), "out");
  TextReader other("a0 + a1");
  EXPECT_EQ(parse_expr(other,
                       SymbolLookup([](std::string_view name) { return std::optional(Expr::symbol(name)); })),
            Expr::symbol("a0") + Expr::symbol("a1"));
}

TEST(ExprText, OtherNames) {
  const auto name = [](Expr s) { return "%" + std::string(s.name()); };
  EXPECT_EQ(to_string(x * 4 + floordiv(y, 3), name), "%x*4 + %y // 3");
}

// Random token salad: a value or a clear failure, and values print and parse back.
TEST(ExprText, RandomTokens) {
  static constexpr const char* words[] = {"x", "y",  "batch", "1",  "3",   "0",    "+",    "-",
                                          "*", "//", "%",     "(",  ")",   "min(", "max(", ",",
                                          "<", "<=", "==",    "!=", "and", "or",   "not",  "ceildiv("};
  std::mt19937_64 random(5);
  int values = 0;
  for (int round = 0; round < 60000; ++round) {
    std::string text;
    for (size_t k = 0, count = random() % 9 + 1; k < count; ++k)
      text += std::string(words[random() % std::size(words)]) + " ";
    const auto e = Expr::parse(text, scope);
    if (!e) {
      ASSERT_THAT(e.error(), HasSubstr("<expression>:1:")) << text;
      continue;
    }
    ++values;
    const auto again = Expr::parse(to_string(*e), scope);
    ASSERT_TRUE(again) << text << ": " << again.error();
    ASSERT_EQ(*again, *e) << text;
  }
  EXPECT_GT(values, 1000);
}

} // namespace luminal::text_test
