// extract/extract_parents.h -- in which rows a class occurs as a child. For the extractors.
#pragma once
#include "extract/extract.h"

namespace luminal::egraph {

/// The rows in which each class occurs as a child, once for each occurrence, in ascending order.
struct Parents {
  std::vector<uint32_t> first, row;
  explicit Parents(const ExtractionProblem& p) : first(p.class_count() + 1, 0), row(p.edge_count()) {
    for (uint32_t r = 0; r < p.row_count(); ++r)
      for (const uint32_t c : p.children(r)) ++first[c + 1];
    for (uint32_t c = 0; c < p.class_count(); ++c) first[c + 1] += first[c];
    std::vector<uint32_t> next(first.begin(), first.end() - 1);
    for (uint32_t r = 0; r < p.row_count(); ++r)
      for (const uint32_t c : p.children(r)) row[next[c]++] = r;
  }
  std::span<const uint32_t> of(uint32_t c) const {
    return {row.data() + first[c], row.data() + first[c + 1]};
  }
};

} // namespace luminal::egraph
