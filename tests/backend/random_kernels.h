// backend/random_kernels.h -- random correct kernels of the loop IR: machine code gives the bits of
// the checking interpreter.
#pragma once
#include "loop/loop_random.h"
#include "support.h"
#include "support/seeds.h"

namespace luminal::test {

inline Arguments arguments(const kernel::RandomProgram& program, int n, uint64_t seed) {
  Arguments args;
  args.set("x", random_floats(size_t(n), seed)).symbol("n", n);
  std::mt19937_64 random(seed);
  std::vector<int32_t> ids(static_cast<size_t>(n));
  for (int32_t& id : ids) id = int32_t(random() % 100);
  args.set("ids", ids);
  for (int i = 0; i < program.outputs; ++i) args.space("y" + std::to_string(i), size_t(n) * 4);
  return args;
}

/// The first element whose bits differ (two NaN count as equal: the payload is not part of a
/// result), or -1. `zeros`: of either sign alike.
inline int64_t first_difference(const std::vector<float>& a, const std::vector<float>& b, bool zeros) {
  for (size_t i = 0; i < a.size(); ++i)
    if (std::memcmp(&a[i], &b[i], sizeof a[i]) != 0 && !(std::isnan(a[i]) && std::isnan(b[i])) &&
        !(zeros && a[i] == 0 && b[i] == 0))
      return int64_t(i);
  return -1;
}

/// Seeds [first, first + count), or those of the environment, on the widest instructions, every third one on
/// the others too.
inline void check_seeds(uint64_t first, uint64_t count) {
  const std::vector<codegen::CpuTarget> targets = instruction_sets();
  const Seeds all = seeds(first, count);
  for (uint64_t seed = all.first; seed < all.end(); ++seed) {
    kernel::RandomProgram random(seed, true);
    const kernel::Kernel kernel = random.kernel();
    ASSERT_THAT(kernel::verify(kernel), testing::IsEmpty()) << "seed " << seed << "\n" << to_string(kernel);
    // The maximum of two zeros is either of them, and no other operation here tells them apart.
    const bool zeros = to_string(kernel).find("max(") != std::string::npos;
    for (size_t t = 0; t < targets.size(); ++t) {
      if (t > 0 && seed % 3 != 0) continue;
      Program program(kernel, targets[t]);
      for (const int n : {1, 7, 33, 100}) {
        const int workers = 1 + int((seed + uint64_t(n)) % 2);
        Arguments actual = arguments(random, n, seed);
        const Arguments expected = interpret(kernel, actual);
        program.run(actual, workers);
        for (int i = 0; i < random.outputs; ++i) {
          const std::string name = "y" + std::to_string(i);
          const std::vector<float> got = actual.get<float>(name), want = expected.get<float>(name);
          const int64_t at = first_difference(got, want, zeros);
          ASSERT_EQ(at, -1) << "seed " << seed << ", n " << n << ", " << workers << " workers, "
                            << targets[t].cpu << ": " << name << " is " << got[size_t(at)] << ", expected "
                            << want[size_t(at)] << "\n"
                            << to_string(kernel);
        }
      }
    }
  }
}

} // namespace luminal::test
