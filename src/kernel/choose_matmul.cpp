// kernel/choose_matmul.cpp -- the default schedule of large matrix products: cache blocks, packed panels, a register tile.
#include "kernel/chooser.h"
#include "kernel/formula.h"
#include <algorithm>

namespace luminal::kernel {

/// sum over k of a product of two loads, one of which runs along n side by side: both sides large and static.
bool Chooser::matmul(int s) {
  const Stage& st = stage(s);
  if (st.monoid || !st.domain.is_constant(1)) return false;
  const Component* fold = nullptr;
  for (auto& c : st.components) {
    if (c.kind == ComponentKind::fold && fold) return false;
    if (c.kind == ComponentKind::fold) fold = &c;
    if (c.kind != ComponentKind::fold && !c.after) return false;
  }
  if (!fold || fold->op != Op::add) return false;
  std::vector<const Formula*> loads;
  visit(fold->body, [&](const Formula& f) {
    if (f.kind == FormulaKind::load) loads.push_back(&f);
  });
  if (loads.size() != 2 || reduced_axes(st).size() != 1) return false;
  const StageLoop *m = nullptr, *n = nullptr, *k = nullptr;
  const Formula* panel = nullptr; // runs along n
  for (auto& l : nest(s).loops) {
    if (!l.symbol.is_symbol()) continue;
    if (loop_reduces(s, l)) {
      k = &l;
      continue;
    }
    bool first = false, second = false;
    for (Expr e : loads[0]->index) first |= depends_on(e, l.symbol);
    for (Expr e : loads[1]->index) second |= depends_on(e, l.symbol);
    if (first == second) {
      if (first) return false; // a batch: the ordinary way
      continue;
    }
    const Formula* moving = first ? loads[0] : loads[1];
    Step step =
        step_of(nests_.cone, nests_.cone.values[size_t(moving->value)].shape, moving->index, l.symbol);
    if (step == Step::contiguous && !n)
      n = &l, panel = moving;
    else if (!m)
      m = &l;
    else
      return false;
  }
  if (!m || !n || !k || !m->extent.is_constant() || !n->extent.is_constant() || !k->extent.is_constant())
    return false;
  int64_t M = m->extent.value(), N = n->extent.value(), K = k->extent.value(), lanes = limits_.lanes;
  if (M < 32 || N < 4 * lanes || K < 32) return false;
  for (auto& c : st.components)
    if (c.out >= 0 &&
        step_of(nests_.cone, nests_.cone.values[size_t(c.out)].shape, c.index, n->symbol) != Step::contiguous)
      return false;
  int64_t element = bits(nests_.cone.values[size_t(panel->value)].dtype) / 8;
  // Small operands are read in place; larger ones in panels, which each worker packs for its share of the columns.
  bool pack = K * N * element > limits_.l2 && nests_.cone.values[size_t(panel->value)].dtype == DType::f32 &&
              panel->dtype == DType::f32;
  bool wide = limits_.vector_registers >= 32;
  int64_t rows = wide ? 4 : 6, vectors = wide ? 4 : 2, columns = vectors * lanes;
  int64_t share = (N + limits_.threads - 1) / limits_.threads;
  share = std::max(columns, (share + columns - 1) / columns * columns);
  while (share > 1024) share = (share / 2 + columns - 1) / columns * columns;
  // The other operand's block and the tile stay in the second cache, a panel of the depth in the first one's reach.
  int64_t depth = K, after = 0;
  for (auto& c : st.components) after += c.after;
  if (after == 0 && K > 1024) depth = 1024;
  int64_t block =
      std::clamp<int64_t>(limits_.l2 * 9 / 10 / (4 * depth) / rows * rows, rows * 4, 240 / rows * rows);
  std::string name = st.name, ml = m->name, nl = n->name, kl = k->name,
              value = nests_.cone.values[size_t(panel->value)].name, copy;
  if (pack) {
    copy = nests_.free_name(value + ".panels");
    add(DirectiveKind::stage, {value, copy});
    s++;
  }
  auto split_all = [&](const std::string& loop, const std::string& o, const std::string& i, int64_t f) {
    add(DirectiveKind::split, {name, loop, o, i}, {f});
    if (pack && nests_.stages[size_t(s - 1)].find(loop)) add(DirectiveKind::split, {copy, loop, o, i}, {f});
  };
  auto fresh = [&](const std::string& wish) { return nests_.free_name(wish); };
  std::string nc = fresh(nl + ".c"), nn = fresh(nl + ".n"), np = fresh(nl + ".p"), ni = fresh(nl + ".i"),
              nv = fresh(nl + ".v"), nlane = fresh(nl + ".l");
  std::string kc = fresh(kl + ".c"), ki = fresh(kl + ".i"), mc = fresh(ml + ".c"), mm = fresh(ml + ".m"),
              mt = fresh(ml + ".t"), mi = fresh(ml + ".i");
  split_all(nl, nc, nn, share);
  split_all(nn, np, ni, columns);
  split_all(ni, nv, nlane, lanes);
  split_all(kl, kc, ki, depth);
  add(DirectiveKind::split, {name, ml, mc, mm}, {block});
  add(DirectiveKind::split, {name, mm, mt, mi}, {rows});
  if (pack) {
    add(DirectiveKind::order, {copy, nc, kc, np, ki, nv, nlane});
    add(DirectiveKind::store,
        {copy, kc, nl + "/" + std::to_string(columns), kl, nl + "%" + std::to_string(columns)});
    add(DirectiveKind::vector, {copy, nlane});
    add(DirectiveKind::unroll, {copy, nv});
    add(DirectiveKind::at, {name, kc});
    add(DirectiveKind::parallel, {copy, nc});
  }
  add(DirectiveKind::order, {name, nc, kc, mc, np, mt, ki, mi, nv, nlane});
  add(DirectiveKind::parallel, {name, nc});
  add(DirectiveKind::vector, {name, nlane});
  add(DirectiveKind::unroll, {name, mi, nv});
  add(DirectiveKind::jam, {name, ki}, {4});
  done_ = s;
  return true;
}

} // namespace luminal::kernel
