// base/graph_page.h -- graphs as boxes and arrows: drawn for Graphviz, or as a page that needs no
// network.
#pragma once
#include <string>
#include <utility>
#include <vector>

namespace luminal {

struct GraphView {
  struct Box {
    std::string title; // in bold
    std::string line;  // what it does, short
    std::string text;  // what it does, in full
    /// Of terms: input, weight, state, leaf, map, view, fold, structure, result, or outside: it stands
    /// for a box of another group. Of e-graphs: row, subsumed.
    std::string style;
    bool marked = false;
  };
  struct Arrow {
    int from, to; // boxes; from < to
    std::string text;
  };
  struct Group { // a function, a class
    std::string name;
    std::string note; // behind the name
    std::vector<Box> boxes;
    std::vector<Arrow> arrows;
    std::vector<std::pair<int, std::string>> links; // box -> name of a group
  };
  std::string title;
  std::string note; // above the drawings
  std::vector<Group> groups;
};

std::string to_dot(const GraphView& view);
/// One file: a drawing for each group in layers, search, zoom; a click on a box shows what it is and
/// leads to the groups that it links to.
std::string to_html(const GraphView& view);

} // namespace luminal
