// rules/facts.cpp -- the facts of terms from those of their operands.
#include "rules/facts.h"
#include "base/check.h"
#include "base/hash.h"
#include "base/infinity.h"
#include "ir/domains.h"
#include "ir/user_ops.h"
#include "luminal/error.h"
#include "rules/region_terms.h"
#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace luminal::rules {
namespace {

/// The nearest mark that is not above, and the nearest that is not below.
double low_mark(double v) {
  if (v > 0) return v >= 1 ? 1 : v >= far_above_zero ? far_above_zero : above_zero;
  return v >= 0 ? 0 : v >= -1 ? -1 : -infinity;
}
double high_mark(double v) { return v <= -1 ? -1 : v <= 0 ? 0 : v <= 1 ? 1 : infinity; }

struct Bounds {
  double low = -infinity, high = infinity;
};
Bounds of(const Info& i) { return {i.low, i.high}; }
double product(double a, double b) {
  return a == 0 || b == 0 ? 0 : a * b;
} // 0 times an unknown finite number

Bounds times(Bounds a, Bounds b) {
  const double ends[] = {product(a.low, b.low), product(a.low, b.high), product(a.high, b.low),
                         product(a.high, b.high)};
  const auto [low, high] = std::ranges::minmax(ends);
  // A product of small numbers may be rounded to 0, one of numbers from 1 on is not.
  return {low > 0 && low < 1 ? 0 : low, high};
}

/// Of a row with floating operands. Rounding keeps the order of values, so bounds that a type can hold are
/// kept by it.
Bounds bounds_of(Op op, FactMaker::Operands xs) {
  const Bounds a = of(*xs[0]), b = xs.size() > 1 ? of(*xs[1]) : Bounds{};
  switch (op) {
  case Op::neg: return {-a.high, -a.low};
  case Op::abs: return {std::max({a.low, -a.high, 0.0}), std::max(std::fabs(a.low), std::fabs(a.high))};
  case Op::add: return {a.low + b.low, a.high + b.high};
  case Op::sub: return {a.low - b.high, a.high - b.low};
  case Op::mul: return times(a, b);
  case Op::max: return {std::max(a.low, b.low), std::max(a.high, b.high)};
  case Op::min: return {std::min(a.low, b.low), std::min(a.high, b.high)};
  case Op::exp:
  case Op::exp2: return {a.low >= 0 ? 1 : 0.0, a.high <= 0 ? 1 : infinity}; // it underflows
  case Op::sqrt: return {a.low > 0 ? std::min(a.low, 1.0) : 0, a.high <= 1 ? 1 : infinity};
  case Op::recip:
  case Op::rsqrt: return {a.low >= 0 ? 0 : -infinity, a.low >= 1 ? 1 : infinity};
  case Op::div:
    if (a.low >= 0 && b.low >= 0) return {0, a.high <= 1 && b.low >= 1 ? 1 : infinity};
    return {};
  case Op::sigmoid: return {0, 1};
  case Op::tanh:
  case Op::erf: return {a.low >= 0 ? 0 : -1.0, a.high <= 0 ? 0 : 1.0};
  case Op::sin:
  case Op::cos:
  case Op::sign: return {-1, 1};
  case Op::softplus: return {0, infinity};
  case Op::log:
  case Op::log2: return {a.low >= 1 ? 0 : -infinity, a.high <= 1 ? 0 : infinity};
  case Op::select: return {std::min(xs[1]->low, xs[2]->low), std::max(xs[1]->high, xs[2]->high)};
  case Op::lt:
  case Op::le:
  case Op::eq:
  case Op::ne:
  case Op::is_nan: return {0, 1};
  default: return {};
  }
}

/// Of a row with floating operands that are finite themselves, overflows aside.
bool stays_finite(Op op, FactMaker::Operands xs) {
  const Bounds a = of(*xs[0]);
  switch (op) {
  case Op::recip:
  case Op::rsqrt:
  case Op::log:
  case Op::log2: return a.low > 0;
  case Op::sqrt: return a.low >= 0;
  case Op::div: return xs[1]->low > 0 || xs[1]->high < 0;
  case Op::neg:
  case Op::abs:
  case Op::sign:
  case Op::floor:
  case Op::ceil:
  case Op::trunc:
  case Op::round:
  case Op::add:
  case Op::sub:
  case Op::mul:
  case Op::fma:
  case Op::max:
  case Op::min:
  case Op::select:
  case Op::exp:
  case Op::exp2:
  case Op::expm1:
  case Op::sin:
  case Op::cos:
  case Op::tanh:
  case Op::erf:
  case Op::sigmoid:
  case Op::silu:
  case Op::gelu:
  case Op::gelu_tanh:
  case Op::softplus: return true;
  default: return false;
  }
}

/// Is the result of the size of an operand, of its reciprocal, or of a multiple?
bool keeps_scale(Op op) {
  return op == Op::neg || op == Op::abs || op == Op::add || op == Op::sub || op == Op::mul || op == Op::div ||
         op == Op::max || op == Op::min || op == Op::recip;
}

void set_bounds(Info& info, Bounds b) {
  info.low = std::isnan(b.low) ? -infinity : low_mark(b.low);
  info.high = std::isnan(b.high) ? infinity : high_mark(b.high);
}
void set_constant(Info& info, const Number& n) {
  info.constant = n;
  const double v = value_of(n);
  set_bounds(info, {v, v});
  info.magnitude = magnitude_of(v);
  info.finite = std::isfinite(v);
}

void join(Info& into, const Info& other) {
  into.axes |= other.axes;
  into.fixed = into.fixed && other.fixed;
  into.finite = into.finite && other.finite;
  for (const AxisPasses& p : other.passes) {
    const auto at = std::ranges::lower_bound(into.passes, p.axis, {}, &AxisPasses::axis);
    if (at == into.passes.end() || at->axis != p.axis)
      into.passes.insert(at, p);
    else
      at->count = std::max(at->count, p.count);
  }
}
Info joined(FactMaker::Operands xs) {
  Info out;
  out.finite = true;
  for (const Info* x : xs) join(out, *x);
  return out;
}

using Rounded = RoundedDomain;
Rounded::Value loaded(const Number& n) {
  Rounded::Value v{};
  if (is_float(n.dtype))
    v.f = std::bit_cast<double>(n.bits);
  else
    v.i = int64_t(n.bits);
  return v;
}
Number stored(DType type, const Rounded::Value& v) {
  return {type, is_float(type) ? std::bit_cast<uint64_t>(v.f) : uint64_t(v.i)};
}
/// What the interpreter makes of constants, where it is exact and finite.
std::optional<Number> fold_constants(Op op, DType result, FactMaker::Operands xs) {
  Rounded::Value values[3] = {};
  const Rounded::Value* args[3] = {};
  for (size_t k = 0; k < xs.size(); ++k) {
    if (!xs[k]->constant || !std::isfinite(value_of(*xs[k]->constant))) return {};
    values[k] = loaded(*xs[k]->constant);
    args[k] = &values[k];
  }
  Rounded::Value out{};
  Rounded::apply(op, xs.back()->dtype, 1, &out, args);
  const Number made = stored(result, out);
  if (!is_float(xs.back()->dtype)) return made;
  // A sum, product or quotient that is rounded stays a term: its exact value may still cancel.
  Exact exact[3] = {};
  for (size_t k = 0; k < xs.size(); ++k) exact[k] = exact_from(value_of(*xs[k]->constant));
  const Exact want = apply_exact(op, exact);
  if (want.kind != Exact::Kind::finite || !exact_equal(want, exact_from(value_of(made)))) return {};
  return made;
}

/// Whether every value of an integer expression is one of the type.
bool holds(DType type, Expr e) {
  const Interval r = e.range();
  if (type == DType::boolean) return r.low >= 0 && r.high <= 1;
  if (is_float(type)) {
    const double most = 1 / unit_roundoff(type); // up to here every integer is a number of the type
    return r.is_bounded() && double(r.low) >= -most && double(r.high) <= most;
  }
  const int width = bits(type);
  if (!r.is_bounded()) return false;
  if (!is_signed(type)) return r.low >= 0 && (width == 64 || r.high < int64_t(1) << width);
  return width == 64 || (r.low >= -(int64_t(1) << (width - 1)) && r.high < int64_t(1) << (width - 1));
}

std::optional<Expr> index_of_map(Op op, FactMaker::Operands xs) {
  for (const Info* x : xs)
    if (!x->index) return {};
  const Expr a = *xs[0]->index, b = xs.size() > 1 ? *xs[1]->index : Expr(0);
  switch (op) {
  case Op::add: return a + b;
  case Op::sub: return a - b;
  case Op::mul: return a * b;
  case Op::neg: return -a;
  case Op::min: return min(a, b);
  case Op::max: return max(a, b);
  case Op::div: return b.range().low > 0 ? std::optional(floordiv(a, b)) : std::nullopt;
  case Op::rem: return b.range().low > 0 ? std::optional(mod(a, b)) : std::nullopt;
  case Op::lt: return lt(a, b);
  case Op::le: return le(a, b);
  case Op::eq: return eq(a, b);
  case Op::ne: return ne(a, b);
  case Op::bit_and: return xs[0]->dtype == DType::boolean ? std::optional(logical_and(a, b)) : std::nullopt;
  case Op::bit_or: return xs[0]->dtype == DType::boolean ? std::optional(logical_or(a, b)) : std::nullopt;
  case Op::bit_xor: return xs[0]->dtype == DType::boolean ? std::optional(ne(a, b)) : std::nullopt;
  case Op::bit_not: return xs[0]->dtype == DType::boolean ? std::optional(logical_not(a)) : std::nullopt;
  default: return {};
  }
}
void set_index(Info& info, std::optional<Expr> e) {
  if (!e || !holds(info.dtype, *e)) return;
  info.index = e;
  if (!e->is_constant()) return;
  const int64_t v = e->value();
  set_constant(info, {info.dtype, is_float(info.dtype) ? std::bit_cast<uint64_t>(double(v)) : uint64_t(v)});
}

} // namespace

