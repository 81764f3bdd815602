// rules/pass_cost.cpp -- passes between stored values: what their loops read and compute.
#include "rules/pass_cost.h"
#include "base/check.h"
#include <algorithm>
#include <bit>
#include <utility>

namespace luminal::rules {

using egraph::Genome;
using egraph::infinite_cost;
using egraph::no_row;

namespace {

/// Variants of a pass that are kept: one for each choice of rows and stored values below it.
constexpr size_t most_variants = 8;
/// Terms in the loops of one pass, as often as different loops ask for them: compilers take more than
/// linear time, so what would be more is no kernel.
constexpr size_t most_visits = 700;

uint64_t mix(uint64_t h) {
  h = (h ^ (h >> 30)) * 0xBF58476D1CE4E5B9u;
  return (h ^ (h >> 27)) * 0x94D049BB133111EBu;
}

} // namespace

PassCost::PassCost(const RegionLoops& loops, const LoopRates& rates) : p_(loops), rates_(rates) {
  const uint32_t n = loops.problem().class_count();
  for (auto* marks : {&visit_mark_, &visit_head_, &read_mark_, &use_mark_, &inner_mark_, &look_mark_,
                      &made_mark_, &made_in_})
    marks->assign(n, 0);
  component_mark_.assign(loops.components.size(), 0);
  state_.assign(n, 0);
  alone_.resize(n);
  readers_.resize(n);
}

// ---- one pass

void PassCost::start_pass() {
  ++pass_generation_;
  looked_at_.clear();
}

void PassCost::start_cone() {
  ++cone_;
  visits_.clear();
  work_.clear();
  reads_.clear();
  uses_.clear();
  inner_.clear();
  largest_read_ = 0;
  in_order_ = 0;
  depth_ = 0;
  share_ = 1;
  fold_ = nullptr;
  infinite_ = false;
}

const LoopRow& PassCost::look(uint32_t c) {
  if (look_mark_[c] != pass_generation_) {
    look_mark_[c] = pass_generation_;
    looked_at_.emplace_back(c, state_[c]);
  }
  return p_.row_of(*genome_, c);
}

bool PassCost::visit(uint32_t c, LoopAxes loops) {
  if (visit_mark_[c] != cone_) {
    visit_mark_[c] = cone_;
    visit_head_[c] = no_row;
  }
  for (uint32_t i = visit_head_[c]; i != no_row; i = visits_[i].next)
    if (visits_[i].loops == loops) return false;
  if (visits_.size() >= most_visits) {
    infinite_ = true;
    return false;
  }
  visits_.push_back({loops, visit_head_[c]});
  visit_head_[c] = uint32_t(visits_.size() - 1);
  return true;
}

void PassCost::add_work(LoopAxes axes, double time) {
  time *= share_;
  for (Work& w : work_)
    if (w.axes == axes) {
      w.time += time;
      return;
    }
  work_.push_back({axes, time});
}

LoopAxes PassCost::under(const ViewFrame* views, LoopAxes axes) {
  for (; views; views = views->next) axes = views->view->through(axes);
  return axes;
}

/// Does it read elements of its operands again and again?
bool PassCost::is_product(uint32_t body) const {
  if (p_.row_of(*genome_, body).kind != LoopKind::map || is_stored(body)) return false;
  return std::ranges::any_of(p_.problem().children((*genome_)[body]), [&](uint32_t x) {
    return p_.axes[x] != 0 && (p_.axes[body] & ~p_.axes[x]) != 0;
  });
}

/// Do the loops make a sum for it?
bool PassCost::sums_again(uint32_t c, LoopAxes loops, std::set<std::pair<uint32_t, LoopAxes>>& seen) const {
  if (is_stored(c) || p_.is_static[c] || !seen.emplace(c, loops).second) return false;
  const LoopRow& row = p_.row_of(*genome_, c);
  const auto children = p_.problem().children((*genome_)[c]);
  switch (row.kind) {
  case LoopKind::get: {
    const LoopRow& tuple = p_.row_of(*genome_, children[0]);
    if (tuple.kind != LoopKind::fold) return false;
    const uint32_t number = p_.components_of_rows[tuple.first_component + row.index];
    return (loops & p_.components[number].axes & ~tuple.over) != 0;
  }
  case LoopKind::view: return sums_again(children[0], p_.views[row.index].loops_inside(loops), seen);
  case LoopKind::map:
    return std::ranges::any_of(children, [&](uint32_t x) { return sums_again(x, loops, seen); });
  default: return false;
  }
}

/// A product and the sum that takes it are one instruction.
void PassCost::take_product(uint32_t body, LoopAxes loops, const ViewFrame* views) {
  const LoopRow& row = p_.row_of(*genome_, body);
  if (row.kind != LoopKind::map || row.steps > 1 || p_.is_static[body] || is_stored(body)) return;
  const LoopAxes at = under(views, p_.axes[body]);
  add_work(at, -std::min(p_.volume(at), p_.volume(loops)) * rates_.step * row.steps);
}

/// `top`: the value itself is made by this pass. Work is counted at the points at which it is asked
/// for: through a window those of the window.
void PassCost::collect(uint32_t c, LoopAxes loops, const ViewFrame* views, bool top) {
  if (!visit(c, loops)) return;
  const LoopRow& row = look(c);
  const auto add_once = [&](std::vector<uint32_t>& list, std::vector<uint32_t>& marks) {
    largest_read_ = std::max(largest_read_, p_.elements[c]);
    if (marks[c] == cone_) return;
    marks[c] = cone_;
    list.push_back(c);
  };
  if (row.kind == LoopKind::input || (p_.is_static[c] && row.kind != LoopKind::constant)) {
    if (p_.elements[c] > 1 || row.kind == LoopKind::input) add_once(reads_, read_mark_);
    return;
  }
  if (!top && (is_stored(c) || row.kind == LoopKind::opaque)) return add_once(uses_, use_mark_);
  const auto children = p_.problem().children((*genome_)[c]);
  switch (row.kind) {
  case LoopKind::get: {
    const uint32_t f = children[0];
    const LoopRow& tuple = look(f);
    if (tuple.kind == LoopKind::opaque) return add_once(uses_, use_mark_);
    const auto bodies = p_.problem().children((*genome_)[f]);
    const bool scan = tuple.kind == LoopKind::scan;
    if (!scan) {
      const uint32_t number = p_.components_of_rows[tuple.first_component + row.index];
      if (!(loops & p_.components[number].axes & ~tuple.over)) // an earlier pass
        return add_once(uses_, use_mark_);
    }
    if ((!scan || !top) && inner_mark_[c] != cone_) {
      inner_mark_[c] = cone_;
      inner_.push_back(c);
    }
    if (!visit(f, loops)) return;
    // Sums that are written out stand in each other, at the same points; loops of others do not
    // stand in them, nor they in those.
    const bool apart = fold_ && (fold_->written_out || tuple.written_out) &&
                       (fold_->written_out != tuple.written_out || views);
    const LoopAxes outer = under(views, tuple.body & ~tuple.over), all = outer | tuple.over;
    if (scan) {
      in_order_ |= under(views, tuple.over);
      // The prefixes lie in memory between the scan and its reader.
      add_work(all, 2 * p_.volume(all) * bits(p_.dtypes[c]) / 8 * rates_.l3_byte);
    }
    double steps = 0;
    const double share_around = share_;
    share_ *= tuple.share;
    for (uint32_t i = 0; i < tuple.component_count; ++i) {
      const LoopComponent& component = p_.components[p_.components_of_rows[tuple.first_component + i]];
      const bool far = depth_ > 0 && is_product(component.body); // of a product in a product
      steps += component.steps * (apart ? rates_.apart : far ? rates_.far_product : 1);
      take_product(component.body, all, views);
    }
    add_work(scan ? all : outer, p_.volume(all) * steps * rates_.point);
    if (!tuple.written_out) ++depth_;
    const LoopRow* const around = std::exchange(fold_, &tuple);
    for (const uint32_t x : bodies) collect(x, loops | tuple.over, views, false);
    fold_ = around;
    share_ = share_around;
    if (!tuple.written_out) --depth_;
    return;
  }
  case LoopKind::view: {
    const LoopView& view = p_.views[row.index];
    const ViewFrame frame{&view, views};
    collect(children[0], view.loops_inside(loops), &frame, false);
    for (size_t k = 1; k < children.size(); ++k) collect(children[k], loops, views, false);
    return;
  }
  case LoopKind::map: {
    const LoopAxes at = under(views, p_.axes[c]);
    add_work(at, p_.volume(at) * row.steps * rates_.step);
    if (row.compares && std::ranges::none_of(children, [&](uint32_t x) {
          return p_.row_of(*genome_, x).kind == LoopKind::constant;
        })) {
      std::set<std::pair<uint32_t, LoopAxes>> seen;
      infinite_ |= std::ranges::any_of(children, [&](uint32_t x) { return sums_again(x, loops, seen); });
    }
    for (const uint32_t x : children) collect(x, loops, views, false);
    return;
  }
  default: return;
  }
}

double PassCost::time_of_tiles(LoopAxes outer) const {
  double out = 0;
  for (const Work& w : work_) out += w.time * p_.tiles(outer & ~w.axes, rates_.tile);
  return out;
}

void PassCost::finish(Pass& pass) const {
  pass.reads = reads_;
  pass.uses = uses_;
  pass.inner = inner_;
  if (infinite_) pass.compute = infinite_cost;
}

Pass PassCost::build_folds(std::span<const uint32_t> folds) {
  start_pass();
  start_cone();
  const LoopAxes over = look(folds[0]).over;
  union_.clear();
  bool moved = false; // partial results depend on each other
  for (const uint32_t f : folds) {
    const LoopRow& row = look(f);
    LUMINAL_CHECK(row.kind == LoopKind::fold && row.over == over, "a pass over different axes");
    for (uint32_t i = 0; i < row.component_count; ++i) {
      const uint32_t number = p_.components_of_rows[row.first_component + i];
      if (component_mark_[number] == pass_generation_) continue;
      component_mark_[number] = pass_generation_;
      union_.push_back(number);
      moved |= p_.components[number].steps > 1;
    }
  }
  fold_ = &look(folds[0]);
  share_ = 0; // the loops run where one of the folds combines
  for (const uint32_t f : folds) share_ = std::max(share_, look(f).share);
  for (const uint32_t number : union_) collect(p_.components[number].body, over, nullptr, false);

  // The outer items: an axis that not all of the heavy work varies with is cut into tiles, and the
  // rest is repeated for each.
  double heaviest = 0, points = 0;
  for (const uint32_t number : union_) {
    const LoopAxes outer = p_.components[number].axes & ~over;
    double steps = p_.components[number].steps;
    const double volume = p_.volume(outer | over);
    points = std::max(points, volume);
    take_product(p_.components[number].body, outer | over, nullptr);
    add_work(outer, volume * steps * rates_.point);
    heaviest = std::max(heaviest, p_.volume(outer));
  }
  share_ = 1;
  LoopAxes common = ~LoopAxes(0), shared = ~LoopAxes(0), all = 0;
  for (const uint32_t number : union_) {
    const LoopAxes outer = p_.components[number].axes & ~over;
    if (2 * p_.volume(outer) >= heaviest) common &= outer;
    if (outer) shared &= outer;
    all |= outer;
  }
  if (shared == ~LoopAxes(0)) shared = 0;
  Pass pass;
  pass.folds.assign(folds.begin(), folds.end());
  pass.rows = shared;
  pass.points = points;
  pass.plain = largest_read_ >= points * 0.999;
  double best = infinite_cost;
  const auto consider = [&](LoopAxes outer) {
    const double items =
        p_.volume(outer & common & ~in_order_) * p_.tiles(outer & ~common & ~in_order_, rates_.tile);
    const double time = time_of_tiles(outer) * (moved || in_order_ ? std::max(1.0, rates_.lanes / items) : 1);
    best = std::min(best, time);
  };
  consider(common);
  consider(shared);
  for (const uint32_t number : union_) consider(p_.components[number].axes & ~over);
  pass.compute = best;
  finish(pass);
  return pass;
}

Pass PassCost::build_maps(uint32_t c) {
  start_pass();
  start_cone();
  collect(c, 0, nullptr, true);
  Pass pass;
  LoopAxes again = 0; // axes of the folds that it follows
  for (const uint32_t u : uses_) {
    if (look(u).kind != LoopKind::get) continue;
    const LoopRow& tuple = look(p_.problem().children((*genome_)[u])[0]);
    if (tuple.kind == LoopKind::fold) again |= tuple.over;
  }
  again &= p_.axes[c];
  if (in_order_) {
    pass.loops_again = true;
  } else if (again) {
    start_cone();
    collect(c, again, nullptr, true);
    pass.loops_again = true;
  }
  for (const Work& w : work_) pass.compute += w.time;
  if (in_order_)
    pass.compute *= std::max(1.0, rates_.lanes / std::max(1.0, p_.volume(p_.axes[c] & ~in_order_)));
  pass.points = p_.elements[c];
  pass.rows = p_.axes[c];
  pass.plain = true;
  finish(pass);
  return pass;
}

// ---- passes that were met before

PassCost::Variants& PassCost::variants_of(std::span<const uint32_t> folds) {
  if (folds.size() == 1) return alone_[folds[0]];
  key_.assign(folds.begin(), folds.end());
  std::ranges::sort(key_);
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
    if (!std::ranges::all_of(known.looked_at,
                             [&](const auto& seen) { return state_[seen.first] == seen.second; }))
      continue;
    std::swap(places[0], places[i]); // what held last holds most often again
    known.round = round_;
    return &known.pass;
  }
  return nullptr;
}

