// tests/tree/embed_test.cpp -- luminal_embed(): files reach the binary byte for byte, aligned and
// zero-terminated.
#include "base/embedded.h"
#include <cstdint>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <string>

LUMINAL_EMBEDDED(tree_files)

namespace {
std::string read(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

TEST(Embed, FilesAreTheBytesOnDisk) {
  const auto files = luminal::embedded::tree_files();
  ASSERT_EQ(files.size(), 3u);
  const std::string folder = std::string(LUMINAL_SOURCE_DIR) + "/";
  const std::string paths[] = {folder + "LICENSE-MIT", folder + "tests/tree/embedded.bin", folder + "LAYERS"};
  const std::string names[] = {"LICENSE-MIT", "embedded.bin", "LAYERS"};
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(files[i].name, names[i]);
    EXPECT_FALSE(files[i].content.empty());
    EXPECT_EQ(files[i].content, read(paths[i])) << names[i];
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(files[i].content.data()) % 64, 0u) << names[i];
    EXPECT_EQ(files[i].content.data()[files[i].content.size()], '\0') << names[i];
  }
}
} // namespace
