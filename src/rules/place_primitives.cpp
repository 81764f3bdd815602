// rules/place_primitives.cpp -- views, positions and axes in rules.
#include "luminal/error.h"
#include "rules/primitives.h"
#include "rules/theory.h"
#include <algorithm>
#include <cmath>

namespace luminal::rules {
namespace {

class PlacePrimitives : public Primitives {
public:
  using Primitives::Primitives;
  void add() {
    add_axes();
    add_extents();
    add_places();
    add_prefixes();
    add_operations();
  }

private:
  const Info& info(Value v) const { return t_.infos[v]; }
  const AxisSet& axes(Value v) const { return t_.sets[v]; }
  Expr extent(const AxisSet& set) const {
    Expr points = 1;
    set.for_each([&](AxisId a) { points = points * t_.axes.extent(a); });
    return points;
  }
  /// About how many points a set of axes has.
  double size(const AxisSet& set) const {
    constexpr double unknown = 512;
    double n = 1;
    set.for_each([&](AxisId a) {
      const Interval r = t_.axes.extent(a).range();
      n *= r.high == unbounded_high ? unknown : std::max<double>(1, double(r.high));
    });
    return n;
  }

  void add_axes() {
    make("axes-join", {"Axes", "Axes"}, "Axes", [this](Args a) {
      AxisSet out = axes(a[0]);
      out |= axes(a[1]);
      return t_.sets.id(out);
    });
    guard("apart", {"Axes", "Axes"}, [this](Args a) { return !axes(a[0]).intersects(axes(a[1])); });
    guard("some", {"Axes"}, [this](Args a) { return !may_be_empty(t_.axes, axes(a[0])); });
    // The condition that there is a point along them, where a product with the value asks for it.
    make("when-some", {"Axes", "Info"}, "Iota", [this](Args a) -> std::optional<Value> {
      if (info(a[1]).finite) return {};
      Expr all = 1;
      axes(a[0]).for_each([&](AxisId k) { all = logical_and(all, lt(0, t_.axes.extent(k))); });
      return all.is_constant() ? std::nullopt : std::optional(t_.iotas.id({all, DType::boolean}));
    });
    // sum_k c sum_l(a b) and sum_l a sum_k(c b), by the points that both go through.
    guard("exchange-pays", {"Info", "Info", "Info", "Axes", "Axes"}, [this](Args a) {
      const AxisSet &fa = info(a[0]).axes, &fb = info(a[1]).axes, &fc = info(a[2]).axes;
      AxisSet inner_before = fa, outer_before, inner_after = fc, outer_after;
      inner_before |= fb;
      outer_before = inner_before;
      outer_before -= axes(a[4]);
      outer_before |= fc;
      inner_after |= fb;
      outer_after = inner_after;
      outer_after -= axes(a[3]);
      outer_after |= fa;
      return size(inner_after) + size(outer_after) <= size(inner_before) + size(outer_before);
    });
  }

  void add_extents() {
    guard("extent-is", {"Info", "Axes"}, [this](Args a) {
      const Info& i = info(a[0]);
      const Expr points = extent(axes(a[1]));
      if (i.number()) return points.is_constant() && *i.number() == double(points.value());
      return i.index && !points.is_constant() && *i.index == points;
    });
    guard("inverse-extent-is", {"Info", "Axes"}, [this](Args a) {
      const Info& i = info(a[0]);
      const Expr points = extent(axes(a[1]));
      return i.number() && points.is_constant() && points.value() > 0 &&
             std::fma(*i.number(), double(points.value()), -1) == 0; // of powers of two: others are rounded
    });
    guard("more-than-one", {"Axes"}, [this](Args a) {
      const Expr points = extent(axes(a[0]));
      return !points.is_constant() || points.value() > 1;
    });
  }

