// slow/changed_schedules_test.cpp -- thousands of changed schedules;
// tests/backend/schedules_test.cpp runs the first ones.
#include "backend/changed_schedules.h"

namespace luminal::kernel {
namespace {

TEST(ChangedSchedules, ProductsWithStoredWeights100To600) { check_changes(rows_term, 100, 500, {}); }
TEST(ChangedSchedules, ProductsWithStoredWeights600To1100) { check_changes(rows_term, 600, 500, {}); }
TEST(ChangedSchedules, ProductsOfNarrowNumbers100To1100) { check_changes(narrow_term, 100, 1000, {}); }
TEST(ChangedSchedules, Convolutions100To2100) { check_changes(convolution_term, 100, 2000, {}); }
TEST(ChangedSchedules, Spreads100To1100) { check_changes(spread_term, 100, 1000, {}); }
TEST(ChangedSchedules, HiddenWeights100To1100) { check_changes(weights_term, 100, 1000, {}); }
TEST(ChangedSchedules, Softmax100To2100) { check_changes(softmax_term, 100, 2000, {}); }

} // namespace
} // namespace luminal::kernel
