// choose/gpu_target.h -- what schedules have to know of a GPU: plain data, by language and architecture.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace luminal::kernel {

struct GpuTarget {
  int lanes = 256;                ///< of a group that works on one tile
  int most_lanes = 1024;          ///< of any group
  int warp = 32;                  ///< lanes that run in step
  int64_t group_bytes = 48 << 10; ///< memory of a group that every launch may have
  int results = 64;               ///< accumulators of f32 that a lane keeps in registers
  int64_t groups = 128;           ///< that run at the same time, about
  int tiles = 1; ///< of an operand in a group's memory: more where copies go on beside the lanes
  std::vector<std::string> units = {}; ///< of several lanes (loop/unit.h)
  bool operator==(const GpuTarget&) const = default;
};

/// Of a device that runs this language: "cuda" ("sm_90"), "hip" ("gfx942"), "metal". Nothing for languages
/// whose devices may be processors, where lanes of a group are not threads ("opencl", "c").
/// Architectures that are not known have the limits that all of the language's devices keep.
std::optional<GpuTarget> gpu_target(std::string_view language, std::string_view architecture);

} // namespace luminal::kernel
