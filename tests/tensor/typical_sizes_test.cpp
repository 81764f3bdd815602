// tests/tensor/typical_sizes_test.cpp -- several typical sizes: each has its tuned schedules,
// execute takes the nearest, and all programs share weights and states.
#include "compile/random_answers.h"
#include "search/tuning_support.h"
#include "support.h"
#include "tensor/graph_state.h"

namespace luminal {
namespace {

using namespace testing_tensor;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

/// y = relu(x w^T), a running count of rows, and what a tuning for some sizes would have left in
/// the cache.
struct Net {
  Graph g;
  Dim batch = g.dim("batch", 1, 64);
  Tensor x = g.tensor({batch, 32}, DType::f32, "x"), w = g.weight("w", {48, 32}),
         rows = g.state("rows", {1}, DType::i64);
  Tensor y = linear(x, w).relu().set_name("y").keep();

  Net() {
    g.update(rows, rows + x.sum({1}).cast(DType::i64).sum({0}, true));
    w.set(std::vector<float>(48 * 32, 0.5f));
  }
  /// Schedules that are not those of any other size.
  void tune(int64_t size) {
    compile::Options options = compile::Options::host(1);
    options.sizes = {{"batch", size}};
    search::TuningCache cache(search::TuningCache::default_path());
    std::mt19937_64 random{uint64_t(size)};
    int others = 0;
    for (int i = 0; i < 20 && others == 0; i++)
      others = testing_answers::put_random_schedules(g.state()->snapshot(), options, cache, random);
    EXPECT_GT(others, 0) << "of batch = " << size;
  }
  /// The line of the report about the program that ran last.
  std::string step(int64_t size) {
    g.set_dim("batch", size);
    x.set(std::vector<float>(size_t(size) * 32, 1.f));
    g.execute();
    EXPECT_EQ(y.data<float>().size(), size_t(size) * 48);
    EXPECT_THAT(y.data<float>(), Each(16.f));
    std::istringstream lines(g.report());
    std::string line;
    while (std::getline(lines, line))
      if (line.ends_with(": the one that ran last")) return line.substr(0, line.find(": the one"));
    return "";
  }
};

TEST(TypicalSizes, EachHasItsSchedulesAndExecuteTakesTheNearest) {
  const search::CacheFolder folder("typical_sizes");
  Net net;
  net.tune(1);
  net.tune(64);
  net.g.compile({.threads = 1, .sizes = {{"batch", {1, 64}}}});
  const std::string report = net.g.report();
  EXPECT_THAT(report, HasSubstr("program for sizes near batch=1\n"));
  EXPECT_THAT(report, HasSubstr("program for sizes near batch=64\n"));
  EXPECT_THAT(report, Not(HasSubstr("tuned for other sizes")));
  EXPECT_THAT(report, Not(HasSubstr(": default schedule")));
  const std::string one = "program for sizes near batch=1", many = "program for sizes near batch=64";
  EXPECT_EQ(net.step(1), one);
  EXPECT_EQ(net.step(64), many);
  EXPECT_EQ(net.step(11), many); // 12 / 2 is more than 65 / 12
  EXPECT_EQ(net.step(10), one);
  EXPECT_EQ(net.step(7), one);
  // One state for both programs.
  EXPECT_THAT(net.rows.data<int64_t>(), ElementsAre(32 * (1 + 64 + 11 + 10 + 7)));
  // A weight that is set again reaches both.
  net.w.set(std::vector<float>(48 * 32, 0.25f));
  for (const int64_t size : {2, 50}) {
    net.g.set_dim("batch", size);
    net.x.set(std::vector<float>(size_t(size) * 32, 2.f));
    net.g.execute();
    EXPECT_THAT(net.y.data<float>(), Each(16.f)) << size;
  }
  net.g.reset_states();
  net.w.set(std::vector<float>(48 * 32, 0.5f));
  net.step(3);
  net.step(60);
  EXPECT_THAT(net.rows.data<int64_t>(), ElementsAre(32 * 63));
}

TEST(TypicalSizes, ArenasAreCountedAndHeldAgainstTheLimit) {
  const search::CacheFolder folder("typical_sizes_memory");
  Net net;
  net.g.compile({.threads = 1, .sizes = {{"batch", 1}}});
  const MemoryUse one = net.g.memory();
  net.tune(1);
  net.tune(64);
  net.g.compile({.threads = 1, .sizes = {{"batch", {1, 64}}}});
  const MemoryUse two = net.g.memory();
  EXPECT_GE(two.arena, one.arena + two.kept / 2);
  EXPECT_EQ(two.kept, 2 * one.kept);
  EXPECT_EQ(two.states, one.states);
  EXPECT_EQ(two.weights, one.weights);
  EXPECT_EQ(two.inputs, one.inputs);
  const int64_t needed = two.arena + two.states + two.loaded;
  net.g.compile({.threads = 1, .max_memory = needed, .sizes = {{"batch", {1, 64}}}});
  EXPECT_THAT(
      error_of(
          [&] { net.g.compile({.threads = 1, .max_memory = needed - 1, .sizes = {{"batch", {1, 64}}}}); }),
      testing::MatchesRegex("\\[compile\\] the 2 programs for typical sizes may need [0-9.]+ KiB, the limit "
                            "is [0-9.]+ KiB: name fewer sizes at typical_sizes_test.cpp:.*"));
}

TEST(TypicalSizes, OfEqualSchedulesAreOneProgram) {
  const search::CacheFolder folder("typical_sizes_equal");
  Net net;
  net.g.compile({.threads = 1, .sizes = {{"batch", {8, 1, 64}}}});
  EXPECT_THAT(net.g.report(), HasSubstr("program for sizes near batch=8, batch=1, batch=64\n"));
  EXPECT_EQ(net.step(64), "program for sizes near batch=8, batch=1, batch=64");
}

TEST(TypicalSizes, ASearchLooksAtEachOfThem) {
  const search::CacheFolder folder("typical_sizes_search");
  Net net;
  CompileOptions options{.threads = 1, .sizes = {{"batch", {1, 64}}}};
  options.search = {.mode = SearchMode::budget, .seconds = 0.2, .confirm = false};
  net.g.compile({.threads = 1, .sizes = {{"batch", 1}}, .search = options.search});
  const int kernels = net.g.search_summary()->kernels;
  net.g.compile(options);
  EXPECT_EQ(net.g.search_summary()->kernels, 2 * kernels);
  net.step(1);
  net.step(64);
}

} // namespace
} // namespace luminal
