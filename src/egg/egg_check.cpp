// egg/egg_check.cpp -- from the tree of a rule to flat atoms: names, sorts, overloads,
// groundedness, equalities.
#include "base/check.h"
#include "egg/egg_core.h"
#include "egg/egg_infer.h"
#include "luminal/error.h"
#include <algorithm>
#include <fmt/format.h>
#include <unordered_map>

namespace luminal::egraph {
namespace {

class Checker {
public:
  Checker(const Schema& schema, Context context)
      : schema_(schema), syntax_(schema.syntax()), context_(context), infer_(schema, context) {}

  void bind(std::span<const Binding> bindings) {
    for (const Binding& b : bindings) {
      CoreTerm term = infer_.new_variable({b.name, 0, b.sort, true});
      bound_.push_back(term.index);
    }
  }

  static CoreAtom equality(NodeId place) {
    CoreAtom atom;
    atom.head = CoreAtom::Head::equality;
    atom.place = place;
    return atom;
  }

  // ---- queries

  void facts(std::span<const NodeId> list) {
    for (const NodeId fact : list) {
      if (syntax_.children(fact).empty() || !syntax_.is_symbol(syntax_.children(fact)[0]))
        syntax_.fail(fact, "expected a fact: (= a b), or a call of a function or primitive");
      if (syntax_.head(fact) == "=") {
        const auto items = syntax_.children(fact);
        if (items.size() != 3) syntax_.fail(fact, "usage: (= <expression> <expression>)");
        const CoreTerm a = query_term(items[1]), b = query_term(items[2]);
        equate(a, b, fact);
      } else {
        query_term(fact);
      }
    }
  }

  CoreTerm query_term(NodeId id) {
    if (!syntax_.is_list(id)) return leaf(id, true);
    return call(id, [this](NodeId child) { return query_term(child); });
  }

  void equate(CoreTerm a, CoreTerm b, NodeId place) { infer_.add(equality(place), std::array{a, b}, true); }

  /// A fresh variable for the class a rewrite's left side matches.
  CoreTerm rewrite_root(NodeId lhs) {
    const CoreTerm root = query_term(lhs);
    if (!syntax_.is_list(lhs)) equate(root, root, lhs); // a bare variable is not grounded by itself
    return root;
  }

  // ---- actions

  void actions(std::span<const NodeId> list) {
    in_actions_ = true;
    for (const NodeId a : list) action(a);
  }

  void action(NodeId id) {
    in_actions_ = true;
    const auto items = syntax_.children(id);
    const std::string_view head = syntax_.head(id);
    if (head.empty())
      syntax_.fail(id, "expected an action: let, set, union, delete, subsume, panic or a call");
    if (head == "let") {
      if (items.size() != 3 || !syntax_.is_symbol(items[1]))
        syntax_.fail(id, "usage: (let <name> <expression>)");
      const CoreTerm value = action_term(items[2]);
      bind_let(items[1], value);
    } else if (head == "set") {
      if (items.size() != 3) syntax_.fail(id, "usage: (set (<function> <expression>*) <expression>)");
      write(CoreAction::Kind::insert, id, items[1], items[2]);
    } else if (head == "delete" || head == "subsume") {
      if (items.size() != 2) syntax_.fail(id, fmt::format("usage: ({} (<function> <expression>*))", head));
      write(head == "delete" ? CoreAction::Kind::remove : CoreAction::Kind::subsume, id, items[1], 0);
    } else if (head == "union") {
      if (items.size() != 3) syntax_.fail(id, "usage: (union <expression> <expression>)");
      unite(id, items[1], items[2]);
    } else if (head == "panic") {
      if (items.size() != 2 || syntax_[items[1]].kind != NodeKind::string)
        syntax_.fail(id, "usage: (panic \"<message>\")");
      CoreAction a;
      a.kind = CoreAction::Kind::panic;
      a.message = syntax_[items[1]].symbol;
      a.atom.place = id;
      actions_.push_back(a);
    } else {
      action_term(id);
    }
  }

  CoreTerm action_term(NodeId id) {
    in_actions_ = true;
    if (!syntax_.is_list(id)) return leaf(id, false);
    const CoreTerm out = call(id, [this](NodeId child) { return action_term(child); });
    if (out.kind != CoreTerm::Kind::literal) push_call();
    return out;
  }

