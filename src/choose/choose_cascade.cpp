// choose/choose_cascade.cpp -- the default schedule of a tuple fold whose weights multiply a second
// operand: tiles of the reduction, each a cascade of plain folds.
//
// The lanes lie along a kept axis that every stage has and along which the second operand does not
// move. Then every step of the cascade (largest value, exponentials and their sum, correction,
// product) is plain vector work, and the operands are read in place as broadcast scalars.
#include "base/contains.h"
#include "choose/default_scheduler.h"
#include "cone/formula.h"
#include "schedule/lower.h"
#include <algorithm>
#include <set>

namespace luminal::kernel {

namespace {

/// The largest divisor of n in low..high; 0 where there is none.
int64_t divisor_in(int64_t n, int64_t low, int64_t high) {
  for (int64_t d = high; d >= low; --d)
    if (n % d == 0) return d;
  return 0;
}

} // namespace

/// The one tuple of the cone, its reduced axis, the kept axes that all stages share, the one of
/// them that fills the lanes.
std::optional<DefaultScheduler::Tuple> DefaultScheduler::tuple() const {
  Tuple t;
  for (const StageId s : nests_.cone.stages.ids()) {
    if (!stage(s).monoid) continue;
    if (t.stage || stage(s).scan_axis || !has_fold(stage(s))) return {};
    t.stage = s;
  }
  if (!t.stage) return folds_of_products();
  const Stage& fold = stage(t.stage);
  t.folds = {fold.name};
  const size_t parts = size_t(fold.monoid->size());
  std::vector<AxisId> kept;
  for (AxisId a : fold.axes) {
    size_t with = 0;
    for (size_t i = 0; i < parts; i++) with += contains(fold.components[i].axes, a);
    if (with == 0 && t.reduced) return {};
    if (with == 0)
      t.reduced = a;
    else if (with == parts)
      kept.push_back(a);
    else
      t.wide = a;
  }
  if (!t.reduced) return {};
  for (StageId s = t.stage + 1; s < nests_.cone.stages.end_id(); ++s) // it would read an unfinished state
    if (contains(stage(s).axes, t.reduced)) return {};
  for (AxisId a : kept) {
    const Expr symbol = axis_at(a).symbol;
    bool everywhere = symbol.is_symbol(), used_again = true;
    for (auto& s : nests_.cone.stages)
      everywhere &=
          (contains(s.axes, a) || transposed_.contains(s.name) || s.name == block_mask_) && s.ordered.empty();
    for (size_t i = 0; i < parts; i++)
      if (contains(fold.components[i].axes, t.wide))
        for (Expr e : index_exprs(fold.components[i].body)) used_again &= !depends_on(e, symbol);
    if (!t.wide) used_again = read_again(t.stage, t.reduced, a);
    if (!everywhere) continue;
    if (used_again && trips(*nest(t.stage).find(axis_at(a).name)) > limits_.lanes) t.lanes = a;
    t.common.push_back(a);
  }
  if (!t.lanes) return {};
  std::erase(t.common, t.lanes);
  if (trips(*nest(t.stage).find(axis_at(t.reduced).name)) < 32) return {};
  return t;
}

/// Operands that are read along the lanes with large steps, for every trip of the reduction: a copy
/// has them side by side. Of a product one factor is copied, from wherever it is read; of words of
/// a dot instruction a value.
std::vector<std::pair<std::string, std::vector<std::string>>> DefaultScheduler::copies_for(const Tuple& t) {
  const Expr lanes = axis_at(t.lanes).symbol, reduced = axis_at(t.reduced).symbol;
  struct Copied {
    std::string sum;
    ValueId value;
    std::vector<AxisId> axes; // of its dimensions; fewer than these where it is not read along whole axes
    size_t dimensions;
  };
  std::vector<Copied> wanted;
  for (StageId s(0); s < t.stage; s++) {
    const Stage& producer = stage(s);
    if (!has_fold(producer) || !contains(producer.axes, t.reduced)) continue;
    visit_loads(producer, [&](const FormulaLoad& f, DType dtype) {
      if (value_at(f.value).role == ValueRole::interior || !f.guard.is_constant(1)) return;
      const bool moves = varies(f.index, lanes), again = !varies(f.index, reduced);
      if (!moves || !again || step_of(nests_.cone, f.value, f.index, lanes) == Step::contiguous) return;
      Copied copy{producer.name, f.value, {}, f.index.size()};
      const int64_t word = bits(dtype) / bits(value_at(f.value).dtype);
      for (size_t d = 0; d < f.index.size(); d++)
        for (AxisId a : producer.axes)
          if (const Expr axis = axis_at(a).symbol;
              f.index[d] == (d + 1 == f.index.size() ? axis * word : axis))
            copy.axes.push_back(a);
      wanted.push_back(std::move(copy));
    });
  }
  std::vector<std::pair<std::string, std::vector<std::string>>> made;
  const auto dimensions = [&](const std::string& copy, const std::vector<AxisId>& axes) { // the lanes last
    std::vector<std::string> dims;
    for (AxisId a : axes)
      if (a != t.lanes && !contains(t.common, a)) dims.push_back(axis_at(a).name);
    dims.push_back(axis_at(t.lanes).name);
    made.emplace_back(copy, std::move(dims));
  };
  std::set<std::string> sums;
  std::set<ValueId> values;
  for (auto& w : wanted) {
    if (sums.contains(w.sum)) continue;
    std::string copy = nests_.free_name(w.sum + ".lanes");
    if (try_add(DirectiveKind::operand, {w.sum, axis_at(t.reduced).name, copy})) {
      sums.insert(w.sum);
      dimensions(copy, value_at(nests_.value(copy)).axes);
      continue;
    }
    const std::string value = value_at(w.value).name;
    copy = nests_.free_name(value + ".lanes");
    Attempt attempt = begin();
    const auto plain = [&] {
      const StageNest& its = nests_.stages[nests_.stage(copy)];
      return std::ranges::all_of(w.axes, [&](AxisId a) {
        const ConeAxis& axis = axis_at(a);
        return its.find(axis.name) != nullptr || !axis.symbol.is_symbol();
      });
    };
    if (w.axes.size() == w.dimensions && values.insert(w.value).second &&
        try_add(DirectiveKind::stage, {value, copy}) && plain()) {
      dimensions(copy, w.axes);
    } else {
      undo(std::move(attempt));
    }
  }
  return made;
}

/// A body that transforms read again is computed in each stage of the cascade: where it is made of
/// one finished sum, that sum's stage does it.
void DefaultScheduler::finish_sums(const Tuple& t) {
  std::vector<std::string> made;
  for (auto& c : stage(t.stage).components)
    if (is_operation(*c.body) && !c.body->origin.empty()) made.push_back(c.body->origin);
  for (auto& origin : made) {
    Attempt attempt = begin();
    const std::string value = nests_.free_name(origin + ".row");
    if (!try_add(DirectiveKind::materialize, {origin, value})) continue;
    const std::string map = stage(nests_.writer(nests_.value(value))).name;
    std::vector<std::string> sums;
    visit_loads(stage(nests_.stage(map)), [&](const FormulaLoad& f) {
      const StageId writer = nests_.writer(f.value);
      if (writer) sums.push_back(stage(writer).name);
    });
    if (sums.size() == 1 && nests_.stage(sums[0]) < nests_.stage(map) &&
        has_fold(stage(nests_.stage(sums[0]))) && try_add(DirectiveKind::fuse, {sums[0], map}))
      continue;
    undo(std::move(attempt));
  }
}

DefaultScheduler::TupleTile DefaultScheduler::tuple_tile(const Tuple& t) {
  const std::string& fold = t.folds[0];
  const bool domain = ends_along(stage(t.stage).domain, axis_at(t.reduced).symbol),
             wide = limits_.vector_registers >= 32;
  // A register tile of vectors side by side times rows. A domain cuts large tiles: fewer vectors,
  // more rows, where rows need no conversion.
  const StageLoop& reduction = *nest(t.stage).find(axis_at(t.reduced).name);
  const int64_t queries = trips(*nest(t.stage).find(axis_at(t.lanes).name)), keys = trips(reduction);
  bool converts = false;
  for (auto& c : stage(t.stage).components)
    if (contains(c.axes, t.wide)) visit(c.body, [&](const Formula& f) { converts |= f.is<FormulaCast>(); });
  const int64_t few = converts ? 2 : 1;
  std::vector<int64_t> side_by_side;
  for (int64_t v : {1, 2, 4})
    if (v * limits_.lanes < queries) side_by_side.push_back(v);
  const int64_t vectors = decisions_.ask(fold + ".vectors",
                                         std::min<int64_t>(side_by_side.back(), !wide                    ? 2
                                                                                : domain && keys <= 1024 ? few
                                                                                                         : 4),
                                         side_by_side);
  const int64_t most_rows = std::max<int64_t>(1, (wide ? 16 : 10) / vectors);
  const int64_t rows = decisions_.ask(fold + ".rows", most_rows, {2, 4, 8, 16});
  int64_t usual = std::min<int64_t>(64, keys / 2 / rows * rows);
  if (reduction.extent.is_constant() && keys % usual != 0)
    if (const int64_t even = divisor_in(keys, 40, std::min<int64_t>(128, keys / 2))) usual = even;
  return {vectors, rows, decisions_.ask(fold + ".depth", usual, {32, 64, 128, 256})};
}

/// The tiles of the copies; what is kept from one step to the next lies with the lanes side by side.
/// `words`: the axis of a product in words, or none.
void DefaultScheduler::store_tiles(
    const Tuple& t, const std::vector<std::pair<std::string, std::vector<std::string>>>& copies,
    const TileLoops& loops, AxisId words) {
  for (auto& [copy, dims] : copies) {
    std::vector<std::string> store{copy, loops.blocks};
    store.insert(store.end(), dims.begin(), dims.end());
    add(DirectiveKind::store, store);
  }
  for (const ValueId v : nests_.cone.values.ids()) {
    const ConeValue& value = nests_.cone.values[v];
    const StageId writer = value.role == ValueRole::interior ? nests_.writer(v) : StageId();
    if (!writer || std::ranges::any_of(copies, [&](auto& c) { return c.first == value.name; })) continue;
    const bool of_tile = contains(value.axes, t.reduced) ||
                         (words && contains(value.axes, words)); // none: a dimension of one element
    std::vector<std::string> dims{value.name, of_tile ? loops.tiles : loops.blocks};
    for (AxisId a : value.axes)
      if (a && a != t.lanes && !contains(t.common, a)) dims.push_back(axis_at(a).name);
    if (dims.size() == 2 || !contains(value.axes, t.lanes)) continue;
    dims.push_back(axis_at(t.lanes).name);
    add(DirectiveKind::store, dims);
  }
}

/// Where a condition of data decides which elements count, tiles of which none does are left out: a stage
/// finds these before. Gives its name, or nothing.
std::string DefaultScheduler::mask_blocks(const Tuple& t) {
  const std::string fold = t.folds[0], q = axis_at(t.lanes).name, k = axis_at(t.reduced).name;
  if (!stage(t.stage).monoid) return {};
  const TupleTile tile = tuple_tile(t);
  const int64_t block = tile.vectors * limits_.lanes;
  if (trips(*nest(t.stage).find(k)) < 2 * tile.block) return {};
  const std::string mask = nests_.free_name(fold + ".blocks");
  Attempt attempt = begin();
  if (!try_add(DirectiveKind::block_mask, {fold, mask, q, k}, {block, tile.block}) &&
      !try_add(DirectiveKind::block_mask, {fold, mask, k}, {tile.block}))
    return {};
  if (!decisions_.ask_whether(fold + ".mask", true)) {
    undo(std::move(attempt));
    return {};
  }
  // Its lanes go along the rows of the mask.
  const StageId s = nests_.stage(mask);
  std::vector<std::string> order{mask};
  for (const StageLoop& l : nest(s).loops) order.push_back(l.name);
  const std::string outer = order[1], inner = order.back();
  if (tile.block > limits_.lanes && tile.block % limits_.lanes == 0) {
    const auto [steps, lanes] = split(s, inner, limits_.lanes);
    order.back() = steps;
    order.push_back(lanes);
  }
  add(DirectiveKind::order, order);
  if (std::has_single_bit(uint64_t(trips(*nest(s).find(order.back())))))
    add(DirectiveKind::vector, {mask, order.back()});
  add(DirectiveKind::parallel, {mask, outer});
  return mask;
}

bool DefaultScheduler::cascade_tiles() {
  if (!tuple()) return false;
  Attempt attempt = this->begin();
  units(false); // the sums that the tuple reads
  block_mask_ = mask_blocks(*tuple());
  if (stage(tuple()->stage).monoid)
    finish_sums(*tuple());
  else
    keep_weights(*tuple());
  transpose_tiles(*tuple());
  const std::optional<Tuple> t = tuple();
  if (!t || !decisions_.ask_whether(t->folds[0] + ".tiles", true)) {
    if (!block_mask_.empty()) undo(std::move(attempt)), block_mask_.clear();
    return false;
  }
  const std::string fold = t->folds[0];
  const auto axis_name = [&](AxisId a) { return axis_at(a).name; };
  const std::string q = axis_name(t->lanes), k = axis_name(t->reduced);
  const bool domain = ends_along(stage(t->stage).domain, axis_at(t->reduced).symbol);
  const auto [vectors, rows, block] = tuple_tile(*t);
  const auto copies = copies_for(*t);
  copies_first(*t, copies);
  const auto fresh = [&](const std::string& wish) { return nests_.free_name(wish); };
  const std::string qo = fresh(q + ".o"), qw = fresh(q + ".v"), ql = fresh(q + ".l"), ko = fresh(k + ".o"),
                    ki = fresh(k + ".i");
  const std::string qi = vectors > 1 ? fresh(q + ".i") : ql;
  add(DirectiveKind::split, {"*", q, qo, qi}, {vectors * limits_.lanes});
  if (vectors > 1) add(DirectiveKind::split, {"*", qi, qw, ql}, {limits_.lanes});
  add(DirectiveKind::split, {"*", k, ko, ki}, {block});
  for (const std::string& name : t->folds) add(DirectiveKind::cascade, {name, ko});
  if (t->folds.size() > 1) tiles_together(ko);
  const std::string first = t->common.empty() ? qo : axis_name(t->common[0]);
  const bool enough = trips(*nest(first_stage).find(first)) >= 2 * limits_.threads; // for everyone
  const WordProduct product = product_in_words(*t, {qo, qw, ql, ko}, vectors, enough);
  const bool masked = !block_mask_.empty();
  if (masked) add(DirectiveKind::before, {block_mask_, stage(first_stage).name});
  const StageId begin(int(product.copies) + int(masked)); // what all blocks read comes before them
  std::vector<Far> far;
  for (StageId s = begin; s < nests_.cone.stages.end_id(); s++)
    far.push_back(tile_stage(s, *t, {qo, qw, ql, ko}, rows));
  prefetch_tiles(far, {qo, qw, ql, ko}, rows);

  // All run inside a block of lanes; from the first stage of the reduction on, inside its tiles.
  bool open = false;
  std::set<int> placed; // a cascade's stages follow its first one
  for (StageId s = begin; s < nests_.cone.stages.end_id(); s++) {
    const bool tile = nest(s).find(ko) != nullptr,
               follows = nest(s).cascade != 0 && !placed.insert(nest(s).cascade).second;
    if (s > begin && !follows) add(DirectiveKind::at, {stage(s).name, tile && open ? ko : qo});
    if (s == begin && product.inside) add(DirectiveKind::at, {stage(s).name, axis_name(t->common.back())});
    open |= tile;
  }
  store_tiles(*t, copies, {qo, qw, ql, ko}, product.axis);
  add(DirectiveKind::parallel, {"*", enough ? first : qo});
  if (domain) {
    add(DirectiveKind::predicate_split, {ko});
    for (const StageId s : nests_.cone.stages.ids()) {
      if (stage(s).domain.is_constant(1) && stage(s).needed.is_constant(1)) continue;
      for (auto& l : std::vector<StageLoop>(nest(s).loops))
        if (l.name != ko && l.kind == LoopKind::serial && l.symbol.is_symbol() &&
            std::ranges::any_of(std::initializer_list{t->reduced, product.axis}, [&](AxisId a) {
              return a && depends_on_loop(nest(s), axis_at(a).symbol, l);
            }))
          try_add(DirectiveKind::predicate_bound, {stage(s).name, l.name});
    }
  }
  return true;
}

/// The product with rounded weights takes the dot instruction where there is one: the weights of a
/// tile are put together in words between the sum that makes them and the product, the second
/// operand (where it does not lie in words) once for all blocks of lanes.
DefaultScheduler::WordProduct DefaultScheduler::product_in_words(const Tuple& t, const TileLoops& loops,
                                                                 int64_t vectors, bool enough) {
  StageId product(0); // none where one tile holds everything
  const StageId stages = nests_.cone.stages.end_id();
  while (product < stages &&
         (nest(product).cascade == 0 || !has_fold(stage(product)) || !contains(stage(product).axes, t.wide)))
    product++;
  if (product == stages) return {};
  const std::string name = stage(product).name, weights = nests_.free_name(name + ".weights"),
                    operand = nests_.free_name(name + ".operand");
  Attempt attempt = begin();
  const auto taken = [&](const std::string& unit) {
    if (is_tile_unit(unit)) return false;
    return try_add(DirectiveKind::unit, {name, unit, weights, operand}) ||
           try_add(DirectiveKind::unit, {name, unit, weights});
  };
  const auto unit = std::ranges::find_if(limits_.units, taken);
  if (unit == limits_.units.end()) return {};
  const StageId made = nests_.stage(weights);
  if (!contains(stage(made).axes, t.lanes) || !decisions_.ask_whether(name + ".unit", true)) {
    undo(std::move(attempt));
    return {};
  }
  WordProduct out{nests_.cone.axes.end_id() - 1, false};
  const ConeAxis axis = axis_at(out.axis);
  const std::string lanes = axis_at(t.lanes).name;
  const StageLoop* inner = nullptr; // of the product, along the words of a tile
  for (auto& l : nest(nests_.stage(name)).loops)
    if (l.name != loops.tiles && depends_on_loop(nest(nests_.stage(name)), axis.symbol, l)) inner = &l;
  const std::string step = inner->name, both = vectors > 1 ? nests_.free_name(lanes + ".i") : loops.lanes;
  const int64_t words = trips(*inner);
  add(DirectiveKind::split, {weights, lanes, loops.blocks, both}, {vectors * limits_.lanes});
  if (vectors > 1) add(DirectiveKind::split, {weights, both, loops.vectors, loops.lanes}, {limits_.lanes});
  add(DirectiveKind::split, {weights, axis.name, loops.tiles, step}, {words});

  out.copies = stage(first_stage).name == operand;
  if (!out.copies) return out;
  // Inside the loops that all stages share, or a nest of its own.
  out.inside = enough && !t.common.empty();
  std::vector<std::string> order{operand}, kept;
  for (AxisId a : t.common) {
    const std::string& common = axis_at(a).name;
    out.inside = out.inside && nest(first_stage).find(common);
    if (nest(first_stage).find(common)) order.push_back(common);
  }
  for (auto& l : nest(first_stage).loops)
    if (l.name != axis.name && !contains(order, l.name)) kept.push_back(l.name);
  std::string rows = axis.name;
  if (!out.inside) {
    const auto [blocks, within] = split(first_stage, axis.name, words);
    add(DirectiveKind::parallel, {operand, blocks});
    order.insert(order.begin() + 1, blocks);
    rows = within;
  }
  order.push_back(rows);
  if (!kept.empty()) {
    std::string last = kept.back();
    kept.pop_back();
    order.insert(order.end(), kept.begin(), kept.end());
    const int64_t n = trips(*nest(first_stage).find(last)),
                  width = std::min<int64_t>(limits_.lanes, int64_t(std::bit_ceil(size_t(n))));
    if (n != width) {
      const auto [outside, side_by_side] = split(first_stage, last, width);
      order.push_back(outside);
      last = side_by_side;
    }
    order.push_back(last);
    if (width > 1) add(DirectiveKind::vector, {operand, last});
  }
  add(DirectiveKind::order, order);
  return out;
}

/// While the first sum of a tile runs, the operand's next rows are asked for (16 of them, or as
/// many as a step has), and what no two blocks share and lies in rows far apart: the queries of the
/// next block, the results of this one.
void DefaultScheduler::prefetch_tiles(const std::vector<Far>& far, const TileLoops& loops, int64_t rows) {
  StageId sum;
  std::string along, steps; // its loops: the summed one, and the one outside of that
  for (StageId s(0); s < nests_.cone.stages.end_id() && !sum; s++) {
    const auto& l = nest(s).loops;
    for (size_t i = 1; i < l.size(); i++)
      if (l[i].kind == LoopKind::serial && has_fold(stage(s)) && nest(s).find(loops.tiles) &&
          loop_reduces(s, l[i]) && l[i].symbol.is_symbol() && l[i].extent.is_constant())
        sum = s, along = l[i].name, steps = l[i - 1].name;
  }
  for (auto& f : far) {
    if (f.value.empty()) continue;
    const StageId s = nests_.stage(f.stage);
    const bool shared = sum && !nest(s).find(along);
    const std::string inner = shared ? along : f.inner;
    if (inner.empty()) continue;
    const bool later = !shared || !f.written;
    if (ask(s, "prefetch", 1, {0}) > 0)
      try_add(DirectiveKind::prefetch,
              {f.stage, f.value, nest(s).find(loops.tiles) ? loops.tiles : loops.blocks, inner}, {later});
  }
  if (!sum) return;
  std::set<ValueId> read;
  visit_loads(stage(sum), [&](const FormulaLoad& f) {
    if (value_at(f.value).role == ValueRole::input) read.insert(f.value);
  });
  const int64_t ahead = steps == loops.tiles ? 1 : std::max<int64_t>(1, 16 / rows);
  for (ValueId value : read) prefetch_value(sum, value, {steps, along}, ahead, {0, 2 * ahead});
}

/// Loops of one stage of the cascade, or of what comes before and after it.
DefaultScheduler::Far DefaultScheduler::tile_stage(StageId s, const Tuple& t, const TileLoops& loops,
                                                   int64_t rows) {
  const std::string name = stage(s).name;
  const bool vectors = nest(s).find(loops.vectors) != nullptr;
  std::vector<std::string> order{name}, unrolled;
  std::vector<std::string> own; // neither shared nor of the lanes
  for (AxisId a : t.common)
    if (nest(s).find(axis_at(a).name)) order.push_back(axis_at(a).name);
  order.push_back(loops.blocks);
  if (nest(s).find(loops.tiles)) order.push_back(loops.tiles);
  for (auto& l : nest(s).loops)
    if (!contains(order, l.name) && l.name != loops.vectors && l.name != loops.lanes) own.push_back(l.name);
  const auto put = [&](std::initializer_list<std::string> names) {
    for (auto& n : names)
      if (n != loops.vectors || vectors) order.push_back(n);
  };
  const auto finish = [&](const std::string& lanes) {
    add(DirectiveKind::order, order);
    add(DirectiveKind::vector, {name, lanes});
    if (unrolled.empty()) return;
    std::vector<std::string> words{name};
    words.insert(words.end(), unrolled.begin(), unrolled.end());
    add(DirectiveKind::unroll, words);
  };

  std::string kept, summed; // innermost ones
  for (auto& l : own) (has_fold(stage(s)) && loop_reduces(s, *nest(s).find(l)) ? summed : kept) = l;
  if (!summed.empty()) { // a fold: a tile of rows, or one row alone
    std::string row;
    for (auto& l : own)
      if (l != summed && l != kept) order.push_back(l);
    if (!kept.empty()) {
      const int64_t n = trips(*nest(s).find(kept)),
                    even = divisor_in(n, std::max<int64_t>(rows / 2, 1), rows);
      std::string outside;
      if (n > rows || !nest(s).find(kept)->extent.is_constant())
        std::tie(outside, row) = split(s, kept, even ? even : rows);
      else
        row = kept;
      if (!outside.empty()) order.push_back(outside);
      unrolled.push_back(row);
    }
    order.push_back(summed);
    if (!row.empty()) order.push_back(row);
    put({loops.vectors, loops.lanes});
    if (vectors) unrolled.push_back(loops.vectors);
    finish(loops.lanes);
    const bool costly = std::ranges::count_if(stage(s).components, [](auto& c) { return !c.after; }) > 1;
    add(DirectiveKind::jam, {name, summed}, {costly ? 2 : 4});
    return {};
  }
  // A map between memory, where another axis is the innermost one, and values with the lanes side
  // by side: small transpositions.
  const Expr last = kept.empty() ? Expr(0) : nest(s).find(kept)->symbol;
  bool from_memory = false, to_memory = false;
  std::string far; // the value there
  const auto side_by_side = [&](ValueId value, const std::vector<Expr>& index, int64_t width) {
    const ConeValue& v = value_at(value);
    const bool yes = last.is_symbol() && v.role != ValueRole::interior &&
                     step_of(nests_.cone, value, over_loops(nest(s), index), last, width) == Step::contiguous;
    if (yes) far = v.name;
    return yes;
  };
  visit_loads(stage(s), [&](const FormulaLoad& f, DType dtype) {
    from_memory |= side_by_side(f.value, f.index, bits(dtype) / bits(value_at(f.value).dtype));
  });
  for (auto& c : stage(s).components)
    if (c.out) to_memory |= side_by_side(c.out, c.index, 1);
  for (auto& l : own)
    if (l != kept) order.push_back(l);
  if (to_memory) {
    std::string outside, lanes = kept;
    const int64_t n = trips(*nest(s).find(kept));
    if (n > limits_.lanes || (n & (n - 1)) != 0)
      std::tie(outside, lanes) = split(s, kept, std::min<int64_t>(limits_.lanes, std::bit_floor(size_t(n))));
    put({loops.vectors});
    if (!outside.empty()) order.push_back(outside);
    put({loops.lanes, lanes});
    unrolled.push_back(loops.lanes);
    finish(lanes);
    return {name, far, !outside.empty() ? outside : vectors ? loops.vectors : "", true};
  } else if (from_memory) {
    std::string outside, steps = kept;
    if (trips(*nest(s).find(kept)) > limits_.lanes) std::tie(outside, steps) = split(s, kept, limits_.lanes);
    if (!outside.empty()) order.push_back(outside);
    put({loops.vectors, steps, loops.lanes});
    unrolled.push_back(steps);
    finish(loops.lanes);
    return {name, far, vectors ? loops.vectors : outside, false};
  } else {
    if (!kept.empty()) order.push_back(kept);
    put({loops.vectors, loops.lanes});
    if (vectors && own.empty()) unrolled.push_back(loops.vectors);
    finish(loops.lanes);
  }
  return {};
}

} // namespace luminal::kernel
