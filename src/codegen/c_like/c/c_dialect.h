// codegen/c_like/c/c_dialect.h -- plain C.
#pragma once
#include "codegen/c_like/dialect.h"

namespace luminal::codegen {
extern const Dialect c_dialect;
}
