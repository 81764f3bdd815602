// rules/find_plans.cpp -- starts and moves of the search.
#include "rules/find_plans.h"
#include "base/check.h"
#include <algorithm>
#include <cmath>

namespace luminal::rules {

using egraph::Candidate;
using egraph::Evaluation;
using egraph::Genome;
using egraph::infinite_cost;
using egraph::Move;
using egraph::no_row;

namespace {

/// Where few bytes count for more than time, storing a byte takes so many times as long as writing it: more
/// than a product of a few hundred terms that is computed again, less than a loop for each point of a pass.
constexpr double price_of_byte = 100;

/// What a row adds to a tree cost, in nanoseconds. The folds decide; what is there before the step
/// costs next to nothing.
double weight(const RegionLoops& p, const LoopRates& rates, uint32_t row, double deep) {
  const uint32_t c = p.problem().class_of(row);
  const LoopRow& r = p.rows[row];
  constexpr double least = 1e-3;
  if (!p.is_tuple[c] && p.is_static[c]) return least;
  switch (r.kind) {
  case LoopKind::fold: {
    bool again = false, all_static = true;
    for (const uint32_t x : p.problem().children(row)) {
      again = again || (p.deep[x] & r.over);
      all_static = all_static && p.is_static[x];
    }
    if (all_static) return least;
    return least + p.volume(r.body) * rates.point * (5 + r.component_count) * (again ? deep : 1);
  }
  case LoopKind::scan: return least + p.volume(r.body) * rates.point * (5 + r.component_count);
  case LoopKind::map: return least + p.elements[c] * rates.step * r.steps * 0.1;
  default: return least;
  }
}

/// The genome of least tree cost. `costs`: by class, for the order in which joint moves are tried.
struct Start {
  Genome genome;
  std::vector<double> costs;
};
Start tree_start(const RegionLoops& p, const LoopRates& rates, double deep, egraph::Random* noise) {
  std::vector<double> weights(p.rows.size());
  for (uint32_t r = 0; r < weights.size(); ++r)
    weights[r] = weight(p, rates, r, deep) * (noise ? std::exp(6 * noise->unit() - 3) : 1);
  egraph::TreeExtraction tree =
      egraph::extract_tree(p.problem(), [&](uint32_t row, std::span<const double> children) {
        double sum = weights[row];
        for (const double c : children) sum += c;
        return sum;
      });
  return {std::move(tree.genome), std::move(tree.class_cost)};
}

std::span<const uint32_t> components_of(const RegionLoops& p, uint32_t tuple_row) {
  const LoopRow& row = p.rows[tuple_row];
  return std::span(p.components_of_rows).subspan(row.first_component, row.component_count);
}

/// For each set of axes the moves that take every value that a fold over them gives from there.
std::vector<std::vector<Move>> joint_moves(const RegionLoops& p, const std::vector<double>& costs) {
  struct Projection {
    double cost;
    uint32_t row, tuple_row;
  };
  std::map<LoopAxes, std::vector<Projection>> by_axes;
  for (uint32_t r = 0; r < p.rows.size(); ++r) {
    if (p.rows[r].kind != LoopKind::get) continue;
    const uint32_t f = p.problem().children(r)[0];
    if (costs[f] == infinite_cost) continue;
    for (uint32_t t = p.problem().first_row(f); t < p.problem().end_row(f); ++t)
      if (p.rows[t].kind == LoopKind::fold) by_axes[p.rows[t].over].push_back({costs[f], r, t});
  }
  std::vector<std::vector<Move>> out;
  for (auto& [over, list] : by_axes) {
    // Of several folds that give a value the cheapest is taken, and of those that cost about as much the
    // one that shares most with what is taken already.
    constexpr double about = 1.05;
    std::ranges::stable_sort(list, {}, &Projection::cost);
    std::vector<uint8_t> moved(p.problem().class_count(), 0), taken(p.components.size(), 0);
    std::vector<Move> moves;
    for (size_t k = 0; k < list.size(); ++k) {
      const uint32_t c = p.problem().class_of(list[k].row);
      if (moved[c]) continue;
      const Projection* best = &list[k];
      size_t most = 0;
      for (size_t j = k; j < list.size() && list[j].cost <= list[k].cost * about; ++j) {
        if (p.problem().class_of(list[j].row) != c) continue;
        size_t shared = 0;
        for (const uint32_t number : components_of(p, list[j].tuple_row)) shared += taken[number];
        if (shared > most) most = shared, best = &list[j];
      }
      const uint32_t f = p.problem().class_of(best->tuple_row);
      moved[c] = 1;
      moves.push_back({best->row});
      if (!moved[f]) moves.push_back({best->tuple_row});
      moved[f] = 1;
      for (const uint32_t number : components_of(p, best->tuple_row)) taken[number] = 1;
    }
    out.push_back(std::move(moves));
  }
  return out;
}

/// For each set of axes the moves by which all values that come from folds over them that need an
/// earlier pass over them come from somewhere else, where `flat`, a genome that avoids such folds,
/// knows it.
std::vector<std::vector<Move>> leaving_moves(const RegionLoops& p, const Candidate& at,
                                             const Evaluation& evaluation, const Genome& flat) {
  std::map<LoopAxes, std::vector<Move>> by_axes;
  for (const uint32_t c : evaluation.order) {
    if (p.row_of(at.genome, c).kind != LoopKind::get) continue;
    const uint32_t f = p.problem().children(at.genome[c])[0];
    const LoopRow& tuple = p.row_of(at.genome, f);
    if (tuple.kind != LoopKind::fold) continue;
    const auto bodies = p.problem().children(at.genome[f]);
    if (std::ranges::any_of(bodies, [&](uint32_t x) { return (p.deep[x] & tuple.over) != 0; }) &&
        flat[c] != no_row && flat[c] != at.genome[c])
      by_axes[tuple.over].push_back({flat[c]});
  }
  std::vector<std::vector<Move>> out;
  for (auto& [over, moves] : by_axes) out.push_back(std::move(moves));
  return out;
}

class PlanSearch {
public:
  PlanSearch(const RegionLoops& loops, const PlanSearchOptions& options)
      : p_(loops), options_(options), cost_(loops, options.rates), evaluator_(loops.problem()),
        flat_(tree_start(loops, options.rates, 16, nullptr)) {}

