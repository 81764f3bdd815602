// ir/passes/weighted_sums.cpp -- finds the maximum, the exponentials and the sums, through maps and
// views, and writes the fold of all three.
#include "ir/passes/weighted_sums.h"
#include "ir/passes/edit.h"
#include "ir/scalar.h"
#include "luminal/error.h"
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <map>
#include <optional>
#include <set>

namespace luminal::passes {
namespace {

/// An element of a node, found from the axes of the sum that is looked at.
struct Place {
  NodeId node;
  std::vector<Expr> index;
  bool operator==(const Place&) const = default;
};

/// What leaves the sum, to be applied to it in this order.
struct Outside {
  enum class Kind : uint8_t { times, divided_by, zero_where, zero_unless } kind;
  Place place;
};

struct WeightedSum {
  NodeId maximum;               // the fold
  std::vector<Expr> maximum_at; // where it is read
  Op exponential = Op::exp;     // or exp2
  Place x;                      // without what `where` says
  Expr where = 1;               // the others are -inf
  std::vector<Place> values;    // their product is summed with the weights
  std::vector<Outside> outside;
  std::map<NodeId, std::vector<Expr>> sums; // folds of the weights alone, and where they are read
  std::vector<int> x_axes, value_axes;      // of the sum's space, ascending
};

bool depends(const std::vector<Expr>& index, Expr symbol) {
  return std::ranges::any_of(index, [&](Expr e) { return depends_on(e, symbol); });
}

class Finder {
public:
  Finder(const Function& f, NodeId fold) : f_(f), id_(fold), fold_(std::get<FoldAttr>(f[fold].attr)) {
    for (size_t d = 0; d < fold_.space.size(); d++) axes_.push_back(axis_symbol(int(d), fold_.space[d]));
  }

  /// Why a sum that exponentials weight stays apart; empty for other sums.
  const std::string& why() const { return why_; }

  std::optional<WeightedSum> run(const std::vector<std::vector<NodeId>>& users) {
    if (!is_sum(fold_) || fold_.reduced.size() != 1) return {};
    const size_t k = size_t(fold_.reduced[0]);
    k_ = axes_[k];
    if (!k_.is_symbol()) return {};
    Place body{f_[id_].inputs[0], {}};
    for (int axis : fold_.body_axes[0]) body.index.push_back(axes_[size_t(axis)]);
    if (!factors(body) || !weight_ || !maximum_of(*weight_)) return {};
    out_.x_axes = axes_of({&out_.x}, true);
    std::vector<const Place*> values;
    for (auto& v : out_.values) values.push_back(&v);
    out_.value_axes = axes_of(values, false);
    std::set<int> all(out_.x_axes.begin(), out_.x_axes.end());
    const bool wide = std::ranges::any_of(out_.value_axes, [&](int axis) { return all.insert(axis).second; });
    if (!wide || all.size() != axes_.size() || !axes_within(out_.where, out_.x_axes)) return {};
    const auto apart = [&](const char* why) {
      why_ = why;
      return std::nullopt;
    };
    if (!fills_tiles())
      return apart("few terms or few rows that share the values: its scores are few as well");
    for (const Outside& o : out_.outside)
      if (!statistics(o.place)) return apart("a maximum or sum of other rows is read with it");
    std::set<NodeId> inside{id_, out_.maximum};
    for (auto& [sum, at] : out_.sums) inside.insert(sum);
    bool alone = only_reaches(weighted_, inside, users) && only_reaches(out_.maximum, inside, users);
    for (auto& [sum, at] : out_.sums) alone = alone && only_reaches(sum, inside, users);
    if (!alone) return apart("something else reads its scores, weights or maximum");
    return std::move(out_);
  }

private:
  static bool is_sum(const FoldAttr& fold) { return is_plain(fold, Op::add); }
  static bool is_plain(const FoldAttr& fold, Op op) {
    if (fold.monoid.size() != 1 || !fold.where.is_constant(1) || !fold.holes.empty()) return false;
    const MonoidComponent& c = fold.monoid.components()[0];
    return c.op == op && c.transform.is_leaf(0) && (c.dtype == DType::f32 || c.dtype == DType::f64);
  }

