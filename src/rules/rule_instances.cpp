// rules/rule_instances.cpp -- the left-hand side of a rule, built as nodes.
#include "rules/rule_instances.h"
#include "base/contains.h"
#include "rules/cheapest.h"
#include "rules/joined_variables.h"
#include "rules/rule_case_maker.h"
#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <set>

namespace luminal::rules {
namespace {

using egraph::Action;
using egraph::Atom;
using egraph::Operand;
using egraph::PrimAtom;
using egraph::VarId;

constexpr int most_tries = 8;

class InstanceMaker : public CaseMaker {
public:
  InstanceMaker(RegionTerms& terms, const egraph::Rule& rule, uint64_t seed, bool special)
      : CaseMaker(seed), t_(terms), graph_(terms.graph()), rule_(rule), special_(special),
        variables_(rule.query) {}

  std::optional<RuleCase> run() {
    read_atoms();
    read_primitives();
    make_inputs();
    std::set<VarId> inner;
    for (const auto& [v, atoms] : made_)
      for (const Atom* a : atoms)
        for (const Operand& o : a->args)
          if (o.is_var()) inner.insert(find(o.id));
    for (const auto& [v, place] : elements_) inner.insert(place);
    for (const auto& [f, fold] : folds_) inner.insert(fold.body);
    for (const auto& [v, atoms] : made_)
      if (!inner.contains(v) && is_value(v)) results_.push_back(value(v, false));
    for (const auto& [f, fold] : folds_) // a fold of which no result is asked for
      if (!contains(got_, f)) results_.push_back(folded(fold));
    if (results_.empty()) return {};
    for (size_t k = 0; k < results_.size(); ++k) b_.result(fmt::format("r{}", k), results_[k].node);
    out_.name = fmt::format("instance {} of {}", seed_, rule_.name);
    out_.module.functions.push_back(b_.finish());
    if (!verify(out_.module).empty()) return {};
    if (special_) make_special();
    return std::move(out_);
  }

private:
  /// A shape of term that is not made here.
  struct Impossible {};
  struct FoldOf {
    std::optional<Op> op;
    VarId body = egraph::absent;
  };

  VarId find(VarId v) const { return variables_.find(v); }
  VarId var(const Operand& o) const { return o.is_var() ? find(o.id) : egraph::absent; }
  bool is_value(VarId v) const { return graph_.sort(rule_.query.vars[v].sort).name == "V"; }

  void read_atoms() {
    for (const Atom& a : rule_.query.atoms) {
      const egraph::OpSpec& op = graph_.op(a.op);
      if (op.constructor) {
        if (a.out.is_var()) made_[find(a.out.id)].push_back(&a);
        if (a.op == t_.ops().get && a.args[1].is_var()) got_.push_back(find(a.args[1].id));
      } else if (op.name == "Zero") {
        numbers_[var(a.args[0])] = 0;
        zeros_.insert(var(a.args[0]));
      } else if (op.name == "Single") { // (Single f operation axes body monoid)
        FoldOf& fold = folds_[var(a.args[0])];
        fold.body = var(a.args[3]);
        if (!a.args[1].is_var())
          for (const Op o : {Op::add, Op::mul, Op::max, Op::min})
            if (t_.program().string_of(a.args[1].id) == row(o).monoid) fold.op = o;
      } else if (op.name == "info" && a.out.is_var()) {
        known_[find(a.out.id)] = var(a.args[0]);
      }
    }
    for (const auto& [v, atoms] : made_)
      if (const Atom& a = *atoms[0]; a.op == t_.ops().fold && a.args[2].is_var() && !folds_.contains(v))
        folds_[v].body = find(a.args[2].id); // the vector: its only element is found below
  }

