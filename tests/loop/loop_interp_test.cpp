// loop/loop_interp_test.cpp -- hand-written kernels: results, lanes, counts.
#include "loop_support.h"
#include <cmath>

namespace luminal::kernel {
namespace {

/// Ragged matrix product: workers distribute rows, B is packed by all of them into shared panels,
/// 16 columns at a time, tails masked.
const char* matmul_text = R"(
kernel matmul(a: f32[m*k] in, b: f32[k*n] in, c: f32[m*n] out; k: 1..64, m: 1..64, n: 1..64)
  # panels of 16 columns
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
      for kk in 0..k
        unrolled iu in 0..2
          if 2*it + iu < m
            vector ju in 0..16 masked n - 16*jt
              acc[16*iu + ju] = fma(a[k*(2*it + iu) + kk], panel[16*(jt*k + kk) + ju], acc[16*iu + ju])
      unrolled iw in 0..2
        if 2*it + iw < m
          vector jw in 0..16 masked n - 16*jt
            c[n*(2*it + iw) + 16*jt + jw] = acc[16*iw + jw]
)";

std::vector<float> naive_matmul(const std::vector<float>& a, const std::vector<float>& b, int m, int n,
                                int k) {
  std::vector<float> c(size_t(m) * n);
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j) {
      float sum = 0;
      for (int l = 0; l < k; ++l) sum = std::fmaf(a[i * k + l], b[l * n + j], sum);
      c[i * n + j] = sum;
    }
  return c;
}

Arguments matmul_arguments(int m, int n, int k) {
  Arguments args;
  args.set("a", random_floats(size_t(m) * k, 1))
      .set("b", random_floats(size_t(k) * n, 2))
      .space("c", size_t(m) * n * 4);
  args.symbol("m", m).symbol("n", n).symbol("k", k);
  return args;
}

TEST(LoopInterp, MatmulWithTailsIsExactForAnyWorkersAndSchedule) {
  const Kernel kernel = checked(matmul_text);
  for (const auto& [m, n, k] : {std::tuple{5, 37, 7}, {1, 1, 1}, {4, 16, 3}, {7, 33, 64}, {2, 64, 5}}) {
    Arguments args = matmul_arguments(m, n, k);
    const auto expected = naive_matmul(args.get<float>("a"), args.get<float>("b"), m, n, k);
    for (int workers = 1; workers <= 3; ++workers)
      for (uint64_t seed = 0; seed < 6; ++seed) {
        const LoopRun run = args.run(kernel, adversarial(seed, workers));
        ASSERT_TRUE(run.ok()) << m << "x" << n << "x" << k << " workers " << workers << " seed " << seed
                              << "\n"
                              << run.text();
        ASSERT_EQ(args.get<float>("c"), expected);
      }
  }
}

TEST(LoopInterp, CountsWorkAndBytes) {
  const Kernel kernel = checked(matmul_text);
  const int m = 5, n = 37, k = 7; // 3 row pairs, 3 panels
  Arguments args = matmul_arguments(m, n, k);
  LoopRunOptions options;
  options.workers = 2;
  const LoopRun run = args.run(kernel, options);
  ASSERT_TRUE(run.ok()) << run.text();
  // Dead lanes are work too: 48 columns.
  EXPECT_EQ(run.counts.fma, 5 * 48 * 7);
  EXPECT_EQ((run.counts.ops.at({Op::fma, DType::f32})), 5 * 48 * 7);
  EXPECT_EQ(run.counts.total_ops(), 5 * 48 * 7);
  EXPECT_EQ(run.counts.barriers, 2);
  EXPECT_EQ(run.counts.transcendental, 0);
  const auto traffic = [&](const char* name) {
    for (const BufferTraffic& t : run.counts.buffers)
      if (t.name == name) return t;
    return BufferTraffic{};
  };
  EXPECT_EQ(traffic("a").read, 4 * 5 * 7 * 3);
  EXPECT_EQ(traffic("a").read_distinct, 4 * 5 * 7);
  EXPECT_EQ(traffic("b").read, 4 * 37 * 7);
  EXPECT_EQ(traffic("c").written, 4 * 5 * 37);
  EXPECT_EQ(traffic("c").written_distinct, 4 * 5 * 37);
  EXPECT_EQ(traffic("c").read, 0);
  EXPECT_EQ(traffic("panel").read, 4 * 37 * 7 * 5);
  // pack: 3 panels * 7; rows: 3; jt 3 each; zero, k, unrolled, store
  EXPECT_EQ(run.counts.loop_trips, 21 + 3 + 9 + 9 * (2 + 7 + 7 * 2 + 2));
}

