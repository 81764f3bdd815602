// measure_log_test.cpp -- answers come back in their order, a log of something else says so, and a file that
// is not whole is refused with one line.
#include "base/file.h"
#include "search/machine_profile.h"
#include "search/measure_log.h"
#include "search/problem_support.h"
#include <gmock/gmock.h>

namespace luminal::search::measure_log_test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

MeasureLogHead head() {
  MeasureLogHead head;
  head.machine.instructions = "x86_64 any";
  head.machine.llvm = "19";
  head.machine.threads = 2;
  head.profile = MachineProfile::guess(2).to_json();
  head.mode = "budget";
  head.seconds = 0.1;
  head.about = R"({"model":"a.lum"})";
  return head;
}

/// Some of all kinds of answers.
std::string written() {
  MeasureLog log(head());
  int asked = 0;
  const auto now_and_then = [&] { return ++asked % 3 == 0; };
  EXPECT_FALSE(log.yes("over", now_and_then));
  EXPECT_EQ(log.sample(0, [] { return 1.0 / 3; }).value(), 1.0 / 3);
  EXPECT_FALSE(log.yes("over", now_and_then));
  EXPECT_TRUE(log.yes("over", now_and_then));
  EXPECT_FALSE(log.sample(4, [] { return Failure{"crashed: signal 11"}; }));
  EXPECT_FALSE(log.sample(4, [] { return std::numeric_limits<double>::infinity(); }));
  EXPECT_TRUE(outcome(&log, "the lock", "", [] { return Result<void>(); }));
  EXPECT_FALSE(outcome(&log, "code", "k1", [] { return Result<void>(Failure{"no such code"}); }));
  EXPECT_EQ(seconds(&log, "a launch", "k1", [] { return 1e-300; }).value(), 1e-300);
  return log.text();
}

Result<std::shared_ptr<MeasureLog>> read(const std::string& text, const ScratchFolder& folder) {
  EXPECT_TRUE(write_file(folder.file("log"), std::string_view(text)));
  return MeasureLog::read(folder.file("log"));
}

TEST(MeasureLog, GivesWhatWasMeasured) {
  const ScratchFolder folder("measure_log");
  auto log = read(written(), folder);
  ASSERT_TRUE(log) << log.error();
  MeasureLog& l = **log;
  EXPECT_TRUE(l.replays());
  EXPECT_EQ(l.head().machine.threads, 2);
  EXPECT_EQ(l.head().seconds, 0.1);
  EXPECT_EQ(MachineProfile::from_json(l.head().profile).value(), MachineProfile::guess(2));
  const auto never = [] {
    ADD_FAILURE() << "the machine is asked";
    return false;
  };
  const auto nothing = []() -> Result<double> { return Failure{"the machine is asked"}; };
  EXPECT_FALSE(l.yes("over", never));
  EXPECT_EQ(l.sample(0, nothing).value(), 1.0 / 3);
  EXPECT_FALSE(l.yes("over", never));
  EXPECT_TRUE(l.yes("over", never));
  EXPECT_EQ(l.sample(4, nothing).error(), "crashed: signal 11");
  EXPECT_EQ(l.sample(4, nothing).error(), "its time is not a time");
  EXPECT_TRUE(outcome(&l, "the lock", "", [] { return Result<void>(Failure{"asked"}); }));
  EXPECT_EQ(outcome(&l, "code", "k1", [] { return Result<void>(); }).error(), "no such code");
  EXPECT_THROW(l.require_end(), Error);
  EXPECT_EQ(seconds(&l, "a launch", "k1", nothing).value(), 1e-300);
  l.require_end();
}

