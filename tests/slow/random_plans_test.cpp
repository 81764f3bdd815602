// slow/random_plans_test.cpp -- twenty thousand random modules, a thousand to a test; tests/backend
// runs the first ones. `ctest -I` goes on where it stopped.
#include "backend/random_plans.h"

namespace luminal {
namespace {

class RandomPlans : public testing::TestWithParam<int> {};

TEST_P(RandomPlans, Thousand) { testing_plans::check_random_plans(uint64_t(GetParam()) * 1000, 1000); }
TEST_P(RandomPlans, ThousandPartitions) {
  testing_plans::check_random_plans(uint64_t(GetParam()) * 1000, 1000, true);
}
TEST_P(RandomPlans, ThousandNetworks) {
  testing_plans::check_random_plans(uint64_t(GetParam()) * 1000, 1000, false, false,
                                    testing_plans::network_of);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomPlans, testing::Range(0, 20));

} // namespace
} // namespace luminal
