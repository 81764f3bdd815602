// compile/architecture_page_test.cpp -- the program that ARCHITECTURE.md follows: the texts that the page
// shows for it are those that the compiler makes, for a processor with AVX-512.
#include "base/file.h"
#include "compile/builder.h"
#include "compile/target.h"
#include <gmock/gmock.h>

namespace luminal {
namespace {

/// The block of text on the page that begins so.
std::string block_of(const std::string& page, const std::string& begin) {
  const size_t at = page.find("```\n" + begin);
  if (at == std::string::npos) return "no block begins with " + begin;
  const size_t first = at + 4;
  return page.substr(first, page.find("```", first) - first);
}

TEST(ArchitecturePage, ShowsTheScheduleAndTheLoopsOfItsProgram) {
  const auto page = read_file(LUMINAL_SOURCE_DIR "/ARCHITECTURE.md");
  ASSERT_TRUE(page) << page.error();
  Module module = parse_module(block_of(*page, "fn @main("), "ARCHITECTURE.md");
  passes::defaults().run(module);
  const auto options = compile::options_for_target("skylake-avx512", 1);
  ASSERT_TRUE(options) << options.error();
  compile::KernelPlanner planner({.limits = options->limits, .target = options->target});
  compile::PlanBuilder builder(module, planner);
  const auto plan = builder.build();
  ASSERT_TRUE(plan) << plan.error();
  ASSERT_EQ(builder.kernels().size(), 1u);
  const compile::PlannedKernel& kernel = builder.kernels().front();
  EXPECT_EQ(kernel.schedule, block_of(*page, "fuse s0 s1"));
  EXPECT_EQ(kernel::to_string(kernel.loops), block_of(*page, "kernel k0("));
}

} // namespace
} // namespace luminal
