// compile/fuse.cpp -- the stored set by counting evaluations, and the kernels that follow from it.
#include "compile/fuse.h"
#include "base/check.h"
#include "cone/cone.h"
#include "ir/passes/weighted_sums.h"
#include <algorithm>
#include <cmath>
#include <functional>
#include <unordered_map>

namespace luminal::compile {
namespace {

double largest(Expr extent) {
  Interval range = extent.range();
  return range.high == unbounded_high ? 1e18 : double(range.high);
}
double count(const Shape& shape) {
  double n = 1;
  for (Expr extent : shape) n *= largest(extent);
  return n;
}
double bytes(const TensorType& type) { return count(type.shape) * bits(type.dtype) / 8; }

bool is_stage(const Node& node) { return node.kind == NodeKind::fold || node.kind == NodeKind::scan; }
/// Costs nothing where it is read: an index, a conversion, a number.
bool is_free(const Node& node) {
  return node.kind == NodeKind::view || node.kind == NodeKind::cast || node.kind == NodeKind::bitcast ||
         node.kind == NodeKind::iota || node.kind == NodeKind::constant;
}
bool changes_width(const Function& f, const Node& node) {
  return node.kind == NodeKind::bitcast && bits(node.type().dtype) != bits(f[node.inputs[0]].type().dtype);
}

/// One demand for a value: by which stage (a fold, or the root of a kernel), at which index.
struct Demand {
  NodeId stage;
  bool at_root;            // the stage is the root's own elementwise space
  std::vector<Expr> index; // over the stage's axes
  double evaluations;      // points of the stage
  // last axis of a stage that walks its rows in order: what does not depend on it is computed once
  // a row
  Expr innermost = 0;
  bool in_pieces = false; // the root is a map of constant extents, whose kernel may be cut along its axes
  double share =
      1; // of these points at which a predicate over one axis of the root lets the value be read at all
  double times() const;
  bool operator==(const Demand& o) const { return stage == o.stage && index == o.index; }
};

bool plain(const std::vector<Expr>& index) {
  std::set<Expr, ExprLess> seen;
  for (Expr e : index)
    if (!(e.is_symbol() && seen.insert(e).second) && !e.is_constant(0)) return false;
  return true;
}

double Demand::times() const {
  if (innermost.is_constant() || !plain(index)) return evaluations;
  double n = 1;
  for (Expr e : index) {
    if (e == innermost) return evaluations;
    n *= largest(e) + 1;
  }
  return std::min(n, evaluations);
}

/// Axes (i0, i1, ...) and holes (h0, ...) of index maps, as against dimension symbols.
bool is_local(Expr symbol) {
  std::string_view name = symbol.name();
  return name.size() > 1 && (name[0] == 'i' || name[0] == 'h') &&
         name.find_first_not_of("0123456789", 1) == std::string_view::npos;
}
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

class Fuser {
public:
  explicit Fuser(const Region& region)
      : region_(region), f_(*region.function), nodes_(needed_nodes(region)) {}

  Fusion run() {
    find_static();
    find_finished();
    for (NodeId id : region_.wanted)
      if (!is_leaf(id)) stored_.insert(id);
    for (NodeId id : nodes_) force(id);
    for (NodeId id : region_.read)
      if (!is_leaf(id)) stored_.insert(id);
    // From users to producers: every kernel that reads a value is known when its turn comes.
    for (auto it = nodes_.rbegin(); it != nodes_.rend(); ++it) decide(*it);
    return kernels();
  }

private:
  bool is_leaf(NodeId id) const {
    return region_.given.contains(id) || f_[id].kind == NodeKind::input || is_scalar_constant(id);
  }
  bool is_scalar_constant(NodeId id) const { return f_[id].kind == NodeKind::constant; }

  void find_static() {
    for (NodeId id : nodes_) {
      const Node& node = f_[id];
      bool value = node.kind == NodeKind::input ? std::get<InputAttr>(node.attr).role == Role::weight : true;
      for (NodeId input : node.inputs) value &= static_.contains(input);
      if (region_.given.contains(id) && node.kind != NodeKind::input) value = true; // loaded
      if (value) static_.insert(id);
    }
  }

