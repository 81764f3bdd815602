// compile/fuse.cpp -- the stored set by counting evaluations, and the kernels that follow from it.
#include "compile/fuse.h"
#include "compile/fuse_demand.h"
#include "compile/fuse_points.h"
#include <algorithm>
#include <map>
#include <unordered_map>

namespace luminal::compile {
namespace {

bool changes_width(const Function& f, const Node& node) {
  return node.kind == NodeKind::bitcast && bits(node.type().dtype) != bits(f[node.inputs[0]].type().dtype);
}

class Fuser {
public:
  Fuser(const Region& region, const Boundaries* boundaries)
      : region_(region), f_(*region.function), nodes_(needed_nodes(region)) {
    if (boundaries && !boundaries->empty()) boundaries_ = boundaries;
  }

  Partition run() {
    find_static();
    find_finished();
    for (NodeId id : nodes_) // steps of their own store what they give
      if (!is_leaf(id) && (f_[id].kind == NodeKind::get ? is_own_step(f_[f_[id].inputs[0]])
                                                        : is_own_step(f_[id]) && !f_[id].is_tuple()))
        stored_.insert(id);
    for (const auto& [id, why] : required_values(region_)) stored_.insert(id);
    if (boundaries_) take_decided();
    share_points();
    // From users to producers: every kernel that reads a value is known when its turn comes.
    for (auto it = nodes_.rbegin(); it != nodes_.rend(); ++it) decide(*it);
    return kernels();
  }

private:
  struct Product {
    NodeId tuple;
    bool alone; // shares its kernel with no other
  };

  /// Values of the given kernels, by the kernel; it goes by the value (or tuple) of its first one.
  void take_decided() {
    for (const auto& kernel : boundaries_->partition.kernels) {
      NodeId first;
      for (NodeId id : kernel) {
        if (is_leaf(id) || f_[id].is_tuple() || is_own_step(f_[id]) ||
            !std::ranges::binary_search(nodes_, id))
          continue;
        const bool result = f_[id].kind == NodeKind::get;
        if (result && is_own_step(f_[f_[id].inputs[0]])) continue;
        const NodeId own = result ? f_[id].inputs[0] : id;
        if (!first) first = own;
        stored_.insert(id);
        kernel_by_[own] = first;
      }
    }
  }
  /// Results that are made point by point share a kernel. Where they become states, which then lie in
  /// place, that is so whatever was decided; others are left where they are.
  void share_points() {
    std::set<NodeId> states;
    for (const FunctionResult& result : f_.results)
      if (!result.state.empty()) states.insert(result.value);
    const PointGroups found = point_groups(region_);
    for (size_t g = 0; g < found.groups.size(); g++) {
      const std::vector<NodeId>& group = found.groups[g];
      const auto open = [&](NodeId id) { return is_open(id) && !kernel_by_.contains(id); };
      if (!std::ranges::all_of(group, open) &&
          !std::ranges::all_of(group, [&](NodeId id) { return states.contains(id); }))
        continue;
      point_kernels_.insert(group[0]);
      for (const auto& [id, number] : found.members)
        if (number == g) kernel_by_[id] = group[0];
    }
  }
  /// Is the kernel's loop over points alone?
  bool shares_points(NodeId kernel) const { return point_kernels_.contains(kernel); }
  bool is_read_by_points(NodeId id) const {
    const auto found = kernels_of_.find(id);
    return f_[id].kind == NodeKind::get && found != kernels_of_.end() && found->second.size() == 1 &&
           shares_points(*found->second.begin());
  }
  /// What its kernel goes by, where the value is stored.
  NodeId kernel_by(NodeId id) const {
    const NodeId own = f_[id].kind == NodeKind::get ? f_[id].inputs[0] : id;
    const auto found = kernel_by_.find(own);
    return found == kernel_by_.end() ? own : found->second;
  }
  bool is_open(NodeId id) const { return !boundaries_ || !boundaries_->has(id); }

  bool is_leaf(NodeId id) const {
    return region_.given.contains(id) || f_[id].kind == NodeKind::input || is_scalar_constant(id);
  }
  bool is_scalar_constant(NodeId id) const { return f_[id].kind == NodeKind::constant; }

