// rules/check_rules.cpp -- every term of a saturated case against the one that stands for its class.
#include "rules/check_rules.h"
#include "base/check.h"
#include "base/hash.h"
#include "luminal/error.h"
#include "rules/cheapest.h"
#include "rules/emit_region.h"
#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <set>

namespace luminal::rules {
namespace {

/// The exact mode has no logarithm that undoes an exponential, and no exponential of what an exponential or a
/// function without structure gave: there the floating-point shadows are compared.
bool is_beyond_exact(const Function& f) {
  IdVector<NodeId, bool> opaque(f.nodes.size());
  for (NodeId id : f.nodes.ids()) {
    const Node& n = f[id];
    for (const NodeId in : n.inputs) opaque[id] = opaque[id] || opaque[in];
    const auto* map = std::get_if<MapAttr>(&n.attr);
    if (!map || !map->user_op.empty() || !is_transcendental(map->op)) continue;
    if (opaque[id] || map->op == Op::log || map->op == Op::log2) return true;
    opaque[id] = true;
  }
  return false;
}

/// The case with one element of an input NaN; which one follows from its name and the number of the draw.
Bindings with_nan(const RuleCase& test, uint64_t draw) {
  Bindings out = test.bindings;
  std::vector<HostTensor*> floats;
  for (auto& [name, tensor] : out.inputs)
    if (is_float(tensor.dtype) && tensor.count() > 0) floats.push_back(&tensor);
  if (floats.empty()) return out;
  const uint64_t drawn = hash64(test.name, draw);
  HostTensor& tensor = *floats[drawn % floats.size()];
  store_f64(tensor.dtype, tensor.data.data(), int64_t(drawn / floats.size() % uint64_t(tensor.count())),
            std::numeric_limits<double>::quiet_NaN());
  return out;
}

/// The case with about half of the elements of an input infinite or NaN.
Bindings with_infinities(const RuleCase& test, uint64_t draw) {
  Bindings out = test.bindings;
  const double inf = std::numeric_limits<double>::infinity();
  const double some[] = {inf, -inf, std::numeric_limits<double>::quiet_NaN()};
  uint64_t drawn = hash64(test.name, draw);
  const uint64_t floats = uint64_t(std::ranges::count_if(out.inputs, [](const auto& input) {
    return is_float(input.second.dtype) && input.second.count() > 0;
  }));
  uint64_t at = floats ? drawn % floats : 0;
  for (auto& [name, tensor] : out.inputs) {
    if (!is_float(tensor.dtype) || tensor.count() == 0 || at-- != 0) continue;
    for (int64_t k = 0; k < tensor.count(); ++k) {
      drawn = hash64(test.name, drawn);
      if (drawn % 2 == 0) store_f64(tensor.dtype, tensor.data.data(), k, some[drawn / 2 % 3]);
    }
  }
  return out;
}

/// Results of a module by name; those that are one node are computed once.
class Values {
public:
  Values(const Module& module, const Bindings& bindings, InterpMode mode)
      : interpreter_(module, bindings, mode) {
    for (const FunctionResult& r : module.entry().results) nodes_[r.name] = r.value;
  }
  NodeId node(const std::string& name) const { return nodes_.at(name); }
  const std::vector<InterpValue>& of(const std::string& name) {
    const auto [at, made] = known_.try_emplace(nodes_.at(name));
    if (made) at->second = interpreter_.values(name);
    return at->second;
  }

private:
  Interpreter interpreter_;
  std::map<std::string, NodeId> nodes_;
  std::map<NodeId, std::vector<InterpValue>> known_;
};

class Check {
public:
  Check(RegionTerms& terms, const RuleCase& test, Comparison comparison)
      : t_(terms), comparison_(comparison), graph_(terms.graph()), case_(test),
        flat_(test.module, test.module.entry()),
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
    const IdVector<NodeId, NodeId> placed = writer.place(fragment);
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
    if (comparison_ == Comparison::values)
      compare(module, choice, pairs);
    else
      compare_special(module, choice, pairs);
    return std::move(out_);
  }

private:
  /// What is written once in a class against the terms that rules made.
  void compare_special(const Module& module, const Choice& choice, const std::vector<TermPair>& pairs) {
    constexpr uint64_t draws = 3;
    std::map<ClassId, size_t> written;
    for (const TermPair& pair : pairs) written[pair.of] += is_written(pair.row);
    Values usual(module, case_.bindings, InterpMode::f64);
    for (uint64_t draw = 0; draw < draws; ++draw) {
      const Bindings bindings =
          comparison_ == Comparison::infinities ? with_infinities(case_, draw) : with_nan(case_, draw);
      Values special(module, bindings, InterpMode::f64);
      for (size_t k = 0; k < pairs.size() && !out_.wrong; ++k) {
        const TermPair& pair = pairs[k];
        const bool chosen = is_written(choice.rows[pair.of]);
        if (chosen ? written[pair.of] > 0 : written[pair.of] != 1 || !is_written(pair.row)) continue;
        const std::string a = fmt::format("{}{}", chosen ? "chosen" : "other", k),
                          b = fmt::format("{}{}", chosen ? "other" : "chosen", k);
        if (is_float(module.entry()[usual.node(a)].type().dtype))
          compare_special(pair, {&usual.of(a), &usual.of(b), &special.of(a), &special.of(b)});
      }
    }
  }
  /// Values of what is written and of another term, with the usual inputs and with special ones.
  void compare_special(const TermPair& pair, const std::array<const std::vector<InterpValue>*, 4>& values) {
    const auto& [x, y, x_special, y_special] = values;
    ++out_.terms;
    for (size_t i = 0; i < x->size() && !out_.wrong; ++i) {
      const auto nan = [i](const auto* of) { return std::isnan((*of)[i].value); };
      const auto finite = [i](const auto* of) { return std::isfinite((*of)[i].value); };
      const auto wrong = [&](const char* what) {
        out_.wrong = fmt::format("element {}: {}: {}", i, what, describe(pair));
      };
      if (comparison_ == Comparison::infinities) {
        const bool same = finite(x) && (*x)[i].value == (*x_special)[i].value;
        if (same && finite(y) && !finite(y_special))
          wrong("NaN and infinities of an input reach what does not depend on them");
      } else if (!nan(x) && nan(x_special) && !nan(y_special)) {
        wrong("a NaN of an input is lost");
      } else if (!nan(y) && nan(y_special) && !nan(x_special)) {
        wrong("a NaN of an input reaches what does not depend on it");
      }
    }
  }
  void compare(const Module& module, const Choice& choice, const std::vector<TermPair>& pairs) {
    Values values(module, case_.bindings, exact_ ? InterpMode::rounded : InterpMode::exact);
    std::set<ClassId> undefined; // what was written is NaN somewhere
    for (size_t k = 0; k < pairs.size() && !exact_; ++k)
      for (const char* side : {"chosen", "other"}) {
        const bool chosen = side[0] == 'c';
        if (!is_written(chosen ? choice.rows[pairs[k].of] : pairs[k].row)) continue;
        const auto& x = values.of(side + std::to_string(k));
        if (std::ranges::any_of(x, [](const InterpValue& v) { return v.exact.kind == Exact::Kind::nan; }))
          undefined.insert(pairs[k].of);
      }
    for (size_t k = 0; k < pairs.size() && !out_.wrong; ++k) {
      const TermPair& pair = pairs[k];
      const bool written = is_written(choice.rows[pair.of]) && !undefined.contains(pair.of);
      const std::string a = fmt::format("chosen{}", k), b = fmt::format("other{}", k);
      const DType type = module.entry()[values.node(a)].type().dtype;
      if (module.entry()[values.node(a)].type() != module.entry()[values.node(b)].type()) {
        out_.wrong = fmt::format("types differ: {}", describe(pair));
        return;
      }
      const auto &x = values.of(a), &y = values.of(b);
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
  const Comparison comparison_;
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

RuleCheck check_rules(RegionTerms& terms, const RuleCase& test, Comparison comparison) {
  return Check(terms, test, comparison).run();
}

std::span<const std::string_view> rules_that_hide() {
  static constexpr std::string_view names[] = {"mask-add",   "mask-mul",    "mask-out", "mask-out2",
                                               "mask-twice", "mask-twice2", "mask-exp"};
  return names;
}

RuleCase shrink_rule_case(RegionTerms& terms, RuleCase test, Comparison comparison) {
  const auto fails = [&](const RuleCase& c) {
    try {
      return check_rules(terms, c, comparison).wrong.has_value();
    } catch (const Error&) {
      return false;
    }
  };
  // The first node that fails alone: results one after the other in the order of nodes.
  const Function whole = test.module.entry();
  for (NodeId id : whole.nodes.ids()) {
    if (whole[id].is_tuple()) continue;
    const RuleCase one = with_results(test, {{"r", id, {}, {}}});
    if (fails(one)) return one;
  }
  return test;
}

} // namespace luminal::rules
