// egraph/terms.h -- a few lines of s-expressions over an e-graph: operators by first use, rewrites
// from text. For tests.
#pragma once
#include "egraph/egraph.h"
#include "egraph/math_theory.h"
#include <map>
#include <sstream>

namespace luminal::egraph::testing {

/// One eq-sort, constructors of that sort, literals as a value sort of interned words.
struct Terms {
  EGraph graph;
  SortId expr, word;
  RulesetId rules;
  std::map<std::string, Value> words;
  std::map<std::string, OpId> ops;

  Terms() {
    expr = graph.add_sort({"Expr", SortKind::eq, {}, {}, {}});
    word = graph.add_sort({"Word", SortKind::value, {}, {}, {}});
    rules = graph.add_ruleset("rules");
  }

  Value word_of(const std::string& text) {
    return words.emplace(text, static_cast<Value>(words.size())).first->second;
  }
  OpId op(const std::string& name, size_t arity, bool literal = false) {
    const auto found = ops.find(name);
    if (found != ops.end()) return found->second;
    OpSpec spec;
    spec.name = name;
    spec.args.assign(arity, literal ? word : expr);
    spec.out = expr;
    spec.constructor = true;
    return ops[name] = graph.add_op(spec);
  }

  struct Sexp {
    std::string atom;
    std::vector<Sexp> list;
    bool is_var() const { return atom.size() > 1 && atom[0] == '?'; }
    bool is_number() const {
      return !atom.empty() &&
             (isdigit(static_cast<unsigned char>(atom[0])) != 0 || (atom[0] == '-' && atom.size() > 1));
    }
  };
  static Sexp read(const std::string& text) {
    size_t at = 0;
    return read(text, at);
  }
  static Sexp read(const std::string& text, size_t& at) {
    while (text[at] == ' ') ++at;
    Sexp sexp;
    if (text[at] != '(') {
      while (at < text.size() && text[at] != ' ' && text[at] != ')') sexp.atom += text[at++];
      return sexp;
    }
    for (++at;;) {
      while (text[at] == ' ') ++at;
      if (text[at] == ')') break;
      sexp.list.push_back(read(text, at));
    }
    ++at;
    return sexp;
  }

  ClassId add(const std::string& text) { return add(read(text)); }
  ClassId add(const Sexp& sexp) {
    if (sexp.list.empty()) {
      const Value key = word_of(sexp.atom);
      return graph.add(op(sexp.is_number() ? "Const" : "Var", 1, true), std::span(&key, 1));
    }
    std::vector<Value> args;
    for (size_t i = 1; i < sexp.list.size(); ++i) args.push_back(add(sexp.list[i]));
    return graph.add(op(sexp.list[0].atom, args.size()), args);
  }

  Operand pattern(Query& query, std::map<std::string, VarId>& vars, const Sexp& sexp) {
    if (sexp.is_var()) {
      const auto found = vars.find(sexp.atom);
      return Operand::var(found != vars.end() ? found->second
                                              : vars[sexp.atom] = query.add_var(sexp.atom, expr));
    }
    Atom atom;
    if (sexp.list.empty()) {
      atom.op = op(sexp.is_number() ? "Const" : "Var", 1, true);
      atom.args = {Operand::constant(word_of(sexp.atom))};
    } else {
      atom.op = op(sexp.list[0].atom, sexp.list.size() - 1);
      const size_t place = query.atoms.size();
      query.atoms.emplace_back(); // outer atoms first
      for (size_t i = 1; i < sexp.list.size(); ++i) atom.args.push_back(pattern(query, vars, sexp.list[i]));
      atom.out = Operand::var(query.add_var("", expr));
      query.atoms[place] = atom;
      return atom.out;
    }
    atom.out = Operand::var(query.add_var("", expr));
    query.atoms.push_back(atom);
    return atom.out;
  }
  Operand build(Rule& rule, std::map<std::string, VarId>& vars, const Sexp& sexp) {
    if (sexp.is_var()) return Operand::var(vars.at(sexp.atom));
    Action action;
    action.kind = Action::Kind::term;
    if (sexp.list.empty()) {
      action.id = op(sexp.is_number() ? "Const" : "Var", 1, true);
      action.args = {Operand::constant(word_of(sexp.atom))};
    } else {
      action.id = op(sexp.list[0].atom, sexp.list.size() - 1);
      for (size_t i = 1; i < sexp.list.size(); ++i) action.args.push_back(build(rule, vars, sexp.list[i]));
    }
    action.out = rule.query.add_var("", expr);
    rule.actions.push_back(action);
    return Operand::var(action.out);
  }
  Rule rewrite_rule(const std::string& left, const std::string& right) {
    Rule rule;
    rule.name = left + " => " + right;
    rule.ruleset = rules;
    std::map<std::string, VarId> vars;
    const Operand root = pattern(rule.query, vars, read(left));
    const Operand made = build(rule, vars, read(right));
    Action unite;
    unite.kind = Action::Kind::unite;
    unite.args = {root, made};
    rule.actions.push_back(unite);
    return rule;
  }
  RuleId rewrite(const std::string& left, const std::string& right) {
    return graph.add_rule(rewrite_rule(left, right));
  }
};

/// The math theory with its rules and terms.
inline void add_math(Terms& t) {
  for (const char* name : math_theory::binary) t.op(name, 2);
  for (const char* name : math_theory::unary) t.op(name, 1);
  t.op("Const", 1, true);
  t.op("Var", 1, true);
  for (const auto& [left, right] : math_theory::rules) t.rewrite(left, right);
  for (const char* term : math_theory::terms) t.add(term);
}

} // namespace luminal::egraph::testing
