// random_answers_test.cpp -- random schedules of whole plans as machine code; tests/slow has
// thousands more.
#include "compile/random_answers.h"

namespace luminal {
namespace {
using testing_answers::check_random_answers;

TEST(RandomAnswers, EqualTheInterpreterAndTheNumberOfWorkersDoesNotMatter1) { check_random_answers(1, 60); }
TEST(RandomAnswers, EqualTheInterpreterAndTheNumberOfWorkersDoesNotMatter2) { check_random_answers(61, 60); }

TEST(RandomAnswers, OfProductsOfNarrowNumbers) { check_random_answers(1, 40, testing_answers::narrow_case); }

} // namespace
} // namespace luminal
