// tests/ir/random_graph.h -- small random modules over all value kinds, and inputs for them.
// Include as "ir/random_graph.h".
//
//   RandomGraph g(seed, options);  g.module: verified;  g.bindings: every input and symbol bound.
// The same seed gives the same graph on every machine. Print the seed where a test fails.
#pragma once
#include "ir/interp.h"
#include <algorithm>
#include <string>
#include <vector>

namespace luminal::testing_ir {

struct RandomGraphOptions {
  int nodes = 12;           // operations, roughly
  bool integers = true;     // integer and bool values besides f32
  bool small_floats = true; // f16 and bf16 values
  bool symbols = true;      // dynamic dimensions
  bool holes = true;        // gathers
  bool places = false;      // indices of gathers are made of places and numbers, too
  bool structure = false;   // call, loop, cond
  bool sorts = true;        // sort, scan, scatter
  bool scans = false;       // scans by all monoids
  bool transcendental = true;
  bool random = true; // random nodes
};

class RandomGraph {
public:
  Module module;
  Bindings bindings;
  uint64_t seed;

  explicit RandomGraph(uint64_t seed_, const RandomGraphOptions& options_ = {})
      : seed(seed_), options(options_), state(seed_ * 2 + 1) {
    make();
  }

private:
  uint64_t next() { // splitmix64
    uint64_t x = (state += 0x9E3779B97F4A7C15u);
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
  }
  int below(int n) { return int(next() % uint64_t(n)); }
  bool chance(int percent) { return below(100) < percent; }
  template <class T> const T& one_of(const std::vector<T>& list) {
    return list[size_t(below(int(list.size())))];
  }

  Expr extent() {
    if (options.symbols && chance(25)) return one_of(module.symbols);
    return one_of(std::vector<int>{1, 2, 3, 4, 5});
  }
  Shape shape(int most = 3) {
    Shape s;
    for (int rank = below(most + 1); rank > 0; --rank) s.push_back(extent());
    return s;
  }
  DType dtype() {
    if (options.integers && chance(15)) return one_of(std::vector<DType>{DType::i32, DType::u8, DType::i64});
    if (options.small_floats && chance(15)) return one_of(std::vector<DType>{DType::f16, DType::bf16});
    return DType::f32;
  }
  int64_t value_of(Expr e) const {
    ExprMap<int64_t> bound;
    for (Expr s : module.symbols) bound[s] = bindings.symbols.at(std::string(s.name()));
    return *evaluate(e, bound);
  }

  FunctionBuilder* b = nullptr;
  std::vector<NodeId> values; // single values so far

  const TensorType& type(NodeId id) const { return (*b)[id].type(); }
  std::vector<Expr> axes(const Shape& s) {
    std::vector<Expr> list;
    for (size_t d = 0; d < s.size(); ++d) list.push_back(axis_symbol(int(d), s[d]));
    return list;
  }
  void bind(const std::string& name, const TensorType& t, double low = -2, double high = 2) {
    HostTensor data;
    data.dtype = t.dtype;
    for (Expr e : t.shape) data.shape.push_back(value_of(e));
    data.data.resize(size_t(storage_bytes(t.dtype, data.count())));
    for (int64_t i = 0; i < data.count(); ++i) {
      double v = low + (high - low) * double(below(1025)) / 1024;
      if (is_float(t.dtype))
        store_f64(t.dtype, data.data.data(), i, v);
      else
        store_i64(t.dtype, data.data.data(), i, t.dtype == DType::boolean ? below(2) : int64_t(v * 3));
    }
    bindings.inputs[name] = std::move(data);
  }
  NodeId input(const TensorType& t, double low = -2, double high = 2) {
    std::string name = "x" + std::to_string(inputs++);
    bind(name, t, low, high);
    return b->input(name, t, chance(30) ? Role::weight : Role::argument);
  }
  int inputs = 0;

