// extract/extract_compact.h -- what the roots of an extraction problem reach, numbered children
// first, in memory that is kept from one problem to the next. For the DAG extractor.
#pragma once
#include "extract/extract.h"
#include <algorithm>
#include <memory>

namespace luminal::egraph {

/// An array whose memory is used again: reserve() keeps nothing of what it held and sets nothing.
template <class T> class Scratch {
public:
  void reserve(size_t size) {
    if (size <= capacity_) return;
    capacity_ = std::max(size, capacity_ + capacity_ / 2);
    items_ = std::make_unique_for_overwrite<T[]>(capacity_);
  }
  T& operator[](size_t i) { return items_[i]; }
  const T& operator[](size_t i) const { return items_[i]; }
  T* begin() { return items_.get(); }
  const T* begin() const { return items_.get(); }

private:
  std::unique_ptr<T[]> items_;
  size_t capacity_ = 0;
};

/// The classes of a problem that its roots reach and the rows of them that have finite terms.
/// Numbers of its own: the classes of a strongly connected component are consecutive, components
/// come children first, and inside of one a class follows its children as far as a depth-first
/// search allows. A class stands once among the children of a row, and not below itself.
class CompactGraph {
public:
  struct Row {
    double cost;
    uint32_t first, end; ///< of its children
  };

  /// False where some root has no finite term; then nothing else is defined. Throws Error where the
  /// numbers of 32 bits do not suffice.
  bool build(const ExtractionProblem& problem);

  uint32_t class_count() const { return classes_; }
  uint32_t row_count() const { return rows_; }
  uint32_t first_row(uint32_t c) const { return first_row_[c]; }
  uint32_t end_row(uint32_t c) const { return first_row_[c + 1]; }
  bool has_choice(uint32_t c) const { return end_row(c) - first_row(c) > 1; }
  double cost(uint32_t r) const { return row_[r].cost; }
  std::span<const uint32_t> children(uint32_t r) const {
    return {child_.begin() + row_[r].first, child_.begin() + row_[r].end};
  }
  std::span<const uint32_t> roots() const { return {roots_.begin(), roots_.begin() + root_count_}; }
  /// The row of the problem.
  uint32_t source(uint32_t r) const { return source_[r]; }
  /// The first class of the component; children of c that are not below it may lead back to c.
  uint32_t component(uint32_t c) const { return component_[c]; }
  /// Whether the component has other classes.
  bool on_cycle(uint32_t c) const {
    return component_[c] != c || (c + 1 < classes_ && component_[c + 1] == c);
  }
  bool has_negative_costs() const { return negative_; }
  /// Work of a pass over everything.
  double size() const { return double(rows_) + double(edges_); }
  uint32_t edge_count() const { return edges_; }
  /// No solution costs less. Not for negative costs.
  double lower_bound() const { return lower_bound_; }

  /// Rows with low tree costs (costs below zero count as zero) where the classes with `paid[c] > 0`
  /// cost nothing and keep their row: the least outside of cycles, close to it on them, where the
  /// search starts from the choice that is given. Without cycles if those of the given choice are.
  void choose_trees(const uint32_t* paid, uint32_t* choice);
  /// The same for every class where nothing is paid.
  const double* tree_value() const { return value_.begin(); }
  const uint32_t* tree_choice() const { return choice_.begin(); }

private:
  /// Lists of children are padded with a class that costs nothing: sums without branches.
  static constexpr uint32_t lanes = 4;
  struct Cycle { ///< a component of several classes
    uint32_t first, end;
  };
  void add_class(const ExtractionProblem& p, uint32_t c);
  void add_component(const ExtractionProblem& p, std::span<const uint32_t> members);
  void add_rows(const ExtractionProblem& p, uint32_t c, uint32_t id);
  double tree_cost(const Row& row, const double* value) const;
  double most(const Row& row, const double* value) const;
  bool relax(uint32_t c, double* value, uint32_t* choice) const;
  bool settle(const Cycle& cycle);
  void improve_trees(const Cycle& cycle, const uint32_t* paid, double* value, uint32_t* choice);
  void settle_in_order(const Cycle& cycle);

  struct Visit {
    const uint32_t *child, *end; ///< what is left of the children
    uint32_t c, low, height;
  };
  Scratch<Row> row_;
  Scratch<uint32_t> first_row_, child_, source_, roots_, component_, todo_, name_, finished_;
  Scratch<Visit> visits_;
  Scratch<double> value_, least_, trial_;
  Scratch<uint32_t> choice_;
  std::vector<Cycle> cycles_;
  uint32_t classes_ = 0, rows_ = 0, edges_ = 0, pool_ = 0, padding_ = 0, root_count_ = 0;
  double lower_bound_ = 0;
  bool negative_ = false;
};

} // namespace luminal::egraph
