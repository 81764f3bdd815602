// extract/extract_json.h -- reads and writes e-graphs in the JSON of egraph-serialize (0.3, as
// extraction-gym has it):
//
//   {"nodes": {"n0": {"op": "f", "children": ["n1"], "eclass": "c0", "cost": 1.0, "subsumed": false}, ...},
//    "root_eclasses": ["c0"], "class_data": {"c0": {"type": "Expr", ...}}}
//
// Children name nodes and mean their classes. `children` may be absent (none), and `cost` (1),
// `subsumed` (false), `root_eclasses`, `class_data`; unknown members are read over.
#pragma once
#include "base/result.h"
#include "extract/extract.h"
#include <string>
#include <string_view>
#include <utility>

namespace luminal::egraph {

/// An e-graph as the file gives it. Order of nodes and classes: of their first mention as a node.
struct SerializedGraph {
  struct Node {
    std::string id, op;
    std::vector<uint32_t> children; ///< nodes
    uint32_t of_class = 0;
    double cost = 1;
    bool subsumed = false;
    bool operator==(const Node&) const = default;
  };
  struct Class {
    std::string id;
    std::vector<std::pair<std::string, std::string>> data; ///< "type" and others, in the order of the file
    bool operator==(const Class&) const = default;
  };
  std::vector<Node> nodes;
  std::vector<Class> classes;
  std::vector<uint32_t> roots;
  bool operator==(const SerializedGraph&) const = default;

  /// Class and node numbers stay: source(row) is the node. A subsumed node gets an infinite cost
  /// unless it is asked for.
  ExtractionProblem problem(bool with_subsumed = false) const;
};

/// One clear failure for whatever is wrong: "FILE: offset 12: ..." or "FILE: node \"n0\" ...".
/// Refuses duplicate ids, unknown children and roots, costs that are negative or no numbers.
Result<SerializedGraph> read_egraph_json(std::string_view text, std::string_view file);
Result<SerializedGraph> load_egraph_json(const std::string& path);
/// Reading it gives the same graph. One node a line.
std::string write_egraph_json(const SerializedGraph& graph);

} // namespace luminal::egraph
