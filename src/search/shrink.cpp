// search/shrink.cpp -- smaller instances of a kernel that keep its tiles, tails and parts.
#include "cone/formula.h"
#include "search/problem.h"
#include <algorithm>
#include <numeric>
#include <set>

namespace luminal::search {
namespace {
using kernel::AxisId;
using kernel::Directive;
using kernel::DirectiveKind;
using kernel::ValueId;

/// What the schedule makes of each axis. Loops are followed by name: those of an axis have one name
/// in all stages.
struct AxisTiles {
  int64_t tile = 1;   // elements of its largest tile
  int64_t grain = 1;  // elements of its smallest one
  bool whole = false; // lanes or bodies are written out for the axis as it is
};

IdVector<AxisId, AxisTiles> uses_of(const kernel::Cone& cone, const kernel::Schedule& schedule) {
  IdVector<AxisId, AxisTiles> uses(cone.axes.size());
  struct Loop {
    std::vector<AxisId> axes;
    int64_t unit = 1; // elements of the axis in one trip
    bool split = false;
  };
  std::map<std::string, Loop> loops;
  for (const AxisId a : cone.axes.ids()) loops[cone.axes[a].name] = {{a}, 1, false};
  auto find = [&](const std::string& name) {
    auto found = loops.find(name);
    if (found == loops.end()) found = loops.find(name.substr(0, name.find('.'))); // k.part, k.round: of k
    return found == loops.end() ? Loop() : found->second;
  };
  auto grow = [&](const Loop& loop, int64_t unit) {
    for (const AxisId a : loop.axes) {
      AxisTiles& use = uses[a];
      use.tile = std::max(use.tile, unit);
      if (unit > 1) use.grain = use.grain > 1 ? std::min(use.grain, unit) : unit;
    }
  };
  for (const Directive& d : schedule.directives) {
    if (d.kind == DirectiveKind::split) {
      const Loop loop = find(d.words[1]);
      const int64_t unit = loop.unit * d.numbers[0];
      grow(loop, unit);
      loops[d.words[2]] = {loop.axes, unit, true};
      loops[d.words[3]] = {loop.axes, loop.unit, true};
    } else if (d.kind == DirectiveKind::merge) {
      const Loop outer = find(d.words[1]), inner = find(d.words[2]);
      Loop merged = outer;
      merged.axes.insert(merged.axes.end(), inner.axes.begin(), inner.axes.end());
      merged.unit = std::max(outer.unit, inner.unit);
      loops[d.words[3]] = merged;
    } else if (d.kind == DirectiveKind::split_reduction) {
      const Loop loop = find(d.words[1]);
      const int64_t block = d.numbers.size() > 1 ? d.numbers[1] : 1;
      int64_t tile = 1;
      for (const AxisId a : loop.axes) tile = std::max(tile, uses[a].tile);
      grow(loop, tile * d.numbers[0] * block);
    } else if (d.kind == DirectiveKind::vector || d.kind == DirectiveKind::unroll) {
      for (size_t w = 1; w < d.words.size(); w++)
        if (const auto found = loops.find(d.words[w]); found != loops.end() && !found->second.split)
          for (const AxisId a : found->second.axes) uses[a].whole = true;
    } else if (d.kind == DirectiveKind::padded_copy && !d.numbers.empty()) {
      grow(find(d.words[2]), d.numbers[0]);
    } else if (d.kind == DirectiveKind::jam) {
      const Loop loop = find(d.words[1]);
      grow(loop, loop.unit * d.numbers[0]);
    }
  }
  return uses;
}

/// Whole tiles and the remainder; `before`: of the schedule as it was, `after`: of the one with
/// smaller blocks.
int64_t small_extent(int64_t extent, const AxisTiles& before, const AxisTiles& after, int tiles) {
  const int64_t rest = extent % before.tile,
                whole = std::max<int64_t>(tiles, after.tile == 1 ? 3 : 1) * after.tile;
  int64_t small_rest = rest % after.tile;
  if (rest > 0 && small_rest == 0 && after.tile > 1) small_rest = after.grain < after.tile ? after.grain : 1;
  return std::min(extent, whole + small_rest);
}

/// The schedule with blocks of two inner tiles (or three trips) wherever a loop only repeats what
/// is in it: lanes, bodies that are written out and what layouts name stay as they are.
kernel::Schedule with_small_blocks(const kernel::Schedule& schedule) {
  kernel::Schedule small = schedule;
  std::set<std::string> kept;
  std::set<int64_t> in_layouts;
  // by loop: elements of its inner tile, before and after
  std::map<std::string, std::pair<int64_t, int64_t>> tiles;
  for (const Directive& d : schedule.directives) {
    if (d.kind == DirectiveKind::vector || d.kind == DirectiveKind::unroll)
      kept.insert(d.words.begin() + 1, d.words.end());
    if (d.kind == DirectiveKind::jam) tiles[d.words[1]] = {d.numbers[0], d.numbers[0]};
    if (d.kind == DirectiveKind::store)
      for (const std::string& word : d.words)
        if (const size_t at = word.find_first_of("/%"); at != std::string::npos)
          in_layouts.insert(std::atoll(word.c_str() + at + 1));
  }
  for (size_t i = small.directives.size(); i-- > 0;) { // inner splits come later in the text
    Directive& d = small.directives[i];
    if (d.kind == DirectiveKind::blocked_sum) d.numbers[0] = 2;
    if (d.kind != DirectiveKind::split) continue;
    const std::string &loop = d.words[1], &inner = d.words[3];
    const int64_t factor = d.numbers[0];
    const auto found = tiles.find(inner);
    const auto [before, after] = found == tiles.end() ? std::pair<int64_t, int64_t>{1, 1} : found->second;
    if (!kept.contains(inner) && !in_layouts.contains(factor))
      d.numbers[0] = small_extent(factor, {before, before}, {after, after}, 2);
    auto& tile = tiles[loop];
    tile = {std::max(tile.first, factor), std::max(tile.second, d.numbers[0])};
  }
  return small;
}

/// Axes that must have equal extents, and those that must keep theirs, from where values are
/// written and read.
class Ties {
public:
  explicit Ties(const kernel::Cone& cone)
      : cone_(cone), parent_(cone.axes.size()), kept_(cone.axes.size(), false) {
    std::iota(parent_.begin(), parent_.end(), AxisId(0));
    uses_.resize(cone.values.size());
    for (const ValueId v : cone.values.ids()) uses_[v].resize(cone.values[v].shape.size());
    const auto see_load = [&](const kernel::FormulaLoad& load, DType dtype) { see(load, dtype); };
    for (const kernel::Stage& stage : cone.stages) {
      kernel::visit_loads(stage, see_load);
      for (const kernel::Component& c : stage.components)
        if (c.out) see(c.out, c.index);
      for (const AxisId a : stage.ordered) keep(a); // what depends on the order stays whole
    }
    for (const kernel::ConeHole& hole : cone.holes) kernel::visit_loads(hole.value, see_load);
    for (const ValueId v : uses_.ids())
      for (size_t d = 0; d < uses_[v].size(); d++) tie(v, d);
  }
  AxisId root(AxisId axis) const {
    while (parent_[axis] != axis) axis = parent_[axis];
    return axis;
  }
  bool kept(AxisId axis) const { return kept_[axis]; }
  /// The axis whose extent the dimension has, or none: it keeps its own.
  AxisId axis_of(ValueId value, size_t dim) const {
    const auto& uses = uses_[value][dim];
    return plain(value, dim) && !uses.empty() ? axis(uses[0]) : AxisId();
  }

private:
  void see(const kernel::FormulaLoad& load, DType dtype) {
    if (dtype != cone_.values[load.value].dtype) // bytes from an element on: neighbours are read, too
      for (size_t d = 0; d < load.index.size(); d++) odd_.insert({load.value, int(d)});
    see(load.value, load.index);
  }
  void see(ValueId value, const std::vector<Expr>& index) {
    for (size_t d = 0; d < index.size(); d++) uses_[value][d].push_back(index[d]);
  }
  AxisId axis(Expr e) const {
    for (const AxisId a : cone_.axes.ids())
      if (cone_.axes[a].symbol == e) return a;
    return {};
  }
  bool plain(ValueId value, size_t dim) const {
    if (odd_.contains({value, int(dim)})) return false;
    return std::ranges::all_of(uses_[value][dim], [&](Expr e) {
      const AxisId a = axis(e);
      return a && cone_.axes[a].extent == cone_.values[value].shape[dim];
    });
  }
  void keep(AxisId a) { kept_[a] = true; }
  void tie(ValueId value, size_t dim) {
    const auto& uses = uses_[value][dim];
    if (plain(value, dim)) {
      for (size_t i = 1; i < uses.size(); i++) parent_[root(axis(uses[i]))] = root(axis(uses[0]));
      return;
    }
    // Inputs may be read in part; what this kernel writes must be there wherever it is read.
    if (cone_.values[value].role == kernel::ValueRole::input) return;
    for (const Expr e : uses)
      for (const Expr symbol : symbols_of(e))
        if (const AxisId a = axis(symbol)) keep(a);
  }

