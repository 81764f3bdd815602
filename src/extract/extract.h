// extract/extract.h -- choosing one row for each class of an e-graph: the dense problem, genomes,
// and the basic extractors (tree cost, DAG cost, evaluation of a genome). Further ones:
// extract_exact.h, extract_kbest.h, extract_sample.h, extract_moves.h, extract_passes.h; files:
// extract_json.h.
//
// A row of infinite cost is never chosen; NaN and minus infinity are refused. DAG cost may have
// negative costs, tree cost may not. Everything here is deterministic: ties go to the row that was
// added first.
#pragma once
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <vector>

namespace luminal::egraph {

inline constexpr uint32_t no_row = std::numeric_limits<uint32_t>::max();
inline constexpr double infinite_cost = std::numeric_limits<double>::infinity();

/// Classes, their alternative rows, the child classes of each row: flat arrays. The rows of a class
/// are numbered consecutively, in the order in which they were added.
class ExtractionProblem {
public:
  uint32_t class_count() const { return uint32_t(first_row_.size() - 1); }
  uint32_t row_count() const { return uint32_t(cost_.size()); }
  size_t edge_count() const { return child_.size(); }
  uint32_t first_row(uint32_t c) const { return first_row_[c]; }
  uint32_t end_row(uint32_t c) const { return first_row_[c + 1]; }
  uint32_t class_of(uint32_t row) const { return class_of_[row]; }
  /// Child classes in the order of the arguments; a class may stand here twice.
  std::span<const uint32_t> children(uint32_t row) const {
    return {child_.data() + first_child_[row], child_.data() + first_child_[row + 1]};
  }
  /// Those of all rows of a class, one row after the other.
  std::span<const uint32_t> children_of_class(uint32_t c) const {
    return {child_.data() + first_child_[first_row_[c]], child_.data() + first_child_[first_row_[c + 1]]};
  }
  double cost(uint32_t row) const { return cost_[row]; }
  /// The classes that are wanted, without repeats.
  std::span<const uint32_t> roots() const { return roots_; }
  /// Whether some cost is below zero.
  bool has_negative_costs() const { return negative_; }
  /// How many add_row() calls came before the one that made this row: the caller's own name for it.
  uint32_t source(uint32_t row) const { return source_[row]; }

private:
  friend class ExtractionBuilder;
  std::vector<uint32_t> first_row_{0}, class_of_, first_child_{0}, child_, roots_, source_;
  std::vector<double> cost_;
  bool negative_ = false;
};

/// Collects a problem in any order.
class ExtractionBuilder {
public:
  /// The id of a new class; ids count from 0.
  uint32_t add_class() { return classes_++; }
  void add_classes(uint32_t count) { classes_ += count; }
  /// Returns how many rows came before. Throws Error for a cost that is NaN or minus infinity and
  /// for unknown classes.
  uint32_t add_row(uint32_t of_class, std::span<const uint32_t> children, double cost);
  void add_root(uint32_t c);
  ExtractionProblem build() const;

private:
  uint32_t classes_ = 0;
  std::vector<uint32_t> of_class_, first_child_{0}, child_, roots_;
  std::vector<double> cost_;
};

/// The row of each class, or no_row. Classes that the roots do not reach may hold any row of
/// theirs.
using Genome = std::vector<uint32_t>;

/// A genome and what it costs; infinite where some root has no finite term.
struct Extraction {
  Genome genome;
  double cost = infinite_cost;
  bool feasible() const { return cost < infinite_cost; }
};

/// Tree cost: a class counts once for each of its occurrences in the term. Optimal, O(edges + rows
/// log classes) (Knuth's generalisation of Dijkstra's algorithm). Throws Error where a cost is
/// negative.
struct TreeExtraction : Extraction { ///< cost is the sum over the roots
  std::vector<double> class_cost;    ///< infinite for a class without a finite term
  std::vector<uint32_t> order;       ///< the classes that have one: children before parents
};
TreeExtraction extract_tree(const ExtractionProblem& problem);
/// The cost of a row for given costs of its children (in their order). Must not fall when a child's
/// cost rises and not lie below the cost of any child: what Knuth's algorithm asks for. NaN or a
/// value below a child's is an Error.
using RowCost = std::function<double(uint32_t row, std::span<const double> child_costs)>;
TreeExtraction extract_tree(const ExtractionProblem& problem, const RowCost& row_cost);

struct DagOptions {
  /// How much work the search may do for what greedy extraction with cost sets would do: 1 is about
  /// a tenth of its time.
  double effort = 1;
};
/// DAG cost: a class counts once however often it occurs. Starts from the least trees and improves
/// the whole choice by marginal costs. Not optimal (NP-hard): see extract_exact.h. Classes that the
/// roots do not reach hold no_row. Keeps its memory from one problem to the next: one for each
/// thread.
class DagExtractor {
public:
  explicit DagExtractor(const DagOptions& options = {});
  ~DagExtractor();
  DagExtractor(DagExtractor&&) noexcept;
  DagExtractor& operator=(DagExtractor&&) noexcept;
  /// The result holds until the next call.
  const Extraction& extract(const ExtractionProblem& problem);

private:
  class Search;
  std::unique_ptr<Search> search_;
};
Extraction extract_dag(const ExtractionProblem& problem, const DagOptions& options = {});

/// What a genome describes.
struct Evaluation {
  double cost = 0;      ///< DAG cost: sum over the reached classes
  bool complete = true; ///< every reached class has a row of its own
  bool acyclic = true;
  std::vector<uint32_t> order; ///< the reached classes, children before parents; as far as it is defined
  bool valid() const { return complete && acyclic; }
};
/// Evaluates genomes of one problem in time linear in what the roots reach. Keeps its scratch
/// memory: one for each thread.
class Evaluator {
public:
  explicit Evaluator(const ExtractionProblem& problem);
  /// The result holds until the next call.
  const Evaluation& evaluate(const Genome& genome);
  /// The sum over the terms below the roots, repeats included; infinite for a genome that is not
  /// valid.
  double tree_cost(const Genome& genome);
  /// Whether the last evaluation reached the class.
  bool reached(uint32_t c) const { return stamp_[c] == round_; }

private:
  const ExtractionProblem& problem_;
  Evaluation result_;
  std::vector<uint32_t> stamp_, pending_, stack_;
  std::vector<double> tree_;
  uint32_t round_ = 0;
};

/// For each class the component it lies in; components are numbered children first. Edges of all
/// rows, or of the rows that `keep` lets through.
struct Components {
  std::vector<uint32_t> of_class;
  uint32_t count = 0;
};
Components strongly_connected(const ExtractionProblem& problem,
                              const std::function<bool(uint32_t row)>& keep = nullptr);

} // namespace luminal::egraph
