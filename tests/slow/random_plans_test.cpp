// slow/random_plans_test.cpp -- twenty thousand random modules, a thousand to a test; tests/backend
// runs the first ones. `ctest -I` goes on where it stopped.
#include "backend/random_plans.h"

namespace luminal {
namespace {

using testing_plans::Trial;

class RandomPlans : public testing::TestWithParam<int> {};

void check_thousand(int part, Trial trial) {
  testing_plans::check_random_plans(uint64_t(part) * 1000, 1000, trial);
}

TEST_P(RandomPlans, Thousand) { check_thousand(GetParam(), Trial::terms); }
TEST_P(RandomPlans, ThousandPartitions) { check_thousand(GetParam(), Trial::partitions); }
TEST_P(RandomPlans, ThousandRegions) { check_thousand(GetParam(), Trial::regions); }
TEST_P(RandomPlans, ThousandNetworks) { check_thousand(GetParam(), Trial::networks); }
TEST_P(RandomPlans, ThousandNetworkRegions) { check_thousand(GetParam(), Trial::network_regions); }
TEST_P(RandomPlans, ThousandNetworksByFewerRules) { check_thousand(GetParam(), Trial::fewer_rules); }

INSTANTIATE_TEST_SUITE_P(Seeds, RandomPlans, testing::Range(0, 20));

} // namespace
} // namespace luminal