  void unite(NodeId place, NodeId a, NodeId b) {
    // Of a variable and a constructor's call, the row is made with the variable as its value.
    for (const auto& [value, made] : {std::pair(a, b), std::pair(b, a)}) {
      const FunctionInfo* f = function_of(made);
      if (f == nullptr || f->kind != FunctionKind::constructor || syntax_.is_list(value)) continue;
      const CoreTerm term = leaf(value, false);
      if (term.kind != CoreTerm::Kind::variable) continue;
      unite_with(place, term, made);
      return;
    }
    const CoreTerm left = action_term(a), right = action_term(b);
    unite_terms(place, left, right);
  }

  /// `root` and the value of `expression` become equal.
  void unite_with(NodeId place, CoreTerm root, NodeId expression) {
    in_actions_ = true;
    const FunctionInfo* f = function_of(expression);
    if (f == nullptr || f->kind != FunctionKind::constructor) {
      const CoreTerm other = action_term(expression);
      unite_terms(place, root, other);
      return;
    }
    // The row is made with the known class as its value.
    call(expression, [this](NodeId child) { return action_term(child); });
    const uint32_t atom = infer_.atom_count() - 1;
    infer_.replace_result(atom, root);
    unions_.push_back({place, atom});
    push(CoreAction::Kind::insert, atom);
  }

  void subsume_call(NodeId lhs) { write(CoreAction::Kind::subsume, lhs, lhs, 0); }

  // ---- results

  CoreRule finish() {
    infer_.solve();
    for (const Union& u : unions_) check_union(u);
    if (context_ == Context::rule) check_lookups();
    infer_.check_grounded();
    return infer_.finish(actions_);
  }

  SortId sort_of(const CoreTerm& term) const { return infer_.sort_of(term); }
  void expect(const CoreTerm& term, SortId sort) { infer_.expect(term, sort); }
  CoreTerm resolve(const CoreTerm& term) const { return infer_.resolve(term); }

private:
  struct Union {
    NodeId place;
    uint32_t atom;
  };

  const FunctionInfo* function_of(NodeId id) const {
    const auto items = syntax_.children(id);
    if (items.empty() || !syntax_.is_symbol(items[0])) return nullptr;
    const NameEntry entry = schema_.find(syntax_[items[0]].symbol);
    return entry.kind == NameKind::function ? &schema_.functions[entry.index] : nullptr;
  }

  /// A literal, a global or a variable.
  CoreTerm leaf(NodeId id, bool in_query) {
    const Node node = syntax_[id];
    if (node.kind == NodeKind::list) LUMINAL_CHECK(false, "a list is not a leaf");
    if (node.kind != NodeKind::symbol) return {CoreTerm::Kind::literal, id, id};
    const std::string_view name = syntax_.text(node.symbol);
    if (name.starts_with(':'))
      syntax_.fail(id, fmt::format("expected an expression, found the option '{}'", name));
    const NameEntry entry = schema_.find(node.symbol);
    if (entry.kind == NameKind::global) return {CoreTerm::Kind::global, entry.index, id};
    if (name == "_") return wildcard(id);
    if (const auto alias = aliases_.find(node.symbol); alias != aliases_.end())
      return with_place(alias->second, id);
    if (const auto known = infer_.find_variable(node.symbol)) return {CoreTerm::Kind::variable, *known, id};
    if (!in_query) {
      if (entry.kind == NameKind::function)
        syntax_.fail(id, fmt::format("'{}' is a function; a call of it is written ({} ...)", name, name));
      syntax_.fail(id, fmt::format("'{}' is not bound here", name));
    }
    check_shadowing(id, node.symbol);
    return with_place(infer_.new_variable({node.symbol, id, no_sort, true}), id);
  }

  static CoreTerm with_place(CoreTerm term, NodeId place) {
    term.place = place;
    return term;
  }

