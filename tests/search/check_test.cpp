// check_test.cpp -- right candidates pass; wrong ones are caught by the step that should, each step
// in turn; shrunken instances keep tiles and tails.
#include "choose/default_schedule.h"
#include "search/check_candidate.h"
#include "search/machine_profile.h"
#include "search/problem_support.h"
#include <fstream>
#include <gmock/gmock.h>

namespace luminal::search {
namespace {
using testing::HasSubstr;

/// A checker with the measurer at true size.
class Bench {
public:
  explicit Bench(const KernelProblem& problem, int threads = 2, bool worker = false,
                 CheckOptions options = {})
      : problem_(problem) {
    build_.threads = threads;
    make_ = [worker](std::shared_ptr<const Workload> work) {
      const MeasurerOptions few{.rotate_bytes = 0, .seconds = 20};
      return worker ? make_worker_measurer(std::move(work), few)
                    : make_in_process_measurer(std::move(work), few);
    };
    measurer_ =
        make_(std::make_shared<Workload>(workload_of(problem, problem.cone, problem.symbols, threads)));
    auto checker = Checker::create(problem, build_, make_, options);
    EXPECT_TRUE(checker) << checker.error();
    checker_ = std::move(*checker);
  }
  Verdict operator()(const Candidate& candidate) {
    auto kernel = candidate.lower(problem_.cone, candidate.schedule);
    if (!kernel) return {-1, kernel.error(), ""};
    auto code = build(*kernel, problem_.symbols, build_);
    if (!code) return {-1, code.error(), ""};
    return checker_->check(candidate, *measurer_, *measurer_->add(std::move(*code)));
  }
  const BuildOptions& options() const { return build_; }

private:
  const KernelProblem& problem_;
  BuildOptions build_;
  Checker::MeasurerFactory make_;
  std::unique_ptr<Measurer> measurer_;
  std::unique_ptr<Checker> checker_;
};

Candidate default_candidate(const KernelProblem& problem, int threads) {
  return candidate_of(kernel::default_schedule(problem.cone, MachineProfile::guess(threads).limits()), {});
}

TEST(Check, RightCandidatesPass) {
  const KernelProblem problem = matmul(101, 87, 70);
  for (const int threads : {1, 2}) {
    Bench bench(problem, threads);
    for (const Candidate& c :
         {default_candidate(problem, threads), candidate(matmul_schedule), candidate("")}) {
      const Verdict verdict = bench(c);
      EXPECT_TRUE(verdict.passed()) << verdict.step << ": " << verdict.cause;
    }
  }
}

/// Half a million terms of one sign, added one by one in f32, are off by 2e-4: what the schedules are
/// compared with must not be.
TEST(Check, LongSumsOfOneSignPass) {
  for (const auto& [rows, columns] : {std::pair{4096, 2048}, {1, 1 << 20}, {1 << 20, 2}, {33, 70'001}}) {
    const KernelProblem problem =
        problem_of(fmt::format(R"(fn @squares(%a: f32[{0}, {1}], %b: f32[{0}, {1}]) {{
  %d = sub %a, %b
  %q = mul %d, %d
  %f = fold [i: {0}, j: {1}] over [i, j] {{ sum %q[i, j] }}
  %y = get %f, 0
  return y = %y
}})",
                               rows, columns));
    Bench bench(problem);
    for (const int threads : {1, 2}) {
      const Verdict verdict = bench(default_candidate(problem, threads));
      EXPECT_TRUE(verdict.passed()) << rows << " x " << columns << ", " << verdict.step << ": "
                                    << verdict.cause;
    }
  }
}

std::string text_of(const std::filesystem::path& path) { return bytes_of(path.string()); }

struct Case {
  std::string name;
  std::map<std::string, int64_t> symbols;
  bool in_place = false;
  std::map<std::string, std::pair<int64_t, int64_t>> integers;
};
class CheckGolden : public testing::TestWithParam<Case> {};

TEST_P(CheckGolden, TheWrittenScheduleAndTheDefaultPass) {
  const Case& c = GetParam();
  const auto folder = std::filesystem::path(LUMINAL_SOURCE_DIR) / "tests/golden" / c.name;
  const KernelProblem problem = problem_of(text_of(folder / "term.lum"), c.symbols, c.in_place, c.integers);
  Bench bench(problem);
  const Candidate written = candidate(text_of(folder / "schedule.txt"));
  for (const Candidate& one : {default_candidate(problem, 2), written}) {
    const Verdict verdict = bench(one);
    EXPECT_TRUE(verdict.passed()) << verdict.step << ": " << verdict.cause << "\n" << verdict.loops;
  }
  const Shrunk small = shrink(problem, written.schedule);
  EXPECT_THAT(kernel::verify(small.cone), testing::IsEmpty());
  EXPECT_LE(points_of(small.cone, small.symbols), points_of(problem.cone, problem.symbols));
  for (const bool blocks : {false, true}) {
    const Shrunk one = shrink(problem, written.schedule, 2, blocks);
    const auto lowered = written.lower(one.cone, one.schedule);
    EXPECT_TRUE(lowered) << lowered.error();
  }
}
INSTANTIATE_TEST_SUITE_P(Cases, CheckGolden,
                         testing::Values(Case{"matmul_ragged", {{"M", 29}}}, Case{"conv_dilated", {}},
                                         Case{"conv_input_gradient", {}}, Case{"layernorm", {{"R", 11}}},
                                         Case{"attention", {}}, Case{"attention_split", {{"T", 203}}},
                                         Case{"q4_0_matvec", {}, false, {{"w", {0, 59}}}},
                                         Case{"q4_k_matvec", {}, false, {{"w", {0, 59}}}},
                                         Case{"kv_append", {{"past", 37}, {"S", 5}}, true},
                                         Case{"paged_gather", {{"T", 77}}, false, {{"table", {0, 11}}}},
                                         Case{"routing", {}, false, {{"list", {0, 9}}, {"count", {0, 8}}}},
                                         Case{"top2", {{"R", 13}}}, Case{"two_outputs", {{"R", 23}}}),
                         [](const auto& test) { return test.param.name; });

TEST(Check, ShrunkenInstancesKeepTilesTailsAndParts) {
  const KernelProblem big = matmul(1000, 777, 513);
  const Shrunk small = shrink(big, kernel::parse_schedule(matmul_schedule));
  std::map<std::string, int64_t> extents;
  for (const auto& axis : small.cone.axes) extents[axis.name] = axis.extent.value();
  EXPECT_EQ(extents["m"], 2 * 8 + 1000 % 8);
  EXPECT_EQ(extents["n"], 2 * 32 + 777 % 32);
  EXPECT_EQ(extents["k"], 2 * 16 + 513 % 16);
  EXPECT_THAT(kernel::verify(small.cone), testing::IsEmpty());
  for (const auto& value : small.cone.values)
    if (value.name == "A") {
      EXPECT_EQ(value.shape[0].value(), extents["m"]);
      EXPECT_EQ(value.shape[1].value(), extents["k"]);
    }
  const Shrunk parts = shrink(big, kernel::parse_schedule("split_reduction f k serial 5 16\n"));
  for (const auto& axis : parts.cone.axes)
    if (axis.name == "k") {
      EXPECT_EQ(axis.extent.value(), 2 * 80 + 513 % 80);
    }
  const Shrunk whole = shrink(big, kernel::parse_schedule("vector f n\n")); // 777 lanes are what they are
  for (const auto& axis : whole.cone.axes)
    if (axis.name == "n") {
      EXPECT_EQ(axis.extent.value(), 777);
    }
}

/// Blocks that fill caches would leave nothing to shrink.
TEST(Check, BlocksShrinkWithWhatTheyHold) {
  const KernelProblem big = matmul(1001, 1024, 1031);
  const auto schedule = kernel::parse_schedule(R"(stage B P
split * n nc nn 512
split * nn np ni 64
split * ni nv nl 16
split * k kc ki 256
split f m mc mm 228
split f mm mt mi 4
order P nc kc np ki nv nl
store P kc n/64 k n%64
vector P nl
unroll P nv
at f kc
parallel P nc
order f nc kc mc np mt ki mi nv nl
parallel f nc
vector f nl
unroll f mi nv
jam f ki 4
)");
  EXPECT_GT(points_of(shrink(big, schedule).cone, {}), 1e8);
  const Shrunk small = shrink(big, schedule, 2, true);
  EXPECT_EQ(kernel::to_string(small.schedule),
            replaced(replaced(replaced(kernel::to_string(schedule), "nn 512", "nn 128"), "ki 256", "ki 8"),
                     "mm 228", "mm 8"));
  std::map<std::string, int64_t> extents;
  for (const auto& axis : small.cone.axes) extents[axis.name] = axis.extent.value();
  EXPECT_EQ(extents["n"], 2 * 128); // 1024 is two whole blocks
  EXPECT_EQ(extents["k"], 2 * 8 + 1031 % 256 % 8);
  EXPECT_EQ(extents["m"], 2 * 8 + 1001 % 228 % 8);
  EXPECT_LT(points_of(small.cone, {}), 1e6);
  const auto lowered = candidate_of(schedule, {}).lower(small.cone, small.schedule);
  EXPECT_TRUE(lowered) << lowered.error();
  const KernelProblem middle = matmul(301, 260, 263);
  Bench bench(middle);
  Candidate blocked = candidate_of(schedule, {});
  Verdict verdict = bench(blocked);
  EXPECT_TRUE(verdict.passed()) << verdict.cause << verdict.loops;
  const auto right = blocked.lower;
  blocked.lower = [right](const kernel::Cone& cone, const kernel::Schedule& how) -> Result<kernel::Kernel> {
    auto kernel = right(cone, how);
    if (!kernel) return kernel;
    return kernel::parse_kernel(kernel::to_string(*kernel) +
                                "  barrier\n  parallel zz in 0..2\n    C[0] = C[0]\n");
  };
  EXPECT_THAT(bench(blocked).cause, HasSubstr("race")); // the loop interpreter ran
}

TEST(Check, Step1CatchesWrongLoops) {
  const KernelProblem problem = matmul(101, 87, 70);
  Bench bench(problem);
  const auto start = mutated(problem, matmul_schedule, false, [](std::string t) {
    return replaced(t, "f.acc[mi*32 + nl + nv*16] = 0.0", "f.acc[mi*32 + nl + nv*16] = 0.125");
  });
  Verdict verdict = bench(start);
  EXPECT_EQ(verdict.step, 1) << verdict.cause;
  EXPECT_THAT(verdict.cause, HasSubstr("its loops: C["));
  EXPECT_THAT(verdict.loops, HasSubstr("0.125"));

  // The right numbers, and a race that no run on this machine would ever show.
  verdict = bench(mutated(problem, matmul_schedule, false, [](const std::string& t) {
    return t + "  barrier\n  parallel zz in 0..2\n    C[0] = C[0]\n";
  }));
  EXPECT_EQ(verdict.step, 1);
  EXPECT_THAT(verdict.cause, HasSubstr("race"));

  // Reads what nobody wrote.
  verdict = bench(mutated(problem, matmul_schedule, false, [](const std::string& t) {
    return replaced(t, "  parallel", "  local zero: f32[1]\n  parallel") +
           "  barrier\n  parallel zz in 0..1\n    C[0] = C[0] + 0.0 * zero[0]\n";
  }));
  EXPECT_EQ(verdict.step, 1) << verdict.cause;
}

TEST(Check, Step2CatchesWhatIsWrongAtTrueSizeOnly) {
  const KernelProblem problem = matmul(101, 87, 70);
  Bench bench(problem);
  const auto one_element = mutated(problem, matmul_schedule, true, [](const std::string& t) {
    return t + "  barrier\n  parallel zz in 0..1\n    C[87*37 + 41] = C[87*37 + 41] + 0.01\n";
  });
  Verdict verdict = bench(one_element); // nobody to compare with, and not an element that step 3 looks at
  EXPECT_TRUE(verdict.passed()) << "the test's element is one of the random ones: " << verdict.cause;

  Bench with_reference(problem);
  EXPECT_TRUE(with_reference(default_candidate(problem, 2)).passed());
  verdict = with_reference(one_element);
  EXPECT_EQ(verdict.step, 2) << verdict.cause;
  EXPECT_THAT(verdict.cause, HasSubstr("C[37, 41]"));

  // What stays unwritten holds the poison, not the result of the run before.
  verdict = with_reference(mutated(problem, matmul_schedule, true, [](const std::string& t) {
    return replaced(t, "parallel nc in 0..3", "parallel nc in 0..2");
  }));
  EXPECT_EQ(verdict.step, 2);
  EXPECT_THAT(verdict.cause, HasSubstr("depends on what the memory held before"));
}

TEST(Check, Step3CatchesTheFirstCandidate) {
  const KernelProblem problem = matmul(101, 87, 70);
  // The last element of tiles at the end of the rows, of the columns, of both: tiles are 8 x 32.
  for (const char* element : {"87*101 - 1", "87*100 + 31", "87*7 + 86", "87*47 + 86"}) {
    Bench bench(problem);
    const Verdict verdict = bench(mutated(problem, matmul_schedule, true, [&](const std::string& t) {
      return t + fmt::format("  barrier\n  parallel zz in 0..1\n    C[{0}] = C[{0}] + 0.01\n", element);
    }));
    EXPECT_EQ(verdict.step, 3) << element << " " << verdict.cause;
    EXPECT_THAT(verdict.cause, HasSubstr("the interpreter has"));
  }
}

TEST(Check, NanNeverPasses) {
  const KernelProblem problem = matmul(101, 87, 70);
  for (const bool first : {true, false}) {
    Bench bench(problem);
    if (!first) {
      EXPECT_TRUE(bench(candidate(matmul_schedule)).passed());
    }
    const Verdict verdict = bench(mutated(problem, matmul_schedule, true, [](const std::string& t) {
      return t + "  barrier\n  parallel zz in 0..1\n    C[87*37 + 41] = log2(0.0 - 1.0)\n";
    }));
    EXPECT_EQ(verdict.step, first ? 3 : 2) << verdict.cause;
    EXPECT_THAT(verdict.cause, HasSubstr(first ? "is NaN" : "is nan"));
  }
  // Terms that give NaN are no judge.
  const KernelProblem nan = problem_of("fn @roots(%x: f32[64]) {\n  %y = sqrt %x\n  return y = %y\n}");
  const auto checker =
      Checker::create(nan, {}, [](auto w) { return make_in_process_measurer(std::move(w), {}); });
  ASSERT_FALSE(checker);
  EXPECT_THAT(checker.error(), HasSubstr("is NaN by its terms"));
}

TEST(Check, IntegersAreExact) {
  const KernelProblem problem = problem_of("fn @sums(%x: i32[40, 30]) {\n  %f = fold [i: 40, j: 30] over [j] "
                                           "{ sum %x[i, j] }\n  %y = get %f, 0\n  return y = %y\n}",
                                           {}, false, {{"x", {-1000000, 1000000}}});
  Bench bench(problem);
  EXPECT_TRUE(bench(candidate("")).passed());
  const Verdict verdict = bench(mutated(problem, "", false, [](const std::string& t) {
    return t + "  barrier\n  parallel zz in 0..1\n    y[1] = y[1] + y[2]\n";
  }));
  EXPECT_EQ(verdict.step, 1) << verdict.cause;
}

TEST(Check, ACrashIsAVerdict) {
  if (!worker_processes) GTEST_SKIP() << "a fork under the thread sanitizer";
  const KernelProblem problem = matmul(101, 87, 70);
  Bench bench(problem, 1, true);
  const Verdict verdict = bench(mutated(problem, matmul_schedule, true, [](const std::string& t) {
    return t + "  barrier\n  parallel zz in 0..1\n    C[1073741824] = 1.0\n";
  }));
  EXPECT_EQ(verdict.step, 2);
  EXPECT_THAT(verdict.cause, HasSubstr("crashed: signal 11"));
  EXPECT_TRUE(bench(candidate(matmul_schedule)).passed());
}

} // namespace
} // namespace luminal::search
