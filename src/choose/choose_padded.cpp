// choose/choose_padded.cpp -- the default schedule of products with a copy of images and the zeros around
// them, of which windows are shifted views.
#include "base/contains.h"
#include "choose/choose_windows.h"
#include "choose/default_scheduler.h"
#include "cone/formula.h"
#include <algorithm>

namespace luminal::kernel {
namespace {

/// The conditions of a domain over loops.
std::vector<Expr> conditions_of(Expr domain) {
  if (domain.kind() != ExprKind::logical_and) return {domain};
  return {domain.args().begin(), domain.args().end()};
}

} // namespace

/// Columns are cut into panels, vectors and lanes.
DefaultScheduler::PaddedProduct DefaultScheduler::padded_panels(StageId s, const Product& p) {
  const std::string name = stage(s).name;
  PaddedProduct t;
  t.images = p.more_rows;
  if (!t.images.empty()) t.row = t.images.back(), t.images.pop_back();
  t.nv = nests_.free_name(p.n + ".v"), t.lane = nests_.free_name(p.n + ".l");
  t.mt = nests_.free_name(p.m + ".t"), t.mi = nests_.free_name(p.m + ".i");
  t.panel = p.panels;
  std::string inside = p.n;
  if (t.panel.empty()) {
    inside = nests_.free_name(p.n + ".q");
    t.panel = nests_.free_name(p.n + ".p");
    add(DirectiveKind::split, {name, p.n, t.panel, inside}, {panel_columns()});
  }
  add(DirectiveKind::split, {name, inside, t.nv, t.lane}, {limits_.lanes});
  t.vectors = trips(*nest(s).find(t.nv));
  t.panels = trips(*nest(s).find(t.panel));
  t.domain = substitute(stage(s).domain, nest(s).axis_values);
  t.column = nest(s).find(p.m)->symbol;
  return t;
}

/// Rows of windows are left out by the loop over them, columns point by point: of the places in a
/// tile few meet the border, and the code generator knows which.
bool DefaultScheduler::cuts_windows(const PaddedProduct& t, Expr loop) const {
  const std::vector<Expr> conditions = conditions_of(t.domain);
  return loop.is_symbol() && std::ranges::any_of(conditions, [&](Expr e) {
           return depends_on(e, loop) && !depends_on(e, t.column);
         });
}

/// The tile that leaves least over; of equal ones the longest, which is written in the fewest
/// pieces.
void DefaultScheduler::split_padded_tile(StageId s, const Product& p, PaddedProduct& t) {
  const int64_t all_rows = t.row.empty() ? 1 : trips(*nest(s).find(t.row)),
                columns = trips(*nest(s).find(p.m));
  std::pair<int64_t, int64_t> usual{1, 1};
  const bool streamed = t.vectors * limits_.lanes * p.deep * 4 > limits_.l1;
  const bool cut = !t.domain.is_constant(1);
  double best = 0;
  for (int64_t r : {1, 2})
    for (int64_t c : {4, 2, 3, 5, 6, 8, 7}) {
      if (cut && r > 1) continue;
      if (r > all_rows || c > columns || r * c > 16 / t.vectors + 3 || !tile_fits(r * c, t.vectors)) continue;
      // (Each tile passes through a panel, which is more than its multiply-adds where that is not
      // at hand.)
      const int64_t passes = (all_rows + r - 1) / r * ((columns + c - 1) / c);
      const double cost = tile_cost(all_rows, columns, r, c, t.vectors, streamed) +
                          (streamed ? 0.15 * double(t.vectors * passes) : 0);
      if (best == 0 || cost < best * 0.999) best = cost, usual = {r, c};
    }
  t.tile_rows = std::min(
      ask(s, "tile_rows", usual.first, cut ? std::vector<int64_t>{1} : std::vector<int64_t>{1, 2, 4}),
      all_rows);
  t.tile_columns = std::min(ask(s, "tile_columns", usual.second, {1, 2, 3, 4, 5, 6, 7}), columns);
  const std::string name = stage(s).name;
  add(DirectiveKind::split, {name, p.m, t.mt, t.mi}, {t.tile_columns});
  if (t.row.empty()) return;
  t.rt = nests_.free_name(t.row + ".t"), t.ri = nests_.free_name(t.row + ".i");
  add(DirectiveKind::split, {name, t.row, t.rt, t.ri}, {t.tile_rows});
}

/// The second cache holds all panels, or one of them at a time beside what it meets.
void DefaultScheduler::order_padded(StageId s, const Product& p, const PaddedProduct& t,
                                    const std::vector<std::string>& common) {
  const std::string name = stage(s).name, tiles = t.row.empty() ? t.mt : t.rt;
  const int64_t threads = common.empty() ? limits_.threads : 1,
                of_panels = t.panels * t.vectors * limits_.lanes * p.deep * 4; // bytes
  const auto filled = [&](const std::string& loop) { return share_of(trips(*nest(s).find(loop)), threads); };
  const bool by_panels = ask(s, "panels_outside",
                             filled(t.panel) > filled(tiles) - 0.02 &&
                                 (of_panels > limits_.l2 / 2 || filled(t.panel) > filled(tiles) + 0.02),
                             {0, 1});
  std::vector<std::string> words{name};
  words.insert(words.end(), common.begin(), common.end());
  const size_t first = words.size();
  words.insert(words.end(), p.outer.begin(), p.outer.end());
  words.insert(words.end(), t.images.begin(), t.images.end());
  words.insert(words.end(), {by_panels ? t.panel : tiles, by_panels ? tiles : t.panel});
  if (!t.row.empty()) words.push_back(t.mt);
  words.insert(words.end(), p.depth.begin(), p.depth.end());
  if (!t.row.empty()) words.push_back(t.ri);
  words.insert(words.end(), {t.mi, t.nv, t.lane});
  std::string shared = by_panels ? t.panel : tiles;
  const bool inside = by_panels && bytes_of(value_at(p.other)) < of_panels;
  if (!t.images.empty() && !inside && filled(t.images[0]) >= filled(shared)) shared = t.images[0];
  // (What workers share stands outermost: all that is inside is done by one of them.)
  std::rotate(words.begin() + long(first), std::ranges::find(words, shared),
              std::ranges::find(words, shared) + 1);
  add(DirectiveKind::order, words);
  add(DirectiveKind::parallel, {name, common.empty() ? shared : common[0]});
  add(DirectiveKind::vector, {name, t.lane});
  words = {name, t.mi, t.nv};
  if (!t.row.empty()) words.push_back(t.ri);
  add(DirectiveKind::unroll, words);
}

/// Bodies along a window share what neighbouring columns read, and the compiler keeps all of that:
/// where it has no registers for it, sums go to the stack.
bool DefaultScheduler::too_many_sums(StageId s, const PaddedProduct& t, const StageLoop& window) const {
  const Expr along = nest(s).find(t.mi)->symbol;
  bool overlaps = false;
  visit_loads(stage(s), [&](const FormulaLoad& f) {
    for (Expr e : f.index) {
      const Expr at = substitute(e, nest(s).axis_values);
      overlaps |= along.is_symbol() && depends_on(at, along) && depends_on(at, window.symbol);
    }
  });
  const int64_t sums = t.tile_rows * t.tile_columns * t.vectors;
  return overlaps && sums + t.tile_columns + trips(window) - 1 > limits_.vector_registers;
}

/// Small windows are written out, up to what the domain cuts: that would take a body more for what
/// is left, and gain nothing.
void DefaultScheduler::write_out_windows(StageId s, const Product& p, const PaddedProduct& t) {
  int64_t bodies = 1;
  for (size_t d = p.depth.size(); d-- > 0;) {
    const StageLoop* l = nest(s).find(p.depth[d]);
    if (!l->symbol.is_symbol()) continue;
    if (cuts_windows(t, l->symbol) || too_many_sums(s, t, *l)) break;
    const int64_t n = trips(*l), part = bodies == 1 && n > 8 ? 4 : n;
    if (bodies * part > 9) break;
    if (part > 1) add(DirectiveKind::jam, {stage(s).name, l->name}, {part});
    bodies *= part;
    if (part < n) break;
  }
}

/// The product of panels with what copy_padded() copied: tiles of neighbours along a row of results, in
/// one row or in two, by one panel.
bool DefaultScheduler::padded_tile(StageId s, const std::vector<std::string>& common) {
  const std::optional<Product> p = product(s, common);
  if (!p) return false;
  PaddedProduct t = padded_panels(s, *p);
  split_padded_tile(s, *p, t);
  order_padded(s, *p, t, common);
  for (const std::string& d : p->depth)
    if (cuts_windows(t, nest(s).find(d)->symbol)) add(DirectiveKind::predicate_bound, {stage(s).name, d});
  // Of columns each place of a tile knows its own: tiles at the ends of a row are written apart
  // from those between them.
  if (depends_on(t.domain, t.column) && trips(*nest(s).find(t.mt)) > 1)
    add(DirectiveKind::predicate_split, {t.mt});
  write_out_windows(s, *p, t);
  done_ = s;
  return true;
}

} // namespace luminal::kernel
