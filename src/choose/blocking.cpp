// choose/blocking.cpp -- the text of a blocking, for people.
#include "choose/blocking.h"
#include <fmt/format.h>

namespace luminal::kernel {

std::string to_string(const Blocking& b) {
  std::string text = "blocks";
  for (const AxisBlock& axis : b.kept) text += fmt::format(" {}:{}", axis.axis, axis.size);
  if (!b.fold.empty())
    text += fmt::format(", {} in tiles {}:{}, {} lanes, {} vectors", b.fold, b.reduction.axis,
                        b.reduction.size, b.lanes.size, b.vectors);
  return text;
}

} // namespace luminal::kernel
