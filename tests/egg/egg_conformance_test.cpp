// egg/egg_conformance_test.cpp -- programs of egglog's test suite, where LUMINAL_EGGLOG_TESTS names
// its folder: rows of every table.
#include "base/file.h"
#include "egg/egg_program.h"
#include "luminal/error.h"
#include <cstdlib>
#include <filesystem>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace luminal::egraph {
namespace {

std::string tests_folder() {
  const char* folder = std::getenv("LUMINAL_EGGLOG_TESTS");
  return folder != nullptr && is_directory(folder) ? std::filesystem::absolute(folder).string() + "/" : "";
}

std::string sizes_file() {
  const char* folder = std::getenv("LUMINAL_TEST_DATA");
  const std::string root = folder != nullptr ? folder : std::string(LUMINAL_SOURCE_DIR) + "/../shared/data";
  const std::string path = root + "/conformance/egglog_table_sizes.json";
  return file_exists(path) ? path : "";
}

/// Programs by tier: what the language must run with the same rows. Names without folder and
/// ending.
const std::vector<std::string> models{"gemma",       "gemma4_moe", "llama",     "luminal-llama",
                                      "paged_llama", "qwen",       "qwen3_moe", "whisper"};
const std::vector<std::string> plain{"before-proofs",
                                     "bitwise",
                                     "f64",
                                     "filter-or-bool-neq",
                                     "hidden_print_size",
                                     "i64",
                                     "include",
                                     "integer_math",
                                     "internal_let",
                                     "math-microbenchmark",
                                     "name-resolution",
                                     "pass-typecheck/shadow-local-before-global",
                                     "primitives",
                                     "relation-query-allowed",
                                     "repro-define",
                                     "repro-filter-bug",
                                     "repro-noteqbug",
                                     "repro-primitive-query",
                                     "repro-querybug",
                                     "repro-querybug2",
                                     "repro-querybug4",
                                     "repro-silly-panic",
                                     "repro-small-rebuild-fail-term-encoding",
                                     "repro-unsound",
                                     "repro-unsound-htutorial",
                                     "string",
                                     "until",
                                     "web-demo/birewrite",
                                     "web-demo/eqsat-basic",
                                     "web-demo/matrix",
                                     "web-demo/path",
                                     "web-demo/path-union",
                                     "web-demo/pathproof",
                                     "web-demo/points-to",
                                     "web-demo/resolution",
                                     "web-demo/unification-points-to",
                                     "web-demo/unify"};
const std::vector<std::string> merging{"bool",
                                       "complex-merge-func",
                                       "delete",
                                       "fail_wrong_assertion",
                                       "looking_up_global",
                                       "looking_up_nonconstructor_in_rewrite_good",
                                       "merge-during-rebuild",
                                       "merge-saturates",
                                       "merge_read",
                                       "print-function",
                                       "rectangle",
                                       "repro-desugar-143",
                                       "repro-empty-query",
                                       "repro-equal-constant",
                                       "repro-equal-constant2",
                                       "repro-new-backend-delete",
                                       "repro-new-backend-prims",
                                       "repro-should-saturate",
                                       "repro-stale-rows",
                                       "repro-typechecking-schedule",
                                       "set_sort_function",
                                       "stratified",
                                       "subsume-relation",
                                       "term-encoding-subsume-rebuild-bug",
                                       "web-demo/fibonacci",
                                       "web-demo/knapsack",
                                       "web-demo/list",
                                       "web-demo/naturals",
                                       "web-demo/prims",
                                       "web-demo/rw-analysis",
                                       "web-demo/schedule-demo"};
const std::vector<std::string> extracting{"calc",
                                          "fibonacci-demand",
                                          "intersection",
                                          "interval",
                                          "proof-extract-cost",
                                          "repro-typecheck-term-encoding",
                                          "uf-extraction",
                                          "use-at-in-string",
                                          "web-demo/antiunify",
                                          "web-demo/array",
                                          "web-demo/bdd",
                                          "web-demo/combinators",
                                          "web-demo/cyk",
                                          "web-demo/eqsolve",
                                          "web-demo/levenshtein-distance",
                                          "web-demo/math",
                                          "web-demo/push-pop",
                                          "web-demo/subsume",
                                          "web-demo/towers-of-hanoi",
                                          "web-demo/typecheck"};
const std::vector<std::string> further{"combined-nested", "cykjson",       "naive-action-lookup",
                                       "string_quotes",   "test-combined", "test-combined-steps",
                                       "unsafe-seminaive"};
/// Of containers and large numbers those that run.
const std::vector<std::string> containers{"container-fail",
                                          "container-rebuild",
                                          "nested-container-dirty-propagation",
                                          "repro-vec-unequal",
                                          "type-constraints-tests",
                                          "web-demo/datatypes",
                                          "repro-665-set-union",
                                          "repro-querybug3",
                                          "web-demo/fusion",
                                          "web-demo/lambda",
                                          "web-demo/set",
                                          "web-demo/typeinfer",
                                          "map",
                                          "tricky-type-checking",
                                          "pair",
                                          "complex-merge-prim",
                                          "rat-pow-eval",
                                          "repro-herbie-vanilla",
                                          "taylor51",
                                          "web-demo/bignum",
                                          "web-demo/herbie",
                                          "web-demo/herbie-tutorial",

                                          "container-proofs"};

std::vector<std::string> all_programs() {
  std::vector<std::string> all;
  for (const auto* tier : {&plain, &merging, &extracting, &further, &containers, &models})
    all.insert(all.end(), tier->begin(), tier->end());
  return all;
}

/// The working folder is one of its own: some programs write files there.
class Conformance : public testing::TestWithParam<std::string> {
protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "luminal_egg_XXXXXX").string();
    scratch_ = mkdtemp(pattern.data());
    before_ = std::filesystem::current_path();
    std::filesystem::current_path(scratch_);
  }
  void TearDown() override {
    std::filesystem::current_path(before_);
    std::filesystem::remove_all(scratch_);
  }

