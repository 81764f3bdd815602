// choose/choose_transforms.cpp -- kernels whose folds multiply short vectors with constant matrices,
// entries of which are expressions of a reduced and a kept axis (transforms of windows): all results
// of a point are made in one body, where each entry is known.
#include "base/contains.h"
#include "choose/default_scheduler.h"
#include "cone/formula.h"
#include <algorithm>
#include <bit>

namespace luminal::kernel {
namespace {

constexpr int64_t most_entries = 8; // along each side of a matrix

bool is_short(const ConeAxis& axis) {
  return axis.extent.is_constant() && axis.extent.value() > 1 && axis.extent.value() <= most_entries;
}

} // namespace

/// The kept axis of the matrix that a fold multiplies with; none: it is not such a fold.
AxisId DefaultScheduler::matrix_axis(StageId s) const {
  const Stage& st = stage(s);
  if (st.monoid || st.components.size() != 1 || st.components[0].kind != ComponentKind::fold ||
      st.components[0].op != Op::add || st.components[0].init)
    return {};
  AxisId reduced, kept;
  for (AxisId a : st.axes) {
    if (contains(st.components[0].axes, a)) continue;
    if (reduced || !is_short(axis_at(a))) return {};
    reduced = a;
  }
  if (!reduced) return {};
  visit(st.components[0].body, [&](const Formula& f) {
    const auto* index = f.as<FormulaIndex>();
    if (!index || f.dtype == DType::boolean || !depends_on(index->value, axis_at(reduced).symbol)) return;
    for (AxisId a : st.components[0].axes)
      if (is_short(axis_at(a)) && depends_on(index->value, axis_at(a).symbol)) kept = a;
  });
  return kept;
}

/// Copies of what they read through windows, one stage for all of them, then maps of its results. False: the
/// kernel is something else, and nothing has changed.
bool DefaultScheduler::transforms() {
  const size_t folds = size_t(std::ranges::count_if(nests_.cone.stages, [](const Stage& st) {
    return has_fold(st) || st.scan_axis || !st.ordered.empty();
  }));
  std::vector<std::string> chain;
  std::vector<std::string> short_axes;
  for (const StageId s : nests_.cone.stages.ids())
    if (const AxisId axis = matrix_axis(s); axis) {
      chain.push_back(stage(s).name);
      short_axes.push_back(axis_at(axis).name);
    }
  if (chain.empty() || chain.size() != folds || !decisions_.ask_whether("transforms", true)) return false;
  Attempt attempt = begin();
  const auto refuse_all = [&] {
    undo(std::move(attempt));
    return false;
  };
  // What is read at places that depend on several axes, or not everywhere, is copied with its zeros.
  std::vector<std::string> windows;
  visit_loads(stage(nests_.stage(chain[0])), [&](const FormulaLoad& f) {
    if (value_at(f.value).role == ValueRole::interior) return;
    bool window = !f.guard.is_constant(1);
    for (Expr e : f.index) window |= !e.is_constant() && !plain_axis(nests_.cone, e);
    if (window && !contains(windows, value_at(f.value).name)) windows.push_back(value_at(f.value).name);
  });
  for (const std::string& value : windows)
    if (!try_add(DirectiveKind::padded_copy, {value, nests_.free_name(value + ".padded")}))
      return refuse_all();
  for (const std::string& name : chain) add(DirectiveKind::unfold, {name});
  for (size_t k = 0; k + 1 < chain.size(); k++) {
    const ValueId made = stage(nests_.stage(chain[k])).components[0].out;
    if (!try_add(DirectiveKind::inline_, {value_at(made).name})) return refuse_all();
  }
  const std::string name = chain.back();
  for (const std::string& axis : short_axes)
    if (!try_add(DirectiveKind::segments, {name, axis}, {2})) return refuse_all();

  const std::vector<std::string> common = common_loops();
  for (const StageId s : nests_.cone.stages.ids()) {
    const std::string here = stage(s).name;
    if (here == name)
      transform_loops(s, common);
    else {
      if (common.empty()) merge_neighbours(s, common);
      loops(s, common);
    }
  }
  for (StageId s = first_stage + 1; s < nests_.cone.stages.end_id() && !common.empty(); s++)
    add(DirectiveKind::at, {stage(s).name, common.back()});
  streams();
  return true;
}

/// Lanes along the last loop, where its trips leave few lanes idle; loops over a few points are joined first.
void DefaultScheduler::transform_loops(StageId s, const std::vector<std::string>& common) {
  const std::string name = stage(s).name;
  const auto own = [&] {
    std::vector<std::string> out;
    for (auto& l : nest(s).loops)
      if (l.symbol.is_symbol() && !contains(common, l.name)) out.push_back(l.name);
    return out;
  };
  std::vector<std::string> order{name};
  order.insert(order.end(), common.begin(), common.end());
  for (auto& l : nest(s).loops)
    if (!contains(common, l.name)) order.push_back(l.name);
  add(DirectiveKind::order, order);
  std::vector<std::string> rest = own();
  while (rest.size() >= 2) {
    const int64_t inner = trips(*nest(s).find(rest.back())),
                  outer = trips(*nest(s).find(rest[rest.size() - 2]));
    if (inner >= limits_.lanes / 2 || !std::has_single_bit(uint64_t(inner)) ||
        inner * outer > limits_.lanes || !std::has_single_bit(uint64_t(outer)) ||
        !try_add(DirectiveKind::merge, {name, rest[rest.size() - 2], rest.back(), rest.back()}))
      break;
    rest = own();
  }
  if (!rest.empty() && nest(s).find(rest.back())->extent.is_constant()) {
    std::string lanes = rest.back();
    if (trips(*nest(s).find(lanes)) > limits_.lanes) lanes = split(s, lanes, limits_.lanes).second;
    if (trips(*nest(s).find(lanes)) >= 2) add(DirectiveKind::vector, {name, lanes});
  }
  const std::string first = !common.empty() ? common[0] : rest.size() > 1 ? rest[0] : "";
  if (!first.empty() && nest(s).find(first)->kind == LoopKind::serial)
    add(DirectiveKind::parallel, {name, first});
}

} // namespace luminal::kernel