bool may_be_empty(const AxisTable& axes, const AxisSet& over) {
  bool out = false;
  over.for_each([&](AxisId a) { out |= axes.extent(a).range().low < 1; });
  return out;
}
double most_points(const AxisTable& axes, const AxisSet& over) {
  double out = 1;
  over.for_each([&](AxisId a) {
    const Interval r = axes.extent(a).range();
    out *= r.high == unbounded_high ? 0x1p63 : std::max(1.0, double(r.high));
  });
  return out;
}

double value_of(const Number& n) {
  return is_float(n.dtype) ? std::bit_cast<double>(n.bits) : integer_to_f64(n.dtype, int64_t(n.bits));
}
std::optional<Number> number_of(DType type, double value) {
  if (is_float(type)) {
    if (!std::isnan(value) && round_to(type, value) != value) return {};
    return Number{type, std::bit_cast<uint64_t>(value)};
  }
  if (!std::isfinite(value) || std::fabs(value) > 0x1p53) return {};
  const auto integer = int64_t(value);
  if (double(integer) != value || wrap(type, integer) != integer) return {};
  return Number{type, uint64_t(integer)};
}

bool has_wide_exponents(DType type) {
  return type == DType::f64 || type == DType::f32 || type == DType::bf16;
}
bool divides_safely(const Info& divisor) {
  if (divisor.index) return true;
  const int most = divisor.dtype == DType::f64 ? 1016 : has_wide_exponents(divisor.dtype) ? 120 : 8;
  return divisor.reach().below <= most;
}

