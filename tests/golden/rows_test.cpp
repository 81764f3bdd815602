// golden/rows_test.cpp -- products over a dynamic number of rows: one default schedule for all
// lengths, with register tiles and cache blocks; a row has the same bits whatever stands beside it.
#include "golden/golden_support.h"
#include <fmt/format.h>

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

/// Two products of one operand meet in a map: one nest with both sums. The second weight is bf16,
/// the first of this type.
std::string gated_term(int64_t rows, int64_t n, int64_t k, const char* first) {
  const bool narrow = first == std::string("bf16");
  return fmt::format(R"(symbol M: 1..{rows}
fn @gated(%x: f32[M, {k}], %g: {first}[{n}, {k}], %u: bf16[{n}, {k}]) {{
{cast}  %uf = cast f32 %u
  %a = view %x [m: M, n: {n}, k: {k}] -> [m, k]
  %gb = view %{g} [m: M, n: {n}, k: {k}] -> [n, k]
  %ub = view %uf [m: M, n: {n}, k: {k}] -> [n, k]
  %ag = mul %a, %gb
  %au = mul %a, %ub
  %f = fold [m: M, n: {n}, k: {k}] over [k] {{ sum %ag[m, n, k] }}
  %h = fold [m: M, n: {n}, p: {k}] over [p] {{ sum %au[m, n, p] }}
  %gate = get %f, 0
  %up = get %h, 0
  %s = silu %gate
  %y = mul %s, %up
  return y = %y
}}
)",
                     fmt::arg("rows", rows), fmt::arg("n", n), fmt::arg("k", k), fmt::arg("first", first),
                     fmt::arg("cast", narrow ? "  %gf = cast f32 %g\n" : ""),
                     fmt::arg("g", narrow ? "gf" : "g"));
}

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
    // A matrix that no cache holds: short rows that follow each other in memory are one run.
    {"streams",
     {.lanes = 16, .vector_registers = 32, .l1 = 512, .l2 = 3600},
     "order f m.o n.o k.o k.i n.i m.i",
     "order f m.o n.o k.o k.i n.i m.i"},
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

/// The default kernel of a term without dimensions equals the interpreter; its schedule has these
/// parts.
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

std::string vector_term(int rows, const char* type) {
  return fmt::format(R"(fn @vector(%x: f32[160], %w: {1}[{0}, 160]) {{
  %wf = cast f32 %w
  %a = view %x [n: {0}, k: 160] -> [k]
  %ab = mul %a, %wf
  %f = fold [n: {0}, k: 160] over [k] {{ sum %ab[n, k] }}
  %y = get %f, 0
  return y = %y
}}
)",
                     rows, type);
}

// A matrix that no cache holds passes by once: as many rows together, far apart, as make the vector
// half of the bytes, or a quarter where it is long.
TEST(Streams, RowsShareTheVector) {
  MachineLimits limits{.lanes = 16, .vector_registers = 32, .l1 = 512, .l2 = 4096};
  expect_schedule(vector_term(24, "bf16"), limits, {"split f n n.o n.i 3", "unroll f n.o"});
  limits.l1 = 4096;
  expect_schedule(vector_term(24, "bf16"), limits,
                  {"split f n n.o n.i 6", "split f k.o k.o.o k.o.i 2", "unroll f n.o k.o.i"});
  expect_schedule(vector_term(24, "f64"), limits, {"split f k.o k.o.o k.o.i 8", "unroll f k.o.i\n"});
  // Rows beside each other would be as many streams of one row each: those that do not divide pass
  // by one after the other.
  expect_schedule(vector_term(26, "bf16"), limits, {"split f n n.o n.i 13", "unroll f n.o k.o.i"});
  expect_schedule(vector_term(25, "bf16"), limits, {"split f k.o k.o.o k.o.i 8", "parallel f n\n"});
}

