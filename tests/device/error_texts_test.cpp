// device/error_texts_test.cpp -- messages word for word: allocation, copies, loading, launches.
// tools/check_error_texts.py lists those that no test names.
#include "base/thread_pool.h"
#include "device/cpu/cpu_device.h"
#include "device/null/null_device.h"
#include <cstring>
#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace luminal::device::error_texts_test {
namespace {

template <class T> std::string error_of(const Result<T>& result) {
  return result ? "accepted" : result.error();
}

TEST(DeviceErrorTexts, Memory) {
  ThreadPool pool(1);
  auto cpu = make_cpu_device(pool);
  EXPECT_EQ(error_of(cpu->allocate(-1)),
            "cpu: cannot allocate -1 bytes aligned to 64, expected 0 bytes or more and a power of two");
  EXPECT_EQ(error_of(cpu->allocate(8, {3, false, true})),
            "cpu: cannot allocate 8 bytes aligned to 3, expected 0 bytes or more and a power of two");
  EXPECT_EQ(error_of(cpu->allocate(8, {0, false, true})),
            "cpu: cannot allocate 8 bytes aligned to 0, expected 0 bytes or more and a power of two");
  EXPECT_EQ(error_of(cpu->allocate(int64_t(1) << 62)),
            "cpu: cannot allocate 4.0 EiB: more than can be addressed");
  EXPECT_EQ(error_of(cpu->allocate(int64_t(1) << 60)),
            std::string("cpu: cannot allocate 1.0 EiB: ") + std::strerror(ENOMEM));
}

TEST(DeviceErrorTexts, Code) {
  ThreadPool pool(1);
  auto cpu = make_cpu_device(pool);
  const std::vector<std::byte> text(4, std::byte{'x'});
  const Code code{text, "k"}, empty{{}, "k"}, nameless{text, ""};
  EXPECT_EQ(error_of(cpu->load({&code, 1})), "cpu: object 0 cannot be loaded: it is cut off");
  auto null = make_null_device("cuda");
  for (const Code& wrong : {empty, nameless})
    EXPECT_EQ(error_of(null->load({&wrong, 1})),
              "null:cuda: code 0 is empty, expected an object and the name of its entry");
}

TEST(DeviceErrorTexts, Launches) {
  auto null = make_null_device("cuda");
  const std::vector<std::byte> text(4, std::byte{'x'});
  const Code code{text, "k"};
  const auto loaded = null->load({&code, 1}).value();
  void* nothing = nullptr;
  LaunchArguments arguments;
  EXPECT_EQ(error_of(null->launch(loaded.kernels[0] + 1, arguments)), "null:cuda: kernel 1 is not loaded");
  arguments.workers = null->limits().workers + 1;
  EXPECT_EQ(error_of(null->launch(loaded.kernels[0], arguments)),
            "null:cuda: " + std::to_string(arguments.workers) + " workers are asked for, there are " +
                std::to_string(null->limits().workers));
  arguments.workers = -1;
  EXPECT_EQ(error_of(null->launch(loaded.kernels[0], arguments)),
            "null:cuda: -1 workers are asked for, there are " + std::to_string(null->limits().workers));
  arguments.workers = 0;
  arguments.buffers = {&nothing, 1};
  EXPECT_EQ(error_of(null->launch(loaded.kernels[0], arguments)),
            "null:cuda: argument 0 of kernel 0 has no address");
}

} // namespace
} // namespace luminal::device::error_texts_test
