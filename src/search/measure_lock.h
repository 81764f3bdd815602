// search/measure_lock.h -- one measuring process at a time on a machine: a lock on a file that all
// its users share.
#pragma once
#include "base/result.h"
#include <functional>
#include <string>

namespace luminal::search {

/// Held until the object goes, or the process ends however it ends.
class MeasureLock {
public:
  /// "/tmp/luminal.measuring.lock", whoever measures and wherever the caches are. Where that cannot
  /// be: "measuring.lock" in the cache folder, or a file of the user's among temporary files.
  static std::string default_path();
  /// Waits while another process (or object) holds it and says so once, with its process id, as a
  /// warning. After `most_seconds`, of which any user of the machine could make more, it warns and
  /// goes on without. Failure: the file cannot be made, or `stop`, asked ten times a second, says
  /// true.
  static Result<MeasureLock> acquire(const std::string& path, const std::function<bool()>& stop = {},
                                     double most_seconds = 600);
  bool held() const { return descriptor_ >= 0; }
  /// Seconds for which acquire() of this process has waited so far: no budget pays for them.
  static double waited();
  MeasureLock(MeasureLock&& other) noexcept;
  MeasureLock& operator=(MeasureLock&& other) noexcept;
  MeasureLock(const MeasureLock&) = delete;
  MeasureLock& operator=(const MeasureLock&) = delete;
  ~MeasureLock();

private:
  explicit MeasureLock(int descriptor) : descriptor_(descriptor) {}
  int descriptor_ = -1;
};

} // namespace luminal::search
