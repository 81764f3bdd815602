// tests/train/random_gradients_test.cpp -- gradients of random functions; the full number runs in
// tests/slow.
#include "train/random_gradients.h"
#include <cstdlib>
#include <gtest/gtest-spi.h>

namespace luminal {
namespace {

TEST(RandomGradients, AgainstDifferences) {
  int64_t compared = 0;
  unsigned long long first = 1, count = 60;
  if (const char* other = std::getenv("LUMINAL_RANDOM_SEEDS"))
    std::sscanf(other, "%llu:%llu", &first, &count);
  for (uint64_t seed = first; seed < first + count; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    ASSERT_NO_THROW(compared += testing_train::check_random_function(seed, seed % 5 == 0));
    if (HasFailure()) return;
  }
  EXPECT_GT(compared, int64_t(5 * count));
}

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
