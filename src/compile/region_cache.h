// compile/region_cache.h -- what the search of a region found, kept for the process and on disk, so that a
// region that was searched once costs next to nothing.
//
// On disk a result is a file (base/file_cache.h) beside the tuning cache: what is told of the region, and
// the terms that replace it, in their text form (rules/fragment_text.h). The key has all that the result
// depends on: the structure of the region, the rules, limits, sizes, the machine, and the build of this
// program, since any change of the code may change what is found. What is read is parsed, verified and held
// against the region before it is used. A result that cannot be written is made each time.
#pragma once
#include "base/file_cache.h"
#include "compile/region_search.h"
#include <map>
#include <mutex>

namespace luminal::compile {

class RegionCache {
public:
  /// folder: empty: memory only.
  explicit RegionCache(std::string folder, int64_t max_bytes = int64_t(64) << 20);
  /// The one of this process, where LUMINAL_CACHE_DIR and LUMINAL_NO_CACHE say.
  static RegionCache& shared();

  std::shared_ptr<const RegionResult> find(const Hash128& key);
  /// The same from disk, for a region that is this function.
  std::shared_ptr<const RegionResult> read(const Hash128& key, const RegionFunction& region);
  /// `files`: on disk, too.
  void keep(const Hash128& key, std::shared_ptr<const RegionResult> result, const RegionFunction& region,
            bool files);
  const FileCache& files() const { return files_; }

private:
  void remember(const Hash128& key, std::shared_ptr<const RegionResult> result);
  FileCache files_;
  std::mutex mutex_;
  std::map<Hash128, std::shared_ptr<const RegionResult>> known_;
};

} // namespace luminal::compile
