// rules/check_rules.cpp -- every term of a saturated case against the one that stands for its class.
#include "rules/check_rules.h"
#include "base/check.h"
#include "luminal/error.h"
#include "rules/cheapest.h"
#include "rules/emit_region.h"
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <set>

namespace luminal::rules {
namespace {

/// The exact mode has no logarithm that undoes an exponential, and no exponential of what an exponential or a
/// function without structure gave: there the floating-point shadows are compared.
bool is_beyond_exact(const Function& f) {
  std::vector<bool> opaque(f.nodes.size());
  for (NodeId id = 0; id < f.nodes.size(); ++id) {
    const Node& n = f[id];
    for (const NodeId in : n.inputs) opaque[id] = opaque[id] || opaque[in];
    const auto* map = std::get_if<MapAttr>(&n.attr);
    if (!map || !map->user_op.empty() || !is_transcendental(map->op)) continue;
    if (opaque[id] || map->op == Op::log || map->op == Op::log2) return true;
    opaque[id] = true;
  }
  return false;
}

class Check {
public:
  Check(RegionTerms& terms, const RuleCase& test)
      : t_(terms), graph_(terms.graph()), case_(test), flat_(test.module, test.module.entry()),
        exact_(terms.options().numeric == egraph::NumericClass::exact),
        beyond_exact_(is_beyond_exact(test.module.entry())) {}

