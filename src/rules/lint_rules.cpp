// rules/lint_rules.cpp -- rules looked at as queries and actions.
#include "rules/lint_rules.h"
#include "base/contains.h"
#include "rules/joined_variables.h"
#include "rules/region_terms.h"
#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <map>

namespace luminal::rules {
namespace {

using egraph::Action;
using egraph::Atom;
using egraph::Operand;
using egraph::PrimAtom;
using egraph::SortKind;
using egraph::VarId;

constexpr GuardKind proves = GuardKind::proves, chooses = GuardKind::chooses;
constexpr GuardInfo guards[] = {
    // of what is known of a class
    {"free", "Info Axes", proves, "it varies with none of the axes"},
    {"bound", "Info Axes", chooses, "it may vary with one of the axes"},
    {"flat", "Info Axes", proves, "it needs no pass over the axes"},
    {"deep", "Info Axes", chooses, "it may need an earlier pass over the axes"},
    {"deeper", "Info Info Axes", chooses, "the first may need more passes over an axis than the second"},
    {"down", "Info Info Axes", chooses, "the first may need a pass over the axes, or the second needs none"},
    {"no-passes", "Info", proves, "it needs no pass over any axis"},
    {"fixed", "Info", proves, "it is known when the program is loaded"},
    {"varies", "Info", chooses, "it may be computed in each step"},
    {"parameter", "Info", chooses,
     "it is known when the program is loaded, varies with axes, and is not a position"},
    {"within", "Info Info", chooses, "the axes of the first are among those that the second may vary with"},
    {"boolean", "Info", proves, "its type is bool"},
    {"floating", "Info", proves, "its type is a floating one"},
    {"not-negative", "Info", proves, "it is 0 or more, or NaN"},
    {"positive", "Info", proves, "it is more than 0, or NaN"},
    {"finite", "Info", proves, "no element is NaN or infinite, overflows aside, whatever the inputs hold"},
    {"wide", "Info", proves, "its type is f32 or f64"},
    {"untouched", "Info Place", proves, "it varies with no axis that the place moves"},
    {"tiles-pay", "Place Axes Info Info", chooses,
     "the sum over the axes has several terms, and the second several results, at each place that is read"},
    {"wide-exponents", "Info", proves, "2^-126 to 2^127 are normal numbers of its floating type"},
    {"keeps-range", "Info Info Info", proves,
     "the first is neither large nor small, or one of the others is not large, by three quarters of the "
     "exponents of their type"},
    {"some-or-finite", "Info Axes", proves,
     "there is a point along the axes, or the value is finite, overflows aside, whatever the inputs hold"},
    {"no-extremum", "Info Axes", chooses,
     "it is not known to be made of a maximum or minimum over one of the axes by sums, products and "
     "quotients"},
    {"scales", "Info", chooses, "it is not known to be 1 or -1"},
    {"not-one", "Info", chooses, "it is not known to be 1"},
    {"all-flat", "Infos Axes", proves, "none of them needs a pass over the axes"},
    {"pulled", "i64 Info Axes", chooses, "no factor is still held back by the sum over the axes"},
    {"is-index", "Info Axes", proves, "it is the index along the one axis"},
    {"extent-is", "Info Axes", proves, "it is the number of points along the axes"},
    {"inverse-extent-is", "Info Axes", proves, "it is one divided by that number, exactly"},
    {"exchange-pays", "Info Info Info Axes Axes", chooses, "the exchanged sums go through no more points"},
    {"holes-free", "Infos Axes", proves, "the integers that a view reads vary with none of the axes"},
    {"free-of-place", "Info Place", proves, "it varies with no axis that the place reads"},
    {"holds-for-some", "Iota Axes", proves,
     "the condition holds at a point along the one axis, whatever the others"},
    {"off", "Place Info", proves, "the place moves only axes that the value does not vary with"},
    // of payloads
    {"is", "Number f64", proves, "the number has this value; zeros of either sign are alike"},
    {"is-op", "Payload String", proves, "the operation has this name"},
    {"apart", "Axes Axes", proves, "no axis is in both"},
    {"some", "Axes", proves, "there is a point along them"},
    {"more-than-one", "Axes", proves, "there may be more than one point along them"},
    {"total", "Place", proves, "the place is nowhere outside: no predicate and no fill"},
    {"has-holes", "Place", proves, "the place reads integers from memory"},
    {"only-hides", "Place", proves, "the place moves no axis"},
    {"place-apart", "Place Axes", proves, "the place neither moves nor reads one of the axes"},
    {"undoes", "Place Place", proves, "the first place of the second one is where the value is"},
    {"minimal", "Monoid i64", proves, "the component needs all components of the monoid"},
    {"moves", "Character i64", proves, "a family with this character and length follows its statistic"},
    {"regular", "Character Info", proves, "the character of the value is neither 0 nor infinite"},
    {"exponent", "Character", proves, "it is an exponential, perhaps with a power"},
    {"smooth", "Character", proves, "the character is not an indicator"},
    {"keeps-0", "Character", proves, "what the character scales stays 0 where it is 0"},
    {"indicates", "Character Monoid", proves,
     "it is an indicator whose other value is the monoid's identity"},
    {"compares", "Character Monoid Monoid", proves, "an indicator that the second monoid can follow"},
    {"contracting", "Monoid Character Info", proves, "corrections of the cascade do not grow"},
    {"center", "Monoid i64", proves, "the statistic lies among what it folds, or the length is 1"},
};

/// A rule with its variables joined as its equalities say.
class LintedRule {
public:
  LintedRule(RegionTerms& terms, egraph::RuleId id)
      : t_(terms), graph_(terms.graph()), rule_(graph_.rule(id)), variables_(rule_.query) {
    for (const Action& made : rule_.actions) // a term that was matched, written once more
      for (const Atom& a : rule_.query.atoms)
        if (made.kind == Action::Kind::term && made.id == a.op && a.out.is_var() && same(made.args, a.args))
          variables_.join(made.out, a.out.id);
  }

