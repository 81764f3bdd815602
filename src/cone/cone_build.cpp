// cone/cone_build.cpp -- build_cone: stages from demand. An element is asked for at index
// expressions over the axes of the stage that needs it; views change the expressions, maps pass
// them on, folds open a stage of their own.
#include "cone/cone_build.h"
#include "base/check.h"
#include "base/contains.h"
#include "cone/conversion.h"
#include "ir/access.h"
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <utility>

namespace luminal::kernel {
namespace {

std::string_view kind_name(NodeKind kind) {
  static constexpr std::string_view names[] = {
      "input", "constant", "iota",       "random", "map",  "cast", "bitcast", "view",   "scatter", "fold",
      "scan",  "sort",     "collective", "call",   "loop", "cond", "host",    "custom", "fence",   "get"};
  return names[int(kind)];
}

/// Deep chains of maps are read by recursion.
constexpr int max_depth = 4000;

ExprMap<Expr> axes_to(const std::vector<Expr>& extents, const std::vector<Expr>& at) {
  ExprMap<Expr> map;
  for (size_t d = 0; d < extents.size(); d++) map[axis_symbol(int(d), extents[d])] = at[d];
  return map;
}

/// substitute() for axes: an axis of extent 1 may be a constant already.
Expr replaced(Expr e, const ExprMap<Expr>& map) {
  ExprMap<Expr> symbols;
  for (auto& [from, to] : map)
    if (from.is_symbol()) symbols[from] = to;
  return substitute(e, symbols);
}

/// What a view has beside its source: converted as by a cast.
FormulaRef filler(DType type, double fill) {
  return is_integer(type) ? formula_index(Expr(truncate_to(type, fill)), type) : formula_constant(type, fill);
}

} // namespace

void ConeBuilder::fail(NodeId node, const std::string& why) const {
  const Node& n = function_[node];
  throw ConeFailure{fmt::format("[cone] {} {}({}): {}", options_.name,
                                n.name.empty() ? fmt::format("%{}", node) : "%" + n.name, kind_name(n.kind),
                                why)};
}

namespace {
std::string unique_in(std::set<std::string>& names, std::string wish) {
  for (char& c : wish)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '.') c = '_';
  while (!wish.empty() && wish.back() == '.') wish.pop_back();
  if (wish.empty() || std::isdigit(static_cast<unsigned char>(wish[0])) || wish[0] == '.') wish = "v" + wish;
  std::string name = wish;
  for (int i = 2; !names.insert(name).second; i++) name = wish + "_" + std::to_string(i);
  return name;
}
} // namespace

std::string ConeBuilder::unique_name(std::string wish) { return unique_in(names_, std::move(wish)); }
std::string ConeBuilder::unique_stage_name(std::string wish) {
  return unique_in(stage_names_, std::move(wish));
}

std::string ConeBuilder::node_name(NodeId node, std::string_view fallback) const {
  const Node& n = function_[node];
  if (!n.name.empty()) return n.name;
  if (n.kind == NodeKind::input) return std::get<InputAttr>(n.attr).name;
  for (auto& result : function_.results)
    if (result.value == node && !result.name.empty()) return result.name;
  return fmt::format("{}{}", fallback, node);
}

ValueId ConeBuilder::add_value(ConeValue value) {
  value.name = unique_name(value.name);
  return cone_.values.add(std::move(value));
}

bool ConeBuilder::is_read(NodeId node) const {
  const Node& n = function_[node];
  if (n.kind == NodeKind::input) return true;
  if (n.kind == NodeKind::constant) return !n.type().shape.empty();
  return stored_.contains(node) && !is_root(node);
}

bool ConeBuilder::is_root(NodeId node) const { return contains(roots_, node); }

std::optional<NodeId> ConeBuilder::get_of(NodeId tuple, int result) const {
  for (NodeId id : inside_) {
    const Node& n = function_[id];
    if (n.kind == NodeKind::get && n.inputs[0] == tuple && std::get<GetAttr>(n.attr).index == result)
      return id;
  }
  return {};
}

ValueId ConeBuilder::value_of_stored(NodeId node) {
  auto found = stored_values_.find(node);
  if (found != stored_values_.end()) return found->second;
  const Node& n = function_[node];
  ConeValue v;
  v.name = node_name(node, n.kind == NodeKind::constant ? "const" : "t");
  v.dtype = n.type().dtype;
  v.shape = n.type().shape;
  v.origin = node;
  v.role = ValueRole::input;
  return stored_values_[node] = add_value(std::move(v));
}

