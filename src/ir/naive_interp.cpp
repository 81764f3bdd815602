// ir/naive_interp.cpp -- every kind of node, as docs/terms.md says it, in one loop each.
#include "ir/naive_interp.h"
#include "ir/access.h"
#include "ir/domains.h"
#include "ir/host_text.h"
#include "ir/naive_index.h"
#include "ir/philox.h"
#include "ir/text_names.h"
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <set>

namespace luminal {
namespace {

using Tensors = std::vector<HostTensor>;

using Scalars = RoundedDomain; // loads, casts and operations of the table on one element
using Number = Scalars::Value;

Number load(const HostTensor& t, int64_t at) { return Scalars::load(t.dtype, t.data.data(), at); }
void store(HostTensor& t, int64_t at, Number x) {
  if (is_float(t.dtype)) return store_f64(t.dtype, t.data.data(), at, x.f);
  store_i64(t.dtype, t.data.data(), at, x.i);
}
/// `type` is that of the arguments, select's that of its values.
template <class RowOrUserOp>
Number apply(const RowOrUserOp& op, DType type, Number a, Number b = {}, Number c = {}) {
  const Number* args[3] = {&a, &b, &c};
  Number out;
  Scalars::apply(op, type, 1, &out, args);
  return out;
}

/// One evaluation of one function.
struct Evaluation {
  const Module& module;
  const Function& f;
  const Bindings& bindings;
  Tensors arguments;
  IdVector<NodeId, Tensors> values = IdVector<NodeId, Tensors>(f.nodes.size()); // of each node, its results

