// choose/choose_prefetch.cpp -- what the default schedule prefetches, and what it
// writes past the caches.
#include "base/contains.h"
#include "choose/default_scheduler.h"
#include "cone/formula.h"
#include <algorithm>

namespace luminal::kernel {

/// Bytes of a value that the stage reads in one trip of `loop`, and in all.
std::pair<int64_t, int64_t> DefaultScheduler::bytes_read(StageId s, ValueId value, const std::string& loop) {
  const int64_t most = int64_t{1} << 40;
  int64_t once = 0, all = 0;
  visit_loads(stage(s), [&](const FormulaLoad& f, DType dtype) {
    if (f.value != value) return;
    const int64_t element = std::max(1, bits(dtype) / 8); // of a word, where words are read
    int64_t inside = element, whole = element;
    bool moves = false;
    for (auto& l : nest(s).loops) {
      if (!l.symbol.is_symbol() || !varies(over_loops(nest(s), f.index), l.symbol)) continue;
      moves |= l.name == loop;
      whole = std::min(whole * trips(l), most);
      if (l.name != loop) inside = std::min(inside * trips(l), most);
    }
    if (!moves) return;
    once = std::max(once, inside), all = std::max(all, whole);
  });
  return {once, all};
}

/// The last of the loops that run step by step.
std::string DefaultScheduler::innermost(StageId s) const {
  std::string name;
  for (auto& l : nest(s).loops)
    if (l.kind == LoopKind::serial && l.symbol.is_symbol()) name = l.name;
  return name;
}

/// Where stages walk the same rows one after the other, only the first would wait for memory, and
/// memory for the others: they ask for later rows meanwhile. Asking twice, early and then again
/// just before, is what reaches the limit: a hint may be dropped.
void DefaultScheduler::prefetch_reads(const std::string& shared) {
  for (const ValueId v : nests_.cone.values.ids()) {
    const ConeValue& value = nests_.cone.values[v];
    const std::vector<StageId> readers = nests_.readers(v);
    if (value.role != ValueRole::input || readers.empty()) continue;
    const auto [row, all] = bytes_read(readers.back(), v, shared);
    if (row == 0 || row > limits_.l2 / 8 || all <= limits_.l2) continue;
    for (const int64_t ahead : {2, 1}) { // the last reader, and the one before
      const size_t before = 2 - size_t(ahead);
      if (before >= readers.size()) continue;
      const StageId s = readers[readers.size() - 1 - before];
      const std::string inner = innermost(s);
      if (inner.empty() || inner == shared) continue;
      const int64_t rows = decisions_.ask(stage(s).name + ".prefetch." + value.name,
                                          readers.size() > 1 ? ahead : 1, {0, 1, 2, 3});
      if (rows > 0) try_add(DirectiveKind::prefetch, {stage(s).name, value.name, shared, inner}, {rows});
    }
  }
}

/// What maps write and no cache could hold until its reader comes is written past the caches.
void DefaultScheduler::streams() {
  for (const StageId s : nests_.cone.stages.ids())
    for (auto& c : stage(s).components) {
      if (c.kind != ComponentKind::map || c.after || !c.out) continue;
      const ConeValue& value = value_at(c.out);
      if (value.role != ValueRole::output || !nests_.readers(c.out).empty() || nests_.streams.contains(c.out))
        continue;
      int64_t bytes = std::max(1, bits(value.dtype) / 8);
      for (Expr extent : value.shape)
        bytes = extent.is_constant() ? std::min(bytes * extent.value(), int64_t{1} << 40) : 0;
      if (bytes * 2 > limits_.l3 && decisions_.ask_whether(value.name + ".stream", bytes > limits_.l3))
        add(DirectiveKind::stream, {value.name});
    }
}

/// What the stage reads of the kernel's inputs in its sums and maps.
std::vector<ValueId> DefaultScheduler::inputs_of(StageId s) const {
  std::vector<ValueId> values;
  for (const Component& c : stage(s).components)
    visit_loads(c.body, [&](const FormulaLoad& f) {
      if (value_at(f.value).role == ValueRole::input && !contains(values, f.value)) values.push_back(f.value);
    });
  return values;
}

/// The elements of a value that a later trip of the first loop touches, asked for in the second
/// one: so many trips ahead, 0 for not at all.
void DefaultScheduler::prefetch_value(StageId s, ValueId value, const std::vector<std::string>& loops,
                                      int64_t usual, std::vector<int64_t> options) {
  const std::string& name = value_at(value).name;
  const int64_t trips = ask(s, ("ahead." + name).c_str(), usual, std::move(options));
  if (trips <= 0) return;
  std::vector<std::string> words{stage(s).name, name};
  words.insert(words.end(), loops.begin(), loops.end());
  try_add(DirectiveKind::prefetch, words, {trips});
}

/// Operands that lie in memory batch by batch are asked for some batches ahead: the runs are too
/// short for the processor's own guess.
int64_t DefaultScheduler::prefetch_batches(StageId s, const std::vector<ValueId>& values,
                                           const std::string& batch, const std::string& inner) {
  int64_t once = 0, all = 0;
  for (ValueId value : values) {
    const auto [bytes, total] = bytes_read(s, value, batch);
    once += bytes, all += total;
  }
  if (all <= limits_.l2 || once > limits_.l2 / 4) return 0;
  const int64_t trips = ask(s, "prefetch", 2, {0, 1, 2, 4});
  if (trips > 0)
    for (ValueId value : values)
      if (bytes_read(s, value, batch).first > 0)
        try_add(DirectiveKind::prefetch, {stage(s).name, value_at(value).name, batch, inner}, {trips});
  return trips;
}

/// The same where several stages share the batches: each operand by the stage that reads most of
/// it, of several the last one, where fewer steps do so. What is put together in words comes while
/// they are multiplied: for the copy alone, which takes no time, it would be too much at once.
/// Columns apart are asked for as well: the vectors before them do not begin in all their lines.
void DefaultScheduler::next_batches(const std::string& batch) {
  std::map<ValueId, std::pair<int64_t, StageId>> reads; // by value: bytes, stage
  for (const StageId s : nests_.cone.stages.ids())
    for (ValueId value : inputs_of(s))
      reads[value] = std::max(reads[value], {bytes_read(s, value, batch).first, s});
  for (const StageId s : nests_.cone.stages.ids()) {
    std::vector<ValueId> values;
    for (ValueId value : inputs_of(s))
      if (apart_.empty() ? reads[value].second == s : s == first_stage) values.push_back(value);
    const int64_t ahead = prefetch_batches(s, values, batch, innermost(copies_words(s) ? s + 1 : s));
    if (s == first_stage && !apart_.empty() && ahead > 0)
      for (ValueId value : inputs_of(first_stage + 1))
        try_add(DirectiveKind::prefetch,
                {stage(first_stage + 1).name, value_at(value).name, batch, innermost(first_stage + 1)},
                {ahead});
  }
}

/// An operand that comes from beyond the first cache is asked for one tile ahead.
void DefaultScheduler::prefetch_tiles(StageId s, ValueId value, const std::string& tiles,
                                      const std::string& inner) {
  const ConeValue& v = value_at(value);
  const StageLoop* loop = nest(s).find(tiles);
  if (v.role != ValueRole::input || !loop->symbol.is_symbol() || trips(*loop) < 2 ||
      bytes_read(s, value, tiles).second <= limits_.l1)
    return;
  bool even = true; // in equal steps
  visit_loads(stage(s), [&](const FormulaLoad& f) {
    if (f.value != value) return;
    even = even && coefficient_of(layout_offset(v, over_loops(nest(s), f.index)), loop->symbol).has_value();
  });
  if (even) prefetch_value(s, value, {tiles, inner}, 1, {0, 1});
}

/// Panels that pass by once, from memory, are asked for two pages ahead where multiplying them
/// takes as long as bringing them, which all workers share. (Further ahead, they and rows that lie
/// whole pages apart push each other out of the first cache; where multiplying takes less, and
/// within a page, these requests and the processor's own guesses are in each other's way.)
void DefaultScheduler::prefetch_panels(StageId s, const Product& p, const std::string& panels,
                                       const std::string& depth) {
  constexpr int64_t distance = 8 << 10, uses = 8; // bytes; of four bytes, for each worker
  const ConeValue& v = value_at(p.value);
  const int64_t step = p.columns * bits(v.dtype) / 8;
  if (v.role != ValueRole::input || step < 1 || p.rows * 32 < uses * limits_.threads * bits(v.dtype) ||
      bytes_read(s, p.value, panels).second <= limits_.l2)
    return;
  const int64_t usual = std::max<int64_t>(1, distance / step);
  prefetch_value(s, p.value, {depth, depth}, usual, {0, usual / 2, usual * 2});
}

/// Panels that all tiles pass by come from memory for the first of them: the next one is asked for meanwhile,
/// each line once. (As fast as it multiplies, the processor's own guesses come too late for that.)
void DefaultScheduler::prefetch_next_panel(StageId s, ValueId value, const std::string& panels,
                                           const std::string& inner) {
  const auto [once, all] = bytes_read(s, value, panels);
  if (!limits_.full_rate || value_at(value).role != ValueRole::input || all <= limits_.l2 ||
      once > limits_.l2 * 3 / 8 || trips(*nest(s).find(panels)) < 2)
    return;
  const auto& loops = nest(s).loops;
  const auto outside = std::ranges::find(loops, panels, &StageLoop::name);
  auto tiles = outside + 1;
  while (tiles->name != inner && trips(*tiles) < 2) ++tiles;
  if (tiles->name == inner) --tiles;
  if (tiles == outside || tiles->kind != LoopKind::serial || !tiles->extent.range().is_bounded()) return;
  prefetch_value(s, value, {panels, tiles->name, inner}, 1, {0, 1});
}

/// The results of the next tile are asked for while this one is summed up: sums that go on from
/// there wait for them, and so do the stores.
void DefaultScheduler::prefetch_results(StageId s, const std::string& tiles) {
  const StageLoop* loop = nest(s).find(tiles);
  if (!loop->symbol.is_symbol() || trips(*loop) < 2) return;
  for (auto& c : stage(s).components) {
    if (c.out && value_at(c.out).role == ValueRole::output) prefetch_value(s, c.out, {tiles}, 1, {0, 1});
  }
}

void DefaultScheduler::prefetch_product(StageId s, const Product& p, const ProductBlocks& b,
                                        const ProductLoops& l, const std::vector<std::string>& common) {
  const std::string& inner = l.inner_depth.back();
  if (b.small && p.depth.size() == 1 && common.empty())
    prefetch_batches(s, inputs_of(s), p.outer.back(), inner);
  if (!b.small && !b.tiled && common.empty() && l.inner_depth.size() == 1 && !p.across) {
    // The next rows, and the next columns where no copy brings them. (Not where rows are
    // contiguous: each step of the sum would ask for another line.)
    prefetch_tiles(s, p.other, l.mt, inner);
    // (Beside panels made before nothing is gained, and convolutions lose up to a tenth.)
    if (p.panels.empty() ? p.deep >= 128 : b.depth < p.deep) prefetch_results(s, l.mt);
    // Of short batches, those of the next one.
    const bool of_batch = !p.outer.empty() && p.deep * p.columns * 4 <= limits_.l2 / 2;
    // (Where multiplying is as fast as the second cache, asking for what it holds takes from the loads: each
    // tile of rows would do so. Few of them wait for what it does not hold.)
    const bool waits = !limits_.full_rate || (p.rows < 64 && p.deep * b.all_columns * 4 > limits_.l2);
    if (!b.pack && !b.once && (of_batch || waits))
      prefetch_tiles(s, p.value, of_batch ? p.outer.back() : l.np, inner);
    if (b.once) prefetch_panels(s, p, l.np, inner);
  }
  if (limits_.full_rate && common.empty() && !b.small && !b.tiled && !p.any_size) {
    // What finished sums meet is read at the end of a tile, where nothing is left to do meanwhile. (From the
    // second cache it comes fast enough, and these requests take from the loads.)
    for (const ValueId value : inputs_of(s))
      if (value != p.value && value != p.other && bytes_read(s, value, l.mt).second > limits_.l2)
        prefetch_tiles(s, value, l.mt, inner);
    if (!p.panels.empty() && !b.once) prefetch_next_panel(s, p.value, l.np, inner);
  }
  // Those that come from memory: the next one.
  if (!limits_.full_rate && p.across && !p.panels.empty() && common.empty() && b.of_panels > limits_.l3 / 8 &&
      p.columns * p.deep * 4 <= limits_.l2 * 3 / 8)
    prefetch_tiles(s, p.value, l.np, inner);
}

} // namespace luminal::kernel
