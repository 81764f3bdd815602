// choose/default_schedule.h -- a good first schedule from the axes of a cone alone: a pure
// function, no measuring.
#pragma once
#include "choose/decisions.h"
#include "choose/gpu_target.h"
#include "cone/cone.h"
#include "loop/loop.h"
#include "schedule/schedule.h"

namespace luminal::kernel {

/// What the default schedule has to know of the machine. Cache sizes in bytes, for one worker (l3:
/// shared by all).
struct MachineLimits {
  int lanes = 16;
  int vector_registers = 32; ///< 0: a device of many threads, without vectors (choose/flat_schedule.h)
  /// A multiply-add takes one element for all lanes from memory; else that takes a register.
  bool memory_operands = true;
  /// Two multiply-adds of whole vectors a cycle, faster than any cache but the first brings operands.
  bool full_rate = false;
  int64_t l1 = 32 << 10, l2 = 1 << 20, l3 = 32 << 20;
  int threads = 1;
  /// Dot instructions on values (find_lane_unit) and units with tile registers that it has, the best first.
  std::vector<std::string> units;
  /// Groups of lanes of a device of many threads; none: threads that know nothing of each other.
  std::optional<GpuTarget> gpu;
};

/// Legal for every well-formed cone: lower(cone, default_schedule(cone, limits)) succeeds.
Schedule default_schedule(const Cone& cone, const MachineLimits& limits);

/// A schedule and what it lowers to, which choosing has to find out anyway.
struct DefaultKernel {
  Schedule schedule;
  Result<Kernel> kernel;
  std::vector<Decision> decisions = {}; ///< that led to it
};
/// How much of a schedule is chosen. full: stages share loops, large products are packed; separate:
/// each stage has its own nest; bare: serial loops.
enum class Fallback : uint8_t { full, separate, bare };

/// What default_kernel tries to lower first, and almost always can.
struct ProposedSchedule {
  Fallback fallback;
  Schedule schedule;
  Schedule one_version; ///< without those for few and for many rows
  Decisions decisions;
};
/// None for devices without vectors.
std::optional<ProposedSchedule> propose_schedule(const Cone& cone, const MachineLimits& limits,
                                                 const Answers& answers = {});

/// With answers: the schedule that follows from them, where they lead to a legal one, else a
/// simpler one.
DefaultKernel default_kernel(const Cone& cone, const MachineLimits& limits, const Answers& answers = {});
/// The same; what propose_schedule gave is not chosen again.
DefaultKernel default_kernel(const Cone& cone, const MachineLimits& limits, const Answers& answers,
                             std::optional<ProposedSchedule> first);

} // namespace luminal::kernel