uint64_t Info::hash() const {
  uint64_t h = hash_mix(axes.hash(), uint64_t(dtype) * 4 + uint64_t(fixed) * 2 + uint64_t(finite));
  h = hash_mix(hash_mix(h, std::bit_cast<uint64_t>(low)), std::bit_cast<uint64_t>(high));
  h = hash_mix(h, uint64_t(magnitude.below) << 16 | uint64_t(magnitude.above));
  if (constant) h = hash_mix(h, constant->hash());
  if (index) h = hash_mix(h, index->id());
  for (const AxisPasses& p : passes) h = hash_mix(h, uint64_t(p.axis) << 8 | p.count);
  return extremum.empty() ? h : hash_mix(h, extremum.hash());
}
std::optional<double> Info::number() const {
  return constant ? std::optional(value_of(*constant)) : std::nullopt;
}
uint64_t InfoList::hash() const {
  uint64_t h = infos.size();
  for (const Value v : infos) h = hash_mix(h, v);
  return h;
}
bool Info::flat(const AxisSet& over) const {
  return std::ranges::none_of(passes, [&](const AxisPasses& p) { return over.contains(p.axis); });
}
int Info::passes_over(AxisId axis) const {
  for (const AxisPasses& p : passes)
    if (p.axis == axis) return p.count;
  return 0;
}
int Info::depth() const {
  int most = 0;
  for (const AxisPasses& p : passes) most = std::max(most, int(p.count));
  return most;
}