TEST(MeasureLog, OfAnotherSearchSaysWhere) {
  const ScratchFolder folder("measure_log_other");
  const auto error = [&](auto&& ask) {
    auto log = read(written(), folder).value();
    try {
      ask(*log);
    } catch (const Error& mistake) {
      return std::string(mistake.what());
    }
    return std::string("nothing");
  };
  const auto nothing = [] { return Result<void>(); };
  const std::string file = folder.file("log");
  EXPECT_EQ(
      error([&](MeasureLog& log) { (void)outcome(&log, "code", "k2", nothing); }),
      "the log " + file +
          " is not of this search: line 2 has a time of candidate 0, and this search asks for code of k2");
  EXPECT_EQ(
      error([&](MeasureLog& log) { (void)log.sample(1, [] { return 1.0; }); }),
      "the log " + file +
          " is not of this search: line 2 has a time of candidate 0, and this search asks for a time of "
          "candidate 1");
  EXPECT_EQ(
      error([&](MeasureLog& log) {
        (void)log.sample(0, [] { return 1.0; });
        log.yes("over", [] { return false; });
        log.yes("something else", [] { return false; });
      }),
      "the log " + file +
          " is not of this search: line 3 has \"over\": yes, and this search asks for \"something else\"");
  EXPECT_EQ(error([&](MeasureLog& log) {
              (void)log.sample(0, [] { return 1.0; });
              log.require_end();
            }),
            "the log " + file + " is not of this search, which has ended at line 2 of it");
  MeasureLog empty(head());
  auto log = read(empty.text(), folder).value();
  EXPECT_THROW(
      {
        try {
          (void)log->sample(0, [] { return 1.0; });
        } catch (const Error& mistake) {
          EXPECT_EQ(std::string(mistake.what()),
                    "the log " + file + " ends too early: this search asks for a time of candidate 0");
          throw;
        }
      },
      Error);
}

TEST(MeasureLog, WhatIsNotWholeIsRefused) {
  const ScratchFolder folder("measure_log_damaged");
  const std::string text = written(), file = folder.file("log");
  EXPECT_EQ(MeasureLog::read(folder.file("none")).error().find(folder.file("none")), 0u);
  EXPECT_EQ(read("", folder).error(), file + ": is empty");
  EXPECT_EQ(read("no log\n", folder).error(),
            file + ": is not a log of a search: line 1 has no {\"luminal_search_log\": 1, ...}");
  std::string other = text;
  other.replace(other.find(":1,"), 3, ":2,");
  EXPECT_EQ(read(other, folder).error(), file + ": version 2 of logs, this program reads version 1");
  const std::string no_end = file + ": has no end: the search that wrote it, or a copy of it, was cut off";
  const size_t first = text.find('\n') + 1;
  for (size_t size = first; size < text.size(); size += 7)
    EXPECT_EQ(read(text.substr(0, size), folder).error(), no_end) << size;
  EXPECT_EQ(read(text.substr(0, text.size() - 1), folder).error(), no_end);
  std::string changed = text;
  const size_t at = changed.find("0.333");
  changed[at + 2] = '4';
  EXPECT_EQ(read(changed, folder).error(), file + ": is damaged: its checksum is another one");
  changed = text;
  changed.insert(first, "{\"ask\":1}\n");
  EXPECT_THAT(read(changed, folder).error(), StartsWith(file + ": line 2: "));
  EXPECT_EQ(read(text + "{}\n", folder).error(), file + ": line 9: nothing is expected behind the end");
}

TEST(MeasureLog, HasWhatTheTuningCacheHad) {
  const ScratchFolder folder("measure_log_cache");
  auto cache = std::make_shared<TuningCache>("");
  TuningEntry entry;
  entry.key = head().machine;
  entry.key.structure = hash128("a");
  entry.key.dtypes = "f32";
  entry.key.numeric = "reassoc";
  entry.name = "k0";
  entry.schedule = "";
  entry.seconds = 1e-3;
  entry.samples = 3;
  entry.checked = true;
  TuningEntry other = entry;
  other.key.structure = hash128("b");
  ASSERT_TRUE(cache->put(entry));
  ASSERT_TRUE(cache->put(other));
  cache->quarantine(entry.key, "parallel one\n", "wrong", "");
  MeasureLog log(head());
  const auto while_searching = log.cache_for(cache);
  log.uses(entry.key);
  ASSERT_TRUE(while_searching->find(other.key));
  TuningEntry found = entry;
  found.schedule = "parallel s0 a0\n";
  found.key.bucket = "n=3";
  while_searching->put(found);
  EXPECT_TRUE(cache->find(found.key)) << "what is found is kept where it belongs";

  auto again = read(log.text(), folder);
  ASSERT_TRUE(again) << again.error();
  const auto replayed = (*again)->cache_for(cache);
  const auto there = replayed->find(entry.key);
  ASSERT_TRUE(there);
  EXPECT_TRUE(there->checked);
  EXPECT_EQ(there->seconds, 1e-3);
  EXPECT_FALSE(replayed->find(other.key)) << "nobody asked for it";
  EXPECT_FALSE(replayed->find(found.key)) << "it was not there when the search began";
  EXPECT_TRUE(replayed->quarantined(entry.key, "parallel one\n"));
  found.key.bucket = "n=4";
  replayed->put(found);
  EXPECT_FALSE(cache->find(found.key)) << "a replay keeps nothing";
}

} // namespace
} // namespace luminal::search::measure_log_test
