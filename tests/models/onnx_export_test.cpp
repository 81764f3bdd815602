// models/onnx_export_test.cpp -- graphs as ONNX files: random modules come back equal through our
// importer, and ONNX Runtime computes what the interpreter says.
#include "ir/random_graph.h"
#include "ir/random_module.h"
#include "models/onnx_export_support.h"
#include <gmock/gmock.h>

namespace luminal {
namespace {

using namespace luminal::testing_formats;
using testing_ir::RandomGraph;
using testing_ir::RandomGraphOptions;

TEST(OnnxExport, RandomModulesComeBackEqual) {
  TemporaryFolder folder;
  const std::string python = peer_python();
  const char* given = std::getenv("LUMINAL_EXPORT_SEEDS");
  const uint64_t seeds = given ? std::strtoull(given, nullptr, 10) : 400;
  int written = 0;
  std::map<std::string, int> refused;
  for (uint64_t seed = 1; seed <= seeds; seed++) {
    RandomGraphOptions options{.nodes = 10, .structure = true, .scans = seed % 2 == 0, .random = false};
    RandomGraph g(seed, options);
    ExportCase each{g.module, g.bindings};
    each.interpret();
    const std::string path = folder.file(fmt::format("seed{}.onnx", seed));
    try {
      ASSERT_TRUE(onnx::write_onnx(each.model(), path).ok());
    } catch (const Error& error) {
      refused[error.what()]++;
      continue;
    }
    written++;
    each.write_expected(folder.file(fmt::format("seed{}.npz", seed)));
    try {
      EXPECT_EQ(each.imported(path), "") << "seed " << seed << "\n";
    } catch (const Error& error) {
      ADD_FAILURE() << "seed " << seed << ": " << error.what();
    }
  }
  for (const auto& [text, count] : refused) ADD_FAILURE() << count << " times: " << text;
  EXPECT_EQ(written, seeds);
  if (std::getenv("LUMINAL_EXPORT_KEEP"))
    std::filesystem::copy(folder.file("."), std::getenv("LUMINAL_EXPORT_KEEP"),
                          std::filesystem::copy_options::recursive |
                              std::filesystem::copy_options::overwrite_existing);
  if (python.empty()) GTEST_SKIP() << no_peer_python;
  EXPECT_EQ(run_exported(python, folder.file(".")), "");
}

/// What ONNX Runtime computes as ONNX has it: it has few kernels for types of less than 8 bits and for floats
/// of 8, passes over NaN where it looks for the largest element, and multiplies integers as floats.
bool runs_elsewhere(const ExportCase& each, const onnx::ModelData& model) {
  for (const Node& node : each.module.entry().nodes)
    for (const TensorType& type : node.types)
      if (bits(type.dtype) < 8 || (is_float(type.dtype) && bits(type.dtype) == 8)) return false;
  for (const auto& [name, e] : each.expected)
    if (std::any_of(e.values.begin(), e.values.end(), [](double v) { return std::isnan(v); })) return false;
  return std::none_of(model.graph.nodes.begin(), model.graph.nodes.end(),
                      [](const onnx::NodeData& node) { return node.op_type == "ReduceProd"; });
}

/// Every type, every kind of node, extents of 0, dimensions at their ends, NaN and infinities.
TEST(OnnxExport, WildModulesComeBackEqual) {
  const std::string python = peer_python();
  TemporaryFolder folder;
  const char* given = std::getenv("LUMINAL_EXPORT_WILD");
  const uint64_t seeds = given ? std::strtoull(given, nullptr, 10) : 300;
  std::map<std::string, int> refused;
  int written = 0, elsewhere = 0;
  for (uint64_t seed = 1; seed <= seeds; seed++) {
    const testing_ir::RandomModule g(seed, {.nodes = 7, .most = 2000, .most_points = 20000});
    const Bindings bindings = g.bindings(0);
    ExportCase each{g.module, bindings};
    const std::string path = folder.file(fmt::format("wild{}.onnx", seed));
    try {
      each.interpret();
    } catch (const Error&) { // an index out of its bounds
      continue;
    }
    onnx::ModelData model;
    try {
      model = each.model();
    } catch (const Error& error) {
      const std::string text = error.what();
      const size_t why = text.find("cannot be written");
      ASSERT_NE(why, std::string::npos) << "seed " << seed << ": " << text;
      refused[text.substr(why)]++;
      continue;
    }
    ASSERT_TRUE(onnx::write_onnx(model, path).ok());
    written++;
    try {
      EXPECT_EQ(each.imported(path), "") << "seed " << seed << "\n" << to_string(g.module);
    } catch (const Error& error) { // shapes that our importer has to know before it runs the file
      EXPECT_THAT(error.what(), ::testing::AnyOf(::testing::HasSubstr("while the graph is made"),
                                                 ::testing::HasSubstr("makes no step")))
          << "seed " << seed << "\n"
          << to_string(g.module);
    }
    if (runs_elsewhere(each, model))
      each.write_expected(folder.file(fmt::format("wild{}.npz", seed))), elsewhere++;
    else
      std::filesystem::remove(path);
  }
  EXPECT_GT(written, int(seeds / 2));
  EXPECT_GT(elsewhere, int(seeds / 5));
  if (std::getenv("LUMINAL_EXPORT_KEEP")) {
    for (const auto& [text, count] : refused) fmt::print("{} times: {}\n", count, text);
    std::filesystem::copy(folder.file("."), std::getenv("LUMINAL_EXPORT_KEEP"),
                          std::filesystem::copy_options::recursive |
                              std::filesystem::copy_options::overwrite_existing);
  }
  if (python.empty()) GTEST_SKIP() << no_peer_python;
  EXPECT_EQ(run_exported(python, folder.file(".")), "");
}

} // namespace
} // namespace luminal
