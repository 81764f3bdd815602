// choose/choose_order.cpp -- the usual loops of one stage: lanes and register tile are chosen, loops put in
// order, short ones written out, one of them shared out among the workers.
#include "base/contains.h"
#include "choose/default_scheduler.h"
#include "cone/formula.h"
#include <algorithm>
#include <ranges>

namespace luminal::kernel {

/// Lanes and register tile. False where the stage has a form of its own, which is complete.
bool DefaultScheduler::choose_lanes(StageId s, const std::vector<std::string>& common, StageLoops& l) {
  Attempt whole = begin();
  split_blocks(s, common);
  const bool cut = schedule_.directives.size() > whole.directives;
  if (blocks_in_lanes(s, common)) return false;
  Attempt merged = begin();
  const size_t loops = nest(s).loops.size();
  merge_neighbours(s, common);
  if (!common.empty() && nest(s).loops.size() == loops) undo(std::move(merged));
  l.lanes = vector_loop(s, common);
  if (!l.lanes && (deinterleaved(s, common) || few_rows_transposed(s, common) || transposed(s, common) ||
                   uneven_blocks(s, common)))
    return false;
  if (!l.lanes) l.lanes = lanes_apart(s, common);
  if (!l.lanes && lines_at_once(s, common)) return false;
  if (!l.lanes) l.lanes = gathered_lanes(s, common, l.tile);
  if (const std::string apart = l.lanes ? std::string() : strided_lanes(s);
      !apart.empty() && !contains(common, apart) && ask(s, "strided_lanes", 1, {0, 1}))
    l.lanes = apart;
  if (!l.lanes && cut) { // blocks too short for lanes: lanes across them
    const Schedule of_blocks = schedule_;
    Nests blocks = nests_;
    undo(std::move(whole));
    l.lanes = gathered_lanes(s, common, l.tile);
    if (!l.lanes) {
      schedule_ = of_blocks;
      nests_ = std::move(blocks);
    }
  }
  if (l.lanes) {
    const StageLoop* along = nest(s).find(*l.lanes);
    // A long run of memory is distributed in pieces of some kilobytes.
    if (!l.folds && nest(s).loops.size() == 1 && trips(*along) > 4096)
      l.lanes = split(s, *l.lanes, ask(s, "piece", 64, {16, 256, 1024}) * limits_.lanes).second;
    l.vectors = l.tile.unrolled.empty() ? vectors_at_once(s, *l.lanes, common) : 1;
    l.lanes = split_lanes(s, *l.lanes, l.vectors);
    if (l.folds && l.vectors == 1) l.tile = choose_tile(s, *l.lanes, common);
  } else if (stage(s).scan_axis) {
    scan_rows(s, common, l.tile);
  } else {
    updates_in_rows(s, common, l.tile);
  }
  return true;
}

/// Does the stage keep the order of its trips?
bool DefaultScheduler::takes_turns(StageId s, const StageLoop& loop) const {
  return std::ranges::any_of(stage(s).ordered,
                             [&](AxisId a) { return depends_on_loop(nest(s), axis_at(a).symbol, loop); });
}

/// The loops that are neither common nor of the tile, kept ones and reduced ones, from the outside in.
void DefaultScheduler::sort_loops(StageId s, const std::vector<std::string>& common, StageLoops& l) {
  const Tile& tile = l.tile;
  for (auto& loop : nest(s).loops) {
    if ((l.lanes && loop.name == *l.lanes) || contains(tile.unrolled, loop.name) ||
        contains(common, loop.name))
      continue;
    (l.folds && loop_reduces(s, loop) ? l.reduced : l.kept).push_back(loop.name);
  }
  if (!tile.outer.empty()) {
    std::vector<std::string> next;
    for (auto& k : l.kept)
      if (k != tile.blocks && k != tile.outer && k != tile.inner) next.push_back(k);
    for (auto& k : {tile.blocks, tile.outer, tile.inner})
      if (contains(l.kept, k)) next.push_back(k);
    l.kept = std::move(next);
  }
  // Several workers share what is outside of the loops that take turns. So do rows of which some are updated
  // together: each lies far from the others.
  const bool updates_rows = !l.lanes && !l.folds && !tile.unrolled.empty();
  if ((limits_.threads > 1 || updates_rows) && !l.kept.empty() && takes_turns(s, *nest(s).find(l.kept[0]))) {
    const auto shared = std::ranges::find_if(l.kept, [&](const std::string& k) {
      const StageLoop& loop = *nest(s).find(k);
      return loop.symbol.is_symbol() && !takes_turns(s, loop) && trips(loop) >= limits_.threads;
    });
    if (shared != l.kept.end()) std::rotate(l.kept.begin(), shared, shared + 1);
  }
  if (!tile.far.empty()) to_and_fro(s, tile, l.kept, l.reduced);
}

/// Common loops, kept loops, reduced ones, lanes, the register tile.
void DefaultScheduler::order_stage(StageId s, const std::vector<std::string>& common, StageLoops& l) {
  const Tile& tile = l.tile;
  const std::string name = stage(s).name;
  std::vector<std::string> order{name};
  order.insert(order.end(), common.begin(), common.end());
  for (auto& k : l.kept) {
    if (k == tile.inner && !tile.parts.empty()) order.push_back(tile.parts);
    order.push_back(k);
  }
  std::erase(l.reduced, tile.parts);
  order.insert(order.end(), l.reduced.begin(), l.reduced.end());
  // What ends where the lanes end stands outside of them; the other rows inside, so that what they
  // share is computed once.
  const auto same_axis = [&](const std::string& loop) {
    for (AxisId a : stage(s).axes) {
      Expr axis = axis_at(a).symbol;
      if (depends_on_loop(nest(s), axis, *nest(s).find(loop)) &&
          depends_on_loop(nest(s), axis, *nest(s).find(*l.lanes)))
        return true;
    }
    return false;
  };
  for (auto& u : tile.unrolled)
    if (l.lanes && same_axis(u)) order.push_back(u);
  if (l.lanes) order.push_back(*l.lanes);
  for (auto& u : tile.unrolled)
    if (!l.lanes || !same_axis(u)) order.push_back(u);
  bool changed = order.size() != nest(s).loops.size() + 1;
  for (size_t i = 0; i + 1 < order.size() && !changed; i++) changed = nest(s).loops[i].name != order[i + 1];
  if (changed) add(DirectiveKind::order, order);
  if (l.lanes) add(DirectiveKind::vector, {name, *l.lanes});
  if (!tile.unrolled.empty()) {
    std::vector<std::string> words{name};
    words.insert(words.end(), tile.unrolled.begin(), tile.unrolled.end());
    add(DirectiveKind::unroll, words);
  }
  std::erase(l.reduced, tile.far);
}

/// Short loops over parts of a block are written out by the code generator. What comes from memory
/// is read in the order in which it lies there: not far apart, as loads of many steps would be
/// moved.
void DefaultScheduler::write_out_reduced(StageId s, const StageLoops& l) {
  if (!l.lanes) return;
  constexpr int64_t most_vectors = 96; // of results: what is longer takes long to compile and runs no faster
  // (So are the columns of a window in steps of several: then it is known which lanes its ends leave out.)
  const bool steps = l.folds && !loop_reduces(s, *nest(s).find(*l.lanes)) && reads_windows(s);
  const int64_t shortest = steps && reads_steps(s, *l.lanes) ? 8 : 4;
  int64_t written_out = 1, results = 1;
  for (auto& u : l.tile.unrolled) results *= trips(*nest(s).find(u));
  for (auto& r : std::views::reverse(l.reduced))
    if (const StageLoop* loop = nest(s).find(r);
        loop->symbol.is_symbol() && loop->extent.is_constant() && loop->extent.value() <= shortest) {
      written_out *= loop->extent.value();
      if (written_out <= (l.tile.streamed ? 4 : std::max(most_vectors / results, int64_t{4})))
        add(DirectiveKind::jam, {stage(s).name, r}, {loop->extent.value()});
    }
}

/// Several bodies of the loop around the lanes of a map.
void DefaultScheduler::write_out_lanes(StageId s, const std::vector<std::string>& common,
                                       const StageLoops& l) {
  if (l.folds || !l.lanes || l.kept.empty() || l.kept.back() == *l.lanes) return;
  const StageLoop* loop = nest(s).find(l.kept.back());
  // (The results of one body keep the registers busy.)
  int64_t usual = stage(s).components.size() >= 4 || !l.tile.unrolled.empty() ? 1 : 4 / l.vectors;
  // (Columns of windows in steps: all, so that it is known which lanes their ends leave out.)
  if (usual == 4 && reads_steps(s, *l.lanes) && loop->extent.is_constant() && loop->extent.value() <= 8)
    usual = loop->extent.value();
  if (l.kept.size() + common.size() > 1 && loop->symbol.is_symbol() && trips(*loop) >= 4)
    if (const int64_t bodies = ask(s, "bodies", usual, {1, 2, 4, 8}); bodies > 1)
      add(DirectiveKind::jam, {stage(s).name, l.kept.back()}, {bodies});
}

/// What goes element by element (indices from memory, updates in order) is written out four times:
/// less of it is counting.
void DefaultScheduler::write_out_elements(StageId s, const std::vector<std::string>& common,
                                          const StageLoops& l) {
  if (l.folds || l.lanes || l.kept.empty() || !l.tile.unrolled.empty()) return;
  constexpr int most_parts = 40; // of a body that is short enough
  const std::string name = stage(s).name;
  int parts = 0;
  visit_stage(stage(s), [&](const Formula&) { parts++; });
  for (HoleId h : holes_of(nests_.cone, stage(s)))
    visit(nests_.cone.holes[h].value, [&](const Formula&) { parts++; });
  // Short loops are written out whole: what their elements share is computed once, and choices between
  // parts are taken.
  size_t last = l.kept.size();
  while (last > 1) {
    const StageLoop& few = *nest(s).find(l.kept[last - 1]);
    if (!few.symbol.is_symbol() || !few.extent.is_constant() || few.extent.value() > 8 ||
        takes_turns(s, few) || parts * few.extent.value() > 2 * most_parts)
      break;
    parts *= int(few.extent.value());
    if (few.extent.value() > 1) add(DirectiveKind::jam, {name, l.kept[last - 1]}, {few.extent.value()});
    last--;
  }
  const StageLoop& loop = *nest(s).find(l.kept[last - 1]);
  // The only loop goes to the workers, where it may.
  const bool inner = last + common.size() > 1 || takes_turns(s, loop);
  if (inner && parts <= most_parts && loop.symbol.is_symbol() && trips(loop) >= 16)
    if (const int64_t bodies = ask(s, "bodies", 4, {1, 2, 8}); bodies > 1)
      add(DirectiveKind::jam, {name, l.kept[last - 1]}, {bodies});
}

/// In parallel: the outermost loop with enough trips that are known, else the first one.
void DefaultScheduler::share_out(StageId s, const std::vector<std::string>& common, const StageLoops& l) {
  const std::string name = stage(s).name;
  if (!common.empty()) {
    if (common[0] != rolled_) add(DirectiveKind::parallel, {name, common[0]});
    return;
  }
  std::vector<int64_t> legal;
  std::optional<size_t> chosen;
  bool enough = false;
  for (size_t i = 0; i < l.kept.size(); ++i) {
    const StageLoop& loop = *nest(s).find(l.kept[i]);
    if (loop.symbol.is_symbol() && takes_turns(s, loop)) break; // no worker takes a part of what is inside
    if (!loop.symbol.is_symbol() || trips(loop) < 2 || loop.jam != 1) continue;
    legal.push_back(int64_t(i));
    const bool suits = loop.extent.is_constant() && loop.extent.value() >= 2 * limits_.threads;
    if (!chosen || (suits && !enough)) chosen = i;
    enough |= suits;
  }
  if (chosen)
    add(DirectiveKind::parallel, {name, l.kept[size_t(ask(s, "parallel", int64_t(*chosen), legal))]});
}

void DefaultScheduler::loops(StageId s, const std::vector<std::string>& common) {
  StageLoops l;
  l.folds = has_fold(stage(s)) || stage(s).scan_axis;
  if (!choose_lanes(s, common, l)) return;
  sort_loops(s, common, l);
  order_stage(s, common, l);
  if (l.tile.streamed && l.tile.far.empty() && !l.reduced.empty())
    prefetch_stream(s, *l.lanes, l.reduced, one_row_ || (l.tile.inner.empty() && l.tile.unrolled.empty()));
  write_out_reduced(s, l);
  write_out_lanes(s, common, l);
  write_out_elements(s, common, l);
  if (l.lanes && common.empty() && !l.kept.empty() && !l.reduced.empty())
    prefetch_windows(s, *l.lanes, l.kept.back(), l.reduced.front());
  share_out(s, common, l);
}

} // namespace luminal::kernel
