// cone/cone_stages.cpp -- the stages that build_cone opens: folds, scans, maps at the roots,
// scatters.
#include "base/check.h"
#include "base/contains.h"
#include "cone/cone_build.h"
#include "ir/partition.h"
#include <fmt/format.h>

namespace luminal::kernel {
namespace {

/// An outer axis that no result varies with takes no part: its extent counts as 1.
Shape without_unused(Shape space, const std::set<int>& used) {
  for (size_t d = 0; d < space.size(); d++)
    if (!used.contains(int(d))) space[d] = 1;
  return space;
}

/// The components of each stage that a fold becomes: those that read none are a stage for each set
/// of axes.
std::vector<std::vector<int>> stages_of(const FoldAttr& fold) {
  std::vector<std::vector<int>> stages;
  const auto& components = fold.monoid.components();
  const bool dependent =
      std::ranges::any_of(components, [](const auto& m) { return !m.transform.is_leaf(0); });
  for (int c = 0; c < fold.monoid.size(); c++) {
    const auto like = std::ranges::find_if(stages, [&](const std::vector<int>& stage) {
      return dependent || result_axes(fold, stage[0]) == result_axes(fold, c);
    });
    if (like == stages.end())
      stages.push_back({c});
    else
      like->push_back(c);
  }
  return stages;
}

} // namespace

/// The names that a node gives its axes, or that a node below gives them on the way to it.
std::vector<std::string> ConeBuilder::names_of_axes(NodeId id) const {
  for (int steps = 0; steps < 64; steps++) {
    const Node& node = function_[id];
    if (node.kind == NodeKind::view || node.kind == NodeKind::iota) return node.axis_names;
    if (node.kind != NodeKind::map && node.kind != NodeKind::cast) return {};
    for (NodeId in : node.inputs)
      if (!function_[in].axis_names.empty()) return function_[in].axis_names;
    id = node.inputs[0];
  }
  return {};
}

StageId ConeBuilder::open_stage(std::string name) {
  Stage stage;
  stage.name = unique_stage_name(std::move(name));
  return open_.add(std::move(stage));
}

std::vector<AxisId> ConeBuilder::open_axes(StageId stage, const std::vector<Expr>& extents,
                                           const std::vector<std::string>& names, Index& symbols) {
  std::vector<AxisId> axes;
  for (size_t d = 0; d < extents.size(); d++) {
    if (extents[d].is_constant(1)) {
      axes.emplace_back();
      symbols.push_back(0);
      continue;
    }
    AxisId a = pool_.add(d < names.size() ? names[d] : "", extents[d], stage);
    axes.push_back(a);
    symbols.push_back(pool_.symbol(a));
    open_[stage].axes.push_back(a);
  }
  return axes;
}

ConeBuilder::FoldStage& ConeBuilder::fold_stage(NodeId id) {
  if (auto found = folds_.find(id); found != folds_.end()) return found->second;
  const Node& node = function_[id];
  auto& attr = std::get<FoldAttr>(node.attr);
  int count = attr.monoid.size();
  std::string name = node.name;
  for (int c = 0; c < count && name.empty(); c++)
    if (auto get = get_of(id, c); get && (count == 1 || !function_[*get].name.empty()))
      name = node_name(*get, "f");
  if (name.empty()) name = fmt::format("f{}", id);
  const std::vector<std::vector<int>> groups = stages_of(attr);
  FoldStage fold;
  fold.axes.resize(size_t(count));
  fold.values.resize(size_t(count));
  std::vector<OpenFold> open;
  for (const std::vector<int>& members : groups) open.push_back(open_fold(id, name, members, fold));
  folds_[id] = fold;
  for (OpenFold& part : open) close_fold(id, part);
  return folds_[id];
}

/// A stage for some components of a fold, with the values that it writes.
ConeBuilder::OpenFold ConeBuilder::open_fold(NodeId id, const std::string& name,
                                             const std::vector<int>& members, FoldStage& fold) {
  const Node& node = function_[id];
  auto& attr = std::get<FoldAttr>(node.attr);
  const int count = attr.monoid.size();
  OpenFold open{open_stage(name), members, {}, {}};
  std::set<int> used(attr.reduced.begin(), attr.reduced.end());
  for (int c : members)
    for (int d : result_axes(attr, c)) used.insert(d);
  const std::vector<AxisId> axes =
      open_axes(open.stage, without_unused(attr.space, used), node.axis_names, open.symbols);
  for (int c : members) {
    auto& m = attr.monoid.components()[c];
    auto get = get_of(id, c);
    ConeValue v;
    v.name = get && !function_[*get].name.empty() ? function_[*get].name
             : get && is_root(*get)               ? node_name(*get, "t")
             : count == 1                         ? name
                                                  : fmt::format("{}.{}", name, c);
    v.dtype = m.dtype;
    v.shape = node.types[c].shape;
    v.role = get && is_root(*get) ? ValueRole::output : ValueRole::interior;
    v.origin = get && is_root(*get) ? *get : id;
    v.result = get && is_root(*get) ? 0 : c;
    Component part;
    part.kind = ComponentKind::fold;
    part.op = m.op;
    part.dtype = m.dtype;
    for (int d : result_axes(attr, c)) {
      part.index.push_back(open.symbols[d]);
      if (axes[d]) part.axes.push_back(axes[d]);
    }
    part.out = add_value(std::move(v));
    if (get && is_root(*get)) root_values_[*get] = part.out;
    fold.axes[c] = axes;
    fold.values[c] = part.out;
    open.components.push_back(std::move(part));
  }
  return open;
}

/// Its domain, and what each component sums.
void ConeBuilder::close_fold(NodeId id, OpenFold& open) {
  const Node& node = function_[id];
  auto& attr = std::get<FoldAttr>(node.attr);
  FormulaRef valid;
  ExprMap<Expr> where;
  for (size_t d = 0; d < attr.space.size(); d++)
    if (Expr a = axis_symbol(int(d), attr.space[d]); a.is_symbol()) where[a] = open.symbols[d];
  for (auto& [symbol, value] : open_holes(node, attr.holes, open.symbols, valid)) where[symbol] = value;
  Expr domain = luminal::substitute(attr.where, where);
  bool dependent = false;
  for (size_t i = 0; i < open.members.size(); i++) {
    const int c = open.members[i];
    Index at;
    for (int d : attr.body_axes[c]) at.push_back(open.symbols[d]);
    open.components[i].body = formula_cast(open.components[i].dtype, read(node.inputs[c], at));
    dependent |= !attr.monoid.components()[c].transform.is_leaf(0);
  }
  if (valid) { // a hole out of range takes its point out of the fold
    Expr flag = Expr::symbol(unique_name("h" + std::to_string(cone_.holes.size())), {0, 1});
    cone_.holes.push_back({flag, formula_cast(DType::i64, valid)});
    domain = logical_and(domain, ne(flag, 0));
  }
  Stage& stage = open_[open.stage];
  stage.domain = domain;
  stage.components = std::move(open.components);
  if (dependent) stage.monoid = attr.monoid;
  order_.push_back(open.stage);
}

ConeBuilder::FoldStage& ConeBuilder::scan_stage(NodeId id) {
  if (auto found = folds_.find(id); found != folds_.end()) return found->second;
  const Node& node = function_[id];
  auto& attr = std::get<ScanAttr>(node.attr);
  int count = attr.monoid.size();
  StageId s = open_stage(node.name.empty() ? fmt::format("scan{}", id) : node.name);
  FoldStage scan;
  Index symbols;
  std::set<int> used;
  for (int c = 0; c < count; c++)
    for (int d : result_axes(attr, c)) used.insert(d);
  const std::vector<AxisId> axes = open_axes(s, without_unused(attr.space, used), node.axis_names, symbols);
  scan.axes.assign(size_t(count), axes);
  std::vector<Component> components;
  for (int c = 0; c < count; c++) {
    auto& m = attr.monoid.components()[c];
    auto get = get_of(id, c);
    bool root = get && is_root(*get);
    ConeValue v;
    v.name = get && (root || !function_[*get].name.empty()) ? node_name(*get, "t")
                                                            : fmt::format("{}.{}", open_[s].name, c);
    v.dtype = m.dtype;
    v.shape = node.types[c].shape;
    v.role = root ? ValueRole::output : ValueRole::interior;
    v.origin = root ? *get : id;
    v.result = root ? 0 : c;
    Component part;
    part.kind = ComponentKind::scan;
    part.op = m.op;
    part.dtype = m.dtype;
    for (int d : result_axes(attr, c)) {
      part.index.push_back(symbols[d]);
      if (axes[d]) part.axes.push_back(axes[d]);
    }
    LUMINAL_CHECK(part.index.size() == v.shape.size(), "scan {}: result {} has {} axes", open_[s].name, c,
                  v.shape.size());
    part.out = add_value(std::move(v));
    if (root) root_values_[*get] = part.out;
    scan.values.push_back(part.out);
    components.push_back(std::move(part));
  }
  folds_[id] = scan;
  for (int c = 0; c < count; c++) {
    Index at;
    for (int d : attr.body_axes[c]) at.push_back(symbols[d]);
    components[c].body = formula_cast(components[c].dtype, read(node.inputs[c], at));
  }
  Stage& stage = open_[s];
  stage.components = std::move(components);
  stage.monoid = attr.monoid;
  stage.scan_axis = axes[attr.axis];
  if (stage.scan_axis) stage.ordered = {stage.scan_axis};
  stage.scan_exclusive = attr.exclusive;
  stage.scan_reverse = attr.reverse;
  order_.push_back(s);
  return folds_[id];
}

void ConeBuilder::root_stage(NodeId root) {
  const Node& node = function_[root];
  if (is_own_step(node) || node.is_tuple()) fail(root, "is not a value that a kernel computes");
  if (node.kind == NodeKind::get) {
    const Node& tuple = function_[node.inputs[0]];
    if (tuple.kind != NodeKind::fold && tuple.kind != NodeKind::scan) fail(root, "reads a kernel of its own");
    tuple.kind == NodeKind::fold ? fold_stage(node.inputs[0]) : scan_stage(node.inputs[0]);
    return;
  }
  std::string name = node_name(root, "t");
  const auto joint = std::ranges::find_if(
      point_stages_, [&](const PointStage& other) { return other.shape == node.type().shape; });
  const bool joins = joint != point_stages_.end();
  StageId s = joins ? joint->stage : open_stage(name);
  Index at;
  if (joins) {
    at = joint->at;
    root_axes_[root] = joint->axes;
  } else {
    root_axes_[root] = open_axes(s, node.type().shape, names_of_axes(root), at);
    if (maps_only_) point_stages_.push_back({node.type().shape, s, root_axes_[root], at});
  }
  ConeValue v;
  v.name = name;
  v.dtype = node.type().dtype;
  v.shape = node.type().shape;
  v.role = ValueRole::output;
  v.origin = root;
  Component part;
  part.dtype = v.dtype;
  part.index = at;
  part.out = root_values_[root] = add_value(std::move(v));
  part.axes = open_[s].axes;
  // An input or a stored value as a root is a copy.
  part.body = node.kind == NodeKind::input || (node.kind == NodeKind::constant && !at.empty())
                  ? read_stored(root, at)
              : maps_only_ ? read(root, at) // which the other results of the point may read
                           : compute(root, at);
  open_[s].components.push_back(std::move(part));
  if (!joins) order_.push_back(s);
}

void ConeBuilder::scatter_root(NodeId root) {
  const Node& node = function_[root];
  auto& attr = std::get<ScatterAttr>(node.attr);
  std::string name = node_name(root, "t");
  ConeValue v;
  v.name = name;
  v.dtype = node.type().dtype;
  v.shape = node.type().shape;
  v.role = options_.in_place ? ValueRole::inout : ValueRole::output;
  v.origin = root;
  v.base = node.inputs[0];
  ValueId out = root_values_[root] = add_value(std::move(v));
  if (!options_.in_place) {
    StageId copy = open_stage(name + ".copy");
    Index at;
    open_axes(copy, node.type().shape, {}, at);
    Component part;
    part.dtype = node.type().dtype;
    part.index = at;
    part.out = out;
    part.axes = open_[copy].axes;
    part.body = read(node.inputs[0], at);
    open_[copy].components.push_back(std::move(part));
    order_.push_back(copy);
  }
  StageId s = open_stage(name);
  const Shape& space = function_[node.inputs[1]].type().shape;
  Index symbols;
  std::vector<AxisId> axes = open_axes(s, space, node.axis_names, symbols);
  FormulaRef valid;
  ExprMap<Expr> map;
  for (size_t d = 0; d < space.size(); d++)
    if (Expr a = axis_symbol(int(d), space[d]); a.is_symbol()) map[a] = symbols[d];
  for (auto& [symbol, value] : open_holes(node, attr.holes, symbols, valid)) map[symbol] = value;
  Component part;
  part.kind = ComponentKind::update;
  part.dtype = node.type().dtype;
  part.set = !attr.op;
  if (attr.op) part.op = *attr.op;
  for (Expr e : attr.map) part.index.push_back(luminal::substitute(e, map));
  part.body = read(node.inputs[1], symbols);
  part.out = out;
  Expr domain = luminal::substitute(attr.predicate, map);
  if (valid) {
    Expr flag = Expr::symbol(unique_name("h" + std::to_string(cone_.holes.size())), {0, 1});
    cone_.holes.push_back({flag, formula_cast(DType::i64, valid)});
    domain = logical_and(domain, ne(flag, 0));
  }
  Stage& stage = open_[s];
  stage.domain = domain;
  part.axes = stage.axes;
  // Two points that differ in an axis which is an index by itself write different elements; the
  // others keep their order.
  if (!attr.unique)
    for (AxisId a : stage.axes)
      if (!contains(part.index, pool_.symbol(a))) stage.ordered.push_back(a);
  stage.components.push_back(std::move(part));
  order_.push_back(s);
}

} // namespace luminal::kernel
