// loop/loop_program_test.cpp -- random correct kernels: no finding, and the same bits for any
// number of workers and any schedule.
#include "loop_random.h"
#include "loop_support.h"

namespace luminal::kernel {
namespace {

Arguments arguments(const RandomProgram& program, int n, uint64_t seed) {
  Arguments args;
  args.set("x", random_floats(size_t(n), seed)).symbol("n", n);
  std::mt19937_64 random(seed);
  std::vector<int32_t> ids(static_cast<size_t>(n));
  for (int32_t& id : ids) id = int32_t(random() % 100);
  args.set("ids", ids);
  for (int i = 0; i < program.outputs; ++i) args.space("y" + std::to_string(i), size_t(n) * 4);
  return args;
}

TEST(LoopProgram, RandomProgramsAreBitEqualForAnyWorkers) {
  int64_t statements = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    RandomProgram program(seed);
    const Kernel kernel = program.kernel();
    ASSERT_THAT(verify(kernel), testing::IsEmpty()) << "seed " << seed << "\n" << to_string(kernel);
    const Kernel printed = parse_kernel(to_string(kernel));
    ASSERT_TRUE(same(kernel, printed));
    for (const int n : {1, 7, 33, 100}) {
      Arguments first = arguments(program, n, seed);
      const LoopRun one = first.run(kernel);
      ASSERT_TRUE(one.ok()) << "seed " << seed << " n " << n << "\n" << to_string(kernel) << one.text();
      statements += one.counts.statements;
      for (int workers = 1; workers <= 3; ++workers) {
        Arguments again = arguments(program, n, seed);
        const LoopRun run =
            again.run(workers == 2 ? printed : kernel, adversarial(seed * 7 + uint64_t(workers), workers));
        ASSERT_TRUE(run.ok()) << "seed " << seed << " n " << n << " workers " << workers << "\n"
                              << to_string(kernel) << run.text();
        ASSERT_EQ(first.data(), again.data())
            << "seed " << seed << " n " << n << " workers " << workers << "\n"
            << to_string(kernel);
        // What one worker does once, others do not repeat.
        ASSERT_EQ(run.counts.ops, one.counts.ops);
      }
    }
  }
  EXPECT_GT(statements, 40000);
}

/// A barrier that is taken away leaves a race that is found, whatever the schedule, wherever a
/// later phase reads another element than its own.
TEST(LoopProgram, EveryMissingBarrierThatMattersIsFound) {
  int races = 0, harmless = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    RandomProgram program(seed);
    Kernel kernel = program.kernel();
    for (size_t at = 0; at + 1 < kernel.body.size(); ++at) {
      if (!kernel.body[at]->is<Barrier>()) continue;
      Kernel without = kernel;
      without.body.erase(without.body.begin() + std::ptrdiff_t(at));
      bool found_one = false, first = true;
      for (int workers = 1; workers <= 3; ++workers) {
        const LoopRun run =
            arguments(program, 40, seed).run(without, adversarial(seed + uint64_t(workers), workers));
        bool race = false;
        for (const Finding& f : run.findings) race |= f.kind == FindingKind::race;
        if (!first) {
          EXPECT_EQ(race, found_one) << to_string(without) << run.text();
        }
        found_one = race;
        first = false;
      }
      ++(found_one ? races : harmless);
    }
  }
  EXPECT_GT(races, 20);
  EXPECT_GT(harmless, 0); // phases that do not read each other
}

} // namespace
} // namespace luminal::kernel
