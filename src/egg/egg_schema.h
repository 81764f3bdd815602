// egg/egg_schema.h -- what the names of a rule program mean: sorts, functions, primitives with
// overloads, globals.
#pragma once
#include "egg/egg_syntax.h"
#include "egraph/types.h"
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace luminal::egraph {

constexpr SortId no_sort = 0xffffffff; ///< not known (yet)
/// in a signature: one sort of the caller's choice, the same wherever it stands
constexpr SortId any_sort = 0xfffffffe;

/// What a sort holds. The first seven sorts of a program are the built-in ones in this order, so
/// that their ids are known.
enum class SortType : uint8_t {
  unit,
  boolean,
  i64,
  f64,
  string,
  big_int,
  big_rational,
  classes, ///< equivalence classes: what datatypes and `(sort X)` declare
  vec,
  set,
  map,
  pair,
  multiset,
  fact, ///< results of one relation: no expression but a call of it has this sort
  host  ///< interned values of the host program
};

/// Is the sort there without a declaration?
inline bool is_builtin(SortType type) {
  switch (type) {
  case SortType::unit:
  case SortType::boolean:
  case SortType::i64:
  case SortType::f64:
  case SortType::string:
  case SortType::big_int:
  case SortType::big_rational: return true;
  default: return false;
  }
}

struct Sort {
  Symbol name = 0;
  SortType type = SortType::classes;
  bool holds_classes = false;     ///< classes, or containers of them: its values change when classes join
  std::vector<SortId> parts = {}; ///< of containers: element; key and value; first and second
  Symbol leaders = 0; ///< of :internal-uf: a constructor whose rows lead from a value to what stands for it
};

enum class FunctionKind : uint8_t { constructor, custom };

struct FunctionInfo {
  Symbol name = 0;
  FunctionKind kind = FunctionKind::constructor;
  /// its output is a sort of its own (the unit in the engine); made like a constructor's row
  bool relation = false;
  bool unextractable = false; ///< never part of an extracted term
  bool hidden = false;        ///< not listed by print-size
  std::vector<SortId> inputs;
  SortId output = no_sort;
  int64_t cost = 1;
  bool has_merge = false; ///< of custom: false is :no-merge
  OpId op = 0;            ///< in the engine
  Span place;
};

/// One signature of a primitive.
struct Overload {
  std::vector<SortId> inputs; ///< variadic: one element, the sort of all arguments
  SortId output = no_sort;
  bool variadic = false;
  bool reads = false;  ///< looks into tables: only at top level and in :naive rules
  bool writes = false; ///< makes terms: `id` is the number of a host action; only in actions
  uint32_t id = 0;     ///< PrimId in the engine
};

struct Global {
  Symbol name = 0;
  SortId sort = no_sort;
  Value value = 0;
};

enum class NameKind : uint8_t { none, sort, function, ruleset, global };
struct NameEntry {
  NameKind kind = NameKind::none;
  uint32_t index = 0;
};

/// The names declared so far. Sorts, functions, rulesets and globals share one name space, which
/// variables may not shadow; primitives have their own, and a function may not take the name of
/// one.
class Schema {
public:
  explicit Schema(Syntax& syntax) : syntax_(&syntax) {}

  std::vector<Sort> sorts;
  std::vector<FunctionInfo> functions;
  std::vector<Global> globals;

  NameEntry find(Symbol name) const { return name < names_.size() ? names_[name] : NameEntry(); }
  /// Throws Error at `at` where the name is taken.
  void declare(Symbol name, NameKind kind, uint32_t index, NodeId at);

  /// The sort of this name; throws Error that names the nearest known one.
  SortId sort(NodeId name) const;
  SortId add_sort(Sort sort, NodeId at);
  std::string_view sort_name(SortId id) const;
  SortId find_sort(std::string_view name) const; ///< no_sort where there is none

  const std::vector<Overload>* primitive(Symbol name) const {
    return name < primitive_of_.size() && primitive_of_[name] != 0 ? &primitives_[primitive_of_[name] - 1]
                                                                   : nullptr;
  }
  void add_primitive(std::string_view name, Overload overload);
  std::string signature(const Overload& overload) const; ///< "(i64 i64) -> i64"
  std::string signature(const FunctionInfo& function) const;

  /// Names of functions and primitives near to `name`, as ", did you mean 'x'?"; empty where none
  /// is near.
  std::string suggestion(Symbol name) const;
  /// Sorts of arguments, separated by spaces.
  std::string sort_names(const std::vector<SortId>& sorts) const;

  Syntax& syntax() const { return *syntax_; }

private:
  Syntax* syntax_;
  std::vector<NameEntry> names_; ///< by symbol
  std::vector<uint32_t> primitive_of_;
  std::vector<std::vector<Overload>> primitives_;
};

} // namespace luminal::egraph
