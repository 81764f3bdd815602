// egraph/math_test.cpp -- the math theory: rows after each iteration are those of egg, egglog and
// oatlog.
#include "egraph/terms.h"
#include <gtest/gtest.h>

namespace luminal::egraph {
namespace {

TEST(Math, RowsAfterEachIteration) {
  testing::Terms terms;
  testing::add_math(terms);
  const uint64_t rows[] = {0, 0, 0, 0, 0, 0, 3160, 8113, 28303, 136446};
  for (size_t i = 0; i < 10; ++i) {
    const RunReport report = terms.graph.run(terms.rules);
    EXPECT_EQ(report.stop, StopReason::none);
    EXPECT_TRUE(report.changed);
    if (rows[i] != 0) {
      EXPECT_EQ(terms.graph.total_size(), rows[i]) << "iteration " << i + 1;
    }
  }
}

} // namespace
} // namespace luminal::egraph
