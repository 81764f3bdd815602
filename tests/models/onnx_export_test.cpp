// models/onnx_export_test.cpp -- graphs as ONNX files: random modules come back equal through our
// importer, and ONNX Runtime computes what the interpreter says.
#include "ir/random_graph.h"
#include "ir/random_module.h"
#include "models/onnx_export_support.h"
#include <gmock/gmock.h>

namespace luminal {
namespace {

using namespace luminal::testing;
using testing_ir::RandomGraph;
using testing_ir::RandomGraphOptions;

TEST(OnnxExport, RandomModulesComeBackEqual) {
  TemporaryFolder folder;
  const std::string python = peer_python();
  const char* given = std::getenv("LUMINAL_EXPORT_SEEDS");
  const uint64_t seeds = given ? std::strtoull(given, nullptr, 10) : 200;
  int written = 0;
  std::map<std::string, int> refused;
  for (uint64_t seed = 1; seed <= seeds; seed++) {
    RandomGraphOptions options{.nodes = 10, .structure = true, .random = false};
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
  if (python.empty()) GTEST_SKIP() << "there is no Python with onnxruntime (LUMINAL_PEER_PYTHON names one)";
  EXPECT_EQ(run_exported(python, folder.file(".")), "");
}

bool has_nibbles(const Function& f) {
  return std::any_of(f.nodes.begin(), f.nodes.end(), [](const Node& node) {
    return std::any_of(node.types.begin(), node.types.end(),
                       [](const TensorType& type) { return bits(type.dtype) == 4; });
  });
}

/// Every type, every kind of node, extents of 0, dimensions at their ends, NaN and infinities.
TEST(OnnxExport, WildModulesRunInOnnxRuntime) {
  const std::string python = peer_python();
  if (python.empty()) GTEST_SKIP() << "there is no Python with onnxruntime (LUMINAL_PEER_PYTHON names one)";
  TemporaryFolder folder;
  const char* given = std::getenv("LUMINAL_EXPORT_WILD");
  const uint64_t seeds = given ? std::strtoull(given, nullptr, 10) : 60;
  std::map<std::string, int> refused;
  int written = 0;
  for (uint64_t seed = 1; seed <= seeds; seed++) {
    const testing_ir::RandomModule g(seed, {.nodes = 7, .most = 2000, .most_points = 20000});
    const Bindings bindings = g.bindings(0);
    if (has_nibbles(g.module.entry())) continue; // ONNX Runtime has few kernels for them
    ExportCase each{g.module, bindings};
    const std::string path = folder.file(fmt::format("wild{}.onnx", seed));
    try {
      each.interpret();
    } catch (const Error&) { // an index out of its bounds
      continue;
    }
    try {
      ASSERT_TRUE(onnx::write_onnx(each.model(), path).ok());
    } catch (const Error& error) {
      const std::string text = error.what();
      refused[text.substr(text.find("cannot be written"))]++;
      continue;
    }
    written++;
    each.write_expected(folder.file(fmt::format("wild{}.npz", seed)));
  }
  for (const auto& [text, count] : refused) fmt::print("{} times: {}\n", count, text);
  EXPECT_GT(written, int(seeds / 3));
  if (std::getenv("LUMINAL_EXPORT_KEEP"))
    std::filesystem::copy(folder.file("."), std::getenv("LUMINAL_EXPORT_KEEP"),
                          std::filesystem::copy_options::recursive |
                              std::filesystem::copy_options::overwrite_existing);
  EXPECT_EQ(run_exported(python, folder.file(".")), "");
}

} // namespace
} // namespace luminal