  /// Maps of results of a fold over tiles: the last one of its shape is stored in their place where
  /// they would be.
  void find_finished() {
    for (NodeId id : nodes_) {
      const Node& node = f_[id];
      const auto* fold =
          node.kind == NodeKind::get ? std::get_if<FoldAttr>(&f_[node.inputs[0]].attr) : nullptr;
      const auto finishes = [&](NodeId input) { return !is_leaf(input) && finished_.contains(input); };
      if (fold ? passes::has_weighted_sum(*fold)
               : node.kind == NodeKind::map && std::ranges::any_of(node.inputs, finishes))
        finished_.insert(id);
    }
  }

  /// The node below views and casts that must be in memory for `id` to be read there.
  void force_operand(NodeId id) {
    while (f_[id].kind == NodeKind::view && std::get<ViewAttr>(f_[id].attr).holes.empty())
      id = f_[id].inputs[0];
    if (!is_leaf(id)) stored_.insert(id);
  }

  void force(NodeId id) {
    const Node& node = f_[id];
    if (is_leaf(id)) return;
    if (changes_width(f_, node)) force_operand(node.inputs[0]);
    if (node.kind == NodeKind::scatter) {
      stored_.insert(id);
      if (!is_leaf(node.inputs[0])) stored_.insert(node.inputs[0]);
    }
    for (const std::vector<Hole>* holes : {hole_list(node)})
      if (holes)
        for (const Hole& hole : *holes)
          if (hole.policy == OutOfRange::error && !is_leaf(node.inputs[size_t(hole.input)]))
            stored_.insert(node.inputs[size_t(hole.input)]);
    if (node.kind == NodeKind::get && kernel::is_kernel_boundary(f_[node.inputs[0]])) stored_.insert(id);
    if (!kernel::is_kernel_boundary(node) || node.kind == NodeKind::scatter) return;
    if (!node.is_tuple()) stored_.insert(id);
    for (NodeId input : node.inputs)
      if (!is_leaf(input)) stored_.insert(input);
  }

  static const std::vector<Hole>* hole_list(const Node& node) {
    if (auto* view = std::get_if<ViewAttr>(&node.attr)) return &view->holes;
    if (auto* scatter = std::get_if<ScatterAttr>(&node.attr)) return &scatter->holes;
    if (auto* fold = std::get_if<FoldAttr>(&node.attr)) return &fold->holes;
    return nullptr;
  }

  static std::vector<Expr> plain_axes(const Shape& shape) {
    std::vector<Expr> axes;
    for (size_t d = 0; d < shape.size(); d++) axes.push_back(axis_symbol(int(d), shape[d]));
    return axes;
  }

  static Expr last_axis(const Shape& space) {
    return space.empty() ? Expr(0) : axis_symbol(int(space.size()) - 1, space.back());
  }

  /// A stored node asks for its parts; an unstored one passes on what it was asked for.
  void decide(NodeId id) {
    const Node& node = f_[id];
    if (is_leaf(id)) return;
    if (node.is_tuple()) return pass_on_tuple(id);
    if (!stored_.contains(id) && (should_store(id) || overflows(id))) stored_.insert(id);
    if (stored_.contains(id)) {
      if (kernel::is_kernel_boundary(node) && node.kind != NodeKind::scatter) return; // its inputs are stored
      const Shape& space =
          node.kind == NodeKind::scatter ? f_[node.inputs[1]].type().shape : node.type().shape;
      kernels_of_[id] = {node.kind == NodeKind::get ? node.inputs[0]
                                                    : id}; // results of one fold are one kernel
      demands_[id] = {};
      operations_[*kernels_of_[id].begin()] += operations(node);
      pass_on(id, {.stage = id,
                   .at_root = true,
                   .index = plain_axes(space),
                   .evaluations = count(space),
                   .innermost = last_axis(space),
                   .in_pieces = node.kind != NodeKind::scatter && node.kind != NodeKind::get &&
                                std::ranges::all_of(space, [](Expr e) { return e.is_constant(); })});
      return;
    }
    for (NodeId kernel : kernels_of_[id])
      operations_[kernel] += operations(node) * double(std::max<size_t>(1, demands_[id].size()));
    for (const Demand& demand : std::vector<Demand>(demands_[id])) pass_on(id, demand);
  }

