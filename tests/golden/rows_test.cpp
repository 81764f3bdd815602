// golden/rows_test.cpp -- products over a dynamic number of rows: one default schedule for all lengths, with register tiles and cache blocks; a row
// has the same bits whatever stands beside it.
#include "golden/golden_support.h"

namespace luminal::kernel {
namespace {

using testing::HasSubstr;

const char* const linear_term = R"(symbol M: 1..256
fn @linear(%x: f32[M, 80], %w: bf16[24, 80]) {
  %wf = cast f32 %w
  %a = view %x [m: M, n: 24, k: 80] -> [m, k]
  %b = view %wf [m: M, n: 24, k: 80] -> [n, k]
  %ab = mul %a, %b
  %f = fold [m: M, n: 24, k: 80] over [k] { sum %ab[m, n, k] }
  %y = get %f, 0
  return y = %y
}
)";

// Two products of one operand meet in a map: one nest with both sums.
const char* const gated_term = R"(symbol M: 1..256
fn @gated(%x: f32[M, 80], %g: bf16[24, 80], %u: bf16[24, 80]) {
  %gf = cast f32 %g
  %uf = cast f32 %u
  %a = view %x [m: M, n: 24, k: 80] -> [m, k]
  %gb = view %gf [m: M, n: 24, k: 80] -> [n, k]
  %ub = view %uf [m: M, n: 24, k: 80] -> [n, k]
  %ag = mul %a, %gb
  %au = mul %a, %ub
  %f = fold [m: M, n: 24, k: 80] over [k] { sum %ag[m, n, k] }
  %h = fold [m: M, n: 24, p: 80] over [p] { sum %au[m, n, p] }
  %gate = get %f, 0
  %up = get %h, 0
  %s = silu %gate
  %y = mul %s, %up
  return y = %y
}
)";

struct Machine {
  std::string name;
  MachineLimits limits;
  std::string linear, gated; // parts of the schedules
};

const Machine machines[] = {
    {"avx512",
     {.lanes = 16, .vector_registers = 32},
     "order f n.o m.o k.o k.i n.i m.i", // the tile: 4 rows of x times 4 of w, or 2 of each of two
     "order f n.o m.o k.o k.i n.i m.i"},
    {"avx2", {.lanes = 8, .vector_registers = 16}, "unroll f n.i m.i", "unroll f n.i m.i"},
    // A second cache that holds 16 rows of x: blocks of rows, all of w passes by each of them.
    {"small_cache",
     {.lanes = 16, .vector_registers = 32, .l1 = 4096, .l2 = 16 * 80 * 4 * 2},
     "order f m.o n.o m.i.o k.o k.i n.i m.i.i",
     "order f m.o n.o m.i.o k.o k.i n.i m.i.i"},
    // A matrix that no cache holds: the rows of a tile are far apart.
    {"streams",
     {.lanes = 16, .vector_registers = 32, .l1 = 512, .l2 = 3600},
     "unroll f n.o m.i",
     "unroll f n.o m.i"},
};

void expect_rows(const std::string& term, const Machine& machine, const std::string& part) {
  Module module = parse_module(term, "rows");
  ASSERT_THAT(verify(module), testing::IsEmpty());
  const Function& function = module.entry();
  auto cone = cone_of(function, false);
  ASSERT_TRUE(cone.ok()) << cone.error();
  auto [schedule, kernel, decisions] = default_kernel(*cone, machine.limits);
  ASSERT_TRUE(kernel.ok()) << kernel.error();
  EXPECT_THAT(to_string(schedule), HasSubstr(part));
  ASSERT_THAT(verify(*kernel), testing::IsEmpty()) << to_string(*kernel);
  EXPECT_LE(register_pressure(*kernel, machine.limits.lanes).accumulators,
            machine.limits.vector_registers / 2)
      << to_string(*kernel);

  std::vector<std::byte> last_row; // of the shortest run
  for (int64_t rows : {1, 2, 7, 64, 65, 200}) {
    GoldenCase c{"rows", {{"M", rows}}};
    Bindings bindings = random_bindings(function, c, 1);
    // The first row of every length is the same.
    HostTensor& x = bindings.inputs["x"];
    for (int64_t k = 0; k < 80; k++) store_f64(x.dtype, x.data.data(), k, 0.01 * double(k * 37 % 101) - 0.5);
    auto want = Interpreter(module, bindings).run();
    KernelRun got =
        run_cone(function, *cone, *kernel, bindings, adversarial(uint64_t(rows), 1 + int(rows % 3)));
    ASSERT_TRUE(got.run.ok()) << got.run.text();
    const auto& bytes = got.results.at("y");
    EXPECT_LE(difference(DType::f32, bytes, want.at("y")), 2e-6) << rows << " rows";
    std::vector<std::byte> first(bytes.begin(), bytes.begin() + 24 * 4);
    if (last_row.empty()) last_row = first;
    EXPECT_EQ(first, last_row) << "the bits of a row depend on the number of rows: " << rows;
  }
}

