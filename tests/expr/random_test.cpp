// tests/expr/random_test.cpp -- deep random expressions against their meaning, for many facts about
// the symbols.
#include "expr/naive.h"
#include <gtest/gtest.h>

using namespace luminal;
using namespace luminal::naive;

namespace {

std::vector<Expr> random_symbols(Generator& g, int64_t count) {
  std::vector<Expr> out;
  for (int64_t i = 0; i < count; ++i) {
    const std::string name(1, static_cast<char>('a' + i));
    Interval range;
    if (g.pick(0, 3) > 0) range.low = g.pick(-6, 4);
    if (g.pick(0, 3) > 0) range.high = (range.low == unbounded_low ? -2 : range.low) + g.pick(0, 9);
    const int64_t multiple = g.pick(0, 3) == 0 ? g.pick(2, 4) : 1;
    try {
      out.push_back(Expr::symbol(name, range, multiple));
    } catch (const Error&) { // no multiple in the range
      out.push_back(Expr::symbol(name, range));
    }
  }
  return out;
}

void run(int shape, int depth, int count, uint64_t seed) {
  Generator g{std::mt19937_64(seed), 3};
  for (int i = 0; i < count; ++i) {
    const auto symbols = random_symbols(g, g.symbol_count);
    auto all = points(symbols, 9);
    std::shuffle(all.begin(), all.end(), g.random);
    if (all.size() > 40) all.resize(40);
    const auto t = g.tree(depth, shape);
    if (verify(*t, symbols, all).empty()) continue;
    std::string facts;
    for (const Expr s : symbols)
      facts += std::string(s.name()) + ": " + std::to_string(s.range().low) + ".." +
               std::to_string(s.range().high) + " x" + std::to_string(s.multiple()) + "; ";
    FAIL() << "seed " << seed << ", case " << i << ", " << facts << shrunk(t, symbols, all);
  }
}

} // namespace

TEST(RandomExpr, AnyOperation) { run(0, 4, 20000, 11); }
TEST(RandomExpr, AnyOperationDeep) { run(0, 7, 1500, 12); }
TEST(RandomExpr, IndexArithmetic) { run(1, 5, 20000, 13); }
TEST(RandomExpr, IndexArithmeticDeep) { run(1, 8, 1500, 14); }
TEST(RandomExpr, Conditions) { run(2, 5, 15000, 15); }
TEST(RandomExpr, SymbolicDivisors) { run(3, 5, 20000, 16); }
TEST(RandomExpr, SymbolicDivisorsDeep) { run(3, 7, 1500, 17); }

// e == floordiv(e, d) * d + mod(e, d) must be seen by the canonical form itself.
TEST(RandomExpr, QuotientAndRemainderRejoin) {
  Generator g{std::mt19937_64(18), 3};
  int rejoined = 0, count = 4000;
  for (int i = 0; i < count; ++i) {
    const auto symbols = random_symbols(g, g.symbol_count);
    const Expr e = build(*g.tree(3, 1), symbols);
    const int64_t d = g.pick(2, 12);
    const Expr joined = floordiv(e, d) * d + mod(e, d);
    rejoined += joined == e;
    EXPECT_TRUE(joined == e || prove(eq(joined, e)) != Truth::no) << e << " by " << d << " gives " << joined;
  }
  EXPECT_GE(rejoined, count * 97 / 100);
}
