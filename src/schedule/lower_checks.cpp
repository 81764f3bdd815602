// schedule/lower_checks.cpp -- which trees of loops are legal: turns of cascades, storage,
// unfinished folds, regions.
#include "base/check.h"
#include "base/contains.h"
#include "schedule/lowering.h"

namespace luminal::kernel {

namespace {

/// Loop symbols stand in an expression with a constant, non-negative factor, or not at all.
bool rises_linearly(Expr e, Expr symbol) {
  auto c = coefficient_of(e, symbol);
  return c && c->is_constant() && c->value() >= 0;
}

} // namespace

std::vector<TreeNode*> path_to(TreeNode* node) {
  std::vector<TreeNode*> path;
  for (; node; node = node->parent) path.insert(path.begin(), node);
  return path;
}

const TreeNode* first_leaf(const TreeNode& node, const std::function<bool(StageId)>& accept) {
  if (node.is_leaf()) return accept(node.stage) ? &node : nullptr;
  for (auto& kid : node.kids)
    if (auto* found = first_leaf(*kid, accept)) return found;
  return nullptr;
}

void Lowering::check_turns() {
  // The stages of a cascade take turns: all of them stand in the same loop.
  std::map<int, TreeNode*> turns;
  for (const StageId s : n_.stages.ids()) {
    const StageNest& nest = n_.stages[s];
    if (nest.together.empty()) continue;
    TreeNode* p = leaves_[s];
    while (p && p->loop != nest.together) p = p->parent;
    if (!p)
      refuse("stage {} must run in loop {}, as the other stages of its cascade do", n_.cone.stages[s].name,
             nest.together);
    auto [slot, fresh] = turns.try_emplace(nest.cascade, p);
    if (slot->second != p)
      refuse("stage {} must run in the same loop {} as the other stages of its cascade",
             n_.cone.stages[s].name, nest.together);
  }
  // Loops that hold several stages may not be parallel where one of them reduces along them.
  for (const StageId s : n_.stages.ids())
    for (TreeNode* p = leaves_[s]->parent; p->parent; p = p->parent) {
      const StageLoop* own = n_.stages[s].find(p->loop);
      if (!own || own->kind != LoopKind::parallel || !own->symbol.is_symbol()) continue;
      for (auto& c : n_.cone.stages[s].components)
        for (AxisId a : n_.cone.stages[s].axes)
          if (c.kind == ComponentKind::fold && !contains(c.axes, a) &&
              depends_on_loop(n_.stages[s], n_.cone.axes[a].symbol, *own))
            refuse("stage {}: loop {} is part of the reduction and cannot be parallel (split_reduction makes "
                   "independent parts)",
                   n_.cone.stages[s].name, own->name);
    }
}

void Lowering::check_level(ValueId value, TreeNode* level) {
  // Iterations of a parallel loop between the storage and its users may not share elements.
  const ConeValue& v = n_.cone.values[value];
  for (const StageId s : n_.cone.stages.ids())
    for (auto& c : n_.cone.stages[s].components) {
      if (c.out != value) continue;
      for (TreeNode* p = leaf_of(s)->parent; p && p != level; p = p->parent) {
        if (!p->parent) continue;
        const StageLoop* loop = n_.stages[p->stage].find(p->loop);
        if (loop->kind != LoopKind::parallel || !loop->symbol.is_symbol()) continue;
        const StageLoop* own = n_.stages[s].find(p->loop);
        bool separate = false;
        for (Expr e : c.index) {
          Expr at = substitute(e, n_.stages[s].axis_values);
          separate |= own && depends_on(at, own->symbol);
        }
        if (!separate)
          refuse("{} is stored outside of the parallel loop {}, whose iterations would share it", v.name,
                 p->loop);
      }
    }
}

/// Nobody reads a fold before it is finished.
void Lowering::check_finished(ValueId value) {
  for (const StageId w : n_.stages.ids())
    for (auto& c : n_.cone.stages[w].components) {
      if (c.out != value || c.kind != ComponentKind::fold) continue;
      for (StageId r : n_.readers(value)) {
        if (r == w) continue;
        auto mine = path_to(leaf_of(w)->parent), theirs = path_to(leaf_of(r)->parent);
        const StageNest& nest = n_.stages[w];
        const auto rolls = [&](const StageLoop& l) {
          return nest.rolling && depends_on_loop(nest, n_.cone.axes[nest.rolling].symbol, l);
        };
        for (const StageLoop& l : nest.loops)
          if (rolls(l) && std::ranges::none_of(
                              mine, [&](TreeNode* p) { return p->loop == l.name && contains(theirs, p); }))
            refuse("stage {} reads {} outside of the loop {} of stage {}", n_.cone.stages[r].name,
                   n_.cone.values[value].name, l.name, n_.cone.stages[w].name);
        // Inside of the loop that a cascade takes turns in its own stages read what is there so far.
        bool running = nest.together.empty() || n_.stages[r].cascade != nest.cascade;
        for (size_t i = 1; i < mine.size() && i < theirs.size() && mine[i] == theirs[i]; i++) {
          if (!running) {
            running = mine[i]->loop == nest.together;
            continue;
          }
          const StageLoop* l = nest.find(mine[i]->loop);
          if (l && l->symbol.is_symbol() && !rolls(*l) && reduces(n_.cone, n_.cone.stages[w], nest, *l))
            refuse("stage {} would read {} before the fold along {} is finished", n_.cone.stages[r].name,
                   n_.cone.values[value].name, l->name);
        }
      }
    }
}

Lowering::Region Lowering::region(StageId stage, const Component& c, size_t d,
                                  const std::set<Expr, ExprLess>& outer) const {
  const StageNest& nest = n_.stages[stage];
  Expr at = substitute(c.index[d], nest.axis_values);
  ExprMap<Expr> low, high;
  bool linear = true;
  for (auto& l : nest.loops) {
    if (!l.symbol.is_symbol() || outer.contains(l.symbol) || !depends_on(at, l.symbol)) continue;
    low[l.symbol] = 0;
    high[l.symbol] = l.extent.is_constant(0) ? Expr(0) : l.extent - 1;
    linear &= rises_linearly(at, l.symbol);
  }
  Expr base = substitute(at, low);
  if (linear) return {base, substitute(at, high) - base + 1};
  const ConeValue& value = n_.cone.values[c.out];
  if (base.is_constant(0)) return {base, value.shape[d]};
  Interval range = (at - base).range();
  if (!range.is_bounded() || range.low < 0)
    refuse("stage {}: {} has no bounded extent there", n_.cone.stages[stage].name, value.name);
  return {base, range.high + 1};
}

std::vector<Lowering::Region> Lowering::regions(StageId stage, ValueId value,
                                                const std::set<Expr, ExprLess>& outer) const {
  const Stage& writer = n_.cone.stages[stage];
  std::vector<Region> out;
  size_t components = 0, places = 1;
  for (size_t d = 0; d < n_.cone.values[value].shape.size(); d++) {
    std::set<int64_t> at; // constant places of single elements
    std::optional<Region> all;
    components = 0;
    for (const Component& c : writer.components) {
      if (c.out != value) continue;
      components++;
      const Region one = region(stage, c, d, outer);
      const bool element = one.base.is_constant() && one.extent.is_constant(1);
      if (element) at.insert(one.base.value());
      LUMINAL_CHECK(!all || element ||
                    (proves_equal(all->base, one.base) && proves_equal(all->extent, one.extent)));
      all = one;
    }
    LUMINAL_CHECK(all);
    if (at.size() > 1) {
      LUMINAL_CHECK(*at.rbegin() - *at.begin() + 1 == int64_t(at.size()));
      places *= at.size();
      all = Region{*at.begin(), int64_t(at.size())};
    }
    out.push_back(*all);
  }
  LUMINAL_CHECK(places == 1 || places == components, "{} is written in parts", n_.cone.values[value].name);
  return out;
}

/// What one trip of shared loops writes may not be asked for outside of that trip.
void Lowering::check_regions(ValueId value) {
  for (const StageId w : n_.stages.ids()) {
    const auto& parts = n_.cone.stages[w].components;
    if (std::ranges::any_of(
            parts, [&](const Component& c) { return c.out == value && c.kind != ComponentKind::update; })) {
      for (StageId r : n_.readers(value)) {
        if (r == w) continue;
        auto mine = path_to(leaf_of(w)->parent), theirs = path_to(leaf_of(r)->parent);
        std::set<Expr, ExprLess> shared;
        std::string inner;
        for (size_t i = 1; i < mine.size() && i < theirs.size() && mine[i] == theirs[i]; i++)
          if (const StageLoop* l = n_.stages[w].find(mine[i]->loop); l && l->symbol.is_symbol())
            shared.insert(l->symbol), inner = l->name;
        if (shared.empty()) continue;
        const StageNest& nest = n_.stages[r];
        std::vector<Expr> facts;
        for (auto& g : nest.guards) facts.push_back(lt(g.value, g.limit));
        const std::vector<Region> all = regions(w, value, shared);
        for (size_t d = 0; d < all.size(); d++) {
          const Region& written = all[d];
          if (written.base.is_constant(0) &&
              prove(ge(written.extent, n_.cone.values[value].shape[d])) == Truth::yes)
            continue;
          visit_loads(n_.cone.stages[r], [&](const FormulaLoad& f) {
            if (f.value != value) return;
            Expr at = substitute(f.index[d], nest.axis_values) - written.base;
            if (prove(ge(at, 0), facts) != Truth::yes || prove(lt(at, written.extent), facts) != Truth::yes)
              refuse("stage {} reads {} outside of what {} makes in one trip of {}", n_.cone.stages[r].name,
                     n_.cone.values[value].name, n_.cone.stages[w].name, inner);
          });
        }
      }
    }
  }
}

/// What other workers can see is written by one of them.
void Lowering::check_writers(StageId stage) const {
  const Stage& s = n_.cone.stages[stage];
  const StageNest& nest = n_.stages[stage];
  for (auto& c : s.components) {
    if (!c.out) continue;
    Space space = kernel_.buffers[places_[c.out].buffer].space;
    if (space != Space::global && space != Space::shared) continue;
    for (auto& o : open_)
      if (o.parallel && o.symbol.is_symbol() && !nest.find(o.name))
        refuse("stage {} writes {} in the parallel loop {}, which it does not have: all iterations would "
               "write it",
               s.name, n_.cone.values[c.out].name, o.name);
    if (c.kind == ComponentKind::update)
      for (auto& o : open_)
        if (o.symbol.is_symbol() && !nest.find(o.name))
          refuse("stage {} would update {} once for each trip of {}", s.name, n_.cone.values[c.out].name,
                 o.name);
  }
}

} // namespace luminal::kernel
