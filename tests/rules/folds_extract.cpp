// rules/folds_extract.cpp -- starts and moves of the search.
#include "folds_extract.h"
#include "base/check.h"
#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace luminal::egraph::folds {
namespace {

/// What a row adds to a tree cost. The folds decide; maps count little and what is there before the
/// step next to nothing.
double weight(const LoopProblem& p, uint32_t row, double deep) {
  const uint32_t c = p.problem().class_of(row);
  const LoopRow& r = p.rows[row];
  if (p.is_static[c] && r.kind != LoopKind::fold && r.kind != LoopKind::scan) return 1e-3;
  switch (r.kind) {
  case LoopKind::fold: {
    bool again = false, all_static = true;
    for (const uint32_t x : p.problem().children(row)) {
      again = again || (p.deep[x] & r.over);
      all_static = all_static && p.is_static[x];
    }
    if (all_static) return 1e-3;
    return p.volume(r.body) * (10 + r.component_count) * (again ? deep : 1);
  }
  case LoopKind::map: return p.sizes[c] * 0.01 * r.flops;
  case LoopKind::constant: return 0;
  default: return 1e-3;
  }
}

/// For each set of axes the moves that take every value that a fold over them gives from there.
struct JointMoves {
  AxisSet over;
  std::vector<Move> moves;
};
std::vector<JointMoves> joint_moves(const LoopProblem& p, const std::vector<double>& costs) {
  struct Projection {
    double cost;
    uint32_t row, tuple_row;
  };
  std::map<AxisSet, std::vector<Projection>> by_axes;
  for (uint32_t r = 0; r < p.rows.size(); ++r) {
    if (p.rows[r].kind != LoopKind::get) continue;
    const uint32_t f = p.problem().children(r)[0];
    if (costs[f] == infinite_cost) continue;
    for (uint32_t t = p.problem().first_row(f); t < p.problem().end_row(f); ++t)
      if (p.rows[t].kind == LoopKind::fold) by_axes[p.rows[t].over].push_back({costs[f], r, t});
  }
  std::vector<JointMoves> out;
  for (auto& [over, list] : by_axes) {
    // Of several folds that give a value the cheapest is taken.
    std::stable_sort(list.begin(), list.end(),
                     [](const Projection& a, const Projection& b) { return a.cost < b.cost; });
    std::vector<uint8_t> moved(p.problem().class_count(), 0);
    JointMoves joint{over, {}};
    for (const Projection& projection : list) {
      const uint32_t c = p.problem().class_of(projection.row), f = p.problem().class_of(projection.tuple_row);
      if (moved[c]) continue;
      moved[c] = 1;
      joint.moves.push_back({projection.row});
      if (!moved[f]) joint.moves.push_back({projection.tuple_row});
      moved[f] = 1;
    }
    out.push_back(std::move(joint));
  }
  return out;
}

/// For each set of axes the moves by which all values that come from folds over them that need an
/// earlier pass over them come from somewhere else, where `flat`, a genome that avoids such folds,
/// knows it.
std::vector<std::vector<Move>> leaving_moves(const LoopProblem& p, const Candidate& at,
                                             const Evaluation& evaluation, const Genome& flat) {
  std::map<AxisSet, std::vector<Move>> by_axes;
  for (const uint32_t c : evaluation.order) {
    if (p.row_of(at.genome, c).kind != LoopKind::get) continue;
    const uint32_t f = p.problem().children(at.genome[c])[0];
    const LoopRow& tuple = p.row_of(at.genome, f);
    const auto bodies = p.problem().children(at.genome[f]);
    if (std::any_of(bodies.begin(), bodies.end(),
                    [&](uint32_t x) { return (p.deep[x] & tuple.over) != 0; }) &&
        flat[c] != no_row && flat[c] != at.genome[c])
      by_axes[tuple.over].push_back({flat[c]});
  }
  std::vector<std::vector<Move>> out;
  for (auto& [over, moves] : by_axes) out.push_back(std::move(moves));
  return out;
}

} // namespace

Start tree_start(const LoopProblem& p, double deep, Random* noise) {
  std::vector<double> weights(p.rows.size());
  for (uint32_t r = 0; r < weights.size(); ++r)
    weights[r] = weight(p, r, deep) * (noise ? std::exp(6 * noise->unit() - 3) : 1);
  TreeExtraction tree = extract_tree(p.problem(), [&](uint32_t row, std::span<const double> children) {
    double sum = weights[row];
    for (const double c : children) sum += c;
    return sum;
  });
  return {std::move(tree.genome), std::move(tree.class_cost)};
}

