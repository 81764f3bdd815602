// codegen/c_like/hip/hip_dialect.h -- HIP C++.
#pragma once
#include "codegen/c_like/dialect.h"

namespace luminal::codegen {
extern const Dialect hip_dialect;
}
