// egraph/types.h -- names of the e-graph engine: ids, sorts, operators, primitives and the hooks a
// host program supplies.
#pragma once
#include "base/hash.h"
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace luminal::egraph {

class Classes;
class EGraph;

/// One cell of a row. In a column of an eq-sort: a class id. In a column of a value sort: the
/// host's number of an interned value. In a column of a container sort: the host's number of an
/// interned container. 0 in a column of the unit sort.
using Value = uint32_t;
using ClassId = Value;
using RowId = uint32_t; ///< position in its table; rows are only appended, so it is also the order in time
using SortId = uint32_t;
using OpId = uint32_t;
using PrimId = uint32_t;
using RuleId = uint32_t;
using RulesetId = uint32_t;

/// Marks a dead row and "no value"; no host may use it for a value.
inline constexpr uint32_t absent = 0xFFFFFFFFu;

enum class SortKind : uint8_t {
  unit,      ///< the one value 0: the output of relations
  eq,        ///< class ids, made by constructors and joined by unions
  value,     ///< opaque values interned by the host: equal values have equal numbers
  container, ///< like `value`, but holds class ids: rebuilt after unions
};

/// The leader of a class, as a callable for hosts that rebuild containers.
class Finder {
public:
  explicit Finder(Classes& classes) : classes_(&classes) {}
  ClassId operator()(ClassId id) const;

private:
  Classes* classes_;
};

struct SortSpec {
  std::string name;
  SortKind kind = SortKind::eq;
  /// Containers: the number of the container in which every class id inside `value` (at any depth)
  /// is replaced by its leader; `value` itself where nothing changes. Must be deterministic and may
  /// intern.
  std::function<Value(Value value, const Finder& find)> rebuild = {};
  /// Text of a value and back, for snapshots and reports. Without them values are printed as
  /// numbers and snapshots keep the numbers.
  std::function<std::string(Value)> print = {};
  std::function<std::optional<Value>(std::string_view)> parse = {};
  /// Containers: one hash from those of the parts, which `of` gives, for EGraph::structural_hash.
  /// Without it the text or the number counts.
  std::function<Hash128(Value value, const std::function<Hash128(SortId, Value)>& of)> hash = {};
};

/// A primitive of the host: a partial function of values. Pure: equal arguments give equal results
/// whenever it is called.
struct PrimitiveSpec {
  std::string name;
  std::vector<SortId> args; ///< for reports only; empty where the host does not say
  SortId out = 0;
  /// False where the function is not defined on the arguments: as a premise the match fails, as an
  /// action the run panics or the match is dropped (Action::on_fail).
  std::function<bool(std::span<const Value> args, Value& out)> call;
  /// It may be called by several threads at once, and its results do not depend on the order of
  /// calls (it interns nothing). Rules whose premises use another primitive are matched by one
  /// thread.
  bool thread_safe = false;
};

/// What happens when a key gets a second output.
enum class MergeKind : uint8_t {
  assert_equal, ///< a different output is an error of the program (:no-merge)
  unite,        ///< both outputs are classes and become one: constructors
  keep_old,
  keep_new,
  program, ///< an expression over `old` and `new` (:merge e)
  lattice, ///< a host function: idempotent, commutative, associative
};

/// One node of a merge expression, in post order: its `count` arguments are the results of the
/// nodes that `args` names.
struct MergeNode {
  enum class Kind : uint8_t {
    old_value,
    new_value,
    constant,  ///< `id` is the value
    primitive, ///< `id` is a PrimId; failing is an error of the program
    op, ///< `id` is an OpId: constructors are created, functions looked up (absent: an error of the program)
  };
  Kind kind = Kind::old_value;
  uint32_t id = 0;
  std::vector<uint32_t> args = {}; ///< indices of earlier nodes
};

/// An operator: constructor, function or relation. It owns one table, whose columns are `args` and
/// then `out`.
struct OpSpec {
  std::string name;
  std::vector<SortId> args;
  SortId out = 0; ///< eq-sort for constructors, the unit sort for relations
  /// a missing row is created with a fresh class when the term is built in an action
  bool constructor = false;
  MergeKind merge = MergeKind::assert_equal; ///< constructors: `unite`; relations: any
  std::vector<MergeNode> merge_program = {}; ///< MergeKind::program: the last node is the result
  std::function<Value(Value old_value, Value new_value)> join = {}; ///< MergeKind::lattice
  int64_t cost = 1;                                                 ///< of one row, for extraction
  bool unextractable = false;
  bool hidden = false; ///< left out of printed sizes
  /// holds a global name of the program: its row keeps a term alive, it is not a term
  bool let_global = false;
  bool subsumable = true;
};

} // namespace luminal::egraph
