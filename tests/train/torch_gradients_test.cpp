// tests/train/torch_gradients_test.cpp -- gradients against the vectors that PyTorch made.
#include "luminal/autograd.h"
#include "tensor/torch_cases.h"
#include <cstdlib>
#include <filesystem>
#include <gtest/gtest.h>

namespace luminal {
namespace {

TEST(TorchVectors, Gradients) {
  const char* folder = std::getenv("LUMINAL_TEST_DATA");
  const std::string data = folder ? folder : LUMINAL_SOURCE_DIR "/../shared/data";
  const std::string stem = data + "/conformance/torch_op_grad_vectors";
  if (!std::filesystem::exists(stem + ".json"))
    GTEST_SKIP() << "no test data: set LUMINAL_TEST_DATA to its folder";
  // lstm and gru: see the forward part of these vectors in tests/tensor.
  test::run_torch_gradients(stem,
                            [](const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                               const std::vector<Tensor>& upstream) {
                              return gradients(outputs, inputs,
                                               {.upstream = upstream, .no_path = NoPath::error});
                            },
                            {"lstm", "gru"});
}

} // namespace
} // namespace luminal