TEST(LoopInterp, MissingBarrierIsARaceEvenWithOneWorker) {
  std::string text = matmul_text;
  const size_t at = text.find("  barrier\n");
  text.erase(at, 10);
  const Kernel kernel = checked(text);
  Arguments args = matmul_arguments(5, 37, 7);
  for (int workers = 1; workers <= 3; ++workers)
    for (uint64_t seed = 0; seed < 4; ++seed)
      EXPECT_TRUE(found(args.run(kernel, adversarial(seed, workers)), FindingKind::race,
                        {"'panel'", "without a barrier between"}));
  // By workers only, one worker has nobody to race with, and two do.
  LoopRunOptions lenient;
  lenient.iterations_race = false;
  EXPECT_TRUE(args.run(kernel, lenient).ok());
  lenient.workers = 2;
  EXPECT_TRUE(found(args.run(kernel, lenient), FindingKind::race, {"'panel'", "worker"}));
}

TEST(LoopInterp, MaskedLanesTouchNothing) {
  // y is exactly n long: any dead lane that stored would be out of bounds; registers of dead lanes
  // keep their value.
  const Kernel kernel = checked(R"(
kernel masked(x: f32[n] in, y: f32[1] out; n: 1..64)
  registers m: f32[16]
  vector l0 in 0..16
    m[l0] = -inf
  for k in 0..ceildiv(n, 16)
    vector l1 in 0..16 masked n - 16*k
      m[l1] = max(m[l1], x[16*k + l1])
  vector l2 in 0..16
    y[0] = reduce_lanes<max>(m[l2])
)");
  for (int n = 1; n <= 40; ++n) {
    Arguments args;
    std::vector<float> x(static_cast<size_t>(n));
    for (int i = 0; i < n; ++i) x[i] = -100.0f - float((i * 7) % 13);
    args.set("x", x).space("y", 4).symbol("n", n);
    const LoopRun run = args.run(kernel);
    ASSERT_TRUE(run.ok()) << run.text();
    ASSERT_EQ(args.get<float>("y")[0], *std::max_element(x.begin(), x.end()));
  }
}

TEST(LoopInterp, DeadLanesOfPaddedBuffersAreUnspecified) {
  const std::string text = R"(
kernel padded(x: f32[n] in, y: f32[16] out; n: 1..16)
  local t: f32[16] padded
  vector l1 in 0..16 masked n
    t[l1] = x[l1]
  vector l2 in 0..16
    y[l2] = t[l2]
)";
  Arguments args;
  args.set("x", random_floats(9, 1)).space("y", 64).symbol("n", 9);
  LoopRun run = args.run(checked(text));
  EXPECT_TRUE(found(run, FindingKind::uninitialised, {"'t'[9]"}));
  // Even if the lanes held something before.
  std::string before = text;
  before.insert(before.find("  vector l1"), "  vector l0 in 0..16\n    t[l0] = 0\n");
  run = args.run(checked(before));
  EXPECT_TRUE(found(run, FindingKind::uninitialised, {"'t'[9]"}));
  std::string plain = before;
  plain.erase(plain.find(" padded\n"), 7);
  run = args.run(checked(plain));
  EXPECT_TRUE(run.ok()) << run.text();
  // A padded buffer that is too short for whole vectors.
  std::string tight = text;
  tight.replace(tight.find("f32[16] padded"), 14, "f32[12] padded");
  tight.replace(tight.find("l2 in 0..16"), 11, "l2 in 0..16 masked n");
  EXPECT_TRUE(found(args.run(checked(tight)), FindingKind::out_of_bounds, {"'t'[12]"}));
}

