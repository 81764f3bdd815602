// rules/folds_monoid.cpp -- the algebra of tuple reductions on plain numbers.
#include "folds_monoid.h"
#include "folds_combine.h"
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <functional>

namespace luminal::egraph::folds {

double identity(Op op) { return op == Op::sum ? 0 : op == Op::max ? -infinity : infinity; }
double apply(Op op, double a, double b) {
  return op == Op::sum ? a + b : op == Op::max ? std::max(a, b) : std::min(a, b);
}

Algebra::Algebra() { self_ = node(Kind::self); }

uint32_t Algebra::add(uint32_t a, uint32_t b) {
  const uint32_t zero = number(0);
  return a == zero ? b : b == zero ? a : node(Kind::add, a, b);
}
uint32_t Algebra::mul(uint32_t a, uint32_t b) {
  const uint32_t zero = number(0), one = number(1);
  if (a == zero || b == zero) return zero;
  return a == one ? b : b == one ? a : node(Kind::mul, a, b);
}

/// H(new_j) / H(old_j) in its stable form.
uint32_t Algebra::ratio(const Character& h, uint32_t j) {
  const uint32_t before = node(Kind::old_value, j), after = node(Kind::new_value, j);
  uint32_t t = number(1);
  if (h.slope != 0) {
    const uint32_t moved = h.slope == -1  ? node(Kind::sub, before, after)
                           : h.slope == 1 ? node(Kind::sub, after, before)
                                          : mul(number(h.slope), node(Kind::sub, after, before));
    t = mul(t, node(Kind::exp, moved));
  }
  if (h.power != 0)
    t = mul(t, h.power == -1 ? node(Kind::div, before, after)
                             : node(Kind::pow, node(Kind::div, after, before), 0, h.power));
  return t;
}

bool Algebra::singular(const Monoid& m, uint32_t j, const Character& h) const {
  const double e = identity(m[j].op);
  return (h.slope != 0 && std::isinf(e)) || (h.power != 0 && (e == 0 || std::isinf(e)));
}

Monoid Algebra::cascade(const Monoid& m, uint32_t j, Op op, Character h, uint32_t count) {
  const auto base = uint32_t(m.size());
  const uint32_t n = count - 1;
  const bool far = std::isinf(identity(m[j].op)); // new - old at the identity is not a number to move by
  Monoid out = m;
  for (uint32_t l = n + 1; l-- > 0;) { // the component of q_l stands at base + n - l
    const uint32_t d = node(Kind::sub, node(Kind::new_value, j), node(Kind::old_value, j));
    uint32_t t = number(0);
    double binomial = 1;
    for (uint32_t k = l; k <= n; ++k) {
      uint32_t term = k == l ? self_ : node(Kind::old_value, base + n - k);
      for (uint32_t i = l; i < k; ++i) term = mul(d, term);
      t = add(t, mul(number(binomial), term));
      binomial = binomial * (k + 1) / (k + 1 - l);
    }
    t = mul(t, ratio(h, j));
    if (h.other) t = node(Kind::same, j, t, *h.other);
    Component component{op, t, {}};
    if (singular(m, j, h) || (l < n && far)) component.singular.insert(j);
    out.push_back(component);
  }
  return out;
}

Monoid Algebra::shift(const Monoid& m, uint32_t j, Op op, double slope) {
  const uint32_t d = node(Kind::sub, node(Kind::new_value, j), node(Kind::old_value, j));
  Component component{op, add(self_, mul(number(slope), d)), {}};
  if (std::isinf(identity(m[j].op))) component.singular.insert(j);
  Monoid out = m;
  out.push_back(component);
  return out;
}

std::optional<Monoid> Algebra::below(const Monoid& m, uint32_t j) {
  // An element that is no longer below a place moves on to the next one.
  uint32_t t = self_;
  for (uint32_t i = j + 1; i-- > 0;) t = node(Kind::max, t, node(Kind::below, i, j));
  if (m[0] != single(Op::max)[0]) return std::nullopt;
  if (j > 0) {
    const Monoid front(m.begin(), m.end() - 1);
    if (below(front, j - 1) != m) return std::nullopt;
  }
  Monoid out = m;
  out.push_back({Op::max, t, {}});
  return out;
}

// ---- expressions

void Algebra::collect(uint32_t t, std::set<uint32_t>& out) const {
  const Transport& n = nodes_[t];
  switch (n.kind) {
  case Kind::self:
  case Kind::number: return;
  case Kind::old_value:
  case Kind::new_value: out.insert(n.left); return;
  case Kind::exp:
  case Kind::pow: collect(n.left, out); return;
  case Kind::same:
    out.insert(n.left);
    collect(n.right, out);
    return;
  case Kind::below: out.insert({n.left, n.right}); return;
  case Kind::add:
  case Kind::sub:
  case Kind::mul:
  case Kind::div:
  case Kind::max: collect(n.left, out); collect(n.right, out);
  }
}

bool Algebra::rational(uint32_t t) const {
  const Transport& n = nodes_[t];
  switch (n.kind) {
  case Kind::exp: return false;
  case Kind::pow: return n.value == std::floor(n.value) && rational(n.left);
  case Kind::same: return rational(n.right);
  case Kind::add:
  case Kind::sub:
  case Kind::mul:
  case Kind::div:
  case Kind::max: return rational(n.left) && rational(n.right);
  default: return true;
  }
}
bool Algebra::rational(const Monoid& m) const {
  return std::all_of(m.begin(), m.end(), [this](const Component& c) { return rational(c.transport); });
}

/// What stands in the place of the components that an expression reads.
struct Algebra::Places {
  std::function<uint32_t(Kind, uint32_t)> value; ///< of an old or new value: a node
  std::function<uint32_t(uint32_t)> index;       ///< of a component that is compared: a component
};

uint32_t Algebra::rebuilt(uint32_t t, const Places& places) {
  const Transport n = nodes_[t];
  switch (n.kind) {
  case Kind::self:
  case Kind::number: return t;
  case Kind::old_value:
  case Kind::new_value: return places.value(n.kind, n.left);
  case Kind::exp: return node(n.kind, rebuilt(n.left, places));
  case Kind::pow: return node(n.kind, rebuilt(n.left, places), 0, n.value);
  case Kind::same: {
    const uint32_t right = rebuilt(n.right, places);
    return node(n.kind, places.index(n.left), right, n.value);
  }
  case Kind::below: return node(n.kind, places.index(n.left), places.index(n.right));
  case Kind::add:
  case Kind::sub:
  case Kind::mul:
  case Kind::div:
  case Kind::max: break;
  }
  const uint32_t left = rebuilt(n.left, places), right = rebuilt(n.right, places);
  return n.kind == Kind::add   ? add(left, right)
         : n.kind == Kind::mul ? mul(left, right)
                               : node(n.kind, left, right);
}

uint32_t Algebra::renamed(uint32_t t, const std::map<uint32_t, uint32_t>& name) {
  return rebuilt(t, {[&](Kind kind, uint32_t i) { return node(kind, name.at(i)); },
                     [&](uint32_t i) { return name.at(i); }});
}

// ---- smaller monoids

std::set<uint32_t> Algebra::needs(const Monoid& m, uint32_t j) const {
  std::set<uint32_t> out, todo{j};
  while (!todo.empty()) {
    const uint32_t i = *todo.begin();
    todo.erase(todo.begin());
    if (!out.insert(i).second) continue;
    collect(m[i].transport, todo);
    todo.insert(m[i].singular.begin(), m[i].singular.end());
  }
  return out;
}

Monoid Algebra::restricted(const Monoid& m, uint32_t j) {
  std::map<uint32_t, uint32_t> name;
  for (const uint32_t i : needs(m, j)) name.emplace(i, uint32_t(name.size()));
  Monoid out;
  for (const auto& [i, place] : name) {
    Component component{m[i].op, renamed(m[i].transport, name), {}};
    for (const uint32_t s : m[i].singular) component.singular.insert(name.at(s));
    out.push_back(component);
  }
  return out;
}

std::optional<Monoid> Algebra::dropped(const Monoid& m, uint32_t j, std::optional<uint32_t> alias,
                                       double scale) {
  const auto place = [j](uint32_t i) { return i - (i > j ? 1 : 0); };
  bool possible = true;
  const Places places{[&](Kind kind, uint32_t i) {
                        if (i != j) return node(kind, place(i));
                        if (!alias) return number(identity(m[j].op));
                        return mul(number(scale), node(kind, place(*alias)));
                      },
                      [&](uint32_t i) { // what is compared is a component, not an expression
                        if (i == j && (!alias || scale != 1)) possible = false;
                        return i != j ? place(i) : alias ? place(*alias) : 0;
                      }};
  Monoid out;
  for (uint32_t i = 0; i < m.size(); ++i) {
    if (i == j) continue;
    if (!alias && m[i].singular.contains(j)) return std::nullopt;
    Component component{m[i].op, rebuilt(m[i].transport, places), {}};
    for (const uint32_t s : m[i].singular) component.singular.insert(place(s == j ? *alias : s));
    out.push_back(component);
  }
  if (!possible) return std::nullopt;
  return out;
}

// ---- states

std::vector<double> Algebra::combine(const Monoid& m, const std::vector<double>& a,
                                     const std::vector<double>& b) const {
  return Combiner<Reals>(*this).combine(m, a, b);
}

std::vector<double> Algebra::identities(const Monoid& m) const {
  std::vector<double> out;
  for (const Component& component : m) out.push_back(identity(component.op));
  return out;
}

namespace {

/// Pairs of states with fractions for components, the same for each call.
class Samples {
public:
  explicit Samples(size_t size) : size_(size) {}
  static constexpr int count = 12;
  std::vector<std::pair<int64_t, int64_t>> next() {
    std::vector<std::pair<int64_t, int64_t>> out;
    for (size_t i = 0; i < size_; ++i) {
      seed_ = seed_ * 6364136223846793005u + 1442695040888963407u;
      out.emplace_back(1 + int64_t((seed_ >> 33) % 40), 1 + int64_t((seed_ >> 50) % 9));
    }
    return out;
  }
  std::vector<double> next_reals() {
    std::vector<double> out;
    for (const auto& [n, d] : next()) out.push_back(double(n) / double(d));
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

} // namespace

bool Algebra::internal(const Monoid& m, uint32_t j) const {
  Samples samples(m.size());
  for (int round = 0; round < Samples::count; ++round) {
    std::vector<double> a = samples.next_reals(), b = samples.next_reals();
    a[j] = b[j];
    if (!close(combine(m, a, b)[j], a[j])) return false;
  }
  return true;
}

bool Algebra::preserves(const Monoid& m, uint32_t j) const {
  const double e = identity(m[j].op);
  Samples samples(m.size());
  for (int round = 0; round < Samples::count; ++round) {
    std::vector<double> a = samples.next_reals(), b = samples.next_reals();
    a[j] = b[j] = e;
    if (!close(e, combine(m, a, b)[j])) return false;
  }
  return true;
}

std::optional<double> Algebra::proportion(const Monoid& m, uint32_t j, uint32_t i, double body_j,
                                          double body_i) const {
  if (m[i].op != Op::sum || m[j].op != Op::sum || m[i].singular != m[j].singular || m[j].transport == self_ ||
      (body_i == 0) != (body_j == 0))
    return std::nullopt;
  double c = body_i != 0 ? body_j / body_i : 0;
  if (body_i == 0) { // what one step makes of two zeros
    if (!rational(m)) return std::nullopt;
    Samples samples(m.size());
    std::vector<double> a = samples.next_reals(), b = samples.next_reals();
    a[i] = a[j] = b[i] = b[j] = 0;
    const auto r = combine(m, a, b);
    if (close(0, r[i])) return std::nullopt;
    c = r[j] / r[i];
  }
  Samples samples(m.size());
  for (int round = 0; round < Samples::count; ++round) {
    std::vector<double> a = samples.next_reals(), b = samples.next_reals();
    a[j] = c * a[i];
    b[j] = c * b[i];
    const auto r = combine(m, a, b);
    if (!close(r[j], c * r[i])) return std::nullopt;
  }
  if (body_i == 0) { // the number without rounding
    Samples again(m.size());
    Combiner<Fractions>::State a, b;
    for (const auto& [n, d] : again.next()) a.push_back(Fractions::of(n, d));
    for (const auto& [n, d] : again.next()) b.push_back(Fractions::of(n, d));
    a[i] = a[j] = b[i] = b[j] = Fractions::of(0, 1);
    const auto r = Combiner<Fractions>(*this).combine(m, a, b);
    c = nearest_double(Fractions::div(r[j], r[i]).value);
  }
  return c;
}

bool Algebra::average(const Monoid& m, uint32_t i) const {
  const Transport& t = nodes_[m[i].transport];
  if (m[i].op != Op::sum || t.kind != Kind::mul || (t.left != self_ && t.right != self_)) return false;
  const Monoid front(m.begin(), m.begin() + i + 1);
  if (const auto at = averages_.find(front); at != averages_.end()) return at->second;
  std::set<uint32_t> read;
  collect(m[i].transport, read);
  const bool out = !read.empty() && internal(front, i);
  averages_.emplace(front, out);
  return out;
}

bool Algebra::contracting(const Monoid& m, uint32_t j, Character h, int sign) const {
  if (h.other && !(m[j].op != Op::sum && plain(m, j))) return false;
  if (h.slope != 0 && !((h.slope < 0 && m[j].op == Op::max) || (h.slope > 0 && m[j].op == Op::min)))
    return false;
  const bool grows = m[j].op == Op::max || (m[j].op == Op::sum && plain(m, j) && sign > 0);
  return h.power == 0 || (grows && h.power < 0 && sign > 0);
}

// ---- texts

std::string Algebra::text(uint32_t t) const {
  const Transport& n = nodes_[t];
  switch (n.kind) {
  case Kind::self: return "self";
  case Kind::old_value: return fmt::format("old{}", n.left);
  case Kind::new_value: return fmt::format("new{}", n.left);
  case Kind::number: return fmt::format("{}", n.value);
  case Kind::add: return fmt::format("({} + {})", text(n.left), text(n.right));
  case Kind::sub: return fmt::format("({} - {})", text(n.left), text(n.right));
  case Kind::mul: return fmt::format("{}*{}", text(n.left), text(n.right));
  case Kind::div: return fmt::format("{}/{}", text(n.left), text(n.right));
  case Kind::max: return fmt::format("max({}, {})", text(n.left), text(n.right));
  case Kind::exp: return fmt::format("exp({})", text(n.left));
  case Kind::pow: return fmt::format("({})^{}", text(n.left), n.value);
  case Kind::same: return fmt::format("(old{0} == new{0} ? {1} : {2})", n.left, text(n.right), n.value);
  case Kind::below: return fmt::format("(old{0} < new{1} ? old{0} : -inf)", n.left, n.right);
  }
  return "";
}

std::string Algebra::text(const Monoid& m) const {
  std::string out = "[";
  for (const Component& component : m)
    out += fmt::format("{}({}, {})", out.size() > 1 ? " " : "",
                       component.op == Op::sum   ? "sum"
                       : component.op == Op::max ? "max"
                                                 : "min",
                       text(component.transport));
  return out + "]";
}

} // namespace luminal::egraph::folds
