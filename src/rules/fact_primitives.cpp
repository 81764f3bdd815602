// rules/fact_primitives.cpp -- the functions of facts.egg, and the guards that ask facts.
#include "base/check.h"
#include "rules/facts.h"
#include "rules/primitives.h"
#include "rules/theory.h"
#include <algorithm>
#include <cmath>
#include <unordered_map>

namespace luminal::rules {
namespace {

class FactPrimitives : public Primitives {
public:
  explicit FactPrimitives(RegionTerms& terms) : Primitives(terms), make_(terms) {}
  void add() {
    add_infos();
    add_lists();
    add_results();
    add_guards();
  }

private:
  const Info& info(Value v) const { return t_.infos[v]; }
  void fact(const char* name, std::vector<std::string> inputs, std::function<Info(Args)> f) {
    make(name, std::move(inputs), "Info", [f, &t = t_](Args a) { return t.infos.id(f(a)); });
  }
  /// Infos of the elements of a vector.
  std::vector<const Info*> operands(Value list) const {
    std::vector<const Info*> out;
    for (const Value v : t_.info_lists[list].infos) out.push_back(&info(v));
    return out;
  }
  Op op_of(Value name) {
    if (ops_.empty())
      for (int k = 0; k < op_count; ++k)
        ops_[t_.program().string(t_.graph().op(t_.ops().rows[size_t(k)]).name)] = Op(k);
    return ops_.at(name);
  }

  void add_infos() {
    fact("at-least-one", {"Info"}, [this](Args a) {
      Info out = info(a[0]);
      out.low = std::max(out.low, 1.0);
      return out;
    });
    fact("one-or-nothing", {"Info"}, [this](Args a) { // 0, or from 1 to some number of terms
      Info out = info(a[0]);
      out.magnitude = meet(out.magnitude, magnitude_of(DType::i64));
      return out;
    });
    fact("up-to-one", {"Info"}, [this](Args a) { // where it is finite
      Info out = info(a[0]);
      out.magnitude.above = 0;
      return out;
    });
    fact("info-meet", {"Info", "Info"}, [this](Args a) { return meet(info(a[0]), info(a[1])); });
    fact("info-leaf", {"Leaf"}, [this](Args a) { return make_.leaf(a[0]); });
    fact("info-number", {"Number"}, [this](Args a) { return make_.number(a[0]); });
    fact("info-index", {"Iota"}, [this](Args a) { return make_.iota(a[0]); });
    fact("info-extent", {"DType"}, [this](Args a) { return make_.extent(DType(a[0])); });
    fact("info-cast", {"DType", "Info"}, [this](Args a) { return make_.cast(DType(a[0]), info(a[1])); });
    for (size_t n = 1; n <= 3; ++n) {
      std::vector<std::string> inputs(n + 1, "Info");
      inputs[0] = "String";
      fact("info-row", inputs, [this, n](Args a) {
        const Info* xs[3] = {};
        for (size_t k = 0; k < n; ++k) xs[k] = &info(a[k + 1]);
        return make_.row(op_of(a[0]), std::span(xs, n));
      });
    }
    fact("info-square", {"Info"}, [this](Args a) { return make_.square(info(a[0])); });
    fact("info-op", {"Payload", "Infos"}, [this](Args a) { return make_.op(a[0], operands(a[1])); });
    fact("info-view", {"Place", "Infos"}, [this](Args a) { return make_.view(a[0], operands(a[1])); });
    fact("info-fold", {"i64", "Monoid", "Axes", "Infos"},
         [this](Args a) { return make_.result(int(integer(a[0])), a[1], a[2], operands(a[3])); });
    fact("info-scan", {"i64", "Monoid", "Along", "Infos"},
         [this](Args a) { return make_.prefix(int(integer(a[0])), a[1], a[2], operands(a[3])); });
    fact("info-opaque", {"i64", "Payload", "Infos"},
         [this](Args a) { return make_.opaque(int(integer(a[0])), a[1], operands(a[2])); });
  }

  void add_lists() {
    const auto list = [this](const char* name, std::vector<std::string> inputs,
                             std::function<InfoList(Args)> f) {
      make(name, std::move(inputs), "Infos", [f, &t = t_](Args a) { return t.info_lists.id(f(a)); });
    };
    list("no-infos", {}, [](Args) { return InfoList(); });
    list("infos-push", {"Infos", "Info"}, [this](Args a) {
      InfoList out = t_.info_lists[a[0]];
      out.infos.push_back(a[1]);
      return out;
    });
    list("infos-meet", {"Infos", "Infos"}, [this](Args a) {
      InfoList out = t_.info_lists[a[0]];
      const InfoList other = t_.info_lists[a[1]];
      for (size_t k = 0; k < out.infos.size(); ++k)
        out.infos[k] = t_.infos.id(meet(info(out.infos[k]), info(other.infos[k])));
      return out;
    });
  }