// What no cache holds is written past them; while stages walk a row, the next ones are on their
// way.
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
  // What one stage alone reads waits for the others too.
  const char* const gated = R"(fn @gated(%x: f32[18, 70], %g: f32[18, 70]) {
  %q = mul %x, %x
  %f = fold [i: 18, k: 70] over [k] { sum %q[i, k] }
  %s = get %f, 0
  %sb = view %s [i: 18, k: 70] -> [i]
  %d = div %x, %sb
  %y = mul %d, %g
  return y = %y
}
)";
  expect_schedule(gated, limits, {" x i k_2.o 2", " g i k_2.o 1", "prefetch f x i k.o 1"});
  limits.l3 = 1 << 20;
  Module module = parse_module(softmax, "softmax");
  auto cone = cone_of(module.entry(), false);
  ASSERT_TRUE(cone.ok());
  EXPECT_THAT(to_string(default_schedule(*cone, limits)), testing::Not(HasSubstr("stream")));
}

// Lanes that are rows of a weight beside each other: two kilobytes of it are prefetched, where the
// second cache does not hold it.
TEST(Streams, WeightsAreAskedForTwoKilobytesAhead) {
  const char* const beside = R"(fn @beside(%x: f32[80], %w: f32[6, 80, 16]) {
  %w0 = view %w [t: 6, b: 40, l: 16] -> [t, b*2, l]
  %w1 = view %w [t: 6, b: 40, l: 16] -> [t, b*2 + 1, l]
  %x0 = view %x [t: 6, b: 40, l: 16] -> [b*2]
  %x1 = view %x [t: 6, b: 40, l: 16] -> [b*2 + 1]
  %p = mul %w0, %x0
  %q = mul %w1, %x1
  %s = add %p, %q
  %f = fold [t: 6, b: 40, l: 16] over [b] { sum %s[t, b, l] }
  %y = get %f, 0
  return y = %y
}
)";
  MachineLimits limits{.lanes = 16, .vector_registers = 32, .l1 = 1024, .l2 = 4096};
  expect_schedule(beside, limits, {"prefetch f w b b 16"});
}

// One row uses each weight once: with one worker the sum goes forward and backward by turns between
// two halves of the weight, two kilobytes of each at a time. More rows share what they read, and
// several workers have several places anyway.
TEST(Streams, OneRowReadsTwoPlacesByTurns) {
  const char* const beside = R"(symbol M: 1..256
fn @beside(%x: f32[M, 80], %w: f32[8, 80, 16]) {
  %w0 = view %w [m: M, t: 8, b: 40, l: 16] -> [t, b*2, l]
  %w1 = view %w [m: M, t: 8, b: 40, l: 16] -> [t, b*2 + 1, l]
  %x0 = view %x [m: M, t: 8, b: 40, l: 16] -> [m, b*2]
  %x1 = view %x [m: M, t: 8, b: 40, l: 16] -> [m, b*2 + 1]
  %p = mul %w0, %x0
  %q = mul %w1, %x1
  %s = add %p, %q
  %f = fold [m: M, t: 8, b: 40, l: 16] over [b] { sum %s[m, t, b, l] }
  %y = get %f, 0
  return y = %y
}
)";
  const MachineLimits limits{.lanes = 16, .vector_registers = 32, .l1 = 1024, .l2 = 4096};
  expect_rows(beside, {"one_worker", limits, "", ""}, "order f t.i m b.o t.o b.i l\n");
  MachineLimits two = limits;
  two.threads = 2;
  Module module = parse_module(beside, "beside");
  auto cone = cone_of(module.entry(), false);
  ASSERT_TRUE(cone.ok());
  EXPECT_THAT(to_string(default_schedule(*cone, limits)), HasSubstr("\nfrom m 2\n"));
  EXPECT_THAT(to_string(default_schedule(*cone, two)), testing::Not(HasSubstr("from")));
}