  std::vector<Expr> through(const Shape& shape, const std::vector<Expr>& map,
                            const std::vector<Expr>& at) const {
    ExprMap<Expr> replace;
    for (size_t d = 0; d < shape.size(); d++)
      if (Expr axis = axis_symbol(int(d), shape[d]); axis.is_symbol()) replace[axis] = at[d];
    std::vector<Expr> out;
    for (Expr e : map) out.push_back(substitute(e, replace));
    return out;
  }

  /// The element behind views that read it everywhere.
  Place behind_views(Place p) const {
    for (;;) {
      const auto* view = std::get_if<ViewAttr>(&f_[p.node].attr);
      if (!view || !view->holes.empty() || !view->predicate.is_constant(1)) return p;
      p = {f_[p.node].inputs[0], through(view->shape, view->map, p.index)};
    }
  }
  Place operand(const Place& p, size_t i) const { return behind_views({f_[p.node].inputs[i], p.index}); }
  const Op* op_of(const Place& p) const {
    const auto* map = std::get_if<MapAttr>(&f_[p.node].attr);
    return map && map->user_op.empty() ? &map->op : nullptr;
  }
  std::optional<double> number(const Place& p) const {
    const auto* constant = std::get_if<ConstantAttr>(&f_[p.node].attr);
    if (!constant || !constant->type.shape.empty()) return {};
    return load_f64(constant->type.dtype, constant->data->data(), 0);
  }
  bool varies(const Place& p) const { return depends(p.index, k_); }

  /// Takes the body apart; false where that is not possible.
  bool factors(Place p) {
    if (--steps_ < 0) return false;
    p = behind_views(std::move(p));
    if (!varies(p)) {
      out_.outside.insert(out_.outside.begin(), {Outside::Kind::times, p});
      return true;
    }
    const Op* op = op_of(p);
    if (op && *op == Op::mul) return factors(operand(p, 0)) && factors(operand(p, 1));
    if (op && *op == Op::div && !varies(operand(p, 1))) {
      out_.outside.insert(out_.outside.begin(), {Outside::Kind::divided_by, operand(p, 1)});
      return factors(operand(p, 0));
    }
    if (op && *op == Op::select && !varies(operand(p, 0)))
      for (size_t zero : {1, 2})
        if (number(operand(p, zero)) == 0) {
          // Behind all factors: 0 whatever they are.
          out_.outside.push_back(
              {zero == 1 ? Outside::Kind::zero_where : Outside::Kind::zero_unless, operand(p, 0)});
          return factors(operand(p, 3 - zero));
        }
    if (op && (*op == Op::exp || *op == Op::exp2) && !weight_) {
      const Place difference = operand(p, 0);
      const Op* minus = op_of(difference);
      if (minus && *minus == Op::sub && !varies(operand(difference, 1))) {
        weight_ = p;
        return true;
      }
    }
    out_.values.push_back(p);
    return true;
  }

  /// Is the weight the exponential of x less the maximum of x over the summed axis?
  bool maximum_of(const Place& weight) {
    const Place difference = operand(weight, 0), x = operand(difference, 0), m = operand(difference, 1);
    const auto* get = std::get_if<GetAttr>(&f_[m.node].attr);
    if (!get) return false;
    const NodeId id = f_[m.node].inputs[0];
    const auto* fold = std::get_if<FoldAttr>(&f_[id].attr);
    if (!fold || !is_plain(*fold, Op::max) || body_of(id, *fold, m.index) != x) return false;
    out_.maximum = id;
    out_.maximum_at = m.index;
    out_.exponential = *op_of(weight);
    out_.x = x;
    weighted_ = x.node;
    while (const Op* op = op_of(out_.x)) { // what a condition leaves out
      if (*op != Op::select || number(operand(out_.x, 2)) != -INFINITY) break;
      const auto seen = condition(operand(out_.x, 0));
      if (!seen) break;
      out_.where = logical_and(out_.where, *seen);
      out_.x = operand(out_.x, 1);
    }
    return true;
  }

