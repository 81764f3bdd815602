// device/gpu_memory_test.cpp -- memory of GPUs on the libraries of device/fake: copies of all sizes around
// the halves that they go through, blocks that are used again, and what is said where there is no room. There
// a copy is done when somebody waits for it, not before.
#include "device/gpu/gpu_memory.h"
#include "device/gpu_host.h"
#include <cstring>
#include <gmock/gmock.h>
#include <random>
#include <thread>

namespace luminal::device {
namespace {
using namespace luminal::device::gpu;
using testing::HasSubstr;
using testing::Not;

constexpr int64_t half = GpuMemory::half_bytes, mega = int64_t(1) << 20;

std::vector<std::byte> noise(int64_t bytes, unsigned seed) {
  std::vector<std::byte> list(static_cast<size_t>(bytes));
  std::mt19937_64 random(seed); // no two parts are alike
  for (size_t i = 0; i < list.size(); i += 8) {
    const uint64_t word = random();
    std::memcpy(list.data() + i, &word, std::min<size_t>(8, list.size() - i));
  }
  return list;
}

class GpuMemoryHost : public GpuHost {};

TEST_P(GpuMemoryHost, CopiesOfAllSizesArrive) {
  const auto d = device();
  auto memory = d->allocate(4 * half).value();
  auto* p = static_cast<std::byte*>(memory.data);
  unsigned seed = 0;
  for (const int64_t bytes : {int64_t(1), int64_t(255), int64_t(256), int64_t(257), half - 257, half - 1,
                              half, half + 1, 2 * half - 1, 2 * half, 2 * half + 1, 3 * half + 12345})
    for (const int64_t offset : {0, 3, 256}) {
      SCOPED_TRACE(fmt::format("{} bytes at {}", bytes, offset));
      const std::vector<std::byte> sent = noise(bytes, ++seed);
      std::vector<std::byte> from = sent, back(size_t(bytes) + 1, std::byte{1});
      ASSERT_TRUE(d->zero(p, memory.bytes));
      ASSERT_TRUE(d->copy_in(p + offset, from));
      std::ranges::fill(from, std::byte{0xaa}); // it may be changed now
      ASSERT_TRUE(d->copy_out(back, p + offset));
      ASSERT_EQ(back.back(), std::byte{0}) << "a byte too many";
      back.pop_back();
      ASSERT_TRUE(back == sent);
    }
  d->free(memory);
}

/// Against the same on the host: many small copies share a half, large ones take both.
TEST_P(GpuMemoryHost, CopiesThatFollowEachOtherKeepTheirOrder) {
  const auto d = device();
  const int64_t all = 3 * half;
  auto memory = d->allocate(all).value();
  auto* p = static_cast<std::byte*>(memory.data);
  std::vector<std::byte> expected(static_cast<size_t>(all));
  std::mt19937_64 random(7);
  for (int turn = 0; turn < 300; ++turn) {
    const auto most = int64_t(turn % 10 == 0 ? 2 * half : 70000);
    const auto bytes = int64_t(random() % uint64_t(most)) + 1;
    const auto at = int64_t(random() % uint64_t(all - bytes));
    auto* there = expected.data() + at;
    switch (random() % 5) {
    case 0: {
      std::vector<std::byte> back(static_cast<size_t>(bytes));
      ASSERT_TRUE(d->copy_out(back, p + at));
      ASSERT_EQ(std::memcmp(back.data(), there, back.size()), 0) << "turn " << turn;
      break;
    }
    case 1:
      ASSERT_TRUE(d->zero(p + at, bytes));
      std::memset(there, 0, size_t(bytes));
      break;
    case 2: {
      const int64_t target = at >= bytes ? at - bytes : at + bytes;
      if (target + bytes > all) break;
      ASSERT_TRUE(d->copy(p + target, p + at, bytes));
      std::memcpy(expected.data() + target, there, size_t(bytes));
      break;
    }
    default: {
      const auto sent = noise(bytes, unsigned(turn));
      ASSERT_TRUE(d->copy_in(p + at, sent));
      std::ranges::copy(sent, there);
    }
    }
  }
  std::vector<std::byte> back(expected.size());
  ASSERT_TRUE(d->copy_out(back, p));
  EXPECT_TRUE(back == expected);
  d->free(memory);
}

TEST_P(GpuMemoryHost, ThreadsCopyAtTheSameTime) {
  const auto d = device();
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      for (int turn = 0; turn < 5; ++turn) {
        const auto sent = noise(half + 1000 * int64_t(t), 10 * t + unsigned(turn));
        auto memory = d->allocate(int64_t(sent.size())).value();
        std::vector<std::byte> back(sent.size());
        EXPECT_TRUE(d->copy_in(memory.data, sent));
        EXPECT_TRUE(d->copy_out(back, memory.data));
        EXPECT_TRUE(back == sent);
        d->free(memory);
      }
    });
  for (std::thread& t : threads) t.join();
}

