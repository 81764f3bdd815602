// cone/formula.h -- making, walking and rewriting formulas.
#pragma once
#include "cone/cone.h"
#include <functional>
#include <map>
#include <type_traits>
#include <unordered_map>

namespace luminal::kernel {

FormulaRef formula_constant(DType dtype, double value);
/// The integer or condition `value` as a number of type `dtype`.
FormulaRef formula_index(Expr value, DType dtype);
FormulaRef formula_load(ValueId value, DType dtype, std::vector<Expr> index, Expr guard = 1);
/// The same with `guard` on every load, to be used only where it holds.
FormulaRef guarded(const FormulaRef& formula, Expr guard);
/// Typed by the op table; InternalError where the argument types do not fit.
FormulaRef formula_op(Op op, std::vector<FormulaRef> args);
FormulaRef formula_user_op(const std::string& name, DType dtype, std::vector<FormulaRef> args);
FormulaRef formula_cast(DType to, FormulaRef x); ///< x itself where the type is `to`
FormulaRef formula_bitcast(DType to, FormulaRef x);
FormulaRef formula_component(int component, DType dtype);
/// x, an f32, or 0 where it is subnormal: a factor of a sum (ir/ops.h).
FormulaRef zero_where_subnormal(const FormulaRef& x);
/// The program with the leaves replaced.
FormulaRef formula_of(const Scalar& program, const std::vector<FormulaRef>& leaves, DType dtype);

bool is_constant(const FormulaRef& formula, double value);

/// Each node once, arguments before users.
void visit(const FormulaRef& formula, const std::function<void(const Formula&)>& see);

/// Rebuilds a formula bottom-up, each shared node once: `change` gets a node whose arguments are
/// already rewritten and returns it or its replacement.
class FormulaRewriter {
public:
  using Change = std::function<FormulaRef(const FormulaRef&)>;
  explicit FormulaRewriter(Change change) : change_(std::move(change)) {}
  FormulaRef operator()(const FormulaRef& formula);

private:
  Change change_;
  std::map<const Formula*, std::pair<FormulaRef, FormulaRef>> done_; // keeps the key alive
};

/// Formulas of one structure become one node, so that what is made of it is computed once.
class SharedFormulas {
public:
  FormulaRef operator()(const FormulaRef& formula);

private:
  FormulaRef known(const FormulaRef& formula);
  std::unordered_map<uint64_t, std::vector<FormulaRef>> nodes_; // by a hash of what stands in them
};

/// Every index expression (and `at`) through `change`.
FormulaRewriter index_rewriter(std::function<Expr(Expr)> change);
FormulaRef substitute(const FormulaRef& formula, const ExprMap<Expr>& replacements);
/// Structural equality, origins excluded.
bool equal(const FormulaRef& a, const FormulaRef& b);

/// Applies `change` to every formula of a stage (bodies and inits).
void rewrite_stage(Stage& stage, const std::function<FormulaRef(const FormulaRef&)>& change);
void visit_stage(const Stage& stage, const std::function<void(const Formula&)>& see);

/// Calls see(load) or see(load, type) for each load of a formula or a stage, in the order of visit.
template <class See> void visit_load(const Formula& formula, See& see) {
  const FormulaLoad* load = load_of(formula);
  if (!load) return;
  if constexpr (std::is_invocable_v<See&, const FormulaLoad&>)
    see(*load);
  else
    see(*load, formula.dtype);
}
template <class See> void visit_loads(const FormulaRef& formula, See&& see) {
  visit(formula, [&](const Formula& f) { visit_load(f, see); });
}
template <class See> void visit_loads(const Stage& stage, See&& see) {
  visit_stage(stage, [&](const Formula& f) { visit_load(f, see); });
}

/// Renames axis symbols in everything that a stage holds.
void substitute_stage(Stage& stage, const ExprMap<Expr>& replacements);

/// The holes that an expression, a formula or a stage needs, through other holes too: inner ones first.
std::vector<HoleId> holes_of(const Cone& cone, std::span<const Expr> exprs);
std::vector<HoleId> holes_of(const Cone& cone, const Stage& stage);
/// Does one of the expressions vary with the symbol, itself or through holes?
bool varies_with(const Cone& cone, std::span<const Expr> exprs, Expr symbol);
/// All index expressions of a formula.
std::vector<Expr> index_exprs(const FormulaRef& formula);
std::vector<Expr> index_exprs(const Stage& stage);

} // namespace luminal::kernel