  void check_shadowing(NodeId id, Symbol symbol) const {
    const std::string_view name = syntax_.text(symbol);
    const NameEntry taken = schema_.find(symbol);
    const bool builtin = taken.kind == NameKind::sort && is_builtin(schema_.sorts[taken.index].type);
    if (taken.kind != NameKind::none && !builtin)
      syntax_.fail(id, fmt::format("the variable '{}' shadows a name that is declared", name));
    if (name.starts_with('@'))
      syntax_.fail(id, fmt::format("'{}': names that start with '@' are reserved", name));
    const std::string twin = name.starts_with('$') ? std::string(name.substr(1)) : "$" + std::string(name);
    if (schema_.find(syntax_.symbols().intern(twin)).kind == NameKind::global)
      syntax_.fail(id, fmt::format("the variable '{}' could be taken for the global '{}'", name, twin));
  }

  /// `_`: another variable for each place; the same for the same place, which a subsuming rewrite
  /// reads twice.
  CoreTerm wildcard(NodeId id) {
    if (const auto known = wildcards_.find(id); known != wildcards_.end())
      return {CoreTerm::Kind::variable, known->second, id};
    if (in_actions_) syntax_.fail(id, "'_' matches anything; it has no value that an action could use");
    const CoreTerm term = infer_.new_variable({syntax_[id].symbol, id, no_sort, false});
    wildcards_.emplace(id, term.index);
    return with_place(term, id);
  }

  /// The atom of a call; its children first. The value's variable.
  template <class Child> CoreTerm call(NodeId id, Child child) {
    const auto items = syntax_.children(id);
    if (items.empty()) return {CoreTerm::Kind::literal, id, id}; // ()
    if (!syntax_.is_symbol(items[0])) syntax_.fail(items[0], "expected the name of a function or primitive");
    const Symbol name = syntax_[items[0]].symbol;
    CoreAtom atom = infer_.head(name, items[0]);
    atom.place = id;
    std::vector<CoreTerm> terms;
    terms.reserve(items.size());
    for (size_t i = 1; i < items.size(); ++i) terms.push_back(child(syntax_.children(id)[i]));
    const CoreTerm out = with_place(infer_.new_variable({name, id, no_sort, false}), id);
    terms.push_back(out);
    infer_.add(atom, terms, !in_actions_);
    return out;
  }

  void push_call() {
    // What a call made last: its own atom follows those of its children.
    push(CoreAction::Kind::call, infer_.atom_count() - 1);
  }

  void push(CoreAction::Kind kind, uint32_t atom) {
    CoreAction a;
    a.kind = kind;
    a.atom.first = atom; // the number of the atom until finish()
    a.atom.place = infer_.atom(atom).place;
    actions_.push_back(a);
  }

  void bind_let(NodeId name_node, CoreTerm value) {
    const Symbol name = syntax_[name_node].symbol;
    const bool taken = infer_.find_variable(name).has_value() || aliases_.contains(name);
    if (taken) syntax_.fail(name_node, fmt::format("'{}' is bound already", syntax_.text(name)));
    check_shadowing(name_node, name);
    aliases_.emplace(name, value);
  }

  void write(CoreAction::Kind kind, NodeId place, NodeId target, NodeId value) {
    const FunctionInfo* f = function_of(target);
    const auto items = syntax_.children(target);
    if (f == nullptr) {
      if (items.empty() || !syntax_.is_symbol(items[0]))
        syntax_.fail(target, "expected a call of a function: (<function> <expression>*)");
      const Symbol name = syntax_[items[0]].symbol;
      if (schema_.primitive(name) != nullptr)
        syntax_.fail(items[0], fmt::format("'{}' is a primitive; only rows of functions can be written",
                                           syntax_.text(name)));
      syntax_.fail(items[0],
                   fmt::format("there is no function '{}'{}", syntax_.text(name), schema_.suggestion(name)));
    }
    const std::string_view name = syntax_.text(f->name);
    if (kind == CoreAction::Kind::insert && f->kind == FunctionKind::constructor)
      syntax_.fail(target,
                   f->relation
                       ? fmt::format("'{0}' is a relation: write ({0} ...) without set", name)
                       : fmt::format("'{}' is a constructor: use union, or declare it as a function", name));
    if (kind == CoreAction::Kind::subsume && f->kind == FunctionKind::custom)
      syntax_.fail(target,
                   fmt::format("'{}' is a function with a merge; only constructors and relations can be "
                               "subsumed",
                               name));
    CoreAtom atom = infer_.head(f->name, items[0]);
    atom.place = place;
    std::vector<CoreTerm> terms;
    for (size_t i = 1; i < items.size(); ++i) terms.push_back(action_term(syntax_.children(target)[i]));
    if (kind == CoreAction::Kind::insert)
      terms.push_back(action_term(value));
    else
      terms.push_back(with_place(infer_.new_variable({f->name, target, no_sort, false}), target));
    infer_.add(atom, terms, false);
    push(kind, infer_.atom_count() - 1);
  }

