// schedule/materialize.h -- where the stages of a cone read a value.
#pragma once
#include "cone/cone.h"

namespace luminal::kernel {

/// Do all stages but these two read the value only where the domain, over axes of its writer, holds?
bool read_within(const Cone& cone, const Component& stored, Expr domain, StageId writer, StageId reader);

} // namespace luminal::kernel