  /// The element that a fold over one axis, whose result is read at `at`, meets at k; a place
  /// without index where that is another k.
  std::optional<Place> body_of(NodeId id, const FoldAttr& fold, const std::vector<Expr>& at) const {
    const size_t k = size_t(fold_.reduced[0]);
    if (fold.reduced.size() != 1 || !proves_equal(fold.space[size_t(fold.reduced[0])], fold_.space[k]))
      return {};
    const std::vector<int> kept = result_axes(fold, 0);
    Place body{f_[id].inputs[0], {}};
    for (int axis : fold.body_axes[0]) {
      const auto position = std::ranges::find(kept, axis) - kept.begin();
      if (axis == fold.reduced[0])
        body.index.push_back(k_);
      else
        body.index.push_back(at[size_t(position)]);
    }
    return behind_views(std::move(body));
  }

  /// Tiles (choose/choose_cascade.cpp) want some length of the sum, and more rows that share the
  /// values than lanes: with less, the scores are few as well.
  bool fills_tiles() const {
    constexpr int64_t fewest_summed = 32, fewest_rows = 17;
    const auto reaches = [](Expr extent, int64_t n) { return !extent.is_constant() || extent.value() >= n; };
    return reaches(fold_.space[size_t(fold_.reduced[0])], fewest_summed) &&
           std::ranges::any_of(out_.x_axes, [&](int axis) {
             return axis != fold_.reduced[0] && reaches(fold_.space[size_t(axis)], fewest_rows) &&
                    std::ranges::find(out_.value_axes, axis) == out_.value_axes.end();
           });
  }

  /// Is the index one of each row of x?
  bool rows_of_x(const std::vector<Expr>& index) const {
    std::set<Expr, ExprLess> rows;
    for (Expr e : index)
      if (!e.is_constant(0) && (std::ranges::find(axes_, e) == axes_.end() || !rows.insert(e).second))
        return false;
    return std::ranges::all_of(out_.x_axes, [&](int axis) {
      const Expr row = axes_[size_t(axis)];
      return row == k_ || !row.is_symbol() || rows.contains(row);
    });
  }

  /// Finds sums of the weights alone below a value; false where one of them or the maximum is not
  /// read row by row.
  bool statistics(const Place& p) {
    if (--steps_ < 0) return false;
    const Node& node = f_[p.node];
    if (node.kind == NodeKind::map)
      for (size_t i = 0; i < node.inputs.size(); i++)
        if (!statistics(operand(p, i))) return false;
    if (node.kind != NodeKind::get) return true;
    const NodeId id = node.inputs[0];
    if (id == out_.maximum) return p.index == out_.maximum_at && rows_of_x(p.index);
    const auto* fold = std::get_if<FoldAttr>(&f_[id].attr);
    if (!fold || !is_sum(*fold) || body_of(id, *fold, p.index) != *weight_) return true;
    const auto [known, fresh] = out_.sums.emplace(id, p.index);
    return (fresh || known->second == p.index) && rows_of_x(p.index);
  }

  /// Every use ends, through maps and views, in one of the folds.
  bool only_reaches(NodeId from, const std::set<NodeId>& folds,
                    const std::vector<std::vector<NodeId>>& users) const {
    std::set<NodeId> seen{from};
    for (std::vector<NodeId> stack{from}; !stack.empty();) {
      const NodeId id = stack.back();
      stack.pop_back();
      for (const auto& result : f_.results)
        if (result.value == id) return false;
      for (NodeId user : users[id]) {
        if (folds.contains(user)) continue;
        const NodeKind kind = f_[user].kind;
        if (kind != NodeKind::map && kind != NodeKind::view && kind != NodeKind::get) return false;
        if (seen.insert(user).second) stack.push_back(user);
      }
    }
    return true;
  }

