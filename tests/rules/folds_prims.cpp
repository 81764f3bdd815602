// rules/folds_prims.cpp -- the primitives and actions that folds/theory.egg calls.
#include "folds_host.h"
#include <algorithm>
#include <cmath>

namespace luminal::egraph::folds {

using Args = std::span<const Value>;

void Theory::guard(const std::string& name, std::vector<std::string> inputs, std::function<bool(Args)> test) {
  program_.add_primitive({name, std::move(inputs), "Unit", [test](Args args, Value& out) {
                            out = 0;
                            return test(args);
                          }});
}

void Theory::make(const std::string& name, std::vector<std::string> inputs, const std::string& output,
                  std::function<std::optional<Value>(Args)> f) {
  program_.add_primitive({name, std::move(inputs), output, [f](Args args, Value& out) {
                            const auto value = f(args);
                            if (value) out = *value;
                            return value.has_value();
                          }});
}

/// Primitives are pure: the answer to each question is found once.
template <class Answer> static auto remembered(std::function<Answer(Args)> f) {
  auto known = std::make_shared<std::map<std::vector<Value>, Answer>>();
  return [f, known](Args a) {
    std::vector<Value> key(a.begin(), a.end());
    const auto at = known->find(key);
    return at != known->end() ? at->second : known->emplace(std::move(key), f(a)).first->second;
  };
}

std::string Theory::text_of(Value v) const { return std::string(program_.string_of(v)); }

void Theory::add_axes() {
  make("one-axis", {"String"}, "Axes", [this](Args a) { return axes_.id({text_of(a[0])}); });
  make("inner", {"String"}, "Axes", [this](Args a) { return axes_.id({text_of(a[0]) + ".i"}); });
  make("outer", {"String"}, "Axes", [this](Args a) { return axes_.id({text_of(a[0]) + ".o"}); });
  make("axes-join", {"Axes", "Axes"}, "Axes", [this](Args a) {
    Axes out = axes_[a[0]];
    out.insert(axes_[a[1]].begin(), axes_[a[1]].end());
    return axes_.id(out);
  });
  guard("apart", {"Axes", "Axes"}, [this](Args a) { return (bits(a[0]) & bits(a[1])) == 0; });
  guard("covers", {"String", "String"}, [this](Args a) { // every index of the second is one of the first
    const auto k = extents_.find(text_of(a[0])), t = extents_.find(text_of(a[1]));
    return k != extents_.end() && t != extents_.end() && t->second <= k->second;
  });
  const auto window = [this](std::string axis, std::vector<std::pair<std::string, int64_t>> terms) {
    return windows_.id({std::move(axis), std::move(terms), 0, 1, std::nullopt});
  };
  make("rename", {"Axes", "String"}, "Window", [=, this](Args a) -> std::optional<Value> {
    if (axes_[a[0]].size() != 1) return std::nullopt;
    return window(*axes_[a[0]].begin(), {{text_of(a[1]), 1}});
  });
  make("tiles", {"String", "i64"}, "Window", [=, this](Args a) {
    const std::string k = text_of(a[0]);
    return window(k, {{k + ".o", integer(a[1])}, {k + ".i", 1}});
  });
  make("renamed", {"Window", "String"}, "String", [this](Args a) -> std::optional<Value> {
    const Window& w = windows_[a[0]];
    const bool simple =
        w.terms.size() == 1 && w.terms[0].second == 1 && w.offset == 0 && w.divisor == 1 && !w.fill;
    if (!simple || w.axis != text_of(a[1])) return std::nullopt;
    return program_.string(w.terms[0].first);
  });
  guard("total", {"Window"}, [this](Args a) { return !windows_[a[0]].fill; });
  guard("off", {"Window", "Info"},
        [this](Args a) { return (infos_[a[1]].axes >> names_.number(windows_[a[0]].axis) & 1) == 0; });
}

void Theory::add_facts() {
  const auto info = [this](const std::string& name, std::vector<std::string> inputs,
                           std::function<Info(Args)> f) {
    make(name, std::move(inputs), "Info", [this, f](Args a) { return infos_.id(f(a)); });
  };
  info("info-meet", {"Info", "Info"}, [this](Args a) { return meet(infos_[a[0]], infos_[a[1]]); });
  const auto leaf = [](AxisBits axes, int sign, bool fixed) {
    Info out;
    out.axes = axes;
    out.sign = uint8_t(sign);
    out.fixed = fixed;
    return out;
  };
  info("info-input", {"Axes"}, [=, this](Args a) { return leaf(bits(a[0]), 0, false); });
  info("info-parameter", {"Axes"}, [=, this](Args a) { return leaf(bits(a[0]), 0, true); });
  info("info-extent", {}, [=](Args) { return leaf(0, 2, true); });
  info("info-index", {"String"},
       [=, this](Args a) { return leaf(AxisBits(1) << names_.number(text_of(a[0])), 1, true); });
  info("info-constant", {"f64"}, [=, this](Args a) {
    Info out = leaf(0, sign_of(real(a[0])), true);
    out.constant = real(a[0]);
    return out;
  });
  for (size_t n = 1; n <= 3; ++n) {
    std::vector<std::string> inputs(n + 1, "Info");
    inputs[0] = "String";
    info("info-map", inputs, [this, n](Args a) {
      const Info* operands[3] = {};
      for (size_t i = 0; i < n; ++i) operands[i] = &infos_[a[i + 1]];
      return map_info(program_.string_of(a[0]), std::span(operands, n));
    });
  }
  info("info-square", {"Info"}, [this](Args a) {
    const Info* operands[] = {&infos_[a[0]], &infos_[a[0]]};
    Info out = map_info("Mul", operands);
    out.sign = std::max(out.sign, uint8_t(1));
    return out;
  });
  for (const bool scan : {false, true})
    info(scan ? "info-scan" : "info-fold", {"i64", "Monoid", "Axes", "Infos"}, [this, scan](Args a) {
      std::vector<const Info*> bodies;
      for (const Value v : vectors_[a[3]]) bodies.push_back(&infos_[v]);
      return fold_info(algebra_, monoids_[a[1]], uint32_t(integer(a[0])), bits(a[2]), bodies, scan);
    });
  info("info-view", {"Window", "Info"},
       [this](Args a) { return view_info(windows_[a[0]], names_, infos_[a[1]]); });
  info("info-take", {"Axes", "Info", "Info"},
       [this](Args a) { return take_info(bits(a[0]), infos_[a[1]], infos_[a[2]]); });
  make("constant", {"Info"}, "f64", [this](Args a) -> std::optional<Value> {
    const auto& v = infos_[a[0]].constant;
    return v ? std::optional(program_.values().real(*v)) : std::nullopt;
  });
  make("no-infos", {}, "Infos", [this](Args) { return vectors_.id({}); });
  make("infos-push", {"Infos", "Info"}, "Infos", [this](Args a) {
    auto out = vectors_[a[0]];
    out.push_back(a[1]);
    return vectors_.id(out);
  });
  make("infos-meet", {"Infos", "Infos"}, "Infos", [this](Args a) {
    auto out = vectors_[a[0]];
    const auto& other = vectors_[a[1]];
    for (size_t i = 0; i < out.size(); ++i) out[i] = infos_.id(meet(infos_[out[i]], infos_[other[i]]));
    return vectors_.id(out);
  });

  const auto test = [this](const std::string& name, std::vector<std::string> inputs,
                           std::function<bool(const Info&, Args)> f) {
    guard(name, std::move(inputs), [this, f](Args a) { return f(infos_[a[0]], a); });
  };
  test("free", {"Info", "Axes"}, [this](const Info& i, Args a) { return (i.axes & bits(a[1])) == 0; });
  test("bound", {"Info", "Axes"}, [this](const Info& i, Args a) { return (i.axes & bits(a[1])) != 0; });
  test("flat", {"Info", "Axes"}, [this](const Info& i, Args a) { return i.flat(bits(a[1])); });
  test("deep", {"Info", "Axes"}, [this](const Info& i, Args a) { return !i.flat(bits(a[1])); });
  test("no-passes", {"Info"}, [](const Info& i, Args) { return i.passes.empty(); });
  test("down", {"Info", "Info", "Axes"},
       [this](const Info& i, Args a) { return !i.flat(bits(a[2])) || infos_[a[1]].flat(bits(a[2])); });
  test("fixed", {"Info"}, [](const Info& i, Args) { return i.fixed; });
  test("varies", {"Info"}, [](const Info& i, Args) { return !i.fixed; });
  test("parameter", {"Info"}, [](const Info& i, Args) { return i.fixed && i.axes != 0 && !i.constant; });
  test("within", {"Info", "Info"},
       [this](const Info& i, Args a) { return (i.axes & ~infos_[a[1]].axes) == 0; });
  test("not-negative", {"Info"}, [](const Info& i, Args) { return i.sign > 0; });
  test("scales", {"Info"}, [](const Info& i, Args) { return i.constant != 1.0 && i.constant != -1.0; });
  test("not-one", {"Info"}, [](const Info& i, Args) { return i.constant != 1.0; });
  guard("all-flat", {"Infos", "Axes"}, [this](Args a) {
    return std::all_of(vectors_[a[0]].begin(), vectors_[a[0]].end(),
                       [&](Value v) { return infos_[v].flat(bits(a[1])); });
  });
  // 1: a factor is still held back by the sum over the axes
  guard("pulled", {"i64", "Info", "Axes"},
        [this](Args a) { return integer(a[0]) == 0 || infos_[a[1]].flat(bits(a[2])); });
}

void Theory::add_characters() {
  make("power", {"f64"}, "Character", [this](Args a) { return characters_.id({0, real(a[0]), {}}); });
  make("exponential", {"f64"}, "Character", [this](Args a) { return characters_.id({real(a[0]), 0, {}}); });
  make("indicator", {"f64"}, "Character", [this](Args a) { return characters_.id({0, 0, real(a[0])}); });
  make("character-product", {"Character", "Character"}, "Character", [this](Args a) -> std::optional<Value> {
    const Character h = characters_[a[0]], j = characters_[a[1]];
    if (std::abs(h.power + j.power) > 4) return std::nullopt;
    if (h.other.value_or(0) != 0 || j.other.value_or(0) != 0) return std::nullopt;
    return characters_.id({h.slope + j.slope, h.power + j.power, h.other ? h.other : j.other});
  });
  make("character-inverse", {"Character"}, "Character", [this](Args a) -> std::optional<Value> {
    const Character h = characters_[a[0]];
    if (h.other) return std::nullopt;
    return characters_.id({0 - h.slope, 0 - h.power, {}});
  });
  make("character-root", {"Character"}, "Character", [this](Args a) -> std::optional<Value> {
    const Character h = characters_[a[0]];
    if (h.other) return std::nullopt;
    return characters_.id({h.slope / 2, h.power / 2, {}});
  });
  make("length-of-product", {"i64", "i64"}, "i64", [this](Args a) -> std::optional<Value> {
    const int64_t n = integer(a[0]), m = integer(a[1]);
    if (n + m > 6) return std::nullopt;
    return program_.integer(n + m - 1);
  });
  guard("moves", {"Character", "i64"},
        [this](Args a) { return characters_[a[0]] != Character{} || integer(a[1]) > 1; });
  guard("regular", {"Character", "Info"},
        [this](Args a) { return characters_[a[0]].power == 0 || infos_[a[1]].sign == 2; });
  guard("smooth", {"Character"}, [this](Args a) { return !characters_[a[0]].other; });
  guard("keeps-0", {"Character"}, [this](Args a) { return characters_[a[0]].other.value_or(0) == 0; });
  guard("indicates", {"Character", "String"}, [this](Args a) {
    const Character& h = characters_[a[0]];
    const Op o = op_of(a[1]);
    return o != Op::sum && h.slope == 0 && h.power == 0 && h.other == identity(o);
  });
  guard("compares", {"Character", "String", "Monoid"}, [this](Args a) {
    const Character& h = characters_[a[0]];
    const Monoid& m = monoids_[a[2]];
    const uint32_t j = last(a[2]);
    return !h.other || (*h.other == identity(op_of(a[1])) && m[j].op != Op::sum && algebra_.plain(m, j));
  });
}

Op Theory::op_of(Value name) const {
  const auto text = program_.string_of(name);
  return text == "sum" ? Op::sum : text == "max" ? Op::max : Op::min;
}

void Theory::add_monoids() {
  make("sum1", {}, "Monoid", [this](Args) { return monoids_.id(algebra_.single(Op::sum)); });
  make("max1", {}, "Monoid", [this](Args) { return monoids_.id(algebra_.single(Op::max)); });
  make("single", {"Monoid"}, "String", [this](Args a) -> std::optional<Value> {
    const Monoid& m = monoids_[a[0]];
    if (m.size() != 1 || !algebra_.plain(m, 0)) return std::nullopt;
    return program_.string(m[0].op == Op::sum ? "sum" : m[0].op == Op::max ? "max" : "min");
  });
  make("first-monoid", {"Monoid", "Monoid"}, "Monoid",
       [this](Args a) { // by its text: numbers depend on what came before
         return algebra_.text(monoids_[a[0]]) <= algebra_.text(monoids_[a[1]]) ? a[0] : a[1];
       });
  guard("tropical", {"String"}, [this](Args a) { return op_of(a[0]) != Op::sum; });
  make("last", {"Monoid"}, "i64", [this](Args a) { return program_.integer(last(a[0])); });
  make("identity", {"Monoid", "i64"}, "f64",
       [this](Args a) { return program_.values().real(identity(monoids_[a[0]][size_t(integer(a[1]))].op)); });
  guard("minimal", {"Monoid", "i64"}, remembered<bool>([this](Args a) {
          return algebra_.minimal(monoids_[a[0]], uint32_t(integer(a[1])));
        }));
  // What follows the last component of a monoid.
  guard("contracting", {"Monoid", "Character", "Info"}, [this](Args a) {
    return algebra_.contracting(monoids_[a[0]], last(a[0]), characters_[a[1]], infos_[a[2]].sign);
  });
  guard("center", {"Monoid", "i64"}, remembered<bool>([this](Args a) {
          return integer(a[1]) == 1 || algebra_.internal(monoids_[a[0]], last(a[0]));
        }));
  make("cascade", {"Monoid", "String", "Character", "i64"}, "Monoid", [this](Args a) {
    return monoids_.id(algebra_.cascade(monoids_[a[0]], last(a[0]), op_of(a[1]), characters_[a[2]],
                                        uint32_t(integer(a[3]))));
  });
  make("shift", {"Monoid", "String", "f64"}, "Monoid", [this](Args a) {
    return monoids_.id(algebra_.shift(monoids_[a[0]], last(a[0]), op_of(a[1]), real(a[2])));
  });
  const auto some = [this](const std::optional<Monoid>& m) -> std::optional<Value> {
    if (!m) return std::nullopt;
    return monoids_.id(*m);
  };
  make("below", {"Monoid"}, "Monoid",
       [=, this](Args a) { return some(algebra_.below(monoids_[a[0]], last(a[0]))); });
  make("component", {"Monoid", "i64"}, "Monoid",
       remembered<std::optional<Value>>([this](Args a) -> std::optional<Value> {
         const Monoid m = algebra_.restricted(monoids_[a[0]], uint32_t(integer(a[1])));
         if (m.size() == monoids_[a[0]].size()) return std::nullopt;
         return monoids_.id(m);
       }));
  make("without", {"Monoid", "i64", "i64", "f64"}, "Monoid", [=, this](Args a) {
    return some(
        algebra_.dropped(monoids_[a[0]], uint32_t(integer(a[1])), uint32_t(integer(a[2])), real(a[3])));
  });
  make("without", {"Monoid", "i64"}, "Monoid", [=, this](Args a) {
    return some(algebra_.dropped(monoids_[a[0]], uint32_t(integer(a[1])), std::nullopt));
  });
  make("place", {"i64", "i64", "i64"}, "i64",
       [this](Args a) { // of component i when j went and h stands for it
         const int64_t i = integer(a[0]), j = integer(a[1]), h = integer(a[2]);
         return program_.integer(i == j ? h : i - (i > j ? 1 : 0));
       });
  make("neutral", {"Monoid", "Infos"}, "i64",
       remembered<std::optional<Value>>([this](Args a) -> std::optional<Value> {
         const Monoid& m = monoids_[a[0]];
         for (uint32_t j = 0; j < m.size() && m.size() > 1; ++j)
           if (infos_[vectors_[a[1]][j]].constant == identity(m[j].op) && algebra_.preserves(m, j) &&
               algebra_.dropped(m, j, std::nullopt))
             return program_.integer(j);
         return std::nullopt;
       }));
  // The first component that is always some number times an earlier one: which, of which, how
  // often.
  struct Proportional {
    Value j, i, c;
  };
  const auto proportional =
      remembered<std::optional<Proportional>>([this](Args a) -> std::optional<Proportional> {
        const Monoid& m = monoids_[a[0]];
        const auto& is = vectors_[a[1]];
        for (uint32_t j = 0; j < m.size(); ++j)
          for (uint32_t i = 0; i < j; ++i) {
            const auto &v = infos_[is[j]].constant, &u = infos_[is[i]].constant;
            if (!u || !v) continue;
            const auto c = algebra_.proportion(m, j, i, *v, *u);
            if (c && algebra_.dropped(m, j, i, *c))
              return Proportional{program_.integer(j), program_.integer(i), program_.values().real(*c)};
          }
        return std::nullopt;
      });
  const auto part = [&](const std::string& name, const std::string& output, Value Proportional::* field) {
    make(name, {"Monoid", "Infos"}, output, [=](Args a) -> std::optional<Value> {
      const auto p = proportional(a);
      return p ? std::optional((*p).*field) : std::nullopt;
    });
  };
  part("proportional", "i64", &Proportional::j);
  part("proportional-to", "i64", &Proportional::i);
  part("proportion", "f64", &Proportional::c);
}

} // namespace luminal::egraph::folds