/// What all tests rest on: memory of the fake device is out of the host's reach.
TEST_P(GpuMemoryHost, TheHostCannotTouchIt) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto d = device();
  auto memory = d->allocate(100).value();
  EXPECT_DEATH(*static_cast<volatile char*>(memory.data) = 1, "");
  d->free(memory);
}

TEST_P(GpuMemoryHost, BlocksAreUsedAgain) {
  const auto d = device();
  auto first = d->allocate(100000).value();
  ASSERT_TRUE(d->copy_in(first.data, noise(100000, 1)));
  d->free(first);
  fake_.log();
  auto second = d->allocate(99000).value();
  EXPECT_EQ(second.data, first.data);
  EXPECT_EQ(second.bytes, 99000);
  std::vector<std::byte> back(99000, std::byte{1});
  ASSERT_TRUE(d->copy_out(back, second.data));
  EXPECT_EQ(back, std::vector<std::byte>(99000)); // zero again
  EXPECT_THAT(fake_.log(), Not(HasSubstr("allocate")));
  d->free(second);
  // Not for less than eight ninths of it, and not for more.
  auto less = d->allocate(80000).value(), more = d->allocate(120000).value();
  EXPECT_NE(less.data, first.data);
  EXPECT_NE(more.data, first.data);
  EXPECT_EQ(fake_.log(), "allocate 81920\nallocate 122880\n");
  d->free(less);
  d->free(more);
}

TEST_P(GpuMemoryHost, BlocksAreALittleLarger) {
  EXPECT_EQ(GpuMemory::block_bytes(0), 256);
  EXPECT_EQ(GpuMemory::block_bytes(256), 256);
  EXPECT_EQ(GpuMemory::block_bytes(257), 512);
  EXPECT_EQ(GpuMemory::block_bytes(INT64_MAX) % 256, 0);
  std::mt19937_64 random(3);
  for (int i = 0; i < 10000; ++i) {
    const auto bytes = int64_t(random() >> (20 + random() % 40)) + 1;
    const int64_t block = GpuMemory::block_bytes(bytes);
    ASSERT_GE(block, bytes);
    ASSERT_LT(block - bytes, std::max<int64_t>(256, std::min<int64_t>(bytes / 8 + 1, 2 * mega))) << bytes;
    ASSERT_EQ(GpuMemory::block_bytes(block), block);
  }
}

TEST_P(GpuMemoryHost, AnEighthOfTheDeviceIsKept) {
  fake_.pretend("memory=64");
  const auto d = device();
  std::vector<Memory> blocks;
  for (const int64_t bytes : {4 * mega, 2 * mega, 3 * mega, 16 * mega})
    blocks.push_back(d->allocate(bytes).value());
  fake_.log();
  d->free(blocks[0]);
  d->free(blocks[1]);
  EXPECT_EQ(fake_.log(), "");
  d->free(blocks[2]); // 9 MiB would be kept: the one that was freed first goes
  EXPECT_EQ(fake_.log(), fmt::format("free {}\n", 4 * mega));
  d->free(blocks[3]);
  EXPECT_EQ(fake_.log(), fmt::format("free {}\n", 16 * mega));
  const auto again = d->allocate(2 * mega).value();
  EXPECT_EQ(again.data, blocks[1].data);
  d->free(again);
}

TEST_P(GpuMemoryHost, WhatIsKeptIsGivenBackBeforeMemoryEnds) {
  fake_.pretend("memory=64");
  const auto d = device();
  std::vector<Memory> blocks;
  for (int i = 0; i < 7; ++i) blocks.push_back(d->allocate(mega).value());
  for (const Memory& block : blocks) d->free(block);
  fake_.log();
  const auto large = d->allocate(60 * mega).value();
  EXPECT_THAT(fake_.log(), HasSubstr(fmt::format("free {}\n", mega)));
  EXPECT_EQ(error_of(d->allocate(10 * mega)),
            language() +
                ": cannot allocate 10.0 MiB (60.0 MiB are in use here, 4.0 MiB of the device's 64.0 MiB are "
                "free): " +
                memory_error());
  EXPECT_EQ(error_of(d->allocate(4 * mega)), "accepted");
  d->free(large);
}

