// golden/fuzz_test.cpp -- random schedules of the golden cases: the legal ones equal the term
// interpreter, the others are refused with a reason.
#include "golden/schedule_fuzz.h"

namespace luminal::kernel {
namespace {

struct FuzzCase {
  GoldenCase golden;
  int directives, rounds;
};

std::vector<FuzzCase> cases() {
  return {
      {{"matmul_ragged", {{"M", 11}}}, 10, 14},
      {{"conv_dilated", {}}, 6, 2},
      {{"layernorm", {{"R", 4}}}, 10, 14},
      {{"attention", {}}, 10, 2},
      {{"attention_split", {{"T", 83}}}, 10, 8},
      {{"q4_0_matvec", {}, false, 5e-6, {{"w", {0, 59}}}}, 8, 5},
      {{"kv_append", {{"past", 37}, {"S", 5}}, true}, 6, 10},
      {{"paged_gather", {{"T", 37}}, false, 0, {{"table", {0, 11}}}}, 6, 10},
      {{"routing", {}, false, 2e-6, {{"list", {0, 9}}, {"count", {0, 8}}}}, 8, 8},
      {{"top2", {{"R", 5}}, false, 0}, 8, 14},
      {{"masked_rows", {{"R", 5}}, false, 2e-6, {{"a", {0, 5}}, {"b", {0, 5}}}}, 10, 20},
      {{"two_outputs", {{"R", 7}}}, 8, 14},
  };
}

class GoldenFuzz : public testing::TestWithParam<FuzzCase> {};

TEST_P(GoldenFuzz, RandomSchedules) {
  const GoldenCase& c = GetParam().golden;
  Module module = parse_module(read_text(golden_folder() / c.name / "term.lum"), c.name);
  const Function& function = module.entry();
  auto cone = cone_of(function, c.in_place);
  ASSERT_TRUE(cone.ok()) << cone.error();
  Bindings bindings = random_bindings(function, c, 9);
  auto want = Interpreter(module, bindings).run();
  int refused = 0, accepted = 0;
  for (int round = 0; round < GetParam().rounds; round++) {
    uint64_t seed = uint64_t(round) * 7919 + 17;
    ScheduleFuzz fuzz(*cone, seed);
    Schedule schedule;
    // Tuples over different axes are lowered as a cascade; half of the time it comes first.
    for (auto& s : cone->stages)
      if (s.monoid && !s.scan_axis) schedule.add(DirectiveKind::cascade, {s.name, "root"});
    if (round % 2 == 0) schedule.directives.clear();
    for (int i = 0; i < GetParam().directives; i++) {
      Schedule longer = schedule;
      longer.directives.push_back(fuzz.propose(schedule));
      std::string line = to_string(longer.directives.back());
      bool tuples = false;
      try {
        // Written-out loops multiply; a kernel that would take the interpreter too long is left
        // out.
        if (written_out(*cone, longer) > 64) continue;
        for (auto& s : apply(*cone, last_version(longer)).cone.stages) tuples |= s.monoid && !s.scan_axis;
      } catch (const ScheduleFailure& failure) {
        refused++;
        EXPECT_THAT(failure.text, testing::HasSubstr(": ")) << line;
        continue;
      }
      auto kernel = lower(*cone, longer);
      if (kernel.ok()) {
        accepted++;
        schedule = longer;
      } else if (tuples) {
        schedule = longer; // a later cascade may make it whole
      } else {
        refused++;
        EXPECT_THAT(kernel.error(), testing::HasSubstr("[schedule]")) << line;
      }
    }
    EXPECT_EQ(parse_schedule(to_string(schedule)), schedule);
    auto kernel = lower(*cone, schedule);
    if (!kernel.ok()) continue;
    ASSERT_THAT(verify(*kernel), testing::IsEmpty()) << to_string(schedule) << to_string(*kernel);
    for (int workers : {1, 3}) {
      KernelRun got = run_cone(function, *cone, *kernel, bindings, adversarial(seed, workers));
      ASSERT_TRUE(got.run.ok()) << got.run.text() << to_string(schedule) << to_string(*kernel);
      for (auto& [name, bytes] : got.results)
        ASSERT_LE(difference(want.at(name).dtype, bytes, want.at(name)), c.tolerance)
            << name << ", seed " << seed << "\n"
            << to_string(schedule) << to_string(*kernel);
    }
  }
  EXPECT_GT(accepted, 0);
  EXPECT_GT(refused, 0);
}

INSTANTIATE_TEST_SUITE_P(Cases, GoldenFuzz, testing::ValuesIn(cases()),
                         [](auto& tested) { return tested.param.golden.name; });

} // namespace
} // namespace luminal::kernel
