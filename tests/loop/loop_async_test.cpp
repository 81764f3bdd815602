// loop/loop_async_test.cpp -- asynchronous statements and roles: results under every arrival, and
// each misuse.
#include "loop_support.h"

namespace luminal::kernel {
namespace {

/// Two tiles in flight: copy t + 1 while t is used. The queue of the token makes one number enough.
const std::string pipeline = R"(
kernel pipeline(x: f32[16*n] in, y: f32[16*n] out; n: 1..20)
  local tile: f32[2*16]
  parallel p in 0..1
    async copy tile[0] <- x[0] count 16 -> token 0
    for t in 0..n
      if t + 1 < n
        async copy tile[16*((t + 1) % 2)] <- x[16*t + 16] count 16 -> token 0
      wait 0
      vector l in 0..16
        y[16*t + l] = tile[16*(t % 2) + l] * 2
)";

Arguments pipeline_arguments(int n) {
  Arguments args;
  args.set("x", random_floats(size_t(16 * n), 8)).space("y", size_t(16 * n) * 4).symbol("n", n);
  return args;
}

LoopRunOptions arrival(Arrival when, uint64_t seed = 1) {
  LoopRunOptions o;
  o.arrival = when;
  o.seed = seed;
  return o;
}

TEST(LoopAsync, PipelinesGiveTheSameForEveryArrival) {
  const Kernel kernel = checked(pipeline);
  for (const int n : {1, 2, 3, 8}) {
    Arguments args = pipeline_arguments(n);
    for (const Arrival when : {Arrival::early, Arrival::late, Arrival::mixed})
      for (uint64_t seed = 0; seed < 4; ++seed) {
        const LoopRun run = args.run(kernel, arrival(when, seed));
        ASSERT_TRUE(run.ok()) << run.text();
        const auto x = args.get<float>("x"), y = args.get<float>("y");
        for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(y[i], x[i] * 2);
      }
  }
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  const size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return at == std::string::npos ? text : text.replace(at, what.size(), by);
}

TEST(LoopAsync, MisusesAreFoundForEveryArrival) {
  struct Case {
    std::string text;
    FindingKind kind;
    std::vector<const char*> parts;
  };
  const std::vector<Case> cases = {
      // The tile that is used is overwritten by the copy that is in flight.
      {replaced(pipeline, "tile[16*((t + 1) % 2)] <-", "tile[16*(t % 2)] <-"),
       FindingKind::in_flight,
       {"'tile'", "before the wait"}},
      // The wait behind the use.
      {replaced(replaced(pipeline, "      wait 0\n", ""), "* 2\n", "* 2\n      wait 0\n"),
       FindingKind::in_flight,
       {"'tile'", "read before the wait"}},
      // One wait too many, one too few.
      {replaced(pipeline, "      wait 0\n", "      wait 0\n      wait 0\n"),
       FindingKind::token,
       {"token 0 is awaited, and nothing of it is in flight"}},
      {replaced(pipeline, "      wait 0\n", "      if t < n - 1\n        wait 0\n"),
       FindingKind::token,
       {"token 0 is still in flight at the end of the kernel"}},
  };
  for (const Case& c : cases)
    for (const Arrival when : {Arrival::early, Arrival::late, Arrival::mixed}) {
      Arguments args = pipeline_arguments(5);
      const LoopRun run = args.run(checked(c.text), arrival(when));
      bool hit = false;
      for (const Finding& f : run.findings) {
        bool all = f.kind == c.kind;
        for (const char* part : c.parts) all = all && f.text.find(part) != std::string::npos;
        hit |= all;
      }
      EXPECT_TRUE(hit) << c.text << run.text();
    }
}

TEST(LoopAsync, SourceAndDestinationAreHeld) {
  const auto run = [](const std::string& between) {
    const Kernel kernel = checked("kernel held(x: f32[8] inout, y: f32[8] inout)\n"
                                  "  async copy y[2] <- x[2] count 4 -> token 0\n" +
                                  between + "  wait 0\n");
    Arguments args;
    args.set("x", random_floats(8, 1)).set("y", random_floats(8, 2));
    return args.run(kernel, arrival(Arrival::mixed));
  };
  EXPECT_TRUE(run("  x[1] = 0\n  y[1] = 0\n  y[6] = x[5]\n").ok()); // neighbours, and reading the source
  EXPECT_TRUE(found(run("  x[2] = 0\n"), FindingKind::in_flight,
                    {"'x'[2] is written before the wait for the asynchronous statement that reads it"}));
  EXPECT_TRUE(found(run("  y[5] = 0\n"), FindingKind::in_flight,
                    {"'y'[5] is written before the wait for the asynchronous statement that writes it"}));
  EXPECT_TRUE(found(run("  x[0] = y[3]\n"), FindingKind::in_flight, {"'y'[3] is read before the wait"}));
  EXPECT_TRUE(found(run("  async copy y[5] <- x[0] count 1 -> token 1\n  wait 1\n"), FindingKind::in_flight,
                    {"'y'[5]"}));
}

TEST(LoopAsync, CopiesAreCheckedLikeStores) {
  const auto run = [](const std::string& text, int64_t n, LoopRunOptions options = {}) {
    Arguments args;
    args.set("x", random_floats(8, 1)).space("y", 32).symbol("n", n);
    return args.run(checked("kernel copies(x: f32[8] in, y: f32[8] out; n: 0..20)\n" + text), options);
  };
  const std::string copy = "  async copy y[0] <- x[n - 3] count n -> token 0\n  wait 0\n";
  EXPECT_TRUE(run(copy, 5).ok());
  EXPECT_TRUE(found(run(copy, 6), FindingKind::out_of_bounds,
                    {"'x'[3] and the 6 elements from there on are outside"}));
  EXPECT_TRUE(found(run(copy, 2), FindingKind::out_of_bounds, {"'x'[-1]"}));
  EXPECT_TRUE(
      found(run("  local t: f32[4]\n  t[0] = 1\n  async copy y[0] <- t[0] count 2 -> token 0\n  wait 0\n", 0),
            FindingKind::uninitialised, {"'t'[1]"}));
  EXPECT_TRUE(found(run("  async copy y[0] <- x[0] count n - 1 -> token 0\n  wait 0\n", 0),
                    FindingKind::range, {"the count -1 is negative"}));
  EXPECT_TRUE(run("  async copy y[0] <- x[0] count n -> token 0\n  wait 0\n", 0).ok());
  LoopRunOptions two;
  two.workers = 2;
  EXPECT_TRUE(found(run(copy, 5, two), FindingKind::race, {"'y'"}));
}

TEST(LoopAsync, AsynchronousUnitsChainOnTheirAccumulator) {
  const std::string text = R"(
kernel wgmma(a: bf16[64*32] in, b: bf16[32*8] in, c: f32[64*8] out)
  local acc: f32[512]
  for z in 0..512
    acc[z] = 0
  for k in 0..2
    async unit nvidia.wgmma.m64n8k16.bf16 acc[0; 8, 1] a[16*k; 32, 1] b[128*k; 8, 1] -> token 3
  wait 3
  wait 3
  for w in 0..512
    c[w] = acc[w]
)";
  Arguments args;
  std::vector<uint16_t> a(64 * 32), b(32 * 8);
  const auto fill = [](std::vector<uint16_t>& values, int factor) {
    for (size_t i = 0; i < values.size(); ++i)
      store_f64(DType::bf16, reinterpret_cast<std::byte*>(values.data()), int64_t(i),
                double(int(i * size_t(factor) % 9) - 4));
  };
  fill(a, 7);
  fill(b, 5);
  args.set("a", a).set("b", b).space("c", 2048);
  for (const Arrival when : {Arrival::early, Arrival::late, Arrival::mixed}) {
    const LoopRun run = args.run(checked(text), arrival(when));
    ASSERT_TRUE(run.ok()) << run.text();
    for (int m = 0; m < 64; ++m)
      for (int n = 0; n < 8; ++n) {
        double sum = 0;
        for (int k = 0; k < 32; ++k)
          sum += double(int((m * 32 + k) * 7 % 9) - 4) * double(int((k * 8 + n) * 5 % 9) - 4);
        ASSERT_EQ(args.get<float>("c")[m * 8 + n], float(sum));
      }
    // Reading the accumulator after one of two waits.
    const std::string early = replaced(replaced(text, "  wait 3\n  wait 3\n", "  wait 3\n"),
                                       "c[w] = acc[w]\n", "c[w] = acc[w]\n  wait 3\n");
    EXPECT_TRUE(found(args.run(checked(early), arrival(when)), FindingKind::in_flight,
                      {"'acc'[0] is read before the wait"}));
  }
}

