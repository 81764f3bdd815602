// extract/extract_solution.cpp -- what leaves a solution with a row of a class, and what another
// row brings in.
#include "extract/extract_solution.h"
#include <cmath>

namespace luminal::egraph {

void Solution::start() {
  const uint32_t n = g_.class_count();
  for (auto* array : {&choice_, &uses_, &stamp_, &stack_, &left_, &entered_}) array->reserve(n);
  std::copy_n(g_.tree_choice(), n, choice_.begin());
  std::fill_n(uses_.begin(), n, 0);
  std::fill_n(stamp_.begin(), n, 0);
  round_ = 0;
  steps_ = g_.size();
  cost_ = 0;
  for (const uint32_t c : g_.roots())
    if (uses_[c]++ == 0) cost_ += g_.cost(choice_[c]) + enter(choice_[c], infinite_cost);
}

void Solution::set_defaults() {
  g_.choose_trees(uses_.begin(), choice_.begin());
  steps_ += g_.size();
}

/// Adds the children of a row and what they need, and gives what that costs. Breaks off at `limit`:
/// then only take_back() makes the counts right again.
double Solution::enter(uint32_t row, double limit) {
  double sum = 0;
  uint32_t top = 0, count = 0, looked = 0;
  const auto add = [&](uint32_t r) {
    const auto children = g_.children(r);
    for (const uint32_t d : children)
      if (uses_[d]++ == 0) stack_[top++] = d;
    looked += uint32_t(children.size()) + 1;
  };
  add(row);
  while (top > 0) {
    const uint32_t c = stack_[--top];
    entered_[count++] = c;
    sum += g_.cost(choice_[c]);
    add(choice_[c]);
    if (sum >= limit) break;
  }
  entered_size_ = count;
  steps_ += looked;
  return sum;
}

void Solution::take_back(uint32_t row) {
  constexpr uint32_t minus_one = ~uint32_t(0);
  count(row, minus_one);
  for (const uint32_t c : entered()) count(choice_[c], minus_one);
}

double Solution::leave(uint32_t row) {
  double sum = 0;
  uint32_t top = 0, count = 0, looked = 0;
  const auto drop = [&](uint32_t r) {
    const auto children = g_.children(r);
    for (const uint32_t d : children)
      if (--uses_[d] == 0) stack_[top++] = d;
    looked += uint32_t(children.size()) + 1;
  };
  drop(row);
  while (top > 0) {
    const uint32_t c = stack_[--top];
    left_[count++] = c;
    sum += g_.cost(choice_[c]);
    drop(choice_[c]);
  }
  left_size_ = count;
  steps_ += looked;
  return sum;
}

bool Solution::leads_back(uint32_t c, uint32_t row) {
  if (!g_.on_cycle(c)) return false;
  const uint32_t component = g_.component(c);
  ++round_;
  uint32_t top = 0, looked = 0;
  const auto visit = [&](uint32_t r) {
    const auto children = g_.children(r);
    for (const uint32_t d : children)
      if (d >= component && stamp_[d] != round_) { // what lies below the component does not lead back into it
        stamp_[d] = round_;
        stack_[top++] = d;
      }
    looked += uint32_t(children.size()) + 1;
  };
  visit(row);
  bool found = false;
  while (top > 0 && !found) {
    const uint32_t d = stack_[--top];
    found = d == c;
    visit(choice_[d]);
  }
  steps_ += looked;
  return found;
}

void Solution::take(uint32_t c, uint32_t row) {
  const uint32_t old = choice_[c];
  trail_.push_back({c, old});
  const double added = g_.cost(row) + enter(row, infinite_cost); // first: what both rows need stays
  cost_ += added - (g_.cost(old) + leave(old));
  choice_[c] = row;
}

void Solution::mark() {
  trail_.clear();
  marked_cost_ = cost_;
}

void Solution::undo() {
  for (size_t i = trail_.size(); i-- > 0;) {
    const Taken back = trail_[i];
    take(back.c, back.row);
  }
  trail_.clear();
  cost_ = marked_cost_;
}

bool Solution::improve(uint32_t c) {
  const uint32_t old = choice_[c], first = g_.first_row(c), end = g_.end_row(c);
  const bool negative = g_.has_negative_costs();
  // Children that all rows have are held: they would only leave and come back, with all that is
  // below them.
  const auto in_all_rows = [&](uint32_t d) {
    for (uint32_t r = first; r < end; ++r) {
      const auto children = g_.children(r);
      if (std::find(children.begin(), children.end(), d) == children.end()) return false;
    }
    return true;
  };
  held_.clear();
  for (const uint32_t d : g_.children(old))
    if (uses_[d] == 1 && in_all_rows(d)) {
      ++uses_[d];
      held_.push_back(d);
    }
  const double saved = g_.cost(old) + leave(old);
  double best = saved - 1e-9 * std::max(1.0, std::abs(saved));
  uint32_t row = old, looked = 0;
  for (uint32_t r = first; r < end; ++r) {
    if (r == old) continue;
    if (!negative) {
      double least = g_.cost(r);
      const auto children = g_.children(r);
      looked += uint32_t(children.size()) + 1;
      for (const uint32_t d : children)
        if (uses_[d] == 0) least = std::max(least, g_.cost(r) + g_.cost(choice_[d]));
      if (least >= best) continue;
    }
    const double cost = g_.cost(r) + enter(r, negative ? infinite_cost : best - g_.cost(r));
    take_back(r);
    if (cost < best && !leads_back(c, r)) {
      best = cost;
      row = r;
    }
  }
  enter(old, infinite_cost);
  for (const uint32_t d : held_) --uses_[d];
  steps_ += looked;
  if (row == old) return false;
  take(c, row);
  return true;
}

} // namespace luminal::egraph
