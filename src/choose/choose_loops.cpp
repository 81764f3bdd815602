// choose/choose_loops.cpp -- default loops of one stage: blocks, lanes, register tile, order, who
// works in parallel.
#include "base/contains.h"
#include "choose/default_scheduler.h"
#include "cone/formula.h"
#include <algorithm>
#include <bit>
#include <ranges>
#include <utility>

namespace luminal::kernel {

/// Axes made of blocks are split along them, so that no division is left. `uneven`: the last block may be
/// a part of one.
void DefaultScheduler::split_blocks(StageId s, const std::vector<std::string>& common, bool uneven) {
  for (AxisId a : std::vector<AxisId>(stage(s).axes)) {
    auto axis = axis_at(a);
    if (contains(common, axis.name)) continue; // once for each trip of an outer loop is no harm
    auto blocks = blocks_of(nests_.cone, stage(s), axis.symbol);
    std::string inner = axis.name;
    int64_t extent = axis.extent.is_constant() ? axis.extent.value() : 0;
    for (size_t b = blocks.size(); b-- > 0;) {
      if (extent && (extent <= blocks[b] || (extent % blocks[b] && !uneven))) continue;
      if (!nest(s).find(inner)) break;
      inner = split(s, inner, blocks[b]).second;
      extent = blocks[b];
    }
  }
}

/// Summed and scanned axes innermost: each result is written once, also where there is nothing to
/// sum.
void DefaultScheduler::sums_inside(StageId s) {
  const AxisId scanned = stage(s).scan_axis;
  if (!has_fold(stage(s)) && !scanned) return;
  std::vector<std::string> order{stage(s).name}, summed;
  for (auto& l : nest(s).loops) {
    const bool inside = scanned ? depends_on_loop(nest(s), axis_at(scanned).symbol, l) : loop_reduces(s, l);
    (inside ? summed : order).push_back(l.name);
  }
  order.insert(order.end(), summed.begin(), summed.end());
  bool same = true;
  for (size_t l = 0; l < nest(s).loops.size(); l++) same &= nest(s).loops[l].name == order[l + 1];
  if (!same) add(DirectiveKind::order, std::move(order));
}

/// Neighbouring loops become one where every access varies with the joint loop as along memory
/// (folds: in even steps).
void DefaultScheduler::merge_neighbours(StageId s, const std::vector<std::string>& common) {
  const bool folds = has_fold(stage(s));
  if (!std::ranges::all_of(stage(s).components,
                           [](auto& c) {
                             return c.kind == ComponentKind::map ||
                                    (c.kind == ComponentKind::fold && c.op == Op::add);
                           }) ||
      stage(s).monoid || !stage(s).domain.is_constant(1))
    return;
  sums_inside(s);             // summed axes become neighbours
  std::optional<Attempt> few; // loops merged into one that does not fill a tile yet
  for (size_t l = nest(s).loops.size(); l-- > 1;) {
    // The merged loops are as they were, if another one does not join them.
    const auto leave = [&] {
      if (!few) return;
      undo(std::move(*few));
      few.reset();
      l++;
    };
    std::string outer = nest(s).loops[l - 1].name, inner = nest(s).loops[l].name;
    bool tail = contains(common, outer) || contains(common, inner);
    for (auto& g : nest(s).guards)
      for (size_t i : {l - 1, l})
        tail |= nest(s).loops[i].symbol.is_symbol() && depends_on(g.value, nest(s).loops[i].symbol);
    if (tail || (folds && loop_reduces(s, nest(s).loops[l - 1]) != loop_reduces(s, nest(s).loops[l]))) {
      leave();
      continue;
    }
    const int64_t inner_trips = trips(nest(s).loops[l]);
    Attempt attempt = begin();
    if (!try_add(DirectiveKind::merge, {stage(s).name, outer, inner, inner})) {
      leave();
      continue;
    }
    if (!nest(s).loops[l - 1].symbol.is_symbol()) continue; // of one trip each
    AxisUse use = use_along(nests_, s, nest(s).loops[l - 1].symbol);
    // The index of a formula itself (an iota, a condition) must not fall apart into divisions
    // either.
    bool divides = false;
    visit_stage(stage(s), [&](const Formula& f) {
      const auto along = [&](Expr e) {
        return depends_on(substitute(e, nest(s).axis_values), nest(s).loops[l - 1].symbol);
      };
      divides |= along(guard_of(f));
      if (const auto* index = f.as<FormulaIndex>()) divides |= along(index->value);
    });
    // Rows of a fold that lie any constant distance apart are one longer run of rows. So are rows that a map
    // reads across and writes one after the other, or the reverse: few do not fill a tile, all of them do.
    const auto written = std::ranges::count_if(stage(s).components, [](auto& c) { return bool(c.out); });
    const bool turns = !folds && inner_trips < 2 * limits_.lanes &&
                       (use.store_contiguous || (use.contiguous > 0 && use.strided == written));
    const bool fills = trips(nest(s).loops[l - 1]) >= 2 * limits_.lanes;
    // (A gather by indices that stay neighbours is one of more elements.)
    const int irregular = use.irregular - (folds ? 0 : use.gathers);
    if ((folds || turns ? 0 : use.near + use.strided) + irregular > 0 || divides) {
      undo(std::move(attempt));
      leave();
    } else if (turns && !fills && use.near + use.strided > 0) {
      if (!few) few = std::move(attempt);
    } else
      few.reset();
  }
  if (few) undo(std::move(*few));
}

std::optional<std::string> DefaultScheduler::vector_loop(StageId s, const std::vector<std::string>& common) {
  const Stage& st = stage(s);
  std::optional<size_t> best, sum;
  int best_score = 0, sum_score = 0;
  std::vector<int64_t> legal;
  for (size_t i = 0; i < nest(s).loops.size(); ++i) {
    const StageLoop& l = nest(s).loops[i];
    if (!l.symbol.is_symbol() || trips(l) < 4 || contains(common, l.name)) continue;
    bool reduces = loop_reduces(s, l), fits = reduces || !row_sums_.contains(st.name);
    const bool scans = reduces && scans_in_lanes(st);
    for (AxisId a : st.ordered) fits &= scans || !depends_on_loop(nest(s), axis_at(a).symbol, l);
    for (auto& c : st.components) {
      if (c.kind == ComponentKind::scan && !scans) // one result that all lanes share
        for (AxisId a : st.axes)
          fits &= contains(c.axes, a) || !depends_on_loop(nest(s), axis_at(a).symbol, l);
      if (reduces && c.kind == ComponentKind::fold)
        fits &= c.op == Op::add || c.op == Op::max || c.op == Op::min || c.op == Op::mul;
      if (c.kind == ComponentKind::update)
        fits &= !depends_on(substitute(st.domain, nest(s).axis_values), l.symbol) &&
                holes_of(nests_.cone, std::span(&st.domain, 1)).empty();
    }
    if (st.monoid && reduces && !scans) fits = false;
    AxisUse use = use_along(nests_, s, l.symbol);
    // (A sum is finished and stored once, wherever, and adds many elements before.)
    const int strided = use.strided - (has_fold(st) && !reduces ? use.strided_after : 0);
    // A sum whose operands lie a few elements apart has its lanes there where nothing else has them, also
    // where nothing is contiguous; few elements are faster one by one then.
    const bool last = use.near > 0 && reduces;
    const int near = use.rows || (last && 2 * trips(l) >= limits_.lanes) ? use.near : 0;
    if (!fits || strided + use.irregular > 0 || use.contiguous + near == 0) continue;
    if (use.near > 0 && !reduces && !(use.store_contiguous || use.rows)) continue;
    int score = use.score() * 4 + (reduces ? 0 : 1);
    if (!last) legal.push_back(int64_t(i));
    auto& chosen = last ? sum : best;
    if (!chosen || score > (last ? sum_score : best_score)) {
      chosen = i;
      (last ? sum_score : best_score) = score;
    }
  }
  if (!best && sum) legal.push_back(int64_t(*(best = sum)));
  if (!best) return {};
  return nest(s).loops[size_t(ask(s, "lanes", int64_t(*best), legal))].name;
}

/// The loop, or the inner part of it that fills the lanes of so many vectors.
std::string DefaultScheduler::split_lanes(StageId s, const std::string& loop, int64_t vectors) {
  int64_t n = trips(*nest(s).find(loop));
  if (n > vectors * limits_.lanes || !nest(s).find(loop)->extent.is_constant())
    return split(s, loop, vectors * limits_.lanes).second;
  int64_t power = 1;
  while (power * 2 <= n) power *= 2;
  // Windows are read under masks at any rate: one vector with some dead lanes.
  if (reads_windows(s) || (!has_fold(stage(s)) && reads_steps(s, loop))) return loop;
  return power == n ? loop : split(s, loop, power).second;
}

bool DefaultScheduler::transcendental(const Formula& f) {
  const auto* op = f.as<FormulaOp>();
  return op && is_long_chain(op->op);
}

/// The steps of a transcendental function wait for each other, longer than the processor looks
/// ahead: a map, or a fold along the lanes that shares nothing with other rows, takes its steps for
/// several vectors at once.
int64_t DefaultScheduler::vectors_at_once(StageId s, const std::string& loop,
                                          const std::vector<std::string>& common) {
  const StageLoop& l = *nest(s).find(loop);
  if (stage(s).scan_axis || limits_.vector_registers < 32 || !l.extent.is_constant() ||
      (has_fold(stage(s)) && (!loop_reduces(s, l) || !rows_of(s, loop, common).empty())))
    return 1;
  bool slow = false, narrow = true, twice = false;
  visit_stage(stage(s), [&](const Formula& f) {
    slow |= transcendental(f);
    // Functions that are computed in f64: each vector is two of them, and their steps are many.
    twice |= transcendental(f) && row(f.as<FormulaOp>()->op).op_class == OpClass::wide_function;
    narrow = narrow && bits(f.dtype) <= 32;
  });
  if (!slow || !narrow) return 1;
  const int64_t n = l.extent.value();
  const int64_t folds = std::ranges::count(stage(s).components, ComponentKind::fold,
                                           &Component::kind); // with sums in registers
  int64_t usual = twice ? 2 : 4;                              // but few lanes remain empty
  while (usual * folds > limits_.vector_registers / 2) usual /= 2;
  while (usual > 1 && n % (usual * limits_.lanes) != 0 && n < 16 * usual * limits_.lanes) usual /= 2;
  return ask(s, "vectors", usual, {1, 2, 4});
}

/// Results that few parts are distributed to in turn (images of which each holds every other
/// column): all parts are read along their rows, and exchanged in registers.
bool DefaultScheduler::deinterleaved(StageId s, const std::vector<std::string>& common) {
  constexpr int64_t most_parts = 8; // an odd number of them is exchanged in steps that grow with its square
  const Stage& st = stage(s);
  const bool in_segments = st.segment_group > 0; // with loops around them that all share
  if (!common.empty() && !in_segments) return false;
  if (has_fold(st) || st.scan_axis || !st.ordered.empty()) return false;
  std::string part, row;
  for (auto& l : nest(s).loops)
    if (l.symbol.is_symbol() && l.extent.is_constant() && !contains(common, l.name) &&
        (l.extent.value() <= most_parts ||
         (l.extent.value() <= limits_.lanes && std::has_single_bit(uint64_t(l.extent.value())))) &&
        use_along(nests_, s, l.symbol).store_contiguous)
      part = l.name;
  if (part.empty()) return false;
  const int64_t parts = trips(*nest(s).find(part));
  for (auto& l : nest(s).loops) {
    if (!l.symbol.is_symbol() || trips(l) < 4 || contains(common, l.name)) continue;
    int written = 0;
    bool suits = true;
    for (auto& c : st.components) {
      if (!c.out) continue;
      written++;
      suits = suits && bits(value_at(c.out).dtype) == 32 &&
              step_of(nests_.cone, c.out, over_loops(nest(s), c.index), l.symbol, parts) == Step::contiguous;
    }
    const AxisUse use = use_along(nests_, s, l.symbol);
    // (No more of what is read may lie across than along the row: their elements are put together.)
    const int across = use.strided - written;
    if (suits && use.contiguous > 0 && across <= use.contiguous && use.irregular == 0) row = l.name;
  }
  if (row.empty() || !ask(s, "deinterleave", 1, {0, 1})) return false;
  const std::string lanes = split_lanes(s, row);
  std::vector<std::string> order{stage(s).name}, outer;
  for (auto& l : nest(s).loops)
    if (l.name != part && l.name != lanes) outer.push_back(l.name);
  order.insert(order.end(), outer.begin(), outer.end());
  order.insert(order.end(), {part, lanes});
  add(DirectiveKind::order, order);
  add(DirectiveKind::unroll, {stage(s).name, part});
  add(DirectiveKind::vector, {stage(s).name, lanes});
  bool is_distributed = !common.empty();
  if (is_distributed && common[0] != rolled_) add(DirectiveKind::parallel, {stage(s).name, common[0]});
  for (const std::string& name : outer) {
    const StageLoop* l = nest(s).find(name);
    if (!l->symbol.is_symbol() || trips(*l) < 2 || contains(common, name)) continue;
    // A loop on which the choice of a part depends as well is written out.
    bool chooses = false;
    visit_stage(stage(s), [&](const Formula& f) {
      const auto* index = f.as<FormulaIndex>();
      chooses |= index && f.dtype == DType::boolean &&
                 depends_on(substitute(index->value, nest(s).axis_values), l->symbol);
    });
    if (chooses && l->extent.is_constant() && l->extent.value() <= 4)
      add(DirectiveKind::jam, {stage(s).name, name}, {l->extent.value()});
    else if (!std::exchange(is_distributed, true))
      add(DirectiveKind::parallel, {stage(s).name, name});
  }
  return true;
}

/// Results that parts are distributed to in turn, of which the last ones have fewer.
bool DefaultScheduler::uneven_blocks(StageId s, const std::vector<std::string>& common) {
  Attempt attempt = begin();
  split_blocks(s, common, true);
  if (schedule_.directives.size() > attempt.directives && deinterleaved(s, common)) return true;
  undo(std::move(attempt));
  return false;
}

/// Few rows that are written beside each other: as many vectors are read along the rows, and
/// exchanged in registers.
bool DefaultScheduler::few_rows_transposed(StageId s, const std::vector<std::string>& common) {
  if (!common.empty() || has_fold(stage(s)) || stage(s).scan_axis || !stage(s).ordered.empty()) return false;
  std::string written, read;
  for (auto& l : nest(s).loops) {
    if (!l.symbol.is_symbol() || !l.extent.is_constant()) continue;
    const int64_t n = l.extent.value();
    const AxisUse use = use_along(nests_, s, l.symbol);
    if (use.store_contiguous && use.strided > 0 && use.irregular == 0 && n >= 4 && n <= limits_.lanes &&
        (n & (n - 1)) == 0)
      written = l.name;
    else if (use.contiguous > 0 && !use.store_contiguous && use.irregular == 0)
      read = l.name;
  }
  if (written.empty() || read.empty()) return false;
  const int64_t rows = trips(*nest(s).find(written));
  if (trips(*nest(s).find(read)) % rows || !ask(s, "transposed", 1, {0, 1})) return false;
  std::string outside, vectors = read;
  if (!nest(s).find(read)->extent.is_constant(rows)) std::tie(outside, vectors) = split(s, read, rows);
  std::vector<std::string> order{stage(s).name};
  for (auto& l : nest(s).loops)
    if (l.name != written && l.name != vectors) order.push_back(l.name);
  order.insert(order.end(), {vectors, written});
  add(DirectiveKind::order, order);
  add(DirectiveKind::unroll, {stage(s).name, vectors});
  add(DirectiveKind::vector, {stage(s).name, written});
  for (size_t i = 1; i + 2 < order.size(); i++)
    if (const StageLoop* l = nest(s).find(order[i]); l->symbol.is_symbol() && trips(*l) > 1) {
      add(DirectiveKind::parallel, {stage(s).name, order[i]});
      break;
    }
  return true;
}

/// Reads that run along another axis than the writes: tiles of both, so that what is fetched of
/// either side is used before it leaves the first cache. A tile goes through a buffer, where its
/// lines do not fall into few sets of that cache. True where it chose all loops of the stage.
bool DefaultScheduler::transposed(StageId s, const std::vector<std::string>& common) {
  const int64_t edge = limits_.lanes;
  if (!common.empty() || has_fold(stage(s)) || stage(s).scan_axis || !stage(s).ordered.empty() ||
      nests_.cone.stages.size() > 1)
    return false;
  std::string written, read;
  for (auto& l : nest(s).loops) {
    if (!l.symbol.is_symbol() || trips(l) < 2 * edge) continue;
    const AxisUse use = use_along(nests_, s, l.symbol);
    if (use.store_contiguous && use.strided > 0)
      written = l.name;
    else if (use.contiguous > 0 && !use.store_contiguous)
      read = l.name;
  }
  if (written.empty() || read.empty() || !ask(s, "transposed", 1, {0, 1})) return false;
  const std::string name = stage(s).name, ro = nests_.free_name(read + ".o"),
                    ri = nests_.free_name(read + ".i"), wo = nests_.free_name(written + ".o"),
                    wi = nests_.free_name(written + ".i");
  std::vector<std::string> outer;
  for (auto& l : nest(s).loops)
    if (l.name != written && l.name != read) outer.push_back(l.name);
  // The one operand that is read across, where it has all loops of the stage.
  std::string copy;
  std::set<ValueId> across;
  bool plain = true;
  visit_loads(stage(s), [&](const FormulaLoad& f, DType dtype) {
    const auto moves = [&](const std::string& loop) {
      const Expr symbol = nest(s).find(loop)->symbol;
      return step_of(nests_.cone, f.value, over_loops(nest(s), f.index), symbol);
    };
    if (moves(read) == Step::contiguous && moves(written) == Step::strided) across.insert(f.value);
    plain = plain && f.guard.is_constant(1) && bits(dtype) >= 8 && bits(dtype) <= 32 &&
            moves(written) != Step::irregular;
  });
  plain = plain && !across.empty();
  if (across.size() == 1) {
    const std::string value = value_at(*across.begin()).name, wish = nests_.free_name(value + ".tile");
    Attempt attempt = begin();
    bool fits = try_add(DirectiveKind::stage, {value, wish});
    if (fits) {
      std::vector<std::string> loops = outer;
      loops.insert(loops.end(), {written, read});
      const StageNest& made = nest(s);
      fits = stage(s).name == wish && made.loops.size() == loops.size() &&
             std::ranges::all_of(loops, [&](auto& l) { return made.find(l) != nullptr; });
    }
    if (fits)
      copy = wish;
    else {
      undo(std::move(attempt));
    }
  }
  for (const std::string& target : {copy, name})
    if (!target.empty()) {
      add(DirectiveKind::split, {target, read, ro, ri}, {edge});
      add(DirectiveKind::split, {target, written, wo, wi}, {edge});
    }
  const auto order = [&](const std::string& target, std::initializer_list<std::string> last) {
    std::vector<std::string> words{target};
    words.insert(words.end(), outer.begin(), outer.end());
    words.insert(words.end(), last);
    add(DirectiveKind::order, words);
  };
  const std::string shared =
      !outer.empty() && trips(*nest(s).find(outer[0])) >= 2 * limits_.threads ? outer[0] : ro;
  if (!copy.empty()) {
    order(copy, {ro, wo, wi, ri});
    std::vector<std::string> words{copy, wo};
    words.insert(words.end(), outer.begin(), outer.end());
    for (auto& part : {fmt::format("{}/{}", read, edge), fmt::format("{}/{}", written, edge),
                       fmt::format("{}%{}", written, edge), fmt::format("{}%{}", read, edge)})
      words.push_back(part);
    add(DirectiveKind::store, words);
    add(DirectiveKind::vector, {copy, ri});
    add(DirectiveKind::parallel, {copy, shared});
    s++;
    done_ = s;
  }
  order(name, {ro, wo, ri, wi});
  if (!copy.empty() || plain) { // a tile is transposed in registers
    add(DirectiveKind::unroll, {name, ri});
    add(DirectiveKind::vector, {name, wi});
  }
  if (!copy.empty()) {
    add(DirectiveKind::at, {name, wo});
  }
  add(DirectiveKind::parallel, {name, shared});
  return true;
}

/// Each step of a scan waits for the one before: several rows step by step together are as many
/// chains.
void DefaultScheduler::scan_rows(StageId s, const std::vector<std::string>& common, Tile& tile) {
  std::string row;
  for (auto& l : nest(s).loops)
    if (l.symbol.is_symbol() && !loop_reduces(s, l) && trips(l) >= 4 * std::max(1, limits_.threads) &&
        !contains(common, l.name))
      row = l.name;
  const int64_t rows = row.empty() ? 1 : ask(s, "scan_rows", 4, {1, 2, 8});
  if (rows > 1) tile.unrolled.push_back(split(s, row, rows).second);
}

/// Are elements read a few steps apart along the lanes, not at all of their places?
bool DefaultScheduler::reads_steps(StageId s, const std::string& lanes) const {
  const Expr symbol = nest(s).find(lanes)->symbol;
  bool steps = false;
  visit_loads(stage(s), [&](const FormulaLoad& f) {
    steps |= !f.guard.is_constant(1) &&
             step_of(nests_.cone, f.value, over_loops(nest(s), f.index), symbol) == Step::near;
  });
  return steps;
}

} // namespace luminal::kernel
