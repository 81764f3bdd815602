// loop/loop_findings_test.cpp -- what the interpreter of loops reports about hand-written kernels:
// races, accesses outside of buffers, values that were never written, barriers, limits.
#include "loop_support.h"

namespace luminal::kernel {
namespace {

TEST(LoopInterp, WritesOutsideParallelLoopsRace) {
  const Kernel kernel = checked(R"(
kernel twice(y: f32[4] out)
  for i in 0..4
    y[i] = 1
)");
  Arguments args;
  args.space("y", 16);
  EXPECT_TRUE(args.run(kernel).ok());
  LoopRunOptions two;
  two.workers = 2;
  EXPECT_TRUE(found(args.run(kernel, two), FindingKind::race, {"'y'[0]", "written by worker 0"}));
}

TEST(LoopInterp, BarrierOrdersPhasesOnlyForThoseWhoShareIt) {
  // Each lane writes its own element, the neighbour reads it. A barrier of level 1 orders lanes of
  // one group.
  const std::string text = R"(
kernel lanes(y: f32[8] out)
  group g: f32[4]
  parallel b in 0..2
    parallel l in 0..4 level 1
      g[l] = index<f32>(l)
    barrier level 1
    parallel r in 0..4 level 1
      y[4*b + r] = g[3 - r]
    barrier level 1
)";
  const Kernel kernel = checked(text);
  Arguments args;
  args.space("y", 32);
  for (uint64_t seed = 0; seed < 12; ++seed) {
    const LoopRun run = args.run(kernel, adversarial(seed, 2, 4));
    ASSERT_TRUE(run.ok()) << run.text();
    ASSERT_EQ(args.get<float>("y"), (std::vector<float>{3, 2, 1, 0, 3, 2, 1, 0}));
    ASSERT_TRUE(args.run(kernel, adversarial(seed, 1, 1)).ok());
  }
  std::string without = text;
  without.erase(without.find("    barrier level 1\n"), 20);
  for (uint64_t seed = 0; seed < 4; ++seed)
    EXPECT_TRUE(found(args.run(checked(without), adversarial(seed, 2, 4)), FindingKind::race, {"'g'"}));
  // Shared memory is seen by the other group as well, which that barrier does not stop.
  std::string shared = text;
  shared.replace(shared.find("group g"), 7, "shared g");
  EXPECT_TRUE(found(args.run(checked(shared), adversarial(3, 2, 4)), FindingKind::race, {"'g'"}));
}

TEST(LoopInterp, ReadersOfTwoGroupsAreRemembered) {
  // Both groups read s in the first phase; a barrier of level 1 in each does not allow one of them
  // to write it afterwards.
  const Kernel kernel = checked(R"(
kernel readers(x: f32[1] in, y: f32[2] out)
  shared s: f32[1]
  parallel z in 0..1
    s[0] = x[0]
  barrier
  parallel b in 0..2
    y[b] = s[0]
    barrier level 1
    if b == 0
      s[0] = 5
)");
  Arguments args;
  args.set<float>("x", {2}).space("y", 8);
  for (uint64_t seed = 0; seed < 8; ++seed)
    EXPECT_TRUE(found(args.run(kernel, adversarial(seed, 2)), FindingKind::race, {"'s'[0]"}));
}

TEST(LoopInterp, OutOfBoundsIsExactToTheElement) {
  const std::string text = R"(
kernel scale(x: f32[n] in, y: f32[n] out; n: 1..100)
  parallel io in 0..ceildiv(n, 16)
    vector il in 0..16 masked n - 16*io
      y[16*io + il] = x[16*io + il] * 0.5
)";
  const Kernel kernel = checked(text);
  std::string unmasked = text;
  unmasked.erase(unmasked.find(" masked n - 16*io"), 17);
  const Kernel wrong = checked(unmasked);
  for (int n = 1; n <= 40; ++n) {
    Arguments args;
    args.set("x", random_floats(size_t(n), 3)).space("y", size_t(n) * 4).symbol("n", n);
    LoopRun run = args.run(kernel, adversarial(uint64_t(n), 2));
    ASSERT_TRUE(run.ok()) << run.text();
    for (int i = 0; i < n; ++i) ASSERT_EQ(args.get<float>("y")[i], args.get<float>("x")[i] * 0.5f);
    run = args.run(wrong);
    if (n % 16 == 0) {
      EXPECT_TRUE(run.ok()) << run.text();
      continue;
    }
    EXPECT_TRUE(found(run, FindingKind::out_of_bounds, {"'x'[", "parallel io"}));
    ASSERT_FALSE(run.findings.empty());
    EXPECT_EQ(run.findings[0].offset, n);
    EXPECT_EQ(run.findings[0].buffer, "x");
  }
}