  FoundPlans run(std::span<const uint32_t> stored) {
    FoundPlans out;
    Candidate written{p_.written, std::vector<uint8_t>(p_.problem().class_count(), 0)};
    for (const uint32_t c : stored) written.stored[c] = 1;
    out.written_seconds = cost_.cost(written.genome, written.stored) * 1e-9;
    climb(std::move(written), flat_.costs);
    if (p_.problem().row_count() > p_.problem().class_count()) { // there is something to choose
      egraph::Random random(options_.seed);
      for (const double deep : options_.deep) from_tree(tree_start(p_, options_.rates, deep, nullptr));
      for (uint32_t k = 0; k < options_.noisy_starts; ++k)
        from_tree(tree_start(p_, options_.rates, options_.deep.empty() ? 1 : options_.deep[0], &random));
    }
    std::ranges::stable_sort(ends_, {}, &End::cost);
    for (End& end : ends_) {
      const bool known = std::ranges::any_of(out.plans, [&](const FoundPlan& plan) {
        return std::abs(plan.plan.seconds * 1e9 - end.cost) <= 1e-6 * end.cost;
      });
      if (known || out.plans.size() == options_.plans || !(end.cost < infinite_cost)) continue;
      RegionPlan plan = cost_.plan(end.candidate.genome, end.candidate.stored);
      out.plans.push_back({std::move(end.candidate), std::move(plan)});
    }
    out.candidates = cost_.costed();
    out.stopped = stopped_;
    return out;
  }

private:
  struct End {
    Candidate candidate;
    double cost;
  };

  bool stop() {
    if (!stopped_ && options_.stop && options_.stop()) stopped_ = true;
    return stopped_;
  }
  double cost(const Candidate& at, const Evaluation& evaluation) {
    return stop() ? infinite_cost : cost_.cost(at, evaluation);
  }

  void from_tree(Start start) {
    if (stop()) return;
    Candidate candidate{std::move(start.genome), std::vector<uint8_t>(p_.problem().class_count(), 0)};
    if (!evaluator_.evaluate(candidate.genome).valid()) return;
    // What to store of the start, the best value each time.
    double best = cost_.cost(candidate.genome, candidate.stored);
    for (bool again = true; again && !stop();) {
      again = false;
      uint32_t most = 0;
      for (const uint32_t c : cost_.store_choices(candidate.genome, candidate.stored)) {
        if (candidate.stored[c]) continue;
        candidate.stored[c] = 1;
        const double value = cost_.cost(candidate.genome, candidate.stored);
        candidate.stored[c] = 0;
        if (value < best) best = value, most = c, again = true;
      }
      if (again) candidate.stored[most] = 1;
    }
    climb(std::move(candidate), start.costs);
  }

