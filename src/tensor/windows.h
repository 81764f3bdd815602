// tensor/windows.h -- what convolution and pooling share.
#pragma once
#include "luminal/nn_functions.h"
#include "tensor/compose.h"

namespace luminal {

/// One number for each of the axes; throws where there are others, or one below `least`.
std::vector<int64_t> for_axes(std::string_view op, const Ints& numbers, size_t axes, int64_t least,
                              std::string_view what, Where where);

} // namespace luminal
