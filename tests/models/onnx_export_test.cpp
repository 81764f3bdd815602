// models/onnx_export_test.cpp -- graphs as ONNX files: random modules come back equal through our
// importer, and ONNX Runtime computes what the interpreter says.
#include "ir/random_graph.h"
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

} // namespace
} // namespace luminal