  /// What facts say about the value itself.
  void add_results() {
    make("constant", {"Info"}, "Number", [this](Args a) -> std::optional<Value> {
      const auto n = info(a[0]).constant;
      return n ? std::optional(t_.numbers.id(*n)) : std::nullopt;
    });
    make("index-term", {"Info"}, "Iota", [this](Args a) -> std::optional<Value> {
      const Info& i = info(a[0]);
      if (!i.index || i.constant || is_float(i.dtype)) return {};
      return t_.iotas.id({*i.index, i.dtype});
    });
    make("dtype", {"Info"}, "DType", [this](Args a) { return Value(info(a[0]).dtype); });
    make("number", {"Number"}, "f64",
         [this](Args a) { return t_.program().values().real(value_of(t_.numbers[a[0]])); });
    make("like", {"Info", "f64"}, "Number", [this](Args a) -> std::optional<Value> {
      const auto n = number_of(info(a[0]).dtype, real(a[1]));
      return n ? std::optional(t_.numbers.id(*n)) : std::nullopt;
    });
    make("of-type", {"DType", "f64"}, "Number", [this](Args a) -> std::optional<Value> {
      const auto n = number_of(DType(a[0]), real(a[1]));
      return n ? std::optional(t_.numbers.id(*n)) : std::nullopt;
    });
    guard("is", {"Number", "f64"}, [this](Args a) { // zeros of either sign alike
      return value_of(t_.numbers[a[0]]) == real(a[1]);
    });
  }

  void add_guards() {
    const auto test = [this](const char* name, std::vector<std::string> inputs,
                             std::function<bool(const Info&, Args)> f) {
      guard(name, std::move(inputs), [this, f](Args a) { return f(info(a[0]), a); });
    };
    const auto over = [this](Value v) -> const AxisSet& { return t_.sets[v]; };
    test("free", {"Info", "Axes"}, [=](const Info& i, Args a) { return !i.axes.intersects(over(a[1])); });
    test("bound", {"Info", "Axes"}, [=](const Info& i, Args a) { return i.axes.intersects(over(a[1])); });
    test("flat", {"Info", "Axes"}, [=](const Info& i, Args a) { return i.flat(over(a[1])); });
    test("deep", {"Info", "Axes"}, [=](const Info& i, Args a) { return !i.flat(over(a[1])); });
    test("no-passes", {"Info"}, [](const Info& i, Args) { return i.passes.empty(); });
    test("down", {"Info", "Info", "Axes"},
         [this, over](const Info& i, Args a) { return !i.flat(over(a[2])) || info(a[1]).flat(over(a[2])); });
    // It waits for more passes over one of the axes.
    test("deeper", {"Info", "Info", "Axes"}, [this, over](const Info& i, Args a) {
      return std::ranges::any_of(i.passes, [&](const AxisPasses& p) {
        return over(a[2]).contains(p.axis) && p.count > info(a[1]).passes_over(p.axis);
      });
    });
    test("fixed", {"Info"}, [](const Info& i, Args) { return i.fixed; });
    test("varies", {"Info"}, [](const Info& i, Args) { return !i.fixed; });
    test("parameter", {"Info"},
         [](const Info& i, Args) { return i.fixed && !i.axes.empty() && !i.constant && !i.index; });
    test("within", {"Info", "Info"},
         [this](const Info& i, Args a) { return info(a[1]).axes.includes(i.axes); });
    test("boolean", {"Info"}, [](const Info& i, Args) { return i.dtype == DType::boolean; });
    test("floating", {"Info"}, [](const Info& i, Args) { return is_float(i.dtype); });
    test("not-negative", {"Info"}, [](const Info& i, Args) { return i.not_negative(); });
    test("positive", {"Info"}, [](const Info& i, Args) { return i.positive(); });
    test("finite", {"Info"}, [](const Info& i, Args) { return i.finite; });
    // A product with it is 0 where the sum over the axes is one of nothing.
    test("some-or-finite", {"Info", "Axes"},
         [this, over](const Info& i, Args a) { return i.finite || !may_be_empty(t_.axes, over(a[1])); });
    // A product of a and p in place of one of a and c p.
    test("keeps-range", {"Info", "Info", "Info"}, [this](const Info& c, Args args) {
      return is_mid_range(c) || is_never_large(info(args[1])) || is_never_large(info(args[2]));
    });
    test("wide-exponents", {"Info"}, [](const Info& i, Args) { return has_wide_exponents(i.dtype); });
    test("no-extremum", {"Info", "Axes"},
         [=](const Info& i, Args a) { return !i.extremum.intersects(over(a[1])); });
    test("scales", {"Info"}, [](const Info& i, Args) { return i.number() != 1.0 && i.number() != -1.0; });
    test("not-one", {"Info"}, [](const Info& i, Args) { return i.number() != 1.0; });
    // 1: a factor is still held back by the sum over the axes
    guard("pulled", {"i64", "Info", "Axes"},
          [this, over](Args a) { return integer(a[0]) == 0 || info(a[1]).flat(over(a[2])); });
    guard("all-flat", {"Infos", "Axes"}, [this, over](Args a) {
      return std::ranges::all_of(t_.info_lists[a[0]].infos,
                                 [&](Value v) { return info(v).flat(over(a[1])); });
    });
  }

  FactMaker make_;
  std::unordered_map<Value, Op> ops_;
};

} // namespace

void add_fact_primitives(RegionTerms& terms) {
  // Primitives keep their owner: it lives as long as the program that calls them.
  const auto owner = std::make_shared<FactPrimitives>(terms);
  terms.keep(owner);
  owner->add();
}

} // namespace luminal::rules