  /// A condition that the axes decide.
  std::optional<Expr> condition(const Place& p) {
    if (--steps_ < 0) return {};
    if (const auto* iota = std::get_if<IotaAttr>(&f_[p.node].attr))
      return through(iota->type.shape, {iota->value}, p.index)[0];
    const Op* op = op_of(p);
    if (!op) return {};
    if (*op == Op::bit_and || *op == Op::bit_or) {
      const auto a = condition(operand(p, 0)), b = condition(operand(p, 1));
      if (!a || !b) return {};
      return *op == Op::bit_and ? logical_and(*a, *b) : logical_or(*a, *b);
    }
    if (*op != Op::le && *op != Op::lt && *op != Op::eq && *op != Op::ne) return {};
    const auto a = integer(operand(p, 0)), b = integer(operand(p, 1));
    if (!a || !b) return {};
    return *op == Op::le ? le(*a, *b) : *op == Op::lt ? lt(*a, *b) : *op == Op::eq ? eq(*a, *b) : ne(*a, *b);
  }
  /// An integer that the axes decide and that its type holds.
  std::optional<Expr> integer(const Place& p) {
    if (--steps_ < 0) return {};
    const DType type = f_[p.node].type().dtype;
    if (type != DType::i32 && type != DType::i64) return {};
    std::optional<Expr> value;
    if (const auto* iota = std::get_if<IotaAttr>(&f_[p.node].attr))
      value = through(iota->type.shape, {iota->value}, p.index)[0];
    else if (const auto constant = number(p); constant && std::fabs(*constant) < 0x1p53)
      value = Expr(int64_t(*constant));
    else if (f_[p.node].kind == NodeKind::cast)
      value = integer(operand(p, 0));
    else if (const Op* op = op_of(p); op && (*op == Op::add || *op == Op::sub)) {
      const auto a = integer(operand(p, 0)), b = integer(operand(p, 1));
      if (a && b) value = *op == Op::add ? *a + *b : *a - *b;
    }
    if (!value) return {};
    const Interval range = value->range();
    const Interval fits =
        type == DType::i32 ? Interval{INT32_MIN, INT32_MAX} : Interval{-(int64_t{1} << 62), int64_t{1} << 62};
    return fits.contains(range) ? value : std::nullopt;
  }

  std::vector<int> axes_of(const std::vector<const Place*>& places, bool with_k) const {
    std::vector<int> out;
    for (size_t d = 0; d < axes_.size(); d++) {
      bool here = with_k && axes_[d] == k_;
      for (const Place* p : places) here |= axes_[d].is_symbol() && depends(p->index, axes_[d]);
      if (!axes_[d].is_symbol()) here = with_k; // of extent 1
      if (here) out.push_back(int(d));
    }
    return out;
  }
  bool axes_within(Expr e, const std::vector<int>& axes) const {
    for (size_t d = 0; d < axes_.size(); d++)
      if (axes_[d].is_symbol() && depends_on(e, axes_[d]) && std::ranges::find(axes, int(d)) == axes.end())
        return false;
    return true;
  }

  const Function& f_;
  NodeId id_;
  const FoldAttr& fold_;
  std::vector<Expr> axes_;
  Expr k_ = 0;
  std::optional<Place> weight_;
  NodeId weighted_ = 0;
  int steps_ =
      1000; // of walks along all paths below the sum: values that are used twice at each step have very many
  std::string why_;
  WeightedSum out_;
};

/// Writes the fold and what follows it, in a function that holds what the sum is made from.
class Writer {
public:
  Writer(Rebuild& target, const Function& f, NodeId id, const WeightedSum& sum)
      : b_(target), f_(f), node_(f[id]), fold_(std::get<FoldAttr>(node_.attr)), sum_(sum) {
    for (size_t d = 0; d < fold_.space.size(); d++) {
      axes_.push_back(axis_symbol(int(d), fold_.space[d]));
      if (int(d) != fold_.reduced[0]) outer_.push_back(int(d));
    }
  }

