// formats/util.h -- what the tests of file formats share: test data, temporary folders, bytes,
// mutation.
#pragma once
#include "formats/parse.h"
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <string_view>
#include <unistd.h>

namespace luminal::testing_formats {

/// Path of a file of the test data, or nullopt where it is absent.
inline std::optional<std::string> test_data(const std::string& name) {
  const char* root = std::getenv("LUMINAL_TEST_DATA");
  const std::string path =
      (root != nullptr ? std::string(root) : std::string(LUMINAL_SOURCE_DIR "/../shared/data")) + "/" + name;
  if (!std::filesystem::exists(path)) return std::nullopt;
  return path;
}

/// Skips the test where the file is absent; otherwise `variable` is its path.
#define LUMINAL_NEEDS_DATA(variable, name)                                                                   \
  const auto variable##_found = ::luminal::testing_formats::test_data(name);                                 \
  if (!variable##_found)                                                                                     \
    GTEST_SKIP() << "test data " << (name) << " is not here (LUMINAL_TEST_DATA names its folder)";           \
  const std::string& variable = *variable##_found

inline std::string file_content(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

inline void put_file(const std::string& path, std::string_view content) {
  std::ofstream out(path, std::ios::binary);
  out.write(content.data(), static_cast<std::streamsize>(content.size()));
  ASSERT_TRUE(out.good()) << path;
}

/// A folder that lives as long as the object.
class TemporaryFolder {
public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "luminal-test-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    path_ = name;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

private:
  std::string path_;
};

/// Little-endian bytes of an integer.
template <class T> std::string le(T value) {
  std::string out;
  for (size_t i = 0; i < sizeof(T); ++i)
    out += static_cast<char>(static_cast<uint64_t>(value) >> (8 * i) & 0xFF);
  return out;
}

/// A refusal is one line, names the file and is not endless.
inline void expect_clear_line(const std::string& text, std::string_view file) {
  EXPECT_EQ(text.find('\n'), std::string::npos) << text;
  EXPECT_EQ(text.rfind(file, 0), 0U) << text;
  EXPECT_LT(text.size(), 700U) << text;
  EXPECT_FALSE(detail::find_invalid_utf8(text).has_value()) << text;
}

/// Feeds every prefix of `valid`, and `rounds` copies with some bytes changed, to `read` (which
/// returns a Result). What is refused must be refused in a clear line; what is accepted goes to
/// `use`, which touches everything it got.
template <class Read, class Use>
void mutate(const std::string& valid, std::string_view file, uint32_t seed, int rounds, Read read, Use use,
            size_t prefix_step = 1) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  const auto feed = [&](const std::string& bytes) {
    // A copy of exactly this size: a read past the end is then seen by the address sanitizer.
    const std::unique_ptr<char[]> exact(new char[bytes.size()]);
    std::copy(bytes.begin(), bytes.end(), exact.get());
    const std::string_view view(exact.get(), bytes.size());
    auto result = read(view);
    if (result)
      use(*result);
    else
      expect_clear_line(result.error(), file);
  };
  for (size_t n = 0; n <= valid.size(); n += prefix_step) feed(valid.substr(0, n));
  std::mt19937 random(seed);
  const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  for (int round = 0; round < rounds; ++round) {
    std::string bytes = valid;
    for (size_t change = 1 + below(4); change > 0; --change) {
      const size_t at = below(bytes.size());
      switch (below(6)) {
      case 0: bytes[at] = static_cast<char>(random()); break;
      case 1: bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8))); break;
      case 2: bytes.erase(at, 1 + below(8)); break;
      case 3: bytes.insert(at, 1 + below(8), static_cast<char>(random())); break;
      case 4: bytes[at] = below(2) != 0 ? '\xFF' : '\0'; break;
      default: bytes.insert(at, bytes.substr(below(bytes.size()), below(40))); break;
      }
      if (bytes.empty()) bytes = "x";
    }
    feed(bytes);
  }
}

} // namespace luminal::testing_formats
