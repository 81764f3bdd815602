// rules/monoid_primitives.cpp -- monoids and characters in rules.
#include "rules/monoids.h"
#include "rules/primitives.h"
#include "rules/theory.h"
#include <cmath>
#include <map>

namespace luminal::rules {
namespace {

class MonoidPrimitives : public Primitives {
public:
  using Primitives::Primitives;
  void add() {
    add_characters();
    add_character_guards();
    add_parts();
    add_larger();
    add_smaller();
    add_proportional();
  }

private:
  const Info& info(Value v) const { return t_.infos[v]; }
  Monoid monoid(Value v) const { return t_.monoid_of(v); }
  const MonoidComponent& first(Value v) const { return monoid(v).components()[0]; }
  int last(Value v) const { return monoid(v).size() - 1; }
  const Character& character(Value v) const { return t_.characters[v]; }
  std::optional<Value> some(const std::optional<Monoid>& m) {
    return m ? std::optional(t_.monoid(*m)) : std::nullopt;
  }
  std::optional<Value> some(const std::optional<Character>& h) {
    return h ? std::optional(t_.characters.id(*h)) : std::nullopt;
  }

  void add_characters() {
    make("power", {"f64"}, "Character", [this](Args a) { return some(Character{0, real(a[0]), false, {}}); });
    make("exponential", {"f64"}, "Character",
         [this](Args a) { return some(Character{real(a[0]), 0, false, {}}); });
    make("exponential2", {"f64"}, "Character",
         [this](Args a) { return some(Character{real(a[0]), 0, real(a[0]) != 0, {}}); });
    make("indicator", {"f64"}, "Character",
         [this](Args a) { return some(Character{0, 0, false, real(a[0])}); });
    make("character-product", {"Character", "Character"}, "Character",
         [this](Args a) { return some(product(character(a[0]), character(a[1]))); });
    make("character-inverse", {"Character"}, "Character",
         [this](Args a) { return some(inverse(character(a[0]))); });
    make("character-root", {"Character"}, "Character",
         [this](Args a) { return some(root(character(a[0]))); });
    for (const bool base2 : {false, true})
      make(base2 ? "rate-Exp2" : "rate-Exp", {"Character"}, "f64",
           [this, base2](Args a) -> std::optional<Value> {
             const Character& h = character(a[0]);
             if (h.slope == 0 || h.power != 0 || h.other || h.base2 != base2) return {};
             return t_.program().values().real(h.slope);
           });
    // The sign of the infinity that is the identity of an extremum, where an exponential follows it.
    make("edge", {"Monoid", "Character"}, "i64", [this](Args a) -> std::optional<Value> {
      const Op op = monoid(a[0]).components()[size_t(last(a[0]))].op;
      const bool follows = character(a[1]).slope != 0;
      return t_.integer(!follows ? 0 : op == Op::max ? -1 : op == Op::min ? 1 : 0);
    });
    make("length-of-product", {"i64", "i64"}, "i64", [this](Args a) -> std::optional<Value> {
      const int64_t n = integer(a[0]), m = integer(a[1]);
      return n + m > 6 ? std::nullopt : std::optional(t_.integer(n + m - 1));
    });
  }
  void add_character_guards() {
    guard("moves", {"Character", "i64"},
          [this](Args a) { return !character(a[0]).is_one() || integer(a[1]) > 1; });
    guard("regular", {"Character", "Info"},
          [this](Args a) { return character(a[0]).power == 0 || info(a[1]).positive(); });
    guard("exponent", {"Character"}, [this](Args a) { return character(a[0]).slope != 0; });
    guard("smooth", {"Character"}, [this](Args a) { return !character(a[0]).other; });
    guard("keeps-0", {"Character"}, [this](Args a) { return character(a[0]).other.value_or(0) == 0; });
    // The fold of the first monoid may follow an indicator of the last component of the second.
    guard("indicates", {"Character", "Monoid"}, [this](Args a) {
      const Character& h = character(a[0]);
      return first(a[1]).op != Op::add && h.slope == 0 && h.power == 0 && h.other == monoid(a[1]).identity(0);
    });
    guard("compares", {"Character", "Monoid", "Monoid"}, [this](Args a) {
      const Character& h = character(a[0]);
      const Monoid n = monoid(a[2]);
      const int j = last(a[2]);
      return !h.other || (*h.other == monoid(a[1]).identity(0) && n.components()[size_t(j)].op != Op::add &&
                          is_plain(n, j));
    });
    guard("contracting", {"Monoid", "Character", "Info"},
          [this](Args a) { return contracts(monoid(a[0]), character(a[1]), info(a[2]).positive()); });
    guard("center", {"Monoid", "i64"}, [this](Args a) {
      if (integer(a[1]) == 1) return true;
      const auto [at, made] = internal_.try_emplace(a[0]);
      if (made) at->second = is_internal(monoid(a[0]), last(a[0]));
      return at->second;
    });
  }

