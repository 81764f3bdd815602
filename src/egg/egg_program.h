// egg/egg_program.h -- rule programs (.egg): the language of s-expressions over the e-graph engine.
// docs/egraph.md tells the language.
#pragma once
#include "egg/egg_values.h"
#include "egraph/egraph.h"
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace luminal::egraph {

/// What a command of a program tells: the text as `luminal egg` prints it.
struct EggOutput {
  std::string command; ///< its head: "extract", "print-size", ...
  std::string place;   ///< file:line:column
  std::string text;    ///< ends with a newline
  double cost = 0;     ///< of extract: the cost of the first term
};

struct EggOptions {
  /// Limits of each iteration. At a limit the run ends with an Error that names it, and the e-graph
  /// stays valid.
  Limits limits = {};
  int threads = 1;
  /// Rules whose :exact, :reassoc or :approx lies beyond this are left out.
  NumericClass numeric = NumericClass::approximate;
  uint64_t iterations = 0; ///< most iterations of the whole program, 0: no limit
  double seconds = 0;      ///< of the whole program, 0: no limit
  std::function<void(const EggOutput&)> output = {};
  std::function<void(const std::string&)> warning = {};
  bool files = true; ///< include, input and output may touch files
};

/// A sort of the host: values are numbers that the host interns, equal values having equal numbers.
struct HostSort {
  std::string name;
  std::function<std::string(Value)> print = {}; ///< as a term of the language, such as `(axes "k")`
  std::function<std::optional<Value>(std::string_view)> parse = {};
  /// Given where values hold class ids: SortSpec::rebuild.
  std::function<Value(Value, const Finder&)> rebuild = {};
};

/// A partial function for facts and actions. Sorts are given by name; "*" stands for any sort, the
/// same wherever it stands.
struct HostPrimitive {
  std::string name;
  std::vector<std::string> inputs;
  std::string output;
  std::function<bool(std::span<const Value>, Value& out)> call; ///< false: not defined, so a fact fails
  bool variadic = false;    ///< any number of arguments of the sort inputs[0]
  bool reads = false;       ///< looks into the e-graph: not pure, so only at top level and in :naive rules
  bool thread_safe = false; ///< see PrimitiveSpec
};

/// A function for actions that makes terms or unites classes. False ends the run with an Error.
struct HostAction {
  std::string name;
  std::vector<std::string> inputs;
  std::string output;
  std::function<bool(EGraph&, std::span<const Value>, Value& out)> call;
};

/// A value and its sort.
struct EggValue {
  SortId sort = 0;
  Value value = 0;
};

struct EggExtracted {
  std::string text;
  double cost = 0;
};

/// Counts over all runs of a program.
struct EggTotals {
  uint64_t iterations = 0, matches = 0, new_rows = 0, unions = 0, steps = 0;
  double search_seconds = 0, apply_seconds = 0, rebuild_seconds = 0;
};

/// A program: its declarations, its e-graph, and the commands that run on it. Mistakes in a text
/// throw Error with file:line:column, the line and an underline; what ran before the mistake stays.
/// Not thread safe.
class EggProgram {
public:
  explicit EggProgram(EggOptions options = {});
  ~EggProgram();
  EggProgram(EggProgram&&) noexcept;
  EggProgram& operator=(EggProgram&&) noexcept;

  // ---- the host's part, before texts that use it
  SortId add_sort(HostSort sort);
  void add_primitive(HostPrimitive primitive);
  void add_action(HostAction action);
  void define(std::string_view global, EggValue value); ///< a global that texts can use; by custom `$name`

  // ---- running
  void run(std::string text, std::string file = "<text>");
  void run_file(const std::string& path);
  /// One iteration after the other of this ruleset until nothing changes or `most` iterations are
  /// done; the number done.
  uint64_t saturate(std::string_view ruleset, uint64_t most);

  // ---- asking
  EggValue evaluate(std::string expression); ///< makes the term where it is absent
  bool holds(std::string facts);             ///< as in check
  EggExtracted extract(EggValue value);      ///< the cheapest term; Error where there is none
  std::string print(EggValue value); ///< of a built-in, host or container sort; of a class its extracted term
  SortId sort(std::string_view name) const; ///< Error where there is none
  OpId op(std::string_view function) const;
  RulesetId ruleset(std::string_view name) const; ///< "" is the one of rules without :ruleset
  std::string_view sort_name(SortId sort) const;

  /// The last global of a sort of classes; Error where there is none.
  EggValue last_class() const;

  EGraph& graph();
  const EGraph& graph() const;
  ValuePool& values();
  Value string(std::string_view text);
  std::string_view string_of(Value value) const;
  Value integer(int64_t value) { return values().integer(value); }

  const EggTotals& totals() const;
  /// Per rule, sorted by time: steps, matches, new rows, unions, time.
  std::string stats_table() const;
  std::string stats_json() const;
  /// "((Add 3)\n (Num 2))\n": rows of every function that is not hidden, by name.
  std::string sizes() const;
  uint64_t bytes() const;

  struct Impl;
  Impl& impl() { return *impl_; }

private:
  std::unique_ptr<Impl> impl_;
};

/// The text parsed and printed again: one paragraph a command, comments gone. Running it does the
/// same.
std::string format_egg(std::string text, std::string file = "<text>");

} // namespace luminal::egraph