  /// What a value adds to a kernel that computes it where it is read: of an operation 1, of a
  /// transcendental one as much as its code is longer.
  static double operations(const Node& node) {
    if (node.kind == NodeKind::random) return 128;
    if (node.kind != NodeKind::map) return node.kind == NodeKind::view || node.kind == NodeKind::cast ? 1 : 0;
    const MapAttr& map = std::get<MapAttr>(node.attr);
    return map.user_op.empty() && row(map.op).ulp <= 0.5 ? 1 : 32;
  }

  /// A kernel has an end: a value beyond so many operations is stored, and begins a kernel of its
  /// own. Compilers take more than linear time, and gain nothing.
  bool overflows(NodeId id) {
    const Node& node = f_[id];
    if (node.kind != NodeKind::map && node.kind != NodeKind::cast && node.kind != NodeKind::view)
      return false;
    const double own = operations(node) * double(std::max<size_t>(1, demands_[id].size()));
    return std::ranges::any_of(kernels_of_[id],
                               [&](NodeId kernel) { return operations_[kernel] + own > most_operations; });
  }

  void ask(NodeId id, NodeId reader, const Demand& demand) {
    if (is_leaf(id)) return;
    auto& list = demands_[id];
    if (std::find(list.begin(), list.end(), demand) == list.end()) list.push_back(demand);
    const auto& kernels = kernels_of_[reader];
    kernels_of_[id].insert(kernels.begin(), kernels.end());
  }

