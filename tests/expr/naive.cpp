// tests/expr/naive.cpp -- the reference meaning of expressions, and random ones.
#include "expr/naive.h"
#include <fmt/format.h>

namespace luminal::naive {

std::optional<int64_t> evaluate(const Tree& t, std::span<const int64_t> values) {
  if (t.op == Op::constant) return t.value;
  if (t.op == Op::symbol) return values[static_cast<size_t>(t.value)];
  const auto left = evaluate(*t.a, values);
  const auto right = t.b ? evaluate(*t.b, values) : std::optional<int64_t>(0);
  if (!left || !right) return std::nullopt;
  const __int128 a = *left, b = *right;
  const auto floor_of = [](__int128 p, __int128 q) {
    __int128 r = p / q;
    if (r * q != p && (p < 0) != (q < 0)) --r;
    return r;
  };
  __int128 v = 0;
  switch (t.op) {
  case Op::add: v = a + b; break;
  case Op::sub: v = a - b; break;
  case Op::mul: v = a * b; break;
  case Op::negate: v = -a; break;
  case Op::floordiv:
    if (b == 0) return std::nullopt;
    v = floor_of(a, b);
    break;
  case Op::mod:
    if (b == 0) return std::nullopt;
    v = a - floor_of(a, b) * b;
    break;
  case Op::ceildiv:
    if (b == 0) return std::nullopt;
    v = -floor_of(-a, b);
    break;
  case Op::min: v = a < b ? a : b; break;
  case Op::max: v = a > b ? a : b; break;
  case Op::lt: v = a < b; break;
  case Op::le: v = a <= b; break;
  case Op::gt: v = a > b; break;
  case Op::ge: v = a >= b; break;
  case Op::eq: v = a == b; break;
  case Op::ne: v = a != b; break;
  case Op::both: v = a != 0 && b != 0; break;
  case Op::either: v = a != 0 || b != 0; break;
  case Op::no: v = a == 0; break;
  case Op::constant:
  case Op::symbol: break;
  }
  constexpr __int128 limit = __int128{1} << 62;
  if (v >= limit || v <= -limit) return std::nullopt;
  return static_cast<int64_t>(v);
}

Expr build(const Tree& t, std::span<const Expr> symbols) {
  if (t.op == Op::constant) return t.value;
  if (t.op == Op::symbol) return symbols[static_cast<size_t>(t.value)];
  const Expr a = build(*t.a, symbols), b = t.b ? build(*t.b, symbols) : Expr();
  switch (t.op) {
  case Op::add: return a + b;
  case Op::sub: return a - b;
  case Op::mul: return a * b;
  case Op::negate: return -a;
  case Op::floordiv: return floordiv(a, b);
  case Op::mod: return mod(a, b);
  case Op::ceildiv: return ceildiv(a, b);
  case Op::min: return min(a, b);
  case Op::max: return max(a, b);
  case Op::lt: return lt(a, b);
  case Op::le: return le(a, b);
  case Op::gt: return gt(a, b);
  case Op::ge: return ge(a, b);
  case Op::eq: return eq(a, b);
  case Op::ne: return ne(a, b);
  case Op::both: return logical_and(a, b);
  case Op::either: return logical_or(a, b);
  default: return logical_not(a);
  }
}

std::string to_string(const Tree& t) {
  static constexpr const char* names[] = {"",    "",  "+",  "-", "*",  "-",  "//", "%",   "ceildiv", "min",
                                          "max", "<", "<=", ">", ">=", "==", "!=", "and", "or",      "not"};
  const char* name = names[static_cast<int>(t.op)];
  if (t.op == Op::constant) return std::to_string(t.value);
  if (t.op == Op::symbol) return std::string(1, static_cast<char>('a' + t.value));
  if (!t.b) return fmt::format("({} {})", name, to_string(*t.a));
  if (t.op == Op::min || t.op == Op::max || t.op == Op::ceildiv)
    return fmt::format("{}({}, {})", name, to_string(*t.a), to_string(*t.b));
  return fmt::format("({} {} {})", to_string(*t.a), name, to_string(*t.b));
}

std::vector<std::vector<int64_t>> points(std::span<const Expr> symbols, int64_t limit) {
  std::vector<std::vector<int64_t>> out{{}};
  for (const Expr s : symbols) {
    std::vector<std::vector<int64_t>> longer;
    const Interval range = s.range();
    const int64_t low = std::max(range.low, -limit), high = std::min(range.high, limit);
    for (const auto& point : out)
      for (int64_t v = low; v <= high; ++v) {
        if (v % s.multiple() != 0) continue;
        longer.push_back(point);
        longer.back().push_back(v);
      }
    out = std::move(longer);
  }
  return out;
}

TreePtr Generator::tree(int depth, int shape) {
  static constexpr int64_t divisors[] = {2, 3, 4, 6, 8, 12, -2, -3, -4, 16, 1, 5};
  if (depth == 0 || pick(0, 7) == 0) {
    if (pick(0, 3) == 0) return constant(pick(-9, 9));
    return symbol(pick(0, symbol_count - 1));
  }
  if (shape == 0) {
    if (pick(0, 9) == 0) return node(pick(0, 1) ? Op::negate : Op::no, tree(depth - 1, shape));
    return node(binary_ops[pick(0, std::size(binary_ops) - 1)], tree(depth - 1, shape),
                tree(depth - 1, shape));
  }
  if (shape == 2) {
    static constexpr Op comparisons[] = {Op::lt, Op::le, Op::gt, Op::ge, Op::eq, Op::ne};
    if (depth <= 2 || pick(0, 2) == 0)
      return node(comparisons[pick(0, 5)], tree(depth - 1, 1),
                  pick(0, 1) ? constant(pick(-6, 12)) : tree(depth - 1, 1));
    if (pick(0, 4) == 0) return node(Op::no, tree(depth - 1, shape));
    return node(pick(0, 1) ? Op::both : Op::either, tree(depth - 1, shape), tree(depth - 1, shape));
  }
  switch (pick(0, 9)) {
  case 0:
  case 1:
  case 2: return node(Op::add, tree(depth - 1, shape), tree(depth - 1, shape));
  case 3: return node(Op::sub, tree(depth - 1, shape), tree(depth - 1, shape));
  case 4:
    if (shape == 3) return node(Op::mul, tree(depth - 1, shape), tree(depth - 2 < 0 ? 0 : depth - 2, shape));
    return node(Op::mul, tree(depth - 1, shape), constant(divisors[pick(0, 9)]));
  case 5:
  case 6:
    return node(Op::floordiv, tree(depth - 1, shape),
                shape == 3 && pick(0, 1) ? symbol(symbol_count - 1)
                                         : constant(divisors[pick(0, std::size(divisors) - 1)]));
  case 7:
  case 8:
    return node(Op::mod, tree(depth - 1, shape),
                shape == 3 && pick(0, 1) ? symbol(symbol_count - 1)
                                         : constant(divisors[pick(0, std::size(divisors) - 1)]));
  default:
    return node(pick(0, 1) ? Op::min : Op::max, tree(depth - 1, shape),
                pick(0, 1) ? constant(pick(-8, 8)) : tree(depth - 1, shape));
  }
}

std::string verify(const Tree& t, std::span<const Expr> symbols,
                   const std::vector<std::vector<int64_t>>& points) {
  Expr e;
  const auto zero_divisor = [&] { // is the tree without a value at every point?
    for (const auto& p : points)
      if (evaluate(t, p)) return false;
    return true;
  };
  try {
    e = build(t, symbols);
  } catch (const Error& error) {
    const std::string text = error.what();
    if (text.find("division by zero") != std::string::npos && zero_divisor()) return {};
    return text;
  }
  const auto text = luminal::to_string(e);
  const ExprProgram program(std::span(&e, 1), symbols);
  const Interval range = e.range();
  const Truth truth = prove(e);
  ExprMap<Interval> hull;
  bool any = false;
  for (const auto& p : points) {
    const auto wanted = evaluate(t, p);
    if (!wanted) continue;
    any = true;
    const auto place = [&] { return fmt::format("{} at {}", text, fmt::join(p, ", ")); };
    int64_t value = 0;
    if (!program.run(p, std::span(&value, 1))) return fmt::format("{}: {}", place(), program.why(p));
    if (value != *wanted) return fmt::format("{} is {}, not {}", place(), value, *wanted);
    if (!range.contains(value))
      return fmt::format("{} is {}, outside {}..{}", place(), value, range.low, range.high);
    if (e.multiple() == 0 ? value != 0 : value % e.multiple() != 0)
      return fmt::format("{} is {}, no multiple of {}", place(), value, e.multiple());
    if ((truth == Truth::yes && value == 0) || (truth == Truth::no && value != 0))
      return fmt::format("{} is {}: disproved", place(), value);
  }
  if (any && !points.empty()) {
    // A random box: between the first defined point and another one.
    const auto &p = points[text.size() * 7 % points.size()], &q = points[text.size() * 13 % points.size()];
    for (size_t i = 0; i < symbols.size(); ++i)
      hull[symbols[i]] = {std::min(p[i], q[i]), std::max(p[i], q[i])};
    const Interval box = evaluate_range(e, hull);
    for (const auto& r : points) {
      bool inside = true;
      for (size_t i = 0; i < symbols.size(); ++i) inside = inside && hull[symbols[i]].contains(r[i]);
      const auto wanted = inside ? evaluate(t, r) : std::nullopt;
      if (wanted && !box.contains(*wanted))
        return fmt::format("{}: {} is outside the evaluated range {}..{}", text, *wanted, box.low, box.high);
    }
  }
  SymbolScope scope;
  for (const Expr s : symbols) scope.emplace(std::string(s.name()), s);
  const auto parsed = Expr::parse(text, scope);
  if (!parsed) return fmt::format("{} does not parse: {}", text, parsed.error());
  if (*parsed != e) return fmt::format("{} parses as {}", text, luminal::to_string(*parsed));
  return {};
}

std::string shrunk(const TreePtr& t, std::span<const Expr> symbols,
                   const std::vector<std::vector<int64_t>>& points) {
  const std::string complaint = verify(*t, symbols, points);
  if (complaint.empty()) return {};
  for (const TreePtr& child : {t->a, t->b})
    if (child)
      if (const std::string smaller = shrunk(child, symbols, points); !smaller.empty()) return smaller;
  // Replace children by their own children or by small constants.
  const auto with = [&](const TreePtr& a, const TreePtr& b) {
    return shrunk(std::make_shared<Tree>(Tree{t->op, t->value, a, b}), symbols, points);
  };
  for (int side = 0; side < 2; ++side) {
    const TreePtr& child = side ? t->b : t->a;
    if (!child) continue;
    for (const TreePtr& replacement :
         {child->a, child->b, child->a ? constant(0) : TreePtr(), child->a ? constant(1) : TreePtr()})
      if (replacement)
        if (const std::string smaller = side ? with(t->a, replacement) : with(replacement, t->b);
            !smaller.empty())
          return smaller;
  }
  return to_string(*t) + ": " + complaint;
}

} // namespace luminal::naive
