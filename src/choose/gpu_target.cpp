// choose/gpu_target.cpp -- limits of GPUs.
//
// Sources: CUDA C++ Programming Guide, table of compute capabilities; AMD CDNA and RDNA instruction set
// guides (wavefronts, LDS); Metal Feature Set Tables (threadgroup memory).
#include "choose/gpu_target.h"

namespace luminal::kernel {

std::optional<GpuTarget> gpu_target(std::string_view language, std::string_view architecture) {
  GpuTarget target;
  if (language == "cuda") return target;
  if (language == "hip") {
    target.group_bytes = 64 << 10;
    if (architecture.starts_with("gfx9")) target.warp = 64; // CDNA and GCN; RDNA has waves of 32
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