  std::vector<Expr> through(const Shape& reader_shape, const std::vector<Expr>& map,
                            const std::vector<Expr>& at) {
    std::vector<Expr> axes; // of an extent of 1 it is 0
    for (size_t d = 0; d < reader_shape.size(); d++) axes.push_back(axis_symbol(int(d), reader_shape[d]));
    ExprMap<Expr> replace;
    std::vector<Expr> result;
    for (Expr e : map) {
      if (e.is_constant() || e.is_symbol()) { // mostly
        const auto axis = e.is_symbol() ? std::ranges::find(axes, e) : axes.end();
        result.push_back(axis == axes.end() ? e : at[size_t(axis - axes.begin())]);
        continue;
      }
      if (replace.empty())
        for (size_t d = 0; d < axes.size(); d++)
          if (axes[d].is_symbol()) replace[axes[d]] = at[d];
      result.push_back(replace_axes(e, replace));
    }
    return result;
  }
  /// Of what depends on one axis of the root, by its remainder alone: the axis and how often the
  /// remainders come round.
  static std::optional<std::pair<Expr, int64_t>> remainder_of(Expr e) {
    if (e.kind() == ExprKind::mod && e.args()[1].is_constant()) {
      const auto symbols = symbols_of(e.args()[0]);
      if (symbols.size() == 1 && is_local(symbols[0]) && !depends_on(e.args()[0] - symbols[0], symbols[0]))
        return std::pair{symbols[0], e.args()[1].value()};
    }
    std::optional<std::pair<Expr, int64_t>> found;
    if (e.is_symbol()) return {};
    for (Expr part : e.args()) {
      if (part.is_constant()) continue;
      const auto inner = remainder_of(part);
      if (!inner || (found && *found != *inner)) return {};
      found = inner;
    }
    return found;
  }
  /// The share of the root's points at which the predicate can hold, where the kernel is cut along
  /// an axis there (choose/choose_segments.cpp), or its loop over remainders is written out (its
  /// stores are de-interleaved).
  static double share_of(Expr predicate, const Demand& demand) {
    constexpr double fewest_lanes = 32, least = 1.0 / 16;
    constexpr int64_t most_parts = 16;
    const auto conditions = predicate.kind() == ExprKind::logical_and
                                ? std::vector<Expr>(predicate.args().begin(), predicate.args().end())
                                : std::vector<Expr>{predicate};
    std::map<Expr, std::pair<double, double>, ExprLess> parts; // axis -> first, end
    for (Expr condition : conditions) {
      if (condition.kind() != ExprKind::lt && condition.kind() != ExprKind::eq) continue;
      const Expr gap = condition.args()[1] - condition.args()[0];
      const auto symbols = symbols_of(gap);
      if (symbols.size() != 1 || symbols[0].name()[0] != 'i' || !is_local(symbols[0])) continue;
      const auto c = coefficient_of(gap, symbols[0]);
      if (!c || !(c->is_constant(1) || c->is_constant(-1))) continue;
      const Expr rest = gap - symbols[0] * *c;
      if (!rest.is_constant()) continue;
      auto& [first, end] = parts.try_emplace(symbols[0], 0, largest(symbols[0]) + 1).first->second;
      const Expr place = c->is_constant(1) ? -rest : rest;
      if (condition.kind() == ExprKind::eq)
        first = std::max(first, double(place.value())), end = std::min(end, double(place.value()) + 1);
      else if (c->is_constant(1))
        first = std::max(first, 1 - double(rest.value()));
      else
        end = std::min(end, double(rest.value()));
    }
    double share = 1;
    for (Expr condition : conditions)
      if (const auto turns = remainder_of(condition); turns && turns->second <= most_parts) {
        const auto rounds = std::min(turns->second, int64_t(largest(turns->first)) + 1); // a short axis
        int64_t some = 0;
        for (int64_t r = 0; r < rounds; r++)
          some += prove(substitute(condition, {{turns->first, Expr(r)}})) != Truth::no;
        share = std::min(share, double(some) / double(rounds));
      }
    for (auto& [axis, part] : parts) {
      const double length = part.second - part.first;
      if (axis == demand.innermost && length < fewest_lanes) continue;
      share = std::min(share, length / (largest(axis) + 1));
    }
    return share < least ? 1 : share;
  }
  static Expr replace_axes(Expr e, const ExprMap<Expr>& replace) {
    try {
      return substitute(e, replace);
    } catch (const Error&) {
      return e; // a predicate makes the index meaningless there; the demand stays its own
    }
  }

  void pass_on(NodeId id, const Demand& demand) {
    const Node& node = f_[id];
    switch (node.kind) {
    case NodeKind::view: {
      const auto& view = std::get<ViewAttr>(node.attr);
      Demand inner = demand;
      inner.index = through(node.type().shape, view.map, demand.index);
      if (demand.in_pieces && !view.predicate.is_constant(1))
        inner.share *= share_of(through(node.type().shape, {view.predicate}, demand.index)[0], demand);
      ask(node.inputs[0], id, inner);
      ask_holes(id, node.type().shape, view.holes, demand);
      return;
    }
    case NodeKind::scatter: {
      const auto& scatter = std::get<ScatterAttr>(node.attr);
      ask(node.inputs[1], id, demand);
      ask_holes(id, f_[node.inputs[1]].type().shape, scatter.holes, demand);
      return;
    }
    case NodeKind::get: ask(node.inputs[0], id, demand); return; // handled by the tuple
    default:
      for (NodeId input : node.inputs) {
        Demand inner = demand;
        if (changes_width(f_, node) && !inner.index.empty()) { // the element in which this one's bytes begin
          int from = bits(f_[input].type().dtype), to = bits(node.type().dtype);
          Expr& last = inner.index.back();
          last = to < from ? floordiv(last, from / to) : last * (to / from);
        }
        ask(input, id, inner);
      }
    }
  }

