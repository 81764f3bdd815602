// rules/folds_vectors.cpp -- primitives and actions of folds/theory.egg on vectors of classes:
// bodies of tuples, coefficients of families.
#include "folds_host.h"
#include <algorithm>

namespace luminal::egraph::folds {

using Args = std::span<const Value>;

std::vector<Value> Theory::items(Value v) {
  const auto s = program_.values().sequence_of(v);
  return {s.begin(), s.end()}; // a copy: interning moves the pool
}

void Theory::act(const std::string& name, std::vector<std::string> inputs,
                 std::function<std::vector<Value>(Args)> f) {
  program_.add_action({name, std::move(inputs), "Vs", [this, f](EGraph&, Args a, Value& out) {
                         out = program_.values().sequence(f(a));
                         return true;
                       }});
}

void Theory::add_vectors() {
  const auto vector = [this](const std::string& name, std::vector<std::string> inputs,
                             std::function<std::vector<Value>(Args)> f) {
    make(name, std::move(inputs), "Vs", [this, f](Args a) { return program_.values().sequence(f(a)); });
  };
  make("vec-last", {"Vs"}, "V", [this](Args a) -> std::optional<Value> {
    const auto s = program_.values().sequence_of(a[0]);
    return s.empty() ? std::nullopt : std::optional(s.back());
  });
  vector("vec-reverse", {"Vs"}, [this](Args a) {
    auto out = items(a[0]);
    std::reverse(out.begin(), out.end());
    return out;
  });
  vector("component-bodies", {"Monoid", "i64", "Vs"}, [this](Args a) {
    const auto bodies = items(a[2]);
    std::vector<Value> out;
    for (const uint32_t i : algebra_.needs(monoids_[a[0]], uint32_t(integer(a[1])))) out.push_back(bodies[i]);
    return out;
  });
  // The first component that repeats an earlier one, and that one.
  const auto repeated = [this](Args a) -> std::optional<std::pair<uint32_t, uint32_t>> {
    const Monoid& m = monoids_[a[0]];
    const auto xs = program_.values().sequence_of(a[1]);
    for (uint32_t j = 0; j < m.size(); ++j)
      for (uint32_t i = 0; i < j; ++i)
        if (m[i] == m[j] && xs[i] == xs[j]) return std::pair(j, i);
    return std::nullopt;
  };
  make("repeated", {"Monoid", "Vs"}, "i64", [=, this](Args a) -> std::optional<Value> {
    const auto r = repeated(a);
    return r ? std::optional(program_.integer(r->first)) : std::nullopt;
  });
  make("repeats", {"Monoid", "Vs"}, "i64", [=, this](Args a) -> std::optional<Value> {
    const auto r = repeated(a);
    return r ? std::optional(program_.integer(r->second)) : std::nullopt;
  });

  // ---- actions: they make terms
  const OpId add = program_.op("Add"), mul = program_.op("Mul"), neg = program_.op("Neg"),
             select = program_.op("Select"), constant = program_.op("Const"), get = program_.op("Get"),
             view = program_.op("View");
  const auto term = [this](OpId op, std::initializer_list<Value> args) {
    return program_.graph().add(op, std::span(args.begin(), args.size()));
  };
  const auto padded = [=, this](std::vector<Value>& p, std::vector<Value>& q) {
    if (p.size() == q.size()) return;
    const Value zero = term(constant, {program_.values().real(0)});
    const size_t n = std::max(p.size(), q.size());
    p.resize(n, zero);
    q.resize(n, zero);
  };
  act("conv", {"Vs", "Vs"}, [=, this](Args a) {
    const auto p = items(a[0]), q = items(a[1]);
    std::vector<Value> r;
    for (size_t l = 0; l + 1 < p.size() + q.size(); ++l) {
      std::optional<Value> sum;
      for (size_t i = 0; i < p.size(); ++i) {
        if (i > l || l - i >= q.size()) continue;
        const Value t = term(mul, {p[i], q[l - i]});
        sum = sum ? term(add, {*sum, t}) : t;
      }
      r.push_back(*sum);
    }
    return r;
  });
  act("vector-sum", {"Vs", "Vs"}, [=, this](Args a) {
    auto p = items(a[0]), q = items(a[1]);
    padded(p, q);
    for (size_t i = 0; i < p.size(); ++i) p[i] = term(add, {p[i], q[i]});
    return p;
  });
  act("vector-select", {"V", "Vs", "Vs"}, [=, this](Args a) {
    auto p = items(a[1]), q = items(a[2]);
    padded(p, q);
    for (size_t i = 0; i < p.size(); ++i) p[i] = term(select, {a[0], p[i], q[i]});
    return p;
  });
  act("vector-neg", {"Vs"}, [=, this](Args a) {
    auto p = items(a[0]);
    for (Value& v : p) v = term(neg, {v});
    return p;
  });
  act("vector-view", {"Window", "Vs"}, [=, this](Args a) {
    auto p = items(a[1]);
    for (Value& v : p) v = term(view, {a[0], v});
    return p;
  });
  act("all-gets", {"Monoid", "F"}, [=, this](Args a) {
    std::vector<Value> p;
    for (size_t i = 0; i < monoids_[a[0]].size(); ++i)
      p.push_back(term(get, {program_.integer(int64_t(i)), a[1]}));
    return p;
  });
}

} // namespace luminal::egraph::folds
