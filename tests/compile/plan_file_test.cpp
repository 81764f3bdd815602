// plan_file_test.cpp -- a plan as a file: another machine of its kind uses it, after a check, and one of
// another kind, another version or with other threads is told why not.
#include "base/file.h"
#include "base/log.h"
#include "base/thread_pool.h"
#include "compile/ablate.h"
#include "compile/plan_file.h"
#include "search/problem_support.h"
#include <gmock/gmock.h>

namespace luminal::compile::plan_file_test {
namespace {

using search::ScratchFolder;
using search::TuningCache;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

const char* const product = R"(fn @main(%x: f32[32, 40], %w: f32[40, 48]) {
  %a = view %x [m: 32, n: 48, k: 40] -> [m, k]
  %b = view %w [m: 32, n: 48, k: 40] -> [k, n]
  %p = mul %a, %b
  %f = fold [m: 32, n: 48, k: 40] over [k] { sum %p[m, n, k] }
  %y = get %f, 0
  return y = %y
})";

const char* const softmax = R"(fn @main(%x: f32[16, 64]) {
  %mf = fold [r: 16, c: 64] over [c] { max %x[r, c] }
  %m = get %mf, 0
  %mb = view %m [r: 16, c: 64] -> [r]
  %d = sub %x, %mb
  %e = exp %d
  %sf = fold [r: 16, c: 64] over [c] { sum %e[r, c] }
  %s = get %sf, 0
  %sb = view %s [r: 16, c: 64] -> [r]
  %y = div %e, %sb
  return y = %y
})";

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

Options options_of(int threads = 1) {
  Options options = Options::host(threads);
  options.cache = false;
  options.worker = search::worker_processes;
  return options;
}

/// The plan of the product with plain loops, which is not what is chosen by itself.
std::string plan_of_plain_loops() {
  Options options = options_of();
  options.schedules = {{"k0", ""}};
  const Compiled compiled = compile(parse_module(product), options).value();
  return export_plan({&compiled});
}

TEST(PlanFile, IsUsedBeforeTheCacheAndSaysSo) {
  const ScratchFolder folder("plan_file");
  ASSERT_TRUE(write_file(folder.file("a.plan"), plan_of_plain_loops()));
  Options options = options_of();
  const auto usual = compile(parse_module(product), options).value();
  options.tuning = std::make_shared<TuningCache>("");
  options.plan = folder.file("a.plan");
  const auto planned = compile(parse_module(product), options).value();
  EXPECT_NE(planned.schedules, usual.schedules);
  EXPECT_EQ(planned.schedules, (std::vector<std::string>{""}));
  EXPECT_TRUE(planned.choices[0].given);
  EXPECT_THAT(planned.report(), HasSubstr("given schedule"));
  EXPECT_TRUE(options.tuning->entries().empty()) << "the cache stays what was measured here";
  EXPECT_EQ(export_plan({&planned}), plan_of_plain_loops());
}

TEST(PlanFile, AScheduleThatDoesNotFitIsNotUsed) {
  const ScratchFolder folder("plan_file_wrong");
  Options options = options_of();
  options.plan = folder.file("b.plan");
  const auto usual = compile(parse_module(product), options_of()).value();
  const auto with = [&](const char* schedule) {
    const std::string text = fmt::format("\"schedule\":\"{}\"", schedule);
    EXPECT_TRUE(write_file(options.plan, replaced(plan_of_plain_loops(), "\"schedule\":\"\"", text)));
    return compile(parse_module(product), options);
  };
  const auto made = with("parallel f9 m\\n");
  ASSERT_TRUE(made) << made.error();
  EXPECT_EQ(made->schedules, usual.schedules);
  EXPECT_FALSE(made->choices[0].given);
  EXPECT_THAT(made->choices[0].note, StartsWith("the schedule of the plan does not fit: "));
  EXPECT_THAT(with("no directive\\n").error(), StartsWith(folder.file("b.plan") + ": line 2: "));
}

