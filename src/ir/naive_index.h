// ir/naive_index.h -- the points of a tensor, and the value of an index expression at one of them,
// part by part, in 128 bits.
#pragma once
#include "expr/expr.h"
#include <algorithm>
#include <map>
#include <string>
#include <vector>

namespace luminal {

using Point = std::vector<int64_t>;

/// i0, i1, .. are axes, h0, h1, .. holes, other symbols dimensions. Throws Error where it divides
/// by 0 or where a part does not fit 64 bits.
int64_t naive_index(Expr e, const std::map<std::string, int64_t>& dimensions,
                    const std::vector<int64_t>& axes, const std::vector<int64_t>& holes);

/// Calls f for every point of a box, the last axis fastest.
template <class F> void each(const Point& extents, F f) {
  if (std::ranges::find(extents, 0) != extents.end()) return;
  Point p(extents.size(), 0);
  for (size_t d = 1; d > 0;) {
    f(p);
    for (d = p.size(); d > 0 && ++p[d - 1] == extents[d - 1]; --d) p[d - 1] = 0;
  }
}
/// Its place in row-major order.
inline int64_t flat(const Point& p, const Point& extents) {
  int64_t at = 0;
  for (size_t d = 0; d < p.size(); ++d) at = at * extents[d] + p[d];
  return at;
}

} // namespace luminal
