// bound_test.cpp -- what a launch executes at least, counted by hand; macro-tiles hold a part of
// the work and stay inside the kernel.
#include "search/bound.h"
#include "search/part.h"
#include "search/problem_support.h"
#include <gtest/gtest.h>

namespace luminal::search {
namespace {

LeastWork count(const std::string& text, int threads = 1, std::map<std::string, int64_t> sizes = {}) {
  const auto work = least_work(kernel::parse_kernel(text), sizes, threads);
  EXPECT_TRUE(work);
  return work.value_or(LeastWork{});
}

MachineProfile profile_of(double gflops, double l1) {
  MachineProfile profile = MachineProfile::guess(2);
  profile.guessed = false;
  profile.fma_f32_1 = profile.fma_f32 = gflops;
  profile.l1_1 = {l1, l1, l1, l1};
  return profile;
}

const std::string tile = R"(kernel tile(C: f32[1024] out, A: f32[1024] in, B: f32[1024] in)
  registers acc: f32[64]
  parallel io in 0..8
    unrolled i in 0..4
      vector l in 0..16
        acc[i*16 + l] = 0.0
    for k in 0..32
      unrolled i in 0..4
        vector l in 0..16
          acc[i*16 + l] = fma(A[io*128 + i*32 + k], B[k*16 + l], acc[i*16 + l])
    unrolled i in 0..4
      vector l in 0..16
        C[io*64 + i*16 + l] = acc[i*16 + l]
)";

TEST(Bound, ARegisterTile) {
  const LeastWork one = count(tile);
  EXPECT_EQ(one.multiplies, 8 * 32 * 4 * 16);
  // In each step of k one vector of B and one number of A for each row.
  EXPECT_EQ(one.loaded, 8 * 32 * (4 * 16 + 4 * 4));
  EXPECT_EQ(count(tile, 2).multiplies, one.multiplies / 2);
  EXPECT_EQ(count(tile, 3).multiplies, one.multiplies / 8 * 3); // somebody has three of the eight
  EXPECT_EQ(count(tile, 64).multiplies, one.multiplies / 8);
}

TEST(Bound, NestedParallelLoopsAreDealtOutTogether) {
  const std::string text = R"(kernel nest(z: f32[240] out, x: f32[240] in)
  parallel i in 0..3
    parallel j in 0..5
      vector l in 0..16
        z[i*80 + j*16 + l] = x[i*80 + j*16 + l] * x[i*80 + j*16 + l]
)";
  EXPECT_EQ(count(text, 1).multiplies, 240);
  EXPECT_EQ(count(text, 2).multiplies, 120);
}

TEST(Bound, SecondsAreTheSlowestPart) {
  LeastWork work;
  work.multiplies = 1e9;
  work.arithmetic = 1e9;
  EXPECT_DOUBLE_EQ(least_seconds(work, profile_of(100, 200)), 1e9 / 50e9);
  work.loaded = 100e9;
  EXPECT_DOUBLE_EQ(least_seconds(work, profile_of(100, 200)), 0.5);
  EXPECT_EQ(least_seconds(work, MachineProfile::guess(1)), 0);
}

TEST(Bound, WhatCanBeHoistedOrSharedCountsOnce) {
  // x[i] * y[i] changes with i alone; the second statement says the same again.
  const LeastWork work =
      count(R"(kernel hoist(z: f32[4096] out, w: f32[4096] out, x: f32[64] in, y: f32[64] in)
  for i in 0..64
    for j in 0..64
      z[i*64 + j] = x[i] * y[i]
      w[i*64 + j] = x[i] * y[i]
)");
  EXPECT_LE(work.multiplies, 2 * 64 * 4);
  EXPECT_GT(work.multiplies, 0);
  EXPECT_LE(work.loaded, 2 * 2 * 64 * 4);
}

TEST(Bound, ConditionsAndTriangles) {
  const LeastWork half = count(R"(kernel half(z: f32[4096] out, x: f32[4096] in)
  for i in 0..64
    for j in 0..i
      z[i*64 + j] = x[i*64 + j] * x[j*64 + i]
)");
  EXPECT_EQ(half.multiplies, 64 * 63 / 2 * 4);
  const LeastWork first = count(R"(kernel first(z: f32[4096] out, x: f32[4096] in)
  for i in 0..64
    if i == 0
      for j in 0..64
        z[i*64 + j] = x[i*64 + j] * x[j*64 + i]
)");
  EXPECT_EQ(first.multiplies, 64 * 4);
  // A size that only the launch knows.
  const std::string text = R"(kernel some(z: f32[n] out, x: f32[n] in; n: 1..4096)
  for i in 0..n
    z[i] = x[i] * x[i]
)";
  EXPECT_EQ(count(text, 1, {{"n", 100}}).multiplies, 100 * 4);
  EXPECT_EQ(count(text, 1, {{"n", 200}}).multiplies, 200 * 4);
}

/// The bound is one for every schedule: it is not above what a whole lowering without tiles has in
/// elements.
TEST(Bound, NoScheduleIsCountedBelowItsProducts) {
  const KernelProblem problem = matmul(48, 64, 32);
  for (const std::string& schedule : {std::string(), matmul_schedule}) {
    const auto kernel = candidate(schedule).lower(problem.cone, kernel::parse_schedule(schedule));
    ASSERT_TRUE(kernel) << kernel.error();
    const auto work = least_work(*kernel, {}, 1);
    ASSERT_TRUE(work);
    EXPECT_GE(work->multiplies, 48 * 64 * 32);
    EXPECT_LE(work->multiplies, 48 * 64 * 32 * 4); // scalars take a part of a vector unit
  }
}

TEST(Part, TakesSomeIterationsFromTheMiddle) {
  const MachineProfile profile = MachineProfile::guess(2);
  const auto part = part_of(kernel::parse_kernel(tile), {}, 2, 0.25, profile);
  ASSERT_TRUE(part);
  EXPECT_EQ(part->whole, 4);
  const std::string text = kernel::to_string(part->kernel);
  EXPECT_NE(text.find(" in 3..5\n"), std::string::npos) << text;
  EXPECT_NE(text.find(" in 0..32\n"), std::string::npos) << text; // inner tiles stay
  // Every worker keeps its share.
  EXPECT_EQ(part_of(kernel::parse_kernel(tile), {}, 4, 0.01, profile)->whole, 2);
  EXPECT_FALSE(part_of(kernel::parse_kernel(tile), {}, 8, 0.01, profile));
}

TEST(Part, OfAScheduledProductRunsInsideItsBuffers) {
  const KernelProblem problem = matmul(200, 160, 96);
  const auto whole = candidate(matmul_schedule).lower(problem.cone, kernel::parse_schedule(matmul_schedule));
  ASSERT_TRUE(whole);
  for (const double share : {0.5, 0.2, 0.05}) {
    const auto part = part_of(*whole, {}, 1, share, MachineProfile::guess(1));
    ASSERT_TRUE(part) << share;
    EXPECT_TRUE(kernel::verify(part->kernel).empty());
    EXPECT_GE(part->whole, 1.4);
    EXPECT_LE(part->whole, 4 / share);
    auto measurer =
        make_in_process_measurer(std::make_shared<const Workload>(workload_of(problem, problem.cone, {}, 1)));
    auto code = build(part->kernel, {}, {});
    ASSERT_TRUE(code) << code.error();
    const auto outputs = measurer->run(*measurer->add(*code), std::byte{0x7f}); // guard pages on both sides
    ASSERT_TRUE(outputs) << outputs.error();
  }
}

} // namespace
} // namespace luminal::search
