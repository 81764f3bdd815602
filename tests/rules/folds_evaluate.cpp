// rules/folds_evaluate.cpp -- the streaming evaluator and the plain one.
#include "folds_evaluate.h"
#include "folds_arrays.h"
#include "folds_combine.h"
#include <algorithm>
#include <fmt/format.h>

namespace luminal::egraph::folds {
namespace {

template <class T> Array<T> input(const Tensors& inputs, const ProgramNode& node) {
  const auto at = inputs.find(node.name);
  if (at == inputs.end()) throw Error(fmt::format("[folds] there is no input {}", node.name));
  LUMINAL_CHECK(at->second.axes == node.over, "axes of input {}", node.name);
  Array<T> out{at->second.axes, at->second.shape, {}};
  out.data.reserve(at->second.data.size());
  for (const double v : at->second.data) out.data.push_back(T(v));
  return out;
}

/// The place in its operand that a view reads, for given points of its axes; over the axes of its
/// terms.
Tensor places(const ProgramWindow& window,
              const std::function<std::vector<uint32_t>(uint32_t axis)>& points) {
  Tensor out = scalar<double>(double(window.offset));
  for (const auto& [axis, factor] : window.terms) {
    Tensor along{bit_of(axis), {}, {}};
    for (const uint32_t i : points(axis)) along.data.push_back(double(factor) * i);
    along.shape = {uint32_t(along.data.size())};
    const Tensor* both[] = {&out, &along};
    out = lift<double>(both, [](const double* v) { return v[0] + v[1]; });
  }
  for (double& v : out.data) v = std::floor(v / double(window.divisor));
  return out;
}

/// `x` has `axis` with one point for each of `at`; the axis becomes the axes of `at`, and what lies
/// outside of 0 .. extent is `fill`.
template <class T>
Array<T> unfolded(const Array<T>& x, const ProgramWindow& window, const Tensor& at, uint32_t extent) {
  // A grid over the axes of `at` and the others of x; each point knows its place among the points
  // of `axis`.
  Array<T> number{at.axes, at.shape, {}}, inside{at.axes, at.shape, {}};
  for (size_t i = 0; i < at.data.size(); ++i) {
    number.data.push_back(T(i));
    inside.data.push_back(T(at.data[i] >= 0 && at.data[i] < extent));
    if (inside.data.back() == 0 && !window.fill)
      throw Error(fmt::format("[folds] a view without a fill reads place {} of {}", at.data[i], extent));
  }
  const AxisSet rest = x.axes & ~bit_of(window.axis);
  LUMINAL_CHECK(!(rest & at.axes), "a view onto an axis that its operand has");
  const Array<T> first = slice(x, window.axis, 0, 1);
  const Array<T> others = squeezed(first, window.axis);
  // Offsets into x: those of the other axes plus the place times the stride of the axis.
  const size_t place = place_of(x.axes, window.axis);
  size_t stride = 1;
  for (size_t i = place + 1; i < x.shape.size(); ++i) stride *= x.shape[i];
  const size_t n = x.shape[place];
  const Array<T>* all[] = {&others, &number, &inside};
  Walk walk{std::span<const Array<T>* const>(all)};
  Array<T> out{walk.axes(), walk.shape(), {}};
  out.data.reserve(walk.points());
  for (size_t i = 0; i < walk.points(); ++i, walk.next()) {
    const size_t o = walk.offset(0), j = walk.offset(1);
    out.data.push_back(inside.data[walk.offset(2)] != 0 ? x.data[(o / stride * n + j) * stride + o % stride]
                                                        : T(*window.fill));
  }
  return out;
}

/// The arithmetic of a machine's numbers.
template <class Number> struct Floats {
  using T = Number;
  static T number(double v) { return T(v); }
  static T add(T a, T b) { return a + b; }
  static T sub(T a, T b) { return a - b; }
  static T mul(T a, T b) { return a * b; }
  static T div(T a, T b) { return a / b; }
  static T exp(T a) { return std::exp(a); }
  static T pow(T a, double p) { return std::pow(a, T(p)); }
  static T max(T a, T b) { return scalar_max(a, b); }
  static T min(T a, T b) { return scalar_min(a, b); }
  static bool equal(T a, T b) { return a == b; }
  static bool less(T a, T b) { return a < b; }
};

/// Combines states of a monoid whose components are arrays. A component's axes are those of the
/// components that it needs.
template <class T> class Combine {
public:
  Combine(const Algebra& algebra, const Monoid& m) : m_(m), combiner_(algebra) {
    for (uint32_t i = 0; i < m.size(); ++i) {
      const std::set<uint32_t> needs = algebra.needs(m, i);
      needs_.emplace_back(needs.begin(), needs.end());
    }
  }

  std::vector<Array<T>> operator()(const std::vector<Array<T>>& a, const std::vector<Array<T>>& b) const {
    std::vector<Array<T>> c;
    std::vector<T> x(m_.size()), y(m_.size()), z(m_.size());
    for (uint32_t i = 0; i < m_.size(); ++i) {
      std::vector<const Array<T>*> operands;
      for (const uint32_t j : needs_[i]) {
        operands.insert(operands.end(), {&a[j], &b[j]});
        if (j < i) operands.push_back(&c[j]);
      }
      c.push_back(lift<T>(operands, [&](const T* v) {
        for (const uint32_t j : needs_[i]) {
          x[j] = *v++;
          y[j] = *v++;
          if (j < i) z[j] = *v++;
        }
        return combiner_.component(m_, i, x, y, z, false);
      }));
    }
    return c;
  }

private:
  const Monoid& m_;
  Combiner<Floats<T>> combiner_;
  std::vector<std::vector<uint32_t>> needs_;
};

/// One level of loops: the points of some axes, and the values computed at this level.
template <class T> struct Level {
  Level* outer = nullptr;
  AxisSet axes = 0;
  std::map<uint32_t, std::vector<uint32_t>> points = {};
  std::map<uint32_t, std::vector<Array<T>>> known = {}; ///< by node
};

template <class T> class Runner {
public:
  Runner(const Program& program, const Algebra& algebra, std::span<const uint32_t> extents,
         const Tensors& inputs, uint32_t block)
      : program_(program), algebra_(algebra), extents_(extents), inputs_(inputs), block_(block) {
    for (uint32_t c = 0; c < program.nodes.size(); ++c) axes_.push_back(program.axes_of(c));
  }
  Array<T> value(uint32_t c) { return values(c, root_)[0]; }
  uint32_t outer_folds() const { return outer_folds_; }

private:
  using Tuple = std::vector<Array<T>>;

  std::vector<uint32_t> points_of(uint32_t axis, const Level<T>& at) const {
    for (const Level<T>* level = &at; level; level = level->outer)
      if (const auto found = level->points.find(axis); found != level->points.end()) return found->second;
    std::vector<uint32_t> all(extents_[axis]);
    for (uint32_t i = 0; i < all.size(); ++i) all[i] = i;
    return all;
  }
  /// The part of a value over whole axes that a level looks at.
  Array<T> within(Array<T> a, const Level<T>& at) const {
    for (AxisSet rest = a.axes; rest; rest &= rest - 1) {
      const auto axis = uint32_t(std::countr_zero(rest));
      a = taken(a, axis, points_of(axis, at));
    }
    return a;
  }

  /// Of a tuple: all components; of others: one.
  const Tuple& values(uint32_t c, Level<T>& at) {
    Level<T>* level = &at;
    while (level->outer && !(level->axes & axes_[c])) level = level->outer; // does not vary: an outer level
    if (const auto found = level->known.find(c); found != level->known.end()) return found->second;
    const ProgramNode& node = program_.nodes[c];
    Tuple made = (node.stored || node.is_static) && level->outer && node.operation != Operation::fold &&
                         node.operation != Operation::scan
                     ? Tuple{within(values(c, root_)[0], *level)}
                     : compute(node, *level);
    return level->known[c] = std::move(made);
  }
  const Array<T>& value(uint32_t c, Level<T>& at) { return values(c, at)[0]; }

  Tuple compute(const ProgramNode& node, Level<T>& at) {
    switch (node.operation) {
    case Operation::in:
    case Operation::par: return {within(input<T>(inputs_, node), at)};
    case Operation::constant: return {scalar(T(node.number))};
    case Operation::dim: {
      double n = 1;
      for (AxisSet rest = node.over; rest; rest &= rest - 1) n *= extents_[size_t(std::countr_zero(rest))];
      return {scalar(T(n))};
    }
    case Operation::iota: {
      Array<T> out{node.over, {}, {}};
      for (const uint32_t i : points_of(uint32_t(std::countr_zero(node.over)), at)) out.data.push_back(T(i));
      out.shape = {uint32_t(out.data.size())};
      return {out};
    }
    case Operation::get: return {values(node.children[0], at)[node.component]};
    case Operation::fold: {
      if (!at.outer && !node.is_static) ++outer_folds_;
      const Combine<T> combine(algebra_, node.monoid);
      return fold(node, combine, node.over, at);
    }
    case Operation::scan: return scan(node, at);
    case Operation::view: return {view(node, at)};
    case Operation::take: return {take(node, at)};
    default: {
      std::vector<const Array<T>*> operands;
      for (const uint32_t x : node.children) operands.push_back(&value(x, at));
      return {lift<T>(operands, [&](const T* v) { return apply_map(node.operation, v); })};
    }
    }
  }

  /// Folds over the axes, the first one outermost. A body is a state, and so is what the axes
  /// inside give.
  Tuple fold(const ProgramNode& node, const Combine<T>& combine, AxisSet over, Level<T>& at) {
    const auto axis = uint32_t(std::countr_zero(over));
    const AxisSet inside = over & (over - 1);
    Tuple state;
    for (const Component& component : node.monoid) state.push_back(scalar(T(identity(component.op))));
    for (uint32_t from = 0; from < extents_[axis]; from += block_) {
      const uint32_t count = std::min(block_, extents_[axis] - from);
      Level<T> level{&at, bit_of(axis)};
      for (uint32_t i = 0; i < count; ++i) level.points[axis].push_back(from + i);
      Tuple part;
      if (inside)
        part = fold(node, combine, inside, level);
      else
        for (const uint32_t x : node.children) part.push_back(value(x, level));
      for (Array<T>& a : part) a = spread(a, axis, count);
      state = combine(state, halved(std::move(part), combine, axis, count));
    }
    return state;
  }
  /// Combines neighbours along an axis until one is left.
  Tuple halved(Tuple part, const Combine<T>& combine, uint32_t axis, uint32_t count) {
    const auto cut = [&](uint32_t from, uint32_t to) {
      Tuple out;
      for (const Array<T>& a : part) out.push_back(slice(a, axis, from, to));
      return out;
    };
    while (count > 1) {
      const uint32_t half = count / 2;
      Tuple next = combine(cut(0, half), cut(half, 2 * half));
      if (count % 2) {
        const Tuple last = cut(2 * half, count);
        for (size_t i = 0; i < next.size(); ++i) next[i] = concatenated(next[i], last[i], axis);
      }
      count = half + count % 2;
      part = std::move(next);
    }
    for (Array<T>& a : part) a = squeezed(std::move(a), axis);
    return part;
  }

  /// Every prefix along the whole axis, then the points that the loops look at.
  Tuple scan(const ProgramNode& node, Level<T>& at) {
    const auto axis = uint32_t(std::countr_zero(node.over));
    LUMINAL_CHECK(node.over == bit_of(axis), "a scan over one axis");
    const Combine<T> combine(algebra_, node.monoid);
    Level<T> level{&at, bit_of(axis)};
    for (uint32_t i = 0; i < extents_[axis]; ++i) level.points[axis].push_back(i);
    Tuple part, state, out;
    for (const uint32_t x : node.children) part.push_back(spread(value(x, level), axis, extents_[axis]));
    for (uint32_t i = 0; i < extents_[axis]; ++i) {
      Tuple element;
      for (const Array<T>& a : part) element.push_back(squeezed(slice(a, axis, i, i + 1), axis));
      state = i ? combine(state, element) : element;
      for (size_t k = 0; k < state.size(); ++k) {
        const Array<T> along = spread(state[k], axis, 1);
        if (i)
          out[k] = concatenated(out[k], along, axis);
        else
          out.push_back(along);
      }
    }
    const auto points = points_of(axis, at);
    for (Array<T>& a : out) a = taken(a, axis, points);
    return out;
  }

  Array<T> view(const ProgramNode& node, Level<T>& at) {
    const ProgramWindow& window = node.window;
    if (!(axes_[node.children[0]] & bit_of(window.axis))) return value(node.children[0], at);
    const Tensor where = places(window, [&](uint32_t axis) { return points_of(axis, at); });
    Level<T> level{&at, bit_of(window.axis)};
    const uint32_t extent = extents_[window.axis];
    for (const double p : where.data)
      level.points[window.axis].push_back(uint32_t(std::clamp(p, 0.0, double(extent - 1))));
    const Array<T>& x = value(node.children[0], level);
    return x.axes & bit_of(window.axis) ? unfolded(x, window, where, extent) : x;
  }

  Array<T> take(const ProgramNode& node, Level<T>& at) {
    const auto axis = uint32_t(std::countr_zero(node.over));
    Level<T> level{&at, bit_of(axis)};
    for (uint32_t i = 0; i < extents_[axis]; ++i) level.points[axis].push_back(i);
    const Array<T>& index = value(node.children[0], at);
    const Array<T> x = spread(value(node.children[1], level), axis, extents_[axis]);
    Array<T> out;
    for (uint32_t i = 0; i < extents_[axis]; ++i) {
      const Array<T> element = squeezed(slice(x, axis, i, i + 1), axis);
      const Array<T>* all[] = {&index, &element, &out};
      out = lift<T>(all, [&](const T* v) { return v[0] == T(i) ? v[1] : v[2]; });
    }
    return out;
  }

  const Program& program_;
  const Algebra& algebra_;
  std::span<const uint32_t> extents_;
  const Tensors& inputs_;
  uint32_t block_, outer_folds_ = 0;
  std::vector<AxisSet> axes_;
  Level<T> root_;
};

template <class T>
Outcome run_as(const Program& program, const Algebra& algebra, std::span<const uint32_t> extents,
               const Tensors& inputs, uint32_t block) {
  Runner<T> runner(program, algebra, extents, inputs, block);
  Outcome out;
  for (const uint32_t root : program.roots) {
    const Array<T> a = runner.value(root);
    out.values.push_back({a.axes, a.shape, {a.data.begin(), a.data.end()}});
  }
  out.outer_folds = runner.outer_folds();
  return out;
}

/// Values over whole axes, folds of one component.
class Plain {
public:
  Plain(const Program& program, std::span<const uint32_t> extents, const Tensors& inputs)
      : program_(program), extents_(extents), inputs_(inputs) {}

