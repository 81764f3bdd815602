// tests/expr/box_test.cpp -- every small expression, at every point of a small box, against its
// meaning without simplification.
#include "expr/naive.h"
#include <gtest/gtest.h>

using namespace luminal;
using namespace luminal::naive;

namespace {

struct Facts {
  const char* label;
  Interval a, b;
  int64_t multiple_a = 1, multiple_b = 1;
};
const Facts boxes[] = {
    {"unbounded", {}, {}},
    {"digits", {0, 7}, {0, 3}},
    {"positive", {0, unbounded_high}, {1, 5}},
    {"negative", {-6, -1}, {-3, 2}},
    {"multiples", {unbounded_low, unbounded_high}, {0, 12}, 4, 3},
    {"points", {2, 2}, {-1, 0}},
    {"conditions", {0, 1}, {-2, 6}},
};

class Box : public testing::TestWithParam<Facts> {
protected:
  std::vector<Expr> symbols{Expr::symbol("a", GetParam().a, GetParam().multiple_a),
                            Expr::symbol("b", GetParam().b, GetParam().multiple_b)};
  std::vector<std::vector<int64_t>> box = points(symbols, 8);
  size_t count = 0;

  void check(const TreePtr& t) {
    ++count;
    if (verify(*t, symbols, box).empty()) return;
    FAIL() << shrunk(t, symbols, box);
  }
};

std::vector<TreePtr> leaves(std::initializer_list<int64_t> constants) {
  std::vector<TreePtr> out{symbol(0), symbol(1)};
  for (const int64_t c : constants) out.push_back(constant(c));
  return out;
}

} // namespace

// leaf op leaf, and not and minus of it
TEST_P(Box, TwoLeaves) {
  const auto all = leaves({-8, -4, -3, -2, -1, 0, 1, 2, 3, 4, 6, 8});
  for (const Op op : binary_ops)
    for (const auto& x : all)
      for (const auto& y : all) {
        check(node(op, x, y));
        check(node(Op::no, node(op, x, y)));
        check(node(Op::negate, node(op, x, y)));
        if (HasFatalFailure()) return;
      }
}

// (leaf op leaf) op leaf and leaf op (leaf op leaf)
TEST_P(Box, ThreeLeaves) {
  const auto all = leaves({-3, -1, 0, 1, 2, 4});
  for (const Op outer : binary_ops)
    for (const Op inner : binary_ops)
      for (const auto& x : all)
        for (const auto& y : all)
          for (const auto& z : all) {
            // Expressions of constants alone were seen with two leaves.
            if (x->op == Op::constant && y->op == Op::constant && z->op == Op::constant) continue;
            check(node(outer, node(inner, x, y), z));
            if (outer == Op::sub || outer == Op::floordiv || outer == Op::mod || outer == Op::ceildiv)
              check(node(outer, z, node(inner, x, y)));
            if (HasFatalFailure()) return;
          }
}

// (p*a + q*b + r) // d, % d, and the same again divided or reduced by another number: the forms
// that index maps are made of.
TEST_P(Box, DivisionOfSums) {
  static constexpr int64_t coefficients[] = {-4, -1, 1, 2, 3, 4, 6}, constants[] = {-5, -1, 0, 1, 3, 4},
                           divisors[] = {-4, -2, 2, 3, 4, 8};
  for (const int64_t p : coefficients)
    for (const int64_t q : coefficients)
      for (const int64_t r : constants) {
        const auto sum =
            node(Op::add,
                 node(Op::add, node(Op::mul, symbol(0), constant(p)), node(Op::mul, symbol(1), constant(q))),
                 constant(r));
        for (const int64_t d : divisors) {
          const auto quotient = node(Op::floordiv, sum, constant(d)), rest = node(Op::mod, sum, constant(d));
          check(quotient);
          check(rest);
          check(node(Op::add, node(Op::mul, quotient, constant(d)), rest));
          check(node(Op::sub, sum, node(Op::mul, quotient, constant(d))));
          for (const int64_t d2 : {2, 4, -3}) {
            check(node(Op::floordiv, quotient, constant(d2)));
            check(node(Op::mod, quotient, constant(d2)));
            check(node(Op::floordiv, rest, constant(d2)));
            check(node(Op::mod, rest, constant(d2)));
            check(node(Op::add, node(Op::mul, node(Op::mod, quotient, constant(d2)), constant(d)), rest));
          }
          check(node(Op::lt, quotient, symbol(1)));
          check(node(Op::eq, rest, constant(1)));
          if (HasFatalFailure()) return;
        }
      }
}

