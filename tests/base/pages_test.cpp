// tests/base/pages_test.cpp -- dropped pages of a mapped file leave memory and come back with what is in the file.
#include "base/file.h"
#include "base/pages.h"
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

} // namespace
} // namespace luminal
