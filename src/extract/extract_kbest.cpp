// extract/extract_kbest.cpp -- lazy enumeration of terms. A term is dearer than its parts in (cost,
// height), so asking for the next term of a class asks for the next ones of the parts of its last
// term only, and ends.
#include "extract/extract_kbest.h"
#include "base/check.h"
#include "extract/extract_parents.h"
#include <algorithm>
#include <tuple>

namespace luminal::egraph {

bool KBest::Later::operator()(const Term& a, const Term& b) const {
  return std::tie(b.cost, b.height, b.row, b.ranks) < std::tie(a.cost, a.height, a.row, a.ranks);
}

KBest::KBest(const ExtractionProblem& problem) : problem_(problem), state_(problem.class_count()) {
  if (problem.has_negative_costs())
    throw Error("[extraction] the best terms are not defined for negative costs");
  first_terms();
}

KBest::Term KBest::term_of(uint32_t row, std::vector<uint32_t> ranks) const {
  Term term{problem_.cost(row), 1, row, std::move(ranks)};
  const auto children = problem_.children(row);
  for (size_t i = 0; i < children.size(); ++i) {
    const Term& part = state_[children[i]].terms[term.ranks[i]];
    term.cost += part.cost;
    term.height = std::max(term.height, part.height + 1);
  }
  return term;
}

void KBest::first_terms() {
  // Knuth's algorithm with (cost, height) as the cost.
  const ExtractionProblem& p = problem_;
  const Parents parents(p);
  std::vector<uint32_t> pending(p.row_count());
  std::priority_queue<Term, std::vector<Term>, Later> open;
  const auto offer = [&](uint32_t row) {
    if (p.cost(row) < infinite_cost)
      open.push(term_of(row, std::vector<uint32_t>(p.children(row).size(), 0)));
  };
  for (uint32_t r = 0; r < p.row_count(); ++r) {
    pending[r] = uint32_t(p.children(r).size());
    if (pending[r] == 0) offer(r);
  }
  while (!open.empty()) {
    const Term term = open.top();
    open.pop();
    const uint32_t c = p.class_of(term.row);
    if (!state_[c].terms.empty()) continue;
    state_[c].terms.push_back(term);
    for (const uint32_t r : parents.of(c))
      if (--pending[r] == 0) offer(r);
  }
}

bool KBest::push_successors(uint32_t c) {
  State& state = state_[c];
  if (!state.started) {
    state.started = true;
    for (uint32_t r = problem_.first_row(c); r < problem_.end_row(c); ++r) {
      if (r == state.terms[0].row || !(problem_.cost(r) < infinite_cost)) continue;
      const auto children = problem_.children(r);
      if (std::all_of(children.begin(), children.end(), [&](uint32_t d) { return !state_[d].terms.empty(); }))
        state.candidates.push(term_of(r, std::vector<uint32_t>(children.size(), 0)));
    }
  }
  // One child of the last term moves on by one; children before the last one that has moved stay,
  // so each tuple comes once.
  const Term last = state.terms.back();
  const auto children = problem_.children(last.row);
  size_t from = 0;
  for (size_t i = 0; i < children.size(); ++i)
    if (last.ranks[i] > 0) from = i;
  for (size_t i = from; i < children.size(); ++i) {
    const State& child = state_[children[i]];
    if (last.ranks[i] + 1 < child.terms.size()) continue;
    const bool exhausted = child.started && child.followed == child.terms.size() && child.candidates.empty();
    if (!exhausted) {
      wanted_.emplace_back(children[i], last.ranks[i] + 1);
      return false;
    }
  }
  for (size_t i = from; i < children.size(); ++i) {
    if (last.ranks[i] + 1 >= state_[children[i]].terms.size()) continue;
    std::vector<uint32_t> ranks = last.ranks;
    ++ranks[i];
    state.candidates.push(term_of(last.row, std::move(ranks)));
  }
  ++state.followed;
  return true;
}

const KBest::Term* KBest::get(uint32_t c, uint32_t rank) {
  if (c >= problem_.class_count())
    throw Error(fmt::format("[extraction] class {} of {}", c, problem_.class_count()));
  wanted_.assign(1, {c, rank});
  while (!wanted_.empty()) {
    const auto [d, wanted] = wanted_.back();
    State& state = state_[d];
    if (state.terms.empty() || state.terms.size() > wanted) {
      wanted_.pop_back();
      continue;
    }
    LUMINAL_CHECK(wanted_.size() < 2 * size_t(state_.size()) * (rank + 2), "terms wait for each other");
    if (state.followed < state.terms.size() && !push_successors(d)) continue;
    if (state.candidates.empty()) {
      wanted_.pop_back();
      continue;
    }
    state.terms.push_back(state.candidates.top());
    state.candidates.pop();
  }
  return rank < state_[c].terms.size() ? &state_[c].terms[rank] : nullptr;
}

bool KBest::write(uint32_t c, uint32_t rank, Genome& genome) {
  std::vector<std::pair<uint32_t, uint32_t>> todo{{c, rank}}, seen;
  std::vector<uint32_t> rank_of(problem_.class_count(), no_row);
  while (!todo.empty()) {
    const auto [d, r] = todo.back();
    todo.pop_back();
    if (rank_of[d] == r) continue;
    if (rank_of[d] != no_row) return false; // two terms of one class differ in some row below
    rank_of[d] = r;
    const Term& term = state_[d].terms[r];
    if (genome[d] != no_row && genome[d] != term.row) return false;
    genome[d] = term.row;
    const auto children = problem_.children(term.row);
    for (size_t i = 0; i < children.size(); ++i) todo.emplace_back(children[i], term.ranks[i]);
  }
  return true;
}

std::vector<Extraction> k_best_genomes(const ExtractionProblem& problem, uint32_t k, uint32_t max_terms) {
  // One class above the roots.
  ExtractionBuilder builder;
  builder.add_classes(problem.class_count());
  for (uint32_t r = 0; r < problem.row_count(); ++r)
    builder.add_row(problem.class_of(r), problem.children(r), problem.cost(r));
  const uint32_t top = builder.add_class();
  builder.add_row(top, problem.roots(), 0);
  const ExtractionProblem above = builder.build();
  KBest best(above);
  std::vector<Extraction> out;
  for (uint32_t rank = 0; rank < max_terms && out.size() < k; ++rank) {
    const KBest::Term* term = best.get(top, rank);
    if (!term) break;
    Extraction e{Genome(above.class_count(), no_row), term->cost};
    if (!best.write(top, rank, e.genome)) continue;
    e.genome.pop_back(); // rows keep their numbers: the class above is the last
    out.push_back(std::move(e));
  }
  return out;
}

} // namespace luminal::egraph