std::string to_string(const Info& info) {
  std::string out = fmt::format("(info {}", luminal::to_string(info.dtype));
  info.axes.for_each([&](AxisId a) { out += fmt::format(" {}", a); });
  for (const AxisPasses& p : info.passes) out += fmt::format(" {}:{}", p.axis, p.count);
  if (info.low > -infinity)
    out += info.low == above_zero       ? std::string(" > 0")
           : info.low == far_above_zero ? std::string(" > 2^-64")
                                        : fmt::format(" >= {}", info.low);
  if (info.high < infinity) out += fmt::format(" <= {}", info.high);
  if (info.fixed) out += " fixed";
  if (info.finite) out += " finite";
  info.extremum.for_each([&](AxisId a) { out += fmt::format(" extremum:{}", a); });
  if (info.constant) out += fmt::format(" = {}", value_of(*info.constant));
  if (info.index) out += fmt::format(" index \"{}\"", luminal::to_string(*info.index));
  return out + ")";
}

Info meet(const Info& a, const Info& b) {
  Info out = a;
  out.axes &= b.axes;
  out.extremum |= b.extremum;
  out.fixed = a.fixed || b.fixed;
  out.finite = a.finite || b.finite;
  out.low = std::max(a.low, b.low);
  out.high = std::min(a.high, b.high);
  out.magnitude = meet(a.magnitude, b.magnitude);
  if (!out.constant || (b.constant && b.constant->bits < a.constant->bits)) // zeros of either sign
    out.constant = b.constant ? b.constant : out.constant;
  if (!out.index || (b.index && ExprLess()(*b.index, *a.index))) out.index = b.index ? b.index : out.index;
  std::erase_if(out.passes, [&](AxisPasses& p) {
    p.count = uint8_t(std::min<int>(p.count, b.passes_over(p.axis)));
    return p.count == 0;
  });
  return out;
}

Info FactMaker::leaf(Value v) const {
  const Leaf& leaf = t_.leaves[v];
  Info out;
  out.axes = leaf.form.set();
  out.dtype = leaf.dtype;
  out.fixed = leaf.fixed;
  out.finite = !is_float(leaf.dtype);
  return out;
}
Info FactMaker::number(Value v) const {
  Info out;
  const Number& n = t_.numbers[v];
  out.dtype = n.dtype;
  set_constant(out, n);
  if (!is_float(n.dtype) && n.dtype != DType::u64) out.index = Expr(int64_t(n.bits));
  return out;
}
Info FactMaker::iota(Value v) const {
  const Iota& iota = t_.iotas[v];
  Info out;
  out.axes = t_.axes.read_by(iota.value);
  out.dtype = iota.dtype;
  out.finite = true;
  const Interval r = iota.value.range();
  if (holds(iota.dtype, iota.value))
    set_bounds(out, {r.low == unbounded_low ? -infinity : double(r.low),
                     r.high == unbounded_high ? infinity : double(r.high)});
  out.magnitude = magnitude_of(DType::i64);
  set_index(out, iota.value);
  return out;
}
Info FactMaker::extent(DType type) const {
  Info out;
  out.dtype = type;
  out.finite = true;
  out.low = 0;
  out.magnitude = magnitude_of(DType::i64);
  return out;
}

