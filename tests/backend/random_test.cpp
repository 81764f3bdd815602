// backend/random_test.cpp -- four hundred random kernels (tests/slow runs thousands).
#include "random_kernels.h"

namespace luminal {
namespace {
using test::check_seeds;

// In parts, so that they run side by side.
TEST(RandomKernels, Seeds0To100) { check_seeds(0, 100); }
TEST(RandomKernels, Seeds100To200) { check_seeds(100, 100); }
TEST(RandomKernels, Seeds200To300) { check_seeds(200, 100); }
TEST(RandomKernels, Seeds300To400) { check_seeds(300, 100); }

} // namespace
} // namespace luminal
