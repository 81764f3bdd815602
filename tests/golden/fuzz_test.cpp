// golden/fuzz_test.cpp -- random schedules of the golden cases: the legal ones equal the term interpreter, the others are refused with a reason.
#include "golden/golden_support.h"
#include "kernel/nest.h"

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
      {{"two_outputs", {{"R", 7}}}, 8, 14},
  };
}

class Fuzz {
public:
  Fuzz(const Cone& cone, uint64_t seed) : cone_(cone), random_(seed) {}
  int64_t pick(int64_t n) { return n <= 0 ? 0 : int64_t(random_() % uint64_t(n)); }
  template <class T> const T& any(const std::vector<T>& list) {
    return list[size_t(pick(int64_t(list.size())))];
  }

  /// A directive that may or may not be legal, about what there is after `schedule`.
  Directive propose(const Schedule& schedule) {
    Nests nests = apply(cone_, schedule);
    auto& stages = nests.cone.stages;
    int s = int(pick(int64_t(stages.size())));
    std::string stage = stages[size_t(s)].name;
    auto& loops = nests.stages[size_t(s)].loops;
    std::string loop = loops.empty() ? "none" : any(loops).name;
    std::string value = any(nests.cone.values).name;
    std::string who = pick(3) ? stage : "*";
    number_++;
    switch (pick(18)) {
    case 0:
    case 1:
    case 2: {
      std::string name = "x" + std::to_string(number_);
      return {DirectiveKind::split,
              {who, loop, name + "o", name + "i"},
              {any(std::vector<int64_t>{1, 2, 3, 4, 5, 8, 16, 100})}};
    }
    case 3:
    case 4: {
      std::vector<std::string> words{stage};
      for (auto& l : loops) words.push_back(l.name);
      std::shuffle(words.begin() + 1, words.end(), random_);
      return {DirectiveKind::order, words, {}};
    }
    case 5: return {DirectiveKind::vector, {stage, loop}, {}};
    case 6: return {DirectiveKind::unroll, {stage, loop}, {}};
    case 7: return {DirectiveKind::parallel, {who, loop}, {}};
    case 8: return {DirectiveKind::jam, {stage, loop}, {1 + pick(5)}};
    case 9:
    case 10: return {DirectiveKind::at, {stage, loop}, {}};
    case 11: return {DirectiveKind::fuse, {any(stages).name, stage}, {}};
    case 12:
      return {pick(2) ? DirectiveKind::stage : DirectiveKind::frame,
              {value, "copy" + std::to_string(number_)},
              {}};
    case 13: return {DirectiveKind::cascade, {stage, pick(2) ? loop : "root"}, {}};
    case 14:
      return {DirectiveKind::split_reduction,
              {stage, loop, pick(3) ? "serial" : "pairs"},
              pick(2) ? std::vector<int64_t>{2 + pick(3)} : std::vector<int64_t>{2, 8}};
    case 15: {
      if (loops.size() < 2) return {DirectiveKind::predicate_bound, {stage, loop}, {}};
      size_t l = size_t(pick(int64_t(loops.size()) - 1));
      return {
          DirectiveKind::merge, {stage, loops[l].name, loops[l + 1].name, "x" + std::to_string(number_)}, {}};
    }
    case 16:
      return pick(2) ? Directive{DirectiveKind::predicate_split, {loop}, {}}
                     : Directive{DirectiveKind::predicate_bound, {stage, loop}, {}};
    default:
      switch (pick(4)) {
      case 0: return {DirectiveKind::store, {value, loop}, {}};
      case 1: return {DirectiveKind::stream, {value}, {}};
      case 2:
        return {DirectiveKind::prefetch, {stage, value, loop, loops.empty() ? loop : any(loops).name}, {1}};
      default: return {DirectiveKind::prefetch, {stage, value, loop}, {1}};
      }
    }
  }

private:
  const Cone& cone_;
  std::mt19937_64 random_;
  int number_ = 0;
};

/// Written-out loops multiply; a kernel that would take the interpreter too long is left out.
bool too_large(const Nests& nests) {
  for (auto& nest : nests.stages) {
    int64_t copies = 1;
    for (auto& l : nest.loops)
      if (l.kind == LoopKind::unrolled && l.extent.is_constant()) copies *= l.extent.value();
    if (copies > 64) return true;
  }
  return false;
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
    Fuzz fuzz(*cone, seed);
    Schedule schedule;
    // Tuples over different axes are lowered as a cascade; half of the time it comes first.
    for (auto& s : cone->stages)
      if (s.monoid && s.scan_axis < 0) schedule.add(DirectiveKind::cascade, {s.name, "root"});
    if (round % 2 == 0) schedule.directives.clear();
    for (int i = 0; i < GetParam().directives; i++) {
      Schedule longer = schedule;
      longer.directives.push_back(fuzz.propose(schedule));
      std::string line = to_string(longer.directives.back());
      bool tuples = false;
      try {
        Nests nests = apply(*cone, longer);
        if (too_large(nests)) continue;
        for (auto& s : nests.cone.stages) tuples |= s.monoid && s.scan_axis < 0;
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
