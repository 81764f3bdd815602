// measurer_test.cpp -- kernels timed and run in this process and in a worker; candidates that
// crash, hang, write beside their arguments.
#include "codegen/codegen.h"
#include "search/measurer.h"
#include <chrono>
#include <cstring>
#include <gmock/gmock.h>

namespace luminal::search::measurer_test {
namespace {
using testing::HasSubstr;

// What cannot be: a sanitizer that watches threads refuses new ones after a fork.
#if defined(__SANITIZE_THREAD__)
constexpr bool can_fork = false;
#else
constexpr bool can_fork = true;
#endif

constexpr int64_t count = 1000;

CandidateCode code_of(const std::string& text) {
  const kernel::Kernel kernel = kernel::parse_kernel(text);
  auto compiled = codegen::compile(kernel, codegen::CpuTarget::host()).value();
  return {std::make_shared<const std::vector<std::byte>>(std::move(compiled.object)), compiled.entry, 0, 0};
}
std::string kernel_text(const std::string& to, const std::string& value, const std::string& extent = "n") {
  return "kernel k(x: f32[n] in, s: i64[2] in, y: f32[n] out; n: 1..100000)\n  parallel i in 0.." + extent +
         "\n    y[" + to + "] = " + value + "\n";
}
const std::string twice = kernel_text("i", "x[i] * 2");

std::shared_ptr<const Workload> work(int threads = 2) {
  auto w = std::make_shared<Workload>();
  WorkArgument x{"x", DType::f32, kernel::Access::in, count * 4, {}},
      s{"s", DType::i64, kernel::Access::in, 16, {}};
  x.content.resize(size_t(x.bytes));
  for (int64_t i = 0; i < count; i++) store_f64(DType::f32, x.content.data(), i, double(i));
  s.content.resize(16);
  const int64_t far[2] = {int64_t(1) << 40, 7};
  std::memcpy(s.content.data(), far, 16);
  w->arguments = {x, s, {"y", DType::f32, kernel::Access::out, count * 4, {}}};
  w->symbols = {count};
  w->threads = threads;
  return w;
}

std::vector<std::unique_ptr<Measurer>> both(const MeasurerOptions& options = {.rotate_bytes = 1 << 20}) {
  std::vector<std::unique_ptr<Measurer>> all;
  all.push_back(make_in_process_measurer(work(), options));
  if (can_fork) all.push_back(make_worker_measurer(work(), options));
  return all;
}

TEST(Measurer, RunsAndTimes) {
  for (const auto& measurer : both()) {
    const auto a = measurer->add(code_of(twice));
    ASSERT_TRUE(a) << a.error();
    const auto b = measurer->add(code_of(kernel_text("i", "x[i] + 1", "n - 1"))); // leaves the last one alone
    ASSERT_TRUE(b) << b.error();
    for (int turn = 0; turn < 2; turn++) {
      const auto outputs = measurer->run(*a, std::byte{0xFF});
      ASSERT_TRUE(outputs) << outputs.error();
      ASSERT_EQ(outputs->size(), 3u);
      EXPECT_TRUE((*outputs)[0].empty() && (*outputs)[1].empty());
      for (int64_t i = 0; i < count; i++)
        ASSERT_EQ(load_f64(DType::f32, (*outputs)[2].data(), i), 2 * double(i));
      const auto short_one = measurer->run(*b, std::byte{0xFF});
      ASSERT_TRUE(short_one) << short_one.error();
      EXPECT_EQ(load_f64(DType::f32, (*short_one)[2].data(), 7), 8);
      EXPECT_TRUE(std::isnan(load_f64(DType::f32, (*short_one)[2].data(), count - 1))) << "not poisoned";
      const auto begin = std::chrono::steady_clock::now();
      const auto seconds = measurer->time(*a, 50);
      const std::chrono::duration<double> whole = std::chrono::steady_clock::now() - begin;
      ASSERT_TRUE(seconds) << seconds.error();
      EXPECT_GT(*seconds, 0);
      EXPECT_LE(*seconds * 50, whole.count()) << "it is the time of one launch";
    }
    EXPECT_FALSE(measurer->add({std::make_shared<std::vector<std::byte>>(100), "k", 0, 0}) &&
                 measurer->time(2, 1));
    EXPECT_TRUE(measurer->time(*b, 3)); // what cannot be loaded does no harm
  }
}

TEST(Measurer, WritingBesideAnArgumentIsSeen) {
  for (const auto& measurer : both()) {
    // y has 4000 bytes: 32 lie between its end and the guard page, or its begin and the other one.
    const auto after = measurer->add(code_of(kernel_text("i + 2", "x[i]")));
    ASSERT_TRUE(after);
    const auto outputs = measurer->run(*after, std::byte{0});
    ASSERT_FALSE(outputs);
    EXPECT_THAT(outputs.error(), HasSubstr("wrote beside y"));
  }
}

TEST(MeasurerWorker, SurvivesCrashes) {
  if (!can_fork) GTEST_SKIP() << "a fork under the thread sanitizer";
  const auto measurer = make_worker_measurer(work(), {.rotate_bytes = 1 << 20});
  const int good = *measurer->add(code_of(twice));
  const int wild =
      *measurer->add(code_of("kernel k(x: f32[n] in, s: i64[2] in, y: f32[n] out; n: 1..100000)\n"
                             "  for i in 0..n\n    y[i + 1073741824] = x[i]\n"));
  const int over = *measurer->add(code_of(kernel_text("i + 2000", "x[i]")));
  for (int turn = 0; turn < 3; turn++) {
    for (const int bad : {wild, over}) {
      const auto outputs = measurer->run(bad, std::byte{0});
      ASSERT_FALSE(outputs);
      EXPECT_THAT(outputs.error(), HasSubstr("crashed: signal 11"));
    }
    const auto seconds = measurer->time(wild, 1);
    ASSERT_FALSE(seconds);
    EXPECT_THAT(seconds.error(), HasSubstr("crashed: "));
    const auto outputs = measurer->run(good, std::byte{0xFF});
    ASSERT_TRUE(outputs) << outputs.error();
    EXPECT_EQ(load_f64(DType::f32, (*outputs)[2].data(), 9), 18);
    EXPECT_TRUE(measurer->time(good, 10));
  }
  EXPECT_TRUE(measurer->add(code_of(twice)));
}

TEST(MeasurerWorker, AnEndlessCandidateIsStopped) {
  if (!can_fork) GTEST_SKIP() << "a fork under the thread sanitizer";
  const auto measurer = make_worker_measurer(work(), {.rotate_bytes = 0, .seconds = 0.5});
  const int good = *measurer->add(code_of(twice));
  const int endless =
      *measurer->add(code_of("kernel k(x: f32[n] in, s: i64[2] in, y: f32[n] out; n: 1..100000)\n"
                             "  let h in 0..1152921504606846976 = s[0]\n"
                             "  for r in 0..h\n    y[0] = y[0] * x[1] + x[2]\n"));
  for (int turn = 0; turn < 2; turn++) {
    const auto outputs = measurer->run(endless, std::byte{0});
    ASSERT_FALSE(outputs);
    EXPECT_THAT(outputs.error(), HasSubstr("no end within 500"));
    const auto fine = measurer->run(good, std::byte{0});
    EXPECT_TRUE(fine) << fine.error();
  }
}

} // namespace
} // namespace luminal::search::measurer_test
