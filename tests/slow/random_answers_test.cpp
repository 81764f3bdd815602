// slow/random_answers_test.cpp -- thousands of random schedules of whole plans as machine code;
// tests/compile runs the first ones.
#include "compile/random_answers.h"

namespace luminal {
namespace {
using testing_answers::check_random_answers;

TEST(RandomAnswers, Seeds1000To2000) { check_random_answers(1000, 1000); }
TEST(RandomAnswers, Seeds2000To3000) { check_random_answers(2000, 1000); }
TEST(RandomAnswers, Seeds3000To4000) { check_random_answers(3000, 1000); }

} // namespace
} // namespace luminal
