// egraph/explain.cpp -- why two ids are in one class: the path between them in the log of unions.
#include "egraph/compile_rule.h"
#include <fmt/format.h>

namespace luminal::egraph {

namespace {

Justification justify(const State& state, const UnionCause& cause) {
  Justification why;
  switch (cause.kind) {
  case UnionCause::Kind::input: why.kind = Justification::Kind::input; break;
  case UnionCause::Kind::merge:
    why.kind = Justification::Kind::merge;
    why.op = cause.id;
    break;
  case UnionCause::Kind::rule:
    why.kind = Justification::Kind::rule;
    why.rule = cause.id;
    if (cause.left != absent) {
      const std::vector<VarId>& match = state.compiled[cause.id]->actions.match;
      why.substitution.assign(state.rules[cause.id].query.vars.size(), absent);
      for (size_t i = 0; i < match.size(); ++i)
        why.substitution[match[i]] = state.substitutions[cause.left + i];
    }
    break;
  case UnionCause::Kind::congruence: {
    why.kind = Justification::Kind::congruence;
    why.op = cause.id;
    const Table& table = state.tables[cause.id];
    if (cause.left != absent) why.left.assign(table.row(cause.left), table.row(cause.left) + table.keys());
    if (cause.right != absent)
      why.right.assign(table.row(cause.right), table.row(cause.right) + table.keys());
    break;
  }
  }
  return why;
}

} // namespace

std::vector<ExplainStep> EGraph::explain(ClassId a, ClassId b) const {
  if (find(a) != find(b)) throw Error(fmt::format("explain: {} and {} are not in one class", a, b));
  if (a == b) return {};
  // The log is a forest: every record joined two trees. The edges of this class, then a
  // breadth-first walk from b to a.
  const Buffer<UnionRecord>& log = state_->classes.log();
  std::unordered_map<ClassId, std::vector<uint32_t>> edges;
  for (uint32_t i = 0; i < log.size(); ++i)
    if (find(log[i].a) == find(a)) {
      edges[log[i].a].push_back(i);
      edges[log[i].b].push_back(i);
    }
  std::unordered_map<ClassId, uint32_t> towards; // the edge that leads to b
  std::vector<ClassId> queue{b};
  for (size_t at = 0; at < queue.size() && towards.count(a) == 0; ++at)
    for (const uint32_t edge : edges[queue[at]]) {
      const ClassId next = log[edge].a == queue[at] ? log[edge].b : log[edge].a;
      if (next != b && towards.emplace(next, edge).second) queue.push_back(next);
    }
  std::vector<ExplainStep> path;
  for (ClassId at = a; at != b;) {
    const auto edge = towards.find(at);
    if (edge == towards.end())
      throw Error(fmt::format("explain: the log of unions does not join {} and {}: it was not loaded", a, b));
    const UnionRecord& record = log[edge->second];
    const ClassId next = record.a == at ? record.b : record.a;
    ExplainStep step{at, next, justify(*state_, record.cause)};
    if (record.a != at) std::swap(step.why.left, step.why.right);
    path.push_back(std::move(step));
    at = next;
  }
  return path;
}

} // namespace luminal::egraph
