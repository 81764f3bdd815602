// extract/extract_passes.cpp -- groups of passes as sets of predecessors, closed under
// reachability.
#include "extract/extract_passes.h"
#include "base/check.h"
#include <algorithm>

namespace luminal::egraph {

void PassGraph::clear() {
  group_.clear();
  sets_.clear();
}

/// Doubles the width of all sets.
void PassGraph::widen() {
  std::vector<uint64_t> wider(size() * words_ * 2, 0);
  for (uint32_t g = 0; g < size(); ++g)
    std::copy(set(g), set(g) + words_, wider.begin() + ptrdiff_t(size_t(g) * words_ * 2));
  words_ *= 2;
  sets_ = std::move(wider);
}

uint32_t PassGraph::add(std::span<const uint32_t> before) {
  const uint32_t id = size();
  for (const uint32_t b : before)
    if (b >= id) throw Error(fmt::format("[passes] pass {} needs {}, which is not there yet", id, b));
  if (id >= words_ * 64) widen();
  sets_.resize(sets_.size() + words_, 0);
  uint64_t* mine = set(id);
  for (const uint32_t b : before) {
    const uint64_t* earlier = set(group_[b]);
    for (size_t w = 0; w < words_; ++w) mine[w] |= earlier[w];
    for (const uint32_t m : members_[group_[b]]) mine[m / 64] |= uint64_t(1) << (m % 64);
  }
  group_.push_back(id);
  if (members_.size() <= id) members_.emplace_back();
  members_[id].assign(1, id);
  return id;
}

bool PassGraph::comes_before(uint32_t a, uint32_t b) const {
  return group_[a] != group_[b] && bit(group_[b], a); // a set holds whole groups
}

void PassGraph::join(uint32_t a, uint32_t b) {
  a = group_[a];
  b = group_[b];
  if (a == b) return;
  if (!may_join(a, b))
    throw Error(fmt::format("[passes] {} and {} cannot run together: one must come before the other", a, b));
  if (b < a) std::swap(a, b);
  for (const uint32_t m : members_[b]) group_[m] = a;
  members_[a].insert(members_[a].end(), members_[b].begin(), members_[b].end());
  members_[b].clear();
  for (size_t w = 0; w < words_; ++w) set(a)[w] |= set(b)[w];
  // Who comes after one of them comes after all of them and after what those need.
  for (uint32_t g = 0; g < size(); ++g) {
    if (group_[g] != g || g == a || (!bit(g, a) && !bit(g, b))) continue;
    for (size_t w = 0; w < words_; ++w) set(g)[w] |= set(a)[w];
    for (const uint32_t m : members_[a]) set(g)[m / 64] |= uint64_t(1) << (m % 64);
  }
}

std::vector<uint32_t> PassGraph::order() const {
  // A group's set holds all that comes before it, so the sizes of the sets give an order; equal
  // sizes are not comparable.
  std::vector<std::pair<size_t, uint32_t>> keyed;
  for (uint32_t g = 0; g < size(); ++g) {
    if (group_[g] != g) continue;
    size_t before = 0;
    for (size_t w = 0; w < words_; ++w) before += size_t(__builtin_popcountll(set(g)[w]));
    keyed.emplace_back(before, g);
  }
  std::sort(keyed.begin(), keyed.end());
  std::vector<uint32_t> out;
  for (const auto& [before, g] : keyed) out.push_back(g);
  return out;
}

void join_greedily(PassGraph& graph, const JoinGain& gain, const JoinNotice& joining) {
  for (uint32_t pass = 0; pass < graph.size(); ++pass) {
    if (graph.group(pass) != pass || graph.members(pass).size() > 1) continue;
    double most = 0;
    uint32_t best = pass;
    for (uint32_t g = 0; g < pass; ++g) {
      if (graph.group(g) != g || !graph.may_join(g, pass)) continue;
      const double value = gain(graph.members(g), pass);
      if (value > most) most = value, best = g;
    }
    if (best == pass) continue;
    if (joining) joining(graph.members(best), pass);
    graph.join(best, pass);
  }
}

} // namespace luminal::egraph
