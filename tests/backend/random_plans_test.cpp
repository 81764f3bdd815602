// backend/random_plans_test.cpp -- the default plans of random modules give what the interpreters give; tests/slow runs thousands more.
#include "random_plans.h"

namespace luminal {
namespace {
using testing_plans::check_random_plans;

TEST(RandomPlans, Seeds0To40) { check_random_plans(0, 40); }
TEST(RandomPlans, Seeds40To80) { check_random_plans(40, 40); }

} // namespace
} // namespace luminal