Info FactMaker::cast(DType to, const Info& x) const {
  Info out = x;
  out.dtype = to;
  out.magnitude = is_float(to) ? x.reach() : Magnitude();
  out.constant.reset();
  out.index.reset();
  if (to == DType::boolean)
    set_bounds(out, {0, 1});
  else if (!is_float(to)) // it may wrap
    set_bounds(out, x.dtype == DType::boolean ? Bounds{0, 1} : Bounds{});
  else if (out.low == above_zero || (out.low == far_above_zero && !has_wide_exponents(to)))
    out.low = 0; // it may be rounded to 0
  if (!is_float(to)) out.finite = true;
  if (x.index && to != DType::boolean) set_index(out, x.index);
  if (x.constant && (is_float(to) || std::isfinite(value_of(*x.constant)))) {
    const Number made = stored(to, Rounded::cast(x.dtype, to, loaded(*x.constant)));
    if (!is_float(to) || value_of(made) == value_of(*x.constant)) set_constant(out, made);
  }
  return out;
}

Info FactMaker::row(Op op, Operands xs) const {
  Info out = joined(xs);
  if (keeps_scale(op))
    for (const Info* x : xs) out.extremum |= x->extremum;
  DType types[3] = {};
  for (size_t k = 0; k < xs.size(); ++k) types[k] = xs[k]->dtype;
  out.dtype = result_type(luminal::row(op), types).value_or(xs.back()->dtype);
  if (is_float(xs.back()->dtype)) {
    set_bounds(out, bounds_of(op, xs));
    out.magnitude = magnitude_of_row(op, xs);
  }
  out.finite = !is_float(out.dtype) || (out.finite && stays_finite(op, xs));
  if (op != Op::select) {
    if (const auto n = fold_constants(op, out.dtype, xs)) set_constant(out, *n);
    if (!is_float(xs.back()->dtype)) set_index(out, index_of_map(op, xs));
  }
  return out;
}
Info FactMaker::square(const Info& x) const {
  const Info* xs[] = {&x, &x};
  Info out = row(Op::mul, xs);
  out.low = std::max(out.low, 0.0);
  return out;
}

Info FactMaker::op(Value payload, Operands xs) const {
  const Attr& attr = t_.payloads[payload].attr;
  if (const auto* bitcast = std::get_if<BitcastAttr>(&attr)) {
    Info out = joined(xs);
    out.finite = false;
    out.dtype = bitcast->to;
    return out;
  }
  const auto& map = std::get<MapAttr>(attr);
  if (map.user_op.empty()) return row(map.op, xs);
  Info out = joined(xs);
  out.finite = false;
  DType types[8] = {};
  for (size_t k = 0; k < xs.size() && k < 8; ++k) types[k] = xs[k]->dtype;
  if (const UserOp* user = find_user_op(map.user_op))
    out.dtype = result_type(user->signature, user->arity, types).value_or(xs.back()->dtype);
  return out;
}

Info FactMaker::view(Value v, Operands xs) const {
  const Place& place = t_.places[v];
  Info out = *xs[0];
  out.axes -= place.replaced();
  out.axes |= place.read(t_.axes);
  Info rest;
  rest.finite = true;
  for (const Info* x : xs.subspan(1)) join(rest, *x);
  join(out, rest);
  const bool total = is_total(place);
  out.index.reset();
  if (!total) {
    out.constant.reset();
    out.low = low_mark(std::min(out.low, place.fill));
    out.high = high_mark(std::max(out.high, place.fill));
    out.magnitude = either(xs[0]->reach(), magnitude_of(place.fill));
    out.finite = out.finite && std::isfinite(place.fill);
    if (std::isnan(place.fill)) out.low = -infinity, out.high = infinity;
  } else if (xs[0]->index && place.holes.empty()) {
    ExprMap<Expr> at;
    for (const auto& [axis, e] : place.index)
      if (t_.axes.symbol(axis).is_symbol()) at[t_.axes.symbol(axis)] = e;
    set_index(out, substitute(*xs[0]->index, at));
  }
  return out;
}

