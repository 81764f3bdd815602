// extract/extract_problem.cpp -- builds the flat arrays of an extraction problem; strongly
// connected components.
#include "base/check.h"
#include "extract/extract.h"
#include <algorithm>
#include <cmath>

namespace luminal::egraph {

uint32_t ExtractionBuilder::add_row(uint32_t of_class, std::span<const uint32_t> children, double cost) {
  const auto row = uint32_t(cost_.size());
  if (std::isnan(cost)) throw Error(fmt::format("[extraction] the cost of row {} is NaN", row));
  if (cost == -infinite_cost)
    throw Error(fmt::format("[extraction] the cost of row {} is minus infinity", row));
  if (of_class >= classes_)
    throw Error(fmt::format("[extraction] row {} is put into class {} of {}", row, of_class, classes_));
  for (const uint32_t child : children)
    if (child >= classes_)
      throw Error(fmt::format("[extraction] row {} has a child in class {} of {}", row, child, classes_));
  if (child_.size() + children.size() >= no_row || row + 1 == no_row)
    throw Error("[extraction] more than 4294967294 rows or edges");
  of_class_.push_back(of_class);
  child_.insert(child_.end(), children.begin(), children.end());
  first_child_.push_back(uint32_t(child_.size()));
  cost_.push_back(cost);
  return row;
}

void ExtractionBuilder::add_root(uint32_t c) {
  if (c >= classes_) throw Error(fmt::format("[extraction] root class {} of {}", c, classes_));
  roots_.push_back(c);
}

ExtractionProblem ExtractionBuilder::build() const {
  ExtractionProblem p;
  const auto rows = uint32_t(cost_.size());
  p.first_row_.assign(classes_ + 1, 0);
  for (const uint32_t c : of_class_) ++p.first_row_[c + 1];
  for (uint32_t c = 0; c < classes_; ++c) p.first_row_[c + 1] += p.first_row_[c];
  p.source_.resize(rows);
  std::vector<uint32_t> next(p.first_row_.begin(), p.first_row_.end() - 1);
  for (uint32_t r = 0; r < rows; ++r) p.source_[next[of_class_[r]]++] = r;
  p.class_of_.reserve(rows);
  p.cost_.reserve(rows);
  p.child_.reserve(child_.size());
  p.first_child_.reserve(rows + 1);
  for (const uint32_t r : p.source_) {
    p.class_of_.push_back(of_class_[r]);
    p.cost_.push_back(cost_[r]);
    p.negative_ = p.negative_ || cost_[r] < 0;
    p.child_.insert(p.child_.end(), child_.begin() + first_child_[r], child_.begin() + first_child_[r + 1]);
    p.first_child_.push_back(uint32_t(p.child_.size()));
  }
  std::vector<bool> seen(classes_);
  for (const uint32_t c : roots_) {
    if (!seen[c]) p.roots_.push_back(c);
    seen[c] = true;
  }
  return p;
}

Components strongly_connected(const ExtractionProblem& p, const std::function<bool(uint32_t)>& keep) {
  // Tarjan's algorithm with an explicit stack: where a visit stands is the row and the position
  // among its children.
  const uint32_t n = p.class_count();
  constexpr uint32_t unseen = no_row;
  Components out{std::vector<uint32_t>(n, unseen), 0};
  std::vector<uint32_t> index(n, unseen), low(n), open;
  struct Visit {
    uint32_t c, row, child;
  };
  std::vector<Visit> visits;
  uint32_t next = 0;
  for (uint32_t start = 0; start < n; ++start) {
    if (index[start] != unseen) continue;
    index[start] = low[start] = next++;
    open.push_back(start);
    visits.push_back({start, p.first_row(start), 0});
    while (!visits.empty()) {
      Visit& v = visits.back();
      if (v.row < p.end_row(v.c)) {
        const auto children = p.children(v.row);
        if (v.child == children.size() || (v.child == 0 && keep && !keep(v.row))) {
          ++v.row;
          v.child = 0;
          continue;
        }
        const uint32_t d = children[v.child++];
        if (index[d] == unseen) {
          index[d] = low[d] = next++;
          open.push_back(d);
          visits.push_back({d, p.first_row(d), 0});
        } else if (out.of_class[d] == unseen) {
          low[v.c] = std::min(low[v.c], index[d]);
        }
        continue;
      }
      const uint32_t c = v.c;
      visits.pop_back();
      if (!visits.empty()) low[visits.back().c] = std::min(low[visits.back().c], low[c]);
      if (low[c] != index[c]) continue;
      for (;;) {
        const uint32_t d = open.back();
        open.pop_back();
        out.of_class[d] = out.count;
        if (d == c) break;
      }
      ++out.count;
    }
  }
  return out;
}

} // namespace luminal::egraph
