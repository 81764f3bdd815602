// ir/naive_index.cpp -- index expressions as docs/terms.md says them: floors, 64 bits, no division
// by 0.
#include "ir/naive_index.h"
#include "luminal/error.h"
#include <algorithm>

namespace luminal {

int64_t naive_index(Expr e, const std::map<std::string, int64_t>& dimensions,
                    const std::vector<int64_t>& axes, const std::vector<int64_t>& holes) {
  const ExprKind kind = e.kind();
  if (kind == ExprKind::constant) return e.value();
  if (kind == ExprKind::symbol) {
    const std::string name(e.name());
    if (auto at = dimensions.find(name); at != dimensions.end()) return at->second;
    return (name[0] == 'i' ? axes : holes).at(std::stoul(name.substr(1)));
  }
  __int128 x = naive_index(e.args()[0], dimensions, axes, holes); // and on with the others, from the left
  for (Expr arg : e.args().subspan(1)) {
    const __int128 y = naive_index(arg, dimensions, axes, holes);
    const bool divides = kind == ExprKind::floordiv || kind == ExprKind::mod;
    if (divides && y == 0) throw Error("an index divides by zero");
    const __int128 quotient = divides ? x / y - (x % y != 0 && (x < 0) != (y < 0)) : 0;
    switch (kind) {
    case ExprKind::add: x += y; break;
    case ExprKind::mul: x *= y; break;
    case ExprKind::floordiv: x = quotient; break;
    case ExprKind::mod: x -= quotient * y; break;
    case ExprKind::min: x = std::min(x, y); break;
    case ExprKind::max: x = std::max(x, y); break;
    case ExprKind::lt: x = x < y; break;
    case ExprKind::eq: x = x == y; break;
    case ExprKind::ne: x = x != y; break;
    case ExprKind::logical_and: x = x && y; break;
    default: x = x || y;
    }
    if (kind != ExprKind::add && x != int64_t(x)) throw Error("an index overflows");
  }
  if (x != int64_t(x)) throw Error("an index overflows");
  return int64_t(x);
}

} // namespace luminal
