// kernel/default_schedule.cpp -- a good first schedule from the axes of a cone alone.
#include "kernel/default_schedule.h"
#include "base/check.h"
#include "kernel/access.h"
#include "kernel/formula.h"
#include <algorithm>

namespace luminal::kernel {
namespace {

class Chooser {
public:
  Chooser(const Cone& cone, const MachineLimits& limits) : nests_(cone), limits_(limits) {}
  Schedule run();

private:
  bool try_add(DirectiveKind kind, std::vector<std::string> words, std::vector<int64_t> numbers = {}) {
    Directive d{kind, std::move(words), std::move(numbers)};
    Nests before = nests_;
    try {
      apply(nests_, d);
    } catch (const ScheduleFailure&) {
      nests_ = before;
      return false;
    }
    schedule_.directives.push_back(std::move(d));
    return true;
  }
  void add(DirectiveKind kind, std::vector<std::string> words, std::vector<int64_t> numbers = {}) {
    Directive d{kind, std::move(words), std::move(numbers)};
    apply(nests_, d);
    schedule_.directives.push_back(std::move(d));
  }
  const Stage& stage(int s) const { return nests_.cone.stages[size_t(s)]; }
  const StageNest& nest(int s) const { return nests_.stages[size_t(s)]; }
  std::string fresh(const std::string& wish) const { return nests_.free_name(wish); }

  void cascades();
  void epilogues();
  void loops(int s);
  std::pair<std::string, std::string> split(int s, const std::string& loop, int64_t factor);
  std::optional<std::string> make_vector(int s);
  int64_t trips(const StageLoop& l) const { return l.extent.is_constant() ? l.extent.value() : 1 << 20; }
  bool loop_reduces(int s, const StageLoop& l) const;

