// expr/interner.h -- the nodes behind Expr: storage, hash-consing, structural order. Private to
// this folder.
#pragma once
#include "base/small_vector.h"
#include "expr/expr.h"
#include <atomic>

namespace luminal {

struct ExprAccess {
  static Expr from_id(uint32_t id) {
    Expr e;
    e.id_ = id;
    return e;
  }
};

namespace expr_detail {

/// What of a node is not stored but follows from kind and arguments is computed once, at
/// construction.
struct Node {
  uint64_t hash = 0;
  int64_t value = 0; // constant: its value; mul: the constant factor; add: the constant term
  Interval range;
  int64_t multiple = 1;
  const Expr* args = nullptr;
  const char* name = nullptr;
  uint32_t arg_count = 0; // of a symbol: the length of its name
  uint32_t depth = 0;
  Expr base; // of c * x * y: x * y; of anything else itself
  ExprKind kind = ExprKind::constant;
  bool is_division = false; // floordiv or mod, or a product with such a factor

  std::span<const Expr> arg_span() const {
    return kind == ExprKind::symbol ? std::span<const Expr>{} : std::span{args, arg_count};
  }
  std::string_view name_view() const { return {name, arg_count}; }
};

// Nodes stand in chunks that never move. The table of chunks is zero from the start: its untouched
// pages cost nothing.
inline constexpr uint32_t chunk_bits = 12, chunk_size = 1u << chunk_bits, chunk_count = 1u << 18;
extern std::atomic<Node*> chunks[chunk_count];
const Node& first_node(Expr e); ///< of a constant, before anything was interned

inline const Node& node(Expr e) {
  const Node* chunk = chunks[e.id() >> chunk_bits].load(std::memory_order_acquire);
  if (!chunk) [[unlikely]]
    return first_node(e);
  return chunk[e.id() & (chunk_size - 1)];
}
/// The node of that kind; a compound whose range is a single value becomes that constant.
Expr intern(ExprKind kind, std::span<const Expr> args, int64_t value = 0, Expr base = Expr());
Expr intern_constant(int64_t value);
Expr intern_symbol(std::string_view name, Interval range, int64_t multiple_of);

/// Structural order: negative, 0, positive.
int compare(Expr a, Expr b);

/// What the constructors do with a nesting deeper than any real index: Error, before recursion
/// becomes a danger.
inline constexpr uint32_t max_depth = 500;

} // namespace expr_detail
} // namespace luminal
