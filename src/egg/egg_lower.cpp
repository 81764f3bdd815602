// egg/egg_lower.cpp -- checked rules as the engine takes them.
#include "base/check.h"
#include "egg/egg_state.h"
#include <algorithm>
#include <fmt/format.h>

namespace luminal::egraph {
namespace {

constexpr size_t max_rule_name = 120;

/// Builds one engine rule: numbers the variables that are used, in the order of their first use.
class Lowering {
public:
  Lowering(EggProgram::Impl& program, const CoreRule& rule, EggProgram::Impl::Globals use)
      : p_(program), rule_(rule), use_(use), variable_(rule.variables.size(), absent) {}

  Query query() {
    for (const CoreAtom& atom : rule_.body) {
      const auto terms = rule_.args(atom);
      switch (atom.head) {
      case CoreAtom::Head::function: {
        Atom a;
        a.op = p_.schema.functions[atom.index].op;
        for (const CoreTerm& t : terms.first(terms.size() - 1)) a.args.push_back(operand(t));
        a.out = p_.schema.functions[atom.index].relation ? Operand::constant(0) : operand(terms.back());
        if (p_.schema.functions[atom.index].relation) units_.push_back(terms.back().index);
        query_.atoms.push_back(std::move(a));
        break;
      }
      case CoreAtom::Head::primitive: {
        PrimAtom a;
        a.prim = atom.index;
        for (const CoreTerm& t : terms.first(terms.size() - 1)) a.args.push_back(operand(t));
        a.out = operand(terms.back());
        query_.prims.push_back(std::move(a));
        break;
      }
      case CoreAtom::Head::equality:
        query_.equalities.push_back({operand(terms[0]), operand(terms[1])});
        break;
      }
    }
    return std::move(query_);
  }

  /// After query(): the actions, with globals as variables that further premises bind.
  std::vector<Action> actions(Query& query) {
    query_ = std::move(query);
    std::vector<Action> out;
    for (const CoreAction& a : rule_.head) out.push_back(action(a));
    query = std::move(query_);
    return out;
  }

private:
  VarId add(std::string_view name, SortId sort) { return query_.add_var(std::string(name), sort); }

  Operand operand(const CoreTerm& term) {
    switch (term.kind) {
    case CoreTerm::Kind::literal: return Operand::constant(p_.literal(term.index));
    case CoreTerm::Kind::variable: {
      if (std::find(units_.begin(), units_.end(), term.index) != units_.end()) return Operand::constant(0);
      VarId& v = variable_[term.index];
      const CoreVariable& variable = rule_.variables[term.index];
      if (v == absent)
        v = add(variable.named ? p_.syntax.text(variable.name) : std::string_view(), variable.sort);
      return Operand::var(v);
    }
    case CoreTerm::Kind::global: break;
    }
    if (use_ == EggProgram::Impl::Globals::value) return Operand::constant(p_.global_value(term.index));
    const Global& global = p_.schema.globals[term.index];
    const SortId sort = global.sort;
    if (p_.schema.sorts[sort].type != SortType::classes && !p_.schema.sorts[sort].holds_classes)
      return Operand::constant(global.value);
    // A class may get another leader, which a semi-naive rule has to see: a premise on the global's
    // own table.
    for (const auto& [index, var] : globals_)
      if (index == term.index) return Operand::var(var);
    const VarId var = add(p_.syntax.text(global.name), sort);
    globals_.emplace_back(term.index, var);
    query_.atoms.push_back({p_.global_op(term.index), {}, Operand::var(var)});
    return Operand::var(var);
  }

  void args(const CoreAtom& atom, size_t count, Action& action) {
    for (const CoreTerm& t : rule_.args(atom).first(count)) action.args.push_back(operand(t));
  }

  VarId out(const CoreAtom& atom) {
    const Operand result = operand(rule_.args(atom).back());
    LUMINAL_CHECK(result.is_var());
    return result.id;
  }

  Action action(const CoreAction& a) {
    Action action;
    const CoreAtom& atom = a.atom;
    const Span place = p_.syntax.span(atom.place);
    switch (a.kind) {
    case CoreAction::Kind::call: call(atom, action); break;
    case CoreAction::Kind::insert:
      action.kind = Action::Kind::set;
      action.id = p_.schema.functions[atom.index].op;
      args(atom, atom.count, action);
      break;
    case CoreAction::Kind::remove:
    case CoreAction::Kind::subsume:
      action.kind = a.kind == CoreAction::Kind::remove ? Action::Kind::remove : Action::Kind::subsume;
      action.id = p_.schema.functions[atom.index].op;
      args(atom, atom.count - 1, action);
      break;
    case CoreAction::Kind::unite:
      action.kind = Action::Kind::unite;
      args(atom, 2, action);
      break;
    case CoreAction::Kind::panic:
      action.kind = Action::Kind::panic;
      action.message = p_.syntax.message(place, fmt::format("panic: {}", p_.syntax.text(a.message)));
      break;
    }
    return action;
  }