  const Tensor& value(uint32_t c) {
    if (const auto at = known_.find(c); at != known_.end()) return at->second;
    return known_[c] = compute(program_.nodes[c]);
  }

private:
  std::vector<uint32_t> all(uint32_t axis) const {
    std::vector<uint32_t> out(extents_[axis]);
    for (uint32_t i = 0; i < out.size(); ++i) out[i] = i;
    return out;
  }

  Tensor compute(const ProgramNode& node) {
    switch (node.operation) {
    case Operation::in:
    case Operation::par: return input<double>(inputs_, node);
    case Operation::constant: return scalar(node.number);
    case Operation::dim: {
      double n = 1;
      for (AxisSet rest = node.over; rest; rest &= rest - 1) n *= extents_[size_t(std::countr_zero(rest))];
      return scalar(n);
    }
    case Operation::iota: {
      const auto axis = uint32_t(std::countr_zero(node.over));
      Tensor out{node.over, {extents_[axis]}, {}};
      for (const uint32_t i : all(axis)) out.data.push_back(i);
      return out;
    }
    case Operation::get: {
      const ProgramNode& tuple = program_.nodes[node.children[0]];
      LUMINAL_CHECK(tuple.monoid.size() == 1 && node.component == 0, "plain folds have one component");
      Tensor x = value(tuple.children[0]);
      for (AxisSet rest = tuple.over; rest; rest &= rest - 1)
        x = reduced(x, uint32_t(std::countr_zero(rest)), tuple.monoid[0].op,
                    tuple.operation == Operation::scan);
      return x;
    }
    case Operation::view: {
      const Tensor& x = value(node.children[0]);
      const ProgramWindow& window = node.window;
      if (!(x.axes & bit_of(window.axis))) return x;
      const Tensor where = places(window, [&](uint32_t axis) { return all(axis); });
      std::vector<uint32_t> points;
      for (const double p : where.data)
        points.push_back(uint32_t(std::clamp(p, 0.0, double(extents_[window.axis] - 1))));
      return unfolded(taken(x, window.axis, points), window, where, extents_[window.axis]);
    }
    case Operation::take:
    case Operation::fold:
    case Operation::scan: LUMINAL_CHECK(false, "no part of a formula as it is written"); return {};
    default: {
      std::vector<const Tensor*> operands;
      for (const uint32_t x : node.children) operands.push_back(&value(x));
      return lift<double>(operands, [&](const double* v) { return apply_map(node.operation, v); });
    }
    }
  }

