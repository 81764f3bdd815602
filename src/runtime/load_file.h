// runtime/load_file.h -- values computed at load, kept in one file: a later run on the same source
// maps them and computes nothing.
//
// The file begins with a header, then come a table (key, place, size and checksum of each value)
// and the values, each at a multiple of 4096 bytes. It is written beside its place and renamed.
// What is damaged, half-written or made from another source is not used.
#pragma once
#include "base/file.h"
#include <map>
#include <memory>

namespace luminal::runtime {

class LoadFile {
public:
  using Values = std::map<uint64_t, std::span<const std::byte>>; ///< by Slot::key

  /// Maps the file and checks its table; values are checked when they are read. `source` names what
  /// they are computed from and by which code. Failures: no such file, another source, damaged.
  static Result<LoadFile> open(const std::string& path, uint64_t source);
  static Result<void> write(const std::string& path, uint64_t source, const Values& values);

  /// Copies a value to memory of its size, and leaves nothing of the file in this process's memory.
  /// False: there is none of this size, or it is damaged.
  bool read(uint64_t key, std::span<std::byte> to) const;
  /// Those that are whole, as long as the LoadFile lives.
  Values values() const;

private:
  struct Value {
    std::span<const std::byte> bytes;
    uint64_t check;
  };
  explicit LoadFile(MappedFile file) : file_(std::move(file)) {}
  MappedFile file_;
  std::map<uint64_t, Value> values_;
};

/// $folder/load/<source>.values; older files there are removed where all together take more than
/// `max_bytes`.
std::string load_file_path(const std::string& cache_folder, uint64_t source);
void trim_load_files(const std::string& cache_folder, int64_t max_bytes = int64_t(8) << 30);

} // namespace luminal::runtime
