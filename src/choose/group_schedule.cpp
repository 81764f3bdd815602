// choose/group_schedule.cpp -- products in tiles and sums of rows, for groups of lanes.
#include "choose/group_schedule.h"
#include "base/contains.h"
#include "choose/axis_use.h"
#include "choose/flat_schedule.h"
#include "cone/formula.h"
#include "loop/unit.h"
#include "schedule/lower.h"
#include "schedule/nest.h"
#include <algorithm>
#include <bit>
#include <fmt/format.h>

namespace luminal::kernel {
namespace {

constexpr int64_t most_trips = int64_t{1} << 30;

class GroupScheduler {
public:
  GroupScheduler(const Cone& cone, const GpuTarget& target)
      : original_(cone), target_(target), schedule_(fused_stages(cone)), nests_(apply(cone, schedule_)) {}

  std::optional<DefaultKernel> product();
  std::optional<DefaultKernel> product(const Unit& unit);
  std::optional<DefaultKernel> rows();

private:
  struct Tile {
    AxisId row, column, step;
  };
  std::optional<Tile> tile_axes(const Stage& stage) const;
  std::optional<DefaultKernel> made() const;
  std::optional<DefaultKernel> copied(const Stage& stage, const std::string& loop, int most_tiles, bool all);
  void add(DirectiveKind kind, std::vector<std::string> words, std::vector<int64_t> numbers = {}) {
    const Directive d{kind, std::move(words), std::move(numbers)};
    apply(nests_, d);
    schedule_.directives.push_back(d);
  }
  bool try_add(DirectiveKind kind, std::vector<std::string> words, std::vector<int64_t> numbers = {});
  const ConeAxis& axis(AxisId a) const { return nests_.cone.axes[a]; }
  int64_t trips(AxisId a) const {
    const Interval range = axis(a).extent.range();
    return range.high == unbounded_high ? most_trips : std::min(range.high, most_trips);
  }
  std::string name(const std::string& wish) const { return nests_.free_name(wish); }
  /// One loop of the first `loops` of the stage, which are its outermost ones.
  void merge_groups(const std::string& stage, const std::vector<std::string>& loops,
                    const std::string& group);