FormulaRef ConeBuilder::read_stored(NodeId node, const Index& at) {
  ValueId v = value_of_stored(node);
  return formula_load(v, cone_.values[v].dtype, at, under_);
}

FormulaRef ConeBuilder::read(NodeId node, const Index& at) {
  if (is_read(node)) return read_stored(node, at);
  if (is_root(node)) root_demands_.push_back({node, at});
  std::vector<uint32_t> key;
  for (Expr e : at) key.push_back(e.id());
  key.push_back(under_.id());
  auto found = memo_.find({node, key});
  if (found != memo_.end()) return found->second;
  if (++depth_ > max_depth)
    fail(node,
         "the chain of inlined operations is too long: contiguous() on a value in its middle stores it");
  FormulaRef result = compute(node, at);
  depth_--;
  memo_[{node, std::move(key)}] = result;
  return result;
}

FormulaRef ConeBuilder::compute(NodeId id, const Index& at) {
  const Node& node = function_[id];
  switch (node.kind) {
  case NodeKind::constant: {
    auto& data = *std::get<ConstantAttr>(node.attr).data;
    DType type = node.type().dtype;
    if (is_float(type)) return formula_constant(type, load_f64(type, data.data(), 0));
    return formula_index(Expr(load_i64(type, data.data(), 0)), type);
  }
  case NodeKind::iota: {
    Expr value = replaced(std::get<IotaAttr>(node.attr).value, axes_to(node.type().shape, at));
    DType type = node.type().dtype;
    if (is_float(type)) return formula_cast(type, formula_index(value, DType::i64));
    return formula_index(value, type);
  }
  case NodeKind::random: return read_random(node, at);
  case NodeKind::map: {
    auto& attr = std::get<MapAttr>(node.attr);
    std::vector<FormulaRef> args;
    for (NodeId in : node.inputs) args.push_back(read(in, at));
    FormulaRef made = attr.user_op.empty()
                          ? formula_op(attr.op, std::move(args))
                          : formula_user_op(attr.user_op, node.type().dtype, std::move(args));
    Formula copy = *made;
    copy.origin = node_name(id, "t");
    copy.at = at;
    return std::make_shared<const Formula>(std::move(copy));
  }
  case NodeKind::cast: return formula_cast(std::get<CastAttr>(node.attr).to, read(node.inputs[0], at));
  case NodeKind::bitcast: return read_bitcast(node, at);
  case NodeKind::view: return named_view(id, at);
  case NodeKind::get: return read_result(node.inputs[0], std::get<GetAttr>(node.attr).index, at);
  case NodeKind::scatter: fail(id, "a scatter is computed only as the root of its own kernel");
  case NodeKind::fold:
  case NodeKind::scan: fail(id, "a tuple is read by get");
  default: fail(id, "is a kernel of its own and must be stored");
  }
}

/// Loads, and what they are converted to, remember the outermost view that they were read through,
/// and where, along its dimensions that move them: for `materialize`.
FormulaRef ConeBuilder::named_view(NodeId id, const Index& at) {
  const Node& node = function_[id];
  FormulaRef x = read_view(node, at);
  if (!converted_load(*x)) return x;
  const auto& attr = std::get<ViewAttr>(node.attr);
  Formula copy = *x;
  copy.origin = node_name(id, "t");
  copy.at.clear();
  for (size_t d = 0; d < at.size(); d++) {
    const Expr axis = axis_symbol(int(d), node.type().shape[d]);
    const auto varies = [&](Expr e) { return axis.is_symbol() && depends_on(e, axis); };
    if (std::ranges::any_of(attr.map, varies) || varies(attr.predicate)) copy.at.push_back(at[d]);
  }
  return std::make_shared<const Formula>(std::move(copy));
}

