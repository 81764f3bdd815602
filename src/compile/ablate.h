// compile/ablate.h -- private: a module planned again without each of the rules that applied to it.
#pragma once
#include "compile/compile.h"
#include "luminal/rule_worth.h"

namespace luminal::compile {

/// Nothing is measured, and no code is made. Failure: as compile.
Result<Ablation> ablate(const Module& module, const Options& options);

} // namespace luminal::compile
