// choose/choose_nest.cpp -- stages that share blocks of their kept axes: statistics of long rows in
// tiles of the row, products beside statistics in blocks of rows.
#include "base/contains.h"
#include "base/log.h"
#include "base/settings.h"
#include "choose/contraction.h"
#include "choose/default_scheduler.h"
#include "cone/formula.h"
#include <algorithm>

namespace luminal::kernel {
/// Is an operand of a sum that the stage reads the same for all elements of the axis, though it
/// varies with what the stage reduces?
bool DefaultScheduler::read_again(StageId s, AxisId reduced, AxisId axis) const {
  for (StageId p(0); p < s; p++) {
    const Contraction c = contraction_of(nests_.cone, stage(p));
    const auto along = c.position(reduced), kept = c.position(axis);
    if (!c.folds || !along || !kept) continue;
    for (const Operand& o : c.operands)
      if (o.along[*kept] == Step::none && o.along[*along] != Step::none) return true;
  }
  return false;
}

/// Plain folds, all over one axis, over operands that other folds of the kernel make along it, as
/// gradients of products of products do.
std::optional<DefaultScheduler::Tuple> DefaultScheduler::folds_of_products() const {
  Tuple t;
  // Folds whose summed axis another one keeps, of which they read a result.
  const auto reads_along = [&](StageId s, AxisId axis) {
    bool found = false;
    visit_loads(stage(s), [&](const FormulaLoad& f) {
      const StageId w = nests_.writer(f.value);
      found |= w && w < s && has_fold(stage(w)) && contains(stage(w).axes, axis) &&
               !contains(reduced_axes(stage(w)), axis);
    });
    return found;
  };
  for (const StageId s : nests_.cone.stages.ids()) {
    const Stage& fold = stage(s);
    if (!fold.ordered.empty() || fold.scan_axis) return {};
    if (!has_fold(fold)) continue;
    const std::vector<AxisId> reduced = reduced_axes(fold);
    if (reduced.size() != 1 || !reads_along(s, reduced[0])) continue;
    if (t.reduced && t.reduced != reduced[0]) return {};
    if (fold.components[0].op != Op::add || fold.components.size() != 1) return {};
    if (!t.stage) t.stage = s;
    t.reduced = reduced[0];
    t.folds.push_back(fold.name);
  }
  if (!t.stage) return {};
  for (const std::string& name : t.folds) {
    const Stage& fold = stage(nests_.stage(name));
    // What reads a finished sum runs when all tiles are done.
    for (const StageId reader : nests_.readers(fold.components[0].out))
      if (contains(stage(reader).axes, t.reduced)) return {};
    for (const AxisId a : fold.axes) {
      bool made = a == t.reduced;
      for (StageId p(0); p < t.stage; p++)
        made |= contains(stage(p).axes, a) && !contains(reduced_axes(stage(p)), a);
      if (made) continue;
      if (t.wide && name == t.folds[0]) return {};
      if (!t.wide) t.wide = a;
    }
  }
  if (!t.wide) return {};
  const Contraction c = contraction_of(nests_.cone, stage(t.stage));
  for (const AxisId a : stage(t.stage).axes) {
    if (a == t.reduced || a == t.wide) continue;
    const ConeAxis& axis = axis_at(a);
    for (const StageId s : nests_.cone.stages.ids())
      if (!axis.symbol.is_symbol() || !contains(stage(s).axes, a) || contains(reduced_axes(stage(s)), a))
        return {};
    const bool again = std::ranges::any_of(c.operands, [&](const Operand& o) {
      return o.along[*c.position(a)] == Step::none && o.along[*c.position(t.reduced)] != Step::none &&
             o.along[*c.position(t.wide)] != Step::none;
    });
    if (again && trips(*nest(t.stage).find(axis.name)) > limits_.lanes) t.lanes = a;
    t.common.push_back(a);
  }
  if (!t.lanes || trips(*nest(t.stage).find(axis_at(t.reduced).name)) < 32) return {};
  std::erase(t.common, t.lanes);
  return t;
}

/// What a sum of products makes of finished sums is computed once a tile, not once for each of its
/// results: where it can, when the last of these sums is finished.
void DefaultScheduler::keep_weights(const Tuple& t) {
  for (const std::string& name : t.folds) {
    const FormulaRef body = stage(nests_.stage(name)).components[0].body;
    const Expr wide = axis_at(t.wide).symbol;
    if (!applies(*body, Op::mul)) continue;
    for (const FormulaRef& factor : args_of(*body)) {
      const auto exprs = index_exprs(factor);
      if (factor->origin.empty() || !is_operation(*factor) || varies(exprs, wide)) continue;
      const std::string value = nests_.free_name(factor->origin + ".tile");
      if (!try_add(DirectiveKind::materialize, {factor->origin, value})) continue;
      const std::string map = stage(nests_.writer(nests_.value(value))).name;
      StageId last;
      visit_loads(stage(nests_.stage(map)),
                  [&](const FormulaLoad& f) { last = std::max(last, nests_.writer(f.value)); });
      if (last && last < nests_.stage(map)) try_add(DirectiveKind::fuse, {stage(last).name, map});
      break;
    }
  }
}

/// Copies that all tiles share stand in front of the first stage of the tiles.
void DefaultScheduler::copies_first(
    const Tuple& t, const std::vector<std::pair<std::string, std::vector<std::string>>>& copies) {
  std::set<std::string> made;
  for (auto& [value, dims] : copies) made.insert(stage(nests_.writer(nests_.value(value))).name);
  std::string first; // of the tiles
  for (const StageId s : nests_.cone.stages.ids()) {
    const std::string name = stage(s).name;
    if (made.contains(name) && !first.empty()) {
      add(DirectiveKind::before, {name, first});
    } else if (!made.contains(name) && first.empty() && contains(stage(s).axes, t.reduced)) {
      first = name;
    }
  }
}

/// Of several folds the tiles are neighbours in the nest, and what follows each of them when all tiles are
/// done comes after all of them.
void DefaultScheduler::tiles_together(const std::string& tiles) {
  std::string after;
  bool open = false;
  for (const StageId s : nests_.cone.stages.ids()) {
    const std::string name = stage(s).name;
    const bool inside = nest(s).find(tiles) || nest(s).cascade != 0;
    if (inside && !after.empty())
      add(DirectiveKind::before, {name, after});
    else if (open && !inside && after.empty())
      after = name;
    open |= inside;
  }
}

/// A tuple fold whose components all keep the same axes, over one axis along which its operands are
/// contiguous: a row does not fit the first cache, and folds one after the other would read it as
/// often as there are components.
Result<Blocking> DefaultScheduler::row_statistic() {
  StageId s;
  for (const StageId i : nests_.cone.stages.ids())
    if (stage(i).monoid) {
      if (s) return Failure{"several tuple folds"};
      s = i;
    }
  if (!s) return Failure{"no tuple fold"};
  const Stage& fold = stage(s);
  const std::string& name = fold.name;
  if (fold.scan_axis || !has_fold(fold)) return Failure{fmt::format("{} is a scan", name)};
  if (!fold.domain.is_constant(1)) return Failure{fmt::format("{} has a domain", name)};
  const std::vector<AxisId> reduced = [&] {
    std::vector<AxisId> out;
    for (AxisId a : fold.axes)
      if (std::ranges::none_of(fold.components, [&](auto& c) { return contains(c.axes, a); }))
        out.push_back(a);
    return out;
  }();
  if (reduced.size() != 1) return Failure{fmt::format("{} reduces {} axes", name, reduced.size())};
  const ConeAxis& along = axis_at(reduced[0]);
  if (!along.extent.is_constant() || !along.symbol.is_symbol())
    return Failure{fmt::format("{}: the size of {} is not known", name, along.name)};

  Blocking blocking{.fold = name, .reduction = {along.name, 1}};
  for (AxisId a : fold.axes) {
    if (a == reduced[0]) continue;
    const ConeAxis& axis = axis_at(a);
    if (!axis.symbol.is_symbol()) continue; // one element
    for (const StageId i : nests_.cone.stages.ids()) {
      const StageLoop* own = nest(i).find(axis.name);
      if (!own || (i != s && loop_reduces(i, *own)) || !stage(i).ordered.empty())
        return Failure{fmt::format("{} does not keep axis {}", stage(i).name, axis.name)};
    }
    blocking.kept.push_back({axis.name, 1});
  }
  if (blocking.kept.empty()) return Failure{fmt::format("{} keeps no axis", name)};
  for (const Component& c : fold.components)
    if (c.kind == ComponentKind::fold && c.op != Op::add && c.op != Op::max && c.op != Op::min)
      return Failure{fmt::format("{}: no lanes for {}", name, row(c.op).name)};

  const Contraction c = contraction_of(nests_.cone, fold);
  const size_t k = *c.position(reduced[0]);
  int64_t bytes = 0; // of one element of the row
  for (const Operand& o : c.operands) {
    if (o.along[k] == Step::none) continue;
    if (o.along[k] != Step::contiguous)
      return Failure{
          fmt::format("{}: {} is not contiguous along {}", name, value_at(o.value).name, along.name)};
    if (o.interior)
      return Failure{fmt::format("{}: {} is computed in the kernel", name, value_at(o.value).name)};
    bytes += std::max(1, o.bits / 8);
  }
  if (bytes == 0) return Failure{fmt::format("{} reads nothing along {}", name, along.name)};
  const int64_t n = along.extent.value(), vectors = 4, unit = vectors * limits_.lanes,
                most = std::max(unit, limits_.l1 / 2 / bytes / unit * unit);
  if (n <= most) return Failure{fmt::format("{}: a row fits the first cache", name)};
  const int64_t tiles = (n + most - 1) / most;
  blocking.lanes = {along.name, limits_.lanes};
  blocking.vectors = ask(s, "vectors", vectors, {1, 2, 8});
  blocking.reduction.size = ask(s, "depth", round_up((n + tiles - 1) / tiles, unit),
                                {unit * 8, unit * 16, unit * 32, unit * 64, unit * 128});
  if (!decisions_.ask_whether(name + ".tiles", true))
    return Failure{fmt::format("{}: tiles are not wanted", name)};
  return blocking;
}

/// The directives of the cascade in tiles; what comes before and after it has loops of its own
/// inside the blocks.
void DefaultScheduler::add_directives(const Blocking& b) {
  const StageId s = nests_.stage(b.fold);
  const auto [tiles, inside] = split(s, b.reduction.axis, b.reduction.size);
  const auto [all, lanes] = split(s, inside, b.lanes.size);
  const auto [steps, vectors] = split(s, all, b.vectors);
  std::vector<std::string> kept, order{b.fold};
  for (const AxisBlock& axis : b.kept) kept.push_back(axis.axis);
  order.insert(order.end(), kept.begin(), kept.end());
  order.insert(order.end(), {tiles, steps, vectors, lanes});
  add(DirectiveKind::order, order);
  add(DirectiveKind::cascade, {b.fold, tiles});
  bool open = false; // the stages of the cascade follow its first one
  StageId last;      // of the stages that read the row
  for (const StageId i : nests_.cone.stages.ids()) {
    const std::string name = stage(i).name;
    const bool of_cascade = nest(i).cascade != 0;
    std::vector<std::string> shared;
    for (const std::string& loop : kept)
      if (nest(i).find(loop)) shared.push_back(loop);
    if (nest(i).find(lanes)) {
      add(DirectiveKind::vector, {name, lanes});
      add(DirectiveKind::unroll, {name, vectors});
      last = i;
    } else if (!of_cascade && !shared.empty()) {
      const size_t stages = nests_.cone.stages.size();
      loops(i, shared);
      if (nests_.cone.stages.size() != stages) refuse("stage {} takes a copy", name);
    }
    if (of_cascade && !shared.empty()) add(DirectiveKind::parallel, {name, shared[0]});
    if (i > first_stage && !(of_cascade && open)) add(DirectiveKind::at, {name, kept.back()});
    open |= of_cascade;
  }
  // While the last one takes a tile from the first cache, the next tile comes from the last one. (What
  // comes from memory is a run to the processor, which has more requests on the way than ours.)
  for (const ValueId value : inputs_of(last))
    if (const int64_t bytes = bytes_read(last, value, tiles).second; bytes > limits_.l2)
      prefetch_value(last, value, {tiles, steps}, bytes <= limits_.l3, {0, 1, 2});
}

bool DefaultScheduler::statistic_tiles() {
  const auto blocking = row_statistic();
  if (!blocking) {
    if (debug_level() >= 2) log_debug("{}: no tiles of rows: {}", original_.name, blocking.error());
    return false;
  }
  Attempt attempt = begin();
  try {
    add_directives(*blocking);
    streams();
    if (debug_level() >= 2) log_debug("{}: {}", original_.name, to_string(*blocking));
    return true;
  } catch (const ScheduleFailure& failure) {
    if (debug_level() >= 2)
      log_debug("{}: {} does not apply: {}", original_.name, to_string(*blocking), failure.text);
  }
  undo(std::move(attempt));
  return false;
}

/// Scans of which the other stages read only what belongs to the same element of the axis: these
/// run in the loop along it, and the state of one element, which a cache holds, is all that is
/// stored. Gives the loops that all stages share.
Result<std::vector<std::string>> DefaultScheduler::rolled_scans() {
  AxisId axis, wide; // along which the states are contiguous
  bool reverse = false;
  std::vector<std::string> scans;
  for (const StageId s : nests_.cone.stages.ids()) {
    const Stage& scan = stage(s);
    if (!scan.scan_axis) continue;
    if (axis && axis != scan.scan_axis) return Failure{"scans along several axes"};
    axis = scan.scan_axis;
    reverse |= scan.scan_reverse;
    if (reverse && !scans.empty()) return Failure{"several scans, and not all of them forwards"};
    scans.push_back(scan.name);
    for (const Component& part : scan.components)
      if (part.out && !part.index.empty()) wide = plain_axis(nests_.cone, part.index.back());
  }
  if (!axis) return Failure{"no scan"};
  if (!wide || wide == axis || trips(*nest(nests_.stage(scans[0])).find(axis_at(wide).name)) < limits_.lanes)
    return Failure{fmt::format("{}: a state has no lanes", scans[0])};
  const std::string along = axis_at(axis).name, lanes = axis_at(wide).name;
  const auto in_all = [&](const std::string& loop, bool scanned) {
    for (const StageId s : nests_.cone.stages.ids()) {
      const StageLoop* own = nest(s).find(loop);
      if (!own || !own->symbol.is_symbol()) return false;
      if (!(scanned && stage(s).scan_axis == axis) && loop_reduces(s, *own)) return false;
    }
    return true;
  };
  if (!in_all(along, true)) return Failure{fmt::format("not every stage keeps {}", along)};
  int64_t bytes = 0; // of the states for one element of the lanes' axis
  std::vector<std::string> common;
  for (const StageLoop& l : nest(first_stage).loops)
    if (l.name != along && l.name != lanes && in_all(l.name, false)) common.push_back(l.name);
  for (const std::string& name : scans)
    for (const Component& part : stage(nests_.stage(name)).components) {
      int64_t size = std::max(1, bits(part.dtype) / 8);
      for (const AxisId a : part.axes)
        if (const ConeAxis& own = axis_at(a);
            a != axis && a != wide && own.symbol.is_symbol() && !contains(common, own.name))
          size = std::min(size * trips(*nest(nests_.stage(name)).find(own.name)), int64_t{1} << 40);
      bytes += size;
    }
  const int64_t all = trips(*nest(nests_.stage(scans[0])).find(lanes));
  int64_t block = round_up(all, limits_.lanes), shares = 1;
  for (const std::string& l : common)
    shares = std::min(shares * trips(*nest(first_stage).find(l)), int64_t{1} << 40);
  while (block > limits_.lanes &&
         (bytes * block > limits_.l1 / 2 || shares * ((all + block - 1) / block) < limits_.threads))
    block = round_up(block / 2, limits_.lanes);
  if (bytes * block > limits_.l2 / 2) return Failure{fmt::format("{}: a state fits no cache", scans[0])};
  if (block < all && !in_all(lanes, false)) return Failure{fmt::format("not every stage keeps {}", lanes)};
  if (!decisions_.ask_whether(scans[0] + ".rolled", true)) return Failure{"a rolling state is not wanted"};
  Attempt attempt = begin();
  for (const std::string& name : scans)
    if (!try_add(DirectiveKind::rolling, {name})) {
      undo(std::move(attempt));
      return Failure{fmt::format("{}: others read its results at other elements", name)};
    }
  if (block < all)
    for (const StageId s : nests_.cone.stages.ids()) {
      const std::string outer = split(s, lanes, block).first;
      if (s == first_stage) common.push_back(outer);
    }
  rolled_ = along;
  common.push_back(along);
  return common;
}

/// Stages that share single rows cannot use again what is the same for all rows: a product inside
/// takes it from a cache for each of them. In blocks of rows its register tile does.
void DefaultScheduler::blocks_of_rows(std::vector<std::string>& common) {
  if (common.empty()) return;
  const std::string last = common.back();
  const auto reason = [&](const std::string& why) {
    if (debug_level() >= 2) log_debug("{}: no blocks of {}: {}", original_.name, last, why);
  };
  const auto axis = std::ranges::find(nests_.cone.axes, last, &ConeAxis::name);
  if (axis == nests_.cone.axes.end()) return reason("the loop is a part of an axis");
  if (!axis->extent.is_constant()) return reason("its size is not known");
  const AxisId number(axis - nests_.cone.axes.begin());
  StageId product;
  int64_t scratch = 0; // bytes for each row
  for (const StageId s : nests_.cone.stages.ids()) {
    const Contraction c = contraction_of(nests_.cone, stage(s));
    if (!c.position(number)) return reason(fmt::format("{} does not have it", stage(s).name));
    if (c.folds && c.role(number) == AxisRole::row &&
        std::ranges::any_of(c.axes, [&](AxisId a) { return c.role(a) == AxisRole::column; }))
      product = s;
    for (const Operand& result : c.results) {
      if (value_at(result.value).role != ValueRole::interior) continue;
      int64_t bytes = std::max(1, result.bits / 8);
      for (size_t a = 0; a < c.axes.size(); a++)
        if (const StageLoop* l = nest(s).find(axis_at(c.axes[a]).name);
            l && l->name != last && result.along[a] != Step::none &&
            std::ranges::find(common, l->name) == common.end())
          bytes = std::min(bytes * trips(*l), int64_t{1} << 40);
      scratch += bytes;
    }
  }
  if (!product) return reason("no product reads an operand again for each of its elements");
  int64_t rows = 64;
  while (rows > 8 && (axis->extent.value() < 2 * rows * limits_.threads || scratch * rows > limits_.l2 / 4))
    rows /= 2;
  if (axis->extent.value() < 2 * rows) return reason("there are too few");
  rows = ask(product, "block_rows", rows, {1, 8, 16, 32, 64, 128});
  if (rows == 1) return;
  for (const StageId s : nests_.cone.stages.ids()) common.back() = split(s, last, rows).first;
}

} // namespace luminal::kernel