Info FactMaker::result(int component, Value monoid, Value set, Operands bodies) const {
  const Monoid m = t_.monoid_of(monoid);
  const MonoidComponent& c = m.components()[size_t(component)];
  const AxisSet& over = t_.sets[set];
  Info out = *bodies[size_t(component)];
  out.constant.reset();
  out.index.reset();
  out.magnitude = {};
  out.extremum = c.op == Op::max || c.op == Op::min ? over : AxisSet();
  for (const int j : m.dependencies(component)) join(out, *bodies[size_t(j)]);
  out.axes -= over;
  out.dtype = c.dtype;
  over.for_each([&](AxisId a) {
    Info pass;
    pass.finite = true;
    pass.passes = {{a, uint8_t(std::min(out.passes_over(a) + 1, 255))}};
    join(out, pass);
  });
  Bounds bounds;
  const Bounds b = of(*bodies[size_t(component)]);
  const bool plain = c.transform.is_leaf(0), sums = c.op == Op::add || c.op == Op::mul;
  out.finite = !is_float(c.dtype) || (out.finite && plain && (sums || !may_be_empty(t_.axes, over)));
  if (is_float(c.dtype) && plain) {
    const bool empty = may_be_empty(t_.axes, over);
    if (c.op == Op::add)
      bounds = {b.low < 0 ? -infinity : empty ? 0 : b.low, b.high > 0 ? infinity : empty ? 0 : b.high};
    if ((c.op == Op::max || c.op == Op::min) && !empty) bounds = b;
    if (c.op == Op::add)
      out.magnitude = magnitude_of_sum(*bodies[size_t(component)], most_points(t_.axes, over));
    if (c.op == Op::max || c.op == Op::min) out.magnitude = bodies[size_t(component)]->reach();
  }
  set_bounds(out, bounds);
  return out;
}

Info FactMaker::prefix(int component, Value monoid, Value number, Operands bodies) const {
  const Monoid m = t_.monoid_of(monoid);
  const MonoidComponent& c = m.components()[size_t(component)];
  const Along& along = t_.alongs[number];
  Info out = *bodies[size_t(component)];
  out.constant.reset();
  out.index.reset();
  for (const int j : m.dependencies(component)) join(out, *bodies[size_t(j)]);
  out.extremum = {};
  out.magnitude = {};
  out.axes.insert(along.axis);
  out.dtype = c.dtype;
  Bounds bounds;
  const Bounds b = of(*bodies[size_t(component)]);
  const bool plain = c.transform.is_leaf(0);
  out.finite = !is_float(c.dtype) || (out.finite && plain && (c.op == Op::add || c.op == Op::mul));
  if (is_float(c.dtype) && plain && c.op == Op::add)
    bounds = {b.low < 0 ? -infinity : along.exclusive ? 0 : b.low, b.high > 0 ? infinity : 0};
  set_bounds(out, bounds);
  return out;
}

Info FactMaker::opaque(int result, Value payload, Operands xs) const {
  const Payload& p = t_.payloads[payload];
  Info out = joined(xs);
  out.fixed = out.fixed && !p.unique;
  out.finite = false;
  out.axes = {};
  if (p.results[size_t(result)] != egraph::absent) out.axes = t_.forms[p.results[size_t(result)]].set();
  out.dtype = p.types[size_t(result)].dtype;
  set_bounds(out, {});
  return out;
}

const Info& info_of(RegionTerms& terms, ClassId c) {
  const Value leader = terms.graph().find(c);
  const auto known = terms.graph().lookup(terms.info_op(), std::span(&leader, 1));
  if (!known) throw Error(fmt::format("nothing is known of class {}", c));
  return terms.infos[*known];
}

void find_facts(RegionTerms& terms) { terms.program().saturate("facts", 1000); }

} // namespace luminal::rules
