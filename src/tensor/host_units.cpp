// tensor/host_units.cpp -- asked once.
#include "tensor/host_units.h"
#include "compile/target.h"

namespace luminal {

bool multiplies_bytes_fast() {
  static const bool fast = compile::host_multiplies_bytes();
  return fast;
}

} // namespace luminal
