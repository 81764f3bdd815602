// backend/tiles_test.cpp -- products of bf16 numbers on units with tile registers: which take them, with
// results as the interpreter's, in the loop interpreter and where the processor has them in machine code.
#include "changed_schedules.h"

namespace luminal::kernel {
namespace {

struct Product {
  int64_t m = 64, n = 64, k = 64;
  bool weight_rows = false; ///< B[n, k], else B[k, n]
  bool maps = false;        ///< of the finished sums: y = abs(sum) + bias
  int64_t batches = 0;      ///< 0: none
  bool dynamic = false;     ///< m is a symbol
  DType dtype = DType::bf16;
};

std::string term_of_product(const Product& p) {
  const std::string batch = p.batches ? "t, " : "",
                    batch_size = p.batches ? fmt::format("{}, ", p.batches) : "";
  const std::string rows = p.dynamic ? "rows" : std::to_string(p.m);
  const std::string kept = fmt::format("[{}m: {}, n: {}]", p.batches ? fmt::format("t: {}, ", p.batches) : "",
                                       rows, p.n),
                    axes = kept.substr(0, kept.size() - 1) + fmt::format(", k: {}]", p.k);
  const std::string maps =
      p.maps ? fmt::format("  %h = abs %g\n  %b1 = view %bias {} -> [n]\n  %y = add %h, %b1\n", kept)
             : "  %y = abs %g\n";
  return fmt::format(
      "fn @product({symbols}%A: {type}[{batch_size}{rows}, {k}], %B: {type}[{batch_size}{b}], %bias: "
      "f32[{n}]) {{\n"
      "  %a = view %A {axes} -> [{batch}m, k]\n  %b = view %B {axes} -> [{batch}{bi}]\n"
      "  %c = cast f32 %a\n  %d = cast f32 %b\n  %p = mul %c, %d\n"
      "  %f = fold {axes} over [k] {{ sum %p[{batch}m, n, k] }}\n  %g = get %f, 0\n{maps}"
      "  return y = %y\n}}\n",
      fmt::arg("symbols", p.dynamic ? "rows: 1..4096; " : ""), fmt::arg("type", luminal::to_string(p.dtype)),
      fmt::arg("batch_size", batch_size), fmt::arg("rows", rows), fmt::arg("k", p.k), fmt::arg("n", p.n),
      fmt::arg("b", p.weight_rows ? fmt::format("{}, {}", p.n, p.k) : fmt::format("{}, {}", p.k, p.n)),
      fmt::arg("bi", p.weight_rows ? "n, k" : "k, n"), fmt::arg("axes", axes), fmt::arg("batch", batch),
      fmt::arg("maps", maps));
}

MachineLimits with_tiles(int threads) {
  return {.lanes = 16, .vector_registers = 32, .l2 = 64 << 10, .threads = threads, .units = {"amx.dpbf16"}};
}

/// The chosen schedule takes tiles or it does not; the results are right.
void check(const Product& p, bool taken, uint64_t seed) {
  const Module module = parse_module(term_of_product(p), "product");
  ASSERT_THAT(luminal::verify(module), testing::IsEmpty());
  auto cone = cone_of(module.entry(), false);
  ASSERT_TRUE(cone.ok()) << cone.error();
  const auto [schedule, kernel, decisions] = default_kernel(*cone, with_tiles(1 + int(seed % 2)));
  ASSERT_TRUE(kernel) << kernel.error();
  SCOPED_TRACE(term_of_product(p) + to_string(schedule));
  const std::string text = to_string(*kernel);
  EXPECT_EQ(text.find("unit amx.dpbf16 ") != std::string::npos, taken) << text;
  ASSERT_THAT(verify(*kernel), testing::IsEmpty()) << text;
  const GoldenCase about{"product", {}, false, 0, {}};
  const Bindings inputs = random_bindings(module.entry(), about, seed);
  const HostTensor want = Interpreter(module, inputs).run().at("y");
  const int workers = 1 + int(seed % 2);
  const KernelRun got = run_cone(module.entry(), *cone, *kernel, inputs, adversarial(seed, workers));
  ASSERT_TRUE(got.run.ok()) << got.run.text();
  EXPECT_LE(difference(DType::f32, got.results.at("y"), want), 3e-6);
  const codegen::CpuTarget& host = codegen::CpuTarget::host();
  if (!host.bf16_tiles) return;
  test::Arguments args = arguments_of(module.entry(), *cone, *kernel, inputs);
  test::Program(*kernel, host).run(args, workers);
  EXPECT_EQ(args.data.at("y"), got.results.at("y")) << "machine code has other bits";
}

TEST(TilesOfProducts, AreTakenWhereTwoByTwoAreFilled) {
  uint64_t seed = 1;
  for (const bool weight_rows : {false, true})
    for (const bool maps : {false, true})
      for (const Product& p : {Product{32, 32, 32}, Product{64, 64, 64}, Product{96, 160, 320}})
        check({p.m, p.n, p.k, weight_rows, maps}, true, ++seed);
}

TEST(TilesOfProducts, WhatFillsNoTileStaysWithTheLanes) {
  check({.m = 31}, false, 1);
  check({.n = 31}, false, 2);
  check({.k = 31}, false, 3);
  check({.batches = 2}, false, 4);
  check({.dtype = DType::f16}, false, 5);
  check({.m = 1, .n = 256, .k = 256}, false, 6);
}

/// Rows, columns and words beyond whole tiles.
TEST(TilesOfProducts, RemaindersAreDoneByTheLanes) {
  std::mt19937_64 random(11);
  for (uint64_t seed = 0; seed < 24; ++seed) {
    const auto in = [&](int64_t low, int64_t high) {
      return low + int64_t(random() % uint64_t(high - low + 1));
    };
    const Product p{in(32, 130), in(32, 130), in(32, 300), random() % 2 == 0, random() % 2 == 0};
    check(p, true, seed);
    if (testing::Test::HasFailure()) return;
  }
}

} // namespace
} // namespace luminal::kernel