/// The default kernel of a term without dimensions equals the interpreter; its schedule has these parts.
void expect_schedule(const std::string& term, const MachineLimits& limits,
                     const std::vector<std::string>& parts) {
  Module module = parse_module(term, "fixed");
  ASSERT_THAT(verify(module), testing::IsEmpty());
  auto cone = cone_of(module.entry(), false);
  ASSERT_TRUE(cone.ok()) << cone.error();
  auto [schedule, kernel, decisions] = default_kernel(*cone, limits);
  ASSERT_TRUE(kernel.ok()) << kernel.error();
  for (auto& part : parts) EXPECT_THAT(to_string(schedule), HasSubstr(part));
  Bindings bindings = random_bindings(module.entry(), {"fixed", {}}, 3);
  KernelRun got = run_cone(module.entry(), *cone, *kernel, bindings, adversarial(3, 2));
  ASSERT_TRUE(got.run.ok()) << got.run.text();
  EXPECT_LE(difference(DType::f32, got.results.at("y"), Interpreter(module, bindings).run().at("y")), 2e-6);
}

const char* const vector_term = R"(fn @vector(%x: f32[160], %w: bf16[24, 160]) {
  %wf = cast f32 %w
  %a = view %x [n: 24, k: 160] -> [k]
  %ab = mul %a, %wf
  %f = fold [n: 24, k: 160] over [k] { sum %ab[n, k] }
  %y = get %f, 0
  return y = %y
}
)";

// A matrix that no cache holds passes by once: row after row, or as many rows together as a long vector asks for.
TEST(Streams, RowsShareWhatTheFirstCacheDoesNotHold) {
  MachineLimits limits{.lanes = 16, .vector_registers = 32, .l1 = 512, .l2 = 4096};
  expect_schedule(vector_term, limits, {"split f n n.o n.i 3", "unroll f n.o"}); // 8 rows, far apart
  limits.l1 = 4096;
  expect_schedule(vector_term, limits, {"split f k.o k.o.o k.o.i 8", "unroll f k.o.i", "parallel f n\n"});
}

// What no cache holds is written past them; while stages walk a row, the next ones are on their way.
TEST(Streams, OutputsPastTheCachesAndRowsAhead) {
  MachineLimits limits{.lanes = 16, .vector_registers = 32, .l1 = 1024, .l2 = 2560, .l3 = 4096};
  const char* const softmax = R"(fn @softmax(%x: f32[18, 70]) {
  %fm = fold [i: 18, k: 70] over [k] { max %x[i, k] }
  %m = get %fm, 0
  %mb = view %m [i: 18, k: 70] -> [i]
  %d = sub %x, %mb
  %e = exp %d
  %fs = fold [i: 18, k: 70] over [k] { sum %e[i, k] }
  %s = get %fs, 0
  %sb = view %s [i: 18, k: 70] -> [i]
  %y = div %e, %sb
  return y = %y
}
)";
  expect_schedule(softmax, limits, {"prefetch e.row x i k_2.o 2", "prefetch fm x i k.o 1", "stream y\n"});
  limits.l3 = 1 << 20;
  Module module = parse_module(softmax, "softmax");
  auto cone = cone_of(module.entry(), false);
  ASSERT_TRUE(cone.ok());
  EXPECT_THAT(to_string(default_schedule(*cone, limits)), testing::Not(HasSubstr("stream")));
}

// Heads side by side in memory are joined by the index: k // 32 % 4 comes round after 128 steps, not after 4.
TEST(Streams, BlocksOfQuotientsKeepTheLanes) {
  expect_schedule(
      R"(fn @heads(%x: f32[2, 8, 4, 32], %w: f32[24, 256]) {
  %a = view %x [m: 8, n: 24, k: 256] -> [k // 128, m, k // 32 % 4, k % 32]
  %b = view %w [m: 8, n: 24, k: 256] -> [n, k]
  %ab = mul %a, %b
  %f = fold [m: 8, n: 24, k: 256] over [k] { sum %ab[m, n, k] }
  %y = get %f, 0
  return y = %y
}
)",
      {.lanes = 16, .vector_registers = 32},
      {"split f k k.o k.i 128", "split f k.i k.i.o k.i.i 32", "split f k.i.i k.i.i.o k.i.i.i 16"});
}

class Rows : public testing::TestWithParam<Machine> {};

TEST_P(Rows, LinearLayer) { expect_rows(linear_term, GetParam(), GetParam().linear); }
TEST_P(Rows, GatedLayer) { expect_rows(gated_term, GetParam(), GetParam().gated); }

INSTANTIATE_TEST_SUITE_P(Machines, Rows, testing::ValuesIn(machines),
                         [](auto& info) { return info.param.name; });

} // namespace
} // namespace luminal::kernel
