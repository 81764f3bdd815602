// compile/axis_order.cpp -- the choice of an order of axes for stored values, by the elements that would be
// copied for their places.
#include "compile/axis_order.h"
#include "base/contains.h"
#include "compile/pass_list.h"
#include "ir/most_bytes.h"
#include "ir/passes/edit.h"
#include <algorithm>
#include <numeric>
#include <optional>

namespace luminal::compile {
namespace {

using passes::is_elementwise;
using Order = std::vector<int>;

constexpr double worth = 3.0 / 4;     // of the elements copied before
constexpr double transposed = 2;      // what an element costs that lies neither along a sum nor along lanes
constexpr int64_t register_run = 16;  // elements that a plain sum reads together
constexpr int64_t nearest_lanes = 4;  // elements from lane to lane that one load still covers
constexpr size_t most_operands = 256; // of one reader
constexpr int most_rounds = 8;

/// The fold of one component that a `get` reads; null for others.
const FoldAttr* plain_fold(const Function& f, const Node& node) {
  if (node.kind != NodeKind::get) return nullptr;
  const auto* fold = std::get_if<FoldAttr>(&f[node.inputs[0]].attr);
  return fold && fold->monoid.size() == 1 && fold->holes.empty() ? fold : nullptr;
}

/// How many numbers the words have of which dot instructions sum the products of this fold; 0: of none.
int64_t numbers_a_word(const Function& f, const Node& fold) {
  const auto& attr = std::get<FoldAttr>(fold.attr);
  const DType type = f[fold.inputs[0]].type().dtype;
  if ((type != DType::f32 && type != DType::i32) || attr.monoid != Monoid::plain(Op::add, type)) return 0;
  const auto behind_views = [&](NodeId id) -> const Node& {
    while (f[id].kind == NodeKind::view) id = f[id].inputs[0];
    return f[id];
  };
  const Node& body = behind_views(fold.inputs[0]);
  const auto* map = std::get_if<MapAttr>(&body.attr);
  if (!map || map->op != Op::mul || !map->user_op.empty()) return 0;
  int64_t numbers = 0;
  for (NodeId in : body.inputs) {
    const Node& factor = behind_views(in);
    const DType from = factor.kind == NodeKind::cast ? f[factor.inputs[0]].type().dtype : DType::f32;
    if (from != DType::bf16 && from != DType::i8 && from != DType::u8) return 0;
    numbers = 32 / bits(from);
  }
  return numbers;
}

/// Values that lie in one order: results of a sum and what maps make of them.
struct ValueGroup {
  Shape shape;
  bool has_fold = false, fixed = false;
  bool of_inputs = true;   ///< maps of inputs and constants alone, which readers compute for themselves
  bool read_apart = false; ///< by others than the folds whose bodies it is
  std::vector<NodeId> members;
  std::vector<size_t> reads;  ///< that depend on its order
  std::vector<Order> choices; ///< as it is first
  size_t wish = 0;            ///< the choice of those who read it in words
};

/// A reader's operand, down to what is stored.
struct Read {
  std::optional<size_t> root, reader; ///< groups; others lie as they are
  Shape root_shape;
  std::vector<Expr> map;   ///< of each axis of the root its place, over the reader's axes
  Shape space;             ///< the reader's axes
  std::vector<int> kept;   ///< of each axis of the reader's result its axis in `space`
  std::vector<int> summed; ///< the reader's other axes
  double elements = 0;
  int64_t words = 0; ///< how many numbers a dot instruction takes at once; 0: another reader
};

class AxisOrderChoice {
public:
  explicit AxisOrderChoice(const Function& f) : f_(f), group_of_(f.nodes.size()) {}

