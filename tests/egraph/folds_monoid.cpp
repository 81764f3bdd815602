// egraph/folds_monoid.cpp -- the algebra of tuple reductions on plain numbers.
#include "folds_monoid.h"
#include <algorithm>
#include <cmath>
#include <fmt/format.h>

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
uint32_t Algebra::ratio(Character h, uint32_t j) {
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

Monoid Algebra::cascade(const Monoid& m, uint32_t j, Character h, uint32_t count) {
  const auto base = uint32_t(m.size());
  const uint32_t n = count - 1;
  const double e = identity(m[j].op);
  const bool far = std::isinf(e);
  const bool singular = (h.slope != 0 && far) || (h.power != 0 && (e == 0 || far));
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
    Component component{Op::sum, mul(t, ratio(h, j)), {}};
    if (singular || (l < n && far)) component.singular.insert(j);
    out.push_back(component);
  }
  return out;
}

void Algebra::collect(uint32_t t, std::set<uint32_t>& out) const {
  const Transport& n = nodes_[t];
  switch (n.kind) {
  case Kind::self:
  case Kind::number: return;
  case Kind::old_value:
  case Kind::new_value: out.insert(n.left); return;
  case Kind::exp:
  case Kind::pow: collect(n.left, out); return;
  default: collect(n.left, out); collect(n.right, out);
  }
}

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

uint32_t Algebra::renamed(uint32_t t, const std::map<uint32_t, uint32_t>& name) {
  const Transport n = nodes_[t];
  switch (n.kind) {
  case Kind::self:
  case Kind::number: return t;
  case Kind::old_value:
  case Kind::new_value: return node(n.kind, name.at(n.left));
  case Kind::exp: return node(n.kind, renamed(n.left, name));
  case Kind::pow: return node(n.kind, renamed(n.left, name), 0, n.value);
  default: {
    const uint32_t left = renamed(n.left, name);
    return node(n.kind, left, renamed(n.right, name));
  }
  }
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

double Algebra::evaluate(uint32_t t, double self, const std::vector<double>& a,
                         const std::vector<double>& c) const {
  const Transport& n = nodes_[t];
  const auto left = [&] { return evaluate(n.left, self, a, c); };
  const auto right = [&] { return evaluate(n.right, self, a, c); };
  switch (n.kind) {
  case Kind::self: return self;
  case Kind::old_value: return a[n.left];
  case Kind::new_value: return c[n.left];
  case Kind::number: return n.value;
  case Kind::add: return left() + right();
  case Kind::sub: return left() - right();
  case Kind::mul: return left() * right();
  case Kind::div: return left() / right();
  case Kind::exp: return std::exp(left());
  case Kind::pow: return std::pow(left(), n.value);
  }
  return 0;
}

std::vector<double> Algebra::combine(const Monoid& m, const std::vector<double>& a,
                                     const std::vector<double>& b) const {
  std::vector<double> c;
  for (uint32_t i = 0; i < m.size(); ++i) {
    const auto moved = [&](const std::vector<double>& s) {
      for (const uint32_t j :
           m[i].singular) { // what is at the identity adds nothing; what does not move stays
        if (s[j] == identity(m[j].op)) return identity(m[i].op);
        if (s[j] == c[j]) return s[i];
      }
      return evaluate(m[i].transport, s[i], s, c);
    };
    c.push_back(apply(m[i].op, moved(a), moved(b)));
  }
  return c;
}

std::vector<double> Algebra::identities(const Monoid& m) const {
  std::vector<double> out;
  for (const Component& component : m) out.push_back(identity(component.op));
  return out;
}

bool Algebra::internal(const Monoid& m, uint32_t j) const {
  uint64_t seed = 7;
  const auto next = [&] {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return double(1 + (seed >> 33) % 40) / double(1 + (seed >> 50) % 9);
  };
  for (int round = 0; round < 12; ++round) {
    std::vector<double> a, b;
    for (size_t i = 0; i < m.size(); ++i) a.push_back(next()), b.push_back(next());
    a[j] = b[j];
    if (!(std::abs(combine(m, a, b)[j] - a[j]) <= 1e-9 * std::max(1.0, std::abs(a[j])))) return false;
  }
  return true;
}

bool Algebra::contracting(const Monoid& m, uint32_t j, Character h, int sign) const {
  const bool plain_sum = m[j].op == Op::sum && m[j].transport == self_;
  if (h.slope != 0 && !((h.slope < 0 && m[j].op == Op::max) || (h.slope > 0 && m[j].op == Op::min)))
    return false;
  const bool grows = m[j].op == Op::max || (plain_sum && sign > 0);
  return h.power == 0 || (grows && h.power < 0 && sign > 0);
}

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
  case Kind::exp: return fmt::format("exp({})", text(n.left));
  case Kind::pow: return fmt::format("({})^{}", text(n.left), n.value);
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
