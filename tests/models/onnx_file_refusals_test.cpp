// models/onnx_file_refusals_test.cpp -- what load_onnx says of graphs within graphs, and of the file as a
// whole.
#include "models/onnx_refusals.h"

namespace luminal::onnx_refusals {
namespace {

GraphText graph(std::vector<std::string> nodes, std::vector<std::string> inputs,
                std::vector<std::string> outputs) {
  return {std::move(nodes), {}, std::move(inputs), std::move(outputs)};
}
std::string any(std::string_view name, int type = f32) { return value(name, type, {}); }
std::string body(const GraphText& g, std::string_view name = "body") {
  return graph_attribute(name, g.text());
}

TEST(OnnxRefusals, Loops) {
  const GraphText turns =
      graph({node("Transpose", {"s"}, {"t"})}, {any("i", i64), any("go", boolean), any("s")},
            {any("go", boolean), any("t")});
  const GraphText stacks =
      graph({}, {any("i", i64), any("go", boolean)}, {any("go", boolean), any("i", i64)});
  expect_refusals({
      {"Loop",
       {scalar(3)},
       {body({})},
       "has a body of 0 inputs and 0 results: for 0 carried values 2 inputs and at least 1 results are "
       "expected"},
      {"Loop",
       {scalar(5000), none(), x({1, 2})},
       {body(turns)},
       "makes more than 4096 steps from which shapes change: give it a smaller count"},
      {"Loop",
       {scalar(3), In{{}, boolean, true, false, std::string(1, '\0')}},
       {body(stacks)},
       "makes no step, so the shapes of its stacked results are not known: a count above 0 is needed"},
  });
}

TEST(OnnxRefusals, Branches) {
  const GraphText one = graph({}, {}, {any("in0", boolean)});
  expect_refusals({{"If",
                    {x({}, boolean)},
                    {body(one, "then_branch"), body({}, "else_branch")},
                    "has branches of 1 and 0 results: both must have as many"}});
}

TEST(OnnxRefusals, Scans) {
  const GraphText same = graph({}, {any("a")}, {any("a")});
  const auto scans = [](int64_t count) { return integer("num_scan_inputs", count); };
  expect_refusals({
      {"Scan", {x({2, 3})}, {body(same), scans(2)}, "has num_scan_inputs = 2, expected 1 to 1"},
      {"Scan",
       {none(), x({1, 2, 3})},
       {body(same), scans(-1)},
       "has num_scan_inputs = -1, expected 1 to 1",
       8},
      {"Scan",
       {x({2, 3}), x({2, 3})},
       {body(same), scans(1)},
       "has a body of 1 inputs and 1 results: 2 inputs and at least 1 results are expected"},
      {"Scan",
       {x({1}, i64), x({1, 2, 3})},
       {body(same), scans(1)},
       "has lengths of its own for each sequence, which is not supported: leave that input out",
       8},
      {"Scan",
       {x({2, 3})},
       {body(same), scans(1), integers("scan_input_axes", {0, 0})},
       "has 2 numbers in scan_input_axes, 1 are expected"},
  });
}

/// A node within a body is refused as one outside of it, with the line of the caller.
TEST(OnnxRefusals, NodesOfABody) {
  const GraphText inner =
      graph({node("Softmax", {"s"}, {"t"}, {integer("axis", 5)})},
            {any("i", i64), any("go", boolean), any("s")}, {any("go", boolean), any("t")});
  const Refused loop{"Loop", {scalar(3), none(), x({2})}, {body(inner)}, ""};
  EXPECT_EQ(refusal(model(graph_of(loop))), "m.onnx: node 't' (Softmax) names axis 5 of 1 axes");
}

GraphText identity() { return graph({node("Identity", {"x"}, {"y"})}, {value("x", f32, {2})}, {any("y")}); }
std::string function(std::string_view name, const std::vector<std::string>& nodes, int64_t opset = 17,
                     const std::string& more = "") {
  std::string text = field(1, name) + field(4, "a") + field(5, "b") + field(10, "local");
  for (const std::string& each : nodes) text += field(7, each);
  return field(25, text + field(9, field(1, "") + field(2, opset)) + more);
}
/// Calls f, which these functions define.
std::string calling(const std::string& functions) {
  GraphText g = identity();
  g.nodes = {node("f", {"x"}, {"y"}, {}, "local")};
  return model(g, 17, functions);
}

TEST(OnnxRefusals, InputsOfTheModel) {
  GraphText g = identity();
  const auto input = [&](const std::string& text, const OnnxOptions& options = {}) {
    g.inputs = {text};
    return refusal(model(g), options);
  };
  EXPECT_EQ(input(value("x", text_type, {2})),
            "m.onnx: input 'x' has elements of STRING, which is not supported");
  EXPECT_EQ(input(value("x", 99, {2})),
            "m.onnx: input 'x' has elements of the type 99, which is not supported");
  EXPECT_EQ(input(field(1, "x") + field(2, field(4, ""))),
            "m.onnx: input 'x' is not a tensor (a sequence, say), which is not supported");
  EXPECT_EQ(input(field(1, "x") + field(2, field(1, field(1, int64_t(f32))))),
            "m.onnx: input 'x' has no shape in the file: say which it has (OnnxOptions::shapes)");
  EXPECT_EQ(input(value("x", f32, {2, 3}), {.shapes = {{"x", {2}}}}),
            "m.onnx: input 'x' has 2 axes, its shape is [2]");
  EXPECT_EQ(input(value("x", f32, {2, 3}), {.shapes = {{"x", {2, 4}}}}),
            "m.onnx: input 'x' has 3 elements along axis 1, its shape is [2, 4]");
  g.nodes = {node("Reshape", {"x", "x"}, {"y"})};
  EXPECT_EQ(input(value("x", i64, {1}), {.values = {{"x", {DType::f32, {1}, std::vector<std::byte>(4)}}}}),
            "m.onnx: input 'x' is i64, its value in OnnxOptions::values is f32");
}

TEST(OnnxRefusals, ValuesOfTheModel) {
  GraphText g = identity();
  const std::string text =
      field(1, int64_t(1)) + field(2, int64_t(text_type)) + field(6, "a") + field(8, "s");
  g.initializers = {text};
  g.nodes = {node("Relu", {"s"}, {"y"})};
  EXPECT_EQ(refusal(model(g)), "m.onnx: tensor 's' has elements of STRING, which is not supported");
  g.nodes = {node("Relu", {"z"}, {"y"})};
  EXPECT_EQ(refusal(model(g)), "m.onnx: node 'y' (Relu) reads 'z', which nothing before it makes");
  g.nodes = {node("Strange", {"x"}, {"y"}), node("Strange", {"x"}, {"z"})};
  EXPECT_EQ(refusal(model(g)), "m.onnx: operators that are not supported (docs/onnx.md lists those that "
                               "are), with how often: Strange (2)");
  EXPECT_EQ(refusal(model(identity(), 6)), "m.onnx: the file is of opset 6, 7 to 27 are supported");
  const std::string sparse = field(15, field(1, tensor("w", f32, {1}, raw<float>({1}))));
  EXPECT_EQ(refusal(field(8, field(1, "") + field(2, int64_t(17))) + field(7, identity().text() + sparse)),
            "m.onnx: 'w' is a sparse tensor, which is not supported: write it as a dense one");
}

TEST(OnnxRefusals, FunctionsOfTheFile) {
  EXPECT_EQ(refusal(calling(function("f", {node("Relu", {"a"}, {"b"})}, 6))),
            "m.onnx: function 'f' is of opset 6, 7 to 27 are supported");
  EXPECT_EQ(refusal(calling(function("f", {node("f", {"a"}, {"b"}, {}, "local")}))),
            "m.onnx: graphs and calls of functions are nested more than 64 deep");
  // A graph that stands for an attribute where the call has none is looked through, too.
  const GraphText strange = graph({node("Strange", {}, {"s"})}, {}, {any("s")});
  EXPECT_EQ(refusal(calling(
                function("f", {node("Relu", {"a"}, {"b"})}, 17, field(11, body(strange, "then_branch"))))),
            "m.onnx: operators that are not supported (docs/onnx.md lists those that are), with how often: "
            "Strange (1)");
  const auto often = [](const std::string& op, const std::string& domain) {
    std::vector<std::string> nodes;
    for (int i = 0; i < 60; i++) nodes.push_back(node(op, {"a"}, {"b"}, {}, domain));
    return nodes;
  };
  EXPECT_EQ(refusal(calling(function("f", often("g", "local")) + function("g", often("h", "local")) +
                            function("h", often("Identity", "")))),
            "m.onnx: more than 200000 nodes are made, as its loops and functions repeat them");
}

} // namespace
} // namespace luminal::onnx_refusals
