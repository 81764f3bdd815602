// tests/expr/prove_test.cpp -- proofs: what must be found, and that nothing wrong is ever found.
#include "expr/naive.h"
#include <fmt/format.h>
#include <gtest/gtest.h>

using namespace luminal;

namespace {

const SymbolScope& scope() {
  static const SymbolScope symbols = [] {
    SymbolScope s;
    for (const char* free : {"x", "y", "z"}) s.emplace(free, Expr::symbol(free));
    for (const char* natural : {"a", "b", "c", "d"})
      s.emplace(natural, Expr::symbol(natural, {0, unbounded_high}));
    for (const char* size : {"m", "n", "p"}) s.emplace(size, Expr::symbol(size, {1, unbounded_high}));
    s.emplace("i", Expr::symbol("i", {0, 63}));
    s.emplace("t", Expr::symbol("t", {1, 1 << 20}, 16));
    return s;
  }();
  return symbols;
}
Expr parse(std::string_view text) { return Expr::parse(text, scope()).value(); }

struct Proof {
  const char* condition;
  std::vector<const char*> assumptions;
  Truth answer;
};
const Proof proofs[] = {
    // by ranges
    {"i < 64", {}, Truth::yes},
    {"i*2 + 1 == 4", {}, Truth::no},
    {"x < x + 1", {}, Truth::yes},
    {"x < y", {}, Truth::unknown},
    {"t % 8 == 0", {}, Truth::yes},
    // what atoms mean
    {"x % n < n", {}, Truth::yes},
    {"x % n >= n", {}, Truth::no},
    {"x // n * n <= x", {}, Truth::yes},
    {"x < (x // n + 1)*n", {}, Truth::yes},
    {"min(x, y) <= x", {}, Truth::yes},
    {"max(x, y) >= y", {}, Truth::yes},
    {"min(x, y) <= max(y, z)", {}, Truth::yes},
    {"a % n <= a", {}, Truth::yes},
    {"a // n <= a", {}, Truth::yes},
    {"ceildiv(n, 64)*64 >= n", {}, Truth::yes},
    {"ceildiv(n, 64)*64 < n + 64", {}, Truth::yes},
    {"min(i*64 + 64, n) - i*64 <= 64", {}, Truth::yes},
    // from assumptions
    {"x < z", {"x < y", "y < z"}, Truth::yes},
    {"x + 2 <= z", {"x < y", "y < z"}, Truth::yes},
    {"x + 3 <= z", {"x < y", "y < z"}, Truth::unknown},
    {"x >= y", {"x < y"}, Truth::no},
    {"x == y", {"x < y"}, Truth::no},
    {"x != y", {"x < y"}, Truth::yes},
    {"x == y", {"x <= y", "y <= x"}, Truth::yes},
    {"a*n + b < m*n", {"a < m", "b < n"}, Truth::yes},
    {"a*n + b < m*n", {"a < m", "b <= n"}, Truth::unknown},
    {"(a*n + b)*p + c < m*n*p", {"a < m", "b < n", "c < p"}, Truth::yes},
    {"a*64 + i < n", {"a*64 + 64 <= n"}, Truth::yes},
    {"a < ceildiv(n, 64)", {"a*64 < n"}, Truth::yes},
    {"a // 4 < n", {"a < 4*n"}, Truth::yes},
    {"a // n < m", {"a < m*n"}, Truth::yes},
    {"x == 3", {"x == 3"}, Truth::yes},
    {"x < 3 or y == 2", {"x < 3 or y == 2"}, Truth::yes},
    {"x < 3 and y < 2", {"x < 1", "y < 1"}, Truth::yes},
    {"x < 3 and y < 2", {"x > 3"}, Truth::no},
    {"x < 3 or y < 2", {"y < 2"}, Truth::yes},
    {"x + y < 10", {"x < 3 and y < 4"}, Truth::yes},
    {"x != y", {"x < z"}, Truth::unknown},
};

} // namespace

TEST(Prove, Known) {
  for (const Proof& p : proofs) {
    std::vector<Expr> assumptions;
    for (const char* text : p.assumptions) assumptions.push_back(parse(text));
    EXPECT_EQ(prove(parse(p.condition), assumptions), p.answer)
        << p.condition << " given " << fmt::format("{}", fmt::join(p.assumptions, "; "));
  }
}

TEST(Prove, Equality) {
  EXPECT_TRUE(proves_equal(parse("x*2 + y"), parse("y + x + x")));
  EXPECT_FALSE(proves_equal(parse("x"), parse("y")));
  EXPECT_TRUE(proves_equal(parse("x % 4 + x // 4 * 100"), parse("x + x // 4 * 96")));
  const std::vector<Expr> assumptions{parse("a < n")};
  EXPECT_TRUE(proves_equal(parse("a % n"), parse("a"), assumptions) ||
              simplify_under(parse("a % n"), assumptions) == parse("a"));
}