  void unite_terms(NodeId place, CoreTerm a, CoreTerm b) {
    infer_.add(equality(place), std::array{a, b}, false);
    unions_.push_back({place, infer_.atom_count() - 1});
    push(CoreAction::Kind::unite, infer_.atom_count() - 1);
  }

  void check_union(const Union& u) const {
    const SortId sort = infer_.sort_of(infer_.result(u.atom));
    if (schema_.sorts[sort].type == SortType::fact)
      syntax_.fail(u.place, "facts of relations cannot be united");
    if (schema_.sorts[sort].type != SortType::classes)
      syntax_.fail(u.place,
                   fmt::format("values of the sort {} cannot be united; only classes of a datatype can",
                               schema_.sort_name(sort)));
  }

  /// Actions of a semi-naive rule may not look values up: a later change of the value would go
  /// unseen.
  void check_lookups() const {
    for (const CoreAction& a : actions_) {
      if (a.kind != CoreAction::Kind::call) continue;
      const CoreAtom& atom = infer_.atom(a.atom.first);
      if (atom.head == CoreAtom::Head::function && schema_.functions[atom.index].kind == FunctionKind::custom)
        syntax_.fail(atom.place,
                     fmt::format("the value of the function '{}' is looked up in an action; look it up "
                                 "in the facts, or mark the rule :naive",
                                 syntax_.text(atom.name)));
    }
  }

  const Schema& schema_;
  Syntax& syntax_;
  Context context_;
  Inference infer_;
  bool in_actions_ = false;
  std::vector<uint32_t> bound_;
  std::unordered_map<NodeId, uint32_t> wildcards_;
  std::unordered_map<Symbol, CoreTerm> aliases_; ///< what `let` binds
  std::vector<CoreAction> actions_;
  std::vector<Union> unions_;
};

} // namespace

CoreRule check_rule(const Schema& schema, std::span<const NodeId> facts, std::span<const NodeId> actions,
                    Context context) {
  Checker checker(schema, context);
  checker.facts(facts);
  checker.actions(actions);
  return checker.finish();
}

CoreRule check_rewrite(const Schema& schema, NodeId lhs, NodeId rhs, std::span<const NodeId> conditions,
                       bool subsume, Context context, NodeId place) {
  Checker checker(schema, context);
  const CoreTerm root = checker.rewrite_root(lhs);
  checker.facts(conditions);
  checker.unite_with(place, root, rhs);
  if (subsume) {
    if (!schema.syntax().is_list(lhs))
      schema.syntax().fail(lhs, "a subsuming rewrite needs a call on its left side");
    checker.subsume_call(lhs);
  }
  return checker.finish();
}

CoreRule check_query(const Schema& schema, std::span<const NodeId> facts) {
  Checker checker(schema, Context::top);
  checker.facts(facts);
  return checker.finish();
}

CoreRule check_actions(const Schema& schema, std::span<const NodeId> actions) {
  Checker checker(schema, Context::top);
  checker.actions(actions);
  return checker.finish();
}

CheckedExpression check_expression(const Schema& schema, NodeId expression, std::span<const Binding> bindings,
                                   SortId expected, Context context) {
  Checker checker(schema, context);
  checker.bind(bindings);
  CheckedExpression out;
  const CoreTerm value = checker.action_term(expression);
  if (expected != no_sort) checker.expect(value, expected);
  out.code = checker.finish();
  out.value = checker.resolve(value);
  out.sort = checker.sort_of(value);
  return out;
}

} // namespace luminal::egraph
