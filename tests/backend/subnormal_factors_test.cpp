// tests/backend/subnormal_factors_test.cpp -- factors of sums may count as zero where they are subnormal
// (ir/ops.h): stored weights and those of one pass do, and nothing else that reads such a number.
#include "compile/builder.h"
#include "plans.h"
#include "support.h"
#include <gmock/gmock.h>

namespace luminal {
namespace {

/// softmax(scores) times values, and what `more` makes of the exponentials %p and the weights %w.
Module weights_times_values(const std::string& more, const std::string& results) {
  return parse_module(R"(
fn @main(%s: f32[6, 40], %v: f32[40, 24]) {
  %mf = fold [m: 6, n: 40] over [n] { max %s[m, n] }
  %m = get %mf, 0
  %mv = view %m [m: 6, n: 40] -> [m]
  %d = sub %s, %mv
  %p = exp %d
  %sf = fold [m: 6, n: 40] over [n] { sum %p[m, n] }
  %t = get %sf, 0
  %tv = view %t [m: 6, n: 40] -> [m]
  %w = div %p, %tv
  %wv = view %w [m: 6, c: 24, n: 40] -> [m, n]
  %vv = view %v [m: 6, c: 24, n: 40] -> [n, c]
  %x = mul %wv, %vv
  %of = fold [m: 6, c: 24, n: 40] over [n] { sum %x[m, c, n] }
  %o = get %of, 0
)" + more + "  return o = %o" +
                      results + "\n}");
}

compile::Partitioner stored(const std::string& kernels) {
  return [kernels](const Region& region) -> Result<std::optional<Partition>> {
    return std::optional(parse_partition("partition @main {" + kernels + "}", *region.function));
  };
}

HostTensor tensor_of(std::vector<int64_t> shape, const std::vector<float>& values) {
  HostTensor out{DType::f32, std::move(shape), std::vector<std::byte>(values.size() * sizeof(float))};
  std::memcpy(out.data.data(), values.data(), out.data.size());
  return out;
}

/// Scores from 0 down to -104, where exponentials end; values of which the first row, that of the greatest
/// score, is zero: the others alone make the result.
Bindings steep(float scale) {
  std::vector<float> scores(6 * 40), values = test::random_floats(40 * 24, 5);
  for (size_t m = 0; m < 6; m++)
    for (size_t n = 0; n < 40; n++) scores[m * 40 + n] = n == 0 ? 0 : -80.f - float(m) - float(n) / 2;
  for (size_t i = 0; i < values.size(); i++) values[i] = i < 24 ? 0 : values[i] * scale;
  Bindings bindings;
  bindings.inputs["s"] = tensor_of({6, 40}, scores);
  bindings.inputs["v"] = tensor_of({40, 24}, values);
  return bindings;
}

void expect_equal(const Module& module, const Bindings& bindings, compile::Partitioner partitioner) {
  int64_t compared = 0;
  Running running(module, 1, 0, passes::defaults(), std::move(partitioner));
  auto context = running.start(module, bindings);
  context->run().value();
  expect_interpreted(module, bindings, *context, compared);
  EXPECT_GT(compared, 0);
}

/// Loops of the kernels, with this partition.
std::string loops(const Module& module, compile::Partitioner partitioner) {
  const compile::Options options = compile::Options::host(1);
  compile::KernelPlanner planner({.limits = options.limits, .target = options.target});
  compile::PlanBuilder builder(module, planner, std::move(partitioner));
  builder.build().value();
  std::string text;
  for (const compile::PlannedKernel& kernel : builder.kernels()) text += to_string(kernel.loops);
  return text;
}

constexpr const char* least_normal = "1.1754944e-38";

TEST(SubnormalFactors, OfSumsAloneAreZeros) {
  const Module plain = weights_times_values("", "");
  EXPECT_THAT(loops(plain, stored("kernel %w kernel %o")), testing::HasSubstr(least_normal));
  EXPECT_THAT(loops(plain, stored("kernel %m kernel %t kernel %o")),
              testing::Not(testing::HasSubstr(least_normal)));
  // Who reads the weights otherwise gets them as they are.
  EXPECT_THAT(loops(weights_times_values("", ", w = %w"), stored("kernel %w kernel %o")),
              testing::Not(testing::HasSubstr(least_normal)));
  const Module logarithm = weights_times_values("  %l = log %w\n", ", l = %l");
  EXPECT_THAT(loops(logarithm, stored("kernel %w kernel %o kernel %l")),
              testing::Not(testing::HasSubstr(least_normal)));
}

// What the sum is multiplied by may have been a factor of its terms.
TEST(SubnormalFactors, StayWhereTheSumIsScaled) {
  const Module scaled = parse_module(R"(
fn @main(%s: f32[6, 40], %v: f32[40, 24], %r: f32[6]) {
  %p = exp %s
  %pv = view %p [m: 6, c: 24, n: 40] -> [m, n]
  %vv = view %v [m: 6, c: 24, n: 40] -> [n, c]
  %x = mul %pv, %vv
  %f = fold [m: 6, c: 24, n: 40] over [n] { sum %x[m, c, n] }
  %t = get %f, 0
  %u = add %t, %t
  %rv = view %r [m: 6, c: 24] -> [m]
  %o = mul %u, %rv
  return o = %o
})");
  EXPECT_THAT(loops(scaled, stored("kernel %p kernel %o")), testing::Not(testing::HasSubstr(least_normal)));
}

TEST(SubnormalFactors, AreWithinTheBoundOfTheInterpreter) {
  for (const float scale : {1.f, 1e12f, 1e25f, 1e37f}) {
    SCOPED_TRACE(scale);
    const Module plain = weights_times_values("", "");
    const Bindings bindings = steep(scale);
    expect_equal(plain, bindings, {});
    expect_equal(plain, bindings, stored("kernel %w kernel %o"));
    const Module logarithm = weights_times_values("  %l = log %w\n", ", l = %l");
    expect_equal(logarithm, bindings, {});
    expect_equal(logarithm, bindings, stored("kernel %w kernel %o kernel %l"));
  }
}

} // namespace
} // namespace luminal