  void climb(Candidate start, const std::vector<double>& costs) {
    const std::vector<std::vector<Move>> joint = joint_moves(p_, costs);
    egraph::ClimbOptions options;
    options.max_evaluations = options_.most_costs;
    options.consider = [&](uint32_t row) { return !p_.rows[row].twin; };
    options.store_choices = [&](const Candidate& at, const Evaluation&) {
      return cost_.store_choices(at.genome, at.stored);
    };
    // What folds over the same axes compute inside loops is stored, or not, together.
    options.joint_stores = [&](const Candidate& at, const Evaluation&) {
      std::map<LoopAxes, std::vector<uint32_t>> groups;
      for (const uint32_t c : cost_.store_choices(at.genome, at.stored)) {
        if (p_.row_of(at.genome, c).kind != LoopKind::get) continue;
        groups[p_.row_of(at.genome, p_.problem().children(at.genome[c])[0]).over].push_back(c);
      }
      std::vector<std::vector<uint32_t>> out;
      for (auto& [over, group] : groups)
        if (group.size() > 1) out.push_back(std::move(group));
      return out;
    };
    options.joint_moves = [&](const Candidate& at, const Evaluation& evaluation) {
      std::vector<std::vector<Move>> out = leaving_moves(p_, at, evaluation, flat_.genome);
      for (const auto& all : joint) {
        std::vector<Move> moves;
        for (const Move& move : all)
          if (at.genome[p_.problem().class_of(move.row)] != move.row) moves.push_back(move);
        if (!moves.empty()) out.push_back(std::move(moves));
      }
      return out;
    };
    egraph::ClimbResult end = egraph::climb(
        p_.problem(), std::move(start),
        [&](const Candidate& at, const Evaluation& evaluation) { return cost(at, evaluation); }, options);
    ends_.push_back({std::move(end.candidate), end.cost});
  }

  const RegionLoops& p_;
  const PlanSearchOptions& options_;
  PassCost cost_;
  egraph::Evaluator evaluator_;
  const Start flat_;
  std::vector<End> ends_;
  bool stopped_ = false;
};

} // namespace

FoundPlans find_plans(const RegionLoops& loops, std::span<const uint32_t> stored,
                      const PlanSearchOptions& options) {
  FoundPlans out = PlanSearch(loops, options).run(stored);
  if (out.plans.empty() || out.stopped) return out;
  const double most = out.plans[0].plan.stored_bytes;
  if (most <= options.rates.l2_bytes) return out;
  PlanSearchOptions fewest = options;
  fewest.rates.stored_byte = price_of_byte * options.rates.memory_byte;
  fewest.deep = {options.deep.empty() ? 1 : options.deep[0]};
  fewest.noisy_starts = 0;
  fewest.plans = 1;
  FoundPlans found = PlanSearch(loops, fewest).run(stored);
  out.candidates += found.candidates;
  out.stopped = found.stopped;
  if (found.plans.empty()) return out;
  const double least = found.plans[0].plan.stored_bytes;
  if (2 * least < most && most - least > options.rates.l2_bytes) out.fewest = std::move(found.plans[0]);
  return out;
}

// ---- joint tuples

namespace {

class TupleJoiner {
public:
  TupleJoiner(RegionLoops& loops, const Genome& genome, Choice& choice)
      : p_(loops), t_(loops.terms), genome_(genome), choice_(choice) {}

  /// Tuples over the same axes, none of which needs another: those that share components become one.
  void join(const std::vector<uint32_t>& tuples) {
    std::vector<uint8_t> done(tuples.size(), 0);
    for (size_t k = 0; k < tuples.size(); ++k) {
      if (done[k]) continue;
      std::vector<uint32_t> group{tuples[k]};
      std::vector<uint32_t> numbers = numbers_of(tuples[k]);
      for (bool again = true; again;) {
        again = false;
        for (size_t j = k + 1; j < tuples.size(); ++j) {
          if (done[j]) continue;
          const auto others = numbers_of(tuples[j]);
          if (std::ranges::none_of(others, [&](uint32_t n) { return std::ranges::count(numbers, n) > 0; }))
            continue;
          done[j] = 1;
          again = true;
          group.push_back(tuples[j]);
          numbers.insert(numbers.end(), others.begin(), others.end());
        }
      }
      if (group.size() > 1) make(group);
    }
  }

private:
  std::vector<uint32_t> numbers_of(uint32_t tuple) const {
    const LoopRow& row = p_.row_of(genome_, tuple);
    const auto first = p_.components_of_rows.begin() + ptrdiff_t(row.first_component);
    return {first, first + ptrdiff_t(row.component_count)};
  }

