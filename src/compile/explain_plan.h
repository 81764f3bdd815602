// compile/explain_plan.h -- why a plan is as it is (luminal/explain.h), from what its passes have reported.
#pragma once
#include "compile/compile.h"
#include "compile/region_search.h"
#include "luminal/explain.h"
#include <span>

namespace luminal::compile {

/// What asked for these nodes, "matmul at train.cpp:41", each once, by file and line.
std::vector<std::string> origins(const Function& function, std::span<const NodeId> nodes);
/// The terms of a region, and what the fragment (null: nothing) makes of them.
void write_texts(const RegionFunction& region, const rules::Fragment* fragment, RegionReport& report);

/// Of what was compiled with these options.
Explanation explain(const Compiled& compiled, const Options& options);

} // namespace luminal::compile
