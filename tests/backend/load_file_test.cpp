// tests/backend/load_file_test.cpp -- values computed at load are kept in a file, and only sound
// files of the same source are used.
#include "base/thread_pool.h"
#include "device/cpu/cpu_device.h"
#include "luminal/luminal.h"
#include "runtime/load_file.h"
#include "runtime/store.h"
#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>

namespace luminal {
namespace {
namespace fs = std::filesystem;

class Folder {
public:
  Folder() {
    std::string pattern = (fs::temp_directory_path() / "luminal_load_XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~Folder() { fs::remove_all(path_); }
  const std::string& path() const { return path_; }

private:
  std::string path_;
};

std::vector<std::byte> bytes_of(const std::string& text) {
  auto view = std::as_bytes(std::span(text));
  return {view.begin(), view.end()};
}
std::string read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
void write(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

TEST(LoadFile, GivesBackWhatWasWritten) {
  Folder folder;
  const std::string path = folder.path() + "/a/values";
  const auto one = bytes_of("one"), big = bytes_of(std::string(10000, 'x')), none = bytes_of("");
  runtime::LoadFile::write(path, 7, {{1, one}, {5, big}, {9, none}}).value();
  auto file = runtime::LoadFile::open(path, 7).value();
  ASSERT_EQ(file.values().size(), 3u);
  for (auto& [key, want] : runtime::LoadFile::Values{{1, one}, {5, big}, {9, none}}) {
    auto got = file.values().at(key);
    EXPECT_TRUE(std::ranges::equal(got, want)) << key;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(got.data()) % 4096, 0u) << key;
    std::vector<std::byte> copy(want.size());
    EXPECT_TRUE(file.read(key, copy)) << key;
    EXPECT_TRUE(std::ranges::equal(copy, want)) << key;
    copy.push_back({});
    EXPECT_FALSE(file.read(key, copy)) << key << " of another size";
  }
  EXPECT_FALSE(file.read(2, {}));
}

/// KiB of a file's mapping that count as this process's memory.
int64_t resident(const std::string& path) {
  std::ifstream maps("/proc/self/smaps");
  int64_t total = 0;
  bool inside = false;
  for (std::string line; std::getline(maps, line);) {
    if (line.find('-') != std::string::npos && line.find(':') > line.find('-'))
      inside = line.ends_with(path);
    else if (inside && line.starts_with("Rss:"))
      total += std::stoll(line.substr(4));
  }
  return total;
}

TEST(LoadFile, ReadingLeavesNothingOfTheFileInMemory) {
  Folder folder;
  const std::string path = folder.path() + "/values";
  const auto large = bytes_of(std::string((16 << 20) + 5, 'l'));
  runtime::LoadFile::write(path, 7, {{1, large}}).value();
  auto file = runtime::LoadFile::open(path, 7).value();
  ASSERT_EQ(file.values().size(), 1u); // reads all of it
  if (resident(path) < 16 << 10) GTEST_SKIP() << "the system does not tell what is in memory";
  std::vector<std::byte> copy(large.size());
  EXPECT_TRUE(file.read(1, copy));
  EXPECT_LT(resident(path), 256);
}

TEST(LoadFile, NoDamagedByteAndNoShorterFileIsRead) {
  Folder folder;
  const std::string path = folder.path() + "/values";
  const auto one = bytes_of("one"), two = bytes_of("two");
  runtime::LoadFile::write(path, 7, {{1, one}, {2, two}}).value();
  const std::string whole = read(path);
  ASSERT_EQ(whole.size(), 2 * 4096u + 3);
  EXPECT_FALSE(runtime::LoadFile::open(path, 8));
  const size_t used = 32 + 2 * 32;
  for (size_t at : {size_t(0), size_t(8), size_t(16), size_t(24), size_t(32), size_t(40), size_t(48),
                    size_t(56), used - 1, size_t(4096), size_t(4098), size_t(8192), size_t(8194)}) {
    std::string damaged = whole;
    damaged[at] = char(damaged[at] ^ 0x40);
    write(path, damaged);
    auto file = runtime::LoadFile::open(path, 7);
    ASSERT_EQ(bool(file), at >= 4096) << "byte " << at; // of a value: the others are sound
    if (!file) continue;
    const uint64_t other = at < 8192 ? 2 : 1;
    std::vector<std::byte> copy(3);
    EXPECT_FALSE(file->read(3 - other, copy)) << "byte " << at;
    EXPECT_TRUE(file->read(other, copy)) << "byte " << at;
    EXPECT_EQ(file->values().size(), 1u) << "byte " << at;
    EXPECT_TRUE(file->values().contains(other)) << "byte " << at;
  }
  for (size_t size :
       {size_t(1), size_t(31), size_t(32), used - 1, used, size_t(4096), size_t(4098), whole.size() - 1}) {
    write(path, whole.substr(0, size));
    EXPECT_FALSE(runtime::LoadFile::open(path, 7)) << size << " bytes";
  }
  write(path, whole);
  EXPECT_TRUE(runtime::LoadFile::open(path, 7));
}

TEST(LoadFile, OldFilesGoFirst) {
  Folder folder;
  const auto value = bytes_of(std::string(1000, 'x'));
  for (uint64_t source = 0; source < 4; ++source) {
    const std::string path = runtime::load_file_path(folder.path(), source);
    runtime::LoadFile::write(path, source, {{1, value}}).value();
    fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(10 - int(source)));
  }
  runtime::trim_load_files(folder.path(), 4 * 5096);
  EXPECT_TRUE(fs::exists(runtime::load_file_path(folder.path(), 0))); // exactly the limit
  runtime::trim_load_files(folder.path(), 3 * 5096);
  for (uint64_t source = 0; source < 4; ++source)
    EXPECT_EQ(fs::exists(runtime::load_file_path(folder.path(), source)), source >= 2) << source;
}

TEST(Store, TakesLoadedValuesFromTheFileAndNotFromADamagedOne) {
  Folder folder;
  const std::string path = folder.path() + "/values";
  ThreadPool pool(1);
  auto device = device::make_cpu_device(pool);
  {
    runtime::Store store(*device);
    EXPECT_FALSE(store.keep_loaded_in(path, 3, 0));
    std::memcpy(store.loaded(11, 5).value(), "value", 5);
    EXPECT_FALSE(store.is_loaded(11));
    store.finish_load({11}, 1e-3);
    EXPECT_TRUE(store.is_loaded(11));
  }
  {
    runtime::Store store(*device);
    store.keep_loaded_in(path, 3, 0).value();
    EXPECT_EQ(std::memcmp(store.loaded(11, 5).value(), "value", 5), 0);
    ASSERT_TRUE(store.is_loaded(11));
    std::memcpy(store.loaded(12, 3).value(), "new", 3); // is added to what the file holds
    store.finish_load({12}, 1e-3);
    store.unload();
    EXPECT_FALSE(store.is_loaded(11));
  }
  {
    runtime::Store store(*device);
    store.keep_loaded_in(path, 3, 0).value();
    EXPECT_EQ(std::memcmp(store.loaded(12, 3).value(), "new", 3), 0);
    EXPECT_TRUE(store.loaded(11, 5));
    EXPECT_TRUE(store.is_loaded(11) && store.is_loaded(12));
  }
  std::string text = read(path);
  text.back() = char(text.back() ^ 1);
  write(path, text);
  runtime::Store store(*device);
  store.keep_loaded_in(path, 3, 0).value();
  EXPECT_TRUE(store.loaded(11, 5) && store.loaded(12, 3));
  EXPECT_TRUE(store.is_loaded(11));
  EXPECT_FALSE(store.is_loaded(12)); // the last of the file
  std::memcpy(store.loaded(12, 3).value(), "new", 3);
  store.finish_load({12}, 1e-3);
  EXPECT_EQ(runtime::LoadFile::open(path, 3).value().values().size(), 2u); // it is sound again
}

TEST(Store, WhatIsQuicklyComputedIsNotKept) {
  Folder folder;
  const std::string path = folder.path() + "/values";
  ThreadPool pool(1);
  auto device = device::make_cpu_device(pool);
  runtime::Store store(*device);
  EXPECT_FALSE(store.keep_loaded_in(path, 3, 0.5));
  store.loaded(11, 5).value();
  store.finish_load({11}, 0.4);
  EXPECT_FALSE(fs::exists(path));
  // Long enough, but so many bytes come from a disk no faster.
  store.loaded(12, int64_t(256) << 20).value();
  store.finish_load({12}, 0.6);
  EXPECT_FALSE(fs::exists(path));
  runtime::Store other(*device);
  EXPECT_FALSE(other.keep_loaded_in(path, 3, 0.5));
  other.loaded(11, 5).value();
  other.finish_load({11}, 0.6);
  EXPECT_TRUE(fs::exists(path));
}

TEST(Store, LoadedValuesThatAreSmallLieTogether) {
  Folder folder;
  const std::string path = folder.path() + "/values";
  ThreadPool pool(1);
  auto device = device::make_cpu_device(pool);
  constexpr int64_t mega = 1 << 20;
  const std::map<uint64_t, int64_t> sizes{{1, mega}, {2, 100}, {3, 16 * mega}, {4, 3 * mega}, {5, 5}};
  {
    runtime::Store store(*device);
    EXPECT_FALSE(store.keep_loaded_in(path, 3, 0));
    std::memcpy(store.loaded(5, 5).value(), "value", 5);
    store.finish_load({5}, 1e-3);
  }
  runtime::Store store(*device);
  store.keep_loaded_in(path, 3, 0).value();
  store.reserve_loaded({{7, 100}}).value(); // nothing that would fill a page
  EXPECT_EQ(store.owned_bytes(), 0);
  store.reserve_loaded(sizes).value();
  EXPECT_EQ(store.owned_bytes(), 20 * mega + 192) << "large pages are rounded up once";
  std::byte* first = store.loaded(1, mega).value();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % (2 * mega), 0u);
  EXPECT_EQ(store.loaded(2, 100).value(), first + mega);
  EXPECT_EQ(store.loaded(3, 16 * mega).value(), first + mega + 128);
  EXPECT_EQ(store.loaded(4, 3 * mega).value(), first + 17 * mega + 128);
  EXPECT_FALSE(store.is_loaded(4)); // it has a place, and no value yet
  EXPECT_EQ(std::memcmp(store.loaded(5, 5).value(), "value", 5), 0);
  store.reserve_loaded(sizes).value(); // another plan with the same values
  EXPECT_EQ(store.owned_bytes(), 20 * mega + 192);
  store.unload();
  EXPECT_EQ(store.owned_bytes(), 0);
}

TEST(Store, LoadedValuesFromAFileLieInMemoryOfTheirOwn) {
  Folder folder;
  const std::string path = folder.path() + "/values";
  ThreadPool pool(1);
  auto device = device::make_cpu_device(pool);
  constexpr size_t mega = 1 << 20;
  const auto large = bytes_of(std::string(8 * mega, 'l')), half = bytes_of(std::string(mega, 'h')),
             other = bytes_of(std::string(mega, 'o')), more = bytes_of(std::string(2 * mega, 'm'));
  runtime::LoadFile::write(path, 3, {{1, large}, {2, half}, {3, other}, {4, more}, {5, large}}).value();
  runtime::Store store(*device);
  store.keep_loaded_in(path, 3, 0).value();
  EXPECT_EQ(store.owned_bytes(), 0);
  store.reserve_loaded({{1, 8 * mega}, {2, mega}, {3, mega}, {4, 2 * mega}}).value();
  store.loaded(1, 8 * mega).value();
  store.loaded(4, 2 * mega).value();
  EXPECT_EQ(store.owned_bytes(), 12 * int64_t(mega)); // another plan's values stay in the file
  fs::resize_file(path, 0);                           // what is mapped is gone
  for (auto& [key, want] : runtime::LoadFile::Values{{1, large}, {2, half}, {3, other}, {4, more}}) {
    const std::byte* got = store.loaded(key, int64_t(want.size())).value();
    EXPECT_TRUE(std::equal(want.begin(), want.end(), got)) << key;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(got) % (2 * mega), key == 3 ? mega : 0u) << key; // large pages
  }
}

/// y = x . (a b), the product of the weights computed at load.
double first_of_product(const std::string& weights_id, float scale, bool twice = false, bool more = false) {
  constexpr int64_t n = 1280; // several times what is worth keeping, on one thread of any machine
  Graph graph;
  Tensor x = graph.tensor({n}, DType::f32, "x"), a = graph.weight("a", {n, n}), b = graph.weight("b", {n, n});
  Tensor y = x.matmul(a.matmul(b).tanh().sin().cos().exp());
  if (more) y = y + x.matmul(b.matmul(a).cos().exp());
  y.keep();
  std::vector<float> values(n * n), ones(n, 1.0F);
  for (int64_t i = 0; i < n * n; ++i) values[size_t(i)] = scale * float(i % 7 - 3) / 64;
  a.set(values);
  b.set(values);
  x.set(ones);
  CompileOptions options;
  options.threads = 1;
  options.weights_id = weights_id;
  graph.compile(options);
  graph.execute();
  if (twice) {
    for (float& v : values) v *= 2;
    b.set(values);
    graph.execute();
  }
  std::vector<float> out(n);
  y.read(out.data(), DType::f32);
  return out[5];
}

TEST(Graph, KeepsWhatItComputesFromNamedWeights) {
  Folder folder;
  setenv("LUMINAL_CACHE_DIR", folder.path().c_str(), 1);
  auto kept = [&] {
    std::vector<std::string> paths;
    if (fs::exists(folder.path() + "/load"))
      for (auto& entry : fs::directory_iterator(folder.path() + "/load"))
        paths.push_back(entry.path().string());
    return paths;
  };
  const double want = first_of_product("", 1);
  ASSERT_TRUE(std::isfinite(want));
  EXPECT_TRUE(kept().empty());
  EXPECT_EQ(first_of_product("one", 1), want);
  ASSERT_EQ(kept().size(), 1u);
  EXPECT_EQ(first_of_product("one", 3), want); // the name stands for the content
  EXPECT_NE(first_of_product("one", 3, true), first_of_product("", 1, true)); // set again: computed
  std::string text = read(kept()[0]);
  text[text.size() - 100] = char(text[text.size() - 100] ^ 1);
  write(kept()[0], text);
  EXPECT_EQ(first_of_product("one", 1), want);
  const auto bytes = fs::file_size(kept()[0]);
  EXPECT_EQ(first_of_product("one", 1, false, true),
            first_of_product("", 1, false, true)); // one of two is there
  EXPECT_GT(fs::file_size(kept()[0]), bytes + bytes / 2);
  EXPECT_EQ(first_of_product("one", 1), want);
  EXPECT_NE(first_of_product("two", 3), want);
  unsetenv("LUMINAL_CACHE_DIR");
}

} // namespace
} // namespace luminal