TEST(LoopInterp, ConditionsThatDifferBetweenLanes) {
  const Kernel kernel = checked(R"(
kernel window(x: f32[n] in, y: f32[n + 4] out; n: 1..100)
  parallel io in 0..ceildiv(n + 4, 16)
    vector il in 0..16 masked n + 4 - 16*io
      if 2 <= 16*io + il and 16*io + il < n + 2
        y[16*io + il] = x[16*io + il - 2]
      else
        y[16*io + il] = -1
)");
  for (int n : {1, 5, 16, 31, 44}) {
    Arguments args;
    args.set("x", random_floats(size_t(n), 4)).space("y", size_t(n + 4) * 4).symbol("n", n);
    const LoopRun run = args.run(kernel, adversarial(uint64_t(n), 2));
    ASSERT_TRUE(run.ok()) << run.text();
    const auto x = args.get<float>("x"), y = args.get<float>("y");
    for (int i = 0; i < n + 4; ++i) ASSERT_EQ(y[i], i >= 2 && i < n + 2 ? x[i - 2] : -1.0f);
  }
}

TEST(LoopInterp, GatherChecksItsRange) {
  const Kernel kernel = checked(R"(
kernel gather(ids: i32[n] in, w: f32[10*d] in, y: f32[n*d] out; d: 1..64, n: 1..64)
  parallel i in 0..n
    let j in 0..9 = ids[i]
    for k in 0..ceildiv(d, 16)
      vector l in 0..16 masked d - 16*k
        y[i*d + 16*k + l] = w[j*d + 16*k + l]
)");
  Arguments args;
  args.set<int32_t>("ids", {3, 9, 0})
      .set("w", random_floats(10 * 21, 4))
      .space("y", 3 * 21 * 4)
      .symbol("n", 3)
      .symbol("d", 21);
  LoopRun run = args.run(kernel, adversarial(9, 2));
  ASSERT_TRUE(run.ok()) << run.text();
  const auto w = args.get<float>("w"), y = args.get<float>("y");
  for (int i = 0; i < 3; ++i)
    for (int k = 0; k < 21; ++k) ASSERT_EQ(y[i * 21 + k], w[(i == 0 ? 3 : i == 1 ? 9 : 0) * 21 + k]);
  args.set<int32_t>("ids", {3, 10, -1});
  run = args.run(kernel);
  EXPECT_TRUE(found(run, FindingKind::range, {"j = 10 is outside its range 0..9"}));
}

TEST(LoopInterp, GatherInLanes) {
  const Kernel kernel = checked(R"(
kernel permute(p: i64[n] in, x: f32[n] in, y: f32[n] out, z: f32[n] out; n: 1..64)
  for io in 0..ceildiv(n, 8)
    vector il in 0..8 masked n - 8*io
      let j in 0..63 = p[8*io + il]
      y[8*io + il] = x[j]
      z[j] = x[8*io + il]
)");
  Arguments args;
  args.set<int64_t>("p", {4, 2, 0, 1, 3})
      .set<float>("x", {10, 11, 12, 13, 14})
      .space("y", 20)
      .space("z", 20)
      .symbol("n", 5);
  LoopRun run = args.run(kernel);
  ASSERT_TRUE(run.ok()) << run.text();
  EXPECT_EQ(args.get<float>("y"), (std::vector<float>{14, 12, 10, 11, 13}));
  EXPECT_EQ(args.get<float>("z"), (std::vector<float>{12, 13, 11, 14, 10}));
  args.set<int64_t>("p", {4, 2, 0, 2, 3});
  EXPECT_TRUE(found(args.run(kernel), FindingKind::lanes, {"two lanes store to 'z'[2]"}));
}

TEST(LoopInterp, WiderLoadsReadTheBytesOfBlocks) {
  // Q4_0: an f16 scale and 16 bytes, 32 values of 4 bits.
  const Kernel kernel = checked(R"(
kernel q4(blocks: u8[18*n] in, y: f32[32*n] out; n: 1..8)
  for b in 0..n
    let %0 = cast<f32>(load<f16>(blocks[18*b]))
    vector l in 0..16
      let %1 = blocks[18*b + 2 + l]
      y[32*b + l] = cast<f32>(cast<i32>(bit_and(%1, u8(15))) - i32(8)) * %0
      y[32*b + 16 + l] = cast<f32>(cast<i32>(shr(%1, u8(4))) - i32(8)) * %0
)");
  Arguments args;
  std::vector<uint8_t> blocks(36);
  blocks[1] = 0x38;      // 0.5
  blocks[18 + 1] = 0xC0; // -2
  for (int b = 0; b < 2; ++b)
    for (int i = 0; i < 16; ++i) blocks[18 * b + 2 + i] = uint8_t(i * 17 + 3 * b);
  args.set("blocks", blocks).space("y", 256).symbol("n", 2);
  const LoopRun run = args.run(kernel);
  ASSERT_TRUE(run.ok()) << run.text();
  const auto y = args.get<float>("y");
  for (int b = 0; b < 2; ++b)
    for (int i = 0; i < 16; ++i) {
      const float scale = b ? -2.0f : 0.5f;
      const int byte = blocks[18 * b + 2 + i];
      ASSERT_EQ(y[32 * b + i], scale * float(byte % 16 - 8));
      ASSERT_EQ(y[32 * b + 16 + i], scale * float(byte / 16 - 8));
    }
}

