// ir/passes/merge_loops.cpp -- loops over the same values, of which one gives all that another one does:
// a loop and the one that keeps what it carried for its gradient.
#include "ir/id_table.h"
#include "ir/passes/edit.h"
#include <algorithm>

namespace luminal::passes {
namespace {

/// For each result of body `a`, which result of body `b` has the same value: the carried ones in their
/// places. Nothing where one has no like.
std::optional<std::vector<int>> found_in(const Function& a, const Function& b, int carried) {
  if (a.params.size() != b.params.size() || a.results.size() > b.results.size()) return {};
  IdTable<NodeId> table;
  for (NodeId id : b.nodes.ids()) table.add(quick_hash(b[id]), id);
  IdVector<NodeId, std::optional<NodeId>> same(a.nodes.size());
  for (size_t i = 0; i < a.params.size(); ++i) same[a.params[i]] = b.params[i];
  for (NodeId id : a.nodes.ids()) {
    if (same[id]) continue;
    Node node = a[id];
    const bool known =
        std::ranges::all_of(node.inputs, [&](NodeId input) { return same[input].has_value(); });
    if (!known || node.kind == NodeKind::input || node.kind == NodeKind::host) continue;
    for (NodeId& input : node.inputs) input = *same[input];
    same[id] = table.find(quick_hash(node), [&](NodeId other) { return same_node(node, b[other]); });
  }
  std::vector<int> places;
  for (int i = 0; i < int(a.results.size()); ++i) {
    const auto value = same[a.results[size_t(i)].value];
    int place = i < carried ? i : carried;
    const int end = i < carried ? i + 1 : int(b.results.size());
    while (place < end && b.results[size_t(place)].value != value) ++place;
    if (!value || place == end) return {};
    places.push_back(place);
  }
  return places;
}

int64_t merge_in(Function& f, const Module& module) {
  std::vector<NodeId> loops;
  for (NodeId id : f.nodes.ids())
    if (f[id].kind == NodeKind::loop) loops.push_back(id);
  const auto redirect = [&](NodeId from, NodeId to, const std::vector<int>& places) {
    for (Node& node : f.nodes)
      if (auto* get = std::get_if<GetAttr>(&node.attr); get && node.inputs[0] == from) {
        node.inputs[0] = to;
        get->index = places[size_t(get->index)];
      }
  };
  int64_t changes = 0;
  for (size_t i = 0; i < loops.size(); ++i)
    for (size_t j = i + 1; j < loops.size(); ++j) {
      Node &first = f.nodes[loops[i]], &second = f.nodes[loops[j]];
      const LoopAttr own = std::get<LoopAttr>(first.attr), other = std::get<LoopAttr>(second.attr);
      LoopAttr alike = other;
      alike.body = own.body;
      if (first.inputs != second.inputs || own.body == other.body || !(own == alike)) continue;
      const Function &a = *module.find(own.body), &b = *module.find(other.body);
      const bool counted = !own.condition.empty();     // the number of steps is the last result
      if (auto places = found_in(a, b, own.carried)) { // the second one comes where the first one stood
        if (counted) places->push_back(int(b.results.size()));
        first.attr = other;
        first.types = second.types;
        redirect(loops[i], loops[i], *places);
        std::vector<int> all(second.types.size());
        for (size_t k = 0; k < all.size(); ++k) all[k] = int(k);
        redirect(loops[j], loops[i], all);
      } else if (auto back = found_in(b, a, own.carried)) {
        if (counted) back->push_back(int(a.results.size()));
        redirect(loops[j], loops[i], *back);
      } else {
        continue;
      }
      loops.erase(loops.begin() + std::ptrdiff_t(j--));
      ++changes;
    }
  if (changes > 0) sweep(f);
  return changes;
}

} // namespace

int64_t merge_loops(Module& module) {
  int64_t changes = 0;
  for (Function& f : module.functions) changes += merge_in(f, module);
  return changes;
}

} // namespace luminal::passes
