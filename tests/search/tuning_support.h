// search/tuning_support.h -- example entries and a folder of their own for tests of the tuning
// cache.
#pragma once
#include "base/log.h"
#include "search/tuning_cache.h"
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <optional>
#include <string>
#include <unistd.h>
#include <vector>

namespace luminal::search {

/// A folder that is empty at first and goes at the end.
class ScratchFolder {
public:
  explicit ScratchFolder(const std::string& name)
      : path_(std::filesystem::temp_directory_path() / fmt::format("luminal_{}_{}", name, ::getpid())) {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ~ScratchFolder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  std::string file(const std::string& name = "tuning.sqlite") const { return (path_ / name).string(); }
  const std::filesystem::path& path() const { return path_; }

private:
  std::filesystem::path path_;
};

/// The user's cache folder for as long as it lives.
class CacheFolder {
public:
  explicit CacheFolder(const std::string& name) : folder_(name) {
    if (const char* before = std::getenv("LUMINAL_CACHE_DIR")) before_ = before;
    setenv("LUMINAL_CACHE_DIR", folder_.path().c_str(), 1);
  }
  ~CacheFolder() {
    before_ ? setenv("LUMINAL_CACHE_DIR", before_->c_str(), 1) : unsetenv("LUMINAL_CACHE_DIR");
  }

private:
  ScratchFolder folder_;
  std::optional<std::string> before_;
};

inline TuningEntry example_entry(int number) {
  TuningEntry e;
  e.key.structure = {uint64_t(number), 7};
  e.key.dtypes = "f32 f32 f32";
  e.key.bucket = fmt::format("m={}", number);
  e.key.layouts = "rows/64 rows/64 rows/64";
  e.key.numeric = "reassoc";
  e.key.instructions = "x86_64 znver4";
  e.key.llvm = "19.1.7";
  e.key.rules = 0xFFFFFFFFFFFFFFFFu;
  e.key.codegen = 4;
  e.key.device = 0x8000000000000001u;
  e.key.threads = 2;
  e.name = fmt::format("matmul_{}", number);
  e.schedule = "split mm i io ii 6\norder mm io k ii\nunroll mm ii\n";
  e.seconds = 1e-5 * (number + 1);
  e.samples = 40;
  e.limit_fraction = 0.93;
  e.checked = true;
  return e;
}

inline std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
inline void set_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

/// Collects what is logged.
class Log {
public:
  Log() {
    set_log_sink([this](LogLevel level, std::string_view text) {
      if (level <= LogLevel::warning) lines_.emplace_back(text);
    });
  }
  ~Log() { set_log_sink({}); }
  const std::vector<std::string>& lines() const { return lines_; }

private:
  std::vector<std::string> lines_;
};

/// The entry as it was put, without the time of its last use.
inline TuningEntry timeless(std::optional<TuningEntry> e) {
  if (!e) return {};
  e->used = 0;
  return *e;
}

} // namespace luminal::search