TEST(PlanFile, RefusesWhatIsNotForThisMachine) {
  const ScratchFolder folder("plan_file_kind");
  const std::string plan = plan_of_plain_loops();
  const auto error = [&](const std::string& text, int threads = 1) {
    Options options = options_of(threads);
    options.plan = folder.file("c.plan");
    EXPECT_TRUE(write_file(options.plan, text));
    const auto made = compile(parse_module(product), options);
    return made ? std::string() : made.error();
  };
  EXPECT_EQ(error(plan), "");
  EXPECT_EQ(error(plan, 2), "") << "this kernel is too small for two";
  EXPECT_EQ(error(replaced(plan, "\"threads\":1", "\"threads\":3")),
            fmt::format("the plan {} is not for this machine: it is for 3 threads, here are 1",
                        folder.file("c.plan")));
  EXPECT_THAT(error(replaced(plan, "\"instructions\":\"", "\"instructions\":\"other-")),
              HasSubstr("is not for this machine: its instructions are other-"));
  EXPECT_THAT(error(replaced(plan, "\"llvm\":\"", "\"llvm\":\"1.")), HasSubstr("its LLVM is 1."));
  const size_t at = plan.find("\"codegen\":\"") + 11;
  EXPECT_THAT(error(plan.substr(0, at) + (plan[at] == '0' ? '1' : '0') + plan.substr(at + 1)),
              HasSubstr("it is of another version of luminal"));
  EXPECT_THAT(error("no plan"), StartsWith(folder.file("c.plan") + " is not a plan: line 1: "));
  EXPECT_THAT(error(plan.substr(0, plan.size() / 2)), StartsWith(folder.file("c.plan") + ": line 2: "));
  EXPECT_EQ(error(plan.substr(0, plan.find('\n') + 1)), folder.file("c.plan") + ": the plan has no entry");
  Options none = options_of();
  none.plan = folder.file("none");
  EXPECT_THAT(compile(parse_module(product), none).error(), HasSubstr("none"));
  Options search = options_of();
  search.plan = folder.file("c.plan");
  search.search.mode = SearchMode::budget;
  EXPECT_EQ(
      compile(parse_module(product), search).error(),
      fmt::format("a search begins with what the tuning cache has: it takes no plan ({})", search.plan));
}

TEST(PlanFile, OfAnotherProgramDoesNothingAndSaysSo) {
  const ScratchFolder folder("plan_file_other");
  Options options = options_of();
  options.plan = folder.file("d.plan");
  ASSERT_TRUE(write_file(options.plan, plan_of_plain_loops()));
  std::vector<std::string> said;
  set_log_sink([&](LogLevel, std::string_view line) { said.emplace_back(line); });
  const auto made = compile(parse_module(softmax), options);
  set_log_sink({});
  ASSERT_TRUE(made);
  EXPECT_THAT(
      said, ElementsAre(fmt::format("the plan {} has nothing for this program: none of its 1 entries is for "
                                    "one of its kernels at these sizes",
                                    options.plan)));
}

TEST(Ablation, WithoutARuleAStepTakesAsLongOrLonger) {
  const Ablation worth = ablate(parse_module(softmax), options_of()).value();
  ASSERT_FALSE(worth.rules.empty());
  EXPECT_GT(worth.written, 0);
  EXPECT_LE(worth.estimate, worth.written * 1.0001);
  for (size_t k = 1; k < worth.rules.size(); k++)
    EXPECT_GE(worth.rules[k - 1].estimate, worth.rules[k].estimate);
  Options without = options_of();
  for (const RuleWorth& rule : worth.rules) without.rules.choice.forbidden.push_back(rule.rule);
  const Ablation none = ablate(parse_module(softmax), without).value();
  EXPECT_TRUE(none.rules.empty());
}

} // namespace
} // namespace luminal::compile::plan_file_test
