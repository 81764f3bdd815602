// backend/random_test.cpp -- four hundred random kernels (tests/slow runs thousands).
#include "random_kernels.h"

namespace luminal {
namespace {
using test::check_seeds;

/// max(|x|, 0) and its kin: comparisons of absolute values with zero, which LLVM joins with tests
/// for NaN.
TEST(RandomKernels, AbsoluteValuesAndZero) {
  check_seeds(1773, 1);
  check_seeds(900480, 1); // -0 or 0
  const kernel::Kernel kernel = test::checked(R"(
kernel absolute(x: f32[16] in, y: f32[96] out)
  vector l in 0..16
    y[l] = max(abs(x[l]), 0)
    y[l + 16] = max(0, abs(x[l]))
    y[l + 32] = min(abs(x[l]), 0)
    y[l + 48] = select(is_nan(x[l]), 1, select(0 < abs(x[l]), 1, 0))
    y[l + 64] = max(x[l], 2)
    y[l + 80] = min(-1, x[l])
)");
  std::vector<float> x{-2,     -0.f, 0, 3, NAN, -INFINITY, INFINITY, -1e-40f,
                       1e-40f, -1,   1, 2, 5,   -5,        0.5f,     -0.5f};
  for (const codegen::CpuTarget& target : test::runnable_targets()) {
    test::Program program(kernel, target);
    test::Arguments args;
    args.set("x", x).space("y", 96 * 4);
    const test::Arguments expected = test::interpret(kernel, args);
    program.run(args);
    EXPECT_TRUE(test::close(DType::f32, args.data.at("y"), expected.data.at("y"))) << target.cpu;
  }
}

// In parts, so that they run side by side.
TEST(RandomKernels, Seeds0To100) { check_seeds(0, 100); }
TEST(RandomKernels, Seeds100To200) { check_seeds(100, 100); }
TEST(RandomKernels, Seeds200To300) { check_seeds(200, 100); }
TEST(RandomKernels, Seeds300To400) { check_seeds(300, 100); }

} // namespace
} // namespace luminal
