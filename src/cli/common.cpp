// cli/common.cpp -- terminal, memory, signals.
#include "cli/common.h"
#include "base/print.h"
#include "base/text.h"
#include "luminal/error.h"
#include <atomic>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <fmt/format.h>
#include <fstream>
#include <sys/resource.h>
#include <unistd.h>

namespace luminal::cli {
namespace {
std::atomic<int> interrupts{0};
std::atomic<bool> at_once{false}, on_terminal{false};
void on_interrupt(int) {
  if (interrupts.fetch_add(1) == 0 && !at_once) return;
  if (on_terminal && write(STDERR_FILENO, "\n", 1) < 0) _exit(interrupted); // behind a bar of progress
  _exit(interrupted);
}
void handle_interrupts(bool end) {
  at_once = end;
  on_terminal = stderr_is_terminal();
  struct sigaction action{};
  action.sa_handler = on_interrupt;
  sigaction(SIGINT, &action, nullptr);
}
} // namespace

void add_allow_custom(CLI::App& verb, bool& allowed) {
  verb.add_flag("--allow-custom", allowed,
                "Run what a .lum file brings along: custom kernels, which may do whatever you may do, and "
                "effects that read and write files");
}

int64_t parse_bytes(const std::string& text) {
  char* end = nullptr;
  double number = std::strtod(text.c_str(), &end);
  std::string unit = end;
  if (!unit.empty() && (unit.back() == 'B' || unit.back() == 'b')) unit.pop_back();
  if (!unit.empty() && unit.back() == 'i') unit.pop_back();
  double factor = unit.empty()                 ? 1
                  : unit == "K" || unit == "k" ? 0x1p10
                  : unit == "M" || unit == "m" ? 0x1p20
                  : unit == "G" || unit == "g" ? 0x1p30
                  : unit == "T" || unit == "t" ? 0x1p40
                                               : 0;
  double bytes = number * factor;
  if (end == text.c_str() || factor == 0 || !(bytes > 0) || bytes > 9e18)
    throw UsageError(
        fmt::format("\"{}\" is not an amount of memory; write 512M, 8G or a number of bytes", text));
  return int64_t(bytes);
}

std::string show_bytes(int64_t bytes) {
  if (bytes >= 1 << 30) return fmt::format("{:.2f} GiB", double(bytes) / (1 << 30));
  if (bytes >= 1 << 20) return fmt::format("{:.1f} MiB", double(bytes) / (1 << 20));
  if (bytes >= 1 << 10) return fmt::format("{:.1f} KiB", double(bytes) / (1 << 10));
  return fmt::format("{} bytes", bytes);
}

int64_t available_memory() {
  std::ifstream file("/proc/meminfo");
  for (std::string word; file >> word;)
    if (word == "MemAvailable:") {
      int64_t kib = 0;
      file >> kib;
      return kib * 1024;
    }
  return 0;
}

int64_t peak_memory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
#ifdef __APPLE__
  return usage.ru_maxrss;
#else
  return int64_t(usage.ru_maxrss) * 1024;
#endif
}

bool stderr_is_terminal() {
  static const bool terminal = isatty(STDERR_FILENO) == 1;
  return terminal;
}
static bool colour_wanted() {
  const char* off = std::getenv("NO_COLOR");
  return !(off && *off);
}
bool colour() { return stderr_is_terminal() && colour_wanted(); }
bool stdout_colour() { return isatty(STDOUT_FILENO) == 1 && colour_wanted(); }

Progress::Progress(std::string title) : title_(std::move(title)) {}
Progress::~Progress() {
  if (!finished_ && shown_) print_stderr("\r\033[K");
}
void Progress::update(double fraction, const std::string& detail) {
  if (!stderr_is_terminal()) return;
  constexpr int width = 24;
  int filled = int(std::lround(std::min(1.0, std::max(0.0, fraction)) * width));
  std::string bar;
  for (int i = 0; i < width; i++) bar += i < filled ? "█" : "░";
  print_stderr("\r\033[K{} {} {}", title_, bar, detail);
  std::fflush(stderr);
  shown_ = true;
}
void Progress::done(const std::string& detail) {
  finished_ = true;
  print_stderr("{}{} {}\n", shown_ ? "\r\033[K" : "", title_, detail);
}

std::string shown_lines(std::string_view text) {
  std::string shown;
  for (const std::string_view line : split(text, '\n'))
    shown += (shown.empty() ? "" : "\n") + printable(line, std::string::npos);
  return shown;
}

void catch_interrupts() { handle_interrupts(false); }
void end_on_interrupt() { handle_interrupts(true); }
bool interrupt_requested() { return interrupts.load() > 0; }

} // namespace luminal::cli
