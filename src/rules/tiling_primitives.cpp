// rules/tiling_primitives.cpp -- windows that slide in single steps, and tiles of their results.
#include "base/check.h"
#include "rules/interpolation.h"
#include "rules/primitives.h"
#include "rules/theory.h"
#include <algorithm>

namespace luminal::rules {

namespace {
constexpr std::array<int64_t, Interpolation::most_points - 1> finite_points{0, 1, -1, 2, -2};
} // namespace

Interpolation::Interpolation(int64_t tile, int64_t window)
    : tile_(tile), window_(window), points_(tile + window - 1) {
  LUMINAL_CHECK(tile >= 2 && window >= 2 && points_ <= most_points);
  // Row p of B: the product of x - a over the finite points a but its own one; of infinity: over all.
  for (int64_t p = 0; p < points_; ++p) {
    auto& row = samples_[size_t(p)];
    row[0] = 1;
    int64_t degree = 0, divisor = 1;
    for (int64_t l = 0; l + 1 < points_; ++l) {
      if (l == p) continue;
      const int64_t a = finite_points[size_t(l)];
      for (int64_t k = ++degree; k >= 0; --k)
        row[size_t(k)] = (k > 0 ? row[size_t(k - 1)] : 0) - a * row[size_t(k)];
      if (p + 1 < points_) divisor *= finite_points[size_t(p)] - a;
    }
    divisors_[size_t(p)] = divisor;
  }
}

/// Of infinity only the leading coefficient is not 0.
int64_t Interpolation::power(int64_t point, int64_t exponent, int64_t last) const {
  if (point + 1 == points_) return exponent == last;
  int64_t out = 1;
  for (int64_t k = 0; k < exponent; ++k) out *= finite_points[size_t(point)];
  return out;
}
int64_t Interpolation::result(int64_t point, int64_t j) const { return power(point, j, tile_ - 1); }
int64_t Interpolation::weight(int64_t point, int64_t s) const { return power(point, s, window_ - 1); }

namespace {

class TilingPrimitives : public Primitives {
public:
  using Primitives::Primitives;
  void add() {
    add_tilings();
    add_places();
    add_matrices();
  }

private:
  /// Fewer terms of the sums or filters than these: the transforms take longer than what they spare.
  static constexpr double fewest_terms = 5;

  const Info& info(Value v) const { return t_.infos[v]; }
  const Tiling& tiling(Value v) const { return t_.tilings[v]; }
  Expr symbol(AxisId a) const { return t_.axes.symbol(a); }
  static AxisSet one(AxisId a) {
    AxisSet out;
    out.insert(a);
    return out;
  }
  int64_t window_of(const Tiling& t) const { return t_.axes.extent(t.window).value(); }
  Interpolation matrices(const Tiling& t) const { return {t.tile, window_of(t)}; }
  double size(const AxisSet& set) const {
    constexpr double unknown = 512;
    double n = 1;
    set.for_each([&](AxisId a) {
      const Interval r = t_.axes.extent(a).range();
      n *= r.high == unbounded_high ? unknown : std::max<double>(1, double(r.high));
    });
    return n;
  }

  static std::vector<Expr> conjuncts(Expr condition) {
    if (condition.kind() != ExprKind::logical_and) return {condition};
    std::vector<Expr> out;
    for (const Expr part : condition.args())
      for (const Expr inner : conjuncts(part)) out.push_back(inner);
    return out;
  }

  /// Where a view reads along a window.
  struct Slide {
    AxisId read = 0; ///< of what it reads
    AxisId out = 0;
    Expr first; ///< the index is first + out + window
    /// The conditions on out and window are on their sum alone.
    std::vector<Expr> own, others;
  };
  /// The conditions at the place where out + window is `at`.
  static ExprMap<Expr> at_sum(Expr out, Expr window, Expr at) { return {{window, at - out}}; }

  std::optional<Slide> slide(const Place& w, AxisId window) const {
    if (!w.holes.empty() || (!w.predicate.is_constant(1) && w.fill != 0)) return {};
    const Expr s = symbol(window);
    if (!s.is_symbol()) return {};
    std::optional<Slide> found;
    for (const auto& [axis, e] : w.index) {
      if (!depends_on(e, s)) continue;
      const Expr rest = e - s;
      const AxisSet read = t_.axes.read_by(rest);
      if (found || depends_on(rest, s) || read.size() != 1) return {};
      found.emplace().read = axis;
      read.for_each([&](AxisId a) { found->out = a; });
      found->first = rest - symbol(found->out);
      if (!found->first.is_constant()) return {};
    }
    if (!found) return {};
    const Expr o = symbol(found->out);
    for (const auto& [axis, e] : w.index)
      if (axis != found->read && depends_on(e, o)) return {};
    const Expr sum = Expr::symbol("sum", {-(int64_t(1) << 40), int64_t(1) << 40});
    for (const Expr c : conjuncts(w.predicate)) {
      if (!depends_on(c, o) && !depends_on(c, s)) {
        found->others.push_back(c);
        continue;
      }
      const Expr moved = substitute(c, at_sum(o, s, sum));
      if (depends_on(moved, o) || depends_on(moved, s)) return {};
      found->own.push_back(moved);
    }
    for (Expr& c : found->own) c = substitute(c, {{sum, sum}});
    sum_ = sum;
    return found;
  }