// Weights that lie along the sum, and that the second cache does not hold: panels are made one by one, while
// the tiles of the one before ask for what becomes the next.
TEST(Panels, OfWeightsAreMadeOneByOne) {
  const auto term = [](int columns, int deep, bool gated) {
    const std::string shape = fmt::format("[m: 50, n: {}, k: {}]", columns, deep);
    const auto product = [&](const std::string& w) {
      return fmt::format("  %x{0} = view %x {1} -> [m, k]\n  %v{0} = view %{0} {1} -> [n, k]\n"
                         "  %p{0} = mul %x{0}, %v{0}\n  %f{0} = fold {1} over [k] {{ sum %p{0}[m, n, k] }}\n"
                         "  %s{0} = get %f{0}, 0\n",
                         w, shape);
    };
    return fmt::format("fn @rows(%x: f32[50, {1}], %w: f32[{0}, {1}], %u: f32[{0}, {1}]) {{\n", columns,
                       deep) +
           product("w") + (gated ? product("u") + "  %y = mul %sw, %su\n" : "  %y = neg %sw\n") +
           "  return y = %y\n}\n";
  };
  MachineLimits limits{.lanes = 16, .vector_registers = 32, .full_rate = true, .l1 = 4096, .l2 = 160 << 10};
  for (const int threads : {1, 2}) {
    limits.threads = threads;
    // The whole sum in one panel, and in two, after each other and with a last one that is not full.
    expect_schedule(term(520, 80, false), limits,
                    {"order fw.panels n.c n.p k.c", "prefetch fw.panels w n.p m.t k.i 1"});
    expect_schedule(term(384, 80, true), limits,
                    {"prefetch fw.panels w n.p m.t k.i 1", "prefetch fu.panels u n.p m.t k_2.i 1"});
    expect_schedule(term(384, 160, false), limits,
                    {"order fw.panels n.c k.c n.p", "prefetch fw.panels w n.p m.t k.i 1"});
    expect_schedule(term(384, 160, true), limits,
                    {"order fu.panels n.c k_2.c n.p", "prefetch fu.panels u n.p m.t k_2.i 1"});
  }
}

// The gradient of a convolution's weights where channels are contiguous in the image and in the
// result: lanes go along them, rows of the other operand share the windows.
TEST(Panels, WindowsOfContiguousChannelsNeedNone) {
  const std::string space = "[o: 18, i: 32, y: 3, z: 3, n: 2, h: 12, w: 13]";
  const std::string term = fmt::format(R"(fn @weights(%g: f32[2, 18, 12, 13], %x: f32[2, 12, 13, 32]) {{
  %a = view %g {0} -> [n, o, h, w]
  %b = view %x {0} -> [n, y + h - 1, z + w - 1, i]
    where y + h >= 1 and y + h < 13 and z + w >= 1 and z + w < 14
  %p = mul %a, %b
  %f = fold {0} over [n, h, w] {{ sum %p[o, i, y, z, n, h, w] }}
  %d = get %f, 0
  %t = view %d [o: 18, y: 3, z: 3, i: 32] -> [o, i, y, z]
  %y = neg %t
  return y = %y
}}
)",
                                       space);
  expect_schedule(term, {.lanes = 16, .vector_registers = 32}, {"i.v i.l\nvector f i.l\nunroll f o.i z i.v"});
}

// Scales before codes in one array: a few rows ask for the next blocks whole, and one row leaves
// reading at one place to the processor.
TEST(Streams, FieldsOfBlocksAreAskedForBlockByBlock) {
  const char* const fields = R"(symbol M: 1..256
fn @fields(%x: f32[M, 20, 4], %w: f32[8, 20, 80]) {
  %c = view %w [m: M, t: 8, b: 20, j: 4, l: 16] -> [t, b, 16 + 16*j + l]
  %s = view %w [m: M, t: 8, b: 20, j: 4, l: 16] -> [t, b, l]
  %v = view %x [m: M, t: 8, b: 20, j: 4, l: 16] -> [m, b, j]
  %p = mul %c, %v
  %q = mul %p, %s
  %f = fold [m: M, t: 8, b: 20, j: 4, l: 16] over [b, j] { sum %q[m, t, b, j, l] }
  %y = get %f, 0
  return y = %y
}
)";
  MachineLimits limits{.lanes = 16, .vector_registers = 32, .l1 = 1024, .l2 = 4096};
  for (const int threads : {1, 2}) {
    limits.threads = threads;
    Module module = parse_module(fields, "fields");
    auto cone = cone_of(module.entry(), false);
    ASSERT_TRUE(cone.ok());
    const std::string schedule = to_string(default_schedule(*cone, limits));
    const size_t rows = schedule.find("\nfrom m 2\n");
    ASSERT_NE(rows, std::string::npos) << schedule;
    EXPECT_EQ(schedule.substr(0, rows).find("prefetch"), std::string::npos) << schedule;
    EXPECT_NE(schedule.find("prefetch f w b j 6", rows), std::string::npos) << schedule;
  }
  expect_rows(fields, {"fields", limits, "", ""}, "prefetch f w b j 6\n");
}