  void add_parts() {
    make("single", {"Monoid"}, "String", [this](Args a) -> std::optional<Value> {
      const Monoid m = monoid(a[0]);
      if (!is_single(m)) return {};
      return t_.program().string(row(m.components()[0].op).monoid);
    });
    make("last", {"Monoid"}, "i64", [this](Args a) { return t_.integer(last(a[0])); });
    make("identity", {"Monoid", "i64"}, "Number",
         [this](Args a) { return t_.numbers.id(rules::identity(monoid(a[0]), int(integer(a[1])))); });
    guard("minimal", {"Monoid", "i64"},
          [this](Args a) { return is_minimal(monoid(a[0]), int(integer(a[1]))); });
    make("plain-sum", {"DType"}, "Monoid", [this](Args a) -> std::optional<Value> {
      if (!is_float(DType(a[0]))) return {};
      return t_.monoid(Monoid::plain(Op::add, DType(a[0])));
    });
  }

  void add_larger() {
    make("cascade", {"Monoid", "Monoid", "Character", "i64"}, "Monoid", [this](Args a) {
      const MonoidComponent& c = first(a[1]);
      return some(with_cascade(monoid(a[0]), c.op, c.dtype, character(a[2]), int(integer(a[3]))));
    });
    make("next-largest", {"Monoid"}, "Monoid",
         [this](Args a) { return some(with_next_largest(monoid(a[0]))); });
  }

  void add_smaller() {
    make("component", {"Monoid", "i64"}, "Monoid", [this](Args a) -> std::optional<Value> {
      const Monoid m = restricted(monoid(a[0]), int(integer(a[1])));
      return m.size() == monoid(a[0]).size() ? std::nullopt : some(std::optional(m));
    });
    make("without", {"Monoid", "i64", "i64", "f64"}, "Monoid", [this](Args a) {
      return some(without(monoid(a[0]), int(integer(a[1])), int(integer(a[2])), real(a[3])));
    });
    make("without", {"Monoid", "i64"}, "Monoid",
         [this](Args a) { return some(without(monoid(a[0]), int(integer(a[1])), std::nullopt)); });
    make("place", {"i64", "i64", "i64"}, "i64",
         [this](Args a) { // of component i when j went and h stands for it
           const int64_t i = integer(a[0]), j = integer(a[1]), h = integer(a[2]);
           return t_.integer(i == j ? h : i - (i > j ? 1 : 0));
         });
    make("neutral", {"Monoid", "Infos"}, "i64", [this](Args a) -> std::optional<Value> {
      const Monoid m = monoid(a[0]);
      const InfoList& is = t_.info_lists[a[1]];
      for (int j = 0; j < m.size() && m.size() > 1; ++j)
        if (info(is.infos[size_t(j)]).number() == m.identity(j) &&
            is_float(m.components()[size_t(j)].dtype) && preserves_identity(m, j) &&
            without(m, j, std::nullopt))
          return t_.integer(j);
      return {};
    });
  }

  /// The first component that is always some number times an earlier one: which, of which, how often.
  struct Proportional {
    int j, i;
    double c;
  };
  std::optional<Proportional> proportional(Args a) const {
    const Monoid m = monoid(a[0]);
    const InfoList& is = t_.info_lists[a[1]];
    for (int j = 0; j < m.size(); ++j)
      for (int i = 0; i < j; ++i) {
        const auto v = info(is.infos[size_t(j)]).number(), u = info(is.infos[size_t(i)]).number();
        if (!u || !v) continue;
        const auto c = proportion(m, j, i, *v, *u);
        if (c && without(m, j, i, *c)) return Proportional{j, i, *c};
      }
    return {};
  }
  void add_proportional() {
    make("proportional", {"Monoid", "Infos"}, "i64", [this](Args a) -> std::optional<Value> {
      const auto p = proportional(a);
      return p ? std::optional(t_.integer(p->j)) : std::nullopt;
    });
    make("proportional-to", {"Monoid", "Infos"}, "i64", [this](Args a) -> std::optional<Value> {
      const auto p = proportional(a);
      return p ? std::optional(t_.integer(p->i)) : std::nullopt;
    });
    make("proportion", {"Monoid", "Infos"}, "f64", [this](Args a) -> std::optional<Value> {
      const auto p = proportional(a);
      return p ? std::optional(t_.program().values().real(p->c)) : std::nullopt;
    });
  }

  std::map<Value, bool> internal_; // by number of a monoid
};

} // namespace

void add_monoid_primitives(RegionTerms& terms) {
  const auto owner = std::make_shared<MonoidPrimitives>(terms);
  terms.keep(owner);
  owner->add();
}

} // namespace luminal::rules
