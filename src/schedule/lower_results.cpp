// schedule/lower_results.cpp -- finished folds of a stage: their results, and the maps on them.
#include "schedule/lowering.h"
#include <algorithm>

namespace luminal::kernel {

bool reads_component(const FormulaRef& formula, int number) {
  bool reads = false;
  visit(formula, [&](const Formula& f) {
    const auto* part = f.as<FormulaComponent>();
    reads |= part && part->number == number;
  });
  return reads;
}

/// The maps on results that are finished.
void StageLowering::epilogue(Values& values, const State& state) {
  for (size_t i = 0; i < s_.components.size(); i++) {
    const Component& c = s_.components[i];
    if (!c.after) continue;
    ValueRef v = value_of(values, c.body);
    for (size_t j = i + 1; j < s_.components.size(); j++)
      if (reads_component(s_.components[j].body, int(i))) v = named(values, v);
    values.components[i] = v;
    if (c.out) values.body->push_back(store(l_.places_[c.out].buffer, offset_of(state, c.out, c.index), v));
  }
}

Body StageLowering::results(State& state) {
  Body body;
  Values values{&body, &state, {}, {}, std::vector<ValueRef>(s_.components.size())};
  for (auto& c : s_.components) {
    if (c.after) count_uses(values, c.body);
    if (c.init) count_uses(values, c.init);
  }
  const bool after = std::ranges::any_of(s_.components, &Component::after);
  bool combined = partial_ || across_ || (anew_ && !carried_.empty());
  Expr first = 1, last = 1;
  for (auto& [symbol, range] : carried_) {
    first = logical_and(first, eq(symbol, range.first));
    last = logical_and(last, eq(symbol, range.second - 1));
  }
  for (size_t i = 0; i < s_.components.size(); i++) {
    const Component& c = s_.components[i];
    if (!registers_[i] || c.kind == ComponentKind::scan) continue; // points of a scan store their own
    ValueRef v;
    if (partial_) {
      // All places of the unrolled reduction loops, in pairs.
      std::vector<int64_t> trips, at;
      for (size_t p = cut_; p < rest_.size(); p++) {
        const StageLoop& l = l_.n_.stages[stage_].loops[rest_[p]];
        if (strides_[rest_[p]] != 0 && l.kind == LoopKind::unrolled && reduces(l))
          trips.push_back(l.extent.value());
      }
      at.assign(trips.size(), 0);
      std::vector<ValueRef> parts;
      for (bool more = true; more;) {
        parts.push_back(load(l_.kernel_, registers_[i], accumulator_offset(state, &at)));
        more = false;
        for (size_t d = trips.size(); d-- > 0 && !more;) {
          more = ++at[d] < trips[d];
          if (!more) at[d] = 0;
        }
      }
      while (parts.size() > 1) {
        std::vector<ValueRef> next;
        for (size_t p = 0; p + 1 < parts.size(); p += 2)
          next.push_back(apply(c.op, {parts[p], parts[p + 1]}));
        if (parts.size() % 2) next.push_back(parts.back());
        parts = std::move(next);
      }
      v = parts[0];
    } else {
      v = accumulator(state, i);
    }
    if (across_) v = reduce_lanes(c.op, v);
    if (combined && c.init && carried_.empty()) v = apply(c.op, {value_of(values, c.init), v});
    BufferId buffer = c.out ? l_.places_[c.out].buffer : BufferId();
    if (combined && !carried_.empty()) {
      Expr offset = offset_of(state, c.out, c.index);
      v = named(values, v);
      ValueRef begin = c.init ? apply(c.op, {value_of(values, c.init), v}) : v;
      body.push_back(if_then(first, {store(buffer, offset, begin)},
                             {store(buffer, offset, apply(c.op, {load(l_.kernel_, buffer, offset), v}))}));
      values.components[i] = load(l_.kernel_, buffer, offset);
      continue;
    }
    if (after) v = named(values, v);
    values.components[i] = v;
    if (c.out) body.push_back(store(buffer, offset_of(state, c.out, c.index), v));
  }
  if (!after) return body;
  Body maps;
  values.body = &maps;
  epilogue(values, state);
  if (carried_.empty())
    append(body, std::move(maps));
  else
    body.push_back(if_then(last, std::move(maps)));
  return body;
}

} // namespace luminal::kernel