// Scales before several blocks: a few rows ask for groups of blocks two pages ahead, one row leaves
// them to the processor.
TEST(Streams, GroupsOfBlocksAreAskedForAhead) {
  const auto term = [](int rows) {
    return fmt::format(R"(fn @groups(%x: f32[{0}, 12, 2, 4], %w: f32[8, 12, 144]) {{
  %c = view %w [m: {0}, t: 8, g: 12, b: 2, l: 16, j: 4] -> [t, g, 16 + 64*b + 16*j + l]
  %v = view %x [m: {0}, t: 8, g: 12, b: 2, l: 16, j: 4] -> [m, g, b, j]
  %p = mul %c, %v
  %f = fold [m: {0}, t: 8, g: 12, b: 2, l: 16, j: 4] over [j] {{ sum %p[m, t, g, b, l, j] }}
  %h = get %f, 0
  %s = view %w [m: {0}, t: 8, g: 12, b: 2, l: 16] -> [t, g, l]
  %q = mul %h, %s
  %k = fold [m: {0}, t: 8, g: 12, b: 2, l: 16] over [g, b] {{ sum %q[m, t, g, b, l] }}
  %y = get %k, 0
  return y = %y
}}
)",
                       rows);
  };
  const MachineLimits limits{.lanes = 16, .vector_registers = 32, .l1 = 1024, .l2 = 4096};
  expect_schedule(term(4), limits, {"prefetch f w g b 14\n", "at k b"});
  Module module = parse_module(term(1), "one");
  auto cone = cone_of(module.entry(), false);
  ASSERT_TRUE(cone.ok());
  EXPECT_THAT(to_string(default_schedule(*cone, limits)),
              testing::AllOf(HasSubstr("at k b"), testing::Not(HasSubstr("prefetch"))));
}

// All of a few rows in one tile beside panels that were made before: each passes by once, in one
// run.
TEST(Streams, FewRowsMeetEachPanelOnce) {
  for (auto [rows, columns, type] : {std::tuple(8, 32, "f32"), {4, 64, "f32"}, {32, 64, "bf16"}}) {
    const bool narrow = type == std::string("bf16");
    const std::string term = fmt::format(R"(fn @panels(%x: f32[{0}, 96], %w: {3}[{2}, 96, {1}]) {{
{4}  %a = view %x [m: {0}, n: 200, k: 96] -> [m, k]
  %b = view {5} [m: {0}, n: 200, k: 96] -> [n // {1}, k, n % {1}]
  %p = mul %a, %b
  %f = fold [m: {0}, n: 200, k: 96] over [k] {{ sum %p[m, n, k] }}
  %y = get %f, 0
  return y = %y
}}
)",
                                         rows, columns, (200 + columns - 1) / columns, type,
                                         narrow ? "  %wf = cast f32 %w\n" : "", narrow ? "%wf" : "%w");
    expect_schedule(term, {.lanes = 16, .vector_registers = 32, .l1 = 1024, .l2 = 16 << 10, .threads = 2},
                    {fmt::format("split f m.m m.t m.i {}\n", narrow ? 4 : rows), "unroll f m.i n.i.v\n"});
  }
}