  void add_places() {
    guard("total", {"Place"}, [this](Args a) { return is_total(t_.places[a[0]]); });
    guard("has-holes", {"Place"}, [this](Args a) { return !t_.places[a[0]].holes.empty(); });
    // What is read does not vary with the axes that are read elsewhere.
    guard("off", {"Place", "Info"}, [this](Args a) {
      const Place& w = t_.places[a[0]];
      return is_total(w) && std::ranges::all_of(w.index, [&](const auto& at) {
               return !info(a[1]).axes.contains(at.first) && t_.axes.extent(at.first).range().low >= 1;
             });
    });
    make("narrowed", {"Place", "Info"}, "Place", [this](Args a) -> std::optional<Value> {
      Place w = t_.places[a[0]];
      const size_t before = w.index.size();
      std::erase_if(w.index, [&](const auto& at) {
        return !info(a[1]).axes.contains(at.first) && t_.axes.extent(at.first).range().low >= 1;
      });
      if (w.index.size() == before || w.empty()) return {};
      return t_.places.id(w);
    });
    // w of u of x, where w is nowhere outside and u has no holes.
    make("composed", {"Place", "Place"}, "Place", [this](Args a) -> std::optional<Value> {
      const auto p = both(t_.places[a[0]], t_.places[a[1]]);
      return p && !p->empty() ? std::optional(t_.places.id(*p)) : std::nullopt;
    });
    guard("undoes", {"Place", "Place"}, [this](Args a) {
      const auto p = both(t_.places[a[0]], t_.places[a[1]]);
      return p && p->empty();
    });
    // Of a view that reads inside of the extents even where it hides what it reads.
    make("place-condition", {"Place"}, "Iota", [this](Args a) -> std::optional<Value> {
      const Place& w = t_.places[a[0]];
      if (w.predicate.is_constant() || !w.holes.empty() || !reads_inside(w)) return {};
      return t_.iotas.id({w.predicate, DType::boolean});
    });
    make("place-inside", {"Place"}, "Place", [this](Args a) -> std::optional<Value> {
      Place w = t_.places[a[0]];
      w.predicate = 1;
      w.fill = 0;
      return w.empty() ? std::nullopt : std::optional(t_.places.id(w));
    });
    make("place-fill", {"Place"}, "f64",
         [this](Args a) { return t_.program().values().real(t_.places[a[0]].fill); });
    guard("only-hides", {"Place"}, [this](Args a) { return t_.places[a[0]].index.empty(); });
    guard("place-apart", {"Place", "Axes"}, [this](Args a) {
      const Place& w = t_.places[a[0]];
      return !w.replaced().intersects(axes(a[1])) && !w.read(t_.axes).intersects(axes(a[1]));
    });
    guard("holes-free", {"Infos", "Axes"}, [this](Args a) {
      const auto& list = t_.info_lists[a[0]].infos;
      return std::all_of(list.begin() + 1, list.end(),
                         [&](Value v) { return !info(v).axes.intersects(axes(a[1])); });
    });
    // The value does not vary with the axes at which the place reads.
    guard("free-of-place", {"Info", "Place"},
          [this](Args a) { return !info(a[0]).axes.intersects(t_.places[a[1]].read(t_.axes)); });
    // x at k = y, 0 where y is not an index: y is a hole.
    make("pick-place", {"Axes", "Info"}, "Place", [this](Args a) -> std::optional<Value> {
      const AxisSet& k = axes(a[0]);
      if (k.size() != 1 || is_float(info(a[1]).dtype) || info(a[1]).dtype == DType::boolean) return {};
      AxisId axis = 0;
      k.for_each([&](AxisId x) { axis = x; });
      const Expr n = t_.axes.extent(axis);
      if (!n.is_constant() || n.value() < 2) return {};
      Place out;
      const Interval range{0, n.value() - 1};
      out.index = {{axis, hole_symbol(0, range)}};
      out.holes = {{range, OutOfRange::fill}};
      return t_.places.id(out);
    });
  }
  bool reads_inside(const Place& w) const {
    return std::ranges::all_of(w.index, [&](const auto& at) {
      return prove(le(0, at.second)) == Truth::yes &&
             prove(lt(at.second, t_.axes.extent(at.first))) == Truth::yes;
    });
  }
  /// A view of itself is composed again and again, where nothing shows what that comes to: the size of its
  /// indices grows exponentially with their depth.
  static constexpr uint32_t most_depth = 16;
  static uint32_t depth(const Place& place) {
    uint32_t deepest = place.predicate.depth();
    for (const auto& [axis, e] : place.index) deepest = std::max(deepest, e.depth());
    return deepest;
  }
  std::optional<Place> both(const Place& w, const Place& u) const {
    if (!is_total(w) || !u.holes.empty() || depth(w) + depth(u) > most_depth) return {};
    ExprMap<Expr> at;
    for (const auto& [axis, e] : w.index)
      if (t_.axes.symbol(axis).is_symbol()) at[t_.axes.symbol(axis)] = e;
    Place out;
    try {
      for (const auto& [axis, e] : u.index) out.index.emplace_back(axis, substitute(e, at));
      out.predicate = substitute(u.predicate, at);
    } catch (const Error&) {
      return {};
    }
    for (const auto& [axis, e] : w.index)
      if (!u.index_of(axis)) out.index.emplace_back(axis, e);
    std::erase_if(out.index, [&](const auto& k) {
      return t_.axes.symbol(k.first).is_symbol() && k.second == t_.axes.symbol(k.first);
    });
    std::ranges::sort(out.index, {}, &std::pair<AxisId, Expr>::first);
    out.holes = w.holes;
    out.fill = out.predicate.is_constant(1) ? w.fill : u.fill;
    return out;
  }

