// codegen/c_like/prelude.h -- functions that all C-like languages share, made for the types that a
// text uses.
#pragma once
#include "base/result.h"
#include "codegen/c_like/dialect.h"
#include "ir/dtype.h"
#include <set>
#include <string>

namespace luminal::codegen {

/// Functions that a text calls: "lum_min_f32".
using PreludeUse = std::set<std::string>;

/// The dialect's prelude, and the definitions of these functions and of those that they call, in order.
/// Failure: the name of one that the language does not have.
Result<std::string> prelude_functions(const Dialect& dialect, const PreludeUse& used, bool f64);

} // namespace luminal::codegen
