// tests/ir/random_module.h -- random modules as programs are, and worse: every type, operation and kind of node, extents 0 to 300, NaN and infinities, weights,
// dimensions at their ends, holes of every policy, tuples of which nobody reads some components. Include as "ir/random_module.h".
//
//   RandomModule g(seed);  g.module: verified;  g.bindings(0), g.bindings(1): inputs, and two sizes of the dimensions.
// The same seed gives the same module on every machine. random_module.h makes it, shrink.h makes it small.
#pragma once
#include "ir/random_inputs.h"
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace luminal::testing_ir {

struct RandomModuleOptions {
  int nodes = 9; // operations, roughly
  /// Only operations whose results depend neither on the order of additions nor on wider intermediate values: every plan gives the interpreter's bits.
  bool exact = false;
  bool structure = true;        // call, loop, cond
  int64_t most = 12000;         // elements of a value
  int64_t most_points = 150000; // of a fold
};

class RandomModule {
public:
  Module module;
  uint64_t seed;

  explicit RandomModule(uint64_t seed_, const RandomModuleOptions& options = {})
      : seed(seed_), options_(options), state_(seed_ * 2 + 1) {
    make();
  }
  /// Every input and dimension.
  Bindings bindings(int which = 0) const {
    Bindings b;
    b.symbols = sizes_[which];
    for (size_t k = 0; k < inputs_.size(); ++k)
      b.inputs[inputs_[k].name] = inputs_[k].data(b.symbols, seed * 977 + k);
    return b;
  }

private:
  using Input = RandomInput;
  using Style = Input::Style;

  // ---- numbers ----
  int below(int n) { return int(random_word_of(state_) % uint64_t(n)); }
  bool chance(int percent) { return below(100) < percent; }
  template <class T> T one_of(const std::vector<T>& list) { return list[size_t(below(int(list.size())))]; }
  int64_t now(Expr e) const { return std::max(extent_of(e, sizes_[0]), extent_of(e, sizes_[1])); }
  int64_t count(const Shape& shape) const {
    int64_t n = 1;
    for (Expr e : shape) n *= std::max<int64_t>(1, now(e));
    return n;
  }

  // ---- shapes ----
  Expr extent() {
    const int kind = below(100);
    if (kind < 20 && !module.symbols.empty()) return one_of(module.symbols);
    if (kind < 23) return 0;
    if (kind < 33) return 1;
    if (kind < 65) return 2 + below(5);
    if (kind < 85) return 7 + below(34);
    return 41 + below(260);
  }
  Shape shape(int most_axes = 3) {
    Shape s;
    for (int rank = below(most_axes + 1); rank > 0; --rank) {
      s.push_back(extent());
      if (count(s) > options_.most) s.back() = 1 + below(3);
    }
    if (count(s) > options_.most) s.pop_back();
    return s;
  }
  bool fits(const Shape& s) const { return count(s) <= options_.most && s.size() <= 5; }
  static std::vector<Expr> axes(const Shape& s) {
    std::vector<Expr> list;
    for (size_t d = 0; d < s.size(); ++d) list.push_back(axis_symbol(int(d), s[d]));
    return list;
  }
  static bool nonempty(Expr e) { return e.range().low >= 1; }
  DType dtype() {
    const int kind = below(100);
    if (kind < 40) return DType::f32;
    return DType(below(dtype_count));
  }
  bool arithmetic_is_exact(DType type) const { // one operation, rounded once
    return !options_.exact || !is_float(type) || type == DType::f32 || type == DType::f64;
  }

  // ---- one function being built ----
  struct Building {
    FunctionBuilder* b;
    bool entry;
    std::vector<NodeId> values;
  };
  Building* at_ = nullptr;
  FunctionBuilder& b() { return *at_->b; }
  const TensorType& type(NodeId id) { return (*at_->b)[id].type(); }
  NodeId add(NodeId id) {
    at_->values.push_back(id);
    return id;
  }
  NodeId pick() {
    const auto& v = at_->values;
    if (chance(50)) return v[v.size() - 1 - size_t(below(int(std::min<size_t>(v.size(), 4))))];
    return one_of(v);
  }
  template <class F> NodeId pick_if(F good, const TensorType& otherwise) {
    std::vector<NodeId> list;
    for (NodeId v : at_->values)
      if (good(type(v))) list.push_back(v);
    if (!list.empty()) return chance(50) ? list.back() : one_of(list);
    return add(fresh(otherwise));
  }
  Style style(DType type) {
    if (options_.exact && is_float(type))
      return one_of(std::vector<Style>{Style::small, Style::uniform, Style::special, Style::ramp, Style::same,
                                       Style::limits});
    return one_of(std::vector<Style>{Style::small, Style::small, Style::uniform, Style::uniform,
                                     Style::special, Style::ramp, Style::same, Style::limits});
  }
  NodeId input(const TensorType& t, Style style, Expr low = 0, Expr high = 0) {
    const std::string name = "x" + std::to_string(inputs_.size());
    inputs_.push_back({name, t, style, low, high});
    return b().input(name, t, chance(weights_) ? Role::weight : Role::argument);
  }
  double number(DType type) { return is_float(type) ? double(below(17) - 8) / 4 : double(below(4)); }
  NodeId filled(const TensorType& t) {
    return b().view(b().constant(t.dtype, t.dtype == DType::boolean ? below(2) : number(t.dtype)), t.shape,
                    {});
  }
  /// A new value of the type, from nothing.
  NodeId fresh(const TensorType& t) {
    if (at_->entry && chance(75)) return input(t, style(t.dtype));
    if (chance(40)) return filled(t);
    return b().iota(t.shape, index(t.shape, 1 << 20), t.dtype);
  }
  /// A value of the type: one of those there are, else a new one.
  NodeId fitting(const TensorType& t) {
    std::vector<NodeId> fit;
    for (NodeId v : at_->values)
      if (type(v) == t) fit.push_back(v);
    if (!fit.empty() && chance(70)) return one_of(fit);
    for (NodeId v : at_->values) // one with the axes in another order, or without one of them
      if (type(v).dtype == t.dtype && type(v).shape.size() == 1 && t.shape.size() > 1 && chance(30))
        for (size_t d = 0; d < t.shape.size(); ++d)
          if (type(v).shape[0] == t.shape[d]) return add(b().expand(v, t.shape, {int(d)}));
    return add(fresh(t));
  }

  // ---- index expressions ----
  /// Not negative, below `limit` in its pieces, over the axes of a shape: sums, floors, remainders.
  Expr index(const Shape& s, int64_t limit) {
    Expr e = int64_t(below(3));
    for (Expr a : axes(s)) {
      switch (below(6)) {
      case 0: e = e + a * (1 + below(3)); break;
      case 1: e = e * 2 + a; break;
      case 2: e = e + floordiv(a, 1 + below(4)); break;
      case 3: e = e + mod(a + e, 2 + below(5)); break;
      case 4: e = max(e, a) + min(e, 3); break;
      default: e = e + a;
      }
    }
    if (chance(20)) e = floordiv(e, 1 + below(3));
    if (chance(20)) e = mod(e, 1 + below(9));
    return e.range().high > limit ? mod(e, limit) : e;
  }
  /// A condition over the axes.
  Expr condition(const Shape& s) {
    if (s.empty()) return 1;
    const std::vector<Expr> a = axes(s);
    const Expr x = one_of(a), y = one_of(a);
    Expr c;
    switch (below(7)) {
    case 0: c = le(y, x); break;
    case 1: c = lt(x, 1 + below(40)); break;
    case 2: c = eq(mod(x, 2 + below(3)), below(2)); break;
    case 3: c = ne(floordiv(x, 2 + below(5)), y); break;
    case 4: c = ge(x + y, 1 + below(8)); break;
    case 5: c = logical_and(le(1, x), lt(x, s[0])); break;
    default: c = logical_or(lt(x, 2), lt(y + 3, x));
    }
    if (chance(15)) c = logical_and(c, condition(s));
    return c;
  }

  // ---- one operation each ----
  void map() {
    NodeId x = pick();
    const DType t = type(x).dtype;
    for (int attempt = 0; attempt < 20; ++attempt) {
      const Op op = Op(below(op_count));
      const OpRow& r = row(op);
      DType args[3] = {t, t, t};
      if (r.signature == Signature::choice) args[0] = DType::boolean;
      if (!result_type(r, args)) continue;
      if (options_.exact && is_float(t) && (r.ulp > 0.5 || (r.ulp > 0 && !arithmetic_is_exact(t)))) continue;
      if (options_.exact && is_float(t) && (op == Op::recip || op == Op::ldexp || op == Op::sign))
        continue; // show the sign of a zero
      std::vector<NodeId> list;
      for (int a = 0; a < r.arity; ++a)
        list.push_back(a == 0 && args[0] == t ? x : fitting({args[a], type(x).shape}));
      if (r.signature == Signature::choice) list[1] = x;
      if ((op == Op::div || op == Op::rem) && is_float(t))
        list[1] =
            at_->entry ? input(type(x), Style::nonzero) : b().view(b().constant(t, 2.5), type(x).shape, {});
      add(b().map(op, list));
      return;
    }
  }
  void cast() { add(b().cast(pick(), dtype())); }
  void bitcast() {
    NodeId x = pick_if([](const TensorType& t) { return t.dtype != DType::boolean; }, {DType::u8, shape()});
    const DType from = type(x).dtype;
    DType to = DType(1 + below(dtype_count - 1));
    if (is_float(from)) { // the sign of zeros and the bits of NaN are not specified
      auto with = [&](double v) { return b().view(b().constant(from, v), type(x).shape, {}); };
      x = b().map(Op::select, {b().map(Op::is_nan, {x}), with(1), x});
      x = b().map(Op::select, {b().map(Op::eq, {x, with(0)}), with(0), x});
    }
    const int wide = bits(to), narrow = bits(from);
    if (wide != narrow && type(x).shape.empty()) return;
    if (wide > narrow) {
      const Expr last = type(x).shape.back();
      if (!last.is_constant() || last.value() % (wide / narrow) != 0) return;
    }
    NodeId y = b().bitcast(x, to);
    if (fits(type(y).shape)) add(y);
  }
  void movement() {
    NodeId x = pick();
    Shape s = type(x).shape;
    const DType t = type(x).dtype;
    const int d = s.empty() ? 0 : below(int(s.size()));
    const Expr e = s.empty() ? Expr(1) : s[size_t(d)];
    switch (below(11)) {
    case 0: { // permute
      std::vector<int> order;
      for (size_t k = 0; k < s.size(); ++k)
        order.insert(order.begin() + below(int(order.size()) + 1), int(k));
      add(b().permute(x, order));
      return;
    }
    case 1: { // a new axis
      Shape wide = s;
      const int at = below(int(s.size()) + 1);
      wide.insert(wide.begin() + at, extent());
      std::vector<int> old;
      for (int k = 0; k < int(s.size()); ++k) old.push_back(k < at ? k : k + 1);
      if (fits(wide)) add(b().expand(x, wide, old));
      return;
    }
    case 2: // flatten, and cut again
      x = b().reshape(x, {product(s)});
      if (Expr n = type(x).shape[0]; n.is_constant())
        for (int64_t part : {2, 3, 5, 7})
          if (n.value() % part == 0 && chance(40)) return void(add(b().reshape(x, {n.value() / part, part})));
      add(x);
      return;
    case 3: { // pad
      if (s.empty()) return;
      NodeId y = b().pad(x, d, below(4), below(9) == 0 ? 40 : below(4), chance(20) ? 0 : number(t));
      if (fits(type(y).shape)) add(y);
      return;
    }
    case 4: { // slice with a step, or flip
      if (s.empty() || !e.is_constant() || e.value() < 2) return;
      const int64_t n = e.value(), step = 1 + below(3);
      add(chance(30) ? b().slice(x, d, n - 1, n, -1) : b().slice(x, d, 1, (n - 1 + step - 1) / step, step));
      return;
    }
    case 5: { // sliding windows
      if (s.empty() || !e.is_constant()) return;
      const int64_t size = 2 + below(3), dilation = 1 + below(2), count = e.value() - (size - 1) * dilation;
      if (count < 1) return;
      Shape out = s;
      out[size_t(d)] = count;
      out.push_back(size);
      if (!fits(out)) return;
      std::vector<Expr> m = axes(out);
      m[size_t(d)] = m[size_t(d)] + m.back() * dilation;
      m.pop_back();
      add(b().view(x, out, m));
      return;
    }
    case 6: // mask
      add(b().view(x, s, axes(s), condition(s), t == DType::boolean ? 1 : number(t)));
      return;
    case 7: { // two values one behind the other: a select of two views
      if (s.empty()) return;
      NodeId y = fitting({t, s});
      Shape out = s;
      out[size_t(d)] = e + e;
      if (!fits(out)) return;
      std::vector<Expr> m = axes(out), second = m;
      const Expr i = m[size_t(d)];
      second[size_t(d)] = i - e;
      NodeId one = b().view(x, out, m, lt(i, e)), two = b().view(y, out, second, ge(i, e));
      add(b().map(Op::select, {b().iota(out, lt(i, e), DType::boolean), one, two}));
      return;
    }
    case 8: { // roll, repeat, reflect
      if (s.empty() || !nonempty(e)) return;
      Shape out = s;
      const int repeats = 1 + below(3);
      out[size_t(d)] = e * repeats;
      if (!fits(out)) return;
      std::vector<Expr> m = axes(out);
      Expr& i = m[size_t(d)];
      i = chance(40) ? mod(i + 1 + below(3), e) : chance(50) ? floordiv(i, repeats) : e - 1 - mod(i, e);
      add(b().view(x, out, m));
      return;
    }
    case 9: { // any index expression that stays inside
      Shape out = shape();
      std::vector<Expr> m;
      for (Expr extent : s) {
        if (!nonempty(extent)) return;
        const Expr i = index(out, 4096);
        m.push_back(chance(60) ? mod(i, extent) : min(i, extent - 1));
      }
      add(b().view(x, out, m, chance(30) ? condition(out) : Expr(1), number(t)));
      return;
    }
    default: { // an index that leaves the value where the condition does not hold
      if (s.empty()) return;
      std::vector<Expr> m = axes(s);
      Expr& i = m[size_t(d)];
      i = i * (1 + below(2)) - below(4);
      add(b().view(x, s, m, logical_and(ge(i, 0), lt(i, e)), number(t)));
    }
    }
  }

  /// A hole that reads an index of an axis with this extent; its operand has the extents of `axes` in `space`.
  Hole hole(Expr extent, const Shape& space, std::vector<NodeId>& inputs) {
    Hole h;
    h.policy = one_of(std::vector<OutOfRange>{OutOfRange::error, OutOfRange::clamp, OutOfRange::fill});
    Shape s;
    for (size_t d = 0; d < space.size(); ++d)
      if (chance(60)) h.axes.push_back(int(d)), s.push_back(space[d]);
    const int64_t sure = extent.range().low, most = extent.range().high;
    const bool wide = chance(35); // the range says less than the axis: the values do
    const int64_t low = chance(30) ? std::min<int64_t>(sure - 1, below(3)) : 0;
    h.range = wide ? Interval{-7, most + 20} : Interval{low, sure - 1};
    DType t = one_of(std::vector<DType>{DType::i32, DType::i64, DType::i64, DType::u32, DType::u64,
                                        DType::i16, DType::i8, DType::u8});
    if (bits(t) == 8 && most > 100) t = DType::i32;
    NodeId operand;
    if (!at_->entry) {
      operand = b().iota(s, mod(index(s, 1000), sure), DType::i64);
      if (!wide) h.range = {0, sure - 1};
    } else if (wide)
      operand = input({t, s}, Style::index, 0, extent - 1);
    else if (h.policy == OutOfRange::error)
      operand = input({t, s}, Style::index, low, sure - 1);
    else if (chance(60))
      operand = input({t, s}, Style::index, -5, most + 5);
    else {
      operand = fitting({t, s});
    }
    h.input = int(inputs.size());
    inputs.push_back(operand);
    return h;
  }
  void gather() {
    NodeId x = pick_if(
        [](const TensorType& t) { return !t.shape.empty() && std::ranges::all_of(t.shape, nonempty); },
        {dtype(), {3 + below(50), 4}});
    const Shape s = type(x).shape;
    const auto d = size_t(below(int(s.size())));
    ViewAttr view;
    view.shape = s;
    view.shape[d] = extent();
    if (chance(30)) view.shape.insert(view.shape.begin() + below(int(s.size()) + 1), 1 + below(4));
    if (!fits(view.shape)) return;
    std::vector<NodeId> inputs{x};
    const int holes = s.size() > 1 && chance(25) ? 2 : 1;
    for (int h = 0; h < holes; ++h)
      view.holes.push_back(hole(s[(d + size_t(h)) % s.size()], view.shape, inputs));
    for (size_t k = 0; k < s.size(); ++k) {
      const size_t h = (k + s.size() - d) % s.size();
      if (h < size_t(holes)) {
        view.map.push_back(hole_symbol(int(h), view.holes[h].range));
        continue;
      }
      Expr best = mod(index(view.shape, 4096), s[k]);
      for (size_t a = 0; a < view.shape.size(); ++a)
        if (view.shape[a] == s[k] && chance(80)) best = axis_symbol(int(a), s[k]);
      view.map.push_back(best);
    }
    if (chance(25)) view.predicate = condition(view.shape);
    view.fill = number(type(x).dtype);
    add(b().add(view, inputs));
  }

  /// Words of monoids that the type has and that no order changes, where exact results are asked for.
  std::vector<Op> folding(DType t) {
    std::vector<Op> list;
    for (Op op : {Op::add, Op::mul, Op::max, Op::min, Op::bit_or, Op::bit_and}) {
      DType same[2] = {t, t};
      if (!result_type(row(op), same)) continue;
      if (options_.exact && is_float(t) && (op == Op::add || op == Op::mul)) continue;
      list.push_back(op);
    }
    return list;
  }
  struct Components {
    std::vector<MonoidComponent> list;
    std::vector<NodeId> bodies;
    std::vector<std::vector<int>> body_axes;
  };
  /// Component by component: plain ones over any of the axes, running maxima with their weights, places of extremes.
  Components components(NodeId x, const Shape& space, const std::vector<int>& x_axes,
                        const std::vector<int>& reduced) {
    Components c;
    auto body = [&](DType t, std::vector<int> axes) {
      Shape s;
      for (int d : axes) s.push_back(space[size_t(d)]);
      c.bodies.push_back(fitting({t, s}));
      c.body_axes.push_back(std::move(axes));
    };
    auto some_axes = [&] {
      std::vector<int> axes;
      for (int d = 0; d < int(space.size()); ++d)
        if (chance(std::ranges::count(reduced, d) ? 80 : 50)) axes.push_back(d);
      return axes;
    };
    const DType t = type(x).dtype;
    c.list.push_back({one_of(folding(t)), t, Scalar::leaf(0)});
    c.bodies.push_back(x), c.body_axes.push_back(x_axes);
    const bool extreme = c.list[0].op == Op::max || c.list[0].op == Op::min;
    if (extreme && chance(30) && t != DType::boolean) { // the place of the extreme
      const char* keep = is_float(t) ? "select(bit_or(old0 == new0, is_nan(old0)), self, inf)"
                                     : "select(old0 == new0, self, inf)";
      const DType places = one_of(std::vector<DType>{DType::i64, DType::i32});
      c.list.push_back({Op::min, places, parse_scalar(keep, monoid_leaf_names(1))});
      const int along = reduced[0];
      c.bodies.push_back(b().iota({space[size_t(along)]}, axis_symbol(0, space[size_t(along)]), places));
      c.body_axes.push_back({along});
    } else if (!options_.exact && c.list[0].op == Op::max && chance(50) &&
               (t == DType::f32 || t == DType::f64)) {
      c.list.push_back(
          {Op::add, t,
           parse_scalar("select(old0 == -inf, 0, self * exp2(old0 - new0))", monoid_leaf_names(1))});
      if (chance(50)) {
        c.bodies.push_back(b().constant(t, 1)), c.body_axes.push_back({});
      } else {
        body(t, some_axes());
      }
      if (chance(40)) {
        c.list.push_back({Op::add, t, c.list[1].transform});
        body(t, some_axes());
      }
    }
    while (chance(35) && c.list.size() < 4) {
      const DType other = chance(50) ? t : dtype();
      if (folding(other).empty()) continue;
      c.list.push_back({one_of(folding(other)), other, Scalar::leaf(0)});
      body(other, some_axes());
    }
    return c;
  }
  /// Some results of a tuple: nobody reads the others.
  void read(NodeId tuple, size_t results) {
    const int sure = below(int(results));
    for (int c = 0; c < int(results); ++c)
      if (c == sure || chance(60)) add(b().get(tuple, c));
  }
  NodeId folded_value() {
    return pick_if([&](const TensorType& t) { return !t.shape.empty() && !folding(t.dtype).empty(); },
                   {chance(50) ? DType::f32 : DType::i32, {1 + below(300)}});
  }
  void fold() {
    NodeId x = folded_value();
    Shape space = type(x).shape;
    std::vector<int> x_axes, reduced;
    const int extra =
        space.size() < 4 && chance(30) ? below(int(space.size()) + 1) : -1; // an axis that x does not have
    if (extra >= 0) space.insert(space.begin() + extra, extent());
    if (count(space) > options_.most_points) return;
    for (int d = 0; d < int(space.size()); ++d)
      if (d != extra) x_axes.push_back(d);
    for (int d = 0; d < int(space.size()); ++d)
      if (chance(d == extra ? 25 : 50)) reduced.push_back(d);
    if (reduced.empty()) reduced.push_back(one_of(x_axes));
    Components c = components(x, space, x_axes, reduced);
    FoldAttr fold{.monoid = Monoid::intern(c.list),
                  .space = space,
                  .reduced = reduced,
                  .body_axes = c.body_axes,
                  .where = 1,
                  .holes = {}};
    std::vector<NodeId> inputs = c.bodies;
    if (chance(25)) fold.where = condition(space);
    if (at_->entry && chance(10)) { // a length for each row
      const int along = reduced[0];
      const int64_t most = space[size_t(along)].range().high;
      Hole h{int(inputs.size()), {}, {0, most}, chance(50) ? OutOfRange::clamp : OutOfRange::error};
      Shape s;
      for (int d = 0; d < int(space.size()); ++d)
        if (!std::ranges::count(reduced, d) && chance(70)) h.axes.push_back(d), s.push_back(space[size_t(d)]);
      inputs.push_back(input({DType::i32, s}, Style::index, 0, most));
      fold.holes = {h};
      fold.where =
          logical_and(fold.where, lt(axis_symbol(along, space[size_t(along)]), hole_symbol(0, h.range)));
    }
    int64_t work = count(space) * int64_t(c.list.size());
    for (int k = 0; k < fold.monoid.size(); ++k) {
      Shape s;
      for (int d : result_axes(fold, k)) s.push_back(space[size_t(d)]);
      if (!fits(s) || work > options_.most_points) return;
    }
    read(b().add(fold, inputs), c.list.size());
  }
  void scan() {
    NodeId x = folded_value();
    Shape space = type(x).shape;
    const int along = below(int(space.size()));
    std::vector<int> all;
    for (int d = 0; d < int(space.size()); ++d) all.push_back(d);
    Components c = components(x, space, all, {along});
    ScanAttr scan{.monoid = Monoid::intern(c.list),
                  .space = space,
                  .axis = along,
                  .body_axes = c.body_axes,
                  .exclusive = chance(30),
                  .reverse = chance(30)};
    if (count(space) * now(space[size_t(along)]) * int64_t(c.list.size()) > 4 * options_.most_points) return;
    read(b().add(scan, c.bodies), c.list.size());
  }
  void matmul() {
    DType t =
        one_of(std::vector<DType>{DType::f32, DType::f32, DType::f64, DType::i32, DType::bf16, DType::i8});
    if (options_.exact) t = one_of(std::vector<DType>{DType::i32, DType::i64, DType::u8});
    Expr m = extent(), n = extent(), k = extent();
    if (count({m, n, k}) > options_.most_points || !fits({m, n})) return;
    const bool turned = chance(50);
    NodeId x = fitting({t, {m, k}}), y = fitting({t, turned ? Shape{n, k} : Shape{k, n}});
    NodeId wx = b().expand(x, {m, n, k}, {0, 2}),
           wy = turned ? b().expand(y, {m, n, k}, {1, 2}) : b().expand(y, {m, n, k}, {2, 1});
    if (t == DType::bf16 || t == DType::i8) {
      const DType wide = t == DType::bf16 ? DType::f32 : DType::i32;
      wx = b().cast(wx, wide), wy = b().cast(wy, wide);
    }
    add(b().reduce(Op::add, b().map(Op::mul, {wx, wy}), {2}));
  }
  void sort() {
    NodeId x = pick_if([](const TensorType& t) { return !t.shape.empty(); }, {dtype(), {100 + below(200)}});
    std::vector<NodeId> inputs{x};
    while (chance(35) && inputs.size() < 3) inputs.push_back(fitting({dtype(), type(x).shape}));
    const int axis = below(int(type(x).shape.size()));
    if (count(type(x).shape) * now(type(x).shape[size_t(axis)]) > 4 * options_.most_points) return;
    read(b().add(SortAttr{axis, chance(50)}, inputs), inputs.size());
  }
  void scatter() {
    NodeId base = pick_if(
        [](const TensorType& t) { return !t.shape.empty() && std::ranges::all_of(t.shape, nonempty); },
        {dtype(), {2 + below(60), 3}});
    const TensorType t = type(base);
    const Shape& s = t.shape;
    ScatterAttr scatter;
    Shape space = s;
    std::vector<NodeId> inputs{base, 0};
    if (chance(60)) { // places by holes
      const auto d = size_t(below(int(s.size())));
      space[d] = extent();
      if (!fits(space)) return;
      inputs[1] = fitting({t.dtype, space});
      scatter.holes = {hole(s[d], space, inputs)};
      scatter.map = axes(s);
      for (size_t k = 0; k < s.size(); ++k) scatter.map[k] = axis_symbol(int(k), space[k]);
      scatter.map[d] = hole_symbol(0, scatter.holes[0].range);
    } else if (chance(50)) { // any expression
      space = shape();
      inputs[1] = fitting({t.dtype, space});
      for (Expr e : s) scatter.map.push_back(mod(index(space, 4096), e));
    } else { // each element once
      inputs[1] = fitting(t);
      scatter.map = axes(s);
      scatter.unique = chance(70);
    }
    if (!scatter.unique && chance(60)) scatter.op = one_of(folding(t.dtype));
    if (chance(30)) scatter.predicate = condition(space);
    add(b().add(scatter, inputs));
  }
  void leaf() {
    const Shape s = shape();
    switch (below(5)) {
    case 0: add(fresh({dtype(), s})); return;
    case 1: add(b().iota(s, index(s, 1 << 20), dtype())); return;
    case 2: add(b().iota(s, condition(s), DType::boolean)); return;
    case 3: {
      TensorType t{dtype(), {}};
      for (Expr e : s)
        if (e.is_constant()) t.shape.push_back(e);
      if (count(t.shape) > 600) t.shape.resize(1);
      if (t.shape.empty())
        return void(add(b().constant(t.dtype, t.dtype == DType::boolean ? below(2) : number(t.dtype))));
      add(b().constant(t, Input{"", t, style(t.dtype)}.data(sizes_[0], random_word_of(state_)).data));
      return;
    }
    default: {
      if (!at_->entry) return;
      Expr counter = 0;
      for (size_t d = 0; d < s.size(); ++d) counter = counter * s[d] + axis_symbol(int(d), s[d]);
      NodeId key = input({DType::u32, {2}}, Style::limits);
      add(b().add(RandomAttr{counter, {chance(50) ? DType::f32 : DType::u32, s}}, {key}));
    }
    }
  }

  // ---- functions ----
  /// A function of these parameters; results of the wanted types, and perhaps one more.
  std::string function(const std::vector<TensorType>& params, const std::vector<TensorType>& wanted,
                       bool more, std::vector<TensorType>* results = nullptr) {
    const std::string name = "f" + std::to_string(module.functions.size());
    FunctionBuilder inner(name, &module);
    Building building{&inner, false, {}}, *outer = std::exchange(at_, &building);
    for (size_t k = 0; k < params.size(); ++k) add(inner.input("p" + std::to_string(k), params[k]));
    for (int k = 1 + below(3); k > 0; --k) operation(false);
    int count = 0;
    for (const TensorType& t : wanted) {
      NodeId value = fitting(t);
      inner.result("r" + std::to_string(count++), value);
      if (results) results->push_back(t);
    }
    if (more) {
      NodeId value = pick();
      inner.result("r" + std::to_string(count++), value);
      if (results) results->push_back(type(value));
    }
    at_ = outer;
    module.functions.push_back(inner.finish());
    return name;
  }
  void structure() {
    if (module.functions.size() > 20) return;
    NodeId x = pick(), y = pick();
    const TensorType tx = type(x), ty = type(y);
    std::vector<TensorType> results;
    switch (below(3)) {
    case 0: {
      const std::string f = function({tx, ty}, {}, true, &results);
      add(b().get(b().add(CallAttr{f}, {x, y}), 0));
      return;
    }
    case 1: {
      const std::string f = function({tx, ty}, {}, true, &results), g = function({tx, ty}, results, false);
      NodeId p = fitting({DType::boolean, {}});
      add(b().get(b().add(CondAttr{f, g}, {p, x, y}), 0));
      return;
    }
    default: { // carried x, rows of a stepped value, y given
      const Expr steps = chance(20)                              ? Expr(0)
                         : chance(30) && !module.symbols.empty() ? one_of(module.symbols)
                                                                 : Expr(1 + below(4));
      Shape rows{steps};
      if (now(steps) > 12) return;
      for (int k = below(2); k > 0; --k) rows.push_back(2 + below(6));
      NodeId stepped = fitting({dtype(), rows});
      const std::string f =
          function({{DType::i64, {}}, tx, {type(stepped).dtype, Shape(rows.begin() + 1, rows.end())}, ty},
                   {tx}, true, &results);
      Shape stacked = results[1].shape;
      stacked.insert(stacked.begin(), steps);
      if (!fits(stacked)) return;
      LoopAttr loop{.body = f, .condition = "", .count = steps, .carried = 1, .stepped = 1};
      if (chance(30)) loop.condition = function({tx, ty}, {{DType::boolean, {}}}, false);
      read(b().add(loop, {x, stepped, y}), loop.condition.empty() ? 2 : 3);
    }
    }
  }

  void operation(bool entry) {
    const int kind = below(100);
    if (kind < 22) return map();
    if (kind < 44) return movement();
    if (kind < 58) return fold();
    if (kind < 62) return matmul();
    if (kind < 67) return leaf();
    if (kind < 72) return cast();
    if (kind < 75) return bitcast();
    if (kind < 82) return gather();
    if (kind < 87) return scatter();
    if (kind < 91) return sort();
    if (kind < 95) return scan();
    if (kind < 97) return void(add(b().add(FenceAttr{}, {pick()})));
    if (entry && options_.structure) return structure();
  }

  void make() {
    module.functions.reserve(64);
    const std::pair<Expr, bool> symbols[] = {{Expr::symbol("n", {1, 40}), chance(50)},
                                             {Expr::symbol("m", {0, 9}), chance(40)},
                                             {Expr::symbol("z", {2, 200}), chance(25)}};
    for (const auto& [s, used] : symbols) {
      if (!used) continue;
      module.symbols.push_back(s);
      const int64_t low = s.range().low, high = s.range().high;
      for (auto& sizes : sizes_)
        sizes[std::string(s.name())] =
            one_of(std::vector<int64_t>{low, std::max<int64_t>(low, 1), high,
                                        low + below(int(high - low + 1)), low + below(int(high - low + 1))});
    }
    std::ranges::sort(module.symbols, {}, [](Expr e) { return std::string(e.name()); });
    weights_ = one_of(std::vector<int>{0, 30, 80, 80, 100});
    FunctionBuilder builder("main", &module);
    Building building{&builder, true, {}};
    at_ = &building;
    for (int k = 0; k < 3; ++k) {
      const TensorType t{dtype(), shape()};
      add(input(t, style(t.dtype)));
    }
    for (int k = 0; k < options_.nodes; ++k) operation(true);
    const auto& values = building.values;
    std::vector<NodeId> kept;
    for (int k = 0; k < 4; ++k) {
      NodeId id = k < 2 ? values[values.size() - 1 - size_t(k)] : one_of(values);
      if (std::ranges::count(kept, id) || (k > 1 && chance(50))) continue;
      builder.result("r" + std::to_string(kept.size()), id);
      kept.push_back(id);
    }
    module.functions.push_back(builder.finish());
  }

  RandomModuleOptions options_;
  uint64_t state_;
  int weights_ = 0;
  std::map<std::string, int64_t> sizes_[2];
  std::vector<Input> inputs_;
};

} // namespace luminal::testing_ir
