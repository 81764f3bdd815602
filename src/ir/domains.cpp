// ir/domains.cpp -- values of the modes rounded, f64 and exact; the laws of monoids in exact
// arithmetic.
#include "ir/domains.h"
#include "base/check.h"
#include "base/hash.h"
#include <cmath>
#include <fmt/format.h>

namespace luminal {

// ---- rounded and f64 ----

template <bool R> auto FloatDomain<R>::from_f64(DType type, double value) -> Value {
  if (!is_float(type)) return {.i = truncate_to(type, value)};
  return {.f = R ? round_to(type, value) : value};
}
template <bool R> auto FloatDomain<R>::load(DType type, const std::byte* data, int64_t index) -> Value {
  if (is_float(type)) return {.f = load_f64(type, data, index)};
  return {.i = load_i64(type, data, index)};
}

namespace {

/// Loops over lanes for the operations that inner loops are made of; false: take the general way.
template <bool R, class V> bool fast_f32(Op op, size_t n, V* out, const V* const* args) {
  auto round = [](double v) { return R ? double(float(v)) : v; };
  const V *a = args[0], *b = args[1];
  switch (op) {
  case Op::add:
    for (size_t k = 0; k < n; ++k) out[k].f = round(a[k].f + b[k].f);
    return true;
  case Op::sub:
    for (size_t k = 0; k < n; ++k) out[k].f = round(a[k].f - b[k].f);
    return true;
  case Op::mul:
    for (size_t k = 0; k < n; ++k) out[k].f = round(a[k].f * b[k].f);
    return true;
  case Op::div:
    for (size_t k = 0; k < n; ++k) out[k].f = round(a[k].f / b[k].f);
    return true;
  default: return false;
  }
}

template <class V> void integers(Op op, DType type, size_t n, V* out, const V* const* args) {
  const OpRow& r = row(op);
  LUMINAL_CHECK(r.i64, "{} on {}", r.name, to_string(type));
  for (size_t k = 0; k < n; ++k) {
    int64_t x[3] = {};
    for (int a = 0; a < r.arity; ++a) x[a] = args[a][k].i;
    out[k].i = apply_i64(op, type, x);
  }
}
template <class V> void integers(const UserOp& op, DType type, size_t n, V* out, const V* const* args) {
  for (size_t k = 0; k < n; ++k) {
    int64_t x[3] = {};
    for (int a = 0; a < op.arity; ++a) x[a] = args[a][k].i;
    int64_t value = op.i64(x, type);
    out[k].i = op.signature == Signature::comparison ? value != 0 : wrap(type, value);
  }
}
bool gives_bool(Signature s) { return s == Signature::comparison || s == Signature::test; }

} // namespace

template <bool R>
void FloatDomain<R>::apply(Op op, DType type, size_t n, Value* out, const Value* const* args) {
  const OpRow& r = row(op);
  if (op == Op::select) { // of any type
    for (size_t k = 0; k < n; ++k) out[k] = args[0][k].i ? args[1][k] : args[2][k];
    return;
  }
  if (!is_float(type)) return integers(op, type, n, out, args);
  if ((type == DType::f32 || !R) && fast_f32<R>(op, n, out, args)) return;
  const bool truth = gives_bool(r.signature);
  for (size_t k = 0; k < n; ++k) {
    double x[3] = {};
    for (int a = 0; a < r.arity; ++a) x[a] = args[a][k].f;
    if (truth)
      out[k].i = r.f64(x) != 0;
    else
      out[k].f = R ? apply_f64(op, type, x) : r.f64(x);
  }
}
template <bool R>
void FloatDomain<R>::apply(const UserOp& op, DType type, size_t n, Value* out, const Value* const* args) {
  if (!is_float(type)) return integers(op, type, n, out, args);
  for (size_t k = 0; k < n; ++k) {
    double x[3] = {};
    for (int a = 0; a < op.arity; ++a)
      x[a] = op.signature == Signature::choice && a == 0 ? double(args[a][k].i) : args[a][k].f;
    double value = op.f64(x);
    if (gives_bool(op.signature))
      out[k].i = value != 0;
    else
      out[k].f = R ? round_to(type, value) : value;
  }
}
template <bool R> auto FloatDomain<R>::cast(DType from, DType to, Value x) -> Value {
  if (is_float(from)) return from_f64(to, x.f);
  if (!is_float(to)) return {.i = wrap(to, x.i)};
  return {.f = R ? integer_to_float(to, from, x.i) : integer_to_f64(from, x.i)};
}
template <bool R> InterpValue FloatDomain<R>::result(DType type, Value x) {
  InterpValue v;
  v.value = f64(type, x);
  if (!is_float(type)) v.integer = x.i;
  return v;
}
template struct FloatDomain<true>;
template struct FloatDomain<false>;

// ---- exact ----

ExactDomain::Value ExactDomain::from_f64(DType type, double value) {
  return is_float(type) ? Value{exact_from(value), 0} : Value{{}, truncate_to(type, value)};
}
ExactDomain::Value ExactDomain::load(DType type, const std::byte* data, int64_t index) {
  return is_float(type) ? Value{exact_from(load_f64(type, data, index)), 0}
                        : Value{{}, load_i64(type, data, index)};
}
void ExactDomain::apply(Op op, DType type, size_t n, Value* out, const Value* const* args) {
  const OpRow& r = row(op);
  if (op == Op::select) {
    for (size_t k = 0; k < n; ++k) out[k] = args[0][k].i ? args[1][k] : args[2][k];
    return;
  }
  if (!is_float(type)) return integers(op, type, n, out, args);
  for (size_t k = 0; k < n; ++k) {
    Exact x[3];
    for (int a = 0; a < r.arity; ++a) x[a] = args[a][k].x;
    Exact value = apply_exact(op, x);
    if (gives_bool(r.signature))
      out[k] = Value{{}, !exact_equal(value, exact_from(0))};
    else
      out[k] = Value{value, 0};
  }
}
void ExactDomain::apply(const UserOp& op, DType type, size_t n, Value* out, const Value* const* args) {
  if (!is_float(type)) return integers(op, type, n, out, args);
  std::optional<Scalar> defined;
  const std::vector<std::string> names = {"a", "b", "c"};
  if (!op.definition.empty())
    defined = parse_scalar(op.definition, {names.begin(), names.begin() + op.arity});
  for (size_t k = 0; k < n; ++k) {
    Exact x[3];
    double shadow[3] = {};
    for (int a = 0; a < op.arity; ++a) {
      x[a] = op.signature == Signature::choice && a == 0 ? exact_from_int(args[a][k].i) : args[a][k].x;
      shadow[a] = x[a].shadow;
    }
    Exact value =
        defined ? evaluate_exact(*defined, x) : exact_opaque(hash64(op.name), x, op.arity, op.f64(shadow));
    if (gives_bool(op.signature))
      out[k] = Value{{}, defined ? !exact_equal(value, exact_from(0)) : op.f64(shadow) != 0};
    else
      out[k] = Value{value, 0};
  }
}
ExactDomain::Value ExactDomain::cast(DType from, DType to, const Value& x) {
  if (is_float(from)) {
    if (is_float(to)) return x;
    if (to == DType::boolean) return {{}, !exact_equal(x.x, exact_from(0))};
    return {{}, truncate_to(to, exact_round(x.x, [](double v) { return std::trunc(v); }).shadow)};
  }
  if (!is_float(to)) return {{}, wrap(to, x.i)};
  return {from == DType::u64 ? exact_from_unsigned(uint64_t(x.i)) : exact_from_int(x.i), 0};
}
InterpValue ExactDomain::result(DType type, const Value& x) {
  InterpValue v;
  v.value = f64(type, x);
  if (!is_float(type)) v.integer = x.i;
  v.exact = is_float(type)       ? x.x
            : type == DType::u64 ? exact_from_unsigned(uint64_t(x.i))
                                 : exact_from_int(x.i);
  v.field[0] = v.exact.p, v.field[1] = v.exact.q;
  return v;
}

// ---- monoids ----

Monoid part_of(const Monoid& whole, const std::vector<int>& components) {
  std::vector<MonoidComponent> list;
  for (size_t k = 0; k < components.size(); ++k) {
    MonoidComponent component = whole.components()[size_t(components[k])];
    std::vector<Scalar> leaves(size_t(1 + 2 * components[k]), Scalar::constant(0)); // others are not read
    leaves[0] = Scalar::leaf(0);
    for (size_t j = 0; j < k; ++j)
      for (int side : {0, 1})
        leaves[1 + 2 * size_t(components[j]) + size_t(side)] = Scalar::leaf(int(1 + 2 * j) + side);
    component.transform = component.transform.substitute(leaves);
    list.push_back(std::move(component));
  }
  return Monoid::intern(std::move(list));
}

TypedMonoid::TypedMonoid(const Monoid& monoid) {
  std::vector<DType> leaves{DType::f32};
  for (const MonoidComponent& c : monoid.components()) {
    leaves[0] = c.dtype;
    components.push_back({c.op, c.dtype, c.transform.is_leaf(0), typed(c.transform, leaves, c.dtype)});
    scratch = std::max(scratch, components.back().transform.steps.size());
    leaves.insert(leaves.end(), 2, c.dtype);
  }
}

std::optional<std::string> check_monoid_laws(const Monoid& monoid, int samples,
                                             std::span<const std::optional<double>> fixed, uint64_t seed) {
  using Value = ExactDomain::Value;
  const TypedMonoid typed_monoid(monoid);
  const auto& components = monoid.components();
  const size_t n = components.size();
  std::vector<Value> work(combine_work<ExactDomain>(typed_monoid));
  uint64_t state = seed;
  auto random = [&](uint64_t below) {
    state = hash_mix(state, 0x9E3779B97F4A7C15u);
    return state % below;
  };
  auto identity = [&](size_t c) {
    return identity_value<ExactDomain>(components[c].op, components[c].dtype);
  };
  auto element = [&] {
    std::vector<Value> e;
    for (size_t c = 0; c < n; ++c) {
      DType type = components[c].dtype;
      if (c < fixed.size() && fixed[c])
        e.push_back(ExactDomain::from_f64(type, *fixed[c]));
      else if (is_float(type))
        e.push_back(ExactDomain::from_f64(type, double(1 + random(997)) / 64 *
                                                    (is_float(type) && random(2) ? -1 : 1)));
      else
        e.push_back(ExactDomain::from_i64(wrap(type, int64_t(random(100)))));
    }
    return e;
  };
  auto combined = [&](std::vector<Value> a, const std::vector<Value>& b) {
    combine<ExactDomain>(typed_monoid, a.data(), b.data(), work.data());
    return a;
  };
  auto text = [&](const std::vector<Value>& s) {
    std::string out;
    for (size_t c = 0; c < n; ++c)
      out += fmt::format("{}{:g}", c ? ", " : "", ExactDomain::f64(components[c].dtype, s[c]));
    return "(" + out + ")";
  };
  auto equal = [&](const std::vector<Value>& a, const std::vector<Value>& b) {
    for (size_t c = 0; c < n; ++c) {
      bool same = is_float(components[c].dtype) ? exact_equal(a[c].x, b[c].x) : a[c].i == b[c].i;
      bool doubtful = is_float(components[c].dtype) && (a[c].x.doubtful || b[c].x.doubtful);
      if (!same && !doubtful) return false;
    }
    return true;
  };
  std::vector<Value> neutral;
  for (size_t c = 0; c < n; ++c) neutral.push_back(identity(c));
  for (int s = 0; s < samples; ++s) {
    std::vector<Value> a = element(), b = element(), c = element();
    if (s % 2) a = combined(a, element()), c = combined(c, element()); // longer states
    auto law = [&](std::string_view name, const std::vector<Value>& left,
                   const std::vector<Value>& right) -> std::optional<std::string> {
      if (equal(left, right)) return {};
      return fmt::format("{}: {} is not {} for a = {}, b = {}, c = {}", name, text(left), text(right),
                         text(a), text(b), text(c));
    };
    if (auto broken = law("combine(identity, a)", combined(neutral, a), a)) return broken;
    if (auto broken = law("combine(a, identity)", combined(a, neutral), a)) return broken;
    if (auto broken =
            law("combine(combine(a, b), c)", combined(combined(a, b), c), combined(a, combined(b, c))))
      return broken;
    if (auto broken = law("combine(a, b)", combined(a, b), combined(b, a))) return broken;
  }
  return {};
}

} // namespace luminal
