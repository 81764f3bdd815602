// backend/kernels_test.cpp -- hand-written loop IR as machine code: loops, tails, scratch,
// barriers, workers.
#include "support.h"

namespace luminal {
namespace {
using namespace luminal::test;

/// Ragged matrix product: B packed by all workers into shared panels, 16 columns at a time, tails
/// masked.
const char* matmul_text = R"(
kernel matmul(a: f32[m*k] in, b: f32[k*n] in, c: f32[m*n] out; k: 1..64, m: 1..64, n: 1..64)
  shared panel: f32[64*ceildiv(n, 16)*16] align 64 padded
  registers acc: f32[2*16] padded
  parallel pt in 0..ceildiv(n, 16)*k
    vector pj in 0..16 masked n - 16*(pt // k)
      panel[16*pt + pj] = b[n*(pt % k) + 16*(pt // k) + pj]
  barrier
  parallel it in 0..ceildiv(m, 2)
    for jt in 0..ceildiv(n, 16)
      unrolled iz in 0..2
        vector jz in 0..16
          acc[16*iz + jz] = 0
      for kk in 0..k jam 4
        unrolled iu in 0..2
          if 2*it + iu < m
            vector ju in 0..16 masked n - 16*jt
              acc[16*iu + ju] = fma(a[k*(2*it + iu) + kk], panel[16*(jt*k + kk) + ju], acc[16*iu + ju])
      unrolled iw in 0..2
        if 2*it + iw < m
          vector jw in 0..16 masked n - 16*jt
            c[n*(2*it + iw) + 16*jt + jw] = acc[16*iw + jw]
)";

TEST(Kernels, MatmulWithTailsEqualsTheInterpreter) {
  const kernel::Kernel kernel = checked(matmul_text);
  for (const codegen::CpuTarget& target : runnable_targets()) {
    Program program(kernel, target);
    for (auto [m, n, k] : {std::tuple{5, 37, 7}, {1, 1, 1}, {4, 16, 3}, {7, 33, 64}, {2, 64, 5}})
      for (int workers : {1, 2}) {
        Arguments args;
        args.set("a", random_floats(size_t(m) * k, 1))
            .set("b", random_floats(size_t(k) * n, 2))
            .space("c", size_t(m) * n * 4);
        args.symbol("m", m).symbol("n", n).symbol("k", k);
        Arguments expected = interpret(kernel, args, workers);
        program.run(args, workers);
        EXPECT_EQ(args.get<float>("c"), expected.get<float>("c"))
            << target.cpu << " " << m << "x" << n << "x" << k;
      }
  }
}

} // namespace
} // namespace luminal
