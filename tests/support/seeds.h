// support/seeds.h -- the seeds of a random test, and a limit of the processor time that one takes.
#pragma once
#include <cinttypes>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <sys/time.h>

namespace luminal::test {

struct Seeds {
  uint64_t first = 0, count = 0;
  bool own = false; ///< of the environment
  uint64_t end() const { return first + count; }
};

/// Those of the environment variable LUMINAL_RANDOM_SEEDS=FIRST:COUNT (FIRST alone: one of them) where it
/// is set, else the test's own.
inline Seeds seeds(uint64_t first, uint64_t count) {
  const char* other = std::getenv("LUMINAL_RANDOM_SEEDS");
  if (!other) return {first, count};
  Seeds given{.count = 1, .own = true};
  std::sscanf(other, "%" SCNu64 ":%" SCNu64, &given.first, &given.count);
  return given;
}

/// From now on the process may take so many seconds of processor time, of all threads together; then
/// SIGPROF ends it. A test on a machine that others load is not late by this clock.
inline void limit_processor_time(int seconds) {
  std::signal(SIGPROF, SIG_DFL);
  const itimerval limit{.it_interval = {}, .it_value = {.tv_sec = seconds, .tv_usec = 0}};
  setitimer(ITIMER_PROF, &limit, nullptr);
}

} // namespace luminal::test
