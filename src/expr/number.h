// expr/number.h -- operations of expressions at numbers. Private to this folder.
#pragma once
#include "expr/canonical.h"
#include <algorithm>

namespace luminal::expr_detail {

inline std::optional<int64_t> plus(int64_t a, int64_t b) {
  int64_t out = 0;
  return __builtin_add_overflow(a, b, &out) ? std::nullopt : std::optional(out);
}
inline std::optional<int64_t> times(int64_t a, int64_t b) {
  int64_t out = 0;
  return __builtin_mul_overflow(a, b, &out) ? std::nullopt : std::optional(out);
}

/// Nothing where a division is by zero or the result has no 64 bits.
inline std::optional<int64_t> applied(ExprKind kind, int64_t a, int64_t b) {
  switch (kind) {
  case ExprKind::add: return plus(a, b);
  case ExprKind::mul: return times(a, b);
  case ExprKind::floordiv:
    return b == 0 || (a == INT64_MIN && b == -1) ? std::nullopt : std::optional(floor_quotient(a, b));
  case ExprKind::mod: return b == 0 ? std::nullopt : std::optional(b == -1 ? 0 : floor_remainder(a, b));
  case ExprKind::min: return std::min(a, b);
  case ExprKind::max: return std::max(a, b);
  case ExprKind::lt: return a < b;
  case ExprKind::eq: return a == b;
  case ExprKind::ne: return a != b;
  case ExprKind::logical_and: return a != 0 && b != 0;
  case ExprKind::logical_or: return a != 0 || b != 0;
  case ExprKind::constant:
  case ExprKind::symbol: break;
  }
  return {};
}

/// An operation whose arguments have the values that `value_of` says (Expr -> std::optional<int64_t>).
/// None is asked behind one that has no value.
template <class ValueOf> std::optional<int64_t> applied_to(const Node& operation, const ValueOf& value_of) {
  const auto args = operation.arg_span();
  std::optional<int64_t> out = value_of(args[0]);
  for (size_t i = 1; i < args.size() && out; i++) {
    const std::optional<int64_t> next = value_of(args[i]);
    out = next ? applied(operation.kind, *out, *next) : std::nullopt;
  }
  return out;
}

} // namespace luminal::expr_detail
