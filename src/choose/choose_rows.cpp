// choose/choose_rows.cpp -- the default schedule of products of many rows with weights whose rows
// are contiguous along the sum: the weights are unpacked and transposed into panels, a piece at a time,
// inside the product's loops.
#include "base/contains.h"
#include "choose/default_scheduler.h"
#include "cone/formula.h"
#include <algorithm>

namespace luminal::kernel {

namespace {

int64_t parts_of(int64_t n, int64_t unit) { return (n + unit - 1) / unit; }

} // namespace

/// x[m, k] * w[n, k] summed over k, with lanes to come along n: nothing where the stage is
/// something else.
std::optional<DefaultScheduler::RowProduct> DefaultScheduler::row_product(StageId s) const {
  const Stage& st = stage(s);
  if (st.monoid || !st.domain.is_constant(1) || st.scan_axis || !st.ordered.empty() ||
      st.components.size() != 1 || !holes_of(nests_.cone, st).empty())
    return {};
  const Component& c = st.components[0];
  if (c.kind != ComponentKind::fold || c.op != Op::add || c.init || !c.out || c.dtype != DType::f32 ||
      !applies(*c.body, Op::mul))
    return {};
  std::vector<AxisId> axes;
  for (AxisId a : st.axes)
    if (axis_at(a).symbol.is_symbol()) axes.push_back(a);
  const std::vector<AxisId> reduced = reduced_axes(st);
  std::erase_if(axes, [&](AxisId a) { return contains(reduced, a); });
  if (axes.size() != 2 || reduced.size() != 1) return {};
  const auto moves = [&](const FormulaRef& f, AxisId axis) {
    return varies(index_exprs(f), axis_at(axis).symbol);
  };
  RowProduct p;
  p.stage = s;
  p.k = reduced[0];
  for (AxisId a : axes)
    if (step_of(nests_.cone, c.out, c.index, axis_at(a).symbol) == Step::contiguous) p.n = a;
  for (AxisId a : axes)
    if (a != p.n) p.m = a;
  if (!p.n) return {};
  FormulaRef x, w;
  for (auto& f : args_of(*c.body)) {
    if (!moves(f, p.k) || moves(f, p.m) == moves(f, p.n)) return {};
    (moves(f, p.m) ? x : w) = f;
  }
  const FormulaLoad* rows = x && w ? load_of(*x) : nullptr;
  if (!rows || !rows->guard.is_constant(1)) return {};
  p.x = rows->value;
  const Expr n = axis_at(p.n).symbol, k = axis_at(p.k).symbol;
  // Rows of the weight are contiguous along the sum.
  bool transposed = false, beside = false;
  visit_loads(w, [&](const FormulaLoad& f) {
    const Step across = step_of(nests_.cone, f.value, f.index, n);
    const bool sums = step_of(nests_.cone, f.value, f.index, k) != Step::none;
    beside =
        beside || across == Step::irregular || (across == Step::contiguous && sums); // or in panels already
    transposed = transposed || sums;
  });
  if (beside || !transposed) return {};
  const FormulaLoad* weight = load_of(*w);
  p.plain = weight && weight->guard.is_constant(1) && w->dtype == DType::f32 &&
            value_at(weight->value).dtype == DType::f32 && value_at(weight->value).role == ValueRole::input &&
            weight->index == std::vector<Expr>{n, k};
  if (p.plain) p.w = weight->value;
  p.blocks = blocks_of(nests_.cone, st, k);
  return p;
}

/// The products of the cone with one set of rows and columns, where nothing else is in it but one map on
/// their results; else none. `fewest`: rows from which on it is worth it.
std::vector<DefaultScheduler::RowProduct> DefaultScheduler::row_products(int64_t fewest, StageId& map) const {
  std::vector<RowProduct> products;
  const StageId last = nests_.cone.stages.end_id() - 1;
  for (const StageId s : nests_.cone.stages.ids()) {
    if (auto p = row_product(s)) {
      if (map) return {};
      products.push_back(std::move(*p));
    } else if (s == last && s > first_stage)
      map = s;
    else
      return {};
  }
  if (products.empty() || (products.size() > 1 && !map)) return {};
  const AxisId m = products[0].m, n = products[0].n;
  const ConeAxis rows_axis = axis_at(m), columns_axis = axis_at(n);
  if (!columns_axis.extent.is_constant()) return {};
  if (map) {
    const Stage& st = stage(map);
    if (st.axes != std::vector<AxisId>{std::min(m, n), std::max(m, n)} || !st.domain.is_constant(1) ||
        st.monoid || !st.ordered.empty() || st.scan_axis)
      return {};
    for (auto& c : st.components)
      if (c.kind != ComponentKind::map || c.after || !c.out ||
          step_of(nests_.cone, c.out, c.index, columns_axis.symbol) != Step::contiguous)
        return {};
  }
  const int64_t lanes = limits_.lanes, threads = std::max(limits_.threads, 1);
  const int64_t most_rows = rows_axis.extent.range().high, all_columns = columns_axis.extent.value();
  if (most_rows < fewest || (most_rows == unbounded_high) || all_columns < 2 * panel_columns() * threads)
    return {};
  for (const RowProduct& p : products) {
    const ConeAxis& k = axis_at(p.k);
    if (p.m != m || p.n != n || !k.extent.is_constant() || k.extent.value() % lanes != 0 ||
        k.extent.value() < 4 * lanes || value_at(p.x).dtype != DType::f32)
      return {};
    for (int64_t b : p.blocks)
      if (k.extent.value() % b != 0) return {};
    // What the map reads is kept for a share of the columns.
    const ConeValue& out = value_at(stage(p.stage).components[0].out);
    if ((out.role == ValueRole::interior) != bool(map)) return {};
  }
  return products;
}

/// Steps of the sum in one panel: a block of rows and a panel of this depth share the second cache.
int64_t DefaultScheduler::depth_of_panels(const RowProduct& p) const {
  const int64_t deep = axis_at(p.k).extent.value(), block = block_of_panels(p),
                usual = std::max<int64_t>(block, limits_.l2 / 2048);
  return round_up(parts_of(deep, parts_of(deep, usual)), block);
}

int64_t DefaultScheduler::rows_of_panels(int64_t depth) const {
  const int64_t tile_rows = limits_.vector_registers >= 32 ? 4 : 6;
  return std::max(limits_.l2 / 2 / (4 * depth) / tile_rows, int64_t{4}) * tile_rows;
}

/// Where multiplying is as fast as the second cache, and that holds all rows: is each panel made when its
/// tiles begin, which ask for what becomes the next one? (All workers wait for memory otherwise, and then
/// multiply.)
DefaultScheduler::ByPanel DefaultScheduler::by_panel(const std::vector<RowProduct>& products) const {
  int64_t bytes = 0;
  bool whole = true;
  for (const RowProduct& p : products) {
    const int64_t deep = axis_at(p.k).extent.value(), depth = depth_of_panels(p);
    if (!limits_.full_rate || !p.plain || axis_at(p.m).extent.range().high > rows_of_panels(depth))
      return ByPanel::no;
    bytes += deep * axis_at(p.n).extent.value() * 4;
    whole &= depth == deep;
  }
  if (bytes <= limits_.l2) return ByPanel::no;
  return whole ? ByPanel::whole : ByPanel::parts;
}

/// Panels of one weight, transposed where they are packed, and the loops of its product.
void DefaultScheduler::panels_of_rows(const RowProduct& p, const std::string& name, const RowLoops& r,
                                      bool first) {
  const auto& [nname, mname, nc, nn, np, ni, nv, nl, mc, mm, mt, mi, share, by] = r;
  const int64_t lanes = limits_.lanes, columns = panel_columns(),
                tile_rows = limits_.vector_registers >= 32 ? 4 : 6;
  const auto fresh = [&](const std::string& wish) { return nests_.free_name(wish); };
  const std::string k = axis_at(p.k).name, x = value_at(p.x).name;
  const int64_t block = block_of_panels(p), depth = depth_of_panels(p), rows = rows_of_panels(depth);
  const std::string kc = fresh(k + ".c"), ki = fresh(k + ".i"), kb = fresh(k + ".b"), kj = fresh(k + ".j"),
                    kt = fresh(k + ".t"), ku = fresh(k + ".u");
  std::string unpacked, source;
  if (p.plain) {
    source = value_at(p.w).name;
  } else {
    unpacked = source = fresh(name + ".weight");
    add(DirectiveKind::operand, {name, mname, source});
    unpacked = stage(nests_.stage(name) - 1).name;
  }
  const std::string panels = fresh(name + ".panels");
  add(DirectiveKind::stage, {source, panels});
  const std::string copy = stage(nests_.stage(name) - 1).name;
  std::vector<std::string> all{name, copy};
  if (!unpacked.empty()) all.push_back(unpacked);
  for (auto& st : all) {
    add(DirectiveKind::split, {st, nname, nc, nn}, {share});
    add(DirectiveKind::split, {st, nn, np, ni}, {columns});
    add(DirectiveKind::split, {st, ni, nv, nl}, {lanes});
    add(DirectiveKind::split, {st, k, kc, ki}, {depth});
  }
  const auto in_order = [&](const std::string& who, const std::vector<std::string>& outside,
                            const std::vector<std::string>& loops) {
    std::vector<std::string> words{who};
    words.insert(words.end(), outside.begin(), outside.end());
    words.insert(words.end(), loops.begin(), loops.end());
    add(DirectiveKind::order, std::move(words));
  };
  // The copy stands in the last of the outer loops.
  std::vector<std::string> outer{nc, kc}, rows_and_panels{mc, np};
  if (by == ByPanel::whole) outer = {nc, np, kc};
  if (by == ByPanel::parts) outer = {nc, kc, np};
  if (by != ByPanel::no) rows_and_panels = {mc};
  if (unpacked.empty()) {
    add(DirectiveKind::split, {copy, ki, kt, ku}, {lanes});
    in_order(copy, {nc},
             by == ByPanel::whole ? std::vector{np, kc, nv, kt, ku, nl}
                                  : std::vector{kc, np, nv, kt, ku, nl});
  } else {
    // Some lines of as many rows as there are lanes are unpacked along the rows, then transposed.
    const int64_t piece = std::max<int64_t>(block, 4 * lanes);
    for (auto& st : {copy, unpacked}) add(DirectiveKind::split, {st, ki, kb, kj}, {piece});
    add(DirectiveKind::split, {copy, kj, kt, ku}, {lanes});
    in_order(copy, {nc, kc, np}, {nv, kb, kt, ku, nl});
    std::vector<std::string> inside;
    std::string inner = kj;
    int64_t extent = piece;
    const StageId u = nests_.stage(unpacked);
    for (size_t b = p.blocks.size(); b-- > 0;)
      if (extent > p.blocks[b] && extent % p.blocks[b] == 0 && p.blocks[b] > 1) {
        auto [outside, rest] = split(u, inner, p.blocks[b]);
        inside.push_back(outside), inner = rest, extent = p.blocks[b];
      }
    if (extent > lanes) {
      auto [outside, rest] = split(u, inner, lanes);
      inside.push_back(outside), inner = rest;
    }
    std::vector<std::string> words{unpacked, nc, kc, np, nv, kb, nl};
    words.insert(words.end(), inside.begin(), inside.end());
    words.push_back(inner);
    add(DirectiveKind::order, words);
    add(DirectiveKind::vector, {unpacked, inner});
    for (auto& l : inside)
      if (const StageLoop* loop = nest(nests_.stage(unpacked)).find(l);
          loop->symbol.is_symbol() && loop->extent.is_constant() && loop->extent.value() <= 4)
        add(DirectiveKind::jam, {unpacked, l}, {loop->extent.value()});
    add(DirectiveKind::store, {source, kb});
    add(DirectiveKind::parallel, {unpacked, nc});
    add(DirectiveKind::at, {copy, kb});
  }
  add(DirectiveKind::store,
      {panels, outer.back(), fmt::format("{}/{}", nname, columns), k, fmt::format("{}%{}", nname, columns)});
  add(DirectiveKind::vector, {copy, nl});
  add(DirectiveKind::unroll, {copy, ku});
  add(DirectiveKind::parallel, {copy, nc});
  if (!first) add(DirectiveKind::at, {unpacked.empty() ? copy : unpacked, by == ByPanel::whole ? np : nc});
  add(DirectiveKind::split, {name, mname, mc, mm}, {rows});
  add(DirectiveKind::split, {name, mm, mt, mi}, {tile_rows});
  rows_and_panels.insert(rows_and_panels.end(), {mt, ki, mi, nv, nl});
  in_order(name, outer, rows_and_panels);
  add(DirectiveKind::parallel, {name, nc});
  add(DirectiveKind::vector, {name, nl});
  add(DirectiveKind::unroll, {name, mi, nv});
  try_add(DirectiveKind::prefetch, {name, x, mt, ki}, {1});
  if (by != ByPanel::no) try_add(DirectiveKind::prefetch, {copy, source, np, mt, ki}, {1});
  if (by == ByPanel::parts) // sums go on in memory
    try_add(DirectiveKind::prefetch, {name, value_at(stage(nests_.stage(name)).components[0].out).name, mt},
            {1});
  add(DirectiveKind::jam, {name, ki}, {4});
  add(DirectiveKind::at, {name, outer.back()});
}

/// Weights that are transposed for many rows: the whole cone is products with one set of rows and
/// columns and one map on their results, or one product. `fewest`: rows from which on it is worth
/// it, of the axis that is returned.
std::optional<std::string> DefaultScheduler::row_panels(int64_t fewest) {
  StageId map;
  const std::vector<RowProduct> products = row_products(fewest, map);
  if (products.empty()) return {};
  const AxisId m = products[0].m, n = products[0].n;
  const int64_t lanes = limits_.lanes, threads = std::max(limits_.threads, 1),
                all_columns = axis_at(n).extent.value();
  // Each worker has its columns, some hundreds of them at a time: their finished sums stay in the
  // caches until the map comes.
  const ByPanel by = by_panel(products);
  const int64_t usual_share = by == ByPanel::whole ? all_columns : map ? 512 : 1024;
  const int64_t shares = round_up(parts_of(all_columns, usual_share), threads);
  const int64_t share = round_up(parts_of(all_columns, shares), panel_columns());

  const std::string nname = axis_at(n).name, mname = axis_at(m).name;
  const auto fresh = [&](const std::string& wish) { return nests_.free_name(wish); };
  const RowLoops l{nname,
                   mname,
                   fresh(nname + ".c"),
                   fresh(nname + ".n"),
                   fresh(nname + ".p"),
                   fresh(nname + ".i"),
                   fresh(nname + ".v"),
                   fresh(nname + ".l"),
                   fresh(mname + ".c"),
                   fresh(mname + ".m"),
                   fresh(mname + ".t"),
                   fresh(mname + ".i"),
                   share,
                   by};
  const std::string map_name = map ? stage(map).name : "";
  std::vector<std::string> names;
  for (const RowProduct& p : products) names.push_back(stage(p.stage).name);
  for (size_t i = 0; i < products.size(); i++) panels_of_rows(products[i], names[i], l, i == 0);
  if (map) {
    const std::string no = fresh(nname + ".o"), nw = fresh(nname + ".w");
    add(DirectiveKind::split, {map_name, nname, l.nc, l.nn}, {share});
    if (by == ByPanel::whole) add(DirectiveKind::split, {map_name, l.nn, l.np, l.ni}, {panel_columns()});
    add(DirectiveKind::split, {map_name, by == ByPanel::whole ? l.ni : l.nn, no, nw}, {lanes});
    if (by == ByPanel::whole)
      add(DirectiveKind::order, {map_name, l.nc, l.np, mname, no, nw});
    else
      add(DirectiveKind::order, {map_name, l.nc, mname, no, nw});
    add(DirectiveKind::parallel, {map_name, l.nc});
    add(DirectiveKind::vector, {map_name, nw});
    add(DirectiveKind::jam, {map_name, no}, {4});
    add(DirectiveKind::at, {map_name, by == ByPanel::whole ? l.np : l.nc});
  }
  return mname;
}

std::optional<DefaultScheduler::ForRows> DefaultScheduler::many_rows(int64_t fewest) {
  auto axis = row_panels(fewest);
  if (!axis) return {};
  return ForRows{std::move(schedule_), std::move(*axis)};
}

} // namespace luminal::kernel