  const kernel::Cone& cone_;
  IdVector<AxisId, AxisId> parent_;
  IdVector<AxisId, bool> kept_;
  IdVector<ValueId, std::vector<std::vector<Expr>>> uses_; // by value and dimension
  std::set<std::pair<ValueId, int>> odd_;
};

} // namespace

IdVector<AxisId, int64_t> tile_sizes(const kernel::Cone& cone, const kernel::Schedule& schedule) {
  IdVector<AxisId, int64_t> sizes;
  for (const AxisTiles& use : uses_of(cone, schedule)) sizes.push_back(use.tile);
  return sizes;
}

Shrunk shrink(const KernelProblem& problem, const kernel::Schedule& schedule, int tiles, bool blocks) {
  Shrunk small{problem.cone, problem.symbols, blocks ? with_small_blocks(schedule) : schedule};
  kernel::Cone& cone = small.cone;
  const auto before = uses_of(cone, schedule), uses = uses_of(cone, small.schedule);

  // Dimension symbols: as their axes want, within their ranges and the module's assumptions.
  for (const Expr symbol : cone.symbols) {
    int64_t& value = small.symbols.at(std::string(symbol.name()));
    AxisTiles was, use;
    for (const AxisId a : cone.axes.ids())
      if (std::ranges::count(symbols_of(cone.axes[a].extent), symbol) > 0) {
        if (before[a].tile > was.tile) was = before[a];
        if (uses[a].tile > use.tile) use = {uses[a].tile, uses[a].grain, use.whole};
        use.whole |= uses[a].whole;
      }
    const int64_t full = value;
    if (!use.whole)
      value =
          std::min(full, std::max({small_extent(value, was, use, tiles), symbol.range().low, int64_t{1}}));
    const auto bound = bound_symbols(problem.module.symbols, small.symbols);
    for (const Expr condition : problem.module.assumptions) {
      const auto holds = evaluate(condition, bound);
      if (!holds || *holds == 0) {
        value = full;
        break;
      }
    }
  }

  // Constant extents: axes that are tied together get the largest that one of them wants.
  const Ties ties(cone);
  std::map<AxisId, int64_t> wanted;
  for (const AxisId a : cone.axes.ids()) {
    if (!cone.axes[a].extent.is_constant()) continue;
    const int64_t extent = cone.axes[a].extent.value();
    const bool fixed = uses[a].whole || ties.kept(a);
    int64_t& want = wanted[ties.root(a)];
    want = std::max(want, fixed ? extent : small_extent(extent, before[a], uses[a], tiles));
  }
  IdVector<AxisId, Expr> extents;
  ExprMap<Expr> renamed;
  for (const AxisId a : cone.axes.ids()) {
    kernel::ConeAxis& axis = cone.axes[a];
    extents.push_back(axis.extent);
    if (!axis.extent.is_constant()) continue;
    const int64_t extent = std::min(axis.extent.value(), wanted.at(ties.root(a)));
    if (extent == axis.extent.value()) continue;
    extents.back() = extent;
    renamed[axis.symbol] = Expr::symbol(axis.name, {0, std::max<int64_t>(extent - 1, 0)});
  }
  for (const ValueId v : cone.values.ids())
    for (size_t d = 0; d < cone.values[v].shape.size(); d++)
      if (const AxisId a = ties.axis_of(v, d)) cone.values[v].shape[d] = extents[a];
  for (const AxisId a : cone.axes.ids()) {
    cone.axes[a].extent = extents[a];
    if (const auto found = renamed.find(cone.axes[a].symbol); found != renamed.end())
      cone.axes[a].symbol = found->second;
  }
  for (kernel::Stage& stage : cone.stages) kernel::substitute_stage(stage, renamed);
  for (kernel::ConeHole& hole : cone.holes) hole.value = kernel::substitute(hole.value, renamed);
  return small;
}

} // namespace luminal::search
