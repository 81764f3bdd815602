// schedule/lower_mask.cpp -- tiles that a block mask leaves out: a trip of the loop of a cascade under the
// condition that its block has elements that count.
#include "base/contains.h"
#include "schedule/lowering.h"
#include <algorithm>

namespace luminal::kernel {
/// The block mask of the cascade whose tiles are the trips of this loop.
const BlockMask* Lowering::mask_of(const TreeNode& node) const {
  const BlockMask* mask = nullptr;
  for (const BlockMask& m : n_.block_masks)
    if (m.cascade != 0 && first_leaf(node, [&](StageId s) {
          return n_.stages[s].cascade == m.cascade && n_.stages[s].together == node.loop;
        }))
      mask = &m;
  if (!mask) return nullptr;
  const StageId made = n_.writer(mask->any);
  if (leaf_of(made)->parent != root_.get() || made > node.stage)
    refuse("block_mask {}: stage {} is not finished before its tiles", mask->stage,
           n_.cone.stages[made].name);
  const auto within = [&](const TreeNode* level) {
    while (level && level != &node) level = level->parent;
    return level != nullptr;
  };
  const TreeNode* other = first_leaf(node, [&](StageId s) {
    const bool step = n_.stages[s].cascade == mask->cascade && n_.stages[s].together == node.loop;
    return !step && !std::ranges::all_of(n_.cone.stages[s].components, [&](const Component& c) {
      return !c.out || (n_.cone.values[c.out].role == ValueRole::interior && within(levels_[c.out]));
    });
  });
  if (other)
    refuse("block_mask {}: stage {} is not a part of its tiles", mask->stage,
           n_.cone.stages[other->stage].name);
  return mask;
}

Body Lowering::under_mask(const TreeNode& node, Body trip, Touched& touched) const {
  const BlockMask* mask = mask_of(node);
  if (!mask) return trip;
  const Place& place = places_[mask->any];
  std::vector<Expr> at;
  for (size_t d = 0; d < mask->index.size(); d++) at.push_back(mask->index[d] - place.base[d]);
  const Expr offset = layout_offset(place.layout, place.extents, at);
  for (Expr s : symbols_of(offset))
    if (!contains(kernel_.symbols, s) &&
        std::ranges::none_of(open_, [&](const OpenLoop& o) { return o.symbol == s; }))
      refuse("block_mask {}: a tile does not lie within a block", mask->stage);
  touched.reads.insert(place.buffer);
  return {let_index(mask->symbol, load_as(DType::i32, place.buffer, offset)),
          if_then(lt(0, mask->symbol), std::move(trip))};
}

} // namespace luminal::kernel
