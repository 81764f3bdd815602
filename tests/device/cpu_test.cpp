// device/cpu_test.cpp -- memory, limits, the null device, and objects that are not objects.
#include "base/thread_pool.h"
#include "device/cpu/cpu_device.h"
#include "device/cpu/elf_loader.h"
#include "device/null/null_device.h"
#include <cstring>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <random>

namespace luminal::device {
namespace {

TEST(CpuMemory, IsZeroAlignedAndGivenBack) {
  ThreadPool pool(2);
  auto cpu = make_cpu_device(pool);
  for (int64_t bytes : {int64_t(0), int64_t(1), int64_t(4097), int64_t(5) << 20})
    for (int64_t alignment : {64, 4096, 1 << 16})
      for (bool huge : {false, true}) {
        auto memory = cpu->allocate(bytes, {alignment, huge, true});
        ASSERT_TRUE(memory) << memory.error();
        EXPECT_EQ(memory->bytes, bytes);
        EXPECT_EQ(reinterpret_cast<uintptr_t>(memory->data) % uintptr_t(huge ? 2 << 20 : alignment), 0u);
        auto* p = static_cast<unsigned char*>(memory->data);
        for (int64_t i = 0; i < bytes; i += 511) {
          ASSERT_EQ(p[i], 0);
          p[i] = 7;
        }
        cpu->free(*memory);
      }
  cpu->free({}); // of nothing
}

TEST(CpuMemory, AddressSpaceIsMoreThanMemory) {
  ThreadPool pool(1);
  auto cpu = make_cpu_device(pool);
  auto memory = cpu->allocate(int64_t(1) << 40);
  ASSERT_TRUE(memory) << memory.error();
  auto* p = static_cast<char*>(memory->data);
  p[0] = p[(int64_t(1) << 40) - 1] = 1;
  cpu->free(*memory);
  auto refused = cpu->allocate(int64_t(1) << 62);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error(), testing::HasSubstr("4.0 EiB"));
  EXPECT_FALSE(cpu->allocate(-1).ok());
  EXPECT_FALSE(cpu->allocate(8, {3, false, true}).ok());
  EXPECT_GT(cpu->limits().memory_bytes, int64_t(1) << 28);
}

TEST(CpuMemory, DecommittedPagesReadAsZero) {
  ThreadPool pool(1);
  auto cpu = make_cpu_device(pool);
  auto memory = cpu->allocate(100000).value();
  auto* p = static_cast<unsigned char*>(memory.data);
  for (auto [offset, bytes] : {std::pair<int64_t, int64_t>{0, 100000},
                               {1, 99998},
                               {5000, 100},
                               {4096, 8192},
                               {12345, 54321},
                               {100000, 0}}) {
    std::memset(p, 9, 100000);
    cpu->decommit(memory, offset, bytes);
    for (int64_t i = 0; i < 100000; ++i)
      ASSERT_EQ(p[i], i >= offset && i < offset + bytes ? 0 : 9) << i << " of " << offset << "+" << bytes;
  }
  cpu->decommit(memory, 99999, 2); // beyond the end: nothing
  EXPECT_EQ(p[99999], 9);
  cpu->free(memory);
}

TEST(CpuMemory, CopiesByAddress) {
  ThreadPool pool(1);
  const std::unique_ptr<Device> devices[] = {make_cpu_device(pool), make_null_device("cuda")};
  for (const auto& d : devices) {
    auto memory = d->allocate(100).value();
    auto* p = static_cast<std::byte*>(memory.data);
    EXPECT_TRUE(d->limits().host_visible);
    EXPECT_TRUE(d->holds(p));
    EXPECT_TRUE(d->holds(p + 99));
    std::vector<std::byte> bytes(10, std::byte{5}), back(20);
    EXPECT_FALSE(d->holds(bytes.data()));
    ASSERT_TRUE(d->copy_in(p + 30, bytes));
    ASSERT_TRUE(d->copy(p + 35, p + 25, 10)); // 5 zeros, 5 fives
    ASSERT_TRUE(d->zero(p + 30, 2));
    ASSERT_TRUE(d->copy_out(back, p + 28));
    const int expected[] = {0, 0, 0, 0, 5, 5, 5, 0, 0, 0, 0, 0, 5, 5, 5, 5, 5, 0, 0, 0};
    for (size_t i = 0; i < back.size(); ++i) EXPECT_EQ(int(back[i]), expected[i]) << i;
    EXPECT_TRUE(d->copy_in(p, {}));
    EXPECT_TRUE(d->copy_out({}, p));
    d->free(memory);
    EXPECT_FALSE(d->holds(p));
  }
}

TEST(Loader, RefusesWhatIsNoObject) {
  ThreadPool pool(1);
  auto cpu = make_cpu_device(pool);
  std::mt19937_64 random(1);
  for (size_t size : {0, 1, 63, 64, 1000}) {
    std::vector<std::byte> bytes(size);
    for (auto& b : bytes) b = std::byte(random());
    Code code{bytes, "luminal_kernel"};
    auto loaded = cpu->load({&code, 1});
    ASSERT_FALSE(loaded);
    EXPECT_THAT(loaded.error(), testing::HasSubstr("object 0"));
  }
}

TEST(NullDevice, AcceptsWhatADeviceAcceptsAndRefusesTheRest) {
  auto null = make_null_device("cuda");
  EXPECT_EQ(null->name(), "null:cuda");
  std::vector<std::byte> text(4, std::byte{'x'});
  Code code{text, "k"};
  auto loaded = null->load({&code, 1});
  ASSERT_TRUE(loaded);
  auto memory = null->allocate(100).value();
  void* buffer = memory.data;
  LaunchArguments arguments;
  arguments.buffers = {&buffer, 1};
  EXPECT_TRUE(null->launch(loaded->kernels[0], arguments).ok());
  void* nothing = nullptr;
  arguments.buffers = {&nothing, 1};
  EXPECT_FALSE(null->launch(loaded->kernels[0], arguments).ok());
  null->unload(loaded->module);
  arguments.buffers = {&buffer, 1};
  EXPECT_FALSE(null->launch(loaded->kernels[0], arguments).ok());
  Code empty{{}, "k"};
  EXPECT_FALSE(null->load({&empty, 1}).ok());
  EXPECT_TRUE(null->synchronize().ok());
}

} // namespace
} // namespace luminal::device
