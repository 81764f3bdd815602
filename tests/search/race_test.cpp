// race_test.cpp -- choosing by time: noise from a clock of the test's own, budgets, failures,
// thresholds; the lock of measuring processes.
#include "base/log.h"
#include "search/measure_lock.h"
#include "search/race.h"
#include "search/tuning_support.h"
#include <gmock/gmock.h>
#include <random>
#include <set>
#include <sys/wait.h>
#include <thread>

namespace luminal::search {
namespace {
using testing::HasSubstr;

/// Time passes only where the test says so.
class FakeClock final : public Clock {
public:
  double now() override { return now_; }
  void pass(double seconds) { now_ += seconds; }

private:
  double now_ = 1000;
};

/// Candidates with given true times on a machine that is disturbed: every sample is up to 5 % slow,
/// one in four is much slower, and the machine has slow phases in which everything takes twice as
/// long.
class NoisyMachine final : public Measurer {
public:
  NoisyMachine(FakeClock& clock, std::vector<double> times, uint64_t seed)
      : clock_(clock), times_(std::move(times)), random_(seed), count_(times_.size(), 0) {}
  Result<int> add(CandidateCode) override { return Failure{"not here"}; }
  Result<double> time(int candidate, int launches) override {
    auto draw = [&] { return std::uniform_real_distribution<double>(0, 1)(random_); };
    count_[size_t(candidate)]++;
    if (failing.contains(candidate) && count_[size_t(candidate)] >= failing.at(candidate))
      return Failure{"crashed: signal 11"};
    double seconds = times_[size_t(candidate)] * (1 + 0.05 * draw());
    if (noise) {
      if (draw() < 0.25) seconds *= 1 + 5 * draw();
      if (std::fmod(clock_.now(), 0.05) < 0.02) seconds *= 2;
    }
    clock_.pass(seconds * launches);
    return seconds;
  }
  Result<Outputs> run(int, std::byte) override { return Failure{"not here"}; }
  int count(int candidate) const { return count_[size_t(candidate)]; }