ExprMap<Expr> ConeBuilder::open_holes(const Node& node, const std::vector<Hole>& holes, const Index& at,
                                      FormulaRef& valid) {
  ExprMap<Expr> map;
  for (size_t h = 0; h < holes.size(); h++) {
    const Hole& hole = holes[h];
    Index where;
    for (int axis : hole.axes) where.push_back(at[axis]);
    NodeId operand = node.inputs[hole.input];
    FormulaRef raw = read(operand, where);
    Expr symbol = hole_symbol(int(h), hole.range);
    bool bounded = hole.range.is_bounded();
    // The extents that the policy holds it below. (For the policy `error` a step of the plan sees
    // to it; who runs a kernel without its plan is safe, too.)
    Expr limit = unbounded_high;
    Interval range = hole.range;
    if (node.kind != NodeKind::fold)
      for (Expr extent : hole_extents(node.attr, function_[node.inputs[0]].type().shape, h))
        if (prove(lt(hole.range.high, extent)) != Truth::yes || hole.range.low < 0)
          limit = limit == Expr(unbounded_high) ? extent : min(limit, extent);
    const bool limited = limit != Expr(unbounded_high);
    if (limited) {
      range.low = std::max<int64_t>(0, std::min(range.low, limit.range().high - 1));
      range.high = std::max<int64_t>(range.low, std::min(range.high, limit.range().high - 1));
    }
    // An integer that is already an expression (an iota, a constant) stays one.
    std::optional<Expr> known;
    if (const auto* index = raw->as<FormulaIndex>(); index && raw->dtype != DType::boolean)
      known = index->value;
    if (const auto* constant = raw->as<FormulaConstant>(); constant && std::fabs(constant->value) < 0x1p53)
      known = Expr(int64_t(constant->value));
    if (known && raw->dtype == DType::u64 && known->range().low < 0) known.reset(); // it wraps
    if (known && hole.range.contains(known->range()) &&
        (!limited || prove(logical_and(ge(*known, 0), lt(*known, limit))) == Truth::yes)) {
      if (symbol.is_symbol()) map[symbol] = *known; // a range of one value is not a symbol
      continue;
    }
    auto number = [](Expr v) { return formula_index(v, DType::i64); };
    FormulaRef wide; // beyond 2^63 is beyond every range, at its upper end
    if (raw->dtype == DType::u64)
      wide =
          formula_bitcast(DType::i64, formula_op(Op::min, {raw, formula_index(Expr(INT64_MAX), DType::u64)}));
    else
      wide = formula_cast(DType::i64, raw);
    if (hole.policy == OutOfRange::fill && (bounded || limited)) {
      const auto within = [&](Expr low, Expr high) {
        auto inside = formula_op(
            Op::bit_and, {formula_op(Op::le, {number(low), wide}), formula_op(Op::le, {wide, number(high)})});
        valid = valid ? formula_op(Op::bit_and, {valid, inside}) : inside;
      };
      if (bounded) within(hole.range.low, hole.range.high);
      if (limited) within(0, limit - 1);
    }
    std::vector<uint32_t> key{uint32_t(hole.range.low), uint32_t(hole.range.low >> 32),
                              uint32_t(hole.range.high), uint32_t(hole.range.high >> 32),
                              limited ? limit.id() + 1 : 0};
    for (Expr e : where) key.push_back(e.id());
    key.push_back(under_.id());
    if (!symbol.is_symbol()) continue;
    auto [slot, fresh] = hole_memo_.try_emplace({operand, key});
    if (fresh) {
      // Whatever the policy, memory is safe: the index that is used lies in the declared range.
      if (hole.range.low != unbounded_low) wide = formula_op(Op::max, {wide, number(hole.range.low)});
      if (hole.range.high != unbounded_high) wide = formula_op(Op::min, {wide, number(hole.range.high)});
      if (limited) wide = formula_op(Op::max, {formula_op(Op::min, {wide, number(limit - 1)}), number(0)});
      slot->second = Expr::symbol(unique_name("h" + std::to_string(cone_.holes.size())), range);
      cone_.holes.push_back({slot->second, wide});
    }
    map[symbol] = slot->second;
  }
  return map;
}

/// Through maps and views to stored values, without an index that is itself read from memory.
bool ConeBuilder::reads_memory_only(NodeId id, int depth) {
  if (is_read(id)) return true;
  const Node& node = function_[id];
  if (depth > max_depth) return false;
  if (auto known = memory_only_.find(id); known != memory_only_.end()) return known->second;
  const auto inputs_do = [&] {
    return std::ranges::all_of(node.inputs, [&](NodeId in) { return reads_memory_only(in, depth + 1); });
  };
  bool only = false;
  switch (node.kind) {
  case NodeKind::constant: only = true; break; // a scalar
  case NodeKind::view: only = std::get<ViewAttr>(node.attr).holes.empty() && inputs_do(); break;
  case NodeKind::map:
  case NodeKind::cast: only = inputs_do(); break;
  default: break;
  }
  return memory_only_[id] = only;
}

