// groups/choice_test.cpp -- the schedules that are chosen for GPUs: which they are, and that kernels of
// random sizes compute what their terms say.
#include "choose/group_schedule.h"
#include "group_support.h"

namespace luminal::kernel {
namespace {
using testing::HasSubstr;
using testing::Not;

/// Lanes are few, so that the interpreter has little to do.
GpuTarget small_target() {
  GpuTarget target;
  target.lanes = 32;
  target.groups = 2;
  return target;
}

std::optional<DefaultKernel> chosen_kernel(const std::string& term, const GpuTarget& target) {
  const auto cone = cone_of(parse_module(term, "term").entry(), false);
  EXPECT_TRUE(bool(cone)) << (cone ? "" : cone.error());
  if (!cone) return {};
  auto made = group_kernel(*cone, target);
  EXPECT_TRUE(made) << to_string(*cone);
  return made;
}

std::optional<GroupCase> chosen(const std::string& term, const GpuTarget& target, uint64_t seed,
                                const std::map<std::string, int64_t>& symbols = {}) {
  const auto made = chosen_kernel(term, target);
  if (!made) return {};
  return group_case(term, to_string(made->schedule), seed, symbols);
}

TEST(GroupChoice, ProductsHaveTiles) {
  const auto made = chosen_kernel(product_term(4096, 4096, 4096), *gpu_target("cuda", "sm_90"));
  ASSERT_TRUE(made);
  EXPECT_EQ(lanes_of_group(*made->kernel), 256);
  const std::string schedule = to_string(made->schedule);
  EXPECT_THAT(schedule, HasSubstr("split f i i.o i.r 128\nsplit f i.r i.u i.q 64\nsplit f i.q i.l i.v 4\n"));
  EXPECT_THAT(schedule, HasSubstr("split f k k.o k.i 16\n"));
  EXPECT_THAT(schedule, HasSubstr("group_copy f a k.o 2\ngroup_copy f b k.o 2\n"));
}

TEST(GroupChoice, RandomProducts) {
  for (uint64_t seed = 1; seed <= 10; seed++) {
    std::mt19937_64 random(seed);
    const auto in = [&](int64_t low, int64_t high) {
      return low + int64_t(random() % uint64_t(high - low + 1));
    };
    const int64_t m = in(8, 90), n = in(8, 90), k = in(2, 40);
    SCOPED_TRACE(fmt::format("seed {}: {} x {} x {}", seed, m, n, k));
    const auto c = chosen(product_term(m, n, k, seed % 3 == 2 ? "f16" : "f32"), small_target(), seed);
    if (!c) return;
    expect_right(*c, seed);
    if (HasFailure()) return;
  }
}

TEST(GroupChoice, RowsAreOneKernel) {
  const auto large = chosen_kernel(softmax_term(4096, 4096), *gpu_target("cuda", "sm_90"));
  ASSERT_TRUE(large);
  EXPECT_EQ(lanes_of_group(*large->kernel), 256);
  EXPECT_FALSE(has_barriers(*large->kernel));
  for (uint64_t seed = 1; seed <= 10; seed++) {
    std::mt19937_64 random(seed);
    const int64_t m = 1 + int64_t(random() % 20), k = 8 + int64_t(random() % 200);
    SCOPED_TRACE(fmt::format("seed {}: {} x {}", seed, m, k));
    const auto c = chosen(softmax_term(m, k), small_target(), seed);
    if (!c) return;
    expect_right(*c, seed);
    if (HasFailure()) return;
  }
}

} // namespace
} // namespace luminal::kernel
