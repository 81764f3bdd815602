// choose/default_kernels_test.cpp -- schedules that estimates read before a kernel is lowered.
#include "choose/default_kernels.h"
#include "cone/canonical_cone.h"
#include "schedule/lower.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace luminal::kernel {
namespace {

/// The canonical cone of all results of the term.
Cone cone_of(const std::string& text) {
  const Module module = parse_module(text, "term");
  EXPECT_THAT(verify(module), testing::IsEmpty());
  std::vector<NodeId> roots;
  for (const auto& result : module.entry().results) roots.push_back(result.value);
  return canonical(build_cone(module.entry(), roots, {}).value()).cone;
}

const std::string product = R"(fn @main(%x: f32[64, 48], %w: f32[48, 96]) {
  %a = view %x [m: 64, n: 96, k: 48] -> [m, k]
  %b = view %w [m: 64, n: 96, k: 48] -> [k, n]
  %p = mul %a, %b
  %s = fold [m: 64, n: 96, k: 48] over [k] { sum %p[m, n, k] }
  %y = get %s, 0
  return y = %y
})";

/// A convolution of volumes with its weights in panels and one with windows of one element, added: the
/// stages share loops that the first one does not open in the order of the second.
const std::string two_convolutions =
    R"(fn @main(%x: f32[32, 8, 14, 14], weight %w: f32[2, 32, 3, 3, 3, 16], weight %u: f32[32, 32]) {
  %f = view %x [o: 32, c: 32, i: 8, j: 14, k: 14, r: 3, s: 3, t: 3] -> [c, i + r - 1, j + s - 1, k + t - 1]
    where i + r >= 1 and i + r < 9 and j + s >= 1 and j + s < 15 and k + t >= 1 and k + t < 15 fill 0
  %g = view %w [o: 32, c: 32, i: 8, j: 14, k: 14, r: 3, s: 3, t: 3] -> [o // 16, c, r, s, t, o % 16]
  %q = mul %f, %g
  %v = fold [o: 32, c: 32, i: 8, j: 14, k: 14, r: 3, s: 3, t: 3] over [c, r, s, t] {
    sum %q[o, c, i, j, k, r, s, t]
  }
  %two = get %v, 0
  %a = view %x [o: 32, i: 8, j: 14, k: 14, c: 32] -> [c, i, j, k]
  %b = view %u [o: 32, i: 8, j: 14, k: 14, c: 32] -> [o, c]
  %p = mul %a, %b
  %s = fold [o: 32, i: 8, j: 14, k: 14, c: 32] over [c] { sum %p[o, i, j, k, c] }
  %one = get %s, 0
  %y = add %two, %one
  return y = %y
})";

TEST(DefaultKernels, TheScheduleOfAnEstimateIsThatOfTheKernel) {
  for (const std::string& text : {product, two_convolutions}) {
    const Cone cone = cone_of(text);
    const MachineLimits limits;
    DefaultKernels estimating(limits), lowering(limits);
    const Schedule estimated = estimating.schedule_of(cone);
    EXPECT_EQ(to_string(estimated), to_string(lowering.of(cone).schedule));
    EXPECT_EQ(to_string(estimated), to_string(estimating.of(cone).schedule));
    EXPECT_TRUE(estimating.of(cone).kernel);
  }
}

TEST(DefaultKernels, LoopsThatDoNotFitTogetherAreFoundBeforeLowering) {
  const Cone cone = cone_of(two_convolutions);
  const MachineLimits limits;
  const auto proposed = propose_schedule(cone, limits);
  ASSERT_TRUE(proposed);
  EXPECT_FALSE(lower(cone, proposed->schedule, {.lanes = limits.lanes}));
  EXPECT_FALSE(arranges(cone, proposed->schedule, {.lanes = limits.lanes}));
  EXPECT_TRUE(arranges(cone_of(product), {}));
}

} // namespace
} // namespace luminal::kernel
