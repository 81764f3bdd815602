// models/onnx/export_patterns.h -- several nodes that one operator of ONNX stands for become that operator.
#pragma once
#include "models/onnx/export_graph.h"
#include <map>

namespace luminal::onnx_export {

/// Rewrites the graph and its bodies by a table of patterns; `types` has the values that are known. Where
/// another node reads a part, all stay as they are: nothing is computed twice.
void join_operators(ExportGraph& made, GraphData& graph, const std::map<std::string, ValueType>& types);

} // namespace luminal::onnx_export
