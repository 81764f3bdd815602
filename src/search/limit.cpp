// search/limit.cpp -- counting operations and bytes of a cone.
#include "search/limit.h"
#include "base/contains.h"
#include "cone/formula.h"
#include <algorithm>
#include <set>

namespace luminal::search {
namespace {

bool counts(const kernel::Formula& f) {
  if (f.kind != kernel::FormulaKind::op || !is_float(f.dtype)) return false;
  return f.op != Op::select || !f.user_op.empty();
}

/// Instructions on a vector that compute it, about.
double steps_of(const kernel::Formula& f) {
  if (f.kind == kernel::FormulaKind::load) return 0.5; // others share it, or it overlaps
  if (f.kind != kernel::FormulaKind::op || !f.user_op.empty()) return 1;
  return row(f.op).vector_cost;
}

/// Vector instructions of the functions with which states move; what multiplies is in the product.
double steps_of(const Scalar& transform) {
  double steps = 0;
  for (const ScalarNode& node : transform.nodes())
    if (node.kind == ScalarNode::Kind::op && is_long_chain(node.op)) steps += row(node.op).vector_cost;
  return steps;
}

/// Axes that the results of a fold and its terms vary with.
std::vector<int> axes_of_terms(const kernel::Stage& stage, const std::vector<int>& kept) {
  std::vector<int> out = kept;
  for (const int a : stage.axes)
    if (std::ranges::none_of(stage.components,
                             [&](const kernel::Component& c) { return contains(c.axes, a); }))
      out.push_back(a);
  return out;
}

} // namespace

KernelWork work_of(const kernel::Cone& cone, const std::map<std::string, int64_t>& sizes) {
  const auto bound = bound_symbols(cone.symbols, sizes);
  const auto extent = [&](int axis) {
    const auto value = evaluate(cone.axes[size_t(axis)].extent, bound);
    return value ? double(*value) : 0.0;
  };
  const auto points = [&](const std::vector<int>& axes) {
    double product = 1;
    for (const int axis : axes) product *= extent(axis);
    return product;
  };
  KernelWork work;
  std::vector<double> asked(cone.values.size(), 0); // elements read at indices from memory
  std::vector<bool> whole(cone.values.size(), false);
  std::vector<double> reached(cone.values.size(), 0); // at most, by the axes of indices
  const auto axes_of_index = [&](const kernel::Stage& stage, const std::vector<Expr>& index) {
    std::vector<int> out;
    for (const int a : stage.axes)
      if (std::ranges::any_of(index, [&](Expr e) { return depends_on(e, cone.axes[size_t(a)].symbol); }))
        out.push_back(a);
    return out;
  };
  work.value_bytes.assign(cone.values.size(), 0);
  for (const kernel::Stage& stage : cone.stages) {
    const bool tuple = stage.monoid && stage.scan_axis < 0;
    std::set<std::vector<int>> moved; // one weight for all states that move with it
    for (size_t i = 0; i < stage.components.size(); i++) {
      const kernel::Component& c = stage.components[i];
      const bool part = tuple && c.kind == kernel::ComponentKind::fold;
      const double here = points(c.after ? c.axes : part ? axes_of_terms(stage, c.axes) : stage.axes);
      double steps = c.kind != kernel::ComponentKind::map && !c.set ? 1 : 0;
      double each = c.kind != kernel::ComponentKind::map && is_float(c.dtype) && !c.set ? 1 : 0;
      kernel::visit(c.body, [&](const kernel::Formula& f) {
        each += counts(f);
        steps += steps_of(f);
        if (f.kind != kernel::FormulaKind::load) return;
        if (kernel::holes_of(cone, f.index).empty()) {
          whole[size_t(f.value)] = true;
          reached[size_t(f.value)] += points(axes_of_index(stage, f.index));
        } else
          asked[size_t(f.value)] += here;
      });
      if (part && i < size_t(stage.monoid->size())) {
        std::vector<int> frame;
        for (const int j : stage.monoid->dependencies(int(i)))
          for (const int a : stage.components[size_t(j)].axes)
            if (!contains(frame, a)) frame.push_back(a);
        std::ranges::sort(frame);
        const double more = steps_of(stage.monoid->components()[i].transform);
        if (more > 0 && moved.insert(frame).second) work.steps += more * points(axes_of_terms(stage, frame));
      }
      work.flops += each * here;
      work.steps += steps * here;
    }
  }
  for (size_t v = 0; v < cone.values.size(); v++) {
    const kernel::ConeValue& value = cone.values[v];
    if (value.role == kernel::ValueRole::interior) continue;
    double elements = 1;
    for (const Expr e : value.shape) elements *= double(evaluate(e, bound).value());
    if (value.role == kernel::ValueRole::inout || (asked[v] > 0 && !whole[v]))
      elements =
          std::min(elements, asked[v]); // of a state only what is updated, counted with what updates it
    if (whole[v]) elements = std::min(elements, reached[v] + asked[v]);
    work.value_bytes[v] = elements * bits(value.dtype) / 8;
    work.bytes += work.value_bytes[v];
  }
  for (const kernel::Stage& stage : cone.stages)
    for (const kernel::Component& c : stage.components)
      if (c.out >= 0 && cone.values[size_t(c.out)].role == kernel::ValueRole::inout)
        work.bytes += points(stage.axes) * bits(c.dtype) / 8;
  return work;
}

double limit_seconds(const KernelWork& work, const MachineProfile& profile, int threads) {
  if (profile.guessed) return 0;
  const double flops = (threads > 1 ? profile.fma_f32 : profile.fma_f32_1) * 1e9;
  const double bytes = (threads > 1 ? profile.memory : profile.memory_1).read * 1e9;
  if (!(flops > 0) || !(bytes > 0)) return 0;
  return std::max(work.flops / flops, work.bytes / bytes);
}

double work_seconds(const KernelWork& work, const MachineProfile& profile) {
  const double steps = profile.fma_f32_1 / 4 * 1e9; // a multiply-add is two; every second one is not there
  const double bytes = (work.bytes <= double(profile.l2)   ? profile.l2_1.read
                        : work.bytes <= double(profile.l3) ? profile.l3_all.read / profile.threads
                                                           : profile.memory_1.read) *
                       1e9;
  if (!(steps > 0) || !(bytes > 0)) return 0;
  constexpr double call = 30e-9;
  return call + std::max(work.steps / steps, work.bytes / bytes);
}

} // namespace luminal::search
