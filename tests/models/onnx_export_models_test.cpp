// models/onnx_export_models_test.cpp -- models as ONNX files: modules and imported files come back with the
// same results, in operators of ONNX that say what they are.
#include "formats/model_files.h"
#include "formats/onnx.h"
#include "luminal/luminal.h"
#include "models/convert.h"
#include "models/llama.h"
#include "models/onnx_export_support.h"
#include <filesystem>
#include <gmock/gmock.h>

namespace luminal {
namespace {

using namespace luminal::testing_formats;

/// -1..1, the same for one name.
std::vector<float> uniform(const std::string& name, int64_t count) {
  uint32_t h = 2166136261U;
  for (const char c : name) h = (h ^ uint32_t(uint8_t(c))) * 16777619U;
  std::vector<float> values;
  for (int64_t i = 0; i < count; i++) {
    h = h * 1664525U + 1013904223U;
    values.push_back(float(h >> 8) / float(1 << 23) - 1);
  }
  return values;
}
void fill_weights(const nn::Module& module) {
  for (auto& [name, parameter] : module.state_dict()) {
    Tensor tensor = parameter;
    if (tensor.dtype() != DType::f32) continue;
    int64_t fan = 1;
    for (int d = 1; d < tensor.rank(); d++) fan *= tensor.dim(d).value();
    std::vector<float> values = uniform(name, tensor.element_count());
    for (float& v : values)
      v = name.ends_with("running_var") ? 1.5F + 0.5F * v : v / std::sqrt(float(std::max<int64_t>(fan, 4)));
    tensor.set(values);
  }
}
Tensor input(Graph& g, const std::string& name, Dims shape) {
  Tensor x = g.tensor(shape, DType::f32, name);
  x.set(uniform(name, x.element_count()));
  return x;
}

class OnnxExportModels : public ::testing::Test {
protected:
  /// Runs the graph, writes it, and compares what the file gives; returns how often each operator is in it.
  std::map<std::string, int> write(Graph& g, double relative = 1e-4) {
    g.execute();
    const std::string path = folder_.file("model.onnx");
    save_onnx(g, path);
    const Module module = g.state()->snapshot();
    Bindings bindings;
    const ExportCase each = ExportCase::executed(g, module, bindings, relative);
    EXPECT_EQ(each.imported(path, true), "");
    each.write_expected(folder_.file("model.npz"));
    static const std::string python = peer_python();
    if (!python.empty()) {
      EXPECT_EQ(run_exported(python, folder_.file(".")), "");
    }
    std::map<std::string, int> counts;
    const onnx::ModelData file = onnx::open_onnx(path).value();
    for (const onnx::NodeData& node : file.graph.nodes) counts[node.op_type]++;
    std::string text;
    for (const auto& [op, count] : counts) text += fmt::format(" {} {}", count, op);
    RecordProperty("operators", text);
    if (const char* keep = std::getenv("LUMINAL_EXPORT_KEEP")) {
      fmt::print("{}\n", text);
      const char* test = ::testing::UnitTest::GetInstance()->current_test_info()->name();
      std::filesystem::copy_file(path, fmt::format("{}/{}{}.onnx", keep, test, kept_++),
                                 std::filesystem::copy_options::overwrite_existing);
    }
    return counts;
  }
  TemporaryFolder folder_;
  int kept_ = 0;
};

TEST_F(OnnxExportModels, LayersOfProducts) {
  Graph g;
  nn::Scope scope(g);
  const nn::Linear first(scope / "first", 12, 20), second(scope / "second", 20, 5);
  fill_weights(first), fill_weights(second);
  second(first(input(g, "x", {7, 12})).gelu()).softmax(-1).keep();
  const auto counts = write(g);
  EXPECT_EQ(counts.at("MatMul"), 2);
  EXPECT_EQ(counts.at("Gelu"), 1);
  EXPECT_EQ(counts.at("Softmax"), 1);
  EXPECT_FALSE(counts.contains("ReduceSum"));
}

TEST_F(OnnxExportModels, Convolutions) {
  Graph g;
  Tensor x = input(g, "x", {2, 6, 13, 11});
  Tensor a = g.weight("a", {8, 6, 3, 3}), b = g.weight("b", {8, 1, 3, 5}), c = g.weight("c", {12, 4, 1, 1}),
         d = g.weight("d", {4, 12, 2, 2}), bias = g.weight("bias", {8});
  for (Tensor* t : {&a, &b, &c, &d, &bias})
    t->set(uniform("w" + std::to_string(t->id()), t->element_count()));
  Tensor y = conv(x, a, bias, {.stride = 2, .padding = {1, 1}}).relu();
  y = conv(y, b, {}, {.padding = {1, 2}, .groups = 8});
  y = conv(y, c, {}, {.groups = 2});
  conv(y, d, {}, {.padding = 2, .dilation = 2}).keep();
  const auto counts = write(g);
  EXPECT_EQ(counts.at("Conv"), 4);
  EXPECT_FALSE(counts.contains("Gather"));
  EXPECT_FALSE(counts.contains("Reshape") && counts.at("Reshape") > 4);
}

TEST_F(OnnxExportModels, Pools) {
  Graph g;
  Tensor x = input(g, "x", {2, 3, 12, 9});
  max_pool(x, {3, 3}, {.stride = {2, 2}, .padding = {1, 1}}).keep();
  avg_pool(x, {2, 3}, {.stride = {2, 1}}).keep();
  x.mean({-2, -1}).keep();
  const auto counts = write(g);
  EXPECT_EQ(counts.at("MaxPool"), 1);
  EXPECT_EQ(counts.at("AveragePool"), 1);
  EXPECT_EQ(counts.at("ReduceMean"), 1);
  EXPECT_EQ(counts.size(), 3);
}

TEST_F(OnnxExportModels, TransformerBlock) {
  Graph g;
  const nn::TransformerEncoderLayer layer(nn::Scope(g), 16, 4, {});
  fill_weights(layer);
  layer(input(g, "x", {2, 9, 16})).keep();
  const auto counts = write(g);
  EXPECT_EQ(counts.at("Softmax"), 1);
  EXPECT_EQ(counts.at("LayerNormalization"), 2);
  EXPECT_GE(counts.at("MatMul"), 6);
  EXPECT_FALSE(counts.contains("Gather"));
}

TEST_F(OnnxExportModels, JoinedSortedAndScattered) {
  Graph g;
  Tensor x = input(g, "x", {4, 6}), y = input(g, "y", {4, 3});
  Tensor ids = g.tensor({5}, DType::i64, "ids");
  ids.set(std::vector<int64_t>{2, 0, 3, 3, 1});
  concat({x, y, x}, 1).keep();
  const Indexed largest = x.topk(3, 1);
  Tensor values = largest.values, indices = largest.indices;
  values.keep(), indices.keep();
  x.argmax(1).keep();
  x.index_select(0, ids).keep();
  x.cumsum(1).keep();
  const auto counts = write(g);
  EXPECT_EQ(counts.at("Concat"), 1);
  EXPECT_EQ(counts.at("CumSum"), 1);
}

/// One pass for each, along any axis: nothing has the square of the axis.
TEST_F(OnnxExportModels, Scans) {
  Graph g;
  Tensor x = input(g, "x", {3, 40, 5});
  x.cumprod(1).keep();
  Tensor largest = x.cummax(2).values, least_at = x.flip({0}).cummin(0).indices;
  largest.keep(), least_at.keep();
  const auto counts = write(g);
  EXPECT_EQ(counts.at("Scan"), 3);
  EXPECT_FALSE(counts.contains("ReduceMax"));
}

TEST_F(OnnxExportModels, ResnetAndBert) {
  Graph g;
  const models::CifarResNet resnet{nn::Scope(g)};
  fill_weights(resnet);
  resnet(input(g, "picture", {1, 3, 32, 32})).keep();
  const auto counts = write(g, 1e-3);
  EXPECT_EQ(counts.at("Conv"), 19);
  EXPECT_EQ(counts.at("BatchNormalization"), 19);
  EXPECT_FALSE(counts.contains("Gather"));
  EXPECT_FALSE(counts.contains("Sqrt"));

  Graph h;
  const models::Bert bert(
      nn::Scope(h), {.vocabulary = 50, .width = 32, .layers = 2, .heads = 4, .inner = 64, .positions = 40});
  fill_weights(bert);
  Tensor ids = h.tensor({2, 11}, DType::i64, "ids");
  std::vector<int64_t> numbers;
  for (int64_t i = 0; i < 22; i++) numbers.push_back(i * 7 % 50);
  ids.set(numbers);
  Tensor pooled = bert(ids).pooled;
  pooled.keep();
  const auto of_bert = write(h, 1e-3);
  EXPECT_EQ(of_bert.at("Softmax"), 2);
  EXPECT_EQ(of_bert.at("LayerNormalization"), 5);
  EXPECT_GE(of_bert.at("MatMul"), 17);
}

TEST_F(OnnxExportModels, DynamicDimensionsKeepTheirNames) {
  Graph g;
  const Dim n = g.dim("rows", 1, 64);
  Tensor x = g.tensor({n, 4}, DType::f32, "x"), w = g.weight("w", {4, 3});
  w.set(uniform("w", 12));
  (x.matmul(w) + x.sum({1}, true)).reshape({n * 3}).keep();
  const std::string path = folder_.file("model.onnx");
  save_onnx(g, path);
  const onnx::ModelData file = onnx::open_onnx(path).value();
  EXPECT_EQ(file.graph.inputs.at(0).shape.at(0).name, "rows");
  OnnxModel again = load_onnx(path, {.dims = {{"rows", {1, 64}}}});
  for (const int64_t rows : {1, 5}) {
    const auto values = uniform("x", rows * 4);
    g.set_dim("rows", rows);
    x.set(values);
    g.execute();
    again.graph.set_dim("rows", rows);
    again.input("x").set(values);
    again.graph.execute();
    const auto want = wrap(g.state(), g.state()->kept.begin()->first).data<float>(),
               got = again.outputs.at(0).tensor.data<float>();
    ASSERT_EQ(got.size(), size_t(rows * 3));
    for (size_t i = 0; i < got.size(); i++) EXPECT_NEAR(got[i], want[i], 1e-5) << i;
  }
}

TEST_F(OnnxExportModels, StatesAreInputsAndOutputs) {
  Graph g;
  Tensor x = g.tensor({3}, DType::f32, "x"), sum = g.state("sum", {3});
  g.update(sum, sum + x);
  (sum * 2).keep();
  save_onnx(g, folder_.file("model.onnx"));
  OnnxModel again = load_onnx(folder_.file("model.onnx"));
  again.input("x").set({1, 2, 3});
  again.input("sum").set({10, 20, 30});
  again.graph.execute();
  EXPECT_THAT(again.output("sum_next").data<float>(), ::testing::ElementsAre(11, 22, 33));
  EXPECT_THAT(again.output("output0").data<float>(), ::testing::ElementsAre(20, 40, 60));
}

TEST_F(OnnxExportModels, LargeWeightsLieBesideTheModel) {
  Graph g;
  Tensor w = g.weight("w", {64, 64});
  w.set(uniform("w", 64 * 64));
  input(g, "x", {2, 64}).matmul(w).keep();
  g.execute();
  const std::string path = folder_.file("large.onnx");
  save_onnx(g, path, {.external_above = 1000});
  EXPECT_EQ(std::filesystem::file_size(path + ".data"), 64 * 64 * 4);
  EXPECT_LT(std::filesystem::file_size(path), 1000);
  const Module module = g.state()->snapshot();
  Bindings bindings;
  EXPECT_EQ(ExportCase::executed(g, module, bindings, 1e-5).imported(path, true), "");
}

TEST_F(OnnxExportModels, RefusalsComeBeforeTheFile) {
  const auto refusal = [&](Graph& g, const std::string& path) -> std::string {
    try {
      save_onnx(g, path);
      return "accepted";
    } catch (const Error& error) {
      return error.what();
    }
  };
  const std::string path = folder_.file("none.onnx");
  Graph g;
  Tensor w = g.weight("w", {2});
  (w + 1).keep();
  w.set({1, 2});
  EXPECT_THAT(refusal(g, folder_.file("no/where.onnx")), ::testing::HasSubstr("no/where.onnx"));
  Graph h;
  random_uniform(random_key(h, 1), {4}).keep();
  EXPECT_THAT(
      refusal(h, path),
      ::testing::AllOf(::testing::StartsWith("[save_onnx] random (f32[4]), random_uniform at "
                                             "onnx_export_models_test.cpp:"),
                       ::testing::HasSubstr(", cannot be written: ONNX's random numbers are not these: "
                                            "make them an input at ")));
  EXPECT_FALSE(std::filesystem::exists(path));
}

/// One step of a decoder: its cache is inputs and outputs, packed weights are unpacked in the file.
TEST_F(OnnxExportModels, LanguageModels) {
  const std::string builtin = std::string(LUMINAL_SOURCE_DIR) + "/models/builtin/luminal-tales.gguf";
  models::ConvertOptions smaller;
  smaller.mixture = models::weight_mixture("Q8_0");
  models::convert_to_gguf(builtin, folder_.file("q8.gguf"), smaller);
  const std::string python = peer_python();
  for (const std::string& path : {builtin, folder_.file("q8.gguf")}) {
    const ModelFile file = open_model(path).value();
    const models::Llama model = models::make_llama(file, {.context = 8, .chunk = 4});
    const std::string to = folder_.file("model.onnx");
    save_onnx(model.graph, to);
    const Module module = model.graph.state()->snapshot();
    Bindings bindings;
    bindings.symbols = {{"n", 2}, {"past", 0}};
    for (const NodeId id : module.entry().params) {
      const auto& input = std::get<InputAttr>(module.entry()[id].attr);
      HostTensor value;
      value.dtype = input.type.dtype;
      for (const Expr e : input.type.shape) value.shape.push_back(e.is_constant() ? e.value() : 2);
      if (input.role == Role::weight) {
        const auto bytes = model.graph.state()->data.at(input.name).bytes;
        value.data.assign(bytes.begin(), bytes.end());
      } else {
        value.data.resize(size_t(storage_bytes(value.dtype, value.count())));
      }
      if (input.name == "tokens")
        for (int64_t i = 0; i < 2; i++) store_i64(value.dtype, value.data.data(), i, 40 + i);
      bindings.inputs[input.name] = std::move(value);
    }
    ExportCase each{module, bindings};
    for (auto& [name, value] : Interpreter(module, bindings).run()) {
      Expected& e = each.expected[name];
      e.shape = value.shape;
      for (int64_t i = 0; i < value.count(); i++) e.values.push_back(value.at(i));
      e.tolerances.assign(e.values.size(), 1e-3);
    }
    ASSERT_EQ(each.expected.at("logits").values.size(), 1024);
    each.write_expected(folder_.file("model.npz"));
    if (!python.empty()) {
      EXPECT_EQ(run_exported(python, folder_.file(".")), "");
    }
  }
}

/// Files that others made: they come back, and have about as many nodes as before.
TEST_F(OnnxExportModels, ImportedFilesComeBack) {
  struct File {
    const char* path;
    std::map<std::string, std::vector<int64_t>> shapes;
    const char *operators, *count; // what it is made of
  };
  for (const char* name : {"vision/mnist_8.onnx", "vision/squeezenet1.1.onnx",
                           "vision/super_resolution_10.onnx", "audio/kwt1.onnx"}) {
    const auto path = test_data(name);
    if (!path) GTEST_SKIP() << "test data " << name << " is not here (LUMINAL_TEST_DATA names its folder)";
    const onnx::ModelData file = onnx::open_onnx(*path).value();
    OnnxOptions options;
    for (const onnx::ValueData& value : file.graph.inputs) {
      std::vector<int64_t> shape;
      for (const onnx::DimData& dim : value.shape) shape.push_back(dim.value.value_or(1));
      options.shapes[value.name] = shape;
    }
    OnnxModel m = load_onnx(*path, options);
    for (const OnnxValue& each : m.inputs) {
      Tensor t = each.tensor;
      t.set(uniform(each.name, t.element_count()));
    }
    const auto counts = write(m.graph);
    std::map<std::string, int> before;
    int nodes = 0, nodes_before = 0;
    for (const onnx::NodeData& node : file.graph.nodes) before[node.op_type]++, nodes_before++;
    for (const auto& [op, count] : counts) nodes += count;
    for (const char* op : {"Conv", "MaxPool", "Softmax", "Concat"})
      EXPECT_EQ(counts.contains(op) ? counts.at(op) : 0, before[op]) << name << " " << op;
    EXPECT_LE(nodes, 4 * nodes_before + 10) << name;
  }
}

} // namespace
} // namespace luminal
