// rules/folds_cost.cpp -- cones between stored values, and their joining.
#include "folds_cost.h"
#include "base/check.h"
#include <algorithm>

namespace luminal::egraph::folds {
namespace {
/// Variants of a pass that are kept: one for each choice of rows and stored values below it.
constexpr size_t most_variants = 8;

uint64_t mix(uint64_t h) {
  h = (h ^ (h >> 30)) * 0xBF58476D1CE4E5B9u;
  return (h ^ (h >> 27)) * 0x94D049BB133111EBu;
}
} // namespace

PassCost::PassCost(const LoopProblem& problem, const Machine& machine, bool join)
    : p_(problem), machine_(machine), join_(join) {
  const uint32_t n = problem.problem().class_count();
  for (auto* marks : {&visit_mark_, &visit_head_, &read_mark_, &use_mark_, &inner_mark_, &look_mark_,
                      &unit_of_, &unit_mark_, &made_mark_, &epilogue_of_})
    marks->assign(n, 0);
  component_mark_.assign(problem.components.size(), 0);
  state_.assign(n, 0);
  alone_.resize(n);
}

// ---- one pass: what its loops read and do ----

void PassCost::start_pass() {
  ++pass_generation_;
  looked_at_.clear();
}

void PassCost::start_cone() {
  ++cone_;
  visits_.clear();
  work_.clear();
  uses_.clear();
  inner_.clear();
  nested_.clear();
  reads_ = 0;
  in_order_ = 0;
}

const LoopRow& PassCost::look(uint32_t c) {
  if (look_mark_[c] != pass_generation_) {
    look_mark_[c] = pass_generation_;
    looked_at_.emplace_back(c, state_[c]);
  }
  return p_.row_of(*genome_, c);
}

bool PassCost::visit(uint32_t c, AxisSet loops) {
  if (visit_mark_[c] != cone_) {
    visit_mark_[c] = cone_;
    visit_head_[c] = no_row;
  }
  for (uint32_t i = visit_head_[c]; i != no_row; i = visits_[i].next)
    if (visits_[i].loops == loops) return false;
  visits_.push_back({loops, visit_head_[c]});
  visit_head_[c] = uint32_t(visits_.size() - 1);
  return true;
}

void PassCost::add_use(uint32_t c) {
  if (use_mark_[c] == cone_) return;
  use_mark_[c] = cone_;
  uses_.push_back(c);
}

void PassCost::add_inner(uint32_t c) {
  if (inner_mark_[c] == cone_) return;
  inner_mark_[c] = cone_;
  inner_.push_back(c);
}

void PassCost::add_work(AxisSet axes, double flops) {
  for (Work& w : work_)
    if (w.axes == axes) {
      w.flops += flops;
      return;
    }
  work_.push_back({axes, flops});
}

AxisSet PassCost::under(const ViewFrame* views, AxisSet axes) {
  for (; views; views = views->next) axes = views->view->through(axes);
  return axes;
}

void PassCost::collect(uint32_t c, AxisSet loops, const ViewFrame* views, bool top) {
  if (!visit(c, loops)) return;
  const LoopRow& row = look(c);
  if (row.kind == LoopKind::input || (p_.is_static[c] && row.kind != LoopKind::constant)) {
    if (read_mark_[c] != cone_) reads_ += p_.sizes[c];
    read_mark_[c] = cone_;
    return;
  }
  if (!top && is_stored(c)) {
    add_use(c);
    return;
  }
  const auto children = p_.problem().children((*genome_)[c]);
  switch (row.kind) {
  case LoopKind::get: {
    const uint32_t f = children[0];
    const LoopRow& tuple = look(f);
    const auto inside = p_.problem().children((*genome_)[f]);
    const bool scan = tuple.kind == LoopKind::scan;
    if (!scan) {
      const uint32_t number = p_.components_of_rows[tuple.first_component + row.index];
      if (!(loops & p_.components[number].axes &
            ~tuple.over)) { // does not vary with the loops: an earlier pass
        add_use(c);
        return;
      }
    }
    if (!scan || !top) add_inner(c);
    if (!visit(f, loops)) return;
    if (scan)
      in_order_ |= under(views, tuple.over);
    else
      nested_.emplace_back(f, loops);
    add_work(under(views, scan ? tuple.body : tuple.body & ~tuple.over),
             p_.volume(tuple.body) * tuple.component_count);
    for (const uint32_t x : inside) collect(x, loops | tuple.over, views, false);
    return;
  }
  case LoopKind::view: {
    const LoopView& view = p_.views[row.index];
    const ViewFrame frame{&view, views};
    collect(children[0], loops & view.reads ? loops | view.axis : loops, &frame, false);
    return;
  }
  case LoopKind::take:
    add_work(under(views, p_.axes[c]), p_.sizes[c]);
    collect(children[0], loops, views, false);
    collect(children[1], loops | row.over, views, false);
    return;
  case LoopKind::map:
    add_work(under(views, p_.axes[c]), p_.sizes[c] * row.flops);
    for (const uint32_t x : children) collect(x, loops, views, false);
    return;
  default: return;
  }
}

double PassCost::flops_of_tiles(AxisSet outer) const {
  double out = 0;
  for (const Work& w : work_) out += w.flops * p_.tiles(outer & ~w.axes, machine_.tile);
  return out;
}

void PassCost::finish(Pass& pass) const {
  pass.reads = reads_;
  pass.uses = uses_;
  pass.inner = inner_;
  pass.nested = nested_;
  pass.price =
      (pass.reads + pass.flops / machine_.flops_per_read) * std::max(1.0, machine_.lanes / pass.items) +
      machine_.launch;
  for (const uint32_t c : pass.uses) pass.price += 2 * p_.sizes[c];
}

Pass PassCost::build_folds(std::span<const uint32_t> folds) {
  start_pass();
  start_cone();
  const AxisSet over = look(folds[0]).over;
  union_.clear();
  for (const uint32_t f : folds) {
    const LoopRow& row = look(f);
    LUMINAL_CHECK(row.kind == LoopKind::fold && row.over == over);
    for (uint32_t i = 0; i < row.component_count; ++i) {
      const uint32_t number = p_.components_of_rows[row.first_component + i];
      if (component_mark_[number] == pass_generation_) continue;
      component_mark_[number] = pass_generation_;
      union_.push_back(number);
    }
  }
  for (const uint32_t number : union_) collect(p_.components[number].body, over, nullptr, false);

  // The outer items: an axis that not all of the heavy work varies with is cut into tiles, and the
  // rest is repeated for each.
  double heaviest = 0;
  for (const uint32_t number : union_) {
    const AxisSet outer = p_.components[number].axes & ~over;
    add_work(outer, p_.volume(outer | over) * p_.components[number].work);
    heaviest = std::max(heaviest, p_.volume(outer));
  }
  AxisSet common = ~AxisSet(0), shared = ~AxisSet(0);
  for (const uint32_t number : union_) {
    const AxisSet outer = p_.components[number].axes & ~over;
    if (2 * p_.volume(outer) >= heaviest) common &= outer;
    if (outer) shared &= outer;
  }
  if (shared == ~AxisSet(0)) shared = 0;
  Pass pass;
  pass.folds.assign(folds.begin(), folds.end());
  double best = infinite_cost;
  const auto consider = [&](AxisSet outer) {
    const double flops = flops_of_tiles(outer);
    const double items =
        p_.volume(outer & common & ~in_order_) * p_.tiles(outer & ~common & ~in_order_, machine_.tile);
    const double time = (reads_ + flops / machine_.flops_per_read) * std::max(1.0, machine_.lanes / items);
    if (!(time < best || (time == best && flops < pass.flops))) return;
    best = time;
    pass.flops = flops;
    pass.items = items;
  };
  consider(common);
  consider(shared);
  AxisSet last = common;
  for (const uint32_t number : union_) {
    const AxisSet outer = p_.components[number].axes & ~over;
    if (outer != last) consider(outer);
    last = outer;
  }
  finish(pass);
  return pass;
}

Pass PassCost::build_maps(uint32_t c) {
  start_pass();
  start_cone();
  collect(c, 0, nullptr, true);
  Pass pass;
  pass.items = machine_.lanes;
  AxisSet again = 0; // axes of the folds that it follows
  for (const uint32_t u : uses_) {
    if (look(u).kind != LoopKind::get) continue;
    const LoopRow& tuple = look(p_.problem().children((*genome_)[u])[0]);
    if (tuple.kind == LoopKind::fold) again |= tuple.over;
  }
  again &= p_.axes[c];
  if (in_order_) {
    pass.items = p_.volume(p_.axes[c] & ~in_order_);
    pass.loops_again = true;
  } else if (again) {
    start_cone();
    collect(c, again, nullptr, true);
    pass.items = p_.sizes[c];
    pass.loops_again = true;
  }
  for (const Work& w : work_) pass.flops += w.flops;
  finish(pass);
  return pass;
}

// ---- passes that were met before ----

PassCost::Variants& PassCost::variants_of(std::span<const uint32_t> folds) {
  if (folds.size() == 1) return alone_[folds[0]];
  key_.assign(folds.begin(), folds.end());
  std::sort(key_.begin(), key_.end());
  uint64_t hash = 0;
  for (const uint32_t c : key_) hash = mix(hash + c + 1);
  auto& same_hash = joint_by_hash_[hash];
  for (Variants& v : same_hash)
    if (v.key == key_) return v;
  return same_hash.emplace_back(Variants{key_, {}});
}

const Pass* PassCost::find_known(Variants& variants) {
  auto& places = variants.places;
  for (size_t i = 0; i < places.size(); ++i) {
    Known& known = known_[places[i]];
    if (!std::all_of(known.looked_at.begin(), known.looked_at.end(),
                     [&](const auto& seen) { return state_[seen.first] == seen.second; }))
      continue;
    std::swap(places[0], places[i]); // what held last holds most often again
    known.round = round_;
    ++looked_up_;
    return &known.pass;
  }
  return nullptr;
}

const Pass& PassCost::keep(Variants& variants, Pass pass) {
  ++built_;
  uint32_t place = no_row;
  if (variants.places.size() >= most_variants) // the longest unused one goes, but none of the present choice
    for (const uint32_t i : variants.places)
      if (known_[i].round != round_ && (place == no_row || known_[i].round < known_[place].round)) place = i;
  if (place == no_row) {
    place = uint32_t(known_.size());
    known_.emplace_back();
    variants.places.push_back(place);
  }
  Known& known = known_[place];
  known.looked_at = looked_at_;
  known.pass = std::move(pass);
  known.round = round_;
  return known.pass;
}

const Pass& PassCost::fold_pass(std::span<const uint32_t> folds) {
  Variants& variants = variants_of(folds);
  if (const Pass* known = find_known(variants)) return *known;
  return keep(variants, build_folds(folds));
}

const Pass& PassCost::map_pass(uint32_t c) {
  if (const Pass* known = find_known(alone_[c])) return *known;
  return keep(alone_[c], build_maps(c));
}

// ---- the passes of a choice ----

void PassCost::add_makers(uint32_t c, std::vector<uint32_t>& units) {
  const uint32_t row = (*genome_)[c];
  if (p_.rows[row].kind == LoopKind::get) {
    const uint32_t f = p_.problem().children(row)[0];
    if (p_.row_of(*genome_, f).kind == LoopKind::fold) {
      units.push_back(unit_of_[f]);
      return;
    }
  }
  const Pass* maps = epilogues_[epilogue_of_[c]].second;
  if (maps->loops_again)
    units.push_back(unit_of_[c]);
  else
    for (const uint32_t u : maps->uses) add_makers(u, units);
}

void PassCost::order_after(uint32_t unit) {
  if (ordered_[unit]) return;
  ordered_[unit] = 1;
  for (const uint32_t earlier : before_[unit]) order_after(earlier);
  place_[unit] = uint32_t(order_.size());
  order_.push_back(unit);
}

void PassCost::order_units() {
  const auto n = uint32_t(units_.size());
  if (before_.size() < n) before_.resize(n);
  for (uint32_t u = 0; u < n; ++u) {
    before_[u].clear();
    for (const uint32_t c : units_[u].pass->uses) add_makers(c, before_[u]);
    auto& list = before_[u];
    std::sort(list.begin(), list.end(), [&](uint32_t a, uint32_t b) { return units_[a].id < units_[b].id; });
    list.erase(std::unique(list.begin(), list.end()), list.end());
  }
  ordered_.assign(n, 0);
  place_.assign(n, 0);
  order_.clear();
  todo_.resize(n);
  for (uint32_t u = 0; u < n; ++u) todo_[u] = u;
  std::sort(todo_.begin(), todo_.end(), [&](uint32_t a, uint32_t b) { return units_[a].id < units_[b].id; });
  for (const uint32_t u : todo_) order_after(u);
}

void PassCost::join_passes() {
  graph_.clear();
  group_pass_.clear();
  for (const uint32_t u : order_) {
    makers_.clear();
    for (const uint32_t earlier : before_[u]) makers_.push_back(place_[earlier]);
    graph_.add(makers_);
    group_pass_.push_back(units_[u].pass);
  }
  if (!join_) return;
  const auto joint = [&](std::span<const uint32_t> group, uint32_t newcomer) -> const Pass& {
    union_key_.clear();
    for (const uint32_t member : group) union_key_.push_back(units_[order_[member]].id);
    union_key_.push_back(units_[order_[newcomer]].id);
    return fold_pass(union_key_);
  };
  join_greedily(
      graph_,
      [&](std::span<const uint32_t> group, uint32_t newcomer) {
        const Unit &first = units_[order_[group[0]]], &unit = units_[order_[newcomer]];
        if (!first.fold || !unit.fold ||
            p_.row_of(*genome_, first.id).over != p_.row_of(*genome_, unit.id).over)
          return -infinite_cost;
        return unit.pass->price + group_pass_[group[0]]->price - joint(group, newcomer).price;
      },
      [&](std::span<const uint32_t> group, uint32_t newcomer) {
        group_pass_[group[0]] = &joint(group, newcomer);
      });
}

void PassCost::arrange(const Genome& genome, std::span<const uint8_t> stored) {
  genome_ = &genome;
  stored_ = stored;
  for (uint32_t c = 0; c < state_.size(); ++c) state_[c] = genome[c] * 2 + (stored[c] != 0);
  ++round_;
  units_.clear();
  epilogues_.clear();
  const auto roots = p_.problem().roots();
  todo_.assign(roots.begin(), roots.end());
  while (!todo_.empty()) { // values that somebody reads
    const uint32_t c = todo_.back();
    todo_.pop_back();
    if (made_mark_[c] == round_) continue;
    made_mark_[c] = round_;
    const Pass* pass = nullptr;
    const uint32_t row = genome[c];
    const uint32_t f = p_.rows[row].kind == LoopKind::get ? p_.problem().children(row)[0] : no_row;
    if (f != no_row && p_.row_of(genome, f).kind == LoopKind::fold) {
      if (unit_mark_[f] == round_) continue;
      unit_mark_[f] = round_;
      pass = &fold_pass({&f, 1});
      unit_of_[f] = uint32_t(units_.size());
      units_.push_back({f, pass, true});
    } else {
      pass = &map_pass(c);
      if (pass->loops_again) {
        unit_of_[c] = uint32_t(units_.size());
        units_.push_back({c, pass, false});
      }
      epilogue_of_[c] = uint32_t(epilogues_.size());
      epilogues_.emplace_back(c, pass);
    }
    todo_.insert(todo_.end(), pass->uses.begin(), pass->uses.end());
  }
  order_units();
  join_passes();
}

/// What an epilogue reads from passes other than the one that it runs in.
double PassCost::traffic(const Pass& epilogue) {
  double all = 0, most = 0;
  size_t count = 0;
  sizes_.clear();
  for (const uint32_t u : epilogue.uses) {
    if (sources_.size() <= count) sources_.emplace_back();
    auto& groups = sources_[count];
    groups.clear();
    add_makers(u, groups);
    for (uint32_t& unit : groups) unit = graph_.group(place_[unit]);
    std::sort(groups.begin(), groups.end());
    groups.erase(std::unique(groups.begin(), groups.end()), groups.end());
    const auto same =
        size_t(std::find(sources_.begin(), sources_.begin() + ptrdiff_t(count), groups) - sources_.begin());
    if (same == count) {
      ++count;
      sizes_.push_back(0);
    }
    sizes_[same] += 2 * p_.sizes[u];
    all += 2 * p_.sizes[u];
    most = std::max(most, sizes_[same]);
  }
  return all - most;
}

double PassCost::cost(const Genome& genome, std::span<const uint8_t> stored) {
  ++costed_;
  arrange(genome, stored);
  double total = 0;
  for (uint32_t g = 0; g < graph_.size(); ++g)
    if (graph_.group(g) == g) total += group_pass_[g]->price;
  for (const auto& [c, pass] : epilogues_)
    if (!pass->loops_again) total += pass->reads + pass->flops / machine_.flops_per_read + traffic(*pass);
  return total;
}

double PassCost::cost(const Candidate& candidate, const Evaluation& evaluation) {
  uint64_t hash = 0;
  for (const uint32_t c : evaluation.order)
    hash +=
        mix((uint64_t(c) << 32 | candidate.genome[c]) * 2 + (candidate.stored[c] != 0) + 0x9E3779B97F4A7C15u);
  const auto [at, made] = remembered_.try_emplace(hash, 0);
  if (made) at->second = cost(candidate.genome, candidate.stored);
  return at->second;
}

Plan PassCost::plan(const Genome& genome, std::span<const uint8_t> stored) {
  Plan out;
  out.cost = cost(genome, stored);
  ++cone_;
  for (const uint32_t g : graph_.order()) {
    const Pass& pass = *group_pass_[g];
    out.passes.push_back(pass);
    out.reads += pass.reads;
    for (const uint32_t c : pass.uses) {
      if (use_mark_[c] == cone_) continue;
      use_mark_[c] = cone_;
      out.stored += p_.sizes[c];
    }
  }
  for (const auto& [c, pass] : epilogues_)
    if (!pass->loops_again) out.epilogues.emplace_back(c, *pass);
  return out;
}

std::vector<uint32_t> PassCost::store_choices(const Genome& genome, std::span<const uint8_t> stored) {
  arrange(genome, stored);
  std::vector<uint32_t> out;
  for (uint32_t g = 0; g < graph_.size(); ++g)
    if (graph_.group(g) == g)
      out.insert(out.end(), group_pass_[g]->inner.begin(), group_pass_[g]->inner.end());
  for (const auto& [c, pass] : epilogues_) out.insert(out.end(), pass->inner.begin(), pass->inner.end());
  for (uint32_t c = 0; c < stored.size(); ++c)
    if (stored[c]) out.push_back(c);
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

} // namespace luminal::egraph::folds