  Nests nests_;
  MachineLimits limits_;
  Schedule schedule_;
};

void Chooser::cascades() {
  for (bool again = true; again;) {
    again = false;
    for (auto& s : nests_.cone.stages)
      if (s.monoid && s.scan_axis < 0 && has_fold(s)) {
        add(DirectiveKind::cascade, {s.name, "root"});
        again = true;
        break;
      }
  }
}

void Chooser::epilogues() {
  // Folds that one map reads together share a nest, and the map becomes their epilogue.
  for (size_t b = 0; b < nests_.cone.stages.size(); b++) {
    const Stage& map = stage(int(b));
    if (!std::ranges::all_of(map.components,
                             [](auto& c) { return c.kind == ComponentKind::map && !c.after; }))
      continue;
    std::vector<std::string> sources;
    visit_stage(map, [&](const Formula& f) {
      if (f.kind != FormulaKind::load || nests_.cone.values[size_t(f.value)].role == ValueRole::input) return;
      int w = nests_.writer(f.value);
      if (w < 0 || !has_fold(stage(w))) return;
      for (auto& c : stage(w).components)
        if (c.out == f.value && (c.index != f.index || c.axes.size() != map.axes.size())) return;
      if (std::ranges::find(sources, stage(w).name) == sources.end()) sources.push_back(stage(w).name);
    });
    if (sources.empty()) continue;
    std::string name = map.name, first = sources[0];
    std::ranges::sort(sources, {}, [&](auto& n) { return nests_.stage(n); });
    first = sources[0];
    for (size_t i = 1; i < sources.size(); i++) try_add(DirectiveKind::fuse, {first, sources[i]});
    if (try_add(DirectiveKind::fuse, {first, name})) b = 0;
  }
}

bool Chooser::loop_reduces(int s, const StageLoop& l) const {
  for (int a : reduced_axes(stage(s)))
    if (depends_on_loop(nest(s), nests_.cone.axes[size_t(a)].symbol, l)) return true;
  return false;
}

std::pair<std::string, std::string> Chooser::split(int s, const std::string& loop, int64_t factor) {
  std::string o = fresh(loop + ".o"), i = fresh(loop + ".i");
  add(DirectiveKind::split, {stage(s).name, loop, o, i}, {factor});
  return {o, i};
}

/// Makes the loop whose steps lie side by side in memory the lanes; gives its name.
std::optional<std::string> Chooser::make_vector(int s) {
  const Stage& st = stage(s);
  auto reduced = reduced_axes(st);
  std::optional<std::string> best;
  int best_score = 0;
  for (auto& l : nest(s).loops) {
    if (!l.symbol.is_symbol() || trips(l) < 4) continue;
    bool ordered = false, reduces = loop_reduces(s, l);
    for (int a : st.ordered) ordered |= depends_on_loop(nest(s), nests_.cone.axes[size_t(a)].symbol, l);
    if (ordered) continue;
    bool fits = true;
    for (auto& c : st.components) {
      if (reduces && c.kind == ComponentKind::fold)
        fits &= c.op == Op::add || c.op == Op::max || c.op == Op::min || c.op == Op::mul;
      if (c.kind == ComponentKind::update)
        fits &= !depends_on(substitute(st.domain, nest(s).axis_values), l.symbol) &&
                holes_of(nests_.cone, std::span(&st.domain, 1)).empty();
    }
    if (st.monoid && reduces) fits = false;
    if (!fits) continue;
    AxisUse use = use_along(nests_, s, l.symbol);
    int score = use.score() * 4 + (reduces ? 0 : 1);
    if (use.strided + use.irregular > 0 || use.contiguous == 0) continue;
    if (!best || score > best_score) best = l.name, best_score = score;
  }
  if (!best) return {};
  const StageLoop* l = nest(s).find(*best);
  int64_t n = trips(*l), lanes = limits_.lanes;
  if (n > lanes) {
    auto [o, i] = split(s, *best, lanes);
    best = i;
  } else {
    int64_t power = 1;
    while (power < n) power *= 2;
    if (power != n) {
      auto [o, i] = split(s, *best, power / 2);
      best = i;
    }
  }
  return best;
}

void Chooser::loops(int s) {
  std::string name = stage(s).name;
  // Axes made of blocks are split along them, so that no division is left.
  for (int a : std::vector<int>(stage(s).axes)) {
    auto axis = nests_.cone.axes[size_t(a)];
    auto blocks = blocks_of(nests_.cone, stage(s), axis.symbol);
    std::string inner = axis.name;
    int64_t extent = axis.extent.is_constant() ? axis.extent.value() : 0;
    for (size_t b = blocks.size(); b-- > 0;) {
      if (extent && (extent <= blocks[b] || extent % blocks[b])) continue;
      if (!nest(s).find(inner)) break;
      auto [o, i] = split(s, inner, blocks[b]);
      inner = i;
      extent = blocks[b];
    }
  }
  auto vector = make_vector(s);
  // Kept loops outside, reduced ones inside, lanes innermost.
  std::vector<std::string> kept, reduced;
  bool folds = has_fold(stage(s)) || stage(s).scan_axis >= 0;
  for (auto& l : nest(s).loops) {
    if (vector && l.name == *vector) continue;
    (folds && loop_reduces(s, l) ? reduced : kept).push_back(l.name);
  }
  std::vector<std::string> order{name};
  order.insert(order.end(), kept.begin(), kept.end());
  order.insert(order.end(), reduced.begin(), reduced.end());
  if (vector) order.push_back(*vector);
  if (order.size() > 2) add(DirectiveKind::order, order);
  if (vector) add(DirectiveKind::vector, {name, *vector});
  for (auto& k : kept) {
    const StageLoop* l = nest(s).find(k);
    if (l->symbol.is_symbol() && trips(*l) > 1 && try_add(DirectiveKind::parallel, {name, k})) break;
  }
}

Schedule Chooser::run() {
  cascades();
  epilogues();
  for (size_t s = 0; s < nests_.cone.stages.size(); s++) loops(int(s));
  return schedule_;
}

} // namespace

Schedule default_schedule(const Cone& cone, const MachineLimits& limits) {
  return Chooser(cone, limits).run();
}

} // namespace luminal::kernel
