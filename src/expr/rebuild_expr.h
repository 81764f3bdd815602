// expr/rebuild_expr.h -- makes the expression of a kind from arguments, with all simplification.
// Private to this folder.
#pragma once
#include "expr/expr.h"
#include <unordered_map>

namespace luminal::expr_detail {

Expr make(ExprKind kind, std::span<const Expr> args);

/// Rebuilds an expression from its leaves; `leaf` maps symbols, `node_done` may change each
/// compound after it was made.
struct Rebuilder {
  std::function<Expr(Expr symbol)> leaf;
  std::function<Expr(Expr made)> node_done;
  std::unordered_map<uint32_t, Expr> known;

  Expr of(Expr e);
};

} // namespace luminal::expr_detail