  const Cone& original_;
  const GpuTarget& target_;
  Schedule schedule_;
  Nests nests_;
};

/// Legal, sound, and within the limits.
std::optional<DefaultKernel> GroupScheduler::made() const {
  Result<Kernel> kernel = lower(original_, schedule_);
  if (!kernel || !verify(*kernel).empty()) return {};
  int64_t bytes = 0;
  for (const Buffer& b : kernel->buffers) {
    if (b.space != Space::group) continue;
    if (!b.size.is_constant() || bits(b.dtype) < 8) return {};
    bytes += (storage_bytes(b.dtype, b.size.value()) + 15) / 16 * 16;
  }
  if (bytes > target_.group_bytes || lanes_of_group(*kernel) > target_.most_lanes) return {};
  return DefaultKernel{schedule_, std::move(kernel)};
}

bool GroupScheduler::try_add(DirectiveKind kind, std::vector<std::string> words,
                             std::vector<int64_t> numbers) {
  Schedule with = schedule_;
  with.add(kind, std::move(words), std::move(numbers));
  if (!lower(original_, with).ok()) return false;
  schedule_ = std::move(with);
  nests_ = apply(original_, schedule_);
  return true;
}

void GroupScheduler::merge_groups(const std::string& stage, const std::vector<std::string>& loops,
                                  const std::string& group) {
  std::string outer = loops[0];
  for (size_t i = 1; i < loops.size(); ++i) {
    add(DirectiveKind::merge, {stage, outer, loops[i], group});
    outer = group;
  }
  add(DirectiveKind::parallel, {stage, outer});
}

/// The axis along which the result is contiguous and another one, along each of which an operand is read
/// again; and the longest one of the sum.
std::optional<GroupScheduler::Tile> GroupScheduler::tile_axes(const Stage& stage) const {
  std::vector<const FormulaLoad*> loads;
  for (const Component& c : stage.components) {
    if (c.after) continue;
    if (c.kind != ComponentKind::fold || c.op != Op::add) return {};
    visit_loads(c.body, [&](const FormulaLoad& f) { loads.push_back(&f); });
  }
  const auto again = [&](const FormulaLoad* load, AxisId a) {
    return !varies_with(nests_.cone, load->index, axis(a).symbol);
  };
  Tile best;
  const std::vector<AxisId> kept = independent_axes(stage);
  // Results lie along the last kept axis that their index ends with.
  for (const Component& c : stage.components)
    if (c.out && !c.index.empty())
      for (AxisId a : kept)
        if (depends_on(c.index.back(), axis(a).symbol)) best.column = a;
  if (!best.column || trips(best.column) < 8) return {};
  for (AxisId a : kept) {
    if (a == best.column || trips(a) < 8) continue;
    const bool pair =
        std::ranges::any_of(loads, [&](auto* f) { return again(f, a) && !again(f, best.column); }) &&
        std::ranges::any_of(loads, [&](auto* f) { return again(f, best.column) && !again(f, a); });
    if (pair && (!best.row || trips(a) > trips(best.row))) best.row = a;
  }
  for (AxisId a : reduced_axes(stage))
    if (!best.step || trips(a) > trips(best.step)) best.step = a;
  if (!best.row || !best.step || trips(best.step) < 2) return {};
  return best;
}

std::optional<DefaultKernel> GroupScheduler::product() {
  if (nests_.cone.stages.size() != 1) return {};
  const Stage stage = nests_.cone.stages.front();
  const auto axes = tile_axes(stage);
  if (!axes) return {};
  // Tiles as large as registers allow, smaller ones where there would be too few groups.
  int64_t wide = 1, batch = 1;
  for (const Component& c : stage.components)
    if (c.kind == ComponentKind::fold) wide = std::max<int64_t>(wide, bits(c.dtype) / 32);
  wide *= std::ranges::count(stage.components, ComponentKind::fold, &Component::kind);
  const auto edge = [&](AxisId a) {
    return std::min<int64_t>(128, int64_t(std::bit_ceil(uint64_t(trips(a)))));
  };
  for (AxisId a : independent_axes(stage))
    if (a != axes->row && a != axes->column) batch = std::min(batch * trips(a), most_trips);
  int64_t rows = edge(axes->row), columns = edge(axes->column);
  const auto groups = [&] {
    const int64_t down = (trips(axes->row) + rows - 1) / rows,
                  across = (trips(axes->column) + columns - 1) / columns;
    return double(batch) * double(down) * double(across);
  };
  constexpr int64_t side = 16; // lanes along each edge
  while (rows * columns > side * side * 4 &&
         (groups() < double(target_.groups) || rows * columns * wide > side * side * target_.results))
    (rows >= columns ? rows : columns) /= 2;
  const int64_t row_results = std::max<int64_t>(1, rows / side),
                column_results = std::max<int64_t>(1, columns / side);

  const std::string& s = stage.name;
  const std::string row = axis(axes->row).name, column = axis(axes->column).name,
                    step = axis(axes->step).name;
  // A lane has up to four neighbours, which it reads at once, in each of several parts of the tile.
  const auto cut = [&](const std::string& loop, int64_t tile, int64_t results) {
    const std::string o = name(loop + ".o"), r = name(loop + ".r"), u = name(loop + ".u"),
                      q = name(loop + ".q"), l = name(loop + ".l"), v = name(loop + ".v");
    const int64_t neighbours = std::min<int64_t>(4, results);
    add(DirectiveKind::split, {s, loop, o, r}, {tile});
    add(DirectiveKind::split, {s, r, u, q}, {tile / results * neighbours});
    add(DirectiveKind::split, {s, q, l, v}, {neighbours});
    return std::array{o, u, l, v};
  };
  const auto [row_o, row_u, row_l, row_v] = cut(row, rows, row_results);
  const auto [column_o, column_u, column_l, column_v] = cut(column, columns, column_results);
  const std::string step_o = name(step + ".o"), step_i = name(step + ".i");
  constexpr int64_t steps = 16;
  add(DirectiveKind::split, {s, step, step_o, step_i}, {steps});
  std::vector<std::string> outer, order{s};
  for (AxisId a : independent_axes(stage))
    if (a != axes->row && a != axes->column) outer.push_back(axis(a).name);
  outer.push_back(row_o);
  outer.push_back(column_o);
  order.insert(order.end(), outer.begin(), outer.end());
  order.push_back(row_l);
  order.push_back(column_l);
  for (AxisId a : stage.axes)
    if (a != axes->step && !contains(independent_axes(stage), a)) order.push_back(axis(a).name);
  order.insert(order.end(), {step_o, step_i, row_u, row_v, column_u, column_v});
  add(DirectiveKind::order, order);
  merge_groups(s, outer, name("g"));
  add(DirectiveKind::lanes, {s, row_l, column_l});
  add(DirectiveKind::unroll, {s, row_u, row_v, column_u, column_v});
  return copied(stage, step_o, std::min(target_.tiles, 2), false);
}

/// What several lanes read lies in the group's memory, in as many tiles as there is room for. `all`: only
/// all of it can.
std::optional<DefaultKernel> GroupScheduler::copied(const Stage& stage, const std::string& loop,
                                                    int most_tiles, bool all) {
  std::vector<ValueId> read;
  for (const Component& c : stage.components)
    if (!c.after)
      visit_loads(c.body, [&](const FormulaLoad& f) {
        if (!contains(read, f.value)) read.push_back(f.value);
      });
  const Schedule before = schedule_;
  for (int tiles = most_tiles; tiles > 0; tiles--) {
    size_t copies = 0;
    for (ValueId v : read) {
      std::vector<std::string> words{stage.name, nests_.cone.values[v].name, loop};
      std::vector<int64_t> numbers;
      if (tiles > 1) numbers.push_back(tiles);
      if (!all)
        copies += try_add(DirectiveKind::group_copy, std::move(words), std::move(numbers));
      else
        add(DirectiveKind::group_copy, std::move(words), std::move(numbers));
    }
    if (copies > 0 || all)
      if (auto kernel = made()) return kernel;
    schedule_ = before;
    nests_ = apply(original_, schedule_);
  }
  return {};
}

/// A sum of products of two numbers that the unit multiplies, in tiles of the unit's tiles.
std::optional<DefaultKernel> GroupScheduler::product(const Unit& unit) {
  if (nests_.cone.stages.size() != 1) return {};
  const Stage stage = nests_.cone.stages.front();
  const auto takes = [&](const FormulaRef& f, DType type) {
    const auto* cast = f->as<FormulaCast>();
    return cast && cast->x->dtype == type;
  };
  for (const Component& c : stage.components)
    if (!c.after && !(c.kind == ComponentKind::fold && applies(*c.body, Op::mul) &&
                      takes(args_of(*c.body)[0], unit.a.dtype) && takes(args_of(*c.body)[1], unit.b.dtype)))
      return {};
  const auto axes = tile_axes(stage);
  if (!axes || trips(axes->row) < unit.m || trips(axes->column) < unit.n || trips(axes->step) < unit.k)
    return {};
  int64_t batch = 1;
  for (AxisId a : independent_axes(stage))
    if (a != axes->row && a != axes->column) batch = std::min(batch * trips(a), most_trips);
  constexpr int64_t widest = 128, warps = 2; // along each edge of a tile
  const auto edge = [&](AxisId a, int64_t least) {
    return std::max(least, std::min(widest, int64_t(std::bit_ceil(uint64_t(trips(a))))));
  };
  int64_t rows = edge(axes->row, unit.m), columns = edge(axes->column, unit.n);
  const auto groups = [&] {
    const int64_t down = (trips(axes->row) + rows - 1) / rows,
                  across = (trips(axes->column) + columns - 1) / columns;
    return double(batch) * double(down) * double(across);
  };
  const int64_t least_rows = warps * unit.m, least_columns = warps * unit.n;
  while (groups() < double(target_.groups) && (rows > least_rows || columns > least_columns))
    (columns <= least_columns || (rows >= columns && rows > least_rows) ? rows : columns) /= 2;

  const std::string& s = stage.name;
  const std::string row = axis(axes->row).name, column = axis(axes->column).name,
                    step = axis(axes->step).name;
  const auto cut = [&](const std::string& loop, int64_t tile, int64_t of_unit) {
    const std::string o = name(loop + ".o"), r = name(loop + ".r"), w = name(loop + ".w"),
                      q = name(loop + ".q"), u = name(loop + ".u"), l = name(loop + ".l");
    add(DirectiveKind::split, {s, loop, o, r}, {tile});
    add(DirectiveKind::split, {s, r, w, q}, {std::max(of_unit, tile / warps)});
    add(DirectiveKind::split, {s, q, u, l}, {of_unit});
    return std::array{o, w, u, l};
  };
  const auto [row_o, row_w, row_u, row_l] = cut(row, rows, unit.m);
  const auto [column_o, column_w, column_u, column_l] = cut(column, columns, unit.n);
  const std::string step_o = name(step + ".o"), step_r = name(step + ".r"), step_u = name(step + ".u"),
                    step_l = name(step + ".l");
  add(DirectiveKind::split, {s, step, step_o, step_r}, {trips(axes->step) > unit.k ? 2 * unit.k : unit.k});
  add(DirectiveKind::split, {s, step_r, step_u, step_l}, {unit.k});
  std::vector<std::string> outer, order{s};
  for (AxisId a : independent_axes(stage))
    if (a != axes->row && a != axes->column) outer.push_back(axis(a).name);
  outer.push_back(row_o);
  outer.push_back(column_o);
  order.insert(order.end(), outer.begin(), outer.end());
  order.insert(order.end(), {row_w, column_w});
  for (AxisId a : stage.axes)
    if (a != axes->step && !contains(independent_axes(stage), a)) order.push_back(axis(a).name);
  order.insert(order.end(), {step_o, step_u, row_u, column_u, row_l, column_l, step_l});
  add(DirectiveKind::order, order);
  merge_groups(s, outer, name("g"));
  add(DirectiveKind::lanes, {s, row_w, column_w});
  add(DirectiveKind::unroll, {s, step_u, row_u, column_u});
  add(DirectiveKind::lane_unit, {s, unit.name, row_l, column_l, step_l});
  return copied(stage, step_o, target_.tiles, true);
}

/// Stages that share their outer axes, each of which sums along contiguous elements or maps them.
std::optional<DefaultKernel> GroupScheduler::rows() {
  const IdVector<StageId, Stage> stages = nests_.cone.stages;
  std::vector<AxisId> shared = independent_axes(stages.front());
  bool sums = false;
  for (const Stage& stage : stages) {
    const std::vector<AxisId> own = independent_axes(stage);
    std::erase_if(shared, [&](AxisId a) { return !contains(own, a); });
    sums |= has_fold(stage);
  }
  if (!sums) return {};
  // Of each stage the axis that lanes run along: one that its loads are contiguous along.
  IdVector<StageId, AxisId> along;
  int64_t longest = 1;
  for (const StageId s : stages.ids()) {
    AxisId found;
    bool more = false;
    for (AxisId a : stages[s].axes) {
      if (contains(shared, a)) continue;
      more = true;
      const StageLoop* loop = nests_.stages[s].find(axis(a).name);
      if (!loop || !loop->symbol.is_symbol()) continue;
      const AxisUse use = use_along(nests_, s, loop->symbol);
      if (use.contiguous + use.near > 0 || use.store_contiguous) found = a;
    }
    if (more && !found) return {};
    if (found) longest = std::max(longest, trips(found));
    along.push_back(found);
  }
  if (longest < 8) return {};
  double all = 1;
  for (AxisId a : shared) all *= double(trips(a));
  // Each lane takes a few elements; short rows share a group.
  const auto lanes_for = [&](int64_t elements) {
    return int64_t(std::bit_ceil(uint64_t(std::max<int64_t>(elements, 1))));
  };
  int64_t lanes = std::clamp<int64_t>(lanes_for((longest + 3) / 4), 4, target_.lanes);
  if (all < 2 * double(target_.groups))
    lanes = std::clamp<int64_t>(lanes_for((longest + 7) / 8), lanes, target_.most_lanes);
  int64_t together = shared.empty() ? 1 : std::max<int64_t>(1, target_.lanes / 2 / lanes);
  if (!shared.empty()) together = std::min(together, lanes_for(trips(shared.back())));
  while (together > 1 && all / double(together) < double(target_.groups)) together /= 2;

  const std::string group = name("g"), rest_o = name("row.o"), rest_l = name("row.l");
  for (const StageId s : stages.ids()) {
    const std::string& stage = stages[s].name;
    std::vector<std::string> outer, order{stage}, distributed{stage};
    for (AxisId a : shared) outer.push_back(axis(a).name);
    if (together > 1) {
      add(DirectiveKind::split, {stage, outer.back(), rest_o, rest_l}, {together});
      outer.back() = rest_o;
      distributed.push_back(rest_l);
    }
    order.insert(order.end(), outer.begin(), outer.end());
    if (together > 1) order.push_back(rest_l);
    std::string step, lane;
    if (along[s]) {
      const std::string loop = axis(along[s]).name;
      step = name(loop + ".o"), lane = name(loop + ".l");
      add(DirectiveKind::split, {stage, loop, step, lane}, {lanes});
      distributed.push_back(lane);
    }
    // Lanes of the sum are the innermost loop; what else the stage has is serial.
    for (AxisId a : stages[s].axes)
      if (!contains(shared, a) && a != along[s]) order.push_back(axis(a).name);
    if (along[s]) order.insert(order.end(), {step, lane});
    add(DirectiveKind::order, order);
    if (!outer.empty()) merge_groups(stage, outer, group);
    if (distributed.size() > 1) add(DirectiveKind::lanes, distributed);
  }
  return made();
}

} // namespace

std::optional<DefaultKernel> group_kernel(const Cone& cone, const GpuTarget& target) {
  if (std::ranges::any_of(cone.axes, [](auto& axis) { return axis.extent.is_constant(0); })) return {};
  for (const Stage& stage : cone.stages)
    for (const Component& c : stage.components)
      if (c.kind == ComponentKind::scan || c.kind == ComponentKind::update) return {};
  for (const std::string& unit : target.units) try {
      if (auto kernel = GroupScheduler(cone, target).product(*find_unit(unit))) return kernel;
    } catch (const ScheduleFailure&) { // no product that the unit computes
    }
  try {
    if (auto kernel = GroupScheduler(cone, target).product()) return kernel;
  } catch (const ScheduleFailure&) { // no product that a tile fits
  }
  try {
    if (auto kernel = GroupScheduler(cone, target).rows()) return kernel;
  } catch (const ScheduleFailure&) { // no rows
  }
  return {};
}

} // namespace luminal::kernel
