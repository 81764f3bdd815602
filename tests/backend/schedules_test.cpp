// backend/schedules_test.cpp -- the first seeds of changed schedules (tests/slow has thousands), and odd sums on dot instructions.
#include "changed_schedules.h"

namespace luminal::kernel {
namespace {

TEST(ChangedSchedules, ProductsWithStoredWeights) {
  check_changes(rows_term, 1, 12, {DirectiveKind::operand, DirectiveKind::from, DirectiveKind::serial});
}
TEST(ChangedSchedules, ProductsOfNarrowNumbers) { check_changes(narrow_term, 1, 12, {DirectiveKind::stage}); }
/// A sum begins from the products that fill no word of the instruction: what stands beside them in memory, infinities too, is no part of it.
TEST(NarrowProducts, OddSumsTakeDotInstructions) {
  const codegen::CpuTarget& host = codegen::CpuTarget::host();
  MachineLimits limits{
      .lanes = std::max(4, host.vector_bits / 32), .l2 = 4096, .threads = 2, .units = host.dot_units()};
  for (const bool bytes : {false, true})
    for (const bool beside : {false, true})
      for (const int64_t k : {65, 66, 67}) {
        const std::string term = narrow_product(3, 17, 33, k, bytes, beside);
        const Module module = parse_module(term, "narrow");
        auto cone = cone_of(module.entry(), false);
        ASSERT_TRUE(cone.ok()) << cone.error();
        const auto [schedule, kernel, decisions] = default_kernel(*cone, limits);
        ASSERT_TRUE(kernel) << kernel.error();
        SCOPED_TRACE(term + to_string(schedule));
        if (std::ranges::count(limits.units, bytes ? "vnni.dpbusd" : "avx512.dpbf16")) {
          EXPECT_THAT(to_string(schedule), testing::HasSubstr("unit f "));
        }
        expect_right(module, *cone, *kernel, host, {}, uint64_t(k));
        if (bytes) continue;
        Bindings inputs = random_bindings(module.entry(), GoldenCase{"narrow", {}, false, 0, {}}, 1);
        HostTensor& a = inputs.inputs.at("A");
        for (const int64_t row : {1, 30}) // the first of the row behind
          store_f64(DType::bf16, a.data.data(), row * k, std::numeric_limits<double>::infinity());
        test::Arguments args = arguments_of(module.entry(), *cone, *kernel, inputs);
        test::Program(*kernel, host).run(args, 1);
        for (int64_t i = 0; i < 3 * 17 * 33; i++)
          EXPECT_EQ(std::isfinite(load_f64(DType::f32, args.data.at("y").data(), i)),
                    i / 33 != 1 && i / 33 != 30)
              << i;
      }
}
TEST(ChangedSchedules, Convolutions) { check_changes(convolution_term, 1, 10, {DirectiveKind::frame}); }
TEST(ChangedSchedules, Depthwise) { check_changes(depthwise_term, 1, 20, {DirectiveKind::vector}); }
TEST(ChangedSchedules, Softmax) { check_changes(softmax_term, 1, 8, {DirectiveKind::at}); }

} // namespace
} // namespace luminal::kernel