// Vectors of a weight that the second cache would not hold along the whole sum: rows by the dozen
// go through a piece of it after the other, in the same order of the sum; few rows need no pieces.
TEST(Streams, ManyRowsGoThroughPiecesOfTheSum) {
  const auto term = [](int most) {
    return fmt::format(R"(symbol M: 1..{}
fn @beside(%x: f32[M, 80], %w: f32[8, 80, 16]) {{
  %a = view %x [m: M, t: 8, k: 80, l: 16] -> [m, k]
  %b = view %w [m: M, t: 8, k: 80, l: 16] -> [t, k, l]
  %p = mul %b, %a
  %f = fold [m: M, t: 8, k: 80, l: 16] over [k] {{ sum %p[m, t, k, l] }}
  %y = get %f, 0
  return y = %y
}}
)",
                       most);
  };
  const MachineLimits limits{.lanes = 16, .vector_registers = 32, .l1 = 4096, .l2 = 32 << 10, .threads = 2};
  expect_rows(term(256), {"pieces", limits, "", ""}, "order f t.o k.o m.o k.i l t.i m.i\n");
  Module module = parse_module(term(16), "beside");
  auto cone = cone_of(module.entry(), false);
  ASSERT_TRUE(cone.ok());
  EXPECT_THAT(to_string(default_schedule(*cone, limits)), testing::Not(HasSubstr("k.o")));
}

// Heads contiguous in memory are joined by the index: within the 128 steps of four of them it is one run.
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
      {"split f k k.o k.i 128", "split f k.i k.i.o k.i.i 16", "vector f k.i.i"});
}

// A map over 24 channels reads what 3 groups of them have in common: it runs over groups, too, beside
// their sums, and each group is one run of memory.
TEST(Streams, GroupsShareALoopWithTheirStatistics) {
  expect_schedule(
      R"(fn @groups(%x: f32[2, 24, 5, 12]) {
  %g = view %x [b: 2, g: 3, p: 480] -> [b, g * 8 + p // 60, p // 12 % 5, p % 12]
  %f = fold [b: 2, g: 3, p: 480] over [p] { sum %g[b, g, p] }
  %s = get %f, 0
  %t = view %s [b: 2, c: 24, i: 5, j: 12] -> [b, c // 8]
  %y = sub %x, %t
  return y = %y
}
)",
      {.lanes = 16, .vector_registers = 32},
      {"split f p p.o p.i 16", "merge y i j j", "merge y c_2 j j", "at y g"});
}

// The product of a value with itself: panels are made of one of the two factors.
TEST(Streams, AValueTimesItselfHasPanels) {
  expect_schedule(
      R"(fn @gram(%x: f32[2, 96, 64]) {
  %a = view %x [b: 2, m: 96, n: 96, k: 64] -> [b, m, k]
  %c = view %x [b: 2, m: 96, n: 96, k: 64] -> [b, n, k]
  %ac = mul %a, %c
  %f = fold [b: 2, m: 96, n: 96, k: 64] over [k] { sum %ac[b, m, n, k] }
  %y = get %f, 0
  return y = %y
}
)",
      {.lanes = 16, .vector_registers = 32}, {"operand f m x.panels", "store x.panels"});
}

class Rows : public testing::TestWithParam<Machine> {};

TEST_P(Rows, LinearLayer) { expect_rows(linear_term, GetParam(), GetParam().linear); }
TEST_P(Rows, GatedLayer) { expect_rows(gated_term(256, 24, 80, "bf16"), GetParam(), GetParam().gated); }

// ---- many rows: weights in panels ----

