// egg/egg_infer.cpp -- inference of sorts, groundedness and equalities of one rule.
#include "egg/egg_infer.h"
#include "base/check.h"
#include "base/text.h"
#include <fmt/format.h>
#include <map>

namespace luminal::egraph {
namespace {

SortType literal_type(NodeKind kind) {
  switch (kind) {
  case NodeKind::integer: return SortType::i64;
  case NodeKind::floating: return SortType::f64;
  case NodeKind::string: return SortType::string;
  case NodeKind::boolean: return SortType::boolean;
  case NodeKind::list:
  case NodeKind::symbol: break;
  }
  return SortType::unit;
}

} // namespace

CoreTerm Inference::new_variable(CoreVariable variable) {
  const auto index = static_cast<uint32_t>(variables_.size());
  variables_.push_back(variable);
  if (variable.named) named_.try_emplace(variable.name, index);
  return {CoreTerm::Kind::variable, index, variable.place};
}

std::optional<uint32_t> Inference::find_variable(Symbol name) const {
  const auto found = named_.find(name);
  return found == named_.end() ? std::nullopt : std::optional(found->second);
}

CoreAtom Inference::head(Symbol name, NodeId at) const {
  CoreAtom atom;
  atom.name = name;
  atom.place = at;
  const NameEntry entry = schema_.find(name);
  if (entry.kind == NameKind::function) {
    atom.index = entry.index;
    return atom;
  }
  if (schema_.primitive(name) == nullptr)
    syntax_.fail(at, fmt::format("there is no function or primitive '{}'{}", syntax_.text(name),
                                 schema_.suggestion(name)));
  atom.head = CoreAtom::Head::primitive;
  return atom;
}

void Inference::add(CoreAtom atom, std::span<const CoreTerm> terms, bool in_query) {
  if (in_query && ++query_atoms_ > max_query_atoms)
    syntax_.fail(atom.place, fmt::format("more than {} facts in one rule or query", max_query_atoms));
  atom.first = static_cast<uint32_t>(terms_.size());
  atom.count = static_cast<uint32_t>(terms.size());
  if (atom.head == CoreAtom::Head::function) {
    const FunctionInfo& f = schema_.functions[atom.index];
    if (f.inputs.size() + 1 != terms.size())
      syntax_.fail(atom.place, fmt::format("'{}' takes {} argument{}: {}; found {}", syntax_.text(f.name),
                                           f.inputs.size(), f.inputs.size() == 1 ? "" : "s",
                                           schema_.signature(f), terms.size() - 1));
  }
  terms_.insert(terms_.end(), terms.begin(), terms.end());
  atoms_.push_back({atom, in_query, false});
}

SortId Inference::sort_of(const CoreTerm& term) const {
  switch (term.kind) {
  case CoreTerm::Kind::variable: return variables_[term.index].sort;
  case CoreTerm::Kind::global: return schema_.globals[term.index].sort;
  case CoreTerm::Kind::literal: break;
  }
  // The sorts of literals are the first ones declared, in the order of SortType.
  return static_cast<SortId>(literal_type(syntax_[term.index].kind));
}

std::string Inference::show(const CoreTerm& term) const {
  std::string text = syntax_.print(term.place);
  return text.size() > 40 ? "this" : "'" + text + "'";
}

bool Inference::assign(const CoreTerm& term, SortId sort) {
  if (term.kind == CoreTerm::Kind::variable && variables_[term.index].sort == no_sort) {
    variables_[term.index].sort = sort;
    return true;
  }
  const SortId known = sort_of(term);
  if (known != sort)
    syntax_.fail(term.place, fmt::format("expected the sort {}; {} has the sort {}", schema_.sort_name(sort),
                                         show(term), schema_.sort_name(known)));
  return false;
}

bool Inference::fits(const Overload& overload, std::span<const CoreTerm> terms, bool in_query) const {
  const size_t given = terms.size() - 1;
  if (!overload.variadic && overload.inputs.size() != given) return false;
  if (overload.reads && context_ == Context::rule) return false;
  if (overload.writes && in_query) return false;
  SortId any = no_sort;
  const auto matches = [&](SortId wanted, const CoreTerm& term) {
    const SortId sort = sort_of(term);
    if (sort == no_sort) return true;
    if (wanted != any_sort) return wanted == sort;
    if (any == no_sort) any = sort;
    return any == sort;
  };
  for (size_t i = 0; i < given; ++i)
    if (!matches(overload.inputs[overload.variadic ? 0 : i], terms[i])) return false;
  return matches(overload.output, terms[given]);
}

bool Inference::apply(const Overload& overload, std::span<const CoreTerm> terms, bool& complete) {
  const size_t given = terms.size() - 1;
  const auto wanted = [&](size_t i) {
    return i == given ? overload.output : overload.inputs[overload.variadic ? 0 : i];
  };
  SortId any = no_sort;
  for (size_t i = 0; i <= given; ++i)
    if (wanted(i) == any_sort && sort_of(terms[i]) != no_sort) any = sort_of(terms[i]);
  bool changed = false;
  complete = true;
  for (size_t i = 0; i <= given; ++i) {
    const SortId sort = wanted(i) == any_sort ? any : wanted(i);
    if (sort == no_sort)
      complete = false;
    else
      changed |= assign(terms[i], sort);
  }
  return changed;
}

bool Inference::step_primitive(Atom& atom) {
  const auto& overloads = *schema_.primitive(atom.core.name);
  const std::span<const CoreTerm> terms = args(atom.core);
  const Overload* only = nullptr;
  for (const Overload& o : overloads) {
    if (!fits(o, terms, atom.in_query)) continue;
    if (only != nullptr) return false; // not known yet
    only = &o;
  }
  if (only == nullptr) fail_primitive(atom);
  atom.core.index = only->id;
  atom.core.writes = only->writes;
  return apply(*only, terms, atom.done);
}

void Inference::fail_primitive(const Atom& atom) const {
  const auto& overloads = *schema_.primitive(atom.core.name);
  const std::span<const CoreTerm> terms = args(atom.core);
  std::vector<SortId> given;
  for (const CoreTerm& t : terms.first(terms.size() - 1)) given.push_back(sort_of(t));
  std::vector<std::string> known;
  for (const Overload& o : overloads)
    if (known.size() < 8)
      known.push_back(schema_.signature(o) + (o.reads    ? " (not in rules without :naive)"
                                              : o.writes ? " (not in facts)"
                                                         : ""));
  const SortId out = sort_of(terms.back());
  syntax_.fail(atom.core.place,
               fmt::format("no variant of '{}' takes ({}){}; known: {}", syntax_.text(atom.core.name),
                           schema_.sort_names(given),
                           out == no_sort ? "" : fmt::format(" and gives {}", schema_.sort_name(out)),
                           luminal::join(known)));
}

bool Inference::step(Atom& atom) {
  switch (atom.core.head) {
  case CoreAtom::Head::function: {
    const FunctionInfo& f = schema_.functions[atom.core.index];
    const auto terms = args(atom.core);
    for (size_t i = 0; i < f.inputs.size(); ++i) assign(terms[i], f.inputs[i]);
    assign(terms.back(), f.output);
    atom.done = true;
    return true;
  }
  case CoreAtom::Head::equality: {
    const auto terms = args(atom.core);
    const SortId a = sort_of(terms[0]), b = sort_of(terms[1]);
    if (a == no_sort && b == no_sort) return false;
    atom.done = true;
    if (a != no_sort) return assign(terms[1], a), true;
    return assign(terms[0], b), true;
  }
  case CoreAtom::Head::primitive: return step_primitive(atom);
  }
  return false;
}

void Inference::solve() {
  for (bool changed = true; changed;) {
    changed = false;
    for (Atom& atom : atoms_)
      if (!atom.done) changed |= step(atom);
  }
  for (const Atom& atom : atoms_) {
    if (atom.core.head != CoreAtom::Head::primitive || atom.done) continue;
    const auto terms = args(atom.core);
    std::vector<std::string> fitting;
    for (const Overload& o : *schema_.primitive(atom.core.name))
      if (fits(o, terms, atom.in_query)) fitting.push_back(schema_.signature(o));
    syntax_.fail(atom.core.place, fmt::format("it is not known which '{}' is meant: {}",
                                              syntax_.text(atom.core.name), luminal::join(fitting)));
  }
  for (const CoreVariable& v : variables_)
    if (v.sort == no_sort && v.named)
      syntax_.fail(v.place, fmt::format("nothing tells the sort of '{}'", syntax_.text(v.name)));
}

void Inference::check_grounded() const {
  std::vector<bool> seen(variables_.size()), grounded(variables_.size());
  const auto is_grounded = [&](const CoreTerm& t) {
    return t.kind != CoreTerm::Kind::variable || grounded[t.index];
  };
  bool changed = true;
  const auto ground = [&](const CoreTerm& t) {
    if (is_grounded(t)) return;
    grounded[t.index] = true;
    changed = true;
  };
  while (changed) {
    changed = false;
    for (const Atom& atom : atoms_) {
      if (!atom.in_query) continue;
      const auto terms = args(atom.core);
      for (const CoreTerm& t : terms)
        if (t.kind == CoreTerm::Kind::variable) seen[t.index] = true;
      if (atom.core.head == CoreAtom::Head::function) {
        for (const CoreTerm& t : terms) ground(t);
      } else if (atom.core.head == CoreAtom::Head::equality) {
        if (is_grounded(terms[0])) ground(terms[1]);
        if (is_grounded(terms[1])) ground(terms[0]);
      } else {
        bool all = true;
        for (const CoreTerm& t : terms.first(terms.size() - 1)) all = all && is_grounded(t);
        if (all) ground(terms.back());
      }
    }
  }
  // The innermost name is the useful one to show, so written variables go before values of calls.
  for (const bool named : {true, false})
    for (size_t i = 0; i < variables_.size(); ++i)
      if (seen[i] && !grounded[i] && variables_[i].named == named)
        syntax_.fail(
            variables_[i].place,
            fmt::format("{} is not grounded: it has to be an argument or the value of a function or "
                        "constructor, or computed from such values",
                        named ? fmt::format("'{}'", syntax_.text(variables_[i].name)) : "this value"));
}

bool Inference::same_constant(const CoreTerm& a, const CoreTerm& b) const {
  if (a.kind != b.kind) return false;
  if (a.kind == CoreTerm::Kind::global) return a.index == b.index;
  const Node &x = syntax_[a.index], &y = syntax_[b.index];
  if (x.kind != y.kind) return false;
  switch (x.kind) {
  case NodeKind::integer:
  case NodeKind::boolean: return x.integer == y.integer;
  case NodeKind::floating:
    return x.floating == y.floating || (x.floating != x.floating && y.floating != y.floating);
  case NodeKind::string:
  case NodeKind::symbol: return x.symbol == y.symbol;
  case NodeKind::list: return true; // ()
  }
  return false;
}

CoreTerm Inference::resolve(CoreTerm term) const {
  while (term.kind == CoreTerm::Kind::variable && term.index < joined_.size() &&
         !(joined_[term.index] == term)) {
    const NodeId place = term.place;
    term = joined_[term.index];
    term.place = place;
  }
  return term;
}

/// Makes two terms equal; false where both are constants that differ (or may differ).
bool Inference::join(CoreTerm a, CoreTerm b) {
  a = resolve(a);
  b = resolve(b);
  if (a == b) return true;
  if (a.kind != CoreTerm::Kind::variable && b.kind != CoreTerm::Kind::variable) return same_constant(a, b);
  if (b.kind != CoreTerm::Kind::variable) std::swap(a, b);
  // A constant, a written name or the older variable stays.
  if (a.kind == CoreTerm::Kind::variable) {
    const bool a_named = variables_[a.index].named, b_named = variables_[b.index].named;
    if ((b_named && !a_named) || (a_named == b_named && b.index < a.index)) std::swap(a, b);
  }
  joined_[b.index] = a;
  return true;
}

/// Facts of a relation are equal where their arguments are. True where something was joined.
bool Inference::join_facts() {
  bool changed = false;
  for (size_t i = 0; i < atoms_.size(); ++i) {
    const CoreAtom a = atoms_[i].core;
    if (!atoms_[i].in_query || a.head != CoreAtom::Head::function || !schema_.functions[a.index].relation)
      continue;
    for (size_t j = 0; j < i; ++j) {
      const CoreAtom b = atoms_[j].core;
      if (!atoms_[j].in_query || b.head != a.head || b.index != a.index) continue;
      if (!(resolve(result(static_cast<uint32_t>(i))) == resolve(result(static_cast<uint32_t>(j))))) continue;
      for (uint32_t k = 0; k + 1 < a.count; ++k) {
        const CoreTerm x = terms_[a.first + k], y = terms_[b.first + k];
        if (resolve(x) == resolve(y)) continue;
        if (!join(x, y)) {
          Atom check;
          check.core.head = CoreAtom::Head::equality;
          check.core.place = a.place;
          check.core.first = static_cast<uint32_t>(terms_.size());
          check.core.count = 2;
          check.in_query = true;
          terms_.push_back(x);
          terms_.push_back(y);
          atoms_.push_back(check);
          return false; // never true: what else follows does not matter
        }
        changed = true;
      }
    }
  }
  return changed;
}

/// Of atoms with the same head and arguments one is enough; their results are equal. True where
/// something was joined.
bool Inference::remove_repeated() {
  using Key = std::vector<uint64_t>;
  std::map<Key, CoreTerm> results;
  bool changed = false;
  std::vector<Atom> kept, equal;
  for (const Atom& atom : atoms_) {
    if (!atom.in_query || atom.core.head == CoreAtom::Head::equality) {
      kept.push_back(atom);
      continue;
    }
    const auto terms = args(atom.core);
    Key key{static_cast<uint64_t>(atom.core.head), atom.core.index};
    for (const CoreTerm& t : terms.first(terms.size() - 1)) {
      const CoreTerm r = resolve(t);
      const Node* node = r.kind == CoreTerm::Kind::literal ? &syntax_[r.index] : nullptr;
      key.push_back(static_cast<uint64_t>(r.kind) | (node ? static_cast<uint64_t>(node->kind) << 8 : 0));
      if (node == nullptr)
        key.push_back(r.index);
      else if (node->kind == NodeKind::string)
        key.push_back(node->symbol);
      else if (node->kind == NodeKind::list)
        key.push_back(0);
      else
        key.push_back(static_cast<uint64_t>(node->integer)); // a float by its bits
    }
    const auto [known, fresh] = results.try_emplace(key, terms.back());
    if (fresh) {
      kept.push_back(atom);
      continue;
    }
    changed = true;
    if (!join(known->second, terms.back())) {
      Atom check = atom;
      check.core.head = CoreAtom::Head::equality;
      check.core.first = static_cast<uint32_t>(terms_.size());
      check.core.count = 2;
      const CoreTerm a = known->second, b = terms.back();
      terms_.push_back(a);
      terms_.push_back(b);
      equal.push_back(check);
    }
  }
  atoms_ = std::move(kept);
  atoms_.insert(atoms_.end(), equal.begin(), equal.end());
  return changed;
}

CoreRule Inference::finish(std::vector<CoreAction> actions) {
  for (uint32_t i = 0; i < variables_.size(); ++i)
    joined_.push_back({CoreTerm::Kind::variable, i, variables_[i].place});
  CoreRule rule;
  const auto emit = [&](CoreAtom atom) {
    const auto terms = args(atom);
    atom.first = static_cast<uint32_t>(rule.terms.size());
    for (const CoreTerm& t : terms) rule.terms.push_back(resolve(t));
    return atom;
  };
  // Actions refer to atoms by number, which removal changes: their atoms are taken out first.
  std::vector<CoreAtom> of_actions;
  for (const CoreAction& a : actions)
    of_actions.push_back(a.kind == CoreAction::Kind::panic ? a.atom : atoms_[a.atom.first].core);
  for (const Atom& atom : atoms_) {
    if (!atom.in_query || atom.core.head != CoreAtom::Head::equality) continue;
    const auto terms = args(atom.core);
    join(terms[0], terms[1]);
  }
  while (remove_repeated() || join_facts()) {
  }
  for (const Atom& atom : atoms_) {
    if (!atom.in_query) continue;
    if (atom.core.head == CoreAtom::Head::equality) {
      const auto terms = args(atom.core);
      const CoreTerm a = resolve(terms[0]), b = resolve(terms[1]);
      if (a == b || (a.kind != CoreTerm::Kind::variable && same_constant(a, b))) continue;
    }
    rule.body.push_back(emit(atom.core));
  }
  for (size_t i = 0; i < actions.size(); ++i) {
    if (actions[i].kind != CoreAction::Kind::panic)
      actions[i].atom = emit(of_actions[i]);
    else
      actions[i].atom.first = actions[i].atom.count = 0;
  }
  rule.head = std::move(actions);
  rule.variables = variables_;
  return rule;
}

} // namespace luminal::egraph
