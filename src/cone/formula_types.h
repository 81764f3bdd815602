// cone/formula_types.h -- a formula: one element as a function of the axes.
#pragma once
#include "base/id.h"
#include "base/overloaded.h"
#include "expr/expr.h"
#include "ir/dtype.h"
#include "ir/ops.h"
#include <bit>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace luminal::kernel {

// Of a cone: its axes, values, stages and holes.
using AxisId = Id<struct AxisTag>;
using ValueId = Id<struct ValueTag>;
using StageId = Id<struct StageTag>;
using HoleId = Id<struct HoleTag>;

struct Formula;
using FormulaRef = std::shared_ptr<const Formula>;

struct FormulaConstant {
  double value;
  /// Of the same bits.
  bool operator==(const FormulaConstant& other) const {
    return std::bit_cast<uint64_t>(value) == std::bit_cast<uint64_t>(other.value);
  }
};
/// Of another type than the value's: the bytes from that element on (bitcast views of raw blocks).
struct FormulaLoad {
  ValueId value;           // number of the cone value
  std::vector<Expr> index; // one for each of its dimensions
  Expr guard = 1;          // 0 where this does not hold, and the index may lie anywhere there
  bool operator==(const FormulaLoad&) const = default;
};
/// The integer (or condition) as a value.
struct FormulaIndex {
  Expr value;
  bool operator==(const FormulaIndex&) const = default;
};
/// A row of the op table.
struct FormulaOp {
  Op op;
  std::vector<FormulaRef> args;
  bool operator==(const FormulaOp&) const = default;
};
struct FormulaCast {
  FormulaRef x;
  bool operator==(const FormulaCast&) const = default;
};
/// Of the same width.
struct FormulaBitcast {
  FormulaRef x;
  bool operator==(const FormulaBitcast&) const = default;
};
/// Result of an earlier component of the same stage: in an `after` component the finished fold.
struct FormulaComponent {
  int number;
  bool operator==(const FormulaComponent&) const = default;
};
/// A registered row.
struct FormulaUserOp {
  std::string name;
  std::vector<FormulaRef> args;
  bool operator==(const FormulaUserOp&) const = default;
};

struct Formula {
  DType dtype = DType::f32;
  // Equal kinds have the same nodes as arguments. (Hashes of cones hold the number of the kind.)
  std::variant<FormulaConstant, FormulaLoad, FormulaIndex, FormulaOp, FormulaCast, FormulaBitcast,
               FormulaComponent, FormulaUserOp>
      kind;
  // Where an inlined map of the graph begins: the node's name, and the element that is read. Facts
  // for `materialize`.
  std::string origin;
  std::vector<Expr> at;
  template <class Kind> bool is() const { return std::holds_alternative<Kind>(kind); }
  /// Null where it is a formula of another kind.
  template <class Kind> const Kind* as() const { return std::get_if<Kind>(&kind); }
};
/// Calls the case for the formula's kind.
template <class... Cases> decltype(auto) visit(const Formula& formula, Cases&&... cases) {
  return std::visit(Overloaded{std::forward<Cases>(cases)...}, formula.kind);
}
/// The formulas that it is made of.
std::span<const FormulaRef> args_of(const Formula& formula);
/// The formula with each of its arguments changed.
FormulaRef with_args(const Formula& formula, const std::function<FormulaRef(const FormulaRef&)>& change);
/// Where it loads, or the integer that it is; none for other kinds.
std::span<const Expr> index_of(const Formula& formula);
/// Of a load; 1 for other kinds.
Expr guard_of(const Formula& formula);
/// The formula with its index, its guard and `at` changed; its arguments stay.
Formula with_exprs(Formula formula, const std::function<Expr(Expr)>& change);
/// Null where it is not a load.
inline const FormulaLoad* load_of(const Formula& formula) { return formula.as<FormulaLoad>(); }
/// Is it the row of the op table, and no other?
inline bool applies(const Formula& formula, Op op) {
  const auto* row = formula.as<FormulaOp>();
  return row && row->op == op;
}
/// Is it a row of the op table or a registered one?
inline bool is_operation(const Formula& formula) {
  return formula.is<FormulaOp>() || formula.is<FormulaUserOp>();
}

} // namespace luminal::kernel
