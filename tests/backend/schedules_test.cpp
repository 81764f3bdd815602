// backend/schedules_test.cpp -- the first seeds of changed schedules (tests/slow has thousands),
// and odd sums on dot instructions.
#include "changed_schedules.h"

namespace luminal::kernel {
namespace {

TEST(ChangedSchedules, ProductsWithStoredWeights) {
  check_changes(rows_term, 1, 20, {DirectiveKind::operand, DirectiveKind::from, DirectiveKind::serial});
}
TEST(ChangedSchedules, ProductsOfNarrowNumbers) {
  check_changes(narrow_term, 1, 20, {DirectiveKind::stage, DirectiveKind::split_at});
}
TEST(ChangedSchedules, HiddenWeights) {
  check_changes(weights_term, 1, 20, {DirectiveKind::predicate_bound, DirectiveKind::predicate_split});
}
/// A sum begins from the products that fill no word of the instruction: what stands beside them in
/// memory, infinities too, is not part of it.
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
/// While one batch is multiplied the rows of a later one are asked for, also of what is put
/// together in words before that.
TEST(NarrowProducts, BatchesAreAskedForWhileOthersAreMultiplied) {
  const Module module = parse_module(narrow_product(1000, 17, 33, 65, false, false), "narrow");
  auto cone = cone_of(module.entry(), false);
  ASSERT_TRUE(cone.ok()) << cone.error();
  const auto [schedule, kernel, decisions] = default_kernel(*cone, {.units = {"avx512.dpbf16"}});
  ASSERT_TRUE(kernel) << kernel.error();
  EXPECT_THAT(to_string(schedule), testing::HasSubstr("prefetch f.words B t k.words.i 2\n"));
  EXPECT_THAT(to_string(schedule), testing::HasSubstr("prefetch f A t k.words.i 2\n"));
}
/// Maps of functions with long chains go several vectors at once, where few lanes remain empty.
TEST(Maps, LongChainsTakeSeveralVectorsAtOnce) {
  const codegen::CpuTarget& host = codegen::CpuTarget::host();
  const auto lanes_of = [&](const std::string& op, int64_t columns, const MachineLimits& limits) {
    const std::string term =
        fmt::format("fn @main(%x: f32[5, {0}]) {{\n  %y = {1} %x\n  return y = %y\n}}\n", columns, op);
    const Module module = parse_module(term, "map");
    auto cone = cone_of(module.entry(), false);
    EXPECT_TRUE(cone.ok()) << cone.error();
    const auto [schedule, kernel, decisions] = default_kernel(*cone, limits);
    EXPECT_TRUE(kernel) << kernel.error();
    SCOPED_TRACE(term + to_string(schedule));
    expect_right(module, *cone, *kernel, host, {}, uint64_t(columns));
    const std::string text = to_string(*kernel);
    const size_t at = text.find("vector ");
    return std::stoll(text.substr(text.find("..", at) + 2));
  };
  const MachineLimits wide{.lanes = 16}, few_registers{.lanes = 8, .vector_registers = 16};
  EXPECT_EQ(lanes_of("exp", 256, wide), 64);
  EXPECT_EQ(lanes_of("exp", 131, wide), 32);
  EXPECT_EQ(lanes_of("exp", 1027, wide), 64);
  EXPECT_EQ(lanes_of("exp", 35, wide), 16);
  EXPECT_EQ(lanes_of("abs", 256, wide), 16);
  EXPECT_EQ(lanes_of("exp", 256, few_registers), 8);
}

/// Lanes that lie in several lines are asked for line by line.
TEST(Maps, RowsAreAskedForLineByLine) {
  const Module module = parse_module("fn @main(%x: f32[4000, 2048]) {\n"
                                     "  %f = fold [i0: 4000, i1: 2048] over [i1] { sum %x[i0, i1] }\n"
                                     "  %s = get %f, 0\n"
                                     "  %b = view %s [i0: 4000, i1: 2048] -> [i0]\n"
                                     "  %e = exp %x\n  %y = mul %e, %b\n  return y = %y\n}\n",
                                     "rows");
  auto cone = cone_of(module.entry(), false);
  ASSERT_TRUE(cone.ok()) << cone.error();
  const auto [schedule, kernel, decisions] = default_kernel(*cone, {});
  ASSERT_TRUE(kernel) << kernel.error();
  std::string text = to_string(*kernel);
  text = text.substr(text.rfind("\n    for "));
  EXPECT_EQ(count_of(text, "prefetch "), 4) << text;
}
TEST(ChangedSchedules, Convolutions) { check_changes(convolution_term, 1, 10, {DirectiveKind::padded_copy}); }
TEST(ChangedSchedules, Depthwise) { check_changes(depthwise_term, 1, 20, {DirectiveKind::vector}); }
TEST(ChangedSchedules, Spreads) { check_changes(spread_term, 1, 12, {DirectiveKind::vector}); }
TEST(ChangedSchedules, Softmax) { check_changes(softmax_term, 1, 8, {DirectiveKind::at}); }

} // namespace
} // namespace luminal::kernel