ClimbResult climb_passes(const LoopProblem& p, PassCost& cost, const Start& start) {
  Candidate candidate{start.genome, std::vector<uint8_t>(p.problem().class_count(), 0)};
  // What to store of the start, the best value each time.
  double best = cost.cost(candidate.genome, candidate.stored);
  for (bool again = true; again;) {
    again = false;
    uint32_t most = 0;
    for (const uint32_t c : cost.store_choices(candidate.genome, candidate.stored)) {
      if (candidate.stored[c]) continue;
      candidate.stored[c] = 1;
      const double value = cost.cost(candidate.genome, candidate.stored);
      candidate.stored[c] = 0;
      if (value < best) best = value, most = c, again = true;
    }
    if (again) candidate.stored[most] = 1;
  }

  const std::vector<JointMoves> joint = joint_moves(p, start.costs);
  ClimbOptions options;
  options.consider = [&](uint32_t row) { return !p.rows[row].twin; };
  options.store_choices = [&](const Candidate& at, const Evaluation&) {
    return cost.store_choices(at.genome, at.stored);
  };
  // What folds over the same axes compute inside loops is stored, or not, together.
  options.joint_stores = [&](const Candidate& at, const Evaluation&) {
    std::map<AxisSet, std::vector<uint32_t>> groups;
    for (const uint32_t c : cost.store_choices(at.genome, at.stored)) {
      if (p.row_of(at.genome, c).kind != LoopKind::get) continue;
      groups[p.row_of(at.genome, p.problem().children(at.genome[c])[0]).over].push_back(c);
    }
    std::vector<std::vector<uint32_t>> out;
    for (auto& [over, group] : groups)
      if (group.size() > 1) out.push_back(std::move(group));
    return out;
  };
  const Start flat = tree_start(p, 16);
  options.joint_moves = [&](const Candidate& at, const Evaluation& evaluation) {
    std::vector<std::vector<Move>> out = leaving_moves(p, at, evaluation, flat.genome);
    for (const JointMoves& all : joint) {
      std::vector<Move> moves;
      for (const Move& move : all.moves)
        if (at.genome[p.problem().class_of(move.row)] != move.row) moves.push_back(move);
      if (!moves.empty()) out.push_back(std::move(moves));
    }
    return out;
  };
  return climb(
      p.problem(), std::move(candidate),
      [&](const Candidate& at, const Evaluation& evaluation) { return cost.cost(at, evaluation); }, options);
}

Found find_passes(const LoopProblem& p, const SearchOptions& options) {
  PassCost cost(p, options.machine);
  Random random(options.seed);
  std::vector<Start> starts;
  for (const double deep : options.deep) starts.push_back(tree_start(p, deep));
  for (uint32_t i = 0; i < options.noisy_starts; ++i)
    starts.push_back(tree_start(p, options.deep.empty() ? 1 : options.deep[0], &random));
  Found out;
  for (const Start& start : starts) {
    ClimbResult end = climb_passes(p, cost, start);
    out.start_costs.push_back(end.cost);
    if (end.cost < out.cost) {
      out.cost = end.cost;
      out.candidate = std::move(end.candidate);
    }
  }
  out.candidates = cost.costed();
  out.plan = cost.plan(out.candidate.genome, out.candidate.stored);
  LUMINAL_CHECK(out.plan.cost == out.cost, "a remembered cost is that of another candidate");
  return out;
}

Plan naive_plan(const LoopProblem& p, const Machine& machine) {
  const Start start = tree_start(p, 1);
  std::vector<uint8_t> stored(p.problem().class_count(), 0);
  for (uint32_t c = 0; c < stored.size(); ++c)
    stored[c] = start.genome[c] != no_row && p.rows[start.genome[c]].kind == LoopKind::get;
  return PassCost(p, machine, false).plan(start.genome, stored);
}

std::string text(const LoopProblem& p, const Genome& genome, const Plan& plan) {
  std::string out;
  for (const Pass& pass : plan.passes) {
    const std::string over = pass.folds.empty() ? "" : p.names(p.row_of(genome, pass.folds[0]).over);
    out += fmt::format("{}{}{}{{", out.empty() ? "" : "; ", pass.folds.empty() ? "maps" : "fold ", over);
    std::vector<uint32_t> uses = pass.uses;
    std::sort(uses.begin(), uses.end());
    for (size_t i = 0; i < uses.size(); ++i) out += fmt::format("{}%{}", i ? " " : "", uses[i]);
    out += fmt::format("}} {:.3g} read, {:.3g} flops, {:.3g} items", pass.reads, pass.flops, pass.items);
  }
  return out;
}

} // namespace luminal::egraph::folds