  void read_primitives() {
    std::map<VarId, VarId> only;
    for (const PrimAtom& p : rule_.query.prims) {
      const std::string& name = graph_.primitive(p.prim).name;
      if (name == "vec-only" || name == "vec-last" || name == "vec-get") {
        if (name != "vec-get" || (!p.args[1].is_var() && t_.integer_of(p.args[1].id) == 0))
          elements_.try_emplace(var(p.args[0]), var(p.out));
        else
          holes_[var(p.args[0])].push_back(var(p.out));
      } else if (name == "is" && !p.args[1].is_var()) {
        numbers_[var(p.args[0])] = t_.program().values().real_of(p.args[1].id);
      } else if (name == "is-op" && !p.args[1].is_var()) {
        names_[var(p.args[0])] = std::string(t_.program().string_of(p.args[1].id));
      } else if (!p.args.empty() && p.args[0].is_var() && known_.contains(find(p.args[0].id))) {
        asked_[known_[find(p.args[0].id)]].insert(name);
      }
    }
    for (auto& [f, fold] : folds_)
      if (const auto at = elements_.find(fold.body); at != elements_.end()) fold.body = at->second;
  }

  Part value(VarId v, bool condition) {
    if (const auto at = values_.find(v); at != values_.end()) return at->second;
    if (!pending_.insert(v).second) throw Impossible();
    const auto made = made_.find(v);
    const Part out = zeros_.contains(v)    ? number(0)
                     : made == made_.end() ? leaf(v, condition)
                                           : term(*made->second[0], condition);
    pending_.erase(v);
    return values_[v] = out;
  }
  Part operand(const Operand& o, bool condition) {
    if (!o.is_var()) throw Impossible();
    return value(find(o.id), condition);
  }

  bool asks(VarId v, const char* guard) const {
    const auto at = asked_.find(v);
    return at != asked_.end() && at->second.contains(guard);
  }
  Part leaf(VarId v, bool boolean) {
    if (boolean || asks(v, "boolean")) return condition(unsigned(below(4)));
    unsigned axes = 1 + unsigned(below(15));
    if (asks(v, "free")) axes &= ~folded_axes;
    if (asks(v, "bound") || asks(v, "deep") || asks(v, "parameter")) axes |= folded_axes;
    Part x = input(axes, asks(v, "fixed") || asks(v, "parameter") ? Role::weight : Role::argument);
    if (asks(v, "not-negative") || asks(v, "positive")) x = map(Op::abs, {x});
    if (asks(v, "positive")) x = map(Op::add, {x, number(0.5)});
    if (asks(v, "deep")) x = map(Op::sub, {x, fold(Op::max, x, folded_axes)});
    return x;
  }

  double number_of(const Operand& o) {
    if (const auto at = numbers_.find(var(o)); at != numbers_.end()) return at->second;
    const double pool[] = {0, 1, -1, 2, 0.5, 0.25, 3, -0.5};
    return pool[below(8)];
  }

  Part term(const Atom& a, bool boolean) {
    const RegionTerms::Ops& ops = t_.ops();
    if (const auto row_op = t_.row_of(a.op)) {
      std::vector<Part> xs;
      for (size_t k = 0; k < a.args.size(); ++k)
        xs.push_back(operand(a.args[k], *row_op == Op::select && k == 0));
      return map(*row_op, xs);
    }
    if (a.op == ops.number) {
      const double n = number_of(a.args[0]);
      return boolean ? Part{b_.constant(DType::boolean, n != 0), 0} : number(n);
    }
    if (a.op == ops.index) {
      const unsigned k = unsigned(below(4)), l = unsigned(below(4));
      return boolean ? map(one_of(2) ? Op::le : Op::lt, {index(k), index(l)}) : index(k);
    }
    if (a.op == ops.cast) {
      const Part x = operand(a.args[1], one_of(2));
      const DType pool[] = {DType::f16, DType::bf16, DType::f32, DType::f64, DType::i32};
      const bool back = b_[x.node].type().dtype != type_ && !one_of(3);
      return {b_.cast(x.node, back ? type_ : pool[below(5)]), x.axes};
    }
    if (a.op == ops.view) return view(a);
    if (a.op == ops.get && a.args[1].is_var()) {
      const auto fold = folds_.find(find(a.args[1].id));
      if (fold != folds_.end()) return folded(fold->second);
    }
    if (a.op == ops.op && names_.contains(var(a.args[0]))) return named(names_[var(a.args[0])]);
    throw Impossible();
  }
  Part named(const std::string& name) {
    if (name == "bit_not") return map(Op::bit_not, {condition(unsigned(below(4)))});
    const unsigned k = 2, l = unsigned(below(4));
    for (const Op op : {Op::eq, Op::ne, Op::lt, Op::le})
      if (name == to_string(op))
        return one_of(2) ? map(op, {index(k), labels(l, k)}) : map(op, {labels(l, k), index(k)});
    throw Impossible();
  }
  Part folded(const FoldOf& f) {
    if (f.body == egraph::absent || !is_value(f.body)) throw Impossible();
    const Part x = value(f.body, false);
    return fold(f.op ? *f.op : fold_op(), expand(x, x.axes | folded_axes), folded_axes);
  }
  Part view(const Atom& a) {
    const auto at = elements_.find(var(a.args[1]));
    Part x = at == elements_.end() ? leaf(egraph::absent, false) : value(at->second, false);
    if (x.axes == 0) x = expand(x, 0b0110);
    const Shape s = shape(x.axes);
    std::vector<Expr> to;
    Expr inside = 1;
    for (size_t d = 0; d < s.size(); ++d) {
      const Expr i = axis_symbol(int(d), s[d]);
      to.push_back(one_of(2) ? s[d] - 1 - i : i);
      if (one_of(2)) inside = lt(i, (s[d].value() + 1) / 2);
    }
    if (one_of(2)) return {b_.view(x.node, s, to), x.axes};
    return {b_.view(x.node, s, to, inside, one_of(2) ? 0 : -std::numeric_limits<double>::infinity()), x.axes};
  }

