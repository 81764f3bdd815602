// kernel/choose_matmul.cpp -- the default schedule of large matrix products: cache blocks, packed panels, a register tile.
#include "kernel/chooser.h"
#include "kernel/formula.h"
#include <algorithm>

namespace luminal::kernel {

std::optional<Chooser::Product> Chooser::product(int s) const {
  const Stage& st = stage(s);
  if (st.monoid || !st.domain.is_constant(1)) return {};
  const Component* fold = nullptr;
  for (auto& c : st.components) {
    if (c.kind == ComponentKind::fold && fold) return {};
    if (c.kind == ComponentKind::fold) fold = &c;
    if (c.kind != ComponentKind::fold && !c.after) return {};
  }
  if (!fold || fold->op != Op::add) return {};
  std::vector<const Formula*> loads;
  visit(fold->body, [&](const Formula& f) {
    if (f.kind == FormulaKind::load) loads.push_back(&f);
  });
  if (loads.size() != 2) return {};
  const auto at = [&](const std::vector<Expr>& index) { // over the loops
    std::vector<Expr> out;
    for (Expr e : index) out.push_back(substitute(e, nest(s).axis_values));
    return out;
  };
  for (const Formula* f : loads)
    if (!f->guard.is_constant(1)) return {};
  const StageLoop *m = nullptr, *n = nullptr, *k = nullptr;
  const Formula* panel = nullptr;
  const StageLoop* other = nullptr; // beside m, where nothing lies side by side along the columns
  for (auto& l : nest(s).loops) {
    if (!l.symbol.is_symbol()) continue;
    if (loop_reduces(s, l)) {
      if (k) return {};
      k = &l;
      continue;
    }
    bool first = false, second = false;
    for (Expr e : at(loads[0]->index)) first |= depends_on(e, l.symbol);
    for (Expr e : at(loads[1]->index)) second |= depends_on(e, l.symbol);
    if (first == second) {
      if (first) return {}; // a batch: the ordinary way
      continue;
    }
    const Formula* moving = first ? loads[0] : loads[1];
    Step step = step_of(nests_.cone, moving->value, at(moving->index), l.symbol);
    if (step == Step::contiguous && !n)
      n = &l, panel = moving;
    else if (!m)
      m = &l;
    else if (!other)
      other = &l;
    else
      return {};
  }
  // Rows of both operands run along the sum: the panels of one are turned as they are copied, where enough rows of the other use them.
  const bool across = !n && m && other && k;
  if (across) {
    const auto written = [&](const StageLoop* l) {
      return std::ranges::all_of(st.components, [&](auto& c) {
        return c.out < 0 || step_of(nests_.cone, c.out, at(c.index), l->symbol) == Step::contiguous;
      });
    };
    n = written(m) ? m : other;
    m = n == m ? other : m;
    other = nullptr;
    panel =
        loads[std::ranges::any_of(at(loads[0]->index), [&](Expr e) { return depends_on(e, n->symbol); }) ? 0
                                                                                                         : 1];
    if (step_of(nests_.cone, panel->value, at(panel->index), k->symbol) != Step::contiguous ||
        !m->extent.is_constant() || m->extent.value() < 48)
      return {};
  }
  if (other) return {};
  if (!m || !n || !k || !m->extent.is_constant() || !n->extent.is_constant() || !k->extent.is_constant())
    return {};
  bool open = true;
  for (auto& c : st.components) {
    open &= !c.after;
    if (c.out >= 0 && step_of(nests_.cone, c.out, at(c.index), n->symbol) != Step::contiguous) return {};
  }
  // The copy has loops of its own, one for each axis.
  const auto is_axis = [&](const StageLoop& l) {
    return std::ranges::any_of(st.axes,
                               [&](int a) { return nests_.cone.axes[size_t(a)].symbol == l.symbol; });
  };
  const bool packable = is_axis(*n) && is_axis(*k) &&
                        nests_.cone.values[size_t(panel->value)].dtype == DType::f32 &&
                        panel->dtype == DType::f32;
  if (across && !packable) return {};
  return Product{
      m->name,  n->name, k->name, m->extent.value(), n->extent.value(), k->extent.value(), panel->value,
      packable, open,    across};
}

/// Both sides large and static: cache blocks, packed panels, a register tile.
bool Chooser::matmul(int s) {
  const std::optional<Product> p = product(s);
  const int64_t lanes = limits_.lanes;
  if (!p || p->rows < 4 || p->columns < lanes || p->depth < 8) return false;
  const auto round_up = [](int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; };
  if (!ask(s, "blocked", p->rows >= 32 && p->columns >= 4 * lanes && p->depth >= 32, {0, 1})) return false;

  // The register tile: accumulators, the vectors of one step, one broadcast.
  const bool wide = limits_.vector_registers >= 32;
  const int64_t vectors = ask(s, "vectors", wide ? 4 : 2,
                              wide ? std::vector<int64_t>{1, 2, 3, 4} : std::vector<int64_t>{1, 2, 3});
  std::vector<int64_t> tiles;
  for (int64_t r : {1, 2, 3, 4, 5, 6, 8, 10, 12, 14})
    if (r * vectors >= 8 && (r + 1) * vectors < limits_.vector_registers) tiles.push_back(r);
  int64_t usual_rows = wide ? 4 : 6;
  while ((usual_rows + 1) * vectors >= limits_.vector_registers) --usual_rows;
  const int64_t rows = ask(s, "rows", usual_rows, tiles), columns = vectors * lanes;

  // Small operands are read in place; larger ones in panels. Threads share the columns, and each packs its own; or the rows.
  const bool pack =
      p->across || (p->packable && ask(s, "pack", p->depth * p->columns * 4 > limits_.l2, {0, 1}));
  const bool few_columns =
      p->columns < 2 * limits_.threads * columns && p->rows >= 2 * limits_.threads * rows;
  const bool by_rows = limits_.threads > 1 && ask(s, "by_rows", few_columns && !pack, {0, 1});
  const int64_t sharers = by_rows ? 1 : limits_.threads;
  int64_t usual_share = round_up((p->columns + sharers - 1) / sharers, columns);
  std::vector<int64_t> shares{usual_share};
  while (usual_share > 1024) shares.push_back(usual_share = round_up(usual_share / 2, columns));
  if (usual_share > 2 * columns) shares.push_back(round_up(usual_share / 2, columns));
  const int64_t share = ask(s, "share", usual_share, shares);
  // The other operand's block and the tile stay in the second cache, a panel of the depth in the first one's reach.
  std::vector<int64_t> depths;
  for (int64_t d : {256, 512, 1024, 2048})
    if (p->open && d < p->depth) depths.push_back(d);
  const int64_t depth = ask(s, "depth", p->open && p->depth > 1024 ? 1024 : p->depth, depths);
  const int64_t fits =
      std::clamp<int64_t>(limits_.l2 * 9 / 10 / (4 * depth) / rows * rows, rows * 4, 240 / rows * rows);
  std::vector<int64_t> blocks;
  for (int64_t b : {32, 64, 128, 192})
    if (b / rows * rows < p->rows) blocks.push_back(b / rows * rows);
  int64_t usual_block = fits;
  if (by_rows) // as many blocks for each thread
    for (int64_t parts = limits_.threads;; parts += limits_.threads)
      if ((usual_block = round_up((p->rows + parts - 1) / parts, rows)) <= fits) break;
  const int64_t block = ask(s, "block", usual_block, blocks);

  const std::string name = stage(s).name, value = nests_.cone.values[size_t(p->panel)].name;
  const auto fresh = [&](const std::string& wish) { return nests_.free_name(wish); };
  std::string copy;
  if (pack) {
    copy = fresh(value + ".panels");
    add(DirectiveKind::stage, {value, copy});
    s++;
  }
  const auto split_all = [&](const std::string& loop, const std::string& o, const std::string& i, int64_t f) {
    add(DirectiveKind::split, {name, loop, o, i}, {f});
    if (pack && nests_.stages[size_t(s - 1)].find(loop)) add(DirectiveKind::split, {copy, loop, o, i}, {f});
  };
  const std::string nc = fresh(p->n + ".c"), nn = fresh(p->n + ".n"), np = fresh(p->n + ".p"),
                    ni = fresh(p->n + ".i"), nv = fresh(p->n + ".v"), nlane = fresh(p->n + ".l"),
                    kc = fresh(p->k + ".c"), ki = fresh(p->k + ".i"), mc = fresh(p->m + ".c"),
                    mm = fresh(p->m + ".m"), mt = fresh(p->m + ".t"), mi = fresh(p->m + ".i");
  split_all(p->n, nc, nn, share);
  split_all(nn, np, ni, columns);
  split_all(ni, nv, nlane, lanes);
  split_all(p->k, kc, ki, depth);
  add(DirectiveKind::split, {name, p->m, mc, mm}, {block});
  add(DirectiveKind::split, {name, mm, mt, mi}, {rows});
  if (pack) {
    add(DirectiveKind::order, {copy, nc, kc, np, ki, nv, nlane});
    add(DirectiveKind::store,
        {copy, kc, p->n + "/" + std::to_string(columns), p->k, p->n + "%" + std::to_string(columns)});
    add(DirectiveKind::vector, {copy, nlane});
    add(DirectiveKind::unroll, {copy, nv});
    add(DirectiveKind::at, {name, kc});
    add(DirectiveKind::parallel, {copy, by_rows ? np : nc});
  }
  if (by_rows && !pack)
    add(DirectiveKind::order, {name, mc, nc, kc, np, mt, ki, mi, nv, nlane});
  else
    add(DirectiveKind::order, {name, nc, kc, mc, np, mt, ki, mi, nv, nlane});
  add(DirectiveKind::parallel, {name, by_rows ? mc : nc});
  add(DirectiveKind::vector, {name, nlane});
  add(DirectiveKind::unroll, {name, mi, nv});
  add(DirectiveKind::jam, {name, ki}, {4});
  done_ = s;
  return true;
}

} // namespace luminal::kernel
