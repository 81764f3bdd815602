// golden/lowered_loops.h -- the loops that a schedule makes of a term, and their numbers beside the
// interpreter's. Include as "golden/lowered_loops.h".
#pragma once
#include "golden/golden_support.h"

namespace luminal::kernel {

/// The loops that a schedule makes of a term, held to the verifier and, run on two workers, to the
/// term interpreter; or why it is refused.
inline std::string loops_of(const std::string& term, std::string_view schedule,
                            const std::map<std::string, int64_t>& symbols = {}, double tolerance = 2e-6) {
  const Module module = parse_module(term, "term");
  const auto cone = cone_of(module.entry(), false);
  if (!cone) return cone.error();
  const auto kernel = lower(*cone, parse_schedule(schedule, "schedule"));
  if (!kernel) return kernel.error();
  const std::string text = to_string(*kernel);
  EXPECT_THAT(verify(*kernel), testing::IsEmpty()) << text;
  const Bindings bindings = random_bindings(module.entry(), {"term", symbols}, 9);
  const auto want = Interpreter(module, bindings).run();
  const KernelRun got = run_cone(module.entry(), *cone, *kernel, bindings, adversarial(1, 2));
  EXPECT_TRUE(got.run.ok()) << got.run.text() << text;
  if (!got.run.ok()) return got.run.text();
  EXPECT_EQ(got.results.size(), want.size());
  for (auto& [name, bytes] : got.results)
    EXPECT_LE(difference(want.at(name).dtype, bytes, want.at(name)), tolerance) << name << "\n" << text;
  return text;
}
inline const auto is_right = testing::StartsWith("kernel ");

} // namespace luminal::kernel
