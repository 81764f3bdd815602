// tests/train/random_gradients_test.cpp -- gradients of random functions; the full number runs in
// tests/slow.
#include "train/random_gradients.h"
#include <gtest/gtest-spi.h>

namespace luminal {
namespace {

TEST(RandomGradients, AgainstDifferences) { testing_train::check_random_functions(1, 60); }

TEST(RandomGradients, AWrongGradientIsSeen) {
  EXPECT_NONFATAL_FAILURE(
      {
        testing_train::Probe p;
        const Tensor x = p.input({3});
        p.check({x * stop_gradient(x)});
      },
      "gradient");
}

} // namespace
} // namespace luminal
