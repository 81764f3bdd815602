// tests/slow/random_gradients_test.cpp -- gradients of 500 random functions, gradients of gradients
// of 100 of them.
#include "train/random_gradients.h"

namespace luminal {
namespace {

TEST(RandomGradients, FiveHundredAgainstDifferences) { testing_train::check_random_functions(1001, 500); }

} // namespace
} // namespace luminal