  void make_special() {
    const double inf = std::numeric_limits<double>::infinity();
    const double some[] = {inf, -inf, std::numeric_limits<double>::quiet_NaN(), 0, 1e-7, 60000};
    for (auto& [name, tensor] : out_.bindings.inputs) {
      if (!is_float(tensor.dtype)) continue;
      std::vector<double> values;
      for (int64_t k = 0; k < tensor.count(); ++k)
        values.push_back(one_of(3) ? some[below(6)] : tensor.at(k));
      tensor = host_tensor(tensor.dtype, tensor.shape, values);
    }
  }

  static constexpr unsigned folded_axes = 0b0100;
  RegionTerms& t_;
  egraph::EGraph& graph_;
  const egraph::Rule& rule_;
  const bool special_;
  const JoinedVariables variables_;
  std::map<VarId, std::vector<const Atom*>> made_; // terms of a class
  std::map<VarId, VarId> elements_;                // the first of a vector
  std::map<VarId, std::vector<VarId>> holes_;
  std::map<VarId, FoldOf> folds_;
  std::vector<VarId> got_;                       // folds of which a result is asked for
  std::map<VarId, VarId> known_;                 // facts: the class that they are of
  std::map<VarId, std::set<std::string>> asked_; // guards of a class
  std::map<VarId, double> numbers_;
  std::set<VarId> zeros_;
  std::map<VarId, std::string> names_; // of operations
  std::map<VarId, Part> values_;
  std::set<VarId> pending_;

public:
  static std::optional<RuleCase> make(RegionTerms& terms, egraph::RuleId rule, uint64_t seed, bool special) {
    try {
      return InstanceMaker(terms, terms.graph().rule(rule), seed, special).run();
    } catch (const Impossible&) {
      return {};
    } catch (const std::exception&) { // types that do not fit
      return {};
    }
  }
};

// ---- examples

class Example {
public:
  Example(RegionTerms& terms, egraph::RuleId rule, const RuleCase& test)
      : t_(terms), graph_(terms.graph()), rule_(graph_.rule(rule)), case_(test),
        flat_(test.module, test.module.entry()) {
    for (const Action& a : rule_.actions) {
      if (a.kind == Action::Kind::unite) {
        joins_.emplace_back(a.args[0], a.args[1]);
      } else if (a.kind == Action::Kind::set &&
                 graph_.op(a.id).constructor) { // a row for a class that is there
        Action made = a;
        made.kind = Action::Kind::term;
        made.args.pop_back();
        made.out = VarId(variables_++);
        joins_.emplace_back(a.args.back(), Operand::var(made.out));
        makes_.push_back(std::move(made));
      } else if (contains(std::array{Action::Kind::term, Action::Kind::let, Action::Kind::primitive,
                                     Action::Kind::host},
                          a.kind)) {
        makes_.push_back(a);
      }
    }
  }

