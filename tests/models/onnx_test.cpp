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

TEST_F(OnnxModels, DimensionsWithNamesOfAnyKind) {
  for (const std::string name : {"batch-size", "past + 1", "2*n", "min", "a.b.", "", "\xc3\xa9"}) {
    GraphText g;
    g.nodes = {node("Add", {"x", "z"}, {"s"}), node("Relu", {"s"}, {"y"})};
    g.inputs = {value("x", f32, {name.c_str()}), value("z", f32, {"past _ 1"})};
    g.outputs = {value("y", f32, {"m"})};
    OnnxModel m = load(g, {.dims = {{name.empty() ? "x.0" : name, {2, 5}}}});
    m.input("x").set_dyn({1, -2});
    m.input("z").set_dyn({1, 1});
    EXPECT_THAT(run(m, "y"), ElementsAre(2, 0)) << name;
  }
}

TEST_F(OnnxModels, SizesOfDimensionsThatTheFileDoesNotHave) {
  GraphText g;
  g.nodes = {node("Squeeze", {"x", "axes"}, {"y"})};
  g.initializers = {tensor("axes", i64, {1}, raw<int64_t>({1}))};
  g.inputs = {value("x", f32, {"rows", "columns"}), value("z", f32, {"rows", 3})};
  g.outputs = {value("y", f32, {"rows"})};
  EXPECT_THAT(refusal(g, {.dims = {{"row", {1, 2}}}}),
              HasSubstr(": no input has a dimension 'row'; there is rows, columns"));
  EXPECT_THAT(refusal(g, {.dims = {{"x.1", {1, 2}}}}), HasSubstr("no input has a dimension 'x.1'"));
  // What a size may settle says so.
  EXPECT_THAT(refusal(g),
              HasSubstr("is not 1 (squeeze() drops those that are); columns, rows are open, a size "
                        "may settle it (OnnxOptions::dims, --size)"));
  EXPECT_THAT(refusal(g, {.dims = {{"columns", {2, 2}}, {"rows", {1, 1}}}}), Not(HasSubstr("open")));
  OnnxModel m = load(g, {.dims = {{"columns", {1, 1}}}});
  EXPECT_EQ(m.output("y").shape().size(), 1u);
  g.inputs = {value("x", f32, {4, 1})};
  EXPECT_THAT(refusal(g, {.dims = {{"rows", {1, 2}}}}),
              HasSubstr("no input has a dimension 'rows'; the sizes of all inputs are fixed"));
}

TEST_F(OnnxModels, DimensionsThatOnlyOneSizeFits) {
  GraphText g; // all axes dynamic, as many exporters write them
  g.nodes = {node("MatMul", {"x", "w"}, {"p"}), node("Add", {"p", "z"}, {"s"}),
             node("Reshape", {"s", "shape"}, {"y"})};
  g.initializers = {tensor("w", f32, {2, 2}, raw<float>({1, 0, 0, 10})),
                    tensor("shape", i64, {2}, raw<int64_t>({-1, 4}))};
  g.inputs = {value("x", f32, {"rows", "columns"}), value("z", f32, {"other rows", "width"})};
  g.outputs = {value("y", f32, {"m", "k"})};
  OnnxModel m = load(g);
  EXPECT_EQ(m.input("x").shape()[1], Dim(2));
  const Dim rows = m.input("x").shape()[0];
  EXPECT_EQ(rows / 2 * 2, rows);
  EXPECT_EQ(m.input("z").shape(), m.input("x").shape());
  m.input("x").set_dyn({{1, 2}, {3, 4}});
  m.input("z").set_dyn({{0, 1}, {2, 3}});
  EXPECT_THAT(run(m, "y"), ElementsAre(1, 21, 5, 43));
  // What fits no size is refused as before.
  g.inputs = {value("x", f32, {"rows", "columns"}), value("z", f32, {"rows", "columns", 3})};
  EXPECT_THAT(refusal(g), HasSubstr("node 's' (Add): [add] shapes"));
  g.inputs[1] = value("z", f32, {1});
  EXPECT_THAT(refusal(g, {.dims = {{"columns", {3, 9}}}}), HasSubstr("inner sizes differ"));
}