// ---- roles

const std::string producer_consumer = R"(
kernel ring(x: f32[16*n] in, y: f32[16] out; n: 0..20)
  local tiles: f32[3*16]
  parallel p in 0..1
    vector z in 0..16
      y[z] = 0
    roles k in 0..n stages 3
      producers:
        vector l in 0..16
          tiles[16*(k % 3) + l] = x[16*k + l] * 3
      consumers:
        vector m in 0..16
          y[m] = y[m] + tiles[16*(k % 3) + m]
)";

LoopRunOptions order(RoleOrder role_order, uint64_t seed = 1) {
  LoopRunOptions o;
  o.role_order = role_order;
  o.seed = seed;
  return o;
}

Arguments ring_arguments(int n) {
  Arguments args;
  args.set("x", random_floats(size_t(16 * n), 8)).space("y", 64).symbol("n", n);
  return args;
}

TEST(LoopRoles, EveryOrderGivesTheSameAndSoDoesThePlainLoop) {
  const Kernel kernel = checked(producer_consumer);
  const Kernel plain = expand_roles(kernel);
  EXPECT_THAT(verify(plain), testing::IsEmpty());
  EXPECT_EQ(to_string(plain).find("roles"), std::string::npos);
  for (const int n : {0, 1, 2, 3, 4, 11}) {
    Arguments expected = ring_arguments(n);
    const LoopRun reference = expected.run(plain);
    ASSERT_TRUE(reference.ok()) << reference.text();
    for (const RoleOrder role_order : {RoleOrder::lockstep, RoleOrder::ahead, RoleOrder::mixed})
      for (uint64_t seed = 0; seed < 5; ++seed) {
        Arguments args = ring_arguments(n);
        const LoopRun run = args.run(kernel, order(role_order, seed));
        ASSERT_TRUE(run.ok()) << run.text();
        ASSERT_EQ(args.data(), expected.data());
        ASSERT_EQ(run.counts.ops, reference.counts.ops);
      }
  }
}

