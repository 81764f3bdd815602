// luminal/plan_file.h -- what measuring found for a program, as a file that another machine of the same kind
// can use.
#pragma once
#include "luminal/graph.h"
#include <string>

namespace luminal {

/// The schedule of every kernel and the plan of every region that was measured, of a compiled graph, as text:
/// JSON lines, which `luminal cache import` reads, too. Throws Error where the graph is not compiled.
std::string export_plan(const Graph& graph, std::source_location where = std::source_location::current());

/// CompileOptions::plan of all that this process compiles from now on and that names none. Empty: LUMINAL_PLAN.
void choose_plan(std::string file);

} // namespace luminal
