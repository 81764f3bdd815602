// groups/lane_unit_test.cpp -- products by units of several lanes: chosen schedules of random sizes against
// the interpreter of terms, in adversarial orders; which schedules are chosen; what the unit is not for.
#include "choose/group_schedule.h"
#include "group_support.h"
#include "loop/unit.h"

namespace luminal::kernel {
namespace {
using testing::HasSubstr;
using testing::Not;

GpuTarget small_target(int tiles) {
  GpuTarget target = *gpu_target("cuda", "sm_80");
  target.groups = 2;
  target.tiles = tiles;
  return target;
}

std::string epilogue(int64_t m, int64_t n) {
  return fmt::format("  %cv = view %c [i: {0}, j: {1}] -> [j]\n  %e = add %s, %cv\n  %z = const f32 0\n"
                     "  %zv = view %z [i: {0}, j: {1}] -> []\n  %r = max %e, %zv\n  %out = cast f16 %r\n"
                     "  return out = %out\n",
                     m, n);
}

TEST(LaneUnits, RandomProducts) {
  for (uint64_t seed = 1; seed <= 12; seed++) {
    std::mt19937_64 random(seed);
    const auto in = [&](int64_t low, int64_t high) {
      return low + int64_t(random() % uint64_t(high - low + 1));
    };
    // Whole rows of 16 bytes, or none.
    const int64_t m = in(16, 80), n = seed % 2 ? in(8, 70) : 8 * in(1, 9),
                  k = seed % 3 ? in(16, 90) : 8 * in(2, 12);
    SCOPED_TRACE(fmt::format("seed {}: {} x {} x {}", seed, m, n, k));
    const std::string term =
        product_term(m, n, k, seed % 3 == 2 ? "f16" : "bf16", seed % 4 == 1 ? epilogue(m, n) : "");
    const auto made =
        group_kernel(*cone_of(parse_module(term, "term").entry(), false), small_target(1 + int(seed % 3)));
    ASSERT_TRUE(made) << term;
    EXPECT_THAT(to_string(made->schedule), HasSubstr("lane_unit f nvidia.mma.m16n8k16."));
    const auto c = group_case(term, to_string(made->schedule), seed);
    if (!c) return;
    expect_right(*c, seed, seed % 4 == 1 ? 2e-3 : 4e-6);
    if (HasFailure()) return;
  }
}

} // namespace
} // namespace luminal::kernel
