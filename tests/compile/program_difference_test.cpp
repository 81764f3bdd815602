// program_difference_test.cpp -- whether two programs compute the same: other orders of rounding pass, and
// nothing else does.
#include "base/thread_pool.h"
#include "compile/compile.h"
#include <fmt/format.h>
#include <gmock/gmock.h>

namespace luminal::compile {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class Programs {
public:
  std::string difference(const std::string& first, const std::string& second, double epsilon = 0x1p-24,
                         std::map<std::string, int64_t> sizes = {}) {
    ProgramRace::Options how;
    how.pool = &pool_;
    how.epsilon = epsilon;
    how.sizes = std::move(sizes);
    ProgramRace race(how);
    const ProgramId a = add(race, first), b = add(race, second);
    const std::string there = race.difference(a, b).value(), again = race.difference(a, b).value();
    EXPECT_EQ(there, again) << "what it reads and the states are as they were";
    return there;
  }

private:
  ProgramId add(ProgramRace& race, const std::string& text) {
    Options options = Options::host(pool_.size());
    options.cache = false;
    options.rules.on = false;
    return race.add(compile(parse_module(text), options).value().plan).value();
  }
  ThreadPool pool_{2};
};

/// Sums of rows, of 64 x 64 in one fold or in two.
const char* const sums = R"(fn @main(%x: f32[8, 4096]) {
  %f = fold [r: 8, c: 4096] over [c] { sum %x[r, c] }
  %y = get %f, 0
  return y = %y
})";
const char* const sums_of_sums = R"(fn @main(%x: f32[8, 4096]) {
  %v = view %x [r: 8, p: 64, q: 64] -> [r, p + 64 * q]
  %f = fold [r: 8, p: 64, q: 64] over [q] { sum %v[r, p, q] }
  %g = get %f, 0
  %h = fold [r: 8, p: 64] over [p] { sum %g[r, p] }
  %y = get %h, 0
  return y = %y
})";

std::string scaled(const std::string& factor) {
  return fmt::format("fn @main(%x: f32[8, 32]) {{\n  %k = const f32 {}\n  %c = view %k [r: 8, c: 32] -> []\n "
                     " %y = mul %x, %c\n  return y = %y\n}}",
                     factor);
}

TEST(ProgramDifference, OtherOrdersOfRoundingPass) {
  Programs programs;
  EXPECT_EQ(programs.difference(sums, sums), "");
  EXPECT_EQ(programs.difference(sums, sums_of_sums), "");
  EXPECT_EQ(programs.difference(scaled("1.5"), scaled("1.5000001")), "");
}

TEST(ProgramDifference, OtherNumbersDoNot) {
  Programs programs;
  EXPECT_THAT(programs.difference(scaled("1.5"), scaled("1.501")), StartsWith("y["));
  EXPECT_THAT(programs.difference(scaled("1.5"), scaled("nan")), HasSubstr("nan in place of"));
  EXPECT_THAT(programs.difference(scaled("1.5"), scaled("inf")), HasSubstr("in place of"));
  // What the least precise float of a program allows is another number of a precise one.
  EXPECT_EQ(programs.difference(scaled("1.5"), scaled("1.501"), 0x1p-8), "");
}

TEST(ProgramDifference, IntegersAreEqualWhereRoundingLeavesThemAlone) {
  const auto rounded = [](const char* number) {
    return fmt::format(R"(fn @main(%x: f32[64]) {{
  %k = const f32 {}
  %c = view %k [i: 64] -> []
  %s = mul %x, %c
  %y = cast i32 %s
  return y = %y
}})",
                       number);
  };
  Programs programs;
  EXPECT_EQ(programs.difference(rounded("100.5"), rounded("100.5")), "");
  EXPECT_THAT(programs.difference(rounded("100.5"), rounded("101.5")), StartsWith("y["));
}

/// A state that takes the sum of itself and the argument.
TEST(ProgramDifference, StatesCount) {
  const auto step = [](const char* number) {
    return fmt::format(R"(fn @main(%x: f32[16], state %s: f32[16]) {{
  %k = const f32 {}
  %c = view %k [i: 16] -> []
  %a = mul %x, %c
  %n = add %s, %a
  return y = %a, next = %n -> s
}})",
                       number);
  };
  Programs programs;
  EXPECT_EQ(programs.difference(step("1"), step("1")), "");
  EXPECT_THAT(programs.difference(step("1"), step("2")), HasSubstr("["));
}

/// Where only integers go in, weights say how far results move.
TEST(ProgramDifference, WeightsMoveWhereNothingElseDoes) {
  const auto rows = [](const char* number) {
    return fmt::format(R"(fn @main(%i: i32[4], weight %w: f32[10, 6]) {{
  %g = view %w [r: 4, c: 6] with row = %i[r] in 0..9 -> [row, c]
  %k = const f32 {}
  %c = view %k [r: 4, c: 6] -> []
  %y = mul %g, %c
  return y = %y
}})",
                       number);
  };
  Programs programs;
  EXPECT_EQ(programs.difference(rows("1"), rows("1.0000001")), "");
  EXPECT_THAT(programs.difference(rows("1"), rows("1.001")), StartsWith("y["));
}

} // namespace
} // namespace luminal::compile
