// compile/load_values.cpp -- which values are computed once, when the plan is loaded.
#include "compile/fuse.h"
#include "compile/fuse_demand.h"
#include "rules/region_loops.h"
#include <algorithm>
#include <unordered_map>

namespace luminal::compile {
namespace {

using rules::most_of_fold, rules::share_of_one;

/// No dimension takes part: neither in the shapes, nor in the iteration space, nor in what is
/// computed.
bool is_of_known_size(const Node& node) {
  std::vector<Expr> all;
  const auto add = [&](const std::vector<Expr>& list) { all.insert(all.end(), list.begin(), list.end()); };
  for (const TensorType& type : node.types) add(type.shape);
  if (const auto* iota = std::get_if<IotaAttr>(&node.attr)) all.push_back(iota->value);
  if (const auto* random = std::get_if<RandomAttr>(&node.attr)) all.push_back(random->counter);
  if (const auto* view = std::get_if<ViewAttr>(&node.attr)) add(view->map), all.push_back(view->predicate);
  if (const auto* scatter = std::get_if<ScatterAttr>(&node.attr))
    add(scatter->map), all.push_back(scatter->predicate);
  if (const auto* fold = std::get_if<FoldAttr>(&node.attr)) add(fold->space), all.push_back(fold->where);
  if (const auto* scan = std::get_if<ScanAttr>(&node.attr)) add(scan->space);
  return std::ranges::all_of(all, [](Expr e) { return std::ranges::all_of(symbols_of(e), is_local); });
}

bool has_work(const Function& f, NodeId id, const std::set<NodeId>& leaves, std::set<NodeId>& seen) {
  if (leaves.contains(id) || !seen.insert(id).second) return false;
  const Node& node = f[id];
  if (is_stage(node) || node.kind == NodeKind::random || node.kind == NodeKind::scatter) return true;
  if (node.kind == NodeKind::map && is_long_chain(std::get<MapAttr>(node.attr).op)) return true;
  for (NodeId input : node.inputs)
    if (has_work(f, input, leaves, seen)) return true;
  return false;
}

/// A view of what is in memory at load; it may leave most of it out.
bool part_of_weight(const Function& f, NodeId id) {
  const Node& node = f[id];
  if (node.kind != NodeKind::view || !std::get<ViewAttr>(node.attr).holes.empty()) return false;
  const NodeKind of = f[node.inputs[0]].kind;
  return of == NodeKind::input || of == NodeKind::fence;
}

/// Of weights, and of weights through views: no part of a weight twice.
double bytes_read(const Function& f, const std::set<NodeId>& sources) {
  std::map<NodeId, double> of_weights;
  for (NodeId id : sources) {
    const bool part = part_of_weight(f, id);
    of_weights[part ? f[id].inputs[0] : id] += bytes(f[id].type());
  }
  double total = 0;
  for (auto& [weight, part] : of_weights) total += std::min(part, bytes(f[weight].type()));
  return total;
}

/// How many times the bytes that it is made from a value may take. A fold over one large weight
/// (the transform of a window) would run wherever the value is made again, so it may take more; a
/// product of two weights may not.
double most_bytes(const Function& f, NodeId value, const std::set<NodeId>& sources, double made_from) {
  double largest = 0;
  for (const NodeId id : sources) largest = std::max(largest, bytes(f[id].type()));
  const bool fold = f[value].kind == NodeKind::get && f[f[value].inputs[0]].kind == NodeKind::fold;
  return fold && largest >= share_of_one * made_from ? most_of_fold : 1.001;
}

} // namespace

std::vector<NodeId> load_time_values(const Region& region) {
  const Function& f = *region.function;
  constexpr double largest_table = 64 << 20; // bytes
  std::vector<NodeId> nodes = needed_nodes(region);
  std::unordered_map<NodeId, std::set<NodeId>>
      source; // weights, or views of them, below, each once; static nodes only
  std::set<NodeId> dynamic_readers;
  std::vector<NodeId> ordered; // values that a fence asks for in their own order
  for (NodeId id : nodes) {
    const Node& node = f[id];
    const bool fence = node.kind == NodeKind::fence;
    bool is_static = !is_own_step(node) || node.kind == NodeKind::scatter || fence;
    std::set<NodeId> below;
    if (node.kind == NodeKind::input) {
      is_static = std::get<InputAttr>(node.attr).role == Role::weight;
      below.insert(id);
    }
    for (NodeId input : node.inputs) {
      is_static &= source.contains(input);
      if (source.contains(input)) below.insert(source[input].begin(), source[input].end());
    }
    is_static = is_static && is_of_known_size(node);
    if (is_static && fence) { // it is what later values are made from
      NodeId ordered_value = node.inputs[0];
      while (f[ordered_value].kind == NodeKind::fence) ordered_value = f[ordered_value].inputs[0];
      ordered.push_back(ordered_value);
      below = {id};
    }
    if (is_static && part_of_weight(f, id)) below = {id};
    if (is_static) source[id] = std::move(below);
  }
  for (NodeId id : nodes)
    if (!source.contains(id))
      for (NodeId input : f[id].inputs) dynamic_readers.insert(input);
  for (NodeId id : region.wanted) dynamic_readers.insert(id);

  std::vector<NodeId> chosen;
  std::set<NodeId> done(region.given);
  for (NodeId id : ordered) // inputs and constants are there
    if (f[id].kind != NodeKind::input && f[id].kind != NodeKind::constant && done.insert(id).second)
      chosen.push_back(id);
  for (NodeId id : nodes) {
    if (!source.contains(id) || !dynamic_readers.contains(id)) continue;
    NodeId value = id; // views and conversions stay with the reader
    while ((f[value].kind == NodeKind::view && std::get<ViewAttr>(f[value].attr).holes.empty()) ||
           f[value].kind == NodeKind::cast)
      value = f[value].inputs[0];
    const Node& node = f[value];
    if (node.is_tuple() || node.kind == NodeKind::fence || is_free(node) || node.kind == NodeKind::input ||
        done.contains(value))
      continue;
    const double size = bytes(node.type());
    const bool table = source[value].empty();
    const double made_from = bytes_read(f, source[value]);
    std::set<NodeId> seen;
    if (table ? size > largest_table || !has_work(f, value, region.given, seen)
              : size > made_from * most_bytes(f, value, source[value], made_from))
      continue;
    done.insert(value);
    chosen.push_back(value);
  }
  // What only other load steps read is theirs: it is not kept.
  Region step = region;
  step.given.insert(chosen.begin(), chosen.end());
  const std::vector<NodeId> read = needed_nodes(step);
  std::erase_if(chosen, [&](NodeId id) { return !std::ranges::binary_search(read, id); });
  return chosen;
}

StepFusion fuse_step(const Function& f, const std::vector<NodeId>* load_values,
                     const Boundaries* boundaries) {
  StepFusion known;
  known.step = whole_region(f);
  known.load_values = load_values ? *load_values : load_time_values(known.step);
  known.step.given.insert(known.load_values.begin(), known.load_values.end());
  known.partition = fuse(known.step, boundaries);
  return known;
}

} // namespace luminal::compile
