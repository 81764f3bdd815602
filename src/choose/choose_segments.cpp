// choose/choose_segments.cpp -- which axes of a map are cut into segments by default, and which loops
// the segments share.
#include "choose/default_scheduler.h"
#include "cone/formula.h"
#include <algorithm>

namespace luminal::kernel {

/// Along the lanes a cut takes selects, masks and gathers out of the loops; along another axis it
/// spares the parts of a choice that is not taken.
bool DefaultScheduler::worth_segments(StageId s, const ConeAxis& axis, bool conditions_only) const {
  const std::vector<int64_t> ends = segment_ends(stage(s), axis, conditions_only);
  int64_t largest = 0, least = ends.empty() ? 0 : ends[0], begin = 0;
  for (int64_t end : ends) {
    largest = std::max(largest, end - begin);
    least = std::min(least, end - begin);
    begin = end;
  }
  if (!conditions_only) return largest >= 2 * limits_.lanes || least >= limits_.lanes;
  bool chosen = false; // there is a choice that the segments decide
  visit_stage(stage(s), [&](const Formula& f) {
    const auto* index = f.as<FormulaIndex>();
    chosen |= index && f.dtype == DType::boolean && depends_on(index->value, axis.symbol);
  });
  return chosen && !ends.empty();
}

/// Elements that share much of what they are computed from (the results of a butterfly) are made
/// together, and what they share once.
bool DefaultScheduler::one_body(StageId s, const ConeAxis& axis, bool shares) {
  constexpr int64_t most_parts = 32;    // that differ
  constexpr double fewest_shared = 1.5; // operations of the parts one by one, for each of all parts together
  const auto parts = int64_t(segment_ends(stage(s), axis, true).size());
  if (parts < 2 || parts > most_parts) return false;
  const std::string name = stage(s).name;
  Attempt attempt = begin();
  if (!try_add(DirectiveKind::segments, {name, axis.name}, {2})) return false;
  std::set<const Formula*> nodes;
  double apart = 0, together = 0;
  for (const Component& c : stage(s).components)
    visit(c.body, [&](const Formula& f) {
      if (!is_operation(f)) return;
      apart++;
      together += nodes.insert(&f).second;
    });
  if ((!shares || (apart >= fewest_shared * together && together >= double(parts))) &&
      decisions_.ask_whether(name + "." + axis.name + ".one_body", true))
    return true;
  undo(std::move(attempt));
  return false;
}

/// Contiguous results: the lanes go along another axis, and each lane writes all of them.
/// That is where they share what they are computed from, and where deinterleaved() does not take them:
/// there are more of them than lanes, or the other axis is read in longer steps, too (parts of complex
/// numbers).
bool DefaultScheduler::rows_in_one_body(StageId s, const ConeAxis& axis) {
  Attempt attempt = begin();
  if (!worth_segments(s, axis, true)) return false;
  const bool shares = one_body(s, axis);
  if (!shares && !one_body(s, axis, false)) return false;
  const bool many = axis.extent.is_constant() && axis.extent.value() > limits_.lanes;
  for (const StageLoop& l : nest(s).loops) {
    if (!l.symbol.is_symbol() || trips(l) < limits_.lanes / 2) continue;
    const AxisUse use = use_along(nests_, s, l.symbol);
    if (use.rows && use.strided + use.irregular == 0 && use.contiguous + use.near > 0 &&
        (shares || many || use.contiguous == 0))
      return true;
  }
  undo(std::move(attempt));
  return false;
}

/// Is a result of the stage contiguous along the axis?
bool DefaultScheduler::lies_along(StageId s, const ConeAxis& axis) const {
  return std::ranges::any_of(stage(s).components, [&](const Component& c) {
    return c.out && step_of(nests_.cone, c.out, c.index, axis.symbol) == Step::contiguous;
  });
}

/// Of several stages none is cut into segments with loops of their own, which others could not join; elements
/// of a map are made together all the same.
void DefaultScheduler::elements_in_one_body() {
  for (const StageId s : nests_.cone.stages.ids()) {
    const Stage& map = stage(s);
    if (std::ranges::any_of(map.components, [](auto& c) { return c.kind != ComponentKind::map; })) continue;
    for (const AxisId a : std::vector<AxisId>(map.axes))
      if (const ConeAxis axis = axis_at(a);
          !lies_along(s, axis) && worth_segments(s, axis, true) && one_body(s, axis))
        break;
  }
}

void DefaultScheduler::cut_into_segments() {
  if (nests_.cone.stages.size() != 1) return elements_in_one_body();
  if (stage(first_stage).components.empty()) return;
  // From the outermost axis on; what lies inside of a cut that has loops around it stays whole, so
  // that all segments share those.
  const std::vector<AxisId> axes = stage(first_stage).axes;
  bool first = true;
  for (size_t a = 0; a < axes.size(); a++) {
    const ConeAxis axis = axis_at(axes[a]);
    for (StageId s(0); s < nests_.cone.stages.end_id(); s++) {
      const bool lanes = lies_along(s, axis);
      if (first && lanes && rows_in_one_body(s, axis)) continue;
      if (!worth_segments(s, axis, !lanes)) continue;
      const std::string name = stage(s).name;
      std::vector<std::string> around;
      for (auto& l : nest(s).loops) {
        if (l.name == axis.name) break;
        if (l.symbol.is_symbol()) around.push_back(l.name);
      }
      if (!first && (around.empty() || !piece_loops_.at(name).empty())) continue;
      if (first && !lanes && one_body(s, axis)) continue;
      if (!decisions_.ask_whether(name + "." + axis.name + ".segments", true)) continue;
      const size_t before = nests_.cone.stages.size();
      if (!try_add(DirectiveKind::segments, {name, axis.name},
                   lanes ? std::vector<int64_t>{} : std::vector<int64_t>{1}))
        continue;
      const size_t made = nests_.cone.stages.size() - before + 1;
      for (size_t p = 0; p < made; p++) {
        const std::string piece = stage(s + int(p)).name;
        piece_loops_[piece] = around;
        if (p > 0 && !around.empty()) joined_.insert(piece);
      }
      s += int(made) - 1;
    }
    first = piece_loops_.empty();
  }
}

} // namespace luminal::kernel