  std::optional<Value> find(int64_t tile, Args a) {
    const Place w = t_.places[a[0]];
    const AxisSet over = t_.sets[a[1]];
    const Info image = info(a[2]), weights = info(a[3]);
    std::optional<Value> out;
    AxisSet stay = image.axes;
    stay -= w.replaced();
    over.for_each([&](AxisId window) {
      const Expr r = t_.axes.extent(window);
      if (out || !r.is_constant() || r.value() < 3 || tile + r.value() - 1 > Interpolation::most_points)
        return;
      const auto found = slide(w, window);
      if (!found || over.contains(found->out) || !weights.axes.contains(window) ||
          weights.axes.contains(found->out) || !image.axes.contains(found->read) || stay.contains(window) ||
          stay.contains(found->out))
        return;
      const Expr n = t_.axes.extent(found->out);
      if (!n.is_constant() || n.value() < tile) return;
      Tiling made{found->out, window, tile};
      for (uint32_t k = 0; k < t_.tilings.size() && !out; ++k)
        if (t_.tilings[k] == made) out = k;
      if (out) return;
      const int64_t points = tile + r.value() - 1;
      made.tiles = t_.axes.add(ceildiv(n, tile));
      made.within = t_.axes.add(tile);
      made.sample = t_.axes.add(points);
      made.point = t_.axes.add(points);
      out = t_.tilings.id(made);
    });
    return out;
  }

  void add_tilings() {
    for (const auto& [name, tile] : {std::pair{"tiling-two", 2}, {"tiling-four", 4}})
      make(name, {"Place", "Axes", "Info", "Info"}, "Tiling", [this, tile](Args a) { return find(tile, a); });
    guard("tiles-pay", {"Place", "Axes", "Info", "Info"}, [this](Args a) {
      const Place& w = t_.places[a[0]];
      AxisSet terms = t_.sets[a[1]], filters = info(a[3]).axes;
      filters -= terms;
      filters -= info(a[2]).axes;
      terms -= w.read(t_.axes);
      terms &= info(a[2]).axes;
      return size(terms) >= fewest_terms && size(filters) >= fewest_terms;
    });
    guard("wide", {"Info"},
          [this](Args a) { return info(a[0]).dtype == DType::f32 || info(a[0]).dtype == DType::f64; });
    make("tiling-axis", {"Tiling", "String"}, "Axes", [this](Args a) -> std::optional<Value> {
      const Tiling& t = tiling(a[0]);
      const std::string_view name = text(a[1]);
      return t_.sets.id(one(name == "sample" ? t.sample : name == "point" ? t.point : t.window));
    });
    // That the one axis is the samples or the points of.
    make("tiling-of", {"Axes"}, "Tiling", [this](Args a) -> std::optional<Value> {
      for (uint32_t k = 0; k < t_.tilings.size(); ++k)
        if (t_.sets[a[0]] == one(t_.tilings[k].sample) || t_.sets[a[0]] == one(t_.tilings[k].point)) return k;
      return {};
    });
    make("summed-with", {"Tiling", "Axes"}, "Axes", [this](Args a) -> std::optional<Value> {
      AxisSet out = t_.sets[a[1]];
      out.erase(tiling(a[0]).window);
      return out.empty() ? std::nullopt : std::optional(t_.sets.id(out));
    });
  }

  static Expr all_of(const std::vector<Expr>& conditions) {
    Expr out = 1;
    for (const Expr c : conditions) out = logical_and(out, c);
    return out;
  }

