// schedule/lower_lane_unit.cpp -- sums of products that neighbouring lanes compute together: fragments of the
// operands from the group's memory into registers, as the lane maps of the unit say, and its steps.
#include "base/contains.h"
#include "cone/formula.h"
#include "loop/unit.h"
#include "schedule/lowering.h"
#include <algorithm>

namespace luminal::kernel {
namespace {
/// The number of the unit's type that is made an f32 one.
FormulaRef widened(const FormulaRef& f, DType type) {
  const auto* cast = f->as<FormulaCast>();
  return cast && f->dtype == DType::f32 && cast->x->dtype == type ? cast->x : nullptr;
}
} // namespace

struct StageLowering::LaneProduct {
  Unit unit;
  Expr lane = 0;          // in the unit
  Expr place = 0;         // of a result, an unrolled loop
  Expr axes[3];           // symbols of the loops m, n, k
  FormulaRef operands[3]; // a and b, at 1 and 2
  StageNest nest;         // with m, n and k as they were
  BufferId fragments[3];
  Expr axis(char name) const { return axes[name == 'm' ? 0 : name == 'n' ? 1 : 2]; }
};

void StageLowering::find_lane_product(State& state) {
  const StageNest& nest = l_.n_.stages[stage_];
  auto p = std::make_shared<LaneProduct>();
  p->unit = *find_unit(nest.lane_unit->unit);
  const std::string* names[] = {&nest.lane_unit->m, &nest.lane_unit->n, &nest.lane_unit->k};
  for (int i = 0; i < 3; i++) {
    const StageLoop& loop = *nest.find(*names[i]);
    p->axes[i] = loop.symbol;
    if (!loop.symbol.is_symbol() || reduces(loop) != (i == 2))
      refuse("stage {}: loop {} is not one that {} runs along {}", s_.name, loop.name, p->unit.name,
             i == 2 ? "the sum" : "the results");
  }
  const auto varies = [&](const FormulaRef& f, Expr axis) {
    return std::ranges::any_of(index_exprs(f),
                               [&](Expr e) { return depends_on(substitute(e, nest.axis_values), axis); });
  };
  const Component* sum = nullptr;
  bool plain = s_.domain.is_constant(1);
  for (const Component& c : s_.components) {
    if (c.after) continue;
    plain = plain && !sum && c.kind == ComponentKind::fold && c.op == Op::add &&
            c.dtype == p->unit.accumulator.dtype && holes_of(l_.n_.cone, index_exprs(c.body)).empty();
    sum = &c;
  }
  const FormulaRef body = plain && sum ? sum->body : nullptr;
  if (body && applies(*body, Op::mul))
    for (int first : {0, 1}) {
      p->operands[1] = widened(args_of(*body)[size_t(first)], p->unit.a.dtype);
      p->operands[2] = widened(args_of(*body)[size_t(1 - first)], p->unit.b.dtype);
      if (p->operands[1] && p->operands[2] && !varies(p->operands[1], p->axes[1]) &&
          !varies(p->operands[2], p->axes[0])) {
        product_ = std::move(p);
        state.nest = nest;
        return;
      }
    }
  refuse("stage {} is not a sum of products that {} computes", s_.name, p->unit.name);
}

/// Lanes do not read the memory of the device inside of the sum.
void StageLowering::check_lane_product() const {
  for (int o : {1, 2})
    visit_loads(product_->operands[o], [&](const FormulaLoad& f) {
      if (std::ranges::none_of(tiles_, [&](auto& t) { return t.value == f.value && t.index == f.index; }))
        refuse("stage {}: {} reads copies, and {} is not copied", s_.name, product_->unit.name,
               l_.n_.cone.values[f.value].name);
    });
}

/// The loops m and n become the lane's places in the accumulator.
void StageLowering::lanes_of_results(State& state, Expr lane) {
  LaneProduct& p = *product_;
  p.nest = state.nest;
  p.lane = group_lanes_ == p.unit.lanes ? lane : mod(lane, p.unit.lanes);
  const LaneMap& map = p.unit.accumulator.map;
  p.place = Expr::symbol(l_.n_.free_name("place"), {0, map.places - 1});
  const ExprMap<Expr> here{{unit_lane(), p.lane}, {unit_place(), p.place}};
  const ExprMap<Expr> results{{p.axis('m'), substitute(map.first, here)},
                              {p.axis('n'), substitute(map.second, here)}};
  for (auto& [axis, value] : state.nest.axis_values) value = substitute(value, results);
  for (Guard& g : state.nest.guards) g.value = substitute(g.value, results);
  for (StageLoop& l : state.nest.loops)
    if (l.symbol == p.axis('m') || l.symbol == p.axis('n')) l.symbol = 0;
  StageLoop places;
  places.name = std::string(p.place.name());
  places.symbol = p.place;
  places.extent = map.places;
  places.kind = LoopKind::unrolled;
  state.nest.loops.push_back(places);
}

/// Fragments of both operands, then the unit for each pair of them.
Body StageLowering::unit_steps(const State& state) {
  LaneProduct& p = *product_;
  Body out;
  const auto tiles = [&](int operand) { // unrolled loops of results, outermost first
    std::vector<const StageLoop*> loops;
    for (size_t i : rest_) {
      const StageLoop& l = state.nest.loops[i];
      if (l.lane || !l.symbol.is_symbol() || l.symbol == p.place || state.opened.contains(l.symbol) ||
          reduces(l))
        continue;
      const bool varies = operand == 0 || std::ranges::any_of(index_exprs(p.operands[operand]), [&](Expr e) {
                            return depends_on(substitute(e, p.nest.axis_values), l.symbol);
                          });
      if (varies) loops.push_back(&l);
    }
    return loops;
  };
  const auto around = [](const std::vector<const StageLoop*>& loops, Body body) {
    for (size_t i = loops.size(); i-- > 0;)
      body = {kernel::loop(LoopKind::unrolled, loops[i]->symbol, 0, loops[i]->extent, std::move(body))};
    return body;
  };
  UnitOperand operands[3];
  operands[0] = {registers_[size_t(
                     std::ranges::find_if(s_.components,
                                          [](auto& c) { return !c.after && c.kind == ComponentKind::fold; }) -
                     s_.components.begin())],
                 substitute(accumulator_offset(state), {{p.place, 0}}),
                 {}};
  for (int o : {1, 2}) {
    const UnitOperandInfo& info = p.unit.operand(o);
    const int in_word = places_in_word(info, DType::u32);
    const int64_t words = info.map.places / in_word;
    const auto loops = tiles(o);
    Expr offset = 0;
    int64_t size = words;
    for (size_t i = loops.size(); i-- > 0;) {
      offset += loops[i]->symbol * size;
      size *= loops[i]->extent.value();
    }
    if (!p.fragments[o]) {
      Buffer b;
      b.name = s_.name + (o == 1 ? ".a" : ".b");
      b.space = Space::registers;
      b.access = Access::scratch;
      b.dtype = DType::u32;
      b.size = size;
      p.fragments[o] = add_buffer(l_.kernel_, std::move(b));
    }
    operands[o] = {p.fragments[o], offset, {}};
    Body body;
    for (int64_t w = 0; w < words; w++) append(body, fragment_word(state, o, w, offset));
    append(out, around(loops, std::move(body)));
  }
  append(out, around(tiles(0), {unit(p.unit.name, {operands[0], operands[1], operands[2]})}));
  return out;
}

/// Word `w` of an operand's fragment: the elements of several places.
Body StageLowering::fragment_word(const State& state, int operand, int64_t w, Expr offset) {
  LaneProduct& p = *product_;
  const UnitOperandInfo& info = p.unit.operand(operand);
  const int in_word = places_in_word(info, DType::u32);
  const FormulaRef& formula = p.operands[operand];
  Body body;
  std::vector<ValueRef> elements;
  const FormulaLoad* load = load_of(*formula);
  const bool plain = load && load->guard.is_constant(1);
  for (int i = 0; i < in_word; i++) {
    const ExprMap<Expr> here{{unit_lane(), p.lane}, {unit_place(), Expr(w * in_word + i)}};
    const ExprMap<Expr> at{{p.axis(info.axes[0]), substitute(info.map.first, here)},
                           {p.axis(info.axes[1]), substitute(info.map.second, here)}};
    State in = state;
    in.nest.axis_values = p.nest.axis_values;
    for (auto& [axis, value] : in.nest.axis_values) value = substitute(value, at);
    Values values{&body, &in, {}, {}, {}};
    count_uses(values, formula);
    ValueRef x = value_of(values, formula);
    // Copies hold zeros beyond the end of their value; elsewhere what lies behind the sum's end is 0 here.
    std::vector<Expr> inside;
    if (plain)
      for (size_t d = 0; d < load->index.size(); d++) {
        const Expr e = value_at(in, load->index[d]);
        inside.push_back(lt(e, l_.n_.cone.values[load->value].shape[d]));
      }
    for (size_t g = 0; g < p.nest.guards.size(); g++) {
      if (state.held[g] || !depends_on(p.nest.guards[g].value, p.axis('k'))) continue;
      const Expr holds = substitute(lt(p.nest.guards[g].value, p.nest.guards[g].limit), at);
      if (prove(holds, inside) == Truth::yes || prove(holds, l_.open_facts(holds)) == Truth::yes) continue;
      x = apply(Op::select, {index(holds, DType::boolean), x, constant(info.dtype, 0)});
    }
    elements.push_back(std::move(x));
  }
  // Neighbours that begin at a multiple are one load.
  const Load* first = elements[0]->as<Load>();
  bool neighbours = first && first->guard.is_constant(1) && first->offset.multiple() % in_word == 0;
  for (int i = 1; i < in_word && neighbours; i++) {
    const Load* other = elements[size_t(i)]->as<Load>();
    neighbours = other && other->buffer == first->buffer && other->guard.is_constant(1) &&
                 (other->offset - first->offset).is_constant(i);
  }
  ValueRef word;
  if (neighbours)
    word = load_as(DType::u32, first->buffer, first->offset);
  else
    for (int i = 0; i < in_word; i++) {
      ValueRef part =
          cast(DType::u32, bitcast(bits(info.dtype) == 16 ? DType::u16 : DType::u8, elements[size_t(i)]));
      if (i > 0) part = apply(Op::shl, {part, constant(DType::u32, i * bits(info.dtype))});
      word = word ? apply(Op::bit_or, {word, part}) : part;
    }
  body.push_back(store(p.fragments[operand], offset + w, word));
  return body;
}

} // namespace luminal::kernel