private:
  std::filesystem::path scratch_, before_;
};

TEST_P(Conformance, EveryTableHasTheSameRows) {
  const std::string folder = tests_folder(), sizes = sizes_file();
  if (folder.empty()) GTEST_SKIP() << "LUMINAL_EGGLOG_TESTS does not name the tests of egglog";
  if (sizes.empty()) GTEST_SKIP() << "no conformance/egglog_table_sizes.json: set LUMINAL_TEST_DATA";
  const std::string file = GetParam() + ".egg";
  const auto all = nlohmann::json::parse(read_file(sizes).value());
  const std::string base = std::filesystem::path(file).filename().string();
  const auto known = all.contains(file) ? all.find(file) : all.find(base);
  ASSERT_NE(known, all.end()) << "the sizes of " << file << " are not known";
  std::string expected = "(";
  for (const auto& [name, rows] : known->items()) // in the order of the names
    expected += (expected.size() > 1 ? "\n " : "") + std::string("(") + name + " " + rows.dump() + ")";
  EggOptions options;
  options.seconds = 500;
  EggProgram program(options);
  ASSERT_NO_THROW(program.run_file(folder + file)) << file;
  EXPECT_EQ(program.sizes(), expected + ")\n");
}

INSTANTIATE_TEST_SUITE_P(Egg, Conformance, testing::ValuesIn(all_programs()),
                         [](const testing::TestParamInfo<std::string>& tested) {
                           std::string name = tested.param;
                           for (char& c : name)
                             if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
                           return name;
                         });

TEST(EggConformance, ProgramsWithMistakesAreRefused) {
  const std::string folder = tests_folder();
  if (folder.empty()) GTEST_SKIP() << "LUMINAL_EGGLOG_TESTS does not name the tests of egglog";
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder + "fail-typecheck")) {
    if (entry.path().extension() != ".egg") continue;
    ++count;
    EggOptions options;
    options.iterations = 1000;
    EggProgram program(options);
    EXPECT_THROW(program.run_file(entry.path().string()), Error) << entry.path();
  }
  EXPECT_GE(count, 35u);
}

} // namespace
} // namespace luminal::egraph
