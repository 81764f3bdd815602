// compile/panels.cpp -- layouts of constants, and of copies that are made at each step.
#include "compile/panels.h"
#include "base/contains.h"
#include "choose/flat_schedule.h"
#include "choose/wanted_panels.h"
#include "compile/fuse.h"
#include "compile/zero_padding.h"
#include "cone/cone.h"
#include <algorithm>
#include <map>
#include <optional>
#include <utility>

namespace luminal::compile {
namespace {

struct Wish {
  int dim;
  int64_t columns;
  bool widened;                ///< to f32
  std::optional<int> in_words; ///< a dimension
  int64_t word;                ///< elements of one
  int64_t groups;
  bool operator==(const Wish&) const = default;
};
struct Wishes {
  std::map<NodeId, Wish> panels;                       ///< by constant
  std::map<NodeId, std::vector<PaddingRegion>> padded; ///< by fold
};

/// A copy of what lies in another order: what it is copied into is free to choose.
bool is_copy(const Function& f, NodeId id) {
  const Node& node = f[id];
  if (node.kind != NodeKind::fence || node.inputs.size() != 1 ||
      !std::get<FenceAttr>(node.attr).device.empty())
    return false;
  const Node& from = f[node.inputs[0]];
  return from.kind == NodeKind::view && std::get<ViewAttr>(from.attr).holes.empty();
}

bool to_f32(const Node& node) { return node.kind == NodeKind::cast && node.type().dtype == DType::f32; }

/// An input of each step, such as weights that a caller may change, is copied into panels at each step where
/// that saves more than the copy of an element takes, in products at full rate. The sums at the edges of an
/// image read all panels once more: they are made where each element has so many products.
constexpr double of_copy = 96;
constexpr int64_t fewest_products = 512;
bool is_step_input(const Function& f, NodeId id) {
  const auto* input = std::get_if<InputAttr>(&f[id].attr);
  return input && input->role == Role::argument && f[id].type().dtype == DType::f32;
}

/// What the kernels of a step ask for; constants and copies that some kernel wants as they are have
/// no wish.
Wishes wishes_of(const Function& f, const kernel::MachineLimits& limits, const StepFusion& known_step,
                 bool step_inputs) {
  std::set<NodeId> constants;
  for (NodeId id : f.params)
    if (std::get<InputAttr>(f[id].attr).role == Role::weight) constants.insert(id);
  std::map<NodeId, int> users;
  for (const Node& node : f.nodes)
    for (NodeId input : node.inputs) users[input]++;
  for (const auto& result : f.results) users[result.value]++;
  std::set<NodeId> copies;
  for (NodeId id : f.nodes.ids())
    if (is_copy(f, id) && users[f[id].inputs[0]] == 1) copies.insert(id);
  std::set<NodeId> given;
  for (NodeId id : f.params)
    if (step_inputs && is_step_input(f, id)) given.insert(id);
  if (constants.empty() && copies.empty() && given.empty()) return Wishes{};
  const auto of_weight = [&](NodeId copy) { return constants.contains(f[f[copy].inputs[0]].inputs[0]); };
  const Region& region = known_step.step;
  Region load = region;
  load.given = {f.params.begin(), f.params.end()};
  load.wanted = known_step.load_values;
  // What load steps read, too, stays as it is, but for words: their sums are made once.
  std::set<NodeId> kept, read_at_load;
  for (NodeId id : needed_nodes(load))
    for (NodeId input : f[id].inputs) read_at_load.insert(input);
  for (const auto& result : f.results) kept.insert(result.value);
  for (NodeId id : load.wanted)
    if (!f[id].is_tuple() && f[id].kind != NodeKind::get) constants.insert(id);
  constants.insert(copies.begin(), copies.end());
  constants.insert(given.begin(), given.end());

  std::set<NodeId> unconverted; // what somebody reads otherwise than as f32
  for (const Node& node : f.nodes)
    if (!to_f32(node)) unconverted.insert(node.inputs.begin(), node.inputs.end());
  const auto widens = [&](NodeId id) { return !unconverted.contains(id) && !copies.contains(id); };
  const auto known = [](const Shape& shape) {
    return std::ranges::all_of(shape, [](Expr e) { return e.is_constant(); });
  };
  const std::set<NodeId> readable = values_in_memory(region, known_step.partition);
  for (NodeId id : needed_nodes(region))
    if (is_own_step(f[id]) && !region.given.contains(id))
      kept.insert(f[id].inputs.begin(), f[id].inputs.end());
  std::map<NodeId, Wish> wishes;
  std::map<NodeId, NodeId> padded; // folds, and their constants
  for (const auto& roots : known_step.partition.kernels) {
    // Only what reads a constant at all; a product of unknown size has no wish.
    const std::vector<NodeId> inside = kernel::cone_nodes(f, roots, readable);
    if (std::ranges::none_of(inside, [&](NodeId id) { return constants.contains(id); })) continue;
    std::vector<kernel::PanelWish> wanted;
    std::optional<kernel::Cone> cone;
    if (known(f[roots[0]].type().shape)) {
      if (auto built = kernel::build_cone(f, roots, readable, {.name = "k", .in_place = true})) {
        cone = std::move(*built);
        wanted = kernel::wanted_panels(*cone, limits);
      }
    }
    for (NodeId id : inside) {
      if (!constants.contains(id)) continue;
      const auto wish = std::ranges::find_if(
          wanted, [&](const kernel::PanelWish& w) { return cone->values[w.value].origin == id; });
      if (wish == wanted.end() || (given.contains(id) && wish->gain < of_copy)) {
        kept.insert(id);
        continue;
      }
      const Wish own{wish->dim, wish->columns, wish->widened, wish->in_words, wish->word, wish->groups};
      const auto [earlier, fresh] = wishes.try_emplace(id, own);
      if ((!fresh && earlier->second != own) || (own.widened && !widens(id))) kept.insert(id);
      // (Sums beside the image are made at load, or are few beside the products.)
      const bool at_load = !given.contains(id) && (!copies.contains(id) || of_weight(id));
      const bool few = at_load || wish->products >= fewest_products;
      if (!wish->padded || !few) continue;
      const NodeId written = cone->values[wish->padded].origin;
      padded[f[written].kind == NodeKind::get ? f[written].inputs[0] : written] = id;
    }
  }
  std::erase_if(wishes, [&](const auto& wish) {
    return kept.contains(wish.first) || (read_at_load.contains(wish.first) && !wish.second.in_words);
  });
  std::map<NodeId, std::vector<PaddingRegion>> regions;
  for (auto [fold, constant] : padded)
    if (auto found = padding_regions_of(f, fold); !found.empty() && wishes.contains(constant))
      regions[fold] = std::move(found);
  return {std::move(wishes), std::move(regions)};
}

Node view_of(NodeId input, DType dtype, ViewAttr attr, std::string name) {
  Node node;
  node.kind = NodeKind::view;
  node.types = {{dtype, attr.shape}};
  node.attr = std::move(attr);
  node.inputs = {input};
  node.name = std::move(name);
  return node;
}

} // namespace

PackedFunction pack_constants(const Function& f, const kernel::MachineLimits& limits,
                              const StepFusion& fusion, bool step_inputs) {
  PackedFunction packed;
  if (kernel::wants_flat(limits)) return packed; // no tile reads panels
  const auto [wishes, padded] = wishes_of(f, limits, fusion, step_inputs);
  if (wishes.empty()) return packed;
  Function& to = packed.function;
  to.name = f.name;
  IdVector<NodeId, NodeId> copies(f.nodes.size());    // of the nodes themselves
  IdVector<NodeId, NodeId> stands_in(f.nodes.size()); // what readers read instead
  std::map<NodeId, NodeId> copied;                    // what a copy was made of -> what it is made of now
  for (NodeId id : f.nodes.ids()) {
    Node node = f[id];
    for (NodeId& input : node.inputs) input = stands_in[input];
    if (to_f32(node) && to[node.inputs[0]].type().dtype == DType::f32 &&
        f[f[id].inputs[0]].type().dtype != DType::f32) {
      copies[id] = stands_in[id] = node.inputs[0]; // of what is widened
      continue;
    }
    if (const auto region = padded.find(id); region != padded.end())
      for (const PaddingRegion& b : region->second)
        std::get<FoldAttr>(node.attr).where = logical_and(std::get<FoldAttr>(node.attr).where, b.inside);
    copies[id] = stands_in[id] = to.nodes.add(std::move(node));
    if (f[id].kind == NodeKind::get && padded.contains(f[id].inputs[0])) {
      const NodeId fold = f[id].inputs[0];
      NodeId sum = copies[id];
      for (const PaddingRegion& region : padded.at(fold)) {
        const NodeId other = f[f[fold].inputs[0]].inputs[size_t(region.other)];
        std::vector<NodeId> sums;
        sum = add_outside(to, region, std::get<FoldAttr>(f[fold].attr), sum, copies[other], sums);
        const NodeId constant = f[other].inputs[0];
        const auto* input = std::get_if<InputAttr>(&f[constant].attr);
        if (!(input && input->role == Role::weight) && !contains(fusion.load_values, constant))
          packed.sums.insert(packed.sums.end(), sums.begin(), sums.end());
      }
      std::swap(to.nodes[sum].name, to.nodes[copies[id]].name);
      copies[id] = stands_in[id] = sum;
    }
    const auto wish = wishes.find(id);
    if (wish == wishes.end()) continue;
    const auto [dim, columns, widened, in_words, word, groups] = wish->second;
    const Shape shape = f[id].type().shape;
    const DType dtype = f[id].type().dtype;
    const Expr n = floordiv(shape[size_t(dim)], groups); // of one group
    // [groups, n / columns, the others, n % columns], those of a word last, and the view that turns it back.
    ViewAttr panels, back;
    if (groups > 1) panels.shape.push_back(groups);
    panels.shape.push_back(ceildiv(n, columns));
    const size_t block = panels.shape.size() - 1;
    for (size_t d = 0; d < shape.size(); d++)
      if (int(d) != dim) panels.shape.push_back(int(d) == in_words ? floordiv(shape[d], word) : shape[d]);
    panels.shape.push_back(columns);
    const size_t last = panels.shape.size() - 1;
    if (in_words) panels.shape.push_back(word);
    const auto axis = [&](size_t d) { return axis_symbol(int(d), panels.shape[d]); };
    const Expr row = axis(block) * columns + axis(last);
    for (size_t d = 0, next = block + 1; d < shape.size(); d++)
      if (int(d) == dim)
        panels.map.push_back(groups > 1 ? axis(0) * n + row : row);
      else if (int(d) == in_words)
        panels.map.push_back(axis(next++) * word + axis(last + 1));
      else
        panels.map.push_back(axis(next++));
    if (n.value() % columns) panels.predicate = lt(row, n);
    back.shape = shape;
    const Expr whole = axis_symbol(dim, shape[size_t(dim)]), at = mod(whole, n);
    if (groups > 1) back.map.push_back(floordiv(whole, n));
    back.map.push_back(floordiv(at, columns));
    for (size_t d = 0; d < shape.size(); d++) {
      const Expr e = axis_symbol(int(d), shape[d]);
      if (int(d) != dim) back.map.push_back(int(d) == in_words ? floordiv(e, word) : e);
    }
    back.map.push_back(mod(at, columns));
    if (in_words) back.map.push_back(mod(axis_symbol(*in_words, shape[size_t(*in_words)]), word));
    const std::string name =
        f[id].kind == NodeKind::input ? std::get<InputAttr>(f[id].attr).name : f[id].name;
    const bool copy = f[id].kind == NodeKind::fence; // at each step, or at load in its own order
    NodeId made = to.nodes.end_id();
    to.nodes.push_back(view_of(copy ? stands_in[f[id].inputs[0]] : copies[id], dtype, std::move(panels),
                               name.empty() ? "" : name + ".panels"));
    if (copy) {
      copied[f[id].inputs[0]] = made;
      Node fence = f[id];
      fence.types = to.nodes[made].types;
      fence.inputs = {made++};
      to.nodes.push_back(std::move(fence));
    } else if (widened) {
      Node cast;
      cast.kind = NodeKind::cast;
      cast.types = {{DType::f32, to[made].type().shape}};
      cast.attr = CastAttr{DType::f32};
      cast.inputs = {made++};
      cast.name = to[cast.inputs[0]].name;
      to.nodes.push_back(std::move(cast));
    }
    if (is_step_input(f, id)) {
      Node fence;
      fence.kind = NodeKind::fence;
      fence.types = to.nodes[made].types;
      fence.attr = FenceAttr{};
      fence.inputs = {made++};
      to.nodes.push_back(std::move(fence));
      packed.copies.push_back(made - 1);
    } else if (!copy)
      packed.panels.push_back({made, copies[id]});
    to.nodes.push_back(view_of(made, to[made].type().dtype, std::move(back), ""));
    stands_in[id] = made + 1;
  }
  for (NodeId id : f.params) to.params.push_back(copies[id]);
  for (auto result : f.results) {
    result.value = copies[result.value];
    to.results.push_back(std::move(result));
  }
  packed.adds_sums = !padded.empty();
  packed.stored_as = std::move(copies);
  for (auto [from, made] : copied) packed.stored_as[from] = made;
  return packed;
}

Partition packed_partition(const PackedFunction& packed, const Partition& partition,
                           const std::vector<NodeId>& there) {
  Partition moved;
  for (const auto* made : {&packed.copies, &packed.sums})
    for (const NodeId id : *made) moved.kernels.push_back({id});
  for (const auto& kernel : partition.kernels) {
    std::vector<NodeId> roots;
    for (NodeId id : kernel)
      if (const NodeId now = packed.stored_as[id]; std::ranges::find(there, now) == there.end())
        roots.push_back(now);
    if (!roots.empty()) moved.kernels.push_back(std::move(roots));
  }
  return moved;
}

} // namespace luminal::compile