  Tensor reduced(const Tensor& a, uint32_t axis, Op op, bool prefixes) const {
    const Tensor x = spread(a, axis, extents_[axis]);
    const size_t place = place_of(x.axes, axis);
    size_t before = 1, after = 1;
    for (size_t i = 0; i < place; ++i) before *= x.shape[i];
    for (size_t i = place + 1; i < x.shape.size(); ++i) after *= x.shape[i];
    const size_t n = x.shape[place];
    Tensor out = x;
    for (size_t b = 0; b < before; ++b)
      for (size_t f = 0; f < after; ++f) {
        double sum = identity(op);
        for (size_t i = 0; i < n; ++i) {
          const double v = x.data[(b * n + i) * after + f];
          sum = op == Op::sum ? sum + v : op == Op::max ? scalar_max(sum, v) : scalar_min(sum, v);
          out.data[(b * n + i) * after + f] = sum;
        }
      }
    if (prefixes) return out;
    return squeezed(slice(out, axis, uint32_t(n) - 1, uint32_t(n)), axis);
  }

  const Program& program_;
  std::span<const uint32_t> extents_;
  const Tensors& inputs_;
  std::map<uint32_t, Tensor> known_;
};

} // namespace

Outcome run(const Program& program, const Algebra& algebra, std::span<const uint32_t> extents,
            const Tensors& inputs, Precision precision, uint32_t block) {
  return precision == Precision::single ? run_as<float>(program, algebra, extents, inputs, block)
                                        : run_as<double>(program, algebra, extents, inputs, block);
}

std::vector<Tensor> run_plainly(const Program& program, std::span<const uint32_t> extents,
                                const Tensors& inputs) {
  Plain plain(program, extents, inputs);
  std::vector<Tensor> out;
  for (const uint32_t root : program.roots) out.push_back(plain.value(root));
  return out;
}

} // namespace luminal::egraph::folds
