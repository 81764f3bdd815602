// egg/egg_state.h -- the inside of EggProgram: what its parts share.
#pragma once
#include "egg/egg_core.h"
#include "egg/egg_program.h"
#include <chrono>
#include <set>

namespace luminal::egraph {

/// A limit was hit: no failure that `fail` would be satisfied with.
class LimitError : public Error {
public:
  using Error::Error;
};

/// The ids of the built-in sorts, in the order of SortType.
struct BuiltinSort {
  static constexpr SortId unit = 0, boolean = 1, i64 = 2, f64 = 3, string = 4;
};

struct RulesetInfo {
  RulesetId id = 0;
  std::vector<uint32_t> parts; ///< of a combined ruleset: the others it runs
  bool combined = false;
  std::set<std::string> rule_names; ///< those given by :name
};

struct EggProgram::Impl {
  explicit Impl(EggOptions options);

  // ---- egg_program.cpp: texts and commands
  void run_text(std::string file, std::string text);
  void run_command(NodeId command);
  void include(NodeId command);
  void fail_command(NodeId command);
  void push(NodeId command);
  void pop(NodeId command);
  std::string find_file(NodeId name) const;

  // ---- egg_declare.cpp
  void declare_sort(NodeId command);
  void declare_container(NodeId name, NodeId form);
  SortId add_classes_sort(NodeId name);
  void declare_datatype(NodeId command);
  void declare_datatypes(NodeId command);
  void declare_variants(std::span<const NodeId> variants, SortId sort);
  void declare_constructor(NodeId command);
  void declare_relation(NodeId command);
  void declare_function(NodeId command);
  uint32_t add_function(NodeId name, FunctionInfo info, OpSpec spec);
  /// With the options that follow it; `internal`: also those that egglog prints for its own
  /// constructors.
  void add_constructor(NodeId name, FunctionInfo info, std::span<const NodeId> rest, bool internal);
  void declare_ruleset(NodeId command);
  void declare_rule(NodeId command);
  void declare_rewrite(NodeId command, bool both);
  void add_input(NodeId command);

  // ---- egg_lower.cpp: checked rules for the engine
  void add_rule(const CoreRule& rule, NodeId command, const struct RuleOptions& options,
                const std::string& suffix);
  /// `use` tells how globals are given: as a premise, so that later unions are seen, or as their
  /// present value.
  enum class Globals : uint8_t { premise, value };
  Query lower_query(const CoreRule& rule, Globals use);
  std::vector<MergeNode> lower_merge(const CheckedExpression& merge);
  Value literal(NodeId node);
  Value constant(const CoreTerm& term);
  OpId global_op(uint32_t global);

  // ---- egg_evaluate.cpp: actions of commands, at once
  void run_actions(const CoreRule& code, std::vector<Value>& values);
  EggValue evaluate(NodeId expression, SortId expected);
  /// The value of an expression whose sorts are known from the leaves up; nothing where it needs
  /// inference.
  std::optional<EggValue> evaluate_plain(NodeId expression);
  void let_global(NodeId command);
  void action(NodeId command);
  Value global_value(uint32_t global);
  [[noreturn]] void fail_run(NodeId at, std::string_view text) const;

  // ---- egg_schedule.cpp
  struct Progress {
    bool changed = false;
  };
  void run_iterations(NodeId command);
  void run_schedule(NodeId command);
  Progress schedule(NodeId form);
  Progress run_once(uint32_t ruleset, const CoreRule* until, NodeId at);
  Progress repeat(uint64_t count, std::span<const NodeId> forms);
  uint32_t ruleset_index(NodeId name) const;
  void collect(uint32_t ruleset, std::vector<RulesetId>& out) const;
  bool holds(const CoreRule& query);

  // ---- egg_query.cpp
  void check(NodeId command);
  void extract_command(NodeId command);
  void explain_command(NodeId command); ///< egg_explain.cpp
  void print_size(NodeId command);
  void print_function(NodeId command);
  void print_stats(NodeId command);
  void output_command(NodeId command);
  void tell(NodeId command, std::string text, double cost = 0);
  std::string all_sizes() const;

  // ---- options of commands
  struct Option {
    std::string_view name;
    NodeId node = 0;
    std::span<const NodeId> values;
  };
  std::vector<Option> options_of(std::span<const NodeId> nodes) const;
  [[noreturn]] void unknown_option(const Option& option, std::string_view known) const;
  NodeId one_value(const Option& option, std::string_view what) const;
  void no_value(const Option& option) const;
  std::string string_value(const Option& option) const;
  uint64_t count(NodeId node, std::string_view what) const;
  Symbol name(NodeId node, std::string_view what) const;
  std::span<const NodeId> list(NodeId node, std::string_view what) const;

  EggOptions options;
  Syntax syntax;
  ValuePool pool;
  EGraph graph;
  Schema schema;
  std::vector<RulesetInfo> rulesets; ///< by index of the schema
  std::vector<OpId> global_ops;      ///< by global: the table that holds it for rules, or absent
  std::vector<HostAction> host_actions;
  EggTotals totals;
  std::vector<std::string> folders; ///< of the files being read, the innermost last
  uint32_t include_depth = 0;
  bool warned_about_globals = false;
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();

  /// What pop brings back, beside the e-graph's own copy.
  struct Saved {
    Schema schema;
    std::vector<RulesetInfo> rulesets;
    std::vector<OpId> global_ops;
  };
  std::vector<Saved> saved;
};

struct RuleOptions {
  uint32_t ruleset = 0;
  std::string name;
  NumericClass numeric = NumericClass::exact;
  uint64_t budget = 0;
  bool naive = false, subsume = false;
  bool lookups = false; ///< its actions may look values of functions up
  std::vector<NodeId> conditions;
};

/// egg_builtins.cpp, egg_containers.cpp, egg_numbers.cpp
void add_builtins(EggProgram::Impl& program);
/// Adds BigInt and BigRat where some text names them.
void add_big_numbers(EggProgram::Impl& program);
void add_container_primitives(EggProgram::Impl& program, SortId sort);
/// A primitive of the engine under a name of the program.
void add_primitive(EggProgram::Impl& program, std::string_view name, Overload overload,
                   std::function<bool(std::span<const Value>, Value&)> call, bool thread_safe);

/// egg_terms.cpp: the cheapest terms of classes, as text.
class TermWriter {
public:
  /// Computes costs of all classes that terms of these sorts can hold.
  TermWriter(EggProgram::Impl& program, std::vector<SortId> sorts);
  ~TermWriter();
  /// Infinite where there is no term.
  double cost(SortId sort, Value value) const;
  /// Throws Error where there is none, or where the text would be longer than text_limit.
  std::string text(SortId sort, Value value);
  /// Up to `count` terms of a class with different rows at the root, cheapest first.
  std::vector<EggExtracted> variants(SortId sort, Value value, size_t count);
  static constexpr size_t text_limit = size_t(1) << 28;

private:
  Value stand_in(SortId sort, Value value) const;
  struct Inside;
  std::unique_ptr<Inside> in_;
};

} // namespace luminal::egraph
