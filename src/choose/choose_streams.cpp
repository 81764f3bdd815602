// choose/choose_streams.cpp -- the default schedule of products of few rows with a weight whose rows
// lie along the results: the weight comes from memory once, in long runs.
//
// A tile of results that goes through the whole sum would read a short piece of each row of the
// weight, a page or more apart. Instead some rows of the weight pass by along all results, whose
// sums lie in the first cache meanwhile.
#include "base/contains.h"
#include "base/log.h"
#include "base/settings.h"
#include "choose/contraction.h"
#include "choose/default_scheduler.h"
#include "cone/formula.h"
#include <algorithm>

namespace luminal::kernel {
namespace {

constexpr int64_t most_rows = 8;       ///< of the other operand
constexpr int64_t least_stride = 1024; ///< bytes between two rows of the weight: pieces are no run then
constexpr int64_t steps_together = 8;  ///< rows of the weight that pass by side by side

} // namespace

/// Of a fold with nothing behind it: why it is another kind of stage, or its axes.
Result<DefaultScheduler::ColumnStream> DefaultScheduler::column_stream(StageId s) const {
  const Stage& st = stage(s);
  const auto other = [&](std::string_view why) { return Failure{fmt::format("{}: {}", st.name, why)}; };
  if (!has_fold(st) || st.components.size() != 1) return other("not one fold alone");
  const Component& fold = st.components[0];
  if (st.monoid || fold.init || !fold.out || !st.domain.is_constant(1) || !st.needed.is_constant(1) ||
      !st.ordered.empty() || !holes_of(nests_.cone, st).empty() || nest(s).rolling)
    return other("not a plain sum over whole axes");
  const Contraction c = contraction_of(nests_.cone, st);
  const auto extent = [&](size_t i) -> const Expr& { return axis_at(c.axes[i]).extent; };
  ColumnStream stream;
  size_t n = c.axes.size(), k = n;
  for (size_t i = 0; i < c.axes.size(); i++) {
    if (!axis_at(c.axes[i]).symbol.is_symbol()) continue;
    if (c.roles[i] == AxisRole::reduction) {
      if (k < c.axes.size()) return other("several axes are summed");
      k = i;
    } else if (c.roles[i] == AxisRole::window) {
      return other("it reads windows");
    } else if (c.results[0].along[i] == Step::contiguous) {
      n = i;
    } else {
      stream.rows.push_back(c.axes[i]);
    }
  }
  if (n == c.axes.size() || k == c.axes.size()) return other("no results are contiguous");
  if (!extent(n).is_constant() || !extent(k).is_constant()) return other("its sizes are not known");
  stream.columns = c.axes[n], stream.depth = c.axes[k];
  const Operand* weight = nullptr;
  for (const Operand& o : c.operands) {
    if (o.along[n] == Step::none) continue;
    if (weight || o.along[n] != Step::contiguous || o.along[k] != Step::strided || o.interior ||
        !o.guard.is_constant(1))
      return other("several operands vary with the results");
    weight = &o;
  }
  if (!weight) return other("no operand varies with the results");
  for (const AxisId a : stream.rows) {
    const Expr rows = axis_at(a).extent;
    if (weight->along[*c.position(a)] != Step::none) return other("each row has a weight of its own");
    if (rows.is_constant())
      stream.all_rows = std::min<int64_t>(stream.all_rows * rows.value(), 1 << 20);
    else if (one_row_ && stream.rows.size() == 1)
      stream.one_of = axis_at(a).name;
    else
      return other("how many rows there are is not known");
  }
  if (stream.all_rows > most_rows) return other("many rows use the weight again");
  const int64_t width = std::max(1, bits(value_at(weight->value).dtype) / 8);
  const auto stride =
      coefficient_of(layout_offset(value_at(weight->value), weight->index), axis_at(stream.depth).symbol);
  if (!stride || !stride->is_constant() || stride->value() * width < least_stride ||
      extent(n).value() < 4 * limits_.lanes || extent(k).value() < 4 * steps_together)
    return other("the rows of the weight are short");
  if (extent(n).value() * extent(k).value() * width <= limits_.l2) return other("a cache holds the weight");
  stream.weight = weight->value;
  return stream;
}

/// The maps right behind the stages `s` .. `end` - 1 that make of each result of theirs one of
/// their own.
StageId DefaultScheduler::maps_behind(StageId s, StageId end, const ColumnStream& stream) const {
  for (; nests_.cone.stages.has(end); end++) {
    const Stage& map = stage(end);
    bool suits = map.ordered.empty() && !map.scan_axis && contains(map.axes, stream.columns) &&
                 map.axes.size() <= stream.rows.size() + 1;
    for (const Component& c : map.components) suits = suits && c.kind == ComponentKind::map && !c.after;
    bool reads = false;
    visit_loads(map, [&](const FormulaLoad& f) {
      for (StageId p = s; p < end; p++)
        for (const Component& c : stage(p).components)
          if (c.out == f.value) reads = true, suits = suits && c.index == f.index;
    });
    if (!suits || !reads) return end;
  }
  return end;
}

/// Names of the stages that take such a schedule, which keep what follows their sums apart.
void DefaultScheduler::find_column_streams() {
  for (const StageId s : nests_.cone.stages.ids()) {
    const auto stream = column_stream(s);
    if (stream && decisions_.ask_whether(stage(s).name + ".columns_stream", true))
      column_streams_.insert(stage(s).name);
    else if (!stream && has_fold(stage(s)) && debug_level() >= 2)
      log_debug("{}: no stream of rows of a weight: {}", original_.name, stream.error());
  }
}

/// The stage, those behind it with the same rows and columns, and the maps on their results: in
/// blocks of results whose sums the first cache holds.
void DefaultScheduler::column_stream_loops(StageId s) {
  const ColumnStream stream = *column_stream(s);
  StageId end = s + 1;
  for (; nests_.cone.stages.has(end) && column_streams_.contains(stage(end).name); end++) {
    const auto next = column_stream(end);
    if (!next || next->columns != stream.columns || next->rows != stream.rows) break;
  }
  const int products = end - s;
  end = maps_behind(s, end, stream);
  const std::string n = axis_at(stream.columns).name, first = stage(s).name;
  const int64_t all = axis_at(stream.columns).extent.value(), lanes = limits_.lanes,
                registers = limits_.vector_registers / 2;
  const int64_t vectors =
      ask(s, "vectors", std::clamp<int64_t>(registers / stream.all_rows, 1, 4), {1, 2, 4});
  const int64_t unit = vectors * lanes,
                most = std::max(unit, limits_.l1 / 2 / 4 / stream.all_rows / products / unit * unit);
  const int64_t blocks = round_up((all + most - 1) / most, std::max(1, limits_.threads));
  const int64_t block =
      ask(s, "block", round_up((all + blocks - 1) / blocks, unit), {4 * unit, 16 * unit, 64 * unit});
  const int64_t steps =
      ask(s, "steps", stream.all_rows > 2 ? steps_together / 2 : steps_together, {2, 4, 8, 16});
  const std::string nc = nests_.free_name(n + ".c"), nn = nests_.free_name(n + ".n"),
                    np = nests_.free_name(n + ".p"), nw = nests_.free_name(n + ".w"),
                    nv = nests_.free_name(n + ".v"), nl = nests_.free_name(n + ".l");
  if (!stream.one_of.empty()) row_axis_ = stream.one_of;
  for (StageId i = s; i < end; i++) {
    const std::string name = stage(i).name;
    std::vector<std::string> order{name, nc}, unrolled{name}, rows;
    add(DirectiveKind::split, {name, n, nc, nn}, {block});
    add(DirectiveKind::split, {name, nn, np, nw}, {unit});
    add(DirectiveKind::split, {name, nw, nv, nl}, {lanes});
    for (const StageLoop& l : nest(i).loops)
      if (std::ranges::any_of(stream.rows, [&](AxisId a) { return axis_at(a).name == l.name; }))
        rows.push_back(l.name);
    if (i - s < products) {
      const ColumnStream own = *column_stream(i);
      const auto [pieces, step] = split(i, axis_at(own.depth).name, steps);
      if (!stream.one_of.empty()) order.insert(order.end(), rows.begin(), rows.end());
      order.insert(order.end(), {pieces, np, step});
      if (stream.one_of.empty()) {
        order.insert(order.end(), rows.begin(), rows.end());
        unrolled.insert(unrolled.end(), rows.begin(), rows.end());
      }
      add(DirectiveKind::jam, {name, step}, {steps});
      if (ask(i, "prefetch", 1, {0}))
        try_add(DirectiveKind::prefetch, {name, value_at(own.weight).name, pieces, np}, {1});
    } else {
      order.insert(order.end(), rows.begin(), rows.end());
      order.push_back(np);
    }
    order.insert(order.end(), {nv, nl});
    unrolled.push_back(nv);
    add(DirectiveKind::order, order);
    add(DirectiveKind::unroll, unrolled);
    add(DirectiveKind::vector, {name, nl});
    add(DirectiveKind::parallel, {name, nc});
    if (i > s) add(DirectiveKind::at, {name, nc});
  }
  done_ = end - 1;
}

} // namespace luminal::kernel
