// compile/one_hot.cpp -- a number everywhere, with others written into it: each element asks what is written
// to it, where that is known without looking at all values. The kernel that reads the result computes it, and
// nothing is stored for it.
//  - Along one axis indices say where, at most one in each line (labels as columns of zeros with a one): is
//    the index its place?
//  - Axes say where (a diagonal, every second column): a view that is the number elsewhere.
#include "compile/pass_list.h"
#include "compile/rewrite.h"
#include <algorithm>
#include <cmath>

namespace luminal::compile {
namespace {

/// By dimension of the base, which axis of the values goes there; -1 where the index says.
using Lines = std::vector<int>;

/// Nothing where the node is another one, or writes several numbers in a line.
std::optional<Lines> lines_of(const Function& f, NodeId id) {
  const auto* scatter = std::get_if<ScatterAttr>(&f[id].attr);
  if (!scatter || scatter->op || scatter->holes.size() != 1 || !scatter->predicate.is_constant(1) ||
      !is_fill(f, f[id].inputs[0]))
    return {};
  const Shape &base = f[id].type().shape, &values = f[f[id].inputs[1]].type().shape;
  const Expr index = hole_symbol(0, scatter->holes[0].range);
  Lines lines;
  std::vector<bool> used(values.size(), false);
  for (size_t d = 0; d < base.size(); d++) {
    const Expr at = scatter->map[d];
    int axis = -1;
    for (size_t a = 0; a < values.size() && axis < 0; a++)
      if (!used[a] && at == axis_symbol(int(a), values[a]) && values[a] == base[d]) axis = int(a);
    if (axis < 0 && !(at == index && base[d].range().low > 0 && base[d].range().high < INT32_MAX)) return {};
    if (axis >= 0) used[size_t(axis)] = true;
    lines.push_back(axis);
  }
  for (size_t a = 0; a < values.size(); a++)
    if (!used[a] && !values[a].is_constant(1)) return {}; // several in a line
  if (std::ranges::count(lines, -1) != 1) return {};
  return lines;
}

/// The scatter's operands are copies[..] in `b`.
NodeId as_selection(FunctionBuilder& b, const ScatterAttr& scatter, const Lines& lines, NodeId base,
                    NodeId values, NodeId index) {
  const Shape shape = b[base].type().shape, space = b[values].type().shape;
  const size_t along = size_t(std::ranges::find(lines, -1) - lines.begin());
  // The index, held to its range by the policy of the scatter; what is dropped is at none.
  ViewAttr held;
  held.shape = space;
  held.map = {hole_symbol(0, scatter.holes[0].range)};
  held.fill = -1;
  held.holes = scatter.holes;
  held.holes[0].input = 1;
  const NodeId numbers = b.iota({shape[along]}, axis_symbol(0, shape[along]), DType::i32);
  const NodeId place = b.add(std::move(held), {numbers, index});
  std::vector<Expr> at(space.size(), Expr(0));
  for (size_t d = 0; d < lines.size(); d++)
    if (lines[d] >= 0) at[size_t(lines[d])] = axis_symbol(int(d), shape[d]);
  const NodeId here = b.iota(shape, axis_symbol(int(along), shape[along]), DType::i32);
  return b.map(Op::select,
               {b.map(Op::eq, {b.view(place, shape, at), here}), b.view(values, shape, at), base});
}

/// A scatter to places that tell which value goes there, read from the value's side: over the axes of the
/// base, with its number elsewhere. Nothing where indices from memory say, or several values have one place.
std::optional<ViewAttr> as_view(const Function& f, NodeId id) {
  const auto* scatter = std::get_if<ScatterAttr>(&f[id].attr);
  if (!scatter || scatter->op || !scatter->holes.empty() || !scatter->predicate.is_constant(1) ||
      !is_fill(f, f[id].inputs[0]))
    return {};
  const Shape &base = f[id].type().shape, &values = f[f[id].inputs[1]].type().shape;
  std::vector<std::optional<Expr>> place(values.size());
  for (size_t a = 0; a < values.size(); a++)
    if (values[a].is_constant(1)) place[a] = Expr(0);
  ViewAttr view;
  view.shape = base;
  const auto require = [&](Expr condition) { view.predicate = logical_and(view.predicate, condition); };
  for (size_t d = 0; d < base.size(); d++) {
    const Affine affine = affine_terms(scatter->map[d]);
    const Expr rest = axis_symbol(int(d), base[d]) - affine.constant;
    if (affine.terms.empty()) {
      require(eq(rest, 0));
      continue;
    }
    const auto& [term, step] = affine.terms[0];
    if (affine.terms.size() > 1 || step < 1) return {};
    size_t a = 0;
    while (a < values.size() && term != axis_symbol(int(a), values[a])) a++;
    if (a == values.size()) return {};
    if (place[a]) {
      require(eq(rest, *place[a] * step));
      continue;
    }
    require(eq(mod(rest, step), 0));
    place[a] = floordiv(rest, step);
    require(ge(*place[a], 0));
    require(lt(*place[a], values[a]));
  }
  for (const auto& at : place) {
    if (!at) return {}; // the last of several is what stays
    view.map.push_back(*at);
  }
  const Node& number = f[f[f[id].inputs[0]].inputs[0]];
  const DType type = number.type().dtype;
  const std::byte* data = std::get<ConstantAttr>(number.attr).data->data();
  view.fill = load_f64(type, data, 0);
  if (is_integer(type) && std::abs(view.fill) > 0x1p53) return {}; // not every one is a double
  return view;
}

} // namespace

Result<void> spread_indices(PlanState& state, FunctionPlan& f) {
  if (f.role == FunctionRole::check) return {};
  const Function& function = *f.function;
  if (std::ranges::none_of(function.nodes.ids(), [&](NodeId id) {
        return lines_of(function, id).has_value() || as_view(function, id).has_value();
      }))
    return {};
  f.function = &state.keep(rebuild(state.module, function,
                                   [&](FunctionBuilder& b, NodeId id, const IdVector<NodeId, NodeId>& copies,
                                       std::vector<NodeId>& values) {
                                     if (auto view = as_view(function, id)) {
                                       values = {b.add(std::move(*view), {copies[function[id].inputs[1]]})};
                                       return true;
                                     }
                                     const std::optional<Lines> lines = lines_of(function, id);
                                     if (!lines) return false;
                                     const auto& scatter = std::get<ScatterAttr>(function[id].attr);
                                     const std::vector<NodeId>& in = function[id].inputs;
                                     values = {as_selection(b, scatter, *lines, copies[in[0]], copies[in[1]],
                                                            copies[in[size_t(scatter.holes[0].input)]])};
                                     return true;
                                   }));
  return {};
}

} // namespace luminal::compile
