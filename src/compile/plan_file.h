// compile/plan_file.h -- a plan as a file: entries of the tuning cache for every kernel and measured region
// of a program, which another machine of the same kind uses before its own cache.
//
// Keys carry over but for the fingerprint of the machine; instructions, versions and threads have to be the
// same. A schedule is checked before it is used, once for each build of this program: that it passed is kept
// on disk.
#pragma once
#include "base/file_cache.h"
#include "search/tuning_cache.h"
#include <atomic>

namespace luminal::compile {

struct Compiled;

class PlanFile {
public:
  /// `here`: the parts of keys that are this machine's and this program's (search::machine_key), for all
  /// workers. `files`: what was checked is kept on disk. Failure: no such file, no plan, or one of a machine
  /// of another kind, of another version, or for other threads, with what is different.
  static Result<std::shared_ptr<PlanFile>> read(const std::string& path, const search::TuningKey& here,
                                                bool files);

  /// Its entry for the key; not one that was refused.
  std::optional<search::TuningEntry> find(const search::TuningKey& key);
  /// The entry passed its check.
  void accept(const search::TuningEntry& entry);
  void refuse(const search::TuningEntry& entry, const std::string& cause);
  const std::string& path() const { return path_; }
  size_t size() const { return size_; }
  int used() const { return used_; } ///< entries that were found

private:
  PlanFile(std::string path, bool files);
  Hash128 name_of(const search::TuningEntry& entry) const;
  std::string path_;
  size_t size_ = 0;
  std::atomic<int> used_{0};
  search::TuningCache entries_{""};
  FileCache checked_;
};

/// The entries of a compiled program: schedules as they are, measured or not, and plans of regions that won.
std::string export_plan(const std::vector<const Compiled*>& programs);

/// What luminal::choose_plan chose, else LUMINAL_PLAN; empty: none.
std::string plan_of_process();
void set_plan_of_process(std::string file);

} // namespace luminal::compile
