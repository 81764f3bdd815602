// choose/choose_sums.cpp -- sums of many elements: those with few results are summed in parts, and long
// chains of additions in blocks.
//
// A sum of columns of few elements fills no vector with one row, and each of its additions waits for the
// one before: several rows beside each other are summed by themselves, as the columns of one longer row.
// Where nothing else can be distributed, parts of the rows are. What is summed by itself is summed once
// more, in an order that does not depend on the number of workers.
//
// The error of a sum of n terms one after the other grows with n, in blocks of b with b + n / b (Castaldo,
// Whaley, Chronopoulos, Reducing Floating Point Error in Dot Product Using the Superblock Family of
// Algorithms, 2008).
#include "base/contains.h"
#include "base/log.h"
#include "base/settings.h"
#include "choose/default_scheduler.h"
#include "cone/formula.h"
#include "cone/result_conditions.h"
#include "expr/share.h"
#include <algorithm>
#include <fmt/format.h>
#include <numeric>

namespace luminal::kernel {
namespace {

constexpr int64_t fewest_elements = 1 << 13; // that are worth a second sum
constexpr int64_t part_elements = 1 << 16;   // of a part, about
constexpr int64_t most_parts = 64;
constexpr int64_t longest_chain = 1 << 11, block_of_chain = 1 << 9; // additions one after the other
constexpr int64_t long_axis = 1 << 16; // of no known length: with less its sums are left whole

} // namespace

/// Of a stage that reads each element once: plain folds over constant axes, nothing that several results
/// share.
Result<DefaultScheduler::LongSum> DefaultScheduler::long_sum(StageId s) const {
  const Stage& st = stage(s);
  const auto no = [&](std::string_view why) { return Failure(fmt::format("{}: {}", st.name, why)); };
  if (!has_fold(st) || st.scan_axis || !st.ordered.empty() || !st.domain.is_constant(1) ||
      !nest(s).guards.empty() || reads_windows(s))
    return no("it is more than plain sums");
  std::vector<AxisId> kept;
  bool first = true;
  for (const Component& c : st.components) {
    if (c.kind == ComponentKind::map && c.after) continue;
    if (c.kind != ComponentKind::fold || c.init || (!first && c.axes != kept))
      return no("its sums go on from others");
    kept = c.axes, first = false;
  }
  int64_t results = 1, summed = 1;
  std::vector<AxisId> reduced;
  for (const AxisId a : st.axes) {
    if (!axis_at(a).extent.is_constant() || axis_at(a).extent.is_constant(0))
      return no("its size is not constant");
    if (!nest(s).find(axis_at(a).name)) return no("it is cut already");
    const bool is_kept = contains(kept, a);
    (is_kept ? results : summed) *= axis_at(a).extent.value();
    if (!is_kept) reduced.push_back(a);
  }
  if (reduced.empty() || summed < 64 || results > part_elements || results * summed < fewest_elements)
    return no("it has few elements, or many results");
  bool shared = false, irregular = false, reads = false;
  std::vector<const Formula*> loads;
  for (const Component& c : st.components)
    if (!c.after)
      visit(c.body, [&](const Formula& f) {
        if (!load_of(f)) return;
        loads.push_back(&f);
        bool of_sum = false, of_all = true;
        for (const AxisId a : st.axes) {
          const Step step = step_of(nests_.cone, f, axis_at(a).symbol);
          irregular |= step == Step::irregular;
          of_sum |= contains(reduced, a) && step != Step::none;
          of_all &= step != Step::none || !contains(kept, a) || axis_at(a).extent.is_constant(1);
        }
        reads |= of_sum;
        shared |= of_sum && !of_all;
      });
  if (shared || irregular || !reads) return no("several results share what they read");
  const auto contiguous = [&](AxisId a) {
    return !axis_at(a).extent.is_constant(1) && std::ranges::all_of(loads, [&](const Formula* f) {
      const Step step = step_of(nests_.cone, *f, axis_at(a).symbol);
      return step == Step::contiguous || step == Step::none;
    }) && std::ranges::any_of(loads, [&](const Formula* f) {
      return step_of(nests_.cone, *f, axis_at(a).symbol) == Step::contiguous;
    });
  };
  LongSum sum;
  AxisId columns;
  for (const AxisId a : st.axes)
    if (contiguous(a)) columns = a;
  // The longest axis of the sum: of those that lie apart the outermost.
  for (const AxisId a : reduced)
    if (!sum.axis || axis_at(a).extent.value() > axis_at(sum.axis).extent.value()) sum.axis = a;
  const int64_t length = axis_at(sum.axis).extent.value();
  const bool across = columns && contains(kept, columns);
  const int64_t width = across ? axis_at(columns).extent.value() : 1;
  int64_t distributed = results / width; // what other loops give the workers
  if (across && !st.monoid) {
    sum.columns = axis_at(columns).name;
    int64_t registers = 1; // of a vector of sums
    for (const Component& c : st.components)
      if (!c.after) registers = std::max<int64_t>(registers, bits(c.dtype) / 32);
    const int64_t lanes = limits_.lanes, most = (limits_.vector_registers >= 32 ? 24 : 10) / registers;
    const int64_t fill = lanes / std::gcd(width, lanes);
    if (width < 4 * lanes)
      for (int64_t n = fill; n * width <= most * lanes && n * 16 <= length; n += fill) {
        sum.neighbours = n;
        if (n * width >= 8 * lanes) break;
      }
    distributed *= std::max<int64_t>(1, width / (8 * lanes));
  }
  if (distributed < 8)
    sum.parts = std::clamp<int64_t>(
        std::min({results * summed / part_elements, length / (64 * sum.neighbours)}), 1, most_parts);
  if (sum.parts < 2 && sum.neighbours < 2)
    return no("its rows fill vectors, and there are results for all workers");
  return sum;
}

/// Of a cone that is one sum. Adds the parts, and the loops of a sum of neighbours.
bool DefaultScheduler::sum_in_parts() {
  if (nests_.cone.stages.size() != 1) return false;
  constexpr StageId s(0);
  const std::string name = stage(s).name;
  const Result<LongSum> found = long_sum(s);
  if (!found && debug_level() >= 2) log_debug("{}: no sum in parts: {}", original_.name, found.error());
  if (!found || !decisions_.ask_whether(name + ".in_parts", true)) return false;
  const LongSum& sum = *found;
  const Attempt attempt = begin();
  const std::string axis = axis_at(sum.axis).name;
  const int64_t length = axis_at(sum.axis).extent.value(), unit = sum.neighbours * limits_.lanes;
  std::string rows = axis;
  if (sum.parts > 1) {
    const int64_t size = (length + sum.parts - 1) / sum.parts, block = (size + unit - 1) / unit * unit;
    if (!try_add(DirectiveKind::split_reduction, {name, axis}, {sum.parts, block})) return false;
    rows = nests_.cone.axes.back().name; // of a part: the last axis that the directive makes
  }
  if (sum.neighbours == 1) return true;
  if (!try_add(DirectiveKind::split_reduction, {name, rows}, {sum.neighbours, 1})) {
    undo(attempt);
    return false;
  }
  // The neighbours' columns are one row.
  const std::string beside = nests_.cone.axes[nests_.cone.axes.end_id() - 3].name; // its first one: the parts
  std::vector<std::string> order{name};
  std::vector<std::string> last;
  for (const StageLoop& l : nest(s).loops)
    if (l.name != beside && l.name != sum.columns) (loop_reduces(s, l) ? last : order).push_back(l.name);
  const std::vector<std::string> outer(order.begin() + 1, order.end());
  order.insert(order.end(), last.begin(), last.end());
  order.insert(order.end(), {beside, sum.columns});
  add(DirectiveKind::order, order);
  add(DirectiveKind::merge, {name, beside, sum.columns, sum.columns});
  std::string vectors, lanes = sum.columns;
  if (trips(*nest(s).find(lanes)) > limits_.lanes) std::tie(vectors, lanes) = split(s, lanes, limits_.lanes);
  add(DirectiveKind::vector, {name, lanes});
  if (!vectors.empty()) add(DirectiveKind::unroll, {name, vectors});
  std::string distributed;
  for (const std::string& loop : outer) {
    const int64_t n = trips(*nest(s).find(loop));
    if (n >= 2 && (distributed.empty() || trips(*nest(s).find(distributed)) < 2 * limits_.threads))
      distributed = loop;
  }
  if (!distributed.empty()) add(DirectiveKind::parallel, {name, distributed});
  summed_.insert(name);
  return true;
}

/// A sum of tiles of which no result is read, as a mask hides them all, is not made.
void DefaultScheduler::skip_hidden_tiles(StageId s) {
  const Stage& st = stage(s);
  const auto conditions = result_conditions(st);
  if (conditions.empty() || on_tiles(s)) return;
  std::vector<std::pair<Expr, double>> axes;
  for (AxisId a : st.axes) {
    const int64_t points = axis_at(a).extent.range().high;
    axes.emplace_back(axis_at(a).symbol, points == unbounded_high ? double(1 << 20) : double(points));
  }
  Expr all = 1;
  for (const Expr e : conditions) all = logical_and(all, e);
  constexpr double most_read = 0.9; // beyond it asking costs about what it saves
  if (share_of(all, axes) > most_read) return;
  const auto& loops = nest(s).loops;
  for (size_t i = loops.size(); i-- > 0;) {
    if (loops[i].kind != LoopKind::serial || !loops[i].symbol.is_symbol()) continue;
    const std::string innermost = loops[i].name;
    if (loop_reduces(s, loops[i]) && !nest(s).bounds.contains(innermost))
      try_add(DirectiveKind::predicate_bound, {st.name, innermost});
    return;
  }
}

/// Sums whose additions form a longer chain are made in blocks. A chain goes through the serial loops of
/// the sum: lanes and bodies that are written out have accumulators of their own.
void DefaultScheduler::blocked_sums(StageId s) {
  const Stage& st = stage(s);
  if (st.monoid || st.scan_axis || !has_fold(st) || nest(s).cascade != 0 || on_tiles(s)) return;
  if (std::ranges::none_of(st.components, [](const Component& c) { // others, such as counts, go with it
        return c.kind == ComponentKind::fold && c.op == Op::add && is_float(c.dtype);
      }))
    return;
  constexpr int64_t enough = int64_t{1} << 40;
  int64_t in_tile = 1, all = 1, block = 0;
  std::string block_loop, carried; // inside of the register tile; outside, with sums in memory
  bool inside = true;
  const auto& loops = nest(s).loops;
  for (size_t i = loops.size(); i-- > 0;) {
    const StageLoop& l = loops[i];
    if (!l.symbol.is_symbol() || l.kind == LoopKind::vector || l.kind == LoopKind::unrolled) continue;
    inside = inside && loop_reduces(s, l) &&
             std::ranges::none_of(nests_.stages, [&](const StageNest& n) { return n.at == l.name; });
    if (!loop_reduces(s, l)) continue;
    const int64_t n = trips(l);
    if (!l.extent.is_constant() && n < long_axis) return;
    all = std::min(all * n, enough);
    if (!inside && carried.empty()) carried = l.name;
    if (!inside) continue;
    if (block_loop.empty() && in_tile * n > block_of_chain)
      block_loop = l.name, block = std::max<int64_t>(block_of_chain / in_tile, 2);
    in_tile = std::min(in_tile * n, enough);
  }
  if (all < longest_chain) return;
  if (!carried.empty() && in_tile > 1) add(DirectiveKind::blocked_sum, {st.name, carried}, {1});
  if (in_tile < longest_chain || block_loop.empty()) return;
  const StageLoop& l = *nest(s).find(block_loop);
  block = (block + l.jam - 1) / l.jam * l.jam;
  if (2 * block <= trips(l)) add(DirectiveKind::blocked_sum, {st.name, block_loop}, {block});
}

} // namespace luminal::kernel
