// schedule/apply_schedule.cpp -- schedule directives that shape loops: split, order, merge, kinds,
// places, storage.
#include "base/check.h"
#include "base/contains.h"
#include "cone/formula.h"
#include "schedule/nest.h"
#include <algorithm>
#include <bit>

namespace luminal::kernel {
namespace {

Expr loop_symbol(const std::string& name, Expr extent) {
  if (extent.is_constant(1)) return 0;
  // A loop of one trip or none: a symbol that can only be 0 would vanish from index expressions,
  // and with it that they vary with the loop.
  const int64_t high = extent.range().high, least = extent.is_constant() ? 0 : 1;
  return Expr::symbol(name, {0, high == unbounded_high ? high : std::max<int64_t>(high - 1, least)});
}

void replace_symbol(StageNest& nest, Expr symbol, Expr by) {
  if (!symbol.is_symbol()) return;
  ExprMap<Expr> map{{symbol, by}};
  for (auto& [axis, value] : nest.axis_values) value = substitute(value, map);
  for (Guard& g : nest.guards) g.value = substitute(g.value, map);
}

/// Loop names are names of the kernel: no value, dimension symbol or hole may be called so.
void check_loop_name(const Nests& nests, const std::string& name) {
  if (!is_buffer_name(name)) refuse("{} is not a name of a loop or a value", name);
  for (auto& v : nests.cone.values)
    if (v.name == name) refuse("the name {} belongs to a value already", name);
  for (Expr s : nests.cone.symbols)
    if (s.name() == name) refuse("the name {} belongs to a dimension already", name);
  for (auto& h : nests.cone.holes)
    if (h.symbol.name() == name) refuse("the name {} belongs to an index that is read from memory", name);
  if (name == "root") refuse("root is not a name of a loop");
}

void split(Nests& nests, StageId stage, size_t position, const std::string& outer, const std::string& inner,
           int64_t factor) {
  StageNest& nest = nests.stages[stage];
  StageLoop loop = nest.loops[position];
  if (loop.kind == LoopKind::vector)
    refuse("loop {} of stage {} has the lanes already: split it before", loop.name,
           nests.cone.stages[stage].name);
  for (auto& name : {outer, inner})
    if (name != loop.name && nest.find(name))
      refuse("stage {} already has a loop {}", nests.cone.stages[stage].name, name);
  if (outer == inner) refuse("the parts of a split need two names");
  StageLoop o = loop, i = loop;
  o.name = outer;
  i.name = inner;
  o.jam = i.jam = 1;
  o.block = i.block = 0;
  o.extent = ceildiv(loop.extent, factor);
  // A factor beyond the extent makes one trip of the extent itself.
  i.extent =
      prove(le(loop.extent, factor)) == Truth::yes && loop.extent.is_constant() ? loop.extent : Expr(factor);
  o.symbol = loop_symbol(outer, o.extent);
  i.symbol = loop_symbol(inner, i.extent);
  Expr joined = o.symbol * factor + i.symbol;
  replace_symbol(nest, loop.symbol, joined);
  bool divides = loop.extent.multiple() % factor == 0 || i.extent == loop.extent;
  if (!divides) {
    bool known = std::ranges::any_of(
        nest.guards, [&](const Guard& g) { return g.value == joined && g.limit == loop.extent; });
    if (!known) nest.guards.push_back({joined, loop.extent});
  }
  nest.loops[position] = o;
  nest.loops.insert(nest.loops.begin() + long(position) + 1, i);
}

std::string_view word_for(LoopKind kind) {
  static constexpr std::string_view words[] = {"serial", "parallel", "unrolled", "a vector loop"};
  return words[int(kind)];
}

/// Bodies and lanes are counted when the code is made.
void check_written_out(const StageLoop& loop) {
  if (!loop.extent.is_constant())
    refuse("loop {} has {} trips, which is not a constant: it cannot be {}", loop.name,
           luminal::to_string(loop.extent), word_for(loop.kind));
  if (loop.kind == LoopKind::unrolled && loop.extent.value() > 1024)
    refuse("loop {} has {} trips: too many to write out", loop.name, loop.extent.value());
}

void merge(Nests& nests, StageId stage, const std::string& outer, const std::string& inner,
           const std::string& name) {
  StageNest& nest = nests.stages[stage];
  auto& stage_name = nests.cone.stages[stage].name;
  for (size_t p = 0; p + 1 < nest.loops.size(); p++) {
    StageLoop o = nest.loops[p], i = nest.loops[p + 1];
    if (o.name != outer || i.name != inner) continue;
    if (name != outer && name != inner && nest.find(name))
      refuse("stage {} already has a loop {}", stage_name, name);
    if (o.kind == LoopKind::vector || i.kind == LoopKind::vector)
      refuse("a loop of stage {} has the lanes already: merge before", stage_name);
    if (i.extent.is_constant(0))
      refuse("loop {} of stage {} has no element: nothing divides by it", inner, stage_name);
    StageLoop m = o;
    m.name = name;
    m.extent = o.extent * i.extent;
    if (m.kind == LoopKind::unrolled) check_written_out(m);
    m.symbol = loop_symbol(name, m.extent);
    // Simultaneous: the new name may be one of the old ones.
    ExprMap<Expr> map;
    if (o.symbol.is_symbol()) map[o.symbol] = floordiv(m.symbol, i.extent);
    if (i.symbol.is_symbol()) map[i.symbol] = o.symbol.is_symbol() ? mod(m.symbol, i.extent) : m.symbol;
    for (auto& [axis, value] : nest.axis_values) value = substitute(value, map);
    for (Guard& g : nest.guards) {
      const auto step = o.symbol.is_symbol() ? coefficient_of(g.value, o.symbol) : std::nullopt;
      if (step && step->is_constant(1) && i.extent.is_constant() &&
          !(i.symbol.is_symbol() && depends_on(g.value, i.symbol))) {
        // What ends with the outer loop ends with its last whole run of the inner one.
        g.value = substitute(g.value, {{o.symbol, 0}}) * i.extent + m.symbol;
        g.limit = g.limit * i.extent;
      } else {
        g.value = substitute(g.value, map);
      }
    }
    nest.loops[p] = m;
    nest.loops.erase(nest.loops.begin() + long(p) + 1);
    return;
  }
  refuse("stage {} has no neighbouring loops {} and {}", stage_name, outer, inner);
}

template <class F> void each_loop(Nests& nests, const std::string& stage, const std::string& loop, F&& act) {
  bool any = false;
  if (stage != "*") nests.stage(stage);
  for (const StageId s : nests.stages.ids()) {
    if (stage != "*" && nests.cone.stages[s].name != stage) continue;
    for (size_t l = 0; l < nests.stages[s].loops.size(); l++)
      if (nests.stages[s].loops[l].name == loop) {
        act(s, l);
        any = true;
        break;
      }
  }
  if (!any) refuse("{} has no loop {}", stage == "*" ? "no stage" : "stage " + stage, loop);
}

void order(Nests& nests, const Directive& d) {
  StageId s = nests.stage(d.words[0]);
  StageNest& nest = nests.stages[s];
  std::vector<StageLoop> next;
  for (size_t i = 1; i < d.words.size(); i++) {
    const StageLoop* l = nest.find(d.words[i]);
    if (!l) refuse("stage {} has no loop {}", d.words[0], d.words[i]);
    for (auto& n : next)
      if (n.name == l->name) refuse("loop {} is named twice", l->name);
    next.push_back(*l);
  }
  if (next.size() != nest.loops.size()) {
    std::string missing;
    for (auto& l : nest.loops)
      if (std::ranges::none_of(next, [&](auto& n) { return n.name == l.name; })) missing += " " + l.name;
    refuse("order must name every loop; missing:{}", missing);
  }
  nest.loops = std::move(next);
}

/// Loops that a stage keeps in order may only be serial.
void check_ordered(const Nests& nests, StageId s, const StageLoop& loop, std::string_view kind) {
  auto& stage = nests.cone.stages[s];
  for (AxisId a : stage.ordered)
    if (depends_on_loop(nests.stages[s], nests.cone.axes[a].symbol, loop))
      refuse("loop {} of stage {} keeps its order and cannot be {}", loop.name, stage.name, kind);
}

/// Lanes are a power of two: the last ones of a loop of fewer trips do nothing.
void fill_lanes(StageNest& nest, StageLoop& loop) {
  const int64_t trips = loop.extent.value(), lanes = int64_t(std::bit_ceil(uint64_t(trips)));
  if (lanes == trips) return;
  loop.extent = lanes;
  const Expr filled = loop_symbol(loop.name, loop.extent);
  replace_symbol(nest, loop.symbol, filled);
  loop.symbol = filled;
  nest.guards.push_back({filled, trips});
}

void set_kind(Nests& nests, const Directive& d, LoopKind kind) {
  bool list = d.kind != DirectiveKind::parallel;
  for (size_t i = 1; i < (list ? d.words.size() : 2); i++)
    each_loop(nests, d.words[0], d.words[i], [&](StageId s, size_t l) {
      StageLoop& loop = nests.stages[s].loops[l];
      // (Lanes of a scan combine their results in order.)
      const bool in_lanes = kind == LoopKind::vector && scans_in_lanes(nests.cone.stages[s]);
      if (kind == LoopKind::parallel || (kind == LoopKind::vector && !in_lanes))
        check_ordered(nests, s, loop, word_for(kind));
      loop.kind = kind;
      if (kind == LoopKind::unrolled || kind == LoopKind::vector) check_written_out(loop);
      if (kind == LoopKind::vector) {
        const int64_t n = loop.extent.value();
        if (n < 1 || n > 1024)
          refuse("loop {} has {} trips: a vector has between 1 and 1024 lanes", loop.name, n);
        for (auto& other : nests.stages[s].loops)
          if (other.kind == LoopKind::vector && other.name != loop.name)
            refuse("stage {} already has a vector loop {}", nests.cone.stages[s].name, other.name);
      }
      if (kind == LoopKind::vector) fill_lanes(nests.stages[s], loop);
      if (!d.numbers.empty()) loop.level = int(d.numbers[0]);
    });
}

void store(Nests& nests, const Directive& d) {
  ValueId v = nests.value(d.words[0]);
  ConeValue& value = nests.cone.values[v];
  if (value.role != ValueRole::interior) refuse("{} is stored outside of the kernel", value.name);
  Storage& storage = nests.storage[v];
  storage.level = d.words[1];
  size_t end = d.words.size();
  if (end >= 4 && d.words[end - 2] == "in") {
    auto& space = d.words[end - 1];
    if (space == "shared")
      storage.space = Space::shared;
    else if (space == "local")
      storage.space = Space::local;
    else
      refuse("there is no space {}", space);
    end -= 2;
  }
  if (end == 2) return;
  std::vector<std::string> names;
  for (size_t i = 0; i < value.shape.size(); i++)
    names.push_back(i < value.axes.size() && value.axes[i] ? nests.cone.axes[value.axes[i]].name
                                                           : "d" + std::to_string(i));
  Layout layout;
  for (size_t i = 2; i < end; i++) {
    auto dim = parse_layout_dim(d.words[i], names);
    if (!dim) refuse("{} ({} has the dimensions {})", dim.error(), value.name, fmt::join(names, ", "));
    layout.push_back(*dim);
  }
  // Dimensions that are not named come first: those of the loops outside have an extent of 1 there.
  for (size_t i = value.shape.size(); i-- > 0;)
    if (std::ranges::none_of(layout, [&](auto& l) { return l.dim == int(i); }))
      layout.insert(layout.begin(), LayoutDim{int(i)});
  if (auto ok = check_layout(layout, int(value.shape.size())); !ok) refuse("{}", ok.error());
  value.layout = layout;
}

void split_loops(Nests& nests, const Directive& d) {
  auto& w = d.words;
  if (d.numbers[0] < 1) refuse("a factor is at least 1");
  check_loop_name(nests, w[2]);
  check_loop_name(nests, w[3]);
  each_loop(nests, w[0], w[1], [&](StageId s, size_t l) { split(nests, s, l, w[2], w[3], d.numbers[0]); });
}

void jam(Nests& nests, const Directive& d) {
  if (d.numbers[0] < 1 || d.numbers[0] > 64) refuse("a trip has 1 to 64 bodies");
  each_loop(nests, d.words[0], d.words[1],
            [&](StageId s, size_t l) { nests.stages[s].loops[l].jam = int(d.numbers[0]); });
}

void blocked_sum(Nests& nests, const Directive& d) {
  if (d.numbers[0] < 1) refuse("a block of a sum has at least one trip");
  each_loop(nests, d.words[0], d.words[1], [&](StageId s, size_t l) {
    StageLoop& loop = nests.stages[s].loops[l];
    loop.block = d.numbers[0];
    loop.block_loop = nests.free_name(loop.name + ".block");
  });
}

void prefetch(Nests& nests, const Directive& d) {
  auto& w = d.words;
  StageId s = nests.stage(w[0]);
  if (w.size() > 5) refuse("one loop and two inside of it are enough");
  if (!nests.stages[s].find(w[2])) refuse("stage {} has no loop {}", w[0], w[2]);
  for (const std::string& loop : std::span(w).subspan(3)) // of this stage, or of one that runs meanwhile
    if (std::ranges::none_of(nests.stages, [&](auto& nest) { return nest.find(loop) != nullptr; }))
      refuse("no stage has loop {}", loop);
  nests.stages[s].prefetches.push_back(
      {nests.value(w[1]), w[2], w.back(), d.numbers[0], w.size() == 5 ? w[3] : ""});
}

/// How a kernel is launched; the code is the same.
void check_serial(const Directive& d) {
  if (d.numbers[0] < 0) refuse("{} points", d.numbers[0]);
  if (d.numbers.size() > 1 && (d.numbers[1] < 1 || d.numbers[1] > 1 << 20))
    refuse("{} workers", d.numbers[1]);
}

void check_numbers(const Directive& d) {
  constexpr int64_t most = int64_t{1} << 40; // products of two are numbers
  if (d.kind == DirectiveKind::serial || d.kind == DirectiveKind::from) return;
  for (int64_t n : d.numbers)
    if (n > most || n < -most) refuse("{} is more than any axis has", n);
}

} // namespace

void apply(Nests& nests, const Directive& d) {
  auto& w = d.words;
  check_numbers(d);
  switch (d.kind) {
  case DirectiveKind::split: return split_loops(nests, d);
  case DirectiveKind::order: return order(nests, d);
  case DirectiveKind::merge:
    check_loop_name(nests, w[3]);
    return merge(nests, nests.stage(w[0]), w[1], w[2], w[3]);
  case DirectiveKind::parallel: return set_kind(nests, d, LoopKind::parallel);
  case DirectiveKind::vector: return set_kind(nests, d, LoopKind::vector);
  case DirectiveKind::unroll: return set_kind(nests, d, LoopKind::unrolled);
  case DirectiveKind::jam: return jam(nests, d);
  case DirectiveKind::blocked_sum: return blocked_sum(nests, d);
  case DirectiveKind::at: nests.stages[nests.stage(w[0])].at = w[1] == "root" ? "" : w[1]; return;
  case DirectiveKind::store: return store(nests, d);
  case DirectiveKind::unfold: return unfold(nests, w[0]);
  case DirectiveKind::stage:
    check_loop_name(nests, w[1]);
    return stage_copy(nests, w[0], w[1], std::span(w).subspan(2));
  case DirectiveKind::padded_copy:
    if (w.size() > 3 || (w.size() == 3) != (d.numbers.size() == 1))
      refuse("an axis and the size of its blocks are expected");
    check_loop_name(nests, w[1]);
    if (w.size() == 2) return padded_copy(nests, w[0], w[1]);
    return padded_copy(nests, w[0], w[1], w[2], d.numbers[0]);
  case DirectiveKind::block_mask:
    check_loop_name(nests, w[1]);
    return block_mask(nests, w[0], w[1], std::span(w).subspan(2), d.numbers);
  case DirectiveKind::materialize:
    if (std::ranges::none_of(nests.cone.values, [&](const ConeValue& v) {
          return v.name == w[1] && v.role == ValueRole::output;
        }))
      check_loop_name(nests, w[1]);
    return materialize(nests, w[0], w[1]);
  case DirectiveKind::before: return move_before(nests, w[0], w[1]);
  case DirectiveKind::rolling: return rolling(nests, w[0]);
  case DirectiveKind::inline_: return inline_value(nests, w[0]);
  case DirectiveKind::fuse: return fuse(nests, w[0], w[1]);
  case DirectiveKind::cascade: return cascade(nests, w[0], w[1]);
  case DirectiveKind::split_reduction: return split_reduction(nests, d);
  case DirectiveKind::predicate_split: nests.predicate_splits.insert(w[0]); return;
  case DirectiveKind::predicate_bound:
    each_loop(nests, w[0], w[1], [&](StageId s, size_t) { nests.stages[s].bounds.insert(w[1]); });
    return;
  case DirectiveKind::prefetch: return prefetch(nests, d);
  case DirectiveKind::stream: {
    const ValueId v = nests.value(w[0]);
    if (nests.cone.values[v].role != ValueRole::output) refuse("{} is not an output of the kernel", w[0]);
    nests.streams.insert(v);
    return;
  }
  case DirectiveKind::unit:
  case DirectiveKind::unit_of_values:
    if (w.size() > 4) refuse("a dot instruction has two operands");
    for (size_t i = 2; i < w.size(); i++) check_loop_name(nests, w[i]);
    return use_unit(nests, w[0], w[1], std::span(w).subspan(2),
                    d.kind == DirectiveKind::unit ? WordsOf::reads : WordsOf::values);
  case DirectiveKind::matrix:
    check_loop_name(nests, w[1]);
    return matrix_copy(nests, w[0], w[1], d.numbers[0]);
  case DirectiveKind::segments:
    if (!d.numbers.empty() && d.numbers[0] != 1 && d.numbers[0] != 2) refuse("1 or 2 is expected");
    return segments(nests, w[0], w[1], d.numbers.empty() ? SegmentEnds::changes : SegmentEnds(d.numbers[0]));
  case DirectiveKind::split_at: return split_at(nests, w[0], w[1], d.numbers[0]);
  case DirectiveKind::operand: check_loop_name(nests, w[2]); return operand(nests, w[0], w[1], w[2]);
  case DirectiveKind::lanes: return distribute_over_lanes(nests, d);
  case DirectiveKind::group_copy: return group_copy(nests, d);
  case DirectiveKind::lane_unit: return use_lane_unit(nests, d);
  case DirectiveKind::from: LUMINAL_CHECK(false, "versions are lowered one by one"); return;
  case DirectiveKind::serial: return check_serial(d);
  case DirectiveKind::roles:
    if (d.numbers[0] < 1) refuse("a ring is at least 1 deep");
    each_loop(nests, w[0], w[1], [&](StageId, size_t) { nests.roles[w[1]] = int(d.numbers[0]); });
    return;
  }
}

const StageLoop* StageNest::find(std::string_view name) const {
  for (auto& l : loops)
    if (l.name == name) return &l;
  return nullptr;
}
StageLoop* StageNest::find(std::string_view name) {
  return const_cast<StageLoop*>(std::as_const(*this).find(name));
}

bool depends_on_loop(const StageNest& nest, Expr axis_symbol, const StageLoop& loop) {
  auto value = nest.axis_values.find(axis_symbol);
  return value != nest.axis_values.end() && loop.symbol.is_symbol() && depends_on(value->second, loop.symbol);
}

bool scans_in_lanes(const Stage& stage) {
  if (!stage.scan_axis || stage.scan_exclusive || !stage.monoid || stage.monoid->size() != 1) return false;
  const Component& part = stage.components[0];
  const bool combines = part.op == Op::add || part.op == Op::mul || part.op == Op::max || part.op == Op::min;
  return combines && bits(part.dtype) >= 8 && part.dtype != DType::boolean && stage.domain.is_constant(1) &&
         contains(part.axes, stage.scan_axis) && stage.monoid->components()[0].transform.is_leaf(0);
}

bool reduces(const Cone& cone, const Stage& stage, const StageNest& nest, const StageLoop& loop) {
  bool reduced = false, kept = false;
  for (AxisId a : stage.axes) {
    if (!depends_on_loop(nest, cone.axes[a].symbol, loop)) continue;
    bool out = a == stage.scan_axis;
    for (auto& c : stage.components)
      if (c.kind == ComponentKind::fold) out |= !contains(c.axes, a);
    (out ? reduced : kept) = true;
  }
  if (reduced && kept)
    refuse("stage {}: loop {} runs over reduced and other axes at once", stage.name, loop.name);
  return reduced;
}

Nests::Nests(Cone c) : cone(std::move(c)) {
  for (auto& s : cone.stages) stages.push_back(fresh(s));
  storage.resize(cone.values.size());
}

StageNest Nests::fresh(const Stage& s) const {
  StageNest nest;
  const auto open = [&](AxisId a) {
    auto& axis = cone.axes[a];
    nest.loops.push_back({axis.name, loop_symbol(axis.name, axis.extent), axis.extent});
    nest.axis_values[axis.symbol] = nest.loops.back().symbol;
  };
  for (AxisId a : s.axes) // a scan carries its state along the innermost loop
    if (a != s.scan_axis) open(a);
  if (s.scan_axis) open(s.scan_axis);
  return nest;
}

StageId Nests::stage(std::string_view name) const {
  for (const StageId i : cone.stages.ids())
    if (cone.stages[i].name == name) return i;
  refuse("there is no stage {}", name);
}

ValueId Nests::value(std::string_view name) const {
  for (const ValueId i : cone.values.ids())
    if (cone.values[i].name == name) return i;
  refuse("there is no value {}", name);
}

AxisId add_axis(Nests& nests, const std::string& name, Expr extent) {
  const std::string free = nests.free_name(name);
  return nests.cone.axes.add({free, extent, loop_symbol(free, extent)});
}

StageId Nests::insert_stage(StageId before, Stage s, StageNest nest) {
  cone.stages.insert(cone.stages.begin() + before.number(), std::move(s));
  stages.insert(stages.begin() + before.number(), std::move(nest));
  return before;
}

void Nests::erase_stage(StageId s) {
  cone.stages.erase(cone.stages.begin() + s.number());
  stages.erase(stages.begin() + s.number());
}

ValueId Nests::add_value(ConeValue v) {
  storage.emplace_back();
  return cone.values.add(std::move(v));
}

std::string Nests::free_name(const std::string& wish) const {
  auto taken = [&](const std::string& name) {
    for (auto& v : cone.values)
      if (v.name == name) return true;
    for (auto& a : cone.axes)
      if (a.name == name) return true;
    for (Expr s : cone.symbols)
      if (s.name() == name) return true;
    for (auto& h : cone.holes)
      if (h.symbol.name() == name) return true;
    for (auto& s : stages)
      if (s.find(name)) return true;
    return false;
  };
  std::string name = wish;
  for (int i = 2; taken(name); i++) name = wish + "_" + std::to_string(i);
  return name;
}

std::string Nests::free_stage_name(const std::string& wish) const {
  auto taken = [&](const std::string& name) {
    return std::ranges::any_of(cone.stages, [&](auto& s) { return s.name == name; });
  };
  std::string name = wish;
  for (int i = 2; taken(name); i++) name = wish + "_" + std::to_string(i);
  return name;
}

std::vector<StageId> Nests::readers(ValueId value) const {
  std::vector<StageId> out;
  for (const StageId s : cone.stages.ids()) {
    bool reads = false;
    const auto see = [&](const FormulaLoad& f) { reads |= f.value == value; };
    visit_loads(cone.stages[s], see);
    for (HoleId h : holes_of(cone, cone.stages[s])) visit_loads(cone.holes[h].value, see);
    if (reads) out.push_back(s);
  }
  return out;
}

StageId Nests::writer(ValueId value) const {
  for (StageId s = cone.stages.end_id(); --s;)
    for (auto& c : cone.stages[s].components)
      if (c.out == value) return s;
  return {};
}

Nests apply(const Cone& cone, const Schedule& schedule) {
  Nests nests(cone);
  for (auto& d : schedule.directives) {
    try {
      apply(nests, d);
    } catch (const ScheduleFailure& failure) {
      refuse("`{}`: {}", to_string(d), failure.text);
    }
  }
  return nests;
}

} // namespace luminal::kernel
