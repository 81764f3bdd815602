// choose/choose_windows.cpp -- the default schedule of products with an operand that is read
// through windows (convolutions): copies in the order of the sum.
#include "choose/choose_windows.h"
#include "base/contains.h"
#include "choose/default_scheduler.h"
#include "cone/formula.h"
#include <algorithm>

namespace luminal::kernel {

int64_t bytes_of(const ConeValue& value) {
  int64_t bytes = std::max(1, bits(value.dtype) / 8);
  for (const Expr extent : value.shape) bytes = extent.is_constant() ? bytes * extent.value() : 0;
  return bytes;
}

namespace {

/// How often the product reads an element of what it reads through windows.
double reads_of_element(const Cone& cone, const Stage& st, const WindowedProduct& p) {
  double reads = 1;
  for (const AxisId a : st.axes) reads *= double(cone.axes[a].extent.value());
  for (const Expr extent : cone.values[load_of(*p.x)->value].shape) reads /= double(extent.value());
  return reads;
}

/// Has a loop of the stage lanes as all lies (vector_loop)?
bool has_lanes(const Nests& nests, StageId s) {
  const std::vector<AxisId> reduced = reduced_axes(nests.cone.stages[s]);
  return std::ranges::any_of(nests.stages[s].loops, [&](const StageLoop& l) {
    if (!l.symbol.is_symbol() || (l.extent.is_constant() && l.extent.value() < 4)) return false;
    const AxisUse use = use_along(nests, s, l.symbol);
    const bool reduces = std::ranges::any_of(
        reduced, [&](AxisId a) { return depends_on_loop(nests.stages[s], nests.cone.axes[a].symbol, l); });
    const bool near = use.near > 0 && (reduces || !use.store_contiguous);
    // (Images that are read from their ends lie the other way round in a copy.)
    return use.contiguous > 0 && use.strided + use.irregular + use.backwards == 0 && !near;
  });
}

bool may_pad(const WindowedProduct& p) { return p.window && p.step != Step::irregular && p.depth >= 16; }
} // namespace

bool takes_padded_copy(const Cone& cone, const WindowedProduct& p) {
  if (!may_pad(p)) return false;
  try {
    Nests nests(cone);
    kernel::padded_copy(nests, cone.values[load_of(*p.x)->value].name, nests.free_name("frame"));
  } catch (const ScheduleFailure&) {
    return false;
  }
  return true;
}

double share_of(int64_t n, int64_t unit) {
  const int64_t all = (n + unit - 1) / unit * unit;
  return double(n) / double(all);
}

WindowBlocks window_blocks(const WindowedProduct& p, const MachineLimits& limits, int64_t rows) {
  WindowBlocks best;
  for (int64_t r = 1; r <= p.rows; r++) {
    if (p.rows % r || (rows && r != rows)) continue;
    WindowBlocks b;
    b.rows = r;
    b.used = share_of(r * p.run, limits.lanes);
    b.by_image = p.images > 1 && share_of(p.images, limits.threads) > 0.95;
    const double by_rows = share_of(p.rows / r, limits.threads);
    // Blocks of the second cache, one after the other; else all of it, before the product.
    b.apart = p.depth * r * p.run * 4 <= limits.l2 * 5 / 8 && (b.by_image || by_rows > 0.95);
    // Longer runs use what they read of the other operand more often.
    const auto worth = [](const WindowBlocks& x) { return x.used * (x.apart ? 1 : 0.95); };
    if (best.rows == 0 || (worth(b) > worth(best) - 0.01 && r * p.run <= 512)) best = b;
  }
  return best;
}

WindowWays window_ways(const WindowedProduct& p, const MachineLimits& limits) {
  WindowWays ways;
  if (p.run >= limits.lanes && p.window) ways.padded = share_of(p.run, limits.lanes);
  if (p.depth < 64) return ways;
  // An element of the windows takes as long to copy as some twelve vectors to multiply and add.
  const WindowBlocks blocks = window_blocks(p, limits);
  ways.copied = blocks.used * (blocks.apart ? 1 : 0.95) / (1 + 12 / double(p.uses));
  return ways;
}

/// The copies of all images at once where they are smaller than the other operand: that comes from
/// memory once then, not once for each of them.
bool DefaultScheduler::images_inside(StageId s, const WindowedProduct& p, int64_t bytes) {
  const int64_t other = p.uses * p.depth * 4;
  return bytes < other && other > limits_.l2 / 2 &&
         ask(s, "images_inside", share_of(p.uses, 4 * limits_.lanes * limits_.threads) > 0.95, {0, 1});
}

/// The operand is copied once with the zeros around it, and windows are shifted views of that: no
/// condition is left in the loops, and nothing is copied as often as windows overlap. Rows that are
/// read in steps of several are taken apart, so that lanes read side by side.
bool DefaultScheduler::copy_padded(StageId s, const WindowedProduct& p, bool across) {
  if (!may_pad(p)) return false;
  const WindowWays ways = window_ways(p, limits_);
  if (!ask(s, "padded_copy", across || ways.padded > ways.copied, {0, 1})) return false;
  const auto name = [&](AxisId a) { return axis_at(a).name; };
  const std::string product = stage(s).name, value = value_at(load_of(*p.x)->value).name,
                    copy = nests_.free_name(value + ".frame");
  const auto extent = [&](AxisId a) { return axis_at(a).extent.value(); };
  std::vector<std::string> images, shared;
  int64_t image_count = 1;
  for (AxisId a : p.batches) images.push_back(name(a)), image_count *= extent(a);
  const bool by_image = image_count > 1 && share_of(image_count, limits_.threads) > 0.95;
  if (by_image) shared = images;
  // Lanes go along the run of the results, which need not be the operand's last dimension (images
  // with their channels innermost).
  const Expr run = axis_at(p.kept.back()).symbol;
  const size_t dims = load_of(*p.x)->index.size();
  size_t along = dims - 1;
  for (size_t d = 0; d < dims && !across; d++)
    if (depends_on(load_of(*p.x)->index[d], run)) along = d;
  const auto step = coefficient_of(load_of(*p.x)->index[along], run);
  const int64_t apart = !across && step && step->is_constant() ? step->value() : 1;
  Attempt attempt = begin();
  if (!try_add(DirectiveKind::padded_copy, {value, copy})) return false;
  const int64_t bytes = bytes_of(nests_.cone.values.back());
  if (across && by_image && images_inside(s, p, bytes)) shared.clear();
  if (across && p.batches.size() + 1 < p.kept.size()) {
    // Blocks of rows, each copied by the worker that reads it: what another core has just written
    // comes slowest. Each of them meets all of the other operand then, which nobody writes.
    const AxisId outermost = p.kept[p.batches.size()];
    const bool rows_of_run = outermost == p.kept[p.kept.size() - 2];
    const int64_t all = extent(outermost);
    std::vector<int64_t> options;
    int64_t usual = all;
    const auto deals = [&](int64_t rows) { return by_image || all / rows % limits_.threads == 0; };
    // Tiles of 2 x 2 or 1 x 4 leave nothing over.
    const auto suits = [&](int64_t rows) { return !rows_of_run || rows % 2 == 0 || p.run % 4 == 0; };
    for (int64_t r = all / 2; r >= 2; r--) {
      if (all % r) continue;
      options.push_back(r);
      if (usual == all && bytes / image_count * 8 > p.uses * p.depth * 4 && !deals(all) && deals(r) &&
          suits(r))
        usual = r;
    }
    options.push_back(all);
    const std::string row = name(outermost);
    if (const int64_t rows = ask(s, "padded_rows", usual, options); rows < all) {
      undo(std::move(attempt));
      if (try_add(DirectiveKind::padded_copy, {value, copy, row}, {rows})) {
        const std::string block = axis_at(nests_.cone.values.back().axes[0]).name;
        shared = images;
        shared.insert(by_image ? shared.end() : shared.begin(), block);
      } else
        add(DirectiveKind::padded_copy, {value, copy});
    }
  }
  const ConeValue made = nests_.cone.values.back();
  std::vector<std::string> words{copy, shared.empty() ? "root" : shared.back()}, outer{stage(s).name};
  std::vector<std::string> summed; // along which nothing else moves
  const AxisId innermost = made.axes[made.axes.size() - dims + along];
  for (AxisId a : made.axes) {
    if (!a || a == innermost) continue;
    if (!contains(shared, name(a))) (across && contains(p.summed, a) ? summed : words).push_back(name(a));
    outer.push_back(name(a));
  }
  // A tile goes along the rows that it reads, through all that is summed: these come from the
  // second cache one after the other.
  words.insert(words.end(), summed.begin(), summed.end());
  if (innermost) words.push_back(name(innermost)), outer.push_back(name(innermost));
  if (apart > 1 && innermost) {
    const std::string row = outer.back(), size = std::to_string(apart);
    const auto [o, i] = split(s, row, apart);
    words.pop_back(), outer.pop_back();
    words.push_back(row + "%" + size), words.push_back(row + "/" + size);
    outer.push_back(i), outer.push_back(o);
    add(DirectiveKind::order, outer);
  }
  add(DirectiveKind::store, words);
  block_loops_[stage(s).name] = block_loops_[product] = shared;
  if (across) padded_products_[product] = nests_.cone.values.end_id() - 1;
  windowed_ = true;
  return true;
}

/// Do the other operand's rows run along the sum, and what is read through windows or in steps of
/// several along nothing long that is kept? (The gradient of a convolution's weights.)
bool DefaultScheduler::sums_rows(const WindowedProduct& p) const {
  const auto step = [&](const Formula& f, AxisId a) {
    const FormulaLoad& load = *load_of(f);
    return step_of(nests_.cone, load.value, load.index, axis_at(a).symbol);
  };
  return p.outputs.size() == 1 && p.summed.size() > 1 && p.depth >= 64 && p.x->dtype == DType::f32 &&
         p.w->dtype == DType::f32 && axis_at(p.outputs[0]).extent.value() >= limits_.lanes &&
         (p.window ? p.run < limits_.lanes : step(*p.x, p.summed.back()) == Step::near) &&
         std::ranges::any_of(p.summed, [&](AxisId a) { return step(*p.w, a) == Step::contiguous; });
}

/// The same with groups, where lanes go along rows of the sum: are these longer than those of the results?
bool DefaultScheduler::sums_rows_of_groups(const WindowedProduct& p) const {
  if (!p.window || p.summed.size() < 2 || p.depth < 64) return false;
  const AxisId row = p.summed.back();
  const auto step = [&](const Formula& f) {
    const FormulaLoad& load = *load_of(f);
    return step_of(nests_.cone, load.value, load.index, axis_at(row).symbol);
  };
  // (Lanes are added to each other in the end.)
  const Step along = step(*p.x);
  return share_of(axis_at(row).extent.value(), limits_.lanes) > 1.5 * share_of(p.run, limits_.lanes) &&
         (along == Step::contiguous || along == Step::near) && step(*p.w) == Step::contiguous;
}

/// Are whole vectors contiguous along the rows of results, and does another stage read more
/// along these? Lanes that go across rows would gather that.
bool DefaultScheduler::along_rows(StageId s, const WindowedProduct& p) const {
  if (p.run % limits_.lanes || p.step != Step::contiguous) return false;
  const Expr run = axis_at(p.kept.back()).symbol;
  for (const StageId other : nests_.cone.stages.ids()) {
    if (other == s) continue;
    bool reads = false;
    visit_loads(stage(other), [&](const FormulaLoad& f) {
      reads |= value_at(f.value).role == ValueRole::input &&
               step_of(nests_.cone, f.value, f.index, run) == Step::contiguous;
    });
    if (reads) return true;
  }
  return false;
}

/// Before the product: the windows' operand with the zeros around it, or only those of its elements
/// that are read. Rows that are read in steps are taken apart, where `apart` is more than 1.
void DefaultScheduler::whole_copy(const WindowedProduct& p, int64_t apart) {
  if (p.window && load_of(*p.x)->guard.is_constant(1)) return;
  const std::string value = value_at(load_of(*p.x)->value).name,
                    copy = nests_.free_name(value + (p.window ? ".frame" : ".read"));
  if (!(p.window ? try_add(DirectiveKind::padded_copy, {value, copy})
                 : try_add(DirectiveKind::materialize, {p.origin, copy})))
    return;
  std::vector<std::string> words{copy, "root"};
  std::vector<std::string> order;
  for (AxisId a : nests_.cone.values.back().axes)
    if (a) words.push_back(axis_at(a).name), order.push_back(words.back());
  if (apart > 1 && nests_.cone.values.back().axes.back()) {
    const std::string row = words.back(), maker = stage(nests_.writer(nests_.cone.values.end_id() - 1)).name;
    const auto [o, i] = split(nests_.stage(maker), row, apart);
    words.pop_back(), order.pop_back();
    words.push_back(fmt::format("{}%{}", row, apart)), words.push_back(fmt::format("{}/{}", row, apart));
    order.insert(order.begin(), maker);
    order.insert(order.end(), {i, o});
    add(DirectiveKind::order, order);
  }
  add(DirectiveKind::store, words);
}

/// The axis along which the only map on the results of a fold writes its own side by side; none where that is
/// short, or not an axis of the fold.
AxisId DefaultScheduler::run_of_reader(StageId s) const {
  const ValueId results = stage(s).components[0].out;
  if (!results || stage(s).components.size() != 1 || value_at(results).role != ValueRole::interior) return {};
  const std::vector<StageId> readers = nests_.readers(results);
  if (readers.size() != 1 || stage(readers[0]).components.size() != 1) return {};
  const Component& map = stage(readers[0]).components[0];
  if (map.kind != ComponentKind::map || !map.out) return {};
  for (AxisId a : stage(s).components[0].axes)
    if (contains(map.axes, a) && axis_at(a).extent.is_constant() &&
        axis_at(a).extent.value() >= limits_.lanes &&
        step_of(nests_.cone, map.out, map.index, axis_at(a).symbol) == Step::contiguous)
      return a;
  return {};
}

/// A fold for whose lanes one operand lies in another order than the results (images with their
/// channels last, groups of them): that is copied in the order of the results first, with the zeros
/// around it.
bool DefaultScheduler::lanes_by_copy(StageId s) {
  constexpr int64_t fewest_uses = 2; // of what is copied
  const Stage& st = stage(s);
  if (st.monoid || st.scan_axis || !has_fold(st) || !st.ordered.empty() || block_loops_.contains(st.name))
    return false;
  for (AxisId a : st.axes) // of panels, which get lanes as they are split
    if (!blocks_of(nests_.cone, st, axis_at(a).symbol).empty()) return false;
  if (has_lanes(nests_, s)) return false;
  int64_t points = 1;
  std::optional<Expr> run;
  for (const StageLoop& l : nest(s).loops) {
    if (!l.extent.is_constant()) return false;
    points = std::min(points * l.extent.value(), int64_t{1} << 40);
    if (l.symbol.is_symbol() && trips(l) >= 4 && !loop_reduces(s, l) &&
        use_along(nests_, s, l.symbol).store_contiguous)
      run = l.symbol;
  }
  // What is made of the results is written in its own order.
  if (const AxisId a = run_of_reader(s)) run = axis_at(a).symbol;
  if (!run) return false;
  std::map<ValueId, std::vector<Expr>> across; // by value: where it is read
  bool suits = true;
  visit_loads(st, [&](const FormulaLoad& f, DType dtype) {
    suits = suits && bits(dtype) <= bits(value_at(f.value).dtype); // words stay as they lie
    switch (step_of(nests_.cone, f.value, f.index, *run)) {
    case Step::none:
    case Step::contiguous: return;
    case Step::irregular: suits = false; return;
    default: across.emplace(f.value, f.index);
    }
  });
  if (!suits || across.size() != 1) return false;
  const auto [value, index] = *across.begin();
  const std::string name = value_at(value).name, copy = nests_.free_name(name + ".run");
  const std::string reader = st.name;
  if (points < fewest_uses * bytes_of(value_at(value)) * 8 / std::max(1, bits(value_at(value).dtype)) ||
      !ask(s, "run_copied", 1, {0, 1}) ||
      !(try_add(DirectiveKind::padded_copy, {name, copy}) || try_add(DirectiveKind::stage, {name, copy})))
    return false;
  const ConeValue& made = nests_.cone.values.back();
  std::vector<std::string> words{copy, "root"};
  std::string last;
  for (size_t d = 0; d < made.axes.size(); d++) {
    if (!made.axes[d]) continue;
    const std::string& axis = axis_at(made.axes[d]).name;
    if (depends_on(index[d], *run))
      last = axis;
    else
      words.push_back(axis);
  }
  words.push_back(last);
  add(DirectiveKind::store, words);
  windowed_ = true;
  return true;
}

/// All windows of the operand in memory, images and blocks of rows on the outside; product and copy share
/// the loops over what the second cache holds.
bool DefaultScheduler::copy_windows(StageId s, const WindowedProduct& p, bool across) {
  const std::string product = stage(s).name, origin = p.origin;
  const auto name = [&](AxisId a) { return axis_at(a).name; };
  const std::string value = nests_.free_name(origin + ".windows");
  std::vector<std::string> images, words{value, "root"}, sums;
  for (size_t k = 0; k + 2 < p.kept.size(); k++) images.push_back(name(p.kept[k]));
  for (AxisId a : p.summed) sums.push_back(name(a));
  const std::string run = name(p.kept.back()), row = p.kept.size() < 2 ? "" : name(p.kept[p.kept.size() - 2]);
  std::vector<int64_t> divisors;
  for (int64_t r = 1; r <= p.rows; r++)
    if (p.rows % r == 0 && r * p.run <= 1024) divisors.push_back(r);
  WindowBlocks blocks = window_blocks(p, limits_);
  const bool by_image = p.images > 1 && share_of(p.images, limits_.threads) > 0.95;
  if (!across && blocks.rows > 0)
    if (const int64_t r = ask(s, "window_rows", blocks.rows, divisors); r != blocks.rows)
      blocks = window_blocks(p, limits_, r);
  // Each row of an image, beside the whole other operand, in the second cache.
  const bool row_apart = across && !row.empty() && p.uses * p.depth * 4 <= limits_.l2 * 5 / 8 &&
                         p.depth * p.run * 4 <= limits_.l2 / 4 &&
                         (by_image || share_of(p.rows, limits_.threads) > 0.95);
  // Summed axes outside of what is contiguous in the result.
  words.insert(words.end(), images.begin(), images.end());
  const bool split_rows = !across && !row.empty() && blocks.rows > 0 && blocks.rows < p.rows;
  if (row_apart) words.push_back(row);
  // A block of one row (where their number is a prime) is the row itself.
  if (split_rows) words.push_back(blocks.rows == 1 ? row : fmt::format("{}/{}", row, blocks.rows));
  words.insert(words.end(), sums.begin(), sums.end());
  if (!row_apart && !row.empty() && !(split_rows && blocks.rows == 1))
    words.push_back(split_rows ? fmt::format("{}%{}", row, blocks.rows) : row);
  words.push_back(run);
  if (!try_add(DirectiveKind::materialize, {origin, value})) return false;
  const StageId copy = s, reader = s + 1;
  const std::string copy_name = stage(copy).name;
  std::vector<std::string> shared;
  if (split_rows) {
    const std::string outside = split(copy, row, blocks.rows).first;
    split(reader, row, blocks.rows);
    if (blocks.apart) shared.push_back(outside);
  }
  if (row_apart) shared.push_back(row);
  if (!images.empty() && (across ? by_image : blocks.by_image))
    shared.insert(shared.begin(), images.begin(), images.end());
  else if (across ? row_apart : blocks.apart)
    shared.insert(shared.end(), images.begin(), images.end());
  if (across && by_image && !row_apart && images_inside(reader, p, p.depth * p.rows * p.run * p.images * 4))
    shared.clear();
  if (!shared.empty() && !ask(reader, "window_blocks", 1, {0, 1})) shared.clear();
  if (!shared.empty()) words[1] = shared.back();
  add(DirectiveKind::store, words);
  block_loops_[copy_name] = block_loops_[product] = shared;
  return true;
}

/// The operand of a product that is read through a window, shifted, spread or filled up at its
/// ends, is copied in the order in which the product reads it (im2col), where that makes long runs
/// of lanes out of short ones.
void DefaultScheduler::windows() {
  constexpr double fewest_reads_of_groups = 64; // four results of 3 x 3 do not pay for a copy
  for (StageId s(0); s < nests_.cone.stages.end_id(); s++) {
    const auto p = windowed_product(nests_.cone, stage(s));
    if (!p || p->uses < 2) continue;
    // Weights that are converted: once, not for each element of an image.
    if (p->window && is_float(p->w->dtype) && bits(p->w->dtype) < 32 && !p->other_origin.empty()) {
      const std::string copy = nests_.free_name(p->other_origin + ".wide");
      if (try_add(DirectiveKind::materialize, {p->other_origin, copy})) {
        windowed_ = true;
        continue;
      }
    }
    const bool few = p->uses < 16; // too few to pay for copies of windows
    const bool one = p->groups.empty();
    if (one && !few && fallback_ == Fallback::full && sums_rows(*p) &&
        !(limits_.full_rate && window_ways(*p, limits_).copied > 0.7)) { // for transposed_panels()
      int64_t rows = 1;
      for (AxisId a : p->kept) rows *= axis_at(a).extent.value();
      if (rows < fewest_transposed) continue; // lanes along the sum, as all lies
      const size_t before = nests_.cone.stages.size();
      whole_copy(*p);
      s += int(nests_.cone.stages.size() - before);
      windowed_ = true;
      continue;
    }
    if (!one && sums_rows_of_groups(*p)) {
      const size_t before = nests_.cone.stages.size();
      row_sums_.insert(stage(s).name);
      const FormulaLoad& x = *load_of(*p->x);
      const auto apart = coefficient_of(x.index.back(), axis_at(p->summed.back()).symbol);
      whole_copy(*p, apart && apart->is_constant() ? apart->value() : 1);
      s += int(nests_.cone.stages.size() - before);
      windowed_ = true;
      continue;
    }
    if (!(p->window || p->step == Step::near) || p->step == Step::irregular) continue;
    if (!one && reads_of_element(nests_.cone, stage(s), *p) < fewest_reads_of_groups) continue;
    const bool across = has_panels(s, *p), beside = across || lies_beside(s, *p);
    const bool named = !p->origin.empty();
    const std::string read = value_at(load_of(*p->x)->value).name;
    if (copy_padded(s, *p, beside)) {
      s++;
      if (!named && try_add(DirectiveKind::inline_, {read})) s--;
      continue;
    }
    if (!one || few || !named || p->depth < 64 || (p->run == 1 && !across)) continue;
    const bool usual = across || p->step != Step::contiguous || p->run < 4 * limits_.lanes;
    if (!ask(s, "windows", usual, {0, 1})) continue;
    if (!copy_windows(s, *p, across)) break;
    windowed_ = true;
    s++;
  }
  for (StageId s(0); s < nests_.cone.stages.end_id(); s++)
    if (lanes_by_copy(s)) s++;
}

} // namespace luminal::kernel
