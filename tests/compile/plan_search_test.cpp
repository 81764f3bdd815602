// plan_search_test.cpp -- a search leaves a plan that is right and not slower, keeps what it finds,
// can be stopped, and tunes equal kernels once.
#include "base/thread_pool.h"
#include "compile/compile.h"
#include "compile/program_race.h"
#include "compile/search_options.h"
#include "device/cpu/cpu_device.h"
#include "search/measure_lock.h"
#include "search/problem_support.h"
#include <chrono>
#include <gmock/gmock.h>
#include <thread>

namespace luminal::compile::plan_search_test {
namespace {

using search::ScratchFolder;
using search::TuningCache;
using testing::HasSubstr;

/// Two equal layers with names of their own, and a softmax without a twin; `n` rows.
const char* const program = R"(
symbol n: 1..64
fn @main(%x: f32[n, 48], weight %w: f32[48, 48], weight %v: f32[48, 48]) {
  %a1 = view %x [m: n, c: 48, k: 48] -> [m, k]
  %b1 = view %w [m: n, c: 48, k: 48] -> [k, c]
  %p1 = mul %a1, %b1
  %f1 = fold [m: n, c: 48, k: 48] over [k] { sum %p1[m, c, k] }
  %g1 = get %f1, 0
  %y1 = tanh %g1
  %a2 = view %y1 [row: n, column: 48, depth: 48] -> [row, depth]
  %b2 = view %v [row: n, column: 48, depth: 48] -> [depth, column]
  %p2 = mul %a2, %b2
  %f2 = fold [row: n, column: 48, depth: 48] over [depth] { sum %p2[row, column, depth] }
  %g2 = get %f2, 0
  %y2 = tanh %g2
  return y = %y2
})";

Options search_in(const ScratchFolder& folder, std::shared_ptr<TuningCache> cache, ThreadPool& pool) {
  Options options = compile::options_in(folder, std::move(cache), pool);
  options.search.mode = SearchMode::budget;
  options.search.seconds = 60; // enough on a busy machine; see OneList
  return options;
}

/// Lets a search end with the first list of candidates, however long it takes; confirming follows.
class OneList {
public:
  void limit(SearchOptions& search) {
    search.progress = [this](const SearchProgress& p) {
      told++;
      done_ = p.phase == SearchProgress::Phase::tuning && !p.rejected.empty();
      EXPECT_LE(p.number, p.kernels);
      EXPECT_GE(p.left, 0);
    };
    search.stop = [this] { return done_; };
  }
  int told = 0;

private:
  bool done_ = false;
};

/// The result of a plan for inputs that depend on n alone.
std::vector<float> run(const std::shared_ptr<const runtime::Plan>& plan, ThreadPool& pool, int64_t n) {
  const auto device = device::make_cpu_device(pool);
  auto store = std::make_shared<runtime::Store>(*device);
  const auto fill = [](std::span<std::byte> bytes, int64_t seed) {
    for (int64_t i = 0; i < int64_t(bytes.size() / 4); i++)
      store_f64(DType::f32, bytes.data(), i, double((i * 7 + seed) % 13 - 6) / 16);
  };
  std::vector<std::byte> weight(48 * 48 * 4);
  for (const char* name : {"w", "v"}) {
    fill(weight, name[0]);
    store->copy_weight(name, weight).value();
  }
  auto context = runtime::Context::create(runtime::Executable::load(plan, *device).value(), store).value();
  context->set_symbol("n", n).value();
  fill(context->argument("x").value(), n);
  context->run().value();
  const auto result = context->result("y").value();
  std::vector<float> values(result.bytes.size() / 4);
  std::memcpy(values.data(), result.bytes.data(), result.bytes.size());
  return values;
}

TEST(PlanSearch, FindsKeepsAndStaysRight) {
  const ScratchFolder folder("plan_search");
  const Module module = parse_module(program);
  auto cache = std::make_shared<TuningCache>(folder.file());
  ThreadPool pool(2);
  Options options = search_in(folder, cache, pool);
  OneList one_list;
  one_list.limit(options.search);
  const auto searched = compile(module, options).value();
  ASSERT_TRUE(searched.search);
  const SearchSummary& s = *searched.search;
  EXPECT_GT(one_list.told, 2);
  EXPECT_EQ(s.kernels, 1) << "equal layers are one kernel";
  EXPECT_EQ(s.searched, 1);
  EXPECT_GE(s.tried, 3);
  EXPECT_EQ(s.mismatches, 0);
  EXPECT_GT(s.kernels_before, 0);
  EXPECT_LE(s.program_after, s.program_before);
  int others = 0;
  for (const auto& [cause, count] : s.rejected) {
    others += count;
    EXPECT_THAT((std::vector<std::string>{"slower", "illegal", "same code", "not timed", "bound", "no end"}),
                testing::Contains(cause));
  }
  EXPECT_EQ(others, s.tried - 1);
  EXPECT_THAT(searched.report(), HasSubstr("search: 1 of 1 kernels tuned"));

  // A later compilation finds the same, and a plan means what the default one means.
  Options fast = options;
  fast.search = {};
  fast.tuning = std::make_shared<TuningCache>(folder.file());
  const auto later = compile(module, fast).value();
  EXPECT_EQ(later.schedules, searched.schedules);
  fast.tuning = nullptr;
  const auto usual = compile(module, fast).value();
  for (const int64_t n : {1, 7, 64}) {
    const auto want = run(usual.plan, pool, n), got = run(searched.plan, pool, n);
    ASSERT_EQ(want.size(), got.size());
    for (size_t i = 0; i < want.size(); i++) ASSERT_NEAR(want[i], got[i], 1e-5) << n << " " << i;
    EXPECT_EQ(got, run(later.plan, pool, n));
  }
  ThreadPool one(1); // one plan, any number of workers: the same bits
  EXPECT_EQ(run(searched.plan, one, 64), run(searched.plan, pool, 64));
}

TEST(PlanSearch, StopsWhenAskedAndKeepsThePlan) {
  const ScratchFolder folder("plan_search_stop");
  ThreadPool pool(1);
  Options options = search_in(folder, std::make_shared<TuningCache>(folder.file()), pool);
  options.search.mode = SearchMode::optimal;
  options.search.stop = [] { return true; };
  const auto compiled = compile(parse_module(program), options).value();
  ASSERT_TRUE(compiled.search);
  EXPECT_EQ(compiled.search->searched, 0);
  EXPECT_FALSE(compiled.search->complete);
  EXPECT_EQ(run(compiled.plan, pool, 3).size(), 3u * 48);
}

TEST(PlanSearch, WaitingForOthersWhoMeasureIsNotCharged) {
  const ScratchFolder folder("plan_search_waits");
  ThreadPool pool(1);
  Options options = search_in(folder, nullptr, pool);
  options.rules.on = false; // else plans of regions take a share of the time
  constexpr double budget = 100, wait = 3;
  options.search.seconds = budget;
  double left = -1;
  options.search.progress = [&](const SearchProgress& p) {
    if (left < 0) left = p.left;
  };
  options.search.stop = [&] { return left >= 0; };
  auto held = search::MeasureLock::acquire(options.measure_lock);
  ASSERT_TRUE(held) << held.error();
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::duration<double>(wait));
    const search::MeasureLock let_go = std::move(*held);
  });
  const auto compiled = compile(parse_module(program), options);
  other.join();
  ASSERT_TRUE(compiled) << compiled.error();
  EXPECT_GT(left, budget - wait + 0.5);
}

