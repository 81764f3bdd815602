// golden/volumes_test.cpp -- default schedules of convolutions over one to three axes and of narrow
// numbers, against the interpreter.
#include "golden/convolutions.h"
#include "golden/golden_support.h"

namespace luminal::kernel::volumes_test {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr MachineLimits avx512{.lanes = 16, .vector_registers = 32, .threads = 2},
    avx2{.lanes = 8, .vector_registers = 16, .threads = 3},
    one{.lanes = 16, .vector_registers = 32, .threads = 1};

/// The default schedule, which is right.
std::string default_of(const WindowedSum& c, const MachineLimits& limits, uint64_t seed = 1,
                       const Answers& answers = {}) {
  const std::string term = term_of(c);
  Module module = parse_module(term, "conv");
  EXPECT_THAT(verify(module), testing::IsEmpty()) << term;
  auto cone = cone_of(module.entry(), false);
  if (!cone) return cone.error();
  auto [schedule, kernel, decisions] = default_kernel(*cone, limits, answers);
  if (!kernel) return kernel.error();
  const std::string about = to_string(schedule) + term;
  EXPECT_THAT(verify(*kernel), testing::IsEmpty()) << about;
  const Bindings inputs = random_bindings(module.entry(), {"conv", {}}, seed);
  KernelRun got = run_cone(module.entry(), *cone, *kernel, inputs, adversarial(seed, 1 + int(seed % 3)));
  EXPECT_TRUE(got.run.ok()) << got.run.text() << about;
  if (!got.run.ok()) return about;
  EXPECT_LE(difference(DType::f32, got.results.at("y"), Interpreter(module, inputs).run().at("y")), 2e-6)
      << about;
  return to_string(schedule);
}

WindowedSum volume(int64_t images, int64_t channels, int64_t results, std::vector<int64_t> sizes) {
  WindowedSum c{.images = images, .channels = channels, .results = results, .axes = {}};
  for (int64_t n : sizes) c.axes.push_back({.size = n});
  return c;
}

/// The outermost axis of windows is none of the images: the copy has its halo, too.
TEST(Volumes, AreCopiedOnceWithTheZerosAround) {
  for (const MachineLimits& limits : {one, avx512, avx2})
    for (const int64_t images : {1, 2}) {
      WindowedSum c = volume(images, 2, 20, {2, 3, 32});
      EXPECT_THAT(default_of(c, limits),
                  testing::AllOf(HasSubstr("padded_copy X X.frame"), HasSubstr("vector f "),
                                 Not(HasSubstr("materialize"))));
      c.results = 64, c.panel = limits.lanes * 4;
      EXPECT_THAT(default_of(c, limits),
                  testing::AllOf(HasSubstr("padded_copy X X.frame"), HasSubstr("vector f o.")));
    }
}

TEST(Volumes, WorkersCopyTheBlocksThatTheyRead) {
  const WindowedSum c = [] {
    WindowedSum v = volume(1, 1, 64, {6, 4, 5});
    v.panel = 64;
    return v;
  }();
  EXPECT_THAT(default_of(c, avx512),
              testing::AllOf(HasSubstr("padded_copy X X.frame i 3"), HasSubstr("parallel X.frame i.b"),
                             HasSubstr("parallel f i.b")));
}

/// Along an axis that has no window the images are one after the other.
TEST(Volumes, AxesWithoutWindowsAreImages) {
  WindowedSum c = volume(1, 2, 64, {4, 5, 6});
  c.axes[0].kernel = 1, c.axes[0].pad = 0, c.panel = 64;
  EXPECT_THAT(default_of(c, avx512), HasSubstr("padded_copy X X.frame"));
}

TEST(Volumes, OfNarrowNumbersAreConvertedOnce) {
  for (const DType dtype : {DType::bf16, DType::f16})
    for (const MachineLimits& limits : {one, avx512, avx2}) {
      WindowedSum c = volume(1, 3, 32, {4, 20});
      c.dtype = dtype;
      MachineLimits with_dot = limits;
      with_dot.units = {"avx512.dpbf16"};
      const auto converted = testing::AllOf(HasSubstr("padded_copy X X.frame"), HasSubstr("materialize "),
                                            Not(HasSubstr("unit")));
      EXPECT_THAT(default_of(c, limits), converted);
      if (dtype == DType::f16) {
        EXPECT_THAT(default_of(c, with_dot), converted);
      }
    }
}

TEST(Volumes, OfNumbersThatADotInstructionMultipliesAreCopiedInWords) {
  for (const MachineLimits& limits : {one, avx512, avx2}) {
    WindowedSum c = volume(4, 3, 32, {4, 20});
    c.dtype = DType::bf16;
    MachineLimits with_dot = limits;
    with_dot.units = {"avx512.dpbf16"};
    EXPECT_THAT(default_of(c, with_dot),
                testing::AllOf(HasSubstr("unit_of_values "), HasSubstr("padded_copy "), HasSubstr("inline "),
                               Not(HasSubstr("materialize "))));
  }
}

/// Lanes go along rows of the results: the copy has them in that order, whatever that of the image.
TEST(Volumes, ImagesWithTheirChannelsLastAreTransposedAsTheyAreCopied) {
  for (const MachineLimits& limits : {one, avx512, avx2}) {
    WindowedSum c = volume(3, 2, 16, {4, 28});
    c.channels_last = true;
    EXPECT_THAT(default_of(c, limits), testing::AllOf(HasSubstr("padded_copy X X.frame"),
                                                      HasSubstr("c X.frame_2\n"), HasSubstr("vector f j")));
    c.axes[1].stride = 2, c.axes[1].size = 56;
    EXPECT_THAT(default_of(c, limits),
                testing::AllOf(HasSubstr("X.frame_2%2 X.frame_2/2\n"), HasSubstr("vector f j")));
  }
}

TEST(Volumes, ImagesThatAreReadFromTheirEndsLieTheOtherWayRoundInTheCopy) {
  for (const MachineLimits& limits : {one, avx512, avx2}) {
    WindowedSum c = volume(1, 2, 16, {4, 28});
    c.backwards = true;
    EXPECT_THAT(default_of(c, limits),
                testing::AllOf(HasSubstr("padded_copy X X.frame"), HasSubstr("vector f j")));
    c.results = 64, c.panel = 4 * limits.lanes;
    EXPECT_THAT(default_of(c, limits),
                testing::AllOf(HasSubstr("padded_copy X X.frame"), HasSubstr("vector f o.")));
  }
}

/// Tiles of panels, too, where results are contiguous along the panels.
TEST(Volumes, ResultsWithTheirChannelsLastTakeTheTilesOfPanels) {
  for (const MachineLimits& limits : {one, avx512, avx2}) {
    WindowedSum c = volume(1, 2, 64, {5, 12});
    c.panel = 4 * limits.lanes, c.channels_last = c.results_last = true;
    EXPECT_THAT(default_of(c, limits),
                testing::AllOf(HasSubstr("padded_copy X X.frame"), HasSubstr("split f j j.t j.i")));
  }
}

/// Groups and single channels read both operands along an axis that is kept; few results are no
/// reason for a copy of windows.
TEST(Volumes, WhatHasNoLanesIsCopiedInTheOrderOfTheResults) {
  for (const MachineLimits& limits : {one, avx512, avx2})
    for (const int64_t results : {1, 6}) {
      WindowedSum c = volume(2, 5, results, {4, 6, 8});
      c.channels_last = true;
      EXPECT_THAT(default_of(c, limits),
                  testing::AllOf(HasSubstr("padded_copy X X."),
                                 testing::AnyOf(HasSubstr("c X.run_3\n"), HasSubstr("c X.frame_3\n")),
                                 HasSubstr("vector f k")));
    }
}

TEST(Volumes, RandomConvolutions) {
  int framed = 0, volumes = 0;
  for (uint64_t seed = 1; seed <= 90; seed++) {
    std::mt19937_64 random(seed);
    const MachineLimits limits = std::array{avx512, avx2, one}[random() % 3];
    const WindowedSum c = random_windows(random, (limits.vector_registers >= 32 ? 4 : 2) * limits.lanes);
    Answers answers;
    if (random() % 3 == 0)
      answers = {{"f.tile_rows", int64_t(1 + random() % 2)},
                 {"f.tile_columns", int64_t(1 + random() % 3)},
                 {"f.panels_outside", int64_t(random() % 2)},
                 {"X.frame.frame_rows", int64_t(2 + random() % 3)}};
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const std::string schedule = default_of(c, limits, seed, answers);
    framed += schedule.find("padded_copy X") != std::string::npos;
    volumes += schedule.find("padded_copy X") != std::string::npos && c.axes.size() == 3;
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(framed, 15);
  EXPECT_GT(volumes, 3);
}

} // namespace
} // namespace luminal::kernel::volumes_test
