// tests/slow/random_gradients_test.cpp -- gradients of 500 random functions, gradients of gradients
// of 100 of them.
#include "train/random_gradients.h"

namespace luminal {
namespace {

TEST(RandomGradients, FiveHundredAgainstDifferences) {
  int64_t compared = 0;
  for (uint64_t seed = 1001; seed <= 1500; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    ASSERT_NO_THROW(compared += testing_train::check_random_function(seed, seed % 5 == 0));
    if (HasFailure()) return;
  }
  EXPECT_GT(compared, 2500);
}

} // namespace
} // namespace luminal
