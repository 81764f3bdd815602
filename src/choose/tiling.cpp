// choose/tiling.cpp -- the rate of a fold's inner loops, from its loop nest alone.
#include "choose/tiling.h"
#include "base/contains.h"
#include "choose/axis_use.h"
#include "cone/formula.h"
#include "cone/result_conditions.h"
#include "expr/share.h"
#include "loop/unit.h"
#include "schedule/versions.h"
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <utility>

namespace luminal::kernel {
namespace {

constexpr double trips_of_unbounded = 1 << 20;
constexpr double few_terms = 32; // of a sum
/// Multiply-adds in whose time lanes are added to others once: a shuffle and an addition that waits for it.
constexpr double step_across = 1.5;
/// Loads in whose time a vector of elements that lie a few apart comes where lanes go along a sum: vectors
/// under masks, and their exchange.
constexpr double near_along_sum = 12;

double trips_of(Expr extent, const ExprMap<int64_t>& sizes) {
  if (extent.is_constant()) return double(extent.value());
  if (!sizes.empty())
    if (const auto size = evaluate(extent, sizes)) return double(*size);
  const int64_t high = extent.range().high;
  return high == unbounded_high ? trips_of_unbounded : double(high);
}

double points_along(const Cone& cone, const std::vector<AxisId>& axes, const ExprMap<int64_t>& sizes) {
  double points = 1;
  for (AxisId a : axes) points *= trips_of(cone.axes[a].extent, sizes);
  return points;
}

class Judge {
public:
  Judge(const Nests& nests, const MachineLimits& limits, const ExprMap<int64_t>& sizes)
      : nests_(nests), limits_(limits), sizes_(sizes) {}

  std::optional<TiledFold> fold(StageId s, const Component& fold) const {
    const Stage& stage = nests_.cone.stages[s];
    const StageNest& nest = nests_.stages[s];
    TiledFold result;
    result.stage = stage.name, result.points = 1;
    for (AxisId a : stage.axes) result.points *= trips_of(nests_.cone.axes[a].extent);
    if (result.points < fewest_points) return {};
    std::vector<Load> loads = loads_of(stage, nest, fold);
    double read = 0;
    for (const Load& load : loads) read += load.elements;
    result.reuse = result.points / std::max(read, 1.0);
    if (loads.empty() || result.reuse < fewest_reads) return {};

    result.share = share_of_loops(nests_, s, sizes_);
    if (takes_tiles(fold)) {
      result.on_tiles = true;
      return result;
    }

    const StageLoop* lanes = nullptr;
    double sums = 1; // in the innermost body, whole vectors of them
    std::vector<const StageLoop*> body;
    for (const StageLoop& l : nest.loops) {
      if (!l.symbol.is_symbol()) continue;
      if (l.kind == LoopKind::vector) lanes = &l;
      if (l.kind == LoopKind::unrolled) body.push_back(&l);
    }
    for (const StageLoop* l : body) sums *= trips_of(l->extent);
    double filled = 1.0 / limits_.lanes;
    if (lanes) {
      const double n = trips_of(lanes->extent), unit = limits_.lanes;
      filled = n / (std::ceil(n / unit) * unit);
      sums *= std::ceil(n / unit);
    }
    const bool across = lanes && std::ranges::none_of(fold.axes, [&](AxisId a) {
                          return depends_on_loop(nest, nests_.cone.axes[a].symbol, *lanes);
                        });
    double brought = 0;
    const Load* worst = nullptr;
    double most = 0;
    for (const Load& load : loads) {
      double times = 1;
      for (const StageLoop* l : body)
        if (load.along(l->symbol)) times *= trips_of(l->extent);
      if (lanes && load.along(lanes->symbol)) {
        const Step step = load.step(nests_.cone, lanes->symbol);
        const double vectors = std::ceil(trips_of(lanes->extent) / limits_.lanes);
        times *= vectors * (step == Step::contiguous ? slower_caches(nest, load)
                            : step == Step::near     ? (across ? near_along_sum : 4)
                                                     : limits_.lanes);
      }
      brought += times;
      if (times > most) most = times, worst = &load;
    }
    // Two multiply-adds and two loads begin in a cycle, and a multiply-add takes four. Sums of few
    // terms do not wait for those before them.
    double terms = 1;
    for (AxisId a : stage.axes)
      if (!contains(fold.axes, a)) terms *= trips_of(nests_.cone.axes[a].extent);
    const double by_loads = std::min(1.0, sums / brought),
                 by_chains = terms <= few_terms ? 1 : std::min(1.0, sums / 8);
    result.rate = filled * std::min(by_loads, by_chains);
    double added = 1; // the share of the multiply-adds beside the additions of lanes to each other
    if (across) {
      const double whole = terms / std::max(1.0, trips_of(lanes->extent));
      added = whole / (whole + step_across * std::log2(std::max(2.0, trips_of(lanes->extent))));
      result.rate *= added;
    }
    if (!lanes)
      result.limit = "its loops have no lanes";
    else if (filled <= std::min(by_loads, by_chains))
      result.limit = fmt::format("{} of {} lanes are filled", trips_of(lanes->extent), limits_.lanes);
    else if (added < std::min(by_loads, by_chains))
      result.limit = fmt::format("lanes are added for each {} terms", terms);
    else if (by_loads < by_chains)
      result.limit = fmt::format("{} loads for {} multiply-adds, most of {}", brought, sums,
                                 nests_.cone.values[worst->value].name);
    else
      result.limit = fmt::format("{} sums at once", sums);
    return result;
  }

private:
  bool takes_tiles(const Component& fold) const {
    const auto* step = fold.body->as<FormulaUserOp>();
    return step && std::ranges::any_of(nests_.tile_units, [&](const std::string& name) {
             const auto unit = find_unit(name);
             return unit && unit->lane_unit == step->name;
           });
  }

