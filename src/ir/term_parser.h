// ir/term_parser.h -- the text form of a module, read back; docs/terms.md has the grammar. Every
// mistake is an Error with file, line and column.
#pragma once
#include "base/hash.h"
#include "base/text_reader.h"
#include "expr/parse_expr.h"
#include "ir/infer.h"
#include "ir/rule_text.h"
#include "ir/text_names.h"
#include <set>

namespace luminal {

/// One pass over the text; nodes are made, typed and checked as they are read.
class TermParser {
public:
  TermParser(std::string_view text, std::string_view file) : reader_(text, std::string(file)) {}

  Module run();

  // ---- rules: both sides are read into one function ----
  RuleFile rule_file(std::string text, std::string file);
  RuleInstance rule(const RuleHead& head, const TypeChoice& choice);

private:
  using Inputs = std::vector<NodeId>;

  void rule_head(RuleFile& out, const RuleHead& declared);
  void rule_types(RuleHead& declared);
  NodeId rule_side();
  /// "..s": the number of axes that it stands for, none where there is no such token.
  std::optional<std::pair<std::string, int>> pack();

  // ---- the module ----
  void symbol();
  void assumption();
  Interval range();
  std::string word_or_string(std::string_view what);

  // ---- a function ----
  void function();
  void parameter();
  void results();
  void define(const Token& name, NodeId id);
  NodeId use();
  NodeId add(const Token& at, Attr attr, Inputs inputs, std::vector<std::string> names = {});

  // ---- types, lists, expressions ----
  DType dtype();
  TensorType type();
  std::vector<TensorType> types();
  std::vector<Expr> list(const SymbolScope& scope);
  Inputs inputs_in_parentheses();

  /// The axes of one node: names, extents, and what its expressions may read.
  struct Axes {
    std::vector<std::string> names;
    Shape space;
    SymbolScope scope;
    std::vector<std::string> holes; // their names
    bool named = false;
    std::vector<std::string> kept() const { return named ? names : std::vector<std::string>(); }
  };
  Axes axes();
  int axis(const Axes& axes);
  std::vector<int> axis_list(const Axes& axes);
  /// "with h0 = %ids[t] in 0..511 clamp, ...": the operands are appended to the inputs.
  std::vector<Hole> holes(Axes& axes, Inputs& inputs);
  std::vector<Expr> arrow_map(const Axes& axes);
  Expr where(const Axes& axes) { return reader_.accept("where") ? parse_expr(reader_, axes.scope) : Expr(1); }
  /// The condition of a fold. Gives the outer axes that it names and no longer varies with: they
  /// count for the types of the results, which do not depend on what is proved.
  std::set<int> domain(const Axes& axes, FoldAttr& attr);
  /// The value along more axes.
  NodeId repeated(const Token& at, NodeId body, std::vector<int>& axes, const std::set<int>& more,
                  const Shape& space);
  /// "{ max %s[q, k]; sum(self * exp2(old0 - new0)) %v[k, e] }"
  Monoid components(const Axes& axes, Inputs& inputs, std::vector<std::vector<int>>& body_axes);

  // ---- nodes ----
  void node();

  NodeId operation();
  NodeId fence(const Token& at);
  std::string device();
  NodeId map(const Token& at);
  NodeId constant(const Token& at);
  NodeId iota(const Token& at);
  NodeId random(const Token& at);
  template <class A> NodeId cast(const Token& at);
  NodeId view(const Token& at);
  NodeId scatter(const Token& at);
  NodeId fold(const Token& at);
  NodeId scan(const Token& at);
  int small_integer();
  NodeId sort(const Token& at);
  NodeId collective(const Token& at);
  std::string function_name() { return std::string(reader_.expect_global_name("a function @name")); }
  NodeId call(const Token& at);
  NodeId loop(const Token& at);
  NodeId cond(const Token& at);
  NodeId host(const Token& at);
  NodeId custom(const Token& at);
  NodeId get(const Token& at);

  TextReader reader_;
  Module module_;
  SymbolScope scope_;
  FunctionBuilder* builder_ = nullptr;
  const TypeChoice* choice_ = nullptr; // of a rule that is being read
  std::map<std::string, NodeId, std::less<>> nodes_;
};

} // namespace luminal
