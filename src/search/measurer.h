// search/measurer.h -- runs candidates for a kernel: timed or for their results, in this process or
// in a worker process that may crash or hang.
//
// All candidates of one measurer do the same work on the same memory. Timed launches rotate through
// copies of the arguments that exceed the caches. Runs for results get arguments of their own:
// outputs are poisoned first, guard pages lie behind and before every argument, and bytes beside it
// are looked at afterwards.
#pragma once
#include "base/result.h"
#include "ir/dtype.h"
#include "loop/loop.h"
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace luminal::search {

struct WorkArgument {
  std::string name;
  DType dtype = DType::f32;
  kernel::Access access = kernel::Access::in; ///< in, out, inout
  int64_t bytes = 0;
  std::vector<std::byte> content; ///< in, inout: what it holds before a launch
};

/// A kernel's arguments at one size.
struct Workload {
  std::vector<WorkArgument> arguments; ///< the kernel's global buffers in order
  std::vector<int64_t> symbols;        ///< values, in order of the kernel's symbols
  int threads = 1;                     ///< workers of a launch
  int64_t bytes() const;
};

/// Machine code of one candidate, plain data.
struct CandidateCode {
  std::shared_ptr<const std::vector<std::byte>> object;
  std::string entry;
  int64_t shared_bytes = 0, local_bytes = 0; ///< scratch of a launch, of each worker
  bool barriers = true;                      ///< its workers wait for each other
  int workers = 0;                           ///< of a launch at most; 0: as many as the workload has
};

struct MeasurerOptions {
  /// copies of the arguments together, at least; -1: twice the largest cache, and 64 MiB; 0: one
  /// copy
  int64_t rotate_bytes = -1;
  int64_t most_bytes = int64_t(2) << 30; ///< but never more than this, one copy apart
  /// Worker process: a call that takes longer is a failure, and the worker is started anew. Where
  /// others have the processors meanwhile it may take up to 8 times as long.
  double seconds = 10;
};

/// Contents of the arguments after a launch; empty for those that are only read.
using Outputs = std::vector<std::vector<std::byte>>;

class Measurer {
public:
  virtual ~Measurer() = default;
  Measurer() = default;
  Measurer(const Measurer&) = delete;
  Measurer& operator=(const Measurer&) = delete;

  /// Takes a candidate; its number. Failure: the code cannot be loaded.
  virtual Result<int> add(CandidateCode code) = 0;
  /// Seconds of one launch: the mean of `launches` back to back, each on the next copy of the
  /// arguments. Failure (worker process): "crashed: ...", "no end within ..."; the measurer goes on
  /// to serve other candidates.
  virtual Result<double> time(int candidate, int launches) = 0;
  /// One launch on fresh arguments whose outputs hold `poison` in every byte. Failure: as above, or
  /// it wrote beside an argument.
  virtual Result<Outputs> run(int candidate, std::byte poison) = 0;
};

/// A candidate that crashes ends the process; one that hangs, hangs.
std::unique_ptr<Measurer> make_in_process_measurer(std::shared_ptr<const Workload> work,
                                                   const MeasurerOptions& options = {});
/// A forked process, started with the first call and after each failure. Not exec'd: any program
/// that links the library has it, nothing has to be found, and arguments are there without being
/// sent. The child uses only what survives a fork: the C library, the loader of our own objects,
/// threads that it starts itself. It ends with its parent.
std::unique_ptr<Measurer> make_worker_measurer(std::shared_ptr<const Workload> work,
                                               const MeasurerOptions& options = {});

class MeasureLog;
/// Times go to the log; runs for results do not.
std::unique_ptr<Measurer> make_logged_measurer(std::unique_ptr<Measurer> measurer, MeasureLog& log);
/// Takes every candidate, has the times of the log, runs nothing.
std::unique_ptr<Measurer> make_replaying_measurer(MeasureLog& log);

} // namespace luminal::search
