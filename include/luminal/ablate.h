// luminal/ablate.h -- what each rule is worth to a program.
#pragma once
#include "luminal/graph.h"
#include "luminal/rule_worth.h"

namespace luminal {

/// Plans the graph once more for each rule that applied, without that rule. Nothing is measured. Options with
/// several typical sizes: of the first ones. Throws Error as Graph::compile does.
Ablation ablate(const Graph& graph, const CompileOptions& options = {},
                std::source_location where = std::source_location::current());

} // namespace luminal
