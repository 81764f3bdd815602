// egg/egg_explain.cpp -- the command explain: why two terms are equal, step by step, with what made
// the arguments equal below.
#include "egg/egg_state.h"
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <set>

namespace luminal::egraph {
namespace {

using Impl = EggProgram::Impl;

constexpr size_t most_steps = 1000;
constexpr size_t deepest = 100;

/// Writes the steps between two ids; arguments that had to become equal are explained one level
/// further in, each pair once.
class Explainer {
public:
  explicit Explainer(Impl& program) : p_(program), writer_(program, sorts(program)) {}

  void steps(ClassId a, ClassId b, size_t depth) {
    for (const ExplainStep& step : p_.graph.explain(a, b)) {
      if (++written_ > most_steps) return;
      out_ += std::string(3 * (depth + 1), ' ') + text(step.why) + "\n";
      if (step.why.kind != Justification::Kind::congruence) continue;
      for (size_t i = 0; i < std::min(step.why.left.size(), step.why.right.size()); ++i)
        argument(step.why.op, i, step.why.left[i], step.why.right[i], depth + 1);
    }
  }

  std::string take() {
    if (written_ > most_steps) out_ += fmt::format("   ... more than {} steps\n", most_steps);
    return std::move(out_);
  }

private:
  static std::vector<SortId> sorts(const Impl& program) {
    std::vector<SortId> all;
    for (SortId id = 0; id < program.schema.sorts.size(); ++id) all.push_back(id);
    return all;
  }

  std::string value(SortId sort, Value value) {
    return writer_.cost(sort, value) < HUGE_VAL ? writer_.text(sort, value) : std::string("?");
  }

  std::string text(const Justification& why) {
    switch (why.kind) {
    case Justification::Kind::rule: {
      const Rule& rule = p_.graph.rule(why.rule);
      std::string text = fmt::format("by the rule {}", rule.name);
      std::string with;
      for (size_t i = 0; i < why.substitution.size(); ++i) {
        const Variable& variable = rule.query.vars[i];
        // Variables of the text; those that the program makes for nested terms have names that no
        // text has.
        if (why.substitution[i] == absent || variable.name.empty() || variable.name[0] == '@') continue;
        with += fmt::format("{}{} = {}", with.empty() ? "" : ", ", variable.name,
                            value(variable.sort, why.substitution[i]));
      }
      return with.empty() ? text : text + ", with " + with;
    }
    case Justification::Kind::congruence:
      return fmt::format("by equal arguments of {}", p_.graph.op(why.op).name);
    case Justification::Kind::input: return "by a union of the program";
    case Justification::Kind::merge: return fmt::format("by a merge of {}", p_.graph.op(why.op).name);
    }
    return "";
  }

  void argument(OpId op, size_t position, Value left, Value right, size_t depth) {
    const SortId sort = p_.graph.op(op).args[position];
    if (left == right || p_.schema.sorts[sort].type != SortType::classes || depth > deepest) return;
    if (!seen_.insert({left, right}).second) return;
    out_ += fmt::format("{}argument {}, {}\n", std::string(3 * (depth + 1) - 1, ' '), position + 1,
                        value(sort, left));
    steps(left, right, depth);
  }

  Impl& p_;
  TermWriter writer_;
  std::string out_;
  size_t written_ = 0;
  std::set<std::pair<Value, Value>> seen_;
};

} // namespace

void EggProgram::Impl::explain_command(NodeId command) {
  const auto items = syntax.children(command);
  if (items.size() != 3) syntax.fail(command, "usage: (explain <expression> <expression>)");
  const EggValue a = evaluate(items[1], no_sort), b = evaluate(items[2], a.sort);
  if (schema.sorts[a.sort].type != SortType::classes)
    syntax.fail(
        items[1],
        "expected a term of a sort of classes: values of other sorts are equal where they are the same");
  graph.rebuild();
  if (graph.find(a.value) != graph.find(b.value)) fail_run(command, "these terms are not known to be equal");
  Explainer explainer(*this);
  explainer.steps(a.value, b.value, 0);
  const std::string steps = explainer.take();
  tell(command, "(\n" + (steps.empty() ? std::string("   the same from the beginning\n") : steps) + ")\n");
}

} // namespace luminal::egraph
