// rules/emit_region.h -- chosen terms become nodes again.
//
// A value gets dimensions as it comes back: the form that its node had, where it had one, so that a
// function that no rule has touched comes back with the nodes it had. Readers that want another form
// have a view in between, and views, positions and numbers are made in the form that is wanted.
// Digits that follow each other in both forms are one index again: the algebra of expressions
// sees to that. Selects of the identity that all bodies of a fold share become its domain.
#pragma once
#include "rules/enter_region.h"
#include "rules/fragment.h"

namespace luminal::rules {

struct RowRef {
  egraph::OpId op = egraph::absent;
  egraph::RowId row = 0;
};
/// What is made: a row for each class, by the class's leader, and what is stored.
struct Choice {
  std::vector<RowRef> rows;
  std::vector<std::vector<ClassId>> kernels = {}; ///< classes that one kernel stores
  /// Whether `kernels` stores all that is stored, but for what has to be, and for `open`.
  bool decided = false;
  std::vector<ClassId> open = {}; ///< stored or not: fusion decides
};

/// The first row of each class: without rules, the function as it came.
Choice first_rows(RegionTerms& terms);

struct EmitOptions {
  /// Values keep dimensions along which they do not vary, where their nodes had them. Without it
  /// they are computed once, at the axes that they vary with.
  bool keep_forms = true;
  /// A fold takes the domain that any term of its bodies shows (rules/fold_domain.h).
  bool domains_of_classes = true;
  /// A reciprocal that rules made is not computed where it may overflow and the quotient does not
  /// (rules/quotients.h). Without it each term is made as it stands.
  bool safe_quotients = true;
};

/// The roots of the region over its leaves.
Fragment emit(RegionTerms& terms, const Entered& entered, const Choice& choice,
              const EmitOptions& options = {});

/// A term of a class and the one that is chosen for it, as values of one form.
struct TermPair {
  ClassId of = 0;
  RowRef row;
  NodeId chosen, other; ///< in the fragment
};

/// Every term of every class, each over what is chosen for its operands: whether all unions hold.
/// Classes and terms for which nothing is chosen are left out.
Fragment emit_all_terms(RegionTerms& terms, const Entered& entered, const Choice& choice,
                        std::vector<TermPair>& pairs);

} // namespace luminal::rules
