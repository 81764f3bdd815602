// slow/random_kernels_test.cpp -- thousands of random kernels as machine code;
// tests/backend/random_test.cpp runs the first ones.
#include "backend/random_kernels.h"

namespace luminal {
namespace {
using test::check_seeds;

TEST(RandomKernels, Seeds400To1200) { check_seeds(400, 800); }
TEST(RandomKernels, Seeds1200To2000) { check_seeds(1200, 800); }
TEST(RandomKernels, Seeds2000To2800) { check_seeds(2000, 800); }
TEST(RandomKernels, Seeds2800To3600) { check_seeds(2800, 800); }

} // namespace
} // namespace luminal
