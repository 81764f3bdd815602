// tests/slow/random_round_trips_test.cpp -- thousands of random modules through the e-graph and back.
#include "rules/round_trip.h"

namespace luminal {
namespace {

TEST(RandomRoundTrips, Seeds100To1100) { testing_rules::check_random_round_trips(100, 1000); }
TEST(RandomRoundTrips, Seeds1100To2100) { testing_rules::check_random_round_trips(1100, 1000); }

} // namespace
} // namespace luminal