TEST(PlanSearch, TheFilterNamesKernels) {
  const ScratchFolder folder("plan_search_filter");
  ThreadPool pool(1);
  Options options = search_in(folder, nullptr, pool); // no cache: kept for as long as it takes
  options.rules.on = false;                           // two kernels, as the terms came
  options.search.filter = "no such kernel";
  EXPECT_THAT(compile(parse_module(program), options).error(),
              testing::HasSubstr("no kernel's name, results or weights hold \"no such kernel\"; there are\n"
                                 "  k0 y1[n, 48] (w)"));
  OneList one_list;
  one_list.limit(options.search);
  options.search.filter = "y1[";
  EXPECT_EQ(compile(parse_module(program), options).value().search->searched, 1);
}

/// Rows of a table at places from memory, and numbers divided by such: no range proves either, and
/// a plan checks both before it launches.
TEST(PlanSearch, KernelsWhoseIndicesThePlanChecksAreTuned) {
  const ScratchFolder folder("plan_search_indices");
  const Module module = parse_module(R"(
fn @main(%x: f32[500, 64], %at: i32[256], %by: i32[256]) {
  %y = view %x [i: 256, j: 8, k: 64] with h = %at[i] in 0..499, d = %by[i] in 0..7 -> [h * 2 + j // d, k]
  %f = fold [i: 256, j: 8, k: 64] over [j] { sum %y[i, j, k] }
  %g = get %f, 0
  return y = %g
})");
  auto cache = std::make_shared<TuningCache>(folder.file());
  ThreadPool pool(1);
  Options options = search_in(folder, cache, pool);
  OneList one_list;
  one_list.limit(options.search);
  const auto searched = compile(module, options);
  ASSERT_TRUE(searched) << searched.error();
  EXPECT_EQ(searched->search->searched, 1) << searched->report();
  EXPECT_EQ(searched->search->mismatches, 0);
  EXPECT_THAT(searched->search->notes, testing::IsEmpty()) << "the whole program runs with the inputs drawn";
}

/// A kernel updates a copy of the constant in place; by itself it has a state there.
TEST(PlanSearch, KernelsThatScatterIntoAConstantAreTuned) {
  const ScratchFolder folder("plan_search_constant");
  const Module module = parse_module(R"(
fn @main(%x: i32[256], %at: i64[256]) {
  %c = const i32[2] {3, 5}
  %y = scatter min %c, %x [i: 256] with h = %at[i] in 0..1 clamp -> [h]
  return y = %y
})");
  auto cache = std::make_shared<TuningCache>(folder.file());
  ThreadPool pool(1);
  Options options = search_in(folder, cache, pool);
  OneList one_list;
  one_list.limit(options.search);
  const auto searched = compile(module, options);
  ASSERT_TRUE(searched) << searched.error();
  EXPECT_EQ(searched->search->searched, 1) << searched->report();
  EXPECT_EQ(searched->search->mismatches, 0);
}

TEST(ProgramRace, DrawsInputsThatThePlanAccepts) {
  ThreadPool pool(1);
  Options options = Options::host(1);
  options.cache = false;
  ProgramRace race({.pool = &pool, .sizes = {{"S", 8}}});
  // A size that is refused whatever the inputs are; indices below a dimension; a divisor.
  const auto plan = [&](const char* text) { return compile(parse_module(text), options).value().plan; };
  const auto refused = race.add(plan(R"(symbol S: 1..100
fn @main(%x: f32[8], %z: f32[S]) {
  %y = view %x [i: S] -> [i * 2]
  return y = %y
})"));
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error(), HasSubstr("no inputs are known"));
  EXPECT_TRUE(race.add(plan(R"(symbol S: 1..100
fn @main(%x: f32[S], %at: i32[64]) {
  %y = view %x [i: 64] with h = %at[i] in 0..99 -> [h]
  return y = %y
})")));
  EXPECT_TRUE(race.add(plan(R"(
fn @main(%x: f32[8], %at: i32[64]) {
  %y = view %x [i: 64] with h = %at[i] in 0..7 -> [8 // h - 1]
  return y = %y
})")));
}

TEST(ProgramRace, TellsTheFasterProgramAndRefusesTooMuchMemory) {
  ThreadPool pool(1);
  Options options = Options::host(1);
  options.cache = false;
  const auto term = [](int depth) {
    return parse_module(
        fmt::format("fn @main(%x: f32[64, {0}]) {{\n  %f = fold [r: 64, c: {0}] over [c] {{ sum %x[r, c] "
                    "}}\n  %y = get %f, 0\n  return y = %y\n}}",
                    depth));
  };
  ProgramRace race({.pool = &pool});
  const ProgramId small = race.add(compile(term(64), options).value().plan).value();
  const ProgramId large = race.add(compile(term(1 << 16), options).value().plan).value();
  const auto times = race.compare(small, large, 0, 5, {}).value();
  EXPECT_EQ(times.rounds, 5);
  EXPECT_LT(times.first, times.second); // by a factor of a thousand
  ProgramRace poor({.pool = &pool, .most_bytes = 1000});
  const auto refused = poor.add(compile(term(64), options).value().plan);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error(), HasSubstr("are free"));
}

} // namespace
} // namespace luminal::compile::plan_search_test
