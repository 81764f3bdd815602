// codegen/object_cache_test.cpp -- hits, keys, damage, read-only folders, size, many threads and
// processes.
#include "base/log.h"
#include "codegen/object_cache.h"
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace luminal::codegen {
namespace {
namespace fs = std::filesystem;

kernel::Kernel scale(double factor, const std::string& name = "scale") {
  return kernel::parse_kernel(
      "kernel " + name + "(x: f32[n] in, y: f32[n] out; n: 1..4096)\n  for i in 0..n\n    y[i] = x[i] * " +
      std::to_string(factor) + "\n");
}

class ObjectCacheTest : public testing::Test {
protected:
  ObjectCacheTest() {
    std::string pattern = (fs::temp_directory_path() / "luminal_cache_XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  ~ObjectCacheTest() override {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  std::vector<fs::path> files() const {
    std::vector<fs::path> result;
    for (auto& entry : fs::recursive_directory_iterator(folder_))
      if (entry.is_regular_file()) result.push_back(entry.path());
    return result;
  }
  std::string folder_;
  const CpuTarget& target_ = CpuTarget::host();
};

TEST_F(ObjectCacheTest, TheSecondCompilationIsRead) {
  ObjectCache cache(folder_ + "/deep/er");
  auto first = cache.compile(scale(2), target_).value();
  EXPECT_FALSE(first.from_cache);
  auto second = cache.compile(scale(2, "other_name"), target_).value();
  EXPECT_TRUE(second.from_cache);
  EXPECT_EQ(second.kernel.object, first.kernel.object);
  EXPECT_EQ(second.kernel.entry, first.kernel.entry);
  EXPECT_EQ(second.kernel.local_bytes, first.kernel.local_bytes);
  EXPECT_EQ(cache.counts().hits, 1);
  ASSERT_EQ(files().size(), 1u);
  struct stat status;
  ASSERT_EQ(stat(files()[0].c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600); // code that will run is nobody else's to write
}

TEST_F(ObjectCacheTest, KeysDifferWithKernelTargetAndOptions) {
  CodegenOptions slow;
  slow.level = 1;
  auto other = CpuTarget::named(target_.cpu == "haswell" ? "skylake-avx512" : "haswell").value();
  std::vector<Hash128> keys{object_key(scale(2), target_, {}), object_key(scale(3), target_, {}),
                            object_key(scale(2), other, {}), object_key(scale(2), target_, slow)};
  for (size_t i = 0; i < keys.size(); ++i)
    for (size_t j = 0; j < i; ++j) EXPECT_NE(keys[i], keys[j]) << i << " " << j;
  EXPECT_EQ(object_key(scale(2), target_, {}), object_key(scale(2, "b"), target_, {}));
}

TEST_F(ObjectCacheTest, EveryKindOfDamageIsFoundAndRepaired) {
  ObjectCache cache(folder_);
  auto good = cache.compile(scale(2), target_).value();
  fs::path file = files().at(0);
  std::ifstream in(file, std::ios::binary);
  const std::string content((std::istreambuf_iterator<char>(in)), {});
  std::vector<std::string> damaged{"",
                                   "x",
                                   content.substr(0, 20),
                                   content.substr(0, content.size() - 1),
                                   content + "x",
                                   std::string(content.size(), '\0')};
  for (size_t at = 0; at < content.size(); at += content.size() / 40 + 1) { // one bit anywhere
    damaged.push_back(content);
    damaged.back()[at] = char(damaged.back()[at] ^ 4);
  }
  int64_t repaired = 0;
  for (const std::string& text : damaged) {
    std::ofstream(file, std::ios::binary | std::ios::trunc) << text;
    auto again = cache.compile(scale(2), target_).value();
    EXPECT_FALSE(again.from_cache) << text.size();
    EXPECT_EQ(again.kernel.object, good.kernel.object);
    EXPECT_EQ(cache.counts().damaged, ++repaired);
    EXPECT_TRUE(cache.compile(scale(2), target_).value().from_cache);
  }
  // Another kernel's file under this name.
  cache.compile(scale(5), target_).value();
  for (const fs::path& other : files())
    if (other != file) fs::copy_file(other, file, fs::copy_options::overwrite_existing);
  EXPECT_FALSE(cache.compile(scale(2), target_).value().from_cache);
  // A folder under this name.
  fs::remove(file);
  fs::create_directories(file / "inside");
  EXPECT_FALSE(cache.compile(scale(2), target_).value().from_cache);
  EXPECT_TRUE(cache.compile(scale(2), target_).value().from_cache);
}

TEST_F(ObjectCacheTest, NoFolderOrOneThatCannotBeWrittenIsNoFailure) {
  ObjectCache off("");
  EXPECT_FALSE(off.compile(scale(2), target_).value().from_cache);
  EXPECT_FALSE(off.compile(scale(2), target_).value().from_cache);
  std::ofstream(folder_ + "/file") << "no folder";
  ObjectCache blocked(folder_ + "/file/inside");
  EXPECT_FALSE(blocked.compile(scale(2), target_).value().from_cache);
  EXPECT_EQ(blocked.counts().unwritable, 1);
  ObjectCache missing("/proc/no/such/place");
  EXPECT_TRUE(missing.compile(scale(2), target_).ok());
  // Read-only and filled: hits still serve.
  ObjectCache cache(folder_);
  cache.compile(scale(2), target_).value();
  chmod(files().at(0).parent_path().c_str(), 0500);
  EXPECT_TRUE(cache.compile(scale(2), target_).value().from_cache);
  for (auto& entry : fs::directory_iterator(folder_)) chmod(entry.path().c_str(), 0700);
}

TEST_F(ObjectCacheTest, TheLeastRecentlyUsedGoFirst) {
  ObjectCache cache(folder_, 1 << 30);
  std::vector<std::string> paths;
  int64_t total = 0;
  for (int i = 0; i < 8; ++i) {
    cache.compile(scale(i + 2), target_).value();
    paths.push_back(cache.path(object_key(scale(i + 2), target_, {})));
    total += int64_t(fs::file_size(paths.back()));
    fs::last_write_time(paths.back(), fs::file_time_type::clock::now() - std::chrono::hours(24 * 30 - i));
  }
  EXPECT_TRUE(cache.compile(scale(2), target_).value().from_cache); // the oldest is used again
  ObjectCache small(folder_, total / 2);
  small.trim();
  EXPECT_TRUE(fs::exists(paths[0]));
  EXPECT_FALSE(fs::exists(paths[1]));
  EXPECT_TRUE(fs::exists(paths[7]));
  int64_t left = 0;
  for (auto& f : files()) left += int64_t(fs::file_size(f));
  EXPECT_LE(left, total / 2);
}

TEST_F(ObjectCacheTest, ManyThreadsAndProcessesShareAFolder) {
  auto work = [&] {
    ObjectCache cache(folder_);
    bool good = true;
    for (int i = 0; i < 6; ++i) good = good && cache.compile(scale(i % 3 + 2), target_).ok();
    return good && cache.counts().damaged == 0;
  };
  std::vector<pid_t> children;
  for (int i = 0; i < 2; ++i) {
    pid_t child = fork();
    if (child == 0) _exit(work() ? 0 : 1);
    children.push_back(child);
  }
  std::vector<std::thread> threads;
  std::atomic<bool> good{true};
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([&] {
      if (!work()) good = false;
    });
  for (auto& t : threads) t.join();
  EXPECT_TRUE(good);
  for (pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  EXPECT_EQ(files().size(), 3u); // and no draft is left
}

} // namespace
} // namespace luminal::codegen
