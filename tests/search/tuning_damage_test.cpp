// search/tuning_damage_test.cpp -- the tuning cache where things go wrong: damaged, foreign, hostile
// files; full disks, read-only folders, many writers, kill -9.
#include "search/sqlite.h"
#include "search/tuning_support.h"
#include <csignal>
#include <filesystem>
#include <gmock/gmock.h>
#include <random>
#include <set>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>

namespace luminal::search {
namespace {
using testing::HasSubstr;
using testing::IsEmpty;

/// Runs f in a child process; its exit code.
template <class F> int in_child(F f) {
  const pid_t child = fork();
  if (child == 0) {
    int code = 99;
    try {
      code = f();
    } catch (const std::exception& e) {
      fmt::print(stderr, "{}\n", e.what());
    }
    _exit(code);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

TEST(TuningCache, AFileOfAnotherKindIsSetAside) {
  const ScratchFolder folder("aside");
  const std::string path = folder.file();
  {
    TuningCache(path).put(example_entry(1));
  }
  const std::string good = bytes_of(path);
  auto with_sql = [&](const char* sql) {
    set_bytes(path, good);
    SqlConnection(path, SqlConnection::Access::write, 1).execute(sql);
    return bytes_of(path);
  };
  std::string half = good.substr(0, good.size() / 2), page = good;
  for (size_t i = 8192; i < page.size(); i++) page[i] = char(i * 37);
  const std::vector<std::pair<std::string, std::string>> files = {
      {"no database",
       "hello, this is not a database, but it is long enough to be one " + std::string(5000, 'x')},
      {"half", half},
      {"broken page", page},
      {"zeros", std::string(8192, '\0')},
      {"older", with_sql("PRAGMA user_version = 0")},
      {"newer", with_sql("PRAGMA user_version = 99")},
      {"another kind", with_sql("PRAGMA application_id = 7")},
      {"another table", with_sql("CREATE TABLE more (x)")},
      {"no table", with_sql("DROP TABLE quarantined")},
      {"another column", with_sql("ALTER TABLE tuned ADD COLUMN more")},
      {"a view",
       with_sql("DROP TABLE tuned; CREATE VIEW tuned AS WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT "
                "x+1 FROM r) SELECT x AS key FROM r")},
  };
  for (const auto& [name, content] : files) {
    SCOPED_TRACE(name);
    std::filesystem::remove(path + ".set-aside");
    set_bytes(path, content);
    const Log log;
    TuningCache cache(path);
    if (name != "broken page" && name != "half") {
      EXPECT_FALSE(cache.find(example_entry(1).key)); // what is half there is never believed
    }
    EXPECT_TRUE(cache.put(example_entry(2)));
    EXPECT_EQ(timeless(cache.find(example_entry(2).key)), example_entry(2));
    cache.entries(); // reads it all
    EXPECT_TRUE(cache.put(example_entry(3)));
    EXPECT_EQ(cache.memory_reason(), "");
    ASSERT_EQ(log.lines().size(), 1u) << testing::PrintToString(log.lines());
    EXPECT_THAT(log.lines()[0], HasSubstr("it was set aside as " + path + ".set-aside"));
    EXPECT_THAT(log.lines()[0], testing::Not(HasSubstr("\n")));
    EXPECT_TRUE(std::filesystem::exists(path + ".set-aside"));
  }
}

TEST(TuningCache, BytesChangedAtRandomNeverCrash) {
  const ScratchFolder folder("bytes");
  const std::string path = folder.file();
  {
    TuningCache cache(path);
    for (int i = 0; i < 20; i++) cache.put(example_entry(i));
    cache.quarantine(example_entry(40).key, "", "wrong", "");
  }
  const std::string good = bytes_of(path);
  const Log log;
  std::mt19937_64 random(5);
  for (int turn = 0; turn < 40; turn++) {
    std::string bytes = good;
    for (int i = 0; i < 1 << turn % 8; i++) bytes[random() % bytes.size()] = char(random());
    if (turn % 10 == 9) bytes.resize(random() % bytes.size());
    set_bytes(path, bytes);
    TuningCache cache(path);
    for (int i = 0; i < 20; i++)
      if (auto found = cache.find(example_entry(i).key)) {
        EXPECT_EQ(found->key, example_entry(i).key);
        EXPECT_GT(found->seconds, 0);
      }
    cache.entries();
    cache.quarantine_entries();
    cache.put(example_entry(50));
    cache.prune({.max_bytes = 4096});
  }
}

TEST(TuningCache, HostileRowsAreRefusedOneByOne) {
  const ScratchFolder folder("hostile");
  const std::string path = folder.file();
  {
    TuningCache cache(path);
    for (int i = 0; i < 16; i++) cache.put(example_entry(i));
  }
  const std::vector<std::string> attacks = {
      "schedule = 'split the difference'",
      "schedule = zeroblob(100)",
      "schedule = 17",
      "schedule = CAST(zeroblob(3000000) AS TEXT)",
      "schedule = zeroblob(20000000)",
      "seconds = 'soon'",
      "seconds = -1.0",
      "seconds = 9e999",
      "samples = 0.5",
      "samples = -3",
      "threads = 7",
      "name = 'two' || char(10) || 'lines'",
      "bucket = 'm=99'",
      "checked = 2",
      "device = 'zz'",
  };
  {
    SqlConnection file(path, SqlConnection::Access::write, 1);
    int i = 0;
    for (const std::string& attack : attacks) try {
        file.execute(fmt::format("UPDATE tuned SET {} WHERE name = 'matmul_{}'", attack, i++).c_str());
      } catch (const SqlError&) {
        ASSERT_THAT(attack, HasSubstr("20000000")); // longer than our own limit lets us write
        file.execute(fmt::format("UPDATE tuned SET used = 'x' WHERE name = 'matmul_{}'", i - 1).c_str());
      }
    ASSERT_EQ(i, int(attacks.size()));
  }
  const Log log;
  TuningCache cache(path);
  for (int i = 0; i < int(attacks.size()); i++)
    EXPECT_FALSE(cache.find(example_entry(i).key)) << attacks[size_t(i)];
  int64_t refused = 0;
  const auto left = cache.entries(&refused);
  EXPECT_EQ(refused, int64_t(attacks.size()));
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(timeless(left[0]), example_entry(15));
  EXPECT_TRUE(cache.put(example_entry(0))) << "a refused row keeps its place";
  EXPECT_TRUE(cache.find(example_entry(0).key));
  EXPECT_THAT(log.lines(), IsEmpty()); // the file itself is sound
}

/// A text longer than the connection's limit: written by one without limits.
TEST(TuningCache, AGiantTextIsNoRow) {
  const ScratchFolder folder("giant");
  const std::string path = folder.file();
  {
    TuningCache cache(path);
    cache.put(example_entry(0));
    cache.put(example_entry(1));
  }
  // The length of a text is in the row's head: a row of three megabytes becomes one beyond the
  // limit.
  const std::string half(SqlConnection::longest / 2 + 4096, 'x');
  {
    SqlConnection file(path, SqlConnection::Access::write, 1);
    SqlStatement(file, "UPDATE tuned SET schedule = ?, layouts = 'x' WHERE name = 'matmul_0'")
        .bind(half)
        .step();
  }
  TuningCache cache(path);
  EXPECT_FALSE(cache.find(example_entry(0).key));
  EXPECT_TRUE(cache.find(example_entry(1).key));
  int64_t refused = 0;
  EXPECT_EQ(cache.entries(&refused).size(), 1u);
  EXPECT_EQ(refused, 1);
}

TEST(TuningCache, PlacesThatAreNoFiles) {
  const ScratchFolder folder("places");
  const std::string pipe = folder.file("pipe"), file = folder.file("file");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  set_bytes(file, "x");
  for (const std::string& path : {std::string(), folder.path().string(), pipe, file + "/tuning.sqlite",
                                  std::string("/proc/no/tuning.sqlite"), std::string("/dev/null")}) {
    SCOPED_TRACE(path);
    const Log log;
    TuningCache cache(path);
    EXPECT_THAT(cache.memory_reason(), testing::Not(IsEmpty()));
    EXPECT_TRUE(cache.put(example_entry(1)));
    EXPECT_EQ(timeless(cache.find(example_entry(1).key)), example_entry(1));
    EXPECT_EQ(cache.entries().size(), 1u);
    EXPECT_EQ(cache.prune({.unused_seconds = 0}), 1);
    EXPECT_FALSE(cache.find(example_entry(1).key));
    EXPECT_LE(log.lines().size(), 1u);
  }
}

TEST(TuningCache, ReadsFromAFolderThatCannotBeWritten) {
  const ScratchFolder folder("readonly");
  const std::string path = folder.file();
  {
    TuningCache(path).put(example_entry(1));
  }
  for (const bool file_too : {false, true}) {
    std::filesystem::permissions(path, std::filesystem::perms(file_too ? 0444 : 0666));
    std::filesystem::permissions(folder.path(), std::filesystem::perms(0555));
    EXPECT_EQ(in_child([&] {
                if (geteuid() == 0 && setuid(65534) != 0) return 1; // root may write anywhere
                TuningCache cache(path);
                if (!cache.find(example_entry(1).key)) return 2;
                if (!cache.put(example_entry(2)) || !cache.find(example_entry(2).key)) return 3;
                if (cache.memory_reason().empty()) return 4;
                cache.quarantine(example_entry(1).key, example_entry(1).schedule, "wrong", "");
                if (cache.find(example_entry(1).key)) return 5;
                return TuningCache(path).find(example_entry(2).key) ? 6 : 0;
              }),
              0)
        << file_too;
    std::filesystem::permissions(folder.path(), std::filesystem::perms(0755));
  }
}

TEST(TuningCache, AFullDiskLosesNothingThatWasThere) {
  const ScratchFolder folder("full");
  const std::string path = folder.file();
  {
    TuningCache(path).put(example_entry(1));
  }
  EXPECT_EQ(in_child([&] {
              std::signal(SIGXFSZ, SIG_IGN);
              const auto size = rlim_t(std::filesystem::file_size(path));
              rlimit limit{size, RLIM_INFINITY};
              setrlimit(RLIMIT_FSIZE, &limit); // the file cannot grow
              const Log log;
              TuningCache cache(path);
              for (int i = 2; i < 60; i++)
                if (!cache.put(example_entry(i)) || !cache.find(example_entry(i).key)) return 1;
              if (cache.memory_reason().empty() || log.lines().size() != 1) return 2;
              if (!cache.find(example_entry(1).key)) return 3;
              limit.rlim_cur = RLIM_INFINITY; // somebody made room
              setrlimit(RLIMIT_FSIZE, &limit);
              cache.put(example_entry(60));
              if (!cache.memory_reason().empty()) return 4;
              return TuningCache(path).entries().size() == 60 ? 0 : 5;
            }),
            0);
  EXPECT_EQ(TuningCache(path).entries().size(), 60u);
}

TEST(TuningCache, ManyWritersAtOnce) {
  const ScratchFolder folder("writers");
  const std::string path = folder.file();
  constexpr int processes = 4, each = 20;
  std::vector<pid_t> children;
  for (int p = 0; p < processes; p++) {
    const pid_t child = fork();
    if (child == 0) {
      TuningCache cache(path, {.busy_seconds = 60}); // they make the file at the same time, too
      for (int i = 0; i < each; i++) {
        cache.put(example_entry(p * 1000 + i));
        cache.put(example_entry(99999));
        if (!cache.find(example_entry(p * 1000 + i).key)) _exit(1);
      }
      _exit(cache.memory_reason().empty() ? 0 : 2);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
  TuningCache cache(path);
  EXPECT_EQ(cache.entries().size(), size_t(processes * each + 1));
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; t++)
    threads.emplace_back([&cache, t] {
      for (int i = 0; i < 10; i++) {
        cache.put(example_entry(5000 + t * 100 + i));
        cache.find(example_entry(i).key);
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(cache.entries().size(), size_t(processes * each + 31));
}

/// A hundred times: a process that writes is killed at any moment. What it had reported as kept is
/// there, and the file is sound.
TEST(TuningCache, KillMinusNineLosesNothing) {
  const ScratchFolder folder("kill");
  const std::string path = folder.file();
  const Log log;
  std::mt19937_64 random(11);
  std::set<int> kept;
  int next = 0, killed_at_work = 0;
  for (int turn = 0; turn < 100; turn++) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
      close(ends[0]);
      TuningCache cache(path, {.max_bytes = 4 << 20});
      for (int i = next; i < next + 30; i++) { // more of them, where nobody kills it for long, would not fit
        cache.put(example_entry(i));
        if (write(ends[1], &i, sizeof i) != sizeof i) _exit(1);
        if (i % 5 == 4) cache.prune({.unused_seconds = 100000}); // rewrites pages, removes nothing
      }
      for (;;) pause();
    }
    close(ends[1]);
    int number = 0;
    // Some are killed at once, the others after their first entries and a moment.
    const int rows = int(random() % 3);
    for (int i = 0; i < rows && read(ends[0], &number, sizeof number) == sizeof number; i++)
      kept.insert(number);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
    kill(child, SIGKILL);
    while (read(ends[0], &number, sizeof number) == sizeof number) kept.insert(number);
    close(ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    killed_at_work += WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    if (!kept.empty()) next = *kept.rbegin() + 2; // the one it was busy with may be there or not
  }
  EXPECT_EQ(killed_at_work, 100);
  EXPECT_GT(kept.size(), 50u);
  {
    TuningCache cache(path);
    for (const int number : kept) EXPECT_TRUE(cache.find(example_entry(number).key)) << number;
    int64_t refused = 0;
    EXPECT_GE(cache.entries(&refused).size(), kept.size());
    EXPECT_EQ(refused, 0);
  }
  SqlConnection file(path, SqlConnection::Access::read, 1);
  SqlStatement check(file, "PRAGMA integrity_check");
  std::string verdict;
  ASSERT_TRUE(check.step() && check.text(0, verdict));
  EXPECT_EQ(verdict, "ok");
  EXPECT_THAT(log.lines(), IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(path + ".set-aside"));
}

/// Entries that are put together are there together, whenever the process dies.
TEST(TuningCache, AnImportIsWholeOrNotThere) {
  const ScratchFolder folder("whole");
  const std::string path = folder.file();
  {
    TuningCache(path).put(example_entry(0));
  }
  constexpr int each = 60, batches = 12;
  std::mt19937_64 random(7);
  int whole = 0, absent = 0;
  for (int batch = 1; batch <= batches; batch++) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
      std::vector<TuningEntry> entries;
      for (int i = 0; i < each; i++) entries.push_back(example_entry(batch * 1000 + i));
      TuningCache cache(path);
      const char ready = 'r';
      if (write(ends[1], &ready, 1) != 1) _exit(1);
      cache.put_all(entries);
      _exit(0);
    }
    char ready = 0;
    ASSERT_EQ(read(ends[0], &ready, 1), 1);
    if (batch > 2) std::this_thread::sleep_for(std::chrono::microseconds(random() % 12000));
    if (batch > 1) kill(child, SIGKILL); // the first one may finish
    int status = 0;
    waitpid(child, &status, 0);
    close(ends[0]);
    close(ends[1]);
    TuningCache cache(path);
    int found = 0;
    for (int i = 0; i < each; i++) found += cache.find(example_entry(batch * 1000 + i).key).has_value();
    EXPECT_TRUE(found == 0 || found == each) << found << " of batch " << batch;
    whole += found == each;
    absent += found == 0;
  }
  EXPECT_GE(whole, 1);
  EXPECT_EQ(whole + absent, batches);
}

TEST(TuningCache, AFileThatIsTakenAwayIsSaidAndMadeAgain) {
  const ScratchFolder folder("tuning_removed");
  const std::string path = folder.file("t.sqlite");
  TuningCache cache(path);
  ASSERT_TRUE(cache.put(example_entry(1)));
  EXPECT_EQ(cache.memory_reason(), "");
  std::filesystem::remove(path);
  EXPECT_EQ(cache.memory_reason(), path + " was removed while it was in use");
  std::vector<std::string> said;
  set_log_sink([&](LogLevel level, std::string_view text) {
    if (level == LogLevel::warning) said.emplace_back(text);
  });
  EXPECT_TRUE(cache.put(example_entry(2)));
  set_log_sink({});
  ASSERT_EQ(said.size(), 1u);
  EXPECT_THAT(said[0], HasSubstr("was removed or replaced while it was in use"));
  TuningCache again(path);
  EXPECT_TRUE(again.find(example_entry(2).key));
  EXPECT_FALSE(again.find(example_entry(1).key));
}

TEST(TuningCache, ALockedFileIsNotReadable) {
  const ScratchFolder folder("tuning_locked");
  const std::string path = folder.file("t.sqlite");
  TuningCache(path).put(example_entry(1));
  SqlConnection other(path, SqlConnection::Access::write, 0);
  other.execute("BEGIN EXCLUSIVE");
  TuningCache::Options options;
  options.busy_seconds = 0.05;
  TuningCache cache(path, options);
  (void)cache.entries();
  EXPECT_FALSE(cache.readable());
  EXPECT_THAT(cache.memory_reason(), HasSubstr("locked"));
  other.execute("ROLLBACK");
  EXPECT_TRUE(TuningCache(path, options).readable());
}

} // namespace
} // namespace luminal::search
