// tests/rules/round_trip_test.cpp -- what goes through the e-graph without rules comes back as it was:
// random modules, and the modules of other tests.
#include "base/file.h"
#include "ir/random_graph.h"
#include "round_trip.h"
#include <filesystem>
#include <gtest/gtest.h>

namespace luminal {
namespace {

using namespace testing_rules;

TEST(RoundTrip, RandomModules) { check_random_round_trips(0, 100); }

/// Smaller modules with more dynamic dimensions.
TEST(RoundTrip, RandomGraphs) {
  rules::RegionTerms terms;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    testing_ir::RandomGraphOptions options;
    options.nodes = 8 + int(seed % 24);
    options.structure = true;
    const testing_ir::RandomGraph g(seed, options);
    const auto wrong = wrong_round_trip(g.module, g.bindings, terms, 4);
    ASSERT_FALSE(wrong) << "seed " << seed << ": " << *wrong << "\nof\n" << to_string(g.module);
  }
}

TEST(RoundTrip, Files) {
  rules::RegionTerms terms;
  const std::filesystem::path root = LUMINAL_SOURCE_DIR;
  std::vector<std::filesystem::path> files;
  for (const char* folder :
       {"tests/golden", "tools/schedule_replay/corpus", "../shared/prototypes/bridge/forms"})
    if (std::filesystem::is_directory(root / folder))
      for (const auto& entry : std::filesystem::recursive_directory_iterator(root / folder))
        if (entry.path().extension() == ".lum") files.push_back(entry.path());
  std::ranges::sort(files);
  for (const auto& path : files) {
    const Module module = parse_module(read_file(path.string()).value(), path.filename().string());
    Module after;
    const auto wrong = broken(module, terms, after);
    EXPECT_FALSE(wrong) << path << ": " << *wrong << "\n" << to_string(module) << "\n" << to_string(after);
    if (wrong) continue;
    EXPECT_LE(kernels(after), kernels(module)) << path << "\n"
                                               << to_string(module) << "\n"
                                               << to_string(after);
  }
  EXPECT_GE(files.size(), 60u);
}

} // namespace
} // namespace luminal
