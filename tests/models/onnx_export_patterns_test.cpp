// models/onnx_export_patterns_test.cpp -- formulas that one operator of ONNX stands for, and those that only
// look like it.
#include "luminal/luminal.h"
#include "models/onnx_export_support.h"
#include <gmock/gmock.h>
#include <random>

namespace luminal {
namespace {

using namespace luminal::testing_formats;

Tensor given(Graph& g, const std::string& name, Dims shape, bool weight = true) {
  Tensor x = weight ? g.weight(name, shape) : g.tensor(shape, DType::f32, name);
  std::vector<float> values;
  uint32_t h = uint32_t(name.size()) + 7;
  for (int64_t i = 0; i < x.element_count(); i++) {
    h = h * 1664525U + 1013904223U;
    values.push_back(float(h >> 8) / float(1 << 23) - (name == "variance" ? -0.5F : 1.0F));
  }
  x.set(values);
  return x;
}

/// Writes what is kept, and compares importer and ONNX Runtime with the interpreter.
std::map<std::string, int> written(Graph& g, const std::string& path) {
  const Module module = g.state()->snapshot();
  const Bindings bindings = ExportCase::bound(g);
  ExportCase each{module, bindings};
  each.interpret();
  const onnx::ModelData model = each.model();
  EXPECT_TRUE(onnx::write_onnx(model, path).ok());
  each.write_expected(path.substr(0, path.size() - 5) + ".npz");
  EXPECT_EQ(each.imported(path), "");
  std::map<std::string, int> counts;
  for (const onnx::NodeData& node : model.graph.nodes) counts[node.op_type]++;
  return counts;
}

struct Formula {
  const char* name;
  const char* op; // which the file has once, or not at all
  int nodes;      // that the file has; 0: it has no `op`
  Tensor (*make)(Graph& g, const Tensor& x);
};
Tensor erf_gelu(const Tensor& x, double root) { return x * 0.5 * ((x / root).erf() + 1); }
Tensor divided_norm(const Tensor& x, const auto& eps) {
  Tensor d = x - x.mean(-1, true);
  return d / ((d * d).mean(-1, true) + eps).sqrt();
}

const Formula formulas[] = {
    // x is [2, 6, 5, 4]
    {"mean", "ReduceMean", 1, [](Graph&, const Tensor& x) { return x.mean({1, 3}, true); }},
    {"mean_without_axes", "ReduceMean", 1, [](Graph&, const Tensor& x) { return x.mean({1, 3}); }},
    {"other_divisor", "ReduceMean", 0, [](Graph&, const Tensor& x) { return x.sum({1}, true) / 7; }},
    {"norm", "LayerNormalization", 1, [](Graph&, const Tensor& x) { return x.layer_norm(-1, 1e-5); }},
    {"norm_affine", "LayerNormalization", 1,
     [](Graph& g, const Tensor& x) {
       return layer_norm(x, given(g, "scale", {4}), given(g, "shift", {4}), 1e-5);
     }},
    {"norm_of_two", "LayerNormalization", 1,
     [](Graph& g, const Tensor& x) {
       return layer_norm(x, given(g, "scale", {5, 4}), given(g, "shift", {5, 4}), 1e-5);
     }},
    {"norm_divides", "LayerNormalization", 1, [](Graph&, const Tensor& x) { return divided_norm(x, 1e-3); }},
    {"norm_of_inner_axis", "LayerNormalization", 0,
     [](Graph&, const Tensor& x) { return x.layer_norm(1, 1e-5); }},
    {"eps_is_given", "LayerNormalization", 0,
     [](Graph& g, const Tensor& x) { return divided_norm(x, given(g, "variance", {1})); }},
    {"scale_of_another_axis", "LayerNormalization", 3,
     [](Graph& g, const Tensor& x) { return x.layer_norm(-1, 1e-5) * given(g, "scale", {5, 1}); }},
    {"two_axes", "LayerNormalization", 0,
     [](Graph&, const Tensor& x) {
       Tensor d = x - x.mean(-1, true);
       return d * ((d * d).mean(-2, true) + 1e-5).rsqrt();
     }},
    {"parts_are_read", "LayerNormalization", 0,
     [](Graph&, const Tensor& x) {
       Tensor mean = x.mean(-1, true);
       mean.keep();
       Tensor d = x - mean;
       return d * ((d * d).mean(-1, true) + 1e-5).rsqrt();
     }},
    {"instance_norm", "InstanceNormalization", 1,
     [](Graph& g, const Tensor& x) {
       return instance_norm(x, given(g, "scale", {6}), given(g, "shift", {6}), 1e-5);
     }},
    {"instance_norm_plain", "InstanceNormalization", 1,
     [](Graph&, const Tensor& x) { return instance_norm(x, {}, {}, 1e-5); }},
    {"batch_norm", "BatchNormalization", 1,
     [](Graph& g, const Tensor& x) {
       return batch_norm(x, given(g, "mean", {6}), given(g, "variance", {6}), given(g, "scale", {6}),
                         given(g, "shift", {6}), 1e-3);
     }},
    {"softmax", "Softmax", 1, [](Graph&, const Tensor& x) { return x.softmax(1); }},
    {"softmax_divides", "Softmax", 1,
     [](Graph&, const Tensor& x) {
       Tensor e = (x - x.max(2, true)).exp();
       return e / e.sum(2, true);
     }},
    {"softmax_of_two_axes", "Softmax", 0,
     [](Graph&, const Tensor& x) {
       Tensor e = (x - x.max(2, true)).exp();
       return e / e.sum(3, true);
     }},
    {"log_softmax", "LogSoftmax", 1, [](Graph&, const Tensor& x) { return x.log_softmax(-1); }},
    {"gelu", "Gelu", 1, [](Graph&, const Tensor& x) { return erf_gelu(x, std::sqrt(2.0)); }},
    {"gelu_of_another_root", "Gelu", 0, [](Graph&, const Tensor& x) { return erf_gelu(x, 1.41); }},
    {"tanh_gelu", "Gelu", 1,
     [](Graph&, const Tensor& x) {
       return 0.5 * x * (1 + (0.7978845608028654 * (x + 0.044715 * (x * x * x))).tanh());
     }},
    {"l2", "ReduceL2", 1, [](Graph&, const Tensor& x) { return x.norm(2, 1, true); }},
    {"l1", "ReduceL1", 1, [](Graph&, const Tensor& x) { return x.norm(1, {1, 2}, true); }},
    {"squares", "ReduceSumSquare", 1, [](Graph&, const Tensor& x) { return (x * x).sum(0, true); }},
    {"average", "AveragePool", 1,
     [](Graph&, const Tensor& x) { return avg_pool(x, {3, 2}, {.stride = {2, 1}}); }},
    {"divided_window", "AveragePool", 3,
     [](Graph&, const Tensor& x) { return avg_pool(x, {3, 2}, {.stride = {2, 1}}, true, 5); }},
};

TEST(OnnxExportPatterns, OneOperatorStandsForAFormula) {
  TemporaryFolder folder;
  for (const Formula& formula : formulas) {
    SCOPED_TRACE(formula.name);
    Graph g;
    formula.make(g, given(g, "x", {2, 6, 5, 4}, false)).keep();
    auto counts = written(g, folder.file(fmt::format("{}.onnx", formula.name)));
    int nodes = 0;
    std::string text;
    for (const auto& [op, count] : counts) nodes += count, text += fmt::format(" {} {}", count, op);
    EXPECT_EQ(counts[formula.op], formula.nodes > 0) << text;
    if (formula.nodes > 0) {
      EXPECT_EQ(nodes, formula.nodes) << text;
    }
  }
  // RMSNormalization is of opset 23, which a file has that needs BitCast.
  Graph g;
  Tensor x = given(g, "x", {3, 8}, false);
  rms_norm(x, given(g, "scale", {8}), 1e-5).keep();
  x.bitcast(DType::i32).keep();
  EXPECT_EQ(written(g, folder.file("rms_norm.onnx"))["RMSNormalization"], 1);
  const std::string python = peer_python();
  if (python.empty()) GTEST_SKIP() << no_peer_python;
  EXPECT_EQ(run_exported(python, folder.file(".")), "");
}

/// Normalisations, means and activations one after the other, of which some are read again.
TEST(OnnxExportPatterns, RandomFormulasComeBackEqual) {
  TemporaryFolder folder;
  std::map<std::string, int> all;
  for (unsigned seed = 1; seed <= 120; seed++) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto below = [&](int n) { return int(random() % unsigned(n)); };
    Graph g;
    Dims shape;
    for (int rank = 1 + below(4); rank > 0; rank--) shape.push_back(1 + below(5));
    Tensor x = given(g, "x", shape, false);
    const Tensor first = x;
    for (int step = 0; step < 4; step++) {
      const int axis = below(x.rank());
      std::vector<int> axes;
      for (int d = below(2) ? axis : 0; d < x.rank(); d++) axes.push_back(d);
      Dims last;
      for (int d = axis; d < x.rank(); d++) last.push_back(x.dim(d));
      const auto weight = [&](const char* name, Dims extents) {
        return given(g, fmt::format("{}{}", name, step), std::move(extents));
      };
      const Tensor before = x;
      switch (below(9)) {
      case 0: x = x.layer_norm(axes, 0.01); break;
      case 1: x = layer_norm(x, weight("w", last), below(2) ? weight("bb", last) : Tensor(), 0.01); break;
      case 2: x = x.softmax(axis); break;
      case 3: x = x.log_softmax(axis); break;
      case 4: x = x - x.mean(axes, true); break;
      case 5: x = below(2) ? x * x.std_norm(axes, 0.1) : x * x.norm(2, axes, true); break;
      case 6: x = below(2) ? erf_gelu(x, std::sqrt(2.0)) : x.gelu(); break;
      case 7:
        if (x.rank() < 3) continue;
        x = instance_norm(x, weight("w", {x.dim(1)}), weight("bb", {x.dim(1)}), 0.01);
        break;
      default: x = x.mean({axis}).unsqueeze(axis) + x * 0.5;
      }
      if (below(4) == 0) Tensor(before + x).keep();
    }
    Tensor(x + first).keep();
    for (const auto& [op, count] : written(g, folder.file(fmt::format("seed{}.onnx", seed))))
      all[op] += count;
  }
  for (const char* op : {"LayerNormalization", "InstanceNormalization", "Softmax", "LogSoftmax", "ReduceMean",
                         "ReduceL2", "Gelu"})
    EXPECT_GE(all[op], 4) << op;
  const std::string python = peer_python();
  if (python.empty()) GTEST_SKIP() << no_peer_python;
  EXPECT_EQ(run_exported(python, folder.file(".")), "");
}

} // namespace
} // namespace luminal
