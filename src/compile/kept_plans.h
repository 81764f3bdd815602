// compile/kept_plans.h -- whole plans on disk: a program that was compiled once is read, not compiled.
//
// The key is a hash of all that a plan depends on: every term with its names, the options, the machine as it
// was measured, the rules, what tuning has found, and the build of this program. What hashes cannot tell
// (functions of the caller's, files that it names, errors that it allows) keeps a plan from being kept.
#pragma once
#include "base/file_cache.h"
#include "compile/compile.h"

namespace luminal::compile {

class KeptPlans {
public:
  /// folder: empty: off.
  explicit KeptPlans(std::string folder, int64_t max_bytes = int64_t(128) << 20);
  /// The one of this process, where LUMINAL_CACHE_DIR and LUMINAL_NO_CACHE say.
  static KeptPlans& shared();

  /// Nothing where such a plan is not kept. `options.rules.set` is there.
  std::optional<Hash128> key(const Module& module, const Options& options) const;
  /// The plan with its machine code, and what report() said when it was made; no kernels' reports, regions
  /// or entries.
  std::optional<Compiled> find(const Hash128& key);
  void keep(const Hash128& key, const Compiled& compiled);
  const FileCache& files() const { return files_; }

private:
  FileCache files_;
};

} // namespace luminal::compile