  void add_places() {
    make("tile-samples", {"Tiling", "Place"}, "Place", [this](Args a) -> std::optional<Value> {
      const Tiling t = tiling(a[0]);
      const auto found = slide(t_.places[a[1]], t.window);
      LUMINAL_CHECK(found && found->out == t.out);
      const Expr sum = symbol(t.tiles) * t.tile + symbol(t.sample), at = sum + found->first;
      Place out;
      out.index = {{found->read, at}};
      for (const Expr c : found->own)
        out.predicate = logical_and(out.predicate, substitute(c, {{sum_, sum}}));
      for (const Expr inside : {le(0, at), lt(at, t_.axes.extent(found->read))})
        if (prove(inside) != Truth::yes) out.predicate = logical_and(out.predicate, inside);
      return t_.places.id(out);
    });
    guard("untouched", {"Info", "Place"},
          [this](Args a) { return !info(a[0]).axes.intersects(t_.places[a[1]].replaced()); });
    // w of u of x where both leave zeros outside.
    make("composed-hidden", {"Place", "Place"}, "Place", [this](Args a) -> std::optional<Value> {
      const Place &w = t_.places[a[0]], &u = t_.places[a[1]];
      for (const Place* place : {&w, &u})
        if (!place->holes.empty() || (!place->predicate.is_constant(1) && place->fill != 0)) return {};
      ExprMap<Expr> at;
      for (const auto& [axis, e] : w.index)
        if (symbol(axis).is_symbol()) at[symbol(axis)] = e;
      Place out;
      for (const auto& [axis, e] : u.index) out.index.emplace_back(axis, substitute(e, at));
      out.predicate = logical_and(w.predicate, substitute(u.predicate, at));
      for (const auto& [axis, e] : w.index)
        if (!u.index_of(axis)) out.index.emplace_back(axis, e);
      std::ranges::sort(out.index, {}, &std::pair<AxisId, Expr>::first);
      return t_.places.id(out);
    });
    make("tile-results", {"Tiling"}, "Place", [this](Args a) -> std::optional<Value> {
      const Tiling t = tiling(a[0]);
      Place out;
      out.index = {{t.tiles, floordiv(symbol(t.out), t.tile)}, {t.within, mod(symbol(t.out), t.tile)}};
      return t_.places.id(out);
    });
    // What the view does along its other axes, of what was made of its samples.
    act("tile-rest", {"Tiling", "Place", "V"}, "V", [this](Args a) -> Value {
      Place out = t_.places[a[1]];
      const auto found = slide(out, tiling(a[0]).window);
      LUMINAL_CHECK(found.has_value());
      std::erase_if(out.index, [&](const auto& at) { return at.first == found->read; });
      out.predicate = all_of(found->others);
      if (out.empty()) return a[2];
      const ClassId of = a[2];
      return t_.add(t_.ops().view, {t_.places.id(out), t_.vector(std::span(&of, 1))});
    });
  }

  /// An integer for each pair of two axes' points.
  template <class F> static Expr table(Expr row, Expr column, int64_t rows, int64_t columns, F entry) {
    Expr out = 0;
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t k = 0; k < columns; ++k)
        if (const int64_t v = entry(i, k)) out = out + logical_and(eq(row, i), eq(column, k)) * v;
    return out;
  }
  Expr matrix(const Tiling& t, std::string_view name, bool only_whether) const {
    const Interpolation m = matrices(t);
    const Expr point = symbol(t.point);
    const auto value = [&](int64_t v) { return only_whether ? int64_t(v != 0) : v; };
    if (name == "B")
      return table(point, symbol(t.sample), m.points(), m.points(),
                   [&](int64_t p, int64_t q) { return value(m.sample(p, q)); });
    if (name == "G")
      return table(point, symbol(t.window), m.points(), window_of(t),
                   [&](int64_t p, int64_t s) { return value(m.weight(p, s)); });
    return table(point, symbol(t.within), m.points(), t.tile,
                 [&](int64_t p, int64_t j) { return value(m.result(p, j)); });
  }

  void add_matrices() {
    make("entry", {"Tiling", "String", "DType"}, "Iota", [this](Args a) -> std::optional<Value> {
      return t_.iotas.id({matrix(tiling(a[0]), text(a[1]), false), DType(a[2])});
    });
    // Where the entry is not 0.
    make("entry?", {"Tiling", "String"}, "Iota", [this](Args a) -> std::optional<Value> {
      return t_.iotas.id({eq(matrix(tiling(a[0]), text(a[1]), true), 1), DType::boolean});
    });
    make("divisor", {"Tiling", "DType"}, "Iota", [this](Args a) -> std::optional<Value> {
      const Tiling t = tiling(a[0]);
      const Interpolation m = matrices(t);
      Expr out = 0;
      for (int64_t p = 0; p < m.points(); ++p) out = out + eq(symbol(t.point), p) * m.divisor(p);
      return t_.iotas.id({out, DType(a[1])});
    });
  }

  mutable Expr sum_ = 0; // stands for out + window in the conditions of the last slide
};

} // namespace

void add_tiling_primitives(RegionTerms& terms) {
  const auto owner = std::make_shared<TilingPrimitives>(terms);
  terms.keep(owner);
  owner->add();
}

} // namespace luminal::rules