  void ask_holes(NodeId id, const Shape& shape, const std::vector<Hole>& holes, const Demand& demand) {
    (void)shape;
    for (const Hole& hole : holes) {
      Demand inner = demand;
      inner.index.clear();
      for (int axis : hole.axes) inner.index.push_back(demand.index[size_t(axis)]);
      ask(f_[id].inputs[size_t(hole.input)], id, inner);
    }
  }

  void pass_on_tuple(NodeId id) {
    const Node& node = f_[id];
    if (!is_stage(node)) return;
    const bool fold = node.kind == NodeKind::fold;
    const Shape& space = fold ? std::get<FoldAttr>(node.attr).space : std::get<ScanAttr>(node.attr).space;
    const auto& body_axes =
        fold ? std::get<FoldAttr>(node.attr).body_axes : std::get<ScanAttr>(node.attr).body_axes;
    auto axes = plain_axes(space);
    const Expr innermost =
        !fold || reads_plainly(std::get<FoldAttr>(node.attr), node) ? last_axis(space) : Expr(0);
    const bool apart = fold && passes::has_weighted_sum(std::get<FoldAttr>(node.attr));
    for (size_t c = 0; c < body_axes.size(); c++) {
      Demand demand{
          .stage = id, .at_root = false, .index = {}, .evaluations = count(space), .innermost = innermost};
      for (int axis : body_axes[c]) demand.index.push_back(axes[size_t(axis)]);
      if (apart) demand.evaluations = count(f_[node.inputs[c]].type().shape);
      ask(node.inputs[c], id, demand);
    }
    if (!fold) return;
    Demand demand{
        .stage = id, .at_root = false, .index = axes, .evaluations = count(space), .innermost = innermost};
    ask_holes(id, space, std::get<FoldAttr>(node.attr).holes, demand);
  }

  double evaluations(NodeId id) const {
    double total = 0;
    auto found = demands_.find(id);
    if (found == demands_.end()) return 0;
    const bool pieces =
        std::ranges::any_of(found->second, [](auto& d) { return d.share < 1; }) && only_maps(id);
    for (const Demand& demand : found->second) total += demand.times() * (pieces ? demand.share : 1);
    return total;
  }

  /// No scan between the value and what is stored, and folds only at places that will be stored
  /// (should_store_result): a kernel of maps alone is cut into pieces.
  bool only_maps(NodeId id) const {
    std::set<NodeId> seen{id};
    for (std::vector<NodeId> stack{id}; !stack.empty();) {
      const NodeId at = stack.back();
      stack.pop_back();
      if (is_leaf(at) || (at != id && stored_.contains(at))) continue;
      if (at != id && f_[at].kind == NodeKind::get && f_[f_[at].inputs[0]].kind == NodeKind::fold) continue;
      if (f_[at].kind != NodeKind::map && !is_free(f_[at])) return false;
      for (NodeId input : f_[at].inputs)
        if (seen.insert(input).second) stack.push_back(input);
    }
    return true;
  }

  bool should_store(NodeId id) {
    const Node& node = f_[id];
    // What is read again and again as a narrower type is stored as that.
    const bool narrows = node.kind == NodeKind::cast && bits(node.type().dtype) <= 16 &&
                         bits(node.type().dtype) < bits(f_[node.inputs[0]].type().dtype);
    if (gathers(node)) return evaluations(id) > count(node.type().shape) * 4;
    if (is_free(node) && !narrows) return false;
    if (node.kind == NodeKind::get) return should_store_result(id);
    if (finished_.contains(id) && !read_as_it_lies(id)) return true;
    const double elements = count(node.type().shape);
    const bool shared = kernels_of_[id].size() > 1 || evaluations(id) > elements * 1.001;
    if (!shared) return false;
    if (static_.contains(id))
      return false; // a dequantised weight stays packed in memory; what is worth it was computed at load
    return !stays_in_rows(id);
  }

  /// Each element is found by an index of its own: two reads that wait for each other.
  static bool gathers(const Node& node) {
    const auto* view = std::get_if<ViewAttr>(&node.attr);
    const int last = view ? int(view->shape.size()) - 1 : -1;
    return view && std::ranges::any_of(view->holes, [&](const Hole& hole) {
             return std::ranges::find(hole.axes, last) != hole.axes.end();
           });
  }