  void make(const std::vector<uint32_t>& group) {
    std::vector<MonoidComponent> components;
    std::vector<ClassId> bodies;
    std::map<uint32_t, uint32_t> place; // of a component's number in the joint tuple
    Value axes = 0;
    for (const uint32_t tuple : group) {
      const auto [op, id] = p_.engine.chosen(genome_, tuple);
      const auto args = t_.graph().row(op, id).args();
      axes = args[1];
      const Monoid monoid = t_.monoid_of(args[0]);
      const std::vector<uint32_t> numbers = numbers_of(tuple);
      std::vector<Scalar> leaves{Scalar::leaf(0)};
      for (size_t i = 0; i < numbers.size(); ++i) {
        const auto [at, fresh] = place.try_emplace(numbers[i], uint32_t(components.size()));
        if (fresh) {
          MonoidComponent c = monoid.components()[i];
          c.transform = c.transform.substitute(leaves);
          components.push_back(std::move(c));
          bodies.push_back(p_.engine.class_of[p_.components[numbers[i]].body]);
        }
        leaves.push_back(Scalar::leaf(1 + 2 * int(at->second)));
        leaves.push_back(Scalar::leaf(2 + 2 * int(at->second)));
      }
    }
    const ClassId joint =
        t_.add(t_.ops().fold, {t_.monoid(Monoid::intern(std::move(components))), axes, t_.vector(bodies)});
    set_row(joint, t_.ops().fold, [](const egraph::RowView&) { return true; });
    for (uint32_t c = 0; c < genome_.size(); ++c) {
      if (genome_[c] == no_row || p_.rows[genome_[c]].kind != LoopKind::get) continue;
      const uint32_t tuple = p_.problem().children(genome_[c])[0];
      if (std::ranges::count(group, tuple) == 0) continue;
      const uint32_t at = place.at(numbers_of(tuple)[p_.rows[genome_[c]].index]);
      const Value index = t_.integer(at);
      const ClassId get = t_.add(t_.ops().get, {index, joint});
      const egraph::RowView row = find(get, t_.ops().get, [&](const egraph::RowView& r) {
        return r.args()[0] == index && t_.graph().find(r.args()[1]) == t_.graph().find(joint);
      });
      resize();
      choice_.rows[p_.engine.class_of[c]] = {row.op, row.row};
    }
  }

  template <class F> egraph::RowView find(ClassId c, egraph::OpId op, F matches) {
    for (const egraph::RowView& row : t_.graph().class_rows(t_.graph().find(c)))
      if (row.op == op && matches(row)) return row;
    LUMINAL_CHECK(false, "a term that was added is not there");
  }
  template <class F> void set_row(ClassId c, egraph::OpId op, F matches) {
    const egraph::RowView row = find(c, op, matches);
    resize();
    choice_.rows[t_.graph().find(c)] = {row.op, row.row};
  }
  void resize() {
    if (choice_.rows.size() < t_.graph().class_count()) choice_.rows.resize(t_.graph().class_count());
  }

