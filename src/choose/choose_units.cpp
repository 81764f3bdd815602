// choose/choose_units.cpp -- dot instructions, and units with tile registers, for sums of products of narrow
// numbers.
#include "base/contains.h"
#include "choose/choose_windows.h"
#include "choose/default_scheduler.h"
#include "cone/formula.h"
#include "loop/unit.h"
#include <algorithm>
#include <ranges>

namespace luminal::kernel {

/// Sums of products of narrow numbers take the machine's dot instructions. What becomes a plain map
/// that way is computed where it is read. An operand that is used often enough is put together in
/// words before. Without `copies` nothing else moves.
void DefaultScheduler::units(bool copies) {
  for (const std::string& unit : limits_.units)
    for (StageId s(0); s < nests_.cone.stages.end_id(); s++) {
      const std::string name = stage(s).name;
      if (!has_fold(stage(s))) continue;
      const size_t before = nests_.cone.stages.size();
      const auto p = one_windowed_product(nests_.cone, stage(s));
      if (p && bits(p->x->dtype) < 32) {
        const bool made = copies && fallback_ == Fallback::full && few_axis_.empty() && !is_tile_unit(unit) &&
                          words_of_values(name, unit);
        s += int(nests_.cone.stages.size() - before);
        // Copies of windows in words hold each element as often as windows overlap.
        if (made || (p->window && is_float(p->x->dtype) &&
                     p->depth * p->rows * p->run * p->images * 2 > limits_.l3 / 2))
          continue;
      }
      const bool moves = copies && fallback_ == Fallback::full; // a copy may be made
      if (is_tile_unit(unit)) {
        if (moves && few_axis_.empty() &&
            (panels_in_tiles(name, unit) || words_in_tiles(name, unit, 1) || frame_in_tiles(name, unit) ||
             matrix_in_tiles(name, unit) || words_in_tiles(name, unit, 2)))
          s += int(nests_.cone.stages.size() - before);
        continue;
      }
      if (!words_of_sum(name, unit, p && p->window, moves)) continue;
      // A sum that begins from what fills no word: its rows lie at odd places, and words of them
      // are not put into lanes by a copy.
      if (!copies && stage(s).components[0].init) {
        schedule_.directives.pop_back();
        nests_ = apply(original_, schedule_);
        continue;
      }
      const size_t made = nests_.cone.stages.size() - before;
      if (!decisions_.ask_whether(name + ".unit", true)) {
        schedule_.directives.pop_back();
        nests_ = apply(original_, schedule_);
        continue;
      }
      if (p && p->window) words_in_runs(*p);
      s += int(made);
      const Component& c = stage(s).components[0];
      if (c.kind != ComponentKind::map || !c.out) continue;
      if (copies && try_add(DirectiveKind::inline_, {value_at(c.out).name})) s--;
    }
}

/// The instruction on words as they lie, or on copies of them where these `moves` pay.
bool DefaultScheduler::words_of_sum(const std::string& name, const std::string& unit, bool windows,
                                    bool moves) {
  Attempt attempt = begin();
  const bool as_they_lie = try_add(DirectiveKind::unit, {name, unit});
  if (!moves) return as_they_lie;
  if (!as_they_lie) return copied_words(name, unit, windows);
  const StageId s = nests_.stage(name);
  // (Windows of an even number of columns are words of neighbours, which no lanes read.)
  const bool overlap = windows && overlapping_words(s), few = sum_of_few_words(s);
  if (!overlap && !few && !pays_for_words(s, windows)) return true;
  undo(std::move(attempt));
  if (overlap) return false;
  return copied_words(name, unit, windows) || (!few && try_add(DirectiveKind::unit, {name, unit}));
}

/// Where both operands lie in words along the sum, lanes along it end in a sum over lanes for each result. Do
/// the results of each weight pay for a copy that lets lanes go along the results?
bool DefaultScheduler::pays_for_words(StageId s, bool windows) const {
  constexpr int64_t many = 64, few_words = 4; // (measured on Zen 4)
  const Component& c = stage(s).components[0];
  if (!has_fold(stage(s)) || stage(s).components.size() != 1) return false;
  const AxisId columns = columns_apart(s); // (panels have their columns in lanes)
  if (!columns) return false;
  int64_t uses = 1, words = 1;
  for (AxisId a : stage(s).axes) {
    if (!axis_at(a).extent.is_constant() || (a == columns && axis_at(a).extent.value() < limits_.lanes))
      return false;
    bool moves = false; // the weights
    visit_loads(stage(s), [&](const FormulaLoad& f) {
      moves |= varies(f.index, axis_at(columns).symbol) && varies(f.index, axis_at(a).symbol);
    });
    int64_t& count = contains(c.axes, a) ? uses : words;
    if (!contains(c.axes, a) || !moves) count = std::min(count * axis_at(a).extent.value(), int64_t{1} << 40);
  }
  return (uses >= many && !windows) || uses * few_words >= words;
}

/// Words of windows lie in the order of the sum, as rows of results that are one run: lanes are filled also
/// where a row is short.
void DefaultScheduler::words_in_runs(const WindowedProduct& p) {
  const Directive unit = schedule_.directives.back();
  if (unit.kind != DirectiveKind::unit || p.kept.size() < 2) return;
  const StageId product = nests_.stage(unit.words[0]);
  const std::vector<AxisId> reduced = reduced_axes(stage(product));
  for (size_t c = 2; c < unit.words.size(); c++) {
    const std::vector<AxisId> axes = value_at(nests_.value(unit.words[c])).axes;
    if (!std::ranges::all_of(p.kept, [&](AxisId a) { return contains(axes, a); })) continue;
    std::vector<std::string> words{unit.words[c], "root"};
    for (size_t k = 0; k + 2 < p.kept.size(); k++) words.push_back(axis_at(p.kept[k]).name);
    for (AxisId a : axes)
      if (a && contains(reduced, a)) words.push_back(axis_at(a).name);
    for (AxisId a : {p.kept[p.kept.size() - 2], p.kept.back()}) words.push_back(axis_at(a).name);
    windowed_ |= try_add(DirectiveKind::store, std::move(words));
  }
}

/// Does a word that is read where it lies share elements with the next one along a kept axis?
bool DefaultScheduler::overlapping_words(StageId s) const {
  bool overlapping = false;
  visit_loads(stage(s).components[0].body, [&](const FormulaLoad& f, DType dtype) {
    const ConeValue& value = value_at(f.value);
    const int64_t width = bits(dtype) / std::max(1, bits(value.dtype));
    if (width < 2) return;
    for (AxisId a : stage(s).components[0].axes) {
      const auto step = coefficient_of(layout_offset(value, f.index), axis_at(a).symbol);
      overlapping |= step && step->is_constant() && step->value() % width != 0;
    }
  });
  return overlapping;
}

/// The axis along which the results are contiguous, where narrow numbers lie apart along it; else none.
AxisId DefaultScheduler::columns_apart(StageId s) const {
  const Component& c = stage(s).components[0];
  const auto columns = std::ranges::find_if(c.axes, [&](AxisId a) {
    return c.out && step_of(nests_.cone, c.out, c.index, axis_at(a).symbol) == Step::contiguous;
  });
  if (columns == c.axes.end()) return {};
  bool apart = false;
  visit_loads(c.body, [&](const FormulaLoad& f) {
    apart |= bits(value_at(f.value).dtype) < 32 &&
             step_of(nests_.cone, f.value, f.index, axis_at(*columns).symbol) == Step::strided;
  });
  return apart ? *columns : AxisId();
}

/// Is it a whole sum that has become a plain map, of few words, whose results lie along rows of words? Lanes
/// along the results would gather, and none go along the sum any more.
bool DefaultScheduler::sum_of_few_words(StageId s) const {
  const Component& c = stage(s).components[0];
  if (c.kind != ComponentKind::map || !c.out || has_fold(stage(s))) return false;
  if (std::ranges::any_of(nests_.readers(c.out), [&](StageId r) { return has_fold(stage(r)); })) return false;
  return bool(columns_apart(s));
}

/// Is the stage a copy in words for the next one, the only one?
bool DefaultScheduler::copies_words(StageId s) const {
  if (s + 1 >= nests_.cone.stages.end_id() || stage(s).components.size() != 1) return false;
  const ValueId value = stage(s).components[0].out;
  if (!value || nests_.readers(value) != std::vector<StageId>{s + 1}) return false;
  return std::ranges::any_of(schedule_.directives, [&](const Directive& d) {
    return d.kind == DirectiveKind::unit && d.words.size() > 2 &&
           std::find(d.words.begin() + 2, d.words.end(), value_at(value).name) != d.words.end();
  });
}

bool DefaultScheduler::is_tile_unit(const std::string& unit) {
  const std::optional<Unit> described = find_unit(unit);
  return described && described->tiles;
}

bool DefaultScheduler::on_tiles(StageId s) const {
  return std::ranges::any_of(schedule_.directives, [&](const Directive& d) {
    return d.kind == DirectiveKind::unit && d.words[0] == stage(s).name && is_tile_unit(d.words[1]);
  });
}

/// A unit with tile registers, for products that fill them: two by two tiles of results, whose columns come
/// from a copy in words; with two copies, rows that are not contiguous along the sum as well. `framed`: a
/// value of which a copy with zeros around it is read.
bool DefaultScheduler::words_in_tiles(const std::string& name, const std::string& unit, int copies,
                                      const std::string& framed) {
  const Unit tile = *find_unit(unit);
  if (tile.n != limits_.lanes || (copies > 1 && any_rows_)) return false; // (room for all rows there may be)
  Attempt attempt = begin();
  std::vector<std::string> words{name, unit, nests_.free_name(name + ".words")};
  if (copies > 1) words.push_back(nests_.free_name(name + ".rows"));
  if (!try_add(DirectiveKind::unit, words)) return false;
  if (!framed.empty()) try_add(DirectiveKind::padded_copy, {framed, nests_.free_name(framed + ".frame")});
  const StageId s = nests_.stage(name);
  Attempt merged = begin(); // as matmul() does again
  merge_rows(s);
  const std::optional<Product> p = product(s, {});
  int64_t all_rows = p ? p->rows : 0;
  if (p)
    for (const std::string& rows : p->more_rows) all_rows *= trips(*nest(s).find(rows));
  const bool suits = p && !p->cut && copies_words(s - 1) && stage(s - 1).components[0].out == p->value &&
                     p->panels.empty() && !p->across && !p->transposed && all_rows >= 2 * tile.m &&
                     4 * p->rows >= tile.m && p->columns >= 2 * tile.n &&
                     contains(p->depth, words_of_tiles(*p)) &&
                     trips(*nest(s).find(words_of_tiles(*p))) >= tile.k;
  undo(std::move(merged));
  if (suits && any_rows_) note_tile_rows(s, p->value);
  if (suits && decisions_.ask_whether(name + ".in_tiles", true)) {
    if (copies > 1) transposed_rows_.insert(stage(nests_.writer(nests_.value(words[3]))).name);
    return true;
  }
  undo(std::move(attempt));
  return false;
}

/// Words whose numbers are read far apart: lanes along the rows, which are contiguous there, and the words of
/// a block one by one. (A kernel that is nothing but such a copy: transposed(), by blocks of a buffer.)
void DefaultScheduler::transpose_rows(StageId s) {
  std::string row, words;
  std::vector<std::string> outer;
  for (const StageLoop& l : nest(s).loops) {
    const AxisUse use = use_along(nests_, s, l.symbol);
    std::string& role = use.store_contiguous ? words : row;
    if (l.symbol.is_symbol() && role.empty() && (use.store_contiguous || use.contiguous > 0))
      role = l.name;
    else
      outer.push_back(l.name);
  }
  if (row.empty() || words.empty()) return loops(s, {});
  const auto [rows, lane] = split(s, row, limits_.lanes);
  const auto [blocks, word] = split(s, words, limits_.lanes);
  outer.push_back(rows);
  order_loops(stage(s).name, {outer, {blocks, word, lane}});
  add(DirectiveKind::unroll, {stage(s).name, word});
  add(DirectiveKind::vector, {stage(s).name, lane});
  const auto shared = std::ranges::find_if(outer, [&](auto& l) { return trips(*nest(s).find(l)) > 1; });
  if (shared != outer.end()) add(DirectiveKind::parallel, {stage(s).name, *shared});
}

/// The axes along which the other operand alone moves: of no known extent, and how many rows the others are.
void DefaultScheduler::note_tile_rows(StageId s, ValueId columns) {
  constexpr int64_t fewest_of_copies = 32;
  tile_rows_ = 1, tile_axis_.clear(), tiles_from_ = fewest_of_copies;
  for (AxisId a : stage(s).components[0].axes) {
    const ConeAxis& axis = axis_at(a);
    bool moves = false;
    visit_loads(stage(s).components[0].body,
                [&](const FormulaLoad& f) { moves |= f.value == columns && varies(f.index, axis.symbol); });
    if (moves) continue;
    if (axis.extent.is_constant())
      tile_rows_ *= axis.extent.value();
    else
      tile_axis_ = axis.name;
  }
}

/// The loop over words of what tiles read from a copy.
std::string DefaultScheduler::words_of_tiles(const Product& p) const {
  const ConeValue& copy = value_at(p.value);
  return copy.axes.empty() || !copy.axes[0] ? "" : axis_at(copy.axes[0]).name;
}

/// Are the words of a copy contiguous along the loop where they are read?
bool DefaultScheduler::words_follow(StageId s, const std::string& loop) const {
  bool follow = false;
  visit_loads(stage(s).components[0].body, [&](const FormulaLoad& f, DType dtype) {
    if (!nest(s).find(loop)) return;
    const int64_t words = bits(dtype) / bits(value_at(f.value).dtype);
    const Expr offset = layout_offset(value_at(f.value), over_loops(nest(s), f.index));
    const auto step = coefficient_of(offset, nest(s).find(loop)->symbol);
    follow |= step && step->is_constant(std::max<int64_t>(1, words));
  });
  return follow;
}

/// Rows of several loops, which lie as those of one would, become one loop.
void DefaultScheduler::merge_rows(StageId s) {
  const auto lie_alike = [&](const Product& p) {
    const Expr row = nest(s).find(p.m)->symbol;
    const auto steps = [&](ValueId value, const std::vector<Expr>& index) {
      const auto step = coefficient_of(layout_offset(value_at(value), over_loops(nest(s), index)), row);
      return step && step->is_constant();
    };
    bool alike = true;
    visit_loads(stage(s), [&](const FormulaLoad& f) { alike &= steps(f.value, f.index); });
    for (const Component& c : stage(s).components) alike &= !c.out || steps(c.out, c.index);
    return alike;
  };
  const auto merged = [&](const Product& p, const std::string& other) {
    const int64_t rows = p.rows * trips(*nest(s).find(other));
    for (const auto& [outer, inner] : {std::pair(other, p.m), std::pair(p.m, other)}) {
      Attempt attempt = begin();
      if (try_add(DirectiveKind::merge, {stage(s).name, outer, inner, inner}))
        if (const auto now = product(s, {}); now && now->rows == rows && lie_alike(*now)) return true;
      undo(std::move(attempt));
    }
    return false;
  };
  for (auto p = product(s, {}); p; p = product(s, {}))
    if (std::ranges::none_of(p->more_rows, [&](const std::string& other) { return merged(*p, other); }))
      return;
}

/// The same where windows of rows that are contiguous along the sum (channels last) are read from a copy with
/// the zeros around the image.
bool DefaultScheduler::frame_in_tiles(const std::string& name, const std::string& unit) {
  const auto p = windowed_product(nests_.cone, stage(nests_.stage(name)));
  if (!p || !p->window || p->step == Step::contiguous || !takes_padded_copy(nests_.cone, *p)) return false;
  return windowed_ |= words_in_tiles(name, unit, 1, value_at(load_of(*p->x)->value).name);
}

/// The same for what is read through windows, or along several axes: as a matrix.
bool DefaultScheduler::matrix_in_tiles(const std::string& name, const std::string& unit) {
  const StageId s = nests_.stage(name);
  const auto p = windowed_product(nests_.cone, stage(s));
  if (!p || !pays_on_tiles(nests_.cone, stage(s), *p, limits_)) return false;
  const std::string value = value_at(load_of(*p->x)->value).name, copy = nests_.free_name(value + ".matrix");
  Attempt attempt = begin();
  if (try_add(DirectiveKind::matrix, {name, copy}, {find_unit(unit)->n}) && words_in_tiles(name, unit, 1)) {
    // Rows of the matrix are rows of a copy with the zeros around the image: no condition is left in them.
    if (p->window) try_add(DirectiveKind::padded_copy, {value, nests_.free_name(value + ".frame")});
    return windowed_ = true;
  }
  undo(std::move(attempt));
  return false;
}

/// Axes along which a load runs through panels, the last of which is not full: split_blocks leaves
/// them alone.
void DefaultScheduler::split_panels(StageId s) {
  for (AxisId a : std::vector<AxisId>(stage(s).axes)) {
    const ConeAxis axis = axis_at(a);
    int64_t columns = 0;
    visit_loads(stage(s), [&](const FormulaLoad& f) {
      const auto last = std::ranges::find_if(
          f.index | std::views::reverse, [](Expr e) { return !e.is_constant(); }); // (after it: of a word)
      if (last == f.index.rend()) return;
      const Expr e = *last;
      if (e.kind() == ExprKind::mod && e.args()[0] == axis.symbol && e.args()[1].is_constant())
        columns = e.args()[1].value();
    });
    if (columns > 1 && axis.extent.is_constant() && axis.extent.value() > columns &&
        nest(s).find(axis.name) && nest(s).find(axis.name)->symbol == axis.symbol)
      split(s, axis.name, columns);
  }
}

/// Does the other operand lie in panels?
bool DefaultScheduler::has_panels(StageId s, const WindowedProduct& p) const {
  return std::ranges::any_of(
      p.outputs, [&](AxisId a) { return !blocks_of(nests_.cone, stage(s), axis_at(a).symbol).empty(); });
}

/// Is it a single panel, or rows of a transposed weight, while no epilogue reads rows of the results?
bool DefaultScheduler::lies_beside(StageId s, const WindowedProduct& p) const {
  if (along_rows(s, p)) return false;
  return std::ranges::any_of(p.outputs, [&](AxisId a) {
    const Expr axis = axis_at(a).symbol;
    const auto& out = stage(s).components[0];
    return step_of(nests_.cone, *p.w, axis) == Step::contiguous &&
           axis_at(a).extent.value() >= limits_.lanes &&
           (!out.out || step_of(nests_.cone, out.out, out.index, axis) != Step::contiguous);
  });
}

/// Do the last two of its kept axes lie inside of what is summed?
bool DefaultScheduler::is_image(const WindowedProduct& p) const {
  if (p.kept.size() < 2 || p.summed.empty() || p.step != Step::contiguous) return false;
  const auto place = [&](AxisId a) {
    const auto reads = [&](Expr e) { return e == axis_at(a).symbol; };
    const std::span<const Expr> index = index_of(*p.x);
    return std::ranges::find_if(index, reads) - index.begin();
  };
  return place(p.kept[p.kept.size() - 2]) > place(p.summed.back());
}

/// The unit with copies of values in words, of which windows are read, or images: lanes that go along
/// several dimensions.
bool DefaultScheduler::words_of_values(const std::string& name, const std::string& unit) {
  std::vector<std::string> words{name, unit};
  for (const char* side : {".words", ".words2"}) {
    words.push_back(nests_.free_name(name + side));
    Attempt attempt = begin();
    if (!try_add(DirectiveKind::unit_of_values, words)) continue;
    const StageId s = nests_.stage(name);
    const auto p = one_windowed_product(nests_.cone, stage(s));
    const auto padded = [&] {
      const WindowWays ways = window_ways(*p, limits_);
      return takes_padded_copy(nests_.cone, *p) &&
             (ways.padded > ways.copied || has_panels(s, *p) || lies_beside(s, *p));
    };
    if (p && p->uses >= 16 && (p->window ? padded() : is_image(*p)) &&
        decisions_.ask_whether(name + ".unit", true))
      return true;
    undo(std::move(attempt));
  }
  return false;
}

/// The unit with copies of one operand, or of both, where each word of them is read for many
/// results.
bool DefaultScheduler::copied_words(const std::string& name, const std::string& unit, bool windows) {
  // (Windows are copied at any rate.)
  const int64_t fewest_uses = windows ? 16 : 32;
  constexpr int64_t fewest_of_small = 8; // of copies that the first cache holds
  std::vector<std::string> words{name, unit};
  for (const char* side : {".words", ".words2"}) {
    words.push_back(nests_.free_name(name + side));
    Attempt attempt = begin();
    if (!try_add(DirectiveKind::unit, words)) continue;
    const StageId s = nests_.stage(name);
    bool suits = true;
    const std::vector<AxisId> reduced = reduced_axes(stage(s));
    const auto is_reduced = [&](AxisId a) { return std::ranges::find(reduced, a) != reduced.end(); };
    for (size_t c = 2; c < words.size(); c++) {
      const ConeValue& copy = value_at(nests_.value(words[c]));
      int64_t uses = 1, bytes = 4;
      bool batches = false; // each has a copy of its own
      for (AxisId a : stage(s).axes) {
        const ConeAxis& axis = axis_at(a);
        suits = suits && axis.extent.is_constant();
        if (!suits) break;
        bool all = true;
        visit_loads(stage(s).components[0].body,
                    [&](const FormulaLoad& f) { all &= varies(f.index, axis.symbol); });
        if (std::ranges::find(copy.axes, a) == copy.axes.end())
          uses = std::min(uses * axis.extent.value(), int64_t{1} << 40);
        else if (all && !is_reduced(a))
          batches = true;
        else
          bytes = std::min(bytes * axis.extent.value(), int64_t{1} << 40);
      }
      suits = suits && uses >= (batches && bytes <= limits_.l1 / 2 ? fewest_of_small : fewest_uses);
    }
    if (suits) return true;
    undo(std::move(attempt));
  }
  return false;
}

std::optional<DefaultScheduler::ForRows> DefaultScheduler::rows_on_tiles() {
  const auto dynamic = [](const ConeAxis& a) { return !a.extent.is_constant(); };
  const auto multiplied = [&](const std::string& unit) {
    return is_tile_unit(unit) && contains(original_.values, find_unit(unit)->a.dtype, &ConeValue::dtype);
  };
  if (std::ranges::none_of(limits_.units, multiplied) || std::ranges::none_of(original_.axes, dynamic))
    return {};
  any_rows_ = true;
  Schedule schedule = run(Fallback::full);
  if (!takes_tiles(schedule)) return {};
  return ForRows{std::move(schedule), tile_rows_ >= tiles_from_ ? "" : tile_axis_, tiles_from_};
}

bool DefaultScheduler::takes_tiles(const Schedule& schedule) {
  return std::ranges::any_of(schedule.directives, [](const Directive& d) {
    return d.kind == DirectiveKind::unit && is_tile_unit(d.words[1]);
  });
}

MachineLimits DefaultScheduler::without_tiles(MachineLimits limits) {
  std::erase_if(limits.units, is_tile_unit);
  return limits;
}

} // namespace luminal::kernel
