// examples/06_egraph.cpp -- lesson 6: the e-graph engine: a program in text form that C++ asks, and
// the engine alone.
#include "luminal/egraph/egg_program.h"
#include <cstdio>

using namespace luminal::egraph;

/// Which nodes a path leads to: relations and rules made in C++, no text.
static void paths() {
  EGraph graph;
  const SortId node = graph.add_sort({.name = "Node", .kind = SortKind::value});
  const OpId edge = graph.add_op({.name = "edge", .args = {node, node}, .out = EGraph::unit_sort}),
             path = graph.add_op({.name = "path", .args = {node, node}, .out = EGraph::unit_sort});
  const RulesetId rules = graph.add_ruleset("paths");
  const auto var = [](VarId v) { return Operand::var(v); };
  const Operand unit = Operand::constant(0);
  Rule start{.name = "start", .ruleset = rules, .query = {}, .actions = {}};
  for (const char* name : {"x", "y", "z"}) start.query.add_var(name, node);
  Rule step = start;
  start.query.vars.pop_back();
  start.query.atoms = {{edge, {var(0), var(1)}, unit}};
  start.actions = {{.kind = Action::Kind::set, .id = path, .args = {var(0), var(1), unit}}};
  step.name = "step";
  step.query.atoms = {{path, {var(0), var(1)}, unit}, {edge, {var(1), var(2)}, unit}};
  step.actions = {{.kind = Action::Kind::set, .id = path, .args = {var(0), var(2), unit}}};
  graph.add_rule(start);
  graph.add_rule(step);
  for (Value at = 0; at < 5; at++) {
    const Value pair[] = {at, at + 1};
    graph.set(edge, pair, 0);
  }
  while (graph.run(rules).changed) {
  }
  std::printf("%zu edges, %zu paths\n", graph.size(edge), graph.size(path));
}

int main() {
  EggProgram program;
  program.run(R"(
    (datatype Expr (Num i64) (Var String) (Add Expr Expr) (Mul Expr Expr) (Shift Expr i64))
    (rewrite (Mul a (Num 2)) (Shift a 1))
    (rewrite (Mul a (Num 1)) a)
    (rewrite (Add a (Num 0)) a)
    (birewrite (Add a b) (Add b a))
  )");
  const EggValue root = program.evaluate("(Add (Num 0) (Mul (Mul (Var \"x\") (Num 1)) (Num 2)))");
  program.saturate("", 10);
  std::printf("%s\n", program.extract(root).text.c_str());
  std::printf("%d\n", program.holds("(= (Mul (Var \"x\") (Num 2)) (Shift (Var \"x\") 1))"));
  paths();
}
