// codegen/object_cache.h -- machine code on disk: a kernel that was compiled once is read, not
// compiled.
//
// A FileCache (base/file_cache.h) under keys that are a kernel's structure, target, options, version of
// this code generator, version of LLVM. Without a folder code is made each time. Object code is never
// taken from anywhere else.
#pragma once
#include "base/file_cache.h"
#include "codegen/codegen.h"
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
  std::string path(const Hash128& key) const { return files_.path(key); }
  void trim() { files_.trim(); }
  const FileCache::Counts& counts() const { return files_.counts(); }

private:
  FileCache files_;
};

} // namespace luminal::codegen
