// base/log.cpp -- messages on stderr.
#include "base/log.h"
#include "base/settings.h"
#include "luminal/error.h"
#include <atomic>
#include <cstdio>
#include <mutex>
#include <unistd.h>

namespace luminal {
namespace {

constexpr std::string_view names[] = {"error", "warning", "info", "debug"};

LogLevel level_of_environment() {
  if (debug_level() > 0) return LogLevel::debug;
  const std::string word = setting_text("LUMINAL_LOG");
  for (size_t i = 0; i < std::size(names); ++i)
    if (word == names[i]) return static_cast<LogLevel>(i);
  throw Error(fmt::format("LUMINAL_LOG={}: error, warning, info or debug is expected", word));
}

constexpr int unknown = -1;
std::atomic<int> level_now{unknown};

struct Sink {
  std::mutex mutex;
  std::function<void(LogLevel, std::string_view)> function;
  bool colour = isatty(STDERR_FILENO) == 1 && setting_text("NO_COLOR").empty();
};
Sink& sink() { // never destroyed: destructors of other static objects may log
  static Sink* const instance = new Sink;
  return *instance;
}

} // namespace

LogLevel log_level() {
  int level = level_now.load(std::memory_order_relaxed);
  if (level == unknown) {
    int expected = unknown;
    level = static_cast<int>(level_of_environment());
    if (!level_now.compare_exchange_strong(expected, level)) level = expected;
  }
  return static_cast<LogLevel>(level);
}
bool log_shows(LogLevel level) { return level <= log_level(); }
void set_log_level(LogLevel level) { level_now.store(static_cast<int>(level), std::memory_order_relaxed); }

void set_log_sink(std::function<void(LogLevel, std::string_view)> function) {
  const std::lock_guard lock(sink().mutex);
  sink().function = std::move(function);
}

void detail::log_text(LogLevel level, std::string_view text) {
  Sink& to = sink();
  const std::lock_guard lock(to.mutex);
  if (to.function) return to.function(level, text);
  const char* const colours[] = {"\033[31m", "\033[33m", "\033[36m", "\033[2m"};
  const auto index = static_cast<size_t>(level);
  // One write for a line, so that lines of several processes do not mix.
  const std::string line = fmt::format("luminal: {}{}{}: {}\n", to.colour ? colours[index] : "", names[index],
                                       to.colour ? "\033[0m" : "", text);
  std::fwrite(line.data(), 1, line.size(), stderr);
}

} // namespace luminal
