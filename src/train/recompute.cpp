// train/recompute.cpp -- where forward terms are cut, and copies of them for the gradient.
#include "train/recompute.h"
#include "ir/most_bytes.h"
#include <algorithm>

namespace luminal::train {
namespace {

/// Costs nothing where it is read, so that what it is made from lives as long as it.
bool is_read_through(NodeKind kind) {
  return kind == NodeKind::view || kind == NodeKind::cast || kind == NodeKind::bitcast ||
         kind == NodeKind::fence || kind == NodeKind::get;
}

double stored_bytes(const Node& node) {
  if (is_read_through(node.kind) || node.kind == NodeKind::input) return 0;
  double total = 0;
  for (const TensorType& type : node.types) total += most_bytes(type);
  return total;
}

/// What happens once: it is not made again.
bool has_effect(const Node& node) {
  return node.kind == NodeKind::host || node.kind == NodeKind::collective ||
         (node.kind == NodeKind::fence && !std::get<FenceAttr>(node.attr).device.empty());
}

} // namespace

Recomputation::Recomputation(FunctionBuilder& builder, const std::vector<NodeId>& values, NodeId end,
                             int64_t segments)
    : b_(builder) {
  find_needed(values, end);
  find_cuts(end, segments);
  begin_ =
      cuts_.empty() ? NodeId(0) : cuts_.back(); // the last one is still in memory when its gradient begins
}

void Recomputation::find_needed(const std::vector<NodeId>& values, NodeId end) {
  needed_.assign(end.index(), false);
  fixed_.assign(end.index(), false);
  for (NodeId id : values) needed_[id] = true;
  for (NodeId id : needed_.ids_down())
    if (needed_[id])
      for (NodeId input : b_[id].inputs) needed_[input] = true;
  for (NodeId id : needed_.ids()) {
    const Node& node = b_[id];
    if (const auto* input = std::get_if<InputAttr>(&node.attr))
      fixed_[id] = input->role == Role::weight;
    else
      fixed_[id] = !has_effect(node) && std::ranges::all_of(node.inputs, [&](NodeId i) { return fixed_[i]; });
  }
}

void Recomputation::find_cuts(NodeId end, int64_t segments) {
  IdVector<NodeId, NodeId> last(end.index());
  for (NodeId id : last.ids()) last[id] = id;
  for (NodeId id : needed_.ids_down()) {
    if (!needed_[id]) continue;
    const NodeId until = is_read_through(b_[id].kind) ? last[id] : id;
    for (NodeId input : b_[id].inputs) last[input] = std::max(last[input], until);
  }
  // Before each term: bytes made so far, and bytes of these that are read from there on.
  IdVector<NodeId, double> made(end.index() + 1), alive(end.index() + 1);
  for (NodeId id : needed_.ids()) {
    const double bytes = needed_[id] && !fixed_[id] ? stored_bytes(b_[id]) : 0;
    made[id + 1] = made[id] + bytes;
    alive[id + 1] += bytes;
    if (last[id] < end) alive[last[id] + 1] -= bytes;
  }
  for (NodeId id : needed_.ids()) alive[id + 1] += alive[id];
  const double share = made[end] / double(segments);
  for (int64_t k = 1; k < segments; ++k) {
    const double wish = share * double(k);
    NodeId best;
    for (NodeId at = cuts_.empty() ? NodeId(1) : cuts_.back() + 1; at < end; ++at) {
      const double off = made[at] - wish;
      // A tuple and what reads its results stay together.
      if (b_[at].kind == NodeKind::get || off < -share / 2 || off > share / 2) continue;
      const bool fewer = !best || alive[at] < alive[best];
      if (fewer || (alive[at] == alive[best] && std::abs(off) < std::abs(made[best] - wish))) best = at;
    }
    if (best) cuts_.push_back(best);
  }
}

void Recomputation::open(NodeId id, const std::map<std::pair<NodeId, int>, NodeId>& arrived) {
  const auto next = std::ranges::upper_bound(cuts_, id);
  const NodeId end = *next;
  begin_ = next == cuts_.begin() ? NodeId(0) : *std::prev(next);
  copies_.clear();
  fences_.clear();
  std::vector<NodeId> gradients;
  for (auto at = arrived.lower_bound({begin_, 0}); at != arrived.end() && at->first.first < end; ++at)
    gradients.push_back(at->second);
  if (gradients.empty()) return; // and none will come
  std::ranges::sort(gradients);
  gradients.erase(std::ranges::unique(gradients).begin(), gradients.end());
  for (NodeId term = begin_; term < end; ++term)
    if (needed_[term] && !fixed_[term]) copy_term(term, gradients);
}

void Recomputation::copy_term(NodeId id, const std::vector<NodeId>& arrived) {
  const Node node = b_[id]; // a copy: the builder grows
  if (node.kind == NodeKind::input || has_effect(node)) return;
  const auto outside = [&](NodeId input) { return b_[input].is_tuple() && !copies_.contains(input); };
  if (std::ranges::any_of(node.inputs, outside)) return;
  std::vector<NodeId> inputs;
  for (NodeId input : node.inputs) {
    const auto own = copies_.find(input);
    inputs.push_back(own != copies_.end() ? own->second : fixed_[input] ? input : fenced(input, arrived));
  }
  const NodeId made = b_.add(node.attr, std::move(inputs), node.axis_names);
  if (!node.origin.empty()) b_.origin(made, node.origin + ", computed again");
  copies_[id] = made;
  if (made != id) originals_[made] = id;
}

NodeId Recomputation::fenced(NodeId id, const std::vector<NodeId>& arrived) {
  if (const auto known = fences_.find(id); known != fences_.end()) return known->second;
  std::vector<NodeId> inputs{id};
  inputs.insert(inputs.end(), arrived.begin(), arrived.end());
  const NodeId made = b_.add(FenceAttr{}, std::move(inputs));
  originals_[made] = id;
  return fences_[id] = made;
}

NodeId Recomputation::copy(NodeId id) const {
  const auto found = copies_.find(id);
  return found == copies_.end() ? id : found->second;
}

NodeId Recomputation::original(NodeId id) const {
  const auto found = originals_.find(id);
  return found == originals_.end() ? id : found->second;
}

} // namespace luminal::train
