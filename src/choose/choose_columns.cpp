// choose/choose_columns.cpp -- products of few columns: columns that are left over are summed in a
// stage of their own, with lanes along the sum.
#include "base/contains.h"
#include "choose/default_scheduler.h"
#include "choose/wanted_panels.h"
#include "cone/formula.h"
#include <algorithm>

namespace luminal::kernel {

/// Of small products in batches, the columns that would leave most of a vector empty are summed
/// with lanes along the sum, from a copy of them that lies along it.
void DefaultScheduler::columns_apart() {
  if (nests_.cone.stages.size() != 1 || factors(first_stage).empty() ||
      !stage(first_stage).domain.is_constant(1))
    return;
  const std::optional<Product> p = product(first_stage, {});
  if (!p || !of_small(*p) || p->outer.empty() || p->depth.size() != 1 || p->rows < 4) return;
  const auto axis_of = [&](const std::string& loop) -> const ConeAxis* {
    for (AxisId a : stage(first_stage).axes)
      if (axis_at(a).symbol == nest(first_stage).find(loop)->symbol) return &axis_at(a);
    return nullptr;
  };
  const ConeAxis *m = axis_of(p->m), *n = axis_of(p->n);
  const int64_t lanes = limits_.lanes, whole = p->columns / lanes * lanes, few = p->columns - whole;
  // Of a row, in halves of vectors: steps, and what adds up the lanes of one sum.
  const int64_t steps = p->deep, across = few * (2 * ((p->deep + lanes - 1) / lanes) + 5);
  if (!m || !n || whole == 0 || few == 0 || p->deep < 2 * lanes || 3 * across > 2 * steps) return;
  for (const Formula* factor : factors(first_stage))
    if (const FormulaLoad* f = load_of(*factor);
        value_at(f->value).role != ValueRole::input ||
        (f->value == p->other && step_of(nests_.cone, f->value, f->index,
                                         nest(first_stage).find(p->depth[0])->symbol) != Step::contiguous))
      return;
  const std::string name = stage(first_stage).name, rows = m->name, columns = n->name;
  if (!decisions_.ask_whether(name + ".columns_apart", true)) return;
  Attempt attempt = begin();
  if (!try_add(DirectiveKind::split_at, {name, columns}, {whole})) return;
  const std::string first = stage(first_stage).name, rest = stage(first_stage + 1).name;
  if (!try_add(DirectiveKind::operand, {rest, rows, nests_.free_name(rest + ".columns")})) {
    undo(std::move(attempt));
    return;
  }
  batched_.insert(first);
  apart_ = {rows, p->depth[0]};
}

/// The sums of columns apart: some rows at once, each in a chain of its own.
bool DefaultScheduler::columns_apart_tile(StageId s, const std::vector<std::string>& common) {
  if (apart_.empty() || common.empty() || s != first_stage + 2) return false;
  const std::string name = stage(s).name;
  std::vector<std::string> columns;
  for (auto& l : nest(s).loops)
    if (l.name != apart_[0] && l.name != apart_[1] && !contains(common, l.name)) columns.push_back(l.name);
  int64_t chains = 8;
  for (auto& c : columns) chains = std::max<int64_t>(1, chains / trips(*nest(s).find(c)));
  const int64_t rows = trips(*nest(s).find(apart_[0])), tiles = (rows + chains - 1) / chains;
  const auto [tile, row] = split(s, apart_[0], (rows + tiles - 1) / tiles);
  const auto [step, lane] = split(s, apart_[1], limits_.lanes);
  std::vector<std::string> order{name}, unrolled{name, row};
  order.insert(order.end(), common.begin(), common.end());
  order.insert(order.end(), {tile, step, row});
  order.insert(order.end(), columns.begin(), columns.end());
  order.push_back(lane);
  unrolled.insert(unrolled.end(), columns.begin(), columns.end());
  add(DirectiveKind::order, order);
  add(DirectiveKind::vector, {name, lane});
  add(DirectiveKind::unroll, unrolled);
  add(DirectiveKind::parallel, {name, common[0]});
  return true;
}

} // namespace luminal::kernel
