// ir/most_bytes.h -- how much memory a value may take.
#pragma once
#include "ir/term.h"

namespace luminal {

/// Bytes of a value at the largest sizes of its dimensions; one without a limit counts as a million.
double most_bytes(const TensorType& type);

} // namespace luminal
