// ir/passes/merge_folds.cpp -- a fold that is a component of another one over the same values reads it there:
// the maximum beside its place.
#include "ir/passes/edit.h"
#include <algorithm>

namespace luminal::passes {
namespace {

bool reads_no_other(const Monoid& monoid, int component) {
  return monoid.components()[size_t(component)].transform.is_leaf(0);
}

/// The component of the tuple that makes what the fold of one component makes.
std::optional<int> component_of(const Function& f, NodeId fold, NodeId tuple) {
  const auto &one = std::get<FoldAttr>(f[fold].attr), &all = std::get<FoldAttr>(f[tuple].attr);
  if (one.monoid.size() != 1 || all.monoid.size() < 2 || !one.holes.empty() || !all.holes.empty() ||
      one.space != all.space || one.reduced != all.reduced || one.where != all.where ||
      !reads_no_other(one.monoid, 0))
    return {};
  const MonoidComponent& wanted = one.monoid.components()[0];
  for (int c = 0; c < all.monoid.size(); c++) {
    const MonoidComponent& part = all.monoid.components()[size_t(c)];
    if (part.op == wanted.op && part.dtype == wanted.dtype && reads_no_other(all.monoid, c) &&
        f[tuple].inputs[size_t(c)] == f[fold].inputs[0] && all.body_axes[size_t(c)] == one.body_axes[0])
      return c;
  }
  return {};
}

int64_t merge_in_function(Function& f) {
  std::vector<NodeId> single, tuples;
  for (NodeId id : f.nodes.ids())
    if (const auto* fold = std::get_if<FoldAttr>(&f[id].attr))
      (fold->monoid.size() == 1 ? single : tuples).push_back(id);
  const auto redirect = [&](NodeId from, NodeId to, std::optional<int> component) {
    for (Node& node : f.nodes)
      if (auto* get = std::get_if<GetAttr>(&node.attr); get && node.inputs[0] == from) {
        node.inputs[0] = to;
        if (component) get->index = *component;
      }
  };
  int64_t changes = 0;
  for (const NodeId fold : single)
    for (NodeId& tuple : tuples) {
      const auto component = component_of(f, fold, tuple);
      if (!component) continue;
      if (fold < tuple) { // the tuple comes where the fold stood
        if (!std::ranges::all_of(f[tuple].inputs, [&](NodeId in) { return in < fold; })) continue;
        Node moved = f[tuple];
        std::swap(moved.name, f.nodes[fold].name);
        redirect(fold, fold, component);
        redirect(tuple, fold, {});
        f.nodes[fold] = std::move(moved);
        tuple = fold;
      } else {
        redirect(fold, tuple, component);
      }
      changes++;
      break;
    }
  if (changes == 0) return 0;
  Rebuild::walk(f, nullptr, [](Rebuild& r, Node node) { return r.put(std::move(node)); }); // equal reads
  sweep(f);
  return changes;
}

} // namespace

int64_t merge_folds(Module& module) {
  int64_t changes = 0;
  for (Function& f : module.functions) changes += merge_in_function(f);
  return changes;
}

} // namespace luminal::passes