  RuleCheck run() {
    RegionNodes region;
    for (const FunctionResult& r : case_.module.entry().results) region.roots.push_back(r.value);
    const auto entered = enter(t_, flat_, region);
    if (!entered) throw Error("rules", entered.error());
    const SaturateReport report = saturate(t_, {.rows = 20'000});
    for (const RuleUse& use : report.rules) out_.matches[use.name] += use.matches;
    const Choice choice = cheapest_rows(t_, [&](const egraph::RowView& row) {
      return graph_.creator(row.op, row.row) == egraph::absent ? 1.0 : 1000.0;
    });
    std::vector<TermPair> pairs;
    const Fragment fragment = emit_all_terms(t_, *entered, choice, pairs);
    FunctionWriter writer(case_.module.entry());
    const std::vector<NodeId> placed = writer.place(fragment);
    for (size_t k = 0; k < pairs.size(); ++k) {
      writer.result(fmt::format("chosen{}", k), placed[pairs[k].chosen]);
      writer.result(fmt::format("other{}", k), placed[pairs[k].other]);
    }
    Module module = case_.module;
    module.functions.back() = writer.finish();
    if (const auto mistakes = verify(module); !mistakes.empty()) {
      out_.wrong = mistakes[0];
      return std::move(out_);
    }
    compare(module, choice, pairs);
    return std::move(out_);
  }

private:
  void compare(const Module& module, const Choice& choice, const std::vector<TermPair>& pairs) {
    Interpreter interpreter(module, case_.bindings, exact_ ? InterpMode::rounded : InterpMode::exact);
    std::map<NodeId, std::vector<InterpValue>> known; // results that are one node are computed once
    std::map<std::string, NodeId> nodes;
    for (const FunctionResult& r : module.entry().results) nodes[r.name] = r.value;
    const auto values = [&](const std::string& name) -> const std::vector<InterpValue>& {
      const auto [at, made] = known.try_emplace(nodes.at(name));
      if (made) at->second = interpreter.values(name);
      return at->second;
    };
    std::set<ClassId> undefined; // what was written is NaN somewhere
    for (size_t k = 0; k < pairs.size() && !exact_; ++k)
      for (const char* side : {"chosen", "other"}) {
        const bool chosen = side[0] == 'c';
        if (!is_written(chosen ? choice.rows[pairs[k].of] : pairs[k].row)) continue;
        const auto& x = values(side + std::to_string(k));
        if (std::ranges::any_of(x, [](const InterpValue& v) { return v.exact.kind == Exact::Kind::nan; }))
          undefined.insert(pairs[k].of);
      }
    for (size_t k = 0; k < pairs.size() && !out_.wrong; ++k) {
      const TermPair& pair = pairs[k];
      const bool written = is_written(choice.rows[pair.of]) && !undefined.contains(pair.of);
      const std::string a = fmt::format("chosen{}", k), b = fmt::format("other{}", k);
      const DType type = module.entry()[nodes.at(a)].type().dtype;
      if (module.entry()[nodes.at(a)].type() != module.entry()[nodes.at(b)].type()) {
        out_.wrong = fmt::format("types differ: {}", describe(pair));
        return;
      }
      const auto &x = values(a), &y = values(b);
      ++out_.terms;
      for (size_t i = 0; i < x.size(); ++i)
        if (!same(type, x[i], y[i], written)) {
          out_.wrong = fmt::format("element {} is {} and {}: {}", i, number(type, x[i]), number(type, y[i]),
                                   describe(pair));
          return;
        }
    }
  }
  /// It stood in the program.
  bool is_written(RowRef row) const { return graph_.creator(row.op, row.row) == egraph::absent; }
  static double number(DType type, const InterpValue& v) {
    return is_float(type) ? v.value : double(v.integer);
  }
  bool same(DType type, const InterpValue& a, const InterpValue& b, bool written) const {
    if (!is_float(type)) return a.integer == b.integer;
    if (exact_) return a.value == b.value || (std::isnan(a.value) && std::isnan(b.value));
    const bool nan_a = a.exact.kind == Exact::Kind::nan, nan_b = b.exact.kind == Exact::Kind::nan;
    if (nan_a || nan_b) return nan_a == nan_b || !written;
    if (exact_equal(a.exact, b.exact)) return true;
    const bool open = beyond_exact_ || a.exact.doubtful || b.exact.doubtful;
    return open && std::abs(a.value - b.value) <= 1e-9 * std::max(1.0, std::abs(a.value));
  }
  std::string describe(const TermPair& pair) {
    const auto row = graph_.row(pair.row.op, pair.row.row);
    const auto rule = graph_.creator(pair.row.op, pair.row.row);
    std::string out = fmt::format("a {} of rule {} in class {}", graph_.op(pair.row.op).name,
                                  rule == egraph::absent ? "(none)" : graph_.rule(rule).name, pair.of);
    if (graph_.find(row.out()) != graph_.find(pair.of)) return out; // of the tuple that it is a component of
    for (const auto& step : graph_.explain(pair.of, row.out())) {
      if (step.why.kind == egraph::Justification::Kind::rule)
        out += fmt::format(", joined by {}", graph_.rule(step.why.rule).name);
    }
    return out;
  }

  RegionTerms& t_;
  egraph::EGraph& graph_;
  const RuleCase& case_;
  FlatFunction flat_;
  bool exact_;
  bool beyond_exact_;
  RuleCheck out_;
};

/// The case with other results, and what they do not need gone.
RuleCase with_results(const RuleCase& test, const std::vector<FunctionResult>& results) {
  RuleCase out = test;
  FunctionWriter writer(test.module.entry());
  Function f = test.module.entry();
  f.results = results;
  out.module.functions.back() = FunctionWriter(f).finish();
  return out;
}

} // namespace

RuleCheck check_rules(RegionTerms& terms, const RuleCase& test) { return Check(terms, test).run(); }

RuleCase shrink_rule_case(RegionTerms& terms, RuleCase test) {
  const auto fails = [&](const RuleCase& c) {
    try {
      return check_rules(terms, c).wrong.has_value();
    } catch (const Error&) {
      return false;
    }
  };
  // The first node that fails alone: results one after the other in the order of nodes.
  const Function whole = test.module.entry();
  for (NodeId id = 0; id < whole.nodes.size(); ++id) {
    if (whole[id].is_tuple()) continue;
    const RuleCase one = with_results(test, {{"r", id, {}, {}}});
    if (fails(one)) return one;
  }
  return test;
}

} // namespace luminal::rules
