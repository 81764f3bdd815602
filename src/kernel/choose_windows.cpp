// kernel/choose_windows.cpp -- the default schedule of products with an operand that is read through windows (convolutions): copies in the order of the sum.
#include "kernel/choose_windows.h"
#include "kernel/chooser.h"
#include "kernel/formula.h"
#include <algorithm>

namespace luminal::kernel {

std::optional<WindowedProduct> windowed_product(const Cone& cone, const Stage& st) {
  if (st.monoid || st.components.empty() || st.components[0].kind != ComponentKind::fold ||
      st.components[0].op != Op::add)
    return {};
  std::vector<const Formula*> loads;
  visit(st.components[0].body, [&](const Formula& f) {
    if (f.kind == FormulaKind::load) loads.push_back(&f);
  });
  if (loads.size() != 2) return {};
  const auto moves = [](const Formula& f, Expr axis) {
    return std::ranges::any_of(f.index, [&](Expr e) { return depends_on(e, axis); });
  };
  for (int i = 0; i < 2; i++) {
    const Formula &x = *loads[size_t(i)], &w = *loads[size_t(1 - i)];
    if (x.origin.empty()) continue;
    WindowedProduct p;
    p.x = &x, p.w = &w;
    bool suits = true;
    for (int a : st.axes) {
      const ConeAxis& axis = cone.axes[size_t(a)];
      if (!axis.symbol.is_symbol()) continue;
      if (!axis.extent.is_constant()) suits = false;
      const int64_t n = suits ? axis.extent.value() : 1;
      const bool reduced = std::ranges::find(st.components[0].axes, a) == st.components[0].axes.end();
      suits = suits && (reduced ? moves(w, axis.symbol) : !(moves(x, axis.symbol) && moves(w, axis.symbol)));
      if (reduced) {
        p.depth *= n;
        continue;
      }
      if (moves(x, axis.symbol)) continue;
      p.uses *= n;
      p.outputs.push_back(a);
    }
    // The kept axes along which it is read, as they lie: the innermost one is a run.
    for (Expr e : x.at)
      for (size_t a = 0; a < cone.axes.size(); a++) {
        if (cone.axes[a].symbol != e) continue;
        const bool kept = std::ranges::find(st.components[0].axes, int(a)) != st.components[0].axes.end();
        (kept ? p.kept : p.summed).push_back(int(a));
      }
    if (!suits || p.kept.empty()) continue;
    p.run = cone.axes[size_t(p.kept.back())].extent.value();
    p.rows = p.kept.size() < 2 ? 1 : cone.axes[size_t(p.kept[p.kept.size() - 2])].extent.value();
    for (size_t k = 0; k + 2 < p.kept.size(); k++) p.images *= cone.axes[size_t(p.kept[k])].extent.value();
    p.step = step_of(cone, x.value, x.index, cone.axes[size_t(p.kept.back())].symbol);
    p.window = !x.guard.is_constant(1) ||
               std::ranges::any_of(x.index, [](Expr e) { return symbols_of(e).size() > 1; });
    return p;
  }
  return {};
}

double share_of(int64_t n, int64_t unit) {
  const int64_t all = (n + unit - 1) / unit * unit;
  return double(n) / double(all);
}

WindowBlocks window_blocks(const WindowedProduct& p, const MachineLimits& limits, int64_t rows) {
  WindowBlocks best;
  for (int64_t r = 1; r <= p.rows; r++) {
    if (p.rows % r || (rows && r != rows)) continue;
    WindowBlocks b;
    b.rows = r;
    b.used = share_of(r * p.run, limits.lanes);
    b.by_image = p.images > 1 && share_of(p.images, limits.threads) > 0.95;
    const double by_rows = share_of(p.rows / r, limits.threads);
    // Blocks of the second cache, one after the other; else all of it, before the product.
    b.apart = p.depth * r * p.run * 4 <= limits.l2 * 5 / 8 && (b.by_image || by_rows > 0.95);
    // Longer runs use what they read of the other operand more often.
    const auto worth = [](const WindowBlocks& x) { return x.used * (x.apart ? 1 : 0.95); };
    if (best.rows == 0 || (worth(b) > worth(best) - 0.01 && r * p.run <= 512)) best = b;
  }
  return best;
}

/// The operand of a product that is read through a window, shifted, spread or filled up at its ends, is copied in the order in which the
/// product reads it (im2col), where that makes long runs of lanes out of short ones.
void Chooser::windows() {
  for (size_t s = 0; s < nests_.cone.stages.size(); s++) {
    const auto p = windowed_product(nests_.cone, stage(int(s)));
    if (!p || p->uses < 16 || p->depth < 64) continue;
    if (!(p->window || p->step == Step::near) || p->step == Step::irregular) continue;
    const bool across = std::ranges::any_of(p->outputs, [&](int a) {
      return !blocks_of(nests_.cone, stage(int(s)), nests_.cone.axes[size_t(a)].symbol).empty();
    });
    if (p->run == 1 && !across) continue;
    const bool usual = across || p->step != Step::contiguous || p->run < 4 * limits_.lanes;
    if (!ask(int(s), "windows", usual, {0, 1})) continue;
    const std::string product = stage(int(s)).name, origin = p->x->origin;
    const auto name = [&](int a) { return nests_.cone.axes[size_t(a)].name; };
    const std::string value = nests_.free_name(origin + ".windows");
    std::vector<std::string> images, words{value, "root"}, sums;
    for (size_t k = 0; k + 2 < p->kept.size(); k++) images.push_back(name(p->kept[k]));
    for (int a : p->summed) sums.push_back(name(a));
    const std::string run = name(p->kept.back()),
                      row = p->kept.size() < 2 ? "" : name(p->kept[p->kept.size() - 2]);
    std::vector<int64_t> divisors;
    for (int64_t r = 1; r <= p->rows; r++)
      if (p->rows % r == 0 && r * p->run <= 1024) divisors.push_back(r);
    WindowBlocks blocks = window_blocks(*p, limits_);
    const bool by_image = p->images > 1 && share_of(p->images, limits_.threads) > 0.95;
    if (!across && blocks.rows > 0)
      if (const int64_t r = ask(int(s), "window_rows", blocks.rows, divisors); r != blocks.rows)
        blocks = window_blocks(*p, limits_, r);
    // Summed axes outside of what lies side by side in the result, and in lanes. Where the lanes go along the other operand, each row for itself.
    words.insert(words.end(), images.begin(), images.end());
    const bool split_rows = !across && !row.empty() && blocks.rows > 0 && blocks.rows < p->rows;
    if (across && !row.empty()) words.push_back(row);
    // A block of one row (where their number is a prime) is the row itself.
    if (split_rows) words.push_back(blocks.rows == 1 ? row : fmt::format("{}/{}", row, blocks.rows));
    words.insert(words.end(), sums.begin(), sums.end());
    if (!across && !row.empty() && !(split_rows && blocks.rows == 1))
      words.push_back(split_rows ? fmt::format("{}%{}", row, blocks.rows) : row);
    words.push_back(run);
    if (!try_add(DirectiveKind::materialize, {origin, value})) break;
    const int copy = int(s), reader = int(s) + 1;
    const std::string copy_name = stage(copy).name;
    std::vector<std::string> shared;
    if (split_rows) {
      const std::string outside = split(copy, row, blocks.rows).first;
      split(reader, row, blocks.rows);
      if (blocks.apart) shared.push_back(outside);
    }
    // Each row of an image, beside the whole other operand, in the second cache.
    const bool row_apart = across && !row.empty() && p->uses * p->depth * 4 <= limits_.l2 * 5 / 8 &&
                           p->depth * p->run * 4 <= limits_.l2 / 4 &&
                           (by_image || share_of(p->rows, limits_.threads) > 0.95);
    if (row_apart) shared.push_back(row);
    if (!images.empty() && (across ? by_image : blocks.by_image))
      shared.insert(shared.begin(), images.begin(), images.end());
    else if (across ? row_apart : blocks.apart)
      shared.insert(shared.end(), images.begin(), images.end());
    if (!shared.empty() && !ask(reader, "window_blocks", 1, {0, 1})) shared.clear();
    if (!shared.empty()) words[1] = shared.back();
    add(DirectiveKind::store, words);
    block_loops_[copy_name] = block_loops_[product] = shared;
    windowed_ = true;
    s++;
  }
}

} // namespace luminal::kernel
