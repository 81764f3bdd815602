// tests/base/pages_test.cpp -- dropped pages of a mapped file leave memory and come back with what
// is in the file.
#include "base/file.h"
#include "base/pages.h"
#include <cstdlib>
#include <filesystem>
#include <gtest/gtest.h>
#include <numeric>
#include <sys/resource.h>
#include <unistd.h>

namespace luminal {
namespace {

int64_t faults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt + usage.ru_majflt;
}

TEST(Pages, DroppedOnesComeBack) {
  const std::string path =
      (std::filesystem::temp_directory_path() / ("luminal-pages-test-" + std::to_string(getpid()))).string();
  std::vector<std::byte> content(8 << 20);
  for (size_t i = 0; i < content.size(); i++) content[i] = std::byte(i * 7 + i / 4096);
  ASSERT_TRUE(write_file(path, content));
  auto file = MappedFile::open(path);
  ASSERT_TRUE(file);
  const std::span<const std::byte> bytes = file->bytes();
  const auto sum = [&] {
    return std::accumulate(bytes.begin(), bytes.end(), int64_t{0},
                           [](int64_t s, std::byte b) { return s * 3 + int64_t(b); });
  };
  const int64_t before = sum();
  int64_t at = faults();
  EXPECT_EQ(sum(), before);
  const int64_t present = faults() - at;
  drop_pages(bytes.subspan(1234, bytes.size() - 5678)); // ends within pages: these stay
  drop_pages(bytes.subspan(100, 200));                  // no whole page
  drop_pages({});
  at = faults();
  EXPECT_EQ(sum(), before);
  EXPECT_GT(faults() - at, present); // they had left
  std::filesystem::remove(path);
}

TEST(Pages, OfAnUnnamedFileComeBackAsTheyWereWritten) {
  constexpr size_t bytes = 8 << 20;
  auto made = unnamed_file(bytes);
  ASSERT_TRUE(made) << made.error();
  std::byte* data = made->get();
  EXPECT_EQ(data[bytes - 1], std::byte{0});
  for (size_t i = 0; i < bytes; i++) data[i] = std::byte(i * 7 + i / 4096);
  EXPECT_TRUE(is_mapped_file({data, bytes}));
  drop_pages({data, bytes});
  const int64_t at = faults();
  for (size_t i = 0; i < bytes; i += 4096) ASSERT_EQ(data[i], std::byte(i * 7 + i / 4096));
  EXPECT_GT(faults(), at) << "they had left";
  made->reset();
  EXPECT_FALSE(is_mapped_file({data, bytes}));
  setenv("TMPDIR", "/nowhere/at/all", 1);
  const auto refused = unnamed_file(bytes);
  unsetenv("TMPDIR");
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().find("/nowhere/at/all: No such file"), std::string::npos) << refused.error();
}

} // namespace
} // namespace luminal