/// Rows of a weight that run along the sum, as they lie, as bf16, and in blocks with a scale for
/// each.
std::string wide_term(const std::string& weight) {
  const std::string plain = R"(
  %b = view %w [m: M, n: 200, k: 96] -> [n, k])",
                    narrow = R"(
  %wf = cast f32 %w
  %b = view %wf [m: M, n: 200, k: 96] -> [n, k])",
                    blocks = R"(
  %wf = cast f32 %w
  %sb = view %s [n: 200, b: 3, i: 32] -> [n, b]
  %ws = mul %wf, %sb
  %b = view %ws [m: M, n: 200, k: 96] -> [n, k // 32, k % 32])";
  const bool is_blocks = weight == "blocks";
  return "symbol M: 1..80\nfn @wide(%x: f32[M, 96], %w: " +
         std::string(is_blocks          ? "i8[200, 3, 32], %s: f32[200, 3]"
                     : weight == "bf16" ? "bf16[200, 96]"
                                        : "f32[200, 96]") +
         ") {\n  %a = view %x [m: M, n: 200, k: 96] -> [m, k]" +
         (is_blocks          ? blocks
          : weight == "bf16" ? narrow
                             : plain) +
         R"(
  %ab = mul %a, %b
  %f = fold [m: M, n: 200, k: 96] over [k] { sum %ab[m, n, k] }
  %y = get %f, 0
  return y = %y
}
)";
}

/// Few rows take the weights as they lie, many rows the panels; both are right. `parts`: of the
/// schedule.
void expect_panels(const std::string& term, const MachineLimits& limits,
                   const std::vector<std::string>& parts) {
  Module module = parse_module(term, "panels");
  ASSERT_THAT(verify(module), testing::IsEmpty());
  const Function& function = module.entry();
  auto cone = cone_of(function, false);
  ASSERT_TRUE(cone.ok()) << cone.error();
  auto [schedule, kernel, decisions] = default_kernel(*cone, limits);
  ASSERT_TRUE(kernel.ok()) << kernel.error();
  for (auto& part : parts) EXPECT_THAT(to_string(schedule), HasSubstr(part));
  EXPECT_EQ(parse_schedule(to_string(schedule)), schedule);
  ASSERT_THAT(verify(*kernel), testing::IsEmpty()) << to_string(*kernel);
  EXPECT_TRUE(same(parse_kernel(to_string(*kernel)), *kernel));
  EXPECT_LT(register_pressure(*kernel, limits.lanes).accumulators, limits.vector_registers);
  for (int64_t rows : {1, 31, 32, 33, 71}) {
    GoldenCase c{"panels", {{"M", rows}}, false, 2e-6, {{"w", {-100, 100}}}};
    Bindings bindings = random_bindings(function, c, 5);
    auto want = Interpreter(module, bindings).run();
    KernelRun got =
        run_cone(function, *cone, *kernel, bindings, adversarial(uint64_t(rows), 1 + int(rows % 3)));
    ASSERT_TRUE(got.run.ok()) << got.run.text();
    EXPECT_LE(difference(DType::f32, got.results.at("y"), want.at("y")), 2e-6) << rows << " rows";
  }
}

const MachineLimits wide_machine{.lanes = 16, .vector_registers = 32, .l2 = 64 << 10},
    narrow_machine{.lanes = 8, .vector_registers = 16, .l2 = 64 << 10, .threads = 2};

TEST(ManyRows, WeightsAreTurnedIntoPanels) {
  expect_panels(wide_term("f32"), wide_machine, {"from m 32", "stage w f.panels", "unroll f.panels k.u"});
  expect_panels(wide_term("f32"), narrow_machine, {"from m 32", "split f m.m m.t m.i 6"});
}
TEST(ManyRows, NarrowWeightsAreUnpackedOnce) {
  expect_panels(wide_term("bf16"), wide_machine, {"operand f m f.weight", "stage f.weight f.panels"});
  expect_panels(wide_term("blocks"), wide_machine,
                {"operand f m f.weight", "split f.weight k.j k.j.o k.j.i 32"});
  expect_panels(wide_term("blocks"), narrow_machine, {"operand f m f.weight"});
}
TEST(ManyRows, TwoProductsMeetInAMap) {
  expect_panels(gated_term(80, 200, 96, "f32"), wide_machine,
                {"from m 32", "operand h m h.weight", "at h.weight n.c", "at y n.c"});
}