  AxisOrders run() {
    if (!std::ranges::any_of(f_.nodes, [&](const Node& node) {
          return node.kind == NodeKind::fold && numbers_a_word(f_, node) > 0;
        }))
      return {};
    find_groups();
    find_reads();
    if (too_many_) return {};
    find_choices();
    if (std::ranges::all_of(groups_, [](const ValueGroup& group) { return group.choices.size() == 1; }))
      return {};
    const std::vector<Order> present = natural();
    std::vector<Order> best = descend(present), wished = descend(as_words_are_read());
    if (total(wished) < total(best)) best = std::move(wished);
    if (total(best) > worth * total(present)) return {};
    AxisOrders orders;
    for (size_t g = 0; g < groups_.size(); g++)
      if (best[g] != present[g])
        for (NodeId id : groups_[g].members) orders[id] = best[g];
    return orders;
  }

private:
  // ---- groups ----
  void find_groups() {
    for (NodeId id : f_.nodes.ids()) {
      const Node& node = f_[id];
      const bool folds = plain_fold(f_, node) != nullptr;
      if (!is_elementwise(node) && !folds) continue;
      std::optional<size_t> own;
      for (NodeId in : node.inputs)
        if (!folds && group_of_[in] && groups_[*group_of_[in]].shape == node.type().shape)
          own = own ? merged(*own, *group_of_[in]) : *group_of_[in];
      if (!own) {
        own = groups_.size();
        groups_.push_back({.shape = node.type().shape});
      }
      group_of_[id] = own;
      ValueGroup& group = groups_[*own];
      group.members.push_back(id);
      group.has_fold |= folds;
    }
    // Who reads a value, directly or through views: folds alone?
    IdVector<NodeId, bool> apart(f_.nodes.size(), false);
    for (const FunctionResult& result : f_.results) apart[result.value] = true;
    for (size_t i = f_.nodes.size(); i-- > 0;) {
      const NodeId id(i);
      const bool as_body = f_[id].kind == NodeKind::fold || (f_[id].kind == NodeKind::view && !apart[id]);
      for (NodeId in : f_[id].inputs)
        if (!group_of_[id] || group_of_[id] != group_of_[in]) apart[in] = apart[in] || !as_body;
    }
    IdVector<NodeId, bool> of_inputs(f_.nodes.size(), true);
    for (NodeId id : f_.nodes.ids()) {
      const Node& node = f_[id];
      of_inputs[id] =
          node.inputs.empty() || ((is_elementwise(node) || node.kind == NodeKind::view) &&
                                  std::ranges::all_of(node.inputs, [&](NodeId in) { return of_inputs[in]; }));
      if (!group_of_[id]) continue;
      ValueGroup& group = groups_[*group_of_[id]];
      group.read_apart |= apart[id];
      group.of_inputs &= of_inputs[id];
    }
  }
  size_t merged(size_t into, size_t from) {
    if (into == from) return into;
    ValueGroup &a = groups_[into], &b = groups_[from];
    for (NodeId id : b.members) group_of_[id] = into;
    a.members.insert(a.members.end(), b.members.begin(), b.members.end());
    a.has_fold |= b.has_fold;
    b = {};
    return into;
  }
  /// Computed where it is read, and stored nowhere.
  bool is_interior(const ValueGroup& group) const {
    return !group.has_fold && (!group.read_apart || group.of_inputs);
  }

