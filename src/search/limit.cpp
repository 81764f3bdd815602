// search/limit.cpp -- counting operations and bytes of a cone.
#include "search/limit.h"
#include "base/contains.h"
#include "choose/tiling.h"
#include "cone/formula.h"
#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

namespace luminal::search {
namespace {

bool counts(const kernel::Formula& f) {
  return is_operation(f) && is_float(f.dtype) && !applies(f, Op::select);
}

/// Instructions on a vector that compute it, about.
double steps_of(const kernel::Formula& f) {
  if (load_of(f)) return 0.5; // others share it, or it overlaps
  const auto* op = f.as<kernel::FormulaOp>();
  return op ? row(op->op).vector_cost : 1;
}

/// What a fold adds up: a product of numbers, or of words in one instruction.
bool is_product(const kernel::Formula& f) { return applies(f, Op::mul) || f.is<kernel::FormulaUserOp>(); }

/// Vector instructions of the functions with which states move; what multiplies is in the product.
double steps_of(const Scalar& transform) {
  double steps = 0;
  for (const ScalarNode& node : transform.nodes())
    if (node.kind == ScalarNode::Kind::op && is_long_chain(node.op)) steps += row(node.op).vector_cost;
  return steps;
}

/// Axes that the results of a fold and its terms vary with.
std::vector<kernel::AxisId> axes_of_terms(const kernel::Stage& stage,
                                          const std::vector<kernel::AxisId>& kept) {
  std::vector<kernel::AxisId> out = kept;
  for (const kernel::AxisId a : stage.axes)
    if (std::ranges::none_of(stage.components,
                             [&](const kernel::Component& c) { return contains(c.axes, a); }))
      out.push_back(a);
  return out;
}

/// The part of a box of axes in which an index condition holds, as one interval of one axis.
struct AxisPart {
  Expr axis;
  double low = 0, high = 0; ///< low <= axis < high
  double length() const { return std::max(0.0, high - low); }
};

/// What a formula computes where: each part with the share of the points that need it. The branches of a
/// choice by an index are needed on their own sides only, since code generation splits the domain there.
class Shares {
public:
  using See = std::function<void(const kernel::Formula&, double share)>;
  /// `seen`: what is computed already.
  Shares(std::vector<AxisPart> box, std::set<const kernel::Formula*>& seen, See see)
      : box_(std::move(box)), see_(std::move(see)), all_(volume()), seen_(seen) {}

  void operator()(const kernel::FormulaRef& f) {
    if (!seen_.insert(f.get()).second) return;
    const std::span<const kernel::FormulaRef> args = args_of(*f);
    const auto* condition = applies(*f, Op::select) ? args[0]->as<kernel::FormulaIndex>() : nullptr;
    const auto side = condition ? side_of(condition->value) : std::nullopt;
    if (side) {
      AxisPart& axis = box_[side->first];
      const AxisPart whole = axis;
      axis = side->second;
      (*this)(args[1]);
      axis = rest(whole, side->second);
      (*this)(args[2]);
      axis = whole;
    } else {
      for (const kernel::FormulaRef& a : args) (*this)(a);
    }
    see_(*f, all_ > 0 ? volume() / all_ : 0);
  }

private:
  double volume() const {
    double product = 1;
    for (const AxisPart& i : box_) product *= i.length();
    return product;
  }
  /// What is left of an interval; where that is two pieces, one of their length.
  static AxisPart rest(const AxisPart& whole, const AxisPart& part) {
    if (part.low <= whole.low) return {whole.axis, std::max(whole.low, part.high), whole.high};
    return {whole.axis, whole.low, whole.high - part.length()};
  }
  /// The axis that alone decides the condition, and where along it the condition holds.
  std::optional<std::pair<size_t, AxisPart>> side_of(Expr condition) const {
    for (size_t i = 0; i < box_.size(); i++) {
      AxisPart part = box_[i];
      if (!part.axis.is_symbol() || !depends_on(condition, part.axis)) continue;
      const auto& sides = condition.args();
      if (sides.size() != 2) return {};
      const Expr apart = sides[1] - sides[0], at_zero = substitute(apart, {{part.axis, 0}});
      const auto rises = coefficient_of(apart, part.axis);
      if (!rises || !rises->is_constant() || !at_zero.is_constant()) return {};
      const auto c = double(rises->value()), k = double(at_zero.value());
      if (condition.kind() == ExprKind::eq) {
        part.low = std::clamp(-k / c, part.low, part.high);
        part.high = std::min(part.high, part.low + 1);
      } else if (condition.kind() == ExprKind::lt && c > 0) { // 0 < c * axis + k
        part.low = std::clamp(std::floor(-k / c) + 1, part.low, part.high);
      } else if (condition.kind() == ExprKind::lt) {
        part.high = std::clamp(std::ceil(-k / c), part.low, part.high);
      } else {
        return {};
      }
      return std::pair(i, part);
    }
    return {};
  }