FormulaRef ConeBuilder::read_view(const Node& node, const Index& at) {
  auto& attr = std::get<ViewAttr>(node.attr);
  FormulaRef valid;
  ExprMap<Expr> map = axes_to(node.type().shape, at);
  for (auto& [symbol, value] : open_holes(node, attr.holes, at, valid)) map[symbol] = value;
  const Shape& source = function_[node.inputs[0]].type().shape;
  Index where;
  for (Expr e : attr.map) where.push_back(replaced(e, map));
  Expr predicate = replaced(attr.predicate, map);
  Truth holds = prove(predicate);
  DType type = node.type().dtype;
  if (holds == Truth::no) return filler(type, attr.fill);
  // What is read from memory alone is guarded: the index stays as it is, and loads of neighbours
  // stay neighbours.
  if (holds == Truth::unknown && !valid && reads_memory_only(node.inputs[0])) {
    FormulaRef x = guarded(read(node.inputs[0], where), predicate);
    if (converted_load(*x) && attr.fill == 0) return x;
    return formula_op(Op::select, {formula_index(predicate, DType::boolean), x, filler(type, attr.fill)});
  }
  if (holds == Truth::unknown)
    // Both sides of a choice may be evaluated, so the index that is not used must be in bounds,
    // too.
    for (size_t d = 0; d < where.size(); d++) {
      if (prove(ge(where[d], 0)) != Truth::yes) where[d] = max(where[d], Expr(0));
      if (prove(lt(where[d], source[d])) != Truth::yes) where[d] = min(where[d], source[d] - 1);
    }
  // Of what may have no elements nothing is read, not even at a clamped index.
  const Expr outside = under_;
  const bool may_be_empty = std::ranges::any_of(source, [](Expr extent) { return extent.range().low < 1; });
  if (holds == Truth::unknown && may_be_empty) under_ = logical_and(under_, predicate);
  if (valid && may_be_empty)
    for (Expr extent : source) under_ = logical_and(under_, ge(extent, 1));
  FormulaRef x = read(node.inputs[0], where);
  under_ = outside;
  if (holds == Truth::unknown) {
    auto inside = formula_index(predicate, DType::boolean);
    valid = valid ? formula_op(Op::bit_and, {valid, inside}) : inside;
  }
  if (!valid) return x;
  return formula_op(Op::select, {valid, x, filler(type, attr.fill)});
}

FormulaRef ConeBuilder::read_result(NodeId tuple, int result, const Index& at) {
  const Node& node = function_[tuple];
  if (node.kind != NodeKind::fold && node.kind != NodeKind::scan)
    fail(tuple, "is a kernel of its own and must be stored");
  const Expr reader = std::exchange(under_, Expr(1)); // a stage serves all its readers
  FoldStage& stage = node.kind == NodeKind::fold ? fold_stage(tuple) : scan_stage(tuple);
  under_ = reader;
  const std::vector<int> dims = node.kind == NodeKind::fold
                                    ? result_axes(std::get<FoldAttr>(node.attr), result)
                                    : result_axes(std::get<ScanAttr>(node.attr), result);
  for (size_t d = 0; d < dims.size(); d++) {
    AxisId axis = stage.axes[result][dims[d]];
    AxisId read = pool_.find_symbol(at[d]);
    if (axis && read) pool_.unite(axis, read);
  }
  ValueId v = stage.values[result];
  return formula_load(v, cone_.values[v].dtype, at);
}

