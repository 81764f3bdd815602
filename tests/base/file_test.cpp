// tests/base/file_test.cpp -- files: mapping, whole reads, replacement in one step.
#include "base/file.h"
#include <atomic>
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

using namespace luminal;
using testing::HasSubstr;
namespace fs = std::filesystem;

namespace {

class Files : public testing::Test {
protected:
  fs::path folder = fs::temp_directory_path() / ("luminal-file-test-" + std::to_string(getpid()));
  void SetUp() override { fs::create_directories(folder); }
  void TearDown() override { fs::remove_all(folder); }
  std::string path(const char* name) const { return (folder / name).string(); }
};

std::string text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

} // namespace

TEST_F(Files, WrittenTextIsReadAndMapped) {
  const std::string content("a\0b\n\xFF", 5);
  ASSERT_TRUE(write_file(path("x"), content));
  const auto read = read_file(path("x"));
  ASSERT_TRUE(read) << read.error();
  EXPECT_EQ(*read, content);
  auto mapped = MappedFile::open(path("x"));
  ASSERT_TRUE(mapped) << mapped.error();
  EXPECT_EQ(text_of(*mapped), content);
  EXPECT_EQ(mapped->path(), path("x"));
  // A moved map stays valid; the file may go.
  const MappedFile moved = std::move(*mapped);
  fs::remove(path("x"));
  EXPECT_EQ(text_of(moved), content);
}

TEST_F(Files, FailuresNameTheFile) {
  fs::create_directory(path("folder"));
  ASSERT_TRUE(write_file(path("empty"), std::string_view()));
  for (const char* name : {"missing", "folder"}) {
    const auto mapped = MappedFile::open(path(name));
    const auto read = read_file(path(name));
    ASSERT_FALSE(mapped);
    ASSERT_FALSE(read);
    EXPECT_THAT(mapped.error(), HasSubstr(path(name)));
    EXPECT_THAT(read.error(), HasSubstr(path(name)));
  }
  EXPECT_THAT(MappedFile::open(path("missing")).error(), HasSubstr("No such file"));
  EXPECT_THAT(MappedFile::open(path("folder")).error(), HasSubstr("directory"));
  EXPECT_THAT(MappedFile::open(path("empty")).error(), HasSubstr("empty"));
  EXPECT_EQ(*read_file(path("empty")), "");
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  const auto unread = write_file(path("pipe"), "text");
  ASSERT_FALSE(unread); // and nobody waited
  EXPECT_EQ(unread.error(), path("pipe") + ": is a pipe that nobody reads");
  EXPECT_FALSE(read_file(path("pipe"))); // and does not wait for a writer
  EXPECT_FALSE(MappedFile::open(path("pipe")));
}

TEST_F(Files, SizeLimit) {
  ASSERT_TRUE(write_file(path("x"), "12345"));
  EXPECT_TRUE(read_file(path("x"), 5));
  const auto too_large = read_file(path("x"), 4);
  ASSERT_FALSE(too_large);
  EXPECT_THAT(too_large.error(), HasSubstr("5 bytes"));
}

TEST_F(Files, MissingFoldersAreMadeOnRequestAndNothingIsLeftBehind) {
  EXPECT_FALSE(write_file(path("a/b/c"), "x"));
  EXPECT_FALSE(is_directory(path("a"))); // a misspelt path makes no folders
  ASSERT_TRUE(make_folder_of(path("a/b/c")));
  ASSERT_TRUE(make_folder_of("in the working folder"));
  ASSERT_TRUE(write_file(path("a/b/c"), "x"));
  EXPECT_EQ(*read_file(path("a/b/c")), "x");
  ASSERT_TRUE(write_file(path("a/b/c"), "yy"));
  EXPECT_EQ(*read_file(path("a/b/c")), "yy");
  EXPECT_EQ(std::distance(fs::directory_iterator(path("a/b")), fs::directory_iterator()), 1);
  EXPECT_FALSE(write_file(path("a/b"), "a folder is there"));
  EXPECT_EQ(std::distance(fs::directory_iterator(path("a")), fs::directory_iterator()), 1);
  EXPECT_TRUE(is_directory(path("a")));
  EXPECT_FALSE(file_exists(path("a")));
  EXPECT_TRUE(file_exists(path("a/b/c")));
}

// A reader sees one of the contents in full, whatever the writers do.
TEST_F(Files, ReplacementIsAtomic) {
  const std::string a(200000, 'a'), b(100000, 'b');
  ASSERT_TRUE(write_file(path("x"), a));
  std::atomic<bool> stop{false};
  std::thread first([&] {
    while (!stop) EXPECT_TRUE(write_file(path("x"), a));
  });
  std::thread second([&] {
    while (!stop) EXPECT_TRUE(write_file(path("x"), b));
  });
  for (int i = 0; i < 200; ++i) {
    const auto read = read_file(path("x"));
    ASSERT_TRUE(read) << read.error();
    EXPECT_TRUE(*read == a || *read == b) << read->size();
  }
  stop = true;
  first.join();
  second.join();
}
