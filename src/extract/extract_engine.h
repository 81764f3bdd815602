// extract/extract_engine.h -- the extraction problem of an e-graph: what its roots reach, as flat
// arrays.
#pragma once
#include "egraph/egraph.h"
#include "extract/extract.h"

namespace luminal::egraph {

struct EngineProblemOptions {
  /// Cost of a row; infinite for what must not be chosen. By default the cost of its operator.
  std::function<double(const RowView&)> cost;
  /// For columns of container sorts: appends the classes inside a value, with repeats, in a fixed
  /// order. Needed where terms hold containers.
  std::function<void(SortId sort, Value container, std::vector<ClassId>& classes)> contents;
};

/// Rows of constructors whose class the roots reach; subsumed rows and unextractable operators are
/// left out. Columns of value sorts are no children.
struct EngineProblem {
  ExtractionProblem problem;
  std::vector<ClassId> class_of;                   ///< leader for each class of the problem
  std::vector<std::pair<OpId, RowId>> engine_rows; ///< by source(row) of the problem

  /// The engine's row that the genome chooses for a class of the problem.
  std::pair<OpId, RowId> chosen(const Genome& genome, uint32_t c) const {
    return engine_rows[problem.source(genome[c])];
  }
};
/// Throws Error for a container without `contents`. Row ids hold until the e-graph changes.
EngineProblem engine_problem(EGraph& graph, std::span<const ClassId> roots,
                             const EngineProblemOptions& options = {});

} // namespace luminal::egraph