TEST(LoopInterp, UninitialisedReads) {
  const Kernel kernel = checked(R"(
kernel partial(x: f32[n] in, y: f32[n] out; n: 1..64)
  local t: f32[n]
  for i in 0..n - 1
    t[i] = x[i]
  for j in 0..n
    y[j] = t[j]
)");
  Arguments args;
  args.set("x", random_floats(9, 3)).space("y", 36).symbol("n", 9);
  const LoopRun run = args.run(kernel);
  ASSERT_TRUE(found(run, FindingKind::uninitialised, {"'t'[8]", "nothing has been written there"}));
  // `out` is poisoned as well.
  const Kernel accumulates = checked(R"(
kernel accumulate(x: f32[4] in, y: f32[4] out)
  for i in 0..4
    y[i] = y[i] + x[i]
)");
  Arguments more;
  more.set("x", random_floats(4, 3)).space("y", 16);
  EXPECT_TRUE(found(more.run(accumulates), FindingKind::uninitialised, {"'y'[0]"}));
}

// Code computes both arguments of a select: what the other one reads need not be there, but it is inside.
TEST(LoopInterp, WhatASelectDoesNotTakeMayBeUnwritten) {
  const auto run = [](const std::string& value, int64_t t = 16) {
    const Kernel kernel = checked(fmt::format(R"(
kernel partial(x: f32[16] in, y: f32[16] out)
  local t: f32[{}]
  vector i in 0..8
    t[i] = x[i]
  for o in 0..2
    vector l in 0..8
      y[o*8 + l] = {}
)",
                                              t, value));
    Arguments args;
    args.set("x", random_floats(16, 3)).space("y", 64);
    return args.run(kernel);
  };
  const auto unwritten = [&](const std::string& value) {
    return found(run(value), FindingKind::uninitialised, {"'t'[8]", "nothing has been written there"});
  };
  const std::string taken = "index<bool>(o*8 + l < 8)", all = "index<bool>(o*8 + l < 9)";
  EXPECT_TRUE(run("select(" + taken + ", fma(t[o*8 + l], 2.0, x[o*8 + l]), x[o*8 + l])").ok());
  EXPECT_TRUE(run("select(bit_not(" + taken + "), 1.0, neg(t[o*8 + l]))").ok());
  EXPECT_TRUE(run("select(" + taken + ", select(" + all + ", t[o*8 + l], 2.0), 1.0)").ok());
  EXPECT_TRUE(run("select(index<bool>(o < 1), t[o*8 + l], 1.0)").ok());
  EXPECT_TRUE(unwritten("select(" + all + ", t[o*8 + l], 1.0)"));
  EXPECT_TRUE(unwritten("select(" + taken + ", 1.0, t[o*8 + l])"));
  EXPECT_TRUE(unwritten("select(" + taken + ", t[o*8 + l], 1.0) + t[o*8 + l]"));
  EXPECT_TRUE(unwritten("select(lt(t[o*8 + l], 0.0), 2.0, 1.0)"));
  EXPECT_TRUE(run("select(" + taken + ", t[o*8], 1.0)").ok()); // one value for all lanes
  EXPECT_TRUE(unwritten("select(" + all + ", t[o*8], 1.0)"));
  EXPECT_TRUE(unwritten("select(index<bool>(l < 9), t[o*8 + l], 1.0)"));
  EXPECT_TRUE(unwritten("select(index<bool>(o < 2), t[o*8], 1.0)"));
  EXPECT_TRUE(found(run("select(" + taken + ", t[o*8 + l], 1.0)", 9), FindingKind::out_of_bounds, {"'t'["}));
  const Kernel one_by_one = checked(R"(
kernel partial(x: f32[4] in, y: f32[4] out)
  local t: f32[4]
  t[0] = x[0]
  for o in 0..4
    y[o] = select(index<bool>(o < 1), t[o], x[o])
)");
  Arguments args;
  args.set("x", random_floats(4, 3)).space("y", 16);
  EXPECT_TRUE(args.run(one_by_one).ok());
  const Kernel twice = checked(R"(
kernel partial(x: f32[4] in, y: f32[4] out)
  local t: f32[4]
  t[0] = x[0]
  for o in 0..4
    y[o] = select(index<bool>(o < 2), t[o], x[o])
)");
  EXPECT_TRUE(found(args.run(twice), FindingKind::uninitialised, {"'t'[1]"}));
}

