// tests/compile/partition_test.cpp -- a partition as an input: its kernels are those of the plan,
// through layouts and beside checks; what is not legal is refused.
#include "compile/builder.h"
#include "compile/compile.h"
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace luminal::compile {
namespace {

using testing::ElementsAre;

/// What each launch of a step writes and reads, with this partition of @main: "p q <- a b".
Result<std::vector<std::string>> launches(const std::string& text, const std::string& kernels) {
  const Module module = parse_module(text);
  const Options options = Options::host(1);
  KernelPlanner planner({.limits = options.limits, .target = options.target});
  bool asked = false;
  PlanBuilder builder(module, planner, [&](const Region& region) -> Result<std::optional<Partition>> {
    if (std::exchange(asked, true)) return std::optional<Partition>();
    return std::optional(parse_partition("partition @main {" + kernels + "}", *region.function));
  });
  auto plan = builder.build();
  if (!plan) return plan.failure();
  std::vector<std::string> lines;
  for (const runtime::Step& step : plan->steps) {
    const auto* launch = step.as<runtime::Launch>();
    if (!launch) continue;
    std::string written, read;
    const std::vector<bool>& writes = plan->kernels[launch->kernel].writes;
    for (size_t i = 0; i < launch->slots.size(); i++)
      (writes[i] ? written : read) += " " + plan->slots[launch->slots[i]].name;
    lines.push_back(written.substr(1) + " <-" + read);
  }
  return lines;
}

TEST(GivenPartition, ItsKernelsAreThoseOfThePlan) {
  const std::string text = R"(
fn @main(%x: f32[64, 32]) {
  %e = exp %x
  %f = fold [m: 64, n: 32] over [n] { sum %e[m, n] }
  %s = get %f, 0
  %sb = view %s [m: 64, n: 32] -> [m]
  %y = div %e, %sb
  return y = %y
})";
  EXPECT_THAT(launches(text, "kernel %y").value(), ElementsAre("y <- x"));
  EXPECT_THAT(launches(text, "kernel %s kernel %y").value(), ElementsAre("s <- x", "y <- x s"));
  EXPECT_THAT(launches(text, "kernel %e, %s kernel %y").value(), ElementsAre("e s <- x", "y <- e s"));
  EXPECT_THAT(launches(text, "kernel %y, %s").value(), ElementsAre("y s <- x"));
  EXPECT_EQ(launches(text, "kernel %e").error(), "partition of @main: %y must be stored: it is a result");
  EXPECT_EQ(launches(text, "kernel %e, %y kernel %s").error(),
            "partition of @main: kernels wait for each other: kernel %e, %y reads %s; kernel %s reads %e");
}

/// What a kernel would only copy in its order lies in the same memory, but for two results.
TEST(GivenPartition, AReshapedValueIsNotCopied) {
  const auto module = [](const std::string& rest) {
    return R"(
fn @main(%x: f32[64, 32]) {
  %f = fold [m: 64, n: 32] over [n] { sum %x[m, n] }
  %s = get %f, 0
  %y = view %s [a: 4, b: 16] -> [a * 16 + b]
  %t = view %s [a: 4, b: 16] -> [b * 4 + a]
)" + rest + "}";
  };
  EXPECT_THAT(launches(module("return y = %y"), "kernel %s kernel %y").value(), ElementsAre("s <- x"));
  EXPECT_THAT(launches(module("return y = %y, s = %s"), "kernel %s kernel %y").value(),
              ElementsAre("s <- x", "y <- s"));
  EXPECT_THAT(launches(module("return t = %t"), "kernel %s kernel %t").value(),
              ElementsAre("s <- x", "t <- s"));
  EXPECT_THAT(launches(module("%z = exp %y return z = %z"), "kernel %s kernel %y kernel %z").value(),
              ElementsAre("s <- x", "z <- s"));
}

/// Two sums over different axes are stages of one kernel; a scan may run along any axis.
TEST(GivenPartition, FoldsAndScansShareAKernel) {
  const std::string sums = R"(
fn @main(%a: f32[6, 8], %b: f32[6, 4, 8]) {
  %s = fold [m: 6, n: 4, k: 8] over [k] { sum %a[m, k]; sum %b[m, n, k] }
  %p = get %s, 0
  %q = get %s, 1
  return p = %p, q = %q
})";
  EXPECT_THAT(launches(sums, "kernel %p, %q").value(), ElementsAre("p q <- a b"));
  EXPECT_THAT(launches(sums, "kernel %p kernel %q").value(), ElementsAre("p <- a", "q <- b"));
  const std::string scan = R"(
fn @main(%x: f32[6, 8]) {
  %s = scan [m: 6, n: 8] along m { sum %x[m, n] }
  %c = get %s, 0
  %y = exp %c
  %f = fold [m: 6, n: 8] over [m] { max %y[m, n] }
  %t = get %f, 0
  return y = %y, t = %t
})";
  EXPECT_THAT(launches(scan, "kernel %y, %t").value(), ElementsAre("y t <- x"));
  EXPECT_THAT(launches(scan, "kernel %c kernel %t, %y").value(), ElementsAre("c <- x", "t y <- c"));
}

/// A scan backwards over no elements has nothing to write, whatever shares its kernel.
TEST(GivenPartition, AScanOfNothingBesideAnotherResult) {
  const std::string text = R"(
fn @main(%x: f32[1, 0], %a: f32) {
  %s = scan [m: 1, n: 0] along n reverse { sum %x[m, n] }
  %c = get %s, 0
  %y = exp %a
  return c = %c, y = %y
})";
  EXPECT_THAT(launches(text, "kernel %c, %y").value(), ElementsAre("c y <- x a"));
}

/// What load computes needs no kernel of a step; a copy whose layout is free is stored in the one
/// that its reader asks for.
TEST(GivenPartition, GoesThroughLayouts) {
  const std::string text = R"(
fn @main(%x: f32[256, 256], weight %w: f32[256, 256]) {
  %t = view %x [m: 256, k: 256] -> [k, m]
  %c = fence %t
  %xb = view %c [m: 256, n: 256, k: 256] -> [m, k]
  %wb = view %w [m: 256, n: 256, k: 256] -> [k, n]
  %p = mul %xb, %wb
  %f = fold [m: 256, n: 256, k: 256] over [k] { sum %p[m, n, k] }
  %s = get %f, 0
  %y = tanh %s
  return y = %y
})";
  const auto found = launches(text, "kernel %t kernel %s kernel %y");
  ASSERT_TRUE(found) << found.error();
  ASSERT_EQ(found->size(), 3u);
  EXPECT_THAT((*found)[0], testing::EndsWith("<- x"));
  EXPECT_THAT((*found)[1], testing::StartsWith("s <- "));
  EXPECT_EQ((*found)[2], "y <- s");
}

/// Integers that a check reads are stored, whoever makes the partition.
TEST(GivenPartition, WhatChecksReadIsStored) {
  const std::string text = R"(
symbol n: 1..64
fn @main(%x: f32[n], %i: i32[8]) {
  %j = add %i, %i
  %g = view %x [m: 8] with h0 = %j[m] in 0..63 -> [h0]
  %y = exp %g
  return y = %y
})";
  EXPECT_THAT(launches(text, "kernel %j kernel %y").value(), ElementsAre("j <- i", "y <- j x"));
  EXPECT_EQ(launches(text, "kernel %y").error(),
            "partition of @main: %j must be stored: it is an index that is checked before it is used");
}

} // namespace
} // namespace luminal::compile
