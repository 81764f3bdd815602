// runtime/plan.h -- a plan: what to launch, in which order, on which memory. Immutable once made,
// shared between threads; all that changes from step to step (symbol values, addresses) lives in a
// Context, what outlives a step in a Store.
#pragma once
#include "base/id.h"
#include "base/result.h"
#include "base/variant.h"
#include "device/device.h"
#include "expr/expr.h"
#include "ir/term.h"
#include <functional>
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

struct Step;
using Steps = std::vector<Step>;

/// Runs a kernel on its buffers, in their order.
struct Launch {
  CodeId kernel;
  std::vector<SlotId> slots;
};
struct Copy {
  SlotId to, from;
};
struct Zero {
  SlotId slot;
};
/// Fails unless every integer in the slot lies in the range and, where there is a limit, below it.
struct RangeCheck {
  SlotId slot;
  Interval range;
  Expr limit = 0;   ///< at the symbols' present values; 0: none
  std::string text; ///< whose index it is
};
/// Where the condition holds, nothing is done. Else the body looks at each access, and the step
/// fails where `violation` is not 0 afterwards; without a body it fails at once.
struct AccessCheck {
  ConditionId enough;
  SlotId violation; ///< or none: no body
  Steps body;
  std::string text; ///< whose access it is
};
/// Runs its body `count` times, or until the condition does not hold.
struct Loop {
  Expr count, counter;     ///< `counter` is the plan symbol that holds the turn's number
  Steps body, test;        ///< a turn; before it, what computes the condition
  SlotId condition, taken; ///< a bool and an i64, the number of turns that were taken; or none
};
struct Cond {
  SlotId condition; ///< a bool
  Steps then, otherwise;
};
/// A function of the host fills the results.
struct HostCall {
  HostAttr function;
  std::vector<SlotId> inputs, results;
};

struct Step : Variant<Launch, Copy, Zero, RangeCheck, AccessCheck, Loop, Cond, HostCall> {
  using Variant::Variant;
};
/// Those that it names itself, without those of steps inside of it.
std::vector<SlotId> slots_of(const Step& step);
/// The steps inside of it.
std::vector<const Steps*> bodies_of(const Step& step);
/// Each step, then those inside of it.
void for_each_step(const Steps& steps, const std::function<void(const Step&)>& see);

struct PlanResult {
  std::string name;
  SlotId slot;
};

struct Plan {
  std::string name;
  std::vector<Expr> symbols;     ///< dimension symbols and loop counters; their ranges are the plan's domain
  std::vector<Expr> assumptions; ///< conditions over the symbols, checked before a step
  IdVector<ConditionId, Expr> conditions; ///< over the symbols; AccessCheck says what for
  IdVector<SlotId, Slot> slots;
  IdVector<CodeId, KernelCode> kernels;
  Steps load_steps, steps;
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

/// Readable text: slots, kernels, steps.
std::string to_string(const Plan& plan);

} // namespace luminal::runtime