TEST(LoopInterp, WiderLoadsOfFourBitBuffers) {
  const Kernel kernel = checked(R"(
kernel wide(x: u4[6] in, y: u8[2] out; n: 0..9)
  y[0] = load<u8>(x[2])
  y[1] = load<u8>(x[n])
)");
  Arguments args;
  args.set<uint8_t>("x", {0x10, 0x32, 0x54}).space("y", 2).symbol("n", 6);
  EXPECT_TRUE(found(args.run(kernel), FindingKind::out_of_bounds, {"'x'[6]"}));
  const Kernel odd = checked(R"(
kernel odd(x: u4[6] in, y: u8[2] out; n: 0..9)
  y[0] = load<u8>(x[2])
  y[1] = load<u8>(x[n])
)");
  EXPECT_TRUE(args.symbol("n", 4).run(odd).ok());
  EXPECT_EQ(args.get<uint8_t>("y"), (std::vector<uint8_t>{0x32, 0x54}));
  EXPECT_TRUE(found(args.symbol("n", 3).run(odd), FindingKind::unaligned, {"does not begin a byte"}));
}

TEST(LoopInterp, ReduceLanesIsTheHalvingTree) {
  const Kernel kernel = checked(R"(
kernel tree(x: f32[16] in, y: f32[1] out; n: 0..16)
  vector l in 0..16 masked n
    y[0] = reduce_lanes<add>(x[l])
)");
  std::vector<float> x(16);
  for (int i = 0; i < 16; ++i) x[i] = std::ldexp(1.0f, (i * 11) % 30) * (i % 3 ? 1.0f : -1.3f);
  Arguments args;
  for (int n = 0; n <= 16; ++n) {
    args.set("x", x).space("y", 4).symbol("n", n);
    const LoopRun run = args.run(kernel);
    ASSERT_TRUE(run.ok()) << run.text();
    std::vector<float> tree = x;
    for (int i = n; i < 16; ++i) tree[i] = 0;
    for (int h = 8; h; h /= 2)
      for (int i = 0; i < h; ++i) tree[i] = tree[i] + tree[i + h];
    ASSERT_EQ(args.get<float>("y")[0], tree[0]) << n;
  }
  EXPECT_EQ((args.run(kernel).counts.ops.at({Op::add, DType::f32})), 15);
}

