// tests/tensor/torch_cases_test.cpp -- the committed goldens, the vectors of the test data, and the
// harness itself.
#include "torch_cases.h"
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

namespace luminal {
namespace {
using namespace luminal::test;

std::string golden(const std::string& name) { return LUMINAL_SOURCE_DIR "/tests/tensor/goldens/" + name; }

TEST(TorchGoldens, Math) { run_torch_cases(golden("math")); }

TEST(TorchGoldens, Functions) { run_torch_cases(golden("nn")); }

TEST(TorchVectors, ForwardPartOfTheGradientVectors) {
  const char* folder = std::getenv("LUMINAL_TEST_DATA");
  const std::string data = folder ? folder : LUMINAL_SOURCE_DIR "/../shared/data";
  const std::string stem = data + "/conformance/torch_op_grad_vectors";
  if (!std::filesystem::exists(stem + ".json"))
    GTEST_SKIP() << "no test data: set LUMINAL_TEST_DATA to its folder";
  // The file's lstm and gru do not follow from its inputs: PyTorch's own modules differ from them
  // by 0.5 and more. The goldens have such cases.
  run_torch_cases(stem, 48, true, {"lstm", "gru"});
}

TEST(TorchCases, NaNEqualsOnlyNaNAndInfinityOnlyItself) {
  const Tolerance loose{0.5, 0.5};
  EXPECT_FALSE(same_value(NAN, 1, loose));
  EXPECT_FALSE(same_value(1, NAN, loose));
  EXPECT_TRUE(same_value(NAN, -NAN, loose));
  EXPECT_FALSE(same_value(INFINITY, -INFINITY, loose));
  EXPECT_FALSE(same_value(INFINITY, 3e38, loose));
  EXPECT_FALSE(same_value(3e38, INFINITY, loose));
  EXPECT_TRUE(same_value(INFINITY, INFINITY, {0, 0}));
  EXPECT_TRUE(same_value(0.0, -0.0, {0, 0}));
  EXPECT_FALSE(same_value(0.0, -0.0, {0, 0}, true));
  EXPECT_FALSE(same_value(1.1, 1, {0.05, 0.04}));
  EXPECT_TRUE(same_value(1.1, 1, {0.05, 0.06}));
}

const TorchOps wrong_rows{
    {"same", [](const CaseCall& c) { return c[0] * 1; }},
    {"wrong_value", [](const CaseCall& c) { return c[0] + 1; }},
    {"wrong_nan", [](const CaseCall& c) { return c[0] * NAN; }},
    {"wrong_dtype", [](const CaseCall& c) { return c[0].cast(DType::f64); }},
    {"wrong_shape", [](const CaseCall& c) { return c[0].unsqueeze(0); }},
    {"wrong_count", [](const CaseCall& c) { return CaseOutputs{c[0], c[0]}; }},
    {"wrong_error", [](const CaseCall& c) { return c[0].unsqueeze(7); }},
};

TEST(TorchCases, EveryKindOfDifferenceIsAFailure) {
  testing::TestPartResultArray failures;
  {
    testing::ScopedFakeTestPartResultReporter catcher(
        testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &failures);
    run_torch_cases(golden("harness"));
  }
  std::string text;
  for (int i = 0; i < failures.size(); ++i)
    text += std::string(failures.GetTestPartResult(i).message()) + "\n";
  for (const char* expected :
       {"value (wrong_value), output 0, interpreter: 2 of 2 elements differ\n  element 0 is 2, PyTorch has 1",
        "value (wrong_value), output 0, plan: 2 of 2 elements differ",
        "nan (wrong_nan), output 0, interpreter: 2 of 2", "nan (wrong_nan), output 0, plan: 2 of 2",
        "dtype (wrong_dtype), output 0, plan: dtype f64, expected f32",
        "shape (wrong_shape), output 0, plan: shape [1, 2], expected [2]",
        "count (wrong_count): 2 outputs, PyTorch has 1", "error (wrong_error): [unsqueeze] axis 7",
        "row (wrong_row): the operation wrong_row has no row"})
    EXPECT_NE(text.find(expected), std::string::npos) << expected << "\n\nin\n\n" << text;
  EXPECT_EQ(failures.size(), 11) << text;
  EXPECT_EQ(text.find("right"), std::string::npos) << text;
}

} // namespace
} // namespace luminal
