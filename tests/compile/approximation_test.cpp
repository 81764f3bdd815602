// approximation_test.cpp -- programs with rules of class `approx`: only where a bound is given,
// within it, and exact where the bound is too small.
#include "base/thread_pool.h"
#include "compile/approximation.h"
#include "compile/plan_race.h"
#include "compile/search_options.h"
#include <gmock/gmock.h>

namespace luminal::compile {
namespace {

using search::ScratchFolder;
using search::TuningCache;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

/// A convolution with a window of 3 by 3, a bias, a residual and relu.
struct Convolution {
  int64_t batch = 1, channels = 64, filters = 64, height = 28, width = 28, padding = 1;
};
Module module_of(const Convolution& c) {
  const int64_t h = c.height + 2 * c.padding - 2, w = c.width + 2 * c.padding - 2;
  const std::string space =
      fmt::format("[n: {}, k: {}, h: {}, w: {}, c: {}, r: 3, s: 3]", c.batch, c.filters, h, w, c.channels);
  const std::string out = fmt::format("[n: {}, k: {}, h: {}, w: {}]", c.batch, c.filters, h, w);
  return parse_module(fmt::format(
      R"(fn @main(%x: f32[{0}, {1}, {2}, {3}], %z: f32[{0}, {4}, {5}, {6}], weight %w: f32[{4}, {1}, 3, 3],
         weight %b: f32[{4}]) {{
  %a = view %x {7} -> [n, c, h + r - {8}, w + s - {8}]
    where {8} <= h + r and h + r < {2} + {8} and {8} <= w + s and w + s < {3} + {8}
  %v = view %w {7} -> [k, c, r, s]
  %p = mul %a, %v
  %f = fold {7} over [c, r, s] {{ sum %p[n, k, h, w, c, r, s] }}
  %s = get %f, 0
  %bias = view %b {9} -> [k]
  %t = add %s, %bias
  %u = add %t, %z
  %zero = const f32 0
  %zeros = view %zero {9} -> []
  %y = max %u, %zeros
  return y = %y
}})",
      c.batch, c.channels, c.height, c.width, c.filters, h, w, space, c.padding, out));
}

Options options_with(double max_error, ThreadPool& pool) {
  Options options = Options::host(pool.size());
  options.cache = false;
  options.pool = &pool;
  options.rules.choice.max_error = max_error;
  return options;
}

std::vector<std::string> rules_of(const Compiled& compiled) {
  std::vector<std::string> out;
  for (const RegionReport& region : compiled.regions)
    out.insert(out.end(), region.rules.begin(), region.rules.end());
  return out;
}

int launches(const Compiled& compiled) {
  return int(std::ranges::count_if(compiled.plan->steps, &runtime::Step::is<runtime::Launch>));
}

/// How far the second program is off.
double error_of(const Compiled& exact, const Compiled& other, ThreadPool& pool) {
  ProgramRace race({.pool = &pool});
  auto a = race.add(exact.plan), b = race.add(other.plan);
  return race.error(a.value(), b.value()).value();
}

TEST(Approximation, WithoutABoundThereIsNone) {
  ThreadPool pool(1);
  const Compiled compiled = compile(module_of({}), options_with(0, pool)).value();
  EXPECT_THAT(rules_of(compiled), Not(Contains(StartsWith("tiles"))));
  EXPECT_EQ(compiled.approximation.max_error, 0);
  EXPECT_THAT(compiled.report(), Not(HasSubstr("approximate")));
}

TEST(Approximation, WithinABoundAConvolutionTakesThreeKernels) {
  ThreadPool pool(1);
  for (const Convolution& c :
       {Convolution{}, {.batch = 2, .height = 30, .padding = 0}, {.batch = 3, .height = 15, .width = 21}}) {
    const Compiled exact = compile(module_of(c), options_with(0, pool)).value();
    const Compiled compiled = compile(module_of(c), options_with(1e-3, pool)).value();
    EXPECT_THAT(rules_of(compiled), Contains("tiles-four"));
    EXPECT_EQ(compiled.approximation.regions, 1u) << compiled.report();
    EXPECT_THAT(compiled.approximation.rejected, IsEmpty());
    EXPECT_THAT(compiled.report(), HasSubstr("approximate: 1 region; results are off by "));
    EXPECT_EQ(launches(compiled), 3) << compiled.report();
    // What it is depends on inputs; what was said of it is of the same size.
    EXPECT_GT(compiled.approximation.error, 1e-9);
    EXPECT_LT(compiled.approximation.error, 1e-4);
    EXPECT_GT(error_of(exact, compiled, pool), 1e-9);
    EXPECT_LT(error_of(exact, compiled, pool), 1e-4);
  }
}

TEST(Approximation, BeyondTheBoundTheProgramStaysExact) {
  ThreadPool pool(1);
  const Compiled exact = compile(module_of({}), options_with(0, pool)).value();
  const Compiled compiled = compile(module_of({}), options_with(1e-9, pool)).value();
  EXPECT_EQ(compiled.approximation.regions, 0u);
  EXPECT_EQ(compiled.approximation.error, 0);
  ASSERT_THAT(compiled.approximation.rejected, testing::SizeIs(1));
  EXPECT_THAT(
      compiled.approximation.rejected[0],
      testing::AllOf(StartsWith("region of "), HasSubstr("of their greatest elements, 1e-09 is allowed")));
  EXPECT_THAT(
      compiled.report(),
      testing::AllOf(HasSubstr("approximate: nothing, where 1e-09 of the greatest element of a result is "
                               "allowed\n  rejected: region of "),
                     Not(HasSubstr("is not used"))));
  EXPECT_EQ(compiled.schedules, exact.schedules);
  EXPECT_THAT(compiled.blamed, IsEmpty());
  EXPECT_EQ(error_of(exact, compiled, pool), 0);
}

/// A search that measures holds approximate plans against the bound, not against rounding, and blames nobody.
TEST(Approximation, ASearchKeepsTheBound) {
  const ScratchFolder folder("approximation");
  ThreadPool pool(1);
  for (const double bound : {1e-3, 1e-9}) {
    Options options = options_in(folder, std::make_shared<TuningCache>(folder.file()), pool);
    options.rules.choice.max_error = bound;
    options.search.mode = SearchMode::budget;
    options.search.seconds = 2;
    const Compiled compiled = compile(module_of({.channels = 32, .filters = 32}), options).value();
    ASSERT_TRUE(compiled.search);
    EXPECT_EQ(compiled.search->mismatches, 0) << compiled.report();
    EXPECT_THAT(compiled.search->blamed, IsEmpty());
    EXPECT_THAT(compiled.blamed, IsEmpty());
    const Compiled exact = compile(module_of({.channels = 32, .filters = 32}), options_with(0, pool)).value();
    EXPECT_LE(error_of(exact, compiled, pool), bound == 1e-3 ? bound : 1e-6);
  }
}

} // namespace
} // namespace luminal::compile