  /// A map of which stages of one kernel want an element a row, or that they read along the same
  /// rows: those stages walk a row after each other, so it is computed again or kept for one row,
  /// and never fills memory as a whole.
  bool stays_in_rows(NodeId id) const {
    constexpr size_t most_readers = 4;
    const Node& node = f_[id];
    auto found = demands_.find(id);
    if (node.kind != NodeKind::map || found == demands_.end()) return false;
    if (found->second.size() > most_readers || kernels_of_.at(id).size() != 1) return false;
    return std::ranges::all_of(found->second, [&](const Demand& demand) {
      return once_a_row(demand, node.type().shape) || along_rows(demand, node.type());
    });
  }

  /// As the mean of each row is, by the stage that sums the squares of differences from it.
  static bool once_a_row(const Demand& demand, const Shape& shape) {
    return demand.times() < demand.evaluations && demand.times() <= count(shape) * 1.001;
  }

  bool along_rows(const Demand& demand, const TensorType& type) const {
    constexpr double largest_row = 256 << 10; // bytes: a cache of one core holds it
    const Shape& shape = type.shape;
    if (shape.size() < 2 || demand.index != plain_axes(shape)) return false;
    if (largest(shape.back()) * bits(type.dtype) / 8 > largest_row) return false;
    if (demand.at_root) return demand.evaluations <= count(shape) * 1.001;
    const Node& stage = f_[demand.stage];
    if (stage.kind != NodeKind::fold) return false;
    const auto& fold = std::get<FoldAttr>(stage.attr);
    return fold.space.size() == shape.size() && fold.reduced == std::vector<int>{int(shape.size()) - 1};
  }

  /// A fold's result stays inside a kernel as its epilogue's operand, or as a statistic of rows
  /// that the kernel walks anyway.
  bool should_store_result(NodeId id) {
    const Node& tuple = f_[f_[id].inputs[0]];
    if (kernels_of_[id].size() != 1) return true;
    if (tuple.kind == NodeKind::scan)
      return !(demands_[id].size() == 1 && demands_[id][0].at_root && plain(demands_[id][0].index));
    const auto& fold = std::get<FoldAttr>(tuple.attr);
    // It returns to plain folds, each over its own axes, tile by tile of what is summed
    // (choose/choose_cascade.cpp).
    if (passes::has_weighted_sum(fold)) return should_store_results(f_[id].inputs[0]);
    const double space = count(fold.space), elements = count(f_[id].type().shape);
    // A sum of a few elements (a step of a dot instruction) that is asked for once is a part of its
    // reader.
    constexpr double few = 32;
    if (space <= few * elements && demands_[id].size() == 1 && plain(demands_[id][0].index) &&
        demands_[id][0].evaluations <= elements * 1.001 && fold.holes.empty())
      return false;
    for (const Demand& demand : demands_[id]) {
      if (!plain(demand.index)) return true;
      const auto* reader = std::get_if<FoldAttr>(&f_[demand.stage].attr);
      if (!demand.at_root && reader && passes::has_weighted_sum(*reader) &&
          demand.evaluations <= elements * 1.001 && moves_with_rows(demand, *reader))
        continue;
      const bool epilogue = demand.at_root && demand.evaluations <= elements * 1.001;
      const bool statistic = space <= demand.evaluations * 1.001 && reads_plainly(fold, tuple);
      if (!epilogue && !statistic) return true;
    }
    return false;
  }

  /// Has each row of a fold over tiles elements of its own, as it has scores? What all rows share
  /// (the values that are summed) would be computed again for each tile of them.
  static bool moves_with_rows(const Demand& demand, const FoldAttr& fold) {
    std::vector<int> rows = result_axes(fold, 0);
    for (size_t c = 1; c < fold.body_axes.size(); c++) {
      const std::vector<int> axes = result_axes(fold, int(c));
      std::erase_if(rows, [&](int a) { return !std::ranges::binary_search(axes, a); });
    }
    return std::ranges::all_of(rows, [&](int a) {
      const Expr row = axis_symbol(a, fold.space[size_t(a)]);
      return !row.is_symbol() || std::ranges::find(demand.index, row) != demand.index.end();
    });
  }

