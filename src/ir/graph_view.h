// ir/graph_view.h -- a module as boxes and arrows, for the texts that draw it.
#pragma once
#include "ir/term.h"

namespace luminal {

struct GraphView {
  struct Box {
    std::string title; // %name or the name of a result
    std::string line;  // what it does, short
    std::string text;  // what it does, in full
    std::string style; // input, weight, state, leaf, map, view, fold, structure, result
    bool marked = false;
  };
  struct Arrow {
    int from, to;     // boxes
    std::string text; // dtype and shape
  };
  struct Group { // a function
    std::string name;
    std::vector<Box> boxes;
    std::vector<Arrow> arrows;
    std::vector<std::pair<int, std::string>> calls; // box -> function
  };
  std::vector<Group> groups;
};
/// The layers of a model one by one, where weights are named by layer ("blk.3.attn_q.weight") in
/// two layers or more; else the group itself. A value belongs to the last layer that it depends on;
/// what comes from another part has a stand-in of style "outside".
std::vector<GraphView::Group> split_by_layer(const GraphView::Group& group);
GraphView graph_view(const Module& module, const std::vector<NodeId>& marked);

} // namespace luminal
