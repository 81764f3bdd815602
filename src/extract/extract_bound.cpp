// extract/extract_bound.cpp -- sweeps of the dual, and the solutions that come with them.
#include "extract/extract_bound.h"
#include "extract/extract_heap.h"
#include "extract/extract_parents.h"
#include <algorithm>
#include <cmath>

namespace luminal::egraph {

DualBound::DualBound(const ExtractionProblem& p)
    : alive(p.row_count(), 1), p_(p), position_(p.class_count(), no_row), users_(p.class_count(), 0),
      is_active_(p.class_count(), 0), u_(p.class_count(), 0), choice_(p.class_count(), no_row) {
  std::vector<uint32_t> pair_of(p.class_count(), no_row), owner(p.class_count(), no_row);
  first_edge_.push_back(0);
  for (uint32_t c = 0; c < p.class_count(); ++c)
    for (uint32_t r = p.first_row(c); r < p.end_row(c); ++r) {
      const auto children = p.children(r);
      for (size_t k = 0; k < children.size(); ++k) {
        const uint32_t d = children[k];
        if (std::find(children.begin(), children.begin() + k, d) != children.begin() + k)
          continue; // counts once
        if (owner[d] != c) {
          owner[d] = c;
          pair_of[d] = uint32_t(pair_child_.size());
          pair_child_.push_back(d);
        }
        pair_.push_back(pair_of[d]);
      }
      first_edge_.push_back(uint32_t(pair_.size()));
    }
  root_pairs_ = uint32_t(pair_child_.size());
  pair_child_.insert(pair_child_.end(), p.roots().begin(), p.roots().end());
  pair_used_.assign(pair_child_.size(), 0);
  shares.assign(pair_child_.size(), 0);
  // Costs below zero count in full for every class: what is left is at least zero.
  if (p.has_negative_costs())
    for (uint32_t c = 0; c < p.class_count(); ++c) {
      double least = 0;
      for (uint32_t r = p.first_row(c); r < p.end_row(c); ++r) least = std::min(least, p.cost(r));
      offset_ += least;
    }
  reset_shares();
}

void DualBound::reset_shares() {
  std::fill(pair_used_.begin(), pair_used_.end(), 0);
  for (uint32_t r = 0; r < p_.row_count(); ++r)
    if (alive[r])
      for (uint32_t e = first_edge_[r]; e < first_edge_[r + 1]; ++e) pair_used_[pair_[e]] = 1;
  std::fill(pair_used_.begin() + root_pairs_, pair_used_.end(), 1);
  std::fill(users_.begin(), users_.end(), 0);
  for (uint32_t i = 0; i < pair_child_.size(); ++i) users_[pair_child_[i]] += pair_used_[i];
  for (uint32_t i = 0; i < pair_child_.size(); ++i)
    shares[i] = pair_used_[i] ? 1.0 / users_[pair_child_[i]] : 0;
}

bool DualBound::prepare() {
  // Knuth's order of what is left and reachable.
  const Parents parents(p_);
  ClassHeap heap(p_.class_count());
  std::vector<double> cost(p_.class_count(), infinite_cost);
  std::vector<uint32_t> pending(p_.row_count());
  std::fill(position_.begin(), position_.end(), no_row);
  order_.clear();
  const auto offer = [&](uint32_t r) {
    if (!alive[r] || !(p_.cost(r) < infinite_cost)) return;
    const uint32_t c = p_.class_of(r);
    double sum = std::max(0.0, p_.cost(r));
    for (const uint32_t d : p_.children(r)) sum += cost[d];
    if (position_[c] == no_row && sum < cost[c]) {
      cost[c] = sum;
      heap.offer(c, sum);
    }
  };
  for (uint32_t r = 0; r < p_.row_count(); ++r) {
    pending[r] = uint32_t(p_.children(r).size());
    if (pending[r] == 0) offer(r);
  }
  while (!heap.empty()) {
    const uint32_t c = heap.pop();
    position_[c] = uint32_t(order_.size());
    order_.push_back(c);
    for (const uint32_t r : parents.of(c))
      if (--pending[r] == 0) offer(r);
  }
  for (uint32_t r = 0; r < p_.row_count(); ++r)
    if (pending[r] > 0) alive[r] = 0; // has a child without a term
  for (const uint32_t c : p_.roots())
    if (position_[c] == no_row) return false;
  std::fill(u_.begin(), u_.end(), 0);
  bound_ = -infinite_cost;
  steps_ += double(p_.edge_count() + p_.row_count());
  return true;
}

double DualBound::pass() {
  for (const uint32_t c : order_) {
    double least = infinite_cost, least_ordered = infinite_cost;
    for (uint32_t r = p_.first_row(c); r < p_.end_row(c); ++r) {
      if (!alive[r]) continue;
      double sum = std::max(0.0, p_.cost(r));
      bool ordered = true;
      for (uint32_t k = first_edge_[r]; k < first_edge_[r + 1]; ++k) {
        const uint32_t d = pair_child_[pair_[k]];
        sum += shares[pair_[k]] * u_[d];
        ordered = ordered && position_[d] < position_[c];
      }
      least = std::min(least, sum);
      if (ordered && sum < least_ordered) {
        least_ordered = sum;
        choice_[c] = r;
      }
    }
    u_[c] = std::max(u_[c], least); // equal but for rounding: sweeps only rise from below
  }
  double sum = 0;
  for (uint32_t i = root_pairs_; i < pair_child_.size(); ++i) sum += shares[i] * u_[pair_child_[i]];
  steps_ += double(p_.edge_count() + p_.row_count());
  return sum + offset_;
}

void DualBound::follow_choice() {
  active_.clear();
  double cost = 0;
  for (const uint32_t c : p_.roots()) is_active_[c] = 1, active_.push_back(c);
  for (size_t i = 0; i < active_.size(); ++i) {
    const uint32_t r = choice_[active_[i]];
    cost += p_.cost(r);
    for (uint32_t k = first_edge_[r]; k < first_edge_[r + 1]; ++k) {
      const uint32_t d = pair_child_[pair_[k]];
      if (!is_active_[d]) is_active_[d] = 1, active_.push_back(d);
    }
  }
  for (const uint32_t c : active_) is_active_[c] = 0;
  if (cost < best_.cost) {
    best_.cost = cost;
    best_.genome = choice_;
  }
}

void DualBound::offer(const Extraction& solution) {
  if (solution.cost < best_.cost) best_ = solution;
}

void DualBound::sweep(int passes, double enough) {
  double step = 0.4;
  int stale = 0;
  std::vector<double> wanted(pair_child_.size());
  std::vector<uint32_t> count(p_.class_count(), 0);
  for (int i = 0; i < passes; ++i) {
    std::fill(u_.begin(), u_.end(), 0);
    double bound = pass();
    const double again = pass(); // classes on cycles see each other
    bound = std::max(bound, again);
    follow_choice();
    if (bound > bound_) {
      if (bound > bound_ + 1e-4 * std::abs(bound_)) stale = 0;
      bound_ = bound;
      best_u_ = u_;
      best_shares_ = shares;
    }
    if (bound_ >= enough) return;
    if (++stale > 6) {
      stale = 0;
      step *= 0.6;
      if (step < 0.01) break;
    }
    // Shares go to those who use a class in this solution.
    for (const uint32_t c : active_)
      for (uint32_t k = first_edge_[choice_[c]]; k < first_edge_[choice_[c] + 1]; ++k)
        wanted[pair_[k]] = 1, ++count[pair_child_[pair_[k]]];
    for (uint32_t k = root_pairs_; k < pair_child_.size(); ++k) wanted[k] = 1, ++count[pair_child_[k]];
    for (uint32_t k = 0; k < pair_child_.size(); ++k) {
      const uint32_t d = pair_child_[k];
      if (count[d] > 0) shares[k] += step * (wanted[k] / count[d] - shares[k]);
      wanted[k] = 0;
    }
    std::fill(count.begin(), count.end(), 0);
  }
}

double DualBound::bound_with(uint32_t row) const {
  const uint32_t c = p_.class_of(row);
  double sum = bound_ + std::max(0.0, p_.cost(row)) - best_u_[c];
  for (uint32_t k = first_edge_[row]; k < first_edge_[row + 1]; ++k)
    sum += best_shares_[pair_[k]] * best_u_[pair_child_[pair_[k]]];
  return sum;
}

} // namespace luminal::egraph
