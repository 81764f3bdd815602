// rules/folds_derivation.cpp -- creators of rows and causes of unions, as text.
#include "folds_derivation.h"
#include <fmt/format.h>

namespace luminal::egraph::folds {
namespace {

class Teller {
public:
  Teller(Theory& theory, const EngineProblem& problem)
      : program_(theory.program()), graph_(theory.program().graph()), problem_(problem) {
    for (ClassId id = 0; id < graph_.class_count(); ++id) members_[graph_.find(id)].push_back(id);
  }

  Derivation tell(const Genome& genome) {
    Derivation out;
    Evaluator evaluator(problem_.problem);
    for (const uint32_t c : evaluator.evaluate(genome).order) { // children first
      const auto [op, row] = problem_.chosen(genome, c);
      std::string line;
      const RuleId creator = graph_.creator(op, row);
      if (creator != absent) {
        out.rules.insert(graph_.rule(creator).name);
        line += " made by " + graph_.rule(creator).name;
      }
      std::set<RuleId> seen;
      for (const ExplainStep& step : unions(problem_.class_of[c])) {
        if (step.why.kind != Justification::Kind::rule || !seen.insert(step.why.rule).second) continue;
        out.rules.insert(graph_.rule(step.why.rule).name);
        line += fmt::format("{} {}", seen.size() == 1 ? "; united by" : ",", cause(step.why));
      }
      std::set<std::string> others;
      for (const RowView& other : graph_.class_rows(problem_.class_of[c]))
        if (const RuleId rule = graph_.creator(other.op, other.row);
            !other.subsumed && rule != absent && rule != creator)
          others.insert(graph_.rule(rule).name);
      for (const std::string& rule : others)
        line += (rule == *others.begin() ? "; other terms by " : ", ") + rule;
      out.rules.insert(others.begin(), others.end());
      if (!line.empty())
        out.steps.push_back(fmt::format("%{} = {}{}", problem_.class_of[c], term(op, row), line));
    }
    return out;
  }

private:
  /// The steps that lead from the first id of the class to all others.
  std::vector<ExplainStep> unions(ClassId leader) const {
    std::vector<ExplainStep> out;
    const auto& ids = members_.at(leader);
    for (const ClassId id : ids)
      for (ExplainStep& step : graph_.explain(ids[0], id)) out.push_back(std::move(step));
    return out;
  }
  std::string value(SortId sort, Value v) {
    const SortSpec& spec = graph_.sort(sort);
    if (spec.kind == SortKind::eq) return fmt::format("%{}", graph_.find(v));
    if (spec.name != "Vs") return program_.print({sort, v});
    std::string out = "[";
    const auto items = program_.values().sequence_of(v);
    for (size_t i = 0; i < items.size(); ++i)
      out += fmt::format("{}%{}", i == 0 ? "" : " ", graph_.find(items[i]));
    return out + "]";
  }
  std::string term(OpId op, RowId row) {
    std::string out = "(" + graph_.op(op).name;
    const RowView view = graph_.row(op, row);
    for (size_t i = 0; i < view.args().size(); ++i) out += " " + value(graph_.op(op).args[i], view.args()[i]);
    return out + ")";
  }
  std::string cause(const Justification& why) {
    const Rule& rule = graph_.rule(why.rule);
    std::string values;
    for (VarId v = 0; v < why.substitution.size(); ++v) {
      const Variable& variable = rule.query.vars[v];
      if (why.substitution[v] == absent || variable.name.empty() || graph_.sort(variable.sort).name == "Info")
        continue;
      if (!std::isalpha(static_cast<unsigned char>(variable.name[0]))) continue; // of the compiler
      values += fmt::format("{}{} = {}", values.empty() ? "" : ", ", variable.name,
                            value(variable.sort, why.substitution[v]));
    }
    return values.empty() ? rule.name : fmt::format("{} [{}]", rule.name, values);
  }

  EggProgram& program_;
  EGraph& graph_;
  const EngineProblem& problem_;
  std::map<ClassId, std::vector<ClassId>> members_;
};

} // namespace

Derivation derivation(Theory& theory, const EngineProblem& problem, const Genome& genome) {
  return Teller(theory, problem).tell(genome);
}

} // namespace luminal::egraph::folds
