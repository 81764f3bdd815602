// expr/parse_expr.h -- expressions inside other text forms: reads one from a TextReader.
#pragma once
#include "base/text_reader.h"
#include "expr/expr.h"

namespace luminal {

/// Gives the symbol of a name; nothing where the name is unknown (that is reported, with the names
/// of `scope` as a hint where a scope is used).
using SymbolLookup = std::function<std::optional<Expr>(std::string_view name)>;

/// Reads the longest expression at the cursor and leaves the cursor behind it. Mistakes are thrown
/// as Error with their place. In a reader with %names the remainder operator needs a space behind
/// it: `a % b`.
Expr parse_expr(TextReader& reader, const SymbolLookup& lookup);
Expr parse_expr(TextReader& reader, const SymbolScope& scope);

/// Most operands of one sum, product, min, max, `and`, `or` in a text: work grows with the square
/// of some of them.
inline constexpr size_t max_text_operands = 256;

} // namespace luminal
