// compile/image_sums.h -- sums of products over windows that are larger than the image they are read
// from, as sums over the image.
#pragma once
#include "ir/term.h"

namespace luminal::compile {

/// Would sums_over_images change it?
bool has_windows_beyond_images(const Function& function);
/// Each window of 3 over an image of 1 meets one element and two zeros; a transposed convolution with
/// windows of 4 over an image of 1 reads each of its 4 weights for one result, and adds 3 zeros. Where all
/// windows together read a weight for no more than one of an image's elements, the sum runs over the image
/// in place of the window, with a copy of the weights that it reads in the order of the results; what the
/// zeros add is a sum of its own (0 times a weight, which is not 0 where that is infinite or no number).
/// The products that are left are added in the same order.
Function sums_over_images(const Module& module, const Function& function);

} // namespace luminal::compile