  /// Nothing, or an Error, where an index expression overflows.
  std::optional<NodeId> run() {
    const DType type = fold_.monoid.components()[0].dtype;
    const Scalar self = Scalar::leaf(0), old0 = Scalar::leaf(1), new0 = Scalar::leaf(2);
    const Scalar weight = Scalar::apply(sum_.exponential, {Scalar::apply(Op::sub, {old0, new0})});
    const Scalar moved =
        Scalar::apply(Op::select, {Scalar::apply(Op::eq, {old0, Scalar::constant(-INFINITY)}),
                                   Scalar::constant(0), Scalar::apply(Op::mul, {self, weight})});
    FoldAttr fold;
    fold.space = fold_.space;
    fold.reduced = fold_.reduced;
    fold.where = sum_.where;
    std::vector<MonoidComponent> parts{{Op::max, type, self}};
    std::vector<NodeId> bodies{over(sum_.x, b_.place(sum_.x.node), sum_.x_axes)};
    fold.body_axes.push_back(sum_.x_axes);
    if (!sum_.sums.empty()) {
      parts.push_back({Op::add, type, moved});
      bodies.push_back(b_.scalar(type, 1));
      fold.body_axes.push_back({});
    }
    NodeId values = over(sum_.values[0], b_.place(sum_.values[0].node), sum_.value_axes);
    for (size_t i = 1; i < sum_.values.size(); i++)
      values = map(Op::mul, {values, over(sum_.values[i], b_.place(sum_.values[i].node), sum_.value_axes)});
    parts.push_back({Op::add, type, moved});
    bodies.push_back(values);
    fold.body_axes.push_back(sum_.value_axes);
    const int last = int(parts.size()) - 1;
    fold.monoid = Monoid::intern(std::move(parts));
    const std::vector<int> rows = result_axes(fold, 0);
    const NodeId tuple = add(fold, bodies, node_.axis_names);

    // All results before what is made of them: they are stored together, or not at all (fuse.cpp).
    const NodeId maximum = add(GetAttr{0}, {tuple}), weights = add(GetAttr{1}, {tuple});
    NodeId result = add(GetAttr{last}, {tuple});
    replace_result(sum_.maximum, sum_.maximum_at, maximum, rows);
    for (auto& [sum, at] : sum_.sums) replace_result(sum, at, weights, rows);
    for (const Outside& o : sum_.outside) {
      const NodeId factor = over(o.place, copied(o.place.node), outer_);
      const auto zeros = [&] { return b_.filled({type, shape_of(outer_)}, 0); };
      switch (o.kind) {
      case Outside::Kind::times: result = map(Op::mul, {result, factor}); break;
      case Outside::Kind::divided_by: result = map(Op::div, {result, factor}); break;
      case Outside::Kind::zero_where: result = map(Op::select, {factor, zeros(), result}); break;
      case Outside::Kind::zero_unless: result = map(Op::select, {factor, result, zeros()}); break;
      }
    }
    return fits_ ? std::optional(result) : std::nullopt;
  }

private:
  NodeId add(Attr attr, std::vector<NodeId> inputs, std::vector<std::string> axis_names = {}) {
    const NodeId input = inputs[0];
    const auto id = b_.add(std::move(attr), std::move(inputs), std::move(axis_names), node_.origin);
    fits_ = fits_ && id.has_value();
    return id.value_or(input);
  }
  NodeId map(Op op, std::vector<NodeId> inputs) { return add(MapAttr{op, {}}, std::move(inputs)); }
  NodeId view(NodeId of, const Shape& shape, std::vector<Expr> index) {
    ViewAttr attr;
    attr.map = std::move(index);
    attr.shape = shape;
    return add(attr, {of});
  }
  Shape shape_of(const std::vector<int>& axes) const {
    Shape shape;
    for (int axis : axes) shape.push_back(fold_.space[size_t(axis)]);
    return shape;
  }
  /// The place as a value over some axes of the space.
  NodeId over(const Place& place, NodeId copy, const std::vector<int>& axes) {
    ExprMap<Expr> replace;
    for (size_t d = 0; d < axes.size(); d++)
      if (Expr axis = axes_[size_t(axes[d])]; axis.is_symbol())
        replace[axis] = axis_symbol(int(d), fold_.space[size_t(axes[d])]);
    std::vector<Expr> map;
    for (Expr e : place.index) map.push_back(substitute(e, replace));
    const Shape shape = shape_of(axes);
    bool plain = map.size() == shape.size() && same_shape(b_[copy].type().shape, shape);
    for (size_t d = 0; plain && d < map.size(); d++) plain = map[d] == axis_symbol(int(d), shape[d]);
    return plain ? copy : view(copy, shape, map);
  }
  /// The result of an old fold that is read at `index` is a result of the new one, over `rows`.
  void replace_result(NodeId fold, const std::vector<Expr>& index, NodeId value,
                      const std::vector<int>& rows) {
    for (NodeId id = fold + 1; id < f_.nodes.size(); id++) {
      if (f_[id].kind != NodeKind::get || f_[id].inputs[0] != fold) continue;
      const Shape& shape = f_[id].type().shape;
      std::vector<Expr> map;
      for (int row : rows) {
        const auto at = size_t(std::ranges::find(index, axes_[size_t(row)]) - index.begin());
        if (at == index.size() && axes_[size_t(row)].is_symbol()) return; // nobody reads it outside
        map.push_back(axes_[size_t(row)].is_symbol() ? axis_symbol(int(at), shape[at]) : Expr(0));
      }
      replaced_[id] = view(value, shape, map);
    }
  }
  /// The copy of a node, with replaced results below it.
  NodeId copied(NodeId id) {
    if (auto found = replaced_.find(id); found != replaced_.end()) return found->second;
    const Node& node = f_[id];
    if (node.kind != NodeKind::map && node.kind != NodeKind::view) return b_.place(id);
    std::vector<NodeId> inputs;
    for (NodeId input : node.inputs) inputs.push_back(copied(input));
    return replaced_[id] = add(node.attr, inputs, node.axis_names);
  }