  NodeId pick() { return one_of(values); }
  NodeId pick(const std::vector<DType>& types) {
    for (int attempt = 0; attempt < 8; ++attempt)
      if (NodeId id = pick(); std::find(types.begin(), types.end(), type(id).dtype) != types.end()) return id;
    return add(input({types[0], shape()}));
  }
  NodeId pick_float() { return pick({DType::f32, DType::f16, DType::bf16}); }
  NodeId add(NodeId id) {
    values.push_back(id);
    return id;
  }
  /// The value with type and shape of `like`: another value where one fits, else a new input or a
  /// broadcast scalar.
  NodeId fitting(const TensorType& like) {
    std::vector<NodeId> fit;
    for (NodeId v : values)
      if (type(v) == like) fit.push_back(v);
    if (!fit.empty() && chance(70)) return one_of(fit);
    if (chance(40)) {
      NodeId c = b->constant(like.dtype, is_float(like.dtype) ? double(below(17) - 8) / 4 : below(5));
      return add(b->view(c, like.shape, {}));
    }
    return add(input(like));
  }

  // ---- one operation each ----
  void map() {
    static const std::vector<Op> safe{Op::add, Op::sub, Op::mul, Op::neg, Op::abs, Op::min, Op::max, Op::fma};
    static const std::vector<Op> functions{Op::sin,   Op::tanh,  Op::sigmoid, Op::exp2, Op::silu,
                                           Op::floor, Op::round, Op::erf,     Op::gelu, Op::cos};
    if (options.integers && chance(15)) return compare();
    Op op = options.transcendental && chance(35) ? one_of(functions) : one_of(safe);
    NodeId x = row(op).signature == Signature::floating ? pick_float() : pick();
    if (type(x).dtype == DType::boolean) return compare();
    std::vector<NodeId> args{x};
    while (int(args.size()) < row(op).arity) args.push_back(fitting(type(x)));
    if (op == Op::exp2)
      args[0] = add(b->map(Op::min, {x, add(b->view(b->constant(type(x).dtype, 4), type(x).shape, {}))}));
    add(b->map(op, args));
  }
  void compare() {
    NodeId x = pick();
    if (type(x).dtype == DType::boolean) return void(add(b->map(Op::bit_not, {x})));
    NodeId y = fitting(type(x));
    NodeId c = add(b->map(one_of(std::vector<Op>{Op::lt, Op::le, Op::eq, Op::ne}), {x, y}));
    add(b->map(Op::select, {c, x, y}));
  }
  void cast() {
    NodeId x = pick();
    add(b->cast(x, dtype()));
  }
  void movement() {
    NodeId x = pick();
    Shape s = type(x).shape;
    switch (below(7)) {
    case 0: { // permute
      std::vector<int> order;
      for (size_t d = 0; d < s.size(); ++d)
        order.insert(order.begin() + below(int(order.size()) + 1), int(d));
      add(b->permute(x, order));
      return;
    }
    case 1: { // a new axis
      if (s.size() > 3) return;
      int at = below(int(s.size()) + 1);
      Shape wide = s;
      wide.insert(wide.begin() + at, extent());
      std::vector<int> old;
      for (int d = 0; d < int(s.size()); ++d) old.push_back(d < at ? d : d + 1);
      add(b->expand(x, wide, old));
      return;
    }
    case 2: // flatten
      add(b->reshape(x, {product(s)}));
      return;
    case 3: // pad
      if (!s.empty())
        add(b->pad(x, below(int(s.size())), below(3), below(2), is_float(type(x).dtype) ? -1.5 : 1));
      return;
    case 4: { // slice with a step
      if (s.empty()) return;
      int d = below(int(s.size()));
      if (!s[size_t(d)].is_constant() || s[size_t(d)].value() < 2) return;
      int64_t n = s[size_t(d)].value();
      bool flip = chance(30);
      add(flip ? b->slice(x, d, n - 1, n, -1) : b->slice(x, d, 1, (n - 1 + 1) / 2, 2));
      return;
    }
    case 5: { // sliding window
      if (s.empty() || s.size() > 3 || !s.back().is_constant() || s.back().value() < 3) return;
      Shape out = s;
      out.back() = s.back().value() - 1;
      out.push_back(2);
      std::vector<Expr> map = axes(out);
      Expr k = map.back();
      map.pop_back();
      map.back() = map.back() + k;
      add(b->view(x, out, map));
      return;
    }
    default: { // triangular mask
      if (s.size() < 2) return;
      std::vector<Expr> a = axes(s);
      add(b->view(x, s, a, le(a[1], a[0]), 0.25, {}));
    }
    }
  }
  /// Integers made of the places of their elements, which may leave the range.
  NodeId places_of(const Shape& s, Interval range) {
    const DType of = one_of(std::vector<DType>{DType::i32, DType::i64, DType::u8});
    const auto number = [&](int64_t n) {
      return b->view(b->constant(of, double(n)), s, std::vector<Expr>{});
    };
    NodeId at = b->iota(s, axis_symbol(0, s[0]), of);
    for (int64_t steps = 1 + below(5); steps > 0; steps--) {
      const auto op = one_of(std::vector<Op>{Op::add, Op::sub, Op::mul, Op::rem, Op::div, Op::min, Op::max,
                                             Op::abs, Op::neg, Op::select});
      if (op == Op::abs || op == Op::neg)
        at = b->map(op, {at});
      else if (op == Op::select)
        at = b->map(op, {b->map(Op::lt, {at, number(below(4))}), number(below(range.high + 2)), at});
      else
        at = b->map(op, {at, number(1 + below(range.high + 2))});
    }
    return at;
  }
  void gather() {
    NodeId x = pick();
    Shape s = type(x).shape;
    if (s.empty()) return;
    Shape rows{extent()};
    Interval range{0, value_of(s[0]) - 1};
    if (!s[0].is_constant()) range.high = s[0].range().low - 1;
    NodeId ids = options.places && chance(40) ? places_of(rows, range)
                                              : input({DType::i32, rows}, 0, double(range.high + 1) / 3);
    ViewAttr view;
    view.shape = rows;
    view.shape.insert(view.shape.end(), s.begin() + 1, s.end());
    view.map = {hole_symbol(0, range)};
    for (size_t d = 1; d < s.size(); ++d) view.map.push_back(axis_symbol(int(d), s[d]));
    view.holes = {Hole{1, {0}, range, one_of(std::vector<OutOfRange>{OutOfRange::clamp, OutOfRange::fill})}};
    view.fill = is_float(type(x).dtype) ? 0.5 : 1;
    add(b->add(view, {x, ids}));
  }
  /// A fold of one or two values over some of their axes, perhaps over a triangle.
  void fold() {
    NodeId x = pick_float();
    if (type(x).dtype != DType::f32) x = add(b->cast(x, DType::f32));
    Shape s = type(x).shape;
    if (s.empty()) return;
    std::vector<int> all, reduced;
    for (int d = 0; d < int(s.size()); ++d) {
      all.push_back(d);
      if (chance(50)) reduced.push_back(d);
    }
    if (reduced.empty()) reduced.push_back(below(int(s.size())));
    FoldAttr fold{.monoid = {}, .space = s, .reduced = reduced, .body_axes = {all}, .where = 1, .holes = {}};
    if (s.size() >= 2 && chance(25)) fold.where = le(axis_symbol(1, s[1]), axis_symbol(0, s[0]));
    std::vector<NodeId> bodies{x};
    const auto shift = [] {
      return parse_scalar("select(old0 == -inf, 0, self * exp2(old0 - new0))", {"self", "old0", "new0"});
    };
    switch (options.transcendental ? below(4) : below(2)) {
    case 0:
      fold.monoid = Monoid::plain(one_of(std::vector<Op>{Op::add, Op::max, Op::min}), DType::f32);
      break;
    case 1: // two plain results of one pass
      fold.monoid =
          Monoid::intern({{Op::add, DType::f32, Scalar::leaf(0)}, {Op::max, DType::f32, Scalar::leaf(0)}});
      bodies.push_back(fitting(type(x)));
      fold.body_axes.push_back(all);
      break;
    case 2: // online softmax
      fold.monoid = Monoid::intern({{Op::max, DType::f32, Scalar::leaf(0)}, {Op::add, DType::f32, shift()}});
      bodies.push_back(b->constant(DType::f32, 1));
      fold.body_axes.push_back({});
      break;
    default: // with a value
      fold.monoid = Monoid::intern({{Op::max, DType::f32, Scalar::leaf(0)}, {Op::add, DType::f32, shift()}});
      bodies.push_back(fitting(type(x)));
      fold.body_axes.push_back(all);
    }
    NodeId f = b->add(fold, bodies);
    for (int c = 0; c < fold.monoid.size(); ++c) add(b->get(f, c));
  }
  void matmul() {
    Expr m = extent(), n = extent(), k = extent();
    NodeId x = fitting({DType::f32, {m, k}}), y = fitting({DType::f32, {k, n}});
    NodeId wide_x = b->expand(x, {m, n, k}, {0, 2}), wide_y = b->expand(y, {m, n, k}, {2, 1});
    add(b->reduce(Op::add, b->map(Op::mul, {wide_x, wide_y}), {2}));
  }
  void scan() {
    NodeId x = pick_float();
    Shape s = type(x).shape;
    if (s.empty()) return;
    std::vector<int> all;
    for (int d = 0; d < int(s.size()); ++d) all.push_back(d);
    ScanAttr scan{.monoid = Monoid::plain(one_of(std::vector<Op>{Op::add, Op::max}), type(x).dtype),
                  .space = s,
                  .axis = below(int(s.size())),
                  .body_axes = {all}};
    scan.exclusive = scan.monoid == Monoid::plain(Op::add, type(x).dtype) && chance(30);
    scan.reverse = chance(30);
    if (options.scans) return any_scan(scan, x);
    add(b->get(b->add(scan, {x}), 0));
  }
  void any_scan(ScanAttr scan, NodeId x) {
    const auto own = Scalar::leaf(0);
    std::vector<NodeId> bodies{x};
    switch (below(4)) {
    case 0:
      scan.monoid = Monoid::plain(one_of(std::vector<Op>{Op::max, Op::min, Op::mul, Op::add}), type(x).dtype);
      break;
    case 1: {
      const NodeId zero = b->view(b->constant(type(x).dtype, 0), scan.space, {});
      bodies = {chance(50) ? b->cast(x, DType::i32) : b->map(Op::lt, {zero, x})};
      const DType t = type(bodies[0]).dtype;
      scan.monoid = Monoid::plain(chance(50) ? Op::bit_or : Op::bit_and, t);
      break;
    }
    case 2: // a second one that varies along the axis alone, or along the others
      scan.monoid = Monoid::intern({{Op::add, type(x).dtype, own}, {Op::min, DType::f32, own}});
      scan.body_axes.push_back({scan.axis});
      bodies.push_back(fitting({DType::f32, {scan.space[size_t(scan.axis)]}}));
      break;
    default: // running largest element and sum of exponentials
      if (type(x).dtype != DType::f32) bodies = {b->cast(x, DType::f32)};
      scan.monoid = Monoid::intern(
          {{Op::max, DType::f32, own},
           {Op::add, DType::f32,
            parse_scalar("select(old0 == -inf, 0, self * exp2(old0 - new0))", {"self", "old0", "new0"})}});
      bodies.push_back(b->constant(DType::f32, 1));
      scan.body_axes.push_back({});
    }
    scan.exclusive = chance(30);
    const NodeId made = b->add(scan, bodies);
    for (int c = 0; c < scan.monoid.size(); c++) add(b->get(made, c));
  }
  void sort() {
    NodeId x = pick();
    if (type(x).shape.empty() || type(x).dtype == DType::boolean) return;
    add(b->get(b->add(SortAttr{below(int(type(x).shape.size())), chance(50)}, {x}), 0));
  }
  void scatter() {
    NodeId x = pick();
    Shape s = type(x).shape;
    if (s.empty() || type(x).dtype == DType::boolean) return;
    NodeId base = fitting(type(x));
    ScatterAttr scatter;
    scatter.map = axes(s);
    if (chance(50)) {
      scatter.op = Op::add;
      Interval range{0, s[0].is_constant() ? s[0].value() - 1 : s[0].range().low - 1};
      NodeId at = input({DType::i32, {s[0]}}, 0, double(range.high + 1) / 3);
      scatter.map[0] = hole_symbol(0, range);
      scatter.holes = {Hole{2, {0}, range, OutOfRange::clamp}};
      add(b->add(scatter, {base, x, at}));
    } else {
      scatter.unique = true;
      if (s.size() > 1) scatter.predicate = le(scatter.map[0], scatter.map[1]);
      add(b->add(scatter, {base, x}));
    }
  }
  void leaf() {
    switch (below(options.random ? 4 : 3)) {
    case 0: add(input({dtype(), shape()})); return;
    case 1: {
      Shape s = shape();
      Expr e = int64_t(below(3));
      for (Expr a : axes(s)) e = e * 2 + a;
      if (chance(30)) e = mod(e, 3);
      add(b->iota(s, e, options.integers ? dtype() : DType::f32));
      return;
    }
    case 2: add(b->view(b->constant(DType::f32, double(below(9) - 4) / 2), shape(), {})); return;
    default: {
      Shape s = shape();
      Expr counter = 0;
      for (size_t d = 0; d < s.size(); ++d) counter = counter * s[d] + axis_symbol(int(d), s[d]);
      NodeId key = input({DType::u32, {2}});
      add(b->add(RandomAttr{counter, {DType::f32, s}}, {key}));
    }
    }
  }
  void structure() {
    NodeId x = pick({DType::f32});
    std::string name = "inner" + std::to_string(module.functions.size());
    TensorType t = type(x);
    bool loop = chance(50);
    FunctionBuilder inner(name, &module);
    if (loop) inner.input("t", {DType::i64, {}});
    NodeId a = inner.input("a", t), c = inner.input("c", t);
    NodeId m = inner.map(Op::mul, {a, c});
    NodeId s = inner.map(Op::tanh, {inner.map(Op::add, {m, a})});
    inner.result("s", s);
    inner.result("m", m);
    module.functions.push_back(inner.finish());
    NodeId y = fitting(t);
    NodeId node =
        loop ? b->add(LoopAttr{.body = name, .condition = "", .count = 3, .carried = 1, .stepped = 0}, {x, y})
             : b->add(CallAttr{name}, {x, y});
    add(b->get(node, 0));
    add(b->get(node, 1));
  }

