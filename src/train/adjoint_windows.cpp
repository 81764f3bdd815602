// train/adjoint_windows.cpp -- the gradient of sum(x's windows * w) with respect to x: a sum of the
// same kind, of products with what arrives.
//
//   y[o] = sum over r of x[stride * o + dilation * r + offset] * w[r]
//   gradient of x[j] = sum over (o, r) with stride * o + dilation * r + offset = j of g[o] * w[r]
//
// By places j mod the stride both o and r are affine in j / stride and in a free axis (strided_runs),
// so that no element is read that does not count. The windows are never stored. Axes that only one
// operand has (images, channels) stay as they are, and what only w and the result have is summed.
#include "ir/passes/edit.h"
#include "tensor/strided_runs.h"
#include "train/reverse.h"
#include <algorithm>

namespace luminal::train {
namespace {

/// A value as a view of what lies below a chain of views.
struct Read {
  ViewAttr view;
  NodeId base;
};

/// The view of a view as one; nothing where an axis allows no such index.
std::optional<ViewAttr> composed(const ViewAttr& outer, const ViewAttr& inner) {
  const passes::AxisReplacement replace(inner.shape, outer.map);
  ViewAttr both;
  both.shape = outer.shape;
  for (const Expr e : inner.map) {
    const auto moved = replace(e);
    if (!moved) return {};
    both.map.push_back(*moved);
  }
  const auto predicate = replace(inner.predicate);
  if (!predicate) return {};
  both.predicate = logical_and(outer.predicate, *predicate);
  return both;
}

template <class May> Read read_of(const Terms& t, NodeId value, May&& may_pass) {
  Read read{.view = {.shape = t.shape(value)}, .base = value};
  for (size_t d = 0; d < read.view.shape.size(); ++d)
    read.view.map.push_back(axis_symbol(int(d), read.view.shape[d]));
  while (may_pass(read.base)) {
    const auto* inner = std::get_if<ViewAttr>(&t[read.base].attr);
    if (!inner || !inner->holes.empty()) break;
    auto both = composed(read.view, *inner);
    if (!both) break;
    read.view = std::move(*both);
    read.base = t[read.base].inputs[0];
  }
  return read;
}

/// An axis of x: a window, or digits (axes of the space, the last one runs fastest).
struct XAxis {
  std::vector<int> digits;
  std::optional<size_t> window;
};
struct Window {
  int place = 0;          ///< axis of the space: where windows begin
  std::optional<int> tap; ///< axis of the space: within one
  Expr extent;            ///< of x
  Expr steps;             ///< extent / stride, rounded up
  int64_t stride = 1;
  std::vector<StridedRun> runs;
};

/// The gradient of the operand that is read through windows, by its parts.
class WindowAdjoint {
public:
  WindowAdjoint(Terms& t, const FoldAttr& fold, const Read& x, const Read& w) : t_(t), fold_(fold), w_(w) {
    for (size_t a = 0; a < fold.space.size(); ++a) axes_.push_back(axis_symbol(int(a), fold.space[a]));
    possible_ = find_axes(x);
  }
  bool possible() const { return possible_; }
  NodeId made(NodeId g) {
    g_ = g;
    std::vector<StridedRun> chosen;
    return joined(chosen);
  }

private:
  bool reduced(int a) const { return std::ranges::find(fold_.reduced, a) != fold_.reduced.end(); }
  bool of_w(int a) const {
    return std::ranges::any_of(w_.view.map, [&](Expr e) { return depends_on(e, axes_[size_t(a)]); });
  }
  int axis_of(Expr e) const {
    const auto found = std::ranges::find(axes_, e);
    return found == axes_.end() || !e.is_symbol() ? -1 : int(found - axes_.begin());
  }