TEST_F(OnnxModels, DimensionsThatAreSumsOfOthers) {
  GraphText g; // a cache: mask over what was and what is new
  g.nodes = {node("Concat", {"past", "x"}, {"all"}, {integer("axis", 0)}),
             node("Mul", {"all", "mask"}, {"y"})};
  g.inputs = {value("past", f32, {"past"}), value("x", f32, {"new"}), value("mask", f32, {"past + new"})};
  g.outputs = {value("y", f32, {"m"})};
  OnnxModel m = load(g);
  EXPECT_EQ(m.input("mask").shape()[0].to_string(), m.output("y").shape()[0].to_string());
  m.input("past").set_dyn({1, 2});
  m.input("x").set_dyn({3});
  m.input("mask").set_dyn({1, 0, 2});
  EXPECT_THAT(run(m, "y"), ElementsAre(1, 0, 6));
}

std::string text(std::string_view name, std::string_view word) {
  return field(1, name) + field(4, word) + field(20, int64_t(3));
}
std::string sizes(std::string_view name, std::initializer_list<int64_t> list) {
  std::string out = field(1, name);
  for (const int64_t size : list) out += field(8, size);
  return out + field(20, int64_t(7));
}

TEST_F(OnnxModels, PoolsOfDynamicSizes) {
  const std::vector<float> image = [] {
    std::vector<float> v(63);
    for (size_t i = 0; i < v.size(); i++) v[i] = float((i * 37) % 23) - 11;
    return v;
  }();
  for (const std::string op : {"MaxPool", "AveragePool", "LpPool", "ConvTranspose"})
    for (const int64_t stride : {1, 2, 3})
      for (const int64_t pad : {0, 1})
        for (const int64_t up : {0, 1})
          for (const int64_t counts : {0, 1}) {
            std::vector<std::string> attributes = {sizes("kernel_shape", {3, 2}),
                                                   sizes("strides", {stride, 2}),
                                                   sizes("pads", {pad, 0, 1, pad})};
            if (op != "ConvTranspose") attributes.push_back(integer("ceil_mode", up));
            if (op == "AveragePool") attributes.push_back(integer("count_include_pad", counts));
            const bool transposed = op == "ConvTranspose";
            if ((transposed && up) || (op != "AveragePool" && counts)) continue;
            if ((stride + pad + up + counts) % 2 == 0) continue; // half of them
            GraphText g;
            g.nodes = {node(op,
                            transposed ? std::vector<std::string>{"x", "w"} : std::vector<std::string>{"x"},
                            {"y"}, attributes)};
            if (transposed) g.initializers = {tensor("w", f32, {1, 1, 3, 2}, raw<float>({1, 2, 3, 4, 5, 6}))};
            g.inputs = {value("x", f32, {1, 1, "h", "w"})};
            g.outputs = {value("y", f32, {1, 1, "a", "b"})};
            OnnxModel dynamic = load(g, {}, 19), fixed = load(g, {.shapes = {{"x", {1, 1, 7, 9}}}}, 19);
            for (OnnxModel* m : {&dynamic, &fixed})
              m->input("x").set_bytes(std::as_bytes(std::span(image)), DType::f32);
            dynamic.graph.set_dim("h", 7);
            dynamic.graph.set_dim("w", 9);
            const auto want = run(fixed, "y"), got = run(dynamic, "y");
            ASSERT_EQ(got.size(), want.size()) << op << stride << pad << up << counts;
            for (size_t i = 0; i < got.size(); i++)
              EXPECT_NEAR(got[i], want[i], 1e-5 * (1 + std::fabs(want[i])))
                  << op << stride << pad << up << counts;
          }
}

TEST_F(OnnxModels, ResizedDynamicSizes) {
  GraphText g; // by a factor, and to twice the shape
  g.nodes = {node("Resize", {"x", "", "scales"}, {"y"},
                  {text("coordinate_transformation_mode", "asymmetric"), text("nearest_mode", "floor")}),
             node("Shape", {"x"}, {"s"}), node("Mul", {"s", "two"}, {"wanted"}),
             node("Resize", {"x", "", "", "wanted"}, {"z"})};
  g.initializers = {tensor("scales", f32, {2}, raw<float>({1, 3})),
                    tensor("two", i64, {1}, raw<int64_t>({2}))};
  g.inputs = {value("x", f32, {"h", "w"})};
  g.outputs = {value("y", f32, {"a", "b"}), value("z", f32, {"c", "d"})};
  OnnxModel m = load(g);
  m.input("x").set_dyn({{1, 2}});
  EXPECT_THAT(run(m, "y"), ElementsAre(1, 1, 1, 2, 2, 2));
  EXPECT_THAT(m.output("z").data<float>(), ElementsAre(1, 1, 2, 2, 1, 1, 2, 2));
}

