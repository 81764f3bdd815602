// tensor/host_units.h -- what graphs may be made for: instructions of this processor.
#pragma once

namespace luminal {

/// Are products of bytes faster than those of f32? Else an importer leaves them as they are written.
bool multiplies_bytes_fast();

} // namespace luminal