  void make() {
    if (options.symbols) {
      module.symbols = {Expr::symbol("n", {1, 6}), Expr::symbol("m", {2, 4})};
      bindings.symbols = {{"n", 1 + below(6)}, {"m", 2 + below(3)}};
    }
    module.functions.reserve(64);
    FunctionBuilder builder("main", &module);
    b = &builder;
    for (int k = 0; k < 3; ++k) add(input({dtype(), shape()}));
    for (int k = 0; k < options.nodes; ++k) {
      int kind = below(100);
      if (kind < 30)
        map();
      else if (kind < 50)
        movement();
      else if (kind < 65)
        fold();
      else if (kind < 72)
        matmul();
      else if (kind < 78)
        leaf();
      else if (kind < 83)
        cast();
      else if (kind < 88 && options.holes)
        gather();
      else if (kind < 96 && options.sorts)
        one_of(std::vector<int>{0, 1, 2}) == 0 ? scan() : chance(50) ? sort() : scatter();
      else if (options.structure)
        structure();
    }
    int results = 0;
    std::vector<NodeId> last;
    for (size_t k = values.size(); k-- > 0 && results < 3;) {
      if (std::find(last.begin(), last.end(), values[k]) != last.end()) continue;
      last.push_back(values[k]);
      builder.result("r" + std::to_string(results++), values[k]);
    }
    module.functions.push_back(builder.finish());
  }

  RandomGraphOptions options;
  uint64_t state;
};

} // namespace luminal::testing_ir
