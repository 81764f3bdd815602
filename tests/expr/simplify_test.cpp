// tests/expr/simplify_test.cpp -- the forms that the compiler relies on, in text: left is built,
// right is what it becomes.
#include "expr/expr.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <thread>

namespace luminal::simplify_test {
using testing::HasSubstr;

namespace {

const SymbolScope& scope() {
  static const SymbolScope symbols = [] {
    SymbolScope s;
    const auto add = [&](const char* name, Interval range, int64_t multiple = 1) {
      s.emplace(name, Expr::symbol(name, range, multiple));
    };
    for (const char* free : {"x", "y", "z"}) add(free, {});
    add("i", {0, 63});
    add("j", {0, 3});
    add("k", {0, 1023});
    add("n", {1, 1 << 20});
    add("m", {1, 4096});
    add("w", {0, unbounded_high});
    add("n4", {4, 1024}, 4);
    add("one", {1, 1});
    add("flag", {0, 1});
    return s;
  }();
  return symbols;
}

Expr parse(std::string_view text) {
  auto e = Expr::parse(text, scope());
  EXPECT_TRUE(e) << e.error();
  return e ? *e : Expr();
}

struct Pair {
  const char *from, *to;
};
const Pair pairs[] = {
    // sums and products
    {"x - x", "0"},
    {"y + x + 3*y - 1", "x + y*4 - 1"},
    {"(x + 1)*(y - 2)", "-x*2 + x*y + y - 2"},
    {"(x + y)*(x - y)", "x*x - y*y"},
    {"0*x", "0"},
    {"one*x + one", "x + 1"},
    {"flag*flag", "flag"},
    // division of sums
    {"(i*4 + j) // 4", "i"},
    {"(i*4 + j) % 4", "j"},
    {"(x*8 + i*2 + 5) // 2", "x*4 + i + 2"},
    {"(x*8 + i*2 + 5) % 2", "1"},
    {"(i*256 + j*64 + 17) // 64", "i*4 + j"},
    {"(x*6 + 4) // 4", "x + (x + 2) // 2"},
    {"x // 4 // 8", "x // 32"},
    {"(x // 4 + 3) // 8", "(x + 12) // 32"},
    {"(x % 64) // 8", "(x // 8) % 8"},
    {"x % 64 % 8", "x % 8"},
    {"x % 12 % 8", "(x % 12) % 8"},
    {"(x*3 % 12)", "x % 4*3"},
    {"k // 1024", "0"},
    {"k % 1024", "k"},
    {"(k - 1024) // 1024", "-1"},
    {"x // -4", "-x // 4"},
    {"n4 % 2", "0"},
    {"n4 // 4 * 4", "n4"},
    {"(n4 + j) // 4", "n4 // 4"},
    {"n4 * x // 4", "n4 // 4 * x"},
    // what was taken apart comes together
    {"x // 4 * 4 + x % 4", "x"},
    {"x - x // 4 * 4", "x % 4"},
    {"x - x % 4", "x // 4 * 4"},
    {"x // 8 % 8 * 8 + x % 8", "x % 64"},
    {"k // 64 * 64 + k // 8 % 8 * 8 + k % 8", "k"},
    {"(x // 12 * 4 + x // 3 % 4) * 3 + x % 3", "x"},
    {"(x // 4) % 2 + (x // 8) % 2 * 2", "x // 4 % 4"},
    {"(x + y) // 5 * 10 + (x + y) % 5 * 2", "x*2 + y*2"},
    // symbolic divisors
    {"(x*n + y % n) // n", "x"},
    {"(x*n + y % n) % n", "y % n"},
    {"n*m // n", "m"},
    {"x*n // (m*n)", "x // m"},
    {"x // n // m", "x // (m*n)"},
    {"x % (m*n) // n", "x // n % m"},
    {"x % (m*n) % n", "x % n"},
    {"x // n * n + x % n", "x"},
    {"(x // n % m)*n + x % n", "x % (m*n)"},
    {"(n - 1) // n", "0"},
    {"(n + 4) // (n + 1)", "1 + 3 // (n + 1)"},
    {"x*n % n", "0"},
    {"y // x * x + y % x", "y"}, // x may be 0: the error may go, never come
    // min and max
    {"min(i, 63)", "i"},
    {"min(i, k + 100, i + 5)", "i"},
    {"max(i, -1)", "i"},
    {"min(x + 3, y + 3)", "min(x, y) + 3"},
    {"min(x*4, y*4)", "min(x, y)*4"},
    {"max(-x, -y)", "-min(x, y)"},
    {"min(x, max(x, y))", "x"},
    {"max(min(x, 9), 0)", "min(max(x, 0), 9)"},
    {"min(min(x, y), min(y, z))", "min(x, y, z)"},
    // comparisons
    {"i < 64", "1"},
    {"i >= 64", "0"},
    {"2*x < 7", "x <= 3"},
    {"4*x + 2*y >= 3", "2*x + y >= 2"},
    {"x // 4 < n", "x < 4*n"},
    {"x // 4 >= n", "x >= 4*n"},
    {"n4 < 6", "n4 < 5"},
    {"2*x == 4*y + 1", "0"},
    {"n4 == 7", "0"},
    {"2*x == 6", "x == 3"},
    {"x != x", "0"},
    {"x + 1 > x", "1"},
    {"not x < y", "y <= x"},
    {"not (x < 3 or y == 2)", "x >= 3 and y != 2"},
    {"x < 3 and x < 5", "x < 3"},
    {"x < 3 or x < 5", "x < 5"},
    {"x < 3 and x > 3", "0"},
    {"x < 3 or x >= 3", "1"},
    {"x >= 3 and x <= 3", "x == 3"},
    {"x == y and x != y", "0"},
    {"flag == 1", "flag"},
    {"flag != 0", "flag"},
    {"not flag", "flag == 0"},
    {"not not x", "x != 0"},
    {"x and 1", "x != 0"},
    {"(x < y) == 0", "y <= x"},
    {"x < y and (x < y or z == 1)", "x < y"},
};

} // namespace

TEST(Simplify, Becomes) {
  for (const Pair& p : pairs) EXPECT_EQ(parse(p.from), parse(p.to)) << p.from;
}

TEST(Canonical, TextIsReadable) {
  EXPECT_EQ(to_string(parse("j + 64*i")), "i*64 + j");
  EXPECT_EQ(to_string(parse("min(j, 3) // 4 + i*64")), "i*64");
  EXPECT_EQ(to_string(parse("y // 4 + x*64 - 3")), "x*64 + y // 4 - 3");
  EXPECT_EQ(to_string(parse("-x*2 - y")), "-x*2 - y");
  EXPECT_EQ(to_string(parse("(x // 4) * 8 % 24")), "((x // 4) % 3)*8");
  EXPECT_EQ(to_string(parse("k <= x")), "k <= x");
  EXPECT_EQ(to_string(parse("x > 3")), "x >= 4");
  EXPECT_EQ(to_string(parse("(x < y)*4 + (x == 2)")), "(x < y)*4 + (x == 2)");
  EXPECT_EQ(to_string(parse("x < y and (y < z or z == 1)")), "x < y and (y < z or z == 1)");
}

TEST(Canonical, FactsAreTightAndPartOfTheSymbol) {
  EXPECT_EQ(Expr::symbol("s", {1, 66}, 4), Expr::symbol("s", {4, 64}, 4));
  EXPECT_NE(Expr::symbol("s", {1, 66}, 4), Expr::symbol("s", {1, 66}));
  EXPECT_EQ(parse("n4*3 + 8").multiple(), 4);
  EXPECT_EQ(parse("n4*n4").multiple(), 16);
  EXPECT_EQ(parse("n4*n4").range(), (Interval{16, 1 << 20}));
  EXPECT_EQ(parse("x*x").range(), (Interval{0, unbounded_high}));
  EXPECT_EQ(parse("x % n").range(), (Interval{0, (1 << 20) - 1}));
  EXPECT_EQ(parse("n4 % 64").range(), (Interval{0, 60}));
  EXPECT_EQ(Expr(0).multiple(), 0);
  EXPECT_EQ(Expr(-6).multiple(), 6);
  EXPECT_THROW(Expr::symbol("s", {5, 4}), Error);
  EXPECT_THROW(Expr::symbol("s", {5, 7}, 4), Error);
  EXPECT_THROW(Expr::symbol("s", {}, 0), Error);
  for (const char* bad : {"", "1x", "a b", "min", "not", "a.", ".a", "a..b", "a-b", "\xC3\xA4"})
    EXPECT_THROW(Expr::symbol(bad), Error) << bad;
  EXPECT_NO_THROW(Expr::symbol("layer.0.rows"));
}

TEST(Canonical, OverflowIsAnErrorOrNotSimplified) {
  const Expr x = Expr::symbol("x"), big = INT64_MAX;
  EXPECT_THROW(big + 1, Error);
  EXPECT_THROW(x + big + 1, Error);
  EXPECT_THROW(x * big * 2, Error);
  EXPECT_THROW(x * big + x, Error);
  EXPECT_THROW(-Expr(INT64_MIN), Error);
  EXPECT_THROW(floordiv(INT64_MIN, -1), Error);
  EXPECT_EQ(mod(INT64_MIN, -1), 0);
  EXPECT_THROW(Expr(UINT64_MAX), Error);
  // Comparisons and divisions whose simplification would overflow stay, and are right.
  EXPECT_EQ(lt(INT64_MIN, INT64_MAX), 1);
  EXPECT_EQ(lt(INT64_MAX, INT64_MIN), 0);
  EXPECT_EQ(eq(INT64_MIN, INT64_MAX), 0);
  const Expr less = lt(x + INT64_MIN, Expr::symbol("y") + INT64_MAX);
  EXPECT_EQ(evaluate(less, {{x, 5}, {Expr::symbol("y"), -7}}).value(), 1);
  const Expr nested = floordiv(floordiv(x, INT64_MAX), 4);
  EXPECT_EQ(evaluate(nested, {{x, INT64_MIN}}).value(), -1);
  EXPECT_EQ(evaluate(nested, {{x, INT64_MAX}}).value(), 0);
  EXPECT_EQ((x * big).range(), Interval{});
  EXPECT_EQ(evaluate(mod(x, INT64_MIN), {{x, 5}}).value(), 5 + INT64_MIN);
  EXPECT_EQ(evaluate(floordiv(x, INT64_MIN), {{x, 5}}).value(), -1);
}

TEST(Canonical, DivisionByZero) {
  const Expr x = Expr::symbol("x"), zero = Expr::symbol("zero", {0, 0});
  EXPECT_THROW(floordiv(x, 0), Error);
  EXPECT_THROW(mod(x, 0), Error);
  EXPECT_THROW(ceildiv(x, 0), Error);
  EXPECT_THROW(floordiv(x, zero), Error);
  EXPECT_THROW(floordiv(0, 0), Error);
  // A divisor that may be 0 stays.
  const Expr y = Expr::symbol("y", {-1, 1});
  EXPECT_EQ(floordiv(y * x, y).kind(), ExprKind::floordiv);
  EXPECT_EQ(floordiv(x, y).kind(), ExprKind::floordiv);
}

TEST(Canonical, NestingIsLimited) {
  const Expr x = Expr::symbol("x"), y = Expr::symbol("y");
  Expr e = x;
  EXPECT_THROW(
      {
        for (int i = 0; i < 2000; ++i) e = min(e * 3 + i, max(e, y) * y);
      },
      Error);
  EXPECT_LE(e.depth(), 500u);
}

// Structural hash and order depend on what an expression is, not on when it was made.
TEST(Canonical, HashAndOrderAreStructural) {
  const Expr fixed = floordiv(Expr::symbol("alpha", {0, 9}) * 3 + 1, 7);
  EXPECT_EQ(fixed.hash(), 3994216266449880706u);
  // Made in either order, sums have one order of terms.
  const Expr late = Expr::symbol("zz.early"), early = Expr::symbol("aa.late");
  EXPECT_EQ(to_string(late + early), "aa.late + zz.early");
  EXPECT_EQ(to_string(floordiv(late, 2) + floordiv(early, 3) + early * late + late),
            "zz.early + aa.late*zz.early + aa.late // 3 + zz.early // 2");
  EXPECT_TRUE(ExprLess{}(early, late));
  EXPECT_FALSE(ExprLess{}(late, early));
  EXPECT_FALSE(ExprLess{}(late, late));
}

// Many threads make the same and different expressions at once: one id for one form.
TEST(Canonical, Threads) {
  constexpr int threads = 4, count = 3000;
  std::vector<std::vector<Expr>> made(threads);
  std::vector<std::thread> running;
  for (int t = 0; t < threads; ++t)
    running.emplace_back([&made, t] {
      for (int i = 0; i < count; ++i) {
        const int c = t % 2 == 0 ? i : count - 1 - i; // in another order
        const Expr a = Expr::symbol("thread.a" + std::to_string(c % 50)),
                   b = Expr::symbol("thread.b", {0, c % 64 + 1});
        made[static_cast<size_t>(t)].push_back(floordiv(a * (c + 2) + b, c % 7 + 2) + min(a, b * c) +
                                               mod(a, b + 1));
      }
    });
  for (auto& thread : running) thread.join();
  for (int t = 1; t < threads; ++t)
    for (int i = 0; i < count; ++i) {
      const int at = t % 2 == 0 ? i : count - 1 - i;
      ASSERT_EQ(made[static_cast<size_t>(t)][static_cast<size_t>(at)], made[0][static_cast<size_t>(i)]);
    }
}

TEST(Structure, Symbols) {
  const auto symbols = symbols_of(parse("y*3 + x // (n + 1) + min(i, z) + x"));
  std::string names;
  for (const Expr s : symbols) names += std::string(s.name()) + " ";
  EXPECT_EQ(names, "i n x y z ");
  EXPECT_TRUE(depends_on(parse("min(x, y // n)"), parse("n")));
  EXPECT_FALSE(depends_on(parse("min(x, y // n)"), parse("z")));
  EXPECT_TRUE(symbols_of(Expr(4)).empty());
}

TEST(Structure, Substitute) {
  EXPECT_EQ(substitute(parse("x*4 + y"), {{parse("x"), parse("y")}, {parse("y"), parse("x")}}),
            parse("y*4 + x"));
  EXPECT_EQ(substitute(parse("i*4 + j"), {{parse("i"), parse("3")}}), parse("12 + j"));
  EXPECT_EQ(substitute(parse("(x + y) // 4"), {{parse("x"), parse("z*4")}, {parse("y"), parse("j")}}),
            parse("z"));
  EXPECT_EQ(substitute(parse("x"), {}), parse("x"));
  EXPECT_THROW(substitute(parse("i"), {{parse("i"), 64}}), Error);    // i is 0..63
  EXPECT_THROW(substitute(parse("n4"), {{parse("n4"), 6}}), Error);   // a multiple of 4
  EXPECT_THROW(substitute(parse("x"), {{parse("x + 1"), 6}}), Error); // no symbol
  EXPECT_THROW(substitute(parse("x // n"), {{parse("n"), 0}}), Error);
}

TEST(Structure, AffineView) {
  const Affine a = affine_terms(parse("x*4 - y + x*y*2 + x // 3 + 7"));
  EXPECT_EQ(a.constant, 7);
  ASSERT_EQ(a.terms.size(), 4u);
  Expr sum = a.constant;
  for (const auto& [term, c] : a.terms) {
    EXPECT_NE(term.kind(), ExprKind::add);
    sum += term * c;
  }
  EXPECT_EQ(sum, parse("x*4 - y + x*y*2 + x // 3 + 7"));

  EXPECT_EQ(coefficient_of(parse("x*4 + n*x + y"), parse("x")), parse("n + 4"));
  EXPECT_EQ(coefficient_of(parse("y"), parse("x")), Expr(0));
  EXPECT_EQ(coefficient_of(parse("x*x"), parse("x")), std::nullopt);
  EXPECT_EQ(coefficient_of(parse("x + x // 2"), parse("x")), std::nullopt);
  EXPECT_EQ(coefficient_of(parse("x*(x // n)"), parse("x")), std::nullopt);
}

TEST(Structure, DivmodSplit) {
  const auto split = divmod_split(parse("i*8 + j*2 + 17"), 8);
  ASSERT_TRUE(split);
  EXPECT_EQ(split->first, parse("i + 2"));
  EXPECT_EQ(split->second, parse("j*2 + 1"));
  EXPECT_FALSE(divmod_split(parse("i*8 + j*3"), 8)); // j*3 reaches 9
  EXPECT_FALSE(divmod_split(parse("x"), 8));
  const auto negative = divmod_split(parse("x*8 - j - 1"), 8);
  ASSERT_TRUE(negative);
  EXPECT_EQ(negative->first, parse("x - 1"));
  EXPECT_EQ(negative->second, parse("7 - j"));
  EXPECT_THROW((void)divmod_split(parse("x"), 0), Error);
}

} // namespace luminal::simplify_test