  std::optional<RuleExample> find(bool saturated) {
    if (joins_.empty()) return {};
    RegionNodes region;
    for (const FunctionResult& r : case_.module.entry().results) region.roots.push_back(r.value);
    auto entered = enter(t_, flat_, region);
    if (!entered) return {};
    entered_ = std::move(*entered);
    if (saturated)
      saturate(t_, {.rows = 20'000});
    else
      find_facts(t_);
    std::vector<std::vector<Value>> matches;
    graph_.for_each_match(rule_.query, [&](std::span<const Value> match) {
      matches.emplace_back(match.begin(), match.end());
      return matches.size() < most_tries;
    });
    for (const auto& match : matches)
      if (auto out = shown(match)) return out;
    return {};
  }

private:
  std::optional<RuleExample> shown(std::vector<Value> match) {
    match.resize(variables_, egraph::absent);
    const std::vector<Value> values = graph_.apply(makes_, std::move(match));
    const auto of = [&](const Operand& o) { return o.is_var() ? values[o.id] : o.id; };
    const ClassId a = graph_.find(of(joins_[0].first)), b = graph_.find(of(joins_[0].second));
    if (a == b) return {};
    for (const NodeId id : entered_.nodes) {
      const ClassId c = entered_.classes[id];
      if (c == egraph::absent || entered_.forms[id] == egraph::absent) continue;
      if (graph_.find(c) != a && graph_.find(c) != b) continue;
      const ClassId other = graph_.find(c) == a ? b : a;
      return RuleExample{case_.name, text(id, c), text(id, other)};
    }
    return {};
  }
  /// The node's terms as those of the class.
  std::string text(NodeId id, ClassId c) {
    Entered entered = entered_;
    entered.classes[id] = c;
    entered.roots = {id};
    const Choice choice = cheapest_rows(t_, [&](const egraph::RowView& row) {
      return graph_.creator(row.op, row.row) == egraph::absent ? 1.0 : 1000.0;
    });
    Function f = case_.module.entry();
    f.results = {{"y", id, {}, {}}};
    FunctionWriter writer(f);
    writer.place(emit(t_, entered, choice));
    Module module = case_.module;
    module.functions.back() = writer.finish();
    return to_string(module);
  }

  RegionTerms& t_;
  egraph::EGraph& graph_;
  const egraph::Rule& rule_;
  const RuleCase& case_;
  FlatFunction flat_;
  Entered entered_;
  std::vector<Action> makes_;
  std::vector<std::pair<Operand, Operand>> joins_;
  size_t variables_ = rule_.query.vars.size(); // and those that the example adds
};

} // namespace

std::optional<RuleCase> rule_instance(RegionTerms& terms, egraph::RuleId rule, uint64_t seed, bool special) {
  return InstanceMaker::make(terms, rule, seed, special);
}

std::optional<RuleExample> rule_example(const RuleEntry& entry, const TheoryOptions& theory) {
  TheoryOptions alone = theory;
  alone.without.push_back(entry.name);
  alone.numeric =
      std::max(egraph::NumericClass::range, entry.numeric); // others may do the same with less care
  RegionTerms terms(alone);
  egraph::RuleId rule = 0;
  while (rule < terms.graph().rule_count() && terms.graph().rule(rule).name != entry.name) ++rule;
  if (rule == terms.graph().rule_count()) return {};
  std::vector<RuleCase> cases;
  for (uint64_t seed = 0; seed < 24; ++seed)
    if (auto made = rule_instance(terms, rule, seed, false)) cases.push_back(std::move(*made));
  for (RuleCase& c : fixed_rule_cases()) cases.push_back(std::move(c));
  for (uint64_t seed = 0; seed < 100; ++seed) cases.push_back(random_rule_case(seed));
  constexpr size_t enough = 6; // of which the shortest is shown
  std::optional<RuleExample> best;
  const auto size = [](const RuleExample& e) { return e.before.size() + e.after.size(); };
  for (const bool saturated : {false, true}) {
    size_t found = 0;
    for (const RuleCase& c : cases) {
      auto out = Example(terms, rule, c).find(saturated);
      if (!out) continue;
      if (!best || size(*out) < size(*best)) best = std::move(out);
      if (++found == enough) break;
    }
    if (best) break;
  }
  return best;
}

} // namespace luminal::rules