  bool read_as_it_lies(NodeId id) const {
    const auto found = demands_.find(id);
    return found == demands_.end() || std::ranges::all_of(found->second, [&](const Demand& demand) {
             return demand.at_root && plain(demand.index) &&
                    demand.evaluations <= count(f_[id].type().shape) * 1.001;
           });
  }

  /// Results of one fold over tiles are stored together, or are all operands of one epilogue.
  bool should_store_results(NodeId tuple) const {
    std::set<NodeId> kernels;
    double widest = 0;
    std::vector<NodeId> results;
    for (NodeId id : nodes_)
      if (f_[id].kind == NodeKind::get && f_[id].inputs[0] == tuple) {
        results.push_back(id);
        widest = std::max(widest, count(f_[id].type().shape));
      }
    for (NodeId id : results) {
      if (stored_.contains(id)) return true;
      if (auto found = kernels_of_.find(id); found != kernels_of_.end())
        kernels.insert(found->second.begin(), found->second.end());
      if (auto found = demands_.find(id); found != demands_.end())
        for (const Demand& demand : found->second)
          if (!demand.at_root || !plain(demand.index) || demand.evaluations > widest * 1.001) return true;
    }
    return kernels.size() != 1;
  }

  /// Every body reads as many elements as it has points: a row statistic, not a product of
  /// matrices, which reads each element of its operands again and again.
  bool reads_plainly(const FoldAttr& fold, const Node& tuple) const {
    for (size_t c = 0; c < fold.body_axes.size(); c++)
      if (!f_[tuple.inputs[c]].type().shape.empty() && read_by(tuple.inputs[c]) < count(fold.space) * 0.999)
        return false;
    return true;
  }
  /// Elements of the largest operand below maps and views.
  double read_by(NodeId id) const {
    double most = 0;
    std::set<NodeId> seen{id};
    for (std::vector<NodeId> stack{id}; !stack.empty();) {
      const NodeId at = stack.back();
      stack.pop_back();
      const Node& node = f_[at];
      const bool through =
          node.kind == NodeKind::view || node.kind == NodeKind::map || node.kind == NodeKind::cast;
      if (is_leaf(at) || !through)
        most = std::max(most, count(node.type().shape));
      else
        for (NodeId input : node.inputs)
          if (seen.insert(input).second) stack.push_back(input);
    }
    return most;
  }

  Fusion kernels() {
    Fusion fusion;
    fusion.stored = stored_;
    std::map<NodeId, std::vector<NodeId>> by_fold; // stored results of one fold are one kernel
    for (NodeId id : nodes_) {
      const Node& node = f_[id];
      if (is_leaf(id)) continue;
      if (kernel::is_kernel_boundary(node) && node.kind != NodeKind::scatter) {
        fusion.boundaries.push_back(id);
        continue;
      }
      if (!stored_.contains(id) ||
          (node.kind == NodeKind::get && kernel::is_kernel_boundary(f_[node.inputs[0]])))
        continue;
      if (node.kind == NodeKind::get) {
        auto [it, fresh] = by_fold.try_emplace(node.inputs[0]);
        it->second.push_back(id);
        continue;
      }
      fusion.kernels.push_back({id});
    }
    for (auto& [_, roots] : by_fold) fusion.kernels.push_back(roots);
    std::sort(fusion.kernels.begin(), fusion.kernels.end(),
              [](const auto& a, const auto& b) { return a.back() < b.back(); });
    return fusion;
  }