  [[noreturn]] void fail(NodeId id, const std::string& text) const {
    throw Error(fmt::format("[{}] @{} {}: {}", to_string(f[id].kind), f.name, node_names(f)[id], text));
  }
  const HostTensor& in(NodeId id, size_t input) const { return values[f[id].inputs[input]][0]; }
  Tensors inputs(NodeId id, size_t first = 0) const {
    Tensors list;
    for (size_t k = first; k < f[id].inputs.size(); ++k) list.push_back(in(id, k));
    return list;
  }
  int64_t value(NodeId id, Expr e, const Point& axes = {}, const Point& holes = {}) const {
    try {
      return naive_index(e, bindings.symbols, axes, holes);
    } catch (const Error& error) {
      fail(id, error.what());
    }
  }
  HostTensor zeros(NodeId id, const TensorType& type) const {
    HostTensor t{type.dtype, {}, {}};
    for (Expr e : type.shape) t.shape.push_back(value(id, e));
    t.data.resize(size_t(storage_bytes(t.dtype, t.count())));
    return t;
  }
  /// Result k of a node; element(point, its position in row-major order) is each of its elements.
  template <class F> HostTensor filled(NodeId id, size_t k, F element) const {
    HostTensor t = zeros(id, f[id].types[k]);
    int64_t n = 0;
    each(t.shape, [&](const Point& p) { store(t, n, element(p, n)), ++n; });
    return t;
  }
  Number at(const HostTensor& x, const Point& p, const std::vector<int>& axes) const {
    Point q;
    for (int d : axes) q.push_back(p[size_t(d)]);
    return load(x, flat(q, x.shape));
  }
  /// Reads the holes of a node at a point. Does the point take part?
  bool inside(NodeId id, Expr condition, const Point& p, Point& holes) const {
    const std::vector<Hole>& list = holes_of(f[id].attr);
    for (size_t h = 0; h < list.size(); ++h) {
      const Hole& hole = list[h];
      const HostTensor& from = in(id, size_t(hole.input));
      // Empty along an axis that no result of the fold has: nothing reads the hole. end: of what it indexes
      int64_t v = from.count() ? at(from, p, hole.axes).i : hole.range.low, end = INT64_MAX;
      if (from.dtype == DType::u64 && v < 0) v = INT64_MAX;
      if (f[id].kind != NodeKind::fold)
        for (Expr extent : hole_extents(f[id].attr, f[f[id].inputs[0]].type().shape, h))
          end = std::min(end, value(id, extent));
      const bool good = hole.range.contains(v) && (end == INT64_MAX || (v >= 0 && v < end));
      if (!good && hole.policy == OutOfRange::error)
        fail(id, fmt::format("an index of {} is outside {}..{}", v, hole.range.low,
                             std::min(hole.range.high, end - 1)));
      if (!good && hole.policy == OutOfRange::fill) return false;
      v = std::clamp(v, hole.range.low, hole.range.high);
      holes.push_back(end == INT64_MAX ? v : std::max<int64_t>(0, std::min(v, end - 1)));
    }
    return value(id, condition, p, holes) != 0;
  }
  /// Where in x a point of a view or scatter that takes part lies.
  int64_t place(NodeId id, const std::vector<Expr>& map, const Point& p, const Point& holes) const {
    const Point& extents = in(id, 0).shape;
    Point to;
    for (Expr e : map) to.push_back(value(id, e, p, holes));
    for (size_t d = 0; d < to.size(); ++d)
      if (to[d] < 0 || to[d] >= extents[d])
        fail(id, fmt::format("reads index {} of axis {}, whose extent is {}", to[d], d, extents[d]));
    return flat(to, extents);
  }
  // ---- one function for each kind of node ----
  Tensors eval(NodeId id, const InputAttr&) {
    return {arguments[size_t(std::ranges::find(f.params, id) - f.params.begin())]};
  }
  Tensors eval(NodeId id, const ConstantAttr& a) {
    return {{a.type.dtype, zeros(id, a.type).shape, *a.data}};
  }
  Tensors eval(NodeId id, const IotaAttr& a) {
    return {filled(id, 0, [&](const Point& p, int64_t) {
      return Scalars::cast(DType::i64, a.type.dtype, {.i = value(id, a.value, p)});
    })};
  }
  Tensors eval(NodeId id, const RandomAttr& a) {
    const std::array key{uint32_t(load(in(id, 0), 0).i), uint32_t(load(in(id, 0), 1).i)};
    return {filled(id, 0, [&](const Point& p, int64_t) {
      const uint32_t word = random_word(value(id, a.counter, p), key);
      return is_float(a.type.dtype) ? Number{.f = random_uniform(word)} : Number{.i = word};
    })};
  }
  Tensors eval(NodeId id, const MapAttr& a) {
    const DType type = in(id, f[id].inputs.size() - 1).dtype;
    return {filled(id, 0, [&](const Point&, int64_t n) {
      Number x[3] = {};
      for (size_t k = 0; k < f[id].inputs.size(); ++k) x[k] = load(in(id, k), n);
      if (a.user_op.empty()) return apply(a.op, type, x[0], x[1], x[2]);
      return apply(*find_user_op(a.user_op), type, x[0], x[1], x[2]);
    })};
  }
  Tensors eval(NodeId id, const CastAttr& a) {
    const HostTensor& x = in(id, 0);
    return {filled(id, 0, [&](const Point&, int64_t n) { return Scalars::cast(x.dtype, a.to, load(x, n)); })};
  }
  Tensors eval(NodeId id, const BitcastAttr&) {
    return {{f[id].type().dtype, zeros(id, f[id].type()).shape, in(id, 0).data}};
  }
  Tensors eval(NodeId id, const ViewAttr& a) {
    return {filled(id, 0, [&](const Point& p, int64_t) {
      Point holes;
      if (!inside(id, a.predicate, p, holes)) return Scalars::from_f64(f[id].type().dtype, a.fill);
      return load(in(id, 0), place(id, a.map, p, holes));
    })};
  }
  Tensors eval(NodeId id, const ScatterAttr& a) {
    HostTensor t = in(id, 0);
    std::set<int64_t> written;
    int64_t n = 0;
    each(in(id, 1).shape, [&](const Point& p) {
      const Number x = load(in(id, 1), n++);
      Point holes;
      if (!inside(id, a.predicate, p, holes)) return;
      const int64_t to = place(id, a.map, p, holes);
      if (!written.insert(to).second && a.unique)
        fail(id, fmt::format("element {} is written twice, although unique is stated", to));
      store(t, to, a.op ? apply(*a.op, t.dtype, load(t, to), x) : x);
    });
    return {t};
  }
  /// Every component by itself, with those that it reads; each element from the points that
  /// visit(point of the space, add) calls add for.
  template <class Attr, class Visit> Tensors folded(NodeId id, const Attr& a, Visit visit) const {
    Tensors results;
    for (int c = 0; c < a.monoid.size(); ++c) {
      std::vector<int> used = a.monoid.dependencies(c), axes = result_axes(a, c);
      used.push_back(c);
      const TypedMonoid monoid(part_of(a.monoid, used));
      std::vector<Number> start, e(used.size()), work(combine_work<Scalars>(monoid));
      for (auto& part : monoid.components) start.push_back(identity_value<Scalars>(part.op, part.dtype));
      results.push_back(filled(id, size_t(c), [&](const Point& p, int64_t) {
        Point point(a.space.size(), 0); // axes that the component does not vary with stay 0
        for (size_t d = 0; d < axes.size(); ++d) point[size_t(axes[d])] = p[d];
        std::vector<Number> state = start;
        visit(point, [&] {
          for (size_t u = 0; u < used.size(); ++u)
            e[u] = at(in(id, size_t(used[u])), point, a.body_axes[size_t(used[u])]);
          combine<Scalars>(monoid, state.data(), e.data(), work.data());
        });
        return state.back();
      }));
    }
    return results;
  }
  Tensors eval(NodeId id, const FoldAttr& a) {
    Point reduced;
    for (int d : a.reduced) reduced.push_back(value(id, a.space[size_t(d)]));
    return folded(id, a, [&](Point& point, auto add) {
      each(reduced, [&](const Point& q) {
        for (size_t d = 0; d < q.size(); ++d) point[size_t(a.reduced[d])] = q[d];
        if (Point holes; inside(id, a.where, point, holes)) add();
      });
    });
  }
  Tensors eval(NodeId id, const ScanAttr& a) {
    const int64_t last = value(id, a.space[size_t(a.axis)]) - 1, step = a.reverse ? -1 : 1;
    return folded(id, a, [&](Point& point, auto add) {
      int64_t& k = point[size_t(a.axis)];
      const int64_t end = a.exclusive ? k : k + step;
      for (k = a.reverse ? last : 0; k != end; k += step) add();
    });
  }
  Tensors eval(NodeId id, const SortAttr& a) {
    const Tensors given = inputs(id);
    Tensors results = given;
    const HostTensor& keys = given[0];
    Point lines = keys.shape;
    lines[size_t(a.axis)] = std::min<int64_t>(lines[size_t(a.axis)], 1);
    each(lines, [&](Point p) {
      Point places;
      for (int64_t& k = p[size_t(a.axis)]; k < keys.shape[size_t(a.axis)]; ++k)
        places.push_back(flat(p, keys.shape));
      Point order = places;
      std::ranges::stable_sort(order, [&](int64_t first, int64_t second) {
        const Number x = load(keys, first), y = load(keys, second);
        if (is_float(keys.dtype) && (std::isnan(x.f) || std::isnan(y.f))) return !std::isnan(x.f);
        return apply(Op::lt, keys.dtype, a.descending ? y : x, a.descending ? x : y).i != 0;
      });
      for (size_t k = 0; k < given.size(); ++k)
        for (size_t n = 0; n < order.size(); ++n) store(results[k], places[n], load(given[k], order[n]));
    });
    return results;
  }
  Tensors eval(NodeId id, const CollectiveAttr&) { return {in(id, 0)}; } // of one member
  Tensors eval(NodeId id, const GetAttr& a) { return {values[f[id].inputs[0]][size_t(a.index)]}; }
  Tensors eval(NodeId id, const FenceAttr&) { return {in(id, 0)}; }
  Tensors call(const std::string& name, Tensors given) const {
    return Evaluation{module, *module.find(name), bindings, std::move(given)}.results();
  }
  Tensors eval(NodeId id, const CallAttr& a) { return call(a.function, inputs(id)); }
  Tensors eval(NodeId id, const CondAttr& a) {
    const bool holds = load(in(id, 0), 0).i != 0;
    return call(holds ? a.then_function : a.else_function, inputs(id, 1));
  }
  Tensors eval(NodeId id, const LoopAttr& a) {
    const auto carried = size_t(a.carried);
    const Tensors stepped = inputs(id, carried), fixed = inputs(id, carried + size_t(a.stepped));
    Tensors state = inputs(id), results;
    state.resize(carried);
    for (const TensorType& type : f[id].types) results.push_back(zeros(id, type));
    int64_t step = 0;
    for (const int64_t count = value(id, a.count); step < count; ++step) {
      Tensors seen = state, given{host_tensor(DType::i64, {}, std::array{double(step)})};
      seen.insert(seen.end(), fixed.begin(), fixed.end());
      if (!a.condition.empty() && !load(call(a.condition, seen)[0], 0).i) break;
      for (size_t k = 0; k < size_t(a.stepped); ++k) {
        const HostTensor& x = stepped[k];
        HostTensor row{x.dtype, {x.shape.begin() + 1, x.shape.end()}, {}};
        row.data.resize(size_t(storage_bytes(row.dtype, row.count())));
        for (int64_t n = 0; n < row.count(); ++n) store(row, n, load(x, step * row.count() + n));
        seen.insert(seen.end() - std::ssize(fixed), row);
      }
      given.insert(given.end(), seen.begin(), seen.end());
      const Tensors made = call(a.body, given);
      std::copy_n(made.begin(), carried, state.begin());
      for (size_t k = carried; k < made.size(); ++k)
        for (int64_t n = 0, rows = made[k].count(); n < rows; ++n)
          store(results[k], step * rows + n, load(made[k], n));
    }
    std::ranges::copy(state, results.begin());
    if (!a.condition.empty()) store(results.back(), 0, {.i = step});
    return results;
  }
  Tensors outside(NodeId id, const std::string& name, const std::string& text) {
    if (passes_input_on(name)) return {in(id, 0)}; // nothing is printed or written here
    const HostFunction* function = find_host_function(name);
    if (!function) fail(id, fmt::format("'{}' is not registered", name));
    return (*function)(text, inputs(id));
  }
  Tensors eval(NodeId id, const HostAttr& a) { return outside(id, a.kind, a.text); }
  Tensors eval(NodeId id, const CustomAttr& a) { return outside(id, a.name, ""); }

  Tensors results() {
    for (NodeId id : f.nodes.ids())
      values[id] = std::visit([&](const auto& attr) { return eval(id, attr); }, f[id].attr);
    Tensors list;
    for (const FunctionResult& r : f.results) list.push_back(values[r.value][0]);
    return list;
  }
};

} // namespace

std::map<std::string, HostTensor> interpret_naively(const Module& module, const Bindings& bindings) {
  const Interpreter checks(module, bindings); // Errors of what is not bound, or to another type
  const Function& entry = module.entry();
  Evaluation run{module, entry, bindings, {}};
  for (NodeId id : entry.params)
    run.arguments.push_back(bindings.inputs.at(std::get<InputAttr>(entry[id].attr).name));
  std::map<std::string, HostTensor> named;
  for (size_t k = 0; const HostTensor& result : run.results()) named[entry.results[k++].name] = result;
  return named;
}

} // namespace luminal
