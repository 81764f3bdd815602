// choose/choose_apart.cpp -- maps whose reads lie far apart along their results, so that no loop has lanes on
// contiguous data.
#include "base/contains.h"
#include "choose/default_scheduler.h"
#include "cone/formula.h"
#include <algorithm>

namespace luminal::kernel {

/// The loop for lanes of a map or scan that computes functions where no loop is contiguous: vectors of them
/// save more than it costs to gather operands from elements that lie apart.
std::optional<std::string> DefaultScheduler::lanes_apart(StageId s, const std::vector<std::string>& common) {
  const Stage& st = stage(s);
  if (has_fold(st) || (!st.scan_axis && !st.ordered.empty())) return {};
  bool slow = false;
  visit_stage(st, [&](const Formula& f) { slow |= transcendental(f); });
  if (st.scan_axis && st.monoid) // sums of exponentials: each element waits for that of the one before it
    for (const MonoidComponent& c : st.monoid->components())
      for (const ScalarNode& node : c.transform.nodes())
        slow |= node.kind == ScalarNode::Kind::op && is_transcendental(node.op);
  if (!slow) return {};
  const StageLoop* best = nullptr;
  int best_score = 0;
  for (const StageLoop& l : nest(s).loops) {
    if (!l.symbol.is_symbol() || trips(l) < limits_.lanes || contains(common, l.name) || takes_turns(s, l) ||
        (st.scan_axis && loop_reduces(s, l)))
      continue;
    const AxisUse use = use_along(nests_, s, l.symbol);
    if (use.irregular > 0 || (best && use.score() <= best_score)) continue;
    best = &l;
    best_score = use.score();
  }
  if (!best || !ask(s, "lanes_apart", 1, {0, 1})) return {};
  return best->name;
}

/// The longest loop along which no index from memory moves; empty: none.
std::string DefaultScheduler::rows_of_index(StageId s, const std::vector<std::string>& common) const {
  std::string row;
  for (const StageLoop& l : nest(s).loops) {
    if (!l.symbol.is_symbol() || !l.extent.is_constant() || trips(l) < 2 || contains(common, l.name))
      continue;
    const AxisUse use = use_along(nests_, s, l.symbol);
    if (use.irregular == 0 && use.strided > 0 && (row.empty() || trips(l) > trips(*nest(s).find(row))))
      row = l.name;
  }
  return row;
}

/// A loop with as many of the trips as divide them, at most `most`: the loop itself, or the inner part of it;
/// empty where that is one.
std::string DefaultScheduler::few_rows(StageId s, const std::string& row, int64_t most) {
  const int64_t all = trips(*nest(s).find(row));
  int64_t rows = std::min(all, most);
  for (int64_t r = rows; r > rows / 2; r--)
    if (all % r == 0) {
      rows = r;
      break;
    }
  if (rows < 2) return {};
  return all == rows ? row : split(s, row, rows).second;
}

/// Updates in their order at indices from memory, of several rows that share the indices: an index is read
/// and held to its range once for some rows, and no update waits for the one before it.
void DefaultScheduler::updates_in_rows(StageId s, const std::vector<std::string>& common, Tile& tile) {
  constexpr int64_t most_rows = 8;
  const Stage& st = stage(s);
  const auto updates = [](const Component& c) { return c.kind == ComponentKind::update; };
  if (!std::ranges::all_of(st.components, updates) || !tile.unrolled.empty()) return;
  const std::string row = rows_of_index(s, common);
  if (row.empty() || takes_turns(s, *nest(s).find(row))) return;
  const bool indices = std::ranges::any_of(nest(s).loops, [&](const StageLoop& l) {
    return l.symbol.is_symbol() && l.name != row && takes_turns(s, l) &&
           use_along(nests_, s, l.symbol).irregular > 0;
  });
  if (!indices || !ask(s, "updates_in_rows", 1, {0, 1})) return;
  if (const std::string few = few_rows(s, row, most_rows); !few.empty()) tile.unrolled.push_back(few);
}

/// The loop for lanes of a map, or of a sum of few elements, that reads elements by indices from memory or by
/// quotients of its axes (the windows of adaptive pooling): its arithmetic is done for many elements at once,
/// and rows that share their indices are read one after the other.
std::optional<std::string> DefaultScheduler::gathered_lanes(StageId s, const std::vector<std::string>& common,
                                                            Tile& tile) {
  constexpr int fewest_lanes = 8; // narrower machines have no gathers
  constexpr int64_t most_rows = 8;
  const Stage& st = stage(s);
  if (st.monoid || st.scan_axis || !st.ordered.empty() || limits_.lanes < fewest_lanes ||
      !st.domain.is_constant(1))
    return {};
  // Plain copies of narrow elements are as fast one by one.
  bool narrow = false;
  visit_loads(st, [&](const FormulaLoad&, DType dtype) { narrow |= bits(dtype) < 32; });
  bool computes = has_fold(st) || !narrow;
  visit_stage(st, [&](const Formula& f) { computes |= is_operation(f) || bits(f.dtype) == 16; });
  std::optional<std::string> lanes;
  for (const StageLoop& l : nest(s).loops) {
    if (!l.symbol.is_symbol() || trips(l) < limits_.lanes || contains(common, l.name)) continue;
    if (has_fold(st) && loop_reduces(s, l)) continue;
    const AxisUse use = use_along(nests_, s, l.symbol);
    const int computed = narrow ? 0 : use.computed;
    if (use.store_contiguous && use.irregular > 0 && use.irregular == use.gathers + computed &&
        use.strided == 0)
      lanes = l.name;
  }
  if (!lanes) return {};
  // (Along the lanes themselves the loads are irregular.)
  const std::string row = has_fold(st) ? std::string() : rows_of_index(s, common);
  if (!computes && row.empty()) return {};
  if (!ask(s, "gathered_lanes", 1, {0, 1})) return {};
  if (const std::string few = row.empty() ? std::string() : few_rows(s, row, most_rows); !few.empty())
    tile.unrolled.push_back(few);
  return lanes;
}

/// Of a fold that reads by indices from memory, which vary with what it reduces, a kept axis along which
/// all elements lie at even distances: gathers for all lanes take less than chains of single elements.
/// Empty: none.
std::string DefaultScheduler::strided_lanes(StageId s) const {
  constexpr int fewest_lanes = 8; // narrower machines have no gathers
  constexpr int64_t fewest_points = 8;
  const Stage& st = stage(s);
  if (!has_fold(st) || st.monoid || st.scan_axis || !st.ordered.empty() || limits_.lanes < fewest_lanes ||
      !st.domain.is_constant(1))
    return {};
  bool wide = true, moves = false;
  visit_loads(st, [&](const FormulaLoad&, DType dtype) { wide &= bits(dtype) >= 32; });
  int64_t points = 1, most = 0;
  std::string lanes;
  for (const StageLoop& l : nest(s).loops) {
    if (!l.symbol.is_symbol()) continue;
    const AxisUse use = use_along(nests_, s, l.symbol);
    if (use.contiguous + use.near > 0 && use.irregular == 0) return {};
    if (loop_reduces(s, l)) {
      points = std::min(points * trips(l), int64_t{1} << 40);
      moves |= use.irregular > 0;
    } else if (use.irregular == 0 && use.strided > 0 && l.extent.is_constant() && trips(l) >= limits_.lanes &&
               trips(l) > most) {
      most = trips(l), lanes = l.name;
    }
  }
  return wide && moves && points >= fewest_points ? lanes : std::string();
}

/// Does a map read, with the last axis of its stage, what a fold of the cone has made without another axis
/// of it?
bool DefaultScheduler::computed_again(StageId s, const Formula& f) const {
  const Stage& st = stage(s);
  if (has_fold(st) || st.scan_axis || !st.ordered.empty() || st.axes.size() < 2) return false;
  bool of_fold = false;
  visit(std::make_shared<const Formula>(f), [&](const Formula& part) {
    const auto* load = part.as<FormulaLoad>();
    of_fold |= load && nests_.writer(load->value) && has_fold(stage(nests_.writer(load->value)));
  });
  const auto exprs = index_exprs(std::make_shared<const Formula>(f));
  const auto moves = [&](AxisId a) { return varies(exprs, axis_at(a).symbol); };
  return of_fold && moves(st.axes.back()) && std::ranges::any_of(st.axes, [&](AxisId a) {
           return axis_at(a).symbol.is_symbol() && !moves(a) && trips(*nest(s).find(axis_at(a).name)) >= 4;
         });
}

/// Reads that lie apart along the writes, where nothing is long enough for squares: all in the lines
/// that one vector of results reads is used before these leave the first cache.
bool DefaultScheduler::lines_at_once(StageId s, const std::vector<std::string>& common) {
  constexpr int64_t line = 64; // bytes
  const Stage& st = stage(s);
  if (!common.empty() || has_fold(st) || st.scan_axis || !st.ordered.empty()) return false;
  std::string written;
  for (const StageLoop& l : nest(s).loops)
    if (l.symbol.is_symbol() && trips(l) >= limits_.lanes) {
      const AxisUse use = use_along(nests_, s, l.symbol);
      if (use.store_contiguous && use.irregular == 0) written = l.name;
    }
  if (written.empty()) return false;
  // Along which loops does something that the writes read in large steps stay in its lines?
  const Expr along = nest(s).find(written)->symbol;
  std::vector<std::string> outer, near;
  int64_t together = 1;
  for (const StageLoop& l : nest(s).loops) {
    if (l.name == written) continue;
    bool stays = false;
    visit_loads(st, [&](const FormulaLoad& f, DType dtype) {
      const Expr offset = layout_offset(value_at(f.value), over_loops(nest(s), f.index));
      const auto large = coefficient_of(offset, along), small = coefficient_of(offset, l.symbol);
      const auto bytes = [&](Expr e) { return std::abs(e.value()) * std::max(1, bits(dtype) / 8); };
      stays |= large && small && large->is_constant() && small->is_constant() && bytes(*large) >= line / 2 &&
               bytes(*small) > 0 && bytes(*small) < line;
    });
    stays = stays && l.symbol.is_symbol() && l.extent.is_constant() && together * trips(l) <= line;
    if (stays) together *= trips(l);
    (stays ? near : outer).push_back(l.name);
  }
  if (near.empty() || outer.empty() || !ask(s, "lines_at_once", 1, {0, 1})) return false;
  const auto [blocks, block] = split(s, written, limits_.lanes);
  std::vector<std::string> order{st.name};
  order.insert(order.end(), outer.begin(), outer.end());
  order.push_back(blocks);
  order.insert(order.end(), near.begin(), near.end());
  order.push_back(block);
  add(DirectiveKind::order, order);
  add(DirectiveKind::jam, {stage(s).name, block}, {limits_.lanes});
  outer.push_back(blocks);
  const auto deals = [&](const std::string& l) { return trips(*nest(s).find(l)) >= 2 * limits_.threads; };
  const auto shared = std::ranges::find_if(outer, deals);
  add(DirectiveKind::parallel, {stage(s).name, shared == outer.end() ? outer[0] : *shared});
  return true;
}

} // namespace luminal::kernel