  Rebuild& b_;
  const Function& f_;
  const Node& node_;
  const FoldAttr& fold_;
  const WeightedSum& sum_;
  std::vector<Expr> axes_;
  std::vector<int> outer_;
  std::map<NodeId, NodeId> replaced_;
  bool fits_ = true; // every node so far
};

/// Folds of one result: what the finder looks at.
struct Found {
  std::map<NodeId, WeightedSum> sums;
  std::map<NodeId, std::string> apart; // and why
};
Found find_sums(const Function& f) {
  Found found;
  std::vector<std::vector<NodeId>> users(f.nodes.size());
  for (NodeId id = 0; id < f.nodes.size(); id++)
    for (NodeId input : f[id].inputs) users[input].push_back(id);
  for (NodeId id = 0; id < f.nodes.size(); id++) {
    if (f[id].kind != NodeKind::fold) continue;
    Finder finder(f, id);
    try {
      if (auto sum = finder.run(users))
        found.sums.emplace(id, std::move(*sum));
      else if (!finder.why().empty())
        found.apart.emplace(id, finder.why());
    } catch (const Error&) { // an index expression that overflows: it stays as it is
    }
  }
  return found;
}

} // namespace

bool has_weighted_sum(const FoldAttr& fold) {
  if (fold.monoid.size() < 2 || fold.reduced.size() != 1) return false;
  size_t most = 0, least = SIZE_MAX;
  for (int c = 0; c < fold.monoid.size(); c++) {
    const size_t kept = result_axes(fold, c).size();
    most = std::max(most, kept), least = std::min(least, kept);
  }
  return least < most;
}

int64_t join_weighted_sums(Module& module) {
  int64_t joined = 0;
  for (Function& f : module.functions) {
    const auto sums = find_sums(f).sums;
    if (sums.empty()) continue;
    const Function before = f;
    Rebuild::walk(f, &module, [&](Rebuild& r, Node node) -> NodeId {
      const auto sum = node.kind == NodeKind::get ? sums.find(before[r.current()].inputs[0]) : sums.end();
      if (sum == sums.end()) return r.put(std::move(node));
      try {
        if (const auto result = Writer(r, before, sum->first, sum->second).run()) {
          ++joined;
          return *result;
        }
      } catch (const Error&) { // an index expression that overflows: it stays as it is
      }
      return r.put(std::move(node));
    });
  }
  return joined;
}

std::vector<std::string> weighted_sum_notes(const Module& module) {
  std::map<std::string, int> times;
  for (const Function& f : module.functions) {
    const auto tell = [&](NodeId id, const std::string& what) {
      const Node& node = f[id];
      times[fmt::format("weighted sum {}{}: {}", to_string(node.types.back()),
                        node.origin.empty() ? "" : " of " + node.origin, what)]++;
    };
    const Found found = find_sums(f);
    for (const auto& [id, why] : found.apart) tell(id, "apart from its maximum: " + why);
    for (const auto& [id, sum] : found.sums)
      tell(id, "apart from its maximum: no pass joins them (weighted-sums-range does)");
    for (NodeId id = 0; id < f.nodes.size(); id++)
      if (const auto* fold = std::get_if<FoldAttr>(&f[id].attr); fold && has_weighted_sum(*fold))
        tell(id, "one fold with its maximum and exponentials, scores stay in the kernel");
  }
  std::vector<std::string> notes;
  for (const auto& [note, n] : times) notes.push_back(n == 1 ? note : fmt::format("{} ({} times)", note, n));
  return notes;
}

} // namespace luminal::passes
