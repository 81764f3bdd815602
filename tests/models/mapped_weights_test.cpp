// models/mapped_weights_test.cpp -- weights in mapped files: what is made of them at load, and how
// much memory that takes meanwhile.
#include "base/file.h"
#include "base/pages.h"
#include "luminal/luminal.h"
#include "luminal/quantize.h"
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <unistd.h>

namespace luminal {
namespace {

/// A line of /proc/self/status, in bytes; 0: there is none.
int64_t status(const std::string& name) {
  std::ifstream file("/proc/self/status");
  for (std::string word; file >> word;)
    if (word == name + ":") {
      int64_t kib = 0;
      file >> kib;
      return kib * 1024;
    }
  return 0;
}

/// The peak starts again from what is there now.
bool reset_peak() {
  std::ofstream file("/proc/self/clear_refs");
  file << "5" << std::flush;
  return bool(file);
}

TEST(MappedWeights, AreNotInMemoryBesideWhatIsMadeOfThem) {
  constexpr int64_t rows = 4096, columns = 4096, bytes = rows * columns * 4;
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("luminal_mapped_" + std::to_string(getpid()));
  {
    std::vector<float> values(size_t(rows * columns));
    for (size_t i = 0; i < values.size(); i++) values[i] = float(int64_t(i * 7 % 31) - 15);
    ASSERT_TRUE(write_file(path.string(), std::as_bytes(std::span(values))));
  }
  auto opened = MappedFile::open(path.string());
  std::filesystem::remove(path);
  ASSERT_TRUE(opened) << opened.error();
  auto file = std::make_shared<MappedFile>(std::move(*opened));
  Graph g; // as Llama reads weights in f32
  Tensor x = g.tensor({1, columns}), w = g.weight("w", {rows, columns});
  const int64_t tile = row_tile(rows);
  Tensor other = interleave_rows(w, tile, 1); // [rows / tile, columns, tile, 1], made once, at load
  Tensor y = (x.reshape({1, 1, columns, 1, 1}) * other.unsqueeze(0)).sum({2, 4}).reshape({rows}).keep();
  w.borrow(file->bytes().data(), file->bytes().size(), file);
  std::vector<float> ones(size_t(columns), 1);
  x.set(ones);
  g.compile({.threads = 2});
  ASSERT_EQ(g.memory().loaded, bytes);
  if (!reset_peak() || status("VmHWM") == 0)
    GTEST_SKIP() << "the system does not tell this process's peak memory";
  const int64_t before = status("VmRSS");
  g.execute();
  EXPECT_LT(status("VmHWM") - before, bytes + bytes / 2) << "one copy, and a part of the file";
  EXPECT_LT(status("VmRSS") - before, bytes + bytes / 4);
  const auto values = y.data<float>();
  for (const int64_t c : {int64_t(0), int64_t(17), rows - 1}) {
    double sum = 0;
    for (int64_t k = 0; k < columns; k++) sum += double((c * columns + k) * 7 % 31 - 15);
    EXPECT_EQ(values[size_t(c)], float(sum)) << c;
  }
}

TEST(MappedWeights, OnlyPagesOfMappedFilesAreDropped) {
  std::vector<std::byte> own(1 << 20, std::byte{7});
  EXPECT_FALSE(is_mapped_file(own));
  drop_pages(own);
  EXPECT_TRUE(std::ranges::all_of(own, [](std::byte b) { return b == std::byte{7}; }));
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("luminal_pages_" + std::to_string(getpid()));
  ASSERT_TRUE(write_file(path.string(), std::span<const std::byte>(own)));
  std::span<const std::byte> there;
  {
    auto file = MappedFile::open(path.string());
    std::filesystem::remove(path);
    ASSERT_TRUE(file) << file.error();
    const MappedFile moved = std::move(*file);
    there = moved.bytes();
    EXPECT_TRUE(is_mapped_file(there));
    EXPECT_TRUE(is_mapped_file(there.subspan(5000, 10)));
    drop_pages(there);
    EXPECT_TRUE(std::ranges::equal(there, own)) << "what is read again comes back";
  }
  EXPECT_FALSE(is_mapped_file(there));
}

} // namespace
} // namespace luminal
