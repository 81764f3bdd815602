// schedule/dot_words.h -- private: several narrow numbers in one word, as dot instructions read them.
#pragma once
#include "loop/unit.h"
#include "schedule/nest.h"
#include <set>

namespace luminal::kernel {

/// The unit's k neighbours along `axis` = k * word + 0 .. k - 1 in one u32: what the elements are made of is
/// made for all of them at once. Null where the elements are not contiguous, or an operation on them has no
/// form on words.
FormulaRef in_words(const Cone& cone, const FormulaRef& f, Expr axis, Expr word, const Unit& unit);

/// Elements put together in a word, the first one lowest.
FormulaRef word_of(std::span<const FormulaRef> elements, const Unit& unit);

/// The bits of an element at a place of the axis.
FormulaRef element_at(const FormulaRef& f, const ConeAxis& axis, Expr place, const Unit& unit);

/// The domain of a sum whose steps are words.
struct WordDomain {
  Expr some = 1;                       // holds where an element of the word may take part
  std::vector<std::vector<Expr>> all;  // conditions for each element,
  std::vector<std::vector<Expr>> more; // those that do not follow from `some`
  std::set<AxisId> axes;               // that they depend on, the one of the words left out
};

/// Of the conditions of a domain `axis` = words * k + i: each holds for some element where it holds
/// for the first or for the last one.
WordDomain word_domain(Nests& nests, const Stage& stage, const ConeAxis& axis, Expr words, const Unit& unit);

/// The words with zeros in place of elements outside of the domain.
FormulaRef masked(FormulaRef word, const WordDomain& domain, const Unit& unit);

/// Is the operand a value of known size with the axis as one of its dimensions?
bool is_value_along(const Nests& nests, const FormulaRef& f, const ConeAxis& axis);

/// A copy of an operand in words.
struct WordsCopy {
  std::string name;
  WordsOf of = WordsOf::reads;
  FormulaRef operand;
  FormulaRef word; // where the operand lies in words, one of them; else null
  /// Of tiles: the last dimension, words the first one then. An operand without it has words last.
  std::optional<Expr> columns;
};
/// Makes the copy in a stage of its own, and gives the load of a word of it. What knows all axes of the
/// domain has zeros outside of it; what reads nothing that the kernel makes comes before the loops of a
/// cascade.
FormulaRef insert_words(Nests& nests, StageId stage, const WordsCopy& copy, const ConeAxis& axis,
                        AxisId words_axis, const WordDomain& domain, const Unit& unit);

} // namespace luminal::kernel