  // ---- reads ----
  void find_reads() {
    for (NodeId id : f_.nodes.ids()) {
      const Node& node = f_[id];
      if (const FoldAttr* fold = plain_fold(f_, node)) {
        read_bodies(f_[node.inputs[0]], *fold, group_of_[id]);
      } else if (const auto* tuple = std::get_if<FoldAttr>(&node.attr)) {
        if (tuple->monoid.size() != 1 || !tuple->holes.empty()) read_bodies(node, *tuple, {});
      } else if (is_elementwise(node)) {
        if (is_interior(groups_[*group_of_[id]])) continue;
        for (NodeId in : node.inputs)
          if (group_of_[in] != group_of_[id]) read_whole(in, group_of_[id]);
      } else if (node.kind != NodeKind::view && node.kind != NodeKind::get) {
        for (NodeId in : node.inputs) read_whole(in, {});
      }
      if (!holes_of(node.attr).empty()) // which elements are read, nobody knows
        for (NodeId in : node.inputs) hold(in);
    }
    for (const FunctionResult& result : f_.results) read_whole(result.value, {});
    for (size_t i = 0; i < reads_.size(); i++)
      for (const auto& group : {reads_[i].root, reads_[i].reader})
        if (group && !contains(groups_[*group].reads, i)) groups_[*group].reads.push_back(i);
  }
  void hold(NodeId id) {
    while (f_[id].kind == NodeKind::view) id = f_[id].inputs[0];
    if (group_of_[id]) groups_[*group_of_[id]].fixed = true;
  }
  void read_bodies(const Node& node, const FoldAttr& fold, std::optional<size_t> reader) {
    for (size_t c = 0; c < fold.body_axes.size(); c++) {
      Read read{.reader = reader,
                .space = fold.space,
                .kept = result_axes(fold, int(c)),
                .summed = fold.reduced,
                .words = numbers_a_word(f_, node)};
      std::vector<Expr> map;
      for (int axis : fold.body_axes[c]) map.push_back(axis_symbol(axis, fold.space[size_t(axis)]));
      operands(node.inputs[c], map, read);
    }
  }
  /// Element by element.
  void read_whole(NodeId id, std::optional<size_t> reader) {
    const Shape& shape = f_[id].type().shape;
    Read read{.reader = reader, .space = shape};
    std::vector<Expr> map;
    for (size_t d = 0; d < shape.size(); d++) {
      map.push_back(axis_symbol(int(d), shape[d]));
      read.kept.push_back(int(d));
    }
    operands(id, map, read);
  }
  void operands(NodeId id, const std::vector<Expr>& map, const Read& like) {
    visits_ = 0;
    operands_of(id, map, like);
    too_many_ |= visits_ > most_operands;
  }
  void operands_of(NodeId id, const std::vector<Expr>& map, const Read& like) {
    const Node& node = f_[id];
    if (node.types.size() != 1 || map.empty() || ++visits_ > most_operands) return;
    const auto group = group_of_[id];
    if (group && !is_interior(groups_[*group])) {
      if (group != like.reader) add(group, node, map, like);
      return;
    }
    if (group) {
      for (NodeId in : node.inputs) operands_of(in, map, like);
    } else if (const auto* view = std::get_if<ViewAttr>(&node.attr)) {
      if (!view->holes.empty()) return;
      ExprMap<Expr> places;
      for (size_t d = 0; d < map.size(); d++)
        if (const Expr axis = axis_symbol(int(d), view->shape[d]); axis.is_symbol()) places[axis] = map[d];
      std::vector<Expr> below;
      for (Expr e : view->map) below.push_back(substitute(e, places));
      operands_of(node.inputs[0], below, like);
    } else if (node.kind != NodeKind::iota && !is_known_at_load(node)) {
      add({}, node, map, like);
    }
  }
  static bool is_known_at_load(const Node& node) {
    const auto* input = std::get_if<InputAttr>(&node.attr);
    return node.kind == NodeKind::constant || (input && input->role == Role::weight);
  }
  void add(std::optional<size_t> root, const Node& node, const std::vector<Expr>& map, const Read& like) {
    Read read = like;
    read.root = root;
    read.root_shape = node.type().shape;
    read.map = map;
    read.elements = count(node.type());
    reads_.push_back(std::move(read));
  }
  static double count(const TensorType& type) { return most_bytes(type) * 8 / bits(type.dtype); }

