// extract/extract_json_test.cpp -- the JSON of egraph-serialize: round trips, and one clear error
// for each mistake.
#include "extract/extract_json.h"
#include "extract_support.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace luminal;
using namespace luminal::egraph;
using namespace luminal::egraph::test;

TEST(EgraphJson, ReadsWhatTheFormatHas) {
  const auto graph = read_egraph_json(R"({"comment": {"a": [1, {"nodes": {}}]},
    "nodes": {"n0": {"op": "f\n", "children": ["n1", "n1"], "eclass": "c0", "cost": 2.5},
              "n1": {"op": "x", "eclass": "c1"},
              "n2": {"op": "y", "eclass": "c1", "cost": 3, "subsumed": true, "extra": [[]]}},
    "root_eclasses": ["c0"], "class_data": {"c1": {"type": "Expr", "note": "leaf"}, "c0": {"type": null}}})",
                                      "f.json");
  ASSERT_TRUE(graph) << graph.error();
  ASSERT_EQ(graph->nodes.size(), 3u);
  EXPECT_EQ(graph->nodes[0].op, "f\n");
  EXPECT_EQ(graph->nodes[0].children, (std::vector<uint32_t>{1, 1}));
  EXPECT_EQ(graph->nodes[1].cost, 1);
  EXPECT_TRUE(graph->nodes[2].subsumed);
  EXPECT_EQ(graph->classes[1].data[1].second, "leaf");
  EXPECT_EQ(graph->roots, std::vector<uint32_t>{0});
  const ExtractionProblem p = graph->problem();
  EXPECT_EQ(extract_tree(p).cost, 4.5);
  EXPECT_EQ(extract_dag(p).cost, 3.5);
  EXPECT_EQ(p.cost(p.first_row(1) + 1), infinite_cost);
  EXPECT_EQ(graph->problem(true).cost(p.first_row(1) + 1), 3);
  const auto again = read_egraph_json(write_egraph_json(*graph), "again");
  ASSERT_TRUE(again) << again.error();
  EXPECT_TRUE(*again == *graph);
}

TEST(EgraphJson, RandomGraphsComeBack) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Random random(seed);
    SerializedGraph graph;
    const uint32_t classes = 1 + random.below(6);
    for (uint32_t c = 0; c < classes; ++c) {
      graph.classes.push_back({"class \"" + std::to_string(c) + "\\", {}});
      if (random.below(3) == 0) graph.classes[c].data = {{"type", "T\x01"}, {"k", ""}};
    }
    const uint32_t nodes = classes + random.below(8);
    for (uint32_t i = 0; i < nodes; ++i) {
      SerializedGraph::Node node{
          "n" + std::to_string(i), "\xC3\xA9+",         {}, i < classes ? i : random.below(classes),
          random.unit() * 1e-7,    random.below(4) == 0};
      for (uint32_t k = random.below(3); k > 0; --k) node.children.push_back(random.below(nodes));
      graph.nodes.push_back(node);
    }
    graph.roots = {random.below(classes)};
    const auto again = read_egraph_json(write_egraph_json(graph), "again");
    ASSERT_TRUE(again) << again.error();
    ASSERT_TRUE(*again == graph) << "seed " << seed;
  }
}

TEST(EgraphJson, OneClearErrorForEachMistake) {
  const std::pair<const char*, const char*> mistakes[] = {
      {"", "not JSON"},
      {"{\"nodes\": {}", "not JSON"},
      {"[]", "the document is an array, expected an object with \"nodes\""},
      {"7", "the document is a number"},
      {"{}", "has no \"nodes\""},
      {R"({"nodes": []})", "\"nodes\" is an array, expected an object"},
      {R"({"nodes": 3})", "\"nodes\" is a number, expected an object"},
      {R"({"nodes": {}, "nodes": {}})", "\"nodes\" stands twice"},
      {R"({"nodes": {"a": 1}})", "node \"a\" is a number, expected an object"},
      {R"({"nodes": {"a": [1]}})", "node \"a\" is an array"},
      {R"({"nodes": {"a": {"eclass": "0"}}})", "node \"a\" has no \"op\""},
      {R"({"nodes": {"a": {"op": "f"}}})", "node \"a\" has no \"eclass\""},
      {R"({"nodes": {"a": {"op": 1, "eclass": "0"}}})",
       "\"op\" of node \"a\" is a number, expected a string"},
      {R"({"nodes": {"a": {"op": "f", "op": "g", "eclass": "0"}}})", "node \"a\" has \"op\" twice"},
      {R"({"nodes": {"a": {"op": "f", "eclass": {}}}})", "\"eclass\" of node \"a\" is an object"},
      {R"({"nodes": {"a": {"op": "f", "eclass": "0", "cost": null}}})",
       "\"cost\" of node \"a\" is null, expected a number"},
      {R"({"nodes": {"a": {"op": "f", "eclass": "0", "cost": 1e999}}})", "1e999"},
      {R"({"nodes": {"a": {"op": "f", "eclass": "0", "cost": "1"}}})", "\"cost\" of node \"a\" is a string"},
      {R"({"nodes": {"a": {"op": "f", "eclass": "0", "subsumed": 0}}})", "expected a boolean"},
      {R"({"nodes": {"a": {"op": "f", "eclass": "0", "children": "a"}}})", "expected an array of node ids"},
      {R"({"nodes": {"a": {"op": "f", "eclass": "0", "children": [0]}}})",
       "a child of node \"a\" is a number"},
      {R"({"nodes": {"a": {"op": "f", "eclass": "0", "children": [["a"]]}}})",
       "a child of node \"a\" is an array"},
      {R"({"nodes": {"a": {"op": "f", "eclass": "0", "children": ["b"]}}})",
       "node \"a\" has a child \"b\", which is not a node"},
      {R"({"nodes": {"a": {"op": "f", "eclass": "0"}, "a": {"op": "g", "eclass": "0"}}})",
       "node \"a\" stands twice"},
      {R"({"nodes": {}, "root_eclasses": ["0"]})", "root class \"0\" has no node"},
      {R"({"nodes": {}, "root_eclasses": "0"})", "\"root_eclasses\" is a string"},
      {R"({"nodes": {}, "root_eclasses": {}})", "\"root_eclasses\" is an object"},
      {R"({"nodes": {}, "root_eclasses": [1]})", "expected a class id"},
      {R"({"nodes": {}, "root_eclasses": [[]]})", "expected a class id"},
      {R"({"nodes": {}, "class_data": {"0": {"type": "x"}}})",
       "class_data names \"0\", a class without a node"},
      {R"({"nodes": {}, "class_data": {"0": 1}})", "data of class \"0\" is a number"},
      {R"({"nodes": {"a": {"op": "f", "eclass": "0"}}, "class_data": {"0": {"type": 1}}})",
       "data of class \"0\" is a number, expected a string"},
  };
  for (const auto& [text, error] : mistakes) {
    const auto graph = read_egraph_json(text, "x.json");
    ASSERT_FALSE(graph) << text;
    EXPECT_THAT(graph.error(), testing::StartsWith("x.json: ")) << text;
    EXPECT_THAT(graph.error(), testing::HasSubstr(error)) << text;
  }
  std::string deep = "{\"x\": ";
  for (int i = 0; i < 100000; ++i) deep += '[';
  EXPECT_THAT(read_egraph_json(deep, "x").error(), testing::HasSubstr("nested deeper than 64"));
  EXPECT_FALSE(load_egraph_json("/nonexistent.json"));
}
