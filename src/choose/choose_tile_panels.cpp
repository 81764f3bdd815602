// choose/choose_tile_panels.cpp -- sums of products on tile registers, of which one operand lies in panels of
// words already: panel, word of the sum, column.
#include "base/contains.h"
#include "choose/default_scheduler.h"
#include "cone/formula.h"
#include "loop/unit.h"
#include <algorithm>

namespace luminal::kernel {
namespace {
constexpr int64_t rows_of_tiles = 2;   // tiles, one below the other
constexpr int64_t rows_of_block = 224; // what passes by a block of panels
constexpr int64_t words_of_block = 256;
} // namespace

/// The loops of such a product; none where it is not one.
std::optional<DefaultScheduler::TilePanels> DefaultScheduler::tile_panels(StageId s, const Unit& tile) const {
  const Stage& st = stage(s);
  const auto written = std::ranges::find_if(st.components, [](auto& c) { return bool(c.out); });
  if (!st.domain.is_constant(1) || st.components[0].kind != ComponentKind::fold || st.components[0].init ||
      written == st.components.end() ||
      std::ranges::any_of(st.components.begin() + 1, st.components.end(), [](auto& c) { return !c.after; }))
    return {};
  const std::span<const FormulaRef> step = args_of(*st.components[0].body);
  if (!st.components[0].body->is<FormulaUserOp>() || step.size() != 3) return {};
  const FormulaLoad* const loads[] = {load_of(*step[1]), load_of(*step[2])};
  if (!loads[0] || !loads[1] || !loads[0]->guard.is_constant(1) || !loads[1]->guard.is_constant(1)) return {};
  const Component& out = *written;
  const auto step_in = [&](ValueId value, const std::vector<Expr>& index, const StageLoop& l) {
    return coefficient_of(layout_offset(value_at(value), over_loops(nest(s), index)), l.symbol);
  };
  // Steps of both operands along a loop, in words; of the results, in elements.
  const auto words = [&](size_t i, const StageLoop& l) -> std::optional<int64_t> {
    const int64_t elements = bits(DType::u32) / bits(value_at(loads[i]->value).dtype);
    const auto along = step_in(loads[i]->value, loads[i]->index, l);
    if (!along || !along->is_constant() || along->value() % elements != 0) return {};
    return along->value() / elements;
  };
  const auto moves = [&](size_t i, const StageLoop& l) {
    return varies(over_loops(nest(s), loads[i]->index), l.symbol);
  };
  TilePanels p;
  p.open = st.components.size() == 1;
  size_t panel = 2; // which operand lies so
  for (const StageLoop& l : nest(s).loops) {
    const auto along = step_in(out.out, out.index, l);
    if (!l.symbol.is_symbol() || loop_reduces(s, l) || !l.extent.is_constant(tile.n) || !along ||
        !along->is_constant(1))
      continue;
    for (const size_t i : {0, 1})
      if (moves(i, l) && !moves(1 - i, l) && words(i, l) == 1) p.lanes = l.name, panel = i;
  }
  if (panel == 2) return {};
  p.value = loads[panel]->value;
  for (const StageLoop& l : nest(s).loops) {
    if (l.name == p.lanes) continue;
    if (!l.symbol.is_symbol()) {
      p.single.push_back(l.name);
      continue;
    }
    const bool columns = moves(panel, l), rows = moves(1 - panel, l);
    std::string* role = nullptr;
    if (loop_reduces(s, l)) {
      if (words(panel, l) != tile.n || words(1 - panel, l) != 1 || !l.extent.is_constant()) return {};
      role = &p.words;
      p.deep = trips(l);
    } else if (columns && !rows && l.extent.is_constant()) {
      role = &p.panels;
      p.count = trips(l);
    } else if (rows && !columns) {
      role = &p.rows;
      p.most_rows = trips(l);
    }
    if (!role || !role->empty()) return {};
    *role = l.name;
  }
  if (p.words.empty() || p.panels.empty() || p.rows.empty() || p.deep < tile.k) return {};
  return p;
}

/// Blocks of panels that the second cache holds, and parts of the sum that the first one does, pass by
/// blocks of rows; two by two tiles of results.
void DefaultScheduler::panels_on_tiles(StageId s, const TilePanels& p, const Unit& tile) {
  const std::string name = stage(s).name;
  const int64_t bytes = tile.n * 4 * std::min(p.deep, words_of_block),
                most = std::max<int64_t>(1, limits_.l2 / 2 / bytes), threads = limits_.threads;
  const int64_t blocks = round_up((p.count + most - 1) / most, threads),
                share = std::max<int64_t>(2, round_up((p.count + blocks - 1) / blocks, 2));
  const auto [panels, of_block] = split(s, p.panels, ask(s, "share", share, {}));
  const auto [pair, vector] = split(s, of_block, p.count % 2 == 0 ? 2 : 1);
  const auto [blocks_of_rows, of_rows] = split(s, p.rows, rows_of_block);
  const auto [tiles, row] = split(s, of_rows, rows_of_tiles * tile.m);
  std::vector<std::string> parts, words{p.words};
  if (p.deep > words_of_block && p.open) {
    const int64_t pieces = (p.deep + words_of_block - 1) / words_of_block;
    const auto [part, inside] = split(s, p.words, round_up((p.deep + pieces - 1) / pieces, tile.k));
    parts = {part}, words = {inside};
  }
  order_loops(name,
              {p.single, {panels}, parts, {blocks_of_rows, pair, tiles}, words, {row, vector, p.lanes}});
  add(DirectiveKind::parallel, {name, panels});
  add(DirectiveKind::vector, {name, p.lanes});
  add(DirectiveKind::unroll, {name, row, vector});
  prefetch_next_panel(s, p.value, pair, words[0]);
  done_ = s;
}

/// The unit, for products that lie so; panels_on_tiles() makes their loops.
bool DefaultScheduler::panels_in_tiles(const std::string& name, const std::string& unit) {
  Attempt attempt = begin();
  if (!try_add(DirectiveKind::unit, {name, unit})) return false;
  const StageId s = nests_.stage(name);
  const auto p = tile_panels(s, *find_unit(unit));
  const bool known = p && nest(s).find(p->rows)->extent.is_constant();
  if (p && (known ? p->most_rows >= fewest_of_panels : any_rows_) &&
      decisions_.ask_whether(name + ".in_tiles", true)) {
    tiles_from_ = fewest_of_panels;
    tile_rows_ = known ? p->most_rows : 1;
    tile_axis_ = known ? "" : p->rows;
    panel_units_[name] = unit;
    return true;
  }
  undo(std::move(attempt));
  return false;
}

} // namespace luminal::kernel
