// base/file_cache.h -- contents on disk under 128-bit keys: what takes long to make is read, not made.
//
// One file a content, named by its key. A file is written beside its place and renamed, begins with a
// header that repeats the key and ends nowhere but where the header says; its checksum covers all of it.
// What does not agree (foreign, damaged, half-written) is removed. Any number of threads and processes
// may share a folder. Where the folder cannot be written, or there is none, nothing is kept and the log
// says so once.
#pragma once
#include "base/hash.h"
#include <atomic>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace luminal {

class FileCache {
public:
  /// folder: empty: off. extension: of the files, ".object". max_bytes: the least recently used files
  /// beyond it are removed.
  FileCache(std::string folder, std::string extension, int64_t max_bytes);

  std::optional<std::string> find(const Hash128& key);
  /// The content is the parts one after the other.
  void store(const Hash128& key, std::span<const std::string_view> parts);
  std::string path(const Hash128& key) const;
  bool off() const { return folder_.empty(); }
  /// Removes the least recently used files until the size is kept.
  void trim();

  struct Counts {
    std::atomic<int64_t> hits{0}, misses{0}, damaged{0}, written{0}, unwritable{0}, removed{0};
  };
  const Counts& counts() const { return counts_; }

private:
  std::string folder_, extension_;
  int64_t max_bytes_;
  Counts counts_;
  std::atomic<int64_t> stores_{0};
};

} // namespace luminal
