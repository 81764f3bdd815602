// extract/extract_moves.cpp -- edits under a check for cycles; hill climbing over rows and stored
// values.
#include "extract/extract_moves.h"
#include "base/check.h"
#include <algorithm>

namespace luminal::egraph {

GenomeEditor::GenomeEditor(const ExtractionProblem& problem, Genome genome)
    : problem_(problem), genome_(std::move(genome)), state_(problem.class_count(), 0) {
  const ExtractionProblem& p = problem;
  if (genome_.size() != p.class_count())
    throw Error(fmt::format("[extraction] a genome of {} classes for a problem of {}", genome_.size(),
                            p.class_count()));
  std::vector<Move> all;
  for (uint32_t c = 0; c < p.class_count(); ++c) {
    if (p.end_row(c) - p.first_row(c) > 1) with_choice_.push_back(c);
    if (genome_[c] == no_row) continue;
    if (genome_[c] >= p.row_count() || p.class_of(genome_[c]) != c)
      throw Error(fmt::format(
          "[extraction] the genome gives class {} the row {}, which is not one of its rows", c, genome_[c]));
    all.push_back({genome_[c]});
  }
  if (closes_cycle(all)) throw Error("[extraction] the genome has a cycle");
}

bool GenomeEditor::closes_cycle(std::span<const Move> moves) {
  // Depth first over the chosen rows from the classes that moved: state 1 is on the path, 2 is
  // done.
  bool cycle = false;
  visited_.clear();
  for (const Move& move : moves) {
    const uint32_t start = problem_.class_of(move.row);
    if (cycle || state_[start] != 0) continue;
    stack_.assign(1, start);
    next_.assign(1, 0);
    state_[start] = 1;
    visited_.push_back(start);
    while (!stack_.empty() && !cycle) {
      const uint32_t c = stack_.back(), row = genome_[c];
      const auto children = row == no_row ? std::span<const uint32_t>() : problem_.children(row);
      if (next_.back() == children.size()) {
        state_[c] = 2;
        stack_.pop_back();
        next_.pop_back();
        continue;
      }
      const uint32_t d = children[next_.back()++];
      if (state_[d] == 1) cycle = true;
      if (state_[d] != 0) continue;
      state_[d] = 1;
      visited_.push_back(d);
      stack_.push_back(d);
      next_.push_back(0);
    }
  }
  for (const uint32_t c : visited_) state_[c] = 0;
  return cycle;
}

bool GenomeEditor::apply(std::span<const Move> moves) {
  std::vector<Move> before;
  const auto revert = [&] {
    for (size_t i = before.size(); i-- > 0;) genome_[problem_.class_of(moves[i].row)] = before[i].row;
  };
  for (const Move& move : moves) {
    if (move.row >= problem_.row_count())
      throw Error(fmt::format("[extraction] row {} of {}", move.row, problem_.row_count()));
    const uint32_t c = problem_.class_of(move.row);
    bool twice = false;
    for (size_t i = 0; i < before.size(); ++i)
      twice = twice || (problem_.class_of(moves[i].row) == c && moves[i].row != move.row);
    if (twice) {
      revert();
      return false;
    }
    before.push_back({genome_[c]});
    genome_[c] = move.row;
  }
  if (closes_cycle(moves)) {
    revert();
    return false;
  }
  // For undo(): pairs of (new row, old row), the old one may be no_row.
  last_.clear();
  for (size_t i = 0; i < before.size(); ++i) last_.insert(last_.end(), {moves[i], before[i]});
  return true;
}

void GenomeEditor::undo() {
  for (size_t i = last_.size(); i >= 2; i -= 2)
    genome_[problem_.class_of(last_[i - 2].row)] = last_[i - 1].row;
  last_.clear();
}

uint32_t GenomeEditor::mutate(Random& random, uint32_t count) {
  uint32_t changed = 0;
  for (uint32_t i = 0; i < count && !with_choice_.empty(); ++i) {
    const uint32_t c = with_choice_[random.below(uint32_t(with_choice_.size()))];
    const uint32_t row = problem_.first_row(c) + random.below(problem_.end_row(c) - problem_.first_row(c));
    if (row != genome_[c] && problem_.cost(row) < infinite_cost && apply(Move{row})) ++changed;
  }
  return changed;
}

ClimbResult climb(const ExtractionProblem& problem, Candidate start, const CandidateCost& cost,
                  const ClimbOptions& options) {
  ClimbResult out;
  out.candidate = std::move(start);
  if (out.candidate.stored.empty()) out.candidate.stored.assign(problem.class_count(), 0);
  Evaluator evaluator(problem);
  // Gives the cost; infinite for genomes that do not hold together, without asking.
  const auto price = [&](const Candidate& candidate) {
    const Evaluation& evaluation = evaluator.evaluate(candidate.genome);
    if (!evaluation.valid()) return infinite_cost;
    ++out.evaluations;
    const double value = cost(candidate, evaluation);
    if (value != value) throw Error("[extraction] the cost of a candidate is NaN");
    return value;
  };
  if (!evaluator.evaluate(out.candidate.genome).valid())
    throw Error("[extraction] a climb starts from a valid genome");
  out.cost = price(out.candidate);
  const auto better = [&](double value) {
    return value < out.cost - options.least_gain * std::abs(out.cost);
  };
  const auto spent = [&] { return out.evaluations >= options.max_evaluations; };
  std::vector<uint32_t> order;
  for (bool again = true; again && !spent();) {
    again = false;
    Candidate& now = out.candidate;
    order = evaluator.evaluate(now.genome).order;
    for (const uint32_t c : order) {
      for (uint32_t r = problem.first_row(c); r < problem.end_row(c) && !spent(); ++r) {
        const uint32_t old = now.genome[c];
        if (r == old || problem.cost(r) == infinite_cost || (options.consider && !options.consider(r)))
          continue;
        now.genome[c] = r;
        const double value = price(now);
        if (better(value)) {
          out.cost = value;
          again = true;
        } else {
          now.genome[c] = old;
        }
      }
    }
    if (options.store_choices)
      for (const uint32_t c : options.store_choices(now, evaluator.evaluate(now.genome))) {
        if (spent()) break;
        now.stored[c] ^= 1;
        const double value = price(now);
        if (better(value)) {
          out.cost = value;
          again = true;
        } else {
          now.stored[c] ^= 1;
        }
      }
    if (!again && options.joint_stores)
      for (const auto& group : options.joint_stores(now, evaluator.evaluate(now.genome))) {
        if (spent()) break;
        const bool all =
            std::all_of(group.begin(), group.end(), [&](uint32_t c) { return now.stored[c] != 0; });
        const std::vector<uint8_t> before = now.stored;
        for (const uint32_t c : group) now.stored[c] = !all;
        const double value = price(now);
        if (better(value)) {
          out.cost = value;
          again = true;
        } else {
          now.stored = before;
        }
      }
    if (again || !options.joint_moves) continue;
    const std::vector<uint32_t> stored_before =
        options.store_choices ? options.store_choices(now, evaluator.evaluate(now.genome))
                              : std::vector<uint32_t>();
    for (const auto& moves : options.joint_moves(now, evaluator.evaluate(now.genome))) {
      Candidate moved = now;
      for (const Move& move : moves) moved.genome[problem.class_of(move.row)] = move.row;
      const Evaluation& evaluation = evaluator.evaluate(moved.genome);
      if (!evaluation.valid() || spent()) continue;
      Candidate storing = moved; // what the moves newly offer is stored as well
      bool more = false;
      if (options.store_choices)
        for (const uint32_t c : options.store_choices(moved, evaluation))
          if (!storing.stored[c] &&
              std::find(stored_before.begin(), stored_before.end(), c) == stored_before.end())
            storing.stored[c] = 1, more = true;
      for (Candidate* candidate : {&moved, &storing}) {
        if (candidate == &storing && !more) break;
        const double value = price(*candidate);
        if (!better(value)) continue;
        out.cost = value;
        now = *candidate;
        again = true;
      }
    }
  }
  out.finished = !spent();
  return out;
}

} // namespace luminal::egraph