  void find_static() {
    maps_of_memory_.assign(f_.nodes.size(), false);
    for (NodeId id : nodes_) {
      const Node& node = f_[id];
      maps_of_memory_[id] =
          is_leaf(id) || is_own_step(node) ||
          ((node.kind == NodeKind::map || is_free(node)) &&
           std::ranges::all_of(node.inputs, [&](NodeId in) { return maps_of_memory_[in]; }));
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
      if (fold ? goes_in_tiles(*fold)
               : node.kind == NodeKind::map && std::ranges::any_of(node.inputs, finishes))
        finished_.insert(id);
    }
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
    if (!stored_.contains(id) &&
        (is_read_by_points(id) || (is_open(id) && (should_store(id) || overflows(id)))))
      stored_.insert(id);
    if (stored_.contains(id)) {
      if (is_own_step(node) && node.kind != NodeKind::scatter) return; // its inputs are stored
      const Shape& space =
          node.kind == NodeKind::scatter ? f_[node.inputs[1]].type().shape : node.type().shape;
      kernels_of_[id] = {kernel_by(id)}; // results of one fold are one kernel
      demands_[id] = {};
      operations_[*kernels_of_[id].begin()] += operations(node);
      pass_on(id, {.stage = shares_points(kernel_by(id)) ? kernel_by(id)
                                                         : id, // all results ask at the same points
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
    return map.user_op.empty() && !is_long_chain(map.op) ? 1 : 32;
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

  void pass_on(NodeId id, const Demand& demand) {
    const Node& node = f_[id];
    switch (node.kind) {
    case NodeKind::view: {
      const auto& view = std::get<ViewAttr>(node.attr);
      Demand inner = demand;
      inner.index = through(node.type().shape, view.map, demand.index);
      if (demand.in_pieces && !view.predicate.is_constant(1)) {
        const Expr predicate = through(node.type().shape, {view.predicate}, demand.index)[0];
        inner.share *= share_of(predicate, demand);
        if (maps_of_memory_[node.inputs[0]]) index_in_part(inner, predicate);
      }
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
    const bool apart = fold && goes_in_tiles(std::get<FoldAttr>(node.attr));
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
    if (costs_a_read(id)) return false;
    if (static_.contains(id))
      return false; // a dequantised weight stays packed in memory; what is worth it was computed at load
    return !stays_in_rows(id);
  }

  /// It is larger than caches, and made from no more than one value of its size by a few operations: who
  /// reads that value spares a write, and reads no more.
  bool costs_a_read(NodeId id) const {
    constexpr double least_bytes = 4 << 20;
    constexpr double smaller = 1.0 / 8; // of what does not count
    constexpr double most = 80;         // operations, two of them transcendental
    const TensorType& type = f_[id].type();
    const double elements = count(type.shape), size = bytes(type);
    if (f_[id].kind != NodeKind::map || size < least_bytes) return false;
    const auto found = demands_.find(id);
    if (found == demands_.end() || found->second.size() > 4) return false;
    for (const Demand& demand : found->second)
      if (demand.evaluations > elements * 1.001) return false;
    int large = 0;
    double work = 0;
    std::set<NodeId> seen{id};
    for (std::vector<NodeId> stack{id}; !stack.empty();) {
      const NodeId at = stack.back();
      stack.pop_back();
      const Node& node = f_[at];
      if (is_leaf(at) || (node.kind != NodeKind::map && !is_free(node))) {
        large += bytes(node.type()) > size * smaller;
        continue;
      }
      if (gathers(node)) return false;
      work += operations(node);
      for (NodeId input : node.inputs)
        if (!f_[input].is_tuple() && seen.insert(input).second) stack.push_back(input);
    }
    return large <= 1 && work <= most;
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
      return once_a_row(demand, node.type().shape) || along_rows(demand, node.type()) ||
             once_a_column(id, demand);
    });
  }

  /// As the logarithm of the sum of each column is, by the map that subtracts it from all elements of the
  /// column: a fold's result that moves with the last axis of its reader, and not with another one.
  bool once_a_column(NodeId id, const Demand& demand) const {
    const Shape& shape = f_[id].type().shape;
    const bool statistic = std::ranges::any_of(f_[id].inputs, [&](NodeId in) {
      while (f_[in].kind == NodeKind::view && std::get<ViewAttr>(f_[in].attr).holes.empty())
        in = f_[in].inputs[0]; // an axis of one element in the place of the one that is reduced
      const auto* fold =
          f_[in].kind == NodeKind::get ? std::get_if<FoldAttr>(&f_[f_[in].inputs[0]].attr) : nullptr;
      return fold && fold->monoid.size() == 1 && reduces_columns(*fold);
    });
    return statistic && demand.at_root && plain(demand.index) && !shape.empty() &&
           std::ranges::find(demand.index, demand.innermost) != demand.index.end();
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
    return fold.space.size() == shape.size() &&
           (fold.reduced == std::vector<int>{int(shape.size()) - 1} || reduces_columns(fold));
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
    if (goes_in_tiles(fold)) return should_store_results(f_[id].inputs[0]);
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
      if (!demand.at_root && reader && goes_in_tiles(*reader) && demand.evaluations <= elements * 1.001 &&
          moves_with_rows(demand, *reader))
        continue;
      const bool epilogue = demand.at_root && demand.evaluations <= elements * 1.001 && !alone(id, fold) &&
                            !second_product(id, fold);
      const bool statistic = space <= demand.evaluations * 1.001 && reads_plainly(fold, tuple);
      if (!epilogue && !statistic) return true;
    }
    return false;
  }

  /// Sums of few numbers have no rows that one kernel could share with another such sum: each has a kernel
  /// of its own, and they run at the same time. A few short ones are less than a launch.
  bool alone(NodeId id, const FoldAttr& fold) {
    constexpr double few = 64, many = 4096;
    constexpr size_t most = 8;
    if (count(f_[id].type().shape) > few) return false;
    std::set<NodeId>& sums = sums_[*kernels_of_[id].begin()];
    const NodeId tuple = f_[id].inputs[0];
    if (!sums.contains(tuple) && (sums.size() >= most || (!sums.empty() && count(fold.space) >= many)))
      return true;
    sums.insert(tuple);
    return false;
  }

  /// Dot instructions read words that are put together for one product, and panels of windows are laid out
  /// for one: another product of such a kernel has a kernel of its own.
  bool second_product(NodeId id, const FoldAttr& fold) {
    const NodeId tuple = f_[id].inputs[0];
    if (reads_plainly(fold, f_[tuple])) return false;
    const Product product{tuple, !is_float(f_[id].type().dtype) || reads_windows(fold, f_[tuple])};
    const Product first = products_.try_emplace(*kernels_of_[id].begin(), product).first->second;
    return first.tuple != tuple && (first.alone || product.alone);
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
  /// Does a body read places that vary with kept and summed axes at once?
  bool reads_windows(const FoldAttr& fold, const Node& tuple) const {
    const std::vector<Expr> axes = plain_axes(fold.space);
    const auto is_window = [&](Expr e) {
      bool kept = false, summed = false;
      for (size_t a = 0; a < axes.size(); a++)
        if (axes[a].is_symbol() && depends_on(e, axes[a]))
          (std::ranges::binary_search(fold.reduced, int(a)) ? summed : kept) = true;
      return kept && summed;
    };
    for (size_t c = 0; c < fold.body_axes.size(); c++) {
      std::set<NodeId> seen;
      std::vector<Expr> index; // of the node, in the axes of the fold
      for (int axis : fold.body_axes[c]) index.push_back(axes[size_t(axis)]);
      for (std::vector<std::pair<NodeId, std::vector<Expr>>> stack{{tuple.inputs[c], index}};
           !stack.empty();) {
        const auto [id, at] = std::move(stack.back());
        stack.pop_back();
        if (!seen.insert(id).second) continue;
        if (std::ranges::any_of(at, is_window)) return true;
        const Node& node = f_[id];
        if (node.kind == NodeKind::view) {
          const auto& view = std::get<ViewAttr>(node.attr);
          stack.emplace_back(node.inputs[0], through(view.shape, view.map, at));
        } else if (node.kind == NodeKind::map || node.kind == NodeKind::cast) {
          for (NodeId input : node.inputs) stack.emplace_back(input, at);
        }
      }
    }
    return false;
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

  Partition kernels() {
    Partition partition;
    std::map<NodeId, std::vector<NodeId>> by_first; // stored results of one fold are one kernel
    for (NodeId id : nodes_) {
      const Node& node = f_[id];
      if (is_leaf(id) || is_own_step(node) || !stored_.contains(id)) continue;
      if (node.kind != NodeKind::get || !is_own_step(f_[node.inputs[0]]))
        by_first[kernel_by(id)].push_back(id);
    }
    for (auto& [_, roots] : by_first) partition.kernels.push_back(roots);
    std::sort(partition.kernels.begin(), partition.kernels.end(),
              [](const auto& a, const auto& b) { return a.back() < b.back(); });
    return partition;
  }

  const Region& region_;
  const Function& f_;
  std::vector<NodeId> nodes_;
  std::set<NodeId> stored_, static_, finished_;
  IdVector<NodeId, bool> maps_of_memory_; // computed by maps alone from what is stored in any case
  std::unordered_map<NodeId, std::vector<Demand>> demands_;
  std::unordered_map<NodeId, std::set<NodeId>> kernels_of_; // roots whose kernels evaluate the node
  std::map<NodeId, double> operations_;                     // of a kernel so far, by its root
  std::map<NodeId, std::set<NodeId>> sums_;                 // of few numbers in a kernel, by its root
  std::map<NodeId, Product> products_;                      // the first in a kernel, by its root
  const Boundaries* boundaries_ = nullptr;
  std::map<NodeId, NodeId> kernel_by_; // of decided values and tuples, and of results that share points
  std::set<NodeId> point_kernels_;     // by what they go by
};

} // namespace

Partition fuse(const Region& region, const Boundaries* boundaries) { return Fuser(region, boundaries).run(); }

} // namespace luminal::compile
