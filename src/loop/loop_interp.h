// loop/loop_interp.h -- runs a kernel, checks every access and counts the work. The judge of
// lowering and of code generation.
//
// Values are those of the op table, rounded to their dtype at each op. Workers run one after the
// other, or statement by statement in a seeded mix; what one worker does between two barriers never
// depends on another in a correct kernel, so any order shows the same results, and races are found
// from the sets of accesses, not by luck.
#pragma once
#include "loop/loop.h"
#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace luminal::kernel {

enum class WorkerOrder : uint8_t {
  forward,
  reverse,
  shuffled,
  interleaved
}; ///< interleaved: 1 to 3 statements at a time
enum class Distribution : uint8_t { blocks, cyclic, shuffled }; ///< iterations of parallel loops to workers
enum class Arrival : uint8_t { early, late, mixed };            ///< when asynchronous statements act
enum class RoleOrder : uint8_t { lockstep, ahead, mixed };      ///< how far producers run ahead

struct LoopRunOptions {
  int workers = 1; ///< of level 0
  int lanes = 1;   ///< of each group: workers of level 1
  WorkerOrder order = WorkerOrder::forward;
  Distribution distribution = Distribution::blocks;
  Arrival arrival = Arrival::late;
  RoleOrder role_order = RoleOrder::lockstep;
  uint64_t seed = 1;
  /// Iterations of a parallel loop count as different workers wherever they run, so that races are
  /// found with one worker too.
  bool iterations_race = true;
  int64_t max_statements = int64_t(1) << 34; ///< then the run ends with a finding
  int max_findings = 16;
};
/// Options with the worker count given and everything else drawn from the seed.
LoopRunOptions adversarial(uint64_t seed, int workers, int lanes = 1);

enum class FindingKind : uint8_t {
  race,          ///< the same byte in one phase by two workers, one of them writing
  out_of_bounds, ///< outside the buffer
  uninitialised, ///< bytes nobody has written: scratch, `out`
  carried,       ///< a private buffer carries a value from one iteration of a parallel loop to another
  in_flight,     ///< destination touched or source written before the wait
  ring,          ///< producers and consumers touch the same byte, and nothing orders them
  token,         ///< awaited and never produced, or never awaited
  divergence,    ///< not all workers reach the barrier
  range,         ///< an index or loop variable outside its range
  overflow,      ///< of an offset, bound or condition, or a division by zero in it
  lanes,         ///< two lanes store to one element
  unaligned,     ///< a wider load from the middle of a byte
  limit,         ///< max_statements
};
std::string_view to_string(FindingKind kind);

struct Finding {
  FindingKind kind;
  std::string text; ///< one line: what, buffer, offset, where
  std::string buffer;
  int64_t offset = 0; ///< element of the buffer
  std::string path;   ///< "parallel io in 0..4 (io = 2) / y[16*io] = ..."
};

struct BufferTraffic {
  std::string name;
  int64_t read = 0, written = 0;                   ///< bytes, every access
  int64_t read_distinct = 0, written_distinct = 0; ///< bytes, each once (private buffers: once a worker)
};
/// Work that was done, repeated work included. Lanes of vector statements count one by one, dead
/// lanes included: a masked vector costs as much as a full one. Bytes are those of live lanes.
struct LoopCounts {
  std::vector<BufferTraffic> buffers; ///< as in the kernel
  /// by the type of the arguments (select: of the values); reduce_lanes: lanes - 1 of its op
  std::map<std::pair<Op, DType>, int64_t> ops;
  std::map<std::string, int64_t> units; ///< unit instructions by name
  std::map<std::string, int64_t> user_ops;
  int64_t casts = 0;
  int64_t fma = 0;            ///< fma of the table and multiply-adds of units
  int64_t transcendental = 0; ///< exp2, log2, sin and what is made of them
  int64_t barriers = 0;       ///< arrivals, all workers together
  int64_t loop_trips = 0;     ///< of serial, unrolled and parallel loops
  int64_t statements = 0;
  int64_t total_ops() const;
};

struct LoopRun {
  std::vector<Finding> findings; ///< in the order found; the same statement and buffer once for each kind
  LoopCounts counts;
  bool ok() const { return findings.empty(); }
  std::string text() const; ///< the findings, one a line
};

/// Runs the kernel. `globals`: the bytes of the global buffers in order, storage_bytes of their
/// size each; `out` buffers are poisoned first. `symbols`: values of the kernel's symbols. Throws
/// Error where these do not fit the kernel, or where the kernel does not pass verify.
LoopRun run_kernel(const Kernel& kernel, std::span<const std::span<std::byte>> globals,
                   std::span<const int64_t> symbols, const LoopRunOptions& options = {});

} // namespace luminal::kernel