TEST(Prove, SimplifyUnder) {
  const auto under = [](const char* e, std::vector<const char*> assumptions) {
    std::vector<Expr> list;
    for (const char* text : assumptions) list.push_back(parse(text));
    return simplify_under(parse(e), list);
  };
  EXPECT_EQ(under("a % n", {"a < n"}), parse("a"));
  EXPECT_EQ(under("a // n", {"a < n"}), 0);
  EXPECT_EQ(under("a // 4", {"a < 4"}), 0);
  // Places in boxes of symbols: digits of which each is less than its extent.
  EXPECT_EQ(under("(a*n + b) // n", {"b < n"}), parse("a"));
  EXPECT_EQ(under("(a*n + b) % n", {"b < n"}), parse("b"));
  EXPECT_EQ(under("(a*n + b) // (n*m)", {"b < n"}), parse("a // m"));
  EXPECT_EQ(under("(a*n + b) % (n*m)", {"b < n"}), parse("a % m * n + b"));
  EXPECT_EQ(under("(a*n + b) // (n*m)", {"b < n", "a < m"}), 0);
  EXPECT_EQ(under("(a*m*n + b*n + c) // (m*n)", {"b < m", "c < n"}), parse("a"));
  EXPECT_EQ(under("(a*n + b) // (n*m)", {"b <= n"}), parse("(a*n + b) // (n*m)"));
  EXPECT_EQ(under("(a*8 + b) // 8", {"b < 8"}), parse("a"));
  EXPECT_EQ(under("min(a*64 + 64, n)", {"a*64 + 64 <= n"}), parse("a*64 + 64"));
  EXPECT_EQ(under("min(x, y, z)", {"x <= y", "x <= z"}), parse("x"));
  EXPECT_EQ(under("x < n and y < 3", {"x < n"}), parse("y < 3"));
  EXPECT_EQ(under("x + y", {"x == 3"}), parse("y + 3"));
  EXPECT_EQ(under("x", {"x == 3"}), 3);
  EXPECT_EQ(under("x % 4", {"x % 8 == 0"}), 0);
  EXPECT_EQ(under("x // 4 * 4", {"x % 4 == 0"}), parse("x"));
  EXPECT_EQ(under("x + y", {"z < 3"}), parse("x + y"));
  EXPECT_EQ(under("x + y", {}), parse("x + y"));
  EXPECT_EQ(under("(x < y)*x", {"x < y"}), parse("x"));
}

// Random conditions under random assumptions, at every point of a box where the assumptions hold.
TEST(Prove, NeverWrong) {
  naive::Generator g{std::mt19937_64(21), 3};
  int yes = 0, no = 0, simplified = 0;
  for (int round = 0; round < 12000; ++round) {
    std::vector<Expr> symbols;
    for (int64_t s = 0; s < 3; ++s) {
      Interval range;
      if (g.pick(0, 1)) range.low = g.pick(-5, 2);
      if (g.pick(0, 2) == 0) range.high = (range.low == unbounded_low ? 0 : range.low) + g.pick(0, 7);
      symbols.push_back(Expr::symbol(std::string(1, static_cast<char>('a' + s)), range));
    }
    const auto box = naive::points(symbols, 5);
    std::vector<naive::TreePtr> trees{g.tree(3, 2)};
    for (int64_t k = g.pick(1, 3); k > 0; --k) trees.push_back(g.tree(2, 2));
    std::vector<Expr> built;
    for (const auto& t : trees) built.push_back(naive::build(*t, symbols));
    const std::span<const Expr> assumptions = std::span(built).subspan(1);
    const Truth answer = prove(built[0], assumptions);
    yes += answer == Truth::yes, no += answer == Truth::no;
    const auto term = g.tree(4, 1);
    const Expr e = naive::build(*term, symbols), s = simplify_under(e, assumptions);
    simplified += s != e;
    const ExprProgram program(std::span(&s, 1), symbols);
    for (const auto& p : box) {
      bool holds = true;
      for (size_t k = 1; k < trees.size() && holds; ++k)
        holds = naive::evaluate(*trees[k], p).value_or(0) != 0;
      if (!holds) continue;
      const auto value = naive::evaluate(*trees[0], p);
      const auto context = [&] {
        std::string text = fmt::format("round {} at {}:", round, fmt::join(p, ", "));
        for (const Expr a : assumptions) text += " [" + to_string(a) + "]";
        return text;
      };
      ASSERT_TRUE(!value || answer == Truth::unknown || (*value != 0) == (answer == Truth::yes))
          << context() << " |- " << to_string(built[0]);
      int64_t result = 0;
      const auto wanted = naive::evaluate(*term, p);
      if (!wanted) continue;
      ASSERT_TRUE(program.run(p, std::span(&result, 1))) << context() << to_string(s);
      ASSERT_EQ(result, *wanted) << context() << " " << to_string(e) << " became " << to_string(s);
    }
  }
  // The test would be empty if nothing were ever proved.
  EXPECT_GT(yes, 1000);
  EXPECT_GT(no, 1000);
  EXPECT_GT(simplified, 500);
}