/// Each node after what it reads, though the file has them in another order, those of bodies too; nodes that
/// read each other are refused by name.
TEST_F(OnnxModels, NodesInAnyOrder) {
  GraphText then, otherwise, g;
  then.nodes = {node("Neg", {"s"}, {"t"}), node("Add", {"a", "a"}, {"s"})};
  then.outputs = {value("t", f32, {2})};
  otherwise.nodes = {node("Identity", {"a"}, {"e"})};
  otherwise.outputs = {value("e", f32, {2})};
  g.nodes = {
      node("Add", {"b", "x"}, {"y"}),
      node("If", {"c"}, {"b"},
           {graph_attribute("then_branch", then.text()), graph_attribute("else_branch", otherwise.text())}),
      node("Mul", {"x", "x"}, {"a"})};
  g.initializers = {tensor("c", boolean, {}, raw<uint8_t>({1}))};
  g.inputs = {value("x", f32, {2})};
  g.outputs = {value("y", f32, {2})};
  OnnxModel m = load(g);
  m.input("x").set_dyn({1, 3});
  EXPECT_THAT(run(m, "y"), ElementsAre(-1, -15));
  g.nodes[2] = node("Mul", {"y", "x"}, {"a"});
  EXPECT_THAT(refusal(g), HasSubstr("which nothing before it makes"));
}

TEST_F(OnnxModels, SortsOfDynamicLengthsAndShapesThatAreReshaped) {
  GraphText g; // all of TopK, and Expand by a shape that went through Reshape
  g.nodes = {node("Shape", {"x"}, {"s"}),
             node("TopK", {"x", "s"}, {"t", "i"}),
             node("Concat", {"s", "minus"}, {"c"}, {integer("axis", 0)}),
             node("Reshape", {"c", "minus"}, {"r"}),
             node("Equal", {"r", "minus"}, {"e"}),
             node("Where", {"e", "three", "r"}, {"wanted"}),
             node("Unsqueeze", {"t", "one"}, {"u"}),
             node("Expand", {"u", "wanted"}, {"y"})};
  g.initializers = {tensor("minus", i64, {1}, raw<int64_t>({-1})),
                    tensor("three", i64, {1}, raw<int64_t>({3})), tensor("one", i64, {1}, raw<int64_t>({1}))};
  g.inputs = {value("x", f32, {"n"})};
  g.outputs = {value("y", f32, {"n", 3})};
  OnnxModel m = load(g);
  m.input("x").set_dyn({2, 5, 3});
  EXPECT_THAT(run(m, "y"), ElementsAre(5, 5, 5, 3, 3, 3, 2, 2, 2));
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

/// Sums of two neighbours each, cut out where the counter stands: as many steps as x has elements but one.
TEST_F(OnnxModels, LoopsCutByTheirCounter) {
  GraphText body, g;
  body.nodes = {node("Unsqueeze", {"i", "zero"}, {"from"}),
                node("Add", {"two", "from"}, {"to"}),
                node("Slice", {"x", "from", "to", "zero"}, {"pair"}),
                node("ReduceSum", {"pair", "zero"}, {"each"}, {integer("keepdims", 0)}),
                node("Max", {"greatest", "each"}, {"next"}),
                node("Identity", {"go"}, {"more"})};
  body.inputs = {value("i", i64, {}), value("go", boolean, {}), value("greatest", f32, {})};
  body.outputs = {value("more", boolean, {}), value("next", f32, {}), value("each", f32, {})};
  g.nodes = {node("Shape", {"x"}, {"s"}), node("Sub", {"s", "one"}, {"fewer"}),
             node("Squeeze", {"fewer"}, {"n"}),
             node("Loop", {"n", "", "least"}, {"y", "all"}, {graph_attribute("body", body.text())})};
  g.initializers = {tensor("zero", i64, {1}, raw<int64_t>({0})), tensor("one", i64, {1}, raw<int64_t>({1})),
                    tensor("two", i64, {1}, raw<int64_t>({2})), tensor("least", f32, {}, raw<float>({-100}))};
  g.inputs = {value("x", f32, {"n"})};
  g.outputs = {value("y", f32, {}), value("all", f32, {"m"})};
  OnnxModel m = load(g, {.dims = {{"n", {1, 8}}}});
  m.input("x").set_dyn({1, 5, -2, 4});
  EXPECT_THAT(run(m, "y"), ElementsAre(6));
  EXPECT_THAT(m.output("all").data<float>(), ElementsAre(6, 3, 2));
  m.input("x").set_dyn({-3, 1});
  EXPECT_THAT(run(m, "y"), ElementsAre(-2));
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
                "shape: give the value (OnnxOptions::values, --inputs)"));
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