TEST(LoopRoles, TheDegenerateFormOfNestedStatementsIsEqual) {
  const Kernel kernel = checked(R"(
kernel nested(x: f32[64*n] in, y: f32[n] out; n: 1..9)
  group ring: f32[2*16]
  local sum: f32[1]
  parallel b in 0..n
    sum[0] = 0
    if b % 2 == 0
      roles k in 0..4 stages 2
        producers:
          parallel l in 0..16 level 1
            ring[16*(k % 2) + l] = x[64*b + 16*k + l]
        consumers:
          for m in 0..16
            sum[0] = sum[0] + ring[16*(k % 2) + m]
    else
      sum[0] = 7
    barrier level 1
    parallel w in 0..1 level 1
      y[b] = sum[0]
    barrier level 1
)");
  const Kernel plain = expand_roles(kernel);
  for (int lanes = 1; lanes <= 3; ++lanes)
    for (uint64_t seed = 0; seed < 8; ++seed) {
      const auto arguments = [] {
        Arguments args;
        args.set("x", random_floats(64 * 5, 8)).space("y", 20).symbol("n", 5);
        return args;
      };
      Arguments a = arguments(), b = arguments();
      const LoopRun one = a.run(kernel, adversarial(seed, 2, lanes)),
                    two = b.run(plain, adversarial(seed + 100, 1, lanes));
      ASSERT_TRUE(one.ok()) << one.text();
      ASSERT_TRUE(two.ok()) << two.text();
      ASSERT_EQ(a.data(), b.data());
    }
}

TEST(LoopRoles, ARingThatIsTooShortIsFoundInEveryOrder) {
  // Three stages, two tiles: step k + 2 of the producers may meet step k of the consumers.
  const std::string narrow =
      replaced(replaced(producer_consumer, "(k % 3) + l", "(k % 2) + l"), "(k % 3) + m", "(k % 2) + m");
  for (const RoleOrder role_order : {RoleOrder::lockstep, RoleOrder::ahead, RoleOrder::mixed}) {
    Arguments args = ring_arguments(7);
    EXPECT_TRUE(found(args.run(checked(narrow), order(role_order)), FindingKind::ring,
                      {"'tiles'[", "the ring has 3 stages"}));
    const std::string fits = replaced(narrow, "stages 3", "stages 2");
    EXPECT_TRUE(args.run(checked(fits), order(role_order)).ok());
  }
}

} // namespace
} // namespace luminal::kernel
