// base/settings.cpp -- environment variables.
#include "base/settings.h"
#include "base/check.h"
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <sched.h>
#include <thread>
#include <unistd.h>

namespace luminal {
namespace {

constexpr Setting table[] = {
    {"LUMINAL_THREADS", SettingType::integer, "0", "worker threads; 0: all cores that this process may use"},
    {"LUMINAL_DEVICE", SettingType::text, "cpu",
     "device of graphs that name none: cpu, cuda, hip, opencl, or null, which compiles only"},
    {"LUMINAL_CPU", SettingType::text, "",
     "the processor that code is made for, in LLVM's names, such as haswell; this one must have all that it "
     "has; default: this one"},
    {"LUMINAL_MACHINE", SettingType::text, "",
     "a profile as luminal devices --json prints it, taken in the place of this machine's: another machine's "
     "plans and schedules come out"},
    {"LUMINAL_OPENCL", SettingType::text, "", "the OpenCL library to open; default libOpenCL.so.1"},
    {"LUMINAL_CUDA", SettingType::text, "", "the CUDA driver to open; default libcuda.so.1"},
    {"LUMINAL_NVRTC", SettingType::text, "",
     "the compiler of CUDA to open; default libnvrtc.so.13 or .12, whichever the driver fits"},
    {"LUMINAL_HIP", SettingType::text, "", "the HIP runtime to open; default libamdhip64.so"},
    {"LUMINAL_HIPRTC", SettingType::text, "", "the compiler of HIP to open; default libhiprtc.so"},
    {"LUMINAL_CACHE_DIR", SettingType::text, "",
     "folder of machine code, tuning results, results of the search over rules, machine profiles and values "
     "computed at load; default ~/.cache/luminal"},
    {"LUMINAL_NO_CACHE", SettingType::flag, "0", "1: neither read nor write the cache"},
    {"LUMINAL_DEBUG", SettingType::integer, "0",
     "what a compilation prints on stderr: 1 kernels, 2 and schedules, 3 and passes, 4 and loop IR, 5 and "
     "terms, partitions and cones as each pass leaves them, 6 and LLVM IR, 7 and assembly"},
    {"LUMINAL_DEBUG_FILTER", SettingType::text, "",
     "words with commas: LUMINAL_DEBUG shows kernels whose name, or the name of a tensor they read or write, "
     "holds one of them"},
    {"LUMINAL_TRACE", SettingType::text, "",
     "a file that records each step of each run, for Chrome's tracing page and Perfetto"},
    {"LUMINAL_RULES", SettingType::text, "",
     "files of rules for the search for equal programs, with colons between them"},
    {"LUMINAL_FORBID_RULES", SettingType::text, "",
     "names of rules that take no part in it, with commas between them; luminal rules list has them"},
    {"LUMINAL_MAX_ERROR", SettingType::text, "",
     "rules of class approx take part where no result is off by more than this share of its greatest "
     "element; "
     "default none"},
    {"LUMINAL_PLAN", SettingType::text, "",
     "a plan's file (luminal tune --export-plan): its schedules are used before those of the tuning cache"},
    {"LUMINAL_LOG", SettingType::text, "warning", "what is logged on stderr: error, warning, info, debug"},
    {"LUMINAL_PREDICT", SettingType::integer, "-1", "default of luminal run --predict"},
    {"NO_COLOR", SettingType::text, "", "set: no colours on the terminal (no-color.org)"},
};

const Setting& find(std::string_view name) {
  auto found =
      std::find_if(std::begin(table), std::end(table), [&](const Setting& s) { return s.name == name; });
  LUMINAL_CHECK(found != std::end(table), "setting {} is not in the table", name);
  return *found;
}

} // namespace

std::span<const Setting> settings_table() { return table; }

std::vector<std::string> unknown_settings() {
  // Tests and benchmarks of the tree read these.
  constexpr std::string_view prefix = "LUMINAL_", of_the_tree[] = {"TEST_", "PEERS_", "UPDATE", "EGGLOG_"};
  std::vector<std::string> names;
  for (char** entry = environ; entry && *entry; entry++) {
    const std::string_view text(*entry), name = text.substr(0, text.find('='));
    const bool known = std::any_of(std::begin(table), std::end(table),
                                   [&](const Setting& setting) { return setting.name == name; }) ||
                       std::any_of(std::begin(of_the_tree), std::end(of_the_tree), [&](std::string_view of) {
                         return name.substr(std::min(name.size(), prefix.size())).starts_with(of);
                       });
    if (name.starts_with(prefix) && !known) names.emplace_back(name);
  }
  return names;
}

std::string setting_text(std::string_view name) {
  const Setting& setting = find(name);
  const char* value = std::getenv(std::string(name).c_str());
  return value ? value : std::string(setting.default_text);
}

int64_t setting_integer(std::string_view name) {
  std::string text = setting_text(name);
  if (text.empty()) text = find(name).default_text;
  char* end = nullptr;
  errno = 0;
  int64_t value = std::strtoll(text.c_str(), &end, 10);
  if (errno || end == text.c_str() || *end)
    throw Error(fmt::format("{}={}: a whole number is expected", name, text));
  return value;
}

bool setting_flag(std::string_view name) {
  std::string text = setting_text(name);
  if (text.empty() || text == "0" || text == "false" || text == "off") return false;
  if (text == "1" || text == "true" || text == "on") return true;
  throw Error(fmt::format("{}={}: 0 or 1 is expected", name, text));
}

int setting_threads() {
  int64_t threads = setting_integer("LUMINAL_THREADS");
  if (threads < 0 || threads > 1024)
    throw Error(fmt::format("LUMINAL_THREADS={}: 0 to 1024 is expected", threads));
  if (threads > 0) return int(threads);
#ifdef __linux__
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
#endif
  return std::max(1, int(std::thread::hardware_concurrency()));
}

int debug_level() { return int(std::clamp<int64_t>(setting_integer("LUMINAL_DEBUG"), 0, 7)); }

std::string cache_folder() {
  if (setting_flag("LUMINAL_NO_CACHE")) return "";
  std::string folder = setting_text("LUMINAL_CACHE_DIR");
  if (!folder.empty()) return folder;
  if (const char* xdg = std::getenv("XDG_CACHE_HOME"); xdg && *xdg) return std::string(xdg) + "/luminal";
  if (const char* home = std::getenv("HOME"); home && *home) return std::string(home) + "/.cache/luminal";
  return "";
}

} // namespace luminal
