// tests/expr/naive.h -- expression trees without any simplification: what an expression means, for
// comparison.
#pragma once
#include "expr/expr.h"
#include <memory>
#include <random>

namespace luminal::naive {

enum class Op : uint8_t {
  constant,
  symbol,
  add,
  sub,
  mul,
  negate,
  floordiv,
  mod,
  ceildiv,
  min,
  max,
  lt,
  le,
  gt,
  ge,
  eq,
  ne,
  both,
  either,
  no
};
inline constexpr Op binary_ops[] = {Op::add, Op::sub, Op::mul,  Op::floordiv, Op::mod, Op::ceildiv,
                                    Op::min, Op::max, Op::lt,   Op::le,       Op::gt,  Op::ge,
                                    Op::eq,  Op::ne,  Op::both, Op::either};

struct Tree {
  Op op = Op::constant;
  int64_t value = 0; // constant, or index of the symbol
  std::shared_ptr<const Tree> a, b;
};
using TreePtr = std::shared_ptr<const Tree>;

inline TreePtr constant(int64_t v) { return std::make_shared<Tree>(Tree{Op::constant, v, {}, {}}); }
inline TreePtr symbol(int64_t index) { return std::make_shared<Tree>(Tree{Op::symbol, index, {}, {}}); }
inline TreePtr node(Op op, TreePtr a, TreePtr b = nullptr) {
  return std::make_shared<Tree>(Tree{op, 0, std::move(a), std::move(b)});
}

/// Nothing: division by zero somewhere, or a value of 2^62 and more.
std::optional<int64_t> evaluate(const Tree& t, std::span<const int64_t> values);
/// Through the constructors of luminal.
Expr build(const Tree& t, std::span<const Expr> symbols);
std::string to_string(const Tree& t);

/// All points of the box of the symbols' ranges cut to [-limit, limit] and to their multiples.
std::vector<std::vector<int64_t>> points(std::span<const Expr> symbols, int64_t limit);

/// Random trees. `shape` 0: any operation; 1: index arithmetic with constant divisors; 2:
/// conditions on index arithmetic; 3: symbolic products and divisors.
struct Generator {
  std::mt19937_64 random;
  int64_t symbol_count = 2;
  int64_t pick(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
  }
  TreePtr tree(int depth, int shape);
};

/// Checks one tree: value, range, divisor, proof, text, interval evaluation. The empty text, or
/// what is wrong.
std::string verify(const Tree& t, std::span<const Expr> symbols,
                   const std::vector<std::vector<int64_t>>& points);
/// The smallest subtree that verify() rejects, with its complaint.
std::string shrunk(const TreePtr& t, std::span<const Expr> symbols,
                   const std::vector<std::vector<int64_t>>& points);

} // namespace luminal::naive
