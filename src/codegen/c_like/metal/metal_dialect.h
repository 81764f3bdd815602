// codegen/c_like/metal/metal_dialect.h -- Metal Shading Language.
#pragma once
#include "codegen/c_like/dialect.h"

namespace luminal::codegen {
extern const Dialect metal_dialect;
}