TEST(LoopInterp, HalvesOfABytesAreInitialisedApart) {
  const std::string text = R"(
kernel nibbles(x: u4[8] in, y: u4[8] out, z: u4[8] out)
  local t: u4[8]
  for i in 0..4
    t[2*i] = x[2*i]
  for j in 0..4
    y[2*j] = t[2*j]
  for k in 0..4
    y[2*k + 1] = x[2*k + 1]
  for l in 0..8
    z[l] = y[l]
)";
  const Kernel kernel = checked(text);
  Arguments args;
  args.set<uint8_t>("x", {0x21, 0x43, 0x65, 0x87}).space("y", 4).space("z", 4);
  const LoopRun run = args.run(kernel);
  EXPECT_TRUE(run.ok()) << run.text();
  EXPECT_EQ(args.get<uint8_t>("z"), (std::vector<uint8_t>{0x21, 0x43, 0x65, 0x87}));
  std::string odd = text;
  odd.replace(odd.find("t[2*j]"), 6, "t[2*j + 1]");
  EXPECT_TRUE(found(args.run(checked(odd)), FindingKind::uninitialised, {"'t'"}));
}

TEST(LoopInterp, TwoWorkersMayNotShareAByteOfHalves) {
  const Kernel kernel = checked(R"(
kernel halves(y: u4[8] out)
  parallel i in 0..8
    y[i] = index<u4>(i)
)");
  Arguments args;
  args.space("y", 4);
  EXPECT_TRUE(found(args.run(kernel), FindingKind::race, {"'y'"}));
}

TEST(LoopInterp, PrivateMemoryDoesNotCarryValuesBetweenIterations) {
  const Kernel kernel = checked(R"(
kernel carry(x: f32[8] in, y: f32[8] out)
  local t: f32[1]
  t[0] = 0
  parallel i in 0..8
    t[0] = t[0] + x[i]
    y[i] = t[0]
)");
  Arguments args;
  args.set("x", random_floats(8, 5)).space("y", 32);
  for (int workers = 1; workers <= 2; ++workers)
    EXPECT_TRUE(found(args.run(kernel, adversarial(1, workers)), FindingKind::carried,
                      {"'t'[0]", "another iteration"}));
  // What was set outside is good for every iteration; what an iteration left is not good behind the
  // loop.
  const Kernel outside = checked(R"(
kernel outside(x: f32[8] in, y: f32[8] out, z: f32[1] out)
  local t: f32[2]
  t[0] = x[3]
  parallel i in 0..8
    t[1] = x[i] * t[0]
    y[i] = t[1]
  parallel j in 0..1
    z[j] = t[0]
)");
  args.space("z", 4);
  EXPECT_TRUE(args.run(outside, adversarial(1, 2)).ok());
  std::string behind = to_string(outside);
  behind.replace(behind.rfind("t[0]"), 4, "t[1]");
  EXPECT_TRUE(found(args.run(checked(behind), adversarial(1, 2)), FindingKind::carried, {"'t'[1]"}));
}

TEST(LoopInterp, BarrierDivergence) {
  // The verifier sees barriers under parallel loops; a trip count read from private memory it
  // cannot see.
  const Kernel kernel = checked(R"(
kernel diverge(x: i32[2] in, y: f32[2] out)
  local count: i32[1]
  count[0] = i32(0)
  parallel i in 0..2
    count[0] = x[i]
    y[i] = 0
  let c in 0..9 = count[0]
  for t in 0..c
    barrier
)");
  Arguments args;
  args.set<int32_t>("x", {1, 3}).space("y", 8);
  LoopRunOptions two;
  two.workers = 2;
  EXPECT_TRUE(found(args.run(kernel, two), FindingKind::divergence, {"never arrive"}));
}

TEST(LoopInterp, OverflowAndDivisionByZeroInOffsets) {
  const Kernel kernel = checked(R"(
kernel far(x: f32[4] in, y: f32[4] out; n: 0..9000000000000000000)
  for i in 0..4
    y[i] = x[(i*n + n) % 4]
)");
  Arguments args;
  args.set("x", random_floats(4, 4)).space("y", 16).symbol("n", 4);
  EXPECT_TRUE(args.run(kernel).ok());
  args.symbol("n", 9000000000000000000);
  EXPECT_TRUE(found(args.run(kernel), FindingKind::overflow, {"the offset"}));
  const Kernel division = checked(R"(
kernel division(x: f32[4] in, y: f32[4] out; n: 0..4)
  for i in 0..4
    y[i] = x[i // n]
)");
  EXPECT_TRUE(found(args.symbol("n", 0).run(division), FindingKind::overflow));
}

TEST(LoopInterp, StatementsHaveALimit) {
  const Kernel kernel = checked(R"(
kernel endless(y: f32[1] out)
  for i in 0..1000000000000000
    y[0] = 1
)");
  Arguments args;
  args.space("y", 4);
  LoopRunOptions options;
  options.max_statements = 100000;
  EXPECT_TRUE(found(args.run(kernel, options), FindingKind::limit));
}

} // namespace
} // namespace luminal::kernel