  std::vector<std::string> findings() {
    ignored_fields();
    falsifiable();
    own_children();
    return std::move(out_);
  }

private:
  VarId find(VarId v) const { return variables_.find(v); }
  /// A row that is made for a class that is there: the union of the class and a term.
  bool joins_row(const Action& a) const { return a.kind == Action::Kind::set && graph_.op(a.id).constructor; }
  bool is(const Operand& o, VarId v) const { return o.is_var() && find(o.id) == v; }
  bool same(std::span<const Operand> a, std::span<const Operand> b) const {
    return std::ranges::equal(a, b, [&](const Operand& x, const Operand& y) {
      return x.is_var() && y.is_var() ? find(x.id) == find(y.id) : x == y;
    });
  }
  bool has(std::span<const Operand> args, VarId v) const {
    return std::ranges::any_of(args, [&](const Operand& o) { return is(o, v); });
  }
  const egraph::OpSpec& op(const Atom& atom) const { return graph_.op(atom.op); }
  SortKind kind(VarId v) const { return graph_.sort(rule_.query.vars[v].sort).kind; }
  std::string name(VarId v) const { return rule_.query.vars[v].name; }

  template <class F> void for_each_operand(F f) const {
    for (const Atom& a : rule_.query.atoms) {
      for (const Operand& o : a.args) f(o);
      f(a.out);
    }
    for (const PrimAtom& p : rule_.query.prims) {
      for (const Operand& o : p.args) f(o);
      f(p.out);
    }
    for (const egraph::Equality& e : rule_.query.equalities) f(e.left), f(e.right);
    for (const Action& a : rule_.actions)
      for (const Operand& o : a.args) f(o);
  }

  /// Classes that the rule keeps: those that what it makes is made of, and what their terms hold.
  std::vector<bool> kept() const {
    std::vector<bool> out(variables_.size());
    for (const Action& a : rule_.actions)
      if (contains(
              std::array{Action::Kind::term, Action::Kind::set, Action::Kind::primitive, Action::Kind::host},
              a.kind))
        for (const Operand& o : std::span(a.args).first(a.args.size() - joins_row(a)))
          if (o.is_var()) out[find(o.id)] = true;
    for (size_t k = 0; k < variables_.size(); ++k) // terms lie in terms at most so deep
      for (const Atom& a : rule_.query.atoms)
        if (op(a).constructor && a.out.is_var() && out[find(a.out.id)])
          for (const Operand& o : a.args)
            if (o.is_var()) out[find(o.id)] = true;
    return out;
  }

  void ignored_fields() {
    if (std::ranges::none_of(rule_.actions,
                             [&](const Action& a) { return a.kind == Action::Kind::unite || joins_row(a); }))
      return;
    std::vector<int> uses(variables_.size());
    for_each_operand([&](const Operand& o) { uses[o.is_var() ? find(o.id) : 0] += o.is_var(); });
    const std::vector<bool> keeps = kept();
    for (const Atom& a : rule_.query.atoms) {
      if (!op(a).constructor || !a.out.is_var() || keeps[find(a.out.id)]) continue;
      for (size_t k = 0; k < a.args.size(); ++k) {
        if (!a.args[k].is_var() || name(a.args[k].id).empty()) continue; // _: any will do
        const VarId v = find(a.args[k].id);
        if (kind(v) == SortKind::eq || uses[v] != 1) continue;
        out_.push_back(
            fmt::format("matches {}, a {} of {}, and ignores it: terms that differ there become equal; "
                        "ask or use it, or write _ where any will do",
                        name(v), graph_.sort(op(a).args[k]).name, op(a).name));
      }
    }
  }

