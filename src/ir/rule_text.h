// ir/rule_text.h -- rules of search and replace, as the term parser reads them: one function that
// holds both sides. docs/passes.md has the grammar.
#pragma once
#include "ir/term.h"
#include "luminal/error.h"
#include "luminal/pass.h"
#include <tuple>

namespace luminal {

/// What the type and shape variables of a rule are taken to be: `T` is f32, `..s` has 2 axes.
struct TypeChoice {
  std::map<std::string, DType, std::less<>> types;
  std::map<std::string, int, std::less<>> ranks;
  bool operator<(const TypeChoice& o) const { return std::tie(types, ranks) < std::tie(o.types, o.ranks); }
};

/// A rule for one choice: parameters, nodes of both sides, results `left` and `right`. Dimensions
/// are symbols of `symbols`.
struct RuleInstance {
  Function function;
  IdVector<NodeId, bool> constant; // for each parameter: it must be a constant
  std::vector<Expr> symbols;       // shape variables, axes of `..s` included
  std::vector<Expr> conditions;
  NodeId left, right;
};

/// A rule that has been read, not yet for a choice.
struct RuleHead {
  std::string name;
  Numerics numerics = Numerics::exact;
  bool commutative = false, shared = false;
  uint32_t begin = 0, end = 0;                                  // in the text
  std::map<std::string, std::vector<DType>, std::less<>> types; // variables that it uses
  std::map<std::string, Interval, std::less<>> ranks;
  std::vector<Expr> symbols;
};
struct RuleFile {
  std::string text, name;
  std::vector<RuleHead> rules;
};

/// Declarations and rules; throws Error "file:line:column: ...". Sides are read by instantiate.
RuleFile parse_rule_file(std::string text, std::string file_name);
/// Throws Error with the place where this choice makes no sense, or where the sides differ in type.
RuleInstance instantiate(const RuleFile& file, const RuleHead& head, const TypeChoice& choice);

/// The replacement has another type than what it replaces: wrong whatever the choice.
struct RuleTypeError : Error {
  using Error::Error;
};

} // namespace luminal
