// luminal/pattern.h -- search and replace on terms: rules as text or built in C++, found, refused
// or applied. docs/passes.md has the grammar and examples.
//
//   type T: float
//   shape s
//   rule double_negation(%x: T[..s]) { %a = neg %x  %y = neg %a  return %y } => { return %x }
#pragma once
#include "luminal/dtype.h"
#include "luminal/pass.h"
#include <initializer_list>
#include <map>
#include <optional>

namespace luminal {

struct RuleData; // shared by copies of Rules

/// A dimension as found: its text (a number, or an expression over dynamic dimensions) and the
/// values it can have.
struct Extent {
  std::string text;
  int64_t low = 0, high = 0;
};

/// A place where the left side of a rule was found.
struct Match {
  /// What a name of the left side, parameters included, stands for.
  struct Value {
    std::string name; ///< in the module: %h, %7
    std::string text; ///< its line: "add %a, %b"
    DType dtype = DType::f32;
    std::vector<Extent> shape;
    std::optional<double> number; ///< where it is one number everywhere
  };
  std::string rule, function;
  Value root;                                             ///< what the rule replaces
  std::map<std::string, Value> values;                    ///< by the name on the left side, without %
  std::map<std::string, Extent> symbols;                  ///< by the name of a shape variable
  const Value& operator[](const std::string& name) const; ///< throws Error where the rule has no such name
};

/// A place where the left side was found and nothing was replaced, and why.
struct Refusal {
  std::string rule, function, root, reason;
};

struct RewriteReport {
  std::map<std::string, int64_t> applied; ///< times, by rule
  std::vector<Refusal> refused;
  int64_t total() const;
  std::string to_string() const;
};

/// A rule in C++: lines of the text form whose operands are values made before. What is made before
/// `find` is the left side, what follows is the right one.
///
///   RuleBuilder rule("softsign_twice");
///   auto x = rule.parameter("T[..s]");
///   auto y = rule.op("abs", {rule.op("abs", {x})});
///   rule.find(y).replace(rule.op("abs", {x}));
class RuleBuilder {
public:
  struct Value {
    int id = -1;
  };
  explicit RuleBuilder(std::string name, Numerics numerics = Numerics::exact);
  RuleBuilder& commutative(); ///< operands of commutative operations match in either order
  RuleBuilder& shared();      ///< inner values may be used elsewhere: they stay for those
  RuleBuilder& type(std::string name, std::string types = "any");
  RuleBuilder& shape(std::string name);
  RuleBuilder& symbol(std::string name, std::string range = "0..inf");
  RuleBuilder& where(std::string condition);
  /// "T[..s]", "const f32"; the name is what Match calls it.
  Value parameter(std::string type, std::string name = "");
  Value op(std::string_view op, std::initializer_list<Value> operands, std::string name = "");
  /// A line of the text form with {} for each operand: line("view {} [i: n, j: m] -> [j, i]", {x}).
  Value line(std::string_view text, std::initializer_list<Value> operands = {}, std::string name = "");
  RuleBuilder& find(Value root);
  RuleBuilder& replace(Value with);
  /// Throws Error where find or replace is missing.
  std::string text() const;

private:
  Value define(std::string text, std::string name);
  std::string name_, words_, declarations_, parameters_, conditions_, left_, right_;
  std::vector<std::string> names_;
  bool found_ = false, replaced_ = false;
};

/// An immutable list of rules; cheap to copy.
class Rules {
public:
  /// Throws Error "file:line:column: ..." for a mistake in the text, also where a replacement would
  /// change a dtype or a shape.
  static Rules parse(std::string text, std::string file = "<rules>");
  static Rules build(const RuleBuilder& rule) { return parse(rule.text(), "<rule>"); }
  std::vector<std::string> names() const;
  /// The text that it was read from.
  const std::string& to_string() const;
  /// The same rules, one of them only where the predicate holds, too. Throws Error where there is
  /// no such rule.
  Rules when(const std::string& rule, std::function<bool(const Match&)> predicate) const;

  /// Where the left sides stand, in the order of functions, nodes and rules; what would be refused
  /// is left out, and appended to `refused` if given.
  std::vector<Match> find(const Module& module, std::vector<Refusal>* refused = nullptr) const;
  /// Replaces at every place that is not refused; places that overlap wait for the next run (see
  /// looped). Rules beyond `allowed` rest. The module is verified afterwards; Error names the
  /// mistake. A report is added to at each run.
  Pass pass(std::string name = "rules", Numerics allowed = Numerics::range,
            std::shared_ptr<RewriteReport> report = nullptr) const;
  /// Tries every rule on random small instances: both sides in the interpreter, bit for bit where
  /// the rule says `exact`, else as formulas. Counterexamples as text; also a rule of which no
  /// instance could be made.
  std::vector<std::string> test(int instances = 40, uint64_t seed = 1) const;

private:
  explicit Rules(std::shared_ptr<const RuleData> data) : data_(std::move(data)) {}
  std::shared_ptr<const RuleData> data_;
};

} // namespace luminal