  std::vector<AxisPart> box_;
  See see_;
  double all_;
  std::set<const kernel::Formula*>& seen_;
};

/// At how many of the points of its stage a formula is computed.
using Computed = std::function<double(kernel::StageId stage, const std::vector<kernel::AxisId>& axes,
                                      const kernel::Formula&, double points)>;

/// Vectors are not cut: both branches of a choice between their lanes are computed.
bool is_along_lanes(const kernel::StageNest& nest, Expr axis) {
  return std::ranges::any_of(nest.loops, [&](const kernel::StageLoop& loop) {
    return loop.kind == kernel::LoopKind::vector && kernel::depends_on_loop(nest, axis, loop);
  });
}

/// `share`: of a stage's points, what its loops do not leave out. `nests`: null where there are no loops yet.
KernelWork count(const kernel::Cone& cone, const std::map<std::string, int64_t>& sizes,
                 const Computed& computed, const std::function<double(kernel::StageId stage)>& share_of_stage,
                 const kernel::Nests* nests = nullptr) {
  const auto bound = bound_symbols(cone.symbols, sizes);
  const auto extent = [&](kernel::AxisId axis) {
    const auto value = evaluate(cone.axes[axis].extent, bound);
    return value ? double(*value) : 0.0;
  };
  const auto points = [&](const std::vector<kernel::AxisId>& axes) {
    double product = 1;
    for (const kernel::AxisId axis : axes) product *= extent(axis);
    return product;
  };
  KernelWork work;
  IdVector<kernel::ValueId, double> asked(cone.values.size(), 0); // elements read at indices from memory
  IdVector<kernel::ValueId, bool> whole(cone.values.size(), false);
  IdVector<kernel::ValueId, double> reached(cone.values.size(), 0); // at most, by the axes of indices
  const auto axes_of_index = [&](const kernel::Stage& stage, const std::vector<Expr>& index) {
    std::vector<kernel::AxisId> out;
    for (const kernel::AxisId a : stage.axes)
      if (std::ranges::any_of(index, [&](Expr e) { return depends_on(e, cone.axes[a].symbol); }))
        out.push_back(a);
    return out;
  };
  work.value_bytes.assign(cone.values.size(), 0);
  work.product_steps.assign(cone.stages.size(), 0);
  for (const kernel::StageId s : cone.stages.ids()) {
    const kernel::Stage& stage = cone.stages[s];
    const bool tuple = stage.monoid && !stage.scan_axis;
    const double inside = share_of_stage(s);
    std::set<std::vector<kernel::AxisId>> moved; // one weight for all states that move with it
    std::set<const kernel::Formula*> seen;
    for (size_t i = 0; i < stage.components.size(); i++) {
      const kernel::Component& c = stage.components[i];
      const bool part = tuple && c.kind == kernel::ComponentKind::fold;
      const std::vector<kernel::AxisId> axes = c.after ? c.axes
                                               : part  ? axes_of_terms(stage, c.axes)
                                                       : stage.axes;
      const double here = points(axes);
      double steps = c.kind != kernel::ComponentKind::map && !c.set ? 1 : 0;
      const bool fold = c.kind == kernel::ComponentKind::fold;
      double of_product = fold ? 1 : 0;
      double each = c.kind != kernel::ComponentKind::map && is_float(c.dtype) && !c.set ? 1 : 0;
      std::vector<AxisPart> box;
      for (const kernel::AxisId a : stage.axes)
        if (const Expr axis = cone.axes[a].symbol; !nests || !is_along_lanes(nests->stages[s], axis))
          box.push_back({axis, 0, extent(a)});
      if (!computed) seen.clear(); // loops compute once what several components need
      Shares shares(std::move(box), seen, [&](const kernel::Formula& f, double share) {
        each += share * counts(f);
        const double own = steps_of(f);
        if (own > 0 && here > 0) {
          const double made = share * own * (computed ? computed(s, axes, f, here) / here : 1);
          steps += made;
          if (fold && (load_of(f) || (&f == c.body.get() && is_product(f)))) of_product += made;
        }
        const kernel::FormulaLoad* load = load_of(f);
        if (!load) return;
        if (kernel::holes_of(cone, load->index).empty()) {
          whole[load->value] = true;
          reached[load->value] += points(axes_of_index(stage, load->index));
        } else
          asked[load->value] += share * here;
      });
      shares(c.body);
      if (part && i < size_t(stage.monoid->size())) {
        std::vector<kernel::AxisId> frame;
        for (const int j : stage.monoid->dependencies(int(i)))
          for (const kernel::AxisId a : stage.components[size_t(j)].axes)
            if (!contains(frame, a)) frame.push_back(a);
        std::ranges::sort(frame);
        const double more = steps_of(stage.monoid->components()[i].transform);
        if (more > 0 && moved.insert(frame).second)
          work.steps += inside * more * points(axes_of_terms(stage, frame));
      }
      work.flops += inside * each * here;
      work.steps += inside * steps * here;
      work.product_steps[s] += inside * of_product * here;
    }
  }
  for (const kernel::ValueId v : cone.values.ids()) {
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
      if (c.out && cone.values[c.out].role == kernel::ValueRole::inout)
        work.bytes += points(stage.axes) * bits(c.dtype) / 8;
  return work;
}

} // namespace

KernelWork work_of(const kernel::Cone& cone, const std::map<std::string, int64_t>& sizes) {
  return count(cone, sizes, {}, [](kernel::StageId) { return 1.0; });
}

namespace {

/// How often the loops of a nest compute what its stages do: what does not vary with the inner loops is
/// computed outside of them.
class LoopTrips {
public:
  LoopTrips(const kernel::Nests& nests, ExprMap<int64_t> sizes) : nests_(nests), sizes_(std::move(sizes)) {}

