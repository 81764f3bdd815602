// choose/wanted_panels.cpp -- which constant operands of products had better lie in panels.
#include "choose/wanted_panels.h"
#include "base/contains.h"
#include "choose/choose_windows.h"
#include "choose/contraction.h"
#include "cone/formula.h"
#include "cone/layout.h"
#include "loop/unit.h"
#include <algorithm>

namespace luminal::kernel {
namespace {

/// A product as the wish sees it: along n only the constant moves, along `rows` only the other
/// operand.
struct Shape {
  std::optional<int> dim;
  int64_t n = 1, rows = 1, depth = 1;
  int64_t groups = 1;   ///< of n in the dimension
  bool grouped = false; ///< each of several parts meets a part of its own of the other operand
  int64_t run = 1;      ///< results side by side, along which only the other operand moves
  bool beside = true;   ///< results are contiguous along n
};

bool is_number(DType dtype) { return is_float(dtype) ? bits(dtype) <= 32 : bits(dtype) == 8; }

/// The kept axis along which both operands move and a dimension of the weight has one part for each step: the
/// groups of a convolution; none where there are several or none.
AxisId group_axis(const Cone& cone, const Stage& st, const FormulaLoad& w, const FormulaLoad& x) {
  const std::vector<AxisId> reduced = reduced_axes(st);
  AxisId group;
  for (AxisId a : st.axes) {
    const ConeAxis& axis = cone.axes[a];
    if (!axis.symbol.is_symbol() || contains(reduced, a) || !varies(w.index, axis.symbol) ||
        !varies(x.index, axis.symbol))
      continue;
    if (group || !axis.extent.is_constant()) return {};
    group = a;
  }
  return group;
}

std::optional<Shape> shape_of(const Cone& cone, const Stage& st, const Formula& weight,
                              const Formula& other) {
  const FormulaLoad &w = *load_of(weight), &x = *load_of(other);
  const ConeValue& value = cone.values[w.value];
  if (value.role != ValueRole::input || value.dtype != weight.dtype || !is_number(weight.dtype) ||
      !is_number(other.dtype) || !w.guard.is_constant(1) || !value.layout.empty())
    return {};
  Shape shape;
  size_t read = 0;
  const std::vector<AxisId> reduced = reduced_axes(st);
  const Component* last = nullptr;
  for (auto& c : st.components)
    if (c.out) last = &c;
  if (!last) return {};
  const AxisId group = group_axis(cone, st, w, x);
  const Expr part = group ? cone.axes[group].symbol : Expr(0);
  const int64_t parts = group ? cone.axes[group].extent.value() : 1;
  shape.grouped = bool(group);
  for (AxisId a : st.axes) {
    const ConeAxis& axis = cone.axes[a];
    if (!axis.symbol.is_symbol()) continue;
    if (!axis.extent.is_constant()) return {};
    const int64_t extent = axis.extent.value();
    const bool sums = contains(reduced, a);
    if (a == group) { // it has a dimension of its own, or one with the axis of n
      const auto d = std::ranges::find(w.index, axis.symbol);
      if (d != w.index.end() && !value.shape[size_t(d - w.index.begin())].is_constant(extent)) return {};
      read += d != w.index.end();
      continue;
    }
    if (varies(w.index, axis.symbol)) {
      // One whole dimension for each axis.
      const auto d = std::ranges::find_if(w.index, [&](Expr e) {
        return e == axis.symbol || (!sums && shape.grouped && e == part * extent + axis.symbol);
      });
      if (d == w.index.end()) return {};
      if (*d != axis.symbol) shape.groups = parts;
      const int64_t whole = *d == axis.symbol ? extent : extent * parts;
      if (!value.shape[size_t(d - w.index.begin())].is_constant(whole)) return {};
      read++;
      if (sums != varies(x.index, axis.symbol)) return {};
      if (sums)
        shape.depth *= extent;
      else if (shape.dim)
        return {};
      else {
        shape.dim = int(d - w.index.begin());
        shape.n = extent;
        shape.beside = step_of(cone, last->out, last->index, axis.symbol) == Step::contiguous;
      }
    } else if (sums)
      return {};
    else
      shape.rows *= extent;
  }
  if (!shape.dim) return {};
  for (size_t d = 0; d < w.index.size(); d++)
    if (w.index[d].is_constant(0) && value.shape[d].is_constant(1)) read++;
  if (read != w.index.size()) return {};
  // How far results are contiguous along the axes of the other operand.
  for (int64_t at = 1;;) {
    bool more = false;
    for (AxisId a : last->axes) {
      const ConeAxis& axis = cone.axes[a];
      if (!axis.symbol.is_symbol() || varies(w.index, axis.symbol)) continue;
      const Expr offset = layout_offset(cone.values[last->out], last->index);
      const auto step = coefficient_of(offset, axis.symbol);
      if (!step || !step->is_constant(at)) continue;
      at *= axis.extent.value();
      more = true;
    }
    shape.run = at;
    if (!more) break;
  }
  return shape;
}

} // namespace

namespace {
/// The dimension of w along which neighbours of it meet neighbours of x in a dot instruction, and how many;
/// none: there is none.
std::pair<std::optional<int>, int64_t> words_dim(const Cone& cone, const Stage& st, const Formula& weight,
                                                 const Formula& other, const MachineLimits& limits) {
  const FormulaLoad &w = *load_of(weight), &x = *load_of(other);
  const Unit* unit = nullptr;
  for (const std::string& name : limits.units)
    if (const Unit* u = find_lane_unit(name); u && !unit)
      if ((u->a.dtype == weight.dtype && u->b.dtype == other.dtype) ||
          (u->a.dtype == other.dtype && u->b.dtype == weight.dtype))
        unit = u;
  const std::vector<Expr>& shape = cone.values[w.value].shape;
  for (size_t d = 0; unit && d < w.index.size(); d++)
    if (w.index[d].is_symbol() && contains(x.index, w.index[d]) && shape[d].is_constant() &&
        shape[d].value() >= unit->k &&
        std::ranges::any_of(reduced_axes(st), [&](AxisId a) { return cone.axes[a].symbol == w.index[d]; }))
      return {int(d), unit->k};
  return {std::nullopt, 1};
}
} // namespace

int64_t few_rows_tile(int64_t rows, bool narrow) { return rows > 6 && narrow ? 4 : rows < 16 ? rows : 0; }

std::vector<PanelWish> wanted_panels(const Cone& cone, const MachineLimits& limits) {
  std::vector<PanelWish> wishes;
  for (const Stage& st : cone.stages) {
    const std::vector<const Formula*> loads = factors_of(st);
    if (loads.empty() || !st.domain.is_constant(1) ||
        std::ranges::count(st.components, ComponentKind::fold, &Component::kind) != 1)
      continue;
    for (int i : {0, 1}) {
      const Formula &weight = *loads[size_t(i)], &other = *loads[size_t(1 - i)];
      const FormulaLoad& w = *load_of(weight);
      const auto p = shape_of(cone, st, weight, other);
      const int64_t lanes = limits.lanes;
      if (!p || (p->grouped && p->beside)) continue;
      const auto windows = p->beside ? std::nullopt : one_windowed_product(cone, st);
      // (Floats: few rows read them as they lie. Words that are not full are made in the kernel.)
      const bool bytes_along_rows = !is_float(weight.dtype) && *p->dim + 1 == int(w.index.size());
      const auto [in_words, word] = p->beside && p->rows < 16 && !bytes_along_rows
                                        ? std::pair<std::optional<int>, int64_t>(std::nullopt, 1)
                                        : words_dim(cone, st, weight, other, limits);
      const bool wordy = in_words.has_value();
      if (!wordy && windows && pays_on_tiles(cone, st, *windows, limits)) continue; // it is read as it lies
      if (wordy && cone.values[w.value].shape[size_t(*in_words)].value() % word != 0) continue;
      const bool widened =
          is_float(weight.dtype) && bits(weight.dtype) < 32 && windows && windows->window && !wordy;
      if (other.dtype != DType::f32 && !widened && !wordy) continue;
      // What is used few times is read once, as it lies; small things are in reach anyhow. (Not where lanes
      // go along n although the results do not lie so, beside windows: only panels fill them.)
      const int64_t bytes = p->n * p->depth * (widened ? 4 : bits(weight.dtype) / 8);
      const bool lies_well = (!windows || !windows->window) && !p->grouped;
      if ((p->rows < 4 && !(wordy && bytes_along_rows)) || p->depth < 16 || p->n < lanes ||
          (lies_well && bytes <= limits.l1))
        continue;
      // Few rows: panels as wide as they all fit beside, so that they pass by once; worth it where
      // they come from memory. Narrow weights are unpacked for each tile of rows: from some dozens
      // on they are unpacked once (for_many_rows).
      const bool narrow = bits(weight.dtype) < 32 && !widened && !wordy,
                 few = (p->rows < 16 && !wordy) || narrow;
      if (few && (bytes <= limits.l2 || !p->beside || p->rows > 48)) continue;
      // (An image is read in place or in panels of its own there: as fast as lanes across it, or faster.)
      const bool plain = !windows || (!windows->window && windows->step == Step::contiguous);
      if (!p->beside && !p->grouped && plain && limits.full_rate && p->run >= lanes) continue;
      bool padded = false;
      double gain = 0;
      if (!p->beside) {
        // Lanes along n although the results do not lie so: a tile is reversed as it is written,
        // half a step for each element.
        double there = share_of(p->run, lanes);
        if (windows && windows->uses >= 16 && (windows->window || windows->step == Step::near)) {
          const WindowWays ways = window_ways(*windows, limits);
          // (Shifted views of rows are vectors that lie in two lines: as fast as it multiplies, loads are the
          // limit. Panels of four vectors are faster, measured at 64 channels; of 32 and of 80 slower.)
          const double shifted = limits.full_rate && share_of(p->n, 4 * lanes) > 0.95 ? 0.85 : 1;
          there = std::max(shifted * ways.padded, ways.copied);
          padded = windows->w == &weight && takes_padded_copy(cone, *windows);
        }
        // (From beyond the second cache panels come as slowly as some rows are multiplied there.)
        const double waits = limits.full_rate && bytes > limits.l2 ? 16 / double(p->rows) : 0,
                     here = share_of(p->n, lanes) / (1 + waits + 0.5 * double(lanes) / double(p->depth));
        if (here < there + 0.02) continue;
        // (Copies of rows fill lanes beside windows. A fifth was not measured: with it a copy at each step
        // begins at some 500 results, from where it paid on the convolutions that were timed.)
        gain = double(p->rows) * (windows && windows->window ? 0.19 : 1 / there - 1 / here);
      }
      const bool many_registers = limits.vector_registers >= 32;
      int64_t columns = (many_registers ? 4 : 2) * lanes;
      if (many_registers && p->n % columns && p->n % (3 * lanes) == 0)
        columns = 3 * lanes; // none is half empty
      while (columns > lanes && columns / 2 >= p->n) columns /= 2;
      // Windows pass all of a panel for each tile of a row: from the second cache.
      const int64_t element = wordy ? bits(weight.dtype) / 8 : 4;
      if (padded && columns > 2 * lanes && p->depth * columns * element > limits.l2 * 5 / 8)
        columns = 2 * lanes;
      const int64_t tile_rows = few_rows_tile(p->rows, narrow);
      while (columns > lanes && (tile_rows + 1) * (columns / lanes) + 1 > limits.vector_registers)
        columns = columns > 2 * lanes ? 2 * lanes : lanes;
      if (std::ranges::none_of(wishes, [&](auto& wish) { return wish.value == w.value; }))
        // (Of what comes from memory for few results no line is passed over: in one piece it comes
        // faster.)
        wishes.push_back({w.value, *p->dim, columns,
                          padded && (bytes <= limits.l2 || p->rows >= 128) ? st.components[0].out : ValueId(),
                          widened, in_words, word, p->groups, p->beside ? 0 : p->rows, gain});
      break;
    }
  }
  return wishes;
}

} // namespace luminal::kernel
