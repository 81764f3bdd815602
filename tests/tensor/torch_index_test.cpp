// tests/tensor/torch_index_test.cpp -- movement, indexing, scans, sorting, generators and casts
// against PyTorch's results.
#include "torch_cases.h"
#include <gtest/gtest.h>

namespace luminal {
namespace {

TEST(TorchIndex, AgreesWithPyTorch) {
  test::run_torch_cases(std::string(LUMINAL_SOURCE_DIR) + "/tests/tensor/goldens/index", 160);
}

} // namespace
} // namespace luminal
