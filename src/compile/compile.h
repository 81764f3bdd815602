// compile/compile.h -- THE PASS LIST: from a module of terms to a plan that can be loaded and run.
#pragma once
#include "base/result.h"
#include "codegen/codegen.h"
#include "ir/term.h"
#include "kernel/default_schedule.h"
#include "runtime/plan.h"
#include <memory>
#include <string>
#include <vector>

namespace luminal {
class ThreadPool;
}

namespace luminal::compile {

struct Options {
  kernel::MachineLimits limits; ///< what schedules are made for
  codegen::CpuTarget target;    ///< what code is made for
  bool cache = true;            ///< keep objects on disk
  ThreadPool* pool = nullptr;   ///< compiles kernels on all its workers; null: on this thread

  /// This machine, with that many threads.
  static Options host(int threads);
};

struct PassTime {
  std::string name;
  double ms = 0;
};

struct Compiled {
  std::shared_ptr<const runtime::Plan> plan;
  std::vector<PassTime> times;
  int kernels = 0;                    ///< distinct ones
  int cached = 0;                     ///< of these, found on disk
  std::vector<std::string> schedules; ///< of each kernel, as text
  /// A line a kernel: name, schedule, buffers, where it is used; then the pass times.
  std::string report() const;
};

/// Names what load steps compute from weights of this name: LoadFile's `source`.
uint64_t load_source(std::string_view weights_id, const Options& options);

/// Verifies, then runs every pass. Failure: what is not supported or wrong, with the place.
Result<Compiled> compile(const Module& module, const Options& options);

} // namespace luminal::compile
