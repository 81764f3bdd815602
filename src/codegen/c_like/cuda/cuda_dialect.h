// codegen/c_like/cuda/cuda_dialect.h -- CUDA C++.
#pragma once
#include "codegen/c_like/dialect.h"

namespace luminal::codegen {
extern const Dialect cuda_dialect;
}