  /// The roles of all axes; false where they are not those of windows.
  bool find_axes(const Read& x) {
    const Shape& extents = t_.shape(x.base);
    std::vector<bool> used(axes_.size());
    bool windowed = false;
    std::vector<Expr> inside(t_.module.assumptions.begin(), t_.module.assumptions.end());
    std::vector<Expr> single = equations(x.view.predicate);
    for (size_t d = 0; d < extents.size(); ++d) {
      Expr index = x.view.map[d];
      if (extents[d].is_constant(1) && index.is_constant(0) && !single.empty()) {
        index = single.back();
        single.pop_back();
      }
      inside.push_back(ge(index, 0));
      inside.push_back(lt(index, extents[d]));
      const Affine affine = affine_terms(index);
      std::vector<std::pair<int64_t, int>> terms;
      for (const auto& [term, coefficient] : affine.terms) {
        const int a = axis_of(term);
        if (a < 0 || coefficient < 1 || used[size_t(a)]) return false;
        used[size_t(a)] = true;
        terms.emplace_back(coefficient, a);
      }
      std::ranges::sort(terms, std::greater<>{});
      XAxis axis;
      if (digits(terms, affine.constant, extents[d])) {
        for (const auto& [coefficient, a] : terms) axis.digits.push_back(a);
      } else {
        if (!window(terms, affine.constant, extents[d])) return false;
        axis.window = windows_.size() - 1;
        windowed |= windows_.back().tap.has_value();
      }
      x_axes_.push_back(axis);
    }
    for (size_t a = 0; a < axes_.size(); ++a)
      if (!used[a] && axes_[a].is_symbol()) free_.push_back(int(a));
    // Elements count wherever the windows reach them: the view may hide no others.
    return windowed && !windows_.empty() &&
           (x.view.predicate.is_constant(1) || prove(x.view.predicate, inside) == Truth::yes);
  }
  /// What is 0 where the condition holds: of an axis with one element the windows that reach it are known
  /// from the condition alone, since its index is 0.
  static std::vector<Expr> equations(Expr condition) {
    std::vector<Expr> parts{condition}, out;
    if (condition.kind() == ExprKind::logical_and)
      parts.assign(condition.args().begin(), condition.args().end());
    for (const Expr part : parts)
      if (part.kind() == ExprKind::eq) {
        const Expr e = part.args()[0] - part.args()[1];
        const auto terms = affine_terms(e).terms;
        const bool falls = std::ranges::all_of(terms, [](auto& term) { return term.second < 0; });
        out.push_back(falls ? Expr(0) - e : e);
      }
    return out;
  }
  /// Every element of x, once.
  bool digits(const std::vector<std::pair<int64_t, int>>& terms, int64_t constant, Expr extent) const {
    if (constant != 0) return false;
    Expr below = 1;
    for (size_t k = terms.size(); k-- > 0;) {
      if (!below.is_constant(terms[k].first)) return false;
      below = below * fold_.space[size_t(terms[k].second)];
    }
    return proves_equal(below, extent, t_.module.assumptions);
  }
  bool window(const std::vector<std::pair<int64_t, int>>& terms, int64_t constant, Expr extent) {
    Window w{.extent = extent};
    std::optional<int> place;
    int64_t dilation = 1, kernel = 1;
    for (const auto& [coefficient, a] : terms) {
      if (reduced(a)) {
        if (w.tap || !fold_.space[size_t(a)].is_constant()) return false;
        w.tap = a, dilation = coefficient, kernel = fold_.space[size_t(a)].value();
      } else {
        if (place || of_w(a)) return false;
        place = a, w.stride = coefficient;
      }
    }
    if (!place) return false;
    w.place = *place;
    w.steps = ceildiv(extent, w.stride);
    w.runs = strided_runs(kernel, w.stride, dilation, -constant);
    windows_.push_back(std::move(w));
    return true;
  }

  /// The values at the chosen places of the first windows: of those axes (steps, places of the run),
  /// of all others the whole extent.
  NodeId joined(std::vector<StridedRun>& chosen) {
    const size_t n = chosen.size();
    if (n == windows_.size()) return product(chosen);
    const Window& window = windows_[n];
    std::vector<NodeId> parts;
    for (const StridedRun& run : window.runs) {
      chosen.push_back(run);
      parts.push_back(joined(chosen));
      chosen.pop_back();
    }
    // Beside each other, then as one axis.
    int steps = 0;
    for (size_t d = 0; x_axes_[d].window != n; ++d)
      steps += x_axes_[d].window && *x_axes_[d].window < n ? 2 : 1;
    const NodeId all = beside(parts, steps + 1);
    Shape shape = t_.shape(all);
    shape.erase(shape.begin() + steps + 1);
    shape[size_t(steps)] = window.extent;
    std::vector<Expr> map;
    for (size_t d = 0; d < shape.size(); ++d) {
      const Expr i = axis_symbol(int(d), shape[d]);
      if (int(d) == steps) {
        map.push_back(floordiv(i, window.stride));
        map.push_back(mod(i, window.stride));
      } else {
        map.push_back(i);
      }
    }
    return t_.b.view(all, shape, map);
  }
  NodeId beside(const std::vector<NodeId>& parts, int axis) {
    Expr all = 0;
    for (NodeId part : parts) all = all + t_.shape(part)[size_t(axis)];
    std::optional<NodeId> result;
    Expr begin = 0;
    for (NodeId part : parts) {
      const Expr extent = t_.shape(part)[size_t(axis)];
      const NodeId padded = t_.b.pad(part, axis, begin, all - begin - extent);
      if (!result) {
        result = padded;
      } else {
        const Shape& shape = t_.shape(padded);
        const NodeId before =
            t_.b.iota(shape, lt(axis_symbol(axis, shape[size_t(axis)]), begin), DType::boolean);
        result = t_.select(before, *result, padded);
      }
      begin = begin + extent;
    }
    return *result;
  }

