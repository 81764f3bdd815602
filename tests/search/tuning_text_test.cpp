// tuning_text_test.cpp -- exports read back, lines that are not entries, merged files.
#include "search/tuning_support.h"
#include <gmock/gmock.h>

namespace luminal::search {
namespace {
using testing::HasSubstr;
using testing::IsEmpty;

std::string export_of(int count) {
  std::vector<TuningEntry> entries;
  for (int i = 0; i < count; i++) entries.push_back(example_entry(i));
  return export_entries(entries);
}

TEST(TuningText, ImportInvertsExport) {
  const auto read = import_entries(export_of(3));
  ASSERT_TRUE(read) << read.error();
  EXPECT_THAT(read->mistakes, IsEmpty());
  ASSERT_EQ(read->entries.size(), 3u);
  for (int i = 0; i < 3; i++) {
    TuningEntry want = example_entry(i);
    want.checked = false; // whoever checked it, it was not here
    EXPECT_EQ(read->entries[size_t(i)], want);
  }
  EXPECT_TRUE(import_entries("{\"luminal_tuning\": 1}\r\n\r\n"));
}

TEST(TuningText, WhatIsNoExportIsRefused) {
  for (const char* text :
       {"", "\n", "hello", "{", "[]", "{\"luminal_tuning\": \"1\"}", "{\"luminal_tuning\": 1",
        "{\"luminal_tuning\": 2}", "{\"luminal_tuning\": [1]}", "\xff\xfe", "{}"}) {
    const auto read = import_entries(text);
    EXPECT_FALSE(read) << text;
    if (!read) {
      EXPECT_THAT(read.error(), HasSubstr("line 1: "));
    }
  }
}

TEST(TuningText, WrongLinesAreRefusedOneByOne) {
  const std::string all = export_of(2), head = all.substr(0, all.find('\n') + 1);
  const std::string line = all.substr(head.size(), all.find('\n', head.size()) - head.size());
  auto with = [&](const std::string& from, const std::string& to) {
    std::string text = line;
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return at == std::string::npos ? text : text.replace(at, from.size(), to);
  };
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {with("\"seconds\":1e-05", "\"seconds\":\"1\""), "seconds: a number is expected"},
      {with("\"seconds\":1e-05", "\"seconds\":-1"), "is not a time of a launch"},
      {with("\"seconds\":1e-05", "\"seconds\":1e999"), "line 2: number overflow parsing '1e999'"},
      {with("\"threads\":2", "\"threads\":2.5"), "threads: a whole number"},
      {with("\"threads\":2", "\"threads\":1e30"), "threads: a whole number"},
      {with("\"threads\":2", "\"threads\":18446744073709551615"), "threads: a whole number"},
      {with("\"device\":\"8", "\"device\":\"Z"), "device: 16 hexadecimal digits"},
      {with("\"device\":\"8", "\"device\":\""), "device: 16 hexadecimal digits"},
      {with("split", "spilt"), "schedule"},
      {with("\"samples\":40,", ""), "samples is missing"},
      {with("\"samples\":40", "\"samples\":40,\"object\":\"7f454c46\""), "\"object\" is not a key"},
      {with("\"samples\":40", "\"samples\":{\"a\":1}"), "nested"},
      {with("\"samples\":40", "\"samples\":" + std::string(100000, '[')), "nested"},
      {with("\"name\":\"", "\"name\":\"\\u0000"), "name: expected one line"},
      {with("\"name\":\"", "\"name\":\"" + std::string(300000, 'x')), "bytes, at most"},
      {line.substr(0, line.size() / 2), "line 2: "},
      {"7", "no JSON object"},
      {"\xff\xff", "line 2: "},
  };
  for (const auto& [text, says] : wrong) {
    const auto read = import_entries(head + text + "\n" + line + "\n");
    ASSERT_TRUE(read) << read.error();
    ASSERT_EQ(read->mistakes.size(), 1u) << text.substr(0, 500);
    EXPECT_THAT(read->mistakes[0], HasSubstr(says));
    EXPECT_THAT(read->mistakes[0], testing::StartsWith("line 2: "));
    EXPECT_EQ(read->entries.size(), 1u) << "the good line beside it is lost";
  }
}

TEST(TuningText, MergedFilesKeepTheBetter) {
  const ScratchFolder folder("merge");
  {
    TuningCache a(folder.file("a")), b(folder.file("b"));
    TuningEntry fast = example_entry(1);
    fast.seconds /= 2;
    a.put(example_entry(1));
    a.put(example_entry(2));
    b.put(fast);
    b.put(example_entry(3));
  }
  const std::string before = bytes_of(folder.file("a"));
  for (const auto& order : {std::vector{"a", "b"}, std::vector{"b", "a"}}) {
    TuningCache merged(folder.file(fmt::format("merged_{}", order[0])));
    for (const char* name : order) {
      auto read = TuningCache::read(folder.file(name));
      ASSERT_TRUE(read) << read.error();
      merged.put_all(*read);
    }
    const auto entries = merged.entries();
    ASSERT_EQ(entries.size(), 3u);
    EXPECT_EQ(entries[0].seconds, example_entry(1).seconds / 2);
    for (const TuningEntry& e : entries) EXPECT_FALSE(e.checked);
  }
  EXPECT_EQ(bytes_of(folder.file("a")), before);
  EXPECT_FALSE(TuningCache::read(folder.file("missing")));
  EXPECT_FALSE(std::filesystem::exists(folder.file("missing")));
  set_bytes(folder.file("text"), std::string(10000, 'x'));
  EXPECT_FALSE(TuningCache::read(folder.file("text")));
  EXPECT_TRUE(std::filesystem::exists(folder.file("text")));
  set_bytes(folder.file("empty"), "");
  EXPECT_FALSE(TuningCache::read(folder.file("empty")));
  EXPECT_FALSE(TuningCache::read(folder.path().string()));
}

} // namespace
} // namespace luminal::search