  /// A condition k <= e or e <= k, where e does not vary with k and is an index of it.
  struct Prefix {
    Along along;
    Expr at;
  };
  std::optional<Prefix> prefix_of(Expr condition, const AxisSet& k) const {
    if (k.size() != 1 || condition.kind() != ExprKind::lt) return {};
    AxisId axis = 0;
    k.for_each([&](AxisId x) { axis = x; });
    const Expr symbol = t_.axes.symbol(axis), n = t_.axes.extent(axis);
    if (!symbol.is_symbol()) return {};
    const Expr above = condition.args()[1] - condition.args()[0]; // > 0
    for (const bool reverse : {false, true}) {
      const Expr e = reverse ? symbol - above + 1 : above + symbol - 1; // e <= k, k <= e
      if (depends_on(e, symbol) || t_.axes.read_by(e).empty()) continue;
      const auto inside = [&](Expr at) {
        return prove(le(0, at)) == Truth::yes && prove(lt(at, n)) == Truth::yes;
      };
      if (inside(e)) return Prefix{{axis, false, reverse}, e};
      const Expr next = reverse ? e - 1 : e + 1; // k < next, next < k
      if (inside(next)) return Prefix{{axis, true, reverse}, next};
    }
    return {};
  }
  /// Is there, whatever the other axes, a point along the one axis where the condition holds? The first and
  /// the last point are asked, and those that the other symbols of the condition count.
  bool holds_for_some(Expr condition, const AxisSet& k) const {
    if (k.size() != 1) return false;
    AxisId axis = 0;
    k.for_each([&](AxisId x) { axis = x; });
    const Expr symbol = t_.axes.symbol(axis), n = t_.axes.extent(axis);
    if (!symbol.is_symbol() || prove(lt(0, n)) != Truth::yes) return false;
    std::vector<Expr> points = symbols_of(condition);
    points.insert(points.begin(), {Expr(0), n - 1});
    return std::ranges::any_of(points, [&](Expr at) {
      return at != symbol && prove(le(0, at)) == Truth::yes && prove(lt(at, n)) == Truth::yes &&
             prove(substitute(condition, {{symbol, at}})) == Truth::yes;
    });
  }
  void add_prefixes() {
    guard("holds-for-some", {"Iota", "Axes"},
          [this](Args a) { return holds_for_some(t_.iotas[a[0]].value, axes(a[1])); });
    make("prefix-along", {"Iota", "Axes"}, "Along", [this](Args a) -> std::optional<Value> {
      const auto p = prefix_of(t_.iotas[a[0]].value, axes(a[1]));
      return p ? std::optional(t_.alongs.id(p->along)) : std::nullopt;
    });
    make("prefix-place", {"Iota", "Axes"}, "Place", [this](Args a) -> std::optional<Value> {
      const auto p = prefix_of(t_.iotas[a[0]].value, axes(a[1]));
      if (!p) return {};
      Place out;
      out.index = {{p->along.axis, p->at}};
      return t_.places.id(out);
    });
    make("negated", {"Iota"}, "Iota", [this](Args a) -> std::optional<Value> {
      const Iota iota = t_.iotas[a[0]];
      if (iota.dtype != DType::boolean || !iota.value.is_condition()) return {};
      return t_.iotas.id({logical_not(iota.value), DType::boolean});
    });
  }

  void add_operations() {
    guard("is-op", {"Payload", "String"}, [this](Args a) {
      const auto* map = std::get_if<MapAttr>(&t_.payloads[a[0]].attr);
      return map && map->user_op.empty() && luminal::to_string(map->op) == text(a[1]);
    });
    // The class is the index along the one axis.
    guard("is-index", {"Info", "Axes"}, [this](Args a) {
      const Info& i = info(a[0]);
      if (!i.index || axes(a[1]).size() != 1) return false;
      AxisId axis = 0;
      axes(a[1]).for_each([&](AxisId x) { axis = x; });
      return i.index->is_symbol() && *i.index == t_.axes.symbol(axis);
    });
    const auto arithmetic = [this](const char* name, double (*f)(double, double), auto exact) {
      make(name, {"Number", "Number"}, "Number", [this, f, exact](Args a) -> std::optional<Value> {
        const Number &x = t_.numbers[a[0]], &y = t_.numbers[a[1]];
        const double v = f(value_of(x), value_of(y));
        if (x.dtype != y.dtype || !std::isfinite(v) || !exact(value_of(x), value_of(y), v)) return {};
        const auto n = number_of(x.dtype, v);
        return n ? std::optional(t_.numbers.id(*n)) : std::nullopt;
      });
    };
    // Only where nothing is rounded.
    arithmetic(
        "sum-of", [](double x, double y) { return x + y; },
        [](double x, double y, double v) { return v - x == y && v - y == x; });
    arithmetic(
        "product-of", [](double x, double y) { return x * y; },
        [](double x, double y, double v) { return std::fma(x, y, -v) == 0; });
    make("wider", {"DType", "Info"}, "DType", [this](Args a) -> std::optional<Value> {
      const DType to{uint8_t(a[0])}, from = info(a[1]).dtype;
      if (!is_float(to) || !is_float(from) || bits(to) <= bits(from)) return {};
      return a[0];
    });
  }
};

} // namespace

void add_place_primitives(RegionTerms& terms) {
  const auto owner = std::make_shared<PlacePrimitives>(terms);
  terms.keep(owner);
  owner->add();
}

} // namespace luminal::rules