  struct Load {
    ValueId value;
    std::vector<Expr> index; // over loops
    int bits = 32;           // that are read at once
    double elements = 1;
    bool along(Expr symbol) const { return varies(index, symbol); }
    Step step(const Cone& cone, Expr symbol) const {
      return step_of(cone, value, index, symbol, std::max(1, bits / luminal::bits(cone.values[value].dtype)));
    }
  };

  /// Loads of the first cache in whose time a vector comes that was read before: what passes by
  /// between two reads of an element pushes it out of the caches that do not hold all of that.
  double slower_caches(const StageNest& nest, const Load& load) const {
    double bytes = std::max(1, load.bits / 8);
    for (size_t i = nest.loops.size(); i-- > 0;) {
      const StageLoop& l = nest.loops[i];
      if (!l.symbol.is_symbol()) continue;
      if (load.along(l.symbol))
        bytes *= trips_of(l.extent);
      else if (l.kind != LoopKind::unrolled && l.kind != LoopKind::vector && trips_of(l.extent) > 1)
        break;
    }
    return bytes <= double(limits_.l1) ? 1 : bytes <= double(limits_.l2) ? 2 : 4;
  }

  std::vector<Load> loads_of(const Stage& stage, const StageNest& nest, const Component& fold) const {
    std::vector<Load> loads;
    visit_loads(fold.body, [&](const FormulaLoad& f, DType dtype) {
      if (f.index.empty()) return;
      Load load{f.value, over_loops(nest, f.index), bits(dtype)};
      if (std::ranges::any_of(loads,
                              [&](const Load& l) { return l.value == load.value && l.index == load.index; }))
        return;
      for (AxisId a : stage.axes) {
        const ConeAxis& axis = nests_.cone.axes[a];
        if (varies(f.index, axis.symbol)) load.elements *= trips_of(axis.extent);
      }
      double stored = 1;
      for (Expr extent : nests_.cone.values[f.value].shape) stored *= trips_of(extent);
      load.elements = std::min(load.elements, std::max(1.0, stored));
      loads.push_back(std::move(load));
    });
    return loads;
  }