  void call(const CoreAtom& atom, Action& action) {
    const Span place = p_.syntax.span(atom.place);
    if (atom.head == CoreAtom::Head::function) {
      const FunctionInfo& f = p_.schema.functions[atom.index];
      action.id = f.op;
      args(atom, atom.count - 1, action);
      if (f.relation) {
        action.kind = Action::Kind::set;
        action.args.push_back(Operand::constant(0));
        const CoreTerm& result = rule_.args(atom).back();
        if (result.kind == CoreTerm::Kind::variable) units_.push_back(result.index);
        return;
      }
      action.kind = Action::Kind::term;
      action.out = out(atom);
      if (f.kind == FunctionKind::custom)
        action.message =
            p_.syntax.message(place, fmt::format("the function '{}' has no value for these arguments",
                                                 p_.syntax.text(atom.name)));
      return;
    }
    args(atom, atom.count - 1, action);
    action.out = out(atom);
    action.message =
        p_.syntax.message(place, fmt::format("the primitive '{}' is not defined for these arguments",
                                             p_.syntax.text(atom.name)));
    if (atom.writes) {
      action.kind = Action::Kind::host;
      action.host = p_.host_actions[atom.index].call;
    } else {
      action.kind = Action::Kind::primitive;
      action.id = atom.index;
    }
  }

  EggProgram::Impl& p_;
  const CoreRule& rule_;
  EggProgram::Impl::Globals use_;
  Query query_;
  std::vector<VarId> variable_;
  std::vector<std::pair<uint32_t, VarId>> globals_;
  std::vector<uint32_t> units_; ///< variables that hold the fact of a relation: the unit
};

} // namespace

Value EggProgram::Impl::literal(NodeId node) {
  const Node& n = syntax[node];
  switch (n.kind) {
  case NodeKind::integer: return pool.integer(n.integer);
  case NodeKind::floating: return pool.real(n.floating);
  case NodeKind::string: return n.symbol;
  case NodeKind::boolean: return static_cast<Value>(n.integer);
  case NodeKind::list: return 0; // ()
  case NodeKind::symbol: break;
  }
  LUMINAL_CHECK(false, "a name is not a literal");
  return 0;
}

Value EggProgram::Impl::constant(const CoreTerm& term) {
  return term.kind == CoreTerm::Kind::literal ? literal(term.index) : global_value(term.index);
}

Value EggProgram::Impl::global_value(uint32_t index) {
  Global& global = schema.globals[index];
  const Sort& sort = schema.sorts[global.sort];
  if (sort.type == SortType::classes) return graph.find(global.value);
  return sort.holds_classes ? graph.canonical(global.sort, global.value) : global.value;
}

OpId EggProgram::Impl::global_op(uint32_t index) {
  if (global_ops[index] != absent) return global_ops[index];
  const Global& global = schema.globals[index];
  OpSpec spec;
  spec.name = std::string(syntax.text(global.name));
  spec.out = global.sort;
  spec.hidden = spec.unextractable = spec.let_global = true;
  spec.subsumable = false;
  spec.merge = MergeKind::assert_equal;
  const OpId op = graph.add_op(std::move(spec));
  graph.set(op, {}, global_value(index));
  global_ops[index] = op;
  return op;
}

Query EggProgram::Impl::lower_query(const CoreRule& rule, Globals use) {
  return Lowering(*this, rule, use).query();
}

void EggProgram::Impl::add_rule(const CoreRule& core, NodeId command, const RuleOptions& read,
                                const std::string& suffix) {
  if (read.numeric > options.numeric) return;
  Rule rule;
  if (!read.name.empty()) {
    rule.name = read.name + suffix;
    if (!rulesets[read.ruleset].rule_names.insert(rule.name).second)
      syntax.fail(command, fmt::format("there is a rule '{}' in this ruleset already", rule.name));
  } else {
    rule.name = syntax.print(command);
    if (rule.name.size() > max_rule_name) rule.name = rule.name.substr(0, max_rule_name - 3) + "...";
    rule.name += suffix;
  }
  rule.ruleset = rulesets[read.ruleset].id;
  Lowering lowering(*this, core, Globals::premise);
  rule.query = lowering.query();
  rule.actions = lowering.actions(rule.query);
  rule.numeric = read.numeric;
  rule.budget = read.budget;
  rule.naive = read.naive;
  graph.add_rule(std::move(rule));
}

std::vector<MergeNode> EggProgram::Impl::lower_merge(const CheckedExpression& merge) {
  std::vector<MergeNode> out;
  std::vector<uint32_t> node_of(merge.code.variables.size(), absent);
  const auto add = [&](MergeNode node) {
    out.push_back(std::move(node));
    return static_cast<uint32_t>(out.size() - 1);
  };
  const auto use = [&](const CoreTerm& term) {
    if (term.kind == CoreTerm::Kind::variable) {
      uint32_t& node = node_of[term.index];
      if (node == absent)
        node = add({term.index == 0 ? MergeNode::Kind::old_value : MergeNode::Kind::new_value, 0, {}});
      return node;
    }
    return add({MergeNode::Kind::constant, constant(term), {}});
  };
  for (const CoreAction& a : merge.code.head) {
    LUMINAL_CHECK(a.kind == CoreAction::Kind::call);
    const auto terms = merge.code.args(a.atom);
    MergeNode node;
    for (const CoreTerm& t : terms.first(terms.size() - 1)) node.args.push_back(use(t));
    if (a.atom.writes) syntax.fail(a.atom.place, "a host action cannot stand in a merge");
    if (a.atom.head == CoreAtom::Head::function) {
      node.kind = MergeNode::Kind::op;
      node.id = schema.functions[a.atom.index].op;
    } else {
      node.kind = MergeNode::Kind::primitive;
      node.id = a.atom.index;
    }
    node_of[terms.back().index] = add(std::move(node));
  }
  const uint32_t result = use(merge.value);
  LUMINAL_CHECK(result + 1 == out.size());
  return out;
}

} // namespace luminal::egraph