  /// One sum of products: [images.., shared.., rows, steps..] over (free.., taps..).
  struct Layout {
    Shape space;
    std::vector<int> summed, of_w; ///< axes of the space
    ExprMap<Expr> of_axes;         ///< axes of the forward pass, over the axes of the space
    Expr condition = 1;
    Expr add(Expr extent) {
      space.push_back(extent);
      return axis_symbol(int(space.size()) - 1, extent);
    }
    int last() const { return int(space.size()) - 1; }
  };
  /// Axes of x that are read by w alone: they and the places of a run are rows, one axis of the sum.
  std::vector<int> row_axes() const {
    std::vector<int> list;
    for (const XAxis& axis : x_axes_)
      for (int a : axis.digits)
        if (reduced(a) && of_w(a)) list.push_back(a);
    return list;
  }
  NodeId product(const std::vector<StridedRun>& chosen) {
    Layout out;
    const auto set = [&](int a, Expr value) {
      if (axes_[size_t(a)].is_symbol()) out.of_axes[axes_[size_t(a)]] = value;
    };
    Shape shape; // of the part: for each window (steps, places)
    for (size_t d = 0; d < x_axes_.size(); ++d) {
      if (const auto w = x_axes_[d].window)
        shape.insert(shape.end(), {windows_[*w].steps, chosen[*w].places});
      else
        shape.push_back(digits_extent(x_axes_[d]));
    }
    if (std::ranges::any_of(chosen, [](const StridedRun& run) { return run.taps == 0; }))
      return t_.zeros({t_.dtype(g_), shape});

    // What the parts of an index of x are in the sum's result.
    std::vector<std::vector<Expr>> digit_of(x_axes_.size());
    std::vector<Expr> step_of(windows_.size()), place_of(windows_.size());
    int position = 0;
    for (size_t d = 0; d < x_axes_.size(); ++d) {
      const Expr i = axis_symbol(position, shape[size_t(position)]);
      if (const auto w = x_axes_[d].window) {
        step_of[*w] = i;
        place_of[*w] = axis_symbol(position + 1, shape[size_t(position) + 1]);
        position += 2;
        continue;
      }
      Expr rest = i;
      std::vector<Expr>& list = digit_of[d];
      list.resize(x_axes_[d].digits.size());
      for (size_t k = list.size(); k-- > 0;) {
        const Expr extent = fold_.space[size_t(x_axes_[d].digits[k])];
        list[k] = k == 0 ? rest : mod(rest, extent);
        rest = floordiv(rest, extent);
      }
      ++position;
    }
    std::vector<Expr> back; // indices of the sum's result
    const auto kept = [&](bool by_w) {
      for (size_t d = 0; d < x_axes_.size(); ++d)
        for (size_t k = 0; k < x_axes_[d].digits.size(); ++k)
          if (const int a = x_axes_[d].digits[k]; !reduced(a) && of_w(a) == by_w) {
            set(a, out.add(fold_.space[size_t(a)]));
            if (by_w) out.of_w.push_back(out.last());
            back.push_back(digit_of[d][k]);
          }
    };
    kept(false);
    kept(true);
    // Rows.
    std::vector<std::pair<Expr, Expr>> factors; // extent, what it is in the result
    const std::vector<int> rows = row_axes();
    for (int a : rows)
      for (size_t d = 0; d < x_axes_.size(); ++d)
        for (size_t k = 0; k < x_axes_[d].digits.size(); ++k)
          if (x_axes_[d].digits[k] == a) factors.emplace_back(fold_.space[size_t(a)], digit_of[d][k]);
    for (size_t w = 0; w < windows_.size(); ++w) factors.emplace_back(chosen[w].places, place_of[w]);
    Expr all = 1, at = 0;
    for (const auto& [extent, i] : factors) all = all * extent, at = at * extent + i;
    Expr rest = out.add(all);
    const int row = out.last();
    back.push_back(at);
    std::vector<Expr> place(windows_.size());
    for (size_t k = factors.size(); k-- > 0;) {
      const Expr extent = factors[k].first, part = k == 0 ? rest : mod(rest, extent);
      if (k < rows.size())
        set(rows[k], part);
      else
        place[k - rows.size()] = part;
      rest = floordiv(rest, extent);
    }
    out.of_w.push_back(row);
    std::vector<int> before_rows; // in memory: taps, then what is summed; rows are contiguous
    for (int a : free_) {
      set(a, out.add(fold_.space[size_t(a)]));
      out.summed.push_back(out.last());
      if (of_w(a)) before_rows.push_back(out.last());
    }
    std::vector<Expr> steps, taps;
    for (const Window& w : windows_) {
      steps.push_back(out.add(w.steps));
      back.push_back(step_of[size_t(&w - windows_.data())]);
    }
    std::vector<int> tap_axes;
    for (const StridedRun& run : chosen) {
      taps.push_back(out.add(run.taps));
      out.summed.push_back(out.last());
      tap_axes.push_back(out.last());
    }
    for (size_t w = 0; w < windows_.size(); ++w) {
      const StridedRun& run = chosen[w];
      const Window& window = windows_[w];
      // Taps are counted from the last one, so that indices rise with them.
      const Expr from = steps[w] + (run.shift - run.dilation * (run.taps - 1)) + taps[w] * run.dilation;
      out.condition =
          logical_and(out.condition, logical_and(ge(from, 0), lt(from, fold_.space[size_t(window.place)])));
      set(window.place, from);
      if (window.tap)
        set(*window.tap, place[w] + run.first + run.period * (run.taps - 1) - taps[w] * run.period);
    }
    return t_.b.view(summed(out, before_rows, tap_axes), shape, back);
  }
  Expr digits_extent(const XAxis& axis) const {
    Expr all = 1;
    for (int a : axis.digits) all = all * fold_.space[size_t(a)];
    return all;
  }

