// schedule/lower.cpp -- nests to loop IR: the tree of shared loops, where values live, barriers,
// the loops themselves.
#include "schedule/lower.h"
#include "base/check.h"
#include "base/contains.h"
#include "schedule/lowering.h"
#include <algorithm>

namespace luminal::kernel {
Lowering::Lowering(Nests nests, const LowerOptions& options, IdVector<StageId, Lanes> lanes)
    : n_(std::move(nests)), options_(options), lanes_(std::move(lanes)) {
  lanes_.resize(n_.stages.size(), Lanes::masked);
  lane_uses_.resize(n_.stages.size());
  kernel_.name = n_.cone.name;
  kernel_.lanes = options.lanes;
  kernel_.symbols = n_.cone.symbols;
  places_.resize(n_.cone.values.size());
  levels_.resize(n_.cone.values.size(), nullptr);
  for (bool global : {true, false})
    for (const ValueId v : n_.cone.values.ids()) {
      const ConeValue& value = n_.cone.values[v];
      if ((value.role != ValueRole::interior) != global) continue;
      Place& place = places_[v];
      place.layout = value.layout.empty() ? row_major(int(value.shape.size())) : value.layout;
      place.base.assign(value.shape.size(), 0);
      place.extents = value.shape;
      if (!global && !n_.writer(v)) continue; // inlined or fused away
      Buffer buffer;
      buffer.name = value.name;
      buffer.dtype = value.dtype;
      buffer.size = layout_size(place.layout, place.extents);
      buffer.access = value.role == ValueRole::input    ? Access::in
                      : value.role == ValueRole::output ? Access::out
                      : value.role == ValueRole::inout  ? Access::inout
                                                        : Access::scratch;
      buffer.space = global ? Space::global : Space::local;
      if (!global) buffer.alignment = 64;
      buffer.streaming = n_.streams.contains(v);
      place.buffer = add_buffer(kernel_, std::move(buffer));
    }
}

// ---- the tree of loops: each stage joins the nest that is open at its level ----

void Lowering::build_tree() {
  root_ = std::make_unique<TreeNode>();
  leaves_.assign(n_.stages.size(), nullptr);
  std::set<std::string> levels;
  std::ranges::copy_if(n_.predicate_splits, std::inserter(levels, levels.end()),
                       [&](const std::string& loop) { return splits_level(loop); });
  for (auto& storage : n_.storage)
    if (storage.level) levels.insert(*storage.level);
  for (auto& [loop, depth] : n_.roles) levels.insert(loop);
  std::vector<TreeNode*> path{root_.get()};
  for (const StageId s : n_.stages.ids()) {
    const StageNest& nest = n_.stages[s];
    const std::string& name = n_.cone.stages[s].name;
    if (nest.at.empty()) {
      path.resize(1);
    } else {
      auto found = std::ranges::find_if(path, [&](TreeNode* p) { return p->loop == nest.at; });
      if (found == path.end()) refuse("stage {}: loop {} is not open before it", name, nest.at);
      path.erase(found + 1, path.end());
    }
    size_t d = 0;
    for (size_t i = 1; i < path.size(); i++) { // loops that the stage does not have are joined too
      const StageLoop* own = nest.find(path[i]->loop);
      if (!own) continue;
      const StageLoop* shared = n_.stages[path[i]->stage].find(path[i]->loop);
      if (nest.loops[d].name != own->name)
        refuse("stage {}: its order does not begin with the loops that it joins ({} comes before {})", name,
               nest.loops[d].name, own->name);
      if (own->symbol != shared->symbol || own->extent != shared->extent || own->kind != shared->kind)
        refuse("stage {}: loop {} is not the loop of that name of stage {}", name, own->name,
               n_.cone.stages[path[i]->stage].name);
      d++;
    }
    // Loops that later stages of this nest join, that hold storage, or that are split, are shared.
    std::set<std::string> joined = levels;
    for (StageId t = s + 1; t < n_.stages.end_id() && !n_.stages[t].at.empty(); t++)
      joined.insert(n_.stages[t].at);
    size_t last = d;
    for (size_t i = d; i < nest.loops.size(); i++) {
      if (nest.loops[i].kind == LoopKind::vector || nest.loops[i].kind == LoopKind::unrolled) break;
      if (joined.contains(nest.loops[i].name)) last = i + 1;
    }
    for (; d < last; d++) {
      auto node = std::make_unique<TreeNode>();
      node->loop = nest.loops[d].name;
      node->stage = s;
      node->parent = path.back();
      path.back()->kids.push_back(std::move(node));
      path.push_back(path.back()->kids.back().get());
    }
    auto leaf = std::make_unique<TreeNode>();
    leaf->stage = s;
    leaf->parent = path.back();
    leaves_[s] = leaf.get();
    path.back()->kids.push_back(std::move(leaf));
  }
  check_turns();
}

void Lowering::choose_levels() {
  for (const ValueId v : n_.cone.values.ids()) {
    if (n_.cone.values[v].role != ValueRole::interior || !places_[v].buffer) continue;
    std::vector<StageId> users = n_.readers(v);
    for (const StageId s : n_.cone.stages.ids())
      for (auto& c : n_.cone.stages[s].components)
        if (c.out == v) users.push_back(s);
    std::vector<TreeNode*> common = path_to(leaf_of(users[0])->parent);
    for (StageId u : users) {
      auto path = path_to(leaf_of(u)->parent);
      size_t same = 0;
      while (same < common.size() && same < path.size() && common[same] == path[same]) same++;
      common.resize(same);
    }
    // A fold that goes on in an open loop keeps its result outside of that loop.
    for (StageId u : users)
      for (auto& c : n_.cone.stages[u].components) {
        if (c.out != v || c.kind == ComponentKind::map) continue;
        for (size_t i = 1; i < common.size(); i++) {
          const StageLoop* loop = n_.stages[u].find(common[i]->loop);
          if (!loop || !loop->symbol.is_symbol()) continue;
          bool own = false, other = false;
          for (AxisId a : n_.cone.stages[u].axes) {
            if (!depends_on_loop(n_.stages[u], n_.cone.axes[a].symbol, *loop)) continue;
            bool kept = contains(c.axes, a);
            (kept ? own : other) = true;
          }
          if (other && !own) {
            common.resize(i);
            break;
          }
        }
      }
    TreeNode* level = common.back();
    if (auto& wish = n_.storage[v].level) {
      auto found =
          std::ranges::find_if(common, [&](TreeNode* p) { return *wish == (p->parent ? p->loop : "root"); });
      if (found == common.end())
        refuse("{} cannot be stored in loop {}: it is written or read outside of it", n_.cone.values[v].name,
               *wish);
      level = *found;
    }
    levels_[v] = level;
    check_level(v, level);
  }
  for (const ValueId v : n_.cone.values.ids()) {
    if (n_.cone.values[v].role == ValueRole::input || !places_[v].buffer) continue;
    check_finished(v);
    check_regions(v);
  }
}

// ---- walking ----

void Lowering::touch(const Stage& stage, Touched& touched) const {
  auto shared = [&](ValueId v) {
    Space space = kernel_.buffers[places_[v].buffer].space;
    return space == Space::global || space == Space::shared;
  };
  auto read = [&](const FormulaLoad& f) {
    if (shared(f.value)) touched.reads.insert(places_[f.value].buffer);
  };
  visit_loads(stage, read);
  for (HoleId h : holes_of(n_.cone, stage)) visit_loads(n_.cone.holes[h].value, read);
  for (auto& c : stage.components)
    if (c.out && shared(c.out)) touched.write(places_[c.out].buffer, stage.segment_group);
}

namespace {
bool conflict(const Touched& before, const Touched& now) {
  for (auto [b, segments] : now.writes) {
    if (before.reads.contains(b)) return true;
    const auto other = before.writes.find(b);
    if (other != before.writes.end() && (segments == 0 || other->second != segments)) return true;
  }
  for (BufferId b : now.reads)
    if (before.writes.contains(b)) return true;
  return false;
}
} // namespace

Body Lowering::emit_children(const TreeNode& node, bool in_parallel, Touched& touched) {
  place_values(node);
  Body body;
  Touched since; // the last barrier
  for (auto& kid : node.kids) {
    Touched part;
    Body statements = emit_node(*kid, in_parallel, part);
    if (!in_parallel && conflict(since, part)) {
      body.push_back(barrier());
      since = {};
    }
    body.insert(body.end(), statements.begin(), statements.end());
    since.add(part);
    touched.add(part);
  }
  return body;
}

Body Lowering::emit_node(const TreeNode& node, bool in_parallel, Touched& touched) {
  return node.is_leaf() ? emit_leaf(node.stage, in_parallel, touched) : emit_loop(node, in_parallel, touched);
}

/// Do the trips of a serial loop outside of parallel ones touch the same memory?
bool Lowering::carries(const TreeNode& node, const StageLoop& loop, const Touched& touched) const {
  bool carried = false;
  std::function<void(const TreeNode&)> walk = [&](const TreeNode& n) {
    for (auto& kid : n.kids) walk(*kid);
    if (!n.is_leaf()) return;
    const StageNest& nest = n_.stages[n.stage];
    for (auto& c : n_.cone.stages[n.stage].components) {
      if (!c.out || !touched.writes.contains(places_[c.out].buffer)) continue;
      bool separate = false;
      bool relived = false; // its storage starts anew in each trip: the same memory
      for (const TreeNode* p = levels_[c.out]; p; p = p->parent) relived |= p == &node;
      for (Expr e : c.index)
        for (auto& l : nest.loops)
          separate |= l.name == loop.name && l.symbol.is_symbol() &&
                      depends_on(substitute(e, nest.axis_values), l.symbol);
      carried |= relived || !separate;
    }
  };
  walk(node);
  return carried;
}

Body Lowering::emit_loop(const TreeNode& node, bool in_parallel, Touched& touched) {
  const StageNest& nest = n_.stages[node.stage];
  StageLoop loop = *nest.find(node.loop);
  if (!loop.symbol.is_symbol()) { // one trip
    open_.push_back({loop.name, loop.symbol, 0, 1, 1, loop.kind == LoopKind::parallel, {}});
    bool wrap = loop.kind == LoopKind::parallel && !in_parallel;
    Body body = emit_children(node, in_parallel || wrap, touched);
    open_.pop_back();
    if (wrap) return {parallel_loop(Expr::symbol(loop.name, {0, 0}), 0, 1, std::move(body), loop.level)};
    return body;
  }
  // The loop ends where all of its stages end; where they differ it runs on, and each stage sees to
  // itself.
  std::optional<Bounds> common;
  bool differ = false;
  std::function<void(const TreeNode&)> walk = [&](const TreeNode& t) {
    for (auto& kid : t.kids) walk(*kid);
    if (!t.is_leaf()) return;
    const StageNest& own = n_.stages[t.stage];
    const StageLoop* l = own.find(loop.name);
    if (!l) return;
    Bounds b = bounds(n_.cone.stages[t.stage], own, *l);
    if (!common)
      common = b;
    else if (common->end != b.end)
      differ = true;
    else
      common->enforced.insert(common->enforced.end(), b.enforced.begin(), b.enforced.end());
  };
  walk(node);
  Bounds whole = differ ? Bounds{0, loop.extent, {}} : *common;
  bool parallel = loop.kind == LoopKind::parallel;
  for (auto& o : open_)
    if (parallel && o.parallel && o.level >= loop.level)
      refuse("parallel loops of one level stand inside each other: {} in {}", loop.name, o.name);
  auto part = [&](Expr begin, Expr end) -> StmtRef {
    open_.push_back({loop.name, loop.symbol, begin, end, loop.extent, parallel, whole.enforced, loop.level});
    Touched inside;
    Body body = emit_children(node, in_parallel || parallel, inside);
    body = under_mask(node, std::move(body), inside);
    if (!in_parallel && !parallel && carries(node, loop, inside)) body.push_back(barrier());
    touched.add(inside);
    open_.pop_back();
    auto role = n_.roles.find(loop.name);
    if (role != n_.roles.end() && !parallel) {
      if (mask_of(node)) refuse("roles {}: its trips stand under a block mask", loop.name);
      // The copies that the other stages read are made by the producers.
      size_t producers = 0;
      for (auto& kid : node.kids) {
        bool copy = kid->is_leaf() && n_.cone.stages[kid->stage].components.size() == 1 &&
                    n_.cone.stages[kid->stage].components[0].kind == ComponentKind::map &&
                    n_.cone.stages[kid->stage].components[0].body->is<FormulaLoad>();
        if (!copy) break;
        producers++;
      }
      if (producers == 0 || producers == node.kids.size())
        refuse("roles {}: the loop does not begin with copies that other stages read", loop.name);
      open_.push_back(
          {loop.name, loop.symbol, begin, end, loop.extent, parallel, whole.enforced, loop.level});
      Body made, used;
      for (size_t k = 0; k < node.kids.size(); k++) {
        Touched t;
        Body statements = emit_node(*node.kids[k], in_parallel, t);
        Body& to = k < producers ? made : used;
        to.insert(to.end(), statements.begin(), statements.end());
      }
      open_.pop_back();
      return roles(loop.symbol, begin, end, role->second, std::move(made), std::move(used));
    }
    if (parallel) return parallel_loop(loop.symbol, begin, end, std::move(body), loop.level);
    if (loop.jam > 1) return jammed_loop(loop.symbol, begin, end, loop.jam, std::move(body));
    return kernel::loop(LoopKind::serial, loop.symbol, begin, end, std::move(body));
  };
  if (!n_.predicate_splits.contains(loop.name)) return {part(whole.begin, whole.end)};
  auto leaf = first_leaf(
      node, [&](StageId s) { return n_.stages[s].find(loop.name) && domain_range(s, n_.stages[s], loop); });
  if (!leaf) refuse("predicate_split {}: no stage in it has a domain that ends along it", loop.name);
  auto r = *domain_range(leaf->stage, n_.stages[leaf->stage], loop);
  // Results that a tile stores whatever the domain hides are stored in empty ones, too.
  const bool stored = bool(first_leaf(node, [&](StageId s) {
    const auto writes = [&](const Component& c) { return n_.cone.values[c.out].role == ValueRole::output; };
    return n_.stages[s].find(loop.name) && !domain_range(s, n_.stages[s], loop) &&
           std::ranges::any_of(n_.cone.stages[s].components, writes);
  }));
  if (stored) r.some_begin = whole.begin, r.some_end = whole.end;
  // Empty tiles are left out, the others are partial, full, partial.
  Expr some_begin = begin_within(max(whole.begin, r.some_begin), loop.extent),
       some_end = max(some_begin, min(whole.end, r.some_end));
  Expr all_begin = min(some_end, max(some_begin, r.all_begin)),
       all_end = max(all_begin, min(some_end, r.all_end));
  auto whole_part = [&](auto emit) {
    const Assumed before = assumed_;
    assumed_.yes.insert(r.conditions.begin(), r.conditions.end());
    emit();
    assumed_ = before;
  };
  if (in_parallel && !parallel && loop.jam == 1 && !n_.roles.contains(loop.name)) {
    OpenLoop open{loop.name,   loop.symbol, some_begin,     some_end,
                  loop.extent, false,       whole.enforced, loop.level};
    return {kernel::loop(LoopKind::serial, loop.symbol, some_begin, some_end,
                         emit_parts(node, open, all_begin, all_end, whole_part, touched))};
  }
  Body out;
  if (prove(ge(some_begin, all_begin)) != Truth::yes) out.push_back(part(some_begin, all_begin));
  whole_part([&] { out.push_back(part(all_begin, all_end)); });
  out.push_back(part(all_end, some_end));
  return out;
}

Body Lowering::emit_leaf(StageId stage, bool in_parallel, Touched& touched) {
  const Stage& s = n_.cone.stages[stage];
  const StageNest& nest = n_.stages[stage];
  check_writers(stage);
  touch(s, touched);
  bool parallel_inside = false;
  for (auto& l : nest.loops)
    parallel_inside |= l.kind == LoopKind::parallel && l.symbol.is_symbol() && !is_open(l.name);
  if (in_parallel || parallel_inside) return StageLowering(*this, stage).run();
  open_.push_back({"", 0, 0, 1, 1, true, {}});
  Body body = StageLowering(*this, stage).run();
  open_.pop_back();
  return {parallel_loop(Expr::symbol(n_.free_name("one"), {0, 0}), 0, 1, std::move(body))};
}

void Lowering::arrange() {
  build_tree();
  choose_levels();
}

Kernel Lowering::run() {
  arrange();
  Touched touched;
  kernel_.body = emit_children(*root_, false, touched);
  // Interior values that no stage keeps in memory take no buffer.
  return std::move(kernel_);
}

} // namespace luminal::kernel
