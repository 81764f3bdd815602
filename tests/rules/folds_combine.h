// rules/folds_combine.h -- two states of a tuple reduction combined, in any arithmetic: doubles for
// guards and evaluation, exact fractions for the laws.
//
// A field F has a type T and number(double), add, sub, mul, div, exp, pow(T, double), max, min,
// equal, less.
#pragma once
#include "base/check.h"
#include "egg/egg_bignum.h"
#include "folds_monoid.h"
#include <algorithm>
#include <cmath>

namespace luminal::egraph::folds {

struct Reals {
  using T = double;
  static T number(double v) { return v; }
  static T add(T a, T b) { return a + b; }
  static T sub(T a, T b) { return a - b; }
  static T mul(T a, T b) { return a * b; }
  static T div(T a, T b) { return a / b; }
  static T exp(T a) { return std::exp(a); }
  static T pow(T a, double p) { return std::pow(a, p); }
  static T max(T a, T b) { return std::max(a, b); }
  static T min(T a, T b) { return std::min(a, b); }
  static bool equal(T a, T b) { return a == b; }
  static bool less(T a, T b) { return a < b; }
};

/// Exact fractions and both infinities. Exponentials have no fractions: Algebra::rational() tells
/// which monoids do without.
struct Fractions {
  struct T {
    BigRational value;
    int infinite = 0; ///< -1, 1: an infinity
    bool operator==(const T&) const = default;
  };
  static T of(int64_t numerator, int64_t denominator) { return {BigRational(numerator, denominator), 0}; }
  static T number(double v) {
    if (std::isinf(v)) return {BigRational(), v > 0 ? 1 : -1};
    int exponent = 0;
    const auto mantissa = int64_t(std::ldexp(std::frexp(v, &exponent), 53));
    exponent -= 53;
    return {exponent >= 0 ? BigRational(BigInt(mantissa) << exponent)
                          : BigRational(mantissa, BigInt(1) << -exponent),
            0};
  }
  static T add(const T& a, const T& b) {
    LUMINAL_CHECK(a.infinite + b.infinite != 0 || a.infinite == 0, "an infinity less itself");
    if (a.infinite != 0 || b.infinite != 0) return {BigRational(), a.infinite != 0 ? a.infinite : b.infinite};
    return {a.value + b.value, 0};
  }
  static T sub(const T& a, const T& b) { return add(a, {-b.value, -b.infinite}); }
  static T mul(const T& a, const T& b) {
    LUMINAL_CHECK(a.infinite == 0 && b.infinite == 0, "a product of an infinity");
    return {a.value * b.value, 0};
  }
  static T div(const T& a, const T& b) {
    LUMINAL_CHECK(b.infinite == 0 && !b.value.is_zero(), "a quotient by zero");
    return mul(a, {fraction(denominator(b.value), numerator(b.value)), 0});
  }
  static T exp(const T&) { LUMINAL_CHECK(false, "fractions have no exponential"); }
  static T pow(const T& a, double p) {
    T out = of(1, 1);
    for (int i = 0; i < std::abs(int(p)); ++i) out = mul(out, a);
    return p < 0 ? div(of(1, 1), out) : out;
  }
  static bool less(const T& a, const T& b) {
    return a.infinite != b.infinite ? a.infinite < b.infinite : a.infinite == 0 && a.value < b.value;
  }
  static bool equal(const T& a, const T& b) { return a == b; }
  static T max(const T& a, const T& b) { return less(a, b) ? b : a; }
  static T min(const T& a, const T& b) { return less(b, a) ? b : a; }
};

template <class F> class Combiner {
public:
  using T = typename F::T;
  using State = std::vector<T>;
  explicit Combiner(const Algebra& algebra) : algebra_(algebra) {}

  static T apply(Op op, const T& a, const T& b) {
    return op == Op::sum ? F::add(a, b) : op == Op::max ? F::max(a, b) : F::min(a, b);
  }

  /// The components of the result, one after the other. `plain`: without the form of averages that
  /// loses less (Algebra::average).
  State combine(const Monoid& m, const State& a, const State& b, bool plain = true) const {
    State c;
    c.reserve(m.size());
    for (uint32_t i = 0; i < m.size(); ++i) c.push_back(component(m, i, a, b, c, plain));
    return c;
  }
  /// Component i alone; of the others only those that it needs have to be there, in `c` those
  /// before it.
  T component(const Monoid& m, uint32_t i, const State& a, const State& b, const State& c,
              bool plain = true) const {
    if (plain || !algebra_.average(m, i)) return apply(m[i].op, moved(m, i, a, c), moved(m, i, b, c));
    State d = b;
    d[i] = F::sub(b[i], a[i]);
    return F::add(a[i], moved(m, i, d, c));
  }

private:
  /// Component i of `s` in the frame of the components `c` that are combined already.
  T moved(const Monoid& m, uint32_t i, const State& s, const State& c) const {
    for (const uint32_t j : m[i].singular) { // what is at the identity adds nothing; what does not move stays
      if (F::equal(s[j], F::number(identity(m[j].op)))) return F::number(identity(m[i].op));
      if (F::equal(s[j], c[j])) return s[i];
    }
    return evaluate(m[i].transport, s[i], s, c);
  }

  T evaluate(uint32_t t, const T& self, const State& a, const State& c) const {
    const Transport& n = algebra_.transport(t);
    const auto left = [&] { return evaluate(n.left, self, a, c); };
    const auto right = [&] { return evaluate(n.right, self, a, c); };
    using Kind = Transport::Kind;
    switch (n.kind) {
    case Kind::self: return self;
    case Kind::old_value: return a[n.left];
    case Kind::new_value: return c[n.left];
    case Kind::number: return F::number(n.value);
    case Kind::add: return F::add(left(), right());
    case Kind::sub: return F::sub(left(), right());
    case Kind::mul: return F::mul(left(), right());
    case Kind::div: return F::div(left(), right());
    case Kind::max: return F::max(left(), right());
    case Kind::exp: return F::exp(left());
    case Kind::pow: return F::pow(left(), n.value);
    case Kind::same: return F::equal(a[n.left], c[n.left]) ? right() : F::number(n.value);
    case Kind::below: return F::less(a[n.left], c[n.right]) ? a[n.left] : F::number(-infinity);
    }
    return F::number(0);
  }

  const Algebra& algebra_;
};

} // namespace luminal::egraph::folds
