// rules/vector_primitives.cpp -- vectors of classes: bodies of tuples, coefficients of families.
#include "rules/monoids.h"
#include "rules/primitives.h"
#include "rules/theory.h"
#include <algorithm>

namespace luminal::rules {
namespace {

class VectorPrimitives : public Primitives {
public:
  using Primitives::Primitives;
  void add() {
    add_parts();
    add_repeated();
    add_polynomials();
    add_terms();
  }

private:
  using Classes = std::vector<Value>;
  void vector(const char* name, std::vector<std::string> inputs, std::function<Classes(Args)> f) {
    make(name, std::move(inputs), "Vs", [f, &t = t_](Args a) { return t.vector(f(a)); });
  }
  void action(const char* name, std::vector<std::string> inputs, std::function<Classes(Args)> f) {
    act(name, std::move(inputs), "Vs", [f, &t = t_](Args a) { return t.vector(f(a)); });
  }
  ClassId row(Op op, std::initializer_list<Value> xs) { return t_.add(t_.ops().rows[size_t(op)], xs); }

  void add_parts() {
    make("vec-last", {"Vs"}, "V", [this](Args a) -> std::optional<Value> {
      const auto s = t_.items(a[0]);
      return s.empty() ? std::nullopt : std::optional(s.back());
    });
    make("vec-only", {"Vs"}, "V", [this](Args a) -> std::optional<Value> {
      const auto s = t_.items(a[0]);
      return s.size() != 1 ? std::nullopt : std::optional(s[0]);
    });
    make("vec-rest", {"Vs"}, "Vs", [this](Args a) -> std::optional<Value> { // of several: without the last
      auto s = items(a[0]);
      if (s.size() < 2) return {};
      s.pop_back();
      return t_.vector(s);
    });
    vector("vec-reverse", {"Vs"}, [this](Args a) {
      auto out = items(a[0]);
      std::ranges::reverse(out);
      return out;
    });
    vector("component-bodies", {"Monoid", "i64", "Vs"}, [this](Args a) {
      const auto bodies = items(a[2]);
      Classes out;
      for (const int i : needed_by(t_.monoid_of(a[0]), int(integer(a[1])))) out.push_back(bodies[size_t(i)]);
      return out;
    });
  }

  /// The first component that repeats an earlier one, and that one.
  std::optional<std::pair<int, int>> repeated(Args a) const {
    const Monoid m = t_.monoid_of(a[0]);
    const auto xs = t_.items(a[1]);
    for (int j = 0; j < m.size(); ++j)
      for (int i = 0; i < j; ++i)
        if (m.components()[size_t(i)] == m.components()[size_t(j)] && xs[size_t(i)] == xs[size_t(j)])
          return std::pair(j, i);
    return {};
  }
  void add_repeated() {
    make("repeated", {"Monoid", "Vs"}, "i64", [this](Args a) -> std::optional<Value> {
      const auto r = repeated(a);
      return r ? std::optional(t_.integer(r->first)) : std::nullopt;
    });
    make("repeats", {"Monoid", "Vs"}, "i64", [this](Args a) -> std::optional<Value> {
      const auto r = repeated(a);
      return r ? std::optional(t_.integer(r->second)) : std::nullopt;
    });
  }

  /// Both of one length, with zeros of the type that the fact tells.
  void pad(Value info, Classes& p, Classes& q) {
    if (p.size() == q.size()) return;
    const ClassId made = zero(info);
    const size_t n = std::max(p.size(), q.size());
    p.resize(n, made);
    q.resize(n, made);
  }
  ClassId zero(Value info) {
    return t_.add(t_.ops().number, {t_.numbers.id(*number_of(t_.infos[info].dtype, 0))});
  }
  /// In c x - c r, where x is what the statistic r folds, x stands for r: c x - c x, which is 0 also of
  /// infinities and NaN, since r brings them back. Of other terms no rule says so.
  bool cancel(ClassId a, ClassId b) {
    const auto same = [this](ClassId x, ClassId y) { return t_.graph().find(x) == t_.graph().find(y); };
    return same(row(Op::neg, {a}), b) || same(row(Op::neg, {b}), a);
  }
  void add_polynomials() {
    action("vector-product", {"Vs", "Vs"}, [this](Args a) {
      const auto p = items(a[0]), q = items(a[1]);
      Classes r;
      for (size_t l = 0; l + 1 < p.size() + q.size(); ++l) {
        std::optional<Value> sum;
        for (size_t i = 0; i < p.size(); ++i) {
          if (i > l || l - i >= q.size()) continue;
          const Value t = row(Op::mul, {p[i], q[l - i]});
          sum = sum ? row(Op::add, {*sum, t}) : t;
        }
        r.push_back(*sum);
      }
      return r;
    });
    action("vector-sum", {"Info", "Vs", "Vs"}, [this](Args a) {
      auto p = items(a[1]), q = items(a[2]);
      const bool one_moves = p.size() != q.size(); // one of them reads r
      pad(a[0], p, q);
      for (size_t i = 0; i < p.size(); ++i)
        p[i] = i == 0 && one_moves && cancel(p[i], q[i]) ? zero(a[0]) : row(Op::add, {p[i], q[i]});
      return p;
    });
    action("vector-select", {"Info", "V", "Vs", "Vs"}, [this](Args a) {
      auto p = items(a[2]), q = items(a[3]);
      pad(a[0], p, q);
      for (size_t i = 0; i < p.size(); ++i) p[i] = row(Op::select, {a[1], p[i], q[i]});
      return p;
    });
    action("vector-neg", {"Vs"}, [this](Args a) {
      auto p = items(a[0]);
      for (Value& v : p) v = row(Op::neg, {v});
      return p;
    });
  }

  void add_terms() {
    // Each of the second vector read where the view of the first one reads.
    action("vector-view", {"Place", "Vs", "Vs"}, [this](Args a) {
      auto xs = items(a[1]), p = items(a[2]);
      for (Value& v : p) {
        xs[0] = v;
        v = t_.add(t_.ops().view, {a[0], t_.vector(xs)});
      }
      return p;
    });
    action("all-gets", {"Monoid", "F"}, [this](Args a) {
      Classes p;
      for (int i = 0; i < t_.monoid_of(a[0]).size(); ++i)
        p.push_back(t_.add(t_.ops().get, {t_.integer(i), a[1]}));
      return p;
    });
  }
};

} // namespace

void add_vector_primitives(RegionTerms& terms) {
  const auto owner = std::make_shared<VectorPrimitives>(terms);
  terms.keep(owner);
  owner->add();
}

} // namespace luminal::rules