  // ---- costs ----
  static Order in_order(const Shape& shape) {
    Order order(shape.size());
    std::iota(order.begin(), order.end(), 0);
    return order;
  }
  /// The innermost axis with more than one element; -1: none.
  static int innermost(const Shape& shape, const Order& order) {
    for (size_t k = order.size(); k-- > 0;)
      if (!shape[size_t(order[k])].is_constant(1)) return order[k];
    return -1;
  }
  /// Do words of numbers that follow each other along the summed axis lie along an axis of the operand?
  static bool in_words(const Read& read, int axis_of_root, int summed) {
    const Expr extent = read.space[size_t(summed)], symbol = axis_symbol(summed, extent),
               place = read.map[size_t(axis_of_root)];
    if (!symbol.is_symbol() || extent.multiple() % read.words != 0) return false;
    const auto c = coefficient_of(place, symbol);
    return c && c->is_constant(1) && (place - symbol).multiple() % read.words == 0;
  }
  /// Elements that the reader copies for their places.
  double cost(const Read& read, const std::vector<Order>& orders) const {
    const int inner = innermost(read.root_shape, read.root ? orders[*read.root] : in_order(read.root_shape));
    Shape results;
    for (int axis : read.kept) results.push_back(read.space[size_t(axis)]);
    const int last = innermost(results, read.reader ? orders[*read.reader] : in_order(results));
    if (inner < 0) return 0;
    const Expr place = read.map[size_t(inner)];
    const auto step = [&](int axis) -> int64_t { // along the innermost axis of the operand
      const Expr symbol = axis_symbol(axis, read.space[size_t(axis)]);
      const auto c = symbol.is_symbol() ? coefficient_of(place, symbol) : std::nullopt;
      return c && c->is_constant() ? c->value() : 0;
    };
    const auto is_long = [&](int axis) { // a summed axis along which elements follow each other
      const Expr extent = read.space[size_t(axis)];
      return step(axis) == 1 && (!extent.is_constant() || extent.value() >= register_run);
    };
    const bool varies = last >= 0 && std::ranges::any_of(read.map, [&](Expr e) {
                          const int axis = read.kept[size_t(last)];
                          const Expr symbol = axis_symbol(axis, read.space[size_t(axis)]);
                          return symbol.is_symbol() && depends_on(e, symbol);
                        });
    const int64_t lanes = last < 0 ? 0 : std::abs(step(read.kept[size_t(last)]));
    const bool in_lanes = lanes > 0 && lanes <= nearest_lanes;
    if (read.words > 0) {
      const bool along_sum =
          std::ranges::any_of(read.summed, [&](int axis) { return in_words(read, inner, axis); });
      if (along_sum && !varies) return 0;
      return along_sum || !varies || in_lanes ? read.elements : transposed * read.elements;
    }
    if (!varies || std::ranges::any_of(read.summed, is_long)) return 0;
    return in_lanes ? 0 : read.elements;
  }
  double total(const std::vector<Order>& orders) const {
    double sum = 0;
    for (const Read& read : reads_) sum += cost(read, orders);
    return sum;
  }
  double around(const ValueGroup& group, const std::vector<Order>& orders) const {
    double sum = 0;
    for (size_t i : group.reads) sum += cost(reads_[i], orders);
    return sum;
  }

  // ---- the choice ----
  /// Do windows go along the axis? Their rows stay in the order of the images.
  bool has_windows(size_t g, int axis) const {
    return std::ranges::any_of(groups_[g].reads, [&](size_t i) {
      const Read& read = reads_[i];
      const auto depends = [&](Expr e) {
        return [&, e](int a) {
          const Expr symbol = axis_symbol(a, read.space[size_t(a)]);
          return symbol.is_symbol() && depends_on(e, symbol);
        };
      };
      const auto is_window = [&](Expr e) {
        return std::ranges::any_of(read.summed, depends(e)) && std::ranges::any_of(read.kept, depends(e));
      };
      if (read.root == g && is_window(read.map[size_t(axis)])) return true;
      return read.reader == g && std::ranges::any_of(read.map, [&](Expr e) {
               return is_window(e) && depends(e)(read.kept[size_t(axis)]);
             });
    });
  }
  /// Of each axis the elements that are read in words along it.
  std::vector<double> wishes(size_t g) const {
    std::vector<double> elements(groups_[g].shape.size());
    for (size_t i : groups_[g].reads)
      if (const Read& read = reads_[i]; read.words > 0 && read.root == g)
        for (size_t d = 0; d < read.map.size(); d++)
          if (std::ranges::any_of(read.summed, [&](int axis) { return in_words(read, int(d), axis); }))
            elements[d] += read.elements;
    return elements;
  }
  /// Another axis may stand innermost where words are read along it, or where windows go along the one there.
  void find_choices() {
    for (size_t g = 0; g < groups_.size(); g++) {
      ValueGroup& group = groups_[g];
      group.choices = {in_order(group.shape)};
      const int last = innermost(group.shape, group.choices[0]);
      if (group.fixed || last < 0 || is_interior(group)) continue;
      const std::vector<double> wished = wishes(g);
      const bool windows = has_windows(g, last);
      double most = wished[size_t(last)];
      for (int axis = last; axis-- > 0;) {
        if (group.shape[size_t(axis)].is_constant(1) || has_windows(g, axis)) continue;
        if (wished[size_t(axis)] == 0 && !windows) continue;
        Order order = in_order(group.shape);
        order.erase(order.begin() + axis);
        order.push_back(axis);
        if (wished[size_t(axis)] > most) most = wished[size_t(axis)], group.wish = group.choices.size();
        group.choices.push_back(std::move(order));
      }
    }
  }
  std::vector<Order> natural() const {
    std::vector<Order> orders;
    for (const ValueGroup& group : groups_) orders.push_back(group.choices[0]);
    return orders;
  }
  /// Each group with that axis innermost along which most of its elements are read in words.
  std::vector<Order> as_words_are_read() const {
    std::vector<Order> orders;
    for (const ValueGroup& group : groups_) orders.push_back(group.choices[group.wish]);
    return orders;
  }
  /// One group after the other in the best order beside the others.
  std::vector<Order> descend(std::vector<Order> orders) const {
    bool changed = true;
    for (int round = 0; changed && round < most_rounds; round++) {
      changed = false;
      for (size_t g = 0; g < groups_.size(); g++) {
        double least = around(groups_[g], orders);
        const Order before = orders[g];
        Order best = before;
        for (const Order& order : groups_[g].choices) {
          orders[g] = order;
          if (const double now = around(groups_[g], orders); now < least) least = now, best = order;
        }
        changed |= best != before;
        orders[g] = std::move(best);
      }
    }
    return orders;
  }