  NodeId summed(const Layout& out, const std::vector<int>& free, const std::vector<int>& taps) {
    std::vector<Expr> from; // of what arrives: its axes are those that the sum keeps
    for (size_t a = 0; a < axes_.size(); ++a)
      if (!reduced(int(a))) from.push_back(axes_[a].is_symbol() ? out.of_axes.at(axes_[a]) : axes_[a]);
    const NodeId arrives = t_.b.view(g_, out.space, from, out.condition);
    // Weights in the order in which they are read: taps, summed channels, rows side by side.
    std::vector<int> order = taps;
    order.insert(order.end(), free.begin(), free.end());
    order.insert(order.end(), out.of_w.begin(), out.of_w.end());
    Shape packed;
    ExprMap<Expr> places;
    for (size_t k = 0; k < order.size(); ++k) {
      packed.push_back(out.space[size_t(order[k])]);
      if (const Expr i = axis_symbol(order[k], packed.back()); i.is_symbol())
        places[i] = axis_symbol(int(k), packed.back());
    }
    std::vector<Expr> map;
    for (Expr e : w_.view.map) map.push_back(substitute(substitute(e, out.of_axes), places));
    const NodeId weights = t_.b.add(FenceAttr{}, {t_.b.view(w_.base, packed, map)});
    return t_.b.reduce(Op::add, t_.mul(arrives, t_.expand(weights, out.space, order)), out.summed);
  }

  Terms& t_;
  const FoldAttr& fold_;
  const Read& w_;
  NodeId g_;
  std::vector<Expr> axes_;
  std::vector<XAxis> x_axes_;
  std::vector<Window> windows_;
  std::vector<int> free_; ///< axes of the space that no index of x has
  bool possible_ = false;
};

} // namespace

bool Reverse::windows(const FoldAttr& attr, NodeId body, NodeId g) {
  const Node product = t_[body];
  const auto* op = std::get_if<MapAttr>(&product.attr);
  if (!op || op->op != Op::mul || !op->user_op.empty() || !attr.where.is_constant(1) || target(body) ||
      attr.monoid.size() != 1 || attr.monoid.components()[0].op != Op::add)
    return false;
  for (int k : {0, 1}) {
    const NodeId x = product.inputs[size_t(k)], w = product.inputs[size_t(1 - k)];
    if (x == w) return false;
    const Read of_x = read_of(t_, x, [&](NodeId id) { return !target(id); });
    if (!active(of_x.base) || !active(x)) continue;
    const Read of_w = read_of(t_, w, [&](NodeId id) {
      const auto* view = std::get_if<ViewAttr>(&t_[id].attr);
      return view && view->predicate.is_constant(1);
    });
    WindowAdjoint adjoint(t_, attr, of_x, of_w);
    if (!adjoint.possible()) continue;
    give(of_x.base, adjoint.made(g));
    if (!active(w)) return true;
    std::vector<int> kept;
    for (size_t a = 0; a < attr.space.size(); ++a)
      if (std::ranges::find(attr.reduced, int(a)) == attr.reduced.end()) kept.push_back(int(a));
    give(w, t_.mul(t_.expand(g, attr.space, kept), x));
    return true;
  }
  return false;
}

} // namespace luminal::train