// The same with a symbol as the divisor.
TEST_P(Box, DivisionByASymbol) {
  const auto all = leaves({-2, -1, 0, 1, 3});
  for (const int64_t factor : {1, 2, -3})
    for (const int64_t shift : {0, 1})
      for (const auto& x : all)
        for (const auto& y : all)
          for (const auto& z : all) {
            // x*b + y over b, b*factor, b + 1, and products of both
            const auto divisor = node(Op::add, node(Op::mul, symbol(1), constant(factor)), constant(shift));
            const auto e =
                node(Op::add, node(Op::mul, x, divisor), node(Op::add, y, node(Op::mul, z, symbol(1))));
            const auto quotient = node(Op::floordiv, e, divisor), rest = node(Op::mod, e, divisor);
            check(quotient);
            check(rest);
            check(node(Op::add, node(Op::mul, quotient, divisor), rest));
            check(node(Op::sub, e, node(Op::mul, divisor, quotient)));
            check(node(Op::floordiv, rest, symbol(1)));
            check(node(Op::mod, rest, symbol(1)));
            check(node(Op::floordiv, quotient, constant(2)));
            check(node(Op::mod, quotient, constant(2)));
            check(node(Op::lt, rest, divisor));
            if (HasFatalFailure()) return;
          }
}

// min and max of sums, and what is compared with them.
TEST_P(Box, Extremes) {
  const auto all = leaves({-2, 0, 1, 4});
  for (const Op f : {Op::min, Op::max})
    for (const Op g : {Op::min, Op::max})
      for (const auto& x : all)
        for (const auto& y : all)
          for (const auto& z : all)
            for (const int64_t p : {-2, -1, 1, 2}) {
              const auto px = node(Op::mul, x, constant(p)), py = node(Op::mul, y, constant(p));
              const auto inner = node(f, node(Op::add, px, z), node(Op::add, py, z));
              check(inner);
              check(node(g, inner, z));
              check(node(g, node(f, x, y), node(f, x, z)));
              check(node(Op::lt, node(g, inner, z), constant(1)));
              if (HasFatalFailure()) return;
            }
}

// Two inequalities of the same difference, joined in every way.
TEST_P(Box, PairsOfComparisons) {
  static constexpr Op comparisons[] = {Op::lt, Op::le, Op::gt, Op::ge, Op::eq, Op::ne};
  for (const Op f : comparisons)
    for (const Op g : comparisons)
      for (int64_t p = -2; p <= 2; ++p)
        for (int64_t q = -2; q <= 3; ++q)
          for (const Op join : {Op::both, Op::either}) {
            const auto first = node(f, symbol(0), constant(p)), second = node(g, symbol(0), constant(q));
            check(node(join, first, second));
            check(node(join, first, node(join == Op::both ? Op::either : Op::both, first, second)));
            const auto difference = node(Op::sub, node(Op::mul, symbol(0), constant(2)), symbol(1));
            check(node(join, node(f, difference, constant(p)), node(g, difference, constant(q))));
            check(node(join, node(f, difference, constant(p)),
                       node(g, node(Op::negate, difference), constant(q))));
            if (HasFatalFailure()) return;
          }
}

INSTANTIATE_TEST_SUITE_P(Facts, Box, testing::ValuesIn(boxes),
                         [](const auto& p) { return std::string(p.param.label); });
