// egraph/paths.h -- small graphs for tests of the engine: paths from edges, functions that merge.
#pragma once
#include "egraph/egraph.h"

namespace luminal::egraph::testing {

inline Action act(Action::Kind kind, uint32_t id, std::vector<Operand> args) {
  Action action;
  action.kind = kind;
  action.id = id;
  action.args = std::move(args);
  return action;
}
inline Operand var(VarId v) { return Operand::var(v); }
inline Operand constant(Value v) { return Operand::constant(v); }

/// edge and path over numbers, path(x, z) from path(x, y) and edge(y, z).
struct Paths {
  EGraph graph;
  SortId number = graph.add_sort({"N", SortKind::value, {}, {}, {}});
  RulesetId rules = graph.add_ruleset("paths");
  OpId edge = relation("edge"), path = relation("path");
  RuleId step = absent;

  OpId relation(const char* name) {
    OpSpec spec;
    spec.name = name;
    spec.args = {number, number};
    spec.out = EGraph::unit_sort;
    return graph.add_op(spec);
  }
  explicit Paths(uint64_t budget = 0) {
    Rule start;
    start.name = "start";
    start.ruleset = rules;
    start.query.add_var("x", number);
    start.query.add_var("y", number);
    start.query.atoms = {{edge, {var(0), var(1)}, constant(0)}};
    start.actions = {act(Action::Kind::set, path, {var(0), var(1), constant(0)})};
    graph.add_rule(start);
    Rule rule = start;
    rule.name = "step";
    rule.budget = budget;
    rule.query.add_var("z", number);
    rule.query.atoms = {{path, {var(0), var(1)}, constant(0)}, {edge, {var(1), var(2)}, constant(0)}};
    rule.actions = {act(Action::Kind::set, path, {var(0), var(2), constant(0)})};
    step = graph.add_rule(rule);
  }
  void connect(Value a, Value b) {
    const Value pair[] = {a, b};
    graph.set(edge, pair, 0);
  }
};

struct Functions : Paths {
  OpId function(const char* name, MergeKind merge) {
    OpSpec spec;
    spec.name = name;
    spec.args = {number};
    spec.out = number;
    spec.merge = merge;
    return graph.add_op(spec);
  }
  std::optional<Value> after(OpId op, Value first, Value second) {
    const Value key = 3;
    graph.set(op, std::span(&key, 1), first);
    graph.set(op, std::span(&key, 1), second);
    return graph.lookup(op, std::span(&key, 1));
  }
};

} // namespace luminal::egraph::testing
