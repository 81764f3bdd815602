// egraph/extract_passes.cpp -- groups of passes as sets of predecessors, closed under reachability.
#include "egraph/extract_passes.h"
#include "base/check.h"
#include <algorithm>

namespace luminal::egraph {

uint32_t PassGraph::add(std::span<const uint32_t> before) {
  const uint32_t id = size();
  std::vector<uint64_t> set(id / 64 + 1, 0);
  for (const uint32_t b : before) {
    if (b >= id) throw Error(fmt::format("[passes] pass {} needs {}, which is not there yet", id, b));
    const auto& earlier = sets_[group_[b]];
    for (size_t w = 0; w < earlier.size(); ++w) set[w] |= earlier[w];
    for (const uint32_t m : members_[group_[b]]) set[m / 64] |= uint64_t(1) << (m % 64);
  }
  group_.push_back(id);
  members_.push_back({id});
  for (auto& other : sets_) other.resize(id / 64 + 1, 0);
  sets_.push_back(std::move(set));
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
  for (size_t w = 0; w < sets_[a].size(); ++w) sets_[a][w] |= sets_[b][w];
  // Who comes after one of them comes after all of them and after what those need.
  for (uint32_t g = 0; g < size(); ++g) {
    if (group_[g] != g || g == a || (!bit(g, a) && !bit(g, b))) continue;
    for (size_t w = 0; w < sets_[a].size(); ++w) sets_[g][w] |= sets_[a][w];
    for (const uint32_t m : members_[a]) sets_[g][m / 64] |= uint64_t(1) << (m % 64);
  }
}

std::vector<uint32_t> PassGraph::order() const {
  // A group's set holds all that comes before it, so the sizes of the sets give an order; equal sizes are not comparable.
  std::vector<std::pair<size_t, uint32_t>> keyed;
  for (uint32_t g = 0; g < size(); ++g) {
    if (group_[g] != g) continue;
    size_t before = 0;
    for (const uint64_t w : sets_[g]) before += size_t(__builtin_popcountll(w));
    keyed.emplace_back(before, g);
  }
  std::sort(keyed.begin(), keyed.end());
  std::vector<uint32_t> out;
  for (const auto& [before, g] : keyed) out.push_back(g);
  return out;
}

void join_greedily(PassGraph& graph, const std::function<double(std::span<const uint32_t>, uint32_t)>& gain) {
  for (uint32_t pass = 0; pass < graph.size(); ++pass) {
    if (graph.group(pass) != pass || graph.members(pass).size() > 1) continue;
    double most = 0;
    uint32_t best = pass;
    for (uint32_t g = 0; g < pass; ++g) {
      if (graph.group(g) != g || !graph.may_join(g, pass)) continue;
      const double value = gain(graph.members(g), pass);
      if (value > most) most = value, best = g;
    }
    if (best != pass) graph.join(best, pass);
  }
}

} // namespace luminal::egraph
