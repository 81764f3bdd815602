// bench/pool.cpp -- fork and join of the pool: hot, after pauses, and with one core taken by
// another process; and beside OpenMP where the compiler has it.
#include "base/settings.h"
#include "base/thread_pool.h"
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <fmt/format.h>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>
#ifdef _OPENMP
#include <omp.h>
#endif

namespace {

using luminal::ThreadPool;

double now_us() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void spin(double us) {
  for (const double end = now_us() + us; now_us() < end;) {
  }
}

volatile uint64_t sink;

/// Arithmetic that takes about so many microseconds, on a core of its own.
uint64_t turns_of(double us) {
  static const double rate = [] {
    double best = 0;
    for (int i = 0; i < 5; i++) {
      const double begin = now_us();
      uint64_t x = 1;
      for (int k = 0; k < 200'000; k++) x = x * 6364136223846793005u + 1;
      sink = x;
      best = std::max(best, 200'000 / (now_us() - begin));
    }
    return best;
  }();
  return uint64_t(us * rate);
}
void work(uint64_t turns) {
  uint64_t x = turns;
  for (uint64_t k = 0; k < turns; k++) x = x * 6364136223846793005u + 1;
  sink = x;
}

struct Row {
  std::string name;
  std::string setting;
  double median = 0, high = 0, total = 0;
};

/// Calls `launch` so often, with pauses between; microseconds of one.
Row measure(std::string name, std::string setting, int times, double pause_us,
            const std::function<void()>& launch) {
  std::vector<double> samples;
  for (int i = 0; i < 20; i++) launch();
  const double start = now_us();
  for (int i = 0; i < times; i++) {
    if (pause_us > 0) spin(pause_us);
    const double begin = now_us();
    launch();
    samples.push_back(now_us() - begin);
  }
  const double total = now_us() - start;
  std::ranges::sort(samples);
  return {std::move(name), std::move(setting), samples[samples.size() / 2],
          samples[samples.size() * 99 / 100], total / times - pause_us};
}

/// A process that computes until it is ended; `cpu_seconds` afterwards: what it got.
struct Busy {
  pid_t pid = fork();
  Busy() {
    if (pid == 0)
      for (;;) work(1'000'000);
  }
  double end() {
    kill(pid, SIGKILL);
    rusage usage{};
    int status = 0;
    wait4(pid, &status, 0, &usage);
    return double(usage.ru_utime.tv_sec) + double(usage.ru_utime.tv_usec) * 1e-6;
  }
};

void print(const Row& r) {
  fmt::print("{:<26}{:<22}{:>12.2f}{:>12.2f}{:>12.2f}\n", r.name, r.setting, r.median, r.high, r.total);
  std::fflush(stdout);
}

} // namespace

int main(int argc, char** argv) {
  std::string json;
  for (int i = 1; i + 1 < argc; i++)
    if (std::strcmp(argv[i], "--json") == 0) json = argv[i + 1];
  const int threads = std::max(2, luminal::setting_threads());
  std::vector<Row> rows;
  const auto keep = [&](Row row) {
    print(row);
    rows.push_back(std::move(row));
  };
  fmt::print("{} threads; microseconds of one fork and join: median, 99 %, mean\n", threads);
  fmt::print("{:<26}{:<22}{:>12}{:>12}{:>12}\n", "work", "pause", "median", "99 %", "mean");
  turns_of(1);
  const auto series = [&](const std::string& setting, ThreadPool& pool, double seconds) {
    for (const double each : {0.0, 1.0, 10.0, 100.0, 1000.0}) {
      const uint64_t turns = turns_of(each);
      const std::string name = each > 0 ? fmt::format("{} x {} us", threads, each) : "nothing";
      const int times = int(std::clamp(seconds * 1e6 / (2 * each + 1), 200.0, 50'000.0));
      keep(measure(name + ", alone", setting, times / 2, 0, [&] {
        for (int i = 0; i < threads; i++) work(turns);
      }));
      keep(measure(name, setting, times, 0,
                   [&] { pool.tasks(threads, threads * each, [&](int, int) { work(turns); }); }));
    }
  };
  {
    ThreadPool pool(threads);
    series("none", pool, 0.3);
    for (const double pause : {10.0, 100.0, 1000.0})
      for (const double each : {0.0, 10.0, 100.0}) {
        const uint64_t turns = turns_of(each);
        keep(measure(each > 0 ? fmt::format("{} x {} us", threads, each) : "nothing",
                     fmt::format("{} us", pause), int(std::min(2000.0, 0.5e6 / pause)), pause,
                     [&] { pool.tasks(threads, threads * each, [&](int, int) { work(turns); }); }));
      }
    keep(measure("nothing, all members", "none", 20'000, 0, [&] { pool.run([](int) {}); }));
    keep(measure("a team and a barrier", "none", 20'000, 0,
                 [&] { pool.team(threads, 0, [&](int, int) { pool.barrier(); }); }));
#ifdef _OPENMP
    keep(measure("nothing, OpenMP", "none", 20'000, 0, [&] {
#pragma omp parallel num_threads(threads)
      sink = 1;
    }));
#endif
  }
  {
    Busy busy;
    const double begin = now_us();
    {
      ThreadPool pool(threads);
      series("one core taken", pool, 1.0);
      const auto c = pool.counts();
      fmt::print("runs {}, tasks helped {}, alone {}, wakes {}, stalls {}, moves {}\n", c.runs, c.helped,
                 c.alone, c.wakes, c.stalls, c.moves);
    }
    const double wall = (now_us() - begin) * 1e-6;
    fmt::print("the other process had {:.0f} % of a core\n", 100 * busy.end() / wall);
  }
  if (!json.empty()) {
    nlohmann::json out = nlohmann::json::array();
    for (const Row& r : rows)
      out.push_back({{"work", r.name},
                     {"setting", r.setting},
                     {"threads", threads},
                     {"unit", "us"},
                     {"median", r.median},
                     {"p99", r.high},
                     {"mean", r.total}});
    std::ofstream(json) << out.dump(2) << "\n";
  }
  return 0;
}
