// choose/default_schedule.cpp -- a good first schedule from the axes of a cone alone.
//
// Axes are classified from the index maps: lanes go where neighbouring elements are contiguous; a
// loop along which a load of the body does not move is a row of a register tile, because that load
// is used again; stages whose results are small share the loops that all of them keep.
#include "choose/default_schedule.h"
#include "base/check.h"
#include "base/contains.h"
#include "base/log.h"
#include "base/settings.h"
#include "choose/choose_windows.h"
#include "choose/default_scheduler.h"
#include "cone/formula.h"
#include "loop/unit.h"
#include <algorithm>

namespace luminal::kernel {

// ---- trying directives ----

bool DefaultScheduler::try_add(DirectiveKind kind, std::vector<std::string> words,
                               std::vector<int64_t> numbers) {
  Directive d{kind, std::move(words), std::move(numbers)};
  Nests before = nests_;
  try {
    apply(nests_, d);
  } catch (const ScheduleFailure&) {
    nests_ = std::move(before);
    return false;
  }
  schedule_.directives.push_back(std::move(d));
  return true;
}

void DefaultScheduler::add(DirectiveKind kind, std::vector<std::string> words, std::vector<int64_t> numbers) {
  Directive d{kind, std::move(words), std::move(numbers)};
  try {
    apply(nests_, d);
  } catch (ScheduleFailure& failure) {
    failure.text += fmt::format(": `{}`", to_string(d));
    throw;
  }
  schedule_.directives.push_back(std::move(d));
}

std::pair<std::string, std::string> DefaultScheduler::split(StageId s, const std::string& loop,
                                                            int64_t factor) {
  // Loops of one axis get the same names in all stages, so that stages can share them.
  std::string o = loop + ".o", i = loop + ".i";
  auto taken = [&](const std::string& name) {
    for (auto& v : nests_.cone.values)
      if (v.name == name) return true;
    for (Expr e : nests_.cone.symbols)
      if (e.name() == name) return true;
    for (auto& a : nests_.cone.axes)
      if (a.name == name) return true;
    return nest(s).find(name) != nullptr;
  };
  for (int n = 2; taken(o) || taken(i); n++)
    o = loop + ".o" + std::to_string(n), i = loop + ".i" + std::to_string(n);
  add(DirectiveKind::split, {stage(s).name, loop, o, i}, {factor});
  return {o, i};
}

int64_t DefaultScheduler::trips(const StageLoop& l) const {
  if (l.extent.is_constant()) return l.extent.value();
  if (l.name == few_axis_) return few_;
  int64_t high = l.extent.range().high;
  return high == unbounded_high ? int64_t{1} << 20 : std::min<int64_t>(high, int64_t{1} << 20);
}

bool DefaultScheduler::loop_reduces(StageId s, const StageLoop& l) const {
  for (AxisId a : reduced_axes(stage(s)))
    if (depends_on_loop(nest(s), axis_at(a).symbol, l)) return true;
  return false;
}

// ---- stages ----

void DefaultScheduler::cascades() {
  for (bool again = true; again;) {
    again = false;
    for (auto& s : nests_.cone.stages)
      if (s.monoid && !s.scan_axis && has_fold(s) && !nest(nests_.stage(s.name)).rolling) {
        add(DirectiveKind::cascade, {s.name, "root"});
        again = true;
        break;
      }
  }
}

/// What a map makes of a finished fold and the kernel stores, the others read: they would need the
/// fold's result as well, and make the map again.
void DefaultScheduler::read_results() {
  for (const StageId s : nests_.cone.stages.ids()) {
    if (stage(s).components.size() != 1) continue;
    const Component map = stage(s).components[0];
    if (map.kind != ComponentKind::map || !map.out || value_at(map.out).role != ValueRole::output) continue;
    bool of_fold = false;
    visit_loads(map.body, [&](const FormulaLoad& f) {
      const StageId writer = nests_.writer(f.value);
      of_fold |= writer && has_fold(stage(writer)) && value_at(f.value).role == ValueRole::interior;
    });
    const auto* op = map.body->as<FormulaOp>();
    std::set<std::string> origins;
    for (StageId r = s + 1; r < nests_.cone.stages.end_id() && of_fold; r++)
      visit_stage(stage(r), [&](const Formula& f) {
        const bool same = op ? applies(f, op->op) : f.kind.index() == map.body->kind.index();
        if (same && !f.origin.empty()) origins.insert(f.origin);
      });
    const std::string name = value_at(map.out).name;
    for (const std::string& origin : origins)
      if (decisions_.ask_whether(name + ".read", true) && try_add(DirectiveKind::materialize, {origin, name}))
        break;
  }
}

/// Do any two of these stages read one input?
bool DefaultScheduler::read_together(const std::vector<std::string>& stages) const {
  std::map<ValueId, std::string> readers;
  bool together = false;
  for (const std::string& name : stages)
    visit_loads(stage(nests_.stage(name)), [&](const FormulaLoad& f) {
      together |= value_at(f.value).role == ValueRole::input &&
                  readers.try_emplace(f.value, name).first->second != name;
    });
  return together;
}

/// Are these large products of different operands? In one nest half of the registers is left to each, and
/// operands pass by twice as often: where multiplying is as fast as the second cache, they have blocks of
/// their own, and one of them is stored.
bool DefaultScheduler::products_apart(const std::vector<std::string>& stages) const {
  constexpr int64_t large = 1 << 22; // multiply-adds
  return limits_.full_rate && !read_together(stages) &&
         std::ranges::all_of(stages, [&](const std::string& name) {
           const StageId s = nests_.stage(name);
           int64_t points = 1;
           for (const StageLoop& l : nest(s).loops) points = std::min(points * trips(l), large);
           return points == large && !factors(s).empty();
         });
}

void DefaultScheduler::epilogues() {
  // Folds that one map reads together share a nest, and the map becomes their epilogue. So do those that
  // another fold reads, where they have an input in common.
  for (StageId b(0); b < nests_.cone.stages.end_id(); b++) {
    const Stage& reader = stage(b);
    const bool is_map = std::ranges::all_of(reader.components,
                                            [](auto& c) { return c.kind == ComponentKind::map && !c.after; });
    if (!is_map && (reader.monoid || reader.scan_axis)) continue;
    std::vector<std::string> sources;
    bool costly = false;
    visit_stage(reader, [&](const Formula& f) { costly |= transcendental(f); });
    visit_loads(reader, [&](const FormulaLoad& f) {
      if (value_at(f.value).role == ValueRole::input) return;
      const StageId w = nests_.writer(f.value);
      // (Of a scan without lanes a long chain of operations is better computed for all its results.)
      const bool scan = w && is_map && stage(w).scan_axis && (scans_in_lanes(stage(w)) || !costly);
      if (!w || w == b || (!has_fold(stage(w)) && !scan)) return;
      for (auto& c : stage(w).components)
        if (c.out == f.value && (c.index != f.index || c.axes.size() != reader.axes.size())) return;
      if (std::ranges::find(sources, stage(w).name) == sources.end()) sources.push_back(stage(w).name);
    });
    if (sources.empty() || std::ranges::any_of(sources, [&](auto& n) { return column_streams_.contains(n); }))
      continue;
    if (!is_map && !read_together(sources)) continue;
    std::string name = reader.name;
    std::ranges::sort(sources, {}, [&](auto& n) { return nests_.stage(n); });
    std::string first = sources[0];
    if (!decisions_.ask_whether(name + ".fused", true)) continue;
    bool joined = false;
    for (size_t i = 1; i < sources.size() && !products_apart(sources); i++)
      joined |= try_add(DirectiveKind::fuse, {first, sources[i]});
    if (is_map ? try_add(DirectiveKind::fuse, {first, name}) : joined) b = StageId(0);
  }
}

/// A map with a transcendental function that several stages read becomes a stage of its own, and
/// runs in the loops of the first fold over it.
void DefaultScheduler::keep_costly() {
  struct Use {
    std::string origin;
    std::set<StageId> stages;
    bool costly = false, again = false; // again: for each element of an axis around the last one
  };
  std::vector<Use> uses; // in order of appearance
  for (const StageId s : nests_.cone.stages.ids())
    visit_stage(stage(s), [&](const Formula& f) {
      if (f.origin.empty()) return;
      auto known = std::ranges::find(uses, f.origin, &Use::origin);
      if (known == uses.end()) known = uses.insert(uses.end(), Use{f.origin, {}, false});
      known->stages.insert(s);
      known->costly |= transcendental(f);
      known->again |= transcendental(f) && computed_again(s, f);
    });
  for (auto& use : uses) {
    if (!use.costly || (use.stages.size() < 2 && !use.again) ||
        !decisions_.ask_whether(use.origin + ".kept", true))
      continue;
    std::string value = nests_.free_name(use.origin + ".row");
    if (!try_add(DirectiveKind::materialize, {use.origin, value})) continue;
    StageId made = nests_.writer(nests_.cone.values.end_id() - 1);
    std::string map = stage(made).name;
    for (StageId s = made + 1; s < nests_.cone.stages.end_id(); s++) {
      std::string next = stage(s).name;
      if (has_fold(stage(s)) && !stage(s).monoid && try_add(DirectiveKind::fuse, {map, next})) break;
    }
  }
}

/// Would loops that all stages share leave the longest one without lanes, which it has otherwise?
bool DefaultScheduler::takes_lanes(const std::vector<std::string>& common) const {
  StageId longest;
  double most = 0;
  for (const StageId s : nests_.cone.stages.ids()) {
    double points = 1;
    for (const StageLoop& l : nest(s).loops) points *= double(trips(l));
    if (points > most) most = points, longest = s;
  }
  if (!longest || !has_fold(stage(longest))) return false;
  bool outside = false, beside = false;
  for (const StageLoop& l : nest(longest).loops) {
    if (!l.symbol.is_symbol() || trips(l) < 4) continue;
    const AxisUse use = use_along(nests_, longest, l.symbol);
    const int strided = use.strided - (loop_reduces(longest, l) ? 0 : use.strided_after);
    if (use.contiguous == 0 || strided + use.irregular + use.near > 0) continue;
    (contains(common, l.name) ? outside : beside) = true;
  }
  return outside && !beside;
}

/// Axes that all stages keep, and along which nothing large is used again: all stages run inside
/// them.
std::vector<std::string> DefaultScheduler::common_loops() {
  // A copy of windows is for all rows of the product, and a product on tiles has loops of its own around
  // its copy.
  if (nests_.cone.stages.size() < 2 || windowed_ || takes_tiles(schedule_)) return {};
  std::vector<std::string> common;
  for (auto& l : nest(nests_.cone.stages.end_id() - 1).loops) {
    bool all = l.symbol.is_symbol() && trips(l) > 1;
    for (StageId s(0); all && s < nests_.cone.stages.end_id(); s++) {
      const StageLoop* own = nest(s).find(l.name);
      all = own && own->symbol == l.symbol && !loop_reduces(s, *own) && !stage(s).monoid;
      for (AxisId a : stage(s).ordered) all = all && !depends_on_loop(nest(s), axis_at(a).symbol, *own);
    }
    // Words are put together once for all rows that read them: only what moves in both operands is
    // outside of that.
    for (StageId s(0); all && s < nests_.cone.stages.end_id(); s++)
      if (s > first_stage && copies_words(s - 1))
        visit_loads(stage(s).components[0].body,
                    [&](const FormulaLoad& f) { all = all && varies(f.index, l.symbol); });
    if (all) common.push_back(l.name);
  }
  // What does not vary with a loop is read once for each of its trips.
  const auto read_again = [&](const std::string& loop) {
    int64_t again = 0;
    for (const StageId s : nests_.cone.stages.ids()) {
      Expr inner = nest(s).find(loop)->symbol;
      visit_loads(stage(s), [&](const FormulaLoad& f) {
        if (value_at(f.value).role == ValueRole::interior) return;
        bool moves = false;
        int64_t bytes = std::max(1, bits(value_at(f.value).dtype) / 8);
        for (auto& l : nest(s).loops) {
          bool here = false;
          for (Expr e : f.index)
            here |= l.symbol.is_symbol() && depends_on(substitute(e, nest(s).axis_values), l.symbol);
          moves |= here && l.symbol == inner;
          if (here && std::ranges::find(common, l.name) == common.end())
            bytes = std::min<int64_t>(bytes * trips(l), int64_t{1} << 40);
        }
        if (!moves) again += bytes;
      });
    }
    return again;
  };
  if (few_axis_.empty()) { // it has to fit the cache
    while (!common.empty() && read_again(common.back()) > limits_.l2 / 2) common.pop_back();
    // scratch is for one row of queries; what they share is read once for all of them while that
    // leaves work for everyone
  } else {
    int64_t shares = 1;
    for (auto& l : common)
      if (l != few_axis_) shares *= trips(*nest(first_stage).find(l));
    for (size_t i = common.size(); i-- > 0;) {
      const int64_t n = trips(*nest(first_stage).find(common[i]));
      if (common[i] == few_axis_ || shares / n < limits_.threads || read_again(common[i]) == 0) continue;
      shares /= n;
      common.erase(common.begin() + long(i));
    }
  }
  while (!common.empty() && takes_lanes(common)) common.pop_back();
  for (const StageId s : nests_.cone.stages.ids())
    if (const auto lanes = std::ranges::find(common, strided_lanes(s)); lanes != common.end())
      common.erase(lanes, common.end());
  if (common.empty()) return common;
  std::vector<int64_t> counts;
  for (size_t n = 0; n < common.size(); ++n) counts.push_back(int64_t(n));
  common.resize(size_t(decisions_.ask("shared_loops", int64_t(common.size()), counts)));
  return common;
}

/// Where memory runs along the innermost shared loop alone (statistics of columns), the stages
/// share blocks of it, and its lanes are theirs.
void DefaultScheduler::lanes_of_common(std::vector<std::string>& common) {
  if (common.empty()) return;
  const std::string last = common.back();
  if (trips(*nest(first_stage).find(last)) < 2 * limits_.lanes) return;
  bool idle = false; // a stage that has no lanes
  for (const StageId s : nests_.cone.stages.ids()) {
    const auto side_by_side = [&](const StageLoop& l) {
      const AxisUse use = use_along(nests_, s, l.symbol);
      return l.symbol.is_symbol() && use.contiguous > 0 && use.strided + use.irregular + use.near == 0;
    };
    if (!side_by_side(*nest(s).find(last))) return;
    idle |= std::ranges::none_of(nest(s).loops, [&](auto& l) {
      return std::ranges::find(common, l.name) == common.end() && side_by_side(l);
    });
  }
  if (!idle || !decisions_.ask_whether("shared_lanes", true)) return;
  for (const StageId s : nests_.cone.stages.ids()) common.back() = split(s, last, 4 * limits_.lanes).first;
}

Schedule DefaultScheduler::run(Fallback fallback) {
  fallback_ = fallback;
  if (fallback == Fallback::full && few_axis_.empty() && cascade_tiles()) return std::move(schedule_);
  if (fallback == Fallback::full && few_axis_.empty() && statistic_tiles()) return std::move(schedule_);
  if (fallback == Fallback::full && few_axis_.empty() && transforms()) return std::move(schedule_);
  std::vector<std::string> common;
  if (fallback == Fallback::full && few_axis_.empty()) {
    auto rolled = rolled_scans();
    if (rolled)
      common = std::move(*rolled);
    else if (debug_level() >= 2)
      log_debug("{}: no rolling state: {}", original_.name, rolled.error());
  }
  units();
  cascades();
  if (fallback == Fallback::bare) {
    for (const StageId s : nests_.cone.stages.ids()) sums_inside(s);
    return std::move(schedule_);
  }
  if (fallback == Fallback::full) keep_costly();
  if (fallback != Fallback::bare) windows();
  if (fallback == Fallback::full && few_axis_.empty() && rolled_.empty()) find_column_streams();
  if (fallback == Fallback::full) read_results();
  epilogues();
  if (fallback == Fallback::full && few_axis_.empty() && sum_in_parts()) {
    for (const StageId s : nests_.cone.stages.ids()) {
      if (!summed_.contains(stage(s).name)) loops(s, {});
      blocked_sums(s);
      skip_hidden_tiles(s);
    }
    return std::move(schedule_);
  }
  if (fallback == Fallback::full) cut_into_segments();
  if (fallback == Fallback::full) columns_apart();
  std::set<std::string> in_blocks; // inner sums of blocks, by name
  for (StageId s(0); s < nests_.cone.stages.end_id() && fallback == Fallback::full; s++)
    if (block_sums(s) && decisions_.ask_whether(stage(s).name + ".in_blocks", true))
      in_blocks.insert(stage(s).name);
  if (rolled_.empty() && column_streams_.empty()) {
    if (fallback == Fallback::full && piece_loops_.empty() && in_blocks.empty()) common = common_loops();
    lanes_of_common(common);
    if (fallback == Fallback::full && few_axis_.empty()) blocks_of_rows(common);
  }
  for (StageId s(0); s < nests_.cone.stages.end_id(); s++) {
    if (in_blocks.contains(stage(s).name)) {
      block_tiles(s, *block_sums(s));
      s = done_;
      continue;
    }
    if (column_streams_.contains(stage(s).name)) {
      column_stream_loops(s);
      s = done_;
      continue;
    }
    const bool whole = std::ranges::none_of(stage(s).axes, [&](AxisId a) {
      return !blocks_of(nests_.cone, stage(s), axis_at(a).symbol).empty();
    });
    const auto block = block_loops_.find(stage(s).name);
    const auto piece = piece_loops_.find(stage(s).name);
    const std::vector<std::string> shared = block != block_loops_.end()   ? block->second
                                            : piece != piece_loops_.end() ? piece->second
                                                                          : common;
    if (transposed_rows_.contains(stage(s).name)) {
      transpose_rows(s);
      continue;
    }
    const auto unit = panel_units_.find(stage(s).name);
    const std::optional<Unit> tile = unit == panel_units_.end() ? std::nullopt : find_unit(unit->second);
    if (const auto panels = tile ? tile_panels(s, *tile) : std::nullopt) { // (others may share its nest)
      panels_on_tiles(s, *panels, *tile);
      continue;
    }
    const bool words = copies_words(s); // put together in the loops of the product
    if (words && shared.empty() && fallback == Fallback::full && matmul(s + 1, shared)) {
      s = done_;
      continue;
    }
    const bool product = fallback == Fallback::full && has_fold(stage(s)) && common.empty();
    if (product && !whole && product_of_any_size(s)) {
      s = done_;
      continue;
    }
    if (product && !whole) split_blocks(s, shared), split_panels(s);
    if (common.empty() && !words && (whole || product)) merge_neighbours(s, shared);
    const std::string name = stage(s).name;
    done_ = s;
    if (fallback == Fallback::full && !common.empty() && s > first_stage && copies_words(s - 1))
      batched_.insert(name);
    const bool done = (product && padded_products_.contains(name) && padded_tile(s, shared)) ||
                      ((product || batched_.contains(name)) && matmul(s, shared)) ||
                      (product && (lanes_of_channels(s, shared) || transposed_panels(s, shared))) ||
                      columns_apart_tile(s, shared);
    if (!done) loops(s, shared);
    s = done_;
    if (joined_.contains(name)) add(DirectiveKind::at, {name, shared.back()});
    if (block != block_loops_.end() && !shared.empty() && has_fold(stage(s)))
      add(DirectiveKind::at, {name, shared.back()});
  }
  for (StageId s = first_stage + 1; s < nests_.cone.stages.end_id() && !common.empty(); s++)
    add(DirectiveKind::at, {stage(s).name, common.back()});
  if (!common.empty() && batched_.empty() && rolled_.empty()) prefetch_reads(common.back());
  if (!common.empty() && !batched_.empty()) next_batches(common.back());
  streams();
  for (const StageId s : nests_.cone.stages.ids()) {
    blocked_sums(s);
    skip_hidden_tiles(s);
  }
  return std::move(schedule_);
}

std::optional<DefaultScheduler::ForRows> DefaultScheduler::one_row() {
  one_row_ = true;
  Schedule schedule = run(Fallback::full);
  if (row_axis_.empty()) return {};
  return ForRows{std::move(schedule), std::move(row_axis_)};
}

std::optional<DefaultScheduler::ForRows> DefaultScheduler::few_lanes(int64_t most) {
  const auto t = tuple();
  if (!t || !stage(t->stage).monoid || axis_at(t->lanes).extent.is_constant()) return {};
  few_axis_ = axis_at(t->lanes).name;
  few_ = most - 1;
  // What a sum finds through several axes at once lies plainly in a copy.
  for (StageId s = t->stage; --s;) {
    const Stage& sum = stage(s);
    const bool blocks = std::ranges::any_of(
        sum.axes, [&](AxisId a) { return !blocks_of(nests_.cone, sum, axis_at(a).symbol).empty(); });
    if (blocks && has_fold(sum))
      try_add(DirectiveKind::operand,
              {sum.name, axis_at(t->reduced).name, nests_.free_name(sum.name + ".row")});
  }
  const AxisId reduced = t->reduced;
  schedule_ = run(Fallback::full);
  for (const StageId s : nests_.cone.stages.ids())
    if (!stage(s).domain.is_constant(1))
      for (auto& l : std::vector<StageLoop>(nest(s).loops))
        if (l.kind == LoopKind::serial && l.symbol.is_symbol() &&
            depends_on_loop(nest(s), axis_at(reduced).symbol, l))
          try_add(DirectiveKind::predicate_bound, {stage(s).name, l.name});
  return ForRows{std::move(schedule_), few_axis_};
}

} // namespace luminal::kernel
