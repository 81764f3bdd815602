// models/onnx_test.cpp -- ONNX files as graphs: dynamic dimensions, control flow, functions.
// What each operator computes is held against ONNX's own tests (tests/onnx); errors: onnx_refusals_test.cpp.
#include "formats/util.h"
#include "luminal/onnx.h"
#include "support/onnx_writer.h"
#include <gmock/gmock.h>

namespace luminal::onnx_test {
namespace {

using namespace luminal::testing_formats;
using namespace luminal::testing_formats::onnx_writer;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
constexpr int f32 = 1, i64 = 7, boolean = 9;

class OnnxModels : public ::testing::Test {
protected:
  OnnxModel load(const GraphText& graph, const OnnxOptions& options = {}, int64_t opset = 17,
                 const std::string& functions = "") {
    put_file(folder_.file("m.onnx"), model(graph, opset, functions));
    return load_onnx(folder_.file("m.onnx"), options);
  }
  std::string refusal(const GraphText& graph, const OnnxOptions& options = {}, int64_t opset = 17) {
    try {
      load(graph, options, opset);
      return "accepted";
    } catch (const Error& error) {
      return error.what();
    }
  }
  TemporaryFolder folder_;
};

std::vector<float> run(OnnxModel& m, const std::string& output) {
  m.graph.execute();
  return m.output(output).data<float>();
}

TEST_F(OnnxModels, DynamicDimensionsKeepTheirNames) {
  GraphText g; // y = reshape(x * w, [-1]) over n rows
  g.nodes = {node("Shape", {"x"}, {"s"}), node("Gather", {"s", "zero"}, {"n"}),
             node("Mul", {"n", "two"}, {"all"}), node("Mul", {"x", "w"}, {"p"}),
             node("Reshape", {"p", "all"}, {"y"})};
  g.initializers = {tensor("w", f32, {2}, raw<float>({10, 100})), tensor("zero", i64, {1}, raw<int64_t>({0})),
                    tensor("two", i64, {1}, raw<int64_t>({2}))};
  g.inputs = {value("x", f32, {"rows", 2})};
  g.outputs = {value("y", f32, {"m"})};
  OnnxModel m = load(g, {.dims = {{"rows", {1, 8}}}});
  EXPECT_EQ(m.output("y").shape()[0].to_string(), "rows*2");
  m.input("x").set_dyn({{1, 2}, {3, 4}, {5, 6}});
  EXPECT_THAT(run(m, "y"), ElementsAre(10, 200, 30, 400, 50, 600));
  m.input("x").set_dyn({{7, 8}});
  EXPECT_THAT(run(m, "y"), ElementsAre(70, 800));
  OnnxModel fixed = load(g, {.shapes = {{"x", {2, 2}}}});
  EXPECT_EQ(fixed.output("y").shape()[0], Dim(4));
}

GraphText choice() {
  GraphText then, otherwise, g;
  then.nodes = {node("Mul", {"x", "w"}, {"t"})};
  then.outputs = {value("t", f32, {2})};
  otherwise.nodes = {node("Neg", {"x"}, {"e"})};
  otherwise.outputs = {value("e", f32, {2})};
  g.nodes = {
      node("If", {"c"}, {"y"},
           {graph_attribute("then_branch", then.text()), graph_attribute("else_branch", otherwise.text())})};
  g.initializers = {tensor("w", f32, {2}, raw<float>({2, 3}))};
  g.inputs = {value("c", boolean, {}), value("x", f32, {2})};
  g.outputs = {value("y", f32, {2})};
  return g;
}
TEST_F(OnnxModels, ConditionsAreKnownAtRunTime) {
  OnnxModel m = load(choice());
  m.input("x").set({1, 2});
  m.input("c").set(true);
  EXPECT_THAT(run(m, "y"), ElementsAre(2, 6));
  m.input("c").set(false);
  EXPECT_THAT(run(m, "y"), ElementsAre(-1, -2));
}

TEST_F(OnnxModels, LoopsEndByTheirCondition) {
  GraphText body, g; // while total < limit: total += x
  body.nodes = {node("Add", {"total", "x"}, {"next"}), node("Less", {"next", "limit"}, {"more"})};
  body.inputs = {value("i", i64, {}), value("go", boolean, {}), value("total", f32, {})};
  body.outputs = {value("more", boolean, {}), value("next", f32, {})};
  g.nodes = {node("Loop", {"", "yes", "zero"}, {"y"}, {graph_attribute("body", body.text())})};
  g.initializers = {tensor("yes", boolean, {}, "\1"), tensor("zero", f32, {}, raw<float>({0}))};
  g.inputs = {value("x", f32, {}), value("limit", f32, {})};
  g.outputs = {value("y", f32, {})};
  OnnxModel m = load(g);
  m.input("x").set(3.0F);
  m.input("limit").set(10.0F);
  EXPECT_THAT(run(m, "y"), ElementsAre(12));
  m.input("limit").set(4.0F);
  EXPECT_THAT(run(m, "y"), ElementsAre(6));
}

/// As many steps as x has rows, or none: the sum of x and its row numbers, and all partial sums.
TEST_F(OnnxModels, LoopsOverADimension) {
  GraphText body, g;
  body.nodes = {node("Cast", {"i"}, {"at"}, {integer("to", f32)}), node("Add", {"total", "at"}, {"next"}),
                node("Identity", {"next"}, {"each"}), node("Identity", {"go"}, {"more"})};
  body.inputs = {value("i", i64, {}), value("go", boolean, {}), value("total", f32, {})};
  body.outputs = {value("more", boolean, {}), value("next", f32, {}), value("each", f32, {})};
  for (const bool none : {false, true}) {
    g.nodes = {node("Shape", {"x"}, {"s"}), node("Gather", {"s", "zero"}, {"n"}),
               node("ReduceSum", {"x"}, {"start"}, {integer("keepdims", 0)}),
               node("Loop", {none ? "zero" : "n", "", "start"}, {"y", "all"},
                    {graph_attribute("body", body.text())})};
    g.initializers = {tensor("zero", i64, {}, raw<int64_t>({0}))};
    g.inputs = {value("x", f32, {"n"})};
    g.outputs = {value("y", f32, {}), value("all", f32, {"n"})};
    OnnxModel m = load(g, {.dims = {{"n", {1, 8}}}});
    m.input("x").set_dyn({1, 2, 3, 4});
    EXPECT_THAT(run(m, "y"), ElementsAre(none ? 10 : 16));
    const auto partial = m.output("all").data<float>();
    EXPECT_EQ(std::vector<float>(partial.begin(), partial.end()),
              none ? std::vector<float>{} : (std::vector<float>{10, 11, 13, 16}));
    m.input("x").set_dyn({5, 6});
    EXPECT_THAT(run(m, "y"), ElementsAre(none ? 11 : 12));
  }
}

/// Up to a multiple of 4, which is a number of zeros that the shape says; then a slice beyond the end.
TEST_F(OnnxModels, PaddingByDimensions) {
  GraphText g;
  g.nodes = {node("Shape", {"x"}, {"n"}),
             node("Mod", {"n", "four"}, {"over"}),
             node("Sub", {"four", "over"}, {"missing"}),
             node("Mod", {"missing", "four"}, {"after"}),
             node("Concat", {"zero", "after"}, {"pads"}, {integer("axis", 0)}),
             node("Pad", {"x", "pads"}, {"y"}),
             node("Add", {"n", "four"}, {"beyond"}),
             node("Slice", {"x", "one", "beyond", "zero"}, {"z"})};
  g.initializers = {tensor("zero", i64, {1}, raw<int64_t>({0})), tensor("one", i64, {1}, raw<int64_t>({1})),
                    tensor("four", i64, {1}, raw<int64_t>({4}))};
  g.inputs = {value("x", f32, {"n"})};
  g.outputs = {value("y", f32, {"m"}), value("z", f32, {"k"})};
  OnnxModel m = load(g, {.dims = {{"n", {1, 8}}}});
  m.input("x").set_dyn({1, 2, 3, 4, 5});
  EXPECT_THAT(run(m, "y"), ElementsAre(1, 2, 3, 4, 5, 0, 0, 0));
  EXPECT_THAT(m.output("z").data<float>(), ElementsAre(2, 3, 4, 5));
  m.input("x").set_dyn({1, 2, 3, 4});
  EXPECT_THAT(run(m, "y"), ElementsAre(1, 2, 3, 4));
}

TEST_F(OnnxModels, FunctionsOfTheFileAreCalled) {
  const std::string functions = field(
      25, field(1, "Twice") + field(4, "a") + field(4, "absent") + field(5, "b") +
              field(7, node("Clip", {"a", "absent"}, {"c"})) + field(7, node("Add", {"c", "c"}, {"b"})) +
              field(9, field(1, "") + field(2, int64_t(17))) + field(10, "local"));
  GraphText g;
  g.nodes = {node("Twice", {"x"}, {"y"}, {}, "local")};
  g.inputs = {value("x", f32, {2})};
  g.outputs = {value("y", f32, {2})};
  OnnxModel m = load(g, {}, 17, functions);
  m.input("x").set({1, -2});
  EXPECT_THAT(run(m, "y"), ElementsAre(2, -4));
}

TEST_F(OnnxModels, ValuesThatShapesDependOnAreFixed) {
  GraphText g;
  g.nodes = {node("Reshape", {"x", "shape"}, {"y"})};
  g.inputs = {value("x", f32, {4}), value("shape", i64, {2})};
  g.outputs = {value("y", f32, {2, 2})};
  EXPECT_THAT(
      refusal(g),
      HasSubstr("node 'y' (Reshape) needs the integers of 'shape' while the graph is made, and it depends on "
                "shape: give the value (OnnxOptions::values)"));
  const std::vector<int64_t> shape{2, 2};
  const auto bytes = std::as_bytes(std::span(shape));
  OnnxModel m = load(g, {.values = {{"shape", {DType::i64, {2}, {bytes.begin(), bytes.end()}}}}});
  EXPECT_THAT(m.fixed, ElementsAre("shape"));
  ASSERT_EQ(m.inputs.size(), 1U);
  EXPECT_EQ(m.output("y").rank(), 2);
  EXPECT_THAT(refusal(g, {.values = {{"shape", {DType::f32, {1}, std::vector<std::byte>(4)}}}}),
              HasSubstr("input 'shape' is i64, its value in OnnxOptions::values is f32"));
}

TEST_F(OnnxModels, UnknownOperatorsAreListedTogether) {
  GraphText g;
  g.nodes = {node("Strange", {"x"}, {"a"}), node("Strange", {"a"}, {"b"}),
             node("Other", {"b"}, {"y"}, {}, "my.domain")};
  g.inputs = {value("x", f32, {2})};
  g.outputs = {value("y", f32, {2})};
  EXPECT_THAT(refusal(g), HasSubstr("with how often: Strange (2), my.domain.Other (1)"));
}

TEST_F(OnnxModels, NamesThatAreNotThere) {
  GraphText g;
  g.nodes = {node("Relu", {"x"}, {"y"})};
  g.inputs = {value("x", f32, {2})};
  g.outputs = {value("y", f32, {2})};
  const OnnxModel m = load(g);
  try {
    m.input("z");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("the model has no input 'z'; it has x"));
  }
}

} // namespace
} // namespace luminal::onnx_test