  /// Values that facts give, which further unions may change.
  std::vector<bool> changing() const {
    std::vector<bool> out(variables_.size());
    for (const Atom& a : rule_.query.atoms)
      if (!op(a).constructor && a.out.is_var() && kind(find(a.out.id)) == SortKind::value)
        out[find(a.out.id)] = true;
    return out;
  }
  void falsifiable() {
    const std::vector<bool> changes = changing();
    const auto may_change = [&](const Operand& o) {
      if (!o.is_var()) return false;
      const SortKind k = kind(find(o.id));
      return k == SortKind::eq || k == SortKind::container || changes[find(o.id)];
    };
    for (const PrimAtom& p : rule_.query.prims) {
      const egraph::PrimitiveSpec& prim = graph_.primitive(p.prim);
      if (contains(guards, prim.name, &GuardInfo::name)) continue;
      const bool asks = prim.out == egraph::EGraph::unit_sort || graph_.sort(prim.out).name == "bool";
      if (!asks || !std::ranges::any_of(p.args, may_change)) continue;
      std::string args;
      for (const Operand& o : p.args)
        args +=
            " " + (o.is_var() ? name(find(o.id)).empty() ? "(..)" : name(find(o.id)) : std::string("(..)"));
      out_.push_back(
          fmt::format("asks ({}{}), which a further union can make false; guards of the table ask what "
                      "stays",
                      prim.name, args));
    }
    for (const Atom& a : rule_.query.atoms) // a fact that has to have this very value
      if (!op(a).constructor && !a.out.is_var() && op(a).out != egraph::EGraph::unit_sort)
        out_.push_back(fmt::format("asks for one value of {}, which a further union can change", op(a).name));
  }

  /// Constructors of which the theory hides terms that contain their own class.
  bool collapses(egraph::OpId id) const {
    return t_.row_of(id) || contains(std::array{t_.ops().cast, t_.ops().view}, id);
  }
  /// v is an argument, or an element of a vector that is one.
  bool holds(std::span<const Operand> args, VarId v) const {
    if (has(args, v)) return true;
    for (const PrimAtom& p : rule_.query.prims)
      if (p.out.is_var() && find(p.out.id) == v && graph_.primitive(p.prim).name.starts_with("vec-") &&
          !p.args.empty() && p.args[0].is_var() && has(args, find(p.args[0].id)))
        return true;
    for (const Action& a : rule_.actions)
      if (a.kind == Action::Kind::primitive && a.out != egraph::absent && has(a.args, v) &&
          std::ranges::any_of(args, [&](const Operand& o) { return o.is_var() && o.id == a.out; }))
        return true;
    return false;
  }
  std::string around(egraph::OpId op) const {
    return fmt::format("makes a {} around a class and joins it to that class, which then contains itself",
                       graph_.op(op).name);
  }
  void own_children() {
    for (const Action& join : rule_.actions)
      if (joins_row(join) && join.args.back().is_var() &&
          holds(std::span(join.args).first(join.args.size() - 1), find(join.args.back().id)))
        out_.push_back(around(join.id));
    for (const Action& join : rule_.actions) {
      if (join.kind != Action::Kind::unite || !join.args[0].is_var() || !join.args[1].is_var()) continue;
      for (const auto& [whole, part] :
           {std::pair(join.args[0].id, join.args[1].id), std::pair(join.args[1].id, join.args[0].id)}) {
        const VarId x = find(whole), y = find(part);
        for (const Action& made : rule_.actions)
          if (made.kind == Action::Kind::term && made.out == x && holds(made.args, y))
            out_.push_back(around(made.id));
        for (const Atom& a : rule_.query.atoms) {
          if (!op(a).constructor || !is(a.out, x) || collapses(a.op) || !holds(a.args, y)) continue;
          const bool hidden = std::ranges::any_of(rule_.actions, [&](const Action& action) {
            return (action.kind == Action::Kind::subsume || action.kind == Action::Kind::remove) &&
                   action.id == a.op;
          });
          if (!hidden)
            out_.push_back(
                fmt::format("joins a {} to its own operand, so the class contains itself: subsume the "
                            "term as well",
                            op(a).name));
        }
      }
    }
  }

  RegionTerms& t_;
  egraph::EGraph& graph_;
  const egraph::Rule& rule_;
  JoinedVariables variables_;
  std::vector<std::string> out_;
};

} // namespace

std::span<const GuardInfo> guard_table() { return guards; }

std::vector<LintFinding> lint_rules(RegionTerms& terms, egraph::RuleId first) {
  std::vector<LintFinding> out;
  for (const RuleEntry& e : rule_entries(terms)) {
    if (e.id < first) continue;
    for (std::string& text : LintedRule(terms, e.id).findings())
      out.push_back({e.name, e.file, e.line, std::move(text)});
  }
  return out;
}

} // namespace luminal::rules