  double operator()(kernel::StageId stage, const std::vector<kernel::AxisId>& axes, const kernel::Formula& f,
                    double points) {
    const kernel::StageNest& nest = nests_.stages[stage];
    const IdVector<kernel::AxisId, bool>& with = axes_of(f);
    double trips = 1, inside = 1;
    for (const kernel::StageLoop& loop : nest.loops) {
      if (!loop.symbol.is_symbol()) continue;
      bool along = false, varies = false;
      for (const kernel::AxisId a : axes) {
        const Expr axis = nests_.cone.axes[a].symbol;
        if (!kernel::depends_on_loop(nest, axis, loop)) continue;
        along = true;
        varies = varies || with[a];
      }
      if (!along) continue;
      const auto extent = evaluate(loop.extent, sizes_);
      inside *= extent ? double(*extent) : 1;
      if (varies) trips = inside;
    }
    return std::min(trips, points);
  }

private:
  /// By axis of the cone: does the formula vary with it?
  const IdVector<kernel::AxisId, bool>& axes_of(const kernel::Formula& f) {
    const auto known = axes_.find(&f);
    if (known != axes_.end()) return known->second;
    IdVector<kernel::AxisId, bool> axes(nests_.cone.axes.size(), f.is<kernel::FormulaComponent>());
    for (const kernel::AxisId a : axes.ids()) {
      const Expr symbol = nests_.cone.axes[a].symbol;
      axes[a] = axes[a] || depends_on(guard_of(f), symbol) ||
                std::ranges::any_of(index_of(f), [&](Expr e) { return depends_on(e, symbol); });
    }
    for (const kernel::FormulaRef& arg : args_of(f)) {
      const IdVector<kernel::AxisId, bool>& others = axes_of(*arg);
      for (const kernel::AxisId a : axes.ids()) axes[a] = axes[a] || others[a];
    }
    return axes_.emplace(&f, std::move(axes)).first->second;
  }

  const kernel::Nests& nests_;
  ExprMap<int64_t> sizes_;
  std::unordered_map<const kernel::Formula*, IdVector<kernel::AxisId, bool>> axes_;
};

} // namespace

KernelWork work_of(const kernel::Nests& nests, const std::map<std::string, int64_t>& sizes) {
  const ExprMap<int64_t> bound = bound_symbols(nests.cone.symbols, sizes);
  return count(
      nests.cone, sizes, LoopTrips(nests, bound),
      [&](kernel::StageId stage) { return kernel::share_of_loops(nests, stage, bound); }, &nests);
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
