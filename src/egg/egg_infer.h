// egg/egg_infer.h -- the atoms of one rule while it is checked: finds every sort and overload, then
// joins what is equal.
#pragma once
#include "egg/egg_core.h"
#include <optional>
#include <unordered_map>

namespace luminal::egraph {

/// Collects variables and atoms, solves for sorts by fixpoint, checks that variables are grounded,
/// and builds the CoreRule. Errors are thrown at the place of the term concerned.
class Inference {
public:
  Inference(const Schema& schema, Context context)
      : schema_(schema), syntax_(schema.syntax()), context_(context) {}

  CoreTerm new_variable(CoreVariable variable);
  std::optional<uint32_t> find_variable(Symbol name) const; ///< among the named ones

  /// The head of a call: function or primitive of this name. Throws where there is none.
  CoreAtom head(Symbol name, NodeId at) const;
  /// `terms` end with the result. Body atoms are `in_query`. Checks the number of arguments of
  /// functions.
  void add(CoreAtom atom, std::span<const CoreTerm> terms, bool in_query);
  uint32_t atom_count() const { return static_cast<uint32_t>(atoms_.size()); }
  const CoreAtom& atom(uint32_t i) const { return atoms_[i].core; }
  const CoreTerm& result(uint32_t i) const { return terms_[atoms_[i].core.first + atoms_[i].core.count - 1]; }
  void replace_result(uint32_t i, CoreTerm term) {
    terms_[atoms_[i].core.first + atoms_[i].core.count - 1] = term;
  }
  void expect(const CoreTerm& term, SortId sort) { assign(term, sort); }

  void solve();
  void check_grounded() const;
  SortId sort_of(const CoreTerm& term) const;
  CoreRule finish(std::vector<CoreAction> actions);
  CoreTerm resolve(CoreTerm term) const;

private:
  struct Atom {
    CoreAtom core;
    bool in_query = false, done = false;
  };

  std::span<CoreTerm> args(const CoreAtom& atom) { return std::span(terms_).subspan(atom.first, atom.count); }
  std::span<const CoreTerm> args(const CoreAtom& atom) const {
    return std::span(terms_).subspan(atom.first, atom.count);
  }
  bool assign(const CoreTerm& term, SortId sort); ///< true where something new is known
  bool step(Atom& atom);
  bool step_primitive(Atom& atom);
  bool fits(const Overload& overload, std::span<const CoreTerm> terms, bool in_query) const;
  bool apply(const Overload& overload, std::span<const CoreTerm> terms, bool& complete);
  [[noreturn]] void fail_primitive(const Atom& atom) const;
  bool same_constant(const CoreTerm& a, const CoreTerm& b) const;
  bool join(CoreTerm a, CoreTerm b);
  bool remove_repeated();
  bool join_facts();
  std::string show(const CoreTerm& term) const;

  const Schema& schema_;
  Syntax& syntax_;
  Context context_;
  std::vector<CoreVariable> variables_;
  std::vector<CoreTerm> terms_;
  std::vector<CoreTerm> joined_; ///< by variable: what it is equal to, itself where nothing is known
  std::vector<Atom> atoms_;
  std::unordered_map<Symbol, uint32_t> named_;
  uint32_t query_atoms_ = 0;
  static constexpr uint32_t max_query_atoms = 1000; ///< nested calls count: planning more would take long
};

} // namespace luminal::egraph
