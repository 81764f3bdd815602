// rules/fold_domain.cpp -- domains of folds from the choices between their bodies and the identity.
#include "rules/fold_domain.h"
#include "base/contains.h"
#include "expr/share.h"
#include "rules/form_edits.h"
#include "rules/monoids.h"
#include <algorithm>

namespace luminal::rules {
namespace {

using egraph::RowView;

/// A condition that lets more points through makes a kernel no faster than the choice in its body.
constexpr double most_share = 0.8;

/// select(condition, value, a number): the condition is of positions.
struct Mask {
  uint32_t iota = 0;
  ClassId value = 0;
  Number other;
};

bool is_choice(const RegionTerms& terms, const RowView& row) {
  if (terms.row_of(row.op)) return *terms.row_of(row.op) == Op::select;
  if (row.op != terms.ops().op) return false;
  const auto* map = std::get_if<MapAttr>(&terms.payloads[row.args()[0]].attr);
  return map && map->user_op.empty() && map->op == Op::select;
}

/// Its row with this operation, of which all have one meaning.
std::optional<uint32_t> payload_of(RegionTerms& terms, ClassId c, egraph::OpId op) {
  for (const RowView& row : terms.graph().class_rows(terms.graph().find(c)))
    if (row.op == op) return row.args()[0];
  return {};
}

std::optional<Mask> mask_of(RegionTerms& terms, const RowView& row) {
  if (!is_choice(terms, row)) return {};
  std::vector<ClassId> xs;
  for_each_operand(terms, row, [&](ClassId x) { xs.push_back(x); });
  const auto iota = payload_of(terms, xs[0], terms.ops().index),
             other = payload_of(terms, xs[2], terms.ops().number);
  if (!iota || !other) return {};
  return Mask{*iota, xs[1], terms.numbers[*other]};
}

double share_of_points(const RegionTerms& terms, Expr condition, const std::function<double(Expr)>& extent) {
  std::vector<std::pair<Expr, double>> points;
  terms.axes.read_by(condition).for_each([&](AxisId a) {
    points.emplace_back(terms.axes.symbol(a), std::max(1.0, extent(terms.axes.extent(a))));
  });
  return share_of(condition, points);
}

} // namespace

double points_along(Expr extent) {
  constexpr double unknown = 512;
  const Interval range = extent.range();
  return range.high == unbounded_high ? unknown : std::max<double>(1, double(range.high));
}

FoldDomain domain_of(RegionTerms& terms, const Monoid& monoid, const std::vector<ClassId>& bodies,
                     const std::function<RowView(ClassId)>& chosen, bool of_class,
                     const std::function<double(Expr)>& extent) {
  std::vector<std::vector<uint32_t>> conditions(bodies.size()); // that hide a body
  std::vector<std::optional<Mask>> taken(bodies.size());        // the row of a body that is chosen
  for (size_t k = 0; k < bodies.size(); ++k) {
    const Number least = identity(monoid, int(k));
    if (chosen) taken[k] = mask_of(terms, chosen(bodies[k]));
    if (taken[k] && !(taken[k]->other == least)) taken[k].reset();
    if (taken[k]) conditions[k].push_back(taken[k]->iota);
    if (of_class)
      for (const RowView& row : terms.graph().class_rows(terms.graph().find(bodies[k])))
        if (const auto mask = mask_of(terms, row); mask && mask->other == least)
          conditions[k].push_back(mask->iota);
  }
  FoldDomain out{{}, 1, bodies};
  bool of_chosen = false;
  for (size_t k = 0; k < bodies.size() && !of_chosen; ++k)
    for (const uint32_t condition : conditions[k]) {
      std::vector<bool> hidden(bodies.size());
      for (size_t j = 0; j < bodies.size(); ++j) hidden[j] = contains(conditions[j], condition);
      bool all = true;
      for (size_t j = 0; j < bodies.size(); ++j) all = all && (hidden[j] || vanishes(monoid, int(j), hidden));
      if (!all) continue;
      const double share = share_of_points(terms, terms.iotas[condition].value, extent);
      of_chosen = taken[k] && taken[k]->iota == condition;
      if (!of_chosen && share > std::min(most_share, out.share)) continue;
      out.condition = condition;
      out.share = share;
      if (of_chosen) break;
    }
  if (!out.condition) return out;
  for (size_t k = 0; k < bodies.size(); ++k)
    if (taken[k] && taken[k]->iota == *out.condition) out.bodies[k] = taken[k]->value;
  return out;
}

} // namespace luminal::rules