const Pass& PassCost::keep(Variants& variants, Pass pass) {
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

// ---- what an arrangement costs

double PassCost::cost(const Genome& genome, std::span<const uint8_t> stored) {
  ++costed_;
  arrange(genome, stored);
  double total = 0;
  for (const Kernel& kernel : kernels_)
    if (kernel.alive) total += kernel.time;
  return total;
}

double PassCost::cost(const egraph::Candidate& candidate, const egraph::Evaluation& evaluation) {
  uint64_t hash = 0;
  for (const uint32_t c : evaluation.order)
    hash +=
        mix((uint64_t(c) << 32 | candidate.genome[c]) * 2 + (candidate.stored[c] != 0) + 0x9E3779B97F4A7C15u);
  const auto [at, made] = remembered_.try_emplace(hash, 0);
  if (made) at->second = cost(candidate.genome, candidate.stored);
  return at->second;
}

std::vector<uint32_t> PassCost::store_choices(const Genome& genome, std::span<const uint8_t> stored) {
  arrange(genome, stored);
  std::vector<uint32_t> out;
  for (const Kernel& kernel : kernels_)
    if (kernel.alive)
      for (const Pass* pass : kernel.folds) out.insert(out.end(), pass->inner.begin(), pass->inner.end());
  for (const auto& [c, pass] : epilogues_) out.insert(out.end(), pass->inner.begin(), pass->inner.end());
  for (uint32_t c = 0; c < stored.size(); ++c)
    if (stored[c]) out.push_back(c);
  std::ranges::sort(out);
  out.erase(std::ranges::unique(out).begin(), out.end());
  return out;
}

bool PassCost::is_opaque(uint32_t unit) const {
  return p_.row_of(*genome_, units_[unit].id).kind == LoopKind::opaque;
}

RegionPlan PassCost::plan(const Genome& genome, std::span<const uint8_t> stored) {
  RegionPlan out;
  out.seconds = cost(genome, stored) * 1e-9;
  std::vector<uint32_t> order;
  for (uint32_t k = 0; k < kernels_.size(); ++k)
    if (kernels_[k].alive) order.push_back(k);
  std::ranges::stable_sort(order, [&](uint32_t a, uint32_t b) { // by how many come before
    const auto before = [&](uint32_t k) {
      int n = 0;
      for (const uint64_t w : before_[k]) n += std::popcount(w);
      return n;
    };
    return before(a) < before(b);
  });
  for (const uint32_t k : order) {
    KernelOfRegion& made = out.kernels.emplace_back();
    made.stored = stored_by(kernels_[k]);
    made.opaque = std::ranges::any_of(kernels_[k].units, [&](uint32_t u) { return is_opaque(u); });
    for (const uint32_t c : made.stored)
      if (!p_.is_root[c] && std::ranges::all_of(readers_[c], [&](uint32_t u) { return is_opaque(u); }))
        made.open.push_back(c);
    made.seconds = kernels_[k].time * 1e-9;
    for (const Pass* pass : kernels_[k].folds) made.passes.push_back(*pass);
    for (const uint32_t c : made.stored)
      if (!p_.is_root[c]) out.stored_bytes += p_.bytes[c];
  }
  return out;
}

} // namespace luminal::rules
