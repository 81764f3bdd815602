// tests/tensor/effects_test.cpp -- print, dump, diff: what they write, in which order, and that
// they copy nothing.
#include "support.h"
#include <cmath>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <unistd.h>

namespace luminal {
namespace {

using namespace testing_tensor;
using testing::ElementsAre;
using testing::HasSubstr;

/// Collects what graphs print, and gives a folder.
class Effects : public testing::Test {
protected:
  Effects()
      : folder_(std::filesystem::temp_directory_path() / ("luminal-effects-" + std::to_string(getpid()))) {
    std::filesystem::create_directories(folder_);
    set_print_sink([this](std::string_view line) { lines_.emplace_back(line); });
  }
  ~Effects() override {
    set_print_sink({});
    std::filesystem::remove_all(folder_);
  }
  std::string file(const std::string& name) const { return (folder_ / name).string(); }
  std::filesystem::path folder_;
  std::vector<std::string> lines_;
};

TEST_F(Effects, PrintKeepsItsTensorAliveAndTheOrder) {
  Graph g;
  Dim n = g.dim("n", 1, 5000);
  Tensor x = g.tensor({n}, DType::f32, "x");
  print(x * 2, "twice");
  print(x);
  Tensor big = g.iota({10, 10}, [](const Dims& i) { return i[0] * 10 + i[1]; });
  Tensor passed = print(big, "big");
  Tensor after = (passed + 1).keep();
  x.set_dyn({1.5, 2.0, NAN});
  g.execute();
  EXPECT_THAT(lines_,
              ElementsAre("twice: f32[3], 3 values: 3 4 nan", "x: f32[3], 3 values: 1.5 2 nan",
                          "big: i64[10, 10], 100 values: 0 1 2 3 4 ... 48 49 50 51 52 ... 95 96 97 98 99"));
  EXPECT_EQ(after.data<int>()[99], 100);
  lines_.clear();
  x.set_dyn(std::vector<int>{7});
  g.execute();
  EXPECT_EQ(lines_[0], "twice: f32[1], 1 value: 14");
  EXPECT_EQ(lines_.size(), 3u);
}

TEST_F(Effects, PrintDoesNotCopy) {
  Graph g;
  constexpr int64_t count = 100'000'000;
  Tensor x = g.tensor({count}, DType::u8, "x");
  print(x);
  std::vector<uint8_t> memory(count, 7);
  x.borrow(std::span<const uint8_t>(memory));
  g.compile();
  EXPECT_EQ(g.memory().arena, 0) << "the printed value has no storage of its own";
  ExecutionTable table = g.execute_debug();
  ASSERT_EQ(table.steps.size(), 1u) << table;
  EXPECT_EQ(table.steps[0].name, "host print");
  EXPECT_THAT(lines_,
              ElementsAre("x: u8[100000000], 100000000 values: 7 7 7 7 7 ... 7 7 7 7 7 ... 7 7 7 7 7"));
}

TEST_F(Effects, PrintOfAStateShowsTheOldValue) {
  Graph g;
  Tensor s = g.state("s", {2}), x = g.tensor({2});
  print(s, "old");
  Tensor next = s + x;
  g.update(s, next);
  print(next, "new");
  x.set({1, 2});
  g.execute();
  g.execute();
  EXPECT_THAT(lines_, ElementsAre("old: f32[2], 2 values: 0 0", "new: f32[2], 2 values: 1 2",
                                  "old: f32[2], 2 values: 1 2", "new: f32[2], 2 values: 2 4"));
}

TEST_F(Effects, AFenceDoesNotHideItsInputFromAnUpdateInPlace) {
  Graph g;
  Tensor base = g.tensor({4}), doubled = base * 2, row = g.tensor({1});
  Tensor fenced = print(doubled, "doubled"), changed = fenced.update(0, 0, row).keep(),
         sum = (doubled + 1).keep();
  base.set({1, 2, 3, 4});
  row.set({100});
  g.execute();
  EXPECT_THAT(changed.data<float>(), ElementsAre(100, 4, 6, 8));
  EXPECT_THAT(sum.data<float>(), ElementsAre(3, 5, 7, 9));
  EXPECT_EQ(lines_[0], "doubled: f32[4], 4 values: 2 4 6 8");
}

TEST_F(Effects, DumpAndDiffThroughFiles) {
  for (const char* name : {"x.npy", "x.safetensors"}) {
    Graph g;
    Tensor x = g.tensor({2, 3}, DType::f32, "x"), y = x * 1;
    dump(y.set_name("y"), file(name));
    x.set({{1, 2, 3}, {4, 5, 6}});
    g.execute();
    Graph h;
    Tensor z = h.tensor({2, 3}, DType::f32, "z"), w = (z + 0).set_name("y").keep();
    diff(w, file(name));
    z.set({{1, 2, 3}, {4, 5, 6}});
    h.execute();
    EXPECT_THAT(lines_.at(0), HasSubstr("equal within the tolerances, 6 values"));
    z.set({{1.f, 2.f, 3.f}, {4.f, NAN, 7.f}});
    h.execute();
    EXPECT_EQ(lines_.at(1), "y and " + file(name) +
                                ": 2 of 6 values differ\n"
                                "  NaN: 1 here, 0 expected\n"
                                "  range: 1 .. 7 here, 1 .. 6 expected\n"
                                "  error: average 0.2, largest 1 (relative 0.167), mean squared 0.2\n"
                                "  percentiles: 50 % 0, 95 % 1, 99 % 1\n"
                                "  [1, 1]: nan here, 5 expected\n"
                                "  [1, 2]: 7 here, 6 expected");
    DiffReport report = compare(w, file(name), {.absolute = 2});
    EXPECT_EQ(report.failed, 1) << "NaN never passes";
    EXPECT_EQ(report.nan_here, 1);
    lines_.clear();
  }
}

TEST_F(Effects, DiffMeasuresErrors) {
  Graph g;
  constexpr int64_t n = 1000;
  Tensor x = g.tensor({n}, DType::f64, "x");
  dump(x, file("many.npy"));
  std::vector<double> values(n, 1);
  x.set(values);
  g.execute();
  for (int64_t i = 0; i < n; i++) values[size_t(i)] += double(i) * 1e-3; // errors 0, 0.001, .. 0.999
  Graph h;
  Tensor y = h.tensor({n}, DType::f64, "y");
  y.set(values);
  DiffReport report = compare(y, file("many.npy"), {.relative = 0.5, .absolute = 0});
  EXPECT_EQ(report.failed, 499);
  EXPECT_NEAR(report.average, 0.4995, 1e-9);
  EXPECT_NEAR(report.largest, 0.999, 1e-9);
  EXPECT_NEAR(report.largest_relative, 0.999, 1e-9);
  EXPECT_NEAR(report.percentile_50, 0.499, 1e-6);
  EXPECT_NEAR(report.percentile_95, 0.949, 1e-6);
  EXPECT_NEAR(report.percentile_99, 0.989, 1e-6);
  ASSERT_EQ(report.worst.size(), 10u);
  EXPECT_THAT(report.worst[0].index, ElementsAre(999));
  EXPECT_THAT(report.worst[9].index, ElementsAre(990));
  EXPECT_THAT(to_string(report, true), HasSubstr("\033[31m499 of 1000 values differ\033[0m"));
  EXPECT_THAT(to_string(report), testing::Not(HasSubstr("\033")));
}

TEST_F(Effects, RawFilesAreTheNumbersAsF32) {
  Graph g;
  Tensor x = g.tensor({2, 2}, DType::bf16, "x");
  dump(x, file("x.f32"));
  x.set({{1, 2}, {3, 4.5}});
  g.execute();
  EXPECT_EQ(std::filesystem::file_size(file("x.f32")), 16u);
  EXPECT_TRUE(compare(x, file("x.f32")).passed());
  diff(x + 1, file("x.f32"));
  g.execute();
  EXPECT_THAT(lines_.back(), HasSubstr("4 of 4 values differ"));
  Tensor y = g.tensor({3}, DType::f32, "y");
  y.set({1, 2, 3});
  EXPECT_THAT(error_of([&] { compare(y, file("x.f32")); }),
              testing::ContainsRegex("x.f32: 16 bytes, the tensor has 3 elements of 4"));
}

TEST_F(Effects, MistakesSayWhatToDo) {
  Graph g, inner;
  Tensor x = g.tensor({2}, DType::bf16, "x");
  EXPECT_ERROR(dump(x, "x.txt"), "[dump] x.txt: the name must end in .npy, .safetensors or .f32");
  EXPECT_ERROR(dump(x, "x.npy"), "[dump] x.npy: NumPy has no bf16; cast the tensor first");
  EXPECT_ERROR(print(Tensor()), "[print] a tensor is empty: it was never made from a graph");
  x.set({1, 2});
  EXPECT_ERROR(compare(x, file("none.npy")), "[compare] " + file("none.npy") + ": No such file or directory");
  Tensor y = g.tensor({3}, DType::f32, "y");
  y.set({1, 2, 3});
  dump(y, file("y.npy"));
  g.execute();
  EXPECT_ERROR(compare(x, file("y.npy")), "[compare] " + file("y.npy") + " has shape [3], the tensor [2]");
  Graph h;
  diff(h.constant(1.f), file("y.npy"));
  EXPECT_ERROR(h.execute(), "[execute] [compare] " + file("y.npy") + " has shape [3], the tensor []");
  Graph full;
  dump(full.constant(1.f), "/proc/no/x.npy");
  EXPECT_THAT(error_of([&] { full.execute(); }), HasSubstr("/proc/no/x.npy"));
}

TEST_F(Effects, TheTermsSayItAll) {
  Graph g;
  Tensor x = g.tensor({2}, DType::f32, "x");
  print(x, "one");
  print(x + 1, "two");
  const std::string text = g.to_string();
  EXPECT_THAT(text, HasSubstr("host print \"one\" (%x)"));
  EXPECT_THAT(text, HasSubstr("effect1 = "));
  EXPECT_THAT(text, HasSubstr("after effect0"));
}

} // namespace
} // namespace luminal