  double trips_of(Expr extent) const { return kernel::trips_of(extent, sizes_); }

  const Nests& nests_;
  const MachineLimits& limits_;
  const ExprMap<int64_t>& sizes_;
};

} // namespace

std::optional<Nests> largest_nests(const Cone& cone, const Schedule& schedule) {
  try {
    return apply(cone, versions_of(cone, schedule).back().schedule);
  } catch (const ScheduleFailure&) { // it does not lower either
    return {};
  }
}

double share_of_loops(const Nests& nests, StageId s, const ExprMap<int64_t>& sizes) {
  const Stage& stage = nests.cone.stages[s];
  const StageNest& nest = nests.stages[s];
  const bool end = std::ranges::any_of(nest.loops, [&](const StageLoop& l) {
    return nest.bounds.contains(l.name) || nests.predicate_splits.contains(l.name);
  });
  if (!end) return 1;
  std::vector<std::pair<Expr, double>> axes;
  for (AxisId a : stage.axes) {
    const ConeAxis& axis = nests.cone.axes[a];
    axes.emplace_back(axis.symbol, trips_of(axis.extent, sizes));
  }
  Expr condition = logical_and(stage.domain, stage.needed);
  for (const Expr e : result_conditions(stage)) condition = logical_and(condition, e);
  return share_of(condition, axes);
}

std::vector<TiledFold> tiled_folds(const Nests& nests, const MachineLimits& limits,
                                   const ExprMap<int64_t>& sizes) {
  std::vector<TiledFold> folds;
  const Judge judge(nests, limits, sizes);
  for (const StageId s : nests.cone.stages.ids())
    for (const Component& c : nests.cone.stages[s].components)
      if (c.kind == ComponentKind::fold)
        if (auto fold = judge.fold(s, c)) folds.push_back(std::move(*fold));
  return folds;
}

double copied_one_by_one(const Nests& nests, const ExprMap<int64_t>& sizes) {
  double copied = 0;
  for (const StageId s : nests.cone.stages.ids()) {
    const Stage& stage = nests.cone.stages[s];
    const bool copies = std::ranges::all_of(stage.components, [&](const Component& c) {
      return c.kind == ComponentKind::map && c.out && nests.cone.values[c.out].role == ValueRole::interior;
    });
    if (!copies) continue;
    const double points = points_along(nests.cone, stage.axes, sizes);
    // Along the lanes, or along a loop that is written out: squares are transposed in registers.
    bool vectors = false, lanes = false;
    for (const StageLoop& l : nests.stages[s].loops) {
      if (l.kind != LoopKind::vector && l.kind != LoopKind::unrolled) continue;
      const AxisUse use = use_along(nests, s, l.symbol);
      lanes |= l.kind == LoopKind::vector;
      vectors |= l.kind == LoopKind::vector ? use.strided + use.irregular == 0 : use.contiguous > 0;
    }
    vectors = vectors && lanes;
    if (!vectors) copied += points * share_of_loops(nests, s, sizes);
  }
  return copied;
}

double stored_one_by_one(const Nests& nests, const ExprMap<int64_t>& sizes) {
  double stored = 0;
  for (const StageId s : nests.cone.stages.ids())
    for (const Component& c : nests.cone.stages[s].components) {
      if (!c.out || nests.cone.values[c.out].role == ValueRole::interior) continue;
      const std::vector<Expr> index = over_loops(nests.stages[s], c.index);
      const bool apart = std::ranges::any_of(nests.stages[s].loops, [&](const StageLoop& l) {
        return l.kind == LoopKind::vector && l.symbol.is_symbol() &&
               std::ranges::any_of(index, [&](Expr e) { return depends_on(e, l.symbol); }) &&
               step_of(nests.cone, c.out, index, l.symbol) != Step::contiguous &&
               !in_rows(nests, s, l.symbol);
      });
      if (!apart) continue;
      stored += points_along(nests.cone, c.axes, sizes);
    }
  return stored;
}

double summed_one_by_one(const Nests& nests, const ExprMap<int64_t>& sizes) {
  double summed = 0;
  for (const StageId s : nests.cone.stages.ids()) {
    const Stage& stage = nests.cone.stages[s];
    const bool together = std::ranges::any_of(nests.stages[s].loops, [](const StageLoop& l) {
      return l.symbol.is_symbol() && (l.kind == LoopKind::vector || l.kind == LoopKind::unrolled);
    });
    if (has_fold(stage) && !stage.scan_axis && !together)
      summed += points_along(nests.cone, stage.axes, sizes) * share_of_loops(nests, s, sizes);
  }
  return summed;
}

double loaded_one_by_one(const Nests& nests, const ExprMap<int64_t>& sizes) {
  double loaded = 0;
  for (const StageId s : nests.cone.stages.ids()) {
    const Stage& stage = nests.cone.stages[s];
    const StageNest& nest = nests.stages[s];
    const double points = points_along(nests.cone, stage.axes, sizes);
    std::vector<std::pair<ValueId, std::vector<Expr>>> seen;
    for (const Component& c : stage.components)
      visit_loads(c.body, [&](const FormulaLoad& f) {
        if (f.index.empty()) return;
        const ConeValue& value = nests.cone.values[f.value];
        if (value.role == ValueRole::interior) return;
        const std::vector<Expr> index = over_loops(nest, f.index);
        bool apart = false, squares = false;
        for (const StageLoop& l : nest.loops) {
          if (!l.symbol.is_symbol() || (l.kind != LoopKind::vector && l.kind != LoopKind::unrolled)) continue;
          const Step step = step_of(nests.cone, f.value, index, l.symbol);
          if (l.kind == LoopKind::vector)
            apart |= step == Step::strided || step == Step::irregular;
          else
            squares |= step == Step::contiguous;
        }
        if (!apart || squares || contains(seen, std::pair(f.value, index))) return;
        seen.emplace_back(f.value, index);
        double elements = 1;
        for (AxisId a : stage.axes) {
          const ConeAxis& axis = nests.cone.axes[a];
          if (varies(f.index, axis.symbol)) elements *= trips_of(axis.extent, sizes);
        }
        if (points < fewest_reads * elements) loaded += elements * share_of_loops(nests, s, sizes);
      });
  }
  return loaded;
}

double functions_one_by_one(const Nests& nests, const ExprMap<int64_t>& sizes) {
  double computed = 0;
  for (const StageId s : nests.cone.stages.ids()) {
    const Stage& stage = nests.cone.stages[s];
    const StageNest& nest = nests.stages[s];
    for (const Component& c : stage.components) {
      if (c.kind != ComponentKind::map) continue;
      double functions = 0, points = 1;
      visit(c.body, [&](const Formula& f) {
        const auto* op = f.as<FormulaOp>();
        functions += op && is_long_chain(op->op);
      });
      if (functions == 0) continue;
      bool lanes = false;
      for (AxisId a : c.axes) {
        const ConeAxis& axis = nests.cone.axes[a];
        points *= trips_of(axis.extent, sizes);
        lanes = lanes || std::ranges::any_of(nest.loops, [&](const StageLoop& l) {
                  return l.kind == LoopKind::vector && depends_on_loop(nest, axis.symbol, l);
                });
      }
      if (!lanes) computed += points * functions;
    }
  }
  return computed;
}

std::vector<TiledFold> tiled_folds(const Cone& cone, const Schedule& schedule, const MachineLimits& limits,
                                   const ExprMap<int64_t>& sizes) {
  const auto nests = largest_nests(cone, schedule);
  return nests ? tiled_folds(*nests, limits, sizes) : std::vector<TiledFold>();
}

} // namespace luminal::kernel
