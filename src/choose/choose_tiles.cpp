// choose/choose_tiles.cpp -- the default register tile of a fold: which rows are interleaved, what
// passes by them, what is prefetched.
#include "base/contains.h"
#include "choose/default_scheduler.h"
#include "cone/formula.h"
#include <algorithm>
#include <ranges>
#include <tuple>

namespace luminal::kernel {

/// Kept loops along which one load of a fold's body moves and another one does not, though it
/// varies with the reduction: it is used again.
std::vector<DefaultScheduler::Row> DefaultScheduler::rows_of(StageId s, const std::string& lanes,
                                                             const std::vector<std::string>& common) const {
  constexpr int64_t most = int64_t{1} << 40;
  std::vector<Row> rows;
  for (auto& l : nest(s).loops) {
    if (!l.symbol.is_symbol() || l.name == lanes || loop_reduces(s, l) || contains(common, l.name)) continue;
    bool again = false, moves = false;
    Row row{l.name, trips(l), l.extent.is_constant()};
    if (!row.constant) row.inner = size_t(&l - nest(s).loops.data());
    std::set<ValueId> values;
    std::vector<const FormulaLoad*> known; // what two folds read at one place is read once
    for (auto& c : stage(s).components) {
      if (c.kind != ComponentKind::fold) continue;
      visit_loads(c.body, [&](const FormulaLoad& f, DType dtype) {
        if (std::ranges::any_of(known, [&](auto* k) { return k->value == f.value && k->index == f.index; }))
          return;
        known.push_back(&f);
        bool here = false, along_reduction = false, in_lanes = false;
        int64_t size = std::max(1, bits(dtype) / 8), step = size; // of a word, where words are read
        for (auto& r : nest(s).loops) {
          bool moved = false;
          for (Expr e : f.index)
            moved |= r.symbol.is_symbol() && depends_on(substitute(e, nest(s).axis_values), r.symbol);
          if (!moved) continue;
          in_lanes |= r.name == lanes;
          size = std::min(size * trips(r), most);
          here |= r.symbol == l.symbol;
          if (!loop_reduces(s, r)) continue;
          along_reduction = true;
          step = std::min(step * trips(r), most);
        }
        moves |= here && along_reduction;
        again |= !here && along_reduction;
        if (!here && along_reduction) row.shared += step;
        if (here && along_reduction) row.bytes += size, row.step += step, row.loads++;
        row.vectors |= here && along_reduction && in_lanes;
        for (Expr e : f.index) { // rows of windows
          const Expr at = substitute(e, nest(s).axis_values);
          row.overlaps |=
              here && depends_on(at, l.symbol) && std::ranges::any_of(nest(s).loops, [&](auto& r) {
                return r.symbol.is_symbol() && loop_reduces(s, r) && depends_on(at, r.symbol);
              });
        }
        if (here && along_reduction) values.insert(f.value);
      });
    }
    row.values = int(values.size());
    if (again && moves && row.trips > 1) rows.push_back(row);
  }
  return rows;
}

/// Lanes along the reduction: groups of rows of both operands, each sum in a chain of its own. The
/// chains do not depend on how many rows there are, so a row has the same bits whatever stands
/// beside it.
void DefaultScheduler::dot_tile(StageId s, const std::string& lanes, std::vector<Row> rows, int64_t budget,
                                Tile& tile) {
  // Many known rows (weights) first.
  std::ranges::stable_sort(
      rows, [](auto& a, auto& b) { return std::pair(a.constant, a.trips) > std::pair(b.constant, b.trips); });
  if (rows.size() > 2) rows.resize(2);
  // With rows on one side only, all of them are used once. What no cache holds comes fastest in few
  // long runs, of rows that stand far apart: many are more streams than the processor follows, and
  // one leaves half of the loads in its window to the other operand, which is read again for each
  // row. As many rows share it as make it half of the bytes, or a quarter where the first cache
  // does not hold it beside the stream.
  const bool streams = rows.size() == 1 && rows[0].bytes > limits_.l2;
  int64_t together = 4;
  if (streams) {
    const int64_t times = rows[0].shared <= limits_.l1 / 2 ? 2 : 4;
    for (together = 1; together < 8 && together * rows[0].step < times * rows[0].shared;) together *= 2;
    if (times == 2)
      while (together > 1 && (!rows[0].constant || rows[0].trips % together)) together /= 2;
  }
  if (rows.size() == 1) together = ask(s, "rows", std::min(rows[0].trips, together), {1, 2, 4, 8});
  std::vector<int64_t> factors(rows.size(), 1);
  for (size_t i = 0; i < rows.size(); i++) factors[i] = std::min<int64_t>({rows[i].trips, together, budget});
  if (rows.size() == 2) { // the fewest loads for each product
    double best = 1e9;
    for (int64_t a = std::min<int64_t>(rows[0].trips, 4); a >= 1; a--)
      for (int64_t b = std::min<int64_t>(rows[1].trips, 4); b >= 1; b--) {
        double cost = double(a * rows[0].loads + b * rows[1].loads) / double(a * b);
        if (a * b > budget || cost >= best) continue;
        best = cost;
        factors = {a, b};
      }
    factors[0] = std::min(ask(s, "rows", factors[0], {1, 2, 3, 4, 6}), rows[0].trips);
    factors[1] = std::min({ask(s, "columns", factors[1], {1, 2, 3, 4, 6}), rows[1].trips,
                           std::max<int64_t>(1, budget / factors[0])});
  }
  int folds = 0;
  for (auto& c : stage(s).components) folds += c.kind == ComponentKind::fold;
  // Gives the loop that is left around. Rows that come from memory stand far apart in a tile: each
  // of them is a part of one long run.
  auto unroll = [&](const std::string& loop, int64_t f, bool far) {
    if (f < 2) return loop;
    std::string outside, inner = loop;
    const StageLoop* l = nest(s).find(loop);
    far = far && l->extent.is_constant() && l->extent.value() % f == 0;
    if (far && l->extent.value() > f)
      std::tie(inner, outside) = split(s, loop, l->extent.value() / f);
    else if (!l->extent.is_constant(f))
      std::tie(outside, inner) = split(s, loop, f);
    tile.unrolled.push_back(inner);
    budget /= f;
    return outside;
  };
  // (Short rows that follow each other are one run.)
  constexpr int64_t short_row = 512; // bytes
  auto from_memory = [&](const Row& row) {
    return row.bytes > limits_.l2 && (rows.size() == 1 || row.step > short_row);
  };
  if (rows.size() == 2 && factors[1] > 1) {
    // All tiles of one operand pass by a block of the other that the second cache holds.
    const Row& row = rows[1];
    int64_t block = limits_.l2 / 2 / std::max<int64_t>(1, row.step) / factors[1] * factors[1];
    std::string loop = row.loop;
    bool fits = row.trips <= block;
    if (!fits && block >= 2 * factors[1]) {
      std::tie(tile.blocks, loop) = split(s, loop, block);
      fits = true;
    }
    std::string outside = unroll(rows[0].loop, factors[0], from_memory(rows[0])),
                inside = unroll(loop, factors[1], false);
    if (fits) tile.outer = outside, tile.inner = inside;
  } else {
    for (size_t i = 0; i < rows.size(); i++) unroll(rows[i].loop, factors[i], from_memory(rows[i]));
  }
  // One chain of sums is too few: what is left of the budget goes to independent parts of the
  // reduction, the parts of a block first.
  std::vector<std::string> inner_first;
  for (auto& l : nest(s).loops)
    if (l.name != lanes && loop_reduces(s, l) && l.kind == LoopKind::serial && l.symbol.is_symbol())
      inner_first.insert(inner_first.begin(), l.name);
  const int64_t chains = limits_.vector_registers / 2 / std::max<int64_t>(1, budget) / folds;
  int64_t parts = std::min(streams ? 8 / chains : chains < 4 ? 4 : 1, budget), most = 1;
  for (auto& r : inner_first) most = std::min<int64_t>(most * trips(*nest(s).find(r)), 8);
  if (most < 8) return;
  parts = ask(s, "chains", parts, {1, 2, 4, 8});
  const auto first = std::ptrdiff_t(tile.unrolled.size());
  for (auto& r : inner_first) {
    const int64_t n = trips(*nest(s).find(r));
    if (n <= parts / 2 && parts % n == 0 && nest(s).find(r)->extent.is_constant()) {
      parts /= n;
      unroll(r, n, false);
    } else {
      if (n >= parts) unroll(r, parts, false);
      break;
    }
  }
  std::reverse(tile.unrolled.begin() + first, tile.unrolled.end()); // outermost first, as they stand
}

/// Lanes along rows of a weight that are neighbours: every vector of it is brought and
/// unpacked once for as many rows of the other operand as fit, and those come from a cache.
void DefaultScheduler::weight_tile(StageId s, const Row* other, const Row& vectors, int64_t budget,
                                   Tile& tile) {
  const Row row = other ? *other : Row{{}, 1, true};
  // Where nothing is unpacked, each vector is multiplied as it is read, and a square tile has the
  // fewest loads.
  const bool unpacks = std::ranges::any_of(stage(s).components, [](auto& c) {
    if (c.kind != ComponentKind::fold) return false;
    return !is_operation(*c.body) || std::ranges::any_of(args_of(*c.body), [](const FormulaRef& f) {
      const auto* cast = f->as<FormulaCast>();
      const Formula& x = cast ? *cast->x : *f;
      return !x.is<FormulaLoad>() && !x.is<FormulaConstant>();
    });
  });
  const int64_t most_rows = std::min<int64_t>(unpacks ? 8 : 4, budget);
  int64_t rows = std::min(row.trips, most_rows);
  // As many as divide, where they are known: a remainder would unpack everything once more.
  if (row.constant && row.trips > most_rows)
    for (int64_t r = most_rows; r > most_rows / 2; r--)
      if (row.trips % r == 0) {
        rows = r;
        break;
      }
  if (other) rows = std::min(ask(s, "rows", rows, {1, 2, 4, 6, 8, 12, 16}), row.trips);
  const int64_t beside = std::min(
      {ask(s, "vectors", unpacks ? 1 : 4, {1, 2, 4}), vectors.trips, std::max<int64_t>(1, budget / rows)});
  const auto unroll = [&](const std::string& loop, int64_t f) {
    if (f < 2) return loop;
    std::string inner = loop, outside;
    if (!nest(s).find(loop)->extent.is_constant(f)) std::tie(outside, inner) = split(s, loop, f);
    tile.unrolled.push_back(inner);
    return outside;
  };
  // A good part of the second cache is not found there again: between two runs all other weights
  // pass.
  tile.streamed = vectors.bytes > limits_.l2 / 4;
  // With one worker the processor's outstanding requests are the limit, which two places raise;
  // several workers have as many places already, and more operands are more places than its
  // prefetcher follows.
  const bool once = (!other || one_row_) && beside == 1 && tile.streamed && vectors.constant;
  const int64_t parts = vectors.trips;
  if (once) {
    const bool suits = limits_.threads == 1 && vectors.values <= 2 && parts % 2 == 0 && parts >= 8;
    if (const int64_t far = ask(s, "far", suits ? 2 : 1, {1, 2, 4});
        far > 1 && parts % far == 0 && parts > far) {
      std::tie(tile.far, tile.outer) = split(s, vectors.loop, parts / far);
      tile.row_bytes = vectors.bytes / parts;
    }
  }
  if (tile.far.empty()) tile.outer = unroll(vectors.loop, beside);
  if (one_row_ && other && (!tile.far.empty() || (tile.streamed && reads_fields(s)))) {
    row_axis_ = row.loop;
    tile.inner = row.loop;
    return;
  }
  if (!other) return;
  std::string inside = row.loop;
  if (row.trips >= 32 && sum_in_parts(s, vectors.bytes / vectors.trips * beside, tile)) {
    tile.inner = unroll(inside, rows);
    return;
  }
  int64_t block = limits_.l2 / 2 / std::max<int64_t>(1, row.step) / rows * rows;
  // Blocks of one size, where they are known: the workers have the same to do.
  if (row.constant)
    for (int64_t b = block; b > block / 2; b -= rows)
      if (row.trips % b == 0) {
        block = b;
        break;
      }
  if (row.trips > block && block >= 2 * rows) std::tie(tile.blocks, inside) = split(s, inside, block);
  tile.inner = unroll(inside, rows);
}

/// Where the vectors of one tile (`bytes` along the whole sum) would fill the second cache, rows by
/// the dozen go through a piece of them after the other. Then the weights come from memory once,
/// and the results stay in the first cache meanwhile. The order of the sum is the same.
bool DefaultScheduler::sum_in_parts(StageId s, int64_t bytes, Tile& tile) {
  const Stage& st = stage(s);
  if (bytes <= limits_.l2 / 8 || std::ranges::any_of(st.components, [](auto& c) { return c.after; }))
    return false;
  const auto sum = std::ranges::find_if(nest(s).loops, [&](const StageLoop& l) {
    return l.symbol.is_symbol() && l.kind == LoopKind::serial && loop_reduces(s, l) && trips(l) > 1;
  });
  if (sum == nest(s).loops.end() || !sum->extent.is_constant()) return false;
  const std::string loop = sum->name;
  const int64_t n = trips(*sum), fewest = (bytes + limits_.l2 / 8 - 1) / (limits_.l2 / 8);
  int64_t parts = fewest;
  while (parts <= 2 * fewest && n % parts) parts++;
  if (n % parts || n / parts < 16) return false;
  if (!ask(s, "parts", 1, {0, 1})) return false;
  tile.parts = split(s, loop, n / parts).first;
  return true;
}

/// Does one array hold several fields of blocks (codes and scales), through which the sum goes
/// along different loops?
bool DefaultScheduler::reads_fields(StageId s) const {
  std::map<ValueId, std::set<std::vector<bool>>> ways; // by value: which summed loops move a load
  visit_loads(stage(s), [&](const FormulaLoad& f) {
    if (value_at(f.value).role != ValueRole::input) return;
    std::vector<bool> moves;
    for (const StageLoop& l : nest(s).loops)
      if (l.symbol.is_symbol() && loop_reduces(s, l))
        moves.push_back(varies(over_loops(nest(s), f.index), l.symbol));
    ways[f.value].insert(std::move(moves));
  });
  return std::ranges::any_of(ways, [](auto& w) { return w.second.size() > 1; });
}

/// What comes from memory along the lanes is asked for two kilobytes ahead: far enough for rows
/// that are multiplied slowly; further ahead, the processor's own guesses and these requests are
/// two streams in each other's way.
void DefaultScheduler::prefetch_stream(StageId s, const std::string& lanes,
                                       const std::vector<std::string>& reduced, bool row) {
  const Expr lane = nest(s).find(lanes)->symbol;
  struct Use {
    std::map<size_t, int>
        loops; // the innermost reduced ones along which its loads move, by place; how many loads
    std::set<Expr, ExprLess> places; // that are read in each trip of them
  };
  std::map<ValueId, Use> uses; // by value
  visit_loads(stage(s), [&](const FormulaLoad& f) {
    if (value_at(f.value).role != ValueRole::input) return;
    const std::vector<Expr> at = over_loops(nest(s), f.index);
    if (!varies(at, lane)) return;
    size_t loop = reduced.size();
    for (size_t i = 0; i < reduced.size(); i++)
      if (const Expr symbol = nest(s).find(reduced[i])->symbol; symbol.is_symbol() && varies(at, symbol))
        loop = i;
    if (loop == reduced.size()) return;
    uses[f.value].loops[loop]++;
    uses[f.value].places.insert(layout_offset(value_at(f.value), at));
  });
  for (auto& [value, use] : uses) {
    if (use.places.size() < 2) continue; // a line for each trip: scales
    const ConeValue& v = value_at(value);
    int64_t bytes = int64_t(use.places.size()) * limits_.lanes * 4;
    const auto loops = std::views::reverse(use.loops);
    const std::string& inner =
        reduced[std::ranges::max_element(loops, {}, [](auto& l) { return l.second; })->first];
    std::string far = inner;
    if (use.loops.size() > 1) { // codes and scales in one array: they move alike from block to block
      // One row is multiplied as fast as they come, and the processor follows that by itself (two
      // workers: 61-92 against 76-99 %).
      if (row) continue;
      far.clear();
      for (auto& name : reduced) {
        const Expr symbol = nest(s).find(name)->symbol;
        const auto step = symbol.is_symbol() ? coefficient_of(*use.places.begin(), symbol) : std::nullopt;
        if (!step || !step->is_constant() || step->is_constant(0) ||
            !std::ranges::all_of(use.places, [&](Expr e) { return coefficient_of(e, symbol) == step; }))
          continue;
        far = name;
        bytes = std::abs(step->value()) * bits(v.dtype) / 8;
      }
      if (far.empty()) continue;
    }
    const int64_t usual = std::max<int64_t>(1, 2048 / std::max<int64_t>(1, bytes));
    if (const int64_t trips = ask(s, "prefetch", usual, {0, usual * 2, usual * 4}); trips > 0)
      try_add(DirectiveKind::prefetch, {stage(s).name, v.name, far, inner}, {trips});
  }
}

/// Windows with steps of several that come from memory, in loads that overlap in every line: too
/// many requests for the processor to see the rows. Those of later tiles are asked for.
void DefaultScheduler::prefetch_windows(StageId s, const std::string& lanes, const std::string& tiles,
                                        const std::string& inner) {
  if (!reads_windows(s)) return;
  const Expr lane = nest(s).find(lanes)->symbol, tile = nest(s).find(tiles)->symbol,
             step = nest(s).find(inner)->symbol;
  std::set<ValueId> values;
  visit_loads(stage(s), [&](const FormulaLoad& f) {
    if (value_at(f.value).role != ValueRole::input) return;
    const std::vector<Expr> at = over_loops(nest(s), f.index);
    const bool rows = tile.is_symbol() && step.is_symbol() && std::ranges::any_of(at, [&](Expr e) {
                        return depends_on(e, tile) && depends_on(e, step);
                      });
    // (Rows that lie in neighbouring lines are a run to the processor: then requests of ours are in
    // its way.)
    const ConeValue& v = value_at(f.value);
    const auto apart = coefficient_of(layout_offset(v, at), step);
    const bool run = apart && apart->is_constant() &&
                     std::abs(apart->value()) * int64_t(std::max(1, bits(v.dtype) / 8)) <= 2 * 64;
    if (rows && !run && step_of(nests_.cone, f.value, at, lane) == Step::near &&
        bytes_read(s, f.value, tiles).second > limits_.l2)
      values.insert(f.value);
  });
  for (ValueId value : values) prefetch_value(s, value, {tiles, inner}, 4, {0, 2, 8});
}

/// Does a fold read places that vary with kept and summed axes at once?
bool DefaultScheduler::reads_windows(StageId s) const {
  const std::vector<AxisId> reduced = reduced_axes(stage(s));
  bool windows = false;
  for (auto& c : stage(s).components) {
    if (c.kind != ComponentKind::fold) continue;
    visit_loads(c.body, [&](const FormulaLoad& f) {
      for (Expr e : f.index) {
        bool sums = false, keeps = false;
        for (AxisId a : stage(s).axes)
          if (depends_on(e, axis_at(a).symbol)) (contains(reduced, a) ? sums : keeps) = true;
        windows |= sums && keeps;
      }
    });
  }
  return windows;
}

/// The sum goes forward and backward by turns between parts of the weight, two kilobytes of each at
/// a time: while it is at one, the processor's prefetcher brings the next lines of the others. (1.1
/// to 1.2 x a single stream; rows beside each other are half as fast.)
void DefaultScheduler::to_and_fro(StageId s, const Tile& tile, std::vector<std::string>& kept,
                                  std::vector<std::string>& reduced) {
  constexpr int64_t most = 2560; // bytes of a piece
  std::erase(kept, tile.far);
  int64_t all = 1;
  for (auto& r : reduced) all *= trips(*nest(s).find(r));
  int64_t piece = std::max<int64_t>(1, tile.row_bytes / all);
  for (size_t i = reduced.size(); i-- > 0;) {
    const int64_t n = trips(*nest(s).find(reduced[i]));
    if (piece * n <= most) {
      piece *= n;
      continue;
    }
    int64_t together = std::max<int64_t>(1, most / piece);
    while (n % together) together--;
    const auto at = reduced.begin() + std::ptrdiff_t(i) + 1;
    if (together == 1) {
      reduced.insert(at, tile.far);
    } else {
      const auto [outside, inside] = split(s, reduced[i], together);
      reduced[i] = outside;
      reduced.insert(at, {tile.far, inside});
    }
    return;
  }
  reduced.insert(reduced.begin(), tile.far);
}

DefaultScheduler::Tile DefaultScheduler::choose_tile(StageId s, const std::string& lanes,
                                                     const std::vector<std::string>& common) {
  Tile tile;
  if (stage(s).monoid || stage(s).scan_axis) return tile;
  bool across = loop_reduces(s, *nest(s).find(lanes));
  int folds = 0;
  for (auto& c : stage(s).components) folds += c.kind == ComponentKind::fold;
  std::vector<Row> rows = rows_of(s, lanes, common);
  // The outer part of the lanes' own loop is not a row: it is the other side of the tile.
  int64_t budget = std::max<int64_t>(1, limits_.vector_registers / 2 / folds); // accumulators
  if (across) {
    dot_tile(s, lanes, std::move(rows), budget, tile);
    return tile;
  }
  auto unroll = [&](const std::string& loop, int64_t f) {
    if (f < 2) return;
    std::string inner = loop;
    if (!nest(s).find(loop)->extent.is_constant(f)) inner = split(s, loop, f).second;
    tile.unrolled.push_back(inner);
    budget /= f;
  };
  // Lanes along a kept axis: a few vectors side by side, times a few rows.
  std::string beside; // the loop just outside of the lanes
  for (size_t l = 0; l + 1 < nest(s).loops.size(); l++)
    if (nest(s).loops[l + 1].name == lanes && !loop_reduces(s, nest(s).loops[l]) &&
        nest(s).loops[l].symbol.is_symbol()) {
      // Only the outer part of the lanes' own axis.
      for (AxisId a : stage(s).axes) {
        Expr axis = axis_at(a).symbol;
        if (depends_on_loop(nest(s), axis, nest(s).loops[l]) &&
            depends_on_loop(nest(s), axis, nest(s).loops[l + 1]))
          beside = nest(s).loops[l].name;
      }
    }
  std::erase_if(rows, [&](auto& r) { return r.loop == beside; });
  const bool alone = rows.size() == 1 && rows[0].vectors && rows[0].bytes > limits_.l2,
             windows = std::ranges::any_of(rows, &Row::overlaps);
  if (beside.empty() && !windows && (alone || (rows.size() == 2 && rows[0].vectors != rows[1].vectors))) {
    const size_t v = rows[0].vectors ? 0 : 1;
    weight_tile(s, alone ? nullptr : &rows[1 - v], rows[v], budget, tile);
    return tile;
  }
  // Rows that share their vectors come first: one load for all of them. A number of rows that is
  // known needs no body for what is left over. Of numbers that are not known the inner one comes first: a
  // batch is often smaller than a tile, and its rows lie far apart.
  const auto worth = [](const Row& r) {
    return std::tuple(!r.vectors, r.overlaps, r.constant && r.trips % 4 == 0, r.trips, r.inner);
  };
  std::ranges::stable_sort(rows, [&](auto& a, auto& b) { return worth(a) > worth(b); });
  const auto up_to = [](int64_t most) {
    std::vector<int64_t> factors;
    for (int64_t f : {1, 2, 3, 4, 6, 8})
      if (f <= most) factors.push_back(f);
    return factors;
  };
  const bool has_beside = !beside.empty() && !contains(common, beside);
  int64_t usual_vectors = limits_.vector_registers >= 32 ? 4 : 2;
  if (!rows.empty()) {
    int64_t usual = std::min<int64_t>(rows[0].trips, 4);
    // What is left of a number of vectors that is not known is worked off one after the other: in tiles of
    // few vectors that is less, and in tiles of many rows it has as many sums as hide a multiply-add.
    if (has_beside && usual_vectors == 4 && !nest(s).find(beside)->extent.is_constant() && rows[0].constant &&
        rows[0].trips % 8 == 0)
      usual = 8, usual_vectors = 2;
    // Rows of windows overlap: what is read for one stays in registers for the next, beside the
    // sums. As many as divide leave none over.
    if (rows[0].vectors && reads_windows(s)) {
      const int64_t beside_each = has_beside ? std::min(usual_vectors, trips(*nest(s).find(beside))) : 1,
                    most = std::clamp<int64_t>(limits_.vector_registers / 4 / beside_each, 1, rows[0].trips);
      usual = most;
      for (int64_t r = most; r > most / 2 && rows[0].constant; r--)
        if (rows[0].trips % r == 0) {
          usual = r;
          break;
        }
    }
    unroll(rows[0].loop, ask(s, "rows", usual, up_to(rows[0].trips)));
  }
  if (has_beside) {
    const int64_t most = std::min(trips(*nest(s).find(beside)), std::max<int64_t>(budget, 1)),
                  each = rows.empty() ? std::max<int64_t>(trips(*nest(s).find(beside)) / limits_.threads, 1)
                                      : most; // where there is nothing else to distribute to workers
    unroll(beside, ask(s, "vectors", std::min({usual_vectors, most, each}), up_to(most)));
  }
  return tile;
}

void DefaultScheduler::order_loops(const std::string& stage_name,
                                   std::initializer_list<std::vector<std::string>> loops) {
  std::vector<std::string> words{stage_name};
  for (const auto& some : loops) words.insert(words.end(), some.begin(), some.end());
  add(DirectiveKind::order, words);
}

} // namespace luminal::kernel
