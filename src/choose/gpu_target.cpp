// choose/gpu_target.cpp -- limits of GPUs.
//
// Sources: CUDA C++ Programming Guide, table of compute capabilities; AMD CDNA and RDNA instruction set
// guides (wavefronts, LDS); Metal Feature Set Tables (threadgroup memory).
#include "choose/gpu_target.h"
#include "loop/unit.h"
#include <algorithm>
#include <charconv>

namespace luminal::kernel {
namespace {

/// 90 of "sm_90a"; 0 where it is not known.
int capability(std::string_view architecture) {
  int number = 0;
  if (architecture.starts_with("sm_"))
    std::from_chars(architecture.data() + 3, architecture.data() + architecture.size(), number);
  return number;
}

std::vector<std::string> units_of(std::string_view target) {
  std::vector<std::string> names;
  for (const std::string& name : unit_names()) {
    const std::optional<Unit> unit = find_unit(name);
    if (unit->lanes > 1 && unit->a.map.places > 0 &&
        std::ranges::find(unit->targets, target) != unit->targets.end())
      names.push_back(name);
  }
  return names;
}

} // namespace

std::optional<GpuTarget> gpu_target(std::string_view language, std::string_view architecture) {
  GpuTarget target;
  if (language == "cuda") {
    if (capability(architecture) < 80) return target;
    // Asynchronous copies and mma.m16n8k16 are in all that came later, too.
    target.tiles = 3;
    target.group_bytes = 99 << 10; // of sm_86 and sm_89; others have more
    target.units = units_of("sm_80");
    return target;
  }
  if (language == "hip") {
    target.group_bytes = 64 << 10;
    if (architecture.starts_with("gfx9")) target.warp = 64; // CDNA and GCN; RDNA has waves of 32
    target.units = units_of(architecture);
    return target;
  }
  if (language == "metal") {
    target.group_bytes = 32 << 10;
    target.groups = 32;
    return target;
  }
  return {};
}

} // namespace luminal::kernel