TEST_P(GpuMemoryHost, FailsWithItsReason) {
  const auto d = device();
  const int before = fake_.live();
  const std::string cannot = language() + ": cannot allocate 3.0 MiB (0.0 MiB are in use here, ";
  EXPECT_EQ(
      error_of(d->allocate(2048 * mega)),
      language() +
          ": cannot allocate 2048.0 MiB (0.0 MiB are in use here, 1024.0 MiB of the device's 1024.0 MiB "
          "are free): " +
          memory_error());
  EXPECT_THAT(error_of(d->allocate(INT64_MAX)), HasSubstr(memory_error()));
  fail("cuMemAlloc_v2", "hipMalloc", 2);
  EXPECT_EQ(error_of(d->allocate(3 * mega)),
            cannot + "1024.0 MiB of the device's 1024.0 MiB are free): " + memory_error());
  fake_.fail(named("cuMemAlloc_v2=2,cuMemGetInfo_v2=1", "hipMalloc=2,hipMemGetInfo=1"));
  EXPECT_EQ(error_of(d->allocate(3 * mega)), language() + ": cannot allocate 3.0 MiB: " + memory_error());
  fail("cuCtxSetCurrent", "hipSetDevice", 2);
  EXPECT_EQ(error_of(d->allocate(3 * mega)), language() + ": no context: " + memory_error());
  fail("cuMemsetD8Async", "hipMemsetD8Async", 2);
  EXPECT_THAT(error_of(d->allocate(3 * mega)), HasSubstr("cannot allocate 3.0 MiB ("));
  EXPECT_EQ(error_of(d->allocate(3 * mega, {.zero = false})), "accepted"); // not asked for
  fake_.fail("");
  EXPECT_EQ(fake_.live(), before + 1);

  auto memory = d->allocate(100).value();
  auto* p = static_cast<std::byte*>(memory.data);
  std::vector<std::byte> bytes(300);
  const std::string outside =
      language() + ": a copy of 300 bytes is outside of the memory that was allocated";
  EXPECT_EQ(error_of(d->copy_in(p, bytes)), outside);
  EXPECT_EQ(error_of(d->copy_in(p - 1, bytes)), outside);
  EXPECT_EQ(error_of(d->copy_out(bytes, p)), outside);
  EXPECT_EQ(error_of(d->copy(p, bytes.data(), 300)), outside);
  EXPECT_EQ(error_of(d->zero(p, 300)), outside);
  EXPECT_EQ(error_of(d->copy(p, bytes.data(), 10)),
            language() + ": a copy of 10 bytes is outside of the memory that was allocated");
  bytes.resize(10);
  fail("cuMemHostAlloc", "hipHostMalloc", 2);
  EXPECT_EQ(error_of(d->copy_in(p, bytes)),
            language() + ": memory of the host for copies: " + memory_error());
  fail("cuEventCreate", "hipEventCreateWithFlags", 2);
  EXPECT_EQ(error_of(d->copy_out(bytes, p)), language() + ": an event: " + memory_error());
  fail("cuMemcpyHtoDAsync_v2", "hipMemcpyHtoDAsync", 2);
  EXPECT_EQ(error_of(d->copy_in(p, bytes)), language() + ": a copy to the device: " + memory_error());
  fail("cuMemcpyDtoHAsync_v2", "hipMemcpyDtoHAsync", 2);
  EXPECT_EQ(error_of(d->copy_out(bytes, p)), language() + ": a copy from the device: " + memory_error());
  fail("cuMemcpyDtoDAsync_v2", "hipMemcpyDtoDAsync", 2);
  EXPECT_EQ(error_of(d->copy(p, p + 50, 10)),
            language() + ": a copy inside of the device: " + memory_error());
  fail("cuMemsetD8Async", "hipMemsetD8Async", 2);
  EXPECT_EQ(error_of(d->zero(p, 10)), language() + ": zeros: " + memory_error());
  fail("cuEventRecord", "hipEventRecord", 2);
  EXPECT_EQ(error_of(d->copy_out(bytes, p)), language() + ": an event: " + memory_error());
  fake_.fail("");
  EXPECT_EQ(error_of(d->copy_in(p, bytes)), "accepted");
  EXPECT_EQ(error_of(d->copy_out(bytes, p)), "accepted");
}

INSTANTIATE_TEST_SUITE_P(All, GpuMemoryHost, testing::Bool(),
                         [](const auto& test) { return test.param ? "hip" : "cuda"; });

} // namespace
} // namespace luminal::device
