// extract/extract_solution.h -- a solution of a DAG extraction that is changed one class at a time.
// For the DAG extractor.
#pragma once
#include "extract/extract_compact.h"

namespace luminal::egraph {

/// One row for each class ("choice"), without cycles, and a count of the chosen uses of each class
/// below the roots: a class with uses is in the solution and paid once. Moves look only at what
/// leaves the solution and what enters it.
class Solution {
public:
  explicit Solution(CompactGraph& graph) : g_(graph) {}
  /// From the least trees.
  void start();
  /// Classes outside of the solution take rows with low tree costs when the solution is free. Not
  /// between mark() and undo().
  void set_defaults();
  double cost() const { return cost_; }
  uint32_t choice(uint32_t c) const { return choice_[c]; }
  bool contains(uint32_t c) const { return uses_[c] > 0; }

  /// Whether the chosen terms of the row's children contain the class.
  bool leads_back(uint32_t c, uint32_t row);
  /// A class of the solution takes another row, which does not lead back to it, whatever it costs.
  void take(uint32_t c, uint32_t row);
  /// A class of the solution takes its best row given the choice of the others. Returns whether the
  /// cost fell.
  bool improve(uint32_t c);
  /// What left the solution and what entered it with the last take() or improve() that changed
  /// something.
  std::span<const uint32_t> left() const { return {left_.begin(), left_.begin() + left_size_}; }
  std::span<const uint32_t> entered() const { return {entered_.begin(), entered_.begin() + entered_size_}; }
  /// undo() goes back to the last mark().
  void mark();
  void undo();

  uint32_t uses(uint32_t c) const { return uses_[c]; }

  /// Calls see(class) for each class of the solution, parents before some of their children.
  template <class See> void each(const See& see) {
    ++round_;
    uint32_t top = 0;
    const auto visit = [&](uint32_t c) {
      if (stamp_[c] == round_) return;
      stamp_[c] = round_;
      stack_[top++] = c;
    };
    for (const uint32_t c : g_.roots()) visit(c);
    while (top > 0) {
      const uint32_t c = stack_[--top];
      see(c);
      for (const uint32_t d : g_.children(choice_[c])) visit(d);
      ++steps_;
    }
  }
  /// Work so far: children looked at.
  double steps() const { return steps_; }
  void add_steps(double steps) { steps_ += steps; }

private:
  struct Taken {
    uint32_t c, row; ///< the row it had
  };
  double enter(uint32_t row, double limit);
  void take_back(uint32_t row);
  double leave(uint32_t row);
  void count(uint32_t row, uint32_t by) {
    for (const uint32_t d : g_.children(row)) uses_[d] += by;
  }

  CompactGraph& g_;
  Scratch<uint32_t> choice_, uses_, stamp_, stack_, left_, entered_;
  std::vector<uint32_t> held_;
  std::vector<Taken> trail_;
  uint32_t left_size_ = 0, entered_size_ = 0, round_ = 0;
  double cost_ = 0, marked_cost_ = 0, steps_ = 0;
};

} // namespace luminal::egraph