  RegionLoops& p_;
  RegionTerms& t_;
  const Genome& genome_;
  Choice& choice_;
};

/// Tuples that the loops of a pass compute inside, by the axes that they fold, none of which needs another.
std::vector<std::vector<uint32_t>> inner_tuples(const RegionLoops& p, const Genome& genome,
                                                const Pass& pass) {
  std::map<LoopAxes, std::vector<uint32_t>> by_axes;
  for (const uint32_t c : pass.inner) {
    if (p.row_of(genome, c).kind != LoopKind::get) continue;
    const uint32_t tuple = p.problem().children(genome[c])[0];
    if (p.row_of(genome, tuple).kind != LoopKind::fold) continue;
    auto& list = by_axes[p.row_of(genome, tuple).over];
    if (std::ranges::count(list, tuple) == 0) list.push_back(tuple);
  }
  const auto needs = [&](uint32_t from, uint32_t other) {
    std::vector<uint8_t> seen(genome.size(), 0);
    for (std::vector<uint32_t> stack{from}; !stack.empty();) {
      const uint32_t c = stack.back();
      stack.pop_back();
      for (const uint32_t x : p.problem().children(genome[c])) {
        if (x == other) return true;
        if (!seen[x]) seen[x] = 1, stack.push_back(x);
      }
    }
    return false;
  };
  std::vector<std::vector<uint32_t>> out;
  for (const auto& [axes, list] : by_axes) {
    std::vector<uint32_t> apart;
    for (const uint32_t t : list)
      if (std::ranges::none_of(apart, [&](uint32_t o) { return needs(t, o) || needs(o, t); }))
        apart.push_back(t);
    if (apart.size() > 1) out.push_back(std::move(apart));
  }
  return out;
}

} // namespace

namespace {

/// What each kernel of a plan computes, by class.
class KernelCones {
public:
  KernelCones(const RegionLoops& loops, const FoundPlan& found)
      : p_(loops), genome_(found.candidate.genome), stored_in_(genome_.size(), no_row) {
    const auto& kernels = found.plan.kernels;
    for (uint32_t k = 0; k < kernels.size(); ++k)
      for (const uint32_t c : kernels[k].stored) stored_in_[c] = k;
    for (const KernelOfRegion& kernel : kernels) {
      Cone& cone = cones_.emplace_back();
      cone.inside.assign(genome_.size(), 0);
      for (const uint32_t c : kernel.stored)
        if (!cone.inside[c]) walk(cone, c);
    }
  }
  struct Cone {
    std::vector<uint8_t> inside;
    std::vector<uint32_t> from; ///< kernels whose values it reads
    bool changed = false;       ///< a fold is none of the terms as they came
  };
  const std::vector<Cone>& cones() const { return cones_; }

private:
  void walk(Cone& cone, uint32_t start) {
    const uint32_t own = stored_in_[start];
    cone.inside[start] = 1;
    for (std::vector<uint32_t> stack{start}; !stack.empty();) {
      const uint32_t c = stack.back();
      stack.pop_back();
      if (p_.rows[genome_[c]].kind == LoopKind::fold) cone.changed |= genome_[c] != p_.written[c];
      for (const uint32_t x : p_.problem().children(genome_[c])) {
        if (stored_in_[x] != no_row && stored_in_[x] != own) {
          cone.from.push_back(stored_in_[x]);
        } else if (!cone.inside[x]) {
          cone.inside[x] = 1;
          stack.push_back(x);
        }
      }
    }
  }

  const RegionLoops& p_;
  const Genome& genome_;
  std::vector<uint32_t> stored_in_; // by class: the kernel
  std::vector<Cone> cones_;
};

} // namespace

Choice choice_of(RegionLoops& loops, const FoundPlan& found, Decided decided) {
  const Genome& genome = found.candidate.genome;
  const auto& kernels = found.plan.kernels;
  Choice out = loops.choice(genome);
  out.decided = decided != Decided::none;
  std::vector<uint8_t> taken(kernels.size(), decided == Decided::all);
  if (decided == Decided::changed) {
    const KernelCones cones(loops, found);
    std::vector<uint8_t> inside(genome.size(), 0);
    for (uint32_t k = 0; k < kernels.size(); ++k) {
      const KernelCones::Cone& cone = cones.cones()[k];
      if (!cone.changed) continue;
      taken[k] = 1;
      for (const uint32_t from : cone.from) taken[from] = 1;
      for (uint32_t c = 0; c < inside.size(); ++c) inside[c] |= cone.inside[c];
    }
    for (uint32_t k = 0; k < kernels.size(); ++k)
      if (taken[k])
        for (const uint32_t c : kernels[k].stored) inside[c] = 1;
    for (uint32_t c = 0; c < inside.size(); ++c)
      if (genome[c] != no_row && !inside[c]) out.open.push_back(loops.engine.class_of[c]);
  }
  TupleJoiner joiner(loops, genome, out);
  for (uint32_t k = 0; k < kernels.size(); ++k) {
    const KernelOfRegion& kernel = kernels[k];
    for (const Pass& pass : kernel.passes) {
      if (pass.folds.size() > 1) joiner.join(pass.folds);
      for (const auto& tuples : inner_tuples(loops, genome, pass)) joiner.join(tuples);
    }
    if (kernel.opaque || !taken[k]) continue;
    std::vector<ClassId> stored;
    for (const uint32_t c : kernel.stored) {
      const ClassId leader = loops.engine.class_of[c];
      if (std::ranges::count(kernel.open, c) > 0)
        out.open.push_back(leader);
      else
        stored.push_back(leader);
    }
    if (!stored.empty()) out.kernels.push_back(std::move(stored));
  }
  return out;
}

} // namespace luminal::rules
