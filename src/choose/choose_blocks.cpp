// choose/choose_blocks.cpp -- sums of the sums of blocks (weights in blocks with a scale each):
// each block's sum is made in registers, where the outer sum takes it from.
#include "base/contains.h"
#include "choose/default_scheduler.h"
#include "cone/formula.h"
#include <algorithm>

namespace luminal::kernel {

/// The stage and the next one as a sum over blocks of sums within blocks, lanes along an axis that
/// both keep; nothing where they are something else.
std::optional<DefaultScheduler::BlockSums> DefaultScheduler::block_sums(StageId s) const {
  if (s + 1 >= nests_.cone.stages.end_id()) return {};
  const auto plain_sum = [](const Stage& st) {
    return st.components.size() == 1 && st.components[0].kind == ComponentKind::fold &&
           st.components[0].op == Op::add && !st.components[0].init && !st.monoid && !st.scan_axis &&
           st.components[0].out && st.domain.is_constant(1) && st.needed.is_constant(1);
  };
  const Stage &inner = stage(s), &outer = stage(s + 1);
  if (!plain_sum(inner) || !plain_sum(outer)) return {};
  const ValueId sums = inner.components[0].out;
  if (value_at(sums).role != ValueRole::interior || nests_.readers(sums) != std::vector<StageId>{s + 1} ||
      inner.components[0].axes != [&] {
        std::vector<AxisId> axes = outer.axes;
        std::ranges::sort(axes);
        return axes;
      }())
    return {};
  bool same = true;
  visit_loads(outer,
              [&](const FormulaLoad& f) { same &= f.value != sums || f.index == inner.components[0].index; });
  if (!same) return {};
  const std::vector<AxisId> blocks = reduced_axes(outer), within = reduced_axes(inner);
  const auto has = [](const std::vector<AxisId>& axes, AxisId a) { return contains(axes, a); };
  BlockSums b;
  for (AxisId a : inner.axes) {
    const ConeAxis& axis = axis_at(a);
    if (has(blocks, a) || has(within, a)) {
      if (!axis.extent.is_constant() || axis.extent.is_constant(0)) return {};
      (has(blocks, a) ? b.blocks : b.within).push_back(axis.name);
      if (has(within, a)) b.steps *= axis.extent.value();
      continue;
    }
    b.kept.push_back(axis.name);
    if (!axis.symbol.is_symbol()) continue;
    // Lanes: rows of a weight beside each other, each byte in the word of its row, or alone.
    const AxisUse in = use_along(nests_, s, axis.symbol), out = use_along(nests_, s + 1, axis.symbol);
    int words = 0;
    visit_loads(inner, [&](const FormulaLoad& f, DType dtype) {
      if (bits(dtype) == 8 && bits(value_at(f.value).dtype) == 8)
        words += step_of(nests_.cone, f.value, f.index, axis.symbol, 4) == Step::contiguous;
    });
    if (b.lanes.empty() && axis.extent.is_constant() && axis.extent.value() % limits_.lanes == 0 &&
        in.contiguous + words > 1 && in.near == words &&
        in.strided + in.irregular + out.near + out.strided + out.irregular == 0 && out.store_contiguous)
      b.lanes = axis.name;
  }
  if (b.lanes.empty() || b.blocks.empty() || b.within.empty() || b.steps > 512) return {};
  std::erase(b.kept, b.lanes);
  // Rows of the other operand: what is read along the lanes does not move there.
  const Expr lane = nest(s).find(b.lanes)->symbol;
  for (const std::string& name : b.kept) {
    const Expr symbol = nest(s).find(name)->symbol;
    if (!symbol.is_symbol()) continue;
    bool rows = true;
    visit_loads(inner, [&](const FormulaLoad& f) {
      if (varies(f.index, lane)) rows &= !varies(f.index, symbol);
    });
    if (rows && b.rows.empty()) b.rows = name;
  }
  std::erase(b.kept, b.rows);
  return b;
}

/// Blocks that come from memory are asked for two pages ahead: while one is unpacked, the processor
/// does not see far enough. Where other things lie between the blocks (their scales), groups of
/// them are; but one row leaves those to the processor, as lines between them would be waited for.
void DefaultScheduler::prefetch_blocks(StageId s, const BlockSums& b, bool several_rows) {
  constexpr int64_t distance = 8 << 10; // bytes
  const std::string& far = b.blocks.back();
  const StageLoop* around = b.blocks.size() > 1 ? nest(s).find(b.blocks[b.blocks.size() - 2]) : nullptr;
  const std::string& inner = b.within.empty() ? far : b.within.back();
  const Expr lane = nest(s).find(b.lanes)->symbol, along = nest(s).find(far)->symbol;
  if (!along.is_symbol()) return;
  std::map<ValueId, std::pair<int64_t, std::string>> blocks; // bytes of one, and the loop over them, by value
  visit_loads(stage(s), [&](const FormulaLoad& f) {
    const ConeValue& value = value_at(f.value);
    if (value.role != ValueRole::input || bytes_read(s, f.value, far).second <= limits_.l2 / 4) return;
    const Expr offset = layout_offset(value, over_loops(nest(s), f.index));
    const std::optional<Expr> step = coefficient_of(offset, along);
    if (!depends_on(offset, lane) || !step || !step->is_constant()) return;
    const std::optional<Expr> group =
        around && around->symbol.is_symbol() ? coefficient_of(offset, around->symbol) : std::nullopt;
    const bool grouped = group && group->is_constant() && !(*group == *step * nest(s).find(far)->extent);
    if (grouped && !several_rows) return;
    blocks[f.value] = {std::abs((grouped ? group : step)->value()) * bits(value.dtype) / 8,
                       grouped ? around->name : far};
  });
  for (auto& [value, block] : blocks) {
    const auto& [bytes, loop] = block;
    if (bytes < 1) continue;
    const int64_t usual = std::max<int64_t>(1, distance / bytes);
    prefetch_value(s, value, {loop, inner}, usual, {0, usual * 2});
  }
}

/// In the stage of the blocks and in the one behind it.
std::pair<std::string, std::string> DefaultScheduler::split_both(StageId s, const std::string& loop,
                                                                 int64_t factor) {
  auto names = split(s, loop, factor);
  add(DirectiveKind::split, {stage(s + 1).name, loop, names.first, names.second}, {factor});
  return names;
}

/// Axes made of blocks are cut along them, in both stages alike where they share the loops.
void DefaultScheduler::cut_at_blocks(StageId s, std::vector<std::string>& loops, bool shared) {
  for (size_t i = 0; i < loops.size(); i++) {
    const StageLoop loop = *nest(s).find(loops[i]);
    if (!loop.symbol.is_symbol() || !loop.extent.is_constant()) continue;
    std::vector<int64_t> steps = blocks_of(nests_.cone, stage(s), loop.symbol);
    if (shared)
      for (int64_t step : blocks_of(nests_.cone, stage(s + 1), loop.symbol)) steps.push_back(step);
    std::ranges::sort(steps);
    steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
    int64_t extent = loop.extent.value();
    for (size_t k = steps.size(); k-- > 0;) {
      if (extent <= steps[k] || extent % steps[k]) continue;
      const auto [o, in] = shared ? split_both(s, loops[i], steps[k]) : split(s, loops[i], steps[k]);
      loops[i] = in;
      loops.insert(loops.begin() + std::ptrdiff_t(i++), o);
      extent = steps[k];
    }
  }
}

/// Parts of the last loop that is long enough, which are summed side by side: their loop and number.
/// `width`: vectors that each of them has.
std::pair<std::string, int64_t> DefaultScheduler::sum_chains(StageId s, BlockSums& b, int64_t width,
                                                             int64_t budget) {
  std::string chain;
  int64_t chains = 1;
  for (size_t i = b.within.size(); i-- > 0 && chain.empty();) {
    const int64_t steps = trips(*nest(s).find(b.within[i]));
    int64_t usual = 4;
    while (usual > 1 && (usual * width > budget || steps % usual)) usual /= 2;
    std::vector<int64_t> options;
    for (int64_t c : {1, 2, 4, 8})
      if (steps % c == 0) options.push_back(c);
    if (steps < 4) continue;
    chains = ask(s, "chains", usual, options);
    if (chains == 1) break;
    if (chains == steps) {
      chain = b.within[i];
      b.within.erase(b.within.begin() + std::ptrdiff_t(i));
    } else {
      std::tie(b.within[i], chain) = split(s, b.within[i], chains);
    }
  }
  return {chain, chains};
}

/// `width`: vectors of one step.
void DefaultScheduler::jam_blocks(StageId s, const BlockSums& b, const std::vector<std::string>& part_blocks,
                                  int64_t width) {
  // Bodies that are long enough for the processor to look ahead.
  for (size_t i = b.within.size(); i-- > 0;)
    if (const StageLoop* l = nest(s).find(b.within[i]); l->symbol.is_symbol()) {
      int64_t usual = 8;
      while (usual > 1 && usual * width > 64) usual /= 2;
      if (const int64_t bodies = ask(s, "bodies", std::min(usual, trips(*l)), {1, 2, 4, 8, 16}); bodies > 1)
        add(DirectiveKind::jam, {stage(s).name, b.within[i]}, {std::min(bodies, trips(*l))});
      break;
    }
  // What is computed from a position (shifts of packed bits) is constant where the few trips are
  // written out.
  for (auto& l : part_blocks) add(DirectiveKind::jam, {stage(s + 1).name, l}, {trips(*nest(s + 1).find(l))});
  for (auto* loops : {&b.blocks, &b.within})
    for (auto& l : *loops) {
      const StageLoop loop = *nest(s).find(l);
      bool places = false;
      visit_stage(stage(s), [&](const Formula& f) {
        const auto* place = f.as<FormulaIndex>();
        places |=
            place && loop.symbol.is_symbol() && varies(over_loops(nest(s), {place->value}), loop.symbol);
      });
      if (places && loop.jam == 1 && trips(loop) <= 8)
        add(DirectiveKind::jam, {stage(s).name, l}, {trips(loop)});
    }
}

/// Loops of both stages: what is left of the kept axes, tiles of rows, blocks. Within a block a
/// register tile: chains of sums that do not wait for each other, or rows that share what is
/// unpacked.
void DefaultScheduler::block_tiles(StageId s, BlockSums b) {
  const std::string inner = stage(s).name, outer = stage(s + 1).name;
  const auto both = [&](const std::string& loop, int64_t factor) { return split_both(s, loop, factor); };
  cut_at_blocks(s, b.blocks, true);
  cut_at_blocks(s, b.within, false);
  // Loops along which the weight does not move: parts of what was read already (halves of a byte).
  // They are written out inside the lanes.
  const auto reads_along = [&](const std::string& loop) {
    const Expr symbol = nest(s).find(loop)->symbol, lane = nest(s).find(b.lanes)->symbol;
    bool moves = !symbol.is_symbol();
    visit_loads(stage(s), [&](const FormulaLoad& f) {
      const auto along = [&](Expr e) { return varies(over_loops(nest(s), f.index), e); };
      moves |= along(lane) && along(symbol);
    });
    return moves;
  };
  std::vector<std::string> parts, part_blocks;
  int64_t together = 1;
  for (auto [from, to] : {std::pair(&b.within, &parts), std::pair(&b.blocks, &part_blocks)})
    for (size_t i = from->size(); i-- > 0 && from->size() > 1;)
      if (const int64_t n = trips(*nest(s).find((*from)[i])); !reads_along((*from)[i]) && together * n <= 4) {
        together *= n;
        to->insert(to->begin(), (*from)[i]);
        from->erase(from->begin() + std::ptrdiff_t(i));
      }
  // Vectors of lanes.
  std::string vectors;
  if (const StageLoop* l = nest(s).find(b.lanes); !l->extent.is_constant(limits_.lanes)) {
    together *= trips(*l) / limits_.lanes;
    std::tie(vectors, b.lanes) = both(b.lanes, limits_.lanes);
  }
  const int64_t budget = std::max<int64_t>(1, limits_.vector_registers / 2);
  int64_t rows = 1;
  bool several_rows = false; // at any rate
  std::string row;
  if (!b.rows.empty()) {
    const StageLoop l = *nest(s).find(b.rows);
    several_rows = l.extent.is_constant() && l.extent.value() > 1;
    rows = std::clamp<int64_t>(budget / together, 1, 8);
    rows = std::min(ask(s, "rows", std::min(rows, trips(l)), {1, 2, 4, 6, 8, 12}), trips(l));
    if (l.extent.is_constant(rows)) {
      row = b.rows;
    } else {
      std::string tiles;
      std::tie(tiles, row) = both(b.rows, rows);
      b.kept.push_back(tiles);
    }
  }
  const auto [chain, chains] = sum_chains(s, b, rows * together, budget);
  std::vector<std::string> order_in{inner}, order_out{outer};
  for (auto* loops : {&b.kept, &b.blocks})
    for (auto& l : *loops) order_in.push_back(l), order_out.push_back(l);
  order_out.insert(order_out.end(), part_blocks.begin(), part_blocks.end());
  order_in.insert(order_in.end(), b.within.begin(), b.within.end());
  for (const std::string& l : {vectors, b.lanes})
    if (!l.empty()) order_in.push_back(l), order_out.push_back(l);
  const auto append = [](std::vector<std::string>& to, const std::vector<std::string>& from) {
    for (auto& l : from)
      if (!l.empty()) to.push_back(l);
  };
  for (auto& some : {std::vector{chain}, parts, part_blocks, std::vector{row}}) append(order_in, some);
  append(order_out, {row});
  add(DirectiveKind::order, order_in);
  add(DirectiveKind::order, order_out);
  for (const std::string& name : {inner, outer}) {
    add(DirectiveKind::vector, {name, b.lanes});
    std::vector<std::string> unrolled{name};
    append(unrolled, {vectors});
    if (name == inner)
      for (auto& some : {std::vector{chain}, parts, part_blocks}) append(unrolled, some);
    append(unrolled, {row});
    if (unrolled.size() > 1) add(DirectiveKind::unroll, unrolled);
  }
  jam_blocks(s, b, part_blocks, rows * chains * together);
  for (auto& l : b.kept)
    if (const StageLoop* loop = nest(s).find(l); loop->symbol.is_symbol()) {
      add(DirectiveKind::parallel, {inner, l});
      add(DirectiveKind::parallel, {outer, l});
      break;
    }
  prefetch_blocks(s, b, several_rows);
  add(DirectiveKind::at, {outer, b.blocks.back()});
  done_ = s + 1;
}

} // namespace luminal::kernel
