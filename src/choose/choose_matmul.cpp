// choose/choose_matmul.cpp -- the default schedule of matrix products, batches and convolutions
// among them: cache blocks, packed panels, a register tile.
#include "base/contains.h"
#include "choose/contraction.h"
#include "choose/default_scheduler.h"
#include "choose/wanted_panels.h"
#include "cone/formula.h"
#include <algorithm>
#include <tuple>

namespace luminal::kernel {

namespace {

constexpr int64_t deepest_tiles = 256;   // words of a sum on tile registers, in one block
constexpr int64_t deepest_panels = 1024; // steps of a sum in packed panels, likewise

/// How much of the workers' time is work where `trips` equal trips are distributed.
double balance(int64_t trips, int64_t workers) {
  return double(trips) / double(round_up(std::max<int64_t>(trips, 1), workers));
}

} // namespace

/// The two loads that a stage's only sum multiplies, where all else that it does follows the
/// finished sums; else none.
std::vector<const Formula*> DefaultScheduler::factors(StageId s) const {
  const Stage& st = stage(s);
  for (size_t i = 1; i < st.components.size(); i++)
    if (!st.components[i].after) return {};
  return factors_of(st);
}

std::optional<DefaultScheduler::Product>
DefaultScheduler::product(StageId s, const std::vector<std::string>& common) const {
  const Stage& st = stage(s);
  const std::vector<const Formula*> both = factors(s);
  if (both.empty() || !holes_of(nests_.cone, std::span(&st.domain, 1)).empty()) return {};
  const FormulaLoad* const loads[] = {load_of(*both[0]), load_of(*both[1])};
  const auto at = [&](const std::vector<Expr>& index) { return over_loops(nest(s), index); };
  for (const FormulaLoad* f : loads)
    if (!f->guard.is_constant(1)) return {};
  const std::vector<Expr> index[] = {at(loads[0]->index), at(loads[1]->index)};
  const auto moves = [&](int load, const StageLoop& l) {
    return l.symbol.is_symbol() && varies(index[load], l.symbol);
  };
  const auto written = [&](const StageLoop& l) { // how the results lie along it
    Step step = Step::none;
    for (auto& c : st.components)
      if (c.out) step = step_of(nests_.cone, c.out, at(c.index), l.symbol);
    return step;
  };
  Product p;
  std::vector<const StageLoop*> kept;
  for (auto& l : nest(s).loops) {
    if (contains(common, l.name)) continue;
    const bool sums = l.symbol.is_symbol() && loop_reduces(s, l);
    if (l.symbol.is_symbol() && !l.extent.is_constant()) {
      if (sums) return {};
      p.any_size = !any_rows_;
    }
    if (sums) {
      p.depth.push_back(l.name);
      p.deep *= trips(l);
    } else
      kept.push_back(&l);
  }
  const auto suits = [&](int load, const StageLoop& l) {
    const FormulaLoad& f = *loads[size_t(load)];
    const int64_t elements =
        std::max(1, bits(both[size_t(load)]->dtype) / bits(value_at(f.value).dtype)); // of a word
    return !moves(1 - load, l) && moves(load, l) &&
           step_of(nests_.cone, f.value, index[load], l.symbol, elements) == Step::contiguous;
  };
  // Lanes: one operand is contiguous there, and the other one does not move. Where somebody made
  // panels of it, in a panel, although the results may not are contiguous, too: then each tile is
  // reversed as it is written.
  const StageLoop *n = nullptr, *m = nullptr;
  int panel = 0; // which of the two, where there is n
  for (const StageLoop* l : kept)
    for (int load : {0, 1}) {
      if (n || !suits(load, *l) || trips(*l) < limits_.lanes) continue;
      const auto padded = padded_products_.find(st.name);
      if (padded != padded_products_.end() && loads[size_t(load)]->value == padded->second) continue;
      const bool block = padded != padded_products_.end() || std::ranges::any_of(st.axes, [&](AxisId a) {
                           const Expr axis = axis_at(a).symbol;
                           return depends_on_loop(nest(s), axis, *l) &&
                                  std::ranges::any_of(loads[size_t(load)]->index, [&](Expr e) {
                                    return e.kind() == ExprKind::mod && e.args()[0] == axis;
                                  });
                         });
      if (block) n = l, panel = load, p.across = written(*l) != Step::contiguous;
    }
  // Results that lie in runs shorter than a vector leave lanes empty: an operand that is contiguous for long
  // fills them.
  const auto runs_of = [&](const StageLoop* without) {
    int64_t run = 1;
    for (bool more = true; more;) {
      more = false;
      for (const StageLoop* l : kept)
        for (auto& c : st.components) {
          if (!c.out || l == without || trips(*l) == 1) continue;
          const auto step = coefficient_of(layout_offset(value_at(c.out), at(c.index)), l->symbol);
          if (step && step->is_constant(run)) run *= trips(*l), more = true;
        }
    }
    return run;
  };
  for (const StageLoop* l : kept)
    for (int load : {0, 1})
      if (!n && suits(load, *l) && trips(*l) >= limits_.lanes && written(*l) != Step::contiguous &&
          runs_of(l) < limits_.lanes)
        n = l, panel = load, p.across = true;
  for (const StageLoop* l : kept)
    for (int load : {0, 1})
      if (!n && suits(load, *l) && written(*l) == Step::contiguous) n = l, panel = load;
  if (!n && p.depth.size() == 1) {
    // Rows of both operands are contiguous along the sum: panels of one are transposed as they are copied,
    // where enough rows of the other use them.
    const StageLoop& k = *nest(s).find(p.depth[0]);
    std::vector<std::pair<const StageLoop*, int>> sides;
    for (const StageLoop* l : kept)
      for (int load : {0, 1})
        if (moves(load, *l) && !moves(1 - load, *l)) sides.push_back({l, load});
    if (sides.size() != 2 || sides[0].second == sides[1].second) return {};
    const size_t side = written(*sides[0].first) == Step::contiguous ? 0 : 1;
    n = sides[side].first, panel = sides[side].second;
    if (step_of(nests_.cone, loads[size_t(panel)]->value, index[panel], k.symbol) != Step::contiguous ||
        trips(*sides[1 - side].first) < (trips(k) <= 8 * limits_.lanes ? limits_.lanes : 48))
      return {};
    p.transposed = true;
  }
  // (Unknown numbers of rows and columns, where both are contiguous along the columns: choose_tiles.cpp.)
  if (!n || p.depth.empty() || (p.any_size && !p.transposed)) return {};
  // Rows: the longest loop along which only the other operand moves, or the one along which the
  // results are contiguous.
  for (const StageLoop* l : kept) {
    if (l == n || !moves(1 - panel, *l) || moves(panel, *l)) continue;
    const auto rank = [&](const StageLoop* x) {
      return std::pair(p.across && written(*x) == Step::contiguous && trips(*x) >= 4, trips(*x));
    };
    if (!m || rank(l) > rank(m) || (rank(l) == rank(m) && on_tiles(s))) m = l; // (tiles: the innermost)
  }
  if (!m) return {};
  // A vector lies inside of the domain as a whole.
  const Expr domain = substitute(st.domain, nest(s).axis_values);
  if (depends_on(domain, n->symbol)) return {};
  p.cut = !domain.is_constant(1);
  for (const StageLoop* l : kept) {
    if (l == n || l == m) continue;
    const bool rows = moves(1 - panel, *l) && !moves(panel, *l);
    (rows ? p.more_rows : p.outer).push_back(l->name);
    // The panels of one operand: parts of the axis that has the lanes.
    if (!rows && !moves(1 - panel, *l))
      for (AxisId a : st.axes)
        if (depends_on_loop(nest(s), axis_at(a).symbol, *l) &&
            depends_on_loop(nest(s), axis_at(a).symbol, *n))
          p.panels = l->name;
  }
  std::erase(p.outer, p.panels);
  for (auto& c : st.components) p.open &= !c.after;
  // The copy has loops of its own, one for each axis.
  const auto is_axis = [&](const StageLoop& l) {
    return std::ranges::any_of(st.axes, [&](AxisId a) { return axis_at(a).symbol == l.symbol; });
  };
  p.value = loads[size_t(panel)]->value, p.other = loads[size_t(1 - panel)]->value;
  if (!is_axis(*n) && !p.transposed && !p.any_size && p.value != p.other)
    p.joint = axes_of_run(s, *loads[panel], *n);
  p.packable = (is_axis(*n) || !p.joint.empty()) && p.depth.size() == 1 &&
               is_axis(*nest(s).find(p.depth[0])) && common.empty() &&
               value_at(p.value).dtype == DType::f32 && both[size_t(panel)]->dtype == DType::f32 &&
               value_at(p.value).role != ValueRole::interior;
  for (auto& o : p.outer) p.packable &= !nest(s).find(o)->symbol.is_symbol() || is_axis(*nest(s).find(o));
  if (p.transposed && !p.packable) return {};
  p.m = m->name, p.n = n->name;
  p.rows = trips(*m), p.columns = trips(*n);
  return p;
}

bool DefaultScheduler::of_small(const Product& p) {
  return p.rows * p.columns <= 64 * 64 && p.deep <= 128 && p.panels.empty() && !p.across && !p.transposed;
}

/// Is it static and not too small, and does what stands before it let it have blocks?
std::optional<DefaultScheduler::ProductBlocks>
DefaultScheduler::worth_blocks(StageId s, const Product& p, const std::vector<std::string>& common) {
  const int64_t lanes = limits_.lanes;
  if (p.rows < 4 || p.columns < lanes || p.deep < 8) return {};
  // A domain ends the loop over the sum, which has to be one: no panels are made of what it leaves out.
  if (p.cut && (padded_products_.contains(stage(s).name) || p.depth.size() != 1 || !p.panels.empty() ||
                p.across || p.transposed || !common.empty() || (s > first_stage && copies_words(s - 1))))
    return {};
  ProductBlocks b;
  // Small matrices in batches need no blocks: what they read comes from the first caches, where it
  // was asked for in time.
  b.small = of_small(p) && (common.empty() ? !p.outer.empty() : batched_.contains(stage(s).name));
  // (Lanes along a short sum are added to each other more often than multiplied.)
  const int64_t fewest_columns = p.transposed && p.deep <= 8 * lanes ? lanes : 3 * lanes;
  const bool enough = p.across || !p.panels.empty() || !common.empty() || b.small ||
                      (p.rows >= 16 && p.columns >= fewest_columns && p.deep >= (p.transposed ? 8 : 16));
  // Words of a dot instruction are put together in the panels of the product, but for a copy that has loops
  // of its own already.
  b.reads_words = s > first_stage && copies_words(s - 1) && (done_ < s || !common.empty());
  // (Panels have one loop along the sum, beside those that stand outside of them.)
  const auto deeper = [&](const StageLoop& l) {
    return trips(l) > 1 && contains(p.depth, l.name) && l.name != p.depth[0];
  };
  b.in_words = b.reads_words && stage(s - 1).components[0].out == p.value && p.panels.empty() &&
               common.empty() && !p.transposed &&
               (on_tiles(s) || (p.outer.empty() && std::ranges::none_of(nest(s - 1).loops, deeper)));
  if (b.reads_words && !b.in_words && common.empty()) return {};
  b.tiled = b.in_words && on_tiles(s);
  if (!b.tiled && !ask(s, "blocked", enough, {0, 1})) return {};
  return b;
}

/// The register tile, and which outer loop workers share.
void DefaultScheduler::tile_product(StageId s, Product& p, ProductBlocks& b,
                                    const std::vector<std::string>& common) {
  const int64_t lanes = limits_.lanes, threads = common.empty() ? limits_.threads : 1;
  // Results that pass through the second cache push the other operand out: a part of a panel would
  // fetch its rows once more.
  const int64_t panels = p.panels.empty() ? 1 : trips(*nest(s).find(p.panels));
  int64_t results = p.rows * p.columns * panels * 4;
  for (const std::string& rows : p.more_rows) results *= trips(*nest(s).find(rows));
  // Parts of panels read the rows once for each of them, at any rate.
  const double parts_cost = p.panels.empty() ? 1 : results > limits_.l2 ? 1.05 : 1.02;
  // Panels that the first cache does not hold pass by once for each tile, of however few rows it
  // is.
  const bool streamed = !p.panels.empty() && p.columns * p.deep * 4 > limits_.l1;
  if (p.any_size && limits_.vector_registers >= 32) { // one vector that is left over has as many sums
    b.rows = ask(s, "rows", 8, {4, 8});
    b.vectors = ask(s, "vectors", 2, {1, 2, 4});
    while (!tile_fits(b.rows, b.vectors)) b.rows--;
  }
  // Few rows: panels that come from memory are as wide as the tile of all of them.
  const bool narrow = bits(value_at(p.value).dtype) < 32;
  const int64_t few = p.panels.empty() || p.across || !p.more_rows.empty() || p.columns % lanes
                          ? 0
                          : std::min(p.rows, few_rows_tile(p.rows, narrow));
  b.once = few > 0 && tile_fits(few, p.columns / lanes) && ask(s, "once", 1, {0, 1});
  if (b.rows == 0)
    std::tie(b.rows, b.vectors) = b.tiled  ? std::pair<int64_t, int64_t>(2 * lanes, 2)
                                  : b.once ? std::pair(few, p.columns / lanes)
                                           : register_tile(s, p.rows, p.columns, parts_cost, streamed);
  b.columns = p.panels.empty() ? b.vectors * lanes : p.columns;
  b.all_columns = p.columns * panels;

  // Panels that stay in the last cache pass by once for each image: they come in one piece, what
  // runs across them does not.
  b.of_panels = b.all_columns * p.deep * 4;
  if (p.across && !p.panels.empty() && common.empty() && b.of_panels <= limits_.l3 / 8 && p.rows >= 32 &&
      p.more_rows.size() == 1 && balance(trips(*nest(s).find(p.more_rows[0])), threads) > 0.97 &&
      ask(s, "images_outside", 1, {0, 1})) {
    b.outer_parallel = p.more_rows[0];
    p.outer.insert(p.outer.begin(), b.outer_parallel);
    p.more_rows.clear();
  }
  for (auto& o : p.outer)
    if (const int64_t t = trips(*nest(s).find(o));
        threads > 1 && t > 1 && balance(t, threads) > 0.97 &&
        (b.outer_parallel.empty() || t > trips(*nest(s).find(b.outer_parallel))))
      b.outer_parallel = o;
}

/// Is the operand packed, do workers share rows or columns, and how large are the blocks?
void DefaultScheduler::cache_blocks(StageId s, const Product& p, ProductBlocks& b,
                                    const std::vector<std::string>& common) {
  const int64_t lanes = limits_.lanes, threads = common.empty() ? limits_.threads : 1;
  const int64_t few_rows = p.columns * 4 % 4096 == 0 ? 256 : 512;
  b.pack = b.in_words || p.transposed ||
           (p.packable && p.panels.empty() && !b.small && !p.cut &&
            ask(s, "pack", panels_pay(p, few_rows), {0, 1}));
  const int64_t share_of_one = (b.all_columns + threads - 1) / threads;
  const double by_tiles = double(share_of_one) / double(round_up(share_of_one, b.columns)),
               by_lanes =
                   p.panels.empty() ? double(share_of_one) / double(round_up(share_of_one, lanes)) : by_tiles,
               of_rows = balance((p.rows + b.rows - 1) / b.rows, threads);
  const bool few_columns = b.all_columns < 2 * threads * b.columns && p.rows >= 2 * threads * b.rows;
  // (Who packs what another one reads waits for it, and the panels come from the other's cache.)
  const double to_share = b.pack ? 0.06 : 0.02;
  b.by_rows = threads > 1 && b.outer_parallel.empty() &&
              ask(s, "by_rows",
                  (few_columns && !b.pack && of_rows > by_tiles - 0.02) ||
                      of_rows > std::max(by_lanes, by_tiles) + to_share,
                  {0, 1});
  const int64_t sharers = b.by_rows || !b.outer_parallel.empty() ? 1 : threads;
  int64_t usual_share = (b.all_columns + sharers - 1) / sharers;
  usual_share = round_up(usual_share, by_lanes > by_tiles + 0.03 ? lanes : b.columns);
  b.divisible = p.open && p.depth.size() == 1 && p.sums.empty() && common.empty() && !p.across && !b.small &&
                !b.once && !p.cut;
  // Multiplied by tiles they are used up faster than a cache but the second brings them. Of an unknown number
  // of columns, memory is kept for those of one share.
  if (b.tiled || p.any_size) {
    const int64_t deep = std::min(p.deep, b.divisible ? b.tiled ? deepest_tiles : deepest_panels : p.deep),
                  fit = limits_.l2 * (b.tiled ? 3 : 4) / 8 / (4 * deep);
    usual_share = std::min(usual_share, std::max(b.columns, fit / b.columns * b.columns));
    if (p.any_size && sharers > 1) usual_share = std::min(usual_share, 4 * b.columns); // there may be few
  }
  std::vector<int64_t> shares{usual_share};
  const auto half = [&](int64_t of) { return round_up(of / 2, b.columns); };
  while (usual_share > 1024 && half(usual_share) < usual_share)
    shares.push_back(usual_share = half(usual_share));
  if (usual_share > 2 * b.columns) shares.push_back(half(usual_share));
  b.share = ask(s, "share", usual_share, shares);
  // The other operand's block and the tile stay in the second cache, a panel of the depth in the
  // first one's reach.
  std::vector<int64_t> depths;
  for (int64_t d : {256, 512, 1024, 2048})
    if (b.divisible && d < p.deep) depths.push_back(d);
  const bool in_parts = limits_.full_rate && !b.pack && p.panels.empty() && rows_in_sets(p) < p.deep;
  const int64_t most_depth = b.tiled    ? deepest_tiles
                             : b.pack   ? deepest_panels
                             : in_parts ? std::min<int64_t>(rows_in_sets(p), 512)
                                        : 512,
                pieces = (p.deep + most_depth - 1) / most_depth;
  const int64_t usual_depth = b.tiled  ? round_up((p.deep + pieces - 1) / pieces, lanes)
                              : b.pack ? most_depth
                                       : round_up((p.deep + pieces - 1) / pieces, 4);
  b.depth =
      !p.sums.empty()
          ? trips(*nest(s).find(p.depth[0]))
          : ask(s, "depth",
                b.divisible && p.deep > (b.tiled || in_parts ? most_depth : 1024) ? usual_depth : p.deep,
                depths);
  const int64_t fits = b.tiled ? b.rows // (measured on Sapphire Rapids: blocks of 64 and 224 rows are slower)
                               : std::clamp<int64_t>(limits_.l2 * 9 / 10 / (4 * b.depth) / b.rows * b.rows,
                                                     b.rows * 4, 240 / b.rows * b.rows);
  std::vector<int64_t> blocks;
  for (int64_t size : {32, 64, 128, 192})
    if (size >= b.rows && size / b.rows * b.rows < p.rows) blocks.push_back(size / b.rows * b.rows);
  int64_t usual_block = !b.pack && p.rows <= few_rows ? round_up(p.rows, b.rows) : fits;
  if (b.by_rows) // as many blocks for each thread
    for (int64_t count = threads;; count += threads)
      if ((usual_block = round_up((p.rows + count - 1) / count, b.rows)) <= fits) break;
  b.block = ask(s, "block", usual_block, blocks);
}

/// The outermost axis of the stage that moves with the loop.
std::string DefaultScheduler::axis_in_loop(StageId s, const std::string& loop) const {
  const StageLoop& l = *nest(s).find(loop);
  const auto& axes = stage(s).axes;
  return axis_at(*std::ranges::find_if(
                     axes, [&](AxisId a) { return depends_on_loop(nest(s), axis_at(a).symbol, l); }))
      .name;
}

/// Splits the loops of the product, and of the copy, which stands before it from here on.
DefaultScheduler::ProductLoops DefaultScheduler::split_product(StageId& s, Product& p,
                                                               const ProductBlocks& b) {
  ProductLoops l;
  const std::string name = stage(s).name, value = value_at(p.value).name;
  const auto fresh = [&](const std::string& wish) { return nests_.free_name(wish); };
  if (b.in_words) {
    l.copy = stage(s - 1).name;
  } else if (b.pack) {
    l.copy = fresh(value + ".panels");
    // (A copy of the value would serve both factors, or have other axes than the product.)
    if (p.value == p.other || p.any_size)
      add(DirectiveKind::operand, {name, axis_in_loop(s, p.m), l.copy});
    else {
      std::vector<std::string> words{value, l.copy};
      words.insert(words.end(), p.joint.begin(), p.joint.end());
      add(DirectiveKind::stage, std::move(words));
    }
    s++;
    for (size_t i = p.joint.size(); i-- > 1;)
      add(DirectiveKind::merge, {l.copy, p.joint[i - 1], i + 1 == p.joint.size() ? p.joint[i] : p.n, p.n});
  }
  const auto split_all = [&](const std::string& loop, const std::string& o, const std::string& i, int64_t f) {
    add(DirectiveKind::split, {name, loop, o, i}, {f});
    if (b.pack && nests_.stages[s - 1].find(loop)) add(DirectiveKind::split, {l.copy, loop, o, i}, {f});
  };
  l.nc = fresh(p.n + ".c"), l.np = fresh(p.n + ".p"), l.nv = fresh(p.n + ".v"), l.nlane = fresh(p.n + ".l");
  l.kc = fresh(p.depth[0] + ".c"), l.ki = fresh(p.depth[0] + ".i");
  l.mc = fresh(p.m + ".c"), l.mt = fresh(p.m + ".t"), l.mi = fresh(p.m + ".i");
  if (p.panels.empty()) {
    const std::string nn = fresh(p.n + ".n"), ni = fresh(p.n + ".i");
    split_all(p.n, l.nc, nn, b.share);
    split_all(nn, l.np, ni, b.columns);
    split_all(ni, l.nv, l.nlane, limits_.lanes);
  } else {
    const std::string panel = fresh(p.n + ".q"), inside = fresh(p.n + ".r");
    add(DirectiveKind::split, {name, p.panels, l.nc, l.np}, {std::max<int64_t>(1, b.share / b.columns)});
    add(DirectiveKind::split, {name, p.n, panel, inside}, {b.vectors * limits_.lanes});
    add(DirectiveKind::split, {name, inside, l.nv, l.nlane}, {limits_.lanes});
    p.more_rows.insert(p.more_rows.begin(), panel);
  }
  l.inner_depth = p.depth;
  if (b.divisible || b.pack || b.reads_words) { // (words: the copy's loop along the sum is another one)
    split_all(p.depth[0], l.kc, l.ki, b.depth);
    l.inner_depth = {l.ki};
    l.chunk = {l.kc};
  }
  const std::string mm = fresh(p.m + ".m");
  add(DirectiveKind::split, {name, p.m, l.mc, mm}, {b.block});
  add(DirectiveKind::split, {name, mm, l.mt, l.mi}, {b.rows});
  if (!b.outer_parallel.empty()) l.outer.push_back(b.outer_parallel);
  for (auto& o : p.outer)
    if (o != b.outer_parallel) l.outer.push_back(o);
  return l;
}

/// The copy's loops and layout, and the product's around it.
void DefaultScheduler::pack_product(StageId s, const Product& p, const ProductBlocks& b,
                                    const ProductLoops& l, const std::vector<std::string>& common) {
  const int64_t lanes = limits_.lanes;
  const std::string name = stage(s).name;
  std::vector<std::string> sources; // of the panels
  visit_loads(stage(s - 1), [&](const FormulaLoad& f) {
    const std::string& source = value_at(f.value).name;
    if (!contains(sources, source)) sources.push_back(source);
  });
  const auto in_copy = [&](const std::string& loop) { return nests_.stages[s - 1].find(loop) != nullptr; };
  std::vector<std::string> moving, still, sums;
  for (auto& o : l.outer) (in_copy(o) ? moving : still).push_back(o);
  std::ranges::copy_if(p.sums, std::back_inserter(sums), in_copy);
  // Rows that are contiguous along the sum are transposed in squares, in registers.
  const bool squares = (p.transposed || l.words_follow) && b.depth >= lanes;
  // What tiles read is copied faster than memory brings it: rows of all panels, as they lie.
  const bool rows = b.tiled && !squares && b.depth > lanes;
  const auto split_depth = [&] {
    std::pair out(nests_.free_name(p.depth[0] + ".t"), nests_.free_name(p.depth[0] + ".u"));
    add(DirectiveKind::split, {l.copy, l.ki, out.first, out.second}, {lanes});
    return out;
  };
  if (squares) {
    const auto [kt, ku] = split_depth();
    order_loops(l.copy, {moving, {l.nc, l.kc}, sums, {l.np, l.nv, kt, ku, l.nlane}});
    add(DirectiveKind::unroll, {l.copy, ku});
  } else if (rows) {
    const auto [kt, ku] = split_depth();
    order_loops(l.copy, {moving, {l.nc, l.kc}, sums, {kt, l.np, ku, l.nv, l.nlane}});
    add(DirectiveKind::unroll, {l.copy, l.nv});
  } else {
    order_loops(l.copy, {moving, {l.nc, l.kc}, sums, {l.np, l.ki, l.nv, l.nlane}});
    add(DirectiveKind::unroll, {l.copy, l.nv});
  }
  const std::string columns = std::to_string(b.columns);
  const std::string column = p.joint.empty() ? p.n : joint_dimension(l.copy);
  std::vector<std::string> layout{b.in_words ? value_at(p.value).name : l.copy, l.kc, column + "/" + columns};
  layout.insert(layout.end(), sums.begin(), sums.end());
  layout.insert(layout.end(), {p.depth[0], column + "%" + columns});
  add(DirectiveKind::store, std::move(layout));
  add(DirectiveKind::vector, {l.copy, l.nlane});
  // Its rows are read in short pieces, each far from the one before: too far for the processor's
  // own guess.
  if (const int64_t steps = rows ? 0 : ask(s - 1, "prefetch", 16, {0, 8, 16, 32});
      steps > 0 && !squares && b.depth > 2 * steps)
    for (const std::string& source : sources)
      try_add(DirectiveKind::prefetch, {l.copy, source, l.ki, l.ki}, {steps});
  add(DirectiveKind::at, {name, l.kc});
  const bool distributed_here = !b.outer_parallel.empty() && contains(moving, b.outer_parallel);
  add(DirectiveKind::parallel, {l.copy, distributed_here ? b.outer_parallel : b.by_rows ? l.np : l.nc});
  // Loops along which the panels do not move stand inside, so that they are packed once.
  order_loops(name, {common,
                     moving,
                     {l.nc, l.kc},
                     still,
                     {l.mc, l.np},
                     p.more_rows,
                     {l.mt},
                     p.sums,
                     {l.ki, l.mi, l.nv, l.nlane}});
  add(DirectiveKind::parallel, {name, distributed_here ? b.outer_parallel : b.by_rows ? l.mc : l.nc});
}

/// Cache blocks, packed panels, a register tile.
bool DefaultScheduler::matmul(StageId s, const std::vector<std::string>& common) {
  std::optional<Product> p = product(s, common);
  std::optional<ProductBlocks> blocks = p ? worth_blocks(s, *p, common) : std::nullopt;
  if (!blocks) return false;
  ProductBlocks& b = *blocks;
  if (b.tiled) {
    merge_rows(s);
    p = product(s, common);
    p->sums = std::exchange(p->depth, {words_of_tiles(*p)});
    std::erase(p->sums, p->depth[0]);
  }
  tile_product(s, *p, b, common);
  cache_blocks(s, *p, b, common);
  const bool along_sum = b.in_words && words_follow(s - 1, p->depth[0]);
  ProductLoops l = split_product(s, *p, b);
  l.words_follow = along_sum;
  const std::string name = stage(s).name;
  if (b.pack) {
    pack_product(s, *p, b, l, common);
  } else {
    if (b.by_rows)
      order_loops(name, {common,
                         {l.mc},
                         l.outer,
                         {l.nc},
                         l.chunk,
                         {l.np},
                         p->more_rows,
                         {l.mt},
                         l.inner_depth,
                         {l.mi, l.nv, l.nlane}});
    else
      order_loops(name, {common,
                         l.outer,
                         {l.nc},
                         l.chunk,
                         {l.mc, l.np},
                         p->more_rows,
                         {l.mt},
                         l.inner_depth,
                         {l.mi, l.nv, l.nlane}});
    add(DirectiveKind::parallel, {name, !common.empty()             ? common[0]
                                        : !b.outer_parallel.empty() ? b.outer_parallel
                                        : b.by_rows                 ? l.mc
                                                                    : l.nc});
  }
  add(DirectiveKind::vector, {name, l.nlane});
  add(DirectiveKind::unroll, {name, l.mi, l.nv});
  prefetch_product(s, *p, b, l, common);
  const std::string& innermost = l.inner_depth.back();
  const StageLoop* last = nest(s).find(innermost);
  if (last->symbol.is_symbol() && !b.tiled)
    if (const int64_t bodies = ask(s, "bodies", b.small ? 1 : 4, {1, 2, 4, 8}); bodies > 1)
      add(DirectiveKind::jam, {name, innermost}, {bodies});
  if (p->cut) {
    add(DirectiveKind::predicate_bound, {name, innermost});
    add(DirectiveKind::predicate_split, {innermost});
  }
  done_ = s;
  return true;
}

/// Rows of unknown numbers in batches that an index takes apart (heads that are contiguous in every row). A
/// division for each batch costs little, and axes that are not split can be copied to panels.
bool DefaultScheduler::product_of_any_size(StageId s) {
  const auto p = product(s, {});
  return p && p->any_size && p->transposed && matmul(s, {});
}

} // namespace luminal::kernel
