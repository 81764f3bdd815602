// rules/term_kind.h -- how a node of a function enters the e-graph.
#pragma once
#include "ir/term.h"

namespace luminal::rules {

enum class TermKind : uint8_t {
  none,   ///< not in the region
  leaf,   ///< read as it is: inputs, values of other regions, values known when the program is loaded
  number, ///< a scalar constant
  index,  ///< an expression over the axes: iota
  map,    ///< elementwise: operation, cast, bitcast of equal width
  view,
  fold,
  scan,
  get,
  opaque,       ///< a row of its own that no rule looks into: scatter, random, narrow bitcasts, ...
  opaque_tuple, ///< the same with several results: sort, loop, cond, host, folds over data, ...
};

inline constexpr int term_kinds = int(TermKind::opaque_tuple) + 1;

} // namespace luminal::rules