// What lies in panels already, or with its columns side by side, is read as it lies.
TEST(ManyRows, PanelsAreNotMadeAgain) {
  for (const char* weight : {"f32[4, 96, 64]", "f32[96, 256]"}) {
    const bool panels = std::string(weight).find("64]") != std::string::npos;
    Module module = parse_module(std::string("fn @ready(%x: f32[64, 96], %w: ") + weight +
                                     ") {\n  %a = view %x [m: 64, n: 256, k: 96] -> [m, k]\n" +
                                     "  %b = view %w [m: 64, n: 256, k: 96] -> " +
                                     (panels ? "[n // 64, k, n % 64]" : "[k, n]") + R"(
  %ab = mul %a, %b
  %f = fold [m: 64, n: 256, k: 96] over [k] { sum %ab[m, n, k] }
  %y = get %f, 0
  return y = %y
}
)",
                                 "ready");
    auto cone = cone_of(module.entry(), false);
    ASSERT_TRUE(cone.ok()) << cone.error();
    const std::string schedule = to_string(default_schedule(*cone, wide_machine));
    EXPECT_THAT(schedule, testing::Not(HasSubstr("operand"))) << weight;
    EXPECT_THAT(schedule, testing::Not(HasSubstr("k.u"))) << weight;
  }
}

TEST(ManyRows, WhatVersionsAndOperandsCannotBe) {
  Module module = parse_module(wide_term("bf16"), "panels");
  auto cone = cone_of(module.entry(), false);
  ASSERT_TRUE(cone.ok()) << cone.error();
  const auto failure = [&](const char* schedule) {
    auto kernel = lower(*cone, parse_schedule(schedule));
    return kernel.ok() ? std::string() : kernel.error();
  };
  EXPECT_THAT(failure("from z 32\n"), HasSubstr("`from z 32`: there is no axis z"));
  EXPECT_THAT(failure("operand f k w2\n"), HasSubstr("both factors of stage f vary with k"));
  EXPECT_THAT(failure("operand f m w\n"), HasSubstr("the name w belongs to a value already"));
  EXPECT_THAT(failure("operand f m w2\noperand f m w3\noperand f z w4\n"), HasSubstr("there is no axis z"));
  EXPECT_EQ(failure("from m 1\n"), "");                // always
  EXPECT_EQ(failure("from m 1000\nvector f z\n"), ""); // never: what stands there is not looked at
  EXPECT_THAT(failure("from m 32\nvector f z\n"), HasSubstr("no loop z"));
}

// Neither split divides: a remainder of the rows ends with the inner split, too, and written-out
// trips beyond the end do nothing.
TEST(NestedSplits, EndWhereEachOfThemEnds) {
  Module module = parse_module(linear_term, "rows");
  const Function& function = module.entry();
  auto cone = cone_of(function, false);
  ASSERT_TRUE(cone.ok()) << cone.error();
  const std::string rows = "split f m m.o m.i 6\nsplit f m.i m.i.o m.i.i 4\n";
  for (const std::string& schedule :
       {rows + "order f m.o m.i.o k n m.i.i\nunroll f m.i.i n\nparallel f m.i.o\n",
        rows + "order f m.o m.i.o k n m.i.i\nunroll f m.i.o m.i.i\n",
        std::string(
            "split f n n.o n.i 5\nsplit f n.i n.t n.r 3\norder f m n.o n.t k n.r\nunroll f n.t n.r\n")}) {
    auto kernel = lower(*cone, parse_schedule(schedule));
    ASSERT_TRUE(kernel.ok()) << kernel.error();
    ASSERT_THAT(verify(*kernel), testing::IsEmpty()) << to_string(*kernel);
    for (int64_t m : {1, 5, 6, 7, 11, 94}) {
      Bindings bindings = random_bindings(function, {"rows", {{"M", m}}}, 1);
      KernelRun got = run_cone(function, *cone, *kernel, bindings, adversarial(1, 2));
      ASSERT_TRUE(got.run.ok()) << m << " rows\n" << got.run.text() << to_string(*kernel);
      EXPECT_LE(difference(DType::f32, got.results.at("y"), Interpreter(module, bindings).run().at("y")),
                2e-6);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Machines, Rows, testing::ValuesIn(machines),
                         [](auto& tested) { return tested.param.name; });

} // namespace
} // namespace luminal::kernel
