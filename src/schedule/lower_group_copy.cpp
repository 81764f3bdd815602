// schedule/lower_group_copy.cpp -- copies of operands in the memory of a group: one tile, or a ring of tiles
// that are filled while earlier ones are read.
#include "base/contains.h"
#include "cone/formula.h"
#include "schedule/lowering.h"
#include <algorithm>

namespace luminal::kernel {
namespace {

constexpr int64_t most_copy_steps = 64; // steps of a copy, of each lane
constexpr int64_t widest_copy = 16;     // bytes that a lane copies at once

/// Where an expression begins, and how many elements it takes, while `loops` run over all of their trips.
struct Span {
  Expr base, extent;
};
std::optional<Span> span_of(Expr at, const std::vector<StageLoop>& loops) {
  ExprMap<Expr> low, high;
  for (const StageLoop& l : loops) {
    if (!l.symbol.is_symbol() || !depends_on(at, l.symbol)) continue;
    const auto c = coefficient_of(at, l.symbol);
    if (!c || !c->is_constant() || c->value() < 0 || !l.extent.is_constant()) return {};
    low[l.symbol] = 0;
    high[l.symbol] = std::max<int64_t>(l.extent.value() - 1, 0);
  }
  const Expr base = substitute(at, low);
  return Span{base, substitute(at, high) - base + 1};
}

/// Of all copies into the group's memory.
constexpr TokenId copies_in_flight(0);

} // namespace

void StageLowering::place_tiles() {
  for (const GroupCopy& request : l_.n_.stages[stage_].group_copies) {
    const StageLoop& at = *l_.n_.stages[stage_].find(request.loop);
    if (at.lane || at.kind == LoopKind::unrolled)
      refuse("stage {}: lanes do not run the trips of {} together", s_.name, request.loop);
    for (auto& c : s_.components) {
      if (c.after) continue;
      visit_loads(c.body, [&](const FormulaLoad& f, DType dtype) {
        if (f.value != request.value) return;
        if (std::ranges::any_of(tiles_, [&](auto& t) { return t.value == f.value && t.index == f.index; }))
          return;
        tiles_.push_back(tile_of(request, f, dtype));
      });
    }
  }
}

StageLowering::GroupTile StageLowering::tile_of(const GroupCopy& request, const FormulaLoad& load,
                                                DType dtype) const {
  const StageNest& nest = l_.n_.stages[stage_];
  const ConeValue& value = l_.n_.cone.values[request.value];
  if (dtype != value.dtype || bits(value.dtype) < 8 || value.dtype == DType::boolean)
    refuse("stage {} reads {} as {}: it is not copied", s_.name, value.name, luminal::to_string(dtype));
  if (!holes_of(l_.n_.cone, load.index).empty())
    refuse("stage {} finds where it reads {} in memory: it is not copied", s_.name, value.name);
  std::vector<StageLoop> inside; // loops that run within one trip, lanes among them
  bool open = true;
  for (const StageLoop& l : nest.loops) {
    if (l.lane || !open) inside.push_back(l);
    if (l.name == request.loop) open = false;
  }
  GroupTile tile{request.value, request.loop, load.index, {}, request.tiles};
  size_t last = load.index.size(); // the dimension along which a lane's results lie
  for (size_t d = 0; d < load.index.size(); d++) {
    const Expr at = substitute(load.index[d], nest.axis_values);
    const auto span = span_of(at, inside);
    if (!span || !span->extent.is_constant())
      refuse("stage {}: what one trip of {} reads of {} has no constant extent", s_.name, request.loop,
             value.name);
    tile.place.base.push_back(span->base);
    tile.place.extents.push_back(span->extent);
    for (const StageLoop& l : inside)
      if (l.symbol.is_symbol() && depends_on(at, l.symbol) && !(folds_ && reduces(l)) &&
          coefficient_of(at, l.symbol)->is_constant(1))
        last = d;
  }
  const Layout& global = l_.places_[request.value].layout;
  const size_t contiguous = global.empty() ? load.index.size() : size_t(global.back().dim);
  if (last == load.index.size() || nest.lane_unit) last = contiguous;
  for (size_t d = 0; d < load.index.size(); d++)
    if (d != last) tile.place.layout.push_back({int(d)});
  // Rows that are written by columns, or read by them, begin in different banks.
  if (last < load.index.size())
    tile.place.layout.push_back(
        {.dim = int(last),
         .pad = last == contiguous && !nest.lane_unit ? 0 : std::max<int64_t>(1, 128 / bits(value.dtype))});
  Buffer b;
  b.name =
      fmt::format("{}.{}.tile{}", s_.name, value.name, tiles_.empty() ? "" : std::to_string(tiles_.size()));
  b.space = Space::group;
  b.access = Access::scratch;
  b.dtype = value.dtype;
  b.size = layout_size(tile.place.layout, tile.place.extents);
  b.alignment = 16;
  if (const StageLoop& loop = *nest.find(request.loop); loop.symbol.is_symbol() && tile.ring > 1) {
    const int64_t whole = 128 / bits(value.dtype);
    const Expr one = ceildiv(b.size, whole) * whole; // begins at a multiple of 16 bytes
    tile.size = one;
    tile.place.slot = mod(loop.symbol, tile.ring) * one;
    b.size = one * tile.ring;
  }
  tile.place.buffer = add_buffer(l_.kernel_, std::move(b));
  return tile;
}

const StageLowering::GroupTile* StageLowering::tile_of(const FormulaLoad& load) const {
  for (const GroupTile& tile : tiles_)
    if (tile.value == load.value && tile.index == load.index && l_.is_open(tile.loop)) return &tile;
  return nullptr;
}

/// Tiles that the loop has of each operand.
int StageLowering::ring_of(const StageLoop& loop) const {
  int tiles = 1;
  for (const GroupTile& tile : tiles_)
    if (tile.loop == loop.name) tiles = std::max(tiles, tile.ring);
  return loop.symbol.is_symbol() ? tiles : 1;
}

/// One tile of each operand, between barriers.
Body StageLowering::copies(const std::string& loop) const {
  Body out;
  int begun = 0;
  for (const GroupTile& tile : tiles_)
    if (tile.loop == loop) append(out, copy(tile, {}, false, begun));
  if (out.empty()) return out;
  out.insert(out.begin(), barrier(1)); // what was there before is read
  if (begun > 0) out.push_back(async_wait(copies_in_flight, 0));
  out.push_back(barrier(1));
  return out;
}

/// What trip `at` of the loop reads, into its place in the ring; `begun`: copies of each lane.
Body StageLowering::ring_copies(const StageLoop& loop, Expr at, int& begun) const {
  Body out;
  for (const GroupTile& tile : tiles_)
    if (tile.loop == loop.name) append(out, copy(tile, {{loop.symbol, at}}, true, begun));
  return out;
}

/// The body of a loop whose tiles lie in a ring: while one is read, those of later trips arrive.
Body StageLowering::ring_body(const StageLoop& loop, Body inside) const {
  const int tiles = ring_of(loop);
  int begun = 0;
  const Body next = ring_copies(loop, loop.symbol + (tiles - 1), begun);
  Body out{async_wait(copies_in_flight, (tiles - 2) * begun),
           barrier(1)}; // the trip's tiles are there, the next place is read
  append(out, next);
  append(out, std::move(inside));
  return out;
}

/// Around the loop: the first tiles, and copies that are behind its end.
Body StageLowering::in_ring(const StageLoop& loop, StmtRef whole) const {
  Body out{barrier(1)};
  int begun = 0;
  for (int tile = 0; tile + 1 < ring_of(loop); tile++) append(out, ring_copies(loop, tile, begun));
  out.push_back(std::move(whole));
  out.push_back(async_wait(copies_in_flight, 0));
  return out;
}

/// Neighbouring lanes copy neighbouring elements, several at once where they are contiguous in both memories
/// and begin at multiples; what lies beyond the end of an axis becomes 0. `at`: another trip than the open
/// one. `ahead`: asynchronous, `begun` counts the copies of a lane.
Body StageLowering::copy(const GroupTile& tile, const ExprMap<Expr>& at, bool ahead, int& begun) const {
  const ConeValue& value = l_.n_.cone.values[tile.value];
  const Place& from = l_.places_[tile.value];
  std::vector<Expr> base;
  for (Expr e : tile.place.base) base.push_back(substitute(e, at));
  // Of a trip that may be behind the loop's end, where its symbol's range says nothing.
  const Expr slot = at.empty() ? tile.place.slot : mod(at.begin()->second, tile.ring) * tile.size;
  std::vector<size_t> order; // innermost first, as the value lies
  for (size_t i = from.layout.size(); i-- > 0;)
    if (!contains(order, size_t(from.layout[i].dim))) order.push_back(size_t(from.layout[i].dim));
  struct Moved {
    Expr to, from, guard = 1, step = 0, element = 0;
    int64_t total = 1, steps = 1;
    bool wide = true; // whole chunks are inside or outside, and begin at multiples
  };
  const auto moved = [&](int64_t width) {
    Moved m;
    std::vector<Expr> extents = tile.place.extents;
    for (Expr e : extents) m.total *= e.value();
    m.total /= width;
    m.steps = (m.total + group_lanes_ - 1) / group_lanes_;
    if (m.steps > 1) m.step = Expr::symbol(l_.n_.free_name("copied"), {0, m.steps - 1});
    m.element = m.step * group_lanes_ + lane_number_;
    if (width > 1) {
      const size_t last = order[0];
      const LayoutDim plain{.dim = int(last)};
      const LayoutDim& own = tile.place.layout.back();
      m.wide = from.layout.back() == plain && own.dim == int(last) && own.div == 1 && own.mod == 0 &&
               extents[last].value() % width == 0 && value.shape[last].multiple() % width == 0 &&
               base[last].multiple() % width == 0;
      if (!m.wide) return m;
      extents[last] = extents[last].value() / width;
    }
    std::vector<Expr> in_tile(extents.size(), 0), in_value(extents.size(), 0);
    Expr rest = m.element;
    for (size_t i = 0; i < order.size(); i++) {
      const size_t d = order[i];
      const bool outermost = std::all_of(order.begin() + long(i) + 1, order.end(),
                                         [&](size_t o) { return extents[o].is_constant(1); });
      in_tile[d] = extents[d].is_constant(1) ? Expr(0) : outermost ? rest : mod(rest, extents[d]);
      if (!outermost) rest = floordiv(rest, extents[d]);
      if (i == 0) in_tile[d] = in_tile[d] * width;
      in_value[d] = base[d] + in_tile[d];
      std::vector<Expr> facts = l_.open_facts(in_value[d]);
      if (m.total % group_lanes_ != 0) facts.push_back(lt(m.element, m.total));
      for (Expr holds : {le(0, in_value[d]), lt(in_value[d], value.shape[d])})
        if (prove(holds, facts) != Truth::yes) m.guard = logical_and(m.guard, holds);
    }
    m.from = layout_offset(from.layout, from.extents, in_value);
    m.to = layout_offset(tile.place.layout, tile.place.extents, in_tile) + slot;
    m.wide = width == 1 ||
             (m.from.multiple() % width == 0 && m.to.multiple() % width == 0 && m.total % group_lanes_ == 0);
    return m;
  };
  int64_t width = std::max<int64_t>(1, widest_copy / (bits(value.dtype) / 8));
  while (width > 1 && !moved(width).wide) width /= 2;
  Moved m = moved(width);
  const bool all = m.total % group_lanes_ == 0;
  Body body;
  if (ahead || width > 1) {
    begun += int(m.steps);
    Buffer& source = l_.kernel_.buffers[from.buffer];
    if (width > 1) source.alignment = std::max(source.alignment, widest_copy); // all that a device allocates
    const Expr here = all ? Expr(1) : lt(m.element, m.total);
    body = {async_copy({tile.place.buffer, m.to, {}}, {from.buffer, m.from, {}},
                       logical_and(here, m.guard) * width, copies_in_flight,
                       all && m.guard.is_constant(1) ? Expr(0) : here * width)};
  } else {
    body = {store(tile.place.buffer, m.to, load_as(value.dtype, from.buffer, m.from, m.guard))};
    if (!all) body = {if_then(lt(m.element, m.total), std::move(body))};
  }
  if (m.steps == 1) return body;
  return {kernel::loop(m.steps <= most_copy_steps ? LoopKind::unrolled : LoopKind::serial, m.step, 0, m.steps,
                       std::move(body))};
}

} // namespace luminal::kernel
