// egraph/folds_host.cpp -- sorts, guards and constructors that folds/theory.egg calls.
#include "folds_host.h"
#include <algorithm>
#include <cmath>
#include <fstream>
#include <gtest/gtest.h>
#include <sstream>

namespace luminal::egraph::folds {

namespace {
EggOptions limits() {
  EggOptions options;
  options.limits.rows = 20000;
  return options;
}
} // namespace

Theory::Theory(const std::vector<std::pair<std::string, std::string>>& replaced) : program_(limits()) {
  add_sorts();
  add_axes();
  add_numbers();
  add_characters();
  add_monoids();
  const std::string path = std::string(LUMINAL_SOURCE_DIR) + "/tests/egraph/folds/theory.egg";
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  std::string theory = text.str();
  for (const auto& [from, to] : replaced) {
    const size_t at = theory.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    if (at != std::string::npos) theory.replace(at, from.size(), to);
  }
  // Functions over the sorts of the theory are known once those are declared.
  const size_t rules = theory.find("; ---- analyses");
  program_.run(theory.substr(0, rules), path);
  add_actions();
  program_.run(theory.substr(rules), path);
}

Axes Theory::parse(const std::string& names) {
  std::istringstream in(names);
  Axes out;
  for (std::string name; in >> name;) out.insert(name);
  return out;
}

void Theory::guard(const std::string& name, std::vector<std::string> inputs,
                   std::function<bool(std::span<const Value>)> test) {
  program_.add_primitive({name, std::move(inputs), "Unit", [test](std::span<const Value> args, Value& out) {
                            out = 0;
                            return test(args);
                          }});
}

void Theory::make(const std::string& name, std::vector<std::string> inputs, const std::string& output,
                  std::function<std::optional<Value>(std::span<const Value>)> f) {
  program_.add_primitive({name, std::move(inputs), output, [f](std::span<const Value> args, Value& out) {
                            const auto value = f(args);
                            if (value) out = *value;
                            return value.has_value();
                          }});
}

void Theory::add_sorts() {
  program_.add_sort({"Axes", [this](Value v) {
                       std::string out = "(axes";
                       for (const auto& name : axes_[v]) out += " " + name;
                       return out + ")";
                     }});
  program_.add_sort({"Depth", [](Value v) { return "(depth " + std::to_string(v) + ")"; }});
  program_.add_sort({"Character", [this](Value v) {
                       return "(character " + std::to_string(characters_[v].slope) + " " +
                              std::to_string(characters_[v].power) + ")";
                     }});
  program_.add_sort(
      {"Monoid", [this](Value v) { return "(monoid \"" + algebra_.text(monoids_[v]) + "\")"; }});
}

void Theory::add_axes() {
  using A = std::span<const Value>;
  make("no-axes", {}, "Axes", [this](A) { return axes_.id({}); });
  make("axes-join", {"Axes", "Axes"}, "Axes", [this](A a) {
    Axes out = axes_[a[0]];
    out.insert(axes_[a[1]].begin(), axes_[a[1]].end());
    return axes_.id(out);
  });
  make("one-axis", {"String"}, "Axes",
       [this](A a) { return axes_.id({std::string(program_.string_of(a[0]))}); });
  const auto minus = [this](const Axes& a, const Axes& b, bool keep) {
    Axes out;
    for (const auto& name : a)
      if (b.contains(name) == keep) out.insert(name);
    return axes_.id(out);
  };
  make("axes-meet", {"Axes", "Axes"}, "Axes",
       [=, this](A a) { return minus(axes_[a[0]], axes_[a[1]], true); });
  make("axes-minus", {"Axes", "Axes"}, "Axes",
       [=, this](A a) { return minus(axes_[a[0]], axes_[a[1]], false); });
  const auto disjoint = [this](A a) {
    return std::none_of(axes_[a[0]].begin(), axes_[a[0]].end(),
                        [&](const std::string& name) { return axes_[a[1]].contains(name); });
  };
  guard("free", {"Axes", "Axes"}, disjoint);
  guard("bound", {"Axes", "Axes"}, [=](A a) { return !disjoint(a); });

  make("no-depth", {}, "Depth", [this](A) { return depths_.id({}); });
  make("depth-join", {"Depth", "Depth"}, "Depth", [this](A a) {
    Depth out = depths_[a[0]];
    for (const auto& [axis, n] : depths_[a[1]]) out[axis] = std::max(out[axis], n);
    return depths_.id(out);
  });
  make("depth-meet", {"Depth", "Depth"}, "Depth", [this](A a) {
    Depth out;
    for (const auto& [axis, n] : depths_[a[0]])
      if (const auto at = depths_[a[1]].find(axis); at != depths_[a[1]].end())
        out[axis] = std::min(n, at->second);
    return depths_.id(out);
  });
  make("depth-over", {"Depth", "Axes"}, "Depth", [this](A a) {
    Depth out = depths_[a[0]];
    for (const auto& axis : axes_[a[1]]) ++out[axis];
    return depths_.id(out);
  });
  const auto flat = [this](Value depth, Value axes) {
    return std::none_of(axes_[axes].begin(), axes_[axes].end(),
                        [&](const std::string& name) { return depths_[depth].contains(name); });
  };
  guard("flat", {"Depth", "Axes"}, [=](A a) { return flat(a[0], a[1]); });
  guard("deep", {"Depth", "Axes"}, [=](A a) { return !flat(a[0], a[1]); });
  guard("down", {"Depth", "Depth", "Axes"}, [=](A a) { return !flat(a[0], a[2]) || flat(a[1], a[2]); });
}

void Theory::add_numbers() {
  using A = std::span<const Value>;
  const auto unary = [this](const std::string& name, double (*f)(double)) {
    make("num-" + name, {"f64"}, "f64", [this, f](A a) -> std::optional<Value> {
      const double x = real(a[0]), y = f(x);
      if (!std::isfinite(x) || !std::isfinite(y)) return std::nullopt;
      return program_.values().real(y);
    });
  };
  unary("neg", [](double x) { return -x; });
  unary("exp", [](double x) { return std::exp(x); });
  unary("log", [](double x) { return std::log(x); });
  unary("recip", [](double x) { return 1 / x; });
  unary("sqrt", [](double x) { return std::sqrt(x); });
  unary("abs", [](double x) { return std::abs(x); });
  unary("tanh", [](double x) { return std::tanh(x); });
  const auto binary = [this](const std::string& name, double (*f)(double, double)) {
    make("num-" + name, {"f64", "f64"}, "f64", [this, f](A a) -> std::optional<Value> {
      const double y = f(real(a[0]), real(a[1]));
      if (!std::isfinite(real(a[0])) || !std::isfinite(real(a[1])) || !std::isfinite(y)) return std::nullopt;
      return program_.values().real(y);
    });
  };
  binary("add", [](double x, double y) { return x + y; });
  binary("mul", [](double x, double y) { return x * y; });
  binary("max", [](double x, double y) { return std::max(x, y); });
}

void Theory::add_characters() {
  using A = std::span<const Value>;
  make("character", {"f64", "f64"}, "Character",
       [this](A a) { return characters_.id({real(a[0]), real(a[1])}); });
  make("character-product", {"Character", "Character"}, "Character", [this](A a) -> std::optional<Value> {
    const Character h = characters_[a[0]], j = characters_[a[1]];
    if (std::abs(h.power + j.power) > 4) return std::nullopt;
    return characters_.id({h.slope + j.slope, h.power + j.power});
  });
  make("character-inverse", {"Character"}, "Character", [this](A a) {
    const Character h = characters_[a[0]];
    return characters_.id({0 - h.slope, 0 - h.power});
  });
  make("length-of-product", {"i64", "i64"}, "i64", [this](A a) -> std::optional<Value> {
    const int64_t n = integer(a[0]), m = integer(a[1]);
    if (n + m > 6) return std::nullopt;
    return program_.integer(n + m - 1);
  });
  guard("moves", {"Character", "i64"},
        [this](A a) { return characters_[a[0]] != Character{} || integer(a[1]) > 1; });
  guard("regular", {"Character", "i64"},
        [this](A a) { return characters_[a[0]].power == 0 || integer(a[1]) == 2; });
}

void Theory::add_monoids() {
  using A = std::span<const Value>;
  make("sum1", {}, "Monoid", [this](A) { return monoids_.id(algebra_.single(Op::sum)); });
  make("max1", {}, "Monoid", [this](A) { return monoids_.id(algebra_.single(Op::max)); });
  make("min1", {}, "Monoid", [this](A) { return monoids_.id(algebra_.single(Op::min)); });
  guard("plain", {"Monoid", "i64"}, [this](A a) {
    const Monoid& m = monoids_[a[0]];
    const auto i = size_t(integer(a[1]));
    return i < m.size() && m[i].singular.empty() && algebra_.single(m[i].op)[0] == m[i];
  });
  make("last", {"Monoid"}, "i64",
       [this](A a) { return program_.integer(int64_t(monoids_[a[0]].size()) - 1); });
  guard("minimal", {"Monoid", "i64"},
        [this](A a) { return algebra_.minimal(monoids_[a[0]], uint32_t(integer(a[1]))); });
  guard("contracting", {"Monoid", "i64", "Character", "i64"}, [this](A a) {
    return algebra_.contracting(monoids_[a[0]], uint32_t(integer(a[1])), characters_[a[2]],
                                int(integer(a[3])));
  });
  guard("center", {"Monoid", "i64", "i64"}, [this](A a) {
    return integer(a[2]) == 1 || algebra_.internal(monoids_[a[0]], uint32_t(integer(a[1])));
  });
  make("cascade", {"Monoid", "i64", "Character", "i64"}, "Monoid", [this](A a) {
    return monoids_.id(algebra_.cascade(monoids_[a[0]], uint32_t(integer(a[1])), characters_[a[2]],
                                        uint32_t(integer(a[3]))));
  });
  make("component", {"Monoid", "i64"}, "Monoid", [this](A a) -> std::optional<Value> {
    const Monoid m = algebra_.restricted(monoids_[a[0]], uint32_t(integer(a[1])));
    if (m.size() == monoids_[a[0]].size()) return std::nullopt;
    return monoids_.id(m);
  });
}

void Theory::add_actions() {
  using A = std::span<const Value>;
  auto& values = program_.values();
  make("component-bodies", {"Monoid", "i64", "Vs"}, "Vs", [this, &values](A a) {
    const auto bodies = values.sequence_of(a[2]);
    std::vector<Value> out;
    for (const uint32_t i : algebra_.needs(monoids_[a[0]], uint32_t(integer(a[1])))) out.push_back(bodies[i]);
    return values.sequence(out);
  });
  make("vec-reverse", {"Vs"}, "Vs", [&values](A a) {
    const auto items = values.sequence_of(a[0]);
    const std::vector<Value> out(items.rbegin(), items.rend());
    return values.sequence(out);
  });
  // Vectors of coefficients: sums, products, opposites of the terms.
  const OpId add = program_.op("Add"), mul = program_.op("Mul"), neg = program_.op("Neg"),
             constant = program_.op("Const");
  const Value zero = values.real(0);
  const auto term = [](EGraph& graph, OpId op, std::initializer_list<Value> args) {
    return graph.add(op, std::span(args.begin(), args.size()));
  };
  const auto items = [&values](Value v) {
    const auto s = values.sequence_of(v);
    return std::vector<Value>(s.begin(), s.end()); // a copy: interning moves the pool
  };
  program_.add_action({"conv", {"Vs", "Vs"}, "Vs", [=, &values](EGraph& graph, A a, Value& out) {
                         const auto p = items(a[0]), q = items(a[1]);
                         std::vector<Value> r;
                         for (size_t l = 0; l + 1 < p.size() + q.size(); ++l) {
                           std::optional<Value> sum;
                           for (size_t i = 0; i < p.size(); ++i) {
                             if (i > l || l - i >= q.size()) continue;
                             const Value t = term(graph, mul, {p[i], q[l - i]});
                             sum = sum ? term(graph, add, {*sum, t}) : t;
                           }
                           r.push_back(*sum);
                         }
                         out = values.sequence(r);
                         return true;
                       }});
  program_.add_action({"vector-sum", {"Vs", "Vs"}, "Vs", [=, &values](EGraph& graph, A a, Value& out) {
                         auto p = items(a[0]), q = items(a[1]);
                         const Value none = term(graph, constant, {zero});
                         p.resize(std::max(p.size(), q.size()), none);
                         q.resize(p.size(), none);
                         for (size_t i = 0; i < p.size(); ++i) p[i] = term(graph, add, {p[i], q[i]});
                         out = values.sequence(p);
                         return true;
                       }});
  const OpId select = program_.op("Select");
  program_.add_action(
      {"vector-select", {"V", "Vs", "Vs"}, "Vs", [=, &values](EGraph& graph, A a, Value& out) {
         auto p = items(a[1]), q = items(a[2]);
         const Value none = term(graph, constant, {zero});
         p.resize(std::max(p.size(), q.size()), none);
         q.resize(p.size(), none);
         for (size_t i = 0; i < p.size(); ++i) p[i] = term(graph, select, {a[0], p[i], q[i]});
         out = values.sequence(p);
         return true;
       }});
  program_.add_action({"vector-neg", {"Vs"}, "Vs", [=, &values](EGraph& graph, A a, Value& out) {
                         auto p = items(a[0]);
                         for (Value& v : p) v = term(graph, neg, {v});
                         out = values.sequence(p);
                         return true;
                       }});
}

Value Theory::op(const std::string& name, std::initializer_list<Value> args) {
  return program_.graph().add(program_.op(name), std::span(args.begin(), args.size()));
}
Value Theory::in(const std::string& name, const std::string& axes) {
  return op("In", {program_.string(name), axes_value(axes)});
}
Value Theory::iota(const std::string& axis) { return op("Iota", {program_.string(axis)}); }
Value Theory::constant(double v) { return op("Const", {program_.values().real(v)}); }
Value Theory::get(int64_t i, const Monoid& monoid, const std::vector<Value>& bodies,
                  const std::string& axes) {
  const Value all = program_.values().sequence(bodies);
  return op("Get", {program_.integer(i), op("Fold", {monoids_.id(monoid), axes_value(axes), all})});
}
Value Theory::fold(Op o, Value x, const std::string& axes) { return get(0, algebra_.single(o), {x}, axes); }
Value Theory::mean(Value x, const std::string& axes) {
  return op("Div", {fold(Op::sum, x, axes), op("Dim", {axes_value(axes)})});
}

uint64_t Theory::saturate() {
  const uint64_t before = program_.totals().iterations;
  program_.run(R"(
(run-schedule
  (repeat 3
    (repeat 12 (saturate (run facts)) (run scalar) (run factor))
    (repeat 16 (saturate (run facts)) (run scalar) (run family))
    (repeat 8 (saturate (run facts)) (run cascade) (run tuple) (run scalar))
    (saturate (run facts))))
)",
               "schedule");
  return program_.totals().iterations - before;
}

const Axes& Theory::axes_of(ClassId c) {
  const Value leader = program_.graph().find(c);
  const auto known = program_.graph().lookup(program_.op("axes"), std::span(&leader, 1));
  return axes_[known ? *known : axes_.id({})];
}
const Depth& Theory::depth_of(ClassId c) {
  const Value leader = program_.graph().find(c);
  const auto known = program_.graph().lookup(program_.op("depth"), std::span(&leader, 1));
  return depths_[known ? *known : depths_.id({})];
}

int Theory::passes(Value x, const std::string& axis) {
  auto& graph = program_.graph();
  const Value leader = graph.find(x);
  const auto depth = graph.lookup(program_.op("depth"), std::span(&leader, 1));
  if (!depth) return -1;
  const auto at = depths_[*depth].find(axis);
  return at == depths_[*depth].end() ? 0 : at->second;
}

std::vector<std::string> Theory::monoids() {
  std::set<std::string> out;
  program_.graph().for_each_row(program_.op("Fold"), [&](const RowView& row) {
    if (monoids_[row.args()[0]].size() > 1) out.insert(algebra_.text(monoids_[row.args()[0]]));
    return true;
  });
  return {out.begin(), out.end()};
}

} // namespace luminal::egraph::folds
