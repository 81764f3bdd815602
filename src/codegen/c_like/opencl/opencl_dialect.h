// codegen/c_like/opencl/opencl_dialect.h -- OpenCL C.
#pragma once
#include "codegen/c_like/dialect.h"

namespace luminal::codegen {
extern const Dialect opencl_dialect;
}
