// tests/tensor/runner_test.cpp -- Runner: results in memory of the caller.
#include "luminal/luminal.h"
#include "luminal/runner.h"
#include <array>
#include <atomic>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <string>
#include <sys/mman.h>
#include <sys/resource.h>

namespace luminal {
namespace {

int64_t faults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt + usage.ru_majflt;
}

bool has_large_pages() {
  std::ifstream file("/sys/kernel/mm/transparent_hugepage/enabled");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return text.find("[madvise]") != std::string::npos || text.find("[always]") != std::string::npos;
}

/// Fresh memory, which the system has not handed out yet.
class Fresh {
public:
  explicit Fresh(size_t bytes)
      : bytes_(bytes),
        data_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {}
  ~Fresh() { munmap(data_, bytes_); }
  void* data() const { return data_; }

private:
  size_t bytes_;
  void* data_;
};

TEST(Runner, LargeResultsTakeLargePages) {
  if (!has_large_pages()) GTEST_SKIP() << "this system gives no large pages";
  constexpr int64_t count = 8 << 20;
  Graph g;
  Dim n = g.dim("n", 1, count);
  Tensor x = g.tensor({1}), y = (x + 1).expand({n});
  Runner runner(g, {"n"}, {x}, {y});
  const float one = 1;
  for (const int64_t size : {count, count / 2 + 3}) { // of which the second has other bytes
    Fresh memory(size_t(size) * 4 + 4096);
    const void* source = &one;
    void* target = memory.data();
    runner.run(std::array{int64_t(1)}, std::array{source}, std::array{target}); // compiles
    const int64_t before = faults();
    runner.run(std::array{size}, std::array{source}, std::array{target});
    EXPECT_LT(faults() - before, size * 4 / 4096 / 4) << "of " << size * 4 / 4096 << " small pages";
    const auto* values = static_cast<const float*>(target);
    EXPECT_EQ(values[0], 2);
    EXPECT_EQ(values[size - 1], 2);
  }
}

/// Of a kernel that takes seconds; a launch before and behind it, so that there is a graph of tasks, too.
TEST(Runner, StopIsAskedInTheMiddleOfALongKernel) {
  for (const int threads : {1, 2}) {
    for (const bool several : {false, true}) {
      Graph g;
      Tensor x = g.tensor({512, 1}), y = g.tensor({1, 1 << 23});
      Tensor sums = ((several ? x.exp() : x) * y).exp().sum(1);
      (several ? sums.softmax(0) : sums).keep();
      x.set(std::vector<float>(512, 0)), y.set(std::vector<float>(1 << 23, 1));
      std::atomic<int> asked = 0;
      bool runs = false;
      g.compile({.threads = threads, .stop = [&] { return runs && asked++ >= 8; }});
      runs = true;
      EXPECT_THROW(g.execute(), Error) << threads << " threads, " << several;
    }
  }
}

} // namespace
} // namespace luminal
