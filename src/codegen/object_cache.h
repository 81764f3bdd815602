// codegen/object_cache.h -- machine code on disk: a kernel that was compiled once is read, not
// compiled.
//
// One file a kernel, named by a 128-bit key: the kernel's structure, target, options, version of
// this code generator, version of LLVM. A file is written beside its place and renamed, begins with
// a header that repeats the key and ends nowhere but where the header says; its checksum covers all
// of it. What does not agree (foreign, damaged, half-written) is removed and made again. Any number
// of threads and processes may share a folder. Where the folder cannot be written, or there is
// none, code is made each time and the log says so once. Object code is never taken from anywhere
// else.
#pragma once
#include "base/hash.h"
#include "codegen/codegen.h"
#include <atomic>
#include <optional>

namespace luminal::codegen {

Hash128 object_key(const kernel::Kernel& kernel, const CpuTarget& target, const CodegenOptions& options);

class ObjectCache {
public:
  /// folder: empty: off. max_bytes: the least recently used files beyond it are removed.
  explicit ObjectCache(std::string folder, int64_t max_bytes = int64_t(512) << 20);
  /// Where LUMINAL_CACHE_DIR and LUMINAL_NO_CACHE say, or the user's cache folder; empty: off.
  static std::string default_folder();

  struct Compiled {
    CompiledKernel kernel; ///< times are 0 when it comes from the cache
    bool from_cache = false;
  };
  /// From disk, or compiled and written. Failures are those of codegen::compile; a cache that does
  /// not work is not a failure.
  Result<Compiled> compile(const kernel::Kernel& kernel, const CpuTarget& target,
                           const CodegenOptions& options = {});

  std::optional<CompiledKernel> find(const Hash128& key);
  void store(const Hash128& key, const CompiledKernel& kernel);
  std::string path(const Hash128& key) const;
  /// Removes the least recently used files until the size is kept.
  void trim();

  struct Counts {
    std::atomic<int64_t> hits{0}, misses{0}, damaged{0}, written{0}, unwritable{0}, removed{0};
  };
  const Counts& counts() const { return counts_; }

private:
  std::string folder_;
  int64_t max_bytes_;
  Counts counts_;
  std::atomic<int64_t> stores_{0};
};

} // namespace luminal::codegen
