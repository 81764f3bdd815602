// search/tuning_cache_test.cpp -- keeping, finding, bounding of measured schedules.
#include "search/tuning_support.h"
#include <gmock/gmock.h>

namespace luminal::search {
namespace {
using testing::IsEmpty;

TEST(TuningCache, FindsWhatWasPut) {
  const ScratchFolder folder("tuning");
  {
    TuningCache cache(folder.file("deep/folder/tuning.sqlite"));
    EXPECT_EQ(cache.memory_reason(), "");
    EXPECT_FALSE(cache.find(example_entry(1).key));
    for (int i : {1, 2, 3}) EXPECT_TRUE(cache.put(example_entry(i)));
  }
  TuningCache cache(folder.file("deep/folder/tuning.sqlite"));
  for (int i : {1, 2, 3}) EXPECT_EQ(timeless(cache.find(example_entry(i).key)), example_entry(i));
  EXPECT_EQ(cache.entries().size(), 3u);
  // Every part of the key counts.
  const std::vector<void (*)(TuningKey&)> changes = {
      [](TuningKey& k) { k.structure.high++; },  [](TuningKey& k) { k.dtypes += " "; },
      [](TuningKey& k) { k.bucket = "m=1..2"; }, [](TuningKey& k) { k.layouts = ""; },
      [](TuningKey& k) { k.numeric = "exact"; }, [](TuningKey& k) { k.instructions = "x86_64 haswell"; },
      [](TuningKey& k) { k.llvm = "20.1.0"; },   [](TuningKey& k) { k.rules--; },
      [](TuningKey& k) { k.codegen++; },         [](TuningKey& k) { k.device++; },
      [](TuningKey& k) { k.threads = 1; },       [](TuningKey& k) { std::swap(k.numeric, k.llvm); },
  };
  for (const auto& change : changes) {
    TuningKey key = example_entry(1).key;
    change(key);
    EXPECT_FALSE(cache.find(key));
  }
}

/// Of several sizes the nearest by ratio serves; entries of other ranges, dimensions or kernels
/// never do.
TEST(TuningCache, TheNearestSizeServes) {
  ScratchFolder folder("near");
  const auto entry = [](const char* bucket, const char* schedule) {
    TuningEntry e = example_entry(1);
    e.key.bucket = bucket;
    e.schedule = schedule;
    return e;
  };
  const auto asked = [&](TuningCache& cache, const char* bucket) {
    const auto found = cache.find_near(entry(bucket, "").key);
    return found ? found->key.bucket : std::string("none");
  };
  for (const bool on_disk : {true, false}) {
    SCOPED_TRACE(on_disk);
    TuningCache cache(on_disk ? folder.file() : std::string());
    EXPECT_EQ(asked(cache, "m=5 of 1..128"), "none");
    for (const char* bucket : {"m=1 of 1..128", "m=32 of 1..128", "m=128 of 1..128", "m=6 of 1..64",
                               "n=6 of 1..128", "m=5 of 1..128 k=9"})
      cache.put(entry(bucket, "split mm i io ii 6\n"));
    TuningEntry other = entry("m=6 of 1..128", "split mm i io ii 6\n");
    other.key.threads = 7;
    cache.put(other);
    EXPECT_EQ(asked(cache, "m=32 of 1..128"), "m=32 of 1..128");
    EXPECT_EQ(asked(cache, "m=12 of 1..128"), "m=32 of 1..128");
    EXPECT_EQ(asked(cache, "m=5 of 1..128"), "m=1 of 1..128");
    EXPECT_EQ(asked(cache, "m=100 of 1..128"), "m=128 of 1..128");
    EXPECT_EQ(asked(cache, "m=7 of 1..128 k=90"), "m=5 of 1..128 k=9");
    EXPECT_EQ(asked(cache, "m=7 of 1..129"), "none");
    EXPECT_EQ(asked(cache, "p=7 of 1..128"), "none");
    EXPECT_EQ(asked(cache, ""), "none");
    // What is wrong there is not used, the next one is.
    cache.quarantine(entry("m=32 of 1..128", "").key, "split mm i io ii 6\n", "wrong", "");
    EXPECT_EQ(asked(cache, "m=32 of 1..128"), "m=128 of 1..128");
  }
}

TEST(TuningCache, TheBetterEntryStays) {
  const ScratchFolder folder("better");
  for (const std::string& path : {folder.file(), std::string()}) {
    TuningCache cache(path);
    TuningEntry slow = example_entry(1), fast = slow, foreign = slow;
    fast.seconds /= 2;
    fast.schedule = "split mm i io ii 8\n";
    foreign.checked = false;
    foreign.seconds /= 100;
    EXPECT_TRUE(cache.put(slow));
    EXPECT_FALSE(cache.put(foreign)) << "what nobody checked here replaced what was checked";
    EXPECT_TRUE(cache.put(fast));
    EXPECT_FALSE(cache.put(slow));
    EXPECT_EQ(cache.find(slow.key)->schedule, fast.schedule);
    EXPECT_TRUE(cache.put(slow, TuningCache::Keep::newest));
    EXPECT_EQ(cache.find(slow.key)->schedule, slow.schedule);
    foreign.key = example_entry(2).key;
    EXPECT_TRUE(cache.put(foreign));
    EXPECT_FALSE(cache.find(foreign.key)->checked);
    slow.key = foreign.key;
    EXPECT_TRUE(cache.put(slow))
        << "a checked measurement replaces an import, however good that claims to be";
    EXPECT_TRUE(cache.find(foreign.key)->checked);
  }
}

TEST(TuningCache, QuarantineIsForGood) {
  const ScratchFolder folder("quarantine");
  for (const std::string& path : {folder.file(), std::string()}) {
    TuningCache cache(path);
    const TuningEntry e = example_entry(1);
    cache.put(e);
    cache.quarantine(e.key, e.schedule, "element 3 is 7, expected 8", "/somewhere");
    EXPECT_FALSE(cache.find(e.key));
    EXPECT_FALSE(cache.put(e)) << "the wrong schedule came back";
    EXPECT_EQ(cache.put_all({e}).worse, 1);
    EXPECT_THAT(cache.entries(), IsEmpty());
    const auto q = cache.quarantined(e.key, e.schedule);
    ASSERT_TRUE(q);
    EXPECT_EQ(q->cause, "element 3 is 7, expected 8");
    EXPECT_EQ(q->reproducer, "/somewhere");
    EXPECT_FALSE(cache.quarantined(example_entry(2).key, e.schedule));
    EXPECT_FALSE(cache.quarantined(e.key, "split mm i io ii 8\n"));
    ASSERT_EQ(cache.quarantine_entries().size(), 1u);
    TuningEntry other = e;
    other.schedule = "split mm i io ii 8\n";
    EXPECT_TRUE(cache.put(other));
    EXPECT_EQ(cache.prune({.quarantine = true}), 0);
    EXPECT_FALSE(cache.quarantined(e.key, e.schedule));
  }
}

TEST(TuningCache, RefusesWhatIsNoEntry) {
  TuningCache cache("");
  const std::vector<void (*)(TuningEntry&)> changes = {
      [](TuningEntry& e) { e.seconds = 0; },
      [](TuningEntry& e) { e.seconds = std::nan(""); },
      [](TuningEntry& e) { e.samples = 0; },
      [](TuningEntry& e) { e.limit_fraction = -1; },
      [](TuningEntry& e) { e.schedule = "split the difference\n"; },
      [](TuningEntry& e) { e.schedule.assign(1 << 20, '\n'); },
      [](TuningEntry& e) { e.name = "two\nlines"; },
      [](TuningEntry& e) { e.name = "\xff"; },
      [](TuningEntry& e) { e.key.layouts.assign(5000, 'x'); },
      [](TuningEntry& e) { e.key.threads = 0; },
  };
  for (const auto& change : changes) {
    TuningEntry e = example_entry(1);
    change(e);
    EXPECT_THROW(cache.put(e), Error);
    EXPECT_EQ(cache.put_all({e}).refused, 1);
  }
  EXPECT_THAT(cache.entries(), IsEmpty());
}

TEST(TuningCache, IsBoundedAndForgetsTheLeastRecentlyUsed) {
  const ScratchFolder folder("bounded");
  int64_t time = 1000000;
  constexpr int64_t limit = 256 << 10;
  TuningCache cache(folder.file(), {.max_bytes = limit, .now = [&] { return time; }});
  TuningEntry first = example_entry(0);
  first.key.layouts.assign(100, 'x');
  for (int i = 0; i < 1000; i += 40) {
    std::vector<TuningEntry> several;
    for (int j = i; j < i + 40; j++) {
      several.push_back(example_entry(j));
      several.back().schedule.assign(size_t(200 + j % 700), '\n'); // blank lines are not directives
      several.back().schedule += "split mm i io ii 6\n";
      several.back().key.layouts.assign(size_t(100 + j % 500), 'x');
    }
    cache.put_all(several);
    time += 100000;
    EXPECT_TRUE(cache.find(several[0].key)) << i;
    EXPECT_TRUE(cache.find(first.key)) << i; // used all the time
    ASSERT_LE(cache.bytes(), limit) << i;
  }
  const auto left = cache.entries();
  EXPECT_GT(left.size(), 100u);
  EXPECT_LT(left.size(), 1000u);
  TuningKey old = example_entry(1).key, latest = example_entry(999).key;
  old.layouts.assign(101, 'x');
  latest.layouts.assign(599, 'x');
  EXPECT_TRUE(cache.find(latest));
  EXPECT_FALSE(cache.find(old));

  EXPECT_GT(cache.prune({.max_bytes = 64 << 10}), 0);
  EXPECT_LE(cache.bytes(), 64 << 10);
  EXPECT_TRUE(cache.find(first.key));
  const auto few = int64_t(cache.entries().size());
  time += 86400 * 30;
  cache.put(example_entry(2000));
  EXPECT_EQ(cache.prune({.unused_seconds = 86400}), few);
  EXPECT_TRUE(cache.find(example_entry(2000).key));
  EXPECT_EQ(cache.prune({.unused_seconds = 0}), 1);
  EXPECT_THAT(cache.entries(), IsEmpty());
}

TEST(TuningCache, IsInTheCacheFolder) {
  setenv("LUMINAL_CACHE_DIR", "/somewhere", 1);
  EXPECT_EQ(TuningCache::default_path(), "/somewhere/tuning.v1.sqlite");
  setenv("LUMINAL_NO_CACHE", "1", 1);
  EXPECT_EQ(TuningCache::default_path(), "");
  unsetenv("LUMINAL_NO_CACHE");
  unsetenv("LUMINAL_CACHE_DIR");
}

} // namespace
} // namespace luminal::search
