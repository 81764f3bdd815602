// rules/monoids.cpp -- transforms built, renamed and asked.
#include "rules/monoids.h"
#include "base/check.h"
#include "base/hash.h"
#include "base/infinity.h"
#include "rules/payloads.h"
#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <set>

namespace luminal::rules {

uint64_t Character::hash() const {
  uint64_t h = hash_mix(std::bit_cast<uint64_t>(slope + 0.0), std::bit_cast<uint64_t>(power + 0.0));
  return hash_mix(h, other ? std::bit_cast<uint64_t>(*other + 0.0) + base2 : 2 + uint64_t(base2));
}

std::optional<Character> product(const Character& h, const Character& j) {
  if (std::abs(h.power + j.power) > 4 || h.other.value_or(0) != 0 || j.other.value_or(0) != 0) return {};
  if (h.slope != 0 && j.slope != 0 && h.base2 != j.base2) return {};
  Character out{h.slope + j.slope, h.power + j.power, h.slope != 0 ? h.base2 : j.base2,
                h.other ? h.other : j.other};
  if (out.slope == 0) out.base2 = false;
  return out;
}
std::optional<Character> inverse(const Character& h) {
  if (h.other) return {};
  return Character{0 - h.slope, 0 - h.power, h.base2, {}};
}
std::optional<Character> root(const Character& h) {
  if (h.other) return {};
  return Character{h.slope / 2, h.power / 2, h.base2, {}};
}

namespace {

using Kind = ScalarNode::Kind;

Scalar self() { return Scalar::leaf(0); }
Scalar before(int j) { return Scalar::leaf(1 + 2 * j); }
Scalar after(int j) { return Scalar::leaf(2 + 2 * j); }
Scalar number(double v) { return Scalar::constant(v); }
bool is_number(const Scalar& s, double v) {
  return s.nodes().size() == 1 && s.nodes()[0].kind == Kind::constant && s.nodes()[0].value == v;
}
Scalar add(const Scalar& a, const Scalar& b) {
  return is_number(a, 0) ? b : is_number(b, 0) ? a : Scalar::apply(Op::add, {a, b});
}
Scalar sub(const Scalar& a, const Scalar& b) { return is_number(b, 0) ? a : Scalar::apply(Op::sub, {a, b}); }
Scalar mul(const Scalar& a, const Scalar& b) {
  if (is_number(a, 0) || is_number(b, 0)) return number(0);
  return is_number(a, 1) ? b : is_number(b, 1) ? a : Scalar::apply(Op::mul, {a, b});
}
Scalar div(const Scalar& a, const Scalar& b) {
  return is_number(a, 0) ? a : is_number(b, 1) ? a : Scalar::apply(Op::div, {a, b});
}
Scalar select(const Scalar& c, const Scalar& a, const Scalar& b) {
  return Scalar::apply(Op::select, {c, a, b});
}
Scalar moved(int j) { return sub(after(j), before(j)); }

/// t times H(new_j) / H(old_j), in its stable form.
Scalar times_ratio(Scalar t, const Character& h, int j) {
  if (h.slope != 0) {
    const Scalar by = h.slope == -1  ? sub(before(j), after(j))
                      : h.slope == 1 ? moved(j)
                                     : mul(number(h.slope), moved(j));
    t = mul(t, Scalar::apply(h.base2 ? Op::exp2 : Op::exp, {by}));
  }
  if (h.power == 0) return t;
  const bool falls = h.power < 0;
  Scalar w = falls ? div(before(j), after(j)) : div(after(j), before(j));
  const double power = std::abs(h.power);
  if (power == std::floor(power)) {
    Scalar p = w;
    for (int k = 1; k < int(power); ++k) p = mul(p, w);
    w = p;
  } else if (power == 0.5) {
    w = Scalar::apply(Op::sqrt, {w});
  } else {
    w = Scalar::apply(Op::pow, {w, number(power)});
  }
  return mul(t, w);
}

bool is_singular(double identity, const Character& h) {
  return (h.slope != 0 && std::isinf(identity)) || (h.power != 0 && (identity == 0 || std::isinf(identity)));
}

/// A transform with other leaves, built up again. `leaf`: what stands for a leaf; `compared`: what
/// stands for one that is compared, or nothing.
struct Leaves {
  std::function<Scalar(int)> leaf;
  std::function<std::optional<Scalar>(int)> compared;
};
std::optional<Scalar> rebuilt(const Scalar& t, const Leaves& leaves) {
  std::vector<Scalar> made;
  const auto is_compared = [](Op op) { return op == Op::eq || op == Op::lt || op == Op::le || op == Op::ne; };
  for (const ScalarNode& n : t.nodes()) {
    const auto arg = [&](int k) -> const Scalar& { return made[size_t(n.args[k])]; };
    switch (n.kind) {
    case Kind::constant: made.push_back(number(n.value)); break;
    case Kind::leaf: made.push_back(n.leaf == 0 ? self() : leaves.leaf(n.leaf)); break;
    case Kind::cast: made.push_back(Scalar::cast(n.dtype, arg(0))); break;
    case Kind::op: {
      if (n.op == Op::mul || n.op == Op::add || n.op == Op::sub || n.op == Op::div) {
        const auto f = n.op == Op::mul ? mul : n.op == Op::add ? add : n.op == Op::sub ? sub : div;
        made.push_back(f(arg(0), arg(1)));
        break;
      }
      std::vector<Scalar> args;
      for (int k = 0; k < row(n.op).arity; ++k) {
        const ScalarNode& a = t.nodes()[size_t(n.args[k])];
        if (is_compared(n.op) && a.kind == Kind::leaf && a.leaf != 0) {
          const auto c = leaves.compared(a.leaf);
          if (!c) return {};
          args.push_back(*c);
        } else {
          args.push_back(arg(k));
        }
      }
      made.push_back(Scalar::apply(n.op, args));
      break;
    }
    }
  }
  return made.back();
}

/// The components at whose identity a transform stops: select(old_j == identity, 0, ..).
std::set<int> stops_at(const Monoid& m, int i) {
  std::set<int> out;
  const Scalar& t = m.components()[size_t(i)].transform;
  for (const ScalarNode& n : t.nodes()) {
    if (n.kind != Kind::op || n.op != Op::eq) continue;
    const ScalarNode& a = t.nodes()[size_t(n.args[0])];
    const ScalarNode& b = t.nodes()[size_t(n.args[1])];
    if (a.kind == Kind::leaf && a.leaf > 0 && b.kind == Kind::constant &&
        b.value == m.identity((a.leaf - 1) / 2))
      out.insert((a.leaf - 1) / 2);
  }
  return out;
}
bool has_exponential(const Scalar& t) {
  return std::ranges::any_of(t.nodes(), [](const ScalarNode& n) {
    return n.kind == Kind::op && (n.op == Op::exp || n.op == Op::exp2 || n.op == Op::sqrt || n.op == Op::pow);
  });
}

/// Pairs of states, the same for each call.
class Samples {
public:
  explicit Samples(int size) : size_(size_t(size)) {}
  static constexpr int count = 12;
  std::vector<double> next() {
    std::vector<double> out;
    for (size_t k = 0; k < size_; ++k) {
      seed_ = seed_ * 6364136223846793005u + 1442695040888963407u;
      out.push_back(double(1 + int64_t((seed_ >> 33) % 40)) / double(1 + int64_t((seed_ >> 50) % 9)));
    }
    return out;
  }

private:
  size_t size_;
  uint64_t seed_ = 7;
};

bool close(double a, double b) {
  return a == b ||
         (std::isfinite(a) && std::isfinite(b) && std::abs(a - b) <= 1e-9 * std::max(1.0, std::abs(a)));
}

/// The fraction of small numbers that a double is the rounding of, if any.
double simple_fraction(double v) {
  for (int64_t d = 1; d <= 5040; ++d) {
    const double n = std::nearbyint(v * double(d));
    if (std::abs(n) < 1e6 && std::abs(v - n / double(d)) <= 1e-12 * std::max(1.0, std::abs(v)))
      return n / double(d);
  }
  return v;
}

/// Every row has a value on reals.
bool has_reals(const Monoid& m) {
  return std::ranges::all_of(m.components(), [](const MonoidComponent& c) {
    return is_float(c.dtype) && std::ranges::all_of(c.transform.nodes(), [](const ScalarNode& n) {
             return n.kind != Kind::op || row(n.op).f64 != nullptr;
           });
  });
}

std::vector<MonoidComponent> components_of(const Monoid& m) { return m.components(); }

} // namespace

bool is_single(const Monoid& m) { return m.size() == 1 && is_plain(m, 0); }
bool is_plain(const Monoid& m, int i) { return m.components()[size_t(i)].transform.is_leaf(0); }
bool is_uniform(const Monoid& m, DType type) {
  return is_float(type) &&
         std::ranges::all_of(m.components(), [&](const MonoidComponent& c) { return c.dtype == type; });
}

std::optional<Monoid> with_cascade(const Monoid& m, Op op, DType type, const Character& h, int count) {
  const int base = m.size(), j = base - 1, n = count - 1;
  const double identity = m.identity(j);
  if (h.other) { // [r == .]: the values may have another type than the statistic
    if (count != 1 || h.slope != 0 || h.power != 0) return {};
    auto out = components_of(m);
    const Scalar same = Scalar::apply(Op::eq, {before(j), after(j)});
    out.push_back({op, type, select(same, self(), number(*h.other))});
    return Monoid::intern(std::move(out));
  }
  // An element that is infinite is not the state of no elements: x - max(x) is -inf there. An exponential
  // makes 0 of it.
  if (!is_uniform(m, type) || (n > 0 && h.slope == 0 && std::isinf(identity))) return {};
  auto out = components_of(m);
  for (int l = n; l >= 0; --l) { // the component of q_l stands at base + n - l
    Scalar t = number(0);
    double binomial = 1;
    for (int k = l; k <= n; ++k) {
      Scalar term = k == l ? self() : before(base + n - k);
      if (k > l) {
        Scalar power = moved(j);
        for (int i = l + 1; i < k; ++i) power = mul(power, moved(j));
        term = mul(power, term);
      }
      t = add(t, mul(number(binomial), term));
      binomial = binomial * (k + 1) / (k + 1 - l);
    }
    t = times_ratio(t, h, j);
    if (is_singular(identity, h))
      t = select(Scalar::apply(Op::eq, {before(j), number(identity)}), number(0), t);
    out.push_back({op, type, t});
  }
  return Monoid::intern(std::move(out));
}

std::optional<Monoid> with_next_largest(const Monoid& m) {
  const int j = m.size() - 1;
  const DType type = m.components()[0].dtype;
  if (!is_uniform(m, type) || m.components()[0].op != Op::max || !is_plain(m, 0)) return {};
  if (j > 0) {
    auto front = components_of(m);
    front.pop_back();
    if (with_next_largest(Monoid::intern(std::move(front))) != m) return {};
  }
  // An element that is no longer below a place moves on to the next one.
  Scalar t = self();
  for (int i = j; i >= 0; --i) {
    const Scalar fell = Scalar::apply(Op::lt, {before(i), after(j)});
    t = Scalar::apply(Op::max, {t, select(fell, before(i), number(-infinity))});
  }
  auto out = components_of(m);
  out.push_back({Op::max, type, t});
  return Monoid::intern(std::move(out));
}

std::vector<int> needed_by(const Monoid& m, int j) {
  std::vector<int> out = m.dependencies(j);
  out.push_back(j);
  return out;
}
bool is_minimal(const Monoid& m, int j) { return j + 1 == m.size() && int(m.dependencies(j).size()) == j; }

Monoid restricted(const Monoid& m, int j) {
  const std::vector<int> kept = needed_by(m, j);
  const auto place = [&](int leaf) {
    const auto at = std::ranges::find(kept, (leaf - 1) / 2);
    return Scalar::leaf(1 + 2 * int(at - kept.begin()) + (leaf - 1) % 2);
  };
  std::vector<MonoidComponent> out;
  for (const int i : kept) {
    const MonoidComponent& c = m.components()[size_t(i)];
    out.push_back({c.op, c.dtype, *rebuilt(c.transform, {place, place})});
  }
  return Monoid::intern(std::move(out));
}

std::optional<Monoid> without(const Monoid& m, int j, std::optional<int> alias, double scale) {
  if (m.size() < 2) return {};
  const auto moved_leaf = [&](int leaf, int i) {
    return Scalar::leaf(1 + 2 * (i - (i > j ? 1 : 0)) + (leaf - 1) % 2);
  };
  const double identity = m.identity(j);
  std::vector<MonoidComponent> out;
  for (int i = 0; i < m.size(); ++i) {
    if (i == j) continue;
    const MonoidComponent& c = m.components()[size_t(i)];
    if (!alias && stops_at(m, i).contains(j)) return {};
    const auto t = rebuilt(c.transform, {[&](int leaf) {
                                           const int k = (leaf - 1) / 2;
                                           if (k != j) return moved_leaf(leaf, k);
                                           return alias ? mul(number(scale), moved_leaf(leaf, *alias))
                                                        : number(identity);
                                         },
                                         [&](int leaf) -> std::optional<Scalar> {
                                           const int k = (leaf - 1) / 2;
                                           if (k != j) return moved_leaf(leaf, k);
                                           // Zero is zero at any scale; other comparisons are not kept by it.
                                           const bool at_zero = identity == 0 && stops_at(m, i).contains(j);
                                           if (!alias || (scale != 1 && !at_zero)) return {};
                                           return moved_leaf(leaf, *alias);
                                         }});
    if (!t) return {};
    out.push_back({c.op, c.dtype, *t});
  }
  return Monoid::intern(std::move(out));
}

std::vector<double> combine(const Monoid& m, const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> c, left(size_t(1 + 2 * m.size())), right = left;
  for (int i = 0; i < m.size(); ++i) {
    const MonoidComponent& part = m.components()[size_t(i)];
    left[0] = a[size_t(i)];
    right[0] = b[size_t(i)];
    left[1 + 2 * size_t(i)] = a[size_t(i)];
    right[1 + 2 * size_t(i)] = b[size_t(i)];
    const double x[] = {evaluate_f64(part.transform, left.data()),
                        evaluate_f64(part.transform, right.data())};
    c.push_back(row(part.op).f64(x));
    left[2 + 2 * size_t(i)] = right[2 + 2 * size_t(i)] = c.back();
  }
  return c;
}

bool is_internal(const Monoid& m, int j) {
  if (!has_reals(m)) return false;
  Samples samples(m.size());
  for (int round = 0; round < Samples::count; ++round) {
    std::vector<double> a = samples.next(), b = samples.next();
    a[size_t(j)] = b[size_t(j)];
    if (!close(combine(m, a, b)[size_t(j)], a[size_t(j)])) return false;
  }
  return true;
}

bool preserves_identity(const Monoid& m, int j) {
  if (!has_reals(m)) return false;
  const double e = m.identity(j);
  Samples samples(m.size());
  for (int round = 0; round < Samples::count; ++round) {
    std::vector<double> a = samples.next(), b = samples.next();
    a[size_t(j)] = b[size_t(j)] = e;
    if (!close(e, combine(m, a, b)[size_t(j)])) return false;
  }
  return true;
}

std::optional<double> proportion(const Monoid& m, int j, int i, double body_j, double body_i) {
  const auto& parts = m.components();
  if (!has_reals(m) || parts[size_t(i)].op != Op::add || parts[size_t(j)].op != Op::add || is_plain(m, j) ||
      stops_at(m, i) != stops_at(m, j) || (body_i == 0) != (body_j == 0) ||
      parts[size_t(i)].dtype != parts[size_t(j)].dtype)
    return {};
  double c = body_i != 0 ? body_j / body_i : 0;
  if (body_i == 0) { // what one step makes of two zeros
    if (std::ranges::any_of(parts, [](const MonoidComponent& p) { return has_exponential(p.transform); }))
      return {};
    Samples samples(m.size());
    std::vector<double> a = samples.next(), b = samples.next();
    a[size_t(i)] = a[size_t(j)] = b[size_t(i)] = b[size_t(j)] = 0;
    const auto r = combine(m, a, b);
    if (close(0, r[size_t(i)])) return {};
    c = simple_fraction(r[size_t(j)] / r[size_t(i)]);
  }
  Samples samples(m.size());
  for (int round = 0; round < Samples::count; ++round) {
    std::vector<double> a = samples.next(), b = samples.next();
    a[size_t(j)] = c * a[size_t(i)];
    b[size_t(j)] = c * b[size_t(i)];
    const auto r = combine(m, a, b);
    if (!close(r[size_t(j)], c * r[size_t(i)])) return {};
  }
  return c;
}

bool contracts(const Monoid& m, const Character& h, bool positive) {
  const int j = m.size() - 1;
  const Op op = m.components()[size_t(j)].op;
  if (h.other && !(op != Op::add && is_plain(m, j))) return false;
  if (h.slope != 0 && !((h.slope < 0 && op == Op::max) || (h.slope > 0 && op == Op::min))) return false;
  const bool grows = op == Op::max || (op == Op::add && is_plain(m, j) && positive);
  return h.power == 0 || (grows && h.power < 0 && positive);
}

bool vanishes(const Monoid& monoid, int component, const std::vector<bool>& selected) {
  const std::vector<ScalarNode>& nodes = monoid.components()[size_t(component)].transform.nodes();
  const ScalarNode& top = nodes.back();
  const auto is_identity = [&](int at, int of) {
    const Number n = identity(monoid, of);
    return nodes[size_t(at)].kind == ScalarNode::Kind::constant && is_float(n.dtype) &&
           nodes[size_t(at)].value == std::bit_cast<double>(n.bits);
  };
  if (top.kind != ScalarNode::Kind::op || top.op != Op::select || !is_identity(top.args[1], component))
    return false;
  const ScalarNode& condition = nodes[size_t(top.args[0])];
  if (condition.kind != ScalarNode::Kind::op || condition.op != Op::eq) return false;
  for (const auto& [state, number] : {std::pair(0, 1), std::pair(1, 0)}) {
    const ScalarNode& old = nodes[size_t(condition.args[state])];
    if (old.kind != ScalarNode::Kind::leaf || old.leaf % 2 == 0) continue;
    const int of = (old.leaf - 1) / 2; // self, old0, new0, old1, ..
    if (selected[size_t(of)] && is_identity(condition.args[number], of)) return true;
  }
  return false;
}

} // namespace luminal::rules