  const Function& f_;
  IdVector<NodeId, std::optional<size_t>> group_of_;
  std::vector<ValueGroup> groups_;
  std::vector<Read> reads_;
  size_t visits_ = 0;
  bool too_many_ = false;
};

} // namespace

AxisOrders better_axis_orders(const Function& function) { return AxisOrderChoice(function).run(); }

Function with_axis_orders(const Module& module, const Function& function, const AxisOrders& orders) {
  Function copy = function;
  std::map<NodeId, NodeId> ordered; // a value through a view -> as it is stored
  passes::Rebuild::walk(copy, &module, [&](passes::Rebuild& r, Node node) -> NodeId {
    const auto found = orders.find(r.current());
    if (found == orders.end()) {
      if (node.kind == NodeKind::view)
        if (const auto simpler = passes::view_rule(r, node, Numerics::exact)) return *simpler;
      return r.put(std::move(node));
    }
    const Order& order = found->second;
    const Shape shape = node.type().shape;
    ViewAttr there{.shape = {}}, back{.shape = shape}; // from and to the axes as the function has them
    Order places(order.size());
    for (size_t k = 0; k < order.size(); k++) {
      const auto d = size_t(order[k]);
      places[d] = int(k);
      there.shape.push_back(shape[d]);
      back.map.push_back(axis_symbol(int(d), shape[d]));
    }
    for (size_t d = 0; d < shape.size(); d++) there.map.push_back(axis_symbol(places[d], shape[d]));
    std::optional<NodeId> stored;
    if (node.kind == NodeKind::get) {
      stored = passes::fold_in_order(r, node.inputs[0], places, /*kept_first=*/true);
    } else {
      Node made = node;
      made.types = {{node.type().dtype, there.shape}};
      for (NodeId& in : made.inputs)
        in = ordered.contains(in) ? ordered.at(in) : *passes::viewed(r, in, there);
      stored = r.put(std::move(made));
    }
    if (!stored) return r.put(std::move(node));
    const NodeId read = *r.add(std::move(back), {*stored});
    ordered[read] = *stored;
    return read;
  });
  passes::sweep(copy);
  return copy;
}

Result<void> order_axes(PlanState& state, FunctionPlan& f) {
  if (f.role == FunctionRole::check) return {};
  if (const AxisOrders orders = better_axis_orders(*f.function); !orders.empty())
    f.function = &state.keep(with_axis_orders(state.module, *f.function, orders));
  return {};
}

} // namespace luminal::compile
