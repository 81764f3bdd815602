// schedule/lower_places.cpp -- where the values of a kernel are stored: in which loop, how much of
// them, in which memory.
#include "base/contains.h"
#include "schedule/lowering.h"
#include <algorithm>

namespace luminal::kernel {

void Lowering::place_values(const TreeNode& node) {
  for (const ValueId v : n_.cone.values.ids()) {
    if (levels_[v] != &node) continue;
    const ConeValue& value = n_.cone.values[v];
    Place& place = places_[v];
    std::set<Expr, ExprLess> outer;
    for (auto& o : open_)
      if (o.symbol.is_symbol()) outer.insert(o.symbol);
    bool first = true;
    for (const StageId s : n_.cone.stages.ids())
      if (std::ranges::count(n_.cone.stages[s].components, v, &Component::out) > 0) {
        const std::vector<Region> written = regions(s, v, outer);
        for (size_t d = 0; d < value.shape.size(); d++) {
          auto [base, extent] = written[d];
          // The whole of it: what a tail adds is not stored, and rows keep one distance.
          if (base.is_constant(0) && prove(ge(extent, value.shape[d])) == Truth::yes) extent = value.shape[d];
          if (first) {
            place.base[d] = base;
            place.extents[d] = extent;
          } else {
            if (!proves_equal(place.base[d], base))
              refuse("{} is written at different places of {}", value.name,
                     node.loop.empty() ? "the kernel" : "loop " + node.loop);
            place.extents[d] = max(place.extents[d], extent);
          }
        }
        first = false;
      }
    Buffer& buffer = kernel_.buffers[place.buffer];
    Expr size = layout_size(place.layout, place.extents);
    for (Expr s : symbols_of(size))
      if (!contains(kernel_.symbols, s))
        refuse("the size of {} in loop {} is not constant: {}", value.name, node.loop,
               luminal::to_string(size));
    bool parallel = parallel_open();
    buffer.space = n_.storage[v].space.value_or(parallel ? Space::local : Space::shared);
    if (buffer.space == Space::shared && parallel)
      refuse("{} is stored in a parallel loop and cannot be shared by all workers", value.name);
    if (buffer.space == Space::local && !parallel) {
      // Fine only if no other worker needs it: everything that touches it would have to be outside
      // of parallel loops.
      refuse("{} is stored outside of parallel loops: every worker needs it, so it cannot be local",
             value.name);
    }
    auto role = n_.roles.find(node.loop);
    place.slot = 0;
    if (role != n_.roles.end() && role->second > 1 && !open_.empty() && open_.back().symbol.is_symbol()) {
      place.slot = mod(open_.back().symbol, role->second) * size;
      size = size * role->second;
    }
    buffer.size = size;
  }
}

bool Lowering::is_open(const std::string& loop) const {
  return std::ranges::any_of(open_, [&](auto& o) { return o.name == loop; });
}

std::vector<Expr> Lowering::open_facts(Expr e) const {
  std::vector<Expr> facts;
  for (const OpenLoop& o : open_) {
    if (!o.symbol.is_symbol() || !depends_on(e, o.symbol)) continue;
    facts.push_back(le(o.begin, o.symbol));
    facts.push_back(lt(o.symbol, o.end));
  }
  return facts;
}

bool Lowering::parallel_open() const {
  return std::ranges::any_of(open_, [](auto& o) { return o.parallel; });
}

} // namespace luminal::kernel
