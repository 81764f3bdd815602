// ir/graph_view.h -- a module as boxes and arrows, for what draws it.
#pragma once
#include "base/graph_page.h"
#include "ir/term.h"

namespace luminal {

/// A group for each function, in their order; links are calls.
GraphView graph_view(const Module& module, const std::vector<NodeId>& marked);
/// The layers of a model one by one, where weights are named by layer ("blk.3.attn_q.weight") in
/// two layers or more; else the group itself. A value belongs to the last layer that it depends on;
/// what comes from another part has a stand-in of style "outside".
std::vector<GraphView::Group> split_by_layer(const GraphView::Group& group);

} // namespace luminal
