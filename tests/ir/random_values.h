// tests/ir/random_values.h -- random maps, casts, movements, gathers, scatters, sorts and leaves.
#pragma once
#include "ir/random_builder.h"

namespace luminal::testing_ir {

class RandomValues : public RandomBuilder {
protected:
  using RandomBuilder::RandomBuilder;

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
    if (wide != narrow && type(x).shape.empty()) x = b().view(x, {16}, {}); // one number everywhere
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

  /// A hole that reads an index of an axis with this extent; its operand has the extents of `axes`
  /// in `space`.
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

  /// Words of monoids that the type has and that no order changes, where exact results are asked
  /// for.
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
  /// Some results of a tuple: nobody reads the others.
  void read(NodeId tuple, size_t results) {
    const int sure = below(int(results));
    for (int c = 0; c < int(results); ++c)
      if (c == sure || chance(60)) add(b().get(tuple, c));
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
    const NodeId base = pick_if(
        [](const TensorType& t) { return !t.shape.empty() && std::ranges::all_of(t.shape, nonempty); },
        {dtype(), {2 + below(60), 3}});
    if (type(base).dtype != DType::boolean && chance(30)) return sum_of_scatters(base);
    if (const NodeId y = scatter_into(base); y != base) add(y);
  }
  /// What is added to zeros in several ways, and other values, as gradients of gathers are. Floats that are
  /// added are small integers: the sum is exact in every order.
  void sum_of_scatters(NodeId x) {
    const TensorType t = type(x);
    const NodeId zeros = b().view(b().constant(t.dtype, 0), t.shape, {});
    NodeId sum = chance(50) ? x : scatter_into(zeros, Op::add);
    for (int parts = 1 + below(3); parts > 0; --parts) {
      const NodeId part = chance(80) ? scatter_into(zeros, Op::add) : fitting(t);
      sum = b().map(Op::add, {chance(50) ? sum : part, chance(50) ? part : sum});
      if (chance(15)) add(part);
    }
    add(sum);
  }
  /// The base with values written to some of its elements (of integers, where the op is given); the base
  /// itself where they would be too many.
  NodeId scatter_into(NodeId base, std::optional<Op> op = {}) {
    const TensorType t = type(base);
    const auto values = [&](const Shape& space) {
      if (!op || !is_float(t.dtype)) return fitting({t.dtype, space});
      return b().cast(fitting({DType::i8, space}), t.dtype);
    };
    const Shape& s = t.shape;
    ScatterAttr scatter;
    Shape space = s;
    std::vector<NodeId> inputs{base, base};
    if (chance(60)) { // places by holes
      const auto d = size_t(below(int(s.size())));
      space[d] = extent();
      if (!fits(space)) return base;
      inputs[1] = values(space);
      scatter.holes = {hole(s[d], space, inputs)};
      for (size_t k = 0; k < s.size(); ++k) scatter.map.push_back(axis_symbol(int(k), space[k]));
      scatter.map[d] = hole_symbol(0, scatter.holes[0].range);
    } else if (chance(50)) { // any expression
      space = shape();
      inputs[1] = values(space);
      for (Expr e : s) scatter.map.push_back(mod(index(space, 4096), e));
    } else { // each element once
      inputs[1] = values(s);
      scatter.map = axes(s);
      scatter.unique = chance(70);
    }
    if (!scatter.unique && (op || chance(60))) scatter.op = op ? *op : one_of(folding(t.dtype));
    if (chance(30)) scatter.predicate = condition(space);
    return b().add(scatter, inputs);
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
};

} // namespace luminal::testing_ir