void ConeBuilder::finish() {
  // A root that another stage computes on its way shares the axes of that stage.
  for (auto& [root, at] : root_demands_) {
    auto axes = root_axes_.find(root);
    if (axes == root_axes_.end()) continue;
    for (size_t d = 0; d < at.size(); d++)
      if (AxisId reader = pool_.find_symbol(at[d]); reader && axes->second[d])
        pool_.unite(axes->second[d], reader);
  }
  join_digits();
  // The axes that turned out to be one get one name and one symbol.
  std::map<AxisId, AxisId> final_axis; // representative -> cone axis
  ExprMap<Expr> rename;
  auto axis_of = [&](AxisId pool_axis) {
    const AxisId r = pool_.representative(pool_axis);
    auto [slot, fresh] = final_axis.try_emplace(r, cone_.axes.end_id());
    if (fresh) {
      std::string name =
          unique_name(pool_.name(r).empty() ? "i" + std::to_string(cone_.axes.size()) : pool_.name(r));
      Interval range = pool_.symbol(r).range();
      cone_.axes.push_back({name, pool_.extent(r), Expr::symbol(name, range)});
    }
    return slot->second;
  };
  for (StageId s : order_)
    for (AxisId& a : open_[s].axes) {
      const AxisId cone_axis = axis_of(a);
      rename[pool_.symbol(a)] = cone_.axes[cone_axis].symbol;
      a = cone_axis;
    }
  // One rewriter, so that what stages and indices share stays shared.
  FormulaRewriter rewriter = index_rewriter([&](Expr e) { return luminal::substitute(e, rename); });
  for (StageId s : order_) {
    Stage& stage = open_[s];
    for (AxisId& a : stage.ordered) a = axis_of(a);
    if (stage.scan_axis) stage.scan_axis = axis_of(stage.scan_axis);
    rewrite_stage(stage, [&](const FormulaRef& f) { return rewriter(f); });
    stage.domain = luminal::substitute(stage.domain, rename);
    stage.needed = luminal::substitute(stage.needed, rename);
    for (Component& c : stage.components) {
      for (Expr& e : c.index) e = luminal::substitute(e, rename);
      for (AxisId& a : c.axes) a = axis_of(a);
      std::ranges::sort(c.axes);
      if (!c.out) continue;
      auto& dims = cone_.values[c.out].axes;
      dims.assign(c.index.size(), AxisId());
      for (size_t d = 0; d < c.index.size(); d++)
        for (const AxisId a : cone_.axes.ids())
          if (c.index[d] == cone_.axes[a].symbol) dims[d] = a;
    }
    cone_.stages.push_back(std::move(stage));
  }
  for (ConeHole& hole : cone_.holes) hole.value = rewriter(hole.value);
  share_digits();
  // Dimension symbols: what is left when axes and holes are taken away.
  std::vector<Expr> exprs;
  const auto add = [&](const std::vector<Expr>& part) {
    exprs.insert(exprs.end(), part.begin(), part.end());
  };
  for (auto& stage : cone_.stages) add(index_exprs(stage));
  for (auto& hole : cone_.holes) add(index_exprs(hole.value));
  for (auto& axis : cone_.axes) exprs.push_back(axis.extent);
  for (auto& value : cone_.values) exprs.insert(exprs.end(), value.shape.begin(), value.shape.end());
  std::set<Expr, ExprLess> own;
  for (auto& axis : cone_.axes) own.insert(axis.symbol);
  for (auto& hole : cone_.holes) own.insert(hole.symbol);
  for (Expr s : symbols_of(exprs))
    if (!own.contains(s)) cone_.symbols.push_back(s);
}

Cone ConeBuilder::build() {
  cone_.name = options_.name;
  // Dimension symbols keep their names: nothing else may be called so.
  std::vector<Expr> extents;
  for (NodeId id : inside_)
    for (auto& type : function_[id].types)
      for (Expr extent : type.shape)
        if (!extent.is_constant() && !contains(extents, extent)) extents.push_back(extent);
  for (Expr s : symbols_of(extents)) names_.insert(std::string(s.name()));
  maps_only_ = roots_.size() > 1 && std::ranges::all_of(inside_, [&](NodeId id) {
                 const NodeKind kind = function_[id].kind;
                 return is_read(id) || (kind != NodeKind::get && kind != NodeKind::scatter);
               });
  for (NodeId root : roots_) {
    if (root_values_.contains(root)) continue;
    const Node& node = function_[root];
    if (node.kind == NodeKind::scatter)
      scatter_root(root);
    else
      root_stage(root);
  }
  for (StageId s : order_)
    for (auto& c : open_[s].components)
      if (c.out && cone_.values[c.out].role == ValueRole::inout) {
        NodeId base = cone_.values[c.out].base;
        auto found = stored_values_.find(base);
        if (found != stored_values_.end())
          fail(cone_.values[c.out].origin, fmt::format("updates %{} in place, and the same kernel reads it",
                                                       cone_.values[found->second].name));
      }
  finish();
  return std::move(cone_);
}

std::vector<NodeId> cone_nodes(const Function& function, std::span<const NodeId> roots,
                               const std::set<NodeId>& stored) {
  std::set<NodeId> seen(roots.begin(), roots.end());
  std::vector<NodeId> stack(roots.begin(), roots.end());
  while (!stack.empty()) {
    const Node& node = function[stack.back()];
    stack.pop_back();
    for (NodeId input : node.inputs)
      if (seen.insert(input).second && !stored.contains(input)) stack.push_back(input);
  }
  return {seen.begin(), seen.end()};
}

Result<Cone> build_cone(const Function& function, std::span<const NodeId> roots,
                        const std::set<NodeId>& stored, const ConeOptions& options) {
  try {
    return ConeBuilder(function, roots, stored, options).build();
  } catch (const ConeFailure& failure) {
    return Failure{failure.text};
  }
}

} // namespace luminal::kernel
