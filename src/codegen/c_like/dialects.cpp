// codegen/c_like/dialects.cpp -- the languages by name.
#include "codegen/c_like/c/c_dialect.h"
#include "codegen/c_like/cuda/cuda_dialect.h"
#include "codegen/c_like/dialect.h"
#include "codegen/c_like/hip/hip_dialect.h"
#include "codegen/c_like/metal/metal_dialect.h"
#include "codegen/c_like/opencl/opencl_dialect.h"
#include <algorithm>
#include <array>

namespace luminal::codegen {

std::span<const Dialect* const> dialects() {
  static constexpr std::array<const Dialect*, 5> all = {&opencl_dialect, &cuda_dialect, &hip_dialect,
                                                        &metal_dialect, &c_dialect};
  return all;
}
const Dialect* find_dialect(std::string_view name) {
  const auto found = std::ranges::find(dialects(), name, &Dialect::name);
  return found == dialects().end() ? nullptr : *found;
}

} // namespace luminal::codegen
