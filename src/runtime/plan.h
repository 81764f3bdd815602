// runtime/plan.h -- a plan: what to launch, in which order, on which memory. Immutable once made,
// shared between threads; all that changes from step to step (symbol values, addresses) lives in a
// Context, what outlives a step in a Store.
#pragma once
#include "base/id.h"
#include "base/result.h"
#include "device/device.h"
#include "expr/expr.h"
#include "ir/term.h"
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace luminal::runtime {

// Of a plan.
using SlotId = Id<struct SlotTag>;
using CodeId = Id<struct CodeTag>; // of the machine code of one kernel
using ConditionId = Id<struct ConditionTag>;

enum class SlotKind : uint8_t {
  argument, ///< given by the caller before each step
  weight,   ///< given once; lives in the Store
  state,    ///< lives in the Store from step to step
  loaded,   ///< computed once from weights by the load steps; lives in the Store
  constant, ///< bytes inside the plan
  arena,    ///< computed in a step, in the Context's arena
};

/// A region of memory that steps read and write. Row-major, packed as storage_bytes says.
struct Slot {
  std::string name;
  SlotKind kind = SlotKind::arena;
  TensorType type;
  Expr bytes;            ///< at the symbols' present values
  int64_t max_bytes = 0; ///< at the worst values in range
  int64_t offset = -1;   ///< arena: bytes from its begin, a multiple of 64
  bool pinned = false;   ///< arena: readable until the next step (results)
  bool used = true;      ///< by a step or as a result: an input that is not need not be given
  uint64_t key = 0;      ///< loaded: what it holds (structural hash), so that plans share it
  std::shared_ptr<const std::vector<std::byte>> data; ///< constant
};

/// A launch of at most so many points runs on at most so many workers.
struct WorkerCap {
  int64_t points;
  int workers;
};

/// Machine code of one kernel. Steps of equal structure share it.
struct KernelCode {
  std::string name;
  std::string entry;
  std::shared_ptr<const std::vector<std::byte>> object;
  std::vector<Expr> symbols;      ///< scalar arguments, in order
  Expr shared_bytes, local_bytes; ///< scratch of a launch, of a worker
  Expr points = 0;                ///< of its loops, over the plan's symbols
  /// A small launch is done before many workers would have begun.
  std::vector<WorkerCap> caps = {{16383, 1}};
  double point_ns = 0.05;   ///< what a point takes on one worker, estimated
  bool barriers = true;     ///< its workers wait for each other
  std::vector<bool> writes; ///< which of its buffers it writes; empty: any
  std::string note;         ///< one line for the report: schedule and why
  device::Threads threads;  ///< GPUs: how it is launched

  /// Of `all` workers, those that a launch of so many points runs on.
  int workers_at(int64_t launch_points, int all) const;
};

enum class StepKind : uint8_t { launch, copy, zero, check, loop, cond, host };

struct Step {
  StepKind kind = StepKind::launch;
  CodeId kernel; ///< launch
  /// launch: the kernel's buffers; copy: destination, source; zero, check: the slot; cond: bool
  /// slot; host: inputs, then results
  std::vector<SlotId> slots;
  Interval range;   ///< check: every integer in the slot lies in it, else the step fails
  std::string text; ///< check: whose index it is; host: the effect's text
  /// check: the integers are also below this, at the symbols' present values (0: no such limit)
  Expr limit = 0;
  /// check: where this condition holds, nothing else is done. Else the body runs and the slot is
  /// looked at; without one the step fails
  ConditionId enough;
  // loop
  Expr count, counter; ///< runs count times; `counter` is the plan symbol that holds the step's number
  SlotId condition;    ///< bool slot that must hold before each turn (and its steps in `otherwise`), or none
  SlotId taken;        ///< i64 slot that receives the number of turns, or none
  std::vector<Step> body, otherwise; ///< loop: the turn, the condition's steps; cond: then, else
  HostAttr host;
  int64_t time_hint = 0; ///< bytes moved at the largest sizes; for reports
};

struct PlanResult {
  std::string name;
  SlotId slot;
};

struct Plan {
  std::string name;
  std::vector<Expr> symbols;     ///< dimension symbols and loop counters; their ranges are the plan's domain
  std::vector<Expr> assumptions; ///< conditions over the symbols, checked before a step
  IdVector<ConditionId, Expr> conditions; ///< over the symbols; Step::enough says what for
  IdVector<SlotId, Slot> slots;
  IdVector<CodeId, KernelCode> kernels;
  std::vector<Step> load_steps, steps;
  std::vector<PlanResult> results;
  int64_t arena_bytes = 0;          ///< address space; only touched pages cost memory
  int64_t load_arena_bytes = 0;     ///< of the load steps
  std::vector<std::string> devices; ///< where its values lie; none: on the processor
  std::vector<std::string> notes;   ///< decisions, one line each, for report()

  SlotId find_slot(std::string_view name, SlotKind kind) const; ///< or none
  /// Arena, states and loaded values at the worst: what a limit of the caller is held against.
  int64_t memory_bytes() const;
  /// The same where each slot has so many bytes: what running at these sizes touches.
  int64_t memory_bytes(const IdVector<SlotId, int64_t>& slot_bytes) const;
};

/// Fails where the plan may need more than `max_memory` bytes (0: no limit), with the numbers.
Result<void> check_memory_limit(const Plan& plan, int64_t max_memory);
/// "1.5 GiB", "512 bytes"
std::string memory_text(int64_t bytes);

/// Readable text: slots, kernels, steps.
std::string to_string(const Plan& plan);

/// Sets Slot::used by what steps, load steps and results name.
void mark_used_slots(Plan& plan);

/// Gives every arena slot that is used by `steps` an offset such that slots alive at the same time
/// never overlap; returns the size of the arena. A slot lives from the first step that names it to
/// the last; inside a loop, for the whole loop.
int64_t place_in_arena(const std::vector<Step>& steps, IdVector<SlotId, Slot>& slots);

} // namespace luminal::runtime
