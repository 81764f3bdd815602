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
  static constexpr int64_t largest_tile = 4;

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

  /// Where a view reads along a window: `out` are the digits of one index, the least significant first.
  struct Slide {
    std::vector<AxisId> out;
    Expr place; ///< the index
    /// Places and conditions that depend on place + window alone, for which `sum_` stands.
    std::vector<std::pair<AxisId, Expr>> index;
    std::vector<Expr> own, others;
  };

  std::optional<Slide> slide(const Place& w, AxisId window) const {
    if (!w.holes.empty() || (!w.predicate.is_constant(1) && w.fill != 0)) return {};
    const Expr s = symbol(window);
    if (!s.is_symbol()) return {};
    AxisSet digits, elsewhere;
    for (const auto& [axis, e] : w.index) (depends_on(e, s) ? digits : elsewhere) |= t_.axes.read_by(e);
    digits.erase(window);
    constexpr int most_digits = 3;
    if (digits.empty() || digits.size() > most_digits || digits.intersects(elsewhere)) return {};
    std::vector<AxisId> order;
    digits.for_each([&](AxisId a) { order.push_back(a); });
    do {
      if (auto found = slide(w, s, order)) return found;
    } while (std::ranges::next_permutation(order).found);
    return {};
  }
  std::optional<Slide> slide(const Place& w, Expr s, const std::vector<AxisId>& digits) const {
    Slide out{digits, 0, {}, {}, {}};
    Expr step = 1;
    for (const AxisId a : digits) {
      if (!t_.axes.extent(a).is_constant()) return {};
      out.place = out.place + symbol(a) * step;
      step = step * t_.axes.extent(a);
    }
    const auto depends = [&](Expr e) {
      return depends_on(e, s) ||
             std::ranges::any_of(digits, [&](AxisId a) { return depends_on(e, symbol(a)); });
    };
    const ExprMap<Expr> by_sum{{s, sum_ - out.place}};
    for (const auto& [axis, e] : w.index) {
      if (!depends(e)) continue;
      out.index.emplace_back(axis, substitute(e, by_sum));
      if (depends(out.index.back().second)) return {};
    }
    for (const Expr c : conjuncts(w.predicate)) {
      if (!depends(c)) {
        out.others.push_back(c);
        continue;
      }
      out.own.push_back(substitute(c, by_sum));
      if (depends(out.own.back())) return {};
    }
    return out;
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
      if (!found || !weights.axes.contains(window) || stay.contains(window)) return;
      Expr n = 1;
      for (const AxisId digit : found->out) {
        if (over.contains(digit) || weights.axes.contains(digit) || stay.contains(digit)) return;
        n = n * t_.axes.extent(digit);
      }
      if (std::ranges::none_of(found->index, [&](auto& at) { return image.axes.contains(at.first); }) ||
          n.value() < tile ||
          (tile < largest_tile && n.value() >= largest_tile &&
           largest_tile + r.value() - 1 <= Interpolation::most_points))
        return; // (where a larger tile goes, it takes fewer products)
      Tiling made{found->out[0], window, tile};
      for (uint32_t k = 0; k < t_.tilings.size(); ++k)
        if (t_.tilings[k] == made) {
          if (places_[k] == found->place) out = k;
          return;
        }
      constexpr size_t own_axes = 4;
      if (t_.axes.size() + own_axes > most_axes) return;
      const int64_t points = tile + r.value() - 1;
      made.tiles = t_.axes.add(ceildiv(n, tile));
      made.within = t_.axes.add(tile);
      made.sample = t_.axes.add(points);
      made.point = t_.axes.add(points);
      out = t_.tilings.id(made);
      places_.resize(*out); // of tilings of earlier regions
      places_.push_back(found->place);
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
      LUMINAL_CHECK(found && found->out[0] == t.out);
      const ExprMap<Expr> at{{sum_, symbol(t.tiles) * t.tile + symbol(t.sample)}};
      Place out;
      for (const Expr c : found->own) out.predicate = logical_and(out.predicate, substitute(c, at));
      for (const auto& [axis, e] : found->index) {
        out.index.emplace_back(axis, substitute(e, at));
        const Expr place = out.index.back().second;
        for (const Expr inside : {le(0, place), lt(place, t_.axes.extent(axis))})
          if (prove(inside) != Truth::yes) out.predicate = logical_and(out.predicate, inside);
      }
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
      const Expr place = places_[a[0]];
      out.index = {{t.tiles, floordiv(place, t.tile)}, {t.within, mod(place, t.tile)}};
      return t_.places.id(out);
    });
    // What the view does along its other axes, of what was made of its samples.
    act("tile-rest", {"Tiling", "Place", "V"}, "V", [this](Args a) -> Value {
      Place out = t_.places[a[1]];
      const auto found = slide(out, tiling(a[0]).window);
      LUMINAL_CHECK(found.has_value());
      std::erase_if(out.index, [&](const auto& at) {
        return std::ranges::any_of(found->index, [&](auto& own) { return own.first == at.first; });
      });
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

  static constexpr int64_t far_ = int64_t(1) << 40;
  const Expr sum_ = Expr::symbol("tile.sum", {-far_, far_});
  std::vector<Expr> places_; // beside the tilings: the index that is cut into tiles
};

} // namespace

void add_tiling_primitives(RegionTerms& terms) {
  const auto owner = std::make_shared<TilingPrimitives>(terms);
  terms.keep(owner);
  owner->add();
}

} // namespace luminal::rules
