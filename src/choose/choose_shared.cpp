// choose/choose_shared.cpp -- maps whose neighbouring elements share most of what they compute, such as
// the four words of one block of random numbers: which loops they get.
#include "base/contains.h"
#include "choose/default_scheduler.h"
#include "cone/formula.h"
#include <algorithm>
#include <unordered_set>

namespace luminal::kernel {
namespace {

/// Operations and casts that do not vary with the element within its block, but with the block.
int64_t shared_operations(const Stage& stage, const StageNest& nest, Expr part, Expr block) {
  std::unordered_set<const Formula*> of_part, of_block; // what varies
  int64_t shared = 0;
  visit_stage(stage, [&](const Formula& f) {
    bool by_part = false, by_block = false;
    for (const FormulaRef& arg : args_of(f)) {
      by_part |= of_part.contains(arg.get());
      by_block |= of_block.contains(arg.get());
    }
    for (const Expr e : over_loops(nest, {index_of(f).begin(), index_of(f).end()})) {
      by_part |= depends_on(e, part);
      by_block |= depends_on(e, block);
    }
    if (by_part) of_part.insert(&f);
    if (by_block) of_block.insert(&f);
    shared += by_block && !by_part && !args_of(f).empty();
  });
  return shared;
}

} // namespace

/// The lanes go along the blocks, each element of them is written out, and what they share is computed once
/// for as many blocks as there are lanes. What is read and written is exchanged in registers.
bool DefaultScheduler::blocks_in_lanes(StageId s, const std::vector<std::string>& common) {
  constexpr int64_t most_parts = 4;     // beyond that the exchange takes long
  constexpr int64_t fewest_shared = 24; // operations; fewer are cheap for each element, too
  const Stage& st = stage(s);
  if (!common.empty() || has_fold(st) || st.scan_axis || !st.ordered.empty() || st.segment_group > 0)
    return false;
  const auto suits = [&](const StageLoop& part, const StageLoop& block) {
    bool fits = true;
    const auto step = [&](ValueId value, const std::vector<Expr>& index, const StageLoop& l, int64_t width) {
      return step_of(nests_.cone, value, over_loops(nest(s), index), l.symbol, width);
    };
    for (const Component& c : st.components)
      fits &= c.out && bits(value_at(c.out).dtype) == 32 &&
              step(c.out, c.index, part, 1) == Step::contiguous &&
              step(c.out, c.index, block, trips(part)) == Step::contiguous;
    visit_loads(st, [&](const FormulaLoad& f, DType dtype) {
      const Step near = step(f.value, f.index, part, 1), far = step(f.value, f.index, block, trips(part));
      fits &= (near == Step::none && far == Step::none) ||
              (bits(dtype) == 32 && near == Step::contiguous && far == Step::contiguous);
    });
    return fits;
  };
  const StageLoop *part = nullptr, *block = nullptr;
  for (const StageLoop& p : nest(s).loops)
    for (const StageLoop& b : nest(s).loops)
      if (&p != &b && p.symbol.is_symbol() && b.symbol.is_symbol() && p.extent.is_constant() &&
          p.extent.value() <= most_parts && std::has_single_bit(uint64_t(p.extent.value())) &&
          trips(b) >= limits_.lanes && suits(p, b))
        part = &p, block = &b;
  if (!part || shared_operations(st, nest(s), part->symbol, block->symbol) < fewest_shared ||
      !ask(s, "blocks_in_lanes", 1, {0, 1}))
    return false;
  const std::string name = st.name, elements = part->name, lanes = split_lanes(s, std::string(block->name));
  std::vector<std::string> order{name};
  for (const StageLoop& l : nest(s).loops)
    if (l.name != elements && l.name != lanes) order.push_back(l.name);
  order.insert(order.end(), {elements, lanes});
  add(DirectiveKind::order, order);
  add(DirectiveKind::unroll, {name, elements});
  add(DirectiveKind::vector, {name, lanes});
  for (const StageLoop& l : nest(s).loops)
    if (l.symbol.is_symbol() && trips(l) > 1 && l.name != elements && l.name != lanes) {
      add(DirectiveKind::parallel, {name, std::string(l.name)});
      break;
    }
  return true;
}

} // namespace luminal::kernel