TEST(LoopInterp, EveryRowAgreesWithTheOpTable) {
  std::mt19937_64 random(7);
  for (int o = 0; o < op_count; ++o) {
    const OpRow& r = row(Op(o));
    for (int t = 0; t < dtype_count; ++t) {
      const DType type = DType(t);
      const bool choice = r.signature == Signature::choice;
      const std::vector<DType> types =
          choice ? std::vector<DType>{DType::boolean, type, type} : std::vector<DType>(size_t(r.arity), type);
      const auto result = result_type(r, types.data());
      if (!result) continue;
      // y[l] = op(cast(x0[l]), ...) in lanes; inputs as f64, outputs as f64
      Kernel k;
      k.name = "row";
      std::vector<ValueRef> values;
      const Expr lane = Expr::symbol("l", {0, 15});
      for (int a = 0; a < r.arity; ++a)
        add_buffer(k, {"x" + std::to_string(a), Space::global, Access::in, DType::f64, 16});
      const BufferId y = add_buffer(k, {"y", Space::global, Access::out, DType::f64, 16});
      for (int a = 0; a < r.arity; ++a) values.push_back(cast(types[a], load(k, BufferId(a), lane)));
      const bool wide =
          bits(*result) == 64 && !is_float(*result); // compared through 32 bits, which a double holds
      const ValueRef value = apply(Op(o), values);
      k.body = {loop(LoopKind::vector, lane, 0, 16,
                     {store(y, lane, cast(DType::f64, wide ? cast(DType::i32, value) : value))})};
      ASSERT_THAT(verify(k), testing::IsEmpty());
      Arguments args;
      std::vector<std::vector<double>> x(size_t(r.arity), std::vector<double>(16));
      for (auto& v : x)
        for (double& e : v)
          e = std::round((r.low + (r.high - r.low) * double(random() % 1000) / 1000) * 8) / 8;
      for (int a = 0; a < r.arity; ++a) args.set("x" + std::to_string(a), x[a]);
      args.space("y", 128);
      const LoopRun run = args.run(k);
      ASSERT_TRUE(run.ok()) << r.name << " " << to_string(type) << "\n" << run.text();
      const auto out = args.get<double>("y");
      for (int l = 0; l < 16; ++l) {
        double f[3] = {}, expected = 0;
        int64_t i[3] = {};
        for (int a = 0; a < r.arity; ++a) {
          if (is_float(types[a]))
            f[a] = round_to(types[a], x[a][l]);
          else
            f[a] = double(i[a] = truncate_to(types[a], x[a][l]));
        }
        if (choice)
          expected = f[0] != 0 ? f[1] : f[2];
        else if (is_float(type))
          expected = apply_f64(Op(o), type, f);
        else
          expected = double(wide ? wrap(DType::i32, apply_i64(Op(o), type, i)) : apply_i64(Op(o), type, i));
        if (wide && choice) expected = double(wrap(DType::i32, int64_t(expected)));
        const bool equal = std::isnan(expected) ? std::isnan(out[l]) : out[l] == expected;
        ASSERT_TRUE(equal) << r.name << " " << to_string(type) << ": " << f[0] << ", " << f[1] << ", " << f[2]
                           << " gives " << out[l] << ", expected " << expected;
      }
    }
  }
}

TEST(LoopInterp, RegisteredOpsRunAndPrint) {
  UserOp op;
  op.name = "loop_test_hinge";
  op.arity = 2;
  op.f64 = [](const double* x) { return x[0] > x[1] ? x[0] - x[1] : 0; };
  op.definition = "max(a - b, 0)";
  register_op(op);
  const Kernel kernel = checked(R"(
kernel hinge(x: bf16[16] in, y: bf16[16] out)
  vector l in 0..16
    y[l] = loop_test_hinge(x[l], bf16(0.1))
)");
  Arguments args;
  std::vector<uint16_t> x(16);
  for (int i = 0; i < 16; ++i) store_f64(DType::bf16, reinterpret_cast<std::byte*>(x.data()), i, i * 0.3 - 1);
  args.set("x", x).space("y", 32);
  const LoopRun run = args.run(kernel);
  ASSERT_TRUE(run.ok()) << run.text();
  const auto y = args.get<uint16_t>("y");
  for (int i = 0; i < 16; ++i) {
    const double a = load_f64(DType::bf16, reinterpret_cast<const std::byte*>(x.data()), i),
                 b = round_to(DType::bf16, 0.1);
    EXPECT_EQ(load_f64(DType::bf16, reinterpret_cast<const std::byte*>(y.data()), i),
              round_to(DType::bf16, a > b ? a - b : 0));
  }
  EXPECT_EQ(run.counts.user_ops.at("loop_test_hinge"), 16);
}

TEST(LoopInterp, ArgumentsThatDoNotFitAreErrors) {
  const Kernel kernel = checked("kernel k(y: f32[n] out; n: 1..4)\n  parallel i in 0..n\n    y[i] = 1\n");
  Arguments args;
  args.space("y", 8).symbol("n", 3);
  EXPECT_THROW(args.run(kernel), Error);
  args.space("y", 16).symbol("n", 5);
  EXPECT_THROW(args.run(kernel), Error);
  args.symbol("n", 4);
  EXPECT_TRUE(args.run(kernel).ok());
}

} // namespace
} // namespace luminal::kernel
