// rules/quotients.cpp -- which reciprocals may overflow, and their scales.
#include "rules/quotients.h"
#include "base/check.h"
#include "rules/facts.h"
#include "rules/number_constant.h"
#include <bit>

namespace luminal::rules {

using egraph::RowView;

std::optional<ClassId> Quotients::divisor(ClassId c) const {
  const RowView r = row_(c);
  const bool is_quotient = r.op == t_.ops().rows[size_t(Op::div)];
  if ((!is_quotient && r.op != t_.ops().rows[size_t(Op::recip)]) || is_written_(c)) return {};
  const ClassId operand = t_.graph().find(r.args()[is_quotient ? 1 : 0]);
  if (row_(operand).op == t_.ops().extent || divides_safely(info_of(t_, operand))) return {};
  return operand;
}

std::optional<ClassId> Quotients::dividend(ClassId c) const {
  const RowView r = row_(c);
  if (r.op != t_.ops().rows[size_t(Op::div)]) return {};
  return t_.graph().find(r.args()[0]);
}

bool Quotients::divides(ClassId c) {
  if (const auto known = divides_.find(c); known != divides_.end()) return known->second;
  const bool divides = divisor(c) || (!is_written_(c) && (factors(row_(c)) || arms(row_(c))));
  divides_[c] = divides;
  return divides;
}

bool Quotients::has_dividend(ClassId c) {
  if (!divides(c)) return true;
  if (divisor(c)) return dividend(c) && has_dividend(*dividend(c));
  if (const auto both = factors(row_(c))) return has_dividend(both->first) || has_dividend(both->second);
  const Arms of = *arms(row_(c));
  return has_dividend(of.yes) && has_dividend(of.no);
}

std::optional<std::pair<ClassId, ClassId>> Quotients::factors(const RowView& row) {
  if (row.op != t_.ops().rows[size_t(Op::mul)]) return {};
  const ClassId a = t_.graph().find(row.args()[0]), b = t_.graph().find(row.args()[1]);
  if (divides(b) && (!divides(a) || has_dividend(a))) return std::pair(a, b);
  if (divides(a)) return std::pair(b, a);
  return {};
}

std::optional<Quotients::Arms> Quotients::arms(const RowView& row) {
  if (row.op != t_.ops().rows[size_t(Op::select)]) return {};
  const auto find = [&](size_t k) { return t_.graph().find(row.args()[k]); };
  const Arms out{find(0), find(1), find(2)};
  if (!divides(out.yes) && !divides(out.no)) return {};
  return out;
}

bool Quotients::is_zero(ClassId c) const {
  const RowView r = row_(c);
  return r.op == t_.ops().number && value_of(t_.numbers[r.args()[0]]) == 0;
}

ScaledReciprocal scaled_reciprocal(Fragment& out, NodeId divisor) {
  const TensorType type = out[divisor].type(); // `out` grows
  LUMINAL_CHECK(has_wide_exponents(type.dtype), "divisors of {} have no common scale", to_string(type.dtype));
  const auto everywhere = [&](double value) {
    const Number n{type.dtype, std::bit_cast<uint64_t>(value)};
    const NodeId one = out.put({NodeKind::constant, constant_of(n), {}, {{type.dtype, {}}}, {}, {}, {}});
    if (type.shape.empty()) return one;
    ViewAttr view;
    view.shape = type.shape;
    return out.put({NodeKind::view, std::move(view), {one}, {type}, {}, {}, {}});
  };
  const auto map = [&](Op op, std::vector<NodeId> inputs, DType made) {
    return out.put({NodeKind::map, MapAttr{op, {}}, std::move(inputs), {{made, type.shape}}, {}, {}, {}});
  };
  const double large = type.dtype == DType::f64 ? 0x1p512 : 0x1p64;
  const NodeId magnitude = map(Op::abs, {divisor}, type.dtype);
  const NodeId is_small = map(Op::lt, {magnitude, everywhere(1 / large)}, DType::boolean);
  const NodeId scale = map(Op::select, {is_small, everywhere(large), everywhere(1)}, type.dtype);
  const NodeId scaled = map(Op::mul, {divisor, scale}, type.dtype);
  return {scale, map(Op::recip, {scaled}, type.dtype)};
}

} // namespace luminal::rules