  const Region& region_;
  const Function& f_;
  std::vector<NodeId> nodes_;
  std::set<NodeId> stored_, static_, finished_;
  std::unordered_map<NodeId, std::vector<Demand>> demands_;
  std::unordered_map<NodeId, std::set<NodeId>> kernels_of_; // roots whose kernels evaluate the node
  std::map<NodeId, double> operations_;                     // of a kernel so far, by its root
};

bool has_work(const Function& f, NodeId id, const std::set<NodeId>& leaves, std::set<NodeId>& seen) {
  if (leaves.contains(id) || !seen.insert(id).second) return false;
  const Node& node = f[id];
  if (is_stage(node) || node.kind == NodeKind::random || node.kind == NodeKind::scatter) return true;
  if (node.kind == NodeKind::map && row(std::get<MapAttr>(node.attr).op).ulp > 0.5) return true;
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

} // namespace

std::vector<NodeId> needed_nodes(const Region& region) {
  std::vector<bool> seen(region.function->nodes.size());
  std::vector<NodeId> stack = region.wanted, needed;
  while (!stack.empty()) {
    NodeId id = stack.back();
    stack.pop_back();
    if (seen[id]) continue;
    seen[id] = true;
    needed.push_back(id);
    if (region.given.contains(id)) continue;
    for (NodeId input : (*region.function)[id].inputs) stack.push_back(input);
  }
  std::ranges::sort(needed);
  return needed;
}

Fusion fuse(const Region& region) { return Fuser(region).run(); }

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
    bool is_static = !kernel::is_kernel_boundary(node) || node.kind == NodeKind::scatter || fence;
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
    while (f[value].kind == NodeKind::view && std::get<ViewAttr>(f[value].attr).holes.empty())
      value = f[value].inputs[0];
    const Node& node = f[value];
    if (node.is_tuple() || node.kind == NodeKind::fence || is_free(node) || node.kind == NodeKind::input ||
        done.contains(value))
      continue;
    const double size = bytes(node.type());
    const bool table = source[value].empty();
    const double made_from = bytes_read(f, source[value]);
    std::set<NodeId> seen;
    if (table ? size > largest_table || !has_work(f, value, region.given, seen) : size > made_from * 1.001)
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

StepFusion fuse_step(const Function& f) {
  StepFusion known;
  known.step.function = &f;
  known.step.given.insert(f.params.begin(), f.params.end());
  for (const auto& result : f.results) known.step.wanted.push_back(result.value);
  known.load_values = load_time_values(known.step);
  known.step.given.insert(known.load_values.begin(), known.load_values.end());
  known.fusion = fuse(known.step);
  return known;
}

void KernelGraph::add_edge(int from, int to) {
  LUMINAL_CHECK(from != to && !reaches(to, from), "edge {} -> {} closes a cycle", from, to);
  const size_t n = reach_.size();
  for (size_t a = 0; a < n; a++) {
    if (a != size_t(from) && !reach_[a][size_t(from)]) continue;
    reach_[a][size_t(to)] = true;
    for (size_t b = 0; b < n; b++)
      if (reach_[size_t(to)][b]) reach_[a][b] = true;
  }
}

bool KernelGraph::merge(int a, int b) {
  if (a == b || !alive(a) || !alive(b) || reaches(a, b) || reaches(b, a)) return false;
  const size_t n = reach_.size();
  std::vector<bool> after(n), before(n);
  for (size_t k = 0; k < n; k++) {
    after[k] = reach_[size_t(a)][k] || reach_[size_t(b)][k];
    before[k] = reach_[k][size_t(a)] || reach_[k][size_t(b)];
  }
  for (size_t k = 0; k < n; k++)
    if (before[k] || k == size_t(a)) {
      if (before[k]) reach_[k][size_t(a)] = true;
      for (size_t m = 0; m < n; m++)
        if (after[m]) reach_[k][m] = true;
    }
  for (size_t k = 0; k < n; k++) reach_[k][size_t(b)] = reach_[size_t(b)][k] = false;
  alive_[size_t(b)] = false;
  auto& into = members_[size_t(a)];
  into.insert(into.end(), members_[size_t(b)].begin(), members_[size_t(b)].end());
  return true;
}

} // namespace luminal::compile