  bool noise = true;
  std::map<int, int> failing; // candidate: from which call on

private:
  FakeClock& clock_;
  std::vector<double> times_;
  std::mt19937_64 random_;
  std::vector<int> count_;
};

std::vector<int> numbers(size_t count) {
  std::vector<int> all(count);
  for (size_t i = 0; i < count; i++) all[i] = int(i);
  return all;
}

TEST(Race, LowPercentile) {
  EXPECT_TRUE(std::isnan(low_percentile({}, 0.1)));
  EXPECT_EQ(low_percentile({3}, 0.1), 3);
  EXPECT_EQ(low_percentile({5, 4, 3, 2, 1}, 0.1), 1);
  std::vector<double> hundred;
  for (int i = 100; i > 0; i--) hundred.push_back(i);
  EXPECT_EQ(low_percentile(hundred, 0.1), 10);
  EXPECT_EQ(low_percentile(hundred, 1), 100);
}

TEST(Race, TheFastestWinsUnderNoise) {
  int right = 0;
  int64_t samples = 0;
  for (uint64_t seed = 1; seed <= 40; seed++) {
    FakeClock clock;
    std::vector<double> times;
    for (int i = 0; i < 24; i++) times.push_back(1e-4 * (1.3 + 0.04 * ((i * 7 + int(seed)) % 24)));
    const int best = int(seed * 5 % 23) + 1;
    times[size_t(best)] = 1e-4 * 1.2;
    NoisyMachine machine(clock, times, seed);
    RaceOptions options;
    options.clock = &clock;
    options.seconds = 60;
    size_t rounds = 0;
    double last = 0;
    options.progress = [&](const RaceResult& so_far) {
      rounds++;
      last = so_far.entries[0].seconds;
    };
    const RaceResult result = race(machine, numbers(24), options);
    EXPECT_TRUE(result.complete);
    EXPECT_EQ(rounds, result.entries[0].samples.size()); // the incumbent takes part in every round
    EXPECT_EQ(last, result.entries[0].seconds);
    right += result.order[0] == best;
    EXPECT_EQ(result.order.size(), 24u);
    EXPECT_EQ(result.entries[size_t(best)].samples.size() >= 40,
              result.entries[size_t(best)].rejected.empty());
    for (const auto& e : result.entries) samples += int64_t(e.samples.size());
  }
  EXPECT_LT(samples, 40 * 24 * 25); // halving: the slow ones cost little
  EXPECT_GE(right, 39);
}

TEST(Race, TheThresholdProtectsTheIncumbent) {
  for (const auto& [gain, winner] : {std::pair{0.01, 0}, {0.06, 1}, {-0.5, 0}}) {
    FakeClock clock;
    NoisyMachine machine(clock, {1e-4, 1e-4 * (1 - gain)}, 3);
    machine.noise = false;
    RaceOptions options;
    options.clock = &clock;
    options.last_rounds = 200;
    EXPECT_EQ(race(machine, numbers(2), options).order[0], winner) << gain;
  }
}

TEST(Race, ABudgetEndsItWithTheBestSoFar) {
  FakeClock clock;
  NoisyMachine machine(clock, {3e-3, 1e-3, 2e-3, 4e-3, 5e-3}, 1);
  RaceOptions options;
  options.clock = &clock;
  options.seconds = 0.1;
  const double begin = clock.now();
  const RaceResult result = race(machine, numbers(5), options);
  EXPECT_FALSE(result.complete);
  EXPECT_EQ(result.order[0], 1);
  EXPECT_LT(clock.now() - begin, 0.1 + 0.07); // one sample too many at most

  NoisyMachine none(clock, {3e-3, 1e-3}, 1);
  options.seconds = 0;
  EXPECT_EQ(race(none, numbers(2), options).order, std::vector<int>{0}); // the incumbent always has a time
  EXPECT_EQ(none.count(1), 0);

  int asked = 0;
  NoisyMachine stopped(clock, {3e-3, 1e-3}, 1);
  options.seconds = 1000;
  options.stop = [&] { return ++asked > 9; };
  EXPECT_FALSE(race(stopped, numbers(2), options).complete);
  EXPECT_LT(stopped.count(0) + stopped.count(1), 15);
}

TEST(Race, FailuresAreOutWithTheirCause) {
  FakeClock clock;
  NoisyMachine machine(clock, {2e-4, 1e-4, 1.5e-4, 3e-4}, 1);
  machine.failing = {{1, 1}, {2, 5}}; // at once; in the middle of it
  RaceOptions options;
  options.clock = &clock;
  options.seconds = 100;
  const RaceResult result = race(machine, numbers(4), options);
  EXPECT_EQ(result.order, (std::vector{0, 3}));
  EXPECT_EQ(result.entries[1].rejected, "crashed: signal 11");
  EXPECT_TRUE(result.entries[2].failed);
  EXPECT_EQ(machine.count(1), 1) << "it was tried again";

  NoisyMachine incumbent(clock, {2e-4, 1e-4}, 1);
  incumbent.failing = {{0, 1}};
  EXPECT_EQ(race(incumbent, numbers(2), options).order, std::vector{1});
  NoisyMachine all(clock, {2e-4}, 1);
  all.failing = {{0, 1}};
  EXPECT_TRUE(race(all, numbers(1), options).order.empty());
  EXPECT_TRUE(race(all, {}, options).order.empty());
}

TEST(Race, HopelessOnesAreDroppedAfterWarmUp) {
  FakeClock clock;
  NoisyMachine machine(clock, {1e-4, 1e-1, 1.2e-4}, 1);
  machine.noise = false;
  RaceOptions options;
  options.clock = &clock;
  const RaceResult result = race(machine, numbers(3), options);
  EXPECT_EQ(machine.count(1), 2);
  EXPECT_THAT(result.entries[1].rejected, HasSubstr("times slower"));
  EXPECT_EQ(result.order.back(), 1);
}

TEST(MeasureLock, OneAtATimeAndWaitersSaySo) {
  const ScratchFolder folder("lock");
  const std::string path = folder.file("measuring.lock");
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    auto held = MeasureLock::acquire(path);
    char byte = held ? 'y' : 'n';
    if (write(ready[1], &byte, 1) != 1) _exit(1);
    for (;;) pause(); // ends by kill -9: the system lets go of the lock
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  EXPECT_EQ(byte, 'y');
  std::vector<std::string> said;
  set_log_sink([&](LogLevel level, std::string_view text) {
    if (level == LogLevel::warning) said.emplace_back(text);
  });
  int asked = 0;
  const auto refused = MeasureLock::acquire(path, [&] { return ++asked > 3; });
  EXPECT_FALSE(refused);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_THAT(said[0], HasSubstr(fmt::format("waiting for process {}, which is measuring", child)));
  said.clear();
  const auto beside = MeasureLock::acquire(path, {}, 0.15);
  ASSERT_TRUE(beside) << beside.error();
  EXPECT_FALSE(beside->held());
  ASSERT_EQ(said.size(), 2u);
  EXPECT_THAT(said[1], HasSubstr("times are taken beside it"));
  std::thread killer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(250));
    kill(child, SIGKILL);
  });
  const double waited = MeasureLock::waited();
  auto got = MeasureLock::acquire(path);
  EXPECT_GT(MeasureLock::waited() - waited, 0.1);
  killer.join();
  set_log_sink({});
  ASSERT_TRUE(got) << got.error();
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(bytes_of(path), fmt::format("{}", getpid()));
  EXPECT_FALSE(MeasureLock::acquire(path, [] { return true; })); // in one process, too
  EXPECT_FALSE(MeasureLock::acquire(folder.file("no/such/folder/lock")));
  // Of all users, and wherever they have their caches.
  const auto of_another_user = [&] {
    const pid_t other = fork();
    if (other == 0) {
      if (setgid(65534) != 0 || setuid(65534) != 0) _exit(7);
      bool had_to_wait = false;
      const auto theirs = MeasureLock::acquire(path, [&] { return had_to_wait = true; });
      _exit(theirs ? 1 : had_to_wait ? 2 : 3);
    }
    waitpid(other, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  };
  if (geteuid() == 0) {
    std::filesystem::permissions(folder.path(), std::filesystem::perms(01777));
    EXPECT_EQ(of_another_user(), 2);
    {
      const MeasureLock let_go = std::move(*got);
    }
    EXPECT_EQ(of_another_user(), 1);
  }
  close(ready[0]);
  close(ready[1]);
}

TEST(MeasureLock, IsTheSameWhereverTheCachesAre) {
  const ScratchFolder folder("lock_path");
  const char* before = std::getenv("LUMINAL_CACHE_DIR");
  const std::string kept = before ? before : "";
  std::set<std::string> paths;
  for (const std::string& cache : {folder.file("one"), folder.file("two")}) {
    setenv("LUMINAL_CACHE_DIR", cache.c_str(), 1);
    paths.insert(MeasureLock::default_path());
  }
  before ? setenv("LUMINAL_CACHE_DIR", kept.c_str(), 1) : unsetenv("LUMINAL_CACHE_DIR");
  EXPECT_EQ(paths.size(), 1u);
}

} // namespace
} // namespace luminal::search
