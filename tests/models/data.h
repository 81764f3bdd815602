// tests/models/data.h -- real models for tests, where they are.
#pragma once
#include <cstdlib>
#include <filesystem>
#include <string>

namespace luminal {

/// The folder of test data (LUMINAL_TEST_DATA, or ../shared/data beside the tree), or empty.
inline std::string test_data() {
  if (const char* folder = std::getenv("LUMINAL_TEST_DATA")) return folder;
  std::string beside = std::string(LUMINAL_SOURCE_DIR) + "/../shared/data";
  return std::filesystem::is_directory(beside) ? beside : "";
}

#define LUMINAL_NEEDS_DATA_FOLDER(folder)                                                                    \
  std::string folder = test_data();                                                                          \
  if (folder.empty()) GTEST_SKIP() << "no test data: set LUMINAL_TEST_DATA to its folder"

} // namespace luminal
