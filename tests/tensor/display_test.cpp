// tests/tensor/display_test.cpp -- whole graphs as pages, drawings and lines; what LUMINAL_DEBUG
// prints; the memory of the process while graphs run.
#include "ir/term.h"
#include "support.h"
#include "tensor/graph_state.h"
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <unistd.h>

namespace luminal {
namespace {

using namespace testing_tensor;
using testing::HasSubstr;
using testing::Not;

std::string text_of_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(Display, EndsOfNamesSayWhatIsWritten) {
  const auto folder =
      std::filesystem::temp_directory_path() / ("luminal-display-" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  Graph g;
  Tensor x = g.tensor({2, 3}, DType::f32, "x");
  (x.exp().set_name("grown") + 1).keep();
  const std::string html = (folder / "g.html").string(), dot = (folder / "g.dot").string(),
                    lum = (folder / "g.lum").string();
  EXPECT_EQ(display(g, html), html);
  EXPECT_EQ(text_of_file(html), g.to_html());
  EXPECT_THAT(text_of_file(html), testing::AllOf(HasSubstr("<html"), HasSubstr("grown"),
                                                 Not(HasSubstr("http://")), Not(HasSubstr("https://"))));
  EXPECT_EQ(display(g, dot), dot);
  EXPECT_THAT(text_of_file(dot), testing::AllOf(testing::StartsWith("digraph"), HasSubstr("grown")));
  EXPECT_EQ(display(g, lum), lum);
  EXPECT_TRUE(same_module(parse_module(text_of_file(lum)), g.state()->snapshot()));
  const std::string own = display(g), other = display(g);
  EXPECT_NE(own, other) << "a new file each time";
  EXPECT_TRUE(own.ends_with(".html"));
  EXPECT_EQ(text_of_file(own), g.to_html());
  std::filesystem::remove(own), std::filesystem::remove(other);
  const std::string nowhere = html + "/g.html"; // below a file
  EXPECT_THAT(error_of([&] { display(g, nowhere); }),
              testing::AllOf(testing::StartsWith("[display] "), HasSubstr(nowhere)));
  std::filesystem::remove_all(folder);
}

TEST(Display, NeedsAFolderForItsFile) {
  Graph g;
  g.tensor({2}, DType::f32, "x");
  const char* given = getenv("TMPDIR");
  const std::string before = given ? given : "";
  setenv("TMPDIR", "/nowhere", 1);
  EXPECT_THAT(error_of([&] { display(g); }),
              testing::StartsWith("[display] there is no folder for temporary files: "));
  if (given)
    setenv("TMPDIR", before.c_str(), 1);
  else
    unsetenv("TMPDIR");
}

TEST(Display, ShapesAreALineAValue) {
  Graph g;
  Dim n = g.dim("n", 1, 8);
  Tensor x = g.tensor({n, 2}, DType::f32, "x");
  x.sum({1}).set_name("total").exp();
  Tensor(x + 1).set_name("more");
  const std::string open = "name   op     shape\n"
                           "x      input  f32[n, 2]\n"
                           "total  fold   f32[n]\n"
                           "%3     exp    f32[n]\n"
                           "%4     const  f32\n"
                           "%5     view   f32[n, 2]\n"
                           "more   add    f32[n, 2]\n";
  EXPECT_EQ(display_shapes(g), open);
  g.set_dim("n", 5);
  EXPECT_THAT(display_shapes(g),
              testing::AllOf(HasSubstr("x      input  f32[n, 2] = [5, 2]\n"),
                             HasSubstr("total  fold   f32[n] = [5]\n"), HasSubstr("%4     const  f32\n")));
}

/// What a compilation prints with these settings.
std::string debug_text(const char* level, const char* filter) {
  setenv("LUMINAL_DEBUG", level, 1);
  setenv("LUMINAL_DEBUG_FILTER", filter, 1);
  Graph g;
  Tensor x = g.tensor({64}, DType::f32, "apples"), y = g.tensor({32, 4}, DType::f32, "pears");
  x.exp().keep();
  y.sin().keep();
  testing::internal::CaptureStderr();
  g.compile({.threads = 1});
  std::string text = testing::internal::GetCapturedStderr();
  unsetenv("LUMINAL_DEBUG");
  unsetenv("LUMINAL_DEBUG_FILTER");
  return text;
}
size_t count(const std::string& text, std::string_view word) {
  size_t found = 0;
  for (size_t at = 0; (at = text.find(word, at)) != std::string::npos; at++) found++;
  return found;
}

TEST(Debug, LevelsAreALadder) {
  EXPECT_EQ(debug_text("0", ""), "");
  size_t before = 0;
  const char* added[] = {"points, ", "order ", "pass ", " in 0..", "fn @main", "define ", ".text"};
  for (int level = 1; level <= 7; level++) {
    const std::string text = debug_text(std::to_string(level).c_str(), "");
    EXPECT_EQ(count(text, "points, "), 2u) << text;
    EXPECT_GT(text.size(), before) << level;
    before = text.size();
    if (level == 2) continue; // a schedule may be empty but for its marks
    for (int below = 1; below <= level; below++) {
      if (below == 2) continue;
      EXPECT_THAT(text, HasSubstr(added[below - 1])) << "level " << level;
    }
  }
}

TEST(Debug, TheFilterNamesKernelsByTheirTensors) {
  EXPECT_EQ(count(debug_text("1", ""), "kernel "), 2u);
  EXPECT_EQ(count(debug_text("1", "apples"), "kernel "), 1u);
  EXPECT_EQ(count(debug_text("1", "pears"), "kernel "), 1u);
  EXPECT_NE(debug_text("1", "pears"), debug_text("1", "apples"));
  EXPECT_EQ(count(debug_text("1", "apples,pears"), "kernel "), 2u);
  EXPECT_EQ(debug_text("1", "plums"), "");
  EXPECT_THAT(debug_text("4", "pears"), Not(HasSubstr("apples")));
  EXPECT_THAT(debug_text("3", "plums"), HasSubstr("pass ")) << "times of passes are of the whole";
}

// ---- memory of the process ----

/// In KiB, of this process: "VmHWM" (the most ever since it was reset) or "VmRSS".
int64_t kilobytes(const std::string& field) {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(field + ":")) return std::atoll(line.c_str() + field.size() + 1);
  return -1;
}
bool reset_peak() {
  std::ofstream out("/proc/self/clear_refs");
  out << "5" << std::flush;
  return bool(out);
}

TEST(Memory, OfAStepIsThatOfWhatIsAliveAtOnce) {
  if (!reset_peak() || kilobytes("VmHWM") < 0)
    GTEST_SKIP() << "the system does not count memory of a process";
  constexpr int64_t rows = 2048, one = rows * rows * 4 / 1024; // KiB: 16 MiB
  constexpr int count = 12;
  Graph g;
  Tensor x = g.tensor({rows, rows}, DType::f32, "x"), y = x;
  for (int i = 0; i < count; i++) y = y.cumsum(i % 2);
  y.keep();
  const std::vector<float> ones(rows * rows, 1e-6f);
  x.borrow(std::span<const float>(ones));
  g.compile({.threads = 1});
  const int64_t before = kilobytes("VmRSS");
  ASSERT_TRUE(reset_peak());
  g.execute();
  EXPECT_LE(kilobytes("VmHWM") - before, 4 * one) << "of " << count << " values two are alive at once";
  EXPECT_GT(y.data<float>()[0], 0);
}

TEST(Memory, PrintReadsInPlace) {
  if (!reset_peak() || kilobytes("VmHWM") < 0)
    GTEST_SKIP() << "the system does not count memory of a process";
  constexpr int64_t values = 100'000'000; // bytes
  Graph g;
  Tensor x = g.tensor({values}, DType::u8, "x");
  int64_t length = 0;
  set_print_sink([&](std::string_view line) { length += int64_t(line.size()); });
  print(x, "x");
  const std::vector<uint8_t> memory(values, 3);
  x.borrow(std::span<const uint8_t>(memory));
  g.compile({.threads = 1});
  const int64_t before = kilobytes("VmRSS");
  ASSERT_TRUE(reset_peak());
  g.execute();
  EXPECT_LE(kilobytes("VmHWM") - before, 16 * 1024) << "KiB; the values are 97,656 KiB";
  EXPECT_GT(length, 20);
  set_print_sink({});
}

} // namespace
} // namespace luminal
