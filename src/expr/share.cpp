// expr/share.cpp -- a condition asked at points that are spread over a box.
#include "expr/share.h"

namespace luminal {

double share_of(Expr condition, std::span<const std::pair<Expr, double>> axes) {
  if (condition.is_constant()) return condition.is_constant(0) ? 0 : 1;
  std::vector<std::pair<Expr, double>> read;
  for (const auto& axis : axes)
    if (depends_on(condition, axis.first)) read.push_back(axis);
  // Along few axes, at the middle of as many pieces of each.
  constexpr int64_t pieces_along[] = {1, 64, 16, 6, 4};
  if (read.empty() || read.size() >= std::size(pieces_along)) return 1;
  const int64_t pieces = pieces_along[read.size()];
  int64_t samples = 1, inside = 0;
  for (size_t a = 0; a < read.size(); a++) samples *= pieces;
  ExprMap<int64_t> at;
  for (int64_t k = 0; k < samples; k++) {
    int64_t rest = k;
    for (const auto& [symbol, extent] : read) {
      at[symbol] = int64_t((double(rest % pieces) + 0.5) * extent / double(pieces));
      rest /= pieces;
    }
    const auto holds = evaluate(condition, at);
    if (!holds) return 1;
    inside += *holds != 0;
  }
  return double(inside) / double(samples);
}

} // namespace luminal
